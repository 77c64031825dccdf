package launch

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/emit"
	"github.com/tilus-lab/tilus-lab/gpu/emit/lanes"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	rec "github.com/tilus-lab/tilus-lab/tests/record"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
	hlorand "github.com/tilus-lab/tilus-lab/vm/hlo/rand"
)

var (
	recordTo = rec.Flags()
	corpus   = flag.String("corpus", "../../fuse/testdata", "folder of txtar files with fusions")
	rowsTo   = flag.String("rows", "", "write rows for xla_peer.py --merge to this file")
	only     = flag.String("cases", "", "regular expression that chooses among the cases")
	graphs   = flag.Int("graphs", 400, "random fusions to compare")
	mib      = flag.Int("mib", 512, "size of the main array of a case")
	calls    = flag.Int("calls", 20, "launches in a graph that is timed")
	repeats  = flag.Int("repeats", 7, "graphs timed, of which the median counts")
	compiled = flag.Int("compiled", 5, "times that a case is compiled and loaded, of which the median counts")
	search   = flag.Bool("search", false, "time other tunings too")
	level    = flag.Int("level", 0, "how much the driver's compiler tries, 1 to 4; 0 for its choice")
	arch     = flag.String("arch", "sm_90a", "what the device runs")
)

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o launch.test ./gpu/emit/launch && ./launch.test -test.run GPU -test.v -record fusions.json -rows rows.json -corpus gpu/fuse/testdata -commit COMMIT, and put fusions.json in tests/record; tests/peers/fusion_peer.py makes fusion_times.json of rows.json"

