package cell

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// The interpreter makes types of cells by reflection: without names and methods, with all fields exported and none embedded. What
// package reflect says of such types is therefore said here, from tags that gen puts on fields. What no tag can bring back is refused.

// mark is what gen notes of a field in its tag, in front of the tag that the cell wrote.
type mark struct {
	printed string // of the struct's first field: the name of the type in the interpreter, "" for others
	name    string // the same as %T prints it
	lossy   string // a type inside of that of which the interpreter knows only what it is made of
	unsharp string // a type inside of that whose name %#v would print and nobody knows
	texts   string // a type inside of that with a method by which the library prints it
	coder   string // a type inside of that that has methods for encoders
	hidden  bool   // the field is not exported
	embeds  bool
}

const markKey = "cell"

// tag prints a mark before the cell's own tag. Encoders must leave alone what the cell does not export.
func (m mark) tag(own string) string {
	if m == (mark{}) {
		return own
	}
	s := ""
	if m.hidden {
		s = `json:"-" xml:"-" `
	}
	flags := map[bool]string{true: "h"}[m.hidden] + map[bool]string{true: "e"}[m.embeds]
	return strings.TrimSpace(s + markKey + ":" + strconv.Quote(strings.Join([]string{flags, m.printed, m.name, m.lossy, m.coder, m.unsharp, m.texts}, "|")) + " " + own)
}

// markOf reads a tag.
func markOf(tag reflect.StructTag) (m mark, own reflect.StructTag) {
	text, ok := tag.Lookup(markKey)
	parts := strings.Split(text, "|")
	if !ok || len(parts) != 7 {
		return m, tag
	}
	m = mark{printed: parts[1], name: parts[2], lossy: parts[3], coder: parts[4], unsharp: parts[5], texts: parts[6],
		hidden: strings.Contains(parts[0], "h"), embeds: strings.Contains(parts[0], "e")}
	_, rest, _ := strings.Cut(string(tag), markKey+":"+strconv.Quote(text))
	return m, reflect.StructTag(strings.TrimPrefix(rest, " "))
}

// structMark is the mark of a struct that cells declared with a name.
func structMark(t reflect.Type) (mark, bool) {
	if t == nil || t.Kind() != reflect.Struct || t.Name() != "" || t.NumField() == 0 {
		return mark{}, false
	}
	m, ok := structMarks.Load(t)
	if !ok {
		m, _ = markOf(t.Field(0).Tag)
		structMarks.Store(t, m)
	}
	return m.(mark), m.(mark).printed != ""
}

var structMarks sync.Map // reflect.Type → mark

func unexported(f reflect.StructField) bool {
	m, _ := markOf(f.Tag)
	return m.hidden
}

// fieldName is the name that the cell gave a field.
func fieldName(f reflect.StructField) string {
	if unexported(f) {
		return strings.TrimPrefix(f.Name, "X")
	}
	return f.Name
}

// typeText is a type as Go prints it.
func typeText(t reflect.Type) string {
	if t == nil {
		return "<nil>"
	}
	if m, ok := structMark(t); ok {
		return m.name
	}
	if t.Name() != "" {
		return t.String()
	}
	list := func(n int, at func(int) reflect.Type) string {
		var out []string
		for i := range n {
			out = append(out, typeText(at(i)))
		}
		return strings.Join(out, ", ")
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + typeText(t.Elem())
	case reflect.Slice:
		return "[]" + typeText(t.Elem())
	case reflect.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), typeText(t.Elem()))
	case reflect.Map:
		return "map[" + typeText(t.Key()) + "]" + typeText(t.Elem())
	case reflect.Chan:
		return map[reflect.ChanDir]string{reflect.BothDir: "chan ", reflect.RecvDir: "<-chan ", reflect.SendDir: "chan<- "}[t.ChanDir()] + typeText(t.Elem())
	case reflect.Func:
		in := list(t.NumIn(), t.In)
		if t.IsVariadic() {
			last := typeText(t.In(t.NumIn() - 1))
			in = strings.TrimSuffix(in, last) + "..." + last[len("[]"):]
		}
		out := list(t.NumOut(), t.Out)
		if t.NumOut() > 1 {
			out = "(" + out + ")"
		}
		return strings.TrimSuffix("func("+in+") "+out, " ")
	case reflect.Struct:
		var fields []string
		for i := range t.NumField() {
			f := fieldAt(t, i)
			s := f.Name + " "
			if f.Anonymous {
				s = ""
			}
			s += typeText(f.Type)
			if f.Tag != "" {
				s += " " + strconv.Quote(string(f.Tag))
			}
			fields = append(fields, s)
		}
		if len(fields) > 0 {
			return "struct { " + strings.Join(fields, "; ") + " }"
		}
	}
	return t.String()
}

