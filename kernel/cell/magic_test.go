package cell

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/kernel/lab"
)

// Places in a %%tile cell count the cell's lines, whether they are of the text or of a run of it.
func TestTilePlaces(t *testing.T) {
	b := newBench(t)
	const src = "\n%%tile div D=0\n// Divides.\nprogram p[D=1]<1>(n: i32) warps=1 {\n\tx = n/D\n}\n"
	name, p, err := b.Tile("cell7", strings.Replace(src, "D=0", "D=1", 1))
	if err != nil || name != "div" || p.Bindings["D"] != "1" {
		t.Fatalf("%s, %v, %+v", name, p, err)
	}
	_, _, err = b.Tile("cell7", strings.Replace(src, "n/D", "m/D", 1))
	if err == nil || !strings.HasPrefix(err.Value, "cell7:5:6: ") || err.Problems[0].Line != 5 || err.Problems[0].EndLine != 5 {
		t.Errorf("text: %+v", err)
	}
	_, p, err = b.Tile("cell8", strings.Replace(strings.Replace(src, "D=0", "D=1", 1), "n/D", "5/n", 1))
	if err != nil {
		t.Fatalf("%+v", err)
	}
	if p.Pos.Line != 4 || p.Pos.File != "cell8" {
		t.Errorf("the program stands at %v", p.Pos)
	}
	_, run := lab.RunOn("interp", p, 0)
	if run == nil || !strings.Contains(run.Error(), "cell8:5:") {
		t.Errorf("run: %v", run)
	}
}
