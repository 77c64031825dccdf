// Package given reads what the explorer's panes are given of a launch: arguments, a
// line each, and names of variables. All of it is bounded: anybody's link can ask for it.
package given

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/follow"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// MaxElements is how many elements an argument or a tile may have.
const MaxElements = 1 << 16

func at(param string) diag.Pos { return diag.Pos{File: param, Line: 1, Col: 1} }

// Tile says which register tensors there are, where the parameter x names none of them.
func Tile(p *ir.Program, text string) error {
	name := strings.TrimSpace(text)
	if name == "" {
		return nil
	}
	var tiles []string
	what := ""
	note := func(v *ir.Var) {
		if v.Type.IsRegister() && !slices.Contains(tiles, v.Name) {
			tiles = append(tiles, v.Name)
		} else if v.Name == name {
			what = v.Type.String()
		}
	}
	for _, v := range p.Params {
		note(v)
	}
	p.Body.Walk(func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Instr:
			for _, v := range s.Out {
				note(v)
			}
		case *ir.Let:
			note(s.Var)
		case *ir.For:
			note(s.Var)
		}
		return true
	})
	if slices.Contains(tiles, name) {
		return nil
	}
	begin := 1 + strings.Index(text, name)
	bad := diag.Problem{Pos: diag.Pos{File: "x", Line: 1, Col: begin}, End: diag.Pos{File: "x", Line: 1, Col: begin + len(name)}, Code: "Pane.E31", Msg: fmt.Sprintf("%s has no variable %.40q", p.Name, name)}
	if what != "" {
		bad.Msg = fmt.Sprintf("%s is %s, no register tensor: its value stands below", name, what)
	}
	bad.Help = "there are " + strings.Join(tiles, ", ")
	if s := diag.Suggest(name, tiles); s != "" && what == "" {
		bad.Help = "did you mean " + s + "? " + bad.Help
	}
	bad.Help += "; leave it empty for the one that was assigned last"
	return diag.List{bad}
}

// Args makes the arguments of a launch that is small enough to be run for a picture.
func Args(p *ir.Program, text string) ([]ir.Arg, error) {
	var bad diag.List
	large := func(what string, n int) error {
		bad.Addf(at("src"), "Pane.E20", "run it with tilus-lab run, or in a notebook", "%s has %d elements; the debugger takes up to %d", what, n, MaxElements)
		return bad
	}
	var failed error
	p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if !ok {
			return true
		}
		for _, v := range in.Out {
			if v.Type.IsRegister() && v.Type.HasLayout && v.Type.Layout.Size() > MaxElements && failed == nil {
				failed = large(v.Name, v.Type.Layout.Size())
			}
			if v.Type.IsGlobal() && len(in.In) == 0 && failed == nil {
				bad.Addf(diag.Pos{File: "src", Line: in.Pos.Line, Col: in.Pos.Col}, "Pane.E20", "run it with tilus-lab run, or in a notebook", "the debugger runs no programs with memory of their own")
				failed = bad
			}
		}
		return true
	})
	if failed != nil {
		return nil, failed
	}
	var lines []string
	for _, s := range strings.Split(text, "\n") {
		if s = strings.TrimSpace(s); s != "" {
			lines = append(lines, s)
		}
	}
	if len(lines) != len(p.Params) {
		var names []string
		for _, v := range p.Params {
			names = append(names, v.Name+": "+v.Type.String())
		}
		help := "one a line, for " + strings.Join(names, ", ")
		if some := Suppose(p); some != "" {
			help += "; such as\n" + some
		}
		bad.Addf(at("a"), "Pane.E21", help, "%s takes %d arguments, %d are given", p.Name, len(p.Params), len(lines))
		return nil, bad
	}
	args := make([]ir.Arg, len(lines))
	for i, v := range p.Params {
		here := diag.Pos{File: "a", Line: i + 1, Col: 1}
		s := lines[i]
		if v.Type.Kind == ir.Pointer {
			if n := elements(s); n > MaxElements {
				bad.Addf(here, "Pane.E20", "", "%s has %d elements; the debugger takes up to %d", v.Name, n, MaxElements)
				continue
			}
			a, err := array.Generate(s)
			if err != nil {
				var list diag.List
				if errors.As(err, &list) && len(list) > 0 {
					here.Col = max(1, list[0].Pos.Col)
				}
				bad.Addf(here, "Pane.E22", "write it as randn:f32[32, 16], zeros:f16[64] or iota:i32[8]", "%s: %v", v.Name, err)
				continue
			}
			args[i].Array = a
			continue
		}
		if v.Type.Elem.IsFloat() {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil {
				bad.Addf(here, "Pane.E22", "", "%s is a number of type %s, not %.40q", v.Name, v.Type.Elem, s)
			}
			args[i].Float = x
			continue
		}
		x, err := strconv.ParseInt(s, 0, 64)
		if err != nil {
			bad.Addf(here, "Pane.E22", "", "%s is a whole number of type %s, not %.40q", v.Name, v.Type.Elem, s)
		}
		args[i].Int = x
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return args, nil
}

