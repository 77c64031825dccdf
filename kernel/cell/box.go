package cell

import (
	"errors"
	"fmt"
	"reflect"
)

// Box holds a value of a type that cells declared while it is in an empty interface. The interpreter keeps only the plain form of
// such a value, so without a box it would lose its name and its methods there, and an assertion to float64 would take any type
// that is made of one. Printed cells put values into boxes and take them out; most of the library sees boxes only inside of other values.
// Two boxes are equal when their types and values are.
type Box struct {
	h  *host
	id string // the printed type
	v  any
}

// boxKind is what boxes of one type share.
type boxKind struct {
	name string           // as %T prints it
	text func(any) string // the Error or String method, or nil
	show func(any) any    // gives a value that prints as the value does, or nil

	// Methods of errors; nil for what a type has not.
	isError bool
	is      func(any, error) bool
	as      func(any, any) bool
	unwrap  func(any) error
	all     func(any) []error
}

func (b Box) kind() boxKind {
	k, _ := b.h.kinds.Load(b.id)
	kind, _ := k.(boxKind)
	return kind
}

// Format prints the value as the library prints one of its type.
func (b Box) Format(f fmt.State, verb rune) {
	print(b.h, f, verb, b)
}

// words calls the text method. As in the library, a nil pointer whose method fails prints as nil.
func (b Box) words(k boxKind) (s string) {
	defer func() {
		if p := reflect.ValueOf(b.v); p.Kind() == reflect.Pointer && p.IsNil() {
			if recover() != nil {
				s = "<nil>"
			}
		}
	}()
	return k.text(b.v)
}

// box puts a value into a box.
func (h *host) box(id, name string, v any) any { return h.keep(boxKind{name: name}, id, v) }

// boxText is box for values with a text method.
func (h *host) boxText(id, name string, v any, text func(any) string) any {
	return h.keep(boxKind{name: name, text: text}, id, v)
}

// boxShown is box for values that have others inside with text methods.
func (h *host) boxShown(id, name string, v any, show func(any) any) any {
	return h.keep(boxKind{name: name, show: show}, id, v)
}

func (h *host) keep(k boxKind, id string, v any) any {
	if old, ok := h.kinds.Load(id); !ok || !old.(boxKind).isError {
		h.kinds.Store(id, k)
	}
	return Box{h, id, v}
}

// boxID is the printed type of the value in a box, "" for what is in none.
func boxID(v any) string {
	if b, ok := v.(Box); ok {
		return b.id
	}
	return ""
}

// other is what no assertion of a cell takes.
type other struct{ v any }

// take gives the plain value when the box holds one of the type. An assertion of what it gives instead for others fails.
func take(v any, id string) any {
	b, ok := v.(Box)
	switch {
	case ok && b.id == id:
		return b.v
	case v == nil:
		return nil
	}
	return other{v}
}

// open is take for types of which a value may be without a box, because nothing in it had methods when it was put there.
func open(v any, id string) any {
	if _, ok := v.(Box); ok {
		return take(v, id)
	}
	return v
}

// must is take for an assertion that panics.
func must(v any, id, in, name string) any {
	b, ok := v.(Box)
	if ok && b.id == id {
		return b.v
	}
	held := fmt.Sprintf("%T", v)
	if ok {
		held = b.kind().name
	}
	if v == nil {
		held = "nil"
	}
	panic(&runtimeError{"interface conversion: " + in + " is " + held + ", not " + name})
}

// equal compares as Go does; values that cannot be compared panic.
func equal(x, y any) bool {
	if x == y || x == nil || y == nil {
		return x == y
	}
	a, b := reflect.ValueOf(x), reflect.ValueOf(y)
	if p, ok := x.(Box); ok {
		q, ok := y.(Box)
		if !ok || p.id != q.id {
			return false
		}
		a, b = reflect.ValueOf(p.v), reflect.ValueOf(q.v)
	}
	return a.IsValid() && b.IsValid() && a.Type() == b.Type() && (a.Kind() == reflect.Struct || a.Kind() == reflect.Array) && rough(a.Type()) && same(a, b)
}

