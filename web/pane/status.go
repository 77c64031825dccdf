package pane

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/web/facts"
)

// matrix is the status matrix, see [facts.Status].
type matrix struct {
	Columns      []string `json:"columns"`
	Instructions []struct {
		Op     string            `json:"op"`
		Family string            `json:"family"`
		Cells  map[string]string `json:"cells"`
	} `json:"instructions"`
}

// statusLegend says what the words of the matrix mean.
var statusLegend = []string{
	"proved: recorded runs on a GPU gave the bits that it must give; stale: it has changed since",
	"simulated: tests hold it on the interpreter and the simulator; assembles: NVIDIA's assembler takes its code; –: not built",
}

func status() matrix {
	var m matrix
	if err := json.Unmarshal(facts.Status, &m); err != nil {
		panic(err) // our own file, held by a test
	}
	return m
}

func statusPane() Pane {
	families := []string{"any"}
	for _, l := range status().Instructions {
		if !slices.Contains(families, l.Family) {
			families = append(families, l.Family)
		}
	}
	slices.Sort(families[1:])
	return Pane{
		Name:  "status",
		Title: "Status",
		Doc:   "What is simulated, assembled and proved on a GPU of each instruction, as the tests found it. Choose a row to read what shows it.",
		Params: []Param{
			{Name: "f", Title: "Family", Kind: Choice, Default: "any", Choices: families, Doc: "Kind of instruction."},
			{Name: "op", Title: "Instruction", Kind: Text, Default: "Dot", Hint: "Dot", Doc: "The instruction whose cells are said in full."},
		},
		Render: renderStatus,
	}
}

// word is a cell in a word, and how far it is: 0 not built, 1 stale, 2 simulated or assembled, 3 proved.
func word(cell string) (string, int) {
	kind, reason, _ := strings.Cut(cell, ": ")
	switch {
	case strings.HasPrefix(reason, "stale"):
		return "stale", 1
	case kind == "not built":
		return "–", 0
	case kind == "proved on GPU":
		return "proved", 3
	}
	return kind, 2
}

func renderStatus(v Values) (Result, error) {
	m := status()
	op := strings.TrimSpace(v["op"])
	var text strings.Builder
	var known []string
	lines := m.Instructions[:0:0]
	for _, l := range m.Instructions {
		known = append(known, l.Op)
		if strings.EqualFold(l.Op, op) {
			op = l.Op
			for _, c := range m.Columns {
				fmt.Fprintf(&text, "%-10s %s\n", c, l.Cells[c])
			}
		}
		if v["f"] == "any" || v["f"] == l.Family {
			lines = append(lines, l)
		}
	}
	if op != "" && text.Len() == 0 {
		help := diag.DidYouMean(op, known)
		if help == "" {
			help = "the rows below name them; leave it empty for the whole table alone"
		}
		return Result{}, diag.List{{Pos: at("op"), End: diag.Pos{File: "op", Line: 1, Col: len(v["op"]) + 1}, Code: "Pane.E28", Msg: fmt.Sprintf("there is no instruction %.40q", op), Help: help}}
	}
	in := inksOf(v["th"])
	dark := darkSheet(v["th"])
	fill := []string{in.paper, "#f7d7b5", "#cfe3f7", "#bfe8cd"}
	if dark {
		fill = []string{in.paper, "#5c3d1e", "#1f3a56", "#1d4a30"}
	}
	const high, wide = 20, 88
	names := 0
	for _, l := range lines {
		names = max(names, scene.Width(l.Op, 12)+16)
	}
	s := &scene.Scene{Paper: in.paper, W: 16 + names + wide*len(m.Columns) + 16, H: 44 + high*len(lines) + 12 + 16*len(statusLegend) + 8}
	var head []scene.Word
	for j, c := range m.Columns {
		head = append(head, scene.Word{X: 16 + names + j*wide + wide/2, S: c})
	}
	boxes := make([]scene.Fills, len(fill))
	for k := range boxes {
		boxes[k].Color = fill[k]
	}
	var ids []layoutviz.Element
	var texts []scene.Item
	grid := layoutviz.Grid{Title: "status", Head: append([]string{"instruction"}, m.Columns...)}
	proved := 0
	for i, l := range lines {
		y := 40 + i*high
		row := []string{l.Op}
		words := []scene.Word{}
		for j, c := range m.Columns {
			w, k := word(l.Cells[c])
			row = append(row, w)
			words = append(words, scene.Word{X: 16 + names + j*wide + wide/2, S: w})
			boxes[k].Boxes = append(boxes[k].Boxes, scene.Box{X: 16 + names + j*wide + 1, Y: y + 1, W: wide - 2, H: high - 2})
			if c == "GPU" && k == 3 {
				proved++
			}
		}
		grid.Rows = append(grid.Rows, row)
		ids = append(ids, layoutviz.Element{ID: "op" + l.Op, Label: l.Op + ": " + strings.Join(row[1:], ", "), X: 12, Y: y, W: s.W - 24, H: high, Keys: []int{i + 1}, Thread: -1})
		texts = append(texts,
			scene.Text{Y: y + 14, Size: 12, Color: in.ink, Anchor: scene.Start, Bold: l.Op == op, Words: []scene.Word{{X: 16, S: l.Op}}},
			scene.Text{Y: y + 14, Size: 11, Color: in.ink, Anchor: scene.Middle, Words: words})
	}
	for _, b := range boxes {
		if len(b.Boxes) > 0 {
			s.Add(b)
		}
	}
	s.Add(scene.Text{Y: 30, Size: 12, Color: in.muted, Anchor: scene.Middle, Bold: true, Words: head})
	for _, t := range texts {
		s.Add(t)
	}
	for i, l := range statusLegend {
		s.Add(scene.Text{Y: 44 + high*len(lines) + 16*(i+1), Size: 11, Color: in.muted, Anchor: scene.Start, Words: []scene.Word{{X: 16, S: l}}})
	}
	p := layoutviz.Made(s, "Status of the instructions", fmt.Sprintf("%d instructions, %d columns.", len(lines), len(m.Columns)), ids)
	p.Grids = []layoutviz.Grid{grid}
	out := Result{Text: text.String()}
	out.Pictures = []Picture{Picture{Name: "status", Picture: p}.going(func(e layoutviz.Element) Values { return Values{"op": strings.TrimPrefix(e.ID, "op")} })}
	out.Sentence = fmt.Sprintf("%d of %d instructions gave equal bits on a GPU, as recorded in tests/record.", proved, len(lines))
	return out, nil
}
