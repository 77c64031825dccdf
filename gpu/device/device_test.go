package device

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

const scale = `program scale<(n + 31)/32>(x: *f32, y: *f32, n: i32, by: f32, twice: bool) warps=1 {
	i = BlockIndices()
	gx = ViewGlobal(x) : global f32[n]
	gy = ViewGlobal(y) : global f32[n]
	r = LoadGlobal(gx, offset=[i*32]) : register f32[32] spatial(32)
	r = Mul(r, by) : register f32[32] spatial(32)
	if twice {
		r = Mul(r, by) : register f32[32] spatial(32)
	}
	StoreGlobal(gy, r, offset=[i*32])
}
`

func program(t *testing.T, src string) *ir.Program {
	t.Helper()
	p, err := text.Parse("t.tile", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// each runs f on every device of this machine.
func each(t *testing.T, f func(t *testing.T, d Device)) {
	for _, name := range []string{"interp", "sim", "sim:sm_80", "cuda"} {
		t.Run(name, func(t *testing.T) {
			d, err := Open(name)
			if errors.Is(err, ErrNoGPU) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			f(t, d)
		})
	}
}

func TestScalarsAndResults(t *testing.T) {
	p := program(t, scale)
	each(t, func(t *testing.T, d Device) {
		x, _ := array.Generate("iota:f32[50]")
		y := array.New(x.Type, 50)
		for twice, want := range []float64{73.5, 110.25} {
			res, err := d.Run(context.Background(), p, []ir.Arg{{Array: x}, {Array: y}, {Int: 50}, {Float: 1.5}, {Int: int64(twice)}})
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Args[1].Array.At(49); got != want {
				t.Errorf("y[49] = %v, want %v", got, want)
			}
			if y.At(49) != 0 || res.Args[1].Array == y {
				t.Error("the caller's array changed")
			}
			if res.Device != d.Name() || d.Describe().Name != d.Name() {
				t.Errorf("device is %q in the result, %q by name", res.Device, d.Name())
			}
		}
	})
}

func TestAliasedArgumentsStayAliased(t *testing.T) {
	p := program(t, scale)
	each(t, func(t *testing.T, d Device) {
		x, _ := array.Generate("ones:f32[32]")
		res, err := d.Run(context.Background(), p, []ir.Arg{{Array: x}, {Array: x}, {Int: 32}, {Float: 3}, {}})
		if err != nil {
			t.Fatal(err)
		}
		if res.Args[0].Array != res.Args[1].Array || res.Args[0].Array.At(5) != 3 {
			t.Errorf("got %v and %v", res.Args[0].Array, res.Args[1].Array)
		}
	})
}

// A wrong launch is the same located error everywhere.
func TestWrongLaunch(t *testing.T) {
	p := program(t, scale)
	x, _ := array.Generate("ones:f32[31]")
	want := "t.tile:3:7: gx views [32] of f32, 32 elements; argument x has 31 [Run.E2]"
	each(t, func(t *testing.T, d Device) {
		_, err := d.Run(context.Background(), p, []ir.Arg{{Array: x}, {Array: x}, {Int: 32}, {Float: 3}, {}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

func TestCancel(t *testing.T) {
	p := program(t, "program spin<1>(n: i32) warps=1 {\n\ti = 0\n\twhile n >= i {\n\t\ti = i*0\n\t}\n}\n")
	for _, name := range []string{"interp", "sim"} {
		d, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		best := time.Hour
		for n := 0; n < 8 && best > 4*50*time.Millisecond; n++ { // the machine may be busy with something else
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
			start := time.Now()
			_, err = d.Run(ctx, p, []ir.Arg{{Int: 1}})
			best = min(best, time.Since(start))
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if best > 4*50*time.Millisecond {
			t.Errorf("%s ended after %v", name, best)
		}
	}
}

// TestOutside says which index of a bulk copy lies outside its tensor.
func TestOutside(t *testing.T) {
	d, err := Open("sim")
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Run(t.Context(), program(t, corpus.Program("bugs/hopper_bulk_outside")), []ir.Arg{{Array: array.New(dtype.F32, 6, 64)}, {Array: array.New(dtype.F32, 6, 64)}, {Int: 6}})
	const want = "t.tile:10:3: thread 0 of block (1, 0, 0): check.index: index 7 lies outside the tensor, whose extent there is 6 [Sim.E1]\n\thelp: leave out what lies outside, by if "
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestConcurrentRuns(t *testing.T) {
	p := program(t, scale)
	each(t, func(t *testing.T, d Device) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				x, _ := array.Generate("ones:f32[64]")
				res, err := d.Run(context.Background(), p, []ir.Arg{{Array: x}, {Array: array.New(x.Type, 64)}, {Int: 64}, {Float: float64(i)}, {}})
				if err != nil || res.Args[1].Array.At(63) != float64(i) {
					t.Errorf("run %d: %v", i, err)
				}
			}()
		}
		wg.Wait()
	})
}

func TestOpen(t *testing.T) {
	for name, want := range map[string]string{"smi": "did you mean sim?", "sim:sm_70": "no target", "cuda:x": "no GPU number", "cuda:sm_70": "no target"} {
		if _, err := Open(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s): %v", name, err)
		}
	}
	d, err := Open("auto")
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	if n := len(Available()); n < 2 {
		t.Errorf("%d devices", n)
	}
}
