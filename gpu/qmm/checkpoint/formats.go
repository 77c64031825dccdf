package checkpoint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// format is how layers are stored.
type format struct {
	name   string
	arrays []member // the first is what a layer is known by
	shapes func(s *source) bool
	read   func(s *source) (*qmm.Weights, error)
}

// member is an array of a layer, what types it may have in the words of the file, and whether it may be left out.
type member struct {
	name, typed string
	optional    bool
}

func (m member) types() []string { return strings.Fields(m.typed) }

const (
	words     = "I32"
	scaled    = "F16 BF16 F32"
	exponents = "U8 F8_E8M0"
	eights    = "F8_E4M3 F8_E5M2"
)

// formats are what is read. Of those with the same arrays, shapes tell which it is.
//
// gptq: codes [K·bits/32, N] and zero points [groups, N·bits/32] in words, from their low bits on, of 3 bits across words. g_idx[k] is
// the group of input k, as weight_g_idx is of pack-quantized: with act-order (desc_act, actorder) inputs of a group are no neighbours.
// awq: codes [K, N/8] and zero points [groups, N/8]: eight outputs a word, in the order 0, 2, 4, 6, 1, 3, 5, 7 from its low bits on.
// pack-quantized: codes [N, K·bits/32] and zero points [N·bits/32, groups], both with 2^(bits-1) added.
// int-quantized: codes [N, K] and zero points [N, groups], one a byte, with a sign.
// fp8: scales of outputs or their groups, of all weights, or of blocks of outputs and inputs; weight_scale_inv, of DeepSeek-V3 and Qwen3, multiplies too.
// nvfp4, mxfp4, mxfp6: codes one after another, the low bits of a byte first. weight_global_scale divides, weight_scale_2 multiplies.
// hqq: codes of groups [N·K/group, group], of which a word has one of each of several parts of rows, the first in its high bits; one scale
// and zero point a row. Other arrays say of which sizes these are.
// gguf: blocks of a row, each with its scale; a file of its own. Rows of some layers (attn_q and attn_k of Llama) are in the order of llama.cpp.
// mxfp4, mxfp6, mxfp8: an exponent [N, K/32] for each 32 inputs of an output. Those of six bits in weight_packed are e2m3; of Quark its configuration tells.
//
// Sources: AutoGPTQ, gptqmodel 7.7.0, autoawq 0.2.9, transformers' finegrained_fp8, compressed-tensors 0.20.1 and its conversion from modelopt, modelopt 0.47.0,
// amd-quark 0.13, hqq 0.2.8, gpt_oss/torch/weights.py.
var formats []format

