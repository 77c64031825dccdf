package arch

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// AMD is one matrix instruction of one generation of AMD GPUs: MFMA and SMFMAC
// of CDNA, WMMA and SWMMAC of RDNA. A row of the table is a name, an opcode, a
// number of blocks and a number of cycles; everything else follows from those
// and from the generation.
type AMD struct {
	Gen            string // "CDNA1" to "CDNA4", "RDNA3", "RDNA4"
	Name           string // mnemonic, lower case
	Opcode         int    // VOP3P
	M, N, K        int    // of one block
	Blocks         int    // independent products, at least 1
	A, B, D        AMDType
	Cycles         int  // of one instruction, as AMD counts them
	Sparse         bool // A is stored 2:4
	Scaled         bool // A and B have E8M0 scales, one for 32 elements
	Source         string
	coexecuteAfter int // cycles until VALU instructions can start; -1 never
	operands       map[operandKey]Operand
}

// AMDType is an element type as the instruction set documents name it.
type AMDType struct {
	Type dtype.Type
	Text string // as AMD's calculator words it
	Note string // where our type is not quite it
}

// amdGeneration holds what all instructions of a generation share.
type amdGeneration struct {
	name   string
	gfx    []string
	waves  []int // lanes of a wave
	align  int   // bytes to which register tuples are aligned
	source string
	rows   []amdRow
}

type amdRow struct {
	opcode int
	name   string
	blocks int
	cycles int
}

const (
	srcCDNA1 = "AMD Instinct MI100 Instruction Set Architecture, 7.1 Matrix fused-multiply-add; ROCm/amd_matrix_instruction_calculator@2ef9189; LLVM test/MC/AMDGPU/mai.s"
	srcCDNA2 = "AMD Instinct MI200 Instruction Set Architecture, 7.1 Matrix fused-multiply-add; ROCm/amd_matrix_instruction_calculator@2ef9189; LLVM test/MC/AMDGPU/mai-gfx90a.s"
	srcCDNA3 = "AMD Instinct MI300 Instruction Set Architecture, 7.1 Matrix fused-multiply-add; ROCm/amd_matrix_instruction_calculator@2ef9189; LLVM test/MC/AMDGPU/mai-gfx940.s"
	srcRDNA3 = "RDNA3 Instruction Set Architecture, 7.9 Wave Matrix Multiply Accumulate; ROCm/amd_matrix_instruction_calculator@2ef9189"
	srcRDNA4 = "RDNA4 Instruction Set Architecture, 7.9 Wave Matrix Multiply Accumulate; ROCm/amd_matrix_instruction_calculator@2ef9189"
)

var cdna1Rows = []amdRow{
	{0x40, "v_mfma_f32_32x32x1f32", 2, 64},
	{0x41, "v_mfma_f32_16x16x1f32", 4, 32},
	{0x42, "v_mfma_f32_4x4x1f32", 16, 8},
	{0x44, "v_mfma_f32_32x32x2f32", 1, 64},
	{0x45, "v_mfma_f32_16x16x4f32", 1, 32},
	{0x48, "v_mfma_f32_32x32x4f16", 2, 64},
	{0x49, "v_mfma_f32_16x16x4f16", 4, 32},
	{0x4a, "v_mfma_f32_4x4x4f16", 16, 8},
	{0x4c, "v_mfma_f32_32x32x8f16", 1, 64},
	{0x4d, "v_mfma_f32_16x16x16f16", 1, 32},
	{0x50, "v_mfma_i32_32x32x4i8", 2, 64},
	{0x51, "v_mfma_i32_16x16x4i8", 4, 32},
	{0x52, "v_mfma_i32_4x4x4i8", 16, 8},
	{0x54, "v_mfma_i32_32x32x8i8", 1, 64},
	{0x55, "v_mfma_i32_16x16x16i8", 1, 32},
	{0x68, "v_mfma_f32_32x32x2bf16", 2, 64},
	{0x69, "v_mfma_f32_16x16x2bf16", 4, 32},
	{0x6b, "v_mfma_f32_4x4x2bf16", 16, 8},
	{0x6c, "v_mfma_f32_32x32x4bf16", 1, 64},
	{0x6d, "v_mfma_f32_16x16x8bf16", 1, 32},
}

