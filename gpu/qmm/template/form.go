package template

import (
	"fmt"
	"math"
	mathbits "math/bits"
	"slices"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/lower/cast"
	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
	"github.com/tilus-lab/tilus-lab/vm/recipe"
)

// Turn is how many k a turn of the decode loop multiplies. Tensors of weights are
// padded to whole turns.
const Turn = 128

// Form is a kind of quantised weights: w[n, k] = (q[n, k] − z)·s, where s, and z if
// there is one, belong to Group neighbours of k.
type Form struct {
	Weight dtype.Type // of q: u1 to u8, i2 to i8, or a float of 3 to 8 bits
	Act    dtype.Type // of x and y: f16 or bf16
	Scale  dtype.Type // of s: f16, bf16, f8e8m0 or f8e4m3
	Group  int        // 16, 32, 64 or a multiple of 128; 0 is one scale for each output
	Zero   bool       // weights have zero points, which only unsigned ones may
	// AnyZero says that zero points may be any numbers of the type of the activations, where
	// they are whole numbers from 0 to 255 otherwise. See [Plan.Less].
	AnyZero bool
	Factor  bool // all weights have one more factor, an f32
	// Far says that scales of f8e8m0 may be any. Without it programs may fold them into operands, and are then for
	// those from 2^From to 2^To of the [Plan] alone, beside which weights are 0.
	Far bool
	// Exact says of 16-bit scales, which are of the type of the activations then, that it holds each weight (q − z)·s as it is
	// ([Form.Expands], within [Form.Reach]), and that scales other than 0 are at least 2^From and less than 2^(To+1) of the [Plan].
	// Programs may fold them into operands.
	Exact bool
	// Rounded says that programs may round weights to the type of the activations, which is that of the scales: a code less its
	// zero point, and that times the scale, each of which frameworks round to it that make plain weights of layers. Scales of
	// several groups to a turn are then folded into operands as if weights were Exact, and have the same bounds; with zero points
	// weights are at most [Plan.Greatest]. Programs with [Schedule.Apart] scale sums all the same, and round differences at most. Forms may be that [Form.Rounds].
	Rounded bool
}

// checkAct finds what is no type of activations.
func checkAct(t dtype.Type) error {
	if t != dtype.F16 && t != dtype.BF16 {
		return fmt.Errorf("template: activations of %s: they are f16 or bf16", t)
	}
	return nil
}

// check finds what no program could do.
func (f Form) check() error {
	w := f.Weight
	known := w != 0 && w.Bits() <= 8 && (w.IsFloat() && w.Bits() >= 3 && w != dtype.F8E8M0 || w.IsInt() && (!w.Signed() || w.Bits() >= 2))
	switch {
	case !known:
		return fmt.Errorf("template: weights of %s: they are u1 to u8, i2 to i8, or floats of 3 to 8 bits", w)
	case checkAct(f.Act) != nil:
		return checkAct(f.Act)
	case f.Scale != dtype.F16 && f.Scale != dtype.BF16 && f.Scale != dtype.F8E8M0 && f.Scale != dtype.F8E4M3:
		return fmt.Errorf("template: scales of %s: they are f16, bf16, f8e8m0 or f8e4m3", f.Scale)
	case f.Group != 0 && f.Group != 16 && f.Group != 32 && f.Group != 64 && (f.Group < Turn || f.Group%Turn != 0):
		return fmt.Errorf("template: groups of %d: they are of 16, 32, 64, or a multiple of %d, or group=channel (Group 0) for one to an output", f.Group, Turn)
	case f.Zero && (!w.IsInt() || w.Signed()):
		return fmt.Errorf("template: zero points for %s: only unsigned weights have them", w)
	case f.Far && f.Scale != dtype.F8E8M0:
		return fmt.Errorf("template: scales of %s that are far apart: only those of f8e8m0 are; leave Far out", f.Scale)
	case f.Exact && (f.Scale != f.Act || f.Factor):
		return fmt.Errorf("template: exact weights by scales of %s, beside activations of %s: scales are of the type of the activations, without a factor; leave Exact out", f.Scale, f.Act)
	case f.Rounded && (!f.Rounds() || f.Exact):
		return fmt.Errorf("template: weights rounded to %s, with scales of %s in groups of %d: scales are of the type of the activations, without a factor, in groups of less than %d, and weights not Exact; leave Rounded out", f.Act, f.Scale, f.Group, Turn)
	case f.AnyZero && !f.Zero:
		return fmt.Errorf("template: any zero points for %s, which has none; set Zero too", w)
	}
	return nil
}

