package arch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Section is a part of what [AMD.Detail] says: facts under a title.
type Section struct {
	Title string
	Facts []Fact
}

// Fact is a name with its value. The value of a formula may have several lines; a
// remark is a name without a value.
type Fact struct{ Name, Value string }

// Detail says everything about the instruction, in the words of AMD's calculator:
// opcodes, sizes, speed, registers, types, modifiers, and where elements lie as
// formulas in both directions, all of it computed from the row. The variables are
// i, j, k, block; lane, GPR_num (the number of a register) and GPR_bits (the
// number of a bit in it). "[hi : lo]" after a register are bits, before it
// registers of a pair.
func (in AMD) Detail() []Section {
	encoding, unit := "VOP3P", "WGP"
	head := []Fact{{"Architecture", in.Gen}, {"Instruction", strings.ToUpper(in.Name)}}
	dims := []Fact{{"M", num(in.M)}, {"N", num(in.N)}, {"K", num(in.K)}}
	if in.CDNA() {
		encoding, unit = "VOP3P-MAI", "CU"
		dims = append(dims, Fact{"blocks", num(in.Blocks)})
	}
	head = append(head, Fact{"Encoding", encoding}, Fact{"VOP3P Opcode", fmt.Sprintf("%#x", in.Opcode)})
	if in.CDNA() {
		head = append(head, Fact{"VOP3P-MAI Opcode", fmt.Sprintf("%#x", in.Opcode&0x3f)})
	}
	ops := "FLOPs"
	if in.Integer() {
		ops = "Ops"
	}
	speed := []Fact{{ops, num(in.Operations())}, {"Execution cycles", num(in.Cycles)},
		{ops + "/" + unit + "/cycle", num(in.OperationsPerCycle())}}
	if in.Gen != "CDNA4" { // of which no source says it
		speed = append(speed, Fact{"Can co-execute with VALU", truth(in.Coexecutes() > 0)})
	}
	if n := in.Coexecutes(); n > 0 {
		speed = append(speed, Fact{"VALU co-execution cycles possible", num(n)})
	}
	out := []Section{{"", head}, {"Matrix Dimensions", dims}, {"Execution statistics", speed}}
	for _, wave := range in.Waves() {
		s := Section{Title: in.title(wave, "Register usage")}
		for _, name := range in.OperandNames() {
			if name != "E" {
				s.Facts = append(s.Facts, Fact{"GPRs required for " + name, num(in.Registers(name, wave))})
			}
		}
		s.Facts = append(s.Facts, Fact{"GPR alignment requirement", fmt.Sprintf("%d bytes", in.Alignment())})
		out = append(out, s)
	}
	fields := []Fact{{"A matrix source field", "Src0"}, {"B matrix source field", "Src1"}, {"C matrix source field", "Src2"}, {"D matrix source field", "Vdst"}}
	types := []Fact{{"Src0", in.A.Text}, {"Src1", in.B.Text}, {"Src2", in.D.Text}, {"Vdst", in.D.Text}}
	sums := "C and D"
	if in.Sparse {
		fields[2].Name, types[2].Value, sums = "Compression index field", "A matrix compression indices", "D"
	}
	out = append(out, Section{encoding + " register encoding", fields}, Section{"Register data types", types})
	modifiers := []Fact{{"Sparse A matrix", truth(in.Sparse)}, {"CBSZ and ABID bits supported", truth(in.UsesCBSZ())}, {"BLGP bits supported", truth(in.UsesBLGP())}}
	switch {
	case in.CDNA():
		out = append(out, Section{"Register capabilities", []Fact{
			{"A matrix can use ArchVGPRs", truth(true)}, {"A matrix can use AccVGPRs", truth(true)},
			{"B matrix can use ArchVGPRs", truth(true)}, {"B matrix can use AccVGPRs", truth(true)},
			{sums + " matrix can use ArchVGPRs", truth(in.Gen != "CDNA1")}, {sums + " matrix can use AccVGPRs", truth(true)}}})
	case in.Gen == "RDNA3":
		modifiers = []Fact{{"OPSEL[1:0] supported", truth(false)}, {"OPSEL[2] supported", truth(in.UsesOpSel())}, {"NEG bits supported", truth(in.UsesNeg())}}
	default:
		modifiers = []Fact{{"OPSEL supported", truth(in.UsesOpSel())}, {"NEG bits supported", truth(in.UsesNeg())}}
	}
	out = append(out, Section{"Register modifiers", modifiers})
	if !in.plain() {
		return out
	}
	for _, wave := range in.Waves() {
		out = append(out, Section{in.title(wave, "Matrix element to register mapping with no modifiers"), in.forward(wave)})
	}
	for _, wave := range in.Waves() {
		out = append(out, Section{in.title(wave, "Register to matrix element mapping with no modifiers"), in.backward(wave)})
	}
	return out
}

