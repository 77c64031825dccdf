package dtype

import (
	"fmt"
	"math"
	"sync"
)

// A Sequence computes a function of one f32 number in a fixed list of steps,
// each of which has one result on every machine. [Sequence.Eval] runs it here;
// lowering emits the same steps one by one, so all machines agree bit for bit.
// There is no second place where a coefficient stands.
//
// f16 and bf16 go through f32 with one more rounding ([Sequence.EvalAs]).
type Sequence struct {
	Name string
	// Approx marks a sequence with hardware approximations. Its steps have the
	// exactly rounded value here and on the simulator.
	Approx bool
	Steps  []Step
	// Ulps bounds |result − f(x)| in units of the last place of f32 (of the least
	// subnormal where results are that small), against the exact function; of an
	// approximation it is 0, not stated.
	Ulps float64
	// Bound is that as a phrase; of an approximation, how far a GPU may be from the
	// result here.
	Bound string
}

// Step is one instruction: In are the numbers of earlier steps, K the constant.
// Step 0 is the argument.
type Step struct {
	Op StepOp
	In [3]uint8
	K  uint64
}

// StepOp is an instruction of a sequence; its name is that of the thread-code
// instruction.
type StepOp uint8

// The instructions. Comparisons give a predicate, which only StepSelect reads.
const (
	StepArg StepOp = iota
	StepConst
	StepAdd
	StepSub
	StepMul
	StepFma
	StepDiv
	StepSqrt
	StepLess
	StepAnd
	StepOr
	StepXor
	StepIntAdd
	StepIntSub
	StepIntMul
	StepMulHi
	StepMulWide
	StepShl
	StepShr
	StepSar
	StepFunnel
	StepIntLess
	StepSelect
	StepAdd64
	StepShl64
	StepPack
	StepHigh
	StepFromInt
	StepFromInt64
	StepExp2
	StepLog2
	StepSin
	StepCos
	StepTanh
	StepRsqrt
	StepRcp
	numSteps
)

var stepNames = [numSteps]string{
	StepArg: "argument", StepConst: "const.b32",
	StepAdd: "add.rn.f32", StepSub: "sub.rn.f32", StepMul: "mul.rn.f32", StepFma: "fma.rn.f32", StepDiv: "div.rn.f32", StepSqrt: "sqrt.rn.f32", StepLess: "setp.f32",
	StepAnd: "and.b32", StepOr: "or.b32", StepXor: "xor.b32", StepIntAdd: "add.b32", StepIntSub: "sub.b32", StepIntMul: "mul.lo.b32", StepMulHi: "mul.hi.u32", StepMulWide: "mul.wide.u32",
	StepShl: "shl.b32", StepShr: "shr.u32", StepSar: "shr.s32", StepFunnel: "shf.l.wrap.b32", StepIntLess: "setp.u32", StepSelect: "selp.b32",
	StepAdd64: "add.b64", StepShl64: "shl.b64", StepPack: "pack.b32", StepHigh: "hi.b32",
	StepFromInt: "cvt.rn.f32.s32", StepFromInt64: "cvt.rn.f32.s64",
	StepExp2: "ex2.approx.ftz.f32", StepLog2: "lg2.approx.f32", StepSin: "sin.approx.f32", StepCos: "cos.approx.f32", StepTanh: "tanh.approx.f32", StepRsqrt: "rsqrt.approx.f32", StepRcp: "rcp.approx.f32",
}

// String is the name of the thread-code instruction.
func (op StepOp) String() string { return stepNames[op] }

// Inputs is how many earlier steps an instruction reads.
func (op StepOp) Inputs() int {
	switch op {
	case StepArg, StepConst:
		return 0
	case StepSqrt, StepHigh, StepFromInt, StepFromInt64, StepExp2, StepLog2, StepSin, StepCos, StepTanh, StepRsqrt, StepRcp:
		return 1
	case StepFma, StepFunnel, StepSelect:
		return 3
	}
	return 2
}

func f32(c uint64) float32 { return math.Float32frombits(uint32(c)) }

