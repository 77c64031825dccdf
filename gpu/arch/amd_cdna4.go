package arch

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

const srcCDNA4 = "AMD Instinct CDNA4 Instruction Set Architecture, 7.1 and table 28; LLVM test/MC/AMDGPU/mai-gfx950.s; layouts: ROCm/aiter opus test_mxfp.cu, AMD fpsan mfma_gfx950 tests (run on MI350), Triton ScaledBlockedToScaledMFMAF8F6F4"

// cdna4Own are the instructions that CDNA4 has and CDNA3 has not, or has with
// other types (the 8-bit floats of OCP) or other speed (64-bit floats). The rest
// of CDNA3 but xf32 is on CDNA4 as well, see [AMD.Targets].
var cdna4Own = []amdRow{
	{0x35, "v_mfma_f32_16x16x32_bf16", 1, 16},
	{0x36, "v_mfma_i32_16x16x64_i8", 1, 16},
	{0x37, "v_mfma_f32_32x32x16_bf16", 1, 32},
	{0x38, "v_mfma_i32_32x32x32_i8", 1, 32},
	{0x39, "v_smfmac_f32_16x16x64_bf16", 1, 16},
	{0x3a, "v_smfmac_i32_16x16x128_i8", 1, 16},
	{0x3b, "v_smfmac_f32_16x16x128_bf8_bf8", 1, 16},
	{0x3c, "v_smfmac_f32_16x16x128_bf8_fp8", 1, 16},
	{0x3d, "v_smfmac_f32_16x16x128_fp8_bf8", 1, 16},
	{0x43, "v_smfmac_f32_16x16x128_fp8_fp8", 1, 16},
	{0x46, "v_smfmac_f32_32x32x32_bf16", 1, 32},
	{0x47, "v_smfmac_i32_32x32x64_i8", 1, 32},
	{0x4b, "v_smfmac_f32_32x32x64_bf8_bf8", 1, 32},
	{0x4e, "v_smfmac_f32_32x32x64_bf8_fp8", 1, 32},
	{0x4f, "v_smfmac_f32_32x32x64_fp8_bf8", 1, 32},
	{0x53, "v_smfmac_f32_32x32x64_fp8_fp8", 1, 32},
	{0x54, "v_mfma_f32_16x16x32_f16", 1, 16},
	{0x55, "v_mfma_f32_32x32x16_f16", 1, 32},
	{0x5a, "v_smfmac_f32_16x16x64_f16", 1, 16},
	{0x5b, "v_smfmac_f32_32x32x32_f16", 1, 32},
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

// striped reports an input of which a lane has 32 bytes: they are two runs of 16
// along K, one in each half of K. Fewer bytes are one run.
func (in AMD) striped(t dtype.Type, rows, k int) bool {
	return in.Gen == "CDNA4" && rows*k/64*t.Bits() == 256
}

// plain reports that all inputs are one run along K in each lane, of elements
// that do not cross registers, so that short formulas tell where they lie.
func (in AMD) plain() bool {
	return !in.striped(in.A.Type, in.M, in.stored()) && !in.striped(in.B.Type, in.N, in.K) && 32%min(32, in.A.Type.Bits()) == 0 && 32%min(32, in.B.Type.Bits()) == 0
}
