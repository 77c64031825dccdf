package pane

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/lower/products"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// withProducts puts in front of picture number at a table of how each Dot of a program
// is computed on a target: by which matrix instruction and why, which others fit, which do
// not, and what was converted for it. The sentence says it of the first ones. Programs
// without a Dot stay as they are. The notes are those of inference.
func (r *Result) withProducts(at int, p *ir.Program, notes []diag.Problem, target string, o layoutviz.Options) error {
	gpu, err := arch.Lookup(target)
	if err != nil {
		return err
	}
	var rows [][]string
	var lines []int // of the program, by row
	var say []string
	n := 0
	p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if !ok || in.Op.Name != "Dot" {
			return true
		}
		n++
		c := products.Choose(in, gpu)
		first := len(rows)
		add := func(instruction, verdict, why string) {
			row := []string{"", "", instruction, verdict, folded(why, 64)}
			if len(rows) == first {
				row[0], row[1] = fmt.Sprint(in.Pos.Line), in.Out[0].Name
			}
			rows, lines = append(rows, row), append(lines, in.Pos.Line)
		}
		told := ""
		switch {
		case len(c.Same) > 0:
			w := c.Same[0]
			add(instruction(w), "taken", fmt.Sprintf("the layouts are made of its fragments, and it needs the fewest: %d in each warp", w.Count()))
			told = fmt.Sprintf("by %s, %d in each warp", instruction(w), w.Count())
			for _, w := range c.Same[1:] {
				add(instruction(w), "fits too", fmt.Sprintf("the same bits, by %d in each warp", w.Count()))
			}
			for _, other := range c.Other {
				add(instruction(other), "fits too", fmt.Sprintf("%d in each warp; sums would be rounded after other steps of k", other.Count()))
			}
			switch others := append(c.Same[1:len(c.Same):len(c.Same)], c.Other...); len(others) {
			case 0:
				told += "; no other fits"
			case 1:
				told += "; " + instruction(others[0]) + " fits too"
			default:
				told += fmt.Sprintf("; %d others fit too", len(others))
			}
		default:
			_, bad := products.Lanes(in)
			switch {
			case c.Fits:
				told = "by no instruction of " + target
			case bad != "":
				add("fma", "does not fit", bad)
				told = "by nothing: neither a matrix instruction nor FMAs fit"
			default:
				add("fma", "taken", "no matrix instruction fits: each thread adds one product after the other")
				told = "by FMAs, as no matrix instruction fits"
			}
		}
		for _, why := range c.Not {
			form, reason, ok := strings.Cut(why, ": ")
			if !ok {
				form, reason = "", why
			}
			add(form, "does not fit", reason)
		}
		converted := 0
		for _, note := range notes {
			if note.Pos == in.Pos {
				add("ConvertLayout", "put in", note.Msg)
				converted++
			}
		}
		if converted > 0 {
			told += fmt.Sprintf("; %s put in for that", plural(converted, "conversion"))
		}
		if n <= 2 {
			say = append(say, fmt.Sprintf("The Dot of line %d is computed %s.", in.Pos.Line, told))
		}
		return true
	})
	if n == 0 {
		return nil
	}
	title := "How each Dot is computed on " + target
	pic, err := layoutviz.Rows(title, []string{"line", "Dot", "instruction", "", "because"}, rows, -1, o)
	if err != nil {
		return err
	}
	for i := range pic.IDs {
		e := &pic.IDs[i]
		e.ID, e.Keys = "p."+e.ID, []int{lines[i]}
	}
	r.Pictures = slices.Insert(r.Pictures, min(at, len(r.Pictures)), Picture{Name: "products", Picture: pic})
	if n > 2 {
		say = append(say, fmt.Sprintf("The table has all %d.", n))
	}
	r.Sentence += " " + strings.Join(say, " ")
	return nil
}

// instruction is a way's instruction, and how many steps of it stand in one fragment.
func instruction(w products.Way) string {
	if v := w.Plan.Form.Vec; v > 1 {
		return fmt.Sprintf("%s, %d steps in a fragment", w.Form.Name, v)
	}
	return w.Form.Name
}
