package qmm

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
)

// tunedText is what `tilus-lab bench gemm --table` wrote on an H200.
//
//go:embed tuned_h200.json
var tunedText []byte

// Tuned is the fastest schedule found for what layers of the same key share. Types of a width
// share entries, but for those whose casts take more than masks, see [casts].
type Tuned struct {
	Bits     int               `json:"bits"` // of a weight
	Tiles    int               `json:"tiles"`
	Casts    string            `json:"casts,omitempty"` // what they take
	Act      string            `json:"act"`
	Rows     int               `json:"rows"` // of x that a block multiplies
	N        int               `json:"n"`
	K        int               `json:"k"`
	Schedule template.Schedule `json:"schedule"`
	Us       float64           `json:"us"`
	// Few is what 2 to 8 rows take, where Schedule is for one alone: the fastest with one row that they may take.
	Few template.Schedule `json:"few,omitzero"`
}

// key is the part of an entry that is looked up: types of a width that are stored
// alike inherit from each other. One row may be multiplied as digits, which a bias stays beside.
func (l Linear) key(p *template.Plan, m int) Tuned {
	rows := 8
	if m == 1 {
		rows = 1
	}
	for rows > 1 && rows < m && rows < 32 {
		rows *= 2
	}
	return Tuned{Bits: p.Stored.Bits(), Tiles: p.Tiles, Casts: casts(p, rows == 1), Act: p.Act.String(), Rows: rows, N: l.N, K: l.K}
}

// What casts take beside masks, for which they may want another schedule than those of other types of the width.
const (
	zerosOff   = "zeros off codes"          // which are subtracted
	zerosNear  = "zeros off codes and sums" // since they are not whole
	zerosAfter = "zeros off sums"           // of x times the codes
	shifted    = "shifts"                   // stored codes stand for values beside them
	signOff    = "sign off codes"           // which is subtracted
	moreMasks  = "more masks"               // half as many again as for unsigned integers
	fewerMasks = "fewer masks"              // a tenth less: 7 bits, of whose integers the exponent of a mask is taken off
)

// inherits reports whether a type whose casts have no entry of their own takes all that the width's says: these casts take hardly
// more registers.
func (t Tuned) inherits() bool {
	return t.Casts == signOff || t.Casts == moreMasks || t.Casts == fewerMasks
}

// casts is what the casts of a plan take beside masks, or else "".
func casts(p *template.Plan, one bool) string {
	switch {
	case p.Less && p.Rest():
		return zerosNear
	case p.Less:
		return zerosOff
	case p.Zero:
		return zerosAfter
	case p.Shifts() || one && p.Bias > 0:
		return shifted
	case p.LessBias || p.Stored.IsInt() && p.Stored.Signed():
		return signOff
	case p.Casting() >= 1.5:
		return moreMasks
	case p.Casting() <= 0.9:
		return fewerMasks
	}
	return ""
}

func (t Tuned) same(u Tuned) bool {
	u.Schedule, u.Us, u.Few = t.Schedule, t.Us, t.Few
	return t == u
}

// orWidth are the keys by which an entry is looked up, the first one found being taken: its
// own, and that of other types of the width, whose schedule it may have as well.
func (t Tuned) orWidth() []Tuned {
	if t.Casts == "" {
		return []Tuned{t}
	}
	width := t
	width.Casts = ""
	return []Tuned{t, width}
}

// inherited is orWidth for types that inherit, and else the key alone.
func (t Tuned) inherited() []Tuned {
	if t.inherits() {
		return t.orWidth()
	}
	return []Tuned{t}
}

// In are the schedules of a table for a product of m rows.
func (l Linear) In(table []Tuned, m int) ([]template.Schedule, error) {
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil, err
	}
	var out []template.Schedule
	for _, want := range l.key(p, m).orWidth() {
		for _, t := range table {
			if t.same(want) && t.Schedule.Takes(p, l.N, l.K) {
				out = append(out, t.Schedule)
			}
		}
	}
	return out, nil
}

// Table is the table that ships, for the H200. It is shared and must not be changed.
func Table() ([]Tuned, error) { return table() }

var table = sync.OnceValues(func() (all []Tuned, err error) {
	if err = json.Unmarshal(tunedText, &all); err != nil {
		err = fmt.Errorf("qmm: table: %w", err)
	}
	return all, err
})

// Choose is the schedule of a product of m rows: the table's where it has one, of a type of
// the same width, else [template.Pick]'s.
func (l Linear) Choose(m int) (template.Schedule, error) {
	s, _, err := l.choose(m)
	return s, err
}

// ChoosePlain is Choose among schedules that are [template.Schedule.Plain], for GPUs without tensor
// copies and for launches that have nothing but their arguments.
func (l Linear) ChoosePlain(m int) (template.Schedule, error) {
	s, err := l.Choose(m)
	if err != nil || s.Plain() {
		return s, err
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return s, err
	}
	return template.PickPlain(p, m, l.N, l.K, template.H200()), nil
}

// usual reports whether groups, scales and zero points are those of the layers that the table
// was measured with, or, where whole zero points are taken off codes, cost little more than a sign;
// with own, those of an entry for the same casts.
func (l Linear) usual(p *template.Plan, own bool) bool {
	return l.Group == 128 && p.Scale.Bits() == 16 && (!l.ZeroPoint || own || p.Less && !p.Rest())
}

