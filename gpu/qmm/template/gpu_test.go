package template

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o template.test ./gpu/qmm/template && CUDA_CACHE_DISABLE=1 ./template.test -test.run GPU -test.v -out schedules.json -commit COMMIT"

var (
	outFile = flag.String("out", "", "write what TestGPUSchedules measured to this file, one JSON row a schedule")
	commit  = flag.String("commit", "", "commit that the test binary was built from")
)

// scheduleRow is one timed schedule of a layer.
type scheduleRow struct {
	Layer    string        `json:"layer"`
	M        int           `json:"m"`
	N        int           `json:"n"`
	K        int           `json:"k"`
	Options  DecodeOptions `json:"options"`
	Chosen   bool          `json:"chosen"`      // by Choose on an H200
	Estimate float64       `json:"estimate_us"` // Choose's
	tune.Row
}

// timers opens the GPU for timing until the test ends, or skips the test without one.
func timers(t *testing.T) *tune.GPU {
	t.Helper()
	g, err := tune.OpenGPU(0)
	need.GPU(t, err, device.ErrNoGPU, howTo)
	t.Cleanup(func() { g.Close() })
	return g
}

// machine opens a device until the test ends.
func machine(t *testing.T, name string) device.Device {
	t.Helper()
	d, err := device.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// machines are those that multiply case i: the simulator, which runs what was lowered, and of every second case, of all with -every, the
// interpreter.
func machines(i int) []string {
	if *every || i%2 == 0 {
		return []string{"interp", "sim"}
	}
	return []string{"sim"}
}

// TestGPUSchedules times schedules of DecodeU4 on layers of Llama-3.3-70B, with 1
// and 8 rows of x, and requires of all of them the bits that the default one gives.
// It says how far what Choose takes is from the fastest.
func TestGPUSchedules(t *testing.T) {
	g := timers(t)
	whole := []DecodeOptions{{}, {Depth: 1}, {Depth: 3}, {Depth: 4}, {Warps: 2}, {Warps: 4}, {Warps: 8}, {Depth: 4, Warps: 4}, {KeepL1: true}, {PDL: true}, {Splits: 2}}
	split := []DecodeOptions{{}, {PDL: true}, {Splits: 4, Depth: 4}, {Splits: 4, Depth: 3, PDL: true}}
	for _, n := range []int{2, 3, 4, 5, 6, 7, 8, 12, 16} {
		split = append(split, DecodeOptions{Splits: n}, DecodeOptions{Splits: n, Warps: 4})
	}
	for _, n := range []int{3, 4, 6, 7, 8} {
		split = append(split, DecodeOptions{Splits: n, PDL: true}, DecodeOptions{Splits: n, Warps: 2}, DecodeOptions{Splits: n, Warps: 4, PDL: true}, DecodeOptions{Splits: n, Warps: 8})
	}
	var rows []scheduleRow
	for _, layer := range []struct {
		name      string
		n, k      int
		schedules []DecodeOptions
	}{{"gate_up", 57344, 8192, whole}, {"qkv", 10240, 8192, split}, {"o", 8192, 8192, split}, {"down", 8192, 28672, split}} {
		for _, m := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s_%d", layer.name, m), func(t *testing.T) {
				timed := timeSchedules(t, g, m, layer.n, layer.k, layer.schedules)
				for i := range timed {
					timed[i].Layer = layer.name
				}
				rows = append(rows, timed...)
			})
		}
	}
	if *outFile != "" {
		data, err := json.MarshalIndent(rows, "", "\t")
		if err == nil {
			err = os.WriteFile(*outFile, append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func timeSchedules(t *testing.T, g *tune.GPU, m, n, k int, schedules []DecodeOptions) []scheduleRow {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	const group = 128
	args := []ir.Arg{
		{Array: generate(t, "randcode:u8[%d, %d, %d]:seed=1", n/16, k/group, 8*group)},
		{Array: generate(t, "pow2:f16[%d, %d]:seed=2:lo=-6:hi=-5", k/group, n)},
		{Array: generate(t, "randint:f16[%d, %d]:seed=3", m, k)},
		{Array: array.New(dtype.F16, m, n)},
	}
	bytes := int64(0)
	for _, a := range args {
		bytes += int64(len(a.Array.Data))
	}
	sizes := []ir.Arg{{Int: int64(m)}, {Int: int64(n)}, {Int: int64(k)}}
	usual, err := DecodeU4(DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := device.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	res, err := d.Run(ctx, usual, append(args[:4:4], sizes...))
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := Choose(DecodeOptions{}, m, n, k, H200())
	if err != nil {
		t.Fatal(err)
	}
	origin := tune.Origin(g, *commit)
	var rows []scheduleRow
	add := func(o DecodeOptions) {
		if err := o.defaults(); err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if r.Options == o {
				return
			}
		}
		p, err := DecodeU4(o)
		if err != nil {
			t.Fatal(err)
		}
		all := args[:4:4]
		want := make([]*array.Array, 6)
		want[3] = res.Args[3].Array
		if o.Splits > 1 {
			want[5] = array.New(dtype.I32, n/16/o.Warps)
			all = append(all, ir.Arg{Array: array.New(dtype.F32, o.Splits, m, n)}, ir.Arg{Array: want[5].Clone()})
		} else {
			want = want[:4]
		}
		options := tune.Options{Bytes: bytes, Want: want, Read: len(rows) == 0, Replays: 7, Clocks: o == chosen}
		timing, err := tune.Time(ctx, g, p, append(all, sizes...), options)
		r := scheduleRow{M: m, N: n, K: k, Options: o, Chosen: o == chosen, Row: origin.Row(p.Name, tune.Hash(p), timing, err)}
		r.Estimate, _ = H200().estimate(o, m, n, k)
		rows = append(rows, r)
		if err != nil {
			t.Errorf("%+v: %v", o, err)
			return
		}
		t.Logf("%-86s %7.2f µs, estimated %7.2f, %d registers, %d fit", fmt.Sprintf("%+v", o), timing.Median, r.Estimate, timing.Registers, timing.BlocksPerSM)
	}
	add(chosen)
	for _, o := range schedules {
		add(o)
	}
	best := rows[0]
	for _, r := range rows {
		if r.MedianUs > 0 && !r.Options.PDL && r.MedianUs < best.MedianUs {
			best = r
		}
	}
	t.Logf("chosen %+v: %.2f µs; fastest without PDL %+v: %.2f µs; reading alone %.2f µs", chosen, rows[0].MedianUs, best.Options, best.MedianUs, rows[0].ReadUs)
	return rows
}
