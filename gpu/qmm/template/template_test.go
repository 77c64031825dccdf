package template

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

var update = flag.Bool("update", false, "write the programs of the corpus that templates make (then: go test ./tests/differential -update)")

// TestDefaultsAreTheCorpus compares each template's default instance with the
// program of its name.
func TestDefaultsAreTheCorpus(t *testing.T) {
	six := Form{Weight: dtype.F6E3M2, Act: dtype.F16, Scale: dtype.F16, Group: 128}
	for name, make := range map[string]func() (*ir.Program, error){
		"decode_f6e3m2_f16": func() (*ir.Program, error) { return Decode(six, Schedule{}) },
		"pack_f6e3m2_f16":   func() (*ir.Program, error) { return Pack(six) },
		"unpack_f6e3m2_f16": func() (*ir.Program, error) { return Unpack(six) },
		"expand_u3_bf16": func() (*ir.Program, error) {
			return Expand(Form{Weight: dtype.U3, Act: dtype.BF16, Scale: dtype.F8E8M0, Group: 32, Zero: true})
		},
		"stream_u4_f16": func() (*ir.Program, error) {
			return Decode(Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, Schedule{Warps: 2, Stages: 2, Blocks: 4, PDL: true})
		},
		"digits_u2_f16": func() (*ir.Program, error) {
			return Decode(Form{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F16, Group: 128}, Schedule{Digits: true, Stages: 2, Blocks: 3, PDL: true})
		},
		"gang_i4_f16": func() (*ir.Program, error) {
			return Decode(Form{Weight: dtype.I4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, Schedule{Warpgroups: true, Stages: 2, Blocks: 3, PDL: true})
		},
		"fixed_u2_f16": func() (*ir.Program, error) {
			return Decode(Form{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F16, Group: 128}, Schedule{Warpgroups: true, Fixed: true, Rows: 16, Depth: 2, Stages: 3, Blocks: 3, PDL: true})
		},
		"digits_long_u2_f16": func() (*ir.Program, error) {
			return Decode(Form{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F16, Group: 128}, Schedule{Digits: true, Long: true, Stages: 4, Blocks: 3, PDL: true})
		},
		"digits_long_u1_f16": func() (*ir.Program, error) {
			return Decode(Form{Weight: dtype.U1, Act: dtype.F16, Scale: dtype.F16, Group: 128}, Schedule{Digits: true, Long: true, Stages: 4, Blocks: 3, PDL: true})
		},
		"digits_fixed_u2_f16": func() (*ir.Program, error) {
			return Decode(Form{Weight: dtype.U2, Act: dtype.F16, Scale: dtype.F16, Group: 128}, Schedule{Digits: true, Fixed: true, Stages: 4, Blocks: 3, PDL: true})
		},
		"decode_parts_u4_f16": func() (*ir.Program, error) {
			return Decode(Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, Schedule{Parts: 4, PDL: true})
		},
		"decode_ring_u4_f16": func() (*ir.Program, error) {
			return Decode(Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, Schedule{Parts: 4, Stages: 2, Depth: 1, PDL: true})
		},
		"arrange_i4_f16":   func() (*ir.Program, error) { return Arrange(wideCorpus["wide_i4_f16"].form, WideSchedule{}) },
		"gather_f16":       func() (*ir.Program, error) { return Gather(dtype.F16) },
		"wide_i4_f16":      func() (*ir.Program, error) { return wideOf("wide_i4_f16") },
		"prefill_u4_f16":   func() (*ir.Program, error) { return wideOf("prefill_u4_f16") },
		"decode_u4":        func() (*ir.Program, error) { return DecodeU4(DecodeOptions{}) },
		"decode_u4_splitk": func() (*ir.Program, error) { return DecodeU4(DecodeOptions{Splits: 4, PDL: true}) },
		"pack_u4":          func() (*ir.Program, error) { return PackU4(0) },
		"unpack_u4":        func() (*ir.Program, error) { return UnpackU4(0) },
	} {
		p, err := make()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p.Name = name
		if *update {
			path := filepath.Join("../../../vm/corpus", name+".txtar")
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range a.Files {
				if f.Name == "prog.tile" {
					a.Files[i].Data = []byte(text.Format(p))
				}
			}
			if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(corpus.Program(name), text.Format(p)); diff != "" {
			t.Errorf("%s is not the corpus program, -corpus +template; go test ./gpu/qmm/template -run Corpus -update writes it:\n%s", name, diff)
		}
	}
}

// wideCorpus are the instances of [Wide] in the corpus: small ones.
var wideCorpus = map[string]struct {
	form Form
	s    WideSchedule
}{
	"wide_i4_f16":    {Form{Weight: dtype.I4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, WideSchedule{Rows: 16, Consumers: 1, Stages: 2, Splits: 2}},
	"prefill_u4_f16": {Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128}, WideSchedule{Rows: 32, Stages: 2, Cluster: 2, Persistent: true}},
}

func wideOf(name string) (*ir.Program, error) { return Wide(wideCorpus[name].form, wideCorpus[name].s) }

func generate(t *testing.T, format string, a ...any) *array.Array {
	t.Helper()
	x, err := array.Generate(fmt.Sprintf(format, a...))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestInstances packs, multiplies and unpacks for many schedules on interpreter
// and simulator, with plain numbers that no order of summing rounds: the product
// must be that of a float64 loop, and the weights must come back.
func TestInstances(t *testing.T) {
	devices := map[string]device.Device{}
	for _, name := range []string{"interp", "sim"} {
		d, err := device.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		devices[name] = d
	}
	run := func(t *testing.T, d device.Device, p *ir.Program, args ...any) []ir.Arg {
		t.Helper()
		in := make([]ir.Arg, len(args))
		for i, a := range args {
			switch a := a.(type) {
			case *array.Array:
				in[i].Array = a
			case int:
				in[i].Int = int64(a)
			}
		}
		res, err := d.Run(context.Background(), p, in)
		if err != nil {
			t.Fatal(err)
		}
		return res.Args
	}
	for _, c := range []struct {
		o            DecodeOptions
		m, n, groups int
	}{
		{DecodeOptions{}, 2, 32, 3},
		{DecodeOptions{Depth: 1}, 1, 16, 2},
		{DecodeOptions{Depth: 3, KeepL1: true}, 8, 16, 4},
		{DecodeOptions{Depth: 4}, 1, 32, 1},
		{DecodeOptions{Group: 64}, 3, 32, 5},
		{DecodeOptions{Group: 192, Depth: 1}, 1, 16, 3},
		{DecodeOptions{Group: 256, Warps: 2}, 2, 32, 2},
		{DecodeOptions{Warps: 4, Depth: 3}, 5, 128, 2},
		{DecodeOptions{PDL: true}, 2, 32, 3},
		{DecodeOptions{Splits: 2}, 8, 16, 5},
		{DecodeOptions{Splits: 3, Depth: 1, PDL: true}, 1, 48, 7},
		{DecodeOptions{Splits: 5, Depth: 3, KeepL1: true}, 2, 16, 4},
		{DecodeOptions{Splits: 4, Warps: 2, Group: 64, PDL: true}, 3, 64, 9},
		{DecodeOptions{Splits: 2, Warps: 4, Group: 64}, 1, 64, 8},
	} {
		t.Run(fmt.Sprintf("%+v", c.o), func(t *testing.T) {
			decode, err := DecodeU4(c.o)
			if err != nil {
				t.Fatal(err)
			}
			pack, err := PackU4(c.o.Group)
			if err != nil {
				t.Fatal(err)
			}
			unpack, err := UnpackU4(c.o.Group)
			if err != nil {
				t.Fatal(err)
			}
			group := c.o.Group
			if group == 0 {
				group = 128
			}
			m, n, k := c.m, c.n, c.groups*group
			q := generate(t, "randcode:u4[%d, %d]:seed=1", n, k)
			x := generate(t, "randint:f16[%d, %d]:seed=2:lo=-4:hi=4", m, k)
			s := generate(t, "pow2:f16[%d, %d]:seed=3:lo=-2:hi=0", c.groups, n)
			want := array.New(dtype.F16, m, n)
			for i := range m {
				for j := range n {
					sum := 0.0
					for kk := range k {
						sum += x.At(i, kk) * q.At(j, kk) * s.At(kk/group, j)
					}
					want.Set(sum, i, j)
				}
			}
			for name, d := range devices {
				w := run(t, d, pack, q, array.New(dtype.U8, n/16, c.groups, 8*group), n, k)[1].Array
				back := run(t, d, unpack, array.New(dtype.U4, n, k), w, n, k)[0].Array
				if r := array.Compare(back, q); r.Differ > 0 {
					t.Errorf("%s: unpacked weights: %v", name, r)
				}
				args := []any{w, s, x, array.New(dtype.F16, m, n)}
				if c.o.Splits > 1 {
					args = append(args, array.New(dtype.F32, c.o.Splits, m, n), array.New(dtype.I32, n/16/max(c.o.Warps, 1)))
				}
				got := run(t, d, decode, append(args, m, n, k)...)
				if r := array.Compare(got[3].Array, want); r.Differ > 0 {
					t.Errorf("%s: product: %v", name, r)
				}
				if c.o.Splits > 1 && slices.Max(got[5].Array.Data) > 0 {
					t.Errorf("%s: the next launch would start from the counts %v", name, got[5].Array)
				}
			}
		})
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []DecodeOptions{{Depth: 5}, {Depth: -1}, {Warps: 9}, {Group: 32}, {Group: 100}, {Group: 1024}, {Splits: -1}, {Splits: 65}} {
		if _, err := DecodeU4(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if _, err := PackU4(96); err == nil {
		t.Error("PackU4 accepts a group of 96")
	}
	if _, err := UnpackU4(-64); err == nil {
		t.Error("UnpackU4 accepts a group of -64")
	}
}

// TestOverlap holds what stands before the wait for the launch in front, in the
// code as it is run: loads of weights and scales, and nothing that writes.
func TestOverlap(t *testing.T) {
	for _, o := range []DecodeOptions{{PDL: true}, {Splits: 4, PDL: true}, {Splits: 3, Depth: 4, Warps: 4, PDL: true}} {
		p, err := DecodeU4(o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := compile.Program(p, compile.Options{Divisible: map[string]int64{"N": 128, "K": 128}})
		if err != nil {
			t.Fatal(err)
		}
		before, loads := true, 0
		for _, in := range c.Func.Body.Instrs {
			switch row := in.Row(); {
			case in.Op == code.OpGridDepWait:
				before = false
			case before && row.Class == code.Load:
				loads++
			case before && (row.Class == code.Store || row.Class == code.Atomic || row.Class == code.Control):
				t.Errorf("%+v: %s stands before the wait", o, row.Name)
			}
		}
		if depth := max(o.Depth, 2); before || loads != 4*depth || !c.Func.Launch.PDL {
			t.Errorf("%+v: %d loads before the wait, PDL %v", o, loads, c.Func.Launch.PDL)
		}
	}
}
