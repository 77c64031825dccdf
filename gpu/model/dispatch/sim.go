package dispatch

import (
	"fmt"
	"slices"
	"strings"
)

// Kernel is one launch of a kernel. All its blocks take the same ticks, unless
// Times says otherwise.
type Kernel struct {
	Name    string `json:"name"`
	Blocks  int    `json:"blocks"`
	Threads int    `json:"threads"` // work-items of a block
	Ticks   int    `json:"ticks"`   // that a block takes
	VGPRs   int    `json:"vgprs,omitempty"`
	LDS     int    `json:"lds,omitempty"` // bytes of a block
	Mask    Mask   `json:"mask,omitempty"`
	Times   []int  `json:"times,omitempty"` // ticks of block k at k modulo its length
	// Waits are the blocks that a block waits for once it runs: it keeps its place
	// until they have ended, and then works.
	Waits map[int][]int `json:"waits,omitempty"`
}

func (k *Kernel) ticks(block int) int {
	if len(k.Times) > 0 {
		return k.Times[block%len(k.Times)]
	}
	return k.Ticks
}

// Command is a packet as the packet processor sees it.
type Command struct {
	Type    Type     `json:"type,omitempty"` // zero means a kernel, or a barrier value where Cond is set
	Name    string   `json:"name,omitempty"`
	Kernel  *Kernel  `json:"kernel,omitempty"`
	Barrier bool     `json:"barrier,omitempty"` // all earlier packets of the queue must have completed
	Deps    []string `json:"deps,omitempty"`    // signals that barrier packets wait for
	Signal  string   `json:"signal,omitempty"`  // decremented on completion
	Arrive  int      `json:"arrive,omitempty"`  // the tick of the doorbell
	Cond    Cond     `json:"cond,omitempty"`    // of a barrier value on Deps[0]: (value & Mask) Cond Value
	Mask    int64    `json:"and,omitempty"`
	Value   int64    `json:"value,omitempty"`

	cause int // event that rang the doorbell, plus one
}

// Queue is an HSA queue that sits in a hardware queue of an ACE.
type Queue struct {
	Name     string    `json:"name"`
	ACE      int       `json:"ace"`
	Priority Priority  `json:"priority,omitempty"`
	Commands []Command `json:"commands"`
}

// Options switch variants of the rules.
type Options struct {
	Skip      bool `json:"skip,omitempty"`      // the dealer may skip an engine without room
	NoCut     bool `json:"no_cut,omitempty"`    // slots of a workload manager may not overtake each other
	WaveCap   bool `json:"wave_cap,omitempty"`  // at most 32 waves for each physical unit in flight
	PerDie    bool `json:"per_die,omitempty"`   // blocks are dealt to dies first
	Resources bool `json:"resources,omitempty"` // count waves, registers, LDS and groups, not only work-items
	// Events is how many events are kept; 0 means [DefaultEvents], negative none.
	Events int `json:"events,omitempty"`
}

// DefaultEvents is how many events a trace keeps.
const DefaultEvents = 200_000

// Scenario is what [Run] simulates. Signals are the values of signals at the
// start; those that are not listed have 1.
type Scenario struct {
	Machine Machine          `json:"machine,omitzero"`
	Options Options          `json:"options,omitzero"`
	Queues  []Queue          `json:"queues"`
	Signals map[string]int64 `json:"signals,omitempty"`

	before *story // what happened in software
}

// BlockRun is where and when a block ran; SE and CU are -1 and the ticks -1 if it
// did not.
type BlockRun struct {
	Dealt, Start, Finish int32
	SE, CU               int16
}

// KernelRun is what became of a command. Launch is the tick at which its packet was
// taken, Start that of its first block; -1 if it never came to that.
type KernelRun struct {
	Name    string     `json:"name"`
	Queue   string     `json:"queue"`
	ACE     int        `json:"ace"`
	Type    Type       `json:"type"`
	Arrive  int        `json:"arrive"`
	Launch  int        `json:"launch"`
	Start   int        `json:"start"`
	Finish  int        `json:"finish"`
	Blocks  []BlockRun `json:"-"`
	Kernel  *Kernel    `json:"kernel,omitempty"`
	Barrier bool       `json:"barrier"`

	at                int // index among the runs
	dealt, left       int
	lastDeal          int // event
	targets           []int
	need              need
	mask              Mask
	startEvents       map[int]int
	waiting           map[int]int   // block → how many blocks it waits for
	waiters           map[int][]int // block → who waits for it
	simds             [][]uint16
	signal            string
	deps              []string
	cond              Cond
	condMask, condVal int64
	cause, held       int
}

