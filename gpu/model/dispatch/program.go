package dispatch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Stream is a HIP stream.
type Stream struct {
	Name        string   `json:"name"`
	Priority    Priority `json:"priority,omitempty"`
	Mask        string   `json:"mask,omitempty"` // of compute units, hexadecimal, as HIP takes it
	Cooperative bool     `json:"cooperative,omitempty"`
}

// Launch is a kernel put into a stream at a tick. After names launches of any
// stream that must have ended, as hipStreamWaitEvent does.
type Launch struct {
	Stream string   `json:"stream"`
	At     int      `json:"at,omitempty"`
	After  []string `json:"after,omitempty"`
	Kernel
}

// Program is what a process asks for. It is also the form of scenario files.
type Program struct {
	Title    string   `json:"title,omitempty"`
	Machine  Machine  `json:"machine,omitzero"`
	Options  Options  `json:"options,omitzero"`
	Policy   Policy   `json:"policy,omitempty"`        // newest if empty
	MaxHW    int      `json:"max_hw_queues,omitempty"` // of a priority
	Global   string   `json:"global_mask,omitempty"`
	Streams  []Stream `json:"streams,omitempty"` // those that are not listed are normal
	Launches []Launch `json:"launches"`
}

// MaxProgramBytes is the largest scenario file.
const MaxProgramBytes = 1 << 20

// ReadProgram reads a scenario file: a [Program] as JSON, without unknown names.
func ReadProgram(r io.Reader) (Program, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxProgramBytes+1))
	if err != nil {
		return Program{}, err
	}
	if len(raw) > MaxProgramBytes {
		return Program{}, fmt.Errorf("dispatch: a scenario of more than %d bytes", MaxProgramBytes)
	}
	var p Program
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return Program{}, fmt.Errorf("dispatch: scenario: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Program{}, errors.New("dispatch: scenario: there is more behind its end")
	}
	return p, nil
}

// Handles that packets of a program carry: made-up addresses that can be told apart.
const (
	kernelBase = 0x7f0000100000 // kernel descriptors, 64 bytes apart
	argsBase   = 0x7f0000200000
	signalBase = 0x7f0000300000
)

// Lower does what HIP, ROCclr and ROCR do with a program: streams get queues of the
// pool, launches become packets that go through a ring, and the packet processor
// reads them again, bytes and all. Queues are put on ACEs in turn (assumed: the
// firmware decides). What happened stands at the beginning of the trace.
func (p Program) Lower() (Scenario, error) {
	policy, err := ParsePolicy(string(p.Policy))
	if err != nil {
		return Scenario{}, err
	}
	m := p.Machine.filled()
	if err := m.check(); err != nil {
		return Scenario{}, err
	}
	if len(p.Launches) == 0 || len(p.Launches) > MaxKernels {
		return Scenario{}, fmt.Errorf("dispatch: a program of %d launches; there must be 1 to %d", len(p.Launches), MaxKernels)
	}
	if p.MaxHW < 0 {
		return Scenario{}, fmt.Errorf("dispatch: %d hardware queues; there must be 1 or more, or 0 for %d", p.MaxHW, MaxHWQueues)
	}
	l := &lowering{p: p, m: m, policy: policy, pool: NewPool(policy, p.MaxHW), t: newStory(cmp.Or(p.Options.Events, DefaultEvents)),
		masks: map[string]Mask{}, queues: map[*PoolQueue]*lowered{}, names: map[string]uint64{}}
	if err := l.streams(); err != nil {
		return Scenario{}, err
	}
	if err := l.launches(); err != nil {
		return Scenario{}, err
	}
	out := Scenario{Machine: p.Machine, Options: p.Options, before: l.t}
	for _, q := range l.order {
		if err := l.process(q); err != nil {
			return Scenario{}, err
		}
		out.Queues = append(out.Queues, q.queue)
	}
	return out, nil
}

// Run lowers and simulates the program.
func (p Program) Run() (*Result, error) {
	s, err := p.Lower()
	if err != nil {
		return nil, err
	}
	return Run(s)
}

type lowering struct {
	p      Program
	m      Machine
	policy Policy
	pool   *Pool
	t      *story
	masks  map[string]Mask
	queues map[*PoolQueue]*lowered
	order  []*lowered
	names  map[string]uint64 // launch → its completion signal
	sigs   int
}

