package web

import (
	"net/http"
	"strings"
	"sync"
)

// frames keep the HTML that cells show. A page shows each in a frame whose origin is
// no one's: it reaches neither the page, nor its cookie, nor the network.
type frames struct {
	mu    sync.Mutex
	all   map[string]frame
	order []string // ids, oldest first
	bytes int
}

type frame struct {
	html    string
	scripts bool
}

// maxFrames bounds what frames hold, in bytes.
const maxFrames = 32 << 20

// add keeps a document under a name that nobody can guess.
func (f *frames) add(x frame) (id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[string]frame{}
	}
	id = random()
	f.all[id] = x
	f.order = append(f.order, id)
	f.bytes += len(x.html)
	for f.bytes > maxFrames && len(f.order) > 1 {
		f.bytes -= len(f.all[f.order[0]].html)
		delete(f.all, f.order[0])
		f.order = f.order[1:]
	}
	return id
}

func (f *frames) find(id string) (frame, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x, ok := f.all[id]
	return x, ok
}

// frame is an output that is a document of its own. Scripts run in it only where a
// cell made it that ran here; one that a file brought stays still.
func (bs *books) frame(page string, o nbOutput) outputJSON {
	rows := 0
	for _, tag := range []string{"<tr", "<p", "<li", "<br", "<div", "<h"} {
		rows += strings.Count(page, tag)
	}
	high := min(60+24*rows, 460)
	if strings.Contains(page, "<iframe") || strings.Contains(page, "<img") || o.fresh && strings.Contains(page, "<script") {
		high = 640
	}
	return outputJSON{Kind: "frame", Src: bs.frames.add(frame{page, o.fresh}), Scripts: o.fresh, High: high, Light: !strings.Contains(page, "<img") && !strings.Contains(page, "<canvas"), Text: alt(o.Data)}
}

// frame answers with such a document. Its policy makes the sandbox hold even where
// somebody opens the address by itself.
func (s *server) frame(w http.ResponseWriter, r *http.Request) {
	if s.books == nil {
		http.NotFound(w, r)
		return
	}
	x, ok := s.books.frames.find(r.PathValue("id"))
	if !ok {
		http.Error(w, "this output is not kept any more; run its cell again", http.StatusNotFound)
		return
	}
	policy := "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
	if x.scripts {
		policy = strings.Replace(policy, "sandbox;", "sandbox allow-scripts;", 1) + "; script-src 'unsafe-inline'"
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write([]byte("<!doctype html><meta charset=\"utf-8\"><style>body { margin: 8px; font: 15px/1.45 system-ui, sans-serif; color: #1b1f24; background: #fff } td, th { border: 1px solid #d0d7de; padding: 2px 8px } table { border-collapse: collapse }</style>\n" + x.html))
}
