package device

import (
	"context"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
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
	data, workspaces, stats, err := simulate(ctx, l, o)
	if err != nil {
		return nil, err
	}
	return &Result{Device: s.Name(), Args: l.results(p, args, data), Compile: l.code.Elapsed, Exec: time.Since(start), Counters: stats.Counters(), Printed: printed(p, l.grid, workspaces)}, nil
}

// simulate runs a launch; data is what the buffers hold afterwards, and workspaces the
// tensors of the launch's own, by name.
func simulate(ctx context.Context, l *launch, o sim.Options) (data [][]byte, workspaces map[string][]byte, stats sim.Stats, err error) {
	in, data, workspaces, err := l.memory()
	if err != nil {
		return nil, nil, stats, err
	}
	stats, err = sim.Run(ctx, l.code.Func, sim.Launch{Grid: l.grid, Args: in}, o)
	return data, workspaces, stats, err
}

// memory is what a launch on the simulator works on: copies of the buffers, and the
// tensors of the launch's own.
func (l *launch) memory() (in []sim.Arg, data [][]byte, workspaces map[string][]byte, err error) {
	data = make([][]byte, len(l.buffers))
	for k, a := range l.buffers {
		data[k] = make([]byte, bufferBytes(a))
		copy(data[k], a.Data)
	}
	in = make([]sim.Arg, len(l.buffer))
	for i := range in {
		if k := l.buffer[i]; k >= 0 {
			in[i].Buffer = data[k]
		} else {
			in[i].Bits = l.bits[i]
		}
	}
	workspaces = map[string][]byte{}
	for _, w := range l.code.Func.Params[len(l.buffer):] {
		if w.Kind == code.Tensor {
			in = append(in, sim.Arg{})
			continue
		}
		n, err := w.Workspace.Bytes(l.scalars)
		if err != nil {
			return nil, nil, nil, err
		}
		workspaces[w.Name] = make([]byte, n)
		in = append(in, sim.Arg{Buffer: workspaces[w.Name], Fresh: !w.Workspace.Zero})
	}
	return in, data, workspaces, nil
}
