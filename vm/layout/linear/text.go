package linear

import (
	"fmt"
	"strconv"
	"strings"
)

// String is the layout as Triton prints it, over several lines. [Parse] reads it
// back.
func (l Layout) String() string {
	if len(l.In) == 0 && len(l.Out) == 0 {
		return "(empty layout)"
	}
	var b strings.Builder
	for _, d := range l.In {
		if len(d.Bases) == 0 {
			fmt.Fprintf(&b, " - %s is a size 1 dimension\n", d.Name)
		}
		for k, v := range d.Bases {
			mark := " - "
			if k > 0 {
				mark = "   "
			}
			fmt.Fprintf(&b, "%s%s=%d -> (%s)\n", mark, d.Name, 1<<k, join(v))
		}
	}
	b.WriteString("where out dims are: [")
	for i, o := range l.Out {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (size %d)", o.Name, o.Size)
	}
	b.WriteString("]")
	return b.String()
}

// Attr is the layout as an attribute of Triton's MLIR on one line: ttg.linear, or
// ttg.shared_linear where it has a dimension "offset". The attribute says no
// sizes: they are the least that hold all bases.
func (l Layout) Attr() string {
	name := "linear"
	if _, ok := l.InDim(Offset); ok {
		name = "shared_linear"
	}
	var b strings.Builder
	b.WriteString("#ttg." + name + "<{")
	for i, d := range l.In {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(d.Name + " = " + vectorsText(d.Bases))
	}
	b.WriteString("}")
	if name == "shared_linear" { // Triton wants it in bytes
		b.WriteString(", alignment = 16")
	}
	b.WriteString(">")
	return b.String()
}

