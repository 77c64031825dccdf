package cell

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// Box holds a value of a type that a cell declared while it is in an empty interface. The interpreter keeps only the plain form of such
// a value, so without a box it would lose its name and its String method there, and an assertion to float64 would take any type
// that is made of one. Printed cells put values into boxes and take them out; the library sees boxes only inside of other values.
type Box struct {
	v    any
	text func() string // the value's Error or String method, or nil
	show func() any    // a value that prints as the value does, or nil
	name string
	h    *host
}

// Format prints the value as the library prints one of its type.
func (b *Box) Format(f fmt.State, verb rune) {
	v := b.v
	if b.show != nil && !f.Flag('#') && !b.h.quiet.Load() {
		v = b.show()
	}
	switch verb {
	case 'v', 's', 'q', 'x', 'X':
		if b.text != nil && !f.Flag('#') && !b.h.quiet.Load() {
			v = b.words()
		}
	}
	fmt.Fprintf(f, fmt.FormatString(f, verb), v)
}

// words calls the text method. As in the library, a nil pointer whose method fails prints as nil.
func (b *Box) words() (s string) {
	defer func() {
		if p := reflect.ValueOf(b.v); p.Kind() == reflect.Pointer && p.IsNil() {
			if recover() != nil {
				s = "<nil>"
			}
		}
	}()
	return b.text()
}

// MarshalJSON encodes the plain value.
func (b *Box) MarshalJSON() ([]byte, error) { return json.Marshal(b.v) }

// box puts a value into a box; text is nil or the value's text method.
func (h *host) box(name string, v any, text func() string) any {
	return &Box{v: v, text: text, name: name, h: h}
}

// boxShown is box for values that have others inside with text methods.
func (h *host) boxShown(name string, v any, show func() any) any {
	return &Box{v: v, show: show, name: name, h: h}
}

// take gives the plain value when the box holds one of the type of that name.
func take(v any, name string) any {
	if b, ok := v.(*Box); ok && b.name == name {
		return b.v
	}
	return v
}

// shed gives the value of a panic. The interpreter panics with a reflect.Value around the value.
func shed(r any) any {
	if v, ok := r.(reflect.Value); ok && v.IsValid() && v.CanInterface() {
		return v.Interface()
	}
	return r
}

// unbox gives the plain value.
func unbox(v any) any {
	if b, ok := v.(*Box); ok {
		return b.v
	}
	return v
}

// unboxAll gives the plain values of a list of arguments.
func unboxAll(vs []any) []any {
	out := make([]any, len(vs))
	for i, v := range vs {
		out[i] = unbox(v)
	}
	return out
}

// typeName is what %T prints.
func (h *host) typeName(v any) string {
	if b, ok := v.(*Box); ok {
		return b.name
	}
	t := reflect.TypeOf(v)
	star := ""
	if t != nil && t.Kind() == reflect.Pointer {
		star, t = "*", t.Elem()
	}
	if t != nil && t.Kind() == reflect.Struct && t.NumField() > 0 {
		if name := t.Field(0).Tag.Get("cell"); name != "" {
			if s, ok := h.e.shown[name]; ok {
				name = s
			}
			return star + "main." + name
		}
	}
	return fmt.Sprintf("%T", v)
}

// deepEqual is reflect.DeepEqual for values that may hold boxes.
func deepEqual(x, y any) bool { return reflect.DeepEqual(plainOf(x), plainOf(y)) }

// plainOf copies slices and maps of empty interfaces without their boxes.
func plainOf(v any) any {
	switch v := unbox(v).(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plainOf(v[i])
		}
		if v == nil {
			return v
		}
		return out
	case map[string]any:
		if v == nil {
			return v
		}
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = plainOf(x)
		}
		return out
	default:
		return v
	}
}
