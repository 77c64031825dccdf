package follow

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// family is how the elements of an instruction's results come from those of its operands.
type family int

const (
	unknown     family = iota
	fromMemory         // a register tensor of a part of memory
	toMemory           // a part of memory of a register tensor
	memoryCopy         // between global and shared memory
	bits               // View
	elementwise        // with broadcast
	movement           // ir.MovedFrom says
	reduction          // over dimensions
	product            // rows by columns
	source             // of nothing: constants, indices
	nothing            // moves no element
)

func familyOf(in *ir.Instr) family {
	switch in.Op.Name {
	case "LoadGlobal", "LoadShared", "TakeGlobal":
		return fromMemory
	case "StoreGlobal", "StoreShared", "PutGlobal":
		return toMemory
	case "CopyAsync", "CopyAsyncTensorGlobalToShared", "CopyAsyncBulkGlobalToShared", "CopyAsyncTensorSharedToGlobal", "CopyAsyncBulkSharedToGlobal":
		return memoryCopy
	case "View":
		return bits
	case "Cast", "CastDeferred":
		return elementwise
	case "Assign", "ConvertLayout", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Repeat", "RepeatInterleave", "SliceRegister", "SliceAssign", "ShuffleUp", "ShuffleDown":
		return movement
	case "Reduce":
		return reduction
	case "Dot", "WgmmaDot":
		return product
	case "AllocateRegister", "Indices", "Random":
		return source
	}
	switch {
	case in.Op.Class == ir.ClassElementwise:
		return elementwise
	case len(in.Out) == 0 && in.Op.Effects&(ir.WritesGlobal|ir.WritesShared) == 0:
		return nothing
	}
	return unknown
}

// known says that what the instruction does with elements is followed.
func (e *event) known() bool { return familyOf(e.in) != unknown }

// tile is the register tensor of an instruction that loads or stores, the result of others.
func (e *event) tile() *ir.Var {
	if familyOf(e.in) == toMemory {
		return operand(e.in, 1)
	}
	if len(e.in.Out) > 0 {
		return e.in.Out[0]
	}
	if e.in.Op.Name == "WgmmaDot" {
		return operand(e.in, 2)
	}
	return nil
}

// lay works out where the elements of a memory instruction lie.
func (e *event) lay() bool {
	if e.cells != nil {
		return true
	}
	w := e.views[0]
	if w == nil {
		return false
	}
	var shape []int
	if f := familyOf(e.in); f == memoryCopy {
		s := e.views[1]
		if s == nil {
			return false
		}
		shape = s.dims
	} else {
		shape, _ = e.tile().Type.Dims()
	}
	size := 1
	for _, n := range shape {
		size *= n
	}
	dims := e.in.Dims(len(w.dims), len(shape))
	index := make([]int, len(w.dims))
	e.cells = make([]int32, size)
	e.tiles = make(map[int]int32, size)
	for k := range size {
		at := unflat(shape, k)
		if len(at) > 0 && at[0] >= e.taken {
			e.cells[k] = -1
			continue
		}
		clear(index)
		copy(index, e.offset)
		for i, d := range dims {
			index[d] += at[i]
		}
		x := w.offset(index)
		e.cells[k] = int32(x)
		if _, ok := e.tiles[x]; x >= 0 && !ok {
			e.tiles[x] = int32(k)
		}
		if s := e.views[1]; familyOf(e.in) == memoryCopy {
			e.other = append(e.other, int32(s.offset(at)))
		}
	}
	return true
}

// toGlobal says that a copy goes from shared to global memory.
func (e *event) toGlobal() bool { return e.in.Op.Effects&ir.WritesGlobal != 0 }

// sides are the memory that a copy reads and writes.
func (e *event) sides() (from, to *view) {
	if e.toGlobal() {
		return e.views[1], e.views[0]
	}
	return e.views[0], e.views[1]
}

// copied is the element of a copy that lies at a place of one of its sides, -1 for none.
func (e *event) copied(p place, w *view) int {
	if w == nil || p.mem != w.mem || !e.lay() {
		return -1
	}
	if w == e.views[0] {
		if k, ok := e.tiles[p.at]; ok {
			return int(k)
		}
		return -1
	}
	return slices.Index(e.other, int32(p.at))
}

