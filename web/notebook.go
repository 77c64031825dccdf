package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/kernel/session"
	"github.com/tilus-lab/tilus-lab/web/answer"
)

// Limits of notebooks.
const (
	maxBook     = 32 << 20 // bytes of a file
	maxCells    = 2000
	maxSessions = 8
	maxOutput   = 4 << 20 // bytes of output of one cell
)

// books are the notebooks of one folder. All access goes through os.Root, so no
// name and no symbolic link leads out of it.
type books struct {
	dir    string
	root   *os.Root
	worker session.Options
	vars   *vars
	md     goldmark.Markdown
	trust  trust

	mu   sync.Mutex
	open map[string]*book
	live atomic.Int32 // sessions that run

	frames frames
}

// book is one notebook that some page has open.
type book struct {
	mu      sync.Mutex // held while the file is read or written
	name    string     // path in the folder
	sum     string     // of the file as it was read or written last
	code    string     // hash of its code, for trust
	nb      notebook
	sess    *session.Session
	stopped func()

	varMu sync.Mutex
	texts map[string]string // of the variables after the last cell

	shownMu sync.Mutex
	shown   map[string]string // cell that has the display of an ID
}

// notebook is nbformat 4. What is not understood is kept.
type notebook struct {
	Cells    []nbCell        `json:"cells"`
	Metadata json.RawMessage `json:"metadata"`
	Format   int             `json:"nbformat"`
	Minor    int             `json:"nbformat_minor"`
}

type nbCell struct {
	Type     string          `json:"cell_type"`
	ID       string          `json:"id,omitempty"`
	Metadata json.RawMessage `json:"metadata"`
	Source   lines           `json:"source"`
	Attach   json.RawMessage `json:"attachments,omitempty"`
	Outputs  []nbOutput      `json:"-"`
	Count    *int            `json:"-"`
}

// plainCell breaks the recursion of the methods below.
type plainCell nbCell

func (c nbCell) MarshalJSON() ([]byte, error) {
	if len(c.Metadata) == 0 {
		c.Metadata = json.RawMessage("{}")
	}
	if c.Type != "code" {
		return json.Marshal(plainCell(c))
	}
	if c.Outputs == nil {
		c.Outputs = []nbOutput{}
	}
	return json.Marshal(struct {
		plainCell
		Outputs []nbOutput `json:"outputs"`
		Count   *int       `json:"execution_count"`
	}{plainCell(c), c.Outputs, c.Count})
}

func (c *nbCell) UnmarshalJSON(b []byte) error {
	var x struct {
		plainCell
		Outputs []nbOutput `json:"outputs"`
		Count   *int       `json:"execution_count"`
	}
	if err := json.Unmarshal(b, &x); err != nil {
		return err
	}
	*c = nbCell(x.plainCell)
	c.Outputs, c.Count = x.Outputs, x.Count
	return nil
}

// nbOutput is one output as the file has it.
type nbOutput struct {
	Type      string         `json:"output_type"`
	Name      string         `json:"name,omitempty"`
	Text      *lines         `json:"text,omitempty"`
	Data      map[string]any `json:"data,omitempty"`
	Metadata  map[string]any `json:"metadata,omitempty"`
	Count     *int           `json:"execution_count,omitempty"`
	EName     string         `json:"ename,omitempty"`
	EValue    string         `json:"evalue,omitempty"`
	Traceback []string       `json:"traceback,omitempty"`

	display string // ID by which it is replaced; not in the file
	fresh   bool   // made by a cell that ran here, not read from a file
}

// MarshalJSON adds the fields that nbformat requires of each kind of output.
func (o nbOutput) MarshalJSON() ([]byte, error) {
	m := map[string]any{"output_type": o.Type}
	switch o.Type {
	case "stream":
		m["name"], m["text"] = o.Name, o.Text
	case "error":
		m["ename"], m["evalue"], m["traceback"] = o.EName, o.EValue, o.Traceback
	default:
		data := map[string]any{}
		for kind, v := range o.Data {
			// Jupyter stores texts as lists of lines, so that diffs can be read.
			if s, ok := v.(string); ok && (strings.HasPrefix(kind, "text/") || kind == "image/svg+xml") {
				v = lines(s)
			}
			data[kind] = v
		}
		m["data"], m["metadata"] = data, o.Metadata
		if o.Metadata == nil {
			m["metadata"] = map[string]any{}
		}
		if o.Type == "execute_result" {
			m["execution_count"] = o.Count
		}
	}
	return json.Marshal(m)
}

