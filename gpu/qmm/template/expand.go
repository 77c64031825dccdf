package template

import (
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/lower/cast"
	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/recipe"
)

// expandWarps is how many warps a block of [Expand] has, each with outputs of its own: the 32
// blocks that a multiprocessor holds would be half of its warps if they had one each.
const expandWarps = 4

// Expand makes weights [N, K] of the type of the activations from those that
// [Decode] takes: (q − z)·s·factor, rounded once, or where they are [Form.Rounded] q − z too. It is what many rows of x are
// multiplied with by a product of plain numbers.
//
// Unless [Form.Expands], a weight is off by up to
// 2^-11 of itself as f16, 2^-8 as bf16, and by up to 2^-25 where f16 has no normal number
// for it; weights beyond f16 are infinite. A product is then off by up to as much of
// Σ|x·w| more than sums in f32 are: about what rounding the result costs once more.
//
// Launches begin while those in front of them still run, and store at once: y must be memory
// that none of these uses. Where products that wait before they ask for the next launch
// (hopper.Schedule.PDL) alternate with launches of Expand, that is all but what the last product
// multiplies: two such memories in turn are enough. The end of a launch follows the end of all
// launches in front, so that what waits for it may also use what they store.
//
// Parameters are w, s, z with zero points, y, N, K, and factor if there is one.
func Expand(f Form) (*ir.Program, error) {
	p, err := PlanOf(f)
	if err != nil {
		return nil, err
	}
	if p.Exact || p.Rounded { // what is rounded once needs no operands that are folded
		p.Folds, p.Lift = false, 0
	}
	dot := p.dot()
	plain, err := p.naturalOf(dot)
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	d := &decoder{Plan: p, Schedule: Schedule{Warps: expandWarps, Sides: 1, Rows: 8}}
	subs, lane, outputs := Turn/p.Sub, p.bytesPerLane(), d.outputs()
	b := build.Program(fmt.Sprintf("expand_%s_%s", p.Weight, p.Act), build.Warps(d.Warps), build.Grid(ceilText("K", Turn)+fmt.Sprintf("*%d", subs), ceilText("N", outputs)))
	d.b = b
	d.types()
	plain = warped(d.Warps, 2).Mul(plain)
	w, s := b.Pointer("w", dtype.U8), b.Pointer("s", p.Scale)
	var z, factor build.Value
	if p.Zero {
		z = b.Pointer("z", p.ZeroType())
	}
	y := b.Pointer("y", p.Act)
	n, k := b.Scalar("N", dtype.I32), b.Scalar("K", dtype.I32)
	if p.Factor {
		factor = b.Scalar("factor", dtype.F32)
	}
	// Blocks that run at the same time store rows of y from end to end, not a piece of each.
	bk, bn := b.BlockIndices2("bk", "bn")
	d.bn = bn
	b.GridDependencyLaunch()
	blocks, turns := build.Expr(ceilText("N", outputs)), build.Expr(ceilText("K", Turn))
	gw := b.ViewGlobal("gw", w, build.Global(dtype.U8, blocks, d.Warps, turns, p.PackedShape(1, 1)[2]))
	d.scaleViews(s, z, turns)
	gy := b.ViewGlobal("gy", y, build.Global(p.Act, n, k))
	pieces := each(d.Warps, layout.Local(lane/16).Spatial(32).Local(16))
	rb := b.LoadGlobal("rb", gw, build.Register(dtype.U8, pieces), build.Offset(bn, 0, bk.Div(subs), bk.Mod(subs).Mul(32*lane)), build.Dims(1, 3))
	rw, left := b.View("rw", rb, d.codes1), build.Register(p.Act, p.left(d.Warps, p.Sub))
	var by []build.Value // powers of two that make codes of operands
	inAct := p.inAct()
	switch {
	case inAct && p.exact():
		b.Cast("rh", rw, left, p.castAttrs()...)
	case inAct && p.Deferred():
		d.cast("", rw)
		by = d.powers()
	default:
		d.cast("", rw)
	}
	for piece := range p.Sub / dot {
		group := build.Expr("0")
		if p.Group > 0 {
			group = build.Expr("(" + bk.Mul(p.Sub).Add(piece*dot).String() + ")").Div(p.Group)
		}
		d.loadScale(name("", piece), group)
	}
	d.grouped("rh", func(k int) layout.Layout { return p.left(d.Warps, k) }, func(what string, k int) string { return name(what, k/dot) })
	for piece := range p.Sub / dot {
		tag, at := name("", piece), bk.Mul(p.Sub).Add(piece*dot)
		rh := build.Expr("rh")
		if dot < p.Sub {
			rh = b.SliceRegister("rh"+tag, rh, build.Register(p.Act, p.left(d.Warps, dot)), build.Offset(0, piece*dot))
		}
		act := build.Register(p.Act, p.left(d.Warps, dot))
		if inAct {
			v := rh
			for _, power := range by {
				v = b.Mul("v"+tag, v, power, act)
			}
			if p.Power != 0 {
				v = b.Mul("v"+tag, v, math.Ldexp(1, p.Power), act)
			}
			if p.Bias > 0 && !p.LessBias {
				v = b.Sub("v"+tag, v, float64(p.Bias), act)
			}
			v = b.Mul("v"+tag, v, b.View("rv"+tag, build.Expr(d.of("rs"+tag)), d.rowS), act)
			b.StoreGlobal(gy, b.View("out"+tag, v, build.Register(p.Act, plain)), build.Offset(bn.Mul(outputs), at))
			continue
		}
		scale, minus := d.scaleOf(tag)
		f32 := build.Register(dtype.F32, p.left(d.Warps, dot))
		v := b.Cast("v"+tag, rh, f32)
		if minus != nil {
			v = b.Fma("v"+tag, v, scale, *minus, f32)
		} else {
			v = b.Mul("v"+tag, v, scale, f32)
		}
		if p.Factor {
			v = b.Mul("v"+tag, v, factor, f32)
		}
		half := b.Cast("half"+tag, v, act)
		b.StoreGlobal(gy, b.View("out"+tag, half, build.Register(p.Act, plain)), build.Offset(bn.Mul(outputs), at))
	}
	// Blocks that waited would keep multiprocessors whose product has ended from the others.
	b.GridDependencyWait(build.Blocks("first"))
	return b.Build()
}