// Exacts reports whether scales with so many significant bits at most, of which 0 says nothing, may make the form Exact: where
// a turn has several.
func (f Form) Exacts(bits int) bool {
	return bits > 0 && f.Rounds() && f.Expands(bits)
}

// Rounds reports whether the form may be Rounded: where a turn has several scales, of the type of the activations.
func (f Form) Rounds() bool {
	return f.Scale == f.Act && !f.Factor && f.Group > 0 && f.Group < Turn
}

// Plan is how the weights of a form are stored and cast.
type Plan struct {
	Form
	// Stored is the type of what is stored. Integers with a sign, and mostly floats with one
	// bit of exponent, whose values are a uniform grid, are stored as integers with a sign, or
	// for bf16 and with two bits as unsigned with a Bias: the value is (stored − Bias)·2^Power.
	Stored      dtype.Type
	Bias, Power int
	// Less says that zero points are taken off codes before these are multiplied, of which
	// nothing is rounded: all of them where they are whole, else a number near them, so that sums of x
	// take off what is left; and LessBias the same of Bias. Elsewhere sums of x take them off. Of weights that are
	// Rounded any zero points are, and differences are rounded.
	Less, LessBias bool
	// Folds says that operands are multiplied with the scales of their groups, of which nothing is
	// rounded, so that all k of an output have one sum. Scales are multiplied by 2^Lift before, so that the
	// type of the activations holds all products; outputs are divided by it.
	Folds bool
	Lift  int
	// Raise is the power of two that operands are multiplied with before scales are folded, where casts leave powers of two over,
	// so that they are no subnormal numbers; scales of each output are multiplied with what of its power is left over then. 0 is none.
	Raise int
	// From and To are the exponents of the least and the greatest power of two that is folded, where scales are of f8e8m0, and of
	// the bounds that [Form.Exact] names.
	From, To int
	// Near says that such scales are brought to f16 by their exponents: none is greater than 1.
	Near  bool
	apart bool // for programs whose groups are, see [Plan.of]
	// bytes is the plan for programs that multiply codes as they are stored, if it is another
	// one; see [Plan.of].
	bytes *Plan
	// Tiles is how many tiles of 16 outputs a warp has side by side, so that each can
	// have a power of two of its own.
	Tiles int
	// Place is where the bits of a recipe's unit lie.
	Place bits.Placement
	// Recipe makes the operands. None of its powers of two is below Least.
	Recipe *recipe.Recipe
	Least  int
	// Sub is how many k are cast together, and Run how many neighbours of them a
	// thread has.
	Sub, Run int
}

// PlanOf is the plan of a form.
func PlanOf(f Form) (*Plan, error) {
	if p, ok := plans.Load(f); ok {
		q := *p.(*Plan)
		return &q, nil
	}
	p, err := planOf(f)
	if err != nil {
		return nil, err
	}
	p.fold()
	if f.Rounded && !p.Folds { // which then gains nothing
		f.Rounded = false
		return PlanOf(f)
	}
	kept := *p
	plans.Store(f, &kept)
	return p, nil
}

// plans are those that were made: each step on the way to a product asks for its plan.
var plans sync.Map

