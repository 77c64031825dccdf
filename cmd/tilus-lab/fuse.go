package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/emit/launch"
	"github.com/tilus-lab/tilus-lab/gpu/fuse"
	"github.com/tilus-lab/tilus-lab/gpu/traffic"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/layoutviz/fusion"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

func newFuse() *cobra.Command {
	show := map[string]*bool{}
	var run, timed, asJSON bool
	var device, drawing string
	var draw *pictureFlags
	var seed int
	var argv []string
	cmd := &cobra.Command{
		Use:   "fuse FILE",
		Short: "Make kernels of a fusion: maps, functions, plan, traffic, code, results",
		Long: `Read a fusion as HLO text ("-" for standard input), make kernels of it, and tell how:
which elements are read for which (--maps), which functions its instructions are put into
(--partition), which kernels there are and why (--plan, which is also what is shown without
flags), what memory is asked for, predicted from the maps (--cost), and the code as steps on
tensors (--tensor), as thread code (--code) and as PTX (--ptx). --run computes the results
by the definition and by the simulator, and compares them. --time times the kernels on this
machine's GPU, beside what the maps predict and a kernel that only reads.

A picture is drawn by --svg, --png, --pdf or --out: --draw kernels, functions, "threads:
write out0" (which thread handles which element) or "memory: read x" (what a warp's worst
access touches); a name that begins like several is the first of them.`,
		Example: `  tilus-lab fuse softmax.hlo --plan --cost
  tilus-lab fuse softmax.hlo --maps
  tilus-lab fuse softmax.hlo --draw threads --svg threads.svg
  tilus-lab fuse softmax.hlo --run --arg x=randn:f32[32,1024]`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readText(args[0])
			if err != nil {
				return err
			}
			f, err := fuse.Read(args[0], text, device)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return indented(w, f.Traffic)
			}
			if draw.wanted() {
				pic, err := fusion.Draw(f, drawing, draw.options())
				if err != nil {
					return usageError{err}
				}
				return draw.write(cmd, pic)
			}
			var views []string
			for _, v := range fuse.Views() {
				if *show[v.Name] {
					views = append(views, v.Name)
				}
			}
			if len(views) == 0 && !run && !timed {
				views = []string{"plan"}
			}
			for i, v := range views {
				out, err := f.View(v)
				if err != nil {
					return err
				}
				if i > 0 {
					fmt.Fprintln(w)
				}
				fmt.Fprint(w, out)
			}
			if timed {
				if err := timeFusion(cmd.Context(), w, f); err != nil {
					return err
				}
			}
			if !run {
				return nil
			}
			values, err := fusionArgs(f, argv, seed)
			if err != nil {
				return err
			}
			c, err := f.Run(cmd.Context(), values)
			if err != nil {
				return err
			}
			fmt.Fprint(w, c)
			if worst := c.Worst(); worst > 1e-2 {
				return fmt.Errorf("the simulator differs from the definition by %.2g of the norm", worst)
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&device, "device", fuse.DefaultDevice, "`GPU` to plan for")
	for _, v := range fuse.Views() {
		show[v.Name] = fl.Bool(v.Name, false, "show "+v.Doc)
	}
	fl.BoolVar(&run, "run", false, "compute the results and compare")
	fl.BoolVar(&timed, "time", false, "time the kernels on this machine's GPU, beside what is predicted")
	fl.IntVar(&seed, "seed", 1, "`NUMBER` that arguments are drawn from")
	fl.StringArrayVar(&argv, "arg", nil, "argument `NAME=VALUE` of a parameter, as for run")
	fl.StringVar(&drawing, "draw", "kernels", "`PICTURE` to draw")
	fl.BoolVar(&asJSON, "json", false, "print what memory is asked for as JSON")
	draw = addPictureFlags(cmd)
	return cmd
}

// timeFusion times a fusion on the first GPU, its arguments all zeros.
func timeFusion(ctx context.Context, w io.Writer, f *fuse.Fusion) error {
	g, err := tune.OpenGPU(0)
	if err != nil {
		return err
	}
	defer g.Close()
	read, err := tune.TimeRead(ctx, g, 512<<20, tune.Options{WorkingSet: 512 << 20})
	if err != nil {
		return err
	}
	d, err := cuda.Open()
	if err != nil {
		return err
	}
	c, err := d.PrimaryContext(0)
	if err != nil {
		return err
	}
	defer c.Close()
	l, err := launch.Load(c, f.Program, g.Target)
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	took, err := l.Measure(s, 20, 7)
	if err != nil {
		return err
	}
	t := f.Traffic
	fmt.Fprintf(w, "predicted  %s must move, %s do; at the %.0f GB/s of a kernel that only reads %s\n", traffic.Bytes(t.Ideal), traffic.Bytes(t.Bytes), read.GBps, t.AtLeast(read.GBps*1e9).Round(10*time.Nanosecond))
	fmt.Fprintf(w, "measured   %s on %s, %.0f GB/s of what must move, %.0f%% of reading; loaded in %s\n", took.Round(10*time.Nanosecond), g.Title,
		float64(t.Ideal)/took.Seconds()/1e9, 100*float64(t.Ideal)/took.Seconds()/1e9/read.GBps, l.Time.Round(100*time.Microsecond))
	return nil
}

// readText reads a file of HLO, "-" for standard input.
func readText(name string) (string, error) {
	var raw []byte
	var err error
	if name == "-" {
		raw, err = io.ReadAll(io.LimitReader(os.Stdin, hlo.MaxText+1))
	} else {
		raw, err = os.ReadFile(name)
	}
	return string(raw), err
}

// fusionArgs makes the arguments that are named from their texts, and draws the others.
func fusionArgs(f *fuse.Fusion, argv []string, seed int) ([]*array.Array, error) {
	out := f.Arguments(seed)
next:
	for _, a := range argv {
		name, spec, ok := strings.Cut(a, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("--arg %q is not NAME=VALUE", a)}
		}
		for i, p := range f.Program.Flat.Params {
			if p.Name != name {
				continue
			}
			v, err := array.Generate(spec)
			if strings.HasSuffix(spec, ".npy") {
				v, err = array.Load(spec)
			}
			if err != nil {
				return nil, err
			}
			if v.Len() != out[i].Len() || v.Type != out[i].Type {
				return nil, usageError{fmt.Errorf("--arg %s is %s%v; the fusion takes %s", name, v.Type, v.Shape, p.Shape)}
			}
			out[i] = v
			continue next
		}
		return nil, usageError{fmt.Errorf("--arg %s: the fusion has no parameter of that name", name)}
	}
	return out, nil
}