// mainPath is the package path of fields and types of cells.
const mainPath = "main"

var fieldLists sync.Map // reflect.Type → []reflect.StructField

// fields are the fields of a struct as the cell declared them, not to be changed.
func fields(t reflect.Type) []reflect.StructField {
	list, ok := fieldLists.Load(t)
	if !ok {
		var all []reflect.StructField
		for i := range t.NumField() {
			all = append(all, fieldAt(t, i))
		}
		list = all
		fieldLists.Store(t, list)
	}
	return list.([]reflect.StructField)
}

func fieldAt(t reflect.Type, i int) reflect.StructField {
	f := t.Field(i)
	m, own := markOf(f.Tag)
	f.Name, f.Tag, f.Anonymous = fieldName(f), own, f.Anonymous || m.embeds
	if m.hidden {
		f.PkgPath = mainPath
	}
	return f
}

// visible lists the fields of a struct with those that it gets from embedded ones, outer before inner, as reflect.VisibleFields does.
func visible(t reflect.Type) []reflect.StructField {
	if t.Kind() != reflect.Struct {
		panic("reflect.VisibleFields of non-struct type")
	}
	type found struct {
		reflect.StructField
		gone bool
	}
	var all []found
	byName := map[string]int{}
	var index []int
	within := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		if within[t] {
			return
		}
		within[t] = true
		for i := range t.NumField() {
			f := fieldAt(t, i)
			index = append(index, i)
			add := true
			if at, ok := byName[f.Name]; ok {
				switch old := &all[at]; {
				case len(index) == len(old.Index):
					old.gone, add = true, false
				case len(index) < len(old.Index):
					old.gone = true
				default:
					add = false
				}
			}
			if add {
				f.Index = slices.Clone(index)
				byName[f.Name] = len(all)
				all = append(all, found{f, false})
			}
			if in := f.Type; f.Anonymous {
				if in.Kind() == reflect.Pointer {
					in = in.Elem()
				}
				if in.Kind() == reflect.Struct {
					walk(in)
				}
			}
			index = index[:len(index)-1]
		}
		delete(within, t)
	}
	walk(t)
	var out []reflect.StructField
	for _, f := range all {
		if !f.gone {
			out = append(out, f.StructField)
		}
	}
	return out
}

// promoted finds the one field of least depth that match takes, as a selector does.
func promoted(t reflect.Type, match func(string) bool) (f reflect.StructField, ok bool) {
	if t.Kind() != reflect.Struct {
		panic("reflect: FieldByName of non-struct type " + typeText(t))
	}
	level := []reflect.StructField{{Type: t}}
	seen := map[reflect.Type]bool{}
	for len(level) > 0 {
		var next []reflect.StructField
		n := 0
		for _, in := range level {
			at := in.Type
			if at.Kind() == reflect.Pointer {
				at = at.Elem()
			}
			if at.Kind() != reflect.Struct || seen[at] {
				continue
			}
			for i := range at.NumField() {
				x := fieldAt(at, i)
				x.Index = append(slices.Clone(in.Index), i)
				if match(x.Name) {
					f = x
					n++
				}
				if x.Anonymous {
					next = append(next, x)
				}
			}
		}
		for _, in := range level {
			seen[in.Type] = true
		}
		if n > 0 {
			if n > 1 {
				return reflect.StructField{}, false
			}
			return f, true
		}
		level = next
	}
	return reflect.StructField{}, false
}

// fieldOf is a field of a value. One that the cell does not export may be read but not given away or changed, as in Go.
func fieldOf(v reflect.Value, i int) reflect.Value {
	f := v.Field(i)
	m, _ := markOf(v.Type().Field(i).Tag)
	if !m.hidden || m.embeds || !f.CanInterface() {
		return f
	}
	t := reflect.StructOf([]reflect.StructField{{Name: "f", PkgPath: mainPath, Type: f.Type()}})
	if f.CanAddr() {
		return reflect.NewAt(t, f.Addr().UnsafePointer()).Elem().Field(0)
	}
	in := reflect.New(t).Elem()
	reflect.NewAt(f.Type(), unsafe.Pointer(in.Field(0).UnsafeAddr())).Elem().Set(f)
	return reflect.ValueOf(in.Interface()).Field(0)
}

