package device

import (
	"context"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/launch"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// simulator runs lowered code on gpu/sim.
type simulator struct {
	arch     string
	programs programs
}

// openSim opens the simulator for a target; "" is the default.
func openSim(target string) (Device, error) {
	if target == "" {
		target = compile.DefaultArch
	}
	a, err := arch.Lookup(target)
	if err != nil {
		return nil, err
	}
	return &simulator{arch: a.Name}, nil
}

func (s *simulator) Name() string {
	if s.arch == compile.DefaultArch {
		return "sim"
	}
	return "sim:" + s.arch
}

func (s *simulator) Describe() Info {
	return Info{Name: s.Name(), Title: "simulator of " + s.arch, Arch: s.arch}
}

func (s *simulator) Close() error { return nil }

func (s *simulator) Run(ctx context.Context, p *ir.Program, args []ir.Arg) (*Result, error) {
	return s.run(ctx, p, args, sim.Options{})
}

// RunShared runs p on the simulator of a target ("" is the default) and tells on of
// every load and store of shared memory; blocks call it at the same time.
func RunShared(ctx context.Context, target string, p *ir.Program, args []ir.Arg, on func(sim.SharedAccess)) (*Result, error) {
	d, err := openSim(target)
	if err != nil {
		return nil, err
	}
	return d.(*simulator).run(ctx, p, args, sim.Options{OnShared: on})
}

func (s *simulator) run(ctx context.Context, p *ir.Program, args []ir.Arg, o sim.Options) (*Result, error) {
	l, err := prepare(p, args, s.arch, &s.programs)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	data, workspaces, stats, err := l.Simulate(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Result{Device: s.Name(), Args: l.Results(p, args, data), Compile: l.Code.Elapsed, Exec: time.Since(start), Counters: stats.Counters(), Printed: launch.Printed(p, l.Grid, workspaces)}, nil
}

// prepare checks the arguments as the interpreter does and finds the code for
// them: specialised for what divides the sizes.
func prepare(p *ir.Program, args []ir.Arg, arch string, compiled *programs) (*launch.Launch, error) {
	grid, err := interp.CheckArgs(p, args)
	if err != nil {
		return nil, err
	}
	c, err := compiled.get(p, compile.Options{Arch: arch, Divisible: compile.Divisors(p, args)})
	if err != nil {
		return nil, err
	}
	return launch.New(p, args, grid, c), nil
}
