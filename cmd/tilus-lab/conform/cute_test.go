package conform

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
)

// TestCute checks the recordings of CuTe, all of them.
func TestCute(t *testing.T) {
	var out bytes.Buffer
	var mine []Case
	for _, c := range load(t, "cute.json") {
		if !strings.HasPrefix(c.Kind, "op:print_svg") && !strings.HasPrefix(c.Kind, "op:print_latex") {
			mine = append(mine, c)
		}
	}
	s, err := Run(&out, mine, false)
	if err != nil {
		t.Fatal(err)
	}
	if !s.OK() || s.Passed < 307 {
		t.Error(out.String())
	}
}

// TestCuteDisagreements checks the four recordings, kept out of the file, on
// which CuTe's C++ and Python differ, and that wrong ones of that kind fail.
func TestCuteDisagreements(t *testing.T) {
	for _, c := range []struct {
		op, args, cpp string
		ok            bool
	}{
		{"left_inverse", `"4:2"`, "(2,4):(0,1)", true},
		{"left_inverse", `"(4,2):(1,16)"`, "(16,2):(1,4)", true},
		{"left_inverse", `"(4,8):(1,5)"`, "(5,8):(1,4)", true},
		{"idx2crd", `"I37", "S(4,8)"`, "(1,9)", true},
		{"logical_divide", `"(3,4):(4,1)", "2:1"`, "(2,(2,4)):(4,(8,1))", true},
		{"logical_divide", `"(4,4):(4,1)", "2:1"`, "(2,(2,4)):(4,(8,1))", true}, // well-posed, and both right
		{"complement", `"6:4", "I24"`, "4:1", false},                            // no property is known
		{"left_inverse", `"4:1", "4:1"`, "4:1", false},
	} {
		r := Check(Case{Name: c.op, Kind: "op:" + c.op,
			Input:  []byte(`{"op": "` + c.op + `", "args": [` + c.args + `]}`),
			Expect: []byte(`{"cpp": "` + c.cpp + `", "pycute_agrees": false, "pycute": "ERROR"}`)})
		if (r.Outcome == Passed) != c.ok {
			t.Errorf("%s %s: %s %s", c.op, c.args, r.Outcome, r.Note)
		}
	}
}

// TestCuteBroken changes one thing in a case of each kind.
func TestCuteBroken(t *testing.T) {
	broken := map[string]bool{}
	for _, c := range load(t, "cute.json") {
		if broken[c.Kind] || strings.Contains(c.Kind, "op:print_") && c.Kind != "op:print_layout" {
			continue
		}
		text := string(c.Expect)
		for _, edit := range [][2]string{{"1", "3"}, {"8", "9"}, {"2", "5"}, {"true", "false"}} {
			if !strings.Contains(text, edit[0]) {
				continue
			}
			bad := c
			bad.Expect = []byte(strings.ReplaceAll(text, edit[0], edit[1]))
			if r := Check(bad); r.Outcome != Failed {
				t.Errorf("%s: %s passes with %s for %s", c.Kind, c.Name, edit[1], edit[0])
			}
			broken[c.Kind] = true
			break
		}
		extra := c
		extra.Expect = []byte(strings.Replace(text, "{", `{"unheard of": 1, `, 1))
		if r := Check(extra); r.Outcome != Failed {
			t.Errorf("%s: %s passes with a key that nobody knows", c.Kind, c.Name)
		}
	}
	if len(broken) < 50 {
		t.Errorf("only %d kinds were broken", len(broken))
	}
}

