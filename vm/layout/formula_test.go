package layout

import (
	"strconv"
	"strings"
	"testing"
)

// The last number of each formula is the index, and the numbers before it add up to it.
func TestFormula(t *testing.T) {
	for _, text := range []string{"local(2, 1).spatial(8, 4).local(1, 2)", "spatial(2, 2).local(4, 8).local(2, 1).spatial(8, 4).local(1, 2)", "column_local(2, 2).spatial(8, 4).local(1, 2)",
		"replicated(1, 1, num_workers=8).spatial(1, 4).local(1, 2)", "spatial(64).local(4)", "local(3).spatial(32)", "local(1)", "spatial(2, 3, 5).local(7, 1, 2)"} {
		l, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for thread := range l.Threads() {
			for slot := range l.Slots() {
				at := l.Index(thread, slot)
				for d, f := range l.Formula(thread, slot) {
					parts := strings.Split(f, " = ")
					if n, err := strconv.Atoi(parts[len(parts)-1]); err != nil || n != at[d] {
						t.Fatalf("%s, thread %d, slot %d: %s, the index is %d", l, thread, slot, f, at[d])
					}
					if len(parts) < 3 {
						continue
					}
					sum := 0
					for _, p := range strings.Split(parts[1], " + ") {
						m := 1
						for _, x := range strings.Split(p, "·") {
							n, err := strconv.Atoi(x)
							if err != nil {
								t.Fatalf("%s: %v", f, err)
							}
							m *= n
						}
						sum += m
					}
					if sum != at[d] {
						t.Fatalf("%s, thread %d, slot %d: %s adds up to %d, the index is %d", l, thread, slot, f, sum, at[d])
					}
				}
			}
		}
	}
	l, _ := Parse("local(2, 1).spatial(8, 4).local(1, 2)")
	if f := strings.Join(l.Formula(5, 2), "; "); f != "T/4 + 8·(S/2) = 1 + 8·1 = 9; 2·(T%4) + S%2 = 2·1 + 0 = 2" {
		t.Error(f)
	}
}
