package lab

import (
	"context"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// hung is a GPU whose launches do not end.
type hung struct{}

func (hung) Name() string          { return "hung" }
func (hung) Describe() device.Info { return device.Info{} }
func (hung) Close() error          { return nil }
func (hung) Run(context.Context, *ir.Program, []ir.Arg) (*device.Result, error) {
	return nil, &device.Unended{Cause: context.Canceled}
}

// A launch that goes on after its interrupt is reported, because nothing but the end of the process stops it.
func TestUnended(t *testing.T) {
	if _, err := open("interp"); err != nil {
		t.Fatal(err)
	}
	machine.mu.Lock()
	machine.open["hung"] = hung{}
	machine.mu.Unlock()
	defer func() {
		machine.mu.Lock()
		defer machine.mu.Unlock()
		delete(machine.open, "hung")
	}()
	var got error
	defer Attach(Hooks{Unended: func(err error) { got = err }})()
	if _, err := RunOn("hung", &ir.Program{Name: "p"}); err == nil || got == nil {
		t.Errorf("error %v, reported %v", err, got)
	}
}
