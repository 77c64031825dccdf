package ir

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

var randomRows = []*Op{
	{
		Name: "Random", Aliases: []string{"Philox4x32"}, Family: "random",
		Doc: "Four random 32-bit numbers for each element of offset: Philox 4×32 with 10 rounds, key (low, high half of seed), counter (offset, 0, 0, 0). Equal seeds and offsets give equal numbers on all machines. " +
			"Element [w, i, …] of the result is number w of offset [i, …]. A float in [0, 1) is Mul(Cast(Shr(r, 8)), 0x1p-24) in f32; a number below n, nearly even, is Mod(r, n).",
		In:  []Port{{Name: "seed", Accept: AcceptScalar}, {Name: "offset", Accept: AcceptRegister}},
		Out: []Port{{Name: "tile", Accept: AcceptRegister}},
		Rules: []Rule{
			{Text: "seed is an i64 or an integer literal.", Check: func(p *Program, in *Instr) *Violation {
				if t, fixed := elemOf(in.In[0]); fixed && t != dtype.I64 || t.IsFloat() || t == dtype.Bool {
					return &Violation{Pos: in.In[0].Pos, Msg: fmt.Sprintf("%s is %s", in.In[0].Expr, t), Help: "declare the parameter as i64"}
				}
				return nil
			}},
			{Text: "offset is of i32 or u32, the result of u32.", Check: func(p *Program, in *Instr) *Violation {
				o, r := in.In[1].Var(), in.Out[0].Type.Elem
				switch {
				case o.Type.Elem != dtype.I32 && o.Type.Elem != dtype.U32:
					return &Violation{Pos: in.In[1].Pos, Msg: fmt.Sprintf("%s is of %s", o.Name, o.Type.Elem), Help: "Cast it to u32"}
				case r != dtype.U32:
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the result is of %s", r), Help: "Cast the numbers, or View them as i32"}
				}
				return nil
			}},
			{Text: "The result's layout is local(4, 1, …) times that of offset, with a first dimension of 1.", Why: "Each thread makes the four numbers of its offsets.", Check: func(p *Program, in *Instr) *Violation {
				r := in.Out[0].Type
				want, err := RandomLayout(in.In[1].Var().Type.Layout)
				if err != nil {
					return &Violation{Pos: in.In[1].Pos, Msg: err.Error()}
				}
				if !want.Equal(r.Layout) {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the result lies as %s, not %s", r.Layout, want), Help: fmt.Sprintf("write the result as %s", RegisterOf(r.Elem, want))}
				}
				return nil
			}},
		},
		Since: "0.3", Source: "Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC'11; " + tilusDoc,
		Example: "r = Random(seed, i) : register u32[4, 64] local(4, 1).spatial(1, 32).local(1, 2)",
	},
}

// RandomLayout is the layout of the numbers of Random.
func RandomLayout(offset layout.Layout) (layout.Layout, error) {
	l, err := offset.Unsqueeze(0)
	if err != nil {
		return l, err
	}
	four := make([]int, l.Rank())
	for d := range four {
		four[d] = 1
	}
	four[0] = 4
	return layout.Local(four...).Mul(l), nil
}

// The constants of Philox 4×32.
const (
	PhiloxRounds = 10
	PhiloxM0     = 0xd2511f53
	PhiloxM1     = 0xcd9e8d57
	PhiloxW0     = 0x9e3779b9
	PhiloxW1     = 0xbb67ae85
)
