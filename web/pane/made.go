package pane

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/notation"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// What the layout pane shows.
const (
	layoutViews    = "both ways"
	layoutSteps    = "step by step"
	layoutOperands = "operands"
	layoutDiff     = "difference"
)

// renderMade draws how a layout is put together.
func renderMade(v Values) (Result, error) {
	text := strings.TrimRight(v["e"], " \t\r\n")
	value, err := notation.Read(text)
	if err != nil {
		return Result{}, placed(err, "e", v["e"])
	}
	o := v.look()
	if v["s"] == layoutDiff {
		return renderDiff(value, v)
	}
	if v["s"] == layoutOperands {
		// An operation of CuTe, by its name.
		if pic, err := layoutviz.CuteOperation(text, o); err == nil && strings.Contains(text, "(") && value.Form() == notation.CuTe {
			return Result{Pictures: []Picture{{Name: "operands and result", Picture: pic}}, Sentence: pic.Desc}, nil
		}
		if f, g, op, ok := operands(text); ok {
			return drawOperands(f, g, op, v)
		}
	}
	l, err := value.Registers()
	if err != nil {
		return Result{}, located(err, "e", v["e"])
	}
	factors, err := layoutviz.Factors(l)
	if err != nil {
		return Result{}, located(err, "e", v["e"])
	}
	if v["s"] == layoutOperands {
		if len(factors) < 2 {
			return Result{}, diag.List{{Pos: at("e"), End: diag.Pos{File: "e", Line: 1, Col: len(v["e"]) + 1}, Code: "Pane.E29", Msg: fmt.Sprintf("%s is one factor; it has no operands", l), Help: "write a product, local(2, 1) * spatial(8, 4), a quotient with /, a chain, or an operation of CuTe"}}
		}
		f := factors[0]
		for _, x := range factors[1 : len(factors)-1] {
			f = f.Mul(x)
		}
		return drawOperands(f.String(), factors[len(factors)-1].String(), '*', v)
	}
	n, err := strconv.Atoi(v["n"])
	if err != nil {
		return Result{}, err
	}
	if n == 0 || n > len(factors) {
		n = len(factors)
	}
	pic, err := layoutviz.Chain(factors[:n], o)
	if err != nil {
		return Result{}, located(err, "e", v["e"])
	}
	made := factors[0]
	names := []string{factors[0].String()}
	for _, f := range factors[1:n] {
		made = made.Mul(f)
		names = append(names, f.String())
	}
	say := fmt.Sprintf("%d of %d factors: %s.", n, len(factors), size(made))
	if n == 1 {
		say = fmt.Sprintf("The first of %d factors: %s.", len(factors), strings.TrimSuffix(size(made), "."))
	}
	return Result{Pictures: []Picture{{Name: "steps", Picture: pic}}, Sentence: strings.Replace(say, "..", ".", 1), Text: strings.Join(names, "\n  times ") + "\n= " + made.String() + "\n"}, nil
}

// operands splits a text at its last operator outside of parentheses.
func operands(text string) (f, g string, op byte, ok bool) {
	depth := 0
	for i := len(text) - 1; i > 0; i-- {
		switch c := text[i]; {
		case c == ')':
			depth++
		case c == '(':
			depth--
		case depth == 0 && (c == '*' || c == '/'):
			return strings.TrimSpace(text[:i]), strings.TrimSpace(text[i+1:]), c, true
		}
	}
	return "", "", 0, false
}

func drawOperands(left, right string, op byte, v Values) (Result, error) {
	f, err := layout.Parse(left)
	if err != nil {
		return Result{}, placed(err, "e", v["e"])
	}
	g, err := layout.Parse(right)
	if err != nil {
		return Result{}, located(fmt.Errorf("right of %c: %w", op, err), "e", v["e"])
	}
	var pic layoutviz.Picture
	var made layout.Layout
	name := "product"
	if op == '*' {
		made = f.Mul(g)
		pic, err = layoutviz.Times(f, g, v.look())
	} else {
		name = "quotient"
		if made, err = f.Div(g); err == nil {
			pic, err = layoutviz.Over(f, g, v.look())
		}
	}
	if err != nil {
		return Result{}, located(err, "e", v["e"])
	}
	return Result{Pictures: []Picture{{Name: name, Picture: pic}}, Sentence: fmt.Sprintf("The %s is %s. %s", name, made, size(made)), Text: fmt.Sprintf("%s\n%c %s\n= %s\n", f, op, g, made)}, nil
}
