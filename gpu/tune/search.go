package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cost"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Candidate is a schedule that a search may time.
type Candidate struct {
	Name     string
	Program  func() (*ir.Program, error)
	Kind     string  // of program, if there are several
	Fields   []int   // the numbers of the schedule, in one order for all of a kind
	Estimate float64 // µs, by the template's model; more than 0
	Blocks   int     // of the launch
	Together bool    // all blocks must run at the same time
	// Registers of a thread, as the template knows from what was compiled; 0 takes what
	// the lives of values in the code come to, which is more.
	Registers int
	// Trades says that warps give registers to others: a launch has as many for each thread
	// as a block of them may have.
	Trades bool
}

// Fits compiles a candidate for a GPU of sms multiprocessors, without a GPU, and says
// what it costs, and why it cannot run or must not; "" if it may.
func (c Candidate) Fits(target string, sms int) (cost.Launch, string) {
	on, err := arch.Lookup(target)
	if err != nil {
		return cost.Launch{}, err.Error()
	}
	p, err := c.Program()
	if err != nil {
		return cost.Launch{}, err.Error()
	}
	compiled, err := compile.Program(p, compile.Options{Arch: target})
	if err != nil {
		return cost.Launch{}, err.Error()
	}
	l := cost.Of(compiled.Func, on)
	if c.Registers > 0 {
		l.Registers = c.Registers
		if most := 65536 / l.Threads / 8 * 8; c.Trades {
			l.Registers = min(l.Registers, most)
		}
		l.Occupancy = on.Occupancy(l.Threads, l.Registers, l.Shared)
	}
	switch {
	case l.Registers >= on.MaxRegs:
		return l, fmt.Sprintf("about %d registers a thread, of %d", l.Registers, on.MaxRegs)
	case l.Shared > on.SM().Shared-on.SM().Reserved:
		return l, fmt.Sprintf("%d bytes of shared memory", l.Shared)
	case l.Occupancy.Blocks == 0:
		return l, "a block does not fit: " + l.Occupancy.Limit
	case c.Together && c.Blocks > l.Occupancy.Blocks*sms:
		return l, fmt.Sprintf("%d blocks that must run together, where %d fit", c.Blocks, l.Occupancy.Blocks*sms)
	}
	return l, ""
}

// Search says how to look for the fastest of candidates.
type Search struct {
	Target string // that they are compiled for
	SMs    int
	// Limit is how many are timed at most, Budget for how long; 0 is no bound. No candidate
	// is begun that would end behind the budget, if it took as long as the longest one but
	// the first, which also pays what is paid once.
	Limit  int
	Budget time.Duration
	// Now, if not nil, is the clock.
	Now func() time.Time
	// Time measures a candidate, in µs.
	Time func(ctx context.Context, c Candidate) (float64, error)
	// Ahead is for how many candidates at once, those that are likely to be timed next, it is
	// found out whether they fit; 0 is one. Ready, if not nil, then hears of those that do,
	// on goroutines of their own, before Time does.
	Ahead int
	Ready func(c Candidate)
	// Progress, if not nil, hears of each candidate that is timed or left out.
	Progress func(Step)
}

// Step is what a search did with a candidate.
type Step struct {
	Candidate Candidate
	Done, Of  int     // candidates that are timed or left out, of all
	Us        float64 // 0 for one that is left out
	Cost      cost.Launch
	Why       string // it was left out
	Best      float64
}

// doubt is how much faster than predicted, as a part, a candidate may be for each number
// by which it differs from the nearest timed one.
const doubt = 0.25

// End says why a search timed no more candidates.
type End string

const (
	EndDone  End = "done"  // none that is left might be faster
	EndLimit End = "limit" // as many were timed as may be
	EndTime  End = "time"  // the time was up, for the next one at least
)

// Outcome is what a search found.
type Outcome struct {
	Best  int // index of the fastest candidate
	Us    float64
	Timed int // candidates
	End   End
}

// fewOfMemory is how many schedules memory may be too small for, where it is for all so far: mostly what they multiply is too much.
const fewOfMemory = 3

