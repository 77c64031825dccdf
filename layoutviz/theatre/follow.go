package theatre

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Uses are the dot products that an element of A or B goes into, or that make an
// element of D, in order.
func Uses(r *volta.Run, matrix string, row, col int) ([]volta.Dot, error) {
	if matrix != "A" && matrix != "B" && matrix != "D" {
		return nil, fmt.Errorf("theatre: elements of A, B and D can be followed, not of %.20q", matrix)
	}
	if row < 0 || row >= volta.Size || col < 0 || col >= volta.Size {
		return nil, fmt.Errorf("theatre: there is no %s[%d,%d]; rows and columns are 0 to %d", matrix, row, col, volta.Size-1)
	}
	if matrix == "D" {
		return r.History(row, col), nil
	}
	var out []volta.Dot
	for _, d := range r.Dots {
		if matrix == "A" && d.Row == row && d.K <= col && col < d.K+4 || matrix == "B" && d.Column == col && d.K <= row && row < d.K+4 {
			out = append(out, d)
		}
	}
	return out, nil
}

// Follow is the way of one element of A, B or D in one picture: its place in shared
// memory, the lanes that hold it and the registers they hold it in, the instructions
// that use it, and what the dot-product units of instruction n do with it. Instructions count
// from 1; n 0 is the first that uses it. Elements share their Keys with the other
// pictures of a product.
func Follow(r *volta.Run, matrix string, row, col, n int, o layoutviz.Options) (layoutviz.Picture, error) {
	uses, err := Uses(r, matrix, row, col)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	if n < 0 || n > len(r.Instrs) {
		return layoutviz.Picture{}, fmt.Errorf("theatre: no instruction %d; there are 1 to %d", n, len(r.Instrs))
	}
	if n == 0 {
		n = uses[0].Instr + 1
	}
	moves, err := r.Setup.Moves(matrix, volta.Size)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	atom, err := r.Setup.Atom()
	if err != nil {
		return layoutviz.Picture{}, err
	}
	operand, _ := atom.Operand(matrix)
	me := volta.Cell{Matrix: matrix, Row: row, Col: col}
	key := func(c volta.Cell) int { return firstKey(matrix) + 16*c.Row + c.Col }
	const mw, mh, label = 16, 18, 62
	s, err := newStage(2*pad+label+64*mw, 0, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	yellow := "#ffd54a"
	holders := r.Holders(me)
	var value float64
	switch matrix {
	case "A":
		value = r.A[row][col]
	case "B":
		value = r.B[row][col]
	default:
		value = r.Sums(n)[row][col]
	}
	title := fmt.Sprintf("Follow %s: from shared memory through registers into HMMA", me)
	verb, by := "loads", "taken by"
	if matrix == "D" {
		title = fmt.Sprintf("Follow %s: from HMMA through registers into shared memory", me)
		verb, by = "stores", "made by"
	}
	s.left(pad, 30, 19, true, title)

	// 1: shared memory.
	width := moves[0].Bytes / len(moves[0].Cells)
	perWord := 4 / width
	w := mw * 2 / perWord
	lines := volta.Size * volta.Size * width / 128
	y := 86
	var where string
	var which []string
	seen := map[volta.Cell]bool{}
	mine := map[volta.Cell]bool{} // moved with it
	for _, m := range moves {
		if slices.Contains(m.Cells, me) {
			which = append(which, fmt.Sprintf("lane %d %s %d bytes at byte %d (R%d to R%d)", m.Lane, verb, m.Bytes, m.Address, m.Registers.First, m.Registers.Last))
			for _, c := range m.Cells {
				mine[c] = true
			}
		}
	}
	s.left(pad, y-22, 13, true, "1  shared memory")
	for b := 0; b < 32; b += 4 {
		s.text(pad+label+b*2*mw+mw, y-5, 9.5, s.muted, scene.Middle, false, fmt.Sprintf("bank %d", b))
	}
	var here [2]int
	for _, m := range moves {
		for i, c := range m.Cells {
			if seen[c] {
				continue
			}
			seen[c] = true
			at := m.Address + i*width
			e := layoutviz.Element{ID: fmt.Sprintf("s%d.%d", c.Row, c.Col), X: pad + label + at%128/width*w, Y: y + at/128*mh, W: w, H: mh, Keys: []int{key(c)}}
			said := held(r, c, &e)
			e.Label = fmt.Sprintf("%s at byte %d, bank %d, %s [P]", c, at, at/4%32, said)
			fill, ink := mix(s.groupColor(e.Thread/4), s.scene.Paper, 72), s.muted
			if mine[c] {
				fill = mix(s.groupColor(e.Thread/4), s.scene.Paper, 20)
				ink = inkOn(fill)
			}
			if c == me {
				fill, ink = yellow, "#1b1f24"
				here = [2]int{e.X, e.Y}
				where = fmt.Sprintf("byte %d, bank %d", at, at/4%32)
			}
			// Along memory one index runs; where the other one changes, it stands.
			words, bold := fmt.Sprint(c.Col), c == me
			if moves[0].Cells[0].Col == moves[0].Cells[len(moves[0].Cells)-1].Col {
				words = fmt.Sprint(c.Row)
				if c.Row == 0 {
					words, bold = fmt.Sprintf("c%d", c.Col), true
				}
			} else if c.Col == 0 {
				words, bold = fmt.Sprintf("r%d", c.Row), true
			}
			s.cell(e, fill, ink, bold, 8.5, words)
		}
	}
	s.grid(pad+label, y, 32*perWord, lines, w, mh)
	s.frame(s.ink, 2.5, here[0], here[1], w, mh)
	for i := range lines {
		s.note(pad, y+i*mh+13, 10, fmt.Sprintf("byte %d", 128*i))
	}
	s.note(pad+150, 86-22, 11, fmt.Sprintf("%s lies at %s. %s [P]", me, where, upperFirst(strings.Join(which, "; "))))
	y += lines*mh + 48

	// 2: registers.
	const lane = 13
	slots := operand.Layout.Slots()
	cw := 336 / slots
	rx := pad + label
	s.left(pad, y-26, 13, true, "2  registers")
	var parts []string
	for _, h := range holders {
		parts = append(parts, fmt.Sprintf("lane %d, slot %d, R%d", h.Thread, h.Slot, r.Setup.Register(matrix, h.Slot)))
	}
	s.note(pad, y-10, 10, fmt.Sprintf("held %s: %s [P]", map[int]string{1: "once", 2: "twice"}[len(holders)], strings.Join(parts, "; ")))
	// A lane that holds one row, or one column, says so in front; then its cells need one number.
	along := func(t int) (row, col bool) {
		row, col = true, true
		first := operand.Layout.Index(t, 0)
		for k := range slots {
			at := operand.Layout.Index(t, k)
			row, col = row && at[0] == first[0], col && at[1] == first[1]
		}
		return row, col
	}
	for t := range 32 {
		gap := t / 4 * 2
		oneRow, oneCol := along(t)
		lead := fmt.Sprintf("lane %d", t)
		switch first := operand.Layout.Index(t, 0); {
		case oneRow:
			lead += fmt.Sprintf(" r%d", first[0])
		case oneCol:
			lead += fmt.Sprintf(" c%d", first[1])
		}
		for k := range slots {
			at := operand.Layout.Index(t, k)
			c := volta.Cell{Matrix: matrix, Row: at[0], Col: at[1]}
			e := layoutviz.Element{ID: fmt.Sprintf("f%d.%d", t, k), X: rx + k*cw, Y: y + t*lane + gap, W: cw, H: lane, Keys: []int{key(c)}, Thread: t, Slot: k, At: at,
				Label: fmt.Sprintf("%s in slot %d of lane %d, R%d [P]", c, k, t, r.Setup.Register(matrix, k))}
			fill, ink := mix(s.groupColor(t/4), s.scene.Paper, 72), s.muted
			words := fmt.Sprintf("%d,%d", c.Row, c.Col)
			switch {
			case oneRow:
				words = fmt.Sprint(c.Col)
			case oneCol:
				words = fmt.Sprint(c.Row)
			}
			bold := c == me
			if bold {
				fill, ink = yellow, "#1b1f24"
			}
			s.cell(e, fill, ink, bold, 8.5, words)
		}
		s.text(rx-6, y+t*lane+gap+10, 9, s.muted, scene.End, false, lead)
	}
	for _, h := range holders {
		s.frame(s.ink, 2.5, rx+h.Slot*cw, y+h.Thread*lane+h.Thread/4*2, cw, lane)
	}
	reads := "the numbers are row,column"
	switch row, col := along(0); {
	case row:
		reads = "r5: row 5; the numbers are columns"
	case col:
		reads = "c5: column 5; the numbers are rows"
	}
	s.note(pad, y+32*lane+30, 10, reads)
	s.note(pad, y+32*lane+44, 10, "[P]: as the vendor says; [S]: as the paper found out")
	bottom := y + 32*lane + 48

	// 3: instructions.
	hx := rx + 336 + 40
	hw := s.scene.W - pad - hx
	s.left(hx, y-26, 13, true, "3  HMMA")
	users := map[int]int{}
	for _, d := range uses {
		users[d.Instr]++
	}
	s.note(hx, y-10, 10, fmt.Sprintf("%s %d of %d instructions [S]", by, len(users), len(r.Instrs)))
	hy := y
	for i, in := range r.Instrs {
		fill, ink, bold := s.quiet, s.muted, false
		words := ""
		if k := users[i]; k > 0 {
			fill = mix(yellow, s.scene.Paper, 62)
			ink, bold = inkOn(fill), true
			words = fmt.Sprintf("%d dot products", k)
			if k == 1 {
				words = "1 dot product"
			}
		}
		if i == n-1 {
			fill, ink = yellow, "#1b1f24"
		}
		s.fill(fill, hx, hy, hw, 15)
		s.text(hx+4, hy+11, 9.5, ink, scene.Start, bold, fmt.Sprintf("%d.%d", in.Set-1, in.Step.Step))
		s.text(hx+32, hy+11, 9.5, ink, scene.Start, bold, fmt.Sprintf("k %d–%d  %s", in.K.First, in.K.Last, in.Text))
		s.text(hx+hw-6, hy+11, 9.5, ink, scene.End, bold, words)
		s.ids = append(s.ids, layoutviz.Element{ID: fmt.Sprintf("h%d", i), X: hx, Y: hy, W: hw, H: 15, Label: fmt.Sprintf("instruction %d of %d, set %d, step %d: %s; %d dot products with %s", i+1, len(r.Instrs), in.Set-1, in.Step.Step, in.Text, users[i], me)})
		if i == n-1 {
			s.frame(s.ink, 1.5, hx, hy, hw, 15)
		}
		hy += 16
	}
	hy += 24
	s.left(hx, hy, 13, true, fmt.Sprintf("4  what the units do with it in %d.%d", r.Instrs[n-1].Set-1, r.Instrs[n-1].Step.Step))
	hy += 10
	var last string
	shown := 0
	for _, d := range uses {
		if d.Instr != n-1 {
			continue
		}
		shown++
		fill := s.groupColor(d.Threadgroup())
		s.fill(fill, hx, hy+2, 8, 15)
		sum := fmt.Sprintf("%s + %s = %s", number(d.C), products(d), number(d.Sum.Result))
		words := fmt.Sprintf("octet %d, threadgroup %d, unit %d:  D[%d,%d] = %s", d.Octet, d.Threadgroup(), d.Unit, d.Row, d.Column, sum)
		size := 10.5
		for scene.Width(words, size) > hw-18 && size > 7 {
			size -= 0.5
		}
		s.text(hx+16, hy+13, size, s.ink, scene.Start, false, words)
		keys := []int{keyD + 16*d.Row + d.Column}
		for k := range 4 {
			keys = append(keys, keyA+16*d.Row+d.K+k, keyB+16*(d.K+k)+d.Column)
		}
		s.ids = append(s.ids, layoutviz.Element{ID: fmt.Sprintf("u%d", shown), X: hx, Y: hy + 2, W: hw, H: 16, Keys: keys, Thread: d.Lane, Label: words + fmt.Sprintf(", into lane %d [S]", d.Lane)})
		last = words
		hy += 18
	}
	if shown == 0 {
		s.note(hx, hy+14, 11, fmt.Sprintf("nothing: it does not need %s", me))
		hy += 18
	}
	s.scene.H = max(bottom, hy+8) + pad
	desc := fmt.Sprintf("%s = %s: %s in shared memory, %s, %s %d instructions.", me, full(value), where, strings.Join(parts, " and "), by, len(users))
	if last != "" {
		desc += fmt.Sprintf(" In instruction %d.%d, %s it.", r.Instrs[n-1].Set-1, r.Instrs[n-1].Step.Step, map[bool]string{true: "1 unit has", false: fmt.Sprintf("%d units have", shown)}[shown == 1])
	}
	s.note(pad, 46, 11, desc)
	return s.picture(title, desc), nil
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
