// Package display turns values into what a notebook can show: the same thing in several forms, keyed by MIME type.
//
// [Render] chooses the forms by the type of a value: layouts show their pictures, programs and arrays their text, everything with a
// method SVG, HTML, Markdown and so on what that method returns. The functions and interfaces are those of gophernotes, so that its
// notebooks run unchanged; values that hold several forms are maps of the same shape as there.
package display

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/png"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/tilus-lab/tilus-lab/gpu/cost"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// MIME types of the forms.
const (
	MIMETypeHTML       = "text/html"
	MIMETypeJavaScript = "application/javascript"
	MIMETypeJPEG       = "image/jpeg"
	MIMETypeJSON       = "application/json"
	MIMETypeLatex      = "text/latex"
	MIMETypeMarkdown   = "text/markdown"
	MIMETypePNG        = "image/png"
	MIMETypePDF        = "application/pdf"
	MIMETypeSVG        = "image/svg+xml"
	MIMETypeText       = "text/plain"
)

// MIMEMap holds forms by MIME type: strings, bytes for binary types, or values that encode to JSON.
type MIMEMap = map[string]interface{}

// Data is one thing to show. It is an alias, so that libraries can return it without importing this package.
type Data = struct {
	Data      MIMEMap
	Metadata  MIMEMap
	Transient MIMEMap
}

// The interfaces by which a value says how it is shown.
type (
	Renderer       = interface{ Render() Data }
	SimpleRenderer = interface{ SimpleRender() MIMEMap }
	HTMLer         = interface{ HTML() string }
	JavaScripter   = interface{ JavaScript() string }
	JPEGer         = interface{ JPEG() []byte }
	JSONer         = interface{ JSON() map[string]interface{} }
	Latexer        = interface{ Latex() string }
	Markdowner     = interface{ Markdown() string }
	PNGer          = interface{ PNG() []byte }
	PDFer          = interface{ PDF() []byte }
	SVGer          = interface{ SVG() string }
)

// sink shows Data in the running cell; the worker sets it.
var sink atomic.Pointer[func(Data) error]

// Attach makes Display send to f until the returned function is called.
func Attach(f func(Data) error) (detach func()) {
	sink.Store(&f)
	return func() { sink.CompareAndSwap(&f, nil) }
}

// Display shows data in the running cell, in order with what the cell prints.
func Display(d Data) error {
	f := sink.Load()
	if f == nil {
		return fmt.Errorf("display: no notebook is attached to this process")
	}
	return (*f)(d)
}

// Show renders a value and shows it: Display(Auto(v)).
func Show(v interface{}) error { return Display(Auto(v)) }

// maxTwice is the longest text, in bytes, that MakeData gives in both forms: a page is no text to read, and would be sent twice.
const maxTwice = 64 << 10

// MakeData is one form; text/plain is added for text types.
func MakeData(mimeType string, data interface{}) Data {
	d := Data{Data: MIMEMap{mimeType: data}}
	if s, ok := data.(string); ok && len(s) > maxTwice && mimeType != MIMETypeText {
		d.Data[MIMETypeText] = fmt.Sprintf("<%s of %d bytes>", mimeType, len(s))
	} else if ok && mimeType != MIMETypeText {
		d.Data[MIMETypeText] = s
	} else if mimeType != MIMETypeText {
		d.Data[MIMETypeText] = fmt.Sprintf("<%s>", mimeType)
	}
	return d
}

// MakeData3 is one form with the plain text to show where that form cannot be.
func MakeData3(mimeType string, plainText string, data interface{}) Data {
	return Data{Data: MIMEMap{MIMETypeText: plainText, mimeType: data}}
}

// HTML shows a text as HTML, and so on for the others.
func HTML(s string) Data       { return MakeData(MIMETypeHTML, s) }
func JavaScript(s string) Data { return MakeData(MIMETypeJavaScript, s) }
func JPEG(b []byte) Data       { return MakeData(MIMETypeJPEG, b) }
func Latex(s string) Data      { return MakeData3(MIMETypeLatex, s, "$"+strings.Trim(s, "$")+"$") }
func Markdown(s string) Data   { return MakeData(MIMETypeMarkdown, s) }
func Math(s string) Data       { return MakeData3(MIMETypeLatex, s, "$$"+strings.Trim(s, "$")+"$$") }
func PDF(b []byte) Data        { return MakeData(MIMETypePDF, b) }
func PNG(b []byte) Data        { return MakeData(MIMETypePNG, b) }
func SVG(s string) Data        { return MakeData3(MIMETypeSVG, "<SVG picture>", s) }

// JSON shows a JSON object as a tree.
func JSON(m map[string]interface{}) Data {
	return MakeData3(MIMETypeJSON, fmt.Sprint(m), m)
}

