package recipe

import (
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Prove checks a recipe on every code at every element. It first derives, bit by
// bit, on which input bits each output depends: no half of an output word may
// depend on a bit that is not of its own element. Elements are then independent,
// so that running each code once, at all elements at the same time, covers every
// content of the words. The error names the first element and code that fail.
func Prove(r *Recipe) error {
	if err := r.check(); err != nil {
		return err
	}
	if err := r.independent(); err != nil {
		return err
	}
	if err := r.paired(); err != nil {
		return err
	}
	codes := make([]uint64, r.Elements())
	for c := uint64(0); c <= r.From.Mask(); c++ {
		for e := range codes {
			codes[e] = c
		}
		for j, word := range r.Run(r.Pack(codes)) {
			for half := range 2 {
				got := uint64(word >> (16 * half) & 0xffff)
				if want, ok := r.right(c, j, got); !ok {
					return fmt.Errorf("recipe: %s to %s: element %d: code %#x gives %s (%#04x), want %s",
						r.From, r.To, 2*j+half, c, r.To.Format(got), got, want)
				}
			}
		}
	}
	return nil
}

// right reports whether a code may come out as got in output word j, and else what
// was wanted.
func (r *Recipe) right(code uint64, j int, got uint64) (want string, ok bool) {
	cast := dtype.Cast(r.To, r.From, code)
	if r.Domain.Finite && !finite(r.To, cast) {
		return "", true
	}
	if r.Mode == Exact {
		ok = got == cast || r.To.IsNaN(got) && r.To.IsNaN(cast) ||
			r.Domain.NoNegZero && r.To.Decode(got) == 0 && r.To.Decode(cast) == 0
		return r.To.Format(cast), ok
	}
	v := r.From.Decode(code)
	if r.Offset[j] != 0 { // −0 + 0 would lose the sign
		v += float64(r.Offset[j])
	}
	v = math.Ldexp(v, r.Scale[j])
	g := r.To.Decode(got)
	ok = g == v && (v != 0 || r.Domain.NoNegZero || math.Signbit(g) == math.Signbit(v)) || math.IsNaN(g) && math.IsNaN(v)
	return fmt.Sprint(v), ok
}

func finite(t dtype.Type, code uint64) bool {
	v := t.Decode(code)
	return !math.IsNaN(v) && !math.IsInf(v, 0)
}

// paired checks the promise of Deferred recipes to matrix fragments.
func (r *Recipe) paired() error {
	for j := range r.Scale {
		k := j ^ 2
		if len(r.Out) == 2 {
			k = j ^ 1
		}
		if k >= len(r.Out) || r.Scale[j] != r.Scale[k] || r.Offset[j] != r.Offset[k] {
			return fmt.Errorf("recipe: output words %d and %d do not share scale and offset", j, k)
		}
	}
	return nil
}

// maxWords bounds the input words of a unit, so that a set of input bits is an array.
const maxWords = 8

// deps is a set of input bits.
type deps [maxWords]uint32

func (d *deps) add(e deps) {
	for i := range d {
		d[i] |= e[i]
	}
}

// trit is what is known of one bit: the input bits it may depend on, or its value.
type trit struct {
	from  deps
	known bool
	value bool
}

type tritWord [32]trit

// independent derives the dependences of all output bits and compares them with the
// placement.
func (r *Recipe) independent() error {
	if nw := r.Place.Words(); nw > maxWords {
		return fmt.Errorf("recipe: a unit has at most %d words, not %d", maxWords, nw)
	}
	vals := r.trits()
	var own []deps
	for e := range r.Elements() {
		var d deps
		for b := range r.Place.Bits() {
			pos := r.Place.At(e, b)
			d[pos/32] |= 1 << (pos % 32)
		}
		own = append(own, d)
	}
	for j, v := range r.Out {
		for half := range 2 {
			for w, set := range lane(&vals[v], half) {
				if foreign := set &^ own[2*j+half][w]; foreign != 0 {
					return fmt.Errorf("recipe: %s to %s: element %d depends on bits %#08x of word %d, which are not its own",
						r.From, r.To, 2*j+half, foreign, w)
				}
			}
		}
	}
	return nil
}

// trits is what is known of every value; dependences may come out too large, never
// too small.
func (r *Recipe) trits() []tritWord {
	var vals []tritWord
	for w := range r.Place.Words() {
		var t tritWord
		for b := range t {
			t[b].from[w] = 1 << b
		}
		vals = append(vals, t)
	}
	for _, c := range r.Consts {
		var t tritWord
		for b := range t {
			t[b] = trit{known: true, value: c>>b&1 != 0}
		}
		vals = append(vals, t)
	}
	for _, s := range r.Steps {
		vals = append(vals, trace(s, &vals[s.A], &vals[s.B], &vals[s.C]))
	}
	return vals
}

// lane joins the dependences of a half of a word.
func lane(t *tritWord, half int) deps {
	var d deps
	for _, bit := range t[16*half : 16*half+16] {
		d.add(bit.from)
	}
	return d
}

func trace(s Step, a, b, c *tritWord) tritWord {
	zero := trit{known: true}
	var out tritWord
	switch s.Op {
	case Shr, Shl, Funnel:
		for i := range out {
			switch at := i + int(s.N); {
			case s.Op == Shl && i < int(s.N), s.Op == Shr && at >= 32:
				out[i] = zero
			case s.Op == Shl:
				out[i] = a[i-int(s.N)]
			case at >= 32:
				out[i] = b[at-32]
			default:
				out[i] = a[at]
			}
		}
	case Lop3:
		for i := range out {
			out[i] = lop3Bit(s.N, [3]*trit{&a[i], &b[i], &c[i]})
		}
	case Prmt:
		for i := range 32 {
			from, src := int(s.N>>(i/8*4)&7), a
			if from >= 4 {
				src, from = b, from-4
			}
			out[i] = src[8*from+i%8]
		}
	case CvtE4M3:
		for i := range out {
			for _, bit := range a[16*int(s.N)+i/16*8:][:8] {
				out[i].from.add(bit.from)
			}
		}
	default:
		for half := range 2 {
			var d deps
			for _, t := range []*tritWord{a, b, c}[:s.Op.Arity()] {
				d.add(lane(t, half))
			}
			for i := range 16 {
				out[16*half+i].from = d
			}
		}
	}
	return out
}

// lop3Bit is one bit of a LOP3: operands whose value is known are put into the
// table, and of the others those count that can change what is left of it.
func lop3Bit(table uint32, in [3]*trit) trit {
	live := func(i uint32) bool { // minterm i agrees with what is known
		for k, t := range in {
			if t.known && t.value != (i>>(2-k)&1 != 0) {
				return false
			}
		}
		return true
	}
	var out trit
	seen := [2]bool{}
	for i := range uint32(8) {
		if !live(i) {
			continue
		}
		seen[table>>i&1] = true
		for k, t := range in {
			if other := i ^ 4>>k; !t.known && table>>i&1 != table>>other&1 {
				out.from.add(t.from)
			}
		}
	}
	if seen[0] != seen[1] {
		return trit{known: true, value: seen[1]}
	}
	return out
}
