package qmm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/cache"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Problem names all that the time of m rows depends on beside the machine: what types of
// a width that are stored alike share, so that one of them is timed for all.
func (l Linear) Problem(m int) (string, error) {
	l = l.typed()
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return "", err
	}
	if err := checkRows(m); err != nil {
		return "", err
	}
	return l.problem(l.searched(p, m)), nil
}

// searched is what a search for m rows finds an entry of: from [WideFrom] on for all numbers of rows up to the
// next power of two.
func (l Linear) searched(p *template.Plan, m int) Tuned {
	k := l.key(p, m)
	for m >= WideFrom && k.Rows < m {
		k.Rows *= 2
	}
	return k
}

// problem is Problem with a key of the layer's.
func (l Linear) problem(k Tuned) string {
	casts := k.Casts
	if casts != "" {
		casts = " " + casts
	}
	if p, err := template.PlanOf(l.Form()); err == nil && (p.Folds || k.Rows > template.FoldFrom && l.folds()) {
		casts += " folded"
		if p.Rounded {
			casts += " rounded"
		}
	}
	return fmt.Sprintf("%d bits, %d tiles, act=%s scale=%s group=%d%s, %d rows, %d×%d", k.Bits, k.Tiles, k.Act, l.ScaleType, l.Group, casts, k.Rows, k.N, k.K)
}

// quick is how much code, by [template.Plan.Code], a schedule may have for others to be timed
// in the meantime, and least how many are timed, if there are so many, whatever their code.
const (
	quick = 1800
	least = 6
)

// Wanted are those of some plans that somebody wants, or all if he names none.
func Wanted(names, plans []string) ([]string, error) {
	if len(names) == 0 {
		return plans, nil
	}
	for _, name := range names {
		if err := checkPlan(name); err != nil {
			return nil, err
		}
	}
	out := slices.DeleteFunc(slices.Clone(plans), func(plan string) bool { return !slices.Contains(names, plan) })
	if len(out) == 0 {
		return nil, fmt.Errorf("qmm: so many rows take none of the plans %v, but %v", names, plans)
	}
	return out, nil
}

// Candidates are what a search for the fastest choice takes into account: what an H200 takes without one,
// and of the plans that it may be what the models know to fit; of [Decode], whose schedules are many, if drivers make
// their code quickly. Fewer than [WideFrom] rows take Decode alone.
func (l Linear) Candidates(m int, plans []string) ([]tune.Candidate, []Choice, error) {
	return l.candidatesOn(warpgroups, m, plans)
}

// candidatesOn is Candidates of a search on a GPU of a target: the first is what that takes.
func (l Linear) candidatesOn(target string, m int, plans []string) ([]tune.Candidate, []Choice, error) {
	l, err := l.Check()
	if err != nil {
		return nil, nil, err
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil, nil, err
	}
	switch {
	case len(plans) == 0:
		plans = l.Usual().Plans(m)
	case m < WideFrom:
		if _, err := Wanted(plans, []string{Decode}); err != nil {
			return nil, nil, err
		}
	}
	if m < WideFrom {
		plans = []string{Decode}
	}
	first := l.Usual().PlanFor(m, Call{})
	if !slices.Contains(plans, first) {
		first = plans[0]
	}
	var all []Choice
	for _, plan := range plans {
		some, err := l.candidates(p, plan, m, target)
		if err != nil {
			return nil, nil, err
		}
		if plan == first {
			all = slices.Concat(some, all)
		} else {
			all = append(all, some...)
		}
	}
	if len(plans) > 1 {
		slices.SortStableFunc(all[min(1, len(all)):], func(a, b Choice) int { return cmp.Compare(a.estimate(l, p, m), b.estimate(l, p, m)) })
	}
	out := make([]tune.Candidate, len(all))
	for i, c := range all {
		out[i] = l.candidate(p, c, m)
	}
	return out, all, nil
}

