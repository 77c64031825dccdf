package differential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/tests/record"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

var recorder = record.Flags()

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o differential.test ./tests/differential && ./differential.test -test.run GPU -test.v -record programs.json -commit COMMIT, and put programs.json and random.json in tests/record"

// gpuShard names the environment variable by which TestGPUAgrees tells its children
// which launches to run: "1/8 40" is those from number 40 on whose number is 1 modulo 8.
const gpuShard = "TILUS_LAB_GPU_SHARD"

// TestGPUAgrees runs the corpus on the attached GPU and compares bit for bit
// with the simulator and the interpreter; launches marked near, up to rounding. Children do it, several at a time: what a
// launch does to its process is then an answer too.
func TestGPUAgrees(t *testing.T) {
	gpu, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, howTo)
	gpu.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all, shards := launches(t), 8
	list := make([][]Row, shards)
	var wg sync.WaitGroup
	for i := range shards {
		wg.Go(func() {
			again := -1
			for from := 0; from < len(all); {
				cmd := exec.Command(self, "-test.run", "^TestGPUChild$", "-commit", *recorder.Commit)
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d/%d %d", gpuShard, i, shards, from))
				out, err := cmd.CombinedOutput()
				at, done, way := from, from-1, ""
				for line := range strings.Lines(string(out)) {
					if rest, ok := strings.CutPrefix(line, "@begin "); ok {
						fmt.Sscan(rest, &at, &way)
					} else if rest, ok := strings.CutPrefix(line, "@row "); ok {
						var r Row
						if err := json.Unmarshal([]byte(rest), &r); err != nil {
							t.Error(err)
						}
						list[i], done = append(list[i], r), at
					}
				}
				if err == nil {
					return
				}
				ended, _, _ := strings.Cut(string(out[max(0, strings.LastIndex(string(out), "@begin ")):]), "goroutine")
				t.Logf("%s, %s: the process ended, %v: %.300s", all[at].Name, way, err, ended)
				if from = max(at, done+1); again == at { // it is the launch, and no accident
					t.Errorf("%s, %s: its process ends", all[at].Name, way)
					from++
				}
				again = at
			}
		})
	}
	wg.Wait()
	rows := slices.Concat(list...)
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	for _, r := range rows {
		t.Logf("%-24s %s: %d of %d differ, %d approximately equal, %v, JIT %.1f ms, run %.1f µs", r.Name, r.Result, r.Differ, r.Of, r.Near, r.Also, r.JITms, r.ExecUs)
		if r.Result != "equal" {
			t.Errorf("%s: %s", r.Name, r.Result)
		}
		for way, result := range r.Also {
			if result != "equal" && !strings.HasPrefix(result, "refused: ") {
				t.Errorf("%s, %s: %s", r.Name, way, result)
			}
		}
	}
	if err := recorder.Write(rows); err != nil {
		t.Fatal(err)
	}
}

// TestGPUChild runs the launches that the environment names, and nothing else.
func TestGPUChild(t *testing.T) {
	var shard, shards, from int
	if n, _ := fmt.Sscanf(os.Getenv(gpuShard), "%d/%d %d", &shard, &shards, &from); n != 3 {
		t.Skip("a child of TestGPUAgrees")
	}
	gpu, interp, sim := open(t, "cuda"), open(t, "interp"), open(t, "sim")
	also := map[string]device.Device{}
	for _, way := range ways {
		also[way] = open(t, "cuda:"+way)
	}
	stamp, err := recorder.Stamp("program")
	if err != nil {
		t.Fatal(err)
	}
	info := gpu.Describe()
	stamp.GPU, stamp.Driver, stamp.Target = info.Title, info.Driver, info.Arch
	ctx := context.Background()
	for i, l := range launches(t) {
		if i%shards != shard || i < from || !l.Runs(info.Arch) {
			continue
		}
		r := Row{Row: stamp, Also: map[string]string{}}
		r.Name, r.Hash, r.Result = l.Name, l.Hash(), "equal"
		fmt.Println("@begin", i, "interp")
		want, err := interp.Run(ctx, l.Program, l.Args)
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		simulated, err := sim.Run(ctx, l.Program, l.Args)
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		same(t, l, "simulator", simulated.Args, want.Args)
		fmt.Println("@begin", i, "cuda")
		if got, err := gpu.Run(ctx, l.Program, l.Args); err != nil {
			r.Result = err.Error()
		} else {
			c := comparison(got.Args, want.Args, l.Near)
			if r.Of, r.Near, r.Differ = c.of, c.near, c.differ; c.differ > 0 {
				r.Result = "differ: " + c.String()
			}
			r.JITms, r.ExecUs = float64(got.JIT.Microseconds())/1000, float64(got.Exec.Nanoseconds())/1000
		}
		for way, d := range also {
			if strings.HasPrefix(way, "sm_") && !l.Runs(way) {
				r.Also[way] = "refused: needs " + l.Needs
				continue
			}
			fmt.Println("@begin", i, way)
			r.Also[way] = agrees(ctx, d, l, want.Args)
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("@row %s\n", data)
	}
}

// compared counts elements: those that differ, and those that are near where that is
// enough.
type compared struct {
	of, near, differ int
	some             []string // the first few that differ
}

func (c compared) String() string {
	return fmt.Sprintf("%d of %d: %s", c.differ, c.of, strings.Join(c.some, ", "))
}

// comparison compares results bit for bit, or, where only near is needed, up to a step
// of bf16 and 2^-18 of the array's largest element.
func comparison(got, want []ir.Arg, near bool) (c compared) {
	for i, a := range want {
		if a.Array == nil {
			continue
		}
		c.of += a.Array.Len()
		var x, y []float64
		largest := 0.0
		for k := range a.Array.Len() {
			if got[i].Array.Code(k) == a.Array.Code(k) {
				continue
			}
			if len(c.some) < 8 {
				t := a.Array.Type
				c.some = append(c.some, fmt.Sprintf("element %d of argument %d is %v, not %v", k, i, t.Decode(got[i].Array.Code(k)), t.Decode(a.Array.Code(k))))
			}
			if !near {
				c.differ++
				continue
			}
			if x == nil {
				x, y = got[i].Array.Floats(), a.Array.Floats()
				for _, v := range y {
					if !math.IsInf(v, 0) && !math.IsNaN(v) {
						largest = max(largest, math.Abs(v))
					}
				}
			}
			if math.Abs(x[k]-y[k]) <= math.Abs(y[k])*0x1p-7+largest*0x1p-18 {
				c.near++
			} else {
				c.differ++
			}
		}
	}
	return c
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
	if c := comparison(got.Args, want, l.Near); c.differ > 0 {
		return c.String() + " differ"
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
