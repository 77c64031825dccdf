package lower_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/lower/exchange"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

func registerOf(t *testing.T, elem, chain string) ir.Type {
	t.Helper()
	e, err := dtype.Parse(elem)
	if err != nil {
		t.Fatal(err)
	}
	l, err := layout.Parse(chain)
	if err != nil {
		t.Fatal(err)
	}
	return ir.RegisterOf(e, l)
}

// TestConversionsAreCheap holds the ways of known conversions.
func TestConversionsAreCheap(t *testing.T) {
	for _, c := range []struct{ elem, from, to, want string }{
		{"f16", "local(2, 2).spatial(8, 4).local(1, 2)", "local(2, 2).spatial(8, 4).local(1, 2)", "registers under other names"},
		{"f16", "local(2, 2).spatial(8, 4).local(1, 2)", "column_local(2, 2).spatial(8, 4).local(1, 2)", "registers under other names"},
		{"f32", "spatial(8, 4)", "column_spatial(8, 4)", "1 shuffles and 0 choices in each thread"},
		{"f16", "spatial(8, 4).local(1, 2)", "column_spatial(8, 4).local(1, 2)", "1 shuffles and 0 choices in each thread"},
		{"u8", "spatial(8, 4).local(1, 4)", "column_spatial(8, 4).local(1, 4)", "1 shuffles and 0 choices in each thread"},
		{"f64", "spatial(8, 4)", "column_spatial(8, 4)", "2 shuffles and 0 choices in each thread"},
		{"f32", "spatial(8, 4).local(1, 8)", "spatial(8, 1).local(1, 8).spatial(1, 4)", "8 shuffles and 32 choices in each thread"},
		{"f32", "spatial(32, 1).local(1, 32)", "local(32, 1).spatial(1, 32)", "32 stores and 32 loads of shared memory in each thread, 4220 bytes, two barriers"},
		{"f32", "spatial(16).replicated(1, num_workers=2)", "replicated(1, num_workers=2).spatial(16)", "1 shuffles and 0 choices in each thread"},
		{"f32", "spatial(64)", "spatial(2).spatial(32)", "registers under other names"},
		{"f32", "column_spatial(2, 32)", "spatial(2, 32)", "1 stores and 1 loads of shared memory in each thread, 260 bytes, two barriers"},
		{"f16", "column_spatial(2, 32).local(1, 2)", "spatial(2, 32).local(1, 2)", "1 stores and 1 loads of shared memory in each thread, 260 bytes, two barriers"},
		{"u4", "column_spatial(2, 32).local(1, 2)", "spatial(2, 32).local(1, 2)", "1 stores and 1 loads of shared memory in each thread, 64 bytes, two barriers"},
	} {
		if got := exchange.Plan(registerOf(t, c.elem, c.from), registerOf(t, c.elem, c.to)).String(); got != c.want {
			t.Errorf("%s %s to %s: %s, not %s", c.elem, c.from, c.to, got, c.want)
		}
	}
}

// randomLayout spreads a tensor of 2^n elements over 2^t threads, some of which may
// hold the same, and may put a factor 3 in the slots.
func randomLayout(r *rand.Rand, shape [2]int, threads int) string {
	var parts []string
	left := shape
	take := func(most int) [2]int {
		f := [2]int{1, 1}
		for d := range f {
			for left[d]%2 == 0 && f[0]*f[1]*2 <= most && r.IntN(2) == 0 {
				f[d] *= 2
				left[d] /= 2
			}
		}
		return f
	}
	column := func() string {
		if r.IntN(2) == 0 {
			return "column_"
		}
		return ""
	}
	for range 3 {
		f := take(4)
		parts = append(parts, fmt.Sprintf("%slocal(%d, %d)", column(), f[0], f[1]))
		f = take(threads)
		threads /= f[0] * f[1]
		parts = append(parts, fmt.Sprintf("%sspatial(%d, %d)", column(), f[0], f[1]))
		if r.IntN(4) == 0 && threads > 1 {
			parts = append(parts, "replicated(1, 1, num_workers=2)")
			threads /= 2
		}
	}
	if threads > 1 {
		parts = append(parts, fmt.Sprintf("replicated(1, 1, num_workers=%d)", threads))
	}
	parts = append(parts, fmt.Sprintf("local(%d, %d)", left[0], left[1]))
	return strings.Join(parts, ".")
}