func planOf(f Form) (*Plan, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	p := &Plan{Form: f, Stored: f.held(), Least: recipe.MinScale}
	w := f.Weight.Bits()
	t := f.Weight
	uniform, power := t.IsInt() && t.Signed() || t.IsFloat() && t.Row().Exp == 1, 0
	if t.IsFloat() {
		power = int(math.Round(math.Log2(t.Decode(1))))
	}
	if uniform && !f.signed() {
		p.Stored, p.Bias, p.Power = dtype.U1+dtype.Type(w-1), 1<<(w-1), power
	}
	least := 1
	if w%2 != 0 {
		least = 2 // so that a thread's bytes are whole pieces of 16
	}
	for _, mode := range []recipe.Mode{recipe.Deferred, recipe.Exact} {
		r, err := recipe.Lookup(p.Stored, f.Act, mode, false)
		if err != nil || !cast.Runs(r, cast.NativeE4M3) || !r.Place.Full() {
			continue
		}
		p.Recipe, p.Place = r, r.Place
		for p.Tiles = least; p.Tiles <= 8; p.Tiles *= 2 {
			p.cut()
			if d, err := ir.DeferralOf(p.codes(1), f.Act, recipe.MinScale); err == nil && cast.Runs(d.Recipe, cast.NativeE4M3) && d.Recipe.Cost() == r.Cost() {
				break
			}
		}
		switch {
		case p.Tiles > 8:
		case p.Tiles*w <= mostBits:
			p.whole()
			p.raise()
			return p, nil
		case uniform:
			// A difference takes the sign off as well as the exponent.
			p.Stored, p.Bias, p.Power = dtype.I2+dtype.Type(w-2), 0, power
		}
	}
	return nil, fmt.Errorf("template: no recipe makes %s of %s on every GPU", f.Act, f.Weight)
}

// held is the type of the weights that programs multiply with: beside f16, for floats that have more exponents, the float of as many
// bits that has f16's. Its casts are masks, where theirs go by way of bf16.
func (f Form) held() dtype.Type {
	if t, ok := asF16[f.Weight]; ok && f.Act == dtype.F16 {
		return t
	}
	return f.Weight
}

// asF16 are the floats of f16's exponents by those of as many bits that have more.
var asF16 = func() map[dtype.Type]dtype.Type {
	few, out := map[int]dtype.Type{}, map[dtype.Type]dtype.Type{}
	exp := dtype.F16.Row().Exp
	for _, t := range dtype.All() {
		if t.IsFloat() && t.Bits() <= 8 && t.Row().Exp == exp {
			few[t.Bits()] = t
		}
	}
	for _, t := range dtype.All() {
		if t.IsFloat() && t.Bits() <= 8 && t.Row().Exp > exp {
			out[t] = few[t.Bits()]
		}
	}
	return out
}()

// Holds reports whether programs multiply with the value of a code as it is. Elsewhere that is NaN, or beyond the exponents of the type
// of the activations: greater than all its numbers, or of floats less than they have their bits for.
func (f Form) Holds(v float64) bool {
	t := f.held()
	return v-v == 0 && math.Abs(v) <= f.Act.Max() && t.Decode(t.Encode(v, true)) == v
}

// Smallest is the smallest value of a code but 0 that the form [Form.Holds].
func (f Form) Smallest() float64 { return f.held().Smallest() }

// signed reports whether floats of one bit of exponent are stored as they are: where cutting
// out their sign takes the integer pipe no longer, for products then need no sums of x.
func (f Form) signed() bool {
	if f.Weight.IsInt() {
		return false // no mask makes a sign of two's complement
	}
	own, err := recipe.Lookup(f.Weight, f.Act, recipe.Deferred, false)
	if err != nil || own.Mode != recipe.Deferred {
		return false
	}
	plain, err := recipe.Lookup(dtype.U1+dtype.Type(f.Weight.Bits()-1), f.Act, recipe.Deferred, false)
	if err != nil {
		return true
	}
	x, y := own.Cost(), plain.Cost()
	return x.Pipe()*y.Elements <= y.Pipe()*x.Elements
}

// mostBits is how many bits tiles of a warp have at most, of an output and k. With more of them,
// which powers of two of their own may want, too few warps fit a multiprocessor: 7 bits in four
// tiles take 100 to 104 µs of gate_up, in two, though with one more instruction a pair, 93 to 95.
const mostBits = 24

