package code

import (
	"fmt"
	"strings"
)

// Flops is how many floating-point operations an instruction of the row is: of a
// matrix instruction in the whole warp, each product and each sum one; of others in
// one lane. Products of integers in a matrix instruction count alike. Comparisons,
// conversions and moves are none.
func (r *Row) Flops() int {
	if r.Class == Matrix {
		var m, n, k int
		for part := range strings.SplitSeq(r.Name, ".") {
			if c, _ := fmt.Sscanf(part, "m%dn%dk%d", &m, &n, &k); c == 3 {
				return 2 * m * n * k
			}
		}
		return 0
	}
	op, rest, _ := strings.Cut(r.Name, ".")
	n := map[string]int{"add": 1, "sub": 1, "mul": 1, "fma": 2, "div": 1, "sqrt": 1, "rsqrt": 1, "rcp": 1, "ex2": 1, "lg2": 1, "sin": 1, "cos": 1, "tanh": 1}[op]
	at := strings.LastIndexByte(rest, '.')
	switch elem := rest[at+1:]; {
	case strings.HasSuffix(elem, "x2") && strings.Contains(elem, "f16"):
		return 2 * n
	case elem == "f16" || elem == "bf16" || elem == "f32" || elem == "f64":
		return n
	}
	return 0
}
