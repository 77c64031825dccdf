package interp

import (
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func allocateRegister(m *Machine, in *ir.Instr) error {
	t := in.Out[0].Type
	dims, _ := t.Dims()
	x := &tile{elem: t.Elem, dims: dims, codes: make([]uint64, t.Layout.Size())}
	if a := in.Attr("init"); a != nil {
		code := InitCode(t.Elem, a.Number)
		for k := range x.codes {
			x.codes[k] = code
		}
	} else {
		x.unset = make([]bool, len(x.codes))
		for k := range x.unset {
			x.unset[k] = true
		}
	}
	m.set(in.Out[0], value{set: true, tile: x})
	return nil
}

// InitCode is the code of an init number in an element type.
func InitCode(t dtype.Type, v float64) uint64 {
	if t.IsFloat() {
		return t.Encode(v, true)
	}
	return t.EncodeInt(int64(v), true)
}

// view lays each thread's bits out, slot after slot and low bits first, and
// reads them again in the other type.
func view(m *Machine, in *ir.Instr) error {
	from, to := in.In[0].Var().Type, in.Out[0].Type
	x := m.get(in.In[0].Var()).tile
	dims, _ := to.Dims()
	out := &tile{elem: to.Elem, dims: dims, codes: make([]uint64, to.Layout.Size())}
	if x.unset != nil {
		out.unset = make([]bool, len(out.codes))
	}
	fw, tw := from.Elem.Bits(), to.Elem.Bits()
	fs, ts := from.Layout.Slots(), to.Layout.Slots()
	src, dst := from.Layout.Flat(), to.Layout.Flat()
	bits := make([]byte, (fs*fw+7)/8)
	for t := range from.Layout.Threads() {
		clear(bits)
		for s := range fs {
			dtype.Put(bits, fw, s, x.codes[src[t*fs+s]])
		}
		for s := range ts {
			e := dst[t*ts+s]
			out.codes[e] = dtype.Get(bits, tw, s)
			for b := s * tw; out.unset != nil && b < (s+1)*tw; b += 1 {
				out.unset[e] = out.unset[e] || x.unset[src[t*fs+b/fw]]
			}
		}
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

func cast(m *Machine, in *ir.Instr) error {
	to := in.Out[0].Type
	x, err := m.tile(in, 0)
	if err != nil {
		return err
	}
	out := &tile{elem: to.Elem, dims: x.dims, codes: make([]uint64, len(x.codes))}
	for k, c := range x.codes {
		out.codes[k] = dtype.Cast(to.Elem, x.elem, c)
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}
