package hlo

import "slices"

// Op is an operation.
type Op uint8

// Class says how an operation treats its operands.
type Class uint8

// The classes.
const (
	Leaf        Class = iota // no tensor operands: parameter, constant, iota
	Elementwise              // every element from the elements at the same place
	Movement                 // elements of the operands at other places
	Combining                // many elements into one: reduce, dot, …
	Calling                  // calls a computation: fusion, call
	Tupling                  // tuple, get-tuple-element
	Opaque                   // known to XLA, without meaning here; its indexing is undefined
)

// The operations. Those without a constant here are opaque; they are found by
// their names.
const (
	InvalidOp Op = iota
	Parameter
	Constant
	Iota
	Abs
	Negate
	Sign
	Not
	Exp
	Expm1
	Log
	Log1p
	Tanh
	Erf
	Logistic
	Sqrt
	Rsqrt
	Cbrt
	Sine
	Cosine
	Tan
	Acos
	Acosh
	Asin
	Asinh
	Atanh
	Cosh
	Sinh
	Floor
	Ceil
	RoundEven
	RoundAway
	IsFinite
	Popcnt
	CountLeadingZeros
	Convert
	BitcastConvert
	Copy
	ReducePrecision
	Add
	Subtract
	Multiply
	Divide
	Remainder
	Maximum
	Minimum
	Power
	Atan2
	And
	Or
	Xor
	ShiftLeft
	ShiftRightArithmetic
	ShiftRightLogical
	Compare
	Select
	Clamp
	Map
	Broadcast
	Transpose
	Reshape
	Bitcast
	Slice
	DynamicSlice
	DynamicUpdateSlice
	Pad
	Concatenate
	Reverse
	Gather
	Reduce
	ReduceWindow
	Scatter
	Dot
	ScaledDot
	Convolution
	Scan
	AllGather
	Fusion
	Call
	Tuple
	GetTupleElement
	firstOpaque
)

// OpRow is what the table says about an operation. Args is the number of
// operands, -1 for any.
type OpRow struct {
	Name  string
	Class Class
	Args  int
	Types string // of the elements of elementwise operations: any letters of b(ool) i(nteger) f(loat) c(omplex)
	Attrs []string
	Doc   string
}