// reads says that the instruction has the element, or all of its tensor, as an operand.
func (e *event) reads(p place) bool {
	switch f := familyOf(e.in); {
	case p.v != nil:
		for _, o := range e.in.In {
			if o.Var() == p.v {
				return true
			}
		}
		return false
	case f == fromMemory:
		if e.views[0] == nil || e.views[0].mem != p.mem || !e.lay() {
			return false
		}
		_, ok := e.tiles[p.at]
		return ok
	case f == memoryCopy:
		from, _ := e.sides()
		return e.copied(p, from) >= 0
	case f == product:
		for i := range 2 {
			if _, ok := e.factor(i, p); ok {
				return true
			}
		}
	case f == unknown:
		for _, w := range e.views {
			if w != nil && w.mem == p.mem && e.in.Op.Class != ir.ClassView && e.in.Op.Effects&(ir.ReadsGlobal|ir.ReadsShared) != 0 {
				return true
			}
		}
	}
	return false
}

// writes says that the instruction gives the place a new value.
func (e *event) writes(p place) bool {
	switch f := familyOf(e.in); {
	case p.v != nil:
		return slices.Contains(e.in.Out, p.v) || e.in.Op.Name == "WgmmaDot" && e.tile() == p.v
	case f == toMemory, e.in.Op.Name == "TakeGlobal": // who takes leaves a 0
		if e.views[0] == nil || e.views[0].mem != p.mem || !e.lay() {
			return false
		}
		_, ok := e.tiles[p.at]
		return ok
	case f == memoryCopy:
		_, to := e.sides()
		return e.copied(p, to) >= 0
	}
	return false
}

// from lists what the element that the instruction writes to a place comes from, the
// one that matters most first.
func (e *event) from(p place) (list []place) {
	in := e.in
	switch familyOf(in) {
	case fromMemory:
		if p.v != nil && e.lay() && e.cells[p.at] >= 0 {
			list = append(list, place{mem: e.views[0].mem, at: int(e.cells[p.at])})
		}
	case toMemory:
		if e.lay() {
			if k, ok := e.tiles[p.at]; ok {
				list = append(list, place{v: e.tile(), at: int(k)})
			}
		}
	case memoryCopy:
		from, to := e.sides()
		if k := e.copied(p, to); k >= 0 {
			at := e.cells[k]
			if from == e.views[1] {
				at = e.other[k]
			}
			if at >= 0 {
				list = append(list, place{mem: from.mem, at: int(at)})
			}
		}
	case bits:
		x := operand(in, 0)
		from, to := x.Type, in.Out[0].Type
		h := to.Layout.Holders(unflat(to.Layout.Shape(), p.at)...)[0]
		fw := from.Elem.Bits()
		for b := range to.Elem.Bits() {
			q := place{v: x, at: from.Layout.FlatIndex(h.Thread, to.BitOf(h.Slot, b)/fw)}
			if !slices.Contains(list, q) {
				list = append(list, q)
			}
		}
	case elementwise:
		dims, _ := in.Out[0].Type.Dims()
		index := unflat(dims, p.at)
		for i := range in.In {
			v := operand(in, i)
			if v == nil || !v.Type.IsRegister() {
				continue
			}
			if in.Op.Name == "CastDeferred" && p.v != in.Out[0] {
				continue
			}
			have, _ := v.Type.Dims()
			list = append(list, place{v: v, at: ir.BroadcastIndex(have, index)})
		}
	case movement:
		if m := e.movedFrom(); m != nil && p.at < len(m) {
			at := int(m[p.at])
			for i := range in.In {
				v := operand(in, i)
				if n := v.Type.Layout.Size(); at >= n {
					at -= n
					continue
				}
				return []place{{v: v, at: at}}
			}
		}
	case reduction:
		x := operand(in, 0)
		dims, _ := x.Type.Dims()
		for k := range x.Type.Layout.Size() {
			if e.reduced(unflat(dims, k)) == p.at {
				list = append(list, place{v: x, at: k})
			}
		}
	case product:
		dims, _ := e.tile().Type.Dims()
		at, last := unflat(dims, p.at), len(dims)-1
		for i := range 2 {
			depth, _ := operand(in, i).Type.Dims()
			for k := range depth[last-i] {
				index := slices.Clone(at) // of several products, the same one
				index[last-i] = k
				if q, ok := e.operandAt(i, index); ok {
					list = append(list, q)
				}
			}
		}
		if c := operand(in, 2); c != nil {
			list = append(list, place{v: c, at: p.at})
		}
	}
	return list
}