func vectorsText(bases [][]int) string {
	parts := make([]string, len(bases))
	for i, v := range bases {
		parts[i] = "[" + join(v) + "]"
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// Parse reads a linear layout: as [Layout.String] and Triton print it, as a
// #ttg.linear attribute, or as a block of bases with a signature such as
//
//	accumulator: [T, W, R] -> [A, B]
//	T: [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]
//	W: []
//	R: [[0, 1], [8, 0]]
//
// Sizes that the text does not say are the least that hold all bases. The error is
// a diag.List with columns; [Rules] explains its codes.
func Parse(text string) (Layout, error) {
	return guard(text, func(p *parser) Layout {
		switch {
		case p.tok.kind == 'w' && strings.HasPrefix(p.word(), "#"):
			return p.encoding(nil)
		case p.atConstructor():
			at := p.tok
			return p.layoutOf(p.construct(), nil, at)
		case p.is("("):
			p.next()
			p.expectWord("empty")
			p.expectWord("layout")
			p.expect(")", "after (empty layout")
			return Layout{}
		case p.tok.kind == 'w' && p.peekSign(":") && !p.say("where"), p.is("["):
			return p.block()
		}
		return p.printed()
	})
}

func (p *parser) peekSign(sign string) bool {
	t := p.peek()
	return t.kind == 's' && p.text[t.start:t.end] == sign
}

// printed reads what String prints.
func (p *parser) printed() Layout {
	first := p.tok
	var in []Dim
	for p.is("-") || p.tok.kind == 'w' && !p.say("where") {
		if p.is("-") {
			p.next()
		}
		at := p.tok
		name := p.name("the name of an input dimension")
		if len(in) == 0 || in[len(in)-1].Name != name {
			if len(in) == MaxDims {
				p.problem(at, eDims, "", "the layout has more than %d input dimensions", MaxDims)
			}
			in = append(in, Dim{Name: name})
		}
		d := &in[len(in)-1]
		if p.say("is") {
			p.next()
			p.expectWord("a")
			p.expectWord("size")
			if n := p.number(); n != 1 || len(d.Bases) > 0 {
				p.problem(at, eSyntax, "", "%s has bases, or a size that they should say", name)
			}
			p.expectWord("dimension")
			continue
		}
		p.expect("=", "after "+name)
		place := p.tok
		if n := p.number(); n != 1<<len(d.Bases) {
			p.problem(place, eBasis, "", "the bases of %s are those of 1, 2, 4, …; %d is wanted here, not %d", name, 1<<len(d.Bases), n)
		}
		p.expect("->", "after the place")
		d.Bases = append(d.Bases, p.numbers("(", ")"))
	}
	p.expectWord("where")
	p.expectWord("out")
	p.expectWord("dims")
	p.expectWord("are")
	p.expect(":", "after \"where out dims are\"")
	p.expect("[", "before the output dimensions")
	var out []OutDim
	for !p.is("]") {
		o := OutDim{Name: p.name("the name of an output dimension")}
		if p.is("(") {
			p.next()
			p.expectWord("size")
			o.Size = p.number()
			p.expect(")", "after the size")
		}
		out = append(out, o)
		if !p.is(",") {
			break
		}
		p.next()
	}
	p.expect("]", "after the output dimensions")
	return p.finish(first, in, out)
}

// finish fills sizes that are zero and checks the layout.
func (p *parser) finish(at token, in []Dim, out []OutDim) Layout {
	for j := range out {
		if out[j].Size != 0 {
			continue
		}
		out[j].Size = 1
		for _, d := range in {
			for _, b := range d.Bases {
				for j < len(b) && out[j].Size <= b[j] {
					out[j].Size *= 2
				}
			}
		}
	}
	l, err := New(in, out)
	at.end = p.end
	p.check(at, err)
	return l
}

// block reads a signature and a list of bases for each input dimension.
func (p *parser) block() Layout {
	first := p.tok
	if p.tok.kind == 'w' {
		p.next()
		p.expect(":", "after the name")
	}
	names := func() []string {
		p.expect("[", "before the names of dimensions")
		var list []string
		for !p.is("]") {
			list = append(list, p.name("the name of a dimension"))
			if !p.is(",") {
				break
			}
			p.next()
		}
		p.expect("]", "after the names")
		return list
	}
	ins := names()
	p.expect("->", "between the input and the output dimensions")
	outs := names()
	in := make([]Dim, len(ins))
	for i, name := range ins {
		if p.tok.kind == 'w' {
			if p.word() != name {
				p.problem(p.tok, eSyntax, "", "the bases of %s are wanted here, not those of %s", name, p.word())
			}
			p.next()
			p.expect(":", "after "+name)
		}
		in[i] = Dim{name, p.vectors()}
	}
	out := make([]OutDim, len(outs))
	for i, name := range outs {
		out[i].Name = name
	}
	return p.finish(first, in, out)
}

// value is a value of an attribute: an int, a bool or bare name (string), a list
// ([]value), a dictionary ([]field) or an attribute (*attribute).
type value struct {
	at token
	v  any
}

type field struct {
	name string
	at   token
	value
}

// attribute is "#ttg.name<{fields}>".
type attribute struct {
	name   string // without dialect
	at     token
	fields []field
}

// encoding reads definitions such as "#mma = #ttg.nvidia_mma<{…}>", and then the
// encoding that is meant: the last of them, or one that stands alone.
func (p *parser) encoding(shape []int) Layout {
	names := map[string]*attribute{}
	for {
		at := p.tok
		if p.peekSign("=") {
			name := p.name("a name")
			p.next()
			a := p.attribute(names)
			names[name] = a
			if p.tok.kind != 0 {
				continue
			}
			return p.layoutOf(a, shape, at)
		}
		a := p.attribute(names)
		return p.layoutOf(a, shape, at)
	}
}

// layoutOf evaluates an attribute; problems without a place stand at it.
func (p *parser) layoutOf(a *attribute, shape []int, at token) Layout {
	at.end = p.end
	l, err := (&encoder{p}).layout(a, shape)
	p.check(at, err)
	return l
}

func (p *parser) attribute(names map[string]*attribute) *attribute {
	at := p.tok
	word := p.name("an encoding such as #ttg.blocked")
	if !strings.HasPrefix(word, "#") {
		p.problem(at, eSyntax, "", "an encoding such as #ttg.blocked<{…}> is wanted here, not %q", word)
	}
	if a, ok := names[word]; ok && !p.is("<") {
		return a
	}
	if !p.is("<") {
		p.problem(at, eEncoding, "write its definition before it: "+word+" = #ttg.blocked<{…}>", "%s stands for an encoding that the text does not define", word)
	}
	p.next()
	a := &attribute{name: word[strings.LastIndexAny(word, ".#")+1:], at: at}
	a.fields = p.dictionary(names)
	for p.is(",") { // as in shared_linear<{…}, alignment = 16>
		p.next()
		f := field{at: p.tok, name: p.name("the name of a parameter")}
		p.expect("=", "after "+f.name)
		f.value = p.value(names)
		a.fields = append(a.fields, f)
	}
	p.expect(">", "to close "+word+"<")
	return a
}

func (p *parser) dictionary(names map[string]*attribute) []field {
	p.enter()
	defer p.leave()
	p.expect("{", "before the parameters")
	var fields []field
	for !p.is("}") {
		f := field{at: p.tok, name: p.name("the name of a parameter")}
		for _, g := range fields {
			if g.name == f.name {
				p.problem(f.at, eEncoding, "", "%s is given twice", f.name)
			}
		}
		p.expect("=", "after "+f.name)
		f.value = p.value(names)
		fields = append(fields, f)
		if !p.is(",") {
			break
		}
		p.next()
	}
	p.expect("}", "after the parameters")
	return fields
}

func (p *parser) value(names map[string]*attribute) value {
	p.enter()
	defer p.leave()
	at := p.tok
	var v any
	switch {
	case p.tok.kind == 'n' || p.is("-"):
		v = p.number()
	case p.is("{"):
		v = p.dictionary(names)
	case p.is("["):
		p.next()
		list := []value{}
		for !p.is("]") {
			list = append(list, p.value(names))
			if !p.is(",") {
				break
			}
			p.next()
		}
		p.expect("]", "to close the list")
		v = list
	case p.tok.kind == 'w' && p.word()[0] == '#':
		v = p.attribute(names)
	case p.atConstructor():
		v = p.construct()
	case p.tok.kind == 'w':
		v = p.word()
		p.next()
	default:
		p.problem(at, eSyntax, "", "a value is wanted here, not %s", p.quote())
	}
	at.end = p.end
	return value{at, v}
}

// ParseShape reads "16x64", "[16, 64]" or "(16, 64)"; "[]" is the shape without
// dimensions.
func ParseShape(text string) ([]int, error) {
	t := strings.TrimSpace(text)
	sep := "x"
	if len(t) > 1 && (t[0] == '[' && t[len(t)-1] == ']' || t[0] == '(' && t[len(t)-1] == ')') {
		t, sep = t[1:len(t)-1], ","
	}
	shape := []int{}
	if sep == "," && strings.TrimSpace(t) == "" {
		return shape, nil
	}
	for _, s := range strings.Split(t, sep) {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, fail(eShape, "", "%q is no shape; write it as 16x64", text)
		}
		shape = append(shape, n)
	}
	return shape, nil
}
