package arch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// The places where an operand may lie.
const (
	InRegisters = ""       // Layout is (lane, slot) → element
	InShared    = "shared" // Layout is (lane, element number) → element; the address is in a descriptor or in a register
	Unspecified = "open"   // the vendor does not say; Layout is empty
	InTensor    = "tmem"   // Layout is (tensor memory lane, column) → element, over 128 lanes, or (block, element number) → element
)

// Operand says where the elements of one operand of an instruction lie.
type Operand struct {
	// Name is "A", "B", "C", "D" of a product, "E" its sparsity metadata, "SA"
	// and "SB" its block scales; "S" and "D" source and destination of a copy.
	Name string
	Type dtype.Type
	// Shape is what the layout must cover: A is [M, K], B is [K, N], C and D are
	// [M, N], with the block number in front where an instruction makes several
	// products. A sparse A is as it is stored, [M, K/2].
	Shape  []int
	Layout layout.Layout
	// Replicas is the number of places that hold each element.
	Replicas int
	// Bits is the width of a slot where that is not Type.Bits(), such as 8 for
	// four-bit floats that stand in bytes.
	Bits int
	In   string // one of the places above
	// CuTe is the thread-value layout as CuTe writes it, where CuTe has the atom:
	// for products into column-major [M, K], [N, K] or [M, N], for copies into
	// bits. It is written from CuTe's conventions and not from Layout.
	CuTe string
	// CuTeType is the type of the operand in C++, where CuTe has the atom.
	CuTeType string
	Note     string
}

// SlotBits is the number of bits that a slot takes.
func (o Operand) SlotBits() int {
	if o.Bits != 0 {
		return o.Bits
	}
	return o.Type.Bits()
}

// Atom is one matrix or copy instruction.
type Atom struct {
	Name    string // unique; shape, type of sums, types of inputs, variant
	Vendor  string // "nvidia" or "amd"
	Family  string // such as "mma", "ldmatrix", "wgmma", "mfma"
	Aliases []string
	// M, N, K is the size of one product, 0 for a copy. Blocks is the number of
	// products, at least 1.
	M, N, K, Blocks int
	// Lanes is how many threads take part.
	Lanes int
	// ThrID maps the numbers of lanes to lanes of the warp in CuTe notation,
	// where that is not the identity.
	ThrID    string
	Operands []Operand
	Since    string   // first architecture
	Archs    []string // the only architectures, where later ones do not have it
	Source   string
	Row      string // thread-code row that means it, or ""
	Note     string
}

// Operand is the operand of that name.
func (a Atom) Operand(name string) (Operand, bool) {
	for _, o := range a.Operands {
		if o.Name == name {
			return o, true
		}
	}
	return Operand{}, false
}

// Names is the name and the aliases.
func (a Atom) Names() []string { return append([]string{a.Name}, a.Aliases...) }

type catalogue struct {
	atoms []Atom
	index map[string]int // by name and alias
}

var loadAtoms = sync.OnceValues(func() (catalogue, error) {
	return newCatalogue(append(nvidiaAtoms(), amdAtoms()...))
})

func newCatalogue(atoms []Atom) (catalogue, error) {
	c := catalogue{atoms: atoms, index: map[string]int{}}
	var all []error
	for i, a := range atoms {
		if err := checkAtom(a); err != nil {
			all = append(all, err)
		}
		for _, name := range a.Names() {
			if at, taken := c.index[name]; taken {
				all = append(all, fmt.Errorf("arch: %s and %s are both called %s", atoms[at].Name, a.Name, name))
			}
			c.index[name] = i
		}
	}
	return c, errors.Join(all...)
}

func mustAtoms() catalogue {
	c, err := loadAtoms()
	if err != nil {
		panic(err)
	}
	return c
}

// Atoms is the catalogue. A row whose layouts do not fit its shape does not
// load: that is a slip in this package, and panics. The operands are shared;
// do not write to them.
func Atoms() []Atom { return slices.Clone(mustAtoms().atoms) }

// LookupAtom finds an instruction by its name or one of its aliases, and reports whether there is one.
func LookupAtom(name string) (Atom, bool) {
	c := mustAtoms()
	i, ok := c.index[name]
	if !ok { // PTX means the same by .shared and .shared::cta
		i, ok = c.index[strings.Replace(name, ".shared::cta.", ".shared.", 1)]
	}
	if !ok {
		return Atom{}, false
	}
	return c.atoms[i], true
}

// atomNames are all names and aliases, sorted.
var atomNames = sync.OnceValue(func() []string { return slices.Sorted(maps.Keys(mustAtoms().index)) })

