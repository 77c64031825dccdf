package status

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/gemm/hopper"
	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/web/facts"
)

// recorded is what a row of any record may say of a time.
type recorded struct {
	Name     string  `json:"name"`
	Case     string  `json:"case"`
	Kernel   string  `json:"kernel"`
	Layer    string  `json:"layer"`
	Weight   string  `json:"weight"`
	DType    string  `json:"dtype"`
	Shape    []int   `json:"shape"`
	M        int     `json:"m"`
	N        int     `json:"n"`
	K        int     `json:"k"`
	Bytes    float64 `json:"bytes"`
	Ranks    int     `json:"ranks"`
	US       float64 `json:"us"`
	MedianUS float64 `json:"median_us"`
	ReadUS   float64 `json:"read_us"`
	CublasUS float64 `json:"cublas_us"`
	OursUS   float64 `json:"ours_us"`
	PeerUS   float64 `json:"peer_us"`
	TFlops   float64 `json:"tflops"`
	OfCublas float64 `json:"of_cublas"`
	GBs      float64 `json:"gb_s"`
	GBps     float64 `json:"gbps"`
	Jax      float64 `json:"jax_gbps"`
	Inductor float64 `json:"inductor_gbps"`
	GPU      string  `json:"gpu"`
	Commit   string  `json:"commit"`
}

// file is a record: a list of rows, or an object that has them.
type file struct {
	Rows   []recorded `json:"rows"`
	Ladder []recorded `json:"ladder"`
	GPU    string     `json:"gpu"`
	Commit string     `json:"commit"`
	Origin struct {
		GPU    string `json:"gpu"`
		Commit string `json:"commit"`
	} `json:"origin"`
}

