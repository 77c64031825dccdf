package proto

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"unicode/utf8"
)

// MaxFrame is the largest frame, in bytes. A larger event is refused by the writer, so that the reader
// may take a larger length for a broken pipe.
const MaxFrame = 128 << 20

const (
	headBytes = 8       // before each frame: its length, and that of its JSON
	rawBytes  = 4 << 10 // a text of a bundle that is not shorter follows the JSON as it is
	readStep  = 4 << 20 // bytes of memory that a length may claim
)

// ErrFrame is wrapped by every error about a frame that cannot be: too long, cut short, or not JSON of the right shape.
var ErrFrame = errors.New("proto: bad frame")

// Writer sends frames. It is safe for concurrent use; a frame is written whole.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// NewWriter returns a Writer on w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Send writes v, a Request or an Event, as one frame.
func (w *Writer) Send(v any) error {
	v, raw := detach(v)
	size := 4
	for _, s := range raw {
		size += len(s)
	}
	var b bytes.Buffer
	b.Grow(size + 512)
	b.Write(make([]byte, headBytes))
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("proto: encode: %w", err)
	}
	n := b.Len() - headBytes
	for _, s := range raw {
		b.WriteString(s)
	}
	all := b.Len() - headBytes
	if all > MaxFrame {
		return fmt.Errorf("%w: %d bytes, at most %d fit", ErrFrame, all, MaxFrame)
	}
	binary.BigEndian.PutUint32(b.Bytes(), uint32(all))
	binary.BigEndian.PutUint32(b.Bytes()[4:], uint32(n))
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("proto: write: %w", err)
	}
	return nil
}

// detached is an event whose long texts follow its JSON: a picture of a megabyte costs more to quote, to check and to
// unquote than to make.
type detached struct {
	*Event
	Raw []span `json:"raw,omitempty"`
}

// span is one text behind the JSON: the value of Key in the bundle's Data.
type span struct {
	Key   string `json:"key"`
	Bytes int    `json:"bytes"`
}

// detach takes the long texts out of a bundle and returns what to encode and the texts, in order.
func detach(v any) (any, []string) {
	var ev *Event
	switch v := v.(type) {
	case Event:
		ev = &v
	case *Event:
		ev = v
	}
	if ev == nil || ev.Bundle == nil {
		return v, nil
	}
	var raw []string
	d := detached{}
	for key, value := range ev.Bundle.Data {
		// What is not UTF-8 stays in the JSON, which mends it.
		if s, ok := value.(string); ok && len(s) >= rawBytes && utf8.ValidString(s) {
			d.Raw = append(d.Raw, span{key, len(s)})
			raw = append(raw, s)
		}
	}
	if raw == nil {
		return v, nil
	}
	short, bundle := *ev, *ev.Bundle
	bundle.Data = maps.Clone(bundle.Data)
	for _, s := range d.Raw {
		delete(bundle.Data, s.Key)
	}
	short.Bundle, d.Event = &bundle, &short
	return d, raw
}

// attach puts the texts behind the JSON of an event back into its bundle.
func (d detached) attach(rest []byte) error {
	if len(d.Raw) > 0 && d.Bundle == nil {
		return errors.New("text of no bundle")
	}
	for _, s := range d.Raw {
		if s.Bytes < 0 || s.Bytes > len(rest) {
			return fmt.Errorf("text of %d bytes in %d", s.Bytes, len(rest))
		}
		if d.Bundle.Data == nil {
			d.Bundle.Data = map[string]any{}
		}
		d.Bundle.Data[s.Key] = string(rest[:s.Bytes])
		rest = rest[s.Bytes:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes too many", len(rest))
	}
	return nil
}

// Reader receives frames. It is for one goroutine.
type Reader struct {
	r   io.Reader
	buf []byte
}

// NewReader returns a Reader on r.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Receive reads the next frame into v, a *Request or an *Event. It returns io.EOF between frames when the other side has
// closed, and an error wrapping ErrFrame for what is not a frame; reading on after that makes no sense.
func (r *Reader) Receive(v any) error {
	var head [headBytes]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: length cut short", ErrFrame)
		}
		return err
	}
	all, n := int(binary.BigEndian.Uint32(head[:])), int(binary.BigEndian.Uint32(head[4:]))
	if n == 0 || n > all || all > MaxFrame {
		return fmt.Errorf("%w: length %d with %d of JSON, want 1 to %d", ErrFrame, all, n, MaxFrame)
	}
	// A length alone must not make the reader allocate much: beyond readStep, grow with what arrives.
	buf := bytes.NewBuffer(r.buf[:0])
	buf.Grow(min(all, readStep) + bytes.MinRead)
	if got, err := io.CopyN(buf, r.r, int64(all)); err != nil {
		return fmt.Errorf("%w: %d of %d bytes", ErrFrame, got, all)
	}
	if buf.Cap() <= readStep {
		r.buf = buf.Bytes()
	}
	text, rest := buf.Bytes()[:n], buf.Bytes()[n:]
	ev, isEvent := v.(*Event)
	if !isEvent || len(rest) == 0 {
		if err := json.Unmarshal(text, v); err != nil {
			return fmt.Errorf("%w: %v", ErrFrame, err)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	if !isEvent {
		return fmt.Errorf("%w: %d bytes behind a request", ErrFrame, len(rest))
	}
	d := detached{Event: ev}
	err := json.Unmarshal(text, &d)
	if err == nil {
		err = d.attach(rest)
	}
	if err != nil {
		return fmt.Errorf("%w: %v", ErrFrame, err)
	}
	return nil
}
