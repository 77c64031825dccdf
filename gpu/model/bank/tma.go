package bank

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// TMAMode is one of the swizzles that the tensor memory accelerator (TMA) applies
// to shared memory. It moves chunks within lines of 128 bytes by XOR with bits of
// the absolute shared-memory address, so that a tile that does not begin at a
// multiple of Align begins in the middle of the pattern: see [TMAMode.BaseOffset].
//
// Source: PTX ISA, swizzling modes (tables of 16-byte chunks); NVIDIA/cutlass,
// mma_traits_sm90_gmma.hpp and mma_traits_sm100.hpp; CUDA driver API,
// CUtensorMapSwizzle.
type TMAMode struct {
	Name    string
	Aliases []string
	Swizzle layout.Swizzle // on bytes
	Flip    bool           // also bit 3 ^= bit 7: the halves of a chunk change places
	Span    int            // most bytes of the inner box dimension; 0 is no limit
	Repeat  int            // bytes after which the pattern repeats
	Align   int            // of a tile that begins with the pattern
}

// TMAModes lists the modes, none first.
func TMAModes() []TMAMode {
	sw := func(b, m, s int) layout.Swizzle { return layout.Swizzle{Bits: b, Base: m, Shift: s} }
	return []TMAMode{
		{Name: "none", Repeat: 128, Align: 128},
		{Name: "32B", Swizzle: sw(1, 4, 3), Span: 32, Repeat: 256, Align: 256},
		{Name: "64B", Swizzle: sw(2, 4, 3), Span: 64, Repeat: 512, Align: 512},
		{Name: "128B", Swizzle: sw(3, 4, 3), Span: 128, Repeat: 1024, Align: 1024},
		{Name: "128B_ATOM_32B", Swizzle: sw(2, 5, 2), Span: 128, Repeat: 512, Align: 1024},
		{Name: "128B_ATOM_32B_FLIP_8B", Aliases: []string{"128B_ATOM_32B_8B_FLIP"}, Swizzle: sw(2, 5, 2), Flip: true, Span: 128, Repeat: 512, Align: 1024},
		{Name: "128B_ATOM_64B", Swizzle: sw(1, 6, 1), Span: 128, Repeat: 256, Align: 1024},
		{Name: "96B", Swizzle: sw(1, 4, 3), Span: 96, Repeat: 256, Align: 256},
	}
}

