package cell

import (
	"fmt"
	"go/types"
)

// subst puts the type arguments of the instance being printed in the place of type parameters.
func (g *gen) subst(t types.Type) types.Type {
	if len(g.env) == 0 || t == nil {
		return t
	}
	switch t := t.(type) {
	case *types.TypeParam:
		if a, ok := g.env[t]; ok {
			return a
		}
		return t
	case *types.Alias:
		if t.TypeArgs().Len() == 0 && t.TypeParams().Len() == 0 {
			return g.subst(types.Unalias(t))
		}
		return g.subst(types.Unalias(t))
	case *types.Named:
		if t.TypeArgs().Len() == 0 {
			return g.local(t)
		}
		args := make([]types.Type, t.TypeArgs().Len())
		same := true
		for i := range args {
			args[i] = g.subst(t.TypeArgs().At(i))
			same = same && args[i] == t.TypeArgs().At(i)
		}
		if same {
			return t
		}
		n, err := types.Instantiate(g.e.ctxt, t.Origin(), args, false)
		if err != nil {
			return t
		}
		return n
	case *types.Pointer:
		return types.NewPointer(g.subst(t.Elem()))
	case *types.Slice:
		return types.NewSlice(g.subst(t.Elem()))
	case *types.Array:
		return types.NewArray(g.subst(t.Elem()), t.Len())
	case *types.Map:
		return types.NewMap(g.subst(t.Key()), g.subst(t.Elem()))
	case *types.Chan:
		return types.NewChan(t.Dir(), g.subst(t.Elem()))
	case *types.Tuple:
		return g.substTuple(t)
	case *types.Signature:
		return types.NewSignatureType(nil, nil, nil, g.substTuple(t.Params()), g.substTuple(t.Results()), t.Variadic())
	case *types.Struct:
		fields := make([]*types.Var, t.NumFields())
		tags := make([]string, t.NumFields())
		for i := range fields {
			f := t.Field(i)
			fields[i] = types.NewField(f.Pos(), f.Pkg(), f.Name(), g.subst(f.Type()), f.Embedded())
			tags[i] = t.Tag(i)
		}
		return types.NewStruct(fields, tags)
	case *types.Interface:
		if t.NumMethods() == 0 {
			return t
		}
		ms := make([]*types.Func, t.NumMethods())
		for i := range ms {
			m := t.Method(i)
			ms[i] = types.NewFunc(m.Pos(), m.Pkg(), m.Name(), g.subst(m.Type()).(*types.Signature))
		}
		it := types.NewInterfaceType(ms, nil)
		it.Complete()
		return it
	}
	return t
}

func (g *gen) substTuple(t *types.Tuple) *types.Tuple {
	if t == nil {
		return nil
	}
	vs := make([]*types.Var, t.Len())
	for i := range vs {
		v := t.At(i)
		vs[i] = types.NewParam(v.Pos(), v.Pkg(), v.Name(), g.subst(v.Type()))
	}
	return types.NewTuple(vs...)
}

// local gives the type that a type declared in a generic function is in the instance being printed.
func (g *gen) local(t *types.Named) types.Type {
	o := t.Obj()
	if o.Parent() == nil || o.Pkg() == nil || o.Parent().Parent() == types.Universe || !g.mentions(t.Underlying(), map[types.Type]bool{}) {
		return t
	}
	key := fmt.Sprintf("%p%s", t, g.envKey())
	n := g.e.locals[key]
	if n == nil {
		n = types.NewNamed(types.NewTypeName(o.Pos(), o.Pkg(), o.Name(), nil), nil, nil)
		g.e.locals[key] = n
		n.SetUnderlying(g.subst(t.Underlying()))
	}
	return n
}
