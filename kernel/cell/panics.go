package cell

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"strings"

	"github.com/traefik/yaegi/interp"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// frameLine is what the interpreter writes for each frame of a panic.
var frameLine = regexp.MustCompile(`^(?:\S+?:)?\d+:\d+: panic: (.*)\(\.\.\.\)$`)

// runtimeError stands for a panic of Go's own run time, which the interpreter words differently.
type runtimeError struct{ text string }

func (e *runtimeError) Error() string { return e.text }
func (e *runtimeError) RuntimeError() {}

// noMethod is what the interpreter says of a call of a method of a nil interface: it looks for methods when it runs.
var noMethod = regexp.MustCompile(`^\d+:\d+: method not found: `)

// asRuntime gives a panic of the interpreter's the form that Go's run time has. Numbers that the interpreter does not know are left out.
func asRuntime(v any) any {
	text := ""
	switch v := v.(type) {
	case *reflect.ValueError:
		return &runtimeError{"runtime error: invalid memory address or nil pointer dereference"}
	case string:
		text = v
	case *runtimeError, runtime.Error:
		return v
	case error:
		text = v.Error()
		if !strings.Contains(text, "reflect") && !strings.Contains(text, "interface conversion") && !noMethod.MatchString(text) {
			return v
		}
	default:
		return v
	}
	switch {
	case strings.HasPrefix(text, "reflect") && strings.HasSuffix(text, "index out of range"):
		return &runtimeError{"runtime error: index out of range"}
	case strings.HasPrefix(text, "reflect") && strings.HasSuffix(text, "index out of bounds"):
		return &runtimeError{"runtime error: slice bounds out of range"}
	case strings.HasPrefix(text, "reflect.MakeSlice: negative len"):
		return &runtimeError{"runtime error: makeslice: len out of range"}
	case strings.HasPrefix(text, "reflect.MakeSlice"):
		return &runtimeError{"runtime error: makeslice: cap out of range"}
	case strings.HasPrefix(text, "reflect") && strings.Contains(text, "nil map"):
		return &runtimeError{"assignment to entry in nil map"}
	case noMethod.MatchString(text), strings.HasPrefix(text, "reflect") && (strings.Contains(text, "zero Value") || strings.Contains(text, "nil interface value")):
		return &runtimeError{"runtime error: invalid memory address or nil pointer dereference"}
	}
	if _, conv, ok := strings.Cut(text, "interface conversion: "); ok {
		return &runtimeError{"interface conversion: " + conv}
	}
	return v
}

// innerPlace is a position in the printed cell.
var innerPlace = regexp.MustCompile(`\d+:\d+: |_\.go:`)

// panicked turns a panic into the error of a cell: its value, and the frames that are in cells, innermost last.
func (e *Engine) panicked(name string, err error) *proto.Error {
	out := &proto.Error{Name: "Panic", Value: err.Error()}
	var p interp.Panic
	if errors.As(err, &p) {
		switch v := shed(p.Value).(type) {
		case Exit:
			out.Name, out.Value = "Exit", v.Error()
			if v.Code == 0 {
				out.Value += "; the worker and all variables stay"
			}
		case failure:
			out.Name, out.Value = "Error", v.Error()
		case runtime.Error:
			out.Name, out.Value = "RuntimeError", strings.TrimPrefix(v.Error(), "runtime error: ")
		case error:
			out.Name, out.Value = "Panic", v.Error()
		case fmt.Stringer:
			out.Value = v.String()
		default:
			out.Value = fmt.Sprint(v)
		}
		if rest, ok := strings.CutPrefix(out.Value, "reflect: "); ok {
			out.Name, out.Value = "RuntimeError", strings.TrimPrefix(strings.TrimPrefix(rest, "slice "), "array ")
		}
		if strings.Contains(out.Value, "reflect.Value") && strings.Contains(out.Value, "zero Value") || strings.Contains(out.Value, "invalid memory address") {
			out.Name, out.Value = "RuntimeError", "invalid memory address or nil pointer dereference"
		}
	}
	var in []string // functions, innermost first
	for _, l := range strings.Split(e.noise.String(), "\n") {
		m := frameLine.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		fn := m[1][strings.LastIndexByte(m[1], '.')+1:]
		if s, ok := e.shown[fn]; ok {
			fn = s
		}
		if i := strings.Index(fn, "ǃ"); i > 0 {
			fn = fn[:i]
		}
		if fn != "" && fn != "main" && (len(in) == 0 || in[len(in)-1] != fn) && len(in) < 20 {
			in = append(in, fn)
		}
	}
	for i := len(in) - 1; i > 0; i-- {
		out.Traceback = append(out.Traceback, "in "+in[i])
	}
	if v, ok := e.in.Globals()[lineVar]; ok && v.Kind() == reflect.Int {
		at := int(v.Int())
		for file, k := range e.number {
			others := func(v *evaluation) bool { return v.name == file && file != name }
			if at/linesPerCell != k || len(e.running(others)) > 0 {
				continue
			}
			line := at % linesPerCell
			src := lineOf(e.text[file], line)
			col := len([]rune(src)) - len([]rune(strings.TrimLeft(src, " \t"))) + 1
			where := ""
			if len(in) > 0 && in[0] != "cell" {
				where = " in " + in[0]
			}
			out.Traceback = append(out.Traceback, fmt.Sprintf("%s:%d%s\n%s", file, line, where, caret(src, col, len([]rune(src))-col+1)))
			if file == name {
				out.Problems = []proto.Problem{{Line: line, Col: col, Msg: out.Value}}
			}
		}
	}
	out.Traceback = append(out.Traceback, out.Name+": "+out.Value)
	return out
}

// internal is the error for a cell that was checked but that the interpreter does not take.
func (e *Engine) internal(name string, err error, code string) *proto.Error {
	msg := innerPlace.ReplaceAllString(err.Error(), "")
	if i := strings.IndexByte(msg, '\n'); i > 0 && !debugEval {
		msg = msg[:i]
	}
	out := &proto.Error{Name: "CellError", Value: "the interpreter cannot run this cell, though it is right Go: " + msg + " [Cell.E9]"}
	out.Traceback = []string{out.Value, "    help: split the statement that the message names, or move it into a function"}
	if debugEval {
		out.Traceback = append(out.Traceback, code)
	}
	return out
}
