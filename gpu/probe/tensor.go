package probe

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds the cases of copies by tensor maps.

// boxCount is the boxes that each tensor copy is tried with.
const boxCount = 8

// box is one copy of a case: a map, where it goes in shared memory, and where the
// box begins in the tensor.
type box struct {
	m      *code.TensorMap
	offset int // of the tensor in its buffer
	at     int // in shared memory
	coords []int
}

// boxes is the copies that a row of a rank is tried with: each swizzle, elements of
// several sizes, boxes that stick out at both ends, steps between elements, places
// that do not begin with the swizzle's pattern.
func boxes(rank int, types []code.MapType, load bool, v int) (all []box, bytes, shared int) {
	bytes, shared = 64*v, 128*v
	{
		t := types[v%len(types)]
		size := t.Bytes()
		sw := code.MapSwizzle(v % 4)
		span := []int{64, 32, 64, 128}[sw]
		if v == 7 { // rows narrower than the swizzle
			span = 64
		}
		m := &code.TensorMap{Base: "p0", Type: t, Swizzle: sw, Promotion: code.MapPromotion(v % 4), FillNaN: v%2 == 1 && t.Float()}
		b := box{m: m, offset: bytes, at: shared}
		stride := int64(0)
		total := 1
		for d := range rank {
			extent, edge := 256/size+5, span/size
			switch d {
			case 1:
				extent, edge = 9, 8
			case 2:
				extent, edge = 4, 2
			case 3, 4:
				extent, edge = 3, 2
			}
			if d > 0 {
				m.Strides = append(m.Strides, affine.Const(stride))
				stride *= int64(extent)
			} else {
				stride = int64((extent*size + 31) / 16 * 16)
			}
			m.Dims = append(m.Dims, affine.Const(int64(extent)))
			m.Box = append(m.Box, edge)
			total *= edge
			c := []int{1, 0, 0, 1, 0}[d]
			switch v {
			case 1, 5:
				c = extent - edge/2 - 1 // past the end
			case 2, 6:
				if c = -1 - d%2; !load { // only loads may begin before the tensor
					c = 1 - d%2
				}
			case 3:
				c = d
			}
			if per := 16 / size; d == 0 { // a box begins at a multiple of 16 bytes
				switch {
				case c >= per:
					c -= c % per
				case c != 0:
					c *= per
				}
			}
			b.coords = append(b.coords, c)
		}
		if load && v == 4 && rank > 1 {
			m.ElementStrides = make([]int, rank)
			for d := range m.ElementStrides {
				m.ElementStrides[d] = 1
			}
			m.ElementStrides[1] = 2
		}
		if rank == 1 {
			stride = int64(((256/size+5)*size + 31) / 16 * 16)
		}
		m.Offset = affine.Const(int64(b.offset))
		bytes += int(stride)
		row := m.Box[0] * size
		shared += (m.BoxBytes()/row*max(row, []int{0, 32, 64, 128}[sw])+127)/128*128 + 128*(v%3+1)
		all = append(all, b)
	}
	return all, (bytes + 63) / 64 * 64, (shared + 1023) / 1024 * 1024
}

// each calls f for the elements of a box: byte in shared memory and in the buffer, -1
// outside of the tensor.
func (b box) each(store bool, f func(shared, global int)) {
	t := bank.TensorMap{ElementBytes: b.m.Type.Bytes(), Box: b.m.Box, ElementStrides: b.m.ElementStrides, Swizzle: b.m.Swizzle.String()}
	index := make([]int, len(b.m.Box))
	whole := 0 // of 16 bytes of which the first lie in the tensor, a store writes all
	for {
		global, inside := b.offset, true
		for d, i := range index {
			step := 1
			if b.m.ElementStrides != nil {
				step = b.m.ElementStrides[d]
			}
			x := b.coords[d] + i*step
			extent, _ := b.m.Dims[d].Const()
			inside = inside && x >= 0 && x < int(extent)
			stride := int64(t.ElementBytes)
			if d > 0 {
				stride, _ = b.m.Strides[d-1].Const()
			}
			global += x * int(stride)
		}
		if !inside {
			global = -1
		}
		if per := 16 / t.ElementBytes; store && index[0]%per == 0 {
			whole = global
		} else if store && whole >= 0 {
			global = whole + index[0]%per*t.ElementBytes
		}
		f(t.At(b.at, index...), global)
		d := 0
		for ; d < len(index); d++ {
			n := b.m.Box[d]
			if b.m.ElementStrides != nil && d > 0 {
				n = (n + b.m.ElementStrides[d] - 1) / b.m.ElementStrides[d]
			}
			if index[d]++; index[d] < n {
				break
			}
			index[d] = 0
		}
		if d == len(index) {
			return
		}
	}
}

