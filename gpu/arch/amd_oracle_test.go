package arch

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// This file holds what others say about AMD's fragments, written out as the
// sources have it: an element as a formula of lane and element number. Nothing
// here reads the table or the layouts of this package.

type fragmentFormula struct {
	name, operand, source string
	wave                  int
	slots                 int // elements of a lane
	at                    func(lane, slot int) []int
}

const (
	labNotes    = "AMD lab notes, Matrix cores (gpuopen.com/learn/amd-lab-notes/amd-lab-notes-matrix-cores-readme): loads and stores of the examples"
	mojoRDNA    = "Modular, get_rdna_fragment_layout: D[row=v*2+l//16, col=l%16]; ROCm/FlyDSL pull request 485: M = 2v + n/16, measured on gfx1151"
	gpuopenRDNA = "gpuopen.com/learn/wmma_on_rdna3: both halves of the wave load the same 16 values; results are every second row"
	rdna4Post   = "gpuopen.com/learn/using_matrix_core_amd_rdna4: eight consecutive rows of D for each half of the wave"
	aiterMX     = "ROCm/aiter, opus test_mxfp.cu: two stripes of 16 fp8 with stride 32; 32 consecutive fp4"
	tritonWidth = "triton ScaledBlockedToScaledMFMAF8F6F4: runs of k_width 16 bytes, lanes before repetitions"
	fpsan       = "AMD fpsan, mfma_gfx950 SMFMAC LayoutMatchesHardware, run on MI350"
	fpsanMix    = "AMD fpsan amdgcn_mfma.hpp: 8-bit and smaller operands multiplied together on MI350"
	tritonMX    = "triton chooseScaledMfmaScaleLayout: row = lane % M, block of 32 along K = lane / M"
)

