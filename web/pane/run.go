package pane

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cost"
	"github.com/tilus-lab/tilus-lab/gpu/launch"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/web/pane/given"
)

// The devices of the run pane: what a link may start.
const (
	onBoth   = "interp and sim"
	onInterp = "interp"
	onSim    = "sim"
)

// runTime is how long a device may take for a picture.
const runTime = 4 * time.Second

func runPane() Pane {
	return Pane{
		Name:  "run",
		Title: "Run",
		Doc:   "A program on the interpreter, the simulator or both: its results compared bit by bit, the time that took, what a launch costs on a GPU, and where that stands under the roofline.",
		Params: []Param{
			{Name: "src", Title: "Program", Kind: Program, Default: StartProduct, Doc: "Program text."},
			{Name: "a", Title: "Arguments", Kind: Program, Default: productArgs, Doc: "One a line for each parameter: a generator such as randn:f32[32, 16] for a pointer, a number for a scalar."},
			{Name: "d", Title: "Device", Kind: Choice, Default: onBoth, Choices: []string{onBoth, onInterp, onSim}, Doc: "The definition, the lowered code on the simulator, or both compared. A GPU runs what its owner starts, never a link: see Run above."},
			{Name: "t", Title: "Target", Kind: Choice, Default: compile.DefaultArch, Choices: arch.Names(), Doc: "The GPU that the code, the costs and the roofline are of."},
		},
		Render: renderRun,
	}
}

// StartProduct is the program that the run pane opens with.
const StartProduct = `program product<M/16, N/8>(a: *f16, b: *f16, c: *f32, M: i32, N: i32, K: i32) warps=1 {
	bi, bj = BlockIndices()
	ga = ViewGlobal(a) : global f16[M, K]
	gb = ViewGlobal(b) : global f16[K, N]
	gc = ViewGlobal(c) : global f32[M, N]
	acc = AllocateRegister(init=0) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	for k in 0..K/16 {
		x = LoadGlobal(ga, offset=[bi*16, k*16]) : register f16[16, 16] column_local(2, 2).spatial(8, 4).local(1, 2)
		y = LoadGlobal(gb, offset=[k*16, bj*8]) : register f16[16, 8] local(2, 1).column_spatial(4, 8).local(2, 1)
		acc = Dot(x, y, acc) : register f32[16, 8] local(2, 1).spatial(8, 4).local(1, 2)
	}
	StoreGlobal(gc, acc, offset=[bi*16, bj*8])
}
`

// productArgs are the arguments of [StartProduct].
const productArgs = "randint:f16[64, 64]\nrandint:f16[64, 64]\nzeros:f32[64, 64]\n64\n64\n64"

// peak is what a GPU of a target can do at most, as its maker says.
type peak struct {
	gpu           string
	bytes, tensor float64 // a second; tensor cores on f16 with sums in f32, without sparsity
	plain         float64 // f32 without tensor cores
	source        string
}

// peaks are of the GPU that is best known of each target.
func peaks() map[string]peak {
	return map[string]peak{
		"sm_80":   {"A100 SXM 80 GB", 2.039e12, 312e12, 19.5e12, "NVIDIA A100 Tensor Core GPU data sheet"},
		"sm_86":   {"A10", 600e9, 125e12, 31.2e12, "NVIDIA A10 data sheet"},
		"sm_89":   {"L40S", 864e9, 362e12, 91.6e12, "NVIDIA L40S data sheet"},
		"sm_90":   {"H100 SXM", 3.35e12, 989e12, 67e12, "NVIDIA H100 Tensor Core GPU data sheet"},
		"sm_90a":  {"H200 SXM", 4.8e12, 989e12, 67e12, "NVIDIA H200 Tensor Core GPU data sheet"},
		"sm_100a": {"B200 SXM", 8e12, 2250e12, 80e12, "NVIDIA DGX B200 data sheet, a GPU's share"},
	}
}

