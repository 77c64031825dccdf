package sim

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
)

// This file holds the matrix instructions. Which lane holds which element is read
// from the catalogue of gpu/arch; nothing here knows a fragment. D = A·B + C is,
// for floats up to 32 bits, what the interpreter's [interp.DotStep] says: the exact
// sum of all products and the start value, rounded once. The hardware may round
// intermediate sums; where every partial sum is exact both give the same bits. f64
// is a chain of fused multiply-adds along K. Integers are exact, and wrap or
// saturate at the end; one-bit products count the bits of xor or and.

// matrixPlan is one matrix instruction ready to run.
type matrixPlan struct {
	blocks, m, n, k int
	a, b, c, d, e   fragment
	sum             func(c uint64, a, b []float64) uint64 // nil: interp.DotStep
	sparse          bool
	group, kept     int // of A's row: kept elements of each group are stored …
	unit            int // … in runs of this many
}

// fragment says where an operand's elements lie.
type fragment struct {
	t     dtype.Type
	first int // index in inst.in or inst.out
	width int // bits of a register
	slots int
	at    []int32 // element of (lane·slots + slot), as a place in the plan's arrays
	pick  []uint8 // for metadata: the selector with which the lane's register is read
	value []float64
}

var matrixPlans sync.Map // code.Op → *matrixPlan

func planOf(op code.Op) *matrixPlan {
	if p, ok := matrixPlans.Load(op); ok {
		return p.(*matrixPlan)
	}
	p := newPlan(op)
	matrixPlans.Store(op, p)
	return p
}

func newPlan(op code.Op) *matrixPlan {
	atom, err := arch.FindAtom(op.String())
	if err != nil {
		panic("sim: " + err.Error())
	}
	p := &matrixPlan{blocks: atom.Blocks, m: atom.M, n: atom.N, k: atom.K, sparse: atom.Sparse()}
	row := op.Row()
	next := 0
	load := func(name string) fragment {
		o, ok := atom.Operand(name)
		if !ok {
			return fragment{}
		}
		f := fragment{t: o.Type, first: next, slots: o.Layout.Slots(), at: o.Layout.Flat()}
		f.width = row.In[min(next, len(row.In)-1)].Bits()
		if name == "D" {
			f.first, f.width = 0, row.Out[0].Bits()
		} else {
			next += max(f.slots*f.t.Bits()/f.width, 1)
		}
		if f.t.Bits() <= 16 {
			f.value = make([]float64, 1<<f.t.Bits())
			for c := range f.value {
				f.value[c] = f.t.Decode(uint64(c))
			}
		}
		if name == "B" { // columns are summed along: keep them together
			f.at = slices.Clone(f.at)
			for i, at := range f.at {
				block, rest := int(at)/(p.k*p.n), int(at)%(p.k*p.n)
				f.at[i] = int32(block*p.k*p.n + rest%p.n*p.k + rest/p.n)
			}
		}
		if name == "E" {
			f.pick = make([]uint8, arch.LanesPerWarp)
			for lane := range f.pick {
				for k, h := range o.Layout.Holders(o.Layout.Index(lane, 0)...) {
					if h.Thread == lane {
						f.pick[lane] = uint8(k)
					}
				}
			}
		}
		return f
	}
	p.a, p.b, p.c, p.e, p.d = load("A"), load("B"), load("C"), load("E"), load("D")
	p.group, p.kept, p.unit = 4, 2, 1
	switch {
	case p.a.t == dtype.TF32:
		p.group, p.kept = 2, 1
	case p.a.t.Bits() == 4:
		p.group, p.kept, p.unit = 8, 4, 2
	}
	saturate := strings.HasSuffix(op.String(), ".satfinite")
	switch {
	case p.a.t == dtype.U1 && strings.HasSuffix(op.String(), ".xor.popc"):
		p.sum = func(c uint64, a, b []float64) uint64 {
			n := c
			for k := range a {
				if a[k] != b[k] {
					n++
				}
			}
			return n & math.MaxUint32
		}
	case !p.a.t.IsFloat():
		p.sum = func(c uint64, a, b []float64) uint64 {
			s := int64(int32(uint32(c)))
			for k := range a {
				s += int64(a[k] * b[k])
			}
			if saturate {
				s = min(max(s, math.MinInt32), math.MaxInt32)
			}
			return uint64(uint32(s))
		}
	case p.a.t == dtype.F64:
		p.sum = func(c uint64, a, b []float64) uint64 {
			s := math.Float64frombits(c)
			for k := range a {
				s = math.FMA(a[k], b[k], s)
			}
			return math.Float64bits(s)
		}
	case p.c.t != p.d.t:
		p.sum = func(c uint64, a, b []float64) uint64 {
			return interp.DotStep(p.d.t, dtype.Cast(p.d.t, p.c.t, c), a, b)
		}
	}
	return p
}

