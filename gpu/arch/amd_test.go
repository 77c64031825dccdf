package arch

import (
	"fmt"
	"strings"
	"testing"
)

// TestAMDRows loads the rows of each generation and checks each as the catalogue
// does.
func TestAMDRows(t *testing.T) {
	count := map[string]int{}
	for _, in := range AMDInstructions() {
		count[in.Gen]++
	}
	for gen, want := range map[string]int{"CDNA1": 20, "CDNA2": 27, "CDNA3": 46, "CDNA4": 138, "RDNA3": 6, "RDNA4": 22} {
		if count[gen] != want {
			t.Errorf("%s has %d instructions, want %d", gen, count[gen], want)
		}
	}
	if _, err := newCatalogue(amdAtoms()); err != nil {
		t.Error(err)
	}
}

func TestFindAMD(t *testing.T) {
	for _, c := range []struct{ generation, name, want string }{
		{"cdna3", "V_MFMA_F32_32X32X8_F16", ""},
		{"gfx942", "v_mfma_f32_32x32x8_f16", ""},
		{"gfx1201", "v_wmma_i32_16x16x16_iu4", ""},
		{"gfx942", "v_mfma_f32_32x32x8_f61", "v_mfma_f32_32x32x8_f16"},
		{"cdna7", "v_mfma_f32_32x32x8_f16", "known are CDNA1"},
	} {
		_, err := FindAMD(c.generation, c.name)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.generation, c.name, err, c.want)
		}
	}
	for _, a := range Atoms() {
		in, wave, ok := a.AMD()
		if ok != (a.Vendor == "amd") || ok && (in.Atom(wave).Name != a.Name || len(in.Detail()) == 0) {
			t.Errorf("%s is %s %s in waves of %d", a.Name, in.Gen, in.Name, wave)
		}
	}
	// The bare mnemonic is the newest generation's, in its narrower waves.
	if a, err := FindAtom("v_wmma_f32_16x16x16_f16"); err != nil || a.Name != "rdna4/v_wmma_f32_16x16x16_f16" || a.Lanes != 32 {
		t.Errorf("%v %v", a.Name, err)
	}
	if a, err := FindAtom("cdna3/v_mfma_f32_32x32x8_f16"); err != nil || strings.Join(a.Archs, " ") != "gfx942 gfx950" {
		t.Errorf("%v %v", a.Archs, err)
	}
	if a, err := FindAtom("cdna3/v_mfma_f32_16x16x32_fp8_fp8"); err != nil || strings.Join(a.Archs, " ") != "gfx942" {
		t.Errorf("FP8 of CDNA3 is not that of CDNA4: %v %v", a.Archs, err)
	}
}

// A name that is missing is offered names with its parts, short ones first, or a way to search; .shared is what PTX also
// calls .shared::cta.
func TestNamesOfInstructions(t *testing.T) {
	for name, want := range map[string]string{
		"ldmatrix.x4":           "names with these parts: ldmatrix.m8n8.x4.b16, ",
		"ldmatrix.x2.trans":     "ldmatrix.m8n8.x2.trans.b16",
		"mma.m16n8k8.tf32":      "mma.m16n8k8.f32.tf32, ",
		"a lot of instructions": "tilus-lab atom list",
	} {
		if _, err := FindAtom(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", name, err, want)
		}
	}
	a, err := FindAtom("ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16")
	if err != nil || a.Name != "ldmatrix.m8n8.x4.trans.b16" {
		t.Errorf("%v %v", a.Name, err)
	}
}

