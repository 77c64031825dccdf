package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cost"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/gpu/lower/exchange"
	"github.com/tilus-lab/tilus-lab/gpu/opt"
	"github.com/tilus-lab/tilus-lab/kernel/lab"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/pass"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func newRun() *cobra.Command {
	var defs, argv, outs []string
	var dev, compare string
	var counters, sanitize bool
	cmd := &cobra.Command{
		Use:   "run FILE --arg NAME=VALUE…",
		Short: "Run a program on the interpreter, the simulator or a GPU",
		Long: `Run a program. FILE is program text, or the name of an example program.

Each parameter gets one --arg. A pointer takes an array: a generator such as
randn:f16[64, 32]:seed=1, zeros:f32[16, 8] or iota:i32[8], a .npy file, or an array of a
.safetensors file (model.safetensors:NAME, or the index of several), with ":type[shape]"
behind it where the file's own type is not meant (w.npy:i6[64, 32]).
A scalar takes a number.

An interrupt (Ctrl-C) ends the launch and says at which line it stood.

The device is interp (the reference interpreter), sim (the simulator, or sim:sm_80
for another target), cuda (a GPU, or cuda:1), or auto: a GPU where there is one.

With --sanitize the launch is searched for mistakes instead: the interpreter runs it,
and the simulator runs its code as written and after the passes. They find accesses
out of bounds or not aligned, reads of what nobody wrote, races in shared and global
memory, missing waits for copies, wrong barriers, deadlock, overflow and division by
zero, each at its line; the exit status is then 1. "tilus-lab explain CODE" has more.`,
		Example: `  tilus-lab run vector_add --arg x=iota:f32[1000] --arg y=ones:f32[1000] --arg z=zeros:f32[1000] --arg n=1000
  tilus-lab run matmul.tile --device sim --compare interp --arg a=x.npy --arg b=w.npy:u8[4, 1, 96] … --out c=y.npy`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bind, err := bindings(defs)
			if err != nil {
				return err
			}
			p, err := loadProgram(cmd, args[0], bind)
			if err != nil {
				return err
			}
			launch, err := programArgs(p, argv)
			if err != nil {
				return err
			}
			for _, o := range outs {
				if err := onlyFile("--out", o[strings.Index(o, "=")+1:], ".npy file", "outputs are printed in any case"); err != nil {
					return err
				}
			}
			if counters && dev == "auto" && !simulates(compare) {
				dev = "sim"
			}
			if counters && !simulates(dev) && !simulates(compare) {
				return usageError{errors.New("--counters prints what the simulator counted; add --device sim, or --compare sim")}
			}
			defer interruptible(cmd)()
			if sanitize {
				for _, name := range []string{"out", "compare", "counters"} {
					if cmd.Flags().Changed(name) {
						return usageError{fmt.Errorf("--sanitize only searches for mistakes; leave --%s out", name)}
					}
				}
				return sanitized(cmd.OutOrStdout(), dev, p, launch)
			}
			r, err := lab.RunOn(dev, p, launch...)
			if err != nil {
				return explainDevice(err)
			}
			if err := saveOutputs(r, outs); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintln(out, r)
			if counters {
				printCounters(out, r.Counters)
			}
			if compare == "" {
				return nil
			}
			with, err := lab.RunOn(compare, p, launch...)
			if err != nil {
				return fmt.Errorf("on %s: %w", compare, explainDevice(err))
			}
			if counters && len(r.Counters) == 0 {
				printCounters(out, with.Counters)
			}
			return compareResults(out, r, with)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dev, "device", "auto", "`DEVICE` to run on: interp, sim, cuda or auto")
	f.StringArrayVar(&argv, "arg", nil, "argument `NAME=VALUE` of a parameter")
	f.StringArrayVar(&outs, "out", nil, "save an output, `[NAME=]FILE.npy`; the name may be left out when there is one output")
	f.StringVar(&compare, "compare", "", "run on a second `DEVICE` too; different bits make the exit status 1")
	f.BoolVar(&sanitize, "sanitize", false, "search the launch for mistakes, on interp and sim")
	f.BoolVar(&counters, "counters", false, "print what the simulator counted")
	addBindings(cmd, &defs)
	return cmd
}