// cdna2Rows are what CDNA2 has beyond CDNA1.
var cdna2Rows = []amdRow{
	{0x63, "v_mfma_f32_32x32x4bf16_1k", 2, 64},
	{0x64, "v_mfma_f32_16x16x4bf16_1k", 4, 32},
	{0x65, "v_mfma_f32_4x4x4bf16_1k", 16, 8},
	{0x66, "v_mfma_f32_32x32x8bf16_1k", 1, 64},
	{0x67, "v_mfma_f32_16x16x16bf16_1k", 1, 32},
	{0x6e, "v_mfma_f64_16x16x4f64", 1, 32},
	{0x6f, "v_mfma_f64_4x4x4f64", 4, 16},
}

var cdna3Rows = []amdRow{
	{0x3e, "v_mfma_f32_16x16x8_xf32", 1, 16},
	{0x3f, "v_mfma_f32_32x32x4_xf32", 1, 32},
	{0x40, "v_mfma_f32_32x32x1_2b_f32", 2, 64},
	{0x41, "v_mfma_f32_16x16x1_4b_f32", 4, 32},
	{0x42, "v_mfma_f32_4x4x1_16b_f32", 16, 8},
	{0x44, "v_mfma_f32_32x32x2_f32", 1, 64},
	{0x45, "v_mfma_f32_16x16x4_f32", 1, 32},
	{0x48, "v_mfma_f32_32x32x4_2b_f16", 2, 64},
	{0x49, "v_mfma_f32_16x16x4_4b_f16", 4, 32},
	{0x4a, "v_mfma_f32_4x4x4_16b_f16", 16, 8},
	{0x4c, "v_mfma_f32_32x32x8_f16", 1, 32},
	{0x4d, "v_mfma_f32_16x16x16_f16", 1, 16},
	{0x50, "v_mfma_i32_32x32x4_2b_i8", 2, 64},
	{0x51, "v_mfma_i32_16x16x4_4b_i8", 4, 32},
	{0x52, "v_mfma_i32_4x4x4_16b_i8", 16, 8},
	{0x56, "v_mfma_i32_32x32x16_i8", 1, 32},
	{0x57, "v_mfma_i32_16x16x32_i8", 1, 16},
	{0x5d, "v_mfma_f32_32x32x4_2b_bf16", 2, 64},
	{0x5e, "v_mfma_f32_16x16x4_4b_bf16", 4, 32},
	{0x5f, "v_mfma_f32_4x4x4_16b_bf16", 16, 8},
	{0x60, "v_mfma_f32_32x32x8_bf16", 1, 32},
	{0x61, "v_mfma_f32_16x16x16_bf16", 1, 16},
	{0x62, "v_smfmac_f32_16x16x32_f16", 1, 16},
	{0x64, "v_smfmac_f32_32x32x16_f16", 1, 32},
	{0x66, "v_smfmac_f32_16x16x32_bf16", 1, 16},
	{0x68, "v_smfmac_f32_32x32x16_bf16", 1, 32},
	{0x6a, "v_smfmac_i32_16x16x64_i8", 1, 16},
	{0x6c, "v_smfmac_i32_32x32x32_i8", 1, 32},
	{0x6e, "v_mfma_f64_16x16x4_f64", 1, 32},
	{0x6f, "v_mfma_f64_4x4x4_4b_f64", 4, 16},
	{0x70, "v_mfma_f32_16x16x32_bf8_bf8", 1, 16},
	{0x71, "v_mfma_f32_16x16x32_bf8_fp8", 1, 16},
	{0x72, "v_mfma_f32_16x16x32_fp8_bf8", 1, 16},
	{0x73, "v_mfma_f32_16x16x32_fp8_fp8", 1, 16},
	{0x74, "v_mfma_f32_32x32x16_bf8_bf8", 1, 32},
	{0x75, "v_mfma_f32_32x32x16_bf8_fp8", 1, 32},
	{0x76, "v_mfma_f32_32x32x16_fp8_bf8", 1, 32},
	{0x77, "v_mfma_f32_32x32x16_fp8_fp8", 1, 32},
	{0x78, "v_smfmac_f32_16x16x64_bf8_bf8", 1, 16},
	{0x79, "v_smfmac_f32_16x16x64_bf8_fp8", 1, 16},
	{0x7a, "v_smfmac_f32_16x16x64_fp8_bf8", 1, 16},
	{0x7b, "v_smfmac_f32_16x16x64_fp8_fp8", 1, 16},
	{0x7c, "v_smfmac_f32_32x32x32_bf8_bf8", 1, 32},
	{0x7d, "v_smfmac_f32_32x32x32_bf8_fp8", 1, 32},
	{0x7e, "v_smfmac_f32_32x32x32_fp8_bf8", 1, 32},
	{0x7f, "v_smfmac_f32_32x32x32_fp8_fp8", 1, 32},
}

