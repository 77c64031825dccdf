// Package native runs cells that Go's compiler makes machine code of, for loops that
// would take long in the interpreter. Variables of the session go in and come back by
// value.
package native

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Cell is a cell's code, cut by kind. Each part has the cell's length, with all else
// blank, so that places in them are places in the cell.
type Cell struct {
	Name                   string // in messages: "cell3"
	Imports, Decls, Bodies string
}

// Value is a variable that goes in or comes back.
type Value struct {
	Name  string
	Value reflect.Value
}

// Problem is a mistake that the compiler found in a cell.
type Problem struct {
	Line, Col int
	Msg       string
}

// Problems is what is wrong with a cell.
type Problems []Problem

func (p Problems) Error() string {
	return fmt.Sprintf("%d:%d: %s", p[0].Line, p[0].Col, p[0].Msg)
}

// ErrNoToolchain says that there is no compiler on this machine.
var ErrNoToolchain = errors.New("native cells need Go's toolchain, and no go is on PATH; without it the cell runs as it is without %%native, interpreted")

// Streams are where a native program prints.
type Streams struct{ Out, Err io.Writer }

// frame is a variable on its way; Type is as reflect prints it, "" where a value
// cannot leave, and then Data says why.
type frame struct {
	Name, Type string
	Data       []byte
}

// Names lists the variables that a cell's statements mention, and those that they
// declare at the top.
func Names(c Cell) (mentioned, declared []string) {
	f, err := parser.ParseFile(token.NewFileSet(), "", "package main;func _(){"+c.Bodies+"\n}", 0)
	if f == nil || err != nil && len(f.Decls) == 0 {
		return nil, nil // the compiler will say what is wrong
	}
	add := func(list *[]string, name string) {
		if name != "_" && !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for _, d := range f.Decls {
		fd, ok := d.(*ast.FuncDecl)
		if !ok || fd.Body == nil {
			continue
		}
		for _, s := range fd.Body.List {
			switch s := s.(type) {
			case *ast.AssignStmt:
				if s.Tok == token.DEFINE {
					for _, x := range s.Lhs {
						if id, ok := x.(*ast.Ident); ok {
							add(&declared, id.Name)
						}
					}
				}
			case *ast.DeclStmt:
				if g, ok := s.Decl.(*ast.GenDecl); ok && g.Tok == token.VAR {
					for _, x := range g.Specs {
						for _, id := range x.(*ast.ValueSpec).Names {
							add(&declared, id.Name)
						}
					}
				}
			}
		}
	}
	for _, text := range []string{"package main;func _(){" + c.Bodies + "\n}", "package main;" + c.Decls} {
		if f, _ := parser.ParseFile(token.NewFileSet(), "", text, 0); f != nil {
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					add(&mentioned, id.Name)
				}
				return true
			})
		}
	}
	return mentioned, declared
}

// syntax is what is wrong with the parts by themselves: in one program a mistake at the
// end of a part would show behind it.
func syntax(c Cell) (list Problems) {
	line := fmt.Sprintf("\n//line %s:1:1\n", c.Name)
	for _, text := range []string{"package main" + line + c.Imports, "package main" + line + c.Decls, "package main\nfunc _() {" + line + c.Bodies + "\n}"} {
		_, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
		var errs scanner.ErrorList
		if errors.As(err, &errs) {
			for _, e := range errs {
				list = append(list, Problem{e.Pos.Line, e.Pos.Column, e.Msg})
			}
		}
	}
	return list
}

// plain is Go's text of a type that variables can have on their way: basic types, and
// arrays, slices and maps of them.
func plain(t reflect.Type) (string, error) {
	if t.PkgPath() != "" {
		return "", fmt.Errorf("%s is a type of a package", t)
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return t.Kind().String(), nil
	case reflect.Slice, reflect.Array:
		of, err := plain(t.Elem())
		if t.Kind() == reflect.Array {
			return fmt.Sprintf("[%d]%s", t.Len(), of), err
		}
		return "[]" + of, err
	case reflect.Map:
		key, err := plain(t.Key())
		if err != nil {
			return "", err
		}
		of, err := plain(t.Elem())
		return "map[" + key + "]" + of, err
	}
	return "", fmt.Errorf("%s is no number, string, or array, slice or map of them", t)
}

