package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

// Conn is the front end's end of one connection to a [Socket], enough to ask a kernel
// whether it works.
type Conn struct {
	net.Conn
	r *bufio.Reader
}

// Dial connects to a TCP endpoint as a socket of that ZMTP type: "DEALER" for a
// Router, "SUB" for an XPub, which then gets every topic. The time that ctx has left
// bounds all reading and writing.
func Dial(ctx context.Context, socketType, address string) (*Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("kernel/wire: %w", err)
	}
	if end, ok := ctx.Deadline(); ok {
		conn.SetDeadline(end)
	} else {
		conn.SetDeadline(time.Now().Add(10 * time.Second))
	}
	c := &Conn{conn, bufio.NewReader(conn)}
	if err := c.handshake(socketType); err != nil {
		conn.Close()
		return nil, fmt.Errorf("kernel/wire: %s: %w", address, err)
	}
	return c, nil
}

func (c *Conn) handshake(socketType string) error {
	hello := append(greeting(), commandFrame("READY", appendProperty(appendProperty(nil, "Socket-Type", socketType), "Identity", ""))...)
	if _, err := c.Write(hello); err != nil {
		return err
	}
	g := make([]byte, greetingSize)
	if _, err := io.ReadFull(c.r, g); err != nil {
		return err
	}
	if err := checkGreeting(g); err != nil {
		return err
	}
	f, err := readFrame(c.r, maxCommand)
	if err != nil {
		return err
	}
	if name, _, err := splitCommand(f.body); err != nil || !f.command || name != "READY" {
		return protocolErrorf("no READY after the greeting")
	}
	if socketType == "SUB" {
		return c.Send([][]byte{{1}})
	}
	return nil
}

// Send sends one multipart message.
func (c *Conn) Send(parts [][]byte) error {
	var b []byte
	for i, p := range parts {
		flags := byte(flagMore)
		if i == len(parts)-1 {
			flags = 0
		}
		b = append(appendHead(b, len(p), flags), p...)
	}
	_, err := c.Write(b)
	return err
}

// Receive waits for the next message.
func (c *Conn) Receive() (parts [][]byte, err error) {
	for {
		f, err := readFrame(c.r, 256<<20)
		if err != nil {
			return nil, fmt.Errorf("kernel/wire: %w", err)
		}
		if f.command {
			continue
		}
		parts = append(parts, f.body)
		if !f.more {
			return parts, nil
		}
	}
}
