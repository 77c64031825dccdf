package sim

import (
	"encoding/binary"
	"fmt"
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

// This file holds the products of warpgroups. Each warp computes its 16 rows when it
// begins the product, from what its operands hold then; registers and bytes are in
// use until the group's wait, and whoever reads a register or writes a byte before is
// told. Which lane holds what is read from the catalogue, where an operand lies in
// shared memory from gpu/model/bank.

// groupPlan is one product ready to run.
type groupPlan struct {
	m, n, k  int
	a, b, d  dtype.Type
	regs     bool    // A lies in registers
	aAt, dAt []int32 // of (thread·slots + slot): element, row-major
	perA     int     // elements of a register of A
	perD     int
	floats   bool
	saturate bool
	value    [2][]float64 // of codes of A and B
}

var groupPlans sync.Map // code.Op → *groupPlan

func groupPlanOf(op code.Op) *groupPlan {
	if p, ok := groupPlans.Load(op); ok {
		return p.(*groupPlan)
	}
	atom, err := arch.FindAtom(op.String())
	if err != nil {
		panic("sim: " + err.Error())
	}
	a, _ := atom.Operand("A")
	b, _ := atom.Operand("B")
	d, _ := atom.Operand("D")
	p := &groupPlan{m: atom.M, n: atom.N, k: atom.K, a: a.Type, b: b.Type, d: d.Type, regs: strings.HasSuffix(op.String(), ".rs"), floats: a.Type.IsFloat(), saturate: strings.Contains(op.String(), ".satfinite"), dAt: d.Layout.Flat(), perD: 32 / d.Type.Bits(), perA: 32 / a.Type.Bits()}
	if p.regs {
		p.aAt = a.Layout.Flat()
	}
	for i, t := range []dtype.Type{p.a, p.b} {
		if t.Bits() > 16 {
			continue
		}
		p.value[i] = make([]float64, 1<<t.Bits())
		for c := range p.value[i] {
			p.value[i][c] = t.Decode(uint64(c))
		}
	}
	groupPlans.Store(op, p)
	return p
}

func (p *groupPlan) decode(which int, t dtype.Type, c uint64) float64 {
	if v := p.value[which]; v != nil {
		return v[c]
	}
	return t.Decode(c)
}

// flights is what a warp has begun with products.
type flights struct {
	fence  int64 // step of the last wgmma.fence, -1: none
	open   []*flight
	groups [][]*flight
	n      int // registers in use
}

// flight is one product on its way.
type flight struct {
	job   *job
	acc   []int32 // registers it writes
	reads []int32 // registers of A
	bytes []uint64
}

// group executes the rows of wgmma.
func (w *warp) group(i *inst) {
	f := &w.flights
	if w.partial() {
		return
	}
	if len(w.b.warps)%4 != 0 && w.id/4 == len(w.b.warps)/4 {
		w.fail(0, errPartial, "blocks with products have whole warpgroups of 128 threads", "warp %d is in no whole warpgroup", w.id)
		return
	}
	switch i.op {
	case code.OpWgmmaFence:
		f.fence = w.steps
	case code.OpWgmmaCommit:
		f.groups, f.open = append(f.groups, f.open), nil
	case code.OpWgmmaWait:
		for len(f.groups) > int(i.imm[0]) {
			for _, x := range f.groups[0] {
				w.landProduct(x)
			}
			f.groups = f.groups[1:]
		}
		for _, r := range i.more {
			if w.flying[r/lanes] != 0 {
				w.fail(0, errFlight, "commit the group, and wait with a smaller number", "registers that it gives back are still in use by a product")
				return
			}
		}
	default:
		w.product(i)
	}
}

func (w *warp) landProduct(x *flight) {
	for _, r := range x.acc {
		w.flying[r/lanes]--
	}
	for _, r := range x.reads {
		w.flying[r/lanes]--
	}
	w.flights.n -= len(x.acc) + len(x.reads)
	for _, at := range x.bytes {
		w.b.ledger.free(w, -1, at, 16)
	}
}

// busyRegister fails where an instruction reads or writes a register that a product
// in flight uses; products may share the registers of A.
func (w *warp) busyRegister(i *inst) bool {
	bad := func(r int32, what string) bool {
		if w.flying[r/lanes] == 0 {
			return false
		}
		pos, written := "before", false
		for _, g := range append(append([][]*flight(nil), w.flights.groups...), w.flights.open) {
			for _, x := range g {
				if slices.Contains(x.acc, r) {
					pos, written = x.job.pos.String(), true
				} else if slices.Contains(x.reads, r) {
					pos = x.job.pos.String()
				}
			}
		}
		if i.group != nil && what == "reads" && !written {
			return false
		}
		w.fail(0, errFlight, "wgmma.commit_group and wgmma.wait_group come between", "%s a register of the product at %s, which is still in flight", what, pos)
		return true
	}
	for k := range i.nin {
		if bad(i.in[k], "reads") {
			return true
		}
	}
	if i.guard >= 0 {
		for k := range i.nout {
			if bad(i.in[i.rest+int32(k)], "reads") {
				return true
			}
		}
	}
	for k := range i.nout {
		if bad(i.out[k], "writes") {
			return true
		}
	}
	return false
}

// sharedOperand is where an operand in shared memory lies.
type sharedOperand struct {
	c    bank.Canonical
	d    bank.Descriptor
	mode bank.TMAMode
	bits int
	t    dtype.Type
	// padded: 16 elements along k lie in 16 bytes, densely from their beginning.
	padded bool
}

func (w *warp) sharedOperand(what string, word uint64, mn bool, t dtype.Type) (*sharedOperand, bool) {
	d, err := bank.DecodeDescriptor(word, bank.SM90)
	if err != nil {
		w.fail(0, errProduct, "", "the descriptor %#x of %s: %v", word, what, err)
		return nil, false
	}
	o := &sharedOperand{d: d, bits: t.Bits(), t: t, c: bank.Canonical{Mode: d.Mode, Major: "K"}}
	if mn {
		o.c.Major = "MN"
	}
	if o.mode, err = bank.FindTMAMode(d.Mode); err != nil {
		w.fail(0, errProduct, "", "%s: %v", what, err)
		return nil, false
	}
	return o, true
}

// places is where rows and columns of the operand lie before the swizzle: element
// [mn, k] at the sum of both.
func (o *sharedOperand) places(first, rows, k int) (mn, along []int, err error) {
	mn, along = make([]int, rows), make([]int, k)
	for r := range mn {
		if mn[r], err = o.c.Plain(o.bits, o.d, first+r, 0); err != nil {
			return nil, nil, err
		}
	}
	for c := range along {
		bits := o.bits
		if o.padded {
			bits = 8
		}
		if along[c], err = o.c.Plain(bits, o.d, 0, c); err != nil {
			return nil, nil, err
		}
	}
	return mn, along, nil
}

// at is the offset of the byte at a sum of places. The machine swizzles the sum of it
// and the start address; the base offset says at which line the pattern begins (as an H200 has it).
func (o *sharedOperand) at(plain int) uint64 {
	shift := o.d.BaseOffset * 128
	return uint64(o.mode.Apply(o.d.Start+plain-shift)+shift) - sharedBase
}

// tile reads an operand of rows×k elements in the memory of a block, [row][k].
func (w *warp) tile(in *block, what string, o *sharedOperand, first, rows, k int, value func(uint64) float64, scale float64, x *flight) ([]float64, bool) {
	out := make([]float64, rows*k)
	data := in.shared.data
	mn, along, err := o.places(first, rows, k)
	if err != nil {
		w.fail(0, errProduct, "", "%s: %v", what, err)
		return nil, false
	}
	seen := make([]bool, len(data)/16+1)
	bytes := max(o.bits/8, 1)
	for r := range rows {
		for c := range k {
			at := o.at(mn[r] + along[c])
			if at >= uint64(len(data)) || at+uint64(bytes) > uint64(len(data)) {
				w.fail(0, errBounds, "", "%s: element [%d, %d] lies at shared offset %d of %d bytes", what, first+r, c, int64(at), len(data))
				return nil, false
			}
			if line := at &^ 15; !seen[line/16] {
				seen[line/16] = true
				if !w.touch(-1, in, line, 16, copyRead, false) {
					return nil, false
				}
				x.bytes = append(x.bytes, line)
			}
			var code uint64
			switch {
			case o.padded:
				unit, bit := at&^15, c%16*o.bits
				code = uint64(binary.LittleEndian.Uint16(data[unit+uint64(bit/8):])) >> (bit % 8) & (1<<o.bits - 1)
			case o.bits == 32:
				code = uint64(binary.LittleEndian.Uint32(data[at:]))
			case o.bits == 16:
				code = uint64(binary.LittleEndian.Uint16(data[at:]))
			case o.bits == 8:
				code = uint64(data[at])
			default:
				code = uint64(data[at]) >> (c * o.bits % 8) & (1<<o.bits - 1)
			}
			if o.t == dtype.TF32 {
				code &^= 1<<13 - 1
			}
			out[r*k+c] = scale * value(code)
		}
	}
	return out, true
}

// product begins a product.
func (w *warp) product(i *inst) {
	p := i.group
	f := &w.flights
	st := &w.b.stats
	st.Products++
	st.Flops += i.flops / 4
	w.products++
	if f.fence < 0 {
		w.fail(0, errProduct, "wgmma.fence behind the last write of accumulators and of A", "no wgmma.fence comes before the first product")
		return
	}
	nIn := 3
	if p.regs {
		nIn = 6
	}
	for _, r := range append(append([]int32(nil), i.more...), i.in[:nIn-2]...) {
		if (p.regs || r != i.in[0]) && w.wrote[r/lanes] > f.fence {
			w.fail(0, errProduct, "wgmma.fence behind the last write of accumulators and of A", "a register of the product was written, and no wgmma.fence lies between")
			return
		}
	}
	if p.regs {
		for _, r := range i.in[:4] {
			for _, a := range i.more {
				if r == a {
					panic("sim: a register of A is an accumulator")
				}
			}
		}
	}
	same := func(k int) (uint64, bool) {
		v := w.regs[i.in[k]]
		for l := range lanes {
			if w.regs[int(i.in[k])+l] != v {
				w.fail(l, errProduct, "", "input %d differs between the lanes of the warp", k)
				return 0, false
			}
		}
		return v, true
	}
	descB, ok := same(nIn - 2)
	if !ok {
		return
	}
	scaleD, ok := same(nIn - 1)
	if !ok {
		return
	}
	var descA uint64
	if !p.regs {
		if descA, ok = same(0); !ok {
			return
		}
	}
	// All four warps issue the same products in the same order.
	list := &w.b.issued[w.id/4]
	h := uint64(w.pc)*0x9e3779b97f4a7c15 ^ descB*0xbf58476d1ce4e5b9 ^ descA*0x94d049bb133111eb ^ scaleD
	if w.products <= len(*list) {
		if (*list)[w.products-1] != h {
			w.fail(0, errProduct, "all four warps of a warpgroup issue the same products with the same descriptors", "warps of the warpgroup issue different products, or other descriptors")
			return
		}
	} else {
		*list = append(*list, h)
	}
	signA, signB, mnA, mnB := 1.0, 1.0, false, false
	if p.floats {
		signA, signB = float64(i.imm[0]), float64(i.imm[1])
	}
	if p.a.Bits() == 16 {
		mnB = i.imm[len(i.imm)-1] == 1
		mnA = !p.regs && i.imm[2] == 1
	}
	x := &flight{acc: i.more, job: &job{w: w, pos: i.pos, op: i.op}}
	first := w.id % 4 * 16
	var a []float64
	if p.regs {
		x.reads = append(x.reads, i.in[:4]...)
		a = make([]float64, 16*p.k)
		slots := 4 * p.perA
		bits := p.a.Bits()
		for l := range lanes {
			for s := range slots {
				c := w.regs[int(i.in[s/p.perA])+l] >> (s % p.perA * bits) & (1<<bits - 1)
				if p.a == dtype.TF32 {
					c &^= 1<<13 - 1
				}
				a[int(p.aAt[(w.id%4*lanes+l)*slots+s])-first*p.k] = signA * p.decode(0, p.a, c)
			}
		}
	} else {
		o, ok := w.sharedOperand("A", descA, mnA, p.a)
		if !ok {
			return
		}
		if a, ok = w.tile(w.b, "A", o, first, 16, p.k, func(c uint64) float64 { return p.decode(0, p.a, c) }, signA, x); !ok {
			return
		}
	}
	o, ok := w.sharedOperand("B", descB, mnB, p.b)
	if !ok {
		return
	}
	b, ok := w.tile(w.b, "B", o, 0, p.n, p.k, func(c uint64) float64 { return p.decode(1, p.b, c) }, signB, x)
	if !ok {
		return
	}
	slots := len(i.more) * p.perD
	bits := p.d.Bits()
	for l := range lanes {
		for s := range slots {
			r := &w.regs[int(i.more[s/p.perD])+l]
			shift := s % p.perD * bits
			var c uint64
			if scaleD != 0 {
				c = *r >> shift & (1<<bits - 1)
			}
			at := int(p.dAt[(w.id%4*lanes+l)*slots+s]) - first*p.n
			c = p.step(c, a[at/p.n*p.k:][:p.k], b[at%p.n*p.k:][:p.k])
			*r = *r&^((1<<bits-1)<<shift) | c<<shift
		}
	}
	for _, r := range append(append([]int32(nil), x.acc...), x.reads...) {
		w.flying[r/lanes]++
		f.n++
	}
	for _, at := range x.bytes {
		w.b.ledger.hold(x.job, at, 16)
	}
	f.open = append(f.open, x)
}

// step is c plus the products of a row and a column.
func (p *groupPlan) step(c uint64, a, b []float64) uint64 {
	if p.floats {
		return interp.DotStep(p.d, c, a, b)
	}
	s := int64(int32(uint32(c)))
	for k := range a {
		s += int64(a[k] * b[k])
	}
	if p.saturate {
		s = min(max(s, math.MinInt32), math.MaxInt32)
	}
	return uint64(uint32(s))
}

// String names a flight for messages.
func (x *flight) String() string { return fmt.Sprintf("%s at %s", x.job.op, x.job.pos) }