var rdna3Rows = []amdRow{
	{0x40, "v_wmma_f32_16x16x16_f16", 1, 32},
	{0x41, "v_wmma_f32_16x16x16_bf16", 1, 32},
	{0x42, "v_wmma_f16_16x16x16_f16", 1, 32},
	{0x43, "v_wmma_bf16_16x16x16_bf16", 1, 32},
	{0x44, "v_wmma_i32_16x16x16_iu8", 1, 32},
	{0x45, "v_wmma_i32_16x16x16_iu4", 1, 16},
}

var rdna4Rows = []amdRow{
	{0x40, "v_wmma_f32_16x16x16_f16", 1, 16},
	{0x41, "v_wmma_f32_16x16x16_bf16", 1, 16},
	{0x42, "v_wmma_f16_16x16x16_f16", 1, 16},
	{0x43, "v_wmma_bf16_16x16x16_bf16", 1, 16},
	{0x44, "v_wmma_i32_16x16x16_iu8", 1, 8},
	{0x45, "v_wmma_i32_16x16x16_iu4", 1, 8},
	{0x46, "v_wmma_f32_16x16x16_fp8_fp8", 1, 8},
	{0x47, "v_wmma_f32_16x16x16_fp8_bf8", 1, 8},
	{0x48, "v_wmma_f32_16x16x16_bf8_fp8", 1, 8},
	{0x49, "v_wmma_f32_16x16x16_bf8_bf8", 1, 8},
	{0x4a, "v_wmma_i32_16x16x32_iu4", 1, 8},
	{0x50, "v_swmmac_f32_16x16x32_f16", 1, 16},
	{0x51, "v_swmmac_f32_16x16x32_bf16", 1, 16},
	{0x52, "v_swmmac_f16_16x16x32_f16", 1, 16},
	{0x53, "v_swmmac_bf16_16x16x32_bf16", 1, 16},
	{0x54, "v_swmmac_i32_16x16x32_iu8", 1, 8},
	{0x55, "v_swmmac_i32_16x16x32_iu4", 1, 8},
	{0x56, "v_swmmac_i32_16x16x64_iu4", 1, 8},
	{0x57, "v_swmmac_f32_16x16x32_fp8_fp8", 1, 8},
	{0x58, "v_swmmac_f32_16x16x32_fp8_bf8", 1, 8},
	{0x59, "v_swmmac_f32_16x16x32_bf8_fp8", 1, 8},
	{0x5a, "v_swmmac_f32_16x16x32_bf8_bf8", 1, 8},
}

func amdGenerations() []amdGeneration {
	wave64, both := []int{64}, []int{32, 64}
	return []amdGeneration{
		{"CDNA1", []string{"gfx908"}, wave64, 4, srcCDNA1, cdna1Rows},
		{"CDNA2", []string{"gfx90a"}, wave64, 8, srcCDNA2, slices.Concat(cdna1Rows, cdna2Rows)},
		{"CDNA3", []string{"gfx942"}, wave64, 8, srcCDNA3, cdna3Rows},
		{"CDNA4", []string{"gfx950"}, wave64, 8, srcCDNA4, cdna4Rows()},
		{"RDNA3", []string{"gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"}, both, 4, srcRDNA3, rdna3Rows},
		{"RDNA4", []string{"gfx1200", "gfx1201"}, both, 4, srcRDNA4, rdna4Rows},
	}
}

// AMDGenerations lists the generations that have matrix instructions.
func AMDGenerations() []string {
	var names []string
	for _, g := range amdGenerations() {
		names = append(names, g.name)
	}
	return names
}

