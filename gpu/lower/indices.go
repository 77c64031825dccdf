package lower

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// indices adds the thread's part of an index and the slot's.
func indices(l *lowerer, in *ir.Instr) {
	lay, d := in.Out[0].Type.Layout, in.ReducedDims()[0]
	thread := l.Coords(lay)[d]
	words := make([]code.Value, lay.Slots())
	for s := range words {
		words[s] = l.Add32(thread, l.Const32(int64(lay.Index(0, s)[d])))
	}
	l.env.set(in.Out[0], val{words: words})
}
