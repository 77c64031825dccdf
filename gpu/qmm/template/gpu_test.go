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

// TestGPUSchedules times schedules of DecodeU4 on the gate_up layer of
// Llama-3.3-70B, one row of x, and requires of all of them the bits that the
// default one gives.
func TestGPUSchedules(t *testing.T) {
	g, err := tune.OpenGPU(0)
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; on a GPU machine: CGO_ENABLED=0 go test -c -o template.test ./gpu/qmm/template && CUDA_CACHE_DISABLE=1 ./template.test -test.run GPU -test.v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	const m, n, k, group = 1, 57344, 8192, 128
	args := []ir.Arg{
		{Array: generate(t, "randcode:u8[%d, %d, %d]:seed=1", n/16, k/group, 8*group)},
		{Array: generate(t, "pow2:f16[%d, %d]:seed=2:lo=-6:hi=-5", k/group, n)},
		{Array: generate(t, "randint:f16[%d, %d]:seed=3", m, k)},
		{Array: array.New(dtype.F16, m, n)},
		{Int: m}, {Int: n}, {Int: k},
	}
	usual, err := DecodeU4(DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := device.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	res, err := d.Run(ctx, usual, args)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]*array.Array, len(args))
	want[3] = res.Args[3].Array
	for _, o := range []DecodeOptions{
		{}, {Depth: 1}, {Depth: 3}, {Depth: 4}, {Warps: 2}, {Warps: 4}, {Depth: 4, Warps: 4}, {KeepL1: true},
	} {
		p, err := DecodeU4(o)
		if err != nil {
			t.Fatal(err)
		}
		timing, err := tune.Time(ctx, g, p, args, tune.Options{Want: want, Read: o == DecodeOptions{}})
		if err != nil {
			t.Errorf("%+v: %v", o, err)
			continue
		}
		t.Logf("%-50s %v", fmt.Sprintf("%+v", o), timing)
	}
}
