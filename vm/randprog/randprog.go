// Package randprog draws random valid programs from the instruction table, so
// that machines and passes can be compared on programs that nobody thought of.
//
// A generator proposes statements and keeps those that the rows' own rules accept:
// an instruction is drawn as soon as it has a row. Only what a row cannot say has a
// proposer of its own here: which layouts make a matrix product, what a view of
// bits can be, where memory has to be allocated and written first. Values are made
// such that they are equal on every machine: small integers and powers of two where
// sums are taken, followed by the span of each tile, so that order and width of
// accumulation cannot matter; between two uses of one piece of memory stands a
// Synchronize; blocks store to places of their own.
//
// A seed always gives the same program, as long as the table stays the same.
// [Shrink] makes one that fails small.
package randprog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Product is a matrix instruction that Dot may be made of: element types of a, b
// and the accumulator, and the lanes' fragments of each.
type Product struct {
	A, B, C    dtype.Type
	LA, LB, LC layout.Layout
}

// Options choose what is drawn.
type Options struct {
	// Products are the matrix instructions; without any, Dot is not drawn.
	Products []Product
	// Statements is how many are drawn, what they need left out; 0 is 16.
	Statements int
	// Only, if not nil, says of which rows statements may be; loads, stores and
	// allocations that others need are always possible.
	Only func(op *ir.Op) bool
}

// Program is a program that [ir.Verify] accepts, with arguments.
type Program struct {
	Seed    uint64
	Program *ir.Program
	Args    []ir.Arg
	// Placed counts the instructions by name.
	Placed map[string]int
}

// Text is the program as text, with its arguments in comments.
func (p *Program) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "// seed %d\n", p.Seed)
	for i, v := range p.Program.Params {
		if a := p.Args[i]; a.Array != nil {
			fmt.Fprintf(&b, "// %s = %s\n", v.Name, a.Array.Header())
		} else {
			fmt.Fprintf(&b, "// %s = %d\n", v.Name, a.Int)
		}
	}
	return b.String() + text.Format(p.Program)
}

// New draws the program of a seed. An error is a mistake of this package: a
// program that the verifier refuses.
func New(seed uint64, o Options) (*Program, error) {
	g := &generator{r: rand.New(rand.NewPCG(seed, 0x71105)), o: o, placed: map[string]int{}}
	if g.o.Statements == 0 {
		g.o.Statements = 16
	}
	g.start()
	for g.budget > 0 {
		g.block(2)
	}
	g.finish()
	src := text.Format(g.p)
	p, err := text.Parse(fmt.Sprintf("random%d.tile", seed), src, nil)
	if err != nil {
		return nil, fmt.Errorf("randprog: seed %d: %w\n%s", seed, err, src)
	}
	return &Program{Seed: seed, Program: p, Args: g.args, Placed: g.placed}, nil
}

// tile is a register variable with what is known of its values.
type tile struct {
	v *ir.Var
	span
	room float64   // in loops: what may still be added to it
	born int       // depth of loops at which it was made
	home *ir.Block // where it was made
}

// scalar is an i32 with bounds.
type scalar struct {
	e      ir.Expr
	lo, hi int64
}

// memory is a tensor in shared or global memory, or a view of one.
type memory struct {
	v      *ir.Var
	root   *storage
	shape  []int
	span   span
	output bool      // global: the first dimension is the block's own
	home   *ir.Block // shared: where it is allocated
}

// storage is what views are views of.
type storage struct {
	read, written bool   // since the last Synchronize
	atomics       string // how blocks share it by atomic steps: "apart", all with one op, or "" for not
}

