// Package lower turns a program of the tile machine into thread code: what each
// of the block's threads does so that together they do what vm/interp says.
//
// A register tile becomes the b32 words that hold this thread's slots in order,
// low bits first ([tile]); so View is nothing, and a cast reads bit fields. A
// global tensor becomes an address and extents. Layout digits of the thread
// number give each thread's place; slots are known when code is made, so their
// part of an index is a constant.
//
// Widths of memory accesses follow from layout, divisibility and bounds
// ([facts]): what can be proved is not tested when the program runs.
package lower

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/facts"
	"github.com/tilus-lab/tilus-lab/gpu/lower/flow"
	"github.com/tilus-lab/tilus-lab/gpu/lower/shared"
	"github.com/tilus-lab/tilus-lab/gpu/lower/thread"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Rules are the reasons for which lowering refuses a program that the
// interpreter runs, by code.
var Rules = []ir.RuleDoc{
	{Code: "Lower.E1", Text: "Every instruction of the program has a lowering for the target, which has clusters where the program has."},
	{Code: "Lower.E2", Text: "The layouts of a Dot are whole matrix instructions of the target, an outer layout times the instruction's fragment layout; or every thread holds the rows and columns that its elements of c need, in the same slots.", Why: "A matrix instruction takes each lane's share of an operand in one fixed arrangement; FMAs reach only what the thread holds."},
	{Code: "Lower.E3", Text: "Each warp holds the operand fragments that its part of a Dot needs.", Why: "Matrix instructions do not move fragments between warps; give operands replicas over the warps that share them."},
	{Code: "Lower.E4", Text: "A cast between the two types has a lowering."},
	{Code: "Lower.E5", Text: "The slot of an operand element is the same in every thread that needs it.", Why: "Registers cannot be indexed by the thread number."},
	{Code: "Lower.E6", Text: "Scalar computation is on i32, u32 or bool.", Why: "Indices are 32 bits wide on the GPU."},
	{Code: "Lower.E7", Text: "The shared memory of a program fits what a block of the target can have.", Why: "FreeShared, and tiles allocated in inner blocks of statements, let others take the memory."},
	{Code: "Lower.E8", Text: "A slice of a shared tensor takes whole panels, or a part of one: its place is provably a multiple of its size.", Why: "In a layout of several modes a part that areas elsewhere is no layout."},
	{Code: "Lower.E9", Text: "Elements narrower than a byte are loaded from and stored to shared memory in whole bytes.", Why: "Two threads cannot write bits of one byte without disturbing each other."},
	{Code: "Lower.E10", Text: "In a thread group that is a part of a warp stand only instructions in which no thread needs another one.", Why: "Exchange between lanes, matrix instructions and barriers are of whole warps. One thread alone can synchronise."},
	{Code: "Lower.E11", Text: "At most 15 sets of threads have barriers of their own.", Why: "A block has 16 barriers, and one is the whole block's."},
	{Code: "Lower.E13", Text: "Together, thread groups set no more registers than a block begins with.", Why: "A group that asks for more waits until others have given so many back, which would be for ever."},
}

// Options are what lowering may know beside the program.
type Options struct {
	Arch arch.Arch
	// Divisible gives numbers that surely divide scalar parameters; the launch
	// checks them. It is what makes loads of rows of run-time length wide.
	Divisible map[string]int64
	// Stops, if not nil, asks for a stop in front of every statement, and gets what
	// holds the variables there: for each of the function's stops.
	Stops *[]Stop
	// Unchecked leaves [code.Verify] to the caller.
	Unchecked bool
}

// Lower makes thread code of a program that [ir.Verify] accepts. What the target
// cannot do is a diag.List.
func Lower(p *ir.Program, opt Options) (*code.Func, error) {
	f, fits, err := lowerWith(p, opt, nil)
	if fits != nil {
		f, _, err = lowerWith(p, opt, fits)
	}
	return f, err
}

