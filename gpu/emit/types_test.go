package emit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
)

// types are those that kernels compute with.
var types = []hlo.Type{hlo.Pred, hlo.S4, hlo.S8, hlo.S16, hlo.S32, hlo.S64, hlo.U4, hlo.U8, hlo.U16, hlo.U32, hlo.U64,
	hlo.F8E4M3FN, hlo.F8E5M2, hlo.F16, hlo.BF16, hlo.F32, hlo.F64}

// edges are all codes of small types, and those of others where something changes.
func edges(t hlo.Type, n int, seed uint64) *array.Array {
	r := rand.New(rand.NewPCG(seed, 3))
	e := t.Elem()
	a := array.New(e, n)
	var list []uint64
	if t.IsFloat() {
		for _, v := range []float64{0, 1, 1.5, 447, 448, 456, 463.9, 464, 464.1, 480, 57344, 61439, 61440, 65504, 65519, 65520, 3.4e38, 1e308, 1e-8, 1e-40, 127.5, 255.5, 32767.5, 2147483647, 2147483648, 4294967296, 9.3e18, 1.9e19, math.Inf(1)} {
			list = append(list, e.Encode(v, false), e.Encode(-v, false))
		}
		list = append(list, e.Encode(math.NaN(), false))
	} else {
		for i := range min(63, t.Bits()) {
			list = append(list, 1<<i, 1<<i-1, 1<<i+1, -(1 << i))
		}
	}
	mask := uint64(math.MaxUint64)
	if t.Bits() < 64 {
		mask = 1<<t.Bits() - 1
	}
	if t == hlo.Pred {
		mask = 1
	}
	for k := range n {
		c := r.Uint64()
		switch {
		case t.Bits() <= 8 && n >= 256:
			c = uint64(k)
		case k < len(list):
			c = list[k]
		}
		a.SetCode(k, c&mask)
	}
	return a
}

func run(text string, args ...*array.Array) error {
	m, err := hlo.Parse("test", "HloModule m\n"+text)
	if err != nil {
		return err
	}
	p, err := Compile(m, Options{Device: tiny})
	if err != nil {
		return err
	}
	want, err := eval.Run(m, args)
	if err != nil {
		return err
	}
	got, err := p.Simulate(context.Background(), args)
	if err != nil {
		return err
	}
	for i := range want {
		for k := range want[i].Len() {
			if g, w := got[i].Code(k), want[i].Code(k); g != w {
				from := ""
				for _, a := range args {
					from += fmt.Sprintf(" %#x", a.Code(k%a.Len()))
				}
				return fmt.Errorf("element %d of%s is %#x, not %#x", k, from, g, w)
			}
		}
	}
	return nil
}

// TestConversions converts every type to every other.
func TestConversions(t *testing.T) {
	for i, from := range types {
		for j, to := range types {
			text := fmt.Sprintf("ENTRY e {\n x = %s[512] parameter(0)\n ROOT r = %s[512] convert(x)\n}\n", from, to)
			if err := run(text, edges(from, 512, uint64(i*32+j))); err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
	}
}

// TestArithmetic applies operations to all types that have them.
func TestArithmetic(t *testing.T) {
	for i, typ := range types {
		unary, binary := []string{"not", "popcnt", "count-leading-zeros"}, []string{"add", "multiply", "maximum", "minimum", "and", "or", "xor"}
		switch {
		case typ.IsFloat():
			unary = []string{"negate", "abs", "sign", "floor", "ceil", "round-nearest-even", "sqrt", "is-finite"}
			binary = []string{"add", "subtract", "multiply", "divide", "maximum", "minimum"}
		case typ == hlo.Pred:
			unary = unary[:1]
		default:
			unary = append(unary, "negate")
			binary = append(binary, "subtract", "divide", "remainder", "shift-left", "shift-right-logical", "shift-right-arithmetic", "power")
			if typ.Signed() {
				unary = append(unary, "abs", "sign")
			}
		}
		x, y := edges(typ, 512, uint64(i)), edges(typ, 512, uint64(i)+99)
		if typ.Bits() <= 8 { // other pairs than equal ones
			for k := range 512 {
				y.SetCode(k, y.Code((k*77+k/256*13+5)%512))
			}
		}
		for _, op := range unary {
			out := typ
			if op == "is-finite" {
				out = hlo.Pred
			}
			if err := run(fmt.Sprintf("ENTRY e {\n x = %s[512] parameter(0)\n ROOT r = %s[512] %s(x)\n}\n", typ, out, op), x); err != nil {
				t.Errorf("%s of %s: %v", op, typ, err)
			}
		}
		for _, op := range binary {
			if err := run(fmt.Sprintf("ENTRY e {\n x = %[1]s[512] parameter(0)\n y = %[1]s[512] parameter(1)\n ROOT r = %[1]s[512] %[2]s(x, y)\n}\n", typ, op), x, y); err != nil {
				t.Errorf("%s of %s: %v", op, typ, err)
			}
		}
		for _, how := range []string{"EQ", "NE", "LT", "LE", "GT", "GE"} {
			if err := run(fmt.Sprintf("ENTRY e {\n x = %[1]s[512] parameter(0)\n y = %[1]s[512] parameter(1)\n ROOT r = pred[512] compare(x, y), direction=%[2]s\n}\n", typ, how), x, y); err != nil {
				t.Errorf("%s of %s: %v", how, typ, err)
			}
		}
	}
}
