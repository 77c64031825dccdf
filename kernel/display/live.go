package display

import (
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// clear asks the front end to clear the output of the running cell; the worker sets it.
var clearer atomic.Pointer[func(wait bool) error]

// AttachClear makes ClearOutput call f until the returned function is called.
func AttachClear(f func(wait bool) error) (detach func()) {
	clearer.Store(&f)
	return func() { clearer.CompareAndSwap(&f, nil) }
}

// ClearOutput removes what the running cell has shown so far; with wait only when the next output comes, so that nothing flickers.
func ClearOutput(wait bool) error {
	f := clearer.Load()
	if f == nil {
		return errors.New("display: no notebook is attached to this process")
	}
	return (*f)(wait)
}

// Live is a display that can be changed after it was shown.
type Live struct {
	ID string

	mu      sync.Mutex
	last    time.Time
	pending *Data
	timer   *time.Timer
}

// liveEvery is the time between two updates of one display: front ends draw no faster, and slower ones fall behind.
const liveEvery = 40 * time.Millisecond

// NewLive shows data as a display that Update changes in its place.
func NewLive(d Data) (*Live, error) {
	var b [12]byte
	rand.Read(b[:])
	l := &Live{ID: fmt.Sprintf("%x", b), last: time.Now()}
	return l, Display(WithID(l.ID, d))
}

// WithID gives data the ID by which Update finds its display.
func WithID(id string, d Data) Data { return transient(d, id, false) }

// Update shows data in the place of every display with that ID.
func Update(id string, d Data) error { return Display(transient(d, id, true)) }

func transient(d Data, id string, update bool) Data {
	t := MIMEMap{}
	for k, v := range d.Transient {
		t[k] = v
	}
	t["display_id"], t["update"] = id, update
	d.Transient = t
	return d
}

// Update shows data in the place of what the display shows. Updates that come faster than a front end can draw are left out, but
// never the last.
func (l *Live) Update(d Data) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait := liveEvery - time.Since(l.last)
	if wait <= 0 && l.pending == nil {
		l.last = time.Now()
		return Update(l.ID, d)
	}
	l.pending = &d
	if l.timer == nil {
		l.timer = time.AfterFunc(max(wait, 0), func() { l.Flush() })
	}
	return nil
}

// Flush shows the last update now, if it waits.
func (l *Live) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if l.pending == nil {
		return nil
	}
	d := *l.pending
	l.pending, l.last = nil, time.Now()
	return Update(l.ID, d)
}

// Progress is a bar for work of a known number of steps. Its methods are safe for concurrent use.
type Progress struct {
	live  *Live
	label string
	total int
	start time.Time

	mu   sync.Mutex
	done int
}

// NewProgress shows a bar for total steps.
func NewProgress(label string, total int) (*Progress, error) {
	p := &Progress{label: label, total: max(total, 1), start: time.Now()}
	var err error
	p.live, err = NewLive(p.bar())
	return p, err
}

// Add counts n more steps; the last step shows the bar full at once.
func (p *Progress) Add(n int) error {
	p.mu.Lock()
	p.done = max(0, min(p.done+n, p.total))
	d, full := p.bar(), p.done == p.total
	p.mu.Unlock()
	err := p.live.Update(d)
	if full {
		err = errors.Join(err, p.live.Flush())
	}
	return err
}

// bar is the bar as HTML and as text. The caller holds mu, or has p alone.
func (p *Progress) bar() Data {
	const width = 30
	took := time.Since(p.start)
	times := took.Round(100 * time.Millisecond).String()
	if p.done > 0 && p.done < p.total {
		left := time.Duration(float64(took) * float64(p.total-p.done) / float64(p.done))
		times += ", " + left.Round(100*time.Millisecond).String() + " to go"
	}
	n := width * p.done / p.total
	text := fmt.Sprintf("%s %s%s %d/%d (%s)", p.label, strings.Repeat("█", n), strings.Repeat("░", width-n), p.done, p.total, times)
	return MIME(MIMEMap{
		MIMETypeText: text,
		MIMETypeHTML: fmt.Sprintf(`<div>%s <progress max="%d" value="%d"></progress> %d/%d (%s)</div>`, html.EscapeString(p.label), p.total, p.done, p.done, p.total, times),
	}, nil)
}
