package bank

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

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

// Tile is a row-major tile in shared memory whose accesses are to be placed.
type Tile struct {
	Rows, Cols int // Rows is 0 where it does not matter
	Bytes      int // of an element
}

// RowBytes is the length of a row.
func (t Tile) RowBytes() int { return t.Cols * t.Bytes }

var elementNames = []struct {
	names []string
	bytes int
}{
	{[]string{"f64", "fp64", "double"}, 8}, {[]string{"f32", "fp32", "float", "tf32", "i32", "u32", "words"}, 4},
	{[]string{"f16", "fp16", "bf16", "half", "halves", "i16", "u16"}, 2}, {[]string{"f8", "fp8", "i8", "u8", "byte", "bytes"}, 1},
}

var (
	tileWord = regexp.MustCompile(`[A-Za-z]\w*`)
	tileGrid = regexp.MustCompile(`(\d+) × (\d+)`)
	tileRow  = regexp.MustCompile(`(\d+)`)
)

// ParseTile reads a tile in words: "fp32 32x32", "f16[64, 32]" or "64-half rows".
func ParseTile(text string) (Tile, error) {
	var t Tile
	if len(text) > maxText {
		return t, fmt.Errorf("a tile in %d characters", len(text))
	}
	if strings.Count(text, "[") != strings.Count(text, "]") {
		return t, fmt.Errorf("a bracket of %q is not closed; write it as f16[16, 64]", text)
	}
	for _, w := range tileWord.FindAllString(strings.ToLower(text), -1) {
		for _, e := range elementNames {
			if t.Bytes == 0 && slices.Contains(e.names, w) {
				t.Bytes = e.bytes
			}
		}
	}
	if t.Bytes == 0 {
		return t, fmt.Errorf("%q names no element type, as in f16[16, 64]", text)
	}
	// The digits of element types are no sizes.
	plain := tileWord.ReplaceAllStringFunc(strings.NewReplacer("][", "×", ",", "×", "x", "×").Replace(text), func(string) string { return " " })
	plain = strings.NewReplacer("[", " ", "]", " ", "×", " × ").Replace(plain)
	plain = strings.Join(strings.Fields(plain), " ")
	var err error
	if g := tileGrid.FindStringSubmatch(plain); g != nil {
		if t.Rows, err = strconv.Atoi(g[1]); err == nil {
			t.Cols, err = strconv.Atoi(g[2])
		}
	} else if n := tileRow.FindString(plain); n != "" {
		t.Cols, err = strconv.Atoi(n)
	} else {
		return t, fmt.Errorf("%q has no sizes, as in f16[16, 64]", text)
	}
	if err != nil || t.Cols < 1 || t.Rows < 0 || t.Cols > 1<<14 || t.Rows > 1<<14 {
		return t, fmt.Errorf("the sizes of %q lie outside 1 to %d", text, 1<<14)
	}
	return t, nil
}

var (
	laneCount  = regexp.MustCompile(`(\d+) lanes per row`)
	byteCount  = regexp.MustCompile(`(\d+)[- ]byte|(?:^| )b(\d+)`)
	matrixForm = regexp.MustCompile(`(ldmatrix|stmatrix)(?:\.x([124]))?`)
)

// Pattern is the access of a tile that a text names: "row", "column", "16-byte row
// store", "16-byte store, 4 lanes per row", "ldmatrix.x4", "volta wmma A". Without a
// width, lanes take one element each.
func (t Tile) Pattern(text string) ([]Pattern, error) {
	low := strings.ToLower(strings.TrimSpace(text))
	kind, width := Load, t.Bytes
	if strings.Contains(low, "store") || strings.Contains(low, "write") {
		kind = Store
	}
	if m := byteCount.FindStringSubmatch(low); m != nil {
		n, err := strconv.Atoi(cmp.Or(m[1], m[2]))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if width = n; m[1] == "" {
			width = n / 8
		}
	}
	name := strings.TrimSpace(text)
	switch {
	case strings.Contains(low, "volta"):
		var out []Pattern
		for i, a := range VoltaA(t.RowBytes()) {
			out = append(out, Pattern{Name: fmt.Sprintf("%s, load %d", name, i+1), Access: a})
		}
		return out, nil
	case matrixForm.MatchString(low):
		m := matrixForm.FindStringSubmatch(low)
		n := 4
		if m[2] != "" {
			n = int(m[2][0] - '0')
		}
		if kind = LdMatrix; m[1] == "stmatrix" {
			kind = StMatrix
		}
		return []Pattern{{Name: name, Access: LdMatrixTile(kind, n, t.RowBytes())}}, nil
	case strings.Contains(low, "column"):
		return []Pattern{{Name: name, Access: ColumnWise(kind, width, 32, t.RowBytes(), 0)}}, nil
	case strings.Contains(low, "row"):
		if width < 1 || width > 16 || t.RowBytes() < width {
			return nil, fmt.Errorf("%q: rows of %d bytes in accesses of %d", text, t.RowBytes(), width)
		}
		lanes := min(32, t.RowBytes()/width)
		if m := laneCount.FindStringSubmatch(low); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil || n < 1 || n*width > t.RowBytes() {
				return nil, fmt.Errorf("%q: %s lanes of %d bytes do not fit a row of %d", text, m[1], width, t.RowBytes())
			}
			lanes = n
		}
		return []Pattern{{Name: name, Access: RowWise(kind, width, 32, lanes, t.RowBytes())}}, nil
	}
	return nil, fmt.Errorf("no access pattern %q; write row, column, 16-byte row store, ldmatrix.x4 or volta", text)
}
