package web

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// entry is a thing that the command palette finds: a pane with values, an example
// program, or a lesson.
type entry struct {
	Title   string      `json:"title"`
	Kind    string      `json:"kind"` // for people: "pane", "instruction", "program", "lesson"
	Pane    string      `json:"pane,omitempty"`
	Values  pane.Values `json:"values,omitempty"`
	Example string      `json:"example,omitempty"` // program whose text "example" gives
	Book    string      `json:"book,omitempty"`
}

// palette lists everything that has a name.
func (s *server) palette() []entry {
	var out []entry
	for _, p := range pane.All() {
		out = append(out, entry{Title: p.Title, Kind: "pane", Pane: p.Name})
	}
	if s.books != nil {
		for _, name := range s.books.list() {
			out = append(out, entry{Title: name, Kind: "lesson", Book: name})
		}
	}
	for _, op := range ir.Ops() {
		out = append(out, entry{Title: op.Name, Kind: "VM instruction", Pane: "manual", Values: pane.Values{"op": op.Name}})
	}
	for _, name := range corpus.Names() {
		out = append(out, entry{Title: name, Kind: "program", Pane: "program", Example: name},
			entry{Title: name + ": generated code", Kind: "program", Pane: "code", Example: name})
	}
	for _, a := range arch.Atoms() {
		title := a.Name
		if len(a.Aliases) > 0 {
			title = fmt.Sprintf("%s (%s)", a.Name, a.Aliases[0])
		}
		out = append(out, entry{Title: title, Kind: a.Vendor + " instruction", Pane: "catalogue", Values: pane.Values{"i": a.Name, "q": a.Name}})
	}
	return out
}
