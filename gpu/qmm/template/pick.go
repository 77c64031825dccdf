package template

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Filled takes defaults for zero fields and checks the others.
func (s Schedule) Filled(p *Plan) (Schedule, error) { return s.fill(p) }

// Workspace is the shape of part and the length of arrived of a schedule without zero
// fields, for which [Schedule.Shares].
func (s Schedule) Workspace(p *Plan, m, n int) (part []int, arrived int) {
	outputs := p.Outputs() * s.Warps * s.Sides
	blocks := ceil(n, outputs)
	if s.Warpgroups {
		return []int{s.Blocks, s.Rows, outputs}, blocks * ceil(m, s.Rows)
	}
	if s.Streams() {
		return []int{s.Blocks, m, outputs}, blocks * ceil(m, s.Rows)
	}
	return []int{s.Splits, m, blocks * outputs}, blocks * ceil(m, s.Rows)
}

// Grid is how many blocks of [Decode] lie along each dimension for m rows of x and n outputs, by a schedule without zero fields.
func (s Schedule) Grid(p *Plan, m, n int) []int {
	if s.Streams() && !s.Joint {
		return []int{s.Blocks}
	}
	grid := []int{ceil(n, p.Outputs()*s.Warps*s.Sides), ceil(m, s.Rows)}
	if s.Splits > 1 || s.Joint {
		grid = append([]int{s.Splits}, grid...)
	}
	return grid
}

// Registers is about how many a thread needs with a schedule without zero fields.
func (p *Plan) Registers(s Schedule) int { return p.registers(s) }

// registers is about how many a thread needs.
func (p *Plan) registers(s Schedule) int {
	p = p.of(s)
	tiles, columns := p.Tiles*s.Sides, max(s.Rows, 8)/8
	if s.Warpgroups {
		return p.gangNeeds(s)
	}
	if s.Digits {
		return 32 + 12*tiles
	}
	if s.Streams() {
		return 44 + tiles*(6+8*columns)
	}
	if s.Ringed() {
		return p.ringRegisters(s)
	}
	if s.Parts > 1 && s.Apart {
		under := tiles*(12*p.Stored.Bits()/5+3+p.applied()) - 3
		if p.Zero {
			under += tiles * p.scales() * 5 / 2
			if s.Depth == 1 {
				under += 8 * tiles
			}
		}
		n := 28 + 4*tiles + s.Depth*under + 5*tiles*max(0, s.Depth-2)
		switch { // sums are scaled in f32, from scales that are cast one by one
		case p.Act != dtype.BF16:
		case p.Scale.Bits() < 16:
			n += 5
		case s.Sides > 1 && s.Depth == 1:
			n += 36
		default:
			n += 13
		}
		return n
	}
	if s.Parts > 1 { // sums twice; weights, scales and x under way
		n := 8 + 8*tiles*columns + s.Depth*(tiles*(5*p.Stored.Bits()+4)/2+16*columns)
		if p.Sub < Turn { // a turn is cut in pieces
			n += 4 * tiles
			if p.Stored.Bits() > 3 { // of which there are more
				n -= 2 * tiles
			}
		}
		if p.Zero && p.Less {
			n += tiles * s.Depth
			if p.Stored.Bits() == 4 && p.applied() == 1 && !p.Rest() { // those of several groups are counted below
				n += 2*tiles*s.Depth + 2
			}
		}
		if p.Stored.Bits() == 2 && s.Sides == 1 { // what ptxas shares between sides
			n += 6
		}
		under := 4 * (p.applied() - 1) // of a tile and turn: scales, zero points and what is left of them
		if under > 0 && p.Less && p.Zero {
			under += 5
		}
		if p.Rest() {
			under += 5
		}
		n += tiles * s.Depth * under
		switch { // scales that operands are multiplied with, and zero points that are taken off these
		case p.Zero && p.scales() > 2, p.Folds && p.scales() > 4, p.Folds && p.Act == dtype.BF16 && p.Stored.Bits() == 8:
			n += n / 2
		case p.Folds && p.Act == dtype.BF16:
			n += n / 4
		case p.Folds:
			n += n / 8
		case p.Rest() && s.Rows > 8:
			n += n / 7
		}
		return n
	}
	side := p.Tiles*s.Rows + 2*(p.Tiles*p.Stored.Bits()+p.Tiles)*s.Depth // sums twice; weights and scales under way
	if p.Shifts() || p.Zero {
		side += p.Tiles * s.Depth
	}
	n := 26 + side*s.Sides + 2*s.Rows*p.dot()/Turn
	if p.Shifts() {
		n += p.Tiles * s.Rows / 2
	}
	return n
}

