package hlo

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// maxProblems is how many problems are collected before reading stops.
const maxProblems = 100

// Parse reads the text of a module as XLA prints it and verifies it. The header
// may be missing, names may begin with %, operands may have their shapes before
// them; metadata and other attributes without meaning here are kept as text.
// Where no computation is marked ENTRY, the last one is the entry. The error is
// a [diag.List] whose positions are in file.
func Parse(file, src string) (*Module, error) {
	m, err := ParseUnverified(file, src)
	if err != nil {
		return nil, err
	}
	if err := Verify(m).Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// ParseUnverified is Parse without Verify: what it returns has resolved names
// and sizes without overflow, but shapes need not fit.
func ParseUnverified(file, src string) (*Module, error) {
	p := &parser{file: file, src: src, module: &Module{}}
	if len(src) > MaxText {
		p.list.Addf(diag.Pos{File: file}, codeLimit, "", "the text has %d bytes, at most %d", len(src), MaxText)
		return nil, p.list.Err()
	}
	p.toks = lex(src, func(line, col int) diag.Pos { return diag.Pos{File: file, Line: line, Col: col} }, &p.list)
	p.readModule()
	if err := p.list.Err(); err != nil {
		return nil, err
	}
	return p.module, nil
}

// ParseShape reads a shape such as f32[8,128]{0,1} or (f32[], s32[4]).
func ParseShape(text string) (Shape, error) {
	p := &parser{src: text}
	if len(text) > MaxText {
		p.list.Addf(diag.Pos{}, codeLimit, "", "the text has %d bytes, at most %d", len(text), MaxText)
		return Shape{}, p.list.Err()
	}
	p.toks = lex(text, func(line, col int) diag.Pos { return diag.Pos{Line: line, Col: col} }, &p.list)
	var s Shape
	p.try(func() {
		s = p.shape(0)
		if t := p.peek(); t.kind != tokEnd {
			p.fail(t, codeSyntax, "", "%s after the shape", describe(t))
		}
	})
	return s, p.list.Err()
}

type parser struct {
	file   string
	src    string
	toks   []token
	i      int
	list   diag.List
	module *Module
	count  int

	comp   *Computation
	names  map[string]*Instruction
	poison map[string]bool // names whose instruction could not be read
}

type bail struct{}

func (p *parser) peek() token { return p.toks[p.i] }
func (p *parser) next() token {
	t := p.toks[p.i]
	if t.kind != tokEnd {
		p.i++
	}
	return t
}
func (p *parser) is(text string) bool {
	t := p.peek()
	return t.kind != tokString && t.kind != tokEnd && t.text == text
}
func (p *parser) accept(text string) bool {
	if p.is(text) {
		p.i++
		return true
	}
	return false
}
func (p *parser) pos(t token) diag.Pos { return diag.Pos{File: p.file, Line: t.line, Col: t.col} }

// fail reports a problem and gives up what is being read.
func (p *parser) fail(t token, code, help, format string, args ...any) {
	p.list.Addf(p.pos(t), code, help, format, args...)
	panic(bail{})
}

// try runs read and says whether it was not given up.
func (p *parser) try(read func()) (ok bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, mine := r.(bail); !mine {
				panic(r)
			}
			ok = false
		}
	}()
	read()
	return true
}

func describe(t token) string {
	switch t.kind {
	case tokEnd:
		return "the end of the text"
	case tokBad:
		return fmt.Sprintf("%.20q", t.text)
	}
	if len(t.text) > 40 {
		return t.text[:40] + "…"
	}
	return t.text
}

func (p *parser) expect(text, where string) token {
	t := p.peek()
	if !p.accept(text) {
		p.fail(t, codeSyntax, "", "%s where %s needs %q", describe(t), where, text)
	}
	return t
}

func (p *parser) word(what string) token {
	t := p.peek()
	if t.kind != tokWord {
		p.fail(t, codeSyntax, "", "%s where %s must stand", describe(t), what)
	}
	return p.next()
}

