package traffic

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/emit"
	"github.com/tilus-lab/tilus-lab/gpu/emit/tensor"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
)

// lane is the variable that numbers the elements of a value of several.
const lane = "v"

// grid are the dimensions of every map, before those of loops.
var grid = []string{"th_x", "th_y", "th_z", "bl_x", "bl_y", "bl_z"}

// walker finds the accesses of one kernel in its steps at the tensor level.
type walker struct {
	k      *emit.Kernel
	params map[*hlo.Instruction]*emit.Tensor
	given  []*hlo.Instruction // whose values are there
	turns  int                // loops so far
	seen   map[string]bool
	out    []Access
}

// place is where a step stands.
type place struct {
	loops  []affine.Variable
	where  []affine.Constraint
	starts map[string]index.Runtime // variables that the running program knows
	ranges map[string]affine.Range  // of those
	lets   map[string]affine.Expr   // what other variables stand for
	scope  string                   // what is read again in one scope is read once
}

func (w *walker) kernel() error {
	f := w.k.Tensor
	w.params = map[*hlo.Instruction]*emit.Tensor{}
	for i, p := range w.k.Computation.Params {
		w.params[p] = f.Args[i]
	}
	return w.steps(f.Body, place{starts: map[string]index.Runtime{}, ranges: map[string]affine.Range{}, lets: map[string]affine.Expr{}})
}

