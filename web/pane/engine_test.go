package pane

import (
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
)

// The debugger goes to any step, and back to the same picture; lines lead to later steps.
func TestDebuggerGoesForwardsAndBack(t *testing.T) {
	var first, last string
	for _, n := range []int{0, 5, 12, 24, 999, 5} {
		r, err := run(t, "debug", Values{"n": strconv.Itoa(n)})
		if err != nil {
			t.Fatal(err)
		}
		switch n {
		case 5:
			if len(r.Pictures) != 2 || !strings.Contains(string(r.Pictures[1].SVG), ">T31<") || !strings.Contains(r.Text, "register f16[16, 8]") {
				t.Errorf("step 5: %d pictures, %q", len(r.Pictures), r.Text)
			}
			if !strings.Contains(r.Sentence, "Next: StoreGlobal(gc, y") {
				t.Errorf("step 5: %s", r.Sentence)
			}
			// Line 6 has just run; the next time is in the next block.
			if to := r.Pictures[0].Go["line6"]["n"]; to != "11" {
				t.Errorf("line 6 leads to step %s", to)
			}
			first, last = last, string(r.Pictures[1].SVG)
		case 24, 999:
			if !strings.Contains(r.Sentence, "Step 24 of 24. The launch has ended.") {
				t.Errorf("step %d: %s", n, r.Sentence)
			}
		}
	}
	if first == "" || first != last {
		t.Error("going back gives another picture")
	}
	if r, err := run(t, "debug", Values{"n": "5", "x": "x"}); err != nil || r.Pictures[1].Name != "x" {
		t.Errorf("variable x: %v", err)
	}
}

// The simulator goes through the same steps and holds the same values; where it stops, the fault is told too.
func TestDebuggerOnTheSimulator(t *testing.T) {
	for n := range 25 {
		def, err := run(t, "debug", Values{"n": strconv.Itoa(n)})
		if err != nil {
			t.Fatal(err)
		}
		got, err := run(t, "debug", Values{"n": strconv.Itoa(n), "d": onSim})
		if err != nil {
			t.Fatal(err)
		}
		if got.Sentence != def.Sentence || len(got.Pictures) != len(def.Pictures) {
			t.Fatalf("step %d: %q, the interpreter says %q", n, got.Sentence, def.Sentence)
		}
		for i := range got.Pictures {
			if string(got.Pictures[i].SVG) != string(def.Pictures[i].SVG) {
				t.Errorf("step %d: picture %s differs", n, got.Pictures[i].Name)
			}
		}
	}
	src := corpus.Section("bugs/race_shared", corpus.ProgramFile)
	r, err := run(t, "debug", Values{"src": src, "a": "iota:i32[8, 8]\nzeros:i32[8, 8]", "n": "1000", "d": onSim})
	if err != nil || !strings.Contains(r.Sentence, "goes wrong") || !strings.Contains(r.Text, "Sim.E") {
		t.Errorf("a race on the simulator: %s %v", r.Sentence, err)
	}
}

// A step that goes wrong is named with its place; what is too large is refused at once.
func TestDebuggerShowsFaultsAndHasLimits(t *testing.T) {
	race := `program race<1>(a: *f32) warps=1 {
	s = AllocateShared() : shared f32[32]
	x = AllocateRegister(init=1) : register f32[32] spatial(32)
	StoreShared(s, x)
	y = LoadShared(s) : register f32[32] local(4).spatial(8)
}
`
	r, err := run(t, "debug", Values{"src": race, "a": "zeros:f32[32]", "n": "9"})
	if err != nil {
		if !strings.Contains(err.Error(), "spatial") {
			t.Fatal(err)
		}
	} else if !strings.Contains(r.Sentence, "goes wrong") || !strings.Contains(r.Text, "Run.E4") {
		t.Errorf("a race: %s %s", r.Sentence, r.Text)
	}
	for name, v := range map[string]Values{
		"too large":    {"a": "zeros:f32[100000, 100000]\nzeros:f16[32, 16]\n32\n16"},
		"files":        {"a": "/etc/passwd\nzeros:f16[32, 16]\n32\n16"},
		"number":       {"a": "randn:f32[32, 16]\nzeros:f16[32, 16]\nx\n16"},
		"count":        {"a": "32"},
		"overflow":     {"a": "zeros:f32[99999999999999999999]\nzeros:f16[32, 16]\n32\n16"},
		"large tile":   {"src": "program p<1>() warps=1 {\n\tx = AllocateRegister(init=0) : register f32[1048576] local(32768).spatial(32)\n}\n", "a": ""},
		"own memory":   {"src": "program p<1>() warps=1 {\n\tg = AllocateGlobal(init=0) : global f32[1048576]\n}\n", "a": ""},
		"wrong extent": {"a": "randn:f32[32, 16]\nzeros:f16[32, 16]\n64\n16"},
	} {
		start := time.Now()
		if _, err := run(t, "debug", v); err == nil || time.Since(start) > time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(start))
		}
	}
	// A loop without end is looked at as far as the limit.
	forever := "program p<1>(n: i32) warps=1 {\n\ti = n\n\twhile i > 0 {\n\t\tx = AllocateRegister(init=0) : register f32[32] spatial(32)\n\t\ti = 1\n\t}\n}\n"
	start := time.Now()
	r, err = run(t, "debug", Values{"src": forever, "a": "1", "n": "1000"})
	if err != nil || !strings.Contains(r.Sentence, "more than 4000") || time.Since(start) > 2*debugTime {
		t.Errorf("a loop without end: %v %s after %v", err, r.Sentence, time.Since(start))
	}
}

