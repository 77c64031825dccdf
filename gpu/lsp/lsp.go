// Package lsp is a language server for program text: it tells editors what is wrong
// with a program while it is written, completes and explains what stands in it, lays it
// out, and finds where names come from.
//
// Source: https://microsoft.github.io/language-server-protocol, version 3.17
package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/tilus-lab/tilus-lab/gpu/assist"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// maxOpen bounds how many documents a client holds open.
const maxOpen = 1000

// server is one conversation.
type server struct {
	mu    sync.Mutex
	docs  map[string]*document
	utf8  bool // whether positions count bytes, otherwise UTF-16 units
	ended bool // after shutdown
	exit  context.CancelFunc
}

// Serve talks to a client until it says exit, the connection ends or ctx is done.
func Serve(ctx context.Context, conn io.ReadWriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{docs: map[string]*document{}, exit: cancel}
	// One request after the other: all answers are quick.
	c := jsonrpc2.NewConn(ctx, jsonrpc2.NewBufferedStream(conn, jsonrpc2.VSCodeObjectCodec{}), jsonrpc2.HandlerWithError(s.handle))
	defer c.Close()
	select {
	case <-c.DisconnectNotify():
	case <-ctx.Done():
	}
	return nil
}

// The messages, as far as they are read and written.
type (
	position struct {
		Line      int `json:"line"`
		Character int `json:"character"`
	}
	span struct {
		Start position `json:"start"`
		End   position `json:"end"`
	}
	location struct {
		URI   string `json:"uri"`
		Range span   `json:"range"`
	}
	identifier struct {
		URI string `json:"uri"`
	}
	at struct {
		TextDocument identifier `json:"textDocument"`
		Position     position   `json:"position"`
	}
	diagnostic struct {
		Range           span              `json:"range"`
		Severity        int               `json:"severity"` // 1 error, 3 information
		Code            string            `json:"code,omitempty"`
		CodeDescription map[string]string `json:"codeDescription,omitempty"`
		Source          string            `json:"source"`
		Message         string            `json:"message"`
	}
	edit struct {
		Range   span   `json:"range"`
		NewText string `json:"newText"`
	}
	completion struct {
		Label    string `json:"label"`
		Kind     int    `json:"kind"`
		Detail   string `json:"detail,omitempty"`
		SortText string `json:"sortText"`
		TextEdit edit   `json:"textEdit"`
	}
	markup struct {
		Kind  string `json:"kind"`
		Value string `json:"value"`
	}
)

// kinds of [assist.Item] as the protocol numbers them.
var kinds = map[string]int{"function": 3, "field": 5, "variable": 6, "keyword": 14, "type": 7, "constant": 21}

func invalid(err error) error {
	return &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidParams, Message: err.Error()}
}

// params reads the parameters of a request.
func params[T any](r *jsonrpc2.Request) (T, error) {
	var p T
	if r.Params == nil {
		return p, invalid(errors.New("no params"))
	}
	if err := json.Unmarshal(*r.Params, &p); err != nil {
		return p, invalid(err)
	}
	return p, nil
}

func (s *server) handle(ctx context.Context, c *jsonrpc2.Conn, r *jsonrpc2.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Method == "exit":
		s.exit()
		return nil, nil
	case s.ended:
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidRequest, Message: "the server is shut down"}
	}
	switch r.Method {
	case "initialize":
		return s.initialize(r)
	case "initialized", "$/cancelRequest", "$/setTrace":
		return nil, nil
	case "shutdown":
		s.ended = true
		return nil, nil
	case "textDocument/didOpen":
		p, err := params[struct {
			TextDocument struct{ URI, Text string } `json:"textDocument"`
		}](r)
		if err != nil {
			return nil, err
		}
		if len(s.docs) >= maxOpen {
			return nil, invalid(fmt.Errorf("at most %d documents are open", maxOpen))
		}
		return nil, s.set(ctx, c, p.TextDocument.URI, p.TextDocument.Text)
	case "textDocument/didChange":
		p, err := params[struct {
			TextDocument   identifier `json:"textDocument"`
			ContentChanges []struct {
				Text string `json:"text"`
			} `json:"contentChanges"`
		}](r)
		if err != nil || len(p.ContentChanges) == 0 {
			return nil, err
		}
		return nil, s.set(ctx, c, p.TextDocument.URI, p.ContentChanges[len(p.ContentChanges)-1].Text)
	case "textDocument/didClose":
		p, err := params[struct {
			TextDocument identifier `json:"textDocument"`
		}](r)
		if err != nil {
			return nil, err
		}
		delete(s.docs, p.TextDocument.URI)
		return nil, s.publish(ctx, c, p.TextDocument.URI, []diagnostic{})
	case "textDocument/didSave":
		return nil, nil
	case "textDocument/hover", "textDocument/completion", "textDocument/definition":
		p, err := params[at](r)
		if err != nil {
			return nil, err
		}
		d, err := s.document(p.TextDocument.URI)
		if err != nil {
			return nil, err
		}
		k := d.offset(p.Position)
		switch r.Method {
		case "textDocument/hover":
			doc := assist.Describe(d.text, k)
			if doc == "" {
				return nil, nil
			}
			return map[string]any{"contents": markup{"markdown", doc}}, nil
		case "textDocument/completion":
			return d.complete(k), nil
		}
		from, ok := d.definition(k)
		if !ok {
			return nil, nil
		}
		return location{p.TextDocument.URI, from}, nil
	case "textDocument/formatting", "textDocument/documentSymbol":
		p, err := params[at](r)
		if err != nil {
			return nil, err
		}
		d, err := s.document(p.TextDocument.URI)
		if err != nil {
			return nil, err
		}
		if r.Method == "textDocument/documentSymbol" {
			return d.symbols(), nil
		}
		return d.format()
	}
	if r.Notif {
		return nil, nil // one that the server need not know
	}
	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "there is no " + r.Method}
}

