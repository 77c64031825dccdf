package code

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
)

// rows is the table of instructions: those with names in Go, then the matrix
// instructions of gpu/arch that have none.
var rows = append(fixed[:], matrixRows()...)

// matrixRows makes the rows of the catalogue's warp-wide products. They have no
// constants of their own; [Lookup] finds them by name.
func matrixRows() []Row {
	have := map[string]bool{}
	for _, r := range fixed {
		have[r.Name] = true
	}
	var out []Row
	for _, f := range arch.Forms() {
		if !have[f.Name] {
			out = append(out, matrixRow(f))
		}
	}
	return out
}

// matrixRow is the row of one form: registers of A, B and C, then those of the
// metadata of a sparse A. D takes the registers of C where both have one type.
func matrixRow(f arch.Form) Row {
	bits, na, nb, nc, nd := f.Registers()
	t := B32
	if bits == 64 {
		t = B64
	}
	r := Row{Name: f.Name, Class: Matrix, Source: "PTX ISA 9.7.14 mma"}
	for range na + nb + nc {
		r.In = append(r.In, t)
	}
	for range nd {
		r.Out = append(r.Out, t)
	}
	if f.C == f.D {
		for k := range nc {
			r.Ties = append(r.Ties, Tie{k, na + nb + k})
		}
	}
	list := func(kind string, from, n int) string {
		var s []string
		for k := range n {
			s = append(s, fmt.Sprintf("{%s%d}", kind, from+k))
		}
		return "{" + strings.Join(s, ", ") + "}"
	}
	r.PTX = fmt.Sprintf("%s %s, %s, %s, %s", f.PTX, list("o", 0, nd), list("a", 0, na), list("a", na, nb), list("a", na+nb, nc))
	r.Doc = fmt.Sprintf("D[%d, %d] = A[%d, %d] · B[%d, %d] + C[%d, %d], inputs %s and %s, sums %s", f.M, f.N, f.M, f.K, f.K, f.N, f.M, f.N, f.A, f.B, f.D)
	if f.Blocks > 1 {
		r.Doc = fmt.Sprintf("%d products at once, of quadpairs: %s", f.Blocks, r.Doc)
	}
	if f.Selectors > 0 {
		r.In = append(r.In, B32)
		r.Imm = []ImmKind{ImmSelector}
		r.Selectors = f.Selectors
		r.PTX += fmt.Sprintf(", {a%d}, {i0x}", na+nb+nc)
		r.Doc += "; A is sparse, with metadata"
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(f.Since, "sm_")); err == nil && n > 80 {
		r.Since = Arch(n)
	}
	if f.ISA > "8.0" {
		r.ISA = f.ISA
	}
	return r
}
