package interp

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// sharedMemory is the memory that the threads of the running block have in common.
type sharedMemory struct {
	tiles []*sharedTile // in the order of allocation; a dead one is nil
	// The latest uses of tiles that have died, by the threads that allocated them: a
	// new one may have their memory.
	retired      map[int16]lastUse
	flights      map[int16]flight     // by the threads that copy
	tensorWork   map[int16]tensorWork // of products in tensor memory, by the threads that began them
	relinquished bool
	// Copies out of shared memory and products that go on, by the threads that began them.
	stores, products map[int16]work
	users            map[those]use // the last uses by other blocks of the cluster
}

// use is what another block did with a block's memory.
type use struct {
	mark mark
	by   *ir.Instr
}

// flight is what a set of threads has begun to copy.
type flight struct {
	open   []copying   // in no group yet
	groups [][]copying // on their way, the oldest first
}

// lastUse says when a tile was used last; the zero value is never.
type lastUse struct {
	name string
	mark mark
}

// sharedTile is the memory of one AllocateShared, by offset before swizzling, which
// permutes it as a whole.
type sharedTile struct {
	name     string
	depth    int   // frames around the allocation
	set      int16 // of threads that allocated it
	codes    []uint64
	writer   []mark
	readers  map[those][]mark // by the set of threads that read
	adders   map[those][]mark // by the set of threads that changed it atomically
	plain    []mark           // who wrote it before the first of those
	reading  []int16          // copies and products that still read; nil for none
	barriers *barriers        // of AllocateBarrier
	pending  []bool           // an asynchronous copy is on its way there
	copies   int              // of them
	used     lastUse
	before   []lastUse // of what may have lain there before
	// Of tensor memory: who took it where, and which cells are being stored.
	tensor bool
	made   mark
	at     diag.Pos
	stores []bool
}

// copying is a part of a tile that a copy will have written.
type copying struct {
	tile   int
	places []int32
	line   uint16 // of the copy
}

// shared is a view of a tile: its elements lie at base plus what the layout says.
type shared struct {
	tile  int
	base  int
	modes [][]ir.SharedMode
	dims  []int
	name  string
}

// enter forgets the block before.
func (s *sharedMemory) enter() { *s = sharedMemory{} }

func (s sharedMemory) clone() sharedMemory {
	s.tiles = slices.Clone(s.tiles)
	for i, t := range s.tiles {
		if t == nil {
			continue
		}
		u := *t
		u.stores = slices.Clone(t.stores)
		u.codes, u.writer, u.pending, u.reading = slices.Clone(t.codes), slices.Clone(t.writer), slices.Clone(t.pending), slices.Clone(t.reading)
		u.readers, u.adders, u.plain, u.barriers = maps.Clone(t.readers), maps.Clone(t.adders), slices.Clone(t.plain), t.barriers.clone()
		for by, r := range u.readers {
			u.readers[by] = slices.Clone(r)
		}
		for by, r := range u.adders {
			u.adders[by] = slices.Clone(r)
		}
		s.tiles[i] = &u
	}
	s.retired = maps.Clone(s.retired)
	s.tensorWork = maps.Clone(s.tensorWork)
	s.flights, s.stores, s.products, s.users = maps.Clone(s.flights), maps.Clone(s.stores), maps.Clone(s.products), maps.Clone(s.users)
	for set, f := range s.flights {
		s.flights[set] = flight{slices.Clone(f.open), slices.Clone(f.groups)}
	}
	return s
}

// leave ends the lives of tiles whose block of statements ends.
func (m *Machine) leave(depth int) error {
	if depth == 1 {
		if err := m.unread(); err != nil {
			return err
		}
		if err := m.unused(); err != nil {
			return err
		}
	}
	for i := len(m.smem.tiles) - 1; i >= 0; i-- {
		if i >= len(m.smem.tiles) || m.smem.tiles[i] == nil {
			continue // freed; retire drops the last of them
		}
		t := m.smem.tiles[i]
		if t.depth < depth || t.set != m.running() {
			continue
		}
		if t.tensor {
			return problem(t.at, "Run.E32", "Tcgen05Dealloc before the block ends", "block %d ends with the tensor memory of %s", m.block, t.name)
		}
		if f := m.frames[depth-1].block.Stmts; t.copies > 0 && depth > 1 {
			return problem(f[len(f)-1].Position(), "Run.E11", "wait before the block of statements ends", "%s ends with its block of statements while a copy to it is on its way", t.name)
		}
		m.smem.retire(i)
	}
	return nil
}

