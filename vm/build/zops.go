// Code generated from the instruction table by gen_test.go; DO NOT EDIT.

package build

//go:generate go test build.go zops.go gen_test.go -run TestOpsAreFresh -update

// BlockIndices adds
//
//	bi, bj = BlockIndices()
//
// The index of this block in each dimension of the grid. Give as many names as the grid has dimensions, or fewer; each is an i32 scalar.
func (prog *Builder) BlockIndices(i string) Value {
	return prog.instr("BlockIndices", []string{i}, nil, nil)[0]
}

// BlockIndices2 adds
//
//	bi, bj = BlockIndices()
//
// The index of this block in each dimension of the grid. Give as many names as the grid has dimensions, or fewer; each is an i32 scalar.
func (prog *Builder) BlockIndices2(i string, j string) (Value, Value) {
	results := prog.instr("BlockIndices", []string{i, j}, nil, nil)
	return results[0], results[1]
}

// BlockIndices3 adds
//
//	bi, bj = BlockIndices()
//
// The index of this block in each dimension of the grid. Give as many names as the grid has dimensions, or fewer; each is an i32 scalar.
func (prog *Builder) BlockIndices3(i string, j string, k string) (Value, Value, Value) {
	results := prog.instr("BlockIndices", []string{i, j, k}, nil, nil)
	return results[0], results[1], results[2]
}

// ViewGlobal adds
//
//	gb = ViewGlobal(b) : global u8[K/16, N/8, 96]
//
// A row-major tensor over the memory that a pointer parameter points to. Element k of the tensor occupies bits [k·n, (k+1)·n) of the memory, n being the width of the element type, so elements narrower than a byte lie packed. The shape may use scalar parameters. With strides, element [i, j, …] is number i·strides[0] + j·strides[1] + … instead: a transposed or padded tensor, or one that repeats itself where a stride is 0.
func (prog *Builder) ViewGlobal(tensor string, ptr Value, tensorType Type, attrs ...Attr) Value {
	return prog.instr("ViewGlobal", []string{tensor}, []any{ptr}, attrs, tensorType)[0]
}

// Strides is the attribute strides, a list of expressions: elements from one index to the next in each dimension, of constants and scalar parameters; rows one after the other if left out.
func Strides(values ...any) Attr { return list("strides", values) }

// AllocateRegister adds
//
//	acc = AllocateRegister(init=0) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// A new register tensor. With init every element has that value (as Cast from f64 gives it; inf, -inf and nan are values of the types that have them); without, reading an element before it is written is an error on the interpreter and the simulator.
func (prog *Builder) AllocateRegister(tile string, tileType Type, attrs ...Attr) Value {
	return prog.instr("AllocateRegister", []string{tile}, nil, attrs, tileType)[0]
}

// Init is the attribute init, a number: the value of every element.
func Init(value any) Attr { return Attr("init=" + operand(value)) }

// LoadGlobal adds
//
//	ra = LoadGlobal(ga, offset=[bi*16, k*16]) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2)
//
// Loads a tile of a global tensor into registers. Element [i, j, …] of the tile comes from offset plus that index; dims says along which dimensions of the tensor the tile lies (the last ones, if left out). Elements outside the tensor are 0.
func (prog *Builder) LoadGlobal(tile string, src Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("LoadGlobal", []string{tile}, []any{src}, attrs, tileType)[0]
}

// Offset is the attribute offset, a list of expressions: index in src of the tile's first element, one entry per dimension of src.
func Offset(values ...any) Attr { return list("offset", values) }

// Dims is the attribute dims, a list of integers: the dimension of src that each dimension of the tile lies along.
func Dims(values ...any) Attr { return list("dims", values) }

// Cache is the attribute cache, a word: stream: the bytes are used once and need no place in the L1 cache; evict_first, evict_last: they are the first, the last to lose their place there. A hint that changes no result.
func Cache(word string) Attr { return Attr("cache=" + word) }

// Prefetch is the attribute prefetch, a number: 64, 128 or 256: so many bytes around what is read come to the L2 cache; a hint that changes no result.
func Prefetch(value any) Attr { return Attr("prefetch=" + operand(value)) }

// StoreGlobal adds
//
//	StoreGlobal(gc, out, offset=[bi*16, bj*8])
//
// Stores a register tile to a global tensor; offset and dims as in LoadGlobal. Elements outside the tensor are not stored. Elements narrower than a byte may share a byte with a neighbour held by another thread of the grid: each element's bits are written without disturbing the others.
func (prog *Builder) StoreGlobal(dst Value, tile Value, attrs ...Attr) {
	prog.instr("StoreGlobal", nil, []any{dst, tile}, attrs)
}

// View adds
//
//	rw = View(rb) : register i6[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)
//
// The same bits in the same threads, read as another element type and layout. The bits that a thread holds are its slots in order, low bits first; no bit moves, so View costs nothing. With a placement in the result's type, place=4[(0,16)*4+4], the bits of a slot are those of the thread at the positions that the placement lists (vm/layout/bits has the notation): what is stored for a fast Cast is named as it was stored.
func (prog *Builder) View(tile string, x Value, tileType Type) Value {
	return prog.instr("View", []string{tile}, []any{x}, nil, tileType)[0]
}

// Cast adds
//
//	rh = Cast(rw) : register f16[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)
//
// Each element as the nearest value of another type: ties to even, saturating for types of up to 8 bits and integers, infinity on overflow of wider floats, truncation from float to integer. vm/dtype's Cast is the definition. Elements with a placement are cast by the recipe of vm/recipe that reads it, if there is one.
func (prog *Builder) Cast(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("Cast", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Domain is the attribute domain, a word: finite: every value is finite in the result's type, which the interpreter checks and lowering may rely on.
func Domain(word string) Attr { return Attr("domain=" + word) }

// CastDeferred adds
//
//	v, c = CastDeferred(rw) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2), register f32[16, 1] local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)
//
// A cast that leaves a power of two to the scale: v[i, j] is x[i, j]·2^k[i] exactly, subnormals included, and c[i, 0] is 2^-k[i], so that v·c is x. k belongs to the recipe (vm/recipe) that reads x's placement: the cheapest one that adds nothing to the values and has no k below least. Its output words 4i and 4i+2, two slots each, have one k and words 4i+1 and 4i+3 one, which are the rows g and g+8 of the m16n8k16 operand a. An exact recipe has k = 0.
func (prog *Builder) CastDeferred(v string, c string, x Value, vType Type, cType Type, attrs ...Attr) (Value, Value) {
	results := prog.instr("CastDeferred", []string{v, c}, []any{x}, attrs, vType, cType)
	return results[0], results[1]
}

// Least is the attribute least, a number: no k is below it, at most 0; left out, k may be any. Tensor cores align products by the exponents that the numbers are written with, and cut off what lies far below the largest: of f16, numbers of k near -24 lose bits beside others that k near -14 keeps.
func Least(value any) Attr { return Attr("least=" + operand(value)) }

// Add adds
//
//	s = Add(x, y) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x + y, element by element. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Add(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Add", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Sub adds
//
//	d = Sub(x, y) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x - y, element by element. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Sub(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Sub", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Mul adds
//
//	p = Mul(x, scale) : register f16[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)
//
// x · y, element by element. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Mul(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Mul", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Fma adds
//
//	acc = Fma(x, scale, acc) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x · y + z, element by element, rounded once. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Fma(tile string, x any, y any, z any, tileType Type) Value {
	return prog.instr("Fma", []string{tile}, []any{x, y, z}, nil, tileType)[0]
}

// Dot adds
//
//	acc = Dot(ra, rh, acc) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// Matrix product plus accumulator: d[m, n] = Σk a[m, k]·b[k, n] + c[m, n]; or several of them, each with its own a, b and c, along a first dimension of all. The tile is cut into matrix instructions by layout division. For floats of up to 32 bits the products of one instruction's k and the accumulator are then summed exactly and rounded once to the type of c; a zero sum is +0; steps go up in k. (GPUs keep fewer bits inside a step: where partial sums are not exact, an H200 was within 2·2^-24·(Σ|a·b| + |c|) of this for f32.) f64 is one fused multiply-add after the other, k going up; integers wrap. Layouts that no matrix instruction divides, and types that have none, take one fused multiply-add after the other too, k going up, in the type of c; then every thread must hold the rows of a and the columns of b that its elements of c need, in the same slots as the others, or lowering refuses it, as it does several products without a matrix instruction.
func (prog *Builder) Dot(d string, a Value, b Value, c Value, dType Type, attrs ...Attr) Value {
	return prog.instr("Dot", []string{d}, []any{a, b, c}, attrs, dType)[0]
}

// Unit is the attribute unit, a word: matrix: only matrix instructions will do; simt: use none; left out, matrix instructions where they fit.
func Unit(word string) Attr { return Attr("unit=" + word) }

// Synchronize adds
//
//	Synchronize()
//
// A barrier of the block: no thread goes on before all have come here, and what they stored before is seen by all of them after. Other blocks are not ordered by it.
func (prog *Builder) Synchronize() {
	prog.instr("Synchronize", nil, nil, nil)
}

// SynchronizeReduce adds
//
//	found = SynchronizeReduce(above, op=any)
//
// A barrier as Synchronize, at which the threads also tell each other of a tile of bools: the result is 1 where any, or all, of its elements are true, else 0, and every thread has it. Programs branch and loop on it: a scalar is of the block, what a tile holds is not.
func (prog *Builder) SynchronizeReduce(found string, x Value, attrs ...Attr) Value {
	return prog.instr("SynchronizeReduce", []string{found}, []any{x}, attrs)[0]
}

// Op is the attribute op, a word: of how many elements the result speaks.
func Op(word string) Attr { return Attr("op=" + word) }

// AtomicScalar adds
//
//	before = AtomicScalar(gc, S - 1, offset=[bn], op=inc, order=acq_rel)
//
// One atomic step of the block on one element of a global tensor; the result is what stood there before, and all threads of the block have it. add, sub: the element becomes element + value, element - value, which wrap. min, max: the lesser, the greater of both. and, or, xor: of their bits. inc: it becomes 0 where it is value or more (both as unsigned numbers), else one more, so that a counter to which value + 1 blocks come is 0 again after the last of them. exch: it becomes value. cas: it becomes value where it is compare. Outside the tensor nothing changes, and the result is 0. With order=acq_rel the step publishes what the block did before its last Synchronize, and what others published at the same element is seen after the next Synchronize: a block stores, synchronises and counts itself; the one that finds itself last synchronises and loads what all have stored.
func (prog *Builder) AtomicScalar(old string, dst Value, value any, compare any, attrs ...Attr) Value {
	return prog.instr("AtomicScalar", []string{old}, []any{dst, value, compare}, attrs)[0]
}

// Order is the attribute order, a word: for the whole GPU. release: a step publishes what the block did before its last Synchronize; acquire: what others published at the element is seen after the next one; acq_rel: both; relaxed, or left out: only the elements themselves are exchanged.
func Order(word string) Attr { return Attr("order=" + word) }

// Scope is the attribute scope, a word: among whose threads the step is one: those of the block (cta) or of its cluster, for which steps of others are as stores; gpu, or left out: of the whole GPU.
func Scope(word string) Attr { return Attr("scope=" + word) }

// GridDependencyWait adds
//
//	GridDependencyWait()
//
// Programmatic dependent launch: a program with this instruction may be started before the launch in front of it has ended, and waits here until it has, its stores included. What stands before overlaps with that launch, so it must only load what no launch in front of it stores, such as weights. Launches one after the other, as on interpreter and simulator, have the same effects; targets before sm_90 are launched that way. With blocks=first the launch begins and stores beside launches in front, and only ends after them: what waits for it has waited for them too. Whoever launches gives it memory to store to that no launch in front uses which may still run; those are the last one, and those for which that does not wait before it asks for the next launch.
func (prog *Builder) GridDependencyWait(attrs ...Attr) {
	prog.instr("GridDependencyWait", nil, nil, attrs)
}

// Blocks is the attribute blocks, a word: first: the first block alone waits, at its end; the others end and make room for more.
func Blocks(word string) Attr { return Attr("blocks=" + word) }

// GridDependencyLaunch adds
//
//	GridDependencyLaunch()
//
// Programmatic dependent launch: when a thread of every block has come here, or the block has ended, the next launch may be started, if its program has GridDependencyWait. It changes nothing that this launch does; the next one still sees all of it after its wait. In a thread group it says when the group has come so far.
func (prog *Builder) GridDependencyLaunch() {
	prog.instr("GridDependencyLaunch", nil, nil, nil)
}

// Min adds
//
//	m = Min(x, y) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The smaller of x and y. Of floats -0 is below +0, and a NaN loses against a number. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Min(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Min", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Max adds
//
//	m = Max(x, 0) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The larger of x and y. Of floats -0 is below +0, and a NaN loses against a number. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Max(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Max", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Clip adds
//
//	c = Clip(x, -1.0, 1.0) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x held between y and z: Min(Max(x, y), z). A NaN becomes y. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Clip(tile string, x any, y any, z any, tileType Type) Value {
	return prog.instr("Clip", []string{tile}, []any{x, y, z}, nil, tileType)[0]
}

