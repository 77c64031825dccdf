package code

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// reference is a second meaning of each pure row, written from the PTX manual
// with big numbers and loops over bits, apart from the row's own. It gives nil
// for a row that has none yet, which the test reports.

type args struct {
	imm     []int64
	a, b, c uint64
	width   int // bits of the first input
}

func bigU(v uint64) *big.Int { return new(big.Int).SetUint64(v) }

// bigS is the signed number in the low n bits.
func bigS(v uint64, n int) *big.Int {
	x := bigU(v & (1<<n - 1))
	if n == 64 {
		x = bigU(v)
	}
	if x.Bit(n-1) == 1 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(n)))
	}
	return x
}

// low is x modulo 2^n.
func low(x *big.Int, n int) uint64 {
	m := new(big.Int).Lsh(big.NewInt(1), uint(n))
	return new(big.Int).Mod(x, m).Uint64()
}

func bit(v uint64, k int) uint64 { return v >> k & 1 }

// number is the exact value of a float code; ok is false for NaN and infinity.
func number(t dtype.Type, code uint64) (*big.Float, bool) {
	v := t.Decode(code)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, false
	}
	return new(big.Float).SetPrec(4000).SetFloat64(v), true
}

// nearest rounds an exact number to a float type: it searches the two codes
// around it among the nonnegative ones, which are in order.
func nearest(t dtype.Type, v *big.Float, zeroNegative bool) uint64 {
	sign := uint64(1) << (t.Bits() - 1)
	if v.Sign() == 0 {
		if zeroNegative {
			return sign
		}
		return 0
	}
	mag := new(big.Float).SetPrec(4000).Abs(v)
	inf := t.Inf(false)
	at := func(code uint64) *big.Float {
		if code == inf { // one step above the greatest number
			x, _ := number(t, inf-1)
			y, _ := number(t, inf-2)
			return new(big.Float).SetPrec(4000).Add(x, new(big.Float).SetPrec(4000).Sub(x, y))
		}
		x, _ := number(t, code)
		return x
	}
	lo, hi := uint64(0), inf
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; at(mid).Cmp(mag) <= 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	down := new(big.Float).SetPrec(4000).Sub(mag, at(lo))
	up := new(big.Float).SetPrec(4000).Sub(at(hi), mag)
	code := lo
	if c := down.Cmp(up); c > 0 || c == 0 && lo&1 == 1 {
		code = hi
	}
	if v.Sign() < 0 {
		code |= sign
	}
	return code
}

// arith is + - * fma in exact arithmetic with the rules for infinity and NaN.
func arith(op string, t dtype.Type, x args) uint64 {
	mask := t.Mask()
	a, b, c := x.a&mask, x.b&mask, x.c&mask
	sign := uint64(1) << (t.Bits() - 1)
	switch op {
	case "add": // a·1 + b
		c, b = b, nearest(t, big.NewFloat(1), false)
	case "sub":
		c, b = b^sign, nearest(t, big.NewFloat(1), false)
	case "mul": // a·b + (a zero of the product's sign)
		c = (a ^ b) & sign
	}
	va, vb, vc := t.Decode(a), t.Decode(b), t.Decode(c)
	if s := math.FMA(va, vb, vc); math.IsNaN(s) { // all cases of NaN are those of f64
		return t.NaN()
	}
	na, ok1 := number(t, a)
	nb, ok2 := number(t, b)
	nc, ok3 := number(t, c)
	if !ok1 || !ok2 {
		return t.Inf((a^b)&sign != 0)
	}
	if !ok3 {
		return t.Inf(c&sign != 0)
	}
	p := new(big.Float).SetPrec(4000).Mul(na, nb)
	s := new(big.Float).SetPrec(4000).Add(p, nc)
	negative := (a^b)&sign != 0 && c&sign != 0
	return nearest(t, s, negative)
}

// quotient rounds a/b by comparing a with b times the midpoints.
func quotient(t dtype.Type, x args) uint64 {
	sign := uint64(1) << (t.Bits() - 1)
	va, vb := t.Decode(x.a), t.Decode(x.b)
	if math.IsNaN(va / vb) {
		return t.NaN()
	}
	negative := (x.a^x.b)&sign != 0
	na, ok := number(t, x.a)
	nb, ok2 := number(t, x.b)
	switch {
	case !ok || vb == 0:
		return t.Inf(negative)
	case !ok2 || va == 0:
		return nearest(t, new(big.Float), negative)
	}
	// 4000 bits hold enough of the quotient to be on the right side of any
	// midpoint it does not equal.
	return nearest(t, new(big.Float).SetPrec(4000).Quo(na, nb), negative)
}