func renderRun(v Values) (Result, error) {
	p, err := compile.Parse("src", v["src"], nil)
	if err != nil {
		return Result{}, err
	}
	args, err := given.Args(p, v["a"])
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	var text strings.Builder
	var took []string
	var first, second []ir.Arg
	if v["d"] != onSim {
		begin := time.Now()
		if first, err = interpret(ctx, p, args); err != nil {
			return Result{}, stopped(err, "the interpreter")
		}
		took = append(took, fmt.Sprintf("%s on the interpreter", span(time.Since(begin))))
	}
	out := Result{}
	if v["d"] != onInterp {
		begin := time.Now()
		l, err := simulate(ctx, p, args, v["t"])
		if err != nil {
			return Result{}, stopped(err, "the simulator")
		}
		took = append(took, fmt.Sprintf("%s on the simulator", span(time.Since(begin))))
		second = l.args
		pic, say, err := roofline(l.cost, args, p, v.look())
		if err != nil {
			return Result{}, err
		}
		out.Pictures = append(out.Pictures, Picture{Name: "roofline", Picture: pic})
		text.WriteString(l.cost.String())
		out.Sentence = say
	}
	if first == nil {
		first = second
	}
	var rows [][]string
	wrong := 0
	for i, a := range first {
		if a.Array == nil {
			continue
		}
		before := array.Compare(a.Array, args[i].Array)
		row := []string{p.Params[i].Name, p.Params[i].Type.String(), extents(a.Array.Shape), plural(before.Differ, "element") + " written anew"}
		if before.Differ == 0 {
			row[3] = "unchanged"
		}
		switch r := (array.Report{}); {
		case second == nil || v["d"] != onBoth:
			row = append(row, "–")
		default:
			r = array.Compare(second[i].Array, a.Array)
			wrong += r.Differ
			row = append(row, fmt.Sprintf("equal in all %d", r.N))
			if r.Differ > 0 {
				row[4] = fmt.Sprintf("%d of %d differ", r.Differ, r.N)
			}
		}
		rows = append(rows, row)
		if before.Differ > 0 {
			fmt.Fprintf(&text, "\n%s =\n%s\n", p.Params[i].Name, a.Array)
		}
	}
	table, err := layoutviz.Rows("Arguments after the launch", []string{"name", "type", "shape", "", "sim against interp"}, rows, -1, v.look())
	if err != nil {
		return Result{}, err
	}
	for j := range table.IDs {
		table.IDs[j].ID = "arg" + table.IDs[j].ID
		table.IDs[j].Keys = nil
	}
	out.Pictures = append(out.Pictures, Picture{Name: "results", Picture: table})
	head := fmt.Sprintf("%s took %s, on this computer and not on a GPU.", p.Name, strings.Join(took, " and "))
	if v["d"] == onBoth {
		head = strings.TrimSuffix(head, ".") + "; both give the same bits."
		if wrong > 0 {
			head = fmt.Sprintf("%s and %s: %d elements differ.", took[0], took[1], wrong)
		}
	}
	out.Sentence = strings.TrimSpace(head + " " + out.Sentence)
	out.Text = text.String()
	return out, nil
}

func span(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// stopped says who did not end, or what went wrong at which line.
func stopped(err error, who string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return diag.List{{Pos: at("src"), Code: "Pane.E20", Msg: fmt.Sprintf("%s was stopped after %s", who, runTime), Help: "take smaller arguments; or run it with tilus-lab run, or in a notebook"}}
	}
	var list diag.List
	if errors.As(err, &list) {
		for i := range list {
			list[i].Pos.File, list[i].End.File = "src", "src"
		}
		return list
	}
	return diag.List{{Pos: at("a"), Code: "Pane.E5", Msg: err.Error()}}
}

func interpret(ctx context.Context, p *ir.Program, args []ir.Arg) ([]ir.Arg, error) {
	own := make([]ir.Arg, len(args))
	for i, a := range args {
		if own[i] = a; a.Array != nil {
			own[i].Array = a.Array.Clone()
		}
	}
	m, err := interp.New(p, own)
	if err != nil {
		return nil, err
	}
	if err := m.Run(ctx); err != nil {
		return nil, err
	}
	return m.Args(), nil
}

