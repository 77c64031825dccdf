package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/launch"
	"github.com/tilus-lab/tilus-lab/vm/debug"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Debug begins a launch on the interpreter under a debugger, stopped in front of the
// first statement. Arguments are as for [Run].
func Debug(p *ir.Program, args ...any) (*debug.Session, error) {
	return DebugOn("interp", p, args...)
}

// DebugOn is [Debug] on "interp" or "sim", or on the simulator of a target, "sim:sm_80".
func DebugOn(name string, p *ir.Program, args ...any) (*debug.Session, error) {
	if p == nil {
		return nil, errors.New("lab: there is no program")
	}
	all, err := launchArgs(p, args)
	if err != nil {
		return nil, err
	}
	if !steps(name) {
		return nil, fmt.Errorf("lab: programs are debugged on interp and sim, not on %q", name)
	}
	return stepped(name, p, all)
}

// steps reports that a device runs programs statement by statement.
func steps(name string) bool {
	kind, _, _ := strings.Cut(name, ":")
	return name == "interp" || kind == "sim"
}

func stepped(name string, p *ir.Program, args []ir.Arg) (*debug.Session, error) {
	if name == "interp" {
		return debug.New(p, args)
	}
	_, target, _ := strings.Cut(name, ":")
	m, err := launch.Step(target, p, args)
	if err != nil {
		return nil, err
	}
	return debug.On(m), nil
}

// debugged runs a launch under the notebook's debugger. The result is nil where nobody debugs the program, or the device
// cannot stop.
func debugged(ctx context.Context, d device.Device, p *ir.Program, args []ir.Arg) (*device.Result, error) {
	h := hooks.Load()
	if h == nil || h.Launch == nil || !steps(d.Name()) {
		return nil, nil
	}
	begin := time.Now()
	s, err := h.Launch(ctx, p, func() (*debug.Session, error) { return stepped(d.Name(), p, args) })
	if s == nil || err != nil {
		return nil, err
	}
	m := s.Machine()
	return &device.Result{Device: d.Name(), Args: m.Args(), Printed: m.Printed(), Exec: time.Since(begin)}, nil
}
