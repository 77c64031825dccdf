package lab

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Show shows values in the cell, in order: a program as its text and a picture of
// each layout in it, a layout from both sides and, where it came from another
// notation, in all of them, an instruction with its operands, an access to shared
// memory with its banks, a picture as it is, anything else as text. An error that is not nil ends the cell; so Show also takes what a call
// returns, as in lab.Show(lab.Run(p, args...)). Outside a notebook only text is
// printed.
func Show(values ...any) {
	for _, v := range values {
		if err, ok := v.(error); ok {
			Check(err)
		}
	}
	for _, v := range values {
		switch v := v.(type) {
		case nil:
		case *ir.Program:
			if v != nil {
				showProgram(v)
			}
		case layout.Layout:
			showLayout("", v, layoutviz.Tensor, layoutviz.Threads)
		case layoutviz.Picture:
			showPicture("", v)
		default:
			if !showAny(v) {
				showText(fmt.Sprint(v))
			}
		}
	}
}

func showProgram(p *ir.Program) {
	showText(strings.TrimSuffix(text.Format(p), "\n"))
	for _, u := range layoutsOf(p) {
		names := strings.Join(u.names, ", ")
		showText("layout of " + names + ":")
		showLayout(names+" : ", u.layout, layoutviz.Tensor)
	}
}

// use is a layout of a program and the variables that have it.
type use struct {
	layout layout.Layout
	names  []string
}

// layoutsOf lists the distinct layouts of a program's register variables in the
// order of their first assignment.
func layoutsOf(p *ir.Program) []use {
	var uses []use
	place := map[string]int{} // layout → index in uses
	seen := map[*ir.Var]bool{}
	p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if !ok {
			return true
		}
		for _, v := range in.Out {
			if seen[v] || !v.Type.IsRegister() || !v.Type.HasLayout {
				continue
			}
			seen[v] = true
			key := v.Type.Layout.Key()
			if _, ok := place[key]; !ok {
				place[key] = len(uses)
				uses = append(uses, use{layout: v.Type.Layout})
			}
			u := &uses[place[key]]
			u.names = append(u.names, v.Name)
		}
		return true
	})
	return uses
}

type view = func(layout.Layout, layoutviz.Options) (layoutviz.Picture, error)

func showLayout(head string, l layout.Layout, views ...view) {
	for _, draw := range views {
		p, err := draw(l, layoutviz.Options{})
		if err != nil { // too large to draw
			showText(head + layoutviz.Describe(l))
			return
		}
		showPicture(head+layoutviz.Describe(l), p)
	}
}

// showPicture shows a picture; caption is what stands where none can.
func showPicture(caption string, p layoutviz.Picture) {
	h := hooks.Load()
	if caption == "" {
		caption = p.Title
	}
	if h == nil || h.Picture == nil {
		fmt.Println(caption)
		return
	}
	h.Picture(caption, p)
}

func showText(s string) {
	if h := hooks.Load(); h != nil && h.Display != nil {
		h.Display(map[string]string{"text/plain": s})
		return
	}
	fmt.Println(s)
}

// SimpleRender makes results, comparisons, code and machines show as their text
// where a cell ends with them.
func (r *Result) SimpleRender() map[string]any     { return plain(r) }
func (c *Comparison) SimpleRender() map[string]any { return plain(c) }
func (c *Code) SimpleRender() map[string]any       { return plain(c) }
func (m *About) SimpleRender() map[string]any      { return plain(m) }

func plain(s fmt.Stringer) map[string]any { return map[string]any{"text/plain": s.String()} }
