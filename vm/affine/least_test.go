package affine

import (
	"math"
	"testing"
)

// TestLeast: terms of −2⁶³, which has no positive number of its size, are not taken for what every number divides.
func TestLeast(t *testing.T) {
	x, y := Var("x"), Var("y")
	least := x.MulConst(-math.MaxInt64).Sub(x)
	for _, c := range []struct {
		name string
		e    Expr
		want int64 // at x = y = 1
	}{
		{"a remainder", least.Mod(Const(3)), 1},
		{"a quotient", least.Add(y.MulConst(6)).AddConst(5).FloorDiv(Const(12)), -768614336404564650},
	} {
		got, err := c.e.Eval(map[string]int64{"x": 1, "y": 1})
		if c.e.Err() == nil && (err != nil || got != c.want) {
			t.Errorf("%s: %v is %d, want %d: %v", c.name, c.e, got, c.want, err)
		}
	}
	if d := least.Divisor(nil); d != 1<<62 {
		t.Errorf("%d divides %v", d, least)
	}
}
