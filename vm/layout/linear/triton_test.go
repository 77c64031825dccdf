package linear

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// What Triton's own unit tests expect of its conversions, as facts: an
// independent oracle. Dimensions that the text leaves out have no bases.
//
// Source: triton-lang/triton, unittest/Dialect/TritonGPU/LinearLayoutConversionsTest.cpp.
var tritonFacts = []struct {
	name, attr string
	shape      []int
	want       string
}{
	{"SimpleBlocked", blocked("[1]", "[4]", "[4]", "[0]", ""), []int{16}, `{"lane":[[1],[2]],"warp":[[4],[8]]}`},
	{"CTADuplication", blocked("[1]", "[4]", "[4]", "[0]", "CTAsPerCGA = [4], CTASplitNum = [2], CTAOrder = [0]"), []int{32},
		`{"lane":[[1],[2]],"warp":[[4],[8]],"block":[[16],[0]]}`},
	{"CTABroadcast", blocked("[8,1]", "[8,4]", "[1,4]", "[0,1]", "CTAsPerCGA = [1,2], CTASplitNum = [1,2], CTAOrder = [1,0]"), []int{64, 128},
		`{"register":[[1,0],[2,0],[4,0],[0,16],[0,32]],"lane":[[8,0],[16,0],[32,0],[0,1],[0,2]],"warp":[[0,4],[0,8]],"block":[[0,64]]}`},
	{"ShapeLargerThanLayout", blocked("[1]", "[4]", "[4]", "[0]", ""), []int{128},
		`{"register":[[16],[32],[64]],"lane":[[1],[2]],"warp":[[4],[8]]}`},
	{"ShapeLargerThanLayout2DDegenerate", blocked("[1,1]", "[4,1]", "[4,1]", "[0,1]", ""), []int{128, 1},
		`{"register":[[16,0],[32,0],[64,0]],"lane":[[1,0],[2,0]],"warp":[[4,0],[8,0]]}`},
	{"ShapeSmallerThanLayout", blocked("[4]", "[4]", "[4]", "[0]", ""), []int{8},
		`{"register":[[1],[2]],"lane":[[4],[0]],"warp":[[0],[0]]}`},
	{"ReversedOrder", blocked("[1,1]", "[32,1]", "[1,8]", "[0,1]", ""), []int{1, 64},
		`{"register":[[0,8],[0,16],[0,32]],"lane":[[0,0],[0,0],[0,0],[0,0],[0,0]],"warp":[[0,1],[0,2],[0,4]]}`},
	{"ReplicateInRegisterDim", blocked("[2]", "[4]", "[1]", "[0]", ""), []int{32}, `{"register":[[1],[8],[16]],"lane":[[2],[4]]}`},
	{"OneDimTooLargeAnotherTooSmall", blocked("[1,4]", "[8,4]", "[4,1]", "[1,0]", "CTAsPerCGA = [2,2], CTASplitNum = [2,1], CTAOrder = [1,0]"), []int{128, 16},
		`{"register":[[0,1],[0,2],[32,0]],"lane":[[0,4],[0,8],[1,0],[2,0],[4,0]],"warp":[[8,0],[16,0]],"block":[[0,0],[64,0]]}`},
	{"RepeatInCTGDimFirst", blocked("[1]", "[1]", "[4]", "[0]", "CTAsPerCGA = [2], CTASplitNum = [2], CTAOrder = [0]"), []int{4},
		`{"warp":[[1],[0]],"block":[[2]]}`},
	{"SmallerThanCTALayout", blocked("[1]", "[1]", "[1]", "[0]", "CTAsPerCGA = [4], CTASplitNum = [4], CTAOrder = [0]"), []int{2}, `{"block":[[1],[0]]}`},
	{"Skinny", blocked("[8,1]", "[8,4]", "[1,4]", "[0,1]", "CTAsPerCGA = [1,2], CTASplitNum = [1,2], CTAOrder = [0,1]"), []int{64, 1},
		`{"register":[[1,0],[2,0],[4,0]],"lane":[[8,0],[16,0],[32,0],[0,0],[0,0]],"warp":[[0,0],[0,0]],"block":[[0,0]]}`},
	{"BlockedOrder", blocked("[2,2]", "[4,8]", "[2,2]", "[1,0]", "CTAsPerCGA = [2,2], CTASplitNum = [2,2], CTAOrder = [1,0]"), []int{1024, 128},
		`{"register":[[0,1],[1,0],[0,32],[16,0],[32,0],[64,0],[128,0],[256,0]],"lane":[[0,2],[0,4],[0,8],[2,0],[4,0]],"warp":[[0,16],[8,0]],"block":[[0,64],[512,0]]}`},
	{"Blocked4D", blocked("[1,1,1,4]", "[2,1,1,16]", "[1,2,4,1]", "[3,0,1,2]", ""), []int{2, 1, 1, 1},
		`{"register":[[0,0,0,0],[0,0,0,0]],"lane":[[0,0,0,0],[0,0,0,0],[0,0,0,0],[0,0,0,0],[1,0,0,0]],"warp":[[0,0,0,0],[0,0,0,0],[0,0,0,0]]}`},

	{"BlockedDotOperandRhs", dot(1, "", blocked("[2,4]", "[8,4]", "[2,4]", "[1,0]", "")), []int{16, 64},
		`{"register":[[0,1],[0,2],[1,0],[2,0],[4,0],[8,0]],"lane":[[0,4],[0,8],[0,0],[0,0],[0,0]],"warp":[[0,16],[0,32],[0,0]]}`},
	{"BlockedDot3dOperandLhs", dot(0, "", blocked("[2,2,4]", "[2,4,4]", "[2,2,2]", "[2,1,0]", "")), []int{16, 32, 4},
		`{"register":[[0,0,1],[0,0,2],[0,1,0],[1,0,0],[0,16,0],[8,0,0]],"lane":[[0,0,0],[0,0,0],[0,2,0],[0,4,0],[2,0,0]],"warp":[[0,0,0],[0,8,0],[4,0,0]]}`},
	{"BlockedDot3dOperandRhs", dot(1, "", blocked("[2,2,4]", "[2,4,4]", "[2,2,2]", "[2,1,0]", "")), []int{16, 4, 64},
		`{"register":[[0,0,1],[0,0,2],[0,1,0],[0,2,0],[1,0,0],[0,0,32],[8,0,0]],"lane":[[0,0,4],[0,0,8],[0,0,0],[0,0,0],[2,0,0]],"warp":[[0,0,16],[0,0,0],[4,0,0]]}`},

	{"MMAv2_16x16", mma(2, "[16,8]", "[1,1]", ""), []int{16, 16}, `{"register":[[0,1],[8,0],[0,8]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]]}`},
	{"MMAv2_32x32", mma(2, "[16,8]", "[1,1]", ""), []int{32, 32}, `{"register":[[0,1],[8,0],[0,8],[0,16],[16,0]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]]}`},
	{"MMAv2_ExtendDim2", mma(2, "[16,8]", "[1,1]", ""), []int{16, 128},
		`{"register":[[0,1],[8,0],[0,8],[0,16],[0,32],[0,64]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]]}`},
	{"MMAv2_Cga", mma(2, "[1,16,8]", "[16,1,1]", ", CTAsPerCGA = [4,2,2], CTASplitNum = [4,2,1], CTAOrder = [2,1,0]"), []int{64, 128, 128},
		`{"register":[[0,0,1],[0,8,0],[0,0,8],[0,0,16],[0,0,32],[0,0,64],[0,16,0],[0,32,0]],"lane":[[0,0,2],[0,0,4],[0,1,0],[0,2,0],[0,4,0]],"warp":[[1,0,0],[2,0,0],[4,0,0],[8,0,0]],"block":[[0,0,0],[0,64,0],[16,0,0],[32,0,0]]}`},
	{"MMAv2_Small3D", mma(2, "[1,16,8]", "[16,1,1]", ", CTAsPerCGA = [4,2,2], CTASplitNum = [4,2,1], CTAOrder = [2,1,0]"), []int{1, 128, 128},
		`{"register":[[0,0,1],[0,8,0],[0,0,8],[0,0,16],[0,0,32],[0,0,64],[0,16,0],[0,32,0]],"lane":[[0,0,2],[0,0,4],[0,1,0],[0,2,0],[0,4,0]],"warp":[[0,0,0],[0,0,0],[0,0,0],[0,0,0]],"block":[[0,0,0],[0,64,0],[0,0,0],[0,0,0]]}`},
	{"MMAv3_64x16", mma(3, "[16,16,8]", "[4,1]", ""), []int{64, 16}, `{"register":[[0,1],[8,0],[0,8]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]],"warp":[[16,0],[32,0]]}`},
	{"MMAv3_64x16 n=8", mma(3, "[16,8,8]", "[4,1]", ""), []int{64, 16}, `{"register":[[0,1],[8,0],[0,8]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]],"warp":[[16,0],[32,0]]}`},
	{"MMAv3_128x16", mma(3, "[16,16,8]", "[4,1]", ""), []int{128, 16}, `{"register":[[0,1],[8,0],[0,8],[64,0]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]],"warp":[[16,0],[32,0]]}`},
	{"MMAv3_1024x1024", mma(3, "[16,16,8]", "[4,1]", ""), []int{1024, 1024},
		`{"register":[[0,1],[8,0],[0,8],[0,16],[0,32],[0,64],[0,128],[0,256],[0,512],[64,0],[128,0],[256,0],[512,0]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]],"warp":[[16,0],[32,0]]}`},
	{"MMAv3_4x2Warps 64x32", mma(3, "[16,32,16]", "[4,2]", ""), []int{64, 32}, `{"register":[[0,1],[8,0],[0,8],[0,16]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]],"warp":[[16,0],[32,0],[0,0]]}`},
	{"MMAv3_4x2Warps 256x64", mma(3, "[16,32,16]", "[4,2]", ""), []int{256, 64},
		`{"register":[[0,1],[8,0],[0,8],[0,16],[64,0],[128,0]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]],"warp":[[16,0],[32,0],[0,32]]}`},
	{"MMAv3_4x4Warps 16x16", mma(3, "[16,16,8]", "[4,4]", ""), []int{16, 16}, `{"register":[[0,1],[8,0],[0,8]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]],"warp":[[0,0],[0,0],[0,0],[0,0]]}`},
	{"MMAv3_4x4Warps 128x16", mma(3, "[16,16,8]", "[4,4]", ""), []int{128, 16}, `{"register":[[0,1],[8,0],[0,8],[64,0]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]],"warp":[[16,0],[32,0],[0,0],[0,0]]}`},
	{"MMAv3_4x4Warps 32x32", mma(3, "[16,16,8]", "[4,4]", ""), []int{32, 32}, `{"register":[[0,1],[8,0],[0,8]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]],"warp":[[16,0],[0,0],[0,16],[0,0]]}`},

	{"DotMMAv2_tile_kwidth8 A", dot(0, "8", mma(2, "[16,8]", "[1,1]", "")), []int{16, 64}, `{"register":[[0,1],[0,2],[0,4],[8,0],[0,32]],"lane":[[0,8],[0,16],[1,0],[2,0],[4,0]]}`},
	{"DotMMAv2_tile_kwidth8 B", dot(1, "8", mma(2, "[16,8]", "[1,1]", "")), []int{64, 8}, `{"register":[[1,0],[2,0],[4,0],[32,0]],"lane":[[8,0],[16,0],[0,1],[0,2],[0,4]]}`},
	{"DotMMAv2_large_warp4_kwidth8 A", dot(0, "8", mma(2, "[16,8]", "[4,1]", "")), []int{128, 128},
		`{"register":[[0,1],[0,2],[0,4],[8,0],[0,32],[0,64],[64,0]],"lane":[[0,8],[0,16],[1,0],[2,0],[4,0]],"warp":[[16,0],[32,0]]}`},
	{"DotMMAv2_large_warp4_kwidth8 B", dot(1, "8", mma(2, "[16,8]", "[4,1]", "")), []int{128, 64},
		`{"register":[[1,0],[2,0],[4,0],[32,0],[64,0],[0,8],[0,16],[0,32]],"lane":[[8,0],[16,0],[0,1],[0,2],[0,4]],"warp":[[0,0],[0,0]]}`},
	{"DotMMAv2_3D A", dot(0, "8", mma(2, "[1,16,8]", "[2,4,2]", "")), []int{16, 128, 128},
		`{"register":[[0,0,1],[0,0,2],[0,0,4],[0,8,0],[0,0,32],[0,0,64],[0,64,0],[2,0,0],[4,0,0],[8,0,0]],"lane":[[0,0,8],[0,0,16],[0,1,0],[0,2,0],[0,4,0]],"warp":[[0,0,0],[0,16,0],[0,32,0],[1,0,0]]}`},
	{"DotMMAv2_3D B", dot(1, "8", mma(2, "[1,16,8]", "[2,4,2]", "")), []int{8, 128, 64},
		`{"register":[[0,1,0],[0,2,0],[0,4,0],[0,32,0],[0,64,0],[0,0,16],[0,0,32],[2,0,0],[4,0,0]],"lane":[[0,8,0],[0,16,0],[0,0,1],[0,0,2],[0,0,4]],"warp":[[0,0,8],[0,0,0],[0,0,0],[1,0,0]]}`},
	{"DotMMAv3_warp4_kwidth2", dot(0, "2", mma(3, "[16,16,8]", "[4,1]", "")), []int{128, 32},
		`{"register":[[0,1],[8,0],[0,8],[0,16],[64,0]],"lane":[[0,2],[0,4],[1,0],[2,0],[4,0]],"warp":[[16,0],[32,0]]}`},
	{"DotMMAv3_mixed_warp_kwidth4", dot(0, "4", mma(3, "[16,16,8]", "[4,2]", "")), []int{128, 64},
		`{"register":[[0,1],[0,2],[8,0],[0,16],[0,32],[64,0]],"lane":[[0,4],[0,8],[1,0],[2,0],[4,0]],"warp":[[16,0],[32,0],[0,0]]}`},
	{"DotMMAv2_split_warp_kwidth8 A", dot(0, "8", mma(2, "[16,8]", "[2,2]", "")), []int{64, 128},
		`{"register":[[0,1],[0,2],[0,4],[8,0],[0,32],[0,64],[32,0]],"lane":[[0,8],[0,16],[1,0],[2,0],[4,0]],"warp":[[0,0],[16,0]]}`},
	{"DotMMAv2_split_warp_kwidth8 B", dot(1, "8", mma(2, "[16,8]", "[2,2]", "")), []int{128, 32},
		`{"register":[[1,0],[2,0],[4,0],[32,0],[64,0],[0,16]],"lane":[[8,0],[16,0],[0,1],[0,2],[0,4]],"warp":[[0,8],[0,0]]}`},

	{"SliceDot v2", slice(1, dot(0, "8", mma(2, "[16,8]", "[1,1]", ""))), []int{16}, `{"register":[[8]],"lane":[[0],[0],[1],[2],[4]]}`},
	{"SliceDot v3", slice(0, dot(0, "2", mma(3, "[16,16,8]", "[4,1]", ""))), []int{16}, `{"register":[[1],[8]],"lane":[[2],[4],[0],[0],[0]],"warp":[[0],[0]]}`},
	{"SliceOfBlocked 0", slice(0, blocked("[2,4]", "[4,2]", "[2,2]", "[1,0]", "CTAsPerCGA = [2,2], CTASplitNum = [2,2], CTAOrder = [1,0]")), []int{128},
		`{"register":[[1],[2],[16],[32]],"lane":[[4],[0],[0]],"warp":[[8],[0]],"block":[[64],[0]]}`},
	{"SliceOfBlocked 1", slice(1, blocked("[2,4]", "[4,2]", "[2,2]", "[1,0]", "CTAsPerCGA = [2,2], CTASplitNum = [2,2], CTAOrder = [1,0]")), []int{128},
		`{"register":[[1],[16],[32]],"lane":[[0],[2],[4]],"warp":[[0],[8]],"block":[[0],[64]]}`},
	{"Slice4D", slice(3, blocked("[1,1,1,4]", "[2,1,1,16]", "[1,2,4,1]", "[3,0,1,2]", "")), []int{2, 1, 1},
		`{"lane":[[0,0,0],[0,0,0],[0,0,0],[0,0,0],[1,0,0]],"warp":[[0,0,0],[0,0,0],[0,0,0]]}`},
	{"SliceOfMmaV2 0", slice(0, mma(2, "[16,8]", "[2,2]", "")), []int{128}, `{"register":[[1],[16],[32],[64]],"lane":[[2],[4],[0],[0],[0]],"warp":[[8],[0]]}`},
	{"SliceOfMmaV2 1", slice(1, mma(2, "[16,8]", "[2,2]", "")), []int{128}, `{"register":[[8],[32],[64]],"lane":[[0],[0],[1],[2],[4]],"warp":[[0],[16]]}`},

	{"MFMA32 NT 32x32", mfma(32, "[2,4]", false), []int{32, 32},
		`{"register":[[1,0],[2,0],[8,0],[16,0]],"lane":[[0,1],[0,2],[0,4],[0,8],[0,16],[4,0]],"warp":[[0,0],[0,0],[0,0]]}`},
	{"MFMA32 NT 128x128", mfma(32, "[2,4]", false), []int{128, 128},
		`{"register":[[1,0],[2,0],[8,0],[16,0],[64,0]],"lane":[[0,1],[0,2],[0,4],[0,8],[0,16],[4,0]],"warp":[[0,32],[0,64],[32,0]]}`},
	{"MFMA32 T 64x32", mfma(32, "[2,4]", true), []int{64, 32},
		`{"register":[[0,1],[0,2],[0,8],[0,16]],"lane":[[1,0],[2,0],[4,0],[8,0],[16,0],[0,4]],"warp":[[0,0],[0,0],[32,0]]}`},
	{"MFMA32 T 128x128", mfma(32, "[2,4]", true), []int{128, 128},
		`{"register":[[0,1],[0,2],[0,8],[0,16],[64,0]],"lane":[[1,0],[2,0],[4,0],[8,0],[16,0],[0,4]],"warp":[[0,32],[0,64],[32,0]]}`},
	{"MFMA16 NT", mfma(16, "[2,4]", false), []int{16, 16},
		`{"register":[[1,0],[2,0]],"lane":[[0,1],[0,2],[0,4],[0,8],[4,0],[8,0]],"warp":[[0,0],[0,0],[0,0]]}`},
	{"MFMA32 3D NT", mfma(32, "[2,4,1]", false), []int{1, 128, 128},
		`{"register":[[0,1,0],[0,2,0],[0,8,0],[0,16,0],[0,0,32],[0,0,64]],"lane":[[0,0,1],[0,0,2],[0,0,4],[0,0,8],[0,0,16],[0,4,0]],"warp":[[0,32,0],[0,64,0],[0,0,0]]}`},
	{"MFMA32 3D T", mfma(32, "[2,4,1]", true), []int{2, 64, 32},
		`{"register":[[0,0,1],[0,0,2],[0,0,8],[0,0,16]],"lane":[[0,1,0],[0,2,0],[0,4,0],[0,8,0],[0,16,0],[0,0,4]],"warp":[[0,32,0],[0,0,0],[1,0,0]]}`},
	{"mfma32_lhs_kwidth8", dot(0, "8", mfma(32, "[1,8]", false)), []int{128, 256},
		`{"register":[[0,1],[0,2],[0,4],[0,16],[0,32],[0,64],[0,128],[32,0],[64,0]],"lane":[[1,0],[2,0],[4,0],[8,0],[16,0],[0,8]],"warp":[[0,0],[0,0],[0,0]]}`},
	{"mfma32_lhs_kwidth8 small", dot(0, "8", mfma(32, "[1,8]", false)), []int{16, 16},
		`{"register":[[0,1],[0,2],[0,4]],"lane":[[1,0],[2,0],[4,0],[8,0],[0,0],[0,8]],"warp":[[0,0],[0,0],[0,0]]}`},
	{"mfma32_rhs_kwidth8", dot(1, "8", mfma(32, "[1,8]", false)), []int{32, 64},
		`{"register":[[1,0],[2,0],[4,0],[16,0]],"lane":[[0,1],[0,2],[0,4],[0,8],[0,16],[8,0]],"warp":[[0,32],[0,0],[0,0]]}`},
	{"mfma32_rhs_kwidth8 4 warps", dot(1, "8", mfma(32, "[1,4]", false)), []int{256, 256},
		`{"register":[[1,0],[2,0],[4,0],[16,0],[32,0],[64,0],[128,0],[0,128]],"lane":[[0,1],[0,2],[0,4],[0,8],[0,16],[8,0]],"warp":[[0,32],[0,64]]}`},
	{"mfma16_rhs_kwidth8", dot(1, "8", mfma(16, "[1,4]", false)), []int{128, 128},
		`{"register":[[1,0],[2,0],[4,0],[32,0],[64,0],[0,64]],"lane":[[0,1],[0,2],[0,4],[0,8],[8,0],[16,0]],"warp":[[0,16],[0,32]]}`},
	{"mfma16_rhs_kwidth8 1x128", dot(1, "8", mfma(16, "[1,4]", false)), []int{1, 128},
		`{"register":[[0,0],[0,0],[0,0],[0,64]],"lane":[[0,1],[0,2],[0,4],[0,8],[0,0],[0,0]],"warp":[[0,16],[0,32]]}`},
	{"mfma16_rhs_kwidth8 128x1", dot(1, "8", mfma(16, "[1,4]", false)), []int{128, 1},
		`{"register":[[1,0],[2,0],[4,0],[32,0],[64,0]],"lane":[[0,0],[0,0],[0,0],[0,0],[8,0],[16,0]],"warp":[[0,0],[0,0]]}`},

	{"WMMA_2x4x1Warps", wmma(1, "[2,4,1]", false), []int{8, 16, 16},
		`{"register":[[0,2,0],[0,4,0],[0,8,0],[2,0,0],[4,0,0]],"lane":[[0,0,1],[0,0,2],[0,0,4],[0,0,8],[0,1,0]],"warp":[[0,0,0],[0,0,0],[1,0,0]]}`},
	{"TWMMA_v2_2x4Warps", wmma(2, "[2,4]", true), []int{64, 128},
		`{"register":[[0,1],[0,2],[0,4],[0,64],[32,0]],"lane":[[1,0],[2,0],[4,0],[8,0],[0,8]],"warp":[[0,16],[0,32],[16,0]]}`},
	{"TWMMA_v2_2x2x2Warps", wmma(2, "[2,2,2]", true), []int{4, 64, 64},
		`{"register":[[0,0,1],[0,0,2],[0,0,4],[0,0,32],[0,32,0],[2,0,0]],"lane":[[0,1,0],[0,2,0],[0,4,0],[0,8,0],[0,0,8]],"warp":[[0,0,16],[0,16,0],[1,0,0]]}`},
	{"WMMA_v2_2x4Warps_lhs", dot(0, "8", wmma(2, "[2,4]", false)), []int{64, 128},
		`{"register":[[0,1],[0,2],[0,4],[0,16],[0,32],[0,64],[32,0]],"lane":[[1,0],[2,0],[4,0],[8,0],[0,8]],"warp":[[0,0],[0,0],[16,0]]}`},
	{"WMMA_v2_2x4Warps_rhs", dot(1, "16", wmma(2, "[2,4]", false)), []int{128, 128},
		`{"register":[[1,0],[2,0],[4,0],[8,0],[32,0],[64,0],[0,64]],"lane":[[0,1],[0,2],[0,4],[0,8],[16,0]],"warp":[[0,16],[0,32],[0,0]]}`},
	{"WMMA_v2_2x4x1Warps_rhs", dot(1, "8", wmma(2, "[2,4,1]", false)), []int{4, 128, 32},
		`{"register":[[0,1,0],[0,2,0],[0,4,0],[0,16,0],[0,32,0],[0,64,0],[0,0,16],[2,0,0]],"lane":[[0,0,1],[0,0,2],[0,0,4],[0,0,8],[0,8,0]],"warp":[[0,0,0],[0,0,0],[1,0,0]]}`},

	{"SharedSimple2D", shared(1, 1, 1, "[1,0]"), []int{4, 8}, `{"offset":[[0,1],[0,2],[0,4],[1,0],[2,0]]}`},
	{"SharedSimple2D_Order01", shared(1, 1, 1, "[0,1]"), []int{4, 8}, `{"offset":[[1,0],[2,0],[0,1],[0,2],[0,4]]}`},
	{"SharedSwizzled2D_MaxPhaseOnly", shared(1, 1, 4, "[1,0]"), []int{32, 32},
		`{"offset":[[0,1],[0,2],[0,4],[0,8],[0,16],[1,1],[2,2],[4,0],[8,0],[16,0]]}`},
	{"SharedSwizzled2D_PerPhaseMaxPhase", shared(1, 2, 4, "[1,0]"), []int{32, 32},
		`{"offset":[[0,1],[0,2],[0,4],[0,8],[0,16],[1,0],[2,1],[4,2],[8,0],[16,0]]}`},
	{"SharedSwizzled2D_Vec", shared(2, 1, 4, "[1,0]"), []int{4, 8}, `{"offset":[[0,1],[0,2],[0,4],[1,2],[2,4]]}`},
	{"SharedSwizzled2D_PerPhaseMaxPhaseVec", shared(2, 2, 4, "[1,0]"), []int{32, 32},
		`{"offset":[[0,1],[0,2],[0,4],[0,8],[0,16],[1,0],[2,2],[4,4],[8,0],[16,0]]}`},
	{"SharedSwizzled4D", shared(2, 2, 4, "[3,2,1,0]"), []int{2, 4, 32, 32},
		`{"offset":[[0,0,0,1],[0,0,0,2],[0,0,0,4],[0,0,0,8],[0,0,0,16],[0,0,1,0],[0,0,2,2],[0,0,4,4],[0,0,8,0],[0,0,16,0],[0,1,0,0],[0,2,0,0],[1,0,0,0]]}`},
	{"SharedSwizzled2D_Order01", shared(1, 1, 4, "[0,1]"), []int{4, 8}, `{"offset":[[1,0],[2,0],[1,1],[2,2],[0,4]]}`},
	{"Shared1DSwizzle", shared(2, 2, 4, "[1,0]"), []int{64, 1}, `{"offset":[[1,0],[2,0],[4,0],[8,0],[16,0],[32,0]]}`},
	{"LeadingOffset_128x16_4_2", nvmma(32, 16, ""), []int{128, 16}, `{"offset":[[0,1],[0,2],[0,4],[0,8],[1,0],[2,0],[4,8],[8,0],[16,0],[32,0],[64,0]]}`},
	{"LeadingOffset_8x32_2_4", nvmma(64, 16, ""), []int{8, 32}, `{"offset":[[0,1],[0,2],[0,4],[0,8],[0,16],[1,0],[2,8],[4,16]]}`},
	{"LeadingOffset_8x64_1_8", nvmma(128, 16, ""), []int{8, 64}, `{"offset":[[0,1],[0,2],[0,4],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32]]}`},
	{"LeadingOffset_8x64_1_8_32b", nvmma(128, 32, ""), []int{8, 64}, `{"offset":[[0,1],[0,2],[0,4],[0,8],[0,16],[1,4],[2,8],[4,16],[0,32]]}`},
	{"MMAv5Fp4Padded", nvmma(128, 8, ", fp4Padded = true"), []int{32, 64},
		`{"offset":[[0,1],[0,2],[0,4],[0,0],[0,8],[0,16],[0,32],[1,8],[2,16],[4,32],[8,0],[16,0]]}`},
}

