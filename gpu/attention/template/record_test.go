package template

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/tests/need"
)

// TestHopperRecord holds what was measured beside torch's scaled_dot_product_attention
// in the same run: heads of 64 and 128 elements, causal and not, 2k to 16k long.
func TestHopperRecord(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(need.Root(t), "tests", "record", "attention_hopper.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Kernel  string `json:"kernel"`
		Shape   []int  `json:"shape"`
		Options HopperOptions
		Ours    float64 `json:"ours_us"`
		Peer    string  `json:"peer"`
		PeerUs  float64 `json:"peer_us"`
		Ratio   float64 `json:"ratio"`
		Hash    string  `json:"hash"`
		Commit  string  `json:"commit"`
		GPU     string  `json:"gpu"`
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	const least = 0.9
	seen := map[string]bool{}
	for _, r := range rows {
		name := fmt.Sprintf("%s %v", r.Kernel, r.Shape)
		if len(r.Shape) != 5 {
			t.Fatalf("%s: %+v", name, r)
		}
		seen[fmt.Sprintf("%s %d", r.Kernel, r.Shape[2])] = true
		if got := r.PeerUs / r.Ours; r.Ratio < least || got < 0.999*r.Ratio || got > 1.001*r.Ratio || !strings.Contains(r.Peer, "scaled_dot_product_attention") || r.Commit == "" || !strings.Contains(r.GPU, "H200") {
			t.Errorf("%s: %+v", name, r)
		}
		p, err := FlashHopper(r.Options)
		if err != nil {
			t.Fatal(err)
		}
		if tune.Hash(p) != r.Hash {
			t.Logf("%s is stale: it was measured with another text", name)
		}
	}
	for _, head := range []int{64, 128} {
		for _, seq := range []int{2048, 4096, 8192, 16384} {
			for _, causal := range []string{"", "_causal"} {
				if name := fmt.Sprintf("flash_hopper_%d%s %d", head, causal, seq); !seen[name] {
					t.Errorf("%s is not in the record; %s", name, howTo)
				}
			}
		}
	}
}
