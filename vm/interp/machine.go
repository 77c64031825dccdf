// Package interp is the reference machine: what a program means is what it does
// here. It runs blocks one after another, tiles as whole tensors of exact
// codes, and stops at the first thing that a GPU would do silently wrong:
// index overflow, division by zero, reading what was never written, and reading
// or overwriting, without a barrier between, what another thread wrote, and
// overwriting what another read.
//
// A [Machine] runs to the end ([Machine.Run]) or statement by statement
// ([Machine.Step]); [Machine.Snapshot] and [Machine.Restore] go back in time.
package interp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Rules are the run-time errors of the machine, by code.
var Rules = []ir.RuleDoc{
	{Code: "Run.E1", Text: "A launch has one argument for each parameter, of its kind and type."},
	{Code: "Run.E2", Text: "An argument has at least as many elements as its view.", Why: "Views are made of the pointer alone; the argument must cover them."},
	{Code: "Run.E3", Text: "Register elements are written before they are read."},
	{Code: "Run.E4", Text: "What one thread writes to memory, another reads or writes only after a barrier; and what one reads, another writes only after one.", Why: "Without one the order is not defined; on a GPU either may come first."},
	{Code: "Run.E5", Text: "Every grid dimension is 1 to 65535 blocks (the first up to 2147483647), and a multiple of the cluster's."},
	{Code: "Run.E6", Text: "A view has 1 to 2147483647 elements.", Why: "Indices are 32 bits wide."},
	{Code: "Run.E7", Text: "A program ends within the step limit, when one is set."},
	{Code: "Run.E8", Text: "A cast with domain=finite meets only values that are finite in the result's type.", Why: "The code on a GPU relies on it; another value would become any."},
	{Code: "Run.E9", Text: "Elements of shared memory are written before they are read.", Why: "On a GPU they hold what the block before left there."},
	{Code: "Run.E10", Text: "A tile of a shared tensor lies inside it."},
	{Code: "Run.E11", Text: "What CopyAsync writes is neither read, nor written, nor given back before a wait for its group.", Why: "The bytes come at any time until then."},
	{Code: "Run.E12", Text: "A part of a register tensor lies inside it."},
	{Code: "Run.E13", Text: "What assume, and bounds of CopyAsync, promise holds.", Why: "Lowering relies on it."},
	{Code: "Run.E14", Text: "An index of a scatter or gather lies inside the dimension it is of.", Why: "On a GPU another element, or other memory, would be used."},
	{Code: "Run.E15", Text: "A semaphore that a block waits for is released by the block itself, or by one that comes before it.", Why: "Blocks start in the order of their numbers; a later one may have to wait for the place that an earlier one keeps."},
	{Code: "Run.E16", Text: "Integers of tiles are not divided by zero.", Why: "Machines give some number."},
	{Code: "Run.E17", Text: "A part that SliceGlobal takes lies inside the tensor."},
	{Code: "Run.E18", Text: "Elements of AllocateGlobal without init are written before they are read."},
	{Code: "Run.E19", Text: "Barriers are used in the turn whose phase is running; waits may also be for the phase before.", Why: "A barrier remembers the parity of its phase alone: two turns too early or too late look the same."},
	{Code: "Run.E20", Text: "What a wait for a barrier waits for comes: somebody who can run arrives."},
	{Code: "Run.E21", Text: "The bytes that copies bring to a turn are those that it expects.", Why: "Fewer, and it never ends; more, and it ends before they have come."},
	{Code: "Run.E22", Text: "Registers of a WgmmaDot are used by other instructions only after a WgmmaWaitGroup for its group."},
	{Code: "Run.E23", Text: "Registers that other instructions wrote are used by WgmmaDot only after a WgmmaFence."},
	{Code: "Run.E24", Text: "Shared memory that threads stored is read by tensor copies and WgmmaDot only after a FenceProxyAsync.", Why: "They read by another way, which does not wait for stores of threads."},
	{Code: "Run.E25", Text: "Shared memory that tensor copies or products read is overwritten only after a wait for their group, and a barrier; what tensor copies read is there until such a wait.", Why: "The memory of a block that has ended may be another's."},
	{Code: "Run.E26", Text: "Rows of tensors that tensor copies use are multiples of 16 bytes, and tiles begin at multiples of their swizzle's period."},
	{Code: "Run.E27", Text: "WgmmaDot runs in whole warpgroups: a multiple of 128 threads from a multiple of 128 on."},
	{Code: "Run.E28", Text: "The blocks of a cluster that an instruction names are there, and have not ended.", Why: "The shared memory of a block that has ended may be another's."},
	{Code: "Run.E29", Text: "A Go function that stands for element-wise instructions names some that there are, and takes as many operands.", Why: "It would silently not be used."},
	{Code: "Run.E30", Text: "The rows of a bulk copy lie inside the tensor, and begin at multiples of 16 bytes on both sides.", Why: "It knows no shape: other bytes would be copied, or the launch would fault."},
	{Code: "Run.E31", Text: "What products, loads and stores of tensor memory do is used after a wait: of products for a Tcgen05Commit, of the others by Tcgen05Wait.", Why: "They go on beside the threads."},
	{Code: "Run.E32", Text: "A block takes at most 512 columns of tensor memory, before it relinquishes the permit, and gives them back before it ends.", Why: "Who asks for more waits until others give back, which may be for ever."},
	{Code: "Run.E33", Text: "Scales in tensor memory are not negative, and the same in the four quarters of its lanes; marks of what is kept of a sparse operand name two of four elements.", Why: "Each quarter multiplies its rows with those beside them, and their bit for the sign is no sign."},
	{Code: "Run.E34", Text: "A place where an element is put is empty: what was put there before has been taken.", Why: "The element there would be lost, and who waits for it would take the later one."},
	{Code: "Run.E35", Text: "Each element that is waited for is put there by a thread group of the same block, or by a block that comes before.", Why: "The threads would wait for ever; blocks that come later may not have started."},
}

