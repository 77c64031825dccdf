package opt

import (
	"encoding/binary"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Cse gives equal pure instructions one value: a later one with the same op,
// immediates and inputs is dropped where the earlier one is in scope. Constants
// go to the start of the function first, where they are in scope everywhere.
func Cse(f *code.Func) bool {
	c := &cse{same: replacer{}, constant: map[code.Value]bool{}, seen: make(map[cseKey]code.Value, len(f.Types)/2)}
	head, values := []*code.Instr{}, map[[2]int64]code.Value{}
	c.constants(f.Body, &head, values)
	f.Body.Instrs = append(head, f.Body.Instrs...)
	c.same.apply(f.Body)
	c.region(f.Body, true)
	return len(c.same) > 0
}

type cse struct {
	same     replacer
	constant map[code.Value]bool // they stay second, where texts can hold them
	seen     map[cseKey]code.Value
}

// cseKey is what equal instructions have in common; more holds what does not fit.
type cseKey struct {
	op   code.Op
	in   [3]code.Value
	imm  [2]int64
	more string
}

// constants takes the constants out of a region.
func (c *cse) constants(r *code.Region, head *[]*code.Instr, values map[[2]int64]code.Value) {
	rest := r.Instrs[:0]
	for _, in := range r.Instrs {
		for _, sub := range in.Regions {
			c.constants(sub, head, values)
		}
		if !isConst(in.Op) {
			rest = append(rest, in)
			continue
		}
		key := [2]int64{int64(in.Op), in.Imm[0]}
		if v, ok := values[key]; ok {
			c.same[in.Out[0]] = v
			continue
		}
		values[key] = in.Out[0]
		c.constant[in.Out[0]] = true
		*head = append(*head, in)
	}
	r.Instrs = rest
}

// region goes through a region; whole is that of the function, behind which nothing is.
func (c *cse) region(r *code.Region, whole bool) {
	var added []cseKey
	rest := r.Instrs[:0]
	for _, in := range r.Instrs {
		c.same.inputs(in)
		for _, sub := range in.Regions {
			c.region(sub, false)
		}
		row := in.Row()
		if !row.Movable() || len(in.Out) != 1 || isConst(in.Op) {
			rest = append(rest, in)
			continue
		}
		if row.Commutes && in.In[0] > in.In[1] && !c.constant[in.In[0]] && !c.constant[in.In[1]] {
			in.In[0], in.In[1] = in.In[1], in.In[0]
		}
		key := c.keyOf(in)
		if v, ok := c.seen[key]; ok {
			c.same[in.Out[0]] = v
			continue
		}
		c.seen[key] = in.Out[0]
		if !whole {
			added = append(added, key)
		}
		rest = append(rest, in)
	}
	r.Instrs = rest
	for i, y := range r.Yield {
		r.Yield[i] = c.same.of(y)
	}
	for _, key := range added {
		delete(c.seen, key)
	}
}

func (c *cse) keyOf(in *code.Instr) cseKey {
	key := cseKey{op: in.Op}
	if n, m := copy(key.in[:], in.In), copy(key.imm[:], in.Imm); n < len(in.In) || m < len(in.Imm) {
		var more []byte
		for _, v := range in.In[n:] {
			more = binary.AppendUvarint(more, uint64(v))
		}
		for _, i := range in.Imm[m:] {
			more = binary.AppendVarint(more, i)
		}
		key.more = string(more)
	}
	return key
}
