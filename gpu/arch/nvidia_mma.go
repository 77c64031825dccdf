package arch

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds mma.sync, and the dot products that came before it.
//
// The warp-wide fragments of every mma.sync after sm_70 follow one rule. Let g =
// lane / 4, t = lane mod 4, and V the number of elements in a 32-bit register (1
// for f64). A register of A holds V neighbours of a row, from column V·t on; the
// next register is 8 rows below, where there are 16 rows; the one after those is
// 4·V columns on. B is the same with rows and columns exchanged and 8 columns.
// A lane holds of C and D the columns 2t and 2t+1 of row g, then of row g+8.

// perRegister is V.
func perRegister(bits int) int { return max(32/bits, 1) }

// fragmentA is A [m, k] of elements of the width, over a warp.
func fragmentA(t dtype.Type, bits, m, k int) Operand {
	v := perRegister(bits)
	return operand("A", t, chain("column_local(%d, %d).spatial(8, 4).local(1, %d)", m/8, k/(4*v), v), m, k).
		cute(fragmentText(bits, []cuteMode{{4, v * m}, {8, 1}}, []cuteMode{{v, m}, {m / 8, 8}, {k / (4 * v), 4 * v * m}})).named(cuteType(t))
}

// fragmentB is B [k, 8].
func fragmentB(t dtype.Type, bits, k int) Operand {
	v := perRegister(bits)
	return operand("B", t, chain("local(%d, 1).column_spatial(4, 8).local(%d, 1)", k/(4*v), v), k, 8).
		cute(fragmentText(bits, []cuteMode{{4, v * 8}, {8, 1}}, []cuteMode{{v, 8}, {k / (4 * v), 4 * v * 8}})).named(cuteType(t))
}

// fragmentText is the CuTe layout of a fragment. CuTe puts the values of a lone
// register in brackets where they have 4 bits, and writes their number elsewhere.
func fragmentText(bits int, threads, values []cuteMode) string {
	v := joinModes(values...)
	if bits == 4 && v[0] != '(' {
		v = "(" + strings.Replace(v, ":", "):(", 1) + ")"
	}
	return pairModes(joinModes(threads...), v)
}

// fragmentC is C or D [m, 8].
func fragmentC(name string, t dtype.Type, m int) Operand {
	return operand(name, t, chain("local(%d, 1).spatial(8, 4).local(1, 2)", m/8), m, 8).
		cute(threadValue([]cuteMode{{4, 2 * m}, {8, 1}}, []cuteMode{{2, m}, {m / 8, 8}})).named(cuteType(t))
}

// mmaForm is one mma.sync.
type mmaForm struct {
	m, k    int
	a, b    dtype.Type
	d, c    dtype.Type
	variant string // ".satfinite", ".xor.popc", …
	since   string
	cute    []string // names of CuTe without the types: "SM80_16x8x16"
	suffix  string   // what CuTe appends
}

func (f mmaForm) name() string {
	acc := ptxName(f.d)
	if f.c != f.d {
		acc += "." + ptxName(f.c)
	}
	return fmt.Sprintf("mma.m%dn8k%d.%s.%s%s", f.m, f.k, acc, inputs(f.a, f.b), f.variant)
}

// PTX is the instruction as PTX writes it.
func (f mmaForm) ptx() string {
	tail := ""
	if f.variant != ".satfinite" {
		tail = f.variant
	}
	sat := ""
	if f.variant == ".satfinite" {
		sat = f.variant
	}
	return fmt.Sprintf("mma.sync.aligned.m%dn8k%d.row.col%s.%s.%s.%s.%s%s", f.m, f.k, sat, ptxName(f.d), ptxName(f.a), ptxName(f.b), ptxName(f.c), tail)
}

func (f mmaForm) atom() Atom {
	a := Atom{
		Name: f.name(), Family: "mma", M: f.m, N: 8, K: f.k, Lanes: 32, Since: f.since, Source: srcMMA,
		Operands: []Operand{
			fragmentA(f.a, f.a.Bits(), f.m, f.k), fragmentB(f.b, f.b.Bits(), f.k),
			fragmentC("C", f.c, f.m), fragmentC("D", f.d, f.m),
		},
		Aliases: []string{f.ptx()},
		Row:     f.name(),
	}
	for _, c := range f.cute {
		a.Aliases = append(a.Aliases, fmt.Sprintf("%s_%s%s%s%s_TN%s", c, cuteWord(f.d), cuteWord(f.a), cuteWord(f.b), cuteWord(f.c), f.suffix))
	}
	return a
}