func amdFormulas() []fragmentFormula {
	a := func(m, each int) func(int, int) []int { // lane → row, group of consecutive k
		return func(l, s int) []int { return []int{l % m, each*(l/m) + s} }
	}
	b := func(n, each int) func(int, int) []int {
		return func(l, s int) []int { return []int{each*(l/n) + s, l % n} }
	}
	d32 := func(l, s int) []int { return []int{8*(s/4) + 4*(l/32) + s%4, l % 32} }
	d16 := func(l, s int) []int { return []int{4*(l/16) + s, l % 16} }
	return []fragmentFormula{
		{"cdna1/v_mfma_f32_32x32x2f32", "A", labNotes, 64, 1, a(32, 1)},
		{"cdna1/v_mfma_f32_32x32x2f32", "B", labNotes, 64, 1, b(32, 1)},
		{"cdna1/v_mfma_f32_32x32x2f32", "D", labNotes, 64, 16, d32},
		{"cdna2/v_mfma_f32_16x16x4f32", "A", labNotes, 64, 1, a(16, 1)},
		{"cdna2/v_mfma_f32_16x16x4f32", "B", labNotes, 64, 1, b(16, 1)},
		{"cdna2/v_mfma_f32_16x16x4f32", "D", labNotes, 64, 4, d16},
		{"cdna1/v_mfma_f32_16x16x16f16", "A", labNotes, 64, 4, a(16, 4)},
		{"cdna1/v_mfma_f32_16x16x16f16", "B", labNotes, 64, 4, b(16, 4)},
		{"cdna1/v_mfma_f32_16x16x16f16", "D", labNotes, 64, 4, d16},
		{"cdna3/v_mfma_f32_32x32x8_f16", "A", labNotes, 64, 4, a(32, 4)},
		{"cdna3/v_mfma_f32_32x32x8_f16", "B", labNotes, 64, 4, b(32, 4)},
		{"cdna3/v_mfma_f32_32x32x8_f16", "C", labNotes, 64, 16, d32},
		{"cdna3/v_mfma_f32_32x32x8_f16", "D", labNotes, 64, 16, d32},
		{"cdna3/v_mfma_f32_16x16x32_fp8_fp8", "A", labNotes, 64, 8, a(16, 8)},
		{"cdna3/v_mfma_i32_32x32x16_i8", "B", labNotes, 64, 8, b(32, 8)},
		{"cdna1/v_mfma_f32_16x16x4f16", "A", labNotes, 64, 4, func(l, s int) []int { return []int{l / 16, l % 16, s} }},
		{"cdna1/v_mfma_f32_16x16x4f16", "B", labNotes, 64, 4, func(l, s int) []int { return []int{l / 16, s, l % 16} }},
		{"cdna1/v_mfma_f32_16x16x4f16", "D", labNotes, 64, 16, func(l, s int) []int { return []int{s / 4, 4*(l/16) + s%4, l % 16} }},
		{"cdna1/v_mfma_f32_4x4x4f16", "A", labNotes, 64, 4, func(l, s int) []int { return []int{l / 4, l % 4, s} }},
		{"cdna1/v_mfma_f32_4x4x4f16", "D", labNotes, 64, 4, func(l, s int) []int { return []int{l / 4, s, l % 4} }},
		{"cdna1/v_mfma_f32_32x32x1f32", "D", labNotes, 64, 32, func(l, s int) []int { return []int{s / 16, 8*(s/4%4) + 4*(l/32) + s%4, l % 32} }},
		{"cdna2/v_mfma_f64_16x16x4f64", "A", labNotes, 64, 1, a(16, 1)},
		{"cdna2/v_mfma_f64_16x16x4f64", "D", labNotes, 64, 4, func(l, s int) []int { return []int{4*s + l/16, l % 16} }},
		{"rdna3/v_wmma_f32_16x16x16_f16", "A", gpuopenRDNA, 32, 16, func(l, s int) []int { return []int{l % 16, s} }},
		{"rdna3/v_wmma_f32_16x16x16_f16", "B", gpuopenRDNA, 32, 16, func(l, s int) []int { return []int{s, l % 16} }},
		{"rdna3/v_wmma_f32_16x16x16_f16", "D", mojoRDNA, 32, 8, func(l, s int) []int { return []int{2*s + l/16, l % 16} }},
		{"rdna3/v_wmma_f32_16x16x16_f16/w64", "D", gpuopenRDNA, 64, 4, func(l, s int) []int { return []int{4*s + l/16, l % 16} }},
		{"rdna4/v_wmma_f32_16x16x16_f16", "D", rdna4Post, 32, 8, func(l, s int) []int { return []int{8*(l/16) + s, l % 16} }},
		{"cdna4/v_mfma_f32_32x32x64_f8f6f4/fp8_fp8", "A", aiterMX, 64, 32, func(l, s int) []int { return []int{l % 32, 32*(s/16) + 16*(l/32) + s%16} }},
		{"cdna4/v_mfma_f32_32x32x64_f8f6f4/fp8_fp8", "B", aiterMX, 64, 32, func(l, s int) []int { return []int{32*(s/16) + 16*(l/32) + s%16, l % 32} }},
		{"cdna4/v_mfma_f32_16x16x128_f8f6f4/bf8_fp4", "A", tritonWidth, 64, 32, func(l, s int) []int { return []int{l % 16, 64*(s/16) + 16*(l/16) + s%16} }},
		{"cdna4/v_mfma_f32_16x16x128_f8f6f4/fp8_fp6", "A", fpsanMix, 64, 32, func(l, s int) []int { return []int{l % 16, 64*(s/16) + 16*(l/16) + s%16} }},
		{"cdna4/v_mfma_f32_16x16x128_f8f6f4/fp8_fp6", "B", fpsanMix, 64, 32, b(16, 32)},
		{"cdna4/v_mfma_f32_32x32x64_f8f6f4/bf6_bf8", "A", fpsanMix, 64, 32, a(32, 32)},
		{"cdna4/v_smfmac_f32_16x16x64_f16", "A", fpsan, 64, 8, a(16, 8)},
		{"cdna4/v_smfmac_f32_16x16x64_f16", "B", fpsan, 64, 16, func(l, s int) []int { return []int{s%8 + 8*(l/16) + 32*(s/8), l % 16} }},
		{"cdna4/v_smfmac_f32_32x32x32_bf16", "A", fpsan, 64, 8, a(32, 8)},
		{"cdna4/v_smfmac_f32_32x32x32_bf16", "B", fpsan, 64, 16, func(l, s int) []int { return []int{16*(s/8) + 8*(l/32) + s%8, l % 32} }},
		{"cdna4/v_smfmac_f32_16x16x128_fp8_fp8", "A", fpsan, 64, 16, a(16, 16)},
		{"cdna4/v_mfma_f32_32x32x64_f8f6f4/fp4_fp4", "A", aiterMX, 64, 32, a(32, 32)},
		{"cdna4/v_mfma_f32_16x16x128_f8f6f4/fp4_fp4", "B", aiterMX, 64, 32, b(16, 32)},
		{"cdna4/v_mfma_f32_16x16x128_f8f6f4/fp4_fp4", "D", aiterMX, 64, 4, d16},
		{"cdna4/v_mfma_scale_f32_32x32x64_f8f6f4/fp8_fp4", "SA", tritonMX, 64, 1, a(32, 1)},
		{"cdna4/v_mfma_scale_f32_16x16x128_f8f6f4/fp4_fp4", "SB", tritonMX, 64, 1, b(16, 1)},
	}
}

