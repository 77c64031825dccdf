package tune

import (
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func f32(a *array.Array, k int) float32 { return math.Float32frombits(uint32(a.Code(k))) }
func f32bits(v float32) uint32          { return math.Float32bits(v) }

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		samples            []float64
		median, least, max float64
	}{
		{[]float64{3}, 3, 3, 3},
		{[]float64{4, 2}, 3, 2, 4},
		{[]float64{9, 1, 5}, 5, 1, 9},
		{[]float64{8, 1, 2, 100}, 5, 1, 100},
		{shuffled(101), 51, 1, 101},
		{shuffled(10), 5.5, 1, 10},
	} {
		before := slices.Clone(c.samples)
		median, least, greatest := summary(c.samples)
		if median != c.median || least != c.least || greatest != c.max {
			t.Errorf("%v: %v, %v, %v", c.samples, median, least, greatest)
		}
		if !slices.Equal(before, c.samples) {
			t.Errorf("%v: the samples are in another order now", before)
		}
	}
}

func TestSetCount(t *testing.T) {
	const mb, gb = 1 << 20, 1 << 30
	for _, c := range []struct {
		size, want, free int64
		sets             int
	}{
		{235 * mb, 240 * mb, 100 * gb, 2},
		{240 * mb, 240 * mb, 100 * gb, 2}, // 1 set would find its own end in the cache
		{8 * mb, 240 * mb, 100 * gb, 30},
		{8*mb + 1, 240 * mb, 100 * gb, 30},
		{8*mb - 1, 240 * mb, 100 * gb, 31},
		{1000, 240 * mb, 100 * gb, maxSets},
		{0, 240 * mb, 100 * gb, 1},
		{8 * mb, 240 * mb, 80 * mb, 10},
		{8 * mb, 240 * mb, -mb, 1}, // the allocation tells what is wrong
	} {
		if got := setCount(c.size, c.size, c.want, c.free); got != c.sets {
			t.Errorf("%d of %d bytes, %d free: %d sets, want %d", c.size, c.want, c.free, got, c.sets)
		}
	}
	if got := setCount(3*mb, 4*mb, 240*mb, 80*mb); got != 20 {
		t.Errorf("%d sets of 3 MB fit 80 where each takes 4", got)
	}
}

func TestLaunchCount(t *testing.T) {
	for _, c := range []struct {
		us   float64
		sets int
		n    int
	}{
		{54, 2, 56}, {54, 1, 56}, {4, 30, 750}, {1e6, 2, 8}, {1e6, 3, 9}, {0.1, 1, 4096}, {0, 1, 4096}, {0.1, 30, 4110},
	} {
		got := launchCount(c.us, 3000, c.sets)
		if got != c.n || got%c.sets != 0 {
			t.Errorf("%v µs, %d sets: %d launches, want %d", c.us, c.sets, got, c.n)
		}
	}
}

// TestRotation holds that launches go round the sets, each as often as the others.
func TestRotation(t *testing.T) {
	b := buffer{ptr: []cuda.Ptr{10, 20, 30}}
	seen := map[cuda.Ptr]int{}
	for i := range launchCount(100, 3000, 3) {
		seen[b.at(i)]++
		if i > 0 && b.at(i) == b.at(i-1) {
			t.Fatalf("launches %d and %d read the same copy", i-1, i)
		}
	}
	if len(seen) != 3 || seen[10] != seen[20] || seen[20] != seen[30] {
		t.Errorf("%v", seen)
	}
}

