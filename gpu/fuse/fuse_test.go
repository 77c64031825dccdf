package fuse

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/tilus-lab/tilus-lab/gpu/emit"

	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// TestFiles: each archive has a fusion in fusion.hlo. Sections named like a view hold lines
// that must stand in it, in that order, and after "not:" what must not. A section "exact"
// says that machines agree bit for bit; without it they do to 1e-5 of the norm.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			bound := 1e-5
			var f *Fusion
			for _, s := range a.Files {
				switch s.Name {
				case "fusion.hlo":
					if f, err = Read(s.Name, string(s.Data), ""); err != nil {
						t.Fatal(err)
					}
				case "exact":
					bound = 0
				default:
					text, err := f.View(s.Name)
					if err != nil {
						t.Fatal(err)
					}
					check(t, s.Name, text, string(s.Data))
				}
			}
			c, err := f.Run(context.Background(), f.Arguments(1))
			if err != nil {
				t.Fatal(err)
			}
			if worst := c.Worst(); worst > bound {
				t.Errorf("the simulator differs by %g of the norm:\n%s", worst, c)
			}
			for i, k := range f.Traffic.Kernels {
				for _, arg := range f.Program.Kernels[i].Tensor.Args {
					if arg.Role == emit.Write {
						if _, err := Once(k, arg); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}
}

// check looks for the lines in the text, in order.
func check(t *testing.T, view, text, lines string) {
	t.Helper()
	rest := text
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if not, ok := strings.CutPrefix(line, "not: "); ok {
			if strings.Contains(text, not) {
				t.Errorf("%s has %q:\n%s", view, not, text)
			}
			continue
		}
		i := strings.Index(rest, line)
		if i < 0 {
			t.Errorf("%s lacks %q, or has it elsewhere:\n%s", view, line, text)
			continue
		}
		rest = rest[i+len(line):]
	}
}

// TestPyramid: graphs whose elements recursion would compute 2^24 times become code in
// milliseconds, and compute the right thing.
func TestPyramid(t *testing.T) {
	for _, c := range []struct {
		name        string
		depth, size int
		pad         bool
	}{{"slices", 24, 64, false}, {"slices, guarded", 24, 40, false}, {"pads", 12, 52, true}, {"pads, deep", 24, 64, true}} {
		depth := c.depth
		b := hlo.NewBuilder("pyramid")
		x := b.Param(hlo.Array(hlo.F32, depth+c.size))
		for i := range depth {
			if c.pad { // to the left and to the right by one, instead of a slice
				zero := b.Scalar(hlo.F32, 0)
				left := b.Pad(x, zero, hlo.PadDim{Lo: 1, Hi: -1})
				right := b.Pad(x, zero, hlo.PadDim{Lo: -1, Hi: 1})
				x = b.Elementwise(hlo.Add, left, right)
				continue
			}
			n := depth + c.size - 1 - i
			lo := b.Slice(x, hlo.SliceDim{Start: 0, Limit: n, Stride: 1})
			hi := b.Slice(x, hlo.SliceDim{Start: 1, Limit: n + 1, Stride: 1})
			x = b.Elementwise(hlo.Add, lo, hi)
		}
		m, err := b.Done(x)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := emit.Compile(m, emit.Options{}); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		emitted := time.Since(start)
		f, err := Compile(m, "")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		took := time.Since(start)
		t.Logf("%s: %d instructions become %d of thread code in %v, in %v with what is told of them", c.name, len(f.Program.Flat.Instructions), strings.Count(f.Code(), "\n"), emitted, took-emitted)
		if emitted > 500*time.Millisecond { // ten and sixty on an idle machine
			t.Errorf("%s takes %v", c.name, emitted)
		}
		for _, v := range Views() {
			text, err := f.View(v.Name)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(text, "\n"); n > 6000 {
				t.Errorf("%s: %s takes %d lines", c.name, v.Name, n)
			}
		}
		t.Logf("all views of it in %v", time.Since(start)-took)
		if n := len(f.Traffic.Kernels[0].Accesses); n > 600 { // what is told of them grows like the code
			t.Errorf("%s: %d accesses", c.name, n)
		}
		r, err := f.Run(context.Background(), f.Arguments(3))
		if err != nil {
			t.Fatal(err)
		}
		if r.Worst() > 1e-6 {
			t.Error(r)
		}
	}
}

func TestErrors(t *testing.T) {
	if _, err := Read("x.hlo", "ENTRY e {\n  ROOT a = f32[2] add(b, b)\n}", ""); err == nil || !strings.Contains(err.Error(), "x.hlo:2:") {
		t.Errorf("%v has no place", err)
	}
	if _, err := Read("x.hlo", "ENTRY e {\n  ROOT a = f32[4611686018427387904,8] parameter(0)\n}", ""); err == nil || !strings.Contains(err.Error(), "x.hlo:2:") {
		t.Errorf("a shape that overflows: %v", err)
	}
	if _, err := Read("x.hlo", "ENTRY e {\n  ROOT a = f32[2] parameter(0)\n}", "h3000"); err == nil {
		t.Error("there is no such device")
	}
}
