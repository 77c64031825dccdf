package bank

import (
	"fmt"
	"slices"
	"strings"
)

// Rule is how one profile serves some kinds and widths of access.
type Rule struct {
	Kinds  []Kind
	Widths []int
	Phases [][]int // the lanes of each phase; together every lane once
	Banks  int     // banks that such an access sees; 0 takes the profile's
	Source string
}

func (r Rule) banks(p Profile) int {
	if r.Banks != 0 {
		return r.Banks
	}
	return p.Banks
}

// PhaseOf is the phase of each lane.
func (r Rule) PhaseOf() []int {
	n := 0
	for _, ph := range r.Phases {
		n += len(ph)
	}
	out := make([]int, n)
	for i, ph := range r.Phases {
		for _, lane := range ph {
			out[lane] = i
		}
	}
	return out
}

// Profile is one kind of shared memory.
type Profile struct {
	Name      string
	Aliases   []string
	Doc       string
	Lanes     int // of a warp or wave
	Banks     int
	BankBytes int
	Rules     []Rule
	Merge     []int // widths of loads of which two phases fuse where neighbouring lanes want the same bytes
	AllRows   bool  // ldmatrix wants a valid row address from every lane
}

// Rule is the rule for a kind and width of access; the error says which there are.
func (p Profile) Rule(kind Kind, width int) (Rule, error) {
	var widths []int
	for _, r := range p.Rules {
		if !slices.Contains(r.Kinds, kind) {
			continue
		}
		if slices.Contains(r.Widths, width) {
			return r, nil
		}
		widths = append(widths, r.Widths...)
	}
	if widths == nil {
		return Rule{}, fmt.Errorf("%s has no %s", p.Name, kind)
	}
	slices.Sort(widths)
	return Rule{}, fmt.Errorf("a %s on %s takes %s bytes a lane, not %d", kind, p.Name,
		strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Compact(widths)), " ", ", "), "[]"), width)
}

// Nvidia is the profile of NVIDIA GPUs from compute capability 5.0 on.
func Nvidia() Profile { return Profiles()[0] }

// merges says whether phases of such accesses may fuse.
func (p Profile) merges(kind Kind, width int) bool {
	return kind == Load && slices.Contains(p.Merge, width)
}

