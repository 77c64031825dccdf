package parallel

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// elements of each rank's part of a collective: no power of two, more than a block's share.
const elements = 100_002

// reductions with what they mean.
var reductions = []struct {
	name string
	op   cuda.Reduction
	join func(t dtype.Type, a, b uint64) uint64
}{
	{"sum", cuda.Sum, dtype.Add}, {"product", cuda.Product, dtype.Mul}, {"maximum", cuda.Maximum, dtype.Max}, {"minimum", cuda.Minimum, dtype.Min},
}

var elems = []struct {
	t    dtype.Type
	elem cuda.Elem
}{
	{dtype.I8, cuda.ElemI8}, {dtype.U8, cuda.ElemU8}, {dtype.I32, cuda.ElemI32}, {dtype.F16, cuda.ElemF16}, {dtype.BF16, cuda.ElemBF16}, {dtype.F32, cuda.ElemF32}, {dtype.F64, cuda.ElemF64},
}

// exchanges are what TestGPUExchange does, by name.
func exchanges(ranks int) map[string]string {
	out := map[string]string{}
	for _, e := range elems {
		for _, name := range []string{"all-reduce", "all-gather", "reduce-scatter", "broadcast"} {
			out[fmt.Sprintf("%s %s on %d", name, e.t, ranks)] = fmt.Sprint("n=", elements)
		}
	}
	for _, name := range []string{"peer copies", "launches across"} {
		out[fmt.Sprintf("%s on %d", name, ranks)] = fmt.Sprint("n=", elements)
	}
	return out
}

// group is a primary context, a stream and memory on each of the GPUs.
type group struct {
	t      *testing.T
	ctx    []*cuda.Context
	stream []*cuda.Stream
	ranks  *cuda.Ranks
}

// fill copies an array to each rank.
func (g *group) fill(in func(rank int) *array.Array) []cuda.Ptr {
	out := make([]cuda.Ptr, len(g.ctx))
	for i, c := range g.ctx {
		a := in(i)
		p, err := c.Alloc(len(a.Data))
		if err == nil {
			err = c.CopyIn(p, a.Data)
		}
		if err != nil {
			g.t.Fatal(err)
		}
		g.t.Cleanup(func() { c.Free(p) })
		out[i] = p
	}
	return out
}

// differ counts the elements of all ranks that are not as they must be.
func (g *group) differ(at []cuda.Ptr, want func(rank int) *array.Array) (differ, of int) {
	for i, c := range g.ctx {
		if err := g.stream[i].Synchronize(); err != nil {
			g.t.Fatal(err)
		}
		w := want(i)
		got := array.New(w.Type, w.Shape...)
		if err := c.CopyOut(got.Data, at[i]); err != nil {
			g.t.Fatal(err)
		}
		differ, of = differ+array.Compare(got, w).Differ, of+w.Len()
	}
	return differ, of
}

// part is elements [from, to) of an array of whole bytes.
func part(a *array.Array, from, to int) *array.Array {
	n := a.Type.Bits() / 8
	out := array.New(a.Type, to-from)
	copy(out.Data, a.Data[from*n:to*n])
	return out
}