// lines is a text that nbformat stores as a string or a list of lines.
type lines string

func (l *lines) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*l = lines(one)
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return err
	}
	*l = lines(strings.Join(many, ""))
	return nil
}

func (l lines) MarshalJSON() ([]byte, error) {
	out := strings.SplitAfter(string(l), "\n")
	if out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return json.Marshal(out)
}

func openBooks(dir, data string, worker session.Options, v *vars) (*books, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("web: folder of notebooks: %w", err)
	}
	if worker.Dir == "" {
		worker.Dir = dir
	}
	return &books{dir: dir, root: root, worker: worker, vars: v, open: map[string]*book{}, trust: trust{path: filepath.Join(data, "trusted-notebooks")},
		md: goldmark.New(goldmark.WithExtensions(extension.Table))}, nil
}

func (bs *books) close() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, b := range bs.open {
		b.end(bs.vars)
	}
	bs.root.Close()
}

// end stops the session of a book.
func (b *book) end(v *vars) {
	b.mu.Lock()
	s, stopped := b.sess, b.stopped
	b.sess = nil
	b.mu.Unlock()
	if s == nil {
		return
	}
	// Without the lock: the session ends when its last output has been taken, which may want it.
	stopped()
	s.Close()
	v.receive(link.Message{Session: b.session(), Gone: true})
}

func (b *book) session() string { return "nb:" + strings.TrimSuffix(path.Base(b.name), ".ipynb") }

// list names the notebooks of the folder, without their suffix.
func (bs *books) list() []string {
	out := []string{}
	err := fs.WalkDir(bs.root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // a folder that cannot be read has no notebooks
		case d.IsDir() && p != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(p, ".ipynb") && len(out) < 1000:
			out = append(out, strings.TrimSuffix(p, ".ipynb"))
		}
		return nil
	})
	if err != nil {
		return out
	}
	sort.Strings(out)
	return out
}

// find turns the name in an address into a path: "01" finds
// "01-low-precision-matmul.ipynb".
func (bs *books) find(name string) (string, error) {
	name = strings.TrimSuffix(name, ".ipynb")
	var near []string
	for _, n := range bs.list() {
		if n == name {
			return n + ".ipynb", nil
		}
		if strings.HasPrefix(n, name+"-") {
			near = append(near, n)
		}
	}
	if len(near) == 1 {
		return near[0] + ".ipynb", nil
	}
	return "", fmt.Errorf("there is no notebook %.80q in %s; Learn lists those that there are", name, filepath.Base(bs.dir))
}

func (bs *books) get(name string) (*book, error) {
	p, err := bs.find(name)
	if err != nil {
		return nil, err
	}
	// A link out of the folder is no notebook of it; the root does not follow one.
	if info, err := bs.root.Stat(p); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cannot read the notebook: %.80q is no file in %s", p, filepath.Base(bs.dir))
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b := bs.open[p]
	if b == nil {
		b = &book{name: p}
		bs.open[p] = b
	}
	return b, nil
}

func (bs *books) read(p string) (raw []byte, err error) {
	f, err := bs.root.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err = io.ReadAll(io.LimitReader(f, maxBook+1))
	if err == nil && len(raw) > maxBook {
		err = fmt.Errorf("%s has more than %d bytes", p, maxBook)
	}
	return raw, err
}

func digest(raw []byte) string {
	h := sha256.Sum256(raw)
	return hex.EncodeToString(h[:])
}

// cellJSON is a cell as the page gets it.
type cellJSON struct {
	ID      string       `json:"id"`
	Type    string       `json:"type"`
	Source  string       `json:"source"`
	HTML    string       `json:"html,omitempty"` // markdown cells
	Count   int          `json:"count,omitempty"`
	Outputs []outputJSON `json:"outputs,omitempty"`
}

