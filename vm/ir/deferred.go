package ir

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
	"github.com/tilus-lab/tilus-lab/vm/recipe"
)

// Deferral says how CastDeferred casts a tile.
type Deferral struct {
	Recipe *recipe.Recipe
	Units  int
	Powers []int // per row, the k of value·2^k
}

// Partial reports that the cast holds only for finite values.
func (d *Deferral) Partial() bool {
	f := d.Recipe.From
	return d.Recipe.Domain.Finite || f.HasInf() || f.HasNaN()
}

// PlaceOf is the placement of a register tensor's slots: its own, or slot order.
// ok is false for more bits than a placement has.
func PlaceOf(t Type) (place bits.Placement, ok bool) {
	if t.HasPlace {
		return t.Place, true
	}
	if t.BitsPerThread() > 32*bits.MaxWords {
		return place, false
	}
	return bits.Identity(t.Elem.Bits(), t.Layout.Slots()), true
}

// DeferralOf is how CastDeferred casts x, which is [rows, columns], to elements of
// another type: by the cheapest recipe for x's placement that adds nothing to the
// values and has no power below least, which is [recipe.MinScale] for any. The error says
// that there is none, or which row would have two powers.
func DeferralOf(x Type, to dtype.Type, least int) (*Deferral, error) {
	d, err := deferralRecipe(x, to, least)
	if err == nil {
		err = d.rows(x)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// deferralRecipe is [DeferralOf] without powers.
func deferralRecipe(x Type, to dtype.Type, least int) (*Deferral, error) {
	place, ok := PlaceOf(x)
	if !ok {
		return nil, fmt.Errorf("a thread holds %d bits, a placement has at most %d", x.BitsPerThread(), 32*bits.MaxWords)
	}
	r, units, err := recipe.ForPlacement(x.Elem, to, recipe.Deferred, place, least)
	if err != nil {
		return nil, err
	}
	for _, n := range r.Offset {
		if n == 0 {
			continue
		}
		// The values would come out moved; the exact recipe takes that back.
		if r, units, err = recipe.ForPlacement(x.Elem, to, recipe.Exact, place, least); err != nil {
			return nil, err
		}
		break
	}
	return &Deferral{Recipe: r, Units: units}, nil
}

// rows finds the powers.
func (d *Deferral) rows(x Type) error {
	dims, _ := x.Dims()
	r := d.Recipe
	d.Powers = make([]int, dims[0])
	if r.Mode == recipe.Exact {
		return nil
	}
	// Slots, and threads, of one row and different columns say the same of it.
	type power struct{ row, k int }
	held, known := placesOf(x.Layout), make([]bool, 2*dims[0])
	seen, done := known[:dims[0]], known[dims[0]:]
	powers := make([]power, 0, 16)
	for slot, e := range held.slots {
		if p := (power{int(e) / dims[1], r.Scale[slot/2%len(r.Out)]}); !slices.Contains(powers, p) {
			powers = append(powers, p)
		}
	}
	for _, e := range held.threads {
		first := int(e) / dims[1]
		if done[first] {
			continue
		}
		done[first] = true
		for _, p := range powers {
			row := first + p.row
			if seen[row] && d.Powers[row] != p.k {
				return fmt.Errorf("row %d would have the powers 2^%d and 2^%d", row, d.Powers[row], p.k)
			}
			d.Powers[row], seen[row] = p.k, true
		}
	}
	return nil
}

// attrDomain says for which values a cast must hold.
var attrDomain = AttrSpec{Name: "domain", Kind: AttrWord, Words: []string{"finite"}, Doc: "finite: every value is finite in the result's type, which the interpreter checks and lowering may rely on"}

func checkDeferredShapes(_ *Program, in *Instr) *Violation {
	x, _ := in.In[0].Var().Type.Dims()
	v, _ := in.Out[0].Type.Dims()
	c, _ := in.Out[1].Type.Dims()
	if len(x) != 2 || len(v) != 2 || len(c) != 2 || v[0] != x[0] || v[1] != x[1] || c[0] != x[0] || c[1] != 1 {
		return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("x is %v, v %v, c %v", x, v, c), Help: "[rows, columns] gives [rows, columns] and [rows, 1]"}
	}
	return nil
}

func checkDeferredTypes(_ *Program, in *Instr) *Violation {
	v, c := in.Out[0].Type.Elem, in.Out[1].Type.Elem
	if v != dtype.F16 && v != dtype.BF16 || c != dtype.F32 {
		return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("v is %s, c %s", v, c), Help: "v is f16 or bf16, c f32"}
	}
	return nil
}

// deferral is the plan of a CastDeferred, or nil if another rule is broken.
func deferral(in *Instr) (*Deferral, error) {
	if checkDeferredShapes(nil, in) != nil || checkDeferredTypes(nil, in) != nil {
		return nil, nil
	}
	return in.Deferral()
}

