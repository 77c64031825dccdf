package pane

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/layoutviz"
)

// Other names of choices show what the choice does, and are those of no other choice;
// names that mean something on the command line mean the same here.
func TestOtherNames(t *testing.T) {
	n := 0
	for _, p := range All() {
		for _, d := range p.Params {
			for name, choice := range d.Also {
				n++
				if slices.Contains(d.Choices, name) || !slices.Contains(d.Choices, choice) {
					t.Errorf("%s: %s as %q is %q; the choices are %q", p.Name, d.Name, name, choice, d.Choices)
				}
				want, err := p.Run(Values{d.Name: choice})
				got, bad := p.Run(Values{d.Name: name})
				if err != nil || bad != nil || got.Sentence != want.Sentence || !reflect.DeepEqual(got.Pictures[0].SVG, want.Pictures[0].SVG) {
					t.Errorf("%s: %s as %q shows something else than %q: %v, %v", p.Name, d.Name, name, choice, err, bad)
				}
			}
		}
	}
	if n < 7 {
		t.Errorf("there are only %d", n)
	}
	for _, name := range []string{layoutSteps, layoutOperands} {
		if !slices.Contains(layoutviz.Views(), name) {
			t.Errorf("the layout pane shows %q, which is no view of layouts: %q", name, layoutviz.Views())
		}
	}
	if name, err := FindView(DispatchViews(), "stairs"); name != DispatchStairs {
		t.Errorf("stairs: %q, %v", name, err)
	}
	if _, err := FindView(DispatchViews(), "stars"); err == nil || !strings.Contains(err.Error(), "staircase (stairs)") || !strings.Contains(err.Error(), "did you mean stairs") {
		t.Errorf("stars: %v", err)
	}
}
