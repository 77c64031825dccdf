package lab

import (
	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
)

// Volta draws Volta's octets after n HMMA instructions of a 16×16×16 product of small
// integers. The mode is "mixed" (sums in f32) or "fp16", the layout says how A and B
// lie: "row.col".
//
//	lab.Show(lab.Volta("mixed", "row.col", 7))
func Volta(mode, layout string, n int) (layoutviz.Picture, error) {
	r, err := VoltaRun(mode, layout)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	return theatre.Octets(r, n, layoutviz.Options{})
}

// VoltaRun is that product with all that happened: its events, frames, sums, and who
// wrote each register.
func VoltaRun(mode, layout string) (*volta.Run, error) {
	s, err := volta.ParseSetup(mode, layout, "")
	if err != nil {
		return nil, err
	}
	a, b, c := volta.Integers()
	return volta.New(s, volta.Measured, a, b, c)
}
