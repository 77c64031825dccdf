package interp

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// scalarFuncs are the element functions of the arithmetic family.
var scalarFuncs = map[string]func(t dtype.Type, x []uint64) uint64{
	"Add": func(t dtype.Type, x []uint64) uint64 { return dtype.Add(t, x[0], x[1]) },
	"Sub": func(t dtype.Type, x []uint64) uint64 { return dtype.Sub(t, x[0], x[1]) },
	"Mul": func(t dtype.Type, x []uint64) uint64 { return dtype.Mul(t, x[0], x[1]) },
	"Fma": func(t dtype.Type, x []uint64) uint64 { return dtype.Fma(t, x[0], x[1], x[2]) },
}

// arithmetic applies the op's element function with broadcast.
func arithmetic(m *Machine, in *ir.Instr) error {
	t := in.Out[0].Type
	dims, _ := t.Dims()
	f := scalarFuncs[in.Op.Name]
	out := &tile{elem: t.Elem, dims: dims, codes: make([]uint64, t.Layout.Size())}
	operands := make([]*tile, len(in.In))
	codes := make([]uint64, len(in.In))
	for i, o := range in.In {
		if v := o.Var(); v != nil && v.Type.IsRegister() {
			x, err := m.tile(in, i)
			if err != nil {
				return err
			}
			operands[i] = x
			continue
		}
		c, err := m.scalarCode(o.Expr, t.Elem)
		if err != nil {
			return err
		}
		codes[i] = c
	}
	err := each(dims, func(k int, index []int) error {
		for i, x := range operands {
			switch {
			case x == nil:
			case slices.Equal(x.dims, dims):
				codes[i] = x.codes[k]
			default:
				codes[i] = x.codes[ir.BroadcastIndex(x.dims, index)]
			}
		}
		out.codes[k] = f(t.Elem, codes)
		return nil
	})
	if err != nil {
		return err
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
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