// whole has codes that stand for values beside them become these values before they are
// multiplied: f16 that are no subnormal numbers, of which tensor cores cut nothing off (see
// leastKept), and beside which no sums of x are taken off. Codes with a bias are stored as
// the integers with a sign that they stand for, and cast to these. Those with zero points
// are cast to what they are, which less these, or a number near them, is as exact; so are codes of two bits
// with a bias, for as bytes (see [Plan.of]) they need to be without a sign. Either costs a
// subtraction a pair, but no matrix instructions, unless something of zero points is left. Two bits and one
// with zero points keep what they have, unless scales are folded into operands: their masks are cheap, and few bits are enough
// for their larger powers (see raise). Tiles stay as they are, so that types of a width share schedules. As bf16, codes
// with a bias are cast to what they are, and sums of x take it off.
func (p *Plan) whole() {
	w, stored := p.Stored.Bits(), p.Stored
	switch {
	case p.lessens():
	case p.Bias > 0 && p.Act == dtype.F16 && w == 2:
		if r, _, err := recipe.ForPlacement(stored, p.Act, recipe.Exact, p.Place, recipe.MinScale); err == nil {
			before := *p
			p.LessBias, p.Recipe, p.bytes = true, r, &before
		}
		return
	case p.Bias > 0 && p.Act == dtype.F16 && w > 2:
		stored = dtype.I2 + dtype.Type(w-2)
	default:
		return
	}
	r, err := recipe.Lookup(stored, p.Act, recipe.Exact, false)
	if err != nil || !cast.Runs(r, cast.NativeE4M3) || !r.Place.Full() {
		return
	}
	p.Less, p.Stored, p.Bias, p.Recipe, p.Place = p.lessens(), stored, 0, r, r.Place
}

// of is the plan as programs of a schedule multiply by it: as bytes, codes are masked out of
// words as they are stored, and sums of x take off what they stand beside; groups that have sums
// of their own anyway are not folded.
func (p *Plan) of(s Schedule) *Plan {
	if s.Apart {
		apart := *p
		apart.Folds, apart.Lift, apart.Near, apart.apart = false, 0, false, true
		return &apart
	}
	if p.bytes != nil && (s.Digits || s.Fixed) {
		return p.bytes
	}
	return p
}

// lessens reports whether zero points may be taken off codes: whole numbers of up to 8 bits,
// whose difference both types of activations hold, and of any numbers those near them. With
// bf16, whose results are rounded to eight bits, the latter would gain nothing. Where scales are folded
// into operands all are.
func (p *Plan) lessens() bool {
	folds := p.Rounded || p.Exact && !p.AnyZero && p.scales() > 1
	return p.Zero && (folds || p.Stored.Bits() > 2 && (!p.AnyZero || p.Act == dtype.F16))
}

// Rest reports whether sums of x take zero points off, or what is left of them beside what is taken off
// codes.
func (p *Plan) Rest() bool { return p.Zero && (!p.Less || p.AnyZero && !p.Rounded) }

// ZeroType is the type of zero points as programs read them: u8 where they are whole and taken
// off codes, else that of the activations.
func (p *Plan) ZeroType() dtype.Type {
	if p.Less && !p.AnyZero {
		return dtype.U8
	}
	return p.Act
}

// leastKept is the least power of two of codes whose large products cancel: bit 7 of f16.
//
// A tensor core aligns what it adds by the exponents that numbers are written with, which
// of a subnormal number is that of 2^-14, and cuts off what lies some 25 bits below the
// largest of products and sum. So beside a large product a code at bit p keeps 10 - p bits
// less than a normal number does, which shows where large products cancel. At bit 7 each
// product loses up to 2^-13 of a code's 1 beside an x of 1000, where a sum in f32 loses up
// to 2^-15; at bit 0 it would lose 2^-6. See TestKept, which has this as a model.
const leastKept = -17

// raise has codes of one and two bits whose large products cancel, since a zero point
// is taken off their sum, cast to powers from leastKept on. What is cut off is a
// part of a code's 1, so that it is less of a weight the more bits codes have.
func (p *Plan) raise() {
	if !p.Shifts() || p.Stored.Bits() > 2 {
		return
	}
	if d, err := ir.DeferralOf(p.codes(1), p.Act, leastKept); err == nil && d.Recipe.Mode == recipe.Deferred {
		p.Recipe, p.Least = d.Recipe, leastKept
	}
}