func (p *parser) name(what string) (string, token) {
	t := p.word(what)
	n := strings.TrimPrefix(t.text, "%")
	if n == "" {
		p.fail(t, codeSyntax, "", "%s where %s must stand", describe(t), what)
	}
	return n, t
}

func (p *parser) int(what string) int {
	t := p.word(what)
	return p.intOf(t, t.text, what)
}

func (p *parser) intOf(t token, text, what string) int {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v > math.MaxInt64/4 || v < -math.MaxInt64/4 {
		p.fail(t, codeAttr, "", "%s is no number that %s can be", describe(t), what)
	}
	return int(v)
}

func (p *parser) readModule() {
	ok := p.try(func() {
		if p.accept("HloModule") {
			p.module.Name, _ = p.name("the name of the module")
			for p.accept(",") {
				n, _ := p.name("the name of an attribute")
				p.expect("=", "the attribute")
				p.module.Extra = append(p.module.Extra, Attr{n, p.raw()})
			}
		}
	})
	if !ok {
		return
	}
	for p.peek().kind != tokEnd && len(p.list) < maxProblems {
		if !p.try(p.readComputation) {
			// The rest of a computation whose head cannot be read means nothing.
			break
		}
	}
	if len(p.list) > 0 {
		return
	}
	if len(p.module.Computations) == 0 {
		p.list.Addf(p.pos(p.peek()), codeSyntax, "write ENTRY main { … }", "there is no computation")
		return
	}
	if p.module.Entry == nil {
		p.module.Entry = p.module.Computations[len(p.module.Computations)-1]
	}
}

func (p *parser) readComputation() {
	entryTok := p.peek()
	entry := p.accept("ENTRY")
	name, t := p.name("a computation")
	if p.module.Find(name) != nil {
		p.fail(t, codeTwice, "", "there are two computations %s", name)
	}
	if entry && p.module.Entry != nil {
		p.fail(entryTok, codeRoot, "", "there is a second ENTRY; the first is %s", p.module.Entry.Name)
	}
	if p.accept("(") { // the signature says what the instructions say again
		for !p.accept(")") {
			p.name("a parameter")
			p.expect(":", "a parameter")
			p.shape(0)
			if !p.is(")") {
				p.expect(",", "the list of parameters")
			}
		}
		p.expect("->", "the signature")
		p.shape(0)
	}
	p.expect("{", "a computation")
	p.comp = &Computation{Name: name, Pos: p.pos(t)}
	p.names, p.poison = map[string]*Instruction{}, map[string]bool{}
	broken := false
	for !p.is("}") {
		if p.peek().kind == tokEnd {
			p.fail(p.peek(), codeSyntax, "", "the computation %s does not end", name)
		}
		start := p.i
		if !p.try(p.readInstruction) {
			broken = true
			if len(p.list) >= maxProblems {
				panic(bail{})
			}
			p.skipInstruction(start)
		}
	}
	p.next()
	for p.accept(",") { // execution_thread="…"
		p.name("the name of an attribute")
		p.expect("=", "the attribute")
		p.raw()
	}
	c := p.comp
	switch {
	case broken:
	case len(c.Instructions) == 0:
		p.fail(t, codeRoot, "", "the computation %s is empty", name)
	case c.Root == nil:
		c.Root = c.Instructions[len(c.Instructions)-1]
	}
	for _, in := range c.Instructions {
		if in.Op == Parameter {
			c.Params = append(c.Params, in)
		}
	}
	slices.SortStableFunc(c.Params, func(a, b *Instruction) int { return a.Number - b.Number })
	p.module.Computations = append(p.module.Computations, c)
	if entry {
		p.module.Entry = c
	}
}

