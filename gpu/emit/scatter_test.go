package emit

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

var scatters = flag.Int("scatters", 120, "scatters with sorted indices to compare")

// TestSortedIndices draws scatters that say that their indices are sorted: of all types, with
// index vectors of one or two numbers, windows of any size, illegal indices, and also where
// it is not so, since an index below 0 may stand for one from the end.
func TestSortedIndices(t *testing.T) {
	small := plan.Device{Name: "small", SMs: 2, ThreadsPerSM: 64, SharedBytes: 48 << 10, Warp: 32}
	list := func(v []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]") }
	runs := map[string]int{}
	for seed := range *scatters {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		one := func(list ...string) string { return list[r.IntN(len(list))] }
		typ := one("s32", "f32", "s8", "u8", "s64", "f16", "bf16", "f64", "pred", "s4", "u32", "s16")
		float := strings.Contains(typ, "f")
		op := one("add", "maximum", "minimum", "multiply", "and", "or", "xor")
		switch {
		case typ == "pred":
			op = one("and", "or", "xor")
		case float:
			op = one("add", "maximum", "minimum")
		}
		n := []int{1, 3, 9, 30, 77, 200, 601}[r.IntN(7)]
		parts := 1 + r.IntN(2)
		updates := []int{n}
		var sizes, window, inserted []int
		for i := range parts + r.IntN(2) {
			size := []int{1, 2, 5, 8, 33, 64}[r.IntN(6)]
			sizes = append(sizes, size)
			switch {
			case i < parts && r.IntN(2) == 0:
				inserted = append(inserted, i)
				continue
			case r.IntN(2) == 0:
				size = 1 + r.IntN(size)
			}
			window, updates = append(window, len(updates)), append(updates, size)
		}
		if product(updates) > 1<<17 {
			continue // slow
		}
		to := []int{0, 1}[:parts]
		if r.IntN(4) == 0 {
			slices.Reverse(to)
		}
		indices := one("s32", "s64", "u32", "s16", "u8")
		result := fmt.Sprintf("%s[%s]", typ, list(sizes))
		text := fmt.Sprintf("HloModule m\nc {\n a = %[1]s[] parameter(0)\n b = %[1]s[] parameter(1)\n ROOT r = %[1]s[] %[2]s(a, b)\n}\nENTRY e {\n o = %[3]s parameter(0)\n i = %[4]s[%[5]d,%[6]d] parameter(1)\n u = %[1]s[%[7]s] parameter(2)\n ROOT s = %[3]s scatter(o, i, u), update_window_dims={%[8]s}, inserted_window_dims={%[9]s}, scatter_dims_to_operand_dims={%[10]s}, index_vector_dim=1, indices_are_sorted=true, to_apply=c\n}\n",
			typ, op, result, indices, n, parts, list(updates), list(window), list(inserted), list(to))
		m, err := hlo.Parse("test", text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		args := arguments(m.Entry, uint64(seed))
		vectors := make([][]int, n)
		for k := range vectors {
			for _, d := range to {
				lo := -2
				if indices[0] == 'u' {
					lo = 0
				}
				vectors[k] = append(vectors[k], lo+r.IntN(sizes[d]+2-lo))
			}
		}
		if slices.SortFunc(vectors, slices.Compare[[]int]); r.IntN(4) == 0 {
			slices.Reverse(vectors)
		}
		for k, v := range slices.Concat(vectors...) {
			args[1].SetCode(k, args[1].Type.EncodeInt(int64(v), false))
		}
		if float { // sums are exact
			for _, a := range []*array.Array{args[0], args[2]} {
				for k := range a.Len() {
					a.SetCode(k, a.Type.Encode(float64(r.IntN(3)-1), false))
				}
			}
		}
		want, err := eval.Run(m, args)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(m, Options{Device: small})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		got, err := p.Simulate(context.Background(), args)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		k := p.Kernels[len(p.Kernels)-1]
		if c := array.Compare(got[0], want[0]); c.Differ > 0 {
			t.Fatalf("seed %d: %d of %d differ, the first at %v\n%s\n%s", seed, c.Differ, c.N, c.First, text, k.Tensor)
		}
		if strings.Contains(k.Tensor.String(), "choose") {
			runs[fmt.Sprintf("%d %s", parts, indices[:1])]++
		}
	}
	for _, kind := range []string{"1 s", "2 s", "1 u", "2 u"} {
		if runs[kind] == 0 {
			t.Errorf("the sample keeps no runs of indices of kind %s in registers: %v", kind, runs)
		}
	}
}

// TestScatters combines updates whose indices are sorted, in runs, and updates that no
// atomic instruction combines. Some indices are illegal, many are equal.
func TestScatters(t *testing.T) {
	const one = "c {\n a = TT[] parameter(0)\n b = TT[] parameter(1)\n ROOT r = TT[] OP(a, b)\n}\n"
	const two = "c {\n a = TT[] parameter(0)\n i = s32[] parameter(1)\n b = TT[] parameter(2)\n j = s32[] parameter(3)\n s = TT[] OP(a, b)\n m = s32[] maximum(i, j)\n ROOT r = (TT[], s32[]) tuple(s, m)\n}\n"
	zeros := " z = TT[] constant(0)\n o = TT[50,WW] broadcast(z), dimensions={}\n"
	for _, c := range []struct {
		name, typ, op, text string
		window              int
		params              string // of which one is the indices
		begins              string
		emitter, code       string
	}{
		{"rows", "f32", "add", one, 12, "", zeros, plan.ScatterEmitter, "choose"},
		{"long rows", "bf16", "maximum", one, 300, "", zeros, plan.ScatterEmitter, "choose"},
		{"odd rows", "s32", "add", one, 7, "", zeros, plan.ScatterEmitter, "choose"},
		{"bytes", "u8", "add", one, 32, "", zeros, plan.ScatterEmitter, "choose"},
		{"wide", "f64", "add", one, 4, "", zeros, plan.LoopEmitter, ""},
		{"wide integers", "s64", "multiply", one, 1, "", zeros, plan.LoopEmitter, ""},
		{"two at once", "f32", "add", two, 4, "", "", plan.LoopEmitter, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 1500
			attrs := "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, indices_are_sorted=true, to_apply=c"
			body := fmt.Sprintf(" i = s32[%d] parameter(0)\n u = TT[%d,WW] parameter(1)\n", n, n)
			if c.begins != "" {
				body += c.begins + " ROOT r = TT[50,WW] scatter(o, i, u), " + attrs + "\n"
			} else {
				body += fmt.Sprintf(" v = s32[%d,WW] parameter(2)\n o = TT[50,WW] parameter(3)\n p = s32[50,WW] parameter(4)\n ROOT r = (TT[50,WW], s32[50,WW]) scatter(o, p, i, u, v), %s\n", n, attrs)
			}
			text := strings.NewReplacer("TT", c.typ, "OP", c.op, "WW", fmt.Sprint(c.window)).Replace("HloModule m\n" + c.text + "ENTRY e {\n" + body + "}\n")
			m, err := hlo.Parse("test", text)
			if err != nil {
				t.Fatal(err)
			}
			args := arguments(m.Entry, 5)
			rows := make([]int, n)
			for k := range rows {
				rows[k] = k*k%64 - 5
			}
			slices.Sort(rows)
			for k, r := range rows {
				args[0].SetCode(k, uint64(uint32(r)))
			}
			for k := range args[1].Len() { // sums are exact
				e := args[1].Type
				if e.IsFloat() {
					args[1].SetCode(k, e.Encode(float64(k*k%9-4), false))
				}
			}
			want, err := eval.Run(m, args)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Compile(m, Options{Device: plan.Device{Name: "small", SMs: 4, ThreadsPerSM: 512, SharedBytes: 48 << 10, Warp: 32}})
			if err != nil {
				t.Fatal(err)
			}
			k := p.Kernels[len(p.Kernels)-1]
			if k.Plan.Emitter != c.emitter || !strings.Contains(k.Tensor.String(), c.code) {
				t.Errorf("by %s:\n%s", k.Plan.Emitter, k.Tensor)
			}
			got, err := p.Simulate(context.Background(), args)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if r := array.Compare(got[i], want[i]); r.Differ > 0 && !(r.MaxAbs < math.SmallestNonzeroFloat64) {
					t.Errorf("result %d: %d of %d differ, the first at %v\n%s", i, r.Differ, r.N, r.First, k.Tensor)
				}
			}
		})
	}
}
