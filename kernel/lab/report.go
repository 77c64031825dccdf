package lab

import (
	"errors"

	"github.com/tilus-lab/tilus-lab/gpu/cost"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Sanitize searches a launch for mistakes: the interpreter runs it, and the
// simulator runs its code for a target ("" is the default) as written and after the
// passes. See [device.Sanitize]. Arguments are as for [Run].
func Sanitize(target string, p *ir.Program, args ...any) ([]device.Finding, error) {
	if p == nil {
		return nil, errors.New("lab: there is no program")
	}
	launch, err := launchArgs(p, args)
	if err != nil {
		return nil, err
	}
	return device.Sanitize(Context(), p, launch, target)
}

// Cost is what a launch would cost on a target ("" is the default): registers,
// shared memory, occupancy, bytes, operations, sectors and bank conflicts, without a GPU.
// Of large grids 64 blocks are run. Arguments are as for [Run].
func Cost(target string, p *ir.Program, args ...any) (cost.Launch, error) {
	return CostOf(target, 64, p, args...)
}

// CostOf is [Cost] from a given number of blocks; 0 runs all.
func CostOf(target string, blocks int, p *ir.Program, args ...any) (cost.Launch, error) {
	if p == nil {
		return cost.Launch{}, errors.New("lab: there is no program")
	}
	launch, err := launchArgs(p, args)
	if err != nil {
		return cost.Launch{}, err
	}
	return device.Cost(Context(), p, launch, target, blocks)
}
