// Package pipeline says when the turns of a loop run that copies tiles ahead into
// stages of shared memory, as the programs matmul_v3 (one stage) and matmul_v4 do.
//
// The model has one number for memory, the cycles from the start of a copy to its
// arrival; copies do not slow each other down. So it shows what stages hide, which
// is latency, and not what they cannot, which is bandwidth.
package pipeline

import "fmt"

// Loop is a loop of turns, each of which multiplies what a copy has brought.
type Loop struct {
	Latency int // cycles from the start of a copy to its arrival
	Work    int // cycles that the products of a turn take
	Stages  int // tiles in shared memory; 1 copies and multiplies in turn
	Turns   int
}

// Turn is when one turn ran, in cycles from the first copy.
type Turn struct {
	Stage   int // that holds its tile
	Copy    int // start of its copy
	Arrival int // of its tile
	Begin   int // of its products
	End     int
	Waited  int // from the end of the turn before, or the start of the loop
}

// Bounds of what is run.
const (
	MaxTurns  = 4096
	MaxStages = 64
	MaxCycles = 1 << 20
)

// Run is all turns in order. The error says which number is out of bounds.
func (l Loop) Run() ([]Turn, error) {
	switch {
	case l.Turns < 1 || l.Turns > MaxTurns:
		return nil, fmt.Errorf("pipeline: %d turns are not between 1 and %d", l.Turns, MaxTurns)
	case l.Stages < 1 || l.Stages > MaxStages:
		return nil, fmt.Errorf("pipeline: %d stages are not between 1 and %d", l.Stages, MaxStages)
	case l.Latency < 0 || l.Latency > MaxCycles || l.Work < 1 || l.Work > MaxCycles:
		return nil, fmt.Errorf("pipeline: %d and %d cycles are not between 0, for products 1, and %d", l.Latency, l.Work, MaxCycles)
	}
	turns := make([]Turn, l.Turns)
	ahead := l.Stages - 1
	now := 0
	for k := range turns {
		// Before the loop all but one stage are filled; then a turn, once its own tile
		// is there, fills the stage that was read in the turn before.
		turns[k].Stage = k % l.Stages
		if ahead == 0 {
			turns[k].Copy, turns[k].Arrival = now, now+l.Latency
		} else if k < ahead {
			turns[k].Arrival = l.Latency
		}
		t := &turns[k]
		t.Begin = max(now, t.Arrival)
		t.Waited = t.Begin - now
		t.End = t.Begin + l.Work
		now = t.End
		if next := k + ahead; ahead > 0 && next < len(turns) {
			turns[next].Copy, turns[next].Arrival = t.Begin, t.Begin+l.Latency
		}
	}
	return turns, nil
}

// Say is a sentence about what a turn takes in the long run: the larger of its
// products and its share of a copy's way.
func (l Loop) Say() string {
	if l.Stages == 1 {
		return fmt.Sprintf("with one stage each turn takes %d + %d cycles", l.Latency, l.Work)
	}
	if ahead := l.Stages - 1; ahead*l.Work >= l.Latency {
		return fmt.Sprintf("a copy of %d cycles hides behind %d turns of %d", l.Latency, ahead, l.Work)
	}
	return fmt.Sprintf("%d turns of %d cycles do not hide a copy of %d: every %d turns wait for %d", l.Stages-1, l.Work, l.Latency, l.Stages-1, l.Latency-(l.Stages-1)*l.Work)
}