// Machine is a launch in progress.
type Machine struct {
	prog  *ir.Program
	grid  [3]int
	slots map[*ir.Var]int // where each variable's value is in vars
	args  []ir.Arg        // pointer arguments are this launch's own copies
	marks map[*array.Array]*marks
	flats map[*ir.Var][]int32
	dots  map[*ir.Instr]product // how each Dot goes, without operands
	moves map[*ir.Instr][]int32 // where elements of constant movements come from

	state
	owns     []*global     // tensors of the launch's own
	sets     []ir.Threads  // that have run, as sets of threads; the block first
	prints   *ir.PrintPlan // made when the first print comes
	maxSteps int64
	swaps    []swap // see Elementwise
	funcs    map[*ir.Instr]ElementFunc
	after    []func(*Machine, ir.Stmt) bool
	line     uint16          // of the instruction that runs; 0 from line 65536 on
	ctx      context.Context // of Run, for instructions that take long; nil in a Step
}

// state is what a snapshot holds beside the contents of memory.
type state struct {
	block  int // linear index of the running block, last grid dimension slowest
	begun  int // blocks, or clusters, that have begun or been taken back
	frames []frame
	vars   []value
	// strands are the thread groups that run, and what is around them; none where all
	// threads go together. frames are those of strand cur.
	strands []strand
	cur     int
	order   order
	smem    sharedMemory
	waited  bool // the last step was to wait
	// Of programs with clusters: the blocks of the running one and its barrier, the rank
	// of the running block and what it waits for.
	cluster   []peer
	gathering gathering
	rank      int
	idle      bool
	stuck     stuck
	syncing   bool
	syncAt    int64
	steps     int64
	done      bool
	fault     error // found where a block of statements ended
	printed   []printed
}

// frame is an open block of statements; loop is the statement that repeats it.
type frame struct {
	block *ir.Block
	pc    int
	loop  ir.Stmt // *ir.For or *ir.While, or nil
	next  int64   // for: the value of the variable in the next round
	to    int64
	step  int64
}

