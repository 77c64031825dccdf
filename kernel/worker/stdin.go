package worker

import (
	"errors"
	"io"
	"sync"

	"github.com/tilus-lab/tilus-lab/kernel/proto"
)

// errNoInput is what reading standard input gives when nobody can answer.
var errNoInput = errors.New("this front end cannot ask for input")

type line struct {
	text string
	eof  bool
}

// stdin is what fmt.Scan reads in cells: each line is asked for at the front end.
type stdin struct {
	k     *worker
	lines chan line

	mu   sync.Mutex
	ok   bool
	rest []byte
}

func (s *stdin) allow(ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ok, s.rest = ok, nil
	select {
	case <-s.lines:
	default:
	}
}

func (s *stdin) give(l line) {
	select {
	case s.lines <- l:
	default: // nobody asked
	}
}

func (s *stdin) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) == 0 {
		if !s.ok {
			return 0, errNoInput
		}
		s.k.out.sync()
		s.k.out.send(proto.Event{ID: s.k.running(), Kind: proto.KindInputRequest, InputRequest: &proto.InputRequest{}})
		ctx := s.k.context()
		s.mu.Unlock()
		var l line
		var done bool
		select {
		case l = <-s.lines:
		case <-ctx.Done():
			done = true
		}
		s.mu.Lock()
		if done || l.eof {
			return 0, io.EOF
		}
		s.rest = []byte(l.text + "\n")
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
