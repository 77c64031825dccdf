// Package pane holds the panes of the explorer. A pane is a Go row: its name,
// its parameters, and a pure function from their values to pictures and text.
// The page draws the form from the parameters and links the pictures by their
// element tables, so that a new pane needs no JavaScript: add a row to [All].
package pane

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// MaxValue is the largest value of a parameter in bytes.
const MaxValue = 64 << 10

// Kind says how the page asks for a parameter.
type Kind string

// The kinds of parameters.
const (
	Text    Kind = "text"    // one line
	Layout  Kind = "layout"  // one line; can be bound to a variable of a notebook
	Program Kind = "program" // several lines; can be bound to a variable
	Slider  Kind = "slider"  // a whole number from Min to Max
	Choice  Kind = "choice"  // one of Choices
	Sheet   Kind = "sheet"   // one of Choices or nothing; no field: the page gives what its own colours are
)

// Param is one input of a pane. Name is also its key in the page's address.
type Param struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Kind    Kind     `json:"kind"`
	Default string   `json:"default"`
	Hint    string   `json:"hint,omitempty"` // stands in the empty field
	Doc     string   `json:"doc"`
	Min     int      `json:"min,omitempty"`
	Max     int      `json:"max,omitempty"`
	Choices []string `json:"choices,omitempty"`
	Also    Values   `json:"also,omitempty"`   // other names of choices, each with the choice
	Fills   string   `json:"fills,omitempty"`  // of a choice that names texts: the parameter whose field shows the chosen one
	Texts   Values   `json:"texts,omitempty"`  // its texts, by choice; a choice without one is for the person's own
	Beside  Choices  `json:"beside,omitempty"` // what else is to be chosen for the parameter to play a part, by choices that play one themselves
	Later   bool     `json:"later,omitempty"`  // few people set it: the page shows its field when asked
	Soon    bool     `json:"soon,omitempty"`   // a small screen shows the field at first, too
	Play    bool     `json:"play,omitempty"`   // a slider that can run by itself
	Story   Values   `json:"story,omitempty"`  // what shows all of its moments at once, for who wants no motion
}

// Choices are values of parameters that are choices, by parameter name.
type Choices map[string][]string

// Values are the inputs of one rendering by parameter name.
type Values map[string]string

// Picture is one drawing of a result; Name is its name within the result. Go is what
// choosing an element changes, by the element's id: values of parameters.
type Picture struct {
	Name string
	layoutviz.Picture
	Go map[string]Values
}

// going gives a picture what its elements change: to returns nil for those that
// change nothing.
func (p Picture) going(to func(e layoutviz.Element) Values) Picture {
	p.Go = map[string]Values{}
	for _, e := range p.IDs {
		if v := to(e); v != nil {
			p.Go[e.ID] = v
		}
	}
	return p
}

// Result is what a pane shows. Sentence is one sentence that says what matters.
// Text is preformatted and may be empty.
type Result struct {
	Pictures []Picture
	Sentence string
	Text     string
}

// Pane is one row.
type Pane struct {
	Name   string
	Title  string
	Doc    string
	Params []Param
	// Render has all values, defaults filled in. Its error is a diag.List whose
	// positions name the parameter as their file.
	Render func(v Values) (Result, error)
}

// All lists the panes; it is the same list every time.
func All() []Pane { return all() }

// all is made once: some rows list what other packages know.
var all = sync.OnceValue(func() []Pane {
	all := []Pane{layoutPane(), banksPane(), reinterpretPane(), cataloguePane(), mmaPane(), seePane(),
		programPane(), codePane(), passesPane(), debugPane(), runPane(), fusionPane(), indexMapPane(), manualPane(),
		voltaPane(), followPane(), dispatchPane(), blocksPane(), exercisePane(), benchPane(), statusPane()}
	for i := range all {
		all[i].Params = append(all[i].Params, sheet())
	}
	return all
})

