package ir

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// MaxTileElements bounds a register tensor, so that a typing slip cannot ask for
// all memory.
const MaxTileElements = 1 << 20

// RuleDoc describes a numbered rule for the manual and `tilus-lab explain`.
type RuleDoc struct{ Code, Text, Why string }

// general are the rules that hold for every instruction, type and statement;
// the rules of one op stand in its row.
var general = []RuleDoc{
	{"Op.G1", "An instruction has the operands of its row.", ""},
	{"Op.G2", "Each operand is of a kind that the row accepts.", ""},
	{"Op.G3", "Attributes are those of the row, each at most once.", ""},
	{"Op.G4", "An attribute's value has the kind that the row says.", ""},
	{"Op.G5", "Required attributes are present.", ""},
	{"Op.G6", "An instruction gives the results of its row.", ""},
	{"Op.G7", "Each result is of the kind that the row says.", ""},
	{"Type.C1", "A register or shared tensor's layout has the tensor's shape.", "The layout is the map from (thread, slot), or to places in memory, of the elements of that shape."},
	{"Type.C2", "A register tensor's layout spreads over all threads of the block, or of the thread group that makes it.", "Threads that hold nothing of their own hold replicas; the block has 32·warps threads."},
	{"Type.C3", fmt.Sprintf("Extents of register and shared tensors are positive constants, at most %d elements in all.", MaxTileElements), ""},
	{"Type.C4", "A register or shared tensor has a layout.", "Interpreter, pictures and lowering all need to know which thread holds which element, and where it lies."},
	{"Type.C5", "Scalars are i32, i64, u32, bool or float; pointers point to any element type.", "An i64, like a float, only goes to instructions on tensors; see Expr.C2."},
	{"Type.C6", "A register tensor with a bit placement comes from View and goes into Cast or CastDeferred.", "Its bits lie in another order than the slots; View says so and costs nothing, casts know where to find them."},
	{"Type.C7", "A global tensor has 1 to 2147483647 elements.", "Indices are 32 bits wide."},
	{"Var.C1", "A variable keeps its type.", "Assigning another type would change what earlier text meant; use a new name."},
	{"Var.C2", "Parameters and loop variables are not assigned.", ""},
	{"Var.C3", "A variable is assigned before it is read, in this block or one around it.", "What a block assigns first ends with the block."},
	{"Var.C4", "A shared tensor is assigned in one place.", "It names memory, not a value: which memory is known at each use, and when it can be used again."},
	{"Expr.C1", "Both sides of an operator have one scalar type.", ""},
	{"Expr.C2", "Arithmetic and order in expressions, indices, extents and bounds are of i32 or u32; bools can be equal or not.", "Expressions compute indices, which are 32 bits wide on the GPU; values go through instructions."},
	{"Expr.C3", "Conditions are bools.", "There is no implicit comparison with 0."},
	{"Expr.R1", "Integer expressions neither overflow their type nor divide by zero, and literals fit their type.", "Index arithmetic is on 32 bits on the GPU; a wrapped index would read another element."},
	{"For.C1", "The step of a for is an i32 constant other than 0.", ""},
	{"Prog.C1", "warps is 1 to 32.", "A block has at most 1024 threads."},
	{"Prog.C2", "The grid has 1 to 3 dimensions, each an integer expression of constants and scalar parameters that is 1 or more.", ""},
	{"Prog.C3", "Parameter names are distinct.", ""},
	{"Prog.C4", "A cluster is 1 to 8 blocks, along dimensions of the grid.", "Every GPU with clusters runs 8 blocks at the same time."},
	{"Prog.C5", "Resident blocks are 1 to 32, of at most 2048 threads together.", "A multiprocessor holds no more at the same time."},
}

// Rules lists every rule, general ones first, then op by op.
func Rules() []RuleDoc {
	docs := slices.Concat(general, controlRules)
	for _, op := range table {
		for i, r := range op.Rules {
			docs = append(docs, RuleDoc{op.Code(i), r.Text, r.Why})
		}
	}
	return docs
}

// Explain finds a rule by its code, or ok is false.
func Explain(code string) (doc RuleDoc, ok bool) {
	docs := Rules()
	i := slices.IndexFunc(docs, func(d RuleDoc) bool { return strings.EqualFold(d.Code, code) })
	if i < 0 {
		return RuleDoc{}, false
	}
	return docs[i], true
}

