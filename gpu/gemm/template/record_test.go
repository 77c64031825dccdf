package template

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// recorded is what tests/peers/gemm_peer.py wrote on a GPU.
type recorded struct {
	Origin struct {
		GPU    string `json:"gpu"`
		Commit string `json:"commit"`
	} `json:"origin"`
	Rows []struct {
		Name     string         `json:"name"`
		Hash     string         `json:"hash"`
		Result   string         `json:"result"`
		M        int            `json:"m"`
		TFLOPs   float64        `json:"tflops"`
		OfCublas float64        `json:"of_cublas"`
		OfTriton float64        `json:"of_triton_mma_sync"`
		Local    int            `json:"local_bytes"`
		Machine  map[string]any `json:"machine"`
	} `json:"rows"`
	Ladder []tune.Row `json:"ladder"`
}

// TestRecord holds what was measured: right results, no wgmma in ours, and step 5 at
// least as fast as Triton with the same instructions. It says which rows no longer
// hold for the program as it is now; stale rows are no failure, they wait for a GPU.
func TestRecord(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(need.Root(t), "tests", "record", "gemm.json"))
	if err != nil {
		t.Fatalf("%v; %s", err, howTo)
	}
	rationale, err := os.ReadFile(filepath.Join(need.Root(t), "RATIONALE.md"))
	if err != nil {
		t.Fatal(err)
	}
	var r recorded
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	now := map[string]string{}
	for step := range Steps {
		p, err := Matmul(step, Schedule{})
		if err != nil {
			t.Fatal(err)
		}
		now[p.Name] = tune.Hash(p)
	}
	seen := map[string]bool{}
	for _, row := range r.Rows {
		hash, ours := now[row.Name]
		if !ours || row.M != size {
			continue
		}
		seen[row.Name] = true
		if hash != row.Hash {
			t.Logf("%s is stale: it was measured with another text", row.Name)
		}
		if row.Result != "close" || row.TFLOPs <= 0 || row.OfCublas <= 0 || row.OfTriton <= 0 || row.Local > 0 {
			t.Errorf("%s is wrong or incomplete: %+v", row.Name, row)
		}
		if n, ok := row.Machine["HGMMA"]; ok && n != 0.0 {
			t.Errorf("%s has %v wgmma instructions", row.Name, n)
		}
		step := strings.TrimPrefix(row.Name, "matmul_")
		if line := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %s \| .* \| %.0f \| %.2f \|$`, step, row.TFLOPs, row.OfCublas)); !line.Match(rationale) {
			t.Errorf("RATIONALE.md's table has another row of %s than %.0f TFLOP/s, %.2f of cuBLAS", step, row.TFLOPs, row.OfCublas)
		}
		if row.Name == "matmul_v5" && row.OfTriton < 1 {
			t.Errorf("%s is at %.3f of Triton with mma.sync", row.Name, row.OfTriton)
		}
	}
	for name := range now {
		if !seen[name] {
			t.Errorf("%s is not in the record", name)
		}
	}
	for _, row := range r.Ladder {
		if !row.Complete() || row.Result != "equal" {
			t.Errorf("%s is wrong or incomplete: %+v", row.Name, row)
		}
	}
}
