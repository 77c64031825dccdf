package sim

import (
	"fmt"
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// block is one block of threads in execution; it is used for many blocks in turn.
type block struct {
	m       *machine
	warps   []*warp
	shared  sharedMemory
	number  int
	ctaid   [3]uint64
	stats   Stats
	scratch matrixScratch
	err     *diag.Problem
	// The rest is for functions that are clocked.
	cl     *cluster
	rank   int // in the cluster
	ledger ledger
	extra  map[[2]int64]*arrivals // at barriers of thread groups, of warps that do not wait
	issued [8][]uint64            // products of each warpgroup
	over   bool
	tensor *tensorMemory // nil until it is used
}

// arrivals is what bar.arrive brought to a barrier.
type arrivals struct {
	threads        int64
	clock, proxied clock
}

// warp is 32 lanes with one program counter. Lanes that wait for others of their
// warp are out of mask; frames says when they come back.
type warp struct {
	b       *block
	id      int
	regs    []uint64
	pc      int32
	mask    uint32
	all     uint32 // lanes that exist
	frames  []frame
	steps   int64
	barrier int64 // the barrier it waits at, -1: none
	count   int64 // threads that the barrier waits for; 0: all
	waits   bool  // polls memory
	stopped bool  // stands at a stop
	done    bool
	epoch   uint32 // warp barriers passed
	flight  [lanes]inFlight
	// The rest is for functions that are clocked.
	index          int // component of clocks
	clock, proxied clock
	came, passed   int // at the cluster's barrier
	products       int
	bulk           [lanes]bulkGroups
	flights        flights
	wrote          []int64 // step of the last write of each register
	flying         []int16 // products in flight that use each register
	loads          []int32 // registers that loads of tensor memory give
}

type frame struct{ saved, other uint32 }

func newBlock(m *machine) *block {
	b := &block{m: m}
	n := (m.launch.Block + lanes - 1) / lanes
	for w := range n {
		wp := &warp{b: b, id: w, regs: make([]uint64, m.prog.regs*lanes), all: ^uint32(0)}
		if rest := m.launch.Block - w*lanes; rest < lanes {
			wp.all = 1<<rest - 1
		}
		b.warps = append(b.warps, wp)
	}
	b.shared.init(m.f.Launch.SharedBytes, m.opt.Fast || m.prog.clocked) // clocked functions have a ledger
	return b
}

// quantum is the number of instructions a warp runs before the next one gets its
// turn, so that a warp that waits for another by polling does not wait forever.
const quantum = 512

// start makes block number n ready.
func (b *block) start(n int) {
	g := b.m.launch.Grid
	b.ctaid = [3]uint64{uint64(n % g[0]), uint64(n / g[0] % g[1]), uint64(n / g[0] / g[1])}
	b.number = n
	b.shared.reset()
	b.err = nil
	for _, w := range b.warps {
		w.pc, w.mask, w.frames, w.steps, w.barrier, w.done, w.epoch = 0, w.all, w.frames[:0], 0, -1, false, 0
		w.waits, w.stopped = false, false
		w.flight = [lanes]inFlight{}
		for i, r := range b.m.prog.params {
			v := b.m.params[i]
			for l := range lanes {
				w.regs[int(r)+l] = v
			}
		}
	}
}

// run executes the block of a turn and reports what it did wrong, or nil.
func (b *block) run(turn int64) *diag.Problem {
	b.start(b.m.unit(turn))
	for {
		running, moved, polling := 0, false, (*warp)(nil)
		for _, w := range b.warps {
			if w.done || w.barrier >= 0 {
				continue
			}
			before := w.steps
			w.run(quantum)
			if b.m.stop.Load() {
				w.stands()
			}
			if b.err != nil || b.m.stop.Load() || b.m.failed.Load() < turn {
				return b.err
			}
			moved = moved || w.steps != before || w.done
			switch {
			case w.done || w.barrier >= 0:
			case w.waits:
				polling = w
			default:
				running++
			}
		}
		if polling != nil && running == 0 {
			if moved || b.releaseGroups() { // what was waited for may be there now
				continue
			}
			return b.nobodyWrites(polling)
		}
		if running > 0 {
			continue
		}
		if done, p := b.release(); done {
			return p
		}
	}
}

func (b *block) nobodyWrites(w *warp) *diag.Problem {
	return b.problem(w, errDeadlock, "blocks start in the order of their numbers: wait only for ones that come before", "nobody who can run writes what warp %d waits for", w.id)
}

// release opens a barrier that every warp has reached. It is called when no warp
// can run, and reports whether the block is over.
func (b *block) release() (done bool, p *diag.Problem) {
	if b.releaseGroups() {
		return false, nil
	}
	var waiting, ended *warp
	for _, w := range b.warps {
		if w.done {
			ended = w
		} else if waiting == nil {
			waiting = w
		} else if w.barrier != waiting.barrier || w.count != waiting.count {
			return true, b.problem(waiting, errDeadlock, "every thread of a block must reach the same barriers", "warp %d waits at barrier %d and warp %d at barrier %d (%s)", waiting.id, waiting.barrier, w.id, w.barrier, w.at().pos)
		}
	}
	switch {
	case waiting == nil:
		return true, nil
	case waiting.count > 0:
		return true, b.problem(waiting, errDeadlock, "every thread of the group must reach the barrier", "warp %d waits at barrier %d for %d threads, who do not all come", waiting.id, waiting.barrier, waiting.count)
	case ended != nil:
		return true, b.problem(waiting, errDeadlock, "every thread of a block must reach the barrier", "warp %d waits at barrier %d, but warp %d has ended", waiting.id, waiting.barrier, ended.id)
	}
	for _, w := range b.warps {
		w.barrier = -1
		w.pc++
	}
	b.shared.pass(^uint32(0))
	return false, nil
}

// releaseGroups opens the barriers of thread groups to which all their threads have
// come, and reports whether there was one.
func (b *block) releaseGroups() bool {
	came := map[[2]int64]uint32{}
	for _, w := range b.warps {
		if w.barrier >= 0 && w.count > 0 && !w.done {
			came[[2]int64{w.barrier, w.count}] |= 1 << w.id
		}
	}
	opened := false
	for key, warps := range came {
		there := int64(bits.OnesCount32(warps)) * lanes
		if x := b.extra[key]; x != nil {
			there += x.threads
		}
		if there < key[1] {
			continue
		}
		if b.cl != nil {
			b.open(key, warps)
		}
		for _, w := range b.warps {
			if warps>>w.id&1 != 0 {
				w.barrier = -1
				w.pc++
			}
		}
		b.shared.pass(warps)
		opened = true
	}
	return opened
}

// open orders the warps that come to a barrier of a thread group.
func (b *block) open(key [2]int64, warps uint32) {
	var all []*warp
	for _, w := range b.warps {
		if warps>>w.id&1 != 0 {
			all = append(all, w)
		}
	}
	x := b.extra[key]
	if x == nil {
		x = &arrivals{}
	}
	b.meet(all, x.clock, x.proxied)
	delete(b.extra, key)
}

func (w *warp) at() *inst { return &w.b.m.prog.code[w.pc] }

// indexOutside says which index check.index has found, where the comparison stands in front of it.
func (w *warp) indexOutside(i *inst, lane int) string {
	if w.pc > 0 {
		if c := &w.b.m.prog.code[w.pc-1]; c.op == code.OpSetpU32 && c.out[0] == i.in[0] {
			return fmt.Sprintf("index %d lies outside the tensor, whose extent there is %d", int32(w.in32(c, 0, lane)), w.in32(c, 1, lane))
		}
	}
	return "an index that the program computed lies outside the tensor"
}

// stands notes where a launch is that is stopped from outside.
func (w *warp) stands() {
	if w.done {
		return
	}
	at := fmt.Sprintf("%s: interrupted; warp %d of block (%d, %d, %d) stood here", w.at().pos, w.id, w.b.ctaid[0], w.b.ctaid[1], w.b.ctaid[2])
	w.b.m.stood.CompareAndSwap(nil, &at)
}

func (b *block) problem(w *warp, errCode, help, format string, args ...any) *diag.Problem {
	return &diag.Problem{Pos: w.at().pos, Code: errCode, Help: help,
		Msg: fmt.Sprintf("block (%d, %d, %d): %s: ", b.ctaid[0], b.ctaid[1], b.ctaid[2], w.at().op) + diag.Sprintf(format, args...)}
}

// fail ends the block with a problem of one lane.
func (w *warp) fail(lane int, errCode, help, format string, args ...any) {
	if w.b.err != nil {
		return
	}
	p := w.b.problem(w, errCode, help, format, args...)
	if lane < 0 {
		p.Msg = fmt.Sprintf("warp %d of ", w.id) + p.Msg
	} else {
		p.Msg = fmt.Sprintf("thread %d of ", w.id*lanes+lane) + p.Msg
	}
	w.b.err = p
}

// partial fails if not all lanes are here.
func (w *warp) partial() bool {
	if w.mask == ^uint32(0) {
		return false
	}
	w.fail(bits.TrailingZeros32(w.mask), errPartial, "all 32 lanes of the warp must take part", "only lanes %#08x are active", w.mask)
	return true
}

func count(mask uint32) int64 { return int64(bits.OnesCount32(mask)) }

// lanesOf gives the mask of active lanes where the predicate register is true.
func (w *warp) lanesOf(reg int32) uint32 {
	var m uint32
	for l, v := range w.regs[reg : reg+lanes] {
		m |= uint32(v&1) << l
	}
	return m & w.mask
}

// run executes up to n instructions, or until the warp ends, waits or fails.
func (w *warp) run(n int) {
	prog := w.b.m.prog.code
	st := &w.b.stats
	limit := w.b.m.opt.MaxSteps
	for range n {
		i := &prog[w.pc]
		st.Warp[i.class]++
		if w.flights.n > 0 && w.busyRegister(i) {
			return
		}
		switch i.kind {
		case kPure:
			st.LaneOps += count(w.mask)
			st.Flops += i.flops * count(w.mask)
			if i.row.NonZero && w.zeroDivisor(i) {
				return
			}
			if i.exact != code.MayWrap && w.overflow(i) {
				return
			}
			w.pure(i)
		case kConst:
			w.fill(i.out[0], uint64(i.imm[0]))
		case kSpecial:
			w.special(i)
		case kCopy:
			st.Warp[i.class]--
			st.Moves++
			w.copyReg(i.out[0], i.in[0])
		case kLoad, kStore, kAtomic:
			st.LaneOps += count(w.mask)
			w.memory(i)
		case kWarp:
			st.LaneOps += count(w.mask)
			if w.partial() {
				return
			}
			w.exchange(i)
		case kMatrix:
			st.LaneOps += count(w.mask)
			st.Matrix++
			st.Flops += i.flops
			if w.partial() {
				return
			}
			w.matrix(i)
		case kRows:
			st.LaneOps += count(w.mask)
			w.matrixMemory(i)
			if w.b.err != nil {
				return
			}
		case kCopyBegin:
			st.LaneOps += count(w.mask)
			w.beginCopy(i)
		case kCopyWait:
			w.waitCopies(i)
		case kCheck:
			if bad := w.mask &^ w.lanesOf(i.in[0]); bad != 0 {
				switch lane := bits.TrailingZeros32(bad); i.op {
				case code.OpAssume:
					w.fail(lane, errAssume, "call the program with other arguments, or do not assume it", "what the program assumes does not hold")
					return
				case code.OpCheckIndex:
					w.fail(lane, errBounds, "leave out what lies outside, by if or a smaller tile; tiles of LoadGlobal, StoreGlobal and tensor copies may reach over the end", "%s", w.indexOutside(i, lane))
					return
				}
				w.fail(bits.TrailingZeros32(bad), errBounds, "shared tensors have no elements outside; guard with if, or use a larger tile", "an index of the tile lies outside the shared tensor")
				return
			}
		case kSpin:
			if w.waits = !w.found(i); w.waits || w.b.err != nil {
				return
			}
		case kProxy:
			if w.proxy(i) {
				return
			}
		case kFence:
		case kBarrier:
			w.count = 0
			if i.op == code.OpBarGroup {
				w.count = i.imm[1]
			}
			if i.op == code.OpBarWarp {
				if w.mask != w.all {
					w.partial()
					return
				}
				w.epoch++
				break
			}
			st.Barriers++
			if w.mask != w.all {
				w.fail(bits.TrailingZeros32(w.mask), errPartial, "every thread of a block must reach the barrier", "only lanes %#08x of %#08x are active", w.mask, w.all)
				return
			}
			w.epoch++ // lanes are ordered too
			w.barrier = i.imm[0]
			return
		case kIf:
			then := w.lanesOf(i.in[0])
			w.frames = append(w.frames, frame{saved: w.mask, other: w.mask &^ then})
			if then == 0 {
				w.pc = i.target
				continue
			}
			if then != w.mask {
				st.Diverged++
			}
			w.mask = then
		case kElse:
			st.Warp[i.class]--
			if other := w.frames[len(w.frames)-1].other; other != 0 {
				w.mask = other
			} else {
				w.pc = i.target
				continue
			}
		case kLoop:
			w.frames = append(w.frames, frame{saved: w.mask})
		case kTest, kTestP:
			var on uint32
			if i.kind == kTest {
				a, b := w.regs[i.in[0]:i.in[0]+lanes], w.regs[i.in[1]:i.in[1]+lanes]
				for l := range lanes {
					if int32(uint32(a[l])) < int32(uint32(b[l])) {
						on |= 1 << l
					}
				}
				on &= w.mask
			} else {
				on = w.lanesOf(i.in[0])
			}
			if on == 0 {
				w.pc = i.target
				continue
			}
			if on != w.mask {
				st.Diverged++
			}
			w.mask = on
		case kNext:
			st.Warp[i.class]--
			a, b := w.regs[i.in[0]:i.in[0]+lanes], w.regs[i.in[1]:i.in[1]+lanes]
			for l := range lanes {
				if w.mask>>l&1 != 0 {
					a[l] = uint64(uint32(a[l] + b[l]))
				}
			}
			w.pc = i.target
			w.steps++
			continue
		case kJump:
			st.Warp[i.class]--
			w.pc = i.target
			w.steps++
			continue
		case kEndIf, kEndLoop:
			st.Warp[i.class]--
			w.mask = w.frames[len(w.frames)-1].saved
			w.frames = w.frames[:len(w.frames)-1]
		case kEnd:
			st.Warp[i.class]--
			w.done = true
			return
		case kStop:
			st.Warp[i.class]--
			w.stopped = true
			return
		}
		if w.b.err != nil {
			return
		}
		if w.wrote != nil && i.op != code.OpUndef32 && !i.kept {
			for _, r := range i.out[:i.nout] {
				w.wrote[r/lanes] = w.steps
			}
		}
		w.pc++
		if w.steps++; limit > 0 && w.steps > limit {
			w.pc--
			w.fail(bits.TrailingZeros32(w.mask), errSteps, "does a loop end?", "the warp has run %d instructions, the limit", limit)
			return
		}
	}
}

func (w *warp) fill(reg int32, v uint64) {
	out := w.regs[reg : reg+lanes]
	if w.mask == ^uint32(0) {
		for l := range out {
			out[l] = v
		}
		return
	}
	for l := range out {
		if w.mask>>l&1 != 0 {
			out[l] = v
		}
	}
}

func (w *warp) copyReg(to, from int32) {
	out, in := w.regs[to:to+lanes], w.regs[from:from+lanes]
	if w.mask == ^uint32(0) {
		copy(out, in)
		return
	}
	for l := range out {
		if w.mask>>l&1 != 0 {
			out[l] = in[l]
		}
	}
}

func (w *warp) special(i *inst) {
	w.b.stats.LaneOps += count(w.mask)
	g := w.b.m.launch.Grid
	var v uint64
	switch i.op {
	case code.OpTidX, code.OpLaneID:
		base := 0
		if i.op == code.OpTidX {
			base = w.id * lanes
		}
		for l := range lanes {
			if w.mask>>l&1 != 0 {
				w.regs[int(i.out[0])+l] = uint64(base + l)
			}
		}
		return
	case code.OpCtaidX:
		v = w.b.ctaid[0]
	case code.OpCtaidY:
		v = w.b.ctaid[1]
	case code.OpCtaidZ:
		v = w.b.ctaid[2]
	case code.OpNctaidX:
		v = uint64(g[0])
	case code.OpNctaidY:
		v = uint64(g[1])
	case code.OpNctaidZ:
		v = uint64(g[2])
	case code.OpNtidX:
		v = uint64(w.b.m.launch.Block)
	case code.OpSharedBase:
		v = sharedBase
	case code.OpClock:
		v = uint64(uint32(w.b.stats.clock()))
	case code.OpGlobalTimer:
		v = uint64(w.b.stats.clock())
	case code.OpSmID:
		v = 0
	default:
		w.proxySpecial(i)
		return
	}
	w.fill(i.out[0], v)
}

func (w *warp) zeroDivisor(i *inst) bool {
	for l := range lanes {
		if w.mask>>l&1 != 0 && w.regs[int(i.in[1])+l] == 0 {
			w.fail(l, errZero, "", "division by zero")
			return true
		}
	}
	return false
}

func (w *warp) overflow(i *inst) bool {
	for l := range lanes {
		if w.mask>>l&1 == 0 {
			continue
		}
		a, b := w.regs[int(i.in[0])+l], w.regs[int(i.in[1])+l]
		if _, over := i.exact.Overflows(i.op, a, b); over {
			kind, x, y := "i32", int64(int32(uint32(a))), int64(int32(uint32(b)))
			if i.exact == code.ExactUnsigned {
				kind, x, y = "u32", int64(uint32(a)), int64(uint32(b))
			}
			sign := map[code.Op]string{code.OpAdd32: "+", code.OpSub32: "-", code.OpMul32: "*", code.OpShl32: "*", code.OpDivS32: "/"}[i.op]
			text := fmt.Sprintf("%d %s %d", x, sign, y)
			switch i.op {
			case code.OpShl32:
				text = fmt.Sprintf("%d * %d", x, int64(1)<<b)
			case code.OpNeg32:
				text = fmt.Sprintf("-(%d)", x)
			}
			w.fail(l, errOverflow, "", "integer overflow: %s is no %s", text, kind)
			return true
		}
	}
	return false
}

// pure computes a row with a meaning in all active lanes. The commonest
// operations have loops of their own; a test holds them equal to the meaning.
func (w *warp) pure(i *inst) {
	out := (*[lanes]uint64)(w.regs[i.out[0]:])
	a := (*[lanes]uint64)(w.regs[i.in[0]:])
	if w.mask != ^uint32(0) {
		b, c := (*[lanes]uint64)(w.regs[i.in[1]:]), (*[lanes]uint64)(w.regs[i.in[2]:])
		for m := w.mask; m != 0; m &= m - 1 {
			l := bits.TrailingZeros32(m)
			switch i.nin {
			case 1:
				out[l] = i.meaning(i.imm, a[l], 0, 0)
			case 2:
				out[l] = i.meaning(i.imm, a[l], b[l], 0)
			default:
				out[l] = i.meaning(i.imm, a[l], b[l], c[l])
			}
		}
		return
	}
	b := (*[lanes]uint64)(w.regs[i.in[1]:])
	switch i.op {
	case code.OpAdd32:
		for l := range out {
			out[l] = uint64(uint32(a[l] + b[l]))
		}
		return
	case code.OpMul32:
		for l := range out {
			out[l] = uint64(uint32(a[l] * b[l]))
		}
		return
	case code.OpAdd64:
		for l := range out {
			out[l] = a[l] + b[l]
		}
		return
	case code.OpAnd32:
		for l := range out {
			out[l] = a[l] & b[l]
		}
		return
	case code.OpOr32:
		for l := range out {
			out[l] = a[l] | b[l]
		}
		return
	case code.OpXor32:
		for l := range out {
			out[l] = a[l] ^ b[l]
		}
		return
	case code.OpShl32:
		for l := range out {
			out[l] = uint64(uint32(a[l] << b[l]))
		}
		return
	case code.OpShrU32:
		for l := range out {
			out[l] = a[l] >> b[l]
		}
		return
	case code.OpLop3:
		lut := i.imm[0]
		c := (*[lanes]uint64)(w.regs[i.in[2]:])
		if lut == code.LopA&code.LopB|code.LopC {
			for l := range out {
				out[l] = a[l]&b[l] | c[l]
			}
			return
		}
	}
	f, imm := i.meaning, i.imm
	switch i.nin {
	case 1:
		for l := range out {
			out[l] = f(imm, a[l], 0, 0)
		}
	case 2:
		for l := range out {
			out[l] = f(imm, a[l], b[l], 0)
		}
	default:
		c := (*[lanes]uint64)(w.regs[i.in[2]:])
		for l := range out {
			out[l] = f(imm, a[l], b[l], c[l])
		}
	}
}

// exchange is the family vote and shfl.
func (w *warp) exchange(i *inst) {
	var in [lanes]uint64
	copy(in[:], w.regs[i.in[0]:])
	out := w.regs[i.out[0] : i.out[0]+lanes]
	switch i.op {
	case code.OpVoteAny, code.OpVoteAll, code.OpBallot:
		m := w.lanesOf(i.in[0])
		v := uint64(m)
		switch {
		case i.op == code.OpVoteAny && m != 0, i.op == code.OpVoteAll && m == ^uint32(0):
			v = 1
		case i.op != code.OpBallot:
			v = 0
		}
		w.fill(i.out[0], v)
	case code.OpShflIdx:
		var from [lanes]uint64
		copy(from[:], w.regs[i.in[1]:])
		for l := range lanes {
			out[l] = in[from[l]&31]
		}
	case code.OpShflBfly:
		for l := range lanes {
			out[l] = in[l^int(i.imm[0])]
		}
	case code.OpShflUp:
		for l := range lanes {
			out[l] = in[l]
			if from := l - int(i.imm[0]); from >= 0 {
				out[l] = in[from]
			}
		}
	case code.OpShflDown:
		for l := range lanes {
			out[l] = in[l]
			if from := l + int(i.imm[0]); from < lanes {
				out[l] = in[from]
			}
		}
	case code.OpMovMatrixT:
		w.transpose(i)
	default:
		panic("sim: no meaning for " + i.op.String())
	}
}
