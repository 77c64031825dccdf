package arch

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Place is where an element lies: a register, or a pair of them, of a lane, and
// the bits in it. In a sparse operand the bits are those of the group of stored
// elements that the element may be among.
type Place struct {
	Reg, Regs int // first register and their number
	Lane      int
	Low, High int // bits from the lowest of the first register on, both included
}

// Whole reports that the element takes all bits of its registers.
func (p Place) Whole() bool { return p.Low == 0 && p.High == 32*p.Regs-1 }

// Register is the place without its lane, as AMD writes it: v3, v3.[15:0], v[1:0].
// A 6-bit element can lie across two registers: v[1:0].[35:30].
func (p Place) Register() string {
	name := fmt.Sprintf("v%d", p.Reg)
	if p.Regs > 1 {
		name = fmt.Sprintf("v[%d:%d]", p.Reg+p.Regs-1, p.Reg)
	}
	if !p.Whole() {
		name += fmt.Sprintf(".[%d:%d]", p.High, p.Low)
	}
	return name
}

// String is the place as AMD writes it: v3{17}, v3{17}.[15:0], v[1:0]{17}.
func (p Place) String() string {
	name, part, cut := strings.Cut(p.Register(), ".")
	name = fmt.Sprintf("%s{%d}", name, p.Lane)
	if cut {
		name += "." + part
	}
	return name
}

// Element is an element of an operand. For A it is [I, K], for B [K, J], for C
// and D [I, J]: Row and Column in this order.
type Element struct{ Block, Row, Column int }

// Modifiers are fields of the instruction that change which register an operand
// is read from, or with which sign.
type Modifiers struct {
	CBSZ, ABID int // A: block ABID of each 2^CBSZ stands for all of them; sparse: the set of indices
	BLGP       int // B: pattern of lanes; of 64-bit operands the signs of A, B, C
	OpSel      int // RDNA3: 4 puts 16-bit sums into the high half; RDNA4: the set of sparsity indices
	Neg, NegHi int // RDNA: signs of A, B, C; for integers whether they are signed
}

// Matrix names as the queries below take them: the operands' names, with "K" as
// another name of the sparsity indices "E".
func (in AMD) matrix(name string, wave int) (Operand, error) {
	if name == "K" {
		name = "E"
	}
	o, ok := in.Operand(strings.ToUpper(name), wave)
	if !ok {
		return o, fmt.Errorf("arch: %s has no operand %q in a wave of %d lanes; it has %s in waves of %v", in.Name, name, wave, strings.Join(in.OperandNames(), ", "), in.Waves())
	}
	return o, nil
}

// Check says why the modifiers are not legal for a query of an operand, nil if
// they are.
func (in AMD) Check(m Modifiers, operand string, wave int) error {
	o, err := in.matrix(operand, wave)
	if err != nil {
		return err
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("arch: %s: %s", in.Name, fmt.Sprintf(format, args...))
	}
	within := func(name string, v, high int) error {
		if v < 0 || v > high {
			return bad("%s is %d; it goes from 0 to %d", name, v, high)
		}
		return nil
	}
	var all []error
	if m.CBSZ != 0 || m.ABID != 0 {
		highest := bits.Len(uint(in.Blocks)) - 1
		sets := 1 << m.CBSZ
		switch {
		case !in.UsesCBSZ():
			return bad("CBSZ and ABID have no meaning here")
		case in.Sparse && o.Name != "E" || !in.Sparse && o.Name != "A":
			return bad("CBSZ and ABID do not act on %s", o.Name)
		case in.Sparse:
			// A CBSZ other than 0 takes the first set.
			highest, sets = 1, in.indexSets(wave)
		}
		all = append(all, within("CBSZ", m.CBSZ, highest), within("ABID", m.ABID, sets-1))
	}
	if m.BLGP != 0 {
		switch {
		case !in.UsesBLGP():
			return bad("BLGP has no meaning here")
		case o.Name != "B" && in.A.Type != dtype.F64:
			return bad("BLGP does not act on %s", o.Name)
		}
		all = append(all, within("BLGP", m.BLGP, 7))
	}
	if m.OpSel != 0 {
		switch {
		case !in.UsesOpSel():
			return bad("OPSEL has no meaning here")
		case in.Gen == "RDNA3" && (o.Name != "C" && o.Name != "D" || m.OpSel != 4):
			return bad("OPSEL is 0 or 4, and acts on C and D")
		case in.Gen == "RDNA4" && o.Name != "E":
			return bad("OPSEL does not act on %s", o.Name)
		case in.Gen == "RDNA4":
			all = append(all, within("OPSEL", m.OpSel, in.indexSets(wave)-1))
		}
	}
	if m.Neg != 0 || m.NegHi != 0 {
		high, highHi := 7, 7
		if in.Integer() {
			high, highHi = 3, 0
		}
		switch {
		case !in.UsesNeg():
			return bad("NEG has no meaning here")
		case o.Name == "D":
			return bad("NEG does not act on D")
		}
		all = append(all, within("NEG", m.Neg, high), within("NEG_HI", m.NegHi, highHi))
	}
	return errors.Join(all...)
}

