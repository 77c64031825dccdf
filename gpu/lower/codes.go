package lower

import (
	"math"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/cast"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// codeWords is what is known of words of two f16 that are unsigned codes of up to 8 bits, cast.
// A difference of such tiles takes one instruction for the cast and the difference: a code is
// cast by taking a constant off a word, and that goes with what is taken off the code.
type codeWords struct {
	most map[code.Value]float64 // the greatest that both may be
	from map[code.Value]taken   // where they are what a constant leaves of another word
}

type taken struct {
	word code.Value
	k    uint32
}

// wholeMost is up to where f16 holds every whole number.
const wholeMost = 2048

// isCode reports whether a type has whole numbers from 0 to 255 at most.
func isCode(t dtype.Type) bool { return t.IsInt() && !t.Signed() && t.Bits() <= 8 }

// learn takes note of a cast of codes to words of f16.
func (w *codeWords) learn(from dtype.Type, words []code.Value) {
	if w.most == nil {
		w.most, w.from = map[code.Value]float64{}, map[code.Value]taken{}
	}
	for _, v := range words {
		w.most[v] = from.Max()
	}
}

// takenOf hears of what casts take off words, if they are of codes to f16.
func (l *lowerer) takenOf(from, to dtype.Type) cast.Taken {
	if !isCode(from) || to != dtype.F16 {
		return nil
	}
	l.codes.learn(from, nil)
	return func(word, of code.Value, k uint32) { l.codes.from[word] = taken{of, k} }
}

// difference is x − y in words of two f16, of which y may be repeated from a tile of
// codes. Where x is w − k, exactly, and y as whole, it is w − (k + y): all of them are whole
// numbers that f16 holds, so that nothing is rounded either way.
func (l *lowerer) difference(y ir.Operand, words [][]code.Value) []code.Value {
	out := make([]code.Value, len(words[0]))
	most := math.Inf(1)
	if v := y.Var(); v != nil && v.Type.IsRegister() {
		most = 0
		for _, w := range l.env.get(v).words {
			if n, ok := l.codes.most[w]; ok {
				most = max(most, n)
			} else {
				most = math.Inf(1)
			}
		}
	}
	for j, x := range words[0] {
		of, ok := l.codes.from[x]
		k := dtype.F16.Decode(uint64(of.k & 0xffff))
		// From k on to twice as much, differences from k are exact.
		if ok && of.k>>16 == of.k&0xffff && k == math.Trunc(k) && k >= l.codes.most[x] && k+most <= wholeMost {
			out[j] = l.Op(code.OpSubF16x2, nil, of.word, l.Op(code.OpAddF16x2, nil, l.Const32(int64(of.k)), words[1][j]))
		} else {
			out[j] = l.Op(code.OpSubF16x2, nil, x, words[1][j])
		}
	}
	return out
}
