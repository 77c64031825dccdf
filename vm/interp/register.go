package interp

import (
	"math"

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

// InitCode is the code of an init number in an element type, which can hold it: numbers
// that round beyond the largest one are that, infinities are themselves.
func InitCode(t dtype.Type, v float64) uint64 {
	if t.IsFloat() {
		return t.Encode(v, !math.IsInf(v, 0))
	}
	return t.EncodeInt(int64(v), true)
}

// view lays each thread's bits out, slot after slot and low bits first, and
// reads them again in the other type, each bit from where its placement says.
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
			if !to.HasPlace {
				out.codes[e] = dtype.Get(bits, tw, s)
			} else {
				out.codes[e] = 0
				for b := range tw {
					out.codes[e] |= dtype.Get(bits, 1, to.Place.At(s, b)) << b
				}
			}
			for b := 0; out.unset != nil && b < tw; b++ {
				out.unset[e] = out.unset[e] || x.unset[src[t*fs+to.BitOf(s, b)/fw]]
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
		if err := finite(in, x, k, out.elem, out.codes[k]); err != nil {
			return err
		}
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

// finite holds element k of a cast with domain=finite to its word.
func finite(in *ir.Instr, x *tile, k int, to dtype.Type, code uint64) error {
	if in.Attr("domain") == nil {
		return nil
	}
	off := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
	if v := x.elem.Decode(x.codes[k]); off(v) || off(to.Decode(code)) {
		return problem(in.Pos, "Run.E8", "leave domain=finite out, or keep such values away", "element %d of %s is %v, which is not finite in %s", k, in.In[0].Var().Name, v, to)
	}
	return nil
}

// castDeferred scales each row by the power of two of its recipe.
func castDeferred(m *Machine, in *ir.Instr) error {
	x, err := m.tile(in, 0)
	if err != nil {
		return err
	}
	to := in.Out[0].Type.Elem
	d, err := in.Deferral()
	if err != nil {
		panic("interp: a cast that breaks CastDeferred.C4")
	}
	rows, columns := x.dims[0], x.dims[1]
	v := &tile{elem: to, dims: x.dims, codes: make([]uint64, len(x.codes))}
	c := &tile{elem: dtype.F32, dims: []int{rows, 1}, codes: make([]uint64, rows)}
	for row, k := range d.Powers {
		c.codes[row] = dtype.F32.Encode(math.Ldexp(1, -k), false)
		for e := row * columns; e < (row+1)*columns; e++ {
			v.codes[e] = to.Encode(math.Ldexp(x.elem.Decode(x.codes[e]), k), false)
			if err := finite(in, x, e, to, v.codes[e]); err != nil {
				return err
			}
		}
	}
	m.set(in.Out[0], value{set: true, tile: v})
	m.set(in.Out[1], value{set: true, tile: c})
	return nil
}