func init() { // read functions ask for names of formats
	formats = []format{
		{"gptq", []member{{"qweight", words, false}, {"qzeros", words, false}, {"scales", scaled, false}, {"g_idx", words, true}}, (*source).wide, (*source).gptq},
		{"awq", []member{{"qweight", words, false}, {"qzeros", words, false}, {"scales", scaled, false}}, (*source).narrow, (*source).awq},
		{"pack-quantized", []member{{"weight_packed", words, false}, {"weight_scale", scaled, false}, {"weight_shape", "I64 I32", false}, {"weight_zero_point", words, true}, {"weight_g_idx", words, true}}, nil, (*source).packQuantized},
		{"nvfp4-pack-quantized", []member{{"weight_packed", "U8", false}, {"weight_scale", "F8_E4M3", false}, {"weight_global_scale", "F32", false}}, nil, (*source).nvfp4},
		{"nvfp4 of modelopt", []member{{"weight", "U8", false}, {"weight_scale", "F8_E4M3", false}, {"weight_scale_2", "F32", false}}, nil, (*source).nvfp4},
		{"mxfp6-pack-quantized", []member{{"weight_packed", "U8", false}, {"weight_scale", exponents, false}}, (*source).sixBits, (*source).mxfp6},
		{"mxfp4-pack-quantized", []member{{"weight_packed", "U8", false}, {"weight_scale", exponents, false}}, nil, (*source).mxfp4},
		{"mxfp6 of Quark", []member{{"weight", "U8", false}, {"weight_scale", exponents, false}}, (*source).sixBits, (*source).mxfp6},
		{"mxfp4 of modelopt and Quark", []member{{"weight", "U8", false}, {"weight_scale", exponents, false}}, nil, (*source).mxfp4},
		{"mxfp8", []member{{"weight", eights, false}, {"weight_scale", exponents, false}}, nil, (*source).mxfp8},
		{"int-quantized", []member{{"weight", "I8", false}, {"weight_scale", scaled, false}, {"weight_zero_point", "I8", true}}, nil, (*source).intQuantized},
		{"fp8", []member{{"weight", eights, false}, {"weight_scale", scaled, false}}, nil, (*source).fp8},
		{"fp8", []member{{"weight", eights, false}, {"weight_scale_inv", scaled + " F8_E8M0", false}}, nil, (*source).fp8},
		{"hqq", []member{{"W_q", "U8 I32", false}, {"scale", scaled, false}, {"zero", scaled, false}, {"nbits", "I32", false}, {"group_size", "I32", false}, {"axis", "I32", false}, {"shape", "I64", false}}, nil, (*source).hqq},
		{"mxfp4 of gpt-oss", []member{{"_blocks", "U8", false}, {"_scales", "U8", false}}, nil, (*source).blocks},
		{"mxfp4 of gpt-oss", []member{{"blocks", "U8", false}, {"scales", "U8", false}}, nil, (*source).blocks},
		{"gguf", []member{{"weight", ggufNames(false), false}}, nil, (*source).gguf},
	}
}

// others are arrays of formats that are not read, and which these are.
var others = []struct{ member, format string }{
	{"pre_quant_scale", "AWQ or SmoothQuant of modelopt, whose inputs are multiplied with a number each"},
	{"absmax", "bitsandbytes"}, {"SCB", "bitsandbytes"}, {"biases", "MLX"}, {"input_rotation", rotated}, {"input_prescale", rotated}, {"trellis", "EXL3"}, {"_weight_qdata", "torchao, whose metadata say in which order scales are"}, {"B", "Marlin, which has an order of its own"},
}

// rotated are layers of Quark with online rotations.
const rotated = "Quark with inputs that are rotated"

// foreign is what other format a layer is of, or "".
func foreign(arrays map[string]string) string {
	for _, o := range others {
		if _, ok := arrays[o.member]; ok {
			return o.format
		}
	}
	return ""
}

// source is a layer that is read.
type source struct {
	*File
	name    string
	layer   string // the name, without an expert
	arrays  map[string]string
	expert  int // -1 where the layer is one array of its own
	format  format
	listing bool // codes are not read
}

// bad is an error of the layer.
func (s *source) bad(format string, args ...any) error {
	return fmt.Errorf("checkpoint: %s:%s: %w", s.path, s.name, fmt.Errorf(format, args...))
}

// againByKind is the way out of layers that programs do not take as they are stored, for command lines and cells, behind "dequantise it, and".
const againByKind = "quantise by a kind with --weights, in a cell by lab.Quantize"

// byKind is how plain weights of the file are quantised.
func (f *File) byKind(name string) string {
	return fmt.Sprintf("by a kind, with --weights %[1]s:%[2]s, in a cell by lab.Quantize(KIND, \"%[1]s:%[2]s\")", f.path, name)
}

// is reports whether the layer has all of a format's arrays, and none of other formats.
func (s *source) is(f format) bool {
	for _, m := range f.arrays {
		if _, ok := s.arrays[m.name]; (ok || !m.optional) && !s.has(s.arrays, m) {
			return false
		}
	}
	return len(s.beside(f)) == 0 && (f.shapes == nil || f.shapes(s))
}

