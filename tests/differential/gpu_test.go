package differential

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/record"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

var recorder = record.Flags()

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
	also := map[string]device.Device{}
	for _, way := range ways {
		d, err := device.Open("cuda:" + way)
		if err != nil {
			t.Errorf("%s: %v", way, err)
			continue
		}
		defer d.Close()
		also[way] = d
	}
	ctx := context.Background()
	all := slices.DeleteFunc(slices.Clone(launches(t)), func(l Launch) bool { return !l.Runs(info.Arch) })
	// What the machines without a GPU say is found on all processors, while the GPU runs.
	type said struct {
		want, simulated *device.Result
		err             error
	}
	results := make([]chan said, len(all))
	slots := make(chan bool, runtime.GOMAXPROCS(0))
	for i := range all {
		results[i] = make(chan said, 1)
	}
	go func() {
		for i, l := range all {
			slots <- true
			go func() {
				defer func() { <-slots }()
				var s said
				if s.want, s.err = interp.Run(ctx, l.Program, l.Args); s.err == nil {
					s.simulated, s.err = sim.Run(ctx, l.Program, l.Args)
				}
				results[i] <- s
			}()
		}
	}()
	var rows []Row
	for i, l := range all {
		s := <-results[i]
		if s.err != nil {
			t.Errorf("%s: %v", l.Name, s.err)
			continue
		}
		want, simulated := s.want, s.simulated
		r := Row{Row: stamp}
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
		r.Also = map[string]string{}
		for way, d := range also {
			if strings.HasPrefix(way, "sm_") && !l.Runs(way) {
				r.Also[way] = "refused: needs " + l.Needs
				continue
			}
			r.Also[way] = agrees(ctx, d, l, want.Args)
			if r.Also[way] != "equal" && !strings.HasPrefix(r.Also[way], "refused: ") {
				t.Errorf("%s: %s: %s", l.Name, way, r.Also[way])
			}
		}
		r.JITms, r.ExecUs = float64(got.JIT.Microseconds())/1000, float64(got.Exec.Nanoseconds())/1000
		t.Logf("%-24s %s: %d of %d differ, JIT %.1f ms, run %.1f µs", l.Name, r.Result, r.Differ, r.Of, r.JITms, r.ExecUs)
		rows = append(rows, r)
	}
	if err := recorder.Write(rows); err != nil {
		t.Fatal(err)
	}
}

// ways are the other ways to the GPU that the corpus takes.
var ways = []string{"sm_80", "sm_86", "sm_89", "nvrtc"}

// agrees runs a launch in another way and says how it went.
func agrees(ctx context.Context, d device.Device, l Launch, want []ir.Arg) string {
	got, err := d.Run(ctx, l.Program, l.Args)
	if problems := (diag.List)(nil); errors.As(err, &problems) {
		return "refused: " + problems[0].Msg // by a rule: the target has no such instruction
	}
	if err != nil {
		return err.Error()
	}
	differ, of := 0, 0
	for i, a := range want {
		if a.Array == nil {
			continue
		}
		of += a.Array.Len()
		for k := range a.Array.Len() {
			if got.Args[i].Array.Code(k) != a.Array.Code(k) {
				differ++
			}
		}
	}
	if differ > 0 {
		return fmt.Sprintf("%d of %d differ", differ, of)
	}
	return "equal"
}

// TestRecord reads what GPU runs proved and says which rows no longer hold for
// the program as it is now. Stale rows are no failure: they wait for a GPU.
func TestRecord(t *testing.T) {
	now := map[string]string{}
	for _, l := range launches(t) {
		if l.Needs == "sm_100a" {
			continue // not seen on hardware
		}
		now[l.Name] = l.Hash()
	}
	stale, proved, problems := record.Check(record.Read[Row](t, "programs.json"), "program", now, howTo)
	for _, err := range problems {
		t.Error(err)
	}
	for _, name := range stale {
		t.Logf("%s is stale: it was proved for another text or other arguments", name)
	}
	t.Logf("%d launches of %d proved, %d stale", len(proved), len(now), len(stale))
}