// codes gathers the codes of the elements that the lanes hold of an operand.
func (f *fragment) codes(w *warp, regs []int32, out []uint64) {
	n := f.t.Bits()
	per := f.width / n
	mask := f.t.Mask()
	for slot := range f.slots {
		r, shift := int(regs[f.first+slot/per]), slot%per*n
		for l, v := range w.regs[r : r+lanes] {
			out[f.at[l*f.slots+slot]] = v >> shift & mask
		}
	}
}

// values is the same as numbers.
func (f *fragment) values(w *warp, regs []int32, out []float64) {
	n := f.t.Bits()
	per := f.width / n
	mask := f.t.Mask()
	for slot := range f.slots {
		r, shift := int(regs[f.first+slot/per]), slot%per*n
		if f.value == nil {
			for l, v := range w.regs[r : r+lanes] {
				out[f.at[l*f.slots+slot]] = f.t.Decode(v >> shift & mask)
			}
			continue
		}
		for l, v := range w.regs[r : r+lanes] {
			out[f.at[l*f.slots+slot]] = f.value[v>>shift&mask]
		}
	}
}

// matrix executes a warp-wide product.
func (w *warp) matrix(i *inst) {
	p := i.plan
	s := &w.b.scratch
	cells := p.blocks * p.m * p.n
	s.need(p.blocks*p.m*p.k, p.blocks*p.k*p.n, cells)
	a, b, c := s.a[:p.blocks*p.m*p.k], s.b[:p.blocks*p.k*p.n], s.c[:cells]
	p.a.values(w, i.in[:], a)
	var place []int32 // of a sparse A's elements in their rows
	var met []float64 // what they meet of a column of B
	k := p.k
	if p.sparse {
		k, place = p.k/2, w.places(i)
		met = make([]float64, k)
	}
	p.b.values(w, i.in[:], b)
	p.c.codes(w, i.in[:], c)
	plain := p.sum == nil
	for row := range p.blocks * p.m {
		x := a[row*k : (row+1)*k]
		columns := b[row/p.m*p.n*p.k:]
		for col := range p.n {
			y := columns[col*p.k : (col+1)*p.k]
			if p.sparse {
				for j, at := range place[row*k : (row+1)*k] {
					met[j] = y[at]
				}
				y = met
			}
			z := &c[row*p.n+col]
			if plain {
				*z = interp.DotStep(p.d.t, *z, x, y)
			} else {
				*z = p.sum(*z, x, y)
			}
		}
	}
	n := p.d.t.Bits()
	per := p.d.width / n
	for slot := 0; slot < p.d.slots; slot += per {
		r := int(i.out[slot/per])
		for l := range w.regs[r : r+lanes] {
			var v uint64
			for h, at := range p.d.at[l*p.d.slots+slot : l*p.d.slots+slot+per] {
				v |= c[at] << (h * n)
			}
			w.regs[r+l] = v
		}
	}
}

// places says where in its row of K the metadata puts each element that a sparse A
// stores. Elements that A does not store take no part: an infinity that they would
// meet in B does not show.
func (w *warp) places(i *inst) []int32 {
	p := i.plan
	half := p.k / 2
	out := make([]int32, p.m*half)
	entries := half / p.unit // of a row
	at := make([]uint8, p.m*entries)
	n := p.e.t.Bits()
	for l := range lanes {
		if int64(p.e.pick[l]) != i.imm[0] {
			continue
		}
		v := w.regs[int(i.in[p.e.first])+l]
		for slot := range p.e.slots {
			at[p.e.at[l*p.e.slots+slot]] = uint8(v >> (slot * n) & p.e.t.Mask())
		}
	}
	per := p.kept / p.unit // entries of a group
	for row := range p.m {
		for e := range entries {
			place := int(at[row*entries+e])
			if n == 4 { // one of two: 4 and 14
				place = place >> 3
			}
			for u := range p.unit {
				out[row*half+e*p.unit+u] = int32(e/per*p.group + place*p.unit + u)
			}
		}
	}
	return out
}

