package tune

import (
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// use says what a program does with the bytes behind a pointer parameter.
type use = ir.Effects

const (
	reads  = ir.ReadsGlobal
	writes = ir.WritesGlobal
)

// uses finds what p does with each of its parameters; scalars have none.
func uses(p *ir.Program) []use {
	touched := p.Touched()
	out := make([]use, len(p.Params))
	for i, v := range p.Params {
		out[i] = touched[v]
	}
	return out
}

// rotated chooses the buffers that exist once per set: those that are only read
// and are at least 1/256 of all that is only read. Smaller inputs, such as the
// activations of a decode step, are in the cache in real use too.
func rotated(sizes []int64, use []use) []bool {
	var total int64
	for i, n := range sizes {
		if use[i] == reads {
			total += n
		}
	}
	out := make([]bool, len(sizes))
	for i, n := range sizes {
		out[i] = use[i] == reads && n > 0 && n*256 >= total
	}
	return out
}

// maxSets bounds how many copies there are of small inputs.
const maxSets = 256

// setCount is how many sets of size bytes make a working set of want bytes: at
// least 2, at most maxSets and what fits in free bytes where each takes apart; 1 if nothing rotates.
func setCount(size, apart, want, free int64) int {
	if size <= 0 {
		return 1
	}
	n := (want + size - 1) / size
	return int(max(1, min(max(n, 2), maxSets, free/apart)))
}

// launchCount is how many launches of us microseconds fill a graph of about
// want microseconds: a whole number of rounds over the sets, at least 8 launches
// and at most about 4096.
func launchCount(us, want float64, sets int) int {
	n := 4096
	if us > 0 {
		n = int(min(math.Ceil(want/us), 4096))
	}
	n = max(n, 8)
	return (n + sets - 1) / sets * sets
}

// summary gives median, least and greatest of samples, of which there is one at least.
func summary(samples []float64) (median, least, greatest float64) {
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2, s[0], s[n-1]
}
