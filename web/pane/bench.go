package pane

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/web/facts"
)

const benchOwn = "the rows below"

// charts are the recorded comparisons.
func charts() []facts.Chart {
	var all []facts.Chart
	if err := json.Unmarshal(facts.Benchmarks, &all); err != nil {
		panic(err) // our own file, held by a test
	}
	return all
}

func benchPane() Pane {
	var names []string
	for _, c := range charts() {
		names = append(names, c.Name)
	}
	return Pane{
		Name:  "bench",
		Title: "Benchmarks",
		Doc:   "What was measured, and against what: recorded runs, or rows of your own. Each chart says on which machine and of which commit.",
		Params: []Param{
			{Name: "b", Title: "Chart", Kind: Choice, Default: names[0], Choices: append(names, benchOwn), Doc: "A recorded comparison, or your own rows."},
			{Name: "q", Title: "Only", Kind: Text, Hint: "all", Doc: "Words that must stand in the name of a bar."},
			{Name: "src", Title: "Your rows", Kind: Program, Default: "[\n\t{\"name\": \"first\", \"median_us\": 12.5},\n\t{\"name\": \"second\", \"median_us\": 9.75}\n]", Doc: "JSON of tilus-lab bench --json, or of a file of tests/record: a list of objects, or an object with such a list as rows. Read where the choice above says so."},
			{Name: "y", Title: "Number", Kind: Text, Default: "median_us", Doc: "Which number of your rows is drawn."},
		},
		Render: renderBench,
	}
}

func renderBench(v Values) (Result, error) {
	var c facts.Chart
	if v["b"] == benchOwn {
		var err error
		if c, err = ownChart(v["src"], strings.TrimSpace(v["y"])); err != nil {
			return Result{}, err
		}
	}
	for _, x := range charts() {
		if x.Name == v["b"] {
			c = x
		}
	}
	words := strings.Fields(strings.ToLower(v["q"]))
	c.Bars = slices.DeleteFunc(c.Bars, func(b facts.Bar) bool {
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(strings.ToLower(b.Name), w) })
	})
	if len(c.Bars) == 0 {
		return Result{}, diag.List{{Pos: at("q"), Code: "Pane.E26", Msg: fmt.Sprintf("no bar has all of the words %.60q", v["q"]), Help: "use fewer words"}}
	}
	out := Result{Pictures: []Picture{{Name: c.Name, Picture: bars(c, v.look())}}}
	out.Sentence = fmt.Sprintf("%s: %s, in %s. Measured; %s.", c.Title, plural(len(c.Bars), "comparison"), c.Unit, c.From)
	if len(c.Series) > 1 && v["b"] != benchOwn {
		ahead, of := 0, 0
		for _, b := range c.Bars {
			best := 0.0
			for _, x := range b.Values[1:] {
				if x > 0 && (best == 0 || (c.Better == "more") == (x > best)) {
					best = x
				}
			}
			if best == 0 || b.Values[0] == 0 {
				continue
			}
			of++
			if (c.Better == "more") == (b.Values[0] >= best) {
				ahead++
			}
		}
		if c.Series[0] == "ours" && of > 0 {
			out.Sentence += fmt.Sprintf(" In %d of %d, ours is at least as good as the best beside it.", ahead, of)
		}
	}
	return out, nil
}

// maxBars is how many rows of one's own are drawn.
const maxBars = 200

func ownChart(src, field string) (facts.Chart, error) {
	wrong := func(param, help, format string, args ...any) (facts.Chart, error) {
		return facts.Chart{}, diag.List{{Pos: at(param), Code: "Pane.E27", Msg: fmt.Sprintf(format, args...), Help: help}}
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(src), &rows); err != nil {
		var whole struct {
			Rows []map[string]any `json:"rows"`
		}
		if json.Unmarshal([]byte(src), &whole) != nil || whole.Rows == nil {
			here := at("src")
			if s, ok := err.(*json.SyntaxError); ok {
				before := src[:min(len(src), max(0, int(s.Offset)-1))]
				here.Line = 1 + strings.Count(before, "\n")
				here.Col = len(before) - strings.LastIndexByte(before, '\n')
			}
			return facts.Chart{}, diag.List{{Pos: here, Code: "Pane.E27", Msg: fmt.Sprintf("these are no rows: %v", err), Help: "paste a JSON list of objects, or an object with such a list as rows"}}
		}
		rows = whole.Rows
	}
	if len(rows) > maxBars {
		rows = rows[:maxBars]
	}
	c := facts.Chart{Name: benchOwn, Title: "Your rows", Unit: field, Better: "less", Series: []string{field}, From: "the rows that you gave"}
	if strings.Contains(field, "flops") || strings.HasPrefix(field, "gb") {
		c.Better = "more"
	}
	var known []string
	for i, r := range rows {
		for k, x := range r {
			if _, ok := x.(float64); ok && !slices.Contains(known, k) {
				known = append(known, k)
			}
		}
		x, ok := r[field].(float64)
		if !ok || x < 0 {
			continue
		}
		name := fmt.Sprint("row ", i+1)
		for _, k := range []string{"name", "case", "kernel", "what"} {
			if s, ok := r[k].(string); ok {
				name = fmt.Sprintf("%.60s", s)
				break
			}
		}
		c.Bars = append(c.Bars, facts.Bar{Name: name, Values: []float64{x}})
	}
	if len(c.Bars) == 0 {
		slices.Sort(known)
		return wrong("y", "the rows have "+strings.Join(known, ", "), "no row has a number %.40q", field)
	}
	return c, nil
}
