package probe

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/gpu/ptx"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/tests/record"
)

const howToBanks = "on a GPU machine: CGO_ENABLED=0 go test -c -o probe.test ./gpu/probe && CUDA_CACHE_DISABLE=1 ./probe.test -test.run GPUBank -test.v -record banks.json -commit COMMIT, and put banks.json in tests/record"

// recordedBank is one row of tests/record/banks.json: one form with its patterns.
type recordedBank struct {
	record.Row
	Cycles   float64  `json:"cycles"`   // of a wavefront
	Patterns []string `json:"patterns"` // name: predicted and measured wavefronts
}

// fast is the simulator without the checks that follow each byte: the measurement
// reads shared memory that nobody wrote, and warps write where others do.
type fast struct{ stats *sim.Stats }

func (m fast) Run(ctx context.Context, f *code.Func, grid [3]int, bufs [][]byte) error {
	l := sim.Launch{Grid: grid}
	for _, b := range bufs {
		l.Args = append(l.Args, sim.Arg{Buffer: b})
	}
	st, err := sim.Run(ctx, f, l, sim.Options{Fast: true})
	if m.stats != nil {
		*m.stats = st
	}
	return err
}

// TestBankPatterns: there are enough patterns, all of them in reach, and the two that
// the analysis rests on are what it takes them for.
func TestBankPatterns(t *testing.T) {
	total, names := 0, map[string]bool{}
	for _, f := range BankForms(90) {
		total += len(f.Patterns)
		run, err := f.analyse(bank.Nvidia(), made(f, func(_, wavefronts, accesses int) int { return 100 + 2*wavefronts*accesses }))
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		for i, r := range run.Results {
			most = max(most, r.Predicted)
			if !r.Equal() || math.Abs(r.Measured-float64(r.Predicted)) > 1e-9 {
				t.Errorf("%s, %s: %v of %d", f.Name, r.Name, r.Measured, r.Predicted)
			}
			for _, a := range f.Patterns[i].Access.Addrs {
				if a+f.Patterns[i].Access.Width > bankReach {
					t.Errorf("%s, %s: address %d is out of reach", f.Name, r.Name, a)
				}
			}
			if name := f.Name + ", " + r.Name; names[name] {
				t.Errorf("two patterns are called %s", name)
			} else {
				names[name] = true
			}
		}
		if run.Results[1].Predicted != most || math.Abs(run.Cycles-2) > 1e-9 {
			t.Errorf("%s: the second pattern has %d of at most %d wavefronts; %v cycles each", f.Name, run.Results[1].Predicted, most, run.Cycles)
		}
	}
	if total < 200 {
		t.Errorf("%d patterns; the record wants 200", total)
	}
	t.Logf("%d patterns of %d forms", total, len(BankForms(90)))
	if n := len(BankForms(80)); n != len(BankForms(90))-3 {
		t.Errorf("%d forms on sm_80", n)
	}
}

// made are readings of a clock that says what cost says, and wraps on the way.
func made(f BankForm, cost func(pattern, wavefronts, accesses int) int) []byte {
	b := make([]byte, 4*bankReadings*len(f.Patterns))
	now := uint32(math.MaxUint32 - 5000)
	for p, pat := range f.Patterns {
		r := mustCount(pat.Access)
		for trial := range 2 * bankTrials {
			rounds := bankFew + trial%2*(bankMany-bankFew)
			d := cost(p, r, rounds*bankUnroll*bankWarps) + trial/2 // later trials are slower
			for w := range bankWarps {
				at := b[4*((p*2*bankTrials+trial)*bankWarps+w)*2:]
				binary.LittleEndian.PutUint32(at, now+uint32(w%3))
				binary.LittleEndian.PutUint32(at[4:], now+uint32(d-w))
			}
			now += uint32(d)
		}
	}
	return b
}

// TestBankAnalysis: a machine with other conflicts is found out, one with a fixed cost
// for each access or a dead clock too.
func TestBankAnalysis(t *testing.T) {
	f := BankForms(80)[4] // load 4
	count := func(cost func(p, w, n int) int) (differ int, err error) {
		run, err := f.analyse(bank.Nvidia(), made(f, cost))
		for _, r := range run.Results {
			if !r.Equal() {
				differ++
			}
		}
		return differ, err
	}
	if n, err := count(func(_, w, n int) int { return 50 + (w+1)*n }); err != nil || n < len(f.Patterns)/3 {
		t.Errorf("one more cycle an access: %d differ, %v", n, err)
	}
	if n, err := count(func(p, w, n int) int { return 50 + max(w, 2)*n }); err != nil || n == 0 {
		t.Errorf("never below two cycles: %d differ, %v", n, err)
	}
	if _, err := count(func(_, w, n int) int { return 50 }); err == nil {
		t.Error("a clock that stands still is accepted")
	}
	if _, err := f.analyse(bank.Nvidia(), make([]byte, 4*bankReadings*len(f.Patterns))); err == nil {
		t.Error("readings that are all zero are accepted")
	}
}

