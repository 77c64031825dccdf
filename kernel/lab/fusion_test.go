package lab

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/layoutviz"
)

func TestFusion(t *testing.T) {
	f, err := Fuse("softmax")
	if err != nil {
		t.Fatal(err)
	}
	if f.Kernels() != 1 || f.Ideal() != 2*256*1024*4 || f.Bytes() != f.Ideal() {
		t.Errorf("%d kernels, %d of %d bytes", f.Kernels(), f.Bytes(), f.Ideal())
	}
	for what, text := range map[string]string{"one_pass": f.Plan(), "written once": f.Maps(), "softmax_e": f.Partition(), "ideal": f.Cost(), "shuffle_reduce": f.Tensor(), "shfl": f.Code()} {
		if !strings.Contains(text, what) {
			t.Errorf("no %s in\n%s", what, text)
		}
	}
	if ptx, err := f.PTX(); err != nil || !strings.Contains(ptx, ".entry") {
		t.Errorf("%v\n%s", err, ptx)
	}
	say, err := f.Run(2)
	if err != nil || !strings.Contains(say, "y: ") {
		t.Errorf("%q, %v", say, err)
	}
	for _, name := range f.Drawings() {
		if _, err := f.Draw(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var captions, texts []string
	detach := Attach(Hooks{Picture: func(c string, p layoutviz.Picture) { captions = append(captions, c) }, Display: func(d map[string]string) { texts = append(texts, d["text/plain"]) }})
	Show(f)
	Show(IndexMap("(d0) -> (d0 mod 8), domain: d0 in [8, 15]"))
	detach()
	if len(captions) != 3 || len(texts) != 1 {
		t.Errorf("%d pictures, %d texts", len(captions), len(texts))
	}
	if _, err := Fuse("ENTRY e {"); err == nil {
		t.Error("no error")
	}
	if s, err := IndexMap("(d0) -> (d0 mod 8), domain: d0 in [8, 15]"); err != nil || s.Points != 8 || !strings.Contains(s.String(), "d0 - 8") {
		t.Errorf("%v, %v", s, err)
	}
	if len(FusionNames()) < 10 || FusionText("loop") == "" || FusionText("nought") != "" {
		t.Error("texts")
	}
}
