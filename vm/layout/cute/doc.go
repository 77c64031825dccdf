// Package cute is CuTe's layout algebra: layouts that are written shape:stride,
// the operations on them, and what CuTe builds of them for matrix and copy
// instructions.
//
// # A layout is a function
//
// (4,8):(8,1) takes a coordinate of the shape (4,8) to an offset: every mode has
// a size and a stride, and the offset is the sum of coordinate times stride.
//
//	l, err := cute.Parse("(4,8):(8,1)")  // 4 rows of 8, row-major
//	v, err := l.ValueAt(cute.Ints(2, 3)) // 2·8 + 3·1 = 19
//
// Modes nest: in (4,(2,4)):(2,(1,8)) the second mode has 8 elements, of which
// neighbours lie 1 apart and pairs 8. Every mode may also be addressed by one
// number, and so may the whole layout, with the first mode fastest. That is why
// a layout of any shape is a function of a number as well:
//
//	l.At(5) // = the value at (1,1): 5 = 1 + 1·4, so 1·8 + 1·1 = 9
//
// A shape alone is its column-major layout, (4,8) is (4,8):(1,4). The numbers
// that a shape takes are its natural coordinates: 5, (1,1) and, where modes nest,
// (1,(1,0)) are the same place.
//
// # Operations
//
// All are functions of this package, and calls in the text that [Eval] reads:
//
//	composition(A, B)      R(c) = A(B(c)), with the shape of B
//	coalesce(A)            the same function in fewest modes
//	complement(A, 24)      the offsets below 24 that A leaves free
//	right_inverse(A)       A(R(i)) = i
//	left_inverse(A)        R(A(i)) = i
//	logical_divide(A, T)   A cut in tiles T: (inside the tile, which tile)
//	logical_product(A, T)  A repeated as T says: (inside A, which copy)
//
// Division and product are composition with a complement: a tile T of A is the
// elements that T numbers, the other tiles are what is left. zipped, tiled and
// flat forms only bracket the modes differently; blocked and raked products put
// block and copies into the same mode. A tiler may be a layout, or <…> with a
// tiler for each mode, or a shape, which takes the first elements of each mode:
//
//	logical_divide((8,8), <4:1,2:1>)  is ((4,2),(2,4)):((1,4),(8,16))
//
// Not every question has an answer. In composition((3,4):(4,1), 6:2) steps of 2
// leave a mode of 3 in the middle, and no layout of one mode has those offsets;
// CuTe's C++ answers with other offsets, this package with an error that says
// that 3 is not divisible by 2. [Rules] lists what can be asked.
//
// # Swizzles and coordinates
//
// Sw<3,4,3> o (8,64):(64,1) applies a swizzle to offsets, [Composed]. Strides
// such as 1@0 and 1@1 count steps in the modes of a coordinate: the identity of
// (4,8) is (4,8):(1@0,1@1), and its values are coordinates.
//
// # Threads and values
//
// A layout of two modes (thread, value) whose offsets are the elements of a tile,
// column-major, says which thread holds what; [MakeLayoutTV], [TiledMMA] and
// [TiledCopy] make such layouts, and [FromRegister] and [ToRegister] translate
// them from and to the register layouts of vm/layout.
//
// Source: NVIDIA/cutlass, media/docs/cpp/cute and include/cute.
package cute
