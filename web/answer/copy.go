package answer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/text"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// Copy is what a pane shows in one way of writing it, or why it cannot be written
// so.
type Copy struct {
	Name  string `json:"name"`  // "go", "text", "cute", …
	Title string `json:"title"` // for people
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

// Copies writes what a pane shows in every way there is. bind replaces values that
// name variables of notebooks; nil where there are none.
func Copies(name string, in pane.Values, bind func(string) (string, error)) ([]Copy, error) {
	p, err := pane.Find(name)
	if err != nil {
		return nil, err
	}
	value := func(name string) string {
		if s := in[name]; s != "" {
			return s
		}
		for _, param := range p.Params {
			if param.Name == name {
				return param.Default
			}
		}
		return ""
	}
	switch name {
	case "banks":
		return swizzleCopies(value("b"), value("m"), value("s"))
	case "mma", "catalogue":
		return instructionCopies(value("i"))
	}
	for _, param := range p.Params {
		if param.Kind != pane.Layout && param.Kind != pane.Program {
			continue
		}
		s, ok := in[param.Name]
		if !ok {
			s = param.Default
		}
		if strings.HasPrefix(s, "$") && bind != nil {
			if s, err = bind(s); err != nil {
				return nil, err
			}
		}
		if v, err := notation.Read(strings.TrimSpace(s)); err == nil {
			return layoutCopies(v), nil
		} else if param.Kind == pane.Layout {
			return nil, err
		}
		if strings.HasPrefix(strings.TrimSpace(s), "program") {
			return programCopies(s)
		}
		return []Copy{{Name: "text", Title: "Text", Text: s}}, nil
	}
	return []Copy{}, nil
}

var chain = regexp.MustCompile(`^(?:(?:local|spatial|column_local|column_spatial|replicated)\([0-9, ]*\)\.?)+$`)

// layoutCopies: the forms of notation, Go for cells, and the line of a program.
func layoutCopies(v notation.Value) []Copy {
	titles := map[string]string{notation.Chain: "Tilus layout", notation.FourPart: "Tilus layout, four parts", notation.CuTe: "CuTe", notation.Linear: "Linear layout", notation.Triton: "Triton"}
	if len(v.Parts()) > 1 {
		return []Copy{{Name: "text", Title: "Name", Text: v.Text()}}
	}
	var out []Copy
	for _, n := range v.Notations() {
		out = append(out, Copy{Name: n.Form, Title: titles[n.Form], Text: n.Text, Error: n.Reason})
		if n.Form != notation.Chain {
			continue
		}
		g, t := Copy{Name: "go", Title: "Go", Error: n.Reason}, Copy{Name: "text", Title: "Program text", Error: n.Reason}
		if n.Text != "" {
			g.Text = goLayout(n.Text)
			if l, err := v.Registers(); err != nil {
				t.Error = err.Error()
			} else {
				t.Text = fmt.Sprintf("x = AllocateRegister() : register f32%s %s", strings.ReplaceAll(fmt.Sprint(l.Shape()), " ", ", "), n.Text)
			}
		}
		out = append(out, g, t)
	}
	return out
}

// goLayout is the Go of a layout's text: calls where the text is a chain of factors.
func goLayout(s string) string {
	if !chain.MatchString(s) || strings.Contains(s, "replicated") {
		return fmt.Sprintf("layout.Parse(%q)", s)
	}
	var b strings.Builder
	b.WriteString("layout")
	for _, f := range strings.SplitAfter(s, ")") {
		name, args, ok := strings.Cut(strings.TrimPrefix(f, "."), "(")
		if !ok {
			continue
		}
		b.WriteByte('.')
		for _, w := range strings.Split(name, "_") {
			b.WriteString(strings.ToUpper(w[:1]) + w[1:])
		}
		b.WriteString("(" + args)
	}
	return b.String()
}

// swizzleCopies: the swizzle of the sliders, of addresses in bytes.
func swizzleCopies(b, m, s string) ([]Copy, error) {
	var n [3]int
	for i, text := range []string{b, m, s} {
		var err error
		if n[i], err = strconv.Atoi(text); err != nil {
			return nil, err
		}
	}
	sw, err := layout.NewSwizzle(n[0], n[1], n[2])
	if err != nil {
		return []Copy{{Name: "cute", Title: "CuTe", Error: err.Error()}}, nil
	}
	out := []Copy{
		{Name: "cute", Title: "CuTe", Text: fmt.Sprintf("Swizzle<%d,%d,%d>", n[0], n[1], n[2])},
		{Name: "go", Title: "Go", Text: fmt.Sprintf("layout.NewSwizzle(%d, %d, %d)", n[0], n[1], n[2])},
	}
	// Programs count in elements.
	if of, err := sw.Rescale(-1); err == nil {
		out = append(out, Copy{Name: "text", Title: "Program text, of f16", Text: fmt.Sprintf(".apply_swizzle(base=%d, bits=%d, shift=%d)", of.Base, of.Bits, of.Shift)})
	} else {
		out = append(out, Copy{Name: "text", Title: "Program text, of f16", Error: err.Error()})
	}
	v, err := notation.Read(sw.String())
	if err != nil {
		return nil, err
	}
	linear := Copy{Name: "linear", Title: "Linear layout"}
	if l, err := v.Linear(); err != nil {
		linear.Error = err.Error()
	} else {
		linear.Text = l.String()
	}
	return append(out, linear), nil
}

// instructionCopies: the layout of each operand of an instruction.
func instructionCopies(name string) ([]Copy, error) {
	if strings.TrimSpace(name) == "" {
		return []Copy{}, nil
	}
	a, err := arch.FindAtom(strings.TrimSpace(name))
	if err != nil {
		return nil, err
	}
	out := []Copy{{Name: "text", Title: "Name", Text: a.Name}}
	for _, o := range a.Operands {
		v, err := notation.Read(a.Name + "/" + o.Name)
		if err != nil {
			out = append(out, Copy{Name: o.Name, Title: o.Name, Error: err.Error()})
			continue
		}
		for _, c := range layoutCopies(v) {
			if c.Name == notation.Chain || c.Name == "go" || c.Name == notation.CuTe || c.Name == notation.Linear {
				c.Name, c.Title = o.Name+"."+c.Name, o.Name+" as "+c.Title
				out = append(out, c)
			}
		}
	}
	return out, nil
}

func programCopies(src string) ([]Copy, error) {
	p, err := compile.Parse("program", src, nil)
	if err != nil {
		return nil, err
	}
	canonical := text.Format(p)
	quoted := "`" + canonical + "`"
	if strings.Contains(canonical, "`") {
		quoted = fmt.Sprintf("%q", canonical)
	}
	return []Copy{{Name: "text", Title: "Program text", Text: canonical}, {Name: "go", Title: "Go", Text: "p, err := lab.Parse(" + quoted + ")"}}, nil
}
