package plan

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Plan is how a fusion runs: kernels in order over buffers.
type Plan struct {
	Computation *hlo.Computation
	Kernels     []*Kernel
	// Buffers are the parameters by number, then the results in order, then what
	// kernels leave for later ones and what their blocks share.
	Buffers []Buffer
	// Temporaries are the instructions whose values one kernel leaves for a later one.
	Temporaries []*hlo.Instruction
}

// Role says what a buffer of a plan is for.
type Role string

// The roles of buffers.
const (
	ParameterBuffer Role = "parameter"
	ResultBuffer    Role = "result"
	TemporaryBuffer Role = "temporary"
	ConstantBuffer  Role = "constant" // of several elements
	PartialBuffer   Role = "partial"  // partial results of blocks
	CounterBuffer   Role = "counter"  // u32, zero before each launch; the kernel leaves zeros
)

// Buffer is a tensor in global memory.
type Buffer struct {
	Name  string
	Role  Role
	Shape hlo.Shape
	// From is the buffer whose contents this one begins with, or -1. Where the caller
	// gives that buffer away, both are one and nothing is copied.
	From int
	// Value is that of a constant.
	Value *array.Array
}

// Stage is one walk over the rows that a one-pass kernel has in registers.
type Stage struct {
	// Held are computed for each element of the row and stay in registers, because a
	// later stage reads them.
	Held []*hlo.Instruction
	// Reduces are combined over the row then; their values are one scalar for a row.
	// The last stage has none: it writes the results.
	Reduces []*hlo.Instruction
}

// planner builds a plan.
type planner struct {
	c    *hlo.Computation
	d    Device
	plan *Plan
	// at is the buffer that holds the value of an instruction, once it has one.
	at map[*hlo.Instruction]int
}

func (b *planner) parameters() {
	b.at = map[*hlo.Instruction]int{}
	for i, p := range b.c.Params {
		b.at[p] = i
		b.plan.Buffers = append(b.plan.Buffers, Buffer{Name: p.Name, Role: ParameterBuffer, Shape: p.Shape, From: -1})
	}
}

func (b *planner) results(roots []*hlo.Instruction) {
	for _, r := range roots {
		for _, s := range r.Shape.Outputs() {
			b.plan.Buffers = append(b.plan.Buffers, Buffer{Name: r.Name, Role: ResultBuffer, Shape: s, From: -1})
		}
	}
}

// constants gives buffers to constants that are no scalars.
func (b *planner) constants() {
	for _, in := range b.c.Instructions {
		if in.Op == hlo.Constant && in.Value != nil && in.Value.Len() > 1 && !slices.Contains(b.c.Roots(), in) {
			b.at[in] = b.buffer(in.Name, ConstantBuffer, in.Shape)
			b.plan.Buffers[b.at[in]].Value = in.Value
		}
	}
}

func (b *planner) isConstant(in *hlo.Instruction) bool {
	at, ok := b.at[in]
	return ok && b.plan.Buffers[at].Role == ConstantBuffer
}

func (b *planner) buffer(name string, role Role, s hlo.Shape) int {
	b.plan.Buffers = append(b.plan.Buffers, Buffer{Name: name, Role: role, Shape: s, From: -1})
	return len(b.plan.Buffers) - 1
}

// launchWhole adds the one kernel of a whole computation.
func (b *planner) launchWhole(k *Kernel) {
	k.Computation = b.c
	for i := range b.c.Params {
		k.Args = append(k.Args, i)
	}
	for i := len(b.c.Params); i < len(b.plan.Buffers); i++ {
		k.Results = append(k.Results, i)
	}
	b.finish(k)
}

func (b *planner) finish(k *Kernel) {
	k.Roots = k.Computation.Roots()
	k.IndexBits = indexBits(k.Computation)
	var said []string
	for _, w := range k.Why { // several choices may fail for one reason
		if !slices.Contains(said, w) {
			said = append(said, w)
		}
	}
	k.Why = said
	if len(k.Groups) == 0 {
		k.Groups = [][]*hlo.Instruction{k.Roots}
	}
	if k.Emitter == UpdateEmitter || k.Emitter == ScatterEmitter {
		b.inPlace(k)
	}
	b.plan.Kernels = append(b.plan.Kernels, k)
}