func TestAMDModifiers(t *testing.T) {
	find := func(gen, name string) AMD {
		t.Helper()
		in, err := FindAMD(gen, name)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	small := find("CDNA2", "v_mfma_f32_4x4x4f16")
	for cbsz := range 5 {
		for abid := range 1 << cbsz {
			for block := range 16 {
				got, err := small.Places("A", 64, Modifiers{CBSZ: cbsz, ABID: abid}, Element{Block: block})
				if err != nil {
					t.Fatal(err)
				}
				// Each group of 2^CBSZ blocks takes its block number ABID.
				if want := 4 * (block>>cbsz<<cbsz + abid); got[0].Lane != want {
					t.Errorf("CBSZ %d ABID %d block %d: lane %d, want %d", cbsz, abid, block, got[0].Lane, want)
				}
			}
		}
	}
	// Lanes that B comes from, for lanes 0, 16, 32 and 48.
	patterns := [][4]int{{0, 16, 32, 48}, {0, 16, 0, 16}, {32, 48, 32, 48}, {16, 32, 48, 0}, {0, 0, 0, 0}, {16, 16, 16, 16}, {32, 32, 32, 32}, {48, 48, 48, 48}}
	wide := find("CDNA1", "v_mfma_f32_16x16x4f32")
	for blgp, want := range patterns {
		for k := range 4 {
			got, err := wide.Places("B", 64, Modifiers{BLGP: blgp}, Element{Row: k, Column: 3})
			if err != nil || got[0].Lane != want[k]+3 {
				t.Errorf("BLGP %d k %d: %v %v, want lane %d", blgp, k, got, err, want[k]+3)
			}
		}
	}
	half := find("RDNA3", "v_wmma_f16_16x16x16_f16")
	sparse := find("RDNA4", "v_swmmac_f32_16x16x32_f16")
	mfmac := find("CDNA3", "v_smfmac_f32_16x16x32_f16")
	f64 := find("CDNA3", "v_mfma_f64_16x16x4_f64")
	for _, c := range []struct {
		in      AMD
		operand string
		wave    int
		m       Modifiers
		want    string // place of element [1, 0], or part of the error
	}{
		{half, "D", 32, Modifiers{OpSel: 4}, "v0{16}.[31:16]"},
		{half, "A", 32, Modifiers{OpSel: 4}, "acts on C and D"},
		{half, "D", 32, Modifiers{OpSel: 1}, "0 or 4"},
		{half, "C", 32, Modifiers{Neg: 4, NegHi: 4}, "v0{16}.[15:0]"},
		{half, "D", 32, Modifiers{Neg: 1}, "does not act on D"},
		{half, "A", 32, Modifiers{Neg: 8}, "from 0 to 7"},
		{sparse, "E", 32, Modifiers{OpSel: 1}, "v0{1}.[19:16]"},
		{sparse, "E", 64, Modifiers{OpSel: 3}, "v0{1}.[27:24]"},
		{sparse, "E", 32, Modifiers{OpSel: 2}, "from 0 to 1"},
		{sparse, "A", 32, Modifiers{OpSel: 1}, "does not act on A"},
		{sparse, "A", 32, Modifiers{}, "v0{1}"},
		{sparse, "C", 32, Modifiers{}, "no operand"},
		{mfmac, "E", 64, Modifiers{ABID: 3}, "v0{1}.[27:24]"},
		{mfmac, "K", 64, Modifiers{CBSZ: 1, ABID: 3}, "v0{1}.[3:0]"},
		{mfmac, "E", 64, Modifiers{ABID: 4}, "from 0 to 3"},
		{mfmac, "A", 64, Modifiers{ABID: 1}, "do not act on A"},
		{mfmac, "B", 64, Modifiers{BLGP: 1}, "no meaning"},
		{small, "A", 64, Modifiers{CBSZ: 5}, "from 0 to 4"},
		{small, "A", 64, Modifiers{CBSZ: 1, ABID: 2}, "from 0 to 1"},
		{small, "B", 64, Modifiers{CBSZ: 1}, "do not act on B"},
		{small, "A", 64, Modifiers{BLGP: 1}, "does not act on A"},
		{small, "A", 64, Modifiers{OpSel: 4}, "no meaning"},
		{small, "A", 64, Modifiers{Neg: 1}, "no meaning"},
		{small, "A", 32, Modifiers{}, "in waves of [64]"},
		{wide, "A", 64, Modifiers{CBSZ: 1}, "no meaning"},
		{wide, "B", 64, Modifiers{BLGP: 8}, "from 0 to 7"},
		{f64, "B", 64, Modifiers{BLGP: 2}, "v[1:0]{16}"},
	} {
		got, err := c.in.Places(c.operand, c.wave, c.m, Element{Row: 1})
		text := fmt.Sprint(err)
		if err == nil {
			text = got[0].String()
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%s %s %+v: %s, want %s", c.in.Name, c.operand, c.m, text, c.want)
		}
	}
}

func TestAMDPlaces(t *testing.T) {
	in, err := FindAMD("gfx950", "v_mfma_f32_16x16x128_f8f6f4/fp6_fp6")
	if err != nil {
		t.Fatal(err)
	}
	// Six bits each: element 5 begins at bit 30.
	p, err := in.Places("A", 64, Modifiers{}, Element{Row: 2, Column: 37})
	if err != nil || len(p) != 1 || p[0].String() != "v[1:0]{18}.[35:30]" {
		t.Errorf("%v %v", p, err)
	}
	for reg, want := range []string{"v0{0}.[5:0]", "v[1:0]{0}.[35:30]"} {
		held, err := in.Holds("A", 64, reg, 0)
		if err != nil || held[0].Place.String() != want {
			t.Errorf("register %d: %v %v", reg, held, err)
		}
	}
	if n := in.Registers("A", 64); n != 6 {
		t.Errorf("%d registers", n)
	}
	for _, e := range []Element{{Block: 1}, {Row: 16}, {Column: 128}, {Row: -1}} {
		if _, err := in.Places("A", 64, Modifiers{}, e); err == nil {
			t.Errorf("%v lies somewhere", e)
		}
	}
	for _, at := range [][2]int{{6, 0}, {0, 64}, {-1, 0}} {
		if _, err := in.Holds("A", 64, at[0], at[1]); err == nil {
			t.Errorf("v%d{%d} holds something", at[0], at[1])
		}
	}
	idle, err := FindAMD("RDNA4", "v_wmma_i32_16x16x16_iu4")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := idle.Places("A", 64, Modifiers{}, Element{}); err != nil || len(p) != 1 {
		t.Errorf("%v %v", p, err)
	}
	if _, err := idle.Holds("A", 64, 0, 32); err == nil {
		t.Error("lane 32 of A holds something")
	}
	if _, err := idle.Holds("D", 64, 0, 32); err != nil {
		t.Error(err)
	}
}
