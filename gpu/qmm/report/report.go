// Package report makes a page of what was measured of quantised products: rooflines of
// all types, times beside the read kernel and beside cuBLAS, and of whole models. The
// page is one HTML file without script or outside parts.
package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

//go:embed page.html
var pageText string

// Rows reads what `tilus-lab bench --json` or tests/peers/qmm_peer.py wrote: a list of
// rows, or an object that has it as rows.
func Rows(name string, data []byte) ([]qmm.Row, error) {
	var rows []qmm.Row
	if err := json.Unmarshal(data, &rows); err != nil {
		var whole struct{ Rows []qmm.Row }
		if json.Unmarshal(data, &whole) != nil || whole.Rows == nil {
			return nil, fmt.Errorf("report: %s holds no rows of tilus-lab bench --json: %w", name, err)
		}
		rows = whole.Rows
	}
	for i, r := range rows {
		if _, err := r.Linear(); err != nil {
			return nil, fmt.Errorf("report: row %d of %s is no product as tilus-lab bench --json writes them: weight %q, act %q, scale %q, group %d", i+1, name, r.Weight, r.Act, r.Scale, r.Group)
		}
		if wrong := nonsense(r); wrong != "" {
			return nil, fmt.Errorf("report: row %d of %s is no measured product: %s, %d rows of x by [%d, %d], %s; leave it out, or measure it again", i+1, name, r.Weight, r.M, r.N, r.K, wrong)
		}
	}
	return rows, nil
}

// Times of products and of what stands beside them: less is no launch, more nobody waits for.
const shortest, longest = 0.1, 1e9 // µs

// nonsense says what of a row no measurement gives; "" where it may be one. Times beside the product's own, and bytes, are
// 0 where nothing was measured beside it.
func nonsense(r qmm.Row) string {
	for _, t := range []struct {
		name string
		us   float64
		none bool // may be 0
	}{{"median_us", r.MedianUs, false}, {"read_us", r.ReadUs, true}, {"cublas_us", r.CublasUs, true}} {
		if !(t.us >= shortest && t.us <= longest) && !(t.us == 0 && t.none) {
			return fmt.Sprintf("%s %v, which is not from %v to %g", t.name, t.us, shortest, longest)
		}
	}
	switch {
	case r.M < 1 || r.M > qmm.MaxSize:
		return fmt.Sprintf("m %d, which is not from 1 to %d", r.M, qmm.MaxSize)
	case r.Bytes < 0 || r.Bytes == 0 && r.ReadUs > 0:
		return fmt.Sprintf("bytes %d beside read_us %v", r.Bytes, r.ReadUs)
	case !(r.Ratio >= 0) || !(r.OfCublas >= 0):
		return fmt.Sprintf("ratio %v, of_cublas %v", r.Ratio, r.OfCublas)
	case !(r.Error >= 0 && r.Error < 1):
		return fmt.Sprintf("error %v, which is relative, less than 1", r.Error)
	case !slices.Contains([]string{"", "equal", "close", "unchecked"}, r.Result):
		return fmt.Sprintf("result %q, not equal, close or unchecked", r.Result)
	}
	return ""
}

// Tera is what a product's matrix operations come to in 10^12 a second.
func tera(r qmm.Row) float64 { return flops(r) / r.MedianUs / 1e6 }

func flops(r qmm.Row) float64 { return 2 * float64(r.M) * float64(r.N) * float64(r.K) }

// moved is the bytes of weights, scales, x and y, each once.
func moved(r qmm.Row) float64 {
	l, err := r.Linear()
	if err != nil {
		return 0 // Rows has checked them
	}
	return float64(l.Bytes()) + float64(2*r.M*(r.N+r.K))
}

// Tops are the roofs of a machine.
type tops struct {
	memory float64 // bytes a second, of the read kernel in the same runs
	matrix float64 // operations a second of f16 tensor cores
	said   string  // where the second is from
}