// inPlace lets the result of an update or a scatter begin as its operand.
func (b *planner) inPlace(k *Kernel) {
	for i, h := range k.Heroes {
		target := h.Operands[0]
		for target.Op == hlo.Bitcast {
			target = target.Operands[0]
		}
		if target.Op != hlo.Parameter || i >= len(k.Results) {
			continue
		}
		from := k.Args[target.Number]
		if from != k.Results[i] {
			b.plan.Buffers[k.Results[i]].From = from
		}
	}
}

// part makes the computation of one kernel: what the roots need, where stop says that a
// value comes from a buffer.
func (b *planner) part(name string, roots []*hlo.Instruction, stop func(*hlo.Instruction) bool) (c *hlo.Computation, args []int) {
	c = &hlo.Computation{Name: name, Pos: b.c.Pos}
	clone := map[*hlo.Instruction]*hlo.Instruction{}
	need := make([]bool, len(b.c.Instructions))
	isRoot := map[*hlo.Instruction]bool{}
	for _, r := range roots {
		need[r.Index], isRoot[r] = true, true
	}
	ends := func(in *hlo.Instruction) bool {
		return in.Op == hlo.Parameter || b.isConstant(in) || stop(in) && !isRoot[in]
	}
	for i := len(b.c.Instructions) - 1; i >= 0; i-- {
		in := b.c.Instructions[i]
		if need[i] && !ends(in) {
			for _, o := range in.Operands {
				need[o.Index] = true
			}
		}
	}
	add := func(in hlo.Instruction) *hlo.Instruction {
		in.Index = len(c.Instructions)
		c.Instructions = append(c.Instructions, &in)
		return &in
	}
	for i, in := range b.c.Instructions {
		if !need[i] || !ends(in) {
			continue
		}
		p := add(hlo.Instruction{Name: in.Name, Op: hlo.Parameter, Shape: in.Shape, Attrs: hlo.Attrs{Number: len(c.Params)}, Pos: in.Pos})
		c.Params = append(c.Params, p)
		args = append(args, b.at[in])
		clone[in] = p
	}
	for i, in := range b.c.Instructions {
		if !need[i] || clone[in] != nil {
			continue
		}
		n := *in
		n.Operands = make([]*hlo.Instruction, len(in.Operands))
		for j, o := range in.Operands {
			n.Operands[j] = clone[o]
		}
		clone[in] = add(n)
	}
	if len(roots) == 1 {
		c.Root = clone[roots[0]]
		return c, args
	}
	tuple := hlo.Instruction{Name: "results", Op: hlo.Tuple, Pos: b.c.Pos, Shape: hlo.Shape{Type: hlo.TupleType}}
	for _, r := range roots {
		tuple.Operands = append(tuple.Operands, clone[r])
		tuple.Shape.Elems = append(tuple.Shape.Elems, r.Shape)
	}
	c.Root = add(tuple)
	return c, args
}

// New plans a computation for a device: as one kernel where one emitter does all of
// it at memory speed, else as several with temporaries between them.
//
// What is cut off into a kernel of its own: a scatter, and what it scatters into; a
// reduction, window or product that later instructions would compute more than once, or
// one element at a time; results that one emitter does not give together. A row that is
// reduced and then used again stays in registers ([OnePassEmitter]); a reduction with
// too few outputs to fill the device is shared among blocks ([ColumnSplitEmitter]). Sums
// of many updates in f16 or bf16 are kept in f32 until all are added, so the computation of
// the plan may have more instructions than c.
func New(c *hlo.Computation, d Device) (*Plan, error) {
	if _, err := rootsOf(c); err != nil {
		return nil, err
	}
	c = widenScatters(c)
	b := &planner{c: c, d: d, plan: &Plan{Computation: c}}
	b.parameters()
	b.results(c.Roots())
	b.constants()
	b.cut(c.Roots())
	return b.plan, nil
}