// TestBankSimulator measures on the simulator, whose clock counts wavefronts: the
// whole chain of function, launch and analysis, and the simulator's counter.
func TestBankSimulator(t *testing.T) {
	forms := BankForms(90)
	if testing.Short() {
		forms = forms[4:6]
	}
	for _, f := range forms {
		f.Patterns = f.Patterns[:min(len(f.Patterns), 12)]
		var st sim.Stats
		run, err := MeasureBanks(context.Background(), fast{&st}, bank.Nvidia(), f)
		if err != nil {
			t.Fatal(err)
		}
		var want int64
		const accesses = bankTrials * (bankFew + bankMany) * bankUnroll * bankWarps
		for i, p := range f.Patterns {
			want += int64(accesses*mustCount(p.Access)) + 2*bankTrials*bankWarps // and the sum, stored
			// Instructions cost a cycle each here, so that a wavefront is not alone.
			if run.Results[i].Cycles < float64(run.Results[i].Predicted) {
				t.Errorf("%s, %s: %v cycles for %d wavefronts", f.Name, p.Name, run.Results[i].Cycles, run.Results[i].Predicted)
			}
		}
		if st.SharedWavefronts != want {
			t.Errorf("%s: the simulator counts %d wavefronts, want %d", f.Name, st.SharedWavefronts, want)
		}
		// Between two patterns only wavefronts differ, and when warps take turns.
		for _, r := range run.Results[1:] {
			if d := r.Cycles - run.Results[0].Cycles; math.Abs(d-float64(r.Predicted-run.Results[0].Predicted)) > 0.02 {
				t.Errorf("%s, %s: %v cycles more than %s, want %d", f.Name, r.Name, d, run.Results[0].Name, r.Predicted-run.Results[0].Predicted)
			}
		}
	}
}

// TestBankText prints every form for a Hopper GPU.
func TestBankText(t *testing.T) {
	for _, f := range BankForms(90) {
		fn, _ := f.Func()
		if _, err := ptx.Print(fn, ptx.Options{Arch: "sm_90a", NoPos: true}); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

// TestGPUBank measures every pattern on the attached GPU.
func TestGPUBank(t *testing.T) {
	gpu, err := OpenGPU()
	need.GPU(t, err, device.ErrNoGPU, howToBanks)
	defer gpu.Close()
	stamp, err := recorder.Stamp("bank")
	if err != nil {
		t.Fatal(err)
	}
	stamp.GPU, stamp.Driver, stamp.Target = gpu.Title, gpu.Driver, gpu.Target
	level, err := ptx.Level(gpu.Target)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := bank.FindProfile(gpu.Target)
	if err != nil {
		profile = bank.Nvidia()
	}
	var out []recordedBank
	equal, total := 0, 0
	for _, f := range BankForms(int(level)) {
		run, err := MeasureBanks(context.Background(), gpu, profile, f)
		if err != nil {
			t.Error(err)
			continue
		}
		x := recordedBank{Row: stamp, Cycles: math.Round(1000*run.Cycles) / 1000}
		x.Name, x.Hash, x.Result = f.Name, f.hash(), "equal"
		worst := 0.0
		for _, r := range run.Results {
			x.Of++
			x.Patterns = append(x.Patterns, fmt.Sprintf("%s: predicted %d, measured %.2f", r.Name, r.Predicted, r.Measured))
			worst = max(worst, math.Abs(r.Measured-float64(r.Predicted)))
			if !r.Equal() {
				x.Differ++
				x.Result = "differ"
				t.Errorf("%s, %s: measured %.2f wavefronts, predicted %d", f.Name, r.Name, r.Measured, r.Predicted)
			}
		}
		out = append(out, x)
		total += x.Of
		equal += x.Of - x.Differ
		t.Logf("%-12s %3d of %3d equal; %.3f cycles a wavefront, %.3f an access without conflict; farthest %.2f", f.Name, x.Of-x.Differ, x.Of, run.Cycles, run.Results[0].Cycles, worst)
	}
	t.Logf("%d of %d patterns as predicted by %s", equal, total, profile.Name)
	if err := recorder.Write(out); err != nil {
		t.Fatal(err)
	}
}

// TestBankRecord reads what GPU runs measured; see TestRecord.
func TestBankRecord(t *testing.T) {
	now := map[string]string{}
	for _, f := range BankForms(90) {
		now[f.Name] = f.hash()
	}
	stale, proved, problems := record.Check(record.Read[recordedBank](t, "banks.json"), "bank", now, howToBanks)
	for _, err := range problems {
		t.Error(err)
	}
	if len(stale) > 0 {
		t.Logf("%d forms are stale, such as %s", len(stale), stale[0])
	}
	t.Logf("%d forms of %d proved, %d stale", len(proved), len(now), len(stale))
}

func mustCount(a bank.Access) int {
	r, err := bank.Count(bank.Nvidia(), a)
	if err != nil {
		panic(err)
	}
	return r.Wavefronts
}
