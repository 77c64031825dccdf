package lab

import (
	"errors"

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
