package template

import (
	"cmp"
	"math"
	"slices"
)

// Filled takes defaults for zero fields and checks the others.
func (s Schedule) Filled(p *Plan) (Schedule, error) { return s.fill(p) }

// Workspace is the shape of part and the length of arrived of a schedule without zero
// fields, for which [Schedule.Shares].
func (s Schedule) Workspace(p *Plan, m, n int) (part []int, arrived int) {
	outputs := p.Outputs() * s.Warps * s.Sides
	blocks := ceil(n, outputs)
	if s.Warpgroups {
		return []int{2 * s.Blocks, s.Rows, outputs}, blocks * ceil(m, s.Rows)
	}
	if s.Streams() {
		return []int{2 * s.Blocks, m, outputs}, blocks * ceil(m, s.Rows)
	}
	return []int{s.Splits, m, blocks * outputs}, blocks * ceil(m, s.Rows)
}

// Registers is about how many a thread needs with a schedule without zero fields.
func (p *Plan) Registers(s Schedule) int { return p.registers(s) }

// registers is about how many a thread needs.
func (p *Plan) registers(s Schedule) int {
	if s.Warpgroups {
		return p.gangNeeds(s)
	}
	if s.Streams() {
		return 32 + p.Tiles*s.Sides*(6+max(s.Rows, 8)/2*3/2)
	}
	if s.Parts > 1 {
		return 8 + 14*p.Tiles*s.Sides*s.Rows/8 + s.Depth*(2*p.Stored.Bits()*p.Tiles*s.Sides+p.Tiles*s.Sides+2*s.Rows)
	}
	side := p.Tiles*s.Rows + 2*(p.Tiles*p.Stored.Bits()+p.Tiles)*s.Depth // sums twice; weights and scales under way
	if p.Bias > 0 || p.Zero {
		side += p.Tiles * s.Depth
	}
	n := 26 + side*s.Sides + 2*s.Rows*p.dot()/Turn
	if p.Bias > 0 || p.Zero {
		n += p.Tiles * s.Rows / 2
	}
	return n
}

// What [Plan.Estimate] knows of Hopper beside [Machine], fitted to the 56 rows of
// tests/record/qmm_*.json, within 10% on average; a test of gpu/qmm holds it to them.
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

// Estimate is how many µs a schedule without zero fields takes on a machine, about.
//
// The slowest of these decides how long a turn takes: the wait for what is loaded a few
// turns ahead; the instructions of all warps of a multiprocessor; their weights, from
// memory; and all that comes in, x from the caches among it.
func (p *Plan) Estimate(s Schedule, m, n, k int, on Machine) float64 {
	if s.Streams() {
		return p.estimateStream(s, m, n, k, on)
	}
	if s.Parts > 1 {
		return p.estimateParts(s, m, n, k, on)
	}
	rows := float64(min(m, s.Rows))
	mma := p.Tiles * Turn / 16 * s.Rows / 8 * s.Sides
	if p.Bias > 0 || p.Zero {
		mma += p.Tiles * Turn / 16 * s.Rows / 8
	}
	perElement := 4.0 // cast one by one
	if p.Recipe != nil {
		perElement = p.Recipe.Cost().PerElement()
	}
	instrs := perElement*float64(p.Outputs()*Turn/32*s.Sides) + float64(mma+s.Rows/2) + float64(p.Tiles*s.Sides)*(6+perScale*float64(s.Rows))*float64(p.scales()) + 20
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
	if s.Splits > 1 {
		time += meet + perPart*float64(8*s.Splits*m)*float64(n)/float64(on.SMs)/on.Near
	}
	return time
}

// What [Plan.Estimate] knows of warps that share k, fitted likewise.
const (
	partsFixed  = 2.4      // µs of a launch, of which those beside it hide the rest
	partsIssued = 4 * 0.33 // instructions a cycle
	perWarp     = 0.31     // instructions a cycle of one warp
	partsWait   = 0.96     // µs from a load to what it brings, and of what depends on it
	crowded     = 0.45     // of the places for blocks that a launch leaves free, what multiprocessors with more blocks lose
	late        = 2.3      // µs for each time more that blocks of a split are handed out
	lastWave    = 0.9      // blocks more of the fullest multiprocessor, where few are left for the last time that they are handed out
)

