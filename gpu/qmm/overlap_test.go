package qmm

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// expanded are the programs of [Expand] for a layer and m rows.
func expanded(t *testing.T, l Linear, m int) (expand, product *ir.Program) {
	t.Helper()
	expand, err := template.Expand(l.Form())
	if err != nil {
		t.Fatal(err)
	}
	if product, err = Plain(l.ActType, m, l.N, template.H200().SMs); err != nil {
		t.Fatal(err)
	}
	return expand, product
}

// TestExpandOverlaps holds the programs of [Expand] to what lets launches of many layers
// overlap: two memories in turn for the plain weights are enough, whatever the layers, and one is
// not, unless products do not ask for the next launch.
func TestExpandOverlaps(t *testing.T) {
	var layers []Linear
	for _, w := range []dtype.Type{dtype.U4, dtype.F6E3M2, dtype.U8} {
		l, err := Linear{WeightType: w, Group: 128, N: 256, K: 256, ZeroPoint: w == dtype.U8}.Check()
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, l)
	}
	sequence := func(m, memories int) []tune.Launch {
		var out []tune.Launch
		var plain []*array.Array
		for range memories {
			plain = append(plain, array.New(dtype.F16, 256, 256))
		}
		x := array.New(dtype.F16, m, 256)
		for i := range 9 {
			l := layers[i%len(layers)]
			p, err := template.PlanOf(l.Form())
			if err != nil {
				t.Fatal(err)
			}
			expand, product := expanded(t, l, m)
			args := arrays(array.New(dtype.U8, p.PackedShape(l.N, l.K)...), array.New(l.ScaleType, p.Groups(l.K), p.Padded(l.N)))
			if l.ZeroPoint {
				args = append(args, arrays(array.New(p.ZeroType(), p.Groups(l.K), p.Padded(l.N)))...)
			}
			y := array.New(dtype.F16, m, 256)
			out = append(out, tune.Launch{Program: expand, Args: sizes(append(args, arrays(plain[i%memories])...), l.N, l.K)},
				tune.Launch{Program: product, Args: sizes(arrays(x, plain[i%memories], y), m, l.N, l.K, 132)})
			x = y // the next layer's
		}
		return out
	}
	const asks, waits = 6400, 512 // rows of x; of those 100 tiles, and 8, of which most multiprocessors have none
	for _, c := range []struct{ m, memories int }{{asks, 2}, {waits, 2}, {waits, 1}} {
		if err := tune.Overlap(sequence(c.m, c.memories)); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := tune.Overlap(sequence(asks, 1)); err == nil || !strings.Contains(err.Error(), "uses y before it waits for launch 1, matmul_hopper_v5, which has the same memory as b") {
		t.Errorf("with one memory: %v", err)
	}
}

// TestPlainAsks holds which products let weights be expanded beside their last tiles.
func TestPlainAsks(t *testing.T) {
	for _, c := range []struct {
		m, n int
		asks bool
	}{
		{4096, 8192, true},   // 100 tiles in the last of 8 waves, of 132
		{2048, 10240, true},  // 112 in the last of 5
		{4608, 8192, false},  // 96 in the last of 9
		{2048, 8192, false},  // 116: few are idle
		{4224, 8192, false},  // 132: none
		{12288, 8192, false}, // 36: most are idle
		{2048, 57344, false}, // 20
	} {
		if got := plainSchedule(dtype.F16, c.m, c.n, 132).PDL; got != c.asks {
			t.Errorf("%d rows of %d outputs: %v", c.m, c.n, got)
		}
	}
}

// TestGPUExpandOverlap holds every product of many that overlap, of two layers and two x in turn,
// to the bits that it has alone. Each of two memories holds the weights of one layer after those of
// the other, so that a product which begins too early, or whose weights are stored over, is seen.
func TestGPUExpandOverlap(t *testing.T) {
	q, err := device.NewQueue("cuda")
	need.GPU(t, err, device.ErrNoGPU, "on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUExpandOverlap -test.v")
	defer q.Close()
	for _, c := range []struct {
		w       dtype.Type
		m, n, k int
		runs    int
	}{
		{dtype.U4, 4096, 8192, 8192, 6},
		{dtype.F6E3M2, 4096, 8192, 8192, 6},
		{dtype.U8, 896, 8192, 8192, 20},  // products as short as what they multiply takes to be made
		{dtype.U1, 768, 2048, 4096, 100}, // 96 tiles: others have nothing to multiply
		{dtype.U3, 2944, 2304, 1024, 100},
	} {
		t.Run(fmt.Sprintf("%s_%d_%d_%d", c.w, c.m, c.n, c.k), func(t *testing.T) {
			l, err := Linear{WeightType: c.w, Group: 128, N: c.n, K: c.k}.Check()
			if err != nil {
				t.Fatal(err)
			}
			expandOverlap(t, q, l, c.m, c.runs)
		})
	}
}

