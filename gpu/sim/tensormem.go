package sim

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds tcgen05: tensor memory, and products that lie there. It follows the
// PTX manual and has not been compared with hardware. Products and commits end in the order in which they began; a commit
// tells a barrier, and only who has waited there may use what they wrote, or write
// what they read. That loads of tensor memory come before later products that
// overwrite it is not followed.

// Tensor memory of a block.
const (
	tensorLanes   = 128
	tensorColumns = 512
)

type tensorMemory struct {
	cells    []tensorCell // [lane][column]
	taken    [tensorColumns]int
	from     map[int]diag.Pos // where columns were taken
	pipe     []*job
	open     []*tensorWork // since the last commit
	released bool
}

type tensorCell struct {
	v      uint32
	set    bool
	job    *job   // the product that writes it and has not been told to have ended
	writer reader // the component and phase of the barrier that told
	store  *warp  // who stores it and has not waited
}

// tensorWork is a product or copy on its way: the words it writes and the bytes it
// reads, by block.
type tensorWork struct {
	job   *job
	parts []tensorPart
}

type tensorPart struct {
	b     *block
	t     *tensorMemory
	cells []int
	bytes []uint64
}

// tensorMemory is that of a block.
func (b *block) tensorMemory() *tensorMemory {
	if b.tensor == nil {
		b.tensor = &tensorMemory{cells: make([]tensorCell, tensorLanes*tensorColumns), from: map[int]diag.Pos{}}
	}
	return b.tensor
}

// left says what a block has not given back.
func (t *tensorMemory) left(b *block) *diag.Problem {
	for col := range tensorColumns {
		pos, ok := t.from[col]
		if !ok {
			continue
		}
		return &diag.Problem{Pos: pos, Code: errProduct, Help: "tcgen05.dealloc before the block ends", Msg: fmt.Sprintf("block (%d, %d, %d) has ended with the columns of tensor memory from %d on", b.ctaid[0], b.ctaid[1], b.ctaid[2], col)}
	}
	return nil
}

// tensorCore executes tcgen05, and reports whether the warp waits.
func (w *warp) tensorCore(i *inst) (waits bool) {
	b := w.b
	t := b.tensorMemory()
	name, pair := strings.CutSuffix(strings.TrimPrefix(i.row.Name, "tcgen05."), ".cta2")
	if i.class != code.Proxy && !strings.HasPrefix(name, "fence::") && w.partial() {
		return false
	}
	switch {
	case name == "alloc":
		return w.takeColumns(i, t)
	case name == "dealloc":
		col, n := int(w.in32(i, 0, 0)), int(w.in32(i, 1, 0))
		if _, ok := t.from[col]; !ok || t.taken[col] != n {
			w.fail(0, errProduct, "", "%d columns from %d on were not taken like that", n, col)
			return false
		}
		delete(t.from, col)
		clear(t.taken[col : col+n])
	case name == "relinquish_alloc_permit":
		t.released = true
	case strings.HasPrefix(name, "fence::"):
	case name == "wait::st":
		for k := range t.cells {
			if t.cells[k].store == w {
				t.cells[k].store = nil
			}
		}
	case name == "wait::ld":
		for _, r := range w.loads {
			w.flying[r/lanes]--
		}
		w.flights.n -= len(w.loads)
		w.loads = w.loads[:0]
	case strings.HasPrefix(name, "ld."), strings.HasPrefix(name, "st."):
		w.tensorMove(i, t, strings.HasPrefix(name, "ld."))
	case name == "commit", name == "commit.multicast":
		for m := w.mask; m != 0 && b.err == nil; m &= m - 1 {
			w.tensorCommit(i, t, bits.TrailingZeros32(m))
		}
	case strings.HasPrefix(name, "mma."):
		for m := w.mask; m != 0 && b.err == nil; m &= m - 1 {
			w.tensorProduct(i, t, bits.TrailingZeros32(m), name, pair)
		}
	case name == "shift.down":
		for m := w.mask; m != 0 && b.err == nil; m &= m - 1 {
			w.shiftLanes(i, t, bits.TrailingZeros32(m))
		}
	case strings.HasPrefix(name, "cp."):
		for m := w.mask; m != 0 && b.err == nil; m &= m - 1 {
			w.copyColumns(i, t, bits.TrailingZeros32(m), name)
		}
	default:
		w.fail(-1, errProduct, "", "%s is not simulated", i.op)
	}
	return false
}

