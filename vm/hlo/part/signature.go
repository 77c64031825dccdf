package part

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Signature is the interface of the function of a part, in the words of MLIR: all
// parameters of the computation as tensors, one index for each dimension of the
// first root, and the values of heroes; one scalar for each root.
type Signature struct {
	Name    string
	Params  []string
	Results []string
}

// String is the signature on one line.
func (s Signature) String() string {
	return fmt.Sprintf("%s(%s) -> (%s)", s.Name, strings.Join(s.Params, ", "), strings.Join(s.Results, ", "))
}

// ScalarText is an element type as MLIR writes it.
func ScalarText(t hlo.Type) string {
	switch {
	case t == hlo.Pred:
		return "i1"
	case t.Signed():
		return fmt.Sprintf("i%d", t.Bits())
	case t.IsInt():
		return fmt.Sprintf("ui%d", t.Bits())
	case t == hlo.F8E4M3FN:
		return "f8E4M3FN"
	case t == hlo.F8E5M2:
		return "f8E5M2"
	case t == hlo.C64:
		return "complex<f32>"
	case t == hlo.C128:
		return "complex<f64>"
	}
	return t.String()
}

// TensorText is a shape as MLIR writes it, with a layout that is not row-major.
func TensorText(s hlo.Shape) string {
	var b strings.Builder
	b.WriteString("tensor<")
	for _, n := range s.Dims {
		fmt.Fprintf(&b, "%dx", n)
	}
	b.WriteString(ScalarText(s.Type))
	if !s.RowMajor() {
		b.WriteString(", layout " + strings.ReplaceAll(fmt.Sprint(s.Layout), " ", ", "))
	}
	return b.String() + ">"
}

// SignatureOf is the signature of a part of a computation. A computation that others
// apply to scalars, such as that of a reduce, takes scalars and no index.
func SignatureOf(m *hlo.Module, c *hlo.Computation, q *Part) Signature {
	s := Signature{Name: q.Name}
	scalar := appliedToScalars(m, c)
	for _, p := range c.Params {
		if scalar {
			s.Params = append(s.Params, ScalarText(p.Shape.Type))
		} else {
			s.Params = append(s.Params, TensorText(p.Shape))
		}
	}
	if !scalar {
		for _, r := range q.Ranges {
			s.Params = append(s.Params, "index "+r.String())
		}
	}
	for _, h := range q.Heroes {
		for _, o := range h.Shape.Outputs() {
			s.Params = append(s.Params, ScalarText(o.Type))
		}
	}
	for _, r := range q.Roots {
		for _, o := range r.Shape.Outputs() {
			s.Results = append(s.Results, ScalarText(o.Type))
		}
	}
	return s
}

func appliedToScalars(m *hlo.Module, c *hlo.Computation) bool {
	if slices.ContainsFunc(c.Params, func(p *hlo.Instruction) bool { return len(p.Shape.Dims) > 0 || p.Shape.IsTuple() }) {
		return false
	}
	for _, d := range m.Computations {
		for _, in := range d.Instructions {
			if in.Apply == c && in.Op != hlo.Fusion && in.Op != hlo.Call {
				return true
			}
		}
	}
	return false
}

// InlineLimit is the most operations that a caller may have after inlining.
const InlineLimit = 4000

// Inlined decides for every part whether its function is put into its callers in place
// of the calls: always where it only moves elements; otherwise where each caller calls it
// once, the results are not too long, and it has one caller or calls a function that
// every caller calls too. Why says the reason.
func (p *Partition) Inlined() (inline []bool, why []string) {
	inline, why = make([]bool, len(p.Parts)), make([]string, len(p.Parts))
	size := make([]int, len(p.Parts))
	callers := make([][]*Part, len(p.Parts))
	for i, q := range p.Parts {
		size[i] = len(q.Instructions)
		for other := range q.Calls {
			callers[other.ID] = append(callers[other.ID], q)
		}
	}
	// Callees come after their callers, so going backwards is bottom up.
	for i := len(p.Parts) - 1; i > 0; i-- {
		q := p.Parts[i]
		switch {
		case len(callers[i]) == 0:
			why[i] = "nothing calls it"
			continue
		case q.NoCompute:
			inline[i], why[i] = true, "it only moves elements"
		default:
			inline[i], why[i] = worth(q, callers[i], size)
		}
		if inline[i] {
			for _, c := range callers[i] {
				size[c.ID] += c.Calls[q] * size[i]
			}
		}
	}
	return inline, why
}

// worth says whether a part that computes something is put into its callers.
func worth(q *Part, callers []*Part, size []int) (bool, string) {
	for _, c := range callers {
		if n := c.Calls[q]; n > 1 {
			return false, fmt.Sprintf("%s calls it %d times", c.Name, n)
		}
		if size[q.ID]+size[c.ID] > InlineLimit {
			return false, fmt.Sprintf("%s would have more than %d operations", c.Name, InlineLimit)
		}
	}
	if len(callers) == 1 {
		return true, "one function calls it once"
	}
	for third := range q.Calls {
		if !slices.ContainsFunc(callers, func(c *Part) bool { return c.Calls[third] == 0 }) {
			return true, "its callers call " + third.Name + " too"
		}
	}
	return false, fmt.Sprintf("%d functions call it", len(callers))
}