// skipInstruction goes to the next line that begins an instruction or ends the
// computation, and remembers the name that the line at start would have defined.
func (p *parser) skipInstruction(start int) {
	t := p.toks[start]
	if t.text == "ROOT" && t.kind == tokWord {
		t = p.toks[start+1]
	}
	p.poison[strings.TrimPrefix(t.text, "%")] = true
	line := p.toks[start].line
	p.i = max(p.i, start+1)
	for {
		t := p.peek()
		if t.kind == tokEnd {
			return
		}
		if t.line > line && (p.i == 0 || p.toks[p.i-1].line < t.line) {
			k := p.i
			if p.toks[k].text == "ROOT" {
				k++
			}
			if t.text == "}" || p.toks[k].kind == tokWord && p.toks[min(k+1, len(p.toks)-1)].text == "=" {
				return
			}
		}
		p.i++
	}
}

func (p *parser) readInstruction() {
	rootTok := p.peek()
	root := p.accept("ROOT")
	name, nameTok := p.name("the name of an instruction")
	p.expect("=", "an instruction")
	if p.count++; p.count > MaxInstructions {
		p.fail(nameTok, codeLimit, "", "more than %d instructions", MaxInstructions)
	}
	in := &Instruction{Name: name, Pos: p.pos(nameTok)}
	in.Shape = p.shape(0)
	opTok := p.word("an operation")
	op, ok := ParseOp(opTok.text)
	if !ok {
		p.fail(opTok, codeOp, diag.DidYouMean(opTok.text, opNames()), "there is no operation %s", describe(opTok))
	}
	in.Op = op
	p.expect("(", "the operation "+op.String())
	switch op {
	case Parameter:
		in.Number = p.int("the number of a parameter")
		p.expect(")", "the operation")
	case Constant:
		p.literal(in)
		p.expect(")", "the literal")
	default:
		for !p.accept(")") {
			in.Operands = append(in.Operands, p.operand())
			if !p.is(")") {
				p.expect(",", "the list of operands")
			}
		}
	}
	for p.accept(",") {
		n, _ := p.name("the name of an attribute")
		p.expect("=", "the attribute "+n)
		p.attr(in, n)
	}
	if t := p.peek(); t.line == p.toks[p.i-1].line && t.text != "}" && t.kind != tokEnd {
		p.fail(t, codeSyntax, "", "%s after the instruction %s", describe(t), name)
	}
	if p.names[name] != nil {
		p.fail(nameTok, codeTwice, "", "there are two instructions %s in %s", name, p.comp.Name)
	}
	if root {
		if p.comp.Root != nil {
			p.fail(rootTok, codeRoot, "", "there is a second ROOT; the first is %s", p.comp.Root.Name)
		}
		p.comp.Root = in
	}
	p.names[name] = in
	in.Index = len(p.comp.Instructions)
	p.comp.Instructions = append(p.comp.Instructions, in)
}

func (p *parser) operand() *Instruction {
	var typed *Shape
	typeTok := p.peek()
	if p.is("(") || p.i+1 < len(p.toks) && p.toks[p.i+1].text == "[" && p.toks[p.i+1].kind == tokPunct {
		s := p.shape(0)
		typed = &s
	}
	n, t := p.name("an operand")
	in := p.names[n]
	if in == nil {
		if p.poison[n] {
			panic(bail{}) // its own problem has been told
		}
		known := make([]string, 0, len(p.comp.Instructions))
		for _, o := range p.comp.Instructions {
			known = append(known, o.Name)
		}
		p.fail(t, codeName, diag.DidYouMean(n, known), "%s is no instruction further up in %s", n, p.comp.Name)
	}
	if typed != nil && !typed.Same(in.Shape) {
		p.fail(typeTok, codeResult, "", "%s is %s, not %s", n, in.Shape, typed)
	}
	return in
}

