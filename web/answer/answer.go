// Package answer is what the explorer's page asks and any of its hosts can answer
// without devices, files or a network: rows of panes, drawings, the palette,
// example programs, notations to copy, and pictures by address. The server (web)
// and the static build (web/core) both stand on it, so the page cannot tell them
// apart.
package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/layoutviz"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/web/pane"
)

// Version is the version of messages and of addresses. Newer versions only add
// fields, so messages and addresses of older and newer pages are both read.
const Version = 1

// Message is a message in either direction. A request has an ID that its answers
// repeat; answers are "ok", "error" or "superseded", after any number of others.
// Messages that answer nothing have ID 0. Unknown fields are ignored.
type Message struct {
	V    int             `json:"v"`
	ID   int64           `json:"id"`
	Type string          `json:"type"`
	Body json.RawMessage `json:"body,omitempty"`
}

// ErrMessage says what a message must be.
var ErrMessage = errors.New("a message must be JSON {v: 1, id, type, body} with a number and a type")

// Parse reads a request.
func Parse(b []byte) (Message, error) {
	var m Message
	if json.Unmarshal(b, &m) != nil || m.V < 1 || m.ID < 1 || m.Type == "" || len(m.Type) > 40 {
		return Message{}, ErrMessage
	}
	return m, nil
}

// Decode reads the body of a request into a value.
func (m Message) Decode(v any) error {
	if err := json.Unmarshal(m.Body, v); err != nil {
		return fmt.Errorf("the body of %s does not fit: %w", m.Type, err)
	}
	return nil
}

// Problem is a located complaint as the page gets it. Param names the field;
// lines and columns count from 1, columns in bytes.
type Problem struct {
	Param   string `json:"param"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	EndLine int    `json:"endLine,omitempty"`
	EndCol  int    `json:"endCol,omitempty"`
	Code    string `json:"code,omitempty"`
	Msg     string `json:"msg"`
	Help    string `json:"help,omitempty"`
}

// Problems lists what is wrong, at most [diag.MaxShown] things.
func Problems(err error) []Problem {
	var list diag.List
	if !errors.As(err, &list) {
		return []Problem{{Msg: err.Error()}}
	}
	var out []Problem
	for i, p := range list {
		if i == diag.MaxShown {
			break
		}
		out = append(out, Problem{Param: p.Pos.File, Line: p.Pos.Line, Col: p.Pos.Col, EndLine: p.End.Line, EndCol: p.End.Col, Code: p.Code, Msg: p.Msg, Help: p.Help})
	}
	return out
}

// Row is a pane as the page gets it.
type Row struct {
	Name   string       `json:"name"`
	Title  string       `json:"title"`
	Doc    string       `json:"doc"`
	Params []pane.Param `json:"params"`
	Lesson string       `json:"lesson,omitempty"` // what the name of the lesson about it begins with
}

// Rows lists the panes.
func Rows() []Row {
	var rows []Row
	for _, p := range pane.All() {
		rows = append(rows, Row{p.Name, p.Title, p.Doc, p.Params, p.Lesson()})
	}
	return rows
}

// Forms names the forms in which pictures can be taken away.
func Forms() []string {
	var out []string
	for _, f := range layoutviz.Formats() {
		out = append(out, f.Name)
	}
	return append(out, page)
}

// Drawing asks for the pictures of one view of a page.
type Drawing struct {
	View   string      `json:"view"`
	Pane   string      `json:"pane"`
	Values pane.Values `json:"values"`
}

// Run draws one pane. A panic of a pane is our mistake; it becomes an error, with
// the stack for the log of the host, because one picture is no reason to end.
func Run(name string, v pane.Values) (r pane.Result, err error) {
	defer func() {
		if x := recover(); x != nil {
			r, err = pane.Result{}, &Panic{Pane: name, Value: fmt.Sprint(x), Stack: string(debug.Stack())}
		}
	}()
	p, err := pane.Find(name)
	if err != nil {
		return pane.Result{}, err
	}
	return p.Run(v)
}

// Panic is a mistake of ours that drawing met.
type Panic struct{ Pane, Value, Stack string }

func (p *Panic) Error() string {
	return fmt.Sprintf("drawing the pane %s failed inside: %.200s; this is a mistake of Tilus Lab, please report it with the address of the page", p.Pane, p.Value)
}

// Example is the text of an example program.
func Example(name string) (map[string]string, error) {
	src := corpus.Program(name)
	if src == "" {
		return nil, fmt.Errorf("there is no example program %.60q", name)
	}
	return map[string]string{"src": src}, nil
}

// Entry is a thing that the command palette finds: a pane with values, an example
// program, or a lesson.
type Entry struct {
	Title   string      `json:"title"`
	Kind    string      `json:"kind"` // for people: "pane", "instruction", "program", "lesson"
	Pane    string      `json:"pane,omitempty"`
	Values  pane.Values `json:"values,omitempty"`
	Example string      `json:"example,omitempty"` // program whose text "example" gives
	Book    string      `json:"book,omitempty"`
}

// Palette lists everything that has a name.
func Palette(books []string) []Entry {
	var out []Entry
	for _, p := range pane.All() {
		out = append(out, Entry{Title: p.Title, Kind: "pane", Pane: p.Name})
	}
	for _, name := range books {
		out = append(out, Entry{Title: name, Kind: "lesson", Book: name})
	}
	for _, op := range ir.Ops() {
		out = append(out, Entry{Title: op.Name, Kind: "VM instruction", Pane: "manual", Values: pane.Values{"op": op.Name}})
	}
	for _, name := range corpus.Names() {
		out = append(out, Entry{Title: name, Kind: "program", Pane: "program", Example: name},
			Entry{Title: name + ": generated code", Kind: "program", Pane: "code", Example: name})
	}
	for _, a := range arch.Atoms() {
		title := a.Name
		if len(a.Aliases) > 0 {
			title = fmt.Sprintf("%s (%s)", a.Name, a.Aliases[0])
		}
		out = append(out, Entry{Title: title, Kind: a.Vendor + " instruction", Pane: "catalogue", Values: pane.Values{"i": a.Name, "q": a.Name}})
	}
	return out
}