// MostExpanded is how many outputs [Expand] takes, whose blocks lie along y of its grid.
func (p *Plan) MostExpanded() int { return ir.MostBlocks(1) * p.Outputs() * expandWarps }

// Expands reports whether the type of the activations holds each weight (q − z)·s·factor as
// it is, for any codes, where what codes are multiplied with, s·factor, has at most so many
// significant bits and lies within [Form.Reach], and zero points are values of codes. A
// product has no more significant bits than both have together, and as many as the other
// one has if one of them has a single bit.
//
// Of bits 0 nothing is known of them: they have as many as their type, of any size. bf16
// reaches as far as the f32 sums of any plan then, and f16 does not. Where zero points may be any it is never so.
func (f Form) Expands(bits int) bool {
	w := f.WeightBits()
	if f.AnyZero {
		return false
	}
	if bits == 0 {
		if f.Act != dtype.BF16 || f.Zero || f.Factor {
			return false
		}
		bits = digitsOf(f.Scale) + 1
	}
	if w > 1 && bits > 1 {
		return w+bits <= f.Act.Row().Man+1
	}
	return max(w, bits) <= f.Act.Row().Man+1
}

// WeightBits is how many significant bits codes less their zero points have at most.
func (f Form) WeightBits() int { return digitsOf(f.Weight) + 1 }

// ExpandBits is the greatest number of bits with which a form [Form.Expands], up to those that
// its scales have; 0 if there is none.
func (f Form) ExpandBits() int {
	for n := digitsOf(f.Scale) + 1; n > 0; n-- {
		if f.Expands(n) {
			return n
		}
	}
	return 0
}

// Top is the greatest value of a code that weights are quantised to: the greatest that the type of the activations holds too; 1 of
// types whose exponents reach beyond that type at both ends, so that scales are as large as weights, or larger.
func (f Form) Top() float64 {
	t := f.Weight
	switch {
	case t.Max() <= f.Act.Max():
		return t.Max()
	case f.held() != t:
		return 1
	}
	top := 0.0
	for code := range uint64(1) << t.Bits() {
		if v := t.Decode(code); v <= f.Act.Max() {
			top = max(top, v)
		}
	}
	return top
}