// shape reads TYPE[SIZES]{LAYOUT} or a tuple.
func (p *parser) shape(depth int) Shape {
	t := p.peek()
	if p.accept("(") {
		if depth > 8 {
			p.fail(t, codeShape, "", "tuples nest more than 8 deep")
		}
		s := Shape{Type: TupleType}
		for !p.accept(")") {
			s.Elems = append(s.Elems, p.shape(depth+1))
			if !p.is(")") {
				p.expect(",", "a tuple")
			}
		}
		return s
	}
	p.word("a shape")
	s := Shape{}
	var ok bool
	if s.Type, ok = ParseType(t.text); !ok {
		if t.text != "token" {
			var names []string
			for _, k := range Types() {
				names = append(names, k.String())
			}
			p.fail(t, codeShape, diag.DidYouMean(t.text, names), "there is no element type %s", describe(t))
		}
		s.Type = TokenType
	}
	p.expect("[", "a shape")
	s.Dims = []int{}
	for !p.accept("]") {
		d := p.peek()
		if p.is("<") || p.is("?") {
			p.fail(d, codeShape, "", "sizes known only at run time are not supported")
		}
		p.word("a size")
		v, err := strconv.ParseUint(d.text, 10, 62)
		if err != nil {
			p.fail(d, codeShape, "", "%s is no size", describe(d))
		}
		s.Dims = append(s.Dims, int(v))
		if !p.is("]") {
			p.expect(",", "a shape")
		}
	}
	if why := s.checkSize(); why != "" {
		p.fail(t, codeSize, "", "the array has %s", why)
	}
	if p.is("{") && p.peek().start == p.toks[p.i-1].end { // else the body of a computation
		p.layout(&s)
	}
	return s
}

func (p *parser) layout(s *Shape) {
	open := p.next()
	order := []int{}
	for !p.is("}") && !p.is(":") {
		order = append(order, p.int("a layout"))
		if !p.is("}") && !p.is(":") {
			p.expect(",", "a layout")
		}
	}
	if p.accept(":") { // tiles, element size, memory space
		for depth := 0; ; {
			t := p.peek()
			if t.kind == tokEnd {
				p.fail(t, codeShape, "", "the layout does not end")
			}
			if depth == 0 && p.is("}") {
				break
			}
			switch t.text {
			case "(":
				depth++
			case ")":
				depth--
			}
			p.next()
		}
	}
	p.expect("}", "a layout")
	sorted := slices.Sorted(slices.Values(order))
	for i, d := range sorted {
		if d != i {
			p.fail(open, codeShape, "", "the layout {%s} is no order of dimensions", commas(order))
		}
	}
	if len(order) != len(s.Dims) {
		p.fail(open, codeShape, "", "the layout {%s} has %d dimensions, the shape %d", commas(order), len(order), len(s.Dims))
	}
	s.Layout = order
	if s.RowMajor() {
		s.Layout = nil
	}
}

// raw takes the text of a value up to the comma or line end behind it.
func (p *parser) raw() string {
	first := p.peek()
	depth, end := 0, first.start
	for {
		t := p.peek()
		if t.kind == tokEnd || t.kind == tokBad {
			if depth > 0 || t.kind == tokBad {
				p.fail(t, codeSyntax, "", "%s inside the value of an attribute", describe(t))
			}
			break
		}
		if depth == 0 && (p.is(",") || p.is("}") || p.is(")") || t.line > p.toks[max(p.i-1, 0)].line && end > first.start) {
			break
		}
		if t.kind == tokPunct {
			switch t.text {
			case "{", "[", "(":
				depth++
			case "}", "]", ")":
				depth--
			}
		}
		end = t.end
		p.next()
	}
	if end == first.start {
		p.fail(first, codeSyntax, "", "%s where the value of an attribute must stand", describe(first))
	}
	return p.src[first.start:end]
}

// ints reads {1,2,3}.
func (p *parser) ints(what string) []int {
	p.expect("{", what)
	out := []int{}
	for !p.accept("}") {
		out = append(out, p.int(what))
		if !p.is("}") {
			p.expect(",", what)
		}
	}
	return out
}

func (p *parser) bool(what string) bool {
	t := p.word(what)
	if t.text != "true" && t.text != "false" {
		p.fail(t, codeAttr, "", "%s is true or false, not %s", what, describe(t))
	}
	return t.text == "true"
}

