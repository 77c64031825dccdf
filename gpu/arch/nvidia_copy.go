package arch

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds the copies between shared memory, registers and tensor memory
// that matrix instructions need. S is the source and D the destination, both into
// the same [rows, columns]; a row of a matrix in shared memory is the 16 bytes at
// the address that one lane gives.

const (
	srcLdmatrix = "PTX ISA 9.0, 9.7.14 ldmatrix, stmatrix, movmatrix; " + srcCuTe
	srcCopy     = srcCuTe + "/copy_traits"
)

// rowOwners is which lane gives the address of which row of rows: the first lanes,
// in order. Later lanes repeat them, and their addresses are not read.
func rowOwners(t dtype.Type, rows, cols int) Operand {
	return operand("", t, chain("replicated(1, 1, num_workers=%d).spatial(%d, 1).local(1, %d)", 32/rows, rows, cols), rows, cols).in(InShared).
		note(fmt.Sprintf("lane l gives the address of row l, for l below %d", rows))
}

// rowOwnersCuTe is the same in bits.
func rowOwnersCuTe(rows int) string {
	if rows == 32 {
		return "(32,128):(128,1)"
	}
	return fmt.Sprintf("((%d,%d),128):((128,0),1)", rows, 32/rows)
}

func (b *nvidia) matrixCopy(a Atom, load bool, shared, regs Operand) {
	a.Lanes, a.Source = 32, srcLdmatrix
	if load {
		shared.Name, regs.Name = "S", "D"
		a.Operands = []Operand{shared, regs}
	} else {
		shared.Name, regs.Name = "D", "S"
		a.Operands = []Operand{regs, shared}
	}
	b.add(a)
}

