package differential

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/tests/record"
)

// sanitized names the environment variable by which TestComputeSanitizer tells
// its children what to run: "corpus", or a planted bug.
const sanitized = "TILUS_LAB_SANITIZED"

// finding is one line of tests/record/sanitizer.json: what NVIDIA's
// compute-sanitizer said of the corpus or of one planted bug.
type finding struct {
	record.Row
	Tool   string `json:"tool"`
	Errors int    `json:"errors"`
	// Elected counts racecheck's reports about arrivals of one lane for its warp (races).
	Elected int    `json:"elected,omitempty"`
	Said    string `json:"said"` // its first message
}

// shards are the processes over which the corpus is spread.
const shards = 16

// tools are compute-sanitizer's, each for its kind of mistake.
var tools = []string{"memcheck", "racecheck", "synccheck", "initcheck"}

// toolsFor are the tools that could find a bug, by the codes its line names.
func toolsFor(l Launch) []string {
	_, codes, _ := strings.Cut(l.Program.Source, "// want ")
	codes, _, _ = strings.Cut(codes, "\n")
	for _, code := range strings.Fields(codes) {
		switch code {
		case "Sim.E1", "Sim.E9", "Sim.E10":
			return []string{"memcheck"}
		case "Run.E4", "Run.E9", "Sim.E5":
			return []string{"racecheck"}
		case "Run.E3", "Sim.E4":
			return []string{"initcheck"}
		}
	}
	return []string{"memcheck", "synccheck"}
}

// hangs are the planted bugs that never end on a GPU.
var hangs = []string{"deadlock_groups", "deadlock_order", "barrier_of_one_group"}

// TestSanitizedChild runs what the environment names on the GPU, and nothing else.
func TestSanitizedChild(t *testing.T) {
	what := os.Getenv(sanitized)
	if what == "" {
		t.Skip("a child of TestComputeSanitizer")
	}
	var all []Launch
	if shard := 0; strings.HasPrefix(what, "corpus") {
		fmt.Sscanf(what, "corpus:%d", &shard)
		for i, l := range launches(t) {
			if i%shards == shard && l.Needs != "sm_100a" {
				all = append(all, l)
			}
		}
	} else {
		bugs, err := Bugs()
		if err != nil {
			t.Fatal(err)
		}
		all = slices.DeleteFunc(bugs, func(l Launch) bool { return l.Name != what })
	}
	gpu := open(t, "cuda")
	for _, l := range all {
		if _, err := gpu.Run(context.Background(), l.Program, l.Args); err != nil {
			t.Logf("%s: %v", l.Name, err)
		}
	}
}

