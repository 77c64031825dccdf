package checkpoint

import (
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/workers"
)

// builder puts the weights of a layer together.
type builder struct {
	*source
	n, k, groups int
	group        int                // inputs of a group; 0 for one scale an output
	order        *array.Array       // [qmm.Weights.Order]
	at           func(g, o int) int // where the scale of a group and an output is stored
	of           *array.Array       // scales [groups, N]
	zeros        []float64          // [groups, N], of integers
	stored       dtype.Type         // of scales
	codes        *array.Array       // where they are read already
	factor       bool
	one          float64 // all weights' factor, where there is one
}

// scales reads scales; at is where that of a group and an output is. Those of f32 become a type of 16 bits that holds all
// of them, or a factor where they are one number.
func (b *builder) scales(member string, at func(g, o int) int) error {
	a, err := b.array(member)
	if err != nil {
		return err
	}
	return b.take(member, a, at)
}

// take is [builder.scales] of an array that is read.
func (b *builder) take(member string, a *array.Array, at func(g, o int) int) error {
	b.at, b.stored = at, a.Type
	t := a.Type
	if t == dtype.U8 { // MX formats have exponents
		t = dtype.F8E8M0
	}
	for i := range a.Len() {
		if v := t.Decode(a.Code(i)); v-v != 0 {
			return b.bad("%s is %v; a scale is a number: quantise the layer again", numberAt(member, a.Shape, i), v)
		}
	}
	if t != dtype.F32 {
		b.each(t, func(i int) uint64 { return a.Code(i) })
		return nil
	}
	values := a.Floats()
	narrow := []dtype.Type{dtype.BF16, dtype.F16} // most are wider copies, of bf16 above all
	holds := func(t dtype.Type, v float64) bool { return t.Decode(t.Encode(v, false)) == v }
	var lost []int // by each of them the first
	for _, t := range narrow {
		off := slices.IndexFunc(values, func(v float64) bool { return !holds(t, v) })
		if off < 0 {
			b.each(t, func(i int) uint64 { return t.Encode(values[i], false) })
			return nil
		}
		lost = append(lost, off)
	}
	if !slices.ContainsFunc(values, func(v float64) bool { return v != values[0] }) {
		b.factor, b.one = true, values[0]
		one := dtype.F16.Encode(1, false)
		b.each(dtype.F16, func(int) uint64 { return one })
		return nil
	}
	const way = "make scales bf16, which changes weights by up to 2^-9 of themselves, or dequantise the layer, and " + againByKind
	of := func(i int) string { return numberAt(member, a.Shape, i) }
	neither := slices.IndexFunc(values, func(v float64) bool { return !holds(narrow[0], v) && !holds(narrow[1], v) })
	if neither < 0 {
		return b.bad("%s is %v, which bf16 does not hold, and %s is %v, which f16 does not; programs take scales of one of them: %s", of(lost[0]), float32(values[lost[0]]), of(lost[1]), float32(values[lost[1]]), way)
	}
	return b.bad("%s is %v, an f32 that neither f16 nor bf16 holds, as which programs take scales; %s", of(neither), float32(values[neither]), way)
}

// each sets the scales of all groups and outputs, of codes by where they are in what is stored.
func (b *builder) each(t dtype.Type, code func(i int) uint64) {
	b.of = array.New(t, b.groups, b.n)
	for g := range b.groups {
		for o := range b.n {
			b.of.SetCode(g*b.n+o, code(b.at(g, o)))
		}
	}
}

// numberAt is number i of an array in words.
func numberAt(member string, shape []int, i int) string {
	at := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		at[d], i = i%shape[d], i/shape[d]
	}
	if len(at) == 0 {
		return member
	}
	return member + shapeText(at)
}

// byGroup reads scales [groups, N] and zero points, of which code is that of a group and an output in qzeros.
func (b *builder) byGroup(code func(a *array.Array, g, o int) uint64) error {
	if err := b.scales("scales", func(g, o int) int { return g*b.n + o }); err != nil {
		return err
	}
	_, shape, _ := b.tensors.Head(b.arrays["qzeros"]) // which fits the layer's other arrays, or the format would not be it
	return b.zeroPoints("qzeros", 0, code, shape...)
}

// zeroPoints reads the zero points of all groups and outputs, of which code is one in an array of a shape; without that array all are
// the middle code.
func (b *builder) zeroPoints(member string, middle float64, code func(a *array.Array, g, o int) uint64, shape ...int) error {
	b.zeros = slices.Repeat([]float64{middle}, b.groups*b.n)
	if _, ok := b.arrays[member]; !ok {
		return nil
	}
	if err := b.must(member, shape...); err != nil {
		return err
	}
	stored, err := b.array(member)
	if err != nil {
		return err
	}
	for g := range b.groups {
		for o := range b.n {
			b.zeros[g*b.n+o] = float64(code(stored, g, o))
		}
	}
	return nil
}

