package theatre

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Numbers that elements of the pictures share in Keys: those of A, B and D, row-major.
const (
	keyA = 0
	keyB = 256
	keyD = 512
)

// groupColor is the colour of a threadgroup: its octet's, darker in the high one.
func (s *stage) groupColor(group int) string {
	c := s.octets[group%4]
	if group >= 4 {
		c = mix(c, "#000000", 14)
	}
	return c
}

// held is the first holder of an element, and the sentence about all of them.
func held(r *volta.Run, c volta.Cell, e *layoutviz.Element) string {
	h := r.Holders(c)
	e.Thread, e.Slot, e.Also, e.At = h[0].Thread, h[0].Slot, h[1:], []int{c.Row, c.Col}
	var parts []string
	for _, x := range h {
		parts = append(parts, fmt.Sprintf("lane %d in R%d", x.Thread, r.Setup.Register(c.Matrix, x.Slot)))
	}
	return "held by " + strings.Join(parts, " and ")
}

// Octets is the state of a warp after n instructions of a product: which lanes
// give operands, what the buffers hold, whose B the multiplexer of each octet lets
// through, which sums have just been written, and where in time this is.
func Octets(r *volta.Run, n int, o layoutviz.Options) (layoutviz.Picture, error) {
	f, err := r.Frame(n)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	const (
		leftW  = 356
		dw, dh = 24, 17
		aw     = 20
		gap    = 14
	)
	gx := pad + leftW + 30   // of A
	dx := gx + 16*aw + gap   // of B and D
	top := 84                // of B
	dy := top + 16*dh + gap  // of A and D
	gantt := dy + 16*dh + 40 // of the bars
	bars := len(r.Instrs)*11 + 34
	s, err := newStage(dx+16*dw+pad+8, gantt+bars+pad, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	title := "Before the first instruction: registers are loaded"
	if f.Instr != nil {
		title = fmt.Sprintf("HMMA %d of %d: set %d, step %d", n, len(r.Instrs), f.Instr.Set-1, f.Instr.Step.Step)
	}
	s.left(pad, 30, 20, true, title)
	s.text(s.scene.W-pad, 30, 12, s.muted, scene.End, false, "Volta · "+r.Setup.String())
	sentence := "Every element of A and B is in two lanes, every sum in one. Point at an element to see where."
	if f.Instr != nil {
		s.left(pad, 52, 14, true, f.Instr.Text)
		sentence = say(r, f)
	}
	s.note(pad, 70, 11.5, sentence)

	for q, oct := range volta.Octets() {
		s.octet(r, f, q, oct, pad, top+q*((dy+16*dh-top)/4))
	}
	s.operands(r, f, gx, dx, top, dy, aw, dw, dh)
	s.sums(r, f, dx, dy, dw, dh)
	s.legend(r, f, gx, top, 16*aw-10)
	s.timeline(r, n, pad, gantt)
	return s.picture(fmt.Sprintf("Volta's octets after %d HMMA", n), title+". "+sentence), nil
}

// say is the sentence about a frame.
func say(r *volta.Run, f volta.Frame) string {
	in := f.Instr
	who := "0–3"
	if in.BFromHigh {
		who = "4–7"
	}
	return fmt.Sprintf("k = %d–%d. Each threadgroup multiplies %d rows of its own A with four columns of B, which threadgroups %s hold: %d sums at once.",
		in.K.First, in.K.Last, in.Low.Last-in.Low.First+1, who, len(f.Dots))
}

// octet draws lanes, buffers and multiplexer of one octet.
func (s *stage) octet(r *volta.Run, f volta.Frame, q int, oct volta.Octet, x, y int) {
	const cw, ch, lane = 25, 15, 18
	s.fill(s.groupColor(q), x, y, 5, 124)
	x += 14
	s.left(x, y+11, 11, true, fmt.Sprintf("octet %d", q))
	s.note(x+68, y+11, 10, fmt.Sprintf("makes D rows %d–%d, columns %d–%d", oct.Rows.First, oct.Rows.Last, oct.Columns.First, oct.Columns.Last))
	y += 19
	for high := range 2 {
		group := oct.Threadgroups[high]
		gx := x + high*(4*cw+10)
		for i := range 4 {
			l := oct.Lanes[4*high+i]
			e := layoutviz.Element{ID: fmt.Sprintf("l%d", l), X: gx + i*cw, Y: y, W: cw, H: lane, Thread: l,
				Label: fmt.Sprintf("lane %d of threadgroup %d, octet %d", l, group, q)}
			fill, ink, bold := s.quiet, s.muted, false
			if f.Instr != nil {
				fill = s.groupColor(group)
				ink, bold = inkOn(fill), true
				e.Label += fmt.Sprintf("; gives A in %s", f.Instr.A)
				if f.Instr.BFromHigh == (high == 1) {
					e.Label += fmt.Sprintf(" and B in %s", f.Instr.B)
				}
				e.Label += fmt.Sprintf("; gets sums in %s", f.Instr.D)
			}
			s.cell(e, fill, ink, bold, 10, fmt.Sprint(l))
		}
		s.grid(gx, y, 4, 1, cw, lane)
		by := y + lane + 15
		s.note(gx, by-4, 9.5, fmt.Sprintf("A buffer of tg %d", group))
		for i := range 4 {
			for k := range 4 {
				e := layoutviz.Element{ID: fmt.Sprintf("a%d.%d.%d", group, i, k), X: gx + k*cw, Y: by + i*ch, W: cw, H: ch, Thread: oct.Lanes[4*high]}
				fill, ink, bold, words := s.quiet, s.muted, false, ""
				if f.Instr != nil {
					c := volta.Cell{Matrix: "A", Row: oct.Rows.First + 4*high + i, Col: f.Instr.K.First + k}
					e.Keys = []int{keyA + 16*c.Row + c.Col}
					words = number(f.A[group][i][k])
					where := held(r, c, &e)
					e.Label = fmt.Sprintf("%s = %s in the A buffer of threadgroup %d, %s [S]", c, full(f.A[group][i][k]), group, where)
					rows := [2]volta.Range{f.Instr.Low, f.Instr.High}[high]
					if m := 4*high + i; rows.First <= m && m <= rows.Last {
						fill, bold = s.groupColor(group), true
						ink = inkOn(fill)
					}
				} else {
					e.Label = "empty"
				}
				s.cell(e, fill, ink, bold, 9.5, words)
			}
		}
		s.grid(gx, by, 4, 4, cw, ch)
	}
	// The multiplexer: two inputs, one of which leads to the buffer.
	mx := x + 2*(4*cw+10) + 14
	by := y + lane + 15
	for high := range 2 {
		group := oct.Threadgroups[high]
		bx := mx + high*(2*cw+4)
		on := f.Instr != nil && f.Instr.BFromHigh == (high == 1)
		e := layoutviz.Element{ID: fmt.Sprintf("m%d.%d", q, high), X: bx, Y: y, W: 2*cw - 4, H: lane, Thread: oct.Lanes[4*high],
			Label: fmt.Sprintf("input of octet %d's B multiplexer from threadgroup %d", q, group)}
		fill, ink := s.quiet, s.muted
		if on {
			fill = s.groupColor(group)
			ink = inkOn(fill)
			e.Label += ": selected [S]"
		}
		s.cell(e, fill, ink, on, 9.5, fmt.Sprintf("tg %d", group))
		if on {
			s.stroke(s.ink, 2, seg(bx+cw-2, y+lane, bx+cw-2, by))
			s.frame(s.ink, 1.5, bx, y, 2*cw-4, lane)
		}
	}
	for k := range 4 {
		for n := range 4 {
			e := layoutviz.Element{ID: fmt.Sprintf("b%d.%d.%d", q, k, n), X: mx + n*cw, Y: by + k*ch, W: cw, H: ch, Label: "empty", Thread: oct.Lanes[0]}
			fill, ink, words := s.quiet, s.muted, ""
			if f.Instr != nil {
				group := q
				if f.Instr.BFromHigh {
					group += 4
				}
				c := volta.Cell{Matrix: "B", Row: f.Instr.K.First + k, Col: oct.Columns.First + f.Instr.Columns.First + n}
				e.Keys = []int{keyB + 16*c.Row + c.Col}
				words = number(f.B[q][n][k])
				where := held(r, c, &e)
				e.Label = fmt.Sprintf("%s = %s in octet %d's B buffer, %s [S]", c, full(f.B[q][n][k]), q, where)
				fill = s.groupColor(group)
				ink = inkOn(fill)
			}
			s.cell(e, fill, ink, true, 9.5, words)
		}
	}
	s.grid(mx, by, 4, 4, cw, ch)
	s.frame(s.ink, 1.25, mx, by, 4*cw, 4*ch)
	s.note(mx, by+4*ch+11, 9.5, "B of both tgs")
}

// operands draws A at the left of D and B above it, with what an instruction takes.
func (s *stage) operands(r *volta.Run, f volta.Frame, ax, bx, by, ay, aw, bw, h int) {
	used := func(matrix string, row, col int) bool {
		in := f.Instr
		if in == nil {
			return false
		}
		inside := func(v volta.Range, n int) bool { return v.First <= n && n <= v.Last }
		if matrix == "A" {
			return inside(in.K, col) && (inside(in.Low, row%8) || inside(in.High, row%8))
		}
		return inside(in.K, row) && inside(in.Columns, col%8)
	}
	for _, m := range []struct {
		name    string
		m       *volta.Matrix
		x, y, w int
		key     int
	}{{"A", &r.A, ax, ay, aw, keyA}, {"B", &r.B, bx, by, bw, keyB}} {
		for i := range volta.Size {
			for j := range volta.Size {
				c := volta.Cell{Matrix: m.name, Row: i, Col: j}
				e := layoutviz.Element{ID: fmt.Sprintf("%s%d.%d", m.name, i, j), X: m.x + j*m.w, Y: m.y + i*h, W: m.w, H: h, Keys: []int{m.key + 16*i + j}}
				words := number(m.m[i][j])
				e.Label = fmt.Sprintf("%s = %s, %s [P]", c, full(m.m[i][j]), held(r, c, &e))
				fill, ink, bold := s.quiet, s.muted, used(m.name, i, j)
				if bold {
					fill = mix("#ffd54a", s.scene.Paper, 25)
					ink = inkOn(fill)
				}
				s.cell(e, fill, ink, bold, 9.5, words)
			}
		}
		s.grid(m.x, m.y, 16, 16, m.w, h)
		s.frame(s.line, 1, m.x, m.y, 16*m.w, 16*h)
	}
	s.left(ax+4, ay-5, 13, true, "A")
	s.note(ax+20, ay-5, 10, "16 × 16, f16")
	s.text(bx-8, by+13, 13, s.ink, scene.End, true, "B")
}

// sums draws D: paler the fewer sets are in a sum, outlined what has just changed.
func (s *stage) sums(r *volta.Run, f volta.Frame, x, y, w, h int) {
	fresh := map[[2]int]volta.Dot{}
	for _, d := range f.Dots {
		fresh[[2]int{d.Row, d.Column}] = d
	}
	for i := range volta.Size {
		for j := range volta.Size {
			c := volta.Cell{Matrix: "D", Row: i, Col: j}
			e := layoutviz.Element{ID: fmt.Sprintf("D%d.%d", i, j), X: x + j*w, Y: y + i*h, W: w, H: h, Keys: []int{keyD + 16*i + j}}
			words := number(f.Sums[i][j])
			where := held(r, c, &e)
			e.Label = fmt.Sprintf("%s = %s after %d of 4 sets, %s [P]", c, full(f.Sums[i][j]), f.Sets[i][j], where)
			group := i/8 + j/8*2
			if i%8 >= 4 {
				group += 4
			}
			fill, bold := s.quiet, false
			if n := f.Sets[i][j]; n > 0 {
				fill = mix(s.groupColor(group), s.scene.Paper, 78-16*n)
			}
			if d, ok := fresh[[2]int{i, j}]; ok {
				fill, bold = s.groupColor(group), true
				e.Label = fmt.Sprintf("%s = %s + %s = %s, by unit %d of threadgroup %d into R%d of lane %d; numbers as %s adds [S]", c, full(d.C), d.Products(), full(d.Sum.Result), d.Unit, d.Threadgroup(), r.Setup.Register("D", d.Slot), d.Lane, r.Setup.Numerics)
			}
			ink := inkOn(fill)
			if f.Sets[i][j] == 0 {
				ink = s.muted
			}
			s.cell(e, fill, ink, bold, 9.5, words)
		}
	}
	s.grid(x, y, 16, 16, w, h)
	s.frame(s.line, 1, x, y, 16*w, 16*h)
	s.stroke(s.line, 1, seg(x+8*w, y, x+8*w, y+16*h), seg(x, y+8*h, x+16*w, y+8*h))
	var segs []scene.Segment
	for i := range volta.Size {
		for j := range volta.Size {
			if _, ok := fresh[[2]int{i, j}]; !ok {
				continue
			}
			for _, side := range []struct{ di, dj, x1, y1, x2, y2 int }{{-1, 0, 0, 0, w, 0}, {1, 0, 0, h, w, h}, {0, -1, 0, 0, 0, h}, {0, 1, w, 0, w, h}} {
				if _, ok := fresh[[2]int{i + side.di, j + side.dj}]; !ok {
					segs = append(segs, seg(x+j*w+side.x1, y+i*h+side.y1, x+j*w+side.x2, y+i*h+side.y2))
				}
			}
		}
	}
	if segs != nil {
		s.stroke(s.ink, 2.25, segs...)
	}
	s.text(x+16*w, y+16*h+14, 10, s.muted, scene.End, false, fmt.Sprintf("D = A·B + C, %s sums, added as %s", r.Setup.Sums, r.Setup.Numerics))
	s.left(x, y+16*h+14, 13, true, "D")
	if f.Instr == nil {
		s.note(x+16, y+16*h+14, 10, "as yet C")
	}
}

// legend says what colours and tags mean, in the corner between A and B.
func (s *stage) legend(r *volta.Run, f volta.Frame, x, y, w int) {
	s.fill(mix("#ffd54a", s.scene.Paper, 25), x, y, 14, 12)
	s.note(x+20, y+10, 10.5, "operands of this instruction")
	s.fill(s.groupColor(0), x, y+19, 14, 12)
	s.frame(s.ink, 2, x, y+19, 14, 12)
	s.note(x+20, y+29, 10.5, "sums it has just written")
	for i := range 4 {
		s.fill(mix(s.groupColor(0), s.scene.Paper, 78-16*(i+1)), x+16*i, y+38, 14, 12)
	}
	s.note(x+70, y+48, 10.5, "1, 2, 3, 4 sets are in a sum")
	y += 74
	if f.Instr != nil {
		in := f.Instr
		for _, row := range [][2]string{
			{"A", fmt.Sprintf("%s of every lane", in.A)},
			{"B", fmt.Sprintf("%s of the selected lanes", in.B)},
			{"D", fmt.Sprintf("%s of every lane", in.D)},
		} {
			s.left(x, y, 11, true, row[0])
			s.note(x+20, y, 11, row[1])
			y += 17
		}
		low, high := in.Letters()
		s.left(x, y, 11, true, "the paper's")
		s.note(x+92, y, 11, low+", "+high)
		y += 17
		s.left(x, y, 11, true, "cycle")
		s.note(x+50, y, 11, fmt.Sprintf("issues %d, sums written %d", in.Issue, in.Done))
		y += 25
	}
	s.lines(x, y, w, 10, s.muted, false, "fragments and registers: vendor [P] · steps, buffers, cycles: paper [S] · issue and stages: our assumption [A]")
}

// timeline draws the instructions as bars over cycles, done ones in full colour.
func (s *stage) timeline(r *volta.Run, n, x, y int) {
	const row, label = 11, 430
	w := s.scene.W - 2*pad - label - 10
	per := float64(w) / float64(r.Total)
	at := func(c int) int { return x + label + int(float64(c)*per+0.5) }
	what := "measured on prefixes [S], laid on stages [A]"
	if r.Pace == volta.Throughput {
		what = "what the datapath allows, sums not waiting [A]"
	}
	s.left(x, y-6, 12, true, fmt.Sprintf("%d cycles", r.Total))
	s.note(x+90, y-6, 10.5, what)
	bottom := y + len(r.Instrs)*row
	for c := 0; c <= r.Total; c += 2 {
		if c%10 == 0 || c == r.Total {
			s.stroke(mix(s.line, s.scene.Paper, 60), 0.75, seg(at(c), y-2, at(c), bottom+4))
			if c == r.Total || r.Total-c > 2 {
				s.text(at(c), bottom+15, 10, s.muted, scene.Middle, c == r.Total, fmt.Sprint(c))
			}
		}
	}
	stages := []string{"#b7c3cf", "#8fb8de", s.green, "#e69f00"}
	for i, in := range r.Instrs {
		by := y + i*row
		ink, bold := s.muted, false
		if i == n-1 {
			s.fill(mix("#ffd54a", s.scene.Paper, 45), x, by, s.scene.W-2*pad, row)
			ink, bold = s.ink, true
			if inkOn(s.scene.Paper) != "#ffffff" {
				ink = "#1b1f24"
			}
		}
		s.text(x+2, by+row-2, 8.5, ink, scene.Start, bold, fmt.Sprintf("%d.%d  %s", in.Set-1, in.Step.Step, in.Text))
		cut := []int{in.Issue, in.Issue + 1, in.Issue + 4, in.Done - 1, in.Done}
		for k, c := range stages {
			if i >= n {
				c = mix(c, s.scene.Paper, 72)
			}
			s.fill(c, at(cut[k]), by+2, at(cut[k+1])-at(cut[k]), row-3)
		}
		if i == len(r.Instrs)-1 && r.Total > in.Done {
			s.fill(mix(s.line, s.scene.Paper, 65), at(in.Done), by+4, at(r.Total)-at(in.Done), row-7)
		}
		s.ids = append(s.ids, layoutviz.Element{ID: fmt.Sprintf("h%d", i), X: at(in.Issue), Y: by, W: at(in.Done) - at(in.Issue), H: row,
			Label: fmt.Sprintf("%s: issues at cycle %d, sums written at %d [A]; the first %d instructions were measured complete at %d [S]", in.Text, in.Issue, in.Done, i+1, in.Seen)})
	}
	lx := x + label
	for k, word := range []string{"issue", "operands", "multiply and add", "write"} {
		s.fill(stages[k], lx, bottom+22, 10, 9)
		s.note(lx+14, bottom+30, 10, word)
		lx += 34 + scene.Width(word, 10)
	}
	if r.Pace != volta.Throughput {
		s.fill(mix(s.line, s.scene.Paper, 65), lx, bottom+22, 10, 9)
		s.note(lx+14, bottom+30, 10, "drain of the last")
	}
}