// Verify checks a program against every rule and returns the problems in source
// order; an empty list means the interpreter and lowering may assume the rules.
func Verify(p *Program) diag.List {
	v := newVerifier(p)
	v.program()
	v.rules()
	v.list.Sort()
	return v.list
}

// Misfits are the instructions that do not fit their rows: operands, attributes or results
// are missing, or are of another kind. Rules of the rows cannot be asked about them. Layouts
// may be missing.
func Misfits(p *Program) map[*Instr]bool {
	v := newVerifier(p)
	v.program()
	return v.misfits
}

func newVerifier(p *Program) *verifier {
	return &verifier{p: p, faulty: map[*Var]bool{}, unfit: map[*Var]bool{}, misfits: map[*Instr]bool{}}
}

type verifier struct {
	p       *Program
	list    diag.List
	misfits map[*Instr]bool
	checks  []check
	scope   []map[*Var]bool // assigned variables, innermost block last
	loopVar map[*Var]bool
	shared  map[*Var]bool // shared tensors assigned so far, in any block
	faulty  map[*Var]bool // tensors of types that are none
	unfit   map[*Var]bool // memory that misfits made

	threads   Threads // that run the present statement
	holders   map[*Var]Threads
	loops     int // around, in the present thread group
	groups    int // around
	groupBase int // scopes of what is around the thread group
}

func (v *verifier) add(pos diag.Pos, code, help, format string, args ...any) {
	v.list.Addf(pos, code, help, format, args...)
}

func (v *verifier) program() {
	p := v.p
	if p.Warps < 1 || p.Warps > 32 {
		v.add(p.Pos, "Prog.C1", "write warps=1 to warps=32 after the parameters", "warps is %d", p.Warps)
	}
	if len(p.Grid) < 1 || len(p.Grid) > 3 {
		v.add(p.Pos, "Prog.C2", "make one of several, M*N, and take b/N and b%N of its index", "the grid has %d dimensions, at most 3 are possible", len(p.Grid))
	}
	for d, n := range p.Cluster {
		if d >= len(p.Grid) || n < 1 || p.ClusterSize() > MaxClusterBlocks || p.ClusterSize() < 1 {
			v.add(p.Pos, "Prog.C4", "write cluster=[2] or cluster=[2, 1]", "a cluster is %v blocks", p.Cluster)
			break
		}
	}
	if p.Resident < 0 || p.Resident > maxResident || p.Resident*p.Threads() > maxResidentThreads {
		v.add(p.Pos, "Prog.C5", "write resident=1 behind warps= and cluster=, or nothing", "resident is %d, with %d threads a block", p.Resident, p.Threads())
	}
	v.loopVar, v.shared = map[*Var]bool{}, map[*Var]bool{}
	v.threads, v.holders = Threads{0, p.Threads()}, map[*Var]Threads{}
	v.scope = []map[*Var]bool{{}}
	seen := map[string]bool{}
	for _, a := range p.Params {
		if seen[a.Name] {
			v.add(a.Pos, "Prog.C3", "", "parameter %s appears twice", a.Name)
		}
		seen[a.Name] = true
		v.scope[0][a] = true
		if a.Type.Kind == Scalar {
			v.scalarType(a)
		}
	}
	for d, e := range p.Grid {
		v.integer(e)
		if n, ok := ConstInt(e); ok && n < 1 {
			v.add(p.Pos, "Prog.C2", "a launch has at least one block: write 1 or more", "dimension %d of the grid has %d blocks", d, n)
		}
		Refs(e, func(r *Ref) {
			if !r.Var.Param {
				v.add(r.Pos, "Prog.C2", "", "%s is not a parameter", r.Var.Name)
			}
		})
	}
	v.block(p.Body)
}

func (v *verifier) scalarType(a *Var) {
	switch t := a.Type.Elem; {
	case t == dtype.I32, t == dtype.I64, t == dtype.U32, t == dtype.Bool, t.IsFloat() && t.Bits() >= 16:
	default:
		v.add(a.Pos, "Type.C5", "use i32 for integers, f32 for floats", "%s is a scalar of %s", a.Name, t)
	}
}

func (v *verifier) block(b *Block) {
	if b == nil {
		return
	}
	v.scope = append(v.scope, map[*Var]bool{})
	for i, s := range b.Stmts {
		v.stmt(s)
		if leaves(s) && i+1 < len(b.Stmts) {
			v.add(b.Stmts[i+1].Position(), "Control.C2", "", "this never runs: the block ends at line %d", s.Position().Line)
		}
	}
	v.scope = v.scope[:len(v.scope)-1]
}