// fold has scales of several groups to a turn multiplied into operands, if the type of the
// activations holds all products: mostly a float's few bits by the four of f8e4m3, or by a power of
// two beside bf16. For every pair of elements that is an instruction, whatever rows x has; sums of each group
// would be scaled for each row, and matrix instructions of warpgroups wait for that. Powers of two must be near each other for
// that, beside f16, or far from the ends of bf16, as those of layers are, unless the form says that they are Far. No operand of
// f16 is below [leastKept], so that tensor cores cut no more off than of other operands.
func (p *Plan) fold() {
	if p.Exact || p.Rounded {
		p.foldExact()
		return
	}
	more := 0 // significant bits that scales add to products: powers of two none
	if p.Scale == dtype.F8E4M3 {
		more = p.Scale.Row().Man + 1
	}
	if p.Scale.Bits() > 8 || p.scales() == 1 || p.Zero || p.Bias > 0 && !p.LessBias || p.Far {
		return
	}
	least, greatest, digits := p.span()
	if digits+more > p.Act.Row().Man+1 {
		return
	}
	if p.Scale == dtype.F8E8M0 {
		if p.Act == dtype.BF16 {
			const lo, hi = -126, 127 // exponents of its normal numbers
			p.Folds, p.From, p.To = true, max(-127, lo-math.Ilogb(least)), min(127, hi-math.Ilogb(greatest))
			return
		}
		const most, fewest = 15, 15 // exponent of f16, and powers of two that a layer's scales are within
		for lift := most; lift >= 0; lift-- {
			if greatest*math.Ldexp(1, lift) <= p.Act.Max() {
				if near := min(lift+14, math.Ilogb(least)+lift-leastKept); near >= fewest {
					p.Folds, p.Lift, p.From, p.Near = true, lift, -near, true
				}
				return
			}
		}
		return
	}
	for lift := 7; lift >= -8; lift-- {
		if by := math.Ldexp(1, lift); greatest*p.Scale.Max()*by <= p.Act.Max() && p.Scale.Max()*by <= p.Act.Max() {
			p.Folds, p.Lift = p.Act != dtype.F16 || least*p.Scale.Smallest()*by >= math.Ldexp(1, leastKept), lift
			return
		}
	}
}

// foldExact is fold for a form that is [Form.Exact] or Rounded: codes are cast to what they stand for, since powers of two that casts leave
// over would have to be lifted too, for which f16 leave little room above. Weights are multiples of the least subnormal f16,
// so that lifted operands are no less than [leastKept], where nothing is rounded.
func (p *Plan) foldExact() {
	if p.scales() == 1 || p.Rest() {
		return
	}
	if p.Deferred() {
		r, err := recipe.Lookup(p.Stored, p.Act, recipe.Exact, false)
		if err != nil || !cast.Runs(r, cast.NativeE4M3) || !r.Place.Full() {
			return
		}
		p.Recipe, p.Place = r, r.Place
	}
	top := math.Inf(1)
	if p.Exact && p.held() != p.Weight {
		top = p.Top() // codes beyond it do not count
	}
	p.lift(top)
}

// lift has scales of exact weights, or rounded ones, folded, and says which: those from 2^From to less than 2^(To+1). Codes are of values
// up to top.
func (p *Plan) lift(top float64) {
	p.LessBias, p.Folds = p.Bias > 0, true
	least, greatest, _ := p.span()
	greatest = min(greatest, top)
	if p.Zero {
		least, greatest = 1, p.Weight.Max()
	}
	most := math.Ilogb(max(greatest, 1)*2 - 1) // greatest is less than 2^most, or 2^most
	act := p.Act.Row()
	normal := 1 - act.Bias // exponent of the least one
	if p.Act == dtype.BF16 {
		p.From, p.To = normal-math.Ilogb(least), act.Bias-1-most
		return
	}
	p.From = normal - act.Man
	p.Lift = leastKept - p.From
	p.To = act.Bias - p.Lift - most
}

// Folding is the plan by which programs with [WideSchedule.Folded] multiply, nil if there are none: of groups of whole turns, where
// folding gains something only beside so many rows that sums of groups cost more than an instruction for two operands.
// Weights lie as p says, for all other programs read them too. Products of all k of an output are one sum of a tensor core, which
// cuts off more than sums in f32 round where there are many of one sign (TestKeptFolded, and qmm's TestGPULong): for [MostFolded] k at most.
func (p *Plan) Folding() *Plan {
	if p.Group < Turn || p.Scale != p.Act || p.Factor || p.Rest() {
		return nil
	}
	if p.Folds {
		return p
	}
	known, ok := foldings.Load(p.Form)
	if !ok {
		whole, err := PlanOf(p.Form) // p may be one of a schedule's
		if err != nil {
			return nil
		}
		known, _ = foldings.LoadOrStore(p.Form, whole.folding())
	}
	return known.(*Plan)
}

