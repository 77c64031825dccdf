package dispatch

import (
	"errors"
	"fmt"
	"math/bits"
)

// Makespan is how many ticks a kernel of equal blocks takes that is alone on the
// machine, as a formula: each engine in the kernel's mask works through every
// |E|-th block at the pace of its units, and the slowest engine decides.
//
//	ticks · max over engines e of ⌈ blocks of e / (units of e · blocks of a unit) ⌉
//
// It is a second implementation of what [Run] simulates, and fails for variants
// that have no such formula.
func Makespan(m Machine, k Kernel, o Options) (int, error) {
	m = m.filled()
	if err := m.check(); err != nil {
		return 0, err
	}
	if o.Skip || o.WaveCap || len(k.Times) > 0 || len(k.Waits) > 0 {
		return 0, errors.New("dispatch: there is no formula for skipping, a cap on waves, blocks of unequal times or blocks that wait")
	}
	mask := k.Mask
	if mask == nil {
		mask = m.All()
	}
	if len(mask) != m.Dies*m.SEs {
		return 0, fmt.Errorf("dispatch: a mask of %d shader engines for %d", len(mask), m.Dies*m.SEs)
	}
	// Who gets block i: engine number i div 1 among all, or first a die.
	var dies [][]int // units of each eligible engine
	for d := range m.Dies {
		var in []int
		for s := range m.SEs {
			if n := bits.OnesCount64(mask[d*m.SEs+s] & (1<<m.CUs - 1)); n > 0 {
				in = append(in, n)
			}
		}
		if in == nil {
			continue
		}
		if o.PerDie || dies == nil {
			dies = append(dies, in)
		} else {
			dies[0] = append(dies[0], in...)
		}
	}
	if dies == nil {
		return 0, errors.New("dispatch: the mask allows no compute unit")
	}
	per := m.CU.Threads() / k.Threads
	if o.Resources {
		per = m.CU.Occupancy(k.Threads, k.VGPRs, k.LDS).Blocks
	}
	if per == 0 {
		return 0, errors.New("dispatch: a block does not fit an empty compute unit")
	}
	worst := 0
	for d, engines := range dies {
		ofDie := share(k.Blocks, d, len(dies))
		for j, cus := range engines {
			n := share(ofDie, j, len(engines))
			worst = max(worst, (n+cus*per-1)/(cus*per))
		}
	}
	return k.Ticks * worst, nil
}

// share is how many of n things fall to the i-th of k that take turns.
func share(n, i, k int) int { return (n - i + k - 1) / k }

// Stair is a step of a staircase: the ticks with so many units, in each way of enabling them.
type Stair struct {
	CUs         int `json:"cus"`
	Packed      int `json:"packed"`      // one engine after the other
	Distributed int `json:"distributed"` // engines in turn
	Skip        int `json:"skip"`        // packed, and the dealer may skip
}

// Staircase simulates a kernel alone on 1 to all units of the machine.
func Staircase(m Machine, k Kernel, o Options) ([]Stair, error) {
	m = m.filled()
	var out []Stair
	for n := 1; n <= m.Dies*m.SEs*m.CUs; n++ {
		s, err := StairAt(m, k, o, n)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// StairAt is one step of the staircase.
func StairAt(m Machine, k Kernel, o Options, n int) (Stair, error) {
	s := Stair{CUs: n}
	o.Events = -1
	for _, c := range []struct {
		to   *int
		mask Mask
		skip bool
	}{{&s.Packed, m.Packed(n), false}, {&s.Distributed, m.Distributed(n), false}, {&s.Skip, m.Packed(n), true}} {
		k.Mask, o.Skip = c.mask, c.skip
		r, err := Run(Scenario{Machine: m, Options: o, Queues: []Queue{{Name: "q", Commands: []Command{{Kernel: &k}}}}})
		if err != nil {
			return Stair{}, err
		}
		*c.to = r.Ticks
	}
	return s, nil
}
