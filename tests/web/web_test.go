// Package web drives the explorer in a real browser.
package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/web"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// devices stand in for the worker: the test is about the page.
type devices struct{}

func (devices) Devices(context.Context) ([]web.Device, error) {
	return []web.Device{{Name: "interp", Detail: "reference"}}, nil
}

func (devices) Run(_ context.Context, r web.RunRequest) (web.RunResult, error) {
	return web.RunResult{Device: "interp", Text: r.Device}, nil
}

// lesson holds what must not execute: raw HTML in Markdown, a script in an SVG.
const lesson = `{"cells": [
 {"cell_type": "markdown", "id": "m", "metadata": {}, "source": ["# A lesson\n", "<script>window.executed = 1</script> <img src=x onerror='window.executed = 2'> [x](javascript:window.executed=3)\n"]},
 {"cell_type": "code", "id": "c", "metadata": {}, "source": "x := 1", "execution_count": 1, "outputs": [
  {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "a square", "image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg' width='20' height='20' onload='window.executed = 4'><script>window.executed = 5</script><rect width='20' height='20'/></svg>"}},
  {"output_type": "display_data", "metadata": {}, "data": {"text/plain": "html", "text/html": "<script>window.executed = 6</script>"}},
  {"output_type": "stream", "name": "stdout", "text": "<b>printed</b>\n"}]}
], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}`

// TestExplorerInChromium uses the page as it opens.
func TestExplorerInChromium(t *testing.T) { inChromium(t, "browser.mjs") }

// TestPageInChromium uses editors, panes beside each other, tabs, links between panes,
// and the connection.
func TestPageInChromium(t *testing.T) { inChromium(t, "page.mjs") }

// inChromium serves the explorer and runs a script that opens it.
func inChromium(t *testing.T, script string) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	chromium := need.Chromium(t)
	missing := t.Skip
	if need.Required("chromium") {
		missing = t.Fatal
	}
	node, err := exec.LookPath("node")
	if err != nil {
		missing("node is missing; on Debian: apt-get install nodejs npm")
	}
	modules := filepath.Join(need.Root(t), "tests", ".env", "node")
	if _, err := os.Stat(filepath.Join(modules, "node_modules", "playwright-core")); err != nil {
		missing("playwright-core is missing; run `bash tests/setup/web.sh`")
	}
	data := need.Scratch(t)
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "01-lesson.ipynb"), []byte(lesson), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	start, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- web.Serve(ctx, web.Options{Port: -1, DataDir: data, Root: root, Backend: devices{},
			Sample: web.RunRequest{Program: pane.StartProgram}, Ready: func(s string) { start <- s }})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	var address string
	select {
	case address = <-start:
	case err := <-ended:
		ended <- nil
		t.Fatalf("Serve: %v", err)
	}

	// A notebook with one variable, which changes when the script asks for it.
	client, err := link.Dial(web.SocketPath(data))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	tell := func(text string) {
		v := link.Var{Name: "acc", Type: "layout.Layout", Form: "layout", Text: text}
		if err := client.Send(link.Message{Op: "state", Session: "s1", Title: "test.ipynb", Vars: []link.Var{v}}); err != nil {
			t.Error(err)
		}
	}
	tell("spatial(8, 4)")
	push := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/explore" {
			if err := client.Send(link.Message{Op: "explore", Session: "s1", Explore: &link.Explore{Name: "acc", Form: "layout", Text: "local(2, 1).spatial(8, 4)"}}); err != nil {
				t.Error(err)
			}
		} else {
			tell("local(2, 1).spatial(8, 4)")
		}
		json.NewEncoder(w).Encode("done")
	}))
	defer push.Close()

	run, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(run, node, script, address)
	cmd.Env = append(os.Environ(), "TMPDIR="+need.Scratch(t), "TILUS_NODE="+modules, "TILUS_CHROMIUM="+chromium, "TILUS_PUSH="+push.URL)
	cmd.WaitDelay = 5 * time.Second // Chromium's processes hold the pipe if the script was killed
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("%s: %v", script, err)
	}
}
