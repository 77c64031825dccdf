package ir

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// The rows of this file combine elements along dimensions.

const reduceOrder = "The order is fixed, so that floats agree on all machines: in each thread the slots that make one element, in order, then the threads that hold parts of it, in order, are combined as a tree of neighbours: 0 with 1, 2 with 3, …, then the results in the same way; what has no neighbour waits."

var attrDim = AttrSpec{Name: "dim", Kind: AttrInts, Doc: "the dimensions of x that are combined; left out, all of them"}

var attrOneDim = AttrSpec{Name: "dim", Kind: AttrInts, Required: true, Doc: "the dimension of x, as a list of one"}

var attrKeep = AttrSpec{Name: "keepdims", Kind: AttrWord, Words: []string{"true"}, Doc: "true: combined dimensions stay with extent 1; left out, they vanish"}

var reduceRows = []*Op{
	{
		Name: "Reduce", Family: "reduce",
		Doc: "Combines the elements along dimensions: sum, prod, max, min of numbers, any, all of bools. Each step rounds as Add, Mul, Max or Min do. " + reduceOrder,
		In:  []Port{{Name: "x", Accept: AcceptRegister}},
		Out: []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{
			{Name: "op", Kind: AttrWord, Required: true, Words: []string{"sum", "prod", "max", "min", "any", "all"}, Doc: "how two elements are combined"},
			attrDim, attrKeep,
		},
		Rules: []Rule{
			{Text: "The result has the element type of x.", Check: func(p *Program, in *Instr) *Violation { return oneElem(in.In, in.Out[0].Type.Elem) }},
			{Text: "any and all are of bool; the others are of types of at least 16 bits.", Check: func(p *Program, in *Instr) *Violation {
				t := in.In[0].Var().Type.Elem
				switch w := in.Attr("op").Word; {
				case (w == "any" || w == "all") != (t == dtype.Bool):
					return &Violation{Pos: in.Attr("op").Pos, Msg: fmt.Sprintf("%s of %s", w, t), Help: "compare first, NotEqual(x, 0), or use max and min"}
				case t != dtype.Bool && (t.Bits() < 16 || t == dtype.TF32):
					return narrow(in.In[0].Pos, t)
				}
				return nil
			}},
			ruleReduced,
			ruleReducedLayout,
		},
		Since: "0.3", Source: tilusDoc, Example: "s = Reduce(x, op=sum, dim=[1], keepdims=true) : register f32[16, 1] reduce(local(2, 1).spatial(8, 4).local(1, 2), dims=[1], keepdims=true)",
	},
	argRow("ArgMax", "largest"),
	argRow("ArgMin", "smallest"),
	{
		Name: "Scan", Family: "reduce",
		Doc: "Combines each element with those before it along a dimension: inclusive, element i becomes x[0] ∘ … ∘ x[i]; exclusive, x[0] ∘ … ∘ x[i-1], and the first what ∘ leaves alone: 0 for add, or, xor, 1 for mul, all bits for and, the least or greatest value for max and min (infinities of floats). The extent may be any. " +
			"The order is fixed by the layout: the modes of the dimension are taken from the innermost on. Along a mode of slots elements are combined one after the other; along one of lanes of a warp in steps of distance 1, 2, 4, …, each lane that has one so far below combining its value on the right; along one of warps one after the other. What a whole run of inner modes gives is scanned along the next mode, and combined on the left with each element of the run after; exclusive, with what has been combined there before the element, which is the first value at first.",
		In:  []Port{{Name: "x", Accept: AcceptRegister}},
		Out: []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{
			{Name: "op", Kind: AttrWord, Required: true, Words: []string{"add", "mul", "max", "min", "and", "or", "xor"}, Doc: "how two elements are combined"},
			attrOneDim,
			{Name: "exclusive", Kind: AttrWord, Words: []string{"true"}, Doc: "true: without the element itself"},
		},
		Rules: []Rule{
			{Text: "The result has the element type and layout of x.", Check: func(p *Program, in *Instr) *Violation {
				x, r := in.In[0].Var().Type, in.Out[0].Type
				if x.Elem != r.Elem || !x.Layout.Equal(r.Layout) {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("x is %s, the result %s", x, r), Help: fmt.Sprintf("write the result as %s", x)}
				}
				return nil
			}},
			{Text: "and, or and xor are of integers, the others of integers and floats, of at least 16 bits.", Check: func(p *Program, in *Instr) *Violation {
				t, w := in.In[0].Var().Type.Elem, in.Attr("op").Word
				if bits := w == "and" || w == "or" || w == "xor"; !wholeNumber(t) && (bits || !floats(t)) {
					return &Violation{Pos: in.Attr("op").Pos, Msg: fmt.Sprintf("%s of %s", w, t), Help: "Cast it first"}
				}
				return nil
			}},
			ruleOneDim,
		},
		Since: "0.3", Source: tilusDoc, Example: "s = Scan(x, op=add, dim=[0])" + tile32,
	},
}