func TestAMDFormulas(t *testing.T) {
	for _, f := range amdFormulas() {
		a, err := FindAtom(f.name)
		if err != nil {
			t.Error(err)
			continue
		}
		o, ok := a.Operand(f.operand)
		if !ok || o.Layout.Threads() != f.wave || o.Layout.Slots() != f.slots {
			t.Errorf("%s %s: %s, want %d lanes with %d elements", f.name, f.operand, o.Layout, f.wave, f.slots)
			continue
		}
		for lane := range f.wave {
			for slot := range f.slots {
				if got, want := o.Layout.Index(lane, slot), f.at(lane, slot); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%s %s lane %d slot %d: %v, %s says %v", f.name, f.operand, lane, slot, got, f.source, want)
				}
			}
		}
	}
}

// TestAMDSparseProbe holds the operands of a sparse product against a probe of
// the hardware: the byte of B that byte a of A in lane group ag is multiplied
// with, where the indices choose the first two of each four.
//
// Source: one-hot probes of v_smfmac_f32_16x16x128_fp8_fp8 on gfx950, published in
// "GFX950 SMFMAC Sparse Trick Notes".
func TestAMDSparseProbe(t *testing.T) {
	in, err := FindAMD("gfx950", "v_smfmac_f32_16x16x128_fp8_fp8")
	if err != nil {
		t.Fatal(err)
	}
	stored, _ := in.Operand("A", 64)
	dense, _ := in.Operand("B", 64)
	for ag := range 4 {
		for a := range 16 {
			c := stored.Layout.Index(16*ag, a)[1]
			k := c/2*4 + c%2
			h := dense.Layout.Holders(k, 0)[0]
			if slot, group := 16*(ag/2)+4*(a%8/2)+a%2, 2*(ag%2)+a/8; h.Slot != slot || h.Thread/16 != group {
				t.Errorf("byte %d of group %d meets byte %d of group %d, the probe says %d of %d", a, ag, h.Slot, h.Thread/16, slot, group)
			}
		}
	}
}

