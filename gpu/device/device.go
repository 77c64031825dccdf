// Package device runs programs: one small interface over the interpreter, the
// simulator and NVIDIA GPUs. The three are meant to be interchangeable: the same
// program with the same arguments gives the same bits, or the same located
// error.
package device

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Device runs programs. Its methods are safe for concurrent use.
type Device interface {
	// Name is what Open takes: "interp", "sim", "cuda:0".
	Name() string
	// Describe says what the device is.
	Describe() Info
	// Run launches a program and waits for it. Arguments are copied in and the
	// results copied out; the caller's arrays are not changed. A program that goes
	// wrong gives a diag.List, a done ctx its error.
	Run(ctx context.Context, p *ir.Program, args []ir.Arg) (*Result, error)
	// Close frees what the device holds.
	Close() error
}

// Info describes a device for people.
type Info struct {
	Name   string // as in Device.Name
	Title  string // "reference interpreter", "NVIDIA H200"
	Arch   string // target that programs are lowered for; "" for the interpreter
	Driver string // driver version, for GPUs
	Memory int64  // bytes of device memory, for GPUs
}

// Result is what a launch gave.
type Result struct {
	Device   string
	Args     []ir.Arg         // the arguments after the launch, fresh arrays
	Compile  time.Duration    // program to thread code and PTX
	JIT      time.Duration    // PTX to machine code, by the driver
	Exec     time.Duration    // the launch itself, copies left out
	Counters map[string]int64 // simulator: what it counted
	Printed  string           // what Print and PrintTensor printed, block by block
}

// Names are the kinds of device that Open takes.
func Names() []string { return []string{"interp", "sim", "cuda", "auto"} }

// ErrNoGPU is wrapped by the error of Open("cuda") on a machine without an
// NVIDIA driver or GPU.
var ErrNoGPU = errors.New("no NVIDIA GPU")

// Open opens a device: "interp", "sim" (or "sim:sm_80" for another target than
// the default), "cuda" (or "cuda:1", "cuda:sm_80" for an older target's code,
// "cuda:nvrtc" for code that goes through CUDA C++), and "auto", which is the
// first GPU where there is one and the interpreter elsewhere.
func Open(name string) (Device, error) {
	kind, which, _ := strings.Cut(name, ":")
	switch kind {
	case "interp":
		return interpreter{}, nil
	case "sim":
		return openSim(which)
	case "cuda":
		return openCUDA(which)
	case "auto", "":
		d, err := openCUDA("")
		if errors.Is(err, ErrNoGPU) {
			return interpreter{}, nil
		}
		return d, err
	}
	help := diag.DidYouMean(kind, Names())
	if help != "" {
		help = "; " + help
	}
	return nil, fmt.Errorf("device: no device %q; there are %s%s", name, strings.Join(Names(), ", "), help)
}

// Available lists the devices of this machine, best first. It does not keep any
// of them open.
func Available() []Info {
	var out []Info
	if drv, err := cuda.Open(); err == nil {
		n, _ := drv.DeviceCount()
		for i := range n {
			if d, err := openCUDA(fmt.Sprint(i)); err == nil {
				out = append(out, d.Describe())
				d.Close()
			}
		}
	}
	sim, err := openSim("")
	if err == nil {
		out = append(out, sim.Describe())
	}
	return append(out, interpreter{}.Describe())
}

// interpreter is vm/interp as a device.
type interpreter struct{}

func (interpreter) Name() string { return "interp" }
func (interpreter) Describe() Info {
	return Info{Name: "interp", Title: "reference interpreter"}
}
func (interpreter) Close() error { return nil }

func (interpreter) Run(ctx context.Context, p *ir.Program, args []ir.Arg) (*Result, error) {
	m, err := interp.New(p, args)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := m.Run(ctx); err != nil {
		return nil, err
	}
	return &Result{Device: "interp", Args: m.Args(), Exec: time.Since(start), Printed: m.Printed()}, nil
}
