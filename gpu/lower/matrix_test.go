package lower_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// product is a program of one Dot of whole tensors.
func product(a, b, c string, la, lb, lc layout.Layout, warps int, attr string) string {
	m, k, n := la.Shape()[0], la.Shape()[1], lb.Shape()[1]
	return fmt.Sprintf(`program p<1>(a: *%[1]s, b: *%[2]s, c: *%[3]s) warps=%[4]d {
	ga = ViewGlobal(a) : global %[1]s[%[5]d, %[6]d]
	gb = ViewGlobal(b) : global %[2]s[%[6]d, %[7]d]
	gc = ViewGlobal(c) : global %[3]s[%[5]d, %[7]d]
	ra = LoadGlobal(ga, offset=[0, 0]) : register %[1]s[%[5]d, %[6]d] %[8]s
	rb = LoadGlobal(gb, offset=[0, 0]) : register %[2]s[%[6]d, %[7]d] %[9]s
	rc = LoadGlobal(gc, offset=[0, 0]) : register %[3]s[%[5]d, %[7]d] %[10]s
	rc = Dot(ra, rb, rc%[11]s) : register %[3]s[%[5]d, %[7]d] %[10]s
	StoreGlobal(gc, rc, offset=[0, 0])
}`, a, b, c, warps, m, k, n, la, lb, lc, attr)
}

// multiplied runs it on the interpreter and, lowered for a target, on the simulator,
// requires equal bytes, and returns the code.
func multiplied(t *testing.T, target, src, generate string, types [3]string, m, k, n int) *code.Func {
	t.Helper()
	p := parse(t, src)
	args := []ir.Arg{
		arg(t, fmt.Sprintf("%s:%s[%d, %d]:seed=1", generate, types[0], m, k)),
		arg(t, fmt.Sprintf("%s:%s[%d, %d]:seed=2", generate, types[1], k, n)),
		arg(t, fmt.Sprintf("randint:%s[%d, %d]:seed=3", types[2], m, n)),
	}
	machine, err := interp.New(p, args)
	if err != nil {
		t.Fatal(err)
	}
	if err := machine.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	want := machine.Args()[2].Array
	a, err := arch.Lookup(target)
	if err != nil {
		t.Fatal(err)
	}
	f, err := lower.Lower(p, lower.Options{Arch: a})
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	var in []sim.Arg
	for _, x := range args {
		in = append(in, sim.Arg{Buffer: append(bytes.Clone(x.Array.Data), make([]byte, 16)...)})
	}
	if _, err := sim.Run(context.Background(), f, sim.Launch{Grid: [3]int{1, 1, 1}, Args: in}, sim.Options{}); err != nil {
		t.Fatal(err)
	}
	got := want.Clone()
	copy(got.Data, in[2].Buffer)
	if !bytes.Equal(got.Data, want.Data) {
		t.Fatalf("%s", src+array.Compare(got, want).String())
	}
	return f
}

// TestEveryFormOfDot multiplies by each form, of every type, alone and over warps
// that share operands.
func TestEveryFormOfDot(t *testing.T) {
	for _, a := range dtype.All() {
		for _, b := range dtype.All() {
			for _, c := range dtype.All() {
				for i, f := range ir.DotForms(a, b, c) {
					if testing.Short() && (i%3 != 0 || a != b) {
						continue
					}
					generate := "randint"
					if i%2 == 1 && a.Bits() < 16 {
						generate = "randcode"
					}
					if a.IsFloat() && i%2 == 1 { // sums are rounded: order and steps count
						generate = "rand"
					}
					la, lb, lc := layout.Local(1, 2).Mul(f.A), layout.Local(2, 1).Mul(f.B), f.C
					types := [3]string{a.String(), b.String(), c.String()}
					m, k, n := la.Shape()[0], la.Shape()[1], lb.Shape()[1]
					fn := multiplied(t, "sm_90a", product(types[0], types[1], types[2], la, lb, lc, 1, ", unit=matrix"), generate, types, m, k, n)
					if got := matrices(fn); got == 0 || got > 2*f.Vec { // two steps may be one of a larger form
						t.Errorf("%s of %v: %d matrix instructions", f, types, got)
					}
					if f.Vec > 2 || i%4 != 0 {
						continue
					}
					// 2 × 2 warps: those of a row share A, those of a column share B.
					over := func(ranks []int, shape []int, drop int) layout.Layout {
						l, err := layout.SpatialRanked(shape, ranks)
						if err != nil {
							t.Fatal(err)
						}
						if l, err = l.Reduce([]int{drop}, false); err != nil {
							t.Fatal(err)
						}
						return l
					}
					la = over([]int{1, 0, 2}, []int{2, 1, 2}, 2).Local(1, 2).Mul(f.A)
					lb = over([]int{0, 2, 1}, []int{1, 2, 2}, 2).Local(2, 2).Mul(f.B)
					lc = layout.Spatial(2, 2).Local(1, 2).Mul(f.C)
					m, k, n = la.Shape()[0], la.Shape()[1], lb.Shape()[1]
					multiplied(t, "sm_90a", product(types[0], types[1], types[2], la, lb, lc, 4, ""), generate, types, m, k, n)
				}
			}
		}
	}
}

