package cast

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

// machine runs straight-line pure code by the meanings of its rows.
type machine struct {
	f   *code.Func
	val []uint64
}

func (m *machine) run(args []uint64) {
	for i, v := range m.f.Body.Args {
		m.val[v] = args[i]
	}
	for _, instr := range m.f.Body.Instrs {
		row := instr.Row()
		if len(instr.In) == 0 {
			m.val[instr.Out[0]] = uint64(instr.Imm[0])
			continue
		}
		var in [3]uint64
		for i, v := range instr.In {
			in[i] = m.val[v]
		}
		m.val[instr.Out[0]] = row.Meaning(instr.Imm, in[0], in[1], in[2])
	}
}

// build makes the cast of the slots in that order; its parameters are the source
// words.
func build(t *testing.T, level code.Arch, to, from dtype.Type, order []int) (*machine, []code.Value) {
	t.Helper()
	return buildWith(t, to, from, order, func(b *code.Builder, to, from dtype.Type, slots []int, words []code.Value) ([]code.Value, error) {
		return Tile(b, level, to, from, slots, words)
	})
}

// levels of machines that cast in different ways.
var levels = []code.Arch{0, NativeE4M3}

func buildWith(t *testing.T, to, from dtype.Type, order []int, tile func(*code.Builder, dtype.Type, dtype.Type, []int, []code.Value) ([]code.Value, error)) (*machine, []code.Value) {
	t.Helper()
	b := code.NewBuilder("cast")
	b.Func().Launch = code.Launch{Grid: []affine.Expr{affine.Const(1)}, Block: 32}
	b.At(diag.Pos{File: "cast", Line: 1})
	words := make([]code.Value, (len(order)*from.Bits()+31)/32)
	for i := range words {
		words[i] = b.Scalar("w"+string(rune('a'+i)), code.B32, "u32")
	}
	out, err := tile(b, to, from, order, words)
	if err != nil {
		t.Fatalf("%s from %s: %v", to, from, err)
	}
	f, err := b.Done()
	if err != nil {
		t.Fatalf("%s from %s: %v", to, from, err)
	}
	return &machine{f: f, val: make([]uint64, len(f.Types))}, out
}

// codes are the source codes to try: all for up to 16 bits, edges and a spread
// of bit patterns for wider types.
func codes(t dtype.Type) []uint64 {
	w := t.Bits()
	if w <= 16 {
		out := make([]uint64, 1<<w)
		for i := range out {
			out[i] = uint64(i)
		}
		return out
	}
	var out []uint64
	add := func(x uint64) {
		for d := uint64(0); d < 3; d++ {
			out = append(out, (x+d)&t.Mask(), (x-d)&t.Mask())
		}
	}
	for k := range w {
		add(1 << k)
		add(^uint64(0) << k)
	}
	x := uint64(1)
	for range 20000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		out = append(out, x&t.Mask(), x>>(x%uint64(w))&t.Mask())
	}
	if t.IsFloat() {
		// Values near what narrow targets round at.
		for _, u := range dtype.All() {
			if u.Bits() > 8 || !u.IsFloat() {
				continue
			}
			for c := range uint64(1) << u.Bits() {
				v := u.Decode(c)
				for _, y := range []float64{v, v * 1.5, v * 1.25, v * (1 + 1e-7), v * (1 - 1e-7), v * 1.0625} {
					add(t.Encode(y, false))
				}
			}
		}
		for _, y := range []float64{math.Inf(1), math.Inf(-1), math.NaN(), 65504, 65519.99, 65520, 1e30, -1e30, math.MaxInt32, 1 << 31, math.MaxInt64, 1 << 63} {
			add(t.Encode(y, false))
		}
	}
	return out
}

func TestEveryPairGivesWhatCastSays(t *testing.T) {
	pairs := 0
	for _, from := range dtype.All() {
		src := codes(from)
		if testing.Short() && len(src) > 4096 {
			src = src[len(src)-4096:]
		}
		for _, to := range dtype.All() {
			pairs++
			for _, level := range levels {
				if level == 0 || from == dtype.F8E4M3 {
					holdPair(t, level, to, from, src)
				}
			}
		}
	}
	t.Logf("%d pairs", pairs)
}

// holdPair holds a cast of codes to what dtype.Cast says.
func holdPair(t *testing.T, level code.Arch, to, from dtype.Type, src []uint64) {
	t.Helper()
	// Four slots, so that elements lie at every place of a word and across.
	const n = 4
	m, out := build(t, level, to, from, inOrder(n))
	args := make([]uint64, len(m.f.Params))
	data := make([]byte, len(args)*4+8)
	got := make([]byte, len(out)*4+8)
	bad := 0
	for i := 0; i < len(src) && bad < 3; i += n {
		clear(data)
		for s := range n {
			dtype.Put(data, from.Bits(), s, src[min(i+s, len(src)-1)])
		}
		for j := range args {
			args[j] = dtype.Get(data, 32, j)
		}
		m.run(args)
		for j, v := range out {
			dtype.Put(got, 32, j, m.val[v])
		}
		for s := range n {
			c := src[min(i+s, len(src)-1)]
			want := dtype.Cast(to, from, c)
			if g := dtype.Get(got, to.Bits(), s); g != want {
				t.Errorf("%s code %#x (%v) slot %d becomes %s code %#x (%v), want %#x (%v)", from, c, from.Decode(c), s, to, g, to.Decode(g), want, to.Decode(want))
				bad++
			}
		}
	}
}

