package debug

import (
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Machine runs a launch statement by statement. It is deterministic: after the same
// number of steps it stands at the same place with the same values.
type Machine interface {
	// Name is the device: "interp", "sim" or "sim:sm_80".
	Name() string
	Program() *ir.Program
	// Next is the statement of Program that the next Step runs, nil at the end.
	Next() ir.Stmt
	// BlockIndex is the block that runs it, [x, y, z].
	BlockIndex() [3]int
	// Threads are those of the block that run it.
	Threads() ir.Threads
	Steps() int64
	Done() bool
	// Step runs one statement (a for or while: its test). After an error the machine
	// must be restored before it runs again.
	Step() error
	// Variables are those that are set, in the order of their first assignment.
	Variables() []Variable
	// Int is the value of a set integer or bool.
	Int(v *ir.Var) (int64, bool)
	// Args are the launch's arguments in their present state.
	Args() []ir.Arg
	// Printed is what the program printed so far.
	Printed() string
	// Snapshot is a point to come back to, nil where the machine keeps none; it always
	// keeps the one in front of the first statement.
	Snapshot() any
	Restore(snapshot any)
}

// Variable is what a variable of the running block holds: Tile for register
// tensors, Int or Float for scalars.
type Variable struct {
	Var   *ir.Var
	Int   int64
	Float float64
	Tile  *array.Array // of the type's element type and shape
	// Held is the code of the element in a slot of a thread of the tensor, where
	// threads may hold copies that differ; nil where Tile says it all.
	Held func(thread, slot int) uint64
}

// Code is the code of the element that a thread of a register tensor has in a slot.
func (v Variable) Code(thread, slot int) uint64 {
	if v.Held != nil {
		return v.Held(thread, slot)
	}
	at := 0
	for d, i := range v.Var.Type.Layout.Index(thread, slot) {
		at = at*v.Tile.Shape[d] + i
	}
	return v.Tile.Code(at)
}

// interpreter is the interpreter as a Machine.
type interpreter struct{ *interp.Machine }

func (interpreter) Name() string { return "interp" }

func (m interpreter) Snapshot() any { return m.Machine.Snapshot() }

func (m interpreter) Restore(s any) { m.Machine.Restore(s.(*interp.Snapshot)) }

func (m interpreter) Variables() []Variable {
	var out []Variable
	for _, v := range m.Machine.Variables() {
		out = append(out, Variable{Var: v.Var, Int: v.Int, Float: v.Float, Tile: v.Tile})
	}
	return out
}
