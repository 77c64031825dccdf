// Package infer finds layouts that a program leaves out. A program becomes a
// [Graph]: tiles, some with a layout, and the instructions between them. Rules say
// how an instruction's tiles determine each other; [Graph.Infer] applies them one at
// a time until every tile has a layout, and keeps a [Step] of each, so that the
// answer to "why this layout" is a rule, an instruction and its place in the text.
//
// In each round the first rule that finds something is applied, in this order:
// instructions of which some tile has a layout before those without; earlier rules
// of [Rules] before later ones; later instructions before earlier ones. What is
// known so spreads before anything is chosen, products of matrices choose before
// loads, and the end of a program before its beginning.
//
// The graph knows tensor memory and the instructions on it too, which programs do
// not have yet; see [FromProgram] for those they have.
//
// Source: Tilus, "A Tile-Level GPGPU Programming Language for Low-Precision
// Computation", section 5; the rules of github.com/NVIDIA/tilus, transforms/layout_inference.
package infer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Space says where a tile lives.
type Space uint8

// The spaces. Global tensors have no layout to infer.
const (
	Register Space = iota
	Shared
	TMemory
	Global
)

func (s Space) String() string { return [...]string{"register", "shared", "tensor", "global"}[s] }

// Tile is a tensor of the graph.
type Tile struct {
	Name  string
	Space Space
	Elem  dtype.Type
	Shape []int
	Pos   diag.Pos
	// Known says that the layout of its space is set: by the program, or by a rule.
	Known    bool
	Register layout.Layout
	Shared   layout.Shared
	TMemory  layout.TMemory

	v *ir.Var // of the program; nil in a graph that was made by hand
}

// Layout is the tile's layout in notation, "" if it is not known.
func (t *Tile) Layout() string {
	switch {
	case !t.Known:
		return ""
	case t.Space == Register:
		return t.Register.String()
	case t.Space == Shared:
		return t.Shared.String()
	case t.Space == TMemory:
		return t.TMemory.String()
	}
	return ""
}

// wants says whether a layout is to be found.
func (t *Tile) wants() bool { return !t.Known && t.Space != Global }

// Instr is an instruction of the graph. Op is a name that the rules list.
type Instr struct {
	Op      string
	In, Out []*Tile
	Pos     diag.Pos
	// Dims are the dimensions that an instruction names: those that a slice
	// keeps, the order of a permutation. Left out, a slice keeps the last ones.
	Dims []int
	// Along and Vector say what a global access may move at once: Vector elements
	// in a row along dimension Along of the tile.
	Along, Vector int
	// Threads run the instruction, where it stands in a thread group; 0 is all of
	// the block.
	Threads int

	src      *ir.Instr // of the program
	operands []int     // of src, for each of In
}

// name is what the program calls the instruction.
func (in *Instr) name() string {
	if in.src != nil {
		return in.src.Op.Name
	}
	return in.Op
}

func (in *Instr) tiles() []*Tile { return append(slices.Clone(in.In), in.Out...) }

// Graph is a program as the rules see it.
type Graph struct {
	Warps  int // of the block
	Instrs []*Instr
	Target Target
}

// Target says what the rules need to know of a machine. It is assembled outside
// vm, which knows no hardware.
type Target interface {
	// Lanes is the number of threads in a warp.
	Lanes() int
	// Registers is how many registers of a thread the fragments of a product may
	// take; a product that needs as many or more is not split that way.
	Registers() int
	// Products lists the matrix instructions of these operand and result types, the
	// preferred one first.
	Products(operand, result dtype.Type) []Product
	// RowLoads lists what a warp holds after it loaded 8 rows of 16 bytes of
	// elements of these bits from shared memory, the preferred form first.
	RowLoads(bits int) []layout.Layout
	// TMemoryLoads lists what a warp holds of 32-bit elements after a load from
	// tensor memory, the preferred form first; each has 16 or 32 lanes as rows.
	TMemoryLoads() []layout.Layout
	// Conversion says how ConvertLayout takes a register tensor from one layout to
	// another, and what it costs: 0 is nothing, 2 a shuffle.
	Conversion(from, to ir.Type) Way
}