// candidates are those of a plan, first what a GPU of a target takes without a search.
func (l Linear) candidates(p *template.Plan, plan string, m int, target string) ([]Choice, error) {
	if plan != Decode {
		return l.Choices(plan, m, math.MaxInt)
	}
	chosen, err := l.chosenOn(target, m)
	if err != nil {
		return nil, err
	}
	all := []Choice{{Plan: plan, Schedule: chosen}}
	longest := max(p.Code(chosen), quick)
	for _, s := range template.Candidates(p, m, l.N, l.K, template.H200()) {
		if s != chosen && (p.Code(s) <= longest || len(all) < least) {
			all = append(all, Choice{Plan: plan, Schedule: s})
		}
	}
	return all, nil
}

// candidate is a choice for m rows as a search takes it.
func (l Linear) candidate(p *template.Plan, c Choice, m int) tune.Candidate {
	out := tune.Candidate{
		Name: c.String(),
		Kind: c.Plan,
		Program: func() (*ir.Program, error) {
			all, err := c.programs(l, m)
			if err != nil {
				return nil, err
			}
			return all[len(all)-1], nil
		},
		Fields:   fieldsOf(c),
		Estimate: c.estimate(l, p, m),
	}
	switch s := c.Schedule; c.Plan {
	case Decode:
		outputs := p.Outputs() * s.Warps * s.Sides
		out.Blocks = (l.N + outputs - 1) / outputs * ((m + s.Rows - 1) / s.Rows) * s.Splits
		if s.Streams() && !s.Joint {
			out.Blocks = s.Blocks
		}
		out.Together, out.Registers, out.Trades = s.Splits > 1 && s.Parts <= 1 && !s.Joint, p.Registers(s), s.Warpgroups
	case Wide, Prefill:
		out.Registers, out.Trades = c.Wide.Registers(), true
	case Expand: // whose product's warpgroups trade too
		out.Registers, out.Trades = template.WideSchedule{Consumers: 2}.Registers(), true
	}
	return out
}

// fieldsOf are the numbers by which choices of a plan differ.
func fieldsOf(c Choice) []int {
	flag := func(on bool) int {
		if on {
			return 1
		}
		return 0
	}
	switch c.Plan {
	case Decode:
		s := c.Schedule
		return []int{s.Rows, s.Depth, s.Warps, max(s.Parts, 1), s.Sides, s.Splits, s.Stages, s.Blocks, flag(s.Digits), flag(s.Long), flag(s.Apart), flag(s.Warpgroups), flag(s.Fine), flag(s.Once), flag(s.Joint), s.Resident, flag(s.Direct), s.Early}
	case Wide, Prefill:
		s := c.Wide
		return []int{s.Rows, s.Consumers, s.Sides, s.Parts, s.Stages, s.Cluster, s.Splits, s.Blocks, flag(s.Fine), flag(s.Whole), flag(s.Once), flag(s.Joint), flag(s.Staged), flag(s.Folded)}
	}
	return nil
}

// TuneOptions say how to look for a plan and its schedule.
type TuneOptions struct {
	Store    *tune.Store     // keeps the result, if not nil
	Limit    int             // choices timed; 0 is no bound
	Budget   time.Duration   // for all of it; 0 is no bound
	Plans    []string        // to search among, of those that may be; all if there are none
	Progress func(tune.Step) // hears of each choice, if not nil
}