// value is what a variable holds: the field of its kind.
type value struct {
	set    bool
	n      int64   // integers and bools
	f      float64 // floats
	tile   *tile
	global *global
	shared *shared
	arg    int // pointers: index of the argument
	// Of register tiles, for WgmmaDot: which still use it, and
	// whether another instruction wrote it since the last fence of the threads that hold it.
	uses    int8 // products that are at work on it
	sums    bool // they add to it
	touched bool
	holder  int16
	// arriving: Tcgen05Load loads it
	arriving bool
}

// tile is a register tensor by value: code per element in row-major order.
// Tiles are never changed after they are made, so copies share them.
type tile struct {
	elem  dtype.Type
	dims  []int
	codes []uint64
	unset []bool // elements never written; nil if all are
}

// global is a view of an argument: dims in elements, row-major.
type global struct {
	arr  *array.Array
	dims []int
	name string
	// Of a part: where it begins, and the distances of neighbours per dimension.
	base    int
	strides []int
	own     bool // of the launch, without values at first
}

// Option changes how a machine runs.
type Option func(*Machine)

// MaxSteps stops the machine with an error after n statements; 0 is no limit.
func MaxSteps(n int64) Option { return func(m *Machine) { m.maxSteps = n } }

// New prepares a launch of a program that [ir.Verify] accepts. Arguments are
// checked and copied; the caller's arrays are never changed.
func New(p *ir.Program, args []ir.Arg, opts ...Option) (*Machine, error) {
	m := &Machine{prog: p, slots: map[*ir.Var]int{}, marks: map[*array.Array]*marks{}, flats: map[*ir.Var][]int32{}, dots: map[*ir.Instr]product{}, moves: map[*ir.Instr][]int32{}, sets: []ir.Threads{{Size: p.Threads()}}}
	for _, o := range opts {
		o(m)
	}
	if err := m.swapped(); err != nil {
		return nil, err
	}
	if err := m.bind(args); err != nil {
		return nil, err
	}
	m.begin()
	return m, nil
}

// CheckArgs checks launch arguments against the parameters and gives the grid,
// as [x, y, z] blocks. It is shared by all devices, so that a wrong launch is
// the same error on each.
func CheckArgs(p *ir.Program, args []ir.Arg) (grid [3]int, err error) {
	var list diag.List
	if len(args) != len(p.Params) {
		list.Addf(p.Pos, "Run.E1", "", "%s takes %d arguments, %d are given", p.Name, len(p.Params), len(args))
		return grid, list.Err()
	}
	values := map[*ir.Var]int64{}
	for i, v := range p.Params {
		a, t := args[i], v.Type.Elem
		switch {
		case v.Type.Kind == ir.Pointer && a.Array == nil:
			list.Addf(v.Pos, "Run.E1", "give an array of "+t.String(), "argument %s is not an array", v.Name)
		case v.Type.Kind == ir.Pointer && a.Array.Type != t:
			list.Addf(v.Pos, "Run.E1", fmt.Sprintf("cast the array to %s, or declare %s: *%s", t, v.Name, a.Array.Type), "argument %s is an array of %s, not %s", v.Name, a.Array.Type, t)
		case v.Type.Kind == ir.Scalar && a.Array != nil:
			list.Addf(v.Pos, "Run.E1", "", "argument %s is an array, the parameter is a scalar of %s", v.Name, t)
		case v.Type.Kind == ir.Scalar && !t.IsFloat() && !ir.CheckRange(t, a.Int):
			list.Addf(v.Pos, "Run.E1", fmt.Sprintf("%s holds %s to %s", t, t.Format(t.MinCode()), t.Format(t.MaxCode())), "argument %s is %d, which is no %s", v.Name, a.Int, t)
		case v.Type.Kind == ir.Scalar:
			values[v] = a.Int
		}
	}
	if len(list) > 0 {
		return grid, list.Err()
	}
	lookup := func(v *ir.Var) (int64, bool) { n, ok := values[v]; return n, ok }
	grid = [3]int{1, 1, 1}
	for i, e := range p.Grid {
		n, err := ir.EvalInt(e, lookup)
		if err != nil {
			return grid, located(err)
		}
		if n < 1 || n > int64(ir.MostBlocks(i)) {
			list.Addf(e.Position(), "Run.E5", "check the sizes given as arguments", "grid dimension %d, %s, is %d", i, e, n)
			return grid, list.Err()
		}
		grid[i] = int(n)
		if i < len(p.Cluster) && grid[i]%p.Cluster[i] != 0 {
			list.Addf(e.Position(), "Run.E5", "check the sizes given as arguments", "grid dimension %d, %s, is %d, which is no multiple of the cluster's %d", i, e, n, p.Cluster[i])
			return grid, list.Err()
		}
	}
	if err := checkAssumed(p, lookup); err != nil {
		return grid, err
	}
	p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if !ok || len(in.Out) != 1 || !in.Out[0].Type.IsGlobal() || len(in.In) != 1 || in.In[0].Var() == nil || in.In[0].Var().Type.Kind != ir.Pointer {
			return true
		}
		if _, _, err := viewDims(in, lookup, func(v *ir.Var) *array.Array { return args[paramIndex(p, v)].Array }); err != nil {
			var l diag.List
			if errors.As(err, &l) {
				list = append(list, l...)
			}
		}
		return true
	})
	return grid, list.Err()
}

