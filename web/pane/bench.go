package pane

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/web/facts"
)

const (
	benchOwn  = "the rows below"
	benchRows = "[\n\t{\"name\": \"first\", \"median_us\": 12.5},\n\t{\"name\": \"second\", \"median_us\": 9.75}\n]"
)

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
			{Name: "src", Title: "Your rows", Kind: Program, Later: true, Default: benchRows, Doc: "JSON of tilus-lab bench --json, or of a file of tests/record: a list of objects, or an object with such a list as rows. Once they are changed they are drawn first. Rows with m, n, k, bytes and median_us get a roofline, too."},
			{Name: "y", Title: "Number", Kind: Text, Later: true, Default: "median_us", Doc: "Which number of your rows is drawn."},
		},
		Render: renderBench,
	}
}

func renderBench(v Values) (Result, error) {
	var all []facts.Chart
	own := 0 // of them
	if v["b"] == benchOwn || v["src"] != benchRows {
		mine, err := ownCharts(v["src"], strings.TrimSpace(v["y"]))
		if err != nil {
			return Result{}, err
		}
		all, own = mine, len(mine)
	}
	for _, x := range charts() {
		if x.Name == v["b"] {
			all = append(all, x)
		}
	}
	words := strings.Fields(strings.ToLower(v["q"]))
	var out Result
	for i, c := range all {
		c.Bars = slices.DeleteFunc(slices.Clone(c.Bars), func(b facts.Bar) bool {
			return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(strings.ToLower(b.Name), w) })
		})
		if len(c.Bars) == 0 {
			continue
		}
		pic, say, err := chart(c, i < own, v.look())
		if err != nil {
			return Result{}, err
		}
		out.Pictures = append(out.Pictures, Picture{Name: c.Name, Picture: pic})
		out.Sentence = strings.TrimPrefix(out.Sentence+" "+say, " ")
	}
	if len(out.Pictures) == 0 {
		return Result{}, diag.List{{Pos: at("q"), Code: "Pane.E26", Msg: fmt.Sprintf("no bar has all of the words %.60q", v["q"]), Help: "use fewer words"}}
	}
	return out, nil
}

// chart draws a chart and says what it shows.
func chart(c facts.Chart, own bool, o layoutviz.Options) (layoutviz.Picture, string, error) {
	switch {
	case c.Roof != nil:
		return underRoof(c, o)
	case c.Spread > 0:
		return spread(c, o)
	}
	say := fmt.Sprintf("%s: %s, in %s. Measured; %s.", c.Title, plural(len(c.Bars), "comparison"), c.Unit, c.From)
	if own {
		say = fmt.Sprintf("Your rows: %s of %s. What they are is yours to say.", plural(len(c.Bars), "bar"), c.Unit)
	}
	if len(c.Series) > 1 && c.Series[0] == "ours" && !own {
		say += ours(c)
	}
	return bars(c, o), say, nil
}

// ours says how the first series of a chart compares with the others.
func ours(c facts.Chart) (say string) {
	peers := len(c.Series)
	if c.Bound {
		peers--
	}
	ahead, of := 0, 0
	var shares []float64 // of the bound
	for _, b := range c.Bars {
		own, best := b.Values[0], 0.0
		if own == 0 {
			continue
		}
		for _, x := range b.Values[1:peers] {
			if x > 0 && (best == 0 || (c.Better == "more") == (x > best)) {
				best = x
			}
		}
		if best > 0 {
			of++
			if (c.Better == "more") == (own >= best) {
				ahead++
			}
		}
		if c.Bound && b.Values[peers] > 0 {
			shares = append(shares, own/b.Values[peers])
		}
	}
	if of > 0 {
		say = fmt.Sprintf(" In %d of %d, ours is at least as good as the best beside it.", ahead, of)
	}
	if n := len(shares); n > 0 {
		slices.Sort(shares)
		say += fmt.Sprintf(" Of %q, ours is %.2f to %.2f times, %.2f in the middle.", c.Series[peers], shares[0], shares[n-1], shares[n/2])
	}
	return say
}

// underRoof draws what was reached under what can be reached, each group as a series.
func underRoof(c facts.Chart, o layoutviz.Options) (layoutviz.Picture, string, error) {
	ch := layoutviz.Chart{Title: c.Title, X: c.Series[0], Y: c.Series[1], LogX: true, LogY: true}
	lo, hi := math.Inf(1), 0.0
	at := map[string]int{}
	var points []layoutviz.Series
	near, best := 0.0, ""
	roof := func(x float64) float64 {
		if y := x * c.Roof.Memory; c.Roof.Top == 0 || y < c.Roof.Top {
			return y
		}
		return c.Roof.Top
	}
	for _, b := range c.Bars {
		x, y := b.Values[0], b.Values[1]
		i, ok := at[b.Group]
		if !ok {
			i = len(points)
			at[b.Group] = i
			points = append(points, layoutviz.Series{Name: b.Group, Kind: "points"})
		}
		points[i].X, points[i].Y = append(points[i].X, x), append(points[i].Y, y)
		lo, hi = min(lo, x), max(hi, x)
		if share := y / roof(x); share > near {
			near, best = share, b.Name
		}
	}
	lo, hi = lo/1.5, hi*1.5
	xs := []float64{lo, hi}
	if knee := c.Roof.Top / c.Roof.Memory; knee > lo && knee < hi {
		xs = []float64{lo, knee, hi}
	}
	line := layoutviz.Series{Name: fmt.Sprintf("roof: %.3g·10¹² bytes a second", c.Roof.Memory), X: xs}
	if c.Roof.Top > 0 {
		line.Name += fmt.Sprintf(", %.4g·10¹² operations a second", c.Roof.Top)
	}
	for _, x := range xs {
		line.Y = append(line.Y, roof(x))
	}
	ch.Series = append([]layoutviz.Series{line}, points...)
	pic, err := layoutviz.Plot(ch, o)
	return pic, fmt.Sprintf("%s: %s of %s; the nearest, %s, reaches %.0f %% of the roof. Measured; %s. The roof: %s.", c.Title, plural(len(c.Bars), "product"), plural(len(points), "type"), best, 100*near, c.From, c.Roof.Said), err
}

