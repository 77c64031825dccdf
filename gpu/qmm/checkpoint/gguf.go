package checkpoint

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// ggufType is an element type of .gguf files: a plain one, or blocks of so many numbers of a row in so many bytes.
type ggufType struct {
	id           uint32
	name         string
	block, bytes int
	plain        dtype.Type // 0 of blocks
	scale        dtype.Type // of a block, 0 where blocks are not read
	at           int        // where in a block its scale is
	bits, zero   int        // of integers; zero is taken off codes
	// code is that of number j of the block that begins at a byte of a.
	code func(a *array.Array, from, j int) uint64
}

// low is a code of four bits in blocks of 32: those of the first half are the low bits of bytes.
func low(a *array.Array, from, j int) uint64 { return a.Code(from+j%16) >> (4 * (j / 16)) & 15 }

// ggufTypes are those of gguf 0.19.0. Blocks are read whose numbers are (code - zero) × scale with a scale as it is stored: others have
// a least number for each block, scales of scales or tables.
var ggufTypes = []ggufType{
	{id: 0, name: "F32", block: 1, bytes: 4, plain: dtype.F32}, {id: 1, name: "F16", block: 1, bytes: 2, plain: dtype.F16}, {id: 30, name: "BF16", block: 1, bytes: 2, plain: dtype.BF16},
	{id: 28, name: "F64", block: 1, bytes: 8, plain: dtype.F64}, {id: 24, name: "I8", block: 1, bytes: 1, plain: dtype.I8}, {id: 25, name: "I16", block: 1, bytes: 2, plain: dtype.I16},
	{id: 26, name: "I32", block: 1, bytes: 4, plain: dtype.I32}, {id: 27, name: "I64", block: 1, bytes: 8, plain: dtype.I64},
	{id: 2, name: "Q4_0", block: 32, bytes: 18, scale: dtype.F16, bits: 4, zero: 8, code: func(a *array.Array, from, j int) uint64 { return low(a, from+2, j) }},
	{id: 6, name: "Q5_0", block: 32, bytes: 22, scale: dtype.F16, bits: 5, zero: 16, code: func(a *array.Array, from, j int) uint64 {
		return low(a, from+6, j) | a.Code(from+2+j/8)>>(j%8)&1<<4
	}},
	{id: 8, name: "Q8_0", block: 32, bytes: 34, scale: dtype.F16, bits: 8, zero: 128, code: func(a *array.Array, from, j int) uint64 { return a.Code(from+2+j) ^ 128 }},
	{id: 35, name: "TQ2_0", block: 256, bytes: 66, scale: dtype.F16, at: 64, bits: 2, zero: 1, code: func(a *array.Array, from, j int) uint64 {
		return a.Code(from+j/128*32+j%32) >> (j % 128 / 32 * 2) & 3
	}},
	{id: 39, name: "MXFP4", block: 32, bytes: 17, scale: dtype.U8, code: func(a *array.Array, from, j int) uint64 {
		if code := low(a, from+1, j); code != 8 { // which is 0 there, without a sign
			return code
		}
		return 0
	}},
	{id: 3, name: "Q4_1", block: 32, bytes: 20}, {id: 7, name: "Q5_1", block: 32, bytes: 24}, {id: 9, name: "Q8_1", block: 32, bytes: 40}, {id: 10, name: "Q2_K", block: 256, bytes: 84},
	{id: 11, name: "Q3_K", block: 256, bytes: 110}, {id: 12, name: "Q4_K", block: 256, bytes: 144}, {id: 13, name: "Q5_K", block: 256, bytes: 176}, {id: 14, name: "Q6_K", block: 256, bytes: 210},
	{id: 15, name: "Q8_K", block: 256, bytes: 292}, {id: 16, name: "IQ2_XXS", block: 256, bytes: 66}, {id: 17, name: "IQ2_XS", block: 256, bytes: 74}, {id: 18, name: "IQ3_XXS", block: 256, bytes: 98},
	{id: 19, name: "IQ1_S", block: 256, bytes: 50}, {id: 20, name: "IQ4_NL", block: 32, bytes: 18}, {id: 21, name: "IQ3_S", block: 256, bytes: 110}, {id: 22, name: "IQ2_S", block: 256, bytes: 82},
	{id: 23, name: "IQ4_XS", block: 256, bytes: 136}, {id: 29, name: "IQ1_M", block: 256, bytes: 56}, {id: 34, name: "TQ1_0", block: 256, bytes: 54}, {id: 40, name: "NVFP4", block: 64, bytes: 36},
	{id: 41, name: "Q1_0", block: 128, bytes: 18},
}

