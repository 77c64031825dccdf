package qmm

import (
	"errors"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestGPUOrder multiplies on a GPU with weights whose inputs have an order: each bit is that of the same weights without, and x in that
// order. What is made ready beforehand is all that a product makes.
func TestGPUOrder(t *testing.T) {
	d, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, "on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUOrder -test.v")
	defer d.Close()
	for _, text := range []string{"u4 zero group=128", "i4 group=32 act=bf16", "u3 zero group=64"} {
		for _, size := range [][2]int{{1024, 4096}, {520, 1000}} {
			plain, err := kind(t, text, size[0], size[1]).Quantize(t.Context(), normal(dtype.F32, 4, size[0], size[1]))
			if err != nil {
				t.Fatal(err)
			}
			q := *plain
			q.Order = shuffled(5, q.K)
			p, err := q.Pack(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			without := &Packed{Linear: p.Linear, W: p.W, Scales: p.Scales, Zeros: p.Zeros, One: p.One}
			for _, m := range []int{1, 7, 16, 33, 128, 600} {
				for _, c := range []Call{{}, {Soon: true}, {Plan: Decode}, {Plan: Wide}, {Plan: Prefill}, {Plan: Expand}} {
					if _, err := p.Prepare(t.Context(), d, m, c); err != nil {
						t.Fatalf("%s %v, %d rows, %+v: %v", text, size, m, c, err)
					}
					x := normal(q.ActType, uint64(m), m, q.K)
					got, err := p.Run(t.Context(), d, x, c)
					want, e := without.Run(t.Context(), d, inOrder(x, q.Order), c)
					if err := errors.Join(err, e); err != nil {
						t.Fatal(err)
					}
					if r := array.Compare(got.Y, want.Y); !r.Equal() || got.Plan != want.Plan || !got.Gathered || got.JIT > 0 {
						t.Errorf("%s %v, %d rows, %+v: %v by %+v", text, size, m, c, r, got)
					}
				}
			}
		}
	}
}