// What [Plan.Estimate] knows of Hopper beside [Machine], fitted to rows of
// tests/record/qmm_*.json; a test of gpu/qmm holds it to them.
const (
	clock    = 1755     // cycles a µs
	issued   = 4 * 0.58 // instructions a cycle of a multiprocessor, of all warps
	waits    = 0.72     // µs from a load to what it brings
	near     = 39000    // bytes a µs of weights and x that a multiprocessor takes in
	xShare   = 0.41     // of x's bytes, the part that counts as such; others are in the L1 cache
	perScale = 3.8      // instructions for each row of x that a scale is applied to, of a tile
	meet     = 2.6      // µs that blocks of a split take to count themselves
	perPart  = 4.8      // times that a partial sum is moved, in effect
)

// Estimate is how many µs a schedule without zero fields takes on a machine, about; with Joint, but for warps
// along k, without the time that blocks take to meet and what larger clusters wait for room.
//
// The slowest of these decides how long a turn takes: the wait for what is loaded a few
// turns ahead; the instructions of all warps of a multiprocessor; their weights, from
// memory; and all that comes in, x from the caches among it.
func (p *Plan) Estimate(s Schedule, m, n, k int, on Machine) float64 {
	m = max(m, 1)
	if s.Streams() {
		return p.estimateStream(s, m, n, k, on)
	}
	if s.Ringed() {
		return p.estimateRing(s, m, n, k, on)
	}
	if s.Parts > 1 {
		return p.estimateParts(s, m, n, k, on)
	}
	rows := float64(min(m, s.Rows))
	mma := p.Tiles * Turn / 16 * s.Rows / 8 * s.Sides
	if p.Shifts() {
		mma += p.Tiles * Turn / 16 * s.Rows / 8
	}
	instrs := p.perElement()*float64(p.Outputs()*Turn/32*s.Sides) + float64(mma+s.Rows/2) + float64(p.Tiles*s.Sides)*(6+perScale*float64(s.Rows))*float64(p.scales()) + 20
	blocks := ceil(n, p.Outputs()*s.Warps*s.Sides) * ceil(m, s.Rows) * s.Splits
	room := min(64, 65536/32/max(p.registers(s), 32))
	warps := ceil(blocks, on.SMs) * s.Warps // of a multiprocessor, in all
	active := min(warps, max(room/s.Warps, 1)*s.Warps)
	rounds := float64(ceil(warps, active))
	a := float64(active)
	bytes := float64(p.PackedShape(1, 1)[2]*s.Sides) + float64(2*p.Outputs()*s.Sides*p.scales())
	turn := max(waits/float64(s.Depth), a*instrs/(issued*clock), a*bytes/on.Rate, a*(xShare*rows*Turn*2+bytes)/near)
	turns := float64(ceil(ceil(k, Turn), s.Splits*s.Depth) * s.Depth)
	time := on.Launch + 1 + rounds*turns*turn
	if s.Splits > 1 && !s.Joint {
		time += meet + perPart*float64(8*s.Splits*m)*float64(n)/float64(on.SMs)/on.Near
	}
	return time
}

// corner is what limits come to of which the largest decides, alone where others are far below.
func corner(limits ...float64) float64 {
	sum := 0.0
	for _, x := range limits {
		sum += x * x * x * x
	}
	return math.Sqrt(math.Sqrt(sum))
}

// perElement is how many instructions a cast takes for each element.
func (p *Plan) perElement() float64 {
	return p.Recipe.Cost().PerElement()
}

// Casting is how many times as many instructions casts of a float take as those of unsigned integers of its width; 1 for integers.
func (p *Plan) Casting() float64 {
	if !p.Stored.IsFloat() {
		return 1
	}
	unsigned, err := dtype.Parse(fmt.Sprintf("u%d", p.Stored.Bits()))
	if err != nil {
		return 1
	}
	f := p.Form
	f.Weight = unsigned
	plain, err := PlanOf(f)
	if err != nil {
		return 1
	}
	return p.perElement() / plain.perElement()
}