// rowScales are scales [N, groups], or of one number for all weights, with which groups are found.
func (b *builder) rowScales(member string) (err error) {
	_, shape, _ := b.tensors.Head(b.arrays[member])
	count := func(f func(d int) bool) bool { return !slices.ContainsFunc(shape, func(d int) bool { return !f(d) }) }
	switch {
	case len(shape) <= 2 && count(func(d int) bool { return d == 1 }):
		b.groups = 1
		return b.scales(member, func(int, int) int { return 0 })
	case len(shape) == 1 && shape[0] == b.n:
		b.groups = 1
	case len(shape) == 2 && shape[0] == b.n && shape[1] >= 1 && shape[1] <= b.k:
		if b.groups = shape[1]; b.k%b.groups != 0 {
			return b.bad("%s is %s, and %d inputs are not %d equal groups", member, b.header(member), b.k, b.groups)
		}
		if b.groups > 1 {
			b.group = b.k / b.groups
		}
	default:
		return b.bad("%s is %s, and must be [%d, groups], or one for all weights", member, b.header(member), b.n)
	}
	return b.scales(member, func(g, o int) int { return o*b.groups + g })
}

// grouped takes groups of inputs from an array that has the group of each. Where those of a group are no neighbours they become so,
// by an order in which they keep their own.
func (b *builder) grouped(member string, of *array.Array) error {
	const way = "quantise the layer again, or dequantise it, and " + againByKind
	counts, sorted := make([]int, b.groups), true
	for i, last := 0, 0; i < b.k; i++ {
		g := int(int32(of.Code(i)))
		if g < 0 || g >= b.groups {
			return b.bad("%s[%d] is %d, and there are scales of %d groups, 0 to %d; %s", member, i, g, b.groups, b.groups-1, way)
		}
		counts[g]++
		sorted, last = sorted && g >= last, g
	}
	begins, at := make([]int, b.groups), 0
	for g, n := range counts {
		switch size := counts[0]; {
		case n == 0:
			return b.bad("no input is of group %d by %s, and there are scales of %d groups; %s", g, member, b.groups, way)
		case n > size || n < size && g < b.groups-1:
			return b.bad("%s has %d inputs of group %d and %d of group 0, and programs take groups of as many inputs each, but for the last one, which may have fewer; %s", member, n, g, size, way)
		}
		begins[g], at = at, at+n
	}
	if b.groups > 1 {
		b.group = counts[0]
	}
	if sorted {
		return nil
	}
	b.order = array.New(dtype.I32, b.k)
	for i := range b.k {
		g := of.Code(i)
		b.order.SetCode(begins[g], uint64(i))
		begins[g]++
	}
	return nil
}

// blockScales are scales [N/rows, K/columns], rounded up, of blocks of outputs and inputs, of a size that a configuration tells. Where none
// does blocks are squares whose size is a power of two, of which one has as many, and the only block of a side may be cut off.
func (b *builder) blockScales(member string) error {
	rows, columns, err := b.matrix(member)
	if err != nil {
		return err
	}
	if b.block != [2]int{} {
		if b.block[0] < 1 || b.block[1] < 1 || ceil(b.n, b.block[0]) != rows || ceil(b.k, b.block[1]) != columns {
			return b.bad("%s is %s, and the configuration beside the file says blocks of %v, which %d outputs and %d inputs have no such number of: take that of the layer's own model", member, b.header(member), b.block, b.n, b.k)
		}
		return b.inBlocks(member, min(b.block[0], b.n), min(b.block[1], b.k), columns)
	}
	size := func(all, blocks int) int {
		if blocks == 1 {
			return all
		}
		for size := 16; size < all; size *= 2 {
			if ceil(all, size) == blocks {
				return size
			}
		}
		return 0
	}
	outputs, inputs := size(b.n, rows), size(b.k, columns)
	square := outputs == inputs || rows == 1 && outputs < inputs || columns == 1 && inputs < outputs
	if outputs == 0 || inputs == 0 || !square {
		return b.bad("%s is %s, and must be [%d, 1], one for each output, one for all weights, or one for each block of as many of %[3]d outputs as of %d inputs: 16, 32, 64, 128 or another power of two; of others weight_block_size of config.json tells the size", member, b.header(member), b.n, b.k)
	}
	return b.inBlocks(member, outputs, inputs, columns)
}

// inBlocks are scales of blocks of a size, so many beside each other.
func (b *builder) inBlocks(member string, outputs, inputs, columns int) error {
	if b.groups = columns; columns > 1 {
		b.group = inputs
	}
	return b.scales(member, func(g, o int) int { return o/outputs*columns + g })
}

