package infer

import (
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Split is a matrix product [M, K]·[K, N] spread over the warps of a block: warps
// stand in rows and columns over the result, and those that need the same part of
// an operand each hold it.
type Split struct {
	Product Product
	Warps   [2]int // along M and along N
	A, B, C layout.Layout

	need int // registers of a thread
}

// Spread finds the split of a product over warps that takes the fewest registers
// of a thread, fewer than limit, of operands and results of these widths in bits.
func Spread(p Product, m, n, k, warps, operandBits, resultBits, limit int) (Split, error) {
	all, err := splits(p, m, n, k, warps, operandBits, resultBits, limit)
	if err != nil {
		return Split{}, err
	}
	return all[0], nil
}

// splits are all splits that take fewer registers than limit, the fewest first; at
// least one, or an error.
func splits(p Product, m, n, k, warps, operandBits, resultBits, limit int) ([]Split, error) {
	if warps < 1 || warps > 64 || p.M < 1 || p.N < 1 || p.K < 1 {
		return nil, fmt.Errorf("infer: %d warps, atom %d × %d × %d", warps, p.M, p.N, p.K)
	}
	for _, pair := range [][2]int{{m, n}, {m, k}, {k, n}} {
		if pair[0] < 1 || pair[1] < 1 || pair[0] > layout.MaxCells/pair[1]/warps {
			return nil, fmt.Errorf("infer: a product of %d × %d × %d over %d warps is too large or empty", m, n, k, warps)
		}
	}
	var all []Split
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
		a, err := layout.SpatialRanked([]int{rows, 1, cols}, []int{1, 0, 2})
		if err != nil {
			return nil, err
		}
		b, err := layout.SpatialRanked([]int{1, cols, rows}, []int{0, 2, 1})
		if err != nil {
			return nil, err
		}
		if a, err = a.Reduce([]int{2}, false); err != nil {
			return nil, err
		}
		if b, err = b.Reduce([]int{2}, false); err != nil {
			return nil, err
		}
		all = append(all, Split{p, [2]int{rows, cols}, a.Local(rm, rk).Mul(p.A), b.Local(rk, rn).Mul(p.B), layout.Spatial(rows, cols).Local(rm, rn).Mul(p.C), need})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("infer: no split of %d × %d × %d over %d warps by %s leaves enough registers", m, n, k, warps, p.Name)
	}
	slices.SortStableFunc(all, func(x, y Split) int { return x.need - y.need })
	return all, nil
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
	k := a.Shape[1]
	var products []Product
	if in.Op == "Dot" && a.Elem.Bits() == b.Elem.Bits() {
		products = g.Target.Products(a.Elem, d.Elem)
	}
	if len(products) == 0 {
		return lanes(g, in, a, b, c, d)
	}
	if !d.Known && c.Known {
		return reg(d, c.Register)
	}
	if !d.Known {
		s, ok := g.choose(in, products)
		if !ok {
			return nil
		}
		var all []found
		for _, x := range []struct {
			t *Tile
			l layout.Layout
		}{{a, s.A}, {b, s.B}, {c, s.C}, {d, s.C}} {
			if x.t.wants() {
				all = append(all, reg(x.t, x.l)...)
			}
		}
		return all
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

// choose splits a product whose result is open: as operands that have a layout lie,
// if they lie as operands; so that what another product made is not held, and computed,
// by several warps; with the fewest registers.
func (g *Graph) choose(in *Instr, products []Product) (Split, bool) {
	a, b, d := in.In[0], in.In[1], in.Out[0]
	var best Split
	rank := -1
	for _, p := range products {
		all, err := splits(p, a.Shape[0], b.Shape[1], a.Shape[1], g.warps(in), a.Elem.Bits(), d.Elem.Bits(), g.Target.Registers())
		if err != nil && rank < 0 && a.Shape[1]%p.K == 0 {
			// Operands of many steps may be loaded step by step: those of one must fit.
			var one []Split
			if one, err = splits(p, a.Shape[0], b.Shape[1], p.K, g.warps(in), a.Elem.Bits(), d.Elem.Bits(), g.Target.Registers()); err == nil {
				all, err = splits(p, a.Shape[0], b.Shape[1], a.Shape[1], g.warps(in), a.Elem.Bits(), d.Elem.Bits(), math.MaxInt)
				all = slices.DeleteFunc(all, func(s Split) bool {
					return !slices.ContainsFunc(one, func(o Split) bool { return o.Warps == s.Warps })
				})
			}
		}
		if err != nil {
			continue
		}
		for _, s := range all {
			r := 0
			for _, x := range []struct {
				t     *Tile
				l     layout.Layout
				alone bool
			}{{a, s.A, s.Warps[1] == 1}, {b, s.B, s.Warps[0] == 1}} {
				switch {
				case x.t.Known && x.t.Register.Equal(x.l):
					r += 4
				case !x.t.Known && x.alone && g.ofProduct(x.t, in, map[*Tile]bool{}):
					r += 2
				}
			}
			if r > rank {
				best, rank = s, r
			}
		}
	}
	return best, rank >= 0
}

// ofProduct says whether a tile is computed, element by element, from another product.
func (g *Graph) ofProduct(t *Tile, but *Instr, seen map[*Tile]bool) bool {
	if seen[t] || len(seen) > 64 {
		return false
	}
	seen[t] = true
	for _, in := range g.Instrs {
		if in == but || !slices.Contains(in.Out, t) {
			continue
		}
		switch in.Op {
		case "Dot", OpLaneDot:
			return true
		case OpUnary, OpBinary, OpWhere, "Assign":
			for _, x := range in.In {
				if x.Space == Register && slices.Equal(x.Shape, t.Shape) && g.ofProduct(x, but, seen) {
					return true
				}
			}
		}
	}
	return false
}

// multiplies says whether a Dot whose layouts are all known can be lowered: by matrix
// instructions whose fragments all warps hold in the same slots, or by FMAs.
func multiplies(in *ir.Instr) bool {
	plans, _ := ir.DotPlans(in)
	if in.In[2].Var().Type.Layout.Rank() > 2 {
		return len(plans) > 0 // several products are made by matrix instructions only
	}
	for _, p := range plans {
		if sameSlots(p.C, p.A, p.B) {
			return true
		}
	}
	a, b, c := in.In[0].Var().Type.Layout, in.In[1].Var().Type.Layout, in.In[2].Var().Type.Layout
	return c.Equal(in.Out[0].Type.Layout) && a.Threads() == c.Threads() && b.Threads() == c.Threads() && sameSlots(c, a, b)
}

// sameSlots says whether each thread (or warp) that computes [i, j] of c holds all of row i of a
// and column j of b, in slots that are the same for all threads.
func sameSlots(c, a, b layout.Layout) bool {
	steps := a.Shape()[1]
	sa, sb := slotsByThread(a), slotsByThread(b)
	for s := range c.Slots() {
		first := c.Index(0, s)
		for t := range c.Threads() {
			at := c.Index(t, s)
			for k := range steps {
				wa, wb := sa(t, at[0], k), sb(t, k, at[1])
				if wa < 0 || wb < 0 || wa != sa(0, first[0], k) || wb != sb(0, k, first[1]) {
					return false
				}
			}
		}
	}
	return true
}

// slotsByThread is where a thread holds element [i, j] of a layout, or -1.
func slotsByThread(l layout.Layout) func(t, i, j int) int {
	type key struct{ t, e int }
	held, n, columns := l.Flat(), l.Slots(), l.Shape()[1]
	at := make(map[key]int, len(held))
	for k, e := range held {
		if _, ok := at[key{k / n, int(e)}]; !ok {
			at[key{k / n, int(e)}] = k % n
		}
	}
	return func(t, i, j int) int {
		if s, ok := at[key{t, i*columns + j}]; ok {
			return s
		}
		return -1
	}
}

// lanes is the rule of a product by FMAs: each thread holds the rows and columns that
// its elements of the result need.
func lanes(g *Graph, in *Instr, a, b, c, d *Tile) []found {
	if !d.Known && c.Known {
		return reg(d, c.Register)
	}
	l := d.Register
	if !d.Known {
		var ok bool
		if l, ok = sideBySide(g.threads(in), d.Shape, 1, 2); !ok {
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
		if l, ok := wgmmaResult(d.Shape, g.warps(in)); ok {
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
