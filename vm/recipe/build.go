package recipe

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

// build writes a plan as a recipe and proves it.
func (pl *plan) build(p *planner) (*Recipe, error) {
	b := &builder{planner: p, values: pl.values}
	b.amounts()
	// Shared values are numbered before steps, so a first round collects them.
	b.emitAll()
	b.collected = true
	b.emitAll()
	w := p.from.Bits()
	r := &Recipe{From: p.from, To: p.to, Mode: p.mode, Domain: p.domain, Recode: p.recode != nil, Consts: b.consts, Steps: b.steps}
	at := make([]int, 0, 2*len(b.out)*w)
	for _, o := range b.order() {
		c := &p.cs[o.carrier]
		r.Out = append(r.Out, o.ref)
		if p.mode == Deferred {
			r.Scale, r.Offset = append(r.Scale, c.scale), append(r.Offset, c.offset)
		}
		for _, lane := range o.lanes {
			at = append(at, b.positions(o.value, lane)...)
		}
	}
	place, err := bits.New(w, p.words, at)
	if err != nil {
		return nil, fmt.Errorf("recipe: a plan from %s to %s: %w", p.from, p.to, err)
	}
	r.Place = place
	if err := Prove(r); err != nil {
		r.Domain.Finite = true
		if Prove(r) != nil {
			return nil, err
		}
	}
	return r, nil
}

type builder struct {
	*planner
	values    []value
	consts    []uint32
	collected bool // consts are complete
	steps     []Step
	shifted   map[[2]int]Ref  // word, shift → value
	plain     map[[2]int]Step // word, shift → the shift that gives it
	out       []output
}

// output is a finished word: two lanes of a value.
type output struct {
	value
	lanes [2]int
	ref   Ref
}

func (b *builder) emitAll() {
	b.steps, b.out, b.shifted = nil, nil, map[[2]int]Ref{}
	for _, v := range b.values {
		b.emit(v)
	}
}

// order puts the words of deferred plans in the order of fragments: the two words
// of a class are two apart, two classes take turns.
func (b *builder) order() []output {
	out := slices.Clone(b.out)
	if b.mode == Deferred {
		slices.SortStableFunc(out, func(x, y output) int {
			return b.firstOfClass(x.carrier) - b.firstOfClass(y.carrier)
		})
		for i := 0; i+4 <= len(out); i += 4 {
			out[i+1], out[i+2] = out[i+2], out[i+1]
		}
	}
	return out
}

// positions is where the bits of the code in one lane of a value lie, low bits first.
func (b *builder) positions(v value, lane int) []int {
	at := make([]int, b.from.Bits())
	for _, pc := range v.pieces {
		part := &b.cs[v.carrier].parts[pc.part]
		for i, t := range part.shape {
			if pc.targets>>t&1 != 0 {
				at[part.lo+i] = 32*pc.word + b.position(pc, lane, t)
			}
		}
	}
	return at
}

// amounts chooses for every word and lane shift the step that gives it: a shift
// right if no bit wraps round the lane, a shift left if all do, else a rotate.
func (b *builder) amounts() {
	inside, around := map[[2]int]bool{}, map[[2]int]bool{}
	b.plain = map[[2]int]Step{}
	for _, v := range b.values {
		for _, pc := range v.pieces {
			k := [2]int{pc.word, pc.shift}
			for t := range b.lane {
				if pc.targets>>t&1 != 0 {
					inside[k] = inside[k] || t+pc.shift < b.lane
					around[k] = around[k] || t+pc.shift >= b.lane
				}
			}
			w := Ref(pc.word)
			switch {
			case !around[k]:
				b.plain[k] = Step{Op: Shr, A: w, N: uint32(pc.shift)}
			case !inside[k]:
				b.plain[k] = Step{Op: Shl, A: w, N: uint32(b.lane - pc.shift)}
			default:
				b.plain[k] = Step{Op: Funnel, A: w, B: w, N: uint32(pc.shift)}
			}
		}
	}
}

// position is the bit of the word that ends at a target of a lane.
func (b *builder) position(pc piece, lane, target int) int {
	at, s := lane*b.lane+target, b.plain[[2]int{pc.word, pc.shift}]
	if s.Op == Shl {
		return at - int(s.N)
	}
	return (at + int(s.N)) % 32
}

func (b *builder) step(s Step) Ref {
	b.steps = append(b.steps, s)
	return Ref(b.words + len(b.consts) + len(b.steps) - 1)
}

