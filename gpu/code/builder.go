package code

import (
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Builder writes a function from its first instruction to its last. Every
// instruction gets the position of the last [Builder.At]. Pure instructions
// whose inputs are constants become constants; equal constants are one value,
// defined at the start of the function.
//
// A mistake in the calls (wrong types, missing position) is found by
// [Builder.Done], not by the call.
type Builder struct {
	f      *Func
	pos    diag.Pos
	region *Region
	consts [B64 + 1]map[uint64]Value // by type, then by bits
	head   []*Instr                  // the constants
	which  []int32                   // by value: the number of a constant in head, from 1 on
	instrs []Instr                   // room for more
	values []Value
	imms   []int64
}

// NewBuilder starts a function of that name.
func NewBuilder(name string) *Builder {
	f := &Func{Name: name, Body: &Region{}, Types: []Type{None}}
	b := &Builder{f: f, region: f.Body}
	for t := Pred; t <= B64; t++ {
		b.consts[t] = map[uint64]Value{}
	}
	return b
}

// Func is the function under construction; its Launch may be set any time.
func (b *Builder) Func() *Func { return b.f }

// At sets the position of the instructions that follow.
func (b *Builder) At(pos diag.Pos) *Builder {
	b.pos = pos
	return b
}

// Pos is the position of the instructions that follow.
func (b *Builder) Pos() diag.Pos { return b.pos }

// Pointer adds a parameter: the address of a buffer of elem in global memory.
func (b *Builder) Pointer(name, elem string) Value {
	return b.Param(Param{Name: name, Kind: Pointer, Type: B64, Elem: elem})
}

// Scalar adds a number parameter of type t.
func (b *Builder) Scalar(name string, t Type, elem string) Value {
	return b.Param(Param{Name: name, Kind: Scalar, Type: t, Elem: elem})
}

// Param adds a parameter.
func (b *Builder) Param(p Param) Value {
	v := b.f.NewValue(p.Type)
	b.f.Params = append(b.f.Params, p)
	b.f.Body.Args = append(b.f.Body.Args, v)
	return v
}

// Done checks the function and returns it; the error is a diag.List. The
// builder must not be used any more.
func (b *Builder) Done() (*Func, error) {
	f := b.Unchecked()
	if err := Verify(f).Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// Unchecked is [Builder.Done] for who calls [Verify] later.
func (b *Builder) Unchecked() *Func {
	for i := range b.f.Stops {
		if s := &b.f.Stops[i]; s.Region == b.f.Body {
			s.At += len(b.head)
		}
	}
	b.f.Body.Instrs = append(b.head, b.f.Body.Instrs...)
	b.head = nil
	return b.f
}

// Const is the constant of type t with these low bits.
func (b *Builder) Const(t Type, bits uint64) Value {
	bits &= t.Mask()
	if v, ok := b.consts[t][bits]; ok {
		return v
	}
	op := [...]Op{OpInvalid, OpConstPred, OpConst16, OpConst32, OpConst64}[t]
	out, imm, in := take(&b.values, 1), take(&b.imms, 1), b.instr()
	v := b.f.NewValue(t)
	out[0], imm[0] = v, int64(bits)
	*in = Instr{Op: op, Out: out, Imm: imm, Pos: b.pos}
	b.head = append(b.head, in)
	b.consts[t][bits] = v
	if n := int(v) + 1; n > cap(b.which) {
		b.which = append(make([]int32, 0, 2*n+256), b.which...)
	}
	b.which = b.which[:max(len(b.which), int(v)+1)]
	b.which[v] = int32(len(b.head))
	return v
}

// instr is a place for an instruction; there are many, so they are made some at a time.
func (b *Builder) instr() *Instr {
	if len(b.instrs) == 0 {
		b.instrs = make([]Instr, 128)
	}
	in := &b.instrs[0]
	b.instrs = b.instrs[1:]
	return in
}

// take is a list of n from a room, which is made anew where it is too small.
func take[T any](room *[]T, n int) []T {
	if len(*room) < n {
		*room = make([]T, max(n, 512))
	}
	out := (*room)[:n:n]
	*room = (*room)[n:]
	return out
}

// kept is a copy of a list in a room, so that callers' lists can live on their stacks.
func kept[T any](room *[]T, list []T) []T {
	if len(list) == 0 {
		return nil
	}
	out := take(room, len(list))
	copy(out, list)
	return out
}

// results are new values of these types.
func (b *Builder) results(types []Type) []Value {
	out := take(&b.values, len(types))
	for i, t := range types {
		out[i] = b.f.NewValue(t)
	}
	return out
}

// Const32 is the b32 constant v modulo 2^32.
func (b *Builder) Const32(v int64) Value { return b.Const(B32, uint64(v)) }

// Const64 is the b64 constant v.
func (b *Builder) Const64(v int64) Value { return b.Const(B64, uint64(v)) }

// Const16 is the b16 constant v modulo 2^16.
func (b *Builder) Const16(v int64) Value { return b.Const(B16, uint64(v)) }

// ConstPred is the constant true or false.
func (b *Builder) ConstPred(v bool) Value { return b.Const(Pred, truth(v)) }

// ConstOf reports the bits of a value that is a constant.
func (b *Builder) ConstOf(v Value) (bits uint64, ok bool) {
	if int(v) < len(b.which) && b.which[v] > 0 {
		return uint64(b.head[b.which[v]-1].Imm[0]), true
	}
	return 0, false
}

// Stop adds a stop, of these threads, in front of what comes next.
func (b *Builder) Stop(first, threads int, keep []Value) {
	b.f.Stops = append(b.f.Stops, Stop{Region: b.region, At: len(b.region.Instrs), Keep: keep, Pos: b.pos, First: first, Threads: threads})
}

// Emit adds an instruction with these immediates and inputs and gives its
// results.
func (b *Builder) Emit(op Op, imm []int64, in ...Value) []Value {
	row := op.Row()
	if v, ok := b.fold(row, imm, in); ok {
		out := take(&b.values, 1)
		out[0] = v
		return out
	}
	types := row.Out
	if row.Through {
		types = b32s[:len(in)-len(row.In)]
	}
	out := b.results(types)
	x := b.instr()
	*x = Instr{Op: op, In: kept(&b.values, in), Out: out, Imm: kept(&b.imms, imm)}
	b.Add(x)
	return out
}

// EmitExact is [Builder.Emit] for an instruction of one result that must not
// overflow.
func (b *Builder) EmitExact(op Op, e Exact, in ...Value) Value {
	var args [2]uint64
	all := true
	for i, v := range in {
		c, ok := b.ConstOf(v)
		args[i], all = c, all && ok
	}
	_, over := e.Overflows(op, args[0], args[1])
	row := op.Row()
	if v, ok := b.fold(row, nil, in); ok && !(all && over) {
		return v
	}
	out := b.results(row.Out[:1])
	x := b.instr()
	*x = Instr{Op: op, In: kept(&b.values, in), Out: out, Exact: e}
	b.Add(x)
	return out[0]
}

// Emit1 is [Builder.Emit] for an instruction with one result.
func (b *Builder) Emit1(op Op, imm []int64, in ...Value) Value {
	out := b.Emit(op, imm, in...)
	if len(out) != 1 {
		panic("code: " + op.String() + " does not have one result")
	}
	return out[0]
}

// Add appends an instruction as it is, at the builder's position.
func (b *Builder) Add(in *Instr) {
	in.Pos = b.pos
	b.region.Instrs = append(b.region.Instrs, in)
}

// fold computes pure instructions on constants and drops the commonest that do
// nothing: x + 0, x · 1, x << 0, x | 0.
func (b *Builder) fold(row *Row, imm []int64, in []Value) (Value, bool) {
	if row.Meaning == nil || len(in) == 0 {
		return 0, false
	}
	var args [3]uint64
	all := true
	for i, v := range in {
		if i == len(args) {
			return 0, false
		}
		c, ok := b.ConstOf(v)
		args[i], all = c, all && ok
	}
	if all && !(row.NonZero && args[1] == 0) {
		return b.Const(row.Out[0], row.Meaning(kept(&b.imms, imm), args[0], args[1], args[2])), true
	}
	if len(in) != 2 || len(imm) != 0 {
		return 0, false
	}
	x, c, ok := in[0], uint64(0), false
	if c, ok = b.ConstOf(in[1]); !ok && row.Commutes {
		x = in[1]
		c, ok = b.ConstOf(in[0])
	}
	if !ok {
		return 0, false
	}
	switch row.Name {
	case "add.b32", "add.b64", "sub.b32", "sub.b64", "or.b32", "or.b64", "xor.b32", "shl.b32", "shl.b64", "shr.u32", "shr.s32", "shr.u64":
		return x, c == 0
	case "mul.lo.b32", "mul.lo.b64", "div.u32", "div.s32":
		return x, c == 1
	}
	return 0, false
}

// If runs then in the lanes where p is true and els in the others; both give the
// same number of values of the same types, which If returns. els may be nil if
// there are none.
func (b *Builder) If(p Value, then, els func() []Value) []Value {
	in := &Instr{Op: OpIf, In: []Value{p}, Pos: b.pos}
	b.inside(in, nil, then)
	if els == nil {
		els = func() []Value { return nil }
	}
	b.inside(in, nil, els)
	return b.close(in, in.Regions[0].Yield)
}

// For runs body for i = start, start+step, … while i < end (signed b32), with
// carried values that begin as init and go on as what body returns. unroll is
// the number of copies of the body that a pass may make; 1 keeps the loop.
func (b *Builder) For(start, end, step Value, unroll int, init []Value, body func(i Value, carried []Value) []Value) []Value {
	in := &Instr{Op: OpFor, In: append([]Value{start, end, step}, init...), Imm: []int64{int64(unroll)}, Pos: b.pos}
	args := append([]Value{b.f.NewValue(B32)}, b.like(init)...)
	b.inside(in, args, func() []Value { return body(args[0], args[1:]) })
	return b.close(in, init)
}

// While runs body as long as cond gives true, with carried values that begin as
// init and go on as what body returns.
func (b *Builder) While(init []Value, cond func(carried []Value) Value, body func(carried []Value) []Value) []Value {
	in := &Instr{Op: OpWhile, In: append([]Value(nil), init...), Pos: b.pos}
	args := b.like(init)
	b.inside(in, args, func() []Value { return []Value{cond(args)} })
	b.inside(in, nil, func() []Value { return body(args) })
	return b.close(in, init)
}

// like makes new values of the types of vals.
func (b *Builder) like(vals []Value) []Value {
	out := make([]Value, len(vals))
	for i, v := range vals {
		out[i] = b.f.NewValue(b.f.Type(v))
	}
	return out
}

func (b *Builder) inside(in *Instr, args []Value, body func() []Value) {
	outer := b.region
	r := &Region{Args: args}
	in.Regions = append(in.Regions, r)
	b.region = r
	r.Yield = append([]Value(nil), body()...)
	b.region = outer
}

// close adds a finished control instruction with results of the types of vals,
// at the position where it began, and makes that the position again.
func (b *Builder) close(in *Instr, vals []Value) []Value {
	in.Out = b.like(vals)
	b.pos = in.Pos
	b.region.Instrs = append(b.region.Instrs, in)
	return in.Out
}
