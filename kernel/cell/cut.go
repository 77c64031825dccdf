package cell

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// A cell mixes what Go keeps apart: imports, declarations and statements. It is cut into these runs by counting brackets in the
// token stream. Each run is then parsed in a copy of the whole cell in which everything else is blank, so that all
// positions stay what they are in the cell.

// runKind is what a run of a cell holds.
type runKind int

const (
	runImport runKind = iota
	runFunc
	runType // type and const declarations
	runStmt
)

type run struct {
	kind       runKind
	start, end int // byte offsets
}

// cut splits Go source into runs. It never fails: what is wrong with a run is for the parser to say.
func cut(src string) []run {
	var sc scanner.Scanner
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	sc.Init(file, []byte(src), func(token.Position, string) {}, 0)
	type tok struct {
		pos int
		tok token.Token
		end int
	}
	var toks []tok
	for {
		p, t, lit := sc.Scan()
		if t == token.EOF {
			break
		}
		off := file.Offset(p)
		n := len(lit)
		if n == 0 {
			n = len(t.String())
		}
		if t == token.SEMICOLON && lit == "\n" {
			n = 0
		}
		toks = append(toks, tok{off, t, min(off+n, len(src))})
	}
	var runs []run
	for i := 0; i < len(toks); {
		start := i
		depth := 0
		for ; i < len(toks); i++ {
			switch toks[i].tok {
			case token.LPAREN, token.LBRACE, token.LBRACK:
				depth++
			case token.RPAREN, token.RBRACE, token.RBRACK:
				depth--
			}
			if depth <= 0 && toks[i].tok == token.SEMICOLON {
				i++
				break
			}
		}
		last := toks[i-1]
		r := run{kind: runStmt, start: toks[start].pos, end: last.end}
		if i == len(toks) && last.tok != token.SEMICOLON {
			r.end = len(src)
		}
		switch toks[start].tok {
		case token.IMPORT:
			r.kind = runImport
		case token.PACKAGE:
			continue // the clause of a whole file: cells are package main already
		case token.TYPE, token.CONST:
			r.kind = runType
		case token.FUNC:
			if start+1 < len(toks) && toks[start+1].tok == token.IDENT {
				r.kind = runFunc
			} else if isMethod(func(k int) (token.Token, bool) {
				if start+k < i {
					return toks[start+k].tok, true
				}
				return 0, false
			}) {
				r.kind = runFunc
			}
		}
		runs = append(runs, r)
	}
	return runs
}

// isMethod tells func (r T) Name( from a function literal: after the first pair of parentheses comes a name and then a parenthesis.
// A literal func(a int) int { has a brace there, or a result type that no parenthesis follows.
func isMethod(at func(int) (token.Token, bool)) bool {
	depth := 0
	for k := 1; ; k++ {
		t, ok := at(k)
		if !ok {
			return false
		}
		switch t {
		case token.LPAREN:
			depth++
		case token.RPAREN:
			depth--
			if depth == 0 {
				a, _ := at(k + 1)
				b, _ := at(k + 2)
				return a == token.IDENT && b == token.LPAREN
			}
		}
	}
}

// parsed is a cell after cutting and parsing. Positions are those of fset's file for the cell plus a constant that place
// removes.
type parsed struct {
	imports []*ast.ImportSpec
	decls   []*ast.GenDecl // type and const
	funcs   []*ast.FuncDecl
	body    *ast.BlockStmt
	files   map[*token.File]int // prefix length of each parsed copy
	over    bool                // the cell exceeds a limit; the only error says which
}

// Limits of a cell. Checker and printer are recursive, and a worker has a small stack.
const (
	maxCell     = 1 << 20 // bytes
	maxBrackets = 256     // open brackets
	maxDepth    = 2000    // of the syntax tree; each + of a sum adds one
)

const (
	declPrefix = "package main;"
	stmtPrefix = "package main;func _(){"
)

// blank keeps the runs of one kind and turns all else into spaces, keeping line ends.
func blank(src string, runs []run, kind runKind) string {
	b := []byte(src)
	pos := 0
	wipe := func(to int) {
		for ; pos < to; pos++ {
			if b[pos] != '\n' {
				b[pos] = ' '
			}
		}
	}
	for _, r := range runs {
		if r.kind == kind {
			wipe(r.start)
			pos = r.end
		}
	}
	wipe(len(b))
	return string(b)
}

// Sections cuts a cell into imports, declarations (types, constants, functions) and
// statements. Each has the cell's length, with all else blank, so that places in it are
// places in the cell.
func Sections(src string) (imports, decls, statements string) {
	runs := cut(src)
	types, funcs := []byte(blank(src, runs, runType)), blank(src, runs, runFunc)
	for i, b := range []byte(funcs) {
		if b != ' ' && b != '\n' {
			types[i] = b
		}
	}
	return blank(src, runs, runImport), string(types), blank(src, runs, runStmt)
}

