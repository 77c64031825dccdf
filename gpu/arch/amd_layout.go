package arch

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// amdModes makes a layout [blocks, rows, columns] from the factors of each dimension
// and the order of lanes and slots, and drops the dimension of blocks where there
// is one block. Factors of 1 need not be named.
func amdModes(blocks, rows, columns int, factors, lanes, slots []int) layout.Layout {
	slots = slices.Clone(slots)
	for i, n := range factors {
		if n == 1 && !slices.Contains(lanes, i) && !slices.Contains(slots, i) {
			slots = append(slots, i)
		}
	}
	l, err := layout.New([]int{blocks, rows, columns}, factors, lanes, slots)
	if err == nil && blocks == 1 {
		l, err = l.Squeeze(0)
	}
	if err != nil {
		panic(fmt.Errorf("arch: modes %v, lanes %v, slots %v: %w", factors, lanes, slots, err))
	}
	return l
}

// OperandNames lists the operands: A, B, C and D; a sparse product adds to D and
// has the sparsity indices E instead of C; a scaled one has SA and SB.
func (in AMD) OperandNames() []string {
	switch {
	case in.Sparse:
		return []string{"A", "B", "E", "D"}
	case in.Scaled:
		return []string{"A", "B", "C", "D", "SA", "SB"}
	}
	return []string{"A", "B", "C", "D"}
}

// Operand is an operand in waves of that size. A is [M, K] ([M, K/2] where it is
// sparse), B is [K, N], C and D are [M, N], with the block in front where there
// are several. E is [M, K/2] of 2-bit positions, one for each stored element.
func (in AMD) Operand(name string, wave int) (Operand, bool) {
	o, ok := in.operands[operandKey{name, wave}]
	return o, ok
}

type operandKey struct {
	name string
	wave int
}

func (in AMD) newOperand(name string, wave int) Operand {
	o := Operand{Name: name}
	switch name {
	case "A":
		o.Type, o.Note = in.A.Type, in.A.Note
		o.Layout = in.input(in.A.Type, in.M, in.stored(), wave)
	case "E":
		o.Type, o.Note = dtype.U2, "position of the stored element among its four"
		o.Layout = in.input(in.A.Type, in.M, in.stored(), wave)
	case "B":
		o.Type, o.Note = in.B.Type, in.B.Note
		o.Layout = in.transposed(wave)
	case "SA":
		o.Type, o.Note = dtype.F8E8M0, "one scale for 32 elements along K; OPSEL picks the byte of the register"
		o.Layout = amdModes(1, in.M, in.K/32, []int{1, in.M, in.K / 32}, []int{2, 1}, nil)
	case "SB":
		o.Type, o.Note = dtype.F8E8M0, "one scale for 32 elements along K; OPSEL picks the byte of the register"
		o.Layout = amdModes(1, in.K/32, in.N, []int{1, in.K / 32, in.N}, []int{1, 2}, nil)
	default: // C, D
		o.Type, o.Note = in.D.Type, in.D.Note
		o.Layout = in.sums(wave)
		if in.Gen == "RDNA3" && in.D.Type.Bits() == 16 {
			o.Bits, o.Note = 32, "each register holds one element, in the half that OPSEL[2] chooses; the other half is kept"
		}
	}
	if in.idle(name, wave) {
		o.Note = "lanes 0 to 31 hold the operand; the hardware ignores lanes 32 to 63, which are shown as copies"
	}
	if o.Type == dtype.TF32 {
		o.Bits = 32
	}
	if (name == "A" || name == "B") && in.Gen == "CDNA4" && o.Layout.Slots()*o.SlotBits() == 256 {
		o.Note = "each lane has two runs of 16 bytes along K, one in each half of K"
	}
	o.Shape, o.Replicas = o.Layout.Shape(), o.Layout.Replicas()
	return o
}

// stored is the number of columns of A that registers hold.
func (in AMD) stored() int {
	if in.Sparse {
		return in.K / 2
	}
	return in.K
}