// interruptible lets the first interrupt from the keyboard end launches where they stand, and a
// second one the process, until end is called.
func interruptible(cmd *cobra.Command) (end func()) {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	context.AfterFunc(ctx, stop)
	detach := lab.Attach(lab.Hooks{Context: func() context.Context { return ctx }})
	return func() { detach(); stop() }
}

// simulates reports a device that is the simulator.
func simulates(dev string) bool {
	kind, _, _ := strings.Cut(dev, ":")
	return kind == "sim"
}

// sanitized prints what the machines find in a launch.
func sanitized(w io.Writer, dev string, p *ir.Program, args []any) error {
	kind, target, _ := strings.Cut(dev, ":")
	if kind != "sim" && kind != "auto" {
		return usageError{fmt.Errorf("--sanitize runs on the interpreter and the simulator; leave --device %s out, or name a target with --device sim:sm_80", dev)}
	}
	findings, err := lab.Sanitize(target, p, args...)
	if err != nil {
		return err
	}
	found := false
	for _, f := range findings {
		if len(f.Problems) == 0 {
			fmt.Fprintf(w, "%s: nothing found\n", f.Machine)
			continue
		}
		found = true
		fmt.Fprintf(w, "%s: %v\n", f.Machine, f.Problems)
	}
	if found {
		return silent(1)
	}
	return nil
}

// programArgs puts NAME=VALUE arguments in the order of the parameters.
func programArgs(p *ir.Program, argv []string) ([]any, error) {
	given := map[string]string{}
	var names []string
	for _, v := range p.Params {
		names = append(names, v.Name)
	}
	for _, a := range argv {
		name, value, ok := strings.Cut(a, "=")
		if name = strings.TrimSpace(name); !ok {
			return nil, usageError{fmt.Errorf("--arg %s gives no value; write --arg NAME=VALUE", a)}
		}
		if p.Param(name) == nil {
			help := "; it has " + strings.Join(names, ", ")
			if near := diag.Suggest(name, names); near != "" {
				help = "; did you mean " + near + "?"
			}
			return nil, usageError{fmt.Errorf("%s has no parameter %s%s", p.Name, name, help)}
		}
		if _, twice := given[name]; twice {
			return nil, usageError{fmt.Errorf("--arg %s is given twice", name)}
		}
		given[name] = strings.TrimSpace(value)
	}
	out := make([]any, 0, len(p.Params))
	var missing []string
	for _, v := range p.Params {
		value, ok := given[v.Name]
		if !ok {
			missing = append(missing, fmt.Sprintf("%s: %s", v.Name, v.Type))
			continue
		}
		x, err := argument(v, value, array.FromSpec)
		if err != nil {
			return nil, inFlag("--arg "+v.Name, value, err)
		}
		out = append(out, x)
	}
	if len(missing) > 0 {
		return nil, usageError{fmt.Errorf("%s also needs --arg for %s", p.Name, strings.Join(missing, ", "))}
	}
	return out, nil
}

// inFlag says of which flag's value an error is. Problems in the value keep their places in it.
func inFlag(flag, value string, err error) error {
	var list diag.List
	if !errors.As(err, &list) {
		return fmt.Errorf("%s=%s: %w", flag, value, err)
	}
	for i := range list {
		name := flag
		if file := list[i].Pos.File; file != "" {
			name += "=" + file
		}
		list[i].Pos.File = name
	}
	return list
}

// argument reads the text of one argument; makeArray makes arrays.
func argument(v *ir.Var, value string, makeArray func(spec string) (*array.Array, error)) (any, error) {
	t := v.Type.Elem
	switch {
	case v.Type.Kind == ir.Pointer:
		a, err := makeArray(value)
		if err == nil && a.Type != t {
			err = fmt.Errorf("the array is %s, the parameter points to %s; a file's bytes can be read as another type with FILE.npy:%s[…]", a.Header(), t, t)
		}
		return a, err
	case t == dtype.Bool:
		b, err := strconv.ParseBool(value)
		return b, notA("true or false", value, err)
	case t.IsFloat():
		x, err := strconv.ParseFloat(value, 64)
		return x, notA("a number", value, err)
	}
	n, err := strconv.ParseInt(value, 0, 0)
	if errors.Is(err, strconv.ErrRange) || err == nil && !ir.CheckRange(t, n) {
		return nil, fmt.Errorf("%s is %s, which holds %s to %s", v.Name, t, t.Format(t.MinCode()), t.Format(t.MaxCode()))
	}
	return int(n), notA("a whole number", value, err)
}

