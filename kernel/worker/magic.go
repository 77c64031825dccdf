package worker

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/cell"
	"github.com/tilus-lab/tilus-lab/kernel/lab"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// A magic is a line that is not Go. Magics stand before the Go code of a cell,
// one a line; a %% magic takes the whole cell.

// line is one magic of a cell: its word ("%time", "!") and the rest of the line.
type magicLine struct {
	word, rest string
	at         int // line of the cell, from 1
}

// magicCell is the running cell as magics see it.
type magicCell struct {
	k    *worker
	ctx  context.Context
	id   int64
	name string
	body string // for %% magics: the lines below the first
	skip int    // and how many lines those stand below the top
}

// lineMagics run one line. What they print goes to the cell.
var lineMagics = map[string]func(c *magicCell, rest string) cell.Outcome{
	"%bench":       (*magicCell).bench,
	"%cd":          (*magicCell).cd,
	"%conformance": (*magicCell).conformance,
	"%device":      (*magicCell).device,
	"%env":         (*magicCell).env,
	"%import":      (*magicCell).importSource,
	"%once":        func(c *magicCell, rest string) cell.Outcome { return c.goCode(rest) },
	"%pwd":         func(c *magicCell, _ string) cell.Outcome { return c.cd(".") },
	"%time":        (*magicCell).time,
	"%timeit":      (*magicCell).timeit,
	"%who":         (*magicCell).who,
	"$":            (*magicCell).shell,
	"!":            (*magicCell).shell,
}

// cellMagics take the cell.
var cellMagics = map[string]func(c *magicCell, rest string) cell.Outcome{
	"%%bench":     (*magicCell).benchLines,
	"%%bash":      func(c *magicCell, _ string) cell.Outcome { return c.shell(c.body) },
	"%%native":    (*magicCell).native,
	"%%once":      func(c *magicCell, _ string) cell.Outcome { return c.goCode(c.below()) },
	"%%tile":      (*magicCell).tile,
	"%%time":      func(c *magicCell, _ string) cell.Outcome { return c.time(c.below()) },
	"%%writefile": (*magicCell).writeFile,
}

// magics takes the magic lines from the top of a cell. rest is the Go code, with
// empty lines in their place so that positions stay.
func magics(code string, variable func(string) bool) (lines []magicLine, rest string) {
	all := strings.Split(code, "\n")
	for i, text := range all {
		s := strings.TrimSpace(text)
		if s == "" || strings.HasPrefix(s, "//") && len(lines) == 0 {
			continue
		}
		word, tail, _ := strings.Cut(s, " ")
		switch s[0] {
		case '%':
		case '$':
			word, tail = "$", s[1:]
		case '!':
			// A cell may ask for the opposite of a variable.
			if e, err := parser.ParseExpr(s); err == nil && named(e, variable) {
				return lines, strings.Join(all, "\n")
			}
			word, tail = "!", s[1:]
		default:
			return lines, strings.Join(all, "\n")
		}
		lines = append(lines, magicLine{word, strings.TrimSpace(tail), i + 1})
		if strings.HasPrefix(word, "%%") {
			return lines, ""
		}
		all[i] = ""
	}
	return lines, ""
}

// named reports whether an expression begins with a name that the session has.
func named(e ast.Expr, variable func(string) bool) bool {
	first := ""
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && first == "" {
			first = id.Name
		}
		return first == ""
	})
	return first == "true" || first == "false" || first != "" && variable(first)
}

