package qmm

import "github.com/tilus-lab/tilus-lab/gpu/qmm/template"

// Known is how many µs a product of m rows takes on an H200: "measured", with this type of
// weights or one that is stored alike, or "expected" by the models of schedules.
func (l Linear) Known(m int) (us float64, from string, err error) {
	if l, err = l.Check(); err != nil {
		return 0, "", err
	}
	if err := checkRows(m); err != nil {
		return 0, "", err
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return 0, "", err
	}
	plan := l.PlanFor(m, Call{})
	if us, rows := l.measured(p, plan, m); us > 0 && (plan == Decode || rows == m) {
		return us, "measured", nil
	}
	if plan == Decode {
		s, err := l.Choose(m)
		if err != nil {
			return 0, "", err
		}
		return p.Estimate(s, m, l.N, l.K, template.H200()), "expected", nil
	}
	return l.planUs(plan, m), "expected", nil
}

// measured is how many µs the tables say that a plan takes, and of how many rows: those that the
// schedule is for, which m rows take too. It is 0 where no layer like this one was measured.
func (l Linear) measured(p *template.Plan, plan string, m int) (us float64, rows int) {
	switch plan {
	case Decode:
		want := l.key(p, m)
		if m > want.Rows {
			break
		}
		all, _ := Table() // the choice of a schedule tells the error
		for _, want := range want.inherited() {
			for _, t := range all {
				if t.same(want) && l.usual(p, true) && t.Schedule.Takes(p, l.N, l.K) {
					return t.Us, t.Rows
				}
			}
		}
	case Wide:
		all, _ := WideTable()
		want := l.wideKey(p, m)
		for _, t := range all {
			if !l.ZeroPoint && l.usual(p, false) && t.same(want) {
				return t.Us, t.Rows
			}
		}
	}
	return 0, 0
}
