package lab

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/layoutviz"
)

// TestModels calls what lessons call of the machine models.
func TestModels(t *testing.T) {
	for name, draw := range map[string]func() (layoutviz.Picture, error){
		"box":      func() (layoutviz.Picture, error) { return VoltaBox("mixed", 1, 21) },
		"story":    func() (layoutviz.Picture, error) { return VoltaStory("fp16", "row.col") },
		"rounding": func() (layoutviz.Picture, error) { return VoltaRounding("1", "2^-24", "2^-24") },
		"follow":   func() (layoutviz.Picture, error) { return Follow("mixed", "row.col", "B", 3, 4, 0) },
		"why":      func() (layoutviz.Picture, error) { return WhyBlock("slow-player", "victim", 2) },
		"queue":    func() (layoutviz.Picture, error) { return NewQueue(true) },
		"blocks": func() (layoutviz.Picture, error) {
			tr, err := Recorded("uneven")
			if err != nil {
				return layoutviz.Picture{}, err
			}
			return BlocksPicture(tr, -1)
		},
		"model of it": func() (layoutviz.Picture, error) { return Dispatch("uneven", -1) },
	} {
		if p, err := draw(); err != nil || p.Title == "" || p.Desc == "" {
			t.Errorf("%s: %q, %v", name, p.Desc, err)
		}
	}
	if x, err := VoltaSum("1", "2^-24", "2^-24", "2^-24", "2^-24"); err != nil || x != 1 {
		t.Errorf("1 + 4·2^-24 is %v, %v", x, err)
	}
	if s, err := StairAt(1024, 16); err != nil || s.Packed != 256 || s.Distributed != 32 || s.Skip != 32 {
		t.Errorf("16 units: %v, %v", s, err)
	}
	if o := Occupancy(256, 84, 0); o.Waves != 12 || o.Limit != "registers" {
		t.Errorf("occupancy %+v", o)
	}
	if s, err := VoltaGenerations(); err != nil || strings.Count(s, "\n") != 4 {
		t.Errorf("%s, %v", s, err)
	}
	q, err := Exercise("owner", 7)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := q.Answer()
	if !q.Grade(answer).Right || q.Grade("").Right {
		t.Error("grading")
	}
	if _, err := Mistake("cores"); err != nil {
		t.Error(err)
	}
	for _, err := range []error{second(VoltaBox("mixed", 1, 128)), second(VoltaRounding("1")), second(StairAt(5, 61)), second(WhyBlock("deadlock", "k", 1)), second(Recorded("none"))} {
		if err == nil {
			t.Error("wrong input is taken")
		}
	}
}

func second[T any](_ T, err error) error { return err }
