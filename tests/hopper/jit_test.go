// Package hopper holds programs for Hopper to what they promise beyond right results:
// machine code without spills and without products that wait for each other, and little
// time until it is there. tests/record/hopper_jit.json is what a GPU machine found.
package hopper

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/attention/template"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/gpu/gemm/hopper"
	"github.com/tilus-lab/tilus-lab/tests/differential"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/tests/record"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

var recorder = record.Flags()

const howTo = "on a GPU machine with ptxas: CGO_ENABLED=0 go test -c -o jit.test ./tests/hopper && CUDA_CACHE_DISABLE=1 ./jit.test -test.run GPUJIT -test.v -record hopper_jit.json -commit COMMIT, and put hopper_jit.json in tests/record"

// Row is one program: medians of rounds behind a first one, in milliseconds. Ours, the driver and ptxas take turns in each, on one core.
type Row struct {
	record.Row
	CompileMs float64 `json:"compile_ms"` // text to PTX: our share
	JITMs     float64 `json:"jit_ms"`     // PTX to machine code, by the driver
	PtxasMs   float64 `json:"ptxas_ms"`   // the same PTX, by ptxas; 0 where there is none
	Rounds    int     `json:"rounds"`
	Registers int     `json:"registers"`
	Local     int     `json:"local_bytes"`
}

// source is a program as its users write it, and what its arguments tell of it.
type source struct {
	name, text string
	divisible  map[string]int64
}

// sources are the programs of the corpus that need a Hopper GPU, and products and
// attention as they are timed.
func sources(t testing.TB) []source {
	t.Helper()
	launches, err := differential.Launches()
	if err != nil {
		t.Fatal(err)
	}
	var all []source
	for _, l := range launches {
		if strings.HasPrefix(l.Needs, "sm_90") {
			all = append(all, source{l.Name, text.Format(l.Program), compile.Divisors(l.Program, l.Args)})
		}
	}
	sizes := map[string]int64{"M": 128, "N": 128, "K": 128}
	product := func(name string, step int, s hopper.Schedule) {
		p, err := hopper.Matmul(step, s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, source{name, text.Format(p), sizes})
	}
	for step := range hopper.Steps {
		product(fmt.Sprintf("v%d f16", step), step, hopper.Defaults(step))
	}
	product("v5 bf16", 5, hopper.Schedule{Type: dtype.BF16})
	product("v5 f8e4m3", 5, hopper.Schedule{Type: dtype.F8E4M3, Out: dtype.BF16})
	product("v5 ping-pong", 5, hopper.Schedule{M: 128, N: 128, PingPong: true, Parts: 2})
	for _, o := range []template.HopperOptions{{Head: 64}, {Head: 128}, {Head: 128, Free: true}} {
		for _, o.Causal = range []bool{false, true} {
			p, err := template.FlashHopper(o)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, source{p.Name + fmt.Sprintf(" %d causal=%v free=%v", o.Head, o.Causal, o.Free), text.Format(p), nil})
		}
	}
	return all
}

// ptx goes all our way from program text to PTX.
func (s source) ptx() (string, *compile.Compiled, error) {
	p, err := text.Parse("program.tile", s.text, nil)
	if err != nil {
		return "", nil, err
	}
	c, err := compile.Program(p, compile.Options{Arch: "sm_90a", Divisible: s.divisible, Verified: true})
	if err != nil {
		return "", nil, err
	}
	out, err := c.PTX()
	return out, c, err
}

// hash names what a row says something about.
func (s source) hash() string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(s.text)))[:24]
}

// assembles lowers a program for a target and holds ptxas to no error and no warning.
func assembles(t *testing.T, target string, name any, p *ir.Program) {
	t.Helper()
	c, err := compile.Program(p, compile.Options{Arch: target})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	ptx, err := c.PTX()
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	if made, err := need.Assemble(t, target, ptx); err != nil || strings.Contains(made.Said, "warning") {
		t.Errorf("%s: %v\n%s", name, err, made.Said)
	}
}

// TestAssembles holds every program for Hopper to machine code without spills, and to
// products that nothing waits for.
func TestAssembles(t *testing.T) {
	for _, s := range sources(t) {
		t.Run(s.name, func(t *testing.T) {
			ptx, _, err := s.ptx()
			if err != nil {
				t.Fatal(err)
			}
			made, err := need.Assemble(t, "sm_90a", ptx)
			if err != nil || made.Spills() > 0 {
				t.Errorf("%v\n%s", err, made.Said)
			}
			for _, bad := range []string{"serializ", "injected", "warning"} {
				if strings.Contains(made.Said, bad) {
					t.Errorf("the assembler says %q:\n%s", bad, made.Said)
				}
			}
		})
	}
}

