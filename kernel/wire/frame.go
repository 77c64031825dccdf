// Package wire carries Jupyter messages over ZeroMQ sockets, without a ZeroMQ
// library: a bind-only server of ZMTP 3.0 and 3.1 with the NULL mechanism for the
// three socket types that a Jupyter kernel binds (ROUTER, XPUB, REP), and the
// signed multipart message that travels in them.
//
// Three layers, one file each:
//
//   - frame.go: greeting, frames and commands as bytes. A frame is a flag byte (1
//     more parts follow, 2 the size has eight bytes, 4 it is a command), a size and
//     a body.
//   - socket.go: [Bind] listens on tcp or ipc and serves any number of peers. Each
//     peer has one reader and one writer goroutine; the writer has a bounded queue of
//     its own, so that a peer which stops reading costs only itself.
//   - message.go: [Signer] turns parts into a [Message] and back, checking the
//     HMAC.
//
// A peer that breaks the protocol is closed and logged; nothing a peer sends
// reaches another peer or ends the process.
//
// Source: ZMTP 3.1 (rfc.zeromq.org/spec/37), ZMTP 3.0 (spec/23), ROUTER and REP
// (spec/28), PUB (spec/29); Jupyter messaging 5.5, "The wire protocol".
package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Flags of a frame's first byte; the other bits must be zero.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

const (
	greetingSize = 64
	// maxCommand bounds a command's body [bytes]: commands are a name and a few
	// short properties, or a subscription.
	maxCommand = 64 << 10
	// readStep is how much memory [bytes] a frame may claim ahead of its data: a size
	// field alone must not make us allocate.
	readStep = 1 << 20
)

// ErrProtocol is wrapped by every error that says a peer broke ZMTP, as opposed to
// having gone away.
var ErrProtocol = errors.New("ZMTP violation")

func protocolErrorf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// frame is one frame off the connection. A command never has more set.
type frame struct {
	more, command bool
	body          []byte
}

// readFrame reads one frame whose body has at most max bytes. io.EOF means that the
// peer closed between frames.
func readFrame(r io.Reader, max int64) (frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return frame{}, err
	}
	flags := head[0]
	if flags&^(flagMore|flagLong|flagCommand) != 0 {
		return frame{}, protocolErrorf("frame flags %#02x", flags)
	}
	f := frame{more: flags&flagMore != 0, command: flags&flagCommand != 0}
	if f.command && f.more {
		return frame{}, protocolErrorf("a command with the more flag")
	}
	var size uint64
	if flags&flagLong != 0 {
		if _, err := io.ReadFull(r, head[1:9]); err != nil {
			return frame{}, unexpected(err)
		}
		size = binary.BigEndian.Uint64(head[1:9])
	} else {
		if _, err := io.ReadFull(r, head[1:2]); err != nil {
			return frame{}, unexpected(err)
		}
		size = uint64(head[1])
	}
	if f.command {
		max = min(max, maxCommand)
	}
	if size > uint64(max) {
		return frame{}, protocolErrorf("frame of %d bytes, the limit is %d", size, max)
	}
	var err error
	f.body, err = readBody(r, int(size))
	return f, err
}

// readBody reads exactly n bytes, claiming memory only as they come.
func readBody(r io.Reader, n int) ([]byte, error) {
	if n <= readStep {
		body := make([]byte, n)
		_, err := io.ReadFull(r, body)
		return body, unexpected(err)
	}
	var b bytes.Buffer
	b.Grow(readStep)
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return nil, unexpected(err)
	}
	return b.Bytes(), nil
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendHead appends the flag and size bytes that stand before a body of n bytes.
func appendHead(b []byte, n int, flags byte) []byte {
	if n > 255 {
		b = append(b, flags|flagLong)
		return binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return append(b, flags, byte(n))
}

// commandFrame is a whole command frame: name, then data as the command defines it.
func commandFrame(name string, data []byte) []byte {
	b := appendHead(nil, 1+len(name)+len(data), flagCommand)
	b = append(b, byte(len(name)))
	b = append(b, name...)
	return append(b, data...)
}

// splitCommand takes a command body apart into its name and data.
func splitCommand(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || int(body[0]) > len(body)-1 || body[0] == 0 {
		return "", nil, protocolErrorf("command without a name")
	}
	n := 1 + int(body[0])
	return string(body[1:n]), body[n:], nil
}

// greeting is what each side sends first: signature, version 3.1, mechanism NULL.
func greeting() []byte {
	g := make([]byte, greetingSize)
	g[0], g[8], g[9] = 0xFF, 1, 0x7F
	g[10], g[11] = 3, 1
	copy(g[12:32], "NULL")
	return g
}

// checkGreeting says why a peer's greeting cannot be served. Minor versions of 3
// differ only in commands that [Socket] accepts from either.
func checkGreeting(g []byte) error {
	switch {
	case len(g) != greetingSize || g[0] != 0xFF || g[9]&1 != 1:
		return protocolErrorf("not a ZMTP greeting")
	case g[10] < 3:
		return protocolErrorf("peer speaks ZMTP %d, needed is 3", g[10])
	case !bytes.Equal(bytes.TrimRight(g[12:32], "\x00"), []byte("NULL")):
		return protocolErrorf("peer wants security mechanism %q, only NULL is served", bytes.TrimRight(g[12:32], "\x00"))
	}
	return nil
}

// appendProperty appends one READY property.
func appendProperty(b []byte, name, value string) []byte {
	b = append(b, byte(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// parseProperties reads the properties of a READY command. Names are compared
// without case, so the keys come back in lower case.
func parseProperties(data []byte) (map[string]string, error) {
	props := map[string]string{}
	for len(data) > 0 {
		n := int(data[0])
		if n == 0 || len(data) < 1+n+4 {
			return nil, protocolErrorf("READY property cut short")
		}
		name := string(bytes.ToLower(data[1 : 1+n]))
		size := binary.BigEndian.Uint32(data[1+n:])
		data = data[1+n+4:]
		if uint64(size) > uint64(len(data)) {
			return nil, protocolErrorf("READY property %q cut short", name)
		}
		props[name] = string(data[:size])
		data = data[size:]
	}
	return props, nil
}
