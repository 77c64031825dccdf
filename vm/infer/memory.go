package infer

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// pairOf is the register tile and the shared tile of a load or store.
func pairOf(in *Instr) (register, shared *Tile) {
	for _, t := range in.tiles() {
		switch t.Space {
		case Register:
			register = t
		case Shared:
			shared = t
		}
	}
	return register, shared
}

// rowsOf says whether registers are made of what a row load leaves.
func (g *Graph) rowsOf(t *Tile) bool {
	if t.Elem.Bits()%8 != 0 {
		return false
	}
	return slices.ContainsFunc(g.Target.RowLoads(t.Elem.Bits()), func(atom layout.Layout) bool {
		_, err := t.Register.Div(atom)
		return err == nil
	})
}

func sharedSwizzle(g *Graph, in *Instr) []found {
	r, s := pairOf(in)
	if r == nil || s == nil || !r.Known || !s.wants() {
		return nil
	}
	whole, order := g.unpermuted(s)
	rows := *r
	if !whole.wants() {
		return nil // s follows from it
	}
	if order != nil {
		// What is read across is written in rows, and ldmatrix reads either way.
		if len(order) != len(r.Shape) {
			return nil
		}
		l, err := r.Register.Permute(order...)
		if err != nil {
			return nil
		}
		rows.Register = l
	}
	if !g.rowsOf(&rows) {
		return nil
	}
	if l, err := layout.SharedRowMajorSwizzle(whole.Elem.Bits(), whole.Shape...); err == nil {
		return smem(whole, l)
	}
	return nil
}

// unpermuted is the tile that s is a permutation of, and where its
// dimensions stand in s; s itself, and nil, if it is none.
func (g *Graph) unpermuted(s *Tile) (*Tile, []int) {
	for _, in := range g.Instrs {
		if in.Op != "PermuteShared" || len(in.In) != 1 || len(in.Out) != 1 || in.Out[0] != s {
			continue
		}
		order := in.Dims
		if len(order) == 0 {
			for d := len(s.Shape) - 1; d >= 0; d-- {
				order = append(order, d)
			}
		}
		return in.In[0], inverse(order)
	}
	return s, nil
}

func sharedRows(g *Graph, in *Instr) []found {
	for _, t := range only(in.tiles(), Shared) {
		if t.wants() && size(t.Shape) <= layout.MaxCells {
			return smem(t, layout.SharedRowMajor(t.Shape...))
		}
	}
	return nil
}

// loadRows spreads the 8 × 16-byte parts of a tile over the warps.
func loadRows(g *Graph, in *Instr) []found {
	r, s := pairOf(in)
	if r == nil || s == nil || !r.wants() || !s.Known || len(r.Shape) != 2 {
		return nil
	}
	bits := r.Elem.Bits()
	if bits%8 != 0 || bits == 0 {
		return nil
	}
	// A row of 16 bytes must be contiguous where the layout puts it.
	last := len(s.Shape) - 1
	steps, sizes := s.Shared.ModeStrides(), s.Shared.ModeShape()
	if len(s.Shape) == 0 || s.Shape[last]%(128/bits) != 0 || len(steps) == 0 || steps[len(steps)-1] != 1 || sizes[len(sizes)-1]%(128/bits) != 0 {
		return nil
	}
	if w := s.Shared.Swizzle(); !w.Identity() && 1<<w.Base < 128/bits {
		return nil
	}
	for _, atom := range g.Target.RowLoads(bits) {
		outer := slices.Clone(r.Shape)
		fits := true
		for i, n := range atom.Shape() {
			d := len(outer) - atom.Rank() + i
			fits = fits && d >= 0 && outer[d]%n == 0
			if fits {
				outer[d] /= n
			}
		}
		if !fits || size(outer) < g.warps(in) { // some warps would only repeat others
			continue
		}
		if l, err := layout.AutoLocalSpatial(g.warps(in), outer...); err == nil {
			return reg(r, l.Mul(atom))
		}
	}
	return nil
}

func loadShared(g *Graph, in *Instr) []found {
	r, s := pairOf(in)
	if r == nil || s == nil || !r.wants() || !s.Known || r.Elem.Bits() == 0 || len(r.Shape) == 0 {
		return nil
	}
	along, vector := contiguous(s.Shared, max(1, 128/r.Elem.Bits()))
	if len(s.Shape) != len(r.Shape) {
		along, vector = 0, 1
	}
	if l, ok := sideBySide(g.threads(in), r.Shape, along, vector); ok {
		return reg(r, l)
	}
	return nil
}

// contiguous finds the first dimension along which elements lie side by side, and
// how many of them, up to most, always start at a multiple of their number.
func contiguous(l layout.Shared, most int) (along, vector int) {
	if w := l.Swizzle(); !w.Identity() {
		most = gcd(most, 1<<w.Base)
	}
	sizes, steps := l.ModeShape(), l.ModeStrides()
	m := 0
	for d, n := range l.Shape() {
		for have := 1; have < n; m++ {
			have *= sizes[m]
		}
		if n == 1 || steps[m-1] != 1 {
			continue
		}
		vector = gcd(sizes[m-1], most)
		for i, step := range steps {
			if i != m-1 {
				vector = gcd(vector, step)
			}
		}
		if vector > 1 {
			return d, vector
		}
	}
	return 0, 1
}

