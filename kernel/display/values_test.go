package display

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/cost"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/gpu/model/recorded"
	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// What the lab makes shows as a picture or a table, and as text where neither can be.
func TestValuesRender(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l := layout.Local(2, 1).Spatial(8, 4).Local(1, 2)
	value, err := notation.Read("(8,8):(8,1)")
	must(err)
	atom, err := arch.FindAtom("mma.m16n8k16.f32.f16")
	if err != nil {
		atom = arch.Atoms()[0]
	}
	profile, err := bank.FindProfile("nvidia")
	must(err)
	access, err := bank.ParseAccess("load 4: lane*8", profile, diag.Pos{Line: 1, Col: 1})
	must(err)
	report, err := bank.Count(profile, access)
	must(err)
	blocks, err := recorded.Trace("uneven")
	must(err)
	x, err := dispatch.FindExample("streams")
	must(err)
	gantt, err := x.Program.Run()
	must(err)
	setup, err := volta.ParseSetup("mixed", "row.col", "")
	must(err)
	a, b, c := volta.Integers()
	run, err := volta.New(setup, volta.Measured, a, b, c)
	must(err)
	numbers, err := array.Generate("randn:f16[16, 8]:seed=1")
	must(err)
	p, err := text.Parse("p.tile", "program p<1>(x: *f32) {\n}\n", nil)
	must(err)
	chart := layoutviz.Chart{Title: "time", X: "K", Y: "µs", Series: []layoutviz.Series{{Name: "ours", X: []float64{1, 2, 4}, Y: []float64{3, 1, 2}}}}

	const svg, page = MIMETypeSVG, MIMETypeHTML
	for name, c := range map[string]struct {
		v    any
		mime string
		want string // in that form
		text string // in the text
	}{
		"layout":       {l, svg, ">T31<", "local(2, 1).spatial(8, 4)"},
		"notation":     {value, svg, "<svg", "(8,8):(8,1)"},
		"swizzle":      {layout.Swizzle{Bits: 3, Base: 4, Shift: 3}, svg, "<svg", "3"},
		"instruction":  {atom, svg, "<svg", atom.Name},
		"fragment":     {atom.Operands[0], svg, "<svg", atom.Operands[0].Name},
		"banks":        {report, svg, "<svg", report.Say()},
		"program":      {p, page, "<pre>program p", "program p"},
		"array":        {numbers, page, "<table>", "f16[16, 8]"},
		"tensor":       {Tensor(l, numbers), svg, ">T31<", "f16[16, 8]"},
		"trace":        {blocks, svg, "<svg", "events on"},
		"dispatch":     {gantt, svg, "<svg", "blocks in"},
		"volta":        {run, svg, "<svg", ""},
		"cost":         {cost.Launch{Program: "p", Target: "sm_90a", Grid: [3]int{2, 1, 1}, Flops: 77}, page, "<td>operations</td><td>77 of floats</td>", "operations"},
		"chart":        {chart, svg, ">ours<", "time"},
		"plot":         {Plot(chart), svg, ">ours<", "time"},
		"lines":        {Lines("two", []float64{1, 2}, []float64{2, 1}), svg, "series 1", "two"},
		"table":        {NewTable("op", "µs").Add("a<b", 1.5).Add("c|d", 22), page, `<td>a&lt;b</td><td style="text-align: right">1.5</td>`, "op    µs\na<b  1.5\nc|d   22"},
		"table as .md": {*NewTable("op", "µs").Add("c|d", 22), MIMETypeMarkdown, "| c\\|d | 22 |", "op"},
	} {
		d, ok := Render(c.v)
		got, _ := d.Data[c.mime].(string)
		if !ok || !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q in %s of %.300v", name, c.want, c.mime, d.Data)
		}
		if got, _ := d.Data[MIMETypeText].(string); !strings.Contains(got, c.text) || got == "" || strings.Contains(got, "<svg") {
			t.Errorf("%s: text %.200q, want %q in it", name, got, c.text)
		}
		if c.mime == svg {
			if png, _ := d.Data[MIMETypePNG].([]byte); len(png) == 0 {
				t.Errorf("%s: no PNG for front ends without SVG", name)
			}
		}
	}
	// What cannot be drawn says why.
	if d, ok := Render(layoutviz.Chart{Title: "none"}); !ok || !strings.Contains(d.Data[MIMETypeText].(string), "no numbers") {
		t.Errorf("an empty chart: %v", d.Data)
	}
}

// The interactive page needs nothing else: no address, and a policy that loads nothing.
func TestInteractive(t *testing.T) {
	l := layout.Local(2, 1).Spatial(8, 4).Local(1, 2)
	one, err := layoutviz.Tensor(l, layoutviz.Options{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := layoutviz.Threads(l, layoutviz.Options{})
	if err != nil {
		t.Fatal(err)
	}
	two.IDs[0].Label = "</script><script>alert(1)</script>"
	doc, err := Document(one, two)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range regexp.MustCompile(`(?:https?:)?//[\w.]+`).FindAllString(doc, -1) {
		if a != "http://www.w3.org" {
			t.Errorf("the page names %s", a)
		}
	}
	if strings.Count(doc, "<script>") != 1 || !strings.Contains(doc, "default-src 'none'") {
		t.Error("a label became a script, or there is no policy")
	}
	_, table, _ := strings.Cut(doc, "const table = ")
	var all []struct {
		E []struct {
			T string
			K []int
		}
	}
	if err := json.NewDecoder(strings.NewReader(table)).Decode(&all); err != nil || len(all) != 2 || len(all[0].E) != 128 {
		t.Errorf("table: %v, %d pictures", err, len(all))
	}
	d := Interactive(one, two)
	if h := d.Data[MIMETypeHTML].(string); !strings.Contains(h, `sandbox="allow-scripts"`) || strings.Contains(h, "<script") {
		t.Errorf("frame: %.200s", h)
	}
	if !strings.Contains(d.Data[MIMETypeSVG].(string), "<svg") {
		t.Error("no picture where pages cannot be")
	}
	if dir := os.Getenv("TILUS_LAB_SHOTS"); dir != "" {
		os.WriteFile(filepath.Join(dir, "interactive.html"), []byte(doc), 0o644)
	}
}
