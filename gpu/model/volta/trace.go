package volta

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// Tag says where a statement comes from.
type Tag string

// The tags, as facts and events carry them.
const (
	Primary   Tag = "P" // vendor's documents or decoded machine code
	Secondary Tag = "S" // a paper or measurement
	Derived   Tag = "D" // calculated from those
	Assumed   Tag = "A" // ours
)

// Say is the tag in words.
func (t Tag) Say() string {
	return map[Tag]string{Primary: "vendor", Secondary: "paper or measurement", Derived: "derived", Assumed: "assumed"}[t]
}

// Phases of a product.
const (
	PhaseLoad  = "load"  // before cycle 0
	PhaseMMA   = "mma"   // cycles from 0 on
	PhaseStore = "store" // after the last cycle
)

// Event is something that happened. Cycles count from the issue of the first
// instruction and an event takes those from Start up to, not including, End;
// loads and the store have no cycles of their own and stand at the first and the
// last. From are the events that it could not have happened without.
type Event struct {
	ID        int    `json:"id"`
	Phase     string `json:"phase"`
	Start     int    `json:"start"`
	End       int    `json:"end"`
	Unit      string `json:"unit"` // who: "lane 5", "octet 0", "threadgroup 4 unit 2", "warp"
	What      string `json:"what"` // load, issue, read, select, dot, write, store
	Instr     int    `json:"instr"`
	Octet     int    `json:"octet"`
	Lane      int    `json:"lane"` // these three are -1 where they do not apply
	Registers string `json:"registers,omitempty"`
	Cells     []Cell `json:"cells,omitempty"`
	Dot       int    `json:"dot"` // number in Run.Dots, "dots" of the JSON, or -1
	Text      string `json:"text"`
	Tag       Tag    `json:"tag"` // of when and where; values are those of the way to add
	From      []int  `json:"from,omitempty"`
}

// teller writes down the events of a run.
type teller struct {
	r      *Run
	events []Event
	last   int              // the issue before, or 0
	cell   map[[2]int]int   // who wrote the sum last
	loads  map[string][]int // by matrix and lane
}

func (t *teller) add(e Event) int {
	e.ID = len(t.events)
	t.events = append(t.events, e)
	return e.ID
}

// names is registers as "R8:R9".
func names(r Range) string {
	if r.First == r.Last {
		return fmt.Sprintf("R%d", r.First)
	}
	return fmt.Sprintf("R%d:R%d", r.First, r.Last)
}

func (t *teller) load(m Move) {
	if t.cell == nil {
		t.cell, t.loads, t.last = map[[2]int]int{}, map[string][]int{}, -1
	}
	id := t.add(Event{Phase: PhaseLoad, Unit: fmt.Sprintf("lane %d", m.Lane), What: "load", Instr: -1, Octet: m.Lane / 4 % 4, Lane: m.Lane, Dot: -1,
		Registers: names(m.Registers), Cells: m.Cells, Tag: Primary,
		Text: fmt.Sprintf("lane %d loads %d bytes of %s at byte %d, %s, into %s", m.Lane, m.Bytes, m.Matrix, m.Address, span(m.Cells), names(m.Registers))})
	key := fmt.Sprint(m.Matrix, m.Lane)
	t.loads[key] = append(t.loads[key], id)
	for _, c := range m.Cells {
		if m.Matrix == "C" {
			t.cell[[2]int{c.Row, c.Col}] = id
		}
	}
	t.wrote(m.Lane, m.Registers, id)
}

func (t *teller) wrote(lane int, registers Range, id int) {
	for g := registers.First; g <= registers.Last; g++ {
		k := [2]int{lane, g}
		t.r.writers[k] = append(t.r.writers[k], id)
	}
}

// span is the first and the last of some cells.
func span(c []Cell) string {
	if len(c) == 1 {
		return c[0].String()
	}
	return fmt.Sprintf("%s to %s", c[0], c[len(c)-1])
}

