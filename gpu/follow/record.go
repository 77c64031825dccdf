package follow

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// memory is a piece of memory: what a parameter points to, or what one allocation of
// a block gave.
type memory struct {
	name  string
	v     *ir.Var // the parameter or the result of the allocation
	param bool
	elem  dtype.Type
}

// view is a tensor over memory.
type view struct {
	mem     *memory
	base    int
	dims    []int
	strides []int             // global: of each dimension, in elements
	modes   [][]ir.SharedMode // shared, before the swizzle
	of      *ir.Var
}

// place is where an element lies: in a register tensor, or in memory.
type place struct {
	v   *ir.Var // register tensors
	mem *memory
	at  int // element of the tensor, or of the memory
}

// stored says that the place is memory that stays behind the launch.
func (p place) stored() bool { return p.mem != nil && p.mem.param }

// event is an instruction that ran.
type event struct {
	nth    int
	step   int64 // statements that have run when it has
	block  [3]int
	number int // of the block
	in     *ir.Instr
	offset []int         // the attribute's value
	taken  int           // how many indices of the tile's first dimension are used
	views  [3]*view      // of operands
	cells  []int32       // of memory instructions: where each element of the tile lies, -1 outside
	tiles  map[int]int32 // the other way round
	other  []int32       // of copies: where the elements lie on the shared side
	moved  []int32       // of movements
}

// recording is what a launch did.
type recording struct {
	prog   *ir.Program
	events []*event
	params map[*ir.Var]*memory
	last   map[*ir.Var]*view // the latest view of each variable
	cut    string
}

// record runs a launch, as far as limits allow, and notes what instructions did.
func record(p *ir.Program, args []ir.Arg, steps int, end time.Time) (*recording, error) {
	m, err := interp.New(p, args)
	if err != nil {
		return nil, err
	}
	r := &recording{prog: p, params: map[*ir.Var]*memory{}, last: map[*ir.Var]*view{}}
	for _, v := range p.Params {
		if v.Type.Kind == ir.Pointer {
			r.params[v] = &memory{name: v.Name, v: v, param: true, elem: v.Type.Elem}
		}
	}
	type mine struct {
		block int
		v     *ir.Var
	}
	views := map[mine]*view{} // blocks of a cluster take turns
	grid := m.Grid()
	for !m.Done() {
		if len(r.events) > steps || m.Steps() > int64(4*steps) || time.Now().After(end) {
			r.cut = fmt.Sprintf("Only the first %d statements were looked at.", m.Steps())
			break
		}
		in, ok := m.Next().(*ir.Instr)
		if !ok {
			if err := m.Step(); err != nil {
				r.cut = "The program goes wrong before that: " + first(err)
				break
			}
			continue
		}
		at := m.BlockIndex()
		e := &event{nth: len(r.events), block: at, number: at[0] + grid[0]*(at[1]+grid[1]*at[2]), in: in, taken: math.MaxInt}
		value := func(v *ir.Var) (int64, bool) { return m.Int(v) }
		if in.Op.Name == "TakeGlobal" && len(in.In) > 1 {
			if n, err := ir.EvalInt(in.In[1].Expr, value); err == nil { // else the step says what is wrong
				e.taken = int(n)
			}
		}
		if a := in.Attr("offset"); a != nil {
			for _, x := range a.Exprs {
				n, err := ir.EvalInt(x, value)
				if err != nil {
					n = 0 // the step says what is wrong
				}
				e.offset = append(e.offset, int(n))
			}
		}
		for i := range e.views {
			if v := operand(in, i); v != nil {
				e.views[i] = views[mine{e.number, v}]
			}
		}
		made := r.made(e, views[mine{e.number, operand(in, 0)}], value)
		if err := m.Step(); err != nil {
			r.cut = "The program goes wrong before that: " + first(err)
			break
		}
		if m.Waited() {
			continue // it comes again
		}
		e.step = m.Steps()
		if made != nil {
			views[mine{e.number, in.Out[0]}] = made
			r.last[in.Out[0]] = made
		}
		r.events = append(r.events, e)
	}
	return r, nil
}

