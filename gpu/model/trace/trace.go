// Package trace is the one form in which every machine of Tilus Lab tells what
// happened: Volta's tensor core, AMD's dispatch, and the blocks of a launch that an
// attached GPU ran. A trace is a list of events on tracks, and each event names
// those that it could not have happened without. So the same questions, pictures
// and exports serve all of them.
//
// A trace is written as one JSON object with a format name and a version; [Schema]
// is its JSON Schema. [Trace.Chrome] writes the trace-event form that Perfetto and
// chrome://tracing open. The same run gives the same bytes.
package trace

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// Format and Version begin every trace. A reader of version 1 refuses others; names
// are only ever added within a version.
const (
	Format  = "tilus-lab-trace"
	Version = 1
)

// Schema is the JSON Schema of a trace.
//
//go:embed schema.json
var Schema string

// Tag says where what an event tells is known from.
type Tag string

// The tags.
const (
	Vendor   Tag = "vendor"   // the vendor's documents and sources, or decoded machine code
	Paper    Tag = "paper"    // papers, remarks of engineers, measurements of others
	Derived  Tag = "derived"  // calculated from those
	Assumed  Tag = "assumed"  // a choice of the model
	Measured Tag = "measured" // read on the machine that ran it
)

// What made a trace.
const (
	Model       = "model"
	Measurement = "measurement"
)

// Place is the code that does what an event tells, as far as its source is public.
type Place struct {
	Side      string `json:"side"` // "user", "driver", "firmware" or "hardware"
	Component string `json:"component"`
	File      string `json:"file,omitempty"`
	Function  string `json:"function,omitempty"`
}

// Track is who events are of: a line of a chart. Group is the part of the machine
// that it belongs to.
type Track struct {
	Name  string `json:"name"`
	Group string `json:"group"`
}

// Event is something that happened, from Start up to, not including, End; where
// both are equal it has no length.
type Event struct {
	ID     int    `json:"id"`    // its place in the list
	Track  int    `json:"track"` // its place in the list of tracks
	Kind   string `json:"kind"`
	Start  int64  `json:"start"`
	End    int64  `json:"end"`
	Text   string `json:"text"` // one sentence
	Causes []int  `json:"causes,omitempty"`
	Tag    Tag    `json:"tag"`
	Where  *Place `json:"where,omitempty"`
	// About names what it is about, such as "kernel" and "block", or "lane" and
	// "registers"; kinds of one machine use the same names.
	About map[string]string `json:"about,omitempty"`
}

// Trace is what happened on a machine.
type Trace struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Title   string `json:"title"`
	Machine string `json:"machine"`
	Origin  string `json:"origin"`         // [Model] or [Measurement]
	Made    string `json:"made,omitempty"` // when it was measured, UTC
	Unit    string `json:"unit"`           // of Start and End: "cycle", "tick" or "ns"
	End     int64  `json:"end"`            // when everything had happened
	Cut     bool   `json:"cut,omitempty"`  // later events are left out
	// Facts say what the numbers mean and what is assumed.
	Facts  []string `json:"facts,omitempty"`
	Tracks []Track  `json:"tracks"`
	Events []Event  `json:"events"`

	tracks map[Track]int
}

// New is a trace without events.
func New(title, machine, origin, unit string) *Trace {
	return &Trace{Format: Format, Version: Version, Title: title, Machine: machine, Origin: origin, Unit: unit, Tracks: []Track{}, Events: []Event{}}
}

// Add appends an event to a track, which it makes if need be, and returns the
// event's number.
func (t *Trace) Add(group, name string, e Event) int {
	if t.tracks == nil {
		t.tracks = map[Track]int{}
		for i, k := range t.Tracks {
			t.tracks[k] = i
		}
	}
	k := Track{Name: name, Group: group}
	n, ok := t.tracks[k]
	if !ok {
		n = len(t.Tracks)
		t.Tracks, t.tracks[k] = append(t.Tracks, k), n
	}
	e.ID, e.Track = len(t.Events), n
	t.Events = append(t.Events, e)
	t.End = max(t.End, e.End)
	return e.ID
}

// Chain follows first causes back from an event and returns them, the earliest
// first, the event itself last.
func (t *Trace) Chain(id int) []Event {
	var out []Event
	for id >= 0 && id < len(t.Events) {
		e := t.Events[id]
		out = append([]Event{e}, out...)
		if len(e.Causes) == 0 {
			break
		}
		id = e.Causes[0]
	}
	return out
}

// Limits of what is read, so that files of strangers cannot exhaust memory.
const (
	MaxBytes  = 256 << 20
	MaxEvents = 4 << 20
)

// Read reads a trace and checks it.
func Read(r io.Reader) (*Trace, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	if len(raw) > MaxBytes {
		return nil, fmt.Errorf("trace: more than %d bytes", MaxBytes)
	}
	t := &Trace{}
	if err := json.Unmarshal(raw, t); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return t, t.Check()
}

