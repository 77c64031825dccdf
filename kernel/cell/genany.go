package cell

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// cellType gives the type that a cell declared and that t is, or points to; nil for others.
func (g *gen) cellType(t types.Type) *types.Named {
	n := namedOf(t)
	if n == nil || n.Obj().Pkg() == nil || types.IsInterface(n) || !g.isSource(n.Obj()) {
		return nil
	}
	return n
}

// textMethod names the method by which the library prints a value: "Error", "String" or "".
func textMethod(t types.Type) string {
	for _, name := range []string{"Error", "String"} {
		o, _, _ := types.LookupFieldOrMethod(t, false, nil, name)
		if f, ok := o.(*types.Func); ok {
			if s := f.Type().(*types.Signature); s.Params().Len() == 0 && s.Results().Len() == 1 && types.Identical(s.Results().At(0).Type(), types.Typ[types.String]) {
				return name
			}
		}
	}
	return ""
}

func isEmptyInterface(t types.Type) bool {
	it, ok := t.Underlying().(*types.Interface)
	return ok && it.NumMethods() == 0 && it.IsMethodSet()
}

var anyWord = regexp.MustCompile(`\bany\b`)

// mainName is a type as %T prints it.
func mainName(t types.Type) string {
	s := types.TypeString(t, func(p *types.Package) string { return p.Name() })
	s = anyWord.ReplaceAllString(s, "interface {}")
	// Type arguments have no blanks between them.
	var b strings.Builder
	var open []rune
	for i, r := range s {
		switch r {
		case '(', '[', '{':
			open = append(open, r)
		case ')', ']', '}':
			open = open[:max(len(open)-1, 0)]
		case ' ':
			if len(open) > 0 && open[len(open)-1] == '[' && s[i-1] == ',' {
				continue
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}

// unique tells whether values of a type keep it in an empty interface: structs that cells declare carry their name in a tag.
func (g *gen) unique(t types.Type) bool {
	switch t := g.subst(types.Unalias(t)).(type) {
	case *types.Named:
		if t.Obj().Pkg() == nil || !g.isSource(t.Obj()) {
			return true
		}
		st, ok := t.Underlying().(*types.Struct)
		return ok && st.NumFields() > 0
	case *types.Pointer:
		return g.unique(t.Elem())
	case *types.Slice:
		return g.unique(t.Elem())
	case *types.Array:
		return g.unique(t.Elem())
	case *types.Chan:
		return g.unique(t.Elem())
	case *types.Map:
		return g.unique(t.Key()) && g.unique(t.Elem())
	case *types.Signature:
		for _, l := range []*types.Tuple{t.Params(), t.Results()} {
			for i := range l.Len() {
				if !g.unique(l.At(i).Type()) {
					return false
				}
			}
		}
	case *types.Struct:
		for i := range t.NumFields() {
			if !g.unique(t.Field(i).Type()) {
				return false
			}
		}
	}
	return true
}

// boxes tells whether values of a type are in boxes while they are in an empty interface.
func (g *gen) boxes(t types.Type) bool {
	if types.IsInterface(t) {
		return false
	}
	return g.identifies(t) || g.hidesAt(t) || g.embeds(t, map[types.Type]bool{}) // these for encoders
}

// identifies tells whether only the box tells what the type of a value is, and its methods.
func (g *gen) identifies(t types.Type) bool {
	if n := g.cellType(t); n != nil && types.NewMethodSet(types.NewPointer(n)).Len() > 0 {
		return true
	}
	return g.involves(t) && !g.unique(t)
}

// boxed prints an expression for a place of an empty interface type. The text s is the expression.
func (g *gen) boxed(s string, t types.Type) string {
	if types.IsInterface(t) {
		if isEmptyInterface(t) {
			return s
		}
		if types.Identical(t, errorInterface) {
			return g.host() + ".Back(" + s + ")"
		}
		if g.foreign(t) {
			return g.host() + ".Inside(" + s + ")"
		}
		return g.rebox(t) + "(" + g.arg(s, t) + ")"
	}
	if !g.boxes(t) {
		return s
	}
	if in := g.lossy(t, map[types.Type]bool{}); in != "" {
		g.e.host.lossy.Store(g.typ(t), in)
	}
	if in := g.unsharp(t, true); in != "" {
		g.e.host.unsharp.Store(g.typ(t), in)
	}
	if in := g.codes(t); in != "" {
		g.e.host.coders.Store(g.typ(t), in)
	}
	kind := "box"
	if g.hidesAt(t) {
		kind = "boxshown" // a later cell may give what is inside a method
	}
	return g.helper(kind, t, func(ty string) string {
		id := strconv.Quote(ty) + ", " + strconv.Quote(mainName(t)) + ", x"
		if how := textMethod(t); g.cellType(t) != nil && how != "" {
			f := g.fresh("text")
			fmt.Fprintf(&g.out.funcs, "func %s(x interface{}) string { return x.(%s).%s() }\n", f, ty, how)
			return "return " + g.host() + ".BoxText(" + id + ", " + f + ")"
		}
		if g.hidesAt(t) {
			f := g.fresh("shown")
			fmt.Fprintf(&g.out.funcs, "func %s(v interface{}) interface{} { x := v.(%s); return %s }\n", f, ty, g.printable(nil, "x", t))
			return "return " + g.host() + ".BoxShown(" + id + ", " + f + ")"
		}
		return "return " + g.host() + ".Box(" + id + ")"
	}) + "(" + s + ")"
}

// ifaceUse is an interface with methods into which cells put values of empty interfaces.
type ifaceUse struct {
	t        *types.Interface
	of       types.Type
	printed  string
	variable string // in the interpreter, holds a function for each type
}

// identify gives a type with methods one more that says which type it is: the interpreter cannot tell types of one structure
// apart in an interface.
func (g *gen) identify(t *types.Named, name string) {
	p := types.NewPointer(t)
	if types.NewMethodSet(p).Len() == 0 || g.e.methodTypes["*"+name] != nil {
		return
	}
	fmt.Fprintf(&g.out.funcs, "func (ǃr %s) ǃid() string { return %q }\n", name, name)
	if types.NewMethodSet(t).Len() > 0 {
		g.candidate(t)
	}
	g.candidate(p)
}

// outgrown prints again what says how values are kept and printed, after a type of an earlier cell got a method.
func (g *gen) outgrown(t *types.Named, name string) {
	for key := range g.e.typeNames {
		if kind, _, _ := strings.Cut(key, ":"); kind == "box" || kind == "boxshown" || kind == "show" || kind == "nil" {
			delete(g.e.typeNames, key)
		}
	}
	old := g.e.methodTypes
	g.e.methodTypes = map[string]types.Type{}
	if old["*"+name] == nil {
		g.identify(t, name)
	}
	if types.NewMethodSet(t).Len() > 0 {
		g.candidate(t)
	}
	for _, id := range slices.Sorted(maps.Keys(old)) {
		g.candidate(old[id])
	}
}

// candidate notes a type with methods: values of it may come out of an interface with these methods.
func (g *gen) candidate(t types.Type) {
	id := g.typ(t)
	if g.e.methodTypes[id] != nil {
		return
	}
	g.e.methodTypes[id] = t
	v := "ǃx.(" + id + ")"
	if st, ok := t.Underlying().(*types.Struct); ok && st.NumFields() == 0 {
		v = id + "{}" // the interpreter fails for structs without fields, and there is only one value
	}
	f := g.fresh("boxer")
	fmt.Fprintf(&g.out.funcs, "func %s(ǃx interface{}) interface{} { return %s }\n", f, g.boxed(v, t))
	fmt.Fprintf(&g.out.regs, "%s.Boxer(%q, %s)\n", g.host(), id, f)
	for _, u := range g.e.ifaces {
		g.register(u, id, t)
	}
	g.errorMethods(id, t)
	for _, name := range []string{"MarshalJSON", "MarshalText"} {
		if f, _, _ := types.LookupFieldOrMethod(t, false, nil, name); f != nil && types.TypeString(f.Type(), nil) == "func() ([]byte, error)" {
			fmt.Fprintf(&g.out.regs, "%s.Encoder(%q, %q, func(ǃx interface{}) ([]byte, error) { return ǃx.(%s).%s() })\n", g.host(), id, name, id, name)
			break
		}
	}
	if f, _, _ := types.LookupFieldOrMethod(t, false, nil, "GoString"); f != nil && types.TypeString(f.Type(), nil) == "func() string" {
		fmt.Fprintf(&g.out.regs, "%s.GoStringer(%q, func(ǃx interface{}) string { return ǃx.(%s).GoString() })\n", g.host(), id, id)
	}
	if formats(t) {
		state := g.pkg(g.e.imp.Package("fmt")) + ".State"
		fmt.Fprintf(&g.out.regs, "%s.Formatter(%q, func(ǃx interface{}, ǃf %s, ǃv rune) { ǃx.(%s).Format(ǃf, ǃv) })\n", g.host(), id, state, id)
	}
	if f, _, _ := types.LookupFieldOrMethod(t, false, nil, "LogValue"); f != nil && types.TypeString(f.Type(), nil) == "func() log/slog.Value" {
		value := g.pkg(g.e.imp.Package("log/slog")) + ".Value"
		fmt.Fprintf(&g.out.regs, "%s.LogValuer(%q, func(ǃx interface{}) %s { return ǃx.(%s).LogValue() })\n", g.host(), id, value, id)
	}
	for _, name := range richMethods() {
		o, _, _ := types.LookupFieldOrMethod(t, false, nil, name)
		if f, ok := o.(*types.Func); ok && f.Signature().Params().Len() == 0 && f.Signature().Results().Len() == 1 {
			fmt.Fprintf(&g.out.regs, "%s.Rich(%q, func(ǃx interface{}) interface{} { return %s.AsRich(ǃx.(%s)) })\n", g.host(), id, g.host(), id)
			break
		}
	}
}

// register prints how a type gets from an empty interface into one with methods.
func (g *gen) register(u ifaceUse, id string, t types.Type) {
	if types.Implements(t, u.t) && !g.sealed(u.of) {
		fmt.Fprintf(&g.out.regs, "%sǃadd(%q, func(ǃx interface{}) %s { return %s })\n", u.variable, id, u.printed, g.kept("ǃx.("+id+")", t, u.of))
	}
}

// use adds an interface and registers all types that have its methods.
func (g *gen) use(key string, u ifaceUse) {
	g.e.ifaces[key] = u
	for _, id := range slices.Sorted(maps.Keys(g.e.methodTypes)) {
		g.register(u, id, g.e.methodTypes[id])
	}
}

// rebox names the function that moves a value from an interface with methods to an empty one.
func (g *gen) rebox(t types.Type) string {
	ty := g.typ(t)
	f, made := g.once("rebox:"+ty, "rebox")
	if !made {
		return f
	}
	fmt.Fprintf(&g.out.funcs, "func %s(ǃx %s) interface{} {\nif ǃx == nil { return nil }\nif ǃi, ǃok := ǃx.(interface{ ǃid() string }); ǃok { return %s.Rebox(ǃi.ǃid(), ǃx) }\nreturn %s.Back(ǃx) }\n", f, ty, g.host(), g.host())
	return f
}

// into names the function that moves a value from an empty interface to one with methods, if it has them.
func (g *gen) into(t types.Type) string {
	if types.Identical(t, errorInterface) {
		return g.host() + ".AsError"
	}
	ty := g.typ(t)
	key := "into:" + ty
	f, made := g.once(key, "into")
	if !made {
		return f
	}
	u := ifaceUse{t.Underlying().(*types.Interface), t, ty, g.fresh("intos")}
	fmt.Fprintf(&g.out.vars, "var %s map[string]func(interface{}) %s\n", u.variable, ty)
	// Goroutines of earlier cells may read the map meanwhile, so it never changes.
	fmt.Fprintf(&g.out.funcs, "func %sǃadd(id string, f func(interface{}) %s) {\nm := map[string]func(interface{}) %s{}\nfor k, v := range %s { m[k] = v }\nm[id] = f\n%s = m }\n", u.variable, ty, ty, u.variable, u.variable)
	native := "ǃv, ǃok := ǃx.(" + ty + ")\nreturn ǃv, ǃok"
	if !g.foreign(t) {
		native = g.holder(u)
	}
	fmt.Fprintf(&g.out.funcs, "func %s(ǃx interface{}) (%s, bool) {\nvar ǃnone %s\nif ǃx == nil { return ǃnone, false }\nif ǃid := %s.BoxID(ǃx); ǃid != \"\" {\nif ǃf, ǃok := %s[ǃid]; ǃok { return ǃf(%s.Unbox(ǃx)), true }\nreturn ǃnone, false\n}\n%s }\n",
		f, ty, ty, g.host(), u.variable, g.host(), native)
	fmt.Fprintf(&g.out.funcs, "func %sǃmust(ǃx interface{}) %s {\nǃv, ǃok := %s(ǃx)\nif !ǃok { %s.NoConversion(ǃx, %q) }\nreturn ǃv }\n", f, ty, f, g.host(), mainName(t))
	g.use(key, u)
	return f
}

// holderTag marks the types that holder makes.
const holderTag = "holder"

// holder prints how a value of a type of the host gets from an empty interface ǃx into one with methods: in a type that has them. The
// interpreter finds no methods there.
func (g *gen) holder(u ifaceUse) string {
	name := g.fresh("holder")
	tests := ""
	for i := range u.t.NumMethods() {
		m := u.t.Method(i)
		if !m.Exported() {
			return "return ǃnone, false"
		}
		sig := stripNames(m.Signature())
		find := func(x string) string { return fmt.Sprintf("%s.Method(%s, %q).(%s)", g.host(), x, m.Name(), g.typ(sig)) }
		ret := ""
		if sig.Results().Len() > 0 {
			ret = "return "
		}
		tests += "if _, ǃok := " + find("ǃx") + "; !ǃok { return ǃnone, false }\n"
		fmt.Fprintf(&g.out.funcs, "func (ǃr %s) %s%s {\nǃf := %s\n%sǃf%s }\n", name, m.Name(),
			g.sig(sig, func(_ *types.Var, i int) string { return fmt.Sprintf("a%d", i) }), find("ǃr.V"), ret, g.forwardArgs(sig))
	}
	fmt.Fprintf(&g.out.types, "type %s struct { V interface{} %q }\n", name, holderTag)
	fmt.Fprintf(&g.out.funcs, "func (ǃr %s) ǃid() string { return \"\" }\n", name)
	fmt.Fprintf(&g.out.funcs, "func %sǃas(ǃx %s) %s { return ǃx }\n", name, name, u.printed)
	return tests + fmt.Sprintf("return %sǃas(%s{V: ǃx}), true", name, name)
}

// errorMethods tells the host which types are errors, and of their methods that package errors calls.
func (g *gen) errorMethods(id string, t types.Type) {
	if !types.Implements(t, errorInterface.Underlying().(*types.Interface)) {
		return
	}
	method := func(name string) string {
		o, _, _ := types.LookupFieldOrMethod(t, false, nil, name)
		f, ok := o.(*types.Func)
		if !ok {
			return ""
		}
		return types.TypeString(stripNames(f.Type().(*types.Signature)), nil)
	}
	is, as, unwrap, all := "nil", "nil", "nil", "nil"
	print := func(name, params, result, args string) string {
		f := g.fresh(name)
		fmt.Fprintf(&g.out.funcs, "func %s(ǃx interface{}%s) %s { return ǃx.(%s).%s(%s) }\n", f, params, result, id, name, args)
		return f
	}
	if method("Is") == "func(error) bool" {
		is = print("Is", ", ǃt error", "bool", "ǃt")
	}
	if method("As") == "func(any) bool" {
		as = print("As", ", ǃt interface{}", "bool", "ǃt")
	}
	switch method("Unwrap") {
	case "func() error":
		unwrap = print("Unwrap", "", "error", "")
	case "func() []error":
		all = print("Unwrap", "", "[]error", "")
	}
	f := g.fresh("text")
	fmt.Fprintf(&g.out.funcs, "func %s(ǃx interface{}) string { return ǃx.(%s).Error() }\n", f, id)
	fmt.Fprintf(&g.out.regs, "%s.Errors(%q, %q, %s, %s, %s, %s, %s)\n", g.host(), id, mainName(t), f, is, as, unwrap, all)
}

// asError prints a value for a place of type error. Cells keep errors of their own types there in the host's form, which package
// errors can look into.
func (g *gen) asError(s string, t types.Type) string {
	if types.Identical(t, errorInterface) {
		return s
	}
	if types.IsInterface(t) && !isEmptyInterface(t) || g.boxes(t) {
		return g.host() + ".Err(" + g.boxed(s, t) + ")"
	}
	return s
}

var errorInterface = types.Universe.Lookup("error").Type()

// helper names a function from t to an empty interface, printing it when it is new.
func (g *gen) helper(kind string, t types.Type, body func(ty string) string) string {
	ty := g.typ(t)
	f, made := g.once(kind+":"+ty, kind)
	if !made {
		return f
	}
	text := body(ty)
	fmt.Fprintf(&g.out.funcs, "func %s(x %s) interface{} {\n%s }\n", f, ty, text)
	return f
}

// hidesAt is hides for a value, or the struct that it points to.
func (g *gen) hidesAt(t types.Type) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
		if _, ok := t.Underlying().(*types.Struct); !ok || textMethod(types.NewPointer(t)) != "" {
			return false
		}
	}
	return !types.IsInterface(t) && g.hides(t, map[types.Type]bool{})
}

// reboxes tells whether values of an interface type get into boxes by rebox.
func (g *gen) reboxes(t types.Type) bool {
	return types.IsInterface(t) && !isEmptyInterface(t) && !types.Identical(t, errorInterface) && !g.foreign(t)
}

// foreign tells whether a type is an interface with methods, other than error, that a package of the host declares.
func (g *gen) foreign(t types.Type) bool {
	if !types.IsInterface(t) || isEmptyInterface(t) {
		return false
	}
	n := namedOf(t)
	return n != nil && n.Obj().Pkg() != nil && !g.isSource(n.Obj())
}

// sealed tells whether an interface of the host has methods that no cell can write: the interpreter cannot give it to what embeds one.
func (g *gen) sealed(t types.Type) bool {
	if !g.foreign(t) {
		return false
	}
	it := t.Underlying().(*types.Interface)
	for i := range it.NumMethods() {
		if !it.Method(i).Exported() {
			return true
		}
	}
	return false
}

// kept prints the text of a value of type from for a place of an interface type with methods. The interpreter would keep the variable that the
// value is in, so the value goes through a parameter. In interfaces of the host it keeps what it shows of a value in a form that has lost
// the value itself, so the box goes in there.
func (g *gen) kept(s string, from, to types.Type) string {
	if types.Identical(from, to) {
		return s
	}
	if types.IsInterface(from) {
		if g.foreign(from) == g.foreign(to) && !types.Identical(from, errorInterface) {
			return s
		}
		return g.between("pass", from, to, func(tf, ti string) string {
			return fmt.Sprintf("if x == nil { return nil }\nǃb := %s\nif %s.BoxID(ǃb) == \"\" { return x }\nreturn %sǃmust(ǃb)", g.boxed("x", from), g.host(), g.into(to))
		}) + "(" + g.arg(s, from) + ")"
	}
	if st, ok := types.Unalias(from).(*types.Struct); ok {
		// The interpreter looks for methods of embedded fields in vain, where the struct has no name.
		n := g.e.anon[g.typ(st)]
		if n == nil {
			n = types.NewNamed(types.NewTypeName(token.NoPos, g.e.main, "unnamed", nil), st, nil)
			g.e.anon[g.typ(st)] = n
		}
		return g.kept(g.typ(n)+"("+s+")", n, to)
	}
	mine := g.cellType(from) != nil
	if !mine && (g.foreign(to) || !nameable(from)) {
		return s // the library's own, which is copied
	}
	return g.between("as", from, to, func(tf, ti string) string {
		put := func(x, val string) string {
			if mine && g.foreign(to) {
				return fmt.Sprintf("var ǃi %s = %s\nreturn %s.Inlay(ǃi, %s).(%s)", ti, x, g.host(), g.boxed(val, from), ti)
			}
			return "return " + x
		}
		if _, ok := from.Underlying().(*types.Pointer); ok && mine {
			return fmt.Sprintf("if x == nil { return func(ǃx %s) %s {\n%s }(%[1]s{}) }\n%[4]s", g.nilPointer(from), ti, put("ǃx", "("+tf+")(nil)"), put("x", "x"))
		}
		return put("x", "x")
	}) + "(" + s + ")"
}

// nilTag marks the types that nilPointer makes.
const nilTag = "nil"

// nilPointer names the type whose values stand for a nil pointer of a cell's type in interfaces with methods: the interpreter takes an
// interface that holds a nil pointer for nil.
func (g *gen) nilPointer(p types.Type) string {
	ty := g.typ(p)
	name, made := g.once("nil:"+ty, "nil")
	if !made {
		return name
	}
	fmt.Fprintf(&g.out.types, "type %s struct { V %s %q }\n", name, ty, nilTag)
	ms := types.NewMethodSet(p)
	for i := range ms.Len() {
		sel := ms.At(i)
		sig := stripNames(g.subst(sel.Type()).(*types.Signature))
		ret := ""
		if sig.Results().Len() > 0 {
			ret = "return "
		}
		fmt.Fprintf(&g.out.funcs, "func (ǃr %s) %s%s {\n%sǃr.V.%s%s }\n", name, sel.Obj().Name(),
			g.sig(sig, func(_ *types.Var, i int) string { return fmt.Sprintf("a%d", i) }), ret, sel.Obj().Name(), g.forwardArgs(sig))
	}
	fmt.Fprintf(&g.out.funcs, "func (ǃr %s) ǃid() string { return %q }\n", name, strings.TrimPrefix(ty, "*"))
	return name
}

// nameable tells whether a cell can name a type.
func nameable(t types.Type) bool {
	n := namedOf(t)
	return n == nil || n.Obj().Pkg() == nil || n.Obj().Exported() || n.Obj().Pkg().Path() == "main"
}

// between names a function of one type to another, printing it when it is new.
func (g *gen) between(kind string, from, to types.Type, body func(tf, ti string) string) string {
	tf, ti := g.typ(from), g.typ(to)
	f, made := g.once(kind+":"+tf+">"+ti, kind)
	if !made {
		return f
	}
	text := body(tf, ti)
	fmt.Fprintf(&g.out.funcs, "func %s(x %s) %s {\n%s }\n", f, tf, ti, text)
	return f
}

// assertion prints an assertion of x, of an interface type, to another type; with comma, the form with two values. It goes through an
// empty interface: only there are boxes.
func (g *gen) assertion(x string, from, t types.Type, comma bool) string {
	plain := x + ".(" + g.typ(t) + ")"
	if types.Identical(from, t) || isEmptyInterface(t) && isEmptyInterface(from) {
		return plain
	}
	if g.reboxes(from) && comma && !types.IsInterface(t) && g.unique(t) {
		return g.host() + ".Bare(" + g.arg(x, from) + ").(" + g.typ(t) + ")"
	}
	in := mainName(from)
	x = g.boxed(x, from)
	if !types.IsInterface(t) || isEmptyInterface(t) {
		if !g.boxes(t) {
			return x + ".(" + g.typ(t) + ")"
		}
		id := strconv.Quote(g.typ(t))
		if !g.identifies(t) {
			return g.host() + ".Open(" + x + ", " + id + ").(" + g.typ(t) + ")"
		}
		if st, ok := t.Underlying().(*types.Struct); ok && st.NumFields() == 0 {
			// The interpreter fails for structs without fields, and there is only one value.
			ty := g.typ(t)
			if comma {
				return "func(x interface{}) (" + ty + ", bool) { return " + ty + "{}, " + g.host() + ".BoxID(x) == " + id + " }(" + x + ")"
			}
			return "func(x interface{}) " + ty + " { " + g.host() + ".Must(x, " + id + ", " + strconv.Quote(in) + ", " + strconv.Quote(mainName(t)) + "); return " + ty + "{} }(" + x + ")"
		}
		if comma {
			return g.host() + ".Take(" + x + ", " + id + ").(" + g.typ(t) + ")"
		}
		return g.host() + ".Must(" + x + ", " + id + ", " + strconv.Quote(in) + ", " + strconv.Quote(mainName(t)) + ").(" + g.typ(t) + ")"
	}
	f := g.into(t)
	switch {
	case comma:
	case types.Identical(t, errorInterface):
		f = g.host() + ".MustError"
	default:
		f += "ǃmust"
	}
	return f + "(" + x + ")"
}

// spread prints the values of a call as one slice for a variadic function, when some of them must be made printable.
func (g *gen) spread(at ast.Expr, t *types.Tuple, print func(ast.Expr, string, types.Type) string) (string, bool) {
	var names, vals []string
	hit := false
	for i := range t.Len() {
		x := fmt.Sprintf("ǃv%d", i)
		names = append(names, x)
		in := print(at, x, g.subst(t.At(i).Type()))
		hit = hit || in != x
		vals = append(vals, in)
	}
	if !hit {
		return "", false
	}
	return "func() []interface{} { " + strings.Join(names, ", ") + " := " + g.expr(at) + "; return []interface{}{" + strings.Join(vals, ", ") + "} }()...", true
}

// hides tells whether a value of type t has values inside that the library would print by their methods if it knew them.
func (g *gen) hides(t types.Type, seen map[types.Type]bool) bool {
	t = types.Unalias(t)
	if seen[t] {
		return false
	}
	seen[t] = true
	if n, ok := t.(*types.Named); ok && n.Obj().Pkg() != nil && !g.isSource(n.Obj()) {
		return false
	}
	inner := func(t types.Type) bool {
		if g.cellType(t) != nil && textMethod(t) != "" {
			return true
		}
		if it, ok := t.Underlying().(*types.Interface); ok {
			n := namedOf(t)
			return it.NumMethods() > 0 && (n == nil || n.Obj().Pkg() != nil && g.isSource(n.Obj())) || g.foreign(t) && g.implemented(it)
		}
		if _, ok := t.Underlying().(*types.Pointer); ok {
			return false // printed as an address
		}
		return g.hides(t, seen)
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		return inner(u.Elem())
	case *types.Array:
		return inner(u.Elem())
	case *types.Map:
		return inner(u.Key()) || inner(u.Elem())
	case *types.Struct:
		for i := range u.NumFields() {
			if u.Field(i).Exported() && inner(u.Field(i).Type()) {
				return true
			}
		}
	}
	return false
}

// implemented tells whether a type of cells has the methods of an interface.
func (g *gen) implemented(it *types.Interface) bool {
	for _, t := range g.e.methodTypes {
		if types.Implements(t, it) {
			return true
		}
	}
	return false
}

// formats tells whether a type prints itself.
func formats(t types.Type) bool {
	o, _, _ := types.LookupFieldOrMethod(t, false, nil, "Format")
	f, ok := o.(*types.Func)
	return ok && types.TypeString(stripNames(f.Signature()), nil) == "func(fmt.State, int32)" || ok && types.TypeString(stripNames(f.Signature()), nil) == "func(fmt.State, rune)"
}

// printable prints an argument for a function of the library that prints it. at is its place.
func (g *gen) printable(at ast.Expr, s string, t types.Type) string {
	if b, ok := t.(*types.Basic); ok && b.Kind() == types.UntypedNil {
		return s
	}
	if g.cellType(t) != nil && formats(t) {
		return g.boxed(s, t)
	}
	if at != nil && !types.IsInterface(t) {
		if n := g.withMethod(t, "Format", map[types.Type]bool{}); n != nil && g.cellType(t) != n {
			g.refuse(at, "Cell.E8", "give the type a String method", "package fmt cannot call method Format of %s, which a cell declared, inside of other values", n.Obj().Name())
			return s
		}
	}
	if n := g.cellType(t); n != nil && (textMethod(t) != "" || textMethod(types.NewPointer(t)) != "") {
		return g.boxed(s, t) // the interpreter would call the methods of its pointer too
	}
	if types.IsInterface(t) {
		return g.held(s, t)
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		if _, isStruct := p.Elem().Underlying().(*types.Struct); !isStruct || !g.hides(p.Elem(), map[types.Type]bool{}) {
			return s
		}
		return g.helper("show", t, func(ty string) string {
			return "if x == nil { return nil }\n" + g.showStruct(at, "&", p.Elem().Underlying().(*types.Struct))
		}) + "(" + s + ")"
	}
	if !g.hides(t, map[types.Type]bool{}) {
		return s
	}
	return g.helper("show", t, func(ty string) string {
		switch u := t.Underlying().(type) {
		case *types.Slice:
			return "var out []interface{}\nfor i := range x { out = append(out, " + g.showInner(at, "x[i]", u.Elem()) + ") }\nreturn out"
		case *types.Array:
			return "var out []interface{}\nfor i := 0; i < len(x); i++ { out = append(out, " + g.showInner(at, "x[i]", u.Elem()) + ") }\nreturn out"
		case *types.Map:
			if k := g.subst(u.Key()); g.cellType(k) != nil && textMethod(k) != "" || types.IsInterface(k) {
				key := "k"
				if !g.reboxes(k) {
					key = g.showInner(at, "k", k)
				}
				return "out := map[interface{}]interface{}{}\nfor k, v := range x { out[" + key + "] = " + g.showInner(at, "v", u.Elem()) + " }\nreturn out"
			}
			return "out := map[" + g.typ(u.Key()) + "]interface{}{}\nfor k, v := range x { out[k] = " + g.showInner(at, "v", u.Elem()) + " }\nreturn out"
		case *types.Struct:
			return g.showStruct(at, "", u)
		}
		return "return x"
	}) + "(" + s + ")"
}

// prettied is printable for a call of a function that prints.
func (g *gen) prettied(at ast.Expr, s string, t types.Type) string {
	s = g.printable(at, s, t)
	if g.rough(t, map[types.Type]bool{}) {
		return g.host() + ".Pretty(" + s + ")"
	}
	return s
}

// showInner prints a part of a value for printing.
func (g *gen) showInner(at ast.Expr, s string, t types.Type) string {
	if g.cellType(t) != nil && textMethod(t) != "" {
		return g.boxed(s, t)
	}
	if types.IsInterface(t) {
		return g.held(s, t)
	}
	if _, ok := t.Underlying().(*types.Pointer); ok {
		return s
	}
	return g.printable(at, s, t)
}

// held prints what an interface holds for printing: the library does not see methods of cells' types in interfaces that cells declared.
func (g *gen) held(s string, t types.Type) string {
	if isEmptyInterface(t) || types.Identical(t, errorInterface) {
		return s
	}
	return g.boxed(s, t)
}

// shown is printable for a value that may have a picture.
func (g *gen) shown(at ast.Expr, s string, t types.Type) string {
	if !types.IsInterface(t) || types.Identical(t, errorInterface) {
		return g.printable(at, s, t)
	}
	if !isEmptyInterface(t) && !g.foreign(t) {
		s = g.boxed(s, t)
	}
	return g.host() + ".Shown(" + s + ")"
}

func (g *gen) showStruct(at ast.Expr, amp string, u *types.Struct) string {
	var fields, vals strings.Builder
	for i := range u.NumFields() {
		f := u.Field(i)
		s, ty := "x."+f.Name(), g.typ(f.Type())
		if f.Exported() && f.Type().String() != "" {
			if in := g.showInner(at, s, g.subst(f.Type())); in != s {
				s, ty = in, "interface{}"
			}
		}
		tag := ""
		if !f.Exported() {
			tag = " " + strconv.Quote(mark{hidden: true}.tag(""))
		}
		fmt.Fprintf(&fields, "%s %s%s; ", f.Name(), ty, tag)
		fmt.Fprintf(&vals, "%s: %s, ", f.Name(), s)
	}
	return "return " + amp + "struct { " + fields.String() + "}{" + vals.String() + "}"
}

// prints tells whether a function of the library prints its arguments, and where they begin; format is the index of the format.
func prints(f *types.Func) (first, format int, ok bool) {
	if f == nil || f.Pkg() == nil {
		return 0, -1, false
	}
	name := f.Name()
	switch f.Pkg().Path() {
	case "fmt":
		name = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(name, "F"), "S"), "Append")
		first = len(f.Name()) - len(name)
		if first > 0 && strings.HasPrefix(f.Name(), "S") {
			first = 0
		} else if first > 0 {
			first = 1
		}
		name = strings.ToLower(name)
		if strings.HasPrefix(f.Name(), "Append") && name != "" {
			name = "print" + strings.TrimPrefix(name, "print")
		}
	case "log":
		name = strings.ToLower(name)
	default:
		return 0, -1, false
	}
	switch name {
	case "print", "println", "panic", "panicln", "fatal", "fatalln":
		return first, -1, true
	case "printf", "errorf", "panicf", "fatalf":
		return first + 1, first, true
	}
	return 0, -1, false
}

