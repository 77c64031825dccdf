package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/kernel"
	"github.com/tilus-lab/tilus-lab/kernel/link"
)

func newDoctor() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine has, and how to get what it has not",
		Long: `Look for everything that Tilus Lab can make use of: GPU and driver, Jupyter, a
browser, NVIDIA's assembler, a data directory; and start the notebook kernel to run a
cell. None of it is needed to run programs
on the interpreter and the simulator, so what is missing is no failure.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printFindings(cmd.OutOrStdout(), append(examine(), checkKernel(cmd.Context())))
		},
	}
}

// finding is one line of the doctor. Help says how to get what is missing.
type finding struct {
	What   string
	OK     bool
	Detail string
	Help   string
}

func examine() []finding {
	return slices.Concat([]finding{
		{What: "machine", OK: true, Detail: fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), version())},
		dataDirectory(),
		driver(),
		gpu(),
	}, keptCode(), []finding{
		program("Jupyter", "--version", "pip install jupyterlab (only to open notebooks there; the explorer runs them too)", jupyterPaths()...),
		kernelspec(),
		program("Chromium", "--version", "on Debian: apt-get install chromium (only for tests of the page)", "chromium", "chromium-browser", "google-chrome"),
		program("ptxas", "--version", "pip install nvidia-cuda-nvcc, or the CUDA toolkit (only for tests of PTX; running programs needs the driver alone)", ptxasPaths()...),
	})
}

func dataDirectory() finding {
	f := finding{What: "data directory", Help: "set TILUS_LAB_DATA to a folder that can be written"}
	dir, err := link.DataDir()
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	return f.at(dir)
}

// at is the finding that dir can be written; where it is not made yet, the nearest folder above must take it.
func (f finding) at(dir string) finding {
	there := dir
	for {
		if _, err := os.Stat(there); err == nil || there == filepath.Dir(there) {
			break
		}
		there = filepath.Dir(there)
	}
	probe, err := os.CreateTemp(there, ".probe-*")
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	probe.Close()
	os.Remove(probe.Name())
	f.OK, f.Detail = true, dir
	if there != dir {
		f.Detail += " (made when it is needed)"
	}
	return f
}

// keptCode looks at the directories in which code for GPUs is kept: without them each process waits for the compiler anew.
func keptCode() []finding {
	var all []finding
	for _, s := range device.Stores() {
		f := finding{What: s.What + " cache", Help: "set " + s.Env + " to a folder that can be written, and unset what turns this off; until then each process waits for the compiler anew"}
		if f.Detail = s.Off; s.Path != "" {
			f = f.at(s.Path)
		}
		all = append(all, f)
	}
	return all
}

func driver() finding {
	f := finding{What: "NVIDIA driver", Help: "install NVIDIA's driver for this GPU; no CUDA toolkit is needed"}
	d, err := cuda.Open()
	if err != nil {
		f.Detail = err.Error()
		return f
	}
	major, minor := d.Version()
	f.OK, f.Detail = true, fmt.Sprintf("serves CUDA %d.%d", major, minor)
	return f
}

func gpu() finding {
	var names []string
	for _, i := range device.Available() {
		if strings.HasPrefix(i.Name, "cuda") {
			names = append(names, fmt.Sprintf("%s: %s, %s, %d GiB", i.Name, i.Title, i.Arch, i.Memory>>30))
		}
	}
	if len(names) == 0 {
		return finding{What: "GPU", Detail: "none that programs can run on", Help: "programs need sm_80 (Ampere) or newer; until then use the devices interp and sim"}
	}
	return finding{What: "GPU", OK: true, Detail: strings.Join(names, "; ")}
}

func kernelspec() finding {
	f := finding{What: "notebook kernel", Help: "tilus-lab up"}
	dir := filepath.Join(jupyterDataDir(os.Getenv), "kernels", kernel.SpecName)
	if _, err := os.Stat(filepath.Join(dir, "kernel.json")); err != nil {
		f.Detail = "not in " + dir
		return f
	}
	f.OK, f.Detail = true, dir
	return f
}

// program looks for one of several programs and asks the first for its version.
func program(what, flag, help string, names ...string) finding {
	f := finding{What: what, Detail: "not found", Help: help}
	for _, n := range names {
		path, err := exec.LookPath(n)
		if err != nil {
			continue
		}
		f.OK, f.Detail = true, path
		if out, err := exec.Command(path, flag).Output(); err == nil {
			if lines := strings.Split(strings.TrimSpace(string(out)), "\n"); lines[0] != "" {
				f.Detail += ", " + strings.TrimSpace(lines[len(lines)-1])
			}
		}
		return f
	}
	return f
}

// jupyterPaths are the search path and the environment that tests/run makes.
func jupyterPaths() []string {
	paths := []string{"jupyter-lab", "jupyter"}
	if abs, err := filepath.Abs("tests/.env/venv/bin/jupyter-lab"); err == nil {
		paths = append(paths, abs)
	}
	return paths
}

// ptxasPaths are the places where an assembler is looked for: the search path,
// the usual folder of the toolkit, and the environment that tests/run makes.
func ptxasPaths() []string {
	paths := []string{"ptxas", "/usr/local/cuda/bin/ptxas"}
	if found, err := filepath.Glob("tests/.env/venv/lib/python*/site-packages/nvidia/*/bin/ptxas"); err == nil {
		for _, p := range found {
			if abs, err := filepath.Abs(p); err == nil {
				paths = append(paths, abs)
			}
		}
	}
	return paths
}

func printFindings(w io.Writer, all []finding) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range all {
		state := "found"
		if !f.OK {
			state = "missing"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", f.What, state, f.Detail)
		if !f.OK && f.Help != "" {
			fmt.Fprintf(tw, "\t\tget it: %s\n", f.Help)
		}
	}
	return tw.Flush()
}
