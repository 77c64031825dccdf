package arch

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The formulas of this file are the PTX manual's, case by case as it prints them,
// and know nothing of the layouts: g is groupID, t is threadID_in_group, i the
// element of the fragment.

type place func(g, t, i int) (row, col int)

func pick(first bool, a, b int) int {
	if first {
		return a
	}
	return b
}

// manualA is operand A of mma by rows, columns and bits of an element.
func manualA(m, k, bits int) place {
	switch [3]int{m, k, bits} {
	case [3]int{8, 4, 64}:
		return func(g, t, i int) (int, int) { return g, t }
	case [3]int{8, 16, 8}:
		return func(g, t, i int) (int, int) { return g, t*4 + i&3 }
	case [3]int{8, 32, 4}:
		return func(g, t, i int) (int, int) { return g, t*8 + i&7 }
	case [3]int{8, 128, 1}:
		return func(g, t, i int) (int, int) { return g, t*32 + i&31 }
	case [3]int{16, 4, 32}, [3]int{16, 4, 64}:
		return func(g, t, i int) (int, int) { return pick(i == 0, g, g+8), t }
	case [3]int{16, 8, 16}:
		return func(g, t, i int) (int, int) { return pick(i < 2, g, g+8), t*2 + i&1 }
	case [3]int{16, 8, 32}, [3]int{16, 8, 64}:
		return func(g, t, i int) (int, int) { return pick(i == 0 || i == 2, g, g+8), pick(i < 2, t, t+4) }
	case [3]int{16, 16, 64}:
		return func(g, t, i int) (int, int) {
			return pick(i%2 == 0, g, g+8), pick(i%2 == 0, i*2+t, i*2-2+t)
		}
	case [3]int{16, 16, 16}:
		return func(g, t, i int) (int, int) {
			return pick(i < 2 || i >= 4 && i < 6, g, g+8), pick(i < 4, t*2+i&1, t*2+i&1+8)
		}
	case [3]int{16, 16, 8}:
		return func(g, t, i int) (int, int) { return pick(i < 4, g, g+8), t*4 + i&3 }
	case [3]int{16, 32, 8}:
		return func(g, t, i int) (int, int) {
			return pick(i < 4 || i >= 8 && i < 12, g, g+8), pick(i < 8, t*4+i&3, t*4+i&3+16)
		}
	case [3]int{16, 32, 4}:
		return func(g, t, i int) (int, int) { return pick(i < 8, g, g+8), t*8 + i&7 }
	case [3]int{16, 64, 4}:
		return func(g, t, i int) (int, int) {
			return pick(i < 8 || i >= 16 && i < 24, g, g+8), pick(i < 16, t*8+i&7, t*8+i&7+32)
		}
	case [3]int{16, 128, 1}:
		return func(g, t, i int) (int, int) { return pick(i < 32, g, g+8), t*32 + i&31 }
	case [3]int{16, 256, 1}:
		return func(g, t, i int) (int, int) {
			return pick(i < 32 || i >= 64 && i < 96, g, g+8), pick(i < 64, t*32+i&31, t*32+i&31+128)
		}
	}
	return nil
}

// manualB is operand B by rows and bits of an element; its column is g.
func manualB(k, bits int) place {
	row := func(f func(t, i int) int) place { return func(g, t, i int) (int, int) { return f(t, i), g } }
	switch [2]int{k, bits} {
	case [2]int{4, 64}, [2]int{4, 32}:
		return row(func(t, i int) int { return t })
	case [2]int{8, 32}, [2]int{8, 64}:
		return row(func(t, i int) int { return pick(i == 0, t, t+4) })
	case [2]int{16, 64}, [2]int{16, 32}:
		return row(func(t, i int) int { return t + i*4 })
	case [2]int{8, 16}:
		return row(func(t, i int) int { return t*2 + i })
	case [2]int{16, 16}:
		return row(func(t, i int) int { return pick(i < 2, t*2+i&1, t*2+i&1+8) })
	case [2]int{32, 16}:
		return row(func(t, i int) int { return t*2 + i&1 + 8*(i/2) })
	case [2]int{16, 8}:
		return row(func(t, i int) int { return t*4 + i&3 })
	case [2]int{32, 8}:
		return row(func(t, i int) int { return pick(i < 4, t*4+i&3, t*4+i&3+16) })
	case [2]int{64, 8}:
		return row(func(t, i int) int { return t*4 + i&3 + 16*(i/4) })
	case [2]int{32, 4}:
		return row(func(t, i int) int { return t*8 + i&7 })
	case [2]int{64, 4}:
		return row(func(t, i int) int { return pick(i < 8, t*8+i&7, t*8+i&7+32) })
	case [2]int{128, 4}:
		return row(func(t, i int) int { return t*8 + i&7 + 32*(i/8) })
	case [2]int{128, 1}:
		return row(func(t, i int) int { return t*32 + i&31 })
	case [2]int{256, 1}:
		return row(func(t, i int) int { return pick(i < 32, t*32+i&31, t*32+i&31+128) })
	}
	return nil
}