// withMagics runs a cell that begins with magics; ok is false for any other.
func (k *worker) withMagics(ctx context.Context, req proto.Request, name string) (res cell.Outcome, pager string, ok bool) {
	first := strings.TrimSpace(req.Code)
	if first == "" || !strings.ContainsRune("%$!/", rune(first[0])) {
		return res, "", false
	}
	lines, rest := magics(req.Code, k.eng.Declares)
	if len(lines) == 0 {
		return res, "", false
	}
	c := &magicCell{k: k, ctx: ctx, id: req.ID, name: name}
	for i, l := range lines {
		switch {
		case l.word == "%help":
			pager = k.eng.Help()
		case l.word == "%reset":
			res = k.reset()
		case cellMagics[l.word] != nil:
			all := strings.SplitN(req.Code, "\n", l.at+1)
			if len(all) > l.at {
				c.body = all[l.at]
			}
			c.skip = l.at
			if i > 0 {
				return c.fail(l.at, "Cell.E7", "put it into a cell of its own", "%s takes a whole cell", l.word), "", true
			}
			if l.word == "%%tile" {
				c.body = req.Code
			}
			res = cellMagics[l.word](c, l.rest)
		case lineMagics[l.word] != nil:
			c.skip = l.at - 1
			res = lineMagics[l.word](c, l.rest)
		default:
			return c.fail(l.at, "Cell.E7", "%help lists the magics", "there is no magic %s", l.word), "", true
		}
		if res.Err != nil || ctx.Err() != nil {
			return res, pager, true
		}
	}
	if strings.TrimSpace(rest) != "" {
		res = k.eng.Run(ctx, req.ID, name, rest)
	}
	return res, pager, true
}

func (c *magicCell) printf(format string, args ...any) {
	c.k.out.write(c.id, "stdout", fmt.Appendf(nil, format, args...))
}

// fail is the outcome of a magic that could not do what its line says.
func (c *magicCell) fail(line int, code, help, format string, args ...any) cell.Outcome {
	p := proto.Problem{Line: max(line, 1), Col: 1, Code: code, Msg: fmt.Sprintf(format, args...), Help: help}
	text := fmt.Sprintf("%s:%d:1: %s [%s]", c.name, p.Line, p.Msg, code)
	trace := text
	if help != "" {
		trace += "\n    help: " + help
	}
	return cell.Outcome{Err: &proto.Error{Name: "CellError", Value: text, Traceback: []string{trace}, Problems: []proto.Problem{p}}}
}

// wrong is fail at the magic's own line.
func (c *magicCell) wrong(help, format string, args ...any) cell.Outcome {
	return c.fail(c.skip+1, "Cell.E12", help, format, args...)
}

// below is the body at its place in the cell.
func (c *magicCell) below() string { return strings.Repeat("\n", c.skip) + c.body }

// goCode runs Go code of the cell, at its line.
func (c *magicCell) goCode(src string) cell.Outcome {
	if !strings.HasPrefix(src, "\n") {
		src = strings.Repeat("\n", c.skip) + src
	}
	return c.k.eng.Run(c.ctx, c.id, c.name, src)
}

func (c *magicCell) tile(string) cell.Outcome {
	v, p, err := c.k.eng.Tile(c.name, c.body)
	if err != nil {
		return cell.Outcome{Err: err}
	}
	if err := c.k.eng.Bind(c.ctx, c.id, v, p); err != nil {
		return cell.Outcome{Err: &proto.Error{Name: "CellError", Value: err.Error(), Traceback: []string{err.Error()}}}
	}
	return cell.Outcome{}
}

func (c *magicCell) writeFile(path string) cell.Outcome {
	if path == "" {
		return c.fail(1, "Cell.E12", "write %%writefile notes.txt, for example", "%%%%writefile needs a path")
	}
	if err := os.WriteFile(path, []byte(c.body), 0o644); err != nil {
		return c.fail(1, "Cell.E12", "", "%v", err)
	}
	c.printf("%s: %d bytes\n", path, len(c.body))
	return cell.Outcome{}
}

func (c *magicCell) device(name string) cell.Outcome {
	if name == "" {
		c.printf("%s\n", lab.Machine())
		return cell.Outcome{}
	}
	if err := lab.Device(name); err != nil {
		return c.wrong("", "%v", err)
	}
	return cell.Outcome{}
}

func (c *magicCell) cd(dir string) cell.Outcome {
	var err error
	if dir == "" {
		dir, err = os.UserHomeDir()
	} else if rest, ok := strings.CutPrefix(dir, "~"); ok {
		var home string
		home, err = os.UserHomeDir()
		dir = filepath.Join(home, rest)
	}
	if err == nil {
		err = os.Chdir(dir)
	}
	if err != nil {
		return c.wrong("", "%v", err)
	}
	if now, err := os.Getwd(); err == nil {
		c.printf("%s\n", now)
	}
	return cell.Outcome{}
}