// collectives runs each collective of NCCL on each type and holds it to its definition; values
// are small integers, whose sums are exact in any order.
func collectives(t *testing.T, driver *cuda.Driver, nccl *cuda.NCCL, n int, tell func(name string, differ, of int, took time.Duration)) {
	g := &group{t: t}
	for i := range n {
		c, err := driver.PrimaryContext(i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		s, err := c.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		g.ctx, g.stream = append(g.ctx, c), append(g.stream, s)
	}
	var err error
	if g.ranks, err = nccl.Join(g.stream); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.ranks.Close() })
	for _, e := range elems {
		in := make([]*array.Array, n)
		for i := range in {
			lo := -2
			if !e.t.Signed() {
				lo = 0
			}
			in[i] = generate(t, "randint:%s[%d]:lo=%d:hi=3:seed=%d", e.t, elements*n, lo, 7+i)
		}
		given := func(i int) *array.Array { return in[i] }
		zeros := func(int) *array.Array { return array.New(e.t, elements*n) }
		run := func(name string, work func(send, recv []cuda.Ptr) error, want func(rank int) *array.Array) {
			send, recv := g.fill(given), g.fill(zeros)
			start := time.Now()
			if err := work(send, recv); err != nil {
				t.Fatalf("%s %s: %v", name, e.t, err)
			}
			for _, s := range g.stream {
				if err := s.Synchronize(); err != nil {
					t.Fatalf("%s %s: %v", name, e.t, err)
				}
			}
			took := time.Since(start)
			differ, of := g.differ(recv, want)
			tell(fmt.Sprintf("%s %s on %d", name, e.t, n), differ, of, took)
		}
		joined := func(join func(t dtype.Type, a, b uint64) uint64) *array.Array {
			out := in[0].Clone()
			for _, a := range in[1:] {
				for k := range out.Len() {
					out.SetCode(k, join(e.t, out.Code(k), a.Code(k)))
				}
			}
			return out
		}
		differ, of := 0, 0
		for _, r := range reductions { // one row for all
			want := joined(r.join)
			send, recv := g.fill(given), g.fill(zeros)
			if err := g.ranks.AllReduce(send, recv, elements*n, e.elem, r.op); err != nil {
				t.Fatalf("all-reduce %s %s: %v", e.t, r.name, err)
			}
			d, o := g.differ(recv, func(int) *array.Array { return want })
			if d > 0 {
				t.Errorf("all-reduce %s %s: %d of %d differ", e.t, r.name, d, o)
			}
			differ, of = differ+d, of+o
		}
		buffers := g.fill(given)
		start := time.Now()
		for range 20 { // in place
			if err := g.ranks.AllReduce(buffers, buffers, elements*n, e.elem, cuda.Maximum); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range g.stream {
			if err := s.Synchronize(); err != nil {
				t.Fatal(err)
			}
		}
		tell(fmt.Sprintf("all-reduce %s on %d", e.t, n), differ, of, time.Since(start)/20)
		run("all-gather", func(send, recv []cuda.Ptr) error { return g.ranks.AllGather(send, recv, elements, e.elem) }, func(int) *array.Array {
			out := array.New(e.t, elements*n)
			for i, a := range in {
				copy(out.Data[i*elements*e.t.Bits()/8:], part(a, 0, elements).Data)
			}
			return out
		})
		sum := joined(dtype.Add)
		run("reduce-scatter", func(send, recv []cuda.Ptr) error {
			return g.ranks.ReduceScatter(send, recv, elements, e.elem, cuda.Sum)
		}, func(rank int) *array.Array { return part(sum, rank*elements, (rank+1)*elements) })
		run("broadcast", func(send, recv []cuda.Ptr) error {
			return g.ranks.Broadcast(send, recv, elements*n, e.elem, n-1)
		}, func(int) *array.Array { return in[n-1] })
	}
}

const doubles = `program double<(N+255)/256>(x: *f32, y: *f32, N: i32) warps=8 {
	b = BlockIndices()
	gx = ViewGlobal(x) : global f32[N]
	gy = ViewGlobal(y) : global f32[N]
	v = LoadGlobal(gx, offset=[b*256]) : register f32[256] spatial(256)
	w = Add(v, v) : register f32[256] spatial(256)
	StoreGlobal(gy, w, offset=[b*256])
}
`

