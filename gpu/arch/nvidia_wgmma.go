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

func (b *nvidia) wgmma() {
	const f16, bf16, tf32, f32, i32 = dtype.F16, dtype.BF16, dtype.TF32, dtype.F32, dtype.I32
	type form struct {
		k       int
		d, a, b dtype.Type
		sat     bool
	}
	forms := []form{{16, f16, f16, f16, false}, {16, f32, f16, f16, false}, {16, f32, bf16, bf16, false}, {8, f32, tf32, tf32, false}}
	for _, d := range []dtype.Type{f16, f32} {
		for _, x := range []dtype.Type{dtype.F8E4M3, dtype.F8E5M2} {
			for _, y := range []dtype.Type{dtype.F8E4M3, dtype.F8E5M2} {
				forms = append(forms, form{32, d, x, y, false})
			}
		}
	}
	for _, x := range []dtype.Type{dtype.I8, dtype.U8} {
		for _, y := range []dtype.Type{dtype.I8, dtype.U8} {
			forms = append(forms, form{32, i32, x, y, false}, form{32, i32, x, y, true})
		}
	}
	forms = append(forms, form{256, i32, dtype.U1, dtype.U1, false})
	for _, f := range forms {
		for n := 8; n <= 256; n += 8 {
			if f.d == i32 && n > 32 && n%16 != 0 {
				continue // integers: 8, 24 and the multiples of 16
			}
			for _, where := range []string{"ss", "rs"} {
				b.add(wgmmaAtom(n, f.k, f.d, f.a, f.b, f.sat, where))
			}
		}
	}
}

func wgmmaAtom(n, k int, d, x, y dtype.Type, sat bool, where string) Atom {
	name := fmt.Sprintf("wgmma.m64n%dk%d.%s.%s", n, k, ptxName(d), inputs(x, y))
	ptx := fmt.Sprintf("wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s", n, k, ptxName(d), ptxName(x), ptxName(y))
	cute := fmt.Sprintf("SM90_64x%dx%d_%s%s%s_%s", n, k, cuteWord(d), cuteWord(x), cuteWord(y), map[string]string{"ss": "SS", "rs": "RS"}[where])
	if x.Bits() != 16 {
		cute += "_TN"
	}
	if x == dtype.U1 {
		name, ptx = name+".and.popc", ptx+".and.popc"
	}
	if sat {
		name, ptx, cute = name+".satfinite", ptx+".satfinite", cute+"_SATURATE"
	}
	at := Atom{
		Name: name + "." + where, Family: "wgmma", M: 64, N: n, K: k, Lanes: 128, Since: "sm_90a", Archs: []string{"sm_90a"}, Source: srcWGMMA,
	}
	if where == "ss" {
		at.Aliases = append(at.Aliases, ptx)
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