// callee is the function that a call names, nil for function values.
func (g *gen) callee(fun ast.Expr) *types.Func {
	switch f := unparen(fun).(type) {
	case *ast.Ident:
		fn, _ := g.info.Uses[f].(*types.Func)
		return fn
	case *ast.SelectorExpr:
		fn, _ := g.info.Uses[f.Sel].(*types.Func)
		return fn
	}
	return nil
}

// native tells whether a function is one of the host's.
func (g *gen) native(f *types.Func) bool {
	return f != nil && f.Pkg() != nil && !g.isSource(f.Origin()) && f.Pkg().Path() != "main" && !g.e.imp.source[f.Pkg().Path()]
}

// involves tells whether a type is made of types that cells declared.
func (g *gen) involves(t types.Type) bool {
	found := false
	types.TypeString(t, func(p *types.Package) string { found = found || p.Path() == "main"; return "" })
	return found
}

// printArgs prints the arguments of a call of a printing function. The format is the constant one, with what the interpreter's types
// would print wrongly replaced.
func (g *gen) printArgs(e *ast.CallExpr, first, format int) string {
	out := make([]string, len(e.Args))
	for i, a := range e.Args {
		out[i] = g.expr(a)
		if i >= first && e.Ellipsis == 0 {
			if tu, tuple := g.typeOf(a).(*types.Tuple); tuple {
				if s, ok := g.spread(a, tu, g.prettied); ok && first == 0 {
					return s
				}
			} else {
				t := types.Default(g.typeOf(a))
				if fn := g.callee(e.Fun); fn != nil && fn.Name() == "Errorf" && types.Implements(t, errorInterface.Underlying().(*types.Interface)) {
					out[i] = g.asError(out[i], t)
					continue
				}
				out[i] = g.prettied(a, out[i], t)
			}
		}
	}
	if n := len(out) - 1; e.Ellipsis != 0 && n >= first && mainName(g.typeOf(e.Args[n])) == "[]interface {}" {
		out[n] = g.host() + ".PrettyAll(" + out[n] + ")"
	}
	if format >= 0 && format < len(e.Args) && e.Ellipsis == 0 {
		if v := g.info.Types[e.Args[format]].Value; v != nil && v.Kind() == constant.String {
			out[format] = strconv.Quote(g.formatFor(e, constant.StringVal(v), first, out))
		}
	}
	s := strings.Join(out, ", ")
	if e.Ellipsis != 0 {
		s += "..."
	}
	return s
}

