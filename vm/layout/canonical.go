package layout

import "fmt"

// Canonical is one of the forms in which wgmma and tcgen05.mma read a matrix
// operand from shared memory. The operand is [MN, K]: rows of A or columns of B,
// and the dimension that is summed over. Major says which of them is contiguous,
// Width how many bytes of it are swizzled together. The operand is M times K
// blocks; what descriptors call stride and leading byte offset is the distance
// of blocks, here in elements:
//
//	major  width  block           M blocks along MN are  K blocks along K are
//	K      any    8 × (T*S)       SBO apart              LBO apart
//	MN     0      T × 8           SBO apart              LBO apart
//	MN     32…    (T*S) × 8       LBO apart              SBO apart
//
// with T elements in 16 bytes and S = Width/16 (1 without swizzle).
//
// Source: PTX ISA, "Strides" and "Canonical layouts" of wgmma and tcgen05.
type Canonical struct {
	Major Major
	Width int // bytes: 0 (no swizzle), 32, 64 or 128
	SBO   int // elements
	LBO   int // elements
	M, K  int // blocks
	T     int // elements in 16 bytes
}

// Major is the contiguous dimension of a matrix operand: "K" or "MN".
type Major string

// The two majors.
const (
	MajorK  Major = "K"
	MajorMN Major = "MN"
)

// block is the shape of a block, [MN, K].
func (c Canonical) block() (mn, k int) {
	s := max(1, c.Width/16)
	switch {
	case c.Major == MajorK:
		return 8, c.T * s
	default:
		return c.T * s, 8
	}
}

// swizzle is the permutation that goes with a width, for T elements in 16 bytes.
func (c Canonical) swizzle() Swizzle {
	if c.Width == 0 {
		return Swizzle{}
	}
	return Swizzle{Bits: log2(c.Width / 16), Base: log2(c.T), Shift: 3}
}

// swapped says whether SBO separates the blocks along K.
func (c Canonical) swapped() bool { return c.Major == MajorMN && c.Width != 0 }

func (c Canonical) check() error {
	switch {
	case c.Major != MajorK && c.Major != MajorMN:
		return fail(eCanonical, "", "major is %q; it must be K or MN", c.Major)
	case c.Width != 0 && c.Width != 32 && c.Width != 64 && c.Width != 128:
		return fail(eCanonical, "", "%d bytes are no swizzle width; there are 0, 32, 64 and 128", c.Width)
	case c.T < 1 || c.T > 128 || c.T&(c.T-1) != 0:
		return fail(eCanonical, "", "%d elements in 16 bytes; it must be a power of two", c.T)
	case c.M < 1 || c.K < 1:
		return fail(eCanonical, "", "%d × %d blocks; there must be at least one", c.M, c.K)
	}
	return nil
}

// CanonicalFor lays an operand of shape [MN, K] and elements of the given bits out
// in a canonical form without holes: the blocks whose distance is SBO first.
func CanonicalFor(shape []int, bits int, major Major, width int) (Canonical, error) {
	unit, err := unitOf(bits)
	if err != nil {
		return Canonical{}, err
	}
	c := Canonical{Major: major, Width: width, M: 1, K: 1, T: unit}
	if err := c.check(); err != nil {
		return Canonical{}, err
	}
	if len(shape) != 2 {
		return Canonical{}, fail(eCanonical, "", "an operand of shape %s has not two dimensions", list(shape))
	}
	mn, k := c.block()
	if shape[0] < 1 || shape[1] < 1 || shape[0]%mn != 0 || shape[1]%k != 0 {
		return Canonical{}, fail(eCanonical, "choose a narrower swizzle or a larger tile", "shape %s is not made of blocks of %s", list(shape), list([]int{mn, k}))
	}
	if shape[0] > MaxCells || shape[1] > MaxCells/shape[0] {
		return Canonical{}, fail(eSize, "use smaller sizes", "the layout of shape %s has more than %d elements", list(shape), MaxCells)
	}
	c.M, c.K = shape[0]/mn, shape[1]/k
	c.SBO = mn * k
	c.LBO = c.SBO * c.M
	if c.swapped() {
		c.LBO = c.SBO * c.K
	}
	return c, nil
}

// Layout is the layout of the form, [MN, K].
func (c Canonical) Layout() (Shared, error) {
	if err := c.check(); err != nil {
		return Shared{}, err
	}
	if c.M > MaxCells || c.K > MaxCells {
		return Shared{}, fail(eSize, "use smaller sizes", "%d × %d blocks are more than %d elements", c.M, c.K, MaxCells)
	}
	mn, k := c.block()
	stepM, stepK := c.SBO, c.LBO
	if c.swapped() {
		stepM, stepK = c.LBO, c.SBO
	}
	inMN, inK := k, 1
	if c.Major == MajorMN {
		inMN, inK = 1, mn
	}
	modes := []mode{{0, c.M, stepM}, {0, mn, inMN}, {1, c.K, stepK}, {1, k, inK}}
	return Shared{swizzle: c.swizzle()}.with(buildStrided([]int{c.M * mn, c.K * k}, modes, MaxCells))
}

// Canonical recognises the form that a layout of elements of the given bits has.
// A distance between blocks of which there is one is 1.
func (s Shared) Canonical(bits int) (Canonical, error) {
	unit, err := unitOf(bits)
	if err != nil {
		return Canonical{}, err
	}
	if s.Rank() != 2 {
		return Canonical{}, fail(eCanonical, "slice or reshape it first", "a layout of shape %s has not two dimensions", list(s.rep().shape))
	}
	shape := s.rep().shape
	for _, major := range []Major{MajorK, MajorMN} {
		for _, width := range []int{0, 32, 64, 128} {
			c := Canonical{Major: major, Width: width, SBO: 1, LBO: 1, M: 1, K: 1, T: unit}
			mn, k := c.block()
			if c.swizzle() != s.swizzle || shape[0]%mn != 0 || shape[1]%k != 0 {
				continue
			}
			c.M, c.K = shape[0]/mn, shape[1]/k
			stepM, stepK := &c.SBO, &c.LBO
			if c.swapped() {
				stepM, stepK = stepK, stepM
			}
			// The distances can be read off the layout; the rest must agree.
			if c.M > 1 {
				*stepM = s.rep().at([]int{mn, 0})
			}
			if c.K > 1 {
				*stepK = s.rep().at([]int{0, k})
			}
			if l, err := c.Layout(); err == nil && l.Equal(s) {
				return c, nil
			}
		}
	}
	return Canonical{}, fail(eCanonical, "shared_row_major_swizzle makes a layout that matrix instructions read", "%s is none of the forms that matrix instructions read for elements of %d bits", s, bits)
}

// String names the form: "K-major, 128-byte swizzle, 8 × 1 blocks, SBO 512, LBO 1".
func (c Canonical) String() string {
	w := "no swizzle"
	if c.Width != 0 {
		w = fmt.Sprintf("%d-byte swizzle", c.Width)
	}
	return fmt.Sprintf("%s-major, %s, %d × %d blocks, SBO %d, LBO %d", c.Major, w, c.M, c.K, c.SBO, c.LBO)
}
