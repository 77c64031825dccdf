package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/kernel/session"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
	"github.com/tilus-lab/tilus-lab/web"
)

// TestHelp holds every command to a help text, an example that parses, and
// flags with a description.
func TestHelp(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		if c.Hidden || c.HasSubCommands() {
			return
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short help %q", c.CommandPath(), c.Short)
		}
		for _, line := range strings.Split(c.Long, "\n") {
			if len(line) > 100 {
				t.Errorf("%s: a line of help has %d characters", c.CommandPath(), len(line))
			}
		}
		if c.Flags().HasFlags() && c.Example == "" {
			t.Errorf("%s has flags and no example", c.CommandPath())
		}
		for _, line := range strings.Split(c.Example, "\n") {
			if line != "" && !strings.HasPrefix(line, "  "+c.CommandPath()) {
				t.Errorf("%s: example %q", c.CommandPath(), line)
			}
		}
	}
	visit(newRoot())
}

func TestEveryCorpusRuleIsExplained(t *testing.T) {
	n := 0
	for _, name := range corpus.Errors() {
		for _, f := range corpus.Broken(name) {
			for _, m := range wants.FindAllStringSubmatch(string(f.Data), -1) {
				for _, code := range strings.Fields(m[1]) {
					n++
					if err := explain(&bytes.Buffer{}, code); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		}
	}
	if n == 0 {
		t.Error("the corpus breaks no rule")
	}
}

// TestEveryCodeIsExplained finds the codes that messages of any package name. Those
// of instructions are numbered by the table; all others stand in the source as they
// are printed, so that they can be found.
func TestEveryCodeIsExplained(t *testing.T) {
	whole := regexp.MustCompile(`^[A-Z][A-Za-z0-9]*\.[A-Z][0-9]+$`)
	inText := regexp.MustCompile(`\[([A-Z][A-Za-z0-9]*\.[A-Z][0-9]+)\]`)
	pieces := regexp.MustCompile(`(^|[ \[])((%[sv]|[A-Z][A-Za-z0-9]*)\.[A-Z](%[dv]|$)|\.[A-Z]%[dv]|\.[CEGN]$)`)
	built := map[string]bool{filepath.Join("..", "..", "vm", "ir", "op.go"): true} // Op.Code, below
	known := map[string]bool{}
	for _, r := range rules() {
		if known[r.Code] {
			t.Errorf("%s is explained twice", r.Code)
		}
		if r.Text == "" {
			t.Errorf("%s is not explained", r.Code)
		}
		known[r.Code] = true
	}
	n := 0
	need := func(code, where string) {
		n++
		if !known[code] {
			t.Errorf("%s names %s; add it to the package's table of rules", where, code)
			known[code] = true
		}
	}
	for _, op := range ir.Ops() {
		for i := range op.Rules {
			need(op.Code(i), "vm/ir: "+op.Name)
		}
	}
	for _, dir := range []string{"vm", "gpu", "layoutviz", "kernel", "web"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(d.Name(), "zsym_") {
				return err
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				lit, ok := node.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				s, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Error(err)
				}
				where := fset.Position(lit.Pos()).String()
				if whole.MatchString(s) {
					need(s, where)
				}
				for _, m := range inText.FindAllStringSubmatch(s, -1) {
					need(m[1], where)
				}
				if pieces.MatchString(s) && !built[path] {
					t.Errorf("%s: %s makes a code while running; write codes out, so that this test finds them", where, lit.Value)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 100 {
		t.Errorf("only %d codes found", n)
	}
	for _, code := range []string{"Type.N1", "Array.N2", "Array.N4", "Run.E5", "Layout.E14", "View.C2"} {
		if err := explain(&bytes.Buffer{}, code); err != nil {
			t.Error(err)
		}
	}
}

func TestFindJupyter(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	lesson := filepath.Join(root, "sub", "01.ipynb")
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("jpserver-1.json", "{")
	put("jpserver-2.json", fmt.Sprintf(`{"url":"http://%s/","root_dir":%q,"token":"x"}`, "127.0.0.1:1", root)) // where nobody listens
	put("jpserver-3.json", fmt.Sprintf(`{"url":"http://%s/","root_dir":%q,"token":"x"}`, ln.Addr(), t.TempDir()))
	if got, ok := findJupyter(dir, lesson); ok {
		t.Errorf("found %s", got)
	}
	put("jpserver-4.json", fmt.Sprintf(`{"url":"http://%s/base/","root_dir":%q,"token":"s t"}`, ln.Addr(), root))
	want := fmt.Sprintf("http://%s/base/lab/tree/sub/01.ipynb?token=s+t", ln.Addr())
	if got, ok := findJupyter(dir, lesson); !ok || got != want {
		t.Errorf("found %q, want %q", got, want)
	}
	env := map[string]string{"JUPYTER_RUNTIME_DIR": dir}
	if got := jupyterRuntimeDir(func(k string) string { return env[k] }); got != dir {
		t.Errorf("runtime folder %s", got)
	}
}

func TestHints(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, firstLesson), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"JUPYTER_RUNTIME_DIR": root, "SSH_CONNECTION": "1.1.1.1 5 2.2.2.2 22"}
	got := hints(func(k string) string { return env[k] }, "https://h.example/p/?token=a", "https://h.example/p/?token=b", root)
	if !strings.Contains(got, "https://h.example/p/nb/01?token=b\n") {
		t.Errorf("hints:\n%s", got)
	}
	// A page that a proxy shows needs no tunnel.
	if strings.Contains(got, "ssh -L") {
		t.Errorf("hints:\n%s", got)
	}
	got = hints(func(k string) string { return env[k] }, "http://127.0.0.1:7717/?token=a", "", t.TempDir())
	if got != "SSH       ssh -L 7717:127.0.0.1:7717 2.2.2.2 (on your own machine, then open the address there)\n" {
		t.Errorf("hints:\n%s", got)
	}
}

// TestBackend runs the explorer's sample in a worker, and again in a fresh one
// after the first died.
func TestBackend(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// TestMain acts as the command under this name.
	link := filepath.Join(t.TempDir(), "tilus-lab")
	if err := os.Symlink(exe, link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	b := newBackend(session.Options{Exe: []string{link, "worker"}})
	defer b.close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	list, err := b.Devices(ctx)
	names := fmt.Sprint(list)
	if err != nil || !strings.Contains(names, "interp") || !strings.Contains(names, "sim") {
		t.Fatalf("devices %v, %v", list, err)
	}
	r := sample()
	for _, r.Device = range []string{"interp", "sim"} {
		got, err := b.Run(ctx, r)
		if err != nil || got.Device != r.Device || !strings.Contains(got.Text, "c = f32[32, 16]") {
			t.Errorf("%+v, %v", got, err)
		}
	}
	r.Args[0] = "x.npy"
	if _, err := b.Run(ctx, r); err == nil || !strings.Contains(err.Error(), "Array.N") {
		t.Errorf("a page read a file: %v", err)
	}
	p, err := os.FindProcess(b.sess.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err = b.Devices(ctx); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after the worker died: %v", err)
		}
	}
	var none web.RunRequest
	if _, err := b.Run(ctx, none); err == nil {
		t.Error("an empty program ran")
	}
}

func TestOutputs(t *testing.T) {
	var o outputs
	stream := func(name, text string) proto.Event {
		return proto.Event{Kind: proto.KindStream, Stream: &proto.Stream{Name: name, Text: text}}
	}
	show := func(text, id string, update bool) proto.Event {
		return proto.Event{Kind: proto.KindDisplay, Bundle: &proto.Bundle{Data: map[string]any{"text/plain": text, "image/png": "QUJD"}, DisplayID: id, Update: update}}
	}
	for _, ev := range []proto.Event{
		stream("stdout", "gone\n"),
		{Kind: proto.KindClear, Clear: &proto.Clear{Wait: true}},
		stream("stdout", "a\n"), stream("stdout", "b"), stream("stderr", "c"),
		show("old", "d", false), show("new", "d", true),
		{Kind: proto.KindError, Error: &proto.Error{Name: "E", Value: "v"}},
	} {
		o.add(ev)
	}
	raw, err := json.Marshal(o.list(3))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"stdout","output_type":"stream","text":["a\n","b"]},` +
		`{"name":"stderr","output_type":"stream","text":["c"]},` +
		`{"data":{"image/png":"QUJD","text/plain":["new"]},"metadata":{},"output_type":"display_data"},` +
		`{"ename":"E","evalue":"v","output_type":"error","traceback":[]}]`
	if string(raw) != want {
		t.Errorf("outputs\n%s\nwant\n%s", raw, want)
	}
	var b bytes.Buffer
	o.print(&b)
	if b.String() != "a\nb\nc\nnew\nE: v\n" {
		t.Errorf("printed %q", b.String())
	}
}

func TestNotebookStaysAsItIs(t *testing.T) {
	const file = "{\n \"cells\": [\n  {\n   \"a\": 1.50,\n   \"cell_type\": \"markdown\",\n   \"source\": [\n    \"<&>\"\n   ]\n  }\n ],\n \"nbformat\": 4\n}\n"
	nb, err := parseNotebook([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	got, err := nb.encode()
	if err != nil || string(got) != file {
		t.Errorf("%v\n%s", err, got)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"nbformat":4}`, `{"nbformat":4,"cells":[1]}`} {
		if _, err := parseNotebook([]byte(bad)); err == nil {
			t.Errorf("%s is taken for a notebook", bad)
		}
	}
}