func (t *teller) instr(in Instr, dots []Dot) {
	at := in.Issue
	var from []int
	if t.last >= 0 {
		from = []int{t.last}
	}
	timing := Assumed // how a pace of complete prefixes is laid on the stages is ours
	issue := t.add(Event{Phase: PhaseMMA, Start: at, End: at + issueCycles, Unit: "warp", What: "issue", Instr: in.Number, Octet: -1, Lane: -1, Dot: -1,
		Text: in.Text, Tag: timing, From: from})
	t.last = issue
	at += issueCycles
	perOctet := len(dots) / 4
	for q, o := range Octets() {
		var reads [2]int
		for high := range 2 {
			rows := [2]Range{in.Low, in.High}[high]
			var cells []Cell
			from := []int{issue}
			for _, lane := range o.Lanes[4*high : 4*high+4] {
				from = append(from, t.source("A", lane, in.K)...)
			}
			for m := rows.First; m <= rows.Last; m++ {
				for k := in.K.First; k <= in.K.Last; k++ {
					cells = append(cells, Cell{"A", o.Rows.First + m, k})
				}
			}
			reads[high] = t.add(Event{Phase: PhaseMMA, Start: at, End: at + readCycles, Unit: fmt.Sprintf("threadgroup %d A buffer", o.Threadgroups[high]), What: "read",
				Instr: in.Number, Octet: q, Lane: -1, Dot: -1, Registers: in.A.String(), Cells: cells, Tag: Secondary, From: from,
				Text: fmt.Sprintf("the A buffer of threadgroup %d, its own, takes %s out of %s of lanes %d to %d", o.Threadgroups[high], span(cells), in.A, o.Lanes[4*high], o.Lanes[4*high+3])})
		}
		giver := 0
		if in.BFromHigh {
			giver = 1
		}
		var cells []Cell
		from := []int{issue}
		for _, lane := range o.Lanes[4*giver : 4*giver+4] {
			from = append(from, t.source("B", lane, in.K)...)
		}
		for k := in.K.First; k <= in.K.Last; k++ {
			for n := in.Columns.First; n <= in.Columns.Last; n++ {
				cells = append(cells, Cell{"B", k, o.Columns.First + n})
			}
		}
		mux := t.add(Event{Phase: PhaseMMA, Start: at, End: at + readCycles, Unit: fmt.Sprintf("octet %d B buffer", q), What: "select", Instr: in.Number, Octet: q, Lane: -1, Dot: -1,
			Registers: in.B.String(), Cells: cells, Tag: Secondary, From: from,
			Text: fmt.Sprintf("the multiplexer of octet %d selects threadgroup %d: %s for both threadgroups", q, o.Threadgroups[giver], span(cells))})
		wrote := map[int][]Dot{} // by lane
		made := map[int][]int{}
		for i, d := range dots[q*perOctet : (q+1)*perOctet] {
			start := at + readCycles + d.Turn
			high := 0
			if d.High {
				high = 1
			}
			id := t.add(Event{Phase: PhaseMMA, Start: start, End: start + UnitStages, Unit: fmt.Sprintf("threadgroup %d unit %d", d.Threadgroup(), d.Unit), What: "dot",
				Instr: in.Number, Octet: q, Lane: -1, Dot: len(t.r.Dots) - len(dots) + q*perOctet + i, Cells: []Cell{{"D", d.Row, d.Column}}, Tag: timing,
				From: []int{reads[high], mux, t.cell[[2]int{d.Row, d.Column}]},
				Text: fmt.Sprintf("D[%d,%d] = %v + %s = %v", d.Row, d.Column, d.C, d.Products(), d.Sum.Result)})
			wrote[d.Lane] = append(wrote[d.Lane], d)
			made[d.Lane] = append(made[d.Lane], id)
		}
		end := at + readCycles + UnitStages + t.r.Setup.Sums.Feed() - 1
		for _, lane := range o.Lanes {
			var cells []Cell
			for _, d := range wrote[lane] {
				cells = append(cells, Cell{"D", d.Row, d.Column})
			}
			id := t.add(Event{Phase: PhaseMMA, Start: end, End: end + writeCycles, Unit: fmt.Sprintf("lane %d", lane), What: "write", Instr: in.Number, Octet: q, Lane: lane, Dot: -1,
				Registers: in.D.String(), Cells: cells, Tag: Primary, From: made[lane],
				Text: fmt.Sprintf("%s of lane %d get %s", in.D, lane, cellList(cells))})
			for _, c := range cells {
				t.cell[[2]int{c.Row, c.Col}] = id
			}
			t.wrote(lane, Range{int(in.D), int(in.D) + 1}, id)
		}
	}
}

// source is the loads that filled the registers of a lane which hold an operand's
// slots of a set.
func (t *teller) source(matrix string, lane int, k Range) []int {
	var out []int
	first, last := t.r.Setup.Register(matrix, k.First), t.r.Setup.Register(matrix, k.Last)
	for _, id := range t.loads[fmt.Sprint(matrix, lane)] {
		var from, to int
		if n, _ := fmt.Sscanf(t.events[id].Registers, "R%d:R%d", &from, &to); n < 2 {
			to = from
		}
		if from <= last && to >= first {
			out = append(out, id)
		}
	}
	return out
}

func (t *teller) store(m Move) {
	var from []int
	for _, c := range m.Cells {
		id := t.cell[[2]int{c.Row, c.Col}]
		if len(from) == 0 || from[len(from)-1] != id {
			from = append(from, id)
		}
	}
	t.add(Event{Phase: PhaseStore, Start: t.r.Total, End: t.r.Total, Unit: fmt.Sprintf("lane %d", m.Lane), What: "store", Instr: -1, Octet: m.Lane / 4 % 4, Lane: m.Lane, Dot: -1,
		Registers: names(m.Registers), Cells: m.Cells, Tag: Primary, From: from,
		Text: fmt.Sprintf("lane %d stores %s, %s, to %d bytes at byte %d", m.Lane, names(m.Registers), span(m.Cells), m.Bytes, m.Address)})
}

