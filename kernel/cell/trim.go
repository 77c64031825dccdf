package cell

import (
	"reflect"
	"unsafe"
)

// trim lets go of what the interpreter keeps of a cell that has ended: its syntax tree, which only a debugger would read, the
// scopes below the package's, which are read only while they are compiled, and the function that ran the cell, which nobody can name. Values,
// goroutines and functions that the cell left behind hold what they need themselves. Without this a session of thousands of
// cells keeps some 10 KB of each.
//
// The interpreter has no call for it. Where its fields are not those of the pinned version, nothing is done; a test holds
// the growth of a session to its limit.
func (e *Engine) trim(entry string) {
	v := reflect.ValueOf(e.in).Elem()
	if roots, ok := field(v, "roots", reflect.Slice); ok {
		roots.SetZero()
	}
	scopes, ok := field(v, "scopes", reflect.Map)
	if !ok {
		return
	}
	main := scopes.MapIndex(reflect.ValueOf("main"))
	if !main.IsValid() || main.Kind() != reflect.Pointer || main.IsNil() {
		return
	}
	if child, ok := field(main.Elem(), "child", reflect.Slice); ok {
		child.SetZero()
	}
	if sym, ok := field(main.Elem(), "sym", reflect.Map); ok && entry != "" && sym.Type().Key().Kind() == reflect.String {
		sym.SetMapIndex(reflect.ValueOf(entry), reflect.Value{})
		e.mu.Lock()
		delete(e.used, entry)
		delete(e.shown, entry)
		e.mu.Unlock()
	}
}

// field is a field of the interpreter that this package may set, though it has no exported name.
func field(v reflect.Value, name string, kind reflect.Kind) (reflect.Value, bool) {
	f := v.FieldByName(name)
	if !f.IsValid() || f.Kind() != kind || !f.CanAddr() {
		return reflect.Value{}, false
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem(), true
}
