package template

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o attention.test ./gpu/attention/template && CUDA_CACHE_DISABLE=1 ./attention.test -test.run GPU -test.v -record attention.json -commit COMMIT; tests/peers/attention_peer.py adds torch's times and the ratios"

var (
	recordTo = flag.String("record", "", "write what was measured to this file")
	commit   = flag.String("commit", "", "commit that the test binary was built from")
	only     = flag.String("cases", "", "regular expression that chooses among the cases")
	sweep    = flag.Bool("sweep", false, "time many schedules, not only the chosen ones")
)

// row is one timed launch.
type row struct {
	Kernel  string  `json:"kernel"`
	Shape   []int   `json:"shape"`
	Options any     `json:"options"`
	Flops   float64 `json:"flops"`
	TFLOPS  float64 `json:"tflops"`
	tune.Row
}

// recorded times programs on the attached GPU and keeps the rows.
type recorded struct {
	*testing.T
	gpu    *tune.GPU
	choose *regexp.Regexp
	rows   []row
}

func openGPU(t *testing.T) *recorded {
	g, err := tune.OpenGPU(0)
	need.GPU(t, err, device.ErrNoGPU, howTo)
	t.Cleanup(func() { g.Close() })
	return &recorded{T: t, gpu: g, choose: regexp.MustCompile(*only)}
}

func (r *recorded) time(kernel string, shape []int, options any, p *ir.Program, args []ir.Arg, flops float64, o tune.Options) {
	r.Helper()
	name := fmt.Sprintf("%s%v", kernel, shape)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	o.Replays = 7
	t, err := tune.Time(ctx, r.gpu, p, args, o)
	if err != nil {
		r.Errorf("%s %+v: %v", name, options, err)
	}
	out := row{Kernel: kernel, Shape: shape, Options: options, Flops: flops, Row: tune.Origin(r.gpu, *commit).Row(name, tune.Hash(p), t, err)}
	if t.Median > 0 {
		out.TFLOPS = flops / t.Median / 1e6
	}
	r.Logf("%-34s %-120s %9.2f µs %6.1f TFLOPS %6.0f GB/s, error %.2g, %d registers, %d local, %d fit", name, fmt.Sprintf("%+v", options), t.Median, out.TFLOPS, t.GBps, t.RelError, t.Registers, t.LocalBytes, t.BlocksPerSM)
	r.rows = append(r.rows, out)
}