func (w *walker) steps(steps []*emit.Step, at place) error {
	for _, s := range steps {
		n := 1
		for _, v := range append(slices.Clone(s.Out), s.In...) {
			n = max(n, v.N)
		}
		switch s.Op {
		case emit.PureCall, emit.Start:
			x, err := w.indexing(s, s.Index, at, n)
			if err != nil {
				return err
			}
			w.reads(s.Of, x, at)
			if s.Op == emit.Start {
				at.starts[s.Var] = index.Runtime{Source: s.Of, At: x}
				at.ranges[s.Var] = affine.Range{Lo: int64(s.From), Hi: int64(s.Trips) - 1}
			}
		case emit.Extract, emit.Insert, emit.AtomicRMW:
			x, err := w.indexing(s, s.Index, at, n)
			if err != nil {
				return err
			}
			if at.compares(s.Where) {
				continue // runs of equal indices are taken for longer than what a thread has of them
			}
			kind := map[emit.Op]Kind{emit.Extract: Read, emit.Insert: Write, emit.AtomicRMW: Atomic}[s.Op]
			if s.On.Shared {
				kind = map[Kind]Kind{Read: SharedRead, Write: SharedWrite}[kind]
			}
			w.add(kind, s.On, x, at)
		case emit.Let:
			at.lets[s.Var] = s.Index[0].Subst(at.lets)
		case emit.Inject:
			w.given = append(w.given, s.Of)
		case emit.Loop:
			inner := at
			inner.loops = append(slices.Clone(at.loops), affine.Variable{Name: s.Var, Range: affine.Range{Hi: int64(s.Trips) - 1}})
			w.turns++
			inner.scope = fmt.Sprint(at.scope, "/", w.turns)
			if err := w.steps(s.Body, inner); err != nil {
				return err
			}
		case emit.If:
			inner := at
			inner.where = append(slices.Clone(at.where), s.Where...)
			if err := w.steps(s.Body, inner); err != nil {
				return err
			}
		case emit.LastBlock:
			first := affine.Constraint{Expr: affine.Var(grid[0])}
			x, err := w.indexing(&emit.Step{Where: []affine.Constraint{first}}, s.Index, at, 1)
			if err != nil {
				return err
			}
			w.add(Atomic, s.On, x, at)
			// One thread tells the others of its block by a word in shared memory.
			flag := &emit.Tensor{Name: s.On.Name, Shape: hlo.Array(hlo.U32, 1), Shared: true}
			for _, c := range []struct {
				kind  Kind
				where []affine.Constraint
			}{{SharedWrite, []affine.Constraint{first}}, {SharedRead, nil}} {
				x, err := w.indexing(&emit.Step{Where: c.where}, []affine.Expr{affine.Const(0)}, at, 1)
				if err != nil {
					return err
				}
				w.add(c.kind, flag, x, at)
			}
			// Whichever block of a ticket comes last, the first stands for it.
			inner := at
			inner.scope += "/last"
			ticket := affine.Const(0)
			for i, e := range s.Index {
				ticket = ticket.Add(e.MulConst(int64(i + 1)))
			}
			sharing := 1
			for i, name := range grid[3:] {
				if n := w.k.Tensor.Blocks[i]; n > 1 && !slices.Contains(ticket.Vars(), name) {
					inner.where = append(slices.Clone(inner.where), affine.Constraint{Expr: affine.Var(name)})
					sharing *= n
				}
			}
			if sharing != s.Trips {
				inner.where = append(slices.Clone(inner.where), affine.Constraint{Expr: affine.Var(grid[3]).Mod(affine.Const(int64(s.Trips)))})
			}
			if err := w.steps(s.Body, inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// compares says whether constraints depend on how numbers that only the running program
// knows compare with each other.
func (p place) compares(where []affine.Constraint) bool {
	return slices.ContainsFunc(where, func(c affine.Constraint) bool {
		known := 0
		for _, v := range c.Expr.Vars() {
			if _, ok := p.starts[v]; ok {
				known++
			}
		}
		return known > 1
	})
}

// indexing is the index of a step as a map of thread, block and loop numbers, the lane last.
func (w *walker) indexing(s *emit.Step, idx []affine.Expr, at place, n int) (index.Indexing, error) {
	f := w.k.Tensor
	size := []int{f.Threads, 1, 1, f.Blocks[0], f.Blocks[1], f.Blocks[2]}
	var dims, runtime []affine.Variable
	for i, name := range grid {
		dims = append(dims, affine.Variable{Name: name, Range: affine.Range{Hi: int64(max(1, size[i])) - 1}})
	}
	dims = append(dims, at.loops...)
	dims = append(dims, affine.Variable{Name: lane, Range: affine.Range{Hi: int64(n) - 1}})
	var sources []index.Runtime
	var constraints []affine.Constraint
	for _, c := range append(slices.Clone(at.where), s.Where...) {
		c.Expr = c.Expr.Subst(at.lets)
		if !slices.ContainsFunc(c.Expr.Vars(), func(v string) bool { _, ok := at.starts[v]; return ok }) {
			constraints = append(constraints, c) // starts are mostly legal
		}
	}
	whole := make([]affine.Expr, len(idx))
	for i, x := range idx {
		whole[i] = x.Subst(at.lets)
		for _, v := range whole[i].Vars() {
			r, ok := at.starts[v]
			if ok && !slices.ContainsFunc(runtime, func(x affine.Variable) bool { return x.Name == v }) {
				in := at.ranges[v]
				in.Lo = max(0, in.Lo)
				runtime, sources = append(runtime, affine.Variable{Name: v, Range: in}), append(sources, r)
			}
		}
	}
	m, err := affine.NewMap(dims, nil, runtime, whole, constraints)
	if err != nil {
		return index.Indexing{}, fmt.Errorf("traffic: kernel %s: %w", w.k.Name, err)
	}
	m, _ = m.Simplify(false)
	return index.Indexing{Map: m, Runtime: sources}, nil
}

// reads adds what a thread reads of the arguments to compute an instruction at a place.
func (w *walker) reads(in *hlo.Instruction, first index.Indexing, at place) {
	sets := make([]index.Set, len(w.k.Computation.Instructions))
	sets[in.Index].Add(first)
	list := w.k.Computation.Instructions
	visited := 0
	for i := in.Index; i >= 0; i-- {
		x := list[i]
		if slices.Contains(w.given, x) || len(sets[i].Maps) == 0 {
			continue
		}
		var operands [][]index.Indexing
		for _, m := range sets[i].Maps {
			if t := w.params[x]; t != nil {
				w.add(Read, t, m, at)
				continue
			}
			if operands == nil {
				operands = index.OutputToInput(x, 0)
			}
			for k, maps := range operands {
				for _, om := range maps {
					visited++
					y, ok := index.Indexing{}, false
					if visited > tensor.Crowded {
						y, ok = anywhere(m.Map, om.Map, x.Operands[k].Shape)
					}
					if !ok {
						y = index.Compose(m, om)
					}
					sets[x.Operands[k].Index].Add(y)
				}
			}
		}
	}
}

// anywhere is a map after another to a tensor that is asked for wherever it has an element,
// as crowded code does. Ok is false where a map has variables of its own.
func anywhere(first, second affine.Map, s hlo.Shape) (x index.Indexing, ok bool) {
	if first.Undefined() || first.KnownEmpty() || second.Undefined() || second.KnownEmpty() || len(first.Runtime)+len(second.Ranges)+len(second.Runtime) > 0 || s.IsTuple() {
		return x, false
	}
	values, bounds := map[string]affine.Expr{}, map[string]affine.Range{}
	for i, v := range second.Dims {
		values[v.Name] = first.Results[i]
	}
	for _, v := range append(slices.Clone(first.Dims), first.Ranges...) {
		bounds[v.Name] = v.Range
	}
	var results []affine.Expr
	var inside []affine.Constraint
	for i, e := range second.Results {
		e = e.Subst(values).Simplify(bounds)
		if r := (affine.Range{Hi: int64(s.Dims[i]) - 1}); !e.Range(bounds).Within(r) {
			inside = append(inside, affine.Constraint{Expr: e, Range: r})
		}
		results = append(results, e)
	}
	m, err := affine.NewMap(first.Dims, first.Ranges, nil, results, inside)
	return index.Indexing{Map: m}, err == nil
}
