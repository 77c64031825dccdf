package qmm

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestSoon: all numbers of rows take one program, a row comes out the same beside any others, and what was prepared
// does not change it.
func TestSoon(t *testing.T) {
	d := openDevice(t, "interp")
	for i, layer := range []string{"u4", "u1 zero", "i3 group=32", "f6e3m2 act=bf16", "nvfp4"} {
		l := kind(t, layer, 37, 392)
		_, p := packed(t, d, l, uint64(i), nil)
		plan, err := template.PlanOf(p.Form())
		if err != nil {
			t.Fatal(err)
		}
		x := normal(l.ActType, 3, 40, l.K)
		var all *array.Array
		for _, m := range []int{40, 17, 16, 3, 1} {
			some := &array.Array{Type: x.Type, Shape: []int{m, l.K}, Data: x.Data[:m*l.K*2]}
			if m == 3 {
				if _, err := p.Prepare(t.Context(), d, m, Call{}); err != nil {
					t.Fatal(err)
				}
			}
			res, err := p.Run(t.Context(), d, some, Call{Soon: true})
			if err != nil {
				t.Fatal(err)
			}
			if want := plan.Soon(); res.Plan != Decode || res.From != "soon" || res.Schedule != want {
				t.Errorf("%s, %d rows: plan %s, %s from %q, not %s", l, m, res.Plan, res.Schedule, res.From, want)
			}
			if all == nil {
				all = res.Y
			}
			if !bytes.Equal(res.Y.Data, all.Data[:len(res.Y.Data)]) {
				t.Errorf("%s: %d rows come out otherwise than beside others", l, m)
			}
		}
	}
}

// TestSoonAlone: a call that names its plan or schedule does not have another one too.
func TestSoonAlone(t *testing.T) {
	d := openDevice(t, "interp")
	l := kind(t, "u4", 16, 128)
	_, p := packed(t, d, l, 1, nil)
	for want, c := range map[string]Call{
		"names plan wide: leave Plan empty":                      {Soon: true, Plan: Wide},
		"has one: 8 rows, depth 1":                               {Soon: true, Schedule: &template.Schedule{Rows: 8, Depth: 1, Warps: 1, Sides: 1, Splits: 1}},
		"leave Schedule nil, or prepare it and run without Soon": {Soon: true, Schedule: &template.Schedule{}},
	} {
		_, ran := p.Run(t.Context(), d, array.New(l.ActType, 1, l.K), c)
		_, prepared := p.Prepare(t.Context(), d, 1, c)
		for _, err := range []error{ran, prepared} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
	}
	for _, m := range []int{0, -1, MaxSize + 1} {
		if _, err := p.Prepare(t.Context(), d, m, Call{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d rows", m)) {
			t.Errorf("%d rows: %v", m, err)
		}
	}
}

// TestPrepare prepares all plans on the simulator: what runs then is what was prepared, and no
// program is made again.
func TestPrepare(t *testing.T) {
	d := openDevice(t, "sim")
	_, p := packed(t, d, kind(t, "u4", 136, 392), 1, nil)
	for _, c := range []struct {
		m    int
		call Call
	}{{3, Call{Soon: true}}, {3, Call{}}, {20, Call{}}, {20, Call{Plan: Prefill}}, {130, Call{Plan: Expand}}, {2, Call{Bias: array.New(dtype.F16, 136), Residual: array.New(dtype.F16, 2, 136)}}} {
		clear(p.programs.by)
		first, err := p.Prepare(t.Context(), d, c.m, c.call)
		if err != nil {
			t.Fatal(err)
		}
		made := len(p.programs.by)
		res, err := p.Run(t.Context(), d, normal(p.ActType, 5, c.m, p.K), c.call)
		if err != nil {
			t.Fatal(err)
		}
		if first.Y != nil || first.Plan != res.Plan || first.Schedule != res.Schedule || first.Wide != res.Wide || first.From != res.From {
			t.Errorf("%d rows: %+v is prepared, %+v runs", c.m, first, res)
		}
		if made == 0 || len(p.programs.by) != made {
			t.Errorf("%d rows, plan %s: %d programs are prepared, and there are %d when it has run", c.m, res.Plan, made, len(p.programs.by))
		}
	}
}

// TestGPUPrepare answers by [Call.Soon] while the fastest program is prepared, which then is there.
func TestGPUPrepare(t *testing.T) {
	t.Setenv("CUDA_CACHE_DISABLE", "1")
	d, err := device.Open("cuda")
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUPrepare -test.v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, p := packed(t, d, kind(t, "u3", 1024, 1024), 1, nil)
	x := normal(p.ActType, 5, 64, p.K)
	first, err := p.Run(t.Context(), d, x, Call{Soon: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("soon: ours %v, driver %v", first.Choose+first.Compile, first.JIT)
	type answer struct {
		*Result
		err error
	}
	prepared := make(chan answer, 1)
	begin := time.Now()
	go func() {
		r, err := p.Prepare(t.Context(), d, 64, Call{})
		prepared <- answer{r, err}
	}()
	var got answer
	runs, longest := 0, time.Duration(0)
	for got.Result == nil && got.err == nil {
		start := time.Now()
		res, err := p.Run(t.Context(), d, x, Call{Soon: true})
		if err != nil {
			t.Fatal(err)
		}
		runs, longest = runs+1, max(longest, time.Since(start))
		if !bytes.Equal(res.Y.Data, first.Y.Data) {
			t.Fatal("the same call has another result")
		}
		select {
		case got = <-prepared:
		default:
		}
	}
	if got.err != nil {
		t.Fatal(got.err)
	}
	t.Logf("prepared in %v (ours %v, driver %v); beside it %d products, the longest in %v", time.Since(begin), got.Choose+got.Compile, got.JIT, runs, longest)
	res, err := p.Run(t.Context(), d, x, Call{})
	if err != nil {
		t.Fatal(err)
	}
	if got.JIT == 0 || res.JIT > 0 || res.Compile > 0 || res.Plan != got.Plan || res.Wide != got.Wide {
		t.Errorf("%+v is prepared, and the product still takes %v and %v: %+v", got.Result, res.Compile, res.JIT, res)
	}
}
