package qmm

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// direct are layers with schedules by which blocks put their parts of sums for each other, of each kind of program.
var direct = []struct {
	layer string
	m     int
	s     template.Schedule
}{
	{"u3", 1, template.Schedule{Parts: 4, Splits: 3}},
	{"u3 zero", 13, template.Schedule{Parts: 4, Splits: 2, Rows: 16}},
	{"u8", 2, template.Schedule{Parts: 8, Splits: 2}},
	{"i4", 5, template.Schedule{Parts: 4, Sides: 2, Splits: 4}},
	{"mxfp4", 1, template.Schedule{Parts: 4, Apart: true, Rows: 1, Splits: 3}},
	{"i4", 9, template.Schedule{Stages: 2, Blocks: 3, Rows: 16, Warpgroups: true, Warps: 4}},
	{"i4", 18, template.Schedule{Stages: 2, Blocks: 7, Rows: 16, Warpgroups: true, Warps: 4, Sides: 2, Fine: true}},
	{"u3", 1, template.Schedule{Stages: 4, Blocks: 5, Rows: 8}},
	{"f6e3m2", 12, template.Schedule{Stages: 4, Blocks: 5, Rows: 16, Warps: 2}},
	{"u2", 1, template.Schedule{Rows: 1, Stages: 4, Blocks: 7, Digits: true, Long: true, Warps: 4}},
	{"u1", 3, template.Schedule{Rows: 1, Stages: 4, Blocks: 11, Digits: true, Warps: 2}},
}

// holdDirect holds products whose sums are put to 1.1 of the error of f32 sums, and with sums that are 0,
// which are an empty place if they are put as they are. results are those of each product.
func holdDirect(t *testing.T, d device.Device) (results []*array.Array) {
	for i, c := range direct {
		c.s.Direct = true
		l := kind(t, c.layer, 300, 1536)
		q, p := packed(t, d, l, uint64(i), nil)
		call := Call{Schedule: &c.s}
		for of := range 2 {
			x := filled(l.ActType, of, c.m, l.K)
			_, y := held(t, d, q, p, x, inputs[of].name, call)
			results = append(results, y)
		}
		if d.Name() == "interp" { // the others agree with it above
			continue
		}
		none := array.New(l.ActType, c.m, l.K)
		for k := range l.K / 2 { // the second half of k, and its blocks, have sums of 0
			none.Set(float64(k%3)-1, c.m-1, k)
		}
		for _, x := range []*array.Array{array.New(l.ActType, c.m, l.K), none} {
			holds(t, d, q, p, x, "zeros", call)
		}
	}
	return results
}

// TestDirect runs them on interpreter and simulator, which agree in every bit.
func TestDirect(t *testing.T) {
	one, other := holdDirect(t, openDevice(t, "interp")), holdDirect(t, openDevice(t, "sim"))
	for i := range one {
		if !bytes.Equal(one[i].Data, other[i].Data) {
			t.Errorf("%s, x of kind %d: interpreter and simulator differ", direct[i/2].layer, i%2)
		}
	}
}

// TestGPUDirect runs them on the attached GPU, and layers of many blocks, whose sums are as those that are counted, often: a sum
// that is taken before it is there shows.
func TestGPUDirect(t *testing.T) {
	d, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, "on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUDirect")
	defer d.Close()
	holdDirect(t, d)
	for i, c := range direct {
		if c.m > 2 && !c.s.Warpgroups {
			continue
		}
		if c.s.Blocks > 0 {
			c.s.Blocks = 132
		}
		l := kind(t, c.layer, 4096, 4096)
		_, p := packed(t, d, l, uint64(i), nil)
		x := filled(l.ActType, 0, c.m, l.K)
		run := func(direct bool) []byte {
			s := c.s
			s.Direct = direct
			res, err := p.Run(t.Context(), d, x, Call{Schedule: &s})
			if err != nil {
				t.Fatal(err)
			}
			return res.Y.Data
		}
		counted, first, differ := run(false), run(true), 0
		for range 40 {
			if !bytes.Equal(run(true), first) {
				differ++
			}
		}
		if differ > 0 {
			t.Errorf("%s, %s: %d of 40 runs differ", c.layer, c.s, differ)
		}
		// Parts are added up in another order, so that last bits may differ.
		if far := far(floats(l.ActType, first), floats(l.ActType, counted)); far > 1e-3 {
			t.Errorf("%s, %s: %g away from sums that are counted", c.layer, c.s, far)
		}
	}
}

func floats(t dtype.Type, data []byte) []float64 {
	return (&array.Array{Type: t, Shape: []int{len(data) / 2}, Data: data}).Floats()
}

// TestDirectRefused holds schedules to those whose blocks can put sums, or ask for weights early, and candidates to them.
func TestDirectRefused(t *testing.T) {
	for _, c := range []struct {
		layer, says string
		s           template.Schedule
	}{
		{"u4", "put for another block", template.Schedule{Direct: true}},
		{"u4", "put for another block", template.Schedule{Direct: true, Splits: 2}},
		{"u4", "put for another block", template.Schedule{Direct: true, Parts: 4}},
		{"u4", "put for another block", template.Schedule{Direct: true, Parts: 4, Splits: 2, Joint: true}},
		{"u4", "put for another block", template.Schedule{Direct: true, Stages: 4, Splits: 2, Joint: true}},
		{"u1", "131072 bytes of shared memory", template.Schedule{Parts: 8, Rows: 32}},
		{"u4", "4 turns early, in 4 stages", template.Schedule{Stages: 4, Early: 4}},
		{"u4", "2 turns early: 0 or more, beside stages", template.Schedule{Parts: 4, Early: 2}},
		{"u4", "-1 turns early", template.Schedule{Stages: 4, Early: -1}},
	} {
		p, err := template.PlanOf(kind(t, c.layer, 64, 256).Form())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.s.Filled(p); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, %s: %v", c.layer, c.s, err)
		}
	}
	for layer, m := range map[string]int{"u3": 1, "u4": 16, "u2": 1, "u8": 8} {
		l := kind(t, layer, 8192, 8192)
		p, err := template.PlanOf(l.Form())
		if err != nil {
			t.Fatal(err)
		}
		all := template.Candidates(p, m, l.N, l.K, template.H200())
		if !slices.ContainsFunc(all, func(s template.Schedule) bool { return s.Direct }) {
			t.Errorf("%s: no candidate puts its sums", layer)
		}
		if !slices.ContainsFunc(all, func(s template.Schedule) bool { return s.Early > 0 }) {
			t.Errorf("%s: no candidate asks for fewer weights early than it has room for", layer)
		}
		for _, s := range all {
			if _, err := s.Filled(p); err != nil {
				t.Errorf("%s: %v", layer, err)
			}
		}
	}
}
