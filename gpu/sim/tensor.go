package sim

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds the copies of the asynchronous proxy: bulk copies and those of
// tensor maps. A copy is checked when it begins; its bytes move when it lands.

// mapSpace is where addresses of tensor maps lie; maps are 128 bytes apart.
const mapSpace = 1 << 62

// tensorMap is a tensor map of a launch.
type tensorMap struct {
	m       *code.TensorMap
	name    string
	buf     int    // index in machine.buffers
	base    uint64 // offset of the tensor in the buffer
	dims    []uint64
	strides []uint64 // bytes; the first is of the inner dimension
	mode    bank.TMAMode
	fill    []byte // an element outside
}

// tensorMap makes the map of a parameter.
func (m *machine) tensorMap(p code.Param, scalars map[string]int64) (*tensorMap, error) {
	t := p.Map
	offset, dims, strides, err := t.Shape(scalars)
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	k := -1
	for i := range m.buffers {
		if m.f.Params[m.buffers[i].param].Name == t.Base {
			k = i
		}
	}
	if k < 0 {
		return nil, fmt.Errorf("sim: tensor map %s of %s, which is no buffer", p.Name, t.Base)
	}
	if t.Interleave != code.InterleaveNone {
		return nil, fmt.Errorf("sim: tensor map %s: interleaved channels are not simulated", p.Name)
	}
	desc := bank.TensorMap{ElementBytes: t.Type.Bytes(), Float: t.Type.Float(), Address: uint64(offset), Dims: dims, Strides: strides, Box: t.Box, ElementStrides: t.ElementStrides, Swizzle: t.Swizzle.String(), FillNaN: t.FillNaN}
	if bad := desc.Check(); len(bad) > 0 {
		for i := range bad {
			bad[i].Pos = m.firstUse(p)
			bad[i].Msg = fmt.Sprintf("tensor map of %s: %s", t.Base, bad[i].Msg)
		}
		return nil, fmt.Errorf("sim: %w", bad.Err())
	}
	out := &tensorMap{m: t, name: p.Name, buf: k, base: uint64(offset), dims: dims, strides: append([]uint64{uint64(t.Type.Bytes())}, strides...)}
	last := out.base + uint64(t.Type.Bytes())
	for d, n := range dims {
		last += (n - 1) * out.strides[d]
	}
	if last > uint64(len(m.buffers[k].data)) {
		return nil, fmt.Errorf("sim: tensor map %s reaches %d bytes into %s, which has %d", p.Name, last, t.Base, len(m.buffers[k].data))
	}
	if out.mode, err = bank.FindTMAMode(desc.Swizzle); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	out.fill = make([]byte, t.Type.Bytes())
	if t.FillNaN { // as an H200 has it, of every type
		for i := range out.fill {
			out.fill[i] = [...]byte{0xf7, 0x7f}[i%2]
		}
	}
	return out, nil
}

// firstUse is where a parameter is first used.
func (m *machine) firstUse(p code.Param) (at diag.Pos) {
	i := slices.IndexFunc(m.f.Params, func(q code.Param) bool { return q.Name == p.Name })
	m.f.Body.Walk(func(in *code.Instr) {
		if !at.Known() && slices.Contains(in.In, m.f.Body.Args[i]) {
			at = in.Pos
		}
	})
	return at
}

