package lab

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/kernel/display"
	"github.com/tilus-lab/tilus-lab/kernel/widget"
	"github.com/tilus-lab/tilus-lab/layoutviz"
)

// Control is a slider or a list on the page, and the value that it stands at.
type Control = widget.Control

// Slider makes a slider over the integers from lo to hi that begins at value. A cell
// that ends with it shows it; [Interact] binds it to a picture.
func Slider(name string, lo, hi, value int) *Control {
	c, err := widget.NewSlider(name, lo, hi, value)
	Check(err)
	return c
}

// Powers makes a slider over the powers of two from lo to hi that begins at value.
func Powers(name string, lo, hi, value int) *Control {
	c, err := widget.NewPowers(name, lo, hi, value)
	Check(err)
	return c
}

// Select makes a list to choose one of the options from; the first is chosen.
func Select(name string, options ...string) *Control {
	c, err := widget.NewSelect(name, options...)
	Check(err)
	return c
}

// parameter is a place of a template that a control fills: {name}.
var parameter = regexp.MustCompile(`\{([A-Za-z_]\w*)\}`)

// Interact shows a layout in any notation with the controls that set its parameters,
// and draws it anew whenever one is moved:
//
//	lab.Interact("local({m}, 1).spatial(8, 4)", lab.Slider("m", 1, 16, 2))
func Interact(template string, controls ...*Control) {
	named := map[string]*Control{}
	for _, c := range controls {
		named[c.Name()] = c
	}
	for _, m := range parameter.FindAllStringSubmatch(template, -1) {
		if named[m[1]] == nil {
			Check(fmt.Errorf("lab: no control sets {%s}", m[1]))
		}
	}
	InteractFunc(func() any {
		text := parameter.ReplaceAllStringFunc(template, func(s string) string { return named[s[1:len(s)-1]].Text() })
		v, err := notation.Read(text)
		if err != nil {
			return err
		}
		p, err := layoutviz.Value(v, layoutviz.UsualView(v), 0, layoutviz.Options{})
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		p.Title = text
		return p
	}, controls...)
}

// InteractFunc shows the controls and below them what f returns, and calls f again
// whenever one of them is moved. What [Show] shows as one picture, a report about
// banks or an instruction, is one here too. f reads the controls:
//
//	m := lab.Slider("m", 1, 16, 2)
//	lab.InteractFunc(func() any { return layout.Local(m.Int(), 1).Spatial(8, 4) }, m)
func InteractFunc(f func() any, controls ...*Control) {
	if len(controls) == 0 {
		Check(errors.New("lab: there is no control to interact with"))
	}
	var models []*widget.Model
	var text []string
	for _, c := range controls {
		m, err := c.Model()
		Check(err)
		models = append(models, m)
		text = append(text, c.String())
	}
	column, err := widget.Column(models...)
	Check(err)
	Check(display.Display(display.Data{Data: column.Bundle(strings.Join(text, ", "))}))
	live, err := display.NewLive(drawn(f))
	Check(err)
	var turn sync.Mutex // one drawing at a time
	for _, c := range controls {
		c.Watch(func() {
			turn.Lock()
			defer turn.Unlock()
			// What is wrong with one drawing is shown in its place.
			display.Update(live.ID, drawn(f))
		})
	}
}

// drawn is what f returns in the forms that a page can show. A panic in f is shown
// too: a bad value of one control must not end the others.
func drawn(f func() any) (d display.Data) {
	defer func() {
		if r := recover(); r != nil {
			d = display.MakeData(display.MIMETypeText, fmt.Sprint(r))
		}
	}()
	v := f()
	if p, ok := drawing(v); ok {
		v = p
	}
	return display.Auto(v)
}

// Interactive shows a layout in any notation as a page that needs nothing but itself:
// what the pointer is on lights up in all its views, with its sentence. A cell ends
// with it:
//
//	lab.Interactive("local(2, 1).spatial(8, 4).local(1, 2)")
func Interactive(text string) (display.Data, error) {
	v, err := notation.Read(text)
	if err != nil {
		return display.Data{}, err
	}
	views := []string{layoutviz.UsualView(v)}
	if views[0] == "tensor" {
		views = append(views, "threads")
	}
	var pictures []layoutviz.Picture
	for _, view := range views {
		p, err := layoutviz.Value(v, view, 0, layoutviz.Options{})
		if err != nil {
			return display.Data{}, fmt.Errorf("%s: %w", text, err)
		}
		pictures = append(pictures, p)
	}
	return display.Interactive(pictures...), nil
}