// launched is what a launch on the simulator left.
type launched struct {
	args []ir.Arg
	cost cost.Launch
	code *compile.Compiled
}

// simulate runs a program's thread code on the simulator.
func simulate(ctx context.Context, p *ir.Program, args []ir.Arg, target string) (*launched, error) {
	grid, err := interp.CheckArgs(p, args)
	if err != nil {
		return nil, err
	}
	c, err := compile.Program(p, compile.Options{Arch: target, Divisible: compile.Divisors(p, args)})
	if err != nil {
		return nil, err
	}
	l := launch.New(p, args, grid, c)
	for _, w := range c.Func.Params[len(args):] {
		if w.Kind == code.Tensor {
			continue
		}
		n, err := w.Workspace.Bytes(l.Scalars)
		if err != nil {
			return nil, err
		}
		if n > 8*given.MaxElements {
			return nil, fmt.Errorf("%s takes %d bytes of memory of its own", p.Name, n)
		}
	}
	data, _, stats, err := l.Simulate(ctx, sim.Options{})
	if err != nil {
		return nil, err
	}
	out := &launched{args: l.Results(p, args, data), cost: cost.Of(c.Func, c.Arch), code: c}
	out.cost.Count(stats, grid, grid[0]*grid[1]*grid[2])
	return out, nil
}

// roofline draws what a launch may reach at most, by its operations for each byte.
func roofline(l cost.Launch, args []ir.Arg, p *ir.Program, o layoutviz.Options) (layoutviz.Picture, string, error) {
	k := peaks()[l.Target]
	top, kind := k.plain, "f32"
	if l.MatrixInstrs > 0 {
		top, kind = k.tensor, "tensor cores"
	}
	once := 0 // bytes of all arrays
	for _, a := range args {
		if a.Array != nil {
			once += len(a.Array.Data)
		}
	}
	lo, hi := 0.01, 10000.0
	reach := func(x, top float64) float64 { return math.Min(x*k.bytes, top) / 1e12 }
	roof := func(name string, top float64) layoutviz.Series {
		xs := []float64{lo, top / k.bytes, hi}
		ys := make([]float64, len(xs))
		for i, x := range xs {
			ys[i] = reach(x, top)
		}
		return layoutviz.Series{Name: name, X: xs, Y: ys}
	}
	ch := layoutviz.Chart{Title: fmt.Sprintf("Roofline of an %s (%s)", k.gpu, l.Target), X: "operations for each byte of memory", Y: "10¹² operations a second, at most", LogX: true, LogY: true,
		Series: []layoutviz.Series{roof("f32", k.plain), roof("tensor cores, f16", k.tensor)}}
	if l.Flops == 0 {
		pic, err := layoutviz.Plot(ch, o)
		return pic, fmt.Sprintf("It computes nothing with floats, so that memory alone bounds it: %s.", bytesOf(l.Sectors*32)), err
	}
	clamp := func(x float64) float64 { return math.Max(lo, math.Min(hi, x)) }
	best := clamp(float64(l.Flops) / math.Max(1, float64(once)))
	worst := clamp(float64(l.Flops) / math.Max(1, float64(l.Sectors*32)))
	ch.Series = append(ch.Series,
		layoutviz.Series{Name: "every array moves once", Kind: "points", X: []float64{best}, Y: []float64{reach(best, top)}},
		layoutviz.Series{Name: "memory serves every access", Kind: "points", X: []float64{worst}, Y: []float64{reach(worst, top)}})
	pic, err := layoutviz.Plot(ch, o)
	bound := "memory bounds it"
	if best*k.bytes > top {
		bound = "the " + kind + " bound it"
		if kind == "f32" {
			bound = "f32 arithmetic bounds it"
		}
	}
	return pic, fmt.Sprintf("%.3g operations for each byte if every array moves once, %.3g if memory serves every access: on an %s, %s. The roof is the maker's (%s); the counts are of the simulator; nothing here was measured on a GPU.", best, worst, k.gpu, bound, k.source), err
}