func cellList(c []Cell) string {
	s := make([]string, len(c))
	for i := range c {
		s[i] = c[i].String()
	}
	return strings.Join(s, ", ")
}

// Products writes the products of a dot product: "2·3 + 0·1 + -1·2 + 1·1".
func (d Dot) Products() string {
	s := make([]string, 4)
	for k := range 4 {
		s[k] = fmt.Sprintf("%v·%v", d.A[k]+0, d.B[k]+0) // + 0: no negative zeros
	}
	return strings.Join(s, " + ")
}

// Who is the event that last wrote a register of a lane before a cycle begins; cycle
// 0 asks for what was loaded. The error says that nothing was written.
func (r *Run) Who(lane, register, cycle int) (Event, error) {
	if lane < 0 || lane > 31 {
		return Event{}, fmt.Errorf("volta: there are lanes 0 to 31, not %d", lane)
	}
	if cycle < 0 {
		return Event{}, fmt.Errorf("volta: cycles count from 0, not %d", cycle)
	}
	best := -1
	for _, id := range r.writers[[2]int{lane, register}] {
		if e := r.Events[id]; e.End <= cycle && (best < 0 || e.End >= r.Events[best].End) {
			best = id
		}
	}
	if best < 0 {
		return Event{}, fmt.Errorf("volta: no one has written R%d of lane %d by cycle %d", register, lane, cycle)
	}
	return r.Events[best], nil
}

// Why tells an event and, indented below it, what it came from, so many levels deep.
func (r *Run) Why(id, depth int) string {
	var b strings.Builder
	var tell func(id, level int)
	tell = func(id, level int) {
		e := r.Events[id]
		when := fmt.Sprintf("cycle %d", e.Start)
		switch {
		case e.Phase == PhaseLoad:
			when = "before"
		case e.Phase == PhaseStore:
			when = "after"
		case e.End > e.Start+1:
			when = fmt.Sprintf("cycles %d–%d", e.Start, e.End-1)
		}
		fmt.Fprintf(&b, "%s%s: %s [%s]\n", strings.Repeat("  ", level), when, e.Text, e.Tag)
		if level < depth {
			for _, f := range e.From {
				tell(f, level+1)
			}
		}
	}
	tell(id, 0)
	return b.String()
}

// number is a float that JSON has no word for where it is not finite.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsInf(v, 0) || math.IsNaN(v) {
		return json.Marshal(fmt.Sprint(v))
	}
	return json.Marshal(float64(n))
}

func numbers(v []float64) []number {
	out := make([]number, len(v))
	for i := range v {
		out[i] = number(v[i])
	}
	return out
}

// MarshalJSON is the run as one object: what was set up, the instructions, the dot
// products with what alignment cut off, and the events as a trace. The same run
// gives the same bytes.
func (r *Run) MarshalJSON() ([]byte, error) {
	type instr struct {
		Text   string `json:"text"`
		Set    int    `json:"set"` // from 0
		Step   int    `json:"step"`
		Issue  int    `json:"issue"`
		Done   int    `json:"done"`
		Prefix int    `json:"prefix_complete"`
	}
	var list []instr
	for _, in := range r.Instrs {
		list = append(list, instr{in.Text, in.Set - 1, in.Step.Step, in.Issue, in.Done, in.Seen})
	}
	type dot struct {
		Row    int      `json:"row"`
		Col    int      `json:"col"`
		K      int      `json:"k"`
		C      number   `json:"c"`
		A      []number `json:"a"`
		B      []number `json:"b"`
		Top    int      `json:"top"`  // addends are below 2^top
		Unit   int      `json:"unit"` // the last bit kept weighs 2^unit
		Cut    []number `json:"cut"`  // of c and the products
		Total  number   `json:"total"`
		Result number   `json:"result"`
	}
	var dots []dot
	for _, d := range r.Dots {
		x := dot{Row: d.Row, Col: d.Column, K: d.K, C: number(d.C), A: numbers(d.A[:]), B: numbers(d.B[:]), Top: d.Sum.Top, Unit: d.Sum.Unit, Total: number(d.Sum.Total), Result: number(d.Sum.Result)}
		for _, a := range d.Sum.Addends {
			x.Cut = append(x.Cut, number(a.Cut))
		}
		dots = append(dots, x)
	}
	var sums [Size][]number
	for i := range r.D {
		sums[i] = numbers(r.D[i][:])
	}
	return json.Marshal(map[string]any{
		"product": r.Setup.String(), "numerics": r.Setup.Numerics, "pace": r.Pace, "cycles": r.Total,
		"cycles_mean": Meaning, "facts": Facts(),
		"tags":         map[Tag]string{Primary: Primary.Say(), Secondary: Secondary.Say(), Derived: Derived.Say(), Assumed: Assumed.Say()},
		"instructions": list, "dots": dots, "trace": r.Trace(), "D": sums,
	})
}
