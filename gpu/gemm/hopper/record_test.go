package hopper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/layoutviz/timeline"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// recorded is what tests/peers/hopper_peer.py wrote on a GPU.
type recorded struct {
	Origin struct {
		GPU     string `json:"gpu"`
		Torch   string `json:"torch"`
		Rounds  int    `json:"rounds"`
		Commit  string `json:"commit"`
		Written string `json:"utc"`
	} `json:"origin"`
	Rows []measured `json:"rows"`
}

type measured struct {
	tune.Row
	Size       int       `json:"size"`
	TFLOPs     float64   `json:"tflops"`
	CublasUs   float64   `json:"cublas_us"`
	OfCublas   float64   `json:"of_cublas"`
	RoundsUs   []float64 `json:"rounds_us"`
	RoundsPeer []float64 `json:"rounds_cublas_us"`
	PtxasMs    float64   `json:"ptxas_ms"`
	Spills     *int      `json:"spill_bytes"`
	Serialised *int      `json:"serialised"`
}

// needed is the least share of cuBLAS's speed that a rung must have.
var needed = map[string]float64{"v5 f16": 0.97, "v5 bf16": 0.97, "v5 f8e4m3": 0.95}

// TestRecord holds what was measured: right sums, no spills, no products that wait for
// each other, cuBLAS's speed at the top, little time to compile. It says which rows no
// longer hold for the program as it is now; those wait for a GPU. With -update it draws
// the ladder.
func TestRecord(t *testing.T) {
	const howToRecord = "tests/peers/hopper_peer.py says how"
	root := need.Root(t)
	data, err := os.ReadFile(filepath.Join(root, "tests", "record", "hopper.json"))
	if err != nil {
		t.Fatalf("%v; %s", err, howToRecord)
	}
	var r recorded
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	rows := map[string]measured{}
	for _, row := range r.Rows {
		rows[row.Name] = row
	}
	for _, g := range rungs() {
		row, ok := rows[g.Name]
		if !ok {
			t.Errorf("%s is not in the record; %s", g.Name, howToRecord)
			continue
		}
		p, err := Matmul(g.Step, g.S)
		if err != nil {
			t.Fatal(err)
		}
		if tune.Hash(p) != row.Hash {
			t.Logf("%s is stale: it was measured with another text", g.Name)
		}
		if row.What != "ladder" || row.Result != "close" || row.RelError > 1e-2 || row.Commit == "" || row.Binary == "" || row.Written == "" || row.CublasUs <= 0 || len(row.RoundsUs) != len(row.RoundsPeer) || len(row.RoundsUs) < 2 {
			t.Errorf("%s is wrong or incomplete: %+v", g.Name, row)
		}
		if rate := tflops(row.Size, row.MedianUs); row.Size != 8192 || rate < 0.999*row.TFLOPs || rate > 1.001*row.TFLOPs {
			t.Errorf("%s: %v TFLOP/s of size %d, not %v", g.Name, row.TFLOPs, row.Size, rate)
		}
		if row.OfCublas < needed[g.Name] {
			t.Errorf("%s: %.3f of cuBLAS, %.2f is needed", g.Name, row.OfCublas, needed[g.Name])
		}
		if row.Local != 0 || row.Spills == nil || *row.Spills != 0 || row.Serialised == nil || *row.Serialised != 0 {
			t.Errorf("%s: spills or waits: %+v", g.Name, row)
		}
		// The driver's share is held beside ptxas on one core by tests/hopper.
		if row.CompileMs > 15 {
			t.Errorf("%s: %.1f ms from text to PTX; there may be 15", g.Name, row.CompileMs)
		}
	}
	figures(t, root, r, rows)
}

// figures holds the drawn ladder, LADDER.md and ladder.svg, to the record.
func figures(t *testing.T, root string, r recorded, rows map[string]measured) {
	var bars []timeline.Rung
	var page strings.Builder
	fmt.Fprintf(&page, "# The ladder of Hopper products\n\nWritten by `go test ./gpu/gemm/hopper -run Record -update` from `tests/record/hopper.json`; do not edit.\n\n![Rates of the steps and their share of cuBLAS](ladder.svg)\n\n")
	fmt.Fprintf(&page, "| step | it adds | µs | TFLOP/s | of cuBLAS | registers | text to PTX, ms | driver's JIT, ms | ptxas, ms |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, g := range rungs() {
		row, ok := rows[g.Name]
		if !ok {
			return
		}
		adds := Steps[g.Step]
		if !strings.HasSuffix(g.Name, " f16") {
			adds = "the same in " + strings.Fields(g.Name)[1]
		}
		bars = append(bars, timeline.Rung{Name: g.Name, Adds: adds, Rate: row.TFLOPs, Ratio: row.OfCublas})
		fmt.Fprintf(&page, "| %s | %s | %.0f | %.0f | %.1f %% | %d | %.1f | %.0f | %.0f |\n", g.Name, adds, row.MedianUs, row.TFLOPs, 100*row.OfCublas, row.Registers, row.CompileMs, row.JITMs, row.PtxasMs)
	}
	page.WriteString(lost(t, root))
	desc := fmt.Sprintf("[8192, 8192]·[8192, 8192] on %s, medians of %d rounds in which torch %s and the steps were timed in turns, %s.", r.Origin.GPU, r.Origin.Rounds, r.Origin.Torch, r.Origin.Written[:10])
	pic, err := timeline.Ladder(bars, "TFLOP/s", "cuBLAS", "Hopper products, step by step", desc, layoutviz.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"ladder.svg": pic.SVG, "LADDER.md": []byte(page.String())} {
		path := filepath.Join(root, "gpu", "gemm", "hopper", name)
		if *update {
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, data) {
			t.Errorf("%s does not show the record (%v); go test ./gpu/gemm/hopper -run Record -update draws it", name, err)
		}
	}
}

