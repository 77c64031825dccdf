package pane

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// View is what a pane of a machine can show, and the flag --view of its command can
// draw: the name that the pane's choice has, and others, shorter ones, that mean the
// same in addresses and on the command line.
type View struct {
	Name string
	Also []string
}

// What the pane volta shows.
const (
	VoltaOctets   = "octets"
	VoltaMemory   = "memory to sums"
	VoltaBoxes    = "multipliers"
	VoltaSteps    = "all steps"
	VoltaRounding = "rounding"
)

// VoltaViews lists what the pane volta shows.
func VoltaViews() []View {
	return []View{{Name: VoltaOctets}, {VoltaMemory, []string{"memory"}}, {Name: VoltaBoxes}, {VoltaSteps, []string{"story"}}, {VoltaRounding, []string{"bits"}}}
}

// What the pane dispatch shows.
const (
	DispatchTime    = "timeline"
	DispatchStairs  = "staircase"
	DispatchWhy     = "why a block started"
	DispatchQueue   = "a new queue"
	DispatchPackets = "packets"
)

// DispatchViews lists what the pane dispatch shows.
func DispatchViews() []View {
	return []View{{Name: DispatchTime}, {DispatchStairs, []string{"stairs"}}, {DispatchWhy, []string{"path", "causes"}}, {DispatchQueue, []string{"queue"}}, {Name: DispatchPackets}}
}

// FindView is the name of the view that is called so. The error lists all.
func FindView(views []View, name string) (string, error) {
	var all, said []string
	for _, v := range views {
		if v.Name == name || slices.Contains(v.Also, name) {
			return v.Name, nil
		}
		all = append(append(all, v.Name), v.Also...)
		said = append(said, v.String())
	}
	help := ""
	if near := diag.Suggest(name, all); near != "" {
		help = "; did you mean " + near + "?"
	}
	return "", fmt.Errorf("no view %.40q; there are %s%s", name, strings.Join(said, ", "), help)
}

// String is the view's name with the others: "all steps (story)".
func (v View) String() string {
	if len(v.Also) == 0 {
		return v.Name
	}
	return fmt.Sprintf("%s (%s)", v.Name, strings.Join(v.Also, ", "))
}

// shows is the parameter, a choice, with these views.
func (p Param) shows(views []View) Param {
	p.Default, p.Also = views[0].Name, map[string]string{}
	for _, v := range views {
		p.Choices = append(p.Choices, v.Name)
		for _, name := range v.Also {
			p.Also[name] = v.Name
		}
	}
	return p
}