func blocked(size, threads, warps, order, more string) string {
	if more != "" {
		more = ", " + more
	}
	return "#ttg.blocked<{sizePerThread = " + size + ", threadsPerWarp = " + threads + ", warpsPerCTA = " + warps + ", order = " + order + more + "}>"
}

func mma(version int, instr, warps, more string) string {
	return "#triton_gpu.nvidia_mma<{versionMajor = " + string(rune('0'+version)) + ", versionMinor = 0, warpsPerCTA = " + warps + more + ", instrShape = " + instr + "}>"
}

func dot(op int, width, parent string) string {
	if width != "" {
		width = ", kWidth = " + width
	}
	return "#parent = " + parent + "\n#ttg.dot_op<{opIdx = " + string(rune('0'+op)) + ", parent = #parent" + width + "}>"
}

func slice(dim int, parent string) string {
	define, last, ok := strings.Cut(parent, "\n")
	if !ok {
		define, last = "", parent
	}
	return define + "\n#ttg.slice<{dim = " + string(rune('0'+dim)) + ", parent = " + last + "}>"
}

func mfma(n int, warps string, transposed bool) string {
	size := map[int]string{16: "[16, 16]", 32: "[32, 32]"}[n]
	return "#ttg.amd_mfma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = " + warps + ", instrShape = " + size + ", isTransposed = " + truth(transposed) + "}>"
}

