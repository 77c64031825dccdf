package timeline

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
	"github.com/tilus-lab/tilus-lab/layoutviz"
)

func TestBlocks(t *testing.T) {
	tr := trace.New("three blocks", "NVIDIA something", trace.Measurement, "ns")
	tr.Tracks = []trace.Track{{Name: "SM 0", Group: "SMs"}, {Name: "SM 1", Group: "SMs"}}
	k := tr.Add("kernels", "k", trace.Event{Kind: "kernel", End: 9000, Tag: trace.Derived, About: map[string]string{"kernel": "k"}})
	add := func(sm string, start, end int64, cause int, block string) int {
		return tr.Add("SMs", sm, trace.Event{Kind: "block", Start: start, End: end, Tag: trace.Measured, Text: "block " + block + " of k runs on " + sm, Causes: []int{cause}, About: map[string]string{"kernel": "k", "block": block, "sm": sm[3:]}})
	}
	a := add("SM 0", 0, 4000, k, "0")
	add("SM 1", 100, 9000, k, "1")
	add("SM 0", 4100, 8000, a, "2")
	for _, theme := range []string{"light", "dark", "print"} {
		p, err := Blocks(tr, 5, layoutviz.Options{Theme: theme})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.IDs) != 3 || !strings.Contains(p.Desc, "3 blocks on 2 of 2 SMs, up to 1 at a time") {
			t.Errorf("%d boxes, %s", len(p.IDs), p.Desc)
		}
		// The last block and the one that made room for it light each other.
		if p.IDs[2].Keys[1] != p.IDs[0].Keys[0] || p.IDs[2].Y != p.IDs[0].Y || p.IDs[1].Y == p.IDs[0].Y {
			t.Errorf("boxes %+v", p.IDs)
		}
	}
	tr.Unit = "tick"
	if _, err := Blocks(tr, -1, layoutviz.Options{}); err == nil {
		t.Error("ticks are drawn as ns")
	}
}
