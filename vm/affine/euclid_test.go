package affine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

var remainders = flag.Int("remainders", 3000, "maps with remainders to compare")

// drawn is an expression of a map as text and as what it means: "/" rounds down, ceildiv
// up, and a remainder is never negative.
type drawn struct {
	text  string
	value func(at []int64) (v int64, ok bool)
}

func draw(r *rand.Rand, vars, depth int) drawn {
	if depth == 0 || r.IntN(6) == 0 {
		if r.IntN(3) == 0 {
			c := int64(r.IntN(13) - 6)
			return drawn{fmt.Sprintf("(%d)", c), func([]int64) (int64, bool) { return c, true }}
		}
		i := r.IntN(vars)
		return drawn{fmt.Sprintf("d%d", i), func(at []int64) (int64, bool) { return at[i], true }}
	}
	a, b := draw(r, vars, depth-1), draw(r, vars, depth-1)
	op := []string{"+", "-", "*", "/", "mod", "mod", "ceildiv", "min", "max"}[r.IntN(9)]
	text := "(" + a.text + " " + op + " " + b.text + ")"
	if op == "min" || op == "max" {
		text = op + "(" + a.text + ", " + b.text + ")"
	}
	return drawn{text, func(at []int64) (int64, bool) {
		x, ok := a.value(at)
		y, ok2 := b.value(at)
		if !ok || !ok2 {
			return 0, false
		}
		switch op {
		case "+":
			return x + y, true
		case "-":
			return x - y, true
		case "*":
			return x * y, true
		case "min":
			return min(x, y), true
		case "max":
			return max(x, y), true
		}
		if y == 0 {
			return 0, false
		}
		size := max(y, -y)
		rest := (x%size + size) % size
		switch {
		case op == "mod":
			return rest, true
		case op == "/" && y > 0, op == "ceildiv" && rest == 0:
			return (x - rest) / y, true
		case op == "ceildiv" && y > 0:
			return (x-rest)/y + 1, true
		case op == "/" && rest > 0:
			return (x-rest)/y - 1, true
		}
		return (x - rest) / y, true
	}}
}

// TestNegativeDivisors: maps mean what their text says also where dividends and divisors,
// constant or not, are negative, before and after they are simplified and printed.
func TestNegativeDivisors(t *testing.T) {
	for seed := range *remainders {
		r := rand.New(rand.NewPCG(uint64(seed), 11))
		vars := 1 + r.IntN(3)
		var names, domain []string
		lo, hi := make([]int64, vars), make([]int64, vars)
		for i := range vars {
			lo[i] = int64(r.IntN(13) - 8)
			hi[i] = lo[i] + int64(r.IntN(8))
			names = append(names, fmt.Sprintf("d%d", i))
			domain = append(domain, fmt.Sprintf("d%d in [%d, %d]", i, lo[i], hi[i]))
		}
		e := draw(r, vars, 1+r.IntN(3))
		text := fmt.Sprintf("(%s) -> (%s), domain: %s", strings.Join(names, ", "), e.text, strings.Join(domain, ", "))
		m, err := ParseMap(text)
		if err != nil {
			if strings.Contains(err.Error(), "division by zero") || strings.Contains(err.Error(), "too many terms") {
				continue
			}
			t.Fatalf("%s: %v", text, err)
		}
		forms := map[string]Map{"read": m}
		forms["simplified"], _ = m.Simplify(false)
		forms["simplified as XLA does"], _ = m.SimplifyAsXLA(false)
		for _, name := range []string{"read", "simplified"} {
			again, err := ParseMap(forms[name].String())
			switch {
			case err == nil:
				forms[name+" again"] = again
			case !strings.Contains(err.Error(), "division by zero"):
				t.Fatalf("%s is printed as %s: %v", text, forms[name], err)
			}
		}
		bounds := m.bounds()
		within := m.Results[0].Range(bounds)
		at := append([]int64(nil), lo...)
		for {
			if want, ok := e.value(at); ok {
				for name, f := range forms {
					if got, err := f.Eval(at, nil); err != nil || got[0] != want {
						t.Fatalf("seed %d: %s\n%s: %s\nis %v at %v, not %d (%v)", seed, text, name, f, got, at, want, err)
					}
				}
				if !within.Contains(want) {
					t.Fatalf("seed %d: %s is %d at %v, outside %s", seed, text, want, at, within)
				}
			}
			i := vars - 1
			for ; i >= 0; i-- {
				if at[i]++; at[i] <= hi[i] {
					break
				}
				at[i] = lo[i]
			}
			if i < 0 {
				break
			}
		}
		if _, changed := forms["simplified"].Simplify(false); changed {
			t.Errorf("seed %d: %s\n%s is not simple yet", seed, text, forms["simplified"])
		}
	}
}
