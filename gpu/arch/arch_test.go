package arch

import (
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	for _, name := range Names() {
		if a, err := Lookup(name); err != nil || a.Name != name {
			t.Errorf("Lookup(%s) = %v, %v", name, a, err)
		}
	}
	for name, want := range map[string]string{"sm_87": "sm_86", "sm_100": "sm_90", "sm_103a": "sm_90", "sm_120": "sm_90", "sm_120a": "sm_90"} {
		if a, err := Lookup(name); err != nil || a.Name != want {
			t.Errorf("Lookup(%s) = %s, %v; want %s", name, a.Name, err, want)
		}
	}
	if _, err := Lookup("sm_75"); err == nil || !strings.Contains(err.Error(), "older than sm_80") {
		t.Errorf("Lookup(sm_75): %v", err)
	}
	if _, err := Lookup("sm_08"); err == nil || !strings.Contains(err.Error(), "did you mean sm_80?") {
		t.Errorf("got %v", err)
	}
	for _, c := range []struct {
		major, minor int
		want         string
	}{{8, 0, "sm_80"}, {8, 7, "sm_86"}, {8, 9, "sm_89"}, {9, 0, "sm_90a"}, {10, 0, "sm_100a"}, {10, 3, "sm_90"}, {7, 5, ""}} {
		if a, err := For(c.major, c.minor); a.Name != c.want || (err == nil) != (c.want != "") {
			t.Errorf("For(%d, %d) = %s, %v; want %s", c.major, c.minor, a.Name, err, c.want)
		}
	}
}

// The vendor's formulas for mma.m16n8k16 with 16-bit operands, written from the
// PTX manual and not from the layouts: lane l, slot i.
func TestFragmentsAgainstPTXFormulas(t *testing.T) {
	for _, m := range Matrices() {
		for lane := range LanesPerWarp {
			group, in := lane>>2, lane%4
			for i := range 8 {
				row, col := group, in*2+i&1
				if i&3 >= 2 {
					row += 8
				}
				if i >= 4 {
					col += 8
				}
				if got := m.LA.Index(lane, i); got[0] != row || got[1] != col {
					t.Fatalf("%s A lane %d slot %d is %v, the manual says (%d, %d)", m.Name, lane, i, got, row, col)
				}
			}
			for i := range 4 {
				row, col := in*2+i&1, group
				if i >= 2 {
					row += 8
				}
				if got := m.LB.Index(lane, i); got[0] != row || got[1] != col {
					t.Fatalf("%s B lane %d slot %d is %v, the manual says (%d, %d)", m.Name, lane, i, got, row, col)
				}
				row, col = group, in*2+i&1
				if i >= 2 {
					row += 8
				}
				if got := m.LC.Index(lane, i); got[0] != row || got[1] != col {
					t.Fatalf("%s C lane %d slot %d is %v, the manual says (%d, %d)", m.Name, lane, i, got, row, col)
				}
			}
		}
	}
}

func TestWrongRowsDoNotLoad(t *testing.T) {
	for name, spoil := range map[string]func(*matrixRow){
		"shape":   func(r *matrixRow) { r.la = b16x8 },
		"overlap": func(r *matrixRow) { r.lc = "spatial(8, 4).local(2, 1)" },
		"text":    func(r *matrixRow) { r.lb = "locl(2, 1)" },
		"target":  func(r *matrixRow) { r.since = "sm_1" },
		"replica": func(r *matrixRow) { r.lc = "local(16, 8).spatial(1, 1)" },
	} {
		row := matrixRows[0]
		spoil(&row)
		if _, err := load([]matrixRow{row}); err == nil {
			t.Errorf("a row with a wrong %s loads", name)
		}
	}
}