// outputJSON is one output in a form that cannot reach the page: text, an address for
// an image element, HTML that goldmark made from Markdown, or a document of its own
// for a sandboxed frame.
type outputJSON struct {
	Kind    string `json:"kind"` // "stream", "text", "error", "image", "html", "widget", "frame"
	Text    string `json:"text,omitempty"`
	Src     string `json:"src,omitempty"`
	HTML    string `json:"html,omitempty"`
	Model   string `json:"model,omitempty"`   // of a widget
	Scripts bool   `json:"scripts,omitempty"` // of a frame: a cell made it that ran here
	High    int    `json:"high,omitempty"`    // of a frame, in pixels
	Light   bool   `json:"light,omitempty"`   // drawn on white: dark pages may turn its colours round
	Display string `json:"display,omitempty"` // ID by which the output is replaced
}

// handle does the requests whose names begin with "nb.".
func (bs *books) handle(ctx context.Context, c *conn, id int64, kind string, decode func(any) error) (any, error) {
	var q struct {
		Name   string     `json:"name"`
		Cell   string     `json:"cell"`
		Source string     `json:"source"`
		Cells  []cellJSON `json:"cells"`
		Force  bool       `json:"force"`
		Before string     `json:"before"` // of the place that complete and inspect ask about
		After  string     `json:"after"`

		Sum    string `json:"sum"` // hash of the code that a person trusts
		Always bool   `json:"always"`

		Comm string         `json:"comm"`
		Data map[string]any `json:"data"`
	}
	if err := decode(&q); err != nil {
		return nil, err
	}
	switch kind {
	case "nb.markdown":
		return map[string]string{"html": bs.markdown(q.Source)}, nil
	case "nb.open", "nb.run", "nb.save", "nb.interrupt", "nb.restart", "nb.comm", "nb.complete", "nb.inspect", "nb.trust":
	default:
		return nil, fmt.Errorf("there is no request %.40q", kind)
	}
	b, err := bs.get(q.Name)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "nb.open":
		return bs.openBook(c, b)
	case "nb.save":
		return bs.save(c, b, q.Cells, q.Force)
	case "nb.trust":
		return bs.trusts(b, q.Sum, q.Always)
	case "nb.complete":
		return b.complete(q.Before, q.After)
	case "nb.inspect":
		return b.inspect(q.Before, q.After)
	case "nb.comm":
		return bs.comm(ctx, c, id, b, proto.Comm{Step: "msg", ID: q.Comm, Data: q.Data})
	case "nb.interrupt":
		if s := b.running(); s != nil {
			s.Interrupt()
		}
		return nil, nil
	case "nb.restart":
		s := b.running()
		if s == nil {
			return nil, nil
		}
		b.varMu.Lock()
		b.texts = nil
		b.varMu.Unlock()
		s.Forget()
		return nil, s.Restart()
	}
	if err := bs.mayRun(b); err != nil {
		return nil, err
	}
	return bs.exec(ctx, c, id, b, q.Cell, q.Source)
}

// complete asks the worker what may be written between two parts of a cell. A notebook
// that was not run yet has no worker, and nothing is started for it.
func (b *book) complete(before, after string) (any, error) {
	type offer struct {
		Text string `json:"text"`
		Kind string `json:"kind"`
		Doc  string `json:"doc,omitempty"`
	}
	out, word := []offer{}, ""
	if s := b.running(); s != nil {
		at := utf8.RuneCountInString(before)
		c, err := s.Complete(before+after, at)
		if err != nil {
			return nil, err
		}
		runes := []rune(before)
		word = string(runes[min(max(c.Start, 0), at):])
		for _, m := range c.Matches[:min(len(c.Matches), maxMatches)] {
			out = append(out, offer{m.Text, m.Kind, m.Sig})
		}
	}
	return map[string]any{"items": out, "word": word}, nil
}

// maxMatches is how many matches one completion of a cell has.
const maxMatches = 300