// AMDTargets lists the gfx names of a generation, nil for one that is not known.
func AMDTargets(generation string) []string {
	for _, g := range amdGenerations() {
		if strings.EqualFold(g.name, generation) {
			return slices.Clone(g.gfx)
		}
	}
	return nil
}

// amdName takes a mnemonic apart: family, type of sums, M, N, K, type of A, type
// of B.
var amdName = regexp.MustCompile(`^v_(mfma|mfma_scale|smfmac|wmma|swmmac)_([a-z]+\d+)_(\d+)x(\d+)x(\d+)_?(?:\d+b_)?(?:f8f6f4/)?([a-z]+\d+)(?:_([a-z]+\d+))?(?:_1k)?$`)

// amdType is a type of a mnemonic in a generation. FP8 changed its meaning:
// CDNA3 has the forms without infinities and negative zero, RDNA4 and CDNA4
// those of OCP.
func amdType(generation, name string) (AMDType, error) {
	const fnuz = "FNUZ: bias one higher, one NaN where OCP has negative zero, no infinity"
	switch name {
	case "f64":
		return AMDType{dtype.F64, "FP64 (IEEE binary64 floating point)", ""}, nil
	case "f32":
		return AMDType{dtype.F32, "FP32 (IEEE binary32 floating point)", ""}, nil
	case "xf32":
		return AMDType{dtype.TF32, "FP32 (IEEE binary32 floating point)", "binary32 in registers; the multiplier reads 10 bits of mantissa"}, nil
	case "f16":
		return AMDType{dtype.F16, "FP16 (IEEE binary16 floating point)", ""}, nil
	case "bf16":
		return AMDType{dtype.BF16, "BF16 (Brain floating point)", ""}, nil
	case "i32":
		return AMDType{dtype.I32, "int32 (Signed 32-bit integer)", ""}, nil
	case "i8":
		return AMDType{dtype.I8, "int8 (Signed 8-bit integer)", ""}, nil
	case "iu8":
		return AMDType{dtype.I8, "IU8 (Signed/unsigned 8-bit integer)", "NEG chooses signed or unsigned"}, nil
	case "iu4":
		return AMDType{dtype.I4, "IU4 (Signed/unsigned 4-bit integer)", "NEG chooses signed or unsigned"}, nil
	case "fp8":
		if generation == "CDNA3" {
			return AMDType{dtype.F8E4M3, "FP8 (AMD 4-bit exponent, 3-bit mantissa floating point)", fnuz}, nil
		}
		return AMDType{dtype.F8E4M3, "FP8 (OCP 4-bit exponent, 3-bit mantissa floating point)", ""}, nil
	case "bf8":
		if generation == "CDNA3" {
			return AMDType{dtype.F8E5M2, "BF8 (AMD 5-bit exponent, 2-bit mantissa floating point)", fnuz}, nil
		}
		return AMDType{dtype.F8E5M2, "BF8 (OCP 5-bit exponent, 2-bit mantissa floating point)", ""}, nil
	case "fp6":
		return AMDType{dtype.F6E2M3, "FP6 (OCP 2-bit exponent, 3-bit mantissa floating point)", ""}, nil
	case "bf6":
		return AMDType{dtype.F6E3M2, "BF6 (OCP 3-bit exponent, 2-bit mantissa floating point)", ""}, nil
	case "fp4":
		return AMDType{dtype.F4E2M1, "FP4 (OCP 2-bit exponent, 1-bit mantissa floating point)", ""}, nil
	}
	return AMDType{}, fmt.Errorf("arch: no element type %q of %s", name, generation)
}

