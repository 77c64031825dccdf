package interp

import (
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// reading is a tile, or a part of one, that copies or products still read.
type reading struct {
	tile   int
	places []int32
	result *ir.Var // of a product
	by     *ir.Instr
}

// work is what a set of threads has begun that reads shared memory beside them.
type work struct {
	open   []reading
	groups [][]reading
}

func (w work) clone() work { return work{slices.Clone(w.open), slices.Clone(w.groups)} }

// commit makes a group of what was begun since the last.
func (w *work) commit() { w.groups, w.open = append(w.groups, w.open), nil }

// wholeOf is all of a shared tensor, as its tile and the places in it.
func (m *Machine) wholeOf(in *ir.Instr, s *shared, t *sharedTile) []int32 {
	all := make([]int, len(s.dims))
	for d := range all {
		all[d] = d
	}
	return s.places(make([]int, len(s.dims)), all, s.dims)
}

// tensorLimits checks what the host checks when it makes a tensor map, and where the
// tile begins.
func (m *Machine) tensorLimits(in *ir.Instr, g *global, s *shared, dims []int) (ir.Boxes, error) {
	bits := g.arr.Type.Bits()
	boxes, err := ir.BoxesOf(in.In[1].Var().Type, dims, len(g.dims))
	if err != nil {
		return boxes, problem(in.Pos, "Run.E26", "", "%v", err)
	}
	if n := len(g.dims); n > 1 && g.dims[n-1]*bits%128 != 0 {
		return boxes, problem(in.Pos, "Run.E26", "pad the tensor, or copy with CopyAsync", "rows of %s have %d bytes; tensor copies need a multiple of 16", g.name, g.dims[n-1]*bits/8)
	}
	if period := max(8*boxes.Swizzle, 128); s.base*bits/8%period != 0 {
		return boxes, problem(in.In[1].Pos, "Run.E26", "take parts at multiples of the swizzle's period", "%s begins at byte %d of its tile, which must be a multiple of %d", s.name, s.base*bits/8, period)
	}
	return boxes, nil
}

func copyTensorIn(m *Machine, in *ir.Instr) error {
	s := m.get(in.In[1].Var()).shared
	r, err := m.region(in, len(s.dims))
	if err != nil {
		return err
	}
	boxes, err := m.tensorLimits(in, r.g, s, r.dims)
	if err != nil {
		return err
	}
	return m.bring(in, r, s, int64(boxes.Bytes(r.g.arr.Type)))
}

// bring begins a copy of a region to the tiles of all receivers; elements outside the
// tensor are 0.
func (m *Machine) bring(in *ir.Instr, r *region, s *shared, bytes int64) error {
	to, err := m.receivers(in)
	if err != nil {
		return err
	}
	codes := make([]uint64, size(s.dims))
	written := m.marks[r.g.arr]
	err = each(s.dims, func(e int, index []int) error {
		flat, ok := r.element(index)
		if !ok {
			return nil
		}
		codes[e] = r.g.arr.Code(flat)
		if written == nil {
			return nil
		}
		if err := m.ordered(in, r.g, written.writer[flat], someone, flat, "copies", "wrote"); err != nil {
			return err
		}
		m.reads(written, flat, someone)
		return nil
	})
	if err != nil {
		return err
	}
	return m.deliver(in, to, s, 2, codes, bytes, nil)
}

// deliver begins to write a tile in the memories of blocks, of which so many bytes come to
// a turn of their barriers, operand bars.
func (m *Machine) deliver(in *ir.Instr, to []memory, s *shared, bars int, codes []uint64, bytes int64, from *source) error {
	for _, mem := range to {
		t := mem.tiles[s.tile]
		if mem.block == m.block {
			var err error
			if t, err = m.use(in, s); err != nil {
				return err
			}
		}
		told := mem
		if a := in.Attr("rank"); a != nil && in.Op.Family == "tensor" {
			var err error
			if told, err = m.partner(in, a); err != nil {
				return err
			}
		}
		x, err := m.turnOf(in, bars, told)
		if err != nil {
			return err
		}
		if err := m.present(in, x, "brings bytes to"); err != nil {
			return err
		}
		places := m.wholeOf(in, s, t)
		for e, at := range places {
			if err := m.overwrites(in, s, t, s.dims, e, at, someone); err != nil {
				return err
			}
			t.pending[at], t.codes[at] = true, codes[e]
		}
		t.copies += len(places)
		x.b.coming = append(x.b.coming, landing{block: mem.block, tile: s.tile, places: places, from: from})
		x.b.bytes -= bytes
		if err := m.settleBarrier(in, x); err != nil {
			return err
		}
	}
	return nil
}

func size(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// readAsync checks that what copies and products read is there and that their proxy
// sees it, and marks it as being read.
func (m *Machine) readAsync(in *ir.Instr, operand int) (*sharedTile, reading, error) {
	return m.readAsyncIn(in, operand, m.own())
}

// readAsyncIn is readAsync of the tile at the same place of a block's memory.
func (m *Machine) readAsyncIn(in *ir.Instr, operand int, mem memory) (*sharedTile, reading, error) {
	s := m.get(in.In[operand].Var()).shared
	t := mem.tiles[s.tile]
	if mem.block == m.block {
		var err error
		if t, err = m.use(in, s); err != nil {
			return nil, reading{}, err
		}
	}
	places := m.wholeOf(in, s, t)
	for e, at := range places {
		k := t.writer[at]
		switch {
		case t.pending[at]:
			return nil, reading{}, m.onItsWay(in, s, s.dims, e)
		case k.block == 0:
			return nil, reading{}, problem(in.Pos, "Run.E9", "store to it, or wait for the copy that fills it", "element %v of %s was never written", indexOf(s.dims, e), s.name)
		case !m.before(k, someone):
			return nil, reading{}, m.race(in, s, s.dims, e, k, someone, "reads", "wrote")
		case !k.fenced:
			return nil, reading{}, problem(in.Pos, "Run.E24", "FenceProxyAsync between the store and the barrier behind it", "element %v of %s was stored by threads, and the asynchronous proxy may not see it yet", indexOf(s.dims, e), s.name)
		}
	}
	if t.reading == nil {
		t.reading = make([]int16, len(t.codes))
	}
	for _, at := range places {
		t.reading[at]++
	}
	return t, reading{tile: s.tile, places: places}, nil
}

// read ends what was read beside the threads, as reads of the running ones.
func (m *Machine) read(r reading) { m.readOf(&m.smem, r, m.several()) }

// readOf ends what was read beside the threads of a block, as a read of this mark.
func (m *Machine) readOf(mem *sharedMemory, r reading, now mark) {
	if mem == nil || r.tile >= len(mem.tiles) || mem.tiles[r.tile] == nil {
		return // the block, or the tile, has ended
	}
	t := mem.tiles[r.tile]
	readers := t.readersOf(those{now.block - 1, now.set})
	for _, at := range r.places {
		t.reading[at]--
		readers[at] = now
	}
	t.used = lastUse{t.name, now}
}

func copyTensorOut(m *Machine, in *ir.Instr) error {
	s := m.get(in.In[1].Var()).shared
	r, err := m.region(in, len(s.dims))
	if err != nil {
		return err
	}
	if _, err := m.tensorLimits(in, r.g, s, r.dims); err != nil {
		return err
	}
	op := ""
	if a := in.Attr("op"); a != nil {
		op = a.Word
	}
	return m.take(in, r, s, op)
}

// take begins a copy of a tile to a region, or combines it with what is there.
func (m *Machine) take(in *ir.Instr, r *region, s *shared, op string) error {
	t, what, err := m.readAsync(in, 1)
	if err != nil {
		return err
	}
	k := m.marks[r.g.arr]
	err = each(s.dims, func(e int, index []int) error {
		flat, ok := r.element(index)
		if !ok {
			return nil
		}
		if w := k.writer[flat]; op == "" || !w.atomic {
			if err := m.ordered(in, r.g, w, someone, flat, "overwrites", "wrote"); err != nil {
				return err
			}
		}
		if err := m.afterReads(in, r.g, k, someone, flat, "overwrites"); err != nil {
			return err
		}
		code := t.codes[what.places[e]]
		if op != "" {
			if err := m.written(in, r.g, flat); err != nil {
				return err
			}
			code = combine(op, r.g.arr.Type, r.g.arr.Code(flat), code)
		}
		k.writer[flat] = m.several()
		k.writer[flat].atomic = op != ""
		r.g.arr.SetCode(flat, code)
		return nil
	})
	if err != nil {
		return err
	}
	what.by = in
	m.stores(func(w *work) { w.open = append(w.open, what) })
	return nil
}

// unread complains about copies that still read the shared memory of a block which ends.
func (m *Machine) unread() error {
	var first *ir.Instr
	for _, w := range m.smem.stores {
		for _, group := range append(slices.Clip(w.groups), w.open) {
			for _, r := range group {
				if first == nil || r.by.Pos.Line < first.Pos.Line {
					first = r.by
				}
			}
		}
	}
	if first == nil {
		return nil
	}
	return problem(first.Pos, "Run.E25", "CopyAsyncTensorCommitGroup and CopyAsyncTensorWaitGroup before the block ends, by the threads that began the copy", "block %d ends while a copy still reads its shared memory", m.block)
}

// combine is one step of a reducing copy. Floats are summed with one rounding.
func combine(op string, t dtype.Type, old, with uint64) uint64 {
	if t.IsFloat() {
		x, y := t.Decode(old), t.Decode(with)
		switch op {
		case "add":
			return dtype.Add(t, old, with)
		case "min":
			if y < x || math.IsNaN(x) {
				return with
			}
		case "max":
			if y > x || math.IsNaN(x) {
				return with
			}
		}
		return old
	}
	return atomicStep(op, t, false, old, with, 0)
}

func (m *Machine) stores(change func(*work)) { m.works(&m.smem.stores, change) }

func (m *Machine) works(all *map[int16]work, change func(*work)) {
	w := (*all)[m.running()].clone()
	change(&w)
	if *all == nil {
		*all = map[int16]work{}
	}
	(*all)[m.running()] = w
}

func copyTensorCommit(m *Machine, _ *ir.Instr) error {
	m.stores((*work).commit)
	return nil
}

func copyTensorWait(m *Machine, in *ir.Instr) error {
	m.stores(func(w *work) { m.finish(w, int(in.Attr("n").Number)) })
	return nil
}

// finish ends the oldest groups until n are left.
func (m *Machine) finish(w *work, n int) {
	for len(w.groups) > n {
		for _, r := range w.groups[0] {
			if r.result == nil {
				m.read(r)
				continue
			}
			x := m.get(r.result)
			x.uses--
			m.set(r.result, x)
		}
		w.groups = w.groups[1:]
	}
}