// tensorCases are the cases of one tensor copy.
func tensorCases(op code.Op) []Case {
	var rank int
	var word string
	if _, err := fmt.Sscanf(op.String(), "tensor.%dd.%s", &rank, &word); err != nil {
		panic("probe: " + op.String())
	}
	types := []code.MapType{code.MapU8, code.MapF16, code.MapF32, code.MapU64, code.MapBF16, code.MapF32, code.MapI32, code.MapF64}
	switch {
	case strings.HasPrefix(word, "load"), word == "prefetch":
		return each(func(v int) Case { return tensorLoad(op, rank, word, types, v) })
	case word == "reduce.add":
		types = []code.MapType{code.MapU32, code.MapI32, code.MapU64, code.MapF16, code.MapBF16}
	case word == "reduce.min", word == "reduce.max":
		types = []code.MapType{code.MapU32, code.MapI32, code.MapU64, code.MapI64, code.MapF16, code.MapBF16}
	case word == "reduce.inc", word == "reduce.dec":
		types = []code.MapType{code.MapU32}
	case strings.HasPrefix(word, "reduce"):
		types = []code.MapType{code.MapU32, code.MapU64}
	}
	return each(func(v int) Case { return tensorStore(op, rank, word, types, v) })
}

// each makes a case of each box: one that the machine refuses hides no other.
func each(f func(v int) Case) (cases []Case) {
	for v := range boxCount {
		cases = append(cases, f(v))
	}
	return cases
}

// maps adds the tensor maps of boxes as parameters.
func (m *maker) maps(all []box) []code.Value {
	var out []code.Value
	for v, b := range all {
		out = append(out, m.Param(code.Param{Name: fmt.Sprintf("map%d", v), Kind: code.Tensor, Type: code.B64, Map: b.m}))
	}
	return out
}

// coordinates are a box's as constants and registers by turns.
func (m *maker) coordinates(b box, zero code.Value) []code.Value {
	var out []code.Value
	for d, c := range b.coords {
		v := m.Const32(int64(c))
		if d%2 == 1 {
			v = m.Add32(v, zero)
		}
		out = append(out, v)
	}
	return out
}

// dump stores shared memory, threads taking 16 bytes by turns.
func (m *maker) dump(to code.Value, size int) {
	base := m.SharedBase()
	at := m.Add64(to, m.MulWideU(m.CtaidX(), m.Const32(int64(size))))
	m.For(m.Shl32(m.TidX(), m.Const32(4)), m.Const32(int64(size)), m.Const32(int64(16*m.Func().Launch.Block)), 1, nil, func(i code.Value, _ []code.Value) []code.Value {
		m.StGlobalV(m.Add64(at, m.Zext32(i)), 0, 0, m.LdSharedV(4, m.Add32(base, i), 0)...)
		return nil
	})
}

// fill writes shared memory from a buffer, or with a pattern.
func (m *maker) fill(from code.Value, size int) {
	base := m.SharedBase()
	m.For(m.Shl32(m.TidX(), m.Const32(4)), m.Const32(int64(size)), m.Const32(int64(16*m.Func().Launch.Block)), 1, nil, func(i code.Value, _ []code.Value) []code.Value {
		words := []code.Value{m.Const32(pristine), m.Const32(pristine), m.Const32(pristine), m.Const32(pristine)}
		if from != 0 {
			words = m.LdGlobalV(4, m.Add64(from, m.Zext32(i)), 0, 0)
		}
		m.StSharedV(m.Add32(base, i), 0, words...)
		return nil
	})
}

const pristine = 0x6b6b6b6b

// first runs body in one thread.
func (m *maker) first(body func()) {
	m.If(m.SetpU32(code.EQ, m.TidX(), m.Const32(0)), func() []code.Value {
		body()
		return nil
	}, nil)
}