// chunks calls f for each 16 bytes of a box: their place in shared memory for a copy
// to address at, and for each element its offset in the buffer, -1 outside.
func (t *tensorMap) chunks(at uint64, coords []int64, f func(at uint64, from []int64)) {
	size := t.m.Type.Bytes()
	per := 16 / size
	counts := make([]int, len(t.m.Box))
	step := make([]int64, len(t.m.Box))
	for d, n := range t.m.Box {
		step[d], counts[d] = 1, n
		if d > 0 && d < len(t.m.ElementStrides) {
			step[d] = int64(t.m.ElementStrides[d])
			counts[d] = (n + t.m.ElementStrides[d] - 1) / t.m.ElementStrides[d]
		}
	}
	index := make([]int, len(counts))
	from := make([]int64, per)
	plain := int(at)
	for {
		outer, inside := int64(t.base), true
		for d := 1; d < len(counts); d++ {
			x := coords[d] + int64(index[d])*step[d]
			inside = inside && x >= 0 && uint64(x) < t.dims[d]
			outer += x * int64(t.strides[d])
		}
		for first := 0; first < counts[0]; first += per {
			for e := range from {
				x := coords[0] + int64(first+e)
				if from[e] = -1; inside && x >= 0 && uint64(x) < t.dims[0] {
					from[e] = outer + x*int64(size)
				}
			}
			f(uint64(t.mode.Apply(plain)), from)
			plain += 16
		}
		plain += max(t.mode.Span-counts[0]*size, 0) // rows lie as far apart as the swizzle's, as an H200 has it
		d := 1
		for ; d < len(index); d++ {
			if index[d]++; index[d] < counts[d] {
				break
			}
			index[d] = 0
		}
		if d >= len(index) {
			return
		}
	}
}

// whole makes 16 bytes of which some lie in the tensor lie in it altogether: so an
// H200 stores.
func (t *tensorMap) whole(from []int64) {
	for e := range from {
		if from[0] >= 0 {
			from[e] = from[0] + int64(e*t.m.Type.Bytes())
		}
	}
}

// bulkGroups are the groups of a lane's copies out of shared memory, the oldest
// first.
type bulkGroups struct {
	open   []*bulkRead
	groups [][]*bulkRead
}

// bulkRead is what a copy out of shared memory reads.
type bulkRead struct {
	job    *job
	at     []uint64 // offsets of 16 bytes
	read   bool     // waited for
	landed bool
}

// proxyCopy executes an instruction that begins a copy, lane by lane.
func (w *warp) proxyCopy(i *inst) {
	st := &w.b.stats
	for mask := w.mask; mask != 0 && w.b.err == nil; mask &= mask - 1 {
		l := bits.TrailingZeros32(mask)
		st.ProxyCopies++
		switch {
		case strings.HasPrefix(i.row.Name, "tensor."):
			w.tensorCopy(i, l)
		default:
			w.bulkCopy(i, l)
		}
	}
}

func (w *warp) in32(i *inst, k, l int) uint64 { return uint64(uint32(w.regs[int(i.in[k])+l])) }

// targets is the blocks that a copy with a mask writes to: those of its bits, or the
// one of the address.
func (w *warp) targets(i *inst, l, maskAt int, addr uint64) ([]*block, uint64, bool) {
	b, at, ok := w.resolve(l, addr)
	if !ok {
		return nil, 0, false
	}
	if maskAt < 0 {
		return []*block{b}, at, true
	}
	set := w.regs[int(i.in[maskAt])+l] & 0xffff
	var all []*block
	for r, b := range w.b.cl.blocks {
		if set>>r&1 != 0 {
			if _, _, ok := w.resolve(l, uint64(r+1)<<windowShift|at+sharedBase); !ok {
				return nil, 0, false
			}
			all = append(all, b)
		}
	}
	if set>>len(w.b.cl.blocks) != 0 || set == 0 {
		w.fail(l, errBounds, "", "the mask %#x names no block, or one that the cluster of %d does not have", set, len(w.b.cl.blocks))
		return nil, 0, false
	}
	return all, at, true
}

// inside checks that bytes lie in a block's shared memory.
func (w *warp) inside(l int, b *block, at, size uint64) bool {
	if n := uint64(len(b.shared.data)); at > n || at+size > n {
		w.fail(l, errBounds, "", "%d bytes at shared offset %d, of %d bytes", size, int64(at), n)
		return false
	}
	return true
}