// notA says in our words what strconv says in its own.
func notA(what, value string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s does not fit 64 bits", value)
	}
	return fmt.Errorf("%q is not %s", value, what)
}

// explainDevice adds what can be done where there is no GPU.
func explainDevice(err error) error {
	if errors.Is(err, device.ErrNoGPU) {
		return fmt.Errorf("%w; --device interp and --device sim run on every machine", err)
	}
	return err
}

func saveOutputs(r *lab.Result, outs []string) error {
	for _, o := range outs {
		name, path, ok := strings.Cut(o, "=")
		if !ok {
			if len(r.Names) != 1 {
				return usageError{fmt.Errorf("--out %s: the program stores to %s; write --out NAME=FILE.npy", o, strings.Join(r.Names, ", "))}
			}
			name, path = r.Names[0], o
		}
		found := false
		for _, n := range r.Names {
			found = found || n == name
		}
		if !found {
			return usageError{fmt.Errorf("--out %s: the program stores to %s", o, strings.Join(r.Names, ", "))}
		}
		if err := r.Out(name).Save(path); err != nil {
			return err
		}
	}
	return nil
}

func printCounters(w io.Writer, counters map[string]int64) {
	names := make([]string, 0, len(counters))
	for n := range counters {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Fprintf(w, "%-24s %d\n", n, counters[n])
	}
}

// compareResults prints how the outputs of two runs differ, bit by bit.
func compareResults(w io.Writer, a, b *lab.Result) error {
	fmt.Fprintln(w, b.Times())
	n, differ := 0, 0
	for _, name := range a.Names {
		report := array.Compare(a.Out(name), b.Out(name))
		n, differ = n+report.N, differ+report.Differ
		if !report.Equal() {
			fmt.Fprintf(w, "%s: %s\n", name, report)
		}
	}
	sign := "="
	if differ > 0 {
		sign = "≠"
	}
	if _, err := fmt.Fprintf(w, "%s %s %s, %d of %d differ\n", a.Device, sign, b.Device, differ, n); err != nil {
		return err
	}
	if differ > 0 {
		return silent(1)
	}
	return nil
}

// loadFor reads a program with its bindings, NAME=VALUE each, once the target is
// known to be one.
func loadFor(cmd *cobra.Command, target, file string, defs []string) (*ir.Program, error) {
	bind, err := bindings(defs)
	if err != nil {
		return nil, err
	}
	if err := tellTarget(cmd, target); err != nil {
		return nil, err
	}
	return loadProgram(cmd, file, bind)
}

// tellTarget finds targets that there are not, and tells where code is for another than the one that is asked for.
func tellTarget(cmd *cobra.Command, target string) error {
	of, err := arch.Lookup(target)
	if err != nil {
		return usageError{err}
	}
	if of.Name != target {
		fmt.Fprintf(cmd.ErrOrStderr(), "--arch %s: the code is for %s, the newest target that runs there\n", target, of.Name)
	}
	return nil
}

// emits are the forms that lower prints.
var emits = []string{"program", "code", "ptx", "cuda", "stats", "steps"}

