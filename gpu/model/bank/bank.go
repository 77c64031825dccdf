// Package bank says what a memory access of a warp costs: how often shared memory
// must be read or written to serve it (bank conflicts), and how many sectors of
// global memory it touches. A bank conflict is defined here and nowhere else: the
// simulator's counters, the pictures and the command line all ask this package.
//
// # The model
//
// Shared memory is cut into words of 4 bytes that lie in banks round robin: word w
// is in bank w mod 32. A warp's access is served in phases, sets of lanes that go
// together: all 32 for accesses up to 4 bytes a lane, half a warp for 8, a quarter
// for 16, and the eight row addresses of one matrix for ldmatrix. In a phase a bank
// hands out one word per wavefront, to all lanes that want a byte of it. So
//
//	degree of a phase = the most distinct words that one bank is asked for
//	wavefronts        = sum of the degrees
//	ideal             = number of phases in which a lane takes part
//	conflicts         = wavefronts - ideal
//
// A [Profile] is that as data: banks, lanes, and the phases of each access width;
// AMD's local data share is the same model with other phases. [Count] counts by
// enumeration and says why; [Rank] computes the degree of XOR-linear accesses from
// ranks over F2, and tests hold the two together. [Search] looks for a placement
// (padding, swizzles, general XOR maps) without conflicts; [TMAMode], [TensorMap]
// and [Descriptor] are the hardware's own names for such placements.
//
// Source: CUDA programming guide, compute capability 5.x and later (banks,
// broadcast); NVIDIA developer forum (phases of 8- and 16-byte accesses); PTX ISA,
// ldmatrix, stmatrix, cp.async.
package bank

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Kind says which instruction makes an access.
type Kind uint8

// The kinds of access. A CpAsync writes shared memory like a Store; CpAsyncGlobal
// is its form that bypasses L1 and exists for 16 bytes only. LdMatrix and StMatrix
// take one 16-byte row address from each of 8 lanes a matrix.
const (
	Load Kind = iota
	Store
	LdMatrix
	StMatrix
	CpAsync
	CpAsyncGlobal
)

var kindNames = [...]string{"load", "store", "ldmatrix", "stmatrix", "cp.async", "cp.async.cg"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", k)
}

// MarshalText is String, for JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is ParseKind.
func (k *Kind) UnmarshalText(text []byte) (err error) {
	*k, err = ParseKind(string(text))
	return err
}

