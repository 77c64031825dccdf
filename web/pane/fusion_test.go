package pane

import (
	"errors"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/layoutviz/fusion"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Every fusion can be shown in every way.
func TestFusionPane(t *testing.T) {
	p, err := Find("fusion")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range fusion.Texts() {
		for _, view := range p.Params[2].Choices {
			r, err := run(t, "fusion", Values{"f": x.Name, "v": view})
			if err != nil || r.Sentence == "" || r.Text == "" {
				t.Errorf("%s, %s: %+v, %v", x.Name, view, r.Sentence, err)
			}
			ids := map[string]bool{}
			for _, pic := range r.Pictures {
				for _, e := range pic.IDs {
					if ids[e.ID] && e.ID != "" {
						t.Errorf("%s, %s: two elements %s", x.Name, view, e.ID)
					}
					ids[e.ID] = true
				}
			}
			drawn := view == fusionKernels || view == fusionFunctions || view == fusionThreads || view == fusionMemory
			if drawn != (len(r.Pictures) > 0) {
				t.Errorf("%s, %s: %d pictures", x.Name, view, len(r.Pictures))
			}
		}
	}
	for _, c := range []struct {
		v    Values
		says string
	}{
		{Values{}, "softmax becomes one kernel; 2048 KiB must move, 2048 KiB do"},
		{Values{"f": "two-kernels", "v": fusionFunctions, "k": "1"}, "2 kernels"},
		{Values{"f": fusionOwn, "src": "ENTRY e {\n  x = f32[8] parameter(0)\n  ROOT y = f32[8] negate(x)\n}"}, "e becomes one kernel; 64 bytes must move"},
		{Values{"f": "transpose", "v": fusionMemory, "t": "shared read"}, "turn becomes one kernel"},
	} {
		if r, err := run(t, "fusion", c.v); err != nil || !strings.Contains(r.Sentence, c.says) {
			t.Errorf("%v: %q, %v", c.v, r.Sentence, err)
		}
	}
	var list diag.List
	if _, err := run(t, "fusion", Values{"f": fusionOwn, "src": "ENTRY e {\n  ROOT y = f32[8] negate(x)\n}"}); !errors.As(err, &list) || list[0].Pos.File != "src" || list[0].Pos.Line != 2 {
		t.Errorf("%v has no place", err)
	}
	if _, err := run(t, "fusion", Values{"v": fusionThreads, "t": "nought"}); !errors.As(err, &list) || list[0].Pos.File != "t" {
		t.Errorf("%v has no place", err)
	}
	if r, err := run(t, "indexmap", Values{}); err != nil || !strings.Contains(r.Sentence, "all 120000 points") {
		t.Errorf("%q, %v", r.Sentence, err)
	}
	if _, err := run(t, "indexmap", Values{"m": "(d0 -> (d0)"}); !errors.As(err, &list) || list[0].Pos.File != "m" {
		t.Errorf("%v has no place", err)
	}
}