// tensorCopy begins a copy of one lane.
func (w *warp) tensorCopy(i *inst, l int) {
	var rank int
	var rest string
	if _, err := fmt.Sscanf(i.row.Name, "tensor.%dd.%s", &rank, &rest); err != nil {
		panic("sim: " + i.row.Name)
	}
	load, prefetch := strings.HasPrefix(rest, "load"), rest == "prefetch"
	mapAt, first := 0, 2
	switch {
	case load:
		mapAt, first = 1, 3
	case prefetch:
		first = 1
	}
	v := w.regs[int(i.in[mapAt])+l]
	k := (v - mapSpace) / 128
	if v < mapSpace || v%128 != 0 || k >= uint64(len(w.b.m.maps)) {
		w.fail(l, errBounds, "pass the tensor map as a parameter", "there is no tensor map at address %#x", v)
		return
	}
	t := w.b.m.maps[k]
	if len(t.dims) != rank {
		w.fail(l, errBounds, "", "a copy of %d dimensions with %s, which has %d", rank, t.name, len(t.dims))
		return
	}
	coords := make([]int64, rank)
	for d := range coords {
		coords[d] = int64(int32(uint32(w.regs[int(i.in[first+d])+l])))
	}
	if first := coords[0] * int64(t.m.Type.Bytes()); first%16 != 0 {
		w.fail(l, errAlign, "the inner coordinate is a multiple of 16 bytes", "the box begins at byte %d of a row, which is no multiple of 16", first)
		return
	}
	if prefetch {
		return
	}
	buf := &w.b.m.buffers[t.buf]
	bytes := t.m.BoxBytes()
	w.b.stats.ProxyBytes += int64(bytes)
	size := int64(t.m.Type.Bytes())
	if load {
		dst := w.in32(i, 0, l) + uint64(i.imm[0])
		maskAt := -1
		if strings.Contains(rest, "multicast") {
			maskAt = first + rank
		}
		blocks, at, ok := w.targets(i, l, maskAt, dst)
		if !ok || !w.tensorPlace(l, blocks, at, t) {
			return
		}
		barAddr := w.in32(i, 2, l) + uint64(i.imm[1])
		var bars []*mbar
		for _, b := range blocks {
			addr := barAddr
			if maskAt >= 0 {
				addr = uint64(b.rank+1)<<windowShift | barAddr&(1<<windowShift-1)
			}
			m := w.copyBar(l, addr)
			if m == nil {
				return
			}
			if m.b != b && !(strings.Contains(rest, "pair") && m.b.rank^1 == b.rank) {
				w.fail(l, errBarrier, "", "the copy goes to block rank %d, and its barrier lies in block rank %d", b.rank, m.b.rank)
				return
			}
			bars = append(bars, m)
		}
		good := true
		var places []uint64
		t.chunks(at+sharedBase, coords, func(place uint64, from []int64) {
			places = append(places, place-sharedBase)
			good = good && w.boxTouch(i, l, buf, from, size, false)
			for _, b := range blocks {
				good = good && w.touch(l, b, place-sharedBase, 16, copyWrite, false)
			}
		})
		if !good {
			return
		}
		j := w.b.cl.begin(w, i, func(j *job) *diag.Problem {
			for k, b := range blocks {
				if p := j.arrives(b, bars[k]); p != nil {
					return p
				}
				t.chunks(at+sharedBase, coords, func(place uint64, from []int64) {
					place -= sharedBase
					for e, f := range from {
						data := t.fill
						if f >= 0 {
							data = buf.data[f : f+size]
						}
						copy(b.shared.data[place+uint64(int64(e)*size):], data)
					}
					b.ledger.landed(bars[k].comp, bars[k].phase+1, place, 16)
				})
				if bad := bars[k].complete(int64(bytes)); bad != "" {
					return j.problem(errCount, "expect as many bytes as copies bring", "%s", bad)
				}
			}
			return nil
		})
		for _, b := range blocks {
			for _, place := range places {
				b.ledger.expect(j, place, 16)
			}
		}
		return
	}
	for _, c := range coords {
		if c < 0 {
			w.fail(l, errBounds, "only copies into shared memory may begin before the tensor", "the box begins at %v of %s", coords, w.b.m.f.Params[buf.param].Name)
			return
		}
	}
	src := w.in32(i, 1, l) + uint64(i.imm[0])
	b, at, ok := w.resolve(l, src)
	if !ok || !w.tensorPlace(l, []*block{b}, at, t) {
		return
	}
	if buf.readOnly {
		w.fail(l, errReadOnly, "", "write to %s, which is read only", w.b.m.f.Params[buf.param].Name)
		return
	}
	good := true
	read := &bulkRead{}
	t.chunks(at+sharedBase, coords, func(place uint64, from []int64) {
		t.whole(from)
		if last := from[len(from)-1]; good && last+size > int64(len(buf.data)) {
			w.fail(l, errBounds, "let rows end at multiples of 16 bytes", "the machine writes whole 16 bytes, to byte %d of %s, which has %d", last+size, w.b.m.f.Params[buf.param].Name, len(buf.data))
			good = false
		}
		good = good && (strings.HasPrefix(rest, "reduce") || w.boxTouch(i, l, buf, from, size, true))
		good = good && w.touch(l, b, place-sharedBase, 16, copyRead, false)
		read.at = append(read.at, place-sharedBase)
	})
	if !good {
		return
	}
	op, _ := strings.CutPrefix(rest, "reduce.")
	w.beginStore(i, l, read, func() {
		if op != rest { // blocks run side by side
			w.b.m.atomics.Lock()
			defer w.b.m.atomics.Unlock()
		}
		t.chunks(at+sharedBase, coords, func(place uint64, from []int64) {
			t.whole(from)
			for e, f := range from {
				if f < 0 {
					continue
				}
				data := b.shared.data[place-sharedBase+uint64(int64(e)*size):][:size]
				if strings.HasPrefix(rest, "reduce") {
					reduce(buf.data[f:f+size], data, op, t.m.Type)
				} else {
					copy(buf.data[f:f+size], data)
				}
			}
		})
	})
}

