// Package notebooks runs the lessons as readers do, through Jupyter and through
// `tilus-lab nb run`, and compares what they print with what is committed. After a
// change that means to print something else,
//
//	go test ./tests/notebooks -run Jupyter -update
//
// runs them through Jupyter and stores the outputs; look at the diff.
package notebooks

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/kernel"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

var (
	update   = flag.Bool("update", false, "store the outputs of the lessons")
	executed = flag.String("executed", "", "compare this executed lesson, from a GPU machine for example, with the committed one of the same name")
)

// lessons are the committed notebooks.
func lessons(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(need.Root(t), "notebooks", "*.ipynb"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no lessons found: %v", err)
	}
	return list
}

func lesson(t *testing.T, path string) (*notebook, []*regexp.Regexp) {
	t.Helper()
	nb, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	mask, err := nb.mask()
	if err != nil {
		t.Fatalf("metadata.tilus_lab.mask: %v", err)
	}
	return nb, mask
}

// environment is that of a user who has nothing of ours: no explorer to talk to,
// and the device of the committed outputs.
func environment(t *testing.T, more ...string) []string {
	t.Helper()
	return append(os.Environ(), append([]string{"TILUS_LAB_DEVICE=interp", "TILUS_LAB_DATA=" + t.TempDir()}, more...)...)
}

func TestLessonsThroughJupyter(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the lessons through Jupyter")
	}
	python := need.Jupyter(t)
	prefix := t.TempDir()
	if _, err := kernel.Install(kernel.InstallOptions{Prefix: prefix, Exe: need.Program(t)}); err != nil {
		t.Fatal(err)
	}
	for _, path := range lessons(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.ipynb")
			cmd := exec.Command(python, "run.py", path, out)
			cmd.Env = environment(t, "JUPYTER_PATH="+filepath.Join(prefix, "share", "jupyter"), "JUPYTER_DATA_DIR="+t.TempDir())
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("run.py: %v\n%s", err, text)
			}
			check(t, path, out, *update)
		})
	}
}

func TestLessonsWithoutJupyter(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the lessons")
	}
	for _, path := range lessons(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.ipynb")
			cmd := exec.Command(need.Program(t), "nb", "run", path, "--device", "interp", "--quiet", "--out", out)
			cmd.Env = environment(t)
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("tilus-lab nb run: %v\n%s", err, text)
			}
			check(t, path, out, false)
		})
	}
}

// TestExecutedElsewhere compares what another machine printed.
func TestExecutedElsewhere(t *testing.T) {
	if *executed == "" {
		t.Skip("give -executed FILE, made by `tilus-lab nb run NOTEBOOK --out FILE` on another machine")
	}
	check(t, filepath.Join(need.Root(t), "notebooks", filepath.Base(*executed)), *executed, false)
	if *keep && !t.Failed() {
		nb, err := read(*executed)
		if err != nil {
			t.Fatal(err)
		}
		keepRecord(t, filepath.Base(*executed), nb)
	}
}

