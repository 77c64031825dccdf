// Package part splits a computation into functions of one scalar each, so that no
// instruction is computed twice for one index: an instruction joins the function of
// its users where all of them read it at the same place, and becomes the root of a
// function of its own where they do not.
//
// Source: openxla/xla, xla/codegen/emitters/computation_partitioner.cc.
package part

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// MaxInstructions is the most instructions of a part; the next one begins another.
const MaxInstructions = 2000

// Part is a function: from an index of its first root to one scalar for each root.
type Part struct {
	Name         string
	ID           int
	Instructions []*hlo.Instruction // operands before users
	// Roots are the instructions whose elements the function gives. Where the part
	// ends with a tuple, they are the operands of the tuple.
	Roots []*hlo.Instruction
	// NoCompute says that the part only moves elements.
	NoCompute bool
	// Index says at which place each instruction is read, from an index of the first
	// root. Of the roots themselves it is RootMaps.
	Index    map[*hlo.Instruction]index.Indexing
	RootMaps []affine.Map
	// Heroes are computed elsewhere: their values come as scalar parameters, behind
	// the indices. Only epilogues have them.
	Heroes []*hlo.Instruction
	// Ranges are those of the index parameters.
	Ranges []affine.Range
	// Calls counts for each other part how many times its function is called.
	Calls map[*Part]int
}

// Partition is a computation in parts; the first holds its root.
type Partition struct {
	Computation *hlo.Computation
	Parts       []*Part
	Of          map[*hlo.Instruction]*Part
}

// moves are the operations that a part without computation may hold.
var moves = []hlo.Op{hlo.Bitcast, hlo.Constant, hlo.Iota, hlo.Parameter, hlo.Reshape, hlo.Reverse, hlo.Transpose, hlo.Broadcast, hlo.Slice, hlo.Copy}

// use is what the users of an instruction say about it.
type use struct {
	parts []*Part
	maps  []index.Indexing
}

// Split partitions a computation. Forced instructions become roots of parts even
// where they could join one.
func Split(c *hlo.Computation, forced ...*hlo.Instruction) *Partition {
	p := &Partition{Computation: c, Of: map[*hlo.Instruction]*Part{}}
	post := c.PostOrder()
	uses := make([]use, len(c.Instructions))
	reachable := slices.Index(post, c.Root) + 1
	order := make([]*hlo.Instruction, 0, len(post))
	for i := reachable - 1; i >= 0; i-- {
		order = append(order, post[i])
	}
	for i := len(post) - 1; i >= reachable; i-- {
		order = append(order, post[i])
	}
	isForced := map[*hlo.Instruction]bool{c.Root: true}
	for _, in := range forced {
		isForced[in] = true
	}
	for _, in := range order {
		u := &uses[in.Index]
		own := isForced[in] || len(u.parts) != 1 || len(u.maps) > 1 || len(u.parts[0].Instructions) >= MaxInstructions
		var at index.Indexing
		var in0 *Part
		if own {
			in0 = &Part{ID: len(p.Parts), Name: c.Name + "_" + in.Name, Index: map[*hlo.Instruction]index.Indexing{}, Calls: map[*Part]int{}}
			p.Parts = append(p.Parts, in0)
			at = index.Indexing{Map: index.Identity(firstRoot(in).Shape.Outputs()[0].Dims)}
		} else {
			in0 = u.parts[0]
			at = index.Undefined()
			if len(u.maps) == 1 {
				at = u.maps[0]
			}
		}
		in0.Instructions = append(in0.Instructions, in)
		in0.Index[in] = at
		p.Of[in] = in0
		for k, o := range in.Operands {
			for _, m := range reads(in, k) {
				var x index.Indexing
				if own {
					x = m.Simplify()
				} else {
					x = index.Compose(at, m)
				}
				uses[o.Index].add(in0, x)
			}
		}
	}
	for _, q := range p.Parts {
		slices.Reverse(q.Instructions)
		q.finish(p)
	}
	return p
}

func (u *use) add(p *Part, x index.Indexing) {
	if !slices.Contains(u.parts, p) {
		u.parts = append(u.parts, p)
	}
	if !x.Map.Undefined() && !x.Map.KnownEmpty() && (len(u.maps) == 0 || len(u.maps) == 1 && u.maps[0].String() != x.String()) {
		u.maps = append(u.maps, x)
	}
}

// firstRoot is the instruction whose index a part with the root in counts by.
func firstRoot(in *hlo.Instruction) *hlo.Instruction {
	for in.Op == hlo.Tuple && len(in.Operands) > 0 {
		in = in.Operands[0]
	}
	return in
}

// reads are the maps through which an instruction reads operand k, from its own index.
// The operands of a tuple are read at the index of the first, as far as all have as
// many elements; those of a scatter at its own.
func reads(in *hlo.Instruction, k int) []index.Indexing {
	o := in.Operands[k]
	switch in.Op {
	case hlo.Tuple:
		return []index.Indexing{{Map: rootMap(firstRoot(in), o)}}
	case hlo.Scatter:
		return []index.Indexing{{Map: index.Identity(o.Shape.Outputs()[0].Dims)}}
	}
	return index.OutputToInput(in, 0)[k]
}