// fieldBy follows indexes through embedded pointers; missing is where one is nil.
func fieldBy(v reflect.Value, index []int) (f reflect.Value, missing reflect.Type) {
	for i, x := range index {
		if i > 0 && v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct {
			if v.IsNil() {
				return reflect.Value{}, v.Type().Elem()
			}
			v = v.Elem()
		}
		v = fieldOf(v, x)
	}
	return v, nil
}

func mustFieldBy(v reflect.Value, index []int) reflect.Value {
	f, missing := fieldBy(v, index)
	if missing != nil {
		panic("reflect: indirection through nil pointer to embedded struct")
	}
	return f
}

func fieldNamed(v reflect.Value, match func(string) bool) reflect.Value {
	if f, ok := promoted(v.Type(), match); ok {
		return mustFieldBy(v, f.Index)
	}
	return reflect.Value{}
}

func is(name string) func(string) bool { return func(s string) bool { return s == name } }

// blind refuses to look for methods, which the interpreter's types have not.
func (h *host) blind(t reflect.Type) {
	if h.boxer(t) != nil {
		panic(&runtimeError{"cells cannot find methods of " + typeText(t) + " by reflection; call them, or assert an interface that has them"})
	}
}

// given gives a value for package reflect: without its box, and refused where the interpreter knows too little of its type.
func (h *host) given(x any) any {
	if b, ok := inside(x).(Box); ok {
		if in, ok := h.lossy.Load(b.id); ok {
			refuseMirror(b.kind().name, in.(string))
		}
		x = b.v
	}
	if t := reflect.TypeOf(x); t != nil {
		lossy := func(t reflect.Type) bool { m, _ := structMark(t); return m.lossy != "" }
		if in, ok := within(t, lossy); ok {
			m, _ := structMark(in)
			refuseMirror(typeText(t), m.lossy)
		}
	}
	return x
}

func refuseMirror(t, in string) {
	panic(&runtimeError{mirrorText(t, in) + "; " + mirrorHelp})
}

func mirrorText(t, in string) string {
	return fmt.Sprintf("cells cannot look into %s by reflection: of %s the interpreter knows only what it is made of", t, in)
}

const mirrorHelp = "write down what you would ask, or convert it to a type without a name"

