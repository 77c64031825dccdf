package ir_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func binary(op string, x, y int64) ir.Expr {
	return &ir.Binary{Op: op, X: ir.NewInt(x), Y: ir.NewInt(y)}
}

var edges = []int64{math.MinInt64, math.MinInt64 + 1, -1 << 32, math.MinInt32, -17, -3, -2, -1, 0, 1, 2, 3, 16, 17, math.MaxInt32, 1 << 32, math.MaxInt64 - 1, math.MaxInt64}

// TestArithmeticIsExactOrAnError compares + - * / % with big integers; / and %
// are floor.
func TestArithmeticIsExactOrAnError(t *testing.T) {
	for _, x := range edges {
		for _, y := range edges {
			bx, by := big.NewInt(x), big.NewInt(y)
			for _, op := range []string{"+", "-", "*", "/", "%", "min", "max"} {
				want := new(big.Int)
				switch op {
				case "+":
					want.Add(bx, by)
				case "-":
					want.Sub(bx, by)
				case "*":
					want.Mul(bx, by)
				case "/", "%":
					if y == 0 {
						want = nil
						break
					}
					// x - m is a multiple of y, m being the remainder with y's sign.
					m := new(big.Int).Mod(bx, new(big.Int).Abs(by))
					if y < 0 && m.Sign() != 0 {
						m.Add(m, by)
					}
					if op == "%" {
						want = m
						if x == math.MinInt64 && y == -1 {
							want = nil // the quotient does not exist
						}
					} else {
						want.Quo(new(big.Int).Sub(bx, m), by)
					}
				case "min":
					want.SetInt64(min(x, y))
				case "max":
					want.SetInt64(max(x, y))
				}
				// Small literals are i32, so their results are too.
				small := ir.CheckRange(dtype.I32, x) && ir.CheckRange(dtype.I32, y)
				got, err := ir.EvalInt(binary(op, x, y), nil)
				switch {
				case want == nil || !want.IsInt64() || small && !ir.CheckRange(dtype.I32, want.Int64()):
					var ee *ir.EvalError
					if !errors.As(err, &ee) {
						t.Errorf("%d %s %d = %d, want an error", x, op, y, got)
					}
				case err != nil || got != want.Int64():
					t.Errorf("%d %s %d = %d, %v, want %s", x, op, y, got, err, want)
				}
			}
			for op, want := range map[string]bool{"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y} {
				if got, err := ir.EvalInt(binary(op, x, y), nil); err != nil || (got == 1) != want {
					t.Errorf("%d %s %d = %d, %v", x, op, y, got, err)
				}
			}
		}
	}
}

func TestEvalStopsEarly(t *testing.T) {
	broken := binary("/", 1, 0)
	for _, c := range []struct {
		e    ir.Expr
		want int64
		fail bool
	}{
		{&ir.Binary{Op: "&&", X: binary("<", 2, 1), Y: broken}, 0, false},
		{&ir.Binary{Op: "||", X: binary("<", 1, 2), Y: broken}, 1, false},
		{&ir.Binary{Op: "&&", X: binary("<", 1, 2), Y: broken}, 0, true},
		{&ir.Binary{Op: "||", X: binary("<", 2, 1), Y: broken}, 0, true},
		{&ir.Unary{Op: "-", X: ir.NewInt(math.MinInt64)}, 0, true},
		{&ir.Unary{Op: "-", X: ir.NewInt(math.MinInt32)}, 0, true},
		{&ir.Unary{Op: "-", X: ir.NewInt(1 << 40)}, -1 << 40, false},
		{&ir.Unary{Op: "!", X: binary("<", 2, 1)}, 1, false},
		{&ir.Float{Value: 1}, 0, true},
		{ir.NewRef(&ir.Var{Name: "n"}), 0, true},
	} {
		got, ok := ir.ConstInt(c.e)
		if ok == c.fail || ok && got != c.want {
			t.Errorf("%s = %d, %v", c.e, got, ok)
		}
	}
	n := &ir.Var{Name: "n", Type: ir.ScalarOf(dtype.I32)}
	got, err := ir.EvalInt(&ir.Binary{Op: "%", X: ir.NewRef(n), Y: ir.NewInt(4)}, func(v *ir.Var) (int64, bool) { return -1, v == n })
	if err != nil || got != 3 {
		t.Errorf("-1 %% 4 = %d, %v", got, err)
	}
}

func TestCheckRange(t *testing.T) {
	for _, c := range []struct {
		t    dtype.Type
		n    int64
		want bool
	}{
		{dtype.I32, math.MaxInt32, true}, {dtype.I32, math.MaxInt32 + 1, false}, {dtype.I32, math.MinInt32, true}, {dtype.I32, math.MinInt32 - 1, false},
		{dtype.U32, 0, true}, {dtype.U32, -1, false}, {dtype.U32, math.MaxUint32, true}, {dtype.U32, math.MaxUint32 + 1, false},
		{dtype.I64, math.MinInt64, true}, {dtype.I64, math.MaxInt64, true}, {dtype.U64, -1, false}, {dtype.U64, math.MaxInt64, true},
		{dtype.Bool, 1, true}, {dtype.Bool, 2, false}, {dtype.I6, 31, true}, {dtype.I6, 32, false}, {dtype.I6, -32, true},
	} {
		if got := ir.CheckRange(c.t, c.n); got != c.want {
			t.Errorf("CheckRange(%s, %d) = %v", c.t, c.n, got)
		}
	}
}
