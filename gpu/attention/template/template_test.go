package template

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// flashCases are schedules with lengths that no tile divides, and what they mean.
var flashCases = []struct {
	o FlashOptions
	w wave
}{
	{FlashOptions{Head: 64, Warps: 1, Rows: 16, Keys: 16, Stages: 1}, wave{1, 1, 16, 16}},
	{FlashOptions{Head: 64, Warps: 2, Rows: 16, Keys: 32, Group: 2}, wave{2, 4, 37, 70}},
	{FlashOptions{Head: 64, Warps: 2, Rows: 16, Keys: 32, Group: 2, Causal: true}, wave{1, 2, 70, 70}},
	{FlashOptions{Head: 64, Warps: 1, Rows: 32, Keys: 48, Causal: true, Stages: 1}, wave{1, 1, 33, 100}},
	{FlashOptions{Head: 64, Warps: 4, Rows: 32, Keys: 64, Causal: true, Elem: dtype.BF16}, wave{1, 1, 130, 131}},
	{FlashOptions{Warps: 1, Rows: 32, Keys: 64, Resident: true}, wave{1, 1, 20, 65}},
	{FlashOptions{Warps: 2, Rows: 32, Keys: 32, Group: 4, Causal: true}, wave{1, 4, 65, 65}},
	{FlashOptions{Warps: 2, Rows: 16, Keys: 64, Elem: dtype.BF16}, wave{1, 1, 1, 1}},
}

// attend is attention in float64: the output for one query of one head, and for
// each element the mean of |v| by the same weights, which errors are in proportion
// to.
func attend(q, k, v *array.Array, b, h, kh, i, seen int, scale float64) (out, size []float64) {
	head := q.Shape[3]
	out, size = make([]float64, head), make([]float64, head)
	scores, top := make([]float64, seen), math.Inf(-1)
	for j := range scores {
		for d := range head {
			scores[j] += q.At(b, h, i, d) * k.At(b, kh, j, d)
		}
		scores[j] *= scale
		top = max(top, scores[j])
	}
	sum := 0.0
	for j, s := range scores {
		e := math.Exp2(s - top)
		sum += e
		for d := range head {
			out[d] += e * v.At(b, kh, j, d)
			size[d] += e * math.Abs(v.At(b, kh, j, d))
		}
	}
	for d := range head {
		out[d] /= sum
		size[d] /= sum
	}
	return out, size
}

// farFlash is the largest error over what is allowed: probabilities and output are
// rounded to the element type once each, the exponential is within 2 ulp and its
// argument within a few, sums are in f32. So 4 half units in the last place of the
// mean of |v| bound it.
func farFlash(t *testing.T, o FlashOptions, w wave, args []ir.Arg, got *array.Array) float64 {
	t.Helper()
	if err := o.defaults(); err != nil {
		t.Fatal(err)
	}
	unit := 0x1p-11
	if o.Elem == dtype.BF16 {
		unit = 0x1p-8
	}
	far := 0.0
	step := max(w.b*w.h*w.m/200, 1)
	for at := 0; at < w.b*w.h*w.m; at += step {
		b, h, i := at/w.m/w.h, at/w.m%w.h, at%w.m
		seen := w.n
		if o.Causal {
			seen = i + w.n - w.m + 1
		}
		want, size := attend(args[0].Array, args[1].Array, args[2].Array, b, h, h/o.Group, i, seen, args[8].Float)
		for d, x := range want {
			e := math.Abs(got.At(b, h, i, d)-x) / (4*unit*size[d] + 0x1p-24)
			if !(e <= far) {
				far = e
			}
		}
	}
	return far
}

func machines(t *testing.T) map[string]device.Device {
	t.Helper()
	out := map[string]device.Device{}
	for _, name := range []string{"interp", "sim"} {
		d, err := device.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		out[name] = d
	}
	return out
}

// TestFlash holds schedules to a float64 loop, and interpreter and simulator to
// each other bit for bit.
func TestFlash(t *testing.T) {
	devices := machines(t)
	for _, c := range flashCases {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			p, err := Flash(c.o)
			if err != nil {
				t.Fatal(err)
			}
			args := flashArgs(t, c.o, c.w)
			var results []*array.Array
			for _, name := range []string{"interp", "sim"} {
				res, err := devices[name].Run(context.Background(), p, args)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				results = append(results, res.Args[3].Array)
				if far := farFlash(t, c.o, c.w, args, res.Args[3].Array); !(far < 1) {
					t.Errorf("%s: %.3g of what is allowed", name, far)
				} else {
					t.Logf("%s: %.2g", name, far)
				}
			}
			if r := array.Compare(results[1], results[0]); r.Differ > 0 {
				t.Errorf("sim and interp differ: %v", r)
			}
		})
	}
}
