package fusion

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/part"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// node is a box of a graph, edge an arrow from the bottom of one to the top of another.
type node struct {
	id, title, label string
	lines            []string
	color            string
	layer            int
	x, y, w, h       int
}

type edge struct {
	from, to int
	label    string
}

// graph draws boxes in layers from top to bottom.
func graph(nodes []*node, edges []edge, title, desc string, o layoutviz.Options) (layoutviz.Picture, error) {
	s, err := newSheet(0, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	const gap, lineH = 28, 16
	deepest := 0
	for range nodes { // longest paths; nodes call only later ones
		for _, e := range edges {
			nodes[e.to].layer = max(nodes[e.to].layer, nodes[e.from].layer+1)
			deepest = max(deepest, nodes[e.to].layer)
		}
	}
	layers := make([][]int, deepest+1)
	widest := 0
	for i, n := range nodes {
		n.w = scene.Width(n.title, textSize) + 20
		for _, l := range n.lines {
			n.w = max(n.w, scene.Width(l, noteSize)+20)
		}
		n.h = 24 + lineH*len(n.lines)
		if len(n.lines) > 0 {
			n.h += 6
		}
		layers[n.layer] = append(layers[n.layer], i)
	}
	for _, l := range layers {
		sum := gap * (len(l) - 1)
		for _, i := range l {
			sum += nodes[i].w
		}
		widest = max(widest, sum)
	}
	long := 0
	for _, e := range edges {
		if nodes[e.to].layer > nodes[e.from].layer+1 {
			long++
		}
	}
	s.w = max(2*pad+widest+24*long+20, 520)
	y := s.para(pad, pad, s.w-2*pad, bigSize, s.ink, true, title)
	y = s.para(pad, y+2, s.w-2*pad, noteSize, s.muted, false, desc) + 14
	below := make([]int, len(layers)) // the y of the channel under each layer
	channel := make([]int, len(layers))
	for k, l := range layers {
		for _, e := range edges {
			if nodes[e.to].layer == k {
				channel[k]++ // arrows into this layer run above it
			}
		}
		if k > 0 {
			y += 26 + 9*channel[k]
		}
		sum := gap * (len(l) - 1)
		for _, i := range l {
			sum += nodes[i].w
		}
		x := pad + (widest-sum)/2
		tall := 0
		for _, i := range l {
			n := nodes[i]
			n.x, n.y = x, y
			x += n.w + gap
			tall = max(tall, n.h)
		}
		y += tall
		below[k] = y
	}
	for i, n := range nodes {
		s.box(n.color, n.x, n.y, n.w, n.h)
		s.frame(s.line, 1.25, n.x, n.y, n.w, n.h)
		s.text(n.x+10, n.y+17, textSize, s.on(n.color), scene.Start, true, n.title)
		for j, l := range n.lines {
			s.text(n.x+10, n.y+24+lineH*j+12, noteSize, s.on(n.color), scene.Start, false, l)
		}
		s.ids = append(s.ids, layoutviz.Element{ID: n.id, Label: n.label, X: n.x, Y: n.y, W: n.w, H: n.h, Keys: []int{i}})
	}
	// Ports stand side by side along the edges of the boxes.
	out, in := map[int]int{}, map[int]int{}
	outs, ins := map[int]int{}, map[int]int{}
	for _, e := range edges {
		outs[e.from]++
		ins[e.to]++
	}
	used := make([]int, len(layers))
	side := 0
	for _, e := range edges {
		a, b := nodes[e.from], nodes[e.to]
		out[e.from]++
		in[e.to]++
		x1 := a.x + a.w*out[e.from]/(outs[e.from]+1)
		x2 := b.x + b.w*in[e.to]/(ins[e.to]+1)
		y1, y2 := a.y+a.h, b.y
		turn := b.y - 14 - 9*used[b.layer]
		used[b.layer]++
		if b.layer == a.layer+1 {
			s.stroke(s.line, 1.5, x1, y1, x1, turn)
			s.stroke(s.line, 1.5, x1, turn, x2, turn)
		} else {
			side++
			bus := pad + widest + 24*side
			first := below[a.layer] + 8
			s.stroke(s.line, 1.5, x1, y1, x1, first)
			s.stroke(s.line, 1.5, x1, first, bus, first)
			s.stroke(s.line, 1.5, bus, first, bus, turn)
			s.stroke(s.line, 1.5, bus, turn, x2, turn)
		}
		s.stroke(s.line, 1.5, x2, turn, x2, y2-6)
		s.back = append(s.back, scene.Band{Color: s.line, A1: x2 - 4, B1: x2 + 4, Y1: y2 - 8, A2: x2, B2: x2 + 1, Y2: y2, Opacity: 100})
		if e.label != "" {
			s.text(x2+5, y2-3, tinySize, s.accent, scene.Start, true, e.label)
		}
	}
	return s.picture(y+pad, title, desc), nil
}

// maxLines is how many instructions of a part or buffers of a kernel are listed.
const maxLines = 14

func shortened(lines []string) []string {
	if len(lines) <= maxLines {
		return lines
	}
	return append(slices.Clone(lines[:maxLines-1]), fmt.Sprintf("… and %d more", len(lines)-maxLines+1))
}

// instruction is one as a line of a box.
func instruction(in *hlo.Instruction) string {
	var operands []string
	for _, o := range in.Operands {
		operands = append(operands, o.Name)
	}
	if in.Op == hlo.Constant && in.Value != nil && in.Value.Len() == 1 {
		operands = append(operands, strconv.FormatFloat(in.Value.Floats()[0], 'g', -1, 64))
	}
	text := fmt.Sprintf("%s = %s(%s)", in.Name, in.Op, strings.Join(operands, ", "))
	if len(text) > 64 {
		text = text[:61] + "…"
	}
	return text
}

// Partition draws the functions that the instructions of a computation stand in and which
// calls which. Functions that only move elements are pale; those that are called from two
// places are computed once for each index and not once for each way.
func Partition(p *part.Partition, o layoutviz.Options) (layoutviz.Picture, error) {
	s, err := newSheet(0, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	inline, why := p.Inlined()
	var nodes []*node
	var edges []edge
	at := map[*part.Part]int{}
	for i, q := range p.Parts {
		at[q] = i
		n := &node{id: fmt.Sprintf("p%d", i), title: q.Name, color: s.tint(i)}
		if q.NoCompute {
			n.color = scene.Mix(s.line, s.paper, 85)
		}
		for _, in := range q.Instructions {
			n.lines = append(n.lines, instruction(in))
		}
		n.lines = shortened(n.lines)
		var ranges []string
		for _, r := range q.Ranges {
			ranges = append(ranges, r.String())
		}
		note := "called, " + why[i]
		if inline[i] {
			note = "inlined, " + why[i]
		}
		if i > 0 {
			n.lines = append(n.lines, note)
		}
		n.label = fmt.Sprintf("%s: a function of indices in %s; %s", q.Name, strings.Join(ranges, " × "), note)
		nodes = append(nodes, n)
	}
	calls := 0
	for i, q := range p.Parts {
		for _, other := range p.Parts {
			if n := q.Calls[other]; n > 0 {
				label := ""
				if n > 1 {
					label = fmt.Sprintf("× %d", n)
				}
				calls += n
				edges = append(edges, edge{i, at[other], label})
			}
		}
	}
	title := "Functions of " + p.Computation.Name
	desc := fmt.Sprintf("%d instructions in %d functions with %d calls: what is read at one place belongs together, what is read at two becomes a function.", len(p.Computation.Instructions), len(p.Parts), calls)
	return graph(nodes, edges, title, desc, o)
}

// Kernels draws the kernels of a plan with the buffers that they read and write.
func Kernels(p *plan.Plan, o layoutviz.Options) (layoutviz.Picture, error) {
	s, err := newSheet(0, o)
	if err != nil {
		return layoutviz.Picture{}, err
	}
	var nodes []*node
	var edges []edge
	last := map[int]int{} // node that holds a buffer now
	role := map[plan.Role]int{plan.ParameterBuffer: 0, plan.ResultBuffer: 2, plan.TemporaryBuffer: 1, plan.ConstantBuffer: 3}
	holder := func(b int) int {
		if n, ok := last[b]; ok {
			return n
		}
		buffer := p.Buffers[b]
		nodes = append(nodes, &node{id: fmt.Sprintf("b%d", b), title: buffer.Name, lines: []string{string(buffer.Role) + " " + buffer.Shape.String()},
			label: fmt.Sprintf("%s, a %s of %d bytes", buffer.Name, buffer.Role, buffer.Shape.Bytes()), color: s.tint(role[buffer.Role])})
		last[b] = len(nodes) - 1
		return last[b]
	}
	for i, k := range p.Kernels {
		n := &node{id: fmt.Sprintf("k%d", i), title: fmt.Sprintf("kernel %d: %s", i, k.Emitter), color: s.tint(5 + i)}
		for _, x := range k.Computation.Instructions {
			if x.Op != hlo.Parameter && x.Op != hlo.Tuple {
				n.lines = append(n.lines, instruction(x))
			}
		}
		n.lines = shortened(n.lines)
		if len(k.Work) > 0 {
			n.lines = append(n.lines, "blocks share partial results")
		}
		n.label = fmt.Sprintf("kernel %d, emitter %s: %s", i, k.Emitter, strings.Join(k.Why, "; "))
		var from []int
		for _, b := range k.Args {
			from = append(from, holder(b))
		}
		nodes = append(nodes, n)
		self := len(nodes) - 1
		for _, f := range from {
			edges = append(edges, edge{f, self, ""})
		}
		for _, b := range k.Results {
			delete(last, b)
			edges = append(edges, edge{self, holder(b), ""})
		}
	}
	title := "Kernels of " + p.Computation.Name
	desc := fmt.Sprintf("%d kernels over %d buffers, from top to bottom in the order of launches.", len(p.Kernels), len(p.Buffers))
	if len(p.Kernels) == 1 {
		desc = "One kernel; everything between its arguments and results stays in registers and shared memory."
	}
	return graph(nodes, edges, title, desc, o)
}