func (v *verifier) stmt(s Stmt) {
	switch s := s.(type) {
	case *Instr:
		v.instr(s)
	case *Let:
		t, fixed := v.expr(s.Value)
		if want := s.Var.Type.Elem; s.Var.Type.Kind != Scalar || fixed && t != want || t.IsFloat() != want.IsFloat() || (t == dtype.Bool) != (want == dtype.Bool) {
			v.add(s.Pos, "Var.C1", "use a new name", "%s is %s, the value %s", s.Var.Name, s.Var.Type, t)
		} else if !fixed && !fits(s.Value, t, want) {
			v.add(s.Value.Position(), "Expr.R1", "write the type: "+s.Var.Name+": i64 = …", "%s is no %s", s.Value, want)
		}
		if s.Var.Type.Kind == Scalar && s.Var.Pos == s.Pos {
			v.scalarType(s.Var)
		}
		v.assign(s.Var, s.Pos)
	case *For:
		v.bounds(s)
		if s.Step != nil {
			if n, ok := ConstInt(s.Step); !ok || n == 0 || !CheckRange(dtype.I32, n) {
				v.add(s.Step.Position(), "For.C1", "count turns, for t in 0..(to - from + step - 1)/step, and compute from + t*step; or use while", "the step is %s, must be a constant other than 0", s.Step)
			}
		}
		v.scope = append(v.scope, map[*Var]bool{s.Var: true})
		v.loopVar[s.Var] = true
		v.loops++
		v.block(s.Body)
		v.loops--
		v.loopVar[s.Var] = false
		v.scope = v.scope[:len(v.scope)-1]
	case *While:
		if v.cond(s.Cond) {
			v.ends(s)
		}
		v.loops++
		v.block(s.Body)
		v.loops--
	case *If:
		v.cond(s.Cond)
		v.block(s.Then)
		v.block(s.Else)
	case *Break, *Continue, *Return:
		v.control(s)
	case *Assume:
		v.cond(s.Cond)
	case *Group:
		v.group(s)
	default:
		panic(fmt.Sprintf("ir: no such statement %T", s))
	}
}

// bounds checks that both bounds of a loop are integers of one type.
func (v *verifier) bounds(s *For) {
	before := len(v.list)
	v.expr(s.From)
	v.expr(s.To)
	if len(v.list) > before {
		return
	}
	t, _ := TypeOf(&Binary{Op: "-", X: s.From, Y: s.To, Pos: s.From.Position()}, func(pos diag.Pos, code, help, msg string) {
		if code == "Expr.C1" {
			help, msg = "both bounds have one type", fmt.Sprintf("the range %s..%s mixes types", s.From, s.To)
		}
		v.add(pos, code, help, "%s", msg)
	})
	if len(v.list) == before && t != dtype.I32 && t != dtype.U32 {
		v.add(s.From.Position(), "Expr.C2", "", "the range %s..%s is of %s, must be i32 or u32", s.From, s.To, t)
	}
}

func (v *verifier) assign(x *Var, pos diag.Pos) {
	if x.Param || v.loopVar[x] {
		v.add(pos, "Var.C2", "use a new name", "%s is a parameter or loop variable", x.Name)
	}
	if x.Type.IsShared() || x.Type.IsTensorMemory() {
		if v.shared[x] {
			v.add(pos, "Var.C4", "use a new name; to choose among tiles, allocate one with a leading dimension and take SliceShared", "%s is assigned twice", x.Name)
		}
		v.shared[x] = true
	}
	v.held(x, pos)
	for i, m := range v.scope {
		if m[x] {
			if i < v.groupBase && !x.Type.IsRegister() {
				v.add(pos, "Group.C3", "use a new name", "%s is assigned outside the thread group", x.Name)
			}
			return
		}
	}
	if x.Type.IsRegister() {
		v.holders[x] = v.threads
	}
	v.scope[len(v.scope)-1][x] = true
}

func (v *verifier) use(r *Ref) {
	for _, m := range v.scope {
		if m[r.Var] {
			return
		}
	}
	v.add(r.Pos, "Var.C3", "assign it before, or in a block around this one", "%s has no value here", r.Var.Name)
}