func TestUses(t *testing.T) {
	for file, want := range map[string][]use{
		"vector_add":    {reads, reads, writes, 0},
		"axpy":          {0, reads, reads | writes, 0},
		"matmul_scaled": {reads, reads, reads, writes, 0, 0, 0},
		"control":       {reads, writes, 0},
	} {
		p, err := text.Parse(file, corpus.Program(file), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := uses(p); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
	}
}

func TestRotated(t *testing.T) {
	// Weights, scales, activations, result, and a workspace that is read and written.
	sizes := []int64{235 << 20, 7 << 20, 16 << 10, 1 << 20, 300 << 20}
	got := rotated(sizes, []use{reads, reads, reads, writes, reads | writes})
	if want := []bool{true, true, false, false, false}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func run1(t *testing.T, name string, p *ir.Program, args []ir.Arg) []ir.Arg {
	t.Helper()
	d, err := device.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	res, err := d.Run(t.Context(), p, args)
	if err != nil {
		t.Fatal(err)
	}
	return res.Args
}

// TestReadKernel holds that the read kernel reads every byte once, also where
// the tiles do not come out even.
func TestReadKernel(t *testing.T) {
	shape := readShape{blocks: 2, warps: 2, depth: 3}
	round := shape.blocks * shape.depth * shape.tile() * 4
	for _, size := range []int{16, 1024, round, round + 4*shape.tile()*3 + 16*5, 4*round - 16} {
		p, err := shape.program(size / 4)
		if err != nil {
			t.Fatal(err)
		}
		args, want := shape.args(size / 4)
		got := run1(t, "sim", p, args)
		if _, err := compare(got[1].Array, want[1], 0); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if n, err := readElements(17); n != 8 || err != nil {
		t.Errorf("17 bytes are %d elements, %v", n, err)
	}
	if _, err := ReadKernel(1<<40, 132); err == nil {
		t.Error("a terabyte is taken")
	}
}

// TestWants checks the expectations of the cases, in small, on the interpreter.
func TestWants(t *testing.T) {
	for _, c := range []timed{
		{name: "add", file: "vector_add", args: []string{"rand:f32[300]:seed=1", "rand:f32[300]:seed=2", "zeros:f32[300]", "300"}, want: wantSum},
		{name: "u4", file: "matmul_scaled", bind: "W=u4 G=128 BK=128", want: wantScaled("u4", 128), args: []string{
			"randint:f16[16, 256]:seed=1", "randcode:u8[2, 2, 512]:seed=2", "pow2:f16[2, 16]:seed=3:lo=-1:hi=1", "zeros:f16[16, 16]", "16", "16", "256"}},
		small(schedule("small", 3, 64, 640, template.DecodeOptions{Splits: 2, PDL: true})),
		small(schedule("small", 1, 64, 640, template.DecodeOptions{PDL: true})),
		small(decode("decode_u4", "small", 2, 64, 640)),
		{name: "u2", file: "matmul_scaled", bind: "W=u2 G=64 BK=32", want: wantScaled("u2", 32), args: []string{
			"randint:f16[16, 128]:seed=1", "randcode:u8[4, 1, 64]:seed=2", "pow2:f16[2, 8]:seed=3:lo=-1:hi=1", "zeros:f16[16, 8]", "16", "8", "128"}},
	} {
		p, args, o, err := c.make(1)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := run1(t, "interp", p, args)
		checked := 0
		for i, want := range o.Want {
			if want != nil {
				checked++
				if _, err := compare(got[i].Array, want, 0); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
		}
		if checked == 0 {
			t.Errorf("%s: nothing is checked", c.name)
		}
	}
}

// small is a case with sums that f16 holds.
func small(c timed) timed {
	c.args = slices.Clone(c.args)
	for i, a := range c.args {
		c.args[i] = strings.Replace(a, "lo=-6:hi=-5", "lo=-3:hi=-2", 1)
	}
	return c
}

// TestCases holds that every case can be made, without making its arrays.
func TestCases(t *testing.T) {
	names := map[string]bool{}
	for _, c := range cases {
		p, err := c.program(132)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for i, u := range uses(p) {
			if c.o != nil && c.o.Splits > 1 && p.Params[i].Type.Kind == ir.Pointer {
				if want := []use{reads, reads, reads, writes, reads | writes, reads | writes}[i]; u != want {
					t.Errorf("%s: argument %s is used as %d, want %d", c.name, p.Params[i].Name, u, want)
				}
			}
		}
		if names[c.name] {
			t.Errorf("there are two cases %s", c.name)
		}
		names[c.name] = true
		if (c.file != "" || c.o != nil) && len(c.args) != len(p.Params) {
			t.Errorf("%s: %d arguments for %d parameters", c.name, len(c.args), len(p.Params))
		}
		for i, a := range c.args {
			if u := uses(p)[i]; u == reads && p.Params[i].Type.Kind == ir.Pointer && !slices.ContainsFunc([]string{"rand", "pow2"}, func(k string) bool { return len(a) > len(k) && a[:len(k)] == k }) {
				t.Errorf("%s: input %s is %s, which is not random", c.name, p.Params[i].Name, a)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	want := array.FromFloats(dtype.F32, nil, []float64{3, 4, 0, 0})
	near := array.FromFloats(dtype.F32, nil, []float64{3, 4.0625, 0, 0})
	if e, err := compare(want.Clone(), want, 0); e != 0 || err != nil {
		t.Errorf("equal: %v, %v", e, err)
	}
	if _, err := compare(near, want, 0); !errors.Is(err, ErrWrong) {
		t.Errorf("near, exactly: %v", err)
	}
	if e, err := compare(near, want, 0.02); math.Abs(e-0.0125) > 1e-9 || err != nil {
		t.Errorf("near: %v, %v", e, err)
	}
	if _, err := compare(near, want, 0.01); !errors.Is(err, ErrWrong) {
		t.Errorf("near, too far: %v", err)
	}
	poison := want.Clone()
	for i := range poison.Data {
		poison.Data[i] = 0xff
	}
	if _, err := compare(poison, want, 1e9); !errors.Is(err, ErrWrong) {
		t.Errorf("unwritten output: %v", err)
	}
	if _, err := compare(want, array.New(dtype.F32, 2, 2), 1); !errors.Is(err, ErrWrong) {
		t.Errorf("other shape: %v", err)
	}
}

func TestRows(t *testing.T) {
	origin := Row{What: "timing", GPU: "g", Driver: "d", Target: "t", Commit: "c", Binary: "b", Written: "w"}
	timing := Timing{Median: 54, Min: 53, Max: 60, Samples: make([]float64, 11), Bytes: gateUp, GBps: 4349, Launches: 56, Sets: 2, WorkingSet: 2 * gateUp,
		CompileMs: 3, JITMs: 9, Grid: [3]int{264, 1, 1}, Threads: 256, Registers: 64, BlocksPerSM: 4, Checked: true, ReadUs: 50}
	rows := []Row{
		origin.Row("a", "h", timing, nil),
		origin.Row("b", "h", Timing{}, errors.New("no luck")),
	}
	path := filepath.Join(t.TempDir(), "rows.json")
	if err := WriteRows(path, rows); err != nil {
		t.Fatal(err)
	}
	back, err := ReadRows(path)
	if err != nil || !reflect.DeepEqual(back, rows) {
		t.Errorf("%+v, %v, want %+v", back, err, rows)
	}
	if r := rows[0]; r.Result != "equal" || r.Ratio != 1.08 || r.Replays != 11 || !r.Complete() {
		t.Errorf("%+v", r)
	}
	if r := rows[1]; r.Result != "no luck" || r.Complete() {
		t.Errorf("%+v", r)
	}
	timing.RelError = 1e-3
	if r := origin.Row("a", "h", timing, nil); r.Result != "close" || r.RelError != 1e-3 {
		t.Errorf("%+v", r)
	}
}

func TestHash(t *testing.T) {
	p, err := ReadKernel(1<<20, 2)
	if err != nil {
		t.Fatal(err)
	}
	q, err := ReadKernel(1<<20, 4)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, h := range []string{Hash(p), Hash(q), Hash(p, "a"), Hash(p, "a", "b"), Hash(p, "a\nb"), Hash(p, "ab")} {
		if seen[h] || len(h) != 24 {
			t.Errorf("%q", h)
		}
		seen[h] = true
	}
	again, err := text.Parse("other.tile", text.Format(p), nil)
	if err != nil || Hash(again) != Hash(p) {
		t.Errorf("the hash of the printed program is another one: %v", err)
	}
}

func TestOpenWithoutGPU(t *testing.T) {
	g, err := OpenGPU(0)
	if err == nil {
		g.Close()
		t.Skip("there is a GPU here")
	}
	if !errors.Is(err, device.ErrNoGPU) {
		t.Errorf("%v", err)
	}
}
