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

// documented finds what the sources say of an object. t is the type whose member it is, nil for others.
func documented(o types.Object, t types.Type) (docs.Symbol, bool) {
	if o == nil || o.Pkg() == nil || o.Pkg().Path() == "main" {
		return docs.Symbol{}, false
	}
	if f, ok := o.(*types.Func); ok && f.Signature().Recv() != nil {
		t = f.Signature().Recv().Type()
	} else if v, ok := o.(*types.Var); !ok || !v.IsField() {
		return docs.Of(o.Pkg().Path()).Find(o.Name())
	}
	if t == nil {
		return docs.Symbol{}, false
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	if !ok || n.Obj().Pkg() == nil {
		return docs.Symbol{}, false
	}
	return docs.Of(n.Obj().Pkg().Path()).Find(n.Obj().Name() + "." + o.Name())
}

// signature is the type of an object, with the names of parameters where they are known.
func signature(o types.Object, t types.Type) string {
	if _, ok := o.(*types.Func); ok {
		if s, ok := documented(o, t); ok {
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
	if s, ok := documented(o, t); ok {
		decl, about = s.Decl, s.Doc
		if o.Pkg() != nil {
			decl = "// package " + o.Pkg().Path() + "\n" + decl
		}
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