// parse cuts and parses a cell. name is the file name for positions; errors carry offsets in the cell.
func parse(fset *token.FileSet, name, src string) (*parsed, scanner.ErrorList) {
	p := &parsed{files: map[*token.File]int{}}
	var errs scanner.ErrorList
	limit := func(off int, msg string) scanner.ErrorList {
		f := fset.AddFile(name, -1, len(src))
		f.SetLinesForContent([]byte(src))
		p.files, p.over = map[*token.File]int{f: 0}, true
		return scanner.ErrorList{{Pos: token.Position{Offset: off}, Msg: msg}}
	}
	if len(src) > maxCell {
		return p, limit(0, fmt.Sprintf("a cell of %d bytes is too long; the limit is %d", len(src), maxCell))
	}
	if off := tooDeep(src); off >= 0 {
		return p, limit(off, fmt.Sprintf("more than %d brackets are open here", maxBrackets))
	}
	runs := cut(src)
	one := func(kind runKind, prefix, suffix string) *ast.File {
		has := false
		for _, r := range runs {
			has = has || r.kind == kind
		}
		if !has {
			return nil
		}
		text := prefix + blank(src, runs, kind) + suffix
		base := fset.Base()
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.AllErrors|parser.SkipObjectResolution)
		tf := fset.File(token.Pos(base))
		if tf != nil {
			p.files[tf] = len(prefix)
		}
		if el, ok := err.(scanner.ErrorList); ok {
			for _, e := range el {
				if e.Pos.Offset-len(prefix) >= len(src) { // at what closes the cell, which its writer did not write
					e.Msg = strings.NewReplacer("found '}'", "found the end of the cell", "found 'EOF'", "found the end of the cell").Replace(e.Msg)
				}
				e.Pos.Offset = min(max(e.Pos.Offset-len(prefix), 0), len(src))
				errs = append(errs, e)
			}
		}
		return f
	}
	if f := one(runImport, declPrefix, ""); f != nil {
		p.imports = f.Imports
	}
	for _, k := range []runKind{runType, runFunc} {
		f := one(k, declPrefix, "")
		if f == nil {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				p.decls = append(p.decls, d)
			case *ast.FuncDecl:
				p.funcs = append(p.funcs, d)
			}
		}
	}
	if f := one(runStmt, stmtPrefix, "\n}"); f != nil && len(f.Decls) > 0 {
		if fd, ok := f.Decls[0].(*ast.FuncDecl); ok {
			p.body = fd.Body
		}
		if len(errs) == 0 && len(f.Decls) > 1 {
			errs = append(errs, &scanner.Error{Pos: token.Position{Offset: strings.LastIndexByte(src, '}')}, Msg: "unexpected }"})
		}
	}
	if p.body != nil {
		// A semicolon after the last expression does not make it any less the last.
		list := p.body.List
		for len(list) > 0 {
			if _, ok := list[len(list)-1].(*ast.EmptyStmt); !ok {
				break
			}
			list = list[:len(list)-1]
		}
		p.body.List = list
	}
	if pos := deepNode(p); pos.IsValid() && len(errs) == 0 {
		f := fset.File(pos)
		return p, limit(min(max(f.Offset(pos)-p.files[f], 0), len(src)), fmt.Sprintf("this is nested more than %d levels deep", maxDepth))
	}
	return p, errs
}

// inits makes statements of init functions: they run behind the others of the cell, but for a last expression, and before main.
func inits(p *parsed) {
	var calls []ast.Stmt
	p.funcs = slices.DeleteFunc(p.funcs, func(f *ast.FuncDecl) bool {
		if f.Name.Name != "init" || f.Recv != nil || f.Body == nil || f.Type.Params.NumFields() > 0 || f.Type.Results != nil {
			return false
		}
		calls = append(calls, &ast.ExprStmt{X: &ast.CallExpr{Fun: &ast.FuncLit{Type: f.Type, Body: f.Body}, Lparen: f.Body.End(), Rparen: f.Body.End()}})
		return true
	})
	if len(calls) == 0 {
		return
	}
	if p.body == nil {
		p.body = &ast.BlockStmt{Lbrace: calls[0].Pos(), Rbrace: calls[len(calls)-1].End()}
	}
	list := p.body.List
	at := len(list)
	if at > 0 {
		if _, ok := list[at-1].(*ast.ExprStmt); ok {
			at--
		}
	}
	p.body.List = slices.Insert(list, at, calls...)
}

// tooDeep gives the offset of the bracket that opens one level too many, or -1.
func tooDeep(src string) int {
	var sc scanner.Scanner
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	sc.Init(file, []byte(src), func(token.Position, string) {}, 0)
	depth := 0
	for {
		p, t, _ := sc.Scan()
		switch t {
		case token.EOF:
			return -1
		case token.LPAREN, token.LBRACE, token.LBRACK:
			if depth++; depth > maxBrackets {
				return file.Offset(p)
			}
		case token.RPAREN, token.RBRACE, token.RBRACK:
			depth = max(depth-1, 0)
		}
	}
}

// deepNode gives the place of a node deeper than maxDepth.
func deepNode(p *parsed) (at token.Pos) {
	depth := 0
	visit := func(n ast.Node) bool {
		if n == nil {
			depth--
			return true
		}
		if depth++; depth > maxDepth && !at.IsValid() {
			at = n.Pos()
		}
		if at.IsValid() {
			depth--
			return false
		}
		return true
	}
	for _, d := range p.decls {
		ast.Inspect(d, visit)
	}
	for _, d := range p.funcs {
		ast.Inspect(d, visit)
	}
	if p.body != nil {
		ast.Inspect(p.body, visit)
	}
	return at
}