// denseForms is every dense mma.sync that sm_75 to sm_90 brought.
func denseForms() []mmaForm {
	var all []mmaForm
	add := func(fs ...mmaForm) { all = append(all, fs...) }
	const f16, bf16, tf32, f32, f64, i32 = dtype.F16, dtype.BF16, dtype.TF32, dtype.F32, dtype.F64, dtype.I32
	for _, d := range []dtype.Type{f16, f32} {
		names := []string{"SM80_16x8x8", "SM75_16x8x8"}
		add(mmaForm{m: 16, k: 8, a: f16, b: f16, d: d, c: d, since: "sm_75", cute: names},
			mmaForm{m: 16, k: 16, a: f16, b: f16, d: d, c: d, since: "sm_80", cute: []string{"SM80_16x8x16"}})
	}
	add(mmaForm{m: 16, k: 8, a: bf16, b: bf16, d: f32, c: f32, since: "sm_80", cute: []string{"SM80_16x8x8"}},
		mmaForm{m: 16, k: 16, a: bf16, b: bf16, d: f32, c: f32, since: "sm_80", cute: []string{"SM80_16x8x16"}},
		mmaForm{m: 16, k: 4, a: tf32, b: tf32, d: f32, c: f32, since: "sm_80", cute: []string{"SM80_16x8x4"}},
		mmaForm{m: 16, k: 8, a: tf32, b: tf32, d: f32, c: f32, since: "sm_80", cute: []string{"SM80_16x8x8"}},
		mmaForm{m: 8, k: 4, a: f64, b: f64, d: f64, c: f64, since: "sm_80", cute: []string{"SM80_8x8x4"}})
	for _, k := range []int{4, 8, 16} {
		add(mmaForm{m: 16, k: k, a: f64, b: f64, d: f64, c: f64, since: "sm_90", cute: []string{fmt.Sprintf("SM90_16x8x%d", k)}})
	}
	type shape struct {
		m, k  int
		since string
	}
	for _, w := range []struct {
		signed, unsigned dtype.Type
		shapes           []shape
	}{
		{dtype.I8, dtype.U8, []shape{{8, 16, "sm_75"}, {16, 16, "sm_80"}, {16, 32, "sm_80"}}},
		{dtype.I4, dtype.U4, []shape{{8, 32, "sm_75"}, {16, 32, "sm_80"}, {16, 64, "sm_80"}}},
	} {
		for _, s := range w.shapes {
			for _, a := range []dtype.Type{w.signed, w.unsigned} {
				for _, b := range []dtype.Type{w.signed, w.unsigned} {
					f := mmaForm{m: s.m, k: s.k, a: a, b: b, d: i32, c: i32, since: s.since, cute: []string{fmt.Sprintf("SM80_%dx8x%d", s.m, s.k)}}
					if s.m == 8 && s.k == 16 && a == dtype.I8 && b == dtype.I8 {
						f.cute = append(f.cute, "SM75_8x8x16")
					}
					g := f
					g.variant, g.suffix = ".satfinite", "_SATURATE"
					g.cute = g.cute[:1]
					add(f, g)
				}
			}
		}
	}
	for _, s := range []shape{{8, 128, "sm_75"}, {16, 128, "sm_80"}, {16, 256, "sm_80"}} {
		for _, op := range []string{"xor", "and"} {
			f := mmaForm{m: s.m, k: s.k, a: dtype.U1, b: dtype.U1, d: i32, c: i32, variant: "." + op + ".popc", since: s.since, cute: []string{fmt.Sprintf("SM80_%dx8x%d", s.m, s.k)}}
			f.suffix = map[string]string{"xor": "_XORPOPC", "and": "_ANDPOPC"}[op]
			if op == "and" {
				f.since = "sm_80"
			}
			add(f)
		}
	}
	for _, d := range []dtype.Type{f16, f32} {
		for _, a := range []dtype.Type{dtype.F8E4M3, dtype.F8E5M2} {
			for _, b := range []dtype.Type{dtype.F8E4M3, dtype.F8E5M2} {
				add(mmaForm{m: 16, k: 16, a: a, b: b, d: d, c: d, since: "sm_89"},
					mmaForm{m: 16, k: 32, a: a, b: b, d: d, c: d, since: "sm_89", cute: []string{"SM89_16x8x32"}})
			}
		}
	}
	return all
}