func root(t dtype.Type, x args) uint64 {
	v := t.Decode(x.a)
	n, ok := number(t, x.a)
	switch {
	case v != v || v < 0:
		return t.NaN()
	case !ok || v == 0:
		return x.a
	}
	return nearest(t, n.Sqrt(n), false)
}

// pickFloat is min and max.
func pickFloat(least bool, t dtype.Type, x args) uint64 {
	a, b := x.a&t.Mask(), x.b&t.Mask()
	va, vb := t.Decode(a), t.Decode(b)
	if va != va && vb != vb {
		return t.NaN()
	}
	if va != va {
		return b
	}
	if vb != vb {
		return a
	}
	less := va < vb || va == vb && math.Signbit(va) && !math.Signbit(vb)
	if less == least {
		return a
	}
	return b
}

func intBits(name string) (n int, isSigned bool, t dtype.Type) {
	switch {
	case strings.HasPrefix(name, "s32"):
		return 32, true, dtype.I32
	case strings.HasPrefix(name, "s64"):
		return 64, true, dtype.I64
	case strings.HasPrefix(name, "u32"):
		return 32, false, dtype.U32
	}
	return 64, false, dtype.U64
}

var floats = map[string]dtype.Type{"f16": dtype.F16, "bf16": dtype.BF16, "f32": dtype.F32, "f64": dtype.F64}

// convert is the cvt rows.
func convert(to, from string, x args) uint64 {
	ft, fromFloat := floats[from]
	tt, toFloat := floats[to]
	switch {
	case fromFloat && toFloat:
		v := ft.Decode(x.a)
		n, ok := number(ft, x.a)
		switch {
		case from == "bf16": // bits alone
			return x.a << 16
		case v != v:
			return tt.NaN()
		case !ok:
			return tt.Inf(v < 0)
		}
		return nearest(tt, n, math.Signbit(v))
	case toFloat:
		n, isSigned, _ := intBits(from)
		i := bigU(x.a)
		if isSigned {
			i = bigS(x.a, n)
		}
		return nearest(tt, new(big.Float).SetPrec(4000).SetInt(i), false)
	}
	n, isSigned, _ := intBits(to)
	lo, hi := new(big.Int), new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(n)), big.NewInt(1))
	if isSigned {
		hi.Rsh(hi, 1)
		lo.Not(hi)
	}
	v := ft.Decode(x.a)
	var i *big.Int
	switch num, ok := number(ft, x.a); {
	case v != v:
		if n == 32 && from != "f64" {
			return 0
		}
		return 1 << (n - 1)
	case !ok && v > 0:
		i = hi
	case !ok:
		i = lo
	default:
		i, _ = num.Int(nil) // toward zero
	}
	if i.Cmp(lo) < 0 {
		i = lo
	}
	if i.Cmp(hi) > 0 {
		i = hi
	}
	return low(i, n)
}

func relation(c Cmp, sign int) uint64 {
	ok := map[Cmp]bool{EQ: sign == 0, NE: sign != 0, LT: sign < 0, LE: sign <= 0, GT: sign > 0, GE: sign >= 0}[c]
	if ok {
		return 1
	}
	return 0
}