// operandAt is where an element of operand i of a product lies.
func (e *event) operandAt(i int, index []int) (place, bool) {
	v := operand(e.in, i)
	if v.Type.IsRegister() {
		dims, _ := v.Type.Dims()
		return place{v: v, at: flat(dims, index)}, true
	}
	w := e.views[i]
	if w == nil {
		return place{}, false
	}
	at := w.offset(index)
	return place{mem: w.mem, at: at}, at >= 0
}

// factor is the index in operand i of a product that a place is.
func (e *event) factor(i int, p place) ([]int, bool) {
	v := operand(e.in, i)
	dims, _ := v.Type.Dims()
	if v.Type.IsRegister() {
		if p.v != v {
			return nil, false
		}
		return unflat(dims, p.at), true
	}
	w := e.views[i]
	if w == nil || w.mem != p.mem {
		return nil, false
	}
	for k := range dims[0] * dims[1] {
		if index := unflat(dims, k); w.offset(index) == p.at {
			return index, true
		}
	}
	return nil, false
}

// reduced is the element of the result of a Reduce that an element goes into.
func (e *event) reduced(index []int) int {
	over := e.in.ReducedDims()
	out, _ := e.in.Out[0].Type.Dims()
	var kept []int
	for d, x := range index {
		switch {
		case !slices.Contains(over, d):
			kept = append(kept, x)
		case len(out) == len(index):
			kept = append(kept, 0)
		}
	}
	if len(kept) != len(out) {
		return 0
	}
	return flat(out, kept)
}

func (e *event) movedFrom() []int32 {
	if e.moved == nil {
		e.moved = ir.MovedFrom(e.in, e.offset)
	}
	return e.moved
}

// to lists where the instruction brings the element at a place.
func (e *event) to(p place) (list []place) {
	if !e.reads(p) {
		return nil
	}
	in := e.in
	switch familyOf(in) {
	case fromMemory:
		list = append(list, place{v: in.Out[0], at: int(e.tiles[p.at])})
	case toMemory:
		if p.v == e.tile() && e.lay() && e.cells[p.at] >= 0 {
			list = append(list, place{mem: e.views[0].mem, at: int(e.cells[p.at])})
		}
	case memoryCopy:
		from, to := e.sides()
		k := e.copied(p, from)
		at := e.other[k]
		if to == e.views[0] {
			at = e.cells[k]
		}
		if at >= 0 {
			list = append(list, place{mem: to.mem, at: int(at)})
		}
	case bits:
		x, out := operand(in, 0), in.Out[0]
		h := x.Type.Layout.Holders(unflat(x.Type.Layout.Shape(), p.at)...)[0]
		fw := x.Type.Elem.Bits()
		for s := range out.Type.Layout.Slots() {
			for b := range out.Type.Elem.Bits() {
				if out.Type.BitOf(s, b)/fw == h.Slot {
					list = append(list, place{v: out, at: out.Type.Layout.FlatIndex(h.Thread, s)})
					break
				}
			}
		}
	case elementwise:
		out := in.Out[0]
		dims, _ := out.Type.Dims()
		have, _ := p.v.Type.Dims()
		if slices.Equal(dims, have) {
			return []place{{v: out, at: p.at}}
		}
		for k := range out.Type.Layout.Size() {
			if ir.BroadcastIndex(have, unflat(dims, k)) == p.at {
				list = append(list, place{v: out, at: k})
			}
		}
	case movement:
		before := 0
		for i := range in.In {
			v := operand(in, i)
			if v == p.v {
				for k, from := range e.movedFrom() {
					if int(from) == before+p.at {
						list = append(list, place{v: in.Out[0], at: k})
					}
				}
			}
			before += v.Type.Layout.Size()
		}
	case reduction:
		dims, _ := p.v.Type.Dims()
		list = append(list, place{v: in.Out[0], at: e.reduced(unflat(dims, p.at))})
	case product:
		out := e.tile()
		dims, _ := out.Type.Dims()
		if operand(in, 2) == p.v && p.v != nil {
			return []place{{v: out, at: p.at}}
		}
		last := len(dims) - 1
		for i := range 2 {
			at, ok := e.factor(i, p)
			if !ok {
				continue
			}
			for x := range dims[last-i] {
				at[last-i] = x
				list = append(list, place{v: out, at: flat(dims, at)})
			}
			return list
		}
	}
	return list
}
