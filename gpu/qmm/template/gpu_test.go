package template

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o template.test ./gpu/qmm/template && CUDA_CACHE_DISABLE=1 ./template.test -test.run GPU -test.v"

// TestGPUSchedules times schedules of DecodeU4 on layers of Llama-3.3-70B, one row
// of x, and requires of all of them the bits that the default one gives.
func TestGPUSchedules(t *testing.T) {
	g, err := tune.OpenGPU(0)
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; %s", err, howTo)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	split := []DecodeOptions{{}, {PDL: true}}
	for _, n := range []int{2, 3, 4, 5, 6, 7, 8, 10, 12, 16} {
		split = append(split, DecodeOptions{Splits: n})
	}
	for _, n := range []int{2, 4, 6, 8} {
		split = append(split, DecodeOptions{Splits: n, PDL: true}, DecodeOptions{Splits: n, Depth: 4}, DecodeOptions{Splits: n, Depth: 3, PDL: true},
			DecodeOptions{Splits: n, Warps: 2}, DecodeOptions{Splits: n, Warps: 4, PDL: true})
	}
	for _, layer := range []struct {
		name      string
		n, k      int
		schedules []DecodeOptions
	}{
		{"gate_up", 57344, 8192, []DecodeOptions{{}, {Depth: 1}, {Depth: 3}, {Depth: 4}, {Warps: 2}, {Warps: 4}, {Depth: 4, Warps: 4}, {KeepL1: true}, {PDL: true}, {Splits: 2}, {Splits: 2, PDL: true}}},
		{"qkv", 10240, 8192, split},
		{"o", 8192, 8192, split},
		{"down", 8192, 28672, split},
	} {
		t.Run(layer.name, func(t *testing.T) { timeSchedules(t, g, layer.n, layer.k, layer.schedules) })
	}
}

func timeSchedules(t *testing.T, g *tune.GPU, n, k int, schedules []DecodeOptions) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	const m, group = 1, 128
	args := []ir.Arg{
		{Array: generate(t, "randcode:u8[%d, %d, %d]:seed=1", n/16, k/group, 8*group)},
		{Array: generate(t, "pow2:f16[%d, %d]:seed=2:lo=-6:hi=-5", k/group, n)},
		{Array: generate(t, "randint:f16[%d, %d]:seed=3", m, k)},
		{Array: array.New(dtype.F16, m, n)},
	}
	bytes := int64(0)
	for _, a := range args {
		bytes += int64(len(a.Array.Data))
	}
	sizes := []ir.Arg{{Int: m}, {Int: int64(n)}, {Int: int64(k)}}
	usual, err := DecodeU4(DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := device.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	res, err := d.Run(ctx, usual, append(args[:4:4], sizes...))
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range schedules {
		p, err := DecodeU4(o)
		if err != nil {
			t.Fatal(err)
		}
		all := args[:4:4]
		want := make([]*array.Array, 6)
		want[3] = res.Args[3].Array
		if o.Splits > 1 {
			want[5] = array.New(dtype.I32, n/16/max(o.Warps, 1))
			all = append(all, ir.Arg{Array: array.New(dtype.F32, o.Splits, m, n)}, ir.Arg{Array: want[5].Clone()})
		} else {
			want = want[:4]
		}
		timing, err := tune.Time(ctx, g, p, append(all, sizes...), tune.Options{Bytes: bytes, Want: want, Read: i == 0, Replays: 7})
		if err != nil {
			t.Errorf("%+v: %v", o, err)
			continue
		}
		t.Logf("%-68s %v", fmt.Sprintf("%+v", o), timing)
	}
}
