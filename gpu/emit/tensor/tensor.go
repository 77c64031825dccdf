// Package tensor is kernels of fusions as steps on tensors that are values, and the pass
// lower-tensors, which makes thread code of them.
package tensor

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/emit/lanes"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Tensor is what a kernel reads or writes: an argument in global memory, or a tile in
// shared memory.
type Tensor struct {
	Name   string
	Shape  hlo.Shape
	Shared bool
	Stride []int // elements from one index to the next; nil for those of the layout
	Buffer int   // of the program, for arguments
	Role   Role
}

// Role says what a kernel does with an argument.
type Role uint8

// The roles.
const (
	Read   Role = iota
	Write       // every element is written, none is read
	Update      // elements are read and written
)

func (t *Tensor) strides() []int {
	if t.Stride != nil {
		return t.Stride
	}
	return t.Shape.Strides()
}

// elements is how many the tensor takes in memory.
func (t *Tensor) elements() int {
	n := 1
	for i, s := range t.strides() {
		n += (t.Shape.Dims[i] - 1) * s
	}
	return n
}

// Op is a step at the tensor level. Tensors are values there: insert gives a new tensor,
// sync_threads gives the tiles that it orders, and memory begins where lower-tensors ends.
type Op string

// The steps.
const (
	PureCall      Op = "pure_call"       // elements of an instruction of the fusion
	Extract       Op = "extract"         // elements of a tensor
	Insert        Op = "insert"          // a tensor with elements replaced
	Alloc         Op = "allocate_shared" // a tile that the threads of a block share
	Sync          Op = "sync_threads"    // tiles after what all threads of the block have inserted
	Combine       Op = "combine"         // two values by the computation of a reduction
	Fold          Op = "fold"            // the elements of one value by that computation
	ShuffleReduce Op = "shuffle_reduce"  // a value over neighbouring threads of a warp
	AtomicRMW     Op = "atomic_rmw"      // a tensor with elements combined in one step
	Inject        Op = "inject"          // says that a value is that of an instruction
	Loop          Op = "loop"            // steps repeated, with carried values
	If            Op = "if"              // steps where constraints hold
	LastBlock     Op = "last_block"      // steps in the block that comes last among those of a ticket
	Zip           Op = "zip"             // element From of each of several values
	Start         Op = "start"           // a whole number of the fusion, clamped, as a variable of indices
	Let           Op = "let"             // a number made of thread, block and loop numbers, as a variable of indices
	Choose        Op = "choose"          // the first value where constraints hold, else the second
	Identity      Op = "identity"        // what changes nothing when it is combined
)

// Value is one or more neighbouring elements in a thread.
type Value struct {
	Name string
	Type hlo.Type
	N    int
}

func (v *Value) String() string { return "%" + v.Name }

func (v *Value) typed() string {
	if v.N == 1 {
		return fmt.Sprintf("%s: %s", v, v.Type)
	}
	return fmt.Sprintf("%s: vector<%dx%s>", v, v.N, v.Type)
}

// Step is one operation of a kernel.
type Step struct {
	Op    Op
	Out   []*Value
	In    []*Value
	Of    *hlo.Instruction    // pure_call, inject, identity; the reduction of combine, fold, shuffle_reduce and atomic_rmw
	On    *Tensor             // extract, insert, atomic_rmw, allocate_shared; the ticket of last_block
	Index []affine.Expr       // of the first element; with several, of element v
	Where []affine.Constraint // the step takes part where they hold; extract gives In elsewhere
	Open  []affine.Constraint // those of Where in whose absence anything will do, since nobody looks; elsewhere pure_call and extract give In
	From  int                 // shuffle_reduce: the farthest lane
	Var   string              // loop, start, let
	Trips int                 // loop; of last_block, the blocks of a ticket
	Args  []*Value            // loop: the carried values inside
	Yield []*Value            // loop: what they become
	Body  []*Step
}

// Func is a kernel at the tensor level.
type Func struct {
	Name    string
	Args    []*Tensor
	Threads int
	Blocks  [3]int
	Body    []*Step
	// Exponential is how exponentials of f32 are computed: as in vm/hlo/eval, or by the machine's
	// instruction where they are summed up, in which case the bits of the sum are open anyway.
	Exponential lanes.Exponential

	values int
	// Washed are the conversions to f32 whose NaN may have any bits.
	Washed map[*hlo.Instruction]bool
	// Once are the instructions that one other reads, and nothing else.
	Once map[*hlo.Instruction]bool
}

// Value is a new one of n elements.
func (f *Func) Value(t hlo.Type, n int) *Value {
	f.values++
	return &Value{fmt.Sprint(f.values), t, n}
}

