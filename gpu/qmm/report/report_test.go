package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

func row(weight, layer string, m, n, k int, us float64) qmm.Row {
	return qmm.Row{Layer: layer, Weight: weight, Act: "f16", Scale: "f16", Group: 128, M: m, N: n, K: k,
		Row: tune.Row{MedianUs: us, ReadUs: us / 2, Ratio: 2, Bytes: int64(n * k / 2), GPU: "NVIDIA H200", Driver: "CUDA 13.0", Written: "2026-11-21T16:39:37Z"}}
}

// parsed reads a page as XML, but for what HTML leaves open.
func parsed(t *testing.T, page []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRecord makes the page of what is recorded: each type has its roofline, each row
// its line, and nothing is beyond the roof, which is what the read kernel reaches: some products
// read a little faster.
func TestRecord(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(need.Root(t), "tests", "record", "qmm_*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var rows []qmm.Row
	types := map[string]bool{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		more, err := Rows(f, data)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, more...)
	}
	roofs := topsOf(rows)
	for _, r := range rows {
		types[kind(r)] = true
		if s, bound := share(r, roofs); !(s > 0 && s < 1.03) || bound == "" {
			t.Errorf("%s %s, %d rows reach %.2f of the roof (%s)", r.Weight, r.Layer, r.M, s, bound)
		}
	}
	page, err := Page("what was measured", rows)
	if err != nil {
		t.Fatal(err)
	}
	parsed(t, page)
	for name := range types {
		if !bytes.Contains(page, []byte(`id="type-`+anchor(name)+`"`)) {
			t.Errorf("no roofline of %s", name)
		}
	}
	if bytes.Contains(page, []byte("<?xml")) {
		t.Error("a picture begins as a file does")
	}
	for _, theme := range []string{"light", "dark"} {
		if n := bytes.Count(page, []byte(`<div class="`+theme+`"><svg`)); n != len(types)+1 {
			t.Errorf("%d pictures for %d types on %s pages", n, len(types), theme)
		}
	}
	for _, r := range rows {
		if !bytes.Contains(page, []byte(schedule(r))) || !bytes.Contains(page, []byte(r.Weight+form(r))) {
			t.Errorf("no line of %s %s, %d rows", kind(r), r.Layer, r.M)
		}
	}
	for _, want := range []string{"NVIDIA H200", "llama-3.3-70b", fmt.Sprintf("%.2f TB/s", roofs.memory/1e12)} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if bytes.Contains(page, []byte("<script")) || bytes.Contains(page, []byte("src=")) {
		t.Error("the page has a script, or parts from outside")
	}
	again, err := Page("what was measured", rows)
	if err != nil || !bytes.Equal(page, again) {
		t.Errorf("two pages of the same rows differ, %v", err)
	}
}

func TestShare(t *testing.T) {
	roofs := tops{memory: 4e12, matrix: 1e15}
	r := row("u4", "x", 1, 8192, 8192, 10)
	bytes := 8192.*8192/2 + 8192*64*2 + 2*(8192+8192)
	if s, bound := share(r, roofs); bound != "memory" || math.Abs(s-bytes/4e12*1e6/10) > 1e-9 {
		t.Errorf("%v, %s", s, bound)
	}
	r = row("u4", "x", 4096, 8192, 8192, 1000)
	if s, bound := share(r, roofs); bound != "matrix products" || math.Abs(s-2*4096*8192*8192/1e15*1e6/1000) > 1e-9 {
		t.Errorf("%v, %s", s, bound)
	}
}

func TestPage(t *testing.T) {
	rows := []qmm.Row{row("u4", "<b>odd & name", 1, 256, 512, 3), row("f4e2m1", "x", 16, 256, 512, 4)}
	rows[1].ReadUs, rows[1].Ratio = 0, 0
	page, err := Page("a & b", rows)
	if err != nil {
		t.Fatal(err)
	}
	parsed(t, page)
	text := string(page)
	if strings.Contains(text, "<b>odd") || !strings.Contains(text, "&lt;b&gt;odd &amp; name") || !strings.Contains(text, "<title>a &amp; b</title>") {
		t.Error("texts of rows are not quoted")
	}
	if !strings.Contains(text, "No row was timed beside cuBLAS") || !strings.Contains(text, "No model is told") {
		t.Error("the page does not say what is missing")
	}
	for i := range rows {
		rows[i].ReadUs, rows[i].GPU = 0, ""
	}
	if page, err = Page("bare", rows); err != nil || !strings.Contains(string(page), "have no roof") || !strings.Contains(string(page), "an unnamed GPU") {
		t.Errorf("rows without a read kernel: %v", err)
	}
	if _, err := Page("none", nil); err == nil {
		t.Error("a page of no rows")
	}
}

func TestRows(t *testing.T) {
	good := `{"weight":"u4","act":"f16","scale":"f16","group":128,"m":1,"n":256,"k":512,"median_us":3}`
	for _, text := range []string{"[" + good + "]", `{"origin":{},"rows":[` + good + `]}`} {
		if rows, err := Rows("f", []byte(text)); len(rows) != 1 || err != nil {
			t.Errorf("%s: %v, %v", text, rows, err)
		}
	}
	for _, text := range []string{"", "7", "{}", "[7]", `[{"weight":"u9","m":1,"n":1,"k":1,"median_us":1}]`, "[" + strings.Replace(good, `"median_us":3`, `"median_us":0`, 1) + "]"} {
		if rows, err := Rows("f", []byte(text)); err == nil {
			t.Errorf("%s: %v", text, rows)
		}
	}
	if _, err := Rows("f", []byte(`[{"weight":"u9"}]`)); err == nil || !strings.Contains(err.Error(), "row 1 of f is no product as tilus-lab bench --json writes them") {
		t.Error(err)
	}
}

// TestNonsense refuses rows that no measurement gives, with their place, and takes those that do not tell all.
func TestNonsense(t *testing.T) {
	good := `{"weight":"u4","act":"f16","scale":"f16","group":128,"m":1,"n":256,"k":512,"median_us":3`
	for _, text := range []string{"", `,"read_us":0,"bytes":0`, `,"read_us":2.5,"bytes":65536,"ratio":1.2,"error":0.0002,"result":"close","cublas_us":6,"of_cublas":2`} {
		if _, err := Rows("f", []byte("["+good+text+"}]")); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`"read_us":-1`, `"read_us":1e300`, `"read_us":2,"bytes":0`, `"bytes":-1`, `"result":"wrong"`, `"error":5`, `"error":-0.1`, `"median_us":1e300`, `"median_us":1e-9`, `"median_us":-3`, `"m":0`, `"cublas_us":-2`, `"ratio":-1`, `"of_cublas":-1`} {
		rows, err := Rows("f", []byte("["+good+"},"+good+","+text+"}]"))
		name, _, _ := strings.Cut(strings.Trim(text, `"`), `"`)
		if err == nil || !strings.Contains(err.Error(), "row 2 of f is no measured product") || !strings.Contains(err.Error(), name+" ") || !strings.Contains(err.Error(), "leave it out") {
			t.Errorf("%s: %v, %v", text, rows, err)
		}
	}
}

// TestOnce makes the same page of rows that are there twice, none of rows of two GPUs, and adds up no layers of two drivers.
func TestOnce(t *testing.T) {
	var rows []qmm.Row
	for _, s := range qmm.Models()[0].Shapes {
		rows = append(rows, row("u4", s.Name, 1, s.N, s.K, 10))
	}
	made := func(rows []qmm.Row) string {
		page, err := Page("once", rows)
		if err != nil {
			t.Fatal(err)
		}
		return string(page)
	}
	page := made(rows)
	if !strings.Contains(page, "<td>"+qmm.Models()[0].Name+"</td>") {
		t.Error("no total of the model")
	}
	if made(append(rows, rows...)) != page {
		t.Error("rows that are there twice make another page")
	}
	rows[1].Driver = "CUDA 14.0"
	if strings.Contains(made(rows), "<td>"+qmm.Models()[0].Name+"</td>") {
		t.Error("a total of layers that two drivers took")
	}
	rows[1].GPU = "NVIDIA H100"
	if _, err := Page("two", rows); err == nil || !strings.Contains(err.Error(), "rows of NVIDIA H100 and NVIDIA H200") || !strings.Contains(err.Error(), "a page of each") {
		t.Error(err)
	}
}

// TestForms has rows of one type in other groups, or with other scales, under rooflines of their own.
func TestForms(t *testing.T) {
	mx := row("f4e2m1", "o", 1, 8192, 8192, 14)
	mx.Group, mx.Scale = 32, "f8e8m0"
	channel := row("f4e2m1", "o", 1, 8192, 8192, 12)
	channel.Group = 0
	page, err := Page("forms", []qmm.Row{row("f4e2m1", "o", 1, 8192, 8192, 13), mx, channel})
	if err != nil {
		t.Fatal(err)
	}
	parsed(t, page)
	for _, want := range []string{"Roofline of f4e2m1<", "Roofline of f4e2m1 group=32 scale=f8e8m0<", "Roofline of f4e2m1 group=channel<"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page has no %q", want)
		}
	}
}
