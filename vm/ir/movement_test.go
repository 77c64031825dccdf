package ir_test

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/ir"
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
