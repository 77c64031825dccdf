package ir

import (
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// The rows of this file move elements of register tensors. All but ConvertLayout
// and the shuffles move nothing between threads: each thread must hold what its
// part of the result is made of, and renames registers. [MovedFrom] says which
// element each element of the result is.

var movementRows = []*Op{
	movement("Assign", "The same elements, as they lie or in another order of slots: the value of another register tensor under a new or an existing name.",
		nil, sameShape, "y = Assign(x) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)"),
	{
		Name: "ConvertLayout", Family: "register",
		Doc:   "The same elements in another layout of the same threads. Lowering takes the cheapest way: nothing, where threads hold what they need in the same slots for all; else shuffles, where each warp holds what its lanes need; else shared memory and two barriers. In the last case it must stand where all threads of the block, or of the thread group around it, come, and those are whole warps.",
		In:    []Port{{Name: "x", Accept: AcceptRegister}},
		Out:   []Port{{Name: "tile", Accept: AcceptRegister}},
		Rules: []Rule{ruleSameRegisterElem, sameShape},
		Since: "0.3", Source: "DESIGN: register to register between any two layouts", Example: "b = ConvertLayout(x) : register f16[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)",
	},
	movement("Transpose", "Dimensions in another order: dimension i of the result is dimension dims[i] of the source; left out, the order is reversed. No element leaves its thread.",
		[]AttrSpec{{Name: "dims", Kind: AttrInts, Doc: "the dimension of x that each dimension of the result is"}},
		derivedShape("Each dimension of the result has the extent of the dimension of the source that dims names; dims names each once.", func(in *Instr, from []int) ([]int, string) {
			order := in.Order()
			sorted := slices.Sorted(slices.Values(order))
			if len(order) != len(from) || !slices.Equal(sorted, count(len(from))) {
				return nil, fmt.Sprintf("dims is %v, the source has dimensions 0 to %d", order, len(from)-1)
			}
			to := make([]int, len(from))
			for i, d := range order {
				to[i] = from[d]
			}
			return to, ""
		}), "xt = Transpose(x) : register f16[8, 16] local(1, 2).column_spatial(4, 8).local(2, 1)"),
	alias("ReshapeRegister", movement("Reshape", "The same elements, in row-major order, in another shape of as many. No element leaves its thread.", nil,
		Rule{Text: "Source and result have equally many elements.", Check: func(p *Program, in *Instr) *Violation {
			from, _ := in.In[0].Var().Type.Dims()
			to, _ := in.Out[0].Type.Dims()
			if product(from) != product(to) {
				return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is %v, %d elements; the result is %v, %d elements", in.In[0].Var().Name, from, product(from), to, product(to))}
			}
			return nil
		}}, "f = Reshape(x) : register f16[128] local(2).spatial(32).local(2)")),
	movement("Squeeze", "The same elements without some dimensions of extent 1.",
		[]AttrSpec{{Name: "dims", Kind: AttrInts, Required: true, Doc: "the dimensions of x that go"}},
		derivedShape("dims names different dimensions of extent 1 of the source; the result has the others.", func(in *Instr, from []int) ([]int, string) {
			drop := in.Dims(0, 0)
			var to []int
			for d, n := range from {
				if k := times(drop, d); k > 1 || k == 1 && n != 1 {
					return nil, fmt.Sprintf("dimension %d, of extent %d, goes %d times", d, n, k)
				} else if k == 0 {
					to = append(to, n)
				}
			}
			if len(to)+len(drop) != len(from) {
				return nil, fmt.Sprintf("dims is %v, the source has dimensions 0 to %d", drop, len(from)-1)
			}
			return to, ""
		}), "r = Squeeze(x, dims=[1]) : register f32[16] local(2).spatial(8).replicated(1, num_workers=4)"),
	movement("Unsqueeze", "The same elements with further dimensions of extent 1.",
		[]AttrSpec{{Name: "dims", Kind: AttrInts, Required: true, Doc: "where the new dimensions stand in the result"}},
		derivedShape("dims names different dimensions of the result, of extent 1; the others are those of the source.", func(in *Instr, from []int) ([]int, string) {
			add := in.Dims(0, 0)
			rank := len(from) + len(add)
			to, next := make([]int, rank), 0
			for d := range to {
				switch k := times(add, d); {
				case k == 1:
					to[d] = 1
				case k > 1 || next == len(from):
					return nil, fmt.Sprintf("dims is %v, the result has dimensions 0 to %d", add, rank-1)
				default:
					to[d] = from[next]
					next++
				}
			}
			if next != len(from) {
				return nil, fmt.Sprintf("dims is %v, the result has dimensions 0 to %d", add, rank-1)
			}
			return to, ""
		}), "c = Unsqueeze(x, dims=[1]) : register f32[16, 1] local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)"),
	movement("Repeat", "The source several times in a row along each dimension, as a whole: element i of the result is element i modulo the source's extent.",
		repeats, ruleRepeats, "w = Repeat(x, repeats=[1, 2]) : register f16[16, 16] local(2, 2).spatial(8, 4).local(1, 2)"),
	movement("RepeatInterleave", "Each element of the source several times in a row along each dimension: element i of the result is element i / repeats.",
		repeats, ruleRepeats, "w = RepeatInterleave(x, repeats=[1, 2]) : register f16[16, 16] local(2, 1).spatial(8, 4).local(1, 4)"),
	{
		Name: "SliceRegister", Family: "register",
		Doc:   "A part of a register tensor: element [i, …] is the source's at offset plus that index. dims says which dimensions of the source stay (the last ones, if left out); the others are fixed by offset. A part outside the source is an error. An offset that is not constant is looked up by comparisons, since registers have no index.",
		In:    []Port{{Name: "x", Accept: AcceptRegister}},
		Out:   []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: sliceAttrs,
		Rules: append([]Rule{ruleSameRegisterElem}, append(sliceRules, ruleHeld)...),
		Since: "0.3", Source: paper + " Table 1", Example: "row = SliceRegister(x, offset=[8, 0]) : register f16[8, 8] spatial(8, 4).local(1, 2)",
	},
	{
		Name: "SliceAssign", Family: "register",
		Doc:   "x with a part replaced by another tensor: element [i, …] of part stands at offset plus that index. offset and dims as in SliceRegister. To change a variable, name it as the result too.",
		In:    []Port{{Name: "x", Accept: AcceptRegister}, {Name: "part", Accept: AcceptRegister}},
		Out:   []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: sliceAttrs,
		Rules: append([]Rule{
			{Text: "x, part and the result have one element type.", Check: func(p *Program, in *Instr) *Violation {
				x, part, r := in.In[0].Var().Type.Elem, in.In[1].Var().Type.Elem, in.Out[0].Type.Elem
				if x != part || x != r {
					return &Violation{Msg: fmt.Sprintf("x is of %s, part of %s, the result of %s", x, part, r), Help: "Cast them to one type first"}
				}
				return nil
			}},
			{Text: "The result has the shape of x.", Check: func(p *Program, in *Instr) *Violation {
				if x, r := shapeText(in.In[0].Var().Type), shapeText(in.Out[0].Type); x != r {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("x is %s, the result %s", x, r)}
				}
				return nil
			}},
		}, append(sliceRules, ruleHeld)...),
		Since: "0.3", Source: "github.com/NVIDIA/tilus, tilus.lang.Script", Example: "x = SliceAssign(x, row, offset=[8, 0]) : register f16[16, 8] local(2, 1).spatial(8, 4).local(1, 2)",
	},
	shuffle("ShuffleUp", "below"),
	shuffle("ShuffleDown", "above"),
}

