package infer_test

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Instructions that lack operands, attributes or results, beside layouts that are left out,
// are mistakes that are told. Half of the layouts stay, so that some must be converted.
func TestBrokenInstructions(t *testing.T) {
	if _, _, err := infer.Parse("x.tile", `program p<1>(y: *f32) warps=4 {
	gy = ViewGlobal(y) : global f32[128]
	v = AllocateRegister(init=0) : register f32[128] spatial(128)
	d = Reduce(v, op=sum, dim=[0]) : register f32[1]
	StoreGlobal(gy, offset=[0])
	StoreGlobal(gy, v)
}
`, nil, compile.Layouts()); err == nil || !strings.Contains(err.Error(), "[Op.G1]") || !strings.Contains(err.Error(), "[Op.G5]") {
		t.Errorf("%v", err)
	}
	for n, name := range corpus.Names() {
		p, err := text.Parse(name, corpus.Program(name), nil)
		if err != nil {
			continue
		}
		count := 0
		p.Body.Walk(func(s ir.Stmt) bool { count++; return true })
		for at := range min(count, 40) {
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("%s, statement %d: %v", name, at, r)
					}
				}()
				_, _, _ = infer.Parse(name, text.Format(broken(p, at, (n+at)%4)), nil, compile.Layouts())
			}()
		}
	}
}

// broken is a program of which one statement is cut in one of four ways, and every second
// has no layouts.
func broken(p *ir.Program, at, cut int) *ir.Program {
	p = ir.Clone(p)
	i := 0
	p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if ok && i%2 == at%2 {
			for _, v := range in.Out {
				v.Type.HasLayout = false
			}
		}
		if i == at && ok {
			switch {
			case cut == 0 && len(in.In) > 0:
				in.In = in.In[1:]
			case cut == 1 && len(in.In) > 0:
				in.In = in.In[:len(in.In)-1]
			case cut == 2 && len(in.Attrs) > 0:
				in.Attrs = in.Attrs[1:]
			case cut == 3:
				in.In = append(in.In, in.In...)
			}
		}
		i++
		return true
	})
	return p
}