func (s *sharedMemory) retire(i int) {
	t := s.tiles[i]
	if u := t.used; u.name != "" && u.mark.epoch >= s.retired[t.set].mark.epoch {
		if s.retired == nil {
			s.retired = map[int16]lastUse{}
		}
		s.retired[t.set] = u
	}
	s.tiles[i] = nil
	for n := len(s.tiles); n > 0 && s.tiles[n-1] == nil; n-- {
		s.tiles = s.tiles[:n-1]
	}
}

// several is a mark of threads of the running set of which is not known which.
func (m *Machine) several() mark {
	k := m.me(0)
	k.thread, k.line = -1, 0
	return k
}

func viewOf(v *ir.Var, tile, base int) value {
	dims, _ := v.Type.Dims()
	return value{set: true, shared: &shared{tile: tile, base: base, modes: ir.SharedModes(v.Type.Shared), dims: dims, name: v.Name}}
}

func allocateShared(m *Machine, in *ir.Instr) error {
	v := in.Out[0]
	n := v.Type.Shared.Unswizzled().CountSize()
	t := &sharedTile{name: v.Name, depth: len(m.frames), set: m.running(), codes: make([]uint64, n), writer: make([]mark, n), pending: make([]bool, n)}
	// Beside other thread groups nothing is used again that they had.
	for set, u := range m.smem.retired {
		if t.set == 0 || t.set == set {
			t.before = append(t.before, u)
		}
	}
	m.smem.tiles = append(m.smem.tiles, t)
	m.set(v, viewOf(v, len(m.smem.tiles)-1, 0))
	return nil
}

func freeShared(m *Machine, in *ir.Instr) error {
	i := m.get(in.In[0].Var()).shared.tile
	if t := m.smem.tiles[i]; t.copies > 0 {
		return problem(in.Pos, "Run.E11", "wait for it first", "a copy to %s is on its way", t.name)
	}
	m.smem.retire(i)
	return nil
}

// inside evaluates the offset of a part of a view, whose sizes are given for the
// dimensions that dims names and are 1 in the others.
func (m *Machine) inside(in *ir.Instr, s *shared, dims, sizes []int) ([]int, error) {
	exprs := in.Offset(len(s.dims))
	offset := make([]int, len(s.dims))
	for d, n := range s.dims {
		at, err := m.int(exprs[d])
		if err != nil {
			return nil, err
		}
		size := 1
		if i := slices.Index(dims, d); i >= 0 {
			size = sizes[i]
		}
		if at < 0 || at+int64(size) > int64(n) {
			return nil, problem(exprs[d].Position(), "Run.E10", "shared tensors have no elements outside; guard with if, or use a larger tile", "elements %d to %d of dimension %d of %s, which has %d", at, at+int64(size)-1, d, s.name, n)
		}
		offset[d] = int(at)
	}
	return offset, nil
}

// along is what an index x of a dimension adds to the place.
func along(modes []ir.SharedMode, x int) (at int) {
	for i := len(modes) - 1; i >= 0; i-- {
		at += x % modes[i].Size * modes[i].Stride
		x /= modes[i].Size
	}
	return at
}

// places are where the elements of a part lie, in row-major order.
func (s *shared) places(offset, dims, sizes []int) []int32 {
	at := s.base
	for d := range s.dims {
		if !slices.Contains(dims, d) {
			at += along(s.modes[d], offset[d])
		}
	}
	out := []int32{int32(at)}
	for i, d := range dims {
		next := make([]int32, 0, len(out)*sizes[i])
		steps := make([]int32, sizes[i])
		for x := range steps {
			steps[x] = int32(along(s.modes[d], offset[d]+x))
		}
		for _, at := range out {
			for _, step := range steps {
				next = append(next, at+step)
			}
		}
		out = next
	}
	return out
}

