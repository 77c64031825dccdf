package theatre

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// The most rows and columns of a tensor that are drawn.
const (
	maxArrayRows = 64
	maxArrayCols = 32
)

// Array draws a tensor of the host: the numbers of its last two dimensions, dark where
// they are large, matrix below matrix for those before. values are the first ones in
// row-major order; there may be fewer than the shape has.
func Array(name string, shape []int, values []float64, o layoutviz.Options) (layoutviz.Picture, error) {
	cols, size := 1, 1
	for _, n := range shape {
		size *= n
	}
	if len(shape) > 0 {
		cols = shape[len(shape)-1]
	}
	if len(shape) == 1 && cols > maxArrayCols {
		cols = 16 // a vector, in rows
	}
	shownCols := min(cols, maxArrayCols)
	rows := min((len(values)+cols-1)/cols, maxArrayRows)
	lo, hi := math.Inf(1), math.Inf(-1)
	wide := 3
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = strings.Replace(strconv.FormatFloat(v, 'g', 4, 64), "-", "−", 1)
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	for r := range rows {
		for c := range min(shownCols, len(values)-r*cols) {
			wide = max(wide, len([]rune(words[r*cols+c])))
		}
	}
	const high, top, left = 24, 74, 64
	cell := scene.Width(strings.Repeat("0", wide), 12) + 10
	s, err := newStage(left+shownCols*cell+pad, top+rows*high+pad, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	s.scene.W = max(s.scene.W, scene.Width(name, 15)+2*pad, 320)
	s.left(pad, 26, 15, true, name)
	about := fmt.Sprintf("%d elements", size)
	if lo <= hi {
		about += fmt.Sprintf(" from %s to %s", strconv.FormatFloat(lo, 'g', 4, 64), strconv.FormatFloat(hi, 'g', 4, 64))
	}
	if rows*cols < size || shownCols < cols {
		about += fmt.Sprintf("; %d rows of %d columns are shown", rows, shownCols)
	}
	s.note(pad, 44, 12, about)
	for c := range shownCols {
		s.text(left+c*cell+cell/2, top-8, 11, s.muted, scene.Middle, false, strconv.Itoa(c))
	}
	for r := range rows {
		head := r
		if len(shape) == 1 {
			head = r * cols
		}
		s.text(left-8, top+r*high+16, 11, s.muted, scene.End, false, strconv.Itoa(head))
		for c := range shownCols {
			k := r*cols + c
			if k >= len(values) {
				break
			}
			part := 0
			if hi > lo && !math.IsNaN(values[k]) {
				part = int(60 * (min(max(values[k], lo), hi) - lo) / (hi - lo))
			}
			fill := mix(s.scene.Paper, s.accent, part)
			index := unravel(shape, k)
			text := make([]string, len(index))
			for i, x := range index {
				text[i] = strconv.Itoa(x)
			}
			e := layoutviz.Element{ID: "a" + strings.Join(text, "."), Label: fmt.Sprintf("(%s) is %s", strings.Join(text, ", "), words[k]), X: left + c*cell, Y: top + r*high, W: cell, H: high, Keys: []int{k + 1}, Thread: -1, At: index}
			s.cell(e, fill, readable(fill), false, 12, words[k])
		}
	}
	s.grid(left, top, shownCols, rows, cell, high)
	s.frame(s.line, 1, left, top, shownCols*cell, rows*high)
	return s.picture(name, name+": "+about+"."), nil
}

// readable is the ink that stands out more from a fill.
func readable(fill string) string {
	if scene.Contrast(fill, "#1b1f24") >= scene.Contrast(fill, "#ffffff") {
		return "#1b1f24"
	}
	return "#ffffff"
}

func unravel(shape []int, k int) []int {
	index := slices.Clone(shape)
	for d := len(shape) - 1; d >= 0; d-- {
		index[d] = k % shape[d]
		k /= shape[d]
	}
	return index
}
