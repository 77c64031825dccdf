package infer

import (
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// tensorTile is the rule of tensor copies: the rows of the tile are swizzled over as
// many bytes as divide them, which is also what matrix instructions read.
func tensorTile(g *Graph, in *Instr) []found {
	tiles := only(in.tiles(), Shared)
	if len(tiles) == 0 || !tiles[0].wants() {
		return nil
	}
	t := tiles[0]
	if l, err := layout.SharedRowMajorSwizzle(t.Elem.Bits(), t.Shape...); err == nil {
		return smem(t, l)
	}
	return sharedRows(g, in)
}

// wgmmaDot is the rule of WgmmaDot(a, b, c) → c: warpgroups stand under each other over
// the rows of the result, or beside each other where those are too few; operands in
// registers from the result; operands in shared memory as [sharedOperands] has them.
func wgmmaDot(g *Graph, in *Instr) []found {
	if len(in.In) != 3 || len(in.In[2].Shape) != 2 || len(in.In[0].Shape) != 2 {
		return nil
	}
	a, c := in.In[0], in.In[2]
	groups := g.threads(in) / ir.WarpgroupThreads
	if c.wants() && groups > 0 {
		m, n := c.Shape[0], c.Shape[1]
		rows, columns := groups, 1
		if m%(64*groups) != 0 {
			rows, columns = 1, groups
		}
		if m%(64*rows) != 0 || n%(8*columns) != 0 {
			return nil
		}
		part := n / columns
		wide := min(part, 256) / 8 * 8
		for part%wide != 0 {
			wide -= 8
		}
		l := layout.Spatial(rows, columns).Local(m/64/rows, part/wide).Mul(ir.WgmmaForm{N: wide}.C())
		return append(reg(c, l), registersLike(in.Out, l)...)
	}
	if a.Space == Register && a.wants() && groups > 0 && a.Shape[0]%(64*groups) == 0 {
		atom := ir.WgmmaForm{}.A(a.Elem)
		if k := atom.Shape()[1]; a.Shape[1]%k == 0 {
			return reg(a, layout.Spatial(groups, 1).Local(a.Shape[0]/64/groups, a.Shape[1]/k).Mul(atom))
		}
	}
	return sharedOperands(g, in)
}

// tensorRows is the rule of loads and stores of tensor memory: thread i has row i.
func tensorRows(g *Graph, in *Instr) []found {
	for _, t := range registers(in.tiles()) {
		if l, ok := ir.TensorRegisters(t.Elem, t.Shape); ok && t.wants() && g.threads(in) == ir.WarpgroupThreads {
			return reg(t, l)
		}
	}
	return nil
}

// registersLike gives register tiles without layout this one.
func registersLike(tiles []*Tile, l layout.Layout) (all []found) {
	for _, t := range registers(tiles) {
		if t.wants() {
			all = append(all, reg(t, l)...)
		}
	}
	return all
}
