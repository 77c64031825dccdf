// Package browser uses the built product as a person does: `tilus-lab up` in a
// process of its own, a real JupyterLab, and both in a real Chromium.
//
// Each test runs one script beside this file in Node with playwright-core. With
// TILUS_LAB_SHOTS=FOLDER the scripts leave screenshots there.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

// startLimit is how long a server may take to start on a busy machine.
const startLimit = 90 * time.Second

// tools are the outside programs of every test here.
type tools struct{ chromium, node, modules string }

func find(t *testing.T) tools {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	missing := t.Skip
	if need.Required("chromium") {
		missing = t.Fatal
	}
	f := tools{chromium: need.Chromium(t), modules: filepath.Join(need.Root(t), "tests", ".env", "node")}
	var err error
	if f.node, err = exec.LookPath("node"); err != nil {
		missing("node is missing; on Debian: apt-get install nodejs npm")
	}
	for _, name := range []string{"playwright-core", "axe-core"} {
		if _, err := os.Stat(filepath.Join(f.modules, "node_modules", name)); err != nil {
			missing(name + " is missing; run `bash tests/setup/web.sh`")
		}
	}
	return f
}

// home is a person who has never used the product: an empty home directory and a
// folder of notebooks with copies of those of the repository.
type home struct{ dir, notebooks string }

func newHome(t *testing.T) home {
	t.Helper()
	dir := need.Scratch(t)
	h := home{dir, filepath.Join(dir, "notebooks")}
	if err := os.CopyFS(h.notebooks, os.DirFS(filepath.Join(need.Root(t), "notebooks"))); err != nil {
		t.Fatal(err)
	}
	return h
}

// env is the environment of everything this person starts.
func (h home) env(more ...string) []string {
	var out []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case strings.HasPrefix(name, "JUPYTER"), strings.HasPrefix(name, "XDG_"), strings.HasPrefix(name, "SSH_"),
			name == "HOME", name == "TILUS_LAB_DATA", name == "DISPLAY":
		default:
			out = append(out, e)
		}
	}
	return append(append(out, "HOME="+h.dir, "JUPYTER_CONFIG_DIR="+filepath.Join(h.dir, "jupyter"), "PYTHONWARNINGS=ignore"), more...)
}

// start runs a server until the test ends, then sends SIGINT and waits.
func start(t *testing.T, cmd *exec.Cmd, output func(line string)) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		s := bufio.NewScanner(r)
		for s.Scan() {
			fmt.Fprintln(&log, s.Text())
			output(s.Text())
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGINT)
		stop := time.AfterFunc(15*time.Second, func() {
			t.Errorf("%s does not end on SIGINT", cmd.Path)
			cmd.Process.Kill()
			r.Close()
		})
		<-read
		cmd.Wait()
		stop.Stop()
		if t.Failed() {
			t.Logf("%s printed:\n%s", filepath.Base(cmd.Path), &log)
		}
	})
}

// up starts `tilus-lab up` on a free port and returns the address it prints.
func (h home) up(t *testing.T) string {
	t.Helper()
	exe := need.Program(t)
	cmd := exec.Command(exe, "up", "--no-browser", "--port", "-1", "--notebooks", h.notebooks)
	cmd.Dir, cmd.Env = h.dir, h.env()
	address := make(chan string, 1)
	start(t, cmd, func(line string) {
		if rest, ok := strings.CutPrefix(line, "Explorer "); ok {
			address <- strings.TrimSpace(rest)
		}
	})
	select {
	case a := <-address:
		return a
	case <-time.After(startLimit):
		t.Fatalf("tilus-lab up printed no address in %s", startLimit)
	}
	return ""
}

// jupyter starts JupyterLab in the folder of notebooks. What it returns waits until
// it answers and gives its address; behind that go a path and ?token=tilus.
func (h home) jupyter(t *testing.T) (wait func() string) {
	t.Helper()
	py := need.Jupyter(t)
	settings := filepath.Join(h.dir, "jupyter", "lab", "user-settings", "@jupyterlab")
	for name, text := range map[string]string{
		// The tests look for cells that a window of this size would leave out.
		filepath.Join(settings, "notebook-extension", "tracker.jupyterlab-settings"): `{"windowingMode": "none"}`,
		// No question about news over the page.
		filepath.Join(settings, "apputils-extension", "notification.jupyterlab-settings"): `{"fetchNews": "false", "checkForUpdates": false}`,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	port := freePort(t)
	cmd := exec.Command(py, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
		fmt.Sprint("--ServerApp.port=", port), "--ServerApp.port_retries=0", "--IdentityProvider.token=tilus",
		"--ServerApp.root_dir="+h.notebooks)
	cmd.Dir, cmd.Env = h.dir, h.env()
	start(t, cmd, func(string) {})
	base := fmt.Sprintf("http://127.0.0.1:%d/", port)
	end := time.Now().Add(startLimit)
	return func() string {
		for ; time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if r, err := http.Get(base + "api/status?token=tilus"); err == nil {
				r.Body.Close()
				if r.StatusCode == http.StatusOK {
					return base
				}
			}
		}
		t.Fatalf("JupyterLab does not answer after %s", startLimit)
		return ""
	}
}