// FindProfile looks a profile up by name or alias.
func FindProfile(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == strings.ToLower(name) || slices.Contains(p.Aliases, strings.ToLower(name)) {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("no shared memory is called %q; there are %s", name, strings.Join(names, ", "))
}

// runs cuts lanes into phases of n consecutive ones.
func runs(lanes, n int) [][]int {
	var out [][]int
	for lane := range lanes {
		if lane%n == 0 {
			out = append(out, nil)
		}
		out[lane/n] = append(out[lane/n], lane)
	}
	return out
}

// byBits cuts 64 lanes into phases whose number has, as bit i, the parity of the
// lane's bits that masks[i] names.
func byBits(masks ...int) [][]int {
	out := make([][]int, 1<<len(masks))
	for lane := range 64 {
		n := 0
		for i, m := range masks {
			n |= parity(lane&m) << i
		}
		out[n] = append(out[n], lane)
	}
	return out
}

const (
	guide      = "CUDA programming guide, shared memory of compute capability 5.x and later"
	forum      = "NVIDIA developer forum: 8-byte accesses go by half warps, 16-byte ones by quarters"
	triton     = "triton-lang/triton pull requests 11365 and 9662 (by AMD engineers)"
	hipKittens = "HazyResearch/HipKittens, analysis/paper_experiments/phases, measured with rocprofv3 on gfx950"
	assumed    = "assumption: consecutive lanes fill the banks once"
)

// Profiles lists what is known, NVIDIA first.
func Profiles() []Profile {
	loads, stores := []Kind{Load}, []Kind{Store}
	both := []Kind{Load, Store}
	nvidia := []Rule{
		{Kinds: both, Widths: []int{1, 2, 4}, Phases: runs(32, 32), Source: guide},
		{Kinds: both, Widths: []int{8}, Phases: runs(32, 16), Source: forum},
		{Kinds: both, Widths: []int{16}, Phases: runs(32, 8), Source: forum},
		{Kinds: []Kind{LdMatrix, StMatrix}, Widths: []int{16}, Phases: runs(32, 8), Source: "PTX ISA, ldmatrix: row addresses of matrix m come from lanes 8m to 8m+7; one phase a matrix by " + forum},
		{Kinds: []Kind{CpAsync}, Widths: []int{4}, Phases: runs(32, 32), Source: "PTX ISA, cp.async; the cost of a store is our assumption"},
		{Kinds: []Kind{CpAsync}, Widths: []int{8}, Phases: runs(32, 16), Source: "PTX ISA, cp.async; the cost of a store is our assumption"},
		{Kinds: []Kind{CpAsync, CpAsyncGlobal}, Widths: []int{16}, Phases: runs(32, 8), Source: "PTX ISA, cp.async; the cost of a store is our assumption"},
	}
	contiguous := []Rule{
		{Kinds: both, Widths: []int{1, 2, 4}, Phases: runs(64, 32), Source: assumed},
		{Kinds: both, Widths: []int{8}, Phases: runs(64, 16), Source: assumed},
		{Kinds: both, Widths: []int{12, 16}, Phases: runs(64, 8), Source: "iree-org/iree models parts before MI350 so"},
	}
	return []Profile{
		{Name: "nvidia", Doc: "NVIDIA from compute capability 5.0 on", Lanes: 32, Banks: 32, BankBytes: 4, Rules: nvidia},
		{Name: "nvidia-cc7", Aliases: []string{"sm_70", "sm_75"}, Lanes: 32, Banks: 32, BankBytes: 4, Rules: nvidia, Merge: []int{16}, AllRows: true,
			Doc: "compute capability 7.x: phases of equal 16-byte loads merge, ldmatrix wants an address from every lane"},
		{Name: "nvidia-sm90", Aliases: []string{"sm_90", "sm_90a", "h100", "h200"}, Lanes: 32, Banks: 32, BankBytes: 4, Rules: nvidia, Merge: []int{8, 16},
			Doc: "compute capability 9.0, as the clock of an H200 shows it (tests/record/banks.json): phases of equal 8- and 16-byte loads merge"},
		{Name: "mi300", Aliases: []string{"cdna3", "gfx942"}, Doc: "AMD MI300: 16-byte reads in 8 phases of two far groups of 4 lanes",
			Lanes: 64, Banks: 32, BankBytes: 4, Rules: []Rule{
				{Kinds: both, Widths: []int{1, 2, 4}, Phases: runs(64, 32), Source: assumed},
				{Kinds: both, Widths: []int{8}, Phases: runs(64, 16), Source: assumed},
				{Kinds: both, Widths: []int{12}, Phases: runs(64, 8), Source: assumed},
				{Kinds: loads, Widths: []int{16}, Phases: byBits(1<<5, 1<<2|1<<4, 1<<3), Source: triton},
				{Kinds: stores, Widths: []int{16}, Phases: runs(64, 8), Source: assumed},
			}},
		{Name: "mi350", Aliases: []string{"cdna4", "gfx950"}, Doc: "AMD MI350: 64 banks for 8- and 16-byte reads",
			Lanes: 64, Banks: 64, BankBytes: 4, Rules: []Rule{
				{Kinds: loads, Widths: []int{1, 2, 4}, Phases: runs(64, 64), Source: assumed},
				{Kinds: loads, Widths: []int{8}, Phases: runs(64, 32), Source: hipKittens},
				{Kinds: loads, Widths: []int{12}, Phases: byBits(1<<2|1<<4, 1<<3, 1<<5), Banks: 32, Source: hipKittens},
				{Kinds: loads, Widths: []int{16}, Phases: byBits(1<<5, 1<<2|1<<3|1<<4), Source: triton + "; " + hipKittens},
				{Kinds: stores, Widths: []int{1, 2, 4}, Phases: runs(64, 32), Banks: 32, Source: assumed},
				{Kinds: stores, Widths: []int{8}, Phases: runs(64, 16), Banks: 32, Source: hipKittens},
				{Kinds: stores, Widths: []int{12, 16}, Phases: runs(64, 8), Banks: 32, Source: assumed},
			}},
		{Name: "contiguous", Aliases: []string{"mi300-contiguous", "mi200", "gfx90a"}, Doc: "AMD as compilers other than Triton model it: phases of consecutive lanes",
			Lanes: 64, Banks: 32, BankBytes: 4, Rules: contiguous},
	}
}
