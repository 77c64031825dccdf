package lower

import (
	"github.com/tilus-lab/tilus-lab/gpu/lower/shared"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// standIn gives values to the results of a refused instruction, so that what uses
// them is looked at too. No code is made of a program with refusals.
func (l *lowerer) standIn(in *ir.Instr) {
	if len(l.list) == 0 {
		return
	}
	for _, v := range in.Out {
		switch x := l.env.get(v); {
		case v.Type.IsRegister() && x.words == nil:
			for range wordsOf(v.Type) {
				x.words = append(x.words, l.Const32(0))
			}
			l.env.set(v, x)
		case v.Type.Kind == ir.Scalar && x.scalar == 0:
			l.env.set(v, val{scalar: l.Const32(0)})
		case v.Type.IsShared() && x.shared == nil:
			dims, _ := v.Type.Dims()
			at := &shared.View{Modes: ir.SharedModes(v.Type.Shared), Dims: dims, Swizzle: v.Type.Shared.Swizzle(), Width: v.Type.Elem.Bits()}
			l.env.set(v, val{shared: at, empty: at})
		case v.Type.IsTensorMemory() && x.tensor == nil:
			l.env.set(v, val{tensor: &tensorRef{at: tensorPlace(0)}})
		}
	}
}
