package arch

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds tcgen05, the products and copies of sm_100 that work on tensor
// memory: 128 lanes of 512 columns of 32 bits. One thread starts a product for its
// block, or for a pair of blocks, so the operands A, B and C are written as CuTe
// does, over one or two blocks, first index of [M, K], [N, K], [M, N] fastest. D
// says where the result lies in tensor memory: over its lanes.

func (b *nvidia) tcgen05() {
	const f16, bf16, tf32, f32, i32 = dtype.F16, dtype.BF16, dtype.TF32, dtype.F32, dtype.I32
	type form struct {
		kind, cute string
		k          int
		d, a, b    dtype.Type
		scale      dtype.Type
		vec        int
	}
	forms := []form{
		{kind: "f16", cute: "F16BF16", k: 16, d: f16, a: f16, b: f16}, {kind: "f16", cute: "F16BF16", k: 16, d: f32, a: f16, b: f16},
		{kind: "f16", cute: "F16BF16", k: 16, d: f32, a: bf16, b: bf16}, {kind: "tf32", cute: "TF32", k: 8, d: f32, a: tf32, b: tf32},
	}
	for _, x := range []dtype.Type{dtype.I8, dtype.U8} {
		for _, y := range []dtype.Type{dtype.I8, dtype.U8} {
			forms = append(forms, form{kind: "i8", cute: "S8", k: 32, d: i32, a: x, b: y})
		}
	}
	for _, x := range smallFloats {
		for _, y := range smallFloats {
			forms = append(forms, form{kind: "f8f6f4", cute: "F8F6F4", k: 32, d: f16, a: x, b: y}, form{kind: "f8f6f4", cute: "F8F6F4", k: 32, d: f32, a: x, b: y},
				form{kind: "mxf8f6f4", cute: "MXF8F6F4", k: 32, d: f32, a: x, b: y, scale: dtype.F8E8M0})
		}
	}
	fp4 := dtype.F4E2M1
	forms = append(forms, form{kind: "mxf4", cute: "MXF4", k: 64, d: f32, a: fp4, b: fp4, scale: dtype.F8E8M0, vec: 32},
		form{kind: "mxf4nvf4", cute: "MXF4", k: 64, d: f32, a: fp4, b: fp4, scale: dtype.F8E4M3, vec: 16})
	for _, f := range forms {
		for _, blocks := range []int{1, 2} {
			for _, m := range []int{64 * blocks, 128 * blocks} {
				if f.scale != 0 && m != 128*blocks {
					continue // block scaling works on full tensor memory
				}
				for _, n := range []int{8, 16, 32, 64, 96, 128, 160, 192, 224, 256} {
					if n%16 != 0 && (m != 64 || f.kind == "i8" && n > 32) || blocks == 2 && n%32 != 0 && f.scale == 0 && m == 256 {
						continue
					}
					b.add(tcgen05Atom(f.kind, f.cute, m, n, f.k, blocks, f.d, f.a, f.b, f.scale, f.vec, "ss"))
					if f.scale == 0 {
						b.add(tcgen05Atom(f.kind, f.cute, m, n, f.k, blocks, f.d, f.a, f.b, f.scale, f.vec, "ts"))
					}
				}
			}
		}
	}
}

// cuteArgument is a type as an argument of a CuTe template.
func cuteArgument(t dtype.Type) string {
	switch t {
	case dtype.F16:
		return "half"
	case dtype.F32:
		return "float"
	case dtype.I32:
		return "int32"
	case dtype.I8:
		return "int8"
	case dtype.U8:
		return "uint8"
	}
	return ptxName(t)
}