// ggufNames are types of blocks: all, or those that are read.
func ggufNames(read bool) string {
	var out []string
	for _, t := range ggufTypes {
		if t.plain == 0 && (!read || t.scale != 0) {
			out = append(out, t.name)
		}
	}
	return strings.Join(out, " ")
}

// Blocks are the types of blocks that are read of .gguf files, "Q4_0, Q5_0".
func Blocks() string { return strings.ReplaceAll(ggufNames(true), " ", ", ") }

func ggufNamed(name string) *ggufType {
	if i := slices.IndexFunc(ggufTypes, func(t ggufType) bool { return t.name == name }); i >= 0 {
		return &ggufTypes[i]
	}
	return nil
}

// gguf reads blocks of rows [N, K], or [experts, N, K].
func (s *source) gguf() (*qmm.Weights, error) {
	typ, _, _ := s.tensors.Head(s.arrays["weight"])
	t := ggufNamed(typ)
	if t.scale == 0 {
		return nil, s.bad("weight is %s, which is not read; of .gguf files %s are, whose numbers are codes times a scale: make one of these, by llama-quantize --pure, or dequantise the layer with its own library, and %s",
			s.header("weight"), Blocks(), againByKind)
	}
	rank := 2
	if s.expert >= 0 {
		rank = 3
	}
	shape, err := s.shape("weight", rank)
	if err != nil {
		return nil, err
	}
	n, k := shape[rank-2], shape[rank-1]
	b := &builder{source: s, n: n, k: k, groups: k / t.block}
	if b.groups > 1 {
		b.group = t.block
	}
	scales := array.New(t.scale, n, b.groups)
	if !s.listing {
		if b.codes, err = s.array("weight"); err != nil {
			return nil, err
		}
		for i := range scales.Len() {
			v := uint64(0)
			for byte := range t.scale.Bits() / 8 {
				v |= b.codes.Code(i*t.bytes+t.at+byte) << (8 * byte)
			}
			scales.SetCode(i, v)
		}
	}
	if err := b.take("scale", scales, func(g, o int) int { return o*b.groups + g }); err != nil {
		return nil, err
	}
	code := func(a *array.Array, o, i int) uint64 {
		return t.code(a, (o*b.groups+i/t.block)*t.bytes, i%t.block)
	}
	if t.bits > 0 {
		b.zeros = slices.Repeat([]float64{float64(t.zero)}, n*b.groups)
		return b.integers(t.bits, "weight", code)
	}
	if blocks := b.codes; blocks != nil {
		b.codes = array.New(dtype.F4E2M1, n, k)
		for o := range n {
			for i := range k {
				b.codes.SetCode(o*k+i, code(blocks, o, i))
			}
		}
	}
	return b.floats(dtype.F4E2M1, "weight")
}

// ggufFile is a .gguf file: its header is read, arrays are when they are asked for.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
type ggufFile struct {
	r     io.ReaderAt
	name  string
	heads map[string]ggufHead
	close func() error
}

type ggufHead struct {
	typ   *ggufType
	shape []int
	from  int64
}

const (
	ggufMagic     = "GGUF"
	ggufSuffix    = ".gguf"
	ggufAlignment = 32
	// maxGGUF is how many bytes of a header are read: those of vocabularies are some MiB.
	maxGGUF = 256 << 20
)

func openGGUF(path string) (*ggufFile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	g, err := readGGUF(file, info.Size(), path)
	if err != nil {
		file.Close()
		return nil, err
	}
	g.close = file.Close
	return g, nil
}

// isGGUF reports whether a file begins as .gguf files do.
func isGGUF(r io.ReaderAt) bool {
	if r == nil {
		return false
	}
	var magic [4]byte
	n, _ := r.ReadAt(magic[:], 0)
	return n == 4 && string(magic[:]) == ggufMagic
}

