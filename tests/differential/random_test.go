package differential

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/lower"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/interp"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

var (
	randomSeed  = flag.Uint64("randomseed", 1, "first seed of TestRandomScalarPrograms")
	randomCount = flag.Int("randomcount", 400, "programs of TestRandomScalarPrograms")
)

// writer draws a program of scalar computation: loops, branches and conditions
// over i32 and u32 variables, whose values go into the two results at the end
// and on the way.
type writer struct {
	r      *rand.Rand
	b      strings.Builder
	indent int
	signed []string // readable variables
	uns    []string
	free   []string // assignable ones, signed; the same for u32 below
	freeU  []string
	next   int
	budget int
}

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(&w.b, strings.Repeat("\t", w.indent)+format+"\n", args...)
}

func (w *writer) pick(list []string) string { return list[w.r.IntN(len(list))] }

func (w *writer) atom(u bool) string {
	if w.r.IntN(3) > 0 {
		if u {
			return w.pick(w.uns)
		}
		return w.pick(w.signed)
	}
	if u {
		return w.pick([]string{"0", "1", "2", "3", "7", "16", "100", "2147483648", "4294967295", "65536"})
	}
	return w.pick([]string{"0", "1", "2", "3", "8", "-1", "-5", "13", "1000", "65536", "2147483647", "-2147483647"})
}

func (w *writer) expr(u bool, depth int) string {
	if depth == 0 || w.r.IntN(4) == 0 {
		return w.atom(u)
	}
	x, y := w.expr(u, depth-1), w.expr(u, depth-1)
	switch w.r.IntN(9) {
	case 0, 1:
		return fmt.Sprintf("(%s + %s)", x, y)
	case 2, 3:
		return fmt.Sprintf("(%s - %s)", x, y)
	case 4:
		return fmt.Sprintf("%s*%s", w.atom(u), w.atom(u))
	case 5:
		return fmt.Sprintf("(%s)/(%s)", x, y)
	case 6:
		return fmt.Sprintf("(%s) %% (%s)", x, y)
	case 7:
		return fmt.Sprintf("%s(%s, %s)", w.pick([]string{"min", "max"}), x, y)
	}
	if u {
		return x
	}
	return "-(" + x + ")"
}

func (w *writer) compare(depth int) string {
	u := w.r.IntN(2) == 0
	return fmt.Sprintf("%s %s %s", w.expr(u, depth), w.pick([]string{"==", "!=", "<", "<=", ">", ">="}), w.expr(u, depth))
}

// cond keeps arithmetic on the right of && and || to divisions: the simulator
// does not look for overflow there, unless a division makes it a branch.
func (w *writer) cond() string {
	switch w.r.IntN(4) {
	case 0:
		u := w.r.IntN(2) == 0
		return fmt.Sprintf("%s %s %s/%s > %s", w.compare(1), w.pick([]string{"&&", "||"}), w.atom(u), w.atom(u), w.atom(u))
	case 1:
		return fmt.Sprintf("!(%s) %s %s", w.compare(2), w.pick([]string{"&&", "||"}), w.compare(0))
	}
	return w.compare(2)
}

func (w *writer) assign() {
	u := w.r.IntN(3) == 0
	free, all := &w.free, &w.signed
	if u {
		free, all = &w.freeU, &w.uns
	}
	e := w.expr(u, 2)
	if len(*free) > 0 && w.r.IntN(2) == 0 {
		w.line("%s = %s", w.pick(*free), e)
		return
	}
	w.next++
	name, t := fmt.Sprintf("v%d", w.next), "i32"
	if u {
		t = "u32"
	}
	w.line("%s: %s = %s", name, t, e)
	*free, *all = append(*free, name), append(*all, name)
}