// spread draws each group as points, those of one x beside each other in the order of groups.
func spread(c facts.Chart, o layoutviz.Options) (layoutviz.Picture, string, error) {
	ch := layoutviz.Chart{Title: c.Title, X: c.Series[0], Y: c.Series[1] + ", " + c.Better + " is better", LogY: true, Note: c.From}
	type place struct{ group, x int }
	at := map[string]int{}
	var points []layoutviz.Series
	least, most := map[place]float64{}, map[place]facts.Bar{}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, b := range c.Bars {
		i, ok := at[b.Group]
		if !ok {
			i = len(points)
			at[b.Group] = i
			points = append(points, layoutviz.Series{Name: b.Group, Kind: "points"})
		}
		x, y := b.Values[0], b.Values[1]
		p := place{i, int(x)}
		if least[p] == 0 || y < least[p] {
			least[p] = y
		}
		if m := most[p]; m.Values == nil || y > m.Values[1] {
			most[p] = b
		}
		lo, hi = min(lo, x), max(hi, x)
	}
	for _, b := range c.Bars {
		i := at[b.Group]
		s, p := &points[i], place{at[b.Group], int(b.Values[0])}
		name := ""
		if most[p].Name == b.Name && b.Values[1] >= c.Spread*least[p] {
			name = b.Name[strings.LastIndex(b.Name, " ")+1:]
		}
		s.X, s.Y, s.Names = append(s.X, b.Values[0]), append(s.Y, b.Values[1]), append(s.Names, name)
	}
	const apart = 13 // pixels between groups
	for i := range points {
		points[i].Shift = apart*i - apart*(len(points)-1)/2
	}
	worst, name := 1.0, ""
	for p, b := range most {
		if k := b.Values[1] / least[p]; k > worst || k == worst && b.Name < name {
			worst, name = k, b.Name
		}
	}
	say := fmt.Sprintf("%s: %s. Measured; %s.", c.Title, plural(len(c.Bars), "point"), c.From)
	if name != "" {
		say += fmt.Sprintf(" Of a group at one x, the greatest is at most %.2f times the least: %s.", worst, name)
	}
	ch.Series = append([]layoutviz.Series{{Name: c.Unit, X: []float64{lo - 0.25, hi + 0.25}, Y: []float64{1, 1}}}, points...)
	pic, err := layoutviz.Plot(ch, o)
	return pic, say, err
}

// maxBars is how many rows of one's own are drawn.
const maxBars = 200

// ownCharts are the bars of a number of one's own rows, and a roofline where they say
// what that takes.
func ownCharts(src, field string) ([]facts.Chart, error) {
	wrong := func(param, help, format string, args ...any) ([]facts.Chart, error) {
		return nil, diag.List{{Pos: at(param), Code: "Pane.E27", Msg: fmt.Sprintf(format, args...), Help: help}}
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
			return nil, diag.List{{Pos: here, Code: "Pane.E27", Msg: fmt.Sprintf("these are no rows: %v", err), Help: "paste a JSON list of objects, or an object with such a list as rows"}}
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
	out := []facts.Chart{c}
	if r := ownRoof(rows); len(r.Bars) > 0 {
		out = append(out, r)
	}
	return out, nil
}

// ownRoof are the products among rows of one's own.
func ownRoof(rows []map[string]any) facts.Chart {
	c := facts.Chart{Name: "roofline", Title: "Roofline of your rows", From: "the rows that you gave", Series: []string{"operations for each byte", "10¹² operations a second"},
		Roof: &facts.Roof{Said: "the most bytes a second that these rows or their read kernel reached"}}
	for i, r := range rows {
		number := func(name string) float64 { x, _ := r[name].(float64); return x }
		ops, bytes, us := 2*number("m")*number("n")*number("k"), number("bytes"), number("median_us")
		if ops <= 0 || bytes <= 0 || us <= 0 {
			continue
		}
		group, _ := r["weight"].(string)
		layer, _ := r["layer"].(string)
		c.Roof.Memory = max(c.Roof.Memory, bytes/us/1e6)
		if read := number("read_us"); read > 0 {
			c.Roof.Memory = max(c.Roof.Memory, bytes/read/1e6)
		}
		c.Bars = append(c.Bars, facts.Bar{Name: strings.TrimSpace(fmt.Sprintf("%.40s %.20s row %d", layer, group, i+1)), Group: fmt.Sprintf("%.20s", cmp.Or(group, "rows")), Values: []float64{ops / bytes, ops / us / 1e6}})
	}
	return c
}