// beginStore begins a copy out of shared memory in the lane's open group.
func (w *warp) beginStore(i *inst, l int, read *bulkRead, land func()) {
	b := w.b
	read.job = b.cl.begin(w, i, func(*job) *diag.Problem {
		read.landed = true
		land()
		return nil
	})
	for _, at := range read.at {
		b.ledger.hold(read.job, at, 16)
	}
	w.bulk[l].open = append(w.bulk[l].open, read)
}

// tensorPlace checks where a box lies.
func (w *warp) tensorPlace(l int, blocks []*block, at uint64, t *tensorMap) bool {
	row := t.m.Box[0] * t.m.Type.Bytes()
	size := uint64(t.m.BoxBytes() / row * max(row, t.mode.Span))
	if at%128 != 0 {
		w.fail(l, errAlign, "", "a box at shared offset %d, which is no multiple of 128", int64(at))
		return false
	}
	for _, b := range blocks {
		if !w.inside(l, b, at, (size+127)/128*128) { // the swizzle moves bytes within lines of 128
			return false
		}
	}
	return true
}

// boxTouch checks a lane's access to the elements of 16 bytes of a box.
func (w *warp) boxTouch(i *inst, lane int, buf *buffer, from []int64, size int64, write bool) bool {
	if from[0] >= 0 && from[len(from)-1] >= 0 {
		return w.globalTouch(i, lane, buf, uint64(from[0]), 16, write)
	}
	for _, f := range from {
		if f >= 0 && !w.globalTouch(i, lane, buf, uint64(f), uint64(size), write) {
			return false
		}
	}
	return true
}

// globalTouch checks a lane's access to global memory by a copy.
func (w *warp) globalTouch(i *inst, lane int, buf *buffer, at, size uint64, write bool) bool {
	if buf.track != nil {
		as := *i
		as.row = loadRows[4]
		if write {
			as.row = code.OpStGlobalB32.Row()
		}
		k := uint64(0)
		for j := range w.b.m.buffers {
			if &w.b.m.buffers[j] == buf {
				k = uint64(j+1) << bufferShift
			}
		}
		if !w.touchedGlobal(&as, lane, buf.track, at, size, k+at) {
			return false
		}
	}
	if buf.set != nil {
		for j := at; j < at+size; j++ {
			if write {
				buf.set[j] = true
			} else if !buf.set[j] {
				w.fail(lane, errUnset, setFirst, "read of %s byte %d before anything was written there", w.b.m.f.Params[buf.param].Name, j)
				return false
			}
		}
	}
	return true
}

