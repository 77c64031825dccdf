package differential

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

var (
	recordTo = flag.String("record", "", "write what the GPU proved to this file")
	commit   = flag.String("commit", "", "commit that the test binary was built from")
)

// row is one line of tests/record: what was compared, of what, on what.
type row struct {
	What    string  `json:"what"` // "program"
	Name    string  `json:"name"`
	Hash    string  `json:"hash"` // of the program's text and arguments
	Result  string  `json:"result"`
	Differ  int     `json:"differ"` // elements that differ between GPU, simulator and interpreter
	Of      int     `json:"of"`
	JITms   float64 `json:"jit_ms"`
	ExecUs  float64 `json:"exec_us"`
	GPU     string  `json:"gpu"`
	Driver  string  `json:"driver"`
	Target  string  `json:"target"`
	Commit  string  `json:"commit"`
	Binary  string  `json:"binary_sha256"`
	Written string  `json:"utc"`
}

// hash names what a row proves something about.
func hash(l Launch) string {
	h := sha256.New()
	io.WriteString(h, text.Format(l.Program))
	for _, a := range l.Args {
		if a.Array != nil {
			fmt.Fprintf(h, "%s %x\n", a.Array.Header(), sha256.Sum256(a.Array.Data))
		} else {
			fmt.Fprintf(h, "%d %v\n", a.Int, a.Float)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}

// TestGPUAgrees runs the corpus on the attached GPU and compares bit for bit
// with the simulator and the interpreter.
func TestGPUAgrees(t *testing.T) {
	gpu, err := device.Open("cuda")
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v. On a GPU machine: go test -c ./tests/differential, then run it with -test.run GPU -record FILE", err)
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
	info := gpu.Describe()
	interp, sim := open(t, "interp"), open(t, "sim")
	var rows []row
	for _, l := range launches(t) {
		ctx := context.Background()
		want, err := interp.Run(ctx, l.Program, l.Args)
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
			continue
		}
		simulated, err := sim.Run(ctx, l.Program, l.Args)
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
			continue
		}
		r := row{What: "program", Name: l.Name, Hash: hash(l), Result: "equal", GPU: info.Title, Driver: info.Driver, Target: info.Arch,
			Commit: *commit, Binary: binary, Written: time.Now().UTC().Format(time.RFC3339)}
		got, err := gpu.Run(ctx, l.Program, l.Args)
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
			r.Result = err.Error()
			rows = append(rows, r)
			continue
		}
		same(t, l, "simulator", simulated.Args, want.Args)
		same(t, l, "GPU", got.Args, want.Args)
		for i, a := range want.Args {
			if a.Array == nil {
				continue
			}
			r.Of += a.Array.Len()
			for k := range a.Array.Len() {
				if c := a.Array.Code(k); got.Args[i].Array.Code(k) != c || simulated.Args[i].Array.Code(k) != c {
					r.Differ++
				}
			}
		}
		if r.Differ > 0 {
			r.Result = "differ"
		}
		r.JITms, r.ExecUs = float64(got.JIT.Microseconds())/1000, float64(got.Exec.Nanoseconds())/1000
		t.Logf("%-24s %s: %d of %d differ, JIT %.1f ms, run %.1f µs", l.Name, r.Result, r.Differ, r.Of, r.JITms, r.ExecUs)
		rows = append(rows, r)
	}
	if *recordTo != "" {
		data, err := json.MarshalIndent(rows, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(*recordTo, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRecord reads what GPU runs proved and says which rows no longer hold for
// the program as it is now. Stale rows are no failure: they wait for a GPU.
func TestRecord(t *testing.T) {
	data, err := os.ReadFile("../record/programs.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	now := map[string]string{}
	for _, l := range launches(t) {
		now[l.Name] = hash(l)
	}
	proved := map[string]bool{}
	for _, r := range rows {
		switch {
		case r.GPU == "" || r.Binary == "" || r.Commit == "" || r.Hash == "" || r.Of == 0:
			t.Errorf("row %s is incomplete: %+v", r.Name, r)
		case r.Result != "equal" || r.Differ != 0:
			t.Errorf("%s differed on %s: %s", r.Name, r.GPU, r.Result)
		case now[r.Name] != r.Hash:
			t.Logf("%s is stale: it was proved for another text or other arguments", r.Name)
		default:
			proved[r.Name] = true
		}
	}
	for name := range now {
		if !proved[name] {
			t.Logf("%s is not proved on a GPU", name)
		}
	}
}
