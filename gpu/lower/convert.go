package lower

import (
	"github.com/tilus-lab/tilus-lab/gpu/lower/exchange"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func convertLayout(l *lowerer, in *ir.Instr) {
	from, to := in.In[0].Var().Type, in.Out[0].Type
	c := exchange.Plan(from, to)
	at := 0
	if c.Kind == "shared" {
		at = l.scratch(c.Bytes)
	}
	l.env.set(in.Out[0], val{words: c.Emit(l.Thread, l.env.get(in.In[0].Var()).words, from.Elem.Bits(), at, l.barrier)})
}