// folding makes it.
func (p *Plan) folding() *Plan {
	q := *p
	q.Exact, q.bytes = true, nil
	if r, _, err := recipe.ForPlacement(p.Stored, p.Act, recipe.Exact, p.Place, recipe.MinScale); err == nil && cast.Runs(r, cast.NativeE4M3) {
		q.Recipe, q.Least = r, recipe.MinScale
		q.lift(math.Inf(1))
		return &q
	}
	if !p.Deferred() || p.Bias > 0 || p.Act != dtype.F16 {
		return nil
	}
	powers := p.powersOf()
	first, last := slices.Min(powers), slices.Max(powers)
	_, greatest, _ := p.span()
	for q.Raise = act16; q.Raise > 0 && -first-q.Raise <= act16; q.Raise-- {
		if q.lift(math.Inf(1)); greatest*math.Ldexp(1, q.Raise) <= p.Act.Max() && q.Lift-last-q.Raise >= 0 {
			q.To = min(q.To, act16-(q.Lift-first-q.Raise)) // for scales times what is left of the first power
			return &q
		}
	}
	return nil
}

// MostFolded is how many k are one sum at most where products are folded unasked in groups of whole turns.
const MostFolded = 8192

// act16 is the greatest exponent of f16.
const act16 = 15

// foldings are those that were made.
var foldings sync.Map

// ofWide is the plan as programs of a schedule of [Wide] multiply by it.
func (p *Plan) ofWide(s WideSchedule) *Plan {
	if s.Folded {
		if q := p.Folding(); q != nil {
			return q
		}
	}
	return p
}

// Greatest is how large weights are at most that programs may fold scales into, where they are Rounded and have zero points,
// which may be far from codes.
func (p *Plan) Greatest() float64 { return math.Ldexp(p.Act.Max(), -p.Lift) }

// Bounded reports whether programs are for some scales only, from 2^From on: who packs looks at them.
func (p *Plan) Bounded() bool { return p.Folds && p.From != 0 }

// span is how large operands other than 0 are, least their last bit, and how many significant bits they have.
func (p *Plan) span() (least, greatest float64, digits int) {
	least = math.Inf(1)
	for _, power := range p.powersOf() {
		for code := range uint64(1) << p.Stored.Bits() {
			v := math.Abs(p.Stored.Decode(code))
			if p.LessBias {
				v = math.Abs(p.Stored.Decode(code) - float64(p.Bias))
			}
			if v == 0 || v-v != 0 {
				continue
			}
			frac, exp := math.Frexp(math.Ldexp(v, power))
			whole := uint64(math.Ldexp(frac, 53))
			n := 53 - mathbits.TrailingZeros64(whole)
			least, greatest, digits = min(least, math.Ldexp(1, exp-n)), max(greatest, math.Ldexp(v, power)), max(digits, n)
		}
	}
	return least, greatest, digits
}

// powersOf are the powers of two that operands have more than their codes' values.
func (p *Plan) powersOf() []int {
	if p.Deferred() && p.Raise == 0 {
		if d, err := ir.DeferralOf(p.codes(1), p.Act, p.Least); err == nil {
			return slices.Compact(slices.Sorted(slices.Values(d.Powers)))
		}
	}
	return []int{0}
}

// summed is how many k have a sum that is scaled by itself: those of a group, or all, which is 0.
func (p *Plan) summed() int {
	if p.Folds {
		return 0
	}
	return p.Group
}

// operands makes operands rh of codes: what they stand for, but for [Plan.Power], zero points, and
// powers of two that are left over, which back takes off.
func (p *Plan) operands(b *build.Builder, rh, back string, rw build.Value, to, rows build.Type) build.Value {
	if p.Deferred() {
		b.CastDeferred(rh, back, rw, to, rows, p.castAttrs()...)
		return build.Expr(rh)
	}
	all := b.Cast(rh, rw, to, p.castAttrs()...)
	if p.LessBias && !p.fuses() { // with what the cast takes off: see gpu/lower/codes.go
		all = b.Sub(rh, all, float64(p.Bias), to)
	}
	return all
}

