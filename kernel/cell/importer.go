package cell

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"path"
	"reflect"
	"sort"
	"strings"
	"sync"
)

// tables is what cells can import: "import/path/name" to the symbols of that package, as yaegi's extract writes them.
type tables map[string]map[string]reflect.Value

// imports makes go/types packages from the symbol tables, so that cells are checked without a toolchain and against
// exactly what the interpreter can call. Packages, types and methods are made when something first asks for them.
//
// Completion asks while a cell is checked: what is called from outside this file takes mu.
type imports struct {
	mu     sync.Mutex
	tab    tables
	keys   map[string]string // import path → key in tab
	pkgs   map[string]*types.Package
	filled map[string]bool
	types  map[reflect.Type]types.Type
	sealed map[string][]reflect.Type // package path → its interfaces with unexported methods
	source map[string]bool           // packages made from Go source instead (see generic.go)
}

func newImports(tab tables) *imports {
	m := &imports{tab: tab, keys: map[string]string{}, pkgs: map[string]*types.Package{}, filled: map[string]bool{},
		types: map[reflect.Type]types.Type{}, sealed: map[string][]reflect.Type{}, source: map[string]bool{}}
	for k := range tab {
		if k != "." && path.Dir(k) != "." {
			m.keys[path.Dir(k)] = k
		}
	}
	return m
}

// Paths lists everything that can be imported, sorted.
func (m *imports) Paths() []string {
	var out []string
	for p := range m.keys {
		if !strings.HasPrefix(p, hostPath) && p != module+"kernel/cell" && p != "github.com/traefik/yaegi/stdlib" {
			out = append(out, p)
		}
	}
	for p := range m.source {
		if m.keys[p] == "" {
			out = append(out, p)
		}
	}
	sort.Strings(out)
	return out
}

