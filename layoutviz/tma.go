package layoutviz

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// TMA draws one copy of a box of a matrix by the tensor memory accelerator: on the
// left the tensor in global memory with the box at (row, column), whose part
// outside the tensor is filled; on the right the lines of 128 bytes of shared memory
// that the box goes to, in 8 chunks of 16 bytes, each with the row and the first
// element of the box that it holds. Base is the address in shared memory. The map
// must have two dimensions; bank.TensorMap counts the inner one (columns) first.
func TMA(m bank.TensorMap, row, col, base int, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	if err := m.Check().Err(); err != nil {
		return Picture{}, fmt.Errorf("layoutviz: %w", err)
	}
	if len(m.Dims) != 2 {
		return Picture{}, fmt.Errorf("layoutviz: a tensor map of %d dimensions; the picture is of 2", len(m.Dims))
	}
	swizzle := m.Swizzle
	if swizzle == "" {
		swizzle = "none"
	}
	mode, err := bank.FindTMAMode(swizzle)
	if err != nil {
		return Picture{}, err
	}
	if base < 0 || base%16 != 0 || base > 1<<20 {
		return Picture{}, fmt.Errorf("layoutviz: shared address %d; it must be a multiple of 16 from 0 to %d", base, 1<<20)
	}
	rows, cols := int(min(m.Dims[1], 1<<20)), int(min(m.Dims[0], 1<<20))
	boxRows, boxCols := m.Box[1], m.Box[0]
	const chunkBytes, lineBytes = 16, 128
	per := max(1, chunkBytes/m.ElementBytes)
	bytes := boxRows * boxCols * m.ElementBytes
	if row < -4096 || row > 1<<20 || col < -4096 || col > 1<<20 {
		return Picture{}, fmt.Errorf("layoutviz: the box begins at (%d, %d); draw one near the tensor", row, col)
	}
	if bytes%chunkBytes != 0 || bytes/chunkBytes > 1024 {
		return Picture{}, fmt.Errorf("layoutviz: a box of %d bytes; draw whole chunks of %d bytes, at most 1024 of them", bytes, chunkBytes)
	}
	// The window of the tensor: box and tensor corners near it, a cell a chunk of a row.
	r0, r1 := min(row, max(0, row-2)), max(row+boxRows, min(rows, row+boxRows+2))
	c0, c1 := min(col, max(0, col-2*per)), max(col+boxCols, min(cols, col+boxCols+2*per))
	c0 -= ((c0-col)%per + per) % per
	wr, wc := r1-r0, (c1-c0+per-1)/per
	if wr*wc > maxLabelled {
		return Picture{}, fmt.Errorf("layoutviz: %d chunks around the box; the most is %d", wr*wc, maxLabelled)
	}
	fillWord := "0"
	if m.FillNaN {
		fillWord = "NaN"
	}
	outside := 0
	inTensor := func(r, e int) bool { return r >= 0 && r < rows && e >= 0 && e < cols }
	for r := range boxRows {
		for e := range boxCols {
			if !inTensor(row+r, col+e) {
				outside++
			}
		}
	}
	longest := fmt.Sprintf("%d:%d", boxRows-1, boxCols-1)
	global := table{name: "global memory", heading: "global", rowAxis: "row", colAxis: "first column of each 16 bytes", rows: wr, cols: wc, small: true, labelled: true, linked: true, longest: longest, prefix: "g",
		rowHead: func(r int) string { return fmt.Sprint(r0 + r) }, colHead: func(i int) string { return fmt.Sprint(c0 + i*per) }}
	global.cell = func(r, i int) cell {
		tr, te := r0+r, c0+i*per
		br, be := tr-row, te-col
		in := br >= 0 && br < boxRows && be >= 0 && be < boxCols
		real := inTensor(tr, te)
		e := cell{fills: []string{c.paper}, id: fmt.Sprintf("%d.%d", tr, te), at: []int{tr, te}}
		switch {
		case in && real:
			e.fills[0], e.top = c.of(br), fmt.Sprintf("%d:%d", br, be)
			e.keys = []int{br*boxCols + be}
			e.label = fmt.Sprintf("tensor (%d, %d) is box (%d, %d)", tr, te, br, be)
		case in:
			e.fills[0], e.top = c.quiet, fillWord
			e.keys = []int{br*boxCols + be}
			e.label = fmt.Sprintf("box (%d, %d) lies outside the tensor and becomes %s", br, be, fillWord)
		case real:
			e.top, e.label = "·", fmt.Sprintf("tensor (%d, %d) is not in the box", tr, te)
		default:
			e.label = fmt.Sprintf("(%d, %d) is outside the tensor", tr, te)
		}
		return e
	}
	first := base / lineBytes * lineBytes
	lines := (base + bytes + lineBytes - 1 - first) / lineBytes
	type source struct{ r, e int }
	at := map[int]source{}
	for i := 0; i < bytes/chunkBytes; i++ {
		r, e := i*per/boxCols, i*per%boxCols
		at[m.At(base, e, r)/chunkBytes*chunkBytes] = source{r, e}
	}
	shared := table{name: "shared memory", heading: "shared", rowAxis: "byte", colAxis: "16-byte chunk of the line", rows: lines, cols: 8, small: true, labelled: true, linked: true, longest: longest, prefix: "s",
		rowHead: func(r int) string { return fmt.Sprint(first + r*lineBytes) }, colHead: func(i int) string { return fmt.Sprint(i) }}
	shared.cell = func(r, i int) cell {
		addr := first + r*lineBytes + i*chunkBytes
		e := cell{fills: []string{c.paper}, id: fmt.Sprint(addr), at: []int{r, i}, label: fmt.Sprintf("byte %d is not of the box", addr)}
		src, ok := at[addr]
		if !ok {
			return e
		}
		e.fills[0], e.top = c.of(src.r), fmt.Sprintf("%d:%d", src.r, src.e)
		if !inTensor(row+src.r, col+src.e) {
			e.fills[0] = c.quiet
		}
		e.keys = []int{src.r*boxCols + src.e}
		e.label = fmt.Sprintf("byte %d holds box (%d, %d) and on", addr, src.r, src.e)
		return e
	}
	title := fmt.Sprintf("TMA box %d×%d at (%d, %d), swizzle %s", boxRows, boxCols, row, col, mode.Name)
	caption := []string{title,
		fmt.Sprintf("tensor %d×%d of %d-byte elements; a cell is 16 bytes, r:c the row and column of the box that it begins with", rows, cols, m.ElementBytes),
		fmt.Sprintf("thick outline: the box; thick lines: the edge of the tensor; swizzle: %s", mode.Formula())}
	if outside > 0 {
		caption = append(caption, fmt.Sprintf("%s of the box lie outside the tensor and become %s", count(outside, "element"), fillWord))
	}
	c.row(o, caption, []table{global, shared})
	// The box and the tensor's edge.
	e := global.extent()
	x0, y0 := c.placed[0].X+e.left, c.placed[0].Y+headRoom
	edge := func(v, lo, hi int) int { return min(max(v, lo), hi) }
	cell := func(v int) int { return (v - c0 + per - 1) / per }
	left, right := edge(cell(0), 0, wc), edge(cell(cols), 0, wc)
	top, bottom := edge(-r0, 0, wr), edge(rows-r0, 0, wr)
	c.strong(c.ink, outlineIn(left, right, top, bottom, c0 <= 0, r0 <= 0, c1 >= cols, r1 >= rows, x0, y0, e.cw, e.ch)...)
	c.mark(c.accent, x0+cell(col)*e.cw, y0+(row-r0)*e.ch, (cell(col+boxCols)-cell(col))*e.cw, boxRows*e.ch)
	return c.picture(title, fmt.Sprintf("%s. %d lines of 128 bytes of shared memory from byte %d; %s.", title, lines, base, mode.Formula())), nil
}

