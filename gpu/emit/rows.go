package emit

import (
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

type rowPlan struct{}

func rowsOf(roots []*hlo.Instruction, d plan.Device) *rowPlan { return nil }
func (b *builder) rows(r *rowPlan)                            {}
func (b *builder) columns() bool                              { return false }
func (b *builder) transpose() bool                            { return false }