// blocksOf is how many blocks a schedule without stages has, and how many of them fit a
// multiprocessor.
func (p *Plan) blocksOf(s Schedule, m, n int) (blocks, fit int) {
	blocks = ceil(n, p.Outputs()*s.Warps*s.Sides) * ceil(m, s.Rows) * s.Splits
	warps := s.Warps * max(s.Parts, 1)
	return blocks, min(32, 64/warps, 65536/32/warps/max((p.registers(s)+7)&^7, 32))
}

// estimateParts is Estimate for warps that share k. Blocks of a launch go where there is
// room, so that multiprocessors have more or fewer of them unless the launch takes all of it.
func (p *Plan) estimateParts(s Schedule, m, n, k int, on Machine) float64 {
	blocks, fit := p.blocksOf(s, m, n)
	fit = max(fit, 1)
	perElement := 4.0 // cast one by one
	if p.Recipe != nil {
		perElement = p.Recipe.Cost().PerElement()
	}
	columns := float64(s.Rows) / 8
	elements := float64(p.Outputs() * Turn / 32 * s.Sides)
	mma := elements / 8 * columns
	if p.Bias > 0 || p.Zero {
		mma *= 1 + 1/float64(p.Tiles*s.Sides)
	}
	instrs := 3 + perElement*elements + mma + float64(p.Tiles*s.Sides*p.scales())*(8+4*columns)
	bytes := float64(p.PackedShape(1, 1)[2]*s.Sides) + float64(2*p.Outputs()*s.Sides*p.scales())
	turns := float64(ceil(k, Turn)) / float64(s.Splits)
	rounds := float64(ceil(ceil(ceil(k, Turn), s.Splits*s.Parts), s.Depth))
	avg := float64(blocks) / float64(on.SMs)
	waves := avg / float64(fit)
	active := min(avg, float64(fit)) * float64(s.Parts)
	// Of a launch that leaves room, the fullest multiprocessor has more than its share.
	most := avg
	if waves < 1 {
		most = avg + crowded*(float64(fit)-avg)
	} else if w := math.Ceil(waves); waves < 3 {
		most = avg + lastWave*(w-waves)
	}
	x := xShare * float64(min(m, s.Rows)) * Turn * 2
	turn := max(bytes/on.Rate, instrs/(min(partsIssued, perWarp*active)*clock), (x+bytes)/near)
	latency := math.Max(waves, 1) * (rounds + 1) * partsWait
	time := partsFixed + max(most*turns*turn, latency)
	if s.Splits > 1 {
		time += perPart*float64(8*s.Splits*m)*float64(n)/float64(on.SMs)/on.Near + late*math.Max(waves-1, 0)
	}
	return time
}

// What [Plan.Estimate] knows of blocks that stay, fitted likewise.
const (
	streamFixed = 5        // µs of a launch, of which those beside it hide the rest
	streamed    = 4 * 0.55 // instructions a cycle
	perTurn     = 40       // instructions of a warp's turn, whatever it multiplies
	perMMA      = 3        // instructions that a matrix instruction is worth
	bytewise    = 0.35     // instructions for each element that is multiplied as bytes
	fixedwise   = 0.3      // the same, with digits of 16 bits
	streamX     = 0.3      // of x's bytes, which come from the L2 cache
	perBlock    = 0.25     // µs for each block that comes to the same outputs
	partRate    = 27000    // bytes a µs of their sums, which the last one reads
	ringWait    = 1.6      // µs from a free stage to a full one, with all multiprocessors at it
)

// enough warps of a multiprocessor hide what each waits for, without shared memory.
const enough = 16

