package bank

import (
	"fmt"
	"strings"
)

// Descriptor is the 64-bit matrix descriptor by which wgmma (sm_90) and tcgen05.mma
// (sm_100) find an operand in shared memory.
//
// Source: PTX ISA, matrix descriptor format of wgmma and of tcgen05.
type Descriptor struct {
	Start      int    `json:"start"`       // byte address in shared memory, a multiple of 16 below 2^18
	Leading    int    `json:"lbo_bytes"`   // leading-dimension byte offset (LBO), likewise
	Stride     int    `json:"sbo_bytes"`   // stride-dimension byte offset (SBO), likewise
	BaseOffset int    `json:"base_offset"` // 0 to 7, see [TMAMode.BaseOffset]
	Mode       string `json:"mode"`        // "none", "32B", "64B", "128B", and on sm_100 "128B_ATOM_32B"
	// Absolute is sm_100's mode in which Leading is an address, not an offset.
	Absolute bool `json:"absolute,omitempty"`
}

// Arch names the two formats.
const (
	SM90  = "sm_90"
	SM100 = "sm_100"
)

// modeCodes are the codes of the swizzle field; sm_90 has two bits from 62, sm_100
// three from 61.
var modeCodes = map[string]map[string]uint64{
	SM90:  {"none": 0, "128B": 1, "64B": 2, "32B": 3},
	SM100: {"none": 0, "128B_ATOM_32B": 1, "128B": 2, "64B": 4, "32B": 6},
}

func modeCodesOf(arch string) (codes map[string]uint64, format string, err error) {
	switch {
	case strings.HasPrefix(arch, "sm_90"):
		format = SM90
	case strings.HasPrefix(arch, "sm_10"), strings.HasPrefix(arch, "sm_11"):
		format = SM100
	default:
		return nil, "", fmt.Errorf("%s has no matrix descriptors; sm_90 and sm_100 have", arch)
	}
	return modeCodes[format], format, nil
}

// Encode packs a descriptor for an architecture.
func (d Descriptor) Encode(arch string) (uint64, error) {
	codes, format, err := modeCodesOf(arch)
	if err != nil {
		return 0, err
	}
	mode, err := FindTMAMode(d.Mode)
	if err != nil {
		return 0, err
	}
	code, ok := codes[mode.Name]
	if !ok {
		return 0, fmt.Errorf("a descriptor of %s cannot name swizzle %s", format, mode.Name)
	}
	var word uint64
	for _, f := range []struct {
		name string
		at   int
		v    int
	}{{"start address", 0, d.Start}, {"leading-dimension offset", 16, d.Leading}, {"stride-dimension offset", 32, d.Stride}} {
		if f.v < 0 || f.v >= 1<<18 || f.v%16 != 0 {
			return 0, fmt.Errorf("%s %d is no multiple of 16 between 0 and 2^18", f.name, f.v)
		}
		word |= uint64(f.v>>4) << f.at
	}
	switch {
	case d.BaseOffset < 0 || d.BaseOffset > 7:
		return 0, fmt.Errorf("base offset %d does not lie between 0 and 7", d.BaseOffset)
	case d.BaseOffset != 0 && d.BaseOffset >= mode.Align/line:
		return 0, fmt.Errorf("base offset %d: swizzle %s has only %d lines", d.BaseOffset, mode.Name, mode.Align/line)
	case d.Absolute && format == SM90:
		return 0, fmt.Errorf("absolute leading addresses need %s", SM100)
	}
	word |= uint64(d.BaseOffset) << 49
	if format == SM90 {
		return word | code<<62, nil
	}
	word |= 1<<46 | code<<61
	if d.Absolute {
		word |= 1 << 52
	}
	return word, nil
}

// DecodeDescriptor unpacks a descriptor of an architecture; it refuses words that
// Encode cannot make.
func DecodeDescriptor(word uint64, arch string) (Descriptor, error) {
	codes, format, err := modeCodesOf(arch)
	if err != nil {
		return Descriptor{}, err
	}
	field := func(at, n int) int { return int(word >> at & (1<<n - 1)) }
	d := Descriptor{Start: field(0, 14) << 4, Leading: field(16, 14) << 4, Stride: field(32, 14) << 4, BaseOffset: field(49, 3)}
	code := word >> 62
	if format == SM100 {
		code, d.Absolute = word>>61, field(52, 1) == 1
		if v := field(46, 2); v != 1 {
			return Descriptor{}, fmt.Errorf("version %d at bits 47:46; descriptors of %s have version 1", v, format)
		}
	}
	for name, c := range codes {
		if c == code {
			d.Mode = name
		}
	}
	if d.Mode == "" {
		return Descriptor{}, fmt.Errorf("%s has no swizzle code %d", format, code)
	}
	again, err := d.Encode(arch)
	if err != nil {
		return Descriptor{}, err
	}
	if again != word {
		return Descriptor{}, fmt.Errorf("reserved bits 0x%x are set", again^word)
	}
	return d, nil
}