func (b *nvidia) matrixCopies() {
	const b16, b8, b6, b4 = dtype.U16, dtype.U8, dtype.U6, dtype.U4
	for _, x := range []struct {
		word, cute, since string
		load              bool
	}{{"ldmatrix", "LDSM", "sm_75", true}, {"stmatrix", "STSM", "sm_90", false}} {
		generation := map[bool]string{true: "SM75", false: "SM90"}[x.load]
		for _, n := range []int{1, 2, 4} {
			rows := 8 * n
			owners := rowOwners(b16, rows, 8).cute(rowOwnersCuTe(rows))
			plain := operand("", b16, chain("local(%d, 1).spatial(8, 4).local(1, 2)", n), rows, 8).cute(threadValue([]cuteMode{{32, 32}}, []cuteMode{{32, 1}, {n, 1024}}))
			name := fmt.Sprintf("%s.m8n8.x%d.b16", x.word, n)
			b.matrixCopy(Atom{Name: name, Family: x.word, Since: x.since, Row: name,
				Aliases: []string{fmt.Sprintf("%s_U32x%d_%s_N", generation, n, x.cute), fmt.Sprintf("%s.sync.aligned.m8n8.x%d.shared.b16", x.word, n)}}, x.load, owners, plain)
			trans := operand("", b16, chain("local(%d, 1).column_spatial(4, 8).local(2, 1)", n), rows, 8).cute(threadValue([]cuteMode{{4, 256}, {8, 16}}, []cuteMode{{16, 1}, {2, 128}, {n, 1024}}))
			name = fmt.Sprintf("%s.m8n8.x%d.trans.b16", x.word, n)
			b.matrixCopy(Atom{Name: name, Family: x.word, Since: x.since, Row: name,
				Aliases: []string{fmt.Sprintf("%s_U16x%d_%s_T", generation, 2*n, x.cute), fmt.Sprintf("%s.sync.aligned.m8n8.x%d.trans.shared.b16", x.word, n)}}, x.load, owners, trans)
		}
	}
	// Eight-bit matrices, transposed on the way, and packed elements that ldmatrix
	// spreads to bytes. sm_100.
	archs := []string{"sm_100a", "sm_101a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"}
	for _, n := range []int{1, 2} {
		// A thread holds four neighbouring rows of a column and of the column 8 on.
		regs := operand("", b8, chain("register_layout([%d, 16], [%d, 4, 2, 2, 2, 8], [5, 1], [0, 2, 4, 3])", 16*n, n), 16*n, 16).
			cute(threadValue([]cuteMode{{4, 256}, {8, 8}}, []cuteMode{{8, 1}, {2, 128}, {2, 64}, {2 * n, 1024}}))
		owners := rowOwners(b8, 16*n, 16)
		owners.CuTe = fmt.Sprintf("((2,2,4,2),128):((128,1024,256,%d),1)", 2048*(n-1))
		b.matrixCopy(Atom{Name: fmt.Sprintf("ldmatrix.m16n16.x%d.trans.b8", n), Family: "ldmatrix", Since: "sm_100a", Archs: archs,
			Note:    "CuTe counts the rows in another order on both sides; what a lane receives from which address is the same",
			Aliases: []string{fmt.Sprintf("SM100_U8x%d_LDSM_T", 8*n), fmt.Sprintf("ldmatrix.sync.aligned.m16n16.x%d.trans.shared.b8", n)}}, true, owners, regs)
	}
	for _, p := range []struct {
		t     dtype.Type
		cute  string
		word  string
		bytes int
	}{{b6, "SU6", "b6x16_p32", 12}, {b4, "SU4", "b4x16_p64", 8}} {
		for _, n := range []int{1, 2, 4} {
			owners := rowOwners(p.t, 8*n, 16).cute(rowOwnersCuTe(8 * n))
			owners.Note += fmt.Sprintf("; a row is %d bytes of packed elements and as many of padding as make 16", p.bytes)
			regs := operand("", p.t, chain("local(%d, 1).spatial(8, 4).local(1, 4)", n), 8*n, 16).wide(8).note("each element in the low bits of a byte").cute(threadValue([]cuteMode{{32, 32}}, []cuteMode{{32, 1}, {n, 1024}}))
			b.matrixCopy(Atom{Name: fmt.Sprintf("ldmatrix.m8n16.x%d.%s", n, p.word), Family: "ldmatrix", Since: "sm_100a", Archs: archs,
				Aliases: []string{fmt.Sprintf("SM100_%s_DU8x16_x%d_LDSM_N", p.cute, n), fmt.Sprintf("ldmatrix.sync.aligned.m8n16.x%d.shared.b8x16.%s", n, p.word)}}, true, owners, regs)
		}
	}
	for _, n := range []int{1, 2, 4} {
		regs := operand("", b8, chain("register_layout([%d, 16], [%d, 4, 2, 2, 8], [4, 1], [0, 3, 2])", 8*n, n), 8*n, 16).
			cute(threadValue([]cuteMode{{4, 256}, {8, 8}}, []cuteMode{{8, 1}, {2, 128}, {2, 64}, {n, 1024}}))
		b.matrixCopy(Atom{Name: fmt.Sprintf("stmatrix.m16n8.x%d.trans.b8", n), Family: "stmatrix", Since: "sm_100a", Archs: archs,
			Aliases: []string{fmt.Sprintf("SM100_U8x%d_STSM_T", 4*n), fmt.Sprintf("stmatrix.sync.aligned.m16n8.x%d.trans.shared.b8", n)}}, false, rowOwners(b8, 8*n, 16).cute(rowOwnersCuTe(8*n)), regs)
	}
	b.add(Atom{Name: "movmatrix.m8n8.trans.b16", Family: "movmatrix", Lanes: 32, Since: "sm_75", Source: srcLdmatrix, Row: "movmatrix.m8n8.trans.b16",
		Aliases: []string{"SM75_U32x1_MOVM_T", "movmatrix.sync.aligned.m8n8.trans.b16"},
		Note:    "D is given as the elements of S that it receives; CuTe numbers the bits of the transposed matrix anew",
		Operands: []Operand{
			operand("S", b16, chain("spatial(8, 4).local(1, 2)"), 8, 8).cute("(32,32):(32,1)"),
			operand("D", b16, chain("column_spatial(4, 8).local(2, 1)"), 8, 8).cute("(32,32):(32,1)"),
		}})
}