// dense is what makers say of f16 tensor cores without sparsity, 10^12 operations a
// second. Source: data sheets of NVIDIA H200 and H100 (SXM), A100 and L40S.
var dense = []struct {
	gpu  string
	tera float64
}{{"H200", 989.4}, {"H100", 989.4}, {"A100", 312}, {"L40S", 362}}

func topsOf(rows []qmm.Row) tops {
	var t tops
	for _, r := range rows {
		if r.ReadUs > 0 && r.Bytes > 0 {
			t.memory = max(t.memory, float64(r.Bytes)/r.ReadUs*1e6)
		}
		for _, d := range dense {
			if strings.Contains(r.GPU, d.gpu) {
				t.matrix, t.said = d.tera*1e12, "f16 tensor cores by the data sheet"
			}
		}
	}
	return t
}

// width is the bits of a row's weights.
func width(r qmm.Row) int {
	l, err := r.Linear()
	if err != nil {
		return 0
	}
	return l.WeightType.Bits()
}

// form is the words behind a row's type of what is not as usual of its zero points, groups and scales, and whether
// these may be any, or weights may be rounded.
func form(r qmm.Row) string {
	out := ""
	switch {
	case r.AnyZero:
		out = " zero=any"
	case r.Zero:
		out = " zero"
	}
	switch {
	case r.Group == 0:
		out += " group=channel"
	case r.Group != 128:
		out += fmt.Sprintf(" group=%d", r.Group)
	}
	if r.Scale != "" && r.Scale != "f16" {
		out += " scale=" + r.Scale
	}
	if r.Far {
		out += " far"
	}
	if r.Rounded {
		out += " rounded"
	}
	return out
}

// kind is a row's type of weights, and what else is not as usual: zero points, groups, scales, and activations that are no f16.
func kind(r qmm.Row) string {
	out := r.Weight + form(r)
	if r.Act != "f16" {
		out += " act=" + r.Act
	}
	return out
}

// anchor is a kind as part of an id of the page.
func anchor(kind string) string { return strings.NewReplacer(" ", "-", "=", "-").Replace(kind) }

// roofline draws rows under the roofs, as series by name.
func roofline(title string, rows []qmm.Row, t tops, series func(qmm.Row) string) (template.HTML, error) {
	ch := layoutviz.Chart{Title: title, X: "operations for each byte of weights, scales, x and y", Y: "10¹² operations a second", LogX: true, LogY: true}
	groups := map[string]*layoutviz.Series{}
	lo, hi := math.Inf(1), 0.0
	var order []string
	for _, r := range rows {
		name := series(r)
		s := groups[name]
		if s == nil {
			s = &layoutviz.Series{Name: name, Kind: "points"}
			groups[name] = s
			order = append(order, name)
		}
		x := flops(r) / moved(r)
		lo, hi = min(lo, x), max(hi, x)
		s.X, s.Y = append(s.X, x), append(s.Y, tera(r))
	}
	lo, hi = lo/1.5, hi*1.5
	if t.memory > 0 {
		roof := layoutviz.Series{Name: fmt.Sprintf("roof: read kernel, %.2f TB/s", t.memory/1e12)}
		points := []float64{lo, hi}
		if t.matrix > 0 {
			roof.Name += fmt.Sprintf("; %s, %.0f·10¹²/s", t.said, t.matrix/1e12)
			if knee := t.matrix / t.memory; knee > lo && knee < hi {
				points = []float64{lo, knee, hi}
			}
		}
		for _, x := range points {
			y := x * t.memory / 1e12
			if t.matrix > 0 {
				y = min(y, t.matrix/1e12)
			}
			roof.X, roof.Y = append(roof.X, x), append(roof.Y, y)
		}
		ch.Series = append(ch.Series, roof)
	}
	for _, name := range order {
		ch.Series = append(ch.Series, *groups[name])
	}
	return within(ch)
}