func (s *server) initialize(r *jsonrpc2.Request) (any, error) {
	p, err := params[struct {
		Capabilities struct {
			General struct {
				PositionEncodings []string `json:"positionEncodings"`
			} `json:"general"`
		} `json:"capabilities"`
	}](r)
	if err != nil {
		return nil, err
	}
	encoding := "utf-16"
	for _, e := range p.Capabilities.General.PositionEncodings {
		if e == "utf-8" {
			encoding, s.utf8 = e, true
		}
	}
	return map[string]any{
		"capabilities": map[string]any{
			"positionEncoding": encoding, "textDocumentSync": map[string]any{"openClose": true, "change": 1, "save": true}, // whole texts
			"hoverProvider": true, "completionProvider": map[string]any{"triggerCharacters": []string{".", "(", ","}},
			"definitionProvider": true, "documentFormattingProvider": true, "documentSymbolProvider": true,
		},
		"serverInfo": map[string]string{"name": "tilus-lab"},
	}, nil
}

func (s *server) document(uri string) (*document, error) {
	if d := s.docs[uri]; d != nil {
		return d, nil
	}
	return nil, invalid(fmt.Errorf("%s is not open", uri))
}

// set takes a document's text and says what is wrong with it.
func (s *server) set(ctx context.Context, c *jsonrpc2.Conn, uri, src string) error {
	if len(src) > text.MaxText {
		delete(s.docs, uri)
		return s.publish(ctx, c, uri, []diagnostic{{Severity: 1, Source: "tilus-lab", Message: fmt.Sprintf("the text has %d bytes, at most %d are read", len(src), text.MaxText)}})
	}
	d := newDocument(uri, src, s.utf8)
	s.docs[uri] = d
	return s.publish(ctx, c, uri, d.problems)
}

func (s *server) publish(ctx context.Context, c *jsonrpc2.Conn, uri string, list []diagnostic) error {
	return c.Notify(ctx, "textDocument/publishDiagnostics", map[string]any{"uri": uri, "diagnostics": list})
}

// document is an open text.
type document struct {
	text     string
	lines    []int // offsets at which lines begin
	utf8     bool
	program  *ir.Program // nil where the text has none
	problems []diagnostic
}

