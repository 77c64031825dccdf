package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/checkpoint"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func newQMM() *cobra.Command {
	presets := strings.Join(qmm.Presets(), ", ")
	var weights, x, bias, residual, out, program, on, plan, stored, act string
	var soon, rounded bool
	cmd := &cobra.Command{
		Use:   "qmm [KIND]",
		Short: "Quantise a linear layer and multiply with it",
		Long: `Quantise a linear layer and multiply with it: y = x·wᵀ. KIND is an element type of 1 to
8 bits or a preset (` + presets + `), and words:

  group=128      k of a scale: 16, 32, 64 or a multiple of 128; channel is one for each output
  scale=f16      type of scales: f16, bf16, f8e8m0 (powers of two) or f8e4m3
  act=f16        type of x and y: f16 or bf16
  zero           zero points of unsigned weights; zero=any where they are not whole
  factor         one more factor of all weights, an f32, as nvfp4 has it
  scalebits=7    significant bits of scales, at most; without it chosen such that weights are
                 exact as plain numbers where that costs little: 2% of their error, of 7 and 8
                 bits up to 12.5%; scalebits=11 keeps all of f16
  far            scales may be any, and programs do not fold them
  rounded        products may round weights to the type of x, as other kernels do; faster in
                 groups of 16 to 64 and beyond 128 rows where scales have many bits or zero points
                 are not whole; --rounded says it of --checkpoint

The errors of the weights and of y are told, relative to the norm of what plain weights give.
Generators with one seed give the same numbers: x that is part of the weights has another error.
Numpy has no bf16 of its own: a file of such numbers is FILE.npy:bf16[N, K], whatever it says.

--checkpoint takes a layer that others have quantised, exactly as it is stored; its arrays say
its kind. It reads ` + strings.Join(checkpoint.Formats()[:5], ", ") + `,
` + strings.Join(checkpoint.Formats()[5:9], ", ") + `,
` + strings.Join(checkpoint.Formats()[9:], ", ") + `.
Of .gguf files it reads blocks that are codes times a scale: ` + checkpoint.Blocks() + `.
A file without a layer lists those that it has; models in several files go by
model.safetensors.index.json. Whether zero points of gptq are stored less one, and of which type
six bits of Quark are, is read from quantize_config.json or config.json beside the file. Of
layers that are quantised with act-order (desc_act; g_idx says the group of each input) a program
brings x into the order of the weights first. The error of y is against the weights as they are
dequantised. The kind that is told has scalebits=N where weights are exact as plain numbers, and
far where programs cannot fold scales as large, or powers of two as small, as some are.

The layer's bias, NAME.bias or NAME_bias, is added where not all of it is 0 (GPTQModel and
AutoAWQ store such ones for layers without). It is an error where the type of x and y does not
hold it as it is; --bias takes the place of it, and is rounded, and --bias none leaves it out.
Activations that a format has quantised too, as W8A8 and fp8 models do,
are multiplied as they are.

--program prints one of the programs instead: decode, wide, prefill, arrange, gather, pack,
unpack or expand, of the kind as weights of models have it; prefill as 2048 rows of a layer
8192x8192 take it.`,
		Example: `  tilus-lab qmm i4 --weights randn:f32[256,512]:seed=1 --x randn:f16[3,512]:seed=2
  tilus-lab qmm u3 zero group=64 --weights w.npy --x x.npy --out y.npy --device cuda
  tilus-lab qmm nvfp4 --weights model.safetensors:model.layers.0.mlp.down_proj.weight
  tilus-lab qmm --checkpoint model.safetensors:model.layers.0.mlp.down_proj
  tilus-lab qmm mxfp4 --program decode`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case stored == "" && len(args) == 0:
				return fmt.Errorf("KIND says what the weights become, as in qmm u4 zero; of a layer that is quantised already, name it by --checkpoint instead")
			case stored != "" && len(args) > 0:
				return fmt.Errorf("a checkpoint says the kind of its layers; leave %q or --checkpoint out", strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := strings.Join(args, " ")
			if stored != "" {
				if err := without(cmd, "checkpoint", "has weights and their kind", "weights", "program"); err != nil {
					return err
				}
			} else if err := ofCheckpoint(act, rounded); err != nil {
				return err
			}
			if program != "" {
				if err := without(cmd, "program", "multiplies nothing", "weights", "x", "bias", "residual", "out", "device", "plan", "soon"); err != nil {
					return err
				}
				return printQMM(cmd, kind, program)
			}
			if soon && plan != "" {
				return usageError{fmt.Errorf("--soon takes a plan of its own: leave it or --plan %s out", plan)}
			}
			if plan != "" {
				if err := somePlan(plan); err != nil {
					return err
				}
			}
			if out != "" {
				if err := takesFile("--out", out, weights, stored, x, bias, residual); err != nil {
					return err
				}
			}
			of, err := func() (*layer, error) {
				if stored != "" {
					return storedLayer(cmd, stored, act, rounded)
				}
				return plainLayer(kind, weights)
			}()
			if err != nil || of == nil {
				return err
			}
			l := of.kind
			if x == "" {
				x = fmt.Sprintf("randn:f32[1, %d]:seed=2", l.K)
			}
			xs, err := array.FromSpec(x)
			if err != nil {
				return inFlag("--x", x, err)
			}
			if err := l.Takes(xs); err != nil { // before weights are packed
				return usageError{err}
			}
			if xs, err = l.Activations("--x", xs); err != nil {
				return err
			}
			c := qmm.Call{Plan: plan, Soon: soon}
			switch bias {
			case "":
				if c.Bias, err = of.bias, of.biasErr; err != nil {
					return err
				}
			case "none":
			default:
				if c.Bias, err = array.FromSpec(bias); err != nil {
					return inFlag("--bias", bias, err)
				}
				if s := c.Bias.Shape; !slices.Equal(s, []int{l.N}) && !slices.Equal(s, []int{1, l.N}) {
					return usageError{fmt.Errorf("--bias is %s, and the layer takes [%d]", c.Bias.Header(), l.N)}
				}
				if c.Bias, err = l.Activations("--bias", c.Bias); err != nil {
					return err
				}
			}
			if residual != "" {
				if c.Residual, err = array.FromSpec(residual); err != nil {
					return inFlag("--residual", residual, err)
				}
				if !slices.Equal(c.Residual.Shape, []int{xs.Shape[0], l.N}) {
					return usageError{fmt.Errorf("--residual is %s, and y is [%d, %d]", c.Residual.Header(), xs.Shape[0], l.N)}
				}
				if c.Residual, err = l.Activations("--residual", c.Residual); err != nil {
					return err
				}
			}
			d, err := device.Open(on)
			if err != nil {
				return err
			}
			defer d.Close()
			q, w, err := of.quantised(cmd.Context())
			if err != nil {
				return err
			}
			p, err := q.Pack(cmd.Context(), d)
			if err != nil {
				return err
			}
			res, err := p.Run(cmd.Context(), d, xs, c)
			if err != nil {
				return err
			}
			some, part := compared(xs.Shape[0], l.N, l.K)
			y, err := some.product(cmd.Context(), xs, w, c)
			if err != nil {
				return err
			}
			o := cmd.OutOrStdout()
			found := q.Linear
			if of.stored != nil {
				found = p.Linear // with what packing found of scales and zero points
			}
			size, lost, against := fmt.Sprintf("%s [%d, %d]: %d bytes, %.2f bits a weight", found, l.N, l.K, l.Bytes(), 8*float64(l.Bytes())/float64(l.N*l.K)), "", "dequantised"
			if of.stored == nil {
				dequantised, err := q.Dequantize(cmd.Context())
				if err != nil {
					return err
				}
				lost, against = fmt.Sprintf("; relative error of the weights %.2e", array.RelFro(dequantised, w)), "plain"
			} else {
				size = of.format + ": " + size
				if q.Order != nil {
					size += ", in an order of inputs"
				}
				if bias == "" && of.bias != nil {
					size += ", and a bias"
				}
			}
			fmt.Fprintln(o, size+lost)
			fmt.Fprintf(o, "y %s on %s, plan %s: relative error against the %s weights %.2e%s\n", res.Y.Header(), res.Device, planText(res), against, array.RelFro(some.pick(res.Y), y), part)
			if text := beyond(res.Y, w, of.stored != nil); text != "" {
				fmt.Fprintln(o, text)
			}
			if out != "" {
				return res.Y.Save(out)
			}
			_, err = fmt.Fprintln(o, res.Y)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&weights, "weights", "", "`ARRAY` [N, K]: FILE.npy, FILE.safetensors:NAME or a generator, as for run --arg; random ones [256, 512] where it is not given, of types without a sign none below 0")
	f.StringVar(&stored, "checkpoint", "", "quantised `LAYER`, FILE.safetensors:NAME or FILE.gguf:NAME; FILE lists its layers")
	f.StringVar(&act, "act", "", "`TYPE` of x and y with --checkpoint, f16 or bf16; that of the layer's scales or bias where it is not given, else f16")
	f.BoolVar(&rounded, "rounded", false, "products of --checkpoint may round weights to the type of x")
	f.StringVar(&x, "x", "", "`ARRAY` [M, K]; one random row where it is not given")
	f.StringVar(&bias, "bias", "", "`ARRAY` [N] that is added to each row, instead of the bias of a layer of --checkpoint; none leaves that out")
	f.StringVar(&residual, "residual", "", "`ARRAY` [M, N] that is added")
	f.StringVar(&out, "out", "", "write y to this .npy `FILE`; numbers of bf16 as u16, which are their bits")
	f.StringVar(&program, "program", "", "print this `PROGRAM` of the kind: decode, wide, prefill, arrange, gather, pack, unpack, expand")
	f.StringVar(&on, "device", "auto", "`DEVICE`: interp, sim, cuda or auto")
	f.StringVar(&plan, "plan", "", "`PLAN`: decode, wide, prefill or expand, which may round weights; chosen where it is not given")
	f.BoolVar(&soon, "soon", false, "take a program of which a GPU's driver soon has machine code, not the fastest")
	return cmd
}