func tensorLoad(op code.Op, rank int, word string, types []code.MapType, pick int) Case {
	src := newSource(uint64(rank))
	all, n, shared := boxes(rank, types, true, pick)
	m := newMaker(op)
	m.Func().Launch.Block = 128
	m.Func().Launch.SharedBytes = shared + 8*len(all)
	multicast := strings.Contains(word, "multicast")
	blocks := 1
	if multicast {
		blocks = 3
		m.Func().Launch.Cluster = [3]int{blocks, 1, 1}
	}
	data := make([]byte, n)
	for k := range data {
		data[k] = byte(src.Uint64())
	}
	m.buffer(data)
	out, buf := m.buffer(make([]byte, blocks*shared))
	zeros, _ := m.buffer(make([]byte, 16))
	maps := m.maps(all)
	base := m.SharedBase()
	m.fill(0, shared)
	m.first(func() {
		for v := range all {
			m.Emit(code.OpMbarInit, []int64{int64(shared + 8*v)}, base, m.Const32(1))
		}
		m.Emit(code.OpFenceMbarInit, nil)
	})
	m.Emit(code.OpFenceProxyAsync, nil)
	m.BarSync()
	mask := 7
	if multicast {
		m.first(func() {
			for v, b := range all {
				m.Emit(code.OpMbarArriveExpectTx, []int64{int64(shared + 8*v)}, base, m.Const32(int64(b.m.BoxBytes())))
			}
		})
		m.Emit(code.OpClusterArrive, nil)
		m.Emit(code.OpClusterWait, nil)
	}
	zero := m.LdGlobal(4, zeros, 0, 0)
	issue := func() {
		for v, b := range all {
			bytes := int64(b.m.BoxBytes())
			if !multicast && word != "prefetch" {
				m.Emit(code.OpMbarArriveExpectTx, []int64{int64(shared + 8*v)}, base, m.Const32(bytes))
			}
			m.Emit(code.OpPrefetchTensorMap, nil, maps[v])
			in := []code.Value{m.Add32(base, m.Const32(int64(b.at-v*128))), maps[v], m.Add32(base, m.Const32(int64(shared)))}
			imm := []int64{int64(128 * v), int64(8 * v)}
			if word == "prefetch" {
				in, imm = in[1:2], nil
			}
			in = append(in, m.coordinates(b, zero)...)
			if multicast {
				in = append(in, m.Const(code.B16, uint64(mask)))
			}
			if strings.HasSuffix(word, "hint") {
				in = append(in, m.Emit1(code.OpPolicyEvictFirst+code.Op(v%3), nil))
			}
			m.Emit(op, imm, in...)
		}
	}
	if multicast {
		m.If(m.SetpU32(code.EQ, m.Emit1(code.OpClusterCtaRank, nil), m.Const32(1)), func() []code.Value {
			m.first(issue)
			return nil
		}, nil)
	} else {
		m.first(issue)
	}
	if word != "prefetch" {
		for v := range all {
			m.Emit(code.OpMbarWaitParity, []int64{int64(shared + 8*v)}, base, m.Const32(0))
		}
	}
	m.dump(out, shared)
	if multicast {
		m.Emit(code.OpClusterArrive, nil)
		m.Emit(code.OpClusterWait, nil)
	}
	c := m.done("box "+describeBox(all[0], pick), blocks)
	c.Out = []Out{{Buf: buf, Size: 1, Label: func(k int) string { return labelBox(all, k%shared) }}}
	c.Want = func() [][]byte {
		want := bytes.Repeat([]byte{pristine & 255}, shared)
		if word != "prefetch" {
			for _, b := range all {
				size := b.m.Type.Bytes()
				b.each(false, func(at, from int) {
					element := make([]byte, size)
					if from >= 0 {
						element = data[from : from+size]
					} else if b.m.FillNaN {
						element = outside(b.m.Type)
					}
					copy(want[at:], element)
				})
			}
		}
		return [][]byte{bytes.Repeat(want, blocks)}
	}
	return c
}

// outside is an element outside of a tensor whose map fills with NaN.
func outside(t code.MapType) []byte {
	return bytes.Repeat([]byte{0xf7, 0x7f}, t.Bytes()/2)
}

func describeBox(b box, v int) string {
	return fmt.Sprintf("%d: type %d, swizzle %s, box %v, steps %v, coordinates %v, at %d", v, b.m.Type, b.m.Swizzle, b.m.Box, b.m.ElementStrides, b.coords, b.at)
}

func labelBox(all []box, at int) string {
	for _, b := range all {
		if at >= b.at {
			return fmt.Sprintf("byte %d of the box", at-b.at)
		}
	}
	return fmt.Sprint(at)
}