func manualC(m int) place {
	if m == 8 {
		return func(g, t, i int) (int, int) { return g, t*2 + i }
	}
	return func(g, t, i int) (int, int) { return pick(i < 2, g, g+8), t*2 + i&1 }
}

func sameAs(t *testing.T, a Atom, o Operand, want place) {
	t.Helper()
	if want == nil {
		t.Errorf("%s operand %s: the test has no formula", a.Name, o.Name)
		return
	}
	for lane := range o.Layout.Threads() {
		for i := range o.Layout.Slots() {
			row, col := want(lane>>2, lane&3, i)
			if got := o.Layout.Index(lane, i); !slices.Equal(got, []int{row, col}) {
				t.Fatalf("%s operand %s: lane %d element %d is %v, the manual says (%d, %d)", a.Name, o.Name, lane, i, got, row, col)
			}
		}
	}
}

func TestFragmentsOfMMAAgainstTheManual(t *testing.T) {
	checked := 0
	for _, a := range nvidiaOnly(t).atoms {
		if a.Family != "mma" && a.Family != "mma.sp" || !a.byManual() || a.Blocks > 1 {
			continue
		}
		k := a.K
		if a.Sparse() {
			k /= 2
		}
		for _, o := range a.Operands {
			switch o.Name {
			case "A":
				sameAs(t, a, o, manualA(a.M, k, o.SlotBits()))
			case "B":
				sameAs(t, a, o, manualB(a.K, o.SlotBits()))
			case "C", "D":
				sameAs(t, a, o, manualC(a.M))
			}
		}
		checked++
	}
	if checked < 280 {
		t.Errorf("only %d instructions", checked)
	}
	t.Logf("%d instructions", checked)
}

// The formulas for m8n8k4 with f16: p is the lane in its quad, h the half warp.
func TestFragmentsOfVolta(t *testing.T) {
	row := map[string]map[string]func(p, h, i, lane int) (int, int){
		"A": {"row": func(p, h, i, _ int) (int, int) { return p + 4*h, i }, "col": func(p, h, i, _ int) (int, int) { return i%4 + 4*h, p }},
		"B": {"row": func(p, h, i, _ int) (int, int) { return p, i + 4*h }, "col": func(p, h, i, _ int) (int, int) { return i, p + 4*h }},
		"C": {"f16": func(p, h, i, _ int) (int, int) { return p + 4*h, i }, "f32": func(_, h, i, l int) (int, int) {
			return l&1 + i&2 + 4*h, i&4 + l&2 + i&1
		}},
	}
	n := 0
	for _, a := range nvidiaOnly(t).atoms {
		if a.Family != "mma" || !a.byManual() || a.Blocks != 4 {
			continue
		}
		n++
		words := strings.Split(a.Name, ".")
		oa, ob := words[len(words)-2], words[len(words)-1]
		for _, o := range a.Operands {
			f := row["C"][o.Type.String()]
			switch o.Name {
			case "A":
				f = row["A"][oa]
			case "B":
				f = row["B"][ob]
			}
			for lane := range 32 {
				for e := range o.Layout.Slots() {
					r, c := f(lane%4, lane/16, e, lane)
					if got := o.Layout.Index(lane, e); !slices.Equal(got, []int{lane / 4 % 4, r, c}) {
						t.Fatalf("%s %s lane %d element %d is %v, the manual says %v", a.Name, o.Name, lane, e, got, []int{lane / 4 % 4, r, c})
					}
				}
			}
		}
	}
	if n != 12 {
		t.Errorf("%d forms", n)
	}
}

