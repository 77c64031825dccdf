package pane

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/web/facts"
)

// Every step of the pipeline can be chosen, and what a pass changed says so.
func TestPasses(t *testing.T) {
	r, err := run(t, "passes", Values{"n": "60"})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Pictures) != 3 || r.Pictures[0].Go["row4"]["n"] != "4" || !strings.Contains(r.Sentence, "dce") {
		t.Errorf("%d pictures, %s", len(r.Pictures), r.Sentence)
	}
	if svg := string(r.Pictures[2].SVG); !strings.Contains(svg, ">-") || !strings.Contains(svg, ">+") {
		t.Error("the last pass shows no change")
	}
	r, err = run(t, "passes", Values{"n": "4"})
	if err != nil {
		t.Fatal(err)
	}
	linked := map[int]bool{}
	for _, e := range r.Pictures[2].IDs {
		for _, k := range e.Keys {
			linked[k] = true
		}
	}
	for _, line := range []int{5, 6, 7} {
		if !linked[line] {
			t.Errorf("line %d of the program is linked to no line of its thread code", line)
		}
	}
}

// Both devices give the same bits, and each mistake is said where it is.
func TestRunPane(t *testing.T) {
	for _, device := range []string{onBoth, onInterp, onSim} {
		r, err := run(t, "run", Values{"d": device})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(r.Text, "c =") || device == onBoth && !strings.Contains(r.Sentence, "both give the same bits") {
			t.Errorf("%s: %s\n%s", device, r.Sentence, r.Text)
		}
		if roof := device != onInterp; (r.Pictures[0].Name == "roofline") != roof || strings.Contains(r.Sentence, "H200") != roof {
			t.Errorf("%s: the first picture is %s: %s", device, r.Pictures[0].Name, r.Sentence)
		} else if said := strings.Contains(r.Text, "operations for each byte ") && strings.Contains(r.Sentence, " operations for each byte "); said != roof {
			t.Errorf("%s: table and roofline do not call the operations for each byte by one name: %s\n%s", device, r.Sentence, r.Text)
		}
	}
	race := "program race<1>(c: *f32) warps=2 {\n\tg = ViewGlobal(c) : global f32[64]\n\ts = AllocateShared() : shared f32[64]\n\tx = AllocateRegister(init=1) : register f32[64] spatial(64)\n\tStoreShared(s, x)\n\ty = LoadShared(s) : register f32[64] spatial(2).column_spatial(32)\n\tStoreGlobal(g, y, offset=[0])\n}\n"
	for _, device := range []string{onInterp, onSim} {
		if _, err := run(t, "run", Values{"d": device, "src": strings.Replace(race, "spatial(2).column_spatial(32)", "local(2).spatial(32)", 1), "a": "zeros:f32[64]"}); err == nil {
			t.Errorf("%s accepts a layout of too few threads", device)
		}
	}
	// A race names the line of the other access and one way out, on both.
	shared := "program race<1>(c: *f32) warps=2 {\n\tg = ViewGlobal(c) : global f32[8, 8]\n\ts = AllocateShared() : shared f32[8, 8]\n\tx = AllocateRegister(init=1) : register f32[8, 8] spatial(8, 8)\n\tStoreShared(s, x)\n\tSynchronize()\n\ty = LoadShared(s) : register f32[8, 8] column_spatial(8, 8)\n\tSynchronize()\n\tStoreShared(s, x)\n\tStoreGlobal(g, y, offset=[0, 0])\n}\n"
	wrote := strings.Replace(shared, "\tSynchronize()\n", "", 1)
	read := strings.Replace(shared, "\tSynchronize()\n\tStoreShared", "\tStoreShared", 1)
	if _, err := run(t, "run", Values{"src": shared, "a": "zeros:f32[8, 8]"}); err != nil {
		t.Fatal(err)
	}
	for _, device := range []string{onInterp, onSim} {
		for _, c := range []struct{ src, did, help string }{
			{wrote, "5", "Synchronize between the two"},
			{read, "7", "Synchronize between the two"},
		} {
			_, err := run(t, "run", Values{"d": device, "src": c.src, "a": "zeros:f32[8, 8]"})
			var list diag.List
			if !errors.As(err, &list) || !strings.Contains(list[0].Msg, "in line "+c.did) || list[0].Help != c.help {
				t.Errorf("%s does not say that the other access is in line %s: %v", device, c.did, err)
			}
		}
	}
	for name, v := range map[string]Values{"sizes": {"a": "randint:f16[64, 64]\nrandint:f16[64, 64]\nzeros:f32[8, 8]\n64\n64\n64"}, "too large": {"a": "zeros:f16[4096, 4096]\nzeros:f16[64, 64]\nzeros:f32[64, 64]\n64\n64\n64"}} {
		if _, err := run(t, "run", v); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// A sum of C says which registers of A and B make it.
func TestMatrixInstruction(t *testing.T) {
	r, err := run(t, "mma", nil)
	if err != nil {
		t.Fatal(err)
	}
	// PTX ISA: c[9,2] is in lane 5, c2; a[9,0] in lane 4, a2; b[0,2] in lane 8, b0.
	for _, want := range []string{"[9,2] in lane 5 slot 2", "A[9,0] lane 4 slot 2", "B[0,2] lane 8 slot 0"} {
		if !strings.Contains(r.Text, want) {
			t.Errorf("no %q in\n%s", want, r.Text)
		}
	}
	if len(r.Pictures[0].Go) != 16*8 {
		t.Errorf("%d sums can be chosen", len(r.Pictures[0].Go))
	}
	if _, err := run(t, "mma", Values{"i": "ldmatrix.x4"}); err == nil {
		t.Error("ldmatrix is taken for a product")
	}
	// What an instruction cannot be shown as is told of that field, and no message begins with one of our packages.
	_, err = run(t, "mma", Values{"i": "v_mfma_f32_32x32x8f16", "l": mmaCute})
	if list, ok := err.(diag.List); !ok || list[0].Pos.File != "l" || list[0].Help == "" || !strings.HasPrefix(list[0].Msg, "CuTe has no layout") {
		t.Errorf("CuTe's look of an instruction of AMD: %v", err)
	}
	_, err = run(t, "mma", Values{"i": "mma.m16n8k64.f32.f16"})
	if list, ok := err.(diag.List); !ok || !strings.HasPrefix(list[0].Msg, "no instruction") {
		t.Errorf("an unknown instruction: %v", err)
	}
	for _, name := range []string{"v_mfma_f32_32x32x8f16", "mma.sp.m16n8k32.f32.f16", "wgmma.m64n8k16.f32.f16.ss"} {
		if _, err := run(t, "mma", Values{"i": name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every recorded chart is drawn, in both themes, and rows of one's own are.
func TestBenchmarks(t *testing.T) {
	for _, c := range charts() {
		for _, th := range []string{"", "dark"} {
			r, err := run(t, "bench", Values{"b": c.Name, "th": th})
			if err != nil || !strings.Contains(r.Sentence, "Measured") || len(r.Pictures[0].IDs) == 0 {
				t.Errorf("%s %s: %s, %v", c.Name, th, r.Sentence, err)
			}
		}
	}
	// Types of a width: a point each, and the line of what they are compared with.
	r, err := run(t, "bench", Values{"b": "types of a width, 1 row"})
	if err != nil || len(r.Pictures[0].IDs) != 4*42+2 || !strings.Contains(r.Sentence, "168 points. Measured; tests/record/types_of_width.json, NVIDIA H200, commit 3f2ee85 and b487f45. Of a group at one x, the greatest is at most 1.18 times the least: o i2.") {
		t.Errorf("types of a width: %s, %v", r.Sentence, err)
	}
	if svg := string(r.Pictures[0].SVG); strings.Count(svg, ">i2<") != 3 || strings.Contains(svg, ">u2<") || !strings.Contains(svg, "tests/record/types_of_width.json") {
		t.Errorf("%d times i2 is named; want the slowest of three layers, and where all is from", strings.Count(svg, ">i2<"))
	}
	// What nothing can be better than is no peer.
	say := ours(facts.Chart{Better: "less", Series: []string{"ours", "A", "B", "roof"}, Bound: true,
		Bars: []facts.Bar{{Values: []float64{3, 4, 2, 2}}, {Values: []float64{3, 4, 5, 1}}, {Values: []float64{3, 0, 0, 0}}, {Values: []float64{0, 1, 1, 1}}}})
	if say != ` In 1 of 2, ours is at least as good as the best beside it. Of "roof", ours is 1.50 to 3.00 times, 3.00 in the middle.` {
		t.Error(say)
	}
	r, err = run(t, "bench", Values{"b": benchOwn})
	if err != nil || len(r.Pictures[0].IDs) != 2 {
		t.Errorf("own rows: %v", err)
	}
	// Rows that were changed are drawn at once, before what was chosen, and under a roof where they can be.
	mine := `[{"layer": "up", "weight": "u4", "m": 16, "n": 4096, "k": 4096, "bytes": 8650752, "median_us": 4, "read_us": 3}, {"layer": "up", "weight": "u6", "m": 16, "n": 4096, "k": 4096, "bytes": 12845056, "median_us": 5}]`
	r, err = run(t, "bench", Values{"src": mine})
	if err != nil || len(r.Pictures) != 3 || r.Pictures[0].Name != benchOwn || r.Pictures[1].Name != "roofline" || !strings.Contains(r.Sentence, "2 types; the nearest, up u6 row 2, reaches 89 % of the roof") {
		t.Errorf("changed rows: %d pictures, %s, %v", len(r.Pictures), r.Sentence, err)
	}
	r, err = run(t, "bench", Values{"b": "roofline, quantised", "q": "u4"})
	if err != nil || len(r.Pictures) != 1 || !strings.Contains(r.Sentence, "of one type;") {
		t.Errorf("the roofline of a type: %s, %v", r.Sentence, err)
	}
	for _, v := range []Values{{"b": benchOwn, "src": "[{]"}, {"b": benchOwn, "src": "7"}, {"b": benchOwn, "y": "none"}, {"q": "no such bar"}} {
		if _, err := run(t, "bench", v); err == nil {
			t.Errorf("%v: accepted", v)
		}
	}
}

func TestStatusPane(t *testing.T) {
	r, err := run(t, "status", Values{"f": "any", "op": "dot"})
	if err != nil || !strings.Contains(r.Text, "interp") || r.Pictures[0].Go["opCast"]["op"] != "Cast" {
		t.Errorf("%v: %s", err, r.Text)
	}
	if _, err := run(t, "status", Values{"op": "Dott"}); err == nil || !strings.Contains(err.Error(), "Dot") {
		t.Errorf("an unknown instruction: %v", err)
	}
	_, err = run(t, "status", Values{"op": "zzzzzz"})
	if list, ok := err.(diag.List); !ok || list[0].Help == "" {
		t.Errorf("no way out of an instruction like no other: %v", err)
	}
}

// A choice that names texts shows, in the field that it fills, what it draws.
func TestChosenTexts(t *testing.T) {
	filled := 0
	for _, p := range All() {
		for _, param := range p.Params {
			if param.Fills == "" {
				continue
			}
			if !slices.ContainsFunc(p.Params, func(q Param) bool { return q.Name == param.Fills && (q.Kind == Text || q.Kind == Program) }) {
				t.Errorf("%s.%s fills no text", p.Name, param.Name)
			}
			if _, own := param.Texts[param.Default]; own {
				t.Errorf("%s.%s: the default is no text of the person's own", p.Name, param.Name)
			}
			for _, choice := range param.Choices[1:] {
				text, ok := param.Texts[choice]
				if !ok {
					t.Errorf("%s.%s: no text of %s", p.Name, param.Name, choice)
					continue
				}
				chosen, err := run(t, p.Name, Values{param.Name: choice})
				if err != nil {
					t.Fatal(err)
				}
				written, err := run(t, p.Name, Values{param.Fills: text})
				if err != nil || chosen.Sentence != written.Sentence || chosen.Text != written.Text {
					t.Errorf("%s: %s draws %q, its text %q, %v", p.Name, choice, chosen.Sentence, written.Sentence, err)
				}
				filled++
			}
		}
	}
	if filled < 15 {
		t.Errorf("%d texts can be chosen", filled)
	}
}

// One of a thing is no several of it.
func TestOne(t *testing.T) {
	r, err := run(t, "banks", Values{"a": "load 4: lane*12", "v": bankSolve})
	if err != nil || strings.Contains(r.Sentence+r.Text, "1 wavefronts") {
		t.Errorf("%v: %s\n%s", err, r.Sentence, r.Text)
	}
	if r, err = run(t, "follow", Values{"x": "D", "r": "6", "c": "15"}); err != nil || strings.Contains(r.Sentence, " 1 units") {
		t.Errorf("%v: %s", err, r.Sentence)
	}
	if r, err = run(t, "dispatch", Values{"v": "packets", "s": "deadlock"}); err != nil || !strings.HasPrefix(r.Sentence, "1 packet of") {
		t.Errorf("%v: %s", err, r.Sentence)
	}
	if r, err = run(t, "volta", Values{"v": "multipliers", "n": "3", "b": "90"}); err != nil || strings.Contains(r.Sentence, "-") || !strings.Contains(r.Sentence, "−2·−1") {
		t.Errorf("%v: minus signs differ: %s", err, r.Sentence)
	}
	if r, err = run(t, "fusion", Values{"f": "pyramid", "v": fusionMemory}); err != nil || strings.Contains(r.Text, "least 0s") {
		t.Errorf("%v: %s", err, r.Text)
	}
}

// Painting gives cells to lanes and takes them away; a placement that was found can be chosen.
func TestWorkbench(t *testing.T) {
	r, err := run(t, "banks", Values{"v": bankPaint, "a": "load 4: 0, 128, _"})
	if err != nil {
		t.Fatal(err)
	}
	// Row 2, first cell: the third lane takes byte 256. Byte 128 is taken from the second.
	for id, want := range map[string]string{"c2.0": "load 4: 0, 128, 256, _", "c1.0": "load 4: 0, _, _", "clear": "load 4: 0, _, _"} {
		to := r.Pictures[0].Go[id]
		if !strings.HasPrefix(to["a"], want) {
			t.Errorf("choosing %s gives %q", id, to["a"])
		}
		if next, err := run(t, "banks", Values{"v": bankPaint, "a": to["a"]}); err != nil || len(next.Pictures[0].Go) == 0 {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, x := range picks() {
		if _, err := run(t, "banks", Values{"k": x.name, "v": bankPaint}); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
	}
	r, err = run(t, "banks", Values{"k": "ldmatrix.x4 of rows of 128 bytes", "v": bankSolve, "b": "0"})
	if err != nil {
		t.Fatal(err)
	}
	chosen := 0
	for id, to := range r.Pictures[0].Go {
		to["k"] = "ldmatrix.x4 of rows of 128 bytes"
		next, err := run(t, "banks", to)
		if err != nil || !strings.Contains(next.Sentence, "no bank conflict") {
			t.Errorf("%s, %v: %s, %v", id, to, next.Sentence, err)
		}
		chosen++
	}
	if chosen == 0 {
		t.Error("no placement can be chosen")
	}
}

// Chains are walked through, and products and quotients have their operands beside them.
func TestHowLayoutsAreMade(t *testing.T) {
	for i, c := range []struct {
		v    Values
		name string
		say  string
	}{
		{Values{"s": layoutSteps}, "steps", "3 of 3 factors: [16, 8] has 128 elements"},
		{Values{"s": layoutSteps, "n": "1"}, "steps", "The first of 3 factors: [2, 1]"},
		{Values{"s": layoutSteps, "n": "2"}, "steps", "2 of 3 factors: [16, 4] has 64 elements"},
		{Values{"s": layoutOperands}, "product", "The product is local(2, 1).spatial(8, 4).local(1, 2)."},
		{Values{"s": layoutOperands, "e": "local(2, 1) * spatial(8, 4)"}, "product", "The product is local(2, 1).spatial(8, 4)."},
		{Values{"s": layoutOperands, "e": "local(2, 1).spatial(8, 4) / spatial(8, 4)"}, "quotient", "The quotient is local(2, 1)."},
		{Values{"s": layoutOperands, "e": "logical_divide((4,2,3):(2,1,8), 4:2)"}, "operands and result", ""},
		{Values{"s": layoutSteps, "e": "mma.m16n8k16.f32.f16/A"}, "steps", "[16, 16] has 256 elements"},
	} {
		r, err := run(t, "layout", c.v)
		if err != nil {
			t.Errorf("%d: %v", i, err)
			continue
		}
		if r.Pictures[0].Name != c.name || !strings.Contains(r.Sentence, c.say) {
			t.Errorf("%d: %s, %s", i, r.Pictures[0].Name, r.Sentence)
		}
	}
	for _, v := range []Values{{"s": layoutOperands, "e": "spatial(8, 4)"}, {"s": layoutOperands, "e": "local(2) / spatial(3)"}, {"s": layoutSteps, "e": "Sw<3,4,3>"}, {"s": layoutSteps, "e": "local("}} {
		if _, err := run(t, "layout", v); err == nil || !strings.HasPrefix(err.Error(), "e:") {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// A race and an access outside stand in the picture of the tile.
func TestFaultsAreDrawn(t *testing.T) {
	for _, c := range []struct {
		bug, args string
		labels    []string // ID, and what its label ends with
	}{
		{"race_shared", "iota:i32[8, 8]\nzeros:i32[8, 8]", []string{"f0.1", "here it goes wrong"}},
		{"load_outside", "iota:i32[64]\nzeros:i32[4, 32]\n4", []string{"f16", "it lies outside", "f15", "slot 0"}},
		{"race_global", "zeros:i32[64]\nzeros:i32[32, 2]", nil},
	} {
		src := corpus.Section("bugs/"+c.bug, corpus.ProgramFile)
		if src == "" {
			t.Fatalf("no program %s", c.bug)
		}
		r, err := run(t, "debug", Values{"src": src, "a": c.args, "n": "1000"})
		if err != nil {
			t.Errorf("%s: %v", c.bug, err)
			continue
		}
		if !strings.Contains(r.Sentence, "goes wrong") || len(r.Pictures) < 2 || r.Pictures[1].Name != "where it goes wrong" {
			t.Errorf("%s: %s", c.bug, r.Sentence)
			continue
		}
		labels := map[string]string{}
		for _, e := range r.Pictures[1].IDs {
			labels[e.ID] = e.Label
		}
		for i := 0; i < len(c.labels); i += 2 {
			if !strings.HasSuffix(labels[c.labels[i]], c.labels[i+1]) {
				t.Errorf("%s: %s is labelled %q", c.bug, c.labels[i], labels[c.labels[i]])
			}
		}
		// Back in time it was right.
		if r, err := run(t, "debug", Values{"src": src, "a": c.args, "n": "1"}); err != nil || strings.Contains(r.Sentence, "goes wrong") {
			t.Errorf("%s: step 1: %s, %v", c.bug, r.Sentence, err)
		}
	}
}

func TestDifference(t *testing.T) {
	for _, c := range []struct{ e, f, say string }{
		{"spatial(8, 4)", "spatial(8, 4)", "the same map of 32"},
		{"spatial(8, 4)", "column_spatial(8, 4)", "30 of 32 elements have another owner"},
		{"local(2, 1).spatial(8, 4)", "spatial(8, 4).local(2, 1)", "of 64 elements have another owner"},
	} {
		r, err := run(t, "layout", Values{"s": layoutDiff, "e": c.e, "f": c.f})
		if err != nil || !strings.Contains(r.Sentence, c.say) {
			t.Errorf("%s and %s: %s, %v", c.e, c.f, r.Sentence, err)
		}
	}
	if _, err := run(t, "layout", Values{"s": layoutDiff, "f": "spatial(4, 4)"}); err == nil || !strings.HasPrefix(err.Error(), "f:") {
		t.Errorf("other shapes: %v", err)
	}
}

// What a pane draws can be set by TeX: its TikZ form has no letter that TeX does not know.
func TestPicturesForTeX(t *testing.T) {
	for _, p := range All() {
		r, err := p.Run(Values{})
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		for _, pic := range r.Pictures {
			for _, f := range layoutviz.Formats() {
				if f.Name != "tikz" {
					continue
				}
				out, err := f.Encode(pic.Picture)
				if err != nil {
					t.Fatalf("%s, %s: %v", p.Name, pic.Name, err)
				}
				_, body, _ := bytes.Cut(out, []byte("\\begin"))
				if i := bytes.IndexFunc(body, func(r rune) bool { return r > 0x7f }); i >= 0 {
					t.Errorf("%s, %s: TeX does not know what is at %.60q", p.Name, pic.Name, body[max(0, i-20):])
				}
			}
		}
	}
}

// No picture writes a list of numbers as Go does.
func TestPicturesWriteShapes(t *testing.T) {
	goList := regexp.MustCompile(`\[\d+( \d+)+\]`)
	for _, p := range All() {
		r, err := p.Run(Values{})
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		said := r.Sentence
		if p.Name != "fusion" { // whose text is vm/hlo's dump of the plan
			said += r.Text
		}
		for _, pic := range r.Pictures {
			said += string(pic.SVG)
		}
		if bad := goList.FindString(said); bad != "" {
			t.Errorf("%s shows %s", p.Name, bad)
		}
	}
}

// The marked line of a program is the one that has run, or the one that goes wrong; the picture says which.
func TestDebuggerSaysWhatIsMarked(t *testing.T) {
	const race = "program t<1>(x: *i32) warps=1 {\n\tgx = ViewGlobal(x) : global i32[8, 4]\n\ts = AllocateShared() : shared i32[8, 4] shared_row_major(8, 4)\n" +
		"\tr = LoadGlobal(gx, offset=[0, 0]) : register i32[8, 4] spatial(8, 4)\n\tStoreShared(s, r)\n\tu = LoadShared(s) : register i32[8, 4] column_spatial(8, 4)\n}"
	for n, want := range map[string]string{"2": "the line that has just run", "100": "the line that goes wrong"} {
		r, err := run(t, "debug", Values{"src": race, "a": "iota:i32[8, 4]", "n": n})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(r.Pictures[0].SVG), want) {
			t.Errorf("step %s: %s; the picture does not say that it marks %s", n, r.Sentence, want)
		}
	}
}
