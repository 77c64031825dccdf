package interp

import (
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// printed is one print: of which block, at which site of the plan.
type printed struct {
	block, site int
	values      []*array.Array
}

// print is the meaning of Print and PrintTensor.
func print(m *Machine, in *ir.Instr) error {
	if m.prints == nil {
		m.prints = ir.PlanPrints(m.prog)
	}
	p := printed{block: m.block}
	for i, s := range m.prints.Sites {
		if s.Instr != in {
			continue
		}
		p.site = i
		for k, t := range s.Types {
			a := array.New(t, s.Shape...)
			if in.Op.Name == "PrintTensor" {
				x, err := m.tile(in, 0)
				if err != nil {
					return err
				}
				for e, c := range x.codes {
					a.SetCode(e, c)
				}
			} else {
				c, err := m.scalarCode(in.In[k].Expr, t)
				if err != nil {
					return err
				}
				a = array.New(t, 1)
				a.SetCode(0, c)
			}
			p.values = append(p.values, a)
		}
	}
	m.printed = append(m.printed, p)
	return nil
}

// Printed is what Print and PrintTensor printed so far, in the order of blocks; "" if
// nothing.
func (m *Machine) Printed() string {
	if m.prints == nil {
		return ""
	}
	log := m.prints.NewLog(m.grid)
	for _, p := range m.printed {
		log.Add(p.block, p.site, p.values)
	}
	return log.String()
}