// Result is what happened.
type Result struct {
	Machine  Machine      `json:"machine"`
	Options  Options      `json:"options"`
	Ticks    int          `json:"ticks"` // when the last block ended
	Runs     []*KernelRun `json:"runs"`
	Events   []Event      `json:"-"`
	Cut      bool         `json:"cut,omitempty"`      // the trace does not keep all events
	Deadlock *Deadlock    `json:"deadlock,omitempty"` // why not everything ended
	Placed   int          `json:"placed"`             // blocks that ran
}

// Find returns the run of that name, or nil.
func (r *Result) Find(name string) *KernelRun {
	for _, k := range r.Runs {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// Deadlock says why nothing can happen any more. Waits are pairs of blocks of
// Kernel, the waiting one first, whose waiting breaks the rule: HSA guarantees
// progress only to blocks that wait for a lower flattened number.
type Deadlock struct {
	Tick   int      `json:"tick"`
	Kernel string   `json:"kernel,omitempty"`
	Waits  [][2]int `json:"waits,omitempty"`
	Why    string   `json:"why"`
}

// Run simulates a scenario.
//
// Rules (paper, where nothing else is said):
//
//   - R1: an ACE deals the blocks of one kernel, then takes its next packet, from
//     its queues in turn, one packet each (assumed). Block k goes to engine
//     E[k mod |E|], where E are the engines with a unit that the kernel may use
//     (leaving out the others is assumed).
//   - R2: block k+1 is not dealt before block k. A block needs the engine's slot
//     that belongs to this ACE to be empty.
//   - R3: a workload manager looks at its slots from its ACE cursor on, places the
//     first block that fits a unit, units from its cursor on, and moves both cursors
//     behind what they found. Without cutting it looks no further than the first
//     block that it has.
//   - R4: at a tick come all completions and arrivals, then rounds of one look of
//     every workload manager and one dealt block of every ACE, until nothing moves.
//   - R5: work-items limit a unit; with Resources also waves, registers, LDS and
//     the number of blocks.
//
// Packets of a queue launch in order (vendor): one with the barrier bit when all
// earlier ones have completed, barrier packets when their signals say so.
func Run(s Scenario) (*Result, error) {
	r, err := newSim(s)
	if err != nil {
		return nil, err
	}
	r.run()
	return r.result(), nil
}

type slot struct {
	run   *KernelRun // nil if empty
	block int
	deal  int // event
	told  bool
}

type wlm struct {
	slots     []slot
	cu, ace   int  // cursors
	quiet     bool // nothing changed since a look that placed nothing
	units     []unit
	lastEvent []int // of each unit: what freed room last
	emptied   []int // of each slot: the event that emptied it
}

type ace struct {
	queues []*hqd
	next   int        // queue whose turn it is
	run    *KernelRun // with blocks left to deal
	told   string     // why it stalls, as last said
}

type hqd struct {
	q          *Queue
	runs       []*KernelRun
	next       int // packet to take
	incomplete int // packets taken that have not completed
	lastDone   int // event of the last completion
	told       int // packet whose holding was said, plus one
}

type done struct {
	tick  int
	run   int
	block int
}

type sim struct {
	m        Machine
	o        Options
	now      int
	engines  []wlm
	aces     []ace
	queues   []*hqd
	byRun    []*hqd
	runs     []*KernelRun
	heap     []done
	waves    int // in flight
	maxWaves int
	signals  map[string]int64
	lastSig  map[string]int // event that changed it
	t        *story
	last     int
	placed   int
	dead     *Deadlock
}

func newSim(s Scenario) (*sim, error) {
	m := s.Machine.filled()
	if err := m.check(); err != nil {
		return nil, err
	}
	limit := s.Options.Events
	if limit == 0 {
		limit = DefaultEvents
	}
	r := &sim{m: m, o: s.Options, signals: map[string]int64{}, lastSig: map[string]int{}, t: s.before, maxWaves: 32 * m.Dies * m.SEs * m.CUs}
	if r.t == nil {
		r.t = newStory(limit)
	}
	for k, v := range s.Signals {
		r.signals[k] = v
	}
	r.engines = make([]wlm, m.Dies*m.SEs)
	for i := range r.engines {
		w := &r.engines[i]
		w.slots = make([]slot, m.ACEs)
		w.units = make([]unit, m.CUs)
		w.lastEvent, w.emptied = filledWith(m.CUs, -1), filledWith(m.ACEs, -1)
		for j := range w.units {
			w.units[j] = m.CU.empty()
		}
	}
	r.aces = make([]ace, m.ACEs)
	blocks := 0
	for i := range s.Queues {
		q := &s.Queues[i]
		if q.ACE < 0 || q.ACE >= m.ACEs {
			return nil, fmt.Errorf("dispatch: queue %q is on ACE %d; there are %d", q.Name, q.ACE, m.ACEs)
		}
		if _, err := ParsePriority(string(q.Priority)); err != nil {
			return nil, fmt.Errorf("dispatch: queue %q: %w", q.Name, err)
		}
		h := &hqd{q: q, lastDone: -1}
		for j := range q.Commands {
			run, err := r.newRun(q, &q.Commands[j])
			if err != nil {
				return nil, err
			}
			if run.Kernel != nil {
				blocks += run.Kernel.Blocks
			}
			if blocks > MaxBlocks || len(r.runs) > MaxKernels {
				return nil, fmt.Errorf("dispatch: more than %d blocks or %d packets", MaxBlocks, MaxKernels)
			}
			h.runs = append(h.runs, run)
			r.byRun = append(r.byRun, h)
		}
		r.queues = append(r.queues, h)
		r.aces[q.ACE].queues = append(r.aces[q.ACE].queues, h)
	}
	return r, nil
}

func filledWith(n, v int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// newRun checks a command.
func (r *sim) newRun(q *Queue, c *Command) (*KernelRun, error) {
	run := &KernelRun{Name: c.Name, Queue: q.Name, ACE: q.ACE, Type: c.Type, Arrive: c.Arrive, Launch: -1, Start: -1, Finish: -1,
		Kernel: c.Kernel, Barrier: c.Barrier, at: len(r.runs), lastDeal: -1, signal: c.Signal, deps: c.Deps,
		cond: c.Cond, condMask: c.Mask, condVal: c.Value, cause: c.cause - 1, held: -1}
	if c.Kernel != nil && run.Name == "" {
		run.Name = c.Kernel.Name
	}
	if run.Name == "" {
		run.Name = fmt.Sprintf("packet %d", len(r.runs))
	}
	if c.Type == VendorSpecific && c.Cond == "" {
		run.Type = KernelDispatch
	}
	r.runs = append(r.runs, run)
	if c.Arrive < 0 || c.Arrive > MaxTicks {
		return nil, fmt.Errorf("dispatch: %s arrives at tick %d; it must be 0 to %d", run.Name, c.Arrive, MaxTicks)
	}
	for _, d := range append([]string{c.Signal}, c.Deps...) {
		if _, ok := r.signals[d]; !ok && d != "" {
			r.signals[d] = 1
		}
	}
	switch run.Type {
	case BarrierAnd, BarrierOr:
		if len(c.Deps) > MaxDeps || c.Kernel != nil {
			return nil, fmt.Errorf("dispatch: %s: a barrier packet has no kernel and at most %d signals", run.Name, MaxDeps)
		}
		return run, nil
	case VendorSpecific:
		if len(c.Deps) != 1 || c.Kernel != nil {
			return nil, fmt.Errorf("dispatch: %s: a barrier value waits for one signal", run.Name)
		}
		if !c.Cond.known() {
			return nil, fmt.Errorf("dispatch: %s: no condition %q; there are eq, ne, lt, gte", run.Name, c.Cond)
		}
		return run, nil
	case KernelDispatch:
	default:
		return nil, fmt.Errorf("dispatch: %s: an ACE takes no %s packets", run.Name, run.Type)
	}
	k := c.Kernel
	switch {
	case k == nil:
		return nil, fmt.Errorf("dispatch: %s is a dispatch without a kernel", run.Name)
	case k.Blocks < 1 || k.Blocks > MaxBlocks:
		return nil, fmt.Errorf("dispatch: %s has %d blocks; it must have 1 to %d", run.Name, k.Blocks, MaxBlocks)
	case k.Threads < 1 || k.Threads > MaxThreads || k.VGPRs < 0 || k.LDS < 0:
		return nil, fmt.Errorf("dispatch: %s has blocks of %d work-items; there must be 1 to %d", run.Name, k.Threads, MaxThreads)
	case k.Ticks < 0 || k.Ticks > MaxTicks || k.Ticks == 0 && len(k.Times) == 0:
		return nil, fmt.Errorf("dispatch: blocks of %s take %d ticks; it must be 1 to %d", run.Name, k.Ticks, MaxTicks)
	}
	for _, t := range k.Times {
		if t < 1 || t > MaxTicks {
			return nil, fmt.Errorf("dispatch: a block of %s takes %d ticks; it must be 1 to %d", run.Name, t, MaxTicks)
		}
	}
	run.mask = k.Mask
	if run.mask == nil {
		run.mask = r.m.All()
	}
	if len(run.mask) != len(r.engines) {
		return nil, fmt.Errorf("dispatch: the mask of %s has %d shader engines; the machine has %d", run.Name, len(run.mask), len(r.engines))
	}
	run.targets = targets(r.m, r.o, run.mask)
	if len(run.targets) == 0 {
		return nil, fmt.Errorf("dispatch: the mask of %s allows no compute unit: its queue would hang", run.Name)
	}
	run.need = r.m.CU.need(k)
	if run.need.waves > 1<<10 && r.o.Resources {
		return nil, fmt.Errorf("dispatch: a block of %s has %d waves; the most is %d", run.Name, run.need.waves, 1<<10)
	}
	empty := r.m.CU.empty()
	if !empty.fits(run.need, r.o.Resources) {
		return nil, fmt.Errorf("dispatch: a block of %s does not fit an empty compute unit", run.Name)
	}
	run.left = k.Blocks
	run.Blocks = make([]BlockRun, k.Blocks)
	for i := range run.Blocks {
		run.Blocks[i] = BlockRun{-1, -1, -1, -1, -1}
	}
	if r.o.Resources {
		run.simds = make([][]uint16, k.Blocks)
	}
	if len(k.Waits) > 0 {
		run.waiting, run.waiters = map[int]int{}, map[int][]int{}
		for _, b := range sortedKeys(k.Waits) {
			for _, w := range k.Waits[b] {
				if b < 0 || w < 0 || b >= k.Blocks || w >= k.Blocks {
					return nil, fmt.Errorf("dispatch: block %d of %s waits for block %d; there are %d", b, run.Name, w, k.Blocks)
				}
				run.waiting[b]++
				run.waiters[w] = append(run.waiters[w], b)
			}
		}
	}
	run.startEvents = map[int]int{}
	return run, nil
}

func sortedKeys[V any](m map[int]V) []int {
	var out []int
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// targets are the engines that blocks are dealt to, in turn.
func targets(m Machine, o Options, mask Mask) []int {
	var dies [][]int
	longest := 1
	for d := range m.Dies {
		var in []int
		for s := range m.SEs {
			if mask[d*m.SEs+s]&(1<<m.CUs-1) != 0 {
				in = append(in, d*m.SEs+s)
			}
		}
		if in != nil {
			dies = append(dies, in)
			longest = lcm(longest, len(in))
		}
	}
	if !o.PerDie {
		return slices.Concat(dies...)
	}
	var out []int
	for i := range longest {
		for _, in := range dies {
			out = append(out, in[i%len(in)])
		}
	}
	if dies == nil {
		return nil
	}
	return out
}

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

func (r *sim) run() {
	for {
		r.completions()
		for {
			moved := false
			for e := range r.engines {
				if !r.engines[e].quiet && r.look(e) {
					moved = true
				}
			}
			for a := range r.aces {
				if r.step(a) {
					moved = true
				}
			}
			if !moved {
				break
			}
		}
		r.explain()
		next := -1
		if len(r.heap) > 0 {
			next = r.heap[0].tick
		}
		for _, h := range r.queues {
			if h.next < len(h.runs) {
				if t := h.runs[h.next].Arrive; t > r.now && (next < 0 || t < next) {
					next = t
				}
			}
		}
		if next < 0 {
			break
		}
		r.now = next
	}
	for _, run := range r.runs {
		if run.Finish < 0 {
			r.deadlock(run)
			return
		}
	}
}

// completions takes every block that ends now.
func (r *sim) completions() {
	for len(r.heap) > 0 && r.heap[0].tick == r.now {
		d := r.pop()
		run := r.runs[d.run]
		b := &run.Blocks[d.block]
		b.Finish = int32(r.now)
		w := &r.engines[b.SE]
		var simds []uint16
		if run.simds != nil {
			simds = run.simds[d.block]
		}
		w.units[b.CU].give(run.need, simds)
		w.quiet = false
		r.waves -= run.need.waves
		if r.o.WaveCap {
			for i := range r.engines {
				r.engines[i].quiet = false
			}
		}
		if r.t.on() {
			cause := startEvent(run, d.block)
			delete(run.startEvents, d.block)
			w.lastEvent[b.CU] = r.t.add(Event{Tick: r.now, Step: "finish", Actor: r.unitName(int(b.SE), int(b.CU)), Queue: run.Queue, Kernel: run.Name, Block: d.block,
				Cause: cause, Why: fmt.Sprintf("block %d of %s ends after %s", d.block, run.Name, plural(r.now-int(b.Start), "tick"))})
		}
		for _, waiter := range run.waiters[d.block] {
			if run.waiting[waiter]--; run.waiting[waiter] == 0 && run.Blocks[waiter].Start >= 0 {
				r.push(done{r.now + run.Kernel.ticks(waiter), d.run, waiter})
			}
		}
		run.left--
		if run.left == 0 {
			r.complete(run, w.lastEvent[b.CU])
		}
		r.last = r.now
	}
}

func startEvent(run *KernelRun, block int) int {
	if e, ok := run.startEvents[block]; ok {
		return e
	}
	return -1
}

// complete ends a packet.
func (r *sim) complete(run *KernelRun, cause int) {
	run.Finish = r.now
	h := r.byRun[run.at]
	h.incomplete--
	e := -1
	if r.t.on() {
		what := "all blocks of " + run.Name + " have ended"
		if run.Kernel == nil {
			what = run.Name + " is satisfied"
		}
		if run.signal != "" {
			what += fmt.Sprintf("; signal %s becomes %d", run.signal, r.signals[run.signal]-1)
		}
		e = r.t.add(Event{Tick: r.now, Step: "complete", Actor: fmt.Sprintf("ACE %d", run.ACE), Queue: run.Queue, Kernel: run.Name, Block: -1, Cause: cause, Why: what})
	}
	h.lastDone = e
	if run.signal != "" {
		r.signals[run.signal]--
		r.lastSig[run.signal] = e
	}
}

// look is one call of the workload manager of an engine (R3).
func (r *sim) look(e int) bool {
	w := &r.engines[e]
	for i := range w.slots {
		a := (w.ace + i) % len(w.slots)
		s := &w.slots[a]
		if s.run == nil {
			continue
		}
		if cu := r.room(e, s.run); cu >= 0 {
			r.place(e, a, cu)
			return true
		}
		if r.o.NoCut {
			break
		}
	}
	w.quiet = true
	return false
}

// room is a unit of an engine that has room for a block, or -1.
func (r *sim) room(e int, run *KernelRun) int {
	w := &r.engines[e]
	if r.o.WaveCap && r.waves+run.need.waves > r.maxWaves {
		return -1
	}
	for j := range w.units {
		cu := w.cu + j
		if cu >= len(w.units) {
			cu -= len(w.units)
		}
		if run.mask[e]>>cu&1 != 0 && w.units[cu].fits(run.need, r.o.Resources) {
			return cu
		}
	}
	return -1
}

func (r *sim) place(e, a, cu int) {
	w := &r.engines[e]
	s := w.slots[a]
	w.slots[a] = slot{}
	w.cu, w.ace = (cu+1)%len(w.units), (a+1)%len(w.slots)
	run := s.run
	simds := w.units[cu].take(run.need, r.o.Resources)
	if run.simds != nil {
		run.simds[s.block] = simds
	}
	r.waves += run.need.waves
	r.placed++
	b := &run.Blocks[s.block]
	b.Start, b.SE, b.CU = int32(r.now), int16(e), int16(cu)
	if run.Start < 0 {
		run.Start = r.now
	}
	if r.t.on() {
		cause, why := s.deal, fmt.Sprintf("block %d of %s fits unit %d", s.block, run.Name, cu)
		if w.lastEvent[cu] > cause {
			cause = w.lastEvent[cu]
			why = fmt.Sprintf("block %d of %s gets the room that was freed on unit %d", s.block, run.Name, cu)
		}
		ev := r.t.add(Event{Tick: r.now, Step: "start", Actor: r.unitName(e, cu), Queue: run.Queue, Kernel: run.Name, Block: s.block, Cause: cause, Why: why})
		run.startEvents[s.block] = ev
		w.emptied[a] = ev
		if n := run.waiting[s.block]; n > 0 {
			r.t.add(Event{Tick: r.now, Step: "spin", Actor: r.unitName(e, cu), Queue: run.Queue, Kernel: run.Name, Block: s.block, Cause: ev,
				Why: fmt.Sprintf("block %d of %s waits for %s", s.block, run.Name, blockList(run.Kernel.Waits[s.block]))})
		}
	}
	if run.waiting[s.block] == 0 {
		r.push(done{r.now + run.Kernel.ticks(s.block), run.at, s.block})
	}
}

func blockList(list []int) string {
	s := make([]string, len(list))
	for i, b := range list {
		s[i] = fmt.Sprintf("block %d", b)
	}
	return strings.Join(s, ", ")
}

// step lets an ACE take packets and deal at most one block (R1, R2).
func (r *sim) step(a int) bool {
	ac := &r.aces[a]
	moved := false
	for ac.run == nil {
		if !r.take(a) {
			return moved
		}
		moved = true
	}
	run := ac.run
	k := run.dealt
	to := -1
	n := len(run.targets)
	if r.o.Skip {
		for i := range n {
			if e := run.targets[(k+i)%n]; r.engines[e].slots[a].run == nil && r.room(e, run) >= 0 {
				to = e
				break
			}
		}
	} else if e := run.targets[k%n]; r.engines[e].slots[a].run == nil {
		to = e
	}
	if to < 0 {
		return moved
	}
	w := &r.engines[to]
	ev := -1
	if r.t.on() {
		cause := run.lastDeal
		if k == 0 {
			cause = run.held
		}
		why := fmt.Sprintf("block %d of %s is next and goes to SE %d", k, run.Name, to)
		if w.emptied[a] > cause {
			cause = w.emptied[a]
			why = fmt.Sprintf("SE %d's slot for ACE %d is empty again: block %d of %s goes there", to, a, k, run.Name)
		}
		ev = r.t.add(Event{Tick: r.now, Step: "deal", Actor: fmt.Sprintf("ACE %d", a), Queue: run.Queue, Kernel: run.Name, Block: k, Cause: cause, Why: why})
	}
	run.lastDeal = ev
	run.Blocks[k].Dealt = int32(r.now)
	run.Blocks[k].SE = int16(to)
	w.slots[a] = slot{run: run, block: k, deal: ev}
	w.quiet = false
	run.dealt++
	if run.dealt == run.Kernel.Blocks {
		ac.run = nil
	}
	return true
}

// take lets an ACE take the next packet of its queues: highest priority first
// (assumed), queues of one priority in turn.
func (r *sim) take(a int) bool {
	ac := &r.aces[a]
	best := -1
	for i := range ac.queues {
		j := (ac.next + i) % len(ac.queues)
		h := ac.queues[j]
		if !r.ready(h) {
			continue
		}
		if best < 0 || h.q.Priority.rank() > ac.queues[best].q.Priority.rank() {
			best = j
		}
	}
	if best < 0 {
		return false
	}
	h := ac.queues[best]
	ac.next = (best + 1) % len(ac.queues)
	run := h.runs[h.next]
	h.next++
	h.incomplete++
	run.Launch = r.now
	cause, why := run.cause, fmt.Sprintf("%s is the next packet of %s", run.Name, run.Queue)
	if run.Barrier && h.lastDone > cause {
		cause, why = h.lastDone, fmt.Sprintf("%s has the barrier bit, and all before it in %s have completed", run.Name, run.Queue)
	}
	for _, d := range run.deps {
		if e, ok := r.lastSig[d]; ok && e > cause {
			cause, why = e, fmt.Sprintf("signal %s lets %s pass", d, run.Name)
		}
	}
	step := "take"
	if run.Kernel == nil {
		step = "pass"
	}
	run.held = r.t.add(Event{Tick: r.now, Step: step, Actor: fmt.Sprintf("ACE %d", a), Queue: run.Queue, Kernel: run.Name, Block: -1, Cause: cause, Why: why})
	if run.Kernel == nil {
		run.Start = r.now
		r.complete(run, run.held)
		r.last = max(r.last, r.now)
		return true
	}
	ac.run = run
	return true
}

// ready says whether the next packet of a queue may launch.
func (r *sim) ready(h *hqd) bool { return h.next < len(h.runs) && r.blocked(h) == "" }

// blocked says why the next packet of a queue may not launch, or nothing.
func (r *sim) blocked(h *hqd) string {
	run := h.runs[h.next]
	switch {
	case run.Arrive > r.now:
		return "it has not arrived"
	case run.Barrier && h.incomplete > 0:
		return "it has the barrier bit, and a packet before it has not completed"
	}
	switch run.Type {
	case BarrierAnd:
		for _, d := range run.deps {
			if d != "" && r.signals[d] != 0 {
				return fmt.Sprintf("signal %s is %d, not 0", d, r.signals[d])
			}
		}
	case BarrierOr:
		for _, d := range run.deps {
			if d != "" && r.signals[d] == 0 {
				return ""
			}
		}
		return "none of its signals is 0"
	case VendorSpecific:
		if v := r.signals[run.deps[0]] & run.condMask; !run.cond.holds(v, run.condVal) {
			return fmt.Sprintf("signal %s gives %d, which is not %s %d", run.deps[0], v, run.cond, run.condVal)
		}
	}
	return ""
}

// explain says at the end of a tick who waits for what, once for each reason.
func (r *sim) explain() {
	if !r.t.on() {
		return
	}
	for e := range r.engines {
		w := &r.engines[e]
		for a := range w.slots {
			s := &w.slots[a]
			if s.run == nil || s.told {
				continue
			}
			s.told = true
			r.t.add(Event{Tick: r.now, Step: "park", Actor: fmt.Sprintf("SE %d WLM", e), Queue: s.run.Queue, Kernel: s.run.Name, Block: s.block, Cause: s.deal,
				Why: fmt.Sprintf("block %d of %s stays in slot ACE %d of SE %d: %s", s.block, s.run.Name, a, e, r.full(e, s.run))})
		}
	}
	for a := range r.aces {
		ac := &r.aces[a]
		if run := ac.run; run != nil {
			e := run.targets[run.dealt%len(run.targets)]
			s := r.engines[e].slots[a]
			why, cause := fmt.Sprintf("block %d of %s cannot be dealt: no engine has a free slot and room", run.dealt, run.Name), run.lastDeal
			if s.run != nil && !r.o.Skip {
				cause = s.deal
				why = fmt.Sprintf("block %d of %s must go to SE %d, whose slot for ACE %d holds block %d of %s: %s", run.dealt, run.Name, e, a, s.block, s.run.Name, r.full(e, s.run))
			}
			if key := fmt.Sprintf("%d %d", run.at, run.dealt); ac.told != key {
				ac.told = key
				r.t.add(Event{Tick: r.now, Step: "stall", Actor: fmt.Sprintf("ACE %d", a), Queue: run.Queue, Kernel: run.Name, Block: run.dealt, Cause: cause, Why: why})
			}
		}
		for _, h := range ac.queues {
			if h.next >= len(h.runs) || h.told == h.next+1 || h.runs[h.next].Arrive > r.now {
				continue
			}
			run := h.runs[h.next]
			why, cause := r.blocked(h), run.cause
			if why == "" {
				why = "its ACE deals another kernel"
				if ac.run != nil {
					why, cause = "its ACE still deals the blocks of "+ac.run.Name, ac.run.held
				}
			}
			h.told = h.next + 1
			r.t.add(Event{Tick: r.now, Step: "hold", Actor: fmt.Sprintf("ACE %d", a), Queue: h.q.Name, Kernel: run.Name, Block: -1, Cause: cause, Why: run.Name + " waits: " + why})
		}
	}
}

// full says why an engine has no room for a block of a kernel.
func (r *sim) full(e int, run *KernelRun) string {
	if r.o.WaveCap && r.waves+run.need.waves > r.maxWaves {
		return fmt.Sprintf("it needs %d waves, and %d of %d are in flight", run.need.waves, r.waves, r.maxWaves)
	}
	best := 0
	for cu := range r.engines[e].units {
		u := &r.engines[e].units[cu]
		if run.mask[e]>>cu&1 == 0 {
			continue
		}
		if u.fits(run.need, r.o.Resources) {
			return "another slot has the turn"
		}
		best = max(best, u.threads)
	}
	if r.o.Resources && best >= run.need.threads {
		return "no unit has the waves, registers, LDS or groups that it needs"
	}
	return fmt.Sprintf("it needs %d work-items, the emptiest unit has %d free", run.need.threads, best)
}

func (r *sim) deadlock(run *KernelRun) {
	d := &Deadlock{Tick: r.now, Kernel: run.Name, Why: run.Name + " never ends"}
	h := r.byRun[run.at]
	if run.Launch < 0 {
		d.Why = "no event is left and " + run.Name + " was not launched: " + r.blocked(h)
	}
	if run.Kernel != nil {
		for _, b := range sortedKeys(run.Kernel.Waits) {
			for _, w := range run.Kernel.Waits[b] {
				if run.Blocks[b].Start >= 0 && run.Blocks[b].Finish < 0 && w >= b {
					d.Waits = append(d.Waits, [2]int{b, w})
				}
			}
		}
		if len(d.Waits) > 0 {
			b, w := d.Waits[0][0], d.Waits[0][1]
			d.Why = fmt.Sprintf("no event is left: block %d of %s runs and waits for block %d", b, run.Name, w)
			switch {
			case w == b:
				d.Why += ", itself"
			case run.Blocks[w].Start < 0:
				d.Why += ", which has no place because block " + fmt.Sprint(b) + " keeps it"
			default:
				d.Why += ", which waits too"
			}
			d.Why += "; only waiting for a lower flattened number is safe"
		}
	}
	r.dead = d
	r.t.add(Event{Tick: r.now, Step: "deadlock", Actor: fmt.Sprintf("ACE %d", run.ACE), Queue: run.Queue, Kernel: run.Name, Block: -1, Cause: len(r.t.events) - 1, Why: d.Why})
}

func (r *sim) unitName(e, cu int) string { return fmt.Sprintf("SE %d CU %d", e, cu) }

func (r *sim) result() *Result {
	return &Result{Machine: r.m, Options: r.o, Ticks: r.last, Runs: r.runs, Events: r.t.events, Cut: r.t.cut, Deadlock: r.dead, Placed: r.placed}
}

func (d done) before(o done) bool {
	switch {
	case d.tick != o.tick:
		return d.tick < o.tick
	case d.run != o.run:
		return d.run < o.run
	}
	return d.block < o.block
}

// push and pop keep the next blocks to end as a binary heap.
func (r *sim) push(d done) {
	r.heap = append(r.heap, d)
	for i := len(r.heap) - 1; i > 0; {
		p := (i - 1) / 2
		if !r.heap[i].before(r.heap[p]) {
			break
		}
		r.heap[i], r.heap[p] = r.heap[p], r.heap[i]
		i = p
	}
}

func (r *sim) pop() done {
	top := r.heap[0]
	n := len(r.heap) - 1
	r.heap[0] = r.heap[n]
	r.heap = r.heap[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && r.heap[c+1].before(r.heap[c]) {
			c++
		}
		if !r.heap[c].before(r.heap[i]) {
			break
		}
		r.heap[i], r.heap[c] = r.heap[c], r.heap[i]
		i = c
	}
	return top
}