func first(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text + "."
}

func operand(in *ir.Instr, i int) *ir.Var {
	if i >= len(in.In) {
		return nil
	}
	return in.In[i].Var()
}

// made is the view that an instruction makes, of from where it takes one.
func (r *recording) made(e *event, from *view, value func(*ir.Var) (int64, bool)) *view {
	in := e.in
	if len(in.Out) != 1 {
		return nil
	}
	v := in.Out[0]
	extents := func(list []ir.Expr) (out []int) {
		for _, x := range list {
			n, err := ir.EvalInt(x, value)
			if err != nil {
				return nil
			}
			out = append(out, int(n))
		}
		return out
	}
	dense := func(dims []int) []int {
		steps, n := make([]int, len(dims)), 1
		for d := len(dims) - 1; d >= 0; d-- {
			steps[d], n = n, n*dims[d]
		}
		return steps
	}
	switch in.Op.Name {
	case "ViewGlobal":
		w := &view{mem: r.params[operand(in, 0)], dims: extents(v.Type.Shape), of: v}
		w.strides = dense(w.dims)
		if a := in.Attr("strides"); a != nil {
			w.strides = extents(a.Exprs)
		}
		if w.mem == nil || len(w.strides) != len(w.dims) {
			return nil
		}
		return w
	case "AllocateGlobal":
		w := &view{mem: &memory{name: v.Name, v: v, elem: v.Type.Elem}, dims: extents(v.Type.Shape), of: v}
		if old := r.last[v]; old != nil {
			w.mem = old.mem // one for all blocks
		}
		w.strides = dense(w.dims)
		return w
	case "SliceGlobal":
		if from == nil {
			return nil
		}
		w := &view{mem: from.mem, base: from.base, dims: extents(v.Type.Shape), of: v}
		for _, d := range in.Dims(len(from.dims), len(w.dims)) {
			w.strides = append(w.strides, from.strides[d])
		}
		for d, x := range e.offset {
			w.base += x * from.strides[d]
		}
		return w
	case "AllocateShared":
		if !v.Type.HasLayout {
			return nil
		}
		dims, _ := v.Type.Dims()
		return &view{mem: &memory{name: v.Name, v: v, elem: v.Type.Elem}, dims: dims, modes: ir.SharedModes(v.Type.Shared), of: v}
	case "SliceShared", "PermuteShared", "ReshapeShared":
		if from == nil || from.modes == nil {
			return nil
		}
		dims, _ := v.Type.Dims()
		w := &view{mem: from.mem, base: from.base, dims: dims, modes: ir.SharedModes(v.Type.Shared), of: v}
		for d, x := range e.offset {
			w.base += along(from.modes[d], x)
		}
		return w
	}
	return nil
}

// along is what index x of a dimension adds to a place in shared memory.
func along(modes []ir.SharedMode, x int) (at int) {
	for i := len(modes) - 1; i >= 0; i-- {
		at += x % modes[i].Size * modes[i].Stride
		x /= modes[i].Size
	}
	return at
}

// offset is where an element of the view lies in its memory, -1 outside.
func (w *view) offset(index []int) int {
	at := w.base
	for d, x := range index {
		switch {
		case x < 0 || x >= w.dims[d]:
			return -1
		case w.modes != nil:
			at += along(w.modes[d], x)
		default:
			at += x * w.strides[d]
		}
	}
	return at
}

// bitOf is the bit at which an element of memory begins; the swizzle of shared memory is in it.
func (w *view) bitOf(at int) int {
	if w.modes != nil {
		at = w.of.Type.Shared.Swizzle().Apply(at)
	}
	return at * w.mem.elem.Bits()
}

// writer is the last event before e in its block that wrote a place; nil for none.
func (r *recording) writer(e *event, p place) *event {
	for i := e.nth - 1; i >= 0; i-- {
		if x := r.events[i]; x.number == e.number && x.writes(p) {
			return x
		}
	}
	return nil
}

