package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tilus-lab": main})
}

// TestScripts runs testdata/script: the commands as a person types them.
func TestScripts(t *testing.T) {
	cases, err := filepath.Abs("../../tests/testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	layers, err := filepath.Abs("../../gpu/qmm/checkpoint/testdata")
	if err != nil {
		t.Fatal(err)
	}
	tmp := os.TempDir()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("USERPROFILE", home)
			// The program of a test lies in the temporary folder, as that of `go run`.
			env.Setenv("TMPDIR", tmp)
			env.Setenv("CASES", cases)
			env.Setenv("LAYERS", layers)
			return os.Mkdir(home, 0o700)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			// await FILE waits until there is such a file.
			"await": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 1 {
					ts.Fatalf("usage: await FILE")
				}
				for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
					if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
						return
					}
				}
				ts.Fatalf("%s did not appear in two minutes", args[0])
			},
			// code N checks the exit code of a command, given after it.
			"code": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) < 2 {
					ts.Fatalf("usage: code N COMMAND…")
				}
				err := ts.Exec(args[1], args[2:]...)
				got := "0"
				if x, ok := err.(interface{ ExitCode() int }); ok {
					got = fmt.Sprint(x.ExitCode())
				} else if err != nil {
					ts.Fatalf("%v", err)
				}
				if got != args[0] {
					ts.Fatalf("exit code %s, want %s", got, args[0])
				}
			},
		},
	})
}