func (v *verifier) expr(e Expr) (dtype.Type, bool) {
	Refs(e, v.use)
	before := len(v.list)
	t, fixed := TypeOf(e, func(pos diag.Pos, code, help, msg string) { v.add(pos, code, help, "%s", msg) })
	if len(v.list) == before {
		constantErrors(e, func(bad *EvalError) { v.add(bad.Pos, "Expr.R1", "", "%s", bad.Msg) })
	}
	return t, fixed
}

// integer checks an index, extent or bound.
func (v *verifier) integer(e Expr) {
	before := len(v.list)
	if t, _ := v.expr(e); len(v.list) == before && t != dtype.I32 && t != dtype.U32 {
		v.add(e.Position(), "Expr.C2", "", "%s is %s, must be i32 or u32", e, t)
	}
}

func (v *verifier) cond(e Expr) (ok bool) {
	before := len(v.list)
	if t, _ := v.expr(e); t != dtype.Bool {
		v.add(e.Position(), "Expr.C3", "compare first: x != 0", "%s is %s, not a bool", e, t)
	}
	return len(v.list) == before
}

// codesOfLayouts are of what layout inference may change.
var codesOfLayouts = []string{"Type.C1", "Type.C2", "Type.C4"}

func (v *verifier) instr(in *Instr) {
	before := len(v.list)
	op := in.Op
	v.operands(in)
	v.attrs(in)
	if len(in.Out) > len(op.Out) || len(in.Out) < len(op.Out) && !op.Out[len(in.Out)].Optional {
		v.add(in.Pos, "Op.G6", op.Signature(), "%s gives %d results, %d are named", op.Name, len(op.Out), len(in.Out))
	}
	for i, x := range in.Out {
		pos := in.typePos(i)
		if !pos.Known() {
			pos = in.Pos
		}
		if i < len(op.Out) && op.Out[i].Accept&acceptOf(x.Type) == 0 {
			v.add(pos, "Op.G7", op.Signature(), "%s is a %s, %s gives a %s", x.Name, acceptOf(x.Type), op.Name, op.Out[i].Accept)
		}
		known := len(v.list)
		v.resultType(x.Type, pos)
		if slices.ContainsFunc(v.list[known:], func(d diag.Problem) bool { return d.Code != "Type.C2" }) { // threads are others, extents hold
			v.faulty[x] = true
		}
		if x.Type.HasPlace && op.Name != "View" {
			v.add(pos, "Type.C6", "name the bits with View", "%s gives %s, whose bits would be placed", op.Name, x.Name)
		}
	}
	// Rules take operands for what their own instruction has been held to.
	ofFaulty := slices.ContainsFunc(in.In, func(o Operand) bool { return v.faulty[o.Var()] })
	if slices.ContainsFunc(in.In, func(o Operand) bool { return v.unfit[o.Var()] }) ||
		slices.ContainsFunc(v.list[before:], func(d diag.Problem) bool { return !slices.Contains(codesOfLayouts, d.Code) }) {
		v.misfits[in] = true
		for _, x := range in.Out {
			if !x.Type.IsRegister() { // rules look for what made the memory
				v.unfit[x] = true
			}
		}
	}
	if len(v.list) == before && !ofFaulty && !v.misfits[in] {
		v.checks = append(v.checks, check{in: in, at: len(v.list)})
	}
	for _, x := range in.Out {
		v.assign(x, in.Pos)
	}
}

func (v *verifier) operands(in *Instr) {
	op := in.Op
	if len(in.In) > len(op.In) || len(in.In) < len(op.In) && !op.In[len(in.In)].Optional {
		v.add(in.Pos, "Op.G1", op.Signature(), "%s takes %d operands, %d are given", op.Name, len(op.In), len(in.In))
		return
	}
	for i, o := range in.In {
		x := o.Var()
		if x != nil && x.Type.Kind != Scalar {
			v.use(o.Expr.(*Ref))
			v.held(x, o.Pos)
			if op.In[i].Accept&acceptOf(x.Type) == 0 {
				v.add(o.Pos, "Op.G2", op.Signature(), "%s is a %s, %s needs a %s", x.Name, acceptOf(x.Type), op.Name, op.In[i].Accept)
			}
			if x.Type.HasPlace && op.Name != "Cast" && op.Name != "CastDeferred" {
				v.add(o.Pos, "Type.C6", "Cast it first, or view its source again", "%s has placed bits, which %s does not read", x.Name, op.Name)
			}
			continue
		}
		v.expr(o.Expr)
		if op.In[i].Accept&AcceptScalar == 0 {
			v.add(o.Pos, "Op.G2", op.Signature(), "%s is a scalar, %s needs a %s", o.Expr, op.Name, op.In[i].Accept)
		}
	}
}

