// Package volta explains how a Volta warp multiplies matrices: which lanes form
// an octet, and what each HMMA.884 instruction of a 16×16×16 product does.
//
// A warp is eight threadgroups of four lanes. Octet x is threadgroups x and x+4;
// PTX and CuTe call its eight lanes a quadpair. One wmma.m16n16k16 gives each
// octet a quarter of the result, 8×8, over all of k. It is 4 sets, one for each
// four of k, of 4 steps where sums are f32 and of 2 steps where they are f16. In
// a step each threadgroup multiplies some of its rows of A with four columns of
// B, which one of the two threadgroups holds and both use.
//
// [New] runs a product on register files and keeps what every instruction, dot
// product and register write was made from: [Run.Frame] is the state after some
// instructions, [Run.Who] answers who wrote a register, and [Run.Events] is the
// whole story as one list. What is known from where, and what is only assumed,
// stands in tags; see [Facts].
//
// Source: Raihan, Goli, Aamodt, Modeling Deep Learning Accelerator Enabled GPUs,
// arXiv:1811.08309.
package volta

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
)

// Sums is the type in which products are summed.
type Sums uint8

// The two kinds of HMMA.884.
const (
	F32 Sums = iota // 4 steps a set
	F16             // 2 steps a set
)

func (s Sums) String() string { return [...]string{"f32", "f16"}[s] }

// Steps is the number of instructions in a set.
func (s Sums) Steps() int { return [...]int{4, 2}[s] }

// Sets is the number of sets of a 16×16×16 product.
const Sets = 4

// Range is from first to last, both included.
type Range struct{ First, Last int }

// Octet is eight lanes that multiply together, and their part of a 16×16×16 product.
type Octet struct {
	Number       int
	Threadgroups [2]int
	Lanes        [8]int
	Rows         Range // of A and of the result
	Columns      Range // of B and of the result
	K            Range
}

// Octets are the four octets of a warp.
func Octets() []Octet {
	var out []Octet
	for q := range 4 {
		o := Octet{Number: q, Threadgroups: [2]int{q, q + 4}, K: Range{0, 15}}
		for i := range 4 {
			o.Lanes[i], o.Lanes[4+i] = 4*q+i, 16+4*q+i
		}
		row, column := q%2*8, q/2*8
		o.Rows, o.Columns = Range{row, row + 7}, Range{column, column + 7}
		out = append(out, o)
	}
	return out
}

// Step is one HMMA.884 instruction. Rows and columns count in the 8×8 part of the
// octet; low is threadgroup x, high is threadgroup x+4.
type Step struct {
	Set, Step int // sets from 1, steps from 0, as the paper counts
	K         Range
	Low, High Range // rows of A and of the result
	Columns   Range
	// BFromHigh says that the threadgroup x+4 holds the columns of B.
	BFromHigh bool
	// Registers are the elements of the accumulator that the step adds to.
	Registers Range
}

// HMMA are the instructions of a 16×16×16 product in order.
func HMMA(sums Sums) []Step {
	var out []Step
	perColumns := sums.Steps() / 2 // steps that use the same columns
	rows := 4 / perColumns
	registers := 8 / sums.Steps()
	for set := range Sets {
		for step := range sums.Steps() {
			first := step % perColumns * rows
			high := step/perColumns == 1
			column := step / perColumns * 4
			out = append(out, Step{
				Set: set + 1, Step: step, K: Range{4 * set, 4*set + 3},
				Low: Range{first, first + rows - 1}, High: Range{4 + first, 4 + first + rows - 1},
				Columns: Range{column, column + 3}, BFromHigh: high,
				Registers: Range{registers * step, registers*step + registers - 1},
			})
		}
	}
	return out
}

// Letters names the blocks that a step multiplies as the paper does: a to d are
// the 4×4 blocks of A along k that threadgroup x holds, e to h those of x+4, and
// A to H the blocks of B. "a[0:1] x E" is rows 0 and 1 of block a times block E.
func (s Step) Letters() (low, high string) {
	set := byte(s.Set - 1)
	b := 'A' + set
	if s.BFromHigh {
		b += 4
	}
	low = fmt.Sprintf("%c[%d:%d] x %c", 'a'+set, s.Low.First, s.Low.Last, b)
	return low, fmt.Sprintf("%c[%d:%d] x %c", 'e'+set, s.High.First-4, s.High.Last-4, b)
}

// Cycles are the clock cycles from the first instruction to the end of each, as
// measured on a Titan V.
func Cycles(sums Sums) []int {
	var out []int
	n := Sets * sums.Steps()
	for i := 1; i <= n; i++ {
		var t int
		if sums == F32 {
			t = 10 + 2*(i-1) + i/4*2
			if i == n {
				t += 6 // the last sums leave the pipeline
			}
		} else {
			t = 12 + 13*((i-1)/2)
			if i%2 == 0 {
				t += 9
			}
			if i == n {
				t += 4
			}
		}
		out = append(out, t)
	}
	return out
}

// Place is an element of the accumulator of a lane and where it lies in the 8×8
// part of the octet.
type Place struct {
	Lane, Register, Row, Column int
}

// Accumulator are the places of one octet's sums, by lane and register.
func Accumulator(sums Sums, octet int) ([]Place, error) {
	name := "SM70_8x8x4_F32F16F16F32_NT"
	if sums == F16 {
		name = "SM70_8x8x4_F16F16F16F16_NT"
	}
	if octet < 0 || octet > 3 {
		return nil, fmt.Errorf("volta: there is no octet %d", octet)
	}
	atom, err := arch.FindAtom(name)
	if err != nil {
		return nil, err
	}
	c, _ := atom.Operand("C")
	lanes := Octets()[octet].Lanes
	var out []Place
	for i, lane := range lanes {
		for slot := range c.Layout.Slots() {
			at := c.Layout.Index(i, slot)
			out = append(out, Place{lane, slot, at[0], at[1]})
		}
	}
	return out, nil
}
