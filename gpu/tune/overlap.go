package tune

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// waiting is where a program says that the next launch may begin, and waits for those in front.
type waiting struct {
	early bool // the launch may begin before the one in front of it has ended: it waits itself
	last  bool // it waits at its end only: what it does comes before
	asks  bool // for the next launch, before its own end
	first bool // it waits before it asks
}

func waitingOf(p *ir.Program) (w waiting) {
	p.Body.Walk(func(s ir.Stmt) bool {
		in, ok := s.(*ir.Instr)
		if !ok {
			return true
		}
		switch in.Op.Name {
		case "GridDependencyWait":
			w.early, w.last = true, in.Attr("blocks") != nil
		case "GridDependencyLaunch":
			w.asks, w.first = true, w.early
		}
		return true
	})
	return w
}

// ended is how many of the launches in front of launch i have surely ended when it begins. Each
// ends after those in front of it: it waits for them, or begins when they have ended.
func ended(all []waiting, i int) int {
	switch {
	case i == 0 || !all[i].early || !all[i-1].asks:
		return i
	case all[i-1].first:
		return i - 1
	}
	return ended(all, i-1) // it may begin as early as the one in front of it did
}

// touched is memory that a launch uses, and how.
type touched struct {
	at  any // tells memories apart
	use use
}

// clash finds launches, one behind the other, of which one stores beside another that uses the
// same memory, or uses what the other stores: of those that wait at their end only. Others do not
// store before they wait.
func clash(programs []*ir.Program, memory [][]touched) error {
	all := make([]waiting, len(programs))
	for i, p := range programs {
		all[i] = waitingOf(p)
	}
	for i, w := range all {
		if !w.last {
			continue
		}
		for j := ended(all, i); j < i; j++ {
			for a, x := range memory[i] {
				for b, y := range memory[j] {
					if x.at == y.at && (x.use|y.use)&writes != 0 && x.use != 0 && y.use != 0 {
						return fmt.Errorf("tune: launch %d, %s, uses %s before it waits for launch %d, %s, which has the same memory as %s; give them memory in turns", i, programs[i].Name, programs[i].Params[a].Name, j, programs[j].Name, programs[j].Params[b].Name)
					}
				}
			}
		}
	}
	return nil
}

// Overlap says whether launches, one behind the other, can run as early as they may begin
// (GridDependencyWait, GridDependencyLaunch): the error is of one that stores, before it waits, what
// another in front of it may still use. Memories are told apart by their arrays.
func Overlap(launches []Launch) error {
	var programs []*ir.Program
	var memory [][]touched
	for _, l := range launches {
		if len(l.Args) != len(l.Program.Params) {
			return fmt.Errorf("tune: %s takes %d arguments, %d are given", l.Program.Name, len(l.Program.Params), len(l.Args))
		}
		programs = append(programs, l.Program)
		memory = append(memory, touches(l.Program, func(param int) any { return l.Args[param].Array }))
	}
	return clash(programs, memory)
}

// touches is what a program does with its parameters' memory; scalars have none.
func touches(p *ir.Program, at func(param int) any) []touched {
	out := make([]touched, len(p.Params))
	for i, u := range uses(p) {
		if p.Params[i].Type.Kind == ir.Pointer {
			out[i] = touched{at(i), u}
		}
	}
	return out
}

// overlaps is [Overlap] of the launches that are timed: of a whole round and the next.
func (r *run) overlaps() error {
	if !slices.ContainsFunc(append(r.before[:len(r.before):len(r.before)], r), func(x *run) bool { return waitingOf(x.p).last }) {
		return nil
	}
	var programs []*ir.Program
	var memory [][]touched
	for i := range 2 * max(r.t.Sets, 1) {
		for _, x := range append(r.before[:len(r.before):len(r.before)], r) {
			programs = append(programs, x.p)
			memory = append(memory, touches(x.p, func(param int) any { return r.buffers[x.buffer[param]].at(i) }))
		}
	}
	return clash(programs, memory)
}