func (c *magicCell) env(rest string) cell.Outcome {
	name, value, set := strings.Cut(rest, "=")
	name = strings.TrimSpace(name)
	switch {
	case rest == "":
		all := os.Environ()
		slices.Sort(all)
		c.printf("%s\n", strings.Join(all, "\n"))
	case set:
		if err := os.Setenv(name, strings.TrimSpace(value)); err != nil {
			return c.wrong("write %env NAME=VALUE", "%v", err)
		}
	default:
		value, ok := os.LookupEnv(name)
		if !ok {
			return c.wrong("", "there is no environment variable %s", name)
		}
		c.printf("%s\n", value)
	}
	return cell.Outcome{}
}

func (c *magicCell) who(string) cell.Outcome {
	vars := c.k.eng.Vars().Vars
	if len(vars) == 0 {
		c.printf("no variables\n")
	}
	width := 0
	for _, v := range vars {
		width = max(width, len(v.Name)+len(v.Type))
	}
	for _, v := range vars {
		c.printf("%s %-*s  %s\n", v.Name, width-len(v.Name), v.Type, v.Short)
	}
	return cell.Outcome{}
}

// shell runs commands through sh; interrupting the cell ends them and their children.
func (c *magicCell) shell(command string) cell.Outcome {
	if strings.TrimSpace(command) == "" {
		return c.wrong("write !ls, for example", "there is no command")
	}
	cmd := exec.CommandContext(c.ctx, "sh", "-c", command)
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = time.Second
	cmd.Stdout, cmd.Stderr = stream{c, "stdout"}, stream{c, "stderr"}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case c.ctx.Err() != nil:
		return cell.Outcome{Err: &proto.Error{Name: "Interrupted", Value: "interrupted", Traceback: []string{"the command was interrupted"}}}
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return c.wrong("", "the command was ended by %v", status.Signal())
		}
		return c.wrong("", "the command ended with status %d", exit.ExitCode())
	case err != nil:
		return c.wrong("", "%v", err)
	}
	return cell.Outcome{}
}

// stream is one of a cell's output streams.
type stream struct {
	c    *magicCell
	name string
}

func (s stream) Write(p []byte) (int, error) {
	s.c.k.out.write(s.c.id, s.name, p)
	return len(p), nil
}

// conformance holds the binary against the recorded facts, as `tilus-lab conform`
// does.
func (c *magicCell) conformance(files string) cell.Outcome {
	exe, err := os.Executable()
	if err != nil {
		return c.wrong("", "%v", err)
	}
	return c.shell("exec '" + strings.ReplaceAll(exe, "'", `'\''`) + "' conform " + files)
}

func (c *magicCell) time(src string) cell.Outcome {
	if strings.TrimSpace(src) == "" {
		return c.wrong("write %time f(), for example", "there is nothing to time")
	}
	start := time.Now()
	res := c.goCode(src)
	if res.Err == nil {
		c.printf("time: %s\n", span(time.Since(start)))
	}
	return res
}

// Runs of one statement: how many, and how long all of them should take.
const (
	timeitRuns   = 7
	timeitTarget = 200 * time.Millisecond // of one run
	timeitFirst  = 10 * time.Millisecond  // below this a count is too small to extrapolate from
)

// options takes -n COUNT and -r RUNS from the front of a %timeit line.
func options(rest string) (n, runs int, src string, err error) {
	runs, src = timeitRuns, rest
	for strings.HasPrefix(src, "-") {
		words := strings.SplitN(src, " ", 3)
		if len(words) < 3 || words[0] != "-n" && words[0] != "-r" {
			return 0, 0, "", fmt.Errorf("%s is not understood", words[0])
		}
		v, err := strconv.Atoi(words[1])
		if err != nil || v < 1 || v > 1e9 {
			return 0, 0, "", fmt.Errorf("%s %s is no count", words[0], words[1])
		}
		if words[0] == "-n" {
			n = v
		} else {
			runs = v
		}
		src = strings.TrimSpace(words[2])
	}
	return n, runs, src, nil
}