// reduce is what a reducing copy does to one element.
func reduce(to, from []byte, op string, t code.MapType) {
	size := len(to)
	read := func(b []byte) uint64 {
		var v [8]byte
		copy(v[:], b)
		return binary.LittleEndian.Uint64(v[:])
	}
	a, b := read(to), read(from)
	var v uint64
	elem := map[code.MapType]dtype.Type{code.MapF16: dtype.F16, code.MapBF16: dtype.BF16, code.MapF32: dtype.F32, code.MapF64: dtype.F64, code.MapI32: dtype.I32, code.MapI64: dtype.I64, code.MapU8: dtype.U8, code.MapU16: dtype.U16, code.MapU32: dtype.U32, code.MapU64: dtype.U64}[t]
	switch op {
	case "add":
		v = dtype.Add(elem, a, b)
	case "min":
		v = dtype.Min(elem, a, b)
	case "max":
		v = dtype.Max(elem, a, b)
	case "and":
		v = a & b
	case "or":
		v = a | b
	case "xor":
		v = a ^ b
	case "inc":
		if v = a + 1; a >= b {
			v = 0
		}
	case "dec":
		if v = a - 1; a == 0 || a > b {
			v = b
		}
	}
	var out [8]byte
	binary.LittleEndian.PutUint64(out[:], v)
	copy(to, out[:size])
}

// bulkWait executes commit and the waits of bulk groups.
func (w *warp) bulkWait(i *inst) (waits bool) {
	for m := w.mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		g := &w.bulk[l]
		if i.op == code.OpBulkCommit {
			g.groups, g.open = append(g.groups, g.open), nil
			continue
		}
		for k, group := range g.groups {
			if k >= len(g.groups)-int(i.imm[0]) {
				break
			}
			for _, r := range group {
				if !r.landed {
					w.waits = true
					return true
				}
			}
		}
	}
	if i.op == code.OpBulkCommit {
		return false
	}
	for m := w.mask; m != 0; m &= m - 1 {
		l := bits.TrailingZeros32(m)
		g := &w.bulk[l]
		n := len(g.groups) - int(i.imm[0])
		for k := 0; k < n; k++ {
			for _, r := range g.groups[k] {
				if r.read {
					continue
				}
				r.read = true
				for _, at := range r.at {
					w.b.ledger.free(w, l, at, 16)
				}
			}
		}
		if n > 0 && i.op == code.OpBulkWait {
			g.groups = g.groups[n:]
		}
	}
	return false
}

