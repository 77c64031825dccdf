package notation

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
	"github.com/tilus-lab/tilus-lab/vm/layout/linear"
)

// The notations. A text can be in any of them; a swizzle and an instruction are
// not forms to convert to.
const (
	Chain    = "chain"
	FourPart = "four-part"
	CuTe     = "cute"
	Linear   = "linear"
	Triton   = "triton"
	Swizzle  = "swizzle"
	Atom     = "instruction"
)

// Forms lists the notations that [Value.To] writes.
func Forms() []string { return []string{Chain, FourPart, CuTe, Linear, Triton} }

// kind is what a layout maps.
type kind int

const (
	registers kind = iota + 1 // (thread, slot) → element
	memory                    // element → offset
	general                   // another linear map
	swizzle                   // offset → offset
	tensorMemory
	instruction
	number // or list of numbers, the result of an operation such as size
)

// Value is a layout, a swizzle, an instruction or the number that an operation gives.
// It is immutable.
type Value struct {
	form string
	kind kind
	text string
	// One of these is what was read.
	regs     *layout.Layout
	shared   *layout.Shared
	global   *layout.Global
	tmem     *layout.TMemory
	composed *cute.Composed
	lin      *linear.Layout
	sw       layout.Swizzle
	num      cute.Tuple
	lanes    int // of a warp, 0 where nobody said

	atom    *arch.Atom
	operand *arch.Operand // of atom, where one is meant
}

// onTile is " on 16x8" at the end of a text.
var onTile = regexp.MustCompile(`(?s)^(.*\S)\s+on\s+(\d+(?:\s*x\s*\d+)*|\[[\d,\s]*\]|\([\d,\s]*\))\s*$`)

// ofTensor is a tensor type around an encoding.
var ofTensor = regexp.MustCompile(`(?s)^\s*tensor<((?:\d+x)+)[a-zA-Z]\w*\s*,(.*)>\s*$`)

// Read reads a layout in any notation. "on 16x8" may stand behind it. The error is
// a diag.List whose columns count from the start of the text; its codes are those
// of the notation that was recognised, or of [Rules].
func Read(text string) (Value, error) { return ReadOn(text, nil) }

// ReadOn is Read for a layout of a tile or tensor of this shape; nil where the
// text says it or does not need it.
func ReadOn(text string, shape []int) (Value, error) {
	v, err := read(text, shape)
	if err != nil {
		return Value{}, located(text, err)
	}
	v.text = strings.TrimSpace(text)
	return v, nil
}

// located makes any error a list of problems with places.
func located(text string, err error) error {
	var list diag.List
	if errors.As(err, &list) {
		return list
	}
	p := diag.Problem{Msg: err.Error()}
	errors.As(err, &p)
	if !p.Pos.Known() {
		p.Pos = diag.Pos{Line: 1, Col: 1}
		if !strings.ContainsRune(text, '\n') {
			p.End = diag.Pos{Line: 1, Col: len(text) + 1}
		}
	}
	return diag.List{p}
}

func read(text string, shape []int) (Value, error) {
	if len(text) > MaxText {
		return Value{}, fail(eText, "", "the text has %d bytes; at most %d are read", len(text), MaxText)
	}
	if m := onTile.FindStringSubmatchIndex(text); m != nil {
		own, err := linear.ParseShape(strings.ReplaceAll(text[m[4]:m[5]], " ", ""))
		if err != nil {
			return Value{}, err
		}
		if shape != nil && !slices.Equal(shape, own) {
			return Value{}, fail(eShape, "", "the text is on %s, and %s is asked for", shapeText(own), shapeText(shape))
		}
		shape, text = own, text[:m[3]]
	}
	if m := ofTensor.FindStringSubmatchIndex(text); m != nil && shape == nil {
		own, err := linear.ParseShape(strings.TrimSuffix(text[m[2]:m[3]], "x"))
		if err != nil {
			return Value{}, err
		}
		shape, text = own, strings.Repeat(" ", m[4])+text[m[4]:m[5]]
	}
	v, err := recognise(text, shape)
	if err != nil || shape == nil {
		return v, err
	}
	if has := v.shape(); has != nil && !slices.Equal(has, shape) {
		return Value{}, fail(eShape, "", "the layout has shape %s, not %s", shapeText(has), shapeText(shape))
	}
	return v, nil
}

