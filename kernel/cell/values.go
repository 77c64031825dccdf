package cell

import (
	"context"
	"fmt"
	"go/types"
	"reflect"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/traefik/yaegi/interp"

	"github.com/tilus-lab/tilus-lab/kernel/lab"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// Bind gives a Go value of this process to cells as the top-level variable name.
func (e *Engine) Bind(ctx context.Context, id int64, name string, v any) error {
	rt := reflect.TypeOf(v)
	if rt == nil {
		return fmt.Errorf("cell: bind %s: no value", name)
	}
	if p := rt; p.Kind() == reflect.Pointer && p.Elem().PkgPath() != "" {
		if _, err := e.imp.Import(p.Elem().PkgPath()); err != nil {
			return fmt.Errorf("cell: bind %s: %w", name, err)
		}
	}
	e.build.Lock()
	t := e.imp.Type(rt)
	e.mu.Lock()
	undo := e.snapshot()
	out := &unit{}
	g := &gen{e: e, out: out, names: map[types.Object]string{}, vars: map[types.Object]string{}}
	sv := types.NewVar(0, types.NewPackage("main", "main"), name, t)
	printed := ""
	if old, ok := e.objs[name].(*types.Var); ok && types.Identical(old.Type(), t) {
		sv, printed = old, e.emitted[old]
	}
	if printed == "" {
		printed = e.newName(name)
		e.shown[printed] = name
		fmt.Fprintf(&out.vars, "var %s %s\n", printed, g.typ(t))
	}
	e.emitted[sv] = printed
	e.objs[name] = sv
	e.fresh = map[string]bool{name: true}
	entry := e.newName("bindǃ")
	code := out.vars.String() + fmt.Sprintf("func %s() {\ndefer %s.Done()\n%s.Enter()\n%s = %s.Handed().(%s)\n}\n", entry, g.host(), g.host(), printed, g.host(), g.typ(t))
	code = "package main\n" + strings.Join(out.imports, "") + code
	e.mu.Unlock()
	if err := e.eval(code); err != nil {
		e.takeBack(undo)
		e.build.Unlock()
		return fmt.Errorf("cell: bind %s: %w", name, err)
	}
	run := newEvaluation(ctx, id, name)
	run.handed = v
	if out := e.enter(run, entry, entry); out.Err != nil {
		return fmt.Errorf("cell: bind %s: %s", name, out.Err.Value)
	}
	return nil
}

// Check tells whether a name can be that of a variable.
func (e *Engine) Check(name string) error {
	for i, r := range name {
		if !(r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || i > 0 && r >= '0' && r <= '9') {
			return fmt.Errorf("%q is not a Go name", name)
		}
	}
	if name == "" || name == "_" {
		return fmt.Errorf("a Go name must follow")
	}
	e.mu.RLock()
	_, taken := e.objs[name].(*types.PkgName)
	e.mu.RUnlock()
	if taken {
		return fmt.Errorf("%s is a package; choose another name", name)
	}
	return nil
}

// Value is what a top-level variable holds.
func (e *Engine) Value(name string) (v reflect.Value, ok bool) {
	e.build.Lock()
	defer e.build.Unlock()
	o, ok := e.objs[name].(*types.Var)
	if !ok || o.Pkg() == nil || o.Pkg().Path() != "main" {
		return v, false
	}
	v, ok = e.in.Globals()[e.emitted[o]]
	return v, ok && v.IsValid() && v.CanInterface()
}

const maxShort = 120

// Declares reports whether the session has a variable of a name.
func (e *Engine) Declares(name string) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	o, ok := e.objs[name].(*types.Var)
	return ok && o.Pkg() != nil && o.Pkg().Path() == "main"
}

// Vars lists the top-level variables. Call it between cells, or in [Engine.Quiet].
func (e *Engine) Vars() *proto.Vars {
	out := &proto.Vars{Vars: []proto.Var{}}
	e.host.quiet.Store(true)
	defer e.host.quiet.Store(false)
	globals := e.in.Globals()
	for name, o := range e.objs {
		v, ok := o.(*types.Var)
		if !ok || v.Pkg() == nil || v.Pkg().Path() != "main" {
			continue
		}
		x := proto.Var{Name: name, Type: goType(v.Type()), Fresh: e.fresh[name]}
		if rv, ok := globals[e.emitted[v]]; ok && rv.IsValid() && rv.CanInterface() {
			x.Short = short(rv)
			if rv = bare(rv); rv.IsValid() && rv.CanInterface() {
				if form, text, ok := formOf(rv.Interface()); ok {
					x.Form, x.Text = form, text
				}
			}
		}
		out.Vars = append(out.Vars, x)
	}
	sort.Slice(out.Vars, func(i, j int) bool { return out.Vars[i].Name < out.Vars[j].Name })
	return out
}

// formOf is lab.Form for values of cells: a panic in a text method must not end the worker.
func formOf(v any) (form, text string, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return lab.Form(v)
}

// short is one line about a value. Large values are not printed in full, and text methods of cells are not called.
func short(v reflect.Value) (s string) {
	defer func() {
		if recover() != nil {
			s = "?"
		}
	}()
	if v = bare(v); !v.IsValid() {
		return "<nil>"
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		if v.Len() > 32 {
			return fmt.Sprintf("%d elements", v.Len())
		}
	case reflect.Func:
		return "func"
	case reflect.String:
		s = v.String()
		if len(s) > 4*maxShort {
			s = s[:4*maxShort]
		}
		s = fmt.Sprintf("%q", s)
	}
	if s == "" {
		s = fmt.Sprint((*host)(nil).prettied(v.Interface()))
	}
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > maxShort {
		s = string([]rune(s)[:maxShort-1]) + "…"
	}
	return s
}

// bare gives the value in an interface, without a box or what else is around it.
func bare(v reflect.Value) reflect.Value {
	for v.IsValid() {
		if v.Kind() == reflect.Interface || isHeld(v.Type()) {
			v = bareOnce(v)
			continue
		}
		if isHolder(v) || isNilPointer(v) {
			v = v.Field(0)
			continue
		}
		if !v.CanInterface() {
			return v
		}
		b, ok := inside(v.Interface()).(Box)
		if !ok {
			return v
		}
		v = reflect.ValueOf(b.v)
	}
	return v
}

// isHeld tells whether a type is the one in which the interpreter keeps what interfaces of cells hold.
func isHeld(t reflect.Type) bool {
	return t.Name() == "valueInterface" && t.PkgPath() == reflect.TypeFor[interp.Interpreter]().PkgPath()
}
