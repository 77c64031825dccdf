package ir

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// DotForm is a way in which a warp multiplies: fragments A [M, K·Vec], B [K·Vec, 8]
// and C [M, 8], held as the layouts say, by Vec steps of K. All forms follow one
// rule. Let V be the elements of a 32-bit register. Lane 4g+t holds of A, in row g,
// V neighbours in column V·t for each step, step after step; then the same 8 rows
// below, where there are 16; then all that again 4·V·Vec columns on. B is the same
// with rows and columns exchanged; of C a lane holds two neighbours of row g, then
// of row g+8. Source: PTX ISA, Matrix Fragments for mma; with Vec, Tilus' own.
type DotForm struct {
	M, K, Vec int
	A, B, C   layout.Layout
	// Chained says that products are added one by one, each rounded (f64), and not
	// all of a step at once.
	Chained bool

	perStep int // neighbours along k that a step takes from a lane
}

// String is like "16x8x16", with "·2" for two steps in one fragment.
func (f DotForm) String() string {
	if f.Vec == 1 {
		return fmt.Sprintf("%dx8x%d", f.M, f.K)
	}
	return fmt.Sprintf("%dx8x%d·%d", f.M, f.K, f.Vec)
}

// Order lists the columns of a fragment of A in the order in which its steps take
// them: K for each step.
func (f DotForm) Order() []int {
	per := f.perStep
	var order []int
	for s := range f.Vec {
		for block := range f.K / (4 * per) {
			for t := range 4 {
				for e := range per {
					order = append(order, (block*4+t)*per*f.Vec+s*per+e)
				}
			}
		}
	}
	return order
}

// DotForms lists the forms of products of a and b into c, those with fewer
// instructions first; none where only FMAs will do.
func DotForms(a, b, c dtype.Type) []DotForm {
	key := [3]dtype.Type{a, b, c}
	forms, ok := dotFormsOf.Load(key)
	if !ok {
		forms, _ = dotFormsOf.LoadOrStore(key, dotForms(a, b, c))
	}
	return slices.Clone(forms.([]DotForm))
}

// dotFormsOf are forms that were asked for, by the types: every product asks several times.
var dotFormsOf sync.Map

func dotForms(a, b, c dtype.Type) []DotForm {
	type shape struct{ m, k int }
	var shapes []shape
	i8 := func(t dtype.Type) bool { return t == dtype.I8 || t == dtype.U8 }
	i4 := func(t dtype.Type) bool { return t == dtype.I4 || t == dtype.U4 }
	f8 := func(t dtype.Type) bool { return t == dtype.F8E4M3 || t == dtype.F8E5M2 }
	switch f32, i32 := c == dtype.F32, c == dtype.I32; {
	case a == b && (a == dtype.F16 && (f32 || c == dtype.F16) || a == dtype.BF16 && f32):
		shapes = []shape{{16, DotStep}, {16, 8}}
	case a == b && a == dtype.TF32 && f32:
		shapes = []shape{{16, 8}, {16, 4}}
	case a == b && a == dtype.F64 && c == dtype.F64:
		shapes = []shape{{16, 16}, {16, 8}, {16, 4}, {8, 4}}
	case f8(a) && f8(b) && (f32 || c == dtype.F16):
		shapes = []shape{{16, 32}, {16, 16}}
	case i8(a) && i8(b) && i32:
		shapes = []shape{{16, 32}, {16, 16}, {8, 16}}
	case i4(a) && i4(b) && i32:
		shapes = []shape{{16, 64}, {16, 32}, {8, 32}}
	case a == b && a == dtype.U1 && i32:
		shapes = []shape{{16, 256}, {16, 128}, {8, 128}}
	}
	per, most := max(32/a.Bits(), 1), 4
	if a == dtype.F64 {
		most = 1 // steps out of order would round in another order than the rest
	}
	var forms []DotForm
	for vec := 1; vec <= most; vec++ {
		for _, s := range shapes {
			blocks := s.k / (4 * per)
			forms = append(forms, DotForm{
				M: s.m, K: s.k, Vec: vec, Chained: a == dtype.F64, perStep: per,
				A: layout.ColumnLocal(s.m/8, blocks).Spatial(8, 4).Local(1, per*vec),
				B: layout.Local(blocks, 1).ColumnSpatial(4, 8).Local(per*vec, 1),
				C: layout.Local(s.m/8, 1).Spatial(8, 4).Local(1, 2),
			})
		}
	}
	return forms
}

