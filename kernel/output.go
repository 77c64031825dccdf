package kernel

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/kernel/link"
	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// How printed text is cut into messages. The first chunk goes out at once, so that a
// slow loop is seen from its first line; what follows within streamDelay travels
// together.
const (
	streamDelay = 20 * time.Millisecond
	streamChunk = 64 << 10 // bytes of text that are not held back any longer
	streamCap   = 10 << 20 // bytes of text that one cell may print
	maxLinks    = 20       // pictures of a cell that get a link
)

// output publishes what one cell shows, in the order it comes, with the cell's header
// as parent. It lives as long as something prints to it: a goroutine's late line still
// names the cell that started it.
type output struct {
	publish func(msgType string, content any)
	comm    func(c *proto.Comm)
	count   int  // of the cell, for execute_result
	silent  bool // show nothing
	limit   int  // bytes of printed text; streamCap outside tests

	mu       sync.Mutex
	name     string // stream of buf
	buf      []byte
	last     time.Time // when text was published
	timer    *time.Timer
	total    int
	capped   bool
	drop     bool           // the cell was interrupted: its backlog is not wanted
	result   string         // text/plain of the result, for history
	shown    []link.Explore // what its pictures show
	explored bool           // it asked the explorer to show something
	vars     []link.Var     // of the session after the cell
}

// event takes one event of the cell. It never blocks. Errors are left to end, which
// has them from the reply with what that adds.
func (o *output) event(ev proto.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case ev.Comm != nil:
		o.flush()
		o.comm(ev.Comm)
	case o.silent:
	case ev.Vars != nil:
		o.vars = linkVars(ev.Vars.Vars)
	case ev.Kind == proto.KindStream && ev.Stream != nil:
		o.stream(ev.Stream.Name, ev.Stream.Text)
	case ev.Kind == proto.KindDisplay && ev.Bundle != nil:
		o.flush()
		o.note(ev.Bundle)
		b := ev.Bundle
		msgType, content := "display_data", bundle(b)
		if b.DisplayID != "" {
			content["transient"] = map[string]any{"display_id": b.DisplayID}
			if b.Update {
				msgType = "update_display_data"
			}
		} else {
			content["transient"] = map[string]any{}
		}
		o.publish(msgType, content)
	case ev.Kind == proto.KindResult && ev.Bundle != nil:
		o.flush()
		o.note(ev.Bundle)
		content := bundle(ev.Bundle)
		content["execution_count"] = o.count
		o.result, _ = ev.Bundle.Data["text/plain"].(string)
		o.publish("execute_result", content)
	case ev.Explore != nil:
		o.explored = true
	case ev.Kind == proto.KindClear && ev.Clear != nil:
		o.flush()
		o.publish("clear_output", map[string]any{"wait": ev.Clear.Wait})
	}
}

// note keeps what a picture shows, for the links of links. The caller holds mu.
func (o *output) note(b *proto.Bundle) {
	if b.Shows != nil && len(o.shown) < maxLinks {
		o.shown = append(o.shown, link.Explore{Form: b.Shows.Form, Text: b.Shows.Text})
	}
}

// markdownText escapes what names and layouts may hold and Markdown would read.
var markdownText = strings.NewReplacer("_", `\_`, "*", `\*`, "[", `\[`, "]", `\]`)

// links publishes where the explorer shows what the pictures of the cell show, below
// them, or that a cell asked for the explorer and there is none. explorer gives its
// address, false when none runs.
func (o *output) links(session string, explorer func() (string, bool)) {
	o.mu.Lock()
	shown, vars, explored := o.shown, o.vars, o.explored
	o.mu.Unlock()
	if len(shown) == 0 && !explored {
		return
	}
	base, ok := explorer()
	if !ok && explored {
		o.event(proto.Event{Kind: proto.KindStream, Stream: &proto.Stream{Name: "stderr", Text: "No explorer runs; start it with: tilus-lab up\n"}})
	}
	if !ok || len(shown) == 0 {
		return
	}
	var plain, markdown strings.Builder
	for i, l := range link.Links(session, shown, vars) {
		sep := ", "
		if i == 0 {
			sep = "Open in explorer: "
		}
		fmt.Fprintf(&markdown, "%s[%s](%s)", sep, markdownText.Replace(l.Name), base+l.Query)
		fmt.Fprintf(&plain, "%s%s %s", sep, l.Name, base+l.Query)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	o.publish("display_data", map[string]any{
		"data":     map[string]any{"text/markdown": markdown.String(), "text/plain": plain.String()},
		"metadata": map[string]any{}, "transient": map[string]any{},
	})
}

func bundle(b *proto.Bundle) map[string]any {
	c := map[string]any{"data": b.Data, "metadata": b.Metadata}
	if b.Data == nil {
		c["data"] = map[string]any{}
	}
	if b.Metadata == nil {
		c["metadata"] = map[string]any{}
	}
	return c
}

func (o *output) stream(name, text string) {
	if o.drop || o.capped || text == "" {
		return
	}
	if name != "stderr" {
		name = "stdout"
	}
	if name != o.name {
		o.flush()
		o.name = name
	}
	if room := o.limit - o.total; len(text) > room {
		for room > 0 && !utf8.RuneStart(text[room]) {
			room--
		}
		o.buf = append(o.buf, text[:room]...)
		o.flush()
		o.capped = true
		o.publish("stream", map[string]any{"name": "stderr", "text": fmt.Sprintf(
			"\n[Tilus Lab: this cell printed more than %d bytes; the rest is not shown]\n", o.limit)})
		return
	}
	o.total += len(text)
	o.buf = append(o.buf, text...)
	switch wait := streamDelay - time.Since(o.last); {
	case wait <= 0 || len(o.buf) >= streamChunk:
		o.flush()
	case o.timer == nil:
		o.timer = time.AfterFunc(wait, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.timer = nil
			o.flush()
		})
	}
}

// flush publishes the text that is held back. The caller holds mu.
func (o *output) flush() {
	if len(o.buf) == 0 {
		return
	}
	o.publish("stream", map[string]any{"name": o.name, "text": string(o.buf)})
	o.buf = o.buf[:0]
	o.last = time.Now()
}

// dropStreams throws away printed text from now until the end of the cell.
func (o *output) dropStreams() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop = true
}

// flushNow publishes held text, before something else that must come after it.
func (o *output) flushNow() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
}

// end publishes what is left of the cell and its error, and returns the text of its
// result. Text that comes later is late output, wanted again.
func (o *output) end(e *proto.Error) (result string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	o.drop = false
	if e != nil && !o.silent {
		o.publish("error", errorContent(e))
	}
	return o.result
}

func errorContent(e *proto.Error) map[string]any {
	trace := e.Traceback
	if trace == nil {
		trace = []string{}
	}
	return map[string]any{"ename": e.Name, "evalue": e.Value, "traceback": trace}
}

// newOutput is the output of the cell whose request has this header.
func (k *Kernel) newOutput(parent json.RawMessage, count int, silent bool) *output {
	return &output{
		publish: func(t string, content any) { k.publish(t, parent, content) },
		comm:    func(c *proto.Comm) { k.tell(parent, c) },
		count:   count, silent: silent, limit: streamCap,
	}
}