func (p *parser) called(what string) *Computation {
	n, t := p.name(what)
	c := p.module.Find(n)
	if c == nil {
		var known []string
		for _, k := range p.module.Computations {
			known = append(known, k.Name)
		}
		p.fail(t, codeCalled, diag.DidYouMean(n, known), "there is no computation %s further up", n)
	}
	if c.Root == nil {
		panic(bail{}) // it could not be read
	}
	return c
}

// attr reads the value of an attribute into the instruction.
func (p *parser) attr(in *Instruction, name string) {
	dot := func() *DotDims {
		if in.Dot == nil {
			in.Dot = &DotDims{}
		}
		return in.Dot
	}
	gather := func() *GatherDims {
		if in.Gather == nil {
			in.Gather = &GatherDims{IndexVector: -1}
		}
		return in.Gather
	}
	scatter := func() *ScatterDims {
		if in.Scatter == nil {
			in.Scatter = &ScatterDims{IndexVector: -1}
		}
		return in.Scatter
	}
	conv := func() *ConvDims {
		if in.Conv == nil {
			in.Conv = &ConvDims{FeatureGroups: 1, BatchGroups: 1, InBatch: -1}
		}
		return in.Conv
	}
	if !slices.Contains(in.Op.Row().Attrs, name) {
		in.Extra = append(in.Extra, Attr{name, p.raw()})
		return
	}
	switch name {
	case "iota_dimension", "num_carries":
		in.Number = p.int(name)
	case "index":
		in.Number = p.int(name)
	case "dimensions":
		in.Dims = p.ints(name)
	case "dynamic_slice_sizes", "slice_sizes":
		in.Sizes = p.ints(name)
	case "exponent_bits":
		in.Sizes = append([]int{p.int(name)}, in.Sizes...)
	case "mantissa_bits":
		in.Sizes = append(in.Sizes, p.int(name))
	case "direction":
		d := p.word(name)
		if !slices.Contains([]string{"EQ", "NE", "LT", "LE", "GT", "GE"}, d.text) {
			p.fail(d, codeAttr, "", "a direction is EQ NE LT LE GT or GE, not %s", describe(d))
		}
		in.Direction = d.text
	case "slice":
		p.slices(in)
	case "padding":
		p.padding(in)
	case "window":
		p.window(in)
	case "lhs_batch_dims":
		dot().LHSBatch = p.ints(name)
	case "rhs_batch_dims":
		dot().RHSBatch = p.ints(name)
	case "lhs_contracting_dims":
		dot().LHSContract = p.ints(name)
	case "rhs_contracting_dims":
		dot().RHSContract = p.ints(name)
	case "offset_dims":
		gather().Offset = p.ints(name)
	case "collapsed_slice_dims":
		gather().Collapsed = p.ints(name)
	case "start_index_map":
		gather().StartMap = p.ints(name)
	case "operand_batching_dims":
		gather().OperandBatch = p.ints(name)
	case "start_indices_batching_dims":
		gather().IndexBatch = p.ints(name)
	case "update_window_dims":
		scatter().UpdateWindow = p.ints(name)
	case "inserted_window_dims":
		scatter().Inserted = p.ints(name)
	case "scatter_dims_to_operand_dims":
		scatter().ToOperand = p.ints(name)
	case "input_batching_dims":
		scatter().InputBatch = p.ints(name)
	case "scatter_indices_batching_dims":
		scatter().IndexBatch = p.ints(name)
	case "index_vector_dim":
		if in.Op == Scatter {
			scatter().IndexVector = p.int(name)
		} else {
			gather().IndexVector = p.int(name)
		}
	case "dim_labels":
		p.labels(conv())
	case "feature_group_count":
		conv().FeatureGroups = p.int(name)
	case "batch_group_count":
		conv().BatchGroups = p.int(name)
	case "indices_are_sorted":
		in.Sorted = p.bool(name)
	case "unique_indices":
		in.Unique = p.bool(name)
	case "to_apply", "calls":
		in.Apply = p.called("the called computation")
	case "kind":
		in.Kind = p.word(name).text
	default:
		in.Extra = append(in.Extra, Attr{name, p.raw()})
	}
}

