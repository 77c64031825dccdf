package lab

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/timeline"
)

// Dispatch draws how an AMD GPU starts the blocks of a scenario: one of those that
// tilus-lab dispatch lists, or a scenario as JSON. tick is a moment of it, -1 all.
//
//	lab.Show(lab.Dispatch("slow-player", -1))
func Dispatch(scenario string, tick int) (layoutviz.Picture, error) {
	p, err := dispatchProgram(scenario)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	r, err := p.Run()
	if err != nil {
		return layoutviz.Picture{}, err
	}
	return timeline.Gantt(r, p.Title, tick, layoutviz.Options{})
}

// DispatchRun is what happens in a scenario: ticks, runs of kernels, events with
// their causes.
func DispatchRun(scenario string) (*dispatch.Result, error) {
	p, err := dispatchProgram(scenario)
	if err != nil {
		return nil, err
	}
	return p.Run()
}

// Staircase draws the ticks of a kernel of so many blocks of 1024 work-items on a
// Radeon VII over the number of its compute units; cus marks one number.
func Staircase(blocks, cus int) (layoutviz.Picture, error) {
	m := dispatch.RadeonVII()
	if blocks > 1<<16 {
		return layoutviz.Picture{}, fmt.Errorf("lab: a staircase of %d blocks; the most is %d", blocks, 1<<16)
	}
	list, err := dispatch.Staircase(m, dispatch.Kernel{Name: "kernel", Blocks: blocks, Threads: 1024, Ticks: 1}, dispatch.Options{})
	if err != nil {
		return layoutviz.Picture{}, err
	}
	return timeline.Stairs(list, m.CUs, cus, fmt.Sprintf("%d blocks over the number of compute units", blocks), layoutviz.Options{})
}

func dispatchProgram(scenario string) (dispatch.Program, error) {
	if strings.HasPrefix(strings.TrimSpace(scenario), "{") {
		return dispatch.ReadProgram(strings.NewReader(scenario))
	}
	e, err := dispatch.FindExample(scenario)
	return e.Program, err
}
