package lab

import (
	"fmt"
	"strings"
	"text/tabwriter"

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

// VoltaBox draws the 64 multipliers of a tensor core, one of its green boxes each,
// during HMMA instruction n, from 1, and the dot-product unit around one box at work.
// Boxes of a sub-core's two tensor cores count from 0 to 127.
func VoltaBox(mode string, n, box int) (layoutviz.Picture, error) {
	r, err := VoltaRun(mode, "row.col")
	if err != nil {
		return layoutviz.Picture{}, err
	}
	if box < 0 || box > 127 {
		return layoutviz.Picture{}, fmt.Errorf("lab: there are boxes 0 to 127, not %d", box)
	}
	return theatre.Core(r, box/64, n, 0, box%64, layoutviz.Options{})
}

// VoltaStory draws all instructions of a product at once: what each takes and makes.
func VoltaStory(mode, layout string) (layoutviz.Picture, error) {
	r, err := VoltaRun(mode, layout)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	return theatre.Storyboard(r, layoutviz.Options{})
}

// VoltaRounding draws the bits of one addition, by every way to add: products that are
// added to a sum in f32. Numbers are written such as "1-2^-24".
//
//	lab.Show(lab.VoltaRounding("1", "2^-24", "2^-24", "2^-24", "2^-24"))
func VoltaRounding(sum string, products ...string) (layoutviz.Picture, error) {
	c, p, err := addends(sum, products)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	return theatre.Rounding(volta.F32, c, p, volta.AllNumerics(), layoutviz.Options{})
}

// VoltaSum is that addition as Volta does it.
func VoltaSum(sum string, products ...string) (float64, error) {
	c, p, err := addends(sum, products)
	if err != nil {
		return 0, err
	}
	s, err := volta.AsV100.Explain(volta.F32, c, p)
	return s.Result, err
}

func addends(sum string, products []string) (c float64, p []float64, err error) {
	if c, err = volta.ParseNumber(sum); err != nil {
		return 0, nil, err
	}
	if len(products) == 0 || len(products) > 4 {
		return 0, nil, fmt.Errorf("lab: a unit adds one to four products, not %d", len(products))
	}
	for _, t := range products {
		x, err := volta.ParseNumber(t)
		if err != nil {
			return 0, nil, err
		}
		p = append(p, x)
	}
	return c, p, nil
}

// VoltaGenerations compares the same product on Volta and its successors, as a table.
func VoltaGenerations() (string, error) {
	list, err := volta.Generations()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 2, 8, 2, ' ', 0)
	fmt.Fprintln(w, "generation\tinstruction\tof a 16×16×16\tcores in an SM\teach, a cycle\tA to registers\tB to registers")
	for _, g := range list {
		fmt.Fprintf(w, "%s\t%s\t%g\t%d\t%s\t%d bytes\t%d bytes\n", g.Name, g.Instruction, g.Count, g.CoresPerSM, g.PerCycle, g.BytesA, g.BytesB)
	}
	err = w.Flush()
	return strings.TrimRight(b.String(), "\n"), err
}