// header reads what is in front of arrays.
type header struct {
	in  *bufio.Reader
	at  int64
	end int64 // of what may be read
	err error
}

var errCut = errors.New("it ends inside the header")

// bytes reads n bytes; nil where there are not as many.
func (h *header) bytes(n uint64) []byte {
	if h.err == nil && n > uint64(h.end-h.at) {
		h.err = errCut
	}
	if h.err != nil {
		return nil
	}
	out := make([]byte, n)
	if _, h.err = io.ReadFull(h.in, out); h.err != nil {
		return nil
	}
	h.at += int64(n)
	return out
}

// skip passes over n times size bytes.
func (h *header) skip(n, size uint64) {
	if h.err == nil && n > uint64(h.end-h.at)/size {
		h.err = errCut
	}
	for left := n * size; left > 0 && h.err == nil; {
		part := min(left, 1<<20)
		_, h.err = h.in.Discard(int(part))
		h.at, left = h.at+int64(part), left-part
	}
}

func (h *header) u32() uint32 {
	if b := h.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (h *header) u64() uint64 {
	if b := h.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

const ggufString, ggufArray = 8, 9

// ggufSizes are bytes of values by their types: u8, i8, u16, i16, u32, i32, f32, bool, string, array, u64, i64, f64.
var ggufSizes = []uint64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// value passes over count values of a type.
func (h *header) value(typ uint32, count uint64, depth int) {
	switch {
	case typ >= uint32(len(ggufSizes)) || depth > 4:
		if h.err == nil {
			h.err = fmt.Errorf("it has a value of the type %d, which is none", typ)
		}
	case typ == ggufString:
		for ; count > 0 && h.err == nil; count-- {
			h.skip(h.u64(), 1)
		}
	case typ == ggufArray:
		for ; count > 0 && h.err == nil; count-- {
			of := h.u32()
			h.value(of, h.u64(), depth+1)
		}
	default:
		h.skip(count, ggufSizes[typ])
	}
}

func readGGUF(r io.ReaderAt, size int64, file string) (*ggufFile, error) {
	h := &header{in: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), 1<<16), end: min(size, maxGGUF)}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("checkpoint: %s: %w", file, fmt.Errorf(format, args...))
	}
	if magic := h.bytes(4); string(magic) != ggufMagic {
		return nil, bad("it does not begin with GGUF: this is no .gguf file")
	}
	if version := h.u32(); h.err == nil && version != 2 && version != 3 {
		return nil, bad("it is of version %#x, and versions 2 and 3 in little-endian order are read; convert it with llama.cpp", version)
	}
	tensors, values, alignment := h.u64(), h.u64(), int64(ggufAlignment)
	for ; values > 0 && h.err == nil; values-- {
		key := string(h.bytes(h.u64()))
		typ := h.u32()
		if key != "general.alignment" {
			h.value(typ, 1, 0)
			continue
		}
		if alignment = int64(h.u32()); h.err == nil && (typ != 4 || alignment < 1 || alignment&(alignment-1) != 0) {
			return nil, bad("general.alignment is %d of the type %d, and must be a power of two, as u32", alignment, typ)
		}
	}
	g := &ggufFile{r: r, name: file, heads: map[string]ggufHead{}}
	for ; tensors > 0 && h.err == nil; tensors-- {
		name := string(h.bytes(h.u64()))
		rank := h.u32()
		if h.err == nil && rank > array.MaxRank {
			return nil, bad("%s has %d dimensions, and arrays have at most %d", name, rank, array.MaxRank)
		}
		shape := make([]int, rank)
		for d := range shape {
			size := h.u64()
			if size > array.MaxBytes {
				return nil, bad("%s has a dimension of %d, and arrays have at most %d", name, size, uint64(array.MaxBytes))
			}
			shape[len(shape)-1-d] = int(size)
		}
		id, from := h.u32(), h.u64()
		if h.err != nil {
			break
		}
		i := slices.IndexFunc(ggufTypes, func(t ggufType) bool { return t.id == id })
		switch _, twice := g.heads[name]; {
		case twice:
			return nil, bad("it has two arrays %s", name)
		case i < 0:
			return nil, bad("%s is of the type %d, which is none of gguf 0.19.0", name, id)
		case from > uint64(size):
			return nil, bad("%s lies at byte %d of the arrays, and the file has %d: it is cut short", name, from, size)
		}
		g.heads[name] = ggufHead{typ: &ggufTypes[i], shape: shape, from: int64(from)}
	}
	if h.err != nil {
		if h.end < size && errors.Is(h.err, errCut) {
			return nil, bad("its header has more than the %d bytes that are read", maxGGUF)
		}
		return nil, bad("%w: it is cut short, or no .gguf file", h.err)
	}
	begin := (h.at + alignment - 1) / alignment * alignment
	for _, name := range g.Names() {
		head := g.heads[name]
		bytes, err := head.bytes(size)
		if err != nil {
			return nil, bad("%s: %w", name, err)
		}
		if head.from += begin; head.from > size-bytes {
			return nil, bad("%s lies in bytes %d to %d, and the file has %d: it is cut short", name, head.from, head.from+bytes, size)
		}
		g.heads[name] = head
	}
	return g, nil
}

