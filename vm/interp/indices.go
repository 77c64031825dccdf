package interp

import "github.com/tilus-lab/tilus-lab/vm/ir"

// indices gives each element its index along a dimension.
func indices(m *Machine, in *ir.Instr) error {
	t := in.Out[0].Type
	dims, _ := t.Dims()
	d := in.ReducedDims()[0]
	out := &tile{elem: t.Elem, dims: dims, codes: make([]uint64, t.Layout.Size())}
	inner := 1
	for _, n := range dims[d+1:] {
		inner *= n
	}
	for k := range out.codes {
		out.codes[k] = uint64(k / inner % dims[d])
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}