// movement is the row of an instruction that makes a tensor of one operand's
// elements without moving them between threads.
func movement(name, doc string, attrs []AttrSpec, shape Rule, example string) *Op {
	return &Op{
		Name: name, Family: "register", Doc: doc, Attrs: attrs,
		In: []Port{{Name: "x", Accept: AcceptRegister}}, Out: []Port{{Name: "tile", Accept: AcceptRegister}},
		Rules: []Rule{ruleSameRegisterElem, shape, ruleHeld},
		Since: "0.3", Source: paper + " Table 1", Example: example,
	}
}

// alias gives a row another name.
func alias(name string, op *Op) *Op {
	op.Aliases = append(op.Aliases, name)
	return op
}

// shuffle is the row of an exchange between neighbours in a warp.
func shuffle(name, where string) *Op {
	return &Op{
		Name: name, Family: "register",
		Doc: fmt.Sprintf("What the thread delta %s holds in the same slots. Warps are cut into runs of width threads; a thread that has none so far %s in its run keeps its own. The tensor is seen as what threads hold: the result lies as the source.", where, where),
		In:  []Port{{Name: "x", Accept: AcceptRegister}}, Out: []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{
			{Name: "delta", Kind: AttrInts, Required: true, Doc: "how many threads " + where + ", one number"},
			{Name: "width", Kind: AttrInts, Doc: "threads of a run, one number; 32 if left out"},
			{Name: "mask", Kind: AttrInts, Doc: "the lanes of a warp that take part, bit i for lane i, one number; left out, all that run"},
		},
		Rules: []Rule{
			{Text: "The result has the element type, shape and layout of the source.", Check: func(p *Program, in *Instr) *Violation {
				if x, r := in.In[0].Var().Type, in.Out[0].Type; !x.Equal(r) {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is %s, the result %s", in.In[0].Var().Name, x, r), Help: fmt.Sprintf("write the result as %s", x)}
				}
				return nil
			}},
			{Text: "width is a power of two up to 32; delta is from 1 to width - 1.", Check: func(p *Program, in *Instr) *Violation {
				delta, width, ok := in.Shuffle()
				if !ok || width < 2 || width > LanesPerWarp || width&(width-1) != 0 || delta < 1 || delta >= width {
					return &Violation{Pos: in.attrPos("delta"), Msg: fmt.Sprintf("delta is %d, width %d", delta, width), Help: "delta=[1], width=[8]"}
				}
				return nil
			}},
			{Text: "Threads that hold one element take the same element.", Why: "Otherwise it would have several values.", Check: func(p *Program, in *Instr) *Violation {
				if !firstHold(p, in, 2) {
					return nil
				}
				from := make([]int32, in.Out[0].Type.Layout.Size())
				for i := range from {
					from[i] = -1
				}
				var bad *Violation
				in.shuffled(func(thread, slot int, to, source int32) {
					if from[to] >= 0 && from[to] != source && bad == nil {
						bad = &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("element %v is held by several threads, and they would get different ones", in.Out[0].Type.Layout.Index(thread, slot)), Help: "use a layout without replicas"}
					}
					from[to] = source
				})
				return bad
			}},
			{Text: "mask, where it is given, has the bits of all lanes of a warp.", Why: "An instruction of a tile is one of all its threads: one that is left out would have no value in the result.", Check: func(p *Program, in *Instr) *Violation {
				a := in.Attr("mask")
				if a == nil {
					return nil
				}
				all := int64(1)<<LanesPerWarp - 1
				if n, ok := int64(0), len(a.Exprs) == 1; ok {
					if n, ok = ConstInt(a.Exprs[0]); ok && (n == all || n == -1) {
						return nil
					}
				}
				return &Violation{Pos: a.Pos, Msg: "mask leaves lanes out", Help: fmt.Sprintf("leave mask out, or mask=[%#x]; for some lanes choose afterwards, Where(lanes, shuffled, x), or run the rest in a thread group", all)}
			}},
		},
		Since: "0.3", Source: "github.com/NVIDIA/tilus, tilus.ir.instructions", Example: fmt.Sprintf("y = %s(x, delta=[1]) : register f32[32] spatial(32)", name),
	}
}

