package cell

import (
	"cmp"
	"fmt"
	"go/types"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/tilus-lab/tilus-lab/kernel/display"
)

// The interpreter exports all fields of structs, keeps what interfaces of cells hold in a form of its own, and knows no methods that the
// library could call. So the library would print names, values and texts that Go does not: such values are printed here.

// pretty is a value that prints as Go prints the cell's.
type pretty struct {
	h *host
	v any
}

// Format prints the value.
func (p pretty) Format(f fmt.State, verb rune) { print(p.h, f, verb, p.v) }

// prettied gives a value for a function that prints it.
func (h *host) prettied(x any) any {
	switch x := x.(type) {
	case nil, Box, *boxError, boxError, display.Data:
		return x
	case reflect.Type:
		return typeText(x)
	case reflect.Value:
		if x.IsValid() && (rough(x.Type()) || marked(x.Type())) {
			return pretty{h, x}
		}
		return x
	}
	if t := reflect.TypeOf(x); (rough(t) || marked(t)) && !wrapper(reflect.ValueOf(x)) {
		return pretty{h, x}
	}
	return x
}

func (h *host) prettyAll(xs []any) []any { return each(xs, h.prettied) }

var roughTypes sync.Map // reflect.Type → bool

// rough tells whether the library may print values of a type in another way than Go.
func rough(t reflect.Type) bool {
	r, ok := roughTypes.Load(t)
	if !ok {
		r = roughIn(t, map[reflect.Type]bool{})
		roughTypes.Store(t, r)
	}
	return r.(bool)
}

func roughIn(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch {
	case t.Kind() == reflect.Interface || isHeld(t):
		return true
	case printsItself(t):
		return false
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return roughIn(t.Elem(), seen)
	case reflect.Map:
		return roughIn(t.Key(), seen) || roughIn(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); t.PkgPath() == "" && (unexported(f) || roughIn(f.Type, seen)) {
				return true
			}
		}
	}
	return false
}

var (
	formatterType = reflect.TypeFor[fmt.Formatter]()
	stringerType  = reflect.TypeFor[fmt.Stringer]()
)

// printsItself tells whether values of a type of the host print by a method.
func printsItself(t reflect.Type) bool {
	return t.Implements(formatterType) || t.Implements(errorType) || t.Implements(stringerType)
}

// printer prints one value for one verb.
type printer struct {
	h      *host
	f      fmt.State
	verb   rune
	format string
	mirror bool // of a reflect.Value: no cell saw which methods it has
}

func print(h *host, f fmt.State, verb rune, x any) {
	v, ok := x.(reflect.Value)
	p := printer{h, f, verb, fmt.FormatString(f, verb), ok}
	if !ok {
		v = reflect.ValueOf(x)
	}
	if f.Flag('#') && verb == 'v' {
		p.sharp(v, "", 0, false)
		return
	}
	p.value(v, 0, false)
}

func (p *printer) text(s string) { io.WriteString(p.f, s) }

