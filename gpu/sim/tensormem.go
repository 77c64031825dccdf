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
// PTX manual and has not been compared with hardware. Products are of 128 rows with
// sums of 32 bits. Products and commits end in the order in which they began; a commit
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
	open     []*tensorProduct // since the last commit
	released bool
}

type tensorCell struct {
	v      uint32
	set    bool
	job    *job   // the product that writes it and has not been told to have ended
	writer reader // the component and phase of the barrier that told
	store  *warp  // who stores it and has not waited
}

type tensorProduct struct {
	job   *job
	cells []int
	bytes []uint64
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
	if b.tensor == nil {
		b.tensor = &tensorMemory{cells: make([]tensorCell, tensorLanes*tensorColumns), from: map[int]diag.Pos{}}
	}
	t := b.tensor
	name := strings.TrimPrefix(i.row.Name, "tcgen05.")
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
	case name == "commit":
		for m := w.mask; m != 0 && b.err == nil; m &= m - 1 {
			w.tensorCommit(i, t, bits.TrailingZeros32(m))
		}
	case strings.HasPrefix(name, "mma."):
		for m := w.mask; m != 0 && b.err == nil; m &= m - 1 {
			w.tensorProduct(i, t, bits.TrailingZeros32(m), name)
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
				w.fail(l, errUnset, "", "read of lane %d, column %d of tensor memory before anything was written there", first+at[0], col+at[1])
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
	m := w.copyBar(l, w.in32(i, 0, l)+uint64(i.imm[0]))
	if m == nil {
		return
	}
	done := t.open
	t.open = nil
	// What the thread had waited for before its products came before they ended.
	var know, knowProxied clock
	w.publish(&know, &knowProxied)
	w.step(i, t, func(j *job) *diag.Problem {
		told := reader{comp: int32(m.comp + 1), tick: m.phase + 1, lane: -1}
		for _, x := range done {
			for _, k := range x.cells {
				if c := &t.cells[k]; c.job == x.job {
					c.job, c.writer = nil, told
				}
			}
			for _, at := range x.bytes {
				w.b.ledger.freeAs(w, told, at, 16)
			}
		}
		m.now.join(know)
		m.nowProxied.join(knowProxied)
		if bad := m.arrive(1); bad != "" {
			return j.problem(errCount, "count one arrival for each commit", "%s", bad)
		}
		return nil
	})
}

// instruction is the instruction descriptor of a product.
type instruction struct {
	m, n, k    int
	a, b, d    dtype.Type
	negA, negB bool
	mnA, mnB   bool
}

func (w *warp) instruction(l int, word uint64, kind string) (x instruction, ok bool) {
	field := func(at, n int) int { return int(word >> at & (1<<n - 1)) }
	types := map[string][]dtype.Type{"f16": {dtype.F16, dtype.BF16}, "tf32": {2: dtype.TF32}, "f8f6f4": {dtype.F8E4M3, dtype.F8E5M2}, "i8": {dtype.U8, dtype.I8}}[kind]
	sums := []dtype.Type{1: dtype.F32, 2: dtype.I32}
	a, b, d := field(7, 3), field(10, 3), field(4, 2)
	if a < len(types) && b < len(types) && d < len(sums) {
		x.a, x.b, x.d = types[a], types[b], sums[d]
	}
	x.negA, x.negB, x.mnA, x.mnB = field(13, 1) == 1, field(14, 1) == 1, field(15, 1) == 1, field(16, 1) == 1
	x.n, x.m = field(17, 6)*8, field(24, 5)*16
	if !x.a.Valid() || !x.b.Valid() || !x.d.Valid() || (x.d == dtype.I32) != (kind == "i8") {
		w.fail(l, errProduct, "", "the instruction descriptor %#x names types that kind::%s does not have, or that are not simulated", word, kind)
		return x, false
	}
	if x.m != 128 || x.n < 16 || x.n > 256 || x.n%16 != 0 {
		w.fail(l, errProduct, "", "a product of %d×%d; those of 128×16 to 128×256 are simulated", x.m, x.n)
		return x, false
	}
	x.k = 256 / max(x.a.Bits(), x.b.Bits())
	return x, true
}

// tensorProduct begins a product of one thread.
func (w *warp) tensorProduct(i *inst, t *tensorMemory, l int, name string) {
	where, kind, _ := strings.Cut(strings.TrimPrefix(name, "mma."), ".")
	x, ok := w.instruction(l, w.in32(i, 3, l), kind)
	if !ok {
		return
	}
	w.b.stats.Products++
	p := &tensorProduct{}
	held := &flight{}
	tile := func(what string, k int, mn bool, elem dtype.Type, rows int) []float64 {
		word := w.regs[int(i.in[k])+l]
		d, err := bank.DecodeDescriptor(word, bank.SM100)
		if err != nil || d.Absolute {
			w.fail(l, errProduct, "", "the descriptor %#x of %s: %v", word, what, err)
			return nil
		}
		o := &sharedOperand{d: d, bits: elem.Bits(), t: elem, c: bank.Canonical{Mode: d.Mode, Major: map[bool]string{true: "MN", false: "K"}[mn]}}
		if o.mode, err = bank.FindTMAMode(d.Mode); err != nil {
			w.fail(l, errProduct, "", "%s: %v", what, err)
			return nil
		}
		sign := 1.0
		if what == "A" && x.negA || what == "B" && x.negB {
			sign = -1
		}
		v, _ := w.tile(what, o, 0, rows, x.k, elem.Decode, sign, held)
		return v
	}
	var a []float64
	if where == "ss" {
		a = tile("A", 1, x.mnA, x.a, x.m)
	} else {
		addr := w.in32(i, 1, l)
		per := 32 / x.a.Bits()
		a = make([]float64, x.m*x.k)
		for r := range x.m {
			for c := range x.k {
				k := w.cell(t, int(addr>>16)+r, int(addr&0xffff)+c/per)
				if k < 0 {
					return
				}
				if !t.cells[k].set || t.cells[k].store != nil {
					w.fail(l, errAsync, "store A, then tcgen05.wait::st and a barrier", "A in tensor memory, lane %d, column %d, is not there yet", r, int(addr&0xffff)+c/per)
					return
				}
				a[r*x.k+c] = x.a.Decode(uint64(t.cells[k].v) >> (c % per * x.a.Bits()) & x.a.Mask())
			}
		}
	}
	b := tile("B", 2, x.mnB, x.b, x.n)
	if a == nil || b == nil || w.b.err != nil {
		return
	}
	addr, add := w.in32(i, 0, l), w.regs[int(i.in[4])+l] != 0
	for r := range x.m {
		for c := range x.n {
			k := w.cell(t, int(addr>>16)+r, int(addr&0xffff)+c)
			if k < 0 {
				return
			}
			cell := &t.cells[k]
			if cell.store != nil || add && !cell.set && cell.job == nil {
				w.fail(l, errAsync, "enable-d false in the first product, or store D and wait", "D in tensor memory, lane %d, column %d, is not there yet", r, int(addr&0xffff)+c)
				return
			}
			p.cells = append(p.cells, k)
		}
	}
	plan := &groupPlan{d: x.d, floats: x.d.IsFloat()}
	p.job = w.step(i, t, func(*job) *diag.Problem {
		for at, k := range p.cells {
			cell := &t.cells[k]
			c := uint64(0)
			if add {
				c = uint64(cell.v)
			}
			cell.v, cell.set = uint32(plan.step(c, a[at/x.n*x.k:][:x.k], b[at%x.n*x.k:][:x.k])), true
		}
		return nil
	})
	for _, k := range p.cells {
		t.cells[k].job = p.job
	}
	for _, at := range held.bytes {
		w.b.ledger.hold(p.job, at, 16)
	}
	p.bytes = held.bytes
	t.open = append(t.open, p)
}