// within is a chart as part of a page, without what only a file begins with: for a light page and for a
// dark one, of which the page shows what fits.
func within(ch layoutviz.Chart) (template.HTML, error) {
	var out strings.Builder
	for _, theme := range []string{"light", "dark"} {
		p, err := layoutviz.Plot(ch, layoutviz.Options{Theme: theme})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, `<div class="%s">%s</div>`, theme, p.SVG[max(0, bytes.Index(p.SVG, []byte("<svg"))):])
	}
	return template.HTML(out.String()), nil
}

// figure is a picture of the page.
type figure struct {
	Name string
	SVG  template.HTML
}

// line is a row of a table: what was measured of a product.
type line struct {
	Weight, Layer, Schedule string
	M                       int
	Us, Read, Ratio         float64
	Share                   float64 // of the roof, 0 to 1
	OfCublas, Error, Bits   float64
	Bound                   string
}

// sum is a model, a type and a number of rows of x.
type sum struct {
	Model, Weight string
	Driver        string
	M             int
	Ms, Cublas    float64
	Times, GB     float64
}

type page struct {
	Title, From string
	Roofs       []string
	Overview    []figure
	Types       []figure
	Tables      []table
	Models      []sum
	Notes       []string
}

type table struct {
	Title string
	Lines []line
	Most  float64 // the greatest OfCublas
}

// Once are rows of one GPU, each once: files that are given twice, or hold what others do, count once.
func Once(rows []qmm.Row) ([]qmm.Row, error) {
	seen, gpus := map[string]bool{}, map[string]bool{}
	var out []qmm.Row
	for _, r := range rows {
		text, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		if !seen[string(text)] {
			out = append(out, r)
		}
		seen[string(text)], gpus[cmp.Or(r.GPU, unnamed)] = true, true
	}
	if len(gpus) > 1 {
		return nil, fmt.Errorf("report: rows of %s: roofs and times of a page are of one GPU; make a page of each", strings.Join(slices.Sorted(maps.Keys(gpus)), " and "))
	}
	return out, nil
}

// unnamed is what a GPU is called of which rows do not tell.
const unnamed = "an unnamed GPU"