func matrices(f *code.Func) int {
	n := 0
	for line := range strings.Lines(code.Format(f)) {
		if strings.Contains(line, "= mma.") {
			n++
		}
	}
	return n
}

// TestDotByFMAs multiplies types and layouts that no matrix instruction takes.
func TestDotByFMAs(t *testing.T) {
	a, b, c := layout.Spatial(8, 1).Replicated(4, 1, 1).Local(1, 12), layout.Spatial(1, 4).Local(12, 2), layout.Spatial(8, 4).Local(1, 2)
	// Threads 4i+j hold row i of a; those with j, the columns 2j and 2j+1 of b.
	b = layout.Replicated(8, 1, 1).Mul(b)
	for _, types := range [][3]string{
		{"f32", "f32", "f32"}, {"f16", "f16", "f16"}, {"bf16", "bf16", "bf16"}, {"f16", "f32", "f32"}, {"f8e4m3", "f8e4m3", "f16"}, {"f6e3m2", "f4e2m1", "f32"},
		{"f64", "f64", "f64"}, {"f32", "f64", "f64"}, {"i32", "i32", "i32"}, {"i8", "u8", "i32"}, {"u4", "i3", "i32"}, {"i64", "i32", "i64"}, {"u32", "u16", "u32"}, {"u1", "u1", "i32"}, {"tf32", "tf32", "f32"},
	} {
		generate := "rand"
		if strings.Contains("iu", types[0][:1]) {
			generate = "randcode"
		}
		f := multiplied(t, "sm_80", product(types[0], types[1], types[2], a, b, c, 1, ""), generate, types, 8, 12, 8)
		if matrices(f) != 0 {
			t.Errorf("%v uses matrix instructions", types)
		}
	}
	// The types and the result's layout of an mma.
	f := multiplied(t, "sm_80", product("f16", "f16", "f32", layout.Local(2, 1).Spatial(8, 1).Replicated(4, 1, 1).Local(1, 16), layout.Replicated(8, 1, 1).Spatial(1, 4).Local(16, 2), layout.Local(2, 1).Spatial(8, 4).Local(1, 2), 1, ", unit=simt"), "randint", [3]string{"f16", "f16", "f32"}, 16, 16, 8)
	if matrices(f) != 0 {
		t.Error("unit=simt uses matrix instructions")
	}
}

// TestDotSaysWhyNot wants each form and what it lacks in the refusal.
func TestDotSaysWhyNot(t *testing.T) {
	frag := ir.DotForms(dtype.F8E4M3, dtype.F8E4M3, dtype.F32)[0]
	p := parse(t, product("f8e4m3", "f8e4m3", "f32", frag.A, frag.B, frag.C, 1, ""))
	old, err := arch.Lookup("sm_80")
	if err != nil {
		t.Fatal(err)
	}
	_, err = lower.Lower(p, lower.Options{Arch: old})
	if err == nil || !strings.Contains(err.Error(), "needs sm_89, the target is sm_80") || !strings.Contains(err.Error(), "Lower.E2") {
		t.Errorf("fp8 on sm_80: %v", err)
	}
	p = parse(t, product("f16", "f16", "f32", layout.Spatial(8, 4).Local(2, 4), layout.Spatial(4, 8).Local(4, 1), layout.Spatial(8, 4).Local(2, 2), 1, ""))
	_, err = lower.Lower(p, lower.Options{Arch: old})
	for _, want := range []string{"16x8x16: operand a", "16x8x8: operand a", "by FMAs, thread 1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
