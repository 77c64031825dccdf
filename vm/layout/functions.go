package layout

import "strings"

// Function describes one function of the notation, for help and completion.
type Function struct {
	Name      string
	Signature string
	Doc       string
}

type kind int

const (
	kLayout kind = iota
	kInt
	kBool
	kList // a list of numbers; a lone number is a list of one
	kInts // a list of numbers, or all positional numbers that are left
	kMore // all positional layouts that are left, at least one
	kShared
	kGlobal
	kTMemory
	kSwizzle // a swizzle, or None
)

type param struct {
	name     string
	also     string // what Tilus calls it in Python, where that is another name
	kind     kind
	optional bool
	keyword  bool // cannot be given by position
}

// function is a row of the notation: what can be called, with what, and what it
// does. A function whose first parameter is a layout is also a method; an atom
// is also a method, which multiplies.
type function struct {
	name   string
	doc    string
	params []param
	atom   bool
	eval   func(a args) (Layout, error)
	other  func(a args) (value, error) // for what is no register layout
}

// call evaluates the function.
func (f function) call(a args) (value, error) {
	if f.other != nil {
		return f.other(a)
	}
	l, err := f.eval(a)
	return value{kind: kLayout, layout: l}, err
}

var ranksParam = param{name: "ranks", kind: kList, optional: true, keyword: true}

var shapeParam = param{name: "shape", kind: kInts}

var xParam = param{name: "x", kind: kLayout}

func functions() []function {
	return []function{
		{name: "local", atom: true, doc: "one thread holds the whole tile, slots in row-major order", params: []param{shapeParam, ranksParam},
			eval: func(a args) (Layout, error) { return localAtom(a.ints("shape"), a.ints("ranks")) }},
		{name: "spatial", atom: true, doc: "one element per thread, threads in row-major order", params: []param{shapeParam, ranksParam},
			eval: func(a args) (Layout, error) { return spatialAtom(a.ints("shape"), a.ints("ranks")) }},
		{name: "column_local", atom: true, doc: "local with the first dimension fastest", params: []param{shapeParam},
			eval: func(a args) (Layout, error) { return localAtom(a.ints("shape"), column(a.ints("shape"))) }},
		{name: "column_spatial", atom: true, doc: "spatial with the first dimension fastest", params: []param{shapeParam},
			eval: func(a args) (Layout, error) { return spatialAtom(a.ints("shape"), column(a.ints("shape"))) }},
		{name: "repeat", atom: true, doc: "another name of local", params: []param{shapeParam, ranksParam},
			eval: func(a args) (Layout, error) { return localAtom(a.ints("shape"), a.ints("ranks")) }},
		{name: "column_repeat", atom: true, doc: "another name of column_local", params: []param{shapeParam},
			eval: func(a args) (Layout, error) { return localAtom(a.ints("shape"), column(a.ints("shape"))) }},
		{name: "replicated", atom: true, doc: "every thread holds the whole tile", params: []param{shapeParam, {name: "num_workers", kind: kInt, keyword: true}},
			eval: func(a args) (Layout, error) { return replicatedAtom(a.int("num_workers", 0), a.ints("shape")) }},
		{name: "auto_local_spatial", atom: true, doc: "spread a tile over threads, last dimension first", params: []param{{name: "num_threads", kind: kInt}, shapeParam},
			eval: func(a args) (Layout, error) { return AutoLocalSpatial(a.int("num_threads", 0), a.ints("shape")...) }},
		{name: "register_layout", atom: true, doc: "a layout from its four lists", params: []param{{name: "shape", kind: kList}, {name: "mode_shape", kind: kList}, {name: "spatial_modes", kind: kList}, {name: "local_modes", kind: kList}},
			eval: func(a args) (Layout, error) {
				return New(a.ints("shape"), a.ints("mode_shape"), a.ints("spatial_modes"), a.ints("local_modes"))
			}},
		{name: "compose", doc: "the product, as '*'", params: []param{xParam, {name: "inner", kind: kMore}}, eval: product},
		{name: "product", doc: "the product, as '*'", params: []param{xParam, {name: "inner", kind: kMore}}, eval: product},
		{name: "divide", doc: "the f with f * inner = x, as '/'", params: []param{xParam, {name: "inner", kind: kLayout}},
			eval: func(a args) (Layout, error) { return a.layout("x").Div(a.layout("inner")) }},
		{name: "left_divide", doc: "the g with outer * g = x", params: []param{xParam, {name: "outer", kind: kLayout}},
			eval: func(a args) (Layout, error) { return a.layout("x").LeftDiv(a.layout("outer")) }},
		{name: "reduce", doc: "the layout after reducing dimensions", params: []param{xParam, {name: "dims", kind: kList}, {name: "keepdims", kind: kBool, optional: true}},
			eval: func(a args) (Layout, error) { return a.layout("x").Reduce(a.ints("dims"), a["keepdims"].flag) }},
		{name: "reduce_to", doc: "reduce every dimension in which shape is 1", params: []param{xParam, shapeParam},
			eval: func(a args) (Layout, error) { return a.layout("x").ReduceTo(a.ints("shape")) }},
		{name: "slice", doc: "keep these dimensions and fix the index of the others, over which no threads are spread", params: []param{xParam, {name: "retain_dims", kind: kInts}},
			eval: func(a args) (Layout, error) { return a.layout("x").Slice(a.ints("retain_dims")...) }},
		{name: "permute", doc: "reorder dimensions", params: []param{xParam, {name: "dims", kind: kInts}},
			eval: func(a args) (Layout, error) { return a.layout("x").Permute(a.ints("dims")...) }},
		{name: "reshape", doc: "another shape of the same size", params: []param{xParam, shapeParam},
			eval: func(a args) (Layout, error) { return a.layout("x").Reshape(a.ints("shape")...) }},
		{name: "squeeze", doc: "remove dimensions of size 1", params: []param{xParam, {name: "dims", kind: kInts}},
			eval: func(a args) (Layout, error) { return a.layout("x").Squeeze(a.ints("dims")...) }},
		{name: "unsqueeze", doc: "insert dimensions of size 1", params: []param{xParam, {name: "dims", kind: kInts}},
			eval: func(a args) (Layout, error) { return a.layout("x").Unsqueeze(a.ints("dims")...) }},
		{name: "flatten", doc: "join the dimensions from start to end, both included", params: []param{xParam, {name: "start", also: "start_dim", kind: kInt, optional: true}, {name: "end", also: "end_dim", kind: kInt, optional: true}},
			eval: func(a args) (Layout, error) { return a.layout("x").Flatten(a.int("start", 0), a.int("end", -1)) }},
		{name: "concat", doc: "the layout of pairs: shapes one after the other", params: []param{xParam, {name: "y", kind: kLayout}},
			eval: func(a args) (Layout, error) { return concat(a.layout("x"), a.layout("y")) }},
	}
}