// scaled is 1 where sums of a turn are scaled, and 0 where all are at the end.
func (p *Plan) scaled() float64 {
	if p.summed() == 0 {
		return 0
	}
	return 1
}

// applied is how many scales of a turn each thread applies to sums of an output.
func (p *Plan) applied() int {
	switch {
	case p.Folds:
		return 1
	case p.apart:
		return max(1, p.scales()/4)
	}
	return p.scales()
}

// more is how many scales an output has in a turn beside the first, for each of which threads scale sums.
func (p *Plan) more() float64 { return float64(p.applied() - 1) }

// converting is what conversions of a turn's scales of a tile take, of so much each: those to 16 bits take one
// instruction, which is counted.
func (p *Plan) converting(each float64) float64 {
	if p.Scale.Bits() == 16 {
		return 0
	}
	return p.scaled() * float64(p.applied()) * each
}

// taking is how many instructions more an element takes where zero points are taken off codes, what is left of
// them, or all, off sums, or scales are folded.
func (p *Plan) taking(less, rest, fold float64) float64 {
	n := 0.0
	if p.Zero && p.Less {
		n += less
	}
	if p.Zero && p.Rounded && (p.AnyZero || p.Act == dtype.BF16) { // f16 have whole ones taken off with what masks leave
		n += 0.5
	}
	if p.Rest() {
		n += rest
	}
	if p.LessBias && p.Act == dtype.BF16 && !p.Folds { // f16 have it taken off with what masks leave
		n += 0.5
	}
	if p.Folds {
		scale := foldScale
		if p.Scale.Bits() == 16 {
			scale *= foldPlain
		}
		n += fold * (0.5 + scale*float64(p.scales())/(Turn/2))
		if p.Raise != 0 {
			n += 0.5
		}
	}
	return n
}

// blocksOf is how many blocks a schedule with Parts has, and how many of them fit a
// multiprocessor.
func (p *Plan) blocksOf(s Schedule, m, n int) (blocks, fit int) {
	blocks = ceil(n, p.Outputs()*s.Sides) * ceil(m, s.Rows) * s.Splits
	return blocks, min(32, 64/s.Parts, max(s.Resident, 65536/32/s.Parts/min(max((p.registers(s)+7)&^7, 32), 256)))
}

// putCount is [meetRates]' count in µs where sums are put for the block that adds them up.
const putCount = 0.78

// estimateParts is Estimate for warps that share k. Blocks of a launch go where there is
// room, so that multiprocessors have more or fewer of them unless the launch takes all of
// it; where it takes more, the last blocks begin when others have ended.
func (p *Plan) estimateParts(s Schedule, m, n, k int, on Machine) float64 {
	p = p.of(s)
	of := ratesOf(partsBy, s.Rows)
	blocks, fit := p.blocksOf(s, m, n)
	columns, tiles := float64(max(s.Rows, 8))/8, float64(p.Tiles*s.Sides)
	elements := float64(p.Outputs() * Turn / 32 * s.Sides)
	mma := elements / 8 * columns
	if p.Shifts() {
		mma *= 1 + 1/tiles
	}
	instrs := of.turn + (p.perElement()+p.taking(of.less, of.rest, of.fold))*elements + of.mma*mma
	if p.Folds {
		instrs += foldLoad * float64(p.Tiles*s.Sides*p.scales())
	}
	chain, met := instrs, 1.0
	if p.apart {
		instrs += partsApart
		chain, met = apartChain*instrs, apartMeet
	} else {
		again := of.again * tiles * (1 + columns) * math.Pow(p.more(), partsMore)
		instrs += of.scale * tiles * columns * p.scaled()
		chain = instrs + partsChain*again
		instrs += again
	}
	bytes := float64(p.PackedShape(1, 1)[2]*s.Sides) + float64(2*p.Outputs()*s.Sides*p.scales())
	x := of.x * float64(min(m, s.Rows)*Turn*2)
	turns := float64(ceil(k, Turn)) / float64(s.Splits)
	rounds := float64(ceil(ceil(ceil(k, Turn), s.Splits*s.Parts), s.Depth))
	if s.Resident > 0 {
		chain *= 1 + partsSqueeze*max(0, float64(p.registers(s)*s.Resident*s.Parts*32)/65536-1)
	}
	block := of.block + met*(of.meet*tiles*columns+partsJoin*float64(s.Parts)) + rounds*(of.wait+float64(s.Depth)*chain/(of.alone*clock))
	// of so many blocks of a multiprocessor at a time, and the most that one has
	wave := func(n, most float64) float64 {
		return corner(n*turns*bytes/on.Rate, most*turns*instrs/(of.issued*clock), most*turns*(x+bytes)/of.near, block)
	}
	room := float64(max(fit, 1))
	waves, last := math.Modf(float64(blocks) / float64(on.SMs) / room)
	last *= room
	time := of.fixed + waves*wave(room, room)
	if last > 0 {
		time += wave(last, last+of.crowded*min(last, room-last))
	}
	if p.Stored.Bits() == 2 && s.Parts == 4 && s.Splits == 1 && s.Depth <= 2 {
		time *= of.narrow
	}
	if s.Splits > 1 {
		meet := of.split
		if s.Joint {
			meet = of.joint
		} else if s.Direct {
			meet.count = putCount
		}
		time += meet.count + meet.moved*float64(8*s.Splits*m)*float64(n)/float64(on.SMs)/on.Near
	}
	return time
}