func paramIndex(p *ir.Program, v *ir.Var) int {
	for i, q := range p.Params {
		if q == v {
			return i
		}
	}
	return -1
}

// viewDims evaluates the extents and strides, nil for rows one after the other, of a
// ViewGlobal and checks the argument's size.
func viewDims(in *ir.Instr, lookup func(*ir.Var) (int64, bool), arr func(*ir.Var) *array.Array) (dims, strides []int, err error) {
	out := in.Out[0]
	dims = make([]int, len(out.Type.Shape))
	size, last := int64(1), int64(0) // elements; the last one's place
	for i, e := range out.Type.Shape {
		n, err := ir.EvalInt(e, lookup)
		if err != nil {
			return nil, nil, located(err)
		}
		if n < 1 || size > (1<<31-1)/n {
			return nil, nil, problem(e.Position(), "Run.E6", "extents are 1 or more, and at most 2147483647 as a product", "extent %s of %s is %d", e, out.Name, n)
		}
		size *= n
		dims[i] = int(n)
	}
	if a := in.Attr("strides"); a != nil {
		for i, e := range a.Exprs {
			n, err := ir.EvalInt(e, lookup)
			if err != nil {
				return nil, nil, located(err)
			}
			if n < 0 || n > 1<<31-1 || last+n*int64(dims[i]-1) >= 1<<31-1 {
				return nil, nil, problem(e.Position(), "Run.E6", "strides are 0 or more, and all places below 2147483647", "stride %s of %s is %d", e, out.Name, n)
			}
			last += n * int64(dims[i]-1)
			strides = append(strides, int(n))
		}
		size = last + 1
	}
	ptr := in.In[0].Var()
	if have := arr(ptr).Len(); int64(have) < size {
		return nil, nil, problem(in.Pos, "Run.E2", fmt.Sprintf("give an array of at least %d elements", size), "%s views %v of %s, %d elements; argument %s has %d", out.Name, dims, out.Type.Elem, size, ptr.Name, have)
	}
	return dims, strides, nil
}

func problem(pos diag.Pos, code, help, format string, args ...any) error {
	var l diag.List
	l.Addf(pos, code, help, format, args...)
	return l
}

// located turns an expression's error into a list with its place.
func located(err error) error {
	var e *ir.EvalError
	if errors.As(err, &e) {
		return problem(e.Pos, "Expr.R1", "", "%s", e.Msg)
	}
	return err
}

