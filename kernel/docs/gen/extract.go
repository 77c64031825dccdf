package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"strings"

	"github.com/tilus-lab/tilus-lab/kernel/docs"
)

// Limits of what one symbol may take.
const (
	maxDecl = 10000 // bytes; longer declarations are cut behind a line
	maxDoc  = 4000
)

// extract reads the documentation of the package with the sources in dir.
func extract(dir, path string) (*docs.Package, error) {
	ctx := build.Default
	ctx.CgoEnabled = false
	bp, err := ctx.ImportDir(dir, 0)
	if err != nil {
		return nil, fmt.Errorf("docs: %w", err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range bp.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("docs: %w", err)
		}
		files = append(files, f)
	}
	d, err := doc.NewFromFiles(fset, files, path)
	if err != nil {
		return nil, fmt.Errorf("docs: %w", err)
	}
	x := &extractor{fset: fset, pkg: d, out: &docs.Package{}}
	x.out.Doc = x.text(d.Doc)
	x.values(d.Consts)
	x.values(d.Vars)
	x.funcs("", d.Funcs)
	for _, t := range d.Types {
		x.typ(t)
	}
	docs.Encode(x.out) // sorts
	return x.out, nil
}

type extractor struct {
	fset *token.FileSet
	pkg  *doc.Package
	out  *docs.Package
}

func (x *extractor) add(name, decl, docText string) {
	if len(decl) > maxDecl {
		decl = decl[:strings.LastIndexByte(decl[:maxDecl], '\n')+1] + "…"
	}
	x.out.Symbols = append(x.out.Symbols, docs.Symbol{Name: name, Decl: decl, Doc: x.text(docText)})
}

// text is a doc comment without its markup.
func (x *extractor) text(s string) string {
	if s == "" {
		return ""
	}
	pr := &comment.Printer{TextWidth: -1}
	out := strings.TrimSpace(string(pr.Text(x.pkg.Parser().Parse(s))))
	if len(out) > maxDoc {
		out = strings.ToValidUTF8(out[:maxDoc], "") + "…"
	}
	return out
}

func (x *extractor) print(n any) string {
	var b bytes.Buffer
	(&printer.Config{Mode: printer.UseSpaces | printer.TabIndent, Tabwidth: 8}).Fprint(&b, x.fset, n)
	return b.String()
}

func (x *extractor) values(vs []*doc.Value) {
	for _, v := range vs {
		for _, s := range v.Decl.Specs {
			spec := s.(*ast.ValueSpec)
			text := spec.Doc.Text()
			if text == "" {
				text = spec.Comment.Text()
			}
			if text == "" {
				text = v.Doc
			}
			bare := *spec
			bare.Doc, bare.Comment = nil, nil
			for _, n := range spec.Names {
				if n.IsExported() {
					x.add(n.Name, v.Decl.Tok.String()+" "+x.print(&bare), text)
				}
			}
		}
	}
}

func (x *extractor) funcs(recv string, fs []*doc.Func) {
	for _, f := range fs {
		if !ast.IsExported(f.Name) {
			continue
		}
		decl := *f.Decl
		decl.Body, decl.Doc = nil, nil
		x.add(recv+f.Name, x.print(&decl), f.Doc)
	}
}

func (x *extractor) typ(t *doc.Type) {
	x.add(t.Name, x.print(&ast.GenDecl{Tok: t.Decl.Tok, Specs: t.Decl.Specs}), t.Doc)
	x.values(t.Consts)
	x.values(t.Vars)
	x.funcs("", t.Funcs)
	x.funcs(t.Name+".", t.Methods)
	for _, s := range t.Decl.Specs {
		var list *ast.FieldList
		switch u := s.(*ast.TypeSpec).Type.(type) {
		case *ast.StructType:
			list = u.Fields
		case *ast.InterfaceType:
			list = u.Methods
		default:
			continue
		}
		for _, f := range list.List {
			text := f.Doc.Text()
			if text == "" {
				text = f.Comment.Text()
			}
			for _, n := range f.Names {
				if !n.IsExported() {
					continue
				}
				typ := x.print(f.Type)
				if fn, ok := f.Type.(*ast.FuncType); ok && fn.Func == token.NoPos {
					x.add(t.Name+"."+n.Name, "func ("+t.Name+") "+n.Name+strings.TrimPrefix(typ, "func"), text)
				} else {
					x.add(t.Name+"."+n.Name, n.Name+" "+typ, text)
				}
			}
		}
	}
}