func (w *writer) block(depth int) {
	marks := [4]int{len(w.signed), len(w.uns), len(w.free), len(w.freeU)}
	for n := 1 + w.r.IntN(4); n > 0 && w.budget > 0; n-- {
		w.budget--
		switch k := w.r.IntN(10); {
		case k < 4 || depth == 0:
			w.assign()
		case k < 6:
			if w.r.IntN(2) == 0 {
				w.mix("r", "i32", w.atom(false))
			} else {
				w.mix("s", "u32", w.atom(true))
			}
		case k < 7:
			w.line("if %s {", w.cond())
			w.inner(depth)
			if w.r.IntN(2) == 0 {
				w.line("} else {")
				w.inner(depth)
			}
			w.line("}")
		case k < 9:
			u := w.r.IntN(3) == 0
			w.next++
			name := fmt.Sprintf("k%d", w.next)
			step := w.pick([]string{"", "", " step 2", " step 3", " step -1", " step -2", " step -7", " step 1000000000", " step -2000000000"})
			from := w.expr(u, 1)
			if u {
				from = w.pick(w.uns) // literals alone are i32
			}
			w.line("for %s in %s..%s%s%s {", name, from, w.expr(u, 1), step, w.pick([]string{"", " unroll=2", " unroll=3"}))
			if u {
				w.uns = append(w.uns, name)
			} else {
				w.signed = append(w.signed, name)
			}
			w.inner(depth)
			if u {
				w.uns = w.uns[:len(w.uns)-1]
			} else {
				w.signed = w.signed[:len(w.signed)-1]
			}
			w.line("}")
		default:
			w.next++
			name := fmt.Sprintf("i%d", w.next)
			w.line("%s = 0", name)
			w.line("while %s < %d && %s {", name, 1+w.r.IntN(5), w.compare(0))
			w.signed = append(w.signed, name)
			w.inner(depth)
			w.line("\t%s = %s + 1", name, name)
			w.line("}")
		}
	}
	w.signed, w.uns, w.free, w.freeU = w.signed[:marks[0]], w.uns[:marks[1]], w.free[:marks[2]], w.freeU[:marks[3]]
}

func (w *writer) inner(depth int) {
	w.indent++
	w.line("r = Add(r, 1) : register i32[32] spatial(32)")
	w.block(depth - 1)
	w.indent--
}

// mix puts a value into a result so that its place in the order of all counts.
func (w *writer) mix(tile, t, value string) {
	w.line("%s = Mul(%s, 3) : register %s[32] spatial(32)", tile, tile, t)
	w.line("%s = Add(%s, %s) : register %s[32] spatial(32)", tile, tile, value, t)
}

func (w *writer) program() string {
	w.signed, w.uns, w.budget = []string{"n", "m"}, []string{"u", "w"}, 14
	w.line("program p<1>(x: *i32, y: *u32, n: i32, m: i32, u: u32, w: u32) warps=1 {")
	w.indent++
	w.line("gx = ViewGlobal(x) : global i32[32]")
	w.line("gy = ViewGlobal(y) : global u32[32]")
	w.line("r = AllocateRegister(init=1) : register i32[32] spatial(32)")
	w.line("s = AllocateRegister(init=1) : register u32[32] spatial(32)")
	w.line("a = n")
	w.line("b: u32 = u")
	w.signed, w.free, w.uns, w.freeU = append(w.signed, "a"), []string{"a"}, append(w.uns, "b"), []string{"b"}
	for w.budget > 0 {
		w.block(3)
	}
	w.mix("r", "i32", "a")
	w.mix("s", "u32", "b")
	w.line("StoreGlobal(gx, r, offset=[0])")
	w.line("StoreGlobal(gy, s, offset=[0])")
	w.indent--
	w.line("}")
	return w.b.String()
}

// randomProgram is nil for a program with a constant part that has no value.
func randomProgram(t *testing.T, seed uint64, r *rand.Rand) (p *ir.Program, src string) {
	t.Helper()
	src = (&writer{r: r}).program()
	p, err := text.Parse("random.tile", src, nil)
	if err == nil {
		return p, src
	}
	var list diag.List
	if !errors.As(err, &list) {
		t.Fatalf("seed %d: %v\n%s", seed, err, src)
	}
	for _, x := range list {
		if x.Code != "Expr.R1" {
			t.Fatalf("seed %d: %v\n%s", seed, list, src)
		}
	}
	return nil, src
}

var specialNumbers = []int64{0, 1, 2, 3, 5, 7, 12, -1, -2, -9, 100, math.MaxInt32, math.MinInt32, math.MaxInt32 - 2}

func randomArgs(r *rand.Rand) []ir.Arg {
	args := []ir.Arg{{Array: array.New(dtype.I32, 32)}, {Array: array.New(dtype.U32, 32)}}
	for k := range 4 {
		v := specialNumbers[r.IntN(len(specialNumbers))]
		if r.IntN(2) == 0 {
			v = r.Int64N(20)
		}
		if k >= 2 {
			v = int64(uint32(v))
		}
		args = append(args, ir.Arg{Int: v})
	}
	return args
}