// elements is how many elements a generator asks for, or too many where that is no number.
func elements(spec string) int {
	_, rest, ok := strings.Cut(spec, "[")
	shape, _, closed := strings.Cut(rest, "]")
	if !ok || !closed {
		return 0 // the generator says what is wrong
	}
	n := 1
	for _, s := range strings.Split(shape, ",") {
		d, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || d < 1 {
			return 0
		}
		if d > MaxElements || n > MaxElements {
			return MaxElements + 1
		}
		n *= d
	}
	return n
}

// Suppose are arguments for a program that is given none.
func Suppose(p *ir.Program) string {
	texts, ok := follow.Suppose(p)
	if !ok {
		return ""
	}
	return strings.Join(texts, "\n")
}

// Array is a tensor as the explorer is told it: type and shape, and its first elements.
type Array struct {
	Header string
	Shape  []int
	Values []float64
	Size   int
}

var arrayForm = regexp.MustCompile(`^\s*([a-z][a-z0-9]*)\[([0-9, ]*)\]\s*=\s*`)

// ReadArray reads a tensor, "f16[2, 2] = 1 2 3 4"; is says that the text begins like one.
func ReadArray(param, text string) (a Array, is bool, err error) {
	m := arrayForm.FindStringSubmatchIndex(text)
	if m == nil {
		return a, false, nil
	}
	var bad diag.List
	fail := func(from, to int, format string, args ...any) (Array, bool, error) {
		p, end := at(param), at(param)
		p.Col, end.Col = from+1, max(from+2, to+1)
		bad = append(bad, diag.Problem{Pos: p, End: end, Code: "Pane.E32", Msg: fmt.Sprintf(format, args...), Help: "write a tensor as f16[2, 2] = 1 2 3 4"})
		return a, true, bad
	}
	if _, err := dtype.Parse(text[m[2]:m[3]]); err != nil {
		return fail(m[2], m[3], "there is no element type %s", text[m[2]:m[3]])
	}
	a.Header, a.Size = text[m[2]:m[5]]+"]", 1
	for _, s := range strings.Split(text[m[4]:m[5]], ",") {
		if s = strings.TrimSpace(s); s == "" && len(a.Shape) == 0 {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || a.Size > 1<<31/n {
			return fail(m[4], m[5], "%s is no shape", text[m[4]:m[5]])
		}
		a.Shape, a.Size = append(a.Shape, n), a.Size*n
	}
	from := m[1]
	for _, s := range strings.Fields(text[from:]) {
		if s == "…" {
			break
		}
		col := from + strings.Index(text[from:], s)
		from = col + len(s)
		x, err := strconv.ParseFloat(s, 64)
		switch {
		case s == "true":
			x = 1
		case s == "false":
			x = 0
		case err != nil:
			return fail(col, from, "%.20q is no number", s)
		}
		if a.Values = append(a.Values, x); len(a.Values) > a.Size || len(a.Values) > MaxElements {
			return fail(col, from, "%s has %d elements; there are more numbers", a.Header, a.Size)
		}
	}
	if len(a.Values) < a.Size && !strings.HasSuffix(strings.TrimSpace(text), "…") {
		return fail(m[0], m[1], "%s has %d elements, %d numbers are given", a.Header, a.Size, len(a.Values))
	}
	return a, true, nil
}