// estimateStream is Estimate for blocks that stay.
func (p *Plan) estimateStream(s Schedule, m, n, k int, on Machine) float64 {
	d := &stream{decoder: &decoder{Plan: p, Schedule: s}}
	turns := ceil(n, d.many()) * ceil(m, s.Rows) * ceil(k, Turn)
	most := float64(ceil(turns, s.Blocks) * ceil(s.Blocks, on.SMs))
	columns := float64(max(s.Rows, 8)) / 8
	elements := float64(p.Outputs() * Turn / 32 * s.Sides)
	mma, perElement := elements/8, 4.0
	switch {
	case s.Digits:
		mma, perElement = elements/16, bytewise
		if s.Fixed || s.Long {
			perElement = fixedwise
		}
	case p.Recipe != nil:
		perElement = p.Recipe.Cost().PerElement()
	}
	if p.Bias > 0 || p.Zero {
		mma *= 1 + 1/float64(p.Tiles*s.Sides)
	}
	instrs := perTurn + perElement*elements + (perMMA*mma+4)*columns + float64(p.Tiles*s.Sides*p.scales())*(6+4*columns)
	x := float64(s.Rows * Turn * 2)
	bytes := float64(d.bytes()) - x + streamX*x*float64(min(m, s.Rows))/float64(s.Rows)
	meet := 0.0
	if per := ceil(turns, s.Blocks); per < ceil(k, Turn) {
		sharing := float64(ceil(ceil(k, Turn), per))
		meet = sharing * (perBlock + float64(4*d.many()*min(m, s.Rows))/partRate)
	}
	cycles := float64(s.Warps) * instrs / streamed
	if s.Warpgroups {
		cycles = float64(s.Warps/4*s.Sides) * p.gangCycles(s)
		if s.Fixed {
			cycles += fixedTurn
		}
	}
	rate := min(on.Rate, bytes*float64(s.Stages)*math.Max(1, float64(s.Blocks)/float64(on.SMs))/ringWait)
	return streamFixed + meet + most*max(bytes/rate, cycles/clock)
}

// What [Plan.Estimate] knows of warpgroups, fitted to a few schedules of 1 to 4 bits: cycles
// that 64 outputs of a turn take, and what x as whole numbers takes for each turn.
const (
	gangTile  = 220
	gangAlone = 80 // more, where a warp has no other tile to cast meanwhile
	fixedTile = 165
	fixedTurn = 600
)

// gangCycles is what all outputs of a warpgroup and side take of a turn.
func (p *Plan) gangCycles(s Schedule) float64 {
	switch {
	case s.Fixed:
		return float64(fixedTile * p.Tiles)
	case p.Tiles == 1:
		return gangTile + gangAlone
	}
	return float64(gangTile * p.Tiles)
}

// together is how many warps of a schedule without stages run on a multiprocessor.
func (p *Plan) together(s Schedule, m, n int, on Machine) int {
	blocks := ceil(n, p.Outputs()*s.Warps*s.Sides) * ceil(m, s.Rows) * s.Splits
	room := min(64, 65536/32/max(p.registers(s), 32))
	return min(ceil(blocks, on.SMs), room/s.Warps) * s.Warps
}

// Fits reports whether a product can have a schedule on a machine: its registers suffice,
// and blocks that wait for each other run at the same time.
func (s Schedule) Fits(p *Plan, m, n, k int, on Machine) bool {
	regs := p.registers(s)
	if s.Warpgroups {
		return s.Takes(p, n, k) && regs <= s.gangRegisters()+16 && s.Blocks <= on.SMs
	}
	if s.Streams() {
		return s.Takes(p, n, k) && regs <= 180 && regs*32*(s.Warps+2) <= 65536 && s.Blocks <= on.SMs
	}
	if s.Parts > 1 {
		_, fit := p.blocksOf(s, m, n)
		return s.Takes(p, n, k) && regs <= 240 && fit > 0
	}
	blocks := ceil(n, p.Outputs()*s.Warps*s.Sides) * ceil(m, s.Rows) * s.Splits
	late := s.Splits > 1 && ceil(blocks, on.SMs)*s.Warps > min(64, 65536/32/max(regs, 32)) // would keep others waiting
	return regs <= 240 && !late && (s.Splits == 1 || ceil(k, Turn) >= 2*s.Splits*s.Depth)
}

