package cell

import (
	"image"
	"reflect"

	"github.com/tilus-lab/tilus-lab/kernel/display"
)

// A type that a cell declares has no methods that this process can see. The interpreter wraps a value for a native function when the function is
// listed with the interface; these are the interfaces of package display under names, and their wrappers, in the order of preference.

type (
	HTMLer         interface{ HTML() string }
	SVGer          interface{ SVG() string }
	Markdowner     interface{ Markdown() string }
	Latexer        interface{ Latex() string }
	JavaScripter   interface{ JavaScript() string }
	PNGer          interface{ PNG() []byte }
	JPEGer         interface{ JPEG() []byte }
	PDFer          interface{ PDF() []byte }
	JSONer         interface{ JSON() map[string]interface{} }
	Renderer       interface{ Render() display.Data }
	SimpleRenderer interface{ SimpleRender() display.MIMEMap }
)

type wrapHTMLer struct {
	IValue interface{}
	WHTML  func() string
}

func (w wrapHTMLer) HTML() string { return w.WHTML() }

type wrapSVGer struct {
	IValue interface{}
	WSVG   func() string
}

func (w wrapSVGer) SVG() string { return w.WSVG() }

type wrapMarkdowner struct {
	IValue    interface{}
	WMarkdown func() string
}

func (w wrapMarkdowner) Markdown() string { return w.WMarkdown() }

type wrapLatexer struct {
	IValue interface{}
	WLatex func() string
}

func (w wrapLatexer) Latex() string { return w.WLatex() }

type wrapJavaScripter struct {
	IValue      interface{}
	WJavaScript func() string
}

func (w wrapJavaScripter) JavaScript() string { return w.WJavaScript() }

type wrapPNGer struct {
	IValue interface{}
	WPNG   func() []byte
}

func (w wrapPNGer) PNG() []byte { return w.WPNG() }

type wrapJPEGer struct {
	IValue interface{}
	WJPEG  func() []byte
}

func (w wrapJPEGer) JPEG() []byte { return w.WJPEG() }

type wrapPDFer struct {
	IValue interface{}
	WPDF   func() []byte
}

func (w wrapPDFer) PDF() []byte { return w.WPDF() }

type wrapJSONer struct {
	IValue interface{}
	WJSON  func() map[string]interface{}
}

func (w wrapJSONer) JSON() map[string]interface{} { return w.WJSON() }

type wrapRenderer struct {
	IValue  interface{}
	WRender func() display.Data
}

func (w wrapRenderer) Render() display.Data { return w.WRender() }

type wrapSimpleRenderer struct {
	IValue        interface{}
	WSimpleRender func() display.MIMEMap
}

func (w wrapSimpleRenderer) SimpleRender() display.MIMEMap { return w.WSimpleRender() }

// richTypes are the interfaces that a shown value may have.
func richTypes() []reflect.Type {
	return []reflect.Type{
		reflect.TypeOf((*HTMLer)(nil)).Elem(),
		reflect.TypeOf((*SVGer)(nil)).Elem(),
		reflect.TypeOf((*Markdowner)(nil)).Elem(),
		reflect.TypeOf((*Latexer)(nil)).Elem(),
		reflect.TypeOf((*JavaScripter)(nil)).Elem(),
		reflect.TypeOf((*PNGer)(nil)).Elem(),
		reflect.TypeOf((*JPEGer)(nil)).Elem(),
		reflect.TypeOf((*PDFer)(nil)).Elem(),
		reflect.TypeOf((*JSONer)(nil)).Elem(),
		reflect.TypeOf((*Renderer)(nil)).Elem(),
		reflect.TypeOf((*SimpleRenderer)(nil)).Elem(),
	}
}

// richMethods are the methods of richTypes.
func richMethods() (names []string) {
	for _, t := range richTypes() {
		names = append(names, t.Method(0).Name)
	}
	return names
}

// rendered gives what is in an interface in the form that shows itself, if it has one.
func (h *host) rendered(x any) any {
	b, ok := inside(x).(Box)
	if !ok {
		return x
	}
	if f, ok := h.riches.Load(b.id); ok {
		return f.(func(any) any)(b.v)
	}
	if _, ok := x.(image.Image); ok {
		return x
	}
	return b
}

// richWrappers is what the interpreter needs to wrap values for richTypes.
func richWrappers() map[string]reflect.Value {
	return map[string]reflect.Value{
		"_HTMLer":         reflect.ValueOf((*wrapHTMLer)(nil)),
		"_SVGer":          reflect.ValueOf((*wrapSVGer)(nil)),
		"_Markdowner":     reflect.ValueOf((*wrapMarkdowner)(nil)),
		"_Latexer":        reflect.ValueOf((*wrapLatexer)(nil)),
		"_JavaScripter":   reflect.ValueOf((*wrapJavaScripter)(nil)),
		"_PNGer":          reflect.ValueOf((*wrapPNGer)(nil)),
		"_JPEGer":         reflect.ValueOf((*wrapJPEGer)(nil)),
		"_PDFer":          reflect.ValueOf((*wrapPDFer)(nil)),
		"_JSONer":         reflect.ValueOf((*wrapJSONer)(nil)),
		"_Renderer":       reflect.ValueOf((*wrapRenderer)(nil)),
		"_SimpleRenderer": reflect.ValueOf((*wrapSimpleRenderer)(nil)),
	}
}
