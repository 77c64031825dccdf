package parallel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/tests/record"
	"github.com/tilus-lab/tilus-lab/vm/array"
)

const howTo = "on a machine with several GPUs: CGO_ENABLED=0 go test -c -o parallel.test ./gpu/qmm/parallel && TILUS_LAB_NCCL=/path/to/libnccl.so.2 ./parallel.test -test.run GPU -test.v -record parallel.json -commit COMMIT, and put parallel.json in tests/record"

var recorder = record.Flags()

func generate(t testing.TB, format string, args ...any) *array.Array {
	t.Helper()
	a, err := array.Generate(fmt.Sprintf(format, args...))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func weights(t testing.TB, n, k, group int) Weights {
	return Weights{W: generate(t, "randcode:u8[%d, %d, %d]:seed=1", n/16, k/group, 8*group),
		Scales: generate(t, "pow2:f16[%d, %d]:seed=2:lo=-6:hi=-5", k/group, n), N: n, K: k, Group: group}
}

// TestSplit: the parts of any number of ranks make the whole product, where sums are
// exact.
func TestSplit(t *testing.T) {
	w := weights(t, 32, 512, 64)
	x := generate(t, "randint:f16[2, 512]:lo=0:hi=2:seed=3")
	whole, err := Reference(context.Background(), w, x, 1)
	if err != nil {
		t.Fatal(err)
	}
	if whole.At(0, 0) == 0 && whole.At(1, 31) == 0 {
		t.Error("the product is zero")
	}
	for _, n := range []int{2, 4, 8} {
		got, err := Reference(context.Background(), w, x, n)
		if err != nil {
			t.Fatal(err)
		}
		if r := array.Compare(got, whole); r.MaxRel > 4e-3 {
			t.Errorf("%d ranks: %+v", n, r)
		}
	}
	for _, n := range []int{0, 3, 16} {
		if _, err := w.Split(n); err == nil {
			t.Errorf("%d ranks split 8 groups", n)
		}
	}
	if _, err := New(w, 9, []int{0}); err == nil {
		t.Error("9 rows fit")
	}
}

// row is one line of tests/record/parallel.json.
type row struct {
	record.Row
	Ranks  int     `json:"ranks"`
	Micros float64 `json:"us"` // one product with its sum
	NCCL   int     `json:"nccl"`
}

// layers are what TestGPUs spreads: small with sizes of no particular kind, and two
// of Llama-3.3-70B.
var layers = []struct {
	name    string
	n, k, m int
}{{"small", 64, 1024, 3}, {"gate_up", 57344, 8192, 1}, {"down", 8192, 28672, 1}}

func hash(n, k, m int) string { return fmt.Sprintf("n=%d k=%d m=%d", n, k, m) }

// TestRecord reads what two GPUs proved.
func TestRecord(t *testing.T) {
	now := map[string]string{}
	for _, l := range layers {
		for _, ranks := range []int{1, 2} {
			now[fmt.Sprintf("%s on %d", l.name, ranks)] = hash(l.n, l.k, l.m)
		}
	}
	maps.Copy(now, exchanges(2))
	stale, proved, problems := record.Check(record.Read[row](t, "parallel.json"), "parallel", now, howTo)
	for _, err := range problems {
		t.Error(err)
	}
	t.Logf("%d proved, stale: %v", len(proved), stale)
}

// TestGPUs spreads layers over as many GPUs as there are and holds the result
// against the interpreter's, and exchanges data between them in every way that there is.
func TestGPUs(t *testing.T) {
	driver, err := cuda.Open()
	if errors.Is(err, cuda.ErrNoDriver) {
		t.Skipf("%v; %s", err, howTo)
	}
	if err != nil {
		t.Fatal(err)
	}
	count, err := driver.DeviceCount()
	if err != nil || count == 0 {
		t.Skipf("no GPU: %v; %s", err, howTo)
	}
	nccl, err := cuda.OpenNCCL()
	if err != nil {
		t.Skipf("%v; %s", err, howTo)
	}
	info, err := driver.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	stamp, err := recorder.Stamp("parallel")
	if err != nil {
		t.Fatal(err)
	}
	major, minor := driver.Version()
	stamp.GPU, stamp.Driver, stamp.Target = info.Name, fmt.Sprintf("CUDA %d.%d", major, minor), info.Arch()
	ctx := context.Background()
	var proved []row
	for _, layer := range layers {
		w := weights(t, layer.n, layer.k, 128)
		x := generate(t, "randint:f16[%d, %d]:seed=3", layer.m, layer.k)
		for ranks := 1; ranks <= count; ranks *= 2 {
			gpus := make([]int, ranks)
			for i := range gpus {
				gpus[i] = i
			}
			l, err := New(w, layer.m, gpus)
			if err != nil {
				t.Fatal(err)
			}
			got, err := l.Run(ctx, x)
			if err != nil {
				t.Fatal(err)
			}
			// The interpreter takes minutes for the large layers; their first outputs stand for all.
			check := w
			if layer.n > 1024 {
				check = Weights{W: rows(w.W, 0, 2), Scales: columns(w.Scales, 0, 32), N: 32, K: w.K, Group: w.Group}
			}
			want, err := Reference(ctx, check, x, ranks)
			if err != nil {
				t.Fatal(err)
			}
			r := row{Row: stamp, Ranks: ranks, NCCL: nccl.Version}
			r.Name, r.Hash, r.Result = fmt.Sprintf("%s on %d", layer.name, ranks), hash(layer.n, layer.k, layer.m), "equal"
			for i := range layer.m {
				for j := range check.N {
					r.Of++
					if g, v := got.At(i, j), want.At(i, j); g != v && (ranks <= 2 || g-v > 0.01*v || v-g > 0.01*v) {
						r.Differ++
					}
				}
			}
			if r.Differ > 0 {
				r.Result = "differ"
				t.Errorf("%s: %d of %d differ", r.Name, r.Differ, r.Of)
			}
			if _, err := l.Time(ctx, 20); err != nil {
				t.Fatal(err)
			}
			took, err := l.Time(ctx, 200)
			if err != nil {
				t.Fatal(err)
			}
			r.Micros = float64(took.Nanoseconds()) / 1000
			t.Logf("%-16s %s, %.1f µs", r.Name, r.Result, r.Micros)
			proved = append(proved, r)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	tell := func(name string, differ, of int, took time.Duration) {
		r := row{Row: stamp, Ranks: count, NCCL: nccl.Version, Micros: float64(took.Nanoseconds()) / 1000}
		r.Name, r.Hash, r.Result, r.Differ, r.Of = name, fmt.Sprint("n=", elements), "equal", differ, of
		if differ > 0 {
			r.Result = "differ"
			t.Errorf("%s: %d of %d differ", name, differ, of)
		}
		t.Logf("%-24s %s, %.1f µs", name, r.Result, r.Micros)
		proved = append(proved, r)
	}
	collectives(t, driver, nccl, count, tell)
	queues(t, count, tell)
	if err := recorder.Write(proved); err != nil {
		t.Fatal(err)
	}
}
