// Package recipe turns words full of low-bit elements into f16x2 or bf16x2 words
// with few instructions, and proves that it does.
//
// A [Recipe] is a straight line of abstract thread-level steps on b32 words:
// shifts, rotates, mask-and-xor (LOP3), byte permutes, one cvt, and x2 arithmetic.
// It reads the words of one unit, in which its elements lie as its placement says,
// and gives one word for every two elements: element 2j in the low half of output
// word j, element 2j+1 in the high half. Because the bits of weights are placed
// offline, a single mask can cut two codes out of a word where the target format
// wants them; [Search] looks for the placement and the steps together, [Prove]
// checks a recipe on every code at every element, and [Lookup] reads the table of
// recipes that the search has found.
//
// # Exact and deferred
//
// An Exact recipe gives what dtype.Cast gives, though it may give another NaN. A
// Deferred one leaves arithmetic
// to the accumulator that consumes the words: output word j holds
//
//	(value + Offset[j]) · 2^Scale[j]
//
// exactly. The power of two joins the scale of the row to which the word belongs;
// the offset becomes the start value of the accumulator, −Offset·2^Scale times the
// sum of the activations. Every (Scale, Offset) occurs on an even number of words,
// and words 4i and 4i+2 share one, as do 4i+1 and 4i+3: the four words of an
// m16n8k16 A fragment, whose rows g and g+8 take turns. A unit of two words
// has one (Scale, Offset).
//
// # Recoded storage
//
// A recipe with Recode stores another code of the same width: two's complement as
// offset binary, or the sign and magnitude of a float with one exponent bit, whose
// values form a uniform grid, as offset binary. The latter loses the sign of zero,
// which Domain says.
//
// # Cost
//
// The model counts issue slots: each step is one instruction, shared values cost a
// register and no instruction, and a mask with a constant xored in is one LOP3. Of recipes
// of as many steps the one is better that leaves more to other pipes than that of integers,
// which is half as wide: ptxas makes products of shifts left.
// Source: NVIDIA PTX ISA 8.7, instructions lop3, shf, prmt, cvt and those on f16x2.
package recipe

