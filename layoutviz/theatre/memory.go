package theatre

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Cost is what a warp's loads, or stores, of a matrix "A", "B", "C" or "D" cost in
// shared memory where the matrix lies there without gaps: a report for each move of
// a lane.
func Cost(s volta.Setup, matrix string) ([]bank.Report, error) {
	moves, err := s.Moves(matrix, volta.Size)
	if err != nil {
		return nil, err
	}
	kind := bank.Load
	if matrix == "D" {
		kind = bank.Store
	}
	each := len(moves) / 32
	var out []bank.Report
	for n := range each {
		a := bank.Access{Kind: kind, Width: moves[n].Bytes}
		for lane := range 32 {
			a.Addrs = append(a.Addrs, moves[lane*each+n].Address)
		}
		r, err := bank.Count(bank.Nvidia(), a)
		if err != nil {
			return nil, fmt.Errorf("theatre: %s: %w", matrix, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// Memory is a matrix of a product in shared memory, line by line of 32 banks: each
// element with the lane that loads it, marked those that instruction n takes or
// makes; n 0 marks none. Its elements share their Keys with those of [Octets].
func Memory(r *volta.Run, matrix string, n int, o layoutviz.Options) (layoutviz.Picture, error) {
	reports, err := Cost(r.Setup, matrix)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	moves, err := r.Setup.Moves(matrix, volta.Size)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	f, err := r.Frame(n)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	const cell, high, label = 17, 19, 74
	width := moves[0].Bytes / len(moves[0].Cells)
	perWord := 4 / width
	lines := volta.Size * volta.Size * width / 128
	s, err := newStage(2*pad+label+64*cell, 0, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	w := cell * 2 / perWord
	s.left(pad, 30, 16, true, matrix+" in shared memory, and the lanes that move it")
	each := len(moves) / 32
	waves, ideal := 0, 0
	for _, x := range reports {
		waves, ideal = waves+x.Wavefronts, ideal+x.Ideal
	}
	verb := "loads"
	if matrix == "D" {
		verb = "stores"
	}
	sentence := fmt.Sprintf("A lane %s %d × %d bits. The warp moves %d bytes for the %d of %s, in %d wavefronts; without bank conflicts it would be %d.", verb, each, 8*moves[0].Bytes, 32*each*moves[0].Bytes, 256*width, matrix, waves, ideal)
	s.note(pad, 50, 11.5, sentence)
	taken := map[[2]int]bool{}
	for _, d := range f.Dots {
		for k := range 4 {
			switch matrix {
			case "A":
				taken[[2]int{d.Row, d.K + k}] = true
			case "B":
				taken[[2]int{d.K + k, d.Column}] = true
			default:
				taken[[2]int{d.Row, d.Column}] = true
			}
		}
	}
	top := 88
	x := pad + label
	for b := 0; b < 32; b += 4 {
		s.text(x+b*2*cell+cell, top-6, 9.5, s.muted, scene.Middle, false, fmt.Sprintf("bank %d", b))
	}
	seen := map[volta.Cell]bool{}
	var marks []scene.Segment
	for _, m := range moves {
		for i, c := range m.Cells {
			if seen[c] {
				continue
			}
			seen[c] = true
			at := m.Address + i*width
			e := layoutviz.Element{ID: fmt.Sprintf("s%d", at), X: x + at%128/width*w, Y: top + at/128*high, W: w, H: high, Keys: []int{firstKey(matrix) + 16*c.Row + c.Col}}
			where := held(r, c, &e)
			e.Label = fmt.Sprintf("%s at byte %d, bank %d, %s [P]", c, at, at/4%32, where)
			fill := mix(s.groupColor(e.Thread/4), s.scene.Paper, 45)
			if taken[[2]int{c.Row, c.Col}] {
				fill = s.groupColor(e.Thread / 4)
				marks = append(marks, seg(e.X, e.Y+high-2, e.X+w, e.Y+high-2))
			}
			s.cell(e, fill, inkOn(fill), taken[[2]int{c.Row, c.Col}], 9.5, fmt.Sprint(e.Thread))
		}
	}
	s.grid(x, top, 32*perWord, lines, w, high)
	if marks != nil {
		s.stroke(s.ink, 2.5, marks...)
	}
	for i := range lines {
		s.note(pad, top+i*high+13, 10, fmt.Sprintf("byte %d", 128*i))
	}
	y := top + lines*high + 18
	twin := map[string]string{"A": "Lane xor 8 loads the same element too. ", "B": "Lane xor 4 loads the same element too. "}[matrix]
	s.note(x, y, 10.5, strings.TrimSpace(twin+"Underlined: this instruction's elements."))
	s.scene.H = y + pad
	return s.picture(matrix+" of a Volta product in shared memory", sentence), nil
}

// Fragment is which registers of each lane hold what of a matrix, linked with
// [Memory] and [Octets] by Keys.
func Fragment(r *volta.Run, matrix string, o layoutviz.Options) (layoutviz.Picture, error) {
	atom, err := r.Setup.Atom()
	if err != nil {
		return layoutviz.Picture{}, err
	}
	x, ok := atom.Operand(matrix)
	if !ok {
		return layoutviz.Picture{}, fmt.Errorf("theatre: there is no matrix %q; there are A, B, C, D", matrix)
	}
	o.NoCaption, o.Column = true, 16
	p, err := layoutviz.Threads(x.Layout, o)
	if err != nil {
		return p, err
	}
	for i := range p.IDs {
		for k := range p.IDs[i].Keys {
			p.IDs[i].Keys[k] += firstKey(matrix)
		}
	}
	return p, nil
}

// firstKey is the number that stands for element (0, 0) of a matrix.
func firstKey(matrix string) int {
	return map[string]int{"A": keyA, "B": keyB, "C": keyD, "D": keyD}[matrix]
}
