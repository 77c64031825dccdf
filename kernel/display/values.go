package display

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/cost"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
	"github.com/tilus-lab/tilus-lab/layoutviz/timeline"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
	"github.com/tilus-lab/tilus-lab/vm/layout/linear"
)

// drawn gives the forms of the values that have a picture: layouts of all notations,
// instructions and their operands, accesses to memory, traces and machines. The text is
// what stands where no picture can.
func drawn(v any) (Data, bool) {
	var p layoutviz.Picture
	var err error
	words := ""
	switch x := v.(type) {
	case notation.Value:
		p, err = layoutviz.Value(x, layoutviz.UsualView(x), 0, layoutviz.Options{})
		words = fmt.Sprintf("%s, read as %s: %s", x.What(), x.Form(), x.Text())
	case layout.Shared, layout.Swizzle, cute.Layout, cute.Composed, linear.Layout:
		words = fmt.Sprint(x)
		var n notation.Value
		if n, err = notation.Read(words); err == nil {
			p, err = layoutviz.Value(n, layoutviz.UsualView(n), 0, layoutviz.Options{})
		}
	case arch.Atom:
		p, err = layoutviz.Atom(x, layoutviz.Options{})
		words = atomText(x)
	case arch.Operand:
		p, err = layoutviz.Tensor(x.Layout, layoutviz.Options{})
		words = strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", x.Name, x.Type, x.Layout, x.Note))
		p.Title = words
	case bank.Report:
		p, err = layoutviz.Banks(x, layoutviz.Options{})
		words = x.Say()
	case *trace.Trace:
		if x == nil {
			return Data{}, false
		}
		p, err = timeline.Tracks(x, layoutviz.Options{})
		words = fmt.Sprintf("%s: %d events on %d tracks, %d %ss", x.Title, len(x.Events), len(x.Tracks), x.End, x.Unit)
	case *dispatch.Result:
		if x == nil {
			return Data{}, false
		}
		words = timeline.Sentence(x)
		p, err = timeline.Gantt(x, "Dispatch", -1, layoutviz.Options{})
	case *volta.Run:
		if x == nil {
			return Data{}, false
		}
		p, err = theatre.Storyboard(x, layoutviz.Options{})
		words = p.Title
	case layoutviz.Chart:
		p, err = layoutviz.Plot(x, layoutviz.Options{})
		words = x.Title
	default:
		return Data{}, false
	}
	if err != nil { // too large, or nothing to draw
		return MakeData(MIMETypeText, strings.TrimSpace(words+"\n("+err.Error()+")")), true
	}
	d := Picture(p)
	if words != "" {
		d.Data[MIMETypeText] = words
	}
	return d, true
}

func atomText(a arch.Atom) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d×%d×%d, since %s", a.Name, a.M, a.N, a.K, a.Since)
	for _, o := range a.Operands {
		fmt.Fprintf(&b, "\n%s: %s %s", o.Name, o.Type, o.Layout)
	}
	return b.String()
}

// costs shows the report about a launch as a table.
func costs(l cost.Launch) Data {
	t := Table{Head: []string{"", l.Program}}
	for line := range strings.Lines(l.String()) {
		name, rest, ok := strings.Cut(line, "  ")
		if ok {
			t.Rows = append(t.Rows, []any{name, strings.TrimSpace(rest)})
		}
	}
	d := MIME(t.SimpleRender(), nil)
	d.Data[MIMETypeText] = strings.TrimRight(l.String(), "\n")
	return d
}

// Tensor shows the values of an array in a register layout of its shape: each element
// in its place, with its value and the thread that holds it.
func Tensor(l layout.Layout, a *array.Array) Data {
	p, err := layoutviz.Values(l, a, layoutviz.Options{})
	if err != nil {
		return MakeData(MIMETypeText, "display: "+err.Error())
	}
	d := Picture(p)
	d.Data[MIMETypeText] = l.String() + "\n" + a.String()
	return d
}

// Plot shows a chart.
func Plot(c layoutviz.Chart) Data {
	d, _ := drawn(c)
	return d
}

// Lines shows y as a line over 0, 1, 2, …; it is the short way to a [Plot].
func Lines(title string, y ...[]float64) Data {
	c := layoutviz.Chart{Title: title, X: "index", Y: "value"}
	for i, v := range y {
		c.Series = append(c.Series, layoutviz.Series{Name: fmt.Sprint("series ", i), Y: v})
	}
	return Plot(c)
}

// Table is rows under a heading. It shows as HTML, Markdown and text.
type Table struct {
	Head []string
	Rows [][]any
}

// NewTable is a table without rows.
func NewTable(head ...string) *Table { return &Table{Head: head} }

// Add appends a row and returns the table.
func (t *Table) Add(cells ...any) *Table {
	t.Rows = append(t.Rows, cells)
	return t
}

// maxRows is how many rows of a table are shown.
const maxRows = 1000

// SimpleRender makes the forms.
func (t Table) SimpleRender() MIMEMap {
	rows, cut := t.Rows, ""
	if len(rows) > maxRows {
		rows, cut = rows[:maxRows], fmt.Sprintf("… %d more rows", len(t.Rows)-maxRows)
	}
	cols := len(t.Head)
	for _, r := range rows {
		cols = max(cols, len(r))
	}
	cells := [][]string{make([]string, cols)}
	copy(cells[0], t.Head)
	number := make([]bool, cols)
	for c := range number {
		number[c] = len(rows) > 0
	}
	for _, r := range rows {
		line := make([]string, cols)
		for c, v := range r {
			line[c] = cellText(v)
			switch v.(type) {
			case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, nil:
			default:
				number[c] = false
			}
		}
		cells = append(cells, line)
	}
	width := make([]int, cols)
	for _, line := range cells {
		for c, s := range line {
			width[c] = max(width[c], utf8.RuneCountInString(s))
		}
	}
	var page, mark, text strings.Builder
	page.WriteString("<table><thead>")
	for i, line := range cells {
		page.WriteString("<tr>")
		mark.WriteString("|")
		for c, s := range line {
			tag, style := "td", ""
			if i == 0 {
				tag = "th"
			}
			if number[c] {
				style = ` style="text-align: right"`
			}
			fmt.Fprintf(&page, "<%s%s>%s</%s>", tag, style, html.EscapeString(s), tag)
			mark.WriteString(" " + strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(s) + " |")
			space := strings.Repeat(" ", width[c]-utf8.RuneCountInString(s))
			if number[c] {
				text.WriteString(space + s)
			} else {
				text.WriteString(s + space)
			}
			if c < cols-1 {
				text.WriteString("  ")
			}
		}
		page.WriteString("</tr>")
		mark.WriteString("\n")
		text.WriteString("\n")
		if i == 0 {
			page.WriteString("</thead><tbody>")
			mark.WriteString("|")
			for c := range cols {
				mark.WriteString(map[bool]string{true: " ---: |", false: " --- |"}[number[c]])
			}
			mark.WriteString("\n")
		}
	}
	page.WriteString("</tbody></table>" + html.EscapeString(cut))
	plain := strings.Split(strings.TrimRight(text.String()+cut, "\n"), "\n")
	for i, s := range plain {
		plain[i] = strings.TrimRight(s, " ")
	}
	return MIMEMap{MIMETypeHTML: page.String(), MIMETypeMarkdown: mark.String() + cut, MIMETypeText: strings.Join(plain, "\n")}
}

func cellText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return fmt.Sprintf("%.6g", v)
	case float32:
		return fmt.Sprintf("%.6g", v)
	}
	return fmt.Sprint(v)
}
