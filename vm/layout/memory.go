package layout

import "github.com/tilus-lab/tilus-lab/vm/diag"

// The notations of layouts in memory: what [Shared.String], [Global.String] and
// [TMemory.String] print, with the functions and methods of each. They share
// syntax, limits and rules with the notation of register layouts.

// ParseShared reads a layout of shared memory: shared_row_major(8, 64),
// shared_row_major_swizzle([8, 64], 2).prepend_dim(3). A shared layout's methods
// may be written as functions with the prefix shared_ too. The error is a
// [diag.List] as from [Parse].
func ParseShared(text string) (Shared, error) {
	v, err := readAll(text, diag.Pos{Line: 1, Col: 1}, notation{sharedFunctions(), kShared, "shared_row_major(8, 64)"})
	return v.shared, err
}

// ParseGlobal reads a layout of global memory: global_row_major(5, 7),
// global_strides([5, 7], [8, 1]). The error is a [diag.List] as from [Parse].
func ParseGlobal(text string) (Global, error) {
	v, err := readAll(text, diag.Pos{Line: 1, Col: 1}, notation{globalFunctions(), kGlobal, "global_row_major(5, 7)"})
	return v.global, err
}

// ParseTMemory reads a layout of tensor memory: tmemory_row_major(128, 64). The
// error is a [diag.List] as from [Parse].
func ParseTMemory(text string) (TMemory, error) {
	v, err := readAll(text, diag.Pos{Line: 1, Col: 1}, notation{tmemoryFunctions(), kTMemory, "tmemory_row_major(128, 64)"})
	return v.tmemory, err
}

// SharedFunctions lists what the text of a shared layout can call.
func SharedFunctions() []Function { return describeAll(sharedFunctions()) }

// GlobalFunctions lists what the text of a global layout can call.
func GlobalFunctions() []Function { return describeAll(globalFunctions()) }

// TMemoryFunctions lists what the text of a tensor-memory layout can call.
func TMemoryFunctions() []Function { return describeAll(tmemoryFunctions()) }

func shared(f func(a args) (Shared, error)) func(a args) (value, error) {
	return func(a args) (value, error) {
		s, err := f(a)
		return value{kind: kShared, shared: s}, err
	}
}

func global(f func(a args) (Global, error)) func(a args) (value, error) {
	return func(a args) (value, error) {
		g, err := f(a)
		return value{kind: kGlobal, global: g}, err
	}
}

func tmemory(f func(a args) (TMemory, error)) func(a args) (value, error) {
	return func(a args) (value, error) {
		t, err := f(a)
		return value{kind: kTMemory, tmemory: t}, err
	}
}

func listParam(name string) param { return param{name: name, kind: kList} }

func sharedFunctions() []function {
	x := param{name: "x", kind: kShared}
	dimsParam := param{name: "dims", kind: kInts}
	return []function{
		{name: "shared_row_major", doc: "no holes, the last dimension fastest", params: []param{shapeParam},
			other: shared(func(a args) (Shared, error) {
				return Shared{}.with(packed(a.ints("shape"), upTo(len(a.ints("shape"))), MaxCells))
			})},
		{name: "shared_column_major", doc: "no holes, the first dimension fastest", params: []param{shapeParam},
			other: shared(func(a args) (Shared, error) {
				return Shared{}.with(packed(a.ints("shape"), column(a.ints("shape")), MaxCells))
			})},
		{name: "shared_row_major_swizzle", doc: "row-major panels whose 16-byte units are permuted by the row; dtype_nbytes is the size of an element", params: []param{listParam("shape"), {name: "dtype_nbytes", kind: kInt}},
			other: shared(func(a args) (Shared, error) {
				n := a.int("dtype_nbytes", 0)
				if n < 1 || n > 16 {
					return Shared{}, fail(eSwizzle, "", "elements have %d bytes; a swizzle needs 1, 2, 4, 8 or 16", n)
				}
				return SharedRowMajorSwizzle(8*n, a.ints("shape")...)
			})},
		{name: "shared_layout", doc: "a layout from its lists: the modes of the shape, a stride for each, a swizzle or None", params: []param{listParam("shape"), listParam("mode_shape"), listParam("mode_strides"), {name: "swizzle", also: "optional_swizzle", kind: kSwizzle, optional: true}},
			other: shared(func(a args) (Shared, error) {
				return NewShared(a.ints("shape"), a.ints("mode_shape"), a.ints("mode_strides"), a["swizzle"].swizzle)
			})},
		{name: "Swizzle", doc: "the swizzle that keeps base low bits and XORs bits of them with those shift higher: CuTe's Sw<bits,base,shift>", params: []param{{name: "base", kind: kInt}, {name: "bits", kind: kInt}, {name: "shift", kind: kInt}},
			other: func(a args) (value, error) {
				w, err := NewSwizzle(a.int("bits", 0), a.int("base", 0), a.int("shift", 0))
				if err != nil {
					err = fail(eSwizzle, "", "%v", err)
				}
				return value{kind: kSwizzle, swizzle: w}, err
			}},
		{name: "compose", doc: "the product of the unswizzled layouts, as '*'", params: []param{x, {name: "inner", kind: kShared}},
			other: shared(func(a args) (Shared, error) { return a["x"].shared.Mul(a["inner"].shared) })},
		{name: "permute", doc: "reorder dimensions", params: []param{x, dimsParam},
			other: shared(func(a args) (Shared, error) { return a["x"].shared.Permute(a.ints("dims")...) })},
		{name: "transpose", doc: "exchange two dimensions, the last two if none are given", params: []param{x, {name: "dim0", kind: kInt, optional: true}, {name: "dim1", kind: kInt, optional: true}},
			other: shared(func(a args) (Shared, error) { return a["x"].shared.Transpose(a.int("dim0", -2), a.int("dim1", -1)) })},
		{name: "slice", doc: "keep these dimensions; the index of the others is fixed", params: []param{x, {name: "retain_dims", kind: kInts}},
			other: shared(func(a args) (Shared, error) { return a["x"].shared.Slice(a.ints("retain_dims")...) })},
		{name: "unsqueeze", doc: "insert dimensions of size 1", params: []param{x, dimsParam},
			other: shared(func(a args) (Shared, error) { return a["x"].shared.Unsqueeze(a.ints("dims")...) })},
		{name: "prepend_dim", doc: "n copies one after the other, as a first dimension", params: []param{x, {name: "n", also: "extent", kind: kInt}},
			other: shared(func(a args) (Shared, error) { return a["x"].shared.Prepend(a.int("n", 0)) })},
		{name: "reshape", doc: "another shape of the same size", params: []param{x, {name: "shape", also: "new_shape", kind: kInts}},
			other: shared(func(a args) (Shared, error) { return a["x"].shared.Reshape(a.ints("shape")...) })},
		{name: "apply_swizzle", doc: "permute the offsets of a layout without swizzle: a swizzle, or its base, bits and shift", params: []param{x, {name: "swizzle", kind: kSwizzle, optional: true}, {name: "base", kind: kInt, optional: true, keyword: true}, {name: "bits", kind: kInt, optional: true, keyword: true}, {name: "shift", kind: kInt, optional: true, keyword: true}},
			other: shared(func(a args) (Shared, error) {
				w := a["swizzle"].swizzle
				if _, ok := a["swizzle"]; !ok {
					var err error
					if w, err = NewSwizzle(a.int("bits", 0), a.int("base", 0), a.int("shift", 0)); err != nil {
						return Shared{}, fail(eSwizzle, "", "%v", err)
					}
				}
				return a["x"].shared.ApplySwizzle(w)
			})},
	}
}

