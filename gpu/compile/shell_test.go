package compile

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestShell brings what launches need of each program of the corpus to bytes and back.
func TestShell(t *testing.T) {
	views, maps := 0, 0
	for _, name := range corpus.Names() {
		p, err := text.Parse(name+".tile", corpus.Program(name), nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Program(p, Options{Divisible: map[string]int64{}})
		if err != nil {
			continue // for another target
		}
		s, err := NewShell(p, c)
		if ir.PlanPrints(p) != nil {
			if err == nil {
				t.Errorf("%s prints, and has a shell", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		data, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadShell(data)
		if err != nil {
			t.Fatal(err)
		}
		q, d, err := again.Open()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ptx, _ := c.PTX()
		if kept, err := d.PTX(); kept != ptx || err != nil {
			t.Errorf("%s: another PTX, %v", name, err)
		}
		twice, err := NewShell(q, d)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := twice.Encode(); err != nil || !bytes.Equal(other, data) {
			t.Errorf("%s: once more it is another: %v", name, err)
		}
		for i, x := range c.Func.Params {
			y := d.Func.Params[i]
			if (x.Map == nil) != (y.Map == nil) || (x.Workspace == nil) != (y.Workspace == nil) || x.Name != y.Name || x.Kind != y.Kind || x.Divisor != y.Divisor {
				t.Errorf("%s: parameter %s is another", name, x.Name)
			}
			if x.Map != nil && (!x.Map.Offset.Equal(y.Map.Offset) || !slices.EqualFunc(x.Map.Dims, y.Map.Dims, affine.Expr.Equal) || !slices.EqualFunc(x.Map.Strides, y.Map.Strides, affine.Expr.Equal)) {
				t.Errorf("%s: map %s is another", name, x.Name)
			}
			if x.Workspace != nil && !slices.EqualFunc(x.Workspace.Shape, y.Workspace.Shape, affine.Expr.Equal) {
				t.Errorf("%s: workspace %s is another", name, x.Name)
			}
		}
		header := func(p *ir.Program) (out []string) {
			for _, v := range p.Params {
				out = append(out, v.Name+" "+v.Type.String())
			}
			for _, e := range p.Grid {
				out = append(out, e.String())
			}
			return out
		}
		if !slices.Equal(header(p), header(q)) || p.Warps != q.Warps || !slices.Equal(p.Cluster, q.Cluster) {
			t.Errorf("%s is %v, not %v", name, header(q), header(p))
		}
		views += len(q.Body.Stmts)
		for _, x := range d.Func.Params {
			if x.Map != nil {
				maps++
			}
		}
	}
	if views < 100 || maps == 0 {
		t.Errorf("%d views, %d tensor maps", views, maps)
	}
	if _, err := ReadShell([]byte("nothing")); err == nil {
		t.Error("nothing is a shell")
	}
}

// What is read of a file is what is written again.
func FuzzReadShell(f *testing.F) {
	f.Add([]byte("{}\n.version 8.0\n"))
	f.Add([]byte(`{"Params":[{"Name":"a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadShell(data)
		if err != nil {
			return
		}
		once, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ReadShell(once)
		if err != nil {
			t.Fatalf("%s: %v", once, err)
		}
		if twice, err := back.Encode(); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s\n%s %v", once, twice, err)
		}
	})
}
