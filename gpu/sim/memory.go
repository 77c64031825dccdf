package sim

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// sharedMemory is the shared memory of a block, with who touched each byte last.
type sharedMemory struct {
	data  []byte
	track []touch // nil without checks
	epoch uint32  // barriers passed, those of thread groups included
	full  uint32  // the number of the last barrier of all warps
	// groups are the latest barriers of thread groups.
	groups []groupBarrier
}

// touch is the last write and the last read of a byte since the last barrier.
type touch struct {
	written        bool  // at any time
	copier         int16 // thread + 1 of an asynchronous copy that will write it; 0: none
	wEpoch, rEpoch uint32
	wWarp, rWarp   uint32 // warp epoch
	rWarps         uint32 // warps of the readers
	writer, reader int16  // thread + 1; 0: none; several readers: -1, or -2 - warp if all of one warp
	wLine, rLine   line
}

func (s *sharedMemory) init(n int, fast bool) {
	s.data = make([]byte, n)
	if !fast {
		s.track = make([]touch, n)
	}
}

func (s *sharedMemory) reset() {
	clear(s.track)
	s.epoch, s.full, s.groups = 0, 0, s.groups[:0]
	// Shared memory does not begin as zero; a pattern makes that show.
	for i := range s.data {
		s.data[i] = 0xa5
	}
}

// groupBarrier is the latest barrier of a set of warps: its number.
type groupBarrier struct{ warps, last uint32 }

// pass counts a barrier of some warps, all bits set for all.
func (s *sharedMemory) pass(warps uint32) {
	s.epoch++
	if warps == ^uint32(0) {
		s.full = s.epoch
		return
	}
	for i := range s.groups {
		if s.groups[i].warps == warps {
			s.groups[i].last = s.epoch
			return
		}
	}
	s.groups = append(s.groups, groupBarrier{warps, s.epoch})
}

// ordered reports that a barrier of all the warps lies behind an epoch.
func (s *sharedMemory) ordered(epoch, warps uint32) bool {
	if epoch < s.full {
		return true
	}
	for _, g := range s.groups {
		if epoch < g.last && warps&^g.warps == 0 {
			return true
		}
	}
	return false
}

// conflict reports whether an access by thread t (0-based) of warp epoch we in
// this epoch and another one lack a barrier between them.
func (s *sharedMemory) conflict(t int, we uint32, other int16, epoch, warpEpoch, warps uint32) bool {
	if other == 0 || int(other) == t+1 || s.ordered(epoch, warps|1<<(t/lanes)) {
		return false
	}
	return warpOf(other) != t/lanes || warpEpoch == we
}

// warpOf is the warp of a reader or writer, -1 for several.
func warpOf(id int16) int {
	if id < 0 {
		return int(-id) - 2
	}
	return int(id-1) / lanes
}

// memory executes loads, stores and atomics.
func (w *warp) memory(i *inst) {
	mask := w.mask
	if i.guard >= 0 {
		mask = w.lanesOf(i.guard)
	}
	if mask == 0 {
		return
	}
	row := i.row
	size := uint64(row.Unit * row.Count)
	st := &w.b.stats
	n := count(mask)
	switch {
	case row.Class == code.Atomic:
		st.Atomics++
	case row.Space == code.Global && row.Class == code.Load:
		st.GlobalLoads++
		st.GlobalLoadBytes += n * int64(size)
	case row.Space == code.Global:
		st.GlobalStores++
		st.GlobalStoreBytes += n * int64(size)
	case row.Class == code.Load:
		st.SharedLoads++
		st.SharedBytes += n * int64(size)
	default:
		st.SharedStores++
		st.SharedBytes += n * int64(size)
	}
	var addr [lanes]uint64
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		addr[l] = w.regs[int(i.in[0])+l] + uint64(i.imm[0])
		if row.Space == code.Shared {
			addr[l] = uint64(uint32(addr[l]))
		}
	}
	switch {
	case row.Space == code.Global:
		st.GlobalSectors += int64(bank.Sectors(mask, &addr, size))
	case row.Class == code.Load:
		w.countBanks(i, bank.Load, int(size), mask, &addr)
	case row.Class == code.Store:
		w.countBanks(i, bank.Store, int(size), mask, &addr)
	}
	if row.Class == code.Atomic {
		w.b.m.atomics.Lock()
		defer w.b.m.atomics.Unlock()
	}
	for m := mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		data := w.access(i, l, addr[l], size)
		if data == nil {
			return
		}
		switch row.Class {
		case code.Load:
			for k := range row.Count {
				var v uint64
				switch row.Unit {
				case 1:
					v = uint64(data[0])
				case 2:
					v = uint64(binary.LittleEndian.Uint16(data))
				case 4:
					v = uint64(binary.LittleEndian.Uint32(data[4*k:]))
				default:
					v = binary.LittleEndian.Uint64(data)
				}
				w.regs[int(i.out[k])+l] = v
			}
		case code.Store:
			for k := range row.Count {
				v := w.regs[int(i.in[1+k])+l]
				switch row.Unit {
				case 1:
					data[0] = byte(v)
				case 2:
					binary.LittleEndian.PutUint16(data, uint16(v))
				case 4:
					binary.LittleEndian.PutUint32(data[4*k:], uint32(v))
				default:
					binary.LittleEndian.PutUint64(data, v)
				}
			}
		default:
			for k := range row.Count {
				w.atomic(i, l, k, data[4*k:])
			}
		}
	}
}

