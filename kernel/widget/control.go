package widget

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Control is a named value that a person sets with the mouse: a slider or a list to choose from. Its methods are safe for concurrent use.
type Control struct {
	name    string
	options []string // of a list, and of a slider over listed values; nil for a slider over integers
	slider  bool
	lo, hi  int

	mu    sync.Mutex
	at    int // the integer, or the index in options
	model *Model
	next  int
	watch map[int]func()
}

// NewSlider makes a slider over the integers from lo to hi that begins at value.
func NewSlider(name string, lo, hi, value int) (*Control, error) {
	if lo > hi {
		return nil, fmt.Errorf("widget: slider %s: %d is more than %d", name, lo, hi)
	}
	if value < lo || value > hi {
		return nil, fmt.Errorf("widget: slider %s: %d is not between %d and %d", name, value, lo, hi)
	}
	return &Control{name: name, slider: true, lo: lo, hi: hi, at: value}, nil
}

// NewPowers makes a slider over the powers of two from lo to hi that begins at value. All three must be powers of two.
func NewPowers(name string, lo, hi, value int) (*Control, error) {
	for _, v := range []int{lo, hi, value} {
		if v < 1 || v&(v-1) != 0 {
			return nil, fmt.Errorf("widget: slider %s: %d is no power of two", name, v)
		}
	}
	if value < lo || value > hi {
		return nil, fmt.Errorf("widget: slider %s: %d is not between %d and %d", name, value, lo, hi)
	}
	c := &Control{name: name, slider: true}
	for v := lo; v <= hi && v > 0; v *= 2 {
		c.options = append(c.options, strconv.Itoa(v))
	}
	c.at = slices.Index(c.options, strconv.Itoa(value))
	return c, nil
}

// NewSelect makes a list to choose one of the options from; the first is chosen.
func NewSelect(name string, options ...string) (*Control, error) {
	if len(options) == 0 {
		return nil, fmt.Errorf("widget: select %s has no options", name)
	}
	return &Control{name: name, options: slices.Clone(options)}, nil
}

// Name is the name that templates use.
func (c *Control) Name() string { return c.name }

// Text is the value as text.
func (c *Control) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.options != nil {
		return c.options[c.at]
	}
	return strconv.Itoa(c.at)
}

// Int is the value of a slider, and of a list whose options are integers; 0 for others.
func (c *Control) Int() int {
	n, _ := strconv.Atoi(c.Text())
	return n
}

// String is name and value.
func (c *Control) String() string { return c.name + " = " + c.Text() }

// Set changes the value, on the page too.
func (c *Control) Set(value string) error {
	at := slices.Index(c.options, value)
	if c.options == nil {
		n, err := strconv.Atoi(value)
		if err != nil || n < c.lo || n > c.hi {
			return fmt.Errorf("widget: slider %s: %q is not between %d and %d", c.name, value, c.lo, c.hi)
		}
		at = n
	} else if at < 0 {
		return fmt.Errorf("widget: %s has no option %q; it has %s", c.name, value, strings.Join(c.options, ", "))
	}
	c.mu.Lock()
	c.at = at
	m := c.model
	c.mu.Unlock()
	if m != nil {
		if err := m.set(c.key(), at); err != nil {
			return err
		}
	}
	c.tell()
	return nil
}

// Watch calls f after each change of the value, until stop is called.
func (c *Control) Watch(f func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watch == nil {
		c.watch = map[int]func(){}
	}
	n := c.next
	c.next++
	c.watch[n] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watch, n)
	}
}

func (c *Control) tell() {
	c.mu.Lock()
	var fs []func()
	for i := range c.next {
		if f := c.watch[i]; f != nil {
			fs = append(fs, f)
		}
	}
	c.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

// key is where the state of the widget has the value.
func (c *Control) key() string {
	if c.options != nil {
		return "index"
	}
	return "value"
}

// Model is the widget of the control; it is made when first asked for.
func (c *Control) Model() (*Model, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.model != nil {
		return c.model, nil
	}
	l, err := layoutModel()
	if err != nil {
		return nil, err
	}
	look := "DescriptionStyle"
	class := "Dropdown"
	state := map[string]any{"description": c.name, "description_allow_html": false, "disabled": false, "layout": l.ref(), "tabbable": nil, "tooltip": nil}
	switch {
	case c.options == nil:
		class, look = "IntSlider", "SliderStyle"
		state["value"], state["min"], state["max"], state["step"] = c.at, c.lo, c.hi, 1
		state["readout_format"], state["behavior"] = "d", "drag-tap"
	case c.slider:
		class, look = "SelectionSlider", "SliderStyle"
		state["behavior"] = "drag-tap"
	}
	if c.options != nil {
		state["_options_labels"], state["index"] = c.options, c.at
	}
	if c.slider {
		state["orientation"], state["readout"], state["continuous_update"] = "horizontal", true, true
	}
	style, err := open(controls, look, "StyleView", map[string]any{"description_width": "", "_view_module": base})
	if err != nil {
		return nil, err
	}
	state["style"] = style.ref()
	m, err := open(controls, class, class+"View", state)
	if err != nil {
		return nil, err
	}
	m.changed = c.changed
	c.model = m
	return m, nil
}

// changed takes a value from the page; one that the control cannot have is answered with the one it has.
func (c *Control) changed(key string, v any) {
	if key != c.key() {
		return
	}
	f, ok := v.(float64)
	at := int(f)
	lo, hi := c.lo, c.hi
	if c.options != nil {
		lo, hi = 0, len(c.options)-1
	}
	c.mu.Lock()
	if !ok || float64(at) != f || at < lo || at > hi {
		have, m := c.at, c.model
		c.mu.Unlock()
		m.set(key, have)
		return
	}
	same := c.at == at
	c.at = at
	c.mu.Unlock()
	if !same {
		c.tell()
	}
}

// Render shows the control as the result of a cell.
func (c *Control) Render() struct {
	Data      map[string]interface{}
	Metadata  map[string]interface{}
	Transient map[string]interface{}
} {
	var d struct {
		Data      map[string]interface{}
		Metadata  map[string]interface{}
		Transient map[string]interface{}
	}
	m, err := c.Model()
	if err != nil {
		d.Data = map[string]any{"text/plain": c.String()}
		return d
	}
	d.Data = m.Bundle(c.String())
	return d
}
