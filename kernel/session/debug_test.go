package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
	"github.com/tilus-lab/tilus-lab/kernel/session"
)

var update = flag.Bool("update", false, "write what the debugger says into testdata/debug")

// TestConversations replays recorded conversations with the debugger. In the file
// "conversation" of an archive
//
//	> COMMAND ARGUMENTS   sends a request; < is the answer
//	! CELL                begins to run a cell, the file of that name
//	* EVENT               waits for the next event
//	= STATUS OUTPUT       waits for the end of the cell
//	~                     interrupts it
//
// $CELL stands for the path of a cell.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/debug/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no conversations", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range ar.Files {
				if f.Name != "conversation" {
					continue
				}
				got := newTalk(t, ar).replay(string(f.Data))
				if got == string(f.Data) {
					continue
				}
				if ar.Files[i].Data = []byte(got); *update {
					if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
						t.Fatal(err)
					}
					continue
				}
				was, is := strings.Split(string(f.Data), "\n"), strings.Split(got, "\n")
				for n := range min(len(was), len(is)) {
					if was[n] != is[n] {
						t.Fatalf("line %d of the conversation\n got %s\nwant %s", n+1, is[n], was[n])
					}
				}
				t.Fatalf("%d lines, want %d", len(is), len(was))
			}
		})
	}
}

// talk is a conversation with the debugger of a session.
type talk struct {
	*book
	t      *testing.T
	cells  map[string]string
	paths  []string // of cells, and $CELL, for a replacer
	names  []string // the same of names of files and of their folder
	events chan json.RawMessage
	ended  chan string
	out    strings.Builder
	over   string // how the cell ended, when that was seen before its events
	seq    int
}

// patience is how long an event may take on a busy machine.
const patience = time.Minute

func newTalk(t *testing.T, ar *txtar.Archive) *talk {
	k := &talk{book: open(t), t: t, cells: map[string]string{}, events: make(chan json.RawMessage, 100), ended: make(chan string, 1)}
	k.Subscribe(func(ev proto.Event) {
		if ev.Debug != nil {
			k.events <- ev.Debug
		}
	})
	for _, f := range ar.Files {
		if f.Name == "conversation" {
			continue
		}
		k.cells[f.Name] = strings.TrimSuffix(string(f.Data), "\n")
		var r struct {
			Body struct{ SourcePath string }
		}
		json.Unmarshal(k.ask("dumpCell", fmt.Sprintf(`{"code":%s}`, quote(k.cells[f.Name]))), &r)
		if r.Body.SourcePath == "" {
			t.Fatal("dumpCell gives no path")
		}
		k.paths = append(k.paths, r.Body.SourcePath, "$"+f.Name)
		k.names = append(k.names, filepath.Base(r.Body.SourcePath), "$"+f.Name, filepath.Dir(r.Body.SourcePath), "$tmp")
	}
	return k
}

func quote(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

// ask sends a request and returns the response.
func (k *talk) ask(command, arguments string) json.RawMessage {
	k.t.Helper()
	k.seq++
	if arguments == "" {
		arguments = "{}"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	raw, err := k.Debug(ctx, json.RawMessage(fmt.Sprintf(`{"type":"request","seq":%d,"command":%q,"arguments":%s}`, k.seq, command, arguments)))
	if err != nil {
		k.t.Fatalf("%s: %v", command, err)
	}
	return raw
}

// pictures are forms whose bytes other tests look at.
var pictures = regexp.MustCompile(`"(image/png|image/svg\+xml|text/html)":"(?:[^"\\]|\\.)*"`)

// plain is JSON with the names of cells, and without what pictures are made of.
func (k *talk) plain(raw json.RawMessage) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		k.t.Fatalf("%s: %v", raw, err)
	}
	enc.Encode(v)
	return pictures.ReplaceAllString(strings.NewReplacer(append(k.paths[:len(k.paths):len(k.paths)], k.names...)...).Replace(strings.TrimSpace(b.String())), `"$1":"…"`)
}