var opRows = [...]OpRow{
	InvalidOp:            {"invalid", Opaque, -1, "", nil, ""},
	Parameter:            {"parameter", Leaf, 0, "", nil, "an argument of the computation"},
	Constant:             {"constant", Leaf, 0, "", nil, "a literal"},
	Iota:                 {"iota", Leaf, 0, "ifc", []string{"iota_dimension"}, "the index along one dimension"},
	Abs:                  {"abs", Elementwise, 1, "if", nil, "|a|"},
	Negate:               {"negate", Elementwise, 1, "ifc", nil, "-a"},
	Sign:                 {"sign", Elementwise, 1, "if", nil, "-1, 0 or 1 by the sign of a; zeros and NaN stay"},
	Not:                  {"not", Elementwise, 1, "bi", nil, "the complement of the bits"},
	Exp:                  {"exponential", Elementwise, 1, "f", nil, "e^a"},
	Expm1:                {"exponential-minus-one", Elementwise, 1, "f", nil, "e^a - 1"},
	Log:                  {"log", Elementwise, 1, "f", nil, "the natural logarithm"},
	Log1p:                {"log-plus-one", Elementwise, 1, "f", nil, "log(1 + a)"},
	Tanh:                 {"tanh", Elementwise, 1, "f", nil, "the hyperbolic tangent"},
	Erf:                  {"erf", Elementwise, 1, "f", nil, "the error function"},
	Logistic:             {"logistic", Elementwise, 1, "f", nil, "1/(1 + e^-a)"},
	Sqrt:                 {"sqrt", Elementwise, 1, "f", nil, "the square root"},
	Rsqrt:                {"rsqrt", Elementwise, 1, "f", nil, "one over the square root"},
	Cbrt:                 {"cbrt", Elementwise, 1, "f", nil, "the cube root"},
	Sine:                 {"sine", Elementwise, 1, "f", nil, "the sine"},
	Cosine:               {"cosine", Elementwise, 1, "f", nil, "the cosine"},
	Tan:                  {"tan", Elementwise, 1, "f", nil, "the tangent"},
	Acos:                 {"acos", Elementwise, 1, "f", nil, "the arc cosine"},
	Acosh:                {"acosh", Elementwise, 1, "f", nil, "the inverse hyperbolic cosine"},
	Asin:                 {"asin", Elementwise, 1, "f", nil, "the arc sine"},
	Asinh:                {"asinh", Elementwise, 1, "f", nil, "the inverse hyperbolic sine"},
	Atanh:                {"atanh", Elementwise, 1, "f", nil, "the inverse hyperbolic tangent"},
	Cosh:                 {"cosh", Elementwise, 1, "f", nil, "the hyperbolic cosine"},
	Sinh:                 {"sinh", Elementwise, 1, "f", nil, "the hyperbolic sine"},
	Floor:                {"floor", Elementwise, 1, "f", nil, "rounded down"},
	Ceil:                 {"ceil", Elementwise, 1, "f", nil, "rounded up"},
	RoundEven:            {"round-nearest-even", Elementwise, 1, "f", nil, "the nearest whole number, ties to even"},
	RoundAway:            {"round-nearest-afz", Elementwise, 1, "f", nil, "the nearest whole number, ties away from zero"},
	IsFinite:             {"is-finite", Elementwise, 1, "f", nil, "whether a is neither infinite nor NaN"},
	Popcnt:               {"popcnt", Elementwise, 1, "i", nil, "the number of one bits"},
	CountLeadingZeros:    {"count-leading-zeros", Elementwise, 1, "i", nil, "the number of zero bits above the highest one"},
	Convert:              {"convert", Elementwise, 1, "bifc", nil, "the value in another type"},
	BitcastConvert:       {"bitcast-convert", Elementwise, 1, "bifc", nil, "the bits as another type of the same width"},
	Copy:                 {"copy", Elementwise, 1, "bifc", nil, "the same value, perhaps in another layout"},
	ReducePrecision:      {"reduce-precision", Elementwise, 1, "f", []string{"exponent_bits", "mantissa_bits"}, "rounded to fewer bits"},
	Add:                  {"add", Elementwise, 2, "bifc", nil, "a + b"},
	Subtract:             {"subtract", Elementwise, 2, "ifc", nil, "a - b"},
	Multiply:             {"multiply", Elementwise, 2, "bifc", nil, "a · b"},
	Divide:               {"divide", Elementwise, 2, "ifc", nil, "a / b; whole numbers toward zero"},
	Remainder:            {"remainder", Elementwise, 2, "if", nil, "the rest of a / b, with the sign of a"},
	Maximum:              {"maximum", Elementwise, 2, "bif", nil, "the larger; NaN if either is"},
	Minimum:              {"minimum", Elementwise, 2, "bif", nil, "the smaller; NaN if either is"},
	Power:                {"power", Elementwise, 2, "if", nil, "a to the b"},
	Atan2:                {"atan2", Elementwise, 2, "f", nil, "the angle of (b, a)"},
	And:                  {"and", Elementwise, 2, "bi", nil, "bits in both"},
	Or:                   {"or", Elementwise, 2, "bi", nil, "bits in either"},
	Xor:                  {"xor", Elementwise, 2, "bi", nil, "bits in one"},
	ShiftLeft:            {"shift-left", Elementwise, 2, "i", nil, "a · 2^b; 0 from the width on"},
	ShiftRightArithmetic: {"shift-right-arithmetic", Elementwise, 2, "i", nil, "a shifted down, sign bits enter"},
	ShiftRightLogical:    {"shift-right-logical", Elementwise, 2, "i", nil, "a shifted down, zeros enter"},
	Compare:              {"compare", Elementwise, 2, "bifc", []string{"direction"}, "a comparison"},
	Select:               {"select", Elementwise, 3, "bifc", nil, "b where a is true, else c"},
	Clamp:                {"clamp", Elementwise, 3, "if", nil, "min(max(a, b), c): b kept between a and c"},
	Map:                  {"map", Elementwise, -1, "", []string{"dimensions", "to_apply"}, "a computation for every element"},
	Broadcast:            {"broadcast", Movement, 1, "", []string{"dimensions"}, "repeated along new dimensions"},
	Transpose:            {"transpose", Movement, 1, "", []string{"dimensions"}, "dimensions in another order"},
	Reshape:              {"reshape", Movement, 1, "", nil, "other sizes, the same row-major order"},
	Bitcast:              {"bitcast", Movement, 1, "", nil, "other sizes and layout, the same bytes"},
	Slice:                {"slice", Movement, 1, "", []string{"slice"}, "every stride-th element of a box"},
	DynamicSlice:         {"dynamic-slice", Movement, -1, "", []string{"dynamic_slice_sizes"}, "a box at a place known at run time"},
	DynamicUpdateSlice:   {"dynamic-update-slice", Movement, -1, "", nil, "a tensor with a box replaced"},
	Pad:                  {"pad", Movement, 2, "", []string{"padding"}, "with elements around and between"},
	Concatenate:          {"concatenate", Movement, -1, "", []string{"dimensions"}, "one after another along a dimension"},
	Reverse:              {"reverse", Movement, 1, "", []string{"dimensions"}, "some dimensions backwards"},
	Gather:               {"gather", Movement, 2, "", []string{"offset_dims", "collapsed_slice_dims", "start_index_map", "index_vector_dim", "slice_sizes", "operand_batching_dims", "start_indices_batching_dims", "indices_are_sorted"}, "boxes at places that a tensor lists"},
	Reduce:               {"reduce", Combining, -1, "", []string{"dimensions", "to_apply"}, "dimensions combined by a computation"},
	ReduceWindow:         {"reduce-window", Combining, -1, "", []string{"window", "to_apply"}, "every window combined by a computation"},
	Scatter:              {"scatter", Combining, -1, "", []string{"update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "index_vector_dim", "input_batching_dims", "scatter_indices_batching_dims", "indices_are_sorted", "unique_indices", "to_apply"}, "boxes combined into a tensor at places that another lists"},
	Dot:                  {"dot", Combining, 2, "ifc", []string{"lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims"}, "sums of products"},
	ScaledDot:            {"scaled-dot", Combining, 4, "", []string{"lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims"}, "a dot of operands with scales per block"},
	Convolution:          {"convolution", Combining, 2, "", []string{"window", "dim_labels", "feature_group_count", "batch_group_count"}, "windows of products"},
	Scan:                 {"scan", Combining, -1, "", []string{"dimensions", "num_carries", "to_apply"}, "a computation along a dimension with carried values"},
	AllGather:            {"all-gather", Movement, -1, "", []string{"dimensions", "replica_groups"}, "the shards of all devices"},
	Fusion:               {"fusion", Calling, -1, "", []string{"kind", "calls"}, "a computation to be compiled as one"},
	Call:                 {"call", Calling, -1, "", []string{"to_apply"}, "a computation"},
	Tuple:                {"tuple", Tupling, -1, "", nil, "several values as one"},
	GetTupleElement:      {"get-tuple-element", Tupling, 1, "", []string{"index"}, "one value of a tuple"},
}

// opaqueNames are operations that XLA has and that mean nothing here.
var opaqueNames = []string{
	"add-dependency", "after-all", "all-reduce", "all-to-all", "async-start", "async-update", "async-done", "batch-norm-grad",
	"batch-norm-inference", "batch-norm-training", "cholesky", "collective-broadcast", "collective-permute", "complex", "conditional",
	"copy-done", "copy-start", "custom-call", "domain", "dynamic-reshape", "fft", "get-dimension-size", "imag", "infeed",
	"opt-barrier", "optimization-barrier", "outfeed", "partition-id", "ragged-all-to-all", "ragged-dot", "real", "recv", "recv-done",
	"reduce-scatter", "replica-id", "rng", "rng-bit-generator", "rng-get-and-update-state", "select-and-scatter", "send", "send-done",
	"set-dimension-size", "sort", "stochastic-convert", "topk", "triangular-solve", "while",
}

// ParseOp finds an operation by its name.
func ParseOp(name string) (Op, bool) {
	for op := Parameter; op < firstOpaque; op++ {
		if opRows[op].Name == name {
			return op, true
		}
	}
	if i := slices.Index(opaqueNames, name); i >= 0 {
		return firstOpaque + Op(i), true
	}
	return InvalidOp, false
}

// Ops lists the operations that have a meaning or an indexing.
func Ops() []Op {
	var all []Op
	for op := Parameter; op < firstOpaque; op++ {
		all = append(all, op)
	}
	return all
}

func opNames() []string {
	var names []string
	for _, op := range Ops() {
		names = append(names, op.String())
	}
	return append(names, opaqueNames...)
}

// Row is what the table says about the operation.
func (op Op) Row() OpRow {
	if op >= firstOpaque {
		return OpRow{Name: opaqueNames[op-firstOpaque], Class: Opaque, Args: -1}
	}
	return opRows[op]
}

func (op Op) String() string { return op.Row().Name }

// Class says how the operation treats its operands.
func (op Op) Class() Class { return op.Row().Class }

// Elementwise says whether every element of the result comes from the elements
// of the operands at the same place.
func (op Op) Elementwise() bool { return op.Class() == Elementwise }