var (
	firstWord = regexp.MustCompile(`^\s*\(*\s*(?:\w+\.)?([A-Za-z_][\w:]*)\s*[(<]`)
	nameOnly  = regexp.MustCompile(`^\s*[A-Za-z][\w.:<>,/ -]*$`)
	cuteStart = regexp.MustCompile(`^[\s(<]*_?\d`)
)

// recognise decides by the looks which notation a text is in, and reads it.
// mapLike are texts that begin as indexing maps do.
var mapLike = regexp.MustCompile(`^\(\s*\w+(\s*,\s*\w+)*\s*\)\s*(\[[^\]]*\])?\s*->`)

func recognise(text string, shape []int) (Value, error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return Value{}, fail(eUnknown, "write for example local(2, 1).spatial(8, 4)", "there is no layout in an empty text")
	case strings.HasPrefix(trimmed, "#ttg.") || strings.HasPrefix(trimmed, "#triton_gpu.") || strings.HasPrefix(trimmed, "#") && strings.Contains(trimmed, "<{"):
		l, err := linear.ParseTriton(text, shape)
		return linearValue(Triton, l), err
	case strings.Contains(trimmed, "->") || strings.Contains(trimmed, "where out dims") || trimmed == "(empty layout)":
		l, err := linear.Parse(text)
		if list, ok := err.(diag.List); ok && list[0].Help == "" && mapLike.MatchString(trimmed) {
			list[0].Help = "this looks like an indexing map, which is no layout: tilus-lab indexmap and the pane Indexing maps read those"
		}
		return linearValue(Linear, l), err
	}
	head := ""
	if m := firstWord.FindStringSubmatch(text); m != nil {
		head = m[1]
	}
	switch {
	case strings.HasPrefix(head, "shared_"):
		s, err := layout.ParseShared(text)
		return Value{form: listForm(text), kind: memory, shared: &s}, err
	case strings.HasPrefix(head, "global_"):
		g, err := layout.ParseGlobal(text)
		return Value{form: listForm(text), kind: memory, global: &g}, err
	case strings.HasPrefix(head, "tmemory_"):
		t, err := layout.ParseTMemory(text)
		return Value{form: Chain, kind: tensorMemory, tmem: &t}, err
	case slices.Contains(linear.Constructors(), head):
		l, err := linear.ParseTriton(text, shape)
		return linearValue(Triton, l), err
	case head == "Sw" || head == "Swizzle" || cuteStart.MatchString(text):
		return cuteValue(text, shape)
	}
	if nameOnly.MatchString(trimmed) && !strings.Contains(trimmed, "(") {
		return atomValue(trimmed)
	}
	inChain := has(layout.Functions(), head)
	inCuTe := has(cute.Functions(), head)
	if inCuTe && !inChain {
		return cuteValue(text, shape)
	}
	l, err := layout.Parse(text)
	if err == nil {
		return Value{form: listForm(text), kind: registers, regs: &l}, nil
	}
	if inCuTe { // a name that both notations have
		if v, cuteErr := cuteValue(text, shape); cuteErr == nil {
			return v, nil
		}
	}
	if head != "" && !inChain {
		return Value{}, unknownName(text, head, err)
	}
	return Value{}, err
}

// unknownName adds near names of the other notations to an error about a name.
func unknownName(text, head string, err error) error {
	var list diag.List
	if !errors.As(err, &list) || len(list) == 0 || strings.HasPrefix(list[0].Help, "did you mean") {
		return err
	}
	var names []string
	for _, table := range [][]layout.Function{cute.Functions(), layout.SharedFunctions(), layout.GlobalFunctions()} {
		for _, f := range table {
			names = append(names, f.Name)
		}
	}
	names = append(names, linear.Constructors()...)
	if help := diag.DidYouMean(head, names); help != "" {
		list[0].Help = help
	}
	return list
}