// share is the shared value that holds x.
func (b *builder) share(x uint32) Ref {
	i := slices.Index(b.consts, x)
	if i < 0 {
		if b.collected {
			panic("recipe: a shared value appears late")
		}
		i = len(b.consts)
		b.consts = append(b.consts, x)
	}
	return Ref(b.words + i)
}

// everywhere repeats a lane over a word.
func (b *builder) everywhere(lane uint32) uint32 {
	if b.lane == 8 {
		return lane * 0x01010101
	}
	return lane * 0x00010001
}

func (b *builder) word(pc piece) Ref {
	if pc.shift == 0 {
		return Ref(pc.word)
	}
	k := [2]int{pc.word, pc.shift}
	if _, ok := b.shifted[k]; !ok {
		b.shifted[k] = b.step(b.plain[k])
	}
	return b.shifted[k]
}

// emit writes the steps of one value and its output words.
func (b *builder) emit(v value) {
	c := &b.cs[v.carrier]
	if b.cutsHigh(v) {
		b.cutHigh(v)
		return
	}
	var lanes [2]Ref
	if b.bare(v) {
		lanes[0] = b.word(v.pieces[0])
	} else {
		for k, part := range c.parts {
			lanes[k] = b.gather(v, k, part.magic)
		}
	}
	if b.lane == 16 {
		b.out = append(b.out, output{v, [2]int{0, 1}, b.finish(c, lanes[0], lanes[1])})
		return
	}
	for half := range 2 {
		b.out = append(b.out, output{v, [2]int{2 * half, 2*half + 1}, b.finish(c, b.lifted(c.lift, lanes[0], half), 0)})
	}
}

// cutHigh writes a value whose bytes go to the high half of 16-bit lanes: every other one is
// there, and the rest after a shift left, which the integer pipe is spared.
func (b *builder) cutHigh(v value) {
	c, pc := &b.cs[v.carrier], v.pieces[0]
	mask := b.share(pc.targets * 0x01000100)
	left := Step{Op: Shl, A: Ref(pc.word), N: uint32(b.lane - pc.shift)}
	if pc.shift > 0 && b.plain[[2]int{pc.word, pc.shift}].Op == Shl {
		left.N += uint32(b.lane)
	}
	for odd, x := range []Ref{b.step(left), b.word(pc)} {
		cut := b.step(Step{Op: Lop3, A: x, B: mask, C: mask, N: LutAnd})
		b.out = append(b.out, output{v, [2]int{odd, 2 + odd}, b.finish(c, cut, 0)})
	}
}

// gather joins the pieces of a part under its magic.
func (b *builder) gather(v value, part int, magic uint32) Ref {
	acc := Ref(-1)
	for _, pc := range v.pieces {
		if pc.part != part {
			continue
		}
		w := b.word(pc)
		s := Step{Op: Lop3, A: w, B: b.share(b.everywhere(pc.targets))}
		switch {
		case acc >= 0:
			s.C, s.N = acc, LutAndOr
			if magic&pc.targets != 0 {
				s.N = LutAndXor // the magic flips bits of this piece
			}
		case magic == 0:
			s.C, s.N = s.B, LutAnd
		default:
			s.C, s.N = b.share(b.everywhere(magic)), LutAndXor
		}
		acc = b.step(s)
	}
	return acc
}

// lifted makes 16-bit lanes of two bytes of x.
func (b *builder) lifted(l lift, x Ref, half int) Ref {
	if l.op == CvtE4M3 {
		return b.step(Step{Op: CvtE4M3, A: x, N: uint32(half)})
	}
	lo, hi := uint32(2*half), uint32(2*half+1)
	sel := lo | 4<<4 | hi<<8 | 4<<12
	if l.high {
		sel = 4 | lo<<4 | 4<<8 | hi<<12
	}
	return b.step(Step{Op: Prmt, A: x, B: b.share(l.other * 0x01010101), N: sel})
}

// finish writes the arithmetic of a carrier.
func (b *builder) finish(c *carrier, x, y Ref) Ref {
	both := func(h uint16) Ref { return b.share(uint32(h) * 0x00010001) }
	switch {
	case c.fin == Sub && len(c.parts) == 2:
		return b.step(Step{Op: Sub, A: x, B: y})
	case c.fin == Sub:
		return b.step(Step{Op: Sub, A: x, B: both(c.b)})
	case c.fin == Mul:
		return b.step(Step{Op: Mul, A: x, B: both(c.a)})
	case c.fin == Fma && len(c.parts) == 2:
		return b.step(Step{Op: Fma, A: y, B: both(c.a), C: x})
	case c.fin == Fma:
		return b.step(Step{Op: Fma, A: x, B: both(c.a), C: both(c.b)})
	}
	return x
}