// counters is what tests/peers/hopper_ncu.py read from the GPU's counters in one launch.
type counters struct {
	Name    string  `json:"name"`
	GHz     float64 `json:"ghz"`
	Us      float64 `json:"us"`
	Elapsed float64 `json:"elapsed_cycles"`
	Active  float64 `json:"active_cycles"` // of a multiprocessor, on average
	Compute float64 `json:"compute_pct"`   // of the busiest unit, the tensor cores
	Issue   float64 `json:"issue_pct"`
	DRAM    float64 `json:"dram_pct"`
	L2      float64 `json:"l2_pct"`
	Spills  float64 `json:"spill_requests"`
	// Of attention, while multiprocessors are at work: tensor cores, and what computes exponentials.
	Tensor    float64 `json:"tensor_pct"`
	Functions float64 `json:"functions_pct"`
}

// lost says what the steps lose, by the GPU's counters.
func lost(t *testing.T, root string) string {
	data, err := os.ReadFile(filepath.Join(root, "tests", "record", "hopper_ncu.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r struct{ Rows []counters }
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	var b, attention strings.Builder
	b.WriteString("\n## What is lost\n\nOne launch each, read by ncu with the clocks as the machine leaves them (`tests/record/hopper_ncu.json`, written by\n`tests/peers/hopper_ncu.py`). The peak is what 132 multiprocessors can multiply at the clock of that launch, 4,096 operations of f16 a cycle each:\nmultiplying takes power, and power takes clock. No program spills.\n\n")
	b.WriteString("| step | clock, GHz | peak, TFLOP/s | tensor cores busy | multiprocessors at work | L2 busy | memory busy | issue slots busy |\n|---|---|---|---|---|---|---|---|\n")
	var top counters
	for _, x := range r.Rows {
		if x.Spills != 0 || x.Elapsed == 0 {
			t.Errorf("%s: %+v", x.Name, x)
		}
		line := fmt.Sprintf("| %s | %.2f | %.0f | %.1f %% | %.1f %% | %.0f %% | %.0f %% | %.0f %% |\n", x.Name, x.GHz, x.GHz*132*4.096, x.Compute, 100*x.Active/x.Elapsed, x.L2, x.DRAM, x.Issue)
		if head, ok := strings.CutPrefix(x.Name, "attention "); ok {
			fmt.Fprintf(&attention, "| %s | %.2f | %.0f | %.1f %% | %.1f %% | %.0f %% | %.0f %% | %.0f %% |\n", head, x.GHz, x.GHz*132*4.096, x.Tensor, x.Functions, x.Issue, x.L2, x.DRAM)
			continue
		}
		b.WriteString(line)
		if x.Name == "v5 f16" {
			top = x
		}
	}
	idle := 100 - 100*top.Active/top.Elapsed
	fmt.Fprintf(&b, "\nOf v5's launch tensor cores are busy %.1f %%. For %.1f %% a multiprocessor has nothing to do: it waits for the first tiles, or for the others behind its\nlast one, since 2,048 tiles are 15.5 for each of 132. What remains, %.1f %%, passes between products: a turn's wait for copies, and the barrier at\nwhich the two groups that multiply meet. Steps before it lose more to the L2 cache, which is busy bringing tiles that blocks of one cluster or\nof neighbouring tiles could share; v5 walks tiles in groups, and asks memory for least.\n", top.Compute, idle, 100-idle-top.Compute)
	fmt.Fprintf(&b, "\n## What attention loses\n\nForward, not causal, [4, 32, 4096, 64] and [4, 16, 4096, 128] (`gpu/attention/template`):\n\n| heads of | clock, GHz | peak, TFLOP/s | tensor cores busy | exponentials busy | issue slots busy | L2 busy | memory busy |\n|---|---|---|---|---|---|---|---|\n%s", attention.String())
	b.WriteString("\nEach score costs an exponential, whatever the head: with heads of 64 elements the units that compute them are busy as long as the tensor cores.\nNeither is full, since a group's maxima, sums and conversions stand between its products and its exponentials, and three groups overlap\nthem only in part. With heads of 128 there are two products of twice the size for each exponential, and tensor cores lead. Memory and the L2 cache wait.\n")
	return b.String()
}
