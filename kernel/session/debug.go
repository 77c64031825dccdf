package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// Debug hands a debug request of the front end to the worker, beside the cells, and returns the response. Events of the debugger
// reach subscribers (see Subscribe). A worker that takes the place of a lost one is told what the front end had asked for.
func (s *Session) Debug(ctx context.Context, request json.RawMessage) (json.RawMessage, error) {
	ev, err := s.askCtx(ctx, proto.Request{Op: proto.OpDebug, Params: request})
	if err != nil {
		return nil, err
	}
	if ev.Error != nil {
		return nil, fmt.Errorf("session: debug: %s", ev.Error.Value)
	}
	s.debugging.asked(request)
	return ev.Returned, nil
}

// debugging is what a fresh worker must know of a debugger that is attached.
type debugging struct {
	mu      sync.Mutex
	told    []told
	stopped bool
}

// told is a request to repeat; a later one of the same key replaces it.
type told struct {
	key     string
	request json.RawMessage
}

// asked remembers a request that went well.
func (d *debugging) asked(raw json.RawMessage) {
	var r struct {
		Command   string `json:"command"`
		Arguments struct {
			Code   string `json:"code"`
			Source struct {
				Path string `json:"path"`
			} `json:"source"`
		} `json:"arguments"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := r.Command
	switch r.Command {
	case "disconnect", "terminate":
		d.told = nil
		return
	case "attach", "setExceptionBreakpoints":
	case "dumpCell":
		key += " " + r.Arguments.Code
	case "setBreakpoints":
		key += " " + r.Arguments.Source.Path
	default:
		return
	}
	d.told = slices.DeleteFunc(d.told, func(t told) bool { return t.key == key })
	if d.told = append(d.told, told{key, raw}); len(d.told) > 1000 {
		d.told = d.told[1:]
	}
}

// event notes whether something stands still.
func (d *debugging) event(raw json.RawMessage) {
	var e struct {
		Event string `json:"event"`
	}
	if json.Unmarshal(raw, &e) != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e.Event {
	case "stopped":
		d.stopped = true
	case "continued":
		d.stopped = false
	}
}

// lost is the event that tells a front end that what stood still is gone with its worker, nil where nothing did.
func (d *debugging) lost() json.RawMessage {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		return nil
	}
	d.stopped = false
	return json.RawMessage(`{"type":"event","event":"continued","seq":0,"body":{"threadId":1,"allThreadsContinued":true}}`)
}

// again repeats to a fresh worker what was asked of the one before.
func (d *debugging) again(w *worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.told {
		// Its responses have no address and are dropped.
		if w.send(proto.Request{Op: proto.OpDebug, Params: t.request}) != nil {
			return
		}
	}
}