var ruleSameRegisterElem = Rule{Text: "The result has the element type of the source.", Check: func(p *Program, in *Instr) *Violation {
	if x, r := in.In[0].Var(), in.Out[0].Type; x.Type.Elem != r.Elem {
		return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s is of %s, the result of %s", x.Name, x.Type.Elem, r.Elem), Help: "Cast changes the type, View reads the same bits as another"}
	}
	return nil
}}

var sameShape = derivedShape("The result has the shape of the source.", func(in *Instr, from []int) ([]int, string) { return from, "" })

// derivedShape is the rule of a result whose shape follows from the source's.
func derivedShape(text string, derive func(in *Instr, from []int) (to []int, bad string)) Rule {
	return Rule{Text: text, Check: func(p *Program, in *Instr) *Violation {
		from, _ := in.In[0].Var().Type.Dims()
		to, _ := in.Out[0].Type.Dims()
		want, bad := derive(in, from)
		if bad != "" {
			for _, a := range in.Attrs {
				return &Violation{Pos: a.Pos, Msg: bad}
			}
			return &Violation{Msg: bad}
		}
		if !slices.Equal(want, to) {
			return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the result is %v, not %v", want, to)}
		}
		return nil
	}}
}

var repeats = []AttrSpec{{Name: "repeats", Kind: AttrInts, Required: true, Doc: "how often, for each dimension"}}

