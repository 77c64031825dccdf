package device

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tilus-lab/tilus-lab/gpu/cuda"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// keeperEnv is the environment variable that makes a process a keeper of the GPU it names.
const keeperEnv = "TILUS_LAB_KEEPER"

// keeps says that this program becomes a keeper when it is asked to.
var keeps atomic.Bool

// Keeper lets devices and queues outlive a lost context. Some drivers give a process no other context once a program has broken one. A
// main function that calls Keeper first has them go on all the same: they start the executable again as a keeper, a process
// that holds the GPU for them, and in that process Keeper does not return. Without the call they
// fail until the process is started again.
func Keeper() {
	which, asked := os.LookupEnv(keeperEnv)
	if !asked {
		keeps.Store(true)
		return
	}
	signal.Ignore(os.Interrupt) // it is for who started this process
	in, out := os.Stdin, os.Stdout
	os.Stdout = os.Stderr
	orders := make(chan order)
	go func() {
		from := gob.NewDecoder(bufio.NewReader(in))
		for {
			var o order
			if err := from.Decode(&o); err != nil {
				os.Exit(0) // also where a launch goes on: nobody waits for it
			}
			orders <- o
		}
	}()
	if err := keep(orders, gob.NewEncoder(out), which); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// order is what a keeper is asked for: a launch, or something of its queue. Parameters that share
// an array share its number.
type order struct {
	Program string
	Arrays  []*array.Array
	Args    []argument
	Queue   *asked
}

// argument is one of ir.Arg: an array by its number, from 1 on, or a number.
type argument struct {
	Array int
	Int   int64
	Float float64
}

func newOrder(program string, args []ir.Arg) order {
	o := order{Program: program}
	for _, a := range args {
		x := argument{Int: a.Int, Float: a.Float}
		if a.Array != nil {
			if x.Array = slices.Index(o.Arrays, a.Array) + 1; x.Array == 0 {
				o.Arrays = append(o.Arrays, a.Array)
				x.Array = len(o.Arrays)
			}
		}
		o.Args = append(o.Args, x)
	}
	return o
}

// args are the arguments as a device takes them. It is an error where an array is not
// there, or has other bytes than its type and shape say.
func (o order) args() ([]ir.Arg, error) {
	for i, a := range o.Arrays {
		if err := array.CheckShape(a.Type, a.Shape...); err != nil {
			return nil, fmt.Errorf("device: array %d of a message to or from the process that holds the GPU: %w", i+1, err)
		}
		if n := dtype.PackedBytes(a.Type.Bits(), a.Len()); len(a.Data) != n {
			return nil, fmt.Errorf("device: array %d of a message to or from the process that holds the GPU has %d bytes; %s has %d", i+1, len(a.Data), a.Header(), n)
		}
	}
	out := make([]ir.Arg, len(o.Args))
	for i, a := range o.Args {
		out[i] = ir.Arg{Int: a.Int, Float: a.Float}
		switch {
		case a.Array < 0 || a.Array > len(o.Arrays):
			return nil, fmt.Errorf("device: argument %d of a message to or from the process that holds the GPU is array %d of %d", i+1, a.Array, len(o.Arrays))
		case a.Array > 0:
			out[i].Array = o.Arrays[a.Array-1]
		}
	}
	return out, nil
}

// answer is what became of an order, and first of all of opening the GPU.
type answer struct {
	Err    string
	Driver *cuda.Error // the driver's part of it
	Result Result      // of which Args is left out
	Given  order       // what the arguments are then
	Blamed []string    // by a queue that has lost its context
	Queue  given
}

// keep serves a GPU until a program breaks its context, whose process is of no use then.
func keep(orders <-chan order, to *gob.Encoder, which string) error {
	d, err := openCUDA(which)
	if e := to.Encode(answered(nil, err)); err != nil || e != nil {
		return e
	}
	var queue *served
	for o := range orders {
		var a answer
		if o.Queue != nil {
			if queue == nil {
				queue = newServed(d.(*gpu))
			}
			told, err := queue.do(o.Queue)
			a = answered(nil, err)
			a.Queue = told
		} else {
			var res *Result
			p, err := text.Parse("keeper", o.Program, nil)
			var args []ir.Arg
			if err == nil {
				args, err = o.args()
			}
			if err == nil {
				res, err = d.Run(context.Background(), p, args)
			}
			a = answered(res, err)
		}
		if err := to.Encode(a); err != nil {
			return err
		}
		if a.Driver != nil && a.Driver.Sticky() {
			break
		}
	}
	return nil
}

func answered(res *Result, err error) answer {
	var a answer
	if err != nil {
		a.Err = err.Error()
		errors.As(err, &a.Driver)
		if lost := (*Lost)(nil); errors.As(err, &lost) {
			a.Blamed = lost.Programs
		}
	}
	if res != nil {
		a.Given, a.Result = newOrder("", res.Args), *res
		a.Result.Args = nil
	}
	return a
}

// keeper is a process that holds a GPU for this one.
type keeper struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	to   *gob.Encoder
	from *gob.Decoder
	said *bytes.Buffer // on standard error
}

