package cell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/traefik/yaegi/stdlib"

	"github.com/tilus-lab/tilus-lab/kernel/display"
)

// hostPath is the import path under which printed cells reach this process.
const hostPath = "tilus-lab.host/host"

// host is what printed cells call.
type host struct {
	e *Engine

	front                       atomic.Pointer[evaluation] // the cell in the foreground; never nil
	asides                      sync.Map                   // goroutine → *evaluation, of cells beside it
	aside                       atomic.Int64               // how many of them there are
	spawned                     atomic.Int64               // goroutines that cells started and that live
	cells                       sync.Map                   // goroutine → cell, for spawned goroutines
	running                     sync.Map                   // goroutine → *Defers that runs its functions
	armed                       sync.Map                   // goroutines that are about to call a deferred function
	kinds                       sync.Map                   // printed type → boxKind
	formats, gostrings, loggers sync.Map                   // printed type → its method for package fmt
	unsharp                     sync.Map                   // printed type → what in it has no name for %#v
	coders                      sync.Map                   // printed type → what in it has methods for encoders
	encoders                    sync.Map                   // printed type → coder
	lossy                       sync.Map                   // printed type → what in it reflection cannot see
	boxers                      sync.Map                   // printed type → func(any) any that puts a value into a box
	riches                      sync.Map                   // printed type → func(any) any that gives a value the methods by which it shows itself

	resultTypes []string    // of the cell that is being printed
	quiet       atomic.Bool // boxes print plain values
	tracing     tracing
}

func newHost(e *Engine) *host {
	h := &host{e: e}
	h.front.Store(newEvaluation(context.Background(), 0, ""))
	return h
}

// sleep is time.Sleep, but ends with the cell that called it.
func (h *host) sleep(d time.Duration) {
	var stopped chan struct{}
	if v := h.mine(); h.cell() == v.id {
		stopped = v.stopped
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-stopped:
	}
}

// goid is the number of the calling goroutine. Go hides it, so it is read from a stack dump; that costs about a microsecond and is
// done only where a cell has goroutines or recovers.
func goid() int64 {
	var b [40]byte
	s := b[:runtime.Stack(b[:], false)]
	s = bytes.TrimPrefix(s, []byte("goroutine "))
	if i := bytes.IndexByte(s, ' '); i > 0 {
		n, _ := strconv.ParseInt(string(s[:i]), 10, 64)
		return n
	}
	return 0
}

// cell is the cell that the calling goroutine belongs to.
func (h *host) cell() int64 {
	if h.spawned.Load() > 0 {
		if c, ok := h.cells.Load(goid()); ok {
			return c.(int64)
		}
	}
	return h.mine().id
}

// spawn runs f in a goroutine of the calling goroutine's cell. The interpreter's own go statement would read the function
// value when the goroutine starts, from a variable that the next turn of a loop writes.
func (h *host) spawn(f func()) {
	c := h.cell()
	h.spawned.Add(1)
	go func() {
		id := goid()
		h.cells.Store(id, c)
		defer func() {
			h.cells.Delete(id)
			h.spawned.Add(-1)
		}()
		f()
	}()
}

func (h *host) write(stream string, p []byte) {
	if h.e.raw {
		h.e.hooks.Sync()
	}
	h.e.hooks.Write(h.cell(), stream, p)
}

// Exit is the panic value by which os.Exit and log.Fatal end a cell.
type Exit struct{ Code int }

func (x Exit) Error() string { return fmt.Sprintf("the cell called os.Exit(%d)", x.Code) }

// failure is the panic value by which the last call of a cell ends it with the error that it returned.
type failure struct{ err error }

func (f failure) Error() string { return f.err.Error() }

// result hands on the values of the last expression. An error beside other values is not shown: it ends the cell, or is nil.
func (h *host) result(vals []any) {
	ts := h.mine().types
	if n := len(vals) - 1; n > 0 && n < len(ts) && ts[n] == "error" {
		if err, ok := vals[n].(error); ok && err != nil {
			panic(failure{err})
		}
		vals, ts = vals[:n], ts[:n]
	}
	h.e.hooks.Result(h.cell(), h.prettyAll(vals), ts)
}

// Defers are the deferred calls of one function call. The interpreter evaluates deferred arguments late, so they are kept here.
type Defers struct {
	h     *host
	calls []func()
	cause any
	live  bool // cause is a panic that nobody recovered yet
	outer *Defers
}

// Push defers a call.
func (d *Defers) Push(f func()) { d.calls = append(d.calls, f) }