// Import implements types.Importer.
func (m *imports) Import(p string) (*types.Package, error) {
	if p == "unsafe" {
		return nil, fmt.Errorf("package unsafe is not for cells")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key, ok := m.keys[p]
	if !ok {
		if pkg := m.pkgs[p]; pkg != nil && m.source[p] {
			return pkg, nil
		}
		return nil, fmt.Errorf("no package %q for cells", p)
	}
	pkg := m.pkg(p)
	if m.filled[p] {
		return pkg, nil
	}
	m.filled[p] = true
	for _, v := range m.tab[key] {
		if isTypeSym(v) && v.Type().Elem().Kind() == reflect.Interface {
			m.seal(v.Type().Elem())
		}
	}
	names := make([]string, 0, len(m.tab[key]))
	for n := range m.tab[key] {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		if !token.IsExported(n) {
			continue
		}
		v := m.tab[key][n]
		if pkg.Scope().Lookup(n) != nil {
			continue
		}
		if obj := m.object(pkg, n, v); obj != nil {
			pkg.Scope().Insert(obj)
		}
	}
	pkg.MarkComplete()
	return pkg, nil
}

// Package is the package of a path, filled or not.
func (m *imports) Package(p string) *types.Package {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pkg(p)
}

// Type is typ for callers outside.
func (m *imports) Type(rt reflect.Type) types.Type {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.typ(rt)
}

func (m *imports) pkg(p string) *types.Package {
	if pkg := m.pkgs[p]; pkg != nil {
		return pkg
	}
	name := path.Base(p)
	if key, ok := m.keys[p]; ok {
		name = path.Base(key)
	}
	pkg := types.NewPackage(p, name)
	m.pkgs[p] = pkg
	return pkg
}

func isTypeSym(v reflect.Value) bool {
	return v.IsValid() && v.Kind() == reflect.Pointer && !v.CanAddr() && v.IsNil()
}

var constType = reflect.TypeOf((*constant.Value)(nil)).Elem()

func (m *imports) object(pkg *types.Package, name string, v reflect.Value) types.Object {
	switch {
	case !v.IsValid():
		return nil
	case v.Type().Implements(constType):
		c := v.Interface().(constant.Value)
		t := types.Typ[types.UntypedInt]
		switch c.Kind() {
		case constant.Bool:
			t = types.Typ[types.UntypedBool]
		case constant.String:
			t = types.Typ[types.UntypedString]
		case constant.Float:
			t = types.Typ[types.UntypedFloat]
		case constant.Complex:
			t = types.Typ[types.UntypedComplex]
		}
		return types.NewConst(token.NoPos, pkg, name, t, c)
	case isTypeSym(v):
		rt := v.Type().Elem()
		t := m.typ(rt)
		if n, ok := t.(*types.Named); ok && n.Obj().Pkg() == pkg && n.Obj().Name() == name {
			return nil // typ has put it into the scope
		}
		tn := types.NewTypeName(token.NoPos, pkg, name, nil)
		types.NewAlias(tn, t)
		return tn
	case v.CanAddr():
		return types.NewVar(token.NoPos, pkg, name, m.typ(v.Type()))
	case v.Kind() == reflect.Func:
		return types.NewFunc(token.NoPos, pkg, name, m.sig(v.Type(), nil, false))
	}
	if c := constOf(v); c != nil {
		return types.NewConst(token.NoPos, pkg, name, m.typ(v.Type()), c)
	}
	return types.NewVar(token.NoPos, pkg, name, m.typ(v.Type()))
}

func constOf(v reflect.Value) constant.Value {
	switch v.Kind() {
	case reflect.Bool:
		return constant.MakeBool(v.Bool())
	case reflect.String:
		return constant.MakeString(v.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return constant.MakeInt64(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return constant.MakeUint64(v.Uint())
	case reflect.Float32, reflect.Float64:
		return constant.MakeFloat64(v.Float())
	}
	return nil
}

var basics = map[reflect.Kind]types.BasicKind{
	reflect.Bool: types.Bool, reflect.Int: types.Int, reflect.Int8: types.Int8, reflect.Int16: types.Int16, reflect.Int32: types.Int32,
	reflect.Int64: types.Int64, reflect.Uint: types.Uint, reflect.Uint8: types.Uint8, reflect.Uint16: types.Uint16,
	reflect.Uint32: types.Uint32, reflect.Uint64: types.Uint64, reflect.Uintptr: types.Uintptr, reflect.Float32: types.Float32,
	reflect.Float64: types.Float64, reflect.Complex64: types.Complex64, reflect.Complex128: types.Complex128,
	reflect.String: types.String, reflect.UnsafePointer: types.UnsafePointer,
}

var errorType = reflect.TypeOf((*error)(nil)).Elem()

// typ is the go/types form of a reflect type.
func (m *imports) typ(rt reflect.Type) types.Type {
	if t, ok := m.types[rt]; ok {
		return t
	}
	if rt == errorType {
		return types.Universe.Lookup("error").Type()
	}
	if t := m.sequence(rt); t != nil {
		m.types[rt] = t
		return t
	}
	if rt.Name() != "" && rt.PkgPath() != "" {
		return m.named(rt)
	}
	t := m.literal(rt)
	m.types[rt] = t
	return t
}

// sequence is the instance of iter.Seq or iter.Seq2 that a reflect type is, nil for others. Cells have package iter as source, so that they
// can have instances that the library has not.
func (m *imports) sequence(rt reflect.Type) types.Type {
	name, _, ok := strings.Cut(rt.Name(), "[")
	if !ok || rt.PkgPath() != "iter" || !m.source["iter"] {
		return nil
	}
	var args []types.Type
	yield := rt.In(0)
	for i := range yield.NumIn() {
		args = append(args, m.typ(yield.In(i)))
	}
	t, err := types.Instantiate(nil, m.pkgs["iter"].Scope().Lookup(name).Type(), args, false)
	if err != nil {
		return nil
	}
	return t
}

func (m *imports) named(rt reflect.Type) types.Type {
	pkg := m.pkg(rt.PkgPath())
	tn := types.NewTypeName(token.NoPos, pkg, rt.Name(), nil)
	n := types.NewNamed(tn, nil, nil)
	m.types[rt] = n
	if old := pkg.Scope().Lookup(rt.Name()); old == nil && token.IsExported(rt.Name()) && !strings.Contains(rt.Name(), "[") {
		pkg.Scope().Insert(tn)
	}
	n.SetUnderlying(m.literal(rt).Underlying())
	if rt.Kind() == reflect.Interface {
		return n
	}
	ptr := reflect.PointerTo(rt)
	onValue := map[string]bool{}
	for i := range rt.NumMethod() {
		onValue[rt.Method(i).Name] = true
	}
	for i := range ptr.NumMethod() {
		me := ptr.Method(i)
		var recv types.Type = n
		if !onValue[me.Name] {
			recv = types.NewPointer(n)
		}
		n.AddMethod(types.NewFunc(token.NoPos, pkg, me.Name, m.sig(me.Type, types.NewVar(token.NoPos, pkg, "", recv), true)))
	}
	// Reflection hides unexported methods, but they decide which types implement a sealed interface.
	for _, it := range m.sealed[rt.PkgPath()] {
		for i := range it.NumMethod() {
			me := it.Method(i)
			if me.PkgPath == "" {
				continue
			}
			var recv types.Type
			switch {
			case rt.Implements(it):
				recv = n
			case ptr.Implements(it):
				recv = types.NewPointer(n)
			default:
				continue
			}
			if o, _, _ := types.LookupFieldOrMethod(types.NewPointer(n), true, pkg, me.Name); o == nil {
				n.AddMethod(types.NewFunc(token.NoPos, pkg, me.Name, m.sig(me.Type, types.NewVar(token.NoPos, pkg, "", recv), false)))
			}
		}
	}
	return n
}

// seal notes an interface that has unexported methods.
func (m *imports) seal(it reflect.Type) {
	for i := range it.NumMethod() {
		if p := it.Method(i).PkgPath; p != "" {
			for _, have := range m.sealed[p] {
				if have == it {
					return
				}
			}
			m.sealed[p] = append(m.sealed[p], it)
			return
		}
	}
}

// sig makes a signature; skip leaves out the receiver that reflection counts as the first parameter.
func (m *imports) sig(rt reflect.Type, recv *types.Var, skip bool) *types.Signature {
	var in, out []*types.Var
	for i := range rt.NumIn() {
		if i > 0 || !skip {
			in = append(in, types.NewParam(token.NoPos, nil, "", m.typ(rt.In(i))))
		}
	}
	for i := range rt.NumOut() {
		out = append(out, types.NewParam(token.NoPos, nil, "", m.typ(rt.Out(i))))
	}
	return types.NewSignatureType(recv, nil, nil, types.NewTuple(in...), types.NewTuple(out...), rt.IsVariadic())
}

func (m *imports) literal(rt reflect.Type) types.Type {
	if k, ok := basics[rt.Kind()]; ok {
		if rt.Name() == "" || rt.PkgPath() == "" {
			return types.Typ[k]
		}
		return types.Typ[k].Underlying()
	}
	switch rt.Kind() {
	case reflect.Pointer:
		return types.NewPointer(m.typ(rt.Elem()))
	case reflect.Slice:
		return types.NewSlice(m.typ(rt.Elem()))
	case reflect.Array:
		return types.NewArray(m.typ(rt.Elem()), int64(rt.Len()))
	case reflect.Map:
		return types.NewMap(m.typ(rt.Key()), m.typ(rt.Elem()))
	case reflect.Chan:
		dir := types.SendRecv
		switch rt.ChanDir() {
		case reflect.SendDir:
			dir = types.SendOnly
		case reflect.RecvDir:
			dir = types.RecvOnly
		}
		return types.NewChan(dir, m.typ(rt.Elem()))
	case reflect.Func:
		return m.sig(rt, nil, false)
	case reflect.Struct:
		var fields []*types.Var
		var tags []string
		for i := range rt.NumField() {
			f := rt.Field(i)
			var pkg *types.Package
			if f.PkgPath != "" {
				pkg = m.pkg(f.PkgPath)
			} else if rt.PkgPath() != "" {
				pkg = m.pkg(rt.PkgPath())
			}
			fields = append(fields, types.NewField(token.NoPos, pkg, f.Name, m.typ(f.Type), f.Anonymous))
			tags = append(tags, string(f.Tag))
		}
		return types.NewStruct(fields, tags)
	case reflect.Interface:
		if rt.NumMethod() == 0 {
			return types.Universe.Lookup("any").Type().Underlying()
		}
		var ms []*types.Func
		for i := range rt.NumMethod() {
			me := rt.Method(i)
			var pkg *types.Package
			if me.PkgPath != "" {
				pkg = m.pkg(me.PkgPath)
			} else if rt.PkgPath() != "" {
				pkg = m.pkg(rt.PkgPath())
			}
			ms = append(ms, types.NewFunc(token.NoPos, pkg, me.Name, m.sig(me.Type, nil, false)))
		}
		it := types.NewInterfaceType(ms, nil)
		it.Complete()
		return it
	}
	return types.Typ[types.Invalid]
}
