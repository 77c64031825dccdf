package conform

import (
	"fmt"
	"strings"
	"testing"
)

// The bases of the fragments of Volta's wmma and of m16n8k16, written down from
// formulas and checked on all lanes and registers.
//
// Source: hardware notes, fragment maps as XOR bases (section A.3).
func TestF2Bases(t *testing.T) {
	for _, c := range []struct{ shape, fragment, lanes, registers string }{
		{"m16n16k16", "wmma16.A_row", "[[1,0],[2,0],[8,0],[0,0],[4,0]]", "[[0,1],[0,2],[0,4],[0,8]]"},
		{"m16n16k16", "wmma16.A_col", "[[0,1],[0,2],[8,0],[0,0],[4,0]]", "[[1,0],[2,0],[0,4],[0,8]]"},
		{"m16n16k16", "wmma16.B_col", "[[0,1],[0,2],[0,0],[0,8],[0,4]]", "[[1,0],[2,0],[4,0],[8,0]]"},
		{"m16n16k16", "wmma16.B_row", "[[1,0],[2,0],[0,0],[0,8],[0,4]]", "[[0,1],[0,2],[4,0],[8,0]]"},
		{"m16n16k16", "wmma16.C_f32", "[[1,0],[0,2],[8,0],[0,8],[4,0]]", "[[0,1],[2,0],[0,4]]"},
		{"m16n16k16", "wmma16.C_f16", "[[1,0],[2,0],[8,0],[0,8],[4,0]]", "[[0,1],[0,2],[0,4]]"},
		{"m16n8k16", "mma.m16n8k16.A", "[[0,2],[0,4],[1,0],[2,0],[4,0]]", "[[0,1],[8,0],[0,8]]"},
		{"m16n8k16", "mma.m16n8k16.B", "[[2,0],[4,0],[0,1],[0,2],[0,4]]", "[[1,0],[8,0]]"},
		{"m16n8k16", "mma.m16n8k16.C", "[[0,2],[0,4],[1,0],[2,0],[4,0]]", "[[0,1],[8,0]]"},
	} {
		input := fmt.Sprintf(`{"fragment": %q, "shape": %q}`, c.fragment, c.shape)
		expect := fmt.Sprintf(`{"lane_bits": %s, "reg_bits": %s, "zero_vector_means": "this lane bit only replicates"}`, c.lanes, c.registers)
		if _, err := f2Basis([]byte(input), []byte(expect)); err != nil {
			t.Errorf("%s: %v", c.fragment, err)
		}
		broken := strings.Replace(expect, "[[", "[[1,", 1)
		if _, err := f2Basis([]byte(input), []byte(broken)); err == nil {
			t.Errorf("%s: a wrong basis passes", c.fragment)
		}
		if _, err := f2Basis([]byte(input), []byte(strings.Replace(expect, "{", `{"more": 1, `, 1))); err == nil {
			t.Errorf("%s: an unknown key passes", c.fragment)
		}
	}
	for _, fragment := range []string{"wmma16.A", "wmma16", "wmma16.X_row", "mma.m16n8k16.E"} {
		if _, err := f2Basis([]byte(fmt.Sprintf(`{"fragment": %q, "shape": "m16n16k16"}`, fragment)), []byte("{}")); err == nil {
			t.Errorf("%s has an answer", fragment)
		}
	}
}