func newAMD(g amdGeneration, r amdRow) (AMD, error) {
	f := amdName.FindStringSubmatch(r.name)
	if f == nil {
		return AMD{}, fmt.Errorf("arch: %s is no matrix instruction", r.name)
	}
	in := AMD{Gen: g.name, Name: r.name, Opcode: r.opcode, Blocks: r.blocks, Cycles: r.cycles, Source: g.source,
		Sparse: f[1] == "smfmac" || f[1] == "swmmac", Scaled: f[1] == "mfma_scale"}
	for i, dst := range []*int{&in.M, &in.N, &in.K} {
		n, err := strconv.Atoi(f[3+i])
		if err != nil {
			return AMD{}, fmt.Errorf("arch: %s: %w", r.name, err)
		}
		*dst = n
	}
	second := f[7]
	if second == "" {
		second = f[6]
	}
	for _, t := range []struct {
		name string
		dst  *AMDType
	}{{f[2], &in.D}, {f[6], &in.A}, {second, &in.B}} {
		var err error
		if *t.dst, err = amdType(g.name, t.name); err != nil {
			return AMD{}, fmt.Errorf("%w in %s", err, r.name)
		}
	}
	in.coexecuteAfter = in.coexecution()
	in.operands = map[operandKey]Operand{}
	for _, wave := range in.Waves() {
		for _, name := range in.OperandNames() {
			in.operands[operandKey{name, wave}] = in.newOperand(name, wave)
		}
	}
	return in, nil
}

// coexecution is the number of cycles after which vector instructions can run
// beside the instruction, -1 where they cannot, or where no source says it.
func (in AMD) coexecution() int {
	switch {
	case !in.CDNA() || in.A.Type == dtype.F64 || in.Gen == "CDNA4":
		return -1
	case in.Gen == "CDNA1":
		return 8
	case in.Gen == "CDNA2":
		return 4
	case in.A.Type == dtype.F32:
		return -1
	case in.Sparse:
		return 8
	}
	return 4
}

// CDNA reports the compute generations, whose waves have 64 lanes and whose
// registers the instruction encodes as VOP3P-MAI.
func (in AMD) CDNA() bool { return strings.HasPrefix(in.Gen, "CDNA") }

// Waves lists the wave sizes in which the instruction exists.
func (in AMD) Waves() []int {
	if in.CDNA() {
		return []int{64}
	}
	return []int{32, 64}
}

// Integer reports products of integers.
func (in AMD) Integer() bool { return in.D.Type == dtype.I32 }

// Operations is the number of multiplications and additions, 2·blocks·M·N·K.
func (in AMD) Operations() int { return 2 * in.Blocks * in.M * in.N * in.K }

// OperationsPerCycle is what the four matrix cores of a compute unit (CDNA) or
// workgroup processor (RDNA) do in a cycle.
func (in AMD) OperationsPerCycle() int { return 4 * (in.Operations() / in.Cycles) }

// Coexecutes is the number of cycles that vector instructions can use beside the
// instruction, 0 for none.
func (in AMD) Coexecutes() int {
	if in.coexecuteAfter < 0 {
		return 0
	}
	return max(0, in.Cycles-in.coexecuteAfter)
}

// Alignment is the alignment of register tuples in bytes.
func (in AMD) Alignment() int {
	if in.CDNA() && in.Gen != "CDNA1" {
		return 8
	}
	return 4
}

// UsesCBSZ reports that CBSZ and ABID have a meaning: broadcasts of blocks of A,
// or the choice among sets of sparsity indices.
func (in AMD) UsesCBSZ() bool {
	return in.CDNA() && (in.Sparse && in.indexSets(64) > 1 || in.Blocks > 1 && in.A.Type != dtype.F64)
}

// UsesBLGP reports that BLGP has a meaning: patterns of lanes of B, or the signs
// of 64-bit operands.
func (in AMD) UsesBLGP() bool {
	f64 := in.A.Type == dtype.F64
	switch in.Gen {
	case "CDNA1":
		return true
	case "CDNA2":
		return !f64
	case "CDNA3", "CDNA4":
		return !in.Sparse && (in.Blocks > 1 || f64 || in.A.Type == dtype.F32)
	}
	return false
}

// UsesOpSel reports that OPSEL has a meaning: the half of a register that holds a
// 16-bit sum (RDNA3), or the set of sparsity indices (RDNA4).
func (in AMD) UsesOpSel() bool {
	return in.Gen == "RDNA3" && in.D.Type.Bits() == 16 || in.Gen == "RDNA4" && in.Sparse
}

// UsesNeg reports that NEG has a meaning: the signs of A, B and C, or whether
// integers are signed.
func (in AMD) UsesNeg() bool {
	return !in.CDNA() && in.A.Type.Bits() != 8 || in.Integer() && !in.CDNA()
}

