package qmm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/cache"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// pretended is a bench whose products run on the interpreter; clock says how long they
// take.
func pretended(t *testing.T, clock func(p *ir.Program) float64) *Bench {
	t.Helper()
	d, err := device.Open("interp")
	if err != nil {
		t.Fatal(err)
	}
	return &Bench{d: d, origin: tune.Row{What: "timing", GPU: "NVIDIA H200", Driver: "CUDA 13.0", Target: "sm_90a"}, reads: map[int64]float64{},
		clock: func(ctx context.Context, p *ir.Program, args []ir.Arg, o tune.Options) (tune.Timing, error) {
			us := clock(p)
			now := map[*array.Array]*array.Array{} // what arrays hold after the launches so far
			run := func(p *ir.Program, args []ir.Arg) ([]ir.Arg, error) {
				in := slices.Clone(args)
				for i, a := range in {
					if b := now[a.Array]; b != nil {
						in[i].Array = b
					}
				}
				res, err := d.Run(ctx, p, in)
				if err != nil {
					return nil, err
				}
				for i, a := range args {
					if a.Array != nil {
						now[a.Array] = res.Args[i].Array
					}
				}
				return res.Args, nil
			}
			for _, b := range o.Before {
				us += clock(b.Program)
				if _, err := run(b.Program, b.Args); err != nil {
					return tune.Timing{}, err
				}
			}
			after, err := run(p, args)
			if err == nil && o.Seen != nil {
				err = o.Seen(after)
			}
			if err != nil {
				return tune.Timing{}, err
			}
			return tune.Timing{Median: us, Min: us, Max: us, ReadUs: 5, Bytes: o.Bytes, PTXBytes: len(text.Format(p))}, nil
		}}
}

