// Package lab holds the names that notebook cells, the command line and panes
// share. A cell that wants to run a program needs no more than
//
//	p, err := lab.Load("matmul_f16_i6")
//	lab.Show(p, err)
//	lab.Show(lab.Run(p, "randint:f16[16, 64]", "rand:u8[4, 1, 96]", "zeros:f16[16, 8]", 16, 8, 64))
//
// [Run] runs on the chosen device, [Compare] on all of them, [Lower] shows what a
// GPU is told. Results are values that print themselves.
package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Parse reads and verifies the text of a program; register layouts that it leaves
// out are inferred. Bindings give values to its
// compile-time parameters: "W=i4", "BK=32". Problems are a diag.List with their
// places.
func Parse(src string, bindings ...string) (*ir.Program, error) {
	return ParseAs("program.tile", src, bindings...)
}

// ParseAs is [Parse] of a text that places name differently: "file:line:col"
// begins with the file that is given.
func ParseAs(file, src string, bindings ...string) (*ir.Program, error) {
	bind := map[string]string{}
	for _, b := range bindings {
		name, value, ok := strings.Cut(b, "=")
		if !ok {
			return nil, fmt.Errorf("lab: %q binds no compile-time parameter; write NAME=VALUE", b)
		}
		bind[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return compile.Parse(file, src, bind)
}

// Load is [Parse] of a file, or of an example program by its name, such as
// "matmul_f16_i6".
func Load(path string, bindings ...string) (*ir.Program, error) {
	src, err := os.ReadFile(path)
	switch {
	case err == nil:
		return ParseAs(filepath.Base(path), string(src), bindings...)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("lab: %w", err)
	}
	if src := corpus.Program(path); src != "" {
		return ParseAs(path+".tile", src, bindings...)
	}
	help := ""
	if name := diag.Suggest(path, corpus.Names()); name != "" {
		help = fmt.Sprintf("; did you mean %s?", name)
	}
	return nil, fmt.Errorf("lab: there is neither a file nor an example program %q%s (examples: %s)", path, help, strings.Join(corpus.Names(), ", "))
}

// Gen makes an array from a generator ("randn:f16[16, 64]:seed=1", see
// array.Generate) or reads one from a file ("w.npy", "w.npy:i6[64, 32]",
// "model.safetensors:NAME").
func Gen(spec string) (*array.Array, error) { return array.FromSpec(spec) }

// Check ends the cell with err as its error, unless err is nil.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}

// launchArgs makes launch arguments from Go values, as [Run] describes.
func launchArgs(p *ir.Program, args []any) ([]ir.Arg, error) {
	if len(args) != len(p.Params) {
		names := make([]string, len(p.Params))
		for i, v := range p.Params {
			names[i] = v.Name
		}
		return nil, fmt.Errorf("lab: %s takes %d arguments (%s), %d are given", p.Name, len(p.Params), strings.Join(names, ", "), len(args))
	}
	out := make([]ir.Arg, len(args))
	for i, v := range p.Params {
		fail := func(format string, more ...any) ([]ir.Arg, error) {
			return nil, fmt.Errorf("lab: argument %s of %s: "+format, append([]any{v.Name, p.Name}, more...)...)
		}
		scalar := v.Type.Kind == ir.Scalar
		var number int64
		switch x := args[i].(type) {
		case *array.Array:
			if x == nil {
				return fail("the array is nil")
			}
			out[i].Array = x
			continue // a scalar parameter is reported by the device
		case string:
			if scalar {
				return fail("%q is text, and must be a number of type %s", x, v.Type.Elem)
			}
			a, err := array.FromSpec(x)
			if err != nil {
				return fail("%w", err)
			}
			out[i].Array = a
			continue
		case float64:
			if scalar && v.Type.Elem.IsFloat() {
				out[i].Float = x
				continue
			}
			return fail("%v is a float64, and must be %s", x, wanted(v))
		case float32:
			if scalar && v.Type.Elem.IsFloat() {
				out[i].Float = float64(x)
				continue
			}
			return fail("%v is a float32, and must be %s", x, wanted(v))
		case int:
			number = int64(x)
		case int32:
			number = int64(x)
		case int64:
			number = x
		case bool:
			if x {
				number = 1
			}
		default:
			return fail("a Go %T is %s", x, "neither an array nor a number")
		}
		switch {
		case !scalar:
			return fail("%d is a number, and must be %s", number, wanted(v))
		case v.Type.Elem.IsFloat():
			out[i].Float = float64(number)
		default:
			out[i].Int = number
		}
	}
	return out, nil
}

// wanted describes what a parameter takes.
func wanted(v *ir.Var) string {
	if v.Type.Kind == ir.Pointer {
		return fmt.Sprintf("an array of %s", v.Type.Elem)
	}
	if v.Type.Elem.IsFloat() {
		return fmt.Sprintf("a number of type %s", v.Type.Elem)
	}
	return fmt.Sprintf("a whole number of type %s", v.Type.Elem)
}

// outputs are the numbers of the parameters that the program stores to, in
// order.
func outputs(p *ir.Program) []int {
	touched := p.Touched()
	var list []int
	for i, v := range p.Params {
		if touched[v]&ir.WritesGlobal != 0 {
			list = append(list, i)
		}
	}
	return list
}
