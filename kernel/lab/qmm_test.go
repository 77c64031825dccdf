package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestQuantize takes a layer from plain weights to a product.
func TestQuantize(t *testing.T) {
	if err := Device("interp"); err != nil {
		t.Fatal(err)
	}
	coarse, fine := 0.0, 0.0
	for kind, e := range map[string]*float64{"i2 group=32": &coarse, "i8 group=32": &fine} {
		l, err := Quantize(kind, "randn:f32[24, 64]:seed=1")
		if err != nil {
			t.Fatal(err)
		}
		if *e, err = l.OutputError("randn:f16[3, 64]:seed=2"); err != nil {
			t.Fatal(err)
		}
		if w := l.Weights(); w.N != 24 || w.Codes != l.Codes() {
			t.Errorf("%v has weights of %v", l, w.Linear)
		}
		if p, err := l.Program(1); err != nil || !strings.Contains(p.Name, "_i") || !strings.Contains(l.String(), "bits a weight") {
			t.Errorf("%v: %v, %v", l, p, err)
		}
	}
	if fine > 0.02 || coarse < 0.1 || coarse > 1 {
		t.Errorf("8 bits lose %g, 2 bits %g", fine, coarse)
	}
	for _, w := range []any{"randn:f32[24]", 3, nil} {
		if _, err := Quantize("i4", w); err == nil {
			t.Errorf("weights %v are taken", w)
		}
	}
}

// TestCheckpoint takes layers that others have quantised to a product.
func TestCheckpoint(t *testing.T) {
	if err := Device("interp"); err != nil {
		t.Fatal(err)
	}
	const dir = "../../gpu/qmm/checkpoint/testdata/"
	for spec, want := range map[string]string{
		"awq/awq.safetensors:group32":                     "u4 group=32 scale=f16 act=f16 zero [16, 64]: ",
		"pack_quantized/pack_quantized.safetensors:i4":    "i4 group=32 scale=bf16 act=bf16 [8, 96]: 4.500 bits a weight, from pack-quantized",
		"mxfp4/mxfp4.safetensors:experts.gate_up_proj[1]": "f4e2m1 group=32 scale=f8e8m0 act=f16 [8, 64]: 4.250 bits a weight, from mxfp4 of gpt-oss",
		"nvfp4/nvfp4.safetensors:modelopt_power":          "f4e2m1 group=16 scale=f8e4m3 act=f16 factor [8, 48]: 4.500 bits a weight, from nvfp4 of modelopt",
		"gptq/gptq.safetensors:actorder":                  "i4 group=32 scale=f16 act=f16 [8, 64]: 4.500 bits a weight, from gptq with act-order",
		"actorder/actorder.safetensors:ragged":            "u4 group=32 scale=f16 act=f16 zero [8, 80]: 4.900 bits a weight, from gptq with act-order",
		"gguf/gguf.gguf:q5_0":                             "i5 group=32 scale=f16 act=f16 [12, 64]: 5.500 bits a weight, from gguf",
		"hqq/hqq.safetensors:b4":                          "u4 group=64 scale=f16 act=f16 zero=any [8, 128]: 4.500 bits a weight, from hqq",
		"actorder/actorder.safetensors:three":             "u3 group=32 scale=f16 act=f16 zero [32, 64]: ",
		"actorder/actorder.safetensors:packed":            "i4 group=32 scale=bf16 act=bf16 [12, 96]: 4.500 bits a weight, from pack-quantized with act-order",
	} {
		l, err := Checkpoint(dir + spec)
		if err != nil {
			t.Fatal(err)
		}
		k := l.Codes().Shape[1]
		off, err := l.OutputError(fmt.Sprintf("randn:f16[3, %d]", k))
		if err != nil || off > 0.004 {
			t.Errorf("%s: y is off by %g, %v", spec, off, err)
		}
		if e := l.WeightError(); !math.IsNaN(e) {
			t.Errorf("%s: plain weights that there are not are off by %g", spec, e)
		}
		if text := l.String(); !strings.HasPrefix(text, want) || !strings.Contains(text, ", from ") || strings.Contains(text, "NaN") {
			t.Errorf("%s is %s, not %s", spec, text, want)
		}
		if w, err := l.Dequantize(); err != nil || w.Shape[1] != k {
			t.Errorf("%s: %v, %v", spec, w, err)
		}
		if p, err := l.Program(1); err != nil || p == nil {
			t.Errorf("%s: %v", spec, err)
		}
		if p, err := l.Gathering(); err != nil || (p != nil) != strings.Contains(want+l.String(), "act-order") || (p != nil) != (l.Order() != nil) {
			t.Errorf("%s: %v, %v, order %v", spec, p, err, l.Order())
		}
	}
	for spec, want := range map[string]string{
		"w.npy":                            `lab: "w.npy" is no layer of a checkpoint`,
		"none.safetensors:x":               "none.safetensors: no such file",
		dir + "gguf/gguf.gguf:q4_k":        "weight is Q4_K[8, 256], which is not read",
		dir + "awq/awq.safetensors":        "has 4 quantised layers, and none is named",
		dir + "awq/awq.safetensors:group3": "did you mean group32?",
	} {
		if l, err := Checkpoint(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", spec, l, err)
		}
	}
}

