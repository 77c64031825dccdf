package opt

import (
	"bytes"
	"fmt"
	"math/rand"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// TestVector lists accesses that become one, and those that must not.
func TestVector(t *testing.T) {
	type drawn = func(b *code.Builder, p, q, at, x code.Value)
	load := func(b *code.Builder, words int, addr code.Value, offset int, to code.Value, place int) {
		for i, w := range b.LdGlobalV(words, addr, offset, 0) {
			b.StGlobal(4, to, 4096+64*place+8*i, 0, w) // apart, and too far from each other to be joined
		}
	}
	for _, c := range []struct {
		what   string
		loads  int // left
		stores int
		body   drawn
	}{
		{"two loads", 1, 2, func(b *code.Builder, p, q, at, x code.Value) {
			load(b, 1, at, 0, q, 0)
			load(b, 1, at, 4, q, 1)
		}},
		{"in the other order", 1, 2, func(b *code.Builder, p, q, at, x code.Value) {
			load(b, 1, at, 4, q, 0)
			load(b, 1, at, 0, q, 1)
		}},
		{"four words", 1, 4, func(b *code.Builder, p, q, at, x code.Value) {
			load(b, 1, at, 12, q, 0)
			load(b, 2, at, 0, q, 1)
			load(b, 1, at, 8, q, 2)
		}},
		{"not at a multiple of 8", 2, 2, func(b *code.Builder, p, q, at, x code.Value) {
			load(b, 1, at, 4, q, 0)
			load(b, 1, at, 8, q, 1)
		}},
		{"at a multiple of 8, not 16", 2, 4, func(b *code.Builder, p, q, at, x code.Value) {
			load(b, 2, at, 8, q, 0)
			load(b, 2, at, 16, q, 1)
		}},
		{"an index that differs by a constant", 1, 2, func(b *code.Builder, p, q, at, x code.Value) {
			i := b.Mul32(b.TidX(), b.Const32(64))
			load(b, 1, b.Emit1(code.OpMadWideS32, nil, i, b.Const32(4), p), 0, q, 0)
			load(b, 1, b.Emit1(code.OpMadWideS32, nil, b.Add32(i, b.Const32(1)), b.Const32(4), p), 0, q, 1)
		}},
		{"a parameter that 64 divides", 1, 2, func(b *code.Builder, p, q, at, x code.Value) {
			a := b.Emit1(code.OpMadWideS32, nil, x, b.Const32(4), p)
			load(b, 1, a, 0, q, 0)
			load(b, 1, a, 4, q, 1)
		}},
		{"an index of which nothing is known", 2, 2, func(b *code.Builder, p, q, at, x code.Value) {
			a := b.Emit1(code.OpMadWideS32, nil, b.CtaidX(), b.Const32(4), p)
			load(b, 1, a, 0, q, 0)
			load(b, 1, a, 4, q, 1)
		}},
		{"a wide access says how it lies", 2, 6, func(b *code.Builder, p, q, at, x code.Value) {
			a := b.Emit1(code.OpMadWideS32, nil, b.Mul32(b.CtaidX(), b.Const32(2)), b.Const32(4), p)
			load(b, 4, a, 0, q, 0)
			load(b, 1, a, 16, q, 1)
			load(b, 1, a, 20, q, 2)
		}},
		{"a store between that may write there", 2, 1, func(b *code.Builder, p, q, at, x code.Value) {
			load1 := b.LdGlobal(4, at, 0, 0)
			b.StGlobal(4, b.Add64(p, b.MulWideU(b.LaneID(), load1)), 0, 0, x)
			b.LdGlobal(4, at, 4, 0)
		}},
		{"a barrier between", 2, 0, func(b *code.Builder, p, q, at, x code.Value) {
			b.LdGlobal(4, at, 0, 0)
			b.BarSync()
			b.LdGlobal(4, at, 4, 0)
		}},
		{"two stores", 0, 1, func(b *code.Builder, p, q, at, x code.Value) {
			b.StGlobal(4, at, 0, 0, x)
			b.StGlobal(4, at, 4, 0, b.Emit1(code.OpNot32, nil, x))
		}},
		{"the first is stored over", 0, 2, func(b *code.Builder, p, q, at, x code.Value) {
			b.StGlobal(4, at, 0, 0, x)
			b.StGlobal(4, at, 0, 0, b.Emit1(code.OpNot32, nil, x))
			b.StGlobal(4, at, 4, 0, x)
		}},
		{"one is stored over in between", 0, 2, func(b *code.Builder, p, q, at, x code.Value) {
			b.StGlobal(4, at, 4, 0, x)
			b.StGlobal(4, at, 4, 0, b.Emit1(code.OpNot32, nil, x))
			b.StGlobal(4, at, 0, 0, x)
		}},
		{"a load between that may read it", 1, 2, func(b *code.Builder, p, q, at, x code.Value) {
			b.StGlobal(4, at, 0, 0, x)
			b.LdGlobal(4, b.Add64(p, b.MulWideU(b.LaneID(), x)), 0, 0)
			b.StGlobal(4, at, 4, 0, x)
		}},
		{"under one guard", 0, 1, func(b *code.Builder, p, q, at, x code.Value) {
			g := b.SetpS32(code.LT, b.TidX(), x)
			b.Guarded(g, code.OpStGlobalB32, []int64{0, 0}, []code.Value{at, x})
			b.Guarded(g, code.OpStGlobalB32, []int64{4, 0}, []code.Value{at, x})
		}},
		{"under different guards", 0, 2, func(b *code.Builder, p, q, at, x code.Value) {
			b.Guarded(b.SetpS32(code.LT, b.TidX(), x), code.OpStGlobalB32, []int64{0, 0}, []code.Value{at, x})
			b.Guarded(b.SetpS32(code.GT, b.TidX(), x), code.OpStGlobalB32, []int64{4, 0}, []code.Value{at, x})
		}},
		{"with different hints", 0, 2, func(b *code.Builder, p, q, at, x code.Value) {
			b.StGlobal(4, at, 0, 0, x)
			b.StGlobal(4, at, 4, code.EvictFirst, x)
		}},
	} {
		b := code.NewBuilder("p").At(at(1))
		p := b.Param(code.Param{Name: "p", Kind: code.Pointer, Type: code.B64, Elem: "u8", NoAlias: true})
		q := b.Param(code.Param{Name: "q", Kind: code.Pointer, Type: code.B64, Elem: "u8", NoAlias: true})
		x := b.Param(code.Param{Name: "x", Kind: code.Scalar, Type: code.B32, Elem: "i32", Divisor: 64})
		b.Func().Launch.Block = 32
		c.body(b, p, q, b.Add64(p, b.MulWideU(b.TidX(), b.Const32(256))), x)
		f, err := b.Done()
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		before := code.Format(f)
		Vector(f)
		if err := code.Verify(f).Err(); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		loads, stores := 0, 0
		f.Body.Walk(func(in *code.Instr) {
			switch in.Row().Class {
			case code.Load:
				loads++
			case code.Store:
				stores++
			}
		})
		if loads != c.loads || stores != c.stores {
			t.Errorf("%s: %d loads and %d stores are left, not %d and %d, of\n%s\n%s", c.what, loads, stores, c.loads, c.stores, before, code.Format(f))
		}
	}
}

// TestVectorKeepsMeaning runs random accesses of few bytes through several names of
// them, before and after.
func TestVectorKeepsMeaning(t *testing.T) {
	joined := 0
	for seed := range int64(400) {
		r := rand.New(rand.NewSource(seed))
		b := code.NewBuilder("p").At(at(1))
		p := b.Pointer("p", "u8")
		b.Scalar("s", code.B32, "i32")
		b.Func().Launch.Block = 64
		thread := b.Mad32(b.CtaidX(), b.Const32(64), b.TidX())
		index := b.Mul32(thread, b.Const32(perThread/4))
		names := []code.Value{
			b.Add64(p, b.MulWideU(thread, b.Const32(perThread))),
			b.Emit1(code.OpMadWideS32, nil, index, b.Const32(4), p),
			b.Emit1(code.OpMadWideS32, nil, b.Add32(index, b.Const32(2)), b.Const32(4), p),
		}
		guards := []code.Value{0, 0, b.SetpU32(code.LT, b.LaneID(), b.Const32(7))}
		values := []code.Value{b.TidX(), b.LaneID()}
		word := func() code.Value { return values[r.Intn(len(values))] }
		zero := b.Const32(0)
		for range 24 {
			n := []int{1, 1, 1, 2, 4}[r.Intn(5)]
			addr, offset, guard := names[r.Intn(len(names))], int64(4*(r.Intn(8)/n*n)), guards[r.Intn(len(guards))]
			if addr == names[2] && n == 4 {
				offset += 8
			}
			if k := r.Intn(24); k == 0 {
				b.Emit(code.OpBarWarp, nil)
			} else if k < 17 {
				op := wordAccesses[false][code.Global][int64(4*n)]
				in := &code.Instr{Op: op, In: []code.Value{addr}, Imm: []int64{offset, 0}, Guard: guard}
				for range n {
					in.Out = append(in.Out, b.Func().NewValue(code.B32))
					if guard != 0 {
						in.In = append(in.In, []code.Value{zero, zero, zero, zero, word()}[r.Intn(5)])
					}
				}
				b.Add(in)
				values = append(values, in.Out...)
			} else {
				in := &code.Instr{Op: wordAccesses[true][code.Global][int64(4*n)], In: []code.Value{addr}, Imm: []int64{offset, 0}, Guard: guard}
				for range n {
					in.In = append(in.In, word())
				}
				b.Add(in)
			}
		}
		total := zero
		for _, v := range values {
			total = b.Emit1(code.OpMad32, nil, total, b.Const32(31), v)
		}
		b.StGlobal(4, names[0], 200, 0, total)
		f, err := b.Done()
		if err != nil {
			t.Fatal(err)
		}
		want, was := run(t, f)
		g := Clone(f)
		if Vector(g) {
			joined++
		}
		if err := code.Verify(g).Err(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, now := run(t, g)
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %s\n%s", seed, code.Format(f), code.Format(g))
		}
		if now.GlobalLoadBytes != was.GlobalLoadBytes || now.GlobalStoreBytes != was.GlobalStoreBytes {
			t.Fatalf("seed %d: bytes accessed change", seed)
		}
	}
	if joined < 100 {
		t.Error(fmt.Sprint("only ", joined, " functions have something to join"))
	}
}

// TestZeroBits compares what is said of low bits with values that threads have.
func TestZeroBits(t *testing.T) {
	for seed := range int64(60) {
		f := draw(seed)
		low := zeros(f)
		for tid := range uint64(64) {
			th := thread{v: make([]uint64, len(f.Types)), mem: make([]byte, 2*64*perThread), tid: tid}
			th.set(f.Body.Args, []uint64{0, 5})
			th.region(f.Body)
			for v, bits := range th.v {
				if n := min(low[v], f.Type(code.Value(v)).Bits()); n > 0 && bits&(1<<n-1) != 0 {
					t.Fatalf("seed %d: %%%d is %#x, its %d low bits should be 0\n%s", seed, v, bits, n, code.Format(f))
				}
			}
		}
	}
}
