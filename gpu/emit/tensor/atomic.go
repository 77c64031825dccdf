package tensor

import (
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/emit/lanes"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// Combiner is the operation of a computation that applies one operation to its two
// parameters.
func Combiner(c *hlo.Computation) (hlo.Op, bool) {
	r := c.Root
	if len(c.Params) != 2 || len(r.Operands) != 2 || r.Operands[0].Op != hlo.Parameter || r.Operands[1].Op != hlo.Parameter || r.Operands[0] == r.Operands[1] {
		return 0, false
	}
	return r.Op, true
}

// IdentityOf is the element that changes nothing in a reduction, where its computation is one
// operation that may be applied in any order.
func IdentityOf(in *hlo.Instruction) (uint64, bool) {
	if in.Inputs() != 1 || in.Apply == nil {
		return 0, false
	}
	op, ok := Combiner(in.Apply)
	if !ok {
		return 0, false
	}
	return neutral(op, in.Apply.Root.Shape.Type)
}

// IdentitiesOf are those of every operand of a reduction.
func IdentitiesOf(in *hlo.Instruction) (list []uint64, ok bool) {
	if in.Inputs() == 1 {
		id, ok := IdentityOf(in)
		return []uint64{id}, ok
	}
	if plan.OrderOf(in) != plan.EachApart {
		return nil, false
	}
	for _, r := range in.Apply.Roots() {
		id, ok := neutral(r.Op, r.Shape.Type)
		if !ok {
			return nil, false
		}
		list = append(list, id)
	}
	return list, true
}

// AnyOrder says whether a reduction may be computed in any order by code that holds its
// values.
func AnyOrder(in *hlo.Instruction) bool {
	if _, ok := IdentitiesOf(in); ok {
		return true
	}
	return plan.OrderOf(in) == plan.Selects && !slices.ContainsFunc(in.Shape.Outputs(), func(s hlo.Shape) bool { return s.Type.Elem() == 0 || s.Type.Bits() < 8 })
}

func neutral(op hlo.Op, t hlo.Type) (uint64, bool) {
	if t.Elem() == 0 || t.Bits() < 8 {
		return 0, false
	}
	ones := uint64(1)<<min(63, t.Bits()) - 1
	if t.Bits() == 64 {
		ones = math.MaxUint64
	}
	if t == hlo.Pred {
		ones = 1
	}
	least, most := uint64(0), ones
	switch {
	case t.IsFloat() && !t.Elem().HasInf():
		least, most = t.Elem().Encode(t.Elem().Min(), false), t.Elem().Encode(t.Elem().Max(), false)
	case t.IsFloat():
		least, most = t.Elem().Encode(math.Inf(-1), false), t.Elem().Encode(math.Inf(1), false)
	case t.Signed():
		least, most = 1<<(t.Bits()-1), 1<<(t.Bits()-1)-1
	}
	switch op {
	case hlo.Add, hlo.Or, hlo.Xor:
		return 0, true
	case hlo.Multiply:
		if t.IsFloat() {
			return t.Elem().Encode(1, false), true
		}
		return 1, true
	case hlo.Maximum:
		return least, true
	case hlo.Minimum:
		return most, true
	case hlo.And:
		return ones, true
	}
	return 0, false
}

// addition are the instructions that add 1, 2 or 4 words of floats in memory.
func addition(t hlo.Type) map[int]code.Op {
	switch t {
	case hlo.F32:
		return map[int]code.Op{1: code.OpRedGlobalAddF32, 2: code.OpRedGlobalAddF32V2, 4: code.OpRedGlobalAddF32V4}
	case hlo.F16:
		return map[int]code.Op{1: code.OpRedGlobalAddF16x2, 2: code.OpRedGlobalAddF16x2V2, 4: code.OpRedGlobalAddF16x2V4}
	case hlo.BF16:
		return map[int]code.Op{1: code.OpRedGlobalAddBF16x2, 2: code.OpRedGlobalAddBF16x2V2, 4: code.OpRedGlobalAddBF16x2V4}
	}
	return nil
}

// atomic combines elements with those in memory in one step. What no instruction does goes
// through compare and swap of the word that holds the element.
func (e *elemental) atomic(t *Tensor, idx []affine.Expr, w where, v lanes.Vec, of *hlo.Instruction) error {
	op, simple := Combiner(of.Apply)
	if sums := addition(t.Shape.Type); v.N > 1 && simple && op == hlo.Add && sums != nil && !w.uses(lane) {
		if first, size, ok := e.run(t, idx, v.N); ok && size*t.Shape.Type.Bits() >= 32 {
			p, never := e.holds(w)
			for k := 0; k < v.N && !never; k += size {
				words := e.part(v, k, size)
				at := e.address(e.addr[t], first.AddConst(int64(k)), int64(t.Shape.Type.Bits()/8))
				e.Guard(p, sums[len(words)], []int64{at.imm}, nil, append([]code.Value{at.base}, words...)...)
			}
			return nil
		}
	}
	if v.N > 1 {
		for k := range v.N {
			by := affine.Const(int64(k))
			if err := e.atomic(t, e.at(idx, lane, by), e.whereAt(w, lane, by), e.Lane(v, k), of); err != nil {
				return err
			}
		}
		return nil
	}
	p, never := e.holds(w)
	if never {
		return nil
	}
	elem := t.Shape.Type
	bits := elem.Bits()
	if bits > 32 {
		return fmt.Errorf("%s: elements of %s cannot be combined atomically", of.Pos, elem)
	}
	if sums := addition(elem); bits == 16 && sums != nil && simple && op == hlo.Add {
		// The other half of the word gets -0, which changes nothing.
		off := e.integer(e.offset(t, idx))
		word := e.Op(code.OpMadWideU32, nil, e.DivideU32(off, 2), e.K(4), e.addr[t])
		low := e.SetpU32(code.EQ, e.RemainderU32(off, 2), e.K(0))
		x := e.Low(v.Words[0], 16)
		lo := e.Op(code.OpOr32, nil, x, e.K(math.MinInt32))
		hi := e.Op(code.OpOr32, nil, e.Op(code.OpShl32, nil, x, e.K(16)), e.K(0x8000))
		e.Guard(p, sums[1], []int64{0}, nil, word, e.Op(code.OpSelp32, nil, lo, hi, low))
		return nil
	}
	if native, ok := map[hlo.Type]map[hlo.Op]code.Op{
		hlo.F32: {hlo.Add: code.OpRedGlobalAddF32},
		hlo.S32: {hlo.Add: code.OpRedGlobalAdd, hlo.Maximum: code.OpAtomGlobalMaxS32, hlo.Minimum: code.OpAtomGlobalMinS32, hlo.And: code.OpRedGlobalAnd, hlo.Or: code.OpRedGlobalOr},
		hlo.U32: {hlo.Add: code.OpRedGlobalAdd, hlo.Maximum: code.OpAtomGlobalMaxU32, hlo.Minimum: code.OpAtomGlobalMinU32, hlo.And: code.OpRedGlobalAnd, hlo.Or: code.OpRedGlobalOr},
	}[elem][op]; ok && simple {
		at := e.address(e.addr[t], e.offset(t, idx), 4)
		var rest []code.Value
		if len(native.Row().Out) > 0 && p != 0 {
			rest = []code.Value{e.K(0)}
		}
		e.Guard(p, native, []int64{at.imm}, rest, at.base, v.Words[0])
		return nil
	}
	return e.swap(t, idx, p, v, of)
}

// swap is a combination by compare and swap, of nothing where the element is replaced.
func (e *elemental) swap(t *Tensor, idx []affine.Expr, p code.Value, v lanes.Vec, of *hlo.Instruction) error {
	elem := t.Shape.Type
	bits := elem.Bits()
	var fail error
	body := func() []code.Value {
		off := e.integer(e.offset(t, idx))
		per := int64(32 / bits)
		word := e.Op(code.OpMadWideU32, nil, e.DivideU32(off, per), e.K(4), e.addr[t])
		shift := e.Mul32(e.RemainderU32(off, per), e.K(int64(bits)))
		if per == 1 {
			shift = e.K(0)
		}
		data := v
		if elem == hlo.Pred {
			data = lanes.Vec{Type: hlo.Pred, N: 1, Words: v.Words}
		}
		old := e.LdGlobal(4, word, 0, 0)
		e.While([]code.Value{old, e.K(1)}, func(c []code.Value) code.Value {
			return e.SetpU32(code.NE, c[1], e.K(0))
		}, func(c []code.Value) []code.Value {
			have := lanes.Vec{Type: elem, N: 1, Words: []code.Value{e.Low(e.Op(code.OpShrU32, nil, c[0], shift), bits)}}
			if elem == hlo.Pred {
				have = e.Convert(hlo.Pred, lanes.Vec{Type: hlo.U8, N: 1, Words: have.Words})
			}
			next := []lanes.Vec{data}
			if of != nil {
				var err error
				if next, err = e.Combine(of.Apply, []lanes.Vec{have, data}); err != nil {
					fail = err
					return c
				}
			}
			n := next[0]
			if elem == hlo.Pred {
				n = e.Convert(hlo.U8, n)
			}
			mask := e.Op(code.OpShl32, nil, e.K(1<<bits-1), shift)
			if bits == 32 {
				mask = e.K(-1)
			}
			put := e.Op(code.OpShl32, nil, e.Low(n.Words[0], bits), shift)
			want := e.Op(code.OpOr32, nil, e.Op(code.OpAnd32, nil, c[0], e.Op(code.OpNot32, nil, mask)), put)
			seen := e.Emit1(code.OpAtomGlobalCas, []int64{0}, word, c[0], want)
			again := e.Op(code.OpSelp32, nil, e.K(1), e.K(0), e.SetpU32(code.NE, seen, c[0]))
			return []code.Value{seen, again}
		})
		return nil
	}
	if p == 0 {
		e.inside(func() { body() })
		return fail
	}
	e.If(p, func() []code.Value {
		e.inside(func() { body() })
		return nil
	}, nil)
	return fail
}
