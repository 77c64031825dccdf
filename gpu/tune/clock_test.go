package tune

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// simulate runs a function on the simulator and gives its buffers; more are those
// of parameters that the program does not have.
func simulate(t *testing.T, f *code.Func, p *ir.Program, args []ir.Arg, more ...[]byte) [][]byte {
	t.Helper()
	grid, err := interp.CheckArgs(p, args)
	if err != nil {
		t.Fatal(err)
	}
	l := sim.Launch{Grid: grid}
	var out [][]byte
	for i, a := range args {
		if p.Params[i].Type.Kind == ir.Pointer {
			b := buffer{array: a.Array}
			data := make([]byte, b.size())
			copy(data, a.Array.Data)
			l.Args, out = append(l.Args, sim.Arg{Buffer: data}), append(out, data)
		} else {
			l.Args = append(l.Args, sim.Arg{Bits: uint64(a.Int)})
		}
	}
	for _, data := range more {
		l.Args, out = append(l.Args, sim.Arg{Buffer: data}), append(out, data)
	}
	if _, err := sim.Run(t.Context(), f, l, sim.Options{}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestClocksChangeNothing holds that readings leave results as they are, bit for
// bit, and that every block leaves its own.
func TestClocksChangeNothing(t *testing.T) {
	for _, c := range []timed{
		{name: "read", bytes: 100_000},
		decode("decode_u4", "small", 2, 64, 640),
		schedule("small", 3, 128, 640, template.DecodeOptions{Splits: 2, Warps: 4}),
		schedule("small", 1, 64, 640, template.DecodeOptions{Splits: 3, PDL: true}),
		{name: "grid", file: "vector_add", args: []string{"rand:f32[3000]:seed=1", "rand:f32[3000]:seed=2", "zeros:f32[3000]", "3000"}},
	} {
		p, args, _, err := c.make(2)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		compiled := func() *code.Func {
			c, err := compile.Program(p, compile.Options{Divisible: compile.Divisors(p, args)})
			if err != nil {
				t.Fatal(err)
			}
			return c.Func
		}
		plain := simulate(t, compiled(), p, args)
		f := compiled()
		if err := clocked(f); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		grid, _ := interp.CheckArgs(p, args)
		stamps := bytes.Repeat([]byte{0xff}, grid[0]*grid[1]*grid[2]*stampBytes)
		with := simulate(t, f, p, args, stamps)
		for i, want := range plain {
			if !bytes.Equal(with[i], want) {
				t.Errorf("%s: buffer %d differs", c.name, i)
			}
		}
		for i, b := range stampsOf(stamps) {
			if b.entry <= 0 || b.exit <= b.entry || b.sm != 0 {
				t.Errorf("%s: block %d was there from %d to %d on SM %d", c.name, i, b.entry, b.exit, b.sm)
			}
		}
	}
	if err := clocked(&code.Func{Name: "empty", Body: &code.Region{}}); err == nil {
		t.Error("a function without body takes clocks")
	}
}

func TestAnalyseLaunch(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	// Two SMs with two blocks at a time; SM 1 is idle from 9000 on.
	blocks := []stamp{
		{1000, 5000, 0}, {1000, 5000, 1}, {2000, 6000, 0}, {2000, 6000, 1},
		{5000, 9000, 1}, {5000, 9000, 0}, {6000, 11000, 0},
	}
	c, err := analyseLaunch(blocks, 2, 7*4000)
	if err != nil {
		t.Fatal(err)
	}
	near("Us", c.Us, 10)
	near("Ramp", c.Ramp, 1)
	near("Tail", c.Tail, 2)
	near("AllBusy", c.AllBusy, 0.8)
	near("RoundRobin", c.RoundRobin, 2.0/5)
	near("MeanBlock", c.MeanBlock, (4+4+4+4+4+4+5)/7.0)
	// From 2000 to 9000: 3 + 3 + 4 + 4 + 4 + 4 of the blocks of 4 µs, 3 of 5 of the last.
	near("SteadyGBps", c.SteadyGBps, (22*1000+3.0/5*4000)/7000)
	if c.SMs != 2 || c.MinBlocks != 3 || c.MaxBlocks != 4 || c.Resident != 2 {
		t.Errorf("%+v", c)
	}
	// With a third SM that gets nothing, it is idle from the start.
	if c, err = analyseLaunch(blocks, 3, 1); err != nil {
		t.Fatal(err)
	}
	near("Tail", c.Tail, 10)
	near("AllBusy", c.AllBusy, 0)
	near("SteadyGBps", c.SteadyGBps, 0)
	if c.SMs != 2 || c.MinBlocks != 0 {
		t.Errorf("%+v", c)
	}
	for _, bad := range [][]stamp{nil, {{0, 0, 0}}, {{5, 4, 0}}, {{-1, -1, -1}}} {
		if _, err := analyseLaunch(bad, 1, 1); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

// TestAnalyse holds that the launch of median time is told, not the first one.
func TestAnalyse(t *testing.T) {
	launch := func(at, long int64) []stamp { return []stamp{{at, at + long, 0}, {at + 32, at + long - 32, 1}} }
	c, err := analyse([][]stamp{launch(96, 64_000), launch(70_080, 6400), launch(80_000, 3200), launch(90_080, 4800)}, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	if c.Us != 4.8 || c.Step != 32 || math.Abs(c.Period-(90.080-0.096)/3) > 1e-9 || c.Gap != 5.984 {
		t.Errorf("%+v", c)
	}
	// Launches that overlap have a gap below 0.
	if c, err = analyse([][]stamp{launch(96, 6400), launch(5088, 6400)}, 2, 1); err != nil || c.Gap != -1.408 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := analyse([][]stamp{launch(96, 64)}, 2, 1); err == nil {
		t.Error("one launch is enough")
	}
}

// TestClockFields holds that a row shows clocks under names of their own, and none
// where there are none.
func TestClockFields(t *testing.T) {
	keys := func(c *Clocks) []string {
		data, err := json.Marshal(Row{}.Row("a", "h", Timing{Clocks: c}, nil))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		var out []string
		for k := range m {
			if strings.HasPrefix(k, "clock_") {
				out = append(out, k)
			}
		}
		return out
	}
	if k := keys(nil); len(k) != 0 {
		t.Errorf("%v", k)
	}
	if k := keys(&Clocks{}); len(k) != 17 || !slices.Contains(k, "clock_source") {
		t.Errorf("%d: %v", len(k), k)
	}
}
