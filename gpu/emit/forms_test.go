package emit

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

var formCases = flag.Int("forms", 60, "reductions of one normal form to compare")

// TestReductionsOfOneForm: reductions of operands that have other shapes, ranks and layouts
// but one normal form are one kernel of the emitter that each of them has alone, and give
// what vm/hlo/eval gives.
func TestReductionsOfOneForm(t *testing.T) {
	d := plan.Device{Name: "small", SMs: 4, ThreadsPerSM: 512, SharedBytes: 48 << 10, Warp: 32}
	emitters := map[string]int{}
	for seed := range *formCases {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		text := oneForm(r)
		m, err := hlo.Parse("test", text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if err := check(m, d, uint64(seed), 0); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		p, err := Compile(m, Options{Device: d})
		if err != nil {
			t.Fatal(err)
		}
		k := p.Kernels[0]
		emitters[k.Plan.Emitter]++
		if len(p.Kernels) != 1 || k.plain || len(k.Plan.Heroes) < 2 {
			t.Errorf("seed %d: %d kernels, the first %s of %d reductions, as a plain loop: %t %v\n%s", seed, len(p.Kernels), k.Plan.Emitter, len(k.Plan.Heroes), k.plain, k.Plan.Why, text)
		}
	}
	for _, e := range []string{plan.RowEmitter, plan.MultiRowEmitter, plan.ColumnEmitter, plan.RowSplitEmitter, plan.ColumnSplitEmitter} {
		if emitters[e] == 0 {
			t.Errorf("the sample holds no %s: %v", e, emitters)
		}
	}
}

// oneForm draws a fusion of two or three reductions of the same tensor in memory.
func oneForm(r *rand.Rand) string {
	one := func(list ...int) int { return list[r.IntN(len(list))] }
	row := r.IntN(2) == 0
	abc := [3]int{one(1, 1, 2, 6), one(4, 12, 60), one(32, 64, 96, 132, 1000)}
	if !row {
		abc = [3]int{one(1, 1, 2, 6), one(256, 256, 320, 1200), one(2, 2, 4, 8, 32, 36, 64, 90)}
	}
	if row && r.IntN(4) == 0 {
		abc = [3]int{1, 2, 12000}
	}
	var b strings.Builder
	b.WriteString("HloModule m\nc {\n a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = s32[] add(a, b)\n}\nENTRY e {\n")
	shape := func(dims, layout []int) string {
		s := hlo.Shape{Type: hlo.S32, Dims: dims, Layout: layout}
		return s.String()
	}
	n := abc[0] * abc[1] * abc[2]
	fmt.Fprintf(&b, " p = s32[%d] parameter(0)\n z = s32[] constant(3)\n", n)
	var roots, shapes []string
	for k := range 2 + r.IntN(2) {
		var sizes []int
		var reduced []bool
		for g, x := range abc {
			for x > 1 {
				f := x
				if r.IntN(2) == 0 {
					for f = min(x, 2+r.IntN(7)); x%f != 0; f++ {
					}
				}
				sizes, reduced = append(sizes, f), append(reduced, (g == 1) != row)
				x /= f
			}
		}
		perm := make([]int, len(sizes)) // the dimension that stands at each place of memory, slowest first
		for i := range perm {
			perm[i] = i
		}
		if r.IntN(2) == 0 {
			perm = r.Perm(len(sizes))
		}
		dims := make([]int, len(sizes))
		var layout, which, kept []int
		for place, d := range perm {
			dims[d] = sizes[place]
			layout = slices.Insert(layout, 0, d)
			if reduced[place] {
				which = append(which, d)
			} else {
				kept = append(kept, d)
			}
		}
		slices.Sort(which)
		// The result lies in memory as the operand does, or by its dimensions in order.
		var out, order []int
		sorted := slices.Sorted(slices.Values(kept))
		for _, d := range sorted {
			out = append(out, dims[d])
		}
		for i := len(kept) - 1; i >= 0; i-- {
			order = append(order, slices.Index(sorted, kept[i]))
		}
		if r.IntN(3) == 0 {
			order = nil
			for i := len(kept) - 1; i >= 0; i-- {
				order = append(order, i)
			}
		}
		result := shape(out, order)
		fmt.Fprintf(&b, " n%[1]d = s32[%[2]d] negate(p)\n", k, n)
		from := []string{"p", fmt.Sprintf("n%d", k)}[r.IntN(2)]
		fmt.Fprintf(&b, " x%d = %s bitcast(%s)\n", k, shape(dims, layout), from)
		list := strings.Trim(strings.ReplaceAll(fmt.Sprint(which), " ", ","), "[]")
		fmt.Fprintf(&b, " r%d = %s reduce(x%d, z), dimensions={%s}, to_apply=c\n", k, result, k, list)
		root := fmt.Sprintf("r%d", k)
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, " y%[1]d = %[2]s multiply(r%[1]d, r%[1]d)\n", k, result)
			root = fmt.Sprintf("y%d", k)
		}
		roots, shapes = append(roots, root), append(shapes, result)
	}
	if r.IntN(3) == 0 {
		fmt.Fprintf(&b, " s = s32[%d] abs(p)\n", n)
		roots, shapes = append(roots, "s"), append(shapes, fmt.Sprintf("s32[%d]", n))
	}
	fmt.Fprintf(&b, " ROOT t = (%s) tuple(%s)\n}\n", strings.Join(shapes, ", "), strings.Join(roots, ", "))
	return b.String()
}

