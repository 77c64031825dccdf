package pane

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// The looks of the page of a matrix instruction.
const (
	mmaOurs = "threads and slots"
	mmaCute = "as CuTe prints it"
)

func mmaPane() Pane {
	return Pane{
		Name:  "mma",
		Title: "Matrix instruction",
		Doc:   "One instruction as A, B and C, with C where the rows of A meet the columns of B. Choose a sum in C to see which registers of which lanes make it.",
		Params: []Param{
			{Name: "i", Title: "Instruction", Kind: Text, Default: "mma.m16n8k16.f32.f16", Hint: "mma.m16n8k16.f32.f16", Doc: "Any of its names: PTX's, CuTe's or AMD's, such as v_mfma_f32_32x32x8f16."},
			{Name: "r", Title: "Row", Kind: Slider, Default: "9", Min: 0, Max: 127, Doc: "Row of the sum."},
			{Name: "c", Title: "Column", Kind: Slider, Default: "2", Min: 0, Max: 255, Doc: "Column of the sum."},
			{Name: "l", Title: "Look", Kind: Choice, Default: mmaOurs, Choices: []string{mmaOurs, mmaCute}, Doc: "With slots of threads, or in the arrangement and colours of CuTe's print_svg."},
		},
		Render: renderMMA,
	}
}

func renderMMA(v Values) (Result, error) {
	a, err := arch.FindAtom(strings.TrimSpace(v["i"]))
	if err != nil {
		return Result{}, located(err, "i", v["i"])
	}
	find := func(names ...string) (arch.Operand, bool) {
		for _, o := range a.Operands {
			if slices.Contains(names, o.Name) && len(o.Shape) > 0 {
				return o, true
			}
		}
		return arch.Operand{}, false
	}
	opA, okA := find("A")
	opB, okB := find("B")
	sum, okC := find("D", "C")
	if !okA || !okB || !okC {
		return Result{}, diag.List{{Pos: at("i"), Code: "Pane.E25", Msg: fmt.Sprintf("%s multiplies no matrices", a.Name), Help: "the catalogue draws it: open Instructions"}}
	}
	draw := layoutviz.Atom
	if v["l"] == mmaCute {
		draw = layoutviz.CuteAtom
	}
	pic, err := draw(a, v.look())
	if err != nil && v["l"] == mmaCute {
		return Result{}, diag.List{{Pos: at("l"), Code: "Pane.E25", Msg: bare(err), Help: "look at its " + mmaOurs}}
	}
	if err != nil {
		return Result{}, located(err, "i", v["i"])
	}
	row, err := strconv.Atoi(v["r"])
	if err != nil {
		return Result{}, err
	}
	col, err := strconv.Atoi(v["c"])
	if err != nil {
		return Result{}, err
	}
	row, col = min(row, a.M-1), min(col, a.N-1)
	out := Result{Pictures: []Picture{{Name: a.Name, Picture: pic}}, Sentence: pic.Desc}
	var b strings.Builder
	fmt.Fprintf(&b, "%s[%d,%d] in %s\n", sum.Name, row, col, holders(sum, 0, row, col))
	n := min(a.K, 64)
	if opA.Shape[len(opA.Shape)-1] < n {
		n = opA.Shape[len(opA.Shape)-1] // a sparse A
		fmt.Fprintf(&b, "A is sparse: the index chooses, for each of its elements, one of the rows of B\n")
	}
	for k := range n {
		fmt.Fprintf(&b, "+ %-36s × B[%d,%d] %s\n", fmt.Sprintf("A[%d,%d] %s", row, k, holders(opA, 0, row, k)), k, col, holders(opB, 0, k, col))
	}
	if a.K > n {
		b.WriteString("+ …\n")
	}
	fmt.Fprintf(&b, "\nnames    %s\nsince    %s\nsource   %s\n", strings.Join(a.Names(), ", "), a.Since, a.Source)
	out.Text = b.String()
	out.Pictures[0] = out.Pictures[0].going(func(e layoutviz.Element) Values {
		if len(e.At) != 2 || !strings.HasPrefix(e.ID, "D") && !strings.HasPrefix(e.ID, "C") {
			return nil
		}
		return Values{"r": strconv.Itoa(e.At[0]), "c": strconv.Itoa(e.At[1])}
	})
	if len(out.Pictures[0].Go) == 0 {
		out.Pictures[0].Go = nil
	}
	return out, nil
}

// holders says which lanes hold an element in which slot.
func holders(o arch.Operand, block, row, col int) string {
	if o.In != arch.InRegisters {
		return fmt.Sprintf("(%s)", o.In)
	}
	index := []int{row, col}
	if o.Layout.Rank() == 3 {
		index = []int{block, row, col}
	}
	if o.Layout.Rank() != len(index) {
		return ""
	}
	for i, n := range o.Layout.Shape() {
		if index[i] >= n {
			return ""
		}
	}
	h := o.Layout.Holders(index...)
	if len(h) == 0 {
		return ""
	}
	s := fmt.Sprintf("lane %d slot %d", h[0].Thread, h[0].Slot)
	if len(h) > 1 {
		s += fmt.Sprintf(" (and %d more)", len(h)-1)
	}
	return s
}