// bulkCopy begins a copy of bytes that lie behind each other, or of registers.
func (w *warp) bulkCopy(i *inst, l int) {
	name := i.row.Name
	size := func(k int) (uint64, bool) {
		n := w.in32(i, k, l)
		if n%16 != 0 {
			w.fail(l, errAlign, "", "%d bytes, which is no multiple of 16", n)
			return 0, false
		}
		w.b.stats.ProxyBytes += int64(n)
		return n, true
	}
	aligned := func(at, to uint64) bool {
		if at%to != 0 {
			w.fail(l, errAlign, "", "address %#x is no multiple of %d", at, to)
			return false
		}
		return true
	}
	switch {
	case i.op == code.OpBulkPrefetch:
	case strings.HasPrefix(name, "cp.async.bulk.shared::cluster.global"):
		n, ok := size(2)
		dst, src := w.in32(i, 0, l)+uint64(i.imm[0]), w.regs[int(i.in[1])+l]+uint64(i.imm[1])
		if !ok || !aligned(dst, 16) || !aligned(src, 16) {
			return
		}
		maskAt := -1
		if strings.Contains(name, "multicast") {
			maskAt = 4
		}
		blocks, at, ok := w.targets(i, l, maskAt, dst)
		if !ok {
			return
		}
		buf, from, ok := w.globalBytes(i, l, src, n, false)
		if !ok {
			return
		}
		w.landing(i, l, blocks, at, n, w.in32(i, 3, l)+uint64(i.imm[2]), maskAt >= 0, func(b *block) {
			copy(b.shared.data[at:at+n], buf.data[from:from+n])
		})
	case i.op == code.OpBulkToCluster:
		n, ok := size(2)
		dst, src := w.in32(i, 0, l)+uint64(i.imm[0]), w.in32(i, 1, l)+uint64(i.imm[1])-sharedBase
		if !ok || !aligned(dst, 16) || !aligned(src, 16) || !w.inside(l, w.b, src, n) || !w.touch(l, w.b, src, n, copyRead, false) {
			return
		}
		blocks, at, ok := w.targets(i, l, -1, dst)
		if !ok {
			return
		}
		data := append([]byte(nil), w.b.shared.data[src:src+n]...)
		if j := w.landing(i, l, blocks, at, n, w.in32(i, 3, l)+uint64(i.imm[2]), false, func(b *block) { copy(b.shared.data[at:at+n], data) }); j != nil {
			w.b.ledger.hold(j, src, n)
			j.free = func(m *mbar) {
				w.b.ledger.freeAs(w, reader{comp: int32(m.comp + 1), tick: m.phase + 1, lane: -1}, src, n)
			}
		}
	case i.op == code.OpBulkStore, i.op == code.OpBulkStoreHint:
		n, ok := size(2)
		dst, src := w.regs[int(i.in[0])+l]+uint64(i.imm[0]), w.in32(i, 1, l)+uint64(i.imm[1])-sharedBase
		if !ok || !aligned(dst, 16) || !aligned(src, 16) || !w.inside(l, w.b, src, n) || !w.touch(l, w.b, src, n, copyRead, false) {
			return
		}
		buf, to, ok := w.globalBytes(i, l, dst, n, true)
		if !ok {
			return
		}
		read := &bulkRead{}
		for k := uint64(0); k < n; k += 16 {
			read.at = append(read.at, src+k)
		}
		b := w.b
		w.beginStore(i, l, read, func() { copy(buf.data[to:to+n], b.shared.data[src:src+n]) })
	case strings.HasPrefix(name, "st.async"), i.op == code.OpRedAsyncAdd:
		bar, first := 1, 2
		var values []uint64
		if i.op == code.OpRedAsyncAdd {
			bar, first = 2, 1
		}
		var bytes []byte
		for k, t := range i.row.In[first:] {
			if first+k == bar {
				continue
			}
			v := w.regs[int(i.in[first+k])+l]
			values = append(values, v)
			for e := range t.Bits() / 8 {
				bytes = append(bytes, byte(v>>(8*e)))
			}
		}
		n := uint64(len(bytes))
		dst := w.in32(i, 0, l) + uint64(i.imm[0])
		if !aligned(dst, n) {
			return
		}
		blocks, at, ok := w.targets(i, l, -1, dst)
		if !ok {
			return
		}
		w.landing(i, l, blocks, at, n, w.in32(i, bar, l)+uint64(i.imm[1]), false, func(b *block) {
			if i.op == code.OpRedAsyncAdd {
				binary.LittleEndian.PutUint32(bytes, binary.LittleEndian.Uint32(b.shared.data[at:])+uint32(values[0]))
			}
			copy(b.shared.data[at:at+n], bytes)
		})
	case i.op == code.OpClcTryCancel, i.op == code.OpClcTryCancelMulticast:
		w.takeCluster(i, l)
	default:
		w.fail(l, errBounds, "", "%s is not simulated", name)
	}
}

