package probe

import (
	"fmt"
	"math"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds the cases of wgmma. The host places A and B in pictures of shared
// memory as each canonical layout says; a block copies its picture as it is and
// multiplies. So what is proved is the layouts, the descriptors and who holds what.

// placed is an operand of mn rows of k elements in a picture of shared memory.
type placed struct {
	c     bank.Canonical
	d     bank.Descriptor // of a tile at address 0 of its region
	bits  int
	bytes int // of its region, a multiple of 1024
}

// place chooses offsets for an operand; dense changes which of the two is the small one,
// and ahead moves the start within a row of the swizzle.
func place(mode, major string, bits, mn, k int, dense bool, ahead, lines, base int) placed {
	p := placed{c: bank.Canonical{Mode: mode, Major: major}, bits: bits}
	units := map[string]int{"none": 1, "32B": 2, "64B": 4, "128B": 8}[mode]
	groups := (mn + 7) / 8
	d := bank.Descriptor{Mode: mode, Leading: 16, Stride: 128 * units}
	switch {
	case major == "K" && units == 1 && dense:
		d.Stride, d.Leading = 128, 128*groups
	case major == "K" && units == 1:
		d.Stride, d.Leading = 256, 128
	case major == "K" && !dense:
		d.Stride = 256 * units
	case major == "MN" && units == 1 && dense:
		d.Leading, d.Stride = 128, 256
	case major == "MN" && units == 1:
		d.Leading, d.Stride = 128*groups, 128
	case major == "MN" && dense:
		d.Stride, d.Leading = 128*units, 256*units
	case major == "MN":
		d.Leading = 128 * units
		d.Stride = d.Leading * ((mn*bits/128 + units - 1) / units)
	}
	if major == "K" && units > 2 {
		d.Start = 32 * (ahead % (units / 2))
	}
	d.Start += 128 * lines
	d.BaseOffset = base
	p.d = d
	last := 0
	for r := range mn {
		for c := range k {
			last = max(last, p.at(r, c))
		}
	}
	p.bytes = (last/1024 + 1) * 1024
	return p
}

// at is the byte of element [mn, k] in the region.
func (p placed) at(mn, k int) int {
	plain, err := p.c.Plain(p.bits, p.d, mn, k)
	if err != nil {
		panic("probe: " + err.Error())
	}
	m, err := bank.FindTMAMode(p.c.Mode)
	if err != nil {
		panic("probe: " + err.Error())
	}
	shift := 128 * p.d.BaseOffset
	return m.Apply(p.d.Start+plain-shift) + shift
}

// put writes elements into a picture.
func (p placed) put(picture []byte, mn, k int, code func(mn, k int) uint64) {
	for r := range mn {
		for c := range k {
			at, v := p.at(r, c), code(r, c)
			if p.bits == 1 {
				picture[at] = picture[at]&^(1<<(c%8)) | byte(v)<<(c%8)
				continue
			}
			put(picture[at:], p.bits/8, 0, v)
		}
	}
}

// productCases are the cases of one wgmma: modes and majors of both operands, with
// and without the start value, and signs.
func productCases(op code.Op) []Case {
	row := op.Row()
	regs := strings.HasSuffix(row.Name, ".rs")
	atom, err := arch.FindAtom(row.Name)
	if err != nil {
		panic("probe: " + err.Error())
	}
	a, _ := atom.Operand("A")
	var imms [][]int64
	switch {
	case !a.Type.IsFloat():
		imms = [][]int64{nil}
	case a.Type.Bits() == 16 && regs:
		imms = [][]int64{{1, 1, 0}, {-1, -1, 1}}
	case a.Type.Bits() == 16:
		imms = [][]int64{{1, 1, 0, 0}, {-1, 1, 1, 0}, {1, -1, 0, 1}, {-1, -1, 1, 1}}
	default:
		imms = [][]int64{{1, 1}, {-1, 1}}
	}
	if n := atom.N; n&(n-1) != 0 { // one of them for most widths
		imms = imms[n/8%len(imms):][:1]
	}
	var cases []Case
	for _, imm := range imms {
		cases = append(cases, productCase(op, atom, regs, imm, 0, 0))
	}
	if atom.N == 64 && a.Type == dtype.F16 && !regs {
		// Tiles that begin inside the swizzle's pattern: without a base offset it is that of
		// the address, with one that of the tile.
		for base := range 2 {
			c := productCase(op, atom, regs, imms[0], 3, 3*base)
			c.Name = fmt.Sprintf("tiles three lines into the pattern, base offset %d", 3*base)
			cases = append(cases, c)
		}
	}
	return cases
}

// productCase is one choice of signs and majors. Tiles begin some lines of 128 bytes
// into the pattern, and descriptors say offset.
func productCase(op code.Op, atom arch.Atom, regs bool, imm []int64, lines, offset int) Case {
	src := newSource(uint64(op)*31 + uint64(len(imm)))
	oa, _ := atom.Operand("A")
	ob, _ := atom.Operand("B")
	od, _ := atom.Operand("D")
	m := newMaker(op)
	const threads = 128
	m.Func().Launch.Block = threads
	majorA, majorB := "K", "K"
	if oa.Type.Bits() == 16 {
		if imm[len(imm)-1] == 1 {
			majorB = "MN"
		}
		if !regs && imm[2] == 1 {
			majorA = "MN"
		}
	}
	signs := 1.0
	if oa.Type.IsFloat() {
		signs = float64(imm[0] * imm[1])
	}
	modes := []string{"none", "32B", "64B", "128B"}
	if lines > 0 {
		modes = []string{"128B", "128B", "128B", "128B"}
	}
	const variants = 8
	// The regions of all variants are as large as the largest.
	var pa, pb [variants]placed
	sizeA, sizeB := 0, 0
	for v := range variants {
		pa[v] = place(modes[v%4], majorA, oa.Type.Bits(), 64, atom.K, v/4 == 0, v, lines, offset)
		pb[v] = place(modes[(v+v/4)%4], majorB, ob.Type.Bits(), atom.N, atom.K, v/4 == 1, v+1, lines, offset)
		sizeB = max(sizeB, pb[v].bytes)
		if !regs {
			sizeA = max(sizeA, pa[v].bytes)
		}
	}
	size := sizeA + sizeB
	m.Func().Launch.SharedBytes = size
	pictures := make([]byte, variants*size)
	for k := range pictures {
		pictures[k] = byte(src.Uint64())
	}
	most := min(8, int(math.Sqrt(1536/float64(atom.K))))
	input := func(t dtype.Type) float64 {
		if t.IsFloat() {
			return float64(src.IntN(2*most+1) - most)
		}
		return t.Decode(src.Uint64() & t.Mask())
	}
	acc := len(op.Row().Out)
	words := make([]uint64, variants*threads*acc)
	aWords := make([]uint64, variants*threads*4)
	descs := make([]uint64, variants*3)
	want := make([]byte, 4*len(words))
	isFloat, saturate := od.Type.IsFloat(), strings.Contains(op.String(), ".satfinite")
	code64 := func(t dtype.Type, v float64) uint64 {
		if t.IsFloat() {
			return t.Encode(v, false)
		}
		return uint64(int64(v)) & t.Mask()
	}
	dSlots, perD := od.Layout.Slots(), 32/od.Type.Bits()
	for v := range variants {
		va, vb := make([]float64, 64*atom.K), make([]float64, atom.N*atom.K)
		for k := range va {
			va[k] = input(oa.Type)
		}
		for k := range vb {
			vb[k] = input(ob.Type)
		}
		picture := pictures[v*size:][:size]
		if !regs {
			pa[v].put(picture[:sizeA], 64, atom.K, func(r, c int) uint64 { return code64(oa.Type, va[r*atom.K+c]) })
		} else {
			slots, per := oa.Layout.Slots(), 32/oa.Type.Bits()
			for t := range threads {
				for s := range slots {
					at := oa.Layout.Index(t, s)
					aWords[(v*threads+t)*4+s/per] |= code64(oa.Type, va[at[0]*atom.K+at[1]]) << (s % per * oa.Type.Bits())
				}
			}
		}
		pb[v].put(picture[sizeA:], atom.N, atom.K, func(r, c int) uint64 { return code64(ob.Type, vb[r*atom.K+c]) })
		encode := func(d bank.Descriptor, at int) uint64 {
			d.Start += at
			word, err := d.Encode(bank.SM90)
			if err != nil {
				panic("probe: " + err.Error())
			}
			return word
		}
		scaleD := uint64(v % 3 & 1)
		descs[3*v], descs[3*v+1], descs[3*v+2] = encode(pa[v].d, 0), encode(pb[v].d, sizeA), scaleD
		for t := range threads {
			for s := range dSlots {
				at := od.Layout.Index(t, s)
				var start float64
				if isFloat {
					start = float64(src.IntN(1025) - 512)
				} else {
					start = float64(int32(src.Uint32()))
				}
				w, shift := (v*threads+t)*acc+s/perD, s%perD*od.Type.Bits()
				words[w] |= code64(od.Type, start) << shift
				sum := 0.0
				for k := range atom.K {
					sum += va[at[0]*atom.K+k] * vb[at[1]*atom.K+k]
				}
				if sum != 0 {
					sum *= signs
				}
				if scaleD == 1 {
					sum += start
				}
				if saturate {
					sum = min(max(sum, math.MinInt32), math.MaxInt32)
				}
				put(want[4*w:], 4, 0, element(want[4*w:], 4, 0)|code64(od.Type, sum)<<shift)
			}
		}
	}
	pics, _ := m.buffer(pictures)
	desc, _ := m.buffer(column(code.B64, descs))
	start, _ := m.buffer(column(code.B32, words))
	var fragments code.Value
	if regs {
		fragments, _ = m.buffer(column(code.B32, aWords))
	}
	out, buf := m.buffer(make([]byte, len(want)))
	base := m.SharedBase()
	from := m.Add64(pics, m.MulWideU(m.CtaidX(), m.Const32(int64(size))))
	m.For(m.Shl32(m.TidX(), m.Const32(4)), m.Const32(int64(size)), m.Const32(16*threads), 1, nil, func(i code.Value, _ []code.Value) []code.Value {
		m.StSharedV(m.Add32(base, i), 0, m.LdGlobalV(4, m.Add64(from, m.Zext32(i)), 0, 0)...)
		return nil
	})
	m.Emit(code.OpFenceProxyAsync, nil)
	m.BarSync()
	words3 := m.Add64(desc, m.MulWideU(m.CtaidX(), m.Const32(24)))
	move := m.Zext32(m.Shr32(base, m.Const32(4)))
	thread := m.thread()
	var in []code.Value
	if regs {
		at := m.at(fragments, thread, 16)
		for k := range 4 {
			in = append(in, m.load(code.B32, at, 4*k))
		}
	} else {
		in = append(in, m.Add64(m.load(code.B64, words3, 0), move))
	}
	in = append(in, m.Add64(m.load(code.B64, words3, 8), move), m.SetpU32(code.NE, m.load(code.B32, words3, 16), m.Const32(0)))
	at := m.at(start, thread, 4*acc)
	for k := range acc {
		in = append(in, m.load(code.B32, at, 4*k))
	}
	m.Emit(code.OpWgmmaFence, nil)
	d := m.Emit(op, imm, in...)
	m.Emit(code.OpWgmmaCommit, nil)
	d = m.Emit(code.OpWgmmaWait, []int64{0}, d...)
	to := m.at(out, thread, 4*acc)
	for k, v := range d {
		m.store(v, to, 4*k)
	}
	c := m.done(fmt.Sprintf("signs and majors %v", imm), variants)
	c.Out = []Out{{Buf: buf, Size: 4, Label: func(k int) string {
		return fmt.Sprintf("A %v, B %v, thread %d register %d", pa[k/acc/threads].d, pb[k/acc/threads].d, k/acc%threads, k%acc)
	}}}
	c.Want = func() [][]byte { return [][]byte{want} }
	return c
}
