package ir

import (
	"maps"
	"slices"
)

// Comments are the // comments and blank lines of a program's text, by what they
// stand at. A line is a comment with its slashes, or "" for a blank line.
type Comments struct {
	Top, Bottom []string          // lines before and after the program
	Before      map[Stmt][]string // lines above a statement
	After       map[Stmt]string   // the comment on a statement's last line
	Open        map[*Block]string // the comment after a block's opening brace
	End         map[*Block][]string
}

// NewComments is an empty set of comments.
func NewComments() *Comments {
	return &Comments{Before: map[Stmt][]string{}, After: map[Stmt]string{}, Open: map[*Block]string{}, End: map[*Block][]string{}}
}

// Clone copies a program, so that a pass may change the copy: statements, blocks
// and variables are new, comments and positions are kept. Expressions without
// variables are shared, and so are shapes of literals that are no global tensor's; these are never changed in place.
func Clone(p *Program) *Program {
	c := &cloner{vars: map[*Var]*Var{}, from: p.Comments}
	if p.Comments != nil {
		c.to = NewComments()
		c.to.Top, c.to.Bottom = p.Comments.Top, p.Comments.Bottom
	}
	q := &Program{Name: p.Name, Warps: p.Warps, Cluster: slices.Clone(p.Cluster), Resident: p.Resident, Pos: p.Pos, Source: p.Source, Bindings: maps.Clone(p.Bindings), Comments: c.to}
	for _, v := range p.Params {
		q.Params = append(q.Params, c.variable(v))
	}
	for _, e := range p.Grid {
		q.Grid = append(q.Grid, c.expr(e))
	}
	q.Body = c.block(p.Body)
	return q
}

type cloner struct {
	vars     map[*Var]*Var
	from, to *Comments
}

func (c *cloner) variable(v *Var) *Var {
	if w, ok := c.vars[v]; ok {
		return w
	}
	w := &Var{Name: v.Name, Type: v.Type, Param: v.Param, Pos: v.Pos}
	c.vars[v] = w
	if v.Type.IsGlobal() || slices.ContainsFunc(v.Type.Shape, func(e Expr) bool { _, literal := e.(*Int); return !literal }) {
		w.Type.Shape = c.exprs(v.Type.Shape)
	}
	return w
}

func (c *cloner) exprs(list []Expr) []Expr {
	if list == nil {
		return nil
	}
	out := make([]Expr, len(list))
	for i, e := range list {
		out[i] = c.expr(e)
	}
	return out
}

func (c *cloner) expr(e Expr) Expr {
	if r, ok := e.(*Ref); ok { // most often
		return &Ref{Var: c.variable(r.Var), Pos: r.Pos}
	}
	return MapRefs(e, func(r *Ref) Expr { return &Ref{Var: c.variable(r.Var), Pos: r.Pos} })
}

// MapRefs rebuilds an expression with each variable replaced.
func MapRefs(e Expr, f func(*Ref) Expr) Expr {
	switch e := e.(type) {
	case *Ref:
		return f(e)
	case *Unary:
		return &Unary{Op: e.Op, X: MapRefs(e.X, f), Pos: e.Pos}
	case *Binary:
		return &Binary{Op: e.Op, X: MapRefs(e.X, f), Y: MapRefs(e.Y, f), Pos: e.Pos}
	case *Select:
		return &Select{Cond: MapRefs(e.Cond, f), X: MapRefs(e.X, f), Y: MapRefs(e.Y, f), Pos: e.Pos}
	}
	return e
}

func (c *cloner) block(b *Block) *Block {
	if b == nil {
		return nil
	}
	out := &Block{}
	if len(b.Stmts) > 0 {
		out.Stmts = make([]Stmt, 0, len(b.Stmts))
	}
	for _, s := range b.Stmts {
		t := c.stmt(s)
		if c.from != nil {
			if lines, ok := c.from.Before[s]; ok {
				c.to.Before[t] = lines
			}
			if line, ok := c.from.After[s]; ok {
				c.to.After[t] = line
			}
		}
		out.Stmts = append(out.Stmts, t)
	}
	if c.from != nil {
		if line, ok := c.from.Open[b]; ok {
			c.to.Open[out] = line
		}
		if lines, ok := c.from.End[b]; ok {
			c.to.End[out] = lines
		}
	}
	return out
}

func (c *cloner) stmt(s Stmt) Stmt {
	switch s := s.(type) {
	case *Instr:
		t := &Instr{Op: s.Op, In: slices.Clone(s.In), Attrs: slices.Clone(s.Attrs), Out: slices.Clone(s.Out), Pos: s.Pos, TypePos: s.TypePos}
		for i := range t.In {
			t.In[i].Expr = c.expr(t.In[i].Expr)
		}
		for i := range t.Attrs {
			t.Attrs[i].Exprs = c.exprs(t.Attrs[i].Exprs)
		}
		for i, v := range t.Out {
			t.Out[i] = c.variable(v)
		}
		return t
	case *Let:
		return &Let{Var: c.variable(s.Var), Value: c.expr(s.Value), Pos: s.Pos}
	case *For:
		t := &For{Var: c.variable(s.Var), From: c.expr(s.From), To: c.expr(s.To), Unroll: s.Unroll, Pos: s.Pos}
		if s.Step != nil {
			t.Step = c.expr(s.Step)
		}
		t.Body = c.block(s.Body)
		return t
	case *While:
		return &While{Cond: c.expr(s.Cond), Body: c.block(s.Body), Pos: s.Pos}
	case *If:
		return &If{Cond: c.expr(s.Cond), Then: c.block(s.Then), Else: c.block(s.Else), Pos: s.Pos}
	case *Break:
		return &Break{s.Pos}
	case *Continue:
		return &Continue{s.Pos}
	case *Return:
		return &Return{s.Pos}
	case *Assume:
		return &Assume{c.expr(s.Cond), s.Pos}
	case *Group:
		return &Group{s.Begin, s.Size, c.block(s.Body), s.Pos}
	}
	panic("ir: no such statement")
}
