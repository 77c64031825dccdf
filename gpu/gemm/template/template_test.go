package template

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

var update = flag.Bool("update", false, "write the default instances into vm/corpus")

// printed are the instances in the corpus.
var printed = map[string]func() (*ir.Program, error){
	"matmul_v0": func() (*ir.Program, error) { return Matmul(0, Schedule{}) },
	"matmul_v1": func() (*ir.Program, error) { return Matmul(1, Schedule{}) },
	"matmul_v2": func() (*ir.Program, error) { return Matmul(2, Schedule{}) },
	"matmul_v3": func() (*ir.Program, error) { return Matmul(3, Schedule{}) },
	"matmul_v4": func() (*ir.Program, error) { return Matmul(4, Schedule{}) },
	"matmul_v5": func() (*ir.Program, error) { return Matmul(5, Schedule{}) },
	"matmul_v5_splitk": func() (*ir.Program, error) {
		return Matmul(5, Schedule{M: 64, N: 128, K: 32, WarpsM: 2, WarpsN: 2, Splits: 3})
	},
}

// TestDefaultsAreTheCorpus compares the instances with the programs of their names.
func TestDefaultsAreTheCorpus(t *testing.T) {
	for name, make := range printed {
		p, err := make()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(corpus.Program(name), text.Format(p)); diff != "" {
			t.Errorf("%s is not the corpus program (-corpus +template); go test ./gpu/gemm/template -update writes it:\n%s", name, diff)
		}
		if !*update {
			continue
		}
		path := filepath.Join(need.Root(t), "vm", "corpus", name+".txtar")
		data, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		a := txtar.Parse(data)
		i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == corpus.ProgramFile })
		if i < 0 {
			i = 0
			a.Files = slices.Insert(a.Files, 0, txtar.File{Name: corpus.ProgramFile})
		}
		a.Files[i].Data = []byte(text.Format(p))
		if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInstances multiplies by many schedules on interpreter and simulator, with whole
// numbers that no order of summing rounds: the product must be that of a float64 loop.
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
	small := Schedule{M: 32, N: 32, K: 16, WarpsM: 1, WarpsN: 1}
	with := func(f func(s *Schedule)) Schedule {
		s := small
		f(&s)
		return s
	}
	for _, c := range []struct {
		step    int
		s       Schedule
		m, n, k int
	}{
		{0, small, 40, 33, 20},
		{1, small, 64, 32, 48},
		{1, small, 50, 40, 24},
		{2, with(func(s *Schedule) { s.N, s.WarpsN = 64, 2 }), 33, 70, 50},
		{3, with(func(s *Schedule) { s.K = 64 }), 64, 64, 128},
		{3, small, 31, 20, 7},
		{4, small, 64, 32, 96},
		{4, with(func(s *Schedule) { s.Stages = 2; s.K = 32 }), 40, 48, 72},
		{5, small, 64, 64, 96},
		{5, small, 40, 56, 72},
		{5, small, 33, 31, 17}, // nothing divides: copies of one element
		{5, with(func(s *Schedule) { s.Stages = 2 }), 32, 32, 16},
		{5, with(func(s *Schedule) { s.K, s.Stages, s.Group = 32, 3, 2 }), 96, 96, 64},
		{5, with(func(s *Schedule) { s.M, s.N, s.K, s.WarpsM, s.WarpsN, s.Stages = 64, 64, 64, 2, 2, 3 }), 100, 72, 200},
		{5, with(func(s *Schedule) { s.Splits = 2 }), 40, 32, 80},
		{5, with(func(s *Schedule) { s.Splits, s.Stages, s.K = 3, 3, 32 }), 64, 40, 72},
		{5, with(func(s *Schedule) { s.Splits = 5 }), 32, 32, 48}, // more blocks than turns
	} {
		t.Run(fmt.Sprintf("v%d_%dx%dx%d_%+v", c.step, c.m, c.n, c.k, c.s), func(t *testing.T) {
			p, err := Matmul(c.step, c.s)
			if err != nil {
				t.Fatal(err)
			}
			args, want := product(t, c.m, c.n, c.k)
			if c.s.Splits > 1 {
				tiles := ((c.m + c.s.M - 1) / c.s.M) * ((c.n + c.s.N - 1) / c.s.N)
				args = slices.Insert(args, 3, ir.Arg{Array: array.New(dtype.F32, c.s.Splits, c.m, c.n)}, ir.Arg{Array: array.New(dtype.I32, tiles)})
			}
			for name, d := range devices {
				res, err := d.Run(context.Background(), p, args)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if r := array.Compare(res.Args[2].Array, want); r.Differ > 0 {
					t.Errorf("%s: %v", name, r)
				}
				if c.s.Splits > 1 && slices.Max(res.Args[4].Array.Data) > 0 {
					t.Errorf("%s: the next launch would start from the counts %v", name, res.Args[4].Array)
				}
			}
		})
	}
}

