package differential

import (
	"context"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// reducedLayouts spread dimensions over slots, lanes and warps in many ways.
var reducedLayouts = []struct {
	warps int
	text  string
}{
	{1, "local(2, 1).spatial(8, 4).local(1, 2)"},
	{1, "column_local(2, 2).spatial(8, 4).local(1, 2)"},
	{1, "local(2, 1).column_spatial(4, 8).local(2, 1)"},
	{1, "local(3, 1).spatial(4, 8).local(5, 1)"},
	{1, "spatial(32).local(5)"},
	{1, "spatial(1, 32).local(7, 1)"},
	{1, "local(3, 2).replicated(1, 1, num_workers=4).spatial(8, 1)"},
	{2, "spatial(64).local(3)"},
	{2, "spatial(4, 16).local(2, 1)"},
	{2, "column_spatial(16, 4).local(1, 3)"},
	{3, "spatial(3, 32)"},
	{3, "spatial(32, 3).local(2, 2)"},
	{3, "spatial(96)"},
	{4, "spatial(2, 1).local(3, 5).spatial(8, 8)"},
	{4, "spatial(2, 2, 2).local(1, 2, 3).spatial(4, 1, 4)"},
	{4, "local(40, 1).spatial(1, 128)"},
}

func reduceProgram(t *testing.T, op, attrs string, elem, result dtype.Type, warps int, l layout.Layout, dims []int, keep bool) (Launch, bool) {
	t.Helper()
	out := l
	if op != "Scan" {
		var err error
		if out, err = l.Reduce(dims, keep); err != nil {
			t.Fatal(err)
		}
	}
	list := func(x []int) string { return strings.ReplaceAll(fmt.Sprint(x), " ", ", ") }
	zeros := func(n int) []int { return make([]int, n) }
	shape := out.Shape()
	if len(shape) == 0 {
		return Launch{}, false
	}
	if keep {
		attrs += ", keepdims=true"
	}
	src := fmt.Sprintf("program p<1>(x: *%s, out: *%s) warps=%d {\n\tg = ViewGlobal(x) : global %s%s\n\th = ViewGlobal(out) : global %s%s\n\tr = LoadGlobal(g, offset=%s) : register %s%s %s\n\ts = %s(r%s, dim=%s) : register %s%s %s\n\tStoreGlobal(h, s, offset=%s)\n}\n",
		elem, result, warps, elem, list(l.Shape()), result, list(shape), list(zeros(l.Rank())), elem, list(l.Shape()), l, op, attrs, list(dims), result, list(shape), out, list(zeros(len(shape))))
	p, err := text.Parse("p.tile", src, nil)
	if err != nil {
		if !strings.Contains(err.Error(), op+".C2") {
			t.Fatalf("%v\n%s", err, src)
		}
		return Launch{}, false
	}
	return Launch{Name: fmt.Sprintf("%s%s of %s %s %v", op, attrs, elem, l, dims), Program: p, Args: []ir.Arg{{}, {Array: array.New(result, shape...)}}}, true
}

// TestReductionsAgree compares bit for bit, on numbers that make every order of
// additions another sum.
func TestReductionsAgree(t *testing.T) {
	ref := open(t, "interp")
	reductions(t, 1, func(l Launch, noOpt bool) {
		want, err := ref.Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		got, err := simulate(l, compile.Options{Arch: "sm_80", NoOpt: noOpt})
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		same(t, l, "sim", got, want.Args)
	})
}

// TestReductionsOnGPU compares some of them on a GPU.
func TestReductionsOnGPU(t *testing.T) {
	gpu, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, howTo)
	defer gpu.Close()
	ref := open(t, "interp")
	reductions(t, 6, func(l Launch, _ bool) {
		want, err := ref.Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		got, err := gpu.Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		same(t, l, "cuda", got.Args, want.Args)
	})
}

// reductions gives one of so many programs to check.
func reductions(t *testing.T, every int, check func(l Launch, noOpt bool)) {
	t.Helper()
	rng := rand.New(rand.NewSource(1))
	types := []dtype.Type{dtype.F32, dtype.F16, dtype.BF16, dtype.I32, dtype.U16, dtype.I16, dtype.I64, dtype.F64, dtype.Bool, dtype.U32}
	ran := 0
	run := func(l Launch, elem dtype.Type, shape []int) {
		t.Helper()
		n := 1
		for _, s := range shape {
			n *= s
		}
		codes := make([]uint64, n)
		special := rng.Intn(4) == 0 && elem != dtype.F64
		for k := range codes {
			if codes[k] = elem.Encode(rng.NormFloat64()*7, false); special || elem == dtype.Bool {
				codes[k] = elementCodes(rng, elem, 1, false)[0]
			}
		}
		l.Args[0] = ir.Arg{Array: array.FromCodes(elem, shape, codes)}
		check(l, rng.Intn(2) == 0)
		ran++
	}
	for _, c := range reducedLayouts {
		l, err := layout.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		var sets [][]int
		for d := range l.Rank() {
			sets = append(sets, []int{d})
		}
		if l.Rank() > 1 {
			sets = append(sets, []int{0, l.Rank() - 1})
		}
		for _, elem := range types {
			if testing.Short() && rng.Intn(4) > 0 || rng.Intn(every) > 0 {
				continue
			}
			for _, dims := range sets {
				for _, op := range []string{"sum", "prod", "max", "min", "any", "all"} {
					if launch, ok := reduceProgram(t, "Reduce", ", op="+op, elem, elem, c.warps, l, dims, l.Rank() == len(dims) || rng.Intn(2) == 0); ok {
						run(launch, elem, l.Shape())
					}
				}
				if len(dims) > 1 {
					continue
				}
				for _, op := range []string{"ArgMax", "ArgMin"} {
					if launch, ok := reduceProgram(t, op, "", elem, dtype.I32, c.warps, l, dims, l.Rank() == 1 || rng.Intn(2) == 0); ok {
						run(launch, elem, l.Shape())
					}
				}
				for _, op := range []string{"add", "mul", "max", "min", "and", "or", "xor"} {
					for _, exclusive := range []string{"", ", exclusive=true"} {
						if launch, ok := reduceProgram(t, "Scan", ", op="+op+exclusive, elem, elem, c.warps, l, dims, false); ok {
							run(launch, elem, l.Shape())
						}
					}
				}
			}
		}
	}
	t.Logf("%d programs", ran)
}
