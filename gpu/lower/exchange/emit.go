package exchange

import (
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Emit writes the conversion of a thread's words, of elements of w bits. What goes
// through shared memory takes Bytes from at on; barrier is that of the threads that run.
func (c Conversion) Emit(t *thread.Thread, words []code.Value, w, at int, barrier func()) []code.Value {
	if c.Kind == "rename" {
		return t.Assemble(len(c.rename), w, func(s int) thread.Field { return thread.Field{Words: words, Pos: c.rename[s] * w} })
	}
	uw := c.Unit * w
	x := make([]code.Value, c.from.Slots()/c.Unit*c.words)
	for i := range x {
		x[i] = t.Field(words, i*uw/c.words, uw/c.words)
	}
	if c.Kind == "shuffle" {
		x = c.shuffle(t, x)
	} else {
		x = c.throughShared(t, x, at, barrier)
	}
	return t.Assemble(len(x), uw/c.words, func(i int) thread.Field { return thread.Field{Words: x[i : i+1]} })
}

// shuffle does the rounds of a conversion.
func (c Conversion) shuffle(t *thread.Thread, x []code.Value) []code.Value {
	r := c.rounds
	x = exchange(t, x, r.before, c.words)
	lane := linearOf(t, r.lane)
	var y []code.Value
	lanes := map[int]code.Value{}
	for _, step := range r.round {
		for k := range c.words {
			v := x[step.unit*c.words+k]
			if !r.stays() {
				if lanes[step.lane] == 0 {
					lanes[step.lane] = t.Op(code.OpXor32, nil, lane, t.Const32(int64(step.lane)))
				}
				v = t.Op(code.OpShflIdx, nil, v, lanes[step.lane])
			}
			y = append(y, v)
		}
	}
	return exchange(t, y, r.after, c.words)
}

// exchange puts unit i^h(thread) at i.
func exchange(t *thread.Thread, x []code.Value, h linear, words int) []code.Value {
	for _, m := range h.masks() {
		p := t.Op(code.OpAnd32, nil, t.ID, t.Const32(int64(m.in)))
		if bits.OnesCount32(m.in) > 1 {
			p = t.Op(code.OpAnd32, nil, t.Op(code.OpPopc32, nil, p), t.Const32(1))
		}
		odd := t.Op(code.OpSetpU32, []int64{int64(code.NE)}, p, t.Const32(0))
		y := make([]code.Value, len(x))
		for i := range x {
			other := (i/words ^ int(m.out)) * words
			y[i] = t.Op(code.OpSelp32, nil, x[other+i%words], x[i], odd)
		}
		x = y
	}
	return x
}

// linearOf computes a linear map of the thread number.
func linearOf(t *thread.Thread, m linear) code.Value {
	shifts := map[int]uint32{} // left shift → bits of the thread number
	for j, c := range m {
		for b := range 32 {
			if c>>b&1 != 0 {
				shifts[b-j] |= 1 << j
			}
		}
	}
	v := t.Const32(0)
	for by := -31; by < 32; by++ {
		if shifts[by] == 0 {
			continue
		}
		x := t.Op(code.OpAnd32, nil, t.ID, t.Const32(int64(shifts[by])))
		if by > 0 {
			x = t.Op(code.OpShl32, nil, x, t.Const32(int64(by)))
		} else if by < 0 {
			x = t.Op(code.OpShrU32, nil, x, t.Const32(int64(-by)))
		}
		if n, ok := t.ConstOf(v); ok && n == 0 {
			v = x
		} else {
			v = t.Op(code.OpXor32, nil, v, x)
		}
	}
	return v
}

// throughShared stores every unit at the place of its first element, and loads what
// each thread needs.
func (c Conversion) throughShared(t *thread.Thread, x []code.Value, begin int, barrier func()) []code.Value {
	bytes := min(c.container, 4) // of a word
	store := map[int]code.Op{1: code.OpStSharedB8, 2: code.OpStSharedB16, 4: code.OpStSharedB32}[bytes]
	base := t.Op(code.OpSharedBase, nil)
	first, _ := t.FirstHolder(c.from)
	at, imm := c.unitAddress(t, c.from, base)
	for i, v := range x {
		if bytes == 2 {
			v = t.Op(code.OpTrunc16, nil, v)
		}
		t.Guard(first, store, []int64{int64(begin + imm[i/c.words] + i%c.words*bytes)}, nil, at, v)
	}
	barrier()
	at, imm = c.unitAddress(t, c.to, base)
	y := make([]code.Value, len(imm)*c.words)
	for i := range y {
		y[i] = t.LdShared(bytes, at, begin+imm[i/c.words]+i%c.words*bytes)
		if bytes == 2 {
			y[i] = t.Op(code.OpZext16, nil, y[i])
		}
	}
	barrier() // the next value may take the place
	return y
}

// unitAddress is the thread's part of the address of a unit, and the slots' parts.
func (c Conversion) unitAddress(t *thread.Thread, lay layout.Layout, base code.Value) (at code.Value, imm []int) {
	flat := t.Const32(0)
	stride := 1
	coords := t.Coords(lay)
	for d := lay.Rank() - 1; d >= 0; d-- {
		flat = t.Add32(flat, t.Mul32(coords[d], t.Const32(int64(stride))))
		stride *= lay.Shape()[d]
	}
	held := lay.Flat() // thread 0's part of every index is 0
	for s := 0; s < lay.Slots(); s += c.Unit {
		imm = append(imm, c.place(int(held[s])))
	}
	if c.pack > 1 {
		flat = t.Op(code.OpShrU32, nil, flat, t.Const32(int64(bits.Len(uint(c.pack))-1)))
	}
	flat = t.Mul32(flat, t.Const32(int64(c.container)))
	if c.padded {
		rows := t.Op(code.OpShrU32, nil, flat, t.Const32(7))
		flat = t.Add32(flat, t.Mul32(rows, t.Const32(int64(max(c.container, 4)))))
	}
	return t.Add32(base, flat), imm
}