// around is numbers of f16 of both signs and one exponent.
func around(seed uint64, exponent uint16, shape ...int) *array.Array {
	a := array.New(dtype.F16, shape...)
	r := rand.NewPCG(seed, 5)
	for i := range a.Len() {
		binary.LittleEndian.PutUint16(a.Data[2*i:], uint16(r.Uint64())&0x83ff|exponent)
	}
	return a
}

func expandOverlap(t *testing.T, q *device.Queue, l Linear, m, runs int) {
	if !plainSchedule(l.ActType, m, l.N, template.H200().SMs).PDL {
		t.Fatal("nothing overlaps: the product does not ask for the next launch")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	expand, product := expanded(t, l, m)
	p, err := template.PlanOf(l.Form())
	if err != nil {
		t.Fatal(err)
	}
	buffer := func(name string, a *array.Array) *device.Buffer {
		b, err := q.NewBuffer(name, a.Type, a.Len())
		if err == nil {
			t.Cleanup(func() { b.Close() })
			err = b.Write(a)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// step is one product: what makes its weights plain, and the product.
	step := func(layer [3]*device.Buffer, plain, y *device.Buffer) []device.Call {
		n, k := device.Value{Int: int64(l.N)}, device.Value{Int: int64(l.K)}
		return []device.Call{
			{Program: expand, Args: []device.Value{{Buffer: layer[0]}, {Buffer: layer[1]}, {Buffer: plain}, n, k}},
			{Program: product, Args: []device.Value{{Buffer: layer[2]}, {Buffer: plain}, {Buffer: y}, {Int: int64(m)}, n, k, {Int: int64(template.H200().SMs)}}},
		}
	}
	var memories [2]*device.Buffer
	for i := range memories {
		memories[i] = buffer(fmt.Sprint("plain", i), array.New(l.ActType, l.N, l.K))
	}
	y := array.New(l.ActType, m, l.N)
	var layers [2][3]*device.Buffer
	var want [2]*array.Array
	for i := range layers {
		seed := uint64(10 * (i + 1))
		w := array.New(dtype.U8, p.PackedShape(l.N, l.K)...)
		rand.NewChaCha8([32]byte{byte(seed)}).Read(w.Data)
		layers[i] = [3]*device.Buffer{buffer("w", w), buffer("s", around(seed+1, 0x2800, p.Groups(l.K), p.Padded(l.N))), buffer("x", around(seed+2, 0x3800, m, l.K))}
		alone := buffer("y", y)
		for _, c := range step(layers[i], memories[i], alone) {
			x, err := q.Launch(c.Program, c.Args...)
			if err == nil {
				err = x.Wait(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		want[i] = y.Clone()
		if err := alone.Read(want[i]); err != nil {
			t.Fatal(err)
		}
	}
	if r := array.Compare(want[0], want[1]); r.Differ < r.N/2 {
		t.Fatalf("of %d elements %d differ: the layers cannot be told apart", r.N, r.Differ)
	}
	order := []int{0, 1, 1, 0, 0, 1, 1, 0}
	var calls []device.Call
	var ys []*device.Buffer
	for i, layer := range order {
		ys = append(ys, buffer("y", y))
		calls = append(calls, step(layers[layer], memories[i%2], ys[i])...)
	}
	g, err := q.NewGraph("products", calls...)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	got := y.Clone()
	for run := range runs {
		x, err := g.Launch()
		if err == nil {
			err = x.Wait(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, layer := range order {
			if err := ys[i].Read(got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Data, want[layer].Data) {
				r := array.Compare(got, want[layer])
				t.Fatalf("run %d, product %d: %d of %d elements are not those of the product alone, first %v", run, i, r.Differ, r.N, r.First)
			}
			if err := ys[i].Write(y); err != nil { // with zeros
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d products are what they are alone", runs*len(order))
}
