package cast

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
	"github.com/tilus-lab/tilus-lab/vm/recipe"
)

// Placed is [Tile] for a source whose bits lie in words as place says. It takes the
// recipe for the placement if there is one: for all codes, or with finite for those
// whose value is finite in the target type. To f16 one to bf16 will do that leads
// [Through]. Otherwise it gathers the bits first. taken, if not nil, hears of [Recipe].
func Placed(b *code.Builder, level code.Arch, to, from dtype.Type, slots []int, words []code.Value, place bits.Placement, finite bool, taken Taken) ([]code.Value, error) {
	r, units, err := recipe.ForPlacement(from, to, recipe.Exact, place, recipe.MinScale)
	whole := from.HasNaN() || from.HasInf() // a recipe may give another NaN
	if err == nil && Runs(r, level) && (finite || !whole && !r.Domain.Finite) {
		return Recipe(b, level, r, units, slots, words, taken)
	}
	r, units, err = recipe.ForPlacement(from, dtype.BF16, recipe.Exact, place, recipe.MinScale)
	if err == nil && to == dtype.F16 && Through(r) && level >= fmaBF16 {
		bare, power, _ := unscaled(r)
		out, err := Recipe(b, level, bare, units, slots, words, nil)
		return narrow(b, out, power), err
	}
	return Tile(b, level, to, from, slots, gather(b, place, words))
}

// Through reports whether a recipe to bf16 is the way to f16 as well: for floats of more
// exponents than f16 has, all of them finite numbers of bf16, which are then rounded once.
func Through(r *recipe.Recipe) bool {
	t := r.From
	_, power, ok := unscaled(r)
	return ok && power > 0 && power < 100 && r.Mode == recipe.Exact && r.Domain == (recipe.Domain{}) &&
		t.IsFloat() && t.Row().Exp > dtype.F16.Row().Exp && !t.HasNaN() && !t.HasInf()
}

// unscaled is a recipe to bf16 without the products by 2^power that it ends with: its words
// hold codes as they were cut out, with the exponents of their types.
func unscaled(r *recipe.Recipe) (bare *recipe.Recipe, power int, ok bool) {
	first := r.Place.Words()
	steps := first + len(r.Consts)
	out := make([]recipe.Ref, len(r.Out))
	for i, v := range r.Out {
		if int(v) < steps {
			return nil, 0, false
		}
		s := r.Steps[int(v)-steps]
		if s.Op != recipe.Mul || int(s.B) < first || int(s.B) >= steps {
			return nil, 0, false
		}
		by := r.Consts[int(s.B)-first]
		n := int(by>>7&0xff) - bias
		if by != uint32(n+bias)<<7*0x10001 || i > 0 && n != power {
			return nil, 0, false
		}
		out[i], power = s.A, n
	}
	without := *r
	without.Out = out
	return &without, power, r.To == dtype.BF16
}

// fmaBF16 is the first machine with arithmetic on bf16.
const fmaBF16 code.Arch = 80

// bias is that of the exponents of bf16 and f32.
const bias = 127

// narrow multiplies pairs of bf16 by 2^power and rounds them to f16. The integer pipe is busy
// with the masks that made them and with rounding, so products do the rest: one clears the
// lower number, x − x, beside the product of the upper one, to which x adds nothing that bf16
// keeps, but the sign of 0; another brings the lower one up. There the power is added to its
// exponent, which is right but for numbers without a leading 1: these, with the powers of
// [Through], are far below the least that f16 holds.
func narrow(b *code.Builder, pairs []code.Value, power int) []code.Value {
	// A grid has no 2^31 blocks along z, which ptxas does not know: of a product by a plain 2^16
	// and a sum it makes an instruction for the integer pipe.
	up := b.Or32(b.Shr32(b.Emit1(code.OpNctaidZ, nil), b.Const32(31)), b.Const32(1<<16))
	out := make([]code.Value, len(pairs))
	for i, x := range pairs {
		hi := b.Emit1(code.OpFmaBF16x2, nil, x, b.Const32(int64(power+bias)<<23|0xbf80), x)
		lo := b.Mad32(x, up, b.Const32(int64(power)<<23))
		out[i] = b.Emit1(code.OpF32x2ToF16x2, nil, lo, hi)
	}
	return out
}

// NativeE4M3 is the first machine that converts f8e4m3 itself.
const NativeE4M3 code.Arch = 89

// Runs reports whether all steps of a recipe have thread code on a machine of that
// level. Before [NativeE4M3] other instructions stand for the conversion of f8e4m3,
// but for its NaN.
func Runs(r *recipe.Recipe, level code.Arch) bool {
	return !r.Domain.NoNegZero && (level >= NativeE4M3 || r.From != dtype.F8E4M3)
}

// Taken is told of each word of a cast that comes of taking constant k off the word from.
type Taken func(word, from code.Value, k uint32)