func FuzzNotebook(f *testing.F) {
	f.Add([]byte(`{"cells": [{"cell_type": "code", "source": ["a"]}], "nbformat": 4}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		nb, err := parseNotebook(raw)
		if err != nil {
			return
		}
		for _, c := range nb.cells {
			joined(c["source"])
			hasTag(c, "raises-exception")
		}
		if _, err := nb.encode(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestStats counts a loop's body once, as "in loops".
func TestStats(t *testing.T) {
	p, err := text.Parse("p", corpus.Program("matmul_f16_i6"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := lowered(p, "stats", compile.Options{Arch: "sm_80"})
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^mma\.m16n8k16\.f32\.f16 +1 +1$`).MatchString(s) || !regexp.MustCompile(`(?m)^threads +32 in each block$`).MatchString(s) {
		t.Errorf("stats:\n%s", s)
	}
}

func TestBusyPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_DATA_HOME", "")
	t.Setenv("JUPYTER_DATA_DIR", filepath.Join(home, "jupyter"))
	t.Setenv("TILUS_LAB_DATA", filepath.Join(home, "data"))
	var out, problems bytes.Buffer
	port := fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)
	if code := execute([]string{"up", "--no-browser", "--port", port}, nil, &out, &problems); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(problems.String(), "address already in use") || !strings.Contains(problems.String(), "--port") {
		t.Errorf("message %q", problems.String())
	}
}