// access checks one lane's access and gives its bytes, nil after a failure.
func (w *warp) access(i *inst, lane int, addr, size uint64) []byte {
	m := w.b.m
	write := i.row.Class != code.Load && i.row.Class != code.Barrier
	if addr&(size-1) != 0 {
		w.fail(lane, errAlign, "", "address %s is not a multiple of the %d bytes accessed", w.where(i, addr), size)
		return nil
	}
	if i.row.Space == code.Shared {
		if w.b.cl != nil {
			return w.clusterAccess(i, lane, addr, size)
		}
		at := addr - sharedBase
		if at >= uint64(len(w.b.shared.data)) || at+size > uint64(len(w.b.shared.data)) {
			w.fail(lane, errBounds, "", "%d bytes at %s, which has %d bytes", size, w.where(i, addr), len(w.b.shared.data))
			return nil
		}
		if w.b.shared.track != nil && !w.touched(i, lane, at, size, write) {
			return nil
		}
		return w.b.shared.data[at : at+size]
	}
	k, at := addr>>bufferShift, addr&(1<<bufferShift-1)
	if k == 0 || k > uint64(len(m.buffers)) || at+size > uint64(len(m.buffers[k-1].data)) {
		w.outside(lane, addr, size)
		return nil
	}
	buf := &m.buffers[k-1]
	if write && buf.readOnly {
		w.fail(lane, errReadOnly, "", "write to %s, which is read only", w.where(i, addr))
		return nil
	}
	if buf.track != nil && i.row.Class != code.Atomic && i.row.Class != code.Barrier && !i.row.Relaxed && !w.touchedGlobal(i, lane, buf.track, at, size, addr) {
		return nil
	}
	if buf.set != nil {
		for j := at; j < at+size; j++ {
			if w.keeps(i, lane, j-at) {
				continue
			}
			if !buf.set[j] && (!write || i.row.Class == code.Atomic) {
				w.fail(lane, errUnset, setFirst, "read of %s before anything was written there", w.where(i, addr))
				return nil
			}
			if write {
				buf.set[j] = true
			}
		}
	}
	return buf.data[at : at+size]
}

// keeps reports a compare-and-swap that leaves byte k of its word as it is, whatever
// stands there: that is how atomics of 16 bits treat their neighbours.
func (w *warp) keeps(i *inst, lane int, k uint64) bool {
	switch i.op {
	case code.OpAtomGlobalCas, code.OpAtomSharedCas, code.OpAtomClusterCas:
		return byte(w.regs[int(i.in[1])+lane]>>(8*k)) == byte(w.regs[int(i.in[2])+lane]>>(8*k))
	}
	return false
}

