package qmm

import "github.com/tilus-lab/tilus-lab/gpu/qmm/template"

// Known is how many µs a product of m rows takes on an H200: "measured", with this type of
// weights or one that is stored alike, or "expected" by the models of schedules.
func (l Linear) Known(m int) (us float64, from string, err error) {
	if l, err = l.Check(); err != nil {
		return 0, "", err
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return 0, "", err
	}
	plan := l.PlanFor(m, Call{})
	switch plan {
	case Decode:
		s, from, err := l.choose(m)
		if err != nil {
			return 0, "", err
		}
		all, err := Table()
		if err != nil {
			return 0, "", err
		}
		for _, t := range all {
			if from == "table" && t.same(l.key(p, m)) && l.usual(p, true) {
				return t.Us, "measured", nil
			}
		}
		return p.Estimate(s, m, l.N, l.K, template.H200()), "expected", nil
	case Wide:
		all, err := WideTable()
		if err != nil {
			return 0, "", err
		}
		for _, t := range all {
			if want := l.wideKey(p, m); !l.ZeroPoint && l.usual(p, false) && want.Rows == m && t.same(want) {
				return t.Us, "measured", nil
			}
		}
	}
	return l.planUs(plan, m), "expected", nil
}