// repeated is source that runs a statement n times.
func repeated(src string, n int) string {
	if e, err := parser.ParseExpr(src); err == nil {
		if _, call := e.(*ast.CallExpr); !call {
			src = "_ = " + src
		}
	}
	return fmt.Sprintf("for range %d { %s }", n, src)
}

// measure times a statement; per is seconds a turn of each run, sorted.
func (c *magicCell) measure(n, runs int, src string) (per []float64, turns int, res cell.Outcome) {
	once := func(n int) time.Duration {
		code := repeated(src, n)
		start := time.Now()
		res = c.goCode(code)
		return time.Since(start)
	}
	if n == 0 {
		for n = 1; ; n = min(n*10, 1e9) {
			took := once(n)
			if res.Err != nil || c.ctx.Err() != nil {
				return nil, 0, res
			}
			if took >= timeitFirst || n == 1e9 {
				n = max(1, int(float64(n)*float64(timeitTarget)/float64(max(took, 1))))
				break
			}
		}
	}
	for range runs {
		took := once(n)
		if res.Err != nil || c.ctx.Err() != nil {
			return nil, 0, res
		}
		per = append(per, took.Seconds()/float64(n))
	}
	slices.Sort(per)
	return per, n, res
}

func (c *magicCell) timeit(rest string) cell.Outcome {
	n, runs, src, err := options(rest)
	if err == nil && src == "" {
		err = errors.New("there is nothing to time")
	}
	if err != nil {
		return c.wrong("write %timeit [-n COUNT] [-r RUNS] f()", "%v", err)
	}
	per, n, res := c.measure(n, runs, src)
	if res.Err == nil && len(per) > 0 {
		mean, dev := spread(per)
		c.printf("%s ± %s per turn (median %s, best %s; %d runs of %d turns)\n", seconds(mean), seconds(dev), seconds(per[len(per)/2]), seconds(per[0]), len(per), n)
	}
	return res
}

func (c *magicCell) bench(rest string) cell.Outcome {
	if strings.TrimSpace(rest) == "" {
		return c.wrong("write %bench f(), or %%bench and a statement a line below it", "there is nothing to time")
	}
	return c.compare([]string{rest}, c.skip)
}

// benchLines compares the statements of a %%bench cell, one a line.
func (c *magicCell) benchLines(string) cell.Outcome {
	return c.compare(strings.Split(c.body, "\n"), c.skip)
}

func (c *magicCell) compare(statements []string, skip int) cell.Outcome {
	width := 0
	for _, s := range statements {
		width = max(width, len([]rune(s)))
	}
	first := 0.0
	for i, s := range statements {
		s = strings.TrimSpace(s)
		if s == "" || strings.HasPrefix(s, "//") {
			continue
		}
		c.skip = skip + i
		per, n, res := c.measure(0, timeitRuns, s)
		if res.Err != nil || len(per) == 0 {
			return res
		}
		median := per[len(per)/2]
		if first == 0 {
			first = median
			c.printf("%-*s  %10s %10s %10s %8s\n", width, "", "median", "best", "worst", "ratio")
		}
		c.printf("%-*s  %10s %10s %10s %8.2f  %s %d turns\n", width, s, seconds(median), seconds(per[0]), seconds(per[len(per)-1]), median/first,
			strings.Repeat("█", max(1, min(30, int(math.Round(10*median/first))))), n)
	}
	if first == 0 {
		return c.wrong("write a statement on each line below %%bench", "there is nothing to time")
	}
	return cell.Outcome{}
}

// spread is mean and standard deviation.
func spread(per []float64) (mean, dev float64) {
	for _, v := range per {
		mean += v / float64(len(per))
	}
	for _, v := range per {
		dev += (v - mean) * (v - mean) / float64(len(per))
	}
	return mean, math.Sqrt(dev)
}

func span(d time.Duration) string { return seconds(d.Seconds()) }

// seconds writes a time with three digits in the unit that fits.
func seconds(s float64) string {
	for _, u := range []struct {
		name string
		of   float64
	}{{"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}} {
		if s >= u.of {
			return fmt.Sprintf("%.3g %s", s/u.of, u.name)
		}
	}
	return fmt.Sprintf("%.3g ns", s*1e9)
}