// Counts reports whether [Form.Reach] speaks of a code's value: one that the form [Form.Holds], from −Top to [Form.Top], or the least
// integer of a type.
func (f Form) Counts(v float64) bool {
	return f.Holds(v) && (v >= -f.Top() || f.Weight.IsInt()) && v <= f.Top()
}

// Reach is how small and how large what codes are multiplied with may be for the exponents
// of the activations' type to hold the products: multiples of 2^least up to most.
func (f Form) Reach() (least int, most float64) {
	act, top, step := f.Act.Row(), 0.0, 1.0
	for code := range uint64(1) << f.Weight.Bits() {
		if v := f.Weight.Decode(code); f.Counts(v) {
			top = max(top, math.Abs(v))
		}
	}
	if f.Weight.IsFloat() {
		step = f.Smallest()
	}
	most = f.Act.Max() / top
	if f.Act == dtype.BF16 {
		most /= 2 // f32 ends there too, and what is taken off codes may be more than the greatest one
	}
	return 1 - act.Bias - act.Man - math.Ilogb(step), most
}

// digitsOf is how many binary digits the values of a type have behind the first that is
// not 0, at most.
func digitsOf(t dtype.Type) int {
	switch {
	case t.IsFloat():
		return t.Row().Man
	case t.Signed():
		return t.Bits() - 2 // the least value is a power of two
	}
	return t.Bits() - 1
}

// inAct reports whether [Expand] multiplies codes with scales as f16: f32 holds the product of two
// f16, so that either way it is rounded once. It takes fewer than half the instructions of bringing
// codes to f32 and products back. What is taken off codes must leave a number of f16.
func (p *Plan) inAct() bool {
	return p.Act == dtype.F16 && p.Scale == dtype.F16 && !p.Zero && !p.Factor
}

// exact reports whether a cast to values, with no power left over, takes one instruction a pair more than
// one to operands at most. Codes of two bits without a bias are as they were timed: masks, and two
// products by powers for each pair.
func (p *Plan) exact() bool {
	t := p.codes(1)
	place, ok := ir.PlaceOf(t)
	if !ok || p.Stored.Bits() == 2 {
		return false
	}
	r, _, err := recipe.ForPlacement(p.Stored, p.Act, recipe.Exact, place, recipe.MinScale)
	return err == nil && cast.Runs(r, cast.NativeE4M3)
}

// powers are what operands of f16 are multiplied with, one after the other, to be the values of their
// codes: no power of two is beyond f16.
func (d *decoder) powers() []build.Value {
	const most = 15
	b, row := d.b, build.Register(d.Act, d.rows(d.Warps))
	out := []build.Value{b.Cast("first", b.Min("least", build.Expr("back"), math.Ldexp(1, most), d.rowF32), row)}
	if x, err := ir.DeferralOf(d.Plan.codes(1), d.Act, d.Least); err != nil || slices.Min(x.Powers) < -most {
		rest := b.Max("rest", b.Mul("rest", build.Expr("back"), math.Ldexp(1, -most), d.rowF32), 1.0, d.rowF32)
		out = append(out, b.Cast("second", rest, row))
	}
	return out
}

// scaleViews names the tensors of scales and zero points.
func (d *decoder) scaleViews(s, z, turns build.Value) {
	padded := build.Expr(ceilText("N", d.Outputs()*MaxWarps)).Mul(d.Outputs() * MaxWarps)
	groups := any(1)
	switch {
	case d.Group >= Turn:
		groups = ceilText("K", d.Group)
	case d.Group > 0:
		groups = turns.Mul(d.scales())
	}
	shape := []any{groups, padded}
	if d.Parts > 1 && d.scales() > 1 {
		shape = []any{turns, d.scales(), padded}
	}
	own := shape
	if d.Apart && d.Parts > 1 && d.pairs() > 1 {
		own = []any{turns, d.scales() / d.pairs(), d.pairs(), padded}
	}
	d.gs = d.b.ViewGlobal("gs", s, build.Global(d.Scale, own...))
	if d.Zero {
		d.gz = d.b.ViewGlobal("gz", z, build.Global(d.ZeroType(), shape...))
	}
}