// check compares the outputs of the executed notebook with the committed ones, or
// stores them.
func check(t *testing.T, path, executed string, store bool) {
	t.Helper()
	want, mask := lesson(t, path)
	got, err := read(executed)
	if err != nil {
		t.Fatal(err)
	}
	if store {
		if err := storeOutputs(want, got); err != nil {
			t.Fatal(err)
		}
		if err := want.write(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	if list := differences(got, want, mask); len(list) > 0 {
		t.Errorf("%s prints something else than what is committed (if that is meant, go test ./tests/notebooks -run Jupyter -update):\n%s", filepath.Base(path), strings.Join(list, "\n"))
	}
}

var machineLine = regexp.MustCompile(`(?m)^machine: (.*), (\d{4}-\d\d-\d\d \d\d:\d\d UTC)$`)

// storeOutputs takes over outputs, and machine and date from what a cell printed.
func storeOutputs(nb, executed *notebook) error {
	ours := nb.metadata("tilus_lab")
	for i, c := range nb.cells {
		if c["cell_type"] != "code" {
			continue
		}
		c["outputs"], c["execution_count"] = merged(executed.cells[i]["outputs"]), executed.cells[i]["execution_count"]
		for _, o := range outputs(c) {
			if m := machineLine.FindStringSubmatch(o.data["text/plain"]); m != nil {
				ours["machine"], ours["date"] = m[1], m[2]
			}
		}
	}
	return nil
}

// merged joins neighbouring parts of a stream, where it was cut is a matter of
// time, and leaves out what only a running kernel can show.
func merged(outputs any) []any {
	list, _ := outputs.([]any)
	out := []any{}
	for _, x := range list {
		m, _ := x.(map[string]any)
		if data, ok := m["data"].(map[string]any); ok {
			delete(data, controlMIME)
		}
		if n := len(out); n > 0 && m["output_type"] == "stream" {
			if last := out[n-1].(map[string]any); last["output_type"] == "stream" && last["name"] == m["name"] {
				text := []any{}
				for line := range strings.Lines(joined(last["text"]) + joined(m["text"])) {
					text = append(text, line)
				}
				last["text"] = text
				continue
			}
		}
		out = append(out, m)
	}
	return out
}

// TestCommittedOutputs checks what a reader sees before anything has run, in a
// front end that does not trust the notebook: there SVG, HTML and scripts are not
// shown, so a picture needs its PNG, and text its plain form.
func TestCommittedOutputs(t *testing.T) {
	for _, path := range lessons(t) {
		nb, mask := lesson(t, path)
		name := filepath.Base(path)
		if info, err := os.Stat(path); err != nil || info.Size() > 4<<20 {
			t.Errorf("%s: more than 4 MiB, or %v", name, err)
		}
		if spec := nb.metadata("kernelspec"); spec["name"] != kernel.SpecName || spec["language"] != "go" {
			t.Errorf("%s: kernelspec is %v", name, spec)
		}
		ours := nb.metadata("tilus_lab")
		if ours["machine"] == nil || ours["date"] == nil || len(mask) == 0 {
			t.Errorf("%s: metadata.tilus_lab names no machine, date or mask: %v", name, ours)
		}
		pictures := 0
		for i, c := range nb.cells {
			if c["cell_type"] == "code" && c["execution_count"] == nil {
				t.Errorf("%s: cell %d has not been run", name, i+1)
			}
			for _, o := range outputs(c) {
				switch {
				case o.kind == "error" || o.kind == "stderr":
					t.Errorf("%s: cell %d: %s: %s", name, i+1, o.kind, o.data["text/plain"])
				case o.data["text/plain"] == "":
					t.Errorf("%s: cell %d: an output has no text", name, i+1)
				case o.data["application/javascript"] != "":
					t.Errorf("%s: cell %d: a script", name, i+1)
				case strings.Contains(o.data["text/html"], "<svg"), strings.Contains(o.data["text/html"], "<script"):
					t.Errorf("%s: cell %d: a picture or script as HTML", name, i+1)
				case o.data["image/svg+xml"] != "":
					pictures++
					raw, err := base64.StdEncoding.DecodeString(o.data["image/png"])
					if err == nil {
						_, err = png.Decode(bytes.NewReader(raw))
					}
					if err != nil {
						t.Errorf("%s: cell %d: an SVG without its PNG: %v", name, i+1, err)
					}
				}
			}
		}
		if pictures == 0 {
			t.Errorf("%s: no pictures", name)
		}
	}
}

// TestMask shows that the comparison looks past times and machines, and at
// everything else.
func TestMask(t *testing.T) {
	mask := []*regexp.Regexp{regexp.MustCompile(`\d+\.\d{3} ms`), regexp.MustCompile(`(?m)^machine: .*$`)}
	make := func(parts ...string) *notebook {
		var list []any
		for _, s := range parts {
			list = append(list, map[string]any{"output_type": "stream", "name": "stdout", "text": s})
		}
		return &notebook{cells: []map[string]any{{"id": "a", "source": "f()", "outputs": list}}}
	}
	want := make("ran in 12.345 ms\n7\nmachine: mine\n")
	for _, c := range []struct {
		got  *notebook
		same bool
	}{
		{make("ran in 1.000 ms\n7\nmachine: yours\n"), true},
		{make("ran in 1.0", "00 ms\n7\n", "machine: yours\n"), true},
		{make("ran in 12.345 ms\n8\nmachine: mine\n"), false},
		{make("ran in 12.345 ms\n7\nmachine: mine\nmore\n"), false},
		{make(), false},
	} {
		if list := differences(c.got, want, mask); (len(list) == 0) != c.same {
			t.Errorf("%v: %v", c.got.cells[0]["outputs"], list)
		}
	}
}

func TestDataIsWhatItsScriptMade(t *testing.T) {
	dir := filepath.Join(need.Root(t), "notebooks", "data")
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := sha256.Sum256(raw); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s has SHA-256 %x, not %s", name, got, sum)
		}
		if len(raw) > 1<<20 {
			t.Errorf("%s has more than 1 MiB", name)
		}
		listed[name] = true
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.npy"))
	for _, f := range files {
		if !listed[filepath.Base(f)] {
			t.Errorf("%s is not in SHA256SUMS", f)
		}
	}
}

// solutions are what a reader would put into the exercise cells, by cell id.
var solutions = map[string]map[string]string{
	"01-low-precision-matmul.ipynb": {
		"exercise-a": "tile := layout.Local(4, 1).ColumnSpatial(4, 8).Local(2, 1)\nfive := layout.Local(5).Spatial(32)",
		"exercise-b": "answer := dtype.I5",
	},
	"02-volta-tensor-core.ipynb": {
		"exercise-a": `answerA := "c"`, "exercise-b": `answerB := "5, 13"`, "exercise-c": `answerC := "a"`, "exercise-d": `answerD := "3, 4, 3"`,
	},
	"03-dispatch-and-occupancy.ipynb": {
		"exercise-a": `answerA := "11 10 10 0"`, "exercise-b": `answerB := "c"`, "exercise-c": `answerC := "a"`,
	},
	"04-threads-and-registers.ipynb": {
		"exercise-a": `answerA := "1, 6"`, "exercise-b": `answerB := "7, 7"`, "exercise-c": "answerC := layout.Spatial(32, 4).Local(1, 8)",
	},
	"05-layout-product-and-division.ipynb": {
		"exercise-a": `answerA := "local(1, 2).spatial(4, 2).local(2, 1)"`, "exercise-b": `answerB := "local(1, 2).spatial(16, 2).local(2, 3)"`, "exercise-c": `answerC := "none"`,
	},
	"06-swizzles-and-banks.ipynb": {
		"exercise-a": `answerA := "4"`, "exercise-b": `answerB := "8"`, "exercise-c": `answerC := "2, 4, 3"`,
	},
	"07-ldmatrix-and-mma.ipynb": {
		"exercise-a": `answerA := "20, 5"`, "exercise-b": `answerB := "30, 2"`, "exercise-c": `answerC := "12, 3"`,
	},
	"08-reinterpretation-and-odd-widths.ipynb": {
		"exercise-a": `answerA := "6, 7, 6"`, "exercise-b": `answerB := "spatial(32).local(10)"`, "exercise-c": `answerC := "5"`,
	},
	"09-your-first-vm-program.ipynb": {
		"exercise-a": `%%tile mine
program mine<(n + 127)/128>(x: *f32, y: *f32, n: i32) warps=1 {
	i = BlockIndices()
	gx = ViewGlobal(x) : global f32[n]
	gy = ViewGlobal(y) : global f32[n]
	r = LoadGlobal(gx, offset=[i*128]) : register f32[128] spatial(32).local(4)
	d = Mul(r, 2) : register f32[128] spatial(32).local(4)
	e = Add(d, 1) : register f32[128] spatial(32).local(4)
	StoreGlobal(gy, e, offset=[i*128])
}`,
		"exercise-b": `answerB := "4, 3, 4, 2, 4, 1"`, "exercise-c": `answerC := "28 92 156 220"`,
	},
	"11-fusions-and-indexing-maps.ipynb": {
		"exercise-a": `answerA := "11, 1"`, "exercise-b": `answerB := "d"`, "exercise-c": `answerC := "9"`,
	},
	"12-low-bit-linear-layer.ipynb": {
		"exercise-a": `answerA := "i7"`, "exercise-b": "answerB := 3.75", "exercise-c": `answerC := "u5 zero group=64"`,
	},
	"10-software-pipelining.ipynb": {
		"exercise-a": `answerA := "8000"`, "exercise-b": `answerB := "2500"`, "exercise-c": `answerC := 5`,
	},
}

// solve puts an answer into an exercise cell: in place of the line that defines the
// same variable, which may stand below the question, or of the whole cell.
func solve(source, answer string) string {
	name, _, _ := strings.Cut(answer, ":=")
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `:=.*$`)
	if strings.Contains(answer, "\n") || !line.MatchString(source) {
		return answer
	}
	return line.ReplaceAllLiteralString(source, answer)
}

