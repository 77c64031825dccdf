package notation

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// MaxText is the longest text that [Read] takes, in bytes.
const MaxText = 1 << 15

type rule int

const (
	eUnknown rule = iota + 1
	eText
	eShape
	eKind
	eForm
	eCarry
	eHoles
	eOpen
)

// Rules lists every rule a message can name, in order; numbers are never reused.
var Rules = []diag.Rule{
	{Code: "Notation.E1", Text: "A layout is a chain such as local(2, 1).spatial(8, 4), CuTe's shape:stride, the bases of a linear layout, a Triton encoding such as #ttg.blocked<{…}> on 16x64, a swizzle Sw<B,M,S>, or the name of an instruction in the catalogue."},
	{Code: "Notation.E2", Text: "The text of a layout has at most 32768 bytes."},
	{Code: "Notation.E3", Text: "\"on 16x8\" behind a layout gives its tile or tensor. It must be the shape that the layout has, where it has one of its own."},
	{Code: "Notation.E4", Text: "Layouts of registers and layouts of memory are different kinds, and no notation turns one into the other."},
	{Code: "Notation.E5", Text: "The form must be able to say the map.", Why: "A chain multiplies factors; CuTe adds strides and applies one swizzle; bases and Triton's encodings are linear over F2, in powers of two."},
	{Code: "Notation.E6", Text: "A layout of memory is linear over F2 where no two bits of the index add to the same bit of the offset.", Why: "Adding with carry is not exclusive or."},
	{Code: "Notation.E7", Text: "Triton maps offsets to indices, so a layout of memory has that form only where the offsets have no holes and no two elements share one."},
	{Code: "Notation.E8", Text: "An instruction has the operands of its row in the catalogue, and the vendor must say where their elements lie."},
}

func (r rule) code() string { return Rules[r-1].Code }

// fail is a problem without a place.
func fail(r rule, help, format string, args ...any) error {
	return diag.Problem{Code: r.code(), Msg: fmt.Sprintf(format, args...), Help: help}
}
