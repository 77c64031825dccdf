package template

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
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

var (
	formsOut = flag.String("forms", "", "write what TestGPUDecode measured to this file, one JSON row a schedule")
	budget   = flag.Duration("budget", time.Minute, "begin no further measurement after so long")
)

// TestGPUForms is [TestForms] on the attached GPU: exact results, for as many forms
// as the budget allows.
func TestGPUForms(t *testing.T) {
	onGPU(t, 1, func(_ int, check func(name string, f Form, i int, shape formShape)) { formCases(check) }, 1)
}

// onGPU holds layers to float64 on the attached GPU, for as many forms as the budget allows: those of each part in turn,
// which is one of so many.
func onGPU(t *testing.T, seed uint64, cases func(part int, check func(name string, f Form, i int, shape formShape)), parts ...int) {
	t.Helper()
	d, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, howTo)
	defer d.Close()
	start, count, passed := time.Now(), 0, 0
	for _, part := range parts {
		cases(part, func(name string, f Form, i int, shape formShape) {
			if time.Since(start) > *budget {
				return
			}
			count++
			if t.Run(name, func(t *testing.T) {
				randomLayer(f, shape.m, shape.n, shape.k, rand.New(rand.NewPCG(uint64(i), seed))).check(t, d, shape.s)
			}) {
				passed++
			}
		})
	}
	t.Logf("%d of %d layers in %v", passed, count, time.Since(start).Round(time.Millisecond))
}

// decodeRow is one timed schedule of a layer.
type decodeRow struct {
	Layer    string   `json:"layer"`
	M        int      `json:"m"`
	N        int      `json:"n"`
	K        int      `json:"k"`
	Weight   string   `json:"weight"`
	Act      string   `json:"act"`
	Schedule Schedule `json:"schedule"`
	tune.Row
}

// random is a buffer of random bytes, from which arrays take their first ones.
func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}

