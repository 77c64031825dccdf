package infer

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Split is a matrix product [M, K]·[K, N] spread over the warps of a block: warps
// stand in rows and columns over the result, and those that need the same part of
// an operand each hold it.
type Split struct {
	Product Product
	Warps   [2]int // along M and along N
	A, B, C layout.Layout
}

// Spread finds the split of a product over warps that takes the fewest registers
// of a thread, fewer than limit, of operands and results of these widths in bits.
func Spread(p Product, m, n, k, warps, operandBits, resultBits, limit int) (Split, error) {
	if warps < 1 || warps > 64 || p.M < 1 || p.N < 1 || p.K < 1 {
		return Split{}, fmt.Errorf("infer: %d warps, atom %d × %d × %d", warps, p.M, p.N, p.K)
	}
	for _, pair := range [][2]int{{m, n}, {m, k}, {k, n}} {
		if pair[0] < 1 || pair[1] < 1 || pair[0] > layout.MaxCells/pair[1]/warps {
			return Split{}, fmt.Errorf("infer: a product of %d × %d × %d over %d warps is too large or empty", m, n, k, warps)
		}
	}
	var best Split
	for rows := 1; rows <= warps; rows++ {
		cols := warps / rows
		if rows*cols != warps || m%(p.M*rows) != 0 || n%(p.N*cols) != 0 || k%p.K != 0 {
			continue
		}
		rm, rn, rk := m/p.M/rows, n/p.N/cols, k/p.K
		need := (rm*rk*p.A.Slots()+rk*rn*p.B.Slots())*operandBits/32 + rm*rn*p.C.Slots()*resultBits/32
		if need >= limit {
			continue
		}
		limit = need
		a, err := layout.SpatialRanked([]int{rows, 1, cols}, []int{1, 0, 2})
		if err != nil {
			return Split{}, err
		}
		b, err := layout.SpatialRanked([]int{1, cols, rows}, []int{0, 2, 1})
		if err != nil {
			return Split{}, err
		}
		if a, err = a.Reduce([]int{2}, false); err != nil {
			return Split{}, err
		}
		if b, err = b.Reduce([]int{2}, false); err != nil {
			return Split{}, err
		}
		best = Split{p, [2]int{rows, cols}, a.Local(rm, rk).Mul(p.A), b.Local(rk, rn).Mul(p.B), layout.Spatial(rows, cols).Local(rm, rn).Mul(p.C)}
	}
	if best.Warps[0] == 0 {
		return Split{}, fmt.Errorf("infer: no split of %d × %d × %d over %d warps by %s leaves enough registers", m, n, k, warps, p.Name)
	}
	return best, nil
}

// dot is the rule of Dot(a, b, c) → d.
func dot(g *Graph, in *Instr) []found {
	if len(in.In) != 3 || len(in.Out) != 1 {
		return nil
	}
	a, b, c, d := in.In[0], in.In[1], in.In[2], in.Out[0]
	if len(a.Shape) != 2 || len(b.Shape) != 2 || a.Elem.Bits() == 0 {
		return nil
	}
	m, k, n := a.Shape[0], a.Shape[1], b.Shape[1]
	var products []Product
	if in.Op == "Dot" && a.Elem.Bits() == b.Elem.Bits() {
		products = g.Target.Products(a.Elem, d.Elem)
	}
	if len(products) == 0 {
		return lanes(g, a, b, c, d)
	}
	if !slices.ContainsFunc(in.tiles(), func(t *Tile) bool { return t.Known }) {
		for _, p := range products {
			s, err := Spread(p, m, n, k, g.Warps, a.Elem.Bits(), d.Elem.Bits(), g.Target.Registers())
			if err == nil {
				return slices.Concat(reg(a, s.A), reg(b, s.B), reg(c, s.C), reg(d, s.C))
			}
		}
		return nil
	}
	if !d.Known {
		if c.Known {
			return reg(d, c.Register)
		}
		return nil
	}
	for _, p := range products {
		outer, err := d.Register.Div(p.C)
		if err != nil || k%p.K != 0 || outer.Rank() != 2 || !madeOf(a, p.A) || !madeOf(b, p.B) || !madeOf(c, p.C) {
			continue
		}
		shape := outer.Shape()
		oa, err := outer.ReduceTo([]int{shape[0], 1})
		if err != nil {
			continue
		}
		ob, err := outer.ReduceTo([]int{1, shape[1]})
		if err != nil {
			continue
		}
		la, ok1 := chain(oa, layout.Local(1, k/p.K), p.A)
		lb, ok2 := chain(ob, layout.Local(k/p.K, 1), p.B)
		if !ok1 || !ok2 {
			continue
		}
		var all []found
		if a.wants() {
			all = append(all, reg(a, la)...)
		}
		if b.wants() {
			all = append(all, reg(b, lb)...)
		}
		if c.wants() {
			all = append(all, reg(c, d.Register)...)
		}
		return all
	}
	return nil
}

