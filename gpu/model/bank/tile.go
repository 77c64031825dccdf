package bank

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// RowWise is an access of width bytes a lane in which lanesPerRow lanes go along each
// row of a tile with rows of rowBytes.
func RowWise(kind Kind, width, lanes, lanesPerRow, rowBytes int) Access {
	a := Access{Kind: kind, Width: width, Addrs: make([]int, lanes)}
	for l := range a.Addrs {
		a.Addrs[l] = l/lanesPerRow*rowBytes + l%lanesPerRow*width
	}
	return a
}

// ColumnWise is an access in which lane l has row l of a tile, at a byte of the row.
func ColumnWise(kind Kind, width, lanes, rowBytes, at int) Access {
	a := Access{Kind: kind, Width: width, Addrs: make([]int, lanes)}
	for l := range a.Addrs {
		a.Addrs[l] = l*rowBytes + at
	}
	return a
}

// LdMatrixTile is ldmatrix of the first 16 rows of a tile: lane l gives row l mod 16
// and the 16 bytes number l div 16, so that x4 loads the A fragment of mma.m16n8k16.
func LdMatrixTile(kind Kind, matrices, rowBytes int) Access {
	a := Access{Kind: kind, Width: 16, Matrices: matrices, Addrs: make([]int, 8*matrices)}
	for l := range a.Addrs {
		a.Addrs[l] = l%16*rowBytes + l/16*16
	}
	return a
}

// VoltaA are the two 16-byte loads of Volta's wmma.load.a of a row-major 16×16 f16
// matrix with rows of rowBytes: a quarter of the warp holds rows r … r+3 and
// r+8 … r+11, which is why no padding makes them free of conflicts.
//
// Source: measured maps of wmma on sm_70; Jia et al., Dissecting the NVIDIA Volta GPU.
func VoltaA(rowBytes int) []Access {
	var out []Access
	for part := range 2 {
		a := Access{Kind: Load, Width: 16, Addrs: make([]int, 32)}
		for l := range a.Addrs {
			row := l&3 | l>>2&1<<3 | l>>4&1<<2
			a.Addrs[l] = row*rowBytes + 16*part
		}
		out = append(out, a)
	}
	return out
}

// FromLayout is the accesses by which a warp moves a register tile to or from a shared
// tile: one access for each run of slots that fill width bytes, or for each matrix
// of ldmatrix and stmatrix. Thread t of the layout is lane t mod p.Lanes of warp
// t div p.Lanes; bits is the size of an element; the shared tile is row-major with
// rows of rowBytes, and place, if not nil, moves its bytes. The error says why the
// instruction cannot do it.
func FromLayout(p Profile, l layout.Layout, bits, rowBytes, warp int, kind Kind, width int, place func(int) int) ([]Access, error) {
	if kind.matrix() {
		width = 16
	}
	switch {
	case l.Rank() < 1 || l.Rank() > 2:
		return nil, fmt.Errorf("a layout of rank %d; give one of rows and columns", l.Rank())
	case bits < 8 || bits%8 != 0:
		return nil, fmt.Errorf("elements of %d bits have no address; view them as u8", bits)
	case warp < 0 || (warp+1)*p.Lanes > max(l.Threads(), p.Lanes):
		return nil, fmt.Errorf("no warp %d: the layout has %d threads", warp, l.Threads())
	case l.Threads() > 1024 || l.Slots() > 4096:
		return nil, fmt.Errorf("%d threads with %d slots; there may be 1024 and 4096", l.Threads(), l.Slots())
	}
	if place == nil {
		place = func(a int) int { return a }
	}
	bytes := bits / 8
	plain := func(thread, slot int) int {
		i := l.Index(thread, slot)
		if len(i) == 1 {
			return i[0] * bytes
		}
		return i[0]*rowBytes + i[1]*bytes
	}
	lanes := min(p.Lanes, l.Threads()-warp*p.Lanes)
	if kind.matrix() {
		return matrixAccesses(l, lanes, bytes, warp*p.Lanes, kind, plain, place)
	}
	if width < bytes || width%bytes != 0 || l.Slots()*bytes%width != 0 {
		return nil, fmt.Errorf("%d slots of %d bytes are not moved by accesses of %d bytes", l.Slots(), bytes, width)
	}
	per := width / bytes
	var out []Access
	for slot := 0; slot < l.Slots(); slot += per {
		a := Access{Kind: kind, Width: width, Addrs: make([]int, lanes)}
		for lane := range a.Addrs {
			t := warp*p.Lanes + lane
			for k := range per {
				if plain(t, slot+k) != plain(t, slot)+k*bytes {
					return nil, fmt.Errorf("slots %d to %d of thread %d are not %d bytes in a row of the tile; try a narrower access", slot, slot+per-1, t, width)
				}
			}
			a.Addrs[lane] = place(plain(t, slot))
		}
		out = append(out, a)
	}
	return out, nil
}

// matrixAccesses is FromLayout for ldmatrix and stmatrix: each 32-bit word of a lane
// is one 8×8 matrix whose row r lies with lanes 4r to 4r+3.
func matrixAccesses(l layout.Layout, lanes, bytes, first int, kind Kind, plain func(t, slot int) int, place func(int) int) ([]Access, error) {
	if lanes != 32 || bytes > 4 || l.Slots()*bytes%4 != 0 {
		return nil, fmt.Errorf("%s moves whole words of 32 lanes; this layout has %d bytes in each of %d lanes", kind, l.Slots()*bytes, lanes)
	}
	per := 4 / bytes
	words := l.Slots() / per
	var out []Access
	for done := 0; done < words; {
		n := 4
		for n > words-done {
			n /= 2
		}
		a := Access{Kind: kind, Width: 16, Matrices: n}
		for m := range n {
			for row := range 8 {
				start := plain(first+4*row, (done+m)*per)
				for q := range 4 {
					for k := range per {
						if plain(first+4*row+q, (done+m)*per+k) != start+4*q+k*bytes {
							return nil, fmt.Errorf("lanes %d to %d do not hold 16 bytes of one row in word %d: not the layout of %s", 4*row, 4*row+3, done+m, kind)
						}
					}
				}
				if start%16 != 0 {
					return nil, fmt.Errorf("the row of lanes %d to %d begins at byte %d, no multiple of 16", 4*row, 4*row+3, start)
				}
				a.Addrs = append(a.Addrs, place(start))
			}
		}
		out = append(out, a)
		done += n
	}
	return out, nil
}

// SwizzleTable is where a swizzle, counted in elements, puts the elements of a
// row-major tile: entry [row][column] is the physical column. sameRow says whether
// every element stays in its row.
func SwizzleTable(s layout.Swizzle, rows, cols int) (table [][]int, sameRow bool) {
	sameRow = true
	table = make([][]int, rows)
	for r := range table {
		table[r] = make([]int, cols)
		for c := range table[r] {
			at := s.Apply(r*cols + c)
			table[r][c] = at % cols
			sameRow = sameRow && at/cols == r
		}
	}
	return table, sameRow
}

// Latin says whether each row and each column of a table is free of repetitions: if
// entries are columns or banks, neither a row nor a column of the tile has a conflict.
func Latin(table [][]int) (rows, cols bool) {
	rows, cols = true, true
	var down []map[int]bool
	for _, row := range table {
		across := map[int]bool{}
		for c, v := range row {
			if c == len(down) {
				down = append(down, map[int]bool{})
			}
			rows, cols = rows && !across[v], cols && !down[c][v]
			across[v], down[c][v] = true, true
		}
	}
	return rows, cols
}
