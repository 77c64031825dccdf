package interp

import (
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// move makes a tensor of the elements of others: which one is which, ir.MovedFrom
// says.
func move(m *Machine, in *ir.Instr) error {
	offset, err := m.place(in)
	if err != nil {
		return err
	}
	t := in.Out[0].Type
	dims, _ := t.Dims()
	out := &tile{elem: t.Elem, dims: dims, codes: make([]uint64, t.Layout.Size())}
	var codes []uint64
	var unset []bool
	for _, o := range in.In {
		x := m.get(o.Var()).tile
		if x.unset != nil && unset == nil {
			unset = make([]bool, len(codes))
		}
		codes = append(codes, x.codes...)
		if x.unset != nil {
			unset = append(unset, x.unset...)
		} else if unset != nil {
			unset = append(unset, make([]bool, len(x.codes))...)
		}
	}
	if unset != nil {
		out.unset = make([]bool, len(out.codes))
	}
	from, known := m.moves[in]
	if !known || offset != nil {
		from = ir.MovedFrom(in, offset)
		m.moves[in] = from
	}
	for e, from := range from {
		out.codes[e] = codes[from]
		if unset != nil {
			out.unset[e] = unset[from]
		}
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

// place is the offset of a slice of a register tensor, or nil.
func (m *Machine) place(in *ir.Instr) ([]int, error) {
	a := in.Attr("offset")
	if a == nil {
		return nil, nil
	}
	x := in.In[0].Var()
	whole, _ := x.Type.Dims()
	extents := in.Extents()
	offset := make([]int, len(whole))
	for d, e := range a.Exprs {
		n, err := m.int(e)
		if err != nil {
			return nil, err
		}
		if n < 0 || n+int64(extents[d]) > int64(whole[d]) {
			return nil, problem(e.Position(), "Run.E12", "keep the offset inside", "%s is %d: the part takes %d elements of dimension %d of %s, which has %d", e, n, extents[d], d, x.Name, whole[d])
		}
		offset[d] = int(n)
	}
	return offset, nil
}