// newDocument reads a text as [compile.Parse] does: with its verifier and with the
// layouts that it leaves out.
func newDocument(uri, src string, bytes bool) *document {
	d := &document{text: src, lines: []int{0}, utf8: bytes, problems: []diagnostic{}}
	for i, b := range []byte(src) {
		if b == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	name := "program.tile"
	if u, err := url.Parse(uri); err == nil && u.Path != "" {
		name = path.Base(u.Path)
	}
	p, err := compile.Parse(name, src, nil)
	if err == nil {
		d.program = p
		return d
	}
	var list diag.List
	if !errors.As(err, &list) {
		list = diag.List{{Msg: err.Error(), Pos: diag.Pos{Line: 1, Col: 1}}}
	}
	for _, x := range list {
		msg := x.Msg
		if x.Help != "" {
			msg += "\n" + x.Help
		}
		d.problems = append(d.problems, diagnostic{Range: d.span(x.Pos, x.End), Severity: 1, Code: x.Code, Source: "tilus-lab", Message: msg})
	}
	return d
}

// offset is the byte that a position names; one outside the text is at its nearest.
func (d *document) offset(p position) int {
	if p.Line < 0 {
		return 0
	}
	if p.Line >= len(d.lines) {
		return len(d.text)
	}
	from := d.lines[p.Line]
	line := d.text[from:]
	if i := strings.IndexByte(line, '\n'); i >= 0 {
		line = line[:i]
	}
	if d.utf8 {
		return from + min(max(p.Character, 0), len(line))
	}
	units := 0
	for i, r := range line {
		if units >= p.Character {
			return from + i
		}
		units += units16(r)
	}
	return from + len(line)
}

// units16 is how many UTF-16 units a character takes.
func units16(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}

// position is that of a byte.
func (d *document) position(k int) position {
	k = min(max(k, 0), len(d.text))
	line := 0
	for line+1 < len(d.lines) && d.lines[line+1] <= k {
		line++
	}
	if d.utf8 {
		return position{line, k - d.lines[line]}
	}
	units := 0
	for _, r := range d.text[d.lines[line]:k] {
		units += units16(r)
	}
	return position{line, units}
}

// byteOf is the byte that a place in the text names.
func (d *document) byteOf(p diag.Pos) int {
	line := min(max(p.Line-1, 0), len(d.lines)-1)
	return min(d.lines[line]+max(p.Col-1, 0), len(d.text))
}

// span is from a place to another; without the other the word that begins there.
func (d *document) span(from, to diag.Pos) span {
	a := d.byteOf(from)
	b := a
	if to.Line > 0 {
		b = d.byteOf(to)
	}
	if b <= a {
		for b = a; b < len(d.text) && isWord(d.text[b]); b++ {
		}
		if b == a && b < len(d.text) && d.text[b] != '\n' {
			b++
		}
	}
	return span{d.position(a), d.position(b)}
}

func isWord(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// complete lists what may stand at a byte.
func (d *document) complete(k int) any {
	items, word := assist.Complete(d.text[:k])
	where := span{d.position(k - len(word)), d.position(k)}
	list := make([]completion, len(items))
	for i, x := range items {
		list[i] = completion{Label: x.Text, Kind: kinds[x.Kind], Detail: x.Doc, SortText: fmt.Sprintf("%05d", i), TextEdit: edit{where, x.Text}}
	}
	return map[string]any{"isIncomplete": false, "items": list}
}

// definition is where the name at a byte is first assigned, or declared as a parameter.
func (d *document) definition(k int) (span, bool) {
	a, b := k, k
	for a > 0 && isWord(d.text[a-1]) {
		a--
	}
	for b < len(d.text) && isWord(d.text[b]) {
		b++
	}
	for _, v := range d.variables() {
		if v.Name == d.text[a:b] && a < b {
			return d.span(v.Pos, diag.Pos{}), true
		}
	}
	if d.program != nil || a == b {
		return span{}, false
	}
	// A text with mistakes: the first place that looks like an assignment or parameter.
	name := regexp.QuoteMeta(d.text[a:b])
	m := regexp.MustCompile(`(?m)(?:^\s*(?:\w+\s*,\s*)*|[(,]\s*|\bfor\s+)(` + name + `)\s*(?:[:,=]|in\b)`).FindStringSubmatchIndex(d.text)
	if m == nil {
		return span{}, false
	}
	return span{d.position(m[2]), d.position(m[3])}, true
}

// variables of the program, in the order of the text.
func (d *document) variables() []*ir.Var {
	if d.program == nil {
		return nil
	}
	list := append([]*ir.Var{}, d.program.Params...)
	seen := map[*ir.Var]bool{}
	for _, v := range list {
		seen[v] = true
	}
	add := func(vars ...*ir.Var) {
		for _, v := range vars {
			if !seen[v] && v.Pos.Line > 0 {
				seen[v] = true
				list = append(list, v)
			}
		}
	}
	d.program.Body.Walk(func(s ir.Stmt) bool {
		switch s := s.(type) {
		case *ir.Instr:
			add(s.Out...)
		case *ir.Let:
			add(s.Var)
		case *ir.For:
			add(s.Var)
		}
		return true
	})
	return list
}

// symbols are the names of the program with their types.
func (d *document) symbols() any {
	type symbol struct {
		Name           string `json:"name"`
		Detail         string `json:"detail"`
		Kind           int    `json:"kind"`
		Range          span   `json:"range"`
		SelectionRange span   `json:"selectionRange"`
	}
	list := []symbol{}
	for _, v := range d.variables() {
		where := d.span(v.Pos, diag.Pos{})
		list = append(list, symbol{v.Name, v.Type.String(), 13, where, where})
	}
	return list
}

// format is the text as [text.FormatSource] lays it out; nothing where it has errors.
func (d *document) format() (any, error) {
	out, err := text.FormatSource("program.tile", d.text)
	if err != nil {
		return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeInvalidRequest, Message: err.Error()}
	}
	if out == d.text {
		return []edit{}, nil
	}
	return []edit{{span{position{}, d.position(len(d.text))}, out}}, nil
}
