package hopper

import (
	"context"
	"fmt"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// small are schedules that the interpreter runs quickly.
var small = map[string]struct {
	step int
	s    Schedule
}{
	"v0": {0, Schedule{M: 64, N: 64}}, "v1": {1, Schedule{M: 64, N: 64}}, "v2": {2, Schedule{M: 64, N: 64, Stages: 2}},
	"v3": {3, Schedule{M: 128, N: 64, Stages: 2}}, "v4": {4, Schedule{M: 128, N: 64, Stages: 3}},
	"v5": {5, Schedule{M: 128, N: 64, Stages: 3, Cluster: 2}}, "v5 ping-pong": {5, Schedule{M: 64, N: 64, Stages: 3, Cluster: 2, PingPong: true}},
	"v3 bf16":  {3, Schedule{Type: dtype.BF16, M: 128, N: 64, Stages: 2}},
	"v3 fp8":   {3, Schedule{Type: dtype.F8E4M3, Out: dtype.BF16, M: 128, N: 64, Stages: 2}},
	"v5 one":   {5, Schedule{M: 128, N: 64, Stages: 3, Cluster: 1, Group: 1}},
	"v5 early": {5, Schedule{M: 128, N: 64, Stages: 3, PDL: true}},
}

// problem is arguments of a program whose sums are exact, and the product.
func problem(t *testing.T, p *ir.Program, s Schedule, m, n, k int) ([]ir.Arg, *array.Array) {
	t.Helper()
	d, _ := s.fill(5)
	a, err := array.Generate(fmt.Sprintf("randint:%s[%d, %d]:seed=1:lo=-3:hi=3", d.Type, m, k))
	if err != nil {
		t.Fatal(err)
	}
	b, err := array.Generate(fmt.Sprintf("randint:%s[%d, %d]:seed=2:lo=-3:hi=3", d.Type, n, k))
	if err != nil {
		t.Fatal(err)
	}
	want := array.New(d.Out, m, n)
	x, y := a.Floats(), b.Floats()
	for i := range m {
		for j := range n {
			sum := 0.0
			for e := range k {
				sum += x[i*k+e] * y[j*k+e]
			}
			want.Set(sum, i, j)
		}
	}
	args := []ir.Arg{{Array: a}, {Array: b}, {Array: array.New(d.Out, m, n)}, {Int: int64(m)}, {Int: int64(n)}, {Int: int64(k)}}
	if p.Param("P") != nil {
		args = append(args, ir.Arg{Int: 4})
	}
	return args, want
}

func TestInterp(t *testing.T) {
	for name, c := range small {
		t.Run(name, func(t *testing.T) {
			p, err := Matmul(c.step, c.s)
			if err != nil {
				t.Fatal(err)
			}
			args, want := problem(t, p, c.s, 200, 168, 208)
			m, err := interp.New(p, args)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Run(context.Background()); err != nil {
				t.Fatalf("%v\n%s", err, text.Format(p))
			}
			if r := array.Compare(m.Args()[2].Array, want); r.Differ > 0 {
				t.Errorf("%+v", r)
			}
			if _, err := compile.Program(p, compile.Options{Arch: "sm_90a"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSim holds the simulator to the interpreter's results.
func TestSim(t *testing.T) {
	d, err := device.Open("sim:sm_90a")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, c := range small {
		t.Run(name, func(t *testing.T) {
			p, err := Matmul(c.step, c.s)
			if err != nil {
				t.Fatal(err)
			}
			args, want := problem(t, p, c.s, 136, 72, 144)
			res, err := d.Run(context.Background(), p, args)
			if err != nil {
				t.Fatal(err)
			}
			if r := array.Compare(res.Args[2].Array, want); r.Differ > 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}