// inspect asks the worker what stands between two parts of a cell, as safe HTML.
func (b *book) inspect(before, after string) (any, error) {
	s := b.running()
	if s == nil {
		return map[string]string{"html": ""}, nil
	}
	x, err := s.Inspect(before+after, utf8.RuneCountInString(before))
	if err != nil {
		return nil, err
	}
	text := x.Markdown
	if text == "" && x.Text != "" {
		text = "```\n" + x.Text + "\n```"
	}
	html, err := answer.Markdown(text)
	return map[string]string{"html": html}, err
}

// running is the notebook's worker, nil when it has none.
func (b *book) running() *session.Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sess
}

// load reads the file of a notebook, with b locked.
func (bs *books) load(b *book) error {
	raw, err := bs.read(b.name)
	if err != nil {
		return fmt.Errorf("cannot read the notebook: %w", err)
	}
	var nb notebook
	if err := json.Unmarshal(raw, &nb); err != nil || nb.Format != 4 {
		return fmt.Errorf("%s is not a notebook of format 4", b.name)
	}
	if len(nb.Cells) > maxCells {
		return fmt.Errorf("%s has %d cells; the limit is %d", b.name, len(nb.Cells), maxCells)
	}
	for i := range nb.Cells {
		if nb.Cells[i].ID == "" {
			nb.Cells[i].ID = fmt.Sprint("cell-", i)
		}
	}
	b.nb, b.sum, b.code = nb, digest(raw), codeOf(nb.Cells)
	return nil
}

func (bs *books) openBook(c *conn, b *book) (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := bs.load(b); err != nil {
		return nil, err
	}
	c.saw(b)
	out := []cellJSON{}
	for _, cell := range b.nb.Cells {
		x := cellJSON{ID: cell.ID, Type: cell.Type, Source: string(cell.Source)}
		if cell.Type == "markdown" {
			x.HTML = bs.markdown(x.Source)
		}
		if cell.Count != nil {
			x.Count = *cell.Count
		}
		for _, o := range cell.Outputs {
			x.Outputs = append(x.Outputs, bs.show(o))
		}
		out = append(out, x)
	}
	m := map[string]any{"name": strings.TrimSuffix(b.name, ".ipynb"), "cells": out, "live": b.sess != nil}
	if ok, _ := bs.trust.has(b.code); !ok {
		m["asks"] = bs.asks(b)
	}
	return m, nil
}

// save writes the notebook: cells as the page has them, outputs as they were
// last shown. The file is replaced in one step, and only if nobody else, another
// page included, has changed it since this page saw it, unless force.
func (bs *books) save(c *conn, b *book, cells []cellJSON, force bool) (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(cells) > maxCells {
		return nil, fmt.Errorf("%d cells; the limit is %d", len(cells), maxCells)
	}
	now, err := bs.read(b.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the notebook: %w", err)
	}
	if digest(now) != c.sawLast(b) && !force {
		return nil, errors.New("the notebook has changed on disk since it was opened; reload it, or save again to overwrite")
	}
	old := map[string]nbCell{}
	for _, c := range b.nb.Cells {
		old[c.ID] = c
	}
	nb := b.nb
	nb.Cells = nil
	for _, x := range cells {
		if x.Type != "code" && x.Type != "markdown" && x.Type != "raw" {
			return nil, fmt.Errorf("a cell is of type %.20q", x.Type)
		}
		c := old[x.ID]
		c.ID, c.Type, c.Source = x.ID, x.Type, lines(x.Source)
		nb.Cells = append(nb.Cells, c)
	}
	if nb.Cells == nil {
		nb.Cells = []nbCell{}
	}
	text, err := encode(nb)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the notebook: %w", err)
	}
	if err := bs.replace(b.name, text); err != nil {
		return nil, fmt.Errorf("cannot save the notebook: %w", err)
	}
	b.nb, b.sum = nb, digest(text)
	c.saw(b)
	return map[string]int{"bytes": len(text)}, bs.saved(b)
}