func wmma(version int, warps string, transposed bool) string {
	return "#ttg.amd_wmma<{version = " + string(rune('0'+version)) + ", warpsPerCTA = " + warps + ", isTransposed = " + truth(transposed) + "}>"
}

func truth(b bool) string {
	if b {
		return "true"
	}
	return "false"
}

func shared(vec, perPhase, maxPhase int, order string) string {
	digit := func(n int) string { return string(rune('0' + n)) }
	return "#ttg.swizzled_shared<{vec = " + digit(vec) + ", perPhase = " + digit(perPhase) + ", maxPhase = " + digit(maxPhase) + ", order = " + order + "}>"
}

func nvmma(bytes, bits int, more string) string {
	return "#ttg.nvmma_shared<{swizzlingByteWidth = " + join([]int{bytes}) + ", transposed = false, elementBitWidth = " + join([]int{bits}) + more + "}>"
}

func TestTritonFacts(t *testing.T) {
	for _, f := range tritonFacts {
		var want map[string][][]int
		if err := json.Unmarshal([]byte(f.want), &want); err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		l, err := ParseTriton(f.attr, f.shape)
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
			continue
		}
		if !slices.Equal(l.Shape(), f.shape) {
			t.Errorf("%s: shape %v, want %v", f.name, l.Shape(), f.shape)
		}
		for _, d := range l.In {
			if !slices.EqualFunc(d.Bases, want[d.Name], func(a, b []int) bool { return slices.Equal(a, b) }) {
				t.Errorf("%s: %s is %v, Triton's is %v", f.name, d.Name, d.Bases, want[d.Name])
			}
			delete(want, d.Name)
		}
		for name, bases := range want {
			if len(bases) > 0 {
				t.Errorf("%s: %s is missing", f.name, name)
			}
		}
	}
}