func (w *warp) takeColumns(i *inst, t *tensorMemory) (waits bool) {
	n := int(w.in32(i, 1, 0))
	if n < 32 || n > tensorColumns || n&(n-1) != 0 {
		w.fail(0, errProduct, "", "%d columns; there must be a power of two from 32 to %d", n, tensorColumns)
		return false
	}
	if t.released {
		w.fail(0, errProduct, "", "the block has said that it takes no more tensor memory")
		return false
	}
	for col := 0; col+n <= tensorColumns; col += n {
		if slices.ContainsFunc(t.taken[col:col+n], func(x int) bool { return x != 0 }) {
			continue
		}
		b, at, ok := w.resolve(0, w.in32(i, 0, 0)+uint64(i.imm[0]))
		if !ok || !w.inside(0, b, at, 4) || !w.touch(-1, b, at, 4, plainWrite, false) {
			return false
		}
		binary.LittleEndian.PutUint32(b.shared.data[at:], uint32(col))
		for k := range n {
			t.taken[col+k] = n
		}
		t.from[col] = i.pos
		return false
	}
	w.waits = true
	return true
}

// cell is the place of a lane and column that must be taken.
func (w *warp) cell(t *tensorMemory, lane, col int) int {
	if lane < 0 || lane >= tensorLanes || col < 0 || col >= tensorColumns || t.taken[col] == 0 {
		w.fail(-1, errBounds, "", "lane %d, column %d of tensor memory, which the block has not taken", lane, col)
		return -1
	}
	return lane*tensorColumns + col
}

// tensorMove executes loads and stores: registers by the layout of the catalogue.
func (w *warp) tensorMove(i *inst, t *tensorMemory, load bool) {
	atom, err := arch.FindAtom(i.row.Name)
	if err != nil {
		panic("sim: " + err.Error())
	}
	o, _ := atom.Operand(map[bool]string{true: "D", false: "S"}[load])
	addr := w.in32(i, 0, 0)
	first, col := int(addr>>16), int(addr&0xffff)
	if quarter := w.id % 4 * 32; first < quarter || first+o.Shape[0] > quarter+32 {
		w.fail(0, errBounds, "", "lanes %d to %d of tensor memory; warp %d reaches %d to %d", first, first+o.Shape[0]-1, w.id, quarter, quarter+31)
		return
	}
	for l := range lanes {
		for s, r := range i.more {
			at := o.Layout.Index(l, s)
			k := w.cell(t, first+at[0], col+at[1])
			if k < 0 {
				return
			}
			c := &t.cells[k]
			if c.job != nil {
				w.fail(l, errAsync, "tcgen05.commit at a barrier, and wait for its phase", "%s begun at %s may still write lane %d, column %d of tensor memory", c.job.op, c.job.pos, first+at[0], col+at[1])
				return
			}
			if !w.past(c.writer, l) && !w.b.m.opt.Fast {
				w.fail(l, errAsync, "wait for that phase of the barrier", "lane %d, column %d of tensor memory was written by %s, for which this thread has not waited", first+at[0], col+at[1], w.b.cl.who(c.writer))
				return
			}
			if !load {
				c.v, c.set, c.store, c.writer = uint32(w.regs[int(r)+l]), true, w, reader{}
				continue
			}
			if !c.set {
				w.fail(l, errUnset, setFirst, "read of lane %d, column %d of tensor memory before anything was written there", first+at[0], col+at[1])
				return
			}
			if c.store != nil {
				w.fail(l, errAsync, "tcgen05.wait::st behind stores", "a store to lane %d, column %d of tensor memory may not have ended", first+at[0], col+at[1])
				return
			}
			w.regs[int(r)+l] = uint64(c.v)
		}
	}
	if load {
		for _, r := range i.more {
			w.flying[r/lanes]++
		}
		w.flights.n += len(i.more)
		w.loads = append(w.loads, i.more...)
	}
}