// indexedType is %T with an argument index.
var indexedType = regexp.MustCompile(`%\[\d+\]T`)

// formatFor reads the verbs of a format and changes those that ask for names of types.
func (g *gen) formatFor(e *ast.CallExpr, f string, first int, out []string) string {
	b := []byte(f)
	arg := first
	for i := 0; i < len(b); i++ {
		if b[i] != '%' {
			continue
		}
		sharp := false
		for i++; i < len(b) && strings.IndexByte("+-# 0123456789.*[]", b[i]) >= 0; i++ {
			switch b[i] {
			case '#':
				sharp = true
			case '*':
				arg++
			case '[':
				if m := indexedType.FindString(f); m != "" {
					for _, a := range e.Args[first:] {
						if g.involves(g.typeOf(a)) || isEmptyInterface(g.typeOf(a)) && g.anyCellTypes() {
							g.refuse(e.Args[first-1], "Cell.E8", "write %T and give the argument once more", "cells cannot print types by index, %s", m)
							break
						}
					}
				}
				return f
			}
		}
		if i >= len(b) || b[i] == '%' {
			continue
		}
		if arg < len(e.Args) {
			a := e.Args[arg]
			t := types.Default(g.typeOf(a))
			switch {
			case b[i] == 'T' && isEmptyInterface(t):
				b[i], out[arg] = 's', g.host()+".TypeName("+g.expr(a)+")"
			case b[i] == 'T' && types.IsInterface(t):
				b[i], out[arg] = 's', g.host()+".TypeName("+g.boxed(g.expr(a), t)+")"
			case b[i] == 'T' && g.involves(t):
				b[i], out[arg] = 's', g.helper("name", t, func(string) string { return "return " + strconv.Quote(mainName(t)) })+"("+g.expr(a)+")"
			case b[i] == 'v' && sharp && g.involves(t):
				if in := g.unsharp(t, true); in != "" {
					g.refuse(a, "Cell.E8", "use %+v", "cells cannot print %s as Go source: the interpreter does not know the name of %s inside of it", goType(t), in)
				}
				out[arg] = g.host() + ".Pretty(" + g.boxed(g.expr(a), t) + ")"
			}
		}
		arg++
	}
	return string(b)
}

// anyCellTypes tells whether cells have declared types at all.
func (g *gen) anyCellTypes() bool {
	for _, o := range g.e.objs {
		if tn, ok := o.(*types.TypeName); ok && g.cellType(tn.Type()) != nil {
			return true
		}
	}
	return false
}
