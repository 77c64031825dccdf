package display

import (
	"bytes"
	"image"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

type page struct{}

func (page) HTML() string { return "<b>x</b>" }

func TestRender(t *testing.T) {
	l := layout.Local(2, 1).Spatial(8, 4).Local(1, 2)
	d, ok := Render(l)
	if !ok || !strings.Contains(d.Data[MIMETypeSVG].(string), "<svg") || !strings.Contains(d.Data[MIMETypeText].(string), "local(2, 1)") {
		t.Errorf("layout: %v", d.Data[MIMETypeText])
	}
	if !bytes.HasPrefix(d.Data[MIMETypePNG].([]byte), []byte("\x89PNG")) {
		t.Error("a layout needs a PNG for front ends without SVG")
	}
	data, _ := Bundle(d)
	if s := data[MIMETypePNG].(string); !strings.HasPrefix(s, "iVBOR") {
		t.Errorf("PNG must travel as base64, got %.8q", s)
	}
	a := array.New(dtype.F16, 2, 3)
	a.Set(1.5, 1, 2)
	if d, ok := Render(a); !ok || !strings.Contains(d.Data[MIMETypeHTML].(string), "<td>1.5</td>") {
		t.Errorf("array: %v", d.Data)
	}
	if d, ok := Render(page{}); !ok || d.Data[MIMETypeHTML] != "<b>x</b>" {
		t.Errorf("HTMLer: %v", d.Data)
	}
	if _, ok := Render(3); ok {
		t.Error("an int has no rich form")
	}
	if d := Image(image.NewGray(image.Rect(0, 0, 3, 2))); !strings.Contains(d.Data[MIMETypeText].(string), "3 by 2") {
		t.Errorf("image: %v", d.Data[MIMETypeText])
	}
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		vals []any
		want string
		ok   bool
	}{
		{[]any{1, "a"}, "1 a", true},
		{[]any{nil, error(nil)}, "", false},
		{[]any{page{}, nil}, "{}", true},
		{[]any{[]int{1}}, "[1]", true},
	} {
		d, ok := Results(c.vals)
		if ok != c.ok || ok && d.Data[MIMETypeText] != c.want {
			t.Errorf("%v: %v %v", c.vals, d.Data, ok)
		}
	}
}

func TestAnySniffs(t *testing.T) {
	for in, want := range map[string]string{"<svg xmlns='x'/>": MIMETypeSVG, "\x89PNG\r\n\x1a\n": MIMETypePNG, "plain": MIMETypeText} {
		if d := Any("", []byte(in)); d.Data[want] == nil {
			t.Errorf("%q: %v, want %s", in, d.Data, want)
		}
	}
	if err := Display(HTML("x")); err == nil {
		t.Error("Display without a notebook must say so")
	}
}