// reference gives the result; ok is false where there is no second meaning.
func reference(name string, x args) (r uint64, ok bool) {
	w := x.width
	ua, ub, sa, sb := bigU(x.a), bigU(x.b), bigS(x.a, max(w, 1)), bigS(x.b, max(w, 1))
	op := func(f func(z, x, y *big.Int) *big.Int, a, b *big.Int) *big.Int { return f(new(big.Int), a, b) }
	add, sub, mul := (*big.Int).Add, (*big.Int).Sub, (*big.Int).Mul
	parts := strings.Split(name, ".")
	switch parts[0] {
	case "const":
		return 0, false
	case "add", "sub", "mul", "fma", "div", "sqrt", "min", "max", "neg", "abs":
		last := parts[len(parts)-1]
		if t, isFloat := floats[strings.TrimSuffix(last, "x2")]; isFloat {
			one := func(x args) uint64 {
				switch parts[0] {
				case "div":
					return quotient(t, x)
				case "sqrt":
					return root(t, x)
				case "min", "max":
					if va, vb := t.Decode(x.a), t.Decode(x.b); parts[1] == "NaN" && (va != va || vb != vb) {
						return 1<<(t.Bits()-1) - 1
					}
					return pickFloat(parts[0] == "min", t, x)
				case "neg", "abs":
					v := bitsOf(t, x.a)
					v[t.Bits()-1] = 1 - v[t.Bits()-1]
					if parts[0] == "abs" {
						v[t.Bits()-1] = 0
					}
					return fromBits(v)
				}
				return arith(parts[0], t, x)
			}
			if strings.HasSuffix(last, "x2") {
				hi := one(args{a: x.a >> 16, b: x.b >> 16, c: x.c >> 16})
				return hi<<16 | one(args{a: x.a & 0xffff, b: x.b & 0xffff, c: x.c & 0xffff}), true
			}
			return one(x), true
		}
	case "setp":
		if t, isFloat := floats[parts[1]]; isFloat {
			va, vb := t.Decode(x.a), t.Decode(x.b)
			if va != va || vb != vb {
				return relation(Cmp(x.imm[0]), 1) & relation(Cmp(x.imm[0]), -1) & (1 - relation(Cmp(x.imm[0]), 0)), true
			}
			return relation(Cmp(x.imm[0]), big.NewFloat(va).Cmp(big.NewFloat(vb))), true
		}
		if parts[1][0] == 's' {
			return relation(Cmp(x.imm[0]), sa.Cmp(sb)), true
		}
		return relation(Cmp(x.imm[0]), ua.Cmp(ub)), true
	case "selp":
		return []uint64{x.b, x.a}[x.c], true
	case "cvt":
		p := parts[1:]
		if p[0] == "rni" || p[0] == "rmi" || p[0] == "rpi" || p[0] == "rzi" && floats[p[1]] != 0 {
			return whole(p[0], floats[p[1]], x.a), true
		}
		if p[0] == "rn" || p[0] == "rzi" {
			p = p[1:]
		}
		switch name {
		case "cvt.u32.u16", "cvt.u64.u32":
			return x.a, true
		case "cvt.s32.s16":
			return low(bigS(x.a, 16), 32), true
		case "cvt.s64.s32":
			return low(bigS(x.a, 32), 64), true
		case "cvt.u16.u32":
			return low(ua, 16), true
		case "cvt.u32.u64":
			return low(ua, 32), true
		case "cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32":
			to := strings.TrimSuffix(p[0], "x2")
			return convert(to, "f32", args{a: x.b})<<16 | convert(to, "f32", x), true
		case "cvt.rn.f16x2.e4m3x2":
			half := func(code uint64) uint64 { // S EEEE MMM with a bias of 7; all ones is the one NaN
				v := math.Ldexp(float64(code&7), -9)
				if e := int(code >> 3 & 15); e > 0 {
					v = math.Ldexp(float64(8+code&7), e-10)
				}
				if code&0x7f == 0x7f {
					v = math.NaN()
				}
				return dtype.F16.Encode(math.Copysign(v, float64(int(code^0x80)-0x80)+0.5), false)
			}
			return half(x.a>>8)<<16 | half(x.a&0xff), true
		}
		return convert(p[0], p[1], x), true
	}
	switch name {
	case "add.b32", "add.b64":
		return low(op(add, ua, ub), w), true
	case "sub.b32", "sub.b64":
		return low(op(sub, ua, ub), w), true
	case "mul.lo.b32", "mul.lo.b64":
		return low(op(mul, ua, ub), w), true
	case "mul.hi.u32", "mul.hi.u64":
		return low(op(mul, ua, ub).Rsh(op(mul, ua, ub), uint(w)), w), true
	case "mul.hi.s32":
		return low(new(big.Int).Rsh(op(mul, sa, sb), 32), 32), true
	case "mul.wide.u32":
		return low(op(mul, ua, ub), 64), true
	case "mul.wide.s32":
		return low(op(mul, sa, sb), 64), true
	case "mad.lo.b32":
		return low(op(add, op(mul, ua, ub), bigU(x.c)), 32), true
	case "mad.wide.u32":
		return low(op(add, op(mul, ua, ub), bigU(x.c)), 64), true
	case "mad.wide.s32":
		return low(op(add, op(mul, sa, sb), bigU(x.c)), 64), true
	case "min.s32", "min.s64", "max.s32", "max.s64":
		if (sa.Cmp(sb) < 0) == (parts[0] == "min") {
			return x.a, true
		}
		return x.b, true
	case "min.u32", "min.u64", "max.u32", "max.u64":
		if (ua.Cmp(ub) < 0) == (parts[0] == "min") {
			return x.a, true
		}
		return x.b, true
	case "neg.s32", "neg.s64":
		return low(new(big.Int).Neg(sa), w), true
	case "abs.s32":
		return low(new(big.Int).Abs(sa), w), true
	case "div.u32", "div.u64":
		return low(op((*big.Int).Quo, ua, ub), w), true
	case "div.s32", "div.s64":
		return low(op((*big.Int).Quo, sa, sb), w), true
	case "rem.u32", "rem.u64":
		return low(op((*big.Int).Rem, ua, ub), w), true
	case "rem.s32", "rem.s64":
		return low(op((*big.Int).Rem, sa, sb), w), true
	case "popc.b32":
		return uint64(len(strings.ReplaceAll(bigU(x.a).Text(2), "0", ""))), true
	case "clz.b32":
		return uint64(32 - ua.BitLen()), true
	case "pack.b16":
		return x.a + x.b*65536, true
	case "pack.b32":
		return x.a + x.b*4294967296, true
	case "hi.b16":
		return x.a / 65536, true
	case "hi.b32":
		return x.a / 4294967296, true
	case "shl.b32", "shl.b64":
		return low(new(big.Int).Lsh(ua, uint(min(x.b, 64))), w), true
	case "shr.u32", "shr.u64":
		return low(new(big.Int).Rsh(ua, uint(min(x.b, 64))), w), true
	case "shr.s32", "shr.s64":
		return low(new(big.Int).Rsh(sa, uint(min(x.b, 64))), w), true
	case "shf.r.wrap.b32":
		return uint64(uint32(bits.RotateLeft64(x.b<<32|x.a, -int(x.c%32)))), true
	case "shf.l.wrap.b32":
		return low(new(big.Int).Rsh(new(big.Int).Lsh(bigU(x.b<<32|x.a), uint(x.c%32)), 32), 32), true
	}
	// The rest bit by bit.
	var out []uint64
	for k := range max(w, 1) {
		a, b, c := bit(x.a, k), bit(x.b, k), bit(x.c, k)
		var v uint64
		switch parts[0] {
		case "and":
			v = a * b
		case "or":
			v = max(a, b)
		case "xor":
			v = (a + b) % 2
		case "not":
			v = 1 - a
		case "lop3":
			v = bit(uint64(x.imm[0]), int(4*a+2*b+c))
		case "bfe":
			pos, n := int(x.imm[0]), int(x.imm[1])
			switch {
			case k < n:
				v = bit(x.a, pos+k)
			case parts[1] == "s32":
				v = bit(x.a, pos+n-1)
			}
		case "bfi":
			pos, n := int(x.imm[0]), int(x.imm[1])
			v = b
			if k >= pos && k < pos+n {
				v = bit(x.a, k-pos)
			}
		case "prmt":
			sel := int(x.c>>(k/8*4)) & 15
			at := sel % 8 * 8
			if sel >= 8 {
				at += 7
			} else {
				at += k % 8
			}
			v = bit(x.b<<32|x.a, at)
		default:
			return 0, false
		}
		out = append(out, v)
	}
	return fromBits(out), true
}

