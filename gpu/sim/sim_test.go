package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/big"
	"math/rand"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

func at(line int) diag.Pos { return diag.Pos{File: "t.tile", Line: line, Col: 2} }

// kernel builds a function of the given block size; body gets the addresses of
// the pointer parameters.
func kernel(t testing.TB, block, shared int, pointers []string, body func(b *code.Builder, p []code.Value)) *code.Func {
	t.Helper()
	b := code.NewBuilder("k").At(at(1))
	var ps []code.Value
	for _, n := range pointers {
		ps = append(ps, b.Pointer(n, "u32"))
	}
	b.Func().Launch = code.Launch{Block: block, SharedBytes: shared}
	body(b, ps)
	f, err := b.Done()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// word is the address of the thread's b32 of a buffer.
func word(b *code.Builder, p, index code.Value) code.Value {
	return b.Add64(p, b.MulWideU(index, b.Const32(4)))
}

func words(v ...uint32) []byte {
	out := make([]byte, 4*len(v))
	for i, x := range v {
		binary.LittleEndian.PutUint32(out[4*i:], x)
	}
	return out
}

func get(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

func args(bufs ...[]byte) []Arg {
	var out []Arg
	for _, b := range bufs {
		out = append(out, Arg{Buffer: b})
	}
	return out
}

func TestGridAndDivergence(t *testing.T) {
	// y[i] = i odd ? sum of 0..lane-1 : number of halvings of i until 0
	f := kernel(t, 64, 0, []string{"y"}, func(b *code.Builder, p []code.Value) {
		i := b.Mad32(b.CtaidX(), b.Const32(64), b.TidX())
		lane := b.LaneID()
		odd := b.SetpU32(code.NE, b.And32(i, b.Const32(1)), b.Const32(0))
		r := b.If(odd, func() []code.Value {
			return b.For(b.Const32(0), lane, b.Const32(1), 1, []code.Value{b.Const32(0)}, func(k code.Value, c []code.Value) []code.Value {
				return []code.Value{b.Add32(c[0], k)}
			})
		}, func() []code.Value {
			r := b.While([]code.Value{i, b.Const32(0)}, func(c []code.Value) code.Value {
				return b.SetpU32(code.NE, c[0], b.Const32(0))
			}, func(c []code.Value) []code.Value {
				return []code.Value{b.Shr32(c[0], b.Const32(1)), b.Add32(c[1], b.Const32(1))}
			})
			return r[1:]
		})
		b.StGlobal(4, word(b, p[0], i), 0, 0, r[0])
	})
	y := make([]byte, 4*64*3)
	st, err := Run(context.Background(), f, Launch{Grid: [3]int{3}, Args: args(y)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 192 {
		lane := i % 32
		want := lane * (lane - 1) / 2
		if i%2 == 0 {
			want = 0
			for x := i; x > 0; x /= 2 {
				want++
			}
		}
		if int(get(y, i)) != want {
			t.Errorf("y[%d] is %d, want %d", i, get(y, i), want)
		}
	}
	if st.GlobalStores != 6 || st.GlobalSectors != 24 || st.GlobalStoreBytes != 768 || st.Diverged == 0 {
		t.Errorf("stats %+v", st)
	}
}

// TestSwap carries two values that change places at every turn.
func TestSwap(t *testing.T) {
	f := kernel(t, 32, 0, []string{"y"}, func(b *code.Builder, p []code.Value) {
		lane := b.LaneID()
		r := b.For(b.Const32(0), lane, b.Const32(1), 1, []code.Value{b.Const32(7), b.Const32(9)}, func(_ code.Value, c []code.Value) []code.Value {
			return []code.Value{c[1], c[0]}
		})
		b.StGlobal(4, word(b, p[0], lane), 0, 0, r[0])
	})
	y := make([]byte, 128)
	if _, err := Run(context.Background(), f, Launch{Args: args(y)}, Options{}); err != nil {
		t.Fatal(err)
	}
	for l := range 32 {
		if want := uint32(7 + 2*(l%2)); get(y, l) != want {
			t.Errorf("lane %d has %d, want %d", l, get(y, l), want)
		}
	}
}

func TestGuard(t *testing.T) {
	f := kernel(t, 32, 0, []string{"x", "y"}, func(b *code.Builder, p []code.Value) {
		lane := b.LaneID()
		inside := b.SetpS32(code.LT, lane, b.Const32(5))
		v := b.Guarded(inside, code.OpLdGlobalB32, []int64{0, 0}, []code.Value{word(b, p[0], lane)}, b.Const32(99))
		b.Guarded(b.SetpS32(code.LT, lane, b.Const32(7)), code.OpStGlobalB32, []int64{0, 0}, []code.Value{word(b, p[1], lane), v[0]})
	})
	x, y := words(10, 11, 12, 13, 14), make([]byte, 28)
	if _, err := Run(context.Background(), f, Launch{Args: args(x, y)}, Options{}); err != nil {
		t.Fatal(err)
	}
	if want := string(words(10, 11, 12, 13, 14, 99, 99)); string(y) != want {
		t.Errorf("y is %v", y)
	}
}

// TestGuardedChain follows a chain of shared addresses with guarded loads, whose
// results would share a register with their addresses if they could.
func TestGuardedChain(t *testing.T) {
	f := kernel(t, 32, 128, []string{"y"}, func(b *code.Builder, p []code.Value) {
		lane, base := b.LaneID(), b.SharedBase()
		slot := func(i code.Value) code.Value { return b.Mad32(b.And32(i, b.Const32(31)), b.Const32(4), base) }
		b.StShared(4, slot(lane), 0, slot(b.Mad32(lane, b.Const32(5), b.Const32(1))))
		b.BarSync()
		r := b.For(b.Const32(0), b.Const32(4), b.Const32(1), 1, []code.Value{slot(lane)}, func(i code.Value, c []code.Value) []code.Value {
			on := b.SetpU32(code.NE, i, lane)
			return b.Guarded(on, code.OpLdSharedB32, []int64{0}, []code.Value{c[0]}, b.Const32(sharedBase+8))
		})
		b.StGlobal(4, word(b, p[0], lane), 0, 0, b.Sub32(r[0], base))
	})
	y := make([]byte, 128)
	if _, err := Run(context.Background(), f, Launch{Args: args(y)}, Options{}); err != nil {
		t.Fatal(err)
	}
	for l := range 32 {
		at := l
		for i := range 4 {
			if at = (5*at + 1) % 32; i == l {
				at = 2
			}
		}
		if int(get(y, l)) != 4*at {
			t.Errorf("lane %d ends at %d, want %d", l, get(y, l), 4*at)
		}
	}
}

// TestOldValueInLoop reads, in one branch of a loop, a value from before it that
// nothing else reads; the other branch must not take its register.
func TestOldValueInLoop(t *testing.T) {
	f := kernel(t, 32, 0, []string{"y"}, func(b *code.Builder, p []code.Value) {
		lane := b.LaneID()
		old := b.Mul32(lane, b.Const32(3))
		r := b.For(b.Const32(0), b.Const32(6), b.Const32(1), 1, []code.Value{b.Const32(0)}, func(i code.Value, c []code.Value) []code.Value {
			odd := b.SetpU32(code.NE, b.And32(i, b.Const32(1)), b.Const32(0))
			v := b.If(odd, func() []code.Value { return []code.Value{old} }, func() []code.Value { return []code.Value{b.Add32(i, b.Const32(100))} })
			return []code.Value{b.Mad32(c[0], b.Const32(7), v[0])}
		})
		b.StGlobal(4, word(b, p[0], lane), 0, 0, r[0])
	})
	y := make([]byte, 128)
	if _, err := Run(context.Background(), f, Launch{Args: args(y)}, Options{}); err != nil {
		t.Fatal(err)
	}
	for l := range 32 {
		want := 0
		for i := range 6 {
			v := i + 100
			if i%2 == 1 {
				v = 3 * l
			}
			want = 7*want + v
		}
		if int(get(y, l)) != want {
			t.Errorf("lane %d has %d, want %d", l, get(y, l), want)
		}
	}
}

// TestEndIsAlsoCarried starts a loop from the value that also bounds it.
func TestEndIsAlsoCarried(t *testing.T) {
	f := kernel(t, 32, 0, []string{"y"}, func(b *code.Builder, p []code.Value) {
		lane := b.LaneID()
		end := b.Add32(lane, b.Const32(1))
		r := b.For(b.Const32(0), end, b.Const32(1), 1, []code.Value{end}, func(i code.Value, c []code.Value) []code.Value {
			return []code.Value{b.Add32(c[0], b.Const32(10))}
		})
		b.StGlobal(4, word(b, p[0], lane), 0, 0, r[0])
	})
	y := make([]byte, 128)
	if _, err := Run(context.Background(), f, Launch{Args: args(y)}, Options{MaxSteps: 10000}); err != nil {
		t.Fatal(err)
	}
	for l := range 32 {
		if want := 11 * (l + 1); int(get(y, l)) != want {
			t.Errorf("lane %d has %d, want %d", l, get(y, l), want)
		}
	}
}

// exchange writes lane to shared memory and reads the neighbour's.
func exchange(t testing.TB, sync bool) *code.Func {
	return kernel(t, 64, 256, []string{"y"}, func(b *code.Builder, p []code.Value) {
		i := b.TidX()
		slot := func(i code.Value) code.Value { return b.Mad32(i, b.Const32(4), b.SharedBase()) }
		b.StShared(4, slot(i), 0, b.Add32(i, b.Const32(100)))
		if sync {
			b.BarSync()
		}
		b.At(at(9))
		v := b.LdShared(4, slot(b.And32(b.Add32(i, b.Const32(33)), b.Const32(63))), 0)
		b.StGlobal(4, word(b, p[0], i), 0, 0, v)
	})
}

func TestBarrierExchange(t *testing.T) {
	y := make([]byte, 256)
	st, err := Run(context.Background(), exchange(t, true), Launch{Args: args(y)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 64 {
		if want := uint32(100 + (i+33)%64); get(y, i) != want {
			t.Errorf("y[%d] is %d, want %d", i, get(y, i), want)
		}
	}
	if st.Barriers != 2 || st.SharedBytes != 512 {
		t.Errorf("stats %+v", st)
	}
}

func TestErrors(t *testing.T) {
	lane4 := func(b *code.Builder, p code.Value) code.Value { return word(b, p, b.LaneID()) }
	for _, c := range []struct {
		name, want string
		f          *code.Func
		opt        Options
		args       []Arg
	}{
		{"bounds", "t.tile:5:2: thread 3 of block (0, 0, 0): ld.global.b32: 4 bytes at x byte 12 (of 12), element 3 of u32: 4 of them lie behind it [Sim.E1]\n\thelp: leave out what lies outside, by if or a smaller tile, or give x 4 elements", kernel(t, 32, 0, []string{"x"}, func(b *code.Builder, p []code.Value) {
			b.At(at(5)).LdGlobal(4, lane4(b, p[0]), 0, 0)
		}), Options{}, args(make([]byte, 12))},
		{"before", "4 bytes at x byte -4 (of 128): 4 of them lie before it [Sim.E1]\n\thelp: offsets begin at 0", kernel(t, 32, 0, []string{"x"}, func(b *code.Builder, p []code.Value) {
			b.LdGlobal(4, lane4(b, p[0]), -4, 0)
		}), Options{}, args(make([]byte, 128))},
		{"null", "4 bytes at address 0x10 [Sim.E1]", kernel(t, 32, 0, nil, func(b *code.Builder, p []code.Value) {
			b.StGlobal(4, b.Const64(16), 0, 0, b.Const32(0))
		}), Options{}, nil},
		{"align", "address x byte 4 (of 128) is not a multiple of the 8 bytes accessed [Sim.E2]", kernel(t, 32, 0, []string{"x"}, func(b *code.Builder, p []code.Value) {
			b.LdGlobal(8, lane4(b, p[0]), 0, 0)
		}), Options{}, args(make([]byte, 128))},
		{"shared bounds", "4 bytes at shared offset 16, which has 16 bytes [Sim.E1]", kernel(t, 32, 16, nil, func(b *code.Builder, p []code.Value) {
			b.StShared(4, b.SharedBase(), 16, b.Const32(0))
		}), Options{}, nil},
		{"unset", "thread 0 of block (0, 0, 0): ld.shared.b32: read of shared offset 0 before anything was written there [Sim.E4]", kernel(t, 32, 16, nil, func(b *code.Builder, p []code.Value) {
			b.LdShared(4, b.SharedBase(), 0)
		}), Options{}, nil},
		{"fresh", "read of x byte 0 (of 128) before anything was written there [Sim.E4]", kernel(t, 32, 0, []string{"x"}, func(b *code.Builder, p []code.Value) {
			b.LdGlobal(4, lane4(b, p[0]), 0, 0)
		}), Options{}, []Arg{{Buffer: make([]byte, 128), Fresh: true}}},
		{"race in warp", "t.tile:9:2: thread 31 of block (0, 0, 0): ld.shared.b32: read of shared offset 0", exchangeOne(t), Options{}, nil},
		{"race", "t.tile:9:2: thread 0 of block (0, 0, 0): ld.shared.b32: read of shared offset 132 before", exchange(t, false), Options{}, args(make([]byte, 256))},
		{"partial", "vote.any: only lanes 0x00000001 are active [Sim.E6]", kernel(t, 32, 0, nil, func(b *code.Builder, p []code.Value) {
			first := b.SetpU32(code.EQ, b.LaneID(), b.Const32(0))
			b.If(first, func() []code.Value { b.Emit(code.OpVoteAny, nil, first); return nil }, nil)
		}), Options{}, nil},
		{"deadlock", "t.tile:6:2: block (0, 0, 0): bar.sync: warp 0 waits at barrier 0, but warp 1 has ended [Sim.E7]", kernel(t, 64, 0, nil, func(b *code.Builder, p []code.Value) {
			b.If(b.SetpU32(code.LT, b.TidX(), b.Const32(32)), func() []code.Value { b.At(at(6)).BarSync(); return nil }, nil)
		}), Options{}, nil},
		{"steps", "t.tile:1:2: thread 0 of block (0, 0, 0): ", endless(t), Options{MaxSteps: 1000}, nil},
		{"zero", "div.u32: division by zero [Sim.E9]", kernel(t, 32, 0, []string{"x"}, func(b *code.Builder, p []code.Value) {
			b.Emit(code.OpDivU32, nil, b.Const32(1), b.LaneID())
		}), Options{}, args(nil)},
	} {
		_, err := Run(context.Background(), c.f, Launch{Args: c.args}, c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.name, err, c.want)
		}
	}
}

// chain has the warps of each block wait for words of the block before, the first for ones that are there, and store them for the next one.
func chain(t testing.TB) *code.Func {
	return kernel(t, 64, 0, []string{"x"}, func(b *code.Builder, p []code.Value) {
		i := b.Mad32(b.CtaidX(), b.Const32(64), b.TidX())
		from, zero := word(b, p[0], i), b.Const32(0)
		absent := func(v code.Value) code.Value { return b.SetpU32(code.EQ, v, zero) }
		v := b.While([]code.Value{zero}, func(c []code.Value) code.Value { return absent(c[0]) }, func(c []code.Value) []code.Value {
			b.At(at(7)).Emit(code.OpAwaitGlobal, []int64{0}, from, absent(c[0]))
			return b.Emit(code.OpLdRelaxedGlobalB32, []int64{0}, from)
		})
		b.Emit(code.OpStRelaxedGlobalB32, []int64{256}, from, b.Add32(v[0], b.Const32(1)))
		b.Emit(code.OpStRelaxedGlobalB32, []int64{0}, from, zero)
	})
}

// TestAwait has blocks wait for words: what nobody stores, among them what a block would store that is left out, is an error, not a hang.
func TestAwait(t *testing.T) {
	f := chain(t)
	for _, c := range []struct {
		name  string
		first int // words that are there
		opt   Options
		want  string
	}{
		{"all", 64, Options{}, ""},
		{"all, fast", 64, Options{Fast: true}, ""},
		{"one at a time", 64, Options{Workers: 1}, ""},
		{"a word missing", 63, Options{}, "t.tile:7:2: block (0, 0, 0): await.relaxed.gpu.global.b32: nobody who can run writes what warp 1 waits for [Sim.E7]"},
		{"a word missing, fast", 63, Options{Fast: true}, "block (0, 0, 0): await.relaxed.gpu.global.b32: nobody"},
		{"blocks left out", 64, Options{Blocks: 2}, "block (2, 0, 0): await.relaxed.gpu.global.b32: nobody"},
		{"the first only", 64, Options{Blocks: 1}, ""},
	} {
		x := make([]byte, 5*256)
		for i := range c.first {
			binary.LittleEndian.PutUint32(x[4*i:], uint32(i+1))
		}
		_, err := Run(context.Background(), f, Launch{Grid: [3]int{4}, Args: args(x)}, c.opt)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v\nwant %s", c.name, err, c.want)
		}
		if c.want != "" || c.opt.Blocks > 0 {
			continue
		}
		for i := range 5 * 64 {
			want := uint32(0)
			if i >= 4*64 {
				want = uint32(i - 4*64 + 5)
			}
			if get(x, i) != want {
				t.Fatalf("%s: word %d is %d, want %d", c.name, i, get(x, i), want)
			}
		}
	}
	// A word that no memory has is found where it is waited for, whatever the other lanes do.
	outside := kernel(t, 32, 0, []string{"x"}, func(b *code.Builder, p []code.Value) {
		b.At(at(9)).Emit(code.OpAwaitGlobal, []int64{4}, p[0], b.SetpU32(code.EQ, b.TidX(), b.Const32(3)))
	})
	if _, err := Run(context.Background(), outside, Launch{Args: args(make([]byte, 4))}, Options{}); err == nil || !strings.Contains(err.Error(), "t.tile:9:2: thread 3 of block (0, 0, 0): await.relaxed.gpu.global.b32: 4 bytes at x byte 4 (of 4), element 1 of u32: 4 of them lie behind it [Sim.E1]") {
		t.Error(err)
	}
}

func exchangeOne(t testing.TB) *code.Func {
	return kernel(t, 32, 128, nil, func(b *code.Builder, p []code.Value) {
		i := b.TidX()
		b.If(b.SetpU32(code.LT, i, b.Const32(31)), func() []code.Value {
			b.StShared(4, b.Mad32(i, b.Const32(4), b.SharedBase()), 4, i)
			return nil
		}, nil)
		b.Emit(code.OpBarWarp, nil)
		b.At(at(9)).LdShared(4, b.Mad32(b.Sub32(b.Const32(31), i), b.Const32(4), b.SharedBase()), 0)
	})
}

func TestRaces(t *testing.T) {
	slot := func(b *code.Builder, i code.Value) code.Value { return b.Mad32(i, b.Const32(4), b.SharedBase()) }
	for _, c := range []struct {
		name, want string
		f          *code.Func
	}{
		{"write write", "st.shared.b32: shared offset 0 was written by thread 0 in line 1, and no barrier lies between [Sim.E5]", kernel(t, 32, 64, nil, func(b *code.Builder, p []code.Value) {
			b.StShared(4, b.SharedBase(), 0, b.LaneID())
		})},
		{"read write", "shared offset 0 was read by several threads in line 1, and no barrier lies between [Sim.E5]", kernel(t, 64, 256, nil, func(b *code.Builder, p []code.Value) {
			i := b.TidX()
			b.StShared(4, slot(b, i), 0, i)
			b.BarSync()
			b.LdShared(4, b.SharedBase(), 0)
			b.StShared(4, slot(b, i), 0, i)
		})},
		{"write read", "was written by thread 0 in line 1, and no barrier lies between [Sim.E5]", kernel(t, 32, 256, nil, func(b *code.Builder, p []code.Value) {
			i := b.TidX()
			b.StShared(4, slot(b, i), 0, i)
			b.LdShared(4, b.SharedBase(), 0)
		})},
		{"warp barrier is enough within a warp", "", kernel(t, 32, 256, nil, func(b *code.Builder, p []code.Value) {
			i := b.TidX()
			b.StShared(4, slot(b, i), 0, i)
			b.Emit(code.OpBarWarp, nil)
			b.LdShared(4, b.SharedBase(), 0)
			b.Emit(code.OpBarWarp, nil)
			b.StShared(4, slot(b, i), 0, i)
		})},
		{"but not between warps", "[Sim.E5]", kernel(t, 64, 256, nil, func(b *code.Builder, p []code.Value) {
			i := b.TidX()
			b.StShared(4, slot(b, i), 0, i)
			b.Emit(code.OpBarWarp, nil)
			b.StShared(4, slot(b, b.Xor32(i, b.Const32(32))), 0, i)
		})},
	} {
		_, err := Run(context.Background(), c.f, Launch{}, Options{})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v\nwant %s", c.name, err, c.want)
		}
		if _, err := Run(context.Background(), c.f, Launch{}, Options{Fast: true}); err != nil {
			t.Errorf("%s: fast: %v", c.name, err)
		}
	}
}

func TestReadOnlyParameter(t *testing.T) {
	b := code.NewBuilder("k").At(at(1))
	x := b.Param(code.Param{Name: "x", Kind: code.Pointer, Type: code.B64, ReadOnly: true})
	b.Func().Launch.Block = 1
	b.StGlobal(4, x, 0, 0, b.Const32(0))
	f, err := b.Done()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Run(context.Background(), f, Launch{Args: args(make([]byte, 4))}, Options{}); err == nil || !strings.Contains(err.Error(), "[Sim.E3]") {
		t.Error(err)
	}
}

func endless(t testing.TB) *code.Func {
	return kernel(t, 32, 0, nil, func(b *code.Builder, p []code.Value) {
		b.While([]code.Value{b.Const32(0)}, func(c []code.Value) code.Value { return b.SetpU32(code.GE, c[0], b.Const32(0)) },
			func(c []code.Value) []code.Value { return []code.Value{b.Add32(c[0], b.Const32(1))} })
	})
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := Run(ctx, endless(t), Launch{Grid: [3]int{100}}, Options{})
	if !errors.Is(err, context.DeadlineExceeded) || !regexp.MustCompile(`^t\.tile:1:2: interrupted; warp 0 of block \(\d+, 0, 0\) stood here \(`).MatchString(err.Error()) {
		t.Error(err)
	}
	if d := time.Since(start); d > 500*time.Millisecond { // 70 ms where the machine is idle
		t.Errorf("stopped after %v", d)
	}
}

func TestAtomics(t *testing.T) {
	f := kernel(t, 64, 0, []string{"x", "y"}, func(b *code.Builder, p []code.Value) {
		i := b.TidX()
		one := b.Const32(1)
		b.Emit(code.OpRedGlobalAdd, []int64{0}, p[0], i)
		b.Emit(code.OpRedGlobalOr, []int64{4}, p[0], b.Shl32(one, i))
		b.Emit(code.OpRedGlobalAnd, []int64{8}, p[0], b.Emit1(code.OpNot32, nil, b.Shl32(one, i)))
		b.Emit(code.OpRedGlobalAddF32, []int64{12}, p[0], b.Const32(0x3f800000))
		old := b.Emit1(code.OpAtomGlobalAdd, []int64{16}, p[0], one)
		b.StGlobal(4, word(b, p[1], b.Mad32(b.CtaidX(), b.Const32(64), i)), 0, 0, old)
		b.Emit(code.OpAtomGlobalCas, []int64{20}, p[0], b.Const32(5), i)
		b.Emit(code.OpAtomGlobalXor, []int64{24}, p[0], i)
		b.Emit(code.OpAtomGlobalExch, []int64{28}, p[0], i)
	})
	x, y := words(0, 0, ^uint32(0), 0, 0, 5, 0, 0), make([]byte, 512)
	if _, err := Run(context.Background(), f, Launch{Grid: [3]int{2}, Args: args(x, y)}, Options{}); err != nil {
		t.Fatal(err)
	}
	want := []uint32{2 * 63 * 32, ^uint32(0), 0, math.Float32bits(128), 128, 0, 0, 63}
	for i, w := range want {
		if get(x, i) != w {
			t.Errorf("x[%d] is %#x, want %#x", i, get(x, i), w)
		}
	}
	if get(y, 64) != 64 || get(y, 127) != 127 {
		t.Errorf("old values %d, %d: blocks did not run in order", get(y, 64), get(y, 127))
	}
}

// A global buffer used by two threads, one of them writing, needs a barrier.
func TestGlobalRaces(t *testing.T) {
	at := func(b *code.Builder, p code.Value, k code.Value) code.Value { return word(b, p, k) }
	for _, c := range []struct {
		name string
		race bool
		body func(b *code.Builder, x, tid, other, one code.Value)
	}{
		{"own element", false, func(b *code.Builder, x, tid, other, one code.Value) {
			b.StGlobal(4, at(b, x, tid), 0, 0, b.Emit1(code.OpAdd32, nil, b.LdGlobal(4, at(b, x, tid), 0, 0), one))
			b.LdGlobal(4, at(b, x, tid), 0, 0)
		}},
		{"read after write", true, func(b *code.Builder, x, tid, other, one code.Value) {
			b.StGlobal(4, at(b, x, tid), 0, 0, one)
			b.LdGlobal(4, at(b, x, other), 0, 0)
		}},
		{"write after read", true, func(b *code.Builder, x, tid, other, one code.Value) {
			b.LdGlobal(4, at(b, x, other), 0, 0)
			b.StGlobal(4, at(b, x, tid), 0, 0, one)
		}},
		{"write after write", true, func(b *code.Builder, x, tid, other, one code.Value) {
			b.StGlobal(4, at(b, x, tid), 0, 0, one)
			b.StGlobal(4, at(b, x, other), 0, 0, one)
		}},
		{"write after many read", true, func(b *code.Builder, x, tid, other, one code.Value) {
			b.LdGlobal(4, x, 0, 0)
			b.Guarded(b.SetpU32(code.EQ, tid, b.Const32(0)), code.OpStGlobalB32, []int64{0, 0}, []code.Value{x, one})
		}},
		{"barrier between", false, func(b *code.Builder, x, tid, other, one code.Value) {
			b.StGlobal(4, at(b, x, tid), 0, 0, one)
			b.BarSync()
			b.LdGlobal(4, at(b, x, other), 0, 0)
			b.BarSync()
			b.StGlobal(4, at(b, x, tid), 0, 0, one)
		}},
		{"atomics", false, func(b *code.Builder, x, tid, other, one code.Value) {
			b.Emit(code.OpRedGlobalOr, []int64{0}, x, one)
			b.LdGlobal(4, x, 0, 0)
		}},
		{"each word an access", false, func(b *code.Builder, x, tid, other, one code.Value) {
			b.Emit(code.OpStRelaxedGlobalB32, []int64{0}, at(b, x, tid), one)
			b.Emit(code.OpLdRelaxedGlobalB32, []int64{0}, at(b, x, other))
		}},
	} {
		f := kernel(t, 64, 0, []string{"x", "y"}, func(b *code.Builder, p []code.Value) {
			tid := b.TidX()
			c.body(b, p[0], tid, b.Emit1(code.OpXor32, nil, tid, b.Const32(33)), b.Const32(1))
			b.StGlobal(4, word(b, p[1], tid), 0, 0, tid)
		})
		for _, fast := range []bool{false, true} {
			_, err := Run(context.Background(), f, Launch{Args: args(make([]byte, 256), make([]byte, 256))}, Options{Fast: fast})
			if race := err != nil && strings.Contains(err.Error(), "[Sim.E5]"); race != (c.race && !fast) || err != nil && !race {
				t.Errorf("%s, fast %v: %v", c.name, fast, err)
			}
		}
	}
	// Blocks are never ordered, whichever of them comes first.
	for _, block := range []int64{0, 7} {
		f := kernel(t, 32, 0, []string{"x", "y"}, func(b *code.Builder, p []code.Value) {
			v := b.LdGlobal(4, p[0], 0, 0)
			b.Guarded(b.SetpU32(code.EQ, b.Emit1(code.OpAdd32, nil, b.TidX(), b.CtaidX()), b.Const32(block)), code.OpStGlobalB32, []int64{0, 0}, []code.Value{p[0], v})
		})
		if _, err := Run(context.Background(), f, Launch{Grid: [3]int{8}, Args: args(make([]byte, 4), nil)}, Options{}); err == nil || !strings.Contains(err.Error(), "[Sim.E5]") {
			t.Errorf("block %d: %v", block, err)
		}
	}
}

func TestExchangeInWarp(t *testing.T) {
	f := kernel(t, 32, 0, []string{"y"}, func(b *code.Builder, p []code.Value) {
		l := b.LaneID()
		is := b.SetpU32(code.LT, l, b.Const32(3))
		pick := func(v code.Value) code.Value { return b.Select(v, b.Const32(1), b.Const32(0)) }
		for k, v := range []code.Value{
			b.Emit1(code.OpBallot, nil, is), pick(b.Emit1(code.OpVoteAny, nil, is)), pick(b.Emit1(code.OpVoteAll, nil, is)),
			b.Emit1(code.OpShflIdx, nil, l, b.Add32(l, b.Const32(5))), b.Emit1(code.OpShflBfly, []int64{6}, l),
			b.Emit1(code.OpShflUp, []int64{4}, l), b.Emit1(code.OpShflDown, []int64{4}, l),
		} {
			b.StGlobal(4, word(b, p[0], l), 128*k, 0, v)
		}
	})
	y := make([]byte, 7*128)
	if _, err := Run(context.Background(), f, Launch{Args: args(y)}, Options{}); err != nil {
		t.Fatal(err)
	}
	for l := range 32 {
		up, down := l-4, l+4
		if up < 0 {
			up = l
		}
		if down > 31 {
			down = l
		}
		for k, want := range []int{7, 1, 0, (l + 5) % 32, l ^ 6, up, down} {
			if int(get(y, 32*k+l)) != want {
				t.Errorf("row %d lane %d is %d, want %d", k, l, get(y, 32*k+l), want)
			}
		}
	}
}

// mmaKernel computes one tile by loads that follow the PTX manual's formulas for
// the fragments: element by element, apart from the simulator's own.
func mmaKernel(t testing.TB, op code.Op) *code.Func {
	return kernel(t, 32, 0, []string{"a", "b", "c", "d"}, func(b *code.Builder, p []code.Value) {
		lane := b.LaneID()
		group, tig := b.Shr32(lane, b.Const32(2)), b.And32(lane, b.Const32(3))
		c := func(v int64) code.Value { return b.Const32(v) }
		half := func(base, row, col code.Value, stride int64) code.Value {
			return b.LdGlobal(2, b.Add64(base, b.MulWideU(b.Mad32(row, c(stride), col), c(2))), 0, 0)
		}
		var a, bb, acc []code.Value
		for r := range int64(4) {
			var h [2]code.Value
			for k := range int64(2) {
				i := 2*r + k // index of the element, as in the manual
				row := group
				if !(i < 2 || i >= 4 && i < 6) {
					row = b.Add32(group, c(8))
				}
				col := b.Mad32(tig, c(2), c(i&1))
				if i >= 4 {
					col = b.Add32(col, c(8))
				}
				h[k] = half(p[0], row, col, 16)
			}
			a = append(a, b.Pack16(h[0], h[1]))
		}
		for r := range int64(2) {
			var h [2]code.Value
			for k := range int64(2) {
				row := b.Mad32(tig, c(2), c(k+8*r))
				h[k] = half(p[1], row, group, 8)
			}
			bb = append(bb, b.Pack16(h[0], h[1]))
		}
		wide := op != code.OpMmaF16F16
		cell := func(i int64) code.Value {
			row := group
			if i >= 2 {
				row = b.Add32(group, c(8))
			}
			return b.Mad32(row, c(8), b.Mad32(tig, c(2), c(i&1)))
		}
		for i := int64(0); i < 4; i++ {
			if wide {
				acc = append(acc, b.LdGlobal(4, word(b, p[2], cell(i)), 0, 0))
			} else if i%2 == 0 {
				h := func(i int64) code.Value {
					return b.LdGlobal(2, b.Add64(p[2], b.MulWideU(cell(i), c(2))), 0, 0)
				}
				acc = append(acc, b.Pack16(h(i), h(i+1)))
			}
		}
		d := b.Mma(op, a, bb, acc)
		for i := int64(0); i < 4; i++ {
			if wide {
				b.StGlobal(4, word(b, p[3], cell(i)), 0, 0, d[i])
				continue
			}
			v := b.Trunc16(d[i/2])
			if i%2 == 1 {
				v = b.Hi16(d[i/2])
			}
			b.StGlobal(2, b.Add64(p[3], b.MulWideU(cell(i), c(2))), 0, 0, v)
		}
	})
}

func TestMma(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, c := range []struct {
		op      code.Op
		in, out dtype.Type
	}{{code.OpMmaF16F32, dtype.F16, dtype.F32}, {code.OpMmaF16F16, dtype.F16, dtype.F16}, {code.OpMmaBF16F32, dtype.BF16, dtype.F32}} {
		f := mmaKernel(t, c.op)
		outBytes := c.out.Bits() / 8
		for round := range 40 {
			a, b, acc, d := make([]byte, 512), make([]byte, 256), make([]byte, 128*outBytes), make([]byte, 128*outBytes)
			value := func(typ dtype.Type) uint64 {
				switch round % 4 {
				case 0:
					return typ.Encode(float64(r.Intn(17)-8), false)
				case 1:
					return typ.Encode(r.NormFloat64(), false)
				case 2: // any finite code of moderate size
					return typ.Encode(math.Ldexp(r.NormFloat64(), r.Intn(20)-12), false)
				}
				for {
					if v := r.Uint64() & typ.Mask(); !math.IsNaN(typ.Decode(v)) && !math.IsInf(typ.Decode(v), 0) {
						return v
					}
				}
			}
			for i := range 256 {
				dtype.Put(a, 16, i, value(c.in))
			}
			for i := range 128 {
				dtype.Put(b, 16, i, value(c.in))
				dtype.Put(acc, c.out.Bits(), i, value(c.out))
			}
			if _, err := Run(context.Background(), f, Launch{Args: args(a, b, acc, d)}, Options{}); err != nil {
				t.Fatal(err)
			}
			for m := range 16 {
				for n := range 8 {
					sum := new(big.Float).SetPrec(2000).SetFloat64(c.out.Decode(dtype.Get(acc, c.out.Bits(), 8*m+n)))
					for k := range 16 {
						x := new(big.Float).SetPrec(2000).SetFloat64(c.in.Decode(dtype.Get(a, 16, 16*m+k)))
						sum.Add(sum, x.Mul(x, new(big.Float).SetFloat64(c.in.Decode(dtype.Get(b, 16, 8*k+n)))))
					}
					var want uint64
					if c.out == dtype.F32 {
						v, _ := sum.Float32()
						want = uint64(math.Float32bits(v + 0))
					} else { // rounding to 11 bits, or to the subnormal grid
						want = roundF16(sum)
					}
					if got := dtype.Get(d, c.out.Bits(), 8*m+n); got != want {
						t.Fatalf("%s round %d: d[%d, %d] is %#x, want %#x", c.op, round, m, n, got, want)
					}
				}
			}
		}
	}
}

// roundF16 rounds by searching the two f16 neighbours.
func roundF16(v *big.Float) uint64 {
	if v.Sign() == 0 {
		return 0
	}
	mag := new(big.Float).Abs(v)
	lo, hi := uint64(0), uint64(0x7c00) // 0x7c00 stands for 2^16 here
	decode := func(c uint64) *big.Float {
		if c == 0x7c00 {
			return big.NewFloat(65536)
		}
		return big.NewFloat(dtype.F16.Decode(c))
	}
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; decode(mid).Cmp(mag) <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	below := new(big.Float).SetPrec(2000).Sub(mag, decode(lo))
	above := new(big.Float).SetPrec(2000).Sub(decode(hi), mag)
	code := lo
	if c := below.Cmp(above); c > 0 || c == 0 && lo&1 == 1 {
		code = hi
	}
	if v.Sign() < 0 {
		code |= 0x8000
	}
	return code
}

// TestFastLoops holds the loops of their own in pure equal to the rows' meaning.
func TestFastLoops(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for _, op := range code.Rows() {
		row := op.Row()
		if row.Meaning == nil || len(row.In) == 0 || row.NonZero {
			continue
		}
		i := inst{op: op, imm: edgeImm(row), row: row, meaning: row.Meaning, nin: len(row.In), in: [16]int32{0, 32, 64}, out: [8]int32{96}}
		w := &warp{regs: make([]uint64, 128), mask: ^uint32(0)}
		for k, typ := range row.In {
			for l := range lanes {
				v := r.Uint64() & typ.Mask()
				if l%4 == 0 {
					v &= 63
				}
				w.regs[32*k+l] = v
			}
		}
		w.pure(&i)
		for l := range lanes {
			in := []uint64{w.regs[l], w.regs[32+l], w.regs[64+l]}[:len(row.In)]
			if want := row.Eval(i.imm, in)[0]; w.regs[96+l] != want {
				t.Errorf("%s %x: %x, want %x", op, in, w.regs[96+l], want)
			}
			if w.regs[96+l]&^row.Out[0].Mask() != 0 {
				t.Errorf("%s %x: %x has bits above its type", op, in, w.regs[96+l])
			}
		}
	}
}

func edgeImm(row *code.Row) []int64 {
	var imm []int64
	for _, k := range row.Imm {
		imm = append(imm, map[code.ImmKind]int64{code.ImmLut: code.LopA&code.LopB | code.LopC, code.ImmBit: 5, code.ImmWidth: 9, code.ImmCmp: int64(code.LT)}[k])
	}
	return imm
}

func BenchmarkLaneOps(b *testing.B) {
	f := kernel(b, 128, 0, []string{"y"}, func(b *code.Builder, p []code.Value) {
		i := b.TidX()
		r := b.For(b.Const32(0), b.Const32(1000), b.Const32(1), 1, []code.Value{i, i}, func(k code.Value, c []code.Value) []code.Value {
			x := b.Lop3(b.Shr32(c[0], b.Const32(3)), c[1], k, 0x96)
			y := b.Emit1(code.OpFmaF16x2, nil, c[1], x, k)
			return []code.Value{b.Add32(b.Prmt(x, c[1], 0x5140), k), b.BfeS(y, 4, 6)}
		})
		b.StGlobal(4, word(b, p[0], i), 0, 0, b.Add32(r[0], r[1]))
	})
	var ops int64
	for b.Loop() {
		st, err := Run(context.Background(), f, Launch{Args: args(make([]byte, 512))}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		ops += st.LaneOps
	}
	b.ReportMetric(float64(ops)/b.Elapsed().Seconds()/1e6, "Mlaneops/s")
}

func BenchmarkMma(b *testing.B) {
	f := mmaKernel(b, code.OpMmaF16F32)
	a := make([]byte, 512)
	r := rand.New(rand.NewSource(1))
	for i := range 256 {
		dtype.Put(a, 16, i, dtype.F16.Encode(r.NormFloat64(), false))
	}
	for b.Loop() { // all blocks write one result, which is a race
		if _, err := Run(context.Background(), f, Launch{Grid: [3]int{16}, Args: args(a, a, make([]byte, 512), make([]byte, 512))}, Options{Workers: 1, Fast: true}); err != nil {
			b.Fatal(err)
		}
	}
}
