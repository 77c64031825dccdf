package lab

import (
	"strings"
	"testing"
)

func TestVolta(t *testing.T) {
	p, err := Volta("mixed", "row.col", 7)
	if err != nil || !strings.Contains(string(p.SVG), "HMMA 7 of 16") {
		t.Errorf("%s, %v", p.Title, err)
	}
	for _, c := range []struct {
		mode, layout string
		n            int
		has          string
	}{{"tf32", "row.col", 1, "mixed"}, {"mixed", "row", 1, "row.col"}, {"fp16", "row.col", 9, "0 to 8"}} {
		if _, err := Volta(c.mode, c.layout, c.n); err == nil || !strings.Contains(err.Error(), c.has) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	r, err := VoltaRun("fp16", "col.row")
	if err != nil || len(r.Instrs) != 8 {
		t.Error(err)
	}
}