// whole is a float rounded to a whole number: down, then up where the rest says so.
func whole(how string, t dtype.Type, a uint64) uint64 {
	n, ok := number(t, a)
	v := t.Decode(a)
	switch {
	case v != v:
		return t.NaN()
	case !ok:
		return a
	}
	down, acc := n.Int(nil)
	if n.Sign() < 0 && acc != big.Exact {
		down.Sub(down, big.NewInt(1))
	}
	up := false
	rest := new(big.Float).SetPrec(4000).Sub(n, new(big.Float).SetPrec(4000).SetInt(down))
	switch how {
	case "rpi":
		up = rest.Sign() > 0
	case "rzi":
		up = rest.Sign() > 0 && n.Sign() < 0
	case "rni":
		half := rest.Cmp(big.NewFloat(0.5))
		up = half > 0 || half == 0 && down.Bit(0) == 1
	}
	if up {
		down.Add(down, big.NewInt(1))
	}
	return nearest(t, new(big.Float).SetPrec(4000).SetInt(down), math.Signbit(v))
}

func bitsOf(t dtype.Type, v uint64) []uint64 {
	var out []uint64
	for k := range t.Bits() {
		out = append(out, bit(v, k))
	}
	return out
}

func fromBits(b []uint64) uint64 {
	var r uint64
	for k, v := range b {
		r |= v << k
	}
	return r
}

