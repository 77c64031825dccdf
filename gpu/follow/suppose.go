package follow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// supposed are sizes that scalars are tried with, and most the elements that an
// argument may have then.
var supposed = []int64{64, 128, 256, 32, 512, 1024}

const mostSupposed = 1 << 16

// Suppose makes up arguments for a program, one text for each parameter: a generator of
// vm/array, or a number. All whole numbers are one size, but for the first ones, batches
// and heads, where that is too large, and memory is as large as its views. ok is false
// where no such launch is right.
func Suppose(p *ir.Program) (texts []string, ok bool) {
	var numbers []*ir.Var
	for _, v := range p.Params {
		if v.Type.Kind != ir.Pointer && !v.Type.Elem.IsFloat() {
			numbers = append(numbers, v)
		}
	}
	for ones := range max(1, len(numbers)) {
		for _, n := range supposed {
			if texts, ok = suppose(p, n, numbers[:ones]); ok {
				return texts, true
			}
		}
	}
	return nil, false
}

// suppose gives the whole numbers one size, but for those that are 1.
func suppose(p *ir.Program, n int64, ones []*ir.Var) (texts []string, ok bool) {
	value := func(v *ir.Var) (int64, bool) {
		if slices.Contains(ones, v) {
			return 1, true
		}
		return n, true
	}
	shapes := map[*ir.Var]string{}
	small := true
	p.Body.Walk(func(s ir.Stmt) bool {
		in, is := s.(*ir.Instr)
		if !is || in.Op.Name != "ViewGlobal" || shapes[operand(in, 0)] != "" {
			return true
		}
		var dims []string
		size := int64(1)
		for _, e := range in.Out[0].Type.Shape {
			d, err := ir.EvalInt(e, value)
			if err != nil || d < 1 || size > mostSupposed/d {
				small = false
				return true
			}
			size *= d
			dims = append(dims, fmt.Sprint(d))
		}
		shapes[operand(in, 0)] = "[" + strings.Join(dims, ", ") + "]"
		return true
	})
	if !small {
		return nil, false
	}
	texts = nil
	var args []ir.Arg
	for i, v := range p.Params {
		x, _ := value(v)
		a := ir.Arg{Int: x, Float: 1}
		text := fmt.Sprint(x)
		switch {
		case v.Type.Kind == ir.Pointer:
			shape := shapes[v]
			if shape == "" {
				shape = "[1]"
			}
			kind := "randint"
			if v.Type.Elem.Bits() <= 8 {
				kind = "randcode"
			}
			text = fmt.Sprintf("%s:%s%s:seed=%d", kind, v.Type.Elem, shape, i+1)
		case v.Type.Elem.IsFloat():
			text = "1"
		}
		texts = append(texts, text)
		if a.Array = generate(text, v); v.Type.Kind == ir.Pointer && a.Array == nil {
			return nil, false
		}
		args = append(args, a)
	}
	if _, err := interp.CheckArgs(p, args); err == nil {
		return texts, true
	}
	return nil, false
}

func generate(text string, v *ir.Var) *array.Array {
	if v.Type.Kind != ir.Pointer {
		return nil
	}
	a, err := array.Generate(text)
	if err != nil {
		return nil
	}
	return a
}