func tensorStore(op code.Op, rank int, word string, types []code.MapType, pick int) Case {
	src := newSource(uint64(rank) + 100)
	all, n, shared := boxes(rank, types, false, pick)
	m := newMaker(op)
	m.Func().Launch.Block = 128
	m.Func().Launch.SharedBytes = shared
	data, picture := make([]byte, n), make([]byte, shared)
	for k := range data {
		data[k] = byte(src.Uint64())
	}
	for k := range picture {
		picture[k] = byte(src.Uint64())
	}
	reduces := strings.HasPrefix(word, "reduce")
	if reduces { // floats become small integers, whose sums are exact
		for _, b := range all {
			elem := elementType(b.m.Type)
			if !elem.IsFloat() {
				continue
			}
			b.each(true, func(at, to int) {
				put(picture[at:], b.m.Type.Bytes(), 0, elem.Encode(float64(src.IntN(65)-32), false))
				if to >= 0 {
					put(data[to:], b.m.Type.Bytes(), 0, elem.Encode(float64(src.IntN(65)-32), false))
				}
			})
		}
	}
	_, buf := m.buffer(data)
	from, _ := m.buffer(picture)
	zeros, _ := m.buffer(make([]byte, 16))
	maps := m.maps(all)
	base := m.SharedBase()
	m.fill(from, shared)
	m.Emit(code.OpFenceProxyAsyncShared, nil)
	m.BarSync()
	zero := m.LdGlobal(4, zeros, 0, 0)
	m.first(func() {
		for v, b := range all {
			in := append([]code.Value{maps[v], m.Add32(base, m.Const32(int64(b.at-v*128)))}, m.coordinates(b, zero)...)
			if strings.HasSuffix(word, "hint") {
				in = append(in, m.Emit1(code.OpPolicyEvictFirst+code.Op(v%3), nil))
			}
			m.Emit(op, []int64{int64(128 * v)}, in...)
			m.Emit(code.OpBulkCommit, nil)
			if v == 3 {
				m.Emit(code.OpBulkWaitRead, []int64{1})
			}
		}
		m.Emit(code.OpBulkWait, []int64{0})
	})
	c := m.done("box "+describeBox(all[0], pick), 1)
	c.Out = []Out{{Buf: buf, Size: 1}}
	c.Want = func() [][]byte {
		want := bytes.Clone(data)
		for _, b := range all {
			size := b.m.Type.Bytes()
			b.each(true, func(at, to int) {
				switch {
				case to < 0:
				case reduces:
					put(want[to:], size, 0, reduced(word, b.m.Type, element(want[to:], size, 0), element(picture[at:], size, 0)))
				default:
					copy(want[to:to+size], picture[at:])
				}
			})
		}
		return [][]byte{want}
	}
	return c
}

func elementType(t code.MapType) dtype.Type {
	return map[code.MapType]dtype.Type{code.MapU8: dtype.U8, code.MapU16: dtype.U16, code.MapU32: dtype.U32, code.MapU64: dtype.U64, code.MapI32: dtype.I32, code.MapI64: dtype.I64,
		code.MapF16: dtype.F16, code.MapBF16: dtype.BF16, code.MapF32: dtype.F32, code.MapF64: dtype.F64}[t]
}

// reduced is what a reducing copy makes of an element a that meets b.
func reduced(word string, t code.MapType, a, b uint64) uint64 {
	elem := elementType(t)
	mask := elem.Mask()
	less := func(x, y uint64) bool {
		switch {
		case elem.IsFloat():
			return elem.Decode(x) < elem.Decode(y)
		case elem.Signed():
			return elem.DecodeInt(x) < elem.DecodeInt(y)
		}
		return x < y
	}
	switch strings.TrimPrefix(word, "reduce.") {
	case "add":
		if elem.IsFloat() {
			return elem.Encode(elem.Decode(a)+elem.Decode(b), false)
		}
		return (a + b) & mask
	case "min":
		if less(b, a) {
			return b
		}
		return a
	case "max":
		if less(a, b) {
			return b
		}
		return a
	case "inc":
		if a >= b {
			return 0
		}
		return a + 1
	case "dec":
		if a == 0 || a > b {
			return b
		}
		return a - 1
	case "and":
		return a & b
	case "or":
		return a | b
	}
	return a ^ b
}
