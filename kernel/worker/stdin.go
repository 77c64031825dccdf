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
	k *worker

	mu    sync.Mutex
	cells map[int64]*asker // that run, and whose front ends answer
}

// asker is a cell that may ask.
type asker struct {
	lines chan line
	mu    sync.Mutex
	rest  []byte
}

// allow lets a cell ask until forget is called.
func (s *stdin) allow(id int64, ok bool) (forget func()) {
	if !ok {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cells[id] = &asker{lines: make(chan line, 1)}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cells, id)
	}
}

func (s *stdin) asker(id int64) *asker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cells[id]
}

func (s *stdin) give(id int64, l line) {
	if a := s.asker(id); a != nil {
		select {
		case a.lines <- l:
		default: // nobody asked
		}
	}
}

func (s *stdin) Read(p []byte) (int, error) {
	id := s.k.running()
	a := s.asker(id)
	if a == nil {
		return 0, errNoInput
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.rest) == 0 {
		s.k.out.sync()
		s.k.out.send(proto.Event{ID: id, Kind: proto.KindInputRequest, InputRequest: &proto.InputRequest{}})
		select {
		case l := <-a.lines:
			if l.eof {
				return 0, io.EOF
			}
			a.rest = []byte(l.text + "\n")
		case <-s.k.context().Done():
			return 0, io.EOF
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}