func TestFragmentsOfWGMMA(t *testing.T) {
	n := 0
	for _, a := range nvidiaOnly(t).atoms {
		if a.Family != "wgmma" || !a.byManual() {
			continue
		}
		n++
		d, _ := a.Operand("D")
		warp := func(f place) func(lane, i int) (int, int) {
			return func(lane, i int) (int, int) {
				r, c := f(lane%32>>2, lane&3, i)
				return r + 16*(lane/32), c
			}
		}
		same := func(o Operand, want func(lane, i int) (int, int)) {
			for lane := range 128 {
				for i := range o.Layout.Slots() {
					r, c := want(lane, i)
					if got := o.Layout.Index(lane, i); got[0] != r || got[1] != c {
						t.Fatalf("%s %s lane %d element %d is %v, the manual says (%d, %d)", a.Name, o.Name, lane, i, got, r, c)
					}
				}
			}
		}
		if a.N%64 == 0 || a.N <= 40 { // every form of D; larger ones repeat
			same(d, warp(func(g, t, i int) (int, int) { return g + 8*(i/2%2), 8*(i/4) + 2*t + i%2 }))
		}
		if x, _ := a.Operand("A"); strings.HasSuffix(a.Name, ".rs") && a.N == 8 {
			same(x, warp(manualA(16, a.K, x.Type.Bits())))
		}
	}
	if n < 1000 {
		t.Errorf("only %d forms", n)
	}
}

func TestMatrixCopiesAgainstTheManual(t *testing.T) {
	c := nvidiaOnly(t)
	for _, a := range c.atoms {
		if a.Family != "ldmatrix" && a.Family != "stmatrix" || !a.byManual() {
			continue
		}
		regs, _ := a.Operand("D")
		if regs.In == InShared {
			regs, _ = a.Operand("S")
		}
		for lane := range 32 {
			for i := range regs.Layout.Slots() {
				// Register i/2 holds of matrix i/2 the row lane/4, columns 2·(lane mod 4) and the next.
				row, col := lane/4, 2*(lane%4)+i%2
				if strings.Contains(a.Name, "trans") {
					row, col = col, row
				}
				if got := regs.Layout.Index(lane, i); got[0] != 8*(i/2)+row || got[1] != col {
					t.Fatalf("%s lane %d element %d is %v, the manual says (%d, %d)", a.Name, lane, i, got, 8*(i/2)+row, col)
				}
			}
		}
	}
	// tcgen05.ld and st: lane, register → row (of tensor memory) and 32-bit column.
	for shape, f := range map[string]place{
		"32x32b":   func(g, t, i int) (int, int) { return 4*g + t, i },
		"16x64b":   func(g, t, i int) (int, int) { return g + 8*(t&1), 2*i + t>>1 },
		"16x128b":  func(g, t, i int) (int, int) { return g + 8*(i&1), t + 4*(i>>1) },
		"16x256b":  func(g, t, i int) (int, int) { return g + 8*(i>>1&1), 2*t + i&1 + 8*(i>>2) },
		"16x32bx2": nil,
	} {
		for n := 1; n <= 128; n *= 2 {
			for _, dir := range []string{"ld", "st"} {
				at, ok := c.index["tcgen05."+dir+"."+shape+".x"+strconv.Itoa(n)]
				if !ok {
					continue
				}
				a := c.atoms[at]
				regs, _ := a.Operand("D")
				if dir == "st" {
					regs, _ = a.Operand("S")
				}
				if f == nil {
					f = func(g, t, i int) (int, int) { lane := 4*g + t; return lane % 16, lane/16*n + i }
					sameAs(t, a, regs, f)
					f = nil
					continue
				}
				sameAs(t, a, regs, f)
			}
		}
	}
}

// Metadata as the manual's figures have it, which agrees with how CUTLASS orders
// metadata in memory (host_reorder.h) and with CuTe's atoms for sm_120.
func TestMetadata(t *testing.T) {
	c := nvidiaOnly(t)
	for name, want := range map[string]func(lane, bit int) (row, entry int){
		"mma.sp.m16n8k16.f32.f16":  func(lane, bit int) (int, int) { return lane/4 + 8*(bit/16), bit % 16 / 2 },
		"mma.sp.m16n8k32.f32.f16":  func(lane, bit int) (int, int) { return lane/4 + 8*(bit/16), bit%16/2 + 8*(lane%2) },
		"mma.sp.m16n8k16.f32.tf32": func(lane, bit int) (int, int) { return lane/4 + 8*(bit/16), bit%16/4 + 4*(lane%2) },
		"mma.sp.m16n8k32.s32.s8":   func(lane, bit int) (int, int) { return lane/4 + 8*(lane%2), bit / 2 },
		"mma.sp.m16n8k64.s32.s8":   func(lane, bit int) (int, int) { return lane/4 + 8*(lane%2), bit/2 + 16*(lane/2%2) },
		"mma.sp.m16n8k8.f32.tf32":  func(lane, bit int) (int, int) { return lane/4 + 8*(bit/16), bit % 16 / 4 },
	} {
		a := c.atoms[c.index[name]]
		e, _ := a.Operand("E")
		for lane := range 32 {
			for i := range e.Layout.Slots() {
				r, k := want(lane, i*e.Type.Bits())
				if got := e.Layout.Index(lane, i); got[0] != r || got[1] != k {
					t.Fatalf("%s: lane %d entry %d is %v, must be (%d, %d)", name, lane, i, got, r, k)
				}
			}
		}
	}
}