var ruleRepeats = derivedShape("repeats has a positive number for each dimension; the result's extents are the source's times those.", func(in *Instr, from []int) ([]int, string) {
	r := in.ints("repeats")
	if len(r) != len(from) {
		return nil, fmt.Sprintf("repeats has %d entries, the source %d dimensions", len(r), len(from))
	}
	to := make([]int, len(from))
	for d, n := range from {
		if r[d] < 1 || r[d] > MaxTileElements {
			return nil, fmt.Sprintf("repeats is %v", r)
		}
		to[d] = n * r[d]
	}
	return to, ""
})

var sliceAttrs = []AttrSpec{
	{Name: "offset", Kind: AttrExprs, Required: true, Doc: "index in x of the part's first element, one entry per dimension of x"},
	{Name: "dims", Kind: AttrInts, Doc: "the dimension of x that each dimension of the part lies along"},
}

var sliceRules = []Rule{
	{Text: "offset has one entry for each dimension of x.", Check: func(p *Program, in *Instr) *Violation {
		a := in.Attr("offset")
		if rank := len(in.In[0].Var().Type.Shape); len(a.Exprs) != rank {
			return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("offset has %d entries, %s has %d dimensions", len(a.Exprs), in.In[0].Var().Name, rank), Help: "write 0 for dimensions the part does not move along"}
		}
		return nil
	}},
	{Text: "dims names one dimension of x for each dimension of the part, in range and without repeats; left out, the part has at most the rank of x.",
		Check: func(p *Program, in *Instr) *Violation { return checkDims(in, in.In[0].Var(), in.part()) }},
	{Text: "The part lies inside x, as far as offset is constant.", Why: "What is not constant is checked by the interpreter.", Check: func(p *Program, in *Instr) *Violation {
		x := in.In[0].Var()
		whole, _ := x.Type.Dims()
		a := in.Attr("offset")
		if len(a.Exprs) != len(whole) || checkDims(in, x, in.part()) != nil {
			return nil
		}
		for d, size := range in.Extents() {
			at, ok := ConstInt(a.Exprs[d])
			if size > whole[d] || ok && (at < 0 || at+int64(size) > int64(whole[d])) {
				return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("the part takes %d elements from %s of dimension %d of %s, which has %d", size, a.Exprs[d], d, x.Name, whole[d])}
			}
		}
		return nil
	}},
}

// maxPlaces bounds how many places a part with offsets that are not constant may
// have; each costs a comparison and a choice for each slot.
const maxPlaces = 256

var ruleHeld = Rule{
	Text: "Every thread holds the elements that its part of the result is made of, in the same slots as the other threads do, wherever an offset may point.",
	Why:  "No element leaves its thread, and registers are named, not indexed; ConvertLayout moves elements between threads.",
	Check: func(p *Program, in *Instr) *Violation {
		if !firstHold(p, in, len(in.Op.Rules)-1) {
			return nil
		}
		places, ok := Places(in)
		if !ok {
			return &Violation{Pos: in.attrPos("offset"), Msg: fmt.Sprintf("the part may stand in more than %d places", maxPlaces), Help: "keep what is indexed in shared memory"}
		}
		for _, at := range places {
			if _, bad := MoveSlots(in, at); bad != nil {
				if t, ok := unmoved(in); ok {
					bad.Help = fmt.Sprintf("write the result as %s, or ConvertLayout %s first", t, in.In[0].Var().Name)
				}
				if len(places) > 1 {
					bad.Msg = fmt.Sprintf("at offset %v %s", at, bad.Msg)
				}
				return bad
			}
		}
		return nil
	},
}

