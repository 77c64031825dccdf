package differential

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/tests/record"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/randprog"
)

var (
	progSeed  = flag.Uint64("progseed", 1, "first seed of the random programs")
	progCount = flag.Int("progcount", 0, "random programs to compare; 0 is as many as 6 seconds take, at most 400")
	progGPU   = flag.Int("proggpu", 1200, "random programs to compare on a GPU")
	progOn    = flag.String("progon", "cuda", "device to compare them on: cuda:sm_80 and cuda:nvrtc make other code")
)

// randomOptions draw over the matrix instructions that every target has.
func randomOptions() randprog.Options {
	var o randprog.Options
	for _, m := range arch.Matrices() {
		if m.Since == "sm_80" {
			o.Products = append(o.Products, randprog.Product{A: m.A, B: m.B, C: m.C, LA: m.LA, LB: m.LB, LC: m.LC})
		}
	}
	return o
}

// reference runs a program on the interpreter.
func reference(p *randprog.Program) ([]ir.Arg, error) {
	m, err := interp.New(p.Program, p.Args, interp.MaxSteps(20000))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := m.Run(ctx); err != nil {
		return nil, err
	}
	return m.Args(), nil
}

// runnable takes from a random program the statements at which the interpreter
// stops, and gives what is left with its results. errs counts the errors by code.
func runnable(p *randprog.Program, errs map[string]int) (*randprog.Program, []ir.Arg, error) {
	for range 12 {
		want, err := reference(p)
		if err == nil {
			return p, want, nil
		}
		var list diag.List
		if !errors.As(err, &list) {
			return nil, nil, err
		}
		errs[list[0].Code]++
		less, ok := p.Without(list[0].Pos.Line)
		if !ok {
			return nil, nil, err
		}
		p = less
	}
	return nil, nil, errors.New("the interpreter stops too often")
}

// lowerable takes from a program what lowering refuses for the oldest target.
func lowerable(p *randprog.Program, refused map[string]int) (*randprog.Program, error) {
	for range 40 {
		_, err := compile.Program(p.Program, compile.Options{Arch: "sm_80", NoOpt: true})
		if err == nil {
			return p, nil
		}
		var list diag.List
		if !errors.As(err, &list) {
			return nil, err
		}
		var lines []int
		for _, bad := range list {
			if !strings.HasPrefix(bad.Code, "Lower.") {
				return nil, err
			}
			refused[bad.Code+" "+opAt(p.Program, bad.Pos.Line)]++
			lines = append(lines, bad.Pos.Line)
		}
		less, ok := p.Without(lines...)
		if !ok {
			return nil, err
		}
		p = less
	}
	return nil, errors.New("lowering refuses too much")
}

func opAt(p *ir.Program, line int) (name string) {
	p.Body.Walk(func(s ir.Stmt) bool {
		if in, ok := s.(*ir.Instr); ok && in.Pos.Line == line {
			name = in.Op.Name
		}
		return true
	})
	return name
}

// disagreement says how the simulator differs from the interpreter on a program,
// or "" if all targets and options agree.
func disagreement(p *randprog.Program, want []ir.Arg, targets ...string) string {
	l := Launch{Program: p.Program, Args: p.Args}
	for _, target := range targets {
		for i, o := range []compile.Options{{Arch: target, NoOpt: true}, {Arch: target}, {Arch: target, Divisible: compile.Divisors(p.Program, p.Args)}} {
			order := sim.Options{Reverse: i == 1} // no result depends on the order of blocks
			what := fmt.Sprintf("%s, passes %v, divisible %v, reverse %v", target, !o.NoOpt, o.Divisible, order.Reverse)
			got, err := simulateIn(l, o, order)
			if err != nil {
				return fmt.Sprintf("%s: %v", what, err)
			}
			if bad := differs(p.Program, got, want); bad != "" {
				return what + ": " + bad
			}
		}
	}
	return ""
}

