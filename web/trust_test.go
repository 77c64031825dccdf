package web

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/notebooks"
)

// trust opens a notebook and trusts what it would run.
func (c *client) trust(name string, always bool) {
	c.t.Helper()
	kind, body := c.ask("nb.open", map[string]string{"name": name})
	var x struct{ Asks asking }
	if err := json.Unmarshal([]byte(body), &x); kind != "ok" || err != nil || x.Asks.Sum == "" {
		c.t.Fatalf("%s does not ask for trust: %s", name, body)
	}
	if kind, body := c.ask("nb.trust", map[string]any{"name": name, "sum": x.Asks.Sum, "always": always}); kind != "ok" {
		c.t.Fatal(body)
	}
}

// A notebook that came from elsewhere runs nothing until it is trusted, and asks again
// when it was changed elsewhere.
func TestTrust(t *testing.T) {
	s, base := workingServer(t)
	path := filepath.Join(s.books.dir, "03-other.ipynb")
	other := func(source string) string {
		raw, err := json.Marshal(source)
		must(t, err)
		return strings.Replace(smallBook, `"source": "x"`, `"source": `+string(raw), 1)
	}
	must(t, os.WriteFile(path, []byte(other("import (\n\t\"os\"\n\t\"os/exec\"\n)\nexec.Command(\"true\")")), 0o644))
	c := dial(t, s, base)
	run := func() (string, string) {
		t.Helper()
		return c.ask("nb.run", map[string]string{"name": "03", "cell": "c", "source": "y"})
	}
	refused := func(when string) {
		t.Helper()
		if kind, body := run(); kind != "error" || !strings.Contains(body, "is not trusted") {
			t.Errorf("%s: %s %s", when, kind, body)
		}
	}
	runs := func(when string) {
		t.Helper()
		if kind, body := run(); kind != "ok" {
			t.Errorf("%s: %s %s", when, kind, body)
		}
	}
	refused("before it was opened")
	kind, body := c.ask("nb.open", map[string]string{"name": "03"})
	for _, want := range []string{`"cells":1`, `"lines":5`, "os/exec: starts programs", "os: reads and writes files"} {
		if kind != "ok" || !strings.Contains(body, want) {
			t.Errorf("it asks with %s, want %s", body, want)
		}
	}
	refused("before it was trusted")
	if kind, body := c.ask("nb.trust", map[string]any{"name": "03", "sum": codeOf(nil), "always": true}); kind != "error" || !strings.Contains(body, "not the one that was shown") {
		t.Errorf("trust in other code: %s %s", kind, body)
	}
	refused("after trust in other code")
	c.trust("03", false)
	runs("trusted once")
	if _, err := os.Stat(s.books.trust.path); err == nil {
		t.Error("what is trusted once was kept")
	}
	// What is changed and saved here stays trusted; what is changed elsewhere does not.
	if kind, body := c.ask("nb.save", map[string]any{"name": "03", "cells": []map[string]string{{"id": "c", "type": "code", "source": "mine"}}}); kind != "ok" {
		t.Fatal(body)
	}
	if _, body := c.ask("nb.open", map[string]string{"name": "03"}); strings.Contains(body, `"asks"`) {
		t.Errorf("what was saved here asks: %s", body)
	}
	runs("saved here")
	must(t, os.WriteFile(path, []byte(other("theirs")), 0o644))
	c.ask("nb.open", map[string]string{"name": "03"})
	refused("changed elsewhere")
	c.trust("03", true)
	runs("trusted always")
	if raw, err := os.ReadFile(path); err != nil || string(raw) != other("theirs") {
		t.Errorf("trust changed the notebook: %s %v", raw, err)
	}
	// Always holds for the next explorer too, once does not.
	again := trust{path: s.books.trust.path}
	var nb notebook
	must(t, json.Unmarshal([]byte(other("theirs")), &nb))
	if ok, always := again.has(codeOf(nb.Cells)); !ok || !always {
		t.Error("trust for always was not kept")
	}
	nb.Cells[1].Source = "mine"
	if ok, _ := again.has(codeOf(nb.Cells)); ok {
		t.Error("trust for once was kept")
	}
	if info, err := os.Stat(again.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of trust: %v %v", info, err)
	}
}

// Only so many notebooks run at a time; the next one is told so, and the others go on.
func TestManySessions(t *testing.T) {
	s, base := workingServer(t)
	c := dial(t, s, base)
	run := func(name string) (string, string) {
		return c.ask("nb.run", map[string]string{"name": name, "cell": "c", "source": "y"})
	}
	for i := range maxSessions + 1 {
		name := fmt.Sprintf("%02d-many", 10+i)
		must(t, os.WriteFile(filepath.Join(s.books.dir, name+".ipynb"), []byte(smallBook), 0o644))
		if i == 0 {
			c.trust(name, false) // the others have the same code
		}
		kind, body := run(name)
		if i < maxSessions && kind != "ok" || i == maxSessions && (kind != "error" || !strings.Contains(body, fmt.Sprintf("%d notebooks are running already", maxSessions))) {
			t.Errorf("notebook %d: %s %s", i, kind, body)
		}
	}
	if kind, body := run("10-many"); kind != "ok" {
		t.Errorf("the first does not go on: %s", body)
	}
}

// The lessons are trusted as they are, with outputs or without.
func TestLessonsAreTrusted(t *testing.T) {
	list, err := notebooks.Files.ReadDir(".")
	must(t, err)
	tr := trust{path: filepath.Join(t.TempDir(), "none")}
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), ".ipynb") {
			continue
		}
		raw, err := notebooks.Files.ReadFile(e.Name())
		must(t, err)
		var nb notebook
		must(t, json.Unmarshal(raw, &nb))
		if ok, _ := tr.has(codeOf(nb.Cells)); !ok {
			t.Errorf("%s is not trusted", e.Name())
		}
		nb.Cells = append(nb.Cells, nbCell{Type: "code", Source: "more"})
		if ok, _ := tr.has(codeOf(nb.Cells)); ok {
			t.Errorf("%s with a cell more is trusted", e.Name())
		}
	}
}