// lowerWith lowers with shared memory laid out as given, or else as it foresees. Where that
// turns out to be another layout than the program's, it says which is.
func lowerWith(p *ir.Program, opt Options, at *areas) (*code.Func, *areas, error) {
	p, going := flow.Structured(p)
	if opt.Stops != nil {
		*opt.Stops = nil
	}
	l := &lowerer{Thread: thread.New(code.NewBuilder(p.Name), 0), going: going, threads: ir.Threads{Size: p.Threads()}, barriers: map[ir.Threads]int64{}, own: memory{of: map[ir.Threads]scratch{}}, p: p, opt: opt, env: variables{of: map[*ir.Var]val{}}, facts: facts.New(p, opt.Divisible)}
	launch := code.Launch{Block: p.Threads()}
	for _, e := range p.Grid {
		a, ok := facts.Affine(e)
		if !ok {
			l.refuse(e.Position(), "Lower.E6", "grid dimension %s is not an expression of parameters", e)
			a = affine.Const(1)
		}
		launch.Grid = append(launch.Grid, a)
	}
	if len(p.Cluster) > 0 {
		l.lacks(p.Pos, "cluster=", code.OpClusterCtaIDX)
		launch.Cluster = [3]int{1, 1, 1}
		copy(launch.Cluster[:], p.Cluster)
	}
	l.Func().Launch = launch
	l.At(p.Pos)
	l.params()
	l.reads = readIn(p.Body)
	l.own.at = l.foresee()
	if at != nil {
		l.own.at = *at
	}
	l.ID = l.Op(code.OpTidX, nil)
	l.block(p.Body)
	if fits := l.placeTiles(); fits != l.own.at {
		return nil, &fits, nil
	}
	if err := l.list.Err(); err != nil {
		return nil, nil, err
	}
	if opt.Unchecked {
		return l.Unchecked(), nil, nil
	}
	f, err := l.Done()
	return f, nil, err
}

// lowerer is the state of one lowering.
type lowerer struct {
	hopper
	*thread.Thread // the builder, and the number of the thread among those that run
	p              *ir.Program
	opt            Options
	facts          *facts.Facts
	list           diag.List
	env            variables
	threads        ir.Threads // that run
	// barriers are the numbers of thread groups' barriers; going are the flags of loops
	// that end early.
	barriers map[ir.Threads]int64
	going    map[ir.Stmt][]*ir.Var
	reads    map[*ir.Var]bool // the variables that some expression names
	codes    codeWords        // what casts of codes to f16 gave
	// eager counts the right sides of && and || around, which are computed even
	// where they do not count.
	eager int

	plan    shared.Plan // of the program's shared tiles
	finder  shared.Finder
	tiles   []tile   // of the blocks of statements around
	own     memory   // that single instructions have for themselves
	held    []string // that thread groups have freed
	named   int      // tiles so far
	peak    int      // most bytes of the plan so far, reached at peakPos
	peakPos diag.Pos
	align   int // the largest of a tile

	// Of stops: where the last one stands, the variables in the order of their
	// assignments, and the first of the threads that hold each.
	stopped diag.Pos
	order   []*ir.Var
	holder  map[*ir.Var]int
}

// variables are the present values of variables.
type variables struct {
	of     map[*ir.Var]val
	scopes int
	undo   []formerly // what scopes have set, in order
}

// formerly is what a variable was before it was set.
type formerly struct {
	v   *ir.Var
	x   val
	set bool
}

func (e *variables) get(v *ir.Var) val { return e.of[v] }

func (e *variables) find(v *ir.Var) (val, bool) {
	x, ok := e.of[v]
	return x, ok
}

func (e *variables) set(v *ir.Var, x val) {
	if e.scopes > 0 {
		old, set := e.of[v]
		e.undo = append(e.undo, formerly{v, old, set})
	}
	e.of[v] = x
}

// scope begins a part that end makes undone.
func (e *variables) scope() (end func()) {
	mark := len(e.undo)
	e.scopes++
	return func() {
		for _, f := range slices.Backward(e.undo[mark:]) {
			if f.set {
				e.of[f.v] = f.x
			} else {
				delete(e.of, f.v)
			}
		}
		clear(e.undo[mark:])
		e.undo = e.undo[:mark]
		e.scopes--
	}
}

