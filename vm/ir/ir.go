// Package ir holds programs of the tile virtual machine as trees, the table of
// their instructions, and the verifier.
//
// A program says what one thread block does. It is a list of statements over
// named variables: scalars, pointers, and tensors in one of three spaces. A
// register variable holds a value (assigning copies it); a global or shared
// variable is a view onto storage. Control flow is structured: for, while, if.
//
// What an instruction is stands in one row of the table in ops.go: operands,
// results, attributes, effects, and numbered rules. The parser (vm/text), the
// verifier ([Verify]), the manual ([Manual]), the builder (vm/build) and
// completion read the row; the meaning of an instruction is vm/interp's entry
// for its name, its code is gpu/lower's.
package ir

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

// LanesPerWarp is how many threads one warp has in the machine model; a block
// of a program with warps=w has 32·w threads.
const LanesPerWarp = 32

// MostBlocks is how many blocks a grid has at most along a dimension: 0, 1 or 2
// (CUDA C++ programming guide, technical specifications).
func MostBlocks(dimension int) int {
	if dimension == 0 {
		return 1<<31 - 1
	}
	return 65535
}

// Program is what one thread block runs, launched over a grid of blocks.
type Program struct {
	Name   string
	Grid   []Expr // blocks per dimension, 1 to 3 expressions of scalar parameters
	Params []*Var // pointers and scalars, in the order of launch arguments
	Warps  int    // warps per block, 1 to 32
	// Cluster is how many blocks along each dimension of the grid run at the same time
	// and can use each other's shared memory; nil for one.
	Cluster []int
	// Resident is how many blocks a multiprocessor should hold at the same time, so that the
	// compiler gives threads registers for no more and no fewer; 0 leaves it to the compiler.
	// What a program computes does not depend on it.
	Resident int
	Body     *Block
	Pos      diag.Pos

	// Source is the text that positions refer to; "" for a tree made by hand.
	Source string
	// Bindings are the compile-time parameters the text was parsed with, by name.
	Bindings map[string]string
	// Comments are kept for printing; nil for a tree made by hand.
	Comments *Comments
}

// Threads is the number of threads of one block.
func (p *Program) Threads() int { return p.Warps * LanesPerWarp }

