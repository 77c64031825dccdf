package lab

import (
	"context"
	"errors"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/debug"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Debug begins a launch on the interpreter under a debugger, stopped in front of the
// first statement. Arguments are as for [Run].
func Debug(p *ir.Program, args ...any) (*debug.Session, error) {
	if p == nil {
		return nil, errors.New("lab: there is no program")
	}
	launch, err := launchArgs(p, args)
	if err != nil {
		return nil, err
	}
	return debug.New(p, launch)
}

// debugged runs a launch under the notebook's debugger. The result is nil where nobody debugs the program, or the device
// cannot stop.
func debugged(ctx context.Context, d device.Device, p *ir.Program, args []ir.Arg) (*device.Result, error) {
	h := hooks.Load()
	if h == nil || h.Launch == nil || d.Name() != "interp" {
		return nil, nil
	}
	begin := time.Now()
	s, err := h.Launch(ctx, p, func() (*debug.Session, error) { return debug.New(p, args) })
	if s == nil || err != nil {
		return nil, err
	}
	m := s.Machine()
	return &device.Result{Device: d.Name(), Args: m.Args(), Printed: m.Printed(), Exec: time.Since(begin)}, nil
}
