package qmm

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/tests/record"
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
	widths := func() (lines []string) {
		lines = []string{"| bits | gate_up, 1 row | down | o | qkv | gate_up, 16 rows | down | o | qkv |", "|---|---|---|---|---|---|---|---|---|"}
		by := map[string][]Row{}
		for _, r := range record.Read[Row](t, "types_of_width.json") {
			k := fmt.Sprint(r.Weight[1:2], r.Layer, r.M)
			by[k] = append(by[k], r)
		}
		for bits := 2; bits <= 8; bits++ {
			cells := []string{fmt.Sprint(bits)}
			for _, m := range []int{1, 16} {
				for _, layer := range []string{"gate_up", "down", "o", "qkv"} {
					all := by[fmt.Sprint(bits, layer, m)]
					us := func(a, b Row) int { return cmp.Compare(a.MedianUs, b.MedianUs) }
					slow := slices.MaxFunc(all, us)
					cell := slow.MedianUs / slices.MinFunc(all, us).MedianUs
					text := fmt.Sprintf("%.2f", cell)
					if cell >= 1.03 {
						text += fmt.Sprintf(" (%s)", slow.Weight)
					}
					cells = append(cells, text)
				}
			}
			lines = append(lines, "| "+strings.Join(cells, " | ")+" |")
		}
		return lines
	}
	page := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(need.Root(t), "gpu", "qmm", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	type table struct {
		page, what string
		lines      []string
	}
	forms := func() (out []table) {
		cells := map[string][]string{}
		var kinds []string
		for _, m := range []int{1, 16, 64, 128} {
			for _, r := range record.Read[unknownRow](t, "unknown_forms.json") {
				if r.M != m {
					continue
				}
				text := fmt.Sprintf("%.1f", r.Best)
				if r.Tried < fewest && r.End == tune.EndTime {
					text += " (few)"
				}
				k := fmt.Sprintf("%s %d", r.Weight, r.N)
				if cells[k] = append(cells[k], text); !slices.Contains(kinds, r.Weight) {
					kinds = append(kinds, r.Weight)
				}
			}
		}
		for _, kind := range kinds {
			line := "| " + kind
			for _, n := range []int{28672, 5120, 6144} {
				line += " | " + strings.Join(cells[fmt.Sprintf("%s %d", kind, n)], ", ")
			}
			out = append(out, table{"DECODE.md", kind, []string{line + " |"}})
			if _, own, _ := strings.Cut(page("DECODE.md"), "| form | 28672 × 4096: 1, 16, 64, 128 rows | 5120 × 13824 | 6144 × 6144 |\n"); strings.Count(own, "| "+kind+" | ") != 1 || !strings.Contains(own, line) {
				t.Errorf("DECODE.md: the table of forms has not one line of %s, as the record gives it", kind)
			}
		}
		return out
	}
	prefill := func() []string {
		lines := []string{"| bits | types | 4,096 rows: of cuBLAS's speed | of Humming's | 12,288 rows: of cuBLAS's | of Humming's |", "|---|---|---|---|---|---|"}
		rows := prefillRows(t)
		for bits := 1; bits <= 8; bits++ {
			cells, types := []string{}, map[string]bool{}
			for _, m := range []int{4096, 12288} {
				for _, of := range []func(r prefillRow) float64{func(r prefillRow) float64 { return r.OfCublas }, func(r prefillRow) float64 { return r.OfHumming }} {
					var all []float64
					for _, r := range rows {
						if r.Weight[1:2] == fmt.Sprint(bits) && r.M == m && r.Layer == "o" && of(r) > 0 {
							all, types[r.Weight] = append(all, of(r)), true
						}
					}
					cell := fmt.Sprintf("%.2f", slices.Min(all))
					if most := fmt.Sprintf("%.2f", slices.Max(all)); most != cell {
						cell += " to " + most
					}
					cells = append(cells, cell)
				}
			}
			lines = append(lines, fmt.Sprintf("| %d | %d | %s |", bits, len(types), strings.Join(cells, " | ")))
		}
		return lines
	}
	us := func(v float64) string {
		if v < 100 {
			return fmt.Sprintf("%.1f", v)
		}
		return fmt.Sprintf("%.0f", v)
	}
	// both are products of layers and rows, one way and another, and how many times as fast as cuBLAS the other is.
	both := func(name string, one, other func(layer string, m int) Row, at ...cell) string {
		cells, of := []string{name}, []string{}
		for _, p := range at {
			a, b := one(p.layer, p.m), other(p.layer, p.m)
			cells, of = append(cells, us(a.MedianUs)+" → "+us(b.MedianUs)), append(of, fmt.Sprintf("%.2f", b.OfCublas))
		}
		return "| " + strings.Join(append(cells, strings.Join(of, ", ")), " | ") + " |"
	}
	many := func() (lines []string) {
		var file struct{ Rows, Unfolded []Row }
		readRecord(t, "many_rows.json", &file)
		for _, w := range []string{"u4", "i4", "f6e3m2"} {
			of := func(rows []Row) func(layer string, m int) Row {
				return func(layer string, m int) Row {
					return rows[slices.IndexFunc(rows, func(r Row) bool { return r.Weight == w && r.Layer == layer && r.M == m })]
				}
			}
			lines = append(lines, both(w, of(file.Unfolded), of(file.Rows), cell{"gate_up", 512}, cell{"gate_up", 1024}, cell{"o", 512}, cell{"o", 1024}))
		}
		return lines
	}
	rounded := func() (lines []string) {
		file := roundedRows(t)
		for _, w := range []string{"u4", "i4", "i8"} {
			of := func(rounded bool) func(layer string, m int) Row {
				return func(layer string, m int) Row {
					return file.Rows[slices.IndexFunc(file.Rows, func(r Row) bool {
						return r.Weight == w && r.Layer == layer && r.M == m && r.Rounded == rounded && !r.AnyZero
					})]
				}
			}
			lines = append(lines, both(w, of(false), of(true), cell{"gate_up", 512}, cell{"gate_up", 1024}, cell{"gate_up", 4096}, cell{"o", 512}, cell{"o", 1024}, cell{"o", 4096}))
		}
		return lines
	}
	for _, c := range append(forms(), []table{
		{"WIDE.md", "thousands of rows", prefill()},
		{"WIDE.md", "hundreds of rows", many()},
		{"WIDE.md", "rounded", rounded()},
		{"DECODE.md", "one row", few(1)},
		{"DECODE.md", "sixteen rows", few(16)},
		{"DECODE.md", "other zero points and bf16", others()},
		{"DECODE.md", "types of a width", widths()},
		{"WIDE.md", "32 rows", wide()},
	}...) {
		if table := strings.Join(c.lines, "\n") + "\n"; !strings.Contains(page(c.page), table) {
			t.Errorf("%s, %s: the record gives\n%s", c.page, c.what, table)
		}
	}
}

// cell is a product of a table.
type cell struct {
	layer string
	m     int
}

// tenths rounds to one digit, and little below 0 to 0.
func tenths(us float64) float64 { return math.Round(us*10)/10 + 0 }