// slices reads {[0:5], [1:6:2]}.
func (p *parser) slices(in *Instruction) {
	p.expect("{", "slice")
	in.Slices = []SliceDim{}
	for !p.accept("}") {
		p.expect("[", "slice")
		s := SliceDim{Start: p.int("a slice"), Stride: 1}
		p.expect(":", "slice")
		s.Limit = p.int("a slice")
		if p.accept(":") {
			s.Stride = p.int("a slice")
		}
		p.expect("]", "slice")
		in.Slices = append(in.Slices, s)
		if !p.is("}") {
			p.expect(",", "slice")
		}
	}
}

// padding reads 1_4_1x0_0: low, high and interior of every dimension.
func (p *parser) padding(in *Instruction) {
	t := p.word("padding")
	in.Pads = []PadDim{}
	for _, part := range strings.Split(t.text, "x") {
		v := p.underscored(t, part, "padding")
		if len(v) != 2 && len(v) != 3 {
			p.fail(t, codeAttr, "write low_high or low_high_interior for every dimension, with x between them", "%q is no padding of a dimension", part)
		}
		d := PadDim{Lo: v[0], Hi: v[1]}
		if len(v) == 3 {
			d.Interior = v[2]
		}
		in.Pads = append(in.Pads, d)
	}
}

func (p *parser) underscored(t token, text, what string) []int {
	var out []int
	for _, s := range strings.Split(text, "_") {
		out = append(out, p.intOf(t, s, what))
	}
	return out
}

// window reads {size=3x5 pad=0_0x0_0 …}.
func (p *parser) window(in *Instruction) {
	p.expect("{", "window")
	set := func(t token, parts []string, f func(d *WindowDim, s string)) {
		if in.Window == nil {
			in.Window = make([]WindowDim, len(parts))
			for i := range in.Window {
				in.Window[i] = WindowDim{Size: 1, Stride: 1, BaseDilation: 1, WindowDilation: 1}
			}
		}
		if len(parts) != len(in.Window) {
			p.fail(t, codeAttr, "", "the window has %d dimensions here and %d before", len(parts), len(in.Window))
		}
		for i, s := range parts {
			f(&in.Window[i], s)
		}
	}
	for !p.accept("}") {
		key := p.word("a part of the window")
		p.expect("=", "window")
		t := p.word("a part of the window")
		parts := strings.Split(t.text, "x")
		number := func(field func(*WindowDim) *int) func(*WindowDim, string) {
			return func(d *WindowDim, s string) { *field(d) = p.intOf(t, s, "a window") }
		}
		switch key.text {
		case "size":
			set(t, parts, number(func(d *WindowDim) *int { return &d.Size }))
		case "stride":
			set(t, parts, number(func(d *WindowDim) *int { return &d.Stride }))
		case "lhs_dilate":
			set(t, parts, number(func(d *WindowDim) *int { return &d.BaseDilation }))
		case "rhs_dilate":
			set(t, parts, number(func(d *WindowDim) *int { return &d.WindowDilation }))
		case "rhs_reversal":
			set(t, parts, func(d *WindowDim, s string) { d.Reverse = p.intOf(t, s, "a reversal") != 0 })
		case "pad":
			set(t, parts, func(d *WindowDim, s string) {
				v := p.underscored(t, s, "padding")
				if len(v) != 2 {
					p.fail(t, codeAttr, "", "%q is no padding of a window", s)
				}
				d.Lo, d.Hi = v[0], v[1]
			})
		default:
			p.fail(key, codeAttr, diag.DidYouMean(key.text, []string{"size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"}),
				"a window has no %s", describe(key))
		}
	}
	if in.Window == nil {
		in.Window = []WindowDim{}
	}
}