// within finds a struct of cells in a type that is what test looks for.
func within(t reflect.Type, test func(reflect.Type) bool) (reflect.Type, bool) {
	seen := map[reflect.Type]bool{}
	var find func(t reflect.Type) (reflect.Type, bool)
	find = func(t reflect.Type) (reflect.Type, bool) {
		if seen[t] || t.Name() != "" {
			return nil, false
		}
		seen[t] = true
		switch t.Kind() {
		case reflect.Map:
			if in, ok := find(t.Key()); ok {
				return in, true
			}
			return find(t.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
			return find(t.Elem())
		case reflect.Struct:
			if test(t) {
				return t, true
			}
			for i := range t.NumField() {
				if in, ok := find(t.Field(i).Type); ok {
					return in, true
				}
			}
		}
		return nil, false
	}
	return find(t)
}

var markedTypes sync.Map // reflect.Type → bool

// marked tells whether a type is made of structs that cells declared with names.
func marked(t reflect.Type) bool {
	is, ok := markedTypes.Load(t)
	if !ok {
		_, is = within(t, func(t reflect.Type) bool { _, ok := structMark(t); return ok })
		markedTypes.Store(t, is)
	}
	return is.(bool)
}

// boxed gives what a reflect.Value holds for an empty interface of a cell.
func (h *host) boxed(v reflect.Value) any {
	x := v.Interface()
	if f := h.boxer(reflect.TypeOf(x)); f != nil {
		return f(x)
	}
	return x
}

// boxer is what puts values of a struct with methods, or a pointer to one, into boxes; nil for other types. No host has none, and calls no
// methods of cells.
func (h *host) boxer(t reflect.Type) func(any) any {
	star := ""
	if t != nil && t.Kind() == reflect.Pointer {
		star, t = "*", t.Elem()
	}
	if m, ok := structMark(t); ok && h != nil {
		if f, ok := h.boxers.Load(star + m.printed); ok {
			return f.(func(any) any)
		}
	}
	return nil
}

// placed gives a value for a place of type t: empty interfaces of cells hold boxes.
func (h *host) placed(v reflect.Value, t reflect.Type) reflect.Value {
	if !v.IsValid() || t.Kind() != reflect.Interface || t.NumMethod() > 0 || v.Kind() == reflect.Interface || !v.CanInterface() {
		return v
	}
	return reflect.ValueOf(h.boxed(v))
}

// mirrors are the methods of reflect.Type and reflect.Value that cells call instead, by receiver and name.
func (h *host) mirrors() map[string]any {
	fieldErr := func(v reflect.Value, index []int) (reflect.Value, error) {
		f, missing := fieldBy(v, index)
		if missing != nil {
			return f, fmt.Errorf("reflect: indirection through nil pointer to embedded struct field %s", strings.TrimPrefix(typeText(missing), "main."))
		}
		return f, nil
	}
	return map[string]any{
		"TypeName": func(t reflect.Type) string {
			if m, ok := structMark(t); ok {
				return strings.TrimPrefix(m.name, "main.")
			}
			return t.Name()
		},
		"TypeString": typeText,
		"TypePkgPath": func(t reflect.Type) string {
			if _, ok := structMark(t); ok {
				return mainPath
			}
			return t.PkgPath()
		},
		"TypeField": fieldAt,
		"TypeFieldByIndex": func(t reflect.Type, index []int) (f reflect.StructField) {
			for i, x := range index {
				if i > 0 {
					if t = f.Type; t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
						t = t.Elem()
					}
				}
				f = fieldAt(t, x)
			}
			f.Index = index
			return f
		},
		"TypeFieldByName":     func(t reflect.Type, name string) (reflect.StructField, bool) { return promoted(t, is(name)) },
		"TypeFieldByNameFunc": promoted,
		"TypeFields": func(t reflect.Type) iter.Seq[reflect.StructField] {
			return func(yield func(reflect.StructField) bool) {
				for i := range t.NumField() {
					if !yield(fieldAt(t, i)) {
						return
					}
				}
			}
		},
		"TypeNumMethod":    func(t reflect.Type) int { h.blind(t); return t.NumMethod() },
		"TypeMethod":       func(t reflect.Type, i int) reflect.Method { h.blind(t); return t.Method(i) },
		"TypeMethodByName": func(t reflect.Type, s string) (reflect.Method, bool) { h.blind(t); return t.MethodByName(s) },
		"TypeMethods":      func(t reflect.Type) iter.Seq[reflect.Method] { h.blind(t); return t.Methods() },
		"TypeImplements":   func(t, u reflect.Type) bool { h.blind(t); return t.Implements(u) },

		"ValueField":           fieldOf,
		"ValueFieldByIndex":    mustFieldBy,
		"ValueFieldByIndexErr": fieldErr,
		"ValueFieldByName":     func(v reflect.Value, name string) reflect.Value { return fieldNamed(v, is(name)) },
		"ValueFieldByNameFunc": fieldNamed,
		"ValueFields": func(v reflect.Value) iter.Seq2[reflect.StructField, reflect.Value] {
			return func(yield func(reflect.StructField, reflect.Value) bool) {
				for i := range v.NumField() {
					if !yield(fieldAt(v.Type(), i), fieldOf(v, i)) {
						return
					}
				}
			}
		},
		"ValueNumMethod":    func(v reflect.Value) int { h.blind(v.Type()); return v.NumMethod() },
		"ValueMethod":       func(v reflect.Value, i int) reflect.Value { h.blind(v.Type()); return v.Method(i) },
		"ValueMethodByName": func(v reflect.Value, s string) reflect.Value { h.blind(v.Type()); return v.MethodByName(s) },
		"ValueMethods": func(v reflect.Value) iter.Seq2[reflect.Method, reflect.Value] {
			h.blind(v.Type())
			return v.Methods()
		},
		"ValueInterface": h.boxed,
		"ValueElem": func(v reflect.Value) reflect.Value {
			in := v.Elem()
			if v.Kind() == reflect.Interface && in.IsValid() && in.CanInterface() {
				if b, ok := inside(in.Interface()).(Box); ok {
					return reflect.ValueOf(h.given(b))
				}
			}
			return in
		},
		"ValueString": func(v reflect.Value) string {
			if v.IsValid() && v.Kind() != reflect.String {
				return "<" + typeText(v.Type()) + " Value>"
			}
			return v.String()
		},
		"ValueSet":         func(v, x reflect.Value) { v.Set(h.placed(x, v.Type())) },
		"ValueSetMapIndex": func(v, k, x reflect.Value) { v.SetMapIndex(h.placed(k, v.Type().Key()), h.placed(x, v.Type().Elem())) },
	}
}
