package opt

import (
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// Ring turns remainders that go round with a loop, such as the stage of turn k of a
// pipeline, (k + 2) % 3, into a number that the loop carries: each turn adds its step
// and takes the size of the ring off where it is passed. A division by a constant
// takes several multiplications, and fragments wait for the place that it gives.
// Remainders of one size that stand apart by constants share what is carried.
//
// The loop must start at a constant from 0 on, so that no index wraps.
func Ring(f *code.Func) bool {
	if !inLoop(f.Body, code.OpRemU32, false) {
		return false
	}
	r := &ringer{same: valueLists.lend(len(f.Types))[:0]}
	r.bumper = newBumper(f, r.loop)
	r.region(f.Body, 0)
	r.same.apply(f.Body)
	r.done()
	valueLists.back(r.same)
	return r.changed
}

type ringer struct {
	*bumper
	same replacer
}

// remainder is one of a loop's: (i + add) % size.
type remainder struct {
	in        *code.Instr
	add, size int64
}

// maxRing bounds sizes: a ring is small.
const maxRing = 1 << 16

func (r *ringer) loop(in *code.Instr, depth int) (before []*code.Instr) {
	start, ok1 := r.constant(in.In[0])
	step, ok2 := r.constant(in.In[2])
	if !ok1 || !ok2 || start > maxRing || step < 1 || step > maxRing {
		return nil
	}
	body := in.Regions[0]
	i := body.Args[0]
	found := map[int64][]remainder{} // by size
	var sizes []int64
	for _, x := range body.Instrs {
		if x.Op != code.OpRemU32 || x.Guard != 0 {
			continue
		}
		size, ok := r.constant(x.In[1])
		sum := r.linear(x.In[0], i, depth+1)
		add := int64(int32(sum[product{}]))
		delete(sum, product{})
		if !ok || size < 2 || size > maxRing || len(sum) != 1 || sum[product{x: i}] != 1 || int64(start)+add < 0 || add > math.MaxInt32/2 {
			continue
		}
		if found[int64(size)] == nil {
			sizes = append(sizes, int64(size))
		}
		found[int64(size)] = append(found[int64(size)], remainder{x, add, int64(size)})
	}
	for _, size := range sizes {
		before = append(before, r.carry(in, found[size], int64(start), int64(step), depth)...)
	}
	return before
}

// carry adds the first of a group of remainders to what the loop carries and makes
// the others of it.
func (r *ringer) carry(loop *code.Instr, group []remainder, start, step int64, depth int) (before []*code.Instr) {
	body, size := loop.Regions[0], group[0].size
	base := slices.MinFunc(group, func(x, y remainder) int { return int(x.add - y.add) }).add
	value := func(op code.Op) code.Value { return r.f.NewValue(op.Row().Out[0]) }
	constant := func(n int64) code.Value {
		x := &code.Instr{Op: code.OpConst32, Imm: []int64{int64(uint32(n))}, Out: []code.Value{value(code.OpConst32)}, Pos: loop.Pos}
		r.set(x.Out[0], depth, x)
		before = append(before, x)
		return x.Out[0]
	}
	// ahead gives the instructions for (from + n) % size, where from is below size;
	// the last one makes it.
	ahead := func(like *code.Instr, from code.Value, n int64) (list []*code.Instr) {
		emit := func(op code.Op, imm []int64, in ...code.Value) code.Value {
			x := &code.Instr{Op: op, Imm: imm, In: in, Out: []code.Value{value(op)}, Exact: code.MayWrap, Pos: like.Pos}
			r.set(x.Out[0], depth+1, x)
			list = append(list, x)
			return x.Out[0]
		}
		sum := emit(code.OpAdd32, nil, from, constant(n))
		past := emit(code.OpSetpU32, []int64{int64(code.GE)}, sum, constant(size))
		less := emit(code.OpAdd32, nil, sum, constant(-size))
		emit(code.OpSelp32, nil, less, sum, past)
		return list
	}
	now := value(code.OpAdd32)
	r.set(now, depth+1, nil)
	made := map[int64]code.Value{0: now} // by what it is ahead
	at := map[*code.Instr]int64{}
	for _, x := range group {
		at[x.in] = (x.add - base) % size
	}
	var list []*code.Instr
	for _, x := range body.Instrs {
		n, mine := at[x]
		if !mine {
			list = append(list, x)
			continue
		}
		if made[n] == 0 {
			more := ahead(x, now, n)
			made[n] = more[len(more)-1].Out[0]
			list = append(list, more...)
		}
		r.same.set(x.Out[0], made[n])
	}
	// At the end, where nothing uses the old number any more, the new one can take
	// its register.
	more := ahead(loop, now, step%size)
	next := more[len(more)-1].Out[0]
	body.Instrs = append(list, more...)
	loop.In = append(loop.In, constant((start+base)%size))
	end := value(code.OpAdd32)
	r.set(end, depth, loop)
	loop.Out = append(loop.Out, end)
	body.Args, body.Yield = append(body.Args, now), append(body.Yield, next)
	r.changed = true
	return before
}
