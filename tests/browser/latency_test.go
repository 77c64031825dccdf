package browser

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

var (
	recordLatency = flag.Bool("record", false, "measure the explorer at length and write tests/record/explorer_latency.json; on a quiet machine")
	commit        = flag.String("commit", "", "commit that is measured, for -record")
)

// measured is one thing that a person waits for, in milliseconds.
type measured struct {
	Name  string    `json:"name"`
	Limit float64   `json:"limit_ms"` // of the 95th of 100
	Ms    []float64 `json:"ms,omitempty"`
	N     int       `json:"n"`
	P50   float64   `json:"p50_ms"`
	P95   float64   `json:"p95_ms"`
	Most  float64   `json:"max_ms"`
}

// TestLatency measures from a keystroke, and from the pointer, to the picture. Without
// -record it takes few samples and asks of their median four times the limit only: it
// runs beside other tests.
func TestLatency(t *testing.T) {
	f := find(t)
	samples := 5
	if *recordLatency {
		samples = 60
	}
	need.Program(t) // linked before the clock runs
	// From the start of the process to the address, each time as for somebody new.
	ups := measured{Name: "start of the process to the address", Limit: 1000}
	var address string
	for range min(samples, 10) {
		h := newHome(t)
		begin := time.Now()
		address = h.up(t)
		ups.Ms = append(ups.Ms, float64(time.Since(begin).Microseconds())/1000)
	}
	out, err := f.run(t, 10*time.Minute, "latency.mjs", address, fmt.Sprint(samples))
	if err != nil {
		t.Fatalf("latency.mjs: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var rows []measured
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &rows); err != nil {
		t.Fatalf("latency.mjs printed %s: %v", out, err)
	}
	rows = append(rows, ups)
	for i := range rows {
		r := &rows[i]
		slices.Sort(r.Ms)
		r.N = len(r.Ms)
		at := func(percent int) float64 { return float64(int(10*r.Ms[min(r.N-1, r.N*percent/100)])) / 10 }
		r.P50, r.P95, r.Most = at(50), at(95), at(100)
		t.Logf("%-42s median %6.1f, 95 of 100 %6.1f, most %6.1f of %d; limit %g ms", r.Name, r.P50, r.P95, r.Most, r.N, r.Limit)
		switch {
		case *recordLatency && r.P95 > r.Limit:
			t.Errorf("%s: 95 of 100 take up to %.0f ms; the limit is %g ms", r.Name, r.P95, r.Limit)
		case r.P50 > 4*r.Limit:
			t.Errorf("%s: half take more than %.0f ms; the limit is %g ms", r.Name, r.P50, r.Limit)
		}
		r.Ms = nil
	}
	if !*recordLatency {
		return
	}
	if *commit == "" {
		t.Fatal("-record needs -commit")
	}
	raw, err := json.MarshalIndent(map[string]any{
		"machine": fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU()),
		"browser": "Chromium, headless", "commit": *commit, "utc": time.Now().UTC().Format(time.RFC3339),
		"rows": rows,
	}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(need.Root(t), "tests", "record", "explorer_latency.json"), append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
