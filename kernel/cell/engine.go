// Package cell runs cells of Go: it cuts and checks them, prints them in a plainer form that the yaegi interpreter runs
// correctly, evaluates that, and answers questions about names.
//
// The life of a cell: [cut] splits it into imports, declarations and statements; go/types checks these against everything that
// earlier cells declared and reports all errors at their places; gen prints an equivalent that avoids the interpreter's
// holes; [Engine.Run] evaluates it inside a named function, so that it can be cancelled.
package cell

import (
	"context"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/traefik/yaegi/interp"
	"github.com/traefik/yaegi/stdlib"
	"github.com/traefik/yaegi/stdlib/syscall"
	"github.com/traefik/yaegi/stdlib/unrestricted"

	"github.com/tilus-lab/tilus-lab/kernel/debugger"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// Hooks is what an Engine needs from the process it lives in. All may be called from any goroutine.
type Hooks struct {
	Write  func(cell int64, stream string, p []byte) // "stdout" or "stderr", in order
	Sync   func()                                    // returns when what went through the stdout and stderr files has arrived
	Result func(cell int64, vals []any, ts []string) // values of the last expression with their static types
	Files  [3]any                                    // *os.File that cells see as os.Stdin, os.Stdout, os.Stderr
	Stdin  io.Reader                                 // what fmt.Scan reads
	Debug  *debugger.Debugger                        // may stop cells; nil for none
}

// Engine is one interpreter with everything that its cells declared. Run is for one goroutine at a time, but see [Beside]; Complete and
// Inspect may be called meanwhile.
type Engine struct {
	hooks Hooks

	in   *interp.Interpreter
	main *types.Package // that cells are checked in
	imp  *imports
	host *host
	fset *token.FileSet
	ctxt *types.Context

	build    sync.Mutex // held by who checks, prints and compiles
	activeMu sync.Mutex
	active   map[*evaluation]bool // that have not ended
	stale    atomic.Bool          // the interpreter was stopped since it last ran a cell in the foreground

	mu          sync.RWMutex            // guards what completion reads
	objs        map[string]types.Object // what the next cell sees at package level
	decls       map[string]*decl        // by key, see decl
	emitted     map[types.Object]string
	typeNames   map[string]string // types and generic instances that the interpreter has
	shown       map[string]string // printed name → name in the cell
	used        map[string]bool   // printed names
	bodies      map[*types.Func]*decl
	ifaces      map[string]ifaceUse
	methodTypes map[string]types.Type   // by their printed names
	locals      map[string]*types.Named // types declared in generic functions, by instance
	anon        map[string]*types.Named // names for structs without one, by their printed types
	inits       map[*types.Var]*initializer
	sources     map[types.Object]*decl // objects of packages given as source
	alias       map[string]string      // import path → name in the interpreter
	prefix      map[*token.File]int
	text        map[string]string // source of each cell by file name, for tracebacks
	number      map[string]int    // of each cell, see gen.mark
	serial      int
	calls       string // printed function that Call enters
	raw         bool   // cells write to os.Stdout or os.Stderr as files
	fresh       map[string]bool
	notes       []string        // for the person, from the last check
	untraced    bool            // the cell is printed without stops
	stops       map[string]bool // declarations that have stops
	noise       noise
}

// decl is one top-level declaration of a cell.
type decl struct {
	key  string // "f", "T", "T.M", or the names of a constant group joined by commas
	cell string
	text string
	deps map[string]bool

	gen *ast.GenDecl  // type or const
	ast *ast.FuncDecl // function or method

	info    *types.Info
	sig     *types.Signature // with the receiver as first parameter for methods
	recv    *types.Var
	ptr     bool
	tparams []*types.TypeParam
}

// problem is an error in a cell, before its place is turned into lines and columns.
type problem struct {
	pos, end        token.Pos
	code, msg, help string
}

// New makes an engine. symbols are the packages that cells can import besides the standard library; pre lists import paths that
// every cell has by their package names.
func New(hooks Hooks, symbols map[string]map[string]reflect.Value, pre []string) (*Engine, error) {
	e := &Engine{hooks: hooks, main: types.NewPackage("main", "main"), fset: token.NewFileSet(), ctxt: types.NewContext(), objs: map[string]types.Object{}, decls: map[string]*decl{},
		emitted: map[types.Object]string{}, typeNames: map[string]string{}, shown: map[string]string{}, used: map[string]bool{}, bodies: map[*types.Func]*decl{}, ifaces: map[string]ifaceUse{}, inits: map[*types.Var]*initializer{}, methodTypes: map[string]types.Type{}, anon: map[string]*types.Named{}, locals: map[string]*types.Named{},
		sources: map[types.Object]*decl{}, alias: map[string]string{}, prefix: map[*token.File]int{}, text: map[string]string{}, number: map[string]int{}, fresh: map[string]bool{}, stops: map[string]bool{}, active: map[*evaluation]bool{}}
	e.host = newHost(e)
	e.in = interp.New(interp.Options{Stdout: writerFunc(func(p []byte) { e.host.write("stdout", p) }), Stderr: &e.noise, Stdin: hooks.Stdin, Unrestricted: true})
	all := tables{}
	for k, v := range stdlib.Symbols {
		if k != "." && !strings.HasPrefix(k, "slices/") && !strings.HasPrefix(k, "maps/") && !strings.HasPrefix(k, "cmp/") {
			all[k] = v
		}
	}
	for _, more := range []tables{syscall.Symbols, unrestricted.Symbols, newer} {
		for k, v := range more {
			m := clone(all[k])
			for n, x := range v {
				m[n] = x
			}
			all[k] = m
		}
	}
	for k, v := range symbols {
		all[k] = v
	}
	over, mapTypes := e.host.symbols()
	for k, v := range over {
		m := map[string]reflect.Value{}
		for n, x := range all[k] {
			m[n] = x
		}
		for n, x := range v {
			m[n] = x
		}
		all[k] = m
	}
	if symbols[module+"kernel/display/display"] != nil {
		// The names that gophernotes gives this package.
		d := all[module+"kernel/display/display"]
		all["display/display"], all["github.com/gopherdata/gophernotes/display"] = d, d
	}
	// A key "fmt/fmt" would make yaegi load its own generic packages and redirect the streams its own way.
	use := interp.Exports{".": {"MapTypes": reflect.ValueOf(mapTypes)}}
	for k, v := range all {
		use[strings.Replace(k, "fmt/fmt", "fmt//fmt", 1)] = v
	}
	if err := e.in.Use(use); err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	if err := e.eval("package main\nvar " + lineVar + " int\n"); err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	e.imp = newImports(all)
	if err := e.addSources(); err != nil {
		return nil, err
	}
	for _, p := range pre {
		pkg, err := e.imp.Import(p)
		if err != nil {
			return nil, fmt.Errorf("cell: %w", err)
		}
		e.objs[pkg.Name()] = types.NewPkgName(token.NoPos, nil, pkg.Name(), pkg)
		if f := pkg.Scope().Lookup("Display"); f != nil && pkg.Name() == "display" {
			e.objs["Display"] = f
		}
	}
	return e, nil
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// newName returns a name for the interpreter that no other thing has.
func (e *Engine) newName(s string) string {
	if !e.used[s] && s != "main" && s != "init" && types.Universe.Lookup(s) == nil {
		e.used[s] = true
		return s
	}
	for {
		e.serial++
		n := fmt.Sprintf("%sǃ%d", s, e.serial)
		if !e.used[n] {
			e.used[n] = true
			return n
		}
	}
}

// place turns a position into file, line and column of the cell; columns count bytes.
func (e *Engine) place(pos token.Pos) token.Position {
	f := e.fset.File(pos)
	if f == nil {
		return token.Position{}
	}
	p := f.PositionFor(pos, false)
	if p.Line == 1 {
		p.Column = max(p.Column-e.prefix[f], 1)
	}
	p.Offset = max(p.Offset-e.prefix[f], 0)
	return p
}

// Outcome is how a cell ended.
type Outcome struct {
	Err       *proto.Error
	Cancelled bool
	Tainted   bool // the cell was cancelled, but a native call of it goes on
	Seconds   float64
}

// Run runs one cell. id marks its output; name, such as "cell3", stands in positions. It returns when the cell has ended,
// or Grace after ctx was cancelled.
func (e *Engine) Run(ctx context.Context, id int64, name, src string) Outcome {
	start := time.Now()
	out := e.run(ctx, id, name, src)
	out.Seconds = time.Since(start).Seconds()
	return out
}

// Grace is how long a cancelled cell may take to end before its worker counts as tainted.
const Grace = 200 * time.Millisecond

func (e *Engine) run(ctx context.Context, id int64, name, src string) Outcome {
	e.build.Lock()
	entry, fault := e.prepare(ctx, id, name, src)
	if entry == "" {
		e.trim("")
		e.build.Unlock()
		return Outcome{Err: fault}
	}
	v := newEvaluation(ctx, id, name)
	v.types = e.host.resultTypes
	return e.enter(v, entry, entry)
}

// prepare compiles a cell; entry is the function to call, "" when there is nothing to run.
func (e *Engine) prepare(ctx context.Context, id int64, name, src string) (entry string, fault *proto.Error) {
	if e.untraced = isBeside(ctx); e.untraced {
		defer func() { e.untraced = false }()
	}
	e.text[name] = src
	if e.number[name] == 0 {
		e.number[name] = len(e.number) + 1
	}
	undo := e.snapshot()
	code, entry, probs := e.make(name, src)
	if len(probs) > 0 {
		return "", e.report(name, probs)
	}
	if len(e.running((*evaluation).ahead)) == 0 {
		e.noise.reset()
	}
	if debugEval {
		fmt.Println(code)
	}
	if code != "" {
		err := e.eval(code)
		if err != nil && e.traced() {
			// A cell that the interpreter does not take with its stops still runs.
			e.takeBack(undo)
			e.untraced = true
			code, entry, _ = e.make(name, src)
			e.untraced = false
			if err = e.eval(code); err == nil {
				e.notes = append(e.notes, "the debugger cannot stop in this cell")
			}
		}
		if err != nil {
			// The interpreter refused what the checker took: say so, rather than run something else. What the cell declares is not
			// there then, nor what was printed for it and later cells would use.
			e.takeBack(undo)
			return "", e.internal(name, err, code)
		}
	}
	for _, n := range e.notes {
		e.hooks.Write(id, "stderr", []byte("note: "+n+"\n"))
	}
	e.notes = nil
	return entry, nil
}

func (e *Engine) eval(code string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
			if debugEval {
				err = fmt.Errorf("%v\n%s", r, debug.Stack())
			}
		}
	}()
	_, err = e.in.Eval(code)
	return err
}

