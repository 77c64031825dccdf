package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadConnection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	for _, c := range []struct{ text, err string }{
		{`{"shell_port": 7, "key": "k"}`, ""},
		{`{"shell_port": 7`, "connection file " + path},
		{strings.Repeat(" ", maxConnection-len(`{"shell_port":7}`)) + `{"shell_port":7}`, ""},
		{strings.Repeat(" ", maxConnection) + `{"shell_port":7}`, "more than 65536 bytes"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadConnection(path)
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%.30q: %v", c.text, err)
		case c.err == "" && (err != nil || got.ShellPort != 7 || got.Transport != "tcp" || got.IP != "127.0.0.1"):
			t.Errorf("%.30q: %+v, %v", c.text, got, err)
		}
	}
}
