package volta

import "fmt"

// Pace is when instructions issue.
type Pace string

const (
	// Measured is the pace of one warp as measured on a Titan V: an instruction
	// issues its latency before the cycle at which it was seen complete, less the
	// drain of the last one. The zero value means it.
	Measured Pace = "measured"
	// Throughput is the pace that the datapath allows where no sum waits for the
	// one before: it issues as soon as the dot-product units take operands again.
	Throughput Pace = "throughput"
)

// Stages of one instruction in cycles, in order. They add up to the latency that
// was measured for the first instruction: 10 with f32 sums and 12 with f16 sums.
// Only the four stages of the units are published; the rest is assumed.
const (
	issueCycles = 1
	readCycles  = 3
	// UnitStages is the depth of a unit's pipeline: one stage multiplies, three add.
	UnitStages  = 4
	writeCycles = 1
)

// Feed is how many cycles an instruction gives rows of A to the units: one row of
// each threadgroup a cycle.
func (s Sums) Feed() int { return 8 / s.Steps() }

// Latency is the cycles from issue to the end of the write.
func (s Sums) Latency() int {
	return issueCycles + readCycles + UnitStages + (s.Feed() - 1) + writeCycles
}

// Meaning says what the numbers of [Cycles] are.
const Meaning = "cycle at which the first n instructions are complete, measured by cutting the sequence after n; not issue times of the whole sequence"

// Formula is [Cycles] as the facts write it: t(n) counts from 1, s is the set.
func Formula(sums Sums) string {
	if sums == F32 {
		return "t(n)=10+2(n-1)+2*floor(n/4)+(6 if n==16 else 0)"
	}
	return "t(2s+1)=12+13s, t(2s+2)=21+13s, +4 on the last"
}

// drain is by how much the last instruction completes later than its issue and
// latency say.
func drain(sums Sums) int {
	if sums == F32 {
		return 6
	}
	return 4
}

// Issues are the cycles at which the instructions issue, and the cycle at which
// everything is complete.
func Issues(sums Sums, pace Pace) (issues []int, total int, err error) {
	done := Cycles(sums)
	for n := range done {
		switch pace {
		case Measured, "":
			at := done[n] - sums.Latency()
			if n == len(done)-1 {
				at -= drain(sums)
			}
			issues = append(issues, at)
			total = done[n]
		case Throughput:
			issues = append(issues, n*sums.Feed())
			total = n*sums.Feed() + sums.Latency()
		default:
			return nil, 0, fmt.Errorf("volta: no pace %q; there are %q and %q", string(pace), string(Measured), string(Throughput))
		}
	}
	return issues, total, nil
}

// Slowdown is by how much wmma takes longer with so many warps on an SM: a warp
// uses both tensor cores of its sub-core, so that up to four do not meet.
func Slowdown(warps int) int { return max(1, (warps+V100Machine.SubCores-1)/V100Machine.SubCores) }

// SlowdownReason says why.
const SlowdownReason = "one warp occupies the two tensor cores of its sub-core"