// sharedView carries a layout over slices, permutations and reshapes of shared
// memory, both ways.
func sharedView(g *Graph, in *Instr) []found {
	tiles := only(in.tiles(), Shared)
	if len(tiles) != 2 {
		return nil
	}
	from, to := tiles[0], tiles[1]
	switch in.Op {
	case "SliceShared":
		keep := kept(in, len(from.Shape), len(to.Shape))
		if from.Known {
			return sharedIf(to)(ir.PartOfShared(from.Shared, keep, to.Shape))
		}
		if !to.Known {
			return nil
		}
		// The dimensions that the slice leaves out are copies of the slice.
		for _, d := range keep {
			if d < 0 || d >= len(from.Shape) {
				return nil
			}
		}
		for i, d := range keep {
			if to.Shape[i] != from.Shape[d] {
				return nil
			}
		}
		l := to.Shared
		order := slices.Clone(keep) // where each dimension of l stands in the source
		for d := len(from.Shape) - 1; d >= 0; d-- {
			if slices.Contains(keep, d) {
				continue
			}
			var err error
			if l, err = l.Prepend(from.Shape[d]); err != nil {
				return nil
			}
			order = append([]int{d}, order...)
		}
		return sharedIf(from)(l.Permute(inverse(order)...))
	case "PermuteShared":
		order := in.Dims
		if len(order) == 0 {
			for d := len(from.Shape) - 1; d >= 0; d-- {
				order = append(order, d)
			}
		}
		if from.Known {
			return sharedIf(to)(from.Shared.Permute(order...))
		}
		if to.Known {
			return sharedIf(from)(to.Shared.Permute(inverse(order)...))
		}
	case "ReshapeShared":
		if from.Known {
			return sharedIf(to)(from.Shared.Reshape(to.Shape...))
		}
		if to.Known {
			return sharedIf(from)(to.Shared.Reshape(from.Shape...))
		}
	}
	return nil
}

func sharedIf(t *Tile) func(layout.Shared, error) []found {
	return func(l layout.Shared, err error) []found {
		if err != nil || !t.wants() {
			return nil
		}
		return smem(t, l)
	}
}

// sharedOperands gives matrix operands in shared memory K-major forms. The last
// of several tiles is the accumulator; the first is A, [M, K], the second B, [K, N].
func sharedOperands(g *Graph, in *Instr) []found {
	for i, t := range in.In {
		if t.Space != Shared || !t.wants() || len(t.Shape) != 2 {
			continue
		}
		second := i == 1 && in.Op != "TMemoryCopy"
		shape := slices.Clone(t.Shape)
		if second {
			slices.Reverse(shape)
		}
		for _, width := range []int{128, 64, 32, 0} {
			c, err := layout.CanonicalFor(shape, t.Elem.Bits(), layout.MajorK, width)
			if err != nil {
				continue
			}
			l, err := c.Layout()
			if err == nil && second {
				l, err = l.Transpose(0, 1)
			}
			if err == nil {
				return smem(t, l)
			}
		}
	}
	return nil
}

func tmemoryAlloc(g *Graph, in *Instr) []found {
	for _, t := range only(in.Out, TMemory) {
		if l, err := layout.TMemoryRowMajor(t.Shape...); err == nil && t.wants() {
			return tmem(t, l)
		}
	}
	return nil
}

func tmemorySlice(g *Graph, in *Instr) []found {
	tiles := only(in.tiles(), TMemory)
	if len(tiles) != 2 || !tiles[0].Known || !tiles[1].wants() {
		return nil
	}
	keep := in.Dims
	if len(keep) == 0 && len(tiles[1].Shape) > 0 { // lanes and the last dimensions
		keep = append([]int{0}, kept(in, len(tiles[0].Shape), len(tiles[1].Shape)-1)...)
	}
	if l, err := tiles[0].TMemory.Slice(0, keep, tiles[1].Shape); err == nil {
		return tmem(tiles[1], l)
	}
	return nil
}

// tmemoryMove spreads lanes over warps, 32 each, and columns over slots.
func tmemoryMove(g *Graph, in *Instr) []found {
	for _, t := range registers(in.tiles()) {
		if !t.wants() || len(t.Shape) != 2 || t.Elem.Bits() == 0 || 32%t.Elem.Bits() != 0 || t.Shape[0]%32 != 0 {
			continue
		}
		each := 32 / t.Elem.Bits() // elements in a 32-bit column
		if warps := t.Shape[0] / 32; warps > g.warps(in) {
			continue
		}
		for _, atom := range g.Target.TMemoryLoads() {
			atom = atom.Local(1, each)
			rows, columns := atom.Shape()[0], atom.Shape()[1]
			if 32%rows != 0 || t.Shape[1]%columns != 0 {
				continue
			}
			l := layout.Spatial(t.Shape[0]/32, 1).ColumnLocal(32/rows, t.Shape[1]/columns).Mul(atom)
			return reg(t, l)
		}
	}
	return nil
}
