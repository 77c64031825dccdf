package lower

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/exchange"
	"github.com/tilus-lab/tilus-lab/gpu/lower/shared"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// tile is a tile that the block of statements around has allocated.
type tile struct {
	v    *ir.Var
	name string // in the plan
}

func (l *lowerer) allocateShared(in *ir.Instr) {
	v := in.Out[0]
	size := (v.Type.Shared.CountSize()*v.Type.Elem.Bits() + 7) / 8
	dims, _ := v.Type.Dims()
	l.env.set(v, val{shared: &shared.View{Plan: l.room(in, size, l.sharedAlign(v)), Modes: ir.SharedModes(v.Type.Shared), Dims: dims, Swizzle: v.Type.Shared.Swizzle(), Width: v.Type.Elem.Bits()}})
}

// room finds a place for what an instruction makes, as long as its block of
// statements lasts.
func (l *lowerer) room(in *ir.Instr, size, align int) int {
	v := in.Out[0]
	l.named++
	name := fmt.Sprintf("%s#%d", v.Name, l.named)
	at, err := l.plan.Alloc(name, size, align)
	if err != nil {
		panic(err) // sizes are bounded by AllocateShared.C2
	}
	l.align = max(l.align, align, shared.Align)
	if l.plan.Peak() > l.peak {
		l.peak, l.peakPos = l.plan.Peak(), in.Pos
	}
	l.tiles = append(l.tiles, tile{v, name})
	return l.own.at.tiles + at
}

func (l *lowerer) freeShared(in *ir.Instr) {
	for i := range l.tiles {
		if l.tiles[i].v == in.In[0].Var() && l.tiles[i].name != "" {
			l.free(i)
			l.tiles[i].name = ""
		}
	}
}

// free gives memory back. Beside other thread groups it is kept for later: they run
// at the same time, but their code is made one after the other.
func (l *lowerer) free(i int) {
	if l.threads.Size != l.p.Threads() {
		l.held = append(l.held, l.tiles[i].name)
		return
	}
	if err := l.plan.Free(l.tiles[i].name); err != nil {
		panic(err)
	}
}

// release frees what groups have held, once they have ended.
func (l *lowerer) release(next ir.Stmt) {
	if _, group := next.(*ir.Group); group || l.threads.Size != l.p.Threads() {
		return
	}
	for _, name := range l.held {
		if err := l.plan.Free(name); err != nil {
			panic(err)
		}
	}
	l.held = nil
}

// leave frees the tiles of a block of statements that ends.
func (l *lowerer) leave(mark int) {
	for i := mark; i < len(l.tiles); i++ {
		if l.tiles[i].name != "" {
			l.free(i)
		}
	}
	l.tiles = l.tiles[:mark]
}

// areas says where the parts of shared memory begin: what single instructions of the
// whole block have for themselves lies at 0, then what those of thread groups have,
// then the program's tiles.
type areas struct{ groups, tiles int }

// memory is what single instructions have for themselves: bytes of the whole block's and
// of groups', and where those of each group lie.
type memory struct {
	at            areas
	whole, groups int
	of            map[ir.Threads]scratch
}

type scratch struct{ at, size int }

// scratch gives the threads that run some bytes for one instruction, which ends with a
// barrier of theirs. Groups run side by side, and others go on when they have ended, so
// that each has its own bytes.
func (l *lowerer) scratch(size int) (at int) {
	if l.threads.Size == l.p.Threads() {
		l.own.whole = max(l.own.whole, size)
		return 0
	}
	own := l.own.of[l.threads]
	if own.size < size {
		own = scratch{l.own.at.groups + l.own.groups, size}
		l.own.of[l.threads] = own
		l.own.groups = aligned(l.own.groups + size)
	}
	return own.at
}

// aligned is the next multiple of [shared.Align].
func aligned(n int) int { return (n + shared.Align - 1) / shared.Align * shared.Align }

