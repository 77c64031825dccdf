package rand

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

func arguments(t *testing.T, c *hlo.Computation, seed int) []*array.Array {
	t.Helper()
	var args []*array.Array
	for _, p := range c.Params {
		a := array.New(p.Shape.Type.Elem(), append([]int{}, p.Shape.Dims...)...)
		for k := range a.Len() {
			v := (k*7+seed)%11 - 5
			switch {
			case p.Shape.Type == hlo.Pred:
				a.SetCode(k, uint64(k*k+seed)&1)
			case p.Shape.Type.IsFloat():
				a.SetCode(k, a.Type.Encode(float64(v), false))
			default:
				a.SetCode(k, a.Type.EncodeInt(int64(v), false))
			}
		}
		args = append(args, a)
	}
	return args
}

// TestFusions: every drawn fusion prints and reads back, and computes to arrays of the
// shapes of its roots.
func TestFusions(t *testing.T) {
	n := 400
	if testing.Short() {
		n = 80
	}
	used := map[hlo.Op]int{}
	for seed := range n {
		m, err := Fusion(uint64(seed), Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		text := hlo.Format(m)
		back, err := hlo.Parse("back", text)
		if err != nil || hlo.Format(back) != text {
			t.Fatalf("seed %d does not read back: %v\n%s", seed, err, text)
		}
		for _, op := range Ops(m) {
			used[op]++
		}
		out, err := eval.Run(m, arguments(t, m.Entry, seed))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		for i, r := range m.Entry.Roots() {
			if !slices.Equal(out[i].Shape, r.Shape.Dims) {
				t.Fatalf("seed %d: result %d is %v, not %v", seed, i, out[i].Shape, r.Shape)
			}
		}
	}
	for _, op := range []hlo.Op{hlo.Transpose, hlo.Reshape, hlo.Pad, hlo.Slice, hlo.Concatenate, hlo.Reduce, hlo.DynamicSlice, hlo.DynamicUpdateSlice, hlo.Select, hlo.Convert} {
		if used[op] == 0 {
			t.Errorf("%s is never drawn", op)
		}
	}
}

// TestIndexing: what an operation that moves elements puts somewhere is what its map
// says it reads, and a reduction of s32 is the sum over its map.
func TestIndexing(t *testing.T) {
	n := 250
	if testing.Short() {
		n = 50
	}
	checked := 0
	for seed := range n {
		m, err := Fusion(uint64(seed)+10_000, Options{Elements: 96})
		if err != nil {
			t.Fatal(err)
		}
		checked += checkMaps(t, seed, m)
	}
	if checked < n {
		t.Errorf("only %d maps were checked", checked)
	}
}

// checkMaps computes every instruction by itself and compares with its maps.
func checkMaps(t *testing.T, seed int, m *hlo.Module) (checked int) {
	args := arguments(t, m.Entry, seed)
	// A copy of the entry that gives all values.
	values := map[string]*array.Array{}
	for _, in := range m.Entry.Instructions {
		if in.Shape.IsTuple() {
			continue
		}
		c := *m.Entry
		c.Root = in
		out, err := eval.Computation(&c, args)
		if err != nil {
			t.Fatal(err)
		}
		values[in.Name] = out[0]
	}
	for _, in := range m.Entry.Instructions {
		if in.Op.Class() != hlo.Movement || in.Op == hlo.DynamicUpdateSlice || in.Shape.Elements() == 0 {
			continue
		}
		got := values[in.Name]
		covered := make([]bool, got.Len())
		for k, set := range index.OutputToInput(in, 0) {
			x := set[0]
			if in.Op == hlo.Pad && k == 1 || in.Op == hlo.DynamicSlice && k > 0 {
				continue
			}
			source := values[in.Operands[k].Name]
			starts := make([]int64, len(x.Runtime))
			for i, r := range x.Runtime {
				v := values[r.Source.Name]
				starts[i] = max(0, min(v.Type.DecodeInt(v.Code(0)), x.Map.Runtime[i].Range.Hi))
			}
			err := x.Map.Points(1<<20, func(dims, symbols, results []int64) error {
				if !slices.Equal(symbols, starts) {
					return nil
				}
				o, from := 0, 0
				for i, v := range dims {
					o = o*in.Shape.Dims[i] + int(v)
				}
				for i, v := range results {
					if v < 0 || v >= int64(source.Shape[i]) {
						return fmt.Errorf("%v reads %v of %v", dims, results, source.Shape)
					}
					from = from*source.Shape[i] + int(v)
				}
				if got.Code(o) != source.Code(from) {
					return fmt.Errorf("%v is not what stands at %v", dims, results)
				}
				covered[o] = true
				return nil
			})
			if err != nil {
				t.Errorf("seed %d: %s: %s: %v", seed, in, x, err)
			}
			checked++
		}
		if in.Op != hlo.Pad && slices.Contains(covered, false) {
			t.Errorf("seed %d: %s: an element comes from nowhere", seed, in)
		}
	}
	return checked
}
