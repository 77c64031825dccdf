package interp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// ElementFunc computes an element of a tile from those of its operands, as exact
// values. What it returns is rounded once, to the type of the result.
type ElementFunc func(operands []float64) float64

// Elementwise makes f the meaning of element-wise instructions: of those with that
// name ("Exp"), or of those that assign that variable ("y"). So a program runs with
// a function of one's own where it has, say, y = Abs(x).
func Elementwise(name string, operands int, f ElementFunc) Option {
	return func(m *Machine) { m.swaps = append(m.swaps, swap{name, operands, f}) }
}

// AfterStep calls f in Run after each statement with that statement; false ends Run
// there, without an error.
func AfterStep(f func(m *Machine, s ir.Stmt) bool) Option {
	return func(m *Machine) { m.after = append(m.after, f) }
}

// swap is a function in place of instructions.
type swap struct {
	name     string
	operands int
	f        ElementFunc
}

// swapped finds the instructions that functions stand for; a function without any is a mistake.
func (m *Machine) swapped() error {
	if len(m.swaps) == 0 {
		return nil
	}
	m.funcs = map[*ir.Instr]ElementFunc{}
	used := make([]bool, len(m.swaps))
	var known []string
	var list diag.List
	m.prog.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if !ok || in.Op.Class != ir.ClassElementwise || len(in.Out) != 1 {
			return true
		}
		known = append(known, in.Op.Name, in.Out[0].Name)
		for i, w := range m.swaps {
			if w.name != in.Op.Name && w.name != in.Out[0].Name {
				continue
			}
			used[i] = true
			if len(in.In) != w.operands {
				list.Addf(in.Pos, "Run.E29", "", "the function for %s takes %s, and %s has %d", w.name, operands(w.operands), in.Op.Name, len(in.In))
			}
			m.funcs[in] = w.f
		}
		return true
	})
	slices.Sort(known)
	known = slices.Compact(known)
	for i, w := range m.swaps {
		if used[i] {
			continue
		}
		help := "there are " + strings.Join(known, ", ")
		if len(known) == 0 {
			help = "the program has no element-wise instruction"
		}
		if s := diag.Suggest(w.name, known); s != "" {
			help = "did you mean " + s + "? " + help
		}
		list.Addf(m.prog.Pos, "Run.E29", help, "%s has no element-wise instruction %s, nor one that assigns a variable %s", m.prog.Name, w.name, w.name)
	}
	return list.Err()
}

func operands(n int) string {
	if n == 1 {
		return "1 operand"
	}
	return fmt.Sprintf("%d operands", n)
}

// apply runs an instruction by the function that stands for it.
func (m *Machine) apply(in *ir.Instr, f ElementFunc) error {
	t := in.Out[0].Type
	dims, _ := t.Dims()
	x, types, err := m.elements(in, dims, t.Layout.Size())
	if err != nil {
		return err
	}
	out := &tile{elem: t.Elem, dims: dims, codes: make([]uint64, t.Layout.Size())}
	values := make([]float64, len(in.In))
	for k := range out.codes {
		if k&63 == 0 { // functions of cells are slow
			if err := m.stopped(); err != nil {
				return err
			}
		}
		for i := range values {
			values[i] = types[i].Decode(x[i][k])
		}
		out.codes[k] = t.Elem.Encode(f(values), false)
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

// elements are the codes of an element-wise instruction's operands, each as long as
// the result, and their types.
func (m *Machine) elements(in *ir.Instr, dims []int, size int) (x [3][]uint64, types [3]dtype.Type, err error) {
	elem := in.Out[0].Type.Elem // of operands that are scalars
	if of, ok := ir.TileElem(in.In); ok && (elem == dtype.Bool || in.Op.Name == "Cast") {
		elem = of
	}
	for i, o := range in.In {
		types[i] = elem
		if v := o.Var(); v != nil && v.Type.IsRegister() {
			operand, err := m.tile(in, i)
			if err != nil {
				return x, types, err
			}
			x[i], types[i] = broadcast(operand, dims), operand.elem
			continue
		}
		if in.Op.Name == "Where" && i == 0 {
			types[i] = dtype.Bool
		}
		c, err := m.scalarCode(o.Expr, types[i])
		if err != nil {
			return x, types, err
		}
		x[i] = make([]uint64, size)
		for k := range x[i] {
			x[i][k] = c
		}
	}
	return x, types, nil
}
