package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/export"
	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func newExport() *cobra.Command {
	var defs, divisible []string
	var target, dir, kind, size, name string
	var rows int
	var cubin bool
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write a program as PTX, C header and Python module",
		Long: `Write a program as PTX, C header and Python module, which run it without Go. The module
needs NVIDIA's driver alone; with torch it takes tensors and is a custom operator.

--qmm KIND writes a quantised layer instead of FILE: the programs that pack its weights and
multiply, with the schedule for --rows rows and --size NxK, and a module with the layer as
torch.nn.Module (see qmm --help for KIND), for any number of rows. Its program is the plan
decode without tensor maps and clusters, which files cannot launch: from 17 rows on the
library has faster ones. Names of files tell the kind, the size and the rows, or are those of
--name, so that the layers of a model fit one directory.

--cubin also writes machine code for the GPU of this machine, which loads in no time and
needs no compiler in the driver.`,
		Example: `  tilus-lab export axpy -o build
  tilus-lab export --qmm "u4 zero" --size 8192x8192 --rows 1 -o build
  tilus-lab export --qmm nvfp4 --size 57344x8192 --name gate_up -o build
  tilus-lab export --qmm f6e3m2 --size 4096x4096 --rows 16 --cubin -o build`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := export.Options{Arch: target, Divisible: map[string]int64{}}
			for _, d := range divisible {
				name, value, _ := strings.Cut(d, "=")
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil || n < 1 {
					return usageError{fmt.Errorf("--divisible %s is no NAME=NUMBER", d)}
				}
				o.Divisible[name] = n
			}
			var programs []*ir.Program
			var layer []byte
			switch {
			case (kind == "") == (len(args) == 0):
				return usageError{fmt.Errorf("one of FILE and --qmm")}
			case kind == "":
				p, err := loadFor(cmd, target, args[0], defs)
				if err != nil {
					return err
				}
				programs = append(programs, p)
			default:
				n, k, ok := sizeOf(size)
				switch {
				case !ok:
					return usageError{fmt.Errorf("--size %q is no NxK", size)}
				case rows < 1 || rows > qmm.MaxSize:
					return usageError{fmt.Errorf("--rows %d: there are 1 to %d", rows, qmm.MaxSize)}
				case !regexp.MustCompile(`^\w*$`).MatchString(name):
					return usageError{fmt.Errorf("--name %q is part of names in C and Python: letters, digits and _", name)}
				}
				var err error
				if programs, layer, err = layerPrograms(kind, n, k, rows, name); err != nil {
					return err
				}
				for name, v := range map[string]int{"N": n, "K": k} {
					if d := min(v&-v, 128); d > 1 && o.Divisible[name] == 0 {
						o.Divisible[name] = int64(d)
					}
				}
			}
			for name := range o.Divisible {
				if !slices.ContainsFunc(programs, func(p *ir.Program) bool { return scalarOf(p, name) }) {
					return usageError{fmt.Errorf("--divisible %s: no program has a scalar parameter of that name", name)}
				}
			}
			all := o.Divisible
			for _, p := range programs {
				o.Divisible = map[string]int64{}
				for name, d := range all {
					if scalarOf(p, name) {
						o.Divisible[name] = d
					}
				}
				paths, err := export.Write(dir, p, o)
				if err == nil && cubin {
					with := o
					if with.Cubin, err = machineCode(filepath.Join(dir, p.Name+".ptx")); err == nil {
						paths, err = export.Write(dir, p, with)
					}
				}
				if err != nil {
					return err
				}
				for _, path := range paths {
					fmt.Fprintln(cmd.OutOrStdout(), path)
				}
			}
			if layer == nil {
				return nil
			}
			path := filepath.Join(dir, layerName(programs)+".py")
			if err := os.WriteFile(path, layer, 0o644); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), path)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&dir, "out", "o", ".", "`DIRECTORY` that the files go to")
	f.StringVar(&target, "arch", compile.DefaultArch, "`TARGET`: "+strings.Join(arch.Names(), ", "))
	f.StringArrayVar(&divisible, "divisible", nil, "`NAME=NUMBER` that divides a scalar parameter at every launch, as the files check; the code is faster")
	f.StringVar(&kind, "qmm", "", "`KIND` of a quantised layer")
	f.StringVar(&size, "size", "8192x8192", "`NxK` of the layer")
	f.StringVar(&name, "name", "", "`NAME` of the layer in those of its files, instead of its kind, size and rows")
	f.IntVar(&rows, "rows", 1, "`M` that the layer's schedule is for")
	f.BoolVar(&cubin, "cubin", false, "write machine code for this machine's GPU too")
	addBindings(cmd, &defs)
	return cmd
}

// scalarOf reports whether a program has a scalar parameter of a name.
func scalarOf(p *ir.Program, name string) bool {
	return slices.ContainsFunc(p.Params, func(v *ir.Var) bool { return v.Name == name && v.Type.Kind != ir.Pointer })
}

// layerPrograms are pack and decode of a layer, and the layer's module. Their names end in one of the layer's.
func layerPrograms(kind string, n, k, rows int, name string) ([]*ir.Program, []byte, error) {
	l, err := qmm.Parse(kind, n, k)
	if err != nil {
		return nil, nil, usageError{err}
	}
	if name == "" {
		name = fmt.Sprintf("%s_%s_%dx%d_%d", strings.NewReplacer(" ", "_", "=", "").Replace(l.Name()), l.ActType, n, k, rows)
	}
	l = l.Module()
	s, err := l.ChoosePlain(rows) // the files make no tensor maps
	if err != nil {
		return nil, nil, err
	}
	pack, err := template.Pack(l.Form())
	if err != nil {
		return nil, nil, err
	}
	decode, err := template.Decode(l.Form(), s)
	if err != nil {
		return nil, nil, err
	}
	pack.Name, decode.Name = "pack_"+name, "decode_"+name
	programs := []*ir.Program{pack, decode}
	layer, err := l.Python(layerName(programs), pack.Name, decode.Name, s)
	return programs, layer, err
}

// layerName is the name of the module of a layer with these programs.
func layerName(programs []*ir.Program) string {
	_, of, _ := strings.Cut(programs[1].Name, "_")
	return "linear_" + of
}

// machineCode is what the driver makes of a file of PTX for the first GPU.
func machineCode(path string) ([]byte, error) {
	ptx, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	driver, err := cuda.Open()
	if err != nil {
		return nil, fmt.Errorf("--cubin: %w", err)
	}
	ctx, err := driver.NewContext(0)
	if err != nil {
		return nil, fmt.Errorf("--cubin: %w", err)
	}
	defer ctx.Close()
	cubin, err := ctx.Cubin(ptx)
	if errors.Is(err, cuda.ErrWhole) {
		err = fmt.Errorf("--cubin: %w; leave the flag out: loaded as PTX, it becomes fast code", err)
	}
	return cubin, err
}