func product(a args) (Layout, error) {
	l := a.layout("x")
	for _, g := range a["inner"].more {
		var err error
		if l, err = mul(l, g); err != nil {
			return l, err
		}
	}
	return l, nil
}

// Functions lists what layout text can call.
func Functions() []Function { return describeAll(functions()) }

func describeAll(table []function) []Function {
	var out []Function
	for _, f := range table {
		out = append(out, Function{f.name, f.signature(), f.doc})
	}
	return out
}

func (f function) signature() string {
	var b strings.Builder
	b.WriteString(f.name)
	b.WriteByte('(')
	for i, p := range f.params {
		if i > 0 {
			b.WriteString(", ")
		}
		if p.kind == kInts || p.kind == kMore {
			b.WriteByte('*')
		}
		b.WriteString(p.name)
		if p.optional || p.keyword {
			b.WriteByte('=')
		}
	}
	b.WriteByte(')')
	return b.String()
}

// value is what an expression of the notation stands for.
type value struct {
	kind    kind // no kInts; kMore inside args only
	layout  Layout
	shared  Shared
	global  Global
	tmemory TMemory
	swizzle Swizzle
	num     int
	flag    bool
	nums    []int
	more    []Layout
}

// isLayout says whether the value is a layout of any memory, which is what has
// methods.
func (v value) isLayout() bool {
	return v.kind == kLayout || v.kind == kShared || v.kind == kGlobal || v.kind == kTMemory
}

func (v value) describe() string {
	switch v.kind {
	case kInt:
		return "a number"
	case kBool:
		return "True or False"
	case kList:
		return "a list"
	case kShared:
		return "a layout of shared memory"
	case kGlobal:
		return "a layout of global memory"
	case kTMemory:
		return "a layout of tensor memory"
	case kSwizzle:
		return "a swizzle"
	}
	return "a layout"
}

// args holds the checked arguments of a call by parameter name; an optional
// one that was not given is absent.
type args map[string]value

func (a args) layout(name string) Layout { return a[name].layout }

func (a args) ints(name string) []int { return a[name].nums }

func (a args) int(name string, absent int) int {
	if v, ok := a[name]; ok {
		return v.num
	}
	return absent
}
