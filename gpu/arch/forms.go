package arch

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Form is what thread code needs to know of one mma: how it is written and which
// registers it takes. Where the elements lie is in the [Atom] of the same name.
type Form struct {
	Name, PTX  string
	M, N, K    int
	Blocks     int
	A, B, C, D dtype.Type
	// Selectors is the number of values of the sparsity selector, 0 for a dense
	// product.
	Selectors int
	Since     string
	ISA       string // lowest PTX version that knows it
}

// Registers is the width of the registers of A, B, C and D in bits, and how many
// of them a lane holds of each; the 32-bit one of sparsity metadata is not among
// them.
func (f Form) Registers() (bits, a, b, c, d int) {
	bits = 32
	if f.A == dtype.F64 {
		bits = 64
	}
	ka := f.K
	if f.Selectors > 0 {
		ka /= 2
	}
	lane := func(rows, cols int, t dtype.Type) int {
		return max(f.Blocks, 1) * rows * cols * t.Bits() / (LanesPerWarp * bits)
	}
	return bits, lane(f.M, ka, f.A), lane(f.K, f.N, f.B), lane(f.M, f.N, f.C), lane(f.M, f.N, f.D)
}

// Forms lists every warp-wide mma that sm_90a executes, in the order of the
// catalogue. It parses no layouts.
func Forms() []Form {
	var all []Form
	for _, x := range [][2]dtype.Type{{dtype.F16, dtype.F16}, {dtype.F32, dtype.F16}, {dtype.F32, dtype.F32}} {
		for _, oa := range []string{"row", "col"} {
			for _, ob := range []string{"row", "col"} {
				d, c := x[0], x[1]
				name, ptx := voltaNames(d, c, oa, ob)
				all = append(all, Form{Name: name, PTX: ptx, M: 8, N: 8, K: 4, Blocks: 4, A: dtype.F16, B: dtype.F16, C: c, D: d, Since: "sm_70", ISA: "6.4"})
			}
		}
	}
	for _, f := range denseForms() {
		all = append(all, Form{Name: f.name(), PTX: f.ptx(), M: f.m, N: 8, K: f.k, A: f.a, B: f.b, C: f.c, D: f.d, Since: f.since, ISA: f.isa()})
	}
	for _, f := range sparseForms() {
		selectors := map[int]int{16: 4, 32: 2, 64: 1}[f.rowBits(f.a.Bits())]
		all = append(all, Form{Name: f.name(), PTX: f.ptx(), M: 16, N: 8, K: f.k, A: f.a, B: f.b, C: f.d, D: f.d, Selectors: selectors, Since: f.since, ISA: f.isa()})
	}
	return all
}

func (f mmaForm) isa() string {
	switch {
	case f.a.Bits() == 8 && f.a.IsFloat() && (f.d == dtype.F16 || f.k == 16):
		return "8.7"
	case f.a.Bits() == 8 && f.a.IsFloat():
		return "8.4"
	case f.a == dtype.F64 && f.m == 16:
		return "7.8"
	case strings.HasPrefix(f.variant, ".and"):
		return "7.1"
	}
	return "7.0"
}

// isa is that of ordered metadata.
func (f sparseForm) isa() string { return "8.5" }

func voltaNames(d, c dtype.Type, oa, ob string) (name, ptx string) {
	word := ptxName(d)
	if c != d {
		word += "." + ptxName(c)
	}
	return fmt.Sprintf("mma.m8n8k4.%s.f16.%s.%s", word, oa, ob), fmt.Sprintf("mma.sync.aligned.m8n8k4.%s.%s.%s.f16.f16.%s", oa, ob, ptxName(d), ptxName(c))
}