func newLower() *cobra.Command {
	var defs, assume []string
	var emit, target, out string
	var noOpt, stats, dump bool
	cmd := &cobra.Command{
		Use:   "lower FILE",
		Short: "Show the code that a program becomes",
		Long: `Lower a program for a target and print it: as a program after the passes, as thread
code, as PTX (what the driver takes), as CUDA C++ (for reading), its statistics, or
every step on the way. FILE may be the name of an example program.

What is known of the arguments makes better code: --assume K%16 says that the
parameter K is a multiple of 16. Launches find that out by themselves.

--dump-passes prints what each pass over the program and its code changes, and why
the pass is there.`,
		Example: `  tilus-lab lower matmul_f16_i6 --emit ptx --arch sm_80 --assume K%16 --assume N%8
  tilus-lab lower matmul.tile --emit cuda -o matmul.cu
  tilus-lab lower decode_u4 --stats`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := loadFor(cmd, target, args[0], defs)
			if err != nil {
				return err
			}
			divisible, err := assumptions(p, assume)
			if err != nil {
				return err
			}
			if stats {
				emit = "stats"
			}
			if dump {
				result, err := passDiffs(p, compile.Options{Arch: target, Divisible: divisible, NoOpt: noOpt})
				if err != nil {
					return err
				}
				return write(cmd, out, []byte(result))
			}
			result, err := lowered(p, emit, compile.Options{Arch: target, Divisible: divisible, Verified: true, NoOpt: noOpt})
			if err != nil {
				return err
			}
			return write(cmd, out, []byte(result))
		},
	}
	f := cmd.Flags()
	f.StringVar(&emit, "emit", "ptx", "what to print: "+strings.Join(emits, ", "))
	f.StringVar(&target, "arch", compile.DefaultArch, "`TARGET`: "+strings.Join(arch.Names(), ", "))
	f.StringArrayVar(&assume, "assume", nil, "a number that divides a parameter, `NAME%N`")
	f.StringVarP(&out, "output", "o", "-", "write to `FILE`")
	f.BoolVar(&stats, "stats", false, "count what a turn of each loop takes, as --emit stats does")
	f.BoolVar(&dump, "dump-passes", false, "print what each pass changes, as a diff")
	f.BoolVar(&noOpt, "no-opt", false, "leave out the passes over thread code")
	addBindings(cmd, &defs)
	return cmd
}

// passDiffs is what each pass changes, with its reason.
func passDiffs(p *ir.Program, o compile.Options) (string, error) {
	var why []string
	for _, q := range pass.Passes() {
		why = append(why, q.Doc)
	}
	why = append(why, "") // lowering
	for _, q := range opt.Passes() {
		why = append(why, q.Why)
	}
	var b strings.Builder
	before, n := "", -1 // the program itself comes first
	o.Dump = func(step, dump string) {
		switch {
		case n >= 0 && step == "lower":
			fmt.Fprintf(&b, "// ---- %d %s: %d lines of thread code\n", n+1, step, strings.Count(dump, "\n"))
		case n >= 0:
			fmt.Fprintf(&b, "// ---- %d %s: %s\n", n+1, step, why[n])
			if changes := diff.Diff("before "+step, []byte(before), "after "+step, []byte(dump)); len(changes) > 0 {
				b.Write(changes)
			} else {
				b.WriteString("// changes nothing\n")
			}
		}
		before, n = dump, n+1
	}
	_, err := compile.Program(p, o)
	return b.String(), err
}

// assumptions reads NAME%N.
func assumptions(p *ir.Program, assume []string) (map[string]int64, error) {
	out := map[string]int64{}
	for _, a := range assume {
		name, number, ok := strings.Cut(a, "%")
		name = strings.TrimSpace(name)
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if !ok || err != nil || n < 1 {
			return nil, usageError{fmt.Errorf("--assume %s is not of the form NAME%%N, such as K%%16", a)}
		}
		v := p.Param(name)
		if v == nil || v.Type.Kind != ir.Scalar || !v.Type.Elem.IsInt() {
			var names []string
			for _, v := range p.Params {
				if v.Type.Kind == ir.Scalar && v.Type.Elem.IsInt() {
					names = append(names, v.Name)
				}
			}
			return nil, usageError{fmt.Errorf("--assume %s: %s has no integer parameter %s (it has %s)", a, p.Name, name, strings.Join(names, ", "))}
		}
		out[name] = n
	}
	return out, nil
}

// lowered is the program in one of the forms of `lower --emit`.
func lowered(p *ir.Program, emit string, o compile.Options) (string, error) {
	var steps strings.Builder
	o.Dump = func(step, dump string) {
		fmt.Fprintf(&steps, "// ---- %s\n%s\n", step, strings.TrimRight(dump, "\n"))
	}
	c, err := compile.Program(p, o)
	if err != nil {
		return "", err
	}
	switch emit {
	case "program":
		return text.Format(c.Program), nil
	case "code":
		return code.Format(c.Func), nil
	case "ptx":
		return c.PTX()
	case "cuda":
		return c.CUDA(), nil
	case "stats":
		report := cost.Report(c.Func)
		if moved := exchange.Report(c.Program); moved != "" {
			report += "\n" + moved
		}
		return report, nil
	case "steps":
		return steps.String(), nil
	}
	err = fmt.Errorf("--emit %s is not one of %s", emit, strings.Join(emits, ", "))
	if near := diag.Suggest(emit, emits); near != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return "", usageError{err}
}
