package ir_test

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// The corpus breaks the rules that text can break (vm/text tests them); here are
// trees that no text gives.

func tile(name string, t dtype.Type, l layout.Layout) *ir.Var {
	return &ir.Var{Name: name, Type: ir.RegisterOf(t, l)}
}

func program(stmts ...ir.Stmt) *ir.Program {
	return &ir.Program{Name: "p", Grid: []ir.Expr{ir.NewInt(1)}, Warps: 1, Body: &ir.Block{Stmts: stmts}}
}

func instr(op string, out *ir.Var, in ...*ir.Var) *ir.Instr {
	s := &ir.Instr{Op: ir.OpByName(op)}
	if out != nil {
		s.Out = []*ir.Var{out}
	}
	for _, v := range in {
		s.In = append(s.In, ir.Operand{Expr: ir.NewRef(v)})
	}
	return s
}

func codes(list diag.List) string {
	var out []string
	for _, p := range list {
		out = append(out, p.Code)
	}
	return strings.Join(out, " ")
}

func TestVerifyByHand(t *testing.T) {
	warp := layout.Spatial(32)
	x, y := tile("x", dtype.F32, warp), tile("y", dtype.F32, warp)
	alloc := instr("AllocateRegister", x)
	narrow := tile("narrow", dtype.F32, layout.Spatial(16).Local(2))
	n := &ir.Var{Name: "n", Type: ir.ScalarOf(dtype.I32)}
	f := &ir.Var{Name: "f", Type: ir.ScalarOf(dtype.F32)}
	for _, c := range []struct {
		name string
		p    *ir.Program
		want string
	}{
		{"a good program", program(alloc, instr("Add", y, x, x)), ""},
		{"a read before the assignment", program(instr("Add", y, x, x)), "Var.C3 Var.C3"},
		{"no grid and no warps", &ir.Program{Name: "p", Body: &ir.Block{}}, "Prog.C1 Prog.C2"},
		{"a grid of no blocks", &ir.Program{Name: "p", Warps: 1, Grid: []ir.Expr{ir.NewInt(2), binary("-", 3, 3)}, Body: &ir.Block{}}, "Prog.C2"},
		{"a view between different numbers of threads", program(instr("AllocateRegister", narrow), instr("View", y, narrow)), "Type.C2 View.C1"},
		{"a float loop bound", program(&ir.For{Var: n, From: &ir.Float{}, To: &ir.Float{Value: 2}, Body: &ir.Block{}}), "Expr.C2"},
		{"a scalar of another type", program(&ir.Let{Var: f, Value: ir.NewInt(1)}), "Var.C1"},
		{"an assigned loop variable", program(&ir.For{Var: n, From: ir.NewInt(0), To: ir.NewInt(2), Body: &ir.Block{Stmts: []ir.Stmt{&ir.Let{Var: n, Value: ir.NewInt(1)}}}}), "Var.C2"},
		{"a value out of its block", program(&ir.If{Cond: binary("<", 1, 2), Then: &ir.Block{Stmts: []ir.Stmt{alloc}}}, instr("Cast", y, x)), "Var.C3"},
		{"a result too many", program(alloc, &ir.Instr{Op: ir.OpByName("Cast"), Out: []*ir.Var{y, y}, In: []ir.Operand{{Expr: ir.NewRef(x)}}}), "Op.G6"},
		{"an attribute twice", program(&ir.Instr{Op: ir.OpByName("AllocateRegister"), Out: []*ir.Var{x}, Attrs: []ir.Attr{{Name: "init"}, {Name: "init"}}}), "Op.G3"},
	} {
		if got := codes(ir.Verify(c.p)); got != c.want {
			t.Errorf("%s: got %q, want %q\n%v", c.name, got, c.want, ir.Verify(c.p))
		}
	}
}

func TestBroadcastIndex(t *testing.T) {
	for _, c := range []struct {
		from, index []int
		want        int
	}{
		{[]int{16, 8}, []int{3, 5}, 29}, {[]int{1, 8}, []int{3, 5}, 5}, {[]int{16, 1}, []int{3, 5}, 3},
		{[]int{8}, []int{3, 5}, 5}, {nil, []int{3, 5}, 0}, {[]int{1, 1}, []int{3, 5}, 0},
	} {
		if got := ir.BroadcastIndex(c.from, c.index); got != c.want {
			t.Errorf("BroadcastIndex(%v, %v) = %d, want %d", c.from, c.index, got, c.want)
		}
	}
}

func TestCloneSharesNothingThatChanges(t *testing.T) {
	x := tile("x", dtype.F32, layout.Spatial(32))
	n := &ir.Var{Name: "n", Type: ir.ScalarOf(dtype.I32), Param: true}
	inner := &ir.Block{Stmts: []ir.Stmt{instr("AllocateRegister", x)}}
	k := &ir.Var{Name: "k", Type: ir.ScalarOf(dtype.I32)}
	loop := &ir.For{Var: k, From: ir.NewInt(0), To: ir.NewRef(n), Body: inner}
	p := program(loop, &ir.While{Cond: binary("<", 2, 1), Body: &ir.Block{}}, &ir.If{Cond: binary("<", 2, 1), Then: &ir.Block{}})
	p.Params = []*ir.Var{n}
	p.Comments = ir.NewComments()
	p.Comments.Before[loop] = []string{"// loop"}
	p.Comments.Open[inner] = "// open"
	q := ir.Clone(p)
	c := q.Body.Stmts[0].(*ir.For)
	if c == loop || c.Var == k || c.Body == inner || c.To.(*ir.Ref).Var != q.Params[0] || q.Params[0] == n {
		t.Error("the clone shares statements or variables, or mixes them up")
	}
	if q.Comments.Before[c][0] != "// loop" || q.Comments.Open[c.Body] != "// open" {
		t.Error("comments are lost")
	}
	c.Body.Stmts = nil
	if len(inner.Stmts) != 1 || q.Param("n") != q.Params[0] || q.Param("m") != nil {
		t.Error("the clone is not apart")
	}
	count := 0
	p.Body.Walk(func(s ir.Stmt) bool { count++; return s != loop })
	if count != 3 {
		t.Errorf("Walk visits %d statements", count)
	}
}
