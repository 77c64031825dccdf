package dispatch

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func single(m Machine, k Kernel, o Options) Scenario {
	return Scenario{Machine: m, Options: o, Queues: []Queue{{Name: "q", Commands: []Command{{Kernel: &k}}}}}
}

// The simulation and the formula are two implementations of the same thing.
func TestMakespan(t *testing.T) {
	n := 1500
	if testing.Short() {
		n = 1000
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		m := Machine{Dies: 1 + rng.IntN(3), SEs: 1 + rng.IntN(5), CUs: 1 + rng.IntN(16), ACEs: 1 + rng.IntN(4)}
		o := Options{NoCut: rng.IntN(2) == 0, PerDie: rng.IntN(2) == 0, Resources: rng.IntN(2) == 0, Events: -1}
		k := Kernel{Name: "k", Blocks: 1 + rng.IntN(700), Threads: 64 * (1 + rng.IntN(16)), Ticks: 1 + rng.IntN(5), VGPRs: rng.IntN(65), LDS: rng.IntN(3) * 7000}
		k.Mask = make(Mask, m.Dies*m.SEs)
		any := false
		for j := range k.Mask {
			k.Mask[j] = rng.Uint64() & (1<<m.CUs - 1)
			if rng.IntN(3) == 0 {
				k.Mask[j] = 0
			}
			any = any || k.Mask[j] != 0
		}
		if !any {
			k.Mask[rng.IntN(len(k.Mask))] = 1
		}
		want, err := Makespan(m, k, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(single(m, k, o))
		if err != nil {
			t.Fatal(err)
		}
		if r.Ticks != want || r.Placed != k.Blocks || r.Deadlock != nil {
			t.Fatalf("case %d: %d ticks, formula %d: %+v %+v %+v", i, r.Ticks, want, m, o, k)
		}
	}
}

// The staircase of the experiments, to the tick.
func TestStaircase(t *testing.T) {
	k := Kernel{Name: "k", Blocks: 1024, Threads: 1024, Ticks: 1}
	for _, want := range []Stair{{1, 512, 512, 512}, {4, 128, 128, 128}, {5, 103, 128, 103}, {8, 64, 64, 64}, {15, 35, 43, 35}, {16, 256, 32, 32}, {17, 128, 32, 31},
		{20, 52, 26, 26}, {30, 18, 19, 18}, {31, 171, 19, 17}, {45, 12, 12, 12}, {46, 128, 12, 12}, {60, 9, 9, 9}} {
		got, err := StairAt(Machine{}, k, Options{}, want.CUs)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func runExample(t *testing.T, name string) *Result {
	t.Helper()
	e, err := FindExample(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Program.Run()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

func TestSlowPlayer(t *testing.T) {
	r := runExample(t, "slow-player")
	v := r.Find("victim")
	var early []int
	for i, b := range v.Blocks {
		if b.Start < 10 {
			early = append(early, i)
		}
	}
	if !reflect.DeepEqual(early, []int{0, 1, 3, 4, 5}) || v.Finish != 11 {
		t.Errorf("blocks %v started before tick 10, end at %d; want 0 1 3 4 5, 11", early, v.Finish)
	}
	if got := runExample(t, "slow-player-skip").Find("victim").Finish; got != 2 {
		t.Errorf("with skipping it ends at %d, want 2", got)
	}
	said := false
	for _, e := range r.Events {
		if e.Step == "stall" && e.Kernel == "victim" && e.Block == 6 {
			said = strings.Contains(e.Why, "SE 2") && strings.Contains(e.Why, "block 2 of victim") && strings.Contains(e.Why, "512 free")
		}
	}
	if !said {
		t.Error("no event says why block 6 of the victim cannot be dealt")
	}
}

func TestCutting(t *testing.T) {
	for _, c := range []struct {
		name   string
		starts [2]int32
		small  int
	}{{"cutting", [2]int32{24, 28}, 30}, {"no-cutting", [2]int32{5, 9}, 33}} {
		r := runExample(t, c.name)
		big := r.Find("big").Blocks
		if got := [2]int32{big[0].Start, big[1].Start}; got != c.starts || r.Find("small").Finish != c.small {
			t.Errorf("%s: the big blocks start at %v, the small kernel ends at %d; want %v, %d", c.name, got, r.Find("small").Finish, c.starts, c.small)
		}
	}
}

// Every event has a cause before it and a sentence; no block overtakes another in
// dealing; no unit holds more than it may.
func TestInvariants(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 300 {
		m := Machine{Dies: 1, SEs: 1 + rng.IntN(4), CUs: 1 + rng.IntN(6), ACEs: 1 + rng.IntN(4)}
		o := Options{NoCut: rng.IntN(2) == 0, Skip: rng.IntN(3) == 0, Resources: rng.IntN(2) == 0, WaveCap: rng.IntN(3) == 0}
		var p Program
		p.Machine, p.Options = m, o
		p.Policy = []Policy{ROCm42, ROCm6, ROCm2026}[rng.IntN(3)]
		for j := range 1 + rng.IntN(8) {
			l := Launch{Stream: string(rune('a' + rng.IntN(6))), At: rng.IntN(10), Kernel: Kernel{Name: string(rune('A' + j)), Blocks: 1 + rng.IntN(40), Threads: 64 * (1 + rng.IntN(16)),
				Times: []int{1 + rng.IntN(4), 1 + rng.IntN(9)}, VGPRs: rng.IntN(64), LDS: rng.IntN(20000)}}
			// Some wait for launches before them.
			for _, o := range p.Launches {
				if rng.IntN(4) == 0 && o.At <= l.At {
					l.After = append(l.After, o.Name)
				}
			}
			p.Launches = append(p.Launches, l)
		}
		r, err := p.Run()
		if err != nil {
			t.Fatal(err)
		}
		if r.Deadlock != nil {
			t.Fatalf("case %d: %s", i, r.Deadlock.Why)
		}
		for _, e := range r.Events {
			if e.Cause >= e.Seq || e.Why == "" || e.Place.Component == "" || e.Tag == "" {
				t.Fatalf("case %d: event %+v", i, e)
			}
		}
		// A stream's kernels run one after the other, whatever the barrier bits, and
		// none before what it waits for.
		order := slices.Clone(p.Launches)
		slices.SortStableFunc(order, func(a, b Launch) int { return a.At - b.At })
		ends := map[string]int{}
		for _, l := range order {
			k := r.Find(l.Name)
			if k.Start < ends[l.Stream] || k.Launch < l.At {
				t.Fatalf("case %d, %s: %s starts at %d, stream %s is busy until %d", i, p.Policy, l.Name, k.Start, l.Stream, ends[l.Stream])
			}
			for _, a := range l.After {
				if k.Start < r.Find(a).Finish {
					t.Fatalf("case %d, %s: %s starts at %d, before %s ends", i, p.Policy, l.Name, k.Start, a)
				}
			}
			ends[l.Stream] = k.Finish
		}
		use := map[[2]int16]map[int]int{}
		for _, k := range r.Runs {
			last := int32(-1)
			for b, x := range k.Blocks {
				if x.Dealt < last || x.Start < x.Dealt || x.Finish <= x.Start {
					t.Fatalf("case %d: block %d of %s: %+v, the one before was dealt at %d", i, b, k.Name, x, last)
				}
				last = x.Dealt
				at := [2]int16{x.SE, x.CU}
				if use[at] == nil {
					use[at] = map[int]int{}
				}
				for tick := x.Start; tick < x.Finish; tick++ {
					use[at][int(tick)] += k.Kernel.Threads
					if use[at][int(tick)] > 2560 {
						t.Fatalf("case %d: unit %v holds %d work-items at tick %d", i, at, use[at][int(tick)], tick)
					}
				}
			}
		}
		again, err := p.Run()
		if err != nil || !reflect.DeepEqual(r.Events, again.Events) {
			t.Fatalf("case %d: the second run differs: %v", i, err)
		}
	}
}

func TestDeadlock(t *testing.T) {
	if r := runExample(t, "wait-lower"); r.Deadlock != nil || r.Ticks != 4 {
		t.Errorf("waiting for a lower block: %d ticks, %+v", r.Ticks, r.Deadlock)
	}
	r := runExample(t, "deadlock")
	if r.Deadlock == nil || !reflect.DeepEqual(r.Deadlock.Waits, [][2]int{{0, 1}}) {
		t.Errorf("waiting for a higher block: %+v", r.Deadlock)
	}
	s := Scenario{Queues: []Queue{{Name: "q", Commands: []Command{{Type: BarrierOr, Name: "or"}}}}}
	if r, err := Run(s); err != nil || r.Deadlock == nil {
		t.Errorf("an OR packet without signals: %+v, %v", r, err)
	}
	s.Queues[0].Commands[0].Type = BarrierAnd
	if r, err := Run(s); err != nil || r.Deadlock != nil {
		t.Errorf("an AND packet without signals: %+v, %v", r, err)
	}
}

func TestMillionBlocks(t *testing.T) {
	k := Kernel{Name: "k", Blocks: 1_000_000, Threads: 256, Ticks: 7}
	want, err := Makespan(RadeonVII(), k, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// The best of a few: the machine may be busy with other things.
	best := time.Hour
	for range 3 {
		start := time.Now()
		r, err := Run(single(RadeonVII(), k, Options{}))
		if err != nil {
			t.Fatal(err)
		}
		if r.Ticks != want || !r.Cut {
			t.Fatalf("%d ticks, want %d", r.Ticks, want)
		}
		if best = min(best, time.Since(start)); best < 2*time.Second {
			return
		}
	}
	t.Errorf("a million blocks take %v, more than 2 s", best)
}

// Signals across queues, and a barrier value.
func TestSignals(t *testing.T) {
	k := func(name string, ticks int) *Kernel { return &Kernel{Name: name, Blocks: 1, Threads: 64, Ticks: ticks} }
	s := Scenario{Queues: []Queue{
		{Name: "q0", Commands: []Command{{Kernel: k("a", 5), Signal: "sa"}}},
		{Name: "q1", ACE: 1, Commands: []Command{{Kernel: k("b", 3), Signal: "sb"}}},
		{Name: "q2", ACE: 2, Commands: []Command{{Type: BarrierAnd, Name: "and", Deps: []string{"sa", "sb"}}, {Kernel: k("c", 1)}}},
		{Name: "q3", ACE: 3, Commands: []Command{{Type: BarrierOr, Name: "or", Deps: []string{"sa", "sb"}}, {Kernel: k("d", 1)}}},
		{Name: "q4", ACE: 3, Commands: []Command{{Name: "value", Deps: []string{"sa"}, Cond: Less, Mask: -1, Value: 1}, {Kernel: k("e", 1)}}},
	}}
	r, err := Run(s)
	if err != nil || r.Deadlock != nil {
		t.Fatal(err, r.Deadlock)
	}
	for name, want := range map[string]int{"c": 5, "d": 3, "e": 5} {
		if got := r.Find(name).Start; got != want {
			t.Errorf("%s starts at %d, want %d", name, got, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	k := Kernel{Name: "k", Blocks: 1, Threads: 64, Ticks: 1}
	with := func(f func(*Kernel)) Scenario {
		x := k
		f(&x)
		return single(Machine{}, x, Options{})
	}
	for _, c := range []struct {
		s    Scenario
		says string
	}{
		{with(func(k *Kernel) { k.Blocks = 0 }), "blocks"},
		{with(func(k *Kernel) { k.Blocks = MaxBlocks + 1 }), "blocks"},
		{with(func(k *Kernel) { k.Threads = 2561 }), "fit"},
		{with(func(k *Kernel) { k.Ticks = 0 }), "ticks"},
		{with(func(k *Kernel) { k.Mask = Mask{0, 0, 0, 0} }), "no compute unit"},
		{with(func(k *Kernel) { k.Mask = Mask{1} }), "shader engines"},
		{with(func(k *Kernel) { k.Waits = map[int][]int{0: {3}} }), "waits for block 3"},
		{single(Machine{SEs: 100}, k, Options{}), "engines"},
		{single(Machine{CUs: 65}, k, Options{}), "compute units"},
		{Scenario{Queues: []Queue{{ACE: 9}}}, "ACE 9"},
		{Scenario{Queues: []Queue{{Commands: []Command{{Type: AgentDispatch}}}}}, "agent_dispatch"},
		{Scenario{Queues: []Queue{{Commands: []Command{{Deps: []string{"a"}, Cond: "gt"}}}}}, "gt"},
	} {
		if _, err := Run(c.s); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want something about %q", c.s, err, c.says)
		}
	}
	for _, text := range []string{`{"launches":[]}`, `{"launch":1}`, `{"launches":[{"stream":"a","name":"k","blocks":1,"threads":1,"ticks":1}]} x`,
		`{"max_hw_queues":-1,"launches":[{"stream":"a","name":"k","blocks":1,"threads":1,"ticks":1}]}`,
		`{"policy":"5","launches":[{"stream":"a","name":"k","blocks":1,"threads":1,"ticks":1}]}`} {
		p, err := ReadProgram(strings.NewReader(text))
		if err == nil {
			_, err = p.Run()
		}
		if err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

// Examples survive being written to a file.
func TestProgramFile(t *testing.T) {
	for _, e := range Examples() {
		raw, err := json.Marshal(e.Program)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ReadProgram(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v\n%s", e.Name, err, raw)
		}
		a, err1 := e.Program.Run()
		b, err2 := p.Run()
		if err1 != nil || err2 != nil || !reflect.DeepEqual(a.Events, b.Events) {
			t.Errorf("%s: %v, %v; the traces differ", e.Name, err1, err2)
		}
	}
}

func TestQueues(t *testing.T) {
	for _, c := range []struct {
		sched             bool
		processes, queues int
		step              string
		has               bool
		mapped            int
	}{{true, 6, 4, "oversubscribed", false, 24}, {true, 7, 4, "oversubscribed", true, 24}, {true, 9, 1, "oversubscribed", true, 8}, {false, 6, 4, "busy", false, 24}, {false, 7, 4, "busy", true, 24}} {
		events, slots, err := CreateQueues(Creation{Scheduler: c.sched, Processes: c.processes, Queues: c.queues, Mask: []uint32{0x1f}})
		if err != nil {
			t.Fatal(err)
		}
		has, mapped := false, 0
		for _, e := range events {
			has = has || e.Step == c.step
		}
		for _, s := range slots {
			if s.Process >= 0 {
				mapped++
			}
		}
		if has != c.has || mapped != c.mapped {
			t.Errorf("%+v: %s %v, %d mapped", c, c.step, has, mapped)
		}
	}
}

// Whatever a file says, it is refused or simulated, and a trace has causes before
// their effects.
func FuzzProgram(f *testing.F) {
	for _, e := range Examples() {
		raw, err := json.Marshal(e.Program)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := ReadProgram(bytes.NewReader(raw))
		if err != nil {
			return
		}
		blocks := 0
		for _, l := range p.Launches {
			blocks += max(0, l.Blocks)
		}
		if blocks > 5000 {
			return // legal, and slow
		}
		r, err := p.Run()
		if err != nil {
			return
		}
		for _, e := range r.Events {
			if e.Cause >= e.Seq {
				t.Fatalf("%+v has its cause behind it", e)
			}
		}
	})
}