// unmoved is the type of the result in which every element lies where it is in the
// source.
func unmoved(in *Instr) (Type, bool) {
	l := in.In[0].Var().Type.Layout
	dims, _ := in.Out[0].Type.Dims()
	var err error
	switch in.Op.Name {
	case "Assign":
	case "Transpose":
		l, err = l.Permute(in.Order()...)
	case "Reshape", "Squeeze", "Unsqueeze":
		l, err = l.Reshape(dims...)
	case "Repeat":
		l = layout.Local(in.ints("repeats")...).Mul(l)
	case "RepeatInterleave":
		l = l.Local(in.ints("repeats")...)
	default:
		return Type{}, false
	}
	return RegisterOf(in.Out[0].Type.Elem, l), err == nil
}

// firstHold reports that the first n rules of the op hold.
func firstHold(p *Program, in *Instr, n int) bool {
	for _, r := range in.Op.Rules[:n] {
		if r.Check(p, in) != nil {
			return false
		}
	}
	return true
}

// ints is the value of an attribute that is a list of constants.
func (s *Instr) ints(name string) []int {
	var out []int
	if a := s.Attr(name); a != nil {
		for _, e := range a.Exprs {
			n, _ := ConstInt(e)
			out = append(out, int(min(max(n, -1<<31), 1<<31)))
		}
	}
	return out
}

// part is the part that SliceRegister makes or SliceAssign places.
func (s *Instr) part() Type {
	if len(s.In) > 1 {
		return s.In[1].Var().Type
	}
	return s.Out[0].Type
}

// Extents are the part's extents along each dimension of the whole.
func (s *Instr) Extents() []int {
	size := make([]int, len(s.In[0].Var().Type.Shape))
	for d := range size {
		size[d] = 1
	}
	part, _ := s.part().Dims()
	for i, d := range s.Dims(len(size), len(part)) {
		size[d] = part[i]
	}
	return size
}

// Shuffle is the value of delta and width.
func (s *Instr) Shuffle() (delta, width int, ok bool) {
	d, w := s.ints("delta"), s.ints("width")
	if s.Attr("width") == nil {
		w = []int{LanesPerWarp}
	}
	if len(d) != 1 || len(w) != 1 {
		return 0, 0, false
	}
	return d[0], w[0], true
}

// ShuffleFrom is the thread whose slots a thread gets.
func (s *Instr) ShuffleFrom(thread int) int {
	delta, width, _ := s.Shuffle()
	if s.Op.Name == "ShuffleUp" {
		delta = -delta
	}
	if at := thread%width + delta; at < 0 || at >= width {
		return thread
	}
	return thread + delta
}

// shuffled calls f for each slot of each thread with the element there and the one
// that it gets.
func (s *Instr) shuffled(f func(thread, slot int, to, from int32)) {
	l := s.Out[0].Type.Layout
	held, n := l.Flat(), l.Slots()
	for t := range l.Threads() {
		from := s.ShuffleFrom(t)
		for k := range n {
			f(t, k, held[t*n+k], held[from*n+k])
		}
	}
}

// MovedFrom gives, for each element of the result of an instruction that only moves
// elements, the element that it is: flat row-major indices, those of a second
// operand after those of the first. offset is that of a slice, else nil.
func MovedFrom(in *Instr, offset []int) []int32 {
	from, _ := in.In[0].Var().Type.Dims()
	to, _ := in.Out[0].Type.Dims()
	if slices.Contains([]string{"Transpose", "Repeat", "RepeatInterleave", "SliceRegister"}, in.Op.Name) {
		return sources(to, from, in.source(from, offset))
	}
	out := make([]int32, product(to))
	switch in.Op.Name {
	case "ShuffleUp", "ShuffleDown":
		in.shuffled(func(_, _ int, to, from int32) { out[to] = from })
		return out
	case "SliceAssign":
		for i := range out {
			out[i] = int32(i)
		}
		part, _ := in.part().Dims()
		for e, at := range sources(part, to, in.source(to, offset)) {
			out[at] = int32(len(out) + e)
		}
		return out
	}
	for e := range out { // row-major order stays
		out[e] = int32(e)
	}
	return out
}

// sources lists, for the indices of shape in row-major order, the row-major numbers of what
// they stand for in an operand of shape from: sums of one part for each dimension.
func sources(shape, from []int, source func(index []int) []int) []int32 {
	index := make([]int, len(shape))
	out := make([]int32, product(shape))
	out[0] = int32(flatten(from, source(index)))
	first, have := out[0], 1
	for d, n := range shape {
		part := make([]int32, n)
		for i := range part {
			index[d] = i
			part[i] = int32(flatten(from, source(index))) - first
		}
		index[d] = 0
		for i := have - 1; i >= 0; i-- { // each number so far becomes n numbers, from the last on
			e := out[i]
			for k := n - 1; k >= 0; k-- {
				out[i*n+k] = e + part[k]
			}
		}
		have *= n
	}
	return out
}