// TestCheckpointBias adds biases that layers are stored with, or others in their place, and takes another type of x and y.
func TestCheckpointBias(t *testing.T) {
	if err := Device("interp"); err != nil {
		t.Fatal(err)
	}
	const file = "../../gpu/qmm/checkpoint/testdata/bias/bias.safetensors"
	for _, c := range []struct{ layer, act, kind string }{{"half", "", "f16"}, {"wide", "", "f16"}, {"brain", "act=bf16", "bf16"}} {
		var act []string
		if c.act != "" {
			act = append(act, c.act)
		}
		l, err := Checkpoint(file+":"+c.layer, act...)
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Bias()
		if err != nil || b.Header() != c.kind+"[8]" || !strings.HasSuffix(l.String(), ", from gptq, with a bias") {
			t.Fatalf("%s: %v, %v", l, b, err)
		}
		y, err := l.Run("zeros:f16[2, 64]")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 16 {
			if got, want := y.At(i/8, i%8), b.At(i%8); got != want {
				t.Errorf("%s: y[%d, %d] is %g, not %g", c.layer, i/8, i%8, got, want)
			}
		}
		if y, err = l.RunWith("zeros:f16[2, 64]", "ones:f16[8]", nil); err != nil || y.At(1, 7) != 1 {
			t.Errorf("%s: %v, %v", c.layer, y, err)
		}
		if y, err = l.RunWith("zeros:f16[2, 64]", "none", nil); err != nil || y.At(1, 7) != 0 {
			t.Errorf("%s, no bias: %v, %v", c.layer, y, err)
		}
		for _, rows := range []int{1, 64, 4096} {
			if p, err := l.Program(rows); err != nil || !slices.ContainsFunc(p.Params, func(v *ir.Var) bool { return v.Name == "bias" }) {
				t.Errorf("%s, %d rows: the program adds no bias, %v", c.layer, rows, err)
			}
		}
		if off, err := l.OutputError("randn:f16[3, 64]"); err != nil || off > 0.004 {
			t.Errorf("%s: y is off by %g, %v", c.layer, off, err)
		}
	}
	l, err := Checkpoint(file + ":zero")
	if err != nil || strings.Contains(l.String(), "bias") {
		t.Errorf("%v, %v", l, err)
	}
	if b, err := l.Bias(); b != nil || err != nil {
		t.Errorf("%v, %v", b, err)
	}
	if l, err = Checkpoint(file + ":unheld"); err != nil {
		t.Fatal(err)
	}
	if y, err := l.Run("zeros:f16[1, 64]"); err == nil || !strings.Contains(err.Error(), "in a cell by RunWith, which round it") {
		t.Errorf("a bias that f16 does not hold: %v, %v", y, err)
	}
	if y, err := l.RunWith("zeros:f16[1, 64]", file+":unheld.bias", nil); err != nil {
		t.Errorf("the same, rounded: %v, %v", y, err)
	}
	if b, err := l.Bias(); err == nil {
		t.Errorf("%v", b)
	}
	if l, err := Checkpoint(file+":half", "act=f16", "act=bf16"); err == nil || !strings.Contains(err.Error(), "twice; give one") {
		t.Errorf("%v, %v", l, err)
	}
	if l, err := Checkpoint(file+":half", "rounded", "act=f16"); err != nil || !l.Weights().Rounded {
		t.Errorf("%v, %v", l, err)
	}
	if l, err := Checkpoint(file+":half", "act=f32"); err == nil || !strings.Contains(err.Error(), `its x and y are "act=f16" or "act=bf16", and its weights may be "rounded"`) {
		t.Errorf("%v, %v", l, err)
	}
}

// TestQuantizeCodes refuses what is quantised already.
func TestQuantizeCodes(t *testing.T) {
	if l, err := Quantize("i4", "../../gpu/qmm/checkpoint/testdata/fp8/fp8.safetensors:channel.weight"); err == nil || !strings.Contains(err.Error(), "in a cell lab.Checkpoint") {
		t.Errorf("%v, %v", l, err)
	}
}