// val is what a variable is in thread code: the field of its kind.
type val struct {
	scalar code.Value   // b32, b64 or b16 by type; pred for bool
	words  []code.Value // register tile, see wordsOf
	truths []code.Value // of a bool tile, if known: a predicate for each slot
	global *global
	shared *shared.View
	empty  *shared.View // of a pipeline, whose shared is the full ones
	tensor *tensorRef
}

// global is a view: address of element 0, and per dimension the extent.
type global struct {
	elem    dtype.Type
	base    code.Value
	extents []ir.Expr
	part    *globalPart // nil for a whole tensor
}

// wordsOf is how many b32 words a thread's slots of a register tile take.
func wordsOf(t ir.Type) int { return (t.BitsPerThread() + 31) / 32 }

func (l *lowerer) refuse(pos diag.Pos, rule, format string, args ...any) {
	l.list.Addf(pos, rule, "--device interp runs it", format, args...)
}

// needs is the oldest target that has a thread-level instruction, or "" where this one has.
func (l *lowerer) needs(op code.Op) string {
	return op.Row().Needs(l.opt.Arch.Name, code.Arch(l.opt.Arch.Capability()))
}

// lacks refuses what becomes an instruction that the target has not.
func (l *lowerer) lacks(pos diag.Pos, what string, op code.Op) bool {
	target := l.needs(op)
	if target != "" {
		l.list.Addf(pos, "Lower.E1", "--arch "+target+" has it; --device interp runs the program", "%s needs %s, the target is %s", what, target, l.opt.Arch.Name)
	}
	return target != ""
}

func (l *lowerer) params() {
	for _, v := range l.p.Params {
		switch t := v.Type; {
		case t.Kind == ir.Pointer:
			l.env.set(v, val{scalar: l.Pointer(v.Name, t.Elem.String())})
		case t.Elem == dtype.Bool:
			x := l.Scalar(v.Name, code.B32, t.Elem.String())
			l.env.set(v, val{scalar: l.Op(code.OpSetpU32, []int64{int64(code.NE)}, x, l.Const32(0))})
		default:
			kind := map[int]code.Type{16: code.B16, 32: code.B32, 64: code.B64}[t.Elem.Bits()]
			l.env.set(v, val{scalar: l.Param(code.Param{Name: v.Name, Kind: code.Scalar, Type: kind, Elem: t.Elem.String(), Divisor: l.opt.Divisible[v.Name]})})
		}
	}
	l.workspaces()
	l.tensorMaps()
}

func (l *lowerer) block(b *ir.Block) {
	mark, around := len(l.tiles), l.stopped
	for i, s := range b.Stmts {
		l.release(s)
		l.At(s.Position())
		if l.opt.Stops != nil {
			l.stopAt(b, i, around)
		}
		l.stmt(s)
	}
	l.stopped = around
	l.leave(mark)
}

func (l *lowerer) stmt(s ir.Stmt) {
	switch s := s.(type) {
	case *ir.Instr:
		f := loweringOf(s.Op)
		if f == nil {
			f = func(l *lowerer, s *ir.Instr) { l.refuse(s.Pos, "Lower.E1", "%s has no lowering", s.Op.Name) }
		}
		if !l.partly(s) {
			f(l, s)
		}
		l.standIn(s)
	case *ir.Let:
		l.env.set(s.Var, val{scalar: l.scalar(s.Value, s.Var.Type.Elem)})
	case *ir.For:
		l.forLoop(s)
	case *ir.While:
		l.while(s)
	case *ir.If:
		l.branch(s)
	case *ir.Assume:
		l.assume(s)
	case *ir.Group:
		l.group(s)
	default:
		panic(fmt.Sprintf("lower: no such statement %T", s))
	}
}

