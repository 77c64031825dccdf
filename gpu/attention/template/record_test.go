package template

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestRecord holds what was measured beside torch: every row complete, attention and
// rows at least about as fast as torch's fastest. It says which rows no longer hold for
// the program as it is now; stale rows are no failure, they wait for a GPU.
func TestRecord(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(need.Root(t), "tests", "record", "attention.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Kernel  string          `json:"kernel"`
		Options json.RawMessage `json:"options"`
		Ours    float64         `json:"ours_us"`
		Peer    string          `json:"peer"`
		Ratio   float64         `json:"ratio"`
		Hash    string          `json:"hash"`
		Commit  string          `json:"commit"`
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	stale := 0
	for _, r := range rows {
		var p *ir.Program
		var err error
		kind, _, _ := strings.Cut(r.Kernel, "_")
		kinds[kind]++
		switch kind {
		case "flash":
			p, err = remake(r.Options, Flash)
		case "decode":
			p, err = remake(r.Options, Decode)
		case "softmax":
			p, err = remake(r.Options, Softmax)
		case "layer":
			p, err = remake(r.Options, LayerNorm)
		default:
			t.Errorf("%s is no kernel of ours", r.Kernel)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", r.Kernel, err)
			continue
		}
		if tune.Hash(p) != r.Hash {
			stale++
			t.Logf("%s %s is stale: it was measured with another text", r.Kernel, r.Options)
		}
		if r.Ours <= 0 || !strings.HasPrefix(r.Peer, "torch") || r.Commit == "" || r.Ratio < 0.95 {
			t.Errorf("%s is incomplete or slow: %+v", r.Kernel, r)
		}
	}
	if len(kinds) != 4 {
		t.Errorf("only %v are measured", kinds)
	}
	t.Logf("%d rows, %d stale", len(rows), stale)
}

// remake is the program of options as they were recorded.
func remake[O any](data []byte, make func(O) (*ir.Program, error)) (*ir.Program, error) {
	var o O
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	return make(o)
}