var basics = map[string]reflect.Type{
	"bool": reflect.TypeFor[bool](), "string": reflect.TypeFor[string](), "int": reflect.TypeFor[int](), "int8": reflect.TypeFor[int8](), "int16": reflect.TypeFor[int16](), "int32": reflect.TypeFor[int32](),
	"int64": reflect.TypeFor[int64](), "uint": reflect.TypeFor[uint](), "uint8": reflect.TypeFor[uint8](), "uint16": reflect.TypeFor[uint16](), "uint32": reflect.TypeFor[uint32](), "uint64": reflect.TypeFor[uint64](),
	"float32": reflect.TypeFor[float32](), "float64": reflect.TypeFor[float64](), "complex64": reflect.TypeFor[complex64](), "complex128": reflect.TypeFor[complex128](),
}

// typeOf reads what plain writes.
func typeOf(x ast.Expr) (reflect.Type, error) {
	switch x := x.(type) {
	case *ast.Ident:
		if t := basics[x.Name]; t != nil {
			return t, nil
		}
	case *ast.ArrayType:
		of, err := typeOf(x.Elt)
		if err != nil {
			return nil, err
		}
		if x.Len == nil {
			return reflect.SliceOf(of), nil
		}
		if n, ok := x.Len.(*ast.BasicLit); ok {
			if k, err := strconv.Atoi(n.Value); err == nil && k >= 0 && k <= 1<<28 {
				return reflect.ArrayOf(k, of), nil
			}
		}
	case *ast.MapType:
		key, err := typeOf(x.Key)
		if err != nil {
			return nil, err
		}
		of, err := typeOf(x.Value)
		if err != nil || !key.Comparable() {
			return nil, errors.New("no type of keys")
		}
		return reflect.MapOf(key, of), nil
	}
	return nil, fmt.Errorf("%T is no type of a variable on its way", x)
}

// source is the program of a cell: variables are those of the package, so that
// functions of the cell see them.
func source(c Cell, in []Value, out []string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "package main\nimport (gobǃ \"encoding/gob\"; bytesǃ \"bytes\"; osǃ \"os\"; reflectǃ \"reflect\"; fmtǃ \"fmt\")\n")
	if strings.TrimSpace(c.Imports) != "" {
		fmt.Fprintf(&b, "//line %s:1:1\n%s\n", c.Name, c.Imports)
	}
	fmt.Fprintf(&b, "//line native:1\n")
	for _, v := range in {
		t, err := plain(v.Value.Type())
		if err != nil {
			return nil, fmt.Errorf("%s cannot go into a native cell: %w", v.Name, err)
		}
		fmt.Fprintf(&b, "var %s %s\n", v.Name, t)
	}
	fmt.Fprintf(&b, "//line %s:1:1\n%s\n//line native:1:1\n", c.Name, c.Decls)
	b.WriteString(`type frameǃ struct { Name, Type string; Data []byte }
func plainǃ(t reflectǃ.Type) (string, error) {
	if t.PkgPath() != "" { return "", fmtǃ.Errorf("%s is a type of a package", t) }
	switch k := t.Kind(); k {
	case reflectǃ.Slice:
		of, err := plainǃ(t.Elem())
		return "[]" + of, err
	case reflectǃ.Array:
		of, err := plainǃ(t.Elem())
		return fmtǃ.Sprintf("[%d]%s", t.Len(), of), err
	case reflectǃ.Map:
		key, err := plainǃ(t.Key())
		if err != nil { return "", err }
		of, err := plainǃ(t.Elem())
		return "map[" + key + "]" + of, err
	case reflectǃ.Bool, reflectǃ.String:
		return k.String(), nil
	default:
		if k >= reflectǃ.Int && k <= reflectǃ.Uint64 || k >= reflectǃ.Float32 && k <= reflectǃ.Complex128 { return k.String(), nil }
		return "", fmtǃ.Errorf("%s is no number, string, or array, slice or map of them", t)
	}
}
func leaveǃ(to *gobǃ.Encoder, name string, v any) {
	f := frameǃ{Name: name}
	t, err := plainǃ(reflectǃ.TypeOf(v).Elem())
	var data bytesǃ.Buffer
	if err == nil { err = gobǃ.NewEncoder(&data).Encode(v) }
	if err != nil { f.Data = []byte(err.Error()) } else { f.Type, f.Data = t, data.Bytes() }
	if err := to.Encode(f); err != nil { panic(err) }
}
func main() {
	inǃ := gobǃ.NewDecoder(osǃ.NewFile(3, "in"))
	for {
		var f frameǃ
		if inǃ.Decode(&f) != nil { break }
		var to any
		switch f.Name {
`)
	for _, v := range in {
		fmt.Fprintf(&b, "\t\tcase %q: to = &%s\n", v.Name, v.Name)
	}
	fmt.Fprintf(&b, "\t\t}\n\t\tif err := gobǃ.NewDecoder(bytesǃ.NewReader(f.Data)).Decode(to); err != nil { panic(err) }\n\t}\n//line %s:1:1\n%s\n//line native:1:1\n\toutǃ := gobǃ.NewEncoder(osǃ.NewFile(4, \"out\"))\n\t_ = outǃ\n", c.Name, c.Bodies)
	for _, name := range out {
		fmt.Fprintf(&b, "\tleaveǃ(outǃ, %q, &%s)\n", name, name)
	}
	b.WriteString("}\n")
	return b.Bytes(), nil
}