// TestUnevenResults: where no emitter gives all results of a kernel, a loop does, also of
// results that have other numbers of elements than the first.
func TestUnevenResults(t *testing.T) {
	const sum = "c {\n a = TT[] parameter(0)\n b = TT[] parameter(1)\n ROOT r = TT[] add(a, b)\n}\n"
	for _, c := range []struct{ name, typ, body string }{
		// A result that lies turned in memory is not read in its order.
		{"rows", "s32", " r = s32[4,32]{0,1} reduce(p, z), dimensions={2}, to_apply=c\n y = s32[128] reshape(r)\n s = s32[4,32,64] abs(p)\n ROOT t = (s32[128], s32[4,32,64]) tuple(y, s)\n"},
		{"columns", "s32", " r = s32[4,64]{0,1} reduce(q, z), dimensions={1}, to_apply=c\n y = s32[256] reshape(r)\n s = s32[4,300,64] abs(q)\n ROOT t = (s32[256], s32[4,300,64]) tuple(y, s)\n"},
		{"nibbles", "s4", " r = s4[4,32]{0,1} reduce(p, z), dimensions={2}, to_apply=c\n y = s4[128] reshape(r)\n s = s4[4,32,64] negate(p)\n ROOT t = (s4[128], s4[4,32,64]) tuple(y, s)\n"},
		{"eight at once", "s32", many(8)},
		{"nine at once", "s32", many(9)},
	} {
		t.Run(c.name, func(t *testing.T) {
			params := " p = TT[4,32,64] parameter(0)\n"
			if strings.Contains(c.body, "(q") {
				params = " q = TT[4,300,64] parameter(0)\n"
			}
			text := strings.ReplaceAll("HloModule m\n"+sum+"ENTRY e {\n"+params+" z = TT[] constant(3)\n", "TT", c.typ) + c.body + "}\n"
			m, err := hlo.Parse("test", text)
			if err != nil {
				t.Fatal(err)
			}
			if err := check(m, tiny, 3, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// many are n sums of columns with other initial values, and a result beside.
func many(n int) string {
	var b strings.Builder
	var names, shapes []string
	for i := range n {
		fmt.Fprintf(&b, " z%[1]d = s32[] constant(%[1]d)\n r%[1]d = s32[4,64] reduce(q, z%[1]d), dimensions={1}, to_apply=c\n", i)
		names, shapes = append(names, fmt.Sprintf("r%d", i)), append(shapes, "s32[4,64]")
	}
	fmt.Fprintf(&b, " s = s32[4,300,64] abs(q)\n ROOT t = (%s, s32[4,300,64]) tuple(%s, s)\n", strings.Join(shapes, ", "), strings.Join(names, ", "))
	return b.String()
}
