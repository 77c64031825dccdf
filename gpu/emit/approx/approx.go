// Package approx writes the functions of fusions that no machine instruction and no
// sequence of vm/dtype computes as scalar computations of f64 operations, which the pass
// lower-tensors puts in their places. Elements of fewer bits are computed in f64 and rounded
// once, so that they are almost always the nearest; for f64 itself [Bounds] says how far off
// a result may be.
//
// Source: reductions and the polynomials of logarithm, sine and cosine after fdlibm
// (netlib.org/fdlibm); those of erf, erfc and arctangent are Chebyshev fits.
package approx

import (
	"math"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// Bound is how far from the exact value a function of f64 may be, in units of the last
// place, and where that holds. Elsewhere in its domain results are as good as their
// arguments' last places allow.
type Bound struct {
	Op     hlo.Op
	ULP    float64
	Lo, Hi float64 // of the argument, or of the first one
}

// Bounds lists the functions. Results in f32, f16, bf16 and floats of 8 bits are within
// [Narrow] units of theirs.
func Bounds() []Bound {
	return []Bound{
		{hlo.Exp, 2, -700, 700}, {hlo.Expm1, 4, -30, 700}, {hlo.Log, 2, 0, math.MaxFloat64}, {hlo.Log1p, 4, -0.999, math.MaxFloat64},
		{hlo.Tanh, 6, -30, 30}, {hlo.Logistic, 4, -700, 700}, {hlo.Erf, 4, -6, 6}, {hlo.Rsqrt, 2, 0, math.MaxFloat64}, {hlo.Cbrt, 4, -math.MaxFloat64, math.MaxFloat64},
		{hlo.Sine, 2, -5e5, 5e5}, {hlo.Cosine, 2, -5e5, 5e5}, {hlo.Tan, 5, -5e5, 5e5},
		{hlo.Asin, 6, -1, 1}, {hlo.Acos, 6, -1, 1}, {hlo.Atan2, 4, -1e100, 1e100},
		{hlo.Sinh, 8, -700, 700}, {hlo.Cosh, 4, -700, 700}, {hlo.Asinh, 8, -1e300, 1e300}, {hlo.Acosh, 8, 1, 1e300}, {hlo.Atanh, 8, -0.999, 0.999},
		{hlo.Power, 1024, 0, 1e300}, {hlo.RoundAway, 0, -math.MaxFloat64, math.MaxFloat64},
	}
}

// Narrow is the bound for elements of fewer bits than f64, in units of their last place.
const Narrow = 0.5001

// Of is a function as a computation of scalars of f64, or nil where there is none.
func Of(op hlo.Op) *hlo.Computation {
	f, two := functions[op], binary[op]
	if f == nil && two == nil {
		return nil
	}
	m := &maker{c: &hlo.Computation{Name: op.String() + "_f64"}, constants: map[uint64]node{}}
	x := m.param("x")
	if f != nil {
		m.c.Root = f(m, x)
	} else {
		m.c.Root = two(m, x, m.param("y"))
	}
	return m.c
}

var functions = map[hlo.Op]func(*maker, node) node{
	hlo.Exp: (*maker).exp, hlo.Expm1: (*maker).expm1, hlo.Log: (*maker).log, hlo.Log1p: (*maker).log1p, hlo.Tanh: (*maker).tanh,
	hlo.Logistic: (*maker).logistic, hlo.Erf: (*maker).erf, hlo.Rsqrt: (*maker).rsqrt, hlo.Cbrt: (*maker).cbrt,
	hlo.Sine:   func(m *maker, x node) node { return m.circular(x, 0) },
	hlo.Cosine: func(m *maker, x node) node { return m.circular(x, 1) },
	hlo.Tan:    func(m *maker, x node) node { return m.div(m.circular(x, 0), m.circular(x, 1)) },
	hlo.Asin:   (*maker).asin, hlo.Acos: (*maker).acos, hlo.Sinh: (*maker).sinh, hlo.Cosh: (*maker).cosh,
	hlo.Asinh: (*maker).asinh, hlo.Acosh: (*maker).acosh, hlo.Atanh: (*maker).atanh, hlo.RoundAway: (*maker).round,
}

var binary = map[hlo.Op]func(*maker, node, node) node{hlo.Power: (*maker).power, hlo.Atan2: (*maker).atan2}

type node = *hlo.Instruction

// maker writes a computation of scalars.
type maker struct {
	c         *hlo.Computation
	constants map[uint64]node
}

func (m *maker) add(in hlo.Instruction) node {
	in.Index = len(m.c.Instructions)
	in.Name = in.Op.String() + "." + string(rune('a'+in.Index%26)) + in.Shape.String()
	p := &in
	m.c.Instructions = append(m.c.Instructions, p)
	return p
}

func (m *maker) param(name string) node {
	p := m.add(hlo.Instruction{Op: hlo.Parameter, Shape: hlo.Array(hlo.F64), Attrs: hlo.Attrs{Number: len(m.c.Params)}})
	p.Name = name
	m.c.Params = append(m.c.Params, p)
	return p
}

func (m *maker) typed(t hlo.Type, c uint64) node {
	a := array.New(t.Elem())
	a.SetCode(0, c)
	return m.add(hlo.Instruction{Op: hlo.Constant, Shape: hlo.Array(t), Value: a})
}

func (m *maker) k(v float64) node {
	c := math.Float64bits(v)
	if m.constants[c] == nil {
		m.constants[c] = m.typed(hlo.F64, c)
	}
	return m.constants[c]
}

func (m *maker) op(op hlo.Op, t hlo.Type, x ...node) node {
	return m.add(hlo.Instruction{Op: op, Shape: hlo.Array(t), Operands: x})
}

func (m *maker) plus(x, y node) node  { return m.op(hlo.Add, x.Shape.Type, x, y) }
func (m *maker) minus(x, y node) node { return m.op(hlo.Subtract, x.Shape.Type, x, y) }
func (m *maker) times(x, y node) node { return m.op(hlo.Multiply, x.Shape.Type, x, y) }
func (m *maker) div(x, y node) node   { return m.op(hlo.Divide, hlo.F64, x, y) }
func (m *maker) abs(x node) node      { return m.op(hlo.Abs, hlo.F64, x) }
func (m *maker) neg(x node) node      { return m.op(hlo.Negate, hlo.F64, x) }
func (m *maker) sqrt(x node) node     { return m.op(hlo.Sqrt, hlo.F64, x) }

func (m *maker) is(how string, x, y node) node {
	return m.add(hlo.Instruction{Op: hlo.Compare, Shape: hlo.Array(hlo.Pred), Operands: []node{x, y}, Attrs: hlo.Attrs{Direction: how}})
}

func (m *maker) pick(p, x, y node) node { return m.op(hlo.Select, x.Shape.Type, p, x, y) }

// clamp keeps NaN.
func (m *maker) clamp(x node, lo, hi float64) node {
	return m.op(hlo.Minimum, hlo.F64, m.op(hlo.Maximum, hlo.F64, x, m.k(lo)), m.k(hi))
}

// poly is a polynomial, the highest power first.
func (m *maker) poly(x node, c ...float64) node {
	sum := m.k(c[0])
	for _, v := range c[1:] {
		sum = m.plus(m.times(sum, x), m.k(v))
	}
	return sum
}

// signed is a result with the sign of x.
func (m *maker) signed(x, magnitude node) node {
	sign := m.op(hlo.And, hlo.S64, m.bits(x), m.typed(hlo.S64, 1<<63))
	return m.float(m.op(hlo.Or, hlo.S64, m.bits(magnitude), sign))
}

func (m *maker) bits(x node) node  { return m.op(hlo.BitcastConvert, hlo.S64, x) }
func (m *maker) float(x node) node { return m.op(hlo.BitcastConvert, hlo.F64, x) }
func (m *maker) whole(v int64) node {
	return m.typed(hlo.S64, uint64(v))
}

// scale is 2^n of a whole number that a normal exponent holds.
func (m *maker) scale(n node) node {
	return m.float(m.op(hlo.ShiftLeft, hlo.S64, m.plus(n, m.whole(1023)), m.whole(52)))
}

const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// reduced is x = n·ln 2 + r.
func (m *maker) reduced(x node) (n, r node) {
	n = m.op(hlo.RoundEven, hlo.F64, m.times(x, m.k(math.Log2E)))
	return n, m.minus(m.minus(x, m.times(n, m.k(ln2Hi))), m.times(n, m.k(ln2Lo)))
}

func taylor(n, from int) (c []float64) { // 1/k! for k from n down to from
	for k := n; k >= from; k-- {
		f := 1.0
		for i := 2; i <= k; i++ {
			f *= float64(i)
		}
		c = append(c, 1/f)
	}
	return c
}

func (m *maker) exp(x node) node {
	n, r := m.reduced(m.clamp(x, -750, 710))
	p := m.plus(m.k(1), m.plus(r, m.times(m.times(r, r), m.poly(r, taylor(14, 2)...))))
	i := m.op(hlo.Convert, hlo.S64, n)
	half := m.op(hlo.ShiftRightArithmetic, hlo.S64, i, m.whole(1))
	return m.times(m.times(p, m.scale(half)), m.scale(m.minus(i, half)))
}

func (m *maker) expm1(x node) node {
	small := m.plus(x, m.times(m.times(x, x), m.poly(x, taylor(18, 2)...)))
	return m.pick(m.is("LT", m.abs(x), m.k(0.5)), m.signed(x, m.abs(small)), m.minus(m.exp(x), m.k(1)))
}

func (m *maker) log(x node) node {
	tiny := m.is("LT", x, m.k(0x1p-1022))
	y := m.pick(tiny, m.times(x, m.k(0x1p54)), x)
	b := m.bits(y)
	e := m.minus(m.op(hlo.ShiftRightArithmetic, hlo.S64, b, m.whole(52)), m.whole(1023))
	f := m.float(m.op(hlo.Or, hlo.S64, m.op(hlo.And, hlo.S64, b, m.whole(1<<52-1)), m.whole(1023<<52)))
	big := m.is("GT", f, m.k(math.Sqrt2))
	f = m.pick(big, m.times(f, m.k(0.5)), f)
	k := m.op(hlo.Convert, hlo.F64, m.plus(e, m.pick(big, m.whole(1), m.whole(0))))
	k = m.minus(k, m.pick(tiny, m.k(54), m.k(0)))
	f = m.minus(f, m.k(1))
	s := m.div(f, m.plus(f, m.k(2)))
	z := m.times(s, s)
	r := m.times(z, m.poly(z, 1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01))
	h := m.times(m.k(0.5), m.times(f, f))
	low := m.plus(m.times(s, m.plus(h, r)), m.times(k, m.k(ln2Lo)))
	v := m.minus(m.times(k, m.k(ln2Hi)), m.minus(m.minus(h, low), f))
	v = m.pick(m.is("EQ", x, m.k(math.Inf(1))), x, v)
	v = m.pick(m.is("EQ", x, m.k(0)), m.k(math.Inf(-1)), v)
	return m.pick(m.is("GE", x, m.k(0)), v, m.k(math.NaN()))
}

func (m *maker) log1p(x node) node {
	u := m.plus(x, m.k(1))
	v := m.plus(m.log(u), m.div(m.minus(x, m.minus(u, m.k(1))), u))
	v = m.pick(m.is("EQ", u, m.k(1)), x, v)
	v = m.pick(m.is("EQ", x, m.k(-1)), m.k(math.Inf(-1)), v)
	return m.pick(m.is("EQ", x, m.k(math.Inf(1))), x, v)
}

func (m *maker) tanh(x node) node {
	a := m.clamp(m.abs(x), 0, 30)
	e := m.expm1(m.plus(a, a))
	return m.signed(x, m.div(e, m.plus(e, m.k(2))))
}

func (m *maker) logistic(x node) node {
	return m.div(m.k(1), m.plus(m.k(1), m.exp(m.neg(x))))
}

func (m *maker) rsqrt(x node) node { return m.div(m.k(1), m.sqrt(x)) }

func (m *maker) erf(x node) node {
	a := m.abs(x)
	z := m.times(x, x)
	small := m.times(a, m.poly(z, -4.230945824295338e-12, 8.709045129053106e-11, -1.216456005728345e-09, 1.4792401209404813e-08, -1.6364642158167616e-07, 1.6462045441468418e-06,
		-1.4925647567519332e-05, 0.00012055332902888736, -0.000854832702193483, 0.0052239776254232985, -0.02686617064512984, 0.1128379167095512, -0.37612638903183754, 1.1283791670955126))
	b := m.clamp(a, 1, 6.2)
	t := m.div(m.minus(b, m.k(2)), m.plus(b, m.k(2)))
	c := m.poly(t, -4.0090054967287787e-07, -5.572845101469753e-07, 1.1773910731353312e-06, 3.799978761188095e-06, 1.3905100477643051e-06, -1.3969958220584674e-05,
		-2.7579344583696214e-05, 2.7525654448151828e-05, 0.00017436111120880155, 4.355559302903803e-05, -0.000981977023689976, -0.0008471432506430249,
		0.006997461739123773, 0.0037328924043232648, -0.07897858101573124, 0.24165819424246648, -0.4271858474139584, 0.25539567631050575)
	large := m.minus(m.k(1), m.times(m.exp(m.neg(m.times(b, b))), c))
	return m.signed(x, m.pick(m.is("LT", a, m.k(1)), small, large))
}

func (m *maker) cbrt(x node) node {
	a := m.abs(x)
	tiny := m.is("LT", a, m.k(0x1p-1022))
	y := m.pick(tiny, m.times(a, m.k(0x1p54)), a)
	t := m.float(m.plus(m.op(hlo.Divide, hlo.S64, m.bits(y), m.whole(3)), m.whole(0x2a9f7893<<32)))
	for range 3 { // Halley: each turn has three times as many right digits
		r := m.div(y, m.times(t, t))
		t = m.plus(t, m.times(t, m.div(m.minus(r, t), m.plus(m.plus(t, t), r))))
	}
	v := m.times(t, m.pick(tiny, m.k(0x1p-18), m.k(1)))
	v = m.pick(m.is("EQ", a, m.k(0)), a, v)
	return m.signed(x, m.pick(m.is("LT", a, m.k(math.Inf(1))), v, a))
}

// circular is sine, or cosine with a quarter turn more.
func (m *maker) circular(x node, quarter int64) node {
	n := m.op(hlo.RoundEven, hlo.F64, m.times(x, m.k(2/math.Pi)))
	r := m.minus(x, m.times(n, m.k(1.57079632673412561417e+00)))
	w := m.times(n, m.k(6.07710050630396597660e-11))
	rest := m.minus(r, w)
	tail := m.minus(m.minus(r, rest), w) // what rounding lost
	low := m.minus(m.times(n, m.k(2.02226624879595063154e-21)), tail)
	y := m.minus(rest, low)
	yy := m.minus(m.minus(rest, y), low)
	z := m.times(y, y)
	sr := m.poly(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04, 8.33333333332248946124e-03)
	v := m.times(z, y)
	sin := m.minus(y, m.minus(m.minus(m.times(z, m.minus(m.times(m.k(0.5), yy), m.times(v, sr))), yy), m.times(v, m.k(-1.66666666666666324348e-01))))
	cr := m.times(z, m.poly(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02))
	hz := m.times(m.k(0.5), z)
	one := m.minus(m.k(1), hz)
	cos := m.plus(one, m.plus(m.minus(m.minus(m.k(1), one), hz), m.minus(m.times(z, cr), m.times(y, yy))))
	q := m.plus(m.op(hlo.Convert, hlo.S64, m.clamp(n, -0x1p62, 0x1p62)), m.whole(quarter))
	odd := m.is("NE", m.op(hlo.And, hlo.S64, q, m.whole(1)), m.whole(0))
	back := m.is("NE", m.op(hlo.And, hlo.S64, q, m.whole(2)), m.whole(0))
	out := m.pick(odd, cos, sin)
	out = m.pick(back, m.neg(out), out)
	if quarter == 0 { // the zero keeps its sign
		out = m.pick(m.is("EQ", x, m.k(0)), x, out)
	}
	return out
}

// atan is that of a number that is not negative.
func (m *maker) atan(x node) node {
	const t8, t38 = 0.41421356237309503, 2.414213562373095
	far, mid := m.is("GT", x, m.k(t38)), m.is("GT", x, m.k(t8))
	r := m.pick(far, m.div(m.k(-1), x), m.pick(mid, m.div(m.minus(x, m.k(1)), m.plus(x, m.k(1))), x))
	z := m.times(r, r)
	p := m.poly(z, 0.015113765096600925, -0.03338782450121195, 0.04499500728984032, -0.05217312574061591, 0.05876834004614161, -0.06666205259976526, 0.07692281099937744,
		-0.09090908059031191, 0.11111111085322109, -0.1428571428532971, 0.19999999999997015, -0.33333333333333326)
	v := m.plus(r, m.times(r, m.times(z, p)))
	hi := m.pick(far, m.k(math.Pi/2), m.pick(mid, m.k(math.Pi/4), m.k(0)))
	lo := m.pick(far, m.k(6.123233995736766e-17), m.pick(mid, m.k(3.061616997868383e-17), m.k(0)))
	return m.plus(hi, m.plus(v, lo))
}

func (m *maker) atan2(y, x node) node {
	a, b := m.abs(y), m.abs(x)
	inf := m.k(math.Inf(1))
	both := m.op(hlo.And, hlo.Pred, m.is("EQ", a, inf), m.is("EQ", b, inf))
	q := m.pick(both, m.k(1), m.div(a, b))
	q = m.pick(m.is("EQ", a, m.k(0)), m.pick(m.is("EQ", b, b), m.k(0), b), q)
	v := m.atan(q)
	left := m.is("LT", m.op(hlo.ShiftRightArithmetic, hlo.S64, m.bits(x), m.whole(63)), m.whole(0))
	v = m.pick(left, m.minus(m.k(math.Pi), m.minus(v, m.k(1.2246467991473532e-16))), v)
	v = m.pick(m.is("EQ", y, y), v, y)
	return m.signed(y, v)
}

func (m *maker) asin(x node) node {
	a := m.abs(x)
	return m.signed(x, m.atan(m.div(a, m.sqrt(m.times(m.minus(m.k(1), a), m.plus(m.k(1), a))))))
}

func (m *maker) acos(x node) node {
	return m.atan2(m.sqrt(m.times(m.minus(m.k(1), x), m.plus(m.k(1), x))), x)
}

func (m *maker) sinh(x node) node {
	e := m.expm1(m.abs(x))
	v := m.times(m.k(0.5), m.plus(e, m.div(e, m.plus(e, m.k(1)))))
	return m.signed(x, m.pick(m.is("EQ", e, m.k(math.Inf(1))), e, v))
}

func (m *maker) cosh(x node) node {
	e := m.exp(m.abs(x))
	return m.plus(m.times(m.k(0.5), e), m.div(m.k(0.5), e))
}

func (m *maker) asinh(x node) node {
	a := m.abs(x)
	z := m.times(a, a)
	near := m.log1p(m.plus(a, m.div(z, m.plus(m.k(1), m.sqrt(m.plus(m.k(1), z))))))
	return m.signed(x, m.pick(m.is("GT", a, m.k(0x1p28)), m.plus(m.log(a), m.k(math.Ln2)), near))
}

func (m *maker) acosh(x node) node {
	t := m.minus(x, m.k(1))
	near := m.log1p(m.plus(t, m.sqrt(m.plus(m.plus(t, t), m.times(t, t)))))
	return m.pick(m.is("GT", x, m.k(0x1p28)), m.plus(m.log(x), m.k(math.Ln2)), near)
}

func (m *maker) atanh(x node) node {
	a := m.abs(x)
	return m.signed(x, m.times(m.k(0.5), m.log1p(m.div(m.plus(a, a), m.minus(m.k(1), a)))))
}

func (m *maker) round(x node) node {
	a := m.abs(x)
	f := m.op(hlo.Floor, hlo.F64, a)
	up := m.is("GE", m.minus(a, f), m.k(0.5))
	return m.signed(x, m.pick(up, m.plus(f, m.k(1)), f))
}

func (m *maker) power(x, y node) node {
	a := m.abs(x)
	v := m.exp(m.times(y, m.log(a)))
	whole := m.is("EQ", m.op(hlo.Floor, hlo.F64, y), y)
	half := m.times(y, m.k(0.5))
	even := m.is("EQ", m.op(hlo.Floor, hlo.F64, half), half)
	odd := m.op(hlo.And, hlo.Pred, whole, m.op(hlo.Not, hlo.Pred, even))
	v = m.pick(m.op(hlo.And, hlo.Pred, m.is("EQ", a, m.k(1)), m.is("EQ", y, y)), m.k(1), v)
	v = m.pick(odd, m.signed(x, v), v)
	lost := m.op(hlo.And, hlo.Pred, m.is("LT", x, m.k(0)), m.op(hlo.Not, hlo.Pred, whole))
	lost = m.op(hlo.And, hlo.Pred, lost, m.is("LT", a, m.k(math.Inf(1))))
	v = m.pick(lost, m.k(math.NaN()), v)
	v = m.pick(m.is("EQ", x, m.k(1)), m.k(1), v)
	return m.pick(m.is("EQ", y, m.k(0)), m.k(1), v)
}
