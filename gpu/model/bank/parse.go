package bank

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// maxText bounds the text of an access.
const maxText = 4096

// The numbered problems of texts.
const (
	errText   = "Bank.E1" // not an address list or expression
	errValue  = "Bank.E2" // a value out of range, or a division by zero
	errAccess = "Bank.E3" // an access that the hardware does not make
)

// ParseAddrs reads the byte addresses of lanes. The text is an expression in lane,
// or a list of as many as there are addresses:
//
//	lane*128                                a stride
//	lane%16*128 + lane/16*16                rows and columns
//	sw(3, 4, 3, lane*128)                   the same through Swizzle<3,4,3>
//	sel(lane < 8, lane*16, _)               _ is a lane that takes no part
//	0, 128, 0x100, _, 4
//	64                                      one address for all lanes
//
// Operators and their precedence are Go's: * / % << >> & bind tighter than + - | ^,
// then comparisons, which give 1 or 0. Division truncates. Problems are located in
// the text.
func ParseAddrs(text string, lanes int, pos diag.Pos) ([]int, error) {
	var problems diag.List
	if len(text) > maxText {
		problems.Addf(pos, errText, "give an expression in lane", "%d characters; there may be %d", len(text), maxText)
		return nil, problems.Err()
	}
	const head = "f("
	// A comment or line break in the text would end the call early.
	if strings.ContainsAny(text, "\n\r") || strings.Contains(text, "//") || strings.Contains(text, "/*") {
		problems.Addf(pos, errText, "", "addresses are one line without comments")
		return nil, problems.Err()
	}
	at := func(col int) diag.Pos {
		if pos.Known() && pos.Col > 0 {
			pos := pos
			pos.Col += max(min(col-len(head), len(text)+1), 1) - 1
			return pos
		}
		return pos
	}
	e, err := parser.ParseExpr(head + text + ")")
	if err != nil {
		msg, col := err.Error(), 1+len(head)
		if list, ok := err.(scanner.ErrorList); ok && len(list) > 0 {
			if msg, col = list[0].Msg, list[0].Pos.Column; col > len(head)+len(text) { // at the parenthesis from here
				msg = "the expression ends too early"
			}
		}
		problems.Addf(at(col), errText, "write an expression in lane, as lane*128, or a list, as 0, 4, _, 8", "%s", msg)
		return nil, problems.Err()
	}
	call, ok := e.(*ast.CallExpr)
	if !ok || int(call.Rparen) != len(head)+len(text)+1 || len(call.Args) == 0 || call.Ellipsis.IsValid() {
		problems.Addf(at(1+len(head)), errText, "write an expression in lane, as lane*128, or a list, as 0, 4, _, 8", "no addresses")
		return nil, problems.Err()
	}
	n := lanes
	if len(call.Args) > 1 {
		if n = len(call.Args); n > lanes {
			problems.Addf(at(int(call.Args[lanes].Pos())), errText, "", "%d addresses for %d lanes", n, lanes)
			return nil, problems.Err()
		}
	}
	out := make([]int, n)
	for l := range out {
		arg := call.Args[0]
		if len(call.Args) > 1 {
			arg = call.Args[l]
		}
		v, inactive, bad := evaluate(arg, l)
		switch {
		case bad != nil:
			problems.Addf(at(int(bad.at.Pos())), bad.code, bad.help, "%s", bad.msg)
			return nil, problems.Err()
		case inactive:
			v = Inactive
		case v < 0:
			problems.Addf(at(int(arg.Pos())), errValue, "", "the address of lane %d is %d; addresses are not negative", l, v)
			return nil, problems.Err()
		}
		out[l] = v
	}
	return out, nil
}

type badNode struct {
	at              ast.Node
	code, msg, help string
}

var calls = []string{"sw", "sel"}

