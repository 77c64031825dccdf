package differential

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// noOutForm are the ops that cannot give their register tensor to an existing variable.
var noOutForm = map[string]string{
	"WgmmaDot": "its result is the accumulator that it takes, WgmmaDot.C2: it has no other form",
}

// TestOutForms: every instruction that gives register tensors also updates variables
// that exist, `x = Op(…)`, without repeating their types. For each one a launch of the
// corpus is changed so that its results are variables that were allocated before;
// interpreter and simulator give what they gave.
func TestOutForms(t *testing.T) {
	done := map[string]bool{}
	ref := open(t, "interp")
	for _, l := range launches(t) {
		p := ir.Clone(l.Program)
		var ops []string
		changed := outForms(p.Body, done, &ops, map[*ir.Var]bool{})
		if !changed {
			continue
		}
		// The text without the types of what exists reads back as the same program.
		short := shorten(text.Format(p))
		q, err := text.Parse(l.Name, short, nil)
		if err != nil {
			t.Errorf("%s: %v\n%s", l.Name, err, short)
			continue
		}
		if text.Format(q) != text.Format(p) {
			t.Errorf("%s: %v read back as\n%s", l.Name, ops, text.Format(q))
		}
		want, err := ref.Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Fatal(err)
		}
		l.Program = q
		got, err := ref.Run(context.Background(), q, l.Args)
		if err != nil {
			t.Errorf("%s: interp: %v", l.Name, err)
			continue
		}
		same(t, l, "interp with out forms", got.Args, want.Args)
		target := l.Target("sm_80")
		if out, err := simulate(l, compile.Options{Arch: target}); err != nil {
			t.Errorf("%s: sim: %v", l.Name, err)
		} else {
			same(t, l, "sim with out forms", out, want.Args)
		}
		for _, op := range ops {
			done[op] = true
		}
	}
	for _, op := range ir.Ops() {
		makes := slices.ContainsFunc(op.Out, func(p ir.Port) bool { return p.Accept&ir.AcceptRegister != 0 })
		if _, except := noOutForm[op.Name]; makes && !done[op.Name] && !except {
			t.Errorf("no launch shows the out form of %s", op.Name)
		}
	}
}

// outForms allocates the results of instructions that were not done before them.
func outForms(b *ir.Block, done map[string]bool, ops *[]string, seen map[*ir.Var]bool) bool {
	changed := false
	var out []ir.Stmt
	for _, s := range b.Stmts {
		if in, ok := s.(*ir.Instr); ok {
			fits := len(in.Out) > 0 && !done[in.Op.Name] && !slices.Contains(*ops, in.Op.Name)
			for _, v := range in.Out {
				fits = fits && v.Type.IsRegister() && !v.Type.HasPlace
			}
			if fits {
				for _, v := range in.Out {
					if seen[v] {
						continue // is updated already
					}
					out = append(out, &ir.Instr{Op: ir.OpByName("AllocateRegister"), Pos: in.Pos, Out: []*ir.Var{v}})
					seen[v] = true
				}
				*ops = append(*ops, in.Op.Name)
				changed = true
			}
		}
		if in, ok := s.(*ir.Instr); ok {
			for _, v := range in.Out {
				seen[v] = true
			}
		}
		for _, inner := range ir.Blocks(s) {
			changed = outForms(inner, done, ops, seen) || changed
		}
		out = append(out, s)
	}
	b.Stmts = out
	return changed
}

// shorten drops the types of results that the line before allocates.
func shorten(src string) string {
	lines := strings.Split(src, "\n")
	for i, l := range lines {
		name, _, ok := strings.Cut(strings.TrimSpace(l), " = ")
		at := strings.LastIndex(l, ") : register ")
		if ok && at >= 0 && i > 0 && strings.HasPrefix(strings.TrimSpace(lines[i-1]), name+" = AllocateRegister()") {
			lines[i] = l[:at+1]
		}
	}
	return strings.Join(lines, "\n")
}