// indexBits is how many bits of its register a lane uses for sparsity indices,
// and indexSets how many such sets the register holds.
func (in AMD) indexBits(wave int) int {
	e, ok := in.Operand("E", wave)
	if !ok {
		return 32
	}
	return e.Layout.Slots() * 2
}

func (in AMD) indexSets(wave int) int { return max(1, 32/in.indexBits(wave)) }

// Dims is the number of rows and columns of an operand as queries count them: of
// a sparse A and its indices all K columns, of which registers hold half.
func (in AMD) Dims(operand string) (rows, columns int) {
	switch operand {
	case "A", "E", "K":
		return in.M, in.K
	case "B":
		return in.K, in.N
	}
	return in.M, in.N
}

// Places lists where an element lies: one place, or several in RDNA3, whose
// lanes share inputs.
func (in AMD) Places(operand string, wave int, m Modifiers, e Element) ([]Place, error) {
	o, err := in.matrix(operand, wave)
	if err != nil {
		return nil, err
	}
	if err := in.Check(m, operand, wave); err != nil {
		return nil, err
	}
	rows, columns := in.Dims(o.Name)
	if e.Block < 0 || e.Block >= in.Blocks || e.Row < 0 || e.Row >= rows || e.Column < 0 || e.Column >= columns {
		return nil, fmt.Errorf("arch: %s: %s has %d blocks of %d rows and %d columns; there is no [%d][%d] in block %d", in.Name, o.Name, in.Blocks, rows, columns, e.Row, e.Column, e.Block)
	}
	return in.places(o, wave, m, e), nil
}

func (in AMD) places(o Operand, wave int, m Modifiers, e Element) []Place {
	width, group := o.SlotBits(), 1
	row, column, block := e.Row, e.Column, e.Block
	if in.Sparse && (o.Name == "A" || o.Name == "E") {
		// Two of four columns are stored; which of them is not known here.
		column, group = column/4*2, 2
	}
	if o.Name == "A" && !in.Sparse {
		block = block>>m.CBSZ<<m.CBSZ + m.ABID
	}
	index := []int{row, column}
	if in.Blocks > 1 {
		index = []int{block, row, column}
	}
	var out []Place
	for _, h := range o.Layout.Holders(index...) {
		if in.idle(o.Name, wave) && h.Thread >= 32 {
			continue
		}
		at := h.Slot * width
		p := Place{Reg: at / 32, Lane: h.Thread, Low: at % 32}
		p.High = p.Low + group*width - 1
		p.Regs = 1 + p.High/32
		switch {
		case o.Bits == 32 && o.Type.Bits() == 16: // half a register, the other half is free
			p.Low = 16 * (m.OpSel >> 2)
			p.High = p.Low + 15
		case o.Name == "E":
			set := m.ABID
			if m.CBSZ != 0 {
				set = 0
			}
			if !in.CDNA() {
				set = m.OpSel
			}
			p.Low += set * in.indexBits(wave)
			p.High += set * in.indexBits(wave)
		}
		if o.Name == "B" && in.A.Type != dtype.F64 {
			p.Lane = blgpLane(p.Lane, m.BLGP)
		}
		out = append(out, p)
	}
	return out
}