// estimateStream is Estimate for blocks that stay.
func (p *Plan) estimateStream(s Schedule, m, n, k int, on Machine) float64 {
	p = p.of(s)
	d := &stream{decoder: &decoder{Plan: p, Schedule: s}}
	rows, tiles, columns := float64(min(m, s.Rows)), float64(p.Tiles*s.Sides), float64(max(s.Rows, 8))/8
	outputs := ceil(n, d.many()) * ceil(m, s.Rows)
	turns := 0 // of a block, or of those behind each other on a multiprocessor
	if s.Joint {
		turns = ceil(ceil(k, Turn), s.Splits) * ceil(outputs*s.Splits, on.SMs)
	} else {
		turns = ceil(outputs*ceil(k, Turn), s.Blocks)
	}
	elements := float64(p.Outputs() * Turn / 32 * s.Sides)
	mma := elements / 8 * columns
	if p.Shifts() {
		mma *= 1 + 1/tiles
	}
	of := ratesOf(streamBy, s.Rows)
	var together, alone float64 // cycles of all warps for a turn, and of one
	switch {
	case s.Warpgroups && s.Fixed:
		of = gangRates
		together = float64(s.Warps/4)*tiles*fixedTile + fixedTurn
	case s.Warpgroups:
		of = gangRates
		cast := p.perElement() * 16 * Turn / 32
		more := 1 + gangMore*(float64(s.Stages)/4-1)
		cast += p.taking(0, 0, gangFold) * 16 * Turn / 32
		scales := of.again*p.more() + p.converting(of.convert)
		together, alone = more*float64(s.Warps/4)*tiles*(gangTile+scales/2), more*tiles*(gangAlone+gangChain*cast+scales)
	case s.Digits:
		var each, scale float64 = bytewise, digitsScale
		if s.Fixed || s.Long {
			each, scale = fixedwise, longScale
		}
		of.fixed = digitsFixed
		if s.Long {
			of.fixed, of.block = longFixed, longBlock
		}
		instrs := each*elements + of.mma*mma/2 + scale*tiles*float64(p.scales())
		together, alone = float64(s.Warps)*instrs/of.issued, digitsWait/float64(s.Depth)+instrs/digitsAlone
	default:
		instrs := of.turn + (p.perElement()+p.taking(of.less, of.rest, of.fold))*elements + of.mma*mma
		if !p.apart {
			instrs += tiles*(1+columns)*(of.scale*p.scaled()+of.again*p.more()) + tiles*p.converting(of.convert)
		}
		instrs *= max(1, float64(p.registers(s))/float64(s.room(p))) // some wait in memory
		if (p.scales() > 1 || p.Group == 0) && !p.apart {
			instrs *= 1 + of.stages*(float64(s.Stages)/4-1)
		}
		together, alone = float64(s.Warps)*instrs/of.issued, of.wait/float64(s.Depth)+instrs/of.alone+of.chain*p.more()
	}
	bytes := float64(d.bytes()) - float64(s.Rows*Turn*2) + of.x*rows*Turn*2
	time := of.fixed + float64(turns)*corner(bytes/on.Rate, together/clock, alone/clock, of.ring/float64(s.Stages))
	if s.Early > 0 {
		time *= earlyAll
	}
	if turns < ceil(k, Turn) && !s.Joint {
		time += float64(ceil(ceil(k, Turn), turns)) * (of.block + 4*float64(d.many())*rows/of.part)
	}
	return time
}