// Do runs the body of the function and then the deferred calls, last first. A panic goes on unless one of the calls recovers.
func (d *Defers) Do(body func()) {
	d.one(body)
	id := goid()
	if o, ok := d.h.running.Load(id); ok {
		d.outer = o.(*Defers)
	}
	d.h.running.Store(id, d)
	for len(d.calls) > 0 {
		f := d.calls[len(d.calls)-1]
		d.calls = d.calls[:len(d.calls)-1]
		d.one(f)
	}
	if d.outer != nil {
		d.h.running.Store(id, d.outer)
	} else {
		d.h.running.Delete(id)
	}
	if d.live {
		panic(d.cause)
	}
}

// one runs one call; a panic in it replaces the one before.
func (d *Defers) one(f func()) {
	defer func() {
		if r := recover(); r != nil {
			d.cause, d.live = shed(r), true
		}
	}()
	f()
}

func (h *host) recover() any {
	o, ok := h.running.Load(goid())
	if !ok {
		return nil
	}
	d := o.(*Defers)
	if _, exit := d.cause.(Exit); exit || !d.live {
		return nil
	}
	d.live = false
	return d.cause
}

// symbols are the host package and the library functions that cells see changed.
func (h *host) symbols() (tables, map[reflect.Value][]reflect.Type) {
	mt := map[reflect.Value][]reflect.Type{}
	formatter, stringer := reflect.TypeOf((*fmt.Formatter)(nil)).Elem(), reflect.TypeOf((*fmt.Stringer)(nil)).Elem()
	for k, ts := range stdlib.MapTypes {
		if len(ts) == 2 && ts[0] == formatter {
			ts = []reflect.Type{errorType, formatter, stringer} // yaegi leaves out error
		}
		mt[k] = ts
	}
	// like makes f receive the same wrapped values as a library function does.
	like := func(f, lib any) reflect.Value {
		v := reflect.ValueOf(f)
		for k, ts := range mt {
			if k.Kind() == reflect.Func && k.Pointer() == reflect.ValueOf(lib).Pointer() {
				mt[v] = ts
				break
			}
		}
		return v
	}
	out := func(stream string) io.Writer { return writerFunc(func(p []byte) { h.write(stream, p) }) }
	stdout, stderr := out("stdout"), out("stderr")
	// to finds the ordered way to a stream when a cell prints to the file of that name.
	to := func(w io.Writer) io.Writer {
		switch {
		case h.e.hooks.Files[1] != nil && w == h.e.hooks.Files[1]:
			return stdout
		case h.e.hooks.Files[2] != nil && w == h.e.hooks.Files[2]:
			return stderr
		}
		return w
	}
	rich := append(richTypes(), errorType, formatter, stringer)
	result := reflect.ValueOf(func(a ...any) { h.result(a) })
	mt[result] = rich
	given := reflect.ValueOf(func(a ...any) { h.tracing.given = a })
	mt[given] = rich
	asRich := reflect.ValueOf(func(x any) any { return x })
	mt[asRich] = richTypes()
	shown := map[string]reflect.Value{"Auto": reflect.ValueOf(display.Auto), "Any": reflect.ValueOf(display.Any), "Show": reflect.ValueOf(display.Show)}
	for _, v := range shown {
		mt[v] = rich
	}
	exit := func(code int) { panic(Exit{code}) }
	lg := log.New(stderr, "", log.LstdFlags)
	fatal := func(s string) { lg.Output(3, s); exit(1) }
	t := tables{
		module + "kernel/cell/cell":       richWrappers(),
		module + "kernel/display/display": shown,
		hostPath + "/host": {
			"Done":       reflect.ValueOf(func() { h.mine().finish() }),
			"Enter":      reflect.ValueOf(func() { h.mine().entered() }),
			"Called":     reflect.ValueOf(h.called),
			"Calling":    reflect.ValueOf((*Calling)(nil)),
			"Given":      given,
			"Encoder":    reflect.ValueOf(func(id, name string, f func(any) ([]byte, error)) { h.encoders.Store(id, coder{name, f}) }),
			"Encoding":   reflect.ValueOf(h.encoding),
			"LogValuer":  reflect.ValueOf(func(id string, f func(any) slog.Value) { h.loggers.Store(id, f) }),
			"Logged":     reflect.ValueOf(h.logged),
			"Templated":  reflect.ValueOf(h.templated),
			"Formatter":  reflect.ValueOf(func(id string, f func(any, fmt.State, rune)) { h.formats.Store(id, f) }),
			"GoStringer": reflect.ValueOf(func(id string, f func(any) string) { h.gostrings.Store(id, f) }),
			"Mirrored":   reflect.ValueOf(h.given),
			"NewDefers":  reflect.ValueOf(func() *Defers { return &Defers{h: h} }),
			"Defers":     reflect.ValueOf((*Defers)(nil)),
			"Arm":        reflect.ValueOf(func() { h.armed.Store(goid(), true) }),
			"Disarm": reflect.ValueOf(func() bool {
				_, ok := h.armed.LoadAndDelete(goid())
				return ok
			}),
			"RecoverIf": reflect.ValueOf(func(direct bool) any {
				if !direct {
					return nil
				}
				return h.recover()
			}),
			"Recover":     reflect.ValueOf(h.recover),
			"WriteTo":     reflect.ValueOf(func(w io.Writer, s string) (int, error) { return io.WriteString(to(w), s) }),
			"As":          reflect.ValueOf(h.as),
			"AsInterface": reflect.ValueOf(asInterface),
			"Back":        reflect.ValueOf(back),
			"Box":         reflect.ValueOf(h.box),
			"BoxID":       reflect.ValueOf(boxID),
			"BoxShown":    reflect.ValueOf(h.boxShown),
			"BoxText":     reflect.ValueOf(h.boxText),
			"Bare":        reflect.ValueOf(bareFor),
			"Boxer":       reflect.ValueOf(func(id string, f func(any) any) { h.boxers.Store(id, f) }),
			"Rebox":       reflect.ValueOf(h.rebox),
			"Pretty":      reflect.ValueOf(h.prettied),
			"PrettyAll":   reflect.ValueOf(h.prettyAll),
			"Method":      reflect.ValueOf(method),
			"Rich":        reflect.ValueOf(func(id string, f func(any) any) { h.riches.Store(id, f) }),
			"AsRich":      asRich,
			"Inlay":       reflect.ValueOf(inlay),
			"Shown":       reflect.ValueOf(h.rendered),
			"Inside":      reflect.ValueOf(inside),
			"Equal":       reflect.ValueOf(equal),
			"Err":         reflect.ValueOf(h.err),
			"Errors": reflect.ValueOf(func(id, name string, text func(any) string, is func(any, error) bool, as func(any, any) bool, unwrap func(any) error, all func(any) []error) {
				h.kinds.Store(id, boxKind{name: name, text: text, isError: true, is: is, as: as, unwrap: unwrap, all: all})
			}),
			"AsError": reflect.ValueOf(h.asError),
			"MustError": reflect.ValueOf(func(x any) error {
				err, ok := h.asError(x)
				if !ok {
					h.noConversion(x, "error")
				}
				return err
			}),
			"IsNil":        reflect.ValueOf(func(x any) bool { return x == nil }),
			"Max":          reflect.ValueOf(func(x, y float64) float64 { return max(x, y) }),
			"Min":          reflect.ValueOf(func(x, y float64) float64 { return min(x, y) }),
			"Open":         reflect.ValueOf(open),
			"Must":         reflect.ValueOf(must),
			"NoConversion": reflect.ValueOf(h.noConversion),
			"Take":         reflect.ValueOf(take),
			"UnboxAll":     reflect.ValueOf(unboxAll),
			"Unbox":        reflect.ValueOf(unbox),
			"TypeName":     reflect.ValueOf(h.typeName),
			"Handed":       reflect.ValueOf(func() any { return h.mine().handed }),
			"Perform":      reflect.ValueOf(func() { h.mine().perform() }),
			"Go":           reflect.ValueOf(h.spawn),
			"Print":        like(func(a ...any) { fmt.Fprint(stderr, a...) }, fmt.Print),
			"PrintLine":    like(func(a ...any) { fmt.Fprintln(stderr, a...) }, fmt.Println),
			"Result":       result,
		},
		genericPath + "/generic": instances,
		"fmt/fmt": {
			"Print":    like(func(a ...any) (int, error) { return fmt.Fprint(stdout, a...) }, fmt.Print),
			"Printf":   like(func(f string, a ...any) (int, error) { return fmt.Fprintf(stdout, f, a...) }, fmt.Printf),
			"Println":  like(func(a ...any) (int, error) { return fmt.Fprintln(stdout, a...) }, fmt.Println),
			"Errorf":   like(func(f string, a ...any) error { return fmt.Errorf(f, a...) }, fmt.Println),
			"Fprint":   like(func(w io.Writer, a ...any) (int, error) { return fmt.Fprint(to(w), a...) }, fmt.Fprint),
			"Fprintf":  like(func(w io.Writer, f string, a ...any) (int, error) { return fmt.Fprintf(to(w), f, a...) }, fmt.Fprintf),
			"Fprintln": like(func(w io.Writer, a ...any) (int, error) { return fmt.Fprintln(to(w), a...) }, fmt.Fprintln),
		},
		"reflect/reflect": {"DeepEqual": reflect.ValueOf(deepEqual), "VisibleFields": reflect.ValueOf(visible)},
		"time/time":       {"Sleep": reflect.ValueOf(h.sleep)},
		"os/os": {
			"Exit": reflect.ValueOf(exit),
		},
		"log/log": {
			"Print": like(lg.Print, log.Print), "Printf": like(lg.Printf, log.Printf), "Println": like(lg.Println, log.Println),
			"Panic": like(lg.Panic, log.Panic), "Panicf": like(lg.Panicf, log.Panicf), "Panicln": like(lg.Panicln, log.Panicln),
			"Fatal":   reflect.ValueOf(func(a ...any) { fatal(fmt.Sprint(a...)) }),
			"Fatalf":  reflect.ValueOf(func(f string, a ...any) { fatal(fmt.Sprintf(f, a...)) }),
			"Fatalln": reflect.ValueOf(func(a ...any) { fatal(fmt.Sprintln(a...)) }),
			"Flags":   reflect.ValueOf(lg.Flags), "SetFlags": reflect.ValueOf(lg.SetFlags), "Prefix": reflect.ValueOf(lg.Prefix),
			"SetPrefix": reflect.ValueOf(lg.SetPrefix), "Writer": reflect.ValueOf(lg.Writer), "Output": reflect.ValueOf(lg.Output),
			"SetOutput": reflect.ValueOf(func(w io.Writer) { lg.SetOutput(to(w)) }),
			"Default":   reflect.ValueOf(func() *log.Logger { return lg }),
			"New":       reflect.ValueOf(func(w io.Writer, p string, f int) *log.Logger { return log.New(to(w), p, f) }),
		},
	}
	mirror := map[string]reflect.Value{}
	for name, f := range h.mirrors() {
		mirror[name] = reflect.ValueOf(f)
	}
	t[mirrorPath+"/mirror"] = mirror
	if in := h.e.hooks.Stdin; in != nil {
		t["fmt/fmt"]["Scan"] = reflect.ValueOf(func(a ...any) (int, error) { return fmt.Fscan(in, a...) })
		t["fmt/fmt"]["Scanln"] = reflect.ValueOf(func(a ...any) (int, error) { return fmt.Fscanln(in, a...) })
		t["fmt/fmt"]["Scanf"] = reflect.ValueOf(func(f string, a ...any) (int, error) { return fmt.Fscanf(in, f, a...) })
	}
	for i, n := range []string{"Stdin", "Stdout", "Stderr"} {
		if f, ok := h.e.hooks.Files[i].(*os.File); ok && f != nil {
			t["os/os"][n] = reflect.ValueOf(&f).Elem()
		}
	}
	return t, mt
}