// source gives the index in an operand of shape from that an index of the result
// stands for; it is used again by the next call.
func (s *Instr) source(from, offset []int) func(index []int) []int {
	at := make([]int, len(from))
	switch s.Op.Name {
	case "Transpose":
		order := s.Order()
		return func(index []int) []int {
			for i, d := range order {
				at[d] = index[i]
			}
			return at
		}
	case "Repeat":
		return func(index []int) []int {
			for d, n := range from {
				at[d] = index[d] % n
			}
			return at
		}
	case "RepeatInterleave":
		times := s.ints("repeats")
		return func(index []int) []int {
			for d, n := range times {
				at[d] = index[d] / n
			}
			return at
		}
	}
	part, _ := s.part().Dims()
	dims := s.Dims(len(from), len(part))
	return func(index []int) []int {
		copy(at, offset)
		for i, d := range dims {
			at[d] += index[i]
		}
		return at
	}
}

// Places are the offsets that a slice may have: one where offset is constant, else
// all that lie inside. ok is false where these are too many. What has no offset has
// one place, nil.
func Places(in *Instr) (places [][]int, ok bool) {
	a := in.Attr("offset")
	if a == nil {
		return [][]int{nil}, true
	}
	whole, _ := in.In[0].Var().Type.Dims()
	places = [][]int{{}}
	for d, size := range in.Extents() {
		first, last := 0, whole[d]-size
		if n, ok := ConstInt(a.Exprs[d]); ok {
			first, last = int(n), int(n)
		}
		var longer [][]int
		if len(places)*(last-first+1) > maxPlaces {
			return nil, false
		}
		for _, p := range places {
			for i := first; i <= last; i++ {
				longer = append(longer, append(slices.Clone(p), i))
			}
		}
		places = longer
	}
	return places, true
}

// places says which element each slot of each thread holds: the row-major number is the
// sum of the thread's part and the slot's.
type places struct{ threads, slots []int32 }

func placesOf(l layout.Layout) places {
	threads, slots := l.Parts()
	return places{threads, slots}
}

func (p places) at(thread, slot int) int32 { return p.threads[thread] + p.slots[slot] }

// SlotOf names a slot of an operand.
type SlotOf struct{ Operand, Slot int }

// MoveSlots gives, for each slot of the result of an instruction that moves nothing
// between threads, the slot that it is in every thread. The violation names a
// thread that does not hold what it needs.
func MoveSlots(in *Instr, offset []int) ([]SlotOf, *Violation) {
	if slots := linearSlots(in, offset); slots != nil {
		return slots, nil
	}
	out := in.Out[0].Type.Layout
	from := MovedFrom(in, offset)
	to := placesOf(out)
	slots := make([]SlotOf, len(to.slots))
	type held struct {
		places
		first int32
	}
	var operands []held
	first := 0
	for _, o := range in.In {
		l := o.Var().Type.Layout
		if l.Threads() != out.Threads() {
			return nil, &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s has %d threads, the result %d", o.Var().Name, l.Threads(), out.Threads())}
		}
		operands = append(operands, held{placesOf(l), int32(first)})
		first += l.Size()
	}
	everywhere := func(c SlotOf, s int) bool {
		h := operands[c.Operand]
		at, need := h.slots[c.Slot]+h.first, from[to.slots[s]:]
		for t, part := range to.threads {
			if h.threads[t]+at != need[part] {
				return false
			}
		}
		return true
	}
	// inFirst lists the slots of thread 0 that hold an element, up to most.
	inFirst := func(all []SlotOf, e int32, most int) []SlotOf {
		for k, h := range operands {
			for i, x := range h.slots {
				if x+h.first == e && len(all) < most {
					all = append(all, SlotOf{k, i})
				}
			}
		}
		return all
	}
	var one [1]SlotOf
	var next SlotOf
	for s := range slots {
		e := from[to.at(0, s)]
		if h := operands[next.Operand]; next.Slot < len(h.slots) && h.slots[next.Slot]+h.first == e && everywhere(next, s) { // most often the next one
			slots[s] = next
			next.Slot++
			continue
		}
		if all := inFirst(one[:0], e, 1); len(all) > 0 && everywhere(all[0], s) {
			next = SlotOf{all[0].Operand, all[0].Slot + 1}
			slots[s] = all[0]
			continue
		}
		all := inFirst(nil, e, math.MaxInt)
		for t := range to.threads {
			need := from[to.at(t, s)]
			all = slices.DeleteFunc(all, func(c SlotOf) bool {
				h := operands[c.Operand]
				return h.at(t, c.Slot)+h.first != need
			})
			if len(all) == 0 {
				return nil, missing(in, out.Index(t, s), t, int(need))
			}
		}
		slots[s] = all[0]
	}
	return slots, nil
}

