package main

import (
	"context"
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
	"github.com/tilus-lab/tilus-lab/gpu/qmm/checkpoint"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func newExport() *cobra.Command {
	var defs, divisible []string
	var target, dir, kind, size, name, weights, stored, act string
	var rows []int
	var cubin, bias, rounded bool
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write a program as PTX, C header and Python module",
		Long: `Write a program as PTX, C header and Python module, which run it without Go. The module
needs NVIDIA's driver alone; with torch it takes tensors and is a custom operator.

--qmm KIND writes a quantised layer instead of FILE: the programs that pack its weights and
multiply, a module with the layer as torch.nn.Module (see qmm --help for KIND) and a C header
with functions that load, pack and multiply (linear_NAME.py and .h), of --size NxK. The layer
takes any number of rows of x. --rows names those that programs are chosen for, the ones that
a product here takes without a search: up to the first number of rows module and header take
the first program, and so on. With --bias they add a number to each output. Names of files
tell the kind and the size, or are those of --name, so that the layers of a model fit one
directory.

With --weights the layer is of these weights, quantised; with --checkpoint instead of --qmm it
is one that others have quantised, exactly as it is stored (see qmm --help). Its codes, scales,
zero points, its bias and, with act-order, the order of its inputs go to linear_NAME.safetensors,
from which load of the module makes it. A stored bias is exported unless --bias=false drops it.

Nothing is written unless all of it could be made. Files of an earlier export of that name
which this one does not replace are told.

--cubin also writes machine code for the GPU of this machine, which loads in no time and
needs no compiler in the driver.`,
		Example: `  tilus-lab export axpy -o build
  tilus-lab export --qmm "u4 zero" --size 8192x8192 -o build
  tilus-lab export --qmm nvfp4 --size 57344x8192 --name gate_up -o build
  tilus-lab export --qmm i4 --size 10240x8192 --bias -o build
  tilus-lab export --checkpoint model.safetensors:model.layers.0.mlp.down_proj -o build
  tilus-lab export --qmm f6e3m2 --size 4096x4096 --rows 16 --cubin -o build`,
		Args: oneExport,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := export.Options{Arch: target, Divisible: map[string]int64{}}
			for _, d := range divisible {
				name, value, _ := strings.Cut(d, "=")
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil || n < 1 {
					return usageError{fmt.Errorf("--divisible %s is no NAME=NUMBER", d)}
				}
				if before, twice := o.Divisible[name]; twice {
					return usageError{fmt.Errorf("--divisible %s: it is %d before; leave one of them out", d, before)}
				}
				o.Divisible[name] = n
			}
			var programs []*ir.Program
			var exported *qmm.Exported
			var quantised *qmm.Weights
			var storedBias *array.Array
			switch {
			case dir == "":
				return usageError{fmt.Errorf("-o names no directory; . is this one")}
			case dir == "-":
				return onlyFile("-o", dir, "directory", "an export has several files, and lower prints one program")
			case len(args) > 0:
				for _, flag := range []string{"size", "name", "rows", "bias", "weights", "act", "rounded"} {
					if cmd.Flags().Changed(flag) {
						return usageError{fmt.Errorf("--%s is of a layer: it goes with --qmm or --checkpoint", flag)}
					}
				}
				p, err := loadFor(cmd, target, args[0], defs)
				if err != nil {
					return err
				}
				programs = append(programs, p)
			default:
				n, k, ok := sizeOf(size)
				switch {
				case (stored != "" || weights != "") && cmd.Flags().Changed("size"):
					return usageError{fmt.Errorf("--size is that of the weights; leave it out")}
				case stored != "" && weights != "":
					return usageError{fmt.Errorf("--weights are quantised, and those of --checkpoint are; leave one of them out")}
				case stored == "" && ofCheckpoint(act, rounded) != nil:
					return ofCheckpoint(act, rounded)
				case len(defs) > 0:
					return usageError{fmt.Errorf("-D %s is of FILE: a layer has no compile-time parameters; its KIND takes words, see qmm --help", defs[0])}
				case !ok:
					return usageError{fmt.Errorf("--size %q is no NxK", size)}
				case len(rows) == 0 || slices.Min(rows) < 1 || slices.Max(rows) > qmm.MaxSize:
					return usageError{fmt.Errorf("--rows %s: there are 1 to %d", strings.Trim(fmt.Sprint(rows), "[]"), qmm.MaxSize)}
				case name != "" && qmm.CheckName(name) != nil:
					return usageError{fmt.Errorf("--name: %w", qmm.CheckName(name))}
				}
				if err := tellTarget(cmd, target); err != nil {
					return err
				}
				l, err := qmm.Linear{}, error(nil)
				if stored != "" || weights != "" {
					var of *layer
					if of, quantised, l, err = weightsOf(cmd.Context(), kind, weights, stored, act, rounded); err != nil {
						return err
					}
					if leave := cmd.Flags().Changed("bias") && !bias; !leave {
						if err := of.biasErr; err != nil {
							if no := (*checkpoint.BiasError)(nil); errors.As(err, &no) {
								err = no.Err // and not the way of products
							}
							return fmt.Errorf("%w; --bias=false exports the layer without", err)
						}
						storedBias = of.bias
						bias = bias || storedBias != nil
					}
					n, k = l.N, l.K
					if _, layer, _ := checkpoint.Split(stored); name == "" {
						name = strings.Trim(regexp.MustCompile(`\W+`).ReplaceAllString(layer, "_"), "_")
					}
				} else if l, err = qmm.Parse(kind, n, k); err != nil {
					return usageError{err}
				}
				for _, of := range []struct {
					name string
					size int
				}{{"N", n}, {"K", k}} {
					if d := o.Divisible[of.name]; d > 0 && int64(of.size)%d != 0 {
						return usageError{fmt.Errorf("--divisible %s=%d: %s of the layer is %d, which it does not divide; leave it out, and what divides %[1]s is taken", of.name, d, of.name, of.size)}
					}
				}
				extra := qmm.Extra{Bias: bias, Order: quantised != nil && quantised.Order != nil}
				if name == "" {
					kind := l.Name()
					if l.ScaleBits > 0 && quantised == nil {
						kind += fmt.Sprintf(" scalebits=%d", l.ScaleBits)
					}
					name = fmt.Sprintf("%s_%s_%dx%d", strings.NewReplacer(" ", "_", "=", "").Replace(kind), l.ActType, n, k)
					if bias {
						name += "_bias"
					}
					if extra.Order {
						name += "_order"
					}
				}
				if exported, err = l.Export(name, target, extra, rows...); err != nil {
					return err
				}
				programs = exported.Programs
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
				if exported != nil && name != "N" && name != "K" {
					return usageError{fmt.Errorf("--divisible %s: a layer's launches take any; leave it out", name)}
				}
			}
			var sets []map[string][]byte // what is written, once all is there
			all := o.Divisible
			for _, p := range programs {
				o.Divisible = map[string]int64{}
				for name, d := range all {
					if scalarOf(p, name) {
						o.Divisible[name] = d
					}
				}
				files, err := export.Files(p, o)
				if err == nil && cubin {
					with := o
					with.Cubin, err = machineCode(files[p.Name+".ptx"])
					if err == nil {
						files, err = export.Files(p, with)
					} else if exported != nil && errors.Is(err, cuda.ErrWhole) {
						fmt.Fprintf(cmd.ErrOrStderr(), "%s stays PTX: %v\n", p.Name, err)
						err = nil
					}
				}
				if err != nil {
					return err
				}
				sets = append(sets, files)
			}
			if exported != nil {
				sets = append(sets, map[string][]byte{exported.Name + ".h": exported.C, exported.Name + ".py": exported.Python})
			}
			var written []string
			for _, files := range sets {
				paths, err := export.Put(dir, files)
				if err != nil {
					return err
				}
				written = append(written, paths...)
			}
			if quantised != nil {
				path := filepath.Join(dir, exported.Name+".safetensors")
				tensors := quantised.Tensors()
				if storedBias != nil {
					tensors["bias"] = storedBias
				}
				if err := array.SaveTensors(path, tensors); err != nil {
					return err
				}
				written = append(written, path)
			}
			for _, path := range written {
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			of := programs[0].Name
			if exported != nil {
				of = strings.TrimPrefix(exported.Name, "linear_")
			}
			if rest := earlier(dir, of, exported != nil, written); len(rest) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s of an earlier export of %s in %s, which this one does not use; remove what nothing else does\n", diag.Listed(rest, 6), of, dir)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&dir, "out", "o", ".", "`DIRECTORY` that the files go to")
	f.StringVar(&target, "arch", compile.DefaultArch, "`TARGET`: "+strings.Join(arch.Names(), ", ")+"; of another GPU the newest of them that it runs")
	f.StringArrayVar(&divisible, "divisible", nil, "`NAME=NUMBER` that divides a scalar parameter at every launch, as the files check; the code is faster")
	f.StringVar(&kind, "qmm", "", "`KIND` of a quantised layer")
	f.StringVar(&size, "size", "8192x8192", "`NxK` of the layer")
	f.StringVar(&weights, "weights", "", "`ARRAY` [N, K] that the layer has: FILE.npy, FILE.safetensors:NAME or a generator")
	f.StringVar(&stored, "checkpoint", "", "quantised `LAYER`, FILE.safetensors:NAME or FILE.gguf:NAME")
	f.StringVar(&act, "act", "", "`TYPE` of x and y with --checkpoint, f16 or bf16; that of the layer's scales or bias where it is not given, else f16")
	f.BoolVar(&rounded, "rounded", false, "products of --checkpoint may round weights to the type of x")
	f.StringVar(&name, "name", "", "`NAME` of the layer in those of its files, instead of its kind, size and rows")
	f.IntSliceVar(&rows, "rows", []int{1, 8, 16, 32, 64, 128, 256, 2048}, "numbers of rows `M,M` that the layer has programs for")
	f.BoolVar(&bias, "bias", false, "add a bias[N] to each row of the layer's products; --bias=false drops that of --checkpoint")
	f.BoolVar(&cubin, "cubin", false, "write machine code for this machine's GPU too")
	addBindings(cmd, &defs)
	return cmd
}

// oneExport finds command lines that name nothing to export, or more than one thing, such as words of a KIND without quotes.
func oneExport(cmd *cobra.Command, args []string) error {
	var given []string
	for _, flag := range []string{"qmm", "checkpoint"} {
		if f := cmd.Flags().Lookup(flag); f.Value.String() != "" {
			given = append(given, "--"+flag+" "+f.Value.String())
		}
	}
	words := strings.Join(args, " ")
	switch {
	case len(args) == 1 && len(given) == 0 || len(args) == 0 && len(given) == 1:
		return nil
	case len(args)+len(given) == 0:
		return fmt.Errorf("nothing to export is named: one of FILE, --qmm and --checkpoint")
	case len(given) == 0:
		return fmt.Errorf("%s are several files; export one at a time", words)
	case len(args) == 0:
		return fmt.Errorf("%s and %s: one of FILE, --qmm and --checkpoint", given[0], given[1])
	}
	way := "leave " + words + " out"
	switch {
	case len(given) > 1:
	case cmd.Flags().Changed("qmm"):
		way = fmt.Sprintf("a KIND of several words has quotes: --qmm %q", strings.TrimPrefix(given[0], "--qmm ")+" "+words)
	case words == "none" && cmd.Flags().Changed("bias"):
		way = "a stored bias is dropped by --bias=false"
	}
	return fmt.Errorf("%s beside %s: one of FILE, --qmm and --checkpoint; %s", words, strings.Join(given, " and "), way)
}

// earlier are files of a directory that an export of a name may have written and that this one, of which written are, has not.
func earlier(dir, name string, layer bool, written []string) (out []string) {
	known := regexp.QuoteMeta(name) + `\.cubin`
	if layer {
		name = `_` + regexp.QuoteMeta(name)
		known = `linear` + name + `\.safetensors|(linear|pack|gather|arrange|(decode|wide|prefill|expand)\d*)` + name + `\.(ptx|cubin|h|py)`
	}
	match := regexp.MustCompile(`^(` + known + `)$`).MatchString
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // a directory that may be written alone
	}
	for _, e := range entries {
		if match(e.Name()) && !slices.Contains(written, filepath.Join(dir, e.Name())) {
			out = append(out, e.Name())
		}
	}
	return out
}

// weightsOf are a layer that is exported with its weights, these, and the kind whose programs are theirs.
func weightsOf(ctx context.Context, kind, weights, stored, act string, rounded bool) (*layer, *qmm.Weights, qmm.Linear, error) {
	of, err := func() (*layer, error) {
		if stored != "" {
			return namedLayer(stored, act, rounded)
		}
		return plainLayer(kind, weights)
	}()
	if err != nil {
		return nil, nil, qmm.Linear{}, err
	}
	q := of.stored
	if q == nil {
		if q, err = of.kind.Quantize(ctx, of.plain); err != nil {
			return nil, nil, qmm.Linear{}, err
		}
	}
	l, err := q.AsPacked()
	return of, q, l, err
}

// scalarOf reports whether a program has a scalar parameter of a name.
func scalarOf(p *ir.Program, name string) bool {
	return slices.ContainsFunc(p.Params, func(v *ir.Var) bool { return v.Name == name && v.Type.Kind != ir.Pointer })
}

// machineCode is what the driver makes of PTX for the first GPU.
func machineCode(ptx []byte) ([]byte, error) {
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
		err = fmt.Errorf("--cubin: %w; loaded as PTX, without the flag, it becomes fast code", err)
	}
	return cubin, err
}