// product is the arguments of a product of whole numbers, and c as it must be.
func product(t *testing.T, m, n, k int) ([]ir.Arg, *array.Array) {
	t.Helper()
	make := func(format string, a ...any) *array.Array {
		x, err := array.Generate(fmt.Sprintf(format, a...))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	a, b := make("randint:f16[%d, %d]:seed=1:lo=-4:hi=4", m, k), make("randint:f16[%d, %d]:seed=2:lo=-4:hi=4", k, n)
	x, y := a.Floats(), b.Floats()
	want := array.New(dtype.F16, m, n)
	sums := slices.Repeat([]float64{0}, n)
	for i := range m {
		clear(sums)
		for l := range k {
			for j := range n {
				sums[j] += x[i*k+l] * y[l*n+j]
			}
		}
		for j, v := range sums {
			want.Set(v, i, j)
		}
	}
	return []ir.Arg{{Array: a}, {Array: b}, {Array: make("ones:f16[%d, %d]", m, n)}, {Int: int64(m)}, {Int: int64(n)}, {Int: int64(k)}}, want
}

// TestSchedules holds which schedules are refused.
func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		step int
		s    Schedule
	}{
		{-1, Schedule{}}, {6, Schedule{}},
		{0, Schedule{Stages: 2}}, {4, Schedule{Group: 2}}, {4, Schedule{Splits: 2}}, {4, Schedule{Stages: 1}},
		{5, Schedule{M: 40}}, {5, Schedule{K: 24}}, {5, Schedule{M: 512}}, {5, Schedule{WarpsM: 3}}, {5, Schedule{WarpsM: 8, WarpsN: 4}},
		{5, Schedule{M: 256, N: 256, K: 64, Stages: 4, WarpsM: 4}}, {5, Schedule{Splits: -1}}, {5, Schedule{Splits: 99}},
	} {
		if _, err := Matmul(c.step, c.s); err == nil {
			t.Errorf("step %d takes %+v", c.step, c.s)
		}
	}
}

// TestNoSpills assembles the instances and the schedules that are timed for every
// target, as launches would whose sizes are multiples of 128 or of 8. (Sizes that
// nothing divides copy element by element, which takes more registers than there are;
// those that the corpus launches are held by tests/status.)
func TestNoSpills(t *testing.T) {
	all := maps.Clone(printed)
	for _, e := range schedules() {
		all[fmt.Sprintf("step %d %+v", e.step, e.s)] = func() (*ir.Program, error) { return Matmul(e.step, e.s) }
	}
	for name, make := range all {
		p, err := make()
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range []string{"sm_80", "sm_86", "sm_89", "sm_90a"} {
			for _, divisible := range []map[string]int64{{"M": 128, "N": 128, "K": 128}, {"M": 8, "N": 8, "K": 8}} {
				c, err := compile.Program(p, compile.Options{Arch: target, Divisible: divisible})
				if err != nil {
					t.Errorf("%s for %s: %v", name, target, err)
					continue
				}
				ptx, err := c.PTX()
				if err != nil {
					t.Fatal(err)
				}
				if made, err := need.Assemble(t, target, ptx); err != nil || made.Spills() > 0 {
					t.Errorf("%s for %s, %v: %v\n%s", name, target, divisible, err, made.Said)
				}
			}
		}
	}
}