// extra is how many warps blocks have beside those that multiply, which bring what these need.
func (s Schedule) extra() int {
	switch {
	case s.Ringed():
		return 1
	case !s.Streams():
		return 0
	case s.Warpgroups:
		return 4
	case s.Digits:
		return 2
	}
	return 1
}

// shared is how many blocks that stay shared memory has room for.
func (s Schedule) shared(p *Plan) int {
	return (maxShared + 512) / (s.SharedBytes(p) + 1536)
}

// room is how many registers ptxas gives threads of blocks that stay: so many that as many
// blocks fit as shared memory has room for, where these are two or three, but 96 at least.
func (s Schedule) room(p *Plan) int {
	of := func(blocks int) int { return min(255, 65536/32/(ceil(blocks*(s.Warps+s.extra()), 4)*4)/8*8) }
	if n := s.shared(p); n == 2 || n == 3 {
		return min(of(1), max(96, of(n)))
	}
	return of(1)
}

// Fits reports whether a product can have a schedule on a machine: its registers suffice,
// and blocks that wait for each other run at the same time.
func (s Schedule) Fits(p *Plan, m, n, k int, on Machine) bool {
	regs := p.registers(s)
	if s.Warpgroups {
		return s.Takes(p, n, k) && regs <= s.gangRegisters()+16 && s.Blocks <= on.SMs
	}
	if s.Streams() {
		return s.Takes(p, n, k) && regs <= s.room(p) && s.Blocks <= on.SMs
	}
	if s.Ringed() {
		s.Resident = 0 // whatever ptxas is told
		return s.Takes(p, n, k) && ceil(k, Turn) >= s.Splits*s.Parts && regs <= 255 && p.ringFit(s) > 0
	}
	if s.Parts > 1 {
		_, fit := p.blocksOf(s, m, n)
		return s.Takes(p, n, k) && p.Tiles*s.Sides*s.Rows <= 64 && regs <= 255 && fit > 0 // with more sums none was timed
	}
	blocks := ceil(n, p.Outputs()*s.Warps*s.Sides) * ceil(m, s.Rows) * s.Splits
	late := s.Splits > 1 && !s.Joint && ceil(blocks, on.SMs)*s.Warps > min(64, 65536/32/max(regs, 32)) // would keep others waiting
	return regs <= 240 && !late && (s.Splits == 1 || ceil(k, Turn) >= 2*s.Splits*s.Depth)
}

// Candidates are the schedules that a product x[M, K]·w[N, K]ᵀ might take on a machine:
// those whose registers and blocks fit, in the order of [Plan.Rank]. Where m is less than 1
// they are those of one row, as everything that asks for estimates has it.
func Candidates(p *Plan, m, n, k int, on Machine) []Schedule {
	type rated struct {
		Schedule
		time float64
	}
	var all []rated
	rows := 8
	for rows < m && rows < 32 {
		rows *= 2
	}
	for _, s := range p.spans(rows, on.SMs) {
		// Blocks that stay, or whose warps share k, do better than those that do neither, which
		// are for where copies cannot be made.
		s.Direct, s.Early, s.Resident = p.direct(s, m, n), p.earlyTurns(s), p.residents(s, m, n, on)
		plain := s.Stages == 0 && s.Parts <= 1 && k%8 == 0
		if s.Fits(p, m, n, k, on) && !plain && !(s.Single() && m > 1) {
			all = append(all, rated{s, p.Rank(s, m, n, k, on)})
		}
	}
	slices.SortStableFunc(all, func(x, y rated) int { return cmp.Compare(math.Round(x.time*20), math.Round(y.time*20)) })
	out := make([]Schedule, len(all))
	for i, r := range all {
		out[i] = r.Schedule
	}
	return out
}

// direct reports whether sums of blocks meet sooner as [Schedule.Direct] has it: of blocks that stay where an output has few parts, of which
// the one block that adds up asks for all at once; where it has many, reading each of them again until the last is there takes longer.
func (p *Plan) direct(s Schedule, m, n int) bool {
	switch {
	case s.Joint:
		return false
	case !s.Streams():
		return s.Splits > 1 && s.Parts > 1
	}
	outputs := p.Outputs() * s.Warps
	parts := s.Blocks / max(1, ceil(n, outputs*s.Sides)*ceil(m, s.Rows))
	return parts <= 4 || parts <= 8 && s.Single() && outputs <= 32*s.Warps // a number of each part to a thread; both bounds from times (DECODE.md)
}