// ParseKind reads what String prints.
func ParseKind(name string) (Kind, error) {
	for i, n := range kindNames {
		if n == name {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("no kind of access is called %q; there are %s", name, strings.Join(kindNames[:], ", "))
}

// matrix says whether the lanes give row addresses of 8×8 matrices.
func (k Kind) matrix() bool { return k == LdMatrix || k == StMatrix }

// Inactive is the address of a lane that takes no part.
const Inactive = -1

// maxAddr bounds byte addresses, so that sums stay far from overflow.
const maxAddr = 1 << 40

// Access is one access of a warp (a wave on AMD) to shared memory.
type Access struct {
	Kind  Kind  `json:"kind"`
	Width int   `json:"width"` // bytes per lane; 16 per row for ldmatrix and stmatrix
	Addrs []int `json:"addrs"` // byte address of each lane, or Inactive; lanes beyond the end are inactive

	// Matrices is the number of 8×8 matrices of ldmatrix and stmatrix: 1, 2 or 4. 0
	// takes one for every 8 addresses.
	Matrices int `json:"matrices,omitempty"`
	// Source is how many bytes each lane of a cp.async reads; the rest of Width is
	// filled with zeros. nil reads all.
	Source []int `json:"source,omitempty"`
}

// AccessError says why an access does not exist, and which lane is at fault.
type AccessError struct {
	Lane int // -1 where no single lane is at fault
	Msg  string
}

func (e *AccessError) Error() string {
	if e.Lane < 0 {
		return e.Msg
	}
	return fmt.Sprintf("lane %d: %s", e.Lane, e.Msg)
}

// Request is one word that a bank hands out in a phase, and the lanes that it goes to.
type Request struct {
	Bank  int   `json:"bank"`
	Word  int   `json:"word"`
	Lanes []int `json:"lanes"`
}

// Phase is one set of lanes that are served together.
type Phase struct {
	Number   int       `json:"number"`
	Lanes    []int     `json:"lanes"`    // those that take part, ascending
	Requests []Request `json:"requests"` // by bank, then word
	Degree   int       `json:"degree"`   // wavefronts that the phase takes; 0 where no lane takes part
	Bank     int       `json:"bank"`     // the (lowest) bank with most words; -1 where no lane takes part
	Pair     [2]int    `json:"pair"`     // two lanes that want different words of Bank; -1, -1 where Degree < 2
	Why      string    `json:"why"`      // a sentence
}

// Report is the cost of one access.
type Report struct {
	Profile    string  `json:"profile"`
	Access     Access  `json:"access"`
	Banks      int     `json:"banks"` // banks that the access sees
	BankBytes  int     `json:"bank_bytes"`
	Phases     []Phase `json:"phases"`
	Wavefronts int     `json:"wavefronts"`
	Ideal      int     `json:"ideal"`     // phases in which a lane takes part
	Conflicts  int     `json:"conflicts"` // Wavefronts - Ideal
	Merged     bool    `json:"merged,omitempty"`
	ZeroFilled int     `json:"zero_filled,omitempty"` // bytes that a cp.async fills with zeros
}

// Degrees is the degree of each phase.
func (r Report) Degrees() []int {
	out := make([]int, len(r.Phases))
	for i, p := range r.Phases {
		out[i] = p.Degree
	}
	return out
}

// Say is the report as one sentence.
func (r Report) Say() string {
	if r.Ideal == 0 {
		return "No lane takes part: nothing is read or written."
	}
	worst := r.Phases[0]
	for _, p := range r.Phases {
		if p.Degree > worst.Degree {
			worst = p
		}
	}
	head := fmt.Sprintf("%s for %s", count(r.Wavefronts, "wavefront"), count(r.Ideal, "phase"))
	if r.Conflicts == 0 {
		return head + ": no bank conflict."
	}
	return fmt.Sprintf("%s, %d more than ideal: in phase %d %s", head, r.Conflicts, worst.Number, worst.Why)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Count serves an access and says what each phase costs and why. The error is an
// [*AccessError] where the access is not one that the hardware makes.
func Count(p Profile, a Access) (Report, error) {
	a, rule, err := p.check(a)
	if err != nil {
		return Report{}, err
	}
	r := Report{Profile: p.Name, Access: a, Banks: rule.banks(p), BankBytes: p.BankBytes}
	phases := rule.Phases
	if a.Kind.matrix() {
		phases = phases[:a.Matrices]
	}
	if p.merges(a.Kind, a.Width) {
		phases, r.Merged = mergePairs(phases, a.Addrs)
	}
	for i, lanes := range phases {
		ph := servePhase(p, r.Banks, a, lanes)
		ph.Number = i
		r.Phases = append(r.Phases, ph)
		r.Wavefronts += ph.Degree
		if ph.Degree > 0 {
			r.Ideal++
		}
	}
	r.Conflicts = r.Wavefronts - r.Ideal
	for lane, n := range a.Source {
		if lane < len(a.Addrs) && a.Addrs[lane] != Inactive {
			r.ZeroFilled += a.Width - n
		}
	}
	return r, nil
}

// servePhase counts one phase.
func servePhase(p Profile, banks int, a Access, lanes []int) Phase {
	ph := Phase{Bank: -1, Pair: [2]int{-1, -1}}
	at := map[int]int{} // word → its request
	for _, lane := range lanes {
		if lane >= len(a.Addrs) || a.Addrs[lane] == Inactive {
			continue
		}
		ph.Lanes = append(ph.Lanes, lane)
		for w := a.Addrs[lane] / p.BankBytes; w <= (a.Addrs[lane]+a.Width-1)/p.BankBytes; w++ {
			i, ok := at[w]
			if !ok {
				i = len(ph.Requests)
				at[w] = i
				ph.Requests = append(ph.Requests, Request{Bank: w % banks, Word: w})
			}
			ph.Requests[i].Lanes = append(ph.Requests[i].Lanes, lane)
		}
	}
	slices.SortFunc(ph.Requests, func(x, y Request) int {
		if x.Bank != y.Bank {
			return x.Bank - y.Bank
		}
		return x.Word - y.Word
	})
	first := 0 // the first request of the worst bank
	for i := 0; i < len(ph.Requests); {
		j := i + 1
		for j < len(ph.Requests) && ph.Requests[j].Bank == ph.Requests[i].Bank {
			j++
		}
		if j-i > ph.Degree {
			ph.Degree, ph.Bank, first = j-i, ph.Requests[i].Bank, i
		}
		i = j
	}
	if ph.Degree > 1 {
		ph.Pair = offenders(ph.Requests[first : first+ph.Degree])
	}
	ph.Why = why(p, banks, a, ph, ph.Requests[first:min(first+max(ph.Degree, 1), len(ph.Requests))])
	return ph
}

// offenders are two lanes that want different words of a bank: the first pair,
// or twice the same lane where it alone asks for more than one.
func offenders(requests []Request) [2]int {
	for i, r := range requests {
		for _, s := range requests[i+1:] {
			for _, x := range r.Lanes {
				for _, y := range s.Lanes {
					if x != y {
						return [2]int{x, y}
					}
				}
			}
		}
	}
	return [2]int{requests[0].Lanes[0], requests[0].Lanes[0]}
}

// why says in a sentence what a phase costs.
func why(p Profile, banks int, a Access, ph Phase, worst []Request) string {
	switch {
	case ph.Degree == 0:
		return "no lane takes part."
	case ph.Degree == 1:
		shared := 0
		for _, r := range ph.Requests {
			shared = max(shared, len(r.Lanes))
		}
		words := fmt.Sprintf("%s in as many banks", count(len(ph.Requests), "word"))
		if len(ph.Requests) == 1 {
			words = "one word"
		}
		if shared > 1 {
			return fmt.Sprintf("%s, up to %d lanes share one (broadcast): one wavefront.", words, shared)
		}
		return words + ": one wavefront."
	}
	x, y := ph.Pair[0], ph.Pair[1]
	wx, wy := wordIn(worst, x, -1), -1
	wy = wordIn(worst, y, wx)
	return fmt.Sprintf("bank %d is asked for %d different words: lane %d wants word %d (byte 0x%x), lane %d word %d (byte 0x%x), %d bytes apart, and banks repeat every %d.",
		ph.Bank, ph.Degree, x, wx, wx*p.BankBytes, y, wy, wy*p.BankBytes, abs(wy-wx)*p.BankBytes, banks*p.BankBytes)
}

// wordIn is the first word that lane wants among requests, other than not.
func wordIn(requests []Request, lane, not int) int {
	for _, r := range requests {
		if r.Word != not && slices.Contains(r.Lanes, lane) {
			return r.Word
		}
	}
	return -1
}

func abs(x int) int { return max(x, -x) }

// check fills in what the access leaves out and refuses what does not exist.
func (p Profile) check(a Access) (Access, Rule, error) {
	fail := func(lane int, format string, args ...any) (Access, Rule, error) {
		return Access{}, Rule{}, &AccessError{lane, fmt.Sprintf(format, args...)}
	}
	if a.Kind.matrix() && a.Width == 0 {
		a.Width = 16
	}
	rule, err := p.Rule(a.Kind, a.Width)
	if err != nil {
		return fail(-1, "%s", err)
	}
	if len(a.Addrs) > p.Lanes {
		return fail(-1, "%d addresses for the %d lanes of %s", len(a.Addrs), p.Lanes, p.Name)
	}
	used := p.Lanes
	if a.Kind.matrix() {
		if a.Matrices == 0 {
			if len(a.Addrs)%8 != 0 {
				return fail(-1, "%d row addresses; every matrix takes 8", len(a.Addrs))
			}
			a.Matrices = len(a.Addrs) / 8
		}
		if a.Matrices != 1 && a.Matrices != 2 && a.Matrices != 4 {
			return fail(-1, "%s moves 1, 2 or 4 matrices, not %d", a.Kind, a.Matrices)
		}
		used = 8 * a.Matrices
		if p.AllRows {
			used = p.Lanes
		}
	} else if a.Matrices != 0 {
		return fail(-1, "a %s has no matrices", a.Kind)
	}
	if !a.Kind.matrix() {
		used = len(a.Addrs)
	}
	for lane := range used {
		switch {
		case lane >= len(a.Addrs) || a.Addrs[lane] == Inactive:
			if a.Kind.matrix() {
				return fail(lane, "%s takes a row address from lanes 0 to %d, and this lane gives none", a.Kind, used-1)
			}
		case a.Addrs[lane] < 0 || a.Addrs[lane] > maxAddr:
			return fail(lane, "address %d lies outside 0 to 2^40", a.Addrs[lane])
		case a.Addrs[lane]%p.alignment(a.Width) != 0:
			return fail(lane, "address %d (0x%x) is no multiple of %d, the bytes of the access", a.Addrs[lane], a.Addrs[lane], p.alignment(a.Width))
		}
	}
	if a.Source != nil && a.Kind != CpAsync && a.Kind != CpAsyncGlobal {
		return fail(-1, "only cp.async fills with zeros, not a %s", a.Kind)
	}
	for lane, n := range a.Source {
		if n < 0 || n > a.Width {
			return fail(lane, "reads %d bytes for %d; the source size lies between 0 and the size copied", n, a.Width)
		}
	}
	return a, rule, nil
}

// alignment of an access of width bytes: the width, or for AMD's 12-byte form the word.
func (p Profile) alignment(width int) int { return 1 << bits.TrailingZeros(uint(width)) }

// mergePairs fuses phases two by two, 16-byte ones of each half of a warp and the
// 8-byte ones of the whole, where in both together all lanes n and n^1, or all n and
// n^2, want the same bytes. Lanes that take no part do not stand in the way.
//
// Source: NVIDIA developer forum, on compute capability 7.x; tests/record/banks.json.
func mergePairs(phases [][]int, addrs []int) (out [][]int, merged bool) {
	same := func(lanes []int, flip int) bool {
		for _, n := range lanes {
			m := n ^ flip
			if n < len(addrs) && m < len(addrs) && addrs[n] != Inactive && addrs[m] != Inactive && addrs[n] != addrs[m] {
				return false
			}
		}
		return true
	}
	for i := 0; i+1 < len(phases); i += 2 {
		half := slices.Concat(phases[i], phases[i+1])
		if same(half, 1) || same(half, 2) {
			out, merged = append(out, half), true
		} else {
			out = append(out, phases[i], phases[i+1])
		}
	}
	return out, merged
}
