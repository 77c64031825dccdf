package need

import "testing"

func TestRequired(t *testing.T) {
	for _, c := range []struct {
		ci, list, name string
		want           bool
	}{
		{"", "", "jupyter", false},
		{"true", "", "jupyter", true},
		{"", "ptxas,jupyter", "jupyter", true},
		{"", "ptxas", "jupyter", false},
		{"false", "", "chromium", false},
	} {
		t.Setenv("CI", c.ci)
		t.Setenv("TILUS_LAB_REQUIRE", c.list)
		if got := Required(c.name); got != c.want {
			t.Errorf("CI=%q TILUS_LAB_REQUIRE=%q: Required(%q) = %v", c.ci, c.list, c.name, got)
		}
	}
}
