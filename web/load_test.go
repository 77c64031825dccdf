package web

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/tilus-lab/tilus-lab/tests/need"
)

var (
	loadRecord = flag.String("load-record", "", "let 200 pages type for a minute on this quiet machine, hold the limits, and write what came of it to this file")
	loadFor    = flag.Duration("load-for", time.Minute, "how long they type for -load-record")
)

// load is what many pages at a time found.
type load struct {
	Pages      int     `json:"pages"`
	Seconds    float64 `json:"seconds"`
	Hertz      float64 `json:"keystrokes_per_second_and_page"`
	Cells      int     `json:"cells_of_each_layout"`
	Keystrokes int     `json:"keystrokes"`
	New        int     `json:"layouts_never_seen_before"`
	Answered   int     `json:"answered"`
	Superseded int     `json:"superseded"`
	Errors     int     `json:"errors"`
	Bursts     int     `json:"bursts"`
	P50        float64 `json:"p50_ms_from_last_keystroke_of_a_burst"`
	P95        float64 `json:"p95_ms_from_last_keystroke_of_a_burst"`
	P99        float64 `json:"p99_ms_from_last_keystroke_of_a_burst"`
	Max        float64 `json:"max_ms_from_last_keystroke_of_a_burst"`
	AllP95     float64 `json:"p95_ms_of_all_answers"`
	PeakHeap   int     `json:"peak_heap_mb_server_and_pages"`
	LeftHeap   int     `json:"heap_mb_after_they_left"`
	LeftGo     int     `json:"goroutines_more_than_before_after_they_left"`
	LeftConns  int     `json:"connections_after_they_left"`
	CPUs       int     `json:"cpus"`
	Go         string  `json:"go"`
	Written    string  `json:"utc"`
	Complaint  string  `json:"first_error,omitempty"`
}

// chains draws layouts of 128 elements as chains of factors; the texts are as many
// as a day of typing needs.
type chains struct {
	mu   sync.Mutex
	rng  *rand.Rand
	seen map[string]bool
	some []string
	new  int
}

// next is a layout; three in five have never been seen.
func (c *chains) next() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.some) > 50 && c.rng.IntN(5) < 2 {
		return c.some[c.rng.IntN(len(c.some))]
	}
	for {
		var b strings.Builder
		for left := 7; left > 0; {
			n := 1 + c.rng.IntN(min(left, 3))
			rows := c.rng.IntN(n + 1)
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			fmt.Fprintf(&b, "%s(%d, %d)", []string{"local", "spatial", "column_local", "column_spatial"}[c.rng.IntN(4)], 1<<rows, 1<<(n-rows))
			left -= n
		}
		if s := b.String(); !c.seen[s] {
			c.seen[s] = true
			c.new++
			if len(c.some) < 2000 {
				c.some = append(c.some, s)
			}
			return s
		}
	}
}

// pageLoad is what one page found.
type pageLoad struct {
	sent, answered, superseded, errors, bursts int
	last, all                                  []time.Duration
	complaint                                  string
}

