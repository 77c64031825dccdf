package thread

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Field is a bit field that begins at bit Pos of a string of words, low bits
// first.
type Field struct {
	Words []code.Value
	Pos   int
}

// Field reads w ≤ 32 bits at pos into the low bits of a word, zeros above.
func (t *Thread) Field(words []code.Value, pos, w int) code.Value {
	lo, bit := words[pos/32], pos%32
	switch {
	case w == 32 && bit == 0:
		return lo
	case bit+w <= 32:
		return t.Op(code.OpBfeU32, []int64{int64(bit), int64(w)}, lo)
	}
	v := t.Op(code.OpFunnelR32, nil, lo, words[pos/32+1], t.Const32(int64(bit)))
	if w == 32 {
		return v
	}
	return t.Op(code.OpAnd32, nil, v, t.Const32(1<<w-1))
}

// Assemble packs n elements of w bits, each read from its source, into words.
// Words whose elements stand together in one source are copied whole.
func (t *Thread) Assemble(n, w int, source func(i int) Field) []code.Value {
	out := make([]code.Value, (n*w+31)/32)
	for j := range out {
		first, last := j*32/w, min(n-1, (j*32+31)/w)
		if v, ok := t.together(j, first, last, w, source); ok {
			out[j] = v
			continue
		}
		if v, ok := t.ofBytes(first, last, w, source); ok {
			out[j] = v
			continue
		}
		for i := first; i <= last; i++ {
			f, at := source(i), i*w-j*32
			// The part of element i that lies in this word.
			from, size := max(0, -at), min(w, 32-at)-max(0, -at)
			out[j] = t.OrShifted(out[j], t.Field(f.Words, f.Pos+from, size), max(0, at))
		}
	}
	return out
}

// together is word j if elements first to last follow each other in one source.
func (t *Thread) together(j, first, last, w int, source func(i int) Field) (code.Value, bool) {
	f := source(first)
	for i := first + 1; i <= last; i++ {
		if g := source(i); !sameWords(g.Words, f.Words) || g.Pos != f.Pos+(i-first)*w {
			return 0, false
		}
	}
	pos := f.Pos + j*32 - first*w
	if pos%32 == 0 {
		return f.Words[pos/32], true
	}
	if pos/32+1 == len(f.Words) {
		return t.Op(code.OpShrU32, nil, f.Words[pos/32], t.Const32(int64(pos%32))), true
	}
	return t.Op(code.OpFunnelR32, nil, f.Words[pos/32], f.Words[pos/32+1], t.Const32(int64(pos%32))), true
}

// ofBytes is a word of four elements of a byte each that lie in two words, in whole bytes, or of two of two bytes that lie
// in one. Twice the same half is put together of two: drivers have instructions take that half of the word then.
func (t *Thread) ofBytes(first, last, w int, source func(i int) Field) (code.Value, bool) {
	if w != 8 && w != 16 || (last-first+1)*w != 32 {
		return 0, false
	}
	var words []code.Value
	selector := int64(0)
	for i := range 32 / w {
		f := source(first + i)
		if f.Pos%w != 0 {
			return 0, false
		}
		word := f.Words[f.Pos/32]
		k := slices.Index(words, word)
		if k < 0 {
			k = len(words)
			words = append(words, word)
		}
		if k > 1 || k > 0 && w == 16 {
			return 0, false
		}
		for at := range w / 8 {
			selector |= int64(4*k+f.Pos%32/8+at) << (i*w/2 + 4*at)
		}
	}
	switch {
	case w == 16 && selector == 0x1010:
		half := t.Op(code.OpTrunc16, nil, words[0])
		return t.Op(code.OpPack16, nil, half, half), true
	case w == 16 && selector == 0x3232:
		half := t.Op(code.OpHi16, nil, words[0])
		return t.Op(code.OpPack16, nil, half, half), true
	}
	return t.Op(code.OpPrmt, nil, words[0], words[len(words)-1], t.Const32(selector)), true
}

func sameWords(a, b []code.Value) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// OrShifted is word | v<<n, where word 0 stands for nothing yet.
func (t *Thread) OrShifted(word, v code.Value, n int) code.Value {
	if n > 0 {
		v = t.Op(code.OpShl32, nil, v, t.Const32(int64(n)))
	}
	if word == 0 {
		return v
	}
	return t.Op(code.OpOr32, nil, word, v)
}

// Choose takes the words of x where p is true, else those of y.
func (t *Thread) Choose(p code.Value, x, y []code.Value) []code.Value {
	out := make([]code.Value, len(x))
	for j := range x {
		if out[j] = x[j]; x[j] != y[j] {
			out[j] = t.Op(code.OpSelp32, nil, x[j], y[j], p)
		}
	}
	return out
}

// ChunkBits is how wide an access at bit pos of a run of n bits may be, if the
// run's start is aligned to align bits: a power of two, 0 when not even a byte.
func ChunkBits(align int64, pos, n int) int {
	w := min(align&-align, 128)
	if pos > 0 {
		w = min(w, int64(pos&-pos))
	}
	for w > int64(n-pos) {
		w /= 2
	}
	if w < 8 {
		return 0
	}
	return int(w)
}
