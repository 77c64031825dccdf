package arch

import (
	"fmt"
	"slices"
	"sync"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Matrix is one matrix instruction: D = A·B + C, A is [M, K], B is [K, N], C and
// D are [M, N]. LA, LB and LC say which lane holds which element in which slot;
// D lies as C.
type Matrix struct {
	Name       string // as the thread-code row
	M, N, K    int
	A, B, C    dtype.Type
	LA, LB, LC layout.Layout
	Since      string // first target
	Source     string
}

// matrixRow is a row as written; the layouts are text of the layout algebra.
type matrixRow struct {
	name       string
	m, n, k    int
	a, b, c    dtype.Type
	la, lb, lc string
	since      string
	source     string
}

const (
	ptxMMA   = "PTX ISA 9.0, Matrix Fragments for mma.m16n8k16 with floating point type"
	a16x16   = "column_local(2, 2).spatial(8, 4).local(1, 2)"
	b16x8    = "local(2, 1).column_spatial(4, 8).local(2, 1)"
	cd16x8   = "local(2, 1).spatial(8, 4).local(1, 2)"
	mma16816 = "mma.m16n8k16"
)

var matrixRows = []matrixRow{
	{mma16816 + ".f32.f16", 16, 8, 16, dtype.F16, dtype.F16, dtype.F32, a16x16, b16x8, cd16x8, "sm_80", ptxMMA},
	{mma16816 + ".f16.f16", 16, 8, 16, dtype.F16, dtype.F16, dtype.F16, a16x16, b16x8, cd16x8, "sm_80", ptxMMA},
	{mma16816 + ".f32.bf16", 16, 8, 16, dtype.BF16, dtype.BF16, dtype.F32, a16x16, b16x8, cd16x8, "sm_80", ptxMMA},
}

var loadMatrices = sync.OnceValues(func() ([]Matrix, error) { return load(matrixRows) })

// Matrices is the catalogue. A row whose layouts do not cover its shape once
// each over 32 lanes does not load: that is a slip in this file, and panics.
func Matrices() []Matrix {
	rows, err := loadMatrices()
	if err != nil {
		panic(err)
	}
	return slices.Clone(rows)
}

func load(rows []matrixRow) ([]Matrix, error) {
	out := make([]Matrix, 0, len(rows))
	for _, r := range rows {
		m := Matrix{Name: r.name, M: r.m, N: r.n, K: r.k, A: r.a, B: r.b, C: r.c, Since: r.since, Source: r.source}
		for _, f := range []struct {
			operand string
			text    string
			dst     *layout.Layout
			shape   []int
		}{{"A", r.la, &m.LA, []int{r.m, r.k}}, {"B", r.lb, &m.LB, []int{r.k, r.n}}, {"C", r.lc, &m.LC, []int{r.m, r.n}}} {
			l, err := layout.Parse(f.text)
			if err != nil {
				return nil, fmt.Errorf("arch: %s operand %s: %w", r.name, f.operand, err)
			}
			if !slices.Equal(l.Shape(), f.shape) || l.Threads() != LanesPerWarp || l.Threads()*l.Slots() != l.Size() {
				return nil, fmt.Errorf("arch: %s operand %s: %s is %v over %d lanes × %d slots, not %v once over %d", r.name, f.operand, l, l.Shape(), l.Threads(), l.Slots(), f.shape, LanesPerWarp)
			}
			*f.dst = l
		}
		if _, err := Lookup(r.since); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}
