package text

import (
	"strings"
	"sync"

	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/bits"
)

// readings remembers what texts stand for that are in most lines of a program, and in one
// program after the other. What was read, nothing changes.
type readings[T any] struct {
	mu sync.Mutex
	by map[string]T
}

// mostReadings is how many are remembered, about as many as ten long programs have.
const mostReadings = 1000

var (
	sharedLayouts readings[layout.Shared]
	placements    readings[bits.Placement]
)

// read is what parse makes of a text, or has made of it before. Errors are not remembered:
// they say where the text stands.
func (r *readings[T]) read(text string, parse func(string) (T, error)) (T, error) {
	r.mu.Lock()
	v, ok := r.by[text]
	r.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := parse(text)
	if err != nil {
		return v, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil || len(r.by) >= mostReadings {
		r.by = map[string]T{}
	}
	r.by[strings.Clone(text)] = v // not the program that it stands in
	return v, nil
}