// benchmarks is the text of web/facts/benchmarks.json: the recorded times as charts.
func benchmarks(t *testing.T, root string) string {
	t.Helper()
	read := func(name string) ([]recorded, file, string) {
		raw, err := os.ReadFile(filepath.Join(root, "tests", "record", name))
		if err != nil {
			t.Fatal(err)
		}
		var f file
		if err := json.Unmarshal(raw, &f.Rows); err != nil {
			if err := json.Unmarshal(raw, &f); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		gpu, commits := f.GPU+f.Origin.GPU, []string{f.Commit + f.Origin.Commit}
		if gpu == "" && len(f.Rows) > 0 {
			gpu, commits = f.Rows[0].GPU, nil
			for _, r := range f.Rows {
				if !slices.Contains(commits, r.Commit) {
					commits = append(commits, r.Commit)
				}
			}
		}
		from := fmt.Sprintf("tests/record/%s, %s, commit %.7s", name, gpu, commits[0])
		for _, c := range commits[1:] {
			from += fmt.Sprintf(" and %.7s", c)
		}
		return f.Rows, f, from
	}
	var out []facts.Chart
	add := func(c facts.Chart) {
		for i, b := range c.Bars {
			for j, v := range b.Values {
				c.Bars[i].Values[j] = math.Round(v*1000) / 1000
			}
		}
		out = append(out, c)
	}

	rows, _, from := read("hopper.json")
	c := facts.Chart{Name: "ladder", Title: "Product of 8192×8192 matrices on Hopper, one idea at a time", Unit: "TFLOP/s", Better: "more", Series: []string{"ours", "cuBLAS"}, From: from}
	for i, adds := range hopper.Steps {
		c.Notes = append(c.Notes, fmt.Sprintf("v%d: %s", i, adds))
	}
	for _, r := range rows {
		if r.OfCublas > 0 {
			c.Bars = append(c.Bars, facts.Bar{Name: r.Name, Values: []float64{r.TFlops, r.TFlops / r.OfCublas}})
		}
	}
	add(c)

	rows, _, from = read("gemm.json")
	c = facts.Chart{Name: "mma.sync", Title: "Product with mma.sync, M×4096×4096 f16", Unit: "TFLOP/s", Better: "more", Series: []string{"ours", "Triton, mma.sync", "cuBLAS"}, From: from}
	for _, r := range rows {
		if n := len(c.Bars); n == 0 || c.Bars[n-1].Name != fmt.Sprint("M = ", r.M) {
			c.Bars = append(c.Bars, facts.Bar{Name: fmt.Sprint("M = ", r.M), Values: make([]float64, 3)})
		}
		which := 0
		switch {
		case strings.HasPrefix(r.Name, "triton"):
			which = 1
		case r.Name == "cublas":
			which = 2
		}
		v := c.Bars[len(c.Bars)-1].Values
		v[which] = max(v[which], r.TFlops)
	}
	add(c)

	roof := facts.Chart{Name: "roofline, quantised", Title: "Roofline of quantised layers, by the type of the weights", Unit: "10¹² operations a second", Better: "more",
		Series: []string{"operations for each byte of weights, scales, x and y", "10¹² operations a second"},
		// Source of the second: data sheet of the NVIDIA H200 (SXM), f16 without sparsity.
		Roof: &facts.Roof{Top: 989.4, Said: "the most that the read kernel of these runs reached, and f16 tensor cores by the data sheet of the H200"}}
	for _, m := range []string{"1", "16"} {
		rows, _, from = read("qmm_" + m + ".json")
		c = facts.Chart{Name: "quantised, " + m + " rows", Title: "Quantised layers of a large model, batch of " + m, Unit: "µs", Better: "less", Series: []string{"ours", "cuBLAS f16", "reading the weights alone"}, Bound: true, From: from}
		if m == "1" {
			c.Name = "quantised, 1 row"
		}
		for _, r := range rows {
			c.Bars = append(c.Bars, facts.Bar{Name: r.Layer + " " + r.Weight, Values: []float64{r.MedianUS, r.CublasUS, r.ReadUS}})
			ops := 2 * float64(r.M) * float64(r.N) * float64(r.K)
			roof.Roof.Memory = max(roof.Roof.Memory, math.Round(r.Bytes/r.ReadUS/1e3)/1e3)
			roof.Bars = append(roof.Bars, facts.Bar{Name: fmt.Sprintf("%s %s, batch %d", r.Layer, r.Weight, r.M), Group: r.Weight, Values: []float64{ops / r.Bytes, ops / r.MedianUS / 1e6}})
		}
		add(c)
		roof.From = strings.TrimPrefix(roof.From+"; "+from, "; ")
	}
	add(roof)

	rows, _, from = read("types_of_width.json")
	for _, m := range []int{1, 16} {
		batch := "1 row"
		if m > 1 {
			batch = fmt.Sprintf("%d rows", m)
		}
		c = facts.Chart{Name: "types of a width, " + batch, Title: "Quantised layers with weights of every type, " + batch, Unit: "the read kernel, which reads the same bytes and does nothing else", Better: "less",
			Series: []string{"bits of a weight", "times as long as the read kernel"}, Spread: 1.05, From: from}
		for _, r := range rows {
			bits, err := dtype.Parse(r.Weight)
			if err != nil {
				t.Fatal(err)
			}
			if r.M == m {
				c.Bars = append(c.Bars, facts.Bar{Name: r.Layer + " " + r.Weight, Group: fmt.Sprintf("%s, %d outputs of %d inputs", r.Layer, r.N, r.K), Values: []float64{float64(bits.Bits()), r.MedianUS / r.ReadUS}})
			}
		}
		add(c)
	}

	for _, model := range qmm.Models() {
		name, _, _ := strings.Cut(model.Name, "-")
		name = strings.TrimRight(name, "0123456789.")
		_, _, from = read("layers_" + name + ".json")
		var of struct{ Rows []qmm.Row }
		raw, err := os.ReadFile(filepath.Join(root, "tests", "record", "layers_"+name+".json"))
		if err == nil {
			err = json.Unmarshal(raw, &of)
		}
		if err != nil {
			t.Fatal(err)
		}
		c = facts.Chart{Name: "model " + model.Name, Title: fmt.Sprintf("All linear layers of %s (%.0f GB in f16)", model.Name, float64(model.Plain())/1e9), Unit: "ms", Better: "less", Series: []string{"ours", "cuBLAS f16"}, From: from}
		for _, s := range model.Sums(of.Rows) {
			rows := "1 row"
			if s.M > 1 {
				rows = fmt.Sprintf("%d rows", s.M)
			}
			c.Bars = append(c.Bars, facts.Bar{Name: fmt.Sprintf("%s (%.1f GB), %s", s.Weight, float64(s.Bytes)/1e9, rows), Values: []float64{s.Ms, s.CublasMs}})
		}
		add(c)
	}

	rows, _, from = read("attention.json")
	hopper, _, more := read("attention_hopper.json")
	c = facts.Chart{Name: "attention", Title: "Attention and row-wise kernels", Unit: "µs", Better: "less", Series: []string{"ours", "PyTorch"}, From: from + "; " + more}
	for _, r := range append(hopper, rows...) {
		c.Bars = append(c.Bars, facts.Bar{Name: r.Kernel + " " + strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Shape), " ", "×"), "[]"), Values: []float64{r.OursUS, r.PeerUS}})
	}
	add(c)

	rows, _, from = read("fusion_times.json")
	c = facts.Chart{Name: "fusions", Title: "Fusions", Unit: "GB/s", Better: "more", Series: []string{"ours", "JAX", "Inductor"}, From: from}
	for _, r := range rows {
		c.Bars = append(c.Bars, facts.Bar{Name: r.Case + " " + r.DType, Values: []float64{r.GBps, r.Jax, r.Inductor}})
	}
	add(c)

	rows, _, from = read("timings.json")
	c = facts.Chart{Name: "bandwidth", Title: "Bytes that programs move", Unit: "GB/s", Better: "more", Series: []string{"ours"}, From: from}
	for _, r := range rows {
		c.Bars = append(c.Bars, facts.Bar{Name: r.Name, Values: []float64{r.GBs}})
	}
	add(c)

	add(jupyterChart(t, root))
	if c, ok := latencyChart(t, root); ok {
		add(c)
	}
	raw, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw) + "\n"
}