// encode is the text of a notebook as Jupyter writes it: sorted keys, one space
// of indentation, so that saving here and there gives small diffs.
func encode(nb notebook) ([]byte, error) {
	raw, err := json.Marshal(nb)
	if err != nil {
		return nil, err
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	err = enc.Encode(tree)
	return buf.Bytes(), err
}

// replace writes a file beside the old one and renames it.
func (bs *books) replace(name string, raw []byte) error {
	tmp := path.Join(path.Dir(name), "."+path.Base(name)+"."+random()[:8])
	f, err := bs.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = bs.root.Rename(tmp, name)
	}
	if err != nil {
		bs.root.Remove(tmp)
	}
	return err
}

// start makes sure that a book has a session.
func (bs *books) start(b *book) (*session.Session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sess != nil {
		return b.sess, nil
	}
	if len(bs.worker.Exe) == 0 {
		return nil, errors.New("this explorer was started without a worker to run cells")
	}
	if bs.live.Add(1) > maxSessions {
		bs.live.Add(-1)
		return nil, fmt.Errorf("%d notebooks are running already", maxSessions)
	}
	s, err := session.Start(bs.worker)
	if err != nil {
		bs.live.Add(-1)
		return nil, fmt.Errorf("the worker did not start: %w", err)
	}
	name := b.session()
	b.sess = s
	b.stopped = s.Subscribe(func(e proto.Event) {
		m := link.Message{V: link.Version, Op: "state", Session: name, Title: b.name}
		switch {
		case e.Vars != nil:
			m.Vars = []link.Var{}
			for _, v := range e.Vars.Vars {
				m.Vars = append(m.Vars, link.Var{Name: v.Name, Type: v.Type, Form: v.Form, Text: v.Text})
			}
		case e.Explore != nil:
			m.Op = "explore"
			m.Explore = &link.Explore{Name: e.Explore.Name, Form: e.Explore.Form, Text: e.Explore.Text}
		default:
			return
		}
		bs.vars.receive(m)
	})
	return s, nil
}

// exec runs one cell. Outputs go to the page as they come, as "output" messages
// with the ID of the request. A page that leaves interrupts its cell.
func (bs *books) exec(ctx context.Context, c *conn, id int64, b *book, cell, source string) (any, error) {
	s, err := bs.start(b)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var outs []nbOutput
	var shown []link.Explore // what the pictures of the cell show
	size := 0
	r, err := s.Execute(ctx, session.Request{Code: source, StoreHistory: true}, func(e proto.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Clear != nil {
			outs, size = nil, 0
			c.push(id, "clear", nil)
			return
		}
		if e.Vars != nil {
			c.push(id, "vars", seen(b.set(e.Vars.Vars, source), shown, b.session()))
			return
		}
		if e.Comm != nil {
			c.push(id, "comm", e.Comm)
			return
		}
		if e.Bundle != nil && e.Bundle.Update {
			o, _ := outputOf(e)
			for i := range outs {
				if outs[i].display == o.display {
					outs[i] = o
				}
			}
			b.mu.Lock()
			bs.replaceShown(b, o)
			b.mu.Unlock()
			c.push(id, "update", bs.show(o))
			return
		}
		if e.Bundle != nil && e.Bundle.Shows != nil && len(shown) < 20 {
			shown = append(shown, link.Explore{Form: e.Bundle.Shows.Form, Text: e.Bundle.Shows.Text})
		}
		o, ok := outputOf(e)
		if !ok || size > maxOutput {
			return
		}
		x := bs.show(o)
		if size += len(x.Text) + len(x.Src) + len(x.HTML); size > maxOutput {
			text := lines("… more output was dropped\n")
			o = nbOutput{Type: "stream", Name: "stderr", Text: &text}
			x = bs.show(o)
		}
		if n := len(outs); n > 0 && o.Type == "stream" && outs[n-1].Type == "stream" && outs[n-1].Name == o.Name {
			t := *outs[n-1].Text + *o.Text
			outs[n-1].Text = &t
		} else {
			outs = append(outs, o)
		}
		c.push(id, "output", x)
	})
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	count := r.Count
	kept := slices.Clone(outs) // what comes late is not in the file
	for i := range kept {
		if kept[i].Type == "execute_result" {
			kept[i].Count = &count
		}
	}
	b.shownMu.Lock()
	for _, o := range kept {
		if o.display != "" {
			if b.shown == nil {
				b.shown = map[string]string{}
			}
			b.shown[o.display] = cell
		}
	}
	b.shownMu.Unlock()
	found := false
	for i := range b.nb.Cells {
		if b.nb.Cells[i].ID == cell {
			b.nb.Cells[i].Outputs, b.nb.Cells[i].Count, found = kept, &count, true
		}
	}
	if !found && len(b.nb.Cells) < maxCells {
		b.nb.Cells = append(b.nb.Cells, nbCell{ID: cell, Type: "code", Source: lines(source), Outputs: kept, Count: &count})
	}
	return map[string]any{"status": r.Status, "count": r.Count, "seconds": r.Seconds, "lost": r.Lost}, nil
}

