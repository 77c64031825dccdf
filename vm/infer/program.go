package infer

import (
	"errors"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Parse is [text.Parse] of a text that may leave layouts out: those that are missing
// are inferred for the target, and the program is verified with them. The trace is
// empty where none was missing. text.Format prints the program with all layouts.
func Parse(file, src string, bind map[string]string, target Target) (*ir.Program, Trace, error) {
	p, err := text.Parse(file, src, bind)
	var list diag.List
	if err == nil || !errors.As(err, &list) || !slices.ContainsFunc(list, func(d diag.Problem) bool { return d.Code == "Type.C4" }) {
		return p, nil, err
	}
	p, second := text.ParseOnly(file, src, bind)
	if second != nil { // mistakes of reading come first
		return nil, nil, second
	}
	trace, stuck := Complete(p, target)
	if verify := ir.Verify(p).Err(); verify != nil {
		// Where inference is stuck, its reasons stand instead of the rule that
		// layouts be written.
		var rest diag.List
		if !errors.As(verify, &rest) {
			return nil, trace, verify
		}
		var out diag.List
		if len(ir.Misfits(p)) == 0 { // else layouts may follow from what is to be mended
			errors.As(stuck, &out)
		}
		for _, d := range rest {
			if d.Code != "Type.C4" || stuck == nil {
				out.Add(d)
			}
		}
		out.Sort()
		return nil, trace, out
	}
	if stuck != nil {
		return nil, trace, stuck
	}
	return p, trace, nil
}

// Assumed is the number that sizes given at launch are taken to be a multiple of
// when a load is cut into vectors. Layouts are right for all sizes; a launch whose
// sizes are such multiples gets the wide accesses.
const Assumed = 16

// FromProgram makes the graph of a program, and says which tile is which variable.
// Tiles whose shape is not constant and positive are left out, and so are instructions
// that do not fit their rows: the verifier complains of them.
func FromProgram(p *ir.Program, target Target) (*Graph, map[*ir.Var]*Tile) {
	g := &Graph{Warps: p.Warps, Target: target}
	tiles := map[*ir.Var]*Tile{}
	tile := func(v *ir.Var, pos diag.Pos) *Tile {
		if v == nil || !v.Type.IsRegister() && !v.Type.IsShared() {
			return nil
		}
		if t := tiles[v]; t != nil {
			return t
		}
		shape, ok := v.Type.Dims()
		ok = ok && len(shape) <= layout.MaxRank
		n := 1
		for _, s := range shape {
			if ok = ok && s > 0 && s <= ir.MaxTileElements/n; !ok {
				return nil
			}
			n *= s
		}
		t := &Tile{Name: v.Name, Elem: v.Type.Elem, Shape: shape, Pos: pos, Known: v.Type.HasLayout, Register: v.Type.Layout, Shared: v.Type.Shared, v: v}
		if v.Type.IsShared() {
			t.Space = Shared
		}
		tiles[v] = t
		return t
	}
	steps := divisors{}
	misfits := ir.Misfits(p)
	group := 0
	var visit func(s ir.Stmt) bool
	visit = func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Group:
			around := group
			group = max(s.Size, 1)
			s.Body.Walk(visit)
			group = around
			return false
		case *ir.For:
			steps.loop(s)
		case *ir.Instr:
			if misfits[s] {
				return true
			}
			in := &Instr{Op: opOf(s), Pos: s.Pos, Threads: group, src: s}
			for i, o := range s.In {
				if t := tile(o.Var(), o.Pos); t != nil {
					in.In = append(in.In, t)
					in.operands = append(in.operands, i)
				}
			}
			for i, v := range s.Out {
				pos := s.Pos
				if i < len(s.TypePos) && s.TypePos[i].Known() {
					pos = s.TypePos[i]
				}
				if t := tile(v, pos); t != nil {
					in.Out = append(in.Out, t)
				}
			}
			if a := s.Attr("dims"); a != nil && (s.Op.Family == "shared" || s.Op.Family == "register") {
				in.Dims = s.Dims(0, 0)
			}
			if s.Op.Family == "reduce" {
				in.Dims = s.ReducedDims()
			}
			switch in.Op {
			case "LoadGlobal", "StoreGlobal", "TakeGlobal", "PutGlobal":
				in.Along, in.Vector = steps.access(s)
			}
			g.Instrs = append(g.Instrs, in)
		}
		return true
	}
	p.Body.Walk(visit)
	return g, tiles
}

// opOf is the name under which the rules know an instruction.
func opOf(in *ir.Instr) string {
	if u := in.Attr("unit"); in.Op.Name == "Dot" && u != nil && u.Word == "simt" {
		return OpLaneDot
	}
	if in.Op.Class != ir.ClassElementwise && in.Op.Name != "CastDeferred" {
		return in.Op.Name
	}
	n := 0
	for _, o := range in.In {
		if v := o.Var(); v != nil && v.Type.IsRegister() {
			n++
		}
	}
	return []string{OpUnary, OpUnary, OpBinary, OpWhere}[min(n, 3)]
}

// divisors knows numbers that surely divide variables.
type divisors map[*ir.Var]int

// maxDivisor bounds them; 0 is divided by all.
const maxDivisor = 1 << 20

func (d divisors) loop(s *ir.For) {
	step := 1
	if s.Step != nil {
		step = d.of(s.Step, 1)
	}
	d[s.Var] = gcd(d.of(s.From, 1), step)
}

// of is a number that surely divides an expression; parameters are multiples of
// assumed.
func (d divisors) of(e ir.Expr, assumed int) int {
	if n, ok := ir.ConstInt(e); ok {
		if n = max(n, -n); n > maxDivisor || n < 0 {
			return int(min(n&-n, maxDivisor))
		}
		return int(n)
	}
	switch e := e.(type) {
	case *ir.Ref:
		if n, ok := d[e.Var]; ok {
			return n
		}
		if e.Var.Param {
			return assumed
		}
	case *ir.Binary:
		x, y := d.of(e.X, assumed), d.of(e.Y, assumed)
		switch e.Op {
		case "+", "-":
			return gcd(x, y)
		case "*":
			if x == 0 || y == 0 {
				return 0
			}
			if x > maxDivisor/y {
				return maxDivisor
			}
			return x * y
		}
	}
	return 1
}

// access is the dimension of a tile that is contiguous in memory, and how many of
// its elements surely lie in one aligned row: the place of the first element, the
// length of a row of the tensor, and with it what the tensor's end cuts off, are
// multiples of that.
func (d divisors) access(in *ir.Instr) (along, vector int) {
	tensor, offset := in.In[0].Var(), in.Attr("offset")
	if tensor == nil || offset == nil || len(offset.Exprs) != len(tensor.Type.Shape) || len(offset.Exprs) == 0 {
		return 0, 1
	}
	var tile ir.Type
	switch {
	case len(in.Out) > 0:
		tile = in.Out[0].Type
	case len(in.In) > 1 && in.In[1].Var() != nil:
		tile = in.In[1].Var().Type
	}
	last := len(offset.Exprs) - 1
	if len(tile.Shape) > len(offset.Exprs) && in.Attr("dims") == nil {
		return 0, 1
	}
	along = slices.Index(in.Dims(last+1, len(tile.Shape)), last)
	if along < 0 {
		return 0, 1
	}
	vector = gcd(d.of(offset.Exprs[last], 1), d.of(tensor.Type.Shape[last], Assumed))
	if vector == 0 {
		vector = maxDivisor
	}
	return along, vector
}