func argRow(name, which string) *Op {
	return &Op{
		Name: name, Family: "reduce",
		Doc:   fmt.Sprintf("Where along a dimension the %s element is: its index, the first one if there are several. -0 and +0 are equal, and a NaN loses against every number; where all are NaN it is 0.", which),
		In:    []Port{{Name: "x", Accept: AcceptRegister}},
		Out:   []Port{{Name: "tile", Accept: AcceptRegister}},
		Attrs: []AttrSpec{attrOneDim, attrKeep},
		Rules: []Rule{
			{Text: "The result is of i32.", Check: func(p *Program, in *Instr) *Violation {
				if t := in.Out[0].Type.Elem; t != dtype.I32 {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the result is of %s", t), Help: "indices are i32"}
				}
				return nil
			}},
			{Text: "x is of integers or floats of 16 or 32 bits.", Why: "An element and its index travel between threads as one 64-bit key.", Check: func(p *Program, in *Instr) *Violation {
				if t := in.In[0].Var().Type.Elem; t.Bits() > 32 || !wholeNumber(t) && !floats(t) {
					return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is of %s", in.In[0].Var().Name, t), Help: "Cast it first"}
				}
				return nil
			}},
			ruleOneDim,
			ruleReducedLayout,
		},
		Since: "0.3", Source: "NumPy " + map[string]string{"ArgMax": "argmax", "ArgMin": "argmin"}[name],
		Example: fmt.Sprintf("i = %s(x, dim=[1]) : register i32[16] reduce(local(2, 1).spatial(8, 4).local(1, 2), dims=[1])", name),
	}
}

// ReducedDims are the dimensions that a Reduce, ArgMax, ArgMin or Scan combines.
func (s *Instr) ReducedDims() []int {
	if s.Attr("dim") != nil {
		var dims []int
		for _, e := range s.Attr("dim").Exprs {
			n, _ := ConstInt(e)
			dims = append(dims, int(n))
		}
		return dims
	}
	dims := make([]int, len(s.In[0].Var().Type.Shape))
	for d := range dims {
		dims[d] = d
	}
	return dims
}

func checkReducedDims(in *Instr) *Violation {
	rank := len(in.In[0].Var().Type.Shape)
	seen := map[int]bool{}
	for _, d := range in.ReducedDims() {
		if d < 0 || d >= rank || seen[d] {
			return &Violation{Pos: in.attrPos("dim"), Msg: fmt.Sprintf("dim has %d, which is out of range or repeated", d), Help: fmt.Sprintf("%s has dimensions 0 to %d", in.In[0].Var().Name, rank-1)}
		}
		seen[d] = true
	}
	return nil
}

var ruleReduced = Rule{Text: "dim names dimensions of x, in range and without repeats.", Check: func(p *Program, in *Instr) *Violation { return checkReducedDims(in) }}

var ruleOneDim = Rule{Text: "dim is one dimension of x.", Check: func(p *Program, in *Instr) *Violation {
	if n := len(in.Attr("dim").Exprs); n != 1 {
		return &Violation{Pos: in.attrPos("dim"), Msg: fmt.Sprintf("dim has %d entries", n), Help: "write one: dim=[1]"}
	}
	return checkReducedDims(in)
}}

var ruleReducedLayout = Rule{Text: "The result's layout is that of x, reduced over dim.", Why: "All threads that held a part of an element hold the element.", Check: func(p *Program, in *Instr) *Violation {
	x, r := in.In[0].Var().Type, in.Out[0].Type
	if checkReducedDims(in) != nil || in.Op.Spec("dim").Required && len(in.ReducedDims()) != 1 {
		return nil
	}
	want, err := x.Layout.Reduce(in.ReducedDims(), in.Attr("keepdims") != nil)
	if err != nil {
		return &Violation{Pos: in.attrPos("dim"), Msg: err.Error()}
	}
	if !want.Equal(r.Layout) {
		return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the result lies as %s, not %s", want, r.Layout), Help: fmt.Sprintf("write the result as %s", RegisterOf(r.Elem, want))}
	}
	return nil
}}