// TestGPUJIT times each program's way to machine code, in turns with ptxas where PATH has it.
func TestGPUJIT(t *testing.T) {
	d, err := cuda.Open()
	if e := (*cuda.Error)(nil); errors.Is(err, cuda.ErrNoDriver) || errors.As(err, &e) && e.NoDevice() {
		t.Skipf("no GPU here: %v; %s", err, howTo)
	}
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("CUDA_CACHE_DISABLE") != "1" {
		t.Fatal("the driver would answer from its cache; set CUDA_CACHE_DISABLE=1")
	}
	ctx, err := d.PrimaryContext(0)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	dev, err := ctx.Device()
	if err != nil {
		t.Fatal(err)
	}
	if dev.Arch() != "sm_90" {
		t.Skipf("%s is no Hopper GPU", dev.Name)
	}
	stamp, err := recorder.Stamp("jit")
	if err != nil {
		t.Fatal(err)
	}
	major, minor := d.Version()
	stamp.GPU, stamp.Driver, stamp.Target = dev.Name, "CUDA "+strconv.Itoa(major)+"."+strconv.Itoa(minor), "sm_90a"
	ptxas, _ := exec.LookPath("ptxas")
	if ptxas == "" {
		ptxas, _ = exec.LookPath("/usr/local/cuda/bin/ptxas")
	}
	cores := []int{runtime.NumCPU() / 4, runtime.NumCPU() / 2}
	var rows []Row
	for _, s := range sources(t) {
		r := Row{Row: stamp, Rounds: 3}
		r.Name = s.name
		var ours, driver, peer []float64
		round := func() {
			runtime.GC() // of what the round before left
			start := time.Now()
			ptx, c, err := s.ptx()
			took := time.Since(start)
			if err != nil {
				t.Errorf("%s: %v", s.name, err)
				return
			}
			m, err := ctx.Load([]byte(ptx), cuda.JIT{})
			if err != nil {
				t.Errorf("%s: %v", s.name, err)
				return
			}
			defer m.Close()
			ours, driver = append(ours, ms(took)), append(driver, ms(m.Time))
			f, err := m.Function(c.Func.Name)
			if err != nil {
				t.Errorf("%s: %v", s.name, err)
				return
			}
			r.Hash, r.Registers, r.Local = s.hash(), f.Registers, f.LocalBytes
			r.Result, r.Of = "equal", len(ptx)
			if ptxas != "" {
				peer = append(peer, ms(assembleTime(t, ptxas, ptx)))
			}
		}
		// Others use the machine's cores too: of two, that counts on which all of it takes least.
		best := math.Inf(1)
		need.OnCore(cores[0], round) // warm
		for _, core := range cores {
			ours, driver, peer = nil, nil, nil
			for range r.Rounds {
				need.OnCore(core, round)
			}
			if t.Failed() {
				t.FailNow()
			}
			if total := median(ours) + median(driver) + median(peer); total < best {
				best, r.CompileMs, r.JITMs, r.PtxasMs = total, median(ours), median(driver), median(peer)
			}
			t.Logf("%-32s core %d: ours %.1f JIT %.0f ptxas %.0f", s.name, core, ours, driver, peer)
		}
		t.Logf("%-32s ours %5.1f JIT %5.0f ptxas %5.0f ms, %d registers, %d local", s.name, r.CompileMs, r.JITMs, r.PtxasMs, r.Registers, r.Local)
		rows = append(rows, r)
		if err := recorder.Write(rows); err != nil { // what is done stays, should the time be over
			t.Fatal(err)
		}
	}
}

func median(times []float64) float64 {
	if len(times) == 0 {
		return 0
	}
	times = slices.Sorted(slices.Values(times))
	return times[len(times)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func assembleTime(t *testing.T, ptxas, ptx string) time.Duration {
	file := filepath.Join(t.TempDir(), "program.ptx")
	if err := os.WriteFile(file, []byte(ptx), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, ptxas, "-arch=sm_90a", "-o", os.DevNull, file)
	cmd.Stderr = &said
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	return time.Since(start)
}
