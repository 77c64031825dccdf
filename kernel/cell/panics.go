package cell

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/traefik/yaegi/interp"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// frameLine is what the interpreter writes for each frame of a panic.
var frameLine = regexp.MustCompile(`^(?:(\S+?):)?(\d+):(\d+): panic: (?:\S+\.)?(.*)\(\.\.\.\)$`)

// panicked turns a panic into the error of a cell: its value, and the frames that are in cells, innermost last.
func (e *Engine) panicked(name string, err error) *proto.Error {
	out := &proto.Error{Name: "Panic", Value: err.Error()}
	var p interp.Panic
	if errors.As(err, &p) {
		switch v := p.Value.(type) {
		case Exit:
			out.Name, out.Value = "Exit", v.Error()
			if v.Code == 0 {
				out.Value += "; the worker and all variables stay"
			}
		case runtime.Error:
			out.Name, out.Value = "RuntimeError", strings.TrimPrefix(v.Error(), "runtime error: ")
		case error:
			out.Name, out.Value = "Panic", v.Error()
		case fmt.Stringer:
			out.Value = v.String()
		default:
			out.Value = fmt.Sprint(v)
		}
		if i := strings.Index(out.Value, "reflect: "); i == 0 {
			out.Name = "RuntimeError"
		}
		if strings.Contains(out.Value, "reflect.Value") && strings.Contains(out.Value, "zero Value") || strings.Contains(out.Value, "invalid memory address") {
			out.Name, out.Value = "RuntimeError", "invalid memory address or nil pointer dereference"
		}
	}
	var frames []string
	seen := map[string]bool{}
	for _, l := range strings.Split(e.noise.String(), "\n") {
		m := frameLine.FindStringSubmatch(l)
		if m == nil || e.text[m[1]] == "" {
			continue
		}
		line, _ := strconv.Atoi(m[2])
		col, _ := strconv.Atoi(m[3])
		src := lineOf(e.text[m[1]], line)
		fn := m[4]
		if i := strings.LastIndex(fn, "."); i >= 0 {
			fn = fn[i+1:]
		}
		if s, ok := e.shown[fn]; ok {
			fn = s
		}
		if i := strings.Index(fn, "ǃ"); i > 0 {
			fn = fn[:i]
		}
		at := fmt.Sprintf("%s:%d", m[1], line)
		if seen[at] {
			continue
		}
		seen[at] = true
		first := len(src) - len(strings.TrimLeft(src, " \t")) + 1
		c := runeCol(src, max(first, min(col, len(src))))
		frames = append(frames, fmt.Sprintf("%s in %s\n%s", at, fn, caret(src, c, len([]rune(src))-c+1)))
		if len(out.Problems) == 0 {
			out.Problems = append(out.Problems, proto.Problem{Line: line, Col: c, Msg: out.Value})
		}
	}
	for i := len(frames) - 1; i >= 0; i-- {
		out.Traceback = append(out.Traceback, frames[i])
	}
	out.Traceback = append(out.Traceback, out.Name+": "+out.Value)
	return out
}

// internal is the error for a cell that was checked but that the interpreter does not take.
func (e *Engine) internal(name string, err error, code string) *proto.Error {
	msg := err.Error()
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
