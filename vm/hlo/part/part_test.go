package part

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
	"github.com/tilus-lab/tilus-lab/vm/hlo/rand"
)

// pyramid is the graph that recursive emission computes 2^depth times: every level adds
// two slices of the one below.
func pyramid(t testing.TB, depth int) *hlo.Module {
	t.Helper()
	b := hlo.NewBuilder("pyramid")
	x := b.Param(hlo.Array(hlo.F32, depth+2))
	for i := range depth {
		n := depth + 1 - i
		lo := b.Slice(x, hlo.SliceDim{Start: 0, Limit: n, Stride: 1})
		hi := b.Slice(x, hlo.SliceDim{Start: 1, Limit: n + 1, Stride: 1})
		x = b.Elementwise(hlo.Add, lo, hi)
	}
	m, err := b.Done(x)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPyramidIsLinear(t *testing.T) {
	m := pyramid(t, 200)
	start := time.Now()
	p := Split(m.Entry)
	took := time.Since(start)
	if len(p.Parts) != 201 {
		t.Errorf("%d parts for 200 levels and the parameter", len(p.Parts))
	}
	if took > 2*time.Second {
		t.Errorf("splitting takes %v", took)
	}
	n := 0
	for _, q := range p.Parts {
		n += len(q.Instructions)
	}
	if n != len(m.Entry.Instructions) {
		t.Errorf("%d instructions in the parts, %d in the graph", n, len(m.Entry.Instructions))
	}
}

func BenchmarkPyramid20(b *testing.B) {
	m := pyramid(b, 20)
	for b.Loop() {
		Split(m.Entry)
	}
}

// TestInvariants: in random fusions every instruction stands in exactly one part, operands
// before users; what a part reads from itself it reads at one place; parts call only
// later parts.
func TestInvariants(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 60
	}
	for seed := range n {
		m, err := rand.Fusion(uint64(seed), rand.Options{Steps: 12})
		if err != nil {
			t.Fatal(err)
		}
		p := Split(m.Entry)
		seen := map[*hlo.Instruction]bool{}
		for i, q := range p.Parts {
			if q.ID != i {
				t.Fatalf("part %d has the number %d", i, q.ID)
			}
			for _, in := range q.Instructions {
				if seen[in] || p.Of[in] != q {
					t.Errorf("seed %d: %s stands in two parts", seed, in.Name)
				}
				for k, o := range in.Operands {
					if p.Of[o] == q && !seen[o] {
						t.Errorf("seed %d: %s before its operand %s", seed, in.Name, o.Name)
					}
					if p.Of[o] == q && in.Op != hlo.Tuple {
						for _, x := range reads(in, k) {
							at := index.Compose(q.Index[in], x)
							if at.Map.Undefined() || at.Map.KnownEmpty() {
								continue
							}
							if at.String() != q.Index[o].String() {
								t.Errorf("seed %d: %s reads %s at %s, not %s", seed, in.Name, o.Name, at, q.Index[o])
							}
						}
					}
				}
				seen[in] = true
			}
			for other := range q.Calls {
				if other.ID <= q.ID && slices.Contains(q.Instructions, m.Entry.Root) {
					t.Errorf("seed %d: the root part is called", seed)
				}
			}
		}
		if len(seen) != len(m.Entry.Instructions) {
			t.Errorf("seed %d: %d of %d instructions stand in parts", seed, len(seen), len(m.Entry.Instructions))
		}
		p.Inlined()
	}
}

func parse(t *testing.T, text string) *hlo.Module {
	t.Helper()
	m, err := hlo.Parse("t", text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const reducer = "r0 {\n p0 = f32[] parameter(0)\n p1 = f32[] parameter(1)\n ROOT add0 = f32[] add(p0, p1)\n}\n"

func TestEpilogue(t *testing.T) {
	m := parse(t, reducer+`f0 {
  p0 = f32[4] parameter(0)
  c0 = f32[] constant(0)
  reduce0 = f32[] reduce(p0, c0), dimensions={0}, to_apply=r0
  bitc0 = f32[1] bitcast(reduce0)
  abs0 = f32[1] abs(bitc0)
  log0 = f32[1] log(abs0)
  sign0 = f32[1] sign(bitc0)
  ROOT tuple0 = (f32[1], f32[1]) tuple(log0, sign0)
}`)
	c := m.Entry
	q := Epilogue(c, []*hlo.Instruction{c.Find("reduce0")}, c.Roots(), nil, nil)
	if got := SignatureOf(m, c, q).String(); got != "f0__epilogue__log0_sign0(tensor<4xf32>, index [0, 0], f32) -> (f32, f32)" {
		t.Errorf("the epilogue is %s", got)
	}
	var names []string
	for _, in := range q.Instructions {
		names = append(names, in.Name)
	}
	slices.Sort(names)
	if fmt.Sprint(names) != "[abs0 bitc0 log0 sign0]" {
		t.Errorf("the epilogue holds %v", names)
	}
	p := WithHeroes(c, c.Find("reduce0"))
	if p.Of[c.Find("p0")] == p.Of[c.Find("reduce0")] || p.Of[c.Find("reduce0")] == p.Of[c.Find("abs0")] {
		t.Error("the hero or its operand begins no part")
	}
	r := m.Find("r0")
	if got := SignatureOf(m, r, Split(r).Parts[0]).String(); got != "r0_add0(f32, f32) -> (f32)" {
		t.Errorf("the reducer is %s", got)
	}
}

// TestSoftmaxTail: what stands before and after the sum is read at two places.
func TestSoftmaxTail(t *testing.T) {
	m := parse(t, reducer+`e {
  p0 = f32[8,16] parameter(0)
  exp0 = f32[8,16] exponential(p0)
  c0 = f32[] constant(0)
  reduce0 = f32[8] reduce(exp0, c0), dimensions={1}, to_apply=r0
  bc0 = f32[8,16] broadcast(reduce0), dimensions={0}
  ROOT div0 = f32[8,16] divide(exp0, bc0)
}`)
	p := Split(m.Entry)
	if len(p.Parts) != 2 || p.Of[m.Entry.Find("exp0")] != p.Parts[1] {
		t.Errorf("%d parts", len(p.Parts))
	}
	inline, why := p.Inlined()
	if inline[1] || !strings.Contains(why[1], "2 times") {
		t.Errorf("exp is inlined: %s", why[1])
	}
}
