package infer_test

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// runs runs a program on interpreter and simulator and compares the last pointer
// argument with want, element by element.
func runs(t *testing.T, p *ir.Program, args []ir.Arg, out int, want func(index ...int) float64) {
	t.Helper()
	for _, name := range []string{"interp", "sim"} {
		d, err := device.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Run(t.Context(), p, args)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text.Format(p))
		}
		got := r.Args[out].Array
		for k := range got.Len() {
			index := make([]int, len(got.Shape))
			for d, rest := len(index)-1, k; d >= 0; d-- {
				index[d], rest = rest%got.Shape[d], rest/got.Shape[d]
			}
			if g, w := got.At(index...), want(index...); g != w {
				t.Fatalf("%s: element %v is %v, want %v\n%s", name, index, g, w, text.Format(p))
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func generate(t *testing.T, spec string) *array.Array {
	t.Helper()
	a, err := array.Generate(spec)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Where two instructions want different layouts of a tile a ConvertLayout stands
// between them, as cheap as can be, and its cost is told.
func TestConversions(t *testing.T) {
	for _, c := range []struct {
		name, body string
		note       []string // in the notes, in order; none: no conversion
	}{
		{"nothing to do", "x = LoadGlobal(ga, offset=[0, 0]) : register f32[32, 32]\n\ty = Add(x, x) : register f32[32, 32]\n", nil},
		{"shuffles", "x = LoadGlobal(ga, offset=[0, 0]) : register f32[32, 32] local(32, 1).spatial(1, 32)\n\ty = LoadGlobal(ga, offset=[0, 0]) : register f32[32, 32] local(16, 2).spatial(2, 16)\n\tz = Add(x, y) : register f32[32, 32]\n", []string{"shuffles"}},
		{"operand", "x = LoadGlobal(ga, offset=[0, 0]) : register f32[32, 32] spatial(32, 1).local(1, 32)\n\ty = LoadGlobal(ga, offset=[0, 0]) : register f32[32, 32] spatial(1, 32).local(32, 1)\n\tz = Add(x, y) : register f32[32, 32]\n", []string{"shared memory"}},
		{"result", "x = LoadGlobal(ga, offset=[0, 0]) : register f32[32, 32]\n\tr = Reduce(x, op=sum, dim=[1]) : register f32[32] spatial(32)\n\tz = Add(r, 0.0) : register f32[32]\n", []string{"Reduce"}},
		{"loop variable", "x = LoadGlobal(ga, offset=[0, 0]) : register f32[32, 32] spatial(32, 1).local(1, 32)\n\tz = AllocateRegister(init=0) : register f32[32, 32] spatial(1, 32).local(32, 1)\n\tfor i in 0..2 {\n\t\tz = Add(z, x) : register f32[32, 32] spatial(1, 32).local(32, 1)\n\t}\n\tu = Mul(z, 1.0) : register f32[32, 32]\n", []string{"Add needs x"}},
	} {
		src := "program p<1>(a: *f32) warps=1 {\n\tga = ViewGlobal(a) : global f32[32, 32]\n\t" + c.body + "}\n"
		p, trace, err := infer.Parse("p.tile", src, nil, compile.Layouts())
		if err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, trace)
			continue
		}
		notes := trace.Notes()
		if len(notes) != len(c.note) {
			t.Errorf("%s: %d notes, want %d: %v\n%s", c.name, len(notes), len(c.note), notes, text.Format(p))
			continue
		}
		for i, n := range c.note {
			if !strings.Contains(notes[i].Msg, n) || !notes[i].Pos.Known() {
				t.Errorf("%s: note %q, want %q", c.name, notes[i].Msg, n)
			}
		}
		if strings.Count(text.Format(p), "ConvertLayout") != len(c.note) || strings.Count(trace.String(), "by ConvertLayout for") != len(c.note) {
			t.Errorf("%s:\n%s\n%s", c.name, text.Format(p), trace)
		}
		if _, err := text.Parse("p.tile", text.Format(p), nil); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := compile.Program(p, compile.Options{}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// In a program whose layouts are all written nothing is put in, and View, which means
// another thing in another layout, converts nothing.
func TestConvertsNothingUnasked(t *testing.T) {
	for _, body := range []string{
		"x = LoadGlobal(ga, offset=[0, 0]) : register f32[32, 32] spatial(32, 1).local(1, 32)\n\tz = Add(x, 0.0) : register f32[32, 32] spatial(1, 32).local(32, 1)\n",
		"x = LoadGlobal(ga, offset=[0, 0]) : register f32[32, 32] spatial(32, 1).local(1, 32)\n\tv = View(x) : register u8[32, 32] spatial(32, 1).local(1, 32)\n\tz = Add(x, 0.0) : register f32[32, 32]\n",
	} {
		if p, trace, err := infer.Parse("p.tile", "program p<1>(a: *f32) warps=1 {\n\tga = ViewGlobal(a) : global f32[32, 32]\n\t"+body+"}\n", nil, compile.Layouts()); err == nil {
			t.Errorf("no error:\n%s\n%s", text.Format(p), trace)
		}
	}
}

// A product of a tile that lies in another way, with shared memory and four warps.
func TestConvertedProductRuns(t *testing.T) {
	p, trace, err := infer.Parse("p.tile", `program p<1>(a: *f16, b: *f16, c: *f32) warps=4 {
	ga = ViewGlobal(a) : global f16[64, 32]
	gb = ViewGlobal(b) : global f16[32, 64]
	gc = ViewGlobal(c) : global f32[64, 64]
	ra = LoadGlobal(ga, offset=[0, 0]) : register f16[64, 32] spatial(32, 4).local(2, 8)
	rb = LoadGlobal(gb, offset=[0, 0]) : register f16[32, 64] spatial(16, 8).local(2, 8)
	acc = AllocateRegister(init=1) : register f32[64, 64]
	acc = Dot(ra, rb, acc) : register f32[64, 64]
	StoreGlobal(gc, acc, offset=[0, 0])
}
`, nil, compile.Layouts())
	if err != nil {
		t.Fatalf("%v\n%s", err, trace)
	}
	if n := trace.Notes(); len(n) != 2 || !strings.Contains(n[0].Msg, "shared memory") {
		t.Errorf("%v", n)
	}
	a, b := generate(t, "randint:f16[64,32]:seed=1"), generate(t, "randint:f16[32,64]:seed=2")
	runs(t, p, []ir.Arg{{Array: a}, {Array: b}, {Array: generate(t, "zeros:f32[64,64]")}}, 2, func(at ...int) float64 {
		sum := 1.0
		for k := range 32 {
			sum += a.At(at[0], k) * b.At(k, at[1])
		}
		return sum
	})
}

// Two products in a row, as in attention, without a layout: the first leaves its
// result as the second needs it, operands come from shared memory by ldmatrix without
// conflicts, and nothing is converted.
func TestChainedProductsNeedNoLayouts(t *testing.T) {
	p, trace, err := infer.Parse("p.tile", `program chain<1>(q: *f16, k: *f16, v: *f16, o: *f32) warps=4 {
	gq = ViewGlobal(q) : global f16[64, 64]
	gk = ViewGlobal(k) : global f16[64, 64]
	gv = ViewGlobal(v) : global f16[64, 64]
	go = ViewGlobal(o) : global f32[64, 64]
	sq = AllocateShared() : shared f16[64, 64]
	sk = AllocateShared() : shared f16[64, 64]
	sv = AllocateShared() : shared f16[64, 64]
	CopyAsync(gq, sq, offset=[0, 0])
	CopyAsync(gk, sk, offset=[0, 0])
	CopyAsync(gv, sv, offset=[0, 0])
	CopyAsyncWaitAll()
	Synchronize()
	rq = LoadShared(sq) : register f16[64, 64]
	kt = PermuteShared(sk) : shared f16[64, 64]
	rk = LoadShared(kt) : register f16[64, 64]
	s0 = AllocateRegister(init=0) : register f32[64, 64]
	s = Dot(rq, rk, s0) : register f32[64, 64]
	m = Reduce(s, op=max, dim=[1], keepdims=true) : register f32[64, 1]
	d = Sub(s, m) : register f32[64, 64]
	e = Max(d, -1.0) : register f32[64, 64]
	p = Cast(e) : register f16[64, 64]
	rv = LoadShared(sv) : register f16[64, 64]
	acc = AllocateRegister(init=0) : register f32[64, 64]
	acc = Dot(p, rv, acc) : register f32[64, 64]
	StoreGlobal(go, acc, offset=[0, 0])
}
`, nil, compile.Layouts())
	if err != nil {
		t.Fatalf("%v\n%s", err, trace)
	}
	if n := trace.Notes(); len(n) > 0 {
		t.Errorf("converts: %v\n%s", n, text.Format(p))
	}
	full := text.Format(p)
	for _, want := range []string{"sq = AllocateShared() : shared f16[64, 64] shared_row_major(64, 64).apply_swizzle(base=3, bits=3, shift=3)",
		"sk = AllocateShared() : shared f16[64, 64] shared_row_major(64, 64).apply_swizzle(base=3, bits=3, shift=3)",
		"sv = AllocateShared() : shared f16[64, 64] shared_row_major(64, 64).apply_swizzle(base=3, bits=3, shift=3)"} {
		if !strings.Contains(full, want) {
			t.Errorf("lacks %q:\n%s", want, full)
		}
	}
	c, err := compile.Program(p, compile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ptx, err := c.PTX()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ldmatrix", "mma.sync", ".trans"} {
		if !strings.Contains(ptx, want) {
			t.Errorf("PTX lacks %s", want)
		}
	}
	q, k, v := generate(t, "randint:f16[64,64]:seed=1"), generate(t, "randint:f16[64,64]:seed=2"), generate(t, "randint:f16[64,64]:seed=3")
	score := func(i, j int) float64 {
		sum := 0.0
		for x := range 64 {
			sum += q.At(i, x) * k.At(j, x)
		}
		return sum
	}
	var probs [64][64]float64
	for i := range 64 {
		top := score(i, 0)
		for j := range 64 {
			top = max(top, score(i, j))
		}
		for j := range 64 {
			probs[i][j] = max(score(i, j)-top, -1)
		}
	}
	runs(t, p, []ir.Arg{{Array: q}, {Array: k}, {Array: v}, {Array: generate(t, "zeros:f32[64,64]")}}, 3, func(at ...int) float64 {
		sum := 0.0
		for x := range 64 {
			sum += probs[at[0]][x] * v.At(x, at[1])
		}
		return sum
	})
}

// In a thread group tiles spread over the threads of the group.
func TestGroupsSpreadOverTheirThreads(t *testing.T) {
	p, trace, err := infer.Parse("p.tile", `program p<1>(a: *f32, b: *f32) warps=3 {
	ga = ViewGlobal(a) : global f32[128]
	gb = ViewGlobal(b) : global f32[128]
	group(0, 64) {
		x = LoadGlobal(ga, offset=[0]) : register f32[128]
		StoreGlobal(gb, x, offset=[0])
	}
	group(64, 32) {
		y = Indices(dim=[0]) : register i32[64]
		z = Cast(y) : register f32[64]
	}
}
`, nil, compile.Layouts())
	if err != nil {
		t.Fatalf("%v\n%s", err, trace)
	}
	full := text.Format(p)
	for _, want := range []string{"register f32[128] spatial(64).local(2)", "register i32[64] local(2).spatial(32)"} {
		if !strings.Contains(full, want) {
			t.Errorf("lacks %q:\n%s", want, full)
		}
	}
}

// Tiles are cut into slices whatever decides their layouts: the source is as many
// slices as lie in it, or it is converted to that; thread groups of whole warps convert
// through shared memory too.
func TestSlicesAndGroups(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"source from a load": {`program p<1>(a: *f16, c: *f16) warps=1 {
	ga = ViewGlobal(a) : global f16[64, 16]
	gc = ViewGlobal(c) : global f16[32, 16]
	x = LoadGlobal(ga, offset=[0, 0]) : register f16[64, 16]
	y = SliceRegister(x, offset=[32, 0]) : register f16[32, 16]
	StoreGlobal(gc, y, offset=[0, 0])
}
`, "SliceRegister"},
		"source that lies otherwise": {`program p<1>(a: *f16, c: *f16) warps=1 {
	ga = ViewGlobal(a) : global f16[64, 16]
	gc = ViewGlobal(c) : global f16[32, 16]
	x = LoadGlobal(ga, offset=[0, 0]) : register f16[64, 16] spatial(2, 16).local(32, 1)
	y = SliceRegister(x, offset=[32, 0]) : register f16[32, 16]
	StoreGlobal(gc, y, offset=[0, 0])
}
`, "by ConvertLayout for SliceRegister"},
		"group": {`program p<1>(a: *f16, c: *f16) warps=4 {
	ga = ViewGlobal(a) : global f16[64, 64]
	gc = ViewGlobal(c) : global f16[64, 64]
	group(0, 64) {
		x = LoadGlobal(ga, offset=[0, 0]) : register f16[64, 64] spatial(8, 8).local(8, 8)
		y = LoadGlobal(ga, offset=[0, 0]) : register f16[64, 64] local(64, 1).spatial(1, 64)
		z = Add(x, y) : register f16[64, 64]
		StoreGlobal(gc, z, offset=[0, 0])
	}
}
`, "by ConvertLayout for Add"},
	} {
		_, trace, err := infer.Parse("t.tile", c.src, nil, compile.Layouts())
		if err != nil || !strings.Contains(trace.String(), c.want) {
			t.Errorf("%s: %v\n%s", name, err, trace)
		}
	}
}
