package qmm

import (
	"context"
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// WideFrom is from how many rows of x on [Wide] and [Prefill] are worth timing.
const WideFrom = 32

// warpgroups is the target whose matrix instructions take operands from registers of
// warpgroups.
const warpgroups = "sm_90a"

// WideSchedule is the schedule of a product of m rows by [Wide] or [Prefill] on a GPU of
// sms multiprocessors, by reason alone: as many rows of x as fit, and for [Wide] k
// shared by blocks where there are too few outputs for all multiprocessors.
func (l Linear) WideSchedule(plan string, m, sms int) (template.WideSchedule, error) {
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return template.WideSchedule{}, err
	}
	s := template.WideSchedule{Rows: 8, Persistent: plan == Prefill}
	for s.Rows < min(m, p.Most(s)) {
		s.Rows *= 2
	}
	if s.Persistent && s.Rows >= 16 {
		s.Cluster = 2
	}
	s.Consumers = 2
	blocks := func() int {
		return (l.N + 64*p.Tiles*s.Consumers - 1) / (64 * p.Tiles * s.Consumers) * ((m + s.Rows - 1) / s.Rows)
	}
	if blocks() < sms/2 && !s.Persistent {
		s.Consumers = 1
	}
	if turns := (l.K + template.Turn - 1) / template.Turn; !s.Persistent && blocks() <= sms/2 && turns >= 8 {
		s.Splits = min(sms/blocks(), turns/4, template.MaxSplits)
		s.Rows = min(s.Rows, p.Most(s))
	}
	for s.Stages = 4; s.Stages > 2; s.Stages-- {
		if _, err := s.Filled(p); err == nil {
			break
		}
	}
	return s.Filled(p)
}

// wideCall is a product by warpgroups: two programs with their arguments.
type wideCall struct {
	arrange, multiply         *ir.Program
	arrangeArgs, multiplyArgs []ir.Arg
	x, sums, y                int // x, its sums and the result among the second's
	schedule                  template.WideSchedule
}

// wideCall prepares a product; x and its sums are still to be arranged.
func (l Linear) wideCall(plan string, w, scales, zeros, x *array.Array, c Call, one float64) (*wideCall, error) {
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil, err
	}
	m, sms := x.Shape[0], template.H200().SMs
	out := &wideCall{}
	if out.schedule, err = l.WideSchedule(plan, m, sms); err != nil {
		return nil, err
	}
	s := out.schedule
	s.AddBias, s.AddResidual = c.Bias != nil, c.Residual != nil
	if out.arrange, err = template.Arrange(l.Form()); err != nil {
		return nil, err
	}
	if out.multiply, err = template.Wide(l.Form(), s); err != nil {
		return nil, err
	}
	shape, of := p.Arranged(m, l.K)
	arranged := array.New(l.ActType, shape...)
	var sums *array.Array
	if p.Shifts() {
		sums = array.New(dtype.F32, of...)
	}
	out.arrangeArgs = sizes(arrays(x, arranged, sums), m, l.K)
	args := arrays(w, scales, zeros)
	out.x = len(args)
	args = append(args, arrays(arranged, sums)...)
	out.sums = len(args) - 1
	args = append(args, arrays(c.Bias, c.Residual)...)
	out.y = len(args)
	args = append(args, ir.Arg{Array: array.New(l.ActType, m, l.N)})
	if part, arrived := s.Workspace(p, m, l.N); s.Splits > 1 {
		args = append(args, arrays(array.New(dtype.F32, part...), array.New(dtype.I32, arrived))...)
	}
	args = sizes(args, m, l.N, l.K)
	if s.Persistent {
		args = sizes(args, sms/s.Cluster*s.Cluster)
	}
	if l.Factor {
		args = append(args, ir.Arg{Float: one})
	}
	out.multiplyArgs = args
	return out, nil
}

// run launches both programs.
func (w *wideCall) run(ctx context.Context, d device.Device) (y *array.Array, results []*device.Result, err error) {
	res, err := launch(ctx, d, w.arrange, w.arrangeArgs)
	if err != nil {
		return nil, nil, err
	}
	w.multiplyArgs[w.x].Array = res.Args[1].Array
	if w.sums > w.x {
		w.multiplyArgs[w.sums].Array = res.Args[2].Array
	}
	more, err := launch(ctx, d, w.multiply, w.multiplyArgs)
	if err != nil {
		return nil, nil, err
	}
	return more.Args[w.y].Array, []*device.Result{res, more}, nil
}

func (p *Packed) wide(ctx context.Context, d device.Device, x *array.Array, c Call, out *Result) error {
	w, err := p.wideCall(out.Plan, p.W, p.Scales, p.Zeros, x, c, p.One)
	if err != nil {
		return err
	}
	y, results, err := w.run(ctx, d)
	if err != nil {
		return err
	}
	for _, r := range results {
		out.count(r)
	}
	out.Y, out.Wide = y, w.schedule
	return nil
}

// TimeWide measures [Wide] or [Prefill]: the row's times are those of both launches.
func (b *Bench) TimeWide(ctx context.Context, l Linear, layer string, m int, plan string) (Row, error) {
	t, err := b.start(l, layer, m)
	if err != nil {
		return Row{}, err
	}
	row, l, p := t.best, t.l, t.p
	row.Plan, row.Tried = plan, 1
	x := t.common[len(t.common)-2].Array
	var zeros *array.Array
	if l.ZeroPoint {
		zeros = t.common[2].Array
	}
	w, err := l.wideCall(plan, t.common[0].Array, t.common[1].Array, zeros, x, Call{}, 1)
	if err != nil {
		return row, err
	}
	y, _, err := w.run(ctx, b.d)
	if err != nil {
		return row, err
	}
	if row.Error, err = l.sampled(p, t.common, y); err != nil {
		return row, err
	}
	if !(row.Error < worst(l.ActType)) {
		return row, fmt.Errorf("qmm: %s %s [%d, %d, %d] by %s: the relative error is %g", l.WeightType, layer, m, l.N, l.K, plan, row.Error)
	}
	one, err := b.clock(ctx, w.arrange, w.arrangeArgs, tune.Options{Replays: 7, WorkingSet: 1})
	if err != nil {
		return row, err
	}
	read, ok := b.reads[l.Bytes()]
	two, err := b.clock(ctx, w.multiply, w.multiplyArgs, tune.Options{Bytes: l.Bytes(), Replays: 7, Read: !ok})
	if err != nil {
		return row, err
	}
	if !ok {
		read = two.ReadUs
		b.reads[l.Bytes()] = read
	}
	two.ReadUs = read
	two.Median, two.Min, two.Max = one.Median+two.Median, one.Min+two.Min, one.Max+two.Max
	two.CompileMs, two.JITMs = one.CompileMs+two.CompileMs, one.JITMs+two.JITMs
	row.Row = b.origin.Row(w.arrange.Name+"+"+w.multiply.Name, tune.Hash(w.arrange, tune.Hash(w.multiply)), two, nil)
	return row, nil
}

// Plans are those that m rows of a layer may take on the bench's GPU.
func (b *Bench) Plans(l Linear, m int) []string {
	var out []string
	if m < 4*ExpandFrom {
		out = append(out, Decode)
	}
	if p, err := template.PlanOf(l.Form()); err == nil && b.origin.Target == warpgroups && p.Fits() >= WideFrom/2 {
		out = append(out, Wide)
		if m >= ExpandFrom {
			out = append(out, Prefill)
		}
	}
	if l.PlanFor(max(m, ExpandFrom), Call{}) == Expand && m >= ExpandFrom/2 {
		out = append(out, Expand)
	}
	return out
}