// lanes is the rule of a product by FMAs: each thread holds the rows and columns that
// its elements of the result need.
func lanes(g *Graph, a, b, c, d *Tile) []found {
	if !d.Known && c.Known {
		return reg(d, c.Register)
	}
	l := d.Register
	if !d.Known {
		var ok bool
		if l, ok = sideBySide(g.Threads(), d.Shape, 1, 2); !ok {
			return nil
		}
	}
	var all []found
	for _, x := range []struct {
		t     *Tile
		keep  []int
		along layout.Layout
	}{{a, []int{d.Shape[0], 1}, layout.Local(1, a.Shape[1])}, {b, []int{1, d.Shape[1]}, layout.Local(a.Shape[1], 1)}} {
		if !x.t.wants() {
			continue
		}
		part, err := l.ReduceTo(x.keep)
		if err != nil {
			return nil
		}
		whole, ok := chain(part, x.along)
		if !ok {
			return nil
		}
		all = append(all, reg(x.t, whole)...)
	}
	for _, t := range []*Tile{c, d} {
		if t.wants() {
			all = append(all, reg(t, l)...)
		}
	}
	return all
}

// madeOf says that a tile's layout, if it has one, is made of fragments.
func madeOf(t *Tile, fragment layout.Layout) bool {
	if !t.Known {
		return true
	}
	_, err := t.Register.Div(fragment)
	return err == nil
}

// chain is the product of layouts, unless it is too large to be one.
func chain(l layout.Layout, inner ...layout.Layout) (layout.Layout, bool) {
	for _, g := range inner {
		if l.Threads()*l.Slots() > layout.MaxCells/(g.Threads()*g.Slots()) || max(l.Rank(), g.Rank()) > layout.MaxRank {
			return layout.Layout{}, false
		}
		l = l.Mul(g)
	}
	return l, true
}

// wgmma is the rule of a product of operands in shared memory, or of A in
// registers, by the four warps of a warp group: the accumulator is the last tile.
func wgmma(g *Graph, in *Instr) []found {
	tiles := in.tiles()
	if len(tiles) < 3 {
		return nil
	}
	var all []found
	for _, d := range tiles[2:] {
		if d.Space != Register || !d.wants() || len(d.Shape) != 2 {
			continue
		}
		if l, ok := wgmmaResult(d.Shape, g.Warps); ok {
			all = append(all, reg(d, l)...)
		}
	}
	if all != nil {
		return all
	}
	return sharedOperands(g, in)
}

// wgmmaResult is the accumulator of shape [M, N]: instructions of 64 rows and as
// many columns as divide 256, four warps under each other, each thread with pairs of
// neighbours in two rows.
func wgmmaResult(shape []int, warps int) (layout.Layout, bool) {
	m, n := shape[0], gcd(shape[1], 256)
	if m%64 != 0 || n%8 != 0 || warps < 4 || size(shape) > layout.MaxCells/128 {
		return layout.Layout{}, false
	}
	return layout.Local(m/64, shape[1]/n).ColumnSpatial(4, 1).ColumnLocal(2, n/8).Spatial(8, 4).Local(1, 2), true
}