func has(table []layout.Function, name string) bool {
	return slices.ContainsFunc(table, func(f layout.Function) bool { return f.Name == name })
}

// listForm tells the form that lists numbers from chains.
func listForm(text string) string {
	m := firstWord.FindStringSubmatch(text)
	if m != nil && strings.HasSuffix(m[1], "_layout") || m != nil && m[1] == "RegisterLayout" {
		return FourPart
	}
	return Chain
}

func linearValue(form string, l linear.Layout) Value {
	v := Value{form: form, kind: general, lin: &l}
	thread := false
	for _, d := range l.In {
		switch d.Name {
		case linear.Offset:
			v.kind = memory
		case linear.Register, linear.Lane, linear.Warp, "R", "T", "W", "reg", "thread":
			thread = true
		}
	}
	if thread && v.kind == general {
		v.kind = registers
	}
	return v
}

func cuteValue(text string, shape []int) (Value, error) {
	e, err := cute.Eval(text)
	if err != nil {
		return Value{}, err
	}
	if s, ok := e.Swizzle(); ok {
		return Value{form: Swizzle, kind: swizzle, sw: s}, nil
	}
	// A list that is written out is a shape; one that was computed is an answer.
	if t, ok := e.Tuple(); ok && !cuteStart.MatchString(text) {
		if shape != nil {
			return Value{}, fail(eShape, "", "%s is a number or list, and lies on no tile", t)
		}
		return Value{form: CuTe, kind: number, num: t}, nil
	}
	c, ok := e.Composed()
	if !ok {
		return Value{}, fail(eUnknown, "write a layout such as (8,64):(64,1), or divide one: logical_divide((8,8),<4:1,2:1>)", "this is no layout but a %s: %s", e.Kind(), e)
	}
	if c.Layout.Coordinates() {
		l, tile, err := fromCoordinates(c.Layout)
		if err != nil {
			return Value{}, err
		}
		if shape == nil {
			shape = tile
		}
		c = cute.Composed{Layout: l}
	}
	if shape == nil {
		return Value{form: CuTe, kind: memory, composed: &c}, nil
	}
	if !c.Plain() {
		return Value{}, fail(eShape, "", "a layout of threads and values has no swizzle and no offset; %s is one of memory", c)
	}
	l, err := cute.ToRegister(c.Layout, shape...)
	if err != nil {
		return Value{}, err
	}
	return Value{form: CuTe, kind: registers, regs: &l}, nil
}

// fromCoordinates turns strides such as 2@0 into column-major offsets of the tile
// that the layout reaches.
func fromCoordinates(l cute.Layout) (cute.Layout, []int, error) {
	var tile []int
	size, stride := l.Shape().Leaves(), l.Stride().Leaves()
	for i, d := range stride {
		mode := d.Mode()
		if len(mode) > 1 || d.Int() < 0 {
			return l, nil, fail(eForm, "", "the coordinates of %s are nested or run backwards", l)
		}
		if len(mode) == 0 {
			continue
		}
		if mode[0] >= layout.MaxRank {
			return l, nil, fail(eForm, "", "mode %d of %s is beyond the %d dimensions of a tile", mode[0], l, layout.MaxRank)
		}
		for len(tile) <= mode[0] {
			tile = append(tile, 1)
		}
		if tile[mode[0]] += (size[i].Int() - 1) * d.Int(); tile[mode[0]] > layout.MaxCells {
			return l, nil, fail(eForm, "", "%s reaches beyond %d elements", l, layout.MaxCells)
		}
	}
	column, total := make([]int, len(tile)), 1
	for d, n := range tile {
		column[d] = total
		if total *= n; total > layout.MaxCells {
			return l, nil, fail(eForm, "", "%s reaches beyond %d elements", l, layout.MaxCells)
		}
	}
	next := 0
	var walk func(t cute.Tuple) cute.Tuple
	walk = func(t cute.Tuple) cute.Tuple {
		if t.IsInt() {
			d := stride[next]
			next++
			if mode := d.Mode(); len(mode) == 1 {
				return cute.Int(d.Int() * column[mode[0]])
			}
			return cute.Int(d.Int())
		}
		items := t.Items()
		for i := range items {
			items[i] = walk(items[i])
		}
		return cute.Of(items...)
	}
	out, err := cute.New(l.Shape(), walk(l.Shape()))
	return out, tile, err
}

