package interp

import (
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func random(m *Machine, in *ir.Instr) error {
	seed, err := m.scalarCode(in.In[0].Expr, dtype.I64)
	if err != nil {
		return err
	}
	x, err := m.tile(in, 1)
	if err != nil {
		return err
	}
	n := len(x.codes)
	dims, _ := in.Out[0].Type.Dims()
	out := &tile{elem: dtype.U32, dims: dims, codes: make([]uint64, 4*n)}
	for k, c := range x.codes {
		for w, r := range philox(seed, [4]uint32{uint32(c)}) {
			out.codes[w*n+k] = uint64(r)
		}
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

// philox is Philox 4×32.
func philox(key uint64, c [4]uint32) [4]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	for range ir.PhiloxRounds {
		a, b := uint64(ir.PhiloxM0)*uint64(c[0]), uint64(ir.PhiloxM1)*uint64(c[2])
		c = [4]uint32{uint32(b>>32) ^ c[1] ^ k0, uint32(b), uint32(a>>32) ^ c[3] ^ k1, uint32(a)}
		k0, k1 = k0+ir.PhiloxW0, k1+ir.PhiloxW1
	}
	return c
}
