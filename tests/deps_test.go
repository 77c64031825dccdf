package tests

import (
	"os"
	"strings"
	"testing"
)

// TestDependenciesHaveAReason compares go.mod's direct requirements with the
// table in RATIONALE.md, both ways.
func TestDependenciesHaveAReason(t *testing.T) {
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	why, err := os.ReadFile("../RATIONALE.md")
	if err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{}
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && strings.HasPrefix(line, "\t") && !strings.Contains(line, "// indirect") {
			direct[fields[0]] = true
			if !strings.Contains(string(why), "| "+fields[0]+" |") {
				t.Errorf("%s is required by go.mod: say in RATIONALE.md's table what it is for, or drop it", fields[0])
			}
		}
	}
	if len(direct) < 4 {
		t.Fatalf("go.mod has %d direct requirements; is go mod tidy due?", len(direct))
	}
	for line := range strings.Lines(string(why)) {
		if name, ok := strings.CutPrefix(line, "| "); ok {
			name, _, _ = strings.Cut(name, " ")
			if first, _, path := strings.Cut(name, "/"); path && strings.Contains(first, ".") && !direct[name] {
				t.Errorf("RATIONALE.md explains %s, which go.mod does not require directly", name)
			}
		}
	}
}

// TestGophernotesIsPinned holds the peer as a tool of the tools module.
func TestGophernotesIsPinned(t *testing.T) {
	mod, err := os.ReadFile("tools/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "tool github.com/gopherdata/gophernotes") || !strings.Contains(string(mod), "github.com/gopherdata/gophernotes v0.7.5") {
		t.Error("tests/tools/go.mod must pin gophernotes v0.7.5 by a tool line")
	}
}
