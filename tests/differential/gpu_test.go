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
	"github.com/tilus-lab/tilus-lab/tests/record"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

var recorder = record.Flags()

const howTo = "on a GPU machine: CGO_ENABLED=0 go test -c -o differential.test ./tests/differential && ./differential.test -test.run GPU -test.v -record programs.json -commit COMMIT, and put programs.json and random.json in tests/record"

// gpuShard names the environment variable by which TestGPUAgrees tells its children
// which launches to run: "1/8 40" is those from number 40 on whose number is 1 modulo 8.
const gpuShard = "TILUS_LAB_GPU_SHARD"

// TestGPUAgrees runs the corpus on the attached GPU and compares bit for bit
// with the simulator and the interpreter. Children do it, several at a time: what a
// launch does to its process is then an answer too.
func TestGPUAgrees(t *testing.T) {
	gpu, err := device.Open("cuda")
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; %s", err, howTo)
	}
	if err != nil {
		t.Fatal(err)
	}
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
		// What approximates is run twice: without, for equal bits, and as it is.
		variants := []Launch{l}
		if exact, ok := l.exact(t); ok {
			variants = []Launch{exact, l}
		}
		for k, l := range variants {
			fmt.Println("@begin", i, "interp")
			want, err := interp.Run(ctx, l.Program, l.Args)
			if err != nil {
				r.Result = err.Error()
				break
			}
			simulated, err := sim.Run(ctx, l.Program, l.Args)
			if err != nil {
				r.Result = err.Error()
				break
			}
			same(t, l, "simulator", simulated.Args, want.Args)
			fmt.Println("@begin", i, "cuda")
			got, err := gpu.Run(ctx, l.Program, l.Args)
			if err != nil {
				r.Result = err.Error()
				break
			}
			c := comparison(got.Args, want.Args, k > 0)
			r.Of, r.Near, r.Differ = max(r.Of, c.of), c.near, r.Differ+c.differ
			if c.differ > 0 {
				r.Result = "differ: " + c.String()
			}
			r.JITms, r.ExecUs = float64(got.JIT.Microseconds())/1000, float64(got.Exec.Nanoseconds())/1000
			for way, d := range also {
				switch {
				case r.Also[way] != "" && r.Also[way] != "equal":
				case strings.HasPrefix(way, "sm_") && !l.Runs(way):
					r.Also[way] = "refused: needs " + l.Needs
				default:
					fmt.Println("@begin", i, way)
					r.Also[way] = agrees(ctx, d, l, want.Args, k > 0)
				}
			}
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("@row %s\n", data)
	}
}

// exact is the launch with exact functions in the place of approximations, if it has
// some: of those a machine's results only lie within bounds.
func (l Launch) exact(t *testing.T) (Launch, bool) {
	t.Helper()
	src := text.Format(l.Program)
	exact := strings.ReplaceAll(src, ", approx=true", "")
	if exact == src {
		return l, false
	}
	p, err := text.Parse(l.File+".tile", exact, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Program = p
	return l, true
}

// compared counts elements: those that differ, and those that are near where that is
// enough.
type compared struct{ of, near, differ int }

func (c compared) String() string { return fmt.Sprintf("%d of %d", c.differ, c.of) }

// comparison compares results bit for bit, or, where functions are approximated, up to
// a step of bf16 and 2^-18 of the array's largest element.
func comparison(got, want []ir.Arg, approximate bool) (c compared) {
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
			if !approximate {
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
func agrees(ctx context.Context, d device.Device, l Launch, want []ir.Arg, approximate bool) string {
	got, err := d.Run(ctx, l.Program, l.Args)
	if problems := (diag.List)(nil); errors.As(err, &problems) {
		return "refused: " + problems[0].Msg // by a rule: the target has no such instruction
	}
	if err != nil {
		return err.Error()
	}
	if c := comparison(got.Args, want, approximate); c.differ > 0 {
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
