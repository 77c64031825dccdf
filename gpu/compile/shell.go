package compile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// Shell is what a launch needs to know of compiled code, to be kept in files: everything but
// the instructions. A program whose launches need more has none.
type Shell struct {
	Program string // parameters, grid, warps, and what of the body arguments are checked against
	PTX     string
	Target  string
	Name    string
	Params  []shellParam
	Launch  code.Launch // without the grid, which the program has
}

// shellParam is [code.Param] with expressions as text.
type shellParam struct {
	code.Param
	Shape, Dims, Strides []string // of the workspace, and of the map
	Offset               string
}

// NewShell is what a launch needs of compiled code of p.
func NewShell(p *ir.Program, c *Compiled) (*Shell, error) {
	if ir.PlanPrints(p) != nil {
		return nil, fmt.Errorf("compile: %s prints, which needs the program", p.Name)
	}
	ptx, err := c.PTX()
	if err != nil {
		return nil, err
	}
	s := &Shell{Program: text.Format(outside(p)), PTX: ptx, Target: c.Arch.Name, Name: c.Func.Name, Launch: c.Func.Launch}
	s.Launch.Grid = nil
	words := func(list []affine.Expr) (out []string) {
		for _, e := range list {
			out = append(out, e.String())
		}
		return out
	}
	for _, x := range c.Func.Params {
		k := shellParam{Param: x}
		if w := x.Workspace; w != nil {
			k.Workspace = &code.Workspace{Bits: w.Bits, Zero: w.Zero}
			k.Shape = words(w.Shape)
		}
		if m := x.Map; m != nil {
			plain := *m
			k.Offset, k.Dims, k.Strides = m.Offset.String(), words(m.Dims), words(m.Strides)
			plain.Offset, plain.Dims, plain.Strides = affine.Expr{}, nil, nil
			k.Map = &plain
		}
		s.Params = append(s.Params, k)
	}
	if _, _, err := s.Open(); err != nil {
		return nil, err
	}
	return s, nil
}

// outside is a program with nothing but what launches are checked for: its parameters and
// grid, what it assumes of them, and the tensors that it sees behind pointers.
func outside(p *ir.Program) *ir.Program {
	out := *p
	out.Body, out.Comments, out.Source, out.Bindings = &ir.Block{}, nil, "", nil
	known := func(list ...ir.Expr) bool {
		all := true
		for _, e := range list {
			ir.Refs(e, func(r *ir.Ref) { all = all && r.Var.Param })
		}
		return all
	}
	for _, s := range p.Body.Stmts {
		if a, ok := s.(*ir.Assume); ok && known(a.Cond) {
			out.Body.Stmts = append(out.Body.Stmts, a)
		}
	}
	p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if !ok || len(in.Out) != 1 || !in.Out[0].Type.IsGlobal() || len(in.In) != 1 || in.In[0].Var() == nil || in.In[0].Var().Type.Kind != ir.Pointer {
			return true
		}
		ok = known(in.Out[0].Type.Shape...)
		for _, a := range in.Attrs {
			ok = ok && known(a.Exprs...)
		}
		if ok {
			view, tensor := *in, *in.Out[0]
			tensor.Name = "view" + strconv.Itoa(len(out.Body.Stmts))
			view.Out = []*ir.Var{&tensor}
			out.Body.Stmts = append(out.Body.Stmts, &view)
		}
		return true
	})
	return &out
}

// Open is the program without its body, and the code without its instructions.
func (s *Shell) Open() (*ir.Program, *Compiled, error) {
	p, err := text.Parse(s.Name+".tile", s.Program, nil)
	if err != nil {
		return nil, nil, err
	}
	target, err := arch.Lookup(s.Target)
	if err != nil {
		return nil, nil, err
	}
	f := &code.Func{Name: s.Name, Launch: s.Launch}
	for _, k := range s.Params {
		x := k.Param
		if x.Workspace != nil {
			w := *x.Workspace
			if w.Shape, err = exprs(k.Shape); err != nil {
				return nil, nil, err
			}
			x.Workspace = &w
		}
		if x.Map != nil {
			m := *x.Map
			if m.Offset, err = affine.Parse(k.Offset); err != nil {
				return nil, nil, err
			}
			if m.Dims, err = exprs(k.Dims); err != nil {
				return nil, nil, err
			}
			if m.Strides, err = exprs(k.Strides); err != nil {
				return nil, nil, err
			}
			x.Map = &m
		}
		f.Params = append(f.Params, x)
	}
	return p, &Compiled{Program: p, Func: f, Arch: target, ptx: s.PTX}, nil
}

func exprs(list []string) ([]affine.Expr, error) {
	var out []affine.Expr
	for _, t := range list {
		e, err := affine.Parse(t)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// Encode is the shell as bytes: a line of JSON, then the PTX.
func (s *Shell) Encode() ([]byte, error) {
	line := *s
	line.PTX = ""
	data, err := json.Marshal(line)
	if err != nil {
		return nil, fmt.Errorf("compile: shell: %w", err)
	}
	return append(append(data, '\n'), s.PTX...), nil
}

// ReadShell reads what [Shell.Encode] wrote.
func ReadShell(data []byte) (*Shell, error) {
	line, ptx, _ := bytes.Cut(data, []byte{'\n'})
	s := &Shell{}
	if err := json.Unmarshal(line, s); err != nil {
		return nil, fmt.Errorf("compile: shell: %w", err)
	}
	s.PTX = string(ptx)
	return s, nil
}