// jupyterChart compares Jupyter kernels.
func jupyterChart(t *testing.T, root string) facts.Chart {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "tests", "record", "jupyter.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	var machine, utc string
	json.Unmarshal(all["machine"], &machine)
	json.Unmarshal(all["utc"], &utc)
	c := facts.Chart{Name: "Jupyter kernels", Title: "From a request to its reply: 1 + 1, and cells that were never seen", Unit: "ms", Better: "less",
		Series: []string{"1 + 1", "cells never seen"}, From: fmt.Sprintf("tests/record/jupyter.json, %s, %s", machine, utc)}
	for _, name := range []string{"tilus-lab", "ipykernel", "GoNB", "gophernotes (frozen)"} {
		var k struct {
			Execute struct {
				One  struct{ Median float64 } `json:"one_plus_one_reply_ms"`
				Cold struct{ Median float64 } `json:"distinct_cells_reply_ms"`
			} `json:"execute"`
		}
		if all[name] == nil || json.Unmarshal(all[name], &k) != nil {
			continue
		}
		c.Bars = append(c.Bars, facts.Bar{Name: name, Values: []float64{k.Execute.One.Median, k.Execute.Cold.Median}})
	}
	return c
}

// latencyChart is what tests/browser measured of the explorer, once it has.
func latencyChart(t *testing.T, root string) (facts.Chart, bool) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "tests", "record", "explorer_latency.json"))
	if os.IsNotExist(err) {
		return facts.Chart{}, false
	}
	var r struct {
		Commit  string `json:"commit"`
		Machine string `json:"machine"`
		Rows    []struct {
			Name  string  `json:"name"`
			P50   float64 `json:"p50_ms"`
			P95   float64 `json:"p95_ms"`
			Limit float64 `json:"limit_ms"`
		} `json:"rows"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := facts.Chart{Name: "explorer", Title: "From a keystroke, or the pointer, to the picture", Unit: "ms", Better: "less", Series: []string{"median", "95 of 100", "limit"},
		From: fmt.Sprintf("tests/record/explorer_latency.json, %s, commit %.7s", r.Machine, r.Commit)}
	for _, x := range r.Rows {
		c.Bars = append(c.Bars, facts.Bar{Name: x.Name, Values: []float64{x.P50, x.P95, x.Limit}})
	}
	return c, true
}
