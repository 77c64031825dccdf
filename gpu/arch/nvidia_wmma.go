package arch

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

const srcWMMA = "PTX ISA 9.0, 9.7.14 wmma: the fragments are unspecified"

// wmmaVolta is the fragments of wmma.m16n16k16 on sm_70. Every element of A and B
// lies in two lanes, since two quadpairs use it.
var wmmaVolta = map[string]string{
	"A.row": "register_layout([16, 16], [2, 2, 4, 16], [1, -2, 0, 2], [3])",
	"A.col": "register_layout([16, 16], [2, 2, 4, 4, 4], [1, -2, 0, 4], [3, 2])",
	"B.col": "register_layout([16, 16], [16, 2, 2, 4], [2, 1, -2, 3], [0])",
	"B.row": "register_layout([16, 16], [4, 4, 2, 2, 4], [3, 2, -2, 1], [0, 4])",
	"C.f16": "register_layout([16, 16], [2, 2, 4, 2, 8], [1, 3, 0, 2], [4])",
	"C.f32": "register_layout([16, 16], [2, 2, 2, 2, 2, 2, 2, 2], [1, 4, 0, 6, 3], [5, 2, 7])",
}

// wmma is the older warp-wide products. PTX does not say which lane holds what;
// the rows for sm_70 are what its machine code was measured to do, and the others
// have no layouts.
func (b *nvidia) wmma() {
	const measured = "measured on sm_70: decoded machine code, arXiv 1811.08309 tables II and III; agrees with the quadpairs of mma.m8n8k4"
	for _, acc := range []dtype.Type{dtype.F16, dtype.F32} {
		for _, oa := range []string{"row", "col"} {
			for _, ob := range []string{"row", "col"} {
				c := chainText(wmmaVolta["C."+ptxName(acc)])
				b.add(Atom{
					Name:   fmt.Sprintf("wmma.m16n16k16.%s.f16.%s.%s.sm_70", ptxName(acc), oa, ob),
					Family: "wmma", M: 16, N: 16, K: 16, Lanes: 32, Since: "sm_70", Archs: []string{"sm_70", "sm_72"}, Source: measured,
					Operands: []Operand{
						operand("A", dtype.F16, chainText(wmmaVolta["A."+oa]), 16, 16), operand("B", dtype.F16, chainText(wmmaVolta["B."+ob]), 16, 16),
						operand("C", acc, c, 16, 16), operand("D", acc, c, 16, 16),
					},
				})
			}
		}
	}
	type form struct {
		m, n, k int
		in      []dtype.Type
		acc     []dtype.Type
		since   string
	}
	var forms []form
	for _, s := range [][3]int{{16, 16, 16}, {32, 8, 16}, {8, 32, 16}} {
		forms = append(forms, form{s[0], s[1], s[2], []dtype.Type{dtype.F16}, []dtype.Type{dtype.F16, dtype.F32}, "sm_70"},
			form{s[0], s[1], s[2], []dtype.Type{dtype.I8, dtype.U8}, []dtype.Type{dtype.I32}, "sm_72"},
			form{s[0], s[1], s[2], []dtype.Type{dtype.BF16}, []dtype.Type{dtype.F32}, "sm_80"})
	}
	forms = append(forms, form{16, 16, 8, []dtype.Type{dtype.TF32}, []dtype.Type{dtype.F32}, "sm_80"},
		form{8, 8, 4, []dtype.Type{dtype.F64}, []dtype.Type{dtype.F64}, "sm_80"},
		form{8, 8, 32, []dtype.Type{dtype.I4, dtype.U4}, []dtype.Type{dtype.I32}, "sm_75"},
		form{8, 8, 128, []dtype.Type{dtype.U1}, []dtype.Type{dtype.I32}, "sm_75"})
	const open = "PTX does not say which lane holds which element, and the answer differs between architectures; load and store with wmma.load and wmma.store"
	for _, f := range forms {
		for _, in := range f.in {
			for _, acc := range f.acc {
				b.add(Atom{
					Name:   fmt.Sprintf("wmma.m%dn%dk%d.%s.%s", f.m, f.n, f.k, ptxName(acc), ptxName(in)),
					Family: "wmma", M: f.m, N: f.n, K: f.k, Lanes: 32, Since: f.since, Source: srcWMMA, Note: open,
					Operands: []Operand{
						{Name: "A", Type: in, Shape: []int{f.m, f.k}, In: Unspecified, Note: open}, {Name: "B", Type: in, Shape: []int{f.k, f.n}, In: Unspecified, Note: open},
						{Name: "C", Type: acc, Shape: []int{f.m, f.n}, In: Unspecified, Note: open}, {Name: "D", Type: acc, Shape: []int{f.m, f.n}, In: Unspecified, Note: open},
					},
				})
			}
		}
	}
}