// part is the memory that a load, store or copy uses, and where in it.
func (m *Machine) part(in *ir.Instr, s *shared, sizes []int) (*sharedTile, []int32, error) {
	dims := in.Dims(len(s.dims), len(sizes))
	offset, err := m.inside(in, s, dims, sizes)
	if err != nil {
		return nil, nil, err
	}
	t, err := m.use(in, s)
	if err != nil {
		return nil, nil, err
	}
	return t, s.places(offset, dims, sizes), nil
}

// use is the tile of a view that is used now.
func (m *Machine) use(in *ir.Instr, s *shared) (*sharedTile, error) {
	if in.Attr("rank") != nil && in.Op.Family != "bulk" && in.Op.Family != "tensor" {
		mem, err := m.usesOf(in)
		if err != nil {
			return nil, err
		}
		if mem.block != m.block {
			return mem.tiles[s.tile], nil
		}
	}
	t := m.smem.tiles[s.tile]
	for _, b := range t.before {
		if !m.before(b.mark, someone) {
			return nil, problem(in.Pos, "Run.E4", "Synchronize between the last use of the one and the first use of the other", "%s may have the memory of %s, which was used since the last barrier and has ended", t.name, b.name)
		}
	}
	t.used = lastUse{t.name, m.several()}
	return t, nil
}

func sliceShared(m *Machine, in *ir.Instr) error {
	s := m.get(in.In[0].Var()).shared
	sizes, _ := in.Out[0].Type.Dims()
	dims := in.Dims(len(s.dims), len(sizes))
	offset, err := m.inside(in, s, dims, sizes)
	if err != nil {
		return err
	}
	base := s.base
	for d, modes := range s.modes {
		base += along(modes, offset[d])
		// Cut inside a mode, a part may not go round: it would not be a view.
		if i := slices.Index(dims, d); i >= 0 && along(modes, offset[d]+sizes[i]-1)-along(modes, offset[d]) != along(modes, sizes[i]-1) {
			return problem(in.Pos, "Run.E10", "let a part of a dimension of panels begin at a multiple of its size", "elements %d to %d of dimension %d of %s do not lie as elements 0 to %d do", offset[d], offset[d]+sizes[i]-1, d, s.name, sizes[i]-1)
		}
	}
	m.set(in.Out[0], viewOf(in.Out[0], s.tile, base))
	return nil
}

func viewShared(m *Machine, in *ir.Instr) error {
	s := m.get(in.In[0].Var()).shared
	m.set(in.Out[0], viewOf(in.Out[0], s.tile, s.base))
	return nil
}

// flat is the map of a register tile's layout, made once for each variable.
func (m *Machine) flat(v *ir.Var) []int32 {
	if m.flats[v] == nil {
		m.flats[v] = v.Type.Layout.Flat()
	}
	return m.flats[v]
}

func loadShared(m *Machine, in *ir.Instr) error {
	v := in.Out[0]
	s := m.get(in.In[0].Var()).shared
	dims, _ := v.Type.Dims()
	t, places, err := m.part(in, s, dims)
	if err != nil {
		return err
	}
	out := &tile{elem: v.Type.Elem, dims: dims, codes: make([]uint64, len(places))}
	for e, at := range places {
		switch {
		case t.pending[at]:
			return m.onItsWay(in, s, dims, e)
		case t.writer[at].block == 0:
			return problem(in.Pos, "Run.E9", "store to it, or wait for the copy that fills it", "element %v at the tile's index of %s was never written", indexOf(dims, e), s.name)
		}
		out.codes[e] = t.codes[at]
	}
	flat := m.flat(v)
	slots := v.Type.Layout.Slots()
	readers := t.readersOf(m.self())
	for i, e := range flat {
		at, thread := places[e], i/slots
		if !m.before(t.writer[at], thread) {
			return m.race(in, s, dims, int(e), t.writer[at], thread, "reads", "wrote")
		}
		if k, ok := m.addedBefore(t, at, thread); !ok {
			return m.race(in, s, dims, int(e), k, thread, "reads", "changed")
		}
		readers[at] = m.and(readers[at], thread)
	}
	m.set(v, value{set: true, tile: out})
	return nil
}