// labels reads b01f_i01o->b01f.
func (p *parser) labels(c *ConvDims) {
	t := p.word("dim_labels")
	p.expect("->", "dim_labels")
	out := p.word("dim_labels")
	in, kernel, ok := strings.Cut(t.text, "_")
	side := func(text string, a, b byte) (one, two int, spatial []int) {
		one, two = strings.IndexByte(text, a), strings.IndexByte(text, b)
		for i := 0; i < len(text)-2; i++ {
			k := strings.IndexByte(text, byte('0'+i))
			ok = ok && k >= 0
			spatial = append(spatial, k)
		}
		ok = ok && one >= 0 && two >= 0 && len(text) <= 8
		return
	}
	c.InBatch, c.InFeature, c.InSpatial = side(in, 'b', 'f')
	c.KernelIn, c.KernelOut, c.KernelSpatial = side(kernel, 'i', 'o')
	c.OutBatch, c.OutFeature, c.OutSpatial = side(out.text, 'b', 'f')
	if !ok || len(in) != len(kernel) || len(in) != len(out.text) {
		p.fail(t, codeAttr, "", "%s->%s are no labels such as b01f_i01o->b01f", t.text, out.text)
	}
}

// literal reads the value of a constant.
func (p *parser) literal(in *Instruction) {
	s := in.Shape
	first := p.peek()
	elem := s.Type.Elem()
	if elem == 0 || p.is("{") && p.toks[p.i+1].text == "..." {
		for depth := 0; ; p.next() {
			t := p.peek()
			if t.kind == tokEnd {
				p.fail(t, codeLiteral, "", "the literal does not end")
			}
			if depth == 0 && p.is(")") {
				return
			}
			switch t.text {
			case "{", "(":
				depth++
			case "}", ")":
				depth--
			}
		}
	}
	if s.Elements() > MaxLiteral {
		p.fail(first, codeLimit, "", "the constant has %d elements, at most %d", s.Elements(), MaxLiteral)
	}
	codes := make([]uint64, 0, s.Elements())
	var read func(dims []int)
	read = func(dims []int) {
		t := p.peek()
		if len(dims) == 0 {
			p.word("a number")
			code, ok := ParseNumber(s.Type, t.text)
			if !ok {
				p.fail(t, codeLiteral, "", "%s is no %s", describe(t), s.Type)
			}
			codes = append(codes, code)
			return
		}
		p.expect("{", "a literal of "+s.String())
		for i := range dims[0] {
			if i > 0 {
				if p.is("}") {
					p.fail(p.peek(), codeLiteral, "", "%d values where %s has %d", i, s, dims[0])
				}
				p.expect(",", "a literal")
			}
			read(dims[1:])
		}
		if !p.is("}") {
			p.fail(p.peek(), codeLiteral, "", "more values than %s has", s)
		}
		p.next()
	}
	if p.is("{") {
		read(s.Dims)
	} else { // one number stands for all
		read(nil)
		for len(codes) < s.Elements() {
			codes = append(codes, codes[0])
		}
		codes = codes[:s.Elements()]
	}
	in.Value = array.FromCodes(elem, nonNil(s.Dims), codes)
}

// ParseNumber reads an element of a literal. It refuses whole numbers that do
// not fit the type; other numbers are rounded to it.
func ParseNumber(t Type, text string) (code uint64, ok bool) {
	e := t.Elem()
	switch {
	case e == 0:
		return 0, false
	case t == Pred:
		switch text {
		case "true", "1":
			return 1, true
		case "false", "0":
			return 0, true
		}
		return 0, false
	case t.IsFloat():
		if strings.HasPrefix(text, "nan") || strings.HasPrefix(text, "-nan") {
			return e.Encode(math.NaN(), false), true
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(v, 0) {
			return 0, false
		}
		return e.Encode(v, false), true
	case t.Signed():
		v, err := strconv.ParseInt(text, 10, t.Bits())
		return e.EncodeInt(v, false), err == nil
	}
	v, err := strconv.ParseUint(text, 10, t.Bits())
	return v, err == nil
}
