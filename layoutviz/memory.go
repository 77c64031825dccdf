package layoutviz

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/layoutviz/scene"
)

// Limits of the memory view: rows of banks drawn of one phase, and phases.
const (
	maxBankRows = 40
	maxPhases   = 16
)

// Banks draws one access of a warp to shared memory, phase by phase: banks run
// right, each row is one pass over all banks, a cell is a word with the lanes that
// ask for it. The row above the words counts how many different words each bank
// must hand out; more than one is a conflict. Two lanes that collide are outlined.
func Banks(r bank.Report, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	if r.Banks <= 0 || r.BankBytes <= 0 {
		return Picture{}, fmt.Errorf("layoutviz: the report names no banks; make it with bank.Count")
	}
	worst, longest := 1, "00"
	for _, ph := range r.Phases {
		worst = max(worst, ph.Degree)
		for _, q := range ph.Requests {
			if s := lanesShort(q.Lanes); len(s) > len(longest) {
				longest = s
			}
		}
	}
	row := r.Banks * r.BankBytes
	var panels []table
	var phases []bank.Phase
	for _, ph := range r.Phases {
		if ph.Degree > 0 && len(panels) < maxPhases {
			panels, phases = append(panels, phaseTable(c, r, ph, row, worst, longest)), append(phases, ph)
		}
	}
	title := fmt.Sprintf("Banks of a %s of %d bytes a lane", r.Access.Kind, r.Access.Width)
	first := fmt.Sprintf("%s, %d bytes a lane: %s", r.Access.Kind, r.Access.Width, tally(r))
	desc := first + "."
	c.w = 480
	for _, t := range panels {
		c.w = max(c.w, pad+t.extent().w+pad)
	}
	y := pad
	if !o.NoCaption {
		y = c.caption([]string{first, fmt.Sprintf("%d banks of %d bytes (%s); a cell is a word and holds the lanes that ask for it", r.Banks, r.BankBytes, r.Profile)}, y)
	}
	for i, t := range panels {
		ph := phases[i]
		head := fmt.Sprintf("phase %d: %s, %s", ph.Number, laneRuns(ph.Lanes), count(ph.Degree, "wavefront"))
		c.text(pad, y+12, topSize, c.ink, scene.Start, true, head)
		t.name = head
		t.place(c, pad, y+16)
		y += 16 + t.extent().h + 4
		if ph.Why != "" {
			y = c.notes(y, ph.Why)
			desc += fmt.Sprintf(" Phase %d: %s", ph.Number, ph.Why)
		}
		y += 8
	}
	if n := activePhases(r) - len(panels); n > 0 {
		y = c.notes(y, fmt.Sprintf("%s more are not drawn.", count(n, "phase")))
	}
	c.h = y + pad
	return c.picture(title, desc), nil
}

func activePhases(r bank.Report) (n int) {
	for _, ph := range r.Phases {
		if ph.Degree > 0 {
			n++
		}
	}
	return n
}

// tally is the count of a report as words.
func tally(r bank.Report) string {
	s := fmt.Sprintf("%s in %s", count(r.Wavefronts, "wavefront"), count(r.Ideal, "phase"))
	if r.Conflicts == 0 {
		return s + ", no conflict"
	}
	return s + fmt.Sprintf(", %s more than without conflicts", fmt.Sprint(r.Conflicts))
}

func phaseTable(c *canvas, r bank.Report, ph bank.Phase, row, worst int, longest string) table {
	// Only rows of banks with a request are drawn.
	var rows []int
	words := make([]int, r.Banks)
	at := map[[2]int]bank.Request{}
	for _, q := range ph.Requests {
		line := q.Word * r.BankBytes / row
		words[q.Bank]++
		at[[2]int{line, q.Bank}] = q
		if !slices.Contains(rows, line) {
			rows = append(rows, line)
		}
	}
	slices.Sort(rows)
	left := 0
	if len(rows) > maxBankRows {
		left = len(rows) - maxBankRows
		rows = rows[:maxBankRows]
	}
	t := table{rowAxis: "byte", colAxis: "bank", rows: len(rows) + 1, cols: r.Banks, small: true, labelled: true, linked: true, longest: longest}
	if left > 0 {
		t.colAxis = fmt.Sprintf("bank; %d more rows of banks are not drawn;", left)
	}
	t.colHead = func(b int) string { return fmt.Sprint(b) }
	t.rowHead = func(i int) string {
		if i == 0 {
			return "words"
		}
		return fmt.Sprint(rows[i-1] * row)
	}
	t.cell = func(i, b int) cell {
		if i == 0 {
			e := cell{fills: []string{c.paper}, id: fmt.Sprintf("p%db%d", ph.Number, b), keys: []int{-1 - b},
				label: fmt.Sprintf("phase %d: bank %d hands out %s", ph.Number, b, count(words[b], "word"))}
			if words[b] > 0 {
				e.top = fmt.Sprint(words[b])
				e.fills[0] = c.quiet
				if words[b] > 1 {
					e.fills[0] = c.heat(words[b]*100/worst, 100)
				}
			}
			return e
		}
		q, ok := at[[2]int{rows[i-1], b}]
		if !ok {
			return cell{fills: []string{c.paper}}
		}
		e := cell{id: fmt.Sprintf("p%dw%d", ph.Number, q.Word), keys: q.Lanes, thread: q.Lanes[0], top: lanesShort(q.Lanes), at: []int{q.Word},
			label: fmt.Sprintf("phase %d: word %d in bank %d (byte %d) goes to %s", ph.Number, q.Word, b, q.Word*r.BankBytes, laneRuns(q.Lanes))}
		for _, l := range q.Lanes[:min(len(q.Lanes), maxShown)] {
			e.fills = append(e.fills, c.of(l))
		}
		if ph.Degree > 1 && b == ph.Bank && (slices.Contains(q.Lanes, ph.Pair[0]) || slices.Contains(q.Lanes, ph.Pair[1])) {
			e.mark = c.alarm
		}
		return e
	}
	return t
}

