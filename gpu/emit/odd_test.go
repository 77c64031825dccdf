package emit

import (
	"fmt"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// TestTransposes turns tiles that fit and tiles that do not, with work before and after.
func TestTransposes(t *testing.T) {
	for i, c := range []struct {
		typ    string
		dims   []int
		perm   []int
		skewed bool
	}{
		{"f32", []int{64, 64}, []int{1, 0}, false}, {"f32", []int{96, 132}, []int{1, 0}, false}, {"f32", []int{128, 129}, []int{1, 0}, true},
		{"f32", []int{131, 150}, []int{1, 0}, true}, {"f32", []int{130, 128}, []int{1, 0}, false}, {"f32", []int{2, 129, 131}, []int{0, 2, 1}, true},
		{"f32", []int{130, 3, 133}, []int{2, 1, 0}, true}, {"s32", []int{133, 135}, []int{1, 0}, true}, {"bf16", []int{257, 259}, []int{1, 0}, true},
		{"bf16", []int{256, 260}, []int{1, 0}, false}, {"f16", []int{40, 33}, []int{1, 0}, false}, {"s8", []int{130, 70}, []int{1, 0}, false}, {"pred", []int{40, 48}, []int{1, 0}, false},
		{"f64", []int{33, 35}, []int{1, 0}, false}, {"u4", []int{34, 36}, []int{1, 0}, false}, {"f8e5m2", []int{64, 48}, []int{1, 0}, false},
	} {
		out := make([]int, len(c.dims))
		for k, p := range c.perm {
			out[k] = c.dims[p]
		}
		s := func(d []int) string { return c.typ + sizes(d) }
		before, after := "negate", "add"
		if c.typ == "pred" {
			before, after = "not", "xor"
		}
		text := fmt.Sprintf("HloModule m\nENTRY e {\n x = %[1]s parameter(0)\n y = %[2]s parameter(1)\n n = %[1]s %[5]s(x)\n w = %[2]s transpose(n), dimensions={%[3]s}\n ROOT r = %[2]s %[6]s(w, y)\n}\n",
			s(c.dims), s(out), sizes(c.perm)[1:len(sizes(c.perm))-1], "", before, after)
		m, err := hlo.Parse("transpose", text)
		if err != nil {
			t.Fatal(err, text)
		}
		h200, _ := plan.FindDevice("h200_sxm")
		p, err := Compile(m, Options{Device: h200})
		if err != nil {
			t.Fatal(err)
		}
		wide := false // a tile with some places more than its side
		for _, step := range p.Kernels[0].Tensor.Body {
			wide = wide || step.Op == Alloc && step.On.Shape.Dims[0]%2 == 1
		}
		if wide != c.skewed {
			t.Errorf("%s: %d threads", s(c.dims), p.Kernels[0].Tensor.Threads)
		}
		if err := check(m, h200, uint64(i), 0); err != nil {
			t.Errorf("%s: %.300s", s(c.dims), err)
		}
	}
}

func sizes(d []int) string {
	out := "["
	for i, n := range d {
		if i > 0 {
			out += ","
		}
		out += fmt.Sprint(n)
	}
	return out + "]"
}