// TestConversionsKeepElements converts between random layouts on both machines.
func TestConversionsKeepElements(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n, kinds := 250, map[string]int{}
	if testing.Short() {
		n = 60
	}
	elems := []string{"f32", "f16", "u8", "u4", "i6", "u1", "f64", "u3"}
	for i := range n {
		warps := 1 << r.IntN(3)
		shape := [2]int{4 << r.IntN(3), 4 << r.IntN(3)}
		if r.IntN(4) == 0 {
			shape[0] *= 3
		}
		from, to := randomLayout(r, shape, 32*warps), randomLayout(r, shape, 32*warps)
		elem := elems[i%len(elems)]
		for _, text := range []string{from, to} {
			if l, err := layout.Parse(text); err != nil || l.Threads() != 32*warps {
				t.Fatalf("%s: %s, %d threads, %v", text, l, l.Threads(), err)
			}
		}
		kinds[exchange.Plan(registerOf(t, elem, from), registerOf(t, elem, to)).Kind]++
		p := parse(t, fmt.Sprintf(`program p<1>(a: *%[1]s, b: *%[1]s) warps=%[2]d {
	ga = ViewGlobal(a) : global %[1]s[%[3]d, %[4]d]
	gb = ViewGlobal(b) : global %[1]s[%[3]d, %[4]d]
	x = LoadGlobal(ga, offset=[0, 0]) : register %[1]s[%[3]d, %[4]d] %[5]s
	y = ConvertLayout(x) : register %[1]s[%[3]d, %[4]d] %[6]s
	z = ConvertLayout(y) : register %[1]s[%[3]d, %[4]d] %[5]s
	y = ConvertLayout(z) : register %[1]s[%[3]d, %[4]d] %[6]s
	StoreGlobal(gb, y, offset=[0, 0])
}`, elem, warps, shape[0], shape[1], from, to))
		agree(t, p, nil, []ir.Arg{arg(t, fmt.Sprintf("randcode:%s[%d,%d]:seed=%d", elem, shape[0], shape[1], i)), arg(t, fmt.Sprintf("zeros:%s[%d,%d]", elem, shape[0], shape[1]))})
		if t.Failed() {
			t.Fatalf("%s %v: %s to %s", elem, shape, from, to)
		}
	}
	for _, kind := range []string{"rename", "shuffle", "shared"} {
		if kinds[kind] == 0 {
			t.Errorf("no conversion goes by %s: %v", kind, kinds)
		}
	}
	t.Log(kinds)
}

// TestConversionsInGroups lets groups convert side by side while one goes on to what
// the whole block does: each has memory of its own.
func TestConversionsInGroups(t *testing.T) {
	const body = `program p<1>(a: *f32, b: *f32, n: *i32) warps=4 {
	ga = ViewGlobal(a) : global f32[4, 32]
	gb = ViewGlobal(b) : global f32[7, 32]
	gn = ViewGlobal(n) : global i32[4]
	s = AllocateShared() : shared f32[128] shared_row_major(128)
	GROUPS
	all = LoadGlobal(ga, offset=[0, 0]) : register f32[4, 32] spatial(4, 32)
	turned = ConvertLayout(all) : register f32[4, 32] column_spatial(4, 32)
	StoreGlobal(gb, turned, offset=[0, 0])
	flat = LoadGlobal(ga, offset=[0, 0], dims=[1]) : register f32[32] replicated(1, num_workers=4).spatial(32)
	StoreShared(s, flat, offset=[0])
}`
	groups := ""
	for g := range 2 {
		groups += fmt.Sprintf(`
	group(%[1]d, 64) {
		x%[2]d = LoadGlobal(ga, offset=[%[3]d, 0]) : register f32[2, 32] spatial(2, 32)
		y%[2]d = ConvertLayout(x%[2]d) : register f32[2, 32] column_spatial(2, 32)
		r%[2]d = Reduce(y%[2]d, op=max, dim=1) : register f32[2] replicated(1, num_workers=32).spatial(2)
		old%[2]d = AtomicScalar(gn, 1, offset=[%[2]d], op=add)
		if old%[2]d == 5 {
			StoreGlobal(gb, r%[2]d, offset=[%[2]d + 4, 0], dims=[1])
		}
	}`, 64*g, g, 2*g)
	}
	p := parse(t, strings.Replace(body, "GROUPS", groups, 1))
	agree(t, p, nil, []ir.Arg{arg(t, "randint:f32[4,32]:seed=1"), arg(t, "zeros:f32[7,32]"), arg(t, "const=5:i32[4]")})
	f := lowered(t, p, nil)
	if f.Launch.SharedBytes < 512+2*260 {
		t.Errorf("%d bytes of shared memory", f.Launch.SharedBytes)
	}
}
