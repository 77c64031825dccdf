package pane

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"testing"
)

// rests says, as the page does, whether a parameter plays no part in what values show: what
// it stands beside is not chosen, by a choice that does not rest itself.
func (p Pane) rests(d Param, v Values) bool {
	for name, values := range d.Beside {
		choice := p.Params[slices.IndexFunc(p.Params, func(x Param) bool { return x.Name == name })]
		chosen, ok := v[name]
		if !ok {
			chosen = choice.Default
		}
		if !slices.Contains(values, chosen) && !p.rests(choice, v) {
			return true
		}
	}
	return false
}

// besides are all values of the choices that a parameter stands beside.
func (p Pane) besides(d Param) []Values {
	all := []Values{{}}
	for name := range d.Beside {
		var more []Values
		for _, v := range all {
			for _, x := range p.Params[slices.IndexFunc(p.Params, func(x Param) bool { return x.Name == name })].Choices {
				with := maps.Clone(v)
				with[name] = x
				more = append(more, with)
			}
		}
		all = more
	}
	return all
}

// TestBeside holds parameters to the choices beside which they say that they play a part: beside all others no value of theirs
// changes what is shown, beside these some does, with the pane's defaults or with another value of one more choice.
func TestBeside(t *testing.T) {
	for _, p := range All() {
		for _, param := range p.Params {
			values := param.Choices
			switch param.Kind {
			case Text:
				values = []string{"write out0", "spatial(4, 8).local(4, 2)"}
			case Slider:
				values = nil
				for _, n := range []int{param.Min, param.Min + 1, param.Max} {
					values = append(values, strconv.Itoa(n))
				}
			}
			// changes finds a value that does, beside some others.
			changes := func(v Values) (string, error) {
				before, _ := p.Run(v)
				for _, value := range values {
					with := Values{param.Name: value}
					for k, x := range v {
						with[k] = x
					}
					after, err := p.Run(with)
					if err != nil || before.Sentence != after.Sentence || before.Text != after.Text || !slices.EqualFunc(before.Pictures, after.Pictures, func(a, b Picture) bool {
						return reflect.DeepEqual(a.Picture, b.Picture)
					}) {
						return value, err
					}
				}
				return "", nil
			}
			for name, with := range param.Beside {
				at := slices.IndexFunc(p.Params, func(x Param) bool { return x.Name == name })
				if at < 0 || p.Params[at].Kind != Choice || slices.ContainsFunc(with, func(x string) bool { return !slices.Contains(p.Params[at].Choices, x) }) {
					t.Errorf("%s %s: beside %s as %q, which is no choice, or has no such values", p.Name, param.Name, name, with)
					continue
				}
				for _, x := range with {
					value, _ := changes(Values{name: x})
					some := value != ""
					for _, other := range p.Params {
						for _, y := range other.Choices {
							if !some && other.Name != name && other.Name != param.Name {
								value, _ := changes(Values{name: x, other.Name: y})
								some = value != ""
							}
						}
					}
					if !some {
						t.Errorf("%s: %s plays no part where %s is %q", p.Name, param.Name, name, x)
					}
				}
			}
			for _, v := range p.besides(param) {
				if !p.rests(param, v) {
					continue
				}
				if value, err := changes(v); value != "" {
					t.Errorf("%s: %s as %q plays a part beside %v: %v", p.Name, param.Name, value, v, err)
				}
			}
		}
	}
}