func (m *Machine) bind(args []ir.Arg) error {
	grid, err := CheckArgs(m.prog, args)
	if err != nil {
		return err
	}
	m.grid = grid
	for _, v := range m.prog.Params {
		m.slot(v)
	}
	m.prog.Body.Walk(func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Instr:
			for _, v := range s.Out {
				m.slot(v)
			}
		case *ir.Let:
			m.slot(s.Var)
		case *ir.For:
			m.slot(s.Var)
		}
		return true
	})
	copies := map[*array.Array]*array.Array{}
	for _, a := range args {
		if a.Array != nil {
			if copies[a.Array] == nil {
				copies[a.Array] = a.Array.Clone()
			}
			a.Array = copies[a.Array] // arguments that alias stay aliased
		}
		m.args = append(m.args, a)
	}
	touched := m.prog.Touched()
	for i, v := range m.prog.Params {
		if a := m.args[i].Array; a != nil && m.marks[a] == nil && touched[v]&ir.WritesGlobal != 0 {
			m.marks[a] = newMarks(a.Len())
		}
	}
	return m.allocate()
}

func (m *Machine) slot(v *ir.Var) {
	if _, ok := m.slots[v]; !ok {
		m.slots[v] = len(m.slots)
	}
}

// enterBlock starts block number b of the grid, or ends the launch.
func (m *Machine) enterBlock(b int) {
	m.block = b
	m.strands, m.cur = nil, 0
	m.order.enter()
	m.smem.enter()
	if b == m.grid[0]*m.grid[1]*m.grid[2] || len(m.prog.Body.Stmts) == 0 {
		m.frames, m.done = nil, true
		return
	}
	m.vars = make([]value, len(m.slots))
	for i, p := range m.prog.Params {
		m.vars[m.slots[p]] = value{set: true, n: m.args[i].Int, f: m.args[i].Float, arg: i}
	}
	m.frames = []frame{{block: m.prog.Body}}
	m.settle()
}

// BlockIndex is the running block's index as [x, y, z].
func (m *Machine) BlockIndex() [3]int {
	return [3]int{m.block % m.grid[0], m.block / m.grid[0] % m.grid[1], m.block / (m.grid[0] * m.grid[1])}
}

// Program is what runs.
func (m *Machine) Program() *ir.Program { return m.prog }

// Grid is the number of blocks as [x, y, z].
func (m *Machine) Grid() [3]int { return m.grid }

// Done reports that every block has ended.
func (m *Machine) Done() bool { return m.done }

// Steps is how many statements have run.
func (m *Machine) Steps() int64 { return m.steps }

// Waited reports that the last Step changed nothing: its threads wait, and come to its statement again.
func (m *Machine) Waited() bool { return m.waited }

// Next is the statement that the next Step runs, or nil at the end: of the launch, or
// where the last statement of a block of statements went wrong.
func (m *Machine) Next() ir.Stmt {
	if m.done {
		return nil
	}
	f := &m.frames[len(m.frames)-1]
	if f.pc >= len(f.block.Stmts) {
		return nil
	}
	return f.block.Stmts[f.pc]
}

// Args are the launch arguments in their present state: at the end, the results.
func (m *Machine) Args() []ir.Arg { return m.args[:len(m.prog.Params)] }

// Run runs to the end. It returns early when ctx is done, with an error that wraps
// ctx.Err() and says where the program stood, and with a located diag.List when the
// program goes wrong.
func (m *Machine) Run(ctx context.Context) error {
	m.ctx = ctx
	defer func() { m.ctx = nil }()
	for n := 0; !m.done; n++ {
		if n&15 == 0 && ctx.Err() != nil {
			return m.interrupted()
		}
		s := m.Next()
		if err := m.Step(); err != nil {
			if err == m.stopped() {
				return m.interrupted()
			}
			return err
		}
		for _, f := range m.after {
			if !f(m, s) {
				return nil
			}
		}
	}
	return nil
}

// Step runs one statement (a for or while: its test) of the running block; after
// the last one the next block begins. Step at the end does nothing.
func (m *Machine) Step() error {
	if m.done {
		return nil
	}
	m.waited = false
	if m.steps++; m.maxSteps > 0 && m.steps > m.maxSteps {
		return problem(m.Next().Position(), "Run.E7", "raise the limit, or look for a loop that does not end", "no end after %d statements", m.maxSteps)
	}
	f := &m.frames[len(m.frames)-1]
	s := f.block.Stmts[f.pc]
	f.pc++
	if err := m.exec(s); err != nil {
		if err == m.stopped() {
			m.frames[len(m.frames)-1].pc-- // it did nothing yet
		}
		return located(err)
	}
	m.settle()
	m.turn(true)
	m.rotate()
	return m.fault
}

