package device

import (
	"context"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cost"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Cost is what a launch would cost on a target ("" is the default), found by the
// simulator, which runs at most blocks blocks, spread over the grid; 0 is all. A program
// whose blocks wait for each other is run as a whole.
func Cost(ctx context.Context, p *ir.Program, args []ir.Arg, target string, blocks int) (cost.Launch, error) {
	if target == "" {
		target = compile.DefaultArch
	}
	l, err := prepare(p, args, target, &programs{})
	if err != nil {
		return cost.Launch{}, err
	}
	out := cost.Of(l.Code.Func, l.Code.Arch)
	l.Code.Func.Body.Walk(func(in *code.Instr) {
		if in.Op == code.OpSpinGlobal || in.Op == code.OpAwaitGlobal {
			blocks = 0 // blocks wait for each other, also those of splits that put sums, so that none can be left out
		}
	})
	// Blocks that were left out may be waited for; what is counted does not need the checks.
	_, _, stats, err := l.Simulate(ctx, sim.Options{Blocks: blocks, Fast: true})
	if err != nil {
		return out, err
	}
	total := l.Grid[0] * l.Grid[1] * l.Grid[2]
	if blocks == 0 {
		blocks = total
	}
	out.Count(stats, l.Grid, blocks)
	return out, nil
}