// evaluate is the value of an expression for a lane; inactive is _.
func evaluate(e ast.Expr, lane int) (v int, inactive bool, bad *badNode) {
	fail := func(at ast.Node, code, help, format string, args ...any) (int, bool, *badNode) {
		return 0, false, &badNode{at, code, fmt.Sprintf(format, args...), help}
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return evaluate(e.X, lane)
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 0, 64)
		if e.Kind != token.INT || err != nil {
			return fail(e, errText, "", "%s is no integer", e.Value)
		}
		v = int(n)
	case *ast.Ident:
		switch e.Name {
		case "lane":
			v = lane
		case "_":
			return 0, true, nil
		default:
			return fail(e, errText, "the only name is lane", "unknown name %q", e.Name)
		}
	case *ast.UnaryExpr:
		x, off, bad := evaluate(e.X, lane)
		if bad != nil || off {
			return x, off, bad
		}
		switch e.Op {
		case token.SUB:
			v = -x
		case token.ADD:
			v = x
		default:
			return fail(e, errText, "", "operator %s is not known here", e.Op)
		}
	case *ast.BinaryExpr:
		x, xoff, bad := evaluate(e.X, lane)
		if bad != nil {
			return 0, false, bad
		}
		y, yoff, bad := evaluate(e.Y, lane)
		if bad != nil {
			return 0, false, bad
		}
		if xoff || yoff {
			return 0, true, nil
		}
		truth := func(b bool) int {
			if b {
				return 1
			}
			return 0
		}
		switch e.Op {
		case token.ADD:
			v = x + y
		case token.SUB:
			v = x - y
		case token.MUL:
			if x != 0 && max(abs(x), abs(y)) > maxAddr/max(1, min(abs(x), abs(y))) {
				return fail(e, errValue, "", "the product for lane %d lies beyond 2^40", lane)
			}
			v = x * y
		case token.QUO, token.REM:
			if y == 0 {
				return fail(e, errValue, "", "division by zero for lane %d", lane)
			}
			if v = x / y; e.Op == token.REM {
				v = x % y
			}
		case token.AND, token.OR, token.XOR:
			if x < 0 || y < 0 {
				return fail(e, errValue, "", "bits of the negative number %d for lane %d", min(x, y), lane)
			}
			switch e.Op {
			case token.AND:
				v = x & y
			case token.OR:
				v = x | y
			default:
				v = x ^ y
			}
		case token.SHL, token.SHR:
			if y < 0 || y > 40 || x < 0 || e.Op == token.SHL && x > maxAddr>>y {
				return fail(e, errValue, "", "the shift of %d by %d for lane %d lies beyond 2^40", x, y, lane)
			}
			if v = x >> y; e.Op == token.SHL {
				v = x << y
			}
		case token.LSS:
			v = truth(x < y)
		case token.LEQ:
			v = truth(x <= y)
		case token.GTR:
			v = truth(x > y)
		case token.GEQ:
			v = truth(x >= y)
		case token.EQL:
			v = truth(x == y)
		case token.NEQ:
			v = truth(x != y)
		default:
			return fail(e, errText, "", "operator %s is not known here", e.Op)
		}
	case *ast.CallExpr:
		name, _ := e.Fun.(*ast.Ident)
		switch {
		case name == nil || name.Name != "sw" && name.Name != "sel":
			return fail(e, errText, "", "the only functions are %s", strings.Join(calls, " and "))
		case name.Name == "sel":
			if len(e.Args) != 3 {
				return fail(e, errText, "write sel(lane < 8, lane*16, _)", "sel has 3 arguments, not %d", len(e.Args))
			}
			c, off, bad := evaluate(e.Args[0], lane)
			switch {
			case bad != nil || off:
				return c, off, bad
			case c != 0:
				return evaluate(e.Args[1], lane)
			}
			return evaluate(e.Args[2], lane)
		case len(e.Args) != 4:
			return fail(e, errText, "write sw(3, 4, 3, lane*128)", "sw has 4 arguments, not %d", len(e.Args))
		}
		var a [4]int
		for i, arg := range e.Args {
			x, off, bad := evaluate(arg, lane)
			if bad != nil || off {
				return x, off, bad
			}
			a[i] = x
		}
		s, err := layout.NewSwizzle(a[0], a[1], a[2])
		if err != nil {
			return fail(e, errValue, "", "%s", err)
		}
		if a[3] < 0 {
			return fail(e, errValue, "", "a swizzle of the negative address %d for lane %d", a[3], lane)
		}
		v = s.Apply(a[3])
	default:
		return fail(e, errText, "write an expression in lane, as lane*128", "this is no arithmetic")
	}
	if abs(v) > maxAddr {
		return fail(e, errValue, "", "%d for lane %d lies beyond 2^40", v, lane)
	}
	return v, false, nil
}

