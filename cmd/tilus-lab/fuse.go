package main

import (
	"context"
	"fmt"
	"io"
	"math"
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
machine's GPU, beside what the maps predict and a kernel that only reads; of an argument that
is drawn, a part that repeats is enough there.

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
			measure := func() (*fusionTime, error) {
				if !timed {
					return nil, nil
				}
				values, err := fusionArgs(f, argv, seed, repeatedFrom)
				if err != nil {
					return nil, err
				}
				t, err := timeFusion(cmd.Context(), f, values)
				return &t, err
			}
			if asJSON {
				t, err := measure()
				if err != nil {
					return err
				}
				return indented(w, struct {
					traffic.Report
					Measured *fusionTime `json:"measured,omitempty"`
				}{f.Traffic, t})
			}
			if draw.wanted() {
				pic, err := fusion.Draw(f, drawing, draw.options())
				if err != nil {
					return usageError{err}
				}
				if err := draw.write(cmd, pic); err != nil {
					return err
				}
			}
			var views []string
			for _, v := range fuse.Views() {
				if *show[v.Name] {
					views = append(views, v.Name)
				}
			}
			if len(views) == 0 && !run && !timed && !draw.wanted() {
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
			if t, err := measure(); err != nil {
				return err
			} else if t != nil {
				t.write(w, f.Traffic)
			}
			if !run {
				return nil
			}
			if n := elementsOf(f); n > maxRun {
				return usageError{fmt.Errorf("%d elements are too many for the definition and the simulator, more than %d; --time runs kernels on a GPU", n, maxRun)}
			}
			values, err := fusionArgs(f, argv, seed, math.MaxInt)
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
	fl.BoolVar(&asJSON, "json", false, "print what memory is asked for, and what --time measures, as JSON")
	draw = addPictureFlags(cmd)
	return cmd
}

// fusionTime is what a GPU says of a fusion. Times are in microseconds, rates in GB/s.
type fusionTime struct {
	GPU        string       `json:"gpu"`
	CompileMS  float64      `json:"compile_ms"` // text to thread code
	LoadMS     float64      `json:"load_ms"`    // thread code to a loaded module
	ReadGBps   float64      `json:"read_gbps"`  // of a kernel that only reads
	US         float64      `json:"us"`
	GBps       float64      `json:"gbps"` // of what must move
	Kernels    []kernelTime `json:"kernels"`
	CacheBytes int64        `json:"cache_bytes"`
}

type kernelTime struct {
	Name  string  `json:"name"`
	US    float64 `json:"us"`
	Bytes int64   `json:"bytes"` // predicted from the maps
	GBps  float64 `json:"gbps"`
}

// maxRun bounds the elements of arguments and results that --run computes with.
const maxRun = 1 << 26

func elementsOf(f *fuse.Fusion) (n int) {
	for _, b := range f.Program.Buffers {
		n += b.Shape.Elements()
	}
	return n
}

// repeatedFrom is the most elements that an argument is drawn with where only time counts.
const repeatedFrom = 1 << 20

// timeFusion times a fusion on the first GPU.
func timeFusion(ctx context.Context, f *fuse.Fusion, args []*array.Array) (r fusionTime, err error) {
	g, err := tune.OpenGPU(0)
	if err != nil {
		return r, err
	}
	defer g.Close()
	read, err := tune.TimeRead(ctx, g, 512<<20, tune.Options{WorkingSet: 512 << 20})
	if err != nil {
		return r, err
	}
	d, err := cuda.Open()
	if err != nil {
		return r, err
	}
	c, err := d.PrimaryContext(0)
	if err != nil {
		return r, err
	}
	defer c.Close()
	l, err := launch.Load(c, f.Program, g.Target)
	if err != nil {
		return r, err
	}
	defer l.Close()
	if err := l.Give(args); err != nil {
		return r, err
	}
	s, err := c.NewStream()
	if err != nil {
		return r, err
	}
	defer s.Close()
	const calls, repeats = 20, 7
	took, err := l.Measure(s, calls, repeats)
	if err != nil {
		return r, err
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	rate := func(n int64, took time.Duration) float64 { return float64(n) / max(1e-9, took.Seconds()) / 1e9 }
	r = fusionTime{GPU: g.Title, CompileMS: ms(f.Took), LoadMS: ms(l.Time), ReadGBps: read.GBps, US: took.Seconds() * 1e6,
		GBps: rate(f.Traffic.Ideal, took), CacheBytes: g.L2, Kernels: []kernelTime{}}
	for i, k := range f.Traffic.Kernels {
		if len(f.Traffic.Kernels) > 1 {
			if took, err = l.MeasureKernel(i, s, calls, repeats); err != nil {
				return r, err
			}
		}
		n := k.Read + k.Written
		r.Kernels = append(r.Kernels, kernelTime{k.Name, took.Seconds() * 1e6, n, rate(n, took)})
	}
	return r, nil
}

func (r fusionTime) write(w io.Writer, t traffic.Report) {
	us := func(x float64) time.Duration { return time.Duration(x * 1e3).Round(10 * time.Nanosecond) }
	fmt.Fprintf(w, "predicted  %s must move, %s do; at the %.0f GB/s of a kernel that only reads %s\n", traffic.Bytes(t.Ideal), traffic.Bytes(t.Bytes), r.ReadGBps, t.AtLeast(r.ReadGBps*1e9).Round(10*time.Nanosecond))
	fmt.Fprintf(w, "measured   %s on %s, %.0f GB/s of what must move, %.0f%% of reading\n", us(r.US), r.GPU, r.GBps, 100*r.GBps/r.ReadGBps)
	if len(r.Kernels) > 1 {
		for _, k := range r.Kernels {
			fmt.Fprintf(w, "  %-20s %s alone, %s, %.0f GB/s\n", k.Name, us(k.US), traffic.Bytes(k.Bytes), k.GBps)
		}
	}
	if t.Bytes < r.CacheBytes {
		fmt.Fprintf(w, "           all of it fits into the cache of %s: this is the time of launches and of the cache, not of memory\n", traffic.Bytes(r.CacheBytes))
	}
	fmt.Fprintf(w, "text to thread code in %.1f ms, to a loaded module in %.1f ms more\n", r.CompileMS, r.LoadMS)
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

// fusionArgs makes the arguments that are named from their texts, and draws the others, with
// no more than most elements.
func fusionArgs(f *fuse.Fusion, argv []string, seed, most int) ([]*array.Array, error) {
	out := f.Samples(seed, most)
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
			v, err := array.FromSpec(spec)
			if err != nil {
				return nil, inFlag("--arg "+name, spec, err)
			}
			if v.Len() != p.Shape.Elements() || v.Type != out[i].Type {
				return nil, usageError{fmt.Errorf("--arg %s is %s%v; the fusion takes %s", name, v.Type, v.Shape, p.Shape)}
			}
			out[i] = v
			continue next
		}
		return nil, usageError{fmt.Errorf("--arg %s: the fusion has no parameter of that name", name)}
	}
	return out, nil
}
