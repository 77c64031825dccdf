// Package notation reads a layout in any of the notations that people write
// layouts in, and writes it in every other one that can say it.
//
//	chain      local(2, 1).spatial(8, 4).local(1, 2)           package vm/layout
//	four-part  register_layout([16, 8], [2, 8, 4, 2], [1, 2], [0, 3])
//	cute       ((4,8),(2,2)):((32,1),(16,8)) on 16x8           package vm/layout/cute
//	linear     - lane=1 -> (0, 2) and so on                    package vm/layout/linear
//	triton     #ttg.nvidia_mma<{…}> on 16x8, or Gluon's BlockedLayout(…) on 64x32
//
// It reads swizzles (Sw<3,4,3>) and names of instructions in the catalogue
// (mma.m16n8k16.f32.f16, or its operand mma.m16n8k16.f32.f16/A) too.
//
// # What is converted
//
// Layouts are of two kinds. Those of registers say which element of a tile each
// thread holds in each slot. Those of memory say at which offset each element
// lies. A conversion stays within a kind and is exact: the text reads back as the
// same map. Where a notation cannot say a map, the error gives the reason: sizes
// that are no power of two have no linear form, a swizzle has no chain of factors,
// and so on.
//
// CuTe writes both kinds alike. Text such as ((4,8),(2,2)):((32,1),(16,8)) is read
// as memory; with a tile behind it, "on 16x8", it is threads and values onto the
// elements of that tile in column-major order. Triton's encodings need the shape
// of their tensor in the same way.
package notation