// TestAMDInvariants holds every row to what must hold whatever the layout is.
func TestAMDInvariants(t *testing.T) {
	checked := map[string]bool{}
	for _, in := range AMDInstructions() {
		for _, wave := range in.Waves() {
			for _, name := range in.OperandNames() {
				o, _ := in.Operand(name, wave)
				if key := name + o.Layout.Key(); checked[key] {
					continue
				} else {
					checked[key] = true
				}
				where := fmt.Sprintf("%s %s w%d %s", in.Gen, in.Name, wave, name)
				// Every element lies somewhere, as often as any other.
				times := map[int]int{}
				for lane := range o.Layout.Threads() {
					for slot := range o.Layout.Slots() {
						times[o.Layout.FlatIndex(lane, slot)]++
					}
				}
				size := 1
				for _, n := range o.Shape {
					size *= n
				}
				if len(times) != size {
					t.Errorf("%s: %d of %d elements lie in registers", where, len(times), size)
				}
				for e, n := range times {
					if n != o.Replicas {
						t.Errorf("%s: element %d lies in %d places, not %d", where, e, n, o.Replicas)
						break
					}
				}
				// A lane works on one column of B and D, and one row of A.
				if name == "SA" || name == "SB" {
					continue
				}
				fixed := map[string]int{"A": 0, "E": 0, "B": 1, "C": 1, "D": 1}[name] + len(o.Shape) - 2
				for lane := range o.Layout.Threads() {
					for slot := range o.Layout.Slots() {
						if o.Layout.Index(lane, slot)[fixed] != o.Layout.Index(lane, 0)[fixed] {
							t.Fatalf("%s: lane %d has elements of several lines", where, lane)
						}
					}
				}
			}
			if in.Sparse || in.A.Type.Bits() != in.B.Type.Bits() {
				continue
			}
			if columnsOf(t, in, "A", wave) != columnsOf(t, in, "B", wave) {
				t.Errorf("%s %s w%d: A and B do not agree on the order of k", in.Gen, in.Name, wave)
			}
		}
		// Blocks share nothing: what a block is computed from are lanes and
		// registers of no other block.
		if in.Blocks > 1 {
			for _, name := range []string{"A", "B", "D"} {
				o, _ := in.Operand(name, 64)
				of := map[int]int{}
				for lane := range 64 {
					for slot := range o.Layout.Slots() {
						of[lane*1000+slot] = o.Layout.Index(lane, slot)[0]
					}
				}
				for b := range in.Blocks {
					n := 0
					for _, owner := range of {
						if owner == b {
							n++
						}
					}
					if n != o.Layout.Size()/in.Blocks {
						t.Errorf("%s %s: block %d of %s has %d elements", in.Gen, in.Name, b, name, n)
					}
				}
			}
		}
	}
}

// columnsOf lists k of each lane and slot of an input.
func columnsOf(t *testing.T, in AMD, operand string, wave int) string {
	t.Helper()
	o, ok := in.Operand(operand, wave)
	if !ok {
		t.Fatalf("%s has no %s", in.Name, operand)
	}
	var b strings.Builder
	for lane := range o.Layout.Threads() {
		for slot := range o.Layout.Slots() {
			index := o.Layout.Index(lane, slot)
			k := index[len(index)-1]
			if operand == "B" {
				k = index[len(index)-2]
			}
			fmt.Fprintf(&b, "%d ", k)
		}
	}
	return b.String()
}

// TestAMDKOrder shows what the note of the catalogue says: after any permutation
// of K that A and B share, the traces have the same products.
func TestAMDKOrder(t *testing.T) {
	in, err := FindAMD("gfx1200", "v_wmma_f32_16x16x16_f16")
	if err != nil {
		t.Fatal(err)
	}
	a, _ := in.Operand("A", 32)
	b, _ := in.Operand("B", 32)
	// The order of much kernel code: eight consecutive k in each half.
	other := func(lane, slot int) int { return 8*(lane/16) + slot }
	swap := map[int]int{}
	for lane := range 32 {
		for slot := range 8 {
			k := a.Layout.Index(lane, slot)[1]
			if kb := b.Layout.Index(lane, slot)[0]; kb != k {
				t.Fatalf("lane %d slot %d: A has k = %d, B %d", lane, slot, k, kb)
			}
			if was, ok := swap[k]; ok && was != other(lane, slot) {
				t.Fatalf("k = %d goes to %d and %d", k, was, other(lane, slot))
			}
			swap[k] = other(lane, slot)
		}
	}
	seen := map[int]bool{}
	for _, to := range swap {
		seen[to] = true
	}
	if len(swap) != 16 || len(seen) != 16 {
		t.Errorf("the other order is no permutation: %v", swap)
	}
}

