package worker

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

const (
	flushAfter = 20 * time.Millisecond // between two messages of one stream
	flushBytes = 64 << 10
	cellBytes  = 10 << 20 // of text that one cell may print
)

// output is the one ordered queue of everything that leaves the worker. Stream text is joined: the first piece goes out at
// once, what follows waits until there is enough of it or 20 ms are over.
type output struct {
	w *proto.Writer

	mu      sync.Mutex
	id      int64 // of buf
	name    string
	buf     bytes.Buffer
	last    time.Time
	timer   *time.Timer
	printed map[int64]int
	mute    int64 // cell whose text is dropped after an interrupt
	current int64

	pipes [2]*pipe // stdout, stderr
	nonce string
	seq   int
}

// pipe is the file that cells see as os.Stdout or os.Stderr.
type pipe struct {
	name string
	w    *os.File
	mu   sync.Mutex
	seen map[string]chan struct{}
}

func newOutput(w *proto.Writer) (*output, error) {
	o := &output{w: w, printed: map[int64]int{}, nonce: "\x00tilus-sync-" + strconv.Itoa(os.Getpid()) + "-"}
	for i, name := range []string{"stdout", "stderr"} {
		r, pw, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		o.pipes[i] = &pipe{name: name, w: pw, seen: map[string]chan struct{}{}}
		go o.read(o.pipes[i], r)
	}
	return o, nil
}

// read takes what came through a file. Marks that sync wrote are taken out.
func (o *output) read(p *pipe, r *os.File) {
	buf := make([]byte, 64<<10)
	var rest []byte
	mark := []byte(o.nonce)
	for {
		n, err := r.Read(buf)
		rest = append(rest, buf[:n]...)
		for {
			i := bytes.Index(rest, mark)
			if i < 0 {
				break
			}
			j := bytes.IndexByte(rest[i+1:], 0)
			if j < 0 {
				break
			}
			o.write(0, p.name, rest[:i])
			key := string(rest[i : i+j+2])
			rest = rest[i+j+2:]
			p.mu.Lock()
			if c := p.seen[key]; c != nil {
				close(c)
				delete(p.seen, key)
			}
			p.mu.Unlock()
		}
		// Hold back what may be the beginning of a mark.
		keep := 0
		if i := bytes.LastIndexByte(rest, 0); i >= 0 && (bytes.HasPrefix(mark, rest[i:]) || bytes.HasPrefix(rest[i:], mark)) {
			keep = len(rest) - i
		}
		o.write(0, p.name, rest[:len(rest)-keep])
		rest = append(rest[:0], rest[len(rest)-keep:]...)
		if err != nil {
			return
		}
	}
}

// sync returns when everything written to the files before has been queued.
func (o *output) sync() {
	o.mu.Lock()
	o.seq++
	key := o.nonce + strconv.Itoa(o.seq) + "\x00"
	o.mu.Unlock()
	var marks [len(o.pipes)]chan struct{}
	for i, p := range o.pipes {
		c := make(chan struct{})
		p.mu.Lock()
		p.seen[key] = c
		p.mu.Unlock()
		if _, err := p.w.WriteString(key); err == nil {
			marks[i] = c
		}
	}
	for _, c := range marks {
		if c == nil {
			continue
		}
		select {
		case <-c:
		case <-time.After(10 * time.Second): // what a cell wrote may look like the beginning of a mark
		}
	}
}

// write queues text; id 0 means the cell that runs.
func (o *output) write(id int64, name string, b []byte) {
	if len(b) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if id == 0 {
		id = o.current
	}
	if id == o.mute && id != 0 {
		return
	}
	have := o.printed[id]
	if have > cellBytes {
		return
	}
	o.printed[id] = have + len(b)
	if have+len(b) > cellBytes {
		b = append(append([]byte{}, b[:cellBytes-have]...), fmt.Sprintf("\n[the cell printed more than %d MB; the rest is left out]\n", cellBytes>>20)...)
		o.printed[id] = cellBytes + 1
	}
	if o.buf.Len() > 0 && (o.id != id || o.name != name) {
		o.flush()
	}
	o.id, o.name = id, name
	o.buf.Write(b)
	switch {
	case o.buf.Len() >= flushBytes || time.Since(o.last) >= flushAfter:
		// Wait a moment even for the first piece, so that one Println is one message.
		if o.buf.Len() >= flushBytes || bytes.HasSuffix(b, []byte("\n")) {
			o.flush()
			return
		}
		fallthrough
	default:
		if o.timer == nil {
			o.timer = time.AfterFunc(flushAfter, func() {
				o.mu.Lock()
				defer o.mu.Unlock()
				o.timer = nil
				o.flush()
			})
		}
	}
}

// flush sends the joined text. The caller holds mu.
func (o *output) flush() {
	if o.buf.Len() == 0 {
		return
	}
	b := o.buf.Bytes()
	// A rune must not be cut in two by a full buffer.
	cut := len(b)
	if len(b) >= flushBytes {
		for cut > 0 && cut > len(b)-4 && b[cut-1]&0xC0 == 0x80 {
			cut--
		}
		if cut > 0 && b[cut-1] >= 0xC0 {
			cut--
		} else {
			cut = len(b)
		}
	}
	text := string(bytes.ToValidUTF8(b[:cut], []byte("\uFFFD")))
	rest := append([]byte{}, b[cut:]...)
	o.buf.Reset()
	o.buf.Write(rest)
	o.last = time.Now()
	o.w.Send(proto.Event{ID: o.id, Kind: proto.KindStream, Stream: &proto.Stream{Name: o.name, Text: text}})
}

// send queues an event behind all text before it.
func (o *output) send(ev proto.Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	return o.w.Send(ev)
}

// begin makes id the cell that owns text from the files.
func (o *output) begin(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.current, o.mute = id, 0
	o.last = time.Time{}
	for k := range o.printed {
		if k < id-1000 {
			delete(o.printed, k)
		}
	}
}

// drop forgets the text of a cell that was interrupted.
func (o *output) drop(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mute = id
	if o.id == id {
		o.buf.Reset()
	}
}

// resume ends drop.
func (o *output) resume(id int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mute == id {
		o.mute = 0
	}
}
