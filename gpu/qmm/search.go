package qmm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/cache"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Problem names all that a schedule's time depends on beside the machine: what types of
// a width that are stored alike share, so that one of them is timed for all.
func (l Linear) Problem(m int) (string, error) {
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return "", err
	}
	return l.problem(l.key(p, m)), nil
}

// problem is Problem with a key of the layer's.
func (l Linear) problem(k Tuned) string {
	casts := k.Casts
	if casts != "" {
		casts = " " + casts
	}
	return fmt.Sprintf("decode %d bits, %d tiles, act=%s scale=%s group=%d%s, %d rows, %d×%d", k.Bits, k.Tiles, k.Act, l.ScaleType, l.Group, casts, k.Rows, k.N, k.K)
}

// quick is how much code, by [template.Plan.Code], a schedule may have for others to be timed
// in the meantime, and least how many are timed, if there are so many, whatever their code.
const (
	quick = 1800
	least = 6
)

// Candidates are the schedules that a search for the fastest one takes into account: the
// one that [Linear.Choose] gives, and those that the model knows to fit, if drivers make
// their code quickly.
func (l Linear) Candidates(m int) ([]tune.Candidate, []template.Schedule, error) {
	l, err := l.Check()
	if err != nil {
		return nil, nil, err
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil, nil, err
	}
	chosen, err := l.Choose(m)
	if err != nil {
		return nil, nil, err
	}
	on := template.H200()
	all := []template.Schedule{chosen}
	longest := max(p.Code(chosen), quick)
	for _, s := range template.Candidates(p, m, l.N, l.K, on) {
		if s != chosen && (p.Code(s) <= longest || len(all) < least) {
			all = append(all, s)
		}
	}
	out := make([]tune.Candidate, len(all))
	for i, s := range all {
		outputs := p.Outputs() * s.Warps * s.Sides
		blocks := (l.N + outputs - 1) / outputs * ((m + s.Rows - 1) / s.Rows) * s.Splits
		if s.Streams() && !s.Joint {
			blocks = s.Blocks
		}
		out[i] = tune.Candidate{
			Name:     s.String(),
			Program:  func() (*ir.Program, error) { return template.Decode(l.Form(), s) },
			Fields:   fieldsOf(s),
			Estimate: p.Estimate(s, m, l.N, l.K, on),
			Blocks:   blocks,
			Together: s.Splits > 1 && s.Parts <= 1 && !s.Joint, Registers: p.Registers(s), Trades: s.Warpgroups,
		}
	}
	return out, all, nil
}

// fieldsOf are the numbers by which schedules differ.
func fieldsOf(s template.Schedule) []int {
	flag := func(on bool) int {
		if on {
			return 1
		}
		return 0
	}
	return []int{s.Rows, s.Depth, s.Warps, max(s.Parts, 1), s.Sides, s.Splits, s.Stages, s.Blocks, flag(s.Digits), flag(s.Long), flag(s.Warpgroups), flag(s.Fine), flag(s.Once), flag(s.Joint), s.Resident}
}

// TuneOptions say how to look for a schedule.
type TuneOptions struct {
	Store    *tune.Store     // keeps the result, if not nil
	Limit    int             // schedules timed; 0 is no bound
	Budget   time.Duration   // for all of it; 0 is no bound
	Progress func(tune.Step) // hears of each schedule, if not nil
}

// Tune looks for the fastest schedule of a product of m rows, or one nearly as fast whose program
// is shorter, and keeps it in the store for all types of the width that are stored alike, unless the
// time was up after a few schedules ([Row.Few]): then what is chosen without a search is as good. With
// a budget the read kernel is not timed, see [Bench.Read].
func (b *Bench) Tune(ctx context.Context, l Linear, layer string, m int, o TuneOptions) (Row, error) {
	begin := time.Now()
	t, err := b.about(l, layer, m)
	if err != nil {
		return Row{}, err
	}
	candidates, schedules, err := t.l.Candidates(m)
	if err != nil {
		return Row{}, err
	}
	defer b.forget()
	t.begin(schedules[0]) // while operands are drawn
	if err := t.draw(ctx); err != nil {
		return Row{}, err
	}
	by := map[string]template.Schedule{}
	for i, c := range candidates {
		by[c.Name] = schedules[i]
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
	problem, err := t.l.Problem(m)
	if err != nil {
		return t.best, err
	}
	program, err := template.Decode(t.l.Form(), t.best.Schedule)
	if err != nil {
		return t.best, err
	}
	code, err := tune.CodeOf(program, b.origin.Target)
	if err != nil {
		return t.best, err
	}
	data, err := json.Marshal(t.best.Schedule)
	if err != nil {
		return t.best, fmt.Errorf("qmm: %w", err)
	}
	return t.best, o.Store.Put(tune.Found{GPU: b.origin.GPU, Driver: tune.DriverOf(b.origin.Driver), Problem: problem, Code: code, Build: cache.Build(), Type: t.l.WeightType.String(),
		Schedule: data, Us: t.best.MedianUs, Tried: out.Timed, Written: time.Now().UTC().Format(time.RFC3339)})
}

// ChooseOn is the schedule of a product of m rows on a device, and where it is from:
// "store" if a search on this GPU and driver found it and its code is still the code
// that was timed, else as by [Linear.Choose], "table" or "model".
func (l Linear) ChooseOn(store *tune.Store, on device.Info, m int) (template.Schedule, string, error) {
	l, err := l.Check()
	if err != nil {
		return template.Schedule{}, "", err
	}
	var sm int
	n, _ := fmt.Sscanf(on.Arch, "sm_%d", &sm)
	if n == 1 && sm < 90 {
		s, err := l.ChoosePlain(m)
		return s, "model", err
	}
	s, from, err := l.choose(m)
	if err == nil && n == 1 && sm > 90 && s.Warpgroups { // later GPUs have other ones
		s, err = l.ChoosePlain(m)
		return s, "model", err
	}
	if store == nil || on.Driver == "" || err != nil {
		return s, from, err
	}
	plan, err := template.PlanOf(l.Form())
	if err != nil {
		return template.Schedule{}, "", err
	}
	_, _, own, err := l.tabled(plan, m)
	if err != nil {
		return template.Schedule{}, "", err
	}
	keys := []Tuned{l.key(plan, m)}
	if keys[0].Casts == signOff && !own {
		keys = keys[0].orWidth()
	}
	for _, k := range keys {
		found, ok, err := store.Get(on.Title, tune.DriverOf(on.Driver), l.problem(k))
		if err != nil {
			return template.Schedule{}, "", err
		}
		if ok {
			if s, ok := l.holds(store, found, on.Arch); ok && s.Takes(plan, l.N, l.K) {
				return s, "store", nil
			}
		}
	}
	return s, from, nil
}

// holds reports whether the code of a schedule for the type that was timed is still what
// was timed, and gives the schedule. What this executable found, or found to hold, holds.
func (l Linear) holds(store *tune.Store, found tune.Found, target string) (template.Schedule, bool) {
	var s template.Schedule
	if json.Unmarshal(found.Schedule, &s) != nil {
		return s, false
	}
	build := cache.Build()
	if build != "" && found.Build == build {
		return s, true
	}
	of, err := Parse(found.Type, l.N, l.K)
	if err != nil {
		return s, false
	}
	form := l.Form()
	form.Weight = of.WeightType
	program, err := template.Decode(form, s)
	if err != nil {
		return s, false
	}
	code, err := tune.CodeOf(program, target)
	if err != nil || code != found.Code {
		return s, false
	}
	found.Build = build
	store.Put(found) // without it the next process finds out again
	return s, true
}