// family is that of the catalogue.
func (in AMD) family() string {
	kind, _, _ := strings.Cut(strings.TrimPrefix(in.Name, "v_"), "_")
	if kind == "wmma" {
		return "rdna.wmma"
	}
	return kind
}

// Registers is the number of 32-bit registers of an operand ("A", "B", "C", "D",
// "E") in a wave of that size.
func (in AMD) Registers(operand string, wave int) int {
	o, err := in.matrix(operand, wave)
	if err != nil {
		return 0
	}
	return (o.Layout.Slots()*o.SlotBits() + 31) / 32
}

var loadAMD = sync.OnceValues(func() ([]AMD, error) {
	var all []AMD
	for _, g := range amdGenerations() {
		for _, r := range g.rows {
			in, err := newAMD(g, r)
			if err != nil {
				return nil, err
			}
			all = append(all, in)
		}
	}
	return all, nil
})

// AMDInstructions lists the table, generation by generation. It panics when a row
// does not load: that is a slip in this package.
func AMDInstructions() []AMD {
	all, err := loadAMD()
	if err != nil {
		panic(err)
	}
	return slices.Clone(all)
}

// FindAMD finds an instruction of a generation ("CDNA3", or a gfx name) by its
// mnemonic; case does not matter.
func FindAMD(generation, mnemonic string) (AMD, error) {
	var known []string
	for _, g := range amdGenerations() {
		if !strings.EqualFold(g.name, generation) && !slices.Contains(g.gfx, strings.ToLower(generation)) {
			continue
		}
		for _, in := range AMDInstructions() {
			if in.Gen != g.name {
				continue
			}
			if strings.EqualFold(in.Name, mnemonic) {
				return in, nil
			}
			known = append(known, in.Name)
		}
		help := diag.DidYouMean(strings.ToLower(mnemonic), known)
		if help != "" {
			help = "; " + help
		}
		return AMD{}, fmt.Errorf("arch: %s has no instruction %q%s", g.name, mnemonic, help)
	}
	return AMD{}, fmt.Errorf("arch: no AMD generation %q with matrix instructions; known are %s", generation, strings.Join(AMDGenerations(), ", "))
}

// amdAtoms is AMD's part of the catalogue: one row for each instruction,
// generation and wave size.
func amdAtoms() []Atom {
	all := AMDInstructions()
	newest := map[string]int{} // the last generation that has a mnemonic owns the bare name
	for i, in := range all {
		newest[in.Name] = i
	}
	var atoms []Atom
	for i, in := range all {
		for _, wave := range in.Waves() {
			a := in.Atom(wave)
			if newest[in.Name] == i && wave == in.Waves()[0] {
				a.Aliases = append(a.Aliases, in.Name)
			}
			atoms = append(atoms, a)
		}
	}
	return atoms
}

// Atom is the instruction as a row of the catalogue, for one wave size. Its name
// is generation/mnemonic, with /w64 for the wider waves of RDNA.
func (in AMD) Atom(wave int) Atom {
	targets := in.Targets()
	a := Atom{Name: strings.ToLower(in.Gen) + "/" + in.Name, Vendor: "amd", Family: in.family(), M: in.M, N: in.N, K: in.K, Blocks: in.Blocks,
		Lanes: wave, Since: targets[0], Archs: targets, Source: in.Source, Note: in.note()}
	if wave != in.Waves()[0] {
		a.Name += fmt.Sprintf("/w%d", wave)
	}
	for _, name := range in.OperandNames() {
		o, _ := in.Operand(name, wave)
		a.Operands = append(a.Operands, o)
	}
	return a
}

// AMD is the instruction that a row of the catalogue describes, with the size of
// its waves; ok is false for rows of other vendors.
func (a Atom) AMD() (in AMD, wave int, ok bool) {
	generation, rest, _ := strings.Cut(a.Name, "/")
	in, err := FindAMD(generation, strings.TrimSuffix(rest, "/w64"))
	return in, a.Lanes, err == nil && a.Vendor == "amd"
}

func (in AMD) note() string {
	if in.Gen == "RDNA4" || in.Gen == "CDNA4" {
		return "the order of K is free if A and B agree: permuting K the same way in both leaves every sum as it is"
	}
	if in.Blocks > 1 {
		return fmt.Sprintf("%d products that share no element", in.Blocks)
	}
	return ""
}