// Check says what is wrong with a trace: a version of others, events of tracks that
// are not there, that end before they begin, or whose causes do not come before them.
func (t *Trace) Check() error {
	switch {
	case t.Format != Format:
		return fmt.Errorf("trace: format %.40q, not %q", t.Format, Format)
	case t.Version != Version:
		return fmt.Errorf("trace: version %d; this program reads %d", t.Version, Version)
	case t.Origin != Model && t.Origin != Measurement:
		return fmt.Errorf("trace: origin %.40q; there are %s and %s", t.Origin, Model, Measurement)
	case t.Unit != "cycle" && t.Unit != "tick" && t.Unit != "ns":
		return fmt.Errorf("trace: unit %.40q; there are cycle, tick and ns", t.Unit)
	case len(t.Events) > MaxEvents:
		return fmt.Errorf("trace: %d events; the most is %d", len(t.Events), MaxEvents)
	}
	for i, e := range t.Events {
		if e.ID != i {
			return fmt.Errorf("trace: event %d has the number %d", i, e.ID)
		}
		if e.Track < 0 || e.Track >= len(t.Tracks) {
			return fmt.Errorf("trace: event %d is on track %d of %d", i, e.Track, len(t.Tracks))
		}
		if e.Start < 0 || e.End < e.Start || e.End > t.End {
			return fmt.Errorf("trace: event %d is from %d to %d of %d", i, e.Start, e.End, t.End)
		}
		switch e.Tag {
		case Vendor, Paper, Derived, Assumed, Measured:
		default:
			return fmt.Errorf("trace: event %d has the tag %.40q", i, e.Tag)
		}
		for _, c := range e.Causes {
			if c < 0 || c >= i {
				return fmt.Errorf("trace: event %d has event %d as a cause, which does not come before it", i, c)
			}
		}
	}
	return nil
}

// Write writes the trace as JSON, an event a line.
func (t *Trace) Write(w io.Writer) error {
	head := *t
	head.Events = []Event{}
	raw, err := json.Marshal(&head)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	const empty = `"events":[]}`
	begin, ok := strings.CutSuffix(string(raw), empty)
	if !ok {
		return errors.New("trace: events are not last")
	}
	var b strings.Builder
	b.WriteString(begin + `"events":[`)
	for i, e := range t.Events {
		raw, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("trace: %w", err)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(raw)
	}
	b.WriteString("\n]}\n")
	_, err = io.WriteString(w, b.String())
	return err
}

// Chrome writes the trace as trace events that Perfetto and chrome://tracing open:
// groups are processes, tracks are threads, causes are arrows. Cycles and ticks
// are shown as microseconds.
func (t *Trace) Chrome(w io.Writer) error {
	type event struct {
		Name  string            `json:"name"`
		Cat   string            `json:"cat,omitempty"`
		Phase string            `json:"ph"`
		Time  float64           `json:"ts"`
		Dur   *float64          `json:"dur,omitempty"`
		Pid   int               `json:"pid"`
		Tid   int               `json:"tid"`
		ID    int               `json:"id,omitempty"`
		Bind  string            `json:"bp,omitempty"`
		Scope string            `json:"s,omitempty"`
		Args  map[string]string `json:"args,omitempty"`
	}
	scale := 1.0
	if t.Unit == "ns" {
		scale = 1e-3
	}
	var out []event
	pids := map[string]int{}
	for i, k := range t.Tracks {
		p, ok := pids[k.Group]
		if !ok {
			p = len(pids) + 1
			pids[k.Group] = p
			out = append(out, event{Name: "process_name", Phase: "M", Pid: p, Args: map[string]string{"name": k.Group}})
		}
		out = append(out, event{Name: "thread_name", Phase: "M", Pid: p, Tid: i + 1, Args: map[string]string{"name": k.Name}})
	}
	arrow := 0
	for _, e := range t.Events {
		args := map[string]string{"why": e.Text, "tag": string(e.Tag)}
		for k, v := range e.About {
			args[k] = v
		}
		if p := e.Where; p != nil {
			args["where"] = strings.Join(strings.Fields(p.Component+" "+p.File+" "+p.Function), " ")
		}
		x := event{Name: e.Kind, Cat: string(e.Tag), Phase: "X", Time: float64(e.Start) * scale, Pid: pids[t.Tracks[e.Track].Group], Tid: e.Track + 1, Args: args}
		if dur := float64(e.End-e.Start) * scale; dur > 0 {
			x.Dur = &dur
		} else {
			x.Phase, x.Scope = "i", "t"
		}
		out = append(out, x)
		for _, c := range e.Causes {
			f := t.Events[c]
			arrow++
			out = append(out,
				event{Name: "cause", Cat: "cause", Phase: "s", ID: arrow, Time: math.Min(float64(f.End), float64(e.Start)) * scale, Pid: pids[t.Tracks[f.Track].Group], Tid: f.Track + 1},
				event{Name: "cause", Cat: "cause", Phase: "f", Bind: "e", ID: arrow, Time: float64(e.Start) * scale, Pid: x.Pid, Tid: x.Tid})
		}
	}
	raw, err := json.Marshal(map[string]any{"traceEvents": out, "otherData": map[string]string{"title": t.Title, "machine": t.Machine, "unit": t.Unit, "format": Format}})
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	_, err = w.Write(append(raw, '\n'))
	return err
}
