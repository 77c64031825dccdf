package qmm

import (
	"errors"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
)

// TestGPUTune searches for products of few and of many rows, and has products take what was found: plan, schedule, and results
// as close as any.
func TestGPUTune(t *testing.T) {
	b, err := NewBench("")
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUTune -test.v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	store, err := tune.OpenStore(filepath.Join(t.TempDir(), "tuned.db"))
	if err != nil {
		t.Fatal(err)
	}
	plans := map[string]int{}
	for _, c := range []struct {
		layer string
		m     int
	}{{"u3", 12}, {"u4", 40}, {"u6 zero=any group=32", 32}, {"u2", 300}, {"u4", 2048}} {
		l := kind(t, c.layer, 1536, 2048).Usual()
		row, err := b.Tune(t.Context(), l, "small", c.m, TuneOptions{Store: store, Budget: 3 * time.Second})
		if err != nil || row.Few() {
			t.Errorf("%s, %d rows: %+v, %v", l, c.m, row, err)
			continue
		}
		plans[row.Choice().Plan]++
		t.Logf("%s, %d rows: %.2f µs by %s, %.2f without a search, %d timed", l, c.m, row.MedianUs, row.Choice(), row.ChosenUs, row.Tried)
		_, p := packed(t, b.d, l, 1, nil)
		x := normal(p.ActType, 5, c.m, p.K)
		found, err := p.Run(t.Context(), b.d, x, Call{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		if got := (Choice{found.Plan, found.Schedule, found.Wide}); found.From != "store" || got != row.Choice() {
			t.Errorf("%s, %d rows: found %s, and the product takes %s from %s", l, c.m, row.Choice(), got, found.From)
		}
		other, err := p.Run(t.Context(), b.d, x, Call{Soon: true})
		if err != nil {
			t.Fatal(err)
		}
		var num, den float64
		for i := range other.Y.Len() {
			want, got := other.Y.Type.Decode(other.Y.Code(i)), other.Y.Type.Decode(found.Y.Code(i))
			num, den = num+(got-want)*(got-want), den+want*want
		}
		if off := math.Sqrt(num / den); !(off < row.Choice().worst(l.ActType)) {
			t.Errorf("%s, %d rows by %s: the relative difference from another program is %g", l, c.m, row.Choice(), off)
		}
	}
	if plans[Decode] == 0 || len(plans) < 2 {
		t.Errorf("found by plan: %v", plans)
	}
}