// TestGPUDecode times schedules of Decode, most important types first, until the
// budget is used up. All schedules of a layer must give the same result.
func TestGPUDecode(t *testing.T) {
	g, d := timers(t), machine(t, "cuda")
	start := time.Now()
	origin := tune.Origin(g, *commit)
	bits := random(512 << 20)
	var rows []decodeRow
	type layerCase struct {
		name      string
		m, n, k   int
		schedules []Schedule
	}
	wide := []Schedule{{}, {Depth: 1}, {Depth: 2}, {Depth: 3}, {Warps: 4}, {Warps: 2, Depth: 1}, {Depth: 4}}
	narrow := []Schedule{{Splits: 4, Warps: 4}, {Splits: 2, Warps: 4}, {Splits: 8, Warps: 4}, {Splits: 4}, {Splits: 8}, {Splits: 4, Warps: 4, Depth: 1}, {Splits: 8, Warps: 4, Depth: 1}, {Splits: 4, Warps: 2, PDL: true}}
	for _, round := range []struct {
		types []dtype.Type
		cases []layerCase
	}{
		{[]dtype.Type{dtype.U4, dtype.U2, dtype.U8, dtype.F6E3M2, dtype.U3, dtype.U1}, []layerCase{{"gate_up", 1, 57344, 8192, wide}, {"o", 1, 8192, 8192, narrow}}},
		{[]dtype.Type{dtype.U4, dtype.U2, dtype.F6E3M2}, []layerCase{{"gate_up", 16, 57344, 8192, []Schedule{{Rows: 16}, {Rows: 16, Depth: 1}, {Rows: 16, Warps: 4}, {Rows: 16, Warps: 4, Depth: 1}, {Rows: 8}}}, {"o", 16, 8192, 8192, []Schedule{{Rows: 16, Splits: 4, Warps: 4}, {Rows: 16, Splits: 4}, {Rows: 16, Splits: 2, Warps: 4}, {Rows: 16, Splits: 8, Warps: 4, Depth: 1}}}}},
		{[]dtype.Type{dtype.U5, dtype.U6, dtype.U7, dtype.F8E4M3, dtype.F4E2M1, dtype.F7E3M3, dtype.F5E2M2, dtype.F3E2M0, dtype.I4}, []layerCase{{"gate_up", 1, 57344, 8192, []Schedule{{}, {Depth: 1}, {Depth: 2}, {Warps: 4}}}, {"o", 1, 8192, 8192, []Schedule{{Splits: 4, Warps: 4}, {Splits: 4, Warps: 4, Depth: 1}, {Splits: 8}}}}},
	} {
		for _, w := range round.types {
			for _, c := range round.cases {
				f := Form{Weight: w, Act: dtype.F16, Scale: dtype.F16, Group: 128}
				rows = append(rows, timeDecode(t, d, g, origin, bits, f, c.name, c.m, c.n, c.k, c.schedules, start)...)
			}
		}
	}
	if *formsOut != "" {
		data, err := json.MarshalIndent(rows, "", "\t")
		if err == nil {
			err = os.WriteFile(*formsOut, append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func timeDecode(t *testing.T, d device.Device, g *tune.GPU, origin tune.Row, bits []byte, f Form, title string, m, n, k int, schedules []Schedule, start time.Time) []decodeRow {
	var rows []decodeRow
	seen := map[Schedule]bool{}
	var want *array.Array
	for _, s := range schedules {
		if time.Since(start) > *budget {
			return rows
		}
		plan, err := PlanOf(f)
		if err != nil {
			t.Fatal(err)
		}
		if s, err = s.fill(plan); err != nil {
			t.Fatal(err)
		}
		if seen[s] {
			continue
		}
		seen[s] = true
		p, err := Decode(f, s)
		if err != nil {
			t.Errorf("%s %s %+v: %v", f.Weight, title, s, err)
			continue
		}
		shape := plan.PackedShape(n, k)
		blocks := ceil(n, plan.Outputs()*s.Warps*s.Sides)
		w := array.New(dtype.U8, 0)
		w.Shape = shape
		w.Data = bits[:shape[0]*shape[1]*shape[2]]
		if f.Weight.IsFloat() && f.Weight.Bits() == 8 {
			for i := range w.Data { // no NaN, no infinity
				w.Data[i] &= 0xbf
			}
		}
		padded := plan.Padded(n)
		scales := generate(t, "pow2:f16[%d, %d]:seed=2:lo=-8:hi=-7", plan.Groups(k), padded)
		args := []ir.Arg{{Array: w}, {Array: scales}, {Array: generate(t, "randint:f16[%d, %d]:seed=3:lo=-2:hi=2", m, k)}, {Array: array.New(f.Act, m, n)}}
		bytes := int64(len(w.Data)+len(scales.Data)) + int64(2*m*(n+k))
		o := tune.Options{Bytes: bytes, Replays: 7, Read: len(rows) == 0}
		if want != nil {
			o.Want, o.Tolerance = []*array.Array{nil, nil, nil, want}, 1e-3
		}
		if s.Splits > 1 {
			args = append(args, ir.Arg{Array: array.New(dtype.F32, s.Splits, m, blocks*s.Warps*s.Sides*plan.Outputs())}, ir.Arg{Array: array.New(dtype.I32, blocks*ceil(m, s.Rows))})
		}
		if want == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			res, err := d.Run(ctx, p, append(args[:len(args):len(args)], ir.Arg{Int: int64(m)}, ir.Arg{Int: int64(n)}, ir.Arg{Int: int64(k)}))
			cancel()
			if err != nil {
				t.Errorf("%s %s %+v: %v", f.Weight, title, s, err)
				continue
			}
			want = res.Args[3].Array
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		timing, err := tune.Time(ctx, g, p, append(args, ir.Arg{Int: int64(m)}, ir.Arg{Int: int64(n)}, ir.Arg{Int: int64(k)}), o)
		cancel()
		rows = append(rows, decodeRow{Layer: title, M: m, N: n, K: k, Weight: f.Weight.String(), Act: f.Act.String(), Schedule: s, Row: origin.Row(p.Name, tune.Hash(p), timing, err)})
		if err != nil {
			t.Errorf("%s %s %+v: %v", f.Weight, title, s, err)
			continue
		}
		read := rows[0].ReadUs
		fmt.Printf("%-7s %-4s %-7s M=%-2d R%d D%d W%d S%-2d PDL=%-5v %8.2f µs  %.3f of read %.2f  regs %3d local %d persm %d ours %.0f jit %.0f ms t=%.0fs\n", f.Weight, f.Act, title, m, s.Rows, s.Depth, s.Warps, s.Splits, s.PDL,
			timing.Median, timing.Median/read, read, timing.Registers, timing.LocalBytes, timing.BlocksPerSM, timing.CompileMs, timing.JITMs, time.Since(start).Seconds())
	}
	return rows
}
