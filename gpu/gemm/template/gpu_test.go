package template

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o gemm.test ./gpu/gemm/template && " +
	"CUDA_CACHE_DISABLE=1 ./gemm.test -test.run 'GPU|Export' -test.v -record ladder.json -export kernels && " +
	"python3 tests/peers/gemm_peer.py kernels/kernels.json --ladder ladder.json -o gemm.json, and put gemm.json in tests/record"

var (
	recordTo = flag.String("record", "", "write what TestGPULadder measured to this file, one JSON row a step")
	exportTo = flag.String("export", "", "write the kernels that tests/peers/gemm_peer.py times to this folder")
	sweep    = flag.Bool("sweep", false, "export the schedules that defaults are chosen from")
	commit   = flag.String("commit", "", "commit that the test binary was built from")
)

// size of the products that are timed: [size, size]·[size, size].
const size = 4096

func openGPU(t *testing.T) *tune.GPU {
	t.Helper()
	g, err := tune.OpenGPU(0)
	need.GPU(t, err, device.ErrNoGPU, howTo)
	t.Cleanup(func() { g.Close() })
	return g
}

// TestGPUSizes holds every step to exact products of sizes that nothing divides and
// of those that all divides.
func TestGPUSizes(t *testing.T) {
	openGPU(t)
	d, err := device.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, n := range [][3]int{{256, 256, 256}, {1000, 1032, 520}, {517, 333, 251}, {128, 4096, 24}} {
		args, want := product(t, n[0], n[1], n[2])
		for step := range Steps {
			p, err := Matmul(step, Schedule{})
			if err != nil {
				t.Fatal(err)
			}
			res, err := d.Run(t.Context(), p, args)
			if err != nil {
				t.Errorf("step %d, %v: %v", step, n, err)
				continue
			}
			if r := array.Compare(res.Args[2].Array, want); r.Differ > 0 {
				t.Errorf("step %d, %v: %v", step, n, r)
			}
		}
	}
}