// comm hands a message of a widget to the session. What comes of it goes to the page under this request.
func (bs *books) comm(ctx context.Context, c *conn, id int64, b *book, msg proto.Comm) (any, error) {
	b.mu.Lock()
	s := b.sess
	b.mu.Unlock()
	if s == nil {
		return nil, errors.New("the notebook does not run; run the cell again to use its controls")
	}
	r, err := s.Comm(ctx, msg, func(e proto.Event) {
		if e.Comm != nil {
			c.push(id, "comm", e.Comm)
			return
		}
		o, ok := outputOf(e)
		switch {
		case !ok:
		case e.Bundle != nil && e.Bundle.Update:
			b.mu.Lock()
			bs.replaceShown(b, o)
			b.mu.Unlock()
			c.push(id, "update", bs.show(o))
		default:
			c.push(id, "output", bs.show(o))
		}
	})
	if err != nil {
		return nil, err
	}
	return map[string]string{"status": r.Status}, nil
}

// replaceShown puts an output in the place of what the display of its ID has shown, for the file.
func (bs *books) replaceShown(b *book, o nbOutput) {
	b.shownMu.Lock()
	cell, ok := b.shown[o.display]
	b.shownMu.Unlock()
	if !ok {
		return
	}
	for i := range b.nb.Cells {
		if b.nb.Cells[i].ID != cell {
			continue
		}
		for j := range b.nb.Cells[i].Outputs {
			if b.nb.Cells[i].Outputs[j].display == o.display {
				b.nb.Cells[i].Outputs[j] = o
			}
		}
	}
}

// set takes Fresh from variables that a cell only used: the worker says of each
// whose methods were called that it may have changed.
func (b *book) set(all []proto.Var, source string) []proto.Var {
	b.varMu.Lock()
	defer b.varMu.Unlock()
	out := slices.Clone(all)
	now := map[string]string{}
	for i, v := range out {
		now[v.Name] = v.Text
		old, known := b.texts[v.Name]
		out[i].Fresh = v.Fresh && (!known || old != v.Text || assigns(source, v.Name))
	}
	b.texts = now
	return out
}

// assigns reports whether a line of a cell has the name before an = or :=, or is
// the %%tile line that binds it.
func assigns(source, name string) bool {
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
	for _, line := range strings.Split(source, "\n") {
		left, right, ok := strings.Cut(line, "=")
		switch {
		case strings.HasPrefix(line, "%%"):
			left = line
		case !ok || strings.HasPrefix(right, "=") || strings.HasSuffix(left, "!"):
			continue
		}
		if word.MatchString(left) {
			return true
		}
	}
	return false
}

