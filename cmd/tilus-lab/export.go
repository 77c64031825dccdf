package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/export"
	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func newExport() *cobra.Command {
	var defs, divisible []string
	var target, dir, kind, size string
	var rows int
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write a program as PTX, C header and Python module",
		Long: `Write a program as PTX, C header and Python module, which run it without Go. The module
needs NVIDIA's driver alone; with torch it takes tensors and is a custom operator.

--qmm KIND writes the programs of a quantised layer instead of FILE: pack, and decode
with the schedule for --rows rows and --size NxK (see qmm --help for KIND).`,
		Example: `  tilus-lab export axpy -o build
  tilus-lab export --qmm "u4 zero" --size 8192x8192 --rows 1 -o build`,
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
				var n, k int
				if _, err := fmt.Sscanf(size, "%dx%d", &n, &k); err != nil {
					return usageError{fmt.Errorf("--size %q is no NxK", size)}
				}
				var err error
				if programs, err = layerPrograms(kind, n, k, rows); err != nil {
					return err
				}
				for name, v := range map[string]int{"N": n, "K": k} {
					if d := min(v&-v, 128); d > 1 && o.Divisible[name] == 0 {
						o.Divisible[name] = int64(d)
					}
				}
			}
			for _, p := range programs {
				paths, err := export.Write(dir, p, o)
				if err != nil {
					return err
				}
				for _, path := range paths {
					fmt.Fprintln(cmd.OutOrStdout(), path)
				}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&dir, "out", "o", ".", "`DIRECTORY` that the files go to")
	f.StringVar(&target, "arch", compile.DefaultArch, "`TARGET`: "+strings.Join(arch.Names(), ", "))
	f.StringArrayVar(&divisible, "divisible", nil, "`NAME=NUMBER` that divides a scalar parameter at every launch, as the files check; the code is faster")
	f.StringVar(&kind, "qmm", "", "`KIND` of a quantised layer")
	f.StringVar(&size, "size", "8192x8192", "`NxK` of the layer")
	f.IntVar(&rows, "rows", 1, "`M` that the layer's schedule is for")
	addBindings(cmd, &defs)
	return cmd
}

// layerPrograms are pack and decode of a layer.
func layerPrograms(kind string, n, k, rows int) ([]*ir.Program, error) {
	l, err := qmm.Parse(kind, n, k)
	if err != nil {
		return nil, usageError{err}
	}
	s, err := l.ChoosePlain(rows) // the files make no tensor maps
	if err != nil {
		return nil, err
	}
	pack, err := template.Pack(l.Form())
	if err != nil {
		return nil, err
	}
	decode, err := template.Decode(l.Form(), s)
	if err != nil {
		return nil, err
	}
	return []*ir.Program{pack, decode}, nil
}
