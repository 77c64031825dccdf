package lab

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/debug"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Hooks is what the process that runs cells lends to this package.
type Hooks struct {
	Context func() context.Context                    // ends when the running cell is interrupted
	Explore func(form, text string)                   // shows a value on the explorer page
	Display func(data map[string]string)              // shows a value in the cell, by MIME type
	Picture func(caption string, p layoutviz.Picture) // shows a picture in the cell; caption stands where none can
	Unended func(error)                               // a launch goes on after its interrupt; only the end of this process stops it

	// Launch runs a program under the notebook's debugger, on the session that start begins; it gives the session at its
	// end, or nil where nobody debugs the program.
	Launch func(ctx context.Context, p *ir.Program, start func() (*debug.Session, error)) (*debug.Session, error)
}

// hooks belong to the process, as its cells do: a worker has one notebook.
var hooks atomic.Pointer[Hooks]

// Attach lends hooks to this package until the returned function is called.
func Attach(h Hooks) (detach func()) {
	hooks.Store(&h)
	return func() { hooks.CompareAndSwap(&h, nil) }
}

// Context ends when the cell that runs is interrupted. Long calls that a cell makes must watch it, such as
// products of package qmm: with context.Background they go on.
func Context() context.Context {
	if h := hooks.Load(); h != nil && h.Context != nil {
		return h.Context()
	}
	return context.Background()
}

// Explore shows a layout, an element type, a program, a tensor or any text that the explorer reads on the explorer page.
func Explore(x any) error {
	form, s, ok := Form(x)
	if !ok {
		str, isText := x.(string)
		if !isText {
			return fmt.Errorf("lab: the explorer has no view of %T; it shows layouts, element types, programs, tensors and text", x)
		}
		form, s = "text", str
	}
	h := hooks.Load()
	if h == nil || h.Explore == nil {
		return fmt.Errorf("lab: no explorer is attached to this process")
	}
	h.Explore(form, s)
	return nil
}

// Form names the form in which the explorer shows a value, "layout", "type", "program" or "array", and gives its canonical text.
func Form(x any) (form, canonical string, ok bool) {
	switch x := x.(type) {
	case layout.Layout:
		return "layout", x.String(), true
	case *ir.Program:
		if x == nil {
			return "", "", false
		}
		return "program", text.Format(x), true
	case dtype.Type:
		return "type", x.String(), true
	case *array.Array:
		if x == nil {
			return "", "", false
		}
		return "array", arrayText(x), true
	}
	return "", "", false
}

// maxShown is how many elements of a tensor the explorer is told.
const maxShown = 2048

// arrayText is type, shape and values in row-major order: "f16[2, 2] = 1 2 3 4".
func arrayText(a *array.Array) string {
	var b strings.Builder
	b.WriteString(a.Header() + " =")
	for k := range min(a.Len(), maxShown) {
		b.WriteByte(' ')
		b.WriteString(a.Type.Format(a.Code(k)))
	}
	if a.Len() > maxShown {
		b.WriteString(" …")
	}
	return b.String()
}
