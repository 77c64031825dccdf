// Package linear holds layouts that are linear over F2, the field of the two
// numbers 0 and 1 in which addition is exclusive or. They are the layouts of the
// Triton compiler.
//
// # What a linear layout is
//
// A layout maps places of the hardware to elements of a tensor. Write the number
// of a register, of a lane and of a warp in binary, and the indices of the element
// too. The layout is linear where flipping one bit of the place always flips the
// same bits of the indices, whatever the other bits are. Then it is enough to say
// where the places 1, 2, 4, 8, … of each input dimension go: these are its bases.
// Everything else is an exclusive or of bases:
//
//	L(a xor b) = L(a) xor L(b)        L(0) = 0
//
// The 16x8 accumulator of the tensor core's m16n8k16 product is
//
//	register  1 -> (0, 1)  2 -> (8, 0)
//	lane      1 -> (0, 2)  2 -> (0, 4)  4 -> (1, 0)  8 -> (2, 0)  16 -> (4, 0)
//
// Lane 5 is lane 4 xor lane 1, so its register 2 holds (1, 0) xor (0, 2) xor (8, 0),
// which is row 9, column 2.
//
// # What it buys
//
// A linear layout is a matrix of bits with a column for each bit of the place and
// a row for each bit of the index ([Layout.Matrix]). Its rank says how much of the
// tensor is covered; columns that add nothing to the rank are bits that only
// replicate ([Layout.Free]). Composition is the product of matrices, and going
// from one layout to another is solving a system of equations
// ([Layout.InvertAndCompose]). XOR swizzles of shared memory are linear too.
//
// What is lost is every size that is not a power of two, and every map that adds
// with carry. Package layout has those.
//
// # Order
//
// Where dimensions are flattened into one number, the first dimension holds the
// low bits. Products follow Triton: in f.Mul(g) the bits of f are the low ones.
// (Package layout writes the same product the other way round.)
//
// Source: triton-lang/triton, include/triton/Tools/LinearLayout.h and
// lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp; K. Zhou et al., "Linear
// Layouts: Robust Code Generation of Efficient Tensor Computation Using F2".
package linear