// FindTMAMode looks a mode up by its name, with or without CU_TENSOR_MAP_SWIZZLE_,
// underlines and capitals.
func FindTMAMode(name string) (TMAMode, error) {
	plain := func(s string) string { return strings.ReplaceAll(strings.ToUpper(s), "_", "") }
	key := strings.TrimPrefix(strings.TrimPrefix(plain(strings.TrimSpace(name)), "CUTENSORMAP"), "SWIZZLE")
	var names []string
	for _, m := range TMAModes() {
		if plain(m.Name) == key || slices.ContainsFunc(m.Aliases, func(a string) bool { return plain(a) == key }) {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return TMAMode{}, fmt.Errorf("TMA has no swizzle mode %q; there are %s", name, strings.Join(names, ", "))
}

// line is the bytes of all 32 banks: chunks move within one.
const (
	line  = 128
	chunk = 16
)

// Apply is where the byte of a logical shared-memory address lies, and the other way
// round: it is its own inverse.
func (m TMAMode) Apply(addr int) int {
	addr = m.Swizzle.Apply(addr)
	if m.Flip {
		addr ^= addr >> 7 & 1 << 3
	}
	return addr
}

// Chunks is the table of the PTX manual: which logical 16-byte chunk is found at each
// of the 8 positions of each line of 128 bytes, until the pattern repeats.
func (m TMAMode) Chunks() [][]int {
	t := make([][]int, m.Repeat/line)
	for r := range t {
		for p := range line / chunk {
			t[r] = append(t[r], m.Apply(r*line+p*chunk)%line/chunk)
		}
	}
	return t
}

// Formula is the mode as assignments to address bits.
func (m TMAMode) Formula() string {
	if m.Swizzle.Identity() {
		return "addr"
	}
	field := func(low, n int) string {
		if n == 1 {
			return fmt.Sprintf("addr[%d]", low)
		}
		return fmt.Sprintf("addr[%d:%d]", low+n-1, low)
	}
	s := m.Swizzle
	f := field(s.Base, s.Bits) + " ^= " + field(s.Base+s.Shift, s.Bits)
	if m.Flip {
		f += ", addr[3] ^= addr[7]"
	}
	return f
}

// BaseOffset is the line of the pattern at which a tile at that address begins, 0
// where the address is a multiple of Align.
func (m TMAMode) BaseOffset(addr int) int { return addr / line % (m.Align / line) }

// TensorMap is what cuTensorMapEncodeTiled is given, inner dimension first.
type TensorMap struct {
	ElementBytes   int // 1, 2, 4 or 8
	Float          bool
	Address        uint64   // in global memory
	Dims           []uint64 // elements of the tensor
	Strides        []uint64 // bytes; one fewer than Dims, for the inner dimension is dense
	Box            []int    // elements of a tile
	ElementStrides []int    // nil is all 1
	Interleave     string   // "none", "16B", "32B"; "" is none
	Swizzle        string   // a [TMAMode]; "" is none
	FillNaN        bool     // what lies outside becomes NaN, not 0
}

// Sizes of the opaque object that the driver makes of a [TensorMap].
const (
	TensorMapBytes = 128
	TensorMapAlign = 64
)

// sharedLimit is the most shared memory that a block can have (sm_90, sm_100).
const sharedLimit = 227 << 10

// InterleaveSwizzle is the swizzle that an interleave requires, "" for any.
func InterleaveSwizzle(interleave string) string {
	if interleave == "32B" {
		return "32B"
	}
	return ""
}

// Check says what is wrong with a tensor map, as numbered problems TMA.C1 to C16.
//
// Source: CUDA driver API, cuTensorMapEncodeTiled.
func (t TensorMap) Check() diag.List {
	var problems diag.List
	bad := func(code, help, format string, args ...any) { problems.Addf(diag.Pos{}, code, help, format, args...) }
	inter := t.Interleave
	if inter == "" {
		inter = "none"
	}
	if inter != "none" && inter != "16B" && inter != "32B" {
		bad("TMA.C1", "write none, 16B (NC/8HWC8) or 32B (NC/16HWC16)", "interleave %q does not exist", t.Interleave)
		inter = "none"
	}
	name := t.Swizzle
	if name == "" {
		name = "none"
	}
	mode, err := FindTMAMode(name)
	if err != nil {
		bad("TMA.C2", "", "%s", err)
	}
	rank := len(t.Dims)
	switch {
	case rank < 1 || rank > 5:
		bad("TMA.C3", "fold dimensions together", "rank %d; it must be 1 to 5", rank)
	case inter != "none" && rank < 3:
		bad("TMA.C3", "", "rank %d; with interleave it must be 3 to 5", rank)
	}
	if e := t.ElementBytes; e != 1 && e != 2 && e != 4 && e != 8 {
		bad("TMA.C4", "pack low-bit elements into bytes", "elements of %d bytes; they must have 1, 2, 4 or 8", e)
	}
	align := uint64(16)
	if inter == "32B" {
		align = 32
	}
	if t.Address%align != 0 {
		bad("TMA.C5", "", "global address 0x%x is no multiple of %d", t.Address, align)
	}
	for i, d := range t.Dims {
		if d < 1 || d > 1<<32 {
			bad("TMA.C6", "", "dimension %d has %d elements; it must have 1 to 2^32", i, d)
		}
	}
	if len(t.Strides) != max(rank-1, 0) {
		bad("TMA.C7", "the inner dimension is dense and has none", "%d strides for rank %d; there must be one fewer than dimensions", len(t.Strides), rank)
	}
	for i, s := range t.Strides {
		if s%align != 0 {
			bad("TMA.C7", "pad the rows", "stride %d of dimension %d is no multiple of %d bytes", s, i+1, align)
		}
		if s >= 1<<40 {
			bad("TMA.C8", "", "stride %d of dimension %d is not below 2^40", s, i+1)
		}
		if i == 0 && rank > 0 && t.Dims[0] <= 1<<32 && s < t.Dims[0]*uint64(t.ElementBytes) {
			bad("TMA.C9", "", "stride %d of dimension 1 is less than the %d bytes of dimension 0", s, t.Dims[0]*uint64(t.ElementBytes))
		}
	}
	if len(t.Box) != rank {
		bad("TMA.C10", "", "a box of %d dimensions for rank %d", len(t.Box), rank)
	}
	elements := 1
	for i, b := range t.Box {
		if b < 1 || b > 256 {
			bad("TMA.C10", "use several boxes", "box dimension %d has %d elements; it must have 1 to 256", i, b)
		}
		elements *= min(max(b, 1), 257)
	}
	if len(t.Box) > 0 {
		inner := t.Box[0] * t.ElementBytes
		if inter == "none" && inner%16 != 0 {
			bad("TMA.C11", "", "the inner box dimension has %d bytes, no multiple of 16", inner)
		}
		if inter == "none" && err == nil && mode.Span != 0 && inner > mode.Span {
			bad("TMA.C12", fmt.Sprintf("use boxes of %d bytes, or a wider swizzle", mode.Span),
				"the inner box dimension has %d bytes, more than the %d of swizzle %s", inner, mode.Span, mode.Name)
		}
	}
	if need := InterleaveSwizzle(inter); need != "" && mode.Name != need {
		bad("TMA.C13", "", "interleave %s requires swizzle %s, not %s", inter, need, name)
	}
	if t.ElementStrides != nil && len(t.ElementStrides) != rank {
		bad("TMA.C14", "", "%d element strides for rank %d", len(t.ElementStrides), rank)
	}
	for i, s := range t.ElementStrides {
		if (s < 1 || s > 8) && !(i == 0 && inter == "none") { // the driver ignores the first without interleave
			bad("TMA.C14", "", "element stride %d of dimension %d; it must be 1 to 8", s, i)
		}
	}
	if t.FillNaN && !t.Float {
		bad("TMA.C15", "", "only floats can be filled with NaN")
	}
	if bytes := elements * t.ElementBytes; bytes > sharedLimit {
		bad("TMA.C16", "use several boxes", "a box of %d bytes; a block has at most %d of shared memory", bytes, sharedLimit)
	}
	return problems
}

// At is the shared-memory byte address of an element of the box, inner index first
// and indices left out 0, when the box is copied to base. The map must be right, see
// Check. Source for rows shorter than the swizzle's: an H200.
func (t TensorMap) At(base int, index ...int) int {
	mode, err := FindTMAMode(t.Swizzle)
	if err != nil {
		mode = TMAModes()[0]
	}
	at := 0
	for i := len(t.Box) - 1; i >= 0; i-- {
		n := t.Box[i]
		if i == 0 { // rows shorter than the swizzle's lie as far apart as its own
			n = max(n, mode.Span/max(t.ElementBytes, 1))
		}
		if i < len(t.ElementStrides) && t.ElementStrides[i] > 1 && i > 0 {
			n = (n + t.ElementStrides[i] - 1) / t.ElementStrides[i]
		}
		if at *= n; i < len(index) {
			at += index[i]
		}
	}
	return mode.Apply(base + at*t.ElementBytes)
}

// TalkFormula is the formula that talks give for the element of a row-major tile with
// nx elements of size bytes in a row that holds element (x, y) in TMA's 128-byte mode:
// with i = (y·nx + x)·size/16, its column is ((i/8 ^ i mod 8)·16/size) mod nx + x mod
// (16/size), and its row stays y. wrap takes i/8 modulo 8 first; without it the XOR
// leaves the line, and only the closing mod nx brings it back. It holds where nx·size
// is the mode's width and the tile begins at a multiple of the mode's alignment.
func TalkFormula(size, nx, x, y int, wrap bool) (column int) {
	per := chunk / size
	i := (y*nx + x) * size / chunk
	row := i / 8
	if wrap {
		row %= 8
	}
	return (row^i%8)*per%nx + x%per
}