// startKeeper starts one and waits until it has the GPU.
func startKeeper(which string) (*keeper, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	k := &keeper{cmd: exec.Command(exe), said: &bytes.Buffer{}}
	k.cmd.Env = append(os.Environ(), keeperEnv+"="+which)
	k.cmd.Stderr = k.said
	if k.in, err = k.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	k.to, k.from = gob.NewEncoder(k.in), gob.NewDecoder(bufio.NewReader(out))
	if err := k.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := k.answer(context.Background()); err != nil {
		k.end()
		return nil, err
	}
	return k, nil
}

// keeperFailed is the error of an order; Driver is nil where it is not the driver's.
type keeperFailed struct {
	Text   string
	Driver *cuda.Error
	Gone   bool  // the process has ended
	Cause  error // why waiting ended
	Blamed []string
}

func (e *keeperFailed) Error() string { return e.Text }
func (e *keeperFailed) Unwrap() error {
	if e.Driver == nil {
		return e.Cause
	}
	return e.Driver
}

// answer waits for one, or waitUnended after the end of ctx, and ends the process then.
func (k *keeper) answer(ctx context.Context) (answer, error) {
	start := time.Now()
	got, failed := make(chan answer, 1), make(chan error, 1)
	go func() {
		var a answer
		if err := k.from.Decode(&a); err != nil {
			failed <- err
			return
		}
		got <- a
	}()
	done := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case a := <-got:
			if a.Err != "" {
				return a, &keeperFailed{Text: a.Err, Driver: a.Driver, Gone: a.Driver != nil && a.Driver.Sticky(), Blamed: a.Blamed}
			}
			return a, nil
		case err := <-failed:
			k.end()
			lines := strings.Split(strings.TrimSpace(k.said.String()), "\n")
			return answer{}, &keeperFailed{Text: fmt.Sprintf("the process that held the GPU ended (%v: %s)", err, lines[0]), Gone: true}
		case <-done:
			done, late = nil, time.After(waitUnended)
		case <-late:
			k.end()
			select { // of the one that reads
			case <-failed:
			case <-got:
			}
			return answer{}, &keeperFailed{Text: fmt.Sprintf("the launch had not ended after %s: %v; it was ended, with the process that held the GPU for it", time.Since(start).Round(time.Millisecond), context.Cause(ctx)), Gone: true, Cause: context.Cause(ctx)}
		}
	}
}

// run has a program run.
func (k *keeper) run(ctx context.Context, p *ir.Program, args []ir.Arg) (*Result, error) {
	a, err := k.ask(ctx, newOrder(text.Format(p), args))
	if err != nil {
		return nil, err
	}
	if a.Result.Args, err = a.Given.args(); err != nil {
		return nil, err
	}
	return &a.Result, nil
}

// ask has something done.
func (k *keeper) ask(ctx context.Context, o order) (answer, error) {
	if err := k.to.Encode(o); err != nil {
		k.end()
		return answer{}, &keeperFailed{Text: fmt.Sprintf("the process that held the GPU has ended: %v", err), Gone: true}
	}
	return k.answer(ctx)
}

// end ends the process.
func (k *keeper) end() {
	k.in.Close()
	k.cmd.Process.Kill()
	k.cmd.Wait()
}