// residents are [Schedule.Resident] of warps along k: where all blocks of a launch fit the machine with about as many registers as threads
// are estimated to need, ptxas is told so. It takes what it likes up to the next step else, and a launch that then does not fit takes twice
// as long. What several scales of a turn take beside bf16 or wide codes is not estimated closely enough: some of a thread would go to memory.
func (p *Plan) residents(s Schedule, m, n int, on Machine) int {
	if s.Ringed() {
		return p.ringResidents(s, m, n, on)
	}
	if s.Parts <= 1 || p.scales() > 1 && (p.Act != dtype.F16 || p.Stored.Bits() > 4) {
		return 0
	}
	blocks, _ := p.blocksOf(s, max(m, 1), n)
	each := ceil(blocks, on.SMs)
	room := 65536 / 32 / s.Parts / each / 8 * 8 // of a thread
	need := p.registers(s)
	if room > 248 || 20*need < 17*room || 16*need > 17*room {
		return 0
	}
	return each
}

// earlyTurns are [Schedule.Early] of blocks that stay and multiply up to 16 rows. With four stages three are as fast as all or up to 4% faster; with
// eight so are three where codes have few bits, of which multiplying takes longer than memory brings them; of others all are (DECODE.md).
func (p *Plan) earlyTurns(s Schedule) int {
	if s.Ringed() {
		return p.ringEarly(s)
	}
	if s.Rows <= 16 && (s.Stages == 4 || s.Stages > 4 && p.Stored.Bits() <= 3) {
		return 3
	}
	return 0
}

// spans are all schedules for that many rows, small ones first, with so many blocks where
// they stay. Stages are 4 and 8, of which the better is mostly as good as any other number (DECODE.md).
func (p *Plan) spans(rows, blocks int) []Schedule {
	var out []Schedule
	for _, depth := range []int{2, 1, 3} {
		for _, warps := range []int{1, 4, 2} {
			for _, sides := range []int{1, 2, 4} {
				for _, splits := range []int{1, 2, 3, 4, 6, 8, 12, 16, 32} {
					if sides*warps <= MaxWarps {
						out = append(out, Schedule{Rows: rows, Depth: depth, Warps: warps, Sides: sides, Splits: splits, PDL: true})
					}
				}
			}
		}
	}
	apart := rows == 8 && p.scales() > 1 && !p.Shifts()
	for _, parts := range []int{4, 8} {
		for _, depth := range []int{1, 2, 3, 4} {
			for _, sides := range []int{1, 2} {
				for splits := 1; splits <= 4 && splits*parts <= 16; splits++ {
					s := Schedule{Rows: rows, Depth: depth, Warps: 1, Sides: sides, Splits: splits, Parts: parts, PDL: true}
					if apart {
						a := s
						a.Rows, a.Apart, a.Joint = 1, true, splits == 2
						out = append(out, a)
					}
					// Clusters of two find room everywhere; larger ones leave multiprocessors without work.
					if s.Joint = splits == 2; s.Joint {
						out = append(out, s)
						s.Joint = false
					}
					out = append(out, s)
				}
			}
		}
	}
	if rows == 8 {
		out = append(out, p.ringSpans()...)
	}
	for _, warps := range []int{8, 4, 16} {
		for _, sides := range []int{1, 2, 4} {
			for _, stages := range []int{4, 8} {
				s := Schedule{Rows: rows, Depth: 1, Warps: warps, Sides: sides, Splits: 1, PDL: true, Stages: stages, Blocks: blocks}
				out = append(out, s)
				if apart {
					a := s
					a.Rows, a.Apart = 1, true
					out = append(out, a)
				}
				if s.Rows == 8 && p.Bytewise() && p.Stored.Bits() <= 2 {
					d := s
					d.Rows, d.Depth, d.Digits, d.Long = 1, longTurns, true, true // but not Fixed, which rounds x
					out = append(out, d)
				}
				// Where tiles do not go one by one, a cast is beside nothing, which only costs
				// nothing where memory takes longer. With 8 rows none was timed.
				if s.Fine = p.fills(WideSchedule{Sides: sides}) == nil; s.Rows == 16 && (s.Fine || p.Stored.Bits() >= 6) {
					s.Warpgroups = true // but not Fixed, which rounds x
					out = append(out, s)
				}
			}
		}
	}
	return out
}