// foresee asks for what conversions and atomics need, and says where the parts of shared memory
// begin if nothing else needs some: then tiles need not move, and all be lowered again, when they
// are met.
func (l *lowerer) foresee() areas {
	align := 0
	l.ask(l.p.Body, &align)
	at, _ := l.laidOut(align)
	l.own.groups = 0
	clear(l.own.of)
	return at
}

// ask does so for a block, and notes the alignment of tiles.
func (l *lowerer) ask(b *ir.Block, align *int) {
	b.Walk(func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Instr:
			switch s.Op.Name {
			case "ConvertLayout":
				l.scratch(exchange.Plan(s.In[0].Var().Type, s.Out[0].Type).Bytes)
			case "AtomicScalar":
				if l.warps() > 1 && l.hands(s) {
					l.scratch(handed)
				}
			case "AllocateShared":
				*align = max(*align, l.sharedAlign(s.Out[0]))
			case "AllocateBarrier", "AllocatePipeline", "Tcgen05Alloc":
				*align = max(*align, shared.Align)
			}
		case *ir.Group:
			around := l.threads
			l.threads = around.Of(s)
			l.ask(s.Body, align)
			l.threads = around
			return false
		}
		return true
	})
}

// laidOut is where the parts begin with tiles of an alignment, which is 0 without tiles, and
// how many bytes single instructions have.
func (l *lowerer) laidOut(align int) (at areas, own int) {
	own = l.own.whole
	if l.own.groups > 0 {
		at.groups = aligned(own)
		own = at.groups + l.own.groups
	}
	if align > 0 {
		at.tiles = (own + align - 1) / align * align
	}
	return at, own
}

// multiprocessor is the shared memory of Hopper's multiprocessors and later ones', of which
// each block takes 1 KB more than its own.
const multiprocessor = 228 << 10

// placeTiles says what the launch needs, and where the parts have to begin.
func (l *lowerer) placeTiles() (fits areas) {
	f := l.Func()
	fits, own := l.laidOut(l.align)
	f.Launch.SharedBytes = own
	if l.peak > 0 {
		f.Launch.SharedBytes = fits.tiles + l.peak
	}
	switch small := f.Launch.SharedBytes > 64<<10 || f.Launch.Block < 128; {
	case l.p.Resident > 0:
		f.Launch.MinBlocks = l.p.Resident
	case small && f.Launch.MaxReg == 0 && l.maps != nil:
		// So few blocks fit, or so small ones; the compiler need not save registers for more, nor for more
		// than have 85 registers a thread.
		f.Launch.MinBlocks = max(1, min(multiprocessor/(f.Launch.SharedBytes+1<<10), 768/f.Launch.Block))
	}
	if limit := l.opt.Arch.MaxShared; limit > 0 && f.Launch.SharedBytes > limit {
		pos := l.peakPos
		if !pos.Known() {
			pos = l.p.Pos
		}
		l.refuse(pos, "Lower.E7", "here the program has %d bytes of shared memory, %d of them for single instructions; a block of %s can have %d", f.Launch.SharedBytes, own, l.opt.Arch.Name, limit)
	}
	return fits
}

func viewShared(l *lowerer, in *ir.Instr) {
	s := *l.env.get(in.In[0].Var()).shared
	out := in.Out[0].Type
	s.Modes = ir.SharedModes(out.Shared)
	s.Dims, _ = out.Dims()
	l.env.set(in.Out[0], val{shared: &s})
}

func sliceShared(l *lowerer, in *ir.Instr) {
	s := *l.env.get(in.In[0].Var()).shared
	sizes, _ := in.Out[0].Type.Dims()
	dims := in.Dims(len(s.Dims), len(sizes))
	p := l.part(in, &s, dims, sizes)
	for d := range s.Dims {
		size := 1
		if i := slices.Index(dims, d); i >= 0 {
			size = sizes[i]
		}
		c := p.From[d]
		if !p.Apart[d] || shared.Along(s.Modes[d], c+size-1)-shared.Along(s.Modes[d], c) != shared.Along(s.Modes[d], size-1) {
			l.refuse(in.Pos, "Lower.E8", "elements of dimension %d from %s on lie in several panels, or cannot be shown to lie in one", d, in.Offset(len(s.Dims))[d])
			break
		}
		s.Static += shared.Along(s.Modes[d], c)
	}
	s.Terms = slices.Concat(s.Terms, p.Terms)
	s.Modes = ir.SharedModes(in.Out[0].Type.Shared)
	s.Dims = sizes
	l.env.set(in.Out[0], val{shared: &s})
}

