package cell

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/kernel/lab"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// Magic is one line that is not Go.
type Magic struct{ Name, Use, Doc string }

// Magics are all of them.
var Magics = []Magic{
	{"%%tile", "%%tile NAME [PARAMETER=VALUE ...]", "the rest of the cell is program text; the Go variable NAME holds the program"},
	{"%%bash", "%%bash", "the rest of the cell is a script for sh"},
	{"%%bench", "%%bench", "time each statement below, one a line, and compare with the first"},
	{"%%native", "%%native", "compile the cell with Go's toolchain and run it: fast loops; numbers, strings, and arrays, slices and maps of them go in and come back"},
	{"%%once", "%%once", "the cell is left out when cells are replayed"},
	{"%%time", "%%time", "run the cell and say how long it took"},
	{"%%writefile", "%%writefile PATH", "write the rest of the cell to a file"},
	{"%bench", "%bench STATEMENT", "time a statement: median, best and worst of several runs"},
	{"%cd", "%cd [DIR]", "go to another directory"},
	{"%conformance", "%conformance [FILE ...]", "hold this program against the recorded facts, as `tilus-lab conform`"},
	{"%device", "%device [NAME]", "run programs on interp, sim, cuda or auto from now on; without a name: what there is"},
	{"%env", "%env [NAME[=VALUE]]", "show or set environment variables"},
	{"%help", "%help", "what cells can do"},
	{"%import", "%import PATH@VERSION", "load a package from its source in the module cache, and import it"},
	{"%once", "%once STATEMENT", "as %%once, for one line"},
	{"%pwd", "%pwd", "the current directory"},
	{"%rebuild", "%rebuild", "%replay in a fresh worker, which gives back memory that the session has piled up"},
	{"%replay", "%replay", "after the worker has ended: run the cells again that had succeeded"},
	{"%reset", "%reset", "forget all cells and variables"},
	{"%time", "%time STATEMENT", "run a statement and say how long it took"},
	{"%timeit", "%timeit [-n COUNT] [-r RUNS] STATEMENT", "time a statement over many turns"},
	{"%who", "%who", "the variables, their types and values"},
	{"!", "!COMMAND  or  $COMMAND", "run a command of the system"},
}

// Help is the text of %help.
func (e *Engine) Help() string {
	var b strings.Builder
	b.WriteString("Cells are Go: imports, declarations and statements in any order. The value of the last expression is shown.\n\n")
	for _, m := range Magics {
		fmt.Fprintf(&b, "  %-38s %s\n", m.Use, m.Doc)
	}
	b.WriteString("\nThe bug above a notebook in JupyterLab turns the debugger on: a click beside a line of a cell stops there. Programs of\n%%tile cells stop on interp and sim, also where they go wrong.\n")
	b.WriteString("\nAlways imported:")
	for _, p := range Preimported {
		b.WriteString(" " + p[strings.LastIndexByte(p, '/')+1:])
	}
	fmt.Fprintf(&b, "\nOther packages for import: %d, among them the standard library.\n", len(e.imp.Paths()))
	return b.String()
}

// Tile parses a %%tile cell. It returns the variable's name and the program, or the error with places in the cell. The
// program's own places are in the cell too, for what is said when it runs.
func (e *Engine) Tile(name, src string) (string, *ir.Program, *proto.Error) {
	e.text[name] = src
	head, body, _ := strings.Cut(src, "\n")
	skip := 1
	for strings.TrimSpace(head) == "" && body != "" {
		head, body, _ = strings.Cut(body, "\n")
		skip++
	}
	words := strings.Fields(head)
	fail := func(col int, code, help, msg string) (string, *ir.Program, *proto.Error) {
		return "", nil, e.located(name, []proto.Problem{{Line: skip, Col: col, Code: code, Msg: msg, Help: help}})
	}
	if len(words) < 2 {
		return fail(1, "Cell.E6", "write %%tile matmul, for example", "%%tile needs the name of a Go variable")
	}
	if err := e.Check(words[1]); err != nil {
		return fail(utf8.RuneCountInString(head[:strings.Index(head, words[1])])+1, "Cell.E6", "", "%%tile NAME: "+err.Error())
	}
	p, err := lab.ParseAs(name, strings.Repeat("\n", skip)+body, words[2:]...)
	if err == nil {
		return words[1], p, nil
	}
	list, ok := err.(diag.List)
	if !ok {
		return fail(1, "", "", err.Error())
	}
	var ps []proto.Problem
	for _, d := range list {
		line := d.Pos.Line
		if line == 0 {
			line = skip
		}
		text := lineOf(src, line)
		q := proto.Problem{Line: line, Col: runeCol(text, max(d.Pos.Col, 1)), Code: d.Code, Msg: d.Msg, Help: d.Help}
		if d.End.Line > 0 {
			q.EndLine, q.EndCol = d.End.Line, runeCol(lineOf(src, d.End.Line), d.End.Col)
		}
		ps = append(ps, q)
	}
	return "", nil, e.located(name, ps)
}

// located makes the error of a cell from problems whose places are known.
func (e *Engine) located(name string, ps []proto.Problem) *proto.Error {
	out := &proto.Error{Name: "CellError", Problems: ps}
	for i, q := range ps {
		text := fmt.Sprintf("%s:%d:%d: %s", name, q.Line, q.Col, q.Msg)
		if q.Code != "" {
			text += " [" + q.Code + "]"
		}
		if i == 0 {
			out.Value = text
		}
		if i < diag.MaxShown {
			text += "\n" + caret(lineOf(e.text[name], q.Line), q.Col, width(q))
			if q.Help != "" {
				text += "\n    help: " + q.Help
			}
			out.Traceback = append(out.Traceback, text)
		}
	}
	if len(ps) > 1 {
		out.Value += fmt.Sprintf(" (and %d more)", len(ps)-1)
	}
	return out
}