type lowered struct {
	queue   Queue
	ring    *Ring
	meta    []Command // what a packet cannot say, in the order of packets
	streams []string
}

func (l *lowering) streams() error {
	listed := map[string]bool{}
	for _, s := range l.p.Streams {
		listed[s.Name] = true
	}
	all := l.p.Streams
	for _, x := range l.p.Launches {
		if !listed[x.Stream] {
			listed[x.Stream] = true
			all = append(all, Stream{Name: x.Stream})
		}
	}
	for _, s := range all {
		q, err := l.pool.Create(s.Name, s.Priority, s.Mask != "", s.Cooperative)
		if err != nil {
			return err
		}
		if err := l.mask(s); err != nil {
			return fmt.Errorf("stream %q: %w", s.Name, err)
		}
		low := l.queues[q]
		made := "shares"
		if low == nil {
			made = "opens"
			ring, err := NewRing(QueuePackets)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("q%d", len(l.order))
			if len(l.pool.queues) > 1 && q.ID >= 0 {
				name = fmt.Sprintf("%s %d", q.Priority, q.ID)
			}
			low = &lowered{ring: ring, queue: Queue{Name: name, ACE: len(l.order) % l.m.ACEs, Priority: q.Priority}}
			l.queues[q] = low
			l.order = append(l.order, low)
		}
		low.streams = append(low.streams, s.Name)
		why := fmt.Sprintf("stream %s %s HSA queue %s (policy %s; users by queue %v), on ACE %d", s.Name, made, low.queue.Name, l.policy, l.pool.Users(s.Priority), low.queue.ACE)
		if q.Why != "" {
			why = fmt.Sprintf("stream %s gets HSA queue %s outside the pool: %s", s.Name, low.queue.Name, q.Why)
		}
		l.t.add(Event{Step: "stream", Actor: "ROCclr", Queue: low.queue.Name, Block: -1, Cause: -1, Why: why})
	}
	return nil
}

// mask finds the units that a stream may use.
func (l *lowering) mask(s Stream) error {
	if s.Mask == "" && l.p.Global == "" {
		return nil
	}
	var words, global []uint32
	var err error
	if s.Mask != "" {
		if words, err = ParseMask(s.Mask); err != nil {
			return err
		}
	}
	if l.p.Global != "" {
		if global, err = ParseMask(l.p.Global); err != nil {
			return err
		}
		words = FinalMask(words, global, false)
	}
	se, err := l.m.MapCUMask(words, MapOptions{})
	if err != nil {
		return err
	}
	mask := l.m.FromSEMask(se)
	l.masks[s.Name] = mask
	l.t.add(Event{Step: "mask", Actor: "driver", Block: -1, Cause: -1,
		Why: fmt.Sprintf("mask %s of stream %s gives the shader engines %v units: as good as %d", FormatMask(words), s.Name, mask.Count(), mask.Balanced())})
	return nil
}