func (v *verifier) attrs(in *Instr) {
	op := in.Op
	for _, spec := range op.Attrs {
		if spec.Required && in.Attr(spec.Name) == nil {
			v.add(in.Pos, "Op.G5", op.Signature(), "%s needs %s=", op.Name, spec.Name)
		}
	}
	for i, a := range in.Attrs {
		spec := op.Spec(a.Name)
		if spec == nil || slices.ContainsFunc(in.Attrs[:i], func(b Attr) bool { return b.Name == a.Name }) {
			var known []string
			for _, spec := range op.Attrs {
				known = append(known, spec.Name)
			}
			help := diag.DidYouMean(a.Name, known)
			if help == "" {
				help = op.Signature()
			}
			v.add(a.Pos, "Op.G3", help, "%s has no attribute %s, or has it twice", op.Name, a.Name)
			continue
		}
		for _, e := range a.Exprs {
			v.integer(e)
			if _, ok := ConstInt(e); spec.Kind == AttrInts && !ok {
				v.add(e.Position(), "Op.G4", "", "%s is a %s; %s is not a constant", a.Name, spec.Kind, e)
			}
		}
		if spec.Kind == AttrWord && !slices.Contains(spec.Words, a.Word) {
			help := diag.DidYouMean(a.Word, spec.Words)
			if help == "" {
				help = "there is " + strings.Join(spec.Words, ", ")
			}
			v.add(a.Pos, "Op.G4", help, "%s is a %s; %q is none that %s knows", a.Name, spec.Kind, a.Word, op.Name)
		}
		if spec.Kind == AttrNumber && len(a.Exprs) > 0 {
			v.add(a.Pos, "Op.G4", "", "%s is a %s", a.Name, spec.Kind)
		}
	}
}

func (v *verifier) resultType(t Type, pos diag.Pos) {
	if t.Kind != Tensor {
		return
	}
	if t.IsGlobal() {
		size := int64(1)
		for _, e := range t.Shape {
			v.integer(e)
			switch n, ok := ConstInt(e); {
			case !ok:
			case n < 1:
				v.add(e.Position(), "Type.C7", "write 1 or more", "an extent of %s is %d", shapeText(t), n)
			case n > math.MaxInt32/size:
				v.add(e.Position(), "Type.C7", "view a part of the array by another pointer parameter", "%s has more than %d elements", shapeText(t), math.MaxInt32)
				return
			default:
				size *= n
			}
		}
		return
	}
	dims, constant := t.Dims()
	size, positive := 1.0, true
	for _, n := range dims {
		size, positive = size*float64(n), positive && n > 0
	}
	switch {
	case !constant:
		v.add(pos, "Type.C3", "write a number, or a name bound at parse time", "an extent of %s is not a constant", shapeText(t))
	case !positive:
		v.add(pos, "Type.C3", "", "an extent of %s is not positive", shapeText(t))
	case size > MaxTileElements:
		v.add(pos, "Type.C3", "cut the work into smaller tiles, over blocks or a loop", "%s is %.0f elements, at most %d are possible", shapeText(t), size, MaxTileElements)
	case t.IsTensorMemory(): // rows lie in lanes
	case !t.HasLayout:
		help := "write one after the shape: register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)"
		if t.IsShared() {
			help = fmt.Sprintf("write one after the shape: shared %s%s shared_row_major(%s)", t.Elem, shapeText(t), strings.Trim(shapeText(t), "[]"))
		}
		v.add(pos, "Type.C4", help, "%s has no layout", t)
	case t.IsShared():
		if shape := t.Shared.Shape(); !slices.Equal(dims, shape) {
			v.add(pos, "Type.C1", "", "the tensor is %v, its layout %s is %v", dims, t.Shared, shape)
		}
	case !slices.Equal(dims, t.Layout.Shape()):
		v.add(pos, "Type.C1", "", "the tensor is %v, its layout %s is %v", dims, t.Layout, t.Layout.Shape())
	case t.Layout.Threads() != v.threads.Size:
		who, help := "block", ", or set warps="
		if v.groups > 0 {
			who, help = "thread group", ""
		}
		v.add(pos, "Type.C2", fmt.Sprintf("spread it over %d threads%s", v.threads.Size, help), "%s has %d threads, the %s %d", t.Layout, t.Layout.Threads(), who, v.threads.Size)
	}
}
