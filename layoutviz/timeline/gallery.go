package timeline

import (
	"github.com/tilus-lab/tilus-lab/gpu/model/dispatch"
	"github.com/tilus-lab/tilus-lab/gpu/model/pipeline"
	"github.com/tilus-lab/tilus-lab/gpu/model/recorded"
	"github.com/tilus-lab/tilus-lab/layoutviz"
)

// Gallery lists one of each picture, for judging by eye and for tests.
func Gallery() []layoutviz.Example {
	gantt := func(name, doc, scenario string, now int) layoutviz.Example {
		return layoutviz.Example{Name: name, Doc: doc, Draw: func(o layoutviz.Options) (layoutviz.Picture, error) {
			x, err := dispatch.FindExample(scenario)
			if err != nil {
				return layoutviz.Picture{}, err
			}
			r, err := x.Program.Run()
			if err != nil {
				return layoutviz.Picture{}, err
			}
			return Gantt(r, x.Program.Title, now, o)
		}}
	}
	return []layoutviz.Example{
		gantt("dispatch-16th-cu", "96 blocks on 16 compute units: 15 of one shader engine and 1 of another", "16th-cu", -1),
		gantt("dispatch-slow-player", "a moment of a kernel that a filled shader engine holds up", "slow-player", 4),
		gantt("dispatch-streams", "six streams on four queues", "streams", -1),
		{Name: "dispatch-stairs", Doc: "ticks over the number of compute units", Draw: func(o layoutviz.Options) (layoutviz.Picture, error) {
			m := dispatch.RadeonVII()
			list, err := dispatch.Staircase(m, dispatch.Kernel{Name: "k", Blocks: 1024, Threads: 1024, Ticks: 1}, dispatch.Options{})
			if err != nil {
				return layoutviz.Picture{}, err
			}
			return Stairs(list, m.CUs, 16, "1024 blocks over the number of compute units", o)
		}},
		{Name: "dispatch-queue", Doc: "how a queue is made: user code, driver, firmware", Draw: func(o layoutviz.Options) (layoutviz.Picture, error) {
			events, _, err := dispatch.CreateQueues(dispatch.Creation{Scheduler: true, Processes: 1, Queues: 1})
			if err != nil {
				return layoutviz.Picture{}, err
			}
			return Path(events, "A new queue, with the hardware scheduler", o)
		}},
		{Name: "pipeline-stages", Doc: "a loop that copies tiles three turns ahead", Draw: func(o layoutviz.Options) (layoutviz.Picture, error) {
			return Stages(pipeline.Loop{Latency: 600, Work: 250, Stages: 4, Turns: 8}, o)
		}},
		{Name: "tracks", Doc: "any trace, here of a dispatch: a row for each track", Draw: func(o layoutviz.Options) (layoutviz.Picture, error) {
			x, err := dispatch.FindExample("streams")
			if err != nil {
				return layoutviz.Picture{}, err
			}
			r, err := x.Program.Run()
			if err != nil {
				return layoutviz.Picture{}, err
			}
			return Tracks(r.Trace(x.Program.Title), o)
		}},
		{Name: "blocks-h200", Doc: "where and when an H200 ran 528 blocks of unequal length, measured", Draw: func(o layoutviz.Options) (layoutviz.Picture, error) {
			t, err := recorded.Trace("uneven")
			if err != nil {
				return layoutviz.Picture{}, err
			}
			return Blocks(t, -1, o)
		}},
	}
}