// TestExercisesCanBeSolved checks that each exercise says "not yet" as committed,
// and "right" when it is solved.
func TestExercisesCanBeSolved(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the lessons")
	}
	for _, path := range lessons(t) {
		t.Run(filepath.Base(path), func(t *testing.T) { canBeSolved(t, path) })
	}
}

func canBeSolved(t *testing.T, path string) {
	t.Helper()
	nb, _ := lesson(t, path)
	answers := solutions[filepath.Base(path)]
	exercises := 0
	for _, c := range nb.cells {
		id, _ := c["id"].(string)
		if answer, ok := answers[id]; ok {
			c["source"] = solve(joined(c["source"]), answer)
		}
		if _, ok := strings.CutPrefix(id, "check-"); ok {
			exercises++
			if text := outputs(c); len(text) != 1 || !strings.Contains(text[0].data["text/plain"], "not yet") {
				t.Errorf("%s: %s as committed: %v", filepath.Base(path), id, text)
			}
		}
	}
	if exercises != len(answers) || exercises == 0 {
		t.Errorf("%s has %d checked exercises, and %d solutions here", filepath.Base(path), exercises, len(answers))
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "data"), os.DirFS(filepath.Join(filepath.Dir(path), "data"))); err != nil {
		t.Fatal(err)
	}
	solved := filepath.Join(dir, filepath.Base(path))
	if err := nb.write(solved); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(need.Program(t), "nb", "run", solved, "--device", "interp", "--quiet", "--out", solved)
	cmd.Env = environment(t)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tilus-lab nb run: %v\n%s", err, text)
	}
	ran, err := read(solved)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range ran.cells {
		if id, _ := c["id"].(string); strings.HasPrefix(id, "check-") {
			if out := outputs(c); len(out) != 1 || !regexp.MustCompile(`(?m)^right`).MatchString(out[0].data["text/plain"]) {
				t.Errorf("%s: %s with the solution: %v", filepath.Base(path), id, out)
			}
		}
	}
}