// lanesShort is "5" or "5+3" for lane 5 and three more.
func lanesShort(lanes []int) string {
	if len(lanes) == 1 {
		return fmt.Sprint(lanes[0])
	}
	return fmt.Sprintf("%d+%d", lanes[0], len(lanes)-1)
}

// laneRuns is "lanes 0–7, 16–23".
func laneRuns(lanes []int) string {
	if len(lanes) == 1 {
		return fmt.Sprint("lane ", lanes[0])
	}
	var s []string
	for i := 0; i < len(lanes); {
		j := i
		for j+1 < len(lanes) && lanes[j+1] == lanes[j]+1 {
			j++
		}
		switch {
		case j == i:
			s = append(s, fmt.Sprint(lanes[i]))
		default:
			s = append(s, fmt.Sprintf("%d–%d", lanes[i], lanes[j]))
		}
		i = j + 1
	}
	return "lanes " + strings.Join(s, ", ")
}

// Sectors draws one access of a warp to global memory: a row is a line of 128 bytes,
// a cell a sector of 32 with the lanes that ask for bytes of it. Every sector with a
// lane is moved whole. Addresses are those of the lanes, as for bank.Global.
func Sectors(width int, addrs []int, o Options) (Picture, error) {
	c, err := newCanvas(o)
	if err != nil {
		return Picture{}, err
	}
	r, err := bank.Global(width, addrs)
	if err != nil {
		return Picture{}, fmt.Errorf("layoutviz: %w", err)
	}
	if len(r.Lines) == 0 {
		return Picture{}, fmt.Errorf("layoutviz: no lane takes part")
	}
	const sector, line = 32, 128
	lanes := map[int][]int{}
	used := map[int]map[int]bool{}
	longest := "0"
	for l, a := range addrs {
		if a == bank.Inactive {
			continue
		}
		at := a / sector * sector
		lanes[at] = append(lanes[at], l)
		if used[at] == nil {
			used[at] = map[int]bool{}
		}
		for b := range width {
			used[at][a+b] = true
		}
	}
	for _, list := range lanes {
		if s := lanesIn(list); len(s) > len(longest) {
			longest = s
		}
	}
	t := table{rowAxis: "byte", colAxis: "sector of 32 bytes", rows: len(r.Lines), cols: line / sector, twoLines: true, labelled: true, linked: true, longest: longest + "00",
		rowHead: func(i int) string { return fmt.Sprint(r.Lines[i]) }, colHead: func(i int) string { return fmt.Sprint(i) }}
	t.cell = func(i, k int) cell {
		at := r.Lines[i] + k*sector
		list := lanes[at]
		if len(list) == 0 {
			return cell{fills: []string{c.paper}}
		}
		return cell{fills: []string{c.heat(sector-len(used[at]), 2*sector)}, id: fmt.Sprint("s", at), keys: list, thread: list[0], at: []int{at},
			top: lanesIn(list), bottom: fmt.Sprintf("%d of 32 B", len(used[at])),
			label: fmt.Sprintf("bytes %d to %d: %s, %d bytes used", at, at+sector-1, laneRuns(list), len(used[at]))}
	}
	t.longest = "00 of 32 B"
	if len(longest) > len(t.longest) {
		t.longest = longest
	}
	first := fmt.Sprintf("global access, %d bytes a lane: %s", width, count(len(r.Sectors), "sector"))
	return t.draw(o, first, first+". "+r.Why, []string{first, r.Why, "a cell holds the lanes that ask for the sector, and how many of its bytes are used; redder is waste"})
}

// lanesIn is "0–7" or "0, 9 and 3 more" for the lanes of a sector.
func lanesIn(lanes []int) string {
	if s := laneRuns(lanes); len(lanes) == 1 || !strings.Contains(s, ",") {
		return strings.TrimPrefix(strings.TrimPrefix(s, "lanes "), "lane ")
	}
	return fmt.Sprintf("%d+%d", lanes[0], len(lanes)-1)
}