// TestCuteArguments tells a layout that is written as its shape from a shape.
func TestCuteArguments(t *testing.T) {
	for _, c := range []struct{ input, cpp string }{
		{`{"op": "composition", "args": ["12:2", "(4,3)"]}`, "(4,3):(2,8)"},
		{`{"op": "composition", "args": ["(8,8)", "S(4,2)"]}`, "(4,2):(1,8)"},
		{`{"op": "logical_divide", "args": ["16:1", "(2,2)"]}`, "((2,2),4):((1,2),4)"},
		{`{"op": "logical_divide", "args": ["16:1", "I4"]}`, "(4,4):(1,4)"},
		{`{"op": "upcast", "args": ["(8,8):(8,1)"], "N": 16}`, "(4,1):(1,1)"},
		{`{"op": "coalesce_by_mode", "args": ["(2,4)", "S1"]}`, "8:1"},
		{`{"op": "crd2idx", "args": ["S5", "(4,8):(8,1)"]}`, "9"},
		{`{"op": "idx2crd", "args": ["I5", "S7"]}`, "5"},
		{`{"op": "tile_to_shape", "args": ["(2,2)", "S(4,4)", "S(1,0)"]}`, "((2,2),(2,2)):((1,8),(2,4))"},
	} {
		var in struct{ Op string }
		if err := json.Unmarshal([]byte(c.input), &in); err != nil {
			t.Fatal(err)
		}
		r := Check(Case{Name: c.input, Kind: "op:" + in.Op, Input: []byte(c.input), Expect: []byte(`{"cpp": "` + c.cpp + `"}`)})
		if r.Outcome != Passed {
			t.Errorf("%s: %s", c.input, r.Note)
		}
	}
}

// TestCatalogueNotation reads the CuTe layouts of the whole catalogue back as
// register layouts.
func TestCatalogueNotation(t *testing.T) {
	n := 0
	for _, a := range arch.Atoms() {
		for _, o := range a.Operands {
			if o.CuTe == "" || o.In != arch.InRegisters || a.M == 0 || a.Sparse() {
				continue
			}
			l, err := cute.Parse(o.CuTe)
			if err != nil {
				t.Errorf("%s %s: %v", a.Name, o.Name, err)
				continue
			}
			want := o.Layout
			if o.Name == "B" {
				if want, err = want.Permute(1, 0); err != nil {
					t.Fatal(err)
				}
			}
			got, err := cute.ToRegister(l, want.Shape()...)
			if err != nil || !got.Equal(want) {
				t.Errorf("%s %s: %s is %s, %v, want %s", a.Name, o.Name, l, got, err, want)
			}
			n++
		}
	}
	if n < 500 {
		t.Errorf("%d operands", n)
	}
}

// CuTe's B of m16n8k32 with 4-bit operands misses half of it: that recording, made
// with CuTe's headers, passes with a note, and nothing beside it does.
func TestCuteLosesElements(t *testing.T) {
	const a = `{"layout":"((4,8),(8,2)):((128,1),(16,8))","threads":32,"values":16,"covers_all":true,"tv_sha256":"digest of A","samples":[]}`
	const c = `{"layout":"((4,8),(2,2)):((32,1),(16,8))","threads":32,"values":4,"covers_all":true,"tv_sha256":"digest of C","samples":[]}`
	digest := func(text string, rows, columns int) string {
		l, err := cute.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return describeTV(l, rows, columns, nil)["tv_sha256"].(string)
	}
	for _, b := range []struct {
		layout string
		covers bool
		ok     bool
		note   string
	}{
		{"((4,8),(8)):((32,1),(8))", false, true, "misses half"},
		{"((4,8),(8)):((64,1),(8))", true, true, ""},
		{"((4,8),8):((64,1),8)", true, true, ""},
		{"((4,8),(8)):((32,1),(8))", true, false, "B is"},
		{"((4,8),(8)):((16,1),(8))", false, false, "B is"},
	} {
		expect := strings.NewReplacer(`"digest of A"`, `"`+digest("((4,8),(8,2)):((128,1),(16,8))", 16, 32)+`"`, `"digest of C"`, `"`+digest("((4,8),(2,2)):((32,1),(16,8))", 16, 8)+`"`).Replace(
			`{"MNK":[16,8,32],"ThrID":"32:1","A":` + a + `,"C":` + c + `,"B":{"layout":"` + b.layout + `","threads":32,"values":8,"covers_all":` +
				map[bool]string{true: "true", false: "false"}[b.covers] + `,"tv_sha256":"` + digest(strings.ReplaceAll(b.layout, "(8)", "8"), 8, 32) + `","samples":[]}}`)
		r := Check(Case{Kind: "op:mma_atom", Expect: []byte(expect),
			Input: []byte(`{"op":"mma_atom","atom":"SM80_16x8x32_S32S4S4S32_TN","same_layouts":["SM80_16x8x32_S32U4S4S32_TN_SATURATE"]}`)})
		if (r.Outcome == Passed) != b.ok || !strings.Contains(r.Note, b.note) {
			t.Errorf("%s, covers_all %v: %s %q", b.layout, b.covers, r.Outcome, r.Note)
		}
	}
}