// ParseAccess reads "KIND WIDTH: ADDRESSES", as "store 16: lane*16", "ldmatrix:
// lane*128" or "ldmatrix.x2: lane*32". Without the part before the colon it is a load
// of 4 bytes. The access is checked against the profile, and a lane's problem is
// located at its address.
func ParseAccess(text string, p Profile, pos diag.Pos) (Access, error) {
	a := Access{Kind: Load, Width: 4}
	var problems diag.List
	head, addrs, found := strings.Cut(text, ":")
	if !found {
		head, addrs = "", text
	}
	body := pos
	if pos.Known() && pos.Col > 0 {
		body.Col += len(text) - len(addrs)
	}
	words := strings.Fields(head)
	if found && len(words) == 0 {
		problems.Addf(pos, errText, "write load 4, store 16, ldmatrix.x4, …", "nothing before the colon")
		return a, problems.Err()
	}
	lanes := p.Lanes
	if len(words) > 0 {
		name, form, matrices := strings.Cut(words[0], ".x")
		kind, err := ParseKind(name)
		if err != nil {
			problems.Addf(pos, errText, diag.Suggest(words[0], kindNames[:]), "%s", err)
			return a, problems.Err()
		}
		a.Kind = kind
		if kind.matrix() {
			a.Width = 16
			if !matrices {
				form = "4"
			}
			if a.Matrices, err = strconv.Atoi(form); err != nil || a.Matrices != 1 && a.Matrices != 2 && a.Matrices != 4 {
				problems.Addf(pos, errText, "", "%s has 1, 2 or 4 matrices, not %q", name, form)
				return a, problems.Err()
			}
			lanes = 8 * a.Matrices
			if p.AllRows {
				lanes = p.Lanes
			}
		} else if matrices {
			problems.Addf(pos, errText, "write "+name+" 16", "a %s has no matrices", name)
			return a, problems.Err()
		} else if kind == CpAsyncGlobal {
			a.Width = 16
		}
	}
	switch {
	case len(words) > 2:
		problems.Addf(pos, errText, "", "%q before the colon; write a kind and a width", strings.TrimSpace(head))
		return a, problems.Err()
	case len(words) == 2:
		w, err := strconv.Atoi(words[1])
		if err != nil {
			problems.Addf(pos, errText, "", "width %q is no number of bytes", words[1])
			return a, problems.Err()
		}
		a.Width = w
	}
	var err error
	if a.Addrs, err = ParseAddrs(addrs, lanes, body); err != nil {
		return a, err
	}
	if _, _, err := p.check(a); err != nil {
		help := ""
		if body.Known() && body.Col > 0 {
			body.Col += len(addrs) - len(strings.TrimLeft(addrs, " \t"))
		}
		for l, v := range a.Addrs {
			if step := p.alignment(a.Width); v != Inactive && v%step != 0 {
				help = fmt.Sprintf("lane %d could take %d or %d; where rows are padded, they are a multiple of %d bytes long", l, v/step*step, (v/step+1)*step, step)
				break
			}
		}
		problems.Addf(body, errAccess, help, "%s", err)
		return a, problems.Err()
	}
	return a, nil
}
