package arch

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// This file holds mma.sp, whose A has two of four elements of a row (one of two
// for tf32, two pairs of eight for four-bit types) and metadata that says which,
// and the block-scaled mma of sm_120.

// metadata is the operand E for a row of A with the number of metadata bits. A
// lane holds 32 bits. With 16 bits a row, one lane of each four holds two rows and
// the selector (0 to 3) says which lane. With 32 bits, lanes 2s and 2s+1 of each
// four count and the selector s is 0 or 1: for elements of 16 bits and more each of
// the two has a half of K, of two rows; for narrower ones each has one row. With 64
// bits all lanes count. An entry is the position of a stored element in its group,
// 4 bits wide for tf32.
func metadata(elem, bitsOfRow, entry int) Operand {
	n := bitsOfRow / entry // entries of a row
	t := dtype.U2
	if entry == 4 {
		t = dtype.U4
	}
	var l layout.Layout
	var note string
	switch {
	case bitsOfRow == 16:
		l, note = chain("local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4).local(1, %d)", n), "the selector, 0 to 3, says which of each four lanes is read"
	case bitsOfRow == 32 && elem >= 16:
		l, note = chain("register_layout([16, %d], [2, 8, 2, %d], [1, -2, 2], [0, 3])", n, n/2), "the selector, 0 or 1, says which two of each four lanes are read"
	case bitsOfRow == 32:
		l, note = chain("register_layout([16, %d], [2, 8, %d], [1, -2, 0], [2])", n, n), "the selector, 0 or 1, says which two of each four lanes are read"
	default:
		l, note = chain("register_layout([16, %d], [2, 8, 2, %d], [1, 2, 0], [3])", n, n/2), "the selector is 0"
	}
	return operand("E", t, l, 16, n).note(note)
}

// sparseForm is one mma.sp.
type sparseForm struct {
	k     int
	a, b  dtype.Type
	d     dtype.Type
	sat   bool
	since string
	kind  string // ".kind::f8f6f4", or "" where there is none
	entry int    // bits of a metadata entry
}

func (f sparseForm) name() string {
	n := fmt.Sprintf("mma.sp.m16n8k%d.%s.%s", f.k, ptxName(f.d), inputs(f.a, f.b))
	if f.kind != "" {
		n = fmt.Sprintf("mma.sp.f8f6f4.m16n8k%d.%s.%s", f.k, ptxName(f.d), inputs(f.a, f.b))
	}
	if f.sat {
		n += ".satfinite"
	}
	return n
}

func (f sparseForm) ptx() string {
	sat := ""
	if f.sat {
		sat = ".satfinite"
	}
	return fmt.Sprintf("mma.sp::ordered_metadata.sync.aligned%s.m16n8k%d.row.col%s.%s.%s.%s.%s", f.kind, f.k, sat, ptxName(f.d), ptxName(f.a), ptxName(f.b), ptxName(f.d))
}

// rowBits is the number of metadata bits of a row of A: one entry for each stored
// element, or for each pair of four-bit ones.
func (f sparseForm) rowBits(bits int) int {
	stored := f.k / 2
	if bits == 4 {
		stored /= 2
	}
	return stored * f.entry
}

func (f sparseForm) atom() Atom {
	bits := f.a.Bits()
	if f.kind != "" {
		bits = 8
	}
	a := fragmentA(f.a, bits, 16, f.k/2)
	a.CuTe = "" // of the stored elements; CuTe's map is of all
	bb := fragmentB(f.b, bits, f.k)
	if f.kind != "" {
		a, bb = contain(a, 8), contain(bb, 8)
		a.CuTe = fmt.Sprintf("((4,8),(8,2,%d)):((128,1),(16,8,512))", f.k/32)
		a.CuTeType, bb.CuTeType = fmt.Sprintf("sparse_elem<2, %s>", cuteType(f.a)), "unsigned char"
	}
	at := Atom{
		Name: f.name(), Family: "mma.sp", M: 16, N: 8, K: f.k, Lanes: 32, Since: f.since, Source: srcMMA + ", mma.sp",
		Operands: []Operand{a, bb, fragmentC("C", f.d, 16), fragmentC("D", f.d, 16), metadata(bits, f.rowBits(bits), f.entry)},
		Aliases:  []string{f.ptx()},
	}
	switch {
	case f.a == dtype.TF32:
		at.Note = "A holds one of two elements; an entry of the metadata is 14 for the second and 4 for the first"
	case bits == 4:
		at.Note = "A holds two pairs of eight elements; an entry of the metadata is the place of a pair among four"
	default:
		at.Note = "A holds two of four elements; an entry of the metadata is the place of an element among four"
	}
	if f.kind == "" {
		at.Row = at.Name
		at.Aliases = append(at.Aliases, strings.Replace(f.ptx(), "::ordered_metadata", "", 1))
	}
	if f.kind != "" && f.d == dtype.F32 {
		at.Aliases = append(at.Aliases, fmt.Sprintf("SM120_SPARSE_16x8x%d_TN<%s,%s,f32>", f.k, ptxName(f.a), ptxName(f.b)))
		at.Archs = []string{"sm_120a", "sm_121a"}
	}
	return at
}

