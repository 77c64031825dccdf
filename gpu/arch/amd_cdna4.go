package arch

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

const srcCDNA4 = "AMD Instinct CDNA4 Instruction Set Architecture, 7.1 and table 28; LLVM test/MC/AMDGPU/mai-gfx950.s; ROCm/aiter opus test_mxfp.cu; Triton gluon amd.cdna4 (k_width 16)"

// cdna4Own are the instructions that CDNA4 has and CDNA3 has not, or has with
// other types (the 8-bit floats of OCP) or other speed (64-bit floats). The rest
// of CDNA3 but xf32 is on CDNA4 as well, see [AMD.Targets].
var cdna4Own = []amdRow{
	{0x35, "v_mfma_f32_16x16x32_bf16", 1, 16},
	{0x36, "v_mfma_i32_16x16x64_i8", 1, 16},
	{0x37, "v_mfma_f32_32x32x16_bf16", 1, 32},
	{0x38, "v_mfma_i32_32x32x32_i8", 1, 32},
	{0x54, "v_mfma_f32_16x16x32_f16", 1, 16},
	{0x55, "v_mfma_f32_32x32x16_f16", 1, 32},
	{0x6e, "v_mfma_f64_16x16x4_f64", 1, 64},
	{0x6f, "v_mfma_f64_4x4x4_4b_f64", 4, 32},
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

// cdna4Formats are the formats that CBSZ chooses for A and BLGP for B in the
// f8f6f4 instructions, by number.
var cdna4Formats = []string{"fp8", "bf8", "fp6", "bf6", "fp4"}

// cdna4Rows adds the f8f6f4 instructions, with and without scales, for each pair
// of formats: formats are fields of the instruction, so the name has them after a
// slash.
func cdna4Rows() []amdRow {
	rows := slices.Clone(cdna4Own)
	for _, kind := range []string{"mfma", "mfma_scale"} {
		for _, shape := range []struct {
			name           string
			opcode, cycles int
		}{{"16x16x128", 0x2d, 16}, {"32x32x64", 0x2e, 32}} {
			for i, a := range cdna4Formats {
				for j, b := range cdna4Formats {
					cycles := shape.cycles
					if min(i, j) < 2 { // 8-bit formats take twice the time
						cycles *= 2
					}
					rows = append(rows, amdRow{shape.opcode, fmt.Sprintf("v_%s_f32_%s_f8f6f4/%s_%s", kind, shape.name, a, b), 1, cycles})
				}
			}
		}
	}
	return rows
}

// Targets lists the gfx names that have the instruction as this row describes it.
func (in AMD) Targets() []string {
	targets := AMDTargets(in.Gen)
	eightBit := in.A.Type.IsFloat() && in.A.Type.Bits() == 8
	if in.Gen == "CDNA3" && !eightBit && in.A.Type != dtype.TF32 && in.A.Type != dtype.F64 {
		targets = append(targets, AMDTargets("CDNA4")...)
	}
	return targets
}

// striped reports that the 32 elements that a lane has of an operand are two runs
// of 16 along K, one in each half of K: so the 8-bit formats of f8f6f4. The
// smaller ones are one run.
func (in AMD) striped(t dtype.Type) bool {
	return in.Gen == "CDNA4" && in.K*in.M == 2048 && t.Bits() == 8
}
