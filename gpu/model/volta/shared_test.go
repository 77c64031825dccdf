package volta

import "testing"

// TestTrace holds the shared form to the events and to its own rules, in both modes.
func TestTrace(t *testing.T) {
	for _, mode := range []string{"mixed", "fp16"} {
		s, err := ParseSetup(mode, "row.col", "")
		if err != nil {
			t.Fatal(err)
		}
		a, b, c := Integers()
		r, err := New(s, Measured, a, b, c)
		if err != nil {
			t.Fatal(err)
		}
		tr := r.Trace()
		if err := tr.Check(); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if len(tr.Events) != len(r.Events) || tr.End != int64(r.Total) || tr.Unit != "cycle" {
			t.Errorf("%s: %d of %d events, until %d %ss, not %d", mode, len(tr.Events), len(r.Events), tr.End, tr.Unit, r.Total)
		}
		for i, e := range tr.Events {
			if own := r.Events[i]; e.Text != own.Text || len(e.Causes) != len(own.From) || e.Start != int64(own.Start) {
				t.Fatalf("%s: event %d is %v, not %v", mode, i, e, own)
			}
		}
	}
}
