package theatre

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Storyboard is what every instruction of a product takes and makes: a row for
// each set, a small A, B and D for each step.
func Storyboard(r *volta.Run, o layoutviz.Options) (layoutviz.Picture, error) {
	const (
		small, big, gap = 5, 11, 5
		side            = 16*small + gap + 16*big
		pw, ph          = side + 26, side + 44
		about           = "yellow: operands in A (left) and B (above) · outlined: sums written · the stronger, the more sets are in a sum"
	)
	steps := r.Setup.Sums.Steps()
	s, err := newStage(max(2*pad+steps*pw-26+44, 2*pad+scene.Width(about, 11.5)), pad+74+volta.Sets*ph, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	s.left(pad, 32, 20, true, fmt.Sprintf("%d instructions make a 16×16×16 product", len(r.Instrs)))
	s.note(pad, 52, 11.5, fmt.Sprintf("%d sets of four k, %d steps each.", volta.Sets, steps))
	s.note(pad, 68, 11.5, about)
	yellow := mix("#ffc107", s.scene.Paper, 10)
	for n, in := range r.Instrs {
		f, err := r.Frame(n + 1)
		if err != nil {
			return layoutviz.Picture{}, err
		}
		x, y := pad+44+in.Step.Step*pw, 92+(in.Set-1)*ph
		if in.Step.Step == 0 {
			s.left(pad, y+16*small+gap+8*big-6, 13, true, fmt.Sprintf("set %d", in.Set-1))
			s.note(pad, y+16*small+gap+8*big+10, 10, fmt.Sprintf("k %d–%d", in.K.First, in.K.Last))
		}
		s.left(x, y+2, 11, true, fmt.Sprintf("step %d", in.Step.Step))
		giver := "low tgs"
		if in.BFromHigh {
			giver = "high tgs"
		}
		s.note(x, y+16, 9.5, "B of")
		s.note(x, y+28, 9.5, giver)
		s.note(x, y+44, 9.5, fmt.Sprintf("D R%d:R%d", int(in.D), int(in.D)+1))
		y -= 8
		dx, dy := x+16*small+gap, y+16*small+gap
		s.fill(s.quiet, dx, y, 16*big, 16*small)
		s.fill(s.quiet, x, dy, 16*small, 16*big)
		for q := range 2 {
			s.fill(yellow, dx+(8*q+in.Columns.First)*big, y+in.K.First*small, 4*big, 4*small)
		}
		for q := range 2 {
			for _, rows := range []volta.Range{in.Low, in.High} {
				s.fill(yellow, x+in.K.First*small, dy+(8*q+rows.First)*big, 4*small, (rows.Last-rows.First+1)*big)
			}
		}
		fresh := map[[2]int]bool{}
		for _, d := range f.Dots {
			fresh[[2]int{d.Row, d.Column}] = true
		}
		for i := range volta.Size {
			for j := range volta.Size {
				group := i/8 + j/8*2
				if i%8 >= 4 {
					group += 4
				}
				fill := s.quiet
				if k := f.Sets[i][j]; k > 0 {
					fill = mix(s.groupColor(group), s.scene.Paper, 82-15*k)
				}
				if fresh[[2]int{i, j}] {
					fill = s.groupColor(group)
				}
				s.fill(fill, dx+j*big, dy+i*big, big, big)
			}
		}
		s.grid(dx, dy, 16, 16, big, big)
		for q := range 4 {
			for _, rows := range []volta.Range{in.Low, in.High} {
				s.frame(s.ink, 1.75, dx+(q/2*8+in.Columns.First)*big, dy+(q%2*8+rows.First)*big, 4*big, (rows.Last-rows.First+1)*big)
			}
		}
		s.frame(s.line, 0.75, dx, dy, 16*big, 16*big)
		s.frame(s.line, 0.75, x, dy, 16*small, 16*big)
		s.frame(s.line, 0.75, dx, y, 16*big, 16*small)
		s.stroke(s.line, 0.75, seg(dx+8*big, dy, dx+8*big, dy+16*big), seg(dx, dy+8*big, dx+16*big, dy+8*big))
		low, high := in.Letters()
		s.ids = append(s.ids, layoutviz.Element{ID: fmt.Sprintf("h%d", n), X: x, Y: y, W: side, H: side,
			Label: fmt.Sprintf("%s: %s and %s, %d sums [S]", in.Text, low, high, len(f.Dots))})
	}
	return s.picture("All steps of a Volta product", fmt.Sprintf("%d instructions: which elements of A, B and D each of them touches.", len(r.Instrs))), nil
}

// Core is one tensor core, 0 or 1 of a sub-core, during instruction n, counted
// from 1: its 64 multipliers, and what number box of them, 0 to 63, and the
// dot-product unit around it do in turn, the cycle in which they take one row.
// Boxes count through octets, threadgroups, units, multipliers, the last fastest.
func Core(r *volta.Run, core, n, turn, box int, o layoutviz.Options) (layoutviz.Picture, error) {
	feed := r.Setup.Sums.Feed()
	switch {
	case core < 0 || core > 1:
		return layoutviz.Picture{}, fmt.Errorf("theatre: a sub-core has tensor cores 0 and 1, not %d", core)
	case n < 1 || n > len(r.Instrs):
		return layoutviz.Picture{}, fmt.Errorf("theatre: no instruction %d; there are 1 to %d", n, len(r.Instrs))
	case turn < 0 || turn >= feed:
		return layoutviz.Picture{}, fmt.Errorf("theatre: no turn %d; units take %d rows", turn, feed)
	case box < 0 || box > 63:
		return layoutviz.Picture{}, fmt.Errorf("theatre: no multiplier %d; there are 0 to 63", box)
	}
	const cell, between, octetGap = 46, 22, 44
	boxes := 4 * cell
	w := 2*pad + 4*boxes + 2*between + octetGap
	s, err := newStage(w, 560, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	in := r.Instrs[n-1]
	s.left(pad, 32, 20, true, "One green box is one multiplier: 64 of them make a tensor core")
	s.note(pad, 52, 11.5, fmt.Sprintf("tensor core %d: 2 octets × 2 threadgroups × 4 units × 4 multipliers; which octets share a core is not published [A]", core))
	s.left(pad, 70, 11.5, true, in.Text)
	s.note(pad+scene.Width(in.Text, 11.5)+16, 70, 11.5, fmt.Sprintf("row %d of %d of each threadgroup", turn+1, feed))
	var at volta.Dot
	y := 132
	for half := range 4 { // octet, threadgroup
		oct := volta.Octets()[2*core+half/2]
		group := oct.Threadgroups[half%2]
		x := pad + half*(boxes+between)
		if half >= 2 {
			x += octetGap - between
		}
		if half%2 == 0 {
			s.left(x, y-30, 13, true, fmt.Sprintf("octet %d", oct.Number))
			s.fill(s.groupColor(oct.Number), x, y-24, 2*boxes+between, 4)
		}
		s.note(x, y-7, 10.5, fmt.Sprintf("threadgroup %d: lanes %d–%d", group, oct.Lanes[4*(half%2)], oct.Lanes[4*(half%2)+3]))
		for _, d := range r.Of(n - 1) {
			if d.Octet != oct.Number || d.Threadgroup() != group || d.Turn != turn {
				continue
			}
			for k := range 4 {
				id := half*16 + d.Unit*4 + k
				var fill string
				ink := "#ffffff"
				if id != box && id/4 == box/4 {
					fill = mix(s.green, "#000000", 25)
				} else if id != box {
					fill, ink = mix(s.green, s.scene.Paper, 22), "#1b1f24"
				} else {
					fill, ink = "#ffd54a", "#1b1f24"
				}
				e := layoutviz.Element{ID: fmt.Sprintf("x%d", id), X: x + k*cell, Y: y + d.Unit*cell, W: cell, H: cell, Thread: d.Lane,
					Keys:  []int{keyD + 16*d.Row + d.Column, keyA + 16*d.Row + d.K + k, keyB + 16*(d.K+k) + d.Column},
					Label: fmt.Sprintf("multiplier %d of unit %d: A[%d,%d] × B[%d,%d] = %s × %s, for D[%d,%d] of lane %d", k, d.Unit, d.Row, d.K+k, d.K+k, d.Column, full(d.A[k]), full(d.B[k]), d.Row, d.Column, d.Lane)}
				s.cell(e, fill, ink, true, 11, number(d.A[k])+"·"+number(d.B[k]))
				if id == box {
					at = d
				}
			}
		}
		s.grid(x, y, 4, 4, cell, cell)
		if box/16 == half {
			u := box / 4 % 4
			s.frame(s.ink, 2, x, y+u*cell, 4*cell, cell)
		}
		for k := range 4 {
			s.text(x+k*cell+cell/2, y+4*cell+13, 9.5, s.muted, scene.Middle, false, fmt.Sprintf("k %d", in.K.First+k))
		}
	}
	s.unit(at, box%4, pad, y+4*cell+38, w-2*pad)
	s.scene.H = y + 4*cell + 38 + 214
	desc := fmt.Sprintf("D[%d,%d] of lane %d = %s + %s = %s.", at.Row, at.Column, at.Lane, full(at.C), products(at), full(at.Sum.Result))
	return s.picture("The 64 multipliers of a Volta tensor core", desc), nil
}

// BoxOf is the first of the four multipliers that work for a dot product, 0 to 127: 64
// of each of a sub-core's tensor cores.
func BoxOf(d volta.Dot) int {
	box := d.Octet/2*64 + d.Octet%2*32 + d.Unit*4
	if d.High {
		box += 16
	}
	return box
}

// DotOf is the dot product that a multiplier works for, counted as by [Core].
func DotOf(r *volta.Run, core, n, turn, box int) volta.Dot {
	for _, d := range r.Of(n - 1) {
		if o := volta.Octets()[2*core+box/32]; d.Octet == o.Number && d.High == (box/16%2 == 1) && d.Turn == turn && d.Unit == box/4%4 {
			return d
		}
	}
	return volta.Dot{}
}

// unit draws one dot-product unit as its pipeline: multiply, add pairs, add both,
// add to the sum.
func (s *stage) unit(d volta.Dot, chosen, x, y, w int) {
	s.left(x, y, 14, true, fmt.Sprintf("The unit around it makes D[%d,%d] of lane %d", d.Row, d.Column, d.Lane))
	s.note(x, y+18, 10.5, fmt.Sprintf("four multipliers and a tree of adders in four stages [S]; unit %d takes column %d of the step [A]", d.Unit, d.Unit))
	top := y + 56
	const bw, bh, pitch = 168, 26, 34
	stage := []string{"1  multiply", "2  add pairs", "3  add both", "4  add the sum so far"}
	xs := []int{x, x + 240, x + 438, x + 636}
	for i, t := range stage {
		s.text(xs[i], top-10, 10.5, s.accent, scene.Start, true, t)
	}
	p := make([]float64, 4)
	for k := range 4 {
		p[k] = d.A[k] * d.B[k]
		by := top + k*pitch
		fill, ink := mix(s.green, s.scene.Paper, 22), "#1b1f24"
		if k == chosen {
			fill = "#ffd54a"
		}
		s.fill(fill, xs[0], by, bw, bh)
		if k == chosen {
			s.frame(s.ink, 2, xs[0], by, bw, bh)
		}
		s.text(xs[0]+8, by+17, 11.5, ink, scene.Start, k == chosen, fmt.Sprintf("A[%d,%d]·B[%d,%d]", d.Row, d.K+k, d.K+k, d.Column))
		s.text(xs[0]+bw+8, by+17, 12, s.ink, scene.Start, true, number(p[k]))
	}
	box := func(i, cy int, words string) {
		s.fill(mix(s.accent, s.scene.Paper, 82), xs[i], cy-bh/2, 128, bh)
		s.frame(s.accent, 1, xs[i], cy-bh/2, 128, bh)
		size := 12.0
		for scene.Width(words, size) > 122 && size > 7 {
			size--
		}
		s.text(xs[i]+64, cy+4, size, s.ink, scene.Middle, true, words)
	}
	mid := func(k int) int { return top + k*pitch + bh/2 }
	a, b, c := (mid(0)+mid(1))/2, (mid(2)+mid(3))/2, (mid(1)+mid(2))/2
	for k := range 4 {
		to := a
		if k > 1 {
			to = b
		}
		s.stroke(s.line, 1.25, seg(xs[1]-20, mid(k), xs[1]-10, mid(k)), seg(xs[1]-10, mid(k), xs[1]-10, to), seg(xs[1]-10, to, xs[1], to))
	}
	for _, from := range []int{a, b} {
		s.stroke(s.line, 1.25, seg(xs[1]+128, from, xs[2]-20, from), seg(xs[2]-20, from, xs[2]-20, c), seg(xs[2]-20, c, xs[2], c))
	}
	s.stroke(s.line, 1.25, seg(xs[2]+128, c, xs[3], c))
	box(1, a, number(p[0])+" + "+number(p[1])+" = "+number(p[0]+p[1]))
	box(1, b, number(p[2])+" + "+number(p[3])+" = "+number(p[2]+p[3]))
	box(2, c, "Σ = "+number(p[0]+p[1]+p[2]+p[3]))
	box(3, c, "Σ + C = "+number(d.Sum.Result))
	s.text(xs[3]+64, c-bh/2-32, 11, s.muted, scene.Middle, false, "C = "+number(d.C))
	s.stroke(s.line, 1.25, seg(xs[3]+64, c-bh/2-26, xs[3]+64, c-bh/2))
	s.text(xs[3]+64, c+bh/2+20, 12, s.ink, scene.Middle, true, fmt.Sprintf("D[%d,%d]", d.Row, d.Column))
}