// castAttrs are what casts of stored codes are told.
func (p *Plan) castAttrs() (attrs []build.Attr) {
	if p.Stored.HasNaN() || p.Stored.HasInf() || p.Less || p.Recipe.Domain.Finite {
		attrs = append(attrs, build.Domain("finite"))
	}
	if p.Least > recipe.MinScale {
		attrs = append(attrs, build.Least(p.Least))
	}
	return attrs
}

// cut says what is cast together: so much that a thread loads whole pieces of 16
// bytes, and that the operands fit its registers.
func (p *Plan) cut() {
	p.Sub = min(Turn, 256/p.Tiles)
	p.Run = min(8, p.dot()/4)
}

// dot is how many k a product takes: those of a scale, at most those cast together.
func (p *Plan) dot() int {
	if p.Group > 0 {
		return min(p.Sub, p.Group)
	}
	return p.Sub
}

// scales is how many scales of an output a turn takes.
func (p *Plan) scales() int {
	if p.Group > 0 && p.Group < Turn {
		return Turn / p.Group
	}
	return 1
}

// Outputs is how many outputs a warp makes.
func (p *Plan) Outputs() int { return 16 * p.Tiles }

// Deferred reports whether the cast leaves powers of two to the scales.
func (p *Plan) Deferred() bool { return p.Recipe.Mode == recipe.Deferred }

// Groups is how many scales an output has in the tensors of a layer with k inputs.
func (p *Plan) Groups(k int) int {
	switch {
	case p.Group == 0:
		return 1
	case p.Group < Turn:
		return ceil(k, Turn) * p.scales()
	}
	return ceil(k, p.Group)
}

// Padded is the number of outputs in the tensors of a layer with n outputs: whole
// blocks of any schedule.
func (p *Plan) Padded(n int) int { return ceil(n, p.Outputs()*MaxWarps) * p.Outputs() * MaxWarps }

// PackedShape is the shape of stored weights, of u8, for n outputs of k inputs.
func (p *Plan) PackedShape(n, k int) []int {
	return []int{p.Padded(n) / p.Outputs(), ceil(k, Turn), p.Outputs() * Turn * p.Stored.Bits() / 8}
}

// ScaleIndex is where the scale of an output stands among those of its group: those
// of a thread are neighbours.
func (p *Plan) ScaleIndex(n int) int {
	r := n % p.Outputs()
	return n - r + r%8*2*p.Tiles + r/8
}

// bytesPerLane of one cast.
func (p *Plan) bytesPerLane() int { return p.Tiles * p.Sub * p.Stored.Bits() / 16 }

// rows is the layout of what all threads of a row share, [outputs, 1].
func (p *Plan) rows(warps int) layout.Layout {
	return warped(warps, 2).Local(2*p.Tiles, 1).Spatial(8, 1).Mul(layout.Replicated(4, 1, 1))
}

// sums is the layout of accumulators, [outputs, rows of x].
func (p *Plan) sums(warps, x int) layout.Layout {
	return warped(warps, 2).Local(p.Tiles, x/8).Local(2, 1).Spatial(8, 4).Local(1, 2)
}

// left is the layout of the operand that the weights become, [outputs, k].
func (p *Plan) left(warps, k int) layout.Layout {
	return warped(warps, 2).Local(1, k/16).Local(p.Tiles, 1).ColumnLocal(2, 2).Spatial(8, 4).Local(1, 2)
}

// codes is the type of stored weights before their cast.
func (p *Plan) codes(warps int) ir.Type {
	t := ir.RegisterOf(p.Stored, p.left(warps, p.Sub))
	if n, err := p.Place.Repeat(p.Tiles * p.Sub / 2 / p.Place.Elements()); err == nil && !n.IsIdentity() {
		t.Place, t.HasPlace = n, true
	}
	return t
}

// warped spreads what follows over the warps of a block, along the first dimension.
func warped(warps, rank int) layout.Layout {
	shape := make([]int, rank)
	for i := range shape {
		shape[i] = 1
	}
	shape[0] = warps
	return layout.Spatial(shape...)
}
