package fusion

import (
	"fmt"
	"math"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/traffic"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/affine"
)

// The corner of a tensor that is drawn, in elements, and the most points of maps that are
// looked at for it.
const (
	maxRows, maxColumns = 36, 64
	maxSingle           = 32 // columns where threads handle single elements
	maxPoints           = 1 << 19
)

// owner is who handles an element first.
type owner struct {
	block, thread int
	turn          string
	n             int // times that it is handled
}

// Threads draws a corner of a tensor of a kernel, each element with the thread that reads or
// writes it. Neighbouring elements of one access are one box; thick lines part blocks.
func Threads(k traffic.Kernel, tensor string, kind traffic.Kind, o layoutviz.Options) (layoutviz.Picture, error) {
	var list []traffic.Access
	for _, a := range k.Accesses {
		if a.Tensor == tensor && a.Kind == kind {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return layoutviz.Picture{}, fmt.Errorf("fusion: kernel %s has no %s of %s", k.Name, kind, tensor)
	}
	vector := 1
	for _, a := range list {
		vector = max(vector, a.Vector)
	}
	most := maxColumns
	if vector == 1 {
		most = maxSingle
	}
	dims := list[0].Shape.Dims
	columns := 1
	if len(dims) > 0 {
		columns = dims[len(dims)-1]
	}
	total := 1
	for _, n := range dims {
		total *= n
	}
	if len(dims) < 2 {
		columns = min(total, most) // a vector is wrapped
	}
	rows := (total + columns - 1) / max(columns, 1)
	w, h := min(columns, most), min(rows, maxRows)
	owners := make([]owner, w*h)
	for i, a := range list {
		turn := "" // of straight code
		if len(list) > 1 {
			turn = fmt.Sprint(i)
		}
		if err := claim(a, turn, dims, columns, w, h, owners); err != nil {
			return layoutviz.Picture{}, err
		}
	}
	cell := max(14, min(34, 1060/max(w, 1)))
	if vector > 1 {
		cell = max(12, min(26, 1060/max(w, 1)))
	}
	const cellH = 22
	const head = 40 // where the numbers of rows stand
	left := pad + head
	s, err := newSheet(max(left+w*cell+pad, 520), o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	title := fmt.Sprintf("%s: %s of %s", k.Name, kind, tensor)
	corner := ""
	if w < columns || h < rows {
		corner = fmt.Sprintf(", its first %d rows and %d columns", h, w)
	}
	verb := map[traffic.Kind]string{traffic.Read: "reads", traffic.Write: "writes", traffic.Atomic: "combines", traffic.SharedRead: "reads", traffic.SharedWrite: "writes"}[kind]
	desc := fmt.Sprintf("Which thread %s which element of %s%s%s. A box is what one thread %s at once: T5 is thread 5 of the block, the small figures its turn; thick lines part blocks.", verb, tensor, strings.ReplaceAll(fmt.Sprint(dims), " ", ", "), corner, verb)
	y := s.para(pad, pad, s.w-2*pad, bigSize, s.ink, true, title)
	y = s.para(pad, y+2, s.w-2*pad, noteSize, s.muted, false, desc)
	y = s.para(pad, y+2, s.w-2*pad, noteSize, s.accent, false, list[0].Map.String()) + 30
	rowAxis, colAxis, step := "row ↓", "column →", 1
	if len(dims) < 2 {
		rowAxis, colAxis, step = "from ↓", "element, counted on →", columns
	}
	s.text(left, y-17, tinySize, s.muted, scene.Start, false, colAxis)
	s.text(left-5, y-5, tinySize, s.muted, scene.End, false, rowAxis)
	for c := 0; c < w; c += 4 {
		s.text(left+c*cell+cell/2, y-5, tinySize, s.muted, scene.Middle, false, fmt.Sprint(c))
	}
	for r := range h {
		s.text(left-5, y+r*cellH+14, tinySize, s.muted, scene.End, false, fmt.Sprint(r*step))
	}
	for r := range h {
		for c := 0; c < w; {
			own := owners[r*w+c]
			end := c + 1
			for end < w && own.n > 0 && same(owners[r*w+end], own) {
				end++
			}
			x, bw := left+c*cell, (end-c)*cell
			top := y + r*cellH
			if own.n == 0 {
				s.box(scene.Mix(s.line, s.paper, 85), x, top, bw, cellH)
			} else {
				color := s.color(own.thread % 32)
				s.box(color, x, top, bw, cellH)
				name := fmt.Sprintf("T%d", own.thread)
				if own.n > 1 {
					name += "…"
				}
				size := noteSize
				if scene.Width(name, size) > bw-1 {
					size = tinySize
				}
				if scene.Width(name, size) <= bw+2 {
					down := 14
					if own.turn != "" && bw >= 20 {
						down = 10
						s.text(x+bw/2, top+19, 7, s.on(color), scene.Middle, false, own.turn)
					}
					s.text(x+bw/2, top+down, size, s.on(color), scene.Middle, false, name)
				}
				label := fmt.Sprintf("row %d, columns %d to %d: thread %d of block %d", r, c, end-1, own.thread, own.block)
				if own.n > 1 {
					label += fmt.Sprintf(", the first of %d times", own.n)
				}
				s.ids = append(s.ids, layoutviz.Element{ID: fmt.Sprintf("e%d.%d", r, c), Label: label, X: x, Y: top, W: bw, H: cellH,
					Keys: []int{own.block<<12 + own.thread}, Thread: own.thread, At: []int{r, c}})
			}
			s.frame(s.paper, 1, x, top, bw, cellH)
			c = end
		}
	}
	border := func(a, b owner) (color string, width float64) {
		if a.block != b.block && a.n > 0 && b.n > 0 {
			return s.ink, 2.5
		}
		if a.thread/32 != b.thread/32 {
			return s.line, 1.25
		}
		return "", 0
	}
	for r := range h {
		for c := range w {
			x, top := left+c*cell, y+r*cellH
			if c > 0 {
				if color, width := border(owners[r*w+c-1], owners[r*w+c]); width > 0 {
					s.stroke(color, width, x, top, x, top+cellH)
				}
			}
			if r > 0 {
				if color, width := border(owners[(r-1)*w+c], owners[r*w+c]); width > 0 {
					s.stroke(color, width, x, top, x+cell, top)
				}
			}
		}
	}
	s.frame(s.ink, 1.25, left, y, w*cell, h*cellH)
	return s.picture(y+h*cellH+pad, title, desc), nil
}

func same(a, b owner) bool {
	return a.n > 0 && a.block == b.block && a.thread == b.thread && a.turn == b.turn
}

// claim finds who handles the elements of the corner, in the first blocks.
func claim(a traffic.Access, turn string, dims []int, columns, w, h int, owners []owner) error {
	m := a.Map
	if m.Undefined() || m.KnownEmpty() {
		return nil
	}
	// Blocks are what there may be too many of; the first ones handle the corner.
	vars := make([]affine.Variable, len(m.Dims))
	points := 1.0
	place := map[string]int{}
	for i, v := range m.Dims {
		vars[i], place[v.Name] = v, i
		points *= float64(v.Range.Hi - v.Range.Lo + 1)
	}
	for _, v := range append(append([]affine.Variable{}, m.Ranges...), m.Runtime...) {
		points *= float64(v.Range.Hi - v.Range.Lo + 1)
	}
	for _, name := range []string{"bl_z", "bl_y", "bl_x"} {
		i, ok := place[name]
		if !ok || points <= maxPoints {
			continue
		}
		n := float64(vars[i].Range.Hi - vars[i].Range.Lo + 1)
		keep := math.Max(1, math.Floor(n*maxPoints/points))
		vars[i].Range.Hi = vars[i].Range.Lo + int64(keep) - 1
		points *= keep / n
	}
	runtime := make([]affine.Variable, len(m.Runtime))
	for i, v := range m.Runtime { // any of them will do
		v.Range.Hi = v.Range.Lo
		runtime[i] = v
	}
	m, err := affine.NewMap(vars, m.Ranges, runtime, m.Results, m.Constraints)
	if err != nil {
		return fmt.Errorf("fusion: %w", err)
	}
	get := func(at []int64, name string) int {
		if i, ok := place[name]; ok {
			return int(at[i])
		}
		return 0
	}
	last := len(m.Ranges)
	if last > 0 && m.Ranges[last-1].Name == "v" && a.Vector > 1 {
		last--
	}
	return m.Points(1<<22, func(at, symbols, results []int64) error {
		n := 0
		for i, x := range results {
			n = n*dims[i] + int(x)
		}
		r, c := n/columns, n%columns
		if r >= h || c >= w || n < 0 {
			return nil
		}
		own := &owners[r*w+c]
		own.n++
		if own.n > 1 {
			return nil
		}
		own.thread = get(at, "th_x")
		own.block = get(at, "bl_x") + get(at, "bl_y")<<20 + get(at, "bl_z")<<40
		own.turn = turn
		for i := range last {
			if own.turn != "" {
				own.turn += "."
			}
			own.turn += fmt.Sprint(symbols[i])
		}
		if a.Vector > 1 && len(symbols) > last && m.Ranges[last].Range.Hi >= int64(a.Vector) {
			own.turn += fmt.Sprintf("/%d", symbols[last]/int64(a.Vector))
		}
		return nil
	})
}

// Access draws the worst request of a warp: the sectors of global memory that it touches, or
// the banks of shared memory.
func Access(a traffic.Access, o layoutviz.Options) (layoutviz.Picture, error) {
	width := max(1, a.Vector*a.Bits/8)
	if !a.Shared() {
		return layoutviz.Sectors(width, a.Worst, o)
	}
	kind := bank.Store
	if a.Kind == traffic.SharedRead {
		kind = bank.Load
	}
	r, err := bank.Count(bank.Nvidia(), bank.Access{Kind: kind, Width: width, Addrs: a.Worst})
	if err != nil {
		return layoutviz.Picture{}, fmt.Errorf("fusion: %w", err)
	}
	return layoutviz.Banks(r, o)
}