// TestAMDFormulaTexts evaluates the formulas of Detail, both ways, for every
// element and every place, and compares them with the layouts.
func TestAMDFormulaTexts(t *testing.T) {
	checked := map[string]bool{}
	for _, in := range AMDInstructions() {
		for _, s := range in.Detail() {
			wave := 64
			if strings.HasPrefix(s.Title, "Wave32") {
				wave = 32
			}
			facts := map[string]string{}
			for _, f := range s.Facts {
				facts[f.Name] = f.Value
			}
			key := fmt.Sprint(s.Title, s.Facts, in.M, in.K, in.Blocks, in.D.Type)
			if checked[key] {
				continue
			}
			checked[key] = true
			switch title := strings.ToLower(s.Title); {
			case strings.Contains(title, "matrix element to register"):
				checkForward(t, in, wave, facts)
			case strings.Contains(title, "register to matrix element"):
				checkBackward(t, in, wave, facts)
			}
		}
	}
}

func checkForward(t *testing.T, in AMD, wave int, facts map[string]string) {
	t.Helper()
	block := ""
	if in.CDNA() {
		block = ".block"
	}
	for operand, name := range map[string]string{"A": "A[i][k]" + block, "B": "B[k][j]" + block, "E": "compression[i][k]", "D": in.sumName() + "[i][j]" + block} {
		if operand == "E" && !in.Sparse {
			continue
		}
		rows, columns := in.Dims(operand)
		for b := range in.Blocks {
			for r := range rows {
				for c := range columns {
					vars := map[string]int{"block": b}
					switch operand {
					case "A", "E":
						vars["i"], vars["k"] = r, c
					case "B":
						vars["k"], vars["j"] = r, c
					default:
						vars["i"], vars["j"] = r, c
					}
					places, err := in.Places(operand, wave, Modifiers{}, Element{b, r, c})
					if err != nil {
						t.Fatal(err)
					}
					lanes := strings.Split(strings.NewReplacer(", and ", ",", " and ", ",", ", ", ",").Replace(facts[name+" Lane"]), ",")
					if len(lanes) != len(places) {
						t.Fatalf("%s %s %s: %d places, the formula has %q", in.Gen, in.Name, name, len(places), lanes)
					}
					for n, p := range places {
						lane := evaluate(t, lanes[n], vars)
						reg, low, high := evaluateRegister(t, facts[name+" GPR"], vars)
						want := fmt.Sprint(p.Lane, p.Reg, p.Low, p.High)
						if p.Regs > 1 { // of a pair the formula gives the registers
							want = fmt.Sprint(p.Lane, p.Reg, p.Reg, p.Reg+p.Regs-1)
						}
						if got := fmt.Sprint(lane, reg, low, high); got != want {
							t.Fatalf("%s %s w%d %s at %v: %q and %q say %s, the layout %s", in.Gen, in.Name, wave, name, vars, facts[name+" GPR"], facts[name+" Lane"], got, want)
						}
					}
				}
			}
		}
	}
}

// evaluateRegister reads "r", "r.[high : low]" and "[high : low]", the last being
// a pair of registers.
func evaluateRegister(t *testing.T, text string, vars map[string]int) (reg, low, high int) {
	t.Helper()
	name, bits, cut := strings.Cut(text, "[")
	if !cut {
		return evaluate(t, text, vars), 0, 31
	}
	h, l, _ := strings.Cut(strings.TrimSuffix(bits, "]"), ":")
	high, low = evaluate(t, h, vars), evaluate(t, l, vars)
	if name == "" {
		return low, low, high
	}
	return evaluate(t, strings.TrimSuffix(name, "."), vars), low, high
}