var debugEval = os.Getenv("CELLDEBUG") != ""

// make checks a cell and prints it for the interpreter. entry is the function to call, "" when there is nothing to run.
func (e *Engine) make(name, src string) (code, entry string, probs []problem) {
	if strings.TrimSpace(src) == "" {
		return "", "", nil
	}
	p, errs := parse(e.fset, name, src)
	for f, n := range p.files {
		e.prefix[f] = n
	}
	if len(errs) > 0 {
		return "", "", e.syntax(p, errs)
	}
	oldPlots(p)
	inits(p)
	c, probs := e.check(name, src, p)
	if len(probs) > 0 {
		return "", "", probs
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.print(name, p, c)
}

// print prints the checked cell and takes its declarations into the session. On refusal nothing is taken.
func (e *Engine) print(name string, p *parsed, c *checked) (code, entry string, probs []problem) {
	undo := e.snapshot()
	out := &unit{}
	g := &gen{e: e, info: c.info, out: out, cell: name, names: map[types.Object]string{}, vars: map[types.Object]string{}, tracing: e.traced()}
	for n, o := range c.objs {
		e.objs[n] = o
	}
	for _, d := range c.decls {
		for _, k := range strings.Split(d.key, ",") {
			e.decls[k] = d
		}
	}
	for f, d := range c.bodies {
		e.bodies[f] = d
	}
	for _, d := range c.decls {
		e.stops[d.key] = g.tracing || e.untraced
	}
	for _, v := range c.vars {
		name := ""
		if v.old != nil {
			name = e.emitted[v.old]
		}
		if name == "" {
			name = e.newName(v.obj.Name())
			e.shown[name] = v.obj.Name()
			fmt.Fprintf(&out.vars, "var %s %s\n", name, g.typ(v.obj.Type()))
		}
		e.emitted[v.session] = name
		g.vars[v.obj] = name
		e.objs[v.obj.Name()] = v.session
	}
	// Methods for types that the interpreter has already.
	for _, d := range c.late {
		if n, ok := e.typeNames[typeKey(d.named)]; ok {
			g.method(d.decl, d.named, n)
			g.outgrown(d.named, n)
		}
	}
	var body string
	run := p.body != nil && len(p.body.List) > 0 || c.main != nil
	if run {
		entry = e.newName(name + "ǃ")
		e.shown[entry] = "cell"
		g.fn = &local{defers: p.body != nil && hasDefer(p.body)}
		var b strings.Builder
		fmt.Fprintf(&b, "func %s() {\ndefer %s.Done()\n%s.Enter()\n%s", entry, g.host(), g.host(), g.begins())
		if p.body != nil {
			list := p.body.List
			var last ast.Expr
			if len(list) > 0 {
				if x, ok := list[len(list)-1].(*ast.ExprStmt); ok && !c.novalue[x] {
					last, list = x.X, list[:len(list)-1]
				}
			}
			text := g.stmts(list)
			if last != nil {
				text += g.pause(&ast.ExprStmt{X: last}) + g.mark(last) + g.result(last) + "\n"
			}
			if g.fn.defers {
				text = g.deferring(text)
			}
			b.WriteString(text)
		}
		if c.main != nil {
			b.WriteString(g.object(c.main) + "()\n")
		}
		b.WriteString("}\n")
		body = b.String()
	}
	if regs := out.regs.String(); regs != "" {
		// Printed last, when all is known, but run first.
		if !run {
			entry = e.newName(name + "ǃ")
			body = fmt.Sprintf("func %s() {\ndefer %s.Done()\n%s.Enter()\n}\n", entry, g.host(), g.host())
		}
		head := "defer " + g.host() + ".Done()\n"
		body = strings.Replace(body, head, head+regs, 1)
	}
	if len(g.bail) > 0 {
		undo()
		return "", "", g.bail
	}
	e.notes = c.notes
	e.fresh = map[string]bool{}
	for _, v := range c.vars {
		e.fresh[v.obj.Name()] = true
	}
	for _, n := range c.touched {
		e.fresh[n] = true
	}
	code = out.types.String() + out.vars.String() + out.funcs.String() + body
	if code == "" && len(out.imports) == 0 {
		return "", "", nil
	}
	return "package main\n" + strings.Join(out.imports, "") + code, entry, nil
}

// result prints the last expression so that its values reach the front end.
func (g *gen) result(x ast.Expr) string {
	t := g.typeOf(x)
	var ts []string
	if tu, ok := t.(*types.Tuple); ok {
		for i := range tu.Len() {
			ts = append(ts, goType(tu.At(i).Type()))
		}
	} else {
		ts = append(ts, goType(types.Default(t)))
	}
	g.e.host.resultTypes = ts
	s := g.expr(unparen(x))
	if tu, ok := t.(*types.Tuple); ok {
		if all, ok := g.spread(x, tu, g.shown); ok {
			s = all
		}
	} else if types.IsInterface(t) {
		s = g.shown(x, s, t)
	} else if g.cellType(t) == nil || textMethod(t) == "" && g.hidesAt(t) && types.NewMethodSet(t).Len() == 0 {
		s = g.printable(x, s, types.Default(t))
	}
	return g.host() + ".Result(" + s + ")"
}

// goType names a type as a cell would write it.
func goType(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p.Path() == "main" {
			return ""
		}
		return p.Name()
	})
}