// matrixScratch is the space that matrix instructions of a block work in.
type matrixScratch struct {
	a, b []float64
	c    []uint64
}

func (s *matrixScratch) need(a, b, c int) {
	if len(s.a) < a {
		s.a = make([]float64, a)
	}
	if len(s.b) < b {
		s.b = make([]float64, b)
	}
	if len(s.c) < c {
		s.c = make([]uint64, c)
	}
}

// copyPlan is ldmatrix or stmatrix: which half of which row each lane has in each
// half register.
type copyPlan struct {
	rows int
	row  []uint8 // of (lane·slots + slot)
	col  []uint8
	n    int // slots
}

var copyPlans sync.Map // code.Op → *copyPlan

func copyPlanOf(op code.Op) *copyPlan {
	if p, ok := copyPlans.Load(op); ok {
		return p.(*copyPlan)
	}
	atom, err := arch.FindAtom(op.String())
	if err != nil {
		panic("sim: " + err.Error())
	}
	o, _ := atom.Operand("D")
	if o.In == arch.InShared {
		o, _ = atom.Operand("S")
	}
	p := &copyPlan{rows: o.Shape[0], n: o.Layout.Slots()}
	for lane := range lanes {
		for slot := range p.n {
			at := o.Layout.Index(lane, slot)
			p.row, p.col = append(p.row, uint8(at[0])), append(p.col, uint8(at[1]))
		}
	}
	copyPlans.Store(op, p)
	return p
}

// matrixMemory executes ldmatrix and stmatrix: lane l gives the address of row l.
func (w *warp) matrixMemory(i *inst) {
	if w.partial() {
		return
	}
	p := copyPlanOf(i.op)
	st := &w.b.stats
	if i.row.Class == code.Load {
		st.SharedLoads++
	} else {
		st.SharedStores++
	}
	st.SharedBytes += int64(16 * p.rows)
	var rows [lanes][]byte
	var addr [lanes]uint64
	for l := range p.rows {
		addr[l] = uint64(uint32(w.regs[int(i.in[0])+l] + uint64(i.imm[0])))
	}
	kind := bank.StMatrix
	if i.row.Class == code.Load {
		kind = bank.LdMatrix
	}
	w.countBanks(i, kind, 16, uint32(1<<p.rows-1), &addr)
	for l := range p.rows {
		if rows[l] = w.access(i, l, addr[l], 16); rows[l] == nil {
			return
		}
	}
	for l := range lanes {
		for slot := range p.n {
			at := rows[p.row[l*p.n+slot]][2*p.col[l*p.n+slot]:]
			if i.row.Class == code.Load {
				r := &w.regs[int(i.out[slot/2])+l]
				if slot%2 == 0 {
					*r = 0
				}
				*r |= uint64(binary.LittleEndian.Uint16(at)) << (16 * (slot % 2))
			} else {
				binary.LittleEndian.PutUint16(at, uint16(w.regs[int(i.in[1+slot/2])+l]>>(16*(slot%2))))
			}
		}
	}
}

// transpose executes movmatrix: as [arch.Atom] says, D holds the elements of S.
func (w *warp) transpose(i *inst) {
	atom, err := arch.FindAtom(i.op.String())
	if err != nil {
		panic("sim: " + err.Error())
	}
	s, _ := atom.Operand("S")
	d, _ := atom.Operand("D")
	var in [lanes]uint64
	copy(in[:], w.regs[i.in[0]:])
	for l := range lanes {
		var v uint64
		for slot := range 2 {
			h := s.Layout.Holders(d.Layout.Index(l, slot)...)[0]
			v |= in[h.Thread] >> (16 * h.Slot) & 0xffff << (16 * slot)
		}
		w.regs[int(i.out[0])+l] = v
	}
}