// Run compiles a cell and runs it. in are the variables that it mentions; what comes
// back are those and the ones that its statements declare at the top. kept says of
// others why they stay. group makes a command end with its children.
func Run(ctx context.Context, c Cell, in []Value, s Streams, group func(*exec.Cmd)) (out []Value, kept []string, err error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return nil, nil, ErrNoToolchain
	}
	_, declared := Names(c)
	back := slices.Clone(declared)
	for _, v := range in {
		if !slices.Contains(back, v.Name) {
			back = append(back, v.Name)
		}
	}
	if list := syntax(c); len(list) > 0 {
		return nil, nil, list
	}
	src, err := source(c, in, back)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "tilus-lab-native")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	exe, err := build(ctx, tool, dir, c.Name, src, group)
	if err != nil {
		return nil, nil, err
	}
	return run(ctx, exe, in, s, group)
}

// build compiles a program.
func build(ctx context.Context, tool, dir, name string, src []byte, group func(*exec.Cmd)) (string, error) {
	version, err := exec.CommandContext(ctx, tool, "env", "GOVERSION").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	m := regexp.MustCompile(`^go(\d+\.\d+)`).FindSubmatch(version)
	if m == nil {
		return "", fmt.Errorf("%s says that it is %q", tool, bytes.TrimSpace(version))
	}
	for file, data := range map[string][]byte{"go.mod": fmt.Appendf(nil, "module native\n\ngo %s\n", m[1]), "main.go": src} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			return "", err
		}
	}
	exe := filepath.Join(dir, "native")
	cmd := exec.CommandContext(ctx, tool, "build", "-o", exe, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off", "GOTOOLCHAIN=local", "GO111MODULE=on")
	group(cmd)
	text, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err == nil {
		return exe, nil
	}
	var list Problems
	for _, m := range regexp.MustCompile(`(?m)^(?:\S*/)?`+regexp.QuoteMeta(name)+`:(\d+)(?::(\d+))?: (.*)$`).FindAllStringSubmatch(string(text), -1) {
		line, _ := strconv.Atoi(m[1])
		col, _ := strconv.Atoi(m[2])
		list = append(list, Problem{line, max(1, col), m[3]})
	}
	if len(list) > 0 {
		return "", list
	}
	return "", fmt.Errorf("go build: %s", bytes.TrimSpace(text))
}

// run starts a program, gives it variables and takes those that it gives back.
func run(ctx context.Context, exe string, in []Value, s Streams, group func(*exec.Cmd)) (out []Value, kept []string, err error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		inW.Close()
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.ExtraFiles = []*os.File{inR, outW}
	cmd.Stdout, cmd.Stderr = s.Out, s.Err
	group(cmd)
	err = cmd.Start()
	inR.Close()
	outW.Close()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, nil, err
	}
	defer outR.Close()
	go func() { // the program may end without reading
		defer inW.Close()
		enc := gob.NewEncoder(inW)
		for _, v := range in {
			var data bytes.Buffer
			if gob.NewEncoder(&data).EncodeValue(v.Value) != nil || enc.Encode(frame{Name: v.Name, Data: data.Bytes()}) != nil {
				return
			}
		}
	}()
	dec := gob.NewDecoder(outR)
	var bad error
	for {
		var f frame
		if err := dec.Decode(&f); err != nil {
			break // its end, or that of the program, which says more
		}
		if f.Type == "" {
			kept = append(kept, fmt.Sprintf("%s stays behind: %s", f.Name, f.Data))
			continue
		}
		x, err := parser.ParseExpr(f.Type)
		if err == nil {
			var t reflect.Type
			if t, err = typeOf(x); err == nil {
				v := reflect.New(t)
				if err = gob.NewDecoder(bytes.NewReader(f.Data)).DecodeValue(v); err == nil {
					out = append(out, Value{f.Name, v.Elem()})
					continue
				}
			}
		}
		bad = fmt.Errorf("%s does not come back: %w", f.Name, err)
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, fmt.Errorf("the native program ended: %w", err)
	}
	return out, kept, bad
}
