package cell

import (
	"fmt"
	"go/types"
	"reflect"
)

// sharp prints a value as Go source, as the library does for %#v. name is that of its type, "" for what the interpreter's type says.
func (p *printer) sharp(v reflect.Value, name string, depth int, hidden bool) {
	static := v
	if v.IsValid() && (v.Kind() == reflect.Interface || isHeld(v.Type())) {
		v = bareOnce(v)
	}
	if !v.IsValid() {
		if depth == 0 {
			p.text("<nil>")
			return
		}
		p.text(typeText(static.Type()) + "(nil)")
		return
	}
	if v.CanInterface() {
		x := inside(v.Interface())
		if isHolder(v) || isNilPointer(v) {
			x = v.Field(0).Interface()
		}
		if e, ok := back(x).(Box); ok {
			x = e
		}
		if name == "" {
			x = p.h.boxed(reflect.ValueOf(x)) // a box stays what it is
		}
		if b, ok := x.(Box); ok {
			if f, ok := b.h.formats.Load(b.id); ok && !hidden {
				f.(func(any, fmt.State, rune))(b.v, p.f, p.verb)
				return
			}
			if f, ok := b.h.gostrings.Load(b.id); ok && !hidden {
				p.text(f.(func(any) string)(b.v))
				return
			}
			if t, ok := b.h.unsharp.Load(b.id); ok {
				panic(&runtimeError{sharpText(b.kind().name, t.(string))})
			}
			p.sharp(reflect.ValueOf(b.v), b.kind().name, depth, hidden)
			return
		}
		v = reflect.ValueOf(x)
		if !hidden && v.Type().Name() != "" && v.Type().PkgPath() != "" {
			fmt.Fprintf(p.f, "%#v", x)
			return
		}
	}
	if name == "" {
		if m, ok := structMark(v.Type()); ok && m.unsharp != "" {
			panic(&runtimeError{sharpText(m.name, m.unsharp)})
		}
		name = typeText(v.Type())
	}
	list := func(n int, each func(i int)) {
		p.text(name + "{")
		for i := range n {
			if i > 0 {
				p.text(", ")
			}
			each(i)
		}
		p.text("}")
	}
	switch v.Kind() {
	case reflect.Pointer:
		if in := v.Elem(); depth == 0 && in.IsValid() {
			switch in.Kind() {
			case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
				p.text("&")
				p.sharp(in, name[len("*"):], depth+1, hidden)
				return
			}
		}
		fallthrough
	case reflect.Chan, reflect.Func, reflect.UnsafePointer:
		if v.IsNil() {
			p.text("(" + name + ")(nil)")
			return
		}
		fmt.Fprintf(p.f, "(%s)(%#x)", name, uintptr(v.UnsafePointer()))
	case reflect.Struct:
		list(v.NumField(), func(i int) {
			f := fields(v.Type())[i]
			p.text(f.Name + ":")
			p.sharp(v.Field(i), "", depth+1, hidden || !f.IsExported())
		})
	case reflect.Slice, reflect.Map, reflect.Array:
		if v.Kind() != reflect.Array && v.IsNil() {
			p.text(name + "(nil)")
			return
		}
		if v.Kind() == reflect.Map {
			keys := sortedKeys(v)
			list(len(keys), func(i int) {
				p.sharp(keys[i], "", depth+1, hidden)
				p.text(":")
				p.sharp(v.MapIndex(keys[i]), "", depth+1, hidden)
			})
			return
		}
		list(v.Len(), func(i int) { p.sharp(v.Index(i), "", depth+1, hidden) })
	default:
		fmt.Fprintf(p.f, "%#v", leaf(v))
	}
}

func sharpText(t, in string) string {
	return fmt.Sprintf("cells cannot print %s as Go source: the interpreter does not know the name of %s inside of it; use %%+v", t, in)
}

// unsharp names a type of cells in t whose name %#v would print and the interpreter does not know, "" when there is none. With a name, that
// of t is known.
func (g *gen) unsharp(t types.Type, named bool) string {
	t = types.Unalias(g.subst(t))
	n, _ := t.(*types.Named)
	if n != nil && (n.Obj().Pkg() == nil || !g.isSource(n.Obj())) {
		return ""
	}
	inside := func(ts ...types.Type) string {
		for _, t := range ts {
			if in := g.unsharp(t, false); in != "" {
				return in
			}
		}
		return ""
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		if o, _, _ := types.LookupFieldOrMethod(t, false, nil, "GoString"); o != nil && !named {
			return mainName(t)
		}
		return ""
	case *types.Interface:
		if u.NumMethods() > 0 || n != nil {
			return mainName(t)
		}
		return ""
	case *types.Struct:
		if n != nil && (named || u.NumFields() > 0) {
			for i := range u.NumFields() {
				if in := inside(u.Field(i).Type()); in != "" {
					return in
				}
			}
			return ""
		}
	case *types.Pointer:
		if in, ok := types.Unalias(u.Elem()).(*types.Named); ok && n == nil && named {
			return g.unsharp(in, true)
		}
	case *types.Slice:
		if n != nil && named {
			return inside(u.Elem())
		}
	case *types.Array:
		if n != nil && named {
			return inside(u.Elem())
		}
	case *types.Map:
		if n != nil && named {
			return inside(u.Key(), u.Elem())
		}
	}
	return g.lossy(t, map[types.Type]bool{})
}