// rootMap leads from an index of one root to that of another.
func rootMap(first, other *hlo.Instruction) affine.Map {
	a, b := first.Shape.Outputs()[0], firstRoot(other).Shape.Outputs()[0]
	switch {
	case slices.Equal(a.Dims, b.Dims) || a.Elements() != b.Elements():
		return index.Identity(b.Dims)
	}
	return index.Bitcast(hlo.Shape{Type: a.Type, Dims: a.Dims, Layout: a.Layout}, hlo.Shape{Type: a.Type, Dims: b.Dims, Layout: b.Layout})
}

func (q *Part) finish(p *Partition) {
	last := q.Instructions[len(q.Instructions)-1]
	q.Roots = []*hlo.Instruction{last}
	if last.Op == hlo.Tuple {
		q.Roots = last.Operands
	}
	q.NoCompute = true
	for _, in := range q.Instructions {
		q.NoCompute = q.NoCompute && slices.Contains(moves, in.Op)
		for _, o := range in.Operands {
			if other := p.Of[o]; other != q && other != nil {
				q.Calls[other]++
			}
		}
	}
	if len(q.Roots) == 0 {
		return
	}
	for _, r := range q.Roots {
		q.RootMaps = append(q.RootMaps, rootMap(firstRoot(q.Roots[0]), r))
	}
	for _, n := range firstRoot(q.Roots[0]).Shape.Outputs()[0].Dims {
		q.Ranges = append(q.Ranges, affine.Range{Lo: 0, Hi: int64(n) - 1})
	}
}

// WithHeroes partitions a computation whose heroes another emitter computes: heroes
// and their operands begin parts of their own.
func WithHeroes(c *hlo.Computation, heroes ...*hlo.Instruction) *Partition {
	var forced []*hlo.Instruction
	for _, h := range heroes {
		forced = append(append(forced, h), h.Operands...)
	}
	return Split(c, forced...)
}

// Epilogue is the function of what follows the heroes: all instructions that the
// roots need and that are reached without passing a hero. What stands on both sides
// of a hero is computed on both. Its index parameters have the ranges given and
// rootMaps lead from them to the index of each root; nil stands for the index of the
// first root.
func Epilogue(c *hlo.Computation, heroes, roots []*hlo.Instruction, ranges []affine.Range, rootMaps []affine.Map) *Part {
	q := &Part{Name: c.Name + "__epilogue_", Roots: roots, Heroes: heroes, Ranges: ranges, RootMaps: rootMaps,
		Index: map[*hlo.Instruction]index.Indexing{}, Calls: map[*Part]int{}, NoCompute: true}
	for _, r := range roots {
		q.Name += "_" + r.Name
		if rootMaps == nil {
			q.RootMaps = append(q.RootMaps, rootMap(roots[0], r))
		}
	}
	if ranges == nil {
		for _, n := range roots[0].Shape.Dims {
			q.Ranges = append(q.Ranges, affine.Range{Lo: 0, Hi: int64(n) - 1})
		}
	}
	need := make([]bool, len(c.Instructions))
	for _, r := range roots {
		need[r.Index] = true
	}
	for i, r := range roots {
		q.Index[r] = index.Indexing{Map: q.RootMaps[min(i, len(q.RootMaps)-1)]}
	}
	post := c.PostOrder()
	for i := len(post) - 1; i >= 0; i-- {
		in := post[i]
		if !need[in.Index] || slices.Contains(heroes, in) {
			continue
		}
		q.Instructions = append(q.Instructions, in)
		q.NoCompute = q.NoCompute && slices.Contains(moves, in.Op)
		for k, o := range in.Operands {
			need[o.Index] = true
			if _, known := q.Index[o]; !known {
				if maps := reads(in, k); len(maps) == 1 {
					q.Index[o] = index.Compose(q.Index[in], maps[0])
				}
			}
		}
	}
	slices.Reverse(q.Instructions)
	return q
}

// EpilogueMap leads from an index of a hero to the index of the root that its element
// takes part in, through the first users of each instruction that lead there.
func EpilogueMap(c *hlo.Computation, hero, root *hlo.Instruction) affine.Map {
	users := c.Users()
	leads := make([]bool, len(c.Instructions)) // to the root
	leads[root.Index] = true
	for i := root.Index - 1; i >= 0; i-- {
		for _, u := range users[i] {
			leads[i] = leads[i] || leads[u.Index]
		}
	}
	at := index.Indexing{Map: index.Identity(hero.Shape.Outputs()[0].Dims)}
	for in := hero; in != root; {
		var next *hlo.Instruction
		for _, u := range users[in.Index] {
			if leads[u.Index] {
				next = u
				break
			}
		}
		if next == nil {
			return affine.Undefined()
		}
		at = index.Compose(at, index.InputToOutput(next, slices.Index(next.Operands, in))[0][0])
		in = next
	}
	return at.Map
}
