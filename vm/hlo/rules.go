package hlo

import "github.com/tilus-lab/tilus-lab/vm/diag"

// Codes of problems of fusion texts.
const (
	codeSyntax  = "Fusion.E1"
	codeOp      = "Fusion.E2"
	codeName    = "Fusion.E3"
	codeTwice   = "Fusion.E4"
	codeShape   = "Fusion.E5"
	codeSize    = "Fusion.E6"
	codeLiteral = "Fusion.E7"
	codeAttr    = "Fusion.E8"
	codeCalled  = "Fusion.E9"
	codeLimit   = "Fusion.E10"
	codeRoot    = "Fusion.E11"
	codeArgs    = "Fusion.V1"
	codeTypes   = "Fusion.V2"
	codeResult  = "Fusion.V3"
	codeMissing = "Fusion.V4"
	codeValue   = "Fusion.V5"
	codeApply   = "Fusion.V6"
	codeParam   = "Fusion.V7"
)

// Rules are the numbered rules of fusions.
var Rules = []diag.Rule{
	{Code: codeSyntax, Text: "A fusion is HLO text: computations NAME { … }, each line of which is NAME = SHAPE OPERATION(OPERANDS), ATTRIBUTES."},
	{Code: codeOp, Text: "Operations have the names that XLA gives them."},
	{Code: codeName, Text: "An operand is the name of an instruction further up in the same computation.", Why: "Values cannot depend on themselves."},
	{Code: codeTwice, Text: "A name means one thing in its computation."},
	{Code: codeShape, Text: "A shape is TYPE[SIZES] with an optional layout {minor, …, major} that names every dimension once, or a tuple (SHAPE, …)."},
	{Code: codeSize, Text: "An array has at most 16 dimensions and 64 TiB.", Why: "Sizes and offsets must not overflow."},
	{Code: codeLiteral, Text: "A literal has as many numbers as its shape, or one that stands for all, each of its type."},
	{Code: codeAttr, Text: "An attribute has the form that XLA prints, such as dimensions={0,1} or padding=1_4_1x0_0."},
	{Code: codeCalled, Text: "A computation is called by name after it is defined.", Why: "Computations cannot call themselves."},
	{Code: codeLimit, Text: "A text has at most 4 MiB and 65536 instructions; a constant has at most 1048576 elements."},
	{Code: codeRoot, Text: "A computation has one root: the instruction marked ROOT, or else the last."},
	{Code: codeArgs, Text: "An operation has the operands that its meaning needs."},
	{Code: codeTypes, Text: "Operands have element types on which the operation is defined, and those that must agree do."},
	{Code: codeResult, Text: "The shape written before an operation is the one that its operands and attributes give."},
	{Code: codeMissing, Text: "An operation has the attributes without which it means nothing."},
	{Code: codeValue, Text: "Attributes fit the shapes: dimensions exist, and what is cut out lies inside."},
	{Code: codeApply, Text: "A called computation takes and gives what its caller needs."},
	{Code: codeParam, Text: "Parameters are numbered from 0 without gaps."},
}