// Way is how registers go from one layout to another.
type Way struct {
	Cost   int
	Shared bool // through the memory of the block, with barriers of all its threads
	Text   string
}

// Product is a matrix instruction of one warp: A is [M, K], B is [K, N], and C
// and D, which lie alike, are [M, N].
type Product struct {
	Name    string
	M, N, K int
	A, B, C layout.Layout
}

// Notes lists the conversions that were put into the program, each at its place with
// its cost: nothing where registers only change names, else shuffles or accesses of
// shared memory.
func (t Trace) Notes() []diag.Problem {
	var out []diag.Problem
	for _, s := range t {
		if s.From == nil {
			continue
		}
		out = append(out, diag.Problem{Pos: s.Instr.Pos,
			Msg:  fmt.Sprintf("%s needs %s as %s, it lies as %s: ConvertLayout is put in, %s", s.Instr.name(), s.From.Name, s.Tile.Layout(), s.From.Layout(), s.Way.Text),
			Help: "write a layout that suits both sides to be rid of it, or write ConvertLayout yourself"})
		if s.Result {
			last := &out[len(out)-1]
			last.Msg = fmt.Sprintf("%s gives %s as %s, it lies as %s: ConvertLayout is put in, %s", s.Instr.name(), s.Tile.Name, s.From.Layout(), s.Tile.Layout(), s.Way.Text)
		}
	}
	return out
}

// MaxInstrs bounds a graph, and so the time that inference takes.
const MaxInstrs = 4096

// Step is one layout found, or one conversion put where two instructions want
// different layouts of a tile.
type Step struct {
	Rule  string // name of the row of Rules; RuleConversion
	Instr *Instr
	Tile  *Tile
	// From is the tile whose elements Tile has in another layout, and Way how they
	// get there; nil where Tile's layout was found.
	From *Tile
	Way  Way
	// Result says that Tile is a result of Instr, which it makes as From.
	Result bool
}

// RuleConversion is the Rule of a step that puts a ConvertLayout into the program.
const RuleConversion = "conversion"

// String is the step in a line: "t6: local(2, 1).spatial(8, 4) by LoadGlobal (load.global)",
// "a1: local(2).spatial(32) from a, spatial(32).local(2), by ConvertLayout for Dot (conversion): 3 shuffles and 2 choices in each thread".
func (s Step) String() string {
	if s.From != nil {
		return fmt.Sprintf("%s: %s from %s, %s, by ConvertLayout for %s (%s): %s", s.Tile.Name, s.Tile.Layout(), s.From.Name, s.From.Layout(), s.Instr.name(), s.Rule, s.Way.Text)
	}
	return fmt.Sprintf("%s: %s by %s (%s)", s.Tile.Name, s.Tile.Layout(), s.Instr.name(), s.Rule)
}

// Trace is the steps of an inference, in order.
type Trace []Step

