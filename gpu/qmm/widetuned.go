package qmm

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
)

// wideText is what tests/record says of [Wide] on an H200.
//
//go:embed wide_h200.json
var wideText []byte

// TunedWide is the fastest schedule of [Wide] found for what layers of the same key share.
type TunedWide struct {
	Bits     int                   `json:"bits"` // of a weight
	Tiles    int                   `json:"tiles"`
	Shifts   bool                  `json:"shifts,omitempty"` // stored codes stand for values beside them
	Act      string                `json:"act"`
	Rows     int                   `json:"rows"` // of x, up to
	N        int                   `json:"n"`
	K        int                   `json:"k"`
	Schedule template.WideSchedule `json:"schedule"`
	Us       float64               `json:"us"`
}

// wideKey is the part of an entry that is looked up.
func (l Linear) wideKey(p *template.Plan, m int) TunedWide {
	rows := 16
	for rows < m {
		rows *= 2
	}
	return TunedWide{Bits: p.Stored.Bits(), Tiles: p.Tiles, Shifts: p.Shifts(), Act: p.Act.String(), Rows: rows, N: l.N, K: l.K}
}

func (t TunedWide) same(u TunedWide) bool {
	u.Schedule, u.Us = t.Schedule, t.Us
	return t == u
}

// WideTable is the table of [Wide] that ships, for the H200. It is shared and must not be
// changed.
func WideTable() ([]TunedWide, error) { return wideTable() }

var wideTable = sync.OnceValues(func() (all []TunedWide, err error) {
	if err = json.Unmarshal(wideText, &all); err != nil {
		err = fmt.Errorf("qmm: table: %w", err)
	}
	return all, err
})

// tunedWide is the table's schedule for m rows, of any type of the same width, if it has one.
func (l Linear) tunedWide(p *template.Plan, m int) (template.WideSchedule, bool) {
	all, err := WideTable()
	if err != nil {
		return template.WideSchedule{}, false
	}
	want := l.wideKey(p, m)
	for _, t := range all {
		if t.same(want) {
			return t.Schedule, true
		}
	}
	return template.WideSchedule{}, false
}

// InWide are the schedules of a table for a product of m rows by [Wide] or [Prefill].
func (l Linear) InWide(table []TunedWide, m int) ([]template.WideSchedule, error) {
	p, err := template.PlanOf(l.Form())
	if err != nil {
		return nil, err
	}
	var out []template.WideSchedule
	want := l.wideKey(p, m)
	for _, t := range table {
		if s, err := t.Schedule.Filled(p); err == nil && t.same(want) {
			out = append(out, s)
		}
	}
	return out, nil
}

// WideEntries are the table's entries for measured rows, the fastest of each key.
func WideEntries(rows []Row) ([]TunedWide, error) {
	var out []TunedWide
next:
	for _, r := range rows {
		if r.Wide == nil || r.Plan != Wide || r.Wide.Folded { // which not all layers of a key may have
			continue
		}
		l, err := r.Linear()
		if err != nil {
			return nil, err
		}
		p, err := template.PlanOf(l.Form())
		if err != nil {
			return nil, err
		}
		e := l.wideKey(p, r.M)
		e.Schedule, e.Us = *r.Wide, r.MedianUs
		for i := range out {
			if out[i].same(e) {
				if e.Us < out[i].Us {
					out[i] = e
				}
				continue next
			}
		}
		out = append(out, e)
	}
	return out, nil
}