// TestLayerEnds interrupts what takes long of a layer beside products.
func TestLayerEnds(t *testing.T) {
	l, err := Quantize("i4", "randn:f32[24, 64]")
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	defer Attach(Hooks{Context: func() context.Context { return ended }})()
	if l, err := Quantize("i4", "randn:f32[24, 64]"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", l, err)
	}
	if w, err := l.Dequantize(); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", w, err)
	}
	if e := l.WeightError(); !math.IsNaN(e) {
		t.Errorf("rounding costs %g", e)
	}
}

// TestLayerRows holds numbers of rows that no x has.
func TestLayerRows(t *testing.T) {
	l, err := Quantize("i4", "randn:f32[24, 64]")
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{0, -1, 1 << 40} {
		if _, err := l.Program(rows); err == nil || !strings.Contains(err.Error(), "there are 1 to") {
			t.Errorf("a program of %d rows: %v", rows, err)
		}
		if _, _, err := l.Time(24, 64, rows); err == nil || !strings.Contains(err.Error(), "there are 1 to") {
			t.Errorf("the time of %d rows: %v", rows, err)
		}
	}
}

// TestProgramOfRows has programs be those of the plans that products take.
func TestProgramOfRows(t *testing.T) {
	l, err := Quantize("i4", "randn:f32[512, 512]")
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []int{1, 16, 100, 1000, 100000} {
		plan := l.weights.PlanFor(rows, qmm.Call{})
		want := map[string]string{qmm.Decode: "decode_", qmm.Wide: "wide_", qmm.Prefill: "prefill_", qmm.Expand: "expand_"}[plan]
		if p, err := l.Program(rows); err != nil || !strings.HasPrefix(p.Name, want) {
			t.Errorf("%d rows by %s: %v, %v", rows, plan, p, err)
		}
	}
}

// TestRunWith adds a bias and a residual.
func TestRunWith(t *testing.T) {
	if err := Device("interp"); err != nil {
		t.Fatal(err)
	}
	l, err := Quantize("i4", "zeros:f32[24, 64]")
	if err != nil {
		t.Fatal(err)
	}
	if off, err := l.OutputError("randn:f16[3, 64]"); err != nil || off != 0 || l.WeightError() != 0 {
		t.Errorf("weights that are 0 are off by %g, y by %g, %v", l.WeightError(), off, err)
	}
	y, err := l.RunWith("randn:f16[3, 64]", "iota:f16[24]", "ones:f16[3, 24]")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for j := range 24 {
			if y.At(i, j) != float64(j+1) {
				t.Errorf("y[%d, %d] is %g", i, j, y.At(i, j))
			}
		}
	}
	if _, err := l.RunWith("randn:f16[3, 64]", nil, "ones:f16[24, 3]"); err == nil || !strings.Contains(err.Error(), "the residual is [24 3], y is [3 24]") {
		t.Errorf("a residual the other way round: %v", err)
	}
	if _, err := l.RunWith("randn:f16[3, 64]", "ones:f16[23]", nil); err == nil {
		t.Error("a bias that is too short is taken")
	}
	if y, err := l.Run("const=1e6:f32[3, 64]"); err == nil || !strings.Contains(err.Error(), "lab: x has 1e+06, and f16, the type of x and y, holds at most 65504") {
		t.Errorf("x beyond f16: %v, %v", y, err)
	}
	if y, err := l.RunWith("randn:f16[3, 64]", "const=-7e4:f32[24]", nil); err == nil || !strings.Contains(err.Error(), "the bias has -70000") {
		t.Errorf("a bias beyond f16: %v, %v", y, err)
	}
}

// TestOutputErrorEnds interrupts the product with plain weights, which is much longer than that on a GPU in front of it.
func TestOutputErrorEnds(t *testing.T) {
	if err := Device("interp"); err != nil {
		t.Fatal(err)
	}
	l, err := Quantize("i4", "randn:f32[24, 64]")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run("randn:f16[3, 64]"); err != nil { // packs
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	asked := 0
	defer Attach(Hooks{Context: func() context.Context {
		if asked++; asked > 1 {
			return ended
		}
		return t.Context()
	}})()
	if off, err := l.OutputError("randn:f16[3, 64]"); !errors.Is(err, context.Canceled) || asked != 2 {
		t.Errorf("%g, %v, asked %d times", off, err, asked)
	}
}