// snapshot remembers the maps that print changes.
func (e *Engine) snapshot() func() {
	objs, decls, emitted, names, bodies, alias, shown, ifaces, methodTypes := clone(e.objs), clone(e.decls), clone(e.emitted), clone(e.typeNames), clone(e.bodies), clone(e.alias), clone(e.shown), clone(e.ifaces), clone(e.methodTypes)
	return func() {
		e.objs, e.decls, e.emitted, e.typeNames, e.bodies, e.alias, e.shown, e.ifaces, e.methodTypes = objs, decls, emitted, names, bodies, alias, shown, ifaces, methodTypes
	}
}

// takeBack forgets what a cell declared that the interpreter does not have.
func (e *Engine) takeBack(undo func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	undo()
}

func clone[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m)+4)
	for k, v := range m {
		c[k] = v
	}
	return c
}

// report turns problems into the error of a cell.
func (e *Engine) report(name string, probs []problem) *proto.Error {
	sort.SliceStable(probs, func(i, j int) bool { return probs[i].pos < probs[j].pos })
	out := &proto.Error{Name: "CellError"}
	seen := map[string]bool{}
	for _, p := range probs {
		at := e.place(p.pos)
		key := fmt.Sprintf("%s:%d:%d %s", at.Filename, at.Line, at.Column, p.msg)
		if seen[key] {
			continue
		}
		seen[key] = true
		line := lineOf(e.text[at.Filename], at.Line)
		q := proto.Problem{Line: at.Line, Col: runeCol(line, at.Column), Code: p.code, Msg: p.msg, Help: p.help}
		if p.end.IsValid() && p.end > p.pos {
			end := e.place(p.end)
			q.EndLine, q.EndCol = end.Line, runeCol(lineOf(e.text[at.Filename], end.Line), end.Column)
		}
		out.Problems = append(out.Problems, q)
		text := fmt.Sprintf("%s:%d:%d: %s", at.Filename, q.Line, q.Col, p.msg)
		if p.code != "" {
			text += " [" + p.code + "]"
		}
		if out.Value == "" {
			out.Value = text
		}
		if len(out.Traceback) < 10 {
			out.Traceback = append(out.Traceback, text+"\n"+caret(line, q.Col, width(q)))
			if p.help != "" {
				out.Traceback[len(out.Traceback)-1] += "\n    help: " + p.help
			}
		}
	}
	if n := len(out.Problems); n > 1 {
		out.Value += fmt.Sprintf(" (and %d more)", n-1)
	}
	return out
}

func width(q proto.Problem) int {
	if q.EndLine == q.Line && q.EndCol > q.Col {
		return q.EndCol - q.Col
	}
	return 1
}

func lineOf(text string, n int) string {
	lines := strings.Split(text, "\n")
	if n < 1 || n > len(lines) {
		return ""
	}
	return lines[n-1]
}

// runeCol turns a byte column into one that counts code points.
func runeCol(line string, col int) int {
	return utf8.RuneCountInString(line[:min(max(col-1, 0), len(line))]) + 1
}

// caret shows a line with a mark under it.
func caret(line string, col, n int) string {
	rs := []rune(line)
	var pad strings.Builder
	for i := 0; i < col-1 && i < len(rs); i++ {
		if rs[i] == '\t' {
			pad.WriteByte('\t')
		} else {
			pad.WriteByte(' ')
		}
	}
	n = min(max(n, 1), max(len(rs)-col+1, 1))
	return "    " + line + "\n    " + pad.String() + strings.Repeat("^", n)
}