// DotPlan is a Dot cut into one form: which warp holds which fragment in which slot.
type DotPlan struct {
	Form    DotForm
	A, B, C layout.Layout // of fragments, over warps
}

// DotPlans lists the forms that divide the layouts of a Dot over the warps of its threads,
// and says of the others why not. What Dot computes follows from the first one: the
// sum of the products of a step and of c is rounded once. Without any it is one FMA
// after the other.
func DotPlans(in *Instr) (plans []DotPlan, why []string) {
	if u := in.Attr("unit"); u != nil && u.Word == "simt" {
		return nil, []string{"unit=simt"}
	}
	a, b, c := in.In[0].Var().Type, in.In[1].Var().Type, in.In[2].Var().Type
	warps := c.Layout.Threads() / LanesPerWarp
	forms := DotForms(a.Elem, b.Elem, c.Elem)
	if len(forms) == 0 {
		why = append(why, fmt.Sprintf("no matrix instruction multiplies %s by %s into %s", a.Elem, b.Elem, c.Elem))
	}
	for _, f := range forms {
		outer := make([]layout.Layout, 3)
		bad := ""
		for i, x := range []struct {
			whole, part layout.Layout
		}{{a.Layout, f.A}, {b.Layout, f.B}, {c.Layout, f.C}} {
			part := x.part
			var err error
			if x.whole.Rank() > 2 {
				part, err = part.Unsqueeze(0)
			}
			var l layout.Layout
			if err == nil {
				l, err = x.whole.Div(part)
			}
			if err == nil && l.Threads() != warps {
				err = fmt.Errorf("%s / %s spreads over %d warps, there are %d", x.whole, x.part, l.Threads(), warps)
			}
			if err != nil {
				text := err.Error()
				if p := (diag.Problem{}); errors.As(err, &p) {
					text = p.Msg
				}
				bad = fmt.Sprintf("%s: operand %c: %s", f, 'a'+i, text)
				break
			}
			outer[i] = l
		}
		if bad == "" {
			plans = append(plans, DotPlan{f, outer[0], outer[1], outer[2]})
		} else if f.Vec == 1 {
			why = append(why, bad)
		}
	}
	return plans, why
}

// checkDotTypes is the rule of what multiplies what.
func checkDotTypes(_ *Program, in *Instr) *Violation {
	a, b, c := in.In[0].Var().Type.Elem, in.In[1].Var().Type.Elem, in.In[2].Var().Type.Elem
	ok := false
	switch {
	case a == dtype.Bool || b == dtype.Bool || c == dtype.Bool:
	case a.IsFloat() && b.IsFloat():
		ok = holds(c, a) && holds(c, b)
	case a.IsInt() && b.IsInt():
		ok = c.IsInt() && c.Bits() >= 32 && a.Bits() <= c.Bits() && b.Bits() <= c.Bits()
	}
	if ok {
		return nil
	}
	return &Violation{Msg: fmt.Sprintf("no product of %s and %s into %s", a, b, c), Help: "Cast operands to one type first, low-bit ones to f16; accumulate in f32 or i32"}
}

// holds reports that every value of from is one of to, a type with FMA.
func holds(to, from dtype.Type) bool {
	if to != dtype.F16 && to != dtype.BF16 && to != dtype.F32 && to != dtype.F64 {
		return false
	}
	if from.Bits() > 8 {
		return to == from || to == dtype.F64 || to == dtype.F32 && from != dtype.F64
	}
	for code := range uint64(1) << from.Bits() {
		if v := from.Decode(code); v == v && to.Decode(to.Encode(v, false)) != v {
			return false
		}
	}
	return true
}