// part evaluates the offset of an instruction and checks it as far as it is not
// proved.
func (l *lowerer) part(in *ir.Instr, s *shared.View, dims, sizes []int) *shared.Part {
	p := &shared.Part{View: s, Dims: dims, From: make([]int, len(s.Dims)), Rest: make([]code.Value, len(s.Dims)), Apart: make([]bool, len(s.Dims))}
	for d, e := range in.Offset(len(s.Dims)) {
		size := 1
		if i := slices.Index(dims, d); i >= 0 {
			size = sizes[i]
		}
		p.Apart[d] = true
		if n, ok := ir.ConstInt(e); ok {
			p.From[d] = int(n)
			continue
		}
		room := int64(s.Dims[d] - size)
		l.checkIndex(e, room)
		if room == 0 { // the only index inside
			continue
		}
		// A constant summand goes with the index, if what is left is not negative.
		if b, ok := e.(*ir.Binary); ok && b.Op == "+" {
			if n, ok := ir.ConstInt(b.Y); ok && n > 0 && n < int64(s.Dims[d]) && l.facts.Interval(b.X, dtype.I32).Lo >= 0 {
				p.From[d], e = int(n), b.X
			}
		}
		p.Rest[d] = l.index(e)
		g := l.facts.Divisor(e)
		most := room - int64(p.From[d])
		if hi := l.facts.Interval(e, dtype.I32).Hi; hi >= 0 {
			most = min(most, hi)
		}
		if g == 0 || most <= 0 {
			p.Rest[d] = 0
			continue
		}
		p.Apart[d] = p.Split(l.Thread, d, p.Rest[d], g, most, int64(p.From[d]+size))
	}
	return p
}

// checkIndex sees to it that an offset e from which on a part lies is at most room.
func (l *lowerer) checkIndex(e ir.Expr, room int64) {
	if x := l.facts.Interval(e, dtype.I32); x.Lo >= 0 && x.Hi <= room || l.facts.Inside(e, 0, 0, ir.NewInt(room+1)) {
		return
	}
	// Unsigned, so that negative indices are outside too.
	l.Op(code.OpCheck, nil, l.Op(code.OpSetpU32, []int64{int64(code.LE)}, l.index(e), l.Const32(room)))
}

var sharedLoads = map[int]code.Op{8: code.OpLdSharedB8, 16: code.OpLdSharedB16, 32: code.OpLdSharedB32, 64: code.OpLdSharedV2B32, 128: code.OpLdSharedV4B32}
var sharedStores = map[int]code.Op{8: code.OpStSharedB8, 16: code.OpStSharedB16, 32: code.OpStSharedB32, 64: code.OpStSharedV2B32, 128: code.OpStSharedV4B32}

// clusterLoads and clusterStores reach the memory of another block.
var clusterLoads = map[int]code.Op{32: code.OpLdClusterB32, 64: code.OpLdClusterV2B32, 128: code.OpLdClusterV4B32}
var clusterStores = map[int]code.Op{32: code.OpStClusterB32, 64: code.OpStClusterV2B32, 128: code.OpStClusterV4B32}

// whole reports that every run can be moved in bytes; else the instruction is
// refused.
func (l *lowerer) whole(in *ir.Instr, width int, runs []shared.Run) bool {
	for _, r := range runs {
		if n := len(r.Slots) * width; n%8 != 0 || thread.ChunkBits(r.Align, 0, n) == 0 {
			l.refuse(in.Pos, "Lower.E9", "elements of %d bits that threads hold one after the other do not fill whole bytes of shared memory", width)
			return false
		}
	}
	return true
}

