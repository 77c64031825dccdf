package lower

import "github.com/tilus-lab/tilus-lab/vm/ir"

// printed has been turned into stores by vm/pass, before lowering.
func printed(l *lowerer, in *ir.Instr) {
	l.refuse(in.Pos, "Lower.E1", "%s is lowered after the pass prints of vm/pass", in.Op.Name)
}
