package eval

import (
	"fmt"
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

const reducers = `sum { p0 = f32[] parameter(0)
 p1 = f32[] parameter(1)
 ROOT r = f32[] add(p0, p1)
}
argmax { v0 = f32[] parameter(0)
 i0 = s32[] parameter(1)
 v1 = f32[] parameter(2)
 i1 = s32[] parameter(3)
 ge = pred[] compare(v0, v1), direction=GE
 v = f32[] select(ge, v0, v1)
 i = s32[] select(ge, i0, i1)
 ROOT t = (f32[], s32[]) tuple(v, i)
}
`

// TestOperations: the body of a computation without parameters, and its value.
func TestOperations(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"ROOT r = s32[2,3] iota(), iota_dimension=1", "[0 1 2 0 1 2]"},
		{"a = s32[2,3] iota(), iota_dimension=1\n ROOT r = s32[3,2] transpose(a), dimensions={1,0}", "[0 0 1 1 2 2]"},
		{"a = s32[3] iota(), iota_dimension=0\n ROOT r = s32[2,3] broadcast(a), dimensions={1}", "[0 1 2 0 1 2]"},
		{"a = s32[6] iota(), iota_dimension=0\n ROOT r = s32[2] slice(a), slice={[1:5:3]}", "[1 4]"},
		{"a = s32[3] iota(), iota_dimension=0\n z = s32[] constant(9)\n ROOT r = s32[7] pad(a, z), padding=1_1_1", "[9 0 9 1 9 2 9]"},
		{"a = s32[3] iota(), iota_dimension=0\n z = s32[] constant(9)\n ROOT r = s32[2] pad(a, z), padding=-1_0", "[1 2]"},
		{"a = s32[3] iota(), iota_dimension=0\n ROOT r = s32[3] reverse(a), dimensions={0}", "[2 1 0]"},
		{"a = s32[5] iota(), iota_dimension=0\n s = s32[] constant(9)\n ROOT r = s32[2] dynamic-slice(a, s), dynamic_slice_sizes={2}", "[3 4]"},
		{"a = s32[5] iota(), iota_dimension=0\n s = u32[] constant(4294967295)\n ROOT r = s32[2] dynamic-slice(a, s), dynamic_slice_sizes={2}", "[3 4]"},
		{"a = s32[5] iota(), iota_dimension=0\n s = s32[] constant(-3)\n u = s32[2] constant({7, 8})\n ROOT r = s32[5] dynamic-update-slice(a, u, s)", "[7 8 2 3 4]"},
		{"a = s32[2] iota(), iota_dimension=0\n ROOT r = s32[4] concatenate(a, a), dimensions={0}", "[0 1 0 1]"},
		{"a = f32[4] iota(), iota_dimension=0\n z = f32[] constant(10)\n ROOT r = f32[] reduce(a, z), dimensions={0}, to_apply=sum", "[16]"},
		{"a = f32[2,2] constant({{1, 2}, {3, 4}})\n z = f32[] constant(0)\n ROOT r = f32[2] reduce(a, z), dimensions={0}, to_apply=sum", "[4 6]"},
		{"a = f32[4] constant({3, 9, 2, 9})\n i = s32[4] iota(), iota_dimension=0\n z = f32[] constant(-inf)\n n = s32[] constant(-1)\n r = (f32[], s32[]) reduce(a, i, z, n), dimensions={0}, to_apply=argmax\n ROOT g = s32[] get-tuple-element(r), index=1", "[1]"},
		{"a = f32[4] iota(), iota_dimension=0\n z = f32[] constant(0)\n ROOT r = f32[4] reduce-window(a, z), window={size=3 pad=1_1}, to_apply=sum", "[1 3 6 5]"},
		{"a = f32[3] constant({1, 2, 4})\n z = f32[] constant(0)\n ROOT r = f32[2] reduce-window(a, z), window={size=2 stride=2 lhs_dilate=2}, to_apply=sum", "[1 2]"},
		{"a = s32[3,2] constant({{1, 2}, {3, 4}, {5, 6}})\n i = s32[2,1] constant({{2}, {9}})\n ROOT r = s32[2,1,2] gather(a, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}", "[5 6 5 6]"},
		{"a = s32[3,2] constant({{1, 2}, {3, 4}, {5, 6}})\n i = s32[2] constant({0, 1})\n ROOT r = s32[2,2] gather(a, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}", "[1 2 3 4]"},
		{"a = f32[4] constant({1, 2, 3, 4})\n i = s32[3,1] constant({{1}, {1}, {4}})\n u = f32[3] constant({10, 20, 30})\n ROOT r = f32[4] scatter(a, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum", "[1 32 3 4]"},
		{"a = f32[2,2] constant({{1, 2}, {3, 4}})\n b = f32[2,2] constant({{5, 6}, {7, 8}})\n ROOT r = f32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "[19 22 43 50]"},
		{"a = s32[2,3] iota(), iota_dimension=1\n ROOT r = s32[3,2]{0,1} bitcast(a)", "[0 0 1 1 2 2]"},
		{"a = f32[3] constant({nan, 300, -2.7})\n ROOT r = s8[3] convert(a)", "[0 127 -2]"},
		{"a = s32[3] constant({300, -1, 128})\n ROOT r = s8[3] convert(a)", "[44 -1 -128]"},
		{"a = s32[2] constant({7, -7})\n z = s32[2] constant({0, 2})\n ROOT r = s32[2] divide(a, z)", "[-1 -3]"},
		{"a = s32[2] constant({7, -7})\n z = s32[2] constant({0, 2})\n ROOT r = s32[2] remainder(a, z)", "[7 -1]"},
		{"a = f32[2] constant({nan, 1})\n b = f32[2] constant({1, 2})\n m = f32[2] maximum(a, b)\n ROOT r = pred[2] compare(m, m), direction=NE", "[1 0]"},
		{"a = s32[2] constant({-8, 3})\n s = s32[2] constant({1, 40})\n ROOT r = s32[2] shift-right-logical(a, s)", "[2147483644 0]"},
		{"a = s8[2] constant({-1, 16})\n ROOT r = s8[2] count-leading-zeros(a)", "[0 3]"},
		{"a = s32[2] constant({3, -1})\n b = s32[2] constant({4, -3})\n ROOT r = s32[2] power(a, b)", "[81 -1]"},
		{"a = pred[2] constant({true, false})\n b = pred[2] constant({true, true})\n ROOT r = pred[2] multiply(a, b)", "[1 0]"},
		{"l = f32[] constant(0)\n h = f32[] constant(1)\n a = f32[3] constant({-2, 0.5, 7})\n ROOT r = f32[3] clamp(l, a, h)", "[0 0.5 1]"},
		{"a = f32[2] constant({1.9, 448})\n ROOT r = f32[2] reduce-precision(a), exponent_bits=4, mantissa_bits=1", "[2 inf]"},
	} {
		m, err := hlo.Parse("t", reducers+"ENTRY e {\n "+c.body+"\n}")
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		out, err := Run(m, nil)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		var list []string
		for k := range out[0].Len() {
			if m.Entry.Root.Shape.Type == hlo.Pred {
				list = append(list, fmt.Sprint(out[0].Code(k)))
			} else {
				list = append(list, hlo.NumberText(m.Entry.Root.Shape.Outputs()[0].Type, out[0].Code(k)))
			}
		}
		if got := fmt.Sprint(list); got != c.want {
			t.Errorf("%s\n\tis %s, want %s", c.body, got, c.want)
		}
	}
}

