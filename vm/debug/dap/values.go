package dap

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/go-dap"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/debug"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// What a variablesReference stands for.
type (
	variables struct{}                 // of the running block
	arguments struct{}                 // of the launch
	tile      struct{ debug.Variable } // a register tensor: its threads
	thread    struct {                 // what a thread holds of one: its slots
		of debug.Variable
		t  int
	}
	rows struct { // an array: its parts along the first dimension
		a  *array.Array
		at []int // indices of the dimensions before
	}
)

func (v *View) ref(x any) int {
	v.refs = append(v.refs, x)
	return v.Base + len(v.refs)
}

// head is the first line of a statement's text.
func head(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSuffix(line, " {")
}

func codeOf(err error) string {
	var list diag.List
	if errors.As(err, &list) && len(list) > 0 {
		return list[0].Code
	}
	return "error"
}

// around is the head of a statement that the next one lies in; of a loop with the index
// of the turn.
func (v *View) around(x ir.Stmt) string {
	name := head(text.FormatStmt(x))
	if loop, ok := x.(*ir.For); ok {
		for _, k := range v.Session.Variables() {
			if k.Var == loop.Var {
				return fmt.Sprintf("%s, %s = %d", name, loop.Var.Name, k.Int)
			}
		}
	}
	return name
}

// variable is what a variable holds, in one line.
func (v *View) variable(of debug.Variable) dap.Variable {
	t := of.Var.Type
	x := dap.Variable{Name: of.Var.Name, Type: t.String()}
	switch {
	case of.Tile != nil:
		x.Value = short(of.Tile)
		x.VariablesReference, x.IndexedVariables = v.ref(tile{of}), t.Layout.Threads()
	case t.Kind == ir.Scalar && t.Elem.IsFloat():
		x.Value = strconv.FormatFloat(of.Float, 'g', -1, 64)
		x.EvaluateName = of.Var.Name
	case t.Kind == ir.Scalar:
		x.Value = strconv.FormatInt(of.Int, 10)
		x.EvaluateName = of.Var.Name
	default: // a place in memory
		x.Value = t.String()
	}
	return x
}

// short is an array on one line.
func short(a *array.Array) string {
	text := strings.Join(strings.Fields(a.String()), " ")
	if r := []rune(text); len(r) > 120 {
		text = string(r[:119]) + "…"
	}
	return text
}

// number is an element, exactly.
func number(a *array.Array, index []int) string {
	return strconv.FormatFloat(a.At(index...), 'g', -1, 64)
}

// slot is the element that a thread of a register tensor has in a slot.
func slot(v debug.Variable, t, i int) string {
	return strconv.FormatFloat(v.Var.Type.Elem.Decode(v.Code(t, i)), 'g', -1, 64)
}

func indexText(index []int) string {
	words := make([]string, len(index))
	for i, n := range index {
		words[i] = strconv.Itoa(n)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// Children are the parts of a reference.
func (v *View) Children(ref, start, count int) ([]dap.Variable, error) {
	if ref <= v.Base || ref > v.Base+len(v.refs) {
		return nil, fmt.Errorf("variables reference %d is not of this stop", ref)
	}
	span := func(n int) (int, int) {
		from := min(max(start, 0), n)
		to := n
		if count > 0 {
			to = min(n, from+count)
		}
		return from, to
	}
	var out []dap.Variable
	switch x := v.refs[ref-v.Base-1].(type) {
	case variables:
		for _, x := range v.Session.Variables() {
			if !x.Var.Param {
				out = append(out, v.variable(x))
			}
		}
	case arguments:
		m := v.Session.Machine()
		for i, a := range m.Args() {
			p := m.Program().Params[i]
			x := dap.Variable{Name: p.Name, Type: p.Type.String()}
			switch {
			case a.Array != nil:
				x.Value = short(a.Array)
				x.VariablesReference, x.IndexedVariables = v.ref(rows{a: a.Array}), first(a.Array, 0)
			case p.Type.Elem.IsFloat():
				x.Value = strconv.FormatFloat(a.Float, 'g', -1, 64)
			default:
				x.Value = strconv.FormatInt(a.Int, 10)
			}
			out = append(out, x)
		}
	case tile:
		from, to := span(x.Var.Type.Layout.Threads())
		for t := from; t < to; t++ {
			out = append(out, dap.Variable{Name: fmt.Sprintf("thread %d", t), Value: held(x.Variable, t), VariablesReference: v.ref(thread{x.Variable, t}), IndexedVariables: x.Var.Type.Layout.Slots()})
		}
	case thread:
		l := x.of.Var.Type.Layout
		from, to := span(l.Slots())
		for i := from; i < to; i++ {
			at := l.Index(x.t, i)
			out = append(out, dap.Variable{Name: fmt.Sprintf("slot %d %s", i, indexText(at)), Value: slot(x.of, x.t, i)})
		}
	case rows:
		from, to := span(first(x.a, len(x.at)))
		for i := from; i < to; i++ {
			at := append(append([]int{}, x.at...), i)
			part := dap.Variable{Name: indexText(at)}
			if len(at) >= len(x.a.Shape) {
				part.Value = number(x.a, at[:len(x.a.Shape)])
			} else {
				part.Value = line(x.a, at)
				part.VariablesReference, part.IndexedVariables = v.ref(rows{x.a, at}), first(x.a, len(at))
			}
			out = append(out, part)
		}
	}
	return out, nil
}

// first is an array's extent along a dimension; an array without dimensions has one
// element.
func first(a *array.Array, d int) int {
	if d < len(a.Shape) {
		return a.Shape[d]
	}
	return 1
}

// line is the beginning of the part of an array at some indices.
func line(a *array.Array, at []int) string {
	var words []string
	index := make([]int, len(a.Shape))
	copy(index, at)
	last := len(a.Shape) - 1
	for i := range min(8, a.Shape[last]) {
		index[last] = i
		words = append(words, number(a, index))
	}
	if a.Shape[last] > 8 || len(at) < last {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}

// held is what a thread holds of a tile, slot by slot.
func held(v debug.Variable, t int) string {
	var words []string
	l := v.Var.Type.Layout
	for i := range min(16, l.Slots()) {
		words = append(words, slot(v, t, i))
	}
	if l.Slots() > 16 {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}

// Evaluate is the value of a variable's name or of an expression of scalars.
func (v *View) Evaluate(_ int, expr string) (dap.Variable, error) {
	expr = strings.TrimSpace(expr)
	for _, x := range v.Session.Variables() {
		if x.Var.Name == expr {
			return v.variable(x), nil
		}
	}
	n, err := v.Session.Eval(expr)
	if err != nil {
		return dap.Variable{}, err
	}
	return dap.Variable{Value: strconv.FormatInt(n, 10)}, nil
}
