package lab

import (
	"github.com/tilus-lab/tilus-lab/gpu/model/pipeline"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/timeline"
)

// Pipeline draws a loop of turns, each of which multiplies a tile for work cycles; a
// copy of a tile arrives latency cycles after its start, and shared memory has room for
// so many stages.
//
//	lab.Show(lab.Pipeline(600, 250, 4, 8))
func Pipeline(latency, work, stages, turns int) (layoutviz.Picture, error) {
	return timeline.Stages(pipeline.Loop{Latency: latency, Work: work, Stages: stages, Turns: turns}, layoutviz.Options{})
}

// PipelineEnd is the cycle at which such a loop is done.
func PipelineEnd(latency, work, stages, turns int) (int, error) {
	t, err := pipeline.Loop{Latency: latency, Work: work, Stages: stages, Turns: turns}.Run()
	if err != nil {
		return 0, err
	}
	return t[len(t)-1].End, nil
}
