package pane

import (
	"fmt"
	"strconv"

	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
)

func voltaPane() Pane {
	var ways []string
	for _, w := range volta.AllNumerics() {
		ways = append(ways, string(w))
	}
	return Pane{
		Name:  "volta",
		Title: "Volta's tensor core",
		Doc:   "A 16×16×16 product on Volta, one HMMA instruction after the other: which lanes give what, whose B an octet uses, which sums are written, and when. Point at anything to find it elsewhere.",
		Params: []Param{
			Param{Name: "n", Title: "Instructions done", Kind: Slider, Default: "7", Min: 0, Max: 16, Play: true, Story: Values{"v": VoltaSteps}, Doc: "State after so many HMMA; with sums in f16 there are 8."}.beside("v", VoltaOctets, VoltaMemory, VoltaBoxes, VoltaRounding),
			Param{Name: "v", Title: "Show", Kind: Choice,
				Doc: "The octets at work; a matrix from shared memory through the lanes' registers to the sums; the 64 multipliers of a tensor core; all steps at once; the bits of the addition of one sum."}.shows(VoltaViews()),
			{Name: "m", Title: "Sums", Kind: Choice, Default: "mixed", Choices: []string{"mixed", "fp16"}, Doc: "Sums in f32 (mixed) or in f16."},
			{Name: "l", Title: "A and B lie", Kind: Choice, Default: "row.col", Choices: []string{"row.col", "row.row", "col.col", "col.row"}, Doc: "How A and B lie in memory."},
			Param{Name: "x", Title: "Matrix", Kind: Choice, Default: "A", Choices: []string{"A", "B", "C", "D"}, Doc: "The matrix that is followed from memory to sums."}.beside("v", VoltaMemory),
			Param{Name: "b", Title: "Multiplier", Kind: Slider, Default: "21", Min: 0, Max: 127, Doc: "One of the 64 of each of a sub-core's two tensor cores; of its sum the rounding shows the bits."}.beside("v", VoltaBoxes, VoltaRounding),
			Param{Name: "a", Title: "Adds as", Kind: Choice, Default: string(volta.AsV100), Choices: ways, Doc: "How products are added."}.beside("v", VoltaOctets, VoltaMemory),
		},
		Render: renderVolta,
	}
}

// voltaGo is what choosing an element of a picture shows: an instruction its state, a
// sum that was just written its multipliers, a multiplier itself at work.
func voltaGo(r *volta.Run, v Values, n int, e layoutviz.Element) Values {
	var a, b int
	switch v["v"] {
	case VoltaBoxes:
		if k, _ := fmt.Sscanf(e.ID, "x%d", &a); k == 1 {
			box, err := strconv.Atoi(v["b"])
			if err != nil {
				return nil
			}
			return Values{"b": strconv.Itoa(box/64*64 + a)}
		}
	case VoltaOctets, VoltaSteps, VoltaMemory:
		if k, _ := fmt.Sscanf(e.ID, "h%d", &a); k == 1 {
			return Values{"v": VoltaOctets, "n": strconv.Itoa(a + 1)}
		}
		if k, _ := fmt.Sscanf(e.ID, "D%d.%d", &a, &b); k == 2 && n > 0 {
			for _, d := range r.Of(n - 1) {
				if d.Row == a && d.Column == b && d.Turn == 0 {
					return Values{"v": VoltaBoxes, "b": strconv.Itoa(theatre.BoxOf(d))}
				}
			}
		}
	}
	return nil
}

func renderVolta(v Values) (Result, error) {
	setup, err := volta.ParseSetup(v["m"], v["l"], v["a"])
	if err != nil {
		return Result{}, err
	}
	a, b, c := volta.Integers()
	if v["v"] == VoltaRounding {
		// Sums of small integers lose nothing; thirds do.
		for i := range a {
			for j := range a[i] {
				a[i][j], b[i][j], c[i][j] = a[i][j]/3, b[i][j]/7, c[i][j]/5
			}
		}
	}
	r, err := volta.New(setup, volta.Measured, a, b, c)
	if err != nil {
		return Result{}, err
	}
	n, err := strconv.Atoi(v["n"])
	if err != nil {
		return Result{}, err
	}
	n = min(n, len(r.Instrs))
	box, err := strconv.Atoi(v["b"])
	if err != nil {
		return Result{}, err
	}
	o := v.look()
	var out Result
	// add takes what a drawing function returns.
	add := func(name string, draw func() (layoutviz.Picture, error)) {
		if err != nil {
			return
		}
		var p layoutviz.Picture
		p, err = draw()
		out.Pictures = append(out.Pictures, Picture{Name: name, Picture: p}.going(func(e layoutviz.Element) Values { return voltaGo(r, v, n, e) }))
		if out.Sentence == "" {
			out.Sentence = p.Desc
		}
	}
	octets := func() (layoutviz.Picture, error) { return theatre.Octets(r, n, o) }
	switch v["v"] {
	case VoltaMemory:
		add("shared memory", func() (layoutviz.Picture, error) { return theatre.Memory(r, v["x"], n, o) })
		add("registers", func() (layoutviz.Picture, error) { return theatre.Fragment(r, v["x"], o) })
		add("octets", octets)
	case VoltaBoxes:
		add("multipliers", func() (layoutviz.Picture, error) { return theatre.Core(r, box/64, max(n, 1), 0, box%64, o) })
	case VoltaSteps:
		add("all steps", func() (layoutviz.Picture, error) { return theatre.Storyboard(r, o) })
	case VoltaRounding:
		d := theatre.DotOf(r, box/64, max(n, 1), 0, box%64)
		products := make([]float64, 4)
		for k := range products {
			products[k] = d.A[k] * d.B[k]
		}
		out.Sentence = fmt.Sprintf("D[%d,%d] in %s. ", d.Row, d.Column, r.Instrs[d.Instr].Text)
		add("bits", func() (layoutviz.Picture, error) {
			return theatre.Rounding(setup.Sums, d.C, products, volta.AllNumerics(), o)
		})
		if err == nil {
			out.Sentence += out.Pictures[0].Desc
		}
	default:
		add("octets", octets)
	}
	return out, err
}