import (
	"cmp"
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

// Op is a kind of step.
type Op uint8

// The steps. Lanes are the two 16-bit halves of a word, in the type of the recipe.
const (
	Shr     Op = iota + 1 // A >> N
	Shl                   // A << N
	Funnel                // the low 32 bits of (B:A) >> N; with B = A a rotate right
	Lop3                  // bit by bit the function of A, B, C that the table N says, as PTX lop3
	Prmt                  // bytes of B:A, chosen by the four low nibbles of N, as PTX prmt without sign mode
	CvtE4M3               // half N (0, 1) of A: two f8e4m3 bytes to f16x2
	Sub                   // A − B in each lane
	Mul                   // A · B in each lane
	Fma                   // A · B + C in each lane, one rounding
)

// The functions of [Lop3] that recipes use.
const (
	LutAnd    = 0xc0 // A & B
	LutAndXor = 0x6a // A & B ^ C
	LutAndOr  = 0xea // A & B | C
	LutXor    = 0x3c // A ^ B
)

var opRows = [...]struct {
	name  string
	arity int
	limit uint32 // N is below it; 0: no N
}{
	Shr: {"shr", 1, 32}, Shl: {"shl", 1, 32}, Funnel: {"funnel", 2, 32}, Lop3: {"lop3", 3, 256},
	Prmt: {"prmt", 2, 1 << 16}, CvtE4M3: {"cvt_e4m3", 1, 2}, Sub: {"sub", 2, 0}, Mul: {"mul", 2, 0}, Fma: {"fma", 3, 0},
}

// String is the name of the step in recipe text.
func (o Op) String() string {
	if o == 0 || int(o) >= len(opRows) {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return opRows[o].name
}

// Arity is the number of operands.
func (o Op) Arity() int { return opRows[o].arity }

// Ref names a value of a recipe: first the input words, then the shared values,
// then the results of the steps, counted on.
type Ref int

// Step is one instruction. Operands beyond the arity are 0.
type Step struct {
	Op      Op
	A, B, C Ref
	N       uint32
}

// Mode says how much a recipe leaves to the accumulator.
type Mode uint8

// The modes.
const (
	Exact    Mode = iota // dtype.Cast
	Deferred             // (value + Offset)·2^Scale
)

// String is the mode in recipe text.
func (m Mode) String() string {
	if m == Deferred {
		return "deferred"
	}
	return "exact"
}

// Domain says for which codes a recipe holds.
type Domain struct {
	Finite    bool // only for codes whose value is finite in the target type
	NoNegZero bool // −0 comes out as +0
}

// Recipe is a conversion of one unit: Place.Words() words to len(Out) words.
type Recipe struct {
	From, To dtype.Type
	Mode     Mode
	Domain   Domain
	Place    bits.Placement // of the stored codes
	Recode   bool           // stored as offset binary
	Consts   []uint32       // shared values
	Steps    []Step
	Out      []Ref // [⌈elements/2⌉]
	Scale    []int // [len(Out)], nil if Exact
	Offset   []int // [len(Out)], nil if Exact
}

// Elements is the number of elements of a unit; it is even.
func (r *Recipe) Elements() int { return r.Place.Elements() }

// Cost counts the steps of one unit by kind.
type Cost struct {
	Shift, Lop3, Prmt, Cvt int // integer pipe
	Arith                  int // floating-point pipe
	Elements               int
	Left                   int // of the shifts, those left: products, which the integer pipe is spared
}

// Cost counts the steps.
func (r *Recipe) Cost() Cost {
	c := Cost{Elements: r.Elements()}
	for _, s := range r.Steps {
		switch s.Op {
		case Shr, Funnel:
			c.Shift++
		case Shl:
			c.Shift++
			c.Left++
		case Lop3:
			c.Lop3++
		case Prmt:
			c.Prmt++
		case CvtE4M3:
			c.Cvt++
		default:
			c.Arith++
		}
	}
	return c
}

// Integer is the number of steps off the floating-point pipe.
func (c Cost) Integer() int { return c.Shift + c.Lop3 + c.Prmt + c.Cvt }

// Pipe is the number of steps that the integer pipe takes.
func (c Cost) Pipe() int { return c.Integer() - c.Left }

// PerElement is the number of instructions per element.
func (c Cost) PerElement() float64 { return float64(c.Integer()+c.Arith) / float64(c.Elements) }

// less orders by instructions per element, then by those off the floating-point pipe, then by
// those of the integer pipe.
func (c Cost) less(d Cost) bool {
	return cmp.Or(
		cmp.Compare((c.Integer()+c.Arith)*d.Elements, (d.Integer()+d.Arith)*c.Elements),
		cmp.Compare(c.Integer()*d.Elements, d.Integer()*c.Elements),
		cmp.Compare(c.Pipe()*d.Elements, d.Pipe()*c.Elements)) < 0
}

// Stored is the stored code of each code: nil if it is the code itself.
func (r *Recipe) Stored() []uint8 {
	if !r.Recode {
		return nil
	}
	return recoding(r.From)
}

// Pack stores codes [m·Elements] in words [m·Words]: recode, then place. It panics
// if the codes are no whole number of units.
func (r *Recipe) Pack(codes []uint64) []uint32 {
	table := r.Stored()
	if table == nil {
		return r.Place.Pack(codes)
	}
	stored := make([]uint64, len(codes))
	for i, c := range codes {
		stored[i] = uint64(table[c&r.From.Mask()])
	}
	return r.Place.Pack(stored)
}

// Unpack is the inverse of Pack: words [m·Words] to codes [m·Elements]. A stored
// code that stands for two codes gives the smaller, which is +0; one that stands
// for none gives 0.
func (r *Recipe) Unpack(words []uint32) []uint64 {
	codes := r.Place.Unpack(words)
	table := r.Stored()
	if table == nil {
		return codes
	}
	back := make([]uint64, len(table))
	for c := len(table) - 1; c >= 0; c-- {
		back[table[c]] = uint64(c)
	}
	for i, s := range codes {
		codes[i] = back[s]
	}
	return codes
}

// recoding is the offset-binary storage of a type, nil if it has none.
func recoding(t dtype.Type) []uint8 {
	w := t.Bits()
	grid := t.IsFloat() && t.Row().Exp == 1
	if w < 2 || w > 8 || t.Kind() != dtype.Int && !grid {
		return nil
	}
	out := make([]uint8, 1<<w)
	half := 1 << (w - 1)
	for c := range out {
		switch {
		case t.Kind() == dtype.Int:
			out[c] = uint8(c ^ half)
		case c < half:
			out[c] = uint8(half + c)
		default:
			out[c] = uint8(half - (c - half))
		}
	}
	return out
}

// Run interprets the recipe on the words [Words] of one unit and gives the output
// words. It is the meaning of a recipe; lowering must agree with it.
func (r *Recipe) Run(words []uint32) []uint32 {
	if len(words) != r.Place.Words() {
		panic(fmt.Sprintf("recipe: %d words for a unit of %d", len(words), r.Place.Words()))
	}
	vals := make([]uint32, 0, len(words)+len(r.Consts)+len(r.Steps))
	vals = append(append(vals, words...), r.Consts...)
	for _, s := range r.Steps {
		vals = append(vals, r.step(s, vals[s.A], vals[s.B], vals[s.C]))
	}
	out := make([]uint32, len(r.Out))
	for i, v := range r.Out {
		out[i] = vals[v]
	}
	return out
}

func (r *Recipe) step(s Step, a, b, c uint32) uint32 {
	lanes := func(f func(a, b, c uint64) uint64) uint32 {
		lo := f(uint64(a&0xffff), uint64(b&0xffff), uint64(c&0xffff))
		hi := f(uint64(a>>16), uint64(b>>16), uint64(c>>16))
		return uint32(lo) | uint32(hi)<<16
	}
	switch s.Op {
	case Shr:
		return a >> s.N
	case Shl:
		return a << s.N
	case Funnel:
		return uint32((uint64(b)<<32 | uint64(a)) >> s.N)
	case Lop3:
		var out uint32
		for i := range uint32(8) {
			if s.N>>i&1 != 0 { // minterm i: bits of (a, b, c) from high to low
				out |= (a ^ (i>>2&1 - 1)) & (b ^ (i>>1&1 - 1)) & (c ^ (i&1 - 1))
			}
		}
		return out
	case Prmt:
		from, out := uint64(b)<<32|uint64(a), uint32(0)
		for i := range 4 {
			out |= uint32(from>>(8*(s.N>>(4*i)&7))&0xff) << (8 * i)
		}
		return out
	case CvtE4M3:
		a >>= 16 * s.N
		return uint32(dtype.Cast(dtype.F16, dtype.F8E4M3, uint64(a&0xff))) |
			uint32(dtype.Cast(dtype.F16, dtype.F8E4M3, uint64(a>>8&0xff)))<<16
	case Sub:
		return lanes(func(a, b, _ uint64) uint64 { return dtype.Sub(r.To, a, b) })
	case Mul:
		return lanes(func(a, b, _ uint64) uint64 { return dtype.Mul(r.To, a, b) })
	case Fma:
		return lanes(func(a, b, c uint64) uint64 { return dtype.Fma(r.To, a, b, c) })
	}
	panic("recipe: no step " + s.Op.String())
}

// check finds what makes a recipe meaningless: types, operands that do not come
// before their use, immediates out of range, lists of other lengths.
func (r *Recipe) check() error {
	if r.From.Bits() < 1 || r.From.Bits() > 8 || r.To != dtype.F16 && r.To != dtype.BF16 {
		return fmt.Errorf("recipe: no recipes from %s to %s", r.From, r.To)
	}
	n := r.Place.Elements()
	if r.Place.Bits() != r.From.Bits() || n == 0 || n%2 != 0 || len(r.Out) != n/2 {
		return fmt.Errorf("recipe: %d elements of %d bits and %d output words are no unit of %s", n, r.Place.Bits(), len(r.Out), r.From)
	}
	if r.Recode && recoding(r.From) == nil {
		return fmt.Errorf("recipe: %s has no recoded storage", r.From)
	}
	if r.Mode == Exact && (r.Scale != nil || r.Offset != nil) || r.Mode == Deferred && (len(r.Scale) != len(r.Out) || len(r.Offset) != len(r.Out)) {
		return fmt.Errorf("recipe: %d scales and %d offsets for %d output words of a %s recipe", len(r.Scale), len(r.Offset), len(r.Out), r.Mode)
	}
	have := Ref(r.Place.Words() + len(r.Consts))
	for i, s := range r.Steps {
		if s.Op == 0 || int(s.Op) >= len(opRows) {
			return fmt.Errorf("recipe: step %d is no step", i)
		}
		row := opRows[s.Op]
		for j, ref := range []Ref{s.A, s.B, s.C} {
			if ref < 0 || ref >= have || j >= row.arity && ref != 0 {
				return fmt.Errorf("recipe: step %d (%s) has no operand %d", i, s.Op, ref)
			}
		}
		if s.N != 0 && s.N >= row.limit || s.Op == Prmt && s.N&0x8888 != 0 {
			return fmt.Errorf("recipe: step %d: %#x is too large for %s", i, s.N, s.Op)
		}
		if s.Op == CvtE4M3 && r.To != dtype.F16 {
			return fmt.Errorf("recipe: step %d: cvt_e4m3 gives f16, not %s", i, r.To)
		}
		have++
	}
	for _, v := range r.Out {
		if v < 0 || v >= have {
			return fmt.Errorf("recipe: no output value %d", v)
		}
	}
	return nil
}
