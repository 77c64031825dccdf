package device

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

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
