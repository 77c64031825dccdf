package device

import (
	"context"
	"errors"
	"fmt"
	"github.com/tilus-lab/tilus-lab/gpu/launch"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Finding is what one machine says of a launch.
type Finding struct {
	Machine  string    // "interp", "sim of sm_80, as written", "sim of sm_80, after the passes"
	Problems diag.List // empty: nothing was found
}

// Sanitize runs a launch on every machine that looks for mistakes: the interpreter,
// and the simulator on the code as lowering writes it and as the passes leave it.
// They find accesses out of bounds or not aligned, reads of what nobody wrote,
// races in shared and global memory, missing waits for copies, wrong use of
// barriers, deadlock, overflow and division by zero, each at the line of the program.
// A machine stops at the first thing it finds. The error is not about the program:
// no such target, or ctx ended.
func Sanitize(ctx context.Context, p *ir.Program, args []ir.Arg, target string) ([]Finding, error) {
	if target == "" {
		target = compile.DefaultArch
	}
	if _, err := arch.Lookup(target); err != nil {
		return nil, err
	}
	var out []Finding
	add := func(machine string, run func() error) error {
		f := Finding{Machine: machine}
		if err := run(); err != nil && !errors.As(err, &f.Problems) {
			return fmt.Errorf("%s: %w", machine, err)
		}
		out = append(out, f)
		return nil
	}
	err := add("interp", func() error {
		m, err := interp.New(p, args)
		if err != nil {
			return err
		}
		return m.Run(ctx)
	})
	if err != nil {
		return out, err
	}
	for _, o := range []compile.Options{{Arch: target, NoOpt: true}, {Arch: target, Divisible: compile.Divisors(p, args)}} {
		name := "sim of " + target + ", as written"
		if !o.NoOpt {
			name = "sim of " + target + ", after the passes"
		}
		err := add(name, func() error {
			grid, err := interp.CheckArgs(p, args)
			if err != nil {
				return err
			}
			c, err := compile.Program(p, o)
			if err != nil {
				return err
			}
			_, _, _, err = launch.New(p, args, grid, c).Simulate(ctx, sim.Options{Workers: 1}) // blocks in order: every run finds the same
			return err
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