func kind(t *testing.T, text string, n, k int) Linear {
	t.Helper()
	l, err := Parse(text, n, k)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestTune looks for a schedule among all of a small layer, keeps it, and finds it again
// for all types of the width.
func TestTune(t *testing.T) {
	// Blocks of 4 warps are said to be fast, whatever the model thinks, and a little more so
	// those of long programs.
	b := pretended(t, func(p *ir.Program) float64 {
		if p.Warps == 4 {
			return 7 - float64(len(text.Format(p)))/1e6
		}
		return 11
	})
	store, err := tune.OpenStore(filepath.Join(t.TempDir(), "tuned.db"))
	if err != nil {
		t.Fatal(err)
	}
	l := kind(t, "u4", 256, 512)
	steps := 0
	row, err := b.Tune(context.Background(), l, "small", 2, TuneOptions{Store: store, Limit: 12, Progress: func(s tune.Step) { steps++ }})
	if err != nil {
		t.Fatal(err)
	}
	if row.Schedule.Parts != 4 || !(row.MedianUs < 7) || !(row.FastestUs < row.MedianUs) || row.Tried < 2 || row.Tried > 12 || steps < row.Tried || !(row.Error < 1e-3) {
		t.Errorf("%+v after %d steps", row, steps)
	}
	h200 := device.Info{Title: "NVIDIA H200", Driver: "CUDA 13.0", Arch: "sm_90a"}
	if c, _, err := l.ChooseOn(store, h200, 2, Call{}); err != nil || c != row.Choice() {
		t.Errorf("%+v is kept, %v; the row has %+v", c, err, row.Schedule)
	}
	for _, c := range []struct {
		layer string
		m     int
		on    device.Info
		from  string
	}{
		{"u4", 2, h200, "store"}, {"u4", 8, h200, "store"}, {"f4e2m1", 2, h200, "store"}, {"i4", 3, h200, "store"},
		{"u4", 1, h200, "model"}, {"u4", 9, h200, "model"}, {"u5", 2, h200, "model"}, {"u4 group=64", 2, h200, "model"}, {"u4 act=bf16", 2, h200, "model"},
		{"u4", 2, device.Info{Title: "NVIDIA H100", Driver: "CUDA 13.0", Arch: "sm_90a"}, "model"},
		{"u4", 2, device.Info{Title: "NVIDIA H200", Driver: "CUDA 14.0", Arch: "sm_90a"}, "model"},
		{"u4", 2, device.Info{Title: "interpreter"}, "model"},
	} {
		s, from, err := kind(t, c.layer, 256, 512).ChooseOn(store, c.on, c.m, Call{})
		if err != nil || from != c.from || from == "store" && s.Schedule.Parts != 4 {
			t.Errorf("%s, %d rows on %s: %+v from %s, %v; want %s", c.layer, c.m, c.on.Title, s, from, err, c.from)
		}
	}
	all, err := store.All()
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	// Another build of the same compiler finds out that it holds, once.
	if all[0].Build = "another"; store.Put(all...) != nil {
		t.Fatal(err)
	}
	if _, from, err := l.ChooseOn(store, h200, 2, Call{}); from != "store" || err != nil {
		t.Errorf("another build: from %s, %v", from, err)
	}
	if all, err = store.All(); err != nil || all[0].Build != cache.Build() {
		t.Errorf("another build leaves %q, %v", all[0].Build, err)
	}
	// What was timed must still be the code: another compiler's result does not count.
	all[0].Code, all[0].Build = "of another compiler", "another"
	if err := store.Put(all...); err != nil {
		t.Fatal(err)
	}
	if _, from, err := l.ChooseOn(store, h200, 2, Call{}); from != "model" || err != nil {
		t.Errorf("stale code: from %s, %v", from, err)
	}
}

// TestTunePlans has a search try all plans that so many rows may take, and products take what it found: the plan too, where
// they may have it.
func TestTunePlans(t *testing.T) {
	ctx := context.Background()
	h200 := device.Info{Title: "NVIDIA H200", Driver: "CUDA 13.0", Arch: "sm_90a"}
	quickest := func(t *testing.T, title string) *Bench {
		b := pretended(t, func(p *ir.Program) float64 {
			switch name, _, _ := strings.Cut(p.Name, "_"); {
			case name == title:
				return 3
			case name == "decode" || name == "stream" || name == "gang" || name == "wide" || name == "prefill":
				return 30
			}
			return 1
		})
		b.origin.Target = warpgroups
		return b
	}
	type want struct {
		layer      string
		m          int
		call       Call
		on         device.Info
		plan, from string
	}
	bias := array.New(dtype.F16, 256)
	for _, c := range []struct {
		title, layer string
		m            int
		plan         string
		wants        []want
	}{
		{"wide", "u4", 40, Wide, []want{
			{"u4", 33, Call{}, h200, Wide, "store"}, {"u4", 64, Call{Bias: bias}, h200, Wide, "store"}, {"f4e2m1", 64, Call{}, h200, Wide, "store"},
			{"u4", 32, Call{}, h200, Decode, "model"}, {"u4", 65, Call{}, h200, Decode, "model"}, {"u5", 64, Call{}, h200, Wide, "model"}, {"u4 group=32", 64, Call{}, h200, Decode, "model"},
			{"u4", 40, Call{Plan: Wide}, h200, Wide, "store"}, {"u4", 40, Call{Plan: Decode}, h200, Decode, "model"}, {"u4", 40, Call{Soon: true}, h200, Decode, "soon"}, {"u4", 40, Call{Schedule: &template.Schedule{}}, h200, Decode, "call"},
			{"u4", 40, Call{}, device.Info{Title: "NVIDIA H200", Driver: "CUDA 13.0", Arch: "sm_100a"}, Decode, "model"},
		}},
		{"stream", "u4", 20, Decode, []want{{"u4", 17, Call{}, h200, Decode, "store"}, {"u4", 32, Call{Plan: Wide}, h200, Wide, "model"}, {"u4", 16, Call{}, h200, Decode, "model"}}},
		{"stream", "u4", 66, Decode, []want{{"u4", 65, Call{}, h200, Decode, "store"}, {"u4", 128, Call{}, h200, Wide, "model"}}}, // which so many rows do not take
		{"prefill", "u4", 300, Prefill, []want{{"u4", 300, Call{Bias: bias}, h200, Prefill, "store"}, {"u4 far", 300, Call{Plan: Prefill}, h200, Prefill, "model"}, {"u8", 300, Call{Plan: Prefill}, h200, Prefill, "model"}}},
		{"expand", "u4", 300, Expand, []want{{"u4", 300, Call{}, h200, Expand, "store"}, {"u4", 512, Call{Bias: bias}, h200, Wide, "model"}, {"u8", 300, Call{}, h200, Wide, "model"}}},
	} {
		store, err := tune.OpenStore(filepath.Join(t.TempDir(), "tuned.db"))
		if err != nil {
			t.Fatal(err)
		}
		row, err := quickest(t, c.title).Tune(ctx, kind(t, c.layer, 256, 512), "small", c.m, TuneOptions{Store: store, Limit: 12})
		if found := row.Choice(); err != nil || found.Plan != c.plan || !(row.Error < 2e-3) {
			t.Errorf("%s: %+v, %v", c.title, row, err)
		}
		for _, w := range c.wants {
			l := kind(t, w.layer, 256, 512).Usual()
			got, from, err := l.ChooseOn(store, w.on, w.m, w.call)
			if err != nil || from != w.from || got.Plan != w.plan || from == "store" && got != row.Choice() {
				t.Errorf("%s is the fastest: %s, %d rows, %+v on %s: %s from %s, %v; want %s from %s", c.title, w.layer, w.m, w.call, w.on.Arch, got, from, err, w.plan, w.from)
			}
		}
		if c.plan == Prefill && !row.Choice().Wide.Folded {
			t.Errorf("what is found is not folded, for which it is here: %s", row.Choice())
		}
		if c.plan == Expand || c.plan == Prefill { // scales with more bits than plain weights hold
			l := kind(t, c.layer, 256, 512)
			l.ScaleBits = 0
			if got, from, err := l.ChooseOn(store, h200, 300, Call{}); err != nil || got.Plan == Expand || got.Wide.Folded || from != "model" {
				t.Errorf("scales that round: %s from %s, %v", got, from, err)
			}
		}
	}
}

// TestTuneElsewhere: a search on a GPU that does not run what an H200 takes begins with what that GPU takes itself, and so do choices to time.
func TestTuneElsewhere(t *testing.T) {
	const m = 1
	l := kind(t, "u4", 256, 512).Usual()
	there, _, err := l.ChooseOn(nil, device.Info{Arch: warpgroups}, m, Call{})
	if err != nil || there.Schedule.Plain() {
		t.Fatalf("an H200 takes %s, %v, which all GPUs run", there, err)
	}
	for _, target := range []string{warpgroups, "sm_90", "sm_80"} {
		b := pretended(t, func(*ir.Program) float64 { return 5 })
		b.origin.Target = target
		want, _, err := l.ChooseOn(nil, device.Info{Arch: target}, m, Call{})
		if err != nil {
			t.Fatal(err)
		}
		row, err := b.Tune(t.Context(), l, "small", m, TuneOptions{Limit: 1})
		if got := row.Choice(); err != nil || got != want || row.Tried != 1 {
			t.Errorf("%s: a search begins with %s, %v, and products take %s", target, got, err, want)
		}
		all, err := b.Choices(l, Decode, m, 4)
		if err != nil || all[0] != want || len(all) != 5 || slices.Contains(all[1:], want) || target != warpgroups && slices.ContainsFunc(all, func(c Choice) bool { return !c.Schedule.Plain() }) {
			t.Errorf("%s: choices are %s, %v, and products take %s", target, all, err, want)
		}
	}
}

// TestStoredBlocks has fewer rows than those that were timed take no schedule whose blocks would have no turns, nor a
// stale one, and be multiplied all the same.
func TestStoredBlocks(t *testing.T) {
	l := kind(t, "u4", 512, 2048)
	h200 := device.Info{Title: "NVIDIA H200", Driver: "CUDA 13.0", Arch: "sm_90a"}
	store, err := tune.OpenStore(filepath.Join(t.TempDir(), "tuned.db"))
	if err != nil {
		t.Fatal(err)
	}
	shared := Choice{Plan: Wide, Wide: template.WideSchedule{Rows: 64, Consumers: 2, Sides: 2, Parts: 1, Stages: 4, Cluster: 1, Splits: 1, Blocks: 128, Staged: true}}
	problem, err := l.Problem(256)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(shared)
	if err != nil {
		t.Fatal(err)
	}
	found := tune.Found{GPU: h200.Title, Driver: tune.DriverOf(h200.Driver), Problem: problem, Code: "code", Build: cache.Build(), Type: "u4", Schedule: data, Us: 5, Tried: 9}
	if err := store.Put(found); err != nil {
		t.Fatal(err)
	}
	for m, from := range map[int]string{256: "store", 193: "store", 129: "model"} {
		got, is, err := l.ChooseOn(store, h200, m, Call{})
		if err != nil || is != from {
			t.Errorf("%d rows: %s from %s, %v; want it from %s", m, got, is, err, from)
		}
		x := &array.Array{Type: dtype.F16, Shape: []int{m, l.K}}
		if _, err := l.wideCall(nil, shared.Wide, x, x, nil, x, Call{}, 1); (err == nil) != (from == "store") {
			t.Errorf("%d rows by what was found: %v", m, err)
		}
	}
	found.Build = "another"
	if err := store.Put(found); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is known
		if got, from, err := l.ChooseOn(store, h200, 256, Call{}); err != nil || from != "model" {
			t.Errorf("another build: %s from %s, %v", got, from, err)
		}
	}
}

