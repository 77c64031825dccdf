package tune

import (
	"fmt"
	"math/bits"
	"slices"
)

// Axis is one independent choice of a schedule space: the names of one or more
// tunable numbers that are chosen together, and the rows of values to choose from.
type Axis struct {
	Names []string
	Rows  [][]any
}

// Schedule gives every tunable number of a template its value.
type Schedule map[string]any

// MaxSchedules bounds a schedule space.
const MaxSchedules = 1 << 20

// Span lists the schedules of a space: one row of every axis, all combinations,
// the last axis fastest. A space without axes has one schedule, without names.
func Span(space []Axis) ([]Schedule, error) {
	var names []string
	count := 1
	for _, a := range space {
		if len(a.Names) == 0 {
			return nil, fmt.Errorf("tune: an axis of the schedule space has no name")
		}
		for _, name := range a.Names {
			if name == "" || slices.Contains(names, name) {
				return nil, fmt.Errorf("tune: %q is empty or named twice in the schedule space", name)
			}
			names = append(names, name)
		}
		for _, row := range a.Rows {
			if len(row) != len(a.Names) {
				return nil, fmt.Errorf("tune: a row of %v has %d values", a.Names, len(row))
			}
		}
		if n := len(a.Rows); n == 0 {
			return nil, nil
		} else if count > MaxSchedules/n {
			return nil, fmt.Errorf("tune: the schedule space has more than %d schedules", MaxSchedules)
		}
		count *= len(a.Rows)
	}
	out := make([]Schedule, count)
	for i := range out {
		s := Schedule{}
		at := i
		for k := len(space) - 1; k >= 0; k-- {
			a := space[k]
			for j, name := range a.Names {
				s[name] = a.Rows[at%len(a.Rows)][j]
			}
			at /= len(a.Rows)
		}
		out[i] = s
	}
	return out, nil
}

// divisors are the numbers by which programs are specialised when they divide a
// size: none but 1 so far, so one compiled program serves all sizes.
var divisors = []int64{1}

// Key says which sizes share a tuning record and a compiled program.
type Key struct {
	// Bucket is the size rounded up so that only its two leading bits are set: of
	// the sizes from 2^k to 2^(k+1) there are two buckets.
	Bucket int64
	// Divisor is the largest of the tested divisors that divides the size.
	Divisor int64
}

// KeyOf is the key of a size of a problem, which is not negative.
func KeyOf(size int64) (Key, error) {
	if size < 0 {
		return Key{}, fmt.Errorf("tune: the size %d is negative", size)
	}
	k := Key{Bucket: size}
	for _, d := range divisors {
		if size%d == 0 {
			k.Divisor = max(k.Divisor, d)
		}
	}
	if n := bits.Len64(uint64(size)); n > 2 {
		unit := int64(1) << (n - 2)
		if size > (1<<62)-unit {
			return Key{}, fmt.Errorf("tune: the size %d is too large", size)
		}
		k.Bucket = (size + unit - 1) / unit * unit
	}
	return k, nil
}