// tensorCopies is tcgen05.ld, tcgen05.st and tcgen05.cp: elements are 32-bit
// words, rows are lanes of tensor memory.
func (b *nvidia) tensorCopies() {
	archs := []string{"sm_100a", "sm_101a", "sm_103a", "sm_110a"}
	type shape struct {
		word, cute string
		rows, cols int // of x1
		most       int
		chain      func(n int) string
		tv         func(n int) ([]cuteMode, []cuteMode)
	}
	shapes := []shape{
		{"16x64b", "16dp64b", 16, 2, 128,
			func(n int) string {
				return fmt.Sprintf("register_layout([16, %d], [2, 8, %d, 2], [1, 3, 0], [2])", 2*n, n)
			},
			func(n int) ([]cuteMode, []cuteMode) {
				return []cuteMode{{2, 512 * n}, {2, 32}, {8, 64 * n}}, []cuteMode{{32, 1}, {n, 64}}
			}},
		{"16x128b", "16dp128b", 16, 4, 64,
			func(n int) string { return fmt.Sprintf("column_local(2, %d).spatial(8, 4)", n) },
			func(n int) ([]cuteMode, []cuteMode) {
				return []cuteMode{{4, 32}, {8, 128 * n}}, []cuteMode{{32, 1}, {2, 1024 * n}, {n, 128}}
			}},
		{"16x256b", "16dp256b", 16, 8, 32,
			func(n int) string { return fmt.Sprintf("column_local(2, %d).spatial(8, 4).local(1, 2)", n) },
			func(n int) ([]cuteMode, []cuteMode) {
				return []cuteMode{{4, 64}, {8, 256 * n}}, []cuteMode{{64, 1}, {2, 2048 * n}, {n, 256}}
			}},
		{"16x32bx2", "16dp32b", 16, 2, 128,
			func(n int) string { return fmt.Sprintf("spatial(1, 2).spatial(16, 1).local(1, %d)", n) },
			func(n int) ([]cuteMode, []cuteMode) {
				return []cuteMode{{16, 64 * n}, {2, 32 * n}}, []cuteMode{{32 * n, 1}}
			}},
		{"32x32b", "32dp32b", 32, 1, 128,
			func(n int) string { return fmt.Sprintf("spatial(32, 1).local(1, %d)", n) },
			func(n int) ([]cuteMode, []cuteMode) { return []cuteMode{{32, 32 * n}}, []cuteMode{{32 * n, 1}} }},
	}
	for _, s := range shapes {
		for n := 1; n <= s.most; n *= 2 {
			rows, cols := s.rows, s.cols*n
			regs := operand("", dtype.U32, chainText(s.chain(n)), rows, cols)
			threads, values := s.tv(n)
			regs.CuTe = threadValue(threads, values)
			tensor := operand("", dtype.U32, chain("replicated(1, 1, num_workers=32).local(%d, %d)", rows, cols), rows, cols).in(InTensor).
				cute(fmt.Sprintf("(32,%d):(0,1)", 32*rows*cols)).note("rows are lanes of the warp's quarter of tensor memory")
			for _, ld := range []bool{true, false} {
				word, cute := "st", "STORE"
				if ld {
					word, cute = "ld", "LOAD"
				}
				a := Atom{Name: fmt.Sprintf("tcgen05.%s.%s.x%d", word, s.word, n), Family: "tcgen05." + word, Lanes: 32, Since: "sm_100a", Archs: archs, Source: srcTC05 + "." + word + "; " + srcCuTe,
					Aliases: []string{fmt.Sprintf("SM100_TMEM_%s_%s%dx", cute, s.cute, n), fmt.Sprintf("SM100_TMEM_%s_%s%dx_16b", cute, s.cute, n), fmt.Sprintf("tcgen05.%s.sync.aligned.%s.x%d.b32", word, s.word, n)}}
				src, dst := regs, tensor
				if ld {
					src, dst = tensor, regs
					if s.word == "32x32b" && n > 1 {
						a.Aliases = append(a.Aliases, fmt.Sprintf("SM100_TMEM_LOAD_STAT_%s%dx", s.cute, n))
					}
				}
				src.Name, dst.Name = "S", "D"
				a.Operands = []Operand{src, dst}
				b.add(a)
			}
		}
	}
	for _, c := range []struct {
		word, cute string
		rows, bits int
		d          string // into tensor memory, as the layout algebra writes it
		sbits      string // values of the source and of the destination in bits
		dbits      string
		note       string
	}{
		{"128x256b", "128dp256bit", 128, 256, "spatial(128, 1).local(1, 8)", "32768", "32768", ""},
		{"128x128b", "128dp128bit", 128, 128, "spatial(128, 1).local(1, 4)", "16384", "16384", ""},
		{"4x256b", "4dp256bit", 4, 256, "", "(4,256)", "(4,256)", "CuTe counts it as a refresh of 128 lanes"},
		{"32x128b.warpx4", "4x32dp128bit", 32, 128, "replicated(1, 1, num_workers=4).spatial(32, 1).local(1, 4)", "(32,128,4)", "16384", "every warp's quarter receives the same rows"},
		{"64x128b.warpx2.02_13", "2x64dp128bitlw0213", 64, 128, "replicated(1, 1, num_workers=2).spatial(64, 1).local(1, 4)", "(64,128,2)", "16384", "warps 0 and 2 receive rows 0 to 31, warps 1 and 3 the others"},
		{"64x128b.warpx2.01_23", "2x64dp128bitlw0123", 64, 128, "spatial(2, 1).replicated(1, 1, num_workers=2).spatial(32, 1).local(1, 4)", "(32,128,2,2)", "16384", "warps 0 and 1 receive rows 0 to 31, warps 2 and 3 the others"},
	} {
		strides := map[string]string{"32768": "1", "16384": "1", "(4,256)": "(32,128)", "(32,128,4)": "(1,32,0)", "(64,128,2)": "(1,64,0)", "(32,128,2,2)": "(1,32,4096,0)"}
		for _, blocks := range []int{1, 2} {
			tv := func(values string) string { return fmt.Sprintf("(%d,%s):(0,%s)", blocks, values, strides[values]) }
			s := operand("S", dtype.U32, chain("replicated(1, 1, num_workers=%d).local(%d, %d)", blocks, c.rows, c.bits/32), c.rows, c.bits/32).in(InShared).cute(tv(c.sbits)).note("a shared memory descriptor")
			d := s
			if c.d != "" {
				d = operand("D", dtype.U32, chainText(c.d), c.rows, c.bits/32)
			}
			d.Name, d.Note = "D", c.note
			d = d.in(InTensor).cute(tv(c.dbits))
			a := Atom{Name: "tcgen05.cp." + c.word, Family: "tcgen05.cp", Lanes: blocks, Since: "sm_100a", Archs: archs, Source: srcTC05 + ".cp; " + srcCuTe,
				Operands: []Operand{s, d}, Aliases: []string{fmt.Sprintf("SM100_UTCCP_%s_%dcta", c.cute, blocks)}}
			if blocks == 1 {
				a.ThrID = "1:0"
			} else {
				a.Name += ".cta2"
			}
			b.add(a)
		}
	}
}

