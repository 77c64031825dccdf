// Package shared finds places in shared memory: of tiles, by their life times; of parts
// of tiles; and of what each thread holds of them.
package shared

import (
	"fmt"
	"slices"
)

// Align is the least alignment of a tile in shared memory, in bytes: what
// bulk copies want. Swizzled tiles want the period of their swizzle, up to 1024.
const Align = 128

// Plan places tiles in shared memory, first fit: each at the lowest address
// where it fits, rounded up to its alignment. Memory that is freed is used again.
// The zero value is empty. It places in the order of the program, so a program
// that runs in that order never has two live tiles in one place.
type Plan struct {
	live []placed // by address
	peak int
}

type placed struct {
	name        string
	start, size int
}

// Alloc places size bytes at a multiple of align, which is a power of two; both
// are raised to [Align]. It returns the address.
func (p *Plan) Alloc(name string, size, align int) (int, error) {
	const limit = 1 << 40
	align = max(align, Align)
	switch {
	case size < 0 || size > limit:
		return 0, fmt.Errorf("shared: tile %s has %d bytes", name, size)
	case align&(align-1) != 0 || align > limit:
		return 0, fmt.Errorf("shared: tile %s is aligned to %d, which is no power of two", name, align)
	case slices.ContainsFunc(p.live, func(b placed) bool { return b.name == name }):
		return 0, fmt.Errorf("shared: tile %s is placed already", name)
	}
	up := func(n int) int { return (n + align - 1) &^ (align - 1) }
	size = max(up(size), align)
	start, at := 0, len(p.live)
	for i, b := range p.live {
		if start+size <= b.start {
			at = i
			break
		}
		start = max(start, up(b.start+b.size))
	}
	p.live = slices.Insert(p.live, at, placed{name, start, size})
	p.peak = max(p.peak, start+size)
	return start, nil
}

// Free gives the place of a tile back.
func (p *Plan) Free(name string) error {
	i := slices.IndexFunc(p.live, func(b placed) bool { return b.name == name })
	if i < 0 {
		return fmt.Errorf("shared: tile %s is freed but not placed", name)
	}
	p.live = slices.Delete(p.live, i, i+1)
	return nil
}

// Peak is the number of bytes that all tiles together ever need.
func (p *Plan) Peak() int { return p.peak }