// Gluon's constructors are the same layouts as the encodings.
func TestGluon(t *testing.T) {
	for _, c := range []struct {
		gluon, attr string
		shape       []int
	}{
		{"BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])", blocked("[1,4]", "[8,4]", "[4,1]", "[1,0]", ""), []int{64, 32}},
		{"ttgl.BlockedLayout(size_per_thread=[1, 4], threads_per_warp=[8, 4], warps_per_cta=[4, 1], order=[1, 0], ctas_per_cga=None)", blocked("[1,4]", "[8,4]", "[4,1]", "[1,0]", ""), []int{64, 32}},
		{"BlockedLayout([1], [4], [4], [0], [[16], [0]])", blocked("[1]", "[4]", "[4]", "[0]", "CGALayout = [[16], [0]]"), []int{512}},
		{"SliceLayout(dim=1, parent=BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0]))", slice(1, blocked("[1,4]", "[8,4]", "[4,1]", "[1,0]", "")), []int{64}},
		{"DotOperandLayout(0, NVMMADistributedLayout([2, 0], [2, 2], [16, 8]), 2)", dot(0, "2", mma(2, "[16,8]", "[2,2]", "")), []int{64, 32}},
		{"NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2, transposed=False)", nvmma(128, 16, ""), []int{64, 64}},
		{"SwizzledSharedLayout(2, 2, 4, order=[1, 0])", shared(2, 2, 4, "[1,0]"), []int{32, 32}},
	} {
		want := must(ParseTriton(c.attr, c.shape))
		if got, err := ParseTriton(c.gluon, c.shape); err != nil || !got.Equal(want) {
			t.Errorf("%s on %v is\n%s\nwant\n%s\n%v", c.gluon, c.shape, got, want, err)
		}
	}
	if len(Constructors()) != len(constructors) {
		t.Error(Constructors())
	}
}