// input is A or, transposed, B: [blocks, rows, k] over a wave.
func (in AMD) input(t dtype.Type, rows, k, wave int) layout.Layout {
	switch {
	case in.CDNA():
		// Lanes count rows, then blocks, then groups of consecutive k.
		each := in.Blocks * rows * k / 64
		if in.striped(t, rows, k) {
			return amdModes(1, rows, k, []int{1, rows, 2, k / each, each / 2}, []int{3, 1}, []int{2, 4})
		}
		return amdModes(in.Blocks, rows, k, []int{in.Blocks, rows, k / each, each}, []int{2, 0, 1}, []int{3})
	case in.Gen == "RDNA3":
		// Every half of 16 lanes holds all of the operand.
		return amdModes(1, rows, k, []int{1, rows, k}, []int{-wave / 16, 1}, []int{2})
	}
	// RDNA4: the two halves of 16 lanes take turns along k, twice for 16-bit
	// types and once for smaller ones. A wave of 64 lanes holds in its upper half
	// what stands in the upper half of the registers of a wave of 32.
	turns := 1
	if in.A.Type.Bits() == 16 {
		turns = 2
	}
	each := k / 2 / turns
	switch {
	case wave == 32:
		return amdModes(1, rows, k, []int{1, rows, turns, 2, each}, []int{3, 1}, []int{2, 4})
	case k/2*in.A.Type.Bits() <= 32: // one register, which cannot be split
		return amdModes(1, rows, k, []int{1, rows, turns, 2, each}, []int{-2, 3, 1}, []int{2, 4})
	case turns == 2:
		return amdModes(1, rows, k, []int{1, rows, turns, 2, each}, []int{2, 3, 1}, []int{4})
	}
	return amdModes(1, rows, k, []int{1, rows, 2, 2, each / 2}, []int{3, 2, 1}, []int{4})
}

// idle reports an operand that fits one register of 32 lanes, so that a wave of
// 64 lanes uses half of itself for it.
func (in AMD) idle(operand string, wave int) bool {
	k := in.K
	if operand != "B" {
		k = in.stored()
	}
	input := operand == "A" || operand == "B" || operand == "E"
	return in.Gen == "RDNA4" && input && wave == 64 && k/2*in.A.Type.Bits() <= 32
}

// transposed is B: lanes hold columns as those of A hold rows.
func (in AMD) transposed(wave int) layout.Layout {
	l := in.input(in.B.Type, in.N, in.K, wave)
	order := []int{1, 0}
	if l.Rank() == 3 {
		order = []int{0, 2, 1}
	}
	t, err := l.Permute(order...)
	if err != nil {
		panic(fmt.Errorf("arch: %s: %w", in.Name, err))
	}
	return t
}

// sums is C and D.
func (in AMD) sums(wave int) layout.Layout {
	m, n, b := in.M, in.N, in.Blocks
	switch {
	case in.Gen == "RDNA3":
		// The parts of 16 lanes take turns row by row.
		return amdModes(1, m, n, []int{1, 16 * m / wave, wave / 16, n}, []int{2, 3}, []int{1})
	case in.Gen == "RDNA4" && wave == 32:
		return amdModes(1, m, n, []int{1, 2, m / 2, n}, []int{1, 3}, []int{2})
	case in.Gen == "RDNA4":
		return amdModes(1, m, n, []int{1, 2, 2, m / 4, n}, []int{2, 1, 4}, []int{3})
	case in.D.Type == dtype.F64:
		// Four rows at a time, each in 16 lanes.
		return amdModes(b, m, n, []int{b, m / 4, 4, n}, []int{2, 0, 3}, []int{1})
	}
	// Four rows to a lane; lanes count columns, then groups of four rows as far as
	// there are lanes, then blocks.
	groups := min(m/4, 64/n)
	factors := []int{b, m / 4 / groups, groups, 4, n}
	if groups*n == 64 {
		return amdModes(b, m, n, factors, []int{2, 4}, []int{0, 1, 3})
	}
	return amdModes(b, m, n, factors, []int{0, 2, 4}, []int{1, 3})
}
