package template

import (
	"fmt"
	"math"
)

// Machine is what the choice of a schedule knows of a GPU, whose multiprocessors
// are SMs for short.
type Machine struct {
	SMs    int
	Warps  int     // of DecodeU4 that the registers of an SM hold
	Ragged int     // the same, where the turns are not shared out evenly: that takes more registers
	Rate   float64 // bytes a µs that an SM gets from memory with enough loads under way
	Turn   float64 // µs of a turn of the loop with few loads under way
	Near   float64 // bytes a µs that an SM gets of x, which is in the L2 cache
	Launch float64 // µs of any launch
	Split  float64 // µs that sums of blocks take to be stored, counted and added
}

// H200 is an NVIDIA H200. Its numbers follow from tests/record: Rate and Launch from
// the read kernel's times over the bytes it reads; Turn from the layers o and down
// where nothing is split, so that 4 warps share an SM; Near from what 8 rows of x
// take more than one, which is in proportion to K on all layers, split or not, but
// not to the partial sums; Split from what is left of the split layers' times.
func H200() Machine {
	return Machine{SMs: 132, Warps: 32, Ragged: 28, Rate: 34300, Turn: 0.8, Near: 58000, Launch: 1.9, Split: 2}
}

// estimate is how many µs DecodeU4 takes on the machine, and whether all its blocks
// run at the same time, as it assumes. o has all fields.
//
// The SM with the most blocks decides. Its loads come at the machine's rate, or at
// one tile for each warp and turn where that is less, with a soft corner between.
// Each SM also fetches all of x once: its blocks come from all parts of k.
func (on Machine) estimate(o DecodeOptions, m, n, k int) (time float64, fits bool) {
	blocks := n / (16 * o.Warps) * o.Splits
	turns := ceil(ceil(k, o.Group), o.Splits*o.Depth)
	most := ceil(blocks, on.SMs)
	warps := float64(most * o.Warps)
	tile := float64(8 * o.Group * o.Depth) // bytes that a warp loads a turn
	rate := math.Pow(math.Pow(warps*tile/on.Turn, -3)+math.Pow(on.Rate, -3), -1.0/3)
	time = on.Launch + warps*float64(turns)*tile/rate
	time += float64(2*m*k) / on.Near
	room := on.Warps
	if o.Splits > 1 {
		time += on.Split
		if k%(o.Group*o.Splits*o.Depth) != 0 {
			room = on.Ragged
		}
	}
	return time, warps <= float64(room)
}

// Choose is o with the splits and warps that a product x[M, K]·w[N, K]ᵀ should have
// on a machine, by [Machine]'s numbers.
//
// Where a layer has fewer warps than the machine holds, k is split if that is
// estimated to be faster, since more loads are under way. All
// blocks of a split product must run at the same time, with two turns of the loop
// each at least; so a block that is late makes no other one wait for room. Of split
// schedules within 3% of the best, one with the most warps a block is taken: fewer
// blocks start and are counted, and their warps read the same x.
func Choose(o DecodeOptions, m, n, k int, on Machine) (DecodeOptions, error) {
	o.Splits, o.Warps = 1, 1
	if err := o.defaults(); err != nil {
		return o, err
	}
	if m < 1 || n < 16 || n%16 != 0 || k < o.Group || k%o.Group != 0 || on.SMs < 1 {
		return o, fmt.Errorf("template: no product [%d, %d]·[%d, %d]ᵀ in groups of %d on %d SMs", m, k, n, k, o.Group, on.SMs)
	}
	whole, _ := on.estimate(o, m, n, k)
	best, least := o, whole
	for warps := 4; warps > 0; warps /= 2 {
		for s := 2; s <= min(MaxSplits, k/o.Group/(2*o.Depth)) && n%(16*warps) == 0; s++ {
			o.Splits, o.Warps = s, warps
			time, fits := on.estimate(o, m, n, k)
			margin := 1.0
			if best.Splits > 1 && warps < best.Warps {
				margin = 0.97
			}
			if fits && time < margin*least {
				best, least = o, time
			}
		}
	}
	return best, nil
}

func ceil(a, b int) int { return (a + b - 1) / b }
