package qmm

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestModels holds shapes to what the models' cards say: parameters of the linear layers.
func TestModels(t *testing.T) {
	for name, billions := range map[string]float64{"llama-3.3-70b": 68.5, "qwen2.5-32b": 31.2, "gemma-2-9b": 8.3} {
		m, err := FindModel(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := float64(m.Plain()) / 2e9; math.Abs(got-billions) > 0.1 {
			t.Errorf("%s has %.2f·10⁹ weights in its linear layers, not %.1f", name, got, billions)
		}
		u4 := kind(t, "u4", 1, 1)
		if got := float64(m.Bytes(u4)) / float64(m.Plain()); math.Abs(got-4.125/16) > 1e-3 {
			t.Errorf("%s: u4 takes %.4f of plain weights", name, got)
		}
		ms, plan, err := m.Estimate(u4, 1)
		if err != nil || plan != Decode || ms < float64(m.Bytes(u4))/4.5e12*1e3 {
			t.Errorf("%s: %v ms by plan %s, %v", name, ms, plan, err)
		}
		if ms, plan, err := m.Estimate(u4, 2048); err != nil || plan == Decode || ms < float64(m.Plain())*2048/1e9/1000 {
			t.Errorf("%s: %v ms by plan %s, %v", name, ms, plan, err)
		}
	}
	if _, err := FindModel("gpt"); err == nil {
		t.Error("found gpt")
	}
}

func TestSums(t *testing.T) {
	m := Model{"small", []Shape{{"a", 256, 512, 10}, {"b", 512, 256, 20}}}
	row := func(w string, rows, n, k int, us, cublas float64) Row {
		r := Row{Weight: w, Act: "f16", Scale: "f16", Group: 128, M: rows, N: n, K: k, CublasUs: cublas}
		r.MedianUs = us
		return r
	}
	sums := m.Sums([]Row{
		row("u4", 1, 256, 512, 9, 8), row("u4", 1, 256, 512, 1, 4), row("u4", 1, 512, 256, 2, 5), // the second counts
		row("u8", 1, 256, 512, 2, 4), row("u8", 1, 512, 256, 3, 0), // a layer without cuBLAS
		row("u2", 1, 256, 512, 1, 1),  // a layer is missing
		row("u4", 16, 512, 256, 2, 2), // another number of rows
	})
	if len(sums) != 2 {
		t.Fatalf("%+v", sums)
	}
	u4, u8 := sums[0], sums[1]
	if u4.Weight != "u4" || u4.M != 1 || math.Abs(u4.Ms-0.05) > 1e-9 || math.Abs(u4.CublasMs-0.14) > 1e-9 || math.Abs(u4.OfCublas()-2.8) > 1e-9 || u4.Bytes != m.Bytes(kind(t, "u4", 1, 1)) {
		t.Errorf("%+v", u4)
	}
	if u8.Weight != "u8" || u8.CublasMs != 0 || u8.OfCublas() != 0 || math.Abs(u8.Ms-0.08) > 1e-9 {
		t.Errorf("%+v", u8)
	}
}

// TestSumsOfOne adds up what one GPU and driver took, and nothing else.
func TestSumsOfOne(t *testing.T) {
	m := Model{"small", []Shape{{"a", 256, 512, 1}, {"b", 512, 256, 1}}}
	row := func(gpu, driver string, n, k int, us float64) Row {
		r := Row{Weight: "u4", Act: "f16", Scale: "f16", Group: 128, M: 1, N: n, K: k}
		r.GPU, r.Driver, r.MedianUs = gpu, driver, us
		return r
	}
	all := []Row{row("A", "1", 256, 512, 1000), row("A", "1", 512, 256, 2000), row("A", "2", 256, 512, 4000), row("B", "1", 512, 256, 8000)}
	if sums := m.Sums(all); len(sums) != 1 || sums[0].GPU != "A" || sums[0].Driver != "1" || sums[0].Ms != 3 {
		t.Errorf("%+v", sums)
	}
	all = append(all, row("A", "2", 512, 256, 16000), row("B", "1", 256, 512, 32000))
	if sums := m.Sums(all); len(sums) != 3 || sums[0].Ms != 3 || sums[1].Driver != "2" || sums[1].Ms != 20 || sums[2].GPU != "B" || sums[2].Ms != 40 {
		t.Errorf("%+v", sums)
	}
}

// TestCompare has a stand-in for Python time cuBLAS.
func TestCompare(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell script as a program")
	}
	python := func(does string) string {
		path := filepath.Join(t.TempDir(), "python")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+does+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rows := func() []Row {
		var out []Row
		for i, act := range []string{"f16", "bf16", "f16", "f16"} {
			r := Row{Weight: "u4", Act: act, M: 1 + i%2, N: 256, K: 512}
			r.MedianUs = 2
			out = append(out, r)
		}
		return out
	}
	// Each call is told one type's shapes, without repetition: f16 has [1, 256, 512] and
	// [2, 256, 512], bf16 the second.
	good := python(`read ask
case "$ask" in
'{"act":"f16","shapes":[[1,256,512],[2,256,512]]}') echo '[10, 20]';;
'{"act":"bf16","shapes":[[2,256,512]]}') echo '[30]';;
*) echo "asked $ask" >&2; exit 1;;
esac`)
	got := rows()
	if err := Compare(context.Background(), good, got); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{10, 30, 10, 20} {
		if got[i].CublasUs != want || got[i].OfCublas != want/2 {
			t.Errorf("row %d: %v µs, %v times", i, got[i].CublasUs, got[i].OfCublas)
		}
	}
	for does, want := range map[string]string{
		"cat >/dev/null; echo '[1]'": "1 times for 2 shapes", "cat >/dev/null; echo none": "0 times", "cat >/dev/null; echo Traceback >&2; echo no torch >&2; exit 3": "no torch",
	} {
		if err := Compare(context.Background(), python(does), rows()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", does, err)
		}
	}
	if err := Compare(context.Background(), filepath.Join(t.TempDir(), "none"), rows()); err == nil {
		t.Error("a Python that is not there")
	}
}

// TestName tells presets and forms apart that have one type of weights.
func TestName(t *testing.T) {
	for text, want := range map[string]string{
		"u4": "u4", "i4 act=bf16": "i4", "f4e2m1": "f4e2m1", "mxfp4": "mxfp4", "mxfp4 act=bf16": "mxfp4", "nvfp4": "nvfp4", "f4e2m1 group=16 scale=f8e4m3 factor": "nvfp4",
		"f4e2m1 group=16 scale=f8e4m3": "f4e2m1 group=16 scale=f8e4m3", "u4 zero=any group=channel scale=bf16": "u4 zero=any group=channel scale=bf16", "i8 factor": "i8 factor", "u3 zero group=64": "u3 zero group=64",
	} {
		if got := kind(t, text, 64, 128).Name(); got != want {
			t.Errorf("%s is named %q, not %q", text, got, want)
		}
	}
}