func gpu(t *testing.T) *cuda.Context {
	t.Helper()
	d, err := cuda.Open()
	if e := (*cuda.Error)(nil); errors.Is(err, cuda.ErrNoDriver) || errors.As(err, &e) && e.NoDevice() {
		t.Skipf("no GPU here: %v; %s", err, howTo)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.PrimaryContext(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func compile(text string, how emit.Tuning) (*emit.Program, error) {
	m, err := hlo.Parse("case", text)
	if err != nil {
		return nil, err
	}
	return emit.Compile(m, emit.Options{Tune: how})
}

// tunings are what a search tries for a case, by name.
func tunings(c Case) map[string]emit.Tuning {
	all := map[string]emit.Tuning{"": {}}
	if !*search {
		return all
	}
	switch {
	case c.Name == "transpose_10_odd":
		for _, n := range []int{256, 512, 1024} {
			for _, in := range []int{1, 2} {
				for _, out := range []int{1, 2} {
					all[fmt.Sprintf("turners%d rolled%d,%d", n, in, out)] = emit.Tuning{Turners: n, RolledIn: in, RolledOut: out}
				}
			}
		}
	case c.Name == "transpose_102_heads":
		all["vectors2"] = emit.Tuning{Vectors: 2}
		all["evict"] = emit.Tuning{LoadHint: code.EvictFirst, StoreHint: code.EvictFirst}
	case c.Group == "transpose":
		all["turners256"] = emit.Tuning{Turners: 256}
		all["tile64x512"] = emit.Tuning{Tile: 64, Turners: 512}
		all["tile64x256"] = emit.Tuning{Tile: 64, Turners: 256}
		all["turners1024"] = emit.Tuning{Turners: 1024}
	case strings.HasPrefix(c.Name, "column"), c.Name == "row_reduce_to_scalar":
		for _, n := range []int{4, 6, 8} {
			for _, k := range []int{1, 2, 4} {
				all[fmt.Sprintf("fill%d group%d", n, k)] = emit.Tuning{Fill: n, Group: k}
			}
		}
	case strings.HasPrefix(c.Name, "multi"):
		for _, n := range []int{1, 2, 8} {
			all[fmt.Sprint("short", n)] = emit.Tuning{ShortRows: n}
		}
	case c.Group == "reduce":
		for _, n := range []int{1, 2, 4} {
			all[fmt.Sprint("loads", n)] = emit.Tuning{RowLoads: n}
		}
		all["evict"] = emit.Tuning{LoadHint: code.EvictFirst, StoreHint: code.EvictFirst}
		all["evict stores"] = emit.Tuning{StoreHint: code.EvictFirst}
		all["evict loads4"] = emit.Tuning{RowLoads: 4, LoadHint: code.EvictFirst, StoreHint: code.EvictFirst}
	default:
		all["vectors2"] = emit.Tuning{Vectors: 2}
		all["vectors4"] = emit.Tuning{Vectors: 4}
		all["threads128"] = emit.Tuning{Threads: 128}
		all["threads512"] = emit.Tuning{Threads: 512}
		all["evict"] = emit.Tuning{LoadHint: code.EvictFirst, StoreHint: code.EvictFirst}
	}
	return all
}

// subject is a fusion, or are random ones, that must give on the GPU what the simulator
// computes.
type subject struct {
	name     string
	programs []*emit.Program
	args     [][]*array.Array
	loose    float64 // relative Frobenius error that the order of atomic sums explains; 0 for equal bits
}

// approximate says whether exponentials are the machine's.
func (s subject) approximate() bool {
	return slices.ContainsFunc(s.programs, func(p *emit.Program) bool {
		return slices.ContainsFunc(p.Kernels, func(k *emit.Kernel) bool { return k.Tensor.Exponential != lanes.Steps })
	})
}

// hash is that of the thread code.
func (s subject) hash() string {
	h := sha256.New()
	for _, p := range s.programs {
		for _, k := range p.Kernels {
			fmt.Fprint(h, code.Format(k.Code))
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:24]
}

// typeSets are the element types of random fusions; nil stands for those that hlorand draws.
var typeSets = [][]hlo.Type{nil, {hlo.S4, hlo.U4, hlo.S8, hlo.U8, hlo.F32}, {hlo.F8E4M3FN, hlo.F8E5M2, hlo.F32, hlo.BF16, hlo.S32},
	{hlo.S64, hlo.U64, hlo.F64, hlo.F32, hlo.Pred, hlo.U32, hlo.S16, hlo.U16}, {hlo.F16, hlo.BF16, hlo.S32}}

func subjects(t *testing.T) (list []subject) {
	t.Helper()
	small := plan.Device{Name: "tiny", SMs: 2, ThreadsPerSM: 8, SharedBytes: 48 << 10, Warp: 32}
	add := func(s *subject, m *hlo.Module, o emit.Options, args []*array.Array) {
		p, err := emit.Compile(m, o)
		if err != nil {
			t.Fatalf("%s: %v\n%s", s.name, err, hlo.Format(m))
		}
		s.programs, s.args = append(s.programs, p), append(s.args, args)
	}
	drawn := func(m *hlo.Module, seed uint64) (args []*array.Array) {
		r := rand.New(rand.NewPCG(seed, 2))
		for _, in := range m.Entry.Params {
			a := array.New(in.Shape.Type.Elem(), in.Shape.Dims...)
			for k := range a.Len() {
				switch e := in.Shape.Type; {
				case e == hlo.Pred:
					a.SetCode(k, uint64(r.IntN(2)))
				case e.IsFloat():
					a.SetCode(k, e.Elem().Encode(float64(r.IntN(257)-128)/16, false))
				default:
					a.SetCode(k, e.Elem().EncodeInt(int64(r.IntN(19)-6), false))
				}
			}
			args = append(args, a)
		}
		keepPromises(m, args, rand.New(rand.NewPCG(seed, 3)))
		return args
	}
	for i, types := range typeSets {
		s := subject{name: fmt.Sprintf("random fusions of types %v", types)}
		for seed := range uint64(*graphs / len(typeSets)) {
			m, err := hlorand.Fusion(seed+uint64(i+1)*1000000, hlorand.Options{Exact: true, Types: types})
			if err != nil {
				t.Fatal(err)
			}
			o := emit.Options{}
			if seed%2 == 1 {
				o.Device = small
			}
			add(&s, m, o, drawn(m, seed))
		}
		list = append(list, s)
	}
	files, err := filepath.Glob(filepath.Join(*corpus, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fusions in %s: %v", *corpus, err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			if f.Name != "fusion.hlo" {
				continue
			}
			m, err := hlo.Parse(filepath.Base(file), string(f.Data)) // positions are part of the code
			if err != nil {
				t.Fatal(err)
			}
			s := subject{name: filepath.Base(file)}
			if strings.Contains(string(f.Data), "scatter(") {
				s.loose = 1e-5
			}
			add(&s, m, emit.Options{}, drawn(m, 7))
			list = append(list, s)
		}
	}
	for _, typ := range []string{"f32", "bf16"} {
		for _, c := range Cases(typ, 1) {
			m, err := hlo.Parse(c.Name, c.Text)
			if err != nil {
				t.Fatal(err)
			}
			s := subject{name: c.Name + "/" + typ}
			if c.Group == "scatter" {
				s.loose = map[string]float64{"f32": 1e-5, "bf16": 2e-2}[typ]
			}
			var args []*array.Array
			for _, in := range c.Args {
				f, err := hlo.Parse("fill", in.Fill(typ))
				if err != nil {
					t.Fatal(err)
				}
				v, err := eval.Run(f, nil)
				if err != nil {
					t.Fatal(err)
				}
				args = append(args, v[0])
			}
			add(&s, m, emit.Options{}, args)
			list = append(list, s)
		}
	}
	return list
}

// keepPromises draws again the arguments that are indices of a scatter whose text promises
// them sorted or unique: code relies on that, and where it is broken no result is right.
func keepPromises(m *hlo.Module, args []*array.Array, r *rand.Rand) {
	for _, in := range m.Entry.Instructions {
		if in.Op != hlo.Scatter || !in.Sorted && !in.Unique || in.Operands[in.Inputs()].Op != hlo.Parameter {
			continue
		}
		indices, s := in.Operands[in.Inputs()], in.Scatter
		dims := in.Operands[0].Shape.Dims
		extent, box := make([]int, len(dims)), in.Operands[in.Inputs()+1].Shape.Dims // of what one index writes
		for axis, k := 0, 0; axis < len(dims); axis++ {
			if extent[axis] = 1; !slices.Contains(s.Inserted, axis) && !slices.Contains(s.InputBatch, axis) {
				extent[axis] = box[s.UpdateWindow[k]]
				k++
			}
		}
		places, step := 1, 1 // boxes side by side; from one number of a tuple of indices to the next
		for _, axis := range s.ToOperand {
			places *= dims[axis] / extent[axis]
		}
		for _, n := range indices.Shape.Dims[min(s.IndexVector+1, len(indices.Shape.Dims)):] {
			step *= n
		}
		tuples := indices.Shape.Elements() / len(s.ToOperand)
		if places == 0 || in.Unique && places < tuples {
			continue // no indices keep what the text promises
		}
		chosen := r.Perm(places)
		if !in.Unique {
			chosen = make([]int, tuples)
			for k := range chosen {
				chosen[k] = r.IntN(places)
			}
		}
		if chosen = chosen[:tuples]; in.Sorted {
			slices.Sort(chosen)
		}
		for k, place := range chosen {
			at := k/step*step*len(s.ToOperand) + k%step
			for i, axis := range slices.Backward(s.ToOperand) {
				n := dims[axis] / extent[axis]
				args[indices.Number].SetCode(at+i*step, indices.Shape.Type.Elem().EncodeInt(int64(place%n*extent[axis]), false))
				place /= n
			}
		}
	}
}

// TestPromises holds that every fusion of the corpus runs on the arguments drawn for it, and
// that those which its text says are sorted or unique are: whatever the place of their vector.
func TestPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates the corpus")
	}
	drawn := map[string][]*array.Array{}
	for _, s := range subjects(t) {
		if !strings.HasSuffix(s.name, ".txtar") {
			continue
		}
		drawn[s.name] = s.args[0]
		if _, err := s.programs[0].Simulate(context.Background(), s.args[0]); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
	for name, want := range map[string]struct {
		param  int
		sorted bool
	}{"sorted_unique.txtar": {1, true}, "scatter_then_update.txtar": {1, false}} {
		if drawn[name] == nil {
			t.Fatalf("no %s in %s", name, *corpus)
		}
		at := drawn[name][want.param].Floats()
		if want.sorted && !slices.IsSorted(at) {
			t.Errorf("%s: indices are not sorted: %v", name, at)
		}
		slices.Sort(at)
		if len(slices.Compact(slices.Clone(at))) != len(at) {
			t.Errorf("%s: indices are not unique: %v", name, at)
		}
	}
	text := func(indices string, vector int) string {
		return fmt.Sprintf(`HloModule m
sum {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b)
}
ENTRY e {
  x = s32[8,12] parameter(0)
  i = s32[%s] parameter(1)
  u = s32[6,2,3] parameter(2)
  ROOT s = s32[8,12] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=%d, unique_indices=true, indices_are_sorted=true, to_apply=sum
}
`, indices, vector)
	}
	for vector, indices := range []string{"2,6", "6,2"} {
		m, err := hlo.Parse("boxes", text(indices, vector))
		if err != nil {
			t.Fatal(err)
		}
		args := []*array.Array{array.New(hlo.S32.Elem(), 8, 12), array.New(hlo.S32.Elem(), m.Entry.Params[1].Shape.Dims...), array.New(hlo.S32.Elem(), 6, 2, 3)}
		for k := range args[2].Len() {
			args[2].SetCode(k, 1)
		}
		keepPromises(m, args, rand.New(rand.NewPCG(1, 3)))
		got, err := eval.Run(m, args)
		if err != nil {
			t.Fatal(err)
		}
		// Six boxes of 2×3 that lie inside and do not overlap write 36 elements once each.
		if ones := got[0].Floats(); slices.Max(ones) != 1 || len(slices.DeleteFunc(ones, func(v float64) bool { return v != 1 })) != 36 {
			t.Errorf("index_vector_dim=%d: indices %v leave %v", vector, args[1].Floats(), got[0].Floats())
		}
	}
}

// equalRow says that a subject gave the same on both.
type equalRow struct {
	rec.Row
	Fusions int `json:"fusions"`
}

// TestGPUEqual compares the corpus, the peers' operations in small and random fusions on
// the GPU with the simulator.
func TestGPUEqual(t *testing.T) {
	ctx := gpu(t)
	stamp, err := recordTo.Stamp("fusion")
	if err != nil {
		t.Fatal(err)
	}
	d, err := ctx.Driver().Device(0)
	if err != nil {
		t.Fatal(err)
	}
	major, minor := ctx.Driver().Version()
	stamp.GPU, stamp.Driver, stamp.Target = d.Name, fmt.Sprintf("CUDA %d.%d", major, minor), *arch
	var rows []equalRow
	fusions := 0
	for _, s := range subjects(t) {
		row := equalRow{Row: stamp, Fusions: len(s.programs)}
		row.Name, row.Hash, row.Result = s.name, s.hash(), "equal"
		if s.approximate() {
			s.loose = max(s.loose, 1e-3)
		}
		if s.loose > 0 {
			row.Result = fmt.Sprintf("equal within %g, which the order of atomic sums or the machine's exponential explains", s.loose)
		}
		for i, p := range s.programs {
			differ, of, err := compare(ctx, p, s.args[i], s.loose)
			row.Differ, row.Of = row.Differ+differ, row.Of+of
			if err != nil || differ > 0 {
				row.Result = fmt.Sprintf("differs in %d of %d elements", row.Differ, row.Of)
				if err != nil {
					row.Result = fmt.Sprintf("differs: %v", err)
				}
				t.Errorf("%s: %d of %d elements differ: %v\n%s", s.name, differ, of, err, hlo.Format(p.Module))
			} else {
				fusions++
			}
		}
		rows = append(rows, row)
	}
	t.Logf("%d fusions equal", fusions)
	if err := recordTo.Write(rows); err != nil {
		t.Fatal(err)
	}
}

func compare(ctx *cuda.Context, p *emit.Program, args []*array.Array, loose float64) (differ, of int, err error) {
	want, err := p.Simulate(context.Background(), args)
	if err != nil {
		return 0, 0, err
	}
	l, err := Load(ctx, p, *arch)
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	got, err := l.Run(args)
	if err != nil {
		return 0, 0, err
	}
	for i := range want {
		of += want[i].Len()
		if loose > 0 && array.RelFro(got[i], want[i]) <= loose {
			continue
		}
		differ += array.Compare(got[i], want[i]).Differ
	}
	return differ, of, nil
}

// TestRecord holds what a GPU proved to the fusions that there are now.
func TestRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles all fusions of the record")
	}
	if _, err := os.Stat("../../../tests/record/fusions.json"); err != nil {
		t.Skipf("nothing is recorded: %s", howTo)
	}
	now := map[string]string{}
	for _, s := range subjects(t) {
		now[s.name] = s.hash()
	}
	stale, proved, problems := rec.Check(rec.Read[equalRow](t, "fusions.json"), "fusion", now, howTo)
	for _, p := range problems {
		t.Error(p)
	}
	t.Logf("%d proved on a GPU; waiting for one: %v", len(proved), stale)
}

