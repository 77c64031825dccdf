package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func newQMM() *cobra.Command {
	var weights, x, bias, residual, out, program, on, plan string
	var soon bool
	cmd := &cobra.Command{
		Use:   "qmm KIND",
		Short: "Quantise a linear layer and multiply with it",
		Long: `Quantise a linear layer and multiply with it: y = x·wᵀ. KIND is an element type of 1 to
8 bits or a preset (mxfp4, nvfp4, …), and words: group=128 (or channel), scale=f16,
act=f16, zero (points; zero=any where they are not whole), scalebits=7 (significant bits of
scales; chosen such that weights are exact as plain numbers where that costs nothing), far
(scales may be any, and programs do not fold them), rounded (products may round weights to
the type of x, as other kernels do; faster in groups of 16 to 64 where scales have many bits
or zero points are not whole). The error of the weights and of y are told.

--program prints one of the programs instead: decode, wide, prefill, arrange, pack, unpack
or expand, of the kind as weights of models have it.`,
		Example: `  tilus-lab qmm i4 --weights randn:f32[256,512] --x randn:f16[3,512]
  tilus-lab qmm "u3 zero group=64" --weights w.npy --x x.npy --out y.npy --device cuda
  tilus-lab qmm mxfp4 --program decode`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if program != "" {
				return printQMM(cmd, args[0], program)
			}
			if soon && plan != "" {
				return usageError{fmt.Errorf("--soon takes a plan of its own: leave it or --plan %s out", plan)}
			}
			w, err := array.FromSpec(weights)
			if err != nil {
				return inFlag("--weights", weights, err)
			}
			if len(w.Shape) != 2 {
				return usageError{fmt.Errorf("weights are [N, K], not %v", w.Shape)}
			}
			l, err := qmm.Parse(args[0], w.Shape[0], w.Shape[1])
			if err != nil {
				return usageError{err}
			}
			xs, err := array.FromSpec(x)
			if err != nil {
				return inFlag("--x", x, err)
			}
			d, err := device.Open(on)
			if err != nil {
				return err
			}
			defer d.Close()
			q, err := l.Quantize(w)
			if err != nil {
				return err
			}
			p, err := q.Pack(cmd.Context(), d)
			if err != nil {
				return err
			}
			c := qmm.Call{Plan: plan, Soon: soon}
			if bias != "" {
				if c.Bias, err = array.FromSpec(bias); err != nil {
					return inFlag("--bias", bias, err)
				}
				c.Bias = c.Bias.Cast(l.ActType)
			}
			if residual != "" {
				if c.Residual, err = array.FromSpec(residual); err != nil {
					return inFlag("--residual", residual, err)
				}
				if len(xs.Shape) == 2 && !slices.Equal(c.Residual.Shape, []int{xs.Shape[0], l.N}) {
					return usageError{fmt.Errorf("--residual is %v, and y is [%d, %d]", c.Residual.Shape, xs.Shape[0], l.N)}
				}
				c.Residual = c.Residual.Cast(l.ActType)
			}
			res, err := p.Run(cmd.Context(), d, xs.Cast(l.ActType), c)
			if err != nil {
				return err
			}
			o := cmd.OutOrStdout()
			fmt.Fprintf(o, "%s [%d, %d]: %d bytes, %.2f bits a weight; relative error of the weights %.2e\n", q.Linear, l.N, l.K, l.Bytes(), 8*float64(l.Bytes())/float64(l.N*l.K), array.RelFro(q.Dequantize(), w))
			fmt.Fprintf(o, "y %v on %s, plan %s: relative error against the plain weights %.2e\n", res.Y.Shape, res.Device, planText(res), array.RelFro(res.Y, plainProduct(xs.Cast(l.ActType), w, c)))
			if out != "" {
				return res.Y.Save(out)
			}
			_, err = fmt.Fprintln(o, res.Y)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&weights, "weights", "randn:f32[256, 512]:seed=1", "`ARRAY` [N, K]: a .npy file or a generator, as for run --arg")
	f.StringVar(&x, "x", "randn:f32[1, 512]:seed=2", "`ARRAY` [M, K]")
	f.StringVar(&bias, "bias", "", "`ARRAY` [N] that is added")
	f.StringVar(&residual, "residual", "", "`ARRAY` [M, N] that is added")
	f.StringVar(&out, "out", "", "write y to this .npy `FILE`")
	f.StringVar(&program, "program", "", "print this `PROGRAM` of the kind: decode, wide, prefill, arrange, pack, unpack, expand")
	f.StringVar(&on, "device", "auto", "`DEVICE`: interp, sim, cuda or auto")
	f.StringVar(&plan, "plan", "", "`PLAN`: decode, wide, prefill or expand, which may round weights; chosen where it is not given")
	f.BoolVar(&soon, "soon", false, "take a program of which a GPU's driver soon has machine code, not the fastest")
	return cmd
}

// planText is the plan of a product and its schedule.
func planText(r *qmm.Result) string {
	switch r.Plan {
	case qmm.Decode:
		return r.Plan + " " + r.Schedule.String()
	case qmm.Wide, qmm.Prefill:
		return r.Plan + " " + r.Wide.String()
	}
	return r.Plan + ", then a product of plain numbers"
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
		var plan *template.Plan
		if plan, err = template.PlanOf(l.Form()); err == nil {
			most := plan.Most(template.WideSchedule{Persistent: true})
			p, err = template.Wide(l.Form(), template.WideSchedule{Rows: most, Cluster: min(2, most/8), Persistent: true})
		}
	case "arrange":
		p, err = template.Arrange(l.Form(), template.WideSchedule{})
	case "pack":
		p, err = template.Pack(l.Form())
	case "unpack":
		p, err = template.Unpack(l.Form())
	case "expand":
		p, err = template.Expand(l.Form())
	default:
		return usageError{fmt.Errorf("no program %q; there are decode, wide, prefill, arrange, pack, unpack and expand", program)}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), text.Format(p))
	return err
}

// plainProduct is the product with plain weights in float64, and what a call adds to it.
func plainProduct(x, w *array.Array, c qmm.Call) *array.Array {
	m, n, k := x.Shape[0], w.Shape[0], w.Shape[1]
	a, b, y := x.Floats(), w.Floats(), make([]float64, m*n)
	if c.Residual != nil {
		y = c.Residual.Floats()
	}
	for j := range n {
		for i := range m {
			at := &y[i*n+j]
			if c.Bias != nil {
				*at += c.Bias.Type.Decode(c.Bias.Code(j))
			}
			for e := range k {
				*at += a[i*k+e] * b[j*k+e]
			}
		}
	}
	return array.FromFloats(dtype.F64, []int{m, n}, y)
}