func atomValue(name string) (Value, error) {
	a, err := arch.FindAtom(name)
	if err == nil {
		return Value{form: Atom, kind: instruction, atom: &a}, nil
	}
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		if a, headErr := arch.FindAtom(name[:i]); headErr == nil {
			o, ok := a.Operand(name[i+1:])
			if !ok {
				var names []string
				for _, o := range a.Operands {
					names = append(names, o.Name)
				}
				return Value{}, fail(eOpen, "", "%s has no operand %q; its operands are %s", a.Name, name[i+1:], strings.Join(names, ", "))
			}
			return operandValue(a, o), nil
		}
	}
	var functions []string
	for _, f := range layout.Functions() {
		functions = append(functions, f.Name)
	}
	help := diag.DidYouMean(name, functions)
	if _, more, ok := strings.Cut(err.Error(), "; "); ok && help == "" {
		help = more
	}
	if help == "" {
		help = "tilus-lab atom list names the instructions; a chain is such as local(2, 1).spatial(8, 4)"
	}
	return Value{}, fail(eUnknown, help, "%q is neither an instruction of the catalogue nor a layout", name)
}

func operandValue(a arch.Atom, o arch.Operand) Value {
	v := Value{form: Atom, kind: registers, atom: &a, operand: &o}
	if o.In != arch.Unspecified {
		l := o.Layout
		v.regs = &l
	}
	v.text = a.Name + "/" + o.Name
	return v
}

// Form names the notation that the text was in.
func (v Value) Form() string { return v.form }

// Text is what was read.
func (v Value) Text() string { return v.text }

// What says in words what was read: "register layout", "layout of memory",
// "linear map", "swizzle", "layout of tensor memory", "instruction", "operand" or
// "number".
func (v Value) What() string {
	switch {
	case v.operand != nil:
		return "operand"
	case v.kind == registers:
		return "register layout"
	case v.kind == memory:
		return "layout of memory"
	case v.kind == general:
		return "linear map"
	case v.kind == swizzle:
		return "swizzle"
	case v.kind == tensorMemory:
		return "layout of tensor memory"
	case v.kind == number:
		return "number"
	}
	return "instruction"
}

// Instruction is the catalogue's row and the name of the operand, "" for all of
// them, where the text named one.
func (v Value) Instruction() (a arch.Atom, operand string, ok bool) {
	if v.atom == nil {
		return arch.Atom{}, "", false
	}
	if v.operand != nil {
		operand = v.operand.Name
	}
	return *v.atom, operand, true
}

// Operand is the operand of an instruction that the text named.
func (v Value) Operand() (arch.Operand, bool) {
	if v.operand == nil {
		return arch.Operand{}, false
	}
	return *v.operand, true
}

// Parts are the operands of an instruction, or the value itself.
func (v Value) Parts() []Value {
	if v.kind != instruction {
		return []Value{v}
	}
	var out []Value
	for _, o := range v.atom.Operands {
		out = append(out, operandValue(*v.atom, o))
	}
	return out
}

// shape is the shape that the text itself gives, nil where it gives none.
func (v Value) shape() []int {
	switch {
	case v.regs != nil:
		return v.regs.Shape()
	case v.shared != nil:
		return v.shared.Shape()
	case v.global != nil:
		return v.global.Shape()
	case v.tmem != nil:
		return v.tmem.Shape()
	case v.lin != nil:
		return v.lin.Shape()
	}
	return nil
}

// Shape is the shape of the tile, tensor or memory; empty for swizzles.
func (v Value) Shape() []int {
	if v.composed != nil {
		out := []int{}
		for i := range v.composed.Layout.Rank() {
			out = append(out, v.composed.Layout.Mode(i).Size())
		}
		return out
	}
	return v.shape()
}

func shapeText(shape []int) string {
	if len(shape) == 0 {
		return "[]"
	}
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = fmt.Sprint(n)
	}
	return strings.Join(parts, "x")
}