// layer is what is multiplied with: plain weights and a kind that they are to be of, or weights that are quantised.
type layer struct {
	kind   qmm.Linear
	plain  *array.Array
	stored *qmm.Weights // of a checkpoint
	format string       // of that
	// bias is that of a checkpoint, or nil; biasErr is why there is none of one that has one.
	bias    *array.Array
	biasErr error
}

// usualWeights are those of a layer whose weights are not given: random, and numbers that its type has.
func usualWeights(kind string) (string, error) {
	l, err := qmm.Parse(kind, 1, 1)
	if err != nil {
		return "", usageError{err}
	}
	if t := l.WeightType; t.IsInt() && !t.Signed() && !l.ZeroPoint {
		return "rand:f32[256, 512]:lo=0:seed=1", nil
	}
	return "randn:f32[256, 512]:seed=1", nil
}

// plainLayer is a layer that is quantised here; weights are "" where they are not given.
func plainLayer(kind, weights string) (*layer, error) {
	if weights == "" {
		var err error
		if weights, err = usualWeights(kind); err != nil {
			return nil, err
		}
	}
	if err := checkpoint.Plain(weights); err != nil {
		return nil, usageError{fmt.Errorf("--weights %w", err)}
	}
	w, err := array.FromSpec(weights)
	if err != nil {
		return nil, inFlag("--weights", weights, err)
	}
	if len(w.Shape) != 2 {
		return nil, usageError{fmt.Errorf("--weights is %s, and weights are [N, K]", w.Header())}
	}
	l, err := qmm.Parse(kind, w.Shape[0], w.Shape[1])
	if err != nil {
		return nil, usageError{err}
	}
	return &layer{kind: l, plain: w}, nil
}