// differs says which argument has other elements; NaNs are equal.
func differs(p *ir.Program, got, want []ir.Arg) string {
	for i, w := range want {
		if w.Array == nil {
			continue
		}
		for k := range w.Array.Len() {
			x, y := got[i].Array.Code(k), w.Array.Code(k)
			if x != y && !(w.Array.Type.IsFloat() && w.Array.Type.IsNaN(x) && w.Array.Type.IsNaN(y)) {
				return fmt.Sprintf("argument %s, element %d is %s, want %s", p.Params[i].Name, k, w.Array.Type.Format(x), w.Array.Type.Format(y))
			}
		}
	}
	return ""
}

// crashing gives a panic as an answer.
func crashing(f func() string) (bad string) {
	defer func() {
		if r := recover(); r != nil {
			bad = fmt.Sprintf("panic: %v", r)
			for _, line := range strings.Split(string(debug.Stack()), "\n") {
				if parts := strings.Split(strings.TrimSpace(line), "/"); strings.Contains(line, ".go:") && !strings.Contains(line, "runtime") && !strings.Contains(line, "randprog") && len(parts) > 3 {
					bad += "\n\t" + strings.Join(parts[len(parts)-3:], "/")
				}
			}
		}
	}()
	return f()
}

// TestRandomPrograms compares interp, sim(lower) and sim(opt(lower)) on programs
// drawn from the instruction table. For a long run:
//
//	go test ./tests/differential -run RandomPrograms -progcount 10000 -timeout 0 -v
func TestRandomPrograms(t *testing.T) {
	o := randomOptions()
	count, limit := *progCount, time.Duration(1<<62)
	if count == 0 {
		count, limit = 400, 6*time.Second
		if testing.Short() {
			limit = 2 * time.Second
		}
	}
	begin, agreed, failed, skipped := time.Now(), 0, 0, 0
	errs, refused, placed := map[string]int{}, map[string]int{}, map[string]int{}
	for seed := *progSeed; seed < *progSeed+uint64(count) && time.Since(begin) < limit && failed < 20; seed++ {
		p, err := randprog.New(seed, o)
		if err != nil {
			t.Fatal(err)
		}
		bad := crashing(func() string {
			q, err := lowerable(p, refused)
			if err != nil {
				return "lowering: " + err.Error()
			}
			q, want, err := runnable(q, errs)
			if err != nil {
				skipped++
				return ""
			}
			p = q
			target := []string{"sm_80", "sm_90a"}[seed%2]
			return disagreement(p, want, target)
		})
		if bad == "" {
			agreed++
			for name, n := range p.Placed {
				placed[name] += n
			}
			continue
		}
		failed++
		kind := failure(bad)
		small := randprog.Shrink(p, 300, func(q *randprog.Program) bool {
			return failure(crashing(func() string {
				if kind != "panic" {
					if _, err := compile.Program(q.Program, compile.Options{Arch: "sm_80", NoOpt: true}); err != nil {
						return ""
					}
				}
				want, err := reference(q)
				if err != nil {
					return ""
				}
				return disagreement(q, want, "sm_80", "sm_90a")
			})) == kind
		})
		t.Errorf("%s\n%s", bad, small.Text())
	}
	t.Logf("seeds %d…: %d programs agree, %d do not, %d skipped; %v", *progSeed, agreed, failed, skipped, time.Since(begin).Round(time.Second))
	t.Logf("placed %v", placed)
	t.Logf("statements dropped: interpreter %v, lowering %v", errs, refused)
	if agreed < 20 && failed == 0 {
		t.Error("too few programs to mean anything")
	}
}

// FuzzRandomPrograms is TestRandomPrograms for a fuzzer: the input is a seed.
func FuzzRandomPrograms(f *testing.F) {
	o := randomOptions()
	for seed := range uint64(5) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		p, err := randprog.New(seed, o)
		if err != nil {
			t.Fatal(err)
		}
		if p, err = lowerable(p, map[string]int{}); err != nil {
			t.Fatal(err)
		}
		q, want, err := runnable(p, map[string]int{})
		if err != nil {
			t.Skip(err)
		}
		if bad := disagreement(q, want, []string{"sm_80", "sm_90a"}[seed%2]); bad != "" {
			t.Errorf("%s\n%s", bad, q.Text())
		}
	})
}

