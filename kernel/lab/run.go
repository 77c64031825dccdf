package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// DeviceEnv is the environment variable that names the device of [Run] until
// [Device] is called.
const DeviceEnv = "TILUS_LAB_DEVICE"

// machine is what this process has opened. Devices stay open: they remember
// compiled programs.
var machine struct {
	mu     sync.Mutex
	chosen string
	open   map[string]device.Device
}

func open(name string) (device.Device, error) {
	machine.mu.Lock()
	defer machine.mu.Unlock()
	if d := machine.open[name]; d != nil {
		return d, nil
	}
	d, err := device.Open(name)
	if err != nil {
		return nil, err
	}
	if machine.open == nil {
		machine.open = map[string]device.Device{}
	}
	machine.open[name] = d
	return d, nil
}

func chosen() string {
	machine.mu.Lock()
	defer machine.mu.Unlock()
	switch {
	case machine.chosen != "":
		return machine.chosen
	case os.Getenv(DeviceEnv) != "":
		return os.Getenv(DeviceEnv)
	}
	return "auto"
}

// Device sets where [Run] runs from now on: "interp", "sim" (or "sim:sm_80"),
// "cuda" (or "cuda:1"), or "auto", which is the first GPU where there is one and
// the interpreter elsewhere.
func Device(name string) error {
	if _, err := open(name); err != nil {
		return err
	}
	machine.mu.Lock()
	defer machine.mu.Unlock()
	machine.chosen = name
	return nil
}

// Result is what a launch gave. As text it names the device and the times in
// milliseconds, and has what the program printed and the outputs.
type Result struct {
	Program  string
	Device   string           // "interp", "sim", "cuda:0"
	Title    string           // "reference interpreter", "NVIDIA H200"
	Compile  time.Duration    // program to PTX; 0 where it was remembered, or not needed
	JIT      time.Duration    // PTX to machine code, by the driver
	Exec     time.Duration    // the launch itself
	Counters map[string]int64 // what the simulator counted
	Printed  string           // what Print and PrintTensor printed, the same on all devices
	Names    []string         // parameters that the program stores to
	arrays   map[string]*array.Array
}

// Run runs a program on the chosen device (see [Device]). There is one argument
// for each parameter: an array, or text that [Gen] makes one from, for a
// pointer; an int, float64 or bool for a scalar. Arguments are copied; what the
// program stored is in the result.
func Run(p *ir.Program, args ...any) (*Result, error) { return RunOn(chosen(), p, args...) }

// RunOn is [Run] on a device of a given name.
func RunOn(name string, p *ir.Program, args ...any) (*Result, error) {
	if p == nil {
		return nil, errors.New("lab: there is no program")
	}
	launch, err := launchArgs(p, args)
	if err != nil {
		return nil, err
	}
	return run(Context(), name, p, launch)
}

func run(ctx context.Context, name string, p *ir.Program, args []ir.Arg) (*Result, error) {
	d, err := open(name)
	if err != nil {
		return nil, err
	}
	got, err := debugged(ctx, d, p, args)
	if got == nil && err == nil {
		got, err = d.Run(ctx, p, args)
	}
	if err != nil {
		var hung *device.Unended
		if h := hooks.Load(); h != nil && h.Unended != nil && errors.As(err, &hung) {
			h.Unended(err)
		}
		return nil, err
	}
	r := &Result{Program: p.Name, Device: got.Device, Title: d.Describe().Title, Compile: got.Compile, JIT: got.JIT, Exec: got.Exec,
		Counters: got.Counters, Printed: got.Printed, arrays: map[string]*array.Array{}}
	for i, v := range p.Params {
		if v.Type.Kind == ir.Pointer {
			r.arrays[v.Name] = got.Args[i].Array
		}
	}
	for _, i := range outputs(p) {
		r.Names = append(r.Names, p.Params[i].Name)
	}
	return r, nil
}

// Out is the array of a pointer parameter after the launch. A name that the
// program has not ends the cell with an error.
func (r *Result) Out(name string) *array.Array {
	a, ok := r.arrays[name]
	if !ok {
		var known []string
		for n := range r.arrays {
			known = append(known, n)
		}
		sort.Strings(known)
		help := fmt.Sprintf("; it has %s", strings.Join(known, ", "))
		if s := diag.Suggest(name, known); s != "" {
			help = fmt.Sprintf("; did you mean %s?", s)
		}
		panic(fmt.Errorf("lab: %s has no pointer parameter %q%s", r.Program, name, help))
	}
	return a
}

// Times is the line about device and times.
func (r *Result) Times() string {
	s := fmt.Sprintf("%s on %s (%s): ", r.Program, r.Device, r.Title)
	if r.Compile > 0 {
		s += "compiled in " + milliseconds(r.Compile) + ", "
	}
	if r.JIT > 0 {
		s += "JIT " + milliseconds(r.JIT) + ", "
	}
	return s + "ran in " + milliseconds(r.Exec)
}

// String is Times and the outputs by name.
func (r *Result) String() string {
	if r == nil {
		return "<nil>" // beside an error
	}
	var b strings.Builder
	b.WriteString(r.Times())
	if r.Printed != "" {
		b.WriteString("\n" + strings.TrimSuffix(r.Printed, "\n"))
	}
	for _, name := range r.Names {
		fmt.Fprintf(&b, "\n%s = %s", name, r.arrays[name])
	}
	return b.String()
}

// milliseconds always has the same form, so that a notebook's mask finds it.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.3f ms", float64(d.Nanoseconds())/1e6)
}