var readGBps float64

// TestGPURead times the read kernel, which the bars are relative to.
func TestGPURead(t *testing.T) {
	gpu(t)
	g, err := tune.OpenGPU(0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	r, err := tune.TimeRead(context.Background(), g, 512<<20, tune.Options{WorkingSet: 512 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("read kernel: %v", r)
	readGBps = r.GBps
}

// row is what xla_peer.py merges.
type row struct {
	Framework string      `json:"framework"`
	Case      string      `json:"case"`
	Group     string      `json:"group"`
	Dtype     string      `json:"dtype"`
	Ideal     int         `json:"ideal_bytes"`
	US        float64     `json:"us"`
	GBps      float64     `json:"gbps"`
	Tuning    string      `json:"tuning,omitempty"`
	OfCopy    float64     `json:"of_copy,omitempty"`
	CompileMS float64     `json:"compile_ms"`
	LoadMS    float64     `json:"load_ms"`
	Registers []int       `json:"registers"`
	Hash      string      `json:"hash"`
	Sample    [][]float64 `json:"sample,omitempty"`
}

// TestGPUPeerCases times the operations of xla_peer.py.
func TestGPUPeerCases(t *testing.T) {
	ctx := gpu(t)
	choose, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := ctx.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	n := *mib << 20 / 4
	copied, err := timeCase(ctx, stream, Case{Name: "copy", Type: "f32", Ideal: 8 * n, Args: []Input{{Name: "a", Dims: []int{n}, Salt: 1}},
		Text: fmt.Sprintf("HloModule copy\nENTRY main {\n a = f32[%[1]d] parameter(0)\n ROOT r = f32[%[1]d] negate(a)\n}\n", n)})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("copy kernel, which is the bar of what writes as much as it reads: %.1f GB/s", copied[0].GBps)
	var rows []row
	for _, typ := range []string{"f32", "bf16"} {
		for _, c := range Cases(typ, *mib) {
			if !choose.MatchString(c.Name + "/" + typ) {
				continue
			}
			all, err := timeCase(ctx, stream, c)
			if err != nil {
				t.Errorf("%s %s: %v", c.Name, typ, err)
			}
			for _, r := range all {
				t.Logf("%-26s %-5s %-12s %9.1f us %8.1f GB/s  compile %.1f ms load %.1f ms regs %v", c.Name, typ, r.Tuning, r.US, r.GBps, r.CompileMS, r.LoadMS, r.Registers)
				if r.Tuning == "" {
					rows = append(rows, r)
				}
			}
		}
	}
	if *rowsTo != "" {
		data, err := json.Marshal(map[string]any{"rows": rows, "read_gbps": readGBps, "copy_gbps": copied[0].GBps, "commit": flag.Lookup("commit").Value.String()})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(*rowsTo, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// timeCase times a case with each of its tunings, over the same inputs.
func timeCase(ctx *cuda.Context, stream *cuda.Stream, c Case) (rows []row, err error) {
	var memory []cuda.Ptr
	var inputs []*Loaded
	defer func() {
		for _, f := range inputs {
			f.Close()
		}
	}()
	for _, in := range c.Args {
		f, err := compile(in.Fill(c.Type), emit.Tuning{})
		if err != nil {
			return nil, err
		}
		x, err := Load(ctx, f, *arch)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, x)
		if err := errors.Join(x.Alloc(), x.Queue(nil)); err != nil {
			return nil, err
		}
		memory = append(memory, x.Memory[f.Results[0]])
	}
	if err := ctx.Synchronize(); err != nil {
		return nil, err
	}
	all := tunings(c)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r, err := timeOne(ctx, stream, c, all[name], memory)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", name, err)
		}
		r.Tuning = name
		rows = append(rows, r)
	}
	return rows, nil
}

// quietest are where to compile: where this process runs anyway, and the two cores that load
// a small module in the least time.
var quietest []int

func quiet(ctx *cuda.Context) []int {
	if quietest != nil {
		return quietest
	}
	took := map[int]time.Duration{}
	const text = ".version 7.8\n.target sm_80\n.address_size 64\n.visible .entry none() { ret; }\n"
	for core := range runtime.NumCPU() {
		need.OnCore(core, func() {
			for range 4 {
				m, err := ctx.Load([]byte(text), cuda.JIT{})
				if err != nil {
					return
				}
				if least, ok := took[core]; !ok || m.Time < least {
					took[core] = m.Time
				}
				m.Close()
			}
		})
		quietest = append(quietest, core)
	}
	slices.SortFunc(quietest, func(a, b int) int { return int(took[a] - took[b]) })
	quietest = append([]int{-1}, quietest[:min(2, len(quietest))]...)
	return quietest
}

func timeOne(ctx *cuda.Context, stream *cuda.Stream, c Case, how emit.Tuning, memory []cuda.Ptr) (r row, err error) {
	r = row{Framework: "tilus", Case: c.Name, Group: c.Group, Dtype: c.Type, Ideal: c.Ideal}
	// The median of some where it is quietest, since what else runs on a core, or beside it, makes
	// all of them there half as slow again; garbage of other cases is none of this one's.
	runtime.GC()
	var p *emit.Program
	var l *Loaded
	for _, core := range quiet(ctx) {
		var compiles, loads []float64
		need.OnCore(core, func() {
			for i := range *compiled + 1 {
				if l != nil {
					l.Close()
				}
				start := time.Now()
				if p, err = compile(c.Text, how); err != nil {
					return
				}
				took := time.Since(start)
				if l, err = load(ctx, p, *arch, cuda.JIT{OptLevel: *level}); err != nil {
					return
				}
				if i > 0 { // the first one warms the core
					compiles = append(compiles, float64(took.Microseconds())/1e3)
					loads = append(loads, float64(l.Time.Microseconds())/1e3)
				}
			}
		})
		if err != nil {
			return r, err
		}
		slices.Sort(compiles)
		slices.Sort(loads)
		a, b := compiles[len(compiles)/2], loads[len(loads)/2]
		if r.LoadMS == 0 || a+b < r.CompileMS+r.LoadMS {
			r.CompileMS, r.LoadMS = a, b
		}
	}
	defer l.Close()
	r.Registers, r.Hash = l.Registers(), subject{programs: []*emit.Program{p}}.hash()
	for i, m := range memory {
		for b := range p.Buffers {
			if p.Buffers[b].Param == i || p.Buffers[b].From == i {
				l.Memory[b] = m
			}
		}
	}
	if err := errors.Join(l.Alloc(), ctx.Synchronize(), l.Queue(nil), ctx.Synchronize()); err != nil {
		return r, err
	}
	for _, b := range p.Results {
		s, err := sample(ctx, l, b)
		if err != nil {
			return r, err
		}
		r.Sample = append(r.Sample, s)
	}
	took, err := l.Measure(stream, *calls, *repeats)
	if err != nil {
		return r, err
	}
	r.US = math.Round(took.Seconds()*1e8) / 100
	r.GBps = math.Round(float64(c.Ideal)/took.Seconds()/1e8) / 10
	return r, nil
}

// sample is every n/64-th element of a buffer.
func sample(ctx *cuda.Context, l *Loaded, buffer int) ([]float64, error) {
	s := l.Program.Buffers[buffer].Shape
	n := s.Elements()
	step := max(1, n/64)
	bytes := s.Type.Bits() / 8
	var out []float64
	data := make([]byte, bytes)
	for k := 0; k < n && len(out) < 64; k += step {
		if err := ctx.CopyOut(data, l.Memory[buffer]+cuda.Ptr(k*bytes)); err != nil {
			return nil, err
		}
		out = append(out, array.FromBytes(s.Type.Elem(), []int{1}, slices.Clone(data)).Floats()[0])
	}
	return out, nil
}
