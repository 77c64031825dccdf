package qmm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Choice is how a product is multiplied.
type Choice struct {
	Plan     string                `json:"plan"`
	Schedule template.Schedule     `json:"schedule,omitzero"` // of [Decode]
	Wide     template.WideSchedule `json:"wide,omitzero"`     // of [Wide] and [Prefill]
}

func (c Choice) String() string {
	switch c.Plan {
	case Decode:
		return c.Schedule.String()
	case Expand:
		return "expand, then a product of plain numbers"
	}
	return fmt.Sprintf("%s, %s", c.Plan, c.Wide)
}

// filled takes defaults for zero fields of the schedule and checks the others.
func (c Choice) filled(p *template.Plan) (Choice, error) {
	var err error
	switch c.Plan {
	case Decode:
		c.Schedule, err = c.Schedule.Filled(p)
	case Wide, Prefill:
		c.Wide, err = c.Wide.Filled(p)
	}
	return c, err
}

// takes reports whether a product of m rows of the layer can be multiplied like that.
func (c Choice) takes(l Linear, p *template.Plan, m int) bool {
	c, err := c.filled(p)
	if err != nil {
		return false
	}
	switch {
	case c.Plan == Decode:
		return c.Schedule.Takes(p, l.N, l.K)
	case c.Wide.Folded && !l.foldsBy(c.Wide):
		return false
	case c.Plan == Wide:
		return c.Wide.Blocks <= l.mostBlocks(p, c.Wide, m)
	}
	return true
}

// estimate is how many µs m rows take on an H200 by the models, as choices weigh them.
func (c Choice) estimate(l Linear, p *template.Plan, m int) float64 {
	switch c.Plan {
	case Decode:
		return p.Rank(c.Schedule, m, l.N, l.K, template.H200())
	case Expand:
		return l.expandUs(m)
	}
	return p.EstimateWide(c.Wide, m, l.N, l.K, template.H200())
}

// programs are those of a product of m rows, one behind the other.
func (c Choice) programs(l Linear, m int) (out []*ir.Program, err error) {
	add := func(p *ir.Program, e error) {
		out = append(out, p)
		err = cmp.Or(err, e)
	}
	switch c.Plan {
	case Decode:
		add(template.Decode(l.Form(), c.Schedule))
	case Expand:
		add(template.Expand(l.Form()))
		add(Plain(l.Form().Act, m, l.N, template.H200().SMs))
	default:
		add(template.Arrange(l.Form(), c.Wide))
		add(template.Wide(l.Form(), c.Wide))
	}
	return out, err
}

// code names the PTX of all programs: what a time is of.
func (c Choice) code(l Linear, m int, target string) (string, error) {
	programs, err := c.programs(l, m)
	if err != nil {
		return "", err
	}
	return tune.CodeOf(target, programs...)
}

// Choices are what is worth timing for a product of m rows by a plan: what is chosen without a
// search, then tries others, the model's best first.
func (l Linear) Choices(plan string, m, tries int) ([]Choice, error) {
	var out []Choice
	switch plan {
	case Decode:
		all, err := l.Schedules(m, tries)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			out = append(out, Choice{Plan: plan, Schedule: s})
		}
	case Wide, Prefill:
		all, err := l.WideSchedules(plan, m, tries)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			out = append(out, Choice{Plan: plan, Wide: s})
		}
	case Expand:
		out = []Choice{{Plan: plan}}
	default:
		return nil, checkPlan(plan)
	}
	return out, nil
}

// checkPlan finds names that no plan has.
func checkPlan(name string) error {
	if !slices.Contains([]string{Decode, Wide, Prefill, Expand}, name) {
		return fmt.Errorf("qmm: no plan %q; there are %s, %s, %s and %s", name, Decode, Wide, Prefill, Expand)
	}
	return nil
}