// Candidates are the schedules that a product x[M, K]·w[N, K]ᵀ might take on a machine:
// those whose registers and blocks fit, in the order of [Plan.Estimate].
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
	for _, s := range spans(rows, on.SMs) {
		// With few warps on a multiprocessor, blocks that stay do better; with one row of x
		// that can be written in digits, these do; warpgroups are for several.
		few := !s.Streams() && s.Parts <= 1 && k%8 == 0 && p.together(s, m, n, on) < enough
		if s.Fits(p, m, n, k, on) && !few && (!s.Streams() || s.Digits == (m == 1 && p.Bytewise())) && !(s.Warpgroups && m == 1) {
			all = append(all, rated{s, p.Estimate(s, m, n, k, on)})
		}
	}
	slices.SortStableFunc(all, func(x, y rated) int { return cmp.Compare(math.Round(x.time*20), math.Round(y.time*20)) })
	out := make([]Schedule, len(all))
	for i, r := range all {
		out[i] = r.Schedule
	}
	return out
}

// spans are all schedules for that many rows, small ones first, with so many blocks where
// they stay.
func spans(rows, blocks int) []Schedule {
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
	for _, parts := range []int{4, 8, 16} {
		for _, depth := range []int{1, 2, 3, 4} {
			for _, sides := range []int{1, 2} {
				for splits := 1; splits*parts <= 16 && splits <= 4; splits *= 2 {
					out = append(out, Schedule{Rows: rows, Depth: depth, Warps: 1, Sides: sides, Splits: splits, Parts: parts, PDL: true})
				}
			}
		}
	}
	for _, warps := range []int{8, 4, 16} {
		for _, sides := range []int{1, 2, 4} {
			for _, stages := range []int{8, 4, 16} {
				s := Schedule{Rows: rows, Depth: 1, Warps: warps, Sides: sides, Splits: 1, PDL: true, Stages: stages, Blocks: blocks}
				out = append(out, s)
				if s.Rows == 8 {
					d := s
					d.Rows, d.Digits = 1, true
					out = append(out, d) // but not Fixed, which rounds x, nor Long, which no table has times of
				}
				if s.Rows <= 16 && s.Stages <= 8 {
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

// Prefer is one of some schedules of a product: of those of the least [Plan.Estimate], which
// it cannot tell apart, one whose code is quick to make.
func (p *Plan) Prefer(all []Schedule, m, n, k int, on Machine) Schedule {
	best, least := all[0], math.Inf(1)
	for _, s := range all {
		if us := p.Estimate(s, m, n, k, on); us < least {
			best, least = s, us
		}
	}
	near := alike
	if p.Code(best) > long {
		near = alikeLong
	}
	for _, s := range all {
		if p.Estimate(s, m, n, k, on) <= near*least && float64(p.Code(s)) < shorter*float64(p.Code(best)) {
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
	long      = 1200
	shorter   = 0.8
)

// Code is about how many instructions the program of a schedule without zero fields has,
// on which it depends how long a driver takes to make machine code of it: some 15 a
// millisecond.
func (p *Plan) Code(s Schedule) int {
	tiles := p.Tiles * s.Sides // of 16 outputs, of a turn
	turns := s.Depth           // that the text has
	switch {
	case s.Streams() && s.Depth > 1: // those that are left over go one by one
		turns++
	case s.Splits > 1 && s.Parts <= 1: // the last ones load nothing
		turns *= 2
	}
	perElement := 4.0 // cast one by one
	if p.Recipe != nil {
		perElement = p.Recipe.Cost().PerElement()
	}
	columns := max(s.Rows, 8) / 8
	fixed := 300
	switch {
	case s.Streams():
		fixed = 500
	case s.Splits > 1:
		fixed += (s.Splits + 1) * tiles * 32 * columns // sums that blocks store and the last one adds up
	}
	if p.Bias > 0 || p.Zero {
		columns *= 2
	}
	return fixed + turns*tiles*(int(64*perElement)+40*columns+40)
}

// PickPlain is [Pick] among the schedules whose blocks do not stay: their programs run on
// GPUs without tensor copies too, and launches of them need no tensor maps.
func PickPlain(p *Plan, m, n, k int, on Machine) Schedule {
	rows := 8
	for rows < m && rows < 32 {
		rows *= 2
	}
	best, least := Schedule{}, math.Inf(1)
	for _, s := range spans(rows, on.SMs) {
		if s.Streams() || !s.Fits(p, m, n, k, on) {
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
func (p *Plan) least() Schedule {
	s, err := Schedule{Rows: 8, Depth: 1, PDL: true}.fill(p)
	if err != nil {
		panic(err) // it is in range
	}
	return s
}