// arrives says that a copy lands in a block, which may be another than the one that began it and
// must not have ended.
func (j *job) arrives(b *block, m *mbar) *diag.Problem {
	switch {
	case b == j.w.b:
	case b.over && !b.m.opt.Fast:
		return j.problem(errRace, "wait at the cluster's barrier before blocks end", "block rank %d has ended before the copy to it is there", b.rank)
	default:
		b.ledger.usedBy(m.comp, m.phase+1, j.pos)
	}
	return nil
}

// landing begins a copy into shared memory that is counted at a barrier of each
// block it goes to; nil where it fails.
func (w *warp) landing(i *inst, l int, blocks []*block, at, n, barAddr uint64, each bool, write func(*block)) *job {
	var bars []*mbar
	for _, b := range blocks {
		addr := barAddr
		if each {
			addr = uint64(b.rank+1)<<windowShift | barAddr&(1<<windowShift-1)
		}
		m := w.copyBar(l, addr)
		if m == nil || !w.inside(l, b, at, n) {
			return nil
		}
		if m.b != b {
			w.fail(l, errBarrier, "", "the copy goes to block rank %d, and its barrier lies in block rank %d", b.rank, m.b.rank)
			return nil
		}
		if i.op != code.OpRedAsyncAdd && !w.touch(l, b, at, n, copyWrite, false) {
			return nil
		}
		bars = append(bars, m)
	}
	j := w.b.cl.begin(w, i, func(j *job) *diag.Problem {
		if j.free != nil {
			j.free(bars[0])
		}
		for k, b := range blocks {
			if p := j.arrives(b, bars[k]); p != nil {
				return p
			}
			write(b)
			if i.op != code.OpRedAsyncAdd {
				b.ledger.landed(bars[k].comp, bars[k].phase+1, at, n)
			}
			if bad := bars[k].complete(int64(n)); bad != "" {
				return j.problem(errCount, "expect as many bytes as copies bring", "%s", bad)
			}
		}
		return nil
	})
	for _, b := range blocks {
		if i.op != code.OpRedAsyncAdd {
			b.ledger.expect(j, at, n)
		}
	}
	return j
}

// globalBytes is the buffer and offset of bytes in global memory.
func (w *warp) globalBytes(i *inst, l int, addr, n uint64, write bool) (*buffer, uint64, bool) {
	m := w.b.m
	k, at := addr>>bufferShift, addr&(1<<bufferShift-1)
	if k == 0 || k > uint64(len(m.buffers)) || at+n > uint64(len(m.buffers[k-1].data)) {
		w.outside(l, addr, n)
		return nil, 0, false
	}
	buf := &m.buffers[k-1]
	if write && buf.readOnly {
		w.fail(l, errReadOnly, "", "write to %s, which is read only", m.f.Params[buf.param].Name)
		return nil, 0, false
	}
	return buf, at, w.globalTouch(i, l, buf, at, n, write)
}

// takeCluster executes clusterlaunchcontrol.try_cancel: it takes the next cluster that
// has not begun. The answer is whether there was one and its first block; how the
// machine writes it is its own affair.
func (w *warp) takeCluster(i *inst, l int) {
	m := w.b.m
	dst := w.in32(i, 0, l) + uint64(i.imm[0])
	if dst%16 != 0 {
		w.fail(l, errAlign, "", "the answer at address %#x, which is no multiple of 16", dst)
		return
	}
	blocks, at, ok := w.targets(i, l, -1, dst)
	if !ok {
		return
	}
	each := i.op == code.OpClcTryCancelMulticast
	if each {
		blocks = w.b.cl.blocks
	}
	var answer [16]byte
	if n := m.next.Add(1) - 1; n < m.run {
		answer[0] = 1
		for d, x := range w.b.cl.first(int(n)) {
			binary.LittleEndian.PutUint32(answer[4+4*d:], uint32(x))
		}
	}
	w.landing(i, l, blocks, at, 16, w.in32(i, 1, l)+uint64(i.imm[1]), each, func(b *block) { copy(b.shared.data[at:], answer[:]) })
}
