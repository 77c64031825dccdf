// Package code is thread code: what one GPU thread does, in single-assignment
// form with structured control flow. Lowering builds it, gpu/opt improves it,
// gpu/ptx and gpu/cudac print it, gpu/sim runs it.
//
// A [Func] is a tree of regions. A [Region] is a list of instructions that ends
// with the values it yields; [OpIf], [OpFor] and [OpWhile] hold regions, and
// there is no other control flow: no phi, jump, break or return. A [Value] has
// one of four types, pred, b16, b32 or b64; what its bits mean (a signed number,
// two f16 numbers, an address) is up to the instruction that reads them.
//
// Everything that is to know about an instruction stands in its [Row]: types,
// immediates, PTX and CUDA C text, and, where it only computes with the bits of
// its own lane, its meaning. Instructions with effects or partners have their
// meaning in gpu/sim.
//
//	If     In [p]                 Regions [then, else]  Out = what the region taken yields
//	For    In [start, end, step, inits…]  Imm [unroll]  Regions [body(i, carried…)]  Out = carried
//	While  In [inits…]            Regions [cond(carried…) yields p, body yields carried]  Out = carried
//
// For counts i = start, start+step, … while i < end as signed 32-bit numbers; it
// may run no time at all. Step must be positive. The body of While sees the
// arguments and the values of its condition region.
package code

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Type is the kind of register that a value lives in.
type Type uint8

// The types. None is no type.
const (
	None Type = iota
	Pred
	B16
	B32
	B64
)

// String is "pred", "b16", "b32" or "b64".
func (t Type) String() string {
	return [...]string{"none", "pred", "b16", "b32", "b64"}[t]
}

// Bits is 1, 16, 32 or 64.
func (t Type) Bits() int { return [...]int{0, 1, 16, 32, 64}[t] }

// Mask has the low Bits bits set.
func (t Type) Mask() uint64 { return 1<<t.Bits() - 1 }

// Value names the result of one instruction, a parameter or a region argument.
// Values count from 1 in each function; 0 is no value.
type Value int32

// ParamKind says what the host passes for a parameter.
type ParamKind uint8

// The kinds of parameters.
const (
	Scalar  ParamKind = iota // a number of the parameter's type
	Pointer                  // the b64 address of a buffer in global memory
	Tensor                   // the b64 address of a tensor map that the host makes for the launch
)

// Param is one parameter of a function.
type Param struct {
	Name string
	Kind ParamKind
	Type Type
	Elem string // element type for the reader: of what a pointer points to, or of the scalar ("i32")
	// NoAlias promises that no other parameter reaches the same bytes. ReadOnly
	// promises that the function writes none of them.
	NoAlias, ReadOnly bool
	// Divisor, if not 0, surely divides the number; the launch checks it.
	Divisor int64
	// Workspace, if not nil, says that the host makes the buffer for the launch; such
	// parameters stand behind the others.
	Workspace *Workspace
	// Map says what a parameter of kind Tensor holds; such parameters stand behind all
	// that the caller gives.
	Map *TensorMap
}

// Workspace is a buffer that lives as long as a launch.
type Workspace struct {
	Shape []affine.Expr // elements, of the scalar parameters
	Bits  int           // of an element
	Zero  bool          // all bytes are 0 at first
}

// Bytes is the size of the buffer, in whole 16 bytes.
func (w *Workspace) Bytes(scalars map[string]int64) (int, error) {
	n := int64(w.Bits)
	for _, e := range w.Shape {
		x, err := e.Eval(scalars)
		if err != nil {
			return 0, err
		}
		if x < 1 || n > 1<<40/x {
			return 0, fmt.Errorf("code: a workspace has an extent of %d", x)
		}
		n *= x
	}
	return int((n + 127) / 128 * 16), nil
}

// Launch says how the host starts a function. Expressions range over the scalar
// parameters and are evaluated on the host.
type Launch struct {
	Grid        []affine.Expr // blocks along x, y, z; one to three of them
	Cluster     [3]int        // blocks of a cluster; zero for none
	Block       int           // threads of a block
	SharedBytes int           // bytes of dynamic shared memory per block, at shared address 0
	MaxReg      int           // most 32-bit registers per thread; 0 leaves it open
	MinBlocks   int           // blocks that must fit one multiprocessor; 0 leaves it open
	PDL         bool          // the host may start it before the launch in front has ended; it waits itself
}

// Func is one function, which the host can start.
type Func struct {
	Name   string
	Params []Param
	Body   *Region // its Args are the parameters
	Launch Launch
	Types  []Type // type of each value; Types[0] is None
	// Stops are places where the simulator can be told to wait. Passes drop them.
	Stops []Stop
}

// Stop is a place in front of an instruction of a region, or behind the last, where
// some values can be read: each of Keep still has its register there.
type Stop struct {
	Region *Region
	At     int
	Keep   []Value
	Pos    diag.Pos
	// First and Threads are the threads of the block that come here.
	First, Threads int
}

// NewValue adds a value of type t.
func (f *Func) NewValue(t Type) Value {
	if len(f.Types) == 0 {
		f.Types = append(f.Types, None)
	}
	f.Types = append(f.Types, t)
	return Value(len(f.Types) - 1)
}

// Type is the type of v, None if the function has no such value.
func (f *Func) Type(v Value) Type {
	if v <= 0 || int(v) >= len(f.Types) {
		return None
	}
	return f.Types[v]
}

// Region is a list of instructions with arguments and results.
type Region struct {
	Args   []Value
	Instrs []*Instr
	Yield  []Value
}

// Instr is one instruction. In, Out and Imm are as its row says. Guard, if not
// 0, is the predicate of the lanes that take part (memory and atomic rows only);
// a guarded instruction with results has one more input for each result, the
// value that lanes left out get. Pos is the line of the program that asked for
// the instruction. Exact asks the simulator to check for overflow.
type Instr struct {
	Op      Op
	Exact   Exact
	Guard   Value
	In, Out []Value
	Imm     []int64
	Regions []*Region
	Pos     diag.Pos
}

// Row is the instruction's row of the table.
func (in *Instr) Row() *Row { return in.Op.Row() }

// Attr is the set of hints and promises of the instruction; 0 for rows without.
func (in *Instr) Attr() Attr {
	for k, kind := range in.Row().Imm {
		if kind == ImmAttr {
			return Attr(in.Imm[k])
		}
	}
	return 0
}

// Ties says which results and inputs of the instruction are one register.
func (in *Instr) Ties() []Tie {
	row := in.Row()
	if !row.Through {
		return row.Ties
	}
	ties := make([]Tie, len(in.Out))
	for k := range ties {
		ties[k] = Tie{k, len(row.In) + k}
	}
	return ties
}

// Walk calls f for every instruction in text order, an instruction before those
// in its regions.
func (r *Region) Walk(f func(*Instr)) {
	for _, in := range r.Instrs {
		f(in)
		for _, sub := range in.Regions {
			sub.Walk(f)
		}
	}
}

// Uses calls f with the address of every place of the region where a value is
// read, regions within included.
func (r *Region) Uses(f func(*Value)) {
	for _, in := range r.Instrs {
		for i := range in.In {
			f(&in.In[i])
		}
		if in.Guard != 0 {
			f(&in.Guard)
		}
		for _, sub := range in.Regions {
			sub.Uses(f)
		}
	}
	for i := range r.Yield {
		f(&r.Yield[i])
	}
}
