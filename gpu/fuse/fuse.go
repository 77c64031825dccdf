// Package fuse takes a fusion from its text to kernels and tells everything about it on the
// way: how its elements are indexed, which functions its instructions stand in, which
// kernels it becomes and why, what each thread handles, what memory is asked for, and the
// code at every level. Command line, cells and explorer show what it says.
package fuse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/emit"
	"github.com/tilus-lab/tilus-lab/gpu/ptx"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
	"github.com/tilus-lab/tilus-lab/gpu/traffic"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/eval"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
	"github.com/tilus-lab/tilus-lab/vm/hlo/part"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// Fusion is a module as kernels of a device.
type Fusion struct {
	Module  *hlo.Module
	Device  plan.Device
	Program *emit.Program
	Traffic traffic.Report
	Took    time.Duration // from text, or the module, to thread code
}

// DefaultDevice is the GPU that is planned for where none is named.
const DefaultDevice = "h200_sxm"

// Read reads HLO text and compiles its entry for a device, "" for [DefaultDevice]. What is
// wrong with the text is a diag.List with positions in file.
func Read(file, text, device string) (*Fusion, error) {
	start := time.Now()
	m, err := hlo.Parse(file, text)
	if err != nil {
		return nil, err
	}
	parsed := time.Since(start)
	f, err := Compile(m, device)
	if err != nil {
		return nil, err
	}
	f.Took += parsed
	return f, nil
}

// Compile is [Read] of a module.
func Compile(m *hlo.Module, device string) (*Fusion, error) {
	if device == "" {
		device = DefaultDevice
	}
	d, err := plan.FindDevice(device)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	p, err := emit.Compile(m, emit.Options{Device: d})
	if err != nil {
		return nil, err
	}
	f := &Fusion{Module: m, Device: d, Program: p, Took: time.Since(start)}
	if f.Traffic, err = traffic.Of(p); err != nil {
		return nil, err
	}
	return f, nil
}

// Views are the names that [Fusion.View] takes, with what each tells.
func Views() []struct{ Name, Doc string } {
	return []struct{ Name, Doc string }{
		{"plan", "kernels, buffers, and why"},
		{"maps", "which elements results are made of, and which each thread handles"},
		{"partition", "the functions of each kernel"},
		{"cost", "what memory is asked for, predicted from the maps"},
		{"tensor", "kernels as steps on tensors"},
		{"code", "thread code"},
		{"ptx", "PTX"},
	}
}

// View is the text of one of [Views].
func (f *Fusion) View(name string) (string, error) {
	switch name {
	case "plan":
		return f.Plan(), nil
	case "maps":
		return f.Maps(), nil
	case "partition":
		return f.Partition(), nil
	case "cost":
		return f.Cost(), nil
	case "tensor":
		return f.Tensor(), nil
	case "code":
		return f.Code(), nil
	case "ptx":
		return f.PTX()
	}
	return "", fmt.Errorf("fuse: there is no view %q", name)
}