// linearSlots is [MoveSlots] where an element's number in the one operand is a linear
// function of its index in the result: then threads and slots can be looked at apart. It is
// nil where an element is missing, and for other instructions.
func linearSlots(in *Instr, offset []int) []SlotOf {
	out, l := in.Out[0].Type.Layout, in.In[0].Var().Type.Layout
	if len(in.In) != 1 || l.Threads() != out.Threads() {
		return nil
	}
	from, _ := in.In[0].Var().Type.Dims()
	dims, _ := in.Out[0].Type.Dims()
	stride := make([]int, len(from)) // row-major
	for d, n := len(from)-1, 1; d >= 0; d-- {
		stride[d], n = n, n*from[d]
	}
	base, step := 0, []int(nil) // step: of each dimension of the result; nil where numbers stay
	switch in.Op.Name {
	case "Repeat", "RepeatInterleave", "ShuffleUp", "ShuffleDown", "SliceAssign":
		return nil
	case "Transpose":
		for _, d := range in.Order() {
			step = append(step, stride[d])
		}
	case "SliceRegister":
		for d, n := range offset {
			base += n * stride[d]
		}
		for _, d := range in.Dims(len(from), len(dims)) {
			step = append(step, stride[d])
		}
	}
	source := func(e int32) int32 { // of an element of the result, without base
		if step == nil {
			return e
		}
		rest, n := uint32(e), int32(0) // 32 bits divide faster
		for d := len(dims) - 1; d > 0; d-- {
			by := uint32(dims[d])
			n += int32(rest%by) * int32(step[d])
			rest /= by
		}
		return n + int32(rest)*int32(step[0])
	}
	to, have := placesOf(out), placesOf(l)
	for t, part := range to.threads {
		if have.threads[t]-have.threads[0] != source(part)-source(to.threads[0]) {
			return nil
		}
	}
	slots := make([]SlotOf, len(to.slots))
	next, first := 0, int32(base)+source(to.threads[0])-have.threads[0]
	for s, part := range to.slots {
		e := first + source(part)
		if next >= len(have.slots) || have.slots[next] != e { // most often the next one
			if next = slices.Index(have.slots, e); next < 0 {
				return nil
			}
		}
		slots[s] = SlotOf{0, next}
		next++
	}
	return slots
}

// missing says that a thread does not hold an element where it would have to.
func missing(in *Instr, index []int, thread, need int) *Violation {
	for k, o := range in.In {
		dims, _ := o.Var().Type.Dims()
		if need >= product(dims) && k < len(in.In)-1 {
			need -= product(dims)
			continue
		}
		return &Violation{Pos: in.typePos(0),
			Msg:  fmt.Sprintf("element %v of the result, in thread %d, is element %v of %s, which that thread does not hold, or not in the slot in which the other threads hold theirs (%s)", index, thread, unflatten(dims, need), o.Var().Name, o.Var().Type.Layout),
			Help: "ConvertLayout " + o.Var().Name + " first, or choose the result's layout after it",
		}
	}
	return nil
}

func count(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func times(list []int, x int) int {
	n := 0
	for _, y := range list {
		if x == y {
			n++
		}
	}
	return n
}

func flatten(dims, index []int) int {
	flat := 0
	for d, n := range dims {
		flat = flat*n + index[d]
	}
	return flat
}

func unflatten(dims []int, flat int) []int {
	index := make([]int, len(dims))
	for d := len(dims) - 1; d >= 0; d-- {
		index[d] = flat % dims[d]
		flat /= dims[d]
	}
	return index
}
