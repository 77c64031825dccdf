package differential

import (
	"context"
	"errors"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/record"
)

var recorder = record.Flags()

// row is one line of tests/record/programs.json: one launch.
type row struct {
	record.Row
	JITms  float64 `json:"jit_ms"`
	ExecUs float64 `json:"exec_us"`
}

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o differential.test ./tests/differential && ./differential.test -test.run GPU -test.v -record programs.json -commit COMMIT, and put programs.json and random.json in tests/record"

// TestGPUAgrees runs the corpus on the attached GPU and compares bit for bit
// with the simulator and the interpreter.
func TestGPUAgrees(t *testing.T) {
	gpu, err := device.Open("cuda")
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; %s", err, howTo)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	stamp, err := recorder.Stamp("program")
	if err != nil {
		t.Fatal(err)
	}
	info := gpu.Describe()
	stamp.GPU, stamp.Driver, stamp.Target = info.Title, info.Driver, info.Arch
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
		r := row{Row: stamp}
		r.Name, r.Hash, r.Result = l.Name, l.Hash(), "equal"
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
	if err := recorder.Write(rows); err != nil {
		t.Fatal(err)
	}
}

// TestRecord reads what GPU runs proved and says which rows no longer hold for
// the program as it is now. Stale rows are no failure: they wait for a GPU.
func TestRecord(t *testing.T) {
	now := map[string]string{}
	for _, l := range launches(t) {
		now[l.Name] = l.Hash()
	}
	stale, proved, problems := record.Check(record.Read[row](t, "programs.json"), "program", now, howTo)
	for _, err := range problems {
		t.Error(err)
	}
	for _, name := range stale {
		t.Logf("%s is stale: it was proved for another text or other arguments", name)
	}
	t.Logf("%d launches of %d proved, %d stale", len(proved), len(now), len(stale))
}