func (b *nvidia) mma() {
	b.voltaMMA()
	for _, f := range denseForms() {
		b.add(f.atom())
	}
	// CuTe's complex products are several f64 products on the same fragments.
	for _, c := range []struct {
		alias   string
		m, k    int
		product string
		types   [2]string // of C and D, of A and B
		since   string
	}{
		{"SM80_8x8x4_C64C64C64C64_TN", 8, 4, "c64", [2]string{"complex<double>", "complex<double>"}, "sm_80"},
		{"SM80_8x8x4_GC64C64C64GC64_TN", 8, 4, "gauss.c64", [2]string{"SM80_8x8x4_GC64C64C64GC64_TN::GaussComplex", "complex<double>"}, "sm_80"},
		{"SM90_16x8x4_C64C64C64C64_TN", 16, 4, "c64", [2]string{"complex<double>", "complex<double>"}, "sm_90"},
		{"SM90_16x8x8_C64C64C64C64_TN", 16, 8, "c64", [2]string{"complex<double>", "complex<double>"}, "sm_90"},
		{"SM90_16x8x16_C64C64C64C64_TN", 16, 16, "c64", [2]string{"complex<double>", "complex<double>"}, "sm_90"},
	} {
		f := mmaForm{m: c.m, k: c.k, a: dtype.F64, b: dtype.F64, d: dtype.F64, c: dtype.F64, since: c.since}
		a := f.atom()
		a.Name = fmt.Sprintf("mma.m%dn8k%d.%s", c.m, c.k, c.product)
		a.Aliases = []string{c.alias}
		a.Family = "mma.complex"
		a.Row = ""
		a.Source = srcCuTe
		a.Note = "CuTe's complex product: four f64 instructions (three for Gauss) whose fragments hold real or imaginary parts"
		for i := range a.Operands {
			a.Operands[i].CuTeType = c.types[0]
			if n := a.Operands[i].Name; n == "A" || n == "B" {
				a.Operands[i].CuTeType = c.types[1]
			}
		}
		b.add(a)
	}
}

