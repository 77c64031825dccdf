// Package compile is the one pipeline from a program to code for a device:
// verify, passes, lowering, thread-code passes, PTX. Devices, the command line
// and pictures all go through it, so that each step can be watched in one place.
package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/cudac"
	"github.com/tilus-lab/tilus-lab/gpu/lower"
	"github.com/tilus-lab/tilus-lab/gpu/opt"
	"github.com/tilus-lab/tilus-lab/gpu/ptx"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/pass"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// DefaultArch is the target where no device says otherwise.
const DefaultArch = "sm_90a"

// Alignment is what every array's address is a multiple of, in bytes; lowering
// makes wide accesses from it.
const Alignment = 256

// divisors are the numbers whose division of a launch's sizes is worth another
// compilation: 16 elements make the widest access of bytes whole.
const maxDivisor = 128

// Options choose what to compile for.
type Options struct {
	Arch string // target name; "" is DefaultArch
	// Divisible gives numbers that surely divide scalar parameters; see Divisors.
	Divisible map[string]int64
	// Verified says that [ir.Verify] has accepted the program as it is now, as text.Parse
	// sees to.
	Verified bool
	// NoOpt leaves the thread-code passes out.
	NoOpt bool
	// Stops asks for code in which every statement of the program can be stopped at: as
	// it is lowered, without what the passes over program and thread code do.
	Stops bool
	// Dump, if not nil, is called with the text after each step.
	Dump func(step, text string)
}

// Compiled is a program ready for a device.
type Compiled struct {
	Program   *ir.Program // after the passes
	Func      *code.Func
	Arch      arch.Arch
	Divisible map[string]int64
	Stops     []lower.Stop // for each stop of Func
	Elapsed   time.Duration

	ptx string // where it is known without printing
}

// Program compiles. Errors in the program are a diag.List.
func Program(p *ir.Program, o Options) (*Compiled, error) {
	start := time.Now()
	settle()
	if o.Arch == "" {
		o.Arch = DefaultArch
	}
	target, err := arch.Lookup(o.Arch)
	if err != nil {
		return nil, err
	}
	if !o.Verified {
		if err := ir.Verify(p).Err(); err != nil {
			return nil, err
		}
	}
	dump := o.Dump
	if dump == nil {
		dump = func(string, string) {}
	} else {
		dump("program", text.Format(p))
	}
	var passes pass.Options
	var stops *[]lower.Stop
	if o.Stops {
		o.NoOpt, passes.Skip, stops = true, []string{"fold", "dead"}, new([]lower.Stop)
	}
	p, err = pass.Run(p, passes, o.Dump)
	if err != nil {
		return nil, err
	}
	lowering := lower.Options{Arch: target, Divisible: o.Divisible, Stops: stops, Unchecked: !o.NoOpt && o.Dump == nil}
	f, err := lower.Lower(p, lowering)
	if err != nil {
		return nil, ours(err)
	}
	if o.Dump != nil {
		dump("lower", code.Format(f))
	}
	if lowering.Unchecked && opt.InPlace(f) != nil { // once more, to say whose mistake it is
		lowering.Unchecked = false
		if f, err = lower.Lower(p, lowering); err != nil {
			return nil, ours(err)
		}
	}
	if !o.NoOpt && !lowering.Unchecked {
		var seen opt.Observer
		if o.Dump != nil {
			seen = func(p opt.Pass, f *code.Func) { dump(p.Name, code.Format(f)) }
		}
		f, err = opt.Run(f, seen)
		if err != nil {
			return nil, fmt.Errorf("compile: %s: %w", p.Name, ours(err))
		}
	}
	c := &Compiled{Program: p, Func: f, Arch: target, Divisible: o.Divisible}
	if stops != nil {
		c.Stops = *stops
	}
	c.Elapsed = time.Since(start)
	return c, nil
}

// ours adds to problems of thread code that no program causes them.
func ours(err error) error {
	var list diag.List
	if errors.As(err, &list) {
		for i := range list {
			if strings.HasPrefix(list[i].Code, "Code.") {
				list[i].Help = "a mistake of Tilus Lab, not of the program: please report it; --device interp runs the program"
			}
		}
	}
	return err
}

// PTX is the code as the driver takes it.
func (c *Compiled) PTX() (string, error) {
	if c.ptx != "" {
		return c.ptx, nil
	}
	return ptx.Print(c.Func, ptx.Options{Arch: c.Arch.Name})
}

// Printed is c with its PTX, which [Compiled.PTX] then need not print each time.
func (c *Compiled) Printed() (*Compiled, error) {
	text, err := c.PTX()
	if err != nil {
		return nil, err
	}
	again := *c
	again.ptx = text
	return &again, nil
}

// CUDA is the code as CUDA C++, for reading.
func (c *Compiled) CUDA() string { return cudac.Print(c.Func) }

// Divisors gives, for each integer parameter, the largest power of two up to 128
// that divides its argument: what the launch may be specialised on.
func Divisors(p *ir.Program, args []ir.Arg) map[string]int64 {
	out := map[string]int64{}
	for i, v := range p.Params {
		if v.Type.Kind != ir.Scalar || v.Type.Elem.IsFloat() || v.Type.Elem == dtype.Bool || i >= len(args) {
			continue
		}
		n := args[i].Int
		d := min(n&-n, maxDivisor)
		if n == 0 {
			d = maxDivisor
		}
		if d > 1 {
			out[v.Name] = d
		}
	}
	return out
}

// Key names everything that the compiled code depends on within one process:
// program, target, and what was assumed.
func Key(p *ir.Program, o Options) string {
	h := sha256.New()
	// Each part is framed by its length, so that no two lists of parts run together.
	part := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	part(text.Format(p))
	part(o.Arch)
	for _, name := range slices.Sorted(maps.Keys(o.Divisible)) {
		part(name)
		part(strconv.FormatInt(o.Divisible[name], 10))
	}
	part(strconv.FormatBool(o.NoOpt))
	part(strconv.FormatBool(o.Stops))
	return hex.EncodeToString(h.Sum(nil))
}
