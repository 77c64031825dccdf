package build

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// What operators make reads back as it was put together, and is canonical: such programs are
// read once.
func TestValuesAreCanonical(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	names := []string{"a", "b", "c"}
	var vars []*ir.Var
	for _, n := range names {
		vars = append(vars, &ir.Var{Name: n, Type: ir.ScalarOf(dtype.I32)})
	}
	// full is the same expression with all parentheses that there can be.
	var integer, condition func(depth int) (v Value, full string)
	integer = func(depth int) (Value, string) {
		if depth == 0 || r.Intn(5) == 0 {
			n := names[r.Intn(len(names))]
			return Value{n, precAtom}, n
		}
		x, fx := integer(depth - 1)
		y, fy := integer(depth - 1)
		if k := r.Intn(9); r.Intn(3) == 0 {
			return []Value{x.Add(k), x.Sub(k), x.Mul(k), x.Div(k + 1), x.Mod(k + 1), x.BitAnd(k), x.BitOr(k), x.BitXor(k), x.Shl(k)}[k],
				fmt.Sprintf("((%s) %s (%d))", fx, []string{"+", "-", "*", "/", "%", "&", "|", "^", "<<"}[k], k+[]int{0, 0, 0, 1, 1, 0, 0, 0, 0}[k])
		}
		switch k := r.Intn(13); k {
		case 0:
			return x.Min(y), fmt.Sprintf("min(%s, %s)", fx, fy)
		case 1:
			c, fc := condition(depth - 1)
			return c.Select(x, y), fmt.Sprintf("select(%s, %s, %s)", fc, fx, fy)
		case 2:
			return x.Neg(), "(-(" + fx + "))"
		case 3: // expressions that come as text
			return Expr(x.String()).Mul("(" + y.String() + ")"), fmt.Sprintf("((%s) * (%s))", fx, fy)
		default:
			return []Value{x.Add(y), x.Sub(y), x.Mul(y), x.Div(y), x.Mod(y), x.BitAnd(y), x.BitOr(y), x.BitXor(y), x.Shr(y)}[k-4],
				fmt.Sprintf("((%s) %s (%s))", fx, []string{"+", "-", "*", "/", "%", "&", "|", "^", ">>"}[k-4], fy)
		}
	}
	condition = func(depth int) (Value, string) {
		if depth == 0 || r.Intn(2) == 0 {
			x, fx := integer(depth)
			y, fy := integer(depth)
			k := r.Intn(6)
			return []Value{x.Less(y), x.LessEqual(y), x.Greater(y), x.GreaterEqual(y), x.Equal(y), x.NotEqual(y)}[k],
				fmt.Sprintf("((%s) %s (%s))", fx, []string{"<", "<=", ">", ">=", "==", "!="}[k], fy)
		}
		x, fx := condition(depth - 1)
		y, fy := condition(depth - 1)
		switch r.Intn(4) {
		case 0:
			return x.Not(), "(!(" + fx + "))"
		case 1:
			return x.And(y), fmt.Sprintf("((%s) && (%s))", fx, fy)
		case 2:
			return x.Equal(y), fmt.Sprintf("((%s) == (%s))", fx, fy)
		}
		return x.Or(y), fmt.Sprintf("((%s) || (%s))", fx, fy)
	}
	for range 5000 {
		v, full := condition(1 + r.Intn(4))
		want, err := text.Expr(full, vars)
		if err != nil {
			t.Fatalf("%s: %v", full, err)
		}
		if v.String() != want.String() {
			t.Fatalf("%s is written %s, canonical is %s", full, v, want)
		}
	}
}

// A program is what reading its text gives, places in the text too, in whatever way its
// expressions were written.
func TestBuiltIsWhatTheTextSays(t *testing.T) {
	for name, spell := range map[string]func(string) string{"canonical": func(s string) string { return s }, "with parentheses": func(s string) string { return "((" + s + ")) * (1)" }} {
		b := Program("walk", Grid(spell("n/64")))
		out, n := b.Pointer("out", dtype.I32), b.Scalar("n", dtype.I32)
		bi := b.BlockIndices("bi")
		g := b.ViewGlobal("g", out, Global(dtype.I32, spell("n + 1")))
		b.Comment("each block\nfor itself")
		b.For("k", 0, n.Div(32).Add(spell("bi")), func(k Value) {
			b.If(k.Less(spell("n - bi")), func() {
				r := b.LoadGlobal("r", g, "register i32[32] spatial(32)", Offset(bi.Mul(64).Add(k)))
				b.StoreGlobal(g, r, Offset(spell("bi*64 + 32")))
			}).ElseIf(k.Equal(bi), func() { b.Break() }).Else(func() { b.Let("m", Expr(spell("k + 1")).Mul(bi)) })
		}, Step(2))
		p, err := b.Build()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := text.Parse("walk.tile", b.Text(), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text.Format(p) != b.Text() || p.Source != b.Text() || places(p) != places(again) {
			t.Errorf("%s: built\n%s\n%s\nread\n%s\n%s", name, p.Source, places(p), b.Text(), places(again))
		}
	}
}

// places are those of all that a program has.
func places(p *ir.Program) string {
	out := fmt.Sprint(p.Pos)
	expr := func(e ir.Expr) {
		out += fmt.Sprint(" ", e, e.Position())
		ir.Refs(e, func(r *ir.Ref) { out += fmt.Sprint(" ", r.Pos) })
	}
	for _, e := range p.Grid {
		expr(e)
	}
	p.Body.Walk(func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.For:
			out += fmt.Sprint("\n", s.Pos, s.Var.Pos)
			expr(s.From)
			expr(s.To)
		case *ir.If:
			out += fmt.Sprint("\n", s.Pos)
			expr(s.Cond)
		case *ir.Let:
			out += fmt.Sprint("\n", s.Pos, s.Var.Pos)
			expr(s.Value)
		case *ir.Instr:
			out += fmt.Sprint("\n", s.Pos, s.TypePos)
			for _, o := range s.In {
				expr(o.Expr)
			}
			for _, a := range s.Attrs {
				out += fmt.Sprint(" ", a.Pos)
				for _, e := range a.Exprs {
					expr(e)
				}
			}
			for _, v := range s.Out {
				out += fmt.Sprint(" ", v.Pos)
				for _, e := range v.Type.Shape {
					expr(e)
				}
			}
		}
		return true
	})
	return out
}