// voltaMMA is mma.m8n8k4 with f16 inputs: four products at once, one for each
// quadpair, that is lanes 4q to 4q+3 and the 16 lanes after them. With p = lane mod
// 4 and h = lane / 16, a lane holds row p+4h of a row-major A and of an f16 C; a
// column-major A, and B likewise, is transposed in 4×4 blocks. An f32 C lies in
// pieces of 1×2. Each form stands twice in the catalogue: as the warp executes it,
// and for one quadpair, as CuTe describes it.
func (b *nvidia) voltaMMA() {
	const aRow, aCol = "spatial(1, 2, 1).spatial(4, 1, 1).spatial(1, 4, 1).local(1, 1, 4)", "spatial(1, 2, 1).spatial(4, 1, 1).spatial(1, 1, 4).local(1, 4, 1)"
	const bCol, bRow = "spatial(1, 1, 2).spatial(4, 1, 1).spatial(1, 1, 4).local(1, 4, 1)", "spatial(1, 1, 2).spatial(4, 1, 1).spatial(1, 4, 1).local(1, 1, 4)"
	const c16 = "spatial(1, 2, 1).spatial(4, 1, 1).spatial(1, 4, 1).local(1, 1, 8)"
	const c32 = "spatial(1, 2, 1).spatial(4, 1, 1).local(1, 1, 2).local(1, 2, 1).spatial(1, 1, 2).spatial(1, 2, 1).local(1, 1, 2)"
	const qRow, qCol = "spatial(8, 1).local(1, 4)", "spatial(2, 1).spatial(1, 4).local(4, 1)"
	const qbCol, qbRow = "spatial(1, 8).local(4, 1)", "spatial(1, 2).spatial(4, 1).local(1, 4)"
	const q16, q32 = "spatial(8, 1).local(1, 8)", "spatial(2, 1).local(1, 2).local(2, 1).spatial(1, 2).spatial(2, 1).local(1, 2)"
	const tvRow, tvCol = "(8,4):(1,8)", "((4,2),4):((8,4),1)"
	sums := map[dtype.Type][3]string{
		dtype.F16: {c16, q16, "(8,8):(1,8)"},
		dtype.F32: {c32, q32, "((2,2,2),(2,2,2)):((1,16,4),(8,2,32))"},
	}
	orders := map[string][6]string{ // of A: warp, quadpair, CuTe; of B likewise
		"row": {aRow, qRow, tvRow, bRow, qbRow, tvCol},
		"col": {aCol, qCol, tvCol, bCol, qbCol, tvRow},
	}
	for _, acc := range [][2]dtype.Type{{dtype.F16, dtype.F16}, {dtype.F32, dtype.F16}, {dtype.F32, dtype.F32}} {
		d, c := acc[0], acc[1]
		for _, oa := range []string{"row", "col"} {
			for _, ob := range []string{"row", "col"} {
				name, ptx := voltaNames(d, c, oa, ob)
				b.add(Atom{
					Name: name, Family: "mma", M: 8, N: 8, K: 4, Blocks: 4, Lanes: 32, Since: "sm_70", Source: srcMMA,
					Note:    "four products at once, block q for lanes 4q to 4q+3 and 4q+16 to 4q+19; tuned for sm_70, later parts emulate it",
					Aliases: []string{ptx}, Row: name,
					Operands: []Operand{
						operand("A", dtype.F16, chainText(orders[oa][0]), 4, 8, 4), operand("B", dtype.F16, chainText(orders[ob][3]), 4, 4, 8),
						operand("C", c, chainText(sums[c][0]), 4, 8, 8), operand("D", d, chainText(sums[d][0]), 4, 8, 8),
					},
				})
				q := Atom{
					Name: name + ".quadpair", Family: "mma", M: 8, N: 8, K: 4, Lanes: 8, ThrID: "(4,2):(1,16)", Since: "sm_70", Source: srcMMA + "; " + srcCuTe,
					Note: "the share of one quadpair in " + name + ": its lane t is lane t mod 4 + 16·(t / 4), plus 4q, of the warp",
					Operands: []Operand{
						operand("A", dtype.F16, chainText(orders[oa][1]), 8, 4).cute(orders[oa][2]).named("half_t"),
						operand("B", dtype.F16, chainText(orders[ob][4]), 4, 8).cute(orders[ob][5]).named("half_t"),
						operand("C", c, chainText(sums[c][1]), 8, 8).cute(sums[c][2]).named(cuteType(c)),
						operand("D", d, chainText(sums[d][1]), 8, 8).cute(sums[d][2]).named(cuteType(d)),
					},
				}
				if c == d { // CuTe's T is a row-major A or a column-major B
					order := map[string]string{"row": "T", "col": "N"}[oa] + map[string]string{"col": "N", "row": "T"}[ob]
					q.Aliases = []string{fmt.Sprintf("SM70_8x8x4_%s%s%s%s_%s", cuteWord(d), "F16", "F16", cuteWord(c), order)}
				}
				b.add(q)
			}
		}
	}
}

// dotProducts is dp4a and dp2a: one lane multiplies a row by a column.
func (b *nvidia) dotProducts() {
	for _, x := range []struct {
		name, alias string
		k           int
		t           dtype.Type
	}{{"dp4a.s32.s8", "SM61_DP4A", 4, dtype.I8}, {"dp2a.s32.s16", "SM61_DP2A", 2, dtype.I16}} {
		b.add(Atom{
			Name: x.name, Family: "dp", M: 1, N: 1, K: x.k, Lanes: 1, ThrID: "1:0", Since: "sm_61", Source: "PTX ISA 9.0, 9.7.1 dp4a, dp2a; " + srcCuTe, Aliases: []string{x.alias},
			Operands: []Operand{
				operand("A", x.t, chain("local(1, %d)", x.k), 1, x.k).cute(fmt.Sprintf("(1,%d):(0,1)", x.k)).named(cuteType(x.t)),
				operand("B", x.t, chain("local(%d, 1)", x.k), x.k, 1).cute(fmt.Sprintf("(1,%d):(0,1)", x.k)).named(cuteType(x.t)),
				operand("C", dtype.I32, chain("local(1, 1)"), 1, 1).cute("(1,1):(0,0)").named("int"),
				operand("D", dtype.I32, chain("local(1, 1)"), 1, 1).cute("(1,1):(0,0)").named("int"),
			},
		})
	}
}