func globalFunctions() []function {
	x := param{name: "x", kind: kGlobal}
	rows := []function{
		{name: "global_row_major", doc: "no holes, the last dimension fastest", params: []param{shapeParam},
			other: global(func(a args) (Global, error) {
				return Global{}.with(packed(a.ints("shape"), upTo(len(a.ints("shape"))), MaxOffset))
			})},
		{name: "global_column_major", doc: "no holes, the first dimension fastest", params: []param{shapeParam},
			other: global(func(a args) (Global, error) {
				return Global{}.with(packed(a.ints("shape"), column(a.ints("shape")), MaxOffset))
			})},
		{name: "global_strides", doc: "one stride for each dimension", params: []param{listParam("shape"), listParam("strides")},
			other: global(func(a args) (Global, error) { return GlobalStrides(a.ints("shape"), a.ints("strides")) })},
		{name: "global_layout", doc: "a layout from its lists and the offset of its first element", params: []param{listParam("shape"), listParam("mode_shape"), listParam("mode_strides"), {name: "base", kind: kInt, optional: true}},
			other: global(func(a args) (Global, error) {
				return NewGlobal(a.ints("shape"), a.ints("mode_shape"), a.ints("mode_strides"), a.int("base", 0))
			})},
		{name: "compose", doc: "the product, as '*'", params: []param{x, {name: "inner", kind: kGlobal}},
			other: global(func(a args) (Global, error) { return a["x"].global.Mul(a["inner"].global) })},
		{name: "permute", doc: "reorder dimensions", params: []param{x, {name: "dims", kind: kInts}},
			other: global(func(a args) (Global, error) { return a["x"].global.Permute(a.ints("dims")...) })},
		{name: "slice", doc: "the part of this shape that begins at first and lies along dims", params: []param{x, listParam("first"), listParam("dims"), listParam("shape")},
			other: global(func(a args) (Global, error) {
				return a["x"].global.Slice(a.ints("first"), a.ints("dims"), a.ints("shape"))
			})},
	}
	// The constructors are also known without prefix.
	for _, f := range rows[:3] {
		f.name = f.name[len("global_"):]
		rows = append(rows, f)
	}
	return rows
}

func tmemoryFunctions() []function {
	return []function{
		{name: "tmemory_row_major", doc: "32, 64 or 128 lanes, columns without holes", params: []param{shapeParam},
			other: tmemory(func(a args) (TMemory, error) { return TMemoryRowMajor(a.ints("shape")...) })},
		{name: "tmemory_layout", doc: "a layout from the column stride of each dimension and the lane of its first row", params: []param{listParam("shape"), listParam("column_strides"), {name: "lane_offset", kind: kInt, optional: true}},
			other: tmemory(func(a args) (TMemory, error) {
				return NewTMemory(a.ints("shape"), a.ints("column_strides"), a.int("lane_offset", 0))
			})},
		{name: "slice", doc: "the part of this shape that begins lane lanes lower and lies along dims", params: []param{{name: "x", kind: kTMemory}, {name: "lane", kind: kInt}, listParam("dims"), listParam("shape")},
			other: tmemory(func(a args) (TMemory, error) {
				return a["x"].tmemory.Slice(a.int("lane", 0), a.ints("dims"), a.ints("shape"))
			})},
	}
}
