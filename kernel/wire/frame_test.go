package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzReadFrame reads arbitrary bytes as frames: it must end with an error, keep to
// its limit, and write back what it read.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 3, 'a', 'b', 'c'})
	f.Add([]byte{flagMore, 0, flagLong, 0, 0, 0, 0, 0, 0, 0, 1, 'x'})
	f.Add(commandFrame("READY", appendProperty(nil, "Socket-Type", "DEALER")))
	f.Add(commandFrame("PING", []byte{0, 1, 'c'}))
	f.Add([]byte{flagLong, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 16
		r := bytes.NewReader(data)
		for {
			from := len(data) - r.Len()
			fr, err := readFrame(r, limit)
			if err != nil {
				if err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrProtocol) {
					t.Fatalf("unexpected kind of error: %v", err)
				}
				return
			}
			if len(fr.body) > limit {
				t.Fatalf("body of %d bytes", len(fr.body))
			}
			raw := data[from : len(data)-r.Len()]
			var flags byte
			if fr.more {
				flags |= flagMore
			}
			if fr.command {
				flags |= flagCommand
				if name, rest, err := splitCommand(fr.body); err == nil && name == "READY" {
					parseProperties(rest)
				}
			}
			again, err := readFrame(bytes.NewReader(append(appendHead(nil, len(fr.body), flags), fr.body...)), limit)
			if err != nil || again.more != fr.more || again.command != fr.command || !bytes.Equal(again.body, fr.body) {
				t.Fatalf("%x reads as %+v, written and read again %+v, %v", raw, fr, again, err)
			}
		}
	})
}