// as is errors.As for a target of a type that cells declare.
func (h *host) as(err error, id string, target any) bool {
	to := reflect.ValueOf(target)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		panic("errors: target must be a non-nil pointer")
	}
	for err != nil {
		if b, ok := back(err).(Box); ok {
			if v := reflect.ValueOf(b.v); b.id == id && v.IsValid() && v.Type().AssignableTo(to.Elem().Type()) {
				to.Elem().Set(v)
				return true
			}
			k := b.kind()
			if k.as != nil && k.as(b.v, target) {
				return true
			}
			if k.all != nil {
				return slices.ContainsFunc(k.all(b.v), func(e error) bool { return h.as(e, id, target) })
			}
		}
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			return slices.ContainsFunc(all.Unwrap(), func(e error) bool { return h.as(e, id, target) })
		}
		err = errors.Unwrap(err)
	}
	return false
}

// asInterface is errors.As for an interface; try puts an error there if it has the methods.
func asInterface(err error, try func(any) bool) bool {
	for err != nil {
		if try(back(err)) {
			return true
		}
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			return slices.ContainsFunc(all.Unwrap(), func(e error) bool { return asInterface(e, try) })
		}
		if b, ok := back(err).(Box); ok {
			if k := b.kind(); k.all != nil {
				return slices.ContainsFunc(k.all(b.v), func(e error) bool { return asInterface(e, try) })
			}
		}
		err = errors.Unwrap(err)
	}
	return false
}

// asError asserts an empty interface to error.
func (h *host) asError(x any) (error, bool) {
	if b, ok := x.(Box); ok {
		if !b.kind().isError {
			return nil, false
		}
		return h.err(x), true
	}
	err, ok := x.(error)
	return err, ok
}

// noConversion panics as an assertion does for a value without the methods of an interface.
func (h *host) noConversion(v any, want string) {
	if v == nil {
		panic(&runtimeError{"interface conversion: interface is nil, not " + want})
	}
	panic(&runtimeError{"interface conversion: " + h.typeName(v) + " is not " + want + ": missing method"})
}

// noise takes what the interpreter writes to its standard error: one line per frame of a panic.
type noise struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (n *noise) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.buf.Len() < 64<<10 {
		n.buf.Write(p)
	}
	return len(p), nil
}

func (n *noise) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.buf.Reset()
}

func (n *noise) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.buf.String()
}
