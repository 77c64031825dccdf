// Package export writes a compiled program to files that run it without Go: PTX, a C
// header and a Python module. The C header needs cuda.h and the driver's library, the
// module the driver's library alone; with torch it takes tensors, runs on torch's
// stream and is a custom operator. Launches make the program's tensor maps.
package export

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/affine"
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
	Size                  int  // bytes of an element that a tensor has, of a pointer; elements of less share one
	Whole                 bool // a scalar that is a whole number
	Divisor               int64
}

// tensorMap is what a launch makes a tensor map of, inner dimension first.
type tensorMap struct {
	Name, Base                           string
	Type, Interleave, Swizzle, Promotion int // numbers of cuda.h
	NaN                                  int
	OffsetC, OffsetPython                string // bytes
	DimsC, DimsPython                    []string
	StridesC, StridesPython              []string // bytes, one fewer
	Box, Steps                           []int
	Index                                int // of Base among the parameters
}

// view is what the templates see.
type view struct {
	Name, Entry, Arch, PTX, Text string
	Params                       []param
	Maps                         []tensorMap // parameters behind those
	GridC, GridPython            []string
	Threads, Shared              int
	Dependent, Cubin             bool
	LargeCluster                 bool // more blocks than every GPU takes
	Even                         bool // dependent launches spread blocks evenly, as cuda.Function.LaunchDependent does
}

// scalars are the types of scalar parameters: C's, and that of ctypes.
var scalars = map[dtype.Type][2]string{
	dtype.I32: {"int32_t", "c_int32"}, dtype.U32: {"uint32_t", "c_uint32"}, dtype.I64: {"int64_t", "c_int64"}, dtype.U64: {"uint64_t", "c_uint64"},
	dtype.F32: {"float", "c_float"}, dtype.F64: {"double", "c_double"},
}

// Files compiles a program and gives what NAME.ptx, NAME.h and NAME.py have, and NAME.cubin
// if there is one, by their names; NAME is the program's.
func Files(p *ir.Program, o Options) (map[string][]byte, error) {
	v, err := describe(p, o)
	if err != nil {
		return nil, fmt.Errorf("export: %s: %w", p.Name, err)
	}
	all := map[string][]byte{v.Name + ".ptx": []byte(v.PTX)}
	for from, to := range map[string]string{"header.tmpl": ".h", "module.tmpl": ".py"} {
		t, err := template.New(from).Funcs(template.FuncMap{"c": quoteC, "join": strings.Join, "list": list}).ParseFS(files, from)
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
	return all, nil
}

// Write writes [Files] of a program to a directory, and gives their paths.
func Write(dir string, p *ir.Program, o Options) ([]string, error) {
	all, err := Files(p, o)
	if err != nil {
		return nil, err
	}
	return Put(dir, all)
}

// Put writes files to a directory, which it makes where there is none, and gives their paths.
func Put(dir string, all map[string][]byte) ([]string, error) {
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
	for _, extra := range c.Func.Params[len(p.Params):] {
		if extra.Map == nil {
			return nil, fmt.Errorf("the host makes workspace %s of it at every launch, which the files cannot do; have the program take it as a parameter", extra.Name)
		}
		m, err := describeMap(extra.Name, extra.Map)
		if err != nil {
			return nil, err
		}
		m.Index = slices.IndexFunc(p.Params, func(x *ir.Var) bool { return x.Name == m.Base })
		v.Maps = append(v.Maps, m)
	}
	d := c.Func.Launch.Cluster
	blocks := max(d[0], 1) * max(d[1], 1) * max(d[2], 1)
	v.LargeCluster, v.Even = blocks > 8, v.Dependent && blocks == 1
	touched := p.Touched()
	for _, x := range p.Params {
		one := param{Name: x.Name, Elem: x.Type.Elem.String(), Pointer: x.Type.Kind == ir.Pointer, Written: touched[x]&ir.WritesGlobal != 0, Divisor: o.Divisible[x.Name]}
		if one.Pointer {
			one.C, one.Python, one.Size = "CUdeviceptr", "c_uint64", max(1, x.Type.Elem.Bits()/8)
		} else if names, ok := scalars[x.Type.Elem]; ok {
			one.C, one.Python, one.Whole = names[0], names[1], x.Type.Elem.IsInt()
		} else {
			return nil, fmt.Errorf("parameter %s is %s, which the files do not pass", x.Name, x.Type.Elem)
		}
		v.Params = append(v.Params, one)
	}
	for _, e := range p.Grid {
		c, python, err := spelled(e.String())
		if err != nil {
			return nil, fmt.Errorf("grid dimension %w", err)
		}
		v.GridC, v.GridPython = append(v.GridC, c), append(v.GridPython, python)
	}
	for len(v.GridC) < 3 {
		v.GridC, v.GridPython = append(v.GridC, "1"), append(v.GridPython, "1")
	}
	return v, nil
}

// names are variables of an expression.
var names = regexp.MustCompile(`\b[A-Za-z_]\w*`)

// spelled is an expression of sizes in C, of 64 bits, and in Python.
func spelled(e string) (c, python string, err error) {
	if !arithmetic.MatchString(e) {
		return "", "", fmt.Errorf("%s is more than + - * / %%", e)
	}
	return names.ReplaceAllString(e, "(int64_t)$0"), strings.ReplaceAll(e, "/", "//"), nil
}

func describeMap(name string, m *code.TensorMap) (tensorMap, error) {
	out := tensorMap{Name: name, Base: m.Base, Type: int(m.Type), Interleave: int(m.Interleave), Swizzle: int(m.Swizzle), Promotion: int(m.Promotion), Box: m.Box, Steps: m.ElementStrides}
	if m.FillNaN {
		out.NaN = 1
	}
	for len(out.Steps) < len(m.Box) {
		out.Steps = append(out.Steps, 1)
	}
	var err error
	spell := func(e affine.Expr) (string, string) {
		c, python, bad := spelled(e.String())
		err = cmp.Or(err, bad)
		return c, python
	}
	out.OffsetC, out.OffsetPython = spell(m.Offset)
	for _, e := range m.Dims {
		c, python := spell(e)
		out.DimsC, out.DimsPython = append(out.DimsC, c), append(out.DimsPython, python)
	}
	for _, e := range m.Strides {
		c, python := spell(e)
		out.StridesC, out.StridesPython = append(out.StridesC, c), append(out.StridesPython, python)
	}
	if err != nil {
		err = fmt.Errorf("tensor map of %s: %w", m.Base, err)
	}
	return out, err
}

// list is numbers with commas between them.
func list(all []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ", "), "[]")
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