// typing is one page: a keystroke every period, in bursts of 3 to 12. A burst ends
// with a keystroke whose answer is waited for, however long it takes.
func typing(ws *websocket.Conn, c *chains, rng *rand.Rand, period time.Duration, until time.Time) pageLoad {
	var p pageLoad
	type reply struct {
		id   int64
		kind string
		at   time.Time
		body string
	}
	replies := make(chan reply, 256)
	go func() {
		defer close(replies)
		for {
			_, b, err := ws.ReadMessage()
			if err != nil {
				return
			}
			at := time.Now()
			// {"v":1,"id":N,"type":"ok",… as push writes it; reading it as JSON would take
			// the time that is measured.
			head, ok := bytes.CutPrefix(b[:min(len(b), 80)], []byte(`{"v":1,"id":`))
			n := bytes.IndexByte(head, ',')
			if !ok || n < 0 {
				continue
			}
			id, _ := strconv.ParseInt(string(head[:n]), 10, 64)
			r := reply{id: id, at: at}
			for _, kind := range []string{"ok", "superseded", "error"} {
				if bytes.HasPrefix(head[n:], []byte(`,"type":"`+kind+`"`)) {
					r.kind = kind
				}
			}
			if r.kind == "error" {
				r.body = string(b[:min(len(b), 300)])
			}
			replies <- r
		}
	}()
	begun := map[int64]time.Time{}
	take := func(r reply) {
		d := r.at.Sub(begun[r.id])
		delete(begun, r.id)
		switch r.kind {
		case "ok":
			p.answered++
			p.all = append(p.all, d)
		case "superseded":
			p.superseded++
		default:
			p.errors++
			if p.complaint == "" {
				p.complaint = r.body
			}
		}
	}
	time.Sleep(time.Duration(rng.Int64N(int64(period)))) // pages do not type in step
	beat := time.NewTicker(period)
	defer beat.Stop()
	var id int64
	for time.Now().Before(until) {
		for keys := 3 + rng.IntN(10); keys > 0; keys-- {
			<-beat.C
			id++
			begun[id] = time.Now()
			err := ws.WriteJSON(map[string]any{"v": 1, "id": id, "type": "render", "body": map[string]any{"view": "a", "pane": "layout", "values": map[string]string{"e": c.next()}}})
			if err != nil {
				p.errors++
				p.complaint = err.Error()
				return p
			}
			p.sent++
			if keys > 1 {
				for len(replies) > 0 {
					take(<-replies)
				}
			}
		}
		p.bursts++
		for _, waiting := begun[id]; waiting; _, waiting = begun[id] {
			begin := begun[id]
			r, ok := <-replies
			if !ok {
				p.errors++
				p.complaint = "the connection was lost"
				return p
			}
			if take(r); r.id == id && r.kind == "ok" {
				p.last = append(p.last, r.at.Sub(begin))
			}
		}
	}
	for len(begun) > 0 {
		r, ok := <-replies
		if !ok {
			break
		}
		take(r)
	}
	return p
}

// measure lets pages type at a server in this process.
func measure(t *testing.T, pages int, period, lasting time.Duration) load {
	t.Helper()
	data := need.Scratch(t)
	defer debug.SetGCPercent(debug.SetGCPercent(GCPercent)) // as the command does
	before := runtime.NumGoroutine()
	ctx, stop := context.WithCancel(context.Background())
	u, jar, ended := served(t, ctx, data)

	heap := func() int {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapInuse >> 20)
	}
	peak, watched, watch := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-watch:
				return
			case <-time.After(500 * time.Millisecond):
				peak = max(peak, heap())
			}
		}
	}()
	all := &chains{rng: rand.New(rand.NewPCG(1, 2)), seen: map[string]bool{}}
	found := make([]pageLoad, pages)
	var sockets []*websocket.Conn
	for range pages {
		ws, _, err := (&websocket.Dialer{Jar: jar}).Dial("ws://"+u.Host+"/ws", http.Header{"Origin": {"http://" + u.Host}})
		must(t, err)
		sockets = append(sockets, ws)
	}
	begin := time.Now()
	var typed sync.WaitGroup
	for i, ws := range sockets {
		typed.Add(1)
		go func() {
			defer typed.Done()
			found[i] = typing(ws, all, rand.New(rand.NewPCG(3, uint64(i))), period, begin.Add(lasting))
		}()
	}
	typed.Wait()
	took := time.Since(begin)
	close(watch)
	<-watched
	for _, ws := range sockets {
		ws.Close()
	}
	// The server goes on; what the pages used must not.
	l := load{Pages: pages, Seconds: lasting.Seconds(), Hertz: float64(time.Second) / float64(period), Cells: 128, New: all.new, PeakHeap: max(peak, heap()),
		CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), Written: time.Now().UTC().Format(time.RFC3339)}
	serving := runtime.NumGoroutine()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if serving = runtime.NumGoroutine(); serving <= before+8 { // of the server itself
			break
		}
	}
	runtime.GC()
	l.LeftHeap = heap()
	stop()
	must(t, <-ended)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if l.LeftGo = max(0, runtime.NumGoroutine()-before); l.LeftGo == 0 {
			break
		}
	}
	l.LeftConns = max(0, serving-before-8)
	var last, answers []time.Duration
	for _, p := range found {
		l.Keystrokes += p.sent
		l.Answered += p.answered
		l.Superseded += p.superseded
		l.Errors += p.errors
		l.Bursts += p.bursts
		last, answers = append(last, p.last...), append(answers, p.all...)
		if l.Complaint == "" {
			l.Complaint = p.complaint
		}
	}
	slices.Sort(last)
	slices.Sort(answers)
	at := func(d []time.Duration, part float64) float64 {
		if len(d) == 0 {
			return 0
		}
		return float64(d[min(len(d)-1, int(part*float64(len(d))))].Microseconds()) / 1000
	}
	l.P50, l.P95, l.P99, l.Max, l.AllP95 = at(last, 0.5), at(last, 0.95), at(last, 0.99), at(last, 1), at(answers, 0.95)
	t.Logf("%d pages typed %d layouts in %v, %d of them never seen: %d answered, %d superseded, %d errors; p95 %.1f ms from the last keystroke of %d bursts; heap at most %d MB",
		pages, l.Keystrokes, took.Round(time.Millisecond), l.New, l.Answered, l.Superseded, l.Errors, l.P95, l.Bursts, l.PeakHeap)
	return l
}

