package template

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestAlone: what a schedule has set without that beside which it is for is an error, not left out.
func TestAlone(t *testing.T) {
	p, err := PlanOf(Form{Weight: dtype.U1, Act: dtype.F16, Scale: dtype.F16, Group: 128})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s    Schedule
		want string
	}{
		{Schedule{Digits: true}, "without Stages"},
		{Schedule{Fixed: true}, "without Stages"},
		{Schedule{Long: true}, "without Stages"},
		{Schedule{Warpgroups: true}, "without Stages"},
		{Schedule{Blocks: 7}, "7 Blocks without Stages"},
		{Schedule{Blocks: 7, Parts: 4}, "without Stages"},
		{Schedule{Stages: 4, Fixed: true}, "Fixed without Digits or Warpgroups"},
		{Schedule{Stages: 4, Parts: 4, Fixed: true}, "Fixed without Digits or Warpgroups"},
		{Schedule{Stages: 4, Parts: 4, Long: true}, "Long without Digits"},
		{Schedule{Stages: -1}, "-1 stages"},
		{Schedule{Parts: -2}, "-2 warps along k"},
		{Schedule{Stages: 4, Digits: true, Fixed: true}, ""},
		{Schedule{Stages: 4, Digits: true, Long: true}, ""},
		{Schedule{Stages: 4, Warpgroups: true, Fixed: true}, ""},
	} {
		_, err := c.s.Filled(p)
		_, decode := Decode(p.Form, c.s)
		for _, err := range []error{err, decode} {
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v does not say %q", c.s, err, c.want)
			}
		}
	}
	for _, s := range append(p.spans(8, 132), p.spans(16, 132)...) {
		if _, err := s.Filled(p); err != nil && strings.Contains(err.Error(), "without Stages") {
			t.Errorf("%s is a candidate: %v", s, err)
		}
	}
}