// Pick is the schedule of a product on a machine, for any form and size: [Plan.Prefer] of
// its [Candidates].
func Pick(p *Plan, m, n, k int, on Machine) Schedule {
	if all := Candidates(p, m, n, k, on); len(all) > 0 {
		return p.Prefer(all, m, n, k, on)
	}
	return p.least()
}

// Prefer is one of some schedules of a product: of those of the least [Plan.Rank], which
// it cannot tell apart, one whose code is quick to make.
func (p *Plan) Prefer(all []Schedule, m, n, k int, on Machine) Schedule {
	best, least := all[0], math.Inf(1)
	for _, s := range all {
		if us := p.Rank(s, m, n, k, on); us < least {
			best, least = s, us
		}
	}
	near := alike
	if p.Code(best) > long {
		near = alikeLong
	}
	for _, s := range all {
		if p.Rank(s, m, n, k, on) <= near*least && float64(p.Code(s)) < shorter*float64(p.Code(best)) {
			best = s
		}
	}
	return best
}

// What Prefer weighs: by how much the model is wrong at least, and how much less code is worth
// another schedule.
const (
	alike     = 1.04
	alikeLong = 1.1 // the same, where the code is so long that the first product waits
	long      = 1600
	shorter   = 0.8
)

// Code is about how many instructions the program of a schedule without zero fields has,
// on which it depends how long a driver takes to make machine code of it: some 15 a
// millisecond.
func (p *Plan) Code(s Schedule) int {
	tiles := p.Tiles * s.Sides // of 16 outputs, of a turn
	turns := s.Depth           // that the text has
	switch {
	case s.Streams() && s.Depth > 1 || s.Fine && !s.Once: // those that are left over go one by one, or the last one
		turns++
	case s.Splits > 1 && s.Parts <= 1: // the last ones load nothing
		turns *= 2
	}
	columns := max(s.Rows, 8) / 8
	if s.Brief {
		tiles = ceil(tiles*p.Sub, Turn)
	}
	fixed := 300
	switch {
	case s.Stages > 0:
		fixed = 500
	case s.Splits > 1:
		fixed += (s.Splits + 1) * tiles * 32 * columns // sums that blocks store and the last one adds up
	}
	if p.Shifts() {
		columns *= 2
	}
	each := int(64*p.perElement()) + 40*columns + 40
	if s.Digits {
		each = 60 // four codes by one mask
	}
	return fixed + turns*tiles*each
}

// Plain reports whether programs of a schedule run on GPUs without tensor copies and clusters too; launches of
// them need no tensor maps.
func (s Schedule) Plain() bool { return s.Stages == 0 && !s.Joint }

// PickPlain is [Pick] among the schedules that are [Schedule.Plain], whose blocks count their sums, and with which ptxas is told nothing.
func PickPlain(p *Plan, m, n, k int, on Machine) Schedule {
	rows := 8
	for rows < m && rows < 32 {
		rows *= 2
	}
	best, least := Schedule{}, math.Inf(1)
	for _, s := range p.spans(rows, on.SMs) {
		if s.Single() && m > 1 || !s.Plain() || !s.Fits(p, m, n, k, on) {
			continue
		}
		if us := p.Estimate(s, m, n, k, on); us < least {
			best, least = s, us
		}
	}
	if best.Rows == 0 {
		return p.least()
	}
	return best
}

// least is the schedule that takes the fewest registers.
func (p *Plan) least() Schedule { return p.filled(Schedule{Rows: 8, Depth: 1, PDL: true}) }

// Soon is the schedule of which a driver makes machine code in the least time: the same for all
// sizes and numbers of rows, of which blocks multiply 8 each.
func (p *Plan) Soon() Schedule { return p.filled(Schedule{Rows: 8, Depth: 1, PDL: true, Brief: true}) }

// filled is fill of a schedule that any plan has.
func (p *Plan) filled(s Schedule) Schedule {
	s, err := s.fill(p)
	if err != nil {
		panic(err) // it is in range
	}
	return s
}