// counts are the limits that no busy machine changes.
func (l load) counts(t *testing.T) {
	t.Helper()
	if l.Errors > 0 || l.Complaint != "" {
		t.Errorf("%d errors: %s", l.Errors, l.Complaint)
	}
	if l.Answered+l.Superseded != l.Keystrokes {
		t.Errorf("%d answered and %d superseded of %d keystrokes", l.Answered, l.Superseded, l.Keystrokes)
	}
	if 2*l.New < l.Keystrokes {
		t.Errorf("only %d of %d layouts were new", l.New, l.Keystrokes)
	}
	if l.LeftGo > 0 || l.LeftConns > 0 {
		t.Errorf("%d goroutines and %d of connections are left", l.LeftGo, l.LeftConns)
	}
}

// Many pages that type are answered without error, and leave nothing behind. How
// fast is a matter of a quiet machine:
//
//	go test ./web -run 'TestLoad$' -load-record ../tests/record/explorer.json -v
func TestLoad(t *testing.T) {
	if *loadRecord == "" {
		measure(t, 40, 200*time.Millisecond, 2*time.Second).counts(t)
		return
	}
	l := measure(t, 200, 200*time.Millisecond, *loadFor)
	l.counts(t)
	if l.P95 >= 250 {
		t.Errorf("p95 is %.1f ms; the limit is 250", l.P95)
	}
	if l.PeakHeap > 768 {
		t.Errorf("the heap grew to %d MB; the limit is 768 for the server and all pages", l.PeakHeap)
	}
	if t.Failed() {
		return
	}
	raw, err := json.MarshalIndent(l, "", "\t")
	must(t, err)
	must(t, os.WriteFile(*loadRecord, append(raw, '\n'), 0o644))
}

// The recorded run held the limits.
func TestLoadRecord(t *testing.T) {
	raw, err := os.ReadFile("../tests/record/explorer.json")
	must(t, err)
	var l load
	must(t, json.Unmarshal(raw, &l))
	l.counts(t)
	if l.Pages < 200 || l.Seconds < 60 || l.Hertz < 5 || l.Cells < 128 || l.CPUs > 2 || l.P95 >= 250 || l.PeakHeap > 768 {
		t.Errorf("the record does not show what it must: %+v", l)
	}
}

// What one layout that was never seen costs the server.
func BenchmarkNewLayout(b *testing.B) {
	all := &chains{rng: rand.New(rand.NewPCG(1, 2)), seen: map[string]bool{}}
	var d drawer
	d.init(1)
	share := make(chan struct{}, 1)
	b.ReportAllocs()
	for b.Loop() {
		all.some = nil
		if _, err := d.json(context.Background(), share, nil, "layout", map[string]string{"e": all.next()}); err != nil {
			b.Fatal(err)
		}
	}
}
