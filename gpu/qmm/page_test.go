package qmm

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// TestPages holds the tables of DECODE.md and WIDE.md that are of one record each to it.
func TestPages(t *testing.T) {
	all := records(t)
	row := func(name, layer string, m int) Row {
		t.Helper()
		l, err := Parse(name, 8192, 8192)
		if err != nil {
			t.Fatal(err)
		}
		var fastest Row
		for _, r := range all {
			if r.Weight == l.WeightType.String() && r.Act == l.ActType.String() && r.AnyZero == l.AnyZero && r.Layer == layer && r.M == m && (fastest.M == 0 || m == 1 && r.MedianUs < fastest.MedianUs) {
				fastest = r.Row
			}
		}
		if fastest.M == 0 {
			t.Fatalf("no record has %s of %s with %d rows", name, layer, m)
		}
		return fastest
	}
	few := func(m int) (lines []string) {
		for _, w := range []string{"u4", "u2", "u3", "u1", "u8", "f6e3m2", "f8e4m3"} {
			g, o, qkv := row(w, "gate_up", m), row(w, "o", m), row(w, "qkv", m)
			lines = append(lines, fmt.Sprintf("| %s | %.1f | %.1f | %.2f | %.2f | %.2f | %.1f | %.1f |", w, g.MedianUs, g.ReadUs, g.Ratio, g.OfCublas,
				row(w, "down", m).Ratio, tenths(o.MedianUs-o.ReadUs), tenths(qkv.MedianUs-qkv.ReadUs)))
		}
		return lines
	}
	others := func() (lines []string) {
		for _, w := range []struct{ name, kind string }{{"u3, zero=any", "u3 zero=any"}, {"u4, zero=any", "u4 zero=any"}, {"u8, zero=any", "u8 zero=any"}, {"u4, bf16", "u4 act=bf16"}, {"u8, bf16", "u8 act=bf16"}} {
			cells := []string{w.name}
			for _, m := range []int{1, 16} {
				for _, layer := range []string{"gate_up", "down", "o", "qkv"} {
					r := row(w.kind, layer, m)
					cells = append(cells, fmt.Sprintf("%.1f (%.2f)", r.MedianUs, r.Ratio))
				}
			}
			lines = append(lines, "| "+strings.Join(cells, " | ")+" |")
		}
		return lines
	}
	wide := func() (lines []string) {
		for _, w := range []string{"u1", "u2", "u3", "u4", "i4", "u5", "f6e3m2", "u7", "u8"} {
			cells := []string{w}
			for _, layer := range []string{"gate_up", "down", "qkv", "o"} {
				r := row(w, layer, 32)
				us := fmt.Sprintf("%.1f", r.MedianUs)
				if r.Schedule != (template.Schedule{}) {
					us = "**" + us + "**"
				}
				cells = append(cells, fmt.Sprintf("%s (%.2f)", us, r.OfCublas))
			}
			lines = append(lines, "| "+strings.Join(cells, " | ")+" |")
		}
		return lines
	}
	for _, c := range []struct {
		page, what string
		lines      []string
	}{
		{"DECODE.md", "one row", few(1)},
		{"DECODE.md", "sixteen rows", few(16)},
		{"DECODE.md", "other zero points and bf16", others()},
		{"WIDE.md", "32 rows", wide()},
	} {
		data, err := os.ReadFile(filepath.Join(need.Root(t), "gpu", "qmm", c.page))
		if err != nil {
			t.Fatal(err)
		}
		if table := strings.Join(c.lines, "\n") + "\n"; !strings.Contains(string(data), table) {
			t.Errorf("%s, %s: the record gives\n%s", c.page, c.what, table)
		}
	}
}

// tenths rounds to one digit, and little below 0 to 0.
func tenths(us float64) float64 { return math.Round(us*10)/10 + 0 }