func (r *recorded) write(suffix string) {
	if *recordTo == "" {
		return
	}
	data, err := json.MarshalIndent(r.rows, "", "\t")
	if err == nil {
		err = os.WriteFile(*recordTo+suffix, append(data, '\n'), 0o644)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// noise is an array of random numbers, of which a million are drawn and repeated.
func noise(t *testing.T, elem dtype.Type, seed int, shape ...int) *array.Array {
	t.Helper()
	a := array.New(elem, shape...)
	n := min(a.Len(), 1<<20-64)
	part, err := array.Generate(fmt.Sprintf("randn:%s[%d]:seed=%d", elem, n, seed))
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(a.Data); at += len(part.Data) {
		copy(a.Data[at:], part.Data)
	}
	return a
}

// wave is a shape of attention: B sequences, H heads, M queries, N keys.
type wave struct{ b, h, m, n int }

func flashArgs(t *testing.T, o FlashOptions, w wave) []ir.Arg {
	if err := o.defaults(); err != nil {
		t.Fatal(err)
	}
	return []ir.Arg{
		{Array: noise(t, o.Elem, 1, w.b, w.h, w.m, o.Head)},
		{Array: noise(t, o.Elem, 2, w.b, w.h/o.Group, w.n, o.Head)},
		{Array: noise(t, o.Elem, 3, w.b, w.h/o.Group, w.n, o.Head)},
		{Array: array.New(o.Elem, w.b, w.h, w.m, o.Head)},
		{Int: int64(w.b)}, {Int: int64(w.h)}, {Int: int64(w.m)}, {Int: int64(w.n)},
		{Float: math.Log2E / math.Sqrt(float64(o.Head))},
	}
}

// TestGPUFlash holds results on the GPU to the float64 reference, and times.
func TestGPUFlash(t *testing.T) {
	r := openGPU(t)
	d, err := device.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range flashCases {
		p, err := Flash(c.o)
		if err != nil {
			t.Fatal(err)
		}
		args := flashArgs(t, c.o, c.w)
		res, err := d.Run(context.Background(), p, args)
		if err != nil {
			t.Errorf("%+v %+v: %v", c.o, c.w, err)
			continue
		}
		far := farFlash(t, c.o, c.w, args, res.Args[3].Array)
		t.Logf("%+v %+v: %.3g", c.o, c.w, far)
		if !(far < 1) {
			t.Errorf("%+v %+v: %.3g of what is allowed", c.o, c.w, far)
		}
	}
	schedules := map[int][]FlashOptions{}
	for _, head := range []int{64, 128} {
		schedules[head] = []FlashOptions{{}, {Steady: true}}
		if head == 64 {
			schedules[head] = []FlashOptions{{}, {Keys: 96, Stages: 1, Steady: true}}
		}
		if *sweep {
			schedules[head] = nil
			for _, stages := range []int{1, 2} {
				for _, keys := range []int{32, 48, 64, 80, 96, 112} {
					if head == 128 && keys <= 64 || head == 64 && keys >= 64 {
						schedules[head] = append(schedules[head], FlashOptions{Rows: 32, Warps: 4, Keys: keys, Stages: stages}, FlashOptions{Rows: 32, Warps: 4, Keys: keys, Stages: stages, Steady: true})
					}
				}
				for _, keys := range []int{64, 128} {
					schedules[head] = append(schedules[head], FlashOptions{Rows: 16, Warps: 8, Keys: keys, Stages: stages, Resident: head == 64})
				}
			}
		}
	}
	for _, head := range []int{64, 128} {
		for _, seq := range []int{2048, 4096, 8192, 16384} {
			if *sweep && seq != 4096 {
				continue
			}
			for _, causal := range []bool{false, true} {
				w := wave{16384 / seq, 2048 / head, seq, seq}
				kernel := fmt.Sprintf("flash_%d", head)
				flops := 4 * float64(w.b) * float64(w.h) * float64(w.m) * float64(w.n) * float64(head)
				if causal {
					kernel += "_causal"
					flops /= 2
				}
				if !r.choose.MatchString(fmt.Sprintf("%s[%d]", kernel, seq)) {
					continue
				}
				var want []*array.Array
				for _, o := range schedules[head] {
					o.Head, o.Causal = head, causal
					if err := o.defaults(); err != nil {
						t.Fatal(err)
					}
					p, err := Flash(o)
					if err != nil {
						t.Fatal(err)
					}
					args := flashArgs(t, o, w)
					if want == nil && seq == 2048 && !*sweep {
						res, err := d.Run(context.Background(), p, args)
						if err != nil {
							t.Fatal(err)
						}
						want = []*array.Array{3: res.Args[3].Array}
					}
					r.time(kernel, []int{w.b, w.h, w.m, w.n, head}, o, p, args, flops, tune.Options{Want: want, Tolerance: 2e-3, WorkingSet: 1 << 20})
				}
			}
		}
	}
	r.write(".flash")
}

// TestGPUDecode holds results to the float64 reference, and times a batch of
// 16 sequences of 8192 keys, with 64 query heads on 8 key heads.
func TestGPUDecode(t *testing.T) {
	r := openGPU(t)
	d, err := device.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range decodeCases {
		p, err := Decode(c.o)
		if err != nil {
			t.Fatal(err)
		}
		args := decodeArgs(t, c.o, c.b, c.h, c.n, c.lengths)
		res, err := d.Run(context.Background(), p, args)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		far := farDecode(t, c.o, args, res.Args)
		t.Logf("%+v: %.3g", c, far)
		if !(far < 1) {
			t.Errorf("%+v: %.3g of what is allowed", c, far)
		}
	}
	const batch, heads, length = 16, 64, 8192
	schedules := []DecodeOptions{{}}
	if *sweep {
		schedules = nil
		for _, keys := range []int{16, 32, 64} {
			for _, stages := range []int{2, 3, 4} {
				for _, splits := range []int{4, 6, 7, 8, 10, 12, 16} {
					if keys*stages <= 128 {
						schedules = append(schedules, DecodeOptions{Keys: keys, Stages: stages, Splits: splits})
					}
				}
			}
		}
	}
	var want *array.Array
	for _, o := range schedules {
		p, err := Decode(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.defaults(); err != nil {
			t.Fatal(err)
		}
		args := decodeArgs(t, o, batch, heads, length, []uint64{length})
		if want == nil {
			res, err := d.Run(context.Background(), p, args)
			if err != nil {
				t.Fatal(err)
			}
			want = res.Args[4].Array
		}
		bytes := int64(2 * len(args[1].Array.Data))
		r.time("decode", []int{batch, heads, heads / o.Group, length, o.Head}, o, p, args, 0, tune.Options{Bytes: bytes, Want: []*array.Array{4: want}, Tolerance: 2e-3, Read: len(r.rows) == 0})
	}
	r.write(".decode")
}

// TestGPURows holds softmax and layer norm to float64 loops, and times them.
func TestGPURows(t *testing.T) {
	r := openGPU(t)
	d, err := device.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	checkRows(t, "cuda", d)
	for _, c := range []struct {
		rows, columns int
		elem          dtype.Type
	}{{16384, 4096, dtype.F16}, {16384, 4096, dtype.F32}, {8192, 16384, dtype.F16}, {8192, 16384, dtype.F32}} {
		for _, kernel := range []string{"softmax", "layer_norm"} {
			if !r.choose.MatchString(kernel) {
				continue
			}
			schedules := []RowOptions{{}}
			if kernel == "softmax" {
				schedules = append(schedules, RowOptions{Approx: true})
			}
			if *sweep {
				schedules = nil
				for _, warps := range []int{2, 4, 8, 16, 32} {
					if n := c.columns / warps / 32; n >= 8 && n <= 128 {
						schedules = append(schedules, RowOptions{Warps: warps})
						if kernel == "softmax" {
							schedules = append(schedules, RowOptions{Warps: warps, Approx: true})
						}
					}
				}
			}
			for _, o := range schedules {
				o.Elem, o.Columns = c.elem, c.columns
				if err := o.defaults(); err != nil {
					t.Fatal(err)
				}
				x := noise(t, c.elem, 1, c.rows, c.columns)
				args := []ir.Arg{{Array: x}}
				make := Softmax
				if kernel == "layer_norm" {
					make = LayerNorm
					w, b := noise(t, c.elem, 2, c.columns), noise(t, c.elem, 3, c.columns)
					args = append(args, ir.Arg{Array: w}, ir.Arg{Array: b})
				}
				args = append(args, ir.Arg{Array: array.New(c.elem, c.rows, c.columns)}, ir.Arg{Int: int64(c.rows)})
				if kernel == "layer_norm" {
					args = append(args, ir.Arg{Float: 1e-5})
				}
				p, err := make(o)
				if err != nil {
					t.Fatal(err)
				}
				r.time(kernel+"_"+c.elem.String(), []int{c.rows, c.columns}, o, p, args, 0, tune.Options{})
			}
		}
	}
	r.write(".rows")
}