// Recipe emits the steps of a recipe that [Runs], once for each unit of words.
// Slot s of the result is element slots[s] of the recipe's. taken, if not nil, hears of
// words whose last step takes a constant off.
func Recipe(b *code.Builder, level code.Arch, r *recipe.Recipe, units int, slots []int, words []code.Value, taken Taken) ([]code.Value, error) {
	n := r.Place.Words()
	out := make([]code.Value, 0, units*len(r.Out))
	for u := range units {
		out = append(out, steps(b, level, r, words[u*n:(u+1)*n], taken)...)
	}
	whole := len(slots)%2 == 0
	for s := 0; whole && s < len(slots); s += 2 {
		whole = slots[s]%2 == 0 && slots[s+1] == slots[s]+1
	}
	if !whole {
		return Tile(b, level, r.To, r.To, slots, out)
	}
	order := make([]code.Value, len(slots)/2)
	for j := range order {
		order[j] = out[slots[2*j]/2]
	}
	return order, nil
}

// steps emits one unit of a recipe.
func steps(b *code.Builder, level code.Arch, r *recipe.Recipe, words []code.Value, taken Taken) []code.Value {
	vals := slices.Clone(words)
	for _, c := range r.Consts {
		vals = append(vals, b.Const32(int64(c)))
	}
	lanes := map[recipe.Op]code.Op{recipe.Sub: code.OpSubF16x2, recipe.Mul: code.OpMulF16x2, recipe.Fma: code.OpFmaF16x2}
	if r.To == dtype.BF16 {
		lanes = map[recipe.Op]code.Op{recipe.Sub: code.OpSubBF16x2, recipe.Mul: code.OpMulBF16x2, recipe.Fma: code.OpFmaBF16x2}
	}
	for _, s := range r.Steps {
		x, y, z := vals[s.A], vals[s.B], vals[s.C]
		var v code.Value
		switch s.Op {
		case recipe.Shr:
			v = b.Shr32(x, b.Const32(int64(s.N)))
		case recipe.Shl:
			v = b.Shl32(x, b.Const32(int64(s.N)))
		case recipe.Funnel:
			v = b.Emit1(code.OpFunnelR32, nil, x, y, b.Const32(int64(s.N)))
		case recipe.Lop3:
			if s.N == recipe.LutAnd { // of two inputs: with a third, a constant, assemblers take longer and need a register for it
				v = b.And32(x, y)
			} else {
				v = b.Lop3(x, y, z, int64(s.N))
			}
		case recipe.Prmt:
			v = b.Prmt(x, y, uint16(s.N))
		case recipe.Fma:
			v = b.Emit1(lanes[s.Op], nil, x, y, z)
		case recipe.Sub, recipe.Mul:
			v = b.Emit1(lanes[s.Op], nil, x, y)
		case recipe.CvtE4M3:
			v = e4m3(b, level, x, s.N)
		default:
			panic("cast: a recipe with a step that has no thread code")
		}
		vals = append(vals, v)
	}
	out := make([]code.Value, len(r.Out))
	first := recipe.Ref(len(words) + len(r.Consts))
	for i, v := range r.Out {
		out[i] = vals[v]
		if taken == nil || v < first {
			continue
		}
		if s := r.Steps[v-first]; s.Op == recipe.Sub && int(s.B) >= len(words) && s.B < first {
			taken(out[i], vals[s.A], r.Consts[int(s.B)-len(words)])
		}
	}
	return out
}

// e4m3 makes f16x2 of half n of x, two f8e4m3 that are no NaN before [NativeE4M3].
func e4m3(b *code.Builder, level code.Arch, x code.Value, n uint32) code.Value {
	if level >= NativeE4M3 {
		return b.Emit1(code.OpE4M3x2ToF16x2, nil, b.Emit1([]code.Op{code.OpTrunc16, code.OpHi16}[n], nil, x))
	}
	// Each byte to the high half of a lane; below the sign it moves right by one bit,
	// so that it is an f16 with an exponent that is 8 too small.
	zero := b.Const32(0)
	x = b.Prmt(x, zero, uint16(0x1404+0x2020*n))
	rest := b.Shr32(b.And32(x, b.Const32(0x7f007f00)), b.Const32(1))
	return b.Emit1(code.OpMulF16x2, nil, b.Lop3(x, b.Const32(0x80008000), rest, recipe.LutAndOr), b.Const32(0x5c005c00))
}

// gather brings placed elements into slot order, run of bits by run of bits.
func gather(b *code.Builder, place bits.Placement, words []code.Value) []code.Value {
	if place.IsIdentity() {
		return words
	}
	w, n := place.Bits(), place.Elements()*place.Bits()
	at := func(i int) int { return place.At(i/w, i%w) }
	out := make([]code.Value, (n+31)/32)
	for i := 0; i < n; {
		// Bits i to i+size-1 of the result stand together in one word of each.
		size := 1
		for i+size < n && (i+size)%32 != 0 && at(i+size)%32 != 0 && at(i+size) == at(i)+size {
			size++
		}
		v, pos := words[at(i)/32], at(i)%32
		switch {
		case size == 32:
		case out[i/32] == 0 && i%32 == 0:
			v = b.BfeU(v, pos, size)
		default:
			v = b.Bfi(b.BfeU(v, pos, size), out[i/32], i%32, size)
		}
		out[i/32] = v
		i += size
	}
	return out
}