// grouped has operands of what codes became, [outputs, Sub k], those of a group at a time: less zero points, or
// times scales, where the plan has them so. of is the layout of so many k of it, and loaded is what the group of k has
// as scales or zero points.
func (d *decoder) grouped(rh string, of func(k int) layout.Layout, loaded func(what string, k int) string) build.Value {
	if !d.Less && !d.Folds {
		return build.Expr(rh)
	}
	return d.inGroups(rh, build.Expr(rh), d.Sub, d.dot(), of, func(to string, part build.Value, k int, l layout.Layout) build.Value {
		return d.changed(to, part, func(_ string, rows build.Value) build.Value { return rows }, func(what string) string { return loaded(what, k) }, l)
	})
}

// inGroups changes operands of k columns n at a time; from is the first of a part, which has the layout l.
func (d *decoder) inGroups(name string, all build.Value, k, n int, of func(k int) layout.Layout, change func(to string, part build.Value, from int, l layout.Layout) build.Value) build.Value {
	if n == k {
		return change(name, all, 0, of(k))
	}
	for from := 0; from < k; from += n {
		part := d.b.SliceRegister(name+"_part", all, build.Register(d.Act, of(n)), build.Offset(0, from))
		d.b.SliceAssign(name, all, change(name+"_part", part, from, of(n)), build.Register(d.Act, of(k)), build.Offset(0, from))
	}
	return all
}

// changed are operands of a group, less zero points and times scales, where the plan has them so. loaded is what the group has
// as either; some takes those of the operands' rows, which of [Plan.Near] have a third dimension of two alike.
func (d *decoder) changed(to string, part build.Value, some func(name string, rows build.Value) build.Value, loaded func(what string) string, of layout.Layout) build.Value {
	b, as := d.b, build.Register(d.Act, of)
	if d.Less && !d.fuses() {
		part = b.Sub(to, part, some("zero_tile", d.zeros(loaded("rz"))), as)
	}
	if d.Raise != 0 {
		part = b.Mul(to, part, math.Ldexp(1, d.Raise), as)
	}
	switch {
	case !d.Folds:
		return part
	case d.Near: // each has two halves, for the neighbours of k that a thread has
		l, err := of.Reshape(of.Shape()[0], of.Shape()[1]/2, 2)
		if err != nil {
			panic(err) // threads have pairs of k
		}
		pairs := build.Register(d.Act, l)
		return b.View(to, b.Mul(to+"_pairs", b.View(to+"_pairs", part, pairs), some("factor_tile", d.near(loaded("rs"))), pairs), as)
	case !d.fuses():
		return b.Mul(to, part, some("factor_tile", d.factors(loaded("rs"))), as)
	}
	factors := d.factors(loaded("rs"))
	minus := build.Value{}
	if d.Less {
		minus = b.Neg("minus_all", b.Mul("minus_all", factors, d.zeros(loaded("rz")), d.rowAct), d.rowAct)
	} else {
		minus = b.Mul("minus_all", factors, -float64(d.Bias), d.rowAct)
	}
	return b.Fma(to, part, some("factor_tile", factors), some("minus_rows", minus), as)
}

// fuses reports whether what is taken off codes and the scales that they are multiplied with are one instruction: it rounds
// once, nothing where weights are exact, and zero points times scales are weights too, as a bias, a power of two, times
// scales is a number anyway. f16 need none of their own to take
// something off: what a mask leaves of an exponent is taken off with it.
func (p *Plan) fuses() bool {
	return p.Folds && p.Act == dtype.BF16 && (p.Less && p.Exact || p.LessBias)
}

// near are scales by row that are near 1, lifted, as two f16 each: their exponents moved to where f16 has them, in both
// halves of a word by one product.
func (d *decoder) near(loaded string) build.Value {
	b := d.b
	one, err := d.rowLayout.Unsqueeze(2)
	if err != nil {
		panic(err) // it has two dimensions
	}
	const both, bias = 1<<10 | 1<<26, 127 - 15 // of f8e8m0 less that of f16
	word := build.Register(dtype.I32, d.rowLayout)
	code := b.Cast(loaded+"_word", b.View(loaded+"_rows", build.Expr(loaded), build.Register(dtype.U8, d.rowLayout)), word)
	if d.Parts > 1 { // behind the last turn nothing is loaded, and 0 would become an infinity
		code = b.Max(loaded+"_word", code, 127+d.From, word)
	}
	code = b.Sub(loaded+"_word", b.Mul(loaded+"_word", code, both, word), int(int32(uint32((bias-d.Lift)*both))), word)
	return b.View(loaded+"_act", code, build.Register(d.Act, one.Local(1, 1, 2)))
}