// Canonical is the layout in which wgmma and tcgen05 expect an operand tile in
// shared memory. Elements are counted in units of T = 128/bits, as many as 16 bytes
// hold; LBO and SBO are the descriptor's two offsets.
//
// Source: NVIDIA/cutlass, mma_traits_sm90_gmma.hpp; PTX ISA, canonical layouts.
type Canonical struct {
	Mode  string // "none", "32B", "64B", "128B"
	Major string // "K" or "MN": the dimension along which memory is dense
}

// Canonicals lists them, K-major first.
func Canonicals() []Canonical {
	var out []Canonical
	for _, major := range []string{"K", "MN"} {
		for _, mode := range []string{"none", "32B", "64B", "128B"} {
			out = append(out, Canonical{mode, major})
		}
	}
	return out
}

// units is the 16-byte units of a row of the swizzle: 1, 2, 4, 8.
func (c Canonical) units() (n, bits int, err error) {
	if c.Major == "K" || c.Major == "MN" { // the usual names
		switch c.Mode {
		case "none":
			return 1, 0, nil
		case "32B":
			return 2, 1, nil
		case "64B":
			return 4, 2, nil
		case "128B":
			return 8, 3, nil
		}
	}
	m, err := FindTMAMode(c.Mode)
	if err != nil {
		return 0, 0, err
	}
	if _, ok := modeCodes[SM90][m.Name]; !ok {
		return 0, 0, fmt.Errorf("no canonical layout with swizzle %s", m.Name)
	}
	if c.Major != "K" && c.Major != "MN" {
		return 0, 0, fmt.Errorf("major %q; write K or MN", c.Major)
	}
	return 1 << m.Swizzle.Bits, m.Swizzle.Bits, nil
}

// String is the layout as CUTLASS writes it, with T, LBO and SBO as symbols.
func (c Canonical) String() string {
	n, bits, err := c.units()
	switch {
	case err != nil:
		return err.Error()
	case c.Major == "K" && n == 1:
		return "Swizzle<0,4,3> o ((8,m),(T,2)):((1T,SBO),(1,LBO))"
	case c.Major == "K":
		return fmt.Sprintf("Swizzle<%d,4,3> o ((8,m),(T,2)):((%dT,SBO),(1,T))", bits, n)
	case n == 1:
		return "Swizzle<0,4,3> o ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))"
	}
	return fmt.Sprintf("Swizzle<%d,4,3> o ((T,%d,m),(8,k)):((1,T,LBO),(%dT,SBO))", bits, n, n)
}

// CuTe is the layout of a tile with numbers for the symbols, as a CuTe expression in
// elements: the swizzle is rescaled from bytes. groups is m for K-major and k for
// MN-major tiles; the other group count of an MN-major tile is 1.
func (c Canonical) CuTe(elementBits int, d Descriptor, groups int) (string, error) {
	n, bits, err := c.units()
	if err != nil {
		return "", err
	}
	shift := 0 // log2 of the bytes of an element
	switch elementBits {
	case 8:
	case 16:
		shift = 1
	case 32:
		shift = 2
	default:
		return "", fmt.Errorf("elements of %d bits; canonical layouts have 8, 16 or 32", elementBits)
	}
	t := 128 / elementBits
	lbo, sbo := d.Leading>>shift, d.Stride>>shift
	sw := fmt.Sprintf("Sw<%d,%d,3> o ", bits, 4-shift)
	if bits == 0 {
		sw = ""
	}
	switch {
	case c.Major == "K" && n == 1:
		return fmt.Sprintf("%s((8,%d),(%d,2)):((%d,%d),(1,%d))", sw, groups, t, t, sbo, lbo), nil
	case c.Major == "K":
		return fmt.Sprintf("%s((8,%d),(%d,2)):((%d,%d),(1,%d))", sw, groups, t, n*t, sbo, t), nil
	case n == 1:
		return fmt.Sprintf("%s((%d,1,1),(8,%d)):((1,%d,%d),(%d,%d))", sw, t, groups, t, sbo, t, lbo), nil
	}
	return fmt.Sprintf("%s((%d,%d,1),(8,%d)):((1,%d,%d),(%d,%d))", sw, t, n, groups, t, lbo, n*t, sbo), nil
}

// At is the byte offset from the start address (which the swizzle must leave
// aligned) of element [mn, k] of the tile.
func (c Canonical) At(elementBits int, d Descriptor, mn, k int) (int, error) {
	at, err := c.Plain(elementBits, d, mn, k)
	if err != nil {
		return 0, err
	}
	m, err := FindTMAMode(c.Mode)
	return m.Apply(at), err
}

// Plain is the same before the swizzle: the machine adds it to the start address and
// swizzles the sum.
func (c Canonical) Plain(elementBits int, d Descriptor, mn, k int) (int, error) {
	n, _, err := c.units()
	if err != nil {
		return 0, err
	}
	t := 128 / elementBits
	if c.Major == "K" {
		next := chunk
		if n == 1 {
			next = d.Leading
		}
		return mn%8*n*chunk + mn/8*d.Stride + k%t*elementBits/8 + k/t*next, nil
	}
	far, along := d.Leading, d.Stride
	if n == 1 {
		far, along = d.Stride, d.Leading
	}
	return mn%t*elementBits/8 + mn/t%n*chunk + mn/t/n*far + k%8*n*chunk + k/8*along, nil
}