// step puts a job into the pipe, which ends in order.
func (w *warp) step(i *inst, t *tensorMemory, land func(j *job) *diag.Problem) *job {
	b := w.b
	j := b.cl.begin(w, i, func(*job) *diag.Problem {
		next := t.pipe[0]
		t.pipe = t.pipe[1:]
		return next.step()
	})
	j.step = func() *diag.Problem { return land(j) }
	t.pipe = append(t.pipe, j)
	return j
}

func (w *warp) tensorCommit(i *inst, t *tensorMemory, l int) {
	addr := w.in32(i, 0, l) + uint64(i.imm[0])
	to := []*block{nil}
	if len(i.row.In) == 2 {
		var ok bool
		if to, _, ok = w.targets(i, l, 1, addr); !ok {
			return
		}
	}
	var bars []*mbar
	for _, b := range to {
		at := addr
		if b != nil {
			at = uint64(b.rank+1)<<windowShift | addr&(1<<windowShift-1)
		}
		m := w.copyBar(l, at)
		if m == nil {
			return
		}
		bars = append(bars, m)
	}
	done := t.open
	t.open = nil
	// What the thread had waited for before its products came before they ended.
	var know, knowProxied clock
	w.publish(&know, &knowProxied)
	w.step(i, t, func(j *job) *diag.Problem {
		for _, x := range done {
			for _, p := range x.parts {
				// Each block is told at its own barrier, or at the first.
				m := bars[0]
				for _, own := range bars {
					if own.b == p.b {
						m = own
					}
				}
				told := reader{comp: int32(m.comp + 1), tick: m.phase + 1, lane: -1}
				for _, k := range p.cells {
					if c := &p.t.cells[k]; c.job == x.job {
						c.job, c.writer = nil, told
					}
				}
				for _, at := range p.bytes {
					p.b.ledger.freeAs(w, told, at, 16)
				}
			}
		}
		for _, m := range bars {
			m.now.join(know)
			m.nowProxied.join(knowProxied)
			if bad := m.arrive(1); bad != "" {
				return j.problem(errCount, "count one arrival for each commit", "%s", bad)
			}
		}
		return nil
	})
}

// begin puts work into the pipe.
func (w *warp) begin(i *inst, t *tensorMemory, x *tensorWork, land func(*job) *diag.Problem) {
	x.job = w.step(i, t, land)
	for _, p := range x.parts {
		for _, k := range p.cells {
			p.t.cells[k].job = x.job
		}
		for _, at := range p.bytes {
			p.b.ledger.hold(x.job, at, 16)
		}
	}
	t.open = append(t.open, x)
}

// tensorTile is an operand at a descriptor, in a block's shared memory.
func (w *warp) tensorTile(in *block, l int, what string, word uint64, kind string, mn bool, elem dtype.Type, rows, k int, negative bool, held *flight) []float64 {
	o, ok := w.tensorOperand(l, what, word, mn, elem)
	if !ok {
		return nil
	}
	o.padded = padded(elem) && strings.HasSuffix(kind, "f8f6f4")
	sign := 1.0
	if negative {
		sign = -1
	}
	v, _ := w.tile(in, what, o, 0, rows, k, elem.Decode, sign, held)
	return v
}

