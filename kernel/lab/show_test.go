package lab

import (
	"errors"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// shown runs f and returns what it displayed.
func shown(t *testing.T, f func()) []map[string]string {
	t.Helper()
	var list []map[string]string
	defer Attach(Hooks{Display: func(data map[string]string) { list = append(list, data) }, Picture: func(caption string, p layoutviz.Picture) {
		list = append(list, map[string]string{"text/plain": caption, "image/svg+xml": string(p.SVG)})
	}})()
	f()
	return list
}

func TestShowProgram(t *testing.T) {
	p, err := Load("matmul_f16_i6")
	list := shown(t, func() { Show(p, err) })
	var captions []string
	for _, data := range list {
		captions = append(captions, data["text/plain"])
	}
	if len(list) != 9 {
		t.Fatalf("shown are %d things, want the text, and 4 layouts with their headings: %q", len(list), captions)
	}
	if !strings.HasPrefix(captions[0], "program matmul<") || list[0]["image/svg+xml"] != "" {
		t.Errorf("the first is not the text: %q", captions[0])
	}
	for i, head := range []string{"acc, out : ", "ra : ", "rb : ", "rw, rh : "} {
		data := list[2*i+2]
		if !strings.HasPrefix(data["text/plain"], head) || !strings.HasPrefix(strings.TrimSpace(data["image/svg+xml"]), "<") {
			t.Errorf("picture %d is %q, want one of %q", i, data["text/plain"], head)
		}
	}
}

func TestShowLayoutPictureAndText(t *testing.T) {
	l := layout.Spatial(8, 4)
	pic, err := layoutviz.Reinterpret(dtype.U8, l, dtype.I8, l, layoutviz.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list := shown(t, func() { Show(l, nil, pic, 7, dtype.I6) })
	if len(list) != 5 {
		t.Fatalf("shown are %d things, want 2 views, a picture, a number and a type", len(list))
	}
	if list[0]["image/svg+xml"] == list[1]["image/svg+xml"] {
		t.Error("both views of a layout are the same")
	}
	if list[2]["image/svg+xml"] != string(pic.SVG) || list[3]["text/plain"] != "7" || list[4]["text/plain"] != "i6" {
		t.Errorf("got %v", list[2:])
	}
}

func TestShowEndsTheCellBeforeItShows(t *testing.T) {
	wrong := errors.New("wrong")
	list := shown(t, func() {
		defer func() {
			if recover() != wrong {
				t.Error("Show let an error pass")
			}
		}()
		Show("half a result", wrong)
	})
	if len(list) > 0 {
		t.Errorf("shown beside the error: %v", list)
	}
}