// queues copies buffers between the queues of all GPUs in both directions, and has launches of one wait for marks
// of the one before without the host.
func queues(t *testing.T, n int, tell func(name string, differ, of int, took time.Duration)) {
	p, err := text.Parse("double.tile", doubles, nil)
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		q    *device.Queue
		x, y *device.Buffer
	}
	places := make([]place, n)
	for i := range places {
		q, err := device.NewQueue(fmt.Sprintf("cuda:%d", i))
		if err != nil {
			t.Fatal(err)
		}
		x, errX := q.NewBuffer(fmt.Sprintf("x%d", i), dtype.F32, elements)
		y, errY := q.NewBuffer(fmt.Sprintf("y%d", i), dtype.F32, elements)
		if err := errors.Join(errX, errY); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(x.Close(), y.Close(), q.Close()); err != nil {
				t.Error(err)
			}
		})
		places[i] = place{q, x, y}
	}
	double := func(k place, p *ir.Program, from, to *device.Buffer) *device.Pending {
		x, err := k.q.Launch(p, device.Value{Buffer: from}, device.Value{Buffer: to}, device.Value{Int: elements})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	a := generate(t, "randint:f32[%d]:lo=-99:hi=99:seed=5", elements)
	read := func(b *device.Buffer) *array.Array {
		got := array.New(dtype.F32, elements)
		if err := b.Read(got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	// Around all GPUs and back; each doubles once.
	want := a.Clone()
	if err := places[0].x.Write(a); err != nil {
		t.Fatal(err)
	}
	differ, of := 0, 0
	start := time.Now()
	for i := range n + 1 {
		here, next := places[i%n], places[(i+1)%n]
		double(here, p, here.x, here.y)
		if err := here.y.CopyTo(next.x); err != nil { // waits for the launch
			t.Fatal(err)
		}
		for k := range elements {
			want.Set(2*want.At(k), k)
		}
	}
	took := time.Since(start) / time.Duration(n+1)
	differ += array.Compare(read(places[(n+1)%n].x), want).Differ
	of += elements
	tell(fmt.Sprintf("peer copies on %d", n), differ, of, took)

	// All GPUs work at once; the last one's launch waits for marks in the others' queues.
	differ, of = 0, 0
	last := places[n-1]
	start = time.Now()
	for round := range 10 {
		for _, k := range places {
			if err := k.x.Write(a); err != nil {
				t.Fatal(err)
			}
		}
		var marks []*device.Mark
		for _, k := range places {
			for range 5 {
				double(k, p, k.x, k.y)
				double(k, p, k.y, k.x)
			}
			m, err := k.q.Mark()
			if err != nil {
				t.Fatal(err)
			}
			if err := last.q.WaitFor(m); err != nil {
				t.Fatal(err)
			}
			marks = append(marks, m)
		}
		x := double(last, p, last.x, last.y)
		if err := x.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		for i, m := range marks { // reached, since the launch behind them has ended
			if err := m.Wait(context.Background()); err != nil {
				t.Errorf("round %d, GPU %d: %v", round, i, err)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		for i, k := range places {
			b, times := k.x, 1024.
			if i == n-1 {
				b, times = k.y, 2048
			}
			got := read(b)
			for j := range elements {
				if of++; got.At(j) != times*a.At(j) {
					differ++
				}
			}
		}
	}
	tell(fmt.Sprintf("launches across on %d", n), differ, of, time.Since(start)/10)
}

// TestExchange tries what TestGPUs needs of data and programs.
func TestExchange(t *testing.T) {
	p, err := text.Parse("double.tile", doubles, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := generate(t, "randint:f32[%d]:lo=-99:hi=99:seed=5", 1000)
	sim, err := device.Open("sim")
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Run(t.Context(), p, []ir.Arg{{Array: a}, {Array: array.New(dtype.F32, 1000)}, {Int: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Args[1].Array; got.At(999) != 2*a.At(999) || a.At(999) == 0 {
		t.Errorf("double %v is %v", a.At(999), got.At(999))
	}
	for _, e := range elems {
		lo := -2
		if !e.t.Signed() {
			lo = 0
		}
		b := generate(t, "randint:%s[%d]:lo=%d:hi=3:seed=%d", e.t, 64, lo, 7)
		if x := part(b, 3, 9); x.At(0) != b.At(3) || x.Len() != 6 {
			t.Errorf("%s: a part is %v", e.t, x)
		}
		for _, r := range reductions { // exact, so that the order of ranks does not matter
			if x, y := b.Code(5), b.Code(9); r.join(e.t, x, y) != r.join(e.t, y, x) {
				t.Errorf("%s %s", e.t, r.name)
			}
		}
	}
}
