package qmm

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// product is what several schedules were timed of on a GPU.
type product struct {
	name      string
	l         Linear
	m         int
	schedules []template.Schedule
	us        []float64
}

// timed are the products of which at least so many schedules were timed, each of those once.
func timed(t *testing.T, least int) []*product {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(need.Root(t), "tests", "record", "schedules.json"))
	if err != nil {
		t.Fatal(err)
	}
	var one struct{ Rows []Row }
	if err := json.Unmarshal(data, &one); err != nil {
		t.Fatal(err)
	}
	var out []*product
	by := map[string]*product{}
	add := func(r Row) {
		if r.Schedule.Rows == 0 || !(r.MedianUs > 0) {
			return
		}
		name := fmt.Sprintf("%s %s × %d", r.Weight, r.Layer, r.M)
		p := by[name]
		if p == nil {
			p = &product{name: name, l: kind(t, r.Weight, r.N, r.K), m: r.M}
			by[name] = p
			out = append(out, p)
		}
		if i := slices.Index(p.schedules, r.Schedule); i >= 0 {
			p.us[i] = math.Min(p.us[i], r.MedianUs)
			return
		}
		p.schedules, p.us = append(p.schedules, r.Schedule), append(p.us, r.MedianUs)
	}
	for _, r := range one.Rows {
		add(r)
	}
	for _, r := range records(t) {
		if by[fmt.Sprintf("%s %s × %d", r.Weight, r.Layer, r.M)] != nil {
			add(r.Row)
		}
	}
	return slices.DeleteFunc(out, func(p *product) bool { return len(p.us) < least })
}

// TestReplay has the model choose, and a search search, among schedules whose times are
// recorded, in the place of a GPU: it holds how far from the fastest they end.
func TestReplay(t *testing.T) {
	on := template.H200()
	small, err := text.Parse("small.tile", "program small<1>(y: *f32) warps=1 {\n\tgy = ViewGlobal(y) : global f32[32]\n\tr = AllocateRegister(init=0) : register f32[32] spatial(32)\n\tStoreGlobal(gy, r, offset=[0])\n}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	var picked, found []float64
	for _, c := range timed(t, 4) {
		p, err := template.PlanOf(c.l.Form())
		if err != nil {
			t.Fatal(err)
		}
		least := slices.Min(c.us)
		first := slices.Index(c.schedules, p.Prefer(c.schedules, c.m, c.l.N, c.l.K, on))
		var all []tune.Candidate
		var us []float64
		add := func(i int) {
			s := c.schedules[i]
			all = append(all, tune.Candidate{Name: s.String(), Program: func() (*ir.Program, error) { return small, nil },
				Fields: fieldsOf(s), Estimate: p.Estimate(s, c.m, c.l.N, c.l.K, on), Blocks: 1})
			us = append(us, c.us[i])
		}
		add(first)
		for i := range c.schedules {
			if i != first {
				add(i)
			}
		}
		times := map[string]float64{}
		for i, a := range all {
			times[a.Name] = us[i]
		}
		s := tune.Search{Target: "sm_90a", SMs: on.SMs, Limit: 5, Time: func(_ context.Context, c tune.Candidate) (float64, error) { return times[c.Name], nil }}
		_, best, n, err := s.Best(context.Background(), all)
		if err != nil {
			t.Fatal(err)
		}
		picked, found = append(picked, c.us[first]/least), append(found, best/least)
		t.Logf("%-20s %d schedules: %.3f of the fastest at once, by %s; %.3f after %d", c.name, len(all), c.us[first]/least, all[0].Name, best/least, n)
	}
	mean := func(all []float64) float64 {
		sum := 0.0
		for _, x := range all {
			sum += math.Log(x)
		}
		return math.Exp(sum / float64(len(all)))
	}
	t.Logf("%d products: at once %.3f, at most %.3f; after five %.3f, at most %.3f", len(picked), mean(picked), slices.Max(picked), mean(found), slices.Max(found))
	if len(picked) < 12 || mean(picked) > 1.08 || slices.Max(picked) > 1.25 {
		t.Errorf("of %d products what is chosen at once takes %.3f of the fastest, at most %.3f", len(picked), mean(picked), slices.Max(picked))
	}
	if slices.Max(found) > 1.05 {
		t.Errorf("what a search of five finds takes up to %.3f of the fastest", slices.Max(found))
	}
}