// Tune looks for the fastest plan and schedule of a product of m rows, or one nearly as fast whose program
// is shorter, and keeps it in the store for all types of the width that are stored alike, unless the
// time was up after a few ([Row.Few]): then what is chosen without a search is as good. With
// a budget the read kernel is not timed, see [Bench.Read].
func (b *Bench) Tune(ctx context.Context, l Linear, layer string, m int, o TuneOptions) (Row, error) {
	begin := time.Now()
	t, err := b.about(l, layer, m)
	if err != nil {
		return Row{}, err
	}
	plans, err := Wanted(o.Plans, b.Plans(t.l, m))
	if err != nil {
		return Row{}, err
	}
	candidates, choices, err := t.l.candidatesOn(b.origin.Target, m, plans)
	if err != nil {
		return Row{}, err
	}
	defer b.forget()
	t.begin(choices[0]) // while operands are drawn
	if err := t.draw(ctx); err != nil {
		return Row{}, err
	}
	by := map[string]Choice{}
	for i, c := range candidates {
		by[c.Name] = choices[i]
	}
	t.spent, t.quick = &tune.Spent{}, o.Budget > 0
	s := tune.Search{Target: b.origin.Target, SMs: template.H200().SMs, Limit: o.Limit, Budget: o.Budget, Progress: o.Progress,
		Time: func(ctx context.Context, c tune.Candidate) (float64, error) {
			took, err := t.time(ctx, by[c.Name])
			return took.Median, err
		}}
	if o.Budget > 0 { // keeping the result takes time too
		left := o.Budget - o.Budget/12
		s.Budget, t.until = max(left-time.Since(begin), 1), begin.Add(left)
	}
	if b.g != nil {
		s.SMs, s.Ahead = b.g.SMs, atOnce
		s.Ready = func(c tune.Candidate) { t.begin(by[c.Name]) }
	}
	out, err := s.Best(ctx, candidates)
	t.best.End = out.End
	if o.Budget > 0 {
		t.best.Spent = t.spent
	}
	if err != nil || o.Store == nil || t.best.Few() {
		return t.best, err
	}
	key, best := t.l.searched(t.p, m), t.best.Choice()
	code, err := best.code(t.l, key.Rows, b.origin.Target)
	if err != nil {
		return t.best, err
	}
	data, err := json.Marshal(best)
	if err != nil {
		return t.best, fmt.Errorf("qmm: %w", err)
	}
	return t.best, o.Store.Put(tune.Found{GPU: b.origin.GPU, Driver: tune.DriverOf(b.origin.Driver), Problem: t.l.problem(key), Code: code, Build: cache.Build(), Type: t.l.WeightType.String(),
		Schedule: data, Us: t.best.MedianUs, Tried: out.Timed, Written: time.Now().UTC().Format(time.RFC3339)})
}

// ChooseOn is how a call's product of m rows is multiplied on a device, and where that is from: "call" or "soon"
// if the call says it, "store" if a search on this GPU and driver found it and its code is still the code that was
// timed, else "table" or "model". A store that cannot be read costs speed at most, and where it is from says why.
func (l Linear) ChooseOn(store *tune.Store, on device.Info, m int, c Call) (Choice, string, error) {
	l, err := l.Check()
	if err != nil {
		return Choice{}, "", err
	}
	return l.chooseOn(store, on, m, c, l.choice)
}

// chooseOn is ChooseOn; choose is [Linear.choice], or what remembers it.
func (l Linear) chooseOn(store *tune.Store, on device.Info, m int, c Call, choose func(m int, c Call) (Choice, string, error)) (Choice, string, error) {
	if err := checkRows(m); err != nil {
		return Choice{}, "", err
	}
	switch {
	case c.Schedule != nil && (c.Plan == "" || c.Plan == Decode):
		return Choice{Plan: Decode, Schedule: *c.Schedule}, "call", nil
	case c.Soon:
		p, err := template.PlanOf(l.Form())
		if err != nil {
			return Choice{}, "", err
		}
		return Choice{Plan: Decode, Schedule: p.Soon()}, "soon", nil
	case c.Plan == "" && on.Arch != "" && on.Arch != warpgroups:
		c.Plan = Decode
	}
	target, no := arch.Lookup(on.Arch) // the interpreter has none, and runs all
	var lost error
	if no != nil || target.Capability() >= 90 {
		found, ok, err := l.stored(store, on, m, c)
		if ok {
			return found, "store", nil
		}
		lost = err
	}
	out, from, err := choose(m, c)
	if err == nil && out.Plan == Decode && no == nil && !runs(target, out.Schedule) {
		from = "model"
		out.Schedule, err = l.ChoosePlain(m)
	}
	if lost != nil {
		from = fmt.Sprintf("%s (%v)", from, lost)
	}
	return out, from, err
}