// TestRandomScalarPrograms compares the interpreter with the simulator. Without
// passes both give the same bits or both an error; after the passes, which may
// lose an overflow, results and divisions by zero must be the same.
func TestRandomScalarPrograms(t *testing.T) {
	target, err := arch.Lookup(compile.DefaultArch)
	if err != nil {
		t.Fatal(err)
	}
	count := *randomCount
	if testing.Short() {
		count /= 5
	}
	t.Logf("seeds %d to %d", *randomSeed, *randomSeed+uint64(count)-1)
	begin, fine, failing, refused, long := time.Now(), 0, 0, 0, 0
	for seed := *randomSeed; seed < *randomSeed+uint64(count) && time.Since(begin) < 6*time.Second; seed++ {
		r := rand.New(rand.NewPCG(seed, 7))
		p, src := randomProgram(t, seed, r)
		if p == nil {
			refused++
			continue
		}
		plain, err := lower.Lower(p, lower.Options{Arch: target})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, src)
		}
		passed, err := compile.Program(p, compile.Options{})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, src)
		}
		for range 3 {
			args := randomArgs(r)
			m, err := interp.New(p, args, interp.MaxSteps(4000))
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, src)
			}
			want := m.Run(context.Background())
			if want != nil && strings.Contains(want.Error(), "[Run.E7]") {
				long++
				continue
			}
			call := fmt.Sprintf("seed %d, n=%d m=%d u=%d w=%d", seed, args[2].Int, args[3].Int, args[4].Int, args[5].Int)
			for name, f := range map[string]*code.Func{"plain": plain, "after passes": passed.Func} {
				buffers := [2][]byte{make([]byte, 128), make([]byte, 128)}
				in := []sim.Arg{{Buffer: buffers[0]}, {Buffer: buffers[1]}}
				for _, a := range args[2:] {
					in = append(in, sim.Arg{Bits: uint64(a.Int)})
				}
				_, got := sim.Run(context.Background(), f, sim.Launch{Args: in}, sim.Options{MaxSteps: 1 << 20, Workers: 1})
				switch {
				case want != nil && name != "plain" && !strings.Contains(want.Error(), "division by zero"):
				case (got != nil) != (want != nil):
					t.Fatalf("%s, %s:\ninterpreter: %v\nsimulator: %v\n%s\n%s", call, name, want, got, src, code.Format(f))
				case got == nil && (!bytes.Equal(buffers[0], m.Args()[0].Array.Data) || !bytes.Equal(buffers[1], m.Args()[1].Array.Data)):
					t.Fatalf("%s, %s: interpreter %v %v, simulator %x %x\n%s\n%s", call, name, m.Args()[0].Array.At(0), m.Args()[1].Array.At(0), buffers[0][:4], buffers[1][:4], src, code.Format(f))
				}
			}
			if want == nil {
				fine++
			} else {
				failing++
			}
		}
	}
	t.Logf("%d runs agree in value, %d in failing; %d programs refused, %d runs too long", fine, failing, refused, long)
	if fine < 50 || failing < 50 {
		t.Error("too few runs of one kind to mean anything")
	}
}

// TestRandomScalarProgramsAssemble gives the PTX of some to the real assembler.
func TestRandomScalarProgramsAssemble(t *testing.T) {
	var all strings.Builder
	for seed := uint64(1); seed <= 60; seed++ {
		p, _ := randomProgram(t, seed, rand.New(rand.NewPCG(seed, 7)))
		if p == nil {
			continue
		}
		c, err := compile.Program(p, compile.Options{Arch: "sm_80"})
		if err != nil {
			t.Fatal(err)
		}
		c.Func.Name = fmt.Sprintf("p%d", seed)
		ptx, err := c.PTX()
		if err != nil {
			t.Fatal(err)
		}
		if _, body, ok := strings.Cut(ptx, ".visible"); ok && all.Len() > 0 {
			ptx = ".visible" + body
		}
		all.WriteString(ptx)
	}
	if _, err := need.Assemble(t, "sm_80", all.String()); err != nil {
		t.Error(err)
	}
}

// TestRandomScalarProgramsOnGPU compares the GPU with the interpreter where that
// gives no error.
func TestRandomScalarProgramsOnGPU(t *testing.T) {
	gpu, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, howTo)
	defer gpu.Close()
	runs := 0
	for seed := *randomSeed; seed < *randomSeed+300; seed++ {
		r := rand.New(rand.NewPCG(seed, 7))
		p, src := randomProgram(t, seed, r)
		for k := 0; p != nil && k < 3; k++ {
			args := randomArgs(r)
			m, err := interp.New(p, args, interp.MaxSteps(4000))
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, src)
			}
			if m.Run(context.Background()) != nil {
				continue
			}
			res, err := gpu.Run(context.Background(), p, args)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, src)
			}
			for i := range 2 {
				if got, want := res.Args[i].Array, m.Args()[i].Array; !bytes.Equal(got.Data, want.Data) {
					t.Fatalf("seed %d, n=%d m=%d u=%d w=%d: argument %d is %v, want %v\n%s", seed, args[2].Int, args[3].Int, args[4].Int, args[5].Int, i, got.At(0), want.At(0), src)
				}
			}
			runs++
		}
	}
	t.Logf("%d runs agree", runs)
}
