package bank

import "github.com/tilus-lab/tilus-lab/vm/diag"

// Rules are the numbered rules that messages of this package name.
var Rules = []diag.Rule{
	{Code: errText, Text: "Addresses are an expression in lane, such as lane%16*128, or a list, such as 0, 4, _, 8; a kind and a width may stand before a colon, as in \"store 16: lane*16\". The functions are sw(B, M, S, x) and sel(condition, x, y)."},
	{Code: errValue, Text: "Addresses and what they are computed from lie between 0 and 2^40; nothing is divided by zero."},
	{Code: errAccess, Text: "An access has a width that the instruction has, and every address is a multiple of it; ldmatrix and stmatrix take a row address from 8 lanes a matrix.", Why: "The GPU stops a kernel that breaks this."},

	{Code: "TMA.C1", Text: "The interleave is none, 16B or 32B."},
	{Code: "TMA.C2", Text: "The swizzle is one of TMA's modes."},
	{Code: "TMA.C3", Text: "A tensor map has 1 to 5 dimensions, with interleave 3 to 5."},
	{Code: "TMA.C4", Text: "Elements have 1, 2, 4 or 8 bytes."},
	{Code: "TMA.C5", Text: "The global address is a multiple of 16, with interleave 32B of 32."},
	{Code: "TMA.C6", Text: "A dimension has 1 to 2^32 elements."},
	{Code: "TMA.C7", Text: "Every dimension but the inner one has a stride in bytes, a multiple of 16, with interleave 32B of 32."},
	{Code: "TMA.C8", Text: "Strides are below 2^40."},
	{Code: "TMA.C9", Text: "Rows do not overlap."},
	{Code: "TMA.C10", Text: "The box has as many dimensions as the tensor, each of 1 to 256 elements."},
	{Code: "TMA.C11", Text: "Without interleave the inner box dimension is a multiple of 16 bytes."},
	{Code: "TMA.C12", Text: "Without interleave the inner box dimension is no wider than the swizzle.", Why: "The pattern permutes the chunks of one row; a wider row would fold onto itself."},
	{Code: "TMA.C13", Text: "Interleave 32B goes with swizzle 32B."},
	{Code: "TMA.C14", Text: "Element strides are 1 to 8, one for each dimension."},
	{Code: "TMA.C15", Text: "Only floats are filled with NaN."},
	{Code: "TMA.C16", Text: "A box fits the shared memory of a block."},
}
