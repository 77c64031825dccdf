package arch

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds wgmma, the products of a warpgroup of four warps on sm_90a. Warp
// w has rows 16w to 16w+15 of D, as mma.m16n8 has them, repeated along N. A lies in
// registers likewise, or in shared memory; B lies in shared memory. An operand in
// shared memory is written as held by all 128 lanes, first index of [M, K] and
// [N, K] fastest, as CuTe does: the descriptor says where it really is.

// WarpgroupForm is what thread code needs to know of one wgmma: how it is written
// and its shape. Where the elements lie is in the [Atom] of the same name with ".ss"
// behind it, or ".rs" where A lies in registers.
type WarpgroupForm struct {
	Name, PTX string
	N, K      int // M is 64
	D, A, B   dtype.Type
	Saturate  bool
}

// Accumulators is the 32-bit registers of D that a lane holds.
func (f WarpgroupForm) Accumulators() int { return 64 * f.N * f.D.Bits() / (128 * 32) }

// WarpgroupForms lists every wgmma, in the order of the catalogue. It parses no
// layouts.
func WarpgroupForms() []WarpgroupForm { return warpgroupForms }

var warpgroupForms = func() []WarpgroupForm {
	const f16, bf16, tf32, f32, i32 = dtype.F16, dtype.BF16, dtype.TF32, dtype.F32, dtype.I32
	forms := []WarpgroupForm{{K: 16, D: f16, A: f16, B: f16}, {K: 16, D: f32, A: f16, B: f16}, {K: 16, D: f32, A: bf16, B: bf16}, {K: 8, D: f32, A: tf32, B: tf32}}
	for _, d := range []dtype.Type{f16, f32} {
		for _, x := range []dtype.Type{dtype.F8E4M3, dtype.F8E5M2} {
			for _, y := range []dtype.Type{dtype.F8E4M3, dtype.F8E5M2} {
				forms = append(forms, WarpgroupForm{K: 32, D: d, A: x, B: y})
			}
		}
	}
	for _, x := range []dtype.Type{dtype.I8, dtype.U8} {
		for _, y := range []dtype.Type{dtype.I8, dtype.U8} {
			forms = append(forms, WarpgroupForm{K: 32, D: i32, A: x, B: y}, WarpgroupForm{K: 32, D: i32, A: x, B: y, Saturate: true})
		}
	}
	forms = append(forms, WarpgroupForm{K: 256, D: i32, A: dtype.U1, B: dtype.U1})
	var all []WarpgroupForm
	for _, f := range forms {
		for f.N = 8; f.N <= 256; f.N += 8 {
			if f.D == i32 && f.N > 32 && f.N%16 != 0 {
				continue // integers: 8, 24 and the multiples of 16
			}
			f.Name = fmt.Sprintf("wgmma.m64n%dk%d.%s.%s", f.N, f.K, ptxName(f.D), inputs(f.A, f.B))
			f.PTX = fmt.Sprintf("wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s", f.N, f.K, ptxName(f.D), ptxName(f.A), ptxName(f.B))
			switch {
			case f.A == dtype.U1:
				f.Name, f.PTX = f.Name+".and.popc", f.PTX+".and.popc"
			case f.Saturate:
				f.Name, f.PTX = f.Name+".satfinite", f.PTX+".satfinite"
			}
			all = append(all, f)
		}
	}
	return all
}()

func (b *nvidia) wgmma() {
	for _, f := range WarpgroupForms() {
		for _, where := range []string{"ss", "rs"} {
			b.add(wgmmaAtom(f, where))
		}
	}
}

func wgmmaAtom(f WarpgroupForm, where string) Atom {
	n, k, d, x, y := f.N, f.K, f.D, f.A, f.B
	cute := fmt.Sprintf("SM90_64x%dx%d_%s%s%s_%s", n, k, cuteWord(d), cuteWord(x), cuteWord(y), map[string]string{"ss": "SS", "rs": "RS"}[where])
	if x.Bits() != 16 {
		cute += "_TN"
	}
	if f.Saturate {
		cute += "_SATURATE"
	}
	at := Atom{
		Name: f.Name + "." + where, Row: f.Name + "." + where, Family: "wgmma", M: 64, N: n, K: k, Lanes: 128, Since: "sm_90a", Archs: []string{"sm_90a"}, Source: srcWGMMA,
	}
	if where == "ss" {
		at.Aliases = append(at.Aliases, f.PTX)
	}
	if x != dtype.U1 {
		at.Aliases = append(at.Aliases, cute)
	}
	v := perRegister(x.Bits())
	var a Operand
	if where == "rs" {
		a = operand("A", x, chain("spatial(4, 1).column_local(2, 2).spatial(8, 4).local(1, %d)", v), 64, k).
			cute(threadValue([]cuteMode{{4, 64 * v}, {8, 1}, {4, 16}}, []cuteMode{{v, 64}, {2, 8}, {2, 4 * v * 64}}))
	} else {
		a = operand("A", x, chain("replicated(1, 1, num_workers=128).column_local(64, %d)", k), 64, k).in(InShared).
			cute(fmt.Sprintf("(128,(64,%d)):(0,(1,64))", k)).note("a shared memory descriptor")
	}
	bb := operand("B", y, chain("replicated(1, 1, num_workers=128).local(%d, %d)", k, n), k, n).in(InShared).
		cute(fmt.Sprintf("(128,(%d,%d)):(0,(1,%d))", n, k, n)).note("a shared memory descriptor")
	c := operand("C", d, chain("spatial(4, 1).column_local(2, %d).spatial(8, 4).local(1, 2)", n/8), 64, n).
		cute(fmt.Sprintf("((4,8,4),(2,2,%d)):((128,1,16),(64,8,512))", n/8)).named(cuteType(d))
	dd := c
	dd.Name = "D"
	at.Operands = []Operand{a.named(cuteType(x)), bb.named(cuteType(y)), c, dd}
	return at
}
