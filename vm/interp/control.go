package interp

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// strand is one set of threads on its way through the program: the whole block, or
// a thread group. A strand that has let groups run waits for them.
type strand struct {
	frames   []frame
	base     int // frames of what is around the group
	set      int16
	parent   int
	children int // groups it waits for
	blocked  bool
	stuck    stuck
	dead     bool
}

// setOf is the number of a set of threads in the machine's list; 0 is the block.
func (m *Machine) setOf(t ir.Threads) int16 {
	i := slices.Index(m.sets, t)
	if i < 0 {
		i = len(m.sets)
		m.sets = append(m.sets, t)
	}
	return int16(i)
}

// running is the number of the set of threads that runs.
func (m *Machine) running() int16 {
	if len(m.strands) == 0 {
		return 0
	}
	return m.strands[m.cur].set
}

// Threads are the threads of the block that run the next statement.
func (m *Machine) Threads() ir.Threads { return m.sets[m.running()] }

// thread is the number in the block of thread t of the running set.
func (m *Machine) thread(t int) int {
	if t < 0 {
		return t
	}
	return t + m.sets[m.running()].Begin
}

// enterGroups starts a group, and the ones directly behind it that have other
// threads, and lets the strand wait for them.
func (m *Machine) enterGroups(first *ir.Group) {
	if len(m.strands) == 0 {
		m.strands, m.cur = []strand{{parent: -1}}, 0
	}
	f := &m.frames[len(m.frames)-1]
	groups := []*ir.Group{first}
	for ; f.pc < len(f.block.Stmts); f.pc++ {
		g, ok := f.block.Stmts[f.pc].(*ir.Group)
		if !ok || slices.ContainsFunc(groups, func(o *ir.Group) bool { return o.Begin < g.Begin+g.Size && g.Begin < o.Begin+o.Size }) {
			break
		}
		groups = append(groups, g)
	}
	parent, around := m.cur, m.sets[m.running()]
	m.strands[parent].frames = m.frames
	for _, g := range groups {
		if len(g.Body.Stmts) > 0 {
			frames := append(slices.Clone(m.frames), frame{block: g.Body})
			m.strands = append(m.strands, strand{frames: frames, base: len(m.frames), set: m.setOf(around.Of(g)), parent: parent})
			m.strands[parent].children++
		}
	}
	if n := m.strands[parent].children; n > 0 {
		m.cur = len(m.strands) - n
		m.frames = m.strands[m.cur].frames
	}
}

// base is how many frames are around the running strand.
func (m *Machine) base() int {
	if len(m.strands) == 0 {
		return 0
	}
	return m.strands[m.cur].base
}

// endStrand ends a group; the strand around it goes on after the last one.
func (m *Machine) endStrand() {
	m.strands[m.cur].dead = true
	parent := m.strands[m.cur].parent
	if m.strands[parent].children--; m.strands[parent].children == 0 {
		m.cur = parent
		m.frames = m.strands[parent].frames
		if live := slices.IndexFunc(m.strands[parent+1:], func(s strand) bool { return !s.dead }); live < 0 {
			m.strands = m.strands[:parent+1]
		}
		return
	}
	m.turn(false)
}

// turn lets the next strand that can run have a step.
func (m *Machine) turn(save bool) {
	if len(m.strands) < 2 {
		return
	}
	if save {
		m.strands[m.cur].frames = m.frames
	}
	for range m.strands {
		m.cur = (m.cur + 1) % len(m.strands)
		if s := &m.strands[m.cur]; !s.dead && s.children == 0 {
			m.frames = s.frames
			return
		}
	}
}

// wait lets the running strand come to its statement again, later; alone reports
// that no other strand can make what it waits for.
func (m *Machine) wait() (alone bool) {
	m.waited = true
	m.frames[len(m.frames)-1].pc--
	if len(m.strands) > 0 {
		m.strands[m.cur].blocked = true
		if slices.ContainsFunc(m.strands, func(s strand) bool { return !s.dead && s.children == 0 && !s.blocked }) {
			return false
		}
	}
	m.idle = true
	return m.othersIdle()
}

// stuck is what a set of threads waits for, and since which statement.
type stuck struct {
	since int64
	why   func() error
}

// waitFor is [Machine.wait] with the reason. Where nobody can go on it is the reason of
// those that have waited longest: what the others wait for is theirs to give.
func (m *Machine) waitFor(why func() error) error {
	mine := &m.stuck
	first := !m.idle
	if len(m.strands) > 0 {
		mine, first = &m.strands[m.cur].stuck, !m.strands[m.cur].blocked
	}
	if first {
		*mine = stuck{m.steps, why}
	}
	if !m.wait() {
		return nil
	}
	oldest := *mine
	look := func(s stuck, waits bool) {
		if waits && s.why != nil && s.since < oldest.since {
			oldest = s
		}
	}
	for _, s := range m.strands {
		look(s.stuck, s.blocked && !s.dead)
	}
	for r, p := range m.cluster {
		if r == m.rank || p.done {
			continue
		}
		look(p.stuck, len(p.strands) == 0)
		for _, s := range p.strands {
			look(s.stuck, s.blocked && !s.dead)
		}
	}
	return oldest.why()
}

// leaveLoop ends the innermost loop, or its present turn.
func (m *Machine) leaveLoop(turn bool) {
	for {
		f := &m.frames[len(m.frames)-1]
		if turn && f.loop != nil {
			f.pc = len(f.block.Stmts)
			return
		}
		loop := f.loop != nil
		m.pop()
		if loop {
			return
		}
	}
}

// pop leaves the innermost block of statements.
func (m *Machine) pop() {
	if err := m.leave(len(m.frames)); err != nil && m.fault == nil {
		m.fault = err
	}
	m.frames = m.frames[:len(m.frames)-1]
}

// endBlock ends the program for the running block of the grid.
func (m *Machine) endBlock() {
	for len(m.frames) > 0 && m.fault == nil {
		m.pop()
	}
}

// checkAssumed checks what a program assumes of its parameters wherever it goes:
// no machine starts what breaks that.
func checkAssumed(p *ir.Program, lookup func(*ir.Var) (int64, bool)) error {
	for _, s := range p.Body.Stmts {
		if a, ok := s.(*ir.Assume); ok {
			known := true
			ir.Refs(a.Cond, func(r *ir.Ref) { known = known && r.Var.Param })
			if known {
				if err := assumed(a, lookup); err != nil {
					return err
				}
			}
		}
		ends := false
		(&ir.Block{Stmts: []ir.Stmt{s}}).Walk(func(s ir.Stmt) bool {
			_, ret := s.(*ir.Return)
			ends = ends || ret
			return true
		})
		if ends {
			break
		}
	}
	return nil
}

func (m *Machine) assume(s *ir.Assume) error { return assumed(s, m.lookup) }

func assumed(s *ir.Assume, lookup func(*ir.Var) (int64, bool)) error {
	holds, err := ir.EvalInt(s.Cond, lookup)
	if err != nil {
		return located(err)
	}
	if holds != 0 {
		return nil
	}
	return problem(s.Pos, "Run.E13", "lowered code relies on it: call the program with other arguments, or do not assume it", "%s does not hold", s.Cond)
}
