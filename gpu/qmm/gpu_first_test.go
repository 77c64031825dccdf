package qmm

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/gpu/tune"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

var (
	firstOut    = flag.String("first", "", "write what TestGPUFirst measured to this file, one JSON row a product")
	firstChild  = flag.String("first-child", "", "as -first, of a process that TestGPUFirst starts")
	firstStates = flag.String("first-states", "", "the states that it measures")
	firstPart   = flag.Int("first-part", -1, "the products that it measures: the first of each type, the second, …; -1 is all")
	firstCommit = flag.String("commit", "", "commit that the test binary was built from")
)

// firstRow is what comes before the first launch of a product of a new type and size.
type firstRow struct {
	Weight string `json:"weight"`
	Plan   string `json:"plan"`
	M      int    `json:"m"`
	N      int    `json:"n"`
	K      int    `json:"k"`
	// State is "new", "same process" or "other process": machine code is made, is
	// remembered, or comes from the files that processes share; or "soon": that of [Call.Soon] is made.
	State string  `json:"state"`
	Ours  float64 `json:"ours_ms"`   // choice of a schedule, program, PTX
	Code  float64 `json:"driver_ms"` // machine code made or loaded
	tune.Row
}

// soonState is the state of products that are to be had soon.
const soonState = "soon"

// firstRun is a process that measures: where its files are, and what it does.
type firstRun struct {
	dir, states string
	part        int
}

// TestGPUFirst measures how long products of new types and sizes wait for their programs,
// after one of another type: new, again, in another process, and as [Call.Soon]; three rounds.
func TestGPUFirst(t *testing.T) {
	g, err := tune.OpenGPU(0)
	if errors.Is(err, device.ErrNoGPU) {
		t.Skipf("no GPU here: %v; on a GPU machine: CGO_ENABLED=0 go test -c -o qmm.test ./gpu/qmm && ./qmm.test -test.run GPUFirst -test.v -first first.json", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	origin := tune.Origin(g, *firstCommit)
	open := func() device.Device {
		d, err := device.Open("cuda")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ctx := context.Background()
	b := &Bench{}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	var rows []firstRow
	layers := map[string]*Packed{}
	xs := map[string]*array.Array{}
	run := func(d device.Device, kind, plan string, m, n, k int, state string) {
		t.Helper()
		name := fmt.Sprint(kind, n, k, m)
		if state != "same process" {
			l, err := Parse(kind, n, k)
			if err != nil {
				t.Fatal(err)
			}
			p, err := template.PlanOf(l.Form())
			if err != nil {
				t.Fatal(err)
			}
			args, err := b.operands(ctx, l, p, m)
			if err != nil {
				t.Fatal(err)
			}
			packed := &Packed{Linear: l, W: args[0].Array, Scales: args[1].Array, One: 1}
			if l.ZeroPoint {
				packed.Zeros = args[2].Array
			}
			layers[name], xs[name] = packed, args[len(args)-2].Array
		}
		packed, x := layers[name], xs[name]
		call := Call{Plan: plan}
		if state == soonState {
			call = Call{Soon: true}
		}
		res, err := packed.Run(ctx, d, x, call)
		if err != nil {
			t.Fatal(err)
		}
		var last *ir.Program
		if plan = res.Plan; plan == Decode {
			last, err = template.Decode(packed.Form(), res.Schedule)
		} else {
			last, err = template.Wide(packed.Form(), res.Wide)
		}
		if err != nil {
			t.Fatal(err)
		}
		row := firstRow{Weight: kind, Plan: plan, M: m, N: n, K: k, State: state, Ours: ms(res.Choose + res.Compile), Code: ms(res.JIT), Row: origin.Row(last.Name, tune.Hash(last), tune.Timing{}, nil)}
		rows = append(rows, row)
	}
	cases := []struct {
		kind, plan string
		m, n, k    int
	}{
		{"u4", Decode, 1, 8192, 8192}, {"f6e3m2", Decode, 1, 10240, 8192}, {"i4", Decode, 16, 8192, 8192}, {"u2", Decode, 1, 8192, 8192},
		{"u4", Wide, 64, 8192, 8192}, {"f8e4m3", Wide, 32, 10240, 8192},
		// What has the longest programs: many tiles, many rows, blocks that share all turns, zero points.
		{"u1", Decode, 16, 8192, 8192}, {"u2", Decode, 16, 57344, 8192}, {"u1", Wide, 64, 8192, 8192}, {"u2", Wide, 64, 8192, 8192}, {"u3", Wide, 64, 57344, 8192},
		{"u4", Wide, 64, 57344, 8192}, {"u5", Wide, 64, 8192, 8192}, {"u6", Wide, 128, 57344, 8192}, {"u7", Wide, 64, 8192, 8192}, {"f8e4m3", Wide, 128, 57344, 8192},
		{"u4 zero", Wide, 64, 8192, 8192}, {"u4 act=bf16", Wide, 64, 8192, 8192},
	}
	each := func(states ...string) {
		d := open()
		defer d.Close()
		run(d, "u8", Decode, 1, 2048, 2048, states[0]) // warms up
		rows = rows[:len(rows)-1]
		of := map[string]int{}
		for _, c := range cases {
			if of[c.kind]++; *firstPart >= 0 && of[c.kind] != *firstPart+1 {
				continue
			}
			for _, state := range states {
				run(d, c.kind, c.plan, c.m, c.n, c.k, state)
			}
		}
	}
	if *firstChild != "" {
		each(strings.Split(*firstStates, ",")...)
		writeJSON(t, *firstChild, rows)
		return
	}
	// Each round has files of its own, the driver's too, which a process chooses when it begins.
	// Products of a type that are to be had soon are by one program: those of a part are of different types.
	var runs []firstRun
	for range 3 {
		dir := t.TempDir()
		runs = append(runs, firstRun{dir, "new,same process", -1}, firstRun{dir, "other process", -1})
		of := map[string]int{}
		for _, c := range cases {
			of[c.kind]++
		}
		for part := range slices.Max(slices.Collect(maps.Values(of))) {
			runs = append(runs, firstRun{t.TempDir(), soonState, part})
		}
	}
	for _, r := range runs {
		file := filepath.Join(r.dir, "rows.json")
		cmd := exec.Command(os.Args[0], "-test.run", "^TestGPUFirst$", "-test.v", "-first-child", file, "-first-states", r.states, "-first-part", fmt.Sprint(r.part), "-commit", *firstCommit)
		for _, e := range os.Environ() {
			if !strings.HasPrefix(e, "CUDA_CACHE_") && !strings.HasPrefix(e, device.CacheEnv) {
				cmd.Env = append(cmd.Env, e)
			}
		}
		cmd.Env = append(cmd.Env, "CUDA_CACHE_PATH="+filepath.Join(r.dir, "driver"), device.CacheEnv+"="+r.dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var more []firstRow
		if err := json.Unmarshal(data, &more); err != nil {
			t.Fatal(err)
		}
		for _, r := range more {
			t.Logf("%-11s %-7s %4d rows [%d, %d], %-13s: ours %6.2f ms, driver %7.2f ms", r.Weight, r.Plan, r.M, r.N, r.K, r.State, r.Ours, r.Code)
		}
		rows = append(rows, more...)
	}
	writeJSON(t, *firstOut, rows)
}
