package tune

import (
	"context"
	"errors"
	"flag"
	"regexp"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

var (
	recordTo = flag.String("record", "", "write what was measured to this file")
	commit   = flag.String("commit", "", "commit that the test binary was built from")
	only     = flag.String("cases", "", "regular expression that chooses among the cases")
)

const recordFile = "../../tests/record/timings.json"

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o tune.test ./gpu/tune && " +
	"CUDA_CACHE_DISABLE=1 ./tune.test -test.run GPU -test.v -record timings.json, and put timings.json in tests/record"

// TestGPUTiming times the cases on the attached GPU.
func TestGPUTiming(t *testing.T) {
	g, err := OpenGPU(0)
	need.GPU(t, err, device.ErrNoGPU, howTo)
	defer g.Close()
	choose, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %s, %d SMs, L2 of %.1f MB", g.Title, g.Driver, g.SMs, float64(g.L2)/1e6)
	origin := Origin(g, *commit)
	var rows []Row
	for _, c := range cases {
		if !choose.MatchString(c.name) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		hash, err := c.hash(g.SMs)
		var timing Timing
		if err == nil {
			timing, err = c.time(ctx, g)
		}
		cancel()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else {
			t.Logf("%-30s %v", c.name, timing)
		}
		rows = append(rows, origin.Row(c.name, hash, timing, err))
	}
	if *recordTo != "" {
		if err := WriteRows(*recordTo, rows); err != nil {
			t.Fatal(err)
		}
	}
}

func (c timed) time(ctx context.Context, g *GPU) (Timing, error) {
	p, args, o, err := c.make(g.SMs)
	if err != nil {
		return Timing{}, err
	}
	return Time(ctx, g, p, args, o)
}

// TestGPUReadShapes is how readOn's choice is made: the time of each shape.
func TestGPUReadShapes(t *testing.T) {
	g, err := OpenGPU(0)
	need.GPU(t, err, device.ErrNoGPU, howTo)
	defer g.Close()
	for _, bytes := range []int64{8 << 20, 32 << 20, gateUp} {
		for _, shape := range []readShape{{1, 16, 8}, {1, 32, 4}, {1, 32, 8}, {2, 8, 8}, {2, 16, 4}, {2, 16, 8}, {4, 8, 4}, {4, 8, 8}, {4, 16, 4}, {8, 4, 8}, {8, 8, 2}, {8, 8, 4}} {
			shape.blocks *= g.SMs
			timing, err := shape.time(t.Context(), g, int(bytes/4), Options{Replays: 7})
			if err != nil {
				t.Errorf("%+v: %v", shape, err)
				continue
			}
			t.Logf("%9d bytes, %d blocks a SM, %2d warps, %d deep: %7.2f µs, %.0f GB/s, %d registers", bytes, shape.blocks/g.SMs, shape.warps, shape.depth, timing.Median, timing.GBps, timing.Registers)
		}
	}
}

// TestGPUWrongResult holds that the harness sees wrong results on the GPU.
func TestGPUWrongResult(t *testing.T) {
	g, err := OpenGPU(0)
	need.GPU(t, err, device.ErrNoGPU, howTo)
	defer g.Close()
	shape := readShape{blocks: 8, warps: 4, depth: 4}
	p, err := shape.program(1 << 18)
	if err != nil {
		t.Fatal(err)
	}
	args, want := shape.args(1 << 18)
	if _, err := Time(t.Context(), g, p, args, Options{Want: want}); err != nil {
		t.Fatal(err)
	}
	want[1].SetCode(77, want[1].Code(77)^1)
	if _, err := Time(t.Context(), g, p, args, Options{Want: want}); !errors.Is(err, ErrWrong) {
		t.Errorf("one wrong element of %d gives %v", want[1].Len(), err)
	}
}

// TestRecord reads what was measured and says which rows no longer hold for the
// program as it is now. Stale rows are no failure: they wait for a GPU.
func TestRecord(t *testing.T) {
	rows, err := ReadRows(recordFile)
	if err != nil {
		t.Fatalf("%v; %s", err, howTo)
	}
	byName := map[string]timed{}
	for _, c := range cases {
		byName[c.name] = c
	}
	for _, r := range rows {
		c, ok := byName[r.Name]
		if !ok {
			t.Logf("%s is stale: there is no such case", r.Name)
			continue
		}
		if !r.Complete() {
			t.Errorf("row %s is incomplete: %+v", r.Name, r)
			continue
		}
		sms := r.Grid[0] / readOn(1).blocks // of the GPU, if this is the read kernel
		hash, err := c.hash(sms)
		if err != nil {
			t.Fatal(err)
		}
		if hash != r.Hash {
			t.Logf("%s is stale: it was measured with another text or other arguments", r.Name)
		}
		delete(byName, r.Name)
	}
	for name := range byName {
		t.Logf("%s is not measured", name)
	}
}