// outlineIn are those sides of the tensor that lie in the window.
func outlineIn(left, right, top, bottom int, l, t, r, b bool, x0, y0, cw, ch int) []scene.Segment {
	var out []scene.Segment
	x1, x2, y1, y2 := x0+left*cw, x0+right*cw, y0+top*ch, y0+bottom*ch
	if l {
		out = append(out, scene.Segment{X1: x1, Y1: y1, X2: x1, Y2: y2})
	}
	if r {
		out = append(out, scene.Segment{X1: x2, Y1: y1, X2: x2, Y2: y2})
	}
	if t {
		out = append(out, scene.Segment{X1: x1, Y1: y1, X2: x2, Y2: y1})
	}
	if b {
		out = append(out, scene.Segment{X1: x1, Y1: y2, X2: x2, Y2: y2})
	}
	return out
}

// TMAChunks draws the pattern of a swizzle mode: which 16-byte chunk of a row of
// 128 bytes is found at each of the 8 positions, until the pattern repeats.
func TMAChunks(mode bank.TMAMode, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	chunks := mode.Chunks()
	t := table{rowAxis: "line", colAxis: "position of 16 bytes", rows: len(chunks), cols: len(chunks[0]), labelled: true, linked: true, longest: "00",
		rowHead: func(r int) string { return fmt.Sprint(r) }, colHead: func(i int) string { return fmt.Sprint(i) },
		cell: func(r, i int) cell {
			v := chunks[r][i]
			return cell{fills: []string{c.of(v)}, top: fmt.Sprint(v), id: fmt.Sprintf("l%dp%d", r, i), keys: []int{v}, at: []int{r, i}, slot: v,
				label: fmt.Sprintf("line %d position %d holds chunk %d", r, i, v)}
		}}
	say := fmt.Sprintf("swizzle mode %s: chunk found at each position of a line of 128 bytes", mode.Name)
	return t.draw(o, "TMA swizzle "+mode.Name, fmt.Sprintf("%s; the pattern repeats after %d bytes. %s.", say, mode.Repeat, mode.Formula()),
		[]string{"TMA swizzle " + mode.Name, fmt.Sprintf("%s; repeats after %d bytes", mode.Formula(), mode.Repeat)})
}