// TestGPULadder times the steps on random numbers. All sum in the order of k, so that
// they must give the bits of step 0, of which rows are held to a float64 loop.
func TestGPULadder(t *testing.T) {
	g := openGPU(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args := random(t)
	first, err := Matmul(0, Schedule{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := device.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	res, err := d.Run(ctx, first, args)
	if err != nil {
		t.Fatal(err)
	}
	want := res.Args[2].Array
	if worst := worstOf(args[0].Array, args[1].Array, want, 64); !(worst < 1e-3) {
		t.Fatalf("step 0 differs from a float64 loop by %g of the largest sum", worst)
	}
	origin := tune.Origin(g, *commit)
	var rows []tune.Row
	for step := range Steps {
		p, err := Matmul(step, Schedule{})
		if err != nil {
			t.Fatal(err)
		}
		timing, err := tune.Time(ctx, g, p, args, tune.Options{Want: []*array.Array{nil, nil, want}, Replays: 7})
		if err != nil {
			t.Errorf("step %d: %v", step, err)
		} else {
			t.Logf("%-10s %9.1f µs, %6.1f TFLOP/s, %d registers, %d blocks a SM", p.Name, timing.Median, 2*math.Pow(size, 3)/timing.Median/1e6, timing.Registers, timing.BlocksPerSM)
		}
		rows = append(rows, origin.Row(fmt.Sprintf("%s_%dx%dx%d", p.Name, size, size, size), tune.Hash(p), timing, err))
	}
	if *recordTo != "" {
		if err := tune.WriteRows(*recordTo, rows); err != nil {
			t.Fatal(err)
		}
	}
}

// random are the arguments of the timed product.
func random(t *testing.T) []ir.Arg {
	t.Helper()
	args := make([]ir.Arg, 3, 6)
	var all sync.WaitGroup
	for i, kind := range []string{"rand", "rand", "zeros"} {
		all.Go(func() {
			spec := fmt.Sprintf("%s:f16[%d, %d]", kind, size, size)
			if kind == "rand" {
				spec += fmt.Sprintf(":seed=%d", i+1)
			}
			a, err := array.Generate(spec)
			if err != nil {
				t.Error(err)
			}
			args[i].Array = a
		})
	}
	all.Wait()
	return append(args, ir.Arg{Int: size}, ir.Arg{Int: size}, ir.Arg{Int: size})
}

// worstOf is how far rows of c, n of them, are from a·b, as a part of the largest
// element.
func worstOf(a, b, c *array.Array, n int) float64 {
	k, columns := a.Shape[1], b.Shape[1]
	x, y := a.Floats(), b.Floats()
	worst, largest := make([]float64, n), make([]float64, n)
	var all sync.WaitGroup
	for r := range n {
		all.Go(func() {
			i := r * a.Shape[0] / n
			sums := make([]float64, columns)
			for l := range k {
				for j := range sums {
					sums[j] += x[i*k+l] * y[l*columns+j]
				}
			}
			for j, v := range sums {
				worst[r], largest[r] = max(worst[r], math.Abs(v-c.At(i, j))), max(largest[r], math.Abs(v))
			}
		})
	}
	all.Wait()
	far, most := 0.0, 0.0
	for r := range n {
		far, most = max(far, worst[r]), max(most, largest[r])
	}
	return far / most
}

// kernel is one line of kernels.json, which tests/peers/gemm_peer.py reads.
type kernel struct {
	Name    string    `json:"name"`
	Hash    string    `json:"hash"`
	PTX     string    `json:"ptx"` // file
	Entry   string    `json:"entry"`
	Grid    [3]int    `json:"grid"`
	Threads int       `json:"threads"`
	Shared  int       `json:"shared"` // bytes, dynamic
	M       int       `json:"m"`
	N       int       `json:"n"`
	K       int       `json:"k"`
	Params  []string  `json:"params"`
	Scratch []scratch `json:"scratch,omitempty"` // arrays that begin as zeros
	// Unchecked says that the results mean nothing.
	Unchecked bool `json:"unchecked,omitempty"`
}

// peak is as many matrix instructions as the product takes, on fragments that never
// change: what the matrix unit gives without any loads. Its results mean nothing.
const peak = `program mma_sync_peak<M/128*(N/128)>(a: *f16, b: *f16, c: *f16, M: i32, N: i32, K: i32) warps=4 {
	block = BlockIndices()
	ga = ViewGlobal(a) : global f16[M, K]
	gb = ViewGlobal(b) : global f16[K, N]
	gc = ViewGlobal(c) : global f16[M, N]
	bi = block % (M/128)
	bj = block/(M/128)
	ra = LoadGlobal(ga, offset=[bi*128, 0]) : register f16[128, 16] spatial(2, 1).replicated(4, 2, num_workers=2).local(2, 1).spatial(8, 4).local(1, 2)
	rb = LoadGlobal(gb, offset=[0, bj*128]) : register f16[16, 128] replicated(1, 1, num_workers=2).spatial(1, 2).column_local(2, 8).column_spatial(4, 8).local(2, 1)
	acc = AllocateRegister(init=0) : register f32[128, 128] spatial(2, 2).local(4, 8).local(2, 1).spatial(8, 4).local(1, 2)
	for k in 0..K/16 unroll=4 {
		acc = Dot(ra, rb, acc) : register f32[128, 128] spatial(2, 2).local(4, 8).local(2, 1).spatial(8, 4).local(1, 2)
	}
	half = Cast(acc) : register f16[128, 128] spatial(2, 2).local(4, 8).local(2, 1).spatial(8, 4).local(1, 2)
	StoreGlobal(gc, half, offset=[bi*128, bj*128])
}
`

// exported are steps with schedules, and the rows of the product, size where 0.
type exported struct {
	step int
	s    Schedule
	m    int
}

// schedules are what TestExport writes: the defaults, or many of steps 2 to 5.
func schedules() []exported {
	var out []exported
	if !*sweep {
		for step := range Steps {
			out = append(out, exported{step: step})
		}
		// Few tiles: with k shared by 4 blocks there is work for 128 SMs.
		return append(out, exported{5, Schedule{}, 256}, exported{5, Schedule{Splits: 4}, 256})
	}
	for _, tile := range [][4]int{{128, 128, 2, 2}, {256, 128, 4, 2}, {128, 256, 2, 4}} {
		for _, k := range []int{32, 64} {
			s := Schedule{M: tile[0], N: tile[1], K: k, WarpsM: tile[2], WarpsN: tile[3]}
			out = append(out, exported{step: 2, s: s}, exported{step: 3, s: s})
			for s.Stages = 3; s.Stages <= 5; s.Stages++ {
				s.Group = 0
				out = append(out, exported{step: 4, s: s})
				for _, s.Group = range []int{4, 8} {
					out = append(out, exported{step: 5, s: s})
				}
			}
		}
	}
	return out
}

// TestExport writes the kernels for the peer script; without -export it only makes
// them.
func TestExport(t *testing.T) {
	var list []kernel
	for _, e := range schedules() {
		p, err := Matmul(e.step, e.s)
		if err != nil && *sweep {
			continue // too large
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.m == 0 {
			e.m = size
		}
		k, ptx := export(t, p, e.m)
		if e.m != size {
			k.PTX = fmt.Sprintf("%d_%s", e.m, k.PTX)
		}
		if tiles := (e.m + 127) / 128 * (size / 256); e.s.Splits > 1 {
			k.Scratch = []scratch{{"part", e.s.Splits * e.m * size * 4}, {"arrived", tiles * 4}}
		}
		if *sweep {
			k.Name = fmt.Sprintf("%s %dx%dx%d, %dx%d warps, %d stages, groups of %d", p.Name, e.s.M, e.s.N, e.s.K, e.s.WarpsM, e.s.WarpsN, e.s.Stages, e.s.Group)
			k.PTX = fmt.Sprintf("%d.ptx", len(list))
		}
		list = append(list, k)
		if *exportTo == "" {
			continue
		}
		if err := os.MkdirAll(*exportTo, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*exportTo, k.PTX), []byte(ptx), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	p, err := text.Parse("peak.tile", peak, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, ptx := export(t, p, size)
	k.Unchecked = true
	list = append(list, k)
	data, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if *exportTo != "" {
		if err := os.WriteFile(filepath.Join(*exportTo, k.PTX), []byte(ptx), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(*exportTo, "kernels.json"), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

type scratch struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

func export(t *testing.T, p *ir.Program, m int) (kernel, string) {
	t.Helper()
	var args []ir.Arg
	for _, v := range p.Params {
		switch {
		case v.Name == "M":
			args = append(args, ir.Arg{Int: int64(m)})
		case v.Type.Kind == ir.Scalar:
			args = append(args, ir.Arg{Int: size})
		default: // large enough
			args = append(args, ir.Arg{Array: array.New(v.Type.Elem, size, size)})
		}
	}
	c, err := compile.Program(p, compile.Options{Divisible: compile.Divisors(p, args)})
	if err != nil {
		t.Fatal(err)
	}
	ptx, err := c.PTX()
	if err != nil {
		t.Fatal(err)
	}
	grid, err := interp.CheckArgs(p, args)
	if err != nil {
		t.Fatal(err)
	}
	k := kernel{Name: p.Name, Hash: tune.Hash(p), PTX: p.Name + ".ptx", Entry: c.Func.Name, Grid: grid, Threads: p.Threads(), Shared: c.Func.Launch.SharedBytes, M: m, N: size, K: size}
	for _, v := range p.Params {
		k.Params = append(k.Params, v.Name)
	}
	return k, ptx
}
