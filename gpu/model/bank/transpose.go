package bank

import "github.com/tilus-lab/tilus-lab/vm/layout"

// TransposeStep is one way to keep a 32×32 tile of f32 in shared memory while it is
// transposed: a warp writes rows and reads columns, or with TMA the tile arrives by
// itself and the warp reads columns.
type TransposeStep struct {
	Name     string `json:"name"`
	Doc      string `json:"doc"`
	RowBytes int    `json:"row_bytes"`
	Bytes    int    `json:"bytes"` // of shared memory
	// Banks is the bank of each element [row][column].
	Banks [][]int `json:"banks"`
	// Rows and Cols: no row, no column of Banks has a bank twice; with both it is a
	// Latin square, and both directions are free of conflicts.
	Rows bool `json:"rows_are_permutations"`
	Cols bool `json:"cols_are_permutations"`
	// Chunks is, for the first 8 rows, which group of 4 banks each chunk of 16 bytes
	// lies in, and ChunkRows, ChunkCols the same two properties of it; nil where rows
	// are not aligned to chunks.
	Chunks    [][]int `json:"chunks,omitempty"`
	ChunkRows bool    `json:"chunk_rows_are_permutations"`
	ChunkCols bool    `json:"chunk_cols_are_permutations"`
	Write     Report  `json:"write"`
	Read      Report  `json:"read"`
	ByTMA     bool    `json:"by_tma"` // the write is not the warp's
}

// Transpose is the worked example of banks and swizzles: the 32×32 transpose through
// shared memory, plain, padded, swizzled, by TMA, and by TMA read 16 bytes at a time.
func Transpose() []TransposeStep {
	const n, size = 32, 4
	tma, err := FindTMAMode("128B")
	if err != nil {
		panic(err)
	}
	plain := func(a int) int { return a }
	steps := []struct {
		name, doc string
		rowBytes  int
		place     func(int) int
		wide, tma bool
	}{
		{"plain", "Rows of 128 bytes are one line of banks, so a column lies in one bank: 32 wavefronts instead of 1.", n * size, plain, false, false},
		{"padded", "One more word a row moves each row by a bank. It costs 128 bytes, and rows are no longer aligned for wider accesses.", (n + 1) * size, plain, false, false},
		{"swizzled", "Sw<5,2,5> on bytes: the column is XORed with the row. Every row and every column meets each bank once, a Latin square, at no cost in memory.", n * size,
			layout.Swizzle{Bits: 5, Base: 2, Shift: 5}.Apply, false, false},
		{"TMA 128B", "TMA's 128-byte mode moves chunks of 16 bytes by 8 row numbers: a column of words meets 8 banks, 4 rows in each.", n * size, tma.Apply, false, true},
		{"TMA 128B, 16-byte reads", "A lane that takes a whole chunk uses the pattern fully: the 8 rows of each phase lie in 8 different groups of 4 banks.", n * size, tma.Apply, true, true},
	}
	p := Nvidia()
	count := func(a Access, place func(int) int) Report {
		for l, at := range a.Addrs {
			a.Addrs[l] = place(at)
		}
		r, err := Count(p, a)
		if err != nil {
			panic(err)
		}
		return r
	}
	var out []TransposeStep
	for _, s := range steps {
		t := TransposeStep{Name: s.name, Doc: s.doc, RowBytes: s.rowBytes, Bytes: n * s.rowBytes, ByTMA: s.tma}
		for r := range n {
			var row []int
			for c := range n {
				row = append(row, s.place(r*s.rowBytes+c*size)/p.BankBytes%p.Banks)
			}
			t.Banks = append(t.Banks, row)
		}
		t.Rows, t.Cols = Latin(t.Banks)
		if s.rowBytes%chunk == 0 {
			for r := range 8 {
				var row []int
				for c := range n * size / chunk {
					row = append(row, s.place(r*s.rowBytes+c*chunk)%line/chunk)
				}
				t.Chunks = append(t.Chunks, row)
			}
			t.ChunkRows, t.ChunkCols = Latin(t.Chunks)
		}
		width := size
		if s.wide {
			width = chunk
		}
		t.Write = count(RowWise(Store, size, n, n, s.rowBytes), s.place)
		t.Read = count(ColumnWise(Load, width, n, s.rowBytes, 0), s.place)
		out = append(out, t)
	}
	return out
}
