package differential

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// elementProgram is a program around one element-wise instruction on a tile of an
// odd number of slots, with the last operand broadcast.
func elementProgram(op *ir.Op, operands []dtype.Type, result dtype.Type, approx bool) string {
	var params, body, args []string
	tile := "[32, 5] spatial(32, 1).local(1, 5)"
	for i, t := range operands {
		n := fmt.Sprintf("x%d", i)
		shape, of := tile, "[32, 5]"
		if i > 0 && i == len(operands)-1 {
			shape, of = "[1, 5] replicated(1, 1, num_workers=32).local(1, 5)", "[1, 5]"
		}
		params = append(params, fmt.Sprintf("%s: *%s", n, t))
		body = append(body, fmt.Sprintf("\tg%d = ViewGlobal(%s) : global %s%s", i, n, t, of),
			fmt.Sprintf("\tr%d = LoadGlobal(g%d, offset=[0, 0]) : register %s%s", i, i, t, shape))
		args = append(args, fmt.Sprintf("r%d", i))
	}
	if approx {
		args = append(args, "approx=true")
	}
	params = append(params, fmt.Sprintf("out: *%s", result))
	body = append(body, fmt.Sprintf("\tr = %s(%s) : register %s%s", op.Name, strings.Join(args, ", "), result, tile),
		fmt.Sprintf("\tg = ViewGlobal(out) : global %s[32, 5]", result), "\tStoreGlobal(g, r, offset=[0, 0])")
	return fmt.Sprintf("program p<1>(%s) warps=1 {\n%s\n}\n", strings.Join(params, ", "), strings.Join(body, "\n"))
}

// elementCodes are codes of a type of which many are special.
func elementCodes(rng *rand.Rand, t dtype.Type, n int, nonzero bool) []uint64 {
	codes := make([]uint64, n)
	for k := range codes {
		switch rng.Intn(5) {
		case 0:
			codes[k] = rng.Uint64() & t.Mask()
		case 1: // near the limits and zero
			codes[k] = (t.MaxCode() + uint64(rng.Intn(7)) - 3) & t.Mask()
		case 2:
			codes[k] = uint64(rng.Intn(80))
		default:
			codes[k] = t.Encode(rng.NormFloat64()*10, false)
		}
		if t == dtype.Bool {
			codes[k] = uint64(rng.Intn(3)) // 2 is true as well
		}
		if nonzero && codes[k] == 0 {
			codes[k] = 3
		}
		// The payload of an f64 NaN is the machine's affair.
		if t == dtype.F64 && t.IsNaN(codes[k]) {
			codes[k] = t.NaN()
		}
	}
	return codes
}

// TestElementwiseOpsAgree runs every op of the arithmetic family on every element
// type that its rules allow.
func TestElementwiseOpsAgree(t *testing.T) {
	ref := open(t, "interp")
	rng := rand.New(rand.NewSource(1))
	for _, op := range ir.Ops() {
		if op.Family != "arithmetic" {
			continue
		}
		tried := 0
		for _, elem := range dtype.All() {
			operands := make([]dtype.Type, len(op.In))
			for i := range operands {
				operands[i] = elem
			}
			result := elem
			switch {
			case op.Name == "Where":
				operands[0] = dtype.Bool
			case slices.Contains([]string{"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"}, op.Name):
				result = dtype.Bool
			}
			for _, approx := range []bool{false, true} {
				if approx && op.Spec("approx") == nil {
					continue
				}
				name := fmt.Sprintf("%s of %s, approx %v", op.Name, elem, approx)
				p, err := text.Parse("p.tile", elementProgram(op, operands, result, approx), nil)
				if err != nil {
					if !strings.Contains(err.Error(), op.Name+".C") {
						t.Errorf("%s: %v", name, err)
					}
					continue
				}
				tried++
				for range 3 {
					var args []ir.Arg
					for i, of := range operands {
						shape := []int{32, 5}
						if i > 0 && i == len(operands)-1 {
							shape = []int{1, 5}
						}
						whole := op.Name == "Mod" || op.Name == "Div" && elem.IsInt()
						args = append(args, ir.Arg{Array: array.FromCodes(of, shape, elementCodes(rng, of, shape[0]*shape[1], whole && i == 1))})
					}
					l := Launch{Name: name, Program: p, Args: append(args, ir.Arg{Array: array.New(result, 32, 5)})}
					want, err := ref.Run(context.Background(), p, l.Args)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					for _, noOpt := range []bool{false, true} {
						got, err := simulate(l, compile.Options{Arch: "sm_80", NoOpt: noOpt})
						if err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						if elem != dtype.F64 {
							same(t, l, name, got, want.Args)
							continue
						}
						for k, g := range got[len(got)-1].Array.Floats() {
							if w := want.Args[len(got)-1].Array.Floats()[k]; g != w && (g == g || w == w) {
								t.Errorf("%s: element %d is %v, want %v", name, k, g, w)
							}
						}
					}
				}
			}
		}
		if tried < 3 {
			t.Errorf("%s: only %d element types", op.Name, tried)
		}
	}
}
