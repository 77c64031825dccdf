package layoutviz

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/layoutviz/cuteprint"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// ErrView is wrapped by errors about the name of a view, not about the value.
var ErrView = errors.New("there is no such view")

// Views lists what [Value] can draw: the elements in their places, what each thread
// holds, the bits of a thread as bytes and as elements, the factors of a chain step
// by step, offsets in memory, a matrix over F2, a swizzle before and after, all
// operands of an instruction.
func Views() []string {
	return []string{"tensor", "threads", "reinterpret", "step by step", "operands", "memory", "matrix", "swizzle", "instruction"}
}

// UsualView is the view that shows a value best.
func UsualView(v notation.Value) string {
	switch v.What() {
	case "layout of memory":
		return "memory"
	case "linear map":
		return "matrix"
	case "swizzle":
		return "swizzle"
	case "instruction":
		return "instruction"
	}
	_, err := v.Registers()
	if _, noMatrix := v.Linear(); err != nil && noMatrix == nil {
		return "matrix"
	}
	return "tensor"
}

// Value draws a value of any notation in one of [Views], "" for the usual one;
// "factors" is "step by step". Only "reinterpret" reads the element type. The error says
// why the value has no such view.
func Value(v notation.Value, view string, t dtype.Type, o Options) (Picture, error) {
	switch view {
	case "":
		view = UsualView(v)
	case "factors":
		view = "step by step"
	}
	switch view {
	case "tensor", "threads", "reinterpret", "step by step":
		l, err := v.Registers()
		if err != nil {
			return Picture{}, err
		}
		return registers(l, view, t, o)
	case "operands":
		return ofOperation(v, o)
	case "memory":
		c, tile, err := v.CuTe()
		if err == nil && tile != nil {
			err = errors.New("a register layout has no offsets in memory; draw the view tensor")
		}
		if err != nil {
			return Picture{}, err
		}
		return CuteGrid(c, o)
	case "matrix":
		l, err := v.Linear()
		if err != nil {
			return Picture{}, err
		}
		return Matrix(l, o)
	case "swizzle":
		s, ok := v.Swizzle()
		if !ok {
			return Picture{}, fmt.Errorf("the %s has no swizzle", v.What())
		}
		reach := s.Base + max(s.Shift, -s.Shift)
		if reach > 16 {
			return Picture{}, fmt.Errorf("%s has rows of 2^%d units, too long to draw", s, reach)
		}
		return Swizzle(s, 1<<s.Bits, 1<<reach, o)
	case "instruction":
		a, _, ok := v.Instruction()
		if !ok {
			return Picture{}, fmt.Errorf("a %s is no instruction", v.What())
		}
		return Atom(a, o)
	}
	err := fmt.Errorf("%w as %s; there are %s", ErrView, view, strings.Join(Views(), ", "))
	if near := diag.Suggest(view, Views()); near != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return Picture{}, err
}

// ofOperation draws the operands and the result of the operation that a text calls;
// of a chain, its last factor and all before it.
func ofOperation(v notation.Value, o Options) (Picture, error) {
	name, args := cuteprint.Call(v.Text())
	if v.Form() == notation.CuTe && len(args) > 0 && cuteprint.Parameters(name) != nil {
		return CuteOperation(v.Text(), o)
	}
	l, err := v.Registers()
	if err != nil {
		return Picture{}, fmt.Errorf("the view operands is of an operation, such as logical_divide((8,8), <4:1,2:1>): %w", err)
	}
	if name == "divide" && len(args) == 2 {
		h, err := layout.Parse(args[0])
		if err != nil {
			return Picture{}, err
		}
		g, err := layout.Parse(args[1])
		if err != nil {
			return Picture{}, err
		}
		return Over(h, g, o)
	}
	factors, err := Factors(l)
	if err != nil {
		return Picture{}, err
	}
	if len(factors) < 2 {
		return Picture{}, fmt.Errorf("%s is one factor; the view operands is of a product, or of divide(h, g)", l)
	}
	f := factors[0]
	for _, g := range factors[1 : len(factors)-1] {
		f = f.Mul(g)
	}
	return Times(f, factors[len(factors)-1], o)
}

func registers(l layout.Layout, view string, t dtype.Type, o Options) (Picture, error) {
	switch view {
	case "tensor":
		return Tensor(l, o)
	case "threads":
		return Threads(l, o)
	case "step by step":
		factors, err := Factors(l)
		if err != nil {
			return Picture{}, err
		}
		return Chain(factors, o)
	}
	if !slices.Contains(dtype.All(), t) {
		return Picture{}, errors.New("the view reinterpret needs the type of the elements")
	}
	packed, err := layout.PackedView(t.Bits(), l)
	if err != nil {
		return Picture{}, err
	}
	return Reinterpret(dtype.U8, packed, t, l, o)
}
