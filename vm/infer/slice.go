package infer

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// extents are those of a part in all dimensions of the whole, and how many such parts
// lie along each; ok is false where they do not fill it.
func extents(in *Instr, whole, part []int) (ext, parts []int, ok bool) {
	ext = slices.Repeat([]int{1}, len(whole))
	if len(part) == len(whole) {
		copy(ext, part)
	} else {
		for i, d := range kept(in, len(whole), len(part)) {
			if d < 0 || d >= len(whole) {
				return nil, nil, false
			}
			ext[d] = part[i]
		}
	}
	for d, n := range ext {
		if n < 1 || whole[d]%n != 0 {
			return nil, nil, false
		}
		parts = append(parts, whole[d]/n)
	}
	return ext, parts, true
}

// outer is the layout of a part where each thread holds the same of every part.
func outer(in *Instr, whole layout.Layout, part []int) (layout.Layout, bool) {
	ext, parts, ok := extents(in, whole.Shape(), part)
	if !ok {
		return layout.Layout{}, false
	}
	l, err := whole.LeftDiv(layout.Local(parts...))
	if err != nil {
		return l, false
	}
	return sliced(in, l, part, ext)
}

// wholeOf is a layout of which every part is the given one, in each thread.
func wholeOf(in *Instr, whole []int, part layout.Layout) (layout.Layout, bool) {
	ext, parts, ok := extents(in, whole, part.Shape())
	if !ok {
		return layout.Layout{}, false
	}
	if len(ext) != part.Rank() {
		keep := kept(in, len(whole), part.Rank())
		if !slices.IsSorted(keep) {
			return layout.Layout{}, false
		}
		var drop []int
		for d := range whole {
			if !slices.Contains(keep, d) {
				drop = append(drop, d)
			}
		}
		var err error
		if part, err = part.Unsqueeze(drop...); err != nil {
			return part, false
		}
	}
	return layout.Local(parts...).Mul(part), true
}

// sliceSource is the rule of a source that nothing else decides: threads side by side
// over each part.
func sliceSource(g *Graph, in *Instr) []found {
	ins, outs := registers(in.In), registers(in.Out)
	if len(ins) == 0 || !ins[0].wants() {
		return nil
	}
	whole, part := ins[0], ins[0]
	if in.Op == "SliceAssign" && len(ins) == 2 {
		part = ins[1]
	} else if len(outs) == 1 {
		part = outs[0]
	}
	if ext, parts, ok := extents(in, whole.Shape, part.Shape); ok {
		if l, ok := sideBySide(g.threads(in), ext, len(ext)-1, 1); ok {
			return reg(whole, layout.Local(parts...).Mul(l))
		}
	}
	if g.fits(in, whole.Shape) {
		return reg(whole, everyThread(g, in, whole.Shape))
	}
	return nil
}