// plainCopies is the copies that CuTe has atoms for and that are no matrix
// instructions: of one lane, and two shuffles that transpose 2×2 words.
func (b *nvidia) plainCopies() {
	one := func(name, since string, bits int, aliases ...string) {
		tv := fmt.Sprintf("(1,%d):(0,1)", bits)
		t, n := dtype.U8, bits/8
		o := operand("", t, chain("local(%d)", n), n).cute(tv)
		s, d := o, o
		s.Name, d.Name = "S", "D"
		b.add(Atom{Name: name, Family: "copy", Lanes: 1, ThrID: "1:0", Since: since, Source: srcCopy, Aliases: aliases, Operands: []Operand{s, d}})
	}
	for _, bits := range []int{8, 16, 32, 64, 128} {
		one(fmt.Sprintf("copy.b%d", bits), "sm_50", bits, fmt.Sprintf("UniversalCopy<u%d>", bits))
	}
	for _, bytes := range []int{4, 8, 16} {
		one(fmt.Sprintf("cp.async.ca.%d", bytes), "sm_80", 8*bytes, fmt.Sprintf("SM80_CP_ASYNC_CACHEALWAYS<u%d>", 8*bytes), fmt.Sprintf("SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u%d>", 8*bytes))
	}
	one("cp.async.cg.16", "sm_80", 128, "SM80_CP_ASYNC_CACHEGLOBAL<u128>", "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>")
	one("ld.global.b256", "sm_100", 256, "SM100_LOAD_256bit_CACHE_NOALLOCATION")
	one("st.global.b256", "sm_100", 256, "SM100_STORE_256bit_CACHE_NOALLOCATION")
	for _, x := range []struct{ alias, d, tv string }{
		{"SM50_Shuffle_U32_2x2Trans_XOR1", "spatial(16, 1).spatial(1, 2).local(2, 1)", "((2,16),(32,2)):((32,128),(1,64))"},
		{"SM50_Shuffle_U32_2x2Trans_XOR4", "spatial(4, 1).local(2, 1).spatial(1, 2).spatial(4, 1)", "((4,2,4),(32,2)):((64,32,512),(1,256))"},
	} {
		b.add(Atom{Name: "shfl.trans2x2." + x.alias[len(x.alias)-4:], Family: "shfl", Lanes: 32, Since: "sm_50", Source: srcCopy, Aliases: []string{x.alias},
			Note: "CuTe's transposition of 2×2 words between lanes whose numbers differ in one bit",
			Operands: []Operand{
				operand("S", dtype.U32, chain("spatial(32, 1).local(1, 2)"), 32, 2).cute("(32,64):(64,1)"),
				operand("D", dtype.U32, chainText(x.d), 32, 2).cute(x.tv),
			}})
	}
}
