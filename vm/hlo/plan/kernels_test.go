package plan

import (
	"math"
	"slices"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
	"github.com/tilus-lab/tilus-lab/vm/hlo/rand"
)

func parse(t *testing.T, body string) *hlo.Module {
	t.Helper()
	m, err := hlo.Parse("test", "HloModule m\n"+body)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func planned(t *testing.T, m *hlo.Module) *Plan {
	t.Helper()
	p, err := New(m.Entry, device(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func arguments(c *hlo.Computation) []*array.Array {
	var args []*array.Array
	for _, p := range c.Params {
		a := array.New(p.Shape.Type.Elem(), append([]int{}, p.Shape.Dims...)...)
		for k := range a.Len() {
			switch v := (k*7+p.Number)%11 - 5; {
			case p.Shape.Type == hlo.Pred:
				a.SetCode(k, uint64(k)&1)
			case p.Shape.Type.IsFloat():
				a.SetCode(k, a.Type.Encode(float64(v)/4, false))
			default:
				a.SetCode(k, a.Type.EncodeInt(int64(v), false))
			}
		}
		args = append(args, a)
	}
	return args
}

// run computes a plan kernel by kernel with the definition of each part.
func run(t *testing.T, p *Plan, args []*array.Array) []*array.Array {
	t.Helper()
	values := make([]*array.Array, len(p.Buffers))
	copy(values, args)
	for i, b := range p.Buffers {
		if b.Value != nil {
			values[i] = b.Value
		}
	}
	for _, k := range p.Kernels {
		var in []*array.Array
		for _, a := range k.Args {
			if values[a] == nil {
				t.Fatalf("%s reads %s before it is written", k.Computation.Name, p.Buffers[a].Name)
			}
			in = append(in, values[a])
		}
		out, err := eval.Computation(k.Computation, in)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) != len(k.Results) {
			t.Fatalf("%s gives %d arrays for %d buffers", k.Computation.Name, len(out), len(k.Results))
		}
		for i, r := range k.Results {
			if !slices.Equal(out[i].Shape, p.Buffers[r].Shape.Dims) || out[i].Type != p.Buffers[r].Shape.Type.Elem() {
				t.Fatalf("%s writes %v into %v", k.Computation.Name, out[i].Shape, p.Buffers[r].Shape)
			}
			values[r] = out[i]
		}
	}
	return values[len(args):]
}

// TestKernelsComputeTheFusion: the kernels in order over the buffers are the computation.
func TestKernelsComputeTheFusion(t *testing.T) {
	n := 400
	if testing.Short() {
		n = 80
	}
	several := 0
	for seed := range n {
		m, err := rand.Fusion(uint64(seed)+500, rand.Options{Elements: 2048, Exact: true, Wide: seed%2 == 1})
		if err != nil {
			t.Fatal(err)
		}
		p := planned(t, m)
		if len(p.Kernels) > 1 {
			several++
		}
		args := arguments(m.Entry)
		want, err := eval.Run(m, args)
		if err != nil {
			t.Fatal(err)
		}
		got := run(t, p, args)
		for i, w := range want {
			if got[i] == nil || array.Compare(got[i], w).Differ > 0 {
				t.Fatalf("seed %d: result %d differs\n%s", seed, i, hlo.Format(m))
			}
		}
	}
	if several == 0 {
		t.Error("no plan of the sample has several kernels")
	}
}

const sumF32 = `
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] maximum(a, b)
}
`

const softmaxText = sumF32 + `
ENTRY e {
  p0 = bf16[300,4096] parameter(0)
  x = f32[300,4096] convert(p0)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = f32[300] reduce(x, low), dimensions={1}, to_apply=max
  tops = f32[300,4096] broadcast(top), dimensions={0}
  y = f32[300,4096] subtract(x, tops)
  z = f32[300,4096] exponential(y)
  total = f32[300] reduce(z, zero), dimensions={1}, to_apply=sum
  totals = f32[300,4096] broadcast(total), dimensions={0}
  w = f32[300,4096] divide(z, totals)
  ROOT r = bf16[300,4096] convert(w)
}`

func TestSoftmaxIsOneKernel(t *testing.T) {
	p := planned(t, parse(t, softmaxText))
	if len(p.Kernels) != 1 || p.Kernels[0].Emitter != OnePassEmitter {
		t.Fatalf("%d kernels, the first %s %v", len(p.Kernels), p.Kernels[0].Emitter, p.Kernels[0].Why)
	}
	k := p.Kernels[0]
	names := func(list []*hlo.Instruction) (out []string) {
		for _, in := range list {
			out = append(out, in.Name)
		}
		return out
	}
	want := []struct{ held, reduces []string }{{[]string{"x"}, []string{"top"}}, {[]string{"z"}, []string{"total"}}, {}}
	if len(k.Stages) != len(want) {
		t.Fatalf("%d stages", len(k.Stages))
	}
	for i, s := range k.Stages {
		if !slices.Equal(names(s.Held), want[i].held) || !slices.Equal(names(s.Reduces), want[i].reduces) {
			t.Errorf("stage %d holds %v and reduces %v", i, names(s.Held), names(s.Reduces))
		}
	}
	if k.Vector != 8 {
		t.Errorf("vectors of %d", k.Vector)
	}
	bijective(t, "softmax", k)
}

// TestLayerNorm: two sums of one walk, parameters along the row, and a narrow result beside.
func TestLayerNorm(t *testing.T) {
	p := planned(t, parse(t, sumF32+`
ENTRY e {
  x = f32[64,1000] parameter(0)
  gamma = f32[1000] parameter(1)
  zero = f32[] constant(0)
  n = f32[] constant(1000)
  ns = f32[64] broadcast(n), dimensions={}
  sq = f32[64,1000] multiply(x, x)
  s1 = f32[64] reduce(x, zero), dimensions={1}, to_apply=sum
  s2 = f32[64] reduce(sq, zero), dimensions={1}, to_apply=sum
  mean = f32[64] divide(s1, ns)
  mm = f32[64] multiply(mean, mean)
  m2 = f32[64] divide(s2, ns)
  var = f32[64] subtract(m2, mm)
  inv = f32[64] rsqrt(var)
  means = f32[64,1000] broadcast(mean), dimensions={0}
  invs = f32[64,1000] broadcast(inv), dimensions={0}
  gs = f32[64,1000] broadcast(gamma), dimensions={1}
  c = f32[64,1000] subtract(x, means)
  d = f32[64,1000] multiply(c, invs)
  y = f32[64,1000] multiply(d, gs)
  ROOT t = (f32[64,1000], f32[64]) tuple(y, mean)
}`))
	k := p.Kernels[0]
	if len(p.Kernels) != 1 || k.Emitter != OnePassEmitter || len(k.Stages) != 2 || len(k.Stages[0].Reduces) != 2 {
		t.Fatalf("%d kernels: %s, %d stages: %v", len(p.Kernels), k.Emitter, len(k.Stages), k.Why)
	}
	bijective(t, "layer norm", k)
}

func TestSplitsFillTheDevice(t *testing.T) {
	for _, c := range []struct {
		name, text, emitter string
	}{
		{"tall column", "x = f32[20000,512] parameter(0)\n  ROOT r = f32[512] reduce(x, z), dimensions={0}, to_apply=max", ColumnSplitEmitter},
		{"narrow column", "x = f32[20000,8] parameter(0)\n  ROOT r = f32[8] reduce(x, z), dimensions={0}, to_apply=max", ColumnSplitEmitter},
		{"odd column", "x = f32[5003,77] parameter(0)\n  ROOT r = f32[77] reduce(x, z), dimensions={0}, to_apply=max", ColumnSplitEmitter},
		{"to a scalar", "x = f32[3000001] parameter(0)\n  ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=max", RowSplitEmitter},
		{"few rows", "x = f32[3,100000] parameter(0)\n  ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=max", RowSplitEmitter},
		{"rows of many planes", "x = f32[40,3,9000] parameter(0)\n  ROOT r = f32[3] reduce(x, z), dimensions={0,2}, to_apply=max", RowSplitEmitter},
		{"many rows", "x = f32[3000,1000] parameter(0)\n  ROOT r = f32[3000] reduce(x, z), dimensions={1}, to_apply=max", RowEmitter},
	} {
		p := planned(t, parse(t, sumF32+"ENTRY e {\n  z = f32[] constant(0)\n  "+c.text+"\n}"))
		k := p.Kernels[0]
		if len(p.Kernels) != 1 || k.Emitter != c.emitter {
			t.Errorf("%s: %d kernels, %s %v", c.name, len(p.Kernels), k.Emitter, k.Why)
			continue
		}
		if k.Chunks > 1 && (len(k.Work) != 2 || k.Blocks[0]*k.Blocks[1] < 32) {
			t.Errorf("%s: work %v, grid %v", c.name, k.Work, k.Blocks)
		}
		bijective(t, c.name, k, "thread_to_reduction_input")
		if k.Emitter == RowSplitEmitter {
			bijective(t, c.name, k)
		}
	}
}

func TestScatterPlans(t *testing.T) {
	text := func(ty, rows, attrs string) string {
		return `
sum {
  a = ` + ty + `[] parameter(0)
  b = ` + ty + `[] parameter(1)
  ROOT s = ` + ty + `[] add(a, b)
}
ENTRY e {
  i = s32[65536,1] parameter(0)
  u = ` + ty + `[65536,1,64] parameter(1)
  zero = ` + ty + `[] constant(0)
  x = ` + ty + `[` + rows + `,64] broadcast(zero), dimensions={}
  ROOT s = ` + ty + `[` + rows + `,64] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum` + attrs + `
}`
	}
	for _, c := range []struct {
		ty, rows, attrs string
		kernels, lanes  int
		f32             bool
	}{
		{"f32", "65536", ", unique_indices=true", 2, 0, false},
		{"f32", "65536", "", 2, 4, false},
		{"bf16", "65536", "", 2, 8, false},
		{"bf16", "1024", "", 3, 4, true},
	} {
		m := parse(t, text(c.ty, c.rows, c.attrs))
		p := planned(t, m)
		var k *Kernel
		for _, x := range p.Kernels {
			if x.Emitter == ScatterEmitter {
				k = x
			}
		}
		if k == nil || len(p.Kernels) != c.kernels || k.AtomicLanes != c.lanes {
			t.Errorf("%+v: %d kernels: %+v", c, len(p.Kernels), k)
			continue
		}
		if wide := k.Heroes[0].Shape.Type == hlo.F32 && c.ty != "f32"; wide != c.f32 {
			t.Errorf("%+v: adds in %s", c, k.Heroes[0].Shape.Type)
		}
		if !slices.Contains(k.Args, k.Results[0]) {
			t.Errorf("%+v: not in place: %v %v", c, k.Args, k.Results)
		}
	}
	// The rewritten one computes the same up to rounding, better.
	m := parse(t, text("bf16", "1024", ""))
	args := arguments(m.Entry)
	for k := range args[0].Len() {
		args[0].SetCode(k, uint64(k%1024))
	}
	got := run(t, planned(t, m), args)[0]
	want, err := eval.Run(m, args)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got.Len() {
		if g, w := got.Type.Decode(got.Code(i)), got.Type.Decode(want[0].Code(i)); math.Abs(g-w) > 0.5 {
			t.Fatalf("element %d is %v, not %v", i, g, w)
		}
	}
}

// TestSeveralOutputs: what one emitter gives together is one kernel, the rest are others.
func TestSeveralOutputs(t *testing.T) {
	p := planned(t, parse(t, sumF32+`
ENTRY e {
  x = f32[512,2048] parameter(0)
  z = f32[] constant(0)
  r = f32[512] reduce(x, z), dimensions={1}, to_apply=sum
  n = f32[512,2048] negate(x)
  c = f32[2048] reduce(n, z), dimensions={0}, to_apply=sum
  t = f32[2048,512] transpose(x), dimensions={1,0}
  ROOT o = (f32[512], f32[512,2048], f32[2048], f32[2048,512]) tuple(r, n, c, t)
}`))
	var emitters []string
	for _, k := range p.Kernels {
		emitters = append(emitters, k.Emitter)
	}
	slices.Sort(emitters)
	if !slices.Equal(emitters, []string{ColumnSplitEmitter, RowEmitter, TransposeEmitter}) {
		t.Errorf("%v", emitters)
		for _, k := range p.Kernels {
			t.Logf("%s %v", k.Emitter, k.Why)
		}
	}
}