// TestTuneLate has searches end when the time is up: with the best so far where that is known, and
// the row says so; what few schedules gave is not kept. Only the first may take what it takes.
func TestTuneLate(t *testing.T) {
	ctx, l := context.Background(), kind(t, "u4", 256, 512)
	for _, c := range []struct {
		timed int // schedules until the time is up
		few   bool
	}{{1, true}, {2, true}, {3, false}, {5, false}} {
		b := pretended(t, func(p *ir.Program) float64 { return 7 })
		clock, n := b.clock, 0
		b.clock = func(ctx context.Context, p *ir.Program, args []ir.Arg, o tune.Options) (tune.Timing, error) {
			if n++; (n == 1) != o.Until.IsZero() {
				t.Errorf("measurement %d has until %v", n, o.Until)
			}
			if n > c.timed {
				return tune.Timing{}, fmt.Errorf("busy: %w", tune.ErrLate)
			}
			took, err := clock(ctx, p, args, o)
			took.Spent.Graph = 2
			return took, err
		}
		store, err := tune.OpenStore(filepath.Join(t.TempDir(), "tuned.db"))
		if err != nil {
			t.Fatal(err)
		}
		row, err := b.Tune(ctx, l, "small", 2, TuneOptions{Store: store, Budget: time.Hour})
		if err != nil || row.End != tune.EndTime || row.Tried != c.timed || row.Few() != c.few || row.MedianUs != 7 || row.Spent == nil || row.Spent.Graph != float64(2*c.timed) {
			t.Errorf("late after %d: %+v, %v", c.timed, row, err)
		}
		if kept, err := store.All(); err != nil || (len(kept) == 0) != c.few {
			t.Errorf("late after %d: kept %v, %v", c.timed, kept, err)
		}
		schedules, err := l.Choices(Decode, 2, 7)
		if err != nil || len(schedules) < 6 {
			t.Fatal(schedules, err)
		}
		n = 0
		row, err = b.Time(ctx, l, "small", 2, schedules, time.Now().Add(time.Hour), nil)
		if err != nil || row.End != tune.EndTime || row.Tried != c.timed || row.Few() != c.few {
			t.Errorf("late after %d: %+v, %v", c.timed, row, err)
		}
		wide, err := l.Choices(Wide, 32, 7)
		if err != nil || len(wide) < 6 {
			t.Fatal(wide, err)
		}
		n = 0
		row, err = b.Time(ctx, l, "small", 32, wide, time.Now().Add(time.Hour), nil)
		if err != nil || row.End != tune.EndTime || row.Tried != c.timed || row.Few() != c.few {
			t.Errorf("wide, late after %d: %+v, %v", c.timed, row, err)
		}
	}
	// Nobody is late: the row says so too. Without time for any, the first is timed.
	b := pretended(t, func(p *ir.Program) float64 { return 7 })
	schedules, err := l.Choices(Decode, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	if row, err := b.Time(ctx, l, "small", 2, schedules, time.Now().Add(time.Hour), nil); err != nil || row.End != tune.EndDone || row.Tried != len(schedules) || row.Few() {
		t.Errorf("%+v, %v", row, err)
	}
	if row, err := b.Time(ctx, l, "small", 2, schedules, time.Now(), nil); err != nil || row.End != tune.EndTime || row.Tried != 1 || !row.Few() {
		t.Errorf("%+v, %v", row, err)
	}
	if row, err := b.Tune(ctx, l, "small", 2, TuneOptions{Budget: 1}); err != nil || row.End != tune.EndTime || row.Tried != 1 || !row.Few() {
		t.Errorf("%+v, %v", row, err)
	}
}

// TestTurns begins nothing that would end behind the time, if it took as long as the longest but the first.
func TestTurns(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		n                   int
		since, longest, yet time.Duration
		want                bool
	}{
		{0, 0, 0, -time.Hour, true}, {1, time.Hour, 0, time.Minute, true}, {1, 0, 0, -time.Second, false},
		{2, 0, time.Hour, time.Minute, false}, {2, time.Hour, 0, time.Minute, false}, {3, time.Second, time.Second, time.Minute, true},
	} {
		left := turns{until: now.Add(c.yet), last: now.Add(-c.since), n: c.n, longest: c.longest}
		if got := left.next(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		forever := turns{last: now.Add(-c.since), n: c.n, longest: c.longest}
		if !forever.next() {
			t.Errorf("%+v: without a limit there is no time", c)
		}
	}
}

// TestOperandsStay draws the operands of a layer once for all plans and numbers of rows: what one
// measurement leaves on the GPU is found by the next ones. What is drawn is the same as ever.
func TestOperandsStay(t *testing.T) {
	ctx, l := context.Background(), kind(t, "u4 zero", 256, 512)
	b := pretended(t, func(p *ir.Program) float64 { return 7 })
	clock := b.clock
	var held *tune.Held
	var seen []map[*array.Array]bool
	b.held = &tune.Held{}
	b.clock = func(ctx context.Context, p *ir.Program, args []ir.Arg, o tune.Options) (tune.Timing, error) {
		if o.Held == nil || held != nil && o.Held != held {
			t.Error("nothing is held")
		}
		held = o.Held
		all := map[*array.Array]bool{}
		for _, launch := range append(o.Before, tune.Launch{Program: p, Args: args}) {
			for _, a := range launch.Args {
				all[a.Array] = true
			}
		}
		seen = append(seen, all)
		return clock(ctx, p, args, o)
	}
	schedules, err := l.Choices(Decode, 32, 1)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := l.Choices(Wide, 32, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Time(ctx, l, "small", 32, schedules, time.Time{}, nil); err != nil {
		t.Fatal(err)
	}
	x := b.drawn.x
	if _, err := b.Time(ctx, l, "small", 32, wide, time.Time{}, nil); err != nil {
		t.Fatal(err)
	}
	for i, all := range seen {
		for _, a := range append(b.drawn.weights, ir.Arg{Array: x}) {
			if !all[a.Array] {
				t.Errorf("measurement %d of %d draws %s anew", i, len(seen), a.Array.Header())
			}
		}
	}
	if len(seen) < 4 || len(b.drawn.weights) != 3 {
		t.Errorf("%d measurements, %d arrays", len(seen), len(b.drawn.weights))
	}
	draw := func(b *Bench, l Linear, m int) []ir.Arg {
		t.Helper()
		l, err := l.Check()
		if err != nil {
			t.Fatal(err)
		}
		p, err := template.PlanOf(l.Form())
		if err != nil {
			t.Fatal(err)
		}
		args, err := b.operands(ctx, l, p, m)
		if err != nil {
			t.Fatal(err)
		}
		return args
	}
	for _, of := range []Linear{l, kind(t, "u4", 256, 512), kind(t, "f8e4m3", 128, 512)} {
		for _, m := range []int{16, 1, 32} {
			fresh, again := draw(&Bench{d: b.d}, of, m), draw(b, of, m)
			for i := range fresh {
				if !bytes.Equal(fresh[i].Array.Data, again[i].Array.Data) || len(fresh) != len(again) {
					t.Errorf("%s, %d rows: operand %d is another than what is drawn first", of, m, i)
				}
			}
		}
	}
}

// TestBegin has code that is made before there are operands be that which is timed with them.
func TestBegin(t *testing.T) {
	shares, all := 0, 0
	plans := map[string]int{}
	for _, l := range []Linear{kind(t, "u4", 256, 512), kind(t, "u4 zero", 264, 520), kind(t, "nvfp4", 256, 512)} {
		for _, m := range []int{3, 40, 300} {
			b := &Bench{}
			before, err := b.about(l, "small", m)
			if err != nil {
				t.Fatal(err)
			}
			after, err := b.start(context.Background(), l, "small", m)
			if err != nil {
				t.Fatal(err)
			}
			_, choices, err := l.Candidates(m, l.Usual().Plans(m))
			if err != nil {
				t.Fatal(err)
			}
			all += len(choices)
			for _, c := range choices {
				if plans[c.Plan]++; m > 3 && plans[c.Plan] > 12 {
					continue
				}
				c, err := c.filled(after.p)
				if err != nil {
					t.Fatal(err)
				}
				keys := map[string]bool{}
				for _, x := range []*timing{before, after} {
					k, err := x.launches(c)
					if err != nil {
						t.Fatal(err)
					}
					key := ""
					for _, launch := range append(k.before, tune.Launch{Program: k.program, Args: k.args}) {
						if len(launch.Args) != len(launch.Program.Params) {
							t.Errorf("%s, %s: %d arguments for %d parameters", l, c, len(launch.Args), len(launch.Program.Params))
						}
						key += compile.Key(launch.Program, compile.Options{Divisible: compile.Divisors(launch.Program, launch.Args)})
					}
					keys[key] = true
				}
				if len(keys) != 1 {
					t.Errorf("%s, %s: other code without operands than with them", l, c)
				}
				if c.Schedule.Shares() {
					shares++
				}
			}
		}
	}
	if shares == 0 || shares == all {
		t.Errorf("%d of %d schedules share sums", shares, all)
	}
	if len(plans) != 4 {
		t.Errorf("choices by plan: %v", plans)
	}
}

// TestRandomBits gives the same bits however they are asked for, and no piece twice.
func TestRandomBits(t *testing.T) {
	once := randomBits(nil, 9<<20)
	var grown []byte
	for _, n := range []int{1, 100, 4 << 20, 4<<20 + 1, 9 << 20} {
		if grown = randomBits(grown, n); len(grown) < n {
			t.Fatalf("%d bytes, want %d", len(grown), n)
		}
	}
	if !bytes.Equal(grown, once) {
		t.Error("what is grown is not what is made at once")
	}
	ones := 0
	for _, b := range once {
		ones += bits.OnesCount8(b)
	}
	if want := 4 * len(once); ones < want-want/1000 || ones > want+want/1000 {
		t.Errorf("%d of %d bits are set", ones, 8*len(once))
	}
	if bytes.Equal(once[:1024], once[4<<20:][:1024]) || bytes.Equal(once[:1024], once[8<<20:][:1024]) {
		t.Error("pieces are alike")
	}
}

// TestScheduleWithoutStore has products go on where the store is broken.
func TestScheduleWithoutStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuned.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no store", 9999)), 0o644); err != nil {
		t.Fatal(err)
	}
	store, _ := tune.OpenStore(path)
	h200 := device.Info{Title: "NVIDIA H200", Driver: "CUDA 13.0", Arch: "sm_90a"}
	s, from, err := kind(t, "u4", 256, 512).ChooseOn(store, h200, 1, Call{})
	if err != nil || s.Schedule.Rows == 0 || !strings.HasPrefix(from, "model (tune: ") {
		t.Errorf("%+v from %q, %v", s, from, err)
	}
}

