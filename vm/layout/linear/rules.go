package linear

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Limits of a linear layout.
const (
	// MaxBits bounds the bits of all input dimensions, and of all output dimensions.
	MaxBits = 24
	// MaxDims bounds the number of input dimensions, and of output dimensions.
	MaxDims = 8
	// MaxText is the longest text of one layout, in bytes.
	MaxText = 1 << 15
	// MaxDepth is how deep lists and attributes may nest.
	MaxDepth = 16
)

type rule int

const (
	eSyntax rule = iota + 1
	eDims
	eSize
	eBasis
	eEncoding
	eShape
	eCompose
	eInverse
	eDivide
	eRegister
)

// Rules lists every rule a message can name, in order; numbers are never reused.
var Rules = []diag.Rule{
	{Code: "Linear.E1", Text: "A linear layout is written as Triton prints it (\"- lane=1 -> (0, 2)\" and so on, then \"where out dims are: [dim0 (size 16), …]\"), as an attribute such as #ttg.linear<{register = [[0, 1]], lane = …}>, or as a block \"name: [T, W, R] -> [A, B]\" with a list of bases for each input."},
	{Code: "Linear.E2", Text: "A layout has at most 8 input and 8 output dimensions with different names, at most 24 bits on each side, and at most 32768 bytes of text that nests at most 16 deep."},
	{Code: "Linear.E3", Text: "Every size is a power of two.", Why: "A number of n bits counts to 2^n; there is no bit that stands for a third."},
	{Code: "Linear.E4", Text: "A basis has one number for each output dimension, not negative and below the size of that dimension; the bases of an input dimension are those of its numbers 1, 2, 4, 8, …"},
	{Code: "Linear.E5", Text: "A Triton encoding is one of linear, blocked, nvidia_mma (versions 2 and 3), amd_mfma, amd_wmma (versions 1 and 2), dot_op, slice, swizzled_shared, nvmma_shared and shared_linear, with the parameters of its kind."},
	{Code: "Linear.E6", Text: "An encoding of a tile needs the shape of the tensor, of the encoding's rank and of powers of two: write \"on 16x64\" behind it."},
	{Code: "Linear.E7", Text: "Composition needs the output dimensions of the first layout to be the input dimensions of the second, none larger there; reshaping keeps the number of bits."},
	{Code: "Linear.E8", Text: "An inverse needs a matrix of full rank: a right inverse exists where every element is reached, an inverse where every element is reached once."},
	{Code: "Linear.E9", Text: "A quotient exists where the divisor holds the low (left) or the high (right) bits of every dimension it has, and the rest does not touch them."},
	{Code: "Linear.E10", Text: "A linear layout is a register layout of digits where every basis is zero or flips a single bit, every bit of the element is flipped by exactly one basis, and no bit of the register number only replicates."},
}

func (r rule) code() string { return Rules[r-1].Code }

// fail is a problem without a place; the parser adds the place.
func fail(r rule, help, format string, args ...any) error {
	return diag.Problem{Code: r.code(), Msg: fmt.Sprintf(format, args...), Help: help}
}
