package wire

import (
	"net"
	"strings"
	"sync"
	"time"
)

// Peer is one connection that finished its handshake.
type Peer struct {
	identity string
	conn     net.Conn
	opts     Options
	kind     Kind
	written  chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	wake    *sync.Cond
	queue   []outgoing
	bytes   int64 // in queue
	topics  map[string]int
	dropped int // messages of the current run of drops
	state   peerState
}

type peerState uint8

const (
	peerOpen peerState = iota
	peerShut           // writes what is queued, takes nothing more
	peerGone
)

// outgoing is what the writer sends next: the parts of a message, or one command
// frame as it is.
type outgoing struct {
	parts   [][]byte
	command []byte
}

func newPeer(conn net.Conn, identity string, o Options, kind Kind) *Peer {
	p := &Peer{identity: identity, conn: conn, opts: o, kind: kind, written: make(chan struct{}), topics: map[string]int{}}
	p.wake = sync.NewCond(&p.mu)
	return p
}

// Identity is the peer's Identity property, or a generated one that starts with a
// zero byte.
func (p *Peer) Identity() string { return p.identity }

// send queues a message and reports whether the peer is still there. A full queue
// drops the message: the peer has stopped reading, and nobody else may wait for it.
func (p *Peer) send(parts [][]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enqueue(parts)
}

func (p *Peer) enqueue(parts [][]byte) bool {
	if p.state != peerOpen {
		return false
	}
	var size int64
	for _, b := range parts {
		size += int64(len(b))
	}
	if len(p.queue) > 0 && (len(p.queue) >= p.opts.QueueLen || p.bytes+size > p.opts.QueueBytes) {
		if p.dropped++; p.dropped == 1 {
			p.opts.Log("%s: peer %s does not read; dropping messages to it (%d waiting, %d bytes)", p.kind, p.conn.RemoteAddr(), len(p.queue), p.bytes)
		}
		return true
	}
	if p.dropped > 0 {
		p.opts.Log("%s: peer %s reads again; %d messages were dropped", p.kind, p.conn.RemoteAddr(), p.dropped)
		p.dropped = 0
	}
	p.queue = append(p.queue, outgoing{parts: parts})
	p.bytes += size
	p.wake.Signal()
	return true
}

// publish queues the message if a subscription matches its first part.
func (p *Peer) publish(parts [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for topic := range p.topics {
		if strings.HasPrefix(string(parts[0]), topic) {
			p.enqueue(parts)
			return
		}
	}
}

// sendCommand queues a command. Commands are not counted, but bounded all the same: a
// peer that pings without reading stops being answered.
func (p *Peer) sendCommand(name string, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == peerOpen && len(p.queue) < p.opts.QueueLen+1024 {
		p.queue = append(p.queue, outgoing{command: commandFrame(name, data)})
		p.wake.Signal()
	}
}

// subscribe adds or takes away one subscription; equal ones count. The greeting of
// Options.Subscribed is queued under the same lock, so nothing published can pass it.
func (p *Peer) subscribe(topic string, on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !on {
		if p.topics[topic]--; p.topics[topic] <= 0 {
			delete(p.topics, topic)
		}
		return nil
	}
	if len(topic) > maxTopic || len(p.topics) >= maxTopics && p.topics[topic] == 0 {
		return protocolErrorf("more than %d subscriptions, or one of more than %d bytes", maxTopics, maxTopic)
	}
	p.topics[topic]++
	if p.topics[topic] == 1 && p.opts.Subscribed != nil {
		if parts := p.opts.Subscribed(topic); parts != nil {
			p.enqueue(parts)
		}
	}
	return nil
}

// write sends the queue until the peer goes, taking all that waits at a time.
func (p *Peer) write() {
	defer close(p.written)
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && p.state == peerOpen {
			p.wake.Wait()
		}
		if len(p.queue) == 0 || p.state == peerGone {
			shut := p.state == peerShut
			p.mu.Unlock()
			if shut {
				p.finish()
			}
			return
		}
		batch := p.queue
		if len(batch) > 64 {
			batch = batch[:64:64]
		}
		p.mu.Unlock()

		var heads []byte
		var bufs net.Buffers
		size := int64(0)
		for _, o := range batch {
			if o.command != nil {
				bufs = append(bufs, o.command)
				continue
			}
			for i, b := range o.parts {
				flags := byte(flagMore)
				if i == len(o.parts)-1 {
					flags = 0
				}
				from := len(heads)
				heads = appendHead(heads, len(b), flags)
				bufs = append(bufs, heads[from:len(heads):len(heads)])
				if len(b) > 0 {
					bufs = append(bufs, b)
				}
				size += int64(len(b))
			}
		}
		_, err := bufs.WriteTo(p.conn)
		p.mu.Lock()
		if p.state == peerGone || err != nil {
			p.mu.Unlock()
			p.drop()
			return
		}
		clear(p.queue[:len(batch)])
		if p.queue = p.queue[len(batch):]; len(p.queue) == 0 {
			p.queue = nil
		}
		p.bytes -= size
		p.mu.Unlock()
	}
}

// shut lets the writer finish the queue by the deadline.
func (p *Peer) shut(deadline time.Time) {
	p.mu.Lock()
	if p.state == peerOpen {
		p.state = peerShut
	}
	p.wake.Signal()
	p.mu.Unlock()
	p.conn.SetWriteDeadline(deadline)
}

// finish ends the sending half only: closing at once with unread input would make TCP
// throw away what the peer has not read yet.
func (p *Peer) finish() {
	if c, ok := p.conn.(interface{ CloseWrite() error }); ok {
		c.CloseWrite()
	}
}

// drop ends the peer at once.
func (p *Peer) drop() {
	p.mu.Lock()
	p.state = peerGone
	p.queue, p.bytes = nil, 0
	p.wake.Signal()
	p.mu.Unlock()
	p.conn.Close()
}
