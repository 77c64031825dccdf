package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// TestCopies runs two groups of copies of a word a thread and uses what they bring,
// too early or in time.
func TestCopies(t *testing.T) {
	const threads = 64
	// f begins both groups; use waits, uses and gives a word to store.
	run := func(fast bool, size int64, skew int64, use func(b *code.Builder, mine, theirs code.Value) code.Value) ([]byte, Stats, error) {
		f := kernel(t, threads, 8*threads, []string{"a", "c"}, func(b *code.Builder, p []code.Value) {
			tid := b.TidX()
			mine := b.Add32(b.SharedBase(), b.Mul32(tid, b.Const32(4)))
			theirs := b.Add32(b.SharedBase(), b.Mul32(b.Xor32(tid, b.Const32(33)), b.Const32(4)))
			for g := range int64(2) {
				b.At(at(int(2+g))).Emit(code.OpCpAsyncB32, []int64{4 * threads * g, 4*threads*g + skew, 0}, mine, word(b, p[0], tid), b.Const32(size))
				b.Emit(code.OpCpAsyncCommit, nil)
			}
			v := use(b.At(at(4)), mine, theirs)
			b.At(at(5)).Emit(code.OpStGlobalB32, []int64{0, 0}, word(b, p[1], tid), v)
		})
		a, c := make([]byte, 8*threads), make([]byte, 4*threads)
		for k := range 2 * threads {
			binary.LittleEndian.PutUint32(a[4*k:], uint32(0x01010101*k))
		}
		st, err := Run(context.Background(), f, Launch{Args: []Arg{{Buffer: a}, {Buffer: c}}}, Options{Fast: fast})
		return c, st, err
	}
	load := func(b *code.Builder, from code.Value, group int64) code.Value {
		return b.Emit1(code.OpLdSharedB32, []int64{4 * threads * group}, from)
	}
	wait := func(b *code.Builder, n int64) { b.Emit(code.OpCpAsyncWait, []int64{n}) }
	for _, c := range []struct {
		name       string
		size, skew int64
		use        func(b *code.Builder, mine, theirs code.Value) code.Value
		code       string
		line       int
		want       func(k int) uint32
	}{
		{"no wait", 4, 0, func(b *code.Builder, mine, _ code.Value) code.Value { return load(b, mine, 0) }, errAsync, 4, nil},
		{"wait for the first, use the second", 4, 0, func(b *code.Builder, mine, _ code.Value) code.Value { wait(b, 1); return load(b, mine, 1) }, errAsync, 4, nil},
		{"own word of the first", 4, 0, func(b *code.Builder, mine, _ code.Value) code.Value { wait(b, 1); return load(b, mine, 0) }, "", 0, func(k int) uint32 { return uint32(0x01010101 * k) }},
		{"no barrier", 4, 0, func(b *code.Builder, _, theirs code.Value) code.Value { wait(b, 0); return load(b, theirs, 1) }, errUnset, 4, nil},
		{"barrier before the wait", 4, 0, func(b *code.Builder, _, theirs code.Value) code.Value {
			b.BarSync()
			wait(b, 0)
			return load(b, theirs, 1)
		}, errAsync, 4, nil},
		{"another's word of the second", 4, 0, func(b *code.Builder, _, theirs code.Value) code.Value {
			b.Emit(code.OpCpAsyncWaitAll, nil)
			b.BarSync()
			return load(b, theirs, 1)
		}, "", 0, func(k int) uint32 { return uint32(0x01010101 * (k ^ 33 + threads)) }},
		{"store over a copy", 4, 0, func(b *code.Builder, mine, _ code.Value) code.Value {
			b.Emit(code.OpStSharedB32, []int64{0}, mine, mine)
			return mine
		}, errAsync, 4, nil},
		{"copy over a load", 4, 0, func(b *code.Builder, mine, theirs code.Value) code.Value {
			b.Emit(code.OpCpAsyncWaitAll, nil)
			b.BarSync()
			v := load(b, theirs, 0)
			b.Emit(code.OpCpAsyncB32, []int64{0, 0, 0}, mine, b.Zext32(b.Const32(0)), b.Const32(0))
			return v
		}, errAsync, 4, nil},
		{"no barrier in a warp", 4, 0, func(b *code.Builder, mine, _ code.Value) code.Value {
			wait(b, 0)
			return load(b, b.Xor32(mine, b.Const32(4)), 0)
		}, errRace, 4, nil},
		{"copy over a load in a warp", 4, 0, func(b *code.Builder, mine, _ code.Value) code.Value {
			wait(b, 0)
			b.BarSync()
			v := load(b, b.Xor32(mine, b.Const32(4)), 0)
			b.Emit(code.OpCpAsyncB32, []int64{0, 0, 0}, mine, b.Zext32(b.Const32(0)), b.Const32(0))
			return v
		}, errRace, 4, nil},
		{"three bytes", 3, 0, func(b *code.Builder, mine, _ code.Value) code.Value { wait(b, 0); return load(b, mine, 0) }, "", 0, func(k int) uint32 { return uint32(0x010101 * k) }},
		{"nothing, from nowhere", 0, 1 << 20, func(b *code.Builder, mine, _ code.Value) code.Value { wait(b, 0); return load(b, mine, 0) }, "", 0, func(int) uint32 { return 0 }},
		{"not aligned", 4, 2, func(b *code.Builder, mine, _ code.Value) code.Value { return mine }, errAlign, 2, nil},
		{"behind the end", 4, 4 * threads, func(b *code.Builder, mine, _ code.Value) code.Value { return mine }, errBounds, 3, nil},
		{"too many bytes", 5, 0, func(b *code.Builder, mine, _ code.Value) code.Value { return mine }, errBounds, 2, nil},
		{"check", 4, 0, func(b *code.Builder, mine, _ code.Value) code.Value {
			b.Emit(code.OpCheck, nil, b.SetpU32(code.LT, b.TidX(), b.Const32(40)))
			return mine
		}, errBounds, 4, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, st, err := run(false, c.size, c.skew, c.use)
			var list diag.List
			if c.code != "" {
				if !errors.As(err, &list) || list[0].Code != c.code || list[0].Pos.Line != c.line {
					t.Fatalf("want %s in line %d, got %v", c.code, c.line, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if st.AsyncCopies != 4 {
				t.Errorf("%d copies", st.AsyncCopies)
			}
			for k := range threads {
				if got := binary.LittleEndian.Uint32(out[4*k:]); got != c.want(k) {
					t.Fatalf("thread %d has %#x, want %#x", k, got, c.want(k))
				}
			}
		})
	}
	// Without checks too, nothing is there before the wait.
	out, _, err := run(true, 4, 0, func(b *code.Builder, mine, _ code.Value) code.Value { return load(b, mine, 0) })
	if err != nil || binary.LittleEndian.Uint32(out[4:]) != 0xa5a5a5a5 {
		t.Errorf("%x %v", out[:8], err)
	}
}