// String is the trace, one line a step.
func (t Trace) String() string {
	var b strings.Builder
	for _, s := range t {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// Problems lists what inference can complain of; numbers are never reused.
var Problems = []ir.RuleDoc{
	{Code: "Infer.E1", Text: "Every register tile has a layout, written or found.", Why: "A layout that is left out follows from an instruction that the tile takes part in: from the other tiles of that instruction, or because loads, stores and products choose one."},
	{Code: "Infer.E2", Text: "A program whose layouts are to be found has at most 4096 instructions.", Why: "So that no text can take all time; longer programs write their layouts."},
}

// found is what a rule found for a tile that had no layout.
type found struct {
	tile     *Tile
	register layout.Layout
	shared   layout.Shared
	tmemory  layout.TMemory
}

func reg(t *Tile, l layout.Layout) []found { return []found{{tile: t, register: l}} }

func smem(t *Tile, l layout.Shared) []found { return []found{{tile: t, shared: l}} }

func tmem(t *Tile, l layout.TMemory) []found { return []found{{tile: t, tmemory: l}} }

// set gives the tile its layout; false where the layout is of another shape, which
// a rule must not let happen, or the tile has one.
func (f found) set() bool {
	t := f.tile
	if !t.wants() {
		return false
	}
	var shape []int
	switch t.Space {
	case Register:
		shape = f.register.Shape()
	case Shared:
		shape = f.shared.Shape()
	case TMemory:
		shape = f.tmemory.Shape()
	}
	if !slices.Equal(shape, t.Shape) {
		return false
	}
	t.Register, t.Shared, t.TMemory, t.Known = f.register, f.shared, f.tmemory, true
	return true
}

// Threads is the number of threads of the block.
func (g *Graph) Threads() int { return g.Warps * g.Target.Lanes() }

// threads and warps are those that run an instruction.
func (g *Graph) threads(in *Instr) int {
	if in.Threads > 0 {
		return in.Threads
	}
	return g.Threads()
}

func (g *Graph) warps(in *Instr) int {
	if in.Threads > 0 {
		return max(1, in.Threads/g.Target.Lanes())
	}
	return g.Warps
}

// Infer sets the layouts of all tiles that have none, and tells how. Where it is
// stuck the error is a [diag.List] with an entry for each tile that is left, and
// the trace says how far it came.
func (g *Graph) Infer() (Trace, error) {
	if len(g.Instrs) > MaxInstrs {
		return nil, diag.List{{Code: "Infer.E2", Msg: fmt.Sprintf("the program has %d instructions; layouts are inferred for at most %d", len(g.Instrs), MaxInstrs), Help: "write the layouts"}}
	}
	if g.Warps < 1 || g.Warps > 64 {
		return nil, fmt.Errorf("infer: %d warps", g.Warps)
	}
	table := rules()
	byOp := map[string][]int{}
	for i, r := range table {
		for _, op := range r.Ops {
			byOp[op] = append(byOp[op], i)
		}
	}
	var trace Trace
	for {
		steps := g.round(table, byOp)
		if steps == nil {
			break
		}
		trace = append(trace, steps...)
	}
	return trace, g.stuck().Err()
}

// round applies the first rule that finds something.
func (g *Graph) round(table []Rule, byOp map[string][]int) Trace {
	type candidate struct{ rule, instr int }
	var known, blind []candidate
	for i, in := range g.Instrs {
		var some, none bool
		for _, list := range [2][]*Tile{in.In, in.Out} {
			for _, t := range list {
				some, none = some || t.Known, none || t.wants()
			}
		}
		if !none {
			continue
		}
		to := &blind
		if some {
			to = &known
		}
		for _, r := range byOp[in.Op] {
			*to = append(*to, candidate{r, i})
		}
	}
	for _, list := range [][]candidate{known, blind} {
		slices.SortFunc(list, func(a, b candidate) int {
			if a.rule != b.rule {
				return a.rule - b.rule
			}
			return b.instr - a.instr
		})
		for _, c := range list {
			in := g.Instrs[c.instr]
			var steps Trace
			for _, f := range table[c.rule].apply(g, in) {
				if f.set() {
					steps = append(steps, Step{Rule: table[c.rule].Name, Instr: in, Tile: f.tile})
				}
			}
			if steps != nil {
				return steps
			}
		}
	}
	return nil
}

// stuck lists the tiles without layout.
func (g *Graph) stuck() diag.List {
	var out diag.List
	users := map[*Tile][]string{}
	var left []*Tile
	for _, in := range g.Instrs {
		for _, t := range in.tiles() {
			if !t.wants() {
				continue
			}
			if users[t] == nil {
				left = append(left, t)
			}
			if !slices.Contains(users[t], in.Op) {
				users[t] = append(users[t], in.Op)
			}
		}
	}
	for _, t := range left {
		out = append(out, diag.Problem{Pos: t.Pos, Code: "Infer.E1",
			Msg:  fmt.Sprintf("no layout of %s, %s %v, follows from %s", t.Name, t.Elem, t.Shape, strings.Join(users[t], ", ")),
			Help: "write its layout after its type, or that of a tile it is computed from"})
	}
	return out
}