// Plan tells the kernels with their buffers, why they are as they are, and the launches that
// they become: the plan's is what its thread maps are of; the emitter may divide the same
// work among other threads, and what it makes is what runs.
func (f *Fusion) Plan() string {
	var b strings.Builder
	for i, text := range strings.Split(f.Program.Plan.String(), "\nkernel ") {
		if i > 0 {
			b.WriteString("kernel ")
		}
		b.WriteString(strings.Replace(strings.TrimSuffix(text, "\n"), "\n  launch   ", "\n  planned  ", 1))
		b.WriteByte('\n')
		if i < len(f.Program.Kernels) {
			k := f.Program.Kernels[i].Tensor
			tiles := ""
			if n := f.Program.Kernels[i].Code.Launch.SharedBytes; n > 0 {
				tiles = fmt.Sprintf(", %d bytes of shared memory", n)
			}
			fmt.Fprintf(&b, "  emitted  %d × %d × %d blocks of %d threads%s", max(1, k.Blocks[0]), max(1, k.Blocks[1]), max(1, k.Blocks[2]), k.Threads, tiles)
			plan := f.Program.Plan.Kernels[i]
			switch ratio := float64(threads(k.Blocks, k.Threads)) / float64(threads(plan.Blocks, plan.Threads)); {
			case ratio != 1:
				fmt.Fprintf(&b, "; these run, with %.3g times the planned threads", ratio)
			case k.Threads != plan.Threads:
				b.WriteString("; these run, the planned threads in other blocks")
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// threads is how many a launch has.
func threads(blocks [3]int, each int) int {
	return max(1, blocks[0]) * max(1, blocks[1]) * max(1, blocks[2]) * each
}

// Cost tells what the kernels ask of memory.
func (f *Fusion) Cost() string { return f.Traffic.String() }

// Tensor is the kernels as steps on tensors, which are values there.
func (f *Fusion) Tensor() string {
	var b strings.Builder
	for _, k := range f.Program.Kernels {
		b.WriteString(k.Tensor.String())
	}
	return b.String()
}

// Code is the thread code of the kernels.
func (f *Fusion) Code() string {
	var b strings.Builder
	for _, k := range f.Program.Kernels {
		b.WriteString(code.Format(k.Code))
	}
	return b.String()
}

// PTX is what the driver takes, a module for each kernel.
func (f *Fusion) PTX() (string, error) {
	var b strings.Builder
	for _, k := range f.Program.Kernels {
		text, err := ptx.Print(k.Code, ptx.Options{Arch: "sm_90a"})
		if err != nil {
			return "", fmt.Errorf("fuse: kernel %s: %w", k.Name, err)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// maxProved bounds the points that are looked at to prove that every element is written.
const maxProved = 1 << 20

// Maps tells which elements of the parameters each element of a result is made of, and
// which elements each thread reads and writes.
func (f *Fusion) Maps() string {
	var b strings.Builder
	c := f.Program.Flat
	for _, r := range c.Roots() {
		sets := index.Group(c, r)
		for _, p := range c.Params {
			if len(sets[p]) == 0 {
				continue
			}
			fmt.Fprintf(&b, "%s reads %s\n", r.Name, p.Name)
			for _, x := range sets[p] {
				fmt.Fprintf(&b, "  %s\n", x)
			}
		}
	}
	for i, k := range f.Traffic.Kernels {
		fmt.Fprintf(&b, "%s, %d threads in a block\n", k.Name, f.Program.Kernels[i].Tensor.Threads)
		shifts := map[string][]string{}
		for _, a := range k.Accesses {
			shifts[form(a)] = append(shifts[form(a)], shift(a))
		}
		for _, a := range k.Accesses {
			list := shifts[form(a)]
			if list == nil {
				continue
			}
			delete(shifts, form(a))
			fmt.Fprintf(&b, "  %s %s%s\n    %s\n", a.Kind, a.Tensor, dims(a.Shape), a.Map)
			if len(list) > 1 {
				more := "other constants"
				if len(list) <= 9 {
					more = strings.Join(list[1:], ", ")
				}
				fmt.Fprintf(&b, "    and %d more, with %s for %s\n", len(list)-1, more, list[0])
			}
		}
		for _, t := range f.Program.Kernels[i].Tensor.Args {
			if t.Role != emit.Write || t.Shape.Elements() > maxProved {
				continue
			}
			if n, err := Once(k, t); err != nil {
				fmt.Fprintf(&b, "  %s: %s\n", t.Name, strings.TrimPrefix(err.Error(), "fuse: "))
			} else {
				fmt.Fprintf(&b, "  every element of %s is written once: proved at %d points\n", t.Name, n)
			}
		}
	}
	return b.String()
}

// form is what accesses of an unrolled loop share: all but the constants of their places.
func form(a traffic.Access) string {
	text := fmt.Sprint(a.Kind, a.Tensor, a.Vector)
	for _, e := range a.Map.Results {
		c, _ := e.Terms()
		text += " " + e.AddConst(-c).String()
	}
	return text
}

// shift is the constants of the place of an access.
func shift(a traffic.Access) string {
	var out []string
	for _, e := range a.Map.Results {
		c, _ := e.Terms()
		out = append(out, fmt.Sprint(c))
	}
	return "(" + strings.Join(out, ", ") + ")"
}

func dims(s hlo.Shape) string { return strings.ReplaceAll(fmt.Sprint(s.Dims), " ", ",") }

// Once proves by enumeration that the threads of a kernel write every element of a tensor
// exactly once, and says at how many points.
func Once(k traffic.Kernel, t *emit.Tensor) (int, error) {
	seen := make([]bool, t.Shape.Elements())
	n := 0
	for _, a := range k.Accesses {
		if a.Kind != traffic.Write || a.Tensor != t.Name {
			continue
		}
		if len(a.Map.Runtime) > 0 {
			return 0, fmt.Errorf("fuse: where %s is written, only the running program knows", t.Name)
		}
		err := a.Map.Points(affine.MaxProof, func(_, _, at []int64) error {
			place := 0
			for i, x := range at {
				if x < 0 || int(x) >= t.Shape.Dims[i] {
					return fmt.Errorf("fuse: %v lies outside %s", at, t.Name)
				}
				place = place*t.Shape.Dims[i] + int(x)
			}
			if seen[place] {
				return fmt.Errorf("fuse: %v of %s is written twice", at, t.Name)
			}
			seen[place] = true
			n++
			return nil
		})
		if err != nil {
			return n, err
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		return n, fmt.Errorf("fuse: element %d of %s is not written", i, t.Name)
	}
	return n, nil
}

// Partition tells the functions that the instructions of each kernel stand in: what is
// read at one place belongs together, and nothing is computed twice for one index.
func (f *Fusion) Partition() string {
	var b strings.Builder
	for _, k := range f.Program.Plan.Kernels {
		c := k.Computation
		p := Parts(k)
		inline, why := p.Inlined()
		if slices.ContainsFunc(k.Heroes, func(h *hlo.Instruction) bool { return !slices.Contains(k.Roots, h) }) {
			p.Parts = append(p.Parts, part.Epilogue(c, k.Heroes, k.Roots, nil, nil))
			inline, why = append(inline, false), append(why, "by the kernel, with the values of its heroes")
		}
		fmt.Fprintf(&b, "%s\n", c.Name)
		for i, q := range p.Parts {
			note := "called: " + why[i]
			if inline[i] {
				note = "inlined: " + why[i]
			}
			if i == 0 {
				note = "called by the kernel"
			}
			s := part.SignatureOf(f.Module, c, q)
			fmt.Fprintf(&b, "  %s\n    %s\n", s, note)
			for _, in := range q.Instructions {
				at := ""
				if x, ok := q.Index[in]; ok {
					at = "    at " + x.String()
				}
				fmt.Fprintf(&b, "    %s%s\n", in, at)
			}
			for _, other := range p.Parts {
				if n := q.Calls[other]; n > 0 {
					fmt.Fprintf(&b, "    calls %s × %d\n", other.Name, n)
				}
			}
		}
	}
	return b.String()
}

// Parts is the partition of the computation of a kernel.
func Parts(k *plan.Kernel) *part.Partition {
	if k.Emitter == plan.LoopEmitter {
		return part.Split(k.Computation)
	}
	return part.WithHeroes(k.Computation, k.Heroes...)
}

// Comparison is a fusion run by its definition and by the simulator.
type Comparison struct {
	Results []Compared
	Kernels []Counted
}

// Counted is what a kernel asks of memory, predicted from its maps and counted by the
// simulator.
type Counted struct {
	Name             string
	Predicted, Found traffic.Counters
}

// Compared is one result.
type Compared struct {
	Name      string
	Want, Got *array.Array
	Report    array.Report
}

// Run computes the results of arguments by vm/hlo/eval, the definition, and by the kernels
// in the simulator, whose counters stand beside what the maps predict.
func (f *Fusion) Run(ctx context.Context, args []*array.Array) (*Comparison, error) {
	want, err := eval.Run(f.Module, args)
	if err != nil {
		return nil, err
	}
	p := f.Program
	data := make([][]byte, len(p.Buffers))
	for i := range p.Buffers {
		data[i] = p.Bytes(i, args)
	}
	c := &Comparison{}
	for i, k := range p.Kernels {
		launch := sim.Launch{}
		for axis, g := range k.Code.Launch.Grid {
			n, err := g.Eval(nil)
			if err != nil {
				return nil, fmt.Errorf("fuse: kernel %s: %w", k.Name, err)
			}
			launch.Grid[axis] = int(n)
		}
		for _, b := range k.Args {
			launch.Args = append(launch.Args, sim.Arg{Buffer: data[b]})
		}
		s, err := sim.Run(ctx, k.Code, launch, sim.Options{})
		if err != nil {
			return nil, fmt.Errorf("fuse: kernel %s: %w", k.Name, err)
		}
		c.Kernels = append(c.Kernels, Counted{k.Name, f.Traffic.Kernels[i].Counters(), traffic.Counted(s)})
	}
	for i, r := range p.Flat.Roots() {
		b := p.Results[i]
		got := emit.Unpack(p.Buffers[b].Shape, data[b])
		c.Results = append(c.Results, Compared{r.Name, want[i], got, array.Compare(got, want[i])})
	}
	return c, nil
}

// Worst is the greatest relative difference of a result in the norm of Frobenius.
func (c *Comparison) Worst() float64 {
	worst := 0.0
	for _, r := range c.Results {
		if r.Report.Differ > 0 {
			worst = max(worst, array.RelFro(r.Got, r.Want))
		}
	}
	return worst
}

func (c *Comparison) String() string {
	var b strings.Builder
	for _, r := range c.Results {
		if r.Report.Differ == 0 {
			fmt.Fprintf(&b, "%s: the simulator gives the bits of the definition in all %d elements\n", r.Name, r.Report.N)
		} else {
			fmt.Fprintf(&b, "%s: %d of %d elements differ, by %.2g of the norm\n", r.Name, r.Report.Differ, r.Report.N, array.RelFro(r.Got, r.Want))
		}
		fmt.Fprintf(&b, "%s\n", r.Got)
	}
	for _, k := range c.Kernels {
		fmt.Fprintf(&b, "%s  predicted from its maps, and counted by the simulator:\n", k.Name)
		found := k.Found.List()
		for i, x := range k.Predicted.List() {
			fmt.Fprintf(&b, "  %-22s %12d %12d\n", x.Name, x.N, found[i].N)
		}
	}
	return b.String()
}
