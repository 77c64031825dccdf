package cell

import (
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/gpu/assist"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// Complete lists the names that may stand at the cursor, which counts code points. It reads what the type checker knows and runs nothing, so it
// answers while a cell runs.
func (e *Engine) Complete(code string, cursor int) proto.Completed {
	e.mu.RLock()
	defer e.mu.RUnlock()
	at := byteOffset(code, cursor)
	if isTile(code) && strings.Contains(strings.TrimLeft(code[:at], " \t\r\n"), "\n") {
		items, word := assist.Complete(code[:at])
		return completed(items, word, cursor)
	}
	if path, ok := importing(code[:at]); ok {
		return e.packages(path, cursor)
	}
	if inString(code[:at]) {
		items, word := assist.CompleteNotation(code[:at])
		return completed(items, word, cursor)
	}
	chain := chainBefore(code[:at])
	last := chain[len(chain)-1]
	out := proto.Completed{Matches: []proto.Match{}, Start: cursor - utf8.RuneCountInString(last), End: cursor}
	add := func(name, kind, sig string) {
		if strings.HasPrefix(name, last) && !strings.Contains(name, "ǃ") {
			out.Matches = append(out.Matches, proto.Match{Text: name, Kind: kind, Sig: sig})
		}
	}
	if strings.HasPrefix(strings.TrimLeft(lineBefore(code[:at]), " \t"), "%") && len(chain) == 1 {
		typed := strings.TrimLeft(lineBefore(code[:at]), " \t")
		for _, m := range Magics {
			if strings.HasPrefix(m.Name, typed) && strings.HasPrefix(m.Name, "%%") == strings.HasPrefix(typed, "%%") {
				add(strings.TrimLeft(m.Name, "%"), "magic", m.Doc)
			}
		}
		return out
	}
	if len(chain) == 1 {
		for n, o := range e.objs {
			add(n, kindOf(o), sigOf(o))
		}
		for _, n := range types.Universe.Names() {
			add(n, kindOf(types.Universe.Lookup(n)), "")
		}
		for t := token.BREAK; t <= token.VAR; t++ {
			add(t.String(), "keyword", "")
		}
		sketch := e.sketch(code, at, last)
		for n, o := range sketch.locals(at - len(last)) {
			if e.objs[n] == nil {
				add(n, kindOf(o), sigOf(o))
			}
		}
		_, fields := sketch.literal(at - len(last))
		for _, f := range fields {
			add(f.Name(), kindOf(f), sigOf(f))
		}
	} else if pkg, t := e.resolve(code, at, chain); pkg != nil {
		for _, n := range pkg.Scope().Names() {
			if o := pkg.Scope().Lookup(n); o.Exported() && strings.HasPrefix(n, last) {
				add(n, kindOf(o), signature(o, nil))
			}
		}
	} else if t != nil {
		for _, o := range members(t) {
			if (o.Exported() || o.Pkg() != nil && o.Pkg().Path() == "main") && strings.HasPrefix(o.Name(), last) {
				add(o.Name(), kindOf(o), signature(o, t))
			}
		}
	}
	sort.Slice(out.Matches, func(i, j int) bool { return out.Matches[i].Text < out.Matches[j].Text })
	return out
}

// importing gives the part of an import path that ends a text.
func importing(before string) (path string, ok bool) {
	runs := cut(before)
	if len(runs) == 0 || runs[len(runs)-1].kind != runImport || !inString(before) {
		return "", false
	}
	return before[strings.LastIndexAny(before, "\"`")+1:], true
}

// packages lists the import paths that begin with what is typed.
func (e *Engine) packages(typed string, cursor int) proto.Completed {
	out := proto.Completed{Matches: []proto.Match{}, Start: cursor - utf8.RuneCountInString(typed), End: cursor}
	for _, p := range e.imp.Paths() {
		if strings.HasPrefix(p, typed) {
			out.Matches = append(out.Matches, proto.Match{Text: p, Kind: "package"})
		}
	}
	return out
}

// Inspect describes the name at the cursor.
func (e *Engine) Inspect(code string, cursor int) proto.Inspected {
	e.mu.RLock()
	defer e.mu.RUnlock()
	at := byteOffset(code, cursor)
	if m, ok := magicAt(code, at); ok {
		return markdown("`" + m.Use + "`\n\n" + m.Doc)
	}
	if isTile(code) {
		return markdown(assist.Describe(code, at))
	}
	if inString(code[:at]) {
		return markdown(assist.DescribeNotation(code, at))
	}
	for at < len(code) && isNameByte(code[at]) {
		at++
	}
	if at > 0 && at <= len(code) && code[at-1] == '(' {
		at--
	}
	chain := chainBefore(code[:at])
	last := chain[len(chain)-1]
	if last == "" {
		return proto.Inspected{}
	}
	var o types.Object
	var owner types.Type
	if len(chain) == 1 {
		if o = e.objs[last]; o == nil {
			o = types.Universe.Lookup(last)
		}
		if o == nil {
			sketch := e.sketch(code, at, last)
			o = sketch.object(at - len(last))
			owner, _ = sketch.literal(at - len(last))
		}
		if pn := importIn(code, last); o == nil && pn != "" {
			if pkg, err := e.imp.Import(pn); err == nil {
				o = types.NewPkgName(token.NoPos, nil, last, pkg)
			}
		}
	} else if pkg, t := e.resolve(code, at, chain); pkg != nil {
		o = pkg.Scope().Lookup(last)
	} else if t != nil {
		o, _, _ = types.LookupFieldOrMethod(t, true, types.NewPackage("main", "main"), last)
		owner = t
	}
	if o == nil {
		return proto.Inspected{}
	}
	if d := e.decls[last]; d != nil && len(chain) == 1 && d.ast != nil {
		return answer(d.text, "", "")
	}
	return e.inspected(o, owner)
}

// magicAt is the magic whose word stands at a place.
func magicAt(code string, at int) (Magic, bool) {
	line := strings.TrimLeft(code[strings.LastIndexByte(code[:at], '\n')+1:], " \t")
	line, _, _ = strings.Cut(line, "\n")
	word, _, _ := strings.Cut(line, " ")
	if !strings.HasPrefix(word, "%") || at > strings.LastIndexByte(code[:at], '\n')+1+len(word) {
		return Magic{}, false
	}
	for _, m := range Magics {
		if m.Name == word {
			return m, true
		}
	}
	return Magic{}, false
}

// IsComplete says whether a cell can run or needs more lines.
func IsComplete(code string) proto.Completeness {
	if strings.HasPrefix(strings.TrimSpace(code), "%%") {
		if strings.HasSuffix(code, "\n\n") || strings.Contains(strings.TrimSpace(code), "\n}") {
			return proto.Completeness{Status: "complete"}
		}
		return proto.Completeness{Status: "incomplete"}
	}
	if first := strings.TrimSpace(code); first != "" && strings.ContainsRune("%!$", rune(first[0])) {
		if _, rest, more := strings.Cut(first, "\n"); more {
			return IsComplete(rest)
		}
		return proto.Completeness{Status: "complete"}
	}
	_, errs := parse(token.NewFileSet(), "cell", code)
	if len(errs) == 0 {
		return proto.Completeness{Status: "complete"}
	}
	depth, ended, bad := scanDepth(code)
	switch {
	case bad:
		return proto.Completeness{Status: "invalid"}
	case depth > 0 || !ended:
		return proto.Completeness{Status: "incomplete", Indent: strings.Repeat("\t", depth)}
	}
	return proto.Completeness{Status: "invalid"}
}

// scanDepth counts brackets that are open at the end; ended is false when the last token wants more, bad is true for a bracket that closes nothing.
func scanDepth(code string) (depth int, ended, bad bool) {
	var sc scanner.Scanner
	fset := token.NewFileSet()
	open := false
	sc.Init(fset.AddFile("", -1, len(code)), []byte(code), func(_ token.Position, msg string) {
		open = open || strings.Contains(msg, "not terminated")
	}, 0)
	var stack []token.Token
	last := token.SEMICOLON
	for {
		_, t, lit := sc.Scan()
		if t == token.EOF {
			break
		}
		switch t {
		case token.LPAREN, token.LBRACE, token.LBRACK:
			stack = append(stack, t)
		case token.RPAREN, token.RBRACE, token.RBRACK:
			want := map[token.Token]token.Token{token.RPAREN: token.LPAREN, token.RBRACE: token.LBRACE, token.RBRACK: token.LBRACK}[t]
			if len(stack) == 0 || stack[len(stack)-1] != want {
				return 0, true, true
			}
			stack = stack[:len(stack)-1]
		}
		if !(t == token.SEMICOLON && lit == "\n") {
			last = t
		}
	}
	ended = !open && !(last.IsOperator() && last != token.RPAREN && last != token.RBRACE && last != token.RBRACK && last != token.SEMICOLON && last != token.INC && last != token.DEC)
	return len(stack), ended, false
}

func byteOffset(code string, cursor int) int {
	n := 0
	for i := range code {
		if n == cursor {
			return i
		}
		n++
	}
	return len(code)
}

func lineBefore(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

func isNameByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

// chainBefore reads the selector that ends a text: "fmt.Pri" is {"fmt", "Pri"}. Calls and indexes inside stay as text: {"f(x)", "A"}.
func chainBefore(s string) []string {
	end := len(s)
	i := end
	for i > 0 && isNameByte(s[i-1]) {
		i--
	}
	chain := []string{s[i:end]}
	for i > 0 && s[i-1] == '.' {
		end = i - 1
		i = end
		for i > 0 {
			if isNameByte(s[i-1]) {
				i--
				continue
			}
			if s[i-1] == ')' || s[i-1] == ']' {
				depth := 0
				for i > 0 {
					i--
					if s[i] == ')' || s[i] == ']' {
						depth++
					}
					if s[i] == '(' || s[i] == '[' {
						depth--
						if depth == 0 {
							break
						}
					}
				}
				continue
			}
			break
		}
		if i == end {
			break
		}
		chain = append([]string{s[i:end]}, chain...)
	}
	return chain
}

// resolve finds the package or type that the last name of a chain is selected from. Most cells can be checked as they stand; where the text around is
// broken, the chain is checked alone.
func (e *Engine) resolve(code string, at int, chain []string) (*types.Package, types.Type) {
	last := chain[len(chain)-1]
	if pkg, t := e.sketch(code, at, last).selected(at - len(last)); pkg != nil || t != nil {
		return pkg, t
	}
	chain = chain[:len(chain)-1]
	pkg := seeAll(types.NewPackage("main", "main"), e.objs, nil)
	if len(chain) == 1 {
		if pn, ok := pkg.Scope().Lookup(chain[0]).(*types.PkgName); ok {
			return pn.Imported(), nil
		}
		if spec := importIn(code, chain[0]); spec != "" {
			if p, err := e.imp.Import(spec); err == nil {
				return p, nil
			}
		}
	}
	x, err := parser.ParseExpr(strings.Join(chain, "."))
	if err != nil {
		return nil, nil
	}
	info := newInfo()
	if err := types.CheckExpr(e.fset, pkg, token.NoPos, x, info); err != nil {
		return nil, nil
	}
	return nil, info.TypeOf(x)
}

// importIn finds the path that the code imports under a name.
func importIn(code, name string) string {
	p, _ := parse(token.NewFileSet(), "", code)
	for _, im := range p.imports {
		path := strings.Trim(im.Path.Value, "\"`")
		if im.Name != nil && im.Name.Name == name || im.Name == nil && path[strings.LastIndexByte(path, '/')+1:] == name {
			return path
		}
	}
	return ""
}

// members lists fields and methods of a type.
func members(t types.Type) []types.Object {
	var out []types.Object
	seen := map[string]bool{}
	add := func(o types.Object) {
		if !seen[o.Name()] {
			seen[o.Name()] = true
			out = append(out, o)
		}
	}
	base := t
	if p, ok := t.Underlying().(*types.Pointer); ok {
		base = p.Elem()
	}
	var fields func(t types.Type, depth int)
	fields = func(t types.Type, depth int) {
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		st, ok := t.Underlying().(*types.Struct)
		if !ok || depth > maxEmbedded {
			return
		}
		for i := range st.NumFields() {
			add(st.Field(i))
			if st.Field(i).Embedded() {
				fields(st.Field(i).Type(), depth+1)
			}
		}
	}
	fields(base, 0)
	set := types.NewMethodSet(types.NewPointer(base))
	if types.IsInterface(base) {
		set = types.NewMethodSet(base)
	}
	for i := range set.Len() {
		add(set.At(i).Obj())
	}
	return out
}

func kindOf(o types.Object) string {
	switch o := o.(type) {
	case *types.Func:
		if o.Type().(*types.Signature).Recv() != nil {
			return "method"
		}
		return "function"
	case *types.Var:
		if o.IsField() {
			return "field"
		}
		return "variable"
	case *types.Const:
		return "constant"
	case *types.TypeName:
		return "type"
	case *types.PkgName:
		return "package"
	case *types.Builtin:
		return "function"
	}
	return "constant"
}

func sigOf(o types.Object) string {
	if _, ok := o.(*types.PkgName); ok || o.Type() == nil {
		return ""
	}
	return goType(o.Type())
}
