package fusion

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/emit"
	"github.com/tilus-lab/tilus-lab/gpu/traffic"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// TestGallery: every picture is well-formed, says what it shows, keeps to its sheet, and is
// the same every time. With PICTURES set, they are written there as PNG.
func TestGallery(t *testing.T) {
	for i, e := range Gallery() {
		p, err := e.Draw(layoutviz.Options{})
		if err != nil {
			t.Errorf("%s: %v", e.Name, err)
			continue
		}
		again, err := e.Draw(layoutviz.Options{})
		if err != nil || !bytes.Equal(p.SVG, again.SVG) {
			t.Errorf("%s is another one the second time (%v)", e.Name, err)
		}
		d := xml.NewDecoder(bytes.NewReader(p.SVG))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", e.Name, err)
			}
		}
		if p.Title == "" || p.Desc == "" || p.Width > 2600 || p.Height > 6000 {
			t.Errorf("%s: %d × %d, %q, %q", e.Name, p.Width, p.Height, p.Title, p.Desc)
		}
		for _, x := range p.IDs {
			if x.X < 0 || x.Y < 0 || x.X+x.W > p.Width || x.Y+x.H > p.Height {
				t.Errorf("%s: %s leaves the sheet", e.Name, x.ID)
			}
		}
		if dir := os.Getenv("PICTURES"); dir != "" {
			raw, err := layoutviz.Export(p, "png")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, e.Name+".png"), raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		looks := []layoutviz.Options{{Theme: "dark"}, {Theme: "print"}, {Palette: "okabe-ito"}}
		o := looks[i%len(looks)]
		if _, err := e.Draw(o); err != nil {
			t.Errorf("%s, %+v: %v", e.Name, o, err)
		}
	}
}

// TestThreads: boxes name who handles what, as the map says.
func TestThreads(t *testing.T) {
	m, err := hlo.Parse("t", "ENTRY e {\n x = f32[4096] parameter(0)\n ROOT r = f32[4096] negate(x)\n}")
	if err != nil {
		t.Fatal(err)
	}
	p, err := emit.Compile(m, emit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	k, err := traffic.OfKernel(p.Kernels[0])
	if err != nil {
		t.Fatal(err)
	}
	pic, err := Threads(k, "out0", traffic.Write, layoutviz.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, width := k.Accesses[len(k.Accesses)-1].Vector, 64
	if v == 1 {
		width = 32
	}
	for _, e := range pic.IDs {
		place := e.At[0]*width + e.At[1]
		block := p.Kernels[0].Tensor.Threads
		if want := place / v % block; e.Thread != want {
			t.Errorf("element %d belongs to thread %d, not %d", place, want, e.Thread)
		}
	}
	if _, err := Threads(k, "nought", traffic.Write, layoutviz.Options{}); err == nil {
		t.Error("there is no such tensor")
	}
}

// TestTexts: every text has the emitter that it is about.
func TestTexts(t *testing.T) {
	for _, x := range Texts() {
		m, err := hlo.Parse(x.Name, x.HLO)
		if err != nil {
			t.Fatal(err)
		}
		p, err := emit.Compile(m, emit.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(x.Name, p.Plan.Kernels[0].Emitter, len(p.Kernels))
	}
}