// chosenOn is what a GPU of a target takes of [Decode] without a search.
func (l Linear) chosenOn(target string, m int) (template.Schedule, error) {
	c, _, err := l.ChooseOn(nil, device.Info{Arch: target}, m, Call{Plan: Decode})
	return c.Schedule, err
}

// runs reports whether all GPUs that a target is for run a schedule of [Decode]. Products of warpgroups are of one target; tensor copies and
// clusters are taken where a target is of one GPU too: before sm_90 there are none, and sm_90 is for all later GPUs, which have less
// shared memory than stages may take.
func runs(target arch.Arch, s template.Schedule) bool {
	return target.Name == warpgroups || s.Plain() || strings.HasSuffix(target.Name, "a") && !s.Warpgroups
}

// choice is what a call of m rows takes on an H200 without a search, and where that is from, "table" or "model".
func (l Linear) choice(m int, c Call) (Choice, string, error) {
	plan := l.PlanFor(m, c)
	if plan == Decode {
		s, from, err := l.choose(m)
		return Choice{Plan: plan, Schedule: s}, from, err
	}
	if plan == Wide || plan == Prefill {
		all, from, err := l.wideSchedules(plan, m, 0)
		if err != nil {
			return Choice{}, "", err
		}
		return Choice{Plan: plan, Wide: all[0]}, from, nil
	}
	all, err := l.Choices(plan, m, 0)
	if err != nil {
		return Choice{}, "", err
	}
	return all[0], "model", nil
}

// stored is what a search on the device found for a call, if it did.
func (l Linear) stored(store *tune.Store, on device.Info, m int, c Call) (Choice, bool, error) {
	if store == nil || on.Driver == "" {
		return Choice{}, false, nil
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return Choice{}, false, err
	}
	_, _, own, err := l.tabled(p, m)
	if err != nil {
		return Choice{}, false, err
	}
	keys := []Tuned{l.searched(p, m)}
	if !own {
		keys = keys[0].inherited()
	}
	plans := []string{c.Plan}
	if c.Plan == "" {
		plans = l.callPlans(m, c)
	}
	for _, k := range keys {
		found, ok, err := store.Get(on.Title, tune.DriverOf(on.Driver), l.problem(k))
		if err != nil {
			return Choice{}, false, err
		}
		if !ok {
			continue
		}
		if out, ok := l.holds(store, found, k.Rows, on.Arch); ok && slices.Contains(plans, out.Plan) && out.takes(l, p, m) {
			return out, true, nil
		}
	}
	return Choice{}, false, nil
}

// refused are results of stores whose code this executable makes otherwise for a form, which takes some ms to find out.
var refused sync.Map

// refusal is what that depends on: problems leave out what a time hardly depends on, such as a factor, and code does not.
type refusal struct {
	problem, code, target string
	form                  template.Form
}

// holds reports whether the code of a choice for the type that was timed, with so many rows, is still what
// was timed, and gives the choice. What this executable found, or found to hold, holds.
func (l Linear) holds(store *tune.Store, found tune.Found, m int, target string) (Choice, bool) {
	var c Choice
	if json.Unmarshal(found.Schedule, &c) != nil {
		return c, false
	}
	build := cache.Build()
	if build != "" && found.Build == build {
		return c, true
	}
	about := refusal{found.Problem, found.Code, target, l.Form()}
	if _, known := refused.Load(about); known {
		return c, false
	}
	of, err := Parse(found.Type, l.N, l.K)
	if err != nil {
		return c, false
	}
	timed := l
	timed.WeightType = of.WeightType
	if l.Form().Exact {
		timed.ScaleBits = 1 // exact for either type: how many bits that takes is the type's own
	}
	code, err := c.code(timed, m, target)
	if err != nil || code != found.Code {
		refused.Store(about, true)
		return c, false
	}
	renewed := found
	renewed.Build = build
	store.Renew(found, renewed) // without it the next process finds out again
	return c, true
}
