package launch

import (
	"context"
	"fmt"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/ptx"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Simulate runs a launch on the simulator; data is what the buffers hold afterwards, and workspaces the
// tensors of the launch's own, by name. As on a GPU, the target has to have all instructions.
func (l *Launch) Simulate(ctx context.Context, o sim.Options) (data [][]byte, workspaces map[string][]byte, stats sim.Stats, err error) {
	if err := ptx.Check(l.Code.Func, l.Code.Arch.Name); err != nil {
		return nil, nil, stats, fmt.Errorf("%w; the GPU would not run it", err)
	}
	in, data, workspaces, err := l.memory()
	if err != nil {
		return nil, nil, stats, err
	}
	stats, err = sim.Run(ctx, l.Code.Func, sim.Launch{Grid: l.Grid, Args: in}, o)
	return data, workspaces, stats, err
}

// memory is what a launch on the simulator works on: copies of the buffers, and the
// tensors of the launch's own.
func (l *Launch) memory() (in []sim.Arg, data [][]byte, workspaces map[string][]byte, err error) {
	data = make([][]byte, len(l.Buffers))
	for k, a := range l.Buffers {
		data[k] = make([]byte, Bytes(a))
		copy(data[k], a.Data)
	}
	in = make([]sim.Arg, len(l.Buffer))
	for i := range in {
		if k := l.Buffer[i]; k >= 0 {
			in[i].Buffer = data[k]
		} else {
			in[i].Bits = l.Bits[i]
		}
	}
	workspaces = map[string][]byte{}
	for _, w := range l.Code.Func.Params[len(l.Buffer):] {
		if w.Kind == code.Tensor {
			in = append(in, sim.Arg{})
			continue
		}
		n, err := w.Workspace.Bytes(l.Scalars)
		if err != nil {
			return nil, nil, nil, err
		}
		workspaces[w.Name] = make([]byte, n)
		in = append(in, sim.Arg{Buffer: workspaces[w.Name], Fresh: !w.Workspace.Zero})
	}
	return in, data, workspaces, nil
}

// Printed is what a launch printed: workspaces are the bytes of the tensors of the
// launch's own after it, by name.
func Printed(p *ir.Program, grid [3]int, workspaces map[string][]byte) string {
	plan := ir.PlanPrints(p)
	if plan == nil {
		return ""
	}
	return plan.ReadPrints(grid, func(name string, t dtype.Type, shape []int) *array.Array {
		a := array.New(t, shape...)
		copy(a.Data, workspaces[name])
		return a
	}).String()
}
