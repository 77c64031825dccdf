package proto

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxFrame is the largest JSON text of one frame, in bytes. A larger event is refused by the writer, so that the reader
// may take a larger length for a broken pipe.
const MaxFrame = 128 << 20

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
	var b bytes.Buffer
	b.Write([]byte{0, 0, 0, 0})
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("proto: encode: %w", err)
	}
	n := b.Len() - 4
	if n > MaxFrame {
		return fmt.Errorf("%w: %d bytes, at most %d fit", ErrFrame, n, MaxFrame)
	}
	binary.BigEndian.PutUint32(b.Bytes(), uint32(n))
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("proto: write: %w", err)
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
	var head [4]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: length cut short", ErrFrame)
		}
		return err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n == 0 || n > MaxFrame {
		return fmt.Errorf("%w: length %d, want 1 to %d", ErrFrame, n, MaxFrame)
	}
	// A length alone must not make the reader allocate: grow with what arrives.
	buf := bytes.NewBuffer(r.buf[:0])
	if got, err := io.CopyN(buf, r.r, int64(n)); err != nil {
		return fmt.Errorf("%w: %d of %d bytes", ErrFrame, got, n)
	}
	if buf.Cap() <= 1<<20 {
		r.buf = buf.Bytes()
	}
	if err := json.Unmarshal(buf.Bytes(), v); err != nil {
		return fmt.Errorf("%w: %v", ErrFrame, err)
	}
	return nil
}