// TestMeanings compares the meaning of every pure row with the reference over
// edge values and random ones.
func TestMeanings(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	edges := []uint64{0, 1, 2, 3, 31, 32, 33, 63, 64, 0x7f, 0x80, 0x3c00, 0x3c01, 0x7bff, 0x7c00, 0x7c01, 0x8000, 0x8001, 0xfbff, 0xfc00, 0xffff, 0x3f80, 0x7f7f, 0x7f80,
		0x3f800000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x80000000, 0x80000001, 0xff800000, 0x7fffffff, 0xffffffff, 0x4f000000, 0xcf000000, 0x4b000001, 0x33800000, 0x38800000, 0x00800000,
		0x3ff0000000000000, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7ff8000000000000, 1 << 63, 1<<63 - 1, ^uint64(0), 0x41e0000000000000, 0x43e0000000000000, 0x7fff7fff, 0x3c003c00}
	random := 400
	if testing.Short() {
		random = 60
	}
	for _, op := range Rows() {
		row := op.Row()
		if row.Meaning == nil || len(row.In) == 0 || row.Bound != nil { // approximations: below
			continue
		}
		draw := func(t Type) uint64 {
			v := edges[r.Intn(len(edges))]
			switch r.Intn(4) {
			case 0:
				v = r.Uint64()
			case 1:
				v = v<<16 | edges[r.Intn(len(edges))]
			case 2:
				v += uint64(r.Intn(3)) - 1
			}
			return v & t.Mask()
		}
		for n := range random + len(edges) {
			var in [3]uint64
			for i, typ := range row.In {
				in[i] = draw(typ)
			}
			if n < len(edges) {
				in[0] = edges[n] & row.In[0].Mask()
			}
			if row.NonZero && in[1] == 0 {
				continue
			}
			var imm []int64
			for _, k := range row.Imm {
				imm = append(imm, map[ImmKind]int64{ImmLut: int64(r.Intn(256)), ImmBit: int64(r.Intn(32)), ImmCmp: int64(r.Intn(6))}[k])
				if k == ImmWidth {
					imm[1] = 1 + r.Int63n(32-imm[0])
				}
			}
			x := args{imm, in[0], in[1], in[2], row.In[0].Bits()}
			want, ok := reference(row.Name, x)
			if !ok {
				t.Errorf("%s has no reference", row.Name)
				break
			}
			if got := row.Meaning(imm, in[0], in[1], in[2]); got != want {
				t.Errorf("%s %v %#x %#x %#x is %#x, want %#x", row.Name, imm, in[0], in[1], in[2], got, want)
				break
			}
		}
	}
}

// TestApproximations holds what machines approximate to bounds around float64's
// functions, and bounds to what they are for.
func TestApproximations(t *testing.T) {
	exact := map[Op]func(float64) float64{
		OpExp2ApproxF32: math.Exp2, OpLog2ApproxF32: math.Log2, OpSinApproxF32: math.Sin, OpCosApproxF32: math.Cos, OpTanhApproxF32: math.Tanh,
		OpRsqrtApproxF32: func(x float64) float64 { return math.Pow(x, -0.5) }, OpRcpApproxF32: func(x float64) float64 { return math.Pow(x, -1) },
	}
	for _, op := range Rows() {
		row := op.Row()
		if row.Bound == nil {
			continue
		}
		f := exact[op]
		if f == nil {
			t.Errorf("%s: give its exact function", op)
			continue
		}
		for _, v := range []float64{0.01, 0.5, 1, 1.25, 3, 2.5e-20, math.NaN(), math.Inf(1)} {
			in := dtype.F32.Encode(v, false)
			got, want := row.Meaning(nil, in, 0, 0), dtype.F32.Encode(f(dtype.F32.Decode(in)), false)
			if got != want {
				t.Errorf("%s of %v is %v, want %v", op, v, dtype.F32.Decode(got), dtype.F32.Decode(want))
			}
			inside := row.Bound.Domain == 0 || v <= row.Bound.Domain
			if !row.Bound.Holds(in, want, want) || want < 0x7f800000 && inside && row.Bound.Holds(in, dtype.F32.Encode(dtype.F32.Decode(want)*1.01+0.001, false), want) {
				t.Errorf("%s: the bound at %v", op, v)
			}
		}
	}
}