var dotRow = &Op{
	Name: "Dot", Aliases: []string{"MmaDot", "SimtDot"}, Family: "matrix", Class: ClassMatrix,
	Doc: "Matrix product plus accumulator: d[m, n] = Σk a[m, k]·b[k, n] + c[m, n]; or several of them, each with its own a, b and c, along a first dimension of all. The tile is cut into matrix instructions by layout division. For floats of up to 32 bits the products of one instruction's k and the accumulator are then summed exactly and rounded once to the type of c; a zero sum is +0; steps go up in k. (GPUs keep fewer bits inside a step: where partial sums are not exact, an H200 was within 2·2^-24·(Σ|a·b| + |c|) of this for f32.) f64 is one fused multiply-add after the other, k going up; integers wrap. Layouts that no matrix instruction divides, and types that have none, take one fused multiply-add after the other too, k going up, in the type of c; then every thread must hold the rows of a and the columns of b that its elements of c need, in the same slots as the others, or lowering refuses it, as it does several products without a matrix instruction.",
	In: []Port{
		{Name: "a", Accept: AcceptRegister, Doc: "[M, K], or [B, M, K]"}, {Name: "b", Accept: AcceptRegister, Doc: "[K, N], or [B, K, N]"}, {Name: "c", Accept: AcceptRegister, Doc: "[M, N], or [B, M, N]"},
	},
	Out:   []Port{{Name: "d", Accept: AcceptRegister, Doc: "[M, N], or [B, M, N]"}},
	Attrs: []AttrSpec{{Name: "unit", Kind: AttrWord, Words: []string{"matrix", "simt"}, Doc: "matrix: only matrix instructions will do; simt: use none; left out, matrix instructions where they fit"}},
	Rules: []Rule{
		{Text: "a is [M, K], b is [K, N], c and the result are [M, N], or all of them with one dimension of the same size in front.", Check: checkDotShapes},
		{Text: "a and b are floats and c a float of at least 16 bits that holds all their values, or all are integers and c has at least 32 bits and the width of a and b.", Why: "Products are exact, and each sum is rounded once.", Check: checkDotTypes},
		{Text: "With unit=matrix, the layouts are those of a matrix instruction; K is a multiple of its k.", Check: func(p *Program, in *Instr) *Violation {
			u := in.Attr("unit")
			if u == nil || u.Word != "matrix" || checkDotShapes(p, in) != nil {
				return nil
			}
			plans, why := DotPlans(in)
			if len(plans) > 0 {
				return nil
			}
			help := "leave unit out to compute it by FMAs"
			if forms := DotForms(in.In[0].Var().Type.Elem, in.In[1].Var().Type.Elem, in.In[2].Var().Type.Elem); len(forms) > 0 {
				help = fmt.Sprintf("fragments of %s are %s, %s and %s; loads fill what lies outside with 0", forms[0], forms[0].A, forms[0].B, forms[0].C)
			}
			return &Violation{Pos: u.Pos, Msg: why[0], Help: help}
		}},
		{Text: "The result has the type and layout of c.", Check: func(p *Program, in *Instr) *Violation {
			c, d := in.In[2].Var().Type, in.Out[0].Type
			if c.Elem != d.Elem || !c.Layout.Equal(d.Layout) {
				return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("c is %s, the result %s", c, d), Help: fmt.Sprintf("write the result as %s", c)}
			}
			return nil
		}},
	},
	Since: "0.1", Source: paper + " Table 1", Example: "acc = Dot(ra, rh, acc) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)",
}

func checkDotShapes(_ *Program, in *Instr) *Violation {
	a, _ := in.In[0].Var().Type.Dims()
	b, _ := in.In[1].Var().Type.Dims()
	c, _ := in.In[2].Var().Type.Dims()
	d, _ := in.Out[0].Type.Dims()
	if len(a) == 3 && len(b) == 3 && len(c) == 3 && a[0] == b[0] && a[0] == c[0] && slices.Equal(c, d) {
		a, b, c, d = a[1:], b[1:], c[1:], d[1:]
	}
	if len(a) != 2 || len(b) != 2 || len(c) != 2 || a[1] != b[0] || a[0] != c[0] || b[1] != c[1] || !slices.Equal(c, d) {
		return &Violation{Msg: fmt.Sprintf("a is %v, b %v, c %v, the result %v", a, b, c, d), Help: "[M, K] · [K, N] + [M, N] gives [M, N]"}
	}
	return nil
}
