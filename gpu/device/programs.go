package device

import (
	"sync"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// maxPrograms bounds what an open device remembers.
const maxPrograms = 256

// programs remembers compiled code per program text, target and assumptions.
type programs struct {
	mu    sync.Mutex
	byKey map[string]*compile.Compiled
}

func (s *programs) get(p *ir.Program, o compile.Options) (*compile.Compiled, error) {
	key := compile.Key(p, o)
	s.mu.Lock()
	c := s.byKey[key]
	s.mu.Unlock()
	if c != nil {
		again := *c
		again.Elapsed = 0
		return &again, nil
	}
	c, err := compile.Program(p, o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil || len(s.byKey) >= maxPrograms {
		s.byKey = map[string]*compile.Compiled{}
	}
	s.byKey[key] = c
	return c, nil
}