// Param finds a parameter by name, or nil.
func (p *Program) Param(name string) *Var {
	for _, v := range p.Params {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// Arg is one launch argument: Array for a pointer parameter (its element type
// is the pointer's), Int or Float for a scalar one.
type Arg struct {
	Array *array.Array
	Int   int64
	Float float64
}

// Space says where a tensor lives.
type Space uint8

// The spaces.
const (
	Register Space = iota
	Shared
	Global
	TensorMemory // of the tensor cores, from sm_100a on
)

func (s Space) String() string { return [...]string{"register", "shared", "global", "tmem"}[s] }

// Kind tells scalars, pointers and tensors apart.
type Kind uint8

// Kinds of types.
const (
	Scalar Kind = iota
	Pointer
	Tensor
)

// Type is the type of a variable. Only the fields of its kind are set.
type Type struct {
	Kind  Kind
	Elem  dtype.Type
	Space Space  // tensors
	Shape []Expr // tensors: extents per dimension; constants except in global
	// Layout says which thread holds which element, for register tensors, and
	// Shared where in memory each element lies, for shared ones. A type that needs
	// one and has none (HasLayout false) is not yet complete.
	Layout    layout.Layout
	Shared    layout.Shared
	HasLayout bool
	// Place says where the bits of a thread's slots lie in its words, for register
	// tensors that have one (HasPlace); else they are in slot order, low bits first.
	Place    bits.Placement
	HasPlace bool
}

// ScalarOf, PointerTo, RegisterOf, SharedOf and GlobalOf make types.
func ScalarOf(t dtype.Type) Type  { return Type{Kind: Scalar, Elem: t} }
func PointerTo(t dtype.Type) Type { return Type{Kind: Pointer, Elem: t} }

// RegisterOf is a register tensor type whose shape is the layout's.
func RegisterOf(t dtype.Type, l layout.Layout) Type {
	shape := make([]Expr, 0, l.Rank())
	for _, n := range l.Shape() {
		shape = append(shape, NewInt(int64(n)))
	}
	return Type{Kind: Tensor, Elem: t, Space: Register, Shape: shape, Layout: l, HasLayout: true}
}

// SharedOf is a shared tensor type whose shape is the layout's.
func SharedOf(t dtype.Type, l layout.Shared) Type {
	shape := make([]Expr, 0, l.Rank())
	for _, n := range l.Shape() {
		shape = append(shape, NewInt(int64(n)))
	}
	return Type{Kind: Tensor, Elem: t, Space: Shared, Shape: shape, Shared: l, HasLayout: true}
}

// GlobalOf is a global tensor type.
func GlobalOf(t dtype.Type, shape ...Expr) Type {
	return Type{Kind: Tensor, Elem: t, Space: Global, Shape: shape}
}

// IsRegister reports a tensor in registers.
func (t Type) IsRegister() bool { return t.Kind == Tensor && t.Space == Register }

// IsShared reports a tensor in the memory of the block, or a view of one.
func (t Type) IsShared() bool { return t.Kind == Tensor && t.Space == Shared }

// IsTensorMemory reports a tensor in the memory of the tensor cores, or a view of one.
func (t Type) IsTensorMemory() bool { return t.Kind == Tensor && t.Space == TensorMemory }

// IsGlobal reports a view of global memory.
func (t Type) IsGlobal() bool { return t.Kind == Tensor && t.Space == Global }

// Dims is the shape as constants; ok is false if an extent is not a constant.
func (t Type) Dims() (dims []int, ok bool) { return t.appendDims(make([]int, 0, someDims)) }

// someDims is the room of a list of as many dimensions as most tensors have: where a caller keeps it no longer
// than its own variables, it lies among them.
const someDims = 6

func (t *Type) appendDims(dims []int) ([]int, bool) {
	for _, e := range t.Shape {
		n, isConst := ConstInt(e)
		if !isConst {
			return nil, false
		}
		dims = append(dims, int(n))
	}
	return dims, true
}

// Equal compares types; shapes compare as printed expressions.
func (t Type) Equal(u Type) bool {
	if t.Kind != u.Kind || t.Elem != u.Elem || t.Space != u.Space || t.HasLayout != u.HasLayout || t.HasPlace != u.HasPlace || len(t.Shape) != len(u.Shape) {
		return false
	}
	for i := range t.Shape {
		if t.Shape[i].String() != u.Shape[i].String() {
			return false
		}
	}
	return (!t.HasLayout || t.Layout.Equal(u.Layout) && t.Shared.Equal(u.Shared)) && (!t.HasPlace || t.Place.Equal(u.Place))
}

// BitsPerThread is how many bits of a register tensor one thread holds.
func (t Type) BitsPerThread() int { return t.Layout.Slots() * t.Elem.Bits() }

// BitOf is where bit b of a slot lies in the words of the thread.
func (t Type) BitOf(slot, b int) int {
	if t.HasPlace {
		return t.Place.At(slot, b)
	}
	return slot*t.Elem.Bits() + b
}

// Var is a named variable. Two statements that assign the same *Var assign the
// same variable; its type never changes.
type Var struct {
	Name  string
	Type  Type
	Param bool // a parameter of the program: never assigned
	Pos   diag.Pos
}

// Block is a list of statements with its own scope.
type Block struct{ Stmts []Stmt }

// Stmt is one statement: *Instr, *Let, *For, *While, *If, *Break, *Continue,
// *Return, *Assume, *Group.
type Stmt interface {
	Position() diag.Pos
	stmt()
}

// Instr applies an op of the table.
type Instr struct {
	Op      *Op
	Out     []*Var
	In      []Operand
	Attrs   []Attr     // present attributes, in the order of the row
	Pos     diag.Pos   // of the op's name
	TypePos []diag.Pos // where each result's type is written; zero where it is not
}

// Operand is one argument: a tensor or pointer variable is a *Ref.
type Operand struct {
	Expr Expr
	Pos  diag.Pos
}

// Var is the tensor, pointer or scalar variable that the operand names, or nil.
func (o Operand) Var() *Var {
	if r, ok := o.Expr.(*Ref); ok {
		return r.Var
	}
	return nil
}

// Attr is a named attribute: Exprs for lists, Exprs[0] for single expressions,
// Number for a constant of any element type, Word for a word.
type Attr struct {
	Name   string
	Exprs  []Expr
	Number float64
	Word   string
	Pos    diag.Pos
}

// Let assigns a scalar variable: x = e.
type Let struct {
	Var   *Var
	Value Expr
	Pos   diag.Pos
}

// For runs Body for Var = From, From+Step, … while Var < To (or > To for a
// negative constant step). Unroll is 0 for the compiler's choice, 1 for rolled,
// n for n copies, -1 for all.
type For struct {
	Var      *Var
	From, To Expr
	Step     Expr // nil means 1; otherwise a constant other than 0
	Unroll   int
	Body     *Block
	Pos      diag.Pos
}

// While runs Body as long as Cond holds.
type While struct {
	Cond Expr
	Body *Block
	Pos  diag.Pos
}

// If runs Then or Else (which may be nil).
type If struct {
	Cond       Expr
	Then, Else *Block
	Pos        diag.Pos
}

func (*Instr) stmt() {}
func (*Let) stmt()   {}
func (*For) stmt()   {}
func (*While) stmt() {}
func (*If) stmt()    {}

// Position is where the statement is written.
func (s *Instr) Position() diag.Pos { return s.Pos }

// Position is where the statement is written.
func (s *Let) Position() diag.Pos { return s.Pos }

// Position is where the statement is written.
func (s *For) Position() diag.Pos { return s.Pos }

// Position is where the statement is written.
func (s *While) Position() diag.Pos { return s.Pos }

// Position is where the statement is written.
func (s *If) Position() diag.Pos { return s.Pos }

// Attr finds a present attribute by name, or nil.
func (s *Instr) Attr(name string) *Attr {
	if i := slices.IndexFunc(s.Attrs, func(a Attr) bool { return a.Name == name }); i >= 0 {
		return &s.Attrs[i]
	}
	return nil
}

// Dims is the value of a dims attribute: which dimension of a global tensor
// each dimension of the tile lies along. Left out, the tile lies along the last
// ones. rank is the tensor's, tile the register tile's.
func (s *Instr) Dims(rank, tile int) []int { return s.appendDims(make([]int, 0, someDims), rank, tile) }

func (s *Instr) appendDims(dims []int, rank, tile int) []int {
	if a := s.Attr("dims"); a != nil {
		for _, e := range a.Exprs {
			n, _ := ConstInt(e)
			dims = append(dims, int(n))
		}
		return dims
	}
	for d := rank - tile; d < rank; d++ {
		dims = append(dims, d)
	}
	return dims
}

// Walk calls f for each statement of the block in program order, outer before
// inner; if f returns false the statement's inner blocks are skipped.
func (b *Block) Walk(f func(Stmt) bool) {
	if b == nil {
		return
	}
	for _, s := range b.Stmts {
		if !f(s) {
			continue
		}
		for _, inner := range Blocks(s) {
			inner.Walk(f)
		}
	}
}

// Blocks are the inner blocks of a statement, in order.
func Blocks(s Stmt) []*Block {
	switch s := s.(type) {
	case *For:
		return []*Block{s.Body}
	case *While:
		return []*Block{s.Body}
	case *If:
		if s.Else != nil {
			return []*Block{s.Then, s.Else}
		}
		return []*Block{s.Then}
	case *Group:
		return []*Block{s.Body}
	}
	return nil
}