// Div adds
//
//	q = Div(x, y) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x / y. Floats are the exact quotient rounded once; integers round toward zero, the least signed one divided by -1 is itself, and division by zero is an error on interpreter and simulator. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Div(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Div", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Neg adds
//
//	n = Neg(x) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// -x; of a float the flipped sign. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Neg(tile string, x any, tileType Type) Value {
	return prog.instr("Neg", []string{tile}, []any{x}, nil, tileType)[0]
}

// Abs adds
//
//	a = Abs(x) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// |x|; of a float the value without its sign, of the least signed integer itself. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Abs(tile string, x any, tileType Type) Value {
	return prog.instr("Abs", []string{tile}, []any{x}, nil, tileType)[0]
}

// Square adds
//
//	s = Square(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x · x. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Square(tile string, x any, tileType Type) Value {
	return prog.instr("Square", []string{tile}, []any{x}, nil, tileType)[0]
}

// Mod adds
//
//	r = Mod(x, 10) : register i32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The remainder of Div on integers, which has the sign of x. By zero it is an error on interpreter and simulator. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Mod(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Mod", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// And adds
//
//	b = And(x, 255) : register i32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The bits that x and y both have; of bools whether both are true. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) And(tile string, x any, y any, tileType Type) Value {
	return prog.instr("And", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Or adds
//
//	b = Or(x, y) : register i32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The bits that x or y has; of bools whether one is true. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Or(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Or", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Xor adds
//
//	b = Xor(x, y) : register i32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The bits that one of x and y has; of bools whether they differ. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Xor(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Xor", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// CountOnes adds
//
//	n = CountOnes(x) : register i32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// How many bits of x are 1: with Xor, how many bits two words differ in, which is the product of 1-bit numbers. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) CountOnes(tile string, x any, tileType Type) Value {
	return prog.instr("CountOnes", []string{tile}, []any{x}, nil, tileType)[0]
}

// Not adds
//
//	b = Not(x) : register i32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The bits that x lacks; of bools whether it is false. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Not(tile string, x any, tileType Type) Value {
	return prog.instr("Not", []string{tile}, []any{x}, nil, tileType)[0]
}

// Shl adds
//
//	b = Shl(x, 4) : register i32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x shifted left by y bits, y being taken without sign; 0 where y is the width of the type or more. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Shl(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Shl", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Shr adds
//
//	b = Shr(x, 4) : register i32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x shifted right by y bits, y being taken without sign. Into signed integers the sign enters, into others 0; where y is the width of the type or more nothing else is left. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Shr(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Shr", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Equal adds
//
//	c = Equal(x, y) : register bool[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x = y. -0 equals +0; a NaN equals nothing. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Equal(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Equal", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// NotEqual adds
//
//	c = NotEqual(x, y) : register bool[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x ≠ y; true where one is a NaN. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) NotEqual(tile string, x any, y any, tileType Type) Value {
	return prog.instr("NotEqual", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Less adds
//
//	c = Less(x, 0) : register bool[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x < y; false where one is a NaN. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Less(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Less", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// LessEqual adds
//
//	c = LessEqual(x, y) : register bool[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x ≤ y; false where one is a NaN. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) LessEqual(tile string, x any, y any, tileType Type) Value {
	return prog.instr("LessEqual", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Greater adds
//
//	c = Greater(x, y) : register bool[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x > y; false where one is a NaN. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Greater(tile string, x any, y any, tileType Type) Value {
	return prog.instr("Greater", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// GreaterEqual adds
//
//	c = GreaterEqual(x, y) : register bool[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x ≥ y; false where one is a NaN. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) GreaterEqual(tile string, x any, y any, tileType Type) Value {
	return prog.instr("GreaterEqual", []string{tile}, []any{x, y}, nil, tileType)[0]
}

// Where adds
//
//	w = Where(c, x, 0) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x where cond is true, else y, element by element. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Where(tile string, cond any, x any, y any, tileType Type) Value {
	return prog.instr("Where", []string{tile}, []any{cond, x, y}, nil, tileType)[0]
}

// Sqrt adds
//
//	r = Sqrt(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The square root of x, rounded once; NaN below 0. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Sqrt(tile string, x any, tileType Type) Value {
	return prog.instr("Sqrt", []string{tile}, []any{x}, nil, tileType)[0]
}

// Round adds
//
//	r = Round(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x rounded to the nearest whole number, ties to even. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Round(tile string, x any, tileType Type) Value {
	return prog.instr("Round", []string{tile}, []any{x}, nil, tileType)[0]
}

// Floor adds
//
//	r = Floor(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x rounded down to a whole number. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Floor(tile string, x any, tileType Type) Value {
	return prog.instr("Floor", []string{tile}, []any{x}, nil, tileType)[0]
}

// Ceil adds
//
//	r = Ceil(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x rounded up to a whole number. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Ceil(tile string, x any, tileType Type) Value {
	return prog.instr("Ceil", []string{tile}, []any{x}, nil, tileType)[0]
}

// Trunc adds
//
//	r = Trunc(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x rounded toward zero to a whole number. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element. Floats round once to nearest even, integers wrap.
func (prog *Builder) Trunc(tile string, x any, tileType Type) Value {
	return prog.instr("Trunc", []string{tile}, []any{x}, nil, tileType)[0]
}