type generator struct {
	r      *rand.Rand
	o      Options
	p      *ir.Program
	args   []ir.Arg
	placed map[string]int
	at     *ir.Block
	heads  int // statements at the start of the body: views of parameters
	budget int
	next   int
	blocks int

	tiles   []*tile
	scalars []scalar
	mems    []*memory
	roots   []*storage
	trips   []int64 // turns of the loops around
	fors    []bool  // which of them are for, not while
	size    int     // threads of the group around, or 0
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func pick[T any](g *generator, list []T) T { return list[g.r.IntN(len(list))] }

func (g *generator) name(prefix string) string {
	g.next++
	return fmt.Sprintf("%s%d", prefix, g.next)
}

// threads is how many threads run the statements drawn now.
func (g *generator) threads() int {
	if g.size > 0 {
		return g.size
	}
	return g.p.Threads()
}

func (g *generator) warps() int { return g.threads() / ir.LanesPerWarp }

func (g *generator) start() {
	g.budget = g.o.Statements
	g.blocks = 1 + g.r.IntN(3)
	g.p = &ir.Program{Name: "random", Warps: pick(g, []int{1, 1, 1, 2, 4}), Body: &ir.Block{}}
	g.at = g.p.Body
	n := &ir.Var{Name: "n", Type: ir.ScalarOf(dtype.I32), Param: true}
	m := &ir.Var{Name: "m", Type: ir.ScalarOf(dtype.I32), Param: true}
	g.p.Params = []*ir.Var{n, m}
	g.p.Grid = []ir.Expr{ir.NewRef(n)}
	size := pick(g, []int64{1, 2, 3, 5, 8, 16, 33})
	g.args = []ir.Arg{{Int: int64(g.blocks)}, {Int: size}}
	g.scalars = []scalar{
		{ir.NewInt(0), 0, 0}, {ir.NewInt(1), 1, 1}, {ir.NewInt(2), 2, 2}, {ir.NewInt(7), 7, 7}, {ir.NewInt(-1), -1, -1},
		{ir.NewRef(n), int64(g.blocks), int64(g.blocks)}, {ir.NewRef(m), size, size},
	}
	bi := &ir.Var{Name: "bi", Type: ir.ScalarOf(dtype.I32)}
	g.add(&ir.Instr{Op: ir.OpByName("BlockIndices"), Out: []*ir.Var{bi}})
	g.scalars = append(g.scalars, scalar{ir.NewRef(bi), 0, int64(g.blocks - 1)})
	g.heads = len(g.p.Body.Stmts)
}

// add puts a statement at the end of the block.
func (g *generator) add(s ir.Stmt) {
	g.at.Stmts = append(g.at.Stmts, s)
	if in, ok := s.(*ir.Instr); ok {
		g.placed[in.Op.Name]++
	}
}

// param adds an array parameter and its view at the start of the program.
func (g *generator) param(prefix string, a *array.Array, output bool) *memory {
	v := &ir.Var{Name: g.name(prefix), Type: ir.PointerTo(a.Type), Param: true}
	g.p.Params, g.args = append(g.p.Params, v), append(g.args, ir.Arg{Array: a})
	var shape []ir.Expr
	for d, n := range a.Shape {
		if d == 0 && output {
			shape = append(shape, ir.NewRef(g.p.Params[0]))
			continue
		}
		if n > 1 && int64(n) == g.args[1].Int && g.chance(50) {
			shape = append(shape, ir.NewRef(g.p.Params[1])) // an extent that lowering does not know
			continue
		}
		shape = append(shape, ir.NewInt(int64(n)))
	}
	view := &ir.Var{Name: "g" + v.Name, Type: ir.GlobalOf(a.Type, shape...)}
	in := &ir.Instr{Op: ir.OpByName("ViewGlobal"), In: []ir.Operand{{Expr: ir.NewRef(v)}}, Out: []*ir.Var{view}}
	body := g.p.Body
	body.Stmts = append(body.Stmts[:g.heads:g.heads], append([]ir.Stmt{in}, body.Stmts[g.heads:]...)...)
	g.heads++
	g.placed["ViewGlobal"]++
	root := &storage{}
	g.roots = append(g.roots, root)
	m := &memory{v: view, root: root, shape: a.Shape, span: spanOf(a), output: output}
	if output {
		m.span = wild
	}
	g.mems = append(g.mems, m)
	return m
}

// try runs f and takes back what it added if it fails.
func (g *generator) try(f func() bool) bool {
	at, body, was := g.at.Stmts, g.p.Body.Stmts, *g
	params, placed := g.p.Params, maps.Clone(g.placed)
	flags := make([]storage, len(g.roots))
	for i, r := range g.roots {
		flags[i] = *r
	}
	if f() {
		return true
	}
	g.heads, g.next = was.heads, was.next
	g.tiles, g.scalars, g.mems, g.roots, g.args = was.tiles, was.scalars, was.mems, was.roots, was.args
	g.p.Body.Stmts, g.at.Stmts, g.p.Params, g.placed = body, at, params, placed
	for i, r := range g.roots {
		*r = flags[i]
	}
	return false
}

// inner draws the statements of a block of its own scope.
func (g *generator) inner(depth int, b *ir.Block, before func()) {
	outer, tiles, scalars, mems := g.at, len(g.tiles), len(g.scalars), len(g.mems)
	g.at = b
	if before != nil {
		before()
	}
	g.block(depth)
	if len(g.tiles) > tiles && g.chance(60) {
		g.storeGlobal(g.tiles[len(g.tiles)-1])
	}
	g.settle()
	g.at = outer
	g.tiles, g.scalars = g.tiles[:tiles], g.scalars[:scalars]
	kept := g.mems[:mems:mems]
	for _, m := range g.mems[mems:] {
		if m.v.Type.IsGlobal() && m.home == nil {
			kept = append(kept, m) // parameters live outside
		}
	}
	g.mems = kept
}

// settle ends a block such that memory that it touched can be used by the next
// turn or the statements behind it.
func (g *generator) settle() {
	for _, r := range g.roots {
		if r.read || r.written {
			g.synchronize()
			return
		}
	}
}

func (g *generator) synchronize() {
	g.add(&ir.Instr{Op: ir.OpByName("Synchronize")})
	for _, r := range g.roots {
		r.read, r.written = false, false
	}
}

// touch synchronises where an access of memory needs it.
func (g *generator) touch(r *storage, writes bool) {
	if r.written || writes && r.read {
		g.synchronize()
	}
	if writes {
		r.written = true
	} else {
		r.read = true
	}
}

func (g *generator) block(depth int) {
	for n := 2 + g.r.IntN(4); n > 0 && g.budget > 0; n-- {
		g.budget--
		switch k := g.r.IntN(20); {
		case k == 0 && depth > 0:
			g.branch(depth)
		case k < 3 && depth > 0:
			g.loop(depth)
		case k == 3 && depth > 0:
			g.while(depth)
		case k == 4 && g.chance(50):
			g.leave()
		case k == 5 && g.chance(30):
			x := g.expr(1)
			g.add(&ir.Assume{Cond: &ir.Binary{Op: "<=", X: x.e, Y: ir.NewInt(x.hi)}})
		case k == 6 && depth > 0 && g.size == 0 && g.p.Warps > 1 && g.chance(60):
			g.groups(depth)
		case k < 7:
			g.let()
		default:
			g.instruction()
		}
	}
}

func (g *generator) branch(depth int) {
	s := &ir.If{Cond: g.cond(), Then: &ir.Block{}}
	g.settle()
	g.add(s) // rules may walk the program, so it is put together from outside
	g.inner(depth-1, s.Then, nil)
	if g.chance(50) {
		s.Else = &ir.Block{}
		g.inner(depth-1, s.Else, nil)
	}
}

// leave ends a turn, a loop or the block where a condition holds.
func (g *generator) leave() {
	var s ir.Stmt = &ir.Return{}
	switch n := len(g.fors); {
	case g.size > 0:
		return
	case n > 0 && g.fors[n-1] && g.chance(50):
		s = &ir.Continue{}
	case n > 0:
		s = &ir.Break{}
	case g.chance(70):
		return
	}
	g.settle()
	g.add(&ir.If{Cond: g.cond(), Then: &ir.Block{Stmts: []ir.Stmt{s}}})
}

// groups lets halves of the block do different things side by side.
func (g *generator) groups(depth int) {
	g.settle()
	tiles, mems, half := g.tiles, g.mems, g.threads()/2
	for i := range 2 {
		s := &ir.Group{Begin: i * half, Size: half, Body: &ir.Block{}}
		g.add(s)
		g.size, g.tiles, g.mems = half, nil, nil
		for _, m := range mems {
			if m.v.Type.IsGlobal() && !m.output {
				g.mems = append(g.mems, m)
			}
		}
		fors, trips := g.fors, g.trips
		g.fors, g.trips = nil, nil
		g.inner(depth-1, s.Body, nil)
		g.fors, g.trips = fors, trips
		for _, m := range g.mems {
			if m.v.Type.IsGlobal() && !slices.Contains(mems, m) {
				mems = append(mems[:len(mems):len(mems)], m)
			}
		}
	}
	g.size, g.tiles, g.mems = 0, tiles, mems
	g.synchronize()
}

// turns opens a loop: what may be added to in it gets room.
func (g *generator) turns(n int64, isFor bool) (close func()) {
	g.settle()
	g.trips, g.fors = append(g.trips, n), append(g.fors, isFor)
	for _, t := range g.tiles {
		if t.born == len(g.trips)-1 && g.chance(40) {
			t.room = t.reserve()
		}
	}
	return func() {
		g.trips, g.fors = g.trips[:len(g.trips)-1], g.fors[:len(g.fors)-1]
		for _, t := range g.tiles {
			if t.born == len(g.trips) {
				t.room = 0
			}
		}
	}
}

func (g *generator) loop(depth int) {
	if len(g.trips) >= 2 {
		g.instruction()
		return
	}
	v := &ir.Var{Name: g.name("k"), Type: ir.ScalarOf(dtype.I32)}
	n := 1 + g.r.Int64N(4)
	step := pick(g, []int64{1, 1, 1, 2, 3, -1})
	s := &ir.For{Var: v, Unroll: pick(g, []int{0, 0, 0, 1, 2, -1})}
	lo, hi := int64(0), n*max(step, -step)
	from, to := ir.Expr(ir.NewInt(lo)), ir.Expr(ir.NewInt(hi))
	if step < 0 {
		from, to = to, from
	}
	if step > 0 && hi == g.args[1].Int {
		to = ir.NewRef(g.p.Params[1]) // a bound that is not known before the launch
	}
	if s.From, s.To = from, to; step != 1 {
		s.Step = ir.NewInt(step)
	}
	close := g.turns(n, true)
	s.Body = &ir.Block{}
	g.add(s)
	g.inner(depth-1, s.Body, func() { g.scalars = append(g.scalars, scalar{ir.NewRef(v), lo, hi}) })
	close()
}

func (g *generator) while(depth int) {
	if len(g.trips) >= 2 {
		g.instruction()
		return
	}
	v := &ir.Var{Name: g.name("w"), Type: ir.ScalarOf(dtype.I32)}
	n := 1 + g.r.Int64N(3)
	g.add(&ir.Let{Var: v, Value: ir.NewInt(0)})
	s := &ir.While{Cond: &ir.Binary{Op: "<", X: ir.NewRef(v), Y: ir.NewInt(n)}}
	close := g.turns(n, false)
	s.Body = &ir.Block{}
	g.add(s)
	g.inner(depth-1, s.Body, func() { g.scalars = append(g.scalars, scalar{ir.NewRef(v), 0, n - 1}) })
	s.Body.Stmts = append(s.Body.Stmts, &ir.Let{Var: v, Value: &ir.Binary{Op: "+", X: ir.NewRef(v), Y: ir.NewInt(1)}})
	close()
}

func (g *generator) let() {
	x := g.expr(2)
	v := &ir.Var{Name: g.name("s"), Type: ir.ScalarOf(dtype.I32)}
	g.add(&ir.Let{Var: v, Value: x.e})
	g.scalars = append(g.scalars, scalar{ir.NewRef(v), x.lo, x.hi})
}

// largest bounds scalars, so that nothing made of a few of them overflows.
const largest = 1 << 16

// expr draws an i32 expression with bounds; it never divides by zero.
func (g *generator) expr(depth int) scalar {
	x := pick(g, g.scalars)
	if depth == 0 || g.chance(30) {
		return x
	}
	y := g.expr(depth - 1)
	out, op := x, ""
	switch g.r.IntN(10) {
	case 9:
		c := &ir.Binary{Op: pick(g, []string{"==", "<", ">="}), X: g.expr(0).e, Y: g.expr(0).e}
		return scalar{&ir.Select{Cond: c, X: x.e, Y: y.e}, min(x.lo, y.lo), max(x.hi, y.hi)}
	case 7:
		if x.lo < 0 || y.lo < 0 {
			return x
		}
		out.lo, out.hi = 0, 2*max(x.hi, y.hi)+1
		if op = pick(g, []string{"|", "^", "&"}); op == "&" {
			out.hi = min(x.hi, y.hi)
		}
	case 8:
		n := g.r.Int64N(4)
		y = scalar{ir.NewInt(n), n, n}
		if op, out.lo, out.hi = "<<", x.lo<<n, x.hi<<n; g.chance(50) {
			op, out.lo, out.hi = ">>", x.lo>>n, x.hi>>n
		}
	case 0:
		op, out.lo, out.hi = "+", x.lo+y.lo, x.hi+y.hi
	case 1:
		op, out.lo, out.hi = "-", x.lo-y.hi, x.hi-y.lo
	case 2:
		op = "*"
		a, b, c, d := x.lo*y.lo, x.lo*y.hi, x.hi*y.lo, x.hi*y.hi
		out.lo, out.hi = min(a, b, c, d), max(a, b, c, d)
	case 3, 4:
		n := pick(g, []int64{1, 2, 3, 4, 8})
		x, y = y, scalar{ir.NewInt(n), n, n}
		if op, out.lo, out.hi = "%", 0, n-1; g.chance(50) {
			op, out.lo, out.hi = "/", min(x.lo, -1), max(x.hi, 0)
		}
	case 5:
		op, out.lo, out.hi = "min", min(x.lo, y.lo), min(x.hi, y.hi)
	case 6:
		op, out.lo, out.hi = "max", max(x.lo, y.lo), max(x.hi, y.hi)
	}
	if out.lo < -largest || out.hi > largest {
		return x
	}
	out.e = &ir.Binary{Op: op, X: x.e, Y: y.e}
	return out
}

func (g *generator) cond() ir.Expr {
	c := ir.Expr(&ir.Binary{Op: pick(g, []string{"==", "!=", "<", "<=", ">", ">="}), X: g.expr(1).e, Y: g.expr(1).e})
	switch g.r.IntN(6) {
	case 0:
		return &ir.Unary{Op: "!", X: c}
	case 1:
		d := &ir.Binary{Op: "<", X: g.expr(0).e, Y: g.expr(0).e}
		return &ir.Binary{Op: pick(g, []string{"&&", "||"}), X: c, Y: d}
	}
	return c
}

// finish stores some tiles, so that what was computed counts.
func (g *generator) finish() {
	for n, i := 0, len(g.tiles)-1; i >= 0 && n < 5; i-- {
		if g.storeGlobal(g.tiles[i]) {
			n++
		}
	}
}