func (w *warp) tensorOperand(l int, what string, word uint64, mn bool, elem dtype.Type) (*sharedOperand, bool) {
	d, err := bank.DecodeDescriptor(word, bank.SM100)
	if err != nil || d.Absolute {
		w.fail(l, errProduct, "", "the descriptor %#x of %s: %v", word, what, err)
		return nil, false
	}
	o := &sharedOperand{d: d, bits: elem.Bits(), t: elem, c: bank.Canonical{Mode: d.Mode, Major: map[bool]string{true: "MN", false: "K"}[mn]}}
	if o.mode, err = bank.FindTMAMode(d.Mode); err != nil {
		w.fail(l, errProduct, "", "%s: %v", what, err)
		return nil, false
	}
	return o, true
}

// copied is the lanes of tensor memory that a row of a copy comes to, and how many
// rows of how many bytes there are.
var copied = map[string]struct {
	rows, bytes int
	lanes       func(row int) []int
}{
	"cp.128x256b":              {128, 32, func(r int) []int { return []int{r} }},
	"cp.128x128b":              {128, 16, func(r int) []int { return []int{r} }},
	"cp.4x256b":                {4, 32, func(r int) []int { return []int{lanes * r} }},
	"cp.32x128b.warpx4":        {32, 16, func(r int) []int { return []int{r, r + 32, r + 64, r + 96} }},
	"cp.64x128b.warpx2::02_13": {64, 16, func(r int) []int { return []int{r, r + 64} }},
	"cp.64x128b.warpx2::01_23": {64, 16, func(r int) []int { return []int{r + r/32*32, r + r/32*32 + 32} }},
}

// copyColumns begins a copy of one thread from shared to tensor memory.
func (w *warp) copyColumns(i *inst, t *tensorMemory, l int, name string) {
	form := copied[name]
	held := &flight{}
	o, ok := w.tensorOperand(l, "the copy", w.regs[int(i.in[1])+l], false, dtype.U8)
	if !ok {
		return
	}
	v, ok := w.tile(w.b, "the copy", o, 0, form.rows, form.bytes, dtype.U8.Decode, 1, held)
	if !ok {
		return
	}
	part := tensorPart{b: w.b, t: t, bytes: held.bytes}
	addr := w.in32(i, 0, l)
	var words []uint32
	for r := range form.rows {
		for _, lane := range form.lanes(r) {
			for c := range form.bytes / 4 {
				k := w.cell(t, int(addr>>16)+lane, int(addr&0xffff)+c)
				if k < 0 {
					return
				}
				word := uint32(0)
				for e := range 4 {
					word |= uint32(v[r*form.bytes+4*c+e]) << (8 * e)
				}
				part.cells, words = append(part.cells, k), append(words, word)
			}
		}
	}
	w.begin(i, t, &tensorWork{parts: []tensorPart{part}}, func(*job) *diag.Problem {
		for at, k := range part.cells {
			cell := &t.cells[k]
			cell.v, cell.set = words[at], true
		}
		return nil
	})
}

// shiftLanes begins to move eight columns of the lanes of a quarter to the next lane; the
// first keeps its own.
func (w *warp) shiftLanes(i *inst, t *tensorMemory, l int) {
	addr := w.in32(i, 0, l)
	first := int(addr >> 16)
	if first%lanes != 0 {
		w.fail(l, errProduct, "", "lane %d; a shift begins at a multiple of %d", first, lanes)
		return
	}
	part := tensorPart{b: w.b, t: t}
	for lane := range lanes {
		for c := range 8 {
			k := w.cell(t, first+lane, int(addr&0xffff)+c)
			if k < 0 {
				return
			}
			if cell := &t.cells[k]; !cell.set && cell.job == nil || cell.store != nil {
				w.fail(l, errAsync, "write it before, and wait for stores", "lane %d, column %d of tensor memory is not there yet", first+lane, int(addr&0xffff)+c)
				return
			}
			part.cells = append(part.cells, k)
		}
	}
	w.begin(i, t, &tensorWork{parts: []tensorPart{part}}, func(*job) *diag.Problem {
		for at := len(part.cells) - 1; at >= 8; at-- {
			t.cells[part.cells[at]].v = t.cells[part.cells[at-8]].v
		}
		return nil
	})
}