// Best times candidates. After the first one, which is what is taken without a search, the next one is always that of the least time it might take: the model's, times
// what the model was wrong by on candidates like it, less the doubt. It ends where none
// might be faster than the best. The first is timed whatever the budget; one behind it that gives
// [ErrLate] ends the search, as the budget does.
func (s Search) Best(ctx context.Context, all []Candidate) (Outcome, error) {
	out := Outcome{Best: -1, Us: math.Inf(1), End: EndDone}
	now := s.Now
	if now == nil {
		now = time.Now
	}
	begin, longest := now(), time.Duration(0)
	done := make([]bool, len(all))
	might := make([]float64, len(all)) // ln of the least time that those not done might take
	var known []int                    // that were timed
	wrong := make([]float64, len(all)) // ln of measured over estimated, of those
	looks, why := map[int]*look{}, ""
	for n := 0; n < len(all); n++ {
		var rest []int
		for i, c := range all {
			if !done[i] {
				might[i] = math.Log(c.Estimate) + off(c, all, known, wrong)
				rest = append(rest, i)
			}
		}
		slices.SortStableFunc(rest, func(a, b int) int { return cmp.Compare(might[a], might[b]) })
		if n == 0 { // what is taken without a search
			i := slices.Index(rest, 0)
			copy(rest[1:], rest[:i])
			rest[0] = 0
		}
		next := rest[0]
		if out.Best >= 0 {
			if might[next] >= math.Log(out.Us) {
				break
			}
			if s.Limit > 0 && out.Timed >= s.Limit {
				out.End = EndLimit
				break
			}
			if s.Budget > 0 && now().Sub(begin)+longest > s.Budget {
				out.End = EndTime
				break
			}
		}
		if err := ctx.Err(); err != nil {
			return out, err
		}
		ahead := max(s.Ahead, 1)
		if s.Limit > 0 { // code of others would only be in the way of what comes behind this search
			ahead = min(ahead, s.Limit-out.Timed)
		}
		for _, i := range rest[:min(ahead, len(rest))] {
			if looks[i] == nil && (i == next || might[i] < math.Log(out.Us)) {
				looks[i] = s.look(all[i])
			}
		}
		c, at := all[next], now()
		done[next] = true
		<-looks[next].ready
		step := Step{Candidate: c, Done: n + 1, Of: len(all), Cost: looks[next].cost, Why: looks[next].why}
		if step.Why == "" {
			var err error
			if step.Us, err = s.Time(ctx, c); out.Best >= 0 && errors.Is(err, ErrLate) {
				out.End = EndTime
				break
			}
			var of interface{ OutOfMemory() bool }
			switch {
			case errors.As(err, &of) && of.OutOfMemory() && (out.Best >= 0 || n < fewOfMemory-1): // others may take less
				step.Us, step.Why = 0, "the GPU has too little memory left: "+err.Error()
			case err != nil:
				return out, fmt.Errorf("tune: %s: %w", c.Name, err)
			default:
				out.Timed++
				known = append(known, next)
				wrong[next] = math.Log(step.Us / c.Estimate)
				if step.Us < out.Us {
					out.Best, out.Us = next, step.Us
				}
			}
		}
		if out.Timed > 1 {
			longest = max(longest, now().Sub(at))
		}
		step.Best, why = out.Us, step.Why
		if s.Progress != nil {
			s.Progress(step)
		}
	}
	if out.Best < 0 {
		return out, fmt.Errorf("tune: none of %d schedules can run; the last one: %s", len(all), why)
	}
	return out, nil
}

// look is what is found out of a candidate before it is timed.
type look struct {
	ready chan struct{}
	cost  cost.Launch
	why   string
}

// look begins to find out whether a candidate fits.
func (s Search) look(c Candidate) *look {
	l := &look{ready: make(chan struct{})}
	go func() {
		defer close(l.ready)
		if l.cost, l.why = c.Fits(s.Target, s.SMs); l.why == "" && s.Ready != nil {
			s.Ready(c)
		}
	}()
	return l
}

// off is what ln of the model's time might be wrong by for a candidate: the mean over
// timed ones of its kind, those weighing most that differ in the fewest numbers, less the doubt. Of another
// kind they say nothing, since each has a model of its own: what is left is a doubt.
func off(c Candidate, all []Candidate, known []int, wrong []float64) float64 {
	sum, weights, nearest := 0.0, 0.0, len(c.Fields)
	for _, k := range known {
		if all[k].Kind != c.Kind {
			continue
		}
		differ := 0
		for f, v := range c.Fields {
			if f < len(all[k].Fields) && v != all[k].Fields[f] {
				differ++
			}
		}
		nearest = min(nearest, differ)
		w := math.Pow(1+float64(differ), -2)
		sum, weights = sum+w*wrong[k], weights+w
	}
	switch {
	case weights > 0:
		return sum/weights - doubt*float64(nearest)
	case len(known) > 0:
		return -doubt
	}
	return 0
}
