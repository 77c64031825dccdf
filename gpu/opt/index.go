package opt

import (
	"math"
	"strconv"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/affine"
)

// Index gives integers that vm/affine proves equal one value: an index that is put
// together again from its quotient and remainder, a remainder of what is smaller
// anyway. Comparisons that ranges of indices decide become constants, and guards that
// always hold go. It adds nothing but constants.
//
// Numbers are what thread and block numbers, parameters and loop variables make. An
// instruction counts as its formula where the result surely needs no more than 32 bits.
func Index(f *code.Func) bool {
	x := &indexer{f: f, consts: constLists.lend(len(f.Types)), same: valueLists.lend(len(f.Types))[:0], known: indexLists.lend(len(f.Types)), seen: map[string]code.Value{}, ranges: map[string]affine.Range{}, simple: map[string]formula{}}
	x.simplifier = affine.NewSimplifier(x.ranges)
	for i, p := range f.Params {
		if p.Kind == code.Scalar && p.Type == code.B32 {
			x.leaf(f.Body.Args[i], words)
		}
	}
	x.region(f.Body)
	x.same.apply(f.Body)
	constLists.back(x.consts)
	valueLists.back(x.same)
	indexLists.back(x.known)
	return x.changed
}

// index is a value as vm/affine has it, between 0 and 2³²-1.
type index struct {
	expr affine.Expr
	r    affine.Range
	ok   bool
}

type indexer struct {
	f          *code.Func
	consts     consts // those of predicates too
	same       replacer
	known      []index
	seen       map[string]code.Value // in scope, by formula
	ranges     map[string]affine.Range
	simple     map[string]formula // of formulas as they stand in the code
	simplifier *affine.Simplifier
	changed    bool
	out        []*code.Instr
}

// formula is an expression and its canonical text.
type formula struct {
	expr affine.Expr
	text string
}

// simplify gives the simplest formula; what variables run over is known before they are used,
// so a formula that comes again is the same again.
func (x *indexer) simplify(e affine.Expr, text string) formula {
	f, ok := x.simple[text]
	if !ok {
		f.expr = x.simplifier.Simplify(e)
		f.text = f.expr.String()
		x.simple[text] = f
	}
	return f
}

// longest bounds formulas, so that looking at them stays quick.
const longest = 160

var words = affine.Range{Lo: 0, Hi: math.MaxUint32}

func (x *indexer) region(r *code.Region) {
	outer := x.out
	x.out = make([]*code.Instr, 0, len(r.Instrs))
	var added []string
	for _, in := range r.Instrs {
		x.same.inputs(in)
		x.guard(in)
		if isConst(in.Op) {
			x.consts.set(in.Out[0], uint64(in.Imm[0]))
		}
		if key, gone := x.instr(in); gone {
			x.changed = true
			continue
		} else if key != "" {
			added = append(added, key)
		}
		x.counter(in)
		for _, sub := range in.Regions {
			x.region(sub)
		}
		x.out = append(x.out, in)
	}
	for i, y := range r.Yield {
		r.Yield[i] = x.same.of(y)
	}
	r.Instrs, x.out = x.out, outer
	for _, key := range added {
		delete(x.seen, key)
	}
}

// guard takes away what always holds.
func (x *indexer) guard(in *code.Instr) {
	if p, ok := x.consts.get(in.Guard); in.Guard != 0 && ok && p != 0 && !in.Row().Through {
		in.In, in.Guard = in.In[:len(in.Row().In)], 0
		x.changed = true
	}
}

// counter notes what the variable of a loop runs over.
func (x *indexer) counter(in *code.Instr) {
	if in.Op != code.OpFor {
		return
	}
	var ends [3]affine.Range
	for i := range ends {
		e, ok := x.of(in.In[i])
		if !ok {
			return
		}
		ends[i] = e.r
	}
	from, to, step := ends[0], ends[1], ends[2]
	if from.Hi <= math.MaxInt32 && to.Hi <= math.MaxInt32 && step.Lo > 0 && step.Hi <= math.MaxInt32 {
		x.leaf(in.Regions[0].Args[0], affine.Range{Lo: from.Lo, Hi: max(to.Hi-1, from.Lo)})
	}
}

// leaf is a value that stands for itself.
func (x *indexer) leaf(v code.Value, r affine.Range) index {
	name := "v" + strconv.Itoa(int(v))
	x.ranges[name] = r
	e := index{affine.Var(name), r, true}
	x.know(v, e)
	return e
}

func (x *indexer) know(v code.Value, e index) {
	x.known = room(x.known, v)
	x.known[v] = e
}

// of is what is known of a value; ok is false for data.
func (x *indexer) of(v code.Value) (e index, ok bool) {
	if int(v) < len(x.known) && x.known[v].ok {
		return x.known[v], true
	}
	if c, ok := x.consts.get(v); ok {
		e := index{affine.Const(int64(uint32(c))), affine.Range{Lo: int64(uint32(c)), Hi: int64(uint32(c))}, true}
		x.know(v, e)
		return e, true
	}
	return index{}, false
}

