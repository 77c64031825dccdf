package template

import (
	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// gathered is where blocks of a cluster bring each other their sums of the same outputs: of [Wide] to the
// first block, else those of each side to another block as far as there are so many. Nobody else's
// memory is used, so that a block may end when it has sent its sums and those that it waits for
// have come.
type gathered struct {
	slots build.Value // f32 in shared memory, a part for each block that sends
	came  build.Value // counts the warps that have sent theirs

	// By sides only.
	rank  build.Value // of the block, which is also its part of k
	shape []int       // of a block's sums of a side
}

// gatherBytes is what sums of a cluster take of each block's shared memory.
func (s Schedule) gatherBytes(p *Plan) int {
	if !s.Joint {
		return 0
	}
	return 4 * ceil(s.Sides, s.Splits) * s.Splits * p.Outputs() * s.Warps * s.columns()
}

// Single reports whether blocks multiply one row of x, and nobody wants to have several rows so.
func (s Schedule) Single() bool { return s.Digits || s.Apart || s.Ringed() }

// columns are those of sums that threads have.
func (s Schedule) columns() int {
	if s.Single() {
		return 1
	}
	return max(s.Rows, 8)
}

// owner is the block that adds up sums of the present side.
func (d *decoder) owner() int { return d.side % d.Splits }

// gatherSides makes room for sums of a shape of each side, which so many warps of each block send.
func (d *decoder) gatherSides(rank build.Value, warps int, shape ...int) {
	d.rank, d.shape = rank, shape
	d.allocateGathered(d.Splits, warps, append([]int{ceil(d.Sides, d.Splits), d.Splits}, shape...)...)
}

// allocateGathered makes room for sums that so many warps of so many blocks send. All blocks come to a
// ClusterSynchronize before one sends.
func (d *decoder) allocateGathered(blocks, warps int, shape ...int) {
	d.slots = d.b.AllocateShared("gathered", rowMajor(dtype.F32, shape...))
	d.came = d.b.AllocateBarrier("came", build.Type("shared u64[1] shared_row_major(1)"), build.Count(blocks*warps))
}

// place is where sums of the present side are that a block has sent.
func (d *decoder) place(name string, rank any) build.Value {
	at, dims := []any{d.side / d.Splits, rank}, []any{}
	for i := range d.shape {
		at, dims = append(at, 0), append(dims, i+2)
	}
	return d.b.SliceShared(d.of(name), d.slots, rowMajor(dtype.F32, d.shape...), build.Offset(at...), build.Dims(dims...))
}

// send sends sums of the present side to the block that adds them up.
func (d *decoder) send(total build.Value) {
	d.b.StoreShared(d.place("own_part", d.rank), total, build.Rank(d.owner()))
}

// sent tells those that add up that all sides are sent.
func (d *decoder) sent() {
	for owner := range min(d.Sides, d.Splits) {
		d.b.ArriveBarrier(d.came, 0, build.Rank(owner))
	}
}

// collect adds up, in the order of k, what came to the block, and stores it.
func (d *decoder) collect(of build.Type, store func(build.Value)) {
	b := d.b
	d.each(func() {
		b.If(d.rank.Equal(d.owner()), func() {
			b.WaitBarrier(d.came, 0)
			whole := b.LoadShared(d.of("whole_of"), d.place("part0", 0), of)
			for j := 1; j < d.Splits; j++ {
				whole = b.Add(d.of("whole_of"), whole, b.LoadShared(d.of("p"), d.place(name("part", j), j), of), of)
			}
			store(whole)
		})
	})
}
