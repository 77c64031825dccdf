package session_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/kernel/session"
)

// heard keeps what a cell or a message made happen.
type heard struct {
	mu     sync.Mutex
	states map[string]map[string]any // of widgets, by comm
	shown  []*proto.Bundle
	told   []*proto.Comm
}

func (h *heard) event(ev proto.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case ev.Comm != nil:
		h.told = append(h.told, ev.Comm)
		if ev.Comm.Step == "open" {
			h.states[ev.Comm.ID], _ = ev.Comm.Data["state"].(map[string]any)
		}
	case ev.Bundle != nil:
		h.shown = append(h.shown, ev.Bundle)
	}
}

func (h *heard) find(t *testing.T, model string) string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, s := range h.states {
		if s["_model_name"] == model {
			return id
		}
	}
	t.Fatalf("no %s was opened", model)
	return ""
}

// last is the text of the last thing shown.
func (h *heard) last() (text string, update bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.shown) == 0 {
		return "", false
	}
	b := h.shown[len(h.shown)-1]
	text, _ = b.Data["text/plain"].(string)
	return text, b.Update
}

func TestWidgets(t *testing.T) {
	s := open(t)
	ctx := context.Background()
	h := &heard{states: map[string]map[string]any{}}
	run := func(code string) {
		t.Helper()
		r, err := s.Execute(ctx, session.Request{Code: code, StoreHistory: true}, h.event)
		if err != nil || r.Status != "ok" {
			t.Fatalf("%s: %v %s", code, err, r.EValue)
		}
	}
	move := func(id, key string, v any) {
		t.Helper()
		r, err := s.Comm(ctx, proto.Comm{Step: "msg", ID: id, Data: map[string]any{"method": "update", "state": map[string]any{key: v}, "buffer_paths": []any{}}}, h.event)
		if err != nil || r.Status != "ok" {
			t.Fatalf("comm: %v %s", err, r.EValue)
		}
	}
	run("m := lab.Slider(\"m\", 1, 16, 2)\norder := lab.Select(\"order\", \"spatial\", \"column_spatial\")\nlab.Interact(\"local({m}, 1).{order}(8, 4)\", m, order)")
	if got, _ := h.last(); !strings.Contains(got, "local(2, 1).spatial(8, 4)") {
		t.Errorf("shown: %q", got)
	}
	slider, list := h.find(t, "IntSliderModel"), h.find(t, "DropdownModel")
	move(slider, "value", 4.0)
	if got, update := h.last(); !update || !strings.Contains(got, "local(4, 1).spatial(8, 4)") {
		t.Errorf("after the slider moved: %q, update %t", got, update)
	}
	move(list, "index", 1.0)
	if got, update := h.last(); !update || !strings.Contains(got, "local(4, 1).column_spatial(8, 4)") {
		t.Errorf("after another choice: %q, update %t", got, update)
	}
	run("m.Int() * 10 + len(order.Text())")
	if got, _ := h.last(); got != "54" {
		t.Errorf("the cell reads %q", got)
	}
	// What no slider can send is answered with what the slider has.
	before := len(h.told)
	move(slider, "value", "many")
	move(slider, "value", 99.0)
	if len(h.told) != before+2 {
		t.Errorf("%d answers to wrong values, want 2", len(h.told)-before)
	}
	// A page that opens later asks for everything.
	move2 := proto.Comm{Step: "open", ID: "c1", Target: "jupyter.widget.control", Data: map[string]any{}}
	if _, err := s.Comm(ctx, move2, h.event); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Comm(ctx, proto.Comm{Step: "msg", ID: "c1", Data: map[string]any{"method": "request_states"}}, h.event); err != nil {
		t.Fatal(err)
	}
	answer := h.told[len(h.told)-1]
	states, _ := answer.Data["states"].(map[string]any)
	if one, _ := states[slider].(map[string]any); answer.ID != "c1" || one["model_name"] != "IntSliderModel" {
		t.Errorf("states: %v", answer)
	}
	// A closure of a cell draws.
	h.states = map[string]map[string]any{}
	run("n := lab.Powers(\"n\", 1, 8, 2)\nlab.InteractFunc(func() any { return layout.Local(n.Int(), 1).Spatial(4, 8) }, n)")
	move(h.find(t, "SelectionSliderModel"), "index", 3.0)
	if got, update := h.last(); !update || !strings.Contains(got, "local(8, 1).spatial(4, 8)") {
		t.Errorf("after the slider of a closure moved: %q, update %t", got, update)
	}
	// A closure that panics says so in its place.
	h.states = map[string]map[string]any{}
	run("z := lab.Slider(\"z\", 0, 3, 1)\nlab.InteractFunc(func() any { return 6 / z.Int() }, z)")
	move(h.find(t, "IntSliderModel"), "value", 0.0)
	if got, _ := h.last(); !strings.Contains(got, "divide by zero") {
		t.Errorf("after a panic: %q", got)
	}
	move(h.find(t, "IntSliderModel"), "value", 3.0)
	if got, _ := h.last(); got != "2" {
		t.Errorf("after a panic and a good value: %q", got)
	}
}
