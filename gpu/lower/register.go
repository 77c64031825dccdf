package lower

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/cast"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

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
		bits := int64(dtype.Get(data, 32, j))
		if slices.Contains(l.sums, in.Out[0]) { // products change each word in its place
			words[j] = l.Op(code.OpOwn32, []int64{bits})
		} else {
			words[j] = l.Const32(bits)
		}
	}
	l.env.set(in.Out[0], val{words: words})
}

// view renames the words: the bits stay where they are.
func view(l *lowerer, in *ir.Instr) {
	l.env.set(in.Out[0], val{words: slices.Clone(l.env.get(in.In[0].Var()).words)})
}

// level is the target's compute capability, times ten.
func (l *lowerer) level() code.Arch { return code.Arch(l.opt.Arch.Capability()) }

func castLowering(l *lowerer, in *ir.Instr) {
	from, to := in.In[0].Var(), in.Out[0]
	slots, ok := ir.SlotMap(from.Type, to.Type)
	if !ok {
		panic("lower: a cast that breaks Cast.C2")
	}
	var words []code.Value
	var err error
	finite := in.Attr("domain") != nil
	placed := from.Type.HasPlace || finite
	var place bits.Placement
	if placed {
		place, placed = ir.PlaceOf(from.Type)
	}
	if placed {
		words, err = cast.Placed(l.Builder, l.level(), to.Type.Elem, from.Type.Elem, slots, l.env.get(from).words, place, finite, l.takenOf(from.Type.Elem, to.Type.Elem))
	} else {
		words, err = cast.Tile(l.Builder, l.level(), to.Type.Elem, from.Type.Elem, slots, l.env.get(from).words)
	}
	if err != nil {
		l.refuse(in.Pos, "Lower.E4", "%v", err)
	}
	if isCode(from.Type.Elem) && to.Type.Elem == dtype.F16 {
		of := l.env.get(from).words
		if from.Type.HasPlace {
			of = nil
		}
		l.codes.learn(from.Type.Elem, words, slots, of)
	}
	l.env.set(to, val{words: words})
}
