package qmm

import (
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// WideFrom is from how many rows of x on products may take another plan than [Decode].
const WideFrom = 17

// warpgroups is the target whose matrix instructions take operands from registers of
// warpgroups.
const warpgroups = "sm_90a"

// WideSchedule is the schedule of a product of m rows by [Wide] or [Prefill] on an H200:
// the first of [Linear.WideSchedules].
func (l Linear) WideSchedule(plan string, m int) (template.WideSchedule, error) {
	all, err := l.WideSchedules(plan, m, 0)
	if err != nil {
		return template.WideSchedule{}, err
	}
	return all[0], nil
}

// WideSchedules are what is worth timing for a product of m rows by [Wide] or [Prefill]:
// the table's, unless it is of other groups or zero points and the model of an H200 expects its own best to
// take less than [better] of it; else that one; then tries others.
func (l Linear) WideSchedules(plan string, m, tries int) ([]template.WideSchedule, error) {
	all, _, err := l.wideSchedules(plan, m, tries)
	return all, err
}

// wideSchedules also says where the first is from, "table" or "model".
func (l Linear) wideSchedules(plan string, m, tries int) ([]template.WideSchedule, string, error) {
	if err := checkRows(m); err != nil {
		return nil, "", err
	}
	if plan != Wide && plan != Prefill {
		return nil, "", fmt.Errorf("qmm: no schedules of plan %q; there are those of %s and %s", plan, Wide, Prefill)
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil, "", err
	}
	var out []template.WideSchedule
	from := "model"
	s, tabled := l.tunedWide(p, m)
	if tabled = tabled && plan == Wide; tabled {
		s, err = s.Filled(p)
		tabled = err == nil // else groups or zero points are not those that it was timed with
	}
	if usual := l.usual(p, false); tabled && usual {
		out, from = append(out, s), "table"
		if tries == 0 {
			return out, from, nil
		}
	}
	on := template.H200()
	all := template.WideCandidates(p, m, l.N, l.K, plan == Prefill, l.folds(), on)
	if tabled && len(out) == 0 && (len(all) == 0 || p.EstimateWide(all[0], m, l.N, l.K, on) > better*p.EstimateWide(s, m, l.N, l.K, on)) {
		out, from = append(out, s), "table"
	}
	if len(all)+len(out) == 0 {
		return nil, "", fmt.Errorf("qmm: plan %s has no schedule for %s", plan, l)
	}
	type like struct {
		consumers, sides, parts, splits, blocks int
		once, folded                            bool
	}
	seen := map[like]int{}
	for _, s := range all {
		if len(out) > 0 && s == out[0] {
			continue
		}
		key := like{s.Consumers, s.Sides, s.Parts, s.Splits, s.Blocks, s.Once, s.Folded}
		if seen[key] < 2 && len(out) <= tries {
			seen[key]++
			out = append(out, s)
		}
	}
	return out, from, nil
}

// plain reports whether products may have plain weights of the type of the activations: it holds the layer's as they are, or they may be
// rounded.
func (l Linear) plain() bool { return l.Form().Expands(l.ScaleBits) || l.Rounded }

// folds reports whether products may have schedules that are Folded: the type of the activations holds the weights as they are, or
// they may be rounded, and scales are within the bounds of [template.Plan.Folding].
func (l Linear) folds() bool {
	return (l.ScaleBits > 0 || l.Rounded) && !l.Far && l.plain() && l.folding() != nil
}

// foldsBy reports whether they may have this one: its blocks have few enough k for one sum.
func (l Linear) foldsBy(s template.WideSchedule) bool {
	return l.folds() && s.OneSum(l.K) <= template.MostFolded
}

// folding is the layer's [template.Plan.Folding].
func (l Linear) folding() *template.Plan {
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil
	}
	return p.Folding()
}

// unfolded is the layer without schedules that are Folded: for who takes other scales too.
func (l Linear) unfolded() Linear {
	l.Far = l.Far || l.folding() != nil
	return l
}

// mostBlocks is how many blocks can share all turns of m rows.
func (l Linear) mostBlocks(p *template.Plan, s template.WideSchedule, m int) int {
	_, tiles := s.Workspace(p, m, l.N)
	return tiles * ((l.K + template.Turn - 1) / template.Turn)
}

// wideCall is a product by warpgroups: two programs with their arguments.
type wideCall struct {
	arrange, multiply         device.Recipe
	arrangeArgs, multiplyArgs []ir.Arg
	x, sums, y                int // x, its sums and the result among the second's
	schedule                  template.WideSchedule
}

