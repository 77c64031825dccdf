package lower

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/cast"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// field is a bit field that begins at bit pos of a string of words, low bits
// first.
type field struct {
	words []code.Value
	pos   int
}

// field reads w ≤ 32 bits at pos into the low bits of a word, zeros above.
func (l *lowerer) field(words []code.Value, pos, w int) code.Value {
	lo, bit := words[pos/32], pos%32
	switch {
	case w == 32 && bit == 0:
		return lo
	case bit+w <= 32:
		return l.op(code.OpBfeU32, []int64{int64(bit), int64(w)}, lo)
	}
	v := l.op(code.OpFunnelR32, nil, lo, words[pos/32+1], l.const32(int64(bit)))
	if w == 32 {
		return v
	}
	return l.op(code.OpAnd32, nil, v, l.const32(1<<w-1))
}

// assemble packs n elements of w bits, each read from its source, into words.
// Words whose elements stand together in one source are copied whole.
func (l *lowerer) assemble(n, w int, source func(i int) field) []code.Value {
	out := make([]code.Value, (n*w+31)/32)
	for j := range out {
		first, last := j*32/w, min(n-1, (j*32+31)/w)
		if v, ok := l.together(j, first, last, w, source); ok {
			out[j] = v
			continue
		}
		for i := first; i <= last; i++ {
			f, at := source(i), i*w-j*32
			// The part of element i that lies in this word.
			from, size := max(0, -at), min(w, 32-at)-max(0, -at)
			out[j] = l.orShifted(out[j], l.field(f.words, f.pos+from, size), max(0, at))
		}
	}
	return out
}

// together is word j if elements first to last follow each other in one source.
func (l *lowerer) together(j, first, last, w int, source func(i int) field) (code.Value, bool) {
	f := source(first)
	for i := first + 1; i <= last; i++ {
		if g := source(i); !sameWords(g.words, f.words) || g.pos != f.pos+(i-first)*w {
			return 0, false
		}
	}
	pos := f.pos + j*32 - first*w
	if pos%32 == 0 {
		return f.words[pos/32], true
	}
	if pos/32+1 == len(f.words) {
		return l.op(code.OpShrU32, nil, f.words[pos/32], l.const32(int64(pos%32))), true
	}
	return l.op(code.OpFunnelR32, nil, f.words[pos/32], f.words[pos/32+1], l.const32(int64(pos%32))), true
}

func sameWords(a, b []code.Value) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func allocateRegister(l *lowerer, in *ir.Instr) {
	t := in.Out[0].Type
	var c uint64
	if a := in.Attr("init"); a != nil {
		c = interp.InitCode(t.Elem, a.Number)
	}
	slots := t.Layout.Slots()
	codes := make([]uint64, slots)
	for s := range codes {
		codes[s] = c
	}
	data := append(dtype.Pack(t.Elem.Bits(), codes), 0, 0, 0)
	words := make([]code.Value, wordsOf(t))
	for j := range words {
		words[j] = l.const32(int64(dtype.Get(data, 32, j)))
	}
	l.env[in.Out[0]] = val{words: words}
}

// view renames the words: the bits stay where they are.
func view(l *lowerer, in *ir.Instr) {
	l.env[in.Out[0]] = val{words: slices.Clone(l.env[in.In[0].Var()].words)}
}

func castLowering(l *lowerer, in *ir.Instr) {
	from, to := in.In[0].Var(), in.Out[0]
	slots, ok := ir.SlotMap(from.Type, to.Type)
	if !ok {
		panic("lower: a cast that breaks Cast.C2")
	}
	var words []code.Value
	var err error
	if from.Type.HasPlace {
		words, err = cast.Placed(l.b, to.Type.Elem, from.Type.Elem, slots, l.env[from].words, from.Type.Place, in.Attr("domain") != nil)
	} else {
		words, err = cast.Tile(l.b, to.Type.Elem, from.Type.Elem, slots, l.env[from].words)
	}
	if err != nil {
		l.refuse(in.Pos, "Lower.E4", "%v", err)
	}
	l.env[to] = val{words: words}
}
