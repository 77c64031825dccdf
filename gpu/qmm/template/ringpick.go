package template

import "math"

// ringSpans are all schedules of warps along k that have their turns from stages.
func (p *Plan) ringSpans() []Schedule {
	var out []Schedule
	if p.Stored.Bits() == 8 {
		return nil // others are at the roof
	}
	for _, parts := range []int{8, 4, 16} {
		for _, sides := range []int{1, 2, 4} {
			for _, splits := range []int{1, 2} {
				for _, depth := range []int{1, 2} {
					for _, stages := range []int{4, 8, 2} {
						s := Schedule{Rows: 1, Depth: depth, Warps: 1, Sides: sides, Splits: splits, Parts: parts, Stages: stages, PDL: true}
						if _, err := s.fill(p); err == nil {
							out = append(out, s)
						}
					}
				}
			}
		}
	}
	return out
}

// ringEarly is [Schedule.Early] of these: x waits behind what is asked for early, so three stages are, or two of codes of few bits,
// whose multiplying takes longer than what x waits.
func (p *Plan) ringEarly(s Schedule) int {
	switch {
	case s.Stages <= 2:
		return 0
	case p.Stored.Bits() <= 2:
		return 2
	}
	return 3
}

// ringRegisters is about how many registers a thread of these needs: of sums, and of weights and scales of each turn that is
// multiplied together.
func (p *Plan) ringRegisters(s Schedule) int {
	tiles := p.Tiles * s.Sides
	n := 34 + 9*tiles + (16+4*tiles)*(s.Depth-1)
	switch {
	case p.Rest():
		n += 10 + 4*tiles
	case p.Zero && p.Less:
		n += 4 * tiles
	}
	if p.scales() > 1 && !p.Folds {
		n += 10 + tiles*(2+p.scales())
	}
	return n
}

// ringFit is how many of their blocks fit a multiprocessor.
func (p *Plan) ringFit(s Schedule) int {
	warps, regs := s.Parts+s.extra(), (p.registers(s)+7)&^7
	fit := 65536 / 32 / regs / warps
	for fit > 0 && 32*regs*ceil(fit*warps, 4)*4 > 65536 { // warps have registers by fours
		fit--
	}
	return min(32, 64/warps, max(s.Resident, fit), (maxShared+1024)/(s.SharedBytes(p)+1536))
}

// ringResidents is [Schedule.Resident] of these: as many as a launch has on a multiprocessor, where these fit, so that ptxas takes the
// registers that there are, and one else.
func (p *Plan) ringResidents(s Schedule, m, n int, on Machine) int {
	blocks, _ := p.blocksOf(s, max(m, 1), n)
	each := ceil(blocks, on.SMs)
	if s.Resident = 0; each <= p.ringFit(s) {
		return each
	}
	return 1
}

// estimateRing is Estimate for warps along k that have their turns from stages. Multiprocessors have as many blocks of a launch as they must:
// launches see to it ([cuda.Function.LaunchDependent]).
func (p *Plan) estimateRing(s Schedule, m, n, k int, on Machine) float64 {
	p = p.of(s)
	d, of := &decoder{Plan: p, Schedule: s}, ringBy
	tiles := float64(p.Tiles * s.Sides)
	elements := float64(p.Outputs() * Turn / 32 * s.Sides)
	mma := elements / 8
	if p.Shifts() {
		mma *= 1 + 1/tiles
	}
	instrs := of.element*(p.perElement()+p.taking(of.less, 0, 0))*elements + of.mma*mma + of.again*tiles*math.Pow(p.more(), partsMore)
	if p.Folds {
		instrs += of.fold * tiles * float64(p.scales())
	}
	blocks, _ := p.blocksOf(s, m, n)
	room := float64(min(p.ringFit(s), ceil(blocks, on.SMs)))
	turns := float64(ceil(k, Turn)) / float64(s.Splits)
	steps := float64(ceil(ceil(k, Turn), s.Splits*s.Parts*s.Depth))
	step := float64(s.Depth) * instrs / clock
	block := of.join*float64(s.Parts) + steps*corner(step/of.alone, of.ring*float64(s.Depth)/float64(s.Stages))
	bytes := float64(d.ringBytes()) / float64(s.Parts)
	wave := func(n, most float64) float64 {
		return corner((n+of.uneven*(most-n))*turns*bytes/on.Rate, most*turns*instrs/(of.issued*clock), block)
	}
	waves, last := math.Modf(float64(blocks) / float64(on.SMs) / room)
	time := of.fixed + waves*wave(room, room)
	if last *= room; last > 0 {
		time += wave(last, math.Ceil(last))
	}
	time += of.tail*step + of.last*step*float64(ceil(blocks, on.SMs)*s.Parts)/4
	if s.Early == 0 {
		time *= of.all
	}
	if s.Splits > 1 {
		time += of.split.count + of.split.moved*float64(8*s.Splits*m)*float64(n)/float64(on.SMs)/on.Near
	}
	return time
}

// Rank is [Plan.Estimate], in µs, as choices among schedules weigh it: what is estimated of warps along k without stages, digits and groups
// apart is low where they are chosen for it, so that those with stages count less than they are estimated to take.
func (p *Plan) Rank(s Schedule, m, n, k int, on Machine) float64 {
	time := p.Estimate(s, m, n, k, on)
	switch {
	case !s.Ringed():
	case p.scales() > 1 || p.Bytewise() && p.Stored.Bits() <= 2: // beside groups apart, and digits
		time *= ringBy.digits
	default:
		time *= ringBy.beside
	}
	return time
}
