package volta

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
)

// Major says how a matrix lies in memory.
type Major uint8

// The two ways: the elements of a row, or of a column, lie side by side.
const (
	Row Major = iota
	Column
)

func (m Major) String() string { return [...]string{"row", "col"}[m] }

// ParseMajor reads "row" or "col".
func ParseMajor(text string) (Major, error) {
	switch text {
	case "row":
		return Row, nil
	case "col":
		return Column, nil
	}
	return 0, fmt.Errorf("volta: a matrix lies row or col, not %q", text)
}

// Size is the number of rows, columns and k of the product.
const Size = 16

// Setup is which wmma.m16n16k16 is meant. The zero value is the one of the public
// listings but for B: f32 sums, all matrices by rows, V100's way to add.
type Setup struct {
	Sums     Sums
	A, B, C  Major // D lies as C
	Numerics Numerics
}

// String is the name as PTX has it: "row.col.f32", and how D lies.
func (s Setup) String() string {
	return fmt.Sprintf("wmma.m16n16k16.%s.%s.%s, C and D by %s", s.A, s.B, s.Sums, map[Major]string{Row: "rows", Column: "columns"}[s.C])
}

// Atom is the row of the catalogue, which has the fragments.
func (s Setup) Atom() (arch.Atom, error) {
	a, err := arch.FindAtom(fmt.Sprintf("wmma.m16n16k16.%s.f16.%s.%s.sm_70", s.Sums, s.A, s.B))
	if err != nil {
		return a, fmt.Errorf("volta: %w", err)
	}
	return a, nil
}

func (s Setup) major(operand string) Major {
	switch operand {
	case "A":
		return s.A
	case "B":
		return s.B
	}
	return s.C
}

// bytes is the size of an element.
func (s Setup) bytes(operand string) int {
	if operand == "A" || operand == "B" || s.Sums == F16 {
		return 2
	}
	return 4
}

// Cell is an element of a matrix: of A [m, k], B [k, n], C and D [m, n].
type Cell struct {
	Matrix string `json:"matrix"`
	Row    int    `json:"row"`
	Col    int    `json:"col"`
}

func (c Cell) String() string { return fmt.Sprintf("%s[%d,%d]", c.Matrix, c.Row, c.Col) }

// Move is one instruction of wmma.load or wmma.store for one lane: Bytes at the
// byte Address of the matrix, to or from the registers from Register on.
type Move struct {
	Lane      int
	Matrix    string
	Bytes     int // 2, 4, 8 or 16
	Address   int
	Offset    int // Address less that of the lane's first move
	Registers Range
	Slot      int // of the first element
	Cells     []Cell
}

// Moves are what each lane does to load or store a matrix "A", "B", "C" or "D"
// whose rows, or columns, are ld elements apart: as few as possible, each of at
// most 128 bits that lie side by side in memory and in registers.
func (s Setup) Moves(matrix string, ld int) ([]Move, error) {
	atom, err := s.Atom()
	if err != nil {
		return nil, err
	}
	o, ok := atom.Operand(matrix)
	if !ok {
		return nil, fmt.Errorf("volta: there is no matrix %q; there are A, B, C, D", matrix)
	}
	width := s.bytes(matrix)
	if ld < Size || ld*width%16 != 0 {
		return nil, fmt.Errorf("volta: a leading dimension of %d elements; wmma wants at least %d and whole 16 bytes", ld, Size)
	}
	var out []Move
	for lane := range o.Layout.Threads() {
		first := len(out)
		for slot := range o.Layout.Slots() {
			at := o.Layout.Index(lane, slot)
			cell := Cell{matrix, at[0], at[1]}
			address := (at[0]*ld + at[1]) * width
			if s.major(matrix) == Column {
				address = (at[1]*ld + at[0]) * width
			}
			if n := len(out) - 1; n >= first {
				m := &out[n]
				if m.Address+m.Bytes == address && m.Bytes+width <= 16 {
					m.Bytes, m.Cells = m.Bytes+width, append(m.Cells, cell)
					continue
				}
			}
			out = append(out, Move{Lane: lane, Matrix: matrix, Bytes: width, Address: address, Slot: slot, Cells: []Cell{cell}})
		}
		for i := first; i < len(out); i++ {
			m := &out[i]
			m.Offset = m.Address - out[first].Address
			m.Registers = Range{s.Register(matrix, m.Slot), s.Register(matrix, m.Slot+len(m.Cells)-1)}
		}
	}
	return out, nil
}

// The first registers of the operands. An operand takes two groups of four, the
// higher one first. The listings of row-by-column kernels with f32 sums have
// these numbers; for the others they are an assumption.
const (
	sumBase, bBase, aBase = 4, 12, 20
	// Registers is how many registers of a lane the model has.
	Registers = 28
)

// Register is the 32-bit register that holds a slot of an operand.
func (s Setup) Register(matrix string, slot int) int {
	word := slot * s.bytes(matrix) / 4
	base := map[string]int{"A": aBase, "B": bBase, "C": sumBase, "D": sumBase}[matrix]
	if s.Sums == F16 && base == sumBase {
		return base + word
	}
	return base + word%4 + 4*(1-word/4)
}

// ParseSetup reads a mode, "mixed" or "fp16", and how A, B and, if it is given, C
// and D lie: "row.col", "col.col.row". The way to add is one of [AllNumerics]; "" is V100's.
func ParseSetup(mode, layout, numerics string) (Setup, error) {
	var s Setup
	switch mode {
	case "mixed", "f32":
	case "fp16", "f16":
		s.Sums = F16
	default:
		return s, fmt.Errorf("volta: there is no mode %q; there are mixed (sums in f32) and fp16 (sums in f16)", mode)
	}
	parts := strings.Split(layout, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return s, fmt.Errorf("volta: %q does not say how A and B lie; write row.col, or row.col.row with C and D", layout)
	}
	for i, to := range []*Major{&s.A, &s.B, &s.C}[:len(parts)] {
		var err error
		if *to, err = ParseMajor(parts[i]); err != nil {
			return s, err
		}
	}
	if s.Numerics = Numerics(numerics); s.Numerics != "" && !slices.Contains(AllNumerics(), s.Numerics) {
		return s, fmt.Errorf("volta: no way to add %q; there are %v", numerics, AllNumerics())
	}
	return s, nil
}