// value prints a value; methods of what is under a field that is not exported are not called.
func (p *printer) value(v reflect.Value, depth int, hidden bool) {
	if v.IsValid() && (v.Kind() == reflect.Interface || isHeld(v.Type())) {
		v = bareOnce(v)
	}
	if !v.IsValid() {
		if depth == 0 {
			fmt.Fprintf(p.f, p.format, nil)
			return
		}
		p.text("<nil>")
		return
	}
	if v.CanInterface() {
		if t, ok := v.Interface().(reflect.Type); ok {
			p.text(typeText(t))
			return
		}
		switch b := inside(v.Interface()).(type) {
		case Box:
			p.box(b, depth, hidden)
			return
		case boxError:
			p.box(b.Box, depth, hidden)
			return
		case *boxError:
			p.box(b.Box, depth, hidden)
			return
		}
		if isHolder(v) || isNilPointer(v) {
			p.value(v.Field(0), depth, hidden)
			return
		}
		if b, ok := p.boxed(v, hidden); ok {
			if k := b.kind(); k.text != nil && strings.ContainsRune("vsqxX", p.verb) {
				p.box(b, depth, hidden)
				return
			}
		}
		if !hidden && (printsItself(v.Type()) || !rough(v.Type()) && !(p.mirror && marked(v.Type()))) && (depth == 0 || v.Kind() != reflect.Pointer || printsItself(v.Type())) {
			fmt.Fprintf(p.f, p.format, v.Interface())
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if in := v.Elem(); depth == 0 && in.IsValid() {
			switch in.Kind() {
			case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
				p.text("&")
				p.value(in, depth+1, hidden)
				return
			}
		}
	case reflect.Struct:
		p.text("{")
		for i, ft := range fields(v.Type()) {
			if i > 0 {
				p.text(" ")
			}
			if p.f.Flag('+') && p.verb == 'v' {
				p.text(ft.Name + ":")
			}
			p.value(v.Field(i), depth+1, hidden || !ft.IsExported())
		}
		p.text("}")
		return
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && (v.Kind() == reflect.Slice || v.CanAddr()) {
			fmt.Fprintf(p.f, p.format, v.Bytes())
			return
		}
		p.text("[")
		for i := range v.Len() {
			if i > 0 {
				p.text(" ")
			}
			p.value(v.Index(i), depth+1, hidden)
		}
		p.text("]")
		return
	case reflect.Map:
		p.text("map[")
		for i, k := range sortedKeys(v) {
			if i > 0 {
				p.text(" ")
			}
			p.value(k, depth+1, hidden)
			p.text(":")
			p.value(v.MapIndex(k), depth+1, hidden)
		}
		p.text("]")
		return
	}
	fmt.Fprintf(p.f, p.format, leaf(v))
}

// boxed puts a struct of a cell, or a pointer to one, into a box if it has methods.
func (p *printer) boxed(v reflect.Value, hidden bool) (b Box, ok bool) {
	if f := p.h.boxer(v.Type()); f != nil && !hidden {
		b, ok = f(v.Interface()).(Box)
	}
	return b, ok
}

// box prints what is in a box.
func (p *printer) box(b Box, depth int, hidden bool) {
	k := b.kind()
	if hidden || b.h.quiet.Load() {
		p.value(reflect.ValueOf(b.v), depth, hidden)
		return
	}
	if f, ok := b.h.formats.Load(b.id); ok {
		f.(func(any, fmt.State, rune))(b.v, p.f, p.verb)
		return
	}
	if k.text != nil && strings.ContainsRune("vsqxX", p.verb) {
		fmt.Fprintf(p.f, p.format, b.words(k))
		return
	}
	v := b.v
	if k.show != nil {
		v = k.show(v)
	}
	p.value(reflect.ValueOf(v), depth, hidden)
}

// bareOnce gives what is in an interface.
func bareOnce(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	for v.IsValid() && isHeld(v.Type()) {
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		in, ok := field(c, "value", reflect.Struct)
		if !ok {
			return v
		}
		if v, _ = in.Interface().(reflect.Value); v.IsValid() && v.Kind() == reflect.Interface {
			v = v.Elem()
		}
	}
	return v
}

// leaf gives a value without its type, which the library may not see.
func leaf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return v.Uint()
	case reflect.Float32:
		return float32(v.Float())
	case reflect.Float64:
		return v.Float()
	case reflect.Complex64:
		return complex64(v.Complex())
	case reflect.Complex128:
		return v.Complex()
	case reflect.String:
		return v.String()
	case reflect.Pointer, reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return unsafe.Pointer(v.UnsafePointer())
	}
	return v
}

// sortedKeys gives the keys of a map in the order in which the library prints them.
func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortStableFunc(keys, compareKeys)
	return keys
}

func compareKeys(a, b reflect.Value) int {
	a, b = bare(a), bare(b)
	if !a.IsValid() || !b.IsValid() {
		return cmp.Compare(btoi(a.IsValid()), btoi(b.IsValid()))
	}
	if a.Kind() != b.Kind() {
		return cmp.Compare(a.Kind(), b.Kind())
	}
	switch a.Kind() {
	case reflect.Bool:
		return cmp.Compare(btoi(a.Bool()), btoi(b.Bool()))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return cmp.Compare(a.Int(), b.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return cmp.Compare(a.Uint(), b.Uint())
	case reflect.Float32, reflect.Float64:
		return cmp.Compare(a.Float(), b.Float())
	case reflect.String:
		return cmp.Compare(a.String(), b.String())
	case reflect.Struct:
		for i := range a.NumField() {
			if c := compareKeys(a.Field(i), b.Field(i)); c != 0 {
				return c
			}
		}
	case reflect.Array:
		for i := range a.Len() {
			if c := compareKeys(a.Index(i), b.Index(i)); c != 0 {
				return c
			}
		}
	case reflect.Pointer, reflect.Chan, reflect.UnsafePointer:
		return cmp.Compare(a.Pointer(), b.Pointer())
	}
	return 0
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rough tells whether values of a type may have to be printed here.
func (g *gen) rough(t types.Type, seen map[types.Type]bool) bool {
	t = types.Unalias(g.subst(t))
	if seen[t] || g.cellType(t) != nil && textMethod(t) != "" {
		return false
	}
	seen[t] = true
	if types.IsInterface(t) {
		return !types.Identical(t, errorInterface) && (!isEmptyInterface(t) || g.anyCellTypes())
	}
	if n, ok := t.(*types.Named); ok && n.Obj().Pkg() != nil && !g.isSource(n.Obj()) {
		return n.Obj().Pkg().Path() == "reflect" && n.Obj().Name() == "Value"
	}
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return g.rough(u.Elem(), seen)
	case *types.Slice:
		return g.rough(u.Elem(), seen)
	case *types.Array:
		return g.rough(u.Elem(), seen)
	case *types.Map:
		return g.cellType(u.Key()) != nil && textMethod(u.Key()) != "" || g.rough(u.Key(), seen) || g.rough(u.Elem(), seen)
	case *types.Struct:
		for i := range u.NumFields() {
			if f := u.Field(i); !f.Exported() || g.rough(f.Type(), seen) {
				return true
			}
		}
	}
	return false
}
