package cute

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Limits. They keep every product of a size and a stride far from overflow, and
// every text and nesting small enough to be walked without thought.
const (
	// MaxSize bounds sizes and the entries of shapes.
	MaxSize = 1 << 40
	// MaxOffset bounds strides and offsets, in either direction.
	MaxOffset = 1 << 52
	// MaxDepth is how deep tuples and calls may nest.
	MaxDepth = 64
	// MaxLeaves is how many numbers a tuple may hold.
	MaxLeaves = 4096
	// MaxText is the longest text of one expression, in bytes.
	MaxText = 4096
)

type rule int

const (
	eSyntax rule = iota + 1
	eText
	eNumber
	eCongruent
	eSize
	eDivide
	eProfile
	eCoord
	eName
	eArgs
	eInjective
	eInverse
	eOrder
	eRecast
	eTile
	eSwizzle
	eRegister
	eBasis
	eCells
	eCarry
)

// Rules lists every rule that a message of this package can name, in order;
// numbers are never reused.
var Rules = []diag.Rule{
	{Code: "CuTe.E1", Text: "A layout is shape:stride, each a number or a bracketed list of such; a shape alone is column-major. A tiler is a layout, a shape, or <…> with one tiler for each mode. Operations are calls, A o B composes."},
	{Code: "CuTe.E2", Text: "A text has at most 4096 bytes, tuples and calls nest at most 64 deep, and a tuple holds at most 4096 numbers."},
	{Code: "CuTe.E3", Text: "Sizes are whole numbers from 1 to 2^40; strides are whole numbers of at most 2^52, or n@m for n steps in mode m of a coordinate."},
	{Code: "CuTe.E4", Text: "Shape and stride are congruent: wherever one has a number or a list, the other has a number or a list of the same length."},
	{Code: "CuTe.E5", Text: "The size of a layout is at most 2^40 and its largest offset at most 2^52."},
	{Code: "CuTe.E6", Text: "In A o B each mode s:d of B steps through the modes of A from the left. Passing a mode of size n with stride d needs that n divides d, or that d divides n and n/d divides s, or that all s steps stay inside the mode.",
		Why: "Otherwise the steps would land in the middle of the next mode, and no layout of that shape has those offsets."},
	{Code: "CuTe.E7", Text: "A tiler and a profile have at most as many modes as the layout they act on, mode by mode."},
	{Code: "CuTe.E8", Text: "A coordinate is a number, or a list with one coordinate for each mode."},
	{Code: "CuTe.E9", Text: "A name is one of the operations, see Functions."},
	{Code: "CuTe.E10", Text: "A call gives each argument of its operation in order, of the kind that the operation wants."},
	{Code: "CuTe.E11", Text: "A complement exists only for a layout whose modes do not overlap: sorted by stride, each mode must begin at or after the end of the one before."},
	{Code: "CuTe.E12", Text: "A left inverse exists where every stride, in ascending order, is a positive multiple of the one before; layouts of threads and of values number their places from 0, each once."},
	{Code: "CuTe.E13", Text: "An order gives every mode a different number."},
	{Code: "CuTe.E14", Text: "Recasting to units n times larger needs that n and every stride divide one another; sizes are rounded up."},
	{Code: "CuTe.E15", Text: "tile_to_shape needs a block of at most the rank of the shape, each mode of which divides that of the shape."},
	{Code: "CuTe.E16", Text: "A swizzle Sw<B,M,S> has B, M ≥ 0 and |S| ≥ B, and acts on offsets that are not negative."},
	{Code: "CuTe.E17", Text: "A register layout is a CuTe layout (thread, value) → element of a column-major tile; it must reach every element of the tile, equally often."},
	{Code: "CuTe.E18", Text: "Offsets are wanted here, or coordinates, but the layout has the other; n@m steps in a mode that the coordinate or the composed layout must have."},
	{Code: "CuTe.E19", Text: "A table has at most 2^16 cells and shows a layout of rank 1 or 2."},
	{Code: "CuTe.E20", Text: "In A o B the modes of B together stay inside each mode of A but the last: the largest steps that they take in a mode of size n add up to less than n.",
		Why: "Otherwise sums of the modes of B carry into the next mode of A, and the modes of the result would not add up to A(B(c))."},
}

func (r rule) code() string { return Rules[r-1].Code }

// fail leaves an operation; catch turns it into the error of the exported
// function. The parser adds the place.
func fail(r rule, help, format string, args ...any) {
	panic(diag.Problem{Code: r.code(), Msg: fmt.Sprintf(format, args...), Help: help})
}

// catch is deferred by functions that return an error.
func catch(err *error) {
	switch p := recover().(type) {
	case nil:
	case diag.Problem:
		*err = p
	default:
		panic(p)
	}
}

// times is a product that may not leave ±MaxOffset.
func times(a, b int) int {
	if a == 0 || b == 0 {
		return 0
	}
	p := a * b
	if p/b != a || p > MaxOffset || p < -MaxOffset {
		fail(eSize, "", "%d · %d is beyond 2^52", a, b)
	}
	return p
}

func plus(a, b int) int {
	s := a + b // each is below 2^53
	if s > MaxOffset || s < -MaxOffset {
		fail(eSize, "", "%d + %d is beyond 2^52", a, b)
	}
	return s
}

func abs(a int) int {
	if a < 0 {
		return -a
	}
	return a
}

func sign(a int) int {
	switch {
	case a < 0:
		return -1
	case a > 0:
		return 1
	}
	return 0
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
