// Package export writes a compiled program to files that run it without Go: PTX, a C
// header and a Python module. The C header needs cuda.h and the driver's library, the
// module the driver's library alone; with torch it takes tensors, runs on torch's
// stream and is a custom operator.
package export

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

//go:embed header.tmpl module.tmpl
var files embed.FS

// Options choose what a program is compiled for.
type Options struct {
	Arch string // target name; "" is [compile.DefaultArch]
	// Divisible gives numbers that divide scalar parameters at every launch, which
	// the files check.
	Divisible map[string]int64
	// Cubin is machine code for the GPU at hand, from the driver; nil leaves PTX to the
	// driver of the machine that loads it.
	Cubin []byte
}

// param is a parameter as the templates see it.
type param struct {
	Name, C, Python, Elem string
	Pointer, Written      bool
	Divisor               int64
}

// view is what the templates see.
type view struct {
	Name, Entry, Arch, PTX, Text string
	Params                       []param
	GridC, GridPython            []string
	Threads, Shared              int
	Dependent, Cubin             bool
}

// scalars are the types of scalar parameters: C's, and that of ctypes.
var scalars = map[dtype.Type][2]string{
	dtype.I32: {"int32_t", "c_int32"}, dtype.U32: {"uint32_t", "c_uint32"}, dtype.I64: {"int64_t", "c_int64"}, dtype.U64: {"uint64_t", "c_uint64"},
	dtype.F32: {"float", "c_float"}, dtype.F64: {"double", "c_double"},
}

// Write compiles a program and writes NAME.ptx, NAME.h and NAME.py, and NAME.cubin if
// there is one, to a directory; NAME is the program's. It gives the files' paths.
func Write(dir string, p *ir.Program, o Options) ([]string, error) {
	v, err := describe(p, o)
	if err != nil {
		return nil, fmt.Errorf("export: %s: %w", p.Name, err)
	}
	all := map[string][]byte{v.Name + ".ptx": []byte(v.PTX)}
	for from, to := range map[string]string{"header.tmpl": ".h", "module.tmpl": ".py"} {
		t, err := template.New(from).Funcs(template.FuncMap{"c": quoteC, "join": strings.Join, "upper": strings.ToUpper}).ParseFS(files, from)
		if err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		var b bytes.Buffer
		if err := t.Execute(&b, v); err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		all[v.Name+to] = b.Bytes()
	}
	if o.Cubin != nil {
		all[v.Name+".cubin"] = o.Cubin
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	var paths []string
	for name, data := range all {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths, nil
}

// arithmetic is a grid dimension that reads the same in C and Python but for the
// division, whose operands are not negative.
var arithmetic = regexp.MustCompile(`^[\w\s+*/%()-]+$`)

func describe(p *ir.Program, o Options) (*view, error) {
	for name := range o.Divisible {
		if !slices.ContainsFunc(p.Params, func(v *ir.Var) bool { return v.Name == name && v.Type.Kind != ir.Pointer }) {
			return nil, fmt.Errorf("no scalar parameter %s for a number to divide", name)
		}
	}
	c, err := compile.Program(p, compile.Options{Arch: o.Arch, Divisible: o.Divisible})
	if err != nil {
		return nil, err
	}
	v := &view{Name: p.Name, Entry: c.Func.Name, Arch: c.Arch.Name, Threads: p.Threads(), Shared: c.Func.Launch.SharedBytes, Dependent: c.Func.Launch.PDL, Text: text.Format(p), Cubin: o.Cubin != nil}
	if v.PTX, err = c.PTX(); err != nil {
		return nil, err
	}
	if extra := c.Func.Params[len(p.Params):]; len(extra) > 0 {
		return nil, fmt.Errorf("the host makes parameter %s of it at every launch, a tensor map or a workspace, which the files cannot do", extra[0].Name)
	}
	if c.Func.Launch.Cluster != [3]int{} {
		return nil, fmt.Errorf("it is launched in clusters, which the files cannot do")
	}
	written := writes(p)
	for _, x := range p.Params {
		one := param{Name: x.Name, Elem: x.Type.Elem.String(), Pointer: x.Type.Kind == ir.Pointer, Written: written[x], Divisor: o.Divisible[x.Name]}
		if one.Pointer {
			one.C, one.Python = "CUdeviceptr", "c_uint64"
		} else if names, ok := scalars[x.Type.Elem]; ok {
			one.C, one.Python = names[0], names[1]
		} else {
			return nil, fmt.Errorf("parameter %s is %s, which the files do not pass", x.Name, x.Type.Elem)
		}
		v.Params = append(v.Params, one)
	}
	for _, e := range p.Grid {
		s := e.String()
		if !arithmetic.MatchString(s) {
			return nil, fmt.Errorf("grid dimension %s is more than + - * / %%", s)
		}
		v.GridC, v.GridPython = append(v.GridC, s), append(v.GridPython, strings.ReplaceAll(s, "/", "//"))
	}
	for len(v.GridC) < 3 {
		v.GridC, v.GridPython = append(v.GridC, "1"), append(v.GridPython, "1")
	}
	return v, nil
}

// writes finds the parameters whose memory a program changes.
func writes(p *ir.Program) map[*ir.Var]bool {
	out, base := map[*ir.Var]bool{}, map[*ir.Var]*ir.Var{}
	for _, v := range p.Params {
		base[v] = v
	}
	p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if !ok {
			return true
		}
		for _, operand := range in.In {
			of := base[operand.Var()]
			if of == nil {
				continue
			}
			if in.Op.Effects&ir.WritesGlobal != 0 {
				out[of] = true
			}
			for _, v := range in.Out {
				if v.Type.IsGlobal() {
					base[v] = of
				}
			}
		}
		return true
	})
	return out
}

// quoteC is text as C string literals, one a line.
func quoteC(s string) string {
	var b strings.Builder
	for _, line := range strings.SplitAfter(s, "\n") {
		if line != "" {
			fmt.Fprintf(&b, "\t\"%s\"\n", strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\n", "\t", "\\t").Replace(line))
		}
	}
	return b.String()
}