func storeShared(m *Machine, in *ir.Instr) error {
	v := in.In[1].Var()
	x, err := m.tile(in, 1)
	if err != nil {
		return err
	}
	s := m.get(in.In[0].Var()).shared
	t, places, err := m.part(in, s, x.dims)
	if err != nil {
		return err
	}
	slots := v.Type.Layout.Slots()
	done := make([]bool, len(places))
	for i, e := range m.flat(v) {
		if done[e] { // of the threads that hold the element, the first stores it
			continue
		}
		done[e] = true
		at, thread := places[e], i/slots
		if err := m.overwrites(in, s, t, x.dims, int(e), at, thread); err != nil {
			return err
		}
		t.writer[at] = m.me(thread)
		t.codes[at] = x.codes[e]
	}
	return nil
}

// overwrites checks what a write by a thread finds; thread is someone for one that
// is not known.
func (m *Machine) overwrites(in *ir.Instr, s *shared, t *sharedTile, dims []int, e int, at int32, thread int) error {
	switch {
	case t.pending[at]:
		return m.onItsWay(in, s, dims, e)
	case !m.before(t.writer[at], thread):
		return m.race(in, s, dims, e, t.writer[at], thread, "overwrites", "wrote")
	case t.reading != nil && t.reading[at] > 0:
		return problem(in.Pos, "Run.E25", "WgmmaWaitGroup or CopyAsyncTensorWaitGroup first, and a barrier behind it", "element %v of the tile in %s is overwritten while a product or copy still reads it", indexOf(dims, e), s.name)
	}
	if r, ok := m.readBefore(t, at, thread); !ok {
		return m.race(in, s, dims, e, r, thread, "overwrites", "read")
	}
	if k, ok := m.addedBefore(t, at, thread); !ok {
		return m.race(in, s, dims, e, k, thread, "overwrites", "changed")
	}
	return nil
}

// readersOf is who read the elements last, of a set of threads.
func (t *sharedTile) readersOf(by those) []mark { return marksOf(&t.readers, by, len(t.codes)) }

func marksOf(all *map[those][]mark, by those, n int) []mark {
	r := (*all)[by]
	if r == nil {
		if *all == nil {
			*all = map[those][]mark{}
		}
		r = make([]mark, n)
		(*all)[by] = r
	}
	return r
}

// addedBefore is readBefore for atomic steps.
func (m *Machine) addedBefore(t *sharedTile, at int32, thread int) (mark, bool) {
	for _, r := range t.adders {
		if k := r[at]; !m.before(k, thread) {
			return k, false
		}
	}
	return mark{}, true
}

// readBefore reports that all reads of a place come before what a thread does now, or
// gives one that does not.
func (m *Machine) readBefore(t *sharedTile, at int32, thread int) (mark, bool) {
	for _, r := range t.readers {
		if k := r[at]; !m.before(k, thread) {
			return k, false
		}
	}
	return mark{}, true
}

// indexOf is the index of element e of a tile.
func indexOf(dims []int, e int) []int {
	index := make([]int, len(dims))
	for d := len(dims) - 1; d >= 0; d-- {
		index[d], e = e%dims[d], e/dims[d]
	}
	return index
}

func (m *Machine) onItsWay(in *ir.Instr, s *shared, dims []int, e int) error {
	return problem(in.Pos, "Run.E11", "WaitBarrier for its turn; of CopyAsync, CopyAsyncCommitGroup, CopyAsyncWaitGroup(n=…) or CopyAsyncWaitAll, and Synchronize", "a copy to element %v of the tile in %s is still on its way", indexOf(dims, e), s.name)
}

func (m *Machine) race(in *ir.Instr, s *shared, dims []int, e int, other mark, thread int, does, did string) error {
	name := func(thread int) string {
		switch {
		case thread >= 0:
			return fmt.Sprintf("thread %d", thread)
		case thread == someone:
			return "a thread of a copy"
		}
		return "several threads"
	}
	return problem(in.Pos, "Run.E4", "Synchronize between the two", "%s of block %d %s element %v of the tile in %s, which %s %s since the last barrier%s", name(thread), m.block, does, indexOf(dims, e), s.name, name(int(other.thread)), did, other.inLine())
}