// script runs one script with arguments and fails the test with what it printed.
func (f tools) script(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := f.run(t, 9*time.Minute, name, args...)
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// run is what a script prints.
func (f tools) run(t *testing.T, limit time.Duration, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.node, append([]string{name}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+need.Scratch(t), "TILUS_NODE="+f.modules, "TILUS_CHROMIUM="+f.chromium)
	// Chromium's processes go with the script, and hold the pipe if it was killed.
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestExplorer opens the address that `up` prints.
func TestExplorer(t *testing.T) {
	f := find(t)
	f.script(t, "explorer.mjs", newHome(t).up(t))
}

// links are what TestUX has drawn by the command line and by the page. The sheet is
// said, so that the page's own colours do not matter.
var links = map[string]string{
	"layout": "?v=1&p=layout&th=light",
	"dark":   "?v=1&p=layout&th=dark&e=spatial(4,8).local(2,2)",
	"banks":  "?v=1&p=banks&th=light",
	"volta":  "?v=1&p=volta&n=3&th=dark",
	"bench":  "?v=1&p=bench&th=light",
}

// same is a notebook that draws what the layout pane opens with.
var same = []string{"p, err := layoutviz.Tensor(layout.Local(2, 1).Spatial(8, 4).Local(1, 2), layoutviz.Options{})\nlab.Check(err)\np"}

// statements is how many a person can rely on, each in light and dark.
const statements = 15

// TestUX holds what a person can rely on. Each statement is a test of its own, by its
// number, in each of the two themes.
func TestUX(t *testing.T) {
	f := find(t)
	h := newHome(t)
	h.write(t, "same.ipynb", same)
	start := h.up(t)
	exe := need.Program(t)
	drawn := t.TempDir()
	for name, link := range links {
		file := filepath.Join(drawn, name)
		if err := os.WriteFile(file+".link", []byte(link), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(exe, "draw", link, "--out", file+".svg").CombinedOutput(); err != nil {
			t.Fatalf("tilus-lab draw %s: %v\n%s", link, err, out)
		}
	}
	out, err := f.run(t, 15*time.Minute, "ux.mjs", start, drawn)
	if err != nil {
		t.Logf("%s", out)
	}
	found := 0
	for line := range strings.Lines(out) {
		m := verdict.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		found++
		number, _ := strconv.Atoi(m[2])
		t.Run(fmt.Sprintf("%02d %s/%s", number, m[3], m[4]), func(t *testing.T) {
			if m[1] != "ok" {
				t.Error(m[5])
			}
		})
	}
	if found != 2*statements {
		t.Errorf("%d of %d statements were looked at: %v", found, 2*statements, err)
	}
}

// verdict is a line of ux.mjs: ok or FAIL, number, statement, theme and more.
var verdict = regexp.MustCompile(`^(ok|FAIL) (\d+) (.*?) \((light|dark)\) (.*)$`)

// TestPanes looks at each pane in each choice of colours.
func TestPanes(t *testing.T) {
	f := find(t)
	f.script(t, "panes.mjs", newHome(t).up(t))
}

// TestModels opens the panes of the machine models and chooses what they draw.
func TestModels(t *testing.T) {
	f := find(t)
	f.script(t, "models.mjs", newHome(t).up(t))
}

// TestLesson runs the first lesson in the explorer, without Jupyter, and saves it.
func TestLesson(t *testing.T) {
	f := find(t)
	h := newHome(t)
	f.script(t, "lesson.mjs", h.up(t), filepath.Join(h.notebooks, "01-low-precision-matmul.ipynb"))
}

// TestShell uses what stands around the panes.
func TestShell(t *testing.T) {
	f := find(t)
	f.script(t, "shell.mjs", newHome(t).up(t))
}

// TestLessonByKeys works through a lesson without a pointer.
func TestLessonByKeys(t *testing.T) {
	f := find(t)
	h := newHome(t)
	f.script(t, "keys.mjs", h.up(t), filepath.Join(h.notebooks, "04-threads-and-registers.ipynb"))
}

// TestTrust opens a notebook that somebody sent, whose outputs try to run it.
func TestTrust(t *testing.T) {
	f := find(t)
	h := newHome(t)
	attack := `<p>A table</p><script>top.taken = 1; for (const b of parent.document.querySelectorAll("button")) b.click(); top.location = "/taken"</script>` +
		`<form action="/taken" target="_top"><button autofocus onfocus="this.click()">x</button></form><a href="/taken" target="_top" id="a">y</a><img src="x" onerror="top.location='/taken'"><meta http-equiv="refresh" content="0;url=/taken">`
	display := func(kind, text string) any {
		return map[string]any{"output_type": "display_data", "metadata": map[string]any{}, "data": map[string]any{kind: text, "text/plain": "text"}}
	}
	cell := func(id, source string, outputs ...any) any {
		return map[string]any{"cell_type": "code", "id": id, "metadata": map[string]any{"trusted": true}, "execution_count": 1, "source": source, "outputs": outputs}
	}
	raw, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 5, "metadata": map[string]any{"trusted": true}, "cells": []any{
		map[string]any{"cell_type": "markdown", "id": "a", "metadata": map[string]any{}, "source": "# Hello <script>window.taken = 1</script> [x](javascript:window.taken=1)"},
		cell("b", "import (\n\t\"os\"\n)\n\nos.WriteFile(\"mark\", nil, 0o600)", display("text/html", attack), display("image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="top.taken = 1"><script>top.taken = 1</script></svg>`)),
		cell("c", "40 + 2", display("text/html", "<iframe srcdoc=\"<script>top.taken = 1</script>\"></iframe>"), display("text/markdown", "<script>window.taken = 1</script>")),
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(h.notebooks, "other.ipynb")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	f.script(t, "trust.mjs", h.up(t), file, filepath.Join(h.notebooks, "mark"))
}

// TestJupyterLab runs cells in JupyterLab and sees the explorer follow.
func TestJupyterLab(t *testing.T) {
	f := find(t)
	need.Jupyter(t)
	h := newHome(t)
	if err := os.WriteFile(filepath.Join(h.notebooks, "live.ipynb"), []byte(live), 0o644); err != nil {
		t.Fatal(err)
	}
	wait := h.jupyter(t) // takes longest
	start := h.up(t)
	f.script(t, "jupyter.mjs", wait(), start)
}

// TestKernel works with the kernel in JupyterLab as a person does.
func TestKernel(t *testing.T) {
	f := find(t)
	need.Jupyter(t)
	h := newHome(t)
	h.write(t, "work.ipynb", work)
	wait := h.jupyter(t) // takes longest
	h.up(t)              // installs the kernel
	f.script(t, "kernel.mjs", wait(), "work.ipynb", "01-low-precision-matmul.ipynb", "02-volta-tensor-core.ipynb")
}

// TestWidgets moves controls in the explorer's own notebook.
func TestWidgets(t *testing.T) {
	f := find(t)
	h := newHome(t)
	h.write(t, "work.ipynb", work)
	f.script(t, "widget.mjs", h.up(t), "work", filepath.Join(h.notebooks, "work.ipynb"))
}

// write puts a notebook of these code cells into the folder.
func (h home) write(t *testing.T, name string, cells []string) {
	t.Helper()
	var list []any
	for i, source := range cells {
		list = append(list, map[string]any{"cell_type": "code", "id": fmt.Sprint("cell", i), "metadata": map[string]any{}, "execution_count": nil, "outputs": []any{}, "source": source})
	}
	raw, err := json.Marshal(map[string]any{"cells": list, "nbformat": 4, "nbformat_minor": 5, "metadata": map[string]any{
		"kernelspec": map[string]string{"name": "tilus-lab", "display_name": "Tilus Lab (Go)", "language": "go"}, "language_info": map[string]string{"name": "go"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.notebooks, name), raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

// work are cells that people try; the second and third are written in by the script.
var work = []string{
	"L := layout.Local(2, 1).Spatial(8, 4)",
	"",
	"",
	"m := lab.Slider(\"m\", 1, 16, 2)\norder := lab.Select(\"order\", \"spatial\", \"column_spatial\")\nlab.Interact(\"local({m}, 1).{order}(8, 4)\", m, order)",
	"import \"fmt\"\nfmt.Println(m.Int(), order.Text())",
	"n := 0\nfor {\n\tn++\n}",
	"n > 0",
	"lab.Interactive(\"local(2, 1).spatial(8, 4).local(1, 2)\")",
	"p, err := lab.Load(\"matmul_f16_i6\")\nlab.Check(err)\nlab.Interp(p).Live().Run(\"randint:f16[1024, 512]\", \"rand:u8[32, 16, 96]\", \"zeros:f16[1024, 128]\", 1024, 128, 512)\n\"ended\"",
	"display.NewTable(\"op\", \"µs\").Add(\"add\", 1.5).Add(\"dot\", 22)",
	"display.Lines(\"squares\", []float64{0, 1, 4, 9, 16, 25})",
}

// live is a notebook of this test: nothing in it has been run.
const live = `{"cells": [
 {"cell_type": "code", "id": "first", "metadata": {}, "execution_count": null, "outputs": [], "source": "L := layout.Local(2, 1).Spatial(8, 4).Local(1, 2)\nL"},
 {"cell_type": "code", "id": "second", "metadata": {}, "execution_count": null, "outputs": [], "source": "L = layout.Spatial(4, 8).Local(2, 2)"},
 {"cell_type": "code", "id": "third", "metadata": {}, "execution_count": null, "outputs": [], "source": "lab.Explore(layout.ColumnSpatial(2, 16))"},
 {"cell_type": "code", "id": "fourth", "metadata": {}, "execution_count": null, "outputs": [], "source": "T, err := array.Generate(\"iota:f16[4, 4]\")\nlab.Check(err)"}
], "metadata": {"kernelspec": {"name": "tilus-lab", "display_name": "Tilus Lab (Go)", "language": "go"}, "language_info": {"name": "go"}}, "nbformat": 4, "nbformat_minor": 5}`