// seen are the variables that a cell has set and a pane can show, and what else
// its pictures show, each with the address of that pane.
func seen(all []proto.Var, shown []link.Explore, session string) []link.Link {
	out := []link.Link{}
	var vars []link.Var
	for _, v := range all {
		if v.Form == "" || v.Text == "" {
			continue
		}
		vars = append(vars, link.Var{Name: v.Name, Form: v.Form, Text: v.Text, Fresh: v.Fresh})
		if v.Fresh && len(out) < 20 {
			out = append(out, link.Link{Name: v.Name, Query: link.Query(v.Form, "$"+v.Name+"@"+session)})
		}
	}
	for _, l := range link.Links(session, shown, vars) {
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// outputOf is an event as a notebook stores it.
func outputOf(e proto.Event) (nbOutput, bool) {
	switch {
	case e.Stream != nil:
		text := lines(e.Stream.Text)
		return nbOutput{Type: "stream", Name: e.Stream.Name, Text: &text}, true
	case e.Bundle != nil:
		o := nbOutput{Type: "display_data", Data: e.Bundle.Data, Metadata: e.Bundle.Metadata, display: e.Bundle.DisplayID, fresh: true}
		if e.Kind == proto.KindResult {
			o.Type = "execute_result"
		}
		return o, true
	case e.Error != nil:
		return nbOutput{Type: "error", EName: e.Error.Name, EValue: e.Error.Value, Traceback: e.Error.Traceback}, true
	}
	return nbOutput{}, false
}

// show turns an output into a form that cannot execute.
func (bs *books) show(o nbOutput) outputJSON {
	x := bs.form(o)
	x.Display = o.display
	return x
}

func (bs *books) form(o nbOutput) outputJSON {
	switch o.Type {
	case "stream":
		if o.Text == nil {
			return outputJSON{Kind: "stream"}
		}
		return outputJSON{Kind: "stream", Text: plain(string(*o.Text))}
	case "error":
		text := strings.Join(o.Traceback, "\n")
		if text == "" {
			text = o.EName + ": " + o.EValue
		}
		return outputJSON{Kind: "error", Text: plain(text)}
	}
	if view, ok := o.Data["application/vnd.jupyter.widget-view+json"].(map[string]any); ok {
		if model, ok := view["model_id"].(string); ok {
			return outputJSON{Kind: "widget", Model: model, Text: alt(o.Data)}
		}
	}
	page, isPage := mime(o.Data, "text/html")
	live := strings.Contains(page, "<iframe") || strings.Contains(page, "<script")
	if isPage && o.fresh && live && o.display == "" {
		return bs.frame(page, o)
	}
	if s, ok := mime(o.Data, "image/svg+xml"); ok {
		// An image element runs no script and loads nothing.
		return outputJSON{Kind: "image", Src: "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(s)), Text: alt(o.Data), Light: onWhite(s)}
	}
	for _, m := range []string{"image/png", "image/jpeg"} {
		if s, ok := mime(o.Data, m); ok {
			if _, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), "")); err == nil {
				return outputJSON{Kind: "image", Src: "data:" + m + ";base64," + strings.Join(strings.Fields(s), ""), Text: alt(o.Data)}
			}
		}
	}
	if s, ok := mime(o.Data, "text/markdown"); ok {
		return outputJSON{Kind: "html", HTML: bs.markdown(s)}
	}
	// What changes in its place would be loaded anew each time, and a <pre> is its text.
	if isPage && o.display == "" && !strings.HasPrefix(page, "<pre>") {
		return bs.frame(page, o)
	}
	return outputJSON{Kind: "text", Text: alt(o.Data)}
}

var paper = regexp.MustCompile(`^[^>]*<rect x="0" y="0"[^>]* fill="#ffffff"`)

// onWhite reports whether an SVG is one of ours on a white sheet: the first that it fills.
func onWhite(svg string) bool {
	_, after, ok := strings.Cut(svg, "</desc>")
	return ok && paper.MatchString(after)
}

func alt(data map[string]any) string {
	s, _ := mime(data, "text/plain")
	return plain(s)
}

// mime is an entry of a bundle as text; files may hold lists of lines.
func mime(data map[string]any, kind string) (string, bool) {
	switch v := data[kind].(type) {
	case string:
		return v, true
	case []any:
		var b strings.Builder
		for _, x := range v {
			s, ok := x.(string)
			if !ok {
				return "", false
			}
			b.WriteString(s)
		}
		return b.String(), true
	}
	return "", false
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")

// plain takes terminal colours out.
func plain(s string) string { return escapes.ReplaceAllString(s, "") }

// markdown is safe HTML: goldmark drops raw HTML and script addresses.
func (bs *books) markdown(src string) string {
	var b bytes.Buffer
	if err := bs.md.Convert([]byte(src), &b); err != nil {
		return "<pre>" + html.EscapeString(src) + "</pre>"
	}
	return b.String()
}