// Lesson is what the file name of the lesson about a pane begins with, "" for none.
func (p Pane) Lesson() string {
	for lesson, names := range map[string]string{
		"02": "volta follow", "03": "dispatch blocks", "04": "layout see", "06": "banks exercise", "07": "catalogue mma",
		"08": "reinterpret", "09": "program debug manual status", "10": "code passes run", "11": "fusion indexmap", "12": "bench",
	} {
		if contains(strings.Fields(names), p.Name) {
			return lesson
		}
	}
	return ""
}

// Find returns the pane of that name.
func Find(name string) (Pane, error) {
	var names []string
	for _, p := range All() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	help := "there are " + strings.Join(names, ", ")
	if s := diag.Suggest(name, names); s != "" {
		help = "did you mean " + s + "? " + help
	}
	return Pane{}, diag.List{{Pos: diag.Pos{File: "p"}, Code: "Pane.E1", Msg: fmt.Sprintf("there is no pane %.40q", name), Help: help}}
}

// Run fills in defaults, checks the values against the parameters and renders.
// Values that no parameter names are ignored, so that older programs read newer
// addresses. The error is a diag.List.
func (p Pane) Run(in Values) (Result, error) {
	v := Values{}
	var bad diag.List
	for _, d := range p.Params {
		s, ok := in[d.Name]
		if !ok || s == "" && (d.Kind == Slider || d.Kind == Choice) {
			s = d.Default
		}
		if choice, ok := d.Also[s]; ok {
			s = choice
		}
		v[d.Name] = s
		at := diag.Pos{File: d.Name, Line: 1, Col: 1}
		if len(s) > MaxValue {
			bad.Addf(at, "Pane.E2", "", "%s has %d bytes; the limit is %d", d.Title, len(s), MaxValue)
			continue
		}
		switch d.Kind {
		case Slider:
			if n, err := strconv.Atoi(s); err != nil || n < d.Min || n > d.Max {
				bad.Addf(at, "Pane.E3", "", "%s is %.20q; it must be a whole number from %d to %d", d.Title, s, d.Min, d.Max)
			}
		case Choice, Sheet:
			if s == "" && d.Kind == Sheet {
				break
			}
			if !contains(d.Choices, s) {
				bad.Addf(at, "Pane.E4", "", "%s is %.20q; it must be one of %s", d.Title, s, strings.Join(d.Choices, ", "))
			}
		}
	}
	if err := bad.Err(); err != nil {
		return Result{}, err
	}
	r, err := p.Render(v)
	if err != nil {
		var list diag.List
		if !errors.As(err, &list) {
			err = diag.List{{Pos: diag.Pos{File: p.Params[0].Name, Line: 1, Col: 1}, Code: "Pane.E5", Msg: err.Error()}}
		}
		return Result{}, err
	}
	return r, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// sheet is a parameter of every pane: dark pictures on a dark page.
func sheet() Param {
	p := Param{Name: "th", Title: "Sheet", Kind: Sheet, Doc: "What pictures are drawn on; empty is light."}
	for _, t := range layoutviz.Themes() {
		p.Choices = append(p.Choices, t.Name)
	}
	return p
}

// look is how the pictures of a result look.
func (v Values) look() layoutviz.Options {
	return layoutviz.Options{Palette: v["pal"], Theme: v["th"]}
}

// beside is the parameter where it plays a part beside some values of a choice alone.
func (p Param) beside(choice string, values ...string) Param {
	p.Beside = maps.Clone(p.Beside)
	if p.Beside == nil {
		p.Beside = Choices{}
	}
	p.Beside[choice] = values
	return p
}

// palette is the parameter that panes with layouts share.
func palette() Param {
	p := Param{Name: "pal", Title: "Colours", Kind: Choice, Doc: "Colours of the threads."}
	for _, x := range layoutviz.Palettes() {
		p.Choices = append(p.Choices, x.Name)
	}
	p.Default = p.Choices[0]
	return p
}
