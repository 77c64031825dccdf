package hopper

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
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
	recordTo = flag.String("record", "", "write what TestGPULadder measured to this file, one JSON row a schedule")
	commit   = flag.String("commit", "", "commit that the test binary was built from")
	size     = flag.Int("size", 8192, "of the products that TestGPULadder times: [size, size]·[size, size]")
	only     = flag.String("only", "", "time this schedule only")
)

const howTo = "on a Hopper GPU: CGO_ENABLED=0 go test -c -o hopper.test ./gpu/gemm/hopper && ./hopper.test -test.run GPU -test.v -record ladder.json"

func openHopper(t *testing.T) (device.Device, *tune.GPU) {
	t.Helper()
	d, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, howTo)
	t.Cleanup(func() { d.Close() })
	if d.Describe().Arch != "sm_90a" {
		t.Skipf("%s is no Hopper GPU", d.Describe().Title)
	}
	g, err := tune.OpenGPU(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return d, g
}

// TestGPUSizes holds every step to exact products.
func TestGPUSizes(t *testing.T) {
	d, _ := openHopper(t)
	for name, c := range small {
		p, err := Matmul(c.step, c.s)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range [][3]int{{200, 168, 208}, {512, 512, 1024}} {
			args, want := problem(t, p, c.s, n[0], n[1], n[2])
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			res, err := d.Run(ctx, p, args)
			cancel()
			if err != nil {
				t.Fatalf("%s, %v: %v", name, n, err)
			}
			if r := array.Compare(res.Args[2].Array, want); r.Differ > 0 {
				t.Errorf("%s, %v: %+v", name, n, r)
			}
		}
	}
}

// timed are the schedules that are timed: the ladder, then variants of the last step.
var timed = []struct {
	name string
	step int
	s    Schedule
}{
	{"v0", 0, Schedule{M: 128, N: 128}}, {"v1", 1, Schedule{}}, {"v2", 2, Schedule{}}, {"v3", 3, Schedule{}}, {"v4", 4, Schedule{}}, {"v5", 5, Schedule{}},
	{"v5 ping-pong", 5, Schedule{M: 128, N: 128, PingPong: true, Parts: 2}}, {"v5 cluster", 5, Schedule{Cluster: 2}},
	{"v5", 5, Schedule{Type: dtype.BF16}}, {"v5 cluster", 5, Schedule{Type: dtype.BF16, Cluster: 2}},
	{"v5", 5, Schedule{Type: dtype.F8E4M3, Out: dtype.BF16}}, {"v5 cluster", 5, Schedule{Type: dtype.F8E4M3, Out: dtype.BF16, Cluster: 2}},
	{"group 4", 5, Schedule{Group: 4}}, {"group 6", 5, Schedule{Group: 6}}, {"group 12", 5, Schedule{Group: 12}}, {"2 parts of 3 stages", 5, Schedule{Stages: 3, Parts: 2}}, {"8 parts", 5, Schedule{Parts: 8}},
	{"group 4", 5, Schedule{Type: dtype.BF16, Group: 4}}, {"group 12", 5, Schedule{Type: dtype.BF16, Group: 12}},
}

// noise is an array of numbers around 0 whose products are nothing special.
func noise(t dtype.Type, seed uint64, shape ...int) *array.Array {
	a := array.New(t, shape...)
	r := rand.NewPCG(seed, 1)
	sign, exp := uint64(0x8000800080008000), uint64(0x3800380038003800)
	keep := uint64(0x03ff03ff03ff03ff)
	switch t {
	case dtype.BF16:
		exp, keep = 0x3f003f003f003f00, 0x007f007f007f007f
	case dtype.F8E4M3:
		sign, exp, keep = 0x8080808080808080, 0x3030303030303030, 0x0707070707070707
	}
	for i := 0; i+8 <= len(a.Data); i += 8 {
		x := r.Uint64()
		binary.LittleEndian.PutUint64(a.Data[i:], x&(sign|keep)|exp)
	}
	return a
}

// TestGPULadder times the steps on numbers of mixed signs and checks some of the sums
// against float64.
func TestGPULadder(t *testing.T) {
	d, g := openHopper(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	n := *size
	origin := tune.Origin(g, *commit)
	var rows []tune.Row
	type operands struct{ a, b *array.Array }
	data := map[dtype.Type]operands{}
	for _, c := range timed {
		if *only != "" && *only != c.name {
			continue
		}
		p, err := Matmul(c.step, c.s)
		if err != nil {
			t.Fatal(err)
		}
		s, _ := c.s.fill(c.step)
		x, ok := data[s.Type]
		if !ok {
			x = operands{noise(s.Type, 1, n, n), noise(s.Type, 2, n, n)}
			data[s.Type] = x
		}
		args := []ir.Arg{{Array: x.a}, {Array: x.b}, {Array: array.New(s.Out, n, n)}, {Int: int64(n)}, {Int: int64(n)}, {Int: int64(n)}}
		if p.Param("P") != nil {
			args = append(args, ir.Arg{Int: int64(132 / s.Cluster * s.Cluster)})
		}
		res, err := d.Run(ctx, p, args)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			break // the context may be lost
		}
		if far := spot(x.a, x.b, res.Args[2].Array); far > 1e-2 {
			t.Errorf("%s: sums are off by %g of the largest", c.name, far)
			continue
		}
		timing, err := tune.Time(ctx, g, p, args, tune.Options{Replays: 7, Launches: 4, WorkingSet: 1})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else {
			t.Logf("%-6s %-22s %9.1f µs, %6.1f TFLOP/s, %d registers, %d local, %d shared, jit %.0f ms, ours %.0f ms", s.Type, c.name, timing.Median, 2*math.Pow(float64(n), 3)/timing.Median/1e6, timing.Registers, timing.LocalBytes, timing.SharedBytes, timing.JITMs, timing.CompileMs)
		}
		rows = append(rows, origin.Row(fmt.Sprintf("matmul_hopper %s %s %d", c.name, s.Type, n), tune.Hash(p), timing, err))
	}
	if *recordTo != "" {
		if err := tune.WriteRows(*recordTo, rows); err != nil {
			t.Fatal(err)
		}
	}
}

// spot compares some sums with float64 ones, as a part of the largest.
func spot(a, b, c *array.Array) float64 {
	r := rand.New(rand.NewPCG(3, 4))
	far, most := 0.0, 0.0
	k := a.Shape[1]
	for range 300 {
		i, j := r.IntN(c.Shape[0]), r.IntN(c.Shape[1])
		sum := 0.0
		for e := range k {
			sum += a.At(i, e) * b.At(j, e)
		}
		far, most = max(far, math.Abs(sum-c.At(i, j))), max(most, math.Abs(sum))
	}
	return far / most
}