func num(n int) string { return fmt.Sprint(n) }

func truth(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// title puts the wave in front where there are several sizes.
func (in AMD) title(wave int, title string) string {
	if in.CDNA() {
		return title
	}
	return fmt.Sprintf("Wave%d %s", wave, strings.ToLower(title[:1])+title[1:])
}

// sumName is how the sums are called: a sparse product has no C.
func (in AMD) sumName() string {
	if in.Sparse {
		return "D"
	}
	return "C or D"
}

func (in AMD) forward(wave int) []Fact {
	block := ""
	if in.CDNA() {
		block = ".block"
	}
	var out []Fact
	for _, f := range []struct{ operand, name string }{
		{"A", "A[i][k]" + block}, {"E", "compression[i][k]"}, {"B", "B[k][j]" + block}, {"D", in.sumName() + "[i][j]" + block},
	} {
		if f.operand == "E" && !in.Sparse {
			continue
		}
		register, lane := in.forwardOf(f.operand, wave)
		out = append(out, Fact{f.name + " GPR", register}, Fact{f.name + " Lane", lane})
	}
	return out
}

func (in AMD) backward(wave int) []Fact {
	var out []Fact
	add := func(name, value string) { out = append(out, Fact{name, value}) }
	block := func(name, operand string) {
		if in.CDNA() {
			add(name+" block", in.blockOf(operand))
		}
	}
	ignored := func(operand, name string) {
		if in.idle(operand, wave) {
			add("Lanes 32 to 63 are ignored for "+name, "")
		}
	}
	add("A i", fmt.Sprintf("(lane %% %d)", in.M))
	add("A k", in.backwardK("A", wave))
	block("A", "A")
	ignored("A", "A matrix")
	if in.Sparse {
		add("compression i", fmt.Sprintf("(lane %% %d)", in.M))
		add("compression k", in.backwardK("E", wave))
		ignored("E", "compression indices")
	}
	add("B j", fmt.Sprintf("(lane %% %d)", in.N))
	add("B k", in.backwardK("B", wave))
	block("B", "B")
	ignored("B", "B matrix")
	add(in.sumName()+" i", in.backwardI(wave))
	add(in.sumName()+" j", fmt.Sprintf("(lane %% %d)", in.N))
	block(in.sumName(), "D")
	return out
}

// forwardOf is the register and the lane of an element as formulas.
func (in AMD) forwardOf(operand string, wave int) (register, lane string) {
	switch {
	case in.CDNA() && operand == "D":
		return in.cdnaSums()
	case in.CDNA():
		return in.cdnaInput(operand)
	case in.Gen == "RDNA3":
		return in.rdna3Forward(operand, wave)
	}
	return in.rdna4Forward(operand, wave)
}

// backwardK is k of what a register holds, as a formula. Where four elements
// share a place it is the highest, the word through, and the lowest.
func (in AMD) backwardK(operand string, wave int) string {
	switch {
	case in.CDNA():
		return in.cdnaK(operand)
	case in.Gen == "RDNA3":
		w := in.A.Type.Bits()
		return fmt.Sprintf("%d * GPR_num + floor(GPR_bits / %d)", 32/w, w)
	}
	return in.rdna4K(operand, wave)
}

// backwardI is i of what a register of the sums holds.
func (in AMD) backwardI(wave int) string {
	switch {
	case in.Gen == "RDNA3" && in.D.Type.Bits() == 16:
		return fmt.Sprintf("(%d * GPR_num + floor(lane / 16)).[15:0]", wave/16)
	case in.Gen == "RDNA3":
		return fmt.Sprintf("%d * GPR_num + floor(lane / 16)", wave/16)
	case in.Gen == "RDNA4":
		return in.rdna4I(wave)
	case in.D.Type == dtype.F64 && in.Blocks == 1:
		return "4 * floor(GPR_num / 2) + floor(lane / 16)"
	case in.D.Type == dtype.F64:
		return "floor(lane / 16)"
	}
	switch in.M {
	case 32:
		return "(8 * floor(GPR_num / 4) % 32) + 4 * floor(lane / 32) + (GPR_num % 4)"
	case 16:
		return "4 * floor(lane / 16) + (GPR_num % 4)"
	}
	return "(GPR_num % 4)"
}

// blockOf is the block of what a register holds.
func (in AMD) blockOf(operand string) string {
	each := in.Registers("D", 64) / in.Blocks
	switch {
	case in.Blocks == 1:
		return "0"
	case in.A.Type == dtype.F64:
		return fmt.Sprintf("(floor(lane / %d) %% %d)", in.M, in.Blocks)
	case operand != "D" || each == 0:
		return fmt.Sprintf("floor(lane / %d)", in.M)
	}
	return fmt.Sprintf("floor(GPR_num / %d)", each)
}

// cdnaInput is the register and lane of A, B or E. A lane has each consecutive k.
func (in AMD) cdnaInput(operand string) (register, lane string) {
	size, index := in.M, "i"
	if operand == "B" {
		size, index = in.N, "j"
	}
	each := in.Blocks * size * in.K / 64 // k of a lane, of a sparse A with those not stored
	if in.Blocks > 1 {
		lane = fmt.Sprintf("%d * block + ", size)
	}
	if in.Blocks*size < 64 {
		group := fmt.Sprintf("floor(k / %d)", each)
		if each == 1 {
			group = "k"
		}
		lane += fmt.Sprintf("%d * %s + ", size*in.Blocks, group)
	}
	lane += index

	w := in.A.Type.Bits()
	if operand == "B" {
		w = in.B.Type.Bits()
	}
	per, kPerPlace := 32/max(1, w), 1
	switch {
	case w == 64:
		return "[1:0]", lane
	case operand == "E":
		e := fmt.Sprintf("4*(floor(k / 4) %% %d)", each/4)
		return fmt.Sprintf("0.[%s+3 : %s]", e, e), lane
	case operand == "A" && in.Sparse:
		w, per, kPerPlace = 2*w, per/2, 4
	}
	span := per * kPerPlace // k of a register
	register = "0"
	if n := each / span; n > 1 {
		register = quotient("k", span)
		if each < in.K || kPerPlace > 1 {
			register = fmt.Sprintf("(%s %% %d)", register, n)
		}
	}
	if per == 1 {
		return register, lane
	}
	part := quotient("k", kPerPlace)
	if span < in.K {
		part = fmt.Sprintf("(%s %% %d)", part, per)
	}
	return fmt.Sprintf("%s.[%d*%s+%d : %d*%s]", register, w, part, w-1, w, part), lane
}

func quotient(x string, by int) string {
	if by == 1 {
		return x
	}
	return fmt.Sprintf("floor(%s / %d)", x, by)
}

func (in AMD) cdnaSums() (register, lane string) {
	block := func(n int) string {
		if in.Blocks == 1 {
			return ""
		}
		return fmt.Sprintf("%d * block + ", n)
	}
	switch {
	case in.D.Type == dtype.F64 && in.Blocks == 1:
		return "[2*floor(i / 4)+1 : 2*floor(i / 4)]", "16 * (i % 4) + j"
	case in.D.Type == dtype.F64:
		return "[1:0]", "16 * (i % 4) + " + block(in.N) + "j"
	case in.M == 32:
		return block(16) + "4 * floor(i / 8) + (i % 4)", "(32 * floor(i / 4)) % 64 + j"
	case in.M == 16:
		return block(4) + "(i % 4)", "16 * floor(i / 4) + j"
	}
	return "i", block(in.N) + "j"
}

func (in AMD) cdnaK(operand string) string {
	size := in.M
	if operand == "B" {
		size = in.N
	}
	w, each := in.A.Type.Bits(), in.Blocks*size*in.K/64
	group := fmt.Sprintf("floor(lane / %d)", size)
	if each != 1 {
		group = fmt.Sprintf("%d * %s", each, group)
	}
	through := func(start string) string { return start + " + 3\nthrough\n" + start }
	switch {
	case in.K == 1:
		return "0"
	case w == 64:
		return "floor(lane / 16)"
	case operand == "E":
		return through(group + " + 4 * floor(GPR_bits / 4)")
	case operand == "A" && in.Sparse && w == 16:
		return through(group + " + (4 * GPR_num)")
	case operand == "A" && in.Sparse:
		return through(fmt.Sprintf("%s + (%d * GPR_num) + (4 * floor(GPR_bits / %d))", group, 2*32/w, 2*w))
	}
	var terms []string
	if each < in.K {
		terms = append(terms, group)
	}
	per := 32 / w
	switch {
	case each > per && per > 1:
		terms = append(terms, fmt.Sprintf("%d * GPR_num", per))
	case each > per:
		terms = append(terms, "GPR_num")
	}
	if per > 1 {
		terms = append(terms, fmt.Sprintf("floor(GPR_bits / %d)", w))
	}
	return strings.Join(terms, " + ")
}

func (in AMD) rdna3Forward(operand string, wave int) (register, lane string) {
	w := in.A.Type.Bits()
	if operand == "D" {
		turns := wave / 16
		register, lane = fmt.Sprintf("floor(i / %d)", turns), fmt.Sprintf("((16 * i) %% %d) + j", wave)
		if in.D.Type.Bits() == 16 {
			register = "(" + register + ").[15:0]"
		}
		return register, lane
	}
	index := map[string]string{"A": "i", "B": "j"}[operand]
	part := fmt.Sprintf("%d*(k %% %d)", w, 32/w)
	register = fmt.Sprintf("floor(k / %d).[%s+%d : %s]", 32/w, part, w-1, part)
	if wave == 32 {
		return register, fmt.Sprintf("%s and %s+16", index, index)
	}
	return register, fmt.Sprintf("%s, %s+16, %s+32, and %s+48", index, index, index, index)
}

// bitRun is one power-of-two part of a layout: where a run of bits of a coordinate
// stands in a lane's or a register's number or among the bits of a register.
type bitRun struct {
	at     string // "lane", "GPR_num" or "GPR_bits"
	weight int    // of its lowest bit there
	size   int
	stride int // in the coordinate
}

// rdna4Places cuts the layout of an operand along a dimension into places, those
// of the highest strides first. In sparse operands the coordinate is k, four of
// which share a place.
func (in AMD) rdna4Places(operand string, dim, wave int) []bitRun {
	o, _ := in.Operand(operand, wave)
	spatial, local := o.Layout.Digits()
	group := 1
	if in.Sparse && (operand == "A" || operand == "E") {
		group = 2
	}
	width := o.SlotBits()
	var out []bitRun
	add := func(at string, weight int, d layout.Digit) {
		stride := d.Stride
		if group == 2 && stride == 1 { // the two stored elements of a group
			d.Size, weight, stride = d.Size/2, weight*2, 2
		}
		if d.Size > 1 {
			out = append(out, bitRun{at, weight, d.Size, stride * group})
		}
	}
	weight := 1
	for _, d := range slices.Backward(spatial) {
		if d.Dim == dim {
			if in.Sparse && group == 2 && d.Stride == 1 {
				panic("arch: lanes split a sparse group")
			}
			add("lane", weight, d)
		}
		weight *= d.Size
	}
	weight = width
	for _, d := range slices.Backward(local) {
		if d.Dim == dim {
			low := d
			if weight < 32 && weight*d.Size > 32 {
				low.Size = 32 / weight
			}
			if weight < 32 {
				add("GPR_bits", weight, low)
			}
			if weight*d.Size > 32 {
				high := d
				if weight < 32 {
					high.Size, high.Stride = d.Size/low.Size, d.Stride*low.Size
				}
				add("GPR_num", max(1, weight/32), high)
			}
		}
		weight *= d.Size
	}
	slices.SortFunc(out, func(a, b bitRun) int { return cmp.Compare(b.stride, a.stride) })
	return out
}

func (in AMD) rdna4Forward(operand string, wave int) (register, lane string) {
	x, extent, dim, row := "k", in.K, 1, "i"
	switch operand {
	case "B":
		dim, row = 0, "j"
	case "D":
		x, extent, dim, row = "i", in.M, 0, "j"
	}
	places := in.rdna4Places(operand, dim, wave)
	// A part that reaches the top of the coordinate needs no remainder.
	part := func(p bitRun, keep bool) string {
		s := quotient(x, p.stride)
		if p.stride*p.size < extent || keep {
			s = fmt.Sprintf("%s %% %d", s, p.size)
		}
		return s
	}
	term := func(p bitRun, keep bool) string {
		s := part(p, keep)
		if strings.Contains(s, "%") {
			s = "(" + s + ")"
		}
		if p.weight > 1 {
			s = fmt.Sprintf("%d * %s", p.weight, s)
		}
		return s
	}
	sum := func(at string, keep bool) (string, int) {
		var terms []string
		for _, p := range byWeight(places, at) {
			terms = append(terms, term(p, keep))
		}
		return strings.Join(terms, " + "), len(terms)
	}
	keep := wave == 64 && !in.Sparse && operand != "D" && !in.idle(operand, wave)
	if keep {
		places = bitByBit(places)
	}
	lane, _ = sum("lane", keep)
	lane += " + " + row
	register, n := sum("GPR_num", false)
	switch {
	case n == 0:
		register = "0"
	case n == 1:
		register = part(byWeight(places, "GPR_num")[0], true)
	}
	if n > 1 || n == 1 && !(operand == "D" && in.D.Type.Bits() == 32) {
		register = "(" + register + ")"
	}
	if bits, n := sum("GPR_bits", operand != "E"); n > 0 {
		high := byWeight(places, "GPR_bits")
		register += fmt.Sprintf(".[%s + %d : %s]", bits, high[len(high)-1].weight-1, bits)
	}
	return register, lane
}

// byWeight picks the places of one kind, highest first.
func byWeight(places []bitRun, at string) []bitRun {
	var out []bitRun
	for _, p := range places {
		if p.at == at {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b bitRun) int { return cmp.Compare(b.weight, a.weight) })
	return out
}

// bitByBit cuts the places in lanes into single bits.
func bitByBit(places []bitRun) []bitRun {
	var out []bitRun
	for _, p := range places {
		if p.at != "lane" {
			out = append(out, p)
			continue
		}
		for n := 1; n < p.size; n *= 2 {
			out = append(out, bitRun{p.at, p.weight * n, 2, p.stride * n})
		}
	}
	return out
}

// rdna4Back is the sum of the places, each read off its number.
func (in AMD) rdna4Back(operand string, places []bitRun, wave int) string {
	registers := in.Registers(operand, wave)
	lanes := wave
	if in.idle(operand, wave) && (operand != "A" || !in.Sparse) {
		lanes = 32
	}
	var terms []string
	for _, p := range places {
		s := quotient(p.at, p.weight)
		top := map[string]int{"lane": lanes, "GPR_num": registers, "GPR_bits": 32}[p.at]
		if operand == "E" && p.at == "GPR_bits" {
			top = 64 // the register may hold several sets
		}
		if p.weight*p.size < top || p.at == "GPR_num" && p.weight == 1 && operand != "D" && in.A.Type.Bits() == 16 {
			s = fmt.Sprintf("(%s %% %d)", s, p.size)
		}
		if p.stride > 1 {
			s = fmt.Sprintf("%d * %s", p.stride, s)
		}
		terms = append(terms, s)
	}
	return strings.Join(terms, " + ")
}

func (in AMD) rdna4K(operand string, wave int) string {
	dim := 1
	if operand == "B" {
		dim = 0
	}
	places := in.rdna4Places(operand, dim, wave)
	if operand == "E" && wave == 64 {
		// The fields of both wave sizes are read alike.
		for i, p := range places {
			for _, q := range in.rdna4Places(operand, dim, 32) {
				if p.at == "GPR_bits" && q.at == p.at && q.weight == p.weight {
					places[i].size = q.size
				}
			}
		}
	}
	start := in.rdna4Back(operand, places, wave)
	switch {
	case operand == "E" && in.idle(operand, wave):
		return "(lanes 0-31 only)\n" + start + " + 3\nthrough\n" + start
	case operand == "E":
		return start + " + 3\nthrough\n" + start
	case operand == "A" && in.Sparse:
		return "(" + start + " + 3)\nthrough\n" + start
	}
	return start
}

func (in AMD) rdna4I(wave int) string { return in.rdna4Back("D", in.rdna4Places("D", 0, wave), wave) }