func (l *lowering) launches() error {
	order := make([]int, len(l.p.Launches))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return l.p.Launches[a].At - l.p.Launches[b].At })
	seen := map[*lowered][]string{} // streams of the packets of each queue
	for n, i := range order {
		x := &l.p.Launches[i]
		k := x.Kernel
		k.Name = cmp.Or(k.Name, fmt.Sprintf("k%d", i))
		if _, twice := l.names[k.Name]; twice {
			return fmt.Errorf("dispatch: two launches are named %.40q", k.Name)
		}
		switch {
		case k.Blocks < 1 || k.Blocks > MaxBlocks || k.Threads < 1 || k.Threads >= MaxThreads || k.Blocks*k.Threads > 1<<32-1:
			return fmt.Errorf("dispatch: %.40q has %d blocks of %d work-items; a packet says at most %d work-items", k.Name, k.Blocks, k.Threads, uint32(1<<32-1))
		case x.At < 0 || x.At > MaxTicks:
			return fmt.Errorf("dispatch: %.40q is launched at tick %d", k.Name, x.At)
		}
		if k.Mask == nil {
			k.Mask = l.masks[x.Stream]
		}
		q := l.queues[l.pool.Queue(x.Stream)]
		launch := l.t.add(Event{Tick: x.At, Step: "launch", Actor: "program", Queue: q.queue.Name, Kernel: k.Name, Block: -1, Cause: -1,
			Why: fmt.Sprintf("hipModuleLaunchKernel(%s, %d blocks of %d) in stream %s", k.Name, k.Blocks, k.Threads, x.Stream)})
		who := "the calling thread"
		if l.policy == ROCm42 {
			who = "the thread of its queue"
		}
		command := l.t.add(Event{Tick: x.At, Step: "command", Actor: "ROCclr", Queue: q.queue.Name, Kernel: k.Name, Block: -1, Cause: launch,
			Why: fmt.Sprintf("a command of stream %s; %s makes the packet", x.Stream, who)})
		if len(x.After) > 0 {
			var deps []uint64
			for _, a := range x.After {
				s, ok := l.names[a]
				if !ok {
					return fmt.Errorf("dispatch: %.40q waits for %.40q, which is not launched before it", k.Name, a)
				}
				deps = append(deps, s)
			}
			for j, w := range WaitPackets(deps, 0) {
				c := Command{Name: fmt.Sprintf("wait %d of %s", j, k.Name), Arrive: x.At}
				if err := l.publish(q, w, c, command); err != nil {
					return err
				}
				seen[q] = append(seen[q], x.Stream)
			}
		}
		seen[q] = append(seen[q], x.Stream)
		b := BarrierBits(l.policy, seen[q])
		l.sigs++
		signal := uint64(signalBase + 64*l.sigs)
		l.names[k.Name] = signal
		packet := Packet{Header: NewHeader(KernelDispatch, b[len(b)-1], AgentScope, AgentScope), Dimensions: 1,
			Workgroup: [3]uint16{uint16(k.Threads), 1, 1}, Grid: [3]uint32{uint32(k.Blocks * k.Threads), 1, 1}, Group: uint32(k.LDS),
			KernelObject: kernelBase + 64*uint64(n), Kernarg: argsBase + 64*uint64(n), Completion: signal}
		if err := l.publish(q, packet, Command{Kernel: &k, Arrive: x.At}, command); err != nil {
			return err
		}
	}
	return nil
}

// publish writes a packet into a queue's ring.
func (l *lowering) publish(q *lowered, p Packet, c Command, cause int) error {
	raw, err := p.Encode()
	if err != nil {
		return err
	}
	name := c.Name
	if c.Kernel != nil {
		name = c.Kernel.Name
	}
	say := func(step, actor, why, data string) {
		cause = l.t.add(Event{Tick: c.Arrive, Step: step, Actor: actor, Queue: q.queue.Name, Kernel: name, Block: -1, Cause: cause, Why: why, Data: data})
	}
	say("packet", "ROCclr", fmt.Sprintf("%s becomes a packet, header %s", name, p.Header), fmt.Sprintf("%x", raw))
	index, err := q.ring.Publish(raw)
	if err != nil {
		return fmt.Errorf("queue %s: %w: a program here has at most %d packets in a queue", q.queue.Name, err, QueuePackets-1)
	}
	say("publish", "ROCclr", fmt.Sprintf("slot %d of %s: body first, then the header %#04x", q.ring.Slot(index), q.queue.Name, uint16(p.Header)), "")
	say("doorbell", "ROCR", fmt.Sprintf("index %d is stored to the doorbell of %s", index, q.queue.Name), "")
	c.cause = cause + 1
	q.meta = append(q.meta, c)
	return nil
}

// process reads the packets of a ring back, as the packet processor does.
func (l *lowering) process(q *lowered) error {
	signals := map[uint64]string{}
	for name, s := range l.names {
		signals[s] = name
	}
	for i := range q.meta {
		p, err := q.ring.Process()
		if err != nil {
			return err
		}
		c := q.meta[i]
		c.Type, c.Barrier = p.Header.Type(), p.Header.Barrier()
		if p.Completion != 0 {
			c.Signal = "done " + signals[p.Completion]
		}
		for _, d := range p.Deps {
			if d != 0 {
				c.Deps = append(c.Deps, "done "+signals[d])
			}
		}
		if c.Kernel != nil {
			k := *c.Kernel
			_, k.Blocks = p.Blocks()
			k.Threads, k.LDS = int(p.Workgroup[0]), int(p.Group)
			c.Kernel = &k
		}
		q.queue.Commands = append(q.queue.Commands, c)
	}
	return nil
}

// Example is a scenario worth looking at.
type Example struct {
	Name    string
	Doc     string
	Program Program
}

