package conform

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestInteger(t *testing.T) {
	vars := map[string]int{"i": 3, "k": 4}
	for text, want := range map[string]int{"((3i+5k) mod 7)-3": -2, "i-k": -1, "-i mod 5": 2, "2*i k": 24, "(i+1)(k-1)": 12, "k div 3 - -2": 3, "(i-k) div 2": -1} {
		if got, err := integer(text, vars); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "3x", "(i", "i)", "i mod 0", "i+", "(i div", "i i)"} {
		if v, err := integer(text, vars); err == nil {
			t.Errorf("%q is %d", text, v)
		}
	}
}

// TestVoltaCases are questions that the recorded cases do not ask, with answers by
// hand.
func TestVoltaCases(t *testing.T) {
	kinds := kindsByName()
	for _, c := range []struct{ kind, input, expect, err string }{
		{"volta.gemm", `{"A":"A[i][k]=i","B":"B[k][j]=1","C":"C[i][j]=0"}`, `{"D_row2":[32,32,32,32,32,32,32,32,32,32,32,32,32,32,32,32],"after_set_sum":[7680,15360,23040,30720]}`, ""},
		{"volta.gemm", `{"A":"A[i][k]=x","B":"B[k][j]=1","C":"C[i][j]=0"}`, `{"sum":0}`, "what is"},
		{"volta.gemm_trace", `{"case":"volta.gemm.integer","after":"SET3.STEP3"}`, `{"updated_rows":[2,3,6,7,10,11,14,15],"D_rows0_0_cols0_3":[[1,-13,8,-11]],"sum":10}`, ""},
		{"volta.gemm_trace", `{"case":"volta.gemm.integer","after":"SET4.STEP0"}`, `{"sum":10}`, "there is no"},
		{"volta.numeric", `{"c":1,"products":[5.960464477539063e-08,5.960464477539063e-08,5.960464477539063e-08,5.960464477539063e-08],"out":"f32","device":"V100"}`, `{"result":1,"result_hex_float":"0x1.0000000000000p+0"}`, ""},
		{"volta.numeric", `{"c":-0.9999999403953552,"products":[1],"out":"f32","device":"T4"}`, `{"result":5.960464477539063e-08,"result_hex_float":"0x1.0000000000000p-24"}`, ""},
		{"volta.numeric", `{"c":-65504,"products":[-65504],"out":"f16","device":"V100"}`, `{"result":"-inf","result_hex_float":"-inf","exact_sum":-131008}`, ""},
		{"volta.gemm_trace", `{"case":"volta.gemm.integer","after":"SET9223372036854775807.STEP0"}`, `{"sum":10}`, "there is no"},
		{"volta.numeric", `{"c":1,"products":[1],"out":"f32","device":"Z"}`, `{"result":2}`, "not known"},
		{"volta.sass", `{"kernel":"A row, B col, C f16"}`, `{"step_D_regs":["R4:R5","R6:R7"]}`, ""},
		{"volta.derived", `{"tc_per_sm":4,"subcores":4,"fedp_per_tc":64,"mul_per_fedp":4,"clock_ghz":1.41,"sm":108}`, `{"mac_per_sm_cycle":1024,"min_cycles_per_wmma_per_subcore":16,"peak_tflops":311.87}`, ""},
		{"volta.cycles", `{"mode":"mixed","device":"V100"}`, `{"total":54}`, "not known"},
		{"volta.loads", `{"A":["row"],"B":["diagonal"],"elem_bytes":2,"ldm":16}`, `{}`, "row or col"},
	} {
		_, err := kinds[c.kind].check(json.RawMessage(c.input), json.RawMessage(c.expect))
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s %s: %v, want %q", c.kind, c.input, err, c.err)
		}
	}
	for v, want := range map[float64]string{1: "0x1.0000000000000p+0", -2: "-0x1.0000000000000p+1", math.Ldexp(1, -24): "0x1.0000000000000p-24", 0: "0x0.0p+0", math.Copysign(0, -1): "-0x0.0p+0", math.Inf(1): "inf", math.Inf(-1): "-inf"} {
		if got := hexFloat(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}
