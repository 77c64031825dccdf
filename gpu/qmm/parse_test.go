package qmm

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestParseRefuses holds what words hear that say nothing, and how to get out.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"i4 factor=7":                         `"factor=7" of "i4 factor=7": it has no value`,
		"u4 zero=":                            "it is zero, or zero=any",
		"u4 zero=1":                           "it is zero, or zero=any",
		"i4 scalebits":                        "it is a positive number",
		"i4 scalebits=x":                      "it is a positive number",
		"i4 scalebits=-1":                     "it is a positive number",
		"i4 group=0":                          "it is a positive number, or channel for one scale to an output",
		"i4 group=x":                          "it is a positive number, or channel",
		"i4 group=100":                        "or group=channel (Group 0) for one to an output",
		"i4 scale=e8m0":                       "f8e8m0",
		"i4 128":                              "the words are",
		"":                                    "no kind of layer; there are the presets mxfp4, mxfp6e2m3",
		"int4":                                "did you mean i4?",
		"uint4 group=64":                      "did you mean u4?",
		"I4":                                  "did you mean i4?",
		"mxpf4":                               "did you mean mxfp4?",
		"e2m1":                                "did you mean f4e2m1?",
		"f3":                                  "did you mean f3e1m1 or f3e2m0?",
		"i9":                                  "integers are u1 to u8 and i2 to i8",
		"uint16":                              "integers are u1 to u8 and i2 to i8",
		"int12":                               "integers are u1 to u8 and i2 to i8",
		"7":                                   "did you mean u7?",
		"u4,zero":                             "further words stand apart",
		"q4_0":                                "u1 to u8, i2 to i8, and floats of 3 to 8 bits",
		"i4 scalebits=99":                     "they have 1 to 24; leave scalebits out",
		"i4 scalebits=0":                      "it is a positive number; leave it out",
		"i4 group=7":                          "or group=channel (Group 0)",
		"i4 group=channel far":                "take all of them anyway",
		"nvfp4 far":                           "leave Far out",
		"f4e2m1 zero":                         "only unsigned weights have them",
		"i4 group=1000000":                    "groups of 1000000",
		"i4 group=16777344":                   "of which a layer has at most 16777216",
		"i4 group=9223372036854775680":        "group=channel",
		"UINT4":                               "did you mean u4?",
		"U4":                                  "did you mean u4?",
		"MXFP4":                               "did you mean mxfp4?",
		"fp4":                                 "did you mean f4e1m2 or f4e2m1 or f4e3m0?",
		"f4":                                  "did you mean f4e1m2 or f4e2m1 or f4e3m0?",
		"fp8_e4m3":                            "did you mean f8e4m3?",
		"mxfp8":                               "did you mean mxfp8e4m3 or mxfp8e5m2?",
		"mxfp6":                               "did you mean mxfp6e2m3 or mxfp6e3m2?",
		"e4m3":                                "did you mean f8e4m3?",
		"nf4":                                 "u1 to u8, i2 to i8, and floats of 3 to 8 bits",
		"i4 group=32 group=64":                `"group=64" of "i4 group=32 group=64": it says "group=32" before; leave one of them out`,
		"u4 zero=any zero":                    `it says "zero=any" before`,
		"u4 zero zero":                        `it says "zero" before`,
		"i4 far act=f16 far":                  `it says "far" before`,
		"i4 scalebits=2 act=bf16 scalebits=9": `it says "scalebits=2" before`,
	} {
		if l, err := Parse(text, 256, 512); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", text, l, err, want)
		}
	}
}

// TestLargeGroups holds that what is expected of groups that no layer fills takes no more than a moment.
func TestLargeGroups(t *testing.T) {
	for _, text := range []string{"i4 group=16777216", "nvfp4 group=16777216", "u4 zero group=1048576 act=bf16"} {
		l, err := Parse(text, 256, 512)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if usual := l.Usual(); usual.N != l.N || usual.K != l.K || time.Since(begin) > 5*time.Second {
			t.Errorf("%s: %+v, in %v", text, usual, time.Since(begin))
		}
	}
}