// Deferral is how a CastDeferred casts; see [DeferralOf].
func (in *Instr) Deferral() (*Deferral, error) {
	return DeferralOf(in.In[0].Var().Type, in.Out[0].Type.Elem, in.least())
}

// least is the smallest power that a CastDeferred may have.
func (in *Instr) least() int {
	if a := in.Attr("least"); a != nil {
		return int(a.Number)
	}
	return recipe.MinScale
}

// attrLeast keeps codes away from the smallest numbers of v's type.
var attrLeast = AttrSpec{Name: "least", Kind: AttrNumber, Doc: "no k is below it, at most 0; left out, k may be any. Tensor cores align products by the exponents that the numbers are written with, and cut off what lies far below the largest: of f16, numbers of k near -24 lose bits beside others that k near -14 keeps"}

var castDeferred = &Op{
	Name: "CastDeferred", Family: "register",
	Doc: "A cast that leaves a power of two to the scale: v[i, j] is x[i, j]·2^k[i] exactly, subnormals included, and c[i, 0] is 2^-k[i], so that v·c is x. " +
		"k belongs to the recipe (vm/recipe) that reads x's placement: the cheapest one that adds nothing to the values and has no k below least. Its output words 4i and 4i+2, two slots each, have one k and words 4i+1 and 4i+3 one, which are the rows g and g+8 of the m16n8k16 operand a. An exact recipe has k = 0.",
	In:    []Port{{Name: "x", Accept: AcceptRegister, Doc: "[rows, columns]"}},
	Out:   []Port{{Name: "v", Accept: AcceptRegister, Doc: "[rows, columns]"}, {Name: "c", Accept: AcceptRegister, Doc: "[rows, 1]"}},
	Attrs: []AttrSpec{attrDomain, attrLeast},
	Rules: []Rule{
		{Text: "x and v are [rows, columns], c is [rows, 1].", Check: checkDeferredShapes},
		{Text: "v is f16 or bf16, c is f32.", Check: checkDeferredTypes},
		{Text: "Each thread holds the same elements of x and v. They may stand in another order of slots, alike in all threads.",
			Why: "Each thread casts what it holds; naming registers in another order costs nothing.",
			Check: func(_ *Program, in *Instr) *Violation {
				from, to := in.In[0].Var().Type, in.Out[0].Type
				if checkDeferredShapes(nil, in) != nil {
					return nil
				}
				if _, ok := SlotMap(from, to); !ok {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("%s lies as %s, v as %s", in.In[0].Var().Name, from.Layout, to.Layout),
						Help: fmt.Sprintf("write v as %s", RegisterOf(to.Elem, from.Layout))}
				}
				return nil
			}},
		{Text: "A recipe reads x's placement, with no k below least, and gives all elements of a row one power of two.",
			Why: "c has one number for each row. Cast takes any placement.",
			Check: func(_ *Program, in *Instr) *Violation {
				if _, err := deferral(in); err != nil {
					return &Violation{Pos: in.In[0].Pos, Msg: err.Error(), Help: "use Cast, which casts from any placement into any layout"}
				}
				return nil
			}},
		{Text: "Types with values that are not finite, or whose recipe needs it, have domain=finite.",
			Why: "The recipe holds for finite values only; the text must say that there are no others.",
			Check: func(_ *Program, in *Instr) *Violation {
				if in.Attr("domain") != nil || checkDeferredShapes(nil, in) != nil || checkDeferredTypes(nil, in) != nil {
					return nil
				}
				if d, err := deferralRecipe(in.In[0].Var().Type, in.Out[0].Type.Elem, in.least()); err != nil || !d.Partial() {
					return nil
				}
				if d, _ := deferral(in); d != nil {
					return &Violation{Msg: fmt.Sprintf("the recipe from %s to %s holds for finite values only", d.Recipe.From, d.Recipe.To), Help: "add domain=finite if there are no others, or use Cast"}
				}
				return nil
			}},
		{Text: "Each slot of c holds one power in all threads.",
			Why: "The powers are constants of the code, which all threads share.",
			Check: func(_ *Program, in *Instr) *Violation {
				d, _ := deferral(in)
				if d == nil {
					return nil
				}
				c := in.Out[1].Type.Layout
				threads, slots := c.Parts()
				for t, part := range threads {
					for s, first := range slots {
						if a, b := int(first), int(part+first); d.Powers[a] != d.Powers[b] {
							return &Violation{Pos: in.typePos(1), Msg: fmt.Sprintf("slot %d of c holds row %d with 2^%d in thread 0 and row %d with 2^%d in thread %d", s, a, -d.Powers[a], b, -d.Powers[b], t),
								Help: "give c the rows of v: reduce v's layout over its columns"}
						}
					}
				}
				return nil
			}},
	},
	Since: "0.1", Source: "facts of vm/recipe; PTX ISA 8.7, mma.m16n8k16",
	Example: "v, c = CastDeferred(rw) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2), register f32[16, 1] local(2, 1).spatial(8, 1).replicated(1, 1, num_workers=4)",
}