// String is the kernel as text: tensors are numbered by what has been inserted so far.
func (f *Func) String() string {
	var b strings.Builder
	p := printer{&b, map[*Tensor]int{}}
	fmt.Fprintf(&b, "func @%s(", f.Name)
	for i, t := range f.Args {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%%%s: tensor<%s>", t.Name, t.Shape)
	}
	fmt.Fprintf(&b, ") threads %d blocks %d", f.Threads, f.Blocks[0])
	if f.Blocks[1] > 1 || f.Blocks[2] > 1 {
		fmt.Fprintf(&b, "x%dx%d", f.Blocks[1], f.Blocks[2])
	}
	b.WriteString(" {\n")
	p.steps(f.Body, "  ")
	b.WriteString("  return")
	first := true
	for _, t := range f.Args {
		if t.Role != Read {
			if !first {
				b.WriteByte(',')
			}
			first = false
			fmt.Fprintf(&b, " %s", p.tensor(t))
		}
	}
	b.WriteString("\n}\n")
	return b.String()
}

type printer struct {
	b       *strings.Builder
	version map[*Tensor]int
}

func (p printer) tensor(t *Tensor) string {
	if n := p.version[t]; n > 0 {
		return fmt.Sprintf("%%%s.%d", t.Name, n)
	}
	return "%" + t.Name
}

func (p printer) next(t *Tensor) string {
	p.version[t]++
	return p.tensor(t)
}

func list[T fmt.Stringer](v []T) string {
	var parts []string
	for _, x := range v {
		parts = append(parts, x.String())
	}
	return strings.Join(parts, ", ")
}

func (p printer) steps(steps []*Step, indent string) {
	for _, s := range steps {
		var outs []string
		for _, o := range s.Out {
			outs = append(outs, o.typed())
		}
		line := indent
		if len(outs) > 0 {
			line += strings.Join(outs, ", ") + " = "
		}
		at := "[" + list(s.Index) + "]"
		var when []string
		for _, c := range s.Where {
			when = append(when, fmt.Sprintf("%s in %s", c.Expr, c.Range))
		}
		cond := ""
		if len(when) > 0 {
			cond = " where " + strings.Join(when, ", ")
		}
		predicated := ""
		if cond != "" {
			predicated = "predicated_"
		}
		switch s.Op {
		case PureCall:
			line += fmt.Sprintf("pure_call @%s(%s)%s", s.Of.Name, list(s.Index), cond)
		case Extract:
			line += fmt.Sprintf("%sextract %s%s%s", predicated, p.tensor(s.On), at, cond)
			if len(s.In) > 0 {
				line += " else " + list(s.In)
			}
		case Insert:
			old := p.tensor(s.On)
			line += fmt.Sprintf("%s = %sinsert %s into %s%s%s", p.next(s.On), predicated, list(s.In), old, at, cond)
		case AtomicRMW:
			old := p.tensor(s.On)
			line += fmt.Sprintf("%s = atomic_rmw %s into %s%s by @%s%s", p.next(s.On), list(s.In), old, at, s.Of.Apply.Name, cond)
		case Alloc:
			line += fmt.Sprintf("%s = allocate_shared : tensor<%s> strides %d", p.tensor(s.On), s.On.Shape, s.On.strides())
		case Sync:
			line += "sync_threads"
		case Combine, Fold:
			line += fmt.Sprintf("%s @%s(%s)", s.Op, s.Of.Apply.Name, list(s.In))
		case ShuffleReduce:
			line += fmt.Sprintf("shuffle_reduce @%s(%s) to %d", s.Of.Apply.Name, list(s.In), s.From)
		case Inject:
			line += fmt.Sprintf("inject %s as %s", list(s.In), s.Of.Name)
		case Choose:
			line += fmt.Sprintf("choose %s%s", list(s.In), cond)
		case Identity:
			line += "identity of @" + s.Of.Apply.Name
		case Loop:
			line += fmt.Sprintf("loop %s in [0, %d]", s.Var, s.Trips-1)
			for i, a := range s.Args {
				line += fmt.Sprintf(" %s = %s", a, s.In[i])
			}
		case Zip:
			line += fmt.Sprintf("zip %d of %s", s.From, list(s.In))
		case Start:
			line += fmt.Sprintf("%s = start @%s(%s) clamped to [%d, %d]%s", s.Var, s.Of.Name, list(s.Index), s.From, s.Trips-1, cond)
		case Let:
			line += fmt.Sprintf("%s = let %s", s.Var, list(s.Index))
		case If:
			line += "if" + cond
		case LastBlock:
			line += fmt.Sprintf("last_block of %d on %s%s", s.Trips, p.tensor(s.On), at)
		}
		p.b.WriteString(line)
		if s.Body != nil {
			p.b.WriteString(" {\n")
			p.steps(s.Body, indent+"  ")
			if len(s.Yield) > 0 {
				p.b.WriteString(indent + "  yield " + list(s.Yield) + "\n")
			}
			p.b.WriteString(indent + "}")
		}
		p.b.WriteByte('\n')
	}
}

func upTo(n int) affine.Range { return affine.Range{Hi: int64(n) - 1} }
