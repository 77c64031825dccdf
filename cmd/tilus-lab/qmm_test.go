package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

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

// TestFirstExample holds that x of the first example is no part of its weights, of which y would have a smaller error than of others.
func TestFirstExample(t *testing.T) {
	line, _, _ := strings.Cut(newQMM().Example, "\n")
	var out, fail bytes.Buffer
	if code := execute(append(strings.Fields(line)[1:], "--device", "interp"), nil, &out, &fail); code != 0 {
		t.Fatal(fail.String())
	}
	found := regexp.MustCompile(`relative error .*?([0-9.]+e-[0-9]+)`).FindAllStringSubmatch(out.String(), 2)
	if len(found) != 2 {
		t.Fatal(out.String())
	}
	var of [2]float64
	for i, f := range found {
		of[i], _ = strconv.ParseFloat(f[1], 64)
	}
	if ratio := of[1] / of[0]; !(ratio > 0.8 && ratio < 1.25) {
		t.Errorf("the weights' error is %g, that of y %g", of[0], of[1])
	}
}

// TestUsualWeights holds that kinds take the weights that there are where none are given.
func TestUsualWeights(t *testing.T) {
	for _, kind := range []string{"u1", "u4", "u8", "u4 zero", "u3 zero=any", "i4", "f4e2m1", "nvfp4"} {
		l, err := plainLayer(kind, "")
		if err == nil {
			_, _, err = l.quantised(t.Context())
		}
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestDryRunOrder holds that a list of schedules has the one that is taken without a search, then the others by what is expected of them.
func TestDryRunOrder(t *testing.T) {
	var out, fail bytes.Buffer
	if code := execute(strings.Fields("bench tune --dry-run --types u4 --shapes 1024x1024 --batches 16 --tries 0"), nil, &out, &fail); code != 0 {
		t.Fatal(fail.String())
	}
	var all []float64
	for _, f := range regexp.MustCompile(`([0-9.]+) µs est`).FindAllStringSubmatch(out.String(), -1) {
		us, _ := strconv.ParseFloat(f[1], 64)
		all = append(all, us)
	}
	if len(all) < 20 || !slices.IsSorted(all[1:]) {
		t.Errorf("%v", all)
	}
}

// TestRowsOnStandardOutput: rows that are measured go to standard output for -, and lines for people beside them elsewhere.
func TestRowsOnStandardOutput(t *testing.T) {
	t.Chdir(t.TempDir())
	var out, fail bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	cmd.SetErr(&fail)
	if beside(cmd, "", "rows.json") != cmd.OutOrStdout() || beside(cmd, "", "-") != cmd.ErrOrStderr() {
		t.Error("lines for people are not beside rows")
	}
	if err := writeJSON(cmd, "-", []qmm.Row{{M: 3}}); err != nil || !strings.Contains(out.String(), `"m": 3`) {
		t.Errorf("%v: %q", err, out.String())
	}
	if _, err := os.Stat("-"); err == nil {
		t.Error("there is a file -")
	}
}