func loadShared(l *lowerer, in *ir.Instr) {
	v := in.Out[0]
	dims, _ := v.Type.Dims()
	s := l.env.get(in.In[0].Var()).shared
	p := l.part(in, s, in.Dims(len(s.Dims), len(dims)), dims)
	x := l.finder.Place(l.Thread, p, v.Type.Layout)
	loads, far := sharedLoads, in.Attr("rank")
	if far != nil {
		loads = clusterLoads
	} else if words := x.LoadMatrices(v.Type, l.warps()); words != nil {
		l.env.set(v, val{words: words})
		return
	}
	runs := x.Runs()
	l.env.set(v, val{words: make([]code.Value, wordsOf(v.Type))})
	if !l.whole(in, s.Width, runs) {
		return
	}
	slots := v.Type.Layout.Slots()
	source := make([]thread.Field, slots)
	for _, r := range runs {
		addr, offset := x.Of(r)
		if far != nil {
			addr = l.Op(code.OpMapa, nil, addr, l.index(far.Exprs[0]))
		}
		n := len(r.Slots) * s.Width
		words := make([]code.Value, (n+31)/32)
		for pos := 0; pos < n; {
			w := thread.ChunkBits(r.Align, pos, n)
			if loads[w] == 0 {
				l.refuse(in.Pos, "Lower.E9", "accesses of %d bits do not reach another block", w)
				return
			}
			for i, got := range l.Emit(loads[w], []int64{offset + int64(pos/8)}, addr) {
				if w == 16 {
					got = l.Op(code.OpZext16, nil, got)
				}
				at := pos + 32*i
				words[at/32] = l.OrShifted(words[at/32], got, at%32)
			}
			pos += w
		}
		for i, slot := range r.Slots {
			source[slot] = thread.Field{Words: words, Pos: i * s.Width}
		}
	}
	l.env.set(v, val{words: l.Assemble(slots, s.Width, func(s int) thread.Field { return source[s] })})
}

func storeShared(l *lowerer, in *ir.Instr) {
	v := in.In[1].Var()
	dims, _ := v.Type.Dims()
	words := l.env.get(v).words
	s := l.env.get(in.In[0].Var()).shared
	x := l.finder.Place(l.Thread, l.part(in, s, in.Dims(len(s.Dims), len(dims)), dims), v.Type.Layout)
	owner, replicas := l.FirstHolder(v.Type.Layout)
	stores, far := sharedStores, in.Attr("rank")
	if far != nil {
		stores = clusterStores
	} else if !replicas && l.opt.Arch.Capability() >= 90 && x.StoreMatrices(v.Type, l.warps(), words) {
		return
	}
	runs := x.Runs()
	if !l.whole(in, s.Width, runs) {
		return
	}
	for _, r := range runs {
		data := l.Assemble(len(r.Slots), s.Width, func(i int) thread.Field { return thread.Field{Words: words, Pos: r.Slots[i] * s.Width} })
		addr, offset := x.Of(r)
		if far != nil {
			addr = l.Op(code.OpMapa, nil, addr, l.index(far.Exprs[0]))
		}
		l.storeSharedRun(in, stores, addr, offset, r.Align, len(r.Slots)*s.Width, owner, data)
	}
}

// storeSharedRun stores n bits.
func (l *lowerer) storeSharedRun(in *ir.Instr, stores map[int]code.Op, addr code.Value, offset, align int64, n int, guard code.Value, words []code.Value) {
	for pos := 0; pos < n; {
		w := thread.ChunkBits(align, pos, n)
		if stores[w] == 0 {
			l.refuse(in.Pos, "Lower.E9", "accesses of %d bits do not reach another block", w)
			return
		}
		args := []code.Value{addr}
		for i := 0; i < w; i += 32 {
			y := words[(pos+i)/32]
			if s := (pos + i) % 32; s > 0 {
				y = l.Op(code.OpShrU32, nil, y, l.Const32(int64(s)))
			}
			if w == 16 {
				y = l.Op(code.OpTrunc16, nil, y)
			}
			args = append(args, y)
		}
		l.Guard(guard, stores[w], []int64{offset + int64(pos/8)}, nil, args...)
		pos += w
	}
}