// same compares values in which the interpreter may keep interfaces of cells.
func same(a, b reflect.Value) bool {
	if a, b := bareOnce(a), bareOnce(b); !a.IsValid() || !b.IsValid() || a.Type() != b.Type() {
		return a.IsValid() == b.IsValid() && !a.IsValid()
	}
	a, b = bareOnce(a), bareOnce(b)
	switch a.Kind() {
	case reflect.Struct:
		if !a.CanInterface() || printsItself(a.Type()) {
			break
		}
		if x, ok := a.Interface().(Box); ok {
			return equal(x, b.Interface())
		}
		for i := range a.NumField() {
			if a.Type().Field(i).Name != "_" && !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Array:
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// err gives what is in an interface as an error that the library can look into.
func (h *host) err(x any) error {
	switch x := x.(type) {
	case Box:
		e := boxError{x}
		if t := reflect.TypeOf(x.v); t != nil && !t.Comparable() {
			return &e // not equal to any other
		}
		return e
	case error:
		return x
	}
	return nil
}

// wrapper tells whether a value is the struct by which the interpreter gives a value of a cell the methods of an interface.
func wrapper(v reflect.Value) bool {
	return v.Kind() == reflect.Struct && v.NumField() > 0 && v.Type().Field(0).Name == "IValue"
}

// inlay gives x, an interface of the host with a value of a cell, with the value's box in it.
func inlay(x, box any) any {
	v := reflect.ValueOf(x)
	if !wrapper(v) {
		return x
	}
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	c.Field(0).Set(reflect.ValueOf(box))
	return c.Interface()
}

// inside gives the box in an interface of the host, or the interface when it holds no value of a cell.
func inside(x any) any {
	if v := reflect.ValueOf(x); wrapper(v) {
		if b, ok := v.Field(0).Interface().(Box); ok {
			return b
		}
	}
	return x
}

// rebox puts a value that was in an interface with methods into a box. id is the printed type, or the one it points to; "" is that of a
// holder of a value of the host.
func (h *host) rebox(id string, x any) any {
	v := reflect.ValueOf(x)
	if id == "" {
		return v.Field(0).Interface()
	}
	if isNilPointer(v) {
		v = v.Field(0)
		x = v.Interface()
	}
	if v.Kind() == reflect.Pointer {
		id = "*" + id
	}
	if f, ok := h.boxers.Load(id); ok {
		return f.(func(any) any)(x)
	}
	return x
}

// method is a method of a value, nil when there is none.
func method(x any, name string) any {
	if v := reflect.ValueOf(x); v.IsValid() {
		if m := v.MethodByName(name); m.IsValid() {
			return m.Interface()
		}
	}
	return nil
}

// back undoes err.
func back(x any) any {
	switch x := x.(type) {
	case boxError:
		return x.Box
	case *boxError:
		return x.Box
	}
	if v := reflect.ValueOf(x); isHolder(v) || isNilPointer(v) {
		return v.Field(0).Interface()
	}
	return inside(x)
}

// bareFor is back for an assertion to a type with fields: the interpreter fails for values of structs without any.
func bareFor(x any) any {
	x = back(x)
	if t := reflect.TypeOf(x); t != nil && t.Kind() == reflect.Struct && t.NumField() == 0 {
		return other{x}
	}
	return x
}

// isHolder tells whether a value is of a type that gen.holder makes.
func isHolder(v reflect.Value) bool {
	return v.Kind() == reflect.Struct && v.NumField() == 1 && v.Type().Field(0).Tag == holderTag
}

// isNilPointer tells whether a value is of a type that gen.nilPointer makes.
func isNilPointer(v reflect.Value) bool {
	return v.Kind() == reflect.Struct && v.NumField() == 1 && v.Type().Field(0).Tag == nilTag
}

// boxError is a cell's value in an error.
type boxError struct{ Box }

func (e boxError) Error() string { return e.kind().text(e.v) }

// Is, As and Unwrap do for package errors what the value's own methods do.
func (e boxError) Is(target error) bool {
	k := e.kind()
	if k.is != nil && k.is(e.v, target) {
		return true
	}
	if k.all != nil {
		for _, x := range k.all(e.v) {
			if errors.Is(x, target) {
				return true
			}
		}
	}
	return false
}

func (e boxError) As(target any) bool {
	k := e.kind()
	if k.as != nil && k.as(e.v, target) {
		return true
	}
	if k.all != nil {
		for _, x := range k.all(e.v) {
			if errors.As(x, target) {
				return true
			}
		}
	}
	return false
}

func (e boxError) Unwrap() error {
	if k := e.kind(); k.unwrap != nil {
		return k.unwrap(e.v)
	}
	return nil
}

// shed gives the value of a panic. The interpreter panics with a reflect.Value around the value.
func shed(r any) any {
	if v, ok := r.(reflect.Value); ok && v.IsValid() && v.CanInterface() {
		return v.Interface()
	}
	return asRuntime(r)
}

// unbox gives the plain value.
func unbox(v any) any {
	if b, ok := inside(v).(Box); ok {
		return b.v
	}
	return v
}

// unboxAll gives the plain values of a list of arguments.
func unboxAll(vs []any) []any { return each(vs, unbox) }

func each(vs []any, f func(any) any) []any {
	out := make([]any, len(vs))
	for i, v := range vs {
		out[i] = f(v)
	}
	return out
}

// typeName is what %T prints.
func (h *host) typeName(v any) string {
	if b, ok := v.(Box); ok {
		return b.kind().name
	}
	return typeText(reflect.TypeOf(v))
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