func tcgen05Atom(kind, cute string, m, n, k, blocks int, d, x, y, scale dtype.Type, vec int, where string) Atom {
	at := Atom{
		Name:   fmt.Sprintf("tcgen05.mma.%s.m%dn%dk%d.%s.%s", kind, m, n, k, ptxName(d), inputs(x, y)),
		Family: "tcgen05.mma", M: m, N: n, K: k, Lanes: blocks, Since: "sm_100a", Archs: []string{"sm_100a", "sm_101a", "sm_103a", "sm_110a"}, Source: srcTC05 + ".mma; " + srcCuTe,
		Note: "started by one thread",
	}
	args := fmt.Sprintf("<%s,%s,%s,", cuteArgument(x), cuteArgument(y), cuteArgument(d))
	if scale != 0 {
		s := "ue8m0"
		if scale == dtype.F8E4M3 {
			s = "ue4m3"
		}
		at.Name += "." + s
		args += s + ","
	}
	at.ThrID = "1:0"
	if blocks == 2 {
		at.Name += ".cta2"
		at.ThrID = ""
		at.Note = "started by one thread of a pair of blocks; lanes count the blocks"
	}
	at.Name += "." + where
	word := map[string]string{"ss": "SS", "ts": "TS"}[where]
	if blocks == 2 {
		word = "2x1SM_" + word
	}
	for _, ma := range []string{"K", "MN"} {
		for _, mb := range []string{"K", "MN"} {
			if vec != 0 {
				at.Aliases = append(at.Aliases, fmt.Sprintf("SM100_MMA_%s_%s%s%d,%d,%d,%s,%s>", cute, word, args, m, n, vec, ma, mb))
			} else {
				at.Aliases = append(at.Aliases, fmt.Sprintf("SM100_MMA_%s_%s%s%d,%d,%s,%s>", cute, word, args, m, n, ma, mb))
			}
		}
	}
	place := InShared
	if where == "ts" {
		place = InTensor
	}
	// CuTe's A, B and C: of one block all, of two the halves of M, N and M.
	a := operand("A", x, chain("spatial(%d, 1).column_local(%d, %d)", blocks, m/blocks, k), m, k).in(place)
	bb := operand("B", y, chain("spatial(1, %d).local(%d, %d)", blocks, k, n/blocks), k, n).in(InShared)
	c := operand("C", d, chain("spatial(%d, 1).column_local(%d, %d)", blocks, m/blocks, n), m, n).in(InTensor)
	tv := func(rows, cols int, split int) string {
		if blocks == 1 {
			return fmt.Sprintf("(1,(%d,%d)):(0,(1,%d))", rows, cols, rows)
		}
		return fmt.Sprintf("(2,(%d,%d)):(%d,(1,%d))", split, cols, split, rows)
	}
	a, bb, c = a.cute(tv(m, k, m/2)).named(cuteType(x)), bb.cute(tv(n, k, n/2)).named(cuteType(y)), c.cute(tv(m, n, m/2)).named(cuteType(d))
	dd := c
	dd.Name = "D"
	switch {
	case blocks == 1 && m == 128:
		dd = operand("D", d, chain("spatial(128, 1).local(1, %d)", n), m, n).in(InTensor).wide(32).named(cuteType(d)).note("(tensor memory lane, column)")
	case blocks == 1:
		dd.Note = "rows 16w to 16w+15 lie in lanes 32w to 32w+15 of tensor memory"
	case m == 256:
		dd.Note = "each block has a half of the rows, one in each lane of its tensor memory"
	default:
		dd.Note = "each block has a half of the rows: lanes 0 to 63 the first half of the columns, lanes 64 to 127 the second"
	}
	at.Operands = []Operand{a, bb, c, dd}
	if scale != 0 {
		per := 32
		if vec != 0 {
			per = vec
		}
		s := k / per
		at.Operands = append(at.Operands,
			operand("SA", scale, chain("spatial(%d, 1).local(%d, %d)", blocks, m/blocks, s), m, s).in(InTensor),
			operand("SB", scale, chain("replicated(1, 1, num_workers=%d).local(%d, %d)", blocks, s, n), s, n).in(InTensor))
	}
	return at
}
