package dispatch

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
)

// TestTrace holds the shared form to the events that it is made of, and to its own
// rules, for every scenario.
func TestTrace(t *testing.T) {
	single := 0 // blocks that take one tick
	for _, x := range Examples() {
		r, err := x.Program.Run()
		if err != nil {
			t.Fatal(err)
		}
		tr := r.Trace(x.Program.Title)
		if err := tr.Check(); err != nil {
			t.Errorf("%s: %v", x.Name, err)
		}
		if len(tr.Events) != len(r.Events) {
			t.Errorf("%s: %d events of %d", x.Name, len(tr.Events), len(r.Events))
		}
		running := 0
		for i, e := range tr.Events {
			if own := r.Events[i]; e.Kind != own.Step || e.Text != own.Why || own.Cause >= 0 && e.Causes[0] != own.Cause {
				t.Fatalf("%s: event %d is %v, not %v", x.Name, i, e, own)
			}
			if e.Kind == "finish" && strings.HasSuffix(e.Text, " ends after 1 tick") {
				single++
			}
			if strings.Contains(e.Text, " 1 ticks") {
				t.Errorf("%s: event %d says %q", x.Name, i, e.Text)
			}
			if e.Kind == "start" && e.End > e.Start {
				running++
			}
		}
		if r.Deadlock == nil && running != r.Placed {
			t.Errorf("%s: %d blocks run in the trace, %d of the result", x.Name, running, r.Placed)
		}
		var b bytes.Buffer
		if err := tr.Write(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := trace.Read(&b); err != nil {
			t.Errorf("%s: %v", x.Name, err)
		}
		raw, err := json.Marshal(r)
		if err != nil || !strings.Contains(string(raw), `"format":"tilus-lab-trace"`) {
			t.Errorf("%s: JSON has no trace: %v", x.Name, err)
		}
	}
	if single == 0 {
		t.Error("no block of the examples ends after 1 tick")
	}
	for _, scheduler := range []bool{true, false} {
		events, _, err := CreateQueues(Creation{Scheduler: scheduler, Processes: 7, Queues: 4})
		if err != nil {
			t.Fatal(err)
		}
		if err := QueueTrace("queues", events).Check(); err != nil {
			t.Error(err)
		}
	}
}