// corpusHash is what corpus rows prove something about: every launch.
func corpusHash(t *testing.T) string {
	h := sha256.New()
	for _, l := range launches(t) {
		if l.Needs != "sm_100a" {
			fmt.Fprintln(h, l.Name, l.Hash())
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}

var summary = regexp.MustCompile(`(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)`)

// hazard is one report of racecheck: the access that should have come first, and the other.
var hazard = regexp.MustCompile(`Potential (\w+) hazard detected.*\n=+\s+(\w+ Thread \((\d+),.*)\n=+\s+(\w+ Thread \((\d+),.*)`)

// races counts what racecheck reports, but for those of one kind: the first access is of a lane
// other than 0, and of another warp or block. Where warps meet (bar.warp.sync) before their lane 0 arrives
// at an mbarrier for all of them, the tool takes that arrival as lane 0's alone, and all other lanes
// as racing with whoever waited. What lane 0 did itself is never among these reports; a race of the
// program would be lane 0's as often as any lane's. The simulator, which counts what the warp did before, finds none.
func races(out string) (count, elected int, first string) {
	for _, m := range hazard.FindAllStringSubmatch(out, -1) {
		a, _ := strconv.Atoi(m[3])
		b, _ := strconv.Atoi(m[5])
		apart := a/32 != b/32 || strings.Contains(m[2], "block rank")
		if a%32 != 0 && apart {
			elected++
			continue
		}
		if count == 0 {
			first = fmt.Sprintf("%s hazard: %s, %s", m[1], m[2], m[4])
		}
		count++
	}
	return count, elected, first
}

// TestRaces tells a race of all lanes from reports about arrivals for a warp.
func TestRaces(t *testing.T) {
	report := func(first, second string) string {
		return "========= Error: Potential RAW hazard detected at __shared__ 0x3a84 in block (2,0,0) :\n=========     Write Thread (" + first +
			"+0x1ff0\n=========     Read Thread (" + second + "+0x2640\n=========     Current Value : 0\n"
	}
	elected := report("164,0,0) at p", "96,0,0) at p") + report("33,0,0) (block rank 2) at p", "33,0,0) (block rank 1) at p")
	if count, n, _ := races(elected); count != 0 || n != 2 {
		t.Errorf("%d races and %d arrivals for a warp, want 0 and 2", count, n)
	}
	count, n, first := races(elected + report("160,0,0) at p", "96,0,0) at p") + report("33,0,0) at p", "34,0,0) at p"))
	if want := "RAW hazard: Write Thread (160,0,0) at p+0x1ff0, Read Thread (96,0,0) at p+0x2640"; count != 2 || n != 2 || first != want {
		t.Errorf("%d races and %d arrivals for a warp, first %q; want 2, 2, %q", count, n, first, want)
	}
}

// TestComputeSanitizer runs the corpus and the planted bugs on a GPU under
// NVIDIA's compute-sanitizer: the corpus must be clean (but see races), and each bug that a tool
// finds is recorded beside what our machines say of it without a GPU.
func TestComputeSanitizer(t *testing.T) {
	exe, err := exec.LookPath("compute-sanitizer")
	if err != nil {
		t.Skip("no compute-sanitizer here; it comes with CUDA")
	}
	gpu, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, howTo)
	info := gpu.Describe()
	gpu.Close()
	stamp, err := recorder.Stamp("sanitizer")
	if err != nil {
		t.Fatal(err)
	}
	stamp.GPU, stamp.Driver, stamp.Target = info.Title, info.Driver, info.Arch
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bugs, err := Bugs()
	if err != nil {
		t.Fatal(err)
	}
	type job struct{ what, tool, hash string }
	var jobs []job
	corpus := corpusHash(t)
	for _, tool := range tools[:2] {
		for i := range shards {
			jobs = append(jobs, job{fmt.Sprintf("corpus:%d", i), tool, corpus})
		}
	}
	for _, l := range bugs {
		for _, tool := range toolsFor(l) {
			// Those of barriers in shared memory mostly wait for ever.
			if l.Needs == "" && !slices.Contains(hangs, path.Base(l.Name)) {
				jobs = append(jobs, job{l.Name, tool, l.Hash()})
			}
		}
	}
	rows := make([]finding, len(jobs))
	var wg sync.WaitGroup
	slots := make(chan bool, 16) // processes at once
	for i, j := range jobs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			slots <- true
			defer func() { <-slots }()
			limit := time.Now().Add(40 * time.Second)
			if strings.HasPrefix(j.what, "corpus") {
				limit = limit.Add(80 * time.Second)
			}
			if end, ok := t.Deadline(); ok && end.Add(-5*time.Second).Before(limit) {
				limit = end.Add(-5 * time.Second) // what is known by then is worth writing
			}
			ctx, cancel := context.WithDeadline(context.Background(), limit)
			defer cancel()
			cmd := exec.CommandContext(ctx, exe, "--report-api-errors", "no", "--tool", j.tool, "--racecheck-report", "all", "--print-limit", "1000000", self, "-test.run", "^TestSanitizedChild$")
			cmd.Env = append(os.Environ(), sanitized+"="+j.what)
			cmd.WaitDelay = 2 * time.Second // what the tool has started holds the pipe
			out, _ := cmd.CombinedOutput()
			r := finding{Row: stamp, Tool: j.tool}
			r.Name, r.Hash, r.Of, r.Result = j.what+" "+j.tool, j.hash, 1, "equal"
			m := summary.FindStringSubmatch(string(out))
			if m == nil {
				r.Result = fmt.Sprintf("no summary: %.300s", out)
			} else {
				fmt.Sscan(m[1]+m[2], &r.Errors)
			}
			if j.tool == "racecheck" {
				r.Errors, r.Elected, r.Said = races(string(out))
			}
			for line := range strings.Lines(string(out)) {
				if text, ok := strings.CutPrefix(line, "========= "); ok && r.Said == "" && !strings.HasPrefix(text, "COMPUTE-SANITIZER") && r.Errors > 0 {
					r.Said = strings.TrimSpace(text)
				}
			}
			rows[i] = r
		}()
	}
	wg.Wait()
	found := map[string]bool{}
	for _, r := range rows {
		what, _, _ := strings.Cut(r.Name, " ")
		switch {
		case !strings.HasPrefix(what, "corpus") && r.Errors > 0:
			found[what] = true
		case strings.HasPrefix(what, "corpus") && (r.Errors > 0 || r.Result != "equal"):
			t.Errorf("the corpus under %s: %d errors, %s %s", r.Tool, r.Errors, r.Said, r.Result)
		}
		if r.Errors > 0 || r.Result != "equal" {
			t.Logf("%-40s %d %s %s", r.Name, r.Errors, r.Said, r.Result)
		}
	}
	t.Logf("compute-sanitizer finds %d of the %d planted bugs", len(found), len(bugs))
	// What had no time to end says nothing.
	rows = slices.DeleteFunc(rows, func(r finding) bool { return r.Result != "equal" })
	if err := recorder.Beside("sanitizer.json").Write(rows); err != nil {
		t.Fatal(err)
	}
}

// TestSanitizerRecord holds what compute-sanitizer said: nothing of the corpus, and of
// planted bugs what it can see. Stale rows are no failure: they wait for a GPU.
func TestSanitizerRecord(t *testing.T) {
	bugs, err := Bugs()
	if err != nil {
		t.Fatal(err)
	}
	now, corpus := map[string]string{}, corpusHash(t)
	for i := range shards {
		for _, tool := range tools[:2] {
			now[fmt.Sprintf("corpus:%d %s", i, tool)] = corpus
		}
	}
	for _, l := range bugs {
		for _, tool := range toolsFor(l) {
			if l.Needs == "" && !slices.Contains(hangs, path.Base(l.Name)) {
				now[l.Name+" "+tool] = l.Hash()
			}
		}
	}
	rows := record.Read[finding](t, "sanitizer.json")
	stale, _, problems := record.Check(rows, "sanitizer", now, "on a GPU machine: ./differential.test -test.run ComputeSanitizer -test.v -record sanitizer.json")
	for _, err := range problems {
		t.Error(err)
	}
	found := map[string]bool{}
	for _, r := range rows {
		what, _, _ := strings.Cut(r.Name, " ")
		switch {
		case r.Errors == 0 || now[r.Name] != r.Hash, strings.HasPrefix(r.Said, "Program hit"): // a call of the driver, not the program
		case strings.HasPrefix(what, "corpus"):
			t.Errorf("%s: %d errors: %s", r.Name, r.Errors, r.Said)
		default:
			found[what] = true
		}
	}
	if len(found) < 5 {
		t.Errorf("it found only %v", found)
	}
	t.Logf("compute-sanitizer found %d planted bugs, and nothing in what it saw of the corpus but races where one lane arrives for its warp; %d rows are stale", len(found), len(stale))
}