func TestBrokenRowsDoNotLoad(t *testing.T) {
	base := denseForms()[0].atom()
	for name, spoil := range map[string]func(*Atom){
		"family":  func(a *Atom) { a.Family = "" },
		"vendor":  func(a *Atom) { a.Vendor = "intel" },
		"since":   func(a *Atom) { a.Since = "sm_1" },
		"shape":   func(a *Atom) { a.Operands[0].Layout = chain("spatial(8, 4).local(1, 2)") },
		"size":    func(a *Atom) { a.K = 4 },
		"lanes":   func(a *Atom) { a.Lanes = 64 },
		"copies":  func(a *Atom) { a.Operands[1].Replicas = 2 },
		"type":    func(a *Atom) { a.Operands[1].Type = 0 },
		"shared":  func(a *Atom) { a.Operands[2].Shape = nil },
		"nothing": func(a *Atom) { a.Operands = nil },
	} {
		a := base
		a.Vendor, a.Blocks = "nvidia", 1
		a.Operands = slices.Clone(base.Operands)
		if checkAtom(a) != nil {
			t.Fatal("the row itself does not load")
		}
		spoil(&a)
		if checkAtom(a) == nil {
			t.Errorf("a row with a wrong %s loads", name)
		}
	}
	a := base
	a.Vendor, a.Blocks = "nvidia", 1
	if _, err := newCatalogue([]Atom{a, a}); err == nil {
		t.Error("two rows of one name load")
	}
}

// Scales and metadata of sm_120 against CuTe's SFALayout ((2,2,8),K):((8,0,1),16),
// SFBLayout ((4,8),K):((0,1),8) and ELayout ((2,2,8),K/2):((8,16·K/2,1),16).
func TestScalesOfBlackwell(t *testing.T) {
	n := 0
	for _, a := range nvidiaOnly(t).atoms {
		sa, ok := a.Operand("SA")
		if !ok || a.Family == "tcgen05.mma" {
			continue
		}
		n++
		sb, _ := a.Operand("SB")
		for lane := range 32 {
			for s := range sa.Layout.Slots() {
				if got := sa.Layout.Index(lane, s); got[0] != lane%2*8+lane/4 || got[1] != s {
					t.Fatalf("%s: scale %d of A in lane %d is %v", a.Name, s, lane, got)
				}
				if got := sb.Layout.Index(lane, s); got[0] != s || got[1] != lane/4 {
					t.Fatalf("%s: scale %d of B in lane %d is %v", a.Name, s, lane, got)
				}
			}
			if e, ok := a.Operand("E"); ok {
				for s := range e.Layout.Slots() {
					if got := e.Layout.Index(lane, s); got[0] != lane%2*8+lane/4 || got[1] != lane/2%2*e.Layout.Slots()+s {
						t.Fatalf("%s: metadata %d of lane %d is %v", a.Name, s, lane, got)
					}
				}
			}
		}
	}
	if n != 56 {
		t.Errorf("%d instructions with scales", n)
	}
}

// A sparse A as CuTe writes it, all of K with two values for each stored one,
// against the stored elements.
func TestSparseAOfCuTe(t *testing.T) {
	n := 0
	for _, a := range nvidiaOnly(t).atoms {
		o, _ := a.Operand("A")
		if a.Family != "mma.sp" || o.CuTe == "" {
			continue
		}
		n++
		threads, values := threadValueModes(o.CuTe)
		if threads.size() != 32 || values.size() != 2*o.Layout.Slots() {
			t.Fatalf("%s: %s for %d stored elements of a lane", a.Name, o.CuTe, o.Layout.Slots())
		}
		for lane := range 32 {
			for v := range values.size() {
				at, got := threads.at(lane)+values.at(v), o.Layout.Index(lane, v/2)
				if got[0] != at%16 || got[1] != at/16/2 {
					t.Fatalf("%s: lane %d stores %v, CuTe has (%d, %d) there", a.Name, lane, got, at%16, at/16)
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d instructions", n)
	}
}