// stopped is the error of Run's context, for instructions that take long: they ask
// before they change anything.
func (m *Machine) stopped() error {
	if m.ctx == nil {
		return nil
	}
	return m.ctx.Err()
}

// interrupted is the error of Run's context, with the statement that is next.
func (m *Machine) interrupted() error {
	s := m.Next()
	if s == nil {
		return m.stopped()
	}
	of, t := "", m.Threads()
	if t != m.sets[0] {
		of = fmt.Sprintf("threads %d to %d of ", t.Begin, t.Begin+t.Size-1)
	}
	at := m.BlockIndex()
	return fmt.Errorf("%s: interrupted; %sblock (%d, %d, %d) stood here (%w)", s.Position(), of, at[0], at[1], at[2], m.stopped())
}

// settle closes blocks that have ended, going round loops, until a statement is
// next or the grid is done.
func (m *Machine) settle() {
	for len(m.frames) > 0 {
		if len(m.frames) == m.base() {
			m.endStrand()
			continue
		}
		f := &m.frames[len(m.frames)-1]
		if f.pc < len(f.block.Stmts) || m.fault != nil {
			return
		}
		m.fault = m.leave(len(m.frames))
		switch loop := f.loop.(type) {
		case *ir.For:
			f.next += f.step
			if f.step > 0 && f.next < f.to || f.step < 0 && f.next > f.to {
				if f.pc = 0; len(f.block.Stmts) > 0 {
					m.set(loop.Var, value{set: true, n: f.next})
					return
				}
				continue
			}
		case *ir.While:
			// Step the while statement itself again, in the frame around it.
			m.frames = m.frames[:len(m.frames)-1]
			m.frames[len(m.frames)-1].pc--
			return
		}
		m.frames = m.frames[:len(m.frames)-1]
	}
	m.leaveBlock()
}

func (m *Machine) set(v *ir.Var, x value) { m.vars[m.slots[v]] = x }

func (m *Machine) get(v *ir.Var) value { return m.vars[m.slots[v]] }

func (m *Machine) lookup(v *ir.Var) (int64, bool) {
	x := m.vars[m.slots[v]]
	return x.n, x.set
}

func (m *Machine) int(e ir.Expr) (int64, error) { return ir.EvalInt(e, m.lookup) }

func (m *Machine) exec(s ir.Stmt) error {
	switch s := s.(type) {
	case *ir.Instr:
		f := meaningOf(s.Op)
		if f == nil {
			return problem(s.Pos, "Run.E1", "", "the interpreter has no meaning for %s", s.Op.Name)
		}
		m.line = 0
		if n := s.Pos.Line; n <= math.MaxUint16 {
			m.line = uint16(n)
		}
		if err := m.free(s); err != nil {
			return err
		}
		if g := m.funcs[s]; g != nil {
			f = func(m *Machine, in *ir.Instr) error { return m.apply(in, g) }
		}
		if err := f(m, s); err != nil {
			return err
		}
		m.results(s)
		return nil
	case *ir.Let:
		if s.Var.Type.Elem.IsFloat() {
			x, err := m.scalarCode(s.Value, s.Var.Type.Elem)
			if err != nil {
				return err
			}
			m.set(s.Var, value{set: true, f: s.Var.Type.Elem.Decode(x)})
			return nil
		}
		n, err := m.int(s.Value)
		if err != nil {
			return err
		}
		if !ir.CheckRange(s.Var.Type.Elem, n) {
			return problem(s.Value.Position(), "Expr.R1", "", "%d is no %s", n, s.Var.Type.Elem)
		}
		m.set(s.Var, value{set: true, n: n})
		return nil
	case *ir.For:
		return m.enterFor(s)
	case *ir.While:
		on, err := m.int(s.Cond)
		if on != 0 && err == nil {
			m.frames = append(m.frames, frame{block: s.Body, loop: s})
		}
		return err
	case *ir.If:
		on, err := m.int(s.Cond)
		switch {
		case err != nil:
			return err
		case on != 0:
			m.frames = append(m.frames, frame{block: s.Then})
		case s.Else != nil:
			m.frames = append(m.frames, frame{block: s.Else})
		}
		return nil
	case *ir.Break:
		m.leaveLoop(false)
		return nil
	case *ir.Continue:
		m.leaveLoop(true)
		return nil
	case *ir.Return:
		m.endBlock()
		return nil
	case *ir.Assume:
		return m.assume(s)
	case *ir.Group:
		m.enterGroups(s)
		return nil
	}
	panic(fmt.Sprintf("interp: no such statement %T", s))
}