// An operand of a product is shared by the blocks along the dimension that is
// summed over, as it is by the warps.
func TestDotOperandOfClusters(t *testing.T) {
	l := must(ParseTriton(dot(0, "2", mma(2, "[16,8]", "[1,1]", ", CTAsPerCGA = [2,2], CTASplitNum = [2,2], CTAOrder = [1,0]")), []int{32, 16}))
	blocks, _ := l.InDim(Block)
	if want := [][]int{{0, 0}, {16, 0}}; !slices.EqualFunc(blocks.Bases, want, func(a, b []int) bool { return slices.Equal(a, b) }) {
		t.Errorf("blocks are %v, want %v", blocks.Bases, want)
	}
}

func TestTritonRefuses(t *testing.T) {
	for _, c := range []struct {
		attr  string
		shape []int
		want  string
	}{
		{blocked("[1]", "[4]", "[4]", "[0]", ""), nil, "1:1: the encoding blocked needs the shape of the tensor [Linear.E6]"},
		{blocked("[1]", "[3]", "[4]", "[0]", ""), []int{16}, "1:53: threadsPerWarp holds 3, which is not a power of two [Linear.E3]"},
		{blocked("[1]", "[4]", "[4]", "[0]", ""), []int{12}, "size 12, which is not a power of two"},
		{blocked("[1]", "[4]", "[4]", "[1]", ""), []int{16}, "order is a permutation"},
		{blocked("[1]", "[4]", "[4]", "[0]", ""), []int{16, 16}, "order is a permutation of 0 … 1"},
		{"#ttg.bloked<{order = [0]}>", []int{16}, "did you mean blocked?"},
		{"#ttg.blocked<{ordr = [0]}>", []int{16}, "did you mean order?"},
		{"#ttg.blocked<{order = [0]}>", []int{16}, "blocked lacks its parameter sizePerThread"},
		{"#ttg.padded_shared<{order = [0]}>", []int{16}, "padding adds to addresses with carry"},
		{"#ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>", []int{16, 16}, "#mma stands for an encoding that the text does not define"},
		{dot(1, "2", mma(3, "[16,16,8]", "[4,1]", "")), []int{64, 64}, "comes from shared memory"},
		{mma(1, "[16,8]", "[1,1]", ""), []int{16, 16}, "nvidia_mma of version 1 is not known"},
		{nvmma(128, 16, ""), []int{8, 32}, "needs at least 8 rows of 64 elements"},
		{nvmma(96, 16, ""), []int{8, 32}, "0, 32, 64 or 128"},
		{"#ttg.amd_mfma<{version = 3, warpsPerCTA = [1,1], instrShape = [32,32,8], isTransposed = true, tilesPerWarp = [2,2]}>", []int{64, 64}, "tilesPerWarp"},
		{"blocked", []int{8}, "an encoding such as #ttg.blocked"},
		{"#ttg.blocked<{order = [[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]]}>", []int{8}, "nests deeper"},
	} {
		_, err := ParseTriton(c.attr, c.shape)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on %v: %v, want %s", c.attr, c.shape, err, c.want)
		}
	}
}
