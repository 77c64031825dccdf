package template

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

var (
	wideOut  = flag.String("wide", "", "write what TestGPUWideSchedules measured to this file, one JSON row a schedule")
	wideOnly = flag.String("wide-only", "", "TestGPUWideSchedules times this case only, TYPE/LAYER/ROWS")
)

// TestGPUWideForms is [TestWide] and [TestWideForms] on the attached GPU: exact results,
// for as many forms as the budget allows.
func TestGPUWideForms(t *testing.T) {
	d, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, howTo)
	defer d.Close()
	start, count := time.Now(), 0
	check := func(f Form, m, n, k, seed int, s WideSchedule) {
		if time.Since(start) > *budget {
			return
		}
		count++
		t.Run(fmt.Sprintf("%+v_%d_%d_%d_%+v", f, m, n, k, s), func(t *testing.T) {
			randomLayer(f, m, n, k, rand.New(rand.NewPCG(uint64(seed), 5))).checkWide(t, d, s)
		})
	}
	for i, c := range wideCases {
		check(c.form, c.m, c.n, c.k, i, c.s)
	}
	for i, c := range jointCases {
		check(c.form, c.m, c.n, c.k, i, c.s)
	}
	for i, c := range fineCases {
		c.s.Fine = true
		check(c.form, c.m, c.n, c.k, i, c.s)
	}
	for i, w := range weights() {
		for j, group := range []int{128, 64, 32, 0} {
			for k, act := range []dtype.Type{dtype.F16, dtype.BF16} {
				if !*every && (i+j+k)%4 != 0 {
					continue
				}
				f := Form{Weight: w, Act: act, Scale: dtype.F16, Group: group}
				f.Zero = w.IsInt() && !w.Signed() && (i+k)%2 == 0
				f.AnyZero = f.Zero && (i+k)%4 == 0
				switch (i + j + k) % 3 {
				case 0:
					check(f, 3, 20, 130, i, WideSchedule{Rows: 8, Consumers: 1, Stages: 2})
				case 1:
					check(f, 21, 150, 700, i, WideSchedule{Rows: 8, Splits: 3})
				default:
					check(f, 35, 260, 333, i, WideSchedule{Rows: 16, Persistent: true, Cluster: 2})
				}
			}
		}
	}
	t.Logf("%d layers in %v", count, time.Since(start).Round(time.Millisecond))
}

// wideRow is one timed schedule of a layer.
type wideRow struct {
	Layer    string       `json:"layer"`
	M        int          `json:"m"`
	N        int          `json:"n"`
	K        int          `json:"k"`
	Weight   string       `json:"weight"`
	Act      string       `json:"act"`
	Schedule WideSchedule `json:"schedule"`
	Error    float64      `json:"error"`
	tune.Row
}