// instr looks at one instruction: gone says that another value, or a constant, has
// taken the place of its result; key is the formula that it has put into scope.
func (x *indexer) instr(in *code.Instr) (key string, gone bool) {
	if in.Op == code.OpSetpU32 || in.Op == code.OpSetpS32 {
		return "", x.compare(in)
	}
	if len(in.Out) != 1 || x.f.Type(in.Out[0]) != code.B32 || isConst(in.Op) {
		return "", false
	}
	v := in.Out[0]
	switch in.Op {
	case code.OpTidX:
		x.leaf(v, affine.Range{Lo: 0, Hi: int64(max(x.f.Launch.Block, 1) - 1)})
		return "", false
	case code.OpLaneID:
		x.leaf(v, affine.Range{Lo: 0, Hi: 31})
		return "", false
	case code.OpCtaidX:
		x.leaf(v, affine.Range{Lo: 0, Hi: math.MaxInt32 - 1})
		return "", false
	case code.OpCtaidY, code.OpCtaidZ:
		x.leaf(v, affine.Range{Lo: 0, Hi: math.MaxUint16 - 1})
		return "", false
	}
	e, ok := x.formula(in)
	if !ok {
		return "", false
	}
	most := words
	if in.Exact == code.ExactSigned {
		most.Hi = math.MaxInt32
	}
	r := e.Range(x.ranges)
	if e.Err() != nil || !r.Within(most) {
		x.leaf(v, words)
		return "", false
	}
	text := e.String()
	if len(text) > longest {
		x.leaf(v, words)
		return "", false
	}
	simple := x.simplify(e, text)
	e, key = simple.expr, simple.text
	if c, ok := e.Const(); ok {
		x.same.set(v, x.constant(code.OpConst32, code.B32, uint64(c), in))
		return "", true
	}
	first, ok := x.seen[key]
	if !ok { // a formula of one variable is that variable
		if name, one := e.Var(); one {
			n, _ := strconv.Atoi(name[1:])
			first, ok = code.Value(n), true
		}
	}
	if ok {
		x.same.set(v, first)
		return "", true
	}
	x.seen[key] = v
	x.know(v, index{e, r, true})
	return key, false
}

// formula is what an instruction computes, of numbers that do not wrap.
func (x *indexer) formula(in *code.Instr) (e affine.Expr, ok bool) {
	if in.Guard != 0 || len(in.In) < 2 {
		return e, false
	}
	a, okA := x.of(in.In[0])
	b, okB := x.of(in.In[1])
	if !okA || !okB {
		return e, false
	}
	n, isConst := b.expr.Const()
	power := affine.Const(1 << min(uint64(n), 31))
	switch in.Op {
	case code.OpAdd32:
		return a.expr.Add(b.expr), true
	case code.OpSub32:
		return a.expr.Sub(b.expr), true
	case code.OpMul32:
		_, other := a.expr.Const()
		return a.expr.Mul(b.expr), isConst || other
	case code.OpMad32:
		c, ok := x.of(in.In[2])
		return a.expr.Mul(b.expr).Add(c.expr), isConst && ok
	case code.OpShl32:
		return a.expr.Mul(power), isConst && n < 32
	case code.OpShrU32:
		return a.expr.FloorDiv(power), isConst && n < 32
	case code.OpAnd32:
		return a.expr.Mod(affine.Const(n + 1)), isConst && n > 0 && n < math.MaxUint32 && n&(n+1) == 0
	case code.OpDivU32:
		return a.expr.FloorDiv(b.expr), isConst && n > 0
	case code.OpRemU32:
		return a.expr.Mod(b.expr), isConst && n > 0
	case code.OpMinU32:
		return a.expr.Min(b.expr), true
	case code.OpMaxU32:
		return a.expr.Max(b.expr), true
	}
	return e, false
}

// compare decides a comparison whose sides' difference does not reach 0, or does not
// leave it.
func (x *indexer) compare(in *code.Instr) (gone bool) {
	a, okA := x.of(in.In[0])
	b, okB := x.of(in.In[1])
	if !okA || !okB {
		return false
	}
	if in.Op == code.OpSetpS32 && (a.r.Hi > math.MaxInt32 || b.r.Hi > math.MaxInt32) {
		return false
	}
	d := a.expr.Sub(b.expr).Range(x.ranges)
	var truth uint64
	switch how := code.Cmp(in.Imm[0]); {
	case d.Hi < 0:
		truth = bit(how == code.LT || how == code.LE || how == code.NE)
	case d.Lo > 0:
		truth = bit(how == code.GT || how == code.GE || how == code.NE)
	case d.Lo == 0 && d.Hi == 0:
		truth = bit(how == code.EQ || how == code.GE || how == code.LE)
	case d.Lo == 0 && (how == code.GE || how == code.LT):
		truth = bit(how == code.GE)
	case d.Hi == 0 && (how == code.LE || how == code.GT):
		truth = bit(how == code.LE)
	default:
		return false
	}
	x.same.set(in.Out[0], x.constant(code.OpConstPred, code.Pred, truth, in))
	return true
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func (x *indexer) constant(op code.Op, t code.Type, bits uint64, like *code.Instr) code.Value {
	v := x.f.NewValue(t)
	x.consts.set(v, bits)
	x.out = append(x.out, &code.Instr{Op: op, Out: []code.Value{v}, Imm: []int64{int64(bits)}, Pos: like.Pos})
	return v
}