// TestInherit has types take schedules of others of their width that are stored alike.
func TestInherit(t *testing.T) {
	for _, c := range []struct{ text, from string }{{"f6e3m2", "table"}, {"f6e2m3", "table"}, {"u6", "table"}, {"i6", "table"}, {"f5e4m0", "table"}, {"f5e4m0 act=bf16", "model"}, {"f8e5m2", "table"}, {"f4e3m0", "table"}, {"u4 zero", "table"}, {"u2 group=channel", "model"}} {
		l := kind(t, c.text, 57344, 8192)
		s, from, err := l.choose(1)
		if err != nil || from != c.from {
			t.Errorf("%s: %+v from %s, %v; want %s", c.text, s, from, err, c.from)
		}
		p, err := template.PlanOf(l.Form())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Filled(p); err != nil {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

// TestDear has types whose casts are dear take schedules of their own where a table has such,
// else those of their width, and others never take theirs.
func TestDear(t *testing.T) {
	stay := func(warps, sides int) template.Schedule {
		return template.Schedule{Rows: 16, Depth: 1, Warps: warps, Sides: sides, Splits: 1, PDL: true, Stages: 4, Blocks: 132}
	}
	var rows []Row
	for i, w := range []string{"u2", "u2 zero", "u8", "i8", "i4", "u8 zero=any", "u4", "f4e3m0"} {
		of, zero, _ := strings.Cut(w, " ")
		r := Row{Weight: of, Zero: zero != "", AnyZero: zero == "zero=any", Act: "f16", Scale: "f16", Group: 128, M: 16, N: 57344, K: 8192, Schedule: stay(4<<(i%2), 1)}
		if w == "u4" {
			r.Schedule = stay(8, 1)
		} else if w == "f4e3m0" {
			r.Schedule = stay(16, 1)
		}
		r.MedianUs = 50
		rows = append(rows, r)
	}
	own, err := Entries(rows)
	if err != nil || len(own) != len(rows) {
		t.Fatalf("%d rows give the entries %+v, %v", len(rows), own, err)
	}
	var widths []Tuned // as a table has them that knows no dear casts
	for _, e := range own {
		if e.Casts == "" {
			widths = append(widths, e)
		}
	}
	written, err := json.Marshal(widths)
	if err != nil || strings.Contains(string(written), "casts") {
		t.Errorf("%s, %v", written, err)
	}
	for _, c := range []struct {
		text      string
		m         int
		own, then int // warps of the schedule of each table; 0 is none
	}{
		{"u2", 16, 4, 4}, {"i2", 16, 4, 4}, {"u2 zero", 16, 8, 4}, {"u8", 16, 4, 4}, {"f8e4m3", 16, 4, 4}, {"f8e6m1", 16, 4, 4}, {"f8e7m0", 16, 4, 4},
		{"u7", 16, 0, 0}, {"f7e5m1", 16, 0, 0}, {"f7e6m0", 16, 0, 0},
		{"i8", 16, 8, 4}, {"f8e1m6", 16, 8, 4}, {"i4", 16, 4, 8}, {"u4", 16, 8, 8}, {"f4e2m1", 16, 16, 8}, {"f4e1m2", 16, 8, 8}, {"f8e3m4", 16, 4, 4}, {"u8 zero=any", 16, 8, 4}, {"u8 zero", 16, 4, 4},
	} {
		l := kind(t, c.text, 57344, 8192)
		p, err := template.PlanOf(l.Form())
		if err != nil {
			t.Fatal(err)
		}
		for i, table := range [][]Tuned{own, widths} {
			want := []int{c.own, c.then}[i]
			s, from, _ := l.find(table, p, c.m)
			if s.Warps != want || (from == "table") != (want > 0) {
				t.Errorf("%s, %d rows, table %d: %d warps, from %q; want %d", c.text, c.m, i, s.Warps, from, want)
			}
			if in, err := l.In(table, c.m); err != nil || (len(in) > 0) != (want > 0) || want > 0 && in[0] != s {
				t.Errorf("%s, %d rows, table %d: also %v, %v", c.text, c.m, i, in, err)
			}
		}
	}
	problems := map[string]bool{}
	for _, c := range []struct {
		text string
		m    int
		own  bool
	}{{"u2", 16, true}, {"u2 zero", 16, true}, {"i2", 16, true}, {"u2", 1, true}, {"i2", 1, true}, {"u8", 16, true}, {"f8e6m1", 16, false}, {"f8e7m0", 16, false}, {"i8", 16, true}, {"u8 zero", 16, true}, {"u8 zero=any", 16, true}} {
		s, err := kind(t, c.text, 57344, 8192).Problem(c.m)
		if err != nil || problems[s] == c.own {
			t.Errorf("%s, %d rows: %q, %v: its own %v", c.text, c.m, s, err, !problems[s])
		}
		problems[s] = true
	}
}

// TestCandidatesFit holds the filter's model to the compiler: of the schedules that are
// timed first none needs more registers than there are, or has blocks without room.
func TestCandidatesFit(t *testing.T) {
	types := []string{"u1", "u4", "f6e3m2", "i5"}
	if testing.Short() {
		types = types[1:2]
	}
	for _, w := range types {
		for _, m := range []int{1, 16, 64, 4096} {
			l := kind(t, w, 8192, 8192)
			candidates, schedules, err := l.Candidates(m, l.Plans(m))
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range candidates[:3] {
				if cost, why := c.Fits("sm_90a", 132); why != "" {
					t.Errorf("%s, %d rows, %s: %s (%d registers)", w, m, c.Name, why, cost.Registers)
				}
				if data, err := json.Marshal(schedules[i]); err != nil || len(data) == 0 {
					t.Error(err)
				}
			}
		}
	}
}

// TestChoosePlain has blocks that stay, or meet as clusters, only where the GPU has tensor copies and
// clusters, and where somebody makes their maps.
func TestChoosePlain(t *testing.T) {
	stay, meet := 0, 0
	for _, name := range []string{"u1", "u3", "i4", "f8e4m3", "u4 zero group=32 act=bf16"} {
		for _, m := range []int{1, 5, 16} {
			for _, size := range [][2]int{{57344, 8192}, {10240, 8192}, {8192, 8192}, {40, 200}} {
				l := kind(t, name, size[0], size[1])
				if s, err := l.Choose(m); err == nil && s.Joint {
					meet++
				} else if err == nil && s.Streams() {
					stay++
				}
				s, err := l.ChoosePlain(m)
				old, _, e := l.ChooseOn(nil, device.Info{Title: "NVIDIA A100", Driver: "CUDA 13.0", Arch: "sm_80"}, m, Call{})
				if err != nil || e != nil || !s.Plain() || old.Plan != Decode || !old.Schedule.Plain() || s.Rows == 0 {
					t.Errorf("%s %v, %d rows: %s, on sm_80 %s, %v, %v", name, size, m, s, old, err, e)
				}
			}
		}
	}
	if stay == 0 || meet == 0 {
		t.Errorf("of what is chosen elsewhere blocks of %d stay, of %d meet", stay, meet)
	}
}

// TestTargets takes schedules that their targets run: only sm_90a has products of warpgroups, and sm_90, which all later GPUs run that
// have no target of their own, has neither clusters nor more shared memory than the smallest of them.
func TestTargets(t *testing.T) {
	other := 0
	for _, name := range []string{"u1", "u3", "i4", "f8e4m3", "u4 zero=any group=32 act=bf16"} {
		for _, m := range []int{1, 16, 64} {
			for _, size := range [][2]int{{64, 64}, {8192, 8192}, {8192, 28672}} {
				l := kind(t, name, size[0], size[1])
				best, _, err := l.ChooseOn(nil, device.Info{Arch: "sm_90a"}, m, Call{})
				if err != nil {
					t.Fatal(err)
				}
				for _, target := range []string{"sm_80", "sm_89", "sm_90", "sm_100", "sm_100a", "sm_103a", "sm_120"} {
					for _, driver := range []string{"CUDA 13.0", ""} {
						c, _, err := l.ChooseOn(nil, device.Info{Driver: driver, Arch: target}, m, Call{})
						if err != nil || c.Plan != Decode || c.Schedule.Warpgroups || target != "sm_100a" && !c.Schedule.Plain() {
							t.Errorf("%s %v, %d rows for %s: %s, %v", name, size, m, target, c, err)
							continue
						}
						if c != best {
							other++
						}
						if driver != "" {
							compiles(t, l, c, target)
						}
					}
				}
			}
		}
	}
	if other == 0 {
		t.Error("sm_90a takes the same")
	}
	for _, target := range []string{"sm_90", "sm_120"} {
		if e, err := kind(t, "i4", 64, 64).Export("of", target, Extra{}, 16); err != nil {
			t.Errorf("%s: %v", target, err)
		} else {
			for _, p := range e.Programs {
				if _, err := ptxOf(p, target); err != nil {
					t.Errorf("%s: %s: %v", target, p.Name, err)
				}
			}
		}
	}
}

// compiles fails where a target does not have what a product by decode asks for.
func compiles(t *testing.T, l Linear, c Choice, target string) {
	t.Helper()
	p, err := template.Decode(l.Form(), c.Schedule)
	if err == nil {
		_, err = ptxOf(p, target)
	}
	if err != nil {
		t.Errorf("%s [%d, %d] for %s, %s: %v", l, l.N, l.K, target, c, err)
	}
}

// ptxOf is a program's text for a target.
func ptxOf(p *ir.Program, target string) (string, error) {
	c, err := compile.Program(p, compile.Options{Arch: target})
	if err != nil {
		return "", err
	}
	return c.PTX()
}

// TestKept takes the shortest program of those that are nearly the fastest, whatever the order
// in which they were timed, and of equally short ones the faster.
func TestKept(t *testing.T) {
	row := func(us float64, bytes int) Row { return Row{Row: tune.Row{MedianUs: us, PTXBytes: bytes}} }
	rows := []Row{row(100, 180), row(100.4, 70), row(100.8, 10), row(100.2, 70)}
	for range rows {
		if got := kept(rows); got.MedianUs != 100.2 || got.FastestUs != 100 {
			t.Errorf("%v: the one of %.1f µs, of %.1f", rows, got.MedianUs, got.FastestUs)
		}
		rows = append(rows[1:], rows[0])
	}
}

// foundFor is a result of another executable for a layer, 16 rows and sm_90a, what it chose, and a store.
func foundFor(t *testing.T, timed Linear, problem string) (Choice, tune.Found, *tune.Store) {
	t.Helper()
	c := Choice{Plan: Decode, Schedule: template.Schedule{Rows: 16, Depth: 1, Warps: 4, Sides: 1, Splits: 1, PDL: true, Stages: 4, Blocks: 4}}
	code, err := c.code(timed, 16, "sm_90a")
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	store, err := tune.OpenStore(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	return c, tune.Found{Problem: problem, Type: timed.String(), Code: code, Schedule: schedule, Build: "another"}, store
}

// TestHoldsFolded holds that what was found for a type of the width holds for another one whose scales have more bits than leave
// weights of the first exact.
func TestHoldsFolded(t *testing.T) {
	asks, timed := kind(t, "f4e2m1 group=32 scalebits=8", 256, 512), kind(t, "u4 group=32 scalebits=3", 256, 512)
	if a, b := asks.Form(), timed.Form(); !a.Exact || !b.Exact || timed.Form().Exacts(8) {
		t.Fatalf("%+v and %+v are not as they were", a, b)
	}
	c, found, store := foundFor(t, timed, "some")
	if got, ok := asks.holds(store, found, 16, "sm_90a"); !ok || got.Schedule != c.Schedule {
		t.Errorf("holds %v: %+v", ok, got)
	}
}

// TestHoldsFactor holds that layers with a factor, whose code is other code, leave what was found without one to layers without one.
func TestHoldsFactor(t *testing.T) {
	plain, factor := kind(t, "u4", 256, 512), kind(t, "u4 factor", 256, 512)
	one, err := plain.Problem(16)
	if other, fail := factor.Problem(16); err != nil || fail != nil || one != other {
		t.Fatalf("%s and %s, %v, %v", one, other, err, fail)
	}
	_, found, store := foundFor(t, plain, one)
	for _, of := range []Linear{factor, plain, factor} {
		if _, ok := of.holds(store, found, 16, "sm_90a"); ok == of.Factor {
			t.Errorf("%s: holds %v", of, ok)
		}
	}
}