// TestFunctions: the functions of one number are within two units of float64.
func TestFunctions(t *testing.T) {
	for _, op := range hlo.Ops() {
		f := real[op]
		if f == nil {
			continue
		}
		for _, ty := range []hlo.Type{hlo.F32, hlo.BF16, hlo.F8E4M3FN, hlo.F64} {
			e := ty.Elem()
			p := &hlo.Instruction{Op: hlo.Parameter, Shape: hlo.Array(ty)}
			g, err := Scalar(&hlo.Instruction{Op: op, Shape: hlo.Array(ty), Operands: []*hlo.Instruction{p}})
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range []float64{0.25, 0.5, 1, 1.5, 2, 3} {
				got, want := e.Decode(g([]uint64{e.Encode(x, false)})), f(x)
				unit := math.Max(math.Abs(want), 1e-30) * math.Ldexp(1, -e.Row().Man)
				if math.Abs(got-want) > 3*unit {
					t.Errorf("%s(%g) on %s is %g, want %g", op, x, ty, got, want)
				}
			}
		}
	}
}

// TestSameAsDtype: arithmetic is that of vm/dtype, code by code.
func TestSameAsDtype(t *testing.T) {
	for _, ty := range []hlo.Type{hlo.S8, hlo.U4, hlo.F8E5M2, hlo.F16} {
		p := &hlo.Instruction{Op: hlo.Parameter, Shape: hlo.Array(ty)}
		g, err := Scalar(&hlo.Instruction{Op: hlo.Multiply, Shape: hlo.Array(ty), Operands: []*hlo.Instruction{p, p}})
		if err != nil {
			t.Fatal(err)
		}
		for a := uint64(0); a < 16; a++ {
			for b := uint64(0); b < 16; b++ {
				if got, want := g([]uint64{a, b}), dtype.Mul(ty.Elem(), a, b); got != want {
					t.Errorf("%s: %d·%d is %d, want %d", ty, a, b, got, want)
				}
			}
		}
	}
}

func TestLimits(t *testing.T) {
	m, err := hlo.Parse("t", reducers+"ENTRY e {\n z = f32[] constant(0)\n b = f32[100000,100000] broadcast(z), dimensions={}\n ROOT r = f32[] reduce(b, z), dimensions={0,1}, to_apply=sum\n}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(m, nil); err == nil {
		t.Error("ten billion elements are computed")
	}
	m, err = hlo.Parse("t", "ENTRY e {\n p = f32[4] parameter(0)\n ROOT r = f32[4] negate(p)\n}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(m, []*array.Array{array.New(dtype.F32, 5)}); err == nil {
		t.Error("an argument of another size is taken")
	}
}