func checkBackward(t *testing.T, in AMD, wave int, facts map[string]string) {
	t.Helper()
	for operand, names := range map[string][2]string{"A": {"A i", "A k"}, "B": {"B k", "B j"}, "E": {"compression i", "compression k"}, "D": {in.sumName() + " i", in.sumName() + " j"}} {
		if operand == "E" && !in.Sparse {
			continue
		}
		for reg := range in.Registers(operand, wave) {
			for lane := range wave {
				held, err := in.Holds(operand, wave, reg, lane)
				if err != nil {
					continue // ignored lanes
				}
				for _, h := range held {
					vars := map[string]int{"lane": lane, "GPR_num": reg, "GPR_bits": h.Place.Low}
					got := []int{}
					for _, name := range names {
						text := strings.TrimPrefix(facts[name], "(lanes 0-31 only)\n")
						text = strings.TrimSuffix(text, ".[15:0]")
						high, low, through := strings.Cut(text, "\nthrough\n")
						v := evaluate(t, high, vars)
						if through {
							lowest := evaluate(t, low, vars)
							if v != lowest+3 {
								t.Fatalf("%s %s %s: from %d to %d", in.Gen, in.Name, name, lowest, v)
							}
							v = lowest + h.Element.Column%4
						}
						got = append(got, v)
					}
					b := 0
					if in.CDNA() {
						name, _, _ := strings.Cut(names[0], " i")
						name, _, _ = strings.Cut(name, " k")
						if operand != "E" {
							b = evaluate(t, facts[name+" block"], vars)
						}
					}
					if want := []int{h.Element.Row, h.Element.Column}; fmt.Sprint(got, b) != fmt.Sprint(want, h.Element.Block) {
						t.Fatalf("%s %s w%d %s v%d{%d} bit %d: the formulas say %v of block %d, the layout %v of %d", in.Gen, in.Name, wave, operand, reg, lane, h.Place.Low, got, b, want, h.Element.Block)
					}
				}
			}
		}
	}
}

// evaluate computes a formula of numbers, variables, + * %, floor(a / b) and
// parentheses.
func evaluate(t *testing.T, text string, vars map[string]int) int {
	t.Helper()
	rest := strings.ReplaceAll(text, " ", "")
	var sum func() int
	eat := func(c byte) bool {
		if rest != "" && rest[0] == c {
			rest = rest[1:]
			return true
		}
		return false
	}
	atom := func() int {
		if cut, ok := strings.CutPrefix(rest, "floor("); ok {
			rest = cut
			v := sum()
			if !eat(')') {
				t.Fatalf("%q: no ) before %q", text, rest)
			}
			return v
		}
		if eat('(') {
			v := sum()
			if !eat(')') {
				t.Fatalf("%q: no ) before %q", text, rest)
			}
			return v
		}
		n := 0
		for n < len(rest) && (rest[n] == '_' || '0' <= rest[n] && rest[n] <= '9' || 'A' <= rest[n] && rest[n] <= 'z') {
			n++
		}
		word := rest[:n]
		rest = rest[n:]
		if v, ok := vars[word]; ok {
			return v
		}
		v, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("%q: %q is no number of %v", text, word, vars)
		}
		return v
	}
	product := func() int {
		v := atom()
		for {
			switch {
			case eat('*'):
				v *= atom()
			case eat('/'):
				v /= atom()
			case eat('%'):
				v %= atom()
			default:
				return v
			}
		}
	}
	sum = func() int {
		v := product()
		for eat('+') {
			v += product()
		}
		return v
	}
	v := sum()
	if rest != "" {
		t.Fatalf("%q: %q is left over", text, rest)
	}
	return v
}