// linear is the kind of the layer.
func (b *builder) linear(t dtype.Type, zero bool) (qmm.Linear, error) {
	l := qmm.Linear{WeightType: t, ActType: dtype.F16, Group: b.group, ScaleType: b.of.Type, ZeroPoint: zero, AnyZero: zero && !b.whole(), Factor: b.factor, N: b.n, K: b.k}
	// The model's plain numbers are of the type of scales and biases; those of f32 say least.
	bias, _, _ := b.tensors.Head(b.biasArray(b.layer))
	switch {
	case b.stored.Bits() == 16:
		l.ActType = b.stored
	case bias == "BF16":
		l.ActType = dtype.BF16
	case bias != "F16" && b.of.Type == dtype.BF16:
		l.ActType = dtype.BF16
	}
	l, err := l.Check()
	if err != nil {
		return l, b.bad("%w", err)
	}
	return l, nil
}

// whole reports whether zero points are whole numbers from 0 to 255.
func (b *builder) whole() bool {
	return !slices.ContainsFunc(b.zeros, func(z float64) bool { return z != math.Trunc(z) || z < 0 || z > 255 })
}

// integers are weights of unsigned codes less zero points: of signed codes where all of these are the middle. code is that of
// an output and an input in the array that has them.
func (b *builder) integers(bits int, member string, code func(a *array.Array, o, i int) uint64) (*qmm.Weights, error) {
	middle, t, flip := uint64(1)<<(bits-1), intType("u", bits), uint64(0)
	zero := bits == 1 || slices.ContainsFunc(b.zeros, func(z float64) bool { return z != float64(middle) })
	if !zero {
		t, flip = intType("i", bits), middle
	}
	l, err := b.linear(t, zero)
	if err != nil {
		return nil, err
	}
	w := b.plain(l)
	if zero {
		w.Zeros = array.New(l.ActType, b.groups, b.n)
		for i, z := range b.zeros {
			code := l.ActType.Encode(z, false)
			if l.ActType.Decode(code) != z {
				return nil, b.bad("the zero point of group %d and output %d is %v, which %s, the type of x and y, does not hold; dequantise the layer, and %s", i/b.n, i%b.n, float32(z), l.ActType, againByKind)
			}
			w.Zeros.SetCode(i, code)
		}
	}
	if b.listing {
		return w, nil
	}
	a, err := b.raw(member)
	if err != nil {
		return nil, err
	}
	w.Codes = array.New(t, b.n, b.k)
	inputs := make([]int, b.k) // of which codes are
	for i := range inputs {
		if inputs[i] = i; b.order != nil {
			inputs[i] = int(b.order.Code(i))
		}
	}
	octets := (b.n + 7) / 8 // of outputs, whose codes are whole bytes
	workers.Share(workers.Parts(octets, b.n*b.k>>14), octets, func(_, from, to int) {
		for o := from * 8; o < min(to*8, b.n); o++ {
			for i, input := range inputs {
				w.Codes.SetCode(o*b.k+i, code(a, o, input)^flip)
			}
		}
	})
	return w, nil
}

// intType is the type of integers of so many bits.
func intType(kind string, bits int) dtype.Type {
	t, err := dtype.Parse(kind + string(rune('0'+bits)))
	if err != nil {
		panic(err)
	}
	return t
}

// floats are weights of codes that are in order, [N, K], those of 4 bits two a byte.
func (b *builder) floats(t dtype.Type, member string) (*qmm.Weights, error) {
	l, err := b.linear(t, false)
	if err != nil {
		return nil, err
	}
	w := b.plain(l)
	if b.listing {
		return w, nil
	}
	a, err := b.raw(member)
	if err != nil {
		return nil, err
	}
	w.Codes = array.FromBytes(t, []int{b.n, b.k}, a.Data)
	return w, nil
}

// raw reads the array that has codes.
func (b *builder) raw(member string) (*array.Array, error) {
	if b.codes != nil {
		return b.codes, nil
	}
	return b.array(member)
}

// plain are weights without codes and zero points.
func (b *builder) plain(l qmm.Linear) *qmm.Weights {
	w := &qmm.Weights{Linear: l, Scales: b.of, One: 1, Order: b.order}
	if b.factor {
		w.One = b.one
	}
	return w
}

// ceil is a/b, rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }

// field is a code of 2 to 8 bits in words, of which the first is at one place and the next step behind it.
func field(a *array.Array, bits, i, first, step int) uint64 {
	at := i * bits
	word, low := at/32, at%32
	v := a.Code(first+word*step) >> low
	if low+bits > 32 {
		v |= a.Code(first+(word+1)*step) << (32 - low)
	}
	return v & (1<<bits - 1)
}