// wideCall prepares a product by a schedule; x and its sums are still to be arranged.
// Programs come from those made before, if there are some.
func (l Linear) wideCall(made *programs, s template.WideSchedule, w, scales, zeros, x *array.Array, c Call, one float64) (*wideCall, error) {
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil, err
	}
	m, sms := x.Shape[0], template.H200().SMs
	s.AddBias, s.AddResidual = c.Bias != nil, c.Residual != nil
	if s, err = s.Filled(p); err != nil {
		return nil, err
	}
	switch sum := s.OneSum(l.K); {
	case s.Folded && !l.folds():
		return nil, fmt.Errorf("qmm: folded scales for %s [%d, %d]: its weights are not known to be numbers of %s, or some scales are too large for it; leave Folded out", l, l.N, l.K, l.ActType)
	case s.Folded && sum > template.MostFolded:
		splits := ""
		if !s.Persistent && s.Blocks == 0 {
			splits = fmt.Sprintf(", or take %d Splits", (l.K+template.MostFolded-1)/template.MostFolded)
		}
		return nil, fmt.Errorf("qmm: folded scales for %s [%d, %d]: sums of %d inputs may be less exact than in f32, and %d are the most; leave Folded out%s", l, l.N, l.K, sum, template.MostFolded, splits)
	}
	part, arrived := s.Workspace(p, m, l.N)
	if s.Shares() {
		if err := fitting(sumsOfBlocks, dtype.F32, part); err != nil {
			return nil, err
		}
	}
	if turns := l.mostBlocks(p, s, m); s.Blocks > turns {
		return nil, fmt.Errorf("qmm: %d blocks share the %d turns of %d rows of x and weights [%d, %d]; take at most %d Blocks", s.Blocks, turns, m, l.N, l.K, turns)
	}
	out := &wideCall{schedule: s}
	summed := s.Sums(p)
	out.arrange = l.recipe(made, fmt.Sprintf("arrange %t", summed), func() (*ir.Program, error) { return template.Arrange(l.Form(), s) })
	out.multiply = l.recipe(made, s, func() (*ir.Program, error) { return template.Wide(l.Form(), s) })
	shape, of := p.Arranged(m, l.K) // of whole turns of k, so that a small K makes it much larger than x
	if err := fitting(xInOrder, l.ActType, shape); err != nil {
		return nil, err
	}
	arranged := blank(l.ActType, shape...)
	var sums *array.Array
	if summed {
		if err := fitting(sumsOfX, dtype.F32, of); err != nil {
			return nil, err
		}
		sums = blank(dtype.F32, of...)
	}
	out.arrangeArgs = sizes(arrays(x, arranged, sums), m, l.K)
	args := arrays(w, scales, zeros)
	out.x = len(args)
	args = append(args, arrays(arranged, sums)...)
	out.sums = len(args) - 1
	args = append(args, arrays(c.Bias, c.Residual)...)
	out.y = len(args)
	args = append(args, ir.Arg{Array: blank(l.ActType, m, l.N)})
	if s.Shares() {
		args = append(args, arrays(blank(dtype.F32, part...), blank(dtype.I32, arrived))...)
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

// programs are both.
func (w *wideCall) programs() (arrange, multiply *ir.Program, err error) {
	if arrange, err = w.arrange.Make(); err == nil {
		multiply, err = w.multiply.Make()
	}
	return arrange, multiply, err
}

func (p *Packed) wide(x *array.Array, c Call, s template.WideSchedule, out *Result) (*steps, error) {
	w, err := p.wideCall(&p.programs, s, p.W, p.Scales, p.Zeros, x, c, p.One)
	if err != nil {
		return nil, err
	}
	out.Wide = w.schedule
	return &steps{
		recipes: []device.Recipe{w.arrange, w.multiply},
		args:    [][]ir.Arg{w.arrangeArgs, w.multiplyArgs},
		pass: []func([]ir.Arg){func(made []ir.Arg) {
			w.multiplyArgs[w.x].Array = made[1].Array
			if w.sums > w.x {
				w.multiplyArgs[w.sums].Array = made[2].Array
			}
		}},
		x: &w.arrangeArgs[0],
		y: w.y,
	}, nil
}

// Plans are those of [Linear.Plans] that the bench's GPU runs, for scales as quantised layers
// have them ([Linear.Usual]): those that the bench draws.
func (b *Bench) Plans(l Linear, m int) []string { return b.runs(l.Usual().Plans(m)) }

// Named are those of [Linear.Named] that the bench's GPU runs.
func (b *Bench) Named(l Linear, m int) []string { return b.runs(l.Named(m)) }

// Choices are [Linear.Choices] of the bench's GPU: first what it takes without a search, then others that it runs.
func (b *Bench) Choices(l Linear, plan string, m, tries int) ([]Choice, error) {
	if b.origin.Target == warpgroups || plan != Decode {
		return l.Choices(plan, m, tries)
	}
	on, err := arch.Lookup(b.origin.Target)
	if err != nil {
		return nil, err
	}
	first, err := l.chosenOn(on.Name, m)
	if err != nil {
		return nil, err
	}
	all, err := l.Choices(plan, m, math.MaxInt)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(c Choice) bool { return c.Schedule == first || !runs(on, c.Schedule) })
	return append([]Choice{{Plan: plan, Schedule: first}}, all[:min(tries, len(all))]...), nil
}

func (b *Bench) runs(plans []string) []string {
	if b.origin.Target != warpgroups {
		return []string{Decode}
	}
	return plans
}