// lowerings is lowering's column of the instruction table, family by family in
// files of the families' names.
var lowerings = map[string]func(*lowerer, *ir.Instr){
	"BlockIndices":     blockIndices,
	"ViewGlobal":       viewGlobal,
	"LoadGlobal":       loadGlobal,
	"StoreGlobal":      storeGlobal,
	"AllocateRegister": allocateRegister,
	"View":             view,
	"Cast":             castLowering,
	"CastDeferred":     castDeferred,
	"Dot":              dot,

	"Reduce":  reduce,
	"ArgMax":  argReduce,
	"ArgMin":  argReduce,
	"Scan":    scan,
	"Random":  random,
	"Indices": indices,

	"Assign":           move,
	"ConvertLayout":    convertLayout,
	"Transpose":        move,
	"Reshape":          move,
	"Squeeze":          move,
	"Unsqueeze":        move,
	"Repeat":           move,
	"RepeatInterleave": move,
	"SliceRegister":    move,
	"SliceAssign":      move,
	"ShuffleUp":        shuffleLanes,
	"ShuffleDown":      shuffleLanes,

	"AllocateShared": (*lowerer).allocateShared,
	"FreeShared":     (*lowerer).freeShared,
	"SliceShared":    sliceShared,
	"PermuteShared":  viewShared,
	"ReshapeShared":  viewShared,
	"LoadShared":     loadShared,
	"StoreShared":    storeShared,

	"CopyAsync":            copyAsync,
	"CopyAsyncCommitGroup": copyAsyncCommitGroup,
	"CopyAsyncWaitGroup":   copyAsyncWaitGroup,
	"CopyAsyncWaitAll":     copyAsyncWaitAll,

	"StoreSharedScatter":  storeSharedScatter,
	"AtomicShared":        atomicShared,
	"AtomicScatterShared": atomicShared,
	"AllocateGlobal":      allocateGlobal,
	"SliceGlobal":         sliceGlobal,
	"PrefetchGlobal":      prefetchGlobal,
	"LoadGlobalGather":    loadGlobalGather,
	"StoreGlobalScatter":  storeGlobalScatter,
	"AtomicGlobal":        atomicGlobal,
	"AtomicScatterGlobal": atomicScatterGlobal,
	"PutGlobal":           putGlobal,
	"TakeGlobal":          takeGlobal,
	"LockSemaphore":       lockSemaphore,
	"ReleaseSemaphore":    releaseSemaphore,

	"AllocateBarrier":       (*lowerer).allocateBarrier,
	"ArriveBarrier":         arriveBarrier,
	"ArriveExpectTxBarrier": arriveExpectTxBarrier,
	"WaitBarrier":           waitBarrier,
	"FenceProxyAsync":       fenceProxyAsync,

	"AllocatePipeline": (*lowerer).allocatePipeline,
	"AcquirePipeline":  acquirePipeline,
	"CommitPipeline":   commitPipeline,
	"WaitPipeline":     waitBarrier,
	"ReleasePipeline":  releasePipeline,

	"CopyAsyncTensorGlobalToShared": copyTensorIn,
	"CopyAsyncTensorSharedToGlobal": copyTensorOut,
	"CopyAsyncTensorCommitGroup":    copyTensorCommit,
	"CopyAsyncTensorWaitGroup":      copyTensorWait,

	"CopyAsyncBulkGlobalToShared":        copyBulkIn,
	"CopyAsyncBulkSharedToGlobal":        copyBulkOut,
	"CopyAsyncBulkSharedToClusterShared": copyBulkAcross,
	"PrefetchTensor":                     prefetchTensor,
	"ClusterLaunchControlTryCancel":      tryCancel,
	"ClusterLaunchControlQueryResponse":  queryResponse,

	"Tcgen05Alloc":                 tensorAlloc,
	"Tcgen05Dealloc":               tensorDealloc,
	"Tcgen05RelinquishAllocPermit": tensorRelinquish,
	"Tcgen05Slice":                 tensorView,
	"Tcgen05View":                  tensorView,
	"Tcgen05Mma":                   tensorMma,
	"Tcgen05MmaScaled":             tensorMma,
	"Tcgen05MmaSparse":             tensorMma,
	"Tcgen05Copy":                  tensorCopy,
	"Tcgen05Commit":                tensorCommit,
	"Tcgen05Load":                  tensorLoad,
	"Tcgen05Store":                 tensorStore,
	"Tcgen05Wait":                  tensorWait,

	"WgmmaDot":         wgmmaDot,
	"WgmmaFence":       wgmmaFence,
	"WgmmaCommitGroup": wgmmaCommit,
	"WgmmaWaitGroup":   wgmmaWait,
	"SetMaxRegisters":  setMaxRegisters,

	"ClusterRank":        clusterRank,
	"ClusterSynchronize": clusterSynchronize,

	"Synchronize":          synchronize,
	"SynchronizeReduce":    synchronizeReduce,
	"AtomicScalar":         atomicScalar,
	"LoadScalar":           loadScalar,
	"GridDependencyWait":   gridDependencyWait,
	"GridDependencyLaunch": gridDependencyLaunch,
	"Print":                printed,
	"PrintTensor":          printed,
}

