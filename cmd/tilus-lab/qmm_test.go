package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestProgramsOfPresets prints each program of each preset and of kinds of all widths.
func TestProgramsOfPresets(t *testing.T) {
	kinds := append(qmm.Presets(), "u1", "u2 zero", "u3 group=64", "u4 zero=any", "u5 act=bf16", "i6 group=channel", "i7 rounded group=32 scale=bf16 act=bf16", "u8 zero", "f8e5m2 scale=f8e4m3")
	for _, kind := range kinds {
		for _, program := range []string{"decode", "wide", "prefill", "arrange", "gather", "pack", "unpack", "expand"} {
			var out, fail bytes.Buffer
			if code := execute([]string{"qmm", kind, "--program", program}, nil, &out, &fail); code != 0 || !bytes.HasPrefix(out.Bytes(), []byte("program ")) {
				t.Errorf("%s of %s: exit %d, %.80s%s", program, kind, code, out.String(), fail.String())
			}
		}
	}
}

// TestCompared holds that the product with plain weights is that of all rows and outputs, or of some where there are many.
func TestCompared(t *testing.T) {
	for _, c := range []struct{ m, n, k, rows, outputs int }{
		{1, 256, 512, 1, 256}, {16, 8192, 8192, 16, 8192}, {2048, 8192, 8192, 494, 494}, {1 << 24, 1, 8192, 244140, 1}, {1, 1 << 24, 8192, 1, 244140},
		{4, 1 << 24, 8192, 4, 61035}, {3, 5, 1 << 24, 3, 5}, {1 << 24, 1 << 24, 1 << 24, 10, 11},
	} {
		some, of := compared(c.m, c.n, c.k)
		rows, outputs := len(some.rows), len(some.outputs)
		all := rows == c.m && outputs == c.n
		if rows != c.rows || outputs != c.outputs || (of == "") != all || rows*outputs*c.k > mostProducts || some.rows[rows-1] >= c.m || some.outputs[outputs-1] >= c.n {
			t.Errorf("[%d, %d] times [%d, %d]: %d rows and %d outputs%s", c.m, c.k, c.n, c.k, rows, outputs, of)
		}
	}
	const m, n, k = 600, 7, 5 // rows in several parts
	x, w := iota(m, k), iota(n, k)
	call := qmm.Call{Bias: iota(1, n), Residual: iota(m, n)}
	all, _ := compared(m, n, k)
	some := sampled{spread(300, m), spread(3, n)}
	if !slices.Equal(some.outputs, []int{0, 2, 4}) {
		t.Errorf("three of seven are %v", some.outputs)
	}
	y, err := all.product(t.Context(), x, w, call)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m {
		for j := range n {
			want := float64(j) + float64(i*n+j)
			for e := range k {
				want += float64(i*k+e) * float64(j*k+e)
			}
			if got := y.At(i, j); got != want {
				t.Fatalf("y[%d, %d] is %v, not %v", i, j, got, want)
			}
		}
	}
	if part, err := some.product(t.Context(), x, w, call); err != nil || array.RelFro(some.pick(y), part) != 0 {
		t.Errorf("some of it: %v, %v", part, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := all.product(ctx, x, w, call); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// iota is the numbers from 0 on.
func iota(m, n int) *array.Array {
	a := array.New(dtype.F32, m, n)
	for i := range a.Len() {
		a.SetCode(i, dtype.F32.Encode(float64(i), false))
	}
	return a
}
