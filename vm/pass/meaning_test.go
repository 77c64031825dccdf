package pass_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/pass"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// launches are small arguments for corpus programs: generator text for a
// pointer, an int for a scalar.
var launches = map[string][]any{
	"matmul_f16_i6":     {"randint:f16[16, 32]:seed=1", "randcode:u8[2, 2, 96]:seed=2", "zeros:f16[16, 16]", 16, 16, 32},
	"matmul_scaled":     {"randint:f16[16, 128]:seed=1", "randcode:u8[8, 2, 96]:seed=2", "randint:f16[2, 16]:seed=3", "zeros:f16[16, 16]", 16, 16, 128},
	"matmul_scaled_mul": {"randint:f16[16, 128]:seed=1", "randcode:u8[8, 2, 96]:seed=2", "randint:f16[2, 16]:seed=3", "zeros:f16[16, 16]", 16, 16, 128},
	"rearrange_i6":      {"randcode:i6[32, 16]:seed=2", "zeros:u8[2, 2, 96]", 32, 16},
	"vector_add":        {"randint:f32[300]:seed=1", "randint:f32[300]:seed=2", "zeros:f32[300]", 300},
	"control":           {"randint:f32[7, 64]:seed=1", "zeros:f32[7, 64]", 7},
	"store_u3":          {"randcode:u3[3, 37]:seed=1", "randcode:u3[3, 101]:seed=2", 3, 13},
}

func arguments(t *testing.T, list []any) []ir.Arg {
	var args []ir.Arg
	for _, x := range list {
		switch x := x.(type) {
		case string:
			a, err := array.Generate(x)
			if err != nil {
				t.Fatal(err)
			}
			args = append(args, ir.Arg{Array: a})
		case int:
			args = append(args, ir.Arg{Int: int64(x)})
		}
	}
	return args
}

func result(t *testing.T, p *ir.Program, list []any) []ir.Arg {
	t.Helper()
	m, err := interp.New(p, arguments(t, list))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return m.Args()
}

// TestPassesKeepTheMeaning compares the interpreter's results before and after
// each prefix of the list, bit for bit.
func TestPassesKeepTheMeaning(t *testing.T) {
	for name, list := range launches {
		p, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := result(t, p, list)
		q := ir.Clone(p)
		for _, ps := range pass.Passes() {
			ps.Run(q)
			for i, got := range result(t, q, list) {
				if got.Array != nil && !bytes.Equal(got.Array.Data, want[i].Array.Data) {
					t.Errorf("%s: after %s, argument %d differs\n%s", name, ps.Name, i, text.Format(q))
				}
			}
		}
	}
}

// TestScaledFormsAgree: with integer inputs and power-of-two scales both ways to
// apply group scales are exact, so they agree bit for bit.
func TestScaledFormsAgree(t *testing.T) {
	list := []any{"randint:f16[16, 128]:seed=1", "randcode:u8[8, 2, 96]:seed=2", "pow2:f16[2, 16]:seed=3", "zeros:f16[16, 16]", 16, 16, 128}
	var got [][]byte
	for _, name := range []string{"matmul_scaled", "matmul_scaled_mul"} {
		p, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, result(t, p, list)[3].Array.Data)
	}
	if !bytes.Equal(got[0], got[1]) || bytes.Count(got[0], []byte{0}) == len(got[0]) {
		t.Error("scaling the sum and scaling the weights differ, or give nothing")
	}
}

// TestRestoreUndoesRearrange runs the two programs one after the other.
func TestRestoreUndoesRearrange(t *testing.T) {
	p, err := text.Parse("rearrange", corpus.Program("rearrange_i6"), nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := text.Parse("restore", corpus.Program("restore_i6"), nil)
	if err != nil {
		t.Fatal(err)
	}
	args := result(t, p, []any{"randcode:i6[48, 24]:seed=7", "zeros:u8[3, 3, 96]", 48, 24})
	back := []ir.Arg{{Array: args[1].Array}, {Array: array.New(args[0].Array.Type, 48, 24)}, {Int: 48}, {Int: 24}}
	m, err := interp.New(q, back)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Args()[1].Array.Data, args[0].Array.Data) {
		t.Error("what was rearranged does not come back")
	}
}