func (m *Machine) enterFor(s *ir.For) error {
	from, err := m.int(s.From)
	if err != nil {
		return err
	}
	to, err := m.int(s.To)
	if err != nil {
		return err
	}
	step := int64(1)
	if s.Step != nil {
		step, _ = ir.ConstInt(s.Step)
	}
	if (step > 0 && from < to || step < 0 && from > to) && len(s.Body.Stmts) > 0 {
		m.set(s.Var, value{set: true, n: from})
		m.frames = append(m.frames, frame{block: s.Body, loop: s, next: from, to: to, step: step})
	}
	return nil
}

// Snapshot is a point to come back to.
type Snapshot struct {
	state
	data  [][]byte
	marks []*marks
}

// Snapshot copies the machine's state, memory included.
func (m *Machine) Snapshot() *Snapshot {
	s := &Snapshot{state: m.state.clone()}
	for _, a := range m.args {
		var data []byte
		if a.Array != nil {
			data = append(data, a.Array.Data...)
		}
		s.data, s.marks = append(s.data, data), append(s.marks, m.marks[a.Array].clone())
	}
	return s
}

// Restore goes back to a snapshot of this machine; it can be used again.
func (m *Machine) Restore(s *Snapshot) {
	m.state = s.state.clone()
	for i, a := range m.args {
		if a.Array == nil {
			continue
		}
		copy(a.Array.Data, s.data[i])
		if s.marks[i] != nil {
			m.marks[a.Array] = s.marks[i].clone()
		}
	}
}

func (s state) clone() state {
	s.frames = append([]frame(nil), s.frames...)
	s.strands = slices.Clone(s.strands)
	for i := range s.strands {
		s.strands[i].frames = slices.Clone(s.strands[i].frames)
	}
	s.vars = append([]value(nil), s.vars...)
	s.order = s.order.clone()
	s.smem = s.smem.clone()
	s.cluster = slices.Clone(s.cluster)
	for i := range s.cluster {
		s.cluster[i] = s.cluster[i].clone()
	}
	s.gathering.gathers, s.gathering.gives = maps.Clone(s.gathering.gathers), maps.Clone(s.gathering.gives)
	return s
}

// Variable is what a variable of the running block holds, for people: Tile (with
// its layout) for register tensors, Int or Float for scalars.
type Variable struct {
	Var   *ir.Var
	Int   int64
	Float float64
	Tile  *array.Array
}

// Int is the value of an integer or bool variable of the running block, if it is set.
func (m *Machine) Int(v *ir.Var) (int64, bool) {
	if _, known := m.slots[v]; m.done || !known {
		return 0, false
	}
	return m.lookup(v)
}

// Variables lists the set variables in the order of their first assignment.
func (m *Machine) Variables() []Variable {
	if m.done {
		return nil
	}
	out := make([]Variable, 0, len(m.slots))
	byslot := make([]*ir.Var, len(m.slots))
	for v, i := range m.slots {
		byslot[i] = v
	}
	for i, v := range byslot {
		x := m.vars[i]
		if !x.set {
			continue
		}
		w := Variable{Var: v, Int: x.n, Float: x.f}
		if x.tile != nil {
			w.Tile = array.FromCodes(x.tile.elem, x.tile.dims, x.tile.codes)
		}
		out = append(out, w)
	}
	return out
}
