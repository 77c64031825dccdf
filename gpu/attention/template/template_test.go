package template

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

var update = flag.Bool("update", false, "write the default instances to vm/corpus")

// TestDefaultsAreTheCorpus compares instances of each template with the programs
// of their names.
func TestDefaultsAreTheCorpus(t *testing.T) {
	for name, make := range map[string]func() (*ir.Program, error){
		"flash_attention": func() (*ir.Program, error) { return Flash(FlashOptions{}) },
		"flash_attention_causal": func() (*ir.Program, error) {
			return Flash(FlashOptions{Elem: dtype.BF16, Head: 64, Causal: true, Group: 2})
		},
		"flash_hopper": func() (*ir.Program, error) { return FlashHopper(HopperOptions{Keys: 64}) },
		"flash_hopper_causal": func() (*ir.Program, error) {
			return FlashHopper(HopperOptions{Elem: dtype.BF16, Head: 64, Consumers: 2, Keys: 64, Causal: true, Group: 2})
		},
		"decode_attention": func() (*ir.Program, error) { return Decode(DecodeOptions{}) },
		"softmax_rows":     func() (*ir.Program, error) { return Softmax(RowOptions{}) },
		"layer_norm_rows":  func() (*ir.Program, error) { return LayerNorm(RowOptions{Elem: dtype.BF16}) },
	} {
		p, err := make()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(corpus.Program(name), text.Format(p)); diff != "" && !*update {
			t.Errorf("%s is not the corpus program (-corpus +template); go test ./gpu/attention/template -update writes it:\n%s", name, diff)
		} else if diff != "" {
			a := corpus.Get(name)
			for i, f := range a.Files {
				if f.Name == corpus.ProgramFile {
					a.Files[i].Data = []byte(text.Format(p))
				}
			}
			if err := os.WriteFile("../../../vm/corpus/"+name+".txtar", txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// flashCases are schedules with lengths that no tile divides, and what they mean.
var flashCases = []struct {
	o FlashOptions
	w wave
}{
	{FlashOptions{Head: 64, Warps: 1, Rows: 16, Keys: 16, Stages: 1}, wave{1, 1, 16, 16}},
	{FlashOptions{Head: 64, Warps: 2, Rows: 16, Keys: 32, Stages: 2, Steady: true, Group: 2}, wave{2, 4, 37, 70}},
	{FlashOptions{Head: 64, Warps: 2, Rows: 16, Keys: 32, Stages: 2, Group: 2, Causal: true}, wave{1, 2, 70, 70}},
	{FlashOptions{Head: 64, Warps: 1, Rows: 32, Keys: 48, Causal: true, Stages: 1, Steady: true}, wave{1, 1, 33, 100}},
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
	return farRows(t, o, w, args, got, 200)
}

// farRows is farFlash over so many of the rows.
func farRows(t *testing.T, o FlashOptions, w wave, args []ir.Arg, got *array.Array, rows int) float64 {
	t.Helper()
	if err := o.defaults(); err != nil {
		t.Fatal(err)
	}
	unit := 0x1p-11
	if o.Elem == dtype.BF16 {
		unit = 0x1p-8
	}
	far := 0.0
	step := max(w.b*w.h*w.m/rows, 1)
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

// decodeCases are schedules with sequences of various lengths.
var decodeCases = []struct {
	o       DecodeOptions
	b, h, n int
	lengths []uint64
}{
	{DecodeOptions{Head: 64, Group: 4, Keys: 16, Stages: 3, Splits: 1}, 2, 4, 60, []uint64{60, 17}},
	{DecodeOptions{Head: 64, Group: 8, Keys: 32, Splits: 3}, 3, 8, 200, []uint64{200, 1, 96}},
	{DecodeOptions{Group: 16, Keys: 32, Splits: 2, Elem: dtype.BF16}, 1, 16, 70, []uint64{65}},
	{DecodeOptions{Group: 1, Keys: 64, Stages: 2, Splits: 4}, 1, 2, 300, []uint64{255}},
}

func decodeArgs(t *testing.T, o DecodeOptions, b, h, n int, lengths []uint64) []ir.Arg {
	t.Helper()
	if err := o.defaults(); err != nil {
		t.Fatal(err)
	}
	k, v := noise(t, o.Elem, 2, b, h/o.Group, n, o.Head), noise(t, o.Elem, 3, b, h/o.Group, n, o.Head)
	// What lies behind a sequence must not count.
	for i, l := range lengths {
		for j := range h / o.Group {
			for at := int(l); at < min(int(l)+40, n); at++ {
				k.Set(math.NaN(), i, j, at, 0)
				v.Set(math.NaN(), i, j, at, 3)
			}
		}
	}
	l := array.New(dtype.I32, b)
	for i := range b {
		l.SetCode(i, lengths[i%len(lengths)])
	}
	args := []ir.Arg{{Array: noise(t, o.Elem, 1, b, h, o.Head)}, {Array: k}, {Array: v}, {Array: l}, {Array: array.New(o.Elem, b, h, o.Head)}}
	if o.Splits > 1 {
		args = append(args, ir.Arg{Array: array.New(dtype.F32, o.Splits, b, h, o.Head)}, ir.Arg{Array: array.New(dtype.F32, o.Splits, b, h)}, ir.Arg{Array: array.New(dtype.F32, o.Splits, b, h)}, ir.Arg{Array: array.New(dtype.I32, b, h/o.Group)})
	}
	return append(args, ir.Arg{Int: int64(b)}, ir.Arg{Int: int64(h)}, ir.Arg{Int: int64(n)}, ir.Arg{Float: math.Log2E / math.Sqrt(float64(o.Head))})
}

// farDecode is like farFlash.
func farDecode(t *testing.T, o DecodeOptions, args, res []ir.Arg) float64 {
	t.Helper()
	if err := o.defaults(); err != nil {
		t.Fatal(err)
	}
	if o.Splits > 1 {
		for i := range res[8].Array.Len() {
			if res[8].Array.Code(i) != 0 {
				t.Errorf("the next launch would start from the counts %v", res[8].Array)
				break
			}
		}
	}
	unit := 0x1p-11
	if o.Elem == dtype.BF16 {
		unit = 0x1p-8
	}
	q, got := args[0].Array, res[4].Array
	far := 0.0
	for b := range q.Shape[0] {
		for h := range q.Shape[1] {
			want, size := attend(q.Reshape(q.Shape[0], q.Shape[1], 1, q.Shape[2]), args[1].Array, args[2].Array, b, h, h/o.Group, 0, int(args[3].Array.Code(b)), args[len(args)-1].Float)
			for d, x := range want {
				if e := math.Abs(got.At(b, h, d)-x) / (4*unit*size[d] + 0x1p-24); !(e <= far) {
					far = e
				}
			}
		}
	}
	return far
}

func TestDecode(t *testing.T) {
	devices := machines(t)
	for _, c := range decodeCases {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			p, err := Decode(c.o)
			if err != nil {
				t.Fatal(err)
			}
			args := decodeArgs(t, c.o, c.b, c.h, c.n, c.lengths)
			var results []*array.Array
			for _, name := range []string{"interp", "sim"} {
				res, err := devices[name].Run(context.Background(), p, args)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				results = append(results, res.Args[4].Array)
				if far := farDecode(t, c.o, args, res.Args); !(far < 1) {
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

// TestRows holds softmax and layer norm to float64 loops.
func TestRows(t *testing.T) {
	for name, d := range machines(t) {
		checkRows(t, name, d)
	}
}

func checkRows(t *testing.T, name string, d device.Device) {
	t.Helper()
	for _, o := range []RowOptions{{Columns: 1024}, {Columns: 512, Elem: dtype.F32, Warps: 2}, {Columns: 768, Elem: dtype.BF16, Warps: 1, Approx: true}, {Columns: 4096, Elem: dtype.F32, Approx: true}} {
		if err := o.defaults(); err != nil {
			t.Fatal(err)
		}
		const rows = 3
		unit := map[dtype.Type]float64{dtype.F16: 0x1p-11, dtype.BF16: 0x1p-8, dtype.F32: 0x1p-21}[o.Elem]
		x, w, b := noise(t, o.Elem, 1, rows, o.Columns), noise(t, o.Elem, 2, o.Columns), noise(t, o.Elem, 3, o.Columns)
		y := ir.Arg{Array: array.New(o.Elem, rows, o.Columns)}
		n := ir.Arg{Int: rows}
		soft, err := Softmax(o)
		if err != nil {
			t.Fatal(err)
		}
		norm, err := LayerNorm(o)
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.Run(context.Background(), soft, []ir.Arg{{Array: x}, y, n})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l, err := d.Run(context.Background(), norm, []ir.Arg{{Array: x}, {Array: w}, {Array: b}, y, n, {Float: 1e-5}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range rows {
			var sum, mass, square float64
			for j := range o.Columns {
				sum += x.At(i, j)
				mass += math.Exp(x.At(i, j))
			}
			mean := sum / float64(o.Columns)
			for j := range o.Columns {
				square += (x.At(i, j) - mean) * (x.At(i, j) - mean)
			}
			scale := 1 / math.Sqrt(square/float64(o.Columns)+1e-5)
			for j := range o.Columns {
				p := math.Exp(x.At(i, j)) / mass
				if got := s.Args[1].Array.At(i, j); !(math.Abs(got-p) <= 2*unit*p+0x1p-24) {
					t.Fatalf("%s: softmax %+v [%d, %d]: %g instead of %g", name, o, i, j, got, p)
				}
				z := (x.At(i, j) - mean) * scale * w.At(j)
				if got, want := l.Args[3].Array.At(i, j), z+b.At(j); !(math.Abs(got-want) <= 2*unit*(math.Abs(z)+math.Abs(b.At(j)))) {
					t.Fatalf("%s: layer norm %+v [%d, %d]: %g instead of %g", name, o, i, j, got, want)
				}
			}
		}
	}
}

// TestNoSpills assembles the defaults for every target; none may spill registers.
func TestNoSpills(t *testing.T) {
	if testing.Short() {
		t.Skip("assembling takes long")
	}
	// The defaults are for an H200. Code for targets before sm_90 has fewer registers to
	// spare, which half the rows, or fewer keys, leave.
	flash := func(target string, o FlashOptions) (*ir.Program, error) {
		if target != "sm_90a" && o.Head == 64 {
			o.Keys = 64
		} else if target != "sm_90a" {
			o.Rows = 16
		}
		return Flash(o)
	}
	for name, make := range map[string]func(target string) (*ir.Program, error){
		"flash_64": func(target string) (*ir.Program, error) { return flash(target, FlashOptions{Head: 64}) },
		"flash_64_causal": func(target string) (*ir.Program, error) {
			return flash(target, FlashOptions{Head: 64, Causal: true, Group: 4})
		},
		"flash_128": func(target string) (*ir.Program, error) { return flash(target, FlashOptions{}) },
		"flash_128_causal": func(target string) (*ir.Program, error) {
			return flash(target, FlashOptions{Causal: true, Elem: dtype.BF16})
		},
		"decode_64":  func(string) (*ir.Program, error) { return Decode(DecodeOptions{Head: 64}) },
		"decode_128": func(string) (*ir.Program, error) { return Decode(DecodeOptions{}) },
		"softmax":    func(string) (*ir.Program, error) { return Softmax(RowOptions{Columns: 16384}) },
		"layer_norm": func(string) (*ir.Program, error) { return LayerNorm(RowOptions{Columns: 16384}) },
	} {
		for _, target := range []string{"sm_80", "sm_86", "sm_89", "sm_90a"} {
			p, err := make(target)
			if err != nil {
				t.Fatal(err)
			}
			c, err := compile.Program(p, compile.Options{Arch: target})
			if err != nil {
				t.Fatalf("%s, %s: %v", name, target, err)
			}
			ptx, err := c.PTX()
			if err != nil {
				t.Fatal(err)
			}
			if made, err := need.Assemble(t, target, ptx); err != nil || made.Spills() > 0 {
				t.Errorf("%s, %s: %v\n%s", name, target, err, made.Said)
			}
		}
	}
}