// contain puts elements narrower than a byte into bytes.
func contain(o Operand, bits int) Operand {
	if o.Type.Bits() < bits {
		o.Bits = bits
		o.Note = "each element in the low bits of a byte"
		if o.Type.Bits() == 4 {
			o.Note = "each element in bits 2 to 5 of a byte"
		}
	}
	return o
}

// sparseForms is every mma.sp of sm_80 and sm_89.
func sparseForms() []sparseForm {
	var all []sparseForm
	for _, k := range []int{16, 32} {
		all = append(all, sparseForm{k: k, a: dtype.F16, b: dtype.F16, d: dtype.F16, since: "sm_80", entry: 2},
			sparseForm{k: k, a: dtype.F16, b: dtype.F16, d: dtype.F32, since: "sm_80", entry: 2},
			sparseForm{k: k, a: dtype.BF16, b: dtype.BF16, d: dtype.F32, since: "sm_80", entry: 2})
	}
	for _, k := range []int{8, 16} {
		all = append(all, sparseForm{k: k, a: dtype.TF32, b: dtype.TF32, d: dtype.F32, since: "sm_80", entry: 4})
	}
	for _, w := range []struct {
		types [2]dtype.Type
		ks    [2]int
	}{{[2]dtype.Type{dtype.I8, dtype.U8}, [2]int{32, 64}}, {[2]dtype.Type{dtype.I4, dtype.U4}, [2]int{64, 128}}} {
		for _, k := range w.ks {
			for _, a := range w.types {
				for _, b := range w.types {
					for _, sat := range []bool{false, true} {
						all = append(all, sparseForm{k: k, a: a, b: b, d: dtype.I32, sat: sat, since: "sm_80", entry: 2})
					}
				}
			}
		}
	}
	for _, a := range []dtype.Type{dtype.F8E4M3, dtype.F8E5M2} {
		for _, b := range []dtype.Type{dtype.F8E4M3, dtype.F8E5M2} {
			all = append(all, sparseForm{k: 64, a: a, b: b, d: dtype.F32, since: "sm_89", entry: 2})
		}
	}
	return all
}

// smallFloats is the input types of kind::f8f6f4.
var smallFloats = []dtype.Type{dtype.F8E4M3, dtype.F8E5M2, dtype.F6E3M2, dtype.F6E2M3, dtype.F4E2M1}

func (b *nvidia) mmaSparse() {
	for _, f := range sparseForms() {
		b.add(f.atom())
	}
	for _, d := range []dtype.Type{dtype.F16, dtype.F32} {
		for _, a := range smallFloats {
			for _, x := range smallFloats {
				b.add(sparseForm{k: 64, a: a, b: x, d: d, since: "sm_120a", kind: ".kind::f8f6f4", entry: 2}.atom())
			}
		}
	}
}

