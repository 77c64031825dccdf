package kernel

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// recorder collects what an output publishes.
type recorder struct {
	mu   sync.Mutex
	msgs []string // "stdout:text" or the message type
}

func (r *recorder) output(limit int) *output {
	return &output{limit: limit, count: 3, publish: func(t string, content any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if t == "stream" {
			c := content.(map[string]any)
			t = fmt.Sprint(c["name"], ":", c["text"])
		}
		r.msgs = append(r.msgs, t)
	}}
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.msgs
	r.msgs = nil
	return m
}

func stream(name, text string) proto.Event {
	return proto.Event{Kind: proto.KindStream, Stream: &proto.Stream{Name: name, Text: text}}
}

func TestCoalescing(t *testing.T) {
	var r recorder
	o := r.output(streamCap)
	for {
		o.last = time.Time{}
		o.event(stream("stdout", "a"))
		first := time.Now()
		if got := r.take(); len(got) != 1 || got[0] != "stdout:a" {
			t.Fatalf("the first chunk must go out at once: %q", got)
		}
		for range 5 {
			o.event(stream("stdout", "b"))
		}
		got := r.take()
		if time.Since(first) >= streamDelay { // a machine that stands still so long holds nothing back
			o.flushNow()
			r.take()
			continue
		}
		if len(got) != 0 {
			t.Fatalf("not held back: %q", got)
		}
		break
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if got := r.take(); len(got) == 1 && got[0] == "stdout:bbbbb" {
			break
		} else if len(got) != 0 || time.Now().After(end) {
			t.Fatalf("after the delay: %q", got)
		}
	}
	// Anything else, the other stream too, comes after the text before it.
	o.event(stream("stdout", "c"))
	o.event(stream("stderr", "d"))
	o.event(proto.Event{Kind: proto.KindDisplay, Bundle: &proto.Bundle{}})
	o.event(stream("stdout", "e"))
	o.end(&proto.Error{Name: "N"})
	if got := strings.Join(r.take(), " "); got != "stdout:c stderr:d display_data stdout:e error" {
		t.Errorf("order: %s", got)
	}
	o.event(stream("stdout", strings.Repeat("x", streamChunk)))
	if got := r.take(); len(got) != 1 {
		t.Errorf("a full chunk is held back: %d messages", len(got))
	}
}

func TestCap(t *testing.T) {
	var r recorder
	o := r.output(10)
	o.event(stream("stdout", "1234567"))
	o.event(stream("stdout", "8é世界")) // cut at a character: 8 is byte 8, é bytes 9 and 10
	o.event(stream("stdout", "never"))
	o.end(nil)
	got := r.take()
	if len(got) != 3 || got[0]+got[1] != "stdout:1234567stdout:8é" || !strings.Contains(got[2], "not shown") {
		t.Errorf("got %q", got)
	}
	for _, m := range got {
		if !utf8.ValidString(m) {
			t.Errorf("%q is cut inside a character", m)
		}
	}
}

func TestDropAfterInterrupt(t *testing.T) {
	var r recorder
	o := r.output(streamCap)
	o.event(stream("stdout", "before"))
	o.dropStreams()
	o.event(stream("stdout", "backlog"))
	o.event(proto.Event{Kind: proto.KindDisplay, Bundle: &proto.Bundle{}})
	o.end(nil)
	o.event(stream("stdout", "late"))
	o.flushNow()
	if got := strings.Join(r.take(), " "); got != "stdout:before display_data stdout:late" {
		t.Errorf("got %s", got)
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"a*", "abc", true}, {"a*", "ba", false}, {"*c", "a/b\nc", true}, {"a?c", "aéc", true},
		{"a*b*c", "axxbyyc", true}, {"a*b*c", "axxcyyb", false}, {"[a]", "a", false}, {"[a]", "[a]", true}, {"", "x", false}, {"**", "x", true},
	} {
		if got := glob([]rune(c.pattern), []rune(c.s)); got != c.want {
			t.Errorf("glob(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}

func TestHistoryQueries(t *testing.T) {
	var h history
	for i, s := range []string{"a1", "b", "a1", "a2"} {
		h.add(i+1, s, "")
	}
	stop := 4
	for _, c := range []struct {
		q    historyContent
		want string
	}{
		{historyContent{Type: "tail", N: 2}, "3 4"},
		{historyContent{Type: "tail"}, "1 2 3 4"},
		{historyContent{Type: "range", Start: 2, Stop: &stop}, "2 3"},
		{historyContent{Type: "range", Session: 7}, ""},
		{historyContent{Type: "search", Pattern: "a*"}, "1 3 4"},
		{historyContent{Type: "search", Pattern: "a*", Unique: true}, "3 4"},
		{historyContent{Type: "search", Pattern: "a*", N: 1}, "4"},
	} {
		var got []string
		for _, e := range h.query(c.q) {
			got = append(got, fmt.Sprint(e.count))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, want %s", c.q, got, c.want)
		}
	}
}

func TestLinksBelowPictures(t *testing.T) {
	picture := proto.Event{Kind: proto.KindDisplay, Bundle: &proto.Bundle{Data: map[string]any{"text/plain": "a picture"}, Shows: &proto.Explore{Form: "layout", Text: "local(2)"}}}
	vars := proto.Event{Kind: proto.KindVars, Vars: &proto.Vars{Vars: []proto.Var{{Name: "L", Form: "layout", Text: "local(2)"}}}}
	explore := proto.Event{Kind: proto.KindExplore, Explore: &proto.Explore{Form: "layout", Text: "local(2)"}}
	running := func() (string, bool) { return "http://127.0.0.1:1/", true }
	other := proto.Event{Kind: proto.KindResult, Bundle: &proto.Bundle{Shows: &proto.Explore{Form: "layout", Text: "column_local(2)"}}}
	none := func() (string, bool) { return "", false }
	for _, c := range []struct {
		name     string
		events   []proto.Event
		explorer func() (string, bool)
		want     string
	}{
		{"bound", []proto.Event{picture, vars}, running, "Open in explorer: [L](http://127.0.0.1:1/?v=1&p=layout&e=%24L%40s)"},
		{"text", []proto.Event{other, vars}, running, "Open in explorer: [column\\_local(2)](http://127.0.0.1:1/?v=1&p=layout&e=column_local%282%29)"},
		{"no explorer", []proto.Event{picture, vars}, none, ""},
		{"asked", []proto.Event{explore}, running, ""},
		{"asked in vain", []proto.Event{explore, picture}, none, "No explorer runs; start it with: tilus-lab up\n"},
		{"no picture", []proto.Event{vars}, func() (string, bool) { t.Error("an explorer was looked for"); return "", false }, ""},
	} {
		got := ""
		o := &output{limit: streamCap, publish: func(kind string, content any) {
			c := content.(map[string]any)
			if got, _ = c["text"].(string); kind == "display_data" {
				got, _ = c["data"].(map[string]any)["text/markdown"].(string)
			}
		}}
		for _, ev := range c.events {
			o.event(ev)
		}
		o.links("s", c.explorer)
		o.flushNow()
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