func TestBanksSolve(t *testing.T) {
	r, err := run(t, "banks", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"32 wavefronts as it is, 4 under Sw<3,4,3>", "best        Sw<3,4,3>", "TMA"} {
		if !strings.Contains(r.Sentence+"\n"+r.Text, want) {
			t.Errorf("no %q in %s\n%s", want, r.Sentence, r.Text)
		}
	}
	for _, v := range []Values{{"a": "load 3: lane"}, {"a": "load 4: lane*"}, {"a": ""}, {"b": "5", "s": "1"}, {"m": "0"}, {"a": "load 4: lane/0"}} {
		if r, err := run(t, "banks", v); err == nil {
			t.Errorf("%v: %s", v, r.Sentence)
		}
	}
	for _, p := range bank.Profiles() {
		if _, err := run(t, "banks", Values{"of": p.Name, "a": "load 16: lane*16"}); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

func TestCatalogueSearch(t *testing.T) {
	r, err := run(t, "catalogue", Values{"q": "32x32x8 f16", "v": "amd"})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Pictures) != 3 || !strings.Contains(r.Text, "mfma") || !strings.Contains(r.Text, "amd.json layout/CDNA1/v_mfma_f32_32x32x8f16/A") {
		t.Errorf("%d pictures: %s", len(r.Pictures), r.Text)
	}
	// Choosing what a facet offers narrows the search.
	narrow := r.Pictures[1]
	some := 0
	for id, to := range narrow.Go {
		v := Values{"q": "32x32x8 f16", "v": "amd"}
		maps.Copy(v, to)
		less, err := run(t, "catalogue", v)
		if err != nil {
			t.Errorf("%s, %v: %v", id, to, err)
		} else if less.Pictures[0].Name == "found" {
			some++
		}
	}
	if some < 3 {
		t.Errorf("the search is narrowed in %d ways", some)
	}
	to := r.Pictures[0].Go["row0"]["i"]
	again, err := run(t, "catalogue", Values{"q": "no such thing", "i": to})
	if err != nil || again.Pictures[len(again.Pictures)-1].Name != to {
		t.Errorf("row 0 leads to %q: %v", to, err)
	}
	if _, err := run(t, "catalogue", Values{"q": "no such thing"}); err == nil || !strings.Contains(err.Error(), "fewer words") {
		t.Errorf("nothing found: %v", err)
	}
	if _, err := run(t, "catalogue", Values{"i": "mma.m16n8k61.f32.f16"}); err == nil {
		t.Error("an unknown instruction was drawn")
	}
}

// Each line of the program that makes code shares its key with that code, in every form.
func TestCodeIsLinked(t *testing.T) {
	for _, form := range []string{formPTX, formThread, formCUDA} {
		r, err := run(t, "code", Values{"f": form})
		if err != nil {
			t.Fatal(err)
		}
		mine, theirs := map[int]bool{}, map[int]int{}
		for _, e := range r.Pictures[0].IDs {
			for _, k := range e.Keys {
				mine[k] = true
			}
		}
		for _, e := range r.Pictures[1].IDs {
			for _, k := range e.Keys {
				theirs[k]++
			}
		}
		// Lines 5 to 7 load, cast and store.
		for _, line := range []int{5, 6, 7} {
			if !mine[line] || theirs[line] == 0 {
				t.Errorf("%s: line %d has %d lines, linked %t", form, line, theirs[line], mine[line])
			}
		}
		if mine[8] || strings.Contains(string(r.Pictures[1].SVG), "src:5") {
			t.Errorf("%s: the last brace is linked, or places stand in the text", form)
		}
	}
}
