package lower

import (
	"math"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/cast"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// codeWords is what is known of words of two f16 that are unsigned codes of up to 8 bits, cast,
// and of such as are rounded: by adding a constant and taking it off again.
// A difference of such tiles takes one instruction for the cast and the difference: a code is
// cast by taking a constant off a word, and that goes with what is taken off the code.
type codeWords struct {
	most    map[code.Value]float64 // the greatest that both may be
	from    map[code.Value]taken   // where they are what a constant leaves of another word
	bytes   map[code.Value][2]byteOf
	spans   map[code.Value]span  // between which numbers both are
	rounded map[code.Value]taken // where they are what a constant leaves exactly of another word
}

// span is the least and the greatest that a number may be.
type span struct{ least, most float64 }

type taken struct {
	word code.Value
	k    uint32
}

// byteOf is a byte of a word; of none it is the zero value.
type byteOf struct {
	word code.Value
	at   int
}

// wholeMost is up to where f16 holds every whole number.
const wholeMost = 2048

// isCode reports whether a type has whole numbers from 0 to 255 at most.
func isCode(t dtype.Type) bool { return t.IsInt() && !t.Signed() && t.Bits() <= 8 }

// learn takes note of a cast of codes to words of f16. Slot s is slot slots[s] of the source, whose
// words stand slot after slot if of is not nil.
func (w *codeWords) learn(from dtype.Type, words []code.Value, slots []int, of []code.Value) {
	if w.most == nil {
		w.most, w.from, w.bytes = map[code.Value]float64{}, map[code.Value]taken{}, map[code.Value][2]byteOf{}
	}
	for j, v := range words {
		w.most[v] = from.Max()
		if from.Bits() != 8 || of == nil {
			continue
		}
		var both [2]byteOf
		for i, at := range slots[2*j : min(2*j+2, len(slots))] {
			both[i] = byteOf{of[at/4], at % 4}
		}
		w.bytes[v] = both
	}
}

// bound takes note of words that an operation with a constant makes, each of another one.
func (w *codeWords) bound(op string, words, of []code.Value, c float64) {
	if w.spans == nil {
		w.spans, w.rounded = map[code.Value]span{}, map[code.Value]taken{}
	}
	half := func(v float64) float64 { return dtype.F16.Decode(dtype.F16.Encode(v, false)) }
	c = half(c)
	for j, v := range words {
		s, known := w.spans[of[j]]
		if !known {
			s = span{math.Inf(-1), math.Inf(1)} // or no number, of which Min and Max leave c
		}
		switch {
		case op == "Min":
			w.spans[v] = span{min(s.least, c), min(s.most, c)}
		case op == "Max":
			w.spans[v] = span{max(s.least, c), max(s.most, c)}
		case op == "Add" && known:
			w.spans[v] = span{half(s.least + c), half(s.most + c)}
		case op == "Sub" && known && c == math.Trunc(c) && s.least >= c/2 && s.most <= 2*c && s.most <= wholeMost:
			k := uint32(dtype.F16.Encode(c, false))
			w.rounded[v] = taken{of[j], k<<16 | k}
		}
	}
}

// takenOf hears of what casts take off words, if they are of codes to f16.
func (l *lowerer) takenOf(from, to dtype.Type) cast.Taken {
	if !isCode(from) || to != dtype.F16 {
		return nil
	}
	l.codes.learn(from, nil, nil, nil)
	return func(word, of code.Value, k uint32) { l.codes.from[word] = taken{of, k} }
}

// difference is x − y in words of two f16, of which y may be repeated from a smaller tile, or be a number. Where
// x is w − k, exactly, and y a code or a number, as whole, it is w − (k + y): all of them are whole
// numbers that f16 holds, so that nothing is rounded either way. Where y is rounded, it
// is v − c, and the difference w − (v − (c − k)); then x − y alone is rounded, and so is this: v, from c/2 to 2c
// and 2048, less any whole number of up to c is a number of f16, a multiple of the last bit of v and no larger
// than v, with a sign or without.
func (l *lowerer) difference(y ir.Operand, t ir.Type, words [][]code.Value) []code.Value {
	out := make([]code.Value, len(words[0]))
	most := math.Inf(1)
	var whole []code.Value
	var from []int
	number, isNumber := numberOf(y.Expr)
	if isNumber && number >= 0 && number == math.Trunc(number) {
		most = number
	}
	if v := y.Var(); v != nil && v.Type.IsRegister() {
		most, whole = 0, l.env.get(v).words
		from, _ = ir.SlotMap(v.Type, t)
		for _, w := range whole {
			if n, ok := l.codes.most[w]; ok {
				most = max(most, n)
			} else {
				most = math.Inf(1)
			}
		}
	}
	above, c := l.exceed(whole, from)
	for j, x := range words[0] {
		of, ok := l.codes.from[x]
		k := dtype.F16.Decode(uint64(of.k & 0xffff))
		// From k on to twice as much, differences from k are exact.
		ok = ok && of.k>>16 == of.k&0xffff && k == math.Trunc(k) && k >= l.codes.most[x]
		y := words[1][j]
		switch {
		case ok && k+most <= wholeMost && isNumber:
			x, y = of.word, l.both(k+number)
		case ok && k+most <= wholeMost:
			x, y = of.word, l.above(k, y, whole, from, j)
		case ok && above != nil && k <= c:
			if x, y = of.word, above[j]; k < c {
				y = l.Op(code.OpSubF16x2, nil, y, l.both(c-k))
			}
		}
		out[j] = l.Op(code.OpSubF16x2, nil, x, y)
	}
	return out
}

// exceed are the words that constants c leave y of, repeated to a tile's slots; nil where y is not rounded.
func (l *lowerer) exceed(y []code.Value, slots []int) (words []code.Value, c float64) {
	if len(y) == 0 {
		return nil, 0
	}
	of := make([]code.Value, len(y))
	for i, w := range y {
		t, ok := l.codes.rounded[w]
		if !ok || t.k != l.codes.rounded[y[0]].k {
			return nil, 0
		}
		of[i], c = t.word, dtype.F16.Decode(uint64(t.k&0xffff))
	}
	return l.Assemble(len(slots), 16, func(s int) thread.Field { return thread.Field{Words: of, Pos: 16 * slots[s]} }), c
}

// above is k + y in a word of two f16, the j-th that codes are repeated to. One byte in both comes at
// once with the exponent of 1024, whose last bit is 1.
func (l *lowerer) above(k float64, y code.Value, codes []code.Value, from []int, j int) code.Value {
	if i := 2 * j; i < len(from) {
		b := l.codes.bytes[codes[from[i]/2]][from[i]%2]
		if last := from[min(i+1, len(from)-1)]; b.word != 0 && l.codes.bytes[codes[last/2]][last%2] == b {
			const magic = 1024
			y, k = l.Prmt(b.word, l.Const32(0x64646464), uint16(0x4040|b.at|b.at<<8)), k-magic
		}
	}
	if k == 0 {
		return y
	}
	return l.Op(code.OpAddF16x2, nil, y, l.both(k))
}

// both is a word of two f16 that are v.
func (l *lowerer) both(v float64) code.Value {
	c := int64(dtype.F16.Encode(v, false))
	return l.Const32(c<<16 | c)
}