// Examples lists the scenarios that lectures are about.
func Examples() []Example {
	victim := Kernel{Name: "victim", Blocks: 40, Threads: 1024, Ticks: 1}
	comp := Kernel{Name: "competitor", Blocks: 30, Threads: 1024, Ticks: 10, Mask: Mask{0, 0, 0x7fff, 0}}
	one := Machine{SEs: 1, CUs: 1}
	stream := func(s string, at int, k Kernel) Launch { return Launch{Stream: s, At: at, Kernel: k} }
	streams := Program{Title: "Six independent streams on four queues", Policy: ROCm6}
	for i, s := range []string{"a", "b", "c", "d", "e", "f"} {
		streams.Launches = append(streams.Launches, stream(s, 0, Kernel{Name: "k" + s, Blocks: 8, Threads: 1024, Ticks: 4 + i%2}))
	}
	ab := Program{Title: "Two streams that share one queue", Policy: ROCm6, MaxHW: 1}
	for i, s := range []string{"a", "b", "a", "b", "b"} {
		ab.Launches = append(ab.Launches, stream(s, 0, Kernel{Name: fmt.Sprintf("%s%d", s, i), Blocks: 10, Threads: 1024, Ticks: []int{4, 3, 2, 3, 2}[i]}))
	}
	ab26 := ab
	ab26.Policy, ab26.Title = ROCm2026, "The same two streams without needless barrier bits"
	skip := Program{Title: "The same, if the dealer could skip", Options: Options{Skip: true}, Launches: []Launch{stream("a", 0, comp), stream("b", 1, victim)}}
	// The first ten small blocks end one after the other, so that never four places
	// are free at once while small blocks follow.
	var times []int
	for i := range 30 {
		times = append(times, min(i+1, 10))
	}
	pair := []Launch{stream("a", 0, Kernel{Name: "small", Blocks: 30, Threads: 256, Times: times}), stream("b", 1, Kernel{Name: "big", Blocks: 2, Threads: 1024, Ticks: 4})}
	alone := Machine{SEs: 1, CUs: 1}
	alone.CU.Waves = 4 // one block of 1024
	return []Example{
		{"slow-player", "a competitor fills one shader engine: every other one idles too", Program{Title: "The slow player", Launches: []Launch{stream("a", 0, comp), stream("b", 1, victim)}}},
		{"slow-player-skip", "the same with a dealer that may skip", skip},
		{"16th-cu", "16 units, packed: 15 in one shader engine and 1 in another", Program{Title: "The sixteenth compute unit", Launches: []Launch{stream("a", 0,
			Kernel{Name: "k", Blocks: 96, Threads: 1024, Ticks: 1, Mask: RadeonVII().Packed(16)})}}},
		{"cutting", "small blocks cut ahead of big ones", Program{Title: "Cutting ahead", Machine: one, Launches: pair}},
		{"no-cutting", "the same without cutting", Program{Title: "No cutting", Machine: one, Options: Options{NoCut: true}, Launches: pair}},
		{"streams", "six streams on four queues: two pairs cannot overlap", streams},
		{"barrier-6x", "two streams on one queue, every packet with the barrier bit", ab},
		{"barrier-2026", "the same with barrier bits only where a stream needs them", ab26},
		{"wait-lower", "block 1 waits for block 0, with room for one: it ends", Program{Title: "Waiting for a lower block", Machine: alone,
			Launches: []Launch{stream("a", 0, Kernel{Name: "k", Blocks: 2, Threads: 1024, Ticks: 2, Waits: map[int][]int{1: {0}}})}}},
		{"deadlock", "block 0 waits for block 1, with room for one: it never ends", Program{Title: "Waiting for a higher block", Machine: alone,
			Launches: []Launch{stream("a", 0, Kernel{Name: "k", Blocks: 2, Threads: 1024, Ticks: 2, Waits: map[int][]int{0: {1}}})}}},
	}
}

// FindExample returns an example by its name.
func FindExample(name string) (Example, error) {
	all := map[string]Example{}
	for _, e := range Examples() {
		all[e.Name] = e
	}
	if e, ok := all[name]; ok {
		return e, nil
	}
	return Example{}, fmt.Errorf("dispatch: no scenario %.40q; there are %v", name, slices.Sorted(maps.Keys(all)))
}
