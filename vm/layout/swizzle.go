package layout

import (
	"fmt"
	"strconv"
	"strings"
)

// Swizzle is the XOR permutation of offsets that CuTe writes Swizzle<B,M,S>: the
// Bits bits of an offset that begin at bit Base are XORed with the Bits bits that
// stand Shift places higher, or lower where Shift is negative. It is its own
// inverse, keeps the low Base bits, and moves nothing where Bits is 0, as in the
// zero value. The unit of offsets (bits, bytes, elements) is the user's; see
// [Swizzle.Rescale].
//
// Source: NVIDIA/cutlass, include/cute/swizzle.hpp.
type Swizzle struct {
	Bits  int // B: bits that change
	Base  int // M: low bits that stay
	Shift int // S: distance to the bits that are XORed in
}

// maxSwizzleBit bounds the bits that a swizzle may name, so that offsets fit an int.
const maxSwizzleBit = 48

// NewSwizzle checks the three numbers: none but Shift may be negative, the two
// fields may not overlap, and no field may reach beyond bit 48.
func NewSwizzle(bits, base, shift int) (Swizzle, error) {
	s := Swizzle{bits, base, shift}
	distance := max(shift, -shift)
	switch {
	case bits < 0 || base < 0:
		return Swizzle{}, fmt.Errorf("%s: B and M count bits and cannot be negative", s)
	case distance > maxSwizzleBit || bits > maxSwizzleBit || base > maxSwizzleBit || base+bits+distance > maxSwizzleBit:
		return Swizzle{}, fmt.Errorf("%s names bits beyond bit %d", s, maxSwizzleBit)
	case distance < bits:
		return Swizzle{}, fmt.Errorf("%s: |S| must be at least B, or the bits that change and the bits that are XORed in overlap", s)
	}
	return s, nil
}

// ParseSwizzle reads what [Swizzle.String] prints, also with the long name and spaces:
// "Sw<3,4,3>", "Swizzle<3, 4, 3>".
func ParseSwizzle(text string) (Swizzle, error) {
	t := strings.TrimSpace(text)
	rest, ok := strings.CutPrefix(t, "Swizzle")
	if !ok {
		rest, ok = strings.CutPrefix(t, "Sw")
	}
	rest, open := strings.CutPrefix(strings.TrimSpace(rest), "<")
	rest, closed := strings.CutSuffix(rest, ">")
	parts := strings.Split(rest, ",")
	if !ok || !open || !closed || len(parts) != 3 {
		return Swizzle{}, fmt.Errorf("%q is no swizzle; write Sw<B,M,S>, as in Sw<3,4,3>", text)
	}
	var n [3]int
	for i, p := range parts {
		v, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(p), "_"))
		if err != nil {
			return Swizzle{}, fmt.Errorf("%q in the swizzle %q is no integer", strings.TrimSpace(p), text)
		}
		n[i] = v
	}
	return NewSwizzle(n[0], n[1], n[2])
}

// String prints the swizzle as CuTe does.
func (s Swizzle) String() string { return fmt.Sprintf("Sw<%d,%d,%d>", s.Bits, s.Base, s.Shift) }

// Identity says whether the swizzle moves nothing.
func (s Swizzle) Identity() bool { return s.Bits == 0 }

// Apply gives where an offset goes, in the unit that it is counted in. The offset must
// not be negative.
func (s Swizzle) Apply(offset int) int {
	mask := 1<<s.Bits - 1
	if s.Shift >= 0 {
		return offset ^ offset>>(s.Base+s.Shift)&mask<<s.Base
	}
	return offset ^ offset>>s.Base&mask<<(s.Base-s.Shift)
}

// Rescale is the same permutation counted in units that are 2^by times smaller:
// from elements of two bytes to bytes is Rescale(1), back is Rescale(-1). It fails
// where a unit would have to be split.
func (s Swizzle) Rescale(by int) (Swizzle, error) {
	if s.Identity() {
		return s, nil
	}
	if s.Base+by < 0 {
		return Swizzle{}, fmt.Errorf("%s keeps groups of %d units together, too few for units %d times larger", s, 1<<s.Base, 1<<-by)
	}
	return NewSwizzle(s.Bits, s.Base+by, s.Shift)
}
