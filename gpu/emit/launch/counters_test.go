package launch

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"regexp"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/emit"
	"github.com/tilus-lab/tilus-lab/gpu/traffic"
)

var countersTo = flag.String("counters", "", "write what is predicted of each launch to this file, in order; tests/peers/fusion_counters.py runs this under ncu")

// prediction is what the maps of a kernel say of one launch.
type prediction struct {
	Case     string           `json:"case"`
	Dtype    string           `json:"dtype"`
	Kernel   string           `json:"kernel"`
	Counters traffic.Counters `json:"counters"`
	Read     int64            `json:"read"` // distinct bytes
	Written  int64            `json:"written"`
}

// TestGPUCounters launches every case once, for a profiler to count, and writes what is
// predicted.
func TestGPUCounters(t *testing.T) {
	if *countersTo == "" {
		t.Skip("counts nothing itself: give -counters FILE and run tests/peers/fusion_counters.py")
	}
	ctx := gpu(t)
	choose, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	var list []prediction
	for _, typ := range []string{"f32", "bf16"} {
		for _, c := range Cases(typ, *mib) {
			if !choose.MatchString(c.Name + "/" + typ) {
				continue
			}
			p, err := compile(c.Text, emit.Tuning{})
			if err != nil {
				t.Fatal(err)
			}
			if err := once(ctx, c, p); err != nil {
				t.Fatalf("%s %s: %v", c.Name, typ, err)
			}
			for _, k := range p.Kernels {
				r, err := traffic.OfKernel(k)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, prediction{c.Name, typ, k.Name, r.Counters(), r.Read, r.Written})
			}
		}
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*countersTo, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// once launches a case on zeros and the indices of its inputs.
func once(ctx *cuda.Context, c Case, p *emit.Program) error {
	l, err := Load(ctx, p, *arch)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.Alloc(); err != nil {
		return err
	}
	for i := range p.Buffers {
		b := &p.Buffers[i]
		if err := ctx.Memset(l.Memory[i], 0, (b.Shape.Bytes()+15)/16*16, nil); err != nil {
			return err
		}
		if b.Param < 0 || c.Args[b.Param].Kind == "" {
			continue
		}
		if err := ctx.CopyIn(l.Memory[i], c.Args[b.Param].indices()); err != nil {
			return err
		}
	}
	return errors.Join(l.Queue(nil), ctx.Synchronize())
}

// indices are the elements of an input of whole numbers, as [Input.Fill] computes them.
func (in Input) indices() []byte {
	n := 1
	for _, d := range in.Dims {
		n *= d
	}
	out := make([]byte, (4*n+15)/16*16)
	for i := range n {
		v := uint32(in.Bound)
		switch in.Kind {
		case "permutation":
			v = uint32(i) * 40503 & uint32(n-1)
		case "hash":
			v = uint32(i) * 2654435761 >> 7 % uint32(in.Bound)
		}
		for k := range 4 {
			out[4*i+k] = byte(v >> (8 * k))
		}
	}
	return out
}

// TestIndices holds the indices to what the fusion that fills them computes.
func TestIndices(t *testing.T) {
	for _, c := range Cases("f32", 1) {
		for _, in := range c.Args {
			if in.Kind == "" {
				continue
			}
			p, err := compile(in.Fill("f32"), emit.Tuning{})
			if err != nil {
				t.Fatal(err)
			}
			want, err := p.Simulate(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := in.indices(); string(got[:len(want[0].Data)]) != string(want[0].Data) {
				t.Errorf("%s of %s differs", in.Name, c.Name)
			}
		}
	}
}
