package lab

import (
	"github.com/tilus-lab/tilus-lab/gpu/blocktrace"
	"github.com/tilus-lab/tilus-lab/gpu/model/recorded"
	"github.com/tilus-lab/tilus-lab/gpu/model/trace"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/timeline"
)

// Recorded is what the blocks of a launch did on a GPU that was there once; the
// trace says which one, and when. Launches are "uneven" and "two-kernels".
func Recorded(launch string) (*trace.Trace, error) { return recorded.Trace(launch) }

// Blocks runs the blocks of a launch on the attached NVIDIA GPU, and tells where and
// when each of them ran. The error says so where there is no GPU.
func Blocks(launch string) (*trace.Trace, error) {
	x, err := recorded.Find(launch)
	if err != nil {
		return nil, err
	}
	return blocktrace.RunLaunch(0, x)
}

// BlocksPicture draws such a trace; micros is a moment of it, -1 all.
func BlocksPicture(t *trace.Trace, micros int) (layoutviz.Picture, error) {
	return timeline.Blocks(t, micros, layoutviz.Options{})
}
