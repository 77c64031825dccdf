package debugger

import (
	"encoding/json"
	"testing"
)

// Whatever a front end sends, it gets one answer, which is JSON.
func FuzzHandle(f *testing.F) {
	for _, text := range []string{
		`{"seq":1,"type":"request","command":"initialize","arguments":{"clientID":"jupyterlab"}}`,
		`{"seq":2,"type":"request","command":"attach","arguments":{}}`,
		`{"seq":3,"type":"request","command":"dumpCell","arguments":{"code":"a := 1\nb := a"}}`,
		`{"seq":4,"type":"request","command":"setBreakpoints","arguments":{"source":{"path":"x"},"breakpoints":[{"line":2,"condition":"a =="}]}}`,
		`{"seq":5,"type":"request","command":"debugInfo"}`, `{"seq":6,"type":"request","command":"richInspectVariables","arguments":{"variableName":"a","frameId":1}}`,
		`{"seq":7,"type":"request","command":"variables","arguments":{"variablesReference":1}}`, `{"seq":8,"type":"request","command":"source","arguments":{"source":{"path":"x"}}}`,
		`{"seq":9,"type":"request","command":"copyToGlobals","arguments":{"srcVariableName":"a"}}`, `{"seq":10,"type":"request","command":"evaluate","arguments":{"expression":"1+1"}}`,
		`{"seq":11,"type":"request","command":"next","arguments":{"threadId":1}}`, `{"seq":12,"type":"request","command":"stackTrace","arguments":{"threadId":1,"startFrame":-1}}`,
		`{"type":"request","command":"none"}`, `{"type":"event"}`, `[]`, ``,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d := New(Options{
			Event:   func(json.RawMessage) {},
			Lines:   func(code string) []int { return []int{1, 3} },
			Globals: func() []Var { return []Var{{Name: "a", Type: "int", Value: "1", Any: func() any { return 1 }}} },
			Rich:    func(any) (data, metadata map[string]any) { return map[string]any{"text/plain": "1"}, nil },
			Copy:    func(string, Var) error { return nil },
		})
		answers := 0
		d.Handle(raw, func(answer json.RawMessage) {
			if answers++; !json.Valid(answer) {
				t.Errorf("%q is answered by %q", raw, answer)
			}
		})
		if answers != 1 {
			t.Errorf("%q has %d answers", raw, answers)
		}
	})
}
