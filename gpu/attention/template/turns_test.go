package template

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

var turns = flag.Bool("turns", false, "time what standard input names, line by line: for tests/peers/attention_turns.py")

// wanted is a line of standard input: a shape to load, or, without one, the number of a schedule to time.
type wanted struct {
	Head     int
	Causal   bool
	Seq      int
	Schedule int
}

// candidate is one schedule of the shape that is loaded.
type candidate struct {
	Kernel  string        `json:"kernel"`
	Shape   []int         `json:"shape"`
	Options HopperOptions `json:"options"`
	Hash    string        `json:"hash"`
	Far     float64       `json:"error"` // of what is allowed
	graph   *device.Graph
	n       int // launches
}

// TestGPUHopperTurns is our side of tests/peers/attention_turns.py: it loads a shape and answers with a row for
// each of our schedules, and times one of them, in microseconds, each time it is asked to.
func TestGPUHopperTurns(t *testing.T) {
	if !*turns {
		t.Skip("a child of tests/peers/attention_turns.py")
	}
	q, err := device.NewQueue("cuda")
	need.GPU(t, err, device.ErrNoGPU, howTo)
	var now []*candidate
	var buffers []*device.Buffer
	drop := func() {
		for _, c := range now {
			if err := c.graph.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, b := range buffers {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		now, buffers = nil, nil
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var want wanted
		if err := json.Unmarshal(in.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		var answer any
		if want.Seq > 0 {
			drop()
			if now, buffers, err = load(t, q, want); err != nil {
				t.Fatalf("%+v: %v", want, err)
			}
			answer = now
		} else if answer, err = now[want.Schedule].time(t, q); err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		line, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("row %s\n", line)
	}
	drop()
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

// load makes a graph of launches of every schedule, some milliseconds long, and holds some rows of its result to float64.
func load(t *testing.T, q *device.Queue, want wanted) ([]*candidate, []*device.Buffer, error) {
	w := wave{16384 / want.Seq, 2048 / want.Head, want.Seq, want.Seq}
	o := HopperOptions{Head: want.Head, Causal: want.Causal}
	args := flashArgs(t, o.flash(), w)
	var buffers []*device.Buffer
	values := make([]device.Value, len(args))
	for i, a := range args {
		values[i] = device.Value{Int: a.Int, Float: a.Float}
		if a.Array == nil {
			continue
		}
		b, err := q.NewBuffer(fmt.Sprint("argument ", i), a.Array.Type, a.Array.Len())
		if err != nil {
			return nil, buffers, err
		}
		buffers = append(buffers, b)
		if err := b.Write(a.Array); err != nil {
			return nil, buffers, err
		}
		values[i].Buffer = b
	}
	flops := 4 * float64(w.b) * float64(w.h) * float64(w.m) * float64(w.n) * float64(want.Head)
	kernel := fmt.Sprintf("flash_hopper_%d", want.Head)
	if want.Causal {
		kernel += "_causal"
		flops /= 2
	}
	var all []*candidate
	for _, o := range chosen[want.Head] {
		o.Head, o.Causal = want.Head, want.Causal
		if err := o.defaults(); err != nil {
			return nil, buffers, err
		}
		p, err := FlashHopper(o)
		if err != nil {
			return nil, buffers, err
		}
		c := &candidate{Kernel: kernel, Shape: []int{w.b, w.h, w.m, w.n, want.Head}, Options: o, Hash: tune.Hash(p)}
		c.n = max(1, int(3e-3/(flops/500e12)))
		calls := make([]device.Call, c.n)
		for i := range calls {
			calls[i] = device.Call{Program: p, Args: values}
		}
		if c.graph, err = q.NewGraph("turn", calls...); err != nil {
			return nil, buffers, err
		}
		if _, err := c.graph.Launch(); err != nil {
			return nil, buffers, err
		}
		got := args[3].Array.Clone()
		if err := buffers[3].Read(got); err != nil {
			return nil, buffers, err
		}
		if c.Far = farRows(t, o.flash(), w, args, got, 7); !(c.Far < 1) {
			return nil, buffers, fmt.Errorf("%+v: %.3g of what is allowed", o, c.Far)
		}
		all = append(all, c)
	}
	return all, buffers, nil
}

// time is the median of a launch's time over runs of the graph.
func (c *candidate) time(t *testing.T, q *device.Queue) (float64, error) {
	const runs = 5
	var marks [runs + 1]*device.Mark
	if _, err := c.graph.Launch(); err != nil { // warm
		return 0, err
	}
	for i := range marks {
		var err error
		if marks[i], err = q.Mark(); err != nil {
			return 0, err
		}
		if i == runs {
			break
		}
		if _, err := c.graph.Launch(); err != nil {
			return 0, err
		}
	}
	if err := marks[runs].Wait(t.Context()); err != nil {
		return 0, err
	}
	var us []float64
	for i := range runs {
		took, err := marks[i+1].Since(marks[i])
		if err != nil {
			return 0, err
		}
		us = append(us, float64(took)/float64(time.Microsecond)/float64(c.n))
	}
	for _, m := range marks {
		if err := m.Close(); err != nil {
			return 0, err
		}
	}
	slices.Sort(us)
	return us[runs/2], nil
}

// TestTurnsRecord holds attention by Hopper's means to nine tenths of torch at least, in all shapes that are recorded, in one run.
func TestTurnsRecord(t *testing.T) {
	data, err := os.ReadFile(need.Root(t) + "/tests/record/attention_hopper.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		candidate
		Ratio  float64 `json:"ratio"`
		Peer   string  `json:"peer"`
		Commit string  `json:"commit"`
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range rows {
		seen[fmt.Sprint(r.Kernel, r.Shape)] = true
		p, err := FlashHopper(r.Options)
		if err != nil {
			t.Fatal(err)
		}
		if tune.Hash(p) != r.Hash {
			t.Logf("%s%v is stale: it was measured with another text", r.Kernel, r.Shape)
		}
		if r.Ratio < 0.9 || r.Peer == "" || r.Commit != rows[0].Commit {
			t.Errorf("%s%v: %.3f of %s, commit %s", r.Kernel, r.Shape, r.Ratio, r.Peer, r.Commit)
		}
	}
	if len(seen) != 16 {
		t.Errorf("%d of 16 shapes", len(seen))
	}
}
