package qmm

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
)

// Sum is what all linear layers of a model take together on one machine, with weights of one kind and
// so many rows of x.
type Sum struct {
	GPU      string // which took the times of all layers, by one Driver
	Driver   string
	Kind     string // of layer, as [Parse] reads it
	Weight   string // as [Linear.Name] has it
	M        int
	Ms       float64
	CublasMs float64 // of plain weights in the same run; 0 where a layer was not measured
	Bytes    int64   // of weights, scales and zero points
}

// OfCublas is how many times as fast the layers are as cuBLAS's; 0 where that is not known.
func (s Sum) OfCublas() float64 {
	if s.CublasMs == 0 {
		return 0
	}
	return s.CublasMs / s.Ms
}

// Bytes is what the weights of a kind take in all linear layers, with scales and zero
// points. The kind's N and K do not matter.
func (m Model) Bytes(kind Linear) int64 {
	var n int64
	for _, s := range m.Shapes {
		kind.N, kind.K = s.N, s.K
		n += kind.Bytes() * int64(s.Count)
	}
	return n
}

// Plain is what plain weights of 16 bits take in all linear layers.
func (m Model) Plain() int64 {
	var n int64
	for _, s := range m.Shapes {
		n += 2 * int64(s.N) * int64(s.K) * int64(s.Count)
	}
	return n
}

// Sums are those of all kinds and numbers of rows of which rows hold each layer of the
// model, all by one GPU and driver, in order of rows and width. Of a layer's rows the last one counts.
func (m Model) Sums(rows []Row) []Sum {
	type key struct {
		gpu, driver string
		kind        string
		m           int
	}
	layers := map[key][]*Row{}
	kinds := map[string]Linear{}
	for i := range rows {
		r := &rows[i]
		l, err := r.Linear()
		if err != nil {
			continue
		}
		k := key{r.GPU, r.Driver, l.String(), r.M}
		kinds[k.kind] = l
		if layers[k] == nil {
			layers[k] = make([]*Row, len(m.Shapes))
		}
		for j, s := range m.Shapes {
			if s.N == r.N && s.K == r.K {
				layers[k][j] = r
			}
		}
	}
	var out []Sum
next:
	for k, list := range layers {
		s := Sum{GPU: k.gpu, Driver: k.driver, Kind: k.kind, Weight: kinds[k.kind].Name(), M: k.m, Bytes: m.Bytes(kinds[k.kind])}
		all := true
		for j, r := range list {
			if r == nil {
				continue next
			}
			s.Ms += r.MedianUs * float64(m.Shapes[j].Count) / 1000
			s.CublasMs += r.CublasUs * float64(m.Shapes[j].Count) / 1000
			all = all && r.CublasUs > 0
		}
		if !all {
			s.CublasMs = 0
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Sum) int {
		return cmp.Or(cmp.Compare(a.M, b.M), cmp.Compare(a.Bytes, b.Bytes), strings.Compare(a.Kind, b.Kind), strings.Compare(a.GPU, b.GPU), strings.Compare(a.Driver, b.Driver))
	})
	return out
}

// Estimate is how many ms all linear layers of a model take on an H200 by the models of
// schedules, with weights of a kind and m rows of x, and by which plan the last one.
func (m Model) Estimate(kind Linear, rows int) (ms float64, plan string, err error) {
	kind = kind.Usual()
	for _, s := range m.Shapes {
		kind.N, kind.K = s.N, s.K
		l, err := kind.Check()
		if err != nil {
			return 0, "", err
		}
		if plan = l.PlanFor(rows, Call{}); plan != Decode {
			ms += l.planUs(plan, rows) * float64(s.Count) / 1000
			continue
		}
		p, err := template.PlanOf(l.Form())
		if err != nil {
			return 0, "", err
		}
		schedule, err := l.Choose(rows)
		if err != nil {
			return 0, "", err
		}
		ms += p.Estimate(schedule, rows, s.N, s.K, template.H200()) * float64(s.Count) / 1000
	}
	return ms, plan, nil
}
