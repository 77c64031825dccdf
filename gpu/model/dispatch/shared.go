package dispatch

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
)

// Trace is the result in the form that all machines share: ticks, and a track for
// each part of the software, queue, ACE, shader engine and compute unit. An event
// lasts where something waits or works: a packet held, a dealer stalled, a block
// parked or running.
func (r *Result) Trace(title string) *trace.Trace {
	m := r.Machine.filled()
	t := eventTrace(title, fmt.Sprintf("%s, %d shader engines of %d compute units, %d ACEs", m.Name, m.Dies*m.SEs, m.CUs, m.ACEs), r.Events)
	for i, e := range r.Events {
		t.Events[i].End = int64(max(e.Tick, r.until(&r.Events[i])))
		t.End = max(t.End, t.Events[i].End)
	}
	t.Cut = r.Cut
	t.Facts = []string{
		"packets, barrier bit, masks [vendor]",
		"blocks are dealt in order, one slot for each ACE and engine [paper]",
		"engines without units are left out, queues go to ACEs in turn, one packet a turn [assumed]",
		"everything but a block's work takes no time [assumed]",
	}
	return t
}

// until is when what an event begins is over; the event's own tick where it has no
// length.
func (r *Result) until(e *Event) int {
	k := r.Find(e.Kernel)
	if k == nil {
		return e.Tick
	}
	end := func(tick int) int {
		if tick < 0 {
			return r.Ticks // it never ends
		}
		return tick
	}
	block := func() *BlockRun {
		if e.Block < 0 || e.Block >= len(k.Blocks) {
			return &BlockRun{Dealt: int32(e.Tick), Start: int32(e.Tick), Finish: int32(e.Tick)}
		}
		return &k.Blocks[e.Block]
	}
	switch e.Step {
	case "hold":
		return end(k.Launch)
	case "stall":
		return end(int(block().Dealt))
	case "park":
		return end(int(block().Start))
	case "start":
		return end(int(block().Finish))
	}
	return e.Tick
}

// QueueTrace is the story of queues being made, as [CreateQueues] tells it, in the
// form that all machines share.
func QueueTrace(title string, events []Event) *trace.Trace {
	return eventTrace(title, "ROCm and amdkfd", events)
}

func eventTrace(title, machine string, events []Event) *trace.Trace {
	t := trace.New(title, machine, trace.Model, "tick")
	for _, e := range events {
		about := map[string]string{}
		for k, v := range map[string]string{"queue": e.Queue, "kernel": e.Kernel, "data": e.Data} {
			if v != "" {
				about[k] = v
			}
		}
		if e.Block >= 0 {
			about["block"] = strconv.Itoa(e.Block)
		}
		x := trace.Event{Kind: e.Step, Start: int64(e.Tick), End: int64(e.Tick), Text: e.Why, Tag: trace.Tag(e.Tag), About: about}
		if p := e.Place; p.Component != "" {
			x.Where = &trace.Place{Side: p.Side, Component: p.Component, File: p.File, Function: p.Function}
		}
		if e.Cause >= 0 {
			x.Causes = []int{e.Cause}
		}
		side := e.Place.Side
		if side == "" {
			side = "program"
		}
		t.Add(side, e.Actor, x)
	}
	return t
}

// MarshalJSON is the result with its events as a trace.
func (r *Result) MarshalJSON() ([]byte, error) {
	type plain Result
	return json.Marshal(struct {
		*plain
		Trace *trace.Trace `json:"trace"`
	}{(*plain)(r), r.Trace("")})
}