// touched checks and records an access to shared memory.
func (w *warp) touched(i *inst, lane int, at, size uint64, write bool) bool {
	s := &w.b.shared
	thread := w.id*lanes + lane
	atomic := i.row.Class == code.Atomic
	here := lineOf(i)
	for j := at; j < at+size; j++ {
		t := &s.track[j]
		if !write || atomic {
			if !t.written && t.copier == 0 && !w.keeps(i, lane, j-at) {
				w.fail(lane, errUnset, setFirst, "read of %s before anything was written there", w.where(i, j+sharedBase))
				return false
			}
		}
		if t.copier != 0 {
			w.fail(lane, errAsync, "CopyAsyncCommitGroup behind the copies, then CopyAsyncWaitGroup(n=…) or CopyAsyncWaitAll, and Synchronize", "an asynchronous copy of thread %d to %s is still on its way", t.copier-1, w.where(i, j+sharedBase))
			return false
		}
		if atomic { // atomics order themselves
			continue
		}
		if s.conflict(thread, w.epoch, t.writer, t.wEpoch, t.wWarp, 1<<max(0, warpOf(t.writer))) {
			w.fail(lane, errRace, betweenHelp, "%s was written by thread %d%v, and no barrier lies between", w.where(i, j+sharedBase), t.writer-1, t.wLine)
			return false
		}
		if write {
			if s.conflict(thread, w.epoch, t.reader, t.rEpoch, t.rWarp, t.rWarps) {
				w.fail(lane, errRace, betweenHelp, "%s was read by %s%v, and no barrier lies between", w.where(i, j+sharedBase), readers(t.reader), t.rLine)
				return false
			}
			t.writer, t.wEpoch, t.wWarp, t.wLine = int16(thread+1), s.epoch, w.epoch, here
			t.written = t.written || i.kind != kCopyBegin
			continue
		}
		id, before := int16(thread+1), t.rLine
		mine := uint32(1) << w.id
		if t.reader == 0 || s.ordered(t.rEpoch, t.rWarps|mine) {
			t.rWarps = 0
		}
		t.rWarps |= mine
		if t.rWarps&^mine != 0 {
			id = -1
		} else if t.reader != 0 && t.rEpoch == s.epoch && t.reader != id {
			switch {
			case warpOf(t.reader) != w.id:
				id = -1
			case t.rWarp == w.epoch:
				id = int16(-2 - w.id)
			}
		}
		if t.rLine = here; id < 0 && t.reader != 0 && before != here {
			t.rLine = 0
		}
		t.reader = id
		t.rEpoch, t.rWarp = s.epoch, w.epoch
	}
	return true
}

// betweenHelp is the way out of two accesses that only a barrier orders.
const betweenHelp = "Synchronize between the two"

// line is where the text has what made an access; 0 where that is not one line below
// 65536.
type line uint16

func lineOf(i *inst) line {
	if n := i.pos.Line; n == int(line(n)) {
		return line(n)
	}
	return 0
}

// String is " in line 7", and nothing where the line is not known.
func (l line) String() string {
	if l == 0 {
		return ""
	}
	return fmt.Sprintf(" in line %d", int(l))
}

func readers(r int16) string {
	if r < 0 {
		return "several threads"
	}
	return fmt.Sprintf("thread %d", r-1)
}

// found reports whether all lanes' words are what they wait for.
func (w *warp) found(i *inst) bool {
	for m := w.mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		with := w.regs[int(i.in[1])+l]
		if i.op == code.OpAwaitGlobal && with == 0 {
			continue
		}
		data := w.access(i, l, w.regs[int(i.in[0])+l]+uint64(i.imm[0]), 4)
		if data == nil {
			return false
		}
		if x := binary.LittleEndian.Uint32(data); i.op == code.OpAwaitGlobal && x == 0 || i.op == code.OpSpinGlobal && x != uint32(with) {
			return false
		}
	}
	return true
}

// where describes an address: the parameter and offset, or the shared offset.
func (w *warp) where(i *inst, addr uint64) string {
	if i.row.Space == code.Shared {
		return fmt.Sprintf("shared offset %d", int64(addr)-sharedBase)
	}
	return w.b.m.whereGlobal(addr)
}

func (m *machine) whereGlobal(addr uint64) string {
	buf, at := m.nearest(addr)
	if buf == nil {
		return fmt.Sprintf("address %#x", addr)
	}
	return fmt.Sprintf("%s byte %d (of %d)", m.f.Params[buf.param].Name, at, len(buf.data))
}

// nearest is the buffer whose start is nearest to an address, and the byte of it.
func (m *machine) nearest(addr uint64) (buf *buffer, at int64) {
	k := (addr + 1<<(bufferShift-1)) >> bufferShift
	if k == 0 || k > uint64(len(m.buffers)) {
		return nil, 0
	}
	return &m.buffers[k-1], int64(addr - k<<bufferShift)
}