// Has reports whether lowering has an entry for the op.
func Has(op string) bool {
	row := ir.OpByName(op)
	return row != nil && loweringOf(row) != nil
}

// loweringOf is the lowering of an op; those of the arithmetic family share one.
func loweringOf(op *ir.Op) func(*lowerer, *ir.Instr) {
	if op.Family == "arithmetic" {
		return arithmetic
	}
	return lowerings[op.Name]
}

// changed lists the variables set before a statement that its blocks assign, in
// program order: what regions carry and yield.
func (l *lowerer) changed(blocks ...*ir.Block) []*ir.Var {
	var vars []*ir.Var
	add := func(v *ir.Var) {
		if _, set := l.env.find(v); set && !slices.Contains(vars, v) && !v.Type.IsGlobal() && !v.Type.IsShared() && !v.Type.IsTensorMemory() {
			vars = append(vars, v)
		}
	}
	for _, b := range blocks {
		b.Walk(func(s ir.Stmt) bool {
			switch s := s.(type) {
			case *ir.Instr:
				for _, v := range s.Out {
					add(v)
				}
			case *ir.Let:
				add(s.Var)
			}
			return true
		})
	}
	return vars
}

// flatten lists the thread-code values of variables; unflatten sets them back.
func (l *lowerer) flatten(vars []*ir.Var) []code.Value {
	var out []code.Value
	for _, v := range vars {
		if x := l.env.get(v); x.words != nil {
			out = append(out, x.words...)
		} else {
			out = append(out, x.scalar)
		}
	}
	return out
}

func (l *lowerer) unflatten(vars []*ir.Var, values []code.Value) {
	for _, v := range vars {
		if n := len(l.env.get(v).words); n > 0 {
			l.env.set(v, val{words: slices.Clone(values[:n])})
			values = values[n:]
		} else {
			l.env.set(v, val{scalar: values[0]})
			values = values[1:]
		}
	}
}

// scoped runs f and forgets what it assigned to variables and computed for
// layouts, which are visible only in its region.
func (l *lowerer) scoped(f func() []code.Value) []code.Value {
	end, known := l.env.scope(), l.Scope()
	out := f()
	end()
	known()
	return out
}

func (l *lowerer) while(s *ir.While) {
	vars := l.changed(s.Body)
	out := l.While(l.flatten(vars), func(carried []code.Value) code.Value {
		return l.scoped(func() []code.Value {
			l.unflatten(vars, carried)
			on := l.goesOn(l.going[s])
			if l.opt.Stops != nil {
				l.stopAtTest(on)
			}
			if on != 0 {
				return []code.Value{l.whereOn(on, s.Cond)}
			}
			return []code.Value{l.scalar(s.Cond, dtype.Bool)}
		})[0]
	}, func(carried []code.Value) []code.Value {
		return l.scoped(func() []code.Value {
			l.unflatten(vars, carried)
			l.block(s.Body)
			return l.flatten(vars)
		})
	})
	l.unflatten(vars, out)
}

func (l *lowerer) branch(s *ir.If) {
	vars := l.changed(s.Then, s.Else)
	cond := l.scalar(s.Cond, dtype.Bool)
	arm := func(b *ir.Block) func() []code.Value {
		return func() []code.Value {
			return l.scoped(func() []code.Value {
				if b != nil {
					l.block(b)
				}
				return l.flatten(vars)
			})
		}
	}
	l.unflatten(vars, l.If(cond, arm(s.Then), arm(s.Else)))
}
