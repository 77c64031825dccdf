package ir_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestMovementSaysHowItLies breaks the rule that elements stay in their threads and
// writes the result as the help says, which must then hold.
func TestMovementSaysHowItLies(t *testing.T) {
	for _, c := range []struct{ from, call, to string }{
		{"f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)", "Assign(x)", "f16[16, 8] local(2, 1).spatial(4, 8).local(2, 1)"},
		{"f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)", "Transpose(x)", "f16[8, 16] local(1, 4).spatial(8, 4)"},
		{"f16[2, 8, 8] local(2, 1, 1).spatial(1, 8, 4).local(1, 1, 2)", "Transpose(x, dims=[1, 2, 0])", "f16[8, 8, 2] spatial(4, 8, 1).local(2, 1, 2)"},
		{"f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)", "ReshapeRegister(x)", "f16[128] local(4).spatial(32)"},
		{"f16[16, 1, 8] local(2, 1, 1).spatial(8, 1, 4).local(1, 1, 2)", "Squeeze(x, dims=[1])", "f16[16, 8] local(4, 1).spatial(4, 8)"},
		{"f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)", "Unsqueeze(x, dims=[0, 2])", "f16[1, 16, 1, 8] local(1, 4, 1, 1).spatial(1, 4, 1, 8)"},
		{"f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)", "Repeat(x, repeats=[2, 3])", "f16[32, 24] spatial(8, 4).local(4, 6)"},
		{"f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)", "RepeatInterleave(x, repeats=[2, 3])", "f16[32, 24] local(4, 6).spatial(8, 4)"},
	} {
		program := func(result string) error {
			_, err := text.Parse("t.tile", "program p<1>() warps=1 {\n\tx = AllocateRegister(init=0) : register "+c.from+"\n\ty = "+c.call+" : "+result+"\n}\n", nil)
			return err
		}
		err := program("register " + c.to)
		if err == nil {
			t.Errorf("%s: no rule is broken", c.call)
			continue
		}
		_, help, _ := strings.Cut(err.Error(), "write the result as ")
		want, _, ok := strings.Cut(help, ", or ConvertLayout")
		if !ok {
			t.Errorf("%s: %v", c.call, err)
			continue
		}
		if err := program(want); err != nil {
			t.Errorf("%s: as the help says: %v", c.call, err)
		}
	}
	if op := ir.OpByName("ReshapeRegister"); op == nil || op.Name != "Reshape" {
		t.Error("ReshapeRegister is no name of Reshape")
	}
}

// TestMoveSlots looks up, for every move of the corpus that stays in its threads, the element
// in each slot of each thread: what [ir.MoveSlots] says must lie there.
func TestMoveSlots(t *testing.T) {
	seen := map[string]int{}
	for _, name := range corpus.Names() {
		p, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			continue
		}
		p.Body.Walk(func(s ir.Stmt) bool {
			in, ok := s.(*ir.Instr)
			if !ok || !slices.Contains([]string{"Assign", "Transpose", "ReshapeRegister", "Reshape", "Squeeze", "Unsqueeze", "Repeat", "RepeatInterleave", "SliceRegister", "SliceAssign"}, in.Op.Name) {
				return true
			}
			places, _ := ir.Places(in)
			for _, at := range places[:min(len(places), 4)] {
				slots, bad := ir.MoveSlots(in, at)
				if bad != nil {
					t.Errorf("%s: %s: %s", name, in.Pos, bad.Msg)
					continue
				}
				seen[in.Op.Name]++
				holds(t, in, slots, ir.MovedFrom(in, at))
			}
			return true
		})
	}
	for _, name := range []string{"Assign", "Transpose", "SliceRegister", "SliceAssign"} {
		if seen[name] == 0 {
			t.Errorf("no %s was looked at: %v", name, seen)
		}
	}
}

// holds checks the slots of one instruction against the elements that its result is of, which are
// numbered through all operands.
func holds(t *testing.T, in *ir.Instr, slots []ir.SlotOf, from []int32) {
	t.Helper()
	out := in.Out[0].Type.Layout
	number := func(l layout.Layout, thread, slot int) (n int) {
		for d, i := range l.Index(thread, slot) {
			n = n*l.Shape()[d] + i
		}
		return n
	}
	for thread := range out.Threads() {
		for s, o := range slots {
			first := 0
			for _, x := range in.In[:o.Operand] {
				first += x.Var().Type.Layout.Size()
			}
			l := in.In[o.Operand].Var().Type.Layout
			if got, want := first+number(l, thread, o.Slot), int(from[number(out, thread, s)]); got != want {
				t.Fatalf("%s: %s: slot %d of thread %d is said to be slot %d of operand %d, which holds element %d, not %d", in.Pos, in.Op.Name, s, thread, o.Slot, o.Operand, got, want)
			}
		}
	}
}