// Image shows an image as PNG.
func Image(img image.Image) Data {
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return MakeData(MIMETypeText, "display: "+err.Error())
	}
	r := img.Bounds()
	d := MakeData3(MIMETypePNG, fmt.Sprintf("<image of %d by %d pixels>", r.Dx(), r.Dy()), b.Bytes())
	d.Metadata = MIMEMap{MIMETypePNG: MIMEMap{"width": r.Dx(), "height": r.Dy()}}
	return d
}

// MIME shows several forms at once.
func MIME(data, metadata MIMEMap) Data { return Data{Data: data, Metadata: metadata} }

// File shows a file; an empty MIME type means the one its content looks like.
func File(mimeType string, path string) Data {
	b, err := os.ReadFile(path)
	if err != nil {
		return MakeData(MIMETypeText, "display: "+err.Error())
	}
	return Any(mimeType, b)
}

// Any shows strings, bytes, readers, images and everything that Auto shows; an empty MIME type means the one that fits.
func Any(mimeType string, data interface{}) Data {
	switch x := data.(type) {
	case io.Reader:
		b, err := io.ReadAll(x)
		if err != nil {
			return MakeData(MIMETypeText, "display: "+err.Error())
		}
		data = b
	case io.WriterTo:
		var b bytes.Buffer
		if _, err := x.WriteTo(&b); err != nil {
			return MakeData(MIMETypeText, "display: "+err.Error())
		}
		data = b.Bytes()
	}
	switch x := data.(type) {
	case string:
		if mimeType == "" {
			mimeType = MIMETypeText
		}
		return MakeData(mimeType, x)
	case []byte:
		if mimeType == "" {
			mimeType, _, _ = strings.Cut(http.DetectContentType(x), ";")
			if bytes.Contains(x[:min(len(x), 512)], []byte("<svg")) {
				mimeType = MIMETypeSVG
			}
		}
		if strings.HasPrefix(mimeType, "text/") || mimeType == MIMETypeSVG {
			return MakeData(mimeType, string(x))
		}
		return MakeData(mimeType, x)
	}
	return Auto(data)
}

// Auto shows a value in the forms of its type; see Render.
func Auto(v interface{}) Data {
	switch v.(type) {
	case string, []byte:
		return Any("", v)
	}
	if d, ok := Render(v); ok {
		return d
	}
	return MakeData(MIMETypeText, fmt.Sprint(v))
}

// Render gives the forms of a value whose type has any besides plain text.
func Render(v interface{}) (Data, bool) {
	switch x := v.(type) {
	case nil:
		return Data{}, false
	case Data:
		return x, true
	case layout.Layout:
		return layoutData(x), true
	case layoutviz.Picture:
		return Picture(x), true
	case *ir.Program:
		if x == nil {
			return Data{}, false
		}
		s := text.Format(x)
		return MIME(MIMEMap{MIMETypeText: s, MIMETypeHTML: "<pre>" + html.EscapeString(s) + "</pre>"}, nil), true
	case *array.Array:
		if x == nil {
			return Data{}, false
		}
		return MIME(MIMEMap{MIMETypeText: x.String(), MIMETypeHTML: table(x)}, nil), true
	case cost.Launch:
		return costs(x), true
	case Renderer:
		return x.Render(), true
	case image.Image:
		return Image(x), true
	}
	if d, ok := drawn(v); ok {
		return d, true
	}
	m := MIMEMap{}
	if x, ok := v.(SimpleRenderer); ok {
		for k, f := range x.SimpleRender() {
			m[k] = f
		}
	}
	text := map[string]func() (string, bool){
		MIMETypeHTML: func() (string, bool) { x, ok := v.(HTMLer); return call(ok, func() string { return x.HTML() }) },
		MIMETypeJavaScript: func() (string, bool) {
			x, ok := v.(JavaScripter)
			return call(ok, func() string { return x.JavaScript() })
		},
		MIMETypeLatex:    func() (string, bool) { x, ok := v.(Latexer); return call(ok, func() string { return x.Latex() }) },
		MIMETypeMarkdown: func() (string, bool) { x, ok := v.(Markdowner); return call(ok, func() string { return x.Markdown() }) },
		MIMETypeSVG:      func() (string, bool) { x, ok := v.(SVGer); return call(ok, func() string { return x.SVG() }) },
	}
	for k, f := range text {
		if s, ok := f(); ok {
			m[k] = s
		}
	}
	if x, ok := v.(JPEGer); ok {
		m[MIMETypeJPEG] = x.JPEG()
	}
	if x, ok := v.(PNGer); ok {
		m[MIMETypePNG] = x.PNG()
	}
	if x, ok := v.(PDFer); ok {
		m[MIMETypePDF] = x.PDF()
	}
	if x, ok := v.(JSONer); ok {
		m[MIMETypeJSON] = x.JSON()
	}
	if len(m) == 0 {
		return Data{}, false
	}
	if m[MIMETypeText] == nil {
		m[MIMETypeText] = plain(v)
	}
	return Data{Data: m}, true
}

