package layout

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Rule is one numbered rule of layouts and their notation.
type Rule struct {
	Code string // "Layout.E4", as messages print it
	Text string
}

type rule int

const (
	eSyntax rule = iota + 1
	eName
	eArgs
	eSize
	eRanks
	eModes
	eDivide
	eLeftDivide
	eDims
	eReshape
	eReduceTo
	eAuto
	eText
	ePacked
	eValue
	eOffset
	eSwizzle
	eCanonical
	eTMemory
	eMulti
)

// Rules lists every rule a message can name, in order; numbers are never reused.
var Rules = []Rule{
	{"Layout.E1", "A layout is a call such as local(2, 1), a chain of calls joined by '.', or such terms joined by '*' and '/', which have equal precedence; parentheses group."},
	{"Layout.E2", "A name must be one of the functions of the notation, or a name that the surrounding program binds."},
	{"Layout.E3", "A call must give each parameter of its function once, with the right kind of value: a number, a list of numbers, True or False, or a layout."},
	{"Layout.E4", "Every size is at least 1, a layout has at most 32 dimensions, and threads times slots is at most 16777216 (2^24)."},
	{"Layout.E5", "ranks gives each dimension its position in the order of the digits, so it must be a permutation of 0 … rank-1."},
	{"Layout.E6", "In register_layout the modes, taken from the left, multiply up to each dimension in turn, and every mode stands exactly once in spatial_modes or local_modes; -r in spatial_modes is a replica digit of size r."},
	{"Layout.E7", "h / g is the layout f with f * g = h. It exists only where g is the inner part of h: the thread digits of g end those of h, the slot digits of g end those of h, and each dimension of g divides that of h."},
	{"Layout.E8", "left_divide(h, f) is the layout g with f * g = h. It exists only where f is the outer part of h: the thread digits of f begin those of h, the slot digits of f begin those of h, and each dimension of f divides that of h."},
	{"Layout.E9", "Dimensions are numbered 0 … rank-1 (or -rank … -1 from the end) and named once each; permute names all of them; squeeze names dimensions of size 1; slice drops only dimensions over which no threads are spread."},
	{"Layout.E10", "reshape keeps the number of elements, and every border between new dimensions must fall between modes, or cut a mode into two whole factors."},
	{"Layout.E11", "reduce_to needs a target of at most the same rank in which each dimension, aligned at the last, is 1 or equal to the dimension of the layout."},
	{"Layout.E12", "auto_local_spatial needs the number of threads to divide the number of elements or the other way round."},
	{"Layout.E13", "The text of a layout has at most 4096 bytes, and calls, parentheses and lists nest at most 64 deep."},
	{"Layout.E14", "A packed view exists where each thread holds a whole number of bytes: element bits times slots divides by 8."},
	{"Layout.E15", "Numbers are whole, at most 16777216 in size (in layouts of global memory 1099511627776), and are not divided by zero."},
	{"Layout.E16", "Offsets in memory are counted from 0 up, at most 1099511627776 (2^40); strides are not negative; an index lies inside the shape, and a part inside its tensor and between its modes."},
	{"Layout.E17", "A swizzle permutes 16-byte units of 8 rows: the tile has a multiple of 8 rows, a row is a multiple of 16 bytes, elements have a power of two of bits; a layout has at most one swizzle, whose fields do not overlap."},
	{"Layout.E18", "wgmma and tcgen05.mma read an operand [MN, K] that is made of whole blocks, K-major or MN-major, swizzled over 0, 32, 64 or 128 bytes, with one distance between blocks in each direction."},
	{"Layout.E19", "A tile in tensor memory has 32, 64 or 128 lanes as dimension 0 and one or more dimensions of columns; it begins at a lane that is a multiple of 32 and ends at lane 128 or before."},
	{"Layout.E20", "Maps are compared over the same shape; one map follows another where it takes numbers that the other makes and their digits cut each other into whole factors."},
}

func (r rule) code() string { return Rules[r-1].Code }

// fail is a problem without a place; the parser adds the place.
func fail(r rule, help, format string, args ...any) error {
	return diag.Problem{Code: r.code(), Msg: fmt.Sprintf(format, args...), Help: help}
}
