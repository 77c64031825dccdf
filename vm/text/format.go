package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Format prints a program as canonical text: tabs, one statement a line, result
// types in full, attributes in the order of the row, comments kept. Parsing the
// text gives the program again. Compile-time parameters are printed as what they
// were bound to.
func Format(p *ir.Program) string {
	f := &formatter{comments: p.Comments, seen: map[*ir.Var]bool{}}
	if f.comments == nil {
		f.comments = ir.NewComments()
	}
	f.b.Grow(len(p.Source) + 64) // which most often is the text
	f.lines(f.comments.Top)
	fmt.Fprintf(&f.b, "program %s<%s>(", p.Name, join(p.Grid))
	for i, v := range p.Params {
		if i > 0 {
			f.b.WriteString(", ")
		}
		fmt.Fprintf(&f.b, "%s: %s", v.Name, v.Type)
		f.seen[v] = true
	}
	fmt.Fprintf(&f.b, ") warps=%d ", p.Warps)
	if len(p.Cluster) > 0 {
		fmt.Fprintf(&f.b, "cluster=[%s] ", strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Cluster), " ", ", "), "[]"))
	}
	if p.Resident > 0 {
		fmt.Fprintf(&f.b, "resident=%d ", p.Resident)
	}
	f.block(p.Body)
	f.b.WriteByte('\n')
	f.lines(f.comments.Bottom)
	return f.b.String()
}

// FormatStmt prints one statement without its inner blocks' contents, for traces
// and messages: "for k in 0..K/16 { … }".
func FormatStmt(s ir.Stmt) string {
	f := &formatter{comments: ir.NewComments(), seen: map[*ir.Var]bool{}, short: true}
	f.stmt(s)
	return f.b.String()
}

type formatter struct {
	b        strings.Builder
	indent   int
	comments *ir.Comments
	seen     map[*ir.Var]bool // variables whose type the reader knows
	short    bool
}

func join(list []ir.Expr) string {
	parts := make([]string, len(list))
	for i, e := range list {
		parts[i] = e.String()
	}
	return strings.Join(parts, ", ")
}

func (f *formatter) lines(lines []string) {
	for _, s := range lines {
		if s != "" {
			f.tabs()
			f.b.WriteString(s)
		}
		f.b.WriteByte('\n')
	}
}

func (f *formatter) tabs() {
	for range f.indent {
		f.b.WriteByte('\t')
	}
}

// block prints { … } with the closing brace on the current indentation.
func (f *formatter) block(b *ir.Block) {
	if f.short {
		f.b.WriteString("{ … }")
		return
	}
	f.b.WriteByte('{')
	if c := f.comments.Open[b]; c != "" {
		f.b.WriteString(" " + c)
	}
	f.b.WriteByte('\n')
	f.indent++
	if b != nil {
		for _, s := range b.Stmts {
			f.lines(f.comments.Before[s])
			f.tabs()
			f.stmt(s)
			if c := f.comments.After[s]; c != "" {
				f.b.WriteString(" " + c)
			}
			f.b.WriteByte('\n')
		}
	}
	f.lines(f.comments.End[b])
	f.indent--
	f.tabs()
	f.b.WriteByte('}')
}

func (f *formatter) stmt(s ir.Stmt) {
	switch s := s.(type) {
	case *ir.Instr:
		f.instr(s)
	case *ir.Let:
		f.b.WriteString(s.Var.Name)
		if t, _ := ir.TypeOf(s.Value, quiet); !f.seen[s.Var] && t != s.Var.Type.Elem {
			f.b.WriteString(": " + s.Var.Type.String())
		}
		f.seen[s.Var] = true
		f.b.WriteString(" = " + s.Value.String())
	case *ir.For:
		f.seen[s.Var] = true
		fmt.Fprintf(&f.b, "for %s in %s..%s ", s.Var.Name, s.From, s.To)
		if s.Step != nil {
			fmt.Fprintf(&f.b, "step %s ", s.Step)
		}
		switch {
		case s.Unroll < 0:
			f.b.WriteString("unroll=all ")
		case s.Unroll > 0:
			fmt.Fprintf(&f.b, "unroll=%d ", s.Unroll)
		}
		f.block(s.Body)
	case *ir.While:
		fmt.Fprintf(&f.b, "while %s ", s.Cond)
		f.block(s.Body)
	case *ir.If:
		fmt.Fprintf(&f.b, "if %s ", s.Cond)
		f.block(s.Then)
		if s.Else == nil {
			return
		}
		f.b.WriteString(" else ")
		if inner, ok := f.elseIf(s.Else); ok {
			f.stmt(inner)
			return
		}
		f.block(s.Else)
	case *ir.Break:
		f.b.WriteString("break")
	case *ir.Continue:
		f.b.WriteString("continue")
	case *ir.Return:
		f.b.WriteString("return")
	case *ir.Assume:
		fmt.Fprintf(&f.b, "assume(%s)", s.Cond)
	case *ir.Group:
		fmt.Fprintf(&f.b, "group(%d, %d) ", s.Begin, s.Size)
		f.block(s.Body)
	}
}

// elseIf is the only statement of an else block that can print as else if.
func (f *formatter) elseIf(b *ir.Block) (ir.Stmt, bool) {
	if len(b.Stmts) != 1 {
		return nil, false
	}
	inner, ok := b.Stmts[0].(*ir.If)
	return inner, ok && f.comments.Open[b] == "" && len(f.comments.End[b]) == 0 && len(f.comments.Before[inner]) == 0 && f.comments.After[inner] == ""
}

func (f *formatter) instr(s *ir.Instr) {
	typed := false
	for i, v := range s.Out {
		if i > 0 {
			f.b.WriteString(", ")
		}
		f.b.WriteString(v.Name)
		typed = typed || v.Type.Kind != ir.Scalar
		f.seen[v] = true
	}
	if len(s.Out) > 0 {
		f.b.WriteString(" = ")
	}
	f.b.WriteString(s.Op.Name)
	sep := "("
	for _, o := range s.In {
		f.b.WriteString(sep)
		f.b.WriteString(o.Expr.String())
		sep = ", "
	}
	for _, a := range s.Attrs {
		f.b.WriteString(sep)
		f.b.WriteString(a.Name)
		f.b.WriteByte('=')
		f.b.WriteString(attrText(s.Op, a))
		sep = ", "
	}
	f.b.WriteString(strings.TrimSuffix(sep, ", ") + ")")
	if !typed {
		return
	}
	for i, v := range s.Out {
		f.b.WriteString([]string{" : ", ", "}[min(i, 1)])
		f.b.WriteString(v.Type.String())
	}
}

func attrText(op *ir.Op, a ir.Attr) string {
	if spec := op.Spec(a.Name); spec != nil && spec.Kind == ir.AttrText {
		return `"` + a.Word + `"`
	}
	if a.Word != "" {
		return a.Word
	}
	if spec := op.Spec(a.Name); spec != nil && spec.Kind == ir.AttrNumber {
		if a.Exprs != nil {
			return join(a.Exprs)
		}
		if n := a.Number; n == math.Trunc(n) && math.Abs(n) < 1<<53 && (n != 0 || !math.Signbit(n)) {
			return strconv.FormatInt(int64(n), 10)
		}
		return ir.FormatFloat(a.Number)
	}
	return "[" + join(a.Exprs) + "]"
}
