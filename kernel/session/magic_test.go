package session_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestMagics(t *testing.T) {
	b := open(t)
	dir := t.TempDir()
	b.ok("!echo hello", "hello\n")
	b.ok("!echo oops >&2", "oops\n") // by itself: two pipes have no order
	b.ok("$echo hello", "hello\n")
	b.ok("%cd "+dir, dir+"\n")
	b.ok("%pwd", dir+"\n")
	b.ok("!pwd", dir+"\n")
	b.ok("%env TILUS_MAGIC=1\n%env TILUS_MAGIC", "1\n")
	b.ok("!echo $TILUS_MAGIC", "1\n")
	b.ok("done := false", "")
	b.ok("!done", "=> true\n")
	b.ok("%who", "done bool  false\n")
	b.ok("%%writefile a.txt\nhello\n  there\n", "a.txt: 14 bytes\n")
	if data, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(data) != "hello\n  there\n" {
		t.Errorf("%q %v", data, err)
	}
	b.ok("%%bash\nfor i in 1 2; do\necho $i\ndone", "1\n2\n")
	b.ok("%device sim\nlab.Check(nil)", "")
	b.ok("// a note\nx := 3\nx % 2", "=> 1\n")
	b.ok("y := 1", "")
	for code, want := range map[string]string{
		"%timeit -n 10 -r 3 x + 1":     `^\S+ \S+ ± \S+ \S+ per turn \(median .*; 3 runs of 10 turns\)\n$`,
		"%time w := 5":                 `^time: \S+ (ns|µs|ms|s)\n$`,
		"%%time\ny = 6\ny":             `(?s)=> 6\n.*time: `,
		"%bench x * 2":                 `(?s)median.*x \* 2`,
		"%%bench\nx * 2\nx * x\n":      `(?s)x \* 2 .* 1\.00.*x \* x`,
		"%device":                      `interp`,
		"%env":                         `TILUS_MAGIC=1`,
		"%%once\nz := 1\nz":            `=> 1`,
		"%time lab.Machine().String()": `time: `,
	} {
		if r, out := b.run(code); r.Status != "ok" || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: %s %v %q, want %s", code, r.Status, r.Traceback, out, want)
		}
	}
	for code, want := range map[string]string{
		"!exit 3":                 "status 3",
		"%nope":                   "no magic %nope",
		"%cd /nonexistent":        "no such file",
		"%env NO_SUCH_VARIABLE":   "no environment variable",
		"%timeit":                 "nothing to time",
		"%timeit -n x 1":          "no count",
		"%device gpu9":            "no device",
		"x := 1\n%time x":         "syntax error",
		"%time x\n%%bash\necho 1": "whole cell",
		"%time nope()":            "cell",
		"%%writefile":             "needs a path",
		"!kill -9 $$":             "killed",
	} {
		if r, _ := b.run(code); r.Status != "error" || !strings.Contains(r.EValue, want) && want != "syntax error" {
			t.Errorf("%s: %s %q, want %q", code, r.Status, r.EValue, want)
		}
	}
}

func TestInterruptCommand(t *testing.T) {
	b := open(t)
	done := b.ahead(t.Context(), "!echo begun; sleep 60 | cat")
	start := time.Now()
	b.Interrupt()
	r := b.end(done)
	if r.EName != "Interrupted" || time.Since(start) > 5*time.Second {
		t.Errorf("%+v after %v", r, time.Since(start))
	}
	b.ok("1 + 1", "=> 2\n")
}

// TestReplay holds replay to its rules: marked cells are left out, and it stops where
// the output is not what it was.
func TestReplay(t *testing.T) {
	b := open(t)
	file := filepath.Join(t.TempDir(), "count")
	b.run("a := 1")
	b.run("%%once\nprintln(99)")
	b.run("%once b := 2")
	b.run("!echo x >> " + file + "; wc -l < " + file)
	b.run("c := a + 1")
	if r, _ := b.run("go func() { panic(1) }()\nselect {}"); !r.Lost {
		t.Fatalf("%+v", r)
	}
	r, err := b.Replay(context.Background(), b.sink)
	if err != nil || r.EName != "ReplayDiffers" || !strings.Contains(r.EValue, "cell 4") {
		t.Fatalf("%+v %v", r, err)
	}
	if vars := b.Vars(); len(vars) != 1 || vars[0].Name != "a" {
		t.Errorf("after the first replay: %+v", vars)
	}
	b.run("!printf '' > " + file)
	b.run("!echo x >> " + file) // so that the count is what the replay before saw
	if r, err = b.Replay(context.Background(), b.sink); err != nil || r.Status != "ok" {
		t.Fatalf("%+v %v", r, err)
	}
	b.ok("a + c", "=> 3\n")
	if strings.Contains(b.text(), "99") {
		t.Error("a cell marked once was replayed")
	}
}
