package device

import "github.com/tilus-lab/tilus-lab/vm/ir"

// prints says whether a workspace is read back for what the launch prints.
func prints(p *ir.Program) bool { return ir.PlanPrints(p) != nil }
