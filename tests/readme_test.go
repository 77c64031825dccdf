package tests

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

var update = flag.Bool("update", false, "write the README's picture and PTX")

func readme(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(data, []byte("\n")); n > 150 {
		t.Errorf("README.md has %d lines, at most 150 are read", n)
	}
	return string(data)
}

// TestReadmeProgram holds that the README's program is the corpus program and
// that the PTX shown is what it becomes.
func TestReadmeProgram(t *testing.T) {
	doc := readme(t)
	src := corpus.Program("matmul_f16_i6_f32")
	if !strings.Contains(doc, src) {
		t.Error("the README's program is not vm/corpus/matmul_f16_i6_f32")
	}
	p, err := text.Parse("matmul.tile", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := compile.Program(p, compile.Options{Divisible: map[string]int64{"K": 16}})
	if err != nil {
		t.Fatal(err)
	}
	ptx, err := c.PTX()
	if err != nil {
		t.Fatal(err)
	}
	var code []string
	for line := range strings.Lines(ptx) {
		if !strings.HasPrefix(strings.TrimSpace(line), "//") {
			code = append(code, line)
		}
	}
	plain := strings.Join(code, "")
	from, to := strings.Index(doc, "\tbfe.u32"), strings.LastIndex(doc, "};\n")
	if from < 0 || to < from {
		t.Fatal("the README shows no PTX")
	}
	if *update {
		// From the first bit field of the cast to the product.
		start, end := strings.Index(plain, "\tbfe.u32"), strings.Index(plain, "\tmma.sync")
		for strings.Count(plain[start:end], "\n") > 12 {
			start += 1 + strings.Index(plain[start+1:], "\tbfe.u32")
		}
		end += strings.Index(plain[end:], "\n") + 1
		if err := os.WriteFile("../README.md", []byte(doc[:from]+plain[start:end]+doc[to+3:]), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !strings.Contains(plain, doc[from:to+3]) {
		t.Errorf("the README's PTX is not what the program becomes:\n%s", plain)
	}
}

func TestReadmePicture(t *testing.T) {
	b := layout.Local(2, 1).ColumnSpatial(4, 8).Local(2, 1)
	u, err := layout.PackedView(6, b)
	if err != nil {
		t.Fatal(err)
	}
	pic, err := layoutviz.Reinterpret(dtype.U8, u, dtype.I6, b, layoutviz.Options{Threads: []int{0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	const file = "../layoutviz/testdata/view_i6.svg"
	if *update {
		if err := os.MkdirAll("../layoutviz/testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, pic.SVG, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(pic.SVG, want) {
		t.Errorf("%s is not what layoutviz draws; look at the difference and run go test ./tests -update", file)
	}
}
