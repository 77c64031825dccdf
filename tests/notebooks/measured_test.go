package notebooks

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tilus-lab/tilus-lab/kernel/lab"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// ladder is what each step of the ladder of products adds, in few words.
var ladder = []struct{ record, name, adds string }{
	{"matmul_v0", "v0", "fragments straight from global memory"},
	{"matmul_v1", "v1", "tiles in shared memory"},
	{"matmul_v2", "v2", "larger tiles"},
	{"matmul_v3", "v3", "copies past the registers, swizzle, ldmatrix"},
	{"matmul_v4", "v4", "stages: copies ahead"},
	{"matmul_v5", "v5", "fragments ahead, blocks in an order that shares the cache"},
	{"mma_sync_peak", "mma only", "nothing but the matrix instruction, on registers"},
}

// TestMeasuredIsTheRecord holds that the numbers that lesson 10 shows are those of the
// record; -update takes them over.
func TestMeasuredIsTheRecord(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(need.Root(t), "tests", "record", "gemm.json"))
	if err != nil {
		t.Fatal(err)
	}
	var record struct {
		Origin struct{ GPU, Commit string }
		Rows   []struct {
			Name    string
			M, N, K int
			TFLOPs  float64
		}
	}
	if err := json.Unmarshal(data, &record); err != nil {
		t.Fatal(err)
	}
	rate := func(name string) float64 {
		for _, r := range record.Rows {
			if r.Name == name && r.M == 4096 && r.N == 4096 && r.K == 4096 {
				return math.Round(10*r.TFLOPs) / 10
			}
		}
		t.Fatalf("gemm.json has no %s", name)
		return 0
	}
	want := &lab.Measured{What: "f16 product, 4096 × 4096 × 4096", GPU: record.Origin.GPU, Commit: record.Origin.Commit, Unit: "TFLOP/s", Peer: "cuBLAS", Rate: rate("cublas")}
	for _, step := range ladder {
		want.Rows = append(want.Rows, lab.MeasuredRow{Name: step.name, Adds: step.adds, Rate: rate(step.record)})
	}
	path := filepath.Join(need.Root(t), "notebooks", "data", "matmul-h200.json")
	if *update {
		out, err := json.MarshalIndent(want, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(out, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := lab.ReadMeasured(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("matmul-h200.json is not the record (go test ./tests/notebooks -run Measured -update, then Jupyter/10):\n%s", diff)
	}
}