// storedLayer is a layer of a checkpoint. Where none is named it lists them, and gives nil.
func storedLayer(cmd *cobra.Command, spec, act string, rounded bool) (*layer, error) {
	path, name, ok := checkpoint.Split(spec)
	if !ok || name != "" {
		return namedLayer(spec, act, rounded)
	}
	if err := without(cmd, "checkpoint", "without a layer lists layers", "x", "bias", "residual", "out", "device", "plan", "soon", "act", "rounded"); err != nil {
		return nil, err
	}
	f, err := checkpoint.Open(path)
	if err != nil {
		return nil, inFlag("--checkpoint", path, err)
	}
	defer f.Close()
	return nil, listLayers(cmd, path, f)
}

// ofCheckpoint finds flags that a layer without --checkpoint has as words of its kind.
func ofCheckpoint(act string, rounded bool) error {
	switch {
	case act != "":
		return usageError{fmt.Errorf("--act is of --checkpoint; write act=%s behind the type of weights", act)}
	case rounded:
		return usageError{errors.New("--rounded is of --checkpoint; write rounded behind the type of weights")}
	}
	return nil
}

// namedLayer is a layer of a checkpoint; the name may be left out where there is one.
func namedLayer(spec, act string, rounded bool) (*layer, error) {
	path, name, ok := checkpoint.Split(spec)
	if !ok {
		return nil, usageError{fmt.Errorf("--checkpoint %s: write FILE.safetensors:LAYER, or FILE.gguf:LAYER; qmm --checkpoint FILE lists layers", spec)}
	}
	f, err := checkpoint.Open(path)
	if err != nil {
		return nil, inFlag("--checkpoint", path, err)
	}
	defer f.Close()
	q, err := f.Layer(name)
	if err != nil {
		return nil, err
	}
	if act != "" {
		t, err := dtype.Parse(act)
		if err != nil || t != dtype.F16 && t != dtype.BF16 {
			return nil, usageError{fmt.Errorf("--act %s: x and y are f16 or bf16", act)}
		}
		if q, err = checkpoint.As(q, t); err != nil {
			return nil, err
		}
	}
	q.Rounded = rounded
	l := &layer{kind: q.Linear, stored: q}
	l.bias, l.biasErr = f.Bias(name, q.Linear)
	l.format, err = f.Format(name)
	return l, err
}

