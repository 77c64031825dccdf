package differential

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

var update = flag.Bool("update", false, "write the out sections of the corpus")

func launches(t *testing.T) []Launch {
	t.Helper()
	ls, err := Launches()
	if err != nil {
		t.Fatal(err)
	}
	return ls
}

func open(t *testing.T, name string) device.Device {
	t.Helper()
	d, err := device.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestEveryProgramIsLaunched(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range launches(t) {
		seen[l.File] = true
	}
	for _, name := range corpus.Names() {
		if !seen[name] {
			t.Errorf("%s: add an in section with arguments, then go test ./tests/differential -update", name)
		}
	}
}

// TestInterpreterGivesTheRecordedResults compares with the out sections.
func TestInterpreterGivesTheRecordedResults(t *testing.T) {
	d := open(t, "interp")
	archives := map[string]*txtar.Archive{}
	for _, l := range launches(t) {
		res, err := d.Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
			continue
		}
		got := Summary(l.Program, res.Args)
		section := strings.Replace(l.Section, "in", "out", 1)
		if !*update {
			if want := corpus.Section(l.File, section); got != want {
				t.Errorf("%s, section %s:\n got %s\nwant %s", l.File, section, got, want)
			}
			continue
		}
		a := archives[l.File]
		if a == nil {
			a = corpus.Get(l.File)
			archives[l.File] = a
		}
		set(a, section, l.Section, got)
	}
	for name, a := range archives {
		path := filepath.Join("..", "..", "vm", "corpus", name+".txtar")
		if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// set replaces a section, or adds it after another.
func set(a *txtar.Archive, name, after, data string) {
	for i := range a.Files {
		if a.Files[i].Name == name {
			a.Files[i].Data = []byte(data)
			return
		}
	}
	for i := range a.Files {
		if a.Files[i].Name == after {
			rest := append([]txtar.File{{Name: name, Data: []byte(data)}}, a.Files[i+1:]...)
			a.Files = append(a.Files[:i+1:i+1], rest...)
			return
		}
	}
}

// same requires equal bits in all arrays of two results.
func same(t *testing.T, l Launch, what string, got, want []ir.Arg) {
	t.Helper()
	for i := range want {
		if want[i].Array == nil {
			continue
		}
		if r := array.Compare(got[i].Array, want[i].Array); !bytes.Equal(got[i].Array.Data, want[i].Array.Data) {
			t.Errorf("%s, %s, argument %s: %v", l.Name, what, l.Program.Params[i].Name, r)
		}
	}
}

// TestSimulatorAgrees runs the lowered code of every target, specialised on
// divisibility and not, with and without thread-code passes.
func TestSimulatorAgrees(t *testing.T) {
	ref := open(t, "interp")
	for _, l := range launches(t) {
		want, err := ref.Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
			continue
		}
		for _, target := range []string{"sm_80", "sm_90a", "sm_100a"} {
			if !l.Runs(target) || target == "sm_100a" && l.Needs != target {
				continue
			}
			for _, o := range []compile.Options{
				{Arch: target}, {Arch: target, NoOpt: true}, {Arch: target, Divisible: compile.Divisors(l.Program, l.Args)},
			} {
				what := fmt.Sprintf("%s, passes %v, divisible %v", target, !o.NoOpt, o.Divisible)
				got, err := simulate(l, o)
				if err != nil {
					t.Errorf("%s, %s: %v", l.Name, what, err)
					continue
				}
				same(t, l, what, got, want.Args)
			}
		}
		res, err := open(t, "sim:"+l.Target(compile.DefaultArch)).Run(context.Background(), l.Program, l.Args)
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
			continue
		}
		same(t, l, "device sim", res.Args, want.Args)
	}
}

// simulate runs one compilation on the simulator, past gpu/device, which would
// choose the options itself.
func simulate(l Launch, o compile.Options) ([]ir.Arg, error) {
	return simulateIn(l, o, sim.Options{})
}

func simulateIn(l Launch, o compile.Options, how sim.Options) ([]ir.Arg, error) {
	c, err := compile.Program(l.Program, o)
	if err != nil {
		return nil, err
	}
	return simulateWith(l, c.Func, how)
}

// simulateCode runs thread code of a launch's program.
func simulateCode(l Launch, f *code.Func) ([]ir.Arg, error) {
	return simulateWith(l, f, sim.Options{})
}

func simulateWith(l Launch, f *code.Func, o sim.Options) ([]ir.Arg, error) {
	grid := [3]int{1, 1, 1}
	vars := map[string]int64{}
	in := make([]sim.Arg, len(l.Args))
	out := make([]ir.Arg, len(l.Args))
	for i, a := range l.Args {
		out[i] = a
		switch v := l.Program.Params[i]; {
		case a.Array != nil:
			out[i].Array = a.Array.Clone()
			in[i].Buffer = append(append([]byte(nil), a.Array.Data...), make([]byte, 16)...)
		case v.Type.Elem.IsFloat():
			in[i].Bits = v.Type.Elem.Encode(a.Float, false)
		default:
			in[i].Bits = uint64(a.Int)
			vars[v.Name] = a.Int
		}
	}
	for i, e := range f.Launch.Grid {
		n, err := e.Eval(vars)
		if err != nil {
			return nil, err
		}
		grid[i] = int(n)
	}
	if _, err := sim.Run(context.Background(), f, sim.Launch{Grid: grid, Args: in}, o); err != nil {
		return nil, err
	}
	for i := range out {
		if out[i].Array != nil {
			copy(out[i].Array.Data, in[i].Buffer)
		}
	}
	return out, nil
}