func TestLowBitIntegersNeedFewInstructions(t *testing.T) {
	for _, c := range []struct {
		from  dtype.Type
		slots int
		most  int
	}{{dtype.I6, 4, 12}, {dtype.U4, 8, 24}, {dtype.U8, 4, 6}, {dtype.I8, 4, 6}} {
		m, _ := build(t, 0, dtype.F16, c.from, inOrder(c.slots))
		n := 0
		for _, in := range m.f.Body.Instrs {
			if len(in.In) > 0 {
				n++
			}
		}
		if n > c.most {
			t.Errorf("%d × %s to f16 takes %d instructions, want at most %d", c.slots, c.from, n, c.most)
		}
	}
}

func inOrder(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// TestSlotOrders casts slots in other orders than they stand, among them the one
// that puts two elements of a result word in the two halves of a source word.
func TestSlotOrders(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, from := range dtype.All() {
		if from.Bits() > 16 {
			continue
		}
		for _, to := range []dtype.Type{dtype.F16, dtype.BF16, dtype.U8, from} {
			orders := [][]int{rng.Perm(16), rng.Perm(13), rng.Perm(16)}
			if far := 16 / from.Bits(); 16%from.Bits() == 0 {
				var halves []int
				for word := range 2 {
					for i := range far {
						halves = append(halves, word*2*far+i, word*2*far+i+far)
					}
				}
				orders = append(orders, halves)
			}
			for _, order := range orders {
				m, out := build(t, NativeE4M3, to, from, order)
				args := make([]uint64, len(m.f.Params))
				for range 200 {
					data := make([]byte, len(args)*4)
					for j := range args {
						args[j] = rng.Uint64() & 0xffffffff
						dtype.Put(data, 32, j, args[j])
					}
					m.run(args)
					got := make([]byte, len(out)*4)
					for j, v := range out {
						dtype.Put(got, 32, j, m.val[v])
					}
					for s, at := range order {
						code := dtype.Get(data, from.Bits(), at)
						want := dtype.Cast(to, from, code)
						if g := dtype.Get(got, to.Bits(), s); g != want {
							t.Fatalf("%s slot %d of %v, code %#x, becomes %s %#x, want %#x", from, s, order, code, to, g, want)
						}
					}
				}
			}
		}
	}
	// Four pairs of a word of u4: one shift, four masks, two of them fma.
	m, _ := build(t, 0, dtype.F16, dtype.U4, []int{0, 4, 1, 5, 2, 6, 3, 7})
	n := 0
	for _, in := range m.f.Body.Instrs {
		if len(in.In) > 0 {
			n++
		}
	}
	if n > 10 {
		t.Errorf("8 × u4 to f16 in halves takes %d instructions, want at most 10 before the two shifts are merged", n)
	}
}

// TestAnyPlacement casts from placements that no recipe has: any bit anywhere, and
// whole elements in another order.
func TestAnyPlacement(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, from := range dtype.All() {
		if from.Bits() > 16 {
			continue
		}
		for _, n := range []int{32, 12} {
			w := from.Bits()
			for round := range 2 {
				at := rng.Perm(n * w)
				if round == 1 {
					for e, to := range rng.Perm(n) {
						for b := range w {
							at[e*w+b] = to*w + b
						}
					}
				}
				place, err := bits.New(w, (n*w+31)/32, at)
				if err != nil {
					t.Fatal(err)
				}
				order := rng.Perm(n)
				for _, to := range []dtype.Type{dtype.F16, dtype.F32, dtype.U8, from} {
					m, out := buildWith(t, to, from, order, func(b *code.Builder, to, from dtype.Type, slots []int, words []code.Value) ([]code.Value, error) {
						return Placed(b, NativeE4M3, to, from, slots, words, place, false, nil)
					})
					args, codes := make([]uint64, len(m.f.Params)), make([]uint64, n)
					for range 20 {
						for e := range codes {
							codes[e] = rng.Uint64() & from.Mask()
						}
						for j, x := range place.Pack(codes) {
							args[j] = uint64(x)
						}
						m.run(args)
						got := make([]byte, len(out)*4)
						for j, v := range out {
							dtype.Put(got, 32, j, m.val[v])
						}
						for s, e := range order {
							want := dtype.Cast(to, from, codes[e])
							if g := dtype.Get(got, to.Bits(), s); g != want {
								t.Fatalf("%s at %s slot %d, code %#x, becomes %s %#x, want %#x", from, place, s, codes[e], to, g, want)
							}
						}
					}
				}
			}
		}
	}
}