// next is the next event, or how the cell ended. Events of a cell come before its end.
func (k *talk) next() (raw json.RawMessage, end string) {
	late := time.After(patience)
	for {
		select {
		case raw := <-k.events:
			return raw, ""
		default:
		}
		if k.over != "" {
			end, k.over = k.over, ""
			return nil, end
		}
		select {
		case raw := <-k.events:
			return raw, ""
		case k.over = <-k.ended:
		case <-late:
			k.t.Fatalf("nothing comes\n%s", k.out.String())
		}
	}
}

func (k *talk) replay(script string) string {
	out := &k.out
	for _, line := range strings.Split(strings.TrimSuffix(script, "\n"), "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		switch mark {
		case ">":
			command, arguments, _ := strings.Cut(rest, " ")
			var paths []string
			for i := 0; i < len(k.paths); i += 2 {
				paths = append(paths, k.paths[i+1], k.paths[i])
			}
			raw := k.ask(command, strings.NewReplacer(paths...).Replace(arguments))
			var r struct {
				Success bool
				Command string
				Seq     int `json:"request_seq"`
				Message string
				Body    json.RawMessage
			}
			if err := json.Unmarshal(raw, &r); err != nil || r.Command != command || r.Seq != k.seq {
				k.t.Fatalf("%s: answered by %s: %v", line, raw, err)
			}
			fmt.Fprintln(out, line)
			if !r.Success {
				fmt.Fprintln(out, "< error", r.Message)
			} else if string(r.Body) == "" || string(r.Body) == "null" {
				fmt.Fprintln(out, "<")
			} else {
				fmt.Fprintln(out, "<", k.plain(r.Body))
			}
		case "<":
		case "!":
			fmt.Fprintln(out, line)
			k.book.mu.Lock()
			k.book.ev = nil
			k.book.mu.Unlock()
			go func() {
				r, err := k.Execute(context.Background(), session.Request{Code: k.cells[rest], StoreHistory: true}, k.sink)
				text := r.Status
				if err != nil {
					text = err.Error()
				}
				if r.Status != "ok" {
					text += " " + quote(r.EName+": "+r.EValue)
				}
				k.ended <- text + " " + quote(k.text())
			}()
		case "*":
			raw, end := k.next()
			if raw == nil {
				k.t.Fatalf("the cell ended, no event came: %s\n%s", end, out)
			}
			var e struct {
				Event string
				Body  json.RawMessage
			}
			json.Unmarshal(raw, &e)
			fmt.Fprintln(out, "*", e.Event, k.plain(e.Body))
		case "=":
			raw, end := k.next()
			if raw != nil {
				k.t.Fatalf("an event came in place of the end of the cell: %s\n%s", raw, out)
			}
			fmt.Fprintln(out, "=", end)
		case "~":
			fmt.Fprintln(out, line)
			k.Interrupt()
		default:
			fmt.Fprintln(out, line)
		}
	}
	return out.String()
}

// A worker that takes the place of a lost one knows the breakpoints, and the front end hears that what stood still is gone.
func TestDebuggerOutlivesWorker(t *testing.T) {
	k := newTalk(t, txtar.Parse([]byte("-- cell --\nx := 1\nx++\nx\n")))
	script := "> attach\n> setBreakpoints {\"source\":{\"path\":\"$cell\"},\"breakpoints\":[{\"line\":2}]}\n! cell\n*\n"
	k.replay(script)
	if err := k.Restart(); err != nil {
		t.Fatal(err)
	}
	k.out.Reset()
	got := k.replay("*\n=\n> debugInfo\n! cell\n*\n> evaluate {\"expression\":\"x + 1\"}\n> continue {\"threadId\":1}\n*\n=\n")
	for _, want := range []string{"* continued", "= error \"WorkerEnded: restarted", `"line":2`, "* stopped", `"result":"2"`, `= ok "=\u003e 2\n"`} {
		if i := strings.Index(got, want); i < 0 {
			t.Errorf("no %s in\n%s", want, got)
		} else {
			got = got[i:]
		}
	}
}
