package interp

import (
	"math/bits"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// elementFunc is what an op does with the codes of one element of each operand;
// there are up to three.
type elementFunc func(t dtype.Type, a, b, c uint64) uint64

func one(f func(t dtype.Type, a uint64) uint64) elementFunc {
	return func(t dtype.Type, a, _, _ uint64) uint64 { return f(t, a) }
}

func two(f func(t dtype.Type, a, b uint64) uint64) elementFunc {
	return func(t dtype.Type, a, b, _ uint64) uint64 { return f(t, a, b) }
}

func truth(f func(t dtype.Type, a, b uint64) bool) elementFunc {
	return func(t dtype.Type, a, b, _ uint64) uint64 {
		if f(t, a, b) {
			return 1
		}
		return 0
	}
}

// elementFuncs are the ops of vm/dtype; those of its sequences come beside.
var elementFuncs = map[string]elementFunc{
	"Add": two(dtype.Add), "Sub": two(dtype.Sub), "Mul": two(dtype.Mul), "Fma": dtype.Fma,
	"Min": two(dtype.Min), "Max": two(dtype.Max), "Div": two(dtype.Div), "Mod": two(dtype.Mod),
	"Clip":   func(t dtype.Type, a, b, c uint64) uint64 { return dtype.Min(t, dtype.Max(t, a, b), c) },
	"Square": func(t dtype.Type, a, _, _ uint64) uint64 { return dtype.Mul(t, a, a) },
	"Neg":    one(dtype.Neg), "Abs": one(dtype.Abs), "Sqrt": one(dtype.Sqrt),
	"Round": one(dtype.RoundEven), "Floor": one(dtype.Floor), "Ceil": one(dtype.Ceil), "Trunc": one(dtype.Trunc),
	"And": two(dtype.And), "Or": two(dtype.Or), "Xor": two(dtype.Xor), "Not": one(dtype.Not), "CountOnes": func(_ dtype.Type, a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }, "Shl": two(dtype.Shl), "Shr": two(dtype.Shr),
	"Equal": truth(dtype.Equal), "NotEqual": truth(func(t dtype.Type, a, b uint64) bool { return !dtype.Equal(t, a, b) }),
	"Less": truth(dtype.Less), "Greater": truth(func(t dtype.Type, a, b uint64) bool { return dtype.Less(t, b, a) }),
	"LessEqual":    truth(func(t dtype.Type, a, b uint64) bool { return dtype.Less(t, a, b) || dtype.Equal(t, a, b) }),
	"GreaterEqual": truth(func(t dtype.Type, a, b uint64) bool { return dtype.Less(t, b, a) || dtype.Equal(t, a, b) }),
	"Where": func(t dtype.Type, cond, a, b uint64) uint64 {
		if cond != 0 {
			return a
		}
		return b
	},
}

// elementFuncOf is the op's function of one element.
func elementFuncOf(in *ir.Instr) elementFunc {
	if f := elementFuncs[in.Op.Name]; f != nil {
		return f
	}
	s := dtype.SequenceOf(in.Op.Name, in.Attr("approx") != nil)
	return func(t dtype.Type, a, _, _ uint64) uint64 { return s.EvalAs(t, a) }
}

// pause is how many elements are computed between two looks at whether to stop.
const pause = 1 << 14

// arithmetic applies the op's element function with broadcast.
func arithmetic(m *Machine, in *ir.Instr) error {
	t := in.Out[0].Type
	dims, _ := t.Dims()
	elem := t.Elem // of the operands
	if of, ok := ir.TileElem(in.In); ok && elem == dtype.Bool {
		elem = of
	}
	f := elementFuncOf(in)
	out := &tile{elem: t.Elem, dims: dims, codes: make([]uint64, t.Layout.Size())}
	x, _, err := m.elements(in, dims, len(out.codes))
	if err != nil {
		return err
	}
	if (in.Op.Name == "Div" || in.Op.Name == "Mod") && !elem.IsFloat() {
		if k := slices.Index(x[1], 0); k >= 0 {
			return problem(in.In[1].Pos, "Run.E16", "let what divides be no 0: Max(y, 1), or Where", "element %d of %s is divided by 0", k, in.In[0].Expr)
		}
	}
	a, b, c := x[0], x[1], x[2]
	if b == nil {
		b = a
	}
	if c == nil {
		c = a
	}
	for k := range out.codes {
		if k%pause == 0 {
			if err := m.stopped(); err != nil {
				return err
			}
		}
		out.codes[k] = f(elem, a[k], b[k], c[k])
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

// broadcast gives a tile's codes repeated to a shape.
func broadcast(x *tile, dims []int) []uint64 {
	if slices.Equal(x.dims, dims) {
		return x.codes
	}
	// Dimension by dimension from the last: what lies in it, repeated or in order.
	out := x.codes
	inner := 1 // elements below dimension d in the result
	for d := len(dims) - 1; d >= 0; d-- {
		n := 1
		if at := d - len(dims) + len(x.dims); at >= 0 {
			n = x.dims[at]
		}
		if n != dims[d] { // n is 1
			next := make([]uint64, 0, len(out)*dims[d])
			for k := 0; k < len(out); k += inner {
				for range dims[d] {
					next = append(next, out[k:k+inner]...)
				}
			}
			out = next
		}
		inner *= dims[d]
	}
	return out
}

// scalarCode is a scalar expression's value as a code of t.
func (m *Machine) scalarCode(e ir.Expr, t dtype.Type) (uint64, error) {
	switch x := e.(type) {
	case *ir.Float:
		return t.Encode(x.Value, false), nil
	case *ir.Ref:
		if x.Var.Type.Elem.IsFloat() {
			return t.Encode(m.get(x.Var).f, false), nil
		}
	case *ir.Unary:
		if f, ok := x.X.(*ir.Float); ok {
			return t.Encode(-f.Value, false), nil
		}
	case *ir.Select:
		c, err := m.int(x.Cond)
		if err != nil {
			return 0, err
		}
		if c != 0 {
			return m.scalarCode(x.X, t)
		}
		return m.scalarCode(x.Y, t)
	}
	n, err := m.int(e)
	if err != nil {
		return 0, err
	}
	if t.IsFloat() {
		return t.Encode(float64(n), false), nil
	}
	if !ir.CheckRange(t, n) {
		return 0, problem(e.Position(), "Expr.R1", "", "%d is no %s", n, t)
	}
	return t.EncodeInt(n, false), nil
}
