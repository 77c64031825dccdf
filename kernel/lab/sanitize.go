package lab

import (
	"errors"

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