// fullWriter takes nothing, as a disk that is full.
type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestFullOutput holds that what could not be printed is an error, of commands that print line by line too.
func TestFullOutput(t *testing.T) {
	for _, line := range []string{"bench tune --types u4 --shapes 1024x1024 --batches 1 --tries 1 --dry-run", "bench model --types u4 --batches 1 --estimate", "export axpy -o " + t.TempDir()} {
		var problems bytes.Buffer
		if code := execute(strings.Fields(line), nil, fullWriter{}, &problems); code != 1 || !strings.Contains(problems.String(), "standard output cannot be written: "+syscall.ENOSPC.Error()) {
			t.Errorf("%s: exit %d, %s", line, code, problems.String())
		}
	}
}

// TestInterrupt ends a program that would not end from the keyboard, and says where it stood.
func TestInterrupt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spin.tile")
	if err := os.WriteFile(file, []byte("program spin<2>(n: i32) warps=1 {\n\ti = 0\n\twhile i < n {\n\t\ti = i / 2\n\t}\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	heard := make(chan os.Signal, 1) // what comes too early or too late does not end the test
	signal.Notify(heard, os.Interrupt)
	defer signal.Stop(heard)
	for _, args := range [][]string{{"run", "--device", "interp"}, {"run", "--device", "sim"}, {"run", "--sanitize"}, {"cost"}} {
		var out, errs bytes.Buffer
		done := make(chan int)
		go func() { done <- execute(append(args, file, "--arg", "n=1"), strings.NewReader(""), &out, &errs) }()
		code := 0
		for begin := time.Now(); code == 0; {
			select {
			case code = <-done:
			case <-time.After(50 * time.Millisecond):
				if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
				if time.Since(begin) > time.Minute {
					t.Fatalf("%v goes on", args)
				}
			}
		}
		if !regexp.MustCompile(`spin\.tile:[34]:\d+: interrupted; .*block \([01], 0, 0\) stood here`).MatchString(errs.String()) || code != interrupted {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out.String(), errs.String())
		}
	}
}
