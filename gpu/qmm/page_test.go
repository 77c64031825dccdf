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
	"github.com/tilus-lab/tilus-lab/vm/dtype"
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
	page := func(name string) string { return onPage(t, name) }
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

// program is what the pages call the program of a schedule.
func program(s template.Schedule) string {
	switch {
	case s.Long:
		return "digits of 31 bits"
	case s.Digits:
		return "digits"
	case s.Ringed():
		return "stages"
	case s.Parts > 1 && s.Joint && s.Splits == 2:
		return "clusters"
	case s.Parts > 1 && !s.Joint:
		return "warps"
	case s.Fine:
		return "tiles"
	case s.Warpgroups:
		return "gang"
	case s.Streams():
		return "stream"
	}
	return s.String()
}

// onPage is the text of a page.
func onPage(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(need.Root(t), "gpu", "qmm", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// tableBehind are the cells of the first table of a page behind some text, without its head.
func tableBehind(t *testing.T, page, text string) (rows [][]string) {
	t.Helper()
	_, rest, ok := strings.Cut(page, text)
	_, rest, is := strings.Cut(rest, "|---|")
	if !ok || !is {
		t.Fatalf("no table behind %q", text)
	}
	for _, line := range strings.Split(rest, "\n")[1:] {
		if !strings.HasPrefix(line, "| ") {
			break
		}
		rows = append(rows, strings.Split(strings.Trim(line, "| "), " | "))
	}
	return rows
}

// said is what a cell of programs says of types: of those it names, of all others under "".
func said(cell string) map[string]string {
	out, named := map[string]string{}, []string{}
	for _, part := range strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == ';' }) {
		first, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
		if _, err := dtype.Parse(first); err == nil {
			named = append(named, first)
		} else {
			rest = strings.TrimPrefix(strings.TrimSpace(part), "others ")
		}
		if rest == "" {
			continue
		}
		if len(named) == 0 {
			named = []string{""}
		}
		for _, n := range named {
			out[n] = rest
		}
		named = nil
	}
	return out
}

// TestPageOfTable holds what DECODE.md says of the tables that ship to them: programs of all layers, stages, and Resident.
func TestPageOfTable(t *testing.T) {
	page := onPage(t, "DECODE.md")
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	shapes := map[string]Shape{}
	for _, s := range Models()[0].Shapes {
		shapes[s.Name] = s
	}
	forms := map[string][]string{"3 and 4, zero=any": {"u3 zero=any", "u4 zero=any"}, "8, zero=any": {"u8 zero=any"}}
	for _, w := range weightTypes() {
		bits := fmt.Sprint(w.Bits())
		forms[bits] = append(forms[bits], w.String())
		for name, words := range map[string]string{", zero=any": " zero=any", ", bf16": " act=bf16"} {
			forms[w.String()+name] = []string{w.String() + words}
		}
	}
	told := map[Tuned]bool{}
	for m, text := range map[int]string{1: "### Which one the table takes\n", 16: "\n9 to 16 rows:\n"} {
		for _, cells := range tableBehind(t, page, text) {
			if len(cells) != 5 || len(forms[cells[0]]) == 0 {
				t.Fatalf("%d rows: the page has a line of %q", m, cells)
			}
			for i, layer := range []string{"gate_up", "down", "o", "qkv"} {
				cell := cells[i+1]
				if cell == "as gate_up" {
					cell = cells[1]
				}
				names := said(cell)
				for _, name := range forms[cells[0]] {
					l := kind(t, name, shapes[layer].N, shapes[layer].K)
					p, err := template.PlanOf(l.Form())
					if err != nil {
						t.Fatal(err)
					}
					s, from, err := l.choose(m)
					if got, want := program(s), cmp.Or(names[l.WeightType.String()], names[""]); err != nil || from != "table" || got != want {
						t.Errorf("%s, %s, %d rows: the page says %q, and the %s has %s, %v", name, layer, m, want, from, got, err)
					}
					delete(names, l.WeightType.String())
					for _, key := range l.key(p, m).orWidth() {
						if i := slices.IndexFunc(all, key.same); i >= 0 {
							told[all[i]] = true
							break
						}
					}
				}
				if delete(names, ""); len(names) > 0 {
					t.Errorf("%s, %s, %d rows: the page tells of %v", cells[0], layer, m, names)
				}
			}
		}
	}
	counts := map[string]int{}
	stages := map[string]map[int]int{}
	for _, e := range all {
		s := e.Schedule
		what, n := program(s), fmt.Sprintf("%d rows", e.Rows)
		switch {
		case e.Rows < 32 && !told[e]:
			t.Errorf("%d bits %s %s, %d rows, [%d, %d]: the table has an entry of which the page tells nothing", e.Bits, e.Casts, e.Act, e.Rows, e.N, e.K)
		case s.Resident > 0 && what == "clusters":
			what = "warps"
		}
		if counts[n]++; s.Joint {
			counts[fmt.Sprintf("joint, %d×%d", e.N, e.K)]++
			counts["joint"]++
		}
		if counts[fmt.Sprint(what, ", ", n)]++; s.Resident > 0 {
			counts["resident"]++
			counts["resident, "+what]++
		}
		if s.Stages > 0 {
			of := "blocks that stay, "
			if s.Ringed() {
				of = "warps along k from stages, "
			}
			if of += strings.Replace(n, "1 rows", "one row", 1); stages[of] == nil {
				stages[of] = map[int]int{}
			}
			stages[of][s.Stages]++
			if down := e.K == shapes["down"].K; !s.Ringed() && s.Stages != 4 && s.Stages != 8 && !down || s.Ringed() && s.Stages != 4 && (down || e.N == shapes["gate_up"].N) {
				t.Errorf("%d stages of %s: [%d, %d], which the page says has none", s.Stages, of, e.N, e.K)
			}
		}
	}
	lines := []string{
		fmt.Sprintf("It is what %d of the table's %d entries of one row have.", counts["stages, 1 rows"], counts["1 rows"]),
		fmt.Sprintf("%d of the table's %d entries of 1 and 16 rows have them, %d of these in o.", counts["joint"], counts["1 rows"]+counts["16 rows"], counts["joint, 8192×8192"]),
		fmt.Sprintf("| the table | where timing found it faster: %d of %d entries, all %d of warps along k from stages, %d of warps along k without, %d of stream |",
			counts["resident"], len(all), counts["stages, 1 rows"], counts["resident, warps"], counts["resident, stream"]),
	}
	if counts["resident, stages"] != counts["stages, 1 rows"] || counts["resident"] != counts["resident, stages"]+counts["resident, warps"]+counts["resident, stream"] {
		t.Errorf("Resident: the table has %v", counts)
	}
	header := "| entries | 2 | 3 | 4 | 5 | 6 | 8 stages |\n|---|---|---|---|---|---|---|"
	for _, of := range []string{"blocks that stay, one row", "blocks that stay, 16 rows", "blocks that stay, 32 rows", "warps along k from stages, one row"} {
		header += "\n| " + of
		for _, n := range []int{2, 3, 4, 5, 6, 8} {
			if header += " |"; stages[of][n] > 0 {
				header += fmt.Sprintf(" %d", stages[of][n])
			}
			delete(stages[of], n)
		}
		if header += " |"; len(stages[of]) > 0 {
			t.Errorf("%s: stages %v, which the page has no column of", of, stages[of])
		}
		delete(stages, of)
	}
	if len(stages) > 0 {
		t.Errorf("the page has no line of stages of %v", stages)
	}
	wide, err := WideTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range wide {
		if !e.Schedule.Staged {
			t.Errorf("WIDE.md: results leave by rows in the whole table, and not of %d bits, %d rows, [%d, %d]", e.Bits, e.Rows, e.N, e.K)
		}
	}
	for _, of := range []struct {
		name string
		m    int
	}{{"u4", 1}, {"u4", 16}, {"u1", 32}} { // field by field
		c, _, err := kind(t, of.name, shapes["gate_up"].N, shapes["gate_up"].K).Usual().choice(of.m, Call{})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("- `%s` (%s, gate_up, ", c, of.name))
	}
	for _, line := range append(lines, header+"\n") {
		if !strings.Contains(page, line) {
			t.Errorf("DECODE.md: the table gives\n%s", line)
		}
	}
}