// Reduction says what makes the elements of a reduced tile, and in which order.
type Reduction struct {
	// Slots lists for each slot of the result the slots of the source, in order.
	Slots [][]int
	// Parts are the digits of the thread number along which threads hold parts of
	// an element, slowest first.
	Parts []ThreadDigit
	// Rest are the other digits that tell elements apart.
	Rest []ThreadDigit
}

// ThreadDigit is (thread / After) mod Size.
type ThreadDigit struct{ After, Size int }

// Of is the digit of a thread.
func (d ThreadDigit) Of(thread int) int { return thread / d.After % d.Size }

// Offsets are the differences of thread numbers along digits, in order: 0 first.
func Offsets(digits []ThreadDigit) []int {
	out := []int{0}
	for _, d := range digits {
		var next []int
		for _, at := range out {
			for k := range d.Size {
				next = append(next, at+k*d.After)
			}
		}
		out = next
	}
	return out
}

// ReductionOf splits a layout along the dimensions over which it is reduced.
func ReductionOf(l layout.Layout, over []int) Reduction {
	var r Reduction
	spatial, local := l.Digits()
	after := l.Threads()
	for _, g := range spatial {
		after /= g.Size
		d := ThreadDigit{after, g.Size}
		switch {
		case g.Dim >= 0 && slices.Contains(over, g.Dim):
			r.Parts = append(r.Parts, d)
		case g.Dim >= 0:
			r.Rest = append(r.Rest, d)
		}
	}
	kept := 1
	for _, g := range local {
		if !slices.Contains(over, g.Dim) {
			kept *= g.Size
		}
	}
	r.Slots = make([][]int, kept)
	for s := range l.Slots() {
		at, n := 0, l.Slots()
		for _, g := range local {
			n /= g.Size
			if digit := s / n % g.Size; !slices.Contains(over, g.Dim) {
				at = at*g.Size + digit
			}
		}
		r.Slots[at] = append(r.Slots[at], s)
	}
	return r
}

// Neighbours combines values in the order of Reduce: pairs of neighbours, then
// pairs of the results; what has no neighbour waits. It changes x.
func Neighbours[T any](x []T, combine func(a, b T) T) T {
	for len(x) > 1 {
		n := 0
		for i := 0; i < len(x); i += 2 {
			if x[n] = x[i]; i+1 < len(x) {
				x[n] = combine(x[i], x[i+1])
			}
			n++
		}
		x = x[:n]
	}
	return x[0]
}

// ScanLevel is one mode of a scanned dimension. Its runs lie in slots, in lanes of
// a warp (Lanes), or in threads of several warps.
type ScanLevel struct {
	Size  int
	Local bool
	Lanes bool
	After int // of the digit of the slot or thread number
}

// ScanLevels are the modes of a dimension, innermost first. A mode of threads that
// reaches over a warp is one of lanes and one of warps, where it divides so.
func ScanLevels(l layout.Layout, dim int) []ScanLevel {
	type mode struct {
		ScanLevel
		stride int
	}
	var modes []mode
	spatial, local := l.Digits()
	after := l.Threads()
	for _, g := range spatial {
		if after /= g.Size; g.Dim != dim || g.Size == 1 {
			continue
		}
		inside := 1 // how much of the mode is lanes
		if LanesPerWarp%after == 0 {
			if inside = LanesPerWarp / after; g.Size <= inside && inside%g.Size == 0 {
				inside = g.Size
			} else if g.Size%inside != 0 {
				inside = 1
			}
		}
		if inside > 1 {
			modes = append(modes, mode{ScanLevel{Size: inside, Lanes: true, After: after}, g.Stride})
		}
		if g.Size > inside {
			modes = append(modes, mode{ScanLevel{Size: g.Size / inside, After: after * inside}, g.Stride * inside})
		}
	}
	after = l.Slots()
	for _, g := range local {
		if after /= g.Size; g.Dim == dim && g.Size > 1 {
			modes = append(modes, mode{ScanLevel{Size: g.Size, Local: true, After: after}, g.Stride})
		}
	}
	slices.SortFunc(modes, func(a, b mode) int { return a.stride - b.stride })
	out := make([]ScanLevel, len(modes))
	for i, m := range modes {
		out[i] = m.ScanLevel
	}
	return out
}
