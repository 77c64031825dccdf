package opt

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Cse gives equal pure instructions one value: a later one with the same op,
// immediates and inputs is dropped where the earlier one is in scope. Constants
// go to the start of the function first, where they are in scope everywhere.
func Cse(f *code.Func) bool {
	n := len(f.Types)
	buckets := 64
	for buckets < n {
		buckets *= 2
	}
	c := &cse{same: valueLists.lend(n), constant: boolLists.lend(n), heads: valueLists.lend(buckets), next: valueLists.lend(n), def: instrLists.lend(n)}
	first := 0 // constants that stand at the start
	for first < len(f.Body.Instrs) && isConst(f.Body.Instrs[first].Op) {
		first++
	}
	head := make([]*code.Instr, 0, len(f.Body.Instrs)+first)
	c.constants(f.Body, &head)
	c.changed = c.changed || len(head) > first
	f.Body.Instrs = append(head, f.Body.Instrs...)
	c.region(f.Body) // constants stand in front of what uses them
	valueLists.back(c.same, c.heads, c.next)
	boolLists.back(c.constant)
	instrLists.back(c.def)
	return c.changed
}

// cse knows the instructions in scope: those whose hashes end alike are chained, the
// latest first.
type cse struct {
	same     []code.Value // what stands for a value, 0: itself
	constant []bool       // they stay second, where texts can hold them
	changed  bool
	heads    []code.Value // of the chains
	next     []code.Value
	def      []*code.Instr
}

func (c *cse) of(v code.Value) code.Value {
	for c.same[v] != 0 {
		v = c.same[v]
	}
	return v
}

func (c *cse) replace(v, by code.Value) { c.same[v], c.changed = by, true }

// constants takes the constants out of a region.
func (c *cse) constants(r *code.Region, head *[]*code.Instr) {
	rest := r.Instrs[:0]
	for _, in := range r.Instrs {
		for _, sub := range in.Regions {
			c.constants(sub, head)
		}
		if !isConst(in.Op) {
			rest = append(rest, in)
			continue
		}
		v, at := c.find(in)
		out := in.Out[0]
		if v != 0 {
			c.replace(out, v)
			continue
		}
		c.next[out], c.heads[at], c.def[out] = c.heads[at], out, in
		c.constant[out] = true
		*head = append(*head, in)
	}
	r.Instrs = rest
}

func (c *cse) region(r *code.Region) {
	var added []uint32 // chains, in order
	rest := r.Instrs[:0]
	for _, in := range r.Instrs {
		for i, v := range in.In {
			in.In[i] = c.of(v)
		}
		if in.Guard != 0 {
			in.Guard = c.of(in.Guard)
		}
		for _, sub := range in.Regions {
			c.region(sub)
		}
		row := in.Row()
		if len(in.Out) != 1 || isConst(in.Op) || !row.Movable() {
			rest = append(rest, in)
			continue
		}
		if row.Commutes && in.In[0] > in.In[1] && !c.constant[in.In[0]] && !c.constant[in.In[1]] {
			in.In[0], in.In[1] = in.In[1], in.In[0]
			c.changed = true
		}
		v, at := c.find(in)
		out := in.Out[0]
		if v != 0 {
			c.replace(out, v)
			continue
		}
		c.next[out], c.heads[at], c.def[out] = c.heads[at], out, in
		added = append(added, at)
		rest = append(rest, in)
	}
	r.Instrs = rest
	for i, y := range r.Yield {
		r.Yield[i] = c.of(y)
	}
	for _, at := range slices.Backward(added) {
		c.heads[at] = c.next[c.heads[at]]
	}
}

// find is the value that an instruction would give again, or 0, and its chain.
func (c *cse) find(in *code.Instr) (v code.Value, chain uint32) {
	chain = c.chain(in)
	for v = c.heads[chain]; v != 0 && !equal(c.def[v], in); v = c.next[v] {
	}
	return v, chain
}

// chain is where an instruction is looked for.
func (c *cse) chain(in *code.Instr) uint32 {
	const odd = 0x9e3779b97f4a7c15
	h := uint64(in.Op) * odd
	for _, v := range in.In {
		h = (h ^ uint64(v)) * odd
		h ^= h >> 29
	}
	for _, i := range in.Imm {
		h = (h ^ uint64(i)) * odd
		h ^= h >> 29
	}
	return uint32(h>>32) & uint32(len(c.heads)-1)
}

func equal(a, b *code.Instr) bool {
	return a.Op == b.Op && slices.Equal(a.In, b.In) && slices.Equal(a.Imm, b.Imm)
}