// stored is the shape of an array as its elements are read: blocks as bytes.
func (h ggufHead) stored() (dtype.Type, []int, error) {
	shape := slices.Clone(h.shape)
	if h.typ.plain != 0 {
		return h.typ.plain, shape, nil
	}
	if len(shape) == 0 || shape[len(shape)-1]%h.typ.block != 0 {
		return 0, nil, fmt.Errorf("rows of %s are no whole number of blocks of %d", headText(h.typ.name, shape), h.typ.block)
	}
	shape[len(shape)-1] = shape[len(shape)-1] / h.typ.block * h.typ.bytes
	return dtype.U8, shape, nil
}

// bytes is how many the array takes, at most so many.
func (h ggufHead) bytes(most int64) (int64, error) {
	t, shape, err := h.stored()
	if err != nil {
		return 0, err
	}
	n := int64(t.Bits() / 8)
	for _, d := range shape {
		if d > 0 && n > most/int64(d) {
			return 0, fmt.Errorf("%s takes more than the %d bytes of the file: it is cut short", headText(h.typ.name, h.shape), most)
		}
		n *= int64(d)
	}
	return n, nil
}

func (g *ggufFile) Close() error {
	if g.close == nil {
		return nil
	}
	return g.close()
}

func (g *ggufFile) Names() []string { return slices.Sorted(maps.Keys(g.heads)) }

// Head is the type of an array by its name there, and its shape in numbers.
func (g *ggufFile) Head(name string) (typ string, shape []int, ok bool) {
	h, ok := g.heads[name]
	if !ok || name == "" {
		return "", nil, false
	}
	return h.typ.name, slices.Clone(h.shape), true
}

// Array reads an array; blocks are bytes.
func (g *ggufFile) Array(name string) (*array.Array, error) {
	h, ok := g.heads[name]
	if !ok {
		return nil, fmt.Errorf("checkpoint: %s has no array %s", g.name, name)
	}
	return g.read(name, h)
}

// Part reads a[i, …] of an array.
func (g *ggufFile) Part(name string, i int) (*array.Array, error) {
	h, ok := g.heads[name]
	if !ok || len(h.shape) < 2 || i < 0 || i >= h.shape[0] {
		return nil, fmt.Errorf("checkpoint: %s: %s has no part %d", g.name, name, i)
	}
	part := ggufHead{typ: h.typ, shape: h.shape[1:]}
	bytes, err := part.bytes(math.MaxInt64)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %s: %w", g.name, name, err)
	}
	part.from = h.from + int64(i)*bytes
	return g.read(name, part)
}

func (g *ggufFile) read(name string, h ggufHead) (*array.Array, error) {
	t, shape, err := h.stored()
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %s: %w", g.name, name, err)
	}
	if err := array.CheckShape(t, shape...); err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %s: %w", g.name, name, err)
	}
	a := array.New(t, shape...)
	if n, err := g.r.ReadAt(a.Data, h.from); n < len(a.Data) {
		return nil, fmt.Errorf("checkpoint: %s: %s: %w", g.name, name, err)
	}
	return a, nil
}