// failure is the kind of a disagreement, so that shrinking keeps to one.
func failure(bad string) string {
	switch {
	case bad == "":
		return ""
	case strings.HasPrefix(bad, "panic"):
		return "panic"
	case strings.Contains(bad, "argument"):
		return "values"
	}
	if i := strings.LastIndex(bad, "["); i >= 0 {
		return bad[i:min(i+10, len(bad))]
	}
	return "error"
}

// randomRow is what tests/record/random.json says: programs drawn from these seeds
// were equal on a GPU, the simulator and the interpreter.
type randomRow struct {
	record.Row
	Seeds []uint64 `json:"seeds"`
	// Placed counts the instructions that ran, by name.
	Placed map[string]int `json:"placed"`
}

// hashOf names the programs of seeds; it changes with the instruction table.
func hashOf(t *testing.T, seeds []uint64) string {
	t.Helper()
	h, o := sha256.New(), randomOptions()
	for _, seed := range seeds {
		p, err := randprog.New(seed, o)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(h, p.Text())
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}

// TestRandomProgramsOnGPU compares the GPU with the simulator and the interpreter.
func TestRandomProgramsOnGPU(t *testing.T) {
	gpu, err := device.Open(*progOn)
	need.GPU(t, err, device.ErrNoGPU, howTo)
	defer func() { gpu.Close() }()
	stamp, err := recorder.Stamp("random")
	if err != nil {
		t.Fatal(err)
	}
	info := gpu.Describe()
	stamp.Name, stamp.GPU, stamp.Driver, stamp.Target, stamp.Result = "random programs", info.Title, info.Driver, info.Arch, "equal"
	r := randomRow{Row: stamp, Placed: map[string]int{}}
	sim := open(t, "sim")
	o := randomOptions()
	for seed := *progSeed; len(r.Seeds) < *progGPU && r.Differ < 20; seed++ {
		p, err := randprog.New(seed, o)
		if err != nil {
			t.Fatal(err)
		}
		var want []ir.Arg
		run := func(d device.Device) string {
			return crashing(func() string {
				got, err := d.Run(context.Background(), p.Program, p.Args)
				if err != nil {
					return err.Error()
				}
				return differs(p.Program, got.Args, want)
			})
		}
		skip := crashing(func() string {
			if p, err = lowerable(p, map[string]int{}); err == nil {
				p, want, err = runnable(p, map[string]int{})
			}
			if err != nil {
				return err.Error()
			}
			return ""
		})
		if skip == "" {
			skip = run(sim)
		}
		if skip != "" {
			t.Logf("seed %d is left out: %s", seed, skip)
			continue
		}
		r.Of++
		if bad := run(gpu); bad != "" {
			r.Differ++
			r.Result = fmt.Sprintf("seed %d: %s", seed, bad)
			t.Errorf("seed %d: %s\n%s", seed, bad, p.Text())
			if strings.Contains(bad, "cuda") { // a fault ends the context
				gpu.Close()
				if gpu, err = device.Open(*progOn); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		r.Seeds = append(r.Seeds, seed)
		for name, n := range p.Placed {
			r.Placed[name] += n
		}
	}
	t.Logf("%d programs agree from seed %d, %d do not", len(r.Seeds), *progSeed, r.Differ)
	r.Hash = hashOf(t, r.Seeds)
	if err := recorder.Beside("random.json").Write([]randomRow{r}); err != nil {
		t.Fatal(err)
	}
}

// TestRandomRecord says what GPU runs proved of random programs.
func TestRandomRecord(t *testing.T) {
	if _, err := os.Stat(filepath.Join(need.Root(t), "tests", "record", "random.json")); err != nil {
		t.Skipf("there is no random.json; %s", howTo)
	}
	rows := record.Read[randomRow](t, "random.json")
	if len(rows) != 1 || len(rows[0].Seeds) == 0 {
		t.Fatalf("%d rows; %s", len(rows), howTo)
	}
	now := map[string]string{rows[0].Name: hashOf(t, rows[0].Seeds)}
	stale, _, problems := record.Check(rows, "random", now, howTo)
	for _, err := range problems {
		t.Error(err)
	}
	if len(stale) > 0 {
		t.Logf("stale: the seeds give other programs now")
	}
	t.Logf("%d random programs were equal", len(rows[0].Seeds))
}
