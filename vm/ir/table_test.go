package ir_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestTableIsWhole holds the rows to what the manual, the parser and the builder
// need of them.
func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, op := range ir.Ops() {
		for _, name := range append([]string{op.Name}, op.Aliases...) {
			if seen[name] {
				t.Errorf("two ops are called %s", name)
			}
			seen[name] = true
			if ir.OpByName(name) != op {
				t.Errorf("OpByName(%s) is another op", name)
			}
		}
		if op.Family == "" || op.Since == "" || op.Source == "" || !strings.HasSuffix(op.Doc, ".") {
			t.Errorf("%s: family, since, source and a doc sentence are needed", op.Name)
		}
		if !strings.Contains(op.Example, op.Name+"(") {
			t.Errorf("%s: the example %q does not show it", op.Name, op.Example)
		}
		for _, ports := range [][]ir.Port{op.In, op.Out} {
			optional := false
			for _, p := range ports {
				if p.Name == "" || p.Accept == 0 || optional && !p.Optional {
					t.Errorf("%s: operand or result %+v", op.Name, p)
				}
				optional = p.Optional
			}
		}
		for _, a := range op.Attrs {
			if a.Name == "" || a.Doc == "" || op.Spec(a.Name).Name != a.Name {
				t.Errorf("%s: attribute %+v", op.Name, a)
			}
		}
		for i, r := range op.Rules {
			if !strings.HasSuffix(r.Text, ".") || r.Check == nil {
				t.Errorf("%s needs a sentence and a check", op.Code(i))
			}
		}
	}
	var codes []string
	for _, r := range ir.Rules() {
		if slices.Contains(codes, r.Code) {
			t.Errorf("two rules are called %s", r.Code)
		}
		codes = append(codes, r.Code)
		if doc, ok := ir.Explain(strings.ToLower(r.Code)); !ok || doc != r {
			t.Errorf("Explain(%s) is %v", r.Code, doc)
		}
	}
	if _, ok := ir.Explain("View.C99"); ok || ir.OpByName("Veiw") != nil {
		t.Error("a rule or op that does not exist is found")
	}
}
