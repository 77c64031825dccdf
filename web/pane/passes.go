package pane

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/opt"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/pass"
)

// What the pane of passes shows of a step.
const (
	passChanges = "what it changed"
	passWhole   = "all of it"
)

func passesPane() Pane {
	return Pane{
		Name:  "passes",
		Title: "Pass by pass",
		Doc:   "How a program becomes thread code: choose a step to see what it changed. Lines are linked with those of the program that they are from.",
		Params: []Param{
			{Name: "src", Title: "Program", Kind: Program, Default: StartProgram, Doc: "Program text."},
			{Name: "n", Title: "Step", Kind: Slider, Default: "4", Min: 0, Max: 60, Play: true, Doc: "0 is the program; later ones are passes over the program, lowering, and passes over thread code."},
			{Name: "v", Title: "Show", Kind: Choice, Default: passChanges, Choices: []string{passChanges, passWhole}, Doc: "Lines that a step took away (-) and put in their place (+), or the whole text after it."},
			{Name: "t", Title: "Target", Kind: Choice, Default: compile.DefaultArch, Choices: arch.Names(), Doc: "The GPU that the code is for."},
		},
		Render: renderPasses,
	}
}

// folded breaks a text into lines of at most n bytes, at spaces.
func folded(s string, n int) string {
	var b strings.Builder
	at := 0
	for i, w := range strings.Fields(s) {
		switch {
		case i > 0 && at+1+len(w) > n:
			b.WriteByte('\n')
			at = 0
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(w)
		at += len(w)
	}
	return b.String()
}

// step is the text after one step of the pipeline.
type step struct{ name, text string }

// codePlace is the comment of thread code that says where a line is from.
var codePlace = regexp.MustCompile(`\s*// src:(\d+):\d+\s*$`)

func renderPasses(v Values) (Result, error) {
	p, err := compile.Parse("src", v["src"], nil)
	if err != nil {
		return Result{}, err
	}
	var steps []step
	if _, err = compile.Program(p, compile.Options{Arch: v["t"], Dump: func(name, text string) { steps = append(steps, step{name, text}) }}); err != nil {
		return Result{}, placed(err, "src", v["src"])
	}
	n, err := strconv.Atoi(v["n"])
	if err != nil {
		return Result{}, err
	}
	n = min(n, len(steps)-1)
	why := map[string]string{"program": "as written, in canonical form", "lower": "every instruction becomes what a thread does"}
	for _, x := range pass.Passes() {
		why[x.Name] = x.Doc
	}
	reasons := opt.Passes()
	lowered := -1 // the step that made thread code
	var rows [][]string
	for i, s := range steps {
		because := why[s.name]
		if lowered >= 0 && i-lowered-1 < len(reasons) {
			because = reasons[i-lowered-1].Why
		}
		if s.name == "lower" {
			lowered = i
		}
		change := "–"
		switch {
		case i == 0 || s.name == "lower":
			change = plural(strings.Count(s.text, "\n"), "line")
		case s.text != steps[i-1].text:
			less, more := changes(steps[i-1].text, s.text)
			change = fmt.Sprintf("-%d +%d", less, more)
		}
		rows = append(rows, []string{strconv.Itoa(i), s.name, change, folded(because, 90)})
	}
	o := v.look()
	list, err := layoutviz.Rows(p.Name, []string{"step", "pass", "lines", "because"}, rows, n, o)
	if err != nil {
		return Result{}, err
	}
	for j := range list.IDs {
		list.IDs[j].Keys = nil // a step is no line
	}
	now := steps[n]
	text := now.text
	same := n > 0 && now.text == steps[n-1].text
	if n > 0 && now.name != "lower" && v["v"] == passChanges && !same {
		// Without the three lines of its head.
		if parts := strings.SplitN(string(diff.Diff("before", []byte(steps[n-1].text), "after", []byte(now.text))), "\n", 4); len(parts) == 4 {
			text = parts[3]
		}
	}
	var lines []string
	var keys []int
	for _, s := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		key := 0
		if m := codePlace.FindStringSubmatch(s); m != nil {
			key, _ = strconv.Atoi(m[1])
			s = s[:len(s)-len(m[0])]
		}
		lines, keys = append(lines, s), append(keys, key)
	}
	o.NoCaption = true
	after, err := layoutviz.Program(layoutviz.Listing{Title: "after " + now.name, Text: strings.Join(lines, "\n"), Keys: keys, Max: 1000}, o)
	if err != nil {
		return Result{}, err
	}
	for i := range after.IDs {
		after.IDs[i].ID = "c." + after.IDs[i].ID
	}
	source, err := layoutviz.Program(layoutviz.Listing{Title: p.Name, Text: v["src"], Max: 1000}, o)
	if err != nil {
		return Result{}, err
	}
	say := fmt.Sprintf("Step %d of %d, %s: %s.", n, len(steps)-1, now.name, rows[n][2]+" lines")
	switch {
	case n == 0 || now.name == "lower":
		say = fmt.Sprintf("Step %d of %d, %s: %s.", n, len(steps)-1, now.name, rows[n][2])
	case same:
		say = fmt.Sprintf("Step %d of %d, %s, changes nothing here.", n, len(steps)-1, now.name)
	}
	return Result{
		Pictures: []Picture{
			Picture{Name: "steps", Picture: list}.going(func(e layoutviz.Element) Values {
				return Values{"n": strings.TrimPrefix(e.ID, "row")}
			}),
			{Name: "program", Picture: source},
			{Name: "after " + now.name, Picture: after},
		},
		Sentence: say,
	}, nil
}

// changes counts the lines of a that are not in b, and those of b that are not in a.
func changes(a, b string) (less, more int) {
	for _, s := range strings.Split(string(diff.Diff("a", []byte(a), "b", []byte(b))), "\n")[3:] {
		switch {
		case strings.HasPrefix(s, "-"):
			less++
		case strings.HasPrefix(s, "+"):
			more++
		}
	}
	return less, more
}