// mmaBlockScaled is the mma of sm_120: eight-bit containers of five small float
// types, with and without scales of blocks along K, and packed four-bit floats.
func (b *nvidia) mmaBlockScaled() {
	archs := []string{"sm_120a", "sm_121a"}
	for _, d := range []dtype.Type{dtype.F16, dtype.F32} {
		for _, x := range smallFloats {
			for _, y := range smallFloats {
				a := Atom{
					Name:   fmt.Sprintf("mma.f8f6f4.m16n8k32.%s.%s", ptxName(d), inputs(x, y)),
					Family: "mma", M: 16, N: 8, K: 32, Lanes: 32, Since: "sm_120a", Archs: archs, Source: srcMMA,
					Aliases: []string{fmt.Sprintf("mma.sync.aligned.kind::f8f6f4.m16n8k32.row.col.%s.%s.%s.%s", ptxName(d), ptxName(x), ptxName(y), ptxName(d))},
					Operands: []Operand{
						contain(fragmentA(x, 8, 16, 32), 8).named("unsigned char"), contain(fragmentB(y, 8, 32), 8).named("unsigned char"),
						fragmentC("C", d, 16), fragmentC("D", d, 16),
					},
				}
				if d == dtype.F32 {
					a.Aliases = append(a.Aliases, fmt.Sprintf("SM120_16x8x32_TN<%s,%s,f32>", ptxName(x), ptxName(y)))
				}
				b.add(a)
			}
		}
	}
	scaled := func(kind string, sparse bool, k, vec, bits int, x, y dtype.Type, scale dtype.Type) {
		word, family, order := "mma", "mma", ""
		if sparse {
			word, family, order = "mma.sp", "mma.sp", ".sp::ordered_metadata"
		}
		s := "ue8m0"
		if scale == dtype.F8E4M3 {
			s = "ue4m3"
		}
		n := k / vec
		if sparse {
			n /= 2
		}
		kOfA := k
		if sparse {
			kOfA = k / 2
		}
		fa, fb := fragmentA(x, bits, 16, kOfA), fragmentB(y, bits, k)
		fa.CuTeType, fb.CuTeType = "unsigned char", "unsigned char"
		if bits == 4 {
			fa.CuTeType, fb.CuTeType = cuteType(dtype.U4), cuteType(dtype.U4)
		}
		if bits == 8 {
			fa, fb = contain(fa, 8), contain(fb, 8)
		}
		if sparse {
			fa.CuTe, fa.CuTeType = "((4,8),(8,2,2)):((128,1),(16,8,512))", fmt.Sprintf("sparse_elem<2, %s>", cuteType(x))
			if bits == 4 {
				fa.CuTe, fa.CuTeType = "((4,8),(16,2,2)):((256,1),(16,8,1024))", "sparse_elem<4, unsigned char>"
			}
		}
		a := Atom{
			Name:   fmt.Sprintf("%s.%s.m16n8k%d.f32.%s.%s.%dX", word, kind, k, inputs(x, y), s, n),
			Family: family, M: 16, N: 8, K: k, Lanes: 32, Since: "sm_120a", Archs: archs, Source: srcMMA + ", block scaling; " + srcCuTe,
			Note:    fmt.Sprintf("D = (A·SA)·(B·SB) + C, one scale for each %d elements along K", k/n),
			Aliases: []string{fmt.Sprintf("mma%s.sync.aligned.kind::%s.block_scale.scale_vec::%dX.m16n8k%d.row.col.f32.%s.%s.f32.%s", order, kind, n, k, ptxName(x), ptxName(y), s)},
			Operands: []Operand{
				fa, fb, fragmentC("C", dtype.F32, 16), fragmentC("D", dtype.F32, 16),
				operand("SA", scale, chain("register_layout([16, %d], [2, 8, %d], [1, -2, 0], [2])", n, n), 16, n).note("the thread-id selector, 0 or 1, says which two of each four lanes are read; the byte-id selector, where in the word the scales begin"),
				operand("SB", scale, chain("register_layout([%d, 8], [%d, 8], [1, -4], [0])", n, n), n, 8).note("the thread-id selector, 0 to 3, says which of each four lanes is read"),
			},
		}
		if sparse {
			rowBits := k
			a.Operands = append(a.Operands, metadata(bits, map[bool]int{false: rowBits, true: rowBits / 2}[bits == 4], 2))
		}
		words := fmt.Sprintf("<%s,%s,f32,%s,%d>", ptxName(x), ptxName(y), s, vec)
		if sparse {
			a.Aliases = append(a.Aliases, fmt.Sprintf("SM120_SPARSE_16x8x%d_TN_VS%s", k, words))
		} else {
			a.Aliases = append(a.Aliases, fmt.Sprintf("SM120_16x8x%d_TN_VS%s", k, words))
		}
		b.add(a)
	}
	for _, x := range smallFloats {
		for _, y := range smallFloats {
			scaled("mxf8f6f4", false, 32, 32, 8, x, y, dtype.F8E8M0)
			scaled("mxf8f6f4", true, 64, 32, 8, x, y, dtype.F8E8M0)
		}
	}
	for _, sparse := range []bool{false, true} {
		k := 64
		if sparse {
			k = 128
		}
		scaled("mxf4", sparse, k, 32, 4, dtype.F4E2M1, dtype.F4E2M1, dtype.F8E8M0)
		scaled("mxf4nvf4", sparse, k, 16, 4, dtype.F4E2M1, dtype.F4E2M1, dtype.F8E4M3)
		scaled("mxf4nvf4", sparse, k, 16, 4, dtype.F4E2M1, dtype.F4E2M1, dtype.F8E8M0)
	}
}