// TestGPUWideSchedules times schedules of Wide, most important ones first, until the
// budget is used up, and checks some of their sums against float64.
func TestGPUWideSchedules(t *testing.T) {
	g, d := timers(t), machine(t, "cuda")
	timer := &wideTimer{d: d, g: g, origin: tune.Origin(g, *commit), bits: random(512 << 20), start: time.Now()}
	for _, c := range wideTimed {
		for _, w := range c.types {
			if name := fmt.Sprintf("%s/%s/%d", w, c.layer, c.m); *wideOnly == "" || *wideOnly == name {
				timer.layer(t, Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128}, c.layer, c.m, c.schedules)
			}
		}
	}
	if *wideOut != "" {
		data, err := json.MarshalIndent(timer.rows, "", "\t")
		if err == nil {
			err = os.WriteFile(*wideOut, append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// wideTimed are the layers of Llama-3.3-70B that are timed, with their schedules.
var wideTimed = []struct {
	types     []dtype.Type
	layer     string
	m         int
	schedules []WideSchedule
}{
	{[]dtype.Type{dtype.U4}, "gate_up", 64, []WideSchedule{{Rows: 64, Stages: 4}, {Rows: 64, Sides: 2}, {Rows: 64, Sides: 2, Stages: 4}, {Rows: 64, Cluster: 2, Stages: 4}, {Rows: 64, Sides: 2, Cluster: 2, Stages: 4}, {Rows: 64, Sides: 2, Persistent: true, Stages: 4}, {Rows: 64, Sides: 2, Cluster: 2, Persistent: true, Stages: 4}, {Rows: 64, Persistent: true, Cluster: 2, Stages: 6}, {Rows: 32, Sides: 2}}},
	{[]dtype.Type{dtype.U4}, "o", 64, []WideSchedule{{Rows: 64, Splits: 2}, {Rows: 64, Sides: 2, Splits: 4}, {Rows: 64, Splits: 2, Cluster: 2}, {Rows: 64, Sides: 2, Splits: 4, Cluster: 2}, {Rows: 64, Splits: 2, Stages: 6}, {Rows: 64, Consumers: 1, Sides: 2, Splits: 2}}},
	{[]dtype.Type{dtype.U4}, "gate_up", 4096, []WideSchedule{{Rows: 128, Persistent: true, Cluster: 2, Stages: 4}, {Rows: 128, Persistent: true, Cluster: 4, Stages: 4}, {Rows: 64, Sides: 2, Persistent: true, Cluster: 2, Stages: 4}}},
	{[]dtype.Type{dtype.I4, dtype.U8, dtype.F6E3M2, dtype.U2, dtype.F8E4M3}, "gate_up", 64, []WideSchedule{{Stages: 4}, {Sides: 2}, {Sides: 2, Cluster: 2}}},
	{[]dtype.Type{dtype.U4}, "gate_up", 128, []WideSchedule{{Rows: 128}, {Rows: 128, Cluster: 2}, {Rows: 64, Sides: 2, Cluster: 2, Stages: 4}}},
	{[]dtype.Type{dtype.U4}, "gate_up", 32, []WideSchedule{{Rows: 32, Stages: 5}, {Rows: 32, Sides: 2, Stages: 5}, {Rows: 32, Sides: 4}, {Rows: 32, Sides: 2, Cluster: 2, Stages: 5}, {Rows: 32, Sides: 2, Persistent: true, Stages: 5}}},
	{[]dtype.Type{dtype.U4}, "o", 32, []WideSchedule{{Rows: 32, Splits: 2}, {Rows: 32, Splits: 4, Sides: 2}, {Rows: 32, Splits: 8, Sides: 4}, {Rows: 32, Splits: 4, Sides: 2, Cluster: 2}}},
	{[]dtype.Type{dtype.U4}, "o", 128, []WideSchedule{{Rows: 128, Splits: 2}, {Rows: 128, Splits: 2, Cluster: 2}, {Rows: 64, Sides: 2, Splits: 2}}},
	{[]dtype.Type{dtype.U4}, "qkv", 64, []WideSchedule{{Rows: 64, Splits: 2}, {Rows: 64, Sides: 2, Splits: 3}}},
	{[]dtype.Type{dtype.U4}, "down", 64, []WideSchedule{{Rows: 64, Splits: 2}, {Rows: 64, Sides: 2, Splits: 4}, {Rows: 64, Sides: 2, Splits: 4, Cluster: 2}}},
	{[]dtype.Type{dtype.U8, dtype.F6E3M2, dtype.F8E4M3}, "gate_up", 4096, []WideSchedule{{Rows: 128, Persistent: true, Cluster: 2, Stages: 3}}},
	{[]dtype.Type{dtype.U8, dtype.F6E3M2, dtype.U2, dtype.F8E4M3}, "o", 64, []WideSchedule{{Splits: 2}, {Sides: 2, Splits: 4}}},
}

// wideTimer times schedules of Wide.
type wideTimer struct {
	d      device.Device
	g      *tune.GPU
	origin tune.Row
	bits   []byte
	start  time.Time
	rows   []wideRow
}

// noise is x[m, k] of f16 around 0, of both signs.
func noise(m, k int) *array.Array {
	a := array.New(dtype.F16, m, k)
	r := rand.NewPCG(1, 2)
	for i := 0; i+8 <= len(a.Data); i += 8 {
		binary.LittleEndian.PutUint64(a.Data[i:], r.Uint64()&0x83ff83ff83ff83ff|0x3800380038003800)
	}
	return a
}

func (w *wideTimer) layer(t *testing.T, f Form, layer string, m int, schedules []WideSchedule) {
	shape := map[string][2]int{"gate_up": {57344, 8192}, "down": {8192, 28672}, "qkv": {10240, 8192}, "o": {8192, 8192}}[layer]
	n, k := shape[0], shape[1]
	p, err := PlanOf(f)
	if err != nil {
		t.Fatal(err)
	}
	packed := array.New(dtype.U8, 0)
	packed.Shape = p.PackedShape(n, k)
	packed.Data = w.bits[:packed.Shape[0]*packed.Shape[1]*packed.Shape[2]]
	if f.Weight == dtype.F8E4M3 { // no NaN
		packed.Data = make([]byte, len(packed.Data))
		for i := range packed.Data {
			packed.Data[i] = w.bits[i] & 0xbf
		}
	}
	scales := generate(t, "pow2:f16[%d, %d]:seed=2:lo=-8:hi=-7", p.Groups(k), p.Padded(n))
	x := noise(m, k)
	arrange, err := Arrange(f, WideSchedule{})
	if err != nil {
		t.Fatal(err)
	}
	wide, of := p.Arranged(m, k)
	var sums *array.Array
	if p.Shifts() {
		sums = array.New(dtype.F32, of...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	args := launchArgs(x, array.New(f.Act, wide...), sums, m, k)
	res, err := w.d.Run(ctx, arrange, args)
	if err != nil {
		t.Errorf("%s: %v", arrange.Name, err)
		return
	}
	arranged := res.Args[1].Array
	if sums != nil {
		sums = res.Args[2].Array
	}
	first, err := tune.Time(ctx, w.g, arrange, args, tune.Options{Replays: 7, WorkingSet: 1})
	fmt.Printf("%-7s %-8s M=%-5d arrange %.2f µs %v\n", f.Weight, layer, m, first.Median, err)
	for i, s := range schedules {
		if time.Since(w.start) > *budget {
			return
		}
		s, err := s.Filled(p)
		if err != nil {
			fmt.Printf("%-7s %-8s M=%-5d %+v: %v\n", f.Weight, layer, m, schedules[i], err)
			continue
		}
		program, err := Wide(f, s)
		if err != nil {
			t.Error(err)
			continue
		}
		in := []any{packed, scales, arranged, sums}
		at := len(launchArgs(in...))
		in = append(in, array.New(f.Act, m, n))
		if s.Shares() {
			part, arrived := s.Workspace(p, m, n)
			in = append(in, array.New(dtype.F32, part...), array.New(dtype.I32, arrived))
		}
		in = append(in, m, n, k)
		if s.Persistent {
			in = append(in, w.g.SMs/s.Cluster*s.Cluster)
		}
		args := launchArgs(in...)
		row := wideRow{Layer: layer, M: m, N: n, K: k, Weight: f.Weight.String(), Act: f.Act.String(), Schedule: s}
		res, err := w.d.Run(ctx, program, args)
		if err != nil {
			t.Errorf("%s %s %+v: %v", f.Weight, layer, s, err)
			return // the context may be lost
		}
		row.Error = sampledError(t, p, packed, scales, x, res.Args[at].Array)
		if !(row.Error < 1e-3) {
			t.Errorf("%s %s M=%d %+v: the relative error is %g", f.Weight, layer, m, s, row.Error)
		}
		timing, err := tune.Time(ctx, w.g, program, args, tune.Options{Replays: 7, Bytes: int64(len(packed.Data) + len(scales.Data))})
		row.Row = w.origin.Row(program.Name, tune.Hash(program), timing, err)
		w.rows = append(w.rows, row)
		if err != nil {
			t.Errorf("%s %s %+v: %v", f.Weight, layer, s, err)
			continue
		}
		fmt.Printf("%-7s %-8s M=%-5d R%-3d C%d sides %d S%d cluster %d k/%d P=%-5v %8.2f µs, %4.0f TFLOP/s, error %.1e, %d registers, %d local, %d shared, ours %.0f jit %.0f ms t=%.0fs\n", f.Weight, layer, m, s.Rows, s.Consumers, s.Sides, s.Stages, s.Cluster, s.Splits, s.Persistent,
			timing.Median, 2*float64(m)*float64(n)*float64(k)/timing.Median/1e6, row.Error, timing.Registers, timing.LocalBytes, timing.SharedBytes, timing.CompileMs, timing.JITMs, time.Since(w.start).Seconds())
	}
}

// sampledError is the relative error of some sums.
func sampledError(t *testing.T, p *Plan, w, s, x, y *array.Array) float64 {
	reader, err := p.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	k, num, den := x.Shape[1], 0.0, 0.0
	for range 64 {
		i, j, want := r.IntN(y.Shape[0]), r.IntN(y.Shape[1]), 0.0
		for at := range k {
			want += x.At(i, at) * reader.At(w.Data, k, j, at) * s.At(at/p.Group, p.ScaleIndex(j))
		}
		got := y.At(i, j)
		num, den = num+(got-want)*(got-want), den+want*want
	}
	return math.Sqrt(num / den)
}
