package pane

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
)

// Every scenario can be shown in every way, at every corner of the sliders.
func TestDispatchPane(t *testing.T) {
	scenarios := []string{dispatchOwn}
	for _, e := range dispatch.Examples() {
		scenarios = append(scenarios, e.Name)
	}
	for _, s := range scenarios {
		for _, view := range []string{DispatchTime, DispatchWhy, DispatchPackets} {
			for _, more := range []Values{nil, {"a": "1", "k": "yes", "t": "3", "rt": "4.2"}, {"c": "60", "b": "1", "n": "1023", "t": "40", "o": "distributed", "a": "8"}} {
				v := Values{"s": s, "v": view}
				for k, x := range more {
					v[k] = x
				}
				r, err := run(t, "dispatch", v)
				if err != nil || r.Sentence == "" || len(r.Pictures) == 0 && r.Text == "" {
					t.Errorf("%v: %+v, %v", v, r.Sentence, err)
				}
			}
		}
	}
	for _, c := range []struct {
		v    Values
		says string
	}{
		{Values{"v": DispatchStairs, "b": "1024"}, "15 units, packed: 35 ticks. One more, and it is 256"},
		{Values{"v": DispatchQueue}, "run list"},
		{Values{"s": "slow-player"}, "block 6 of victim must go to SE 2"},
		{Values{"s": "deadlock"}, "Deadlock"},
		{Values{"s": "deadlock", "v": DispatchWhy, "n": "1"}, "never started"},
		{Values{"s": "barrier-6x", "rt": dispatchAll}, "ROCm 4.2 takes 14 ticks, ROCm 6.x takes 14 ticks, ROCm 2026 takes"},
		{Values{"s": "streams", "v": DispatchPackets}, "6 packets"},
	} {
		r, err := run(t, "dispatch", c.v)
		if err != nil || !strings.Contains(r.Sentence, c.says) {
			t.Errorf("%v: %q, %v; want %q", c.v, r.Sentence, err, c.says)
		}
	}
}
