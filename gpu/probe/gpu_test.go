package probe

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/device"
)

var (
	recordTo = flag.String("record", "", "write what the GPU proved to this file")
	commit   = flag.String("commit", "", "commit that the test binary was built from")
)

// record is one line of tests/record/rows.json.
type record struct {
	What    string   `json:"what"` // "row"
	Name    string   `json:"name"`
	Hash    string   `json:"hash"` // of the row's types, templates and documentation
	Result  string   `json:"result"`
	Differ  int      `json:"differ"`         // results that are not as the meaning says
	NaNs    int      `json:"nans,omitempty"` // NaN as the meaning says, but of another code
	Of      int      `json:"of"`
	Cases   int      `json:"cases"`
	First   []string `json:"first,omitempty"` // differences
	Notes   []string `json:"notes,omitempty"` // measurements
	Ms      float64  `json:"ms"`              // compiling, copying, running
	GPU     string   `json:"gpu"`
	Driver  string   `json:"driver"`
	Target  string   `json:"target"`
	Commit  string   `json:"commit"`
	Binary  string   `json:"binary_sha256"`
	Written string   `json:"utc"`
}

const recordFile = "../../tests/record/rows.json"

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o probe.test ./gpu/probe && ./probe.test -test.run GPU -test.v -record rows.json, and put rows.json in tests/record"

// TestGPURows runs every row of the thread-code table on the attached GPU and
// compares bit for bit with its meaning.
func TestGPURows(t *testing.T) {
	gpu, err := OpenGPU()
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; %s", err, howTo)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	binary := ""
	if exe, err := os.Executable(); err == nil {
		if data, err := os.ReadFile(exe); err == nil {
			binary = fmt.Sprintf("%x", sha256.Sum256(data))
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok && *commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				*commit = s.Value
			}
		}
	}
	rows, err := Run(context.Background(), gpu, Options{Cross: 1 << 18, Random: 1 << 16, Undefined: true})
	if err != nil {
		t.Fatal(err)
	}
	var out []record
	for _, r := range rows {
		x := record{What: "row", Name: r.Name, Hash: r.Hash, Result: "equal", Differ: r.Differ, NaNs: r.NaNs, Of: r.Tried, Cases: r.Cases, First: r.First, Notes: r.Notes, Ms: r.Ms,
			GPU: gpu.Title, Driver: gpu.Driver, Target: gpu.Target, Commit: *commit, Binary: binary, Written: time.Now().UTC().Format(time.RFC3339)}
		switch {
		case r.Failed > 0:
			x.Result = "failed"
			t.Errorf("%s: %d of %d functions failed\n\t%s", r.Name, r.Failed, r.Cases, strings.Join(r.First, "\n\t"))
		case !r.Equal():
			x.Result = "differ"
			t.Errorf("%s: %d of %d differ\n\t%s", r.Name, r.Differ, r.Tried, strings.Join(r.First, "\n\t"))
		case r.NaNs > 0:
			x.Result = "equal but for the codes of NaNs"
			fallthrough
		default:
			t.Logf("%-24s %9d equal, %3d functions, %.0f ms", r.Name, r.Tried, r.Cases, r.Ms)
		}
		for _, n := range r.Notes {
			t.Logf("%s: %s", r.Name, n)
		}
		out = append(out, x)
	}
	if *recordTo == "" {
		return
	}
	data, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*recordTo, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRecord reads what GPU runs proved and says which rows no longer hold for
// the table as it is now. Stale rows are no failure: they wait for a GPU.
func TestRecord(t *testing.T) {
	data, err := os.ReadFile(recordFile)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no row is proved on a GPU yet; %s", howTo)
	}
	if err != nil {
		t.Fatal(err)
	}
	var rows []record
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	proved, stale := map[string]bool{}, 0
	for _, r := range rows {
		if r.What != "row" || r.GPU == "" || r.Binary == "" || r.Commit == "" || r.Hash == "" || r.Of == 0 {
			t.Errorf("row %s is incomplete: %+v", r.Name, r)
			continue
		}
		op, err := code.Lookup(r.Name)
		switch {
		case err != nil:
			t.Logf("%s is stale: the table has no such row", r.Name)
			stale++
		case Hash(op.Row()) != r.Hash:
			t.Logf("%s is stale: its row changed", r.Name)
			stale++
		case !strings.HasPrefix(r.Result, "equal") || r.Differ != 0:
			t.Errorf("%s differed on %s: %s", r.Name, r.GPU, strings.Join(r.First, "; "))
		default:
			if r.NaNs > 0 {
				t.Logf("%s: %s", r.Name, strings.Join(r.Notes, "; "))
			}
			proved[r.Name] = true
		}
	}
	for _, op := range code.Rows() {
		if !proved[op.String()] {
			t.Logf("%s is not proved on a GPU", op)
		}
	}
	t.Logf("%d rows of %d proved, %d stale", len(proved), len(code.Rows()), stale)
}