// factors are scales by row, lifted, of the type of the activations.
func (d *decoder) factors(loaded string) build.Value {
	b := d.b
	s := b.View(loaded+"_rows", build.Expr(loaded), d.rowS)
	if d.Scale != d.Act {
		s = b.Cast(loaded+"_act", s, d.rowAct, build.Domain("finite"))
	}
	if d.Lift != 0 {
		s = b.Mul(loaded+"_act", s, math.Ldexp(1, d.Lift), d.rowAct)
	}
	if d.Raise != 0 { // by what is left of the output's power
		left := b.Cast("back_act", b.Mul("back_left", build.Expr("back"), math.Ldexp(1, -d.Raise), d.rowF32), d.rowAct)
		s = b.Mul(loaded+"_act", s, left, d.rowAct)
	}
	return s
}

// zeros are what is taken off codes by row, of the type of the activations: zero points, or where they
// may be any numbers, those near them, so that f16 holds both the difference of any code and what is left of
// any zero point (TestNear): to whole numbers, below 0 to halves, as the sum with 1024 is rounded.
func (d *decoder) zeros(loaded string) build.Value {
	b, z := d.b, d.b.View(loaded+"_rows", build.Expr(loaded), d.rowZ)
	switch {
	case !d.AnyZero:
		return b.Cast(loaded+"_zero", z, d.rowAct, build.Domain("finite"))
	case d.Rounded:
		return z
	}
	const least, most = -512, 1024
	near := b.Max(loaded+"_near", b.Min(loaded+"_near", z, most, d.rowAct), least, d.rowAct)
	return b.Sub(loaded+"_zero", b.Add(loaded+"_near", near, most, d.rowAct), most, d.rowAct)
}

// cast makes operands rh of codes, and back where powers of two are left over.
func (d *decoder) cast(tag string, rw build.Value) {
	d.operands(d.b, d.of("rh"+tag), "back", rw, build.Register(d.Act, d.left(d.width(), d.Sub)), d.rowF32)
}

// scaleOf is what the operands of a group are multiplied with, and what is added for
// each of x's numbers, nil if that is nothing.
func (d *decoder) scaleOf(tag string) (scale build.Value, minus *build.Value) {
	b := d.b
	if d.Folds { // operands were multiplied with it: what is left are powers of two
		power := math.Ldexp(1, d.Power-d.Lift)
		if d.Deferred() && d.Raise == 0 {
			return b.Mul("scale"+tag, build.Expr("back"), power, d.rowF32), nil
		}
		return b.AllocateRegister("scale"+tag, d.rowF32, build.Init(power)), nil
	}
	scale = b.Cast("scale"+tag, b.View("rv"+tag, build.Expr(d.of("rs"+tag)), d.rowS), d.rowF32)
	if d.Power != 0 {
		scale = b.Mul("scale"+tag, scale, math.Ldexp(1, d.Power), d.rowF32)
	}
	if d.Rest() {
		rest := b.View("rzv"+tag, build.Expr(d.of("rz"+tag)), d.rowZ)
		if d.Less {
			rest = b.Sub("fraction"+tag, rest, d.zeros(d.of("rz"+tag)), d.rowAct)
		}
		zero := b.Cast("zero"+tag, rest, d.rowF32)
		m := b.Neg("minus"+tag, b.Mul("minus"+tag, scale, zero, d.rowF32), d.rowF32)
		minus = &m
	} else if d.Bias > 0 && !d.LessBias {
		m := b.Mul("minus"+tag, scale, -float64(d.Bias), d.rowF32)
		minus = &m
	}
	if d.Deferred() {
		scale = b.Mul("scale"+tag, scale, build.Expr("back"), d.rowF32)
	}
	return scale, minus
}
