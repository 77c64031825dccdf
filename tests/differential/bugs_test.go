package differential

import (
	"context"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
)

// TestPlantedBugsAreFound runs the programs of vm/corpus/bugs: each machine whose
// code the line names stops at that line with that code, and no other machine does
// anything else than find nothing or the same.
func TestPlantedBugsAreFound(t *testing.T) {
	bugs, err := Bugs()
	if err != nil {
		t.Fatal(err)
	}
	if len(bugs) < 20 {
		t.Errorf("%d planted bugs", len(bugs))
	}
	codes := map[string]bool{}
	for _, l := range bugs {
		want := map[string]int{} // line by code
		for i, text := range strings.Split(l.Program.Source, "\n") {
			if _, list, ok := strings.Cut(text, "// want "); ok {
				for _, code := range strings.Fields(list) {
					want[code] = i + 1
				}
			}
		}
		findings, err := device.Sanitize(context.Background(), l.Program, l.Args, l.Target("sm_80"))
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
			continue
		}
		found := map[string]bool{}
		for _, f := range findings {
			if len(f.Problems) == 0 {
				continue
			}
			p := f.Problems[0]
			if found[p.Code] = true; want[p.Code] != p.Pos.Line {
				t.Errorf("%s, %s: line %d has %s, want lines %v: %s", l.Name, f.Machine, p.Pos.Line, p.Code, want, p.Msg)
			}
			codes[p.Code] = true
		}
		for code, line := range want {
			if !found[code] {
				t.Errorf("%s: line %d: no machine says %s (found %v)", l.Name, line, code, found)
			}
		}
	}
	t.Logf("%d programs, %d kinds of errors: %v", len(bugs), len(codes), codes)
}
