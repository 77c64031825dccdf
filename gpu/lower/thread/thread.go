// Package thread writes thread code for one thread among those that run: what its
// number says of its place in a layout, bit fields of its words, and accesses under
// a guard. It is what the families of gpu/lower emit with.
package thread

import (
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Thread is a builder of code together with the number of the thread that runs it.
type Thread struct {
	*code.Builder
	ID code.Value // number among the threads that run

	known map[string][]code.Value // computed from ID so far
	added []string                // its keys, in order
	key   []byte                  // of the last table looked for
}

// New is a thread with a number.
func New(b *code.Builder, id code.Value) *Thread {
	return &Thread{Builder: b, ID: id, known: map[string][]code.Value{}}
}

// Scope begins a region: what is computed for layouts in it is forgotten by end,
// since it is visible only there.
func (t *Thread) Scope() (end func()) {
	mark := len(t.added)
	return func() {
		for _, key := range t.added[mark:] {
			delete(t.known, key)
		}
		t.added = t.added[:mark]
	}
}

func (t *Thread) know(key string, values []code.Value) {
	t.known[key] = values
	t.added = append(t.added, key)
}

// Op emits one instruction with at most one result.
func (t *Thread) Op(op code.Op, imm []int64, in ...code.Value) code.Value {
	if out := t.Emit(op, imm, in...); len(out) > 0 {
		return out[0]
	}
	return 0
}

// Guard emits an access, under the guard unless that is 0; otherwise is what it gives
// where the guard is false.
func (t *Thread) Guard(guard code.Value, op code.Op, imm []int64, otherwise []code.Value, in ...code.Value) []code.Value {
	if guard == 0 {
		return t.Emit(op, imm, in...)
	}
	return t.Guarded(guard, op, imm, in, otherwise...)
}

// Both is x && y, where 0 stands for true.
func (t *Thread) Both(x, y code.Value) code.Value {
	if x == 0 || y == 0 {
		return x | y
	}
	return t.Op(code.OpAndPred, nil, x, y)
}

// Plus is x + y, where 0 stands for nothing.
func (t *Thread) Plus(x, y code.Value) code.Value {
	if x == 0 || y == 0 {
		return x | y
	}
	return t.Add32(x, y)
}

// DivideU32 is x / by.
func (t *Thread) DivideU32(x code.Value, by int64) code.Value {
	if by > 0 && by&(by-1) == 0 {
		return t.Op(code.OpShrU32, nil, x, t.Const32(int64(bits.TrailingZeros64(uint64(by)))))
	}
	return t.Op(code.OpDivU32, nil, x, t.Const32(by))
}

// RemainderU32 is x mod by.
func (t *Thread) RemainderU32(x code.Value, by int64) code.Value {
	if by&(by-1) == 0 {
		return t.Op(code.OpAnd32, nil, x, t.Const32(by-1))
	}
	return t.Op(code.OpRemU32, nil, x, t.Const32(by))
}

// Coords are this thread's parts of the index in a layout, per dimension.
func (t *Thread) Coords(lay layout.Layout) []code.Value {
	key := lay.Key()
	if c, ok := t.known[key]; ok {
		return c
	}
	spatial, _ := lay.Digits()
	out := make([]code.Value, lay.Rank())
	for d := range out {
		out[d] = t.Const32(0)
	}
	after := lay.Threads()
	for _, g := range spatial {
		after /= g.Size
		if g.Dim >= 0 {
			out[g.Dim] = t.Add32(out[g.Dim], t.Mul32(t.Digit(after, g.Size, lay.Threads()), t.Const32(int64(g.Stride))))
		}
	}
	t.know(key, out)
	return out
}

// Digit is (ID / after) mod size, of a number below threads.
func (t *Thread) Digit(after, size, threads int) code.Value {
	x := t.ID
	if after > 1 {
		x = t.DivideU32(x, int64(after))
	}
	if after*size >= threads {
		return x
	}
	return t.RemainderU32(x, int64(size))
}

// FirstHolder is true in the thread that comes first among those that hold the
// same elements; ok is false when every thread holds its own.
func (t *Thread) FirstHolder(lay layout.Layout) (first code.Value, ok bool) {
	spatial, _ := lay.Digits()
	after := lay.Threads()
	for _, g := range spatial {
		after /= g.Size
		if g.Dim >= 0 || g.Size == 1 {
			continue
		}
		zero := t.Op(code.OpSetpU32, []int64{int64(code.EQ)}, t.Digit(after, g.Size, lay.Threads()), t.Const32(0))
		if ok {
			zero = t.Op(code.OpAndPred, nil, first, zero)
		}
		first, ok = zero, true
	}
	return first, ok
}
