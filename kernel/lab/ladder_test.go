package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadMeasured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.json")
	for _, c := range []struct{ text, err string }{
		{`{"What": "p", "Unit": "TFLOP/s", "Peer": "q", "Rate": 4, "Rows": [{"Name": "v0", "Adds": "all", "Rate": 2}]}`, ""},
		{`{"Rate": 4}`, "no measured rates"},
		{`{"Rows": [{"Name": "v0", "Rate": 1}]}`, "no measured rates"},
		{`[`, "unexpected end"},
		{`{"Rate": 4}` + strings.Repeat(" ", maxMeasured), "more than 1048576 bytes"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := ReadMeasured(path)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%.60s: %v", c.text, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.Picture()
		if err != nil || !strings.Contains(string(p.SVG), "2 TFLOP/s, 50.0 %") {
			t.Errorf("%v\n%s", err, p.SVG)
		}
	}
	if _, err := ReadMeasured(path + "x"); err == nil {
		t.Error("a file that is not there")
	}
}
