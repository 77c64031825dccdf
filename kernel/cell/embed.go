package cell

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
)

// Encoders ask reflection which fields are embedded and which methods a type has, and the interpreter's types say neither. A value is
// therefore given to them as one of a type in which its fields are embedded; the two lie in memory alike. Methods are called where a box
// tells of them, and values with such types inside are refused.

// encoding gives a value for an encoder, or a pointer for a decoder; pkg is the package. With methods the encoder may ask a box.
func (h *host) encoding(x any, pkg string, methods bool) any {
	if b, ok := inside(x).(Box); ok {
		if _, ok := h.encoders.Load(b.id); ok && methods && pkg == "json" {
			return b
		}
		if in, ok := h.coders.Load(b.id); ok {
			refuseCoder(pkg, in.(string))
		}
		x = b.v
	}
	t := reflect.TypeOf(x)
	if t == nil {
		return x
	}
	codes := func(t reflect.Type) bool { m, _ := structMark(t); return m.coder != "" }
	if in, ok := within(t, codes); ok {
		m, _ := structMark(in)
		refuseCoder(pkg, m.coder)
	}
	to := embedding(t)
	if to == t {
		return x
	}
	v := reflect.ValueOf(x)
	if t.Kind() == reflect.Pointer {
		return reflect.NewAt(to.Elem(), v.UnsafePointer()).Interface()
	}
	p := reflect.New(t)
	p.Elem().Set(v)
	return reflect.NewAt(to, p.UnsafePointer()).Elem().Interface()
}

func refuseCoder(pkg, t string) {
	panic(&runtimeError{fmt.Sprintf("package encoding/%s cannot call the methods of %s inside of other values; call them yourself and encode what they give", pkg, t)})
}

// coder is a method by which encoding/json encodes values of a type.
type coder struct {
	name string
	call func(any) ([]byte, error)
}

// MarshalJSON encodes the value.
func (b Box) MarshalJSON() ([]byte, error) {
	if c, ok := b.h.encoders.Load(b.id); ok {
		c := c.(coder)
		out, err := c.call(b.v)
		if err == nil && c.name == "MarshalText" {
			return json.Marshal(string(out))
		}
		return out, err
	}
	return json.Marshal(b.h.encoding(b, "json", false))
}

var embeddings sync.Map // reflect.Type → reflect.Type

// embedding is a type with the same fields, in which those are embedded that the cell embeds.
func embedding(t reflect.Type) reflect.Type {
	to, ok := embeddings.Load(t)
	if !ok {
		to = embedIn(t)
		embeddings.Store(t, to)
	}
	return to.(reflect.Type)
}

func embedIn(t reflect.Type) reflect.Type {
	if _, ok := within(t, embedsStruct); !ok {
		return t
	}
	open := map[reflect.Type]bool{}
	var build func(t reflect.Type) reflect.Type
	build = func(t reflect.Type) reflect.Type {
		if t.Name() != "" {
			return t
		}
		switch t.Kind() {
		case reflect.Pointer:
			return reflect.PointerTo(build(t.Elem()))
		case reflect.Slice:
			return reflect.SliceOf(build(t.Elem()))
		case reflect.Array:
			return reflect.ArrayOf(t.Len(), build(t.Elem()))
		case reflect.Map:
			return reflect.MapOf(t.Key(), build(t.Elem()))
		case reflect.Struct:
		default:
			return t
		}
		if open[t] {
			panic(&runtimeError{"encoders cannot see the embedded fields of " + typeText(t) + ", which has itself inside; write the fields of what it embeds into it"})
		}
		open[t] = true
		defer delete(open, t)
		var fields []reflect.StructField
		for i := range t.NumField() {
			f := t.Field(i)
			to := reflect.StructField{Name: f.Name, Type: build(f.Type), Tag: f.Tag}
			if embedded(f) {
				to.Anonymous = true
				_, to.Tag = markOf(f.Tag)
			}
			fields = append(fields, to)
		}
		return reflect.StructOf(fields)
	}
	return build(t)
}

// embedded tells whether a field is an embedded struct.
func embedded(f reflect.StructField) bool {
	in := f.Type
	if in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	m, _ := markOf(f.Tag)
	return m.embeds && in.Kind() == reflect.Struct
}

func embedsStruct(t reflect.Type) bool {
	for i := range t.NumField() {
		if embedded(t.Field(i)) {
			return true
		}
	}
	return false
}

// logBox is a box of a value that says itself how it is logged.
type logBox struct {
	Box
	value func(any) slog.Value
}

func (b logBox) LogValue() slog.Value { return b.value(b.v) }

// logged gives a value for package slog.
func (h *host) logged(x any) any {
	b, ok := x.(Box)
	if !ok {
		return h.prettied(x)
	}
	if f, ok := h.loggers.Load(b.id); ok {
		return logBox{b, f.(func(any) slog.Value)}
	}
	if b.kind().isError {
		return h.err(b)
	}
	return b
}

// MarshalJSON encodes the value.
func (p pretty) MarshalJSON() ([]byte, error) {
	return json.Marshal(p.h.encoding(p.v, "json", true))
}

// templated gives a value for a template. What prints by a method stays in its box, others show their fields and elements.
func (h *host) templated(x any) any {
	if b, ok := inside(x).(Box); ok {
		if k := b.kind(); k.text != nil || k.isError {
			return b
		}
		if k := b.kind(); k.show != nil {
			panic(&runtimeError{templateText(k.name) + "; " + templateHelp})
		}
		x = b.v
	}
	switch v := x.(type) {
	case []any:
		if v == nil {
			return v
		}
		return each(v, h.templated)
	case map[string]any:
		if v == nil {
			return v
		}
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = h.templated(e)
		}
		return out
	}
	if t := reflect.TypeOf(x); t != nil {
		texts := func(t reflect.Type) bool { m, _ := structMark(t); return m.texts != "" }
		if in, ok := within(t, texts); ok {
			m, _ := structMark(in)
			panic(&runtimeError{templateText(m.texts) + "; " + templateHelp})
		}
	}
	return x
}

func templateText(t string) string {
	return "templates cannot call the methods of " + t + ", or of what is inside, which a cell declared, and would print it without them"
}

const templateHelp = "give the template texts, such as fmt.Sprint of the value, or a function in its Funcs"