func call(ok bool, f func() string) (string, bool) {
	if !ok {
		return "", false
	}
	return f(), true
}

// plain is the text of a value.
func plain(v interface{}) string {
	if s, ok := v.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%v", v)
}

// Picture shows a picture as SVG with PNG and text beside it. What it is a picture of, which is no part of a notebook, is transient.
func Picture(p layoutviz.Picture) Data {
	m := MIMEMap{MIMETypeSVG: string(p.SVG), MIMETypeText: strings.TrimSpace(p.Title + "\n" + p.Desc)}
	if b, err := layoutviz.PNG(p); err == nil {
		m[MIMETypePNG] = b
	}
	d := Data{Data: m, Metadata: MIMEMap{MIMETypePNG: MIMEMap{"width": p.Width, "height": p.Height}}}
	if p.Form != "" {
		d.Transient = MIMEMap{"form": p.Form, "text": p.Text}
	}
	return d
}

// Frame shows a picture as SVG alone: one of many of a display that changes.
func Frame(p layoutviz.Picture) Data {
	return MIME(MIMEMap{MIMETypeSVG: string(p.SVG), MIMETypeText: strings.TrimSpace(p.Title + "\n" + p.Desc)}, nil)
}

// layoutData shows a layout: text, and the tensor view as the picture. Pictures gives the others.
func layoutData(l layout.Layout) Data {
	ps := Pictures(l)
	if len(ps) == 0 {
		return MakeData(MIMETypeText, l.String())
	}
	d := ps[0]
	d.Data[MIMETypeText] = layoutviz.Describe(l)
	return d
}

// Pictures shows a layout from both sides: elements in their places, and what each thread holds.
func Pictures(l layout.Layout) []Data {
	var out []Data
	if p, err := layoutviz.Tensor(l, layoutviz.Options{}); err == nil {
		out = append(out, Picture(p))
	}
	if p, err := layoutviz.Threads(l, layoutviz.Options{}); err == nil {
		out = append(out, Picture(p))
	}
	return out
}

// numbers are the extents of a shape as program text writes them, without brackets.
func numbers(v []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ", "), "[]") }

// table is a small HTML table of an array of rank 1 or 2, a line of text for others.
func table(a *array.Array) string {
	const most = 16
	head := fmt.Sprintf("<div>%s[%s]</div>", html.EscapeString(a.Type.String()), numbers(a.Shape))
	rows, cols := 1, a.Len()
	if len(a.Shape) == 2 {
		rows, cols = a.Shape[0], a.Shape[1]
	} else if len(a.Shape) != 1 {
		return head + "<pre>" + html.EscapeString(a.String()) + "</pre>"
	}
	var b strings.Builder
	b.WriteString(head + "<table>")
	for r := range min(rows, most) {
		b.WriteString("<tr>")
		for c := range min(cols, most) {
			if rows == 1 && len(a.Shape) == 1 {
				fmt.Fprintf(&b, "<td>%v</td>", a.At(c))
				continue
			}
			fmt.Fprintf(&b, "<td>%v</td>", a.At(r, c))
		}
		if cols > most {
			b.WriteString("<td>…</td>")
		}
		b.WriteString("</tr>")
	}
	if rows > most {
		b.WriteString("<tr><td>…</td></tr>")
	}
	return b.String() + "</table>"
}

// Bundle makes the wire form: bytes become base64, nothing else changes.
func Bundle(d Data) (data, metadata map[string]any) {
	data = make(map[string]any, len(d.Data))
	for k, v := range d.Data {
		switch v := v.(type) {
		case []byte:
			if strings.HasPrefix(k, "text/") || k == MIMETypeSVG {
				data[k] = string(v)
			} else {
				data[k] = base64.StdEncoding.EncodeToString(v)
			}
		case error:
			data[k] = v.Error()
		default:
			data[k] = v
		}
	}
	return data, d.Metadata
}

// Results gives the bundle for the values of a last expression, after the rule of gophernotes: one value that renders while all others
// are nil shows itself; all nil shows nothing; everything else is the text of all values, joined by blanks.
func Results(vals []any) (Data, bool) {
	var rich *Data
	n, set := 0, 0
	for _, v := range vals {
		if isNil(v) {
			continue
		}
		set++
		if d, ok := Render(v); ok {
			rich = &d
			n++
		}
	}
	if set == 0 {
		return Data{}, false
	}
	if n == 1 && set == 1 {
		return *rich, true
	}
	var parts []string
	for _, v := range vals {
		parts = append(parts, plain(v))
	}
	return MakeData(MIMETypeText, strings.Join(parts, " ")), true
}

func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Func, reflect.Interface, reflect.Chan:
		return r.IsNil()
	}
	return false
}