// quantised are the layer's weights, and the plain ones that y is compared with.
func (l *layer) quantised(ctx context.Context) (*qmm.Weights, *array.Array, error) {
	if l.stored != nil {
		w, err := l.stored.Dequantize(ctx)
		return l.stored, w, err
	}
	q, err := l.kind.Quantize(ctx, l.plain)
	return q, l.plain, err
}

// listLayers prints the quantised layers of a file.
func listLayers(cmd *cobra.Command, path string, f *checkpoint.File) error {
	layers := f.Layers()
	if len(layers) == 0 {
		_, err := f.Layer("")
		return err
	}
	tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "LAYER\tFORMAT\tKIND\tN, K\tBYTES\tBIAS")
	for _, l := range layers {
		name, each := l.Name, ""
		if l.Experts > 0 {
			name, each = fmt.Sprintf("%s[0…%d]", l.Name, l.Experts-1), fmt.Sprintf("%d × ", l.Experts)
		}
		if l.Err != nil {
			text := strings.TrimPrefix(l.Err.Error(), "checkpoint: "+path+":"+l.Name+": ")
			fmt.Fprintf(tw, "%s\t%s\trefused: %s\n", name, l.Format, text)
			continue
		}
		bias := l.Bias
		switch {
		case l.BiasErr != nil:
			bias = "refused: " + l.BiasErr.Error()
		case bias == "":
			bias = "none"
		}
		format := l.Format
		if l.Ordered {
			format += ", act-order"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t[%d, %d]\t%s%d\t%s\n", name, format, l.Kind, l.Kind.N, l.Kind.K, each, l.Kind.Bytes(), bias)
	}
	return tw.Flush()
}

// takesFile refuses a file that could not be written, or is one of those that are read, before anything is computed for it.
func takesFile(flag, path string, read ...string) error {
	if err := onlyFile(flag, path, ".npy file", "y is printed where "+flag+" is not given"); err != nil {
		return err
	}
	for _, spec := range read {
		if from, _, _ := checkpoint.Split(spec); from != "" && sameFile(from, path) {
			return usageError{fmt.Errorf("%s %s is what is read as %s, which y would replace; name another file", flag, path, spec)}
		}
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return usageError{fmt.Errorf("%s %s is a directory; name a .npy file", flag, path)}
	}
	if dir := filepath.Dir(path); dir != "." {
		if info, err := os.Stat(dir); err != nil {
			return fmt.Errorf("%s %s: there is no directory %s; make it first", flag, path, dir)
		} else if !info.IsDir() {
			return fmt.Errorf("%s %s: %s is no directory", flag, path, dir)
		}
	}
	return nil
}