// blgpLane is the lane that B is read from instead of a lane.
//
// Source: MI200 Instruction Set Architecture, 4.2.2.2 B-matrix lane group pattern.
func blgpLane(lane, pattern int) int {
	switch pattern {
	case 1, 2: // one half for both
		return lane%32 + 32*(pattern-1)
	case 3: // rotate by 16
		return (lane + 16) % 64
	case 4, 5, 6, 7: // one quarter for all
		return lane%16 + 16*(pattern-4)
	}
	return lane
}

// Held is what a register of a lane holds in one place.
type Held struct {
	Place   Place
	Element Element
}

// Holds lists the elements in a register of a lane, from the lowest bits up; a
// place in a sparse operand is listed with each element that it may hold.
func (in AMD) Holds(operand string, wave, reg, lane int) ([]Held, error) {
	o, err := in.matrix(operand, wave)
	if err != nil {
		return nil, err
	}
	if lane < 0 || lane >= wave || reg < 0 || reg >= in.Registers(o.Name, wave) {
		return nil, fmt.Errorf("arch: %s: %s has %d registers in each of %d lanes; there is no v%d{%d}", in.Name, o.Name, in.Registers(o.Name, wave), wave, reg, lane)
	}
	if in.idle(o.Name, wave) && lane >= 32 {
		return nil, fmt.Errorf("arch: %s: lanes 32 to 63 of %s are ignored", in.Name, o.Name)
	}
	width := o.SlotBits()
	var out []Held
	for slot := reg * 32 / width; slot <= min((reg*32+31)/width, o.Layout.Slots()-1); slot++ {
		index := o.Layout.Index(lane, slot)
		e := Element{Row: index[len(index)-2], Column: index[len(index)-1]}
		if len(index) == 3 {
			e.Block = index[0]
		}
		each := 1
		if in.Sparse && (o.Name == "A" || o.Name == "E") {
			if e.Column%2 == 1 {
				continue
			}
			e.Column, each = e.Column*2, 4
		}
		for range each {
			for _, p := range in.places(o, wave, Modifiers{}, e) {
				if p.Lane == lane {
					out = append(out, Held{p, e})
				}
			}
			e.Column++
		}
	}
	return out, nil
}

// ElementName is the element as AMD writes it: A[1][2].B4, without the block
// where there is one.
func (in AMD) ElementName(operand string, e Element) string {
	s := fmt.Sprintf("%s[%d][%d]", operand, e.Row, e.Column)
	if in.Blocks > 1 {
		s += ".B" + strconv.Itoa(e.Block)
	}
	return s
}

// Trace writes out the dot product that makes an element of D, with the registers
// that its factors come from, as AMD's calculator does:
//
//	D[0][0] = Vdst_v0{0} = Src0_v0{0}*Src1_v0{0} + … + Src2_v0{0}
func (in AMD) Trace(wave int, e Element) (string, error) {
	d, err := in.Places("D", wave, Modifiers{}, e)
	if err != nil {
		return "", err
	}
	var terms []string
	for k := range in.K {
		a, err := in.Places("A", wave, Modifiers{}, Element{e.Block, e.Row, k})
		if err != nil {
			return "", err
		}
		b, err := in.Places("B", wave, Modifiers{}, Element{e.Block, k, e.Column})
		if err != nil {
			return "", err
		}
		terms = append(terms, fmt.Sprintf("Src0_%s*Src1_%s", a[0], b[0]))
	}
	if !in.Sparse {
		terms = append(terms, "Src2_"+d[0].String())
	}
	return fmt.Sprintf("%s = Vdst_%s = %s", in.ElementName("D", e), d[0], strings.Join(terms, " + ")), nil
}
