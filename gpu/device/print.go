package device

import (
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// printed is what a launch printed: workspaces are the bytes of the tensors of the
// launch's own after it, by name.
func printed(p *ir.Program, grid [3]int, workspaces map[string][]byte) string {
	plan := ir.PlanPrints(p)
	if plan == nil {
		return ""
	}
	return plan.ReadPrints(grid, func(name string, t dtype.Type, shape []int) *array.Array {
		a := array.New(t, shape...)
		copy(a.Data, workspaces[name])
		return a
	}).String()
}

// prints says whether a workspace is read back for what the launch prints.
func prints(p *ir.Program) bool { return ir.PlanPrints(p) != nil }
