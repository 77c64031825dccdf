package wire

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind is a ZeroMQ socket type that a server binds.
type Kind uint8

// The kinds. A Router hands on every message with the peer it came from; an XPub
// sends to those who subscribed; a Rep echoes through [Options.Reply].
const (
	Router Kind = iota + 1
	XPub
	Rep
)

// String is the Socket-Type property of the kind.
func (k Kind) String() string {
	switch k {
	case Router:
		return "ROUTER"
	case XPub:
		return "XPUB"
	case Rep:
		return "REP"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// serves lists the peers' socket types that the kind can talk to.
func (k Kind) serves() []string {
	switch k {
	case Router:
		return []string{"DEALER", "REQ", "ROUTER"}
	case XPub:
		return []string{"SUB", "XSUB"}
	case Rep:
		return []string{"REQ", "DEALER"}
	}
	return nil
}

// Options bound what a peer may cost. The zero value of each means the default.
type Options struct {
	MaxFrame   int64 // bytes of one part; 256 MiB
	MaxMessage int64 // bytes of all parts of one message; 512 MiB
	MaxParts   int   // parts of one message; 64
	MaxPeers   int   // connections at a time; 1024
	// QueueLen and QueueBytes bound what waits for one peer; beyond either, new
	// messages to that peer are dropped and logged. A message always fits into an empty
	// queue. 131072 messages; 256 MiB.
	QueueLen   int
	QueueBytes int64
	// Handshake is how long a new connection may take to become a peer; 30 s.
	Handshake time.Duration
	// Subscribed (XPub only) is called for each subscription of a peer that it did not
	// have; the message that it returns, if any, is sent to that peer alone, before
	// anything published. It must not call the socket.
	Subscribed func(topic string) [][]byte
	// Reply (Rep only) answers a request without its envelope; nil echoes.
	Reply func(body [][]byte) [][]byte
	// Log gets one line for each peer that is closed for a fault and each run of dropped
	// messages.
	Log func(format string, args ...any)
}

func (o Options) withDefaults() Options {
	if o.MaxFrame <= 0 {
		o.MaxFrame = 256 << 20
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = 512 << 20
	}
	if o.MaxParts <= 0 {
		o.MaxParts = 64
	}
	if o.MaxPeers <= 0 {
		o.MaxPeers = 1024
	}
	if o.QueueLen <= 0 {
		o.QueueLen = 1 << 17
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = 256 << 20
	}
	if o.Handshake <= 0 {
		o.Handshake = 30 * time.Second
	}
	if o.Reply == nil {
		o.Reply = func(body [][]byte) [][]byte { return body }
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	return o
}

// maxTopics and maxTopic bound what one peer may subscribe to.
const (
	maxTopics = 4096
	maxTopic  = 4096
)

// Socket is one bound socket. All methods may be called from any goroutine.
type Socket struct {
	kind     Kind
	opts     Options
	listener net.Listener
	endpoint string
	recv     chan Received
	done     chan struct{}
	wg       sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool // all open connections, in handshake too
	peers  []*Peer           // after the handshake, oldest first
	closed bool
}

// Received is a message as a Router gets it: the parts without the identity, which
// stands in the peer.
type Received struct {
	Peer  *Peer
	Parts [][]byte
}

// Bind listens on "tcp://HOST:PORT" (port 0 picks one) or "ipc://PATH" and serves
// peers until [Socket.Close]. A stale ipc socket file, that nobody listens on, is
// replaced.
func Bind(kind Kind, endpoint string, o Options) (*Socket, error) {
	if kind.serves() == nil {
		return nil, fmt.Errorf("kernel/wire: bind %s: unknown socket kind %v", endpoint, kind)
	}
	network, address, ok := strings.Cut(endpoint, "://")
	switch {
	case ok && network == "tcp":
		if rest, wild := strings.CutPrefix(address, "*:"); wild {
			address = ":" + rest
		}
	case ok && network == "ipc" && address != "":
		network = "unix"
		if c, err := net.Dial("unix", address); err == nil {
			c.Close()
			return nil, fmt.Errorf("kernel/wire: bind %s: another process listens there", endpoint)
		}
		if info, err := os.Lstat(address); err == nil && info.Mode()&os.ModeSocket != 0 {
			os.Remove(address)
		}
	default:
		return nil, fmt.Errorf("kernel/wire: bind %q: needed is tcp://HOST:PORT or ipc://PATH", endpoint)
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("kernel/wire: bind %s: %w", endpoint, err)
	}
	if network == "tcp" {
		endpoint = "tcp://" + l.Addr().String()
	} else if err := os.Chmod(address, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("kernel/wire: bind %s: %w", endpoint, err)
	}
	s := &Socket{
		kind: kind, opts: o.withDefaults(), listener: l, endpoint: endpoint,
		recv: make(chan Received, 16), done: make(chan struct{}), conns: map[net.Conn]bool{},
	}
	s.wg.Add(1)
	go s.accept()
	return s, nil
}

// Endpoint is where peers connect: the endpoint given, with the port that was picked.
func (s *Socket) Endpoint() string { return s.endpoint }

// Received is the stream of a Router's incoming messages. It is never closed; select
// on it together with your own end.
func (s *Socket) Received() <-chan Received { return s.recv }

// Send queues parts for the peer. If that connection is gone, they go to the newest
// one of the same identity: a client that reconnected still gets its answer. It never
// blocks; the error says that there is nobody to send to.
func (s *Socket) Send(to *Peer, parts [][]byte) error {
	if to.send(parts) {
		return nil
	}
	return s.SendTo(to.identity, parts)
}

// SendTo queues parts for the newest peer of this identity. A Jupyter client uses one
// identity for its shell and stdin sockets, which is how an input request finds the
// front end that runs the cell.
func (s *Socket) SendTo(identity string, parts [][]byte) error {
	s.mu.Lock()
	var to *Peer
	for _, p := range s.peers {
		if p.identity == identity {
			to = p
		}
	}
	s.mu.Unlock()
	if to == nil || !to.send(parts) {
		return fmt.Errorf("kernel/wire: %s has no peer with identity %q", s.kind, identity)
	}
	return nil
}

// Publish queues parts for every peer with a subscription that is a prefix of the
// first part. It never blocks. The parts must not be changed afterwards.
func (s *Socket) Publish(parts [][]byte) {
	if len(parts) == 0 {
		return
	}
	s.mu.Lock()
	peers := slices.Clone(s.peers)
	s.mu.Unlock()
	for _, p := range peers {
		p.publish(parts)
	}
}

// Close stops listening, gives the queues up to linger to reach their peers, and
// closes the connections. It returns when all goroutines of the socket have ended.
func (s *Socket) Close(linger time.Duration) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	peers := slices.Clone(s.peers)
	s.mu.Unlock()
	err := s.listener.Close()
	close(s.done)

	deadline := time.Now().Add(linger)
	for _, p := range peers {
		p.shut(deadline)
	}
	for _, p := range peers {
		select {
		case <-p.written:
		case <-time.After(time.Until(deadline)):
		}
	}
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
	return err
}

func (s *Socket) accept() {
	defer s.wg.Done()
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			select {
			case <-s.done:
				return
			default:
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors or the like: it may pass, so keep the socket.
			s.opts.Log("%s %s: accept: %v", s.kind, s.endpoint, err)
			time.Sleep(50 * time.Millisecond)
			continue
		}
		s.mu.Lock()
		refuse := s.closed || len(s.conns) >= s.opts.MaxPeers
		if !refuse {
			s.conns[conn] = true
			s.wg.Add(1)
		}
		s.mu.Unlock()
		if refuse {
			conn.Close()
			continue
		}
		go s.serve(conn)
	}
}

// serve is the life of one connection: handshake, then reading until it ends.
func (s *Socket) serve(conn net.Conn) {
	defer s.wg.Done()
	defer func() {
		conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	r := bufio.NewReaderSize(conn, 64<<10)
	conn.SetDeadline(time.Now().Add(s.opts.Handshake))
	identity, err := s.handshake(conn, r)
	if err != nil {
		s.logFault(conn, "handshake", err)
		return
	}
	conn.SetDeadline(time.Time{})

	p := newPeer(conn, identity, s.opts, s.kind)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.peers = append(s.peers, p)
	s.wg.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		p.write()
	}()
	err = s.read(p, r)
	s.mu.Lock()
	s.peers = slices.DeleteFunc(s.peers, func(q *Peer) bool { return q == p })
	s.mu.Unlock()
	p.drop()
	s.logFault(conn, "peer", err)
}

// logFault reports what a peer did wrong; going away is not wrong.
func (s *Socket) logFault(conn net.Conn, what string, err error) {
	if errors.Is(err, ErrProtocol) {
		s.opts.Log("%s %s: %s %s closed: %v", s.kind, s.endpoint, what, conn.RemoteAddr(), err)
	}
}

// handshake exchanges greeting and READY and returns the peer's identity.
func (s *Socket) handshake(conn net.Conn, r io.Reader) (identity string, err error) {
	if _, err := conn.Write(greeting()); err != nil {
		return "", err
	}
	g := make([]byte, greetingSize)
	// The signature comes first, so that a client of another protocol is refused
	// without waiting for 64 bytes that it will never send.
	if _, err := io.ReadFull(r, g[:10]); err != nil {
		return "", err
	}
	if g[0] != 0xFF || g[9]&1 != 1 {
		return "", protocolErrorf("not a ZMTP greeting")
	}
	if _, err := io.ReadFull(r, g[10:]); err != nil {
		return "", err
	}
	if err := checkGreeting(g); err != nil {
		return "", err
	}
	ready := appendProperty(nil, "Socket-Type", s.kind.String())
	if s.kind != XPub {
		ready = appendProperty(ready, "Identity", "")
	}
	if _, err := conn.Write(commandFrame("READY", ready)); err != nil {
		return "", err
	}
	f, err := readFrame(r, maxCommand)
	if err != nil {
		return "", err
	}
	if !f.command {
		return "", protocolErrorf("a message before READY")
	}
	name, data, err := splitCommand(f.body)
	if err != nil {
		return "", err
	}
	if name != "READY" {
		return "", protocolErrorf("command %q, expected READY", name)
	}
	props, err := parseProperties(data)
	if err != nil {
		return "", err
	}
	if t := props["socket-type"]; !slices.Contains(s.kind.serves(), t) {
		reason := fmt.Sprintf("%s cannot serve %q", s.kind, t)
		reason = reason[:min(len(reason), 255)]
		conn.Write(commandFrame("ERROR", append([]byte{byte(len(reason))}, reason...)))
		return "", protocolErrorf("%s", reason)
	}
	identity = props["identity"]
	if len(identity) > 255 {
		return "", protocolErrorf("identity of %d bytes, the limit is 255", len(identity))
	}
	if identity == "" {
		// As libzmq does it: a zero byte first, which no chosen identity may have.
		identity = "\x00" + rand.Text()[:16]
	}
	return identity, nil
}

// read handles what a peer sends until the connection ends or breaks the protocol.
func (s *Socket) read(p *Peer, r io.Reader) error {
	var parts [][]byte
	var size int64
	for {
		f, err := readFrame(r, s.opts.MaxFrame)
		if err != nil {
			return err
		}
		if f.command {
			if err := s.command(p, f.body); err != nil {
				return err
			}
			continue
		}
		parts = append(parts, f.body)
		size += int64(len(f.body))
		if len(parts) > s.opts.MaxParts {
			return protocolErrorf("message of more than %d parts", s.opts.MaxParts)
		}
		if size > s.opts.MaxMessage {
			return protocolErrorf("message of more than %d bytes", s.opts.MaxMessage)
		}
		if f.more {
			continue
		}
		if err := s.message(p, parts); err != nil {
			return err
		}
		parts, size = nil, 0
	}
}

func (s *Socket) command(p *Peer, body []byte) error {
	name, data, err := splitCommand(body)
	if err != nil {
		return err
	}
	switch name {
	case "PING":
		// Two bytes of time to live, then up to 16 bytes to send back. A peer that
		// vanishes is found by TCP keep-alive, so the time is not used.
		if len(data) < 2 || len(data) > 2+16 {
			return protocolErrorf("PING of %d bytes", len(data))
		}
		p.sendCommand("PONG", data[2:])
	case "SUBSCRIBE", "CANCEL":
		if s.kind == XPub {
			return p.subscribe(string(data), name == "SUBSCRIBE")
		}
	case "ERROR":
		return protocolErrorf("peer sent ERROR %q", data)
	}
	return nil
}

func (s *Socket) message(p *Peer, parts [][]byte) error {
	switch s.kind {
	case Router:
		select {
		case s.recv <- Received{Peer: p, Parts: parts}:
		case <-s.done:
		}
	case XPub:
		// ZMTP 3.0 subscriptions are messages: one byte, then the topic. Anything else
		// that a subscriber sends has no meaning here.
		if b := parts[0]; len(parts) == 1 && len(b) > 0 && b[0] <= 1 {
			return p.subscribe(string(b[1:]), b[0] == 1)
		}
	case Rep:
		// The envelope ends with the first empty part and is sent back as it came.
		for i, b := range parts {
			if len(b) == 0 {
				out := append(slices.Clone(parts[:i+1]), s.opts.Reply(parts[i+1:])...)
				p.send(out)
				return nil
			}
		}
	}
	return nil
}
