package cell

import (
	"fmt"
	"go/types"
	"sort"
	"strings"

	"github.com/tilus-lab/tilus-lab/kernel/docs"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// What the sources say of a name comes from kernel/docs; what the type checker knows of it fills the gaps, and is all there is for names of cells.

// documented finds what the sources say of an object, and the path of the package that declares it, "" for none. t is the type whose member
// it is, nil for others.
func documented(o types.Object, t types.Type) (docs.Symbol, string) {
	if o == nil || o.Pkg() == nil || o.Pkg().Path() == "main" {
		return docs.Symbol{}, ""
	}
	f, isFunc := o.(*types.Func)
	v, isVar := o.(*types.Var)
	switch {
	case isVar && v.IsField():
		return member([]types.Type{t}, o.Name(), 0)
	case !isFunc || f.Signature().Recv() == nil:
		return find(o.Pkg(), o.Name())
	case t == nil:
		t = f.Signature().Recv().Type()
	}
	return member([]types.Type{t}, o.Name(), 0)
}

// member finds what the sources say of a field or method of one of some types, or of what is embedded in them: reflection does not tell a
// method from one of an embedded type. depth bounds the search where a type has itself inside.
func member(in []types.Type, name string, depth int) (docs.Symbol, string) {
	var embedded []types.Type
	for _, t := range in {
		n := namedOf(t)
		if n == nil || n.Obj().Pkg() == nil {
			continue
		}
		if s, path := find(n.Obj().Pkg(), n.Obj().Name()+"."+name); path != "" {
			return s, path
		}
		if st, ok := n.Underlying().(*types.Struct); ok {
			for f := range st.Fields() {
				if f.Embedded() {
					embedded = append(embedded, f.Type())
				}
			}
		}
	}
	if len(embedded) == 0 || depth == maxEmbedded {
		return docs.Symbol{}, ""
	}
	return member(embedded, name, depth+1)
}

// maxEmbedded is how deep members of embedded types are looked for.
const maxEmbedded = 4

func find(p *types.Package, name string) (docs.Symbol, string) {
	if s, ok := docs.Of(p.Path()).Find(name); ok {
		return s, p.Path()
	}
	return docs.Symbol{}, ""
}

// signature is the type of an object, with the names of parameters where they are known.
func signature(o types.Object, t types.Type) string {
	if _, ok := o.(*types.Func); ok {
		if s, path := documented(o, t); path != "" {
			if i := strings.Index(s.Decl, o.Name()); i >= 0 && strings.HasPrefix(s.Decl, "func") {
				return "func" + strings.Join(strings.Fields(s.Decl[i+len(o.Name()):]), " ")
			}
		}
	}
	return sigOf(o)
}

// inspected is what there is to say of an object.
func (e *Engine) inspected(o types.Object, t types.Type) proto.Inspected {
	if pn, ok := o.(*types.PkgName); ok {
		path := pn.Imported().Path()
		text := fmt.Sprintf("package %s // import %q", pn.Imported().Name(), path)
		var about string
		if p := docs.Of(path); p != nil {
			about = p.Doc
		}
		return answer(text, about, "")
	}
	decl := types.ObjectString(o, func(p *types.Package) string {
		if p.Path() == "main" {
			return ""
		}
		return p.Name()
	})
	var about, more string
	if s, path := documented(o, t); path != "" {
		decl, about = "// package "+path+"\n"+s.Decl, s.Doc
	}
	switch o := o.(type) {
	case *types.TypeName:
		more = methodList(o)
	case *types.Var:
		if !o.IsField() {
			more = typeAbout(o.Type())
		}
	}
	return answer(decl, about, more)
}

// typeAbout is what the sources say of the type of a variable.
func typeAbout(t types.Type) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil || n.Obj().Pkg().Path() == "main" {
		return ""
	}
	s, _ := docs.Of(n.Obj().Pkg().Path()).Find(n.Obj().Name())
	return s.Doc
}

// methodList lists the methods of a type, a line each.
func methodList(tn *types.TypeName) string {
	if tn.Type() == nil {
		return ""
	}
	var ms []string
	for _, m := range members(tn.Type()) {
		if f, ok := m.(*types.Func); ok && m.Exported() {
			ms = append(ms, "func ("+tn.Name()+") "+f.Name()+strings.TrimPrefix(signature(f, tn.Type()), "func"))
		}
	}
	sort.Strings(ms)
	return strings.Join(ms, "\n")
}

// answer lays out a declaration, what is said of it, and what else there is to see.
func answer(decl, about, more string) proto.Inspected {
	text, md := decl, "```go\n"+decl+"\n```"
	if about != "" {
		text += "\n\n" + about
		md += "\n\n" + about
	}
	if more != "" {
		text += "\n\n" + more
		if strings.HasPrefix(more, "func ") {
			more = "```go\n" + more + "\n```"
		}
		md += "\n\n" + more
	}
	return proto.Inspected{Found: true, Text: text, Markdown: md}
}
