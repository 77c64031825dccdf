package pane

import (
	"fmt"
	"strconv"

	"github.com/tilus-lab/tilus-lab/gpu/model/recorded"
	"github.com/tilus-lab/tilus-lab/layoutviz/timeline"
)

func blocksPane() Pane {
	var names []string
	for _, x := range recorded.Launches() {
		names = append(names, x.Name)
	}
	return Pane{
		Name:  "blocks",
		Title: "Blocks on an NVIDIA GPU",
		Doc:   "Where and when a GPU really ran each block of a launch, as its blocks told, and beside it what the model of AMD's dispatch makes of the same launch. To ask a GPU of your own: tilus-lab dispatch --on gpu.",
		Params: []Param{
			{Name: "s", Title: "Launch", Kind: Choice, Default: names[0], Choices: names, Doc: "Blocks of unequal length, or two kernels at once."},
			{Name: "t", Title: "Moment, µs (−1: all)", Kind: Slider, Default: "-1", Min: -1, Max: 400, Play: true, Doc: "What lies behind it is faint; −1 shows all."},
			{Name: "w", Title: "Beside it", Kind: Choice, Default: "model", Choices: []string{"model", "nothing"}, Doc: "The same launch in the model of a Radeon VII."},
		},
		Render: func(v Values) (Result, error) {
			now, err := strconv.Atoi(v["t"])
			if err != nil {
				return Result{}, err
			}
			x, err := recorded.Find(v["s"])
			if err != nil {
				return Result{}, err
			}
			t, err := recorded.Trace(x.Name)
			if err != nil {
				return Result{}, err
			}
			p, err := timeline.Blocks(t, now, v.look())
			if err != nil {
				return Result{}, err
			}
			out := Result{Pictures: []Picture{{Name: "measured", Picture: p}}, Sentence: p.Desc}
			if v["w"] == "model" {
				r, err := x.Program.Run()
				if err != nil {
					return Result{}, err
				}
				tick := now
				if now >= 0 {
					tick = now / x.Micros
				}
				p, err := timeline.Gantt(r, x.Title+": the model of a Radeon VII", tick, v.look())
				if err != nil {
					return Result{}, err
				}
				out.Pictures = append(out.Pictures, Picture{Name: "modelled", Picture: p})
				out.Sentence += fmt.Sprintf(" The model of a Radeon VII takes %d ticks of %d µs.", r.Ticks, x.Micros)
			}
			return out, nil
		},
	}
}
