package probe

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/tests/record"
)

var recorder = record.Flags()

// recorded is one line of tests/record/rows.json: one row of the table of thread
// code, with the hash of its types, templates and documentation.
type recorded struct {
	record.Row
	NaNs  int      `json:"nans,omitempty"` // NaN as the meaning says, but of another code
	Cases int      `json:"cases"`
	First []string `json:"first,omitempty"` // differences
	Notes []string `json:"notes,omitempty"` // measurements
	Ms    float64  `json:"ms"`              // compiling, copying, running
}

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o probe.test ./gpu/probe && ./probe.test -test.run GPURows -test.v -record rows.json -commit COMMIT, and put rows.json in tests/record"

var (
	only     = flag.String("only", "", "regular expression of the rows that GPU tests run; \"\" is all")
	onlyCase = flag.String("case", "", "regular expression of their cases; \"\" is all")
)

// TestGPURows runs every row of the thread-code table on the attached GPU and
// compares bit for bit with its meaning.
func TestGPURows(t *testing.T) {
	onGPU(t, Options{Cross: 1 << 18, Random: 1 << 16, Undefined: true})
}

// TestGPUProxyRows does the same for the rows of the asynchronous proxy and of
// clusters.
func TestGPUProxyRows(t *testing.T) { onGPU(t, Options{Proxy: true}) }

func onGPU(t *testing.T, o Options) {
	gpu, err := OpenGPU()
	need.GPU(t, err, device.ErrNoGPU, howTo)
	defer gpu.Close()
	stamp, err := recorder.Stamp("row")
	if err != nil {
		t.Fatal(err)
	}
	stamp.GPU, stamp.Driver, stamp.Target = gpu.Title, gpu.Driver, gpu.Target
	which, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := regexp.Compile(*onlyCase)
	if err != nil {
		t.Fatal(err)
	}
	o.Only, o.Case = which.MatchString, cases.MatchString
	rows, err := Run(context.Background(), gpu, o)
	if err != nil {
		t.Fatal(err)
	}
	var out []recorded
	for _, r := range rows {
		x := recorded{Row: stamp, NaNs: r.NaNs, Cases: r.Cases, First: r.First, Notes: r.Notes, Ms: r.Ms}
		x.Name, x.Hash, x.Result, x.Differ, x.Of = r.Name, r.Hash, "equal", r.Differ, r.Tried
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
	if err := recorder.Write(out); err != nil {
		t.Fatal(err)
	}
}

// TestRecord reads what GPU runs proved and says which rows no longer hold for
// the table as it is now. Stale rows are no failure: they wait for a GPU.
func TestRecord(t *testing.T) { checkRecord(t, "rows.json", code.Rows(), howTo) }

const howToProxy = "on a machine with sm_90: CGO_ENABLED=0 go test -c -o probe.test ./gpu/probe && ./probe.test -test.run GPUProxyRows -test.v -record proxyrows.json -commit COMMIT, and put proxyrows.json in tests/record"

// TestProxyRecord does the same for the rows of the asynchronous proxy and of
// clusters.
func TestProxyRecord(t *testing.T) {
	if _, err := os.Stat(filepath.Join(need.Root(t), "tests", "record", "proxyrows.json")); err != nil {
		t.Skip(howToProxy)
	}
	var ops []code.Op
	for _, op := range code.ProxyRows() {
		switch row := op.Row(); {
		case row.Since > 90, op == code.OpUndef32, op == code.OpFenceProxyTensorMapRelease, op == code.OpFenceProxyTensorMapAcquire:
		default:
			ops = append(ops, op)
		}
	}
	checkRecord(t, "proxyrows.json", ops, howToProxy)
}

func checkRecord(t *testing.T, file string, ops []code.Op, howTo string) {
	now := map[string]string{}
	for _, op := range ops {
		now[op.String()] = Hash(op.Row())
	}
	rows := record.Read[recorded](t, file)
	stale, proved, problems := record.Check(rows, "row", now, howTo)
	for _, err := range problems {
		t.Error(err)
	}
	for _, name := range stale {
		t.Logf("%s is stale: its row changed", name)
	}
	for _, r := range rows {
		if r.NaNs > 0 {
			t.Logf("%s: %s", r.Name, strings.Join(r.Notes, "; "))
		}
	}
	t.Logf("%d rows of %d proved, %d stale", len(proved), len(now), len(stale))
}
