package lab

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/gpu/model/recorded"
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

// StairAt is one step of that: the ticks with so many units enabled one shader engine
// after the other (Packed), in turn (Distributed), and packed if the dealer could skip
// an engine without room (Skip).
func StairAt(blocks, cus int) (dispatch.Stair, error) {
	m := dispatch.RadeonVII()
	if blocks < 1 || blocks > 1<<16 || cus < 1 || cus > m.SEs*m.CUs {
		return dispatch.Stair{}, fmt.Errorf("lab: %d blocks on %d units; there must be 1 to %d blocks and 1 to %d units", blocks, cus, 1<<16, m.SEs*m.CUs)
	}
	return dispatch.StairAt(m, dispatch.Kernel{Name: "kernel", Blocks: blocks, Threads: 1024, Ticks: 1}, dispatch.Options{}, cus)
}

// WhyBlock draws what had to happen before a block of a scenario's kernel started.
func WhyBlock(scenario, kernel string, block int) (layoutviz.Picture, error) {
	r, err := DispatchRun(scenario)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	chain := r.Why(kernel, block)
	if chain == nil {
		return layoutviz.Picture{}, fmt.Errorf("lab: block %d of %.40q did not start", block, kernel)
	}
	return timeline.Path(chain, fmt.Sprintf("Why block %d of %s started at tick %d", block, kernel, chain[len(chain)-1].Tick), layoutviz.Options{})
}

// NewQueue draws how an HSA queue is made, with the hardware scheduler or without.
func NewQueue(scheduler bool) (layoutviz.Picture, error) {
	events, _, err := dispatch.CreateQueues(dispatch.Creation{Scheduler: scheduler, Processes: 1, Queues: 1, Mask: []uint32{0x1f}})
	if err != nil {
		return layoutviz.Picture{}, err
	}
	title := "A new queue, with the hardware scheduler"
	if !scheduler {
		title = "A new queue, without the hardware scheduler"
	}
	return timeline.Path(events, title, layoutviz.Options{})
}

// Occupancy is how many blocks of so many work-items, vector registers of a work-item
// and bytes of LDS one compute unit of gfx9 holds, and what limits it.
func Occupancy(threads, vgprs, lds int) dispatch.Occupancy {
	return dispatch.GFX9().Occupancy(threads, vgprs, lds)
}

func dispatchProgram(scenario string) (dispatch.Program, error) {
	if strings.HasPrefix(strings.TrimSpace(scenario), "{") {
		return dispatch.ReadProgram(strings.NewReader(scenario))
	}
	if x, err := recorded.Find(scenario); err == nil {
		return x.Program, nil
	}
	e, err := dispatch.FindExample(scenario)
	return e.Program, err
}
