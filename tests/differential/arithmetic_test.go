package differential

import (
	"context"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/need"
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

// elementLaunch is a launch of one element-wise op; approx where its result may
// differ on a machine.
type elementLaunch struct {
	Launch
	op     *ir.Op
	elem   dtype.Type
	approx bool
}

// elementLaunches are every op of the arithmetic family on every element type that
// its rules allow, with several inputs each.
func elementLaunches(t *testing.T, inputs int) []elementLaunch {
	t.Helper()
	rng := rand.New(rand.NewSource(1))
	var all []elementLaunch
	for _, op := range ir.Ops() {
		if op.Family != "arithmetic" {
			continue
		}
		types := map[dtype.Type]bool{}
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
				types[elem] = true
				for range inputs {
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
					all = append(all, elementLaunch{l, op, elem, approx})
				}
			}
		}
		if len(types) < 2 {
			t.Errorf("%s: only on %d element types", op.Name, len(types))
		}
	}
	return all
}

// sameValues is same, but that one NaN of f64 is as good as another.
func sameValues(t *testing.T, l elementLaunch, what string, got, want []ir.Arg) {
	t.Helper()
	if l.elem != dtype.F64 {
		same(t, l.Launch, what, got, want)
		return
	}
	g, w := got[len(got)-1].Array.Floats(), want[len(want)-1].Array.Floats()
	for k := range w {
		if g[k] != w[k] && (g[k] == g[k] || w[k] == w[k]) {
			t.Errorf("%s, %s: element %d is %v, want %v", l.Name, what, k, g[k], w[k])
		}
	}
}

func TestElementwiseOpsAgree(t *testing.T) {
	ref := open(t, "interp")
	for _, l := range elementLaunches(t, 3) {
		want, err := ref.Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		for _, noOpt := range []bool{false, true} {
			got, err := simulate(l.Launch, compile.Options{Arch: "sm_80", NoOpt: noOpt})
			if err != nil {
				t.Fatalf("%s: %v", l.Name, err)
			}
			sameValues(t, l, "sim", got, want.Args)
		}
	}
}

// TestElementwiseOpsAssemble gives the PTX of all of them to the real assembler.
func TestElementwiseOpsAssemble(t *testing.T) {
	var all strings.Builder
	for i, l := range elementLaunches(t, 1) {
		c, err := compile.Program(l.Program, compile.Options{Arch: "sm_80"})
		if err != nil {
			t.Fatal(err)
		}
		c.Func.Name = fmt.Sprintf("p%d", i)
		ptx, err := c.PTX()
		if err != nil {
			t.Fatal(err)
		}
		if _, body, ok := strings.Cut(ptx, ".visible"); ok && all.Len() > 0 {
			ptx = ".visible" + body
		}
		all.WriteString(ptx)
	}
	if _, err := need.Assemble(t, "sm_80", all.String()); err != nil {
		t.Error(err)
	}
}

// TestElementwiseOpsOnGPU compares a GPU with the interpreter, approximations
// within their bounds.
func TestElementwiseOpsOnGPU(t *testing.T) {
	gpu, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, howTo)
	defer gpu.Close()
	ref := open(t, "interp")
	for _, l := range elementLaunches(t, 3) {
		want, err := ref.Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		got, err := gpu.Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		if !l.approx {
			sameValues(t, l, "cuda", got.Args, want.Args)
			continue
		}
		x, g, w := l.Args[0].Array.Floats(), got.Args[1].Array.Floats(), want.Args[1].Array.Floats()
		// The bounds of the rows, and where results are rounded to 16 bits, one unit.
		rel := map[dtype.Type]float64{dtype.F32: 0x1p-20, dtype.F16: 0x1p-10, dtype.BF16: 0x1p-7}[l.elem]
		if l.op.Name == "Tanh" {
			rel += 0x1p-10
		}
		for k := range w {
			far := (l.op.Name == "Sin" || l.op.Name == "Cos") && !(math.Abs(x[k]) <= math.Pi)
			if d := math.Abs(g[k] - w[k]); g[k] != w[k] && (g[k] == g[k] || w[k] == w[k]) && !far && !(d <= rel*math.Abs(w[k])+0x1p-19) {
				t.Errorf("%s: at %v the GPU gives %v, want about %v", l.Name, x[k], g[k], w[k])
			}
		}
	}
}