// FindAtom is LookupAtom with an error that offers names like the one that is missing.
func FindAtom(name string) (Atom, error) {
	if a, ok := LookupAtom(name); ok {
		return a, nil
	}
	known := atomNames()
	help := diag.DidYouMean(name, known)
	if help == "" {
		help = nearest(name, known)
	}
	if help != "" {
		help = "; " + help
	}
	return Atom{}, fmt.Errorf("arch: no instruction %q in the catalogue%s", name, help)
}

// nearest offers the names that begin with name.
func nearest(name string, known []string) string {
	var some []string
	for _, k := range known {
		if name != "" && strings.HasPrefix(strings.ToLower(k), strings.ToLower(name)) {
			if some = append(some, k); len(some) == 5 {
				break
			}
		}
	}
	if len(some) > 0 {
		return "names that begin so: " + strings.Join(some, ", ")
	}
	for _, k := range known {
		if partly(name, k) {
			some = append(some, k)
		}
	}
	if len(some) == 0 {
		return "tilus-lab atom list WORD and the pane Instructions search for names"
	}
	slices.SortStableFunc(some, func(a, b string) int { return len(a) - len(b) })
	return "names with these parts: " + strings.Join(some[:min(len(some), 5)], ", ")
}

// partly reports whether a name has the parts of another, between their points, in order: ldmatrix.m8n8.x4.b16 those of
// ldmatrix.x4.
func partly(parts, name string) bool {
	rest := strings.Split(strings.ToLower(name), ".")
	for _, p := range strings.Split(strings.ToLower(parts), ".") {
		i := slices.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+1:]
	}
	return true
}

// checkAtom refuses a row that cannot be right: operands that do not cover their
// shape, replication that is not declared, other numbers of lanes.
func checkAtom(a Atom) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("arch: %s: %s", a.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case a.Name == "" || a.Family == "" || a.Source == "" || len(a.Operands) == 0:
		return bad("name, family, source and operands must be given")
	case a.Vendor != "nvidia" && a.Vendor != "amd":
		return bad("vendor %q", a.Vendor)
	case !knownArch(a.Vendor, a.Since):
		return bad("first architecture %q is not known", a.Since)
	case a.Blocks < 1 || a.Lanes < 1:
		return bad("%d blocks, %d lanes", a.Blocks, a.Lanes)
	}
	for _, o := range a.Operands {
		if o.Type.Bits() == 0 {
			return bad("operand %s has no type", o.Name)
		}
		if o.In == Unspecified {
			continue
		}
		want := o.Shape
		if a.M > 0 && len(want) == 0 {
			return bad("operand %s has no shape", o.Name)
		}
		if !slices.Equal(o.Layout.Shape(), want) {
			return bad("operand %s: %s covers %v, not %v", o.Name, o.Layout, o.Layout.Shape(), want)
		}
		if product := a.product(o.Name); product != nil && !slices.Equal(want, product) {
			return bad("operand %s has shape %v, not %v", o.Name, want, product)
		}
		lanes := a.Lanes
		if o.In == InTensor && o.Layout.Threads() == tensorLanes {
			lanes = tensorLanes
		}
		if o.Layout.Threads() != lanes {
			return bad("operand %s: %s is over %d lanes, not %d", o.Name, o.Layout, o.Layout.Threads(), lanes)
		}
		if o.Layout.Replicas() != max(o.Replicas, 1) {
			return bad("operand %s: %s holds each element %d times, %d is declared", o.Name, o.Layout, o.Layout.Replicas(), max(o.Replicas, 1))
		}
	}
	return nil
}

// tensorLanes is the number of lanes of tensor memory.
const tensorLanes = 128

// product is the shape that an operand of a product must have, nil where this
// check does not know it.
func (a Atom) product(operand string) []int {
	if a.M == 0 {
		return nil
	}
	var s []int
	switch operand {
	case "A":
		k := a.K
		if a.Sparse() {
			k /= 2
		}
		s = []int{a.M, k}
	case "B":
		s = []int{a.K, a.N}
	case "C", "D":
		s = []int{a.M, a.N}
	default:
		return nil
	}
	if a.Blocks > 1 {
		s = append([]int{a.Blocks}, s...)
	}
	return s
}

// Sparse reports whether A is stored in the 2:4 form, half as wide as K.
func (a Atom) Sparse() bool {
	_, ok := a.Operand("E")
	return ok
}

// nvidiaGenerations names every generation that the catalogue knows, oldest
// first. What gpu/compile can aim at is [All].
var nvidiaGenerations = []string{"sm_50", "sm_61", "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_101a", "sm_103", "sm_103a", "sm_110a", "sm_120", "sm_120a", "sm_121a"}

// NVIDIAGenerations lists them, oldest first.
func NVIDIAGenerations() []string { return slices.Clone(nvidiaGenerations) }

func knownArch(vendor, name string) bool {
	if vendor == "nvidia" {
		return slices.Contains(nvidiaGenerations, name)
	}
	return name != ""
}
