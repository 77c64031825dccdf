package pane

import (
	"fmt"
	"strconv"

	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/theatre"
)

func followPane() Pane {
	return Pane{
		Name:  "follow",
		Title: "Follow one element",
		Doc:   "One element of a 16×16×16 product on Volta: where it lies in shared memory, which lanes hold it in which registers, which HMMA instructions use it, and what the multipliers do with it. Choose another element or another instruction in the picture.",
		Params: []Param{
			{Name: "x", Title: "Matrix", Kind: Choice, Default: "A", Choices: []string{"A", "B", "D"}, Doc: "An operand, from memory to HMMA, or the result, from HMMA to memory."},
			{Name: "r", Title: "Row", Kind: Slider, Default: "5", Min: 0, Max: 15, Doc: "Its row."},
			{Name: "c", Title: "Column", Kind: Slider, Default: "9", Min: 0, Max: 15, Doc: "Its column."},
			{Name: "n", Title: "Instruction (0: first user)", Kind: Slider, Default: "0", Min: 0, Max: 16, Play: true, Doc: "The HMMA that is looked at; 0 is the first that uses the element."},
			{Name: "m", Title: "Sums", Kind: Choice, Default: "mixed", Choices: []string{"mixed", "fp16"}, Doc: "Sums in f32 (mixed) or in f16."},
			{Name: "l", Title: "A and B lie", Kind: Choice, Default: "row.col", Choices: []string{"row.col", "row.row", "col.col", "col.row"}, Doc: "How A and B lie in memory."},
			{Name: "o", Title: "Octets below", Kind: Choice, Default: "no", Choices: []string{"no", "yes"}, Doc: "The octets after that instruction as well, linked with the picture."},
		},
		Render: renderFollow,
	}
}

func renderFollow(v Values) (Result, error) {
	setup, err := volta.ParseSetup(v["m"], v["l"], "")
	if err != nil {
		return Result{}, err
	}
	num := map[string]int{}
	for _, name := range []string{"r", "c", "n"} {
		if num[name], err = strconv.Atoi(v[name]); err != nil {
			return Result{}, err
		}
	}
	a, b, c := volta.Integers()
	r, err := volta.New(setup, volta.Measured, a, b, c)
	if err != nil {
		return Result{}, err
	}
	n := min(num["n"], len(r.Instrs))
	p, err := theatre.Follow(r, v["x"], num["r"], num["c"], n, v.look())
	if err != nil {
		return Result{}, err
	}
	out := Result{Sentence: p.Desc}
	out.Pictures = append(out.Pictures, Picture{Name: "follow", Picture: p}.going(func(e layoutviz.Element) Values {
		var i, j int
		if k, _ := fmt.Sscanf(e.ID, "s%d.%d", &i, &j); k == 2 {
			return Values{"r": strconv.Itoa(i), "c": strconv.Itoa(j), "n": "0"}
		}
		if k, _ := fmt.Sscanf(e.ID, "f%d.%d", &i, &j); k == 2 && len(e.At) == 2 {
			return Values{"r": strconv.Itoa(e.At[0]), "c": strconv.Itoa(e.At[1]), "n": "0"}
		}
		if k, _ := fmt.Sscanf(e.ID, "h%d", &i); k == 1 {
			return Values{"n": strconv.Itoa(i + 1)}
		}
		return nil
	}))
	if v["o"] == "yes" {
		if n == 0 {
			uses, err := theatre.Uses(r, v["x"], num["r"], num["c"])
			if err != nil {
				return Result{}, err
			}
			n = uses[0].Instr + 1
		}
		p, err := theatre.Octets(r, n, v.look())
		if err != nil {
			return Result{}, err
		}
		out.Pictures = append(out.Pictures, Picture{Name: "octets", Picture: p})
	}
	return out, nil
}