// Exp adds
//
//	r = Exp(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// e to the power of x. A fixed sequence of f32 steps, bit-equal on all machines and within 1.25 ulp of the exact value; f16 and bf16 go through f32 and are rounded once more. With approx=true it is the machine's approximation, whose steps interpreter and simulator round exactly; a GPU differs from them by up to: 2 ulp; below 2^-126 it is 0. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Exp(tile string, x any, tileType Type, attrs ...Attr) Value {
	return prog.instr("Exp", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Approx is the attribute approx, a word: true: use the machine's approximation, which is faster and less exact.
func Approx(word string) Attr { return Attr("approx=" + word) }

// Exp2 adds
//
//	r = Exp2(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// 2 to the power of x. A fixed sequence of f32 steps, bit-equal on all machines and within 1.25 ulp of the exact value; f16 and bf16 go through f32 and are rounded once more. With approx=true it is the machine's approximation, whose steps interpreter and simulator round exactly; a GPU differs from them by up to: 2 ulp; below 2^-126 it is 0. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Exp2(tile string, x any, tileType Type, attrs ...Attr) Value {
	return prog.instr("Exp2", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Log adds
//
//	r = Log(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The natural logarithm of x: -inf at 0, NaN below. A fixed sequence of f32 steps, bit-equal on all machines and within 1.25 ulp of the exact value; f16 and bf16 go through f32 and are rounded once more. With approx=true it is the machine's approximation, whose steps interpreter and simulator round exactly; a GPU differs from them by up to: absolute error up to 2^-22 for x in [0.5, 2], else relative error up to 2^-21.5. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Log(tile string, x any, tileType Type, attrs ...Attr) Value {
	return prog.instr("Log", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Log2 adds
//
//	r = Log2(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The logarithm of x to base 2: -inf at 0, NaN below. A fixed sequence of f32 steps, bit-equal on all machines and within 1.5 ulp of the exact value; f16 and bf16 go through f32 and are rounded once more. With approx=true it is the machine's approximation, whose steps interpreter and simulator round exactly; a GPU differs from them by up to: absolute error up to 2^-22 for x in [0.5, 2], else relative error up to 2^-22. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Log2(tile string, x any, tileType Type, attrs ...Attr) Value {
	return prog.instr("Log2", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Sin adds
//
//	r = Sin(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The sine of x in radians; arguments of any size are reduced exactly. A fixed sequence of f32 steps, bit-equal on all machines and within 3 ulp of the exact value; f16 and bf16 go through f32 and are rounded once more. With approx=true it is the machine's approximation, whose steps interpreter and simulator round exactly; a GPU differs from them by up to: absolute error up to 2^-20.5 for |x| ≤ π, none stated beyond. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Sin(tile string, x any, tileType Type, attrs ...Attr) Value {
	return prog.instr("Sin", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Cos adds
//
//	r = Cos(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The cosine of x in radians; arguments of any size are reduced exactly. A fixed sequence of f32 steps, bit-equal on all machines and within 3 ulp of the exact value; f16 and bf16 go through f32 and are rounded once more. With approx=true it is the machine's approximation, whose steps interpreter and simulator round exactly; a GPU differs from them by up to: absolute error up to 2^-20.5 for |x| ≤ π, none stated beyond. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Cos(tile string, x any, tileType Type, attrs ...Attr) Value {
	return prog.instr("Cos", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Tanh adds
//
//	r = Tanh(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The hyperbolic tangent of x. A fixed sequence of f32 steps, bit-equal on all machines and within 1.75 ulp of the exact value; f16 and bf16 go through f32 and are rounded once more. With approx=true it is the machine's approximation, whose steps interpreter and simulator round exactly; a GPU differs from them by up to: relative error up to 2^-11. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Tanh(tile string, x any, tileType Type, attrs ...Attr) Value {
	return prog.instr("Tanh", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Sigmoid adds
//
//	r = Sigmoid(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// 1 / (1 + e to the power of -x). A fixed sequence of f32 steps, bit-equal on all machines and within 2.5 ulp of the exact value; f16 and bf16 go through f32 and are rounded once more. With approx=true it is the machine's approximation, whose steps interpreter and simulator round exactly; a GPU differs from them by up to: 4 ulp. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Sigmoid(tile string, x any, tileType Type, attrs ...Attr) Value {
	return prog.instr("Sigmoid", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Rsqrt adds
//
//	r = Rsqrt(x) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// 1 / √x: inf at 0, NaN below. A fixed sequence of f32 steps, bit-equal on all machines and within 1.5 ulp of the exact value; f16 and bf16 go through f32 and are rounded once more. With approx=true it is the machine's approximation, whose steps interpreter and simulator round exactly; a GPU differs from them by up to: relative error up to 2^-22.9. Operands are broadcast: a dimension of extent 1, or a missing leading one, repeats. Scalars broadcast to every element.
func (prog *Builder) Rsqrt(tile string, x any, tileType Type, attrs ...Attr) Value {
	return prog.instr("Rsqrt", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Indices adds
//
//	j = Indices(dim=[1]) : register i32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// A tile whose elements are their own indices along a dimension: with dim=[1], element [i, j] is j. Add the place of the tile to get indices of a tensor; compare them to mask what lies outside, or above a diagonal.
func (prog *Builder) Indices(tile string, tileType Type, attrs ...Attr) Value {
	return prog.instr("Indices", []string{tile}, nil, attrs, tileType)[0]
}

// Dim is the attribute dim, a list of integers: the dimension, as a list of one.
func Dim(values ...any) Attr { return list("dim", values) }

// Reduce adds
//
//	s = Reduce(x, op=sum, dim=[1], keepdims=true) : register f32[16, 1] reduce(local(2, 1).spatial(8, 4).local(1, 2), dims=[1], keepdims=true)
//
// Combines the elements along dimensions: sum, prod, max, min of numbers, any, all of bools. Each step rounds as Add, Mul, Max or Min do. The order is fixed, so that floats agree on all machines: in each thread the slots that make one element, in order, then the threads that hold parts of it, in order, are combined as a tree of neighbours: 0 with 1, 2 with 3, …, then the results in the same way; what has no neighbour waits.
func (prog *Builder) Reduce(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("Reduce", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Keepdims is the attribute keepdims, a word: true: combined dimensions stay with extent 1; left out, they vanish.
func Keepdims(word string) Attr { return Attr("keepdims=" + word) }

// ArgMax adds
//
//	i = ArgMax(x, dim=[1]) : register i32[16] reduce(local(2, 1).spatial(8, 4).local(1, 2), dims=[1])
//
// Where along a dimension the largest element is: its index, the first one if there are several. -0 and +0 are equal, and a NaN loses against every number; where all are NaN it is 0.
func (prog *Builder) ArgMax(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("ArgMax", []string{tile}, []any{x}, attrs, tileType)[0]
}

// ArgMin adds
//
//	i = ArgMin(x, dim=[1]) : register i32[16] reduce(local(2, 1).spatial(8, 4).local(1, 2), dims=[1])
//
// Where along a dimension the smallest element is: its index, the first one if there are several. -0 and +0 are equal, and a NaN loses against every number; where all are NaN it is 0.
func (prog *Builder) ArgMin(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("ArgMin", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Scan adds
//
//	s = Scan(x, op=add, dim=[0]) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// Combines each element with those before it along a dimension: inclusive, element i becomes x[0] ∘ … ∘ x[i]; exclusive, x[0] ∘ … ∘ x[i-1], and the first what ∘ leaves alone: 0 for add, or, xor, 1 for mul, all bits for and, the least or greatest value for max and min (infinities of floats). The extent may be any. The order is fixed by the layout: the modes of the dimension are taken from the innermost on. Along a mode of slots elements are combined one after the other; along one of lanes of a warp in steps of distance 1, 2, 4, …, each lane that has one so far below combining its value on the right; along one of warps one after the other. What a whole run of inner modes gives is scanned along the next mode, and combined on the left with each element of the run after; exclusive, with what has been combined there before the element, which is the first value at first.
func (prog *Builder) Scan(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("Scan", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Exclusive is the attribute exclusive, a word: true: without the element itself.
func Exclusive(word string) Attr { return Attr("exclusive=" + word) }

// Random adds
//
//	r = Random(seed, i) : register u32[4, 64] local(4, 1).spatial(1, 32).local(1, 2)
//
// Four random 32-bit numbers for each element of offset: Philox 4×32 with 10 rounds, key (low, high half of seed), counter (offset, 0, 0, 0). Equal seeds and offsets give equal numbers on all machines. Element [w, i, …] of the result is number w of offset [i, …]. A float in [0, 1) is Mul(Cast(Shr(r, 8)), 0x1p-24) in f32; a number below n, nearly even, is Mod(r, n).
func (prog *Builder) Random(tile string, seed any, offset Value, tileType Type) Value {
	return prog.instr("Random", []string{tile}, []any{seed, offset}, nil, tileType)[0]
}

// AllocateShared adds
//
//	sa = AllocateShared() : shared f16[64, 32] shared_row_major(64, 32)
//
// A new tile in the shared memory of the block. Its layout says at which offset, in elements, each element lies. The tile lives until FreeShared or the end of the block of statements that allocates it; then other tiles may take its place. Its elements have no value: reading one before it is written is an error on the interpreter and the simulator.
func (prog *Builder) AllocateShared(tile string, tileType Type) Value {
	return prog.instr("AllocateShared", []string{tile}, nil, nil, tileType)[0]
}

// FreeShared adds
//
//	FreeShared(sa)
//
// Ends the life of a tile of AllocateShared: tiles allocated after it may take its memory. A Synchronize must lie between the last use of the old tile and the first use of the new one, as between any two threads that use one place.
func (prog *Builder) FreeShared(tile Value) {
	prog.instr("FreeShared", nil, []any{tile}, nil)
}

// SliceShared adds
//
//	stage = SliceShared(sa, offset=[k % 3, 0, 0]) : shared f16[64, 32] shared_row_major(64, 32)
//
// A part of a shared tensor as a tensor of its own, over the same memory: element [i, …] is the source's at offset plus that index. dims says which dimensions of the source stay (the last ones, if left out); the others are fixed by offset. A part outside the source is an error.
func (prog *Builder) SliceShared(tile string, src Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("SliceShared", []string{tile}, []any{src}, attrs, tileType)[0]
}

// PermuteShared adds
//
//	st = PermuteShared(sa, dims=[1, 0]) : shared f16[32, 64] shared_column_major(32, 64)
//
// The same shared memory with its dimensions in another order: dimension i of the result is dimension dims[i] of the source; left out, the order is reversed.
func (prog *Builder) PermuteShared(tile string, src Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("PermuteShared", []string{tile}, []any{src}, attrs, tileType)[0]
}

// ReshapeShared adds
//
//	sf = ReshapeShared(sa) : shared f16[2048] shared_row_major(2048)
//
// The same shared memory with another shape of as many elements, which keep their row-major order.
func (prog *Builder) ReshapeShared(tile string, src Value, tileType Type) Value {
	return prog.instr("ReshapeShared", []string{tile}, []any{src}, nil, tileType)[0]
}

// LoadShared adds
//
//	ra = LoadShared(sa, offset=[0, k*16]) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2)
//
// Loads a tile of a shared tensor into registers. offset and dims as in LoadGlobal; left out, offset is 0. A tile that does not lie inside the tensor is an error. What another thread stored is there after a Synchronize; what CopyAsync brings, after a wait for its group and a Synchronize. With rank, the tensor is the one at the same place of another block of the cluster; ClusterSynchronize orders what blocks do there.
func (prog *Builder) LoadShared(tile string, src Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("LoadShared", []string{tile}, []any{src}, attrs, tileType)[0]
}

// Rank is the attribute rank, a list of expressions: [r]: the block of the cluster whose memory is meant; left out, the running one.
func Rank(values ...any) Attr { return list("rank", values) }

// StoreShared adds
//
//	StoreShared(sa, ra, offset=[0, k*16])
//
// Stores a register tile to a shared tensor; offset, dims and rank as in LoadShared. A tile that does not lie inside the tensor is an error.
func (prog *Builder) StoreShared(dst Value, tile Value, attrs ...Attr) {
	prog.instr("StoreShared", nil, []any{dst, tile}, attrs)
}

// CopyAsync adds
//
//	CopyAsync(ga, sa, offset=[bi*64, k*32])
//
// Begins to copy a tile of a global tensor, of the shape of dst, to shared memory, past the registers. Element [i, j, …] of dst comes from offset plus that index of src; dims says along which dimensions of src the tile lies (the last ones, if left out). Elements outside src become 0. The copy ends with a wait for its group; until then dst must be neither read nor written. Which thread copies which element is open, so that a Synchronize has to lie behind the wait, and between the last use of what dst held and the copy. Where element widths and places allow no asynchronous access (of 4, 8 or 16 aligned bytes), lowered code loads and stores instead.
func (prog *Builder) CopyAsync(src Value, dst Value, attrs ...Attr) {
	prog.instr("CopyAsync", nil, []any{src, dst}, attrs)
}

// Keep is the attribute keep, a word: l1: the bytes keep a place in the L1 cache on their way, for what other blocks or turns read again; a hint that changes no result.
func Keep(word string) Attr { return Attr("keep=" + word) }

// Bounds is the attribute bounds, a word: inside: the tile lies inside src, which the interpreter checks and lowering relies on.
func Bounds(word string) Attr { return Attr("bounds=" + word) }

// CopyAsyncCommitGroup adds
//
//	CopyAsyncCommitGroup()
//
// Makes a group of the copies begun since the last group; there may be none.
func (prog *Builder) CopyAsyncCommitGroup() {
	prog.instr("CopyAsyncCommitGroup", nil, nil, nil)
}

// CopyAsyncWaitGroup adds
//
//	CopyAsyncWaitGroup(n=2)
//
// Waits until at most n of the groups made last are still on their way. Copies that are in no group are not waited for.
func (prog *Builder) CopyAsyncWaitGroup(attrs ...Attr) {
	prog.instr("CopyAsyncWaitGroup", nil, nil, attrs)
}

// N is the attribute n, a number: how many groups may still be on their way.
func N(value any) Attr { return Attr("n=" + operand(value)) }

// CopyAsyncWaitAll adds
//
//	CopyAsyncWaitAll()
//
// Waits for every copy begun so far, in a group or not.
func (prog *Builder) CopyAsyncWaitAll() {
	prog.instr("CopyAsyncWaitAll", nil, nil, nil)
}

// Assign adds
//
//	y = Assign(x) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// The same elements, as they lie or in another order of slots: the value of another register tensor under a new or an existing name.
func (prog *Builder) Assign(tile string, x Value, tileType Type) Value {
	return prog.instr("Assign", []string{tile}, []any{x}, nil, tileType)[0]
}

// ConvertLayout adds
//
//	b = ConvertLayout(x) : register f16[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)
//
// The same elements in another layout of the same threads. Lowering takes the cheapest way: nothing, where threads hold what they need in the same slots for all; else shuffles, where each warp holds what its lanes need; else shared memory and two barriers. In the last case it must stand where all threads of the block, or of the thread group around it, come, and those are whole warps.
func (prog *Builder) ConvertLayout(tile string, x Value, tileType Type) Value {
	return prog.instr("ConvertLayout", []string{tile}, []any{x}, nil, tileType)[0]
}

// Transpose adds
//
//	xt = Transpose(x) : register f16[8, 16] local(1, 2).column_spatial(4, 8).local(2, 1)
//
// Dimensions in another order: dimension i of the result is dimension dims[i] of the source; left out, the order is reversed. No element leaves its thread.
func (prog *Builder) Transpose(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("Transpose", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Reshape adds
//
//	f = Reshape(x) : register f16[128] local(2).spatial(32).local(2)
//
// The same elements, in row-major order, in another shape of as many. No element leaves its thread.
func (prog *Builder) Reshape(tile string, x Value, tileType Type) Value {
	return prog.instr("Reshape", []string{tile}, []any{x}, nil, tileType)[0]
}

// Squeeze adds
//
//	r = Squeeze(x, dims=[1]) : register f32[16] local(2).spatial(8).replicated(1, num_workers=4)
//
// The same elements without some dimensions of extent 1.
func (prog *Builder) Squeeze(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("Squeeze", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Unsqueeze adds
//
//	c = Unsqueeze(x, dims=[1]) : register f32[16, 1] local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)
//
// The same elements with further dimensions of extent 1.
func (prog *Builder) Unsqueeze(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("Unsqueeze", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Repeat adds
//
//	w = Repeat(x, repeats=[1, 2]) : register f16[16, 16] local(2, 2).spatial(8, 4).local(1, 2)
//
// The source several times in a row along each dimension, as a whole: element i of the result is element i modulo the source's extent.
func (prog *Builder) Repeat(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("Repeat", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Repeats is the attribute repeats, a list of integers: how often, for each dimension.
func Repeats(values ...any) Attr { return list("repeats", values) }

// RepeatInterleave adds
//
//	w = RepeatInterleave(x, repeats=[1, 2]) : register f16[16, 16] local(2, 1).spatial(8, 4).local(1, 4)
//
// Each element of the source several times in a row along each dimension: element i of the result is element i / repeats.
func (prog *Builder) RepeatInterleave(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("RepeatInterleave", []string{tile}, []any{x}, attrs, tileType)[0]
}

// SliceRegister adds
//
//	row = SliceRegister(x, offset=[8, 0]) : register f16[8, 8] spatial(8, 4).local(1, 2)
//
// A part of a register tensor: element [i, …] is the source's at offset plus that index. dims says which dimensions of the source stay (the last ones, if left out); the others are fixed by offset. A part outside the source is an error. An offset that is not constant is looked up by comparisons, since registers have no index.
func (prog *Builder) SliceRegister(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("SliceRegister", []string{tile}, []any{x}, attrs, tileType)[0]
}

// SliceAssign adds
//
//	x = SliceAssign(x, row, offset=[8, 0]) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
//
// x with a part replaced by another tensor: element [i, …] of part stands at offset plus that index. offset and dims as in SliceRegister. To change a variable, name it as the result too.
func (prog *Builder) SliceAssign(tile string, x Value, part Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("SliceAssign", []string{tile}, []any{x, part}, attrs, tileType)[0]
}

// ShuffleUp adds
//
//	y = ShuffleUp(x, delta=[1]) : register f32[32] spatial(32)
//
// What the thread delta below holds in the same slots. Warps are cut into runs of width threads; a thread that has none so far below in its run keeps its own. The tensor is seen as what threads hold: the result lies as the source.
func (prog *Builder) ShuffleUp(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("ShuffleUp", []string{tile}, []any{x}, attrs, tileType)[0]
}

// Delta is the attribute delta, a list of integers: how many threads below, one number.
func Delta(values ...any) Attr { return list("delta", values) }

// Width is the attribute width, a list of integers: threads of a run, one number; 32 if left out.
func Width(values ...any) Attr { return list("width", values) }

// Mask is the attribute mask, a list of integers: the lanes of a warp that take part, bit i for lane i, one number; left out, all that run.
func Mask(values ...any) Attr { return list("mask", values) }

// ShuffleDown adds
//
//	y = ShuffleDown(x, delta=[1]) : register f32[32] spatial(32)
//
// What the thread delta above holds in the same slots. Warps are cut into runs of width threads; a thread that has none so far above in its run keeps its own. The tensor is seen as what threads hold: the result lies as the source.
func (prog *Builder) ShuffleDown(tile string, x Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("ShuffleDown", []string{tile}, []any{x}, attrs, tileType)[0]
}

// AllocateGlobal adds
//
//	partial = AllocateGlobal() : global f32[S, M, N]
//
// A global tensor of the launch's own: all its blocks have the same one, and it is gone after it. With init=0 its elements are 0 before the first block; without, reading an element before it is written is an error on the interpreter and the simulator.
func (prog *Builder) AllocateGlobal(tensor string, tensorType Type, attrs ...Attr) Value {
	return prog.instr("AllocateGlobal", []string{tensor}, nil, attrs, tensorType)[0]
}

// SliceGlobal adds
//
//	row = SliceGlobal(gx, offset=[bi, 0], dims=[1]) : global f16[N]
//
// A part of a global tensor as a tensor of its own, over the same memory: element [i, …] is the source's at offset plus that index, and what lies outside the part counts as outside. dims says which dimensions of the source stay (the last ones, if left out); the others are fixed by offset. A part that does not lie inside the source is an error.
func (prog *Builder) SliceGlobal(tensor string, src Value, tensorType Type, attrs ...Attr) Value {
	return prog.instr("SliceGlobal", []string{tensor}, []any{src}, attrs, tensorType)[0]
}

// PrefetchGlobal adds
//
//	PrefetchGlobal(gb, offset=[k + 2, bj, 0], shape=[1, 1, 96])
//
// Asks for a part of a global tensor, of the shape given, to be brought to the L2 cache. What lies outside is left out. It changes no result.
func (prog *Builder) PrefetchGlobal(src Value, attrs ...Attr) {
	prog.instr("PrefetchGlobal", nil, []any{src}, attrs)
}

// Shape is the attribute shape, a list of integers: the part's extents, one per dimension of src.
func Shape(values ...any) Attr { return list("shape", values) }

// LoadScalar adds
//
//	n = LoadScalar(gl, offset=[b])
//
// One element of a global tensor as a scalar, which all threads have: a length, a count, a place in a table. Outside the tensor it is 0.
func (prog *Builder) LoadScalar(x string, src Value, attrs ...Attr) Value {
	return prog.instr("LoadScalar", []string{x}, []any{src}, attrs)[0]
}

// LoadGlobalGather adds
//
//	row = LoadGlobalGather(table, ids, dim=[0]) : register f16[32, 8] spatial(32, 1).local(1, 8)
//
// Loads elements at indices that the program computed: element [i, j, …] of the tile comes from offset plus that index, but in dimension dim from indices[i, j, …]. An index outside that dimension is an error; elements outside in another dimension are 0.
func (prog *Builder) LoadGlobalGather(tile string, src Value, indices Value, tileType Type, attrs ...Attr) Value {
	return prog.instr("LoadGlobalGather", []string{tile}, []any{src, indices}, attrs, tileType)[0]
}

// StoreGlobalScatter adds
//
//	StoreGlobalScatter(gy, ids, x, dim=[0])
//
// Stores elements at indices that the program computed; which is where, as in LoadGlobalGather. An index outside dimension dim is an error; elements outside in another dimension are not stored. If two elements go to one place, the thread that holds both stores them in the order of its slots; two threads must not.
func (prog *Builder) StoreGlobalScatter(dst Value, indices Value, tile Value, attrs ...Attr) {
	prog.instr("StoreGlobalScatter", nil, []any{dst, indices, tile}, attrs)
}

// AtomicGlobal adds
//
//	AtomicGlobal(gy, partial, offset=[bi*16, 0], op=add)
//
// One atomic step on each element of a tile of a global tensor: add, sub, min, max, exch (the tile's element), cas, and on integers and, or, xor. Integers wrap; floats round once, and in f32 sums in global memory subnormal numbers count as 0, as GPUs have it. Steps on one element come in some order. The result, if one is named, is what stood there; 0 outside the tensor, where nothing changes. offset and dims as in LoadGlobal. With op=cas the element becomes the tile's where it is compare's.
func (prog *Builder) AtomicGlobal(dst Value, tile Value, compare Value, attrs ...Attr) {
	prog.instr("AtomicGlobal", nil, []any{dst, tile, compare}, attrs)
}

// AtomicGlobal1 adds
//
//	AtomicGlobal(gy, partial, offset=[bi*16, 0], op=add)
//
// One atomic step on each element of a tile of a global tensor: add, sub, min, max, exch (the tile's element), cas, and on integers and, or, xor. Integers wrap; floats round once, and in f32 sums in global memory subnormal numbers count as 0, as GPUs have it. Steps on one element come in some order. The result, if one is named, is what stood there; 0 outside the tensor, where nothing changes. offset and dims as in LoadGlobal. With op=cas the element becomes the tile's where it is compare's.
func (prog *Builder) AtomicGlobal1(old string, dst Value, tile Value, compare Value, oldType Type, attrs ...Attr) Value {
	return prog.instr("AtomicGlobal", []string{old}, []any{dst, tile, compare}, attrs, oldType)[0]
}

// AtomicScatterGlobal adds
//
//	AtomicScatterGlobal(histogram, bins, ones, dim=[0], op=add)
//
// One atomic step on each of the elements that indices choose, as in StoreGlobalScatter: add, sub, min, max, exch (the tile's element), cas, and on integers and, or, xor. Integers wrap; floats round once, and in f32 sums in global memory subnormal numbers count as 0, as GPUs have it. Steps on one element come in some order. Several elements may go to one place.
func (prog *Builder) AtomicScatterGlobal(dst Value, indices Value, tile Value, compare Value, attrs ...Attr) {
	prog.instr("AtomicScatterGlobal", nil, []any{dst, indices, tile, compare}, attrs)
}

// AtomicScatterGlobal1 adds
//
//	AtomicScatterGlobal(histogram, bins, ones, dim=[0], op=add)
//
// One atomic step on each of the elements that indices choose, as in StoreGlobalScatter: add, sub, min, max, exch (the tile's element), cas, and on integers and, or, xor. Integers wrap; floats round once, and in f32 sums in global memory subnormal numbers count as 0, as GPUs have it. Steps on one element come in some order. Several elements may go to one place.
func (prog *Builder) AtomicScatterGlobal1(old string, dst Value, indices Value, tile Value, compare Value, oldType Type, attrs ...Attr) Value {
	return prog.instr("AtomicScatterGlobal", []string{old}, []any{dst, indices, tile, compare}, attrs, oldType)[0]
}

// PutGlobal adds
//
//	PutGlobal(parts, acc, offset=[bi, 0])
//
// Puts a tile's elements where a TakeGlobal, mostly of another block, waits for them: a place is empty while it is +0, as memory is that was cleared, and full else, so that a value says itself that it is there and no barrier or count need do so. An element that is 0 is put as -0. Elements outside the tensor are not put. To put an element where one still is, is an error, and so is to put one where another thread has taken one in this launch unless that is known to come before: by a barrier of the block, or a semaphore. offset and dims as in LoadGlobal.
func (prog *Builder) PutGlobal(dst Value, tile Value, attrs ...Attr) {
	prog.instr("PutGlobal", nil, []any{dst, tile}, attrs)
}

// TakeGlobal adds
//
//	sums = TakeGlobal(parts, awaited, offset=[bi - awaited, 0]) : register f32[4, 128] local(4, 1).spatial(1, 128)
//
// Waits until each element of a part of a global tensor was put there (PutGlobal), takes it, and leaves its place empty, which is +0: each thread waits for what it takes, nobody for anything else, and nothing but these values is ordered. With count only as many indices of the tile's first dimension are taken; the others are 0, and so are elements outside the tensor. A block may wait only for blocks that come before it in the grid, since those after it may not have started: waiting for others is an error.
func (prog *Builder) TakeGlobal(tile string, src Value, count any, tileType Type, attrs ...Attr) Value {
	return prog.instr("TakeGlobal", []string{tile}, []any{src, count}, attrs, tileType)[0]
}

// LockSemaphore adds
//
//	LockSemaphore(turn, bk, offset=[bi])
//
// Waits until an element of a global tensor is value. All threads that run wait, and after it see what was stored before the ReleaseSemaphore that gave the element that value. A block may wait only for blocks that come before it in the grid, since those after it may not have started: waiting for others is an error.
func (prog *Builder) LockSemaphore(semaphore Value, value any, attrs ...Attr) {
	prog.instr("LockSemaphore", nil, []any{semaphore, value}, attrs)
}

// ReleaseSemaphore adds
//
//	ReleaseSemaphore(turn, bk + 1, offset=[bi])
//
// Gives an element of a global tensor a value, after all threads that run have come here, and publishes what they stored before.
func (prog *Builder) ReleaseSemaphore(semaphore Value, value any, attrs ...Attr) {
	prog.instr("ReleaseSemaphore", nil, []any{semaphore, value}, attrs)
}

// StoreSharedScatter adds
//
//	StoreSharedScatter(sa, ids, x, dim=[0])
//
// Stores elements at indices that the program computed: element [i, j, …] of the tile goes to offset plus that index, but in dimension dim to indices[i, j, …]. All places lie inside. If two elements go to one place, the thread that holds both stores them in the order of its slots; two threads must not.
func (prog *Builder) StoreSharedScatter(dst Value, indices Value, tile Value, attrs ...Attr) {
	prog.instr("StoreSharedScatter", nil, []any{dst, indices, tile}, attrs)
}

// AtomicShared adds
//
//	AtomicShared(sum, partial, op=add)
//
// One atomic step on each element of a tile of a shared tensor: add, sub, min, max, exch (the tile's element), cas, and on integers and, or, xor. Integers wrap; floats round once, and in f32 sums in global memory subnormal numbers count as 0, as GPUs have it. Steps on one element come in some order. The result, if one is named, is what stood there. offset and dims as in LoadShared. With op=cas the element becomes the tile's where it is compare's. With rank, the tensor is the one at the same place of another block of the cluster, as in StoreShared: many blocks can add to one tile.
func (prog *Builder) AtomicShared(dst Value, tile Value, compare Value, attrs ...Attr) {
	prog.instr("AtomicShared", nil, []any{dst, tile, compare}, attrs)
}

// AtomicShared1 adds
//
//	AtomicShared(sum, partial, op=add)
//
// One atomic step on each element of a tile of a shared tensor: add, sub, min, max, exch (the tile's element), cas, and on integers and, or, xor. Integers wrap; floats round once, and in f32 sums in global memory subnormal numbers count as 0, as GPUs have it. Steps on one element come in some order. The result, if one is named, is what stood there. offset and dims as in LoadShared. With op=cas the element becomes the tile's where it is compare's. With rank, the tensor is the one at the same place of another block of the cluster, as in StoreShared: many blocks can add to one tile.
func (prog *Builder) AtomicShared1(old string, dst Value, tile Value, compare Value, oldType Type, attrs ...Attr) Value {
	return prog.instr("AtomicShared", []string{old}, []any{dst, tile, compare}, attrs, oldType)[0]
}

// AtomicScatterShared adds
//
//	AtomicScatterShared(histogram, bins, ones, dim=[0], op=add)
//
// One atomic step on each of the elements that indices choose, as in StoreSharedScatter: add, sub, min, max, exch (the tile's element), cas, and on integers and, or, xor. Integers wrap; floats round once, and in f32 sums in global memory subnormal numbers count as 0, as GPUs have it. Steps on one element come in some order. Several elements may go to one place.
func (prog *Builder) AtomicScatterShared(dst Value, indices Value, tile Value, compare Value, attrs ...Attr) {
	prog.instr("AtomicScatterShared", nil, []any{dst, indices, tile, compare}, attrs)
}

// AtomicScatterShared1 adds
//
//	AtomicScatterShared(histogram, bins, ones, dim=[0], op=add)
//
// One atomic step on each of the elements that indices choose, as in StoreSharedScatter: add, sub, min, max, exch (the tile's element), cas, and on integers and, or, xor. Integers wrap; floats round once, and in f32 sums in global memory subnormal numbers count as 0, as GPUs have it. Steps on one element come in some order. Several elements may go to one place.
func (prog *Builder) AtomicScatterShared1(old string, dst Value, indices Value, tile Value, compare Value, oldType Type, attrs ...Attr) Value {
	return prog.instr("AtomicScatterShared", []string{old}, []any{dst, indices, tile, compare}, attrs, oldType)[0]
}

// AllocateBarrier adds
//
//	full = AllocateBarrier(count=1) : shared u64[4] shared_row_major(4)
//
// New barriers in the shared memory of the block, each in its phase 0, which count arrivals complete. One thread makes them; a Synchronize has to lie between this and their first use (in a cluster, a ClusterSynchronize before other blocks use them). They live as AllocateShared's tiles do.
func (prog *Builder) AllocateBarrier(barriers string, barriersType Type, attrs ...Attr) Value {
	return prog.instr("AllocateBarrier", []string{barriers}, nil, attrs, barriersType)[0]
}

// Count is the attribute count, a number: how many arrivals complete a phase.
func Count(value any) Attr { return Attr("count=" + operand(value)) }

// ArriveBarrier adds
//
//	ArriveBarrier(empty, k)
//
// Arrives at a barrier: once for each warp of the threads that run, once for a part of a warp. What those threads did before comes before what others do after a wait for the phase. With rank, the barrier is the one at the same place of another block of the cluster.
func (prog *Builder) ArriveBarrier(barriers Value, turn any, attrs ...Attr) {
	prog.instr("ArriveBarrier", nil, []any{barriers, turn}, attrs)
}

// ArriveExpectTxBarrier adds
//
//	ArriveExpectTxBarrier(full, k, bytes=16384)
//
// Arrives at a barrier once, and lets its phase wait for so many bytes of copies as well. The copies may begin before or after, in the same turn.
func (prog *Builder) ArriveExpectTxBarrier(barriers Value, turn any, attrs ...Attr) {
	prog.instr("ArriveExpectTxBarrier", nil, []any{barriers, turn}, attrs)
}

// Bytes is the attribute bytes, a number: how many bytes copies will bring.
func Bytes(value any) Attr { return Attr("bytes=" + operand(value)) }

// WaitBarrier adds
//
//	WaitBarrier(full, k)
//
// Waits until the phase of a turn is complete: what those who arrived did before, and the bytes of the phase's copies, are seen after it by the threads that wait, and by no others. Turns before the first (-n to -1) are complete from the start, so that the producer of a pipeline of n stages can wait for turn k - n to be used up before it fills turn k. A barrier remembers only its last phase: when a turn is waited for, its phase or the one after it must be running.
func (prog *Builder) WaitBarrier(barriers Value, turn any) {
	prog.instr("WaitBarrier", nil, []any{barriers, turn}, nil)
}

// FenceProxyAsync adds
//
//	FenceProxyAsync()
//
// What the threads that run stored to shared memory before, or saw stored, is seen by the asynchronous proxy after: by copies of tensors and by matrix instructions that read shared memory. It must lie between StoreShared (or CopyAsync) and such a reader, beside the barrier between the threads.
func (prog *Builder) FenceProxyAsync() {
	prog.instr("FenceProxyAsync", nil, nil, nil)
}

// AllocatePipeline adds
//
//	p = AllocatePipeline(producers=1, consumers=8) : shared u64[2, 3] shared_row_major(2, 3)
//
// A new pipeline of n stages. A turn is full when so many producers have committed it and the bytes of its copies have come, and empty again when so many consumers have released it. It is two arrays of barriers as AllocateBarrier makes them, full and empty: a Synchronize has to lie between this and the first use (in a cluster, a ClusterSynchronize before other blocks use it).
func (prog *Builder) AllocatePipeline(pipeline string, pipelineType Type, attrs ...Attr) Value {
	return prog.instr("AllocatePipeline", []string{pipeline}, nil, attrs, pipelineType)[0]
}

// Producers is the attribute producers, a number: how many commits fill a turn.
func Producers(value any) Attr { return Attr("producers=" + operand(value)) }

// Consumers is the attribute consumers, a number: how many releases empty it.
func Consumers(value any) Attr { return Attr("consumers=" + operand(value)) }

// AcquirePipeline adds
//
//	AcquirePipeline(p, k)
//
// A producer waits until the stage of a turn is empty: until consumers have released turn t - n. The first n turns are empty from the start.
func (prog *Builder) AcquirePipeline(pipeline Value, turn any) {
	prog.instr("AcquirePipeline", nil, []any{pipeline, turn}, nil)
}

// CommitPipeline adds
//
//	CommitPipeline(p, k, bytes=24576)
//
// A producer has filled its part of a turn. With bytes it counts once, and the turn waits for so many bytes of copies as well, which may begin before or after; with after=products it counts once, when the products in tensor memory are done that the same thread has begun since its last commit or release of that kind. Otherwise what the threads that run have stored is their part: it counts once for each warp (once for a part of a warp), and consumers see it.
func (prog *Builder) CommitPipeline(pipeline Value, turn any, attrs ...Attr) {
	prog.instr("CommitPipeline", nil, []any{pipeline, turn}, attrs)
}

// After is the attribute after, a word: products: when the products in tensor memory begun by this thread are done.
func After(word string) Attr { return Attr("after=" + word) }

// Multicast is the attribute multicast, a list of expressions: [mask]: bit r is the block of rank r in the cluster.
func Multicast(values ...any) Attr { return list("multicast", values) }

// WaitPipeline adds
//
//	WaitPipeline(p, k)
//
// A consumer waits until a turn is full: it then sees what producers stored, and what copies and products brought.
func (prog *Builder) WaitPipeline(pipeline Value, turn any) {
	prog.instr("WaitPipeline", nil, []any{pipeline, turn}, nil)
}

// ReleasePipeline adds
//
//	ReleasePipeline(p, k)
//
// A consumer has used up the stage of a turn: once for each warp of the threads that run, once for a part of a warp. With after=products it counts once, when the products in tensor memory are done that the same thread has begun since its last commit or release of that kind, and that read the stage.
func (prog *Builder) ReleasePipeline(pipeline Value, turn any, attrs ...Attr) {
	prog.instr("ReleasePipeline", nil, []any{pipeline, turn}, attrs)
}

// CopyAsyncTensorGlobalToShared adds
//
//	CopyAsyncTensorGlobalToShared(ga, stage, full, k, offset=[bi*128, k*64])
//
// Begins to copy a tile of a global tensor, of the shape of dst, to shared memory. Element [i, j, …] of dst comes from offset plus that index of src; dims says along which dimensions of src the tile lies (the last ones, if left out). Elements outside src become 0. When it is done, the bytes of the whole tile have come to the turn of the barriers; who waits for that turn sees the tile, and until then nobody may read or write it. One thread begins the copy: what any thread did with dst before must come before it by a barrier. With multicast, each block of the cluster whose bit is set in the mask gets the tile at the same place, and the bytes come to its own barriers.
func (prog *Builder) CopyAsyncTensorGlobalToShared(src Value, dst Value, barriers Value, turn any, attrs ...Attr) {
	prog.instr("CopyAsyncTensorGlobalToShared", nil, []any{src, dst, barriers, turn}, attrs)
}

// CopyAsyncTensorSharedToGlobal adds
//
//	CopyAsyncTensorSharedToGlobal(gc, sc, offset=[bi*128, bj*128])
//
// Begins to copy a tile of shared memory to a global tensor, or to combine it with what is there; offset and dims as in CopyAsyncTensorGlobalToShared. Elements outside the tensor are not stored. The copy belongs to a group of CopyAsyncTensorCommitGroup; until a wait for the group the tile must not be written. What threads stored to the tile needs FenceProxyAsync and a barrier before.
func (prog *Builder) CopyAsyncTensorSharedToGlobal(dst Value, src Value, attrs ...Attr) {
	prog.instr("CopyAsyncTensorSharedToGlobal", nil, []any{dst, src}, attrs)
}

// CopyAsyncTensorCommitGroup adds
//
//	CopyAsyncTensorCommitGroup()
//
// Makes a group of the copies from shared memory that the threads which run began since their last group; there may be none.
func (prog *Builder) CopyAsyncTensorCommitGroup() {
	prog.instr("CopyAsyncTensorCommitGroup", nil, nil, nil)
}

// CopyAsyncTensorWaitGroup adds
//
//	CopyAsyncTensorWaitGroup(n=0, until=read)
//
// Waits until at most n of the groups that the same threads made last are still on their way. With until=read they may still be writing, but the shared memory that they copy is free for other uses.
func (prog *Builder) CopyAsyncTensorWaitGroup(attrs ...Attr) {
	prog.instr("CopyAsyncTensorWaitGroup", nil, nil, attrs)
}

// Until is the attribute until, a word: read: wait only until the tiles have been read.
func Until(word string) Attr { return Attr("until=" + word) }

// CopyAsyncBulkGlobalToShared adds
//
//	CopyAsyncBulkGlobalToShared(gs, scales, full, k, offset=[k*256])
//
// Begins to copy a tile of a global tensor to shared memory, row by row and without a tensor map: src may be a part of a tensor, and the launch prepares nothing. The tile must lie inside src, and its rows must begin at multiples of 16 bytes. offset, dims, barriers, turn and multicast as in CopyAsyncTensorGlobalToShared.
func (prog *Builder) CopyAsyncBulkGlobalToShared(src Value, dst Value, barriers Value, turn any, attrs ...Attr) {
	prog.instr("CopyAsyncBulkGlobalToShared", nil, []any{src, dst, barriers, turn}, attrs)
}

// CopyAsyncBulkSharedToGlobal adds
//
//	CopyAsyncBulkSharedToGlobal(gy, rows, offset=[b, 0], dims=[1])
//
// Begins to copy a tile of shared memory to a global tensor, row by row and without a tensor map, as CopyAsyncBulkGlobalToShared does the other way. It belongs to a group of CopyAsyncTensorCommitGroup; what threads stored to the tile needs FenceProxyAsync and a barrier before.
func (prog *Builder) CopyAsyncBulkSharedToGlobal(dst Value, src Value, attrs ...Attr) {
	prog.instr("CopyAsyncBulkSharedToGlobal", nil, []any{dst, src}, attrs)
}

// CopyAsyncBulkSharedToClusterShared adds
//
//	CopyAsyncBulkSharedToClusterShared(mine, theirs, full, 0, rank=[(r + 1) % 2])
//
// Begins to copy a tile of shared memory to the tile dst of another block of the cluster, byte by byte as both lie in memory. The bytes come to the turn of that block's barriers; a thread of it that waits for them sees the tile, and the source is free when it has been told so. What threads stored to src needs FenceProxyAsync and a barrier before.
func (prog *Builder) CopyAsyncBulkSharedToClusterShared(src Value, dst Value, barriers Value, turn any, attrs ...Attr) {
	prog.instr("CopyAsyncBulkSharedToClusterShared", nil, []any{src, dst, barriers, turn}, attrs)
}

// PrefetchTensor adds
//
//	PrefetchTensor(ga, offset=[bi*128, k*64 + 256], shape=[128, 64])
//
// Asks for a tile of a global tensor, of the shape given, to be brought to the L2 cache by the unit that copies tensors: one thread asks for the whole tile. What lies outside is left out. It changes no result.
func (prog *Builder) PrefetchTensor(src Value, attrs ...Attr) {
	prog.instr("PrefetchTensor", nil, []any{src}, attrs)
}

// ClusterLaunchControlTryCancel adds
//
//	ClusterLaunchControlTryCancel(answer, full, t)
//
// Begins to take back a cluster (in a program without clusters, a block) of the grid that has not begun, so that this block does its work instead. The answer, 16 bytes, comes to the turn of the barriers, for ClusterLaunchControlQueryResponse. One block of a cluster asks for all: each of its blocks gets the answer at the same place, and 16 bytes come to its own barriers. Seen on no hardware yet: targets from sm_100 on have it.
func (prog *Builder) ClusterLaunchControlTryCancel(answer Value, barriers Value, turn any) {
	prog.instr("ClusterLaunchControlTryCancel", nil, []any{answer, barriers, turn}, nil)
}

// ClusterLaunchControlQueryResponse adds
//
//	taken, bi = ClusterLaunchControlQueryResponse(answer)
//
// What a ClusterLaunchControlTryCancel brought: taken is 1 where a block was taken back, and i, j, k are its indices in the grid; 0 where none was left. Where a cluster was taken back, they are the indices of the block at this block's place in it.
func (prog *Builder) ClusterLaunchControlQueryResponse(taken string, answer Value) Value {
	return prog.instr("ClusterLaunchControlQueryResponse", []string{taken}, []any{answer}, nil)[0]
}

// ClusterLaunchControlQueryResponse2 adds
//
//	taken, bi = ClusterLaunchControlQueryResponse(answer)
//
// What a ClusterLaunchControlTryCancel brought: taken is 1 where a block was taken back, and i, j, k are its indices in the grid; 0 where none was left. Where a cluster was taken back, they are the indices of the block at this block's place in it.
func (prog *Builder) ClusterLaunchControlQueryResponse2(taken string, i string, answer Value) (Value, Value) {
	results := prog.instr("ClusterLaunchControlQueryResponse", []string{taken, i}, []any{answer}, nil)
	return results[0], results[1]
}

// ClusterLaunchControlQueryResponse3 adds
//
//	taken, bi = ClusterLaunchControlQueryResponse(answer)
//
// What a ClusterLaunchControlTryCancel brought: taken is 1 where a block was taken back, and i, j, k are its indices in the grid; 0 where none was left. Where a cluster was taken back, they are the indices of the block at this block's place in it.
func (prog *Builder) ClusterLaunchControlQueryResponse3(taken string, i string, j string, answer Value) (Value, Value, Value) {
	results := prog.instr("ClusterLaunchControlQueryResponse", []string{taken, i, j}, []any{answer}, nil)
	return results[0], results[1], results[2]
}

// ClusterLaunchControlQueryResponse4 adds
//
//	taken, bi = ClusterLaunchControlQueryResponse(answer)
//
// What a ClusterLaunchControlTryCancel brought: taken is 1 where a block was taken back, and i, j, k are its indices in the grid; 0 where none was left. Where a cluster was taken back, they are the indices of the block at this block's place in it.
func (prog *Builder) ClusterLaunchControlQueryResponse4(taken string, i string, j string, k string, answer Value) (Value, Value, Value, Value) {
	results := prog.instr("ClusterLaunchControlQueryResponse", []string{taken, i, j, k}, []any{answer}, nil)
	return results[0], results[1], results[2], results[3]
}

// Tcgen05Alloc adds
//
//	d = Tcgen05Alloc() : tmem f32[128, 256]
//
// Takes columns of tensor memory; waits until the multiprocessor has them. One warp does it; a Synchronize has to lie between this and the first use. What it takes must be given back with Tcgen05Dealloc before the block ends.
func (prog *Builder) Tcgen05Alloc(tensor string, tensorType Type, attrs ...Attr) Value {
	return prog.instr("Tcgen05Alloc", []string{tensor}, nil, attrs, tensorType)[0]
}

// Ctas is the attribute ctas, a number: 1, or 2: two blocks of a cluster use their tensor memories together; left out, 1.
func Ctas(value any) Attr { return Attr("ctas=" + operand(value)) }

// Tcgen05Dealloc adds
//
//	Tcgen05Dealloc(d)
//
// Gives tensor memory back. A Synchronize has to lie between its last use and this.
func (prog *Builder) Tcgen05Dealloc(tensor Value) {
	prog.instr("Tcgen05Dealloc", nil, []any{tensor}, nil)
}

// Tcgen05RelinquishAllocPermit adds
//
//	Tcgen05RelinquishAllocPermit()
//
// The block takes no more tensor memory, so that others of the multiprocessor can.
func (prog *Builder) Tcgen05RelinquishAllocPermit() {
	prog.instr("Tcgen05RelinquishAllocPermit", nil, nil, nil)
}

// Tcgen05Slice adds
//
//	half = Tcgen05Slice(d, offset=[0, 128]) : tmem f32[128, 128]
//
// Columns of a tensor in tensor memory, from offset on: another name for the same memory. A part of 64 rows is half of the lanes of each quarter, the first ones from lane 0 or the second ones from lane 16 on: row i of it lies in lane 32·(i div 16) + i mod 16, counted from there.
func (prog *Builder) Tcgen05Slice(part string, tensor Value, partType Type, attrs ...Attr) Value {
	return prog.instr("Tcgen05Slice", []string{part}, []any{tensor}, attrs, partType)[0]
}

// Tcgen05View adds
//
//	p = Tcgen05View(s) : tmem f16[128, 128]
//
// The same bits of tensor memory as elements of another type.
func (prog *Builder) Tcgen05View(view string, tensor Value, viewType Type) Value {
	return prog.instr("Tcgen05View", []string{view}, []any{tensor}, nil, viewType)[0]
}

// Tcgen05Mma adds
//
//	Tcgen05Mma(sa, sb, d, sum=[k])
//
// Begins a matrix product: d[m, n] becomes Σk a[m, k]·b[k, n] + d[m, n], rounded as WgmmaDot rounds; where sum is 0, without what d held. There are 128 rows, or 64 in half of the lanes of each quarter. One thread begins it. a lies in shared memory or in tensor memory, b in shared memory. Products of a block end in the order in which they begin; who waits for a Tcgen05Commit behind it may use d, and write a and b again. Shared memory that threads stored needs FenceProxyAsync and a barrier before. With ctas=2, two blocks of a cluster whose ranks differ in the last bit multiply together: one thread of the block with the even rank begins the product for both; each has its own rows of a and d, 128, and at the same places half of b, the columns of the block with the even rank first, so that both bring only half of it.
func (prog *Builder) Tcgen05Mma(a Value, b Value, d Value, attrs ...Attr) {
	prog.instr("Tcgen05Mma", nil, []any{a, b, d}, attrs)
}

// Sum is the attribute sum, a list of expressions: [s]: where s is 0 the product replaces what d held; left out, it is added.
func Sum(values ...any) Attr { return list("sum", values) }

// Tcgen05MmaScaled adds
//
//	Tcgen05MmaScaled(ua, ub, d, ta, tb, sum=[k])
//
// Begins a matrix product of blocks with scales, as Tcgen05Mma does: d[m, n] becomes Σk a[m, k]·scale_a[m, k div B]·b[k, n]·scale_b[k div B, n] + d[m, n], the products of one instruction's k and d summed exactly and rounded once. B is 32 for scales of f8e8m0 (8-bit floats, 32 of them in an instruction, and f4e2m1, 64 of them), 16 for scales of f8e4m3 (f4e2m1). Scales lie in tensor memory as four bytes of a column: scale c of row i is in lane i mod 32, element 4·(R/32·(c div 4) + i div 32) + c mod 4 of a tensor of R rows (128 of a; columns of b), and the four quarters of the lanes hold the same, as Tcgen05Copy of a tile [32, n] leaves them.
func (prog *Builder) Tcgen05MmaScaled(a Value, b Value, d Value, scale_a Value, scale_b Value, attrs ...Attr) {
	prog.instr("Tcgen05MmaScaled", nil, []any{a, b, d, scale_a, scale_b}, attrs)
}

// Tcgen05MmaSparse adds
//
//	Tcgen05MmaSparse(sa, sb, d, marks, sum=[k])
//
// Begins a matrix product of an a of which every second element is 0 and left out, as Tcgen05Mma does: of four elements along k two are kept, of tf32 one of two, side by side in a row. e says which, four bits for each group: the places of both, two bits each, the first one low (of tf32 4 for the first, 14 for the second). Elements of 8 bits: the bits of row i from element k on are in row i of e, column k div 32, from bit k mod 32 on. Of 16 bits (32 bits): in row 8·h + 16·(i div 16) + i mod 8, column k div 32 (16), from bit 16·(i div 8 mod 2) + k mod 16 (2·(k mod 8)) on, where h is k div 16 (8) mod 2.
func (prog *Builder) Tcgen05MmaSparse(a Value, b Value, d Value, e Value, attrs ...Attr) {
	prog.instr("Tcgen05MmaSparse", nil, []any{a, b, d, e}, attrs)
}

// Tcgen05Copy adds
//
//	Tcgen05Copy(scales, ts)
//
// Begins to copy a tile of shared memory to tensor memory: row i of it to lane i; of 32 rows, row i to lanes i, i + 32, i + 64 and i + 96. It comes in the order of the products of the same thread, which may use what it copies behind it; others wait for a Tcgen05Commit. Shared memory that threads stored needs FenceProxyAsync and a barrier before.
func (prog *Builder) Tcgen05Copy(src Value, dst Value) {
	prog.instr("Tcgen05Copy", nil, []any{src, dst}, nil)
}

// Tcgen05Commit adds
//
//	Tcgen05Commit(empty, k)
//
// Arrives once at a barrier when the products that the same thread has begun since its last Tcgen05Commit are done: a thread that waits for the turn may use what they wrote, and write what they read. A GPU also waits for those before; programs that rely on it are refused by interpreter and simulator.
func (prog *Builder) Tcgen05Commit(barriers Value, turn any, attrs ...Attr) {
	prog.instr("Tcgen05Commit", nil, []any{barriers, turn}, attrs)
}

// Tcgen05Load adds
//
//	x = Tcgen05Load(part) : register f32[128, 32] spatial(128, 1).local(1, 32)
//
// Begins to load a tensor from tensor memory into registers: thread i of a warpgroup gets row i, and of 64 rows what it holds of the sums of a product of warpgroups. The registers hold it behind a Tcgen05Wait.
func (prog *Builder) Tcgen05Load(x string, tensor Value, xType Type) Value {
	return prog.instr("Tcgen05Load", []string{x}, []any{tensor}, nil, xType)[0]
}

// Tcgen05Store adds
//
//	Tcgen05Store(p, h)
//
// Begins to store registers to tensor memory, which the threads of a warpgroup hold as Tcgen05Load leaves them. It is there behind a Tcgen05Wait, for other threads and products behind a barrier as well.
func (prog *Builder) Tcgen05Store(tensor Value, x Value) {
	prog.instr("Tcgen05Store", nil, []any{tensor, x}, nil)
}

// Tcgen05Wait adds
//
//	Tcgen05Wait(for=load)
//
// Waits until the loads, or the stores, of tensor memory that the threads which run have begun are done.
func (prog *Builder) Tcgen05Wait(attrs ...Attr) {
	prog.instr("Tcgen05Wait", nil, nil, attrs)
}

// For is the attribute for, a word: load or store.
func For(word string) Attr { return Attr("for=" + word) }

// WgmmaDot adds
//
//	acc = WgmmaDot(sa, sb, acc) : register f32[64, 128] spatial(4, 1).column_local(2, 16).spatial(8, 4).local(1, 2)
//
// Begins a matrix product of warpgroups: d[m, n] = Σk a[m, k]·b[k, n] + c[m, n], rounded as Dot rounds: the products of one instruction's k (32 bytes of it) and the accumulator are summed exactly and rounded once; steps go up in k. It goes on beside the threads until a WgmmaWaitGroup for its group. Until then the accumulator can be used only by further WgmmaDots, registers of a must not change, and the shared memory of a and b must not be written. Registers that other instructions wrote (accumulators, a) need a WgmmaFence before; shared memory that threads stored needs FenceProxyAsync and a barrier. b lies in shared memory with k or n contiguous, a in shared memory with k or m contiguous, or in registers; types other than of 16 bits need k contiguous. Where sum is 0, the accumulator's value does not count: d is the product alone.
func (prog *Builder) WgmmaDot(d string, a Value, b Value, c Value, dType Type, attrs ...Attr) Value {
	return prog.instr("WgmmaDot", []string{d}, []any{a, b, c}, attrs, dType)[0]
}

// WgmmaFence adds
//
//	WgmmaFence()
//
// Orders what the threads did with registers before against the WgmmaDots after it. The first WgmmaDot needs it, and every one that uses registers which another instruction wrote since; accumulators that only WgmmaDots change do not.
func (prog *Builder) WgmmaFence() {
	prog.instr("WgmmaFence", nil, nil, nil)
}

// WgmmaCommitGroup adds
//
//	WgmmaCommitGroup()
//
// Makes a group of the WgmmaDots begun since the last group; there may be none.
func (prog *Builder) WgmmaCommitGroup() {
	prog.instr("WgmmaCommitGroup", nil, nil, nil)
}

// WgmmaWaitGroup adds
//
//	WgmmaWaitGroup(n=1)
//
// Waits until at most n of the groups made last are still at work. The accumulators of the others hold their results, and what they read is free.
func (prog *Builder) WgmmaWaitGroup(attrs ...Attr) {
	prog.instr("WgmmaWaitGroup", nil, nil, attrs)
}

// SetMaxRegisters adds
//
//	SetMaxRegisters(n=240)
//
// From here on each thread that runs has n registers: more for warpgroups that compute, fewer for those that only begin copies. It changes no result; on a GPU a warpgroup that asks for more waits until others have given theirs back.
func (prog *Builder) SetMaxRegisters(attrs ...Attr) {
	prog.instr("SetMaxRegisters", nil, nil, attrs)
}

// ClusterRank adds
//
//	r = ClusterRank()
//
// The number of this block in its cluster, an i32: blocks are counted along the first dimension of the grid first.
func (prog *Builder) ClusterRank(rank string) Value {
	return prog.instr("ClusterRank", []string{rank}, nil, nil)[0]
}

// ClusterSynchronize adds
//
//	ClusterSynchronize()
//
// A barrier of all blocks of the cluster: no thread goes on before all have come here, and what they stored before, in shared memory too, is seen by all of them after. Blocks use each other's shared memory and barriers only after a first one, and a block ends only after the last use that others make of its memory, which one before its end sees to.
func (prog *Builder) ClusterSynchronize() {
	prog.instr("ClusterSynchronize", nil, nil, nil)
}

// Print adds
//
//	Print(bi, k, text="block row {}, step {}")
//
// Prints scalars: each {} in text is one of them, in order; without text they are separated by spaces. The output is that of the launch: blocks in the order of their numbers, each as it came to it, with the block before every line. Of a block at most 64 prints of one instruction are shown, of large tiles and of large grids fewer; a line says how many are missing. Example of the output: block 3: k = 2 of 8.
func (prog *Builder) Print(a any, b any, c any, d any, e any, f any, g any, h any, attrs ...Attr) {
	prog.instr("Print", nil, []any{a, b, c, d, e, f, g, h}, attrs)
}

// Text is the attribute text, a text: what is printed, with {} for each scalar.
func Text(text string) Attr { return Attr("text=" + `"` + text + `"`) }

// PrintTensor adds
//
//	PrintTensor(acc, text="the sums")
//
// Prints a register tensor: its type with the layout, and its elements, of large ones the corners. LoadShared brings shared memory there first. The output is that of the launch: blocks in the order of their numbers, each as it came to it, with the block before every line. Of a block at most 64 prints of one instruction are shown, of large tiles and of large grids fewer; a line says how many are missing.
func (prog *Builder) PrintTensor(x Value, attrs ...Attr) {
	prog.instr("PrintTensor", nil, []any{x}, attrs)
}
