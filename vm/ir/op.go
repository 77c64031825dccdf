package ir

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Op is one row of the instruction table: everything about an instruction that
// is not its meaning (vm/interp) or its code (gpu/lower).
type Op struct {
	Name    string
	Aliases []string // other names that parse, and print as Name
	Family  string   // groups rows in the manual and files in interp and lower
	Doc     string   // what it is for, one paragraph
	In      []Port
	Out     []Port
	Attrs   []AttrSpec
	Effects Effects
	Class   Class
	Rules   []Rule // append-only; the number is the place, C1 first
	Since   string
	Source  string
	Example string // one line of program text
}

// Port is an operand or a result.
type Port struct {
	Name     string
	Doc      string
	Accept   Accept
	Optional bool // only trailing operands
}

// Accept is a set of operand kinds.
type Accept uint8

// Kinds of operands.
const (
	AcceptScalar Accept = 1 << iota
	AcceptPointer
	AcceptRegister
	AcceptGlobal
	AcceptShared
	AcceptTensorMemory
)

var acceptNames = []string{"scalar", "pointer", "register tensor", "global tensor", "shared tensor", "tensor in tensor memory"}

func (a Accept) String() string {
	var names []string
	for i, n := range acceptNames {
		if a&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, " or ")
}

// acceptOf is the kind of a variable's type as a set of one.
func acceptOf(t Type) Accept {
	switch {
	case t.Kind == Scalar:
		return AcceptScalar
	case t.Kind == Pointer:
		return AcceptPointer
	case t.Space == Register:
		return AcceptRegister
	case t.Space == Global:
		return AcceptGlobal
	case t.Space == TensorMemory:
		return AcceptTensorMemory
	}
	return AcceptShared
}

// AttrKind says what value an attribute takes.
type AttrKind uint8

// Kinds of attribute values.
const (
	AttrExprs  AttrKind = iota // a list of scalar expressions: [bi*16, k]
	AttrInts                   // a list of integer constants: [2]
	AttrNumber                 // one numeric constant: 0, -1.5
	AttrWord                   // one of the words of the row: stream
	AttrText                   // text in quotes: "k = {}"; it is the attribute's Word
)

func (k AttrKind) String() string {
	return [...]string{"list of expressions", "list of integers", "number", "word", "text"}[k]
}

// AttrSpec is an attribute that an op takes.
type AttrSpec struct {
	Name     string
	Kind     AttrKind
	Doc      string
	Required bool
	Words    []string // what an AttrWord may be
	Alias    string   // another name that is read, or ""
}

// Effects say what an instruction does beyond computing its results.
type Effects uint8

// Effects of instructions.
const (
	ReadsGlobal Effects = 1 << iota
	WritesGlobal
	Synchronizes // waits for, or lets go on, other threads or launches
	ReadsShared
	WritesShared
	Async // starts, groups or waits for copies that go on beside the threads
)

// Pure reports that an instruction with unused results can be dropped.
func (e Effects) Pure() bool { return e&(WritesGlobal|WritesShared|Synchronizes|Async) == 0 }

// Class groups ops that passes treat alike.
type Class uint8

// Classes of ops.
const (
	ClassOther       Class = iota
	ClassIndex             // results are scalars of the block
	ClassView              // results are other names for the same storage or bits
	ClassMemory            // moves a tile between spaces
	ClassElementwise       // result element = f(operand elements), with broadcast
	ClassMatrix            // uses a matrix instruction
)

func (c Class) String() string {
	return [...]string{"other", "index", "view", "memory", "element-wise", "matrix"}[c]
}

// Rule is a numbered condition on an instruction whose operands and attributes
// already have the right kinds. Check returns nil when it holds.
type Rule struct {
	Text  string // what must be, as a sentence of the manual
	Why   string // the reason, for `tilus-lab explain`
	Check func(p *Program, in *Instr) *Violation
}

// Violation says how a rule is broken: what is, where, and a way out.
type Violation struct {
	Msg  string
	Help string
	Pos  diag.Pos // zero: the op's name
}

// Code is the name of the op's i-th rule (from 0), like View.C2.
func (op *Op) Code(i int) string { return fmt.Sprintf("%s.C%d", op.Name, i+1) }

// OpByName finds a row by name or alias, or nil.
func OpByName(name string) *Op {
	for _, op := range table {
		if op.Name == name {
			return op
		}
		for _, a := range op.Aliases {
			if a == name {
				return op
			}
		}
	}
	return nil
}

// Ops is the instruction table, in the order of the manual.
func Ops() []*Op { return append([]*Op(nil), table...) }

// OpNames are the canonical names, in the order of the manual.
func OpNames() []string {
	names := make([]string, len(table))
	for i, op := range table {
		names[i] = op.Name
	}
	return names
}

// Spec finds an attribute of the row, or nil.
func (op *Op) Spec(name string) *AttrSpec {
	for i := range op.Attrs {
		if op.Attrs[i].Name == name || name != "" && op.Attrs[i].Alias == name {
			return &op.Attrs[i]
		}
	}
	return nil
}

// Signature is the op's shape in one line: "View(x: register tensor) -> register tensor".
func (op *Op) Signature() string {
	var parts []string
	for _, p := range op.In {
		s := p.Name + ": " + p.Accept.String()
		if p.Optional {
			s = "[" + s + "]"
		}
		parts = append(parts, s)
	}
	for _, a := range op.Attrs {
		s := a.Name + "=" + a.Kind.String()
		if !a.Required {
			s = "[" + s + "]"
		}
		parts = append(parts, s)
	}
	s := op.Name + "(" + strings.Join(parts, ", ") + ")"
	var outs []string
	for _, p := range op.Out {
		outs = append(outs, p.Accept.String())
	}
	if len(outs) > 0 {
		s += " -> " + strings.Join(outs, ", ")
	}
	return s
}