// codeOf32 is the code of an arithmetic result: every NaN is the one of the type.
func codeOf32(v float32) uint64 {
	if v != v {
		return 0x7fffffff
	}
	return uint64(math.Float32bits(v))
}

// fma32 is a·b + c with one rounding.
func fma32(a, b, c float32) float32 {
	p := float64(float64(a) * float64(b)) // exact
	return float32(addOdd(p, float64(c)))
}

func b2c(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Approximate is the exactly rounded value of what a hardware approximation of
// f32 approximates.
func Approximate(op StepOp, x uint64) uint64 {
	v := float64(f32(x))
	switch op {
	case StepExp2:
		// Without .ftz the machine scales each argument and each result, for subnormal
		// ones that nobody asks for.
		if v = math.Exp2(v); v < 0x1p-126 {
			v = 0
		}
	case StepLog2:
		v = math.Log2(v)
	case StepSin:
		v = math.Sin(v)
	case StepCos:
		v = math.Cos(v)
	case StepTanh:
		v = math.Tanh(v)
	case StepRsqrt:
		if v == 0 {
			v = 1 / v
		} else {
			v = 1 / math.Sqrt(v)
		}
	case StepRcp:
		v = 1 / v
	default:
		panic("dtype: " + op.String() + " approximates nothing")
	}
	return codeOf32(float32(v))
}

// maxSteps bounds the length of a sequence.
const maxSteps = 112

// Eval is the function's code at an f32 code.
func (s *Sequence) Eval(x uint64) uint64 {
	var r [maxSteps]uint64
	for i := range s.Steps {
		t := &s.Steps[i]
		a, b, c := r[t.In[0]], r[t.In[1]], r[t.In[2]]
		var v uint64
		switch t.Op {
		case StepArg:
			v = x & 0xffffffff
		case StepConst:
			v = t.K
		case StepAdd:
			v = codeOf32(f32(a) + f32(b))
		case StepSub:
			v = codeOf32(f32(a) - f32(b))
		case StepMul:
			v = codeOf32(f32(a) * f32(b))
		case StepFma:
			v = codeOf32(fma32(f32(a), f32(b), f32(c)))
		case StepDiv:
			v = codeOf32(f32(a) / f32(b))
		case StepSqrt:
			v = codeOf32(float32(math.Sqrt(float64(f32(a)))))
		case StepLess:
			v = b2c(f32(a) < f32(b))
		case StepAnd:
			v = a & b
		case StepOr:
			v = a | b
		case StepXor:
			v = a ^ b
		case StepIntAdd:
			v = uint64(uint32(a + b))
		case StepIntSub:
			v = uint64(uint32(a - b))
		case StepIntMul:
			v = uint64(uint32(a * b))
		case StepMulHi:
			v = a * b >> 32
		case StepMulWide:
			v = a * b
		case StepShl:
			v = uint64(uint32(a << b))
		case StepShr:
			v = a >> b
		case StepSar:
			v = uint64(uint32(int32(uint32(a)) >> b))
		case StepFunnel:
			v = (b<<32 | a) << (c & 31) >> 32
		case StepIntLess:
			v = b2c(a < b)
		case StepSelect:
			if v = b; c != 0 {
				v = a
			}
		case StepAdd64:
			v = a + b
		case StepShl64:
			v = a << b
		case StepPack:
			v = b<<32 | a
		case StepHigh:
			v = a >> 32
		case StepFromInt:
			v = codeOf32(float32(int32(uint32(a))))
		case StepFromInt64:
			v = codeOf32(float32(int64(a)))
		default:
			v = Approximate(t.Op, a)
		}
		r[i] = v
	}
	return r[len(s.Steps)-1]
}

// EvalAs is the function on codes of f32, f16 or bf16.
func (s *Sequence) EvalAs(t Type, x uint64) uint64 {
	switch t {
	case F32:
		return s.Eval(x)
	case F16:
		return F16.Encode(float64(f32(s.Eval(F32.Encode(F16.Decode(x), false)))), false)
	case BF16:
		return BF16.Encode(float64(f32(s.Eval(x&0xffff<<16))), false)
	}
	panic(fmt.Sprintf("dtype: %s of %s", s.Name, t))
}

// Sequences lists the functions in alphabetical order; a function with a hardware
// approximation comes twice, the second time with Approx.
func Sequences() []*Sequence { return sequences() }

// SequenceOf finds a function by its name, or nil.
func SequenceOf(name string, approx bool) *Sequence {
	for _, s := range sequences() {
		if s.Name == name && s.Approx == approx {
			return s
		}
	}
	return nil
}

var sequences = sync.OnceValue(func() []*Sequence {
	return []*Sequence{
		sequence("Cos", 3, cosSteps),
		approximation("Cos", "absolute error up to 2^-20.5 for |x| ≤ π, none stated beyond", func(s *steps) ref { return s.op(StepCos, s.x()) }),
		sequence("Exp", 1.25, func(s *steps) ref { return s.exp(s.x()) }),
		approximation("Exp", "2 ulp; below 2^-126 it is 0", func(s *steps) ref { return s.op(StepExp2, s.mul(s.x(), s.f(math.Log2E))) }),
		sequence("Exp2", 1.25, exp2Steps),
		approximation("Exp2", "2 ulp; below 2^-126 it is 0", func(s *steps) ref { return s.op(StepExp2, s.x()) }),
		sequence("Log", 1.25, func(s *steps) ref { return s.log(s.x(), false) }),
		approximation("Log", "absolute error up to 2^-22 for x in [0.5, 2], else relative error up to 2^-21.5", func(s *steps) ref { return s.mul(s.op(StepLog2, s.x()), s.f(math.Ln2)) }),
		sequence("Log2", 1.5, func(s *steps) ref { return s.log(s.x(), true) }),
		approximation("Log2", "absolute error up to 2^-22 for x in [0.5, 2], else relative error up to 2^-22", func(s *steps) ref { return s.op(StepLog2, s.x()) }),
		sequence("Rsqrt", 1.5, func(s *steps) ref { return s.op(StepDiv, s.f(1), s.op(StepSqrt, s.x())) }),
		approximation("Rsqrt", "relative error up to 2^-22.9", func(s *steps) ref { return s.op(StepRsqrt, s.x()) }),
		sequence("Sigmoid", 2.5, sigmoidSteps),
		approximation("Sigmoid", "4 ulp", func(s *steps) ref {
			return s.op(StepRcp, s.op(StepAdd, s.f(1), s.op(StepExp2, s.mul(s.x(), s.f(-math.Log2E)))))
		}),
		sequence("Sin", 3, sinSteps),
		approximation("Sin", "absolute error up to 2^-20.5 for |x| ≤ π, none stated beyond", func(s *steps) ref { return s.op(StepSin, s.x()) }),
		sequence("Tanh", 1.75, tanhSteps),
		approximation("Tanh", "relative error up to 2^-11", func(s *steps) ref { return s.op(StepTanh, s.x()) }),
	}
})

func sequence(name string, ulps float64, build func(*steps) ref) *Sequence {
	s := &steps{consts: map[uint64]ref{}}
	s.list = append(s.list, Step{Op: StepArg})
	if last := build(s); int(last) != len(s.list)-1 {
		panic("dtype: the last step of " + name + " is not its result")
	}
	return &Sequence{Name: name, Steps: s.list, Ulps: ulps, Bound: fmt.Sprintf("%v ulp", ulps)}
}

func approximation(name, bound string, build func(*steps) ref) *Sequence {
	s := sequence(name, 0, build)
	s.Approx, s.Bound = true, bound
	return s
}

// steps writes a sequence.
type steps struct {
	list   []Step
	consts map[uint64]ref
}

// ref is the number of a step.
type ref uint8

func (s *steps) op(op StepOp, in ...ref) ref {
	t := Step{Op: op}
	if len(in) != op.Inputs() || len(s.list) >= maxSteps {
		panic("dtype: " + op.String())
	}
	for i, r := range in {
		t.In[i] = uint8(r)
	}
	s.list = append(s.list, t)
	return ref(len(s.list) - 1)
}

func (s *steps) x() ref { return 0 }

// k is a constant's bits, f an f32 number.
func (s *steps) k(bits uint32) ref {
	if r, ok := s.consts[uint64(bits)]; ok {
		return r
	}
	s.list = append(s.list, Step{Op: StepConst, K: uint64(bits)})
	r := ref(len(s.list) - 1)
	s.consts[uint64(bits)] = r
	return r
}

func (s *steps) f(v float64) ref { return s.k(math.Float32bits(float32(v))) }

func (s *steps) mul(a, b ref) ref    { return s.op(StepMul, a, b) }
func (s *steps) add(a, b ref) ref    { return s.op(StepAdd, a, b) }
func (s *steps) fma(a, b, c ref) ref { return s.op(StepFma, a, b, c) }

// where is a where p, else b.
func (s *steps) where(p, a, b ref) ref { return s.op(StepSelect, a, b, p) }

// poly is c[0] + c[1]·x + … by Horner's rule.
func (s *steps) poly(x ref, c ...uint32) ref {
	p := s.k(c[len(c)-1])
	for i := len(c) - 2; i >= 0; i-- {
		p = s.fma(p, x, s.k(c[i]))
	}
	return p
}

// clamp holds x to [lo, hi]; a NaN stays.
func (s *steps) clamp(x ref, lo, hi float64) ref {
	x = s.where(s.op(StepLess, x, s.f(lo)), s.f(lo), x)
	return s.where(s.op(StepLess, s.f(hi), x), s.f(hi), x)
}

// magic is 1.5·2^23: adding it rounds to a whole number, which then stands in
// the low bits.
const magic = 12582912

// scaled is p·2^n for the whole number n in the low bits of t = n + magic, in two
// products, so that results beyond 2^127 and below 2^-126 come out rounded once
// more at most.
func (s *steps) scaled(p, t ref) ref {
	n := s.op(StepIntSub, t, s.f(magic))
	half := s.op(StepSar, n, s.k(1))
	rest := s.op(StepIntSub, n, half)
	pow := func(n ref) ref { return s.op(StepShl, s.op(StepIntAdd, n, s.k(127)), s.k(23)) }
	return s.mul(s.mul(p, pow(half)), pow(rest))
}

// exp is e^x: x = n·ln 2 + r, e^r by a polynomial on |r| ≤ ln 2 / 2.
func (s *steps) exp(x ref) ref {
	x = s.clamp(x, -105, 90)
	t := s.add(s.mul(x, s.f(math.Log2E)), s.f(magic))
	n := s.op(StepSub, t, s.f(magic))
	// ln 2 in two parts; n times the first is exact.
	const high = 0.693145751953125
	r := s.fma(n, s.f(-high), x)
	r = s.fma(n, s.f(-(math.Ln2 - high)), r)
	p := s.poly(r, 0x3efffffe, 0x3e2aaa49, 0x3d2aac5b, 0x3c091cfe, 0x3ab52741)
	return s.scaled(s.add(s.fma(s.mul(r, r), p, r), s.f(1)), t)
}

// exp2Steps is 2^x: x = n + r with |r| ≤ 1/2.
func exp2Steps(s *steps) ref {
	x := s.clamp(s.x(), -152, 130)
	t := s.add(x, s.f(magic))
	r := s.op(StepSub, x, s.op(StepSub, t, s.f(magic)))
	p := s.poly(r, 0x3f317218, 0x3e75fde2, 0x3d6357b2, 0x3c1da009, 0x3aaf8610, 0x391a9798)
	return s.scaled(s.fma(r, p, s.f(1)), t)
}

// log is ln x, or log2 x: x = 2^e·m with m in [2/3, 4/3).
func (s *steps) log(x ref, two bool) ref {
	small := s.op(StepLess, x, s.k(0x00800000))
	y := s.where(small, s.mul(x, s.f(1<<23)), x)
	shift := s.where(small, s.f(-23), s.f(0))
	e := s.op(StepAnd, s.op(StepIntSub, y, s.k(0x3f2aaaab)), s.k(0xff800000))
	m := s.op(StepIntSub, y, e)
	exp := s.fma(s.op(StepFromInt, e), s.f(1.0/(1<<23)), shift)
	f := s.op(StepSub, m, s.f(1))
	sq := s.mul(f, f)
	p := s.poly(f, 0x3eaaaaab, 0xbe7fff8c, 0x3e4ccc48, 0xbe2acbf5, 0x3e126715, 0xbdf9cbda, 0x3dde2b3f, 0xbe038b7d, 0x3dedcf88)
	p = s.mul(s.mul(sq, f), p) // ln(1+f) = f − f²/2 + p
	var r ref
	if two {
		// Products with log2 e in two parts, the largest terms last.
		const high = 1.442626953125
		low := math.Log2E - high
		// f − f²/2 in two parts: hi + lo.
		hi := s.fma(sq, s.f(-0.5), f)
		lo := s.fma(sq, s.f(-0.5), s.op(StepSub, f, hi))
		lo = s.add(lo, p)
		// lo misses the rounding of sq, which is far below it.
		sum := s.mul(lo, s.f(math.Log2E))
		sum = s.fma(hi, s.f(low), sum)
		r = s.fma(hi, s.f(high), sum)
		r = s.add(exp, r)
	} else {
		const high = 0.693145751953125 // times e exact
		r = s.fma(sq, s.f(-0.5), p)
		r = s.fma(exp, s.f(math.Ln2-high), r)
		r = s.add(f, r)
		r = s.fma(exp, s.f(high), r)
	}
	inf := s.k(0x7f800000)
	r = s.where(s.op(StepLess, x, inf), r, s.add(x, inf)) // +inf and NaN stay
	r = s.where(s.op(StepLess, s.f(0), x), r, s.k(0xff800000))
	nan := s.k(0x7fffffff)
	r = s.where(s.op(StepLess, x, s.f(0)), nan, r)
	return s.where(s.op(StepIntLess, inf, s.op(StepAnd, x, nan)), nan, r)
}

// twoOverPi is 2/π in words, after two words of zeros.
var twoOverPi = [8]uint32{0, 0, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041}

// reduced splits |x| = q·π/2 + r with |r| ≤ π/4: q in the low two bits. It is
// Payne and Hanek's reduction, exact for every f32: the mantissa times the 96
// bits of 2/π that matter for its exponent, modulo 4, in 2^-62.
func (s *steps) reduced() (q, r ref) {
	bits := s.op(StepAnd, s.x(), s.k(0x7fffffff))
	at := s.op(StepIntSub, s.op(StepShr, bits, s.k(23)), s.k(127-31)) // exponent + 31, the first bit's place
	m := s.op(StepOr, s.op(StepShl, bits, s.k(8)), s.k(0x80000000))
	word := s.op(StepShr, at, s.k(5))
	bit := func(n uint32) ref {
		return s.op(StepIntLess, s.k(0), s.op(StepAnd, word, s.k(n)))
	}
	w := make([]ref, len(twoOverPi))
	for i, c := range twoOverPi {
		w[i] = s.k(c)
	}
	// The four words from number `word` on.
	b4, b2, b1 := bit(4), bit(2), bit(1)
	u := append([]ref(nil), w[:7]...)
	for i := range 4 {
		u[i] = s.where(b4, w[i+4], w[i])
	}
	v := make([]ref, 5)
	for i := range v {
		v[i] = s.where(b2, u[i+2], u[i])
	}
	x := make([]ref, 4)
	for i := range x {
		x[i] = s.where(b1, v[i+1], v[i])
	}
	a := s.op(StepFunnel, x[1], x[0], at)
	b := s.op(StepFunnel, x[2], x[1], at)
	c := s.op(StepFunnel, x[3], x[2], at)
	zero := s.k(0)
	p := s.op(StepPack, zero, s.op(StepIntMul, m, a))
	p = s.op(StepAdd64, p, s.op(StepMulWide, m, b))
	p = s.op(StepAdd64, p, s.op(StepPack, s.op(StepMulHi, m, c), zero))
	// p is |x|·2/π mod 4 in 2^-62: two bits of quadrant, then the fraction, which
	// is taken as signed, with the quadrant next to it.
	top := s.op(StepHigh, p)
	q = s.op(StepIntAdd, s.op(StepShr, top, s.k(30)), s.op(StepAnd, s.op(StepShr, top, s.k(29)), s.k(1)))
	frac := s.op(StepFromInt64, s.op(StepShl64, p, s.k(2)))
	r = s.mul(frac, s.f(math.Pi/2*math.Ldexp(1, -64)))
	// Arguments up to π/4 are their own r.
	near := s.op(StepIntLess, bits, s.f(math.Pi/4))
	return s.where(near, zero, q), s.where(near, bits, r)
}

func (s *steps) sinPoly(r ref) ref {
	sq := s.mul(r, r)
	return s.fma(s.mul(sq, r), s.poly(sq, 0xbe2aaaab, 0x3c088884, 0xb9500760, 0x363655d3), r)
}

func (s *steps) cosPoly(r ref) ref {
	sq := s.mul(r, r)
	p := s.poly(sq, 0xbf000000, 0x3d2aaaa4, 0xbab60572, 0x37ccc530)
	return s.fma(sq, p, s.f(1))
}

// quadrant picks sin or cos of r for quadrant q, sign as the bit 2 of q says, and
// NaN for what is not finite.
func (s *steps) quadrant(q, r, sign ref) ref {
	odd := s.op(StepIntLess, s.k(0), s.op(StepAnd, q, s.k(1)))
	v := s.where(odd, s.cosPoly(r), s.sinPoly(r))
	flip := s.op(StepShl, s.op(StepAnd, q, s.k(2)), s.k(30))
	v = s.op(StepXor, v, s.op(StepXor, flip, sign))
	finite := s.op(StepIntLess, s.op(StepAnd, s.x(), s.k(0x7fffffff)), s.k(0x7f800000))
	return s.where(finite, v, s.k(0x7fffffff))
}

func sinSteps(s *steps) ref {
	q, r := s.reduced()
	return s.quadrant(q, r, s.op(StepAnd, s.x(), s.k(0x80000000)))
}

func cosSteps(s *steps) ref {
	q, r := s.reduced()
	return s.quadrant(s.op(StepIntAdd, q, s.k(1)), r, s.k(0))
}

// tanhSteps is a polynomial below 0.6, else 1 − 2/(e^2|x| + 1).
func tanhSteps(s *steps) ref {
	abs := s.op(StepAnd, s.x(), s.k(0x7fffffff))
	sign := s.op(StepAnd, s.x(), s.k(0x80000000))
	e := s.exp(s.add(abs, abs))
	far := s.op(StepSub, s.f(1), s.op(StepDiv, s.f(2), s.add(e, s.f(1))))
	sq := s.mul(abs, abs)
	near := s.fma(s.mul(sq, abs), s.poly(sq, 0xbeaaaaa8, 0x3e0887c0, 0xbd5ce48d, 0x3cb1185b, 0xbc0316dd, 0x3b0326d6), abs)
	v := s.op(StepOr, s.where(s.op(StepIntLess, abs, s.f(0.6)), near, far), sign)
	return s.where(s.op(StepIntLess, s.k(0x7f800000), abs), s.k(0x7fffffff), v)
}

// sigmoidSteps is 1/(1 + e^-x), from e^-|x| so that no side overflows.
func sigmoidSteps(s *steps) ref {
	e := s.exp(s.op(StepOr, s.x(), s.k(0x80000000)))
	top := s.where(s.op(StepLess, s.x(), s.f(0)), e, s.f(1))
	return s.op(StepDiv, top, s.add(s.f(1), e))
}