// Page is the report on rows of one GPU as HTML. It is the same for the same rows, however often each is there.
func Page(title string, rows []qmm.Row) ([]byte, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("report: no rows")
	}
	rows, err := Once(rows)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(rows, func(a, b qmm.Row) int {
		return cmp.Or(cmp.Compare(a.M, b.M), -cmp.Compare(a.N*a.K, b.N*b.K), strings.Compare(a.Layer, b.Layer), -strings.Compare(a.Act, b.Act), cmp.Compare(width(a), width(b)), strings.Compare(a.Weight, b.Weight), strings.Compare(form(a), form(b)))
	})
	t := topsOf(rows)
	p := page{Title: title}
	origins := map[string]bool{}
	for _, r := range rows {
		origins[fmt.Sprintf("%s, %s, %s", cmp.Or(r.GPU, unnamed), cmp.Or(r.Driver, "an unnamed driver"), cmp.Or(strings.SplitN(r.Written, "T", 2)[0], "without a date"))] = true
	}
	p.From = strings.Join(slices.Sorted(maps.Keys(origins)), "; ")
	if t.memory > 0 {
		p.Roofs = append(p.Roofs, fmt.Sprintf("memory: %.2f TB/s, the most that the read kernel of these runs reached", t.memory/1e12))
	} else {
		p.Notes = append(p.Notes, "No row says what the read kernel takes, so the rooflines have no roof.")
	}
	if t.matrix > 0 {
		p.Roofs = append(p.Roofs, fmt.Sprintf("matrix products: %.0f·10¹² operations a second, %s", t.matrix/1e12, t.said))
	}

	widths := map[int]bool{}
	types, kinds := map[string]bool{}, map[string]bool{}
	for _, r := range rows {
		widths[width(r)], types[r.Weight] = true, true
		kinds[kind(r)] = true
	}
	byWidth := func(r qmm.Row) string { return plural(width(r), "bit") }
	narrow := slices.SortedStableFunc(slices.Values(rows), func(a, b qmm.Row) int { return cmp.Compare(width(a), width(b)) })
	pic, err := roofline(fmt.Sprintf("Roofline of all %d types, by the bits of a weight", len(types)), narrow, t, byWidth)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	p.Overview = append(p.Overview, figure{"all types", pic})
	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		x, _ := dtype.Parse(strings.Fields(a)[0])
		y, _ := dtype.Parse(strings.Fields(b)[0])
		return cmp.Or(cmp.Compare(x.Bits(), y.Bits()), strings.Compare(a, b))
	})
	for _, name := range names {
		mine := slices.DeleteFunc(slices.Clone(rows), func(r qmm.Row) bool { return kind(r) != name })
		pic, err := roofline("Roofline of "+name, mine, t, func(r qmm.Row) string { return fmt.Sprintf("%s, %s of x", r.Layer, plural(r.M, "row")) })
		if err != nil {
			return nil, fmt.Errorf("report: %w", err)
		}
		p.Types = append(p.Types, figure{anchor(name), pic})
	}
	for _, r := range rows {
		name := fmt.Sprintf("%s, [%d, %d]·[%d, %d]ᵀ, %s", r.Layer, r.M, r.K, r.N, r.K, r.Act)
		if n := len(p.Tables); n == 0 || p.Tables[n-1].Title != name {
			p.Tables = append(p.Tables, table{Title: name, Most: 1})
		}
		at := &p.Tables[len(p.Tables)-1]
		l := line{Weight: r.Weight + form(r), Layer: r.Layer, M: r.M, Us: r.MedianUs, Read: r.ReadUs, Ratio: r.Ratio, OfCublas: r.OfCublas, Error: r.Error, Schedule: schedule(r), Bits: float64(width(r))}
		l.Share, l.Bound = share(r, t)
		at.Most = max(at.Most, r.OfCublas)
		at.Lines = append(at.Lines, l)
	}
	p.Models = models(rows)
	if len(p.Models) == 0 {
		p.Notes = append(p.Notes, "No model is told: that takes rows of all its four layers (tilus-lab bench model --json FILE).")
	}
	if !slices.ContainsFunc(rows, func(r qmm.Row) bool { return r.OfCublas > 0 }) {
		p.Notes = append(p.Notes, "No row was timed beside cuBLAS (tilus-lab bench … --cublas python3).")
	}
	funcs := template.FuncMap{
		"pct": func(x float64) string { return fmt.Sprintf("%.0f%%", 100*x) },
		// A full bar leaves a gap before the next one's.
		"bar": func(x, most float64) template.CSS {
			return template.CSS(fmt.Sprintf("width:%.1f%%", 94*min(1, x/most)))
		},
		"f2":  func(x float64) string { return fmt.Sprintf("%.2f", x) },
		"err": func(x float64) string { return fmt.Sprintf("%.1e", x) },
	}
	parsed, err := template.New("page").Funcs(funcs).Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, p); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return out.Bytes(), nil
}

// share is the part of what the roofs allow that a row reaches, and which roof it is.
func share(r qmm.Row, t tops) (float64, string) {
	if t.memory == 0 {
		return 0, ""
	}
	us, bound := moved(r)/t.memory*1e6, "memory"
	if t.matrix > 0 && flops(r)/t.matrix*1e6 > us {
		us, bound = flops(r)/t.matrix*1e6, "matrix products"
	}
	return us / r.MedianUs, bound
}

func schedule(r qmm.Row) string {
	s := r.Schedule
	switch {
	case r.Wide != nil:
		return r.Plan + ", " + r.Wide.String()
	case s.Rows == 0:
		return "plain weights first"
	}
	return s.String()
}

// models are the sums of all models whose layers were all measured by one driver.
func models(rows []qmm.Row) []sum {
	var out []sum
	for _, m := range qmm.Models() {
		for _, s := range m.Sums(rows) {
			out = append(out, sum{Model: m.Name, Weight: s.Weight, Driver: s.Driver, M: s.M, Ms: s.Ms, Cublas: s.CublasMs, Times: s.OfCublas(), GB: float64(s.Bytes) / 1e9})
		}
	}
	return out
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
