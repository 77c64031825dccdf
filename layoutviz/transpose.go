package layoutviz

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// side32 is the side of the tile of the worked example, in elements of 4 bytes: one
// row is all 32 banks.
const side32 = 32

// Transposition is one way to lay out a 32×32 tile of 4-byte elements in shared
// memory, for a warp that writes rows and reads columns. At is the byte address of
// an element.
type Transposition struct {
	Name string
	Doc  string
	At   func(row, col int) int
}

// Transpositions lists the four ways of the worked example: plain, padded, with a
// swizzle, and as TMA's 128-byte mode leaves it.
func Transpositions() []Transposition {
	plain := func(r, c int) int { return (r*side32 + c) * 4 }
	xor := layout.Swizzle{Bits: 5, Base: 2, Shift: 5}
	tma := layout.Swizzle{Bits: 3, Base: 4, Shift: 3}
	return []Transposition{
		{"plain", "rows of 128 bytes: a column lies in one bank", plain},
		{"padded", "rows of 132 bytes: each row begins one bank further", func(r, c int) int { return (r*(side32+1) + c) * 4 }},
		{"swizzled", xor.String() + " on bytes: bank = column XOR row", func(r, c int) int { return xor.Apply(plain(r, c)) }},
		{"TMA 128B", tma.String() + " on bytes: chunks of 16 bytes move, so four rows share a bank", func(r, c int) int { return tma.Apply(plain(r, c)) }},
	}
}

// Cost counts what writing row 0 and reading column 0 cost, and whether every row
// and every column of the tile has each bank once: a Latin square.
func (t Transposition) Cost() (write, read bank.Report, latin bool, err error) {
	rows, cols := make([]int, side32), make([]int, side32)
	for i := range side32 {
		rows[i], cols[i] = t.At(0, i), t.At(i, 0)
	}
	if write, err = bank.Count(bank.Nvidia(), bank.Access{Kind: bank.Store, Width: 4, Addrs: rows}); err != nil {
		return write, read, false, err
	}
	if read, err = bank.Count(bank.Nvidia(), bank.Access{Kind: bank.Load, Width: 4, Addrs: cols}); err != nil {
		return write, read, false, err
	}
	latin = true
	for i := range side32 {
		var row, col uint64
		for k := range side32 {
			row |= 1 << (t.At(i, k) / 4 % side32)
			col |= 1 << (t.At(k, i) / 4 % side32)
		}
		latin = latin && row == 1<<side32-1 && col == 1<<side32-1
	}
	return write, read, latin, nil
}

// Transpose draws the worked example: the bank of every element of the tile in each
// of the four ways, with the column that a warp reads outlined, and what writing
// rows and reading columns cost.
func Transpose(o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	const cw, ch, gap, top = 17, 14, 34, 62
	panelW, panelH := 26+side32*cw, top+side32*ch
	c.w = 2*pad + 2*panelW + gap
	y := pad
	if !o.NoCaption {
		y = c.caption([]string{"32×32 transpose through shared memory",
			"the number is the bank of an element of 4 bytes; a warp writes rows and reads columns; column 0 is outlined"}, y)
	}
	desc := "A warp writes rows of a 32×32 tile of 4-byte elements and reads its columns."
	for i, t := range Transpositions() {
		write, read, latin, err := t.Cost()
		if err != nil {
			return Picture{}, fmt.Errorf("layoutviz: %s: %w", t.Name, err)
		}
		x, y := pad+i%2*(panelW+gap), y+i/2*(panelH+20)
		say := fmt.Sprintf("write a row: %s; read a column: %s", count(write.Wavefronts, "wavefront"), count(read.Wavefronts, "wavefront"))
		square := "no Latin square"
		if latin {
			square = "a Latin square: each bank once in every row and column"
		}
		desc += fmt.Sprintf(" %s (%s): %s; %s.", t.Name, t.Doc, say, square)
		c.text(x, y+12, capSize, c.ink, scene.Start, true, t.Name)
		c.text(x, y+28, headSize, c.muted, scene.Start, false, t.Doc)
		c.text(x, y+42, headSize, c.ink, scene.Start, false, say+"; "+map[bool]string{true: "Latin square", false: "no Latin square"}[latin])
		g := Grid{Title: fmt.Sprintf("%s: %s; %s", t.Name, say, square), Head: cuteHead(side32)}
		x0, y0 := x+26, y+top
		for col := range side32 {
			if col%4 == 0 {
				c.text(x0+col*cw+cw/2, y0-4, tinySize, c.muted, scene.Middle, false, fmt.Sprint(col))
			}
		}
		for r := range side32 {
			if r%4 == 0 {
				c.text(x0-4, y0+r*ch+10, tinySize, c.muted, scene.End, false, fmt.Sprint(r))
			}
			row := []string{fmt.Sprint(r)}
			for col := range side32 {
				b := t.At(r, col) / 4 % side32
				fill := c.of(b)
				c.fill(fill, x0+col*cw, y0+r*ch, cw, ch)
				c.text(x0+col*cw+cw/2, y0+r*ch+10, tinySize, c.inkOn(fill), scene.Middle, false, fmt.Sprint(b))
				c.ids = append(c.ids, Element{ID: fmt.Sprintf("w%dr%dc%d", i, r, col), X: x0 + col*cw, Y: y0 + r*ch, W: cw, H: ch, Keys: []int{r*side32 + col},
					Label: fmt.Sprintf("%s: element (%d, %d) lies at byte %d, bank %d", t.Name, r, col, t.At(r, col), b), Thread: col, Slot: r, At: []int{r, col}})
				row = append(row, fmt.Sprint(b))
			}
			g.Rows = append(g.Rows, row)
		}
		c.frame(x0, y0, side32*cw, side32*ch)
		mark := c.accent
		if read.Conflicts > 0 {
			mark = c.alarm
		}
		c.mark(mark, x0, y0, cw, side32*ch)
		c.grids = append(c.grids, g)
	}
	c.h = y + 2*panelH + 20 + pad
	return c.picture("32×32 transpose through shared memory, four ways", desc), nil
}