// beside are arrays of the layer that say something of its weights, and are none of a format's.
func (s *source) beside(f format) (out []string) {
	for name := range s.arrays {
		known := strings.HasPrefix(name, "weight") || foreign(map[string]string{name: ""}) != "" || slices.ContainsFunc(formats, func(f format) bool { return f.member(name) })
		if known && !f.member(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (f format) member(name string) bool {
	return slices.ContainsFunc(f.arrays, func(m member) bool { return m.name == name })
}

// none is the error of a layer of no format: which arrays it has, and what is between these and the format they are nearest to.
func (s *source) none() error {
	var has []string
	for name := range s.arrays {
		has = append(has, name)
	}
	slices.Sort(has)
	for i, name := range has {
		has[i] += " " + s.header(name)
	}
	text := "it has " + diag.Listed(has, mostNamed)
	s.format = format{name: "?"}
	if other := foreign(s.arrays); other != "" {
		return s.bad("%s: that is %s, which is not read; dequantise it with its own library, and %s", text, other, againByKind)
	}
	if typ, _, ok := s.tensors.Head(s.arrays["weight"]); ok && len(s.arrays) <= 2 && slices.Contains([]string{"F16", "BF16", "F32", "F64"}, typ) {
		return s.bad("%s: its weights are not quantised; do so %s", text, s.byKind(s.arrays["weight"]))
	}
	best := -1
	for _, f := range formats {
		n := 0
		if s.has(s.arrays, f.arrays[0]) { // what a layer is known by
			n = 2
		}
		for _, m := range f.arrays {
			if _, ok := s.arrays[m.name]; ok {
				n += 2
			}
			if s.has(s.arrays, m) {
				n++
			}
		}
		if n > best {
			best, s.format = n, f
		}
	}
	if best == 0 {
		s.format = format{name: "?"}
		return s.bad("%s, which is no format that is read: there are %s", text, strings.Join(Formats(), ", "))
	}
	var off []string
	for _, m := range s.format.arrays {
		switch _, ok := s.arrays[m.name]; {
		case !ok && !m.optional:
			off = append(off, fmt.Sprintf("%s is missing, which may be in another of the model's files: make one of both", m.name))
		case ok && !s.has(s.arrays, m):
			off = append(off, fmt.Sprintf("%s must be %s", m.name, strings.Join(m.types(), " or ")))
		}
	}
	for _, name := range s.beside(s.format) {
		off = append(off, name+" is no array of it")
	}
	if len(off) == 0 {
		off = append(off, "shapes do not fit each other: gptq has codes [K·bits/32, N], awq [K, N/8], and scales are [groups, N] of both")
	}
	return s.bad("%s. That is nearly %s, but %s", text, s.format.name, strings.Join(off, "; "))
}

// Formats are the names of the formats that are read.
func Formats() (out []string) {
	for _, f := range formats {
		out = append(out, f.name)
	}
	return slices.Compact(out)
}

// header is an array's type and shape.
func (s *source) header(member string) string {
	typ, shape, _ := s.tensors.Head(s.arrays[member])
	return headText(typ, shape)
}

// headText is a type in the words of the file and a shape.
func headText(typ string, shape []int) string { return typ + shapeText(shape) }

func shapeText(shape []int) string { return strings.ReplaceAll(fmt.Sprint(shape), " ", ", ") }

// shape is that of an array, of so many dimensions, each of which a layer may have.
func (s *source) shape(member string, rank int) ([]int, error) {
	_, shape, _ := s.tensors.Head(s.arrays[member])
	if len(shape) != rank {
		return nil, s.bad("%s is %s, and has %d dimensions", member, s.header(member), rank)
	}
	for _, d := range shape {
		if d < 1 || d > qmm.MaxSize {
			return nil, s.bad("%s is %s: a layer has 1 to %d outputs and inputs", member, s.header(member), qmm.MaxSize)
		}
	}
	return shape, nil
}

// matrix is [source.shape] of two dimensions.
func (s *source) matrix(member string) (rows, columns int, err error) {
	shape, err := s.shape(member, 2)
	if err != nil {
		return 0, 0, err
	}
	return shape[0], shape[1], nil
}

// must refuses an array that is not of a shape.
func (s *source) must(member string, shape ...int) error {
	if _, is, _ := s.tensors.Head(s.arrays[member]); !slices.Equal(is, shape) {
		return s.bad("%s is %s, and must be %s beside the layer's other arrays", member, s.header(member), shapeText(shape))
	}
	return nil
}

// number reads an array of one.
func (s *source) number(member string) (float64, error) {
	if _, shape, _ := s.tensors.Head(s.arrays[member]); len(shape) > 2 || slices.ContainsFunc(shape, func(d int) bool { return d != 1 }) {
		return 0, s.bad("%s is %s, and must be one number", member, s.header(member))
	}
	a, err := s.array(member)
	if err != nil {
		return 0, err
	}
	return a.Type.Decode(a.Code(0)), nil
}

// array reads an array of the layer.
func (s *source) array(member string) (*array.Array, error) { return s.read(s.arrays[member]) }

// read reads an array of the file, or the expert's part of it.
func (s *source) read(name string) (*array.Array, error) {
	var a *array.Array
	var err error
	if s.expert >= 0 {
		a, err = s.tensors.Part(name, s.expert)
	} else {
		a, err = s.tensors.Array(name)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", s.name, err)
	}
	return a, nil
}

// weights reads the layer.
func (s *source) weights() (*qmm.Weights, error) {
	w, err := s.format.read(s)
	if err != nil {
		return nil, err
	}
	if s.listing {
		return w, nil
	}
	if err := w.Valid(); err != nil {
		return nil, s.bad("%w", err)
	}
	return w, nil
}

// wide and narrow tell codes of one output a word from those of eight.
func (s *source) wide() bool {
	_, q, _ := s.tensors.Head(s.arrays["qweight"])
	_, scales, _ := s.tensors.Head(s.arrays["scales"])
	return len(q) == 2 && len(scales) == 2 && q[1] == scales[1]
}

func (s *source) narrow() bool {
	_, q, _ := s.tensors.Head(s.arrays["qweight"])
	_, scales, _ := s.tensors.Head(s.arrays["scales"])
	return len(q) == 2 && len(scales) == 2 && q[1] > 0 && q[1] <= qmm.MaxSize && 8*q[1] == scales[1]
}

func (s *source) gptq() (*qmm.Weights, error) {
	rows, n, err := s.matrix("qweight")
	if err != nil {
		return nil, err
	}
	groups, columns, err := s.matrix("qzeros")
	if err != nil {
		return nil, err
	}
	if err := s.must("scales", groups, n); err != nil {
		return nil, err
	}
	var order *array.Array
	k := 0
	if _, ok := s.arrays["g_idx"]; ok {
		shape, err := s.shape("g_idx", 1)
		if err != nil {
			return nil, err
		}
		k = shape[0]
		if order, err = s.array("g_idx"); err != nil {
			return nil, err
		}
	}
	bits, inputs := 0, k
	for _, b := range []int{2, 3, 4, 8} {
		of := k
		if order == nil {
			of = 32 * rows / b
		}
		if ceil(n*b, 32) != columns || ceil(of*b, 32) != rows || order == nil && of*b != 32*rows {
			continue
		}
		if bits != 0 {
			return nil, s.bad("codes of %d or %d bits would have such arrays: qweight %s, qzeros %s; with g_idx, or more outputs, one of them has", bits, b, s.header("qweight"), s.header("qzeros"))
		}
		bits, inputs = b, of
	}
	if bits == 0 {
		return nil, s.bad("no codes of 2, 3, 4 or 8 bits have such arrays: qweight %s, qzeros %s, g_idx %s; other numbers of bits are not read", s.header("qweight"), s.header("qzeros"), s.header("g_idx"))
	}
	k = inputs
	if bits == 3 && s.zeros == planar {
		return nil, s.bad("checkpoint_format gptq_p has codes of 3 bits in an order that is not read; save it as gptq_v2")
	}
	b := &builder{source: s, n: n, k: k, groups: groups}
	if order == nil {
		if b.group, err = s.group(k, groups, true); err != nil {
			return nil, err
		}
	} else if err = b.grouped("g_idx", order); err != nil {
		return nil, err
	}
	if err := b.byGroup(func(a *array.Array, g, o int) uint64 { return field(a, bits, o, g*columns, 1) }); err != nil {
		return nil, err
	}
	if err := b.addOne(bits); err != nil {
		return nil, err
	}
	return b.integers(bits, "qweight", func(a *array.Array, o, i int) uint64 { return field(a, bits, i, o, n) })
}

// addOne makes zero points of those that GPTQ stored. All of a layer that is quantised symmetrically are the middle of
// its codes, which tells how they are stored without a configuration, and against one that says "gptq" of the newer form, as some writers do.
func (b *builder) addOne(bits int) error {
	middle := float64(int(1) << (bits - 1))
	most := 2*middle - 1
	all := func(v float64) bool { return !slices.ContainsFunc(b.zeros, func(z float64) bool { return z != v }) }
	less := b.source.zeros == lessOne
	switch {
	case all(middle):
		less = false
	case all(middle - 1):
		if less = true; b.source.zeros == asTheyAre || b.source.zeros == planar {
			return b.bad("all zero points are stored as %v, which is the middle %v less one, and the configuration beside the file says that they are stored as they are; correct its checkpoint_format", middle-1, middle)
		}
	case b.source.zeros == unsaid && b.source.fault != "":
		return b.bad("nothing says whether zero points are stored less one: %s", b.source.fault)
	case b.source.zeros == unsaid:
		return b.bad("nothing says whether zero points are stored less one: put quantize_config.json or config.json of the model beside the file, whose checkpoint_format is gptq where they are, or gptq_v2")
	}
	if !less {
		return nil
	}
	for i, z := range b.zeros {
		if z == most {
			return b.bad("zero point [%d, %d] is stored as %v, with one less: libraries take %v, 0, or carry into the next one; quantise symmetrically, or save it as gptq_v2", i/b.n, i%b.n, z, most+1)
		}
		b.zeros[i] = z + 1
	}
	return nil
}

// legal reports whether programs take groups of so many inputs.
func legal(group int) bool {
	return group == 16 || group == 32 || group == 64 || group > 0 && group%128 == 0
}

// group is the size of equal groups; where the last may be short, the only size that programs take and that has so many.
func (s *source) group(k, groups int, short bool) (int, error) {
	if groups == 1 {
		return 0, nil
	}
	if k%groups == 0 && (legal(k/groups) || !short) {
		return k / groups, nil
	}
	var sizes []int
	for size := 16; short && size < k; {
		if legal(size) && ceil(k, size) == groups {
			sizes = append(sizes, size)
		}
		if size < 128 {
			size *= 2
		} else {
			size += 128
		}
	}
	switch {
	case len(sizes) == 1:
		return sizes[0], nil
	case len(sizes) > 1:
		return 0, s.bad("%d inputs in %d groups may be groups of %d or %d; g_idx would say which", k, groups, sizes[0], sizes[1])
	}
	return 0, s.bad("%d inputs are not %d groups of 16, 32, 64 or a multiple of 128", k, groups)
}

// nibble is where the code of an output stands in the word of its eight.
var nibble = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

func (s *source) awq() (*qmm.Weights, error) {
	k, columns, err := s.matrix("qweight")
	if err != nil {
		return nil, err
	}
	n := 8 * columns
	groups, _, err := s.matrix("scales")
	if err != nil {
		return nil, err
	}
	if err := s.must("scales", groups, n); err != nil {
		return nil, err
	}
	if err := s.must("qzeros", groups, columns); err != nil {
		return nil, err
	}
	group, err := s.group(k, groups, false)
	if err != nil {
		return nil, err
	}
	code := func(a *array.Array, row, o int) uint64 {
		return a.Code(row*columns+o/8) >> (4 * nibble[o%8]) & 15
	}
	b := &builder{source: s, n: n, k: k, groups: groups, group: group}
	if err := b.byGroup(code); err != nil {
		return nil, err
	}
	return b.integers(4, "qweight", func(a *array.Array, o, i int) uint64 { return code(a, i, o) })
}

func (s *source) packQuantized() (*qmm.Weights, error) {
	n, columns, err := s.matrix("weight_packed")
	if err != nil {
		return nil, err
	}
	if err := s.must("weight_shape", 2); err != nil {
		return nil, err
	}
	sizes, err := s.array("weight_shape")
	if err != nil {
		return nil, err
	}
	if sizes.Type.DecodeInt(sizes.Code(0)) != int64(n) {
		return nil, s.bad("weight_shape says %v outputs, and weight_packed is %s", sizes.At(0), s.header("weight_packed"))
	}
	inputs := sizes.Type.DecodeInt(sizes.Code(1))
	if inputs < 1 || inputs > qmm.MaxSize {
		return nil, s.bad("weight_shape says %d inputs: there are 1 to %d", inputs, qmm.MaxSize)
	}
	k, bits := int(inputs), 0
	for _, b := range []int{2, 4, 8} {
		if ceil(k*b, 32) != columns {
			continue
		}
		if bits != 0 {
			return nil, s.bad("codes of %d or %d bits would have such arrays: %d inputs, weight_packed %s", bits, b, k, s.header("weight_packed"))
		}
		bits = b
	}
	if bits == 0 {
		return nil, s.bad("%d inputs of codes of 2, 4 or 8 bits are not weight_packed %s; codes of other numbers of bits are packed differently by versions of compressed-tensors, and not read", k, s.header("weight_packed"))
	}
	b := &builder{source: s, n: n, k: k}
	if err := b.rowScales("weight_scale"); err != nil {
		return nil, err
	}
	if _, ok := s.arrays["weight_g_idx"]; ok {
		if err := s.must("weight_g_idx", k); err != nil {
			return nil, err
		}
		order, err := s.array("weight_g_idx")
		if err != nil {
			return nil, err
		}
		unused := true // as it is where inputs are in order, in some versions
		for i := range k {
			unused = unused && int32(order.Code(i)) == -1
		}
		if !unused {
			if err = b.grouped("weight_g_idx", order); err != nil {
				return nil, err
			}
		}
	}
	err = b.zeroPoints("weight_zero_point", float64(int(1)<<(bits-1)), func(a *array.Array, g, o int) uint64 { return field(a, bits, o, g, b.groups) }, ceil(n*bits, 32), b.groups)
	if err != nil {
		return nil, err
	}
	return b.integers(bits, "weight_packed", func(a *array.Array, o, i int) uint64 { return field(a, bits, i, o*columns, 1) })
}

func (s *source) intQuantized() (*qmm.Weights, error) {
	n, k, err := s.matrix("weight")
	if err != nil {
		return nil, err
	}
	b := &builder{source: s, n: n, k: k}
	if err := b.rowScales("weight_scale"); err != nil {
		return nil, err
	}
	const sign = 1 << 7 // which makes codes and zero points unsigned
	_, scales, _ := s.tensors.Head(s.arrays["weight_scale"])
	err = b.zeroPoints("weight_zero_point", sign, func(a *array.Array, g, o int) uint64 { return a.Code(b.at(g, o)) ^ sign }, scales...)
	if err != nil {
		return nil, err
	}
	return b.integers(8, "weight", func(a *array.Array, o, i int) uint64 { return a.Code(o*k+i) ^ sign })
}

func (s *source) fp8() (*qmm.Weights, error) {
	n, k, err := s.matrix("weight")
	if err != nil {
		return nil, err
	}
	b := &builder{source: s, n: n, k: k}
	scale := s.format.arrays[1].name
	_, shape, _ := s.tensors.Head(s.arrays[scale])
	blocks := len(shape) == 2 && (shape[0] < n || n == 1) && (shape[0] > 1 || shape[1] > 1)
	if blocks {
		err = b.blockScales(scale)
	} else {
		err = b.rowScales(scale)
	}
	if err != nil {
		return nil, err
	}
	return b.floats(s.eight(), "weight")
}

// eight is the type of weights of eight bits.
func (s *source) eight() dtype.Type {
	if typ, _, _ := s.tensors.Head(s.arrays["weight"]); typ == "F8_E5M2" {
		return dtype.F8E5M2
	}
	return dtype.F8E4M3
}

func (s *source) nvfp4() (*qmm.Weights, error) {
	codes, factor := s.format.arrays[0].name, s.format.arrays[2].name
	n, half, err := s.matrix(codes)
	if err != nil {
		return nil, err
	}
	if half%8 != 0 {
		return nil, s.bad("%s is %s, which is no whole number of groups of 16", codes, s.header(codes))
	}
	b := &builder{source: s, n: n, k: 2 * half, groups: half / 8, group: 16}
	if err := s.must("weight_scale", n, b.groups); err != nil {
		return nil, err
	}
	if err := b.scales("weight_scale", func(g, o int) int { return o*b.groups + g }); err != nil {
		return nil, err
	}
	if b.one, err = s.number(factor); err != nil {
		return nil, err
	}
	b.factor = true
	if factor == "weight_global_scale" {
		// Kernels of vLLM take what it is as f32 too.
		b.one = float64(1 / float32(b.one))
	}
	return b.floats(dtype.F4E2M1, codes)
}

func (s *source) mxfp4() (*qmm.Weights, error) { return s.mx(dtype.F4E2M1) }
func (s *source) mxfp8() (*qmm.Weights, error) { return s.mx(s.eight()) }

func (s *source) mxfp6() (*qmm.Weights, error) {
	if s.format.arrays[0].name == "weight_packed" {
		return s.mx(dtype.F6E2M3)
	}
	const arrays = "arrays of f6e2m3 and f6e3m2 are the same"
	switch {
	case s.six.e2m3 && s.six.e3m2:
		return nil, s.bad("%s, and the configuration beside the file has layers of both; put beside it one of which weights are fp6_e2m3 or fp6_e3m2 as this layer's are", arrays)
	case s.six.e2m3:
		return s.mx(dtype.F6E2M3)
	case s.six.e3m2:
		return s.mx(dtype.F6E3M2)
	case s.fault != "":
		return nil, s.bad("%s: %s", arrays, s.fault)
	}
	return nil, s.bad("%s: put config.json of the model beside the file, whose quantization_config has the dtype of weights, fp6_e2m3 or fp6_e3m2", arrays)
}

// sixBits tells codes of six bits from those of four, in groups of 32.
func (s *source) sixBits() bool {
	member := "weight"
	if _, ok := s.arrays["weight_packed"]; ok {
		member = "weight_packed"
	}
	_, codes, _ := s.tensors.Head(s.arrays[member])
	_, scales, _ := s.tensors.Head(s.arrays["weight_scale"])
	return len(codes) == 2 && len(scales) == 2 && scales[1] > 0 && scales[1] <= qmm.MaxSize/32 && codes[1] == 24*scales[1]
}

// mx are codes [N, K] of a type, one after another, and exponents [N, K/32].
func (s *source) mx(t dtype.Type) (*qmm.Weights, error) {
	codes := s.format.arrays[0].name
	n, columns, err := s.matrix(codes)
	if err != nil {
		return nil, err
	}
	group := 32 * t.Bits() / 8 // bytes
	if columns%group != 0 {
		return nil, s.bad("%s is %s, which is no whole number of groups of 32", codes, s.header(codes))
	}
	b := &builder{source: s, n: n, k: 8 * columns / t.Bits(), groups: columns / group, group: 32}
	if err := s.must("weight_scale", n, b.groups); err != nil {
		return nil, err
	}
	if s.e5m3 {
		return nil, s.bad("the configuration beside the file has scales of e5m3, which are not read, and e8m0 is stored as they are: dequantise it with its own library, and %s", againByKind)
	}
	if err := b.scales("weight_scale", func(g, o int) int { return o*b.groups + g }); err != nil {
		return nil, err
	}
	return b.floats(t, codes)
}

// parts are how many codes of so many bits hqq has in a word.
var parts = map[float64]int{1: 8, 2: 4, 3: 10, 4: 2, 8: 1}

func (s *source) hqq() (*qmm.Weights, error) {
	said := map[string]float64{}
	for _, name := range []string{"nbits", "group_size", "axis"} {
		v, err := s.number(name)
		if err != nil {
			return nil, err
		}
		said[name] = v
	}
	if err := s.must("shape", 2); err != nil {
		return nil, err
	}
	sizes, err := s.array("shape")
	if err != nil {
		return nil, err
	}
	n, k, group, each := sizes.At(0), sizes.At(1), said["group_size"], parts[said["nbits"]]
	switch {
	case n < 1 || k < 1 || n > qmm.MaxSize || k > qmm.MaxSize:
		return nil, s.bad("shape says %v outputs and %v inputs: there are 1 to %d of each", n, k, qmm.MaxSize)
	case said["axis"] != 1:
		return nil, s.bad("axis is %v: weights of a group are of one input and of several outputs, and programs take groups of inputs; quantise with axis=1, or dequantise the layer, and %s", said["axis"], againByKind)
	case each == 0:
		return nil, s.bad("nbits is %v: codes of 1, 2, 3, 4 and 8 bits are read; quantise to one of these, or dequantise the layer, and %s", said["nbits"], againByKind)
	case group < 1 || group > k || int(k)%int(group) != 0:
		return nil, s.bad("group_size is %v, and %v inputs are no whole number of groups", group, k)
	}
	b := &builder{source: s, n: int(n), k: int(k), groups: int(k) / int(group)}
	if b.groups > 1 {
		b.group = int(group)
	}
	bits, size, rows := int(said["nbits"]), int(group), b.n*b.groups
	stored := ceil(rows, each)
	if bits != 3 && rows%each != 0 {
		return nil, s.bad("%d groups are no whole number of %d, as many as a word has codes of", rows, each)
	}
	for name, shape := range map[string][]int{"W_q": {stored, size}, "scale": {rows, 1}, "zero": {rows, 1}} {
		if err := s.must(name, shape...); err != nil {
			return nil, err
		}
	}
	if typ, _, _ := s.tensors.Head(s.arrays["W_q"]); (typ == words) != (bits == 3) {
		return nil, s.bad("W_q is %s, and codes of 3 bits are in I32, others in U8", s.header("W_q"))
	}
	if err := b.scales("scale", func(g, o int) int { return o*b.groups + g }); err != nil {
		return nil, err
	}
	points, err := s.array("zero")
	if err != nil {
		return nil, err
	}
	b.zeros = make([]float64, rows)
	for g := range b.groups {
		for o := range b.n {
			v := points.Type.Decode(points.Code(b.at(g, o)))
			if v-v != 0 {
				return nil, s.bad("%s is %v; a zero point is a number: quantise the layer again", numberAt("zero", points.Shape, b.at(g, o)), v)
			}
			b.zeros[g*b.n+o] = v
		}
	}
	return b.integers(bits, "W_q", func(a *array.Array, o, i int) uint64 {
		row := b.at(i/size, o)
		return a.Code(row%stored*size+i%size) >> (bits * (each - 1 - row/stored)) & (1<<bits - 1)
	})
}

func (s *source) blocks() (*qmm.Weights, error) {
	codes, scale := s.format.arrays[0].name, s.format.arrays[1].name
	shape, err := s.shape(codes, 4)
	if err != nil {
		return nil, err
	}
	if shape[3] != 16 || shape[2] > qmm.MaxSize/32 {
		return nil, s.bad("%s is %s, and must be [experts, N, K/32, 16]", codes, s.header(codes))
	}
	if err := s.must(scale, shape[:3]...); err != nil {
		return nil, err
	}
	b := &builder{source: s, n: shape[1], k: 32 * shape[2], groups: shape[2], group: 32}
	if err := b.scales(scale, func(g, o int) int { return o*b.groups + g }); err != nil {
		return nil, err
	}
	return b.floats(dtype.F4E2M1, codes)
}