// TestParsePresets holds that words say what a preset has otherwise, once, and that its text reads as it.
func TestParsePresets(t *testing.T) {
	for _, name := range Presets() {
		for _, words := range []string{"", " act=bf16", " group=64", " group=64 act=bf16 factor"} {
			l, err := Parse(name+words, 256, 512)
			if err != nil {
				t.Errorf("%s%s: %v", name, words, err)
			} else if back, err := Parse(l.String(), 256, 512); err != nil || back != l {
				t.Errorf("%s%s prints as %q, which reads as %+v, %v", name, words, l, back, err)
			}
		}
	}
}

// TestValidInputs refuses more inputs than the grid of the program that packs has blocks for, of whatever type.
func TestValidInputs(t *testing.T) {
	kinds := Presets()
	for _, weight := range dtype.All() {
		for _, words := range []string{"", " zero", " zero=any", " group=channel", " scalebits=4", " scale=bf16 act=bf16 group=32 rounded"} {
			if _, err := Parse(weight.String()+words, 1, 1); err == nil {
				kinds = append(kinds, weight.String()+words)
			}
		}
	}
	if len(kinds) < 100 {
		t.Errorf("only %v", kinds)
	}
	for _, text := range kinds {
		var most int
		_, err := Parse(text, 1, MaxSize)
		if _, after, ok := strings.Cut(fmt.Sprint(err), "takes at most "); ok {
			fmt.Sscan(after, &most)
		}
		l, err := Parse(text, 1, most)
		if most == 0 || err != nil {
			t.Errorf("%s: at most %d, %v", text, most, err)
			continue
		}
		if _, err := Parse(text, 1, most+1); err == nil {
			t.Errorf("%s takes %d inputs too", text, most+1)
		}
		for _, found := range []func(*Linear){func(*Linear) {}, func(l *Linear) { l.ScaleBits = 1 }, func(l *Linear) { l.Far = true }} { // by what packing finds
			l := l
			found(&l)
			p, err := template.Pack(l.Form())
			if err != nil {
				continue
			}
			blocks, err := ir.EvalInt(p.Grid[1], func(v *ir.Var) (int64, bool) { return map[string]int64{"N": 1, "K": int64(most)}[v.Name], true })
			if err != nil || blocks > int64(ir.MostBlocks(1)) || blocks < int64(ir.MostBlocks(1))-16 {
				t.Errorf("%s: %d inputs are packed by %d blocks, %v", text, most, blocks, err)
			}
		}
	}
}

// FuzzParse: what reads as a kind of layer prints as a text that reads as the same kind.
func FuzzParse(f *testing.F) {
	for _, s := range append(Presets(), "i4", "u3 zero group=64", "f6e3m2 group=channel scale=bf16 act=bf16", "u8 zero group=16 scale=f16 scalebits=7",
		"nvfp4 factor", "i4 group=0", "i4 group=99999999999999999999", "i4 scale=", "i4 =", "i44", "") {
		f.Add(s, 256, 512)
	}
	f.Add("i4", 0, -1)
	f.Fuzz(func(t *testing.T, text string, n, k int) {
		l, err := Parse(text, n, k)
		if err != nil {
			return
		}
		if l.N != n || l.K != k {
			t.Fatalf("%q of %d outputs and %d inputs has %d and %d", text, n, k, l.N, l.K)
		}
		if again, err := l.Check(); err != nil || again != l {
			t.Fatalf("%q is %+v; checked again it is %+v, %v", text, l, again, err)
		}
		if back, err := Parse(l.String(), n, k); err != nil || back != l {
			t.Fatalf("%q is %+v, prints as %q and reads back as %+v, %v", text, l, l.String(), back, err)
		}
	})
}

// TestActivations rounds x to the type of the layer, and refuses what that does not hold and what is no number, by its place.
func TestActivations(t *testing.T) {
	l := kind(t, "i4", 4, 3)
	x := array.New(dtype.F32, 2, 3)
	x.Set(1+1./4096, 0, 0)
	if got, err := l.Activations("x", x); err != nil || got.Type != dtype.F16 || got.At(0, 0) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	for v, want := range map[float64]string{math.NaN(): "x [1, 2] is NaN", math.Inf(-1): "x [1, 2] is -Inf", 70000: "x has 70000, and f16, "} {
		x.Set(v, 1, 2)
		if got, err := l.Activations("x", x); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, %v", v, got, err)
		}
	}
}
