package lower

import "github.com/tilus-lab/tilus-lab/vm/ir"

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
		}
	}
}