// beyond says how much of y its type does not hold, and what weights may be meant that make it so; "" where it holds all.
// Of a stored layer a flag has the type.
func beyond(y, w *array.Array, stored bool) string {
	n := 0
	for i := range y.Len() {
		if v := y.Type.Decode(y.Code(i)); v-v != 0 {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	way := "divide x or the weights"
	switch {
	case y.Type == dtype.F16 && stored:
		way = "take --act bf16, or " + way
	case y.Type == dtype.F16:
		way = "take act=bf16, or " + way
	}
	if w.Type == dtype.U16 {
		way += fmt.Sprintf("; where the weights' u16 are bits of bf16, write FILE.npy:bf16[%d, %d]", w.Shape[0], w.Shape[1])
	}
	return fmt.Sprintf("%d of y's %d numbers are beyond %s, which holds at most %g; %s", n, y.Len(), y.Type, y.Type.Max(), way)
}

// planText is the plan of a product and its schedule.
func planText(r *qmm.Result) string {
	front := ""
	if r.Gathered {
		front = "gather, then "
	}
	switch r.Plan {
	case qmm.Decode:
		return front + r.Plan + " " + r.Schedule.String()
	case qmm.Wide, qmm.Prefill:
		return front + r.Plan + " " + r.Wide.String()
	}
	return front + r.Plan + ", then a product of plain numbers"
}

func printQMM(cmd *cobra.Command, kind, program string) error {
	l, err := qmm.Parse(kind, 1, 1)
	if err != nil {
		return usageError{err}
	}
	l = l.Usual()
	var p *ir.Program
	switch program {
	case "decode":
		p, err = template.Decode(l.Form(), template.Schedule{})
	case "wide":
		p, err = template.Wide(l.Form(), template.WideSchedule{})
	case "prefill":
		var s template.WideSchedule
		l.N, l.K = 8192, 8192 // blocks of the most rows of x may be beyond shared memory: what a layer takes fits
		if s, err = l.WideSchedule(qmm.Prefill, 2048); err == nil {
			p, err = template.Wide(l.Form(), s)
		}
	case "arrange":
		p, err = template.Arrange(l.Form(), template.WideSchedule{})
	case "gather":
		p, err = template.Gather(l.ActType)
	case "pack":
		p, err = template.Pack(l.Form())
	case "unpack":
		p, err = template.Unpack(l.Form())
	case "expand":
		p, err = template.Expand(l.Form())
	default:
		return usageError{fmt.Errorf("no program %q; there are decode, wide, prefill, arrange, gather, pack, unpack and expand", program)}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), text.Format(p))
	return err
}

// mostProducts is how many multiplications a product with plain weights takes, some seconds of one core.
const mostProducts = 2e9

// sampled are the rows and outputs of a product that are compared.
type sampled struct{ rows, outputs []int }

// compared are all rows and outputs of a product, or as many as mostProducts allows, evenly spread, and what a reader is told of that.
func compared(m, n, k int) (sampled, string) {
	rows, outputs := m, n
	if most := max(1, int(mostProducts)/k); m > most/n { // m*n may be beyond an int
		side := int(math.Sqrt(float64(most)))
		rows = min(m, side)
		outputs = min(n, most/rows)
		rows = min(m, most/outputs)
	}
	if rows == m && outputs == n {
		return sampled{spread(m, m), spread(n, n)}, ""
	}
	return sampled{spread(rows, m), spread(outputs, n)}, fmt.Sprintf(" (of %d of %d rows and %d of %d outputs, evenly spread)", rows, m, outputs, n)
}

// spread is count of n numbers from 0 on.
func spread(count, n int) []int {
	out := make([]int, count)
	for i := range out {
		out[i] = i * n / count
	}
	return out
}

// pick is what is compared of a product.
func (s sampled) pick(y *array.Array) *array.Array {
	if len(s.rows) == y.Shape[0] && len(s.outputs) == y.Shape[1] {
		return y
	}
	out := array.New(y.Type, len(s.rows), len(s.outputs))
	for i, row := range s.rows {
		for j, output := range s.outputs {
			out.SetCode(i*len(s.outputs)+j, y.Code(row*y.Shape[1]+output))
		}
	}
	return out
}

// product is what is compared of the product with plain weights in float64, and what a call adds to it.
func (s sampled) product(ctx context.Context, x, w *array.Array, c qmm.Call) (*array.Array, error) {
	y := make([]float64, len(s.rows)*len(s.outputs))
	const part = 256 // rows of x that are there as float64 at a time
	for from := 0; from < len(s.rows); from += part {
		s.multiply(ctx, x, w, c, y, from, min(from+part, len(s.rows)))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return array.FromFloats(dtype.F64, []int{len(s.rows), len(s.outputs)}, y), nil
}

// multiply sets some rows of y, unless ctx ends before.
func (s sampled) multiply(ctx context.Context, x, w *array.Array, c qmm.Call, y []float64, from, to int) {
	n, k := w.Shape[0], w.Shape[1]
	rows := make([][]float64, to-from)
	for i := range rows {
		rows[i] = values(x, s.rows[from+i]*k, k)
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for ctx.Err() == nil {
				j := int(next.Add(1)) - 1
				if j >= len(s.outputs) {
					return
				}
				output := s.outputs[j]
				b := values(w, output*k, k)
				for i, a := range rows {
					sum := 0.0
					if c.Residual != nil {
						sum = c.Residual.Type.Decode(c.Residual.Code(s.rows[from+i]*n + output))
					}
					if c.Bias != nil {
						sum += c.Bias.Type.Decode(c.Bias.Code(output))
					}
					for e, v := range a {
						sum += v * b[e]
					}
					y[(from+i)*len(s.outputs)+j] = sum
				}
			}
		})
	}
	all.Wait()
}

// values are n numbers of an array from one on.
func values(a *array.Array, from, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = a.Type.Decode(a.Code(from + i))
	}
	return out
}