// find is the element that a start names, and the event that wrote it.
func (r *recording) find(s Start) (hop, error) {
	var v *ir.Var
	var names []string
	add := func(x *ir.Var) {
		if t := x.Type; t.Kind == ir.Pointer || t.IsRegister() || t.IsShared() && t.HasLayout || t.IsGlobal() {
			if x.Name == s.Name {
				v = x
			}
			if !slices.Contains(names, x.Name) {
				names = append(names, x.Name)
			}
		}
	}
	for _, x := range r.prog.Params {
		add(x)
	}
	r.prog.Body.Walk(func(st ir.Stmt) bool {
		if in, ok := st.(*ir.Instr); ok {
			for _, x := range in.Out {
				add(x)
			}
		}
		return true
	})
	fail := func(code, help, format string, args ...any) (hop, error) {
		end := s.Pos
		end.Col += len(s.Name)
		return hop{}, diag.List{{Pos: s.Pos, End: end, Code: code, Msg: fmt.Sprintf(format, args...), Help: help}}
	}
	if v == nil {
		help := "there are " + strings.Join(names, ", ")
		if len(names) == 0 {
			help = "the program has no tensor"
		} else if n := diag.Suggest(s.Name, names); n != "" {
			help = "did you mean " + n + "? " + help
		}
		return fail("Follow.E2", help, "%s has no tensor %.40q", r.prog.Name, s.Name)
	}
	w := r.last[v]
	dims, fixed := v.Type.Dims()
	switch {
	case v.Type.Kind == ir.Pointer:
		dims = nil
	case w != nil:
		dims = w.dims
	case !fixed || !v.Type.IsRegister():
		return fail("Follow.E4", "the launch does not come there", "%s is never made in this launch", v.Name)
	}
	if v.Type.Kind != ir.Pointer {
		good := len(dims) == len(s.Index)
		for d := 0; good && d < len(dims); d++ {
			good = s.Index[d] < dims[d]
		}
		if !good {
			last := make([]string, len(dims))
			for d, n := range dims {
				last[d] = fmt.Sprint(n - 1)
			}
			return fail("Follow.E3", fmt.Sprintf("the last one is %s[%s]", v.Name, strings.Join(last, ", ")), "%s is %v; it has no element %v", v.Name, dims, s.Index)
		}
	} else if len(s.Index) != 1 {
		return fail("Follow.E3", "write its number, "+v.Name+"[17], or an element of a view of it", "%s is memory; its elements have one number", v.Name)
	}
	p := place{}
	switch {
	case v.Type.IsRegister():
		p = place{v: v, at: flat(dims, s.Index)}
	case v.Type.Kind == ir.Pointer:
		p = place{mem: r.params[v], at: s.Index[0]}
	default:
		p = place{mem: w.mem, at: w.offset(s.Index)}
	}
	if p.stored() {
		// Where a launch reads it, it is followed from there; else to there.
		for _, e := range r.events {
			if e.reads(p) {
				return hop{p: p}, nil
			}
		}
	}
	var found *event
	for _, e := range r.events {
		if !e.writes(p) {
			continue
		}
		if found == nil || e.step <= s.Step || s.Step == 0 && familyOf(found.in) == source {
			found = e
		}
		if e.step >= s.Step && familyOf(found.in) != source {
			break
		}
	}
	if found == nil {
		if p.stored() {
			return fail("Follow.E4", "choose one that is", "element %v of %s is neither read nor written", s.Index, v.Name)
		}
		return fail("Follow.E4", "the launch does not come there", "%s is never written in this launch", v.Name)
	}
	return hop{e: found, p: p}, nil
}

func flat(dims, index []int) int {
	at := 0
	for d, n := range dims {
		at = at*n + index[d]
	}
	return at
}

func unflat(dims []int, at int) []int {
	index := make([]int, len(dims))
	for d := len(dims) - 1; d >= 0; d-- {
		index[d] = at % dims[d]
		at /= dims[d]
	}
	return index
}