// outside fails for bytes of global memory that do not all lie in one buffer.
func (w *warp) outside(lane int, addr, size uint64) {
	m := w.b.m
	buf, at := m.nearest(addr)
	if buf == nil {
		w.fail(lane, errBounds, "", "%d bytes at %s", size, m.whereGlobal(addr))
		return
	}
	if at < 0 {
		w.fail(lane, errBounds, "offsets begin at 0", "%d bytes at %s: %d of them lie before it", size, m.whereGlobal(addr), min(-at, int64(size)))
		return
	}
	p, end := m.f.Params[buf.param], at+int64(size)
	element, help := "", ""
	if t, err := dtype.Parse(p.Elem); err == nil {
		n := int64(t.Bits())
		element = fmt.Sprintf(", element %d of %s", at*8/n, t)
		help = fmt.Sprintf("leave out what lies outside, by if or a smaller tile, or give %s %d elements", p.Name, (end*8+n-1)/n)
	}
	w.fail(lane, errBounds, help, "%d bytes at %s%s: %d of them lie behind it", size, m.whereGlobal(addr), element, min(end-int64(len(buf.data)), int64(size)))
}

// atomic combines word number k of an access.
func (w *warp) atomic(i *inst, l, k int, data []byte) {
	old := binary.LittleEndian.Uint32(data)
	v := uint32(w.regs[int(i.in[1+k])+l])
	to := v
	switch i.op {
	case code.OpAtomGlobalAnd, code.OpRedGlobalAnd, code.OpAtomSharedAnd:
		to = old & v
	case code.OpAtomGlobalOr, code.OpRedGlobalOr, code.OpAtomSharedOr:
		to = old | v
	case code.OpAtomGlobalXor, code.OpAtomSharedXor:
		to = old ^ v
	case code.OpAtomGlobalMinS32, code.OpAtomSharedMinS32, code.OpRedClusterMinS32:
		to = uint32(min(int32(old), int32(v)))
	case code.OpAtomGlobalMaxS32, code.OpAtomSharedMaxS32, code.OpRedClusterMaxS32:
		to = uint32(max(int32(old), int32(v)))
	case code.OpAtomGlobalMinU32, code.OpAtomSharedMinU32:
		to = min(old, v)
	case code.OpAtomGlobalMaxU32, code.OpAtomSharedMaxU32:
		to = max(old, v)
	case code.OpAtomSharedAddF32, code.OpRedClusterAddF32:
		to = uint32(code.OpAddF32.Row().Meaning(nil, uint64(old), uint64(v), 0))
	case code.OpAtomGlobalAdd, code.OpAtomGlobalAcqRelAdd, code.OpRedGlobalAdd, code.OpAtomSharedAdd, code.OpAtomClusterAdd, code.OpRedClusterAdd:
		to = old + v
	case code.OpAtomGlobalInc, code.OpAtomGlobalAcqRelInc:
		if to = old + 1; old >= v {
			to = 0
		}
	case code.OpAtomGlobalExch, code.OpAtomGlobalAcqRelExch, code.OpAtomSharedExch, code.OpAtomClusterExch:
	case code.OpAtomGlobalCas, code.OpAtomSharedCas, code.OpAtomClusterCas:
		to = old
		if old == v {
			to = uint32(w.regs[int(i.in[2])+l])
		}
	case code.OpRedGlobalAddF16x2, code.OpRedGlobalAddF16x2V2, code.OpRedGlobalAddF16x2V4:
		to = halves(dtype.F16, old, v)
	case code.OpRedGlobalAddBF16x2, code.OpRedGlobalAddBF16x2V2, code.OpRedGlobalAddBF16x2V4:
		to = halves(dtype.BF16, old, v)
	case code.OpAtomGlobalAddF32, code.OpRedGlobalAddF32, code.OpRedGlobalAddF32V2, code.OpRedGlobalAddF32V4:
		sum := code.OpAddF32.Row().Meaning(nil, flush(old), flush(v), 0)
		to = uint32(flush(uint32(sum)))
	default:
		panic("sim: no meaning for " + i.op.String())
	}
	binary.LittleEndian.PutUint32(data, to)
	if i.nout > 0 {
		w.regs[int(i.out[0])+l] = uint64(old)
	}
}

// halves adds two floats of 16 bits each.
func halves(t dtype.Type, a, b uint32) uint32 {
	lo := dtype.Add(t, uint64(a&0xffff), uint64(b&0xffff))
	return uint32(dtype.Add(t, uint64(a>>16), uint64(b>>16))<<16 | lo&0xffff)
}

// flush makes a subnormal f32 a zero of its sign, as global float atomics do.
func flush(v uint32) uint64 {
	if v&0x7f800000 == 0 {
		v &= 1 << 31
	}
	return uint64(v)
}
