// Package memo remembers what texts were read as, for notations of which a program says
// the same few things in most of its lines, and one program what another has said.
package memo

import (
	"strings"
	"sync"
)

// most is how many texts are remembered, about as many as ten long programs have. One more
// forgets them all: what is in use is soon read again, and nobody keeps count of use.
const most = 1000

// Texts are values by their texts, for any number of goroutines. What was read, nothing
// changes.
type Texts[T any] struct {
	mu sync.Mutex
	by map[string]T
}

// Read is what parse makes of a text, or what the text is remembered as. Errors are not
// remembered: they say where the text stands.
func (t *Texts[T]) Read(text string, parse func(string) (T, error)) (T, error) {
	t.mu.Lock()
	v, ok := t.by[text]
	t.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := parse(text)
	if err == nil {
		t.Put(text, v)
	}
	return v, err
}

// Put remembers a value by what was written of it.
func (t *Texts[T]) Put(text string, v T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil || len(t.by) >= most {
		t.by = map[string]T{}
	}
	t.by[strings.Clone(text)] = v // not the program that it stands in
}
