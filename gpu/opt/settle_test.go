package opt

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// TestSettle holds arrivals to wait for the loads in front of them, and for no others: of each
// case, how many loads the address of each arrival must come to depend on, in text order.
func TestSettle(t *testing.T) {
	load := func(b *code.Builder, base code.Value, at int64) code.Value {
		return b.Emit1(code.OpLdSharedB32, []int64{at}, base)
	}
	arrive := func(b *code.Builder, base code.Value) { b.Emit(code.OpMbarArrive, []int64{0}, base) }
	for _, c := range []struct {
		name string
		make func(b *code.Builder, base, p, mine code.Value)
		want []int
	}{
		{"a sum stands for its loads", func(b *code.Builder, base, p, _ code.Value) {
			sum := b.Add32(load(b, base, 16), b.Xor32(load(b, base, 20), load(b, base, 24)))
			arrive(b, base)
			b.StGlobal(4, p, 0, 0, sum)
		}, []int{3}},
		{"what is not used yet", func(b *code.Builder, base, p, _ code.Value) {
			x, y := load(b, base, 16), load(b, base, 20)
			arrive(b, base)
			b.StGlobal(4, p, 0, 0, b.Add32(x, y))
		}, []int{2}},
		{"what is stored is there", func(b *code.Builder, base, p, _ code.Value) {
			b.StGlobal(4, p, 0, 0, b.Add32(load(b, base, 16), load(b, base, 20)))
			arrive(b, base)
		}, []int{0}},
		{"an address is there when it is used", func(b *code.Builder, base, p, _ code.Value) {
			x := load(b, load(b, base, 16), 0)
			arrive(b, base)
			b.StGlobal(4, p, 0, 0, x)
		}, []int{1}},
		{"once is enough", func(b *code.Builder, base, p, _ code.Value) {
			x := load(b, base, 16)
			arrive(b, base)
			arrive(b, base)
			b.StGlobal(4, p, 0, 0, x)
		}, []int{1, 0}},
		{"by a lane, and then by all", func(b *code.Builder, base, p, mine code.Value) {
			x := load(b, base, 16)
			b.If(mine, func() []code.Value { arrive(b, base); return nil }, nil)
			arrive(b, base)
			b.StGlobal(4, p, 0, 0, x)
		}, []int{1, 1}},
		{"loaded by some", func(b *code.Builder, base, p, mine code.Value) {
			x := b.If(mine, func() []code.Value { return []code.Value{load(b, base, 16)} }, func() []code.Value { return []code.Value{base} })
			arrive(b, base)
			b.StGlobal(4, p, 0, 0, x[0])
		}, []int{1}},
		{"more loads than it can tell apart, by a lane, and then by all", func(b *code.Builder, base, p, mine code.Value) {
			var all []code.Value
			for range mostLoads + 3 {
				all = append(all, load(b, base, 16))
			}
			b.If(mine, func() []code.Value { arrive(b, base); return nil }, nil)
			arrive(b, base)
			for _, x := range all {
				b.StGlobal(4, p, 0, 0, x)
			}
		}, []int{mostLoads + 3, mostLoads + 3}},
		{"each turn for itself", func(b *code.Builder, base, p, _ code.Value) {
			before := load(b, base, 16)
			sum := b.For(b.Const32(0), b.Const32(9), b.Const32(1), 1, []code.Value{before}, func(_ code.Value, carried []code.Value) []code.Value {
				x := b.Add32(carried[0], load(b, base, 20))
				arrive(b, base)
				return []code.Value{x}
			})
			arrive(b, base)
			b.StGlobal(4, p, 0, 0, sum[0])
		}, []int{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := code.NewBuilder("p").At(at(1))
			p := b.Pointer("p", "u8")
			b.Func().Launch.Block, b.Func().Launch.SharedBytes = 32, 64
			base := b.SharedBase()
			c.make(b, base, p, b.Emit1(code.OpSetpU32, []int64{int64(code.EQ)}, b.LaneID(), b.Const32(3)))
			f, err := b.Done()
			if err != nil {
				t.Fatal(err)
			}
			Settle(f)
			if err := code.Verify(f).Err(); err != nil {
				t.Fatal(err)
			}
			def := map[code.Value]*code.Instr{}
			var got []int
			f.Body.Walk(func(in *code.Instr) {
				for _, v := range in.Out {
					def[v] = in
				}
				if !arrives(in.Op) {
					return
				}
				found := map[*code.Instr]bool{}
				var need func(v code.Value)
				need = func(v code.Value) {
					x := def[v]
					if x == nil || found[x] {
						return
					}
					if isLoad(x) {
						found[x] = true
						return
					}
					for _, sub := range x.Regions {
						for _, y := range sub.Yield {
							need(y)
						}
					}
					for _, y := range x.In {
						need(y)
					}
				}
				need(in.In[0])
				got = append(got, len(found))
			})
			if len(got) != len(c.want) {
				t.Fatalf("%d arrivals, want %d", len(got), len(c.want))
			}
			for i, n := range got {
				if n != c.want[i] {
					t.Errorf("arrival %d depends on %d loads, want %d:\n%s", i, n, c.want[i], code.Format(f))
				}
			}
			before := code.Format(f)
			if Settle(f) || code.Format(f) != before {
				t.Errorf("again, it changes what it made:\n%s", code.Format(f))
			}
		})
	}
}