// TestPageOfModels holds the table of WIDE.md that says what hundreds of rows take to what is chosen.
func TestPageOfModels(t *testing.T) {
	var types []string
	for _, w := range weightTypes() {
		types = append(types, w.String())
	}
	floats := func(is func(w string) bool) (out []string) {
		for _, w := range types {
			if w[0] == 'f' && is(w) {
				out = append(out, w)
			}
		}
		return out
	}
	told := map[string]bool{}
	for _, cells := range tableBehind(t, onPage(t, "WIDE.md"), "for 256, 512, 1,024 and 1,536 rows:\n") {
		var names []string
		for _, name := range strings.Split(cells[0], ", ") {
			from, to, some := strings.Cut(name, " to ")
			bits, whole := strings.CutPrefix(name, "all floats of ")
			switch {
			case some:
				names = append(names, floats(func(w string) bool { return w[:2] == from[:2] && w >= from && w <= to })...)
			case whole:
				names = append(names, floats(func(w string) bool { return w[1] == bits[0] })...)
			default:
				names = append(names, name)
			}
		}
		for i, layer := range []Shape{{N: 57344, K: 8192}, {N: 8192, K: 8192}, {N: 10240, K: 8192}} {
			want := strings.ReplaceAll(cells[i+1], "*", "") + " e"
			for _, name := range names {
				told[name] = true
				l := kind(t, name, layer.N, layer.K).Usual()
				var got []string
				for _, m := range []int{256, 512, 1024, 1536, 2048} {
					c, _, err := l.choice(m, Call{})
					switch {
					case err != nil:
						t.Fatal(err)
					case c.Plan == Expand:
						got = append(got, "e")
					case c.Wide.Folded:
						got = append(got, "F")
					default:
						got = append(got, "s")
					}
				}
				if is := strings.Join(got, " "); is != want {
					t.Errorf("%s, [%d, %d]: 256 to 2048 rows take %s, and the page says %s", name, layer.N, layer.K, is, want)
				}
			}
		}
	}
	never := []string{"u1", "f7e6m0", "f8e6m1", "f8e7m0", "f7e5m1", "f8e5m2"}
	for _, w := range types {
		if told[w] == slices.Contains(never, w) {
			t.Errorf("the table tells of %s: %v", w, told[w])
		}
	}
	for _, name := range append(never, "u2 zero", "u4 zero=any") {
		l := kind(t, name, 8192, 8192).Usual()
		for _, m := range []int{256, 512, 1024, 1536} {
			if c, _, err := l.choice(m, Call{}); err != nil || c.Wide.Folded {
				t.Errorf("%s, %d rows: %s, %v, which the page says is never folded", name, m, c, err)
			}
		}
	}
}
