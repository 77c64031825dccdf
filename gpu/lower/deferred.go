package lower

import (
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/lower/cast"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/recipe"
)

// castDeferred emits the recipe that leaves a power of two to the scale.
func castDeferred(l *lowerer, in *ir.Instr) {
	x, v, c := in.In[0].Var(), in.Out[0], in.Out[1]
	slots, ok := ir.SlotMap(x.Type, v.Type)
	d, err := in.Deferral()
	if !ok || err != nil {
		panic("lower: a cast that breaks CastDeferred.C3 or C4")
	}
	var words []code.Value
	switch place, _ := ir.PlaceOf(x.Type); {
	case cast.Runs(d.Recipe, l.level()):
		words, err = cast.Recipe(l.Builder, l.level(), d.Recipe, d.Units, slots, l.env.get(x).words, nil)
	case d.Recipe.Mode == recipe.Exact:
		words, err = cast.Placed(l.Builder, l.level(), v.Type.Elem, x.Type.Elem, slots, l.env.get(x).words, place, in.Attr("domain") != nil, nil)
	default:
		err = fmt.Errorf("the recipe from %s to %s has a step without thread code", x.Type.Elem, v.Type.Elem)
	}
	if err != nil {
		l.refuse(in.Pos, "Lower.E4", "%v", err)
		words = make([]code.Value, wordsOf(v.Type))
		for j := range words { // what follows is lowered to find more problems
			words[j] = l.Const32(0)
		}
	}
	l.env.set(v, val{words: words})
	powers := make([]code.Value, c.Type.Layout.Slots())
	_, rows := c.Type.Layout.Parts() // thread 0's part of every row is 0
	for s, row := range rows {
		powers[s] = l.Const32(int64(dtype.F32.Encode(math.Ldexp(1, -d.Powers[row]), false)))
	}
	l.env.set(c, val{words: powers})
}
