package sim

import (
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Stepper is a launch under control: the threads wait at each of the function's stops
// until they are let go. Blocks, or clusters, run one after the other. Between stops
// all warps run as in [Run], with the same checks; the order in which they come to a
// stop is one of those that a machine could have.
type Stepper struct {
	m      *machine
	r      runner
	blocks []*block // that run
	front  []*warp  // that stand at the stop of Stop
	done   bool
}

// NewStepper makes a launch ready and runs to its first stop.
func NewStepper(f *code.Func, l Launch, opt Options) (*Stepper, error) {
	m, err := newMachine(f, l, opt)
	if err != nil {
		return nil, err
	}
	s := &Stepper{m: m, r: m.runner()}
	switch r := s.r.(type) {
	case *block:
		s.blocks = []*block{r}
	case *cluster:
		s.blocks = r.blocks
	}
	if s.begin() {
		err = s.advance()
	}
	return s, err
}

// Done reports that all blocks have ended.
func (s *Stepper) Done() bool { return s.done }

// Stop is the number of the stop at which the launch stands, -1 at the end.
func (s *Stepper) Stop() int {
	if len(s.front) == 0 {
		return -1
	}
	return int(s.front[0].at().target)
}

// Block is the block that stands there, [x, y, z].
func (s *Stepper) Block() [3]int {
	if len(s.front) == 0 {
		return [3]int{}
	}
	at := s.front[0].b.ctaid
	return [3]int{int(at[0]), int(at[1]), int(at[2])}
}

// Value is what a thread of the block that stands at the stop holds of a value that
// the stop keeps.
func (s *Stepper) Value(v code.Value, thread int) uint64 {
	w := s.front[0].b.warps[thread/lanes]
	return w.regs[int(s.m.prog.of[v])*lanes+thread%lanes]
}

// Step lets the threads that stand at the stop go on, until others or they stand at
// one again. Its error is what the program did wrong; the launch is then over.
func (s *Stepper) Step() error {
	if s.done {
		return nil
	}
	for _, w := range s.front {
		w.stopped = false
		w.pc++
	}
	return s.advance()
}

// begin starts the next block or cluster; it reports whether there is one.
func (s *Stepper) begin() bool {
	n := s.m.next.Add(1) - 1
	s.front = nil
	if s.done = n >= s.m.run; s.done {
		return false
	}
	switch r := s.r.(type) {
	case *block:
		r.start(s.m.unit(n))
	case *cluster:
		r.start(s.m.unit(n))
	}
	return true
}

func (s *Stepper) advance() error {
	for {
		over, p := s.settle()
		if p != nil {
			s.done, s.front = true, nil
			return diag.List{*p}
		}
		if !over || !s.begin() {
			return nil
		}
	}
}

// settle runs every warp that can run until all stand at stops or wait, and chooses
// who is next; over reports that the blocks have ended.
func (s *Stepper) settle() (over bool, p *diag.Problem) {
	c, _ := s.r.(*cluster)
	landed := false
	for {
		running, moved := false, false
		var polling *warp
		if c != nil {
			c.polled = false
		}
		for _, b := range s.blocks {
			for _, w := range b.warps {
				if w.done || w.stopped || w.barrier >= 0 {
					continue
				}
				before := w.steps
				w.waits = false
				w.run(quantum)
				if b.err != nil {
					return false, b.err
				}
				moved = moved || w.steps != before || w.done || w.stopped
				switch {
				case w.done, w.stopped, w.barrier >= 0:
				case w.waits:
					polling = w
				default:
					running = true
				}
			}
			if c != nil {
				if p := c.ended(b); p != nil {
					return false, p
				}
			}
		}
		switch {
		case running && c != nil && c.polled:
			if _, p := c.landOne(); p != nil {
				return false, p
			}
			continue
		case running || moved && polling != nil || c != nil && moved:
			continue
		case c != nil && c.release(), c == nil && s.blocks[0].releaseGroups():
			continue
		}
		if group := s.next(); group != nil {
			// Who asks in a loop whether a copy has come must be told so one day.
			if c != nil && c.polled && !landed {
				some, p := c.landOne()
				if p != nil {
					return false, p
				}
				if landed = true; some {
					continue
				}
			}
			s.front = group
			return false, nil
		}
		switch {
		case c != nil:
			some, p := c.landOne()
			if p != nil {
				return false, p
			}
			if !some {
				return true, c.stuck()
			}
		case polling != nil:
			return false, s.blocks[0].nobodyWrites(polling)
		default:
			if done, p := s.blocks[0].release(); done {
				return true, p
			}
		}
	}
}

// next chooses a stop at which all threads that come to it stand: those of the block
// that ran last take turns, then come other blocks. Where threads are missing
// everywhere, the first stop is taken.
func (s *Stepper) next() []*warp {
	var groups, whole [][]*warp
	for _, b := range s.blocks {
		for _, w := range b.warps {
			if !w.stopped {
				continue
			}
			known := false
			for i, g := range groups {
				if g[0].b == b && g[0].pc == w.pc {
					groups[i], known = append(g, w), true
				}
			}
			if !known {
				groups = append(groups, []*warp{w})
			}
		}
	}
	for _, g := range groups {
		if s.whole(g) {
			whole = append(whole, g)
		}
	}
	if len(whole) == 0 {
		whole = groups
	}
	if len(whole) == 0 {
		return nil
	}
	if len(s.front) > 0 {
		last := s.front[0]
		for _, behind := range []bool{true, false} {
			for _, g := range whole {
				if g[0].b == last.b && (!behind || g[0].id > last.id) {
					return g
				}
			}
		}
		for _, g := range whole {
			if g[0].b.rank > last.b.rank {
				return g
			}
		}
	}
	return whole[0]
}

// whole reports that no thread is missing at the stop of some warps.
func (s *Stepper) whole(at []*warp) bool {
	stop := s.m.f.Stops[at[0].at().target]
	for _, w := range at[0].b.warps[stop.First/lanes : (stop.First+stop.Threads+lanes-1)/lanes] {
		if !w.done && (!w.stopped || w.pc != at[0].pc) {
			return false
		}
	}
	return true
}
