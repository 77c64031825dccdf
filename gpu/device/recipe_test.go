package device

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestRecipe makes a program once for all devices that share files, again where what is kept is
// broken or made for other sizes, and each time on devices that keep nothing.
func TestRecipe(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	underStub(t, "^TestRecipeChild$", map[string][]string{
		"works": {"first: made 1", "again: made 1", "other device: made 1", "other sizes: made 2", "broken files: made 3", "ahead: made 4", "after it: made 4", "wrong: device: scale", "sim: made 5", "sim: made 6"},
	})
}

func TestRecipeChild(t *testing.T) {
	if os.Getenv("STUB") == "" {
		t.Skip("a child of TestRecipe")
	}
	made := 0
	recipe := Recipe{Key: "scale", Make: func() (*ir.Program, error) {
		made++
		return program(t, scale), nil
	}}
	var d Device
	open := func(name string) {
		if d != nil {
			d.Close()
		}
		var err error
		if d, err = Open(name); err != nil {
			t.Fatal(err)
		}
	}
	args := func(n int) []ir.Arg {
		return []ir.Arg{{Array: array.New(dtype.F32, n)}, {Array: array.New(dtype.F32, n)}, {Int: int64(n)}, {Float: 2}, {}}
	}
	run := func(what string, n int) {
		if _, err := RunRecipe(context.Background(), d, recipe, args(n)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		fmt.Printf("%s: made %d\n", what, made)
	}
	open("cuda")
	run("first", 64)
	run("again", 64+128)
	open("cuda")
	run("other device", 64)
	run("other sizes", 33)
	open("cuda")
	files, err := filepath.Glob(filepath.Join(os.Getenv(CacheEnv), "*.bin"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if err := os.WriteFile(f, []byte("broken"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run("broken files", 64)
	Ahead(d, []Recipe{recipe}, [][]ir.Arg{args(36)})
	fmt.Printf("ahead: made %d\n", made)
	run("after it", 36)
	short := args(64)
	short[0].Array = array.New(dtype.F32, 8)
	_, err = RunRecipe(context.Background(), d, recipe, short)
	fmt.Printf("wrong: device: scale %v\n", err)
	if err == nil {
		t.Error("an array is too short, and nothing says so")
	}
	for range 2 {
		open("sim")
		run("sim", 64)
	}
}

// TestPrepare prepares a program whose machine code takes long: others run meanwhile, who runs the same
// one waits for it, as does who closes the device; and what goes wrong is told.
func TestPrepare(t *testing.T) {
	t.Setenv(CacheEnv, "off")
	t.Setenv("STUB_GATE", filepath.Join(t.TempDir(), "gate"))
	underStub(t, "^TestPrepareChild$", map[string][]string{
		"slow": {"beside it: <nil>", "prepared: <nil>", "the same: <nil>", "made once", "again: <nil> 0s 0s", "closing waits", "closed: <nil>", "prepared beside: <nil>",
			"beside it: device: cuda:0: program scale broke the GPU context", "prepared beside that: device: cuda:0: program slow: ", "broke the GPU context: prepare it again", "after that: <nil>",
			"too short: ", "done: context canceled", "interp: <nil>", "sim: <nil>"},
		"jit": {"prepared alone: device: cuda:0: program slow: cuda: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX", "ptxas: stub refuses"},
	})
}

func TestPrepareChild(t *testing.T) {
	if os.Getenv("STUB") == "" {
		t.Skip("a child of TestPrepare")
	}
	open := func(name string) Device {
		d, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ctx := context.Background()
	recipe := Recipe{Key: "slow", Make: func() (*ir.Program, error) {
		return program(t, strings.Replace(scale, "program scale", "program slow", 1)), nil
	}}
	args := []ir.Arg{{Array: array.New(dtype.F32, 64)}, {Array: array.New(dtype.F32, 64)}, {Int: 64}, {Float: 2}, {}}
	prepare := func(ctx context.Context, d Device, args []ir.Arg) error {
		_, _, err := Prepare(ctx, d, []Recipe{recipe}, [][]ir.Arg{args})
		return err
	}
	// begin does something beside the others, and its answer comes by the channel.
	begin := func(do func() error) chan error {
		out := make(chan error, 1)
		go func() { out <- do() }()
		return out
	}
	told := func(what string, from chan error) {
		t.Helper()
		select {
		case err := <-from:
			fmt.Printf("%s: %v\n", what, err)
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: nothing comes", what)
		}
	}
	if os.Getenv("STUB") == "jit" {
		fmt.Println("prepared alone:", prepare(ctx, open("cuda"), args))
		return
	}
	gate := os.Getenv("STUB_GATE")
	begun := func() int {
		data, _ := os.ReadFile(gate + ".begun")
		return len(data)
	}
	until := func(n int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); begun() < n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d programs were begun, not %d", begun(), n)
			}
		}
	}
	waits := func(what string, x chan error) {
		t.Helper()
		select {
		case err := <-x:
			t.Fatalf("%s did not wait: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}

	d := open("cuda")
	prepared := begin(func() error { return prepare(ctx, d, args) })
	until(1)
	told("beside it", begin(func() error { _, err := d.Run(ctx, program(t, scale), args); return err }))
	same := begin(func() error { _, err := RunRecipe(ctx, d, recipe, args); return err })
	waits("who runs the same", same)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	told("prepared", prepared)
	told("the same", same)
	if begun() == 1 {
		fmt.Println("made once")
	}
	compiled, jit, err := Prepare(ctx, d, []Recipe{recipe}, [][]ir.Arg{args})
	fmt.Println("again:", err, compiled, jit)
	if err := d.Close(); err != nil {
		t.Error(err)
	}

	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	d = open("cuda")
	prepared = begin(func() error { return prepare(ctx, d, args) })
	until(2)
	closed := begin(d.Close)
	waits("closing", closed)
	fmt.Println("closing waits")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	told("closed", closed)
	told("prepared beside", prepared)

	// Another program breaks the context meanwhile.
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	d = open("cuda")
	defer d.Close()
	prepared = begin(func() error { return prepare(ctx, d, args) })
	until(3)
	if err := os.WriteFile(gate+".break", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	beside := begin(func() error { _, err := d.Run(ctx, program(t, scale), args); return err })
	waits("a new context", beside)
	for _, err := range []error{os.WriteFile(gate, nil, 0o600), os.Remove(gate + ".break")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	told("beside it", beside)
	told("prepared beside that", prepared)
	fmt.Println("after that:", prepare(ctx, d, args))

	short := append([]ir.Arg{{Array: array.New(dtype.F32, 8)}}, args[1:]...)
	err = prepare(ctx, d, short)
	fmt.Println("too short:", err)
	_, ran := RunRecipe(ctx, d, recipe, short)
	if err == nil || ran == nil || err.Error() != ran.Error() {
		t.Errorf("an array is too short: preparing says %v, running %v", err, ran)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	fmt.Println("done:", prepare(done, d, args))
	for _, name := range []string{"interp", "sim"} {
		fmt.Printf("%s: %v\n", name, prepare(ctx, open(name), args))
		if prepare(ctx, open(name), short) == nil {
			t.Errorf("%s: an array is too short, and nothing says so", name)
		}
		none := errors.New("there is none")
		_, _, err := Prepare(ctx, open(name), []Recipe{{Key: "none", Make: func() (*ir.Program, error) { return nil, none }}}, [][]ir.Arg{args})
		if !errors.Is(err, none) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