// better is how much less than the table's schedule the model must expect of its own one for
// layers that the table was not measured with.
const better = 0.95

// choose also says where the schedule is from.
func (l Linear) choose(m int) (template.Schedule, string, error) {
	if err := checkRows(m); err != nil {
		return template.Schedule{}, "", err
	}
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return template.Schedule{}, "", err
	}
	s, from, own, err := l.tabled(p, m)
	if err != nil {
		return s, from, err
	}
	on := template.H200()
	pick := func() template.Schedule { return template.Pick(p, m, l.N, l.K, on) }
	if from == "" {
		return pick(), "model", nil
	}
	usual := l.usual(p, own)
	if l.ZeroPoint && !own || !usual {
		s.Resident = 0 // zero points and smaller groups take registers of their own
	}
	if l.ZeroPoint && !own && !s.Fits(p, m, l.N, l.K, on) {
		return pick(), "model", nil
	}
	if usual {
		return s, from, nil
	}
	if other := pick(); p.Rank(other, m, l.N, l.K, on) <= better*p.Rank(s, m, l.N, l.K, on) {
		return other, "model", nil
	}
	return s, from, nil
}

// tabled is the schedule of the table that ships; from is "" if it has none.
func (l Linear) tabled(p *template.Plan, m int) (s template.Schedule, from string, own bool, err error) {
	all, err := Table()
	if err != nil {
		return template.Schedule{}, "", false, err
	}
	s, from, own = l.find(all, p, m)
	return s, from, own, nil
}

// find is a table's schedule; from is "" if it has none, and own tells an entry for the same casts.
func (l Linear) find(all []Tuned, p *template.Plan, m int) (s template.Schedule, from string, own bool) {
	keys := l.key(p, m).orWidth()
	switch { // one row and a few may take the same, but as digits only one is worth it
	case m == 1:
		keys = append(keys, l.key(p, 8).orWidth()...)
	case m <= 8:
		keys = append(keys, l.key(p, 1).orWidth()...)
	}
	for _, want := range keys {
		own := want.Casts == l.key(p, m).Casts
		for _, t := range all {
			if !t.same(want) {
				continue
			}
			if s = t.Schedule; s.Single() && m > 1 {
				s = t.Few
			}
			if s.Rows > 0 && s.Takes(p, l.N, l.K) {
				if !own && !l.key(p, m).inherits() {
					s.Resident = 0 // other casts take other registers
				}
				return s, "table", own
			}
		}
	}
	return template.Schedule{}, "", false
}

// Entries are the table's entries for measured rows, the fastest of each key, but no
// schedule that [template.Schedule.Rounds].
func Entries(rows []Row) ([]Tuned, error) {
	var out []Tuned
	few := map[Tuned]Tuned{} // by keys
	for _, r := range rows {
		if r.Schedule.Rows == 0 || r.Schedule.Rounds() {
			continue // by another plan, or less exact
		}
		l, err := r.Linear()
		if err != nil {
			return nil, err
		}
		p, err := template.PlanOf(l.Form())
		if err != nil {
			return nil, err
		}
		key := l.key(p, r.M)
		e := key
		e.Schedule, e.Us = r.Schedule, r.MedianUs
		if known, ok := few[key]; !e.Schedule.Single() && (!ok || e.Us < known.Us) {
			few[key] = e
		}
		found := false
		for i := range out {
			if out[i].same(e) {
				found = true
				if e.Us < out[i].Us {
					out[i] = e
				}
			}
		}
		if !found {
			out = append(out, e)
		}
	}
	for i, e := range out {
		if e.Schedule.Single() {
			key := e
			key.Schedule, key.Us = template.Schedule{}, 0
			out[i].Few = few[key].Schedule
		}
	}
	return out, nil
}

// Linear is the layer that a row is about.
func (r Row) Linear() (Linear, error) {
	text := fmt.Sprintf("%s group=%d scale=%s act=%s", r.Weight, r.Group, r.Scale, r.Act)
	if r.Group == 0 {
		text = fmt.Sprintf("%s group=channel scale=%s act=%s", r.Weight, r.Scale, r.Act)
	}
	switch {
	case r.AnyZero:
		text += " zero=any"
	case r.Zero:
		text += " zero"
	}
	if r.Far {
		text += " far"
	}
	if r.Rounded {
		text += " rounded"
	}
	if r.Factor {
		text += " factor"
	}
	l, err := Parse(text, r.N, r.K)
	if err == nil && (l.Form().Exacts(r.ScaleBits) || l.folding() != nil) { // what programs, or which of them a layer may have, depend on
		l.ScaleBits = r.ScaleBits
	}
	return l, err
}

// Schedules are what is worth timing for a product of m rows: the chosen schedule,
// then tries others, the model's best first.
func (l Linear) Schedules(m, tries int) ([]template.Schedule, error) {
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil, err
	}
	first, err := l.Choose(m)
	if err != nil {
		return nil, err
	}
	out := []template.Schedule{first}
	seen := map[[4]int]int{}
	for _, s := range template.Candidates(p, m, l.N, l.K, template.H200()) {
		key := [4]int{s.Depth - 2*s.Stages, s.Splits, s.Sides} // of the same loop one form of blocks, where k is split two
		if s.Ringed() {
			key[3] = s.Parts
		}
		if seen[key] >= min(s.Splits, 2) || len(out) > tries || s == first {
			continue
		}
		seen[key]++
		out = append(out, s)
	}
	return out, nil
}
