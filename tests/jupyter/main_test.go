package jupyter_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/tilus-lab/tilus-lab/kernel"
	"github.com/tilus-lab/tilus-lab/kernel/worker"
)

// TestMain lets this test binary be the kernel and its worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "kernel":
			exe, err := os.Executable()
			if err == nil {
				err = kernel.Run(context.Background(), os.Args[2], kernel.Options{Exe: []string{exe, "worker"}})
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "worker":
			os.Exit(worker.Main(os.Stdin, os.Stdout))
		}
	}
	os.Exit(m.Run())
}
