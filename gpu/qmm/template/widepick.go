package template

import (
	"cmp"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// wideRates are what [Plan.EstimateWide] knows of Hopper beside [Machine].
type wideRates struct {
	fixed  float64 // µs of both launches that those beside them do not hide
	near   float64 // bytes a µs that a multiprocessor takes in by tensor and bulk copies
	rate   float64 // of what matrix instructions could do
	alone  float64 // times that products of one warpgroup take where no others run
	issued float64 // cycles of a scheduler for each instruction of a cast or scale
	scaled float64 // such instructions for each row and tile
	half   float64 // the same for each part of the rows and tile
	wait   float64 // cycles more for each, where products wait for it
	cast   float64 // the same, where the first ones of a turn do not
	ahead  float64 // cycles of such a turn beside that
	again  float64 // of scaled, what each further scale of a turn takes
	less   float64 // instructions for an element whose zero point is taken off its code
	fold   float64 // times the instructions of folding scales
	rest   float64 // the same, where sums of x take off what is left of it: they take less than they are counted as
	shared float64 // times as many instructions as that takes, where blocks share tiles: ptxas keeps some in memory
	chain  float64 // cycles for each part of the rows, tile and further scale, for whose sums products wait
	whole  float64 // times as long as all that, products of channels take
	once   float64 // times as long as that, 128 rows of these
	folded float64 // the same where scales of groups are folded
	lone   float64 // part that a turn of 128 rows of either takes more where blocks share all turns, with a tile and side each
	tight  float64 // part that sums of 128 rows and tiles by two warpgroups take more, where several scales leave no registers: with more than 6 bits, or what is left of zero points
	spilt  float64 // part more of that, where halves of the rows take turns
	part   float64 // µs that blocks of a split take to count themselves
	moved  float64 // times that a partial sum is moved, in effect
	meet   float64 // µs more where blocks share all turns, with 64 rows of 256 outputs at most; more in proportion, memory idle
	few    float64 // µs of a turn more for each 32 rows that are less than 64
}

// wideUpTo are those of up to FoldFrom rows, fitted to schedules of tests/record/schedules.json, and wideBeyond of more, to earlier ones
// and to tests/record/many_rows.json.
var (
	wideUpTo   = wideRates{fixed: 4.18, near: 99400, rate: 1.02, alone: 1.62, issued: 2.29, scaled: 0.865, half: 26.8, wait: 0.951, cast: 0.247, ahead: 138, again: 0.372, less: 0.122, fold: 0.337, rest: -0.909, shared: 1.82, chain: 143, whole: 1, once: 0.634, folded: 0.634, lone: 0.219, tight: 0.592, spilt: 0.813, part: 0.03, moved: 3.56, meet: 7.94, few: 0.112}
	wideBeyond = wideRates{fixed: 4.74, near: 77700, rate: 0.965, alone: 1.31, issued: 1.89, scaled: 1.36, half: 21.2, wait: 1.09, cast: 0.257, ahead: 143, again: 0.365, less: 0.12, fold: 0.3, rest: -1, shared: 1, chain: 130, whole: 0.92, once: 0.63, folded: 1, lone: 0.18, tight: 0.72, spilt: 0.93, part: 0.03, moved: 3.89, meet: 8.5, few: 0.082}
)

// widePower is how many operations a µs the machine's power allows.
const widePower = 940e6

// EstimateWide is how many µs [Wide] takes with a schedule without zero fields on a
// machine, about, with the arrangement of x; with Joint, but for what clusters of more than two wait for room.
//
// The slowest of these decides how long a turn takes: the matrix instructions of all
// warpgroups; their other instructions; what comes in; what a warpgroup does one behind the other.
func (p *Plan) EstimateWide(s WideSchedule, m, n, k int, on Machine) float64 {
	p, of := p.ofWide(s), wideUpTo
	if m > FoldFrom {
		of = wideBeyond
	}
	outputs := s.Outputs(p)
	units := ceil(n, outputs*s.Cluster) * s.Cluster * ceil(m, s.Rows) * s.Splits
	turns := ceil(ceil(k, Turn), s.Splits)
	tiles := float64(s.Sides * p.own(s)) // of 64 outputs, of a warpgroup
	product := tiles * Turn / 16 * float64(s.Rows) / 2
	cast := tiles * 16 * Turn / 32 * p.perElement()
	sets := 1.0
	if p.Shifts() {
		sets = 2
	}
	cast += tiles * 16 * Turn / 32 * p.taking(of.less, of.rest, of.fold)
	others := cast + tiles*(of.scaled*sets*float64(s.Rows)*(p.scaled()+of.again*p.more())+of.half*float64(p.halves(s)))
	if p.Rest() && p.own(s) < p.Tiles {
		others *= of.shared
	}
	alone := of.alone * product
	switch {
	case s.Fine: // all is done beside products
	case p.halved(s).ahead(s):
		alone += of.ahead + of.cast*others
	default:
		alone += of.wait * others
	}
	alone += of.chain * tiles * float64(p.halves(s)) * p.more()
	if p.Group == 0 {
		alone *= of.whole
	}
	switch {
	case p.summed() > 0 || s.Rows < 128:
	case p.Group == 0:
		alone *= of.once
	default:
		alone *= of.folded
	}
	if p.applied() > 1 && s.Consumers > 1 && s.Rows*p.own(s)*s.Sides >= 128 && (p.Rest() || p.Stored.Bits() > 6) {
		alone *= 1 + of.tight
		if p.halves(s) > 1 {
			alone *= 1 + of.spilt
		}
	}
	groups := float64(s.Consumers)
	bytes := float64(s.Rows*Turn*2/s.Cluster + s.span(p)*Turn*p.Stored.Bits()/8)
	turn := corner(groups*product/of.rate/clock, groups*of.issued*others/clock, alone/clock, bytes/of.near) + of.few*max(0, float64(64-s.Rows)/32)
	busy := min(units, on.SMs)
	whole := float64(ceil(units, on.SMs)*turns) * turn
	if s.Blocks > 0 {
		each := ceil(units*turns, s.Blocks)
		if p.summed() == 0 && s.Rows == 128 && s.Sides*p.own(s) == 1 {
			turn *= 1 + of.lone
		}
		busy, whole = min(s.Blocks, on.SMs), float64(each)*turn
	}
	memory := float64(units*turns) * float64(outputs*Turn*p.Stored.Bits()/8) / float64(ceil(m, s.Rows)) / (on.Rate * float64(busy))
	power := 2 * float64(m) * float64(n) * float64(k) / widePower
	time := of.fixed + corner(whole, memory, power)
	if s.Blocks > 0 {
		time += of.meet * max(1, float64(s.Rows*s.Outputs(p))/(64*256))
	}
	if m > FoldFrom {
		if p.Group >= Turn || p.Folds {
			time *= p.many(s, m, k)
		}
		if m > mostTimed && !s.Persistent {
			time *= beyondTimed
		}
		time = Sustained(time)
	}
	if s.Splits > 1 { // with Joint about as much
		moved := of.moved
		if units > on.SMs {
			moved *= besides
		}
		time += of.part + moved*float64(8*s.Splits*m)*float64(n)/float64(on.SMs)/on.Near
	}
	return time
}

// Sustained is how many µs products take that would take so many at the clock that they begin with: where they are longer than
// powerful µs, the driver takes it back, for power.
func Sustained(us float64) float64 {
	const powerful, slower = 1100, 0.2
	return us + slower*max(0, us-powerful)
}

// Blocks of some tiles that do not stay take that much longer beyond the rows that all else is fitted to: a mean of 40 products with 640
// and 1,024 rows (3, 4, 5, 6 and 8 bits of the tables' layers, one run).
const mostTimed, beyondTimed = 512, 1.11

// besides is the part of what partial sums take that is left where other blocks multiply meanwhile: more blocks than multiprocessors.
const besides = 0.6

// apart is from how many inputs on blocks that share all turns take a tenth longer, beyond FoldFrom rows.
const apart = 8192

// many is how many times as long as all that more than FoldFrom rows take, fitted to times of 256 to 1,024 rows in the tables' layers
// (WIDE.md), and to times of splits of k and of other sizes (143 products of 256 to 1,024 rows, three runs), in groups of 128.
func (p *Plan) many(s WideSchedule, m, k int) float64 {
	times, across := 1.0, 32%p.Stored.Bits() != 0 // codes that lie across words
	switch {
	case p.Folds && s.Sides > 1:
		times = 1.04
	case p.Folds && !s.Persistent:
		times = 0.97
	case p.Folds:
	case s.Persistent:
		times = 1.02
	case s.Blocks > 0 && across:
	case !s.Fine && s.Parts == 1 && m >= 2*s.Rows:
		times = 0.88
	case !s.Fine && (s.Sides > 1 || s.Stages < 3):
		times = 1.35
	}
	if across {
		times *= 1.06
	}
	switch shared := s.Parts > 1 && p.Tiles > 2 && across; { // the casts of 3 bits are brief
	case shared && s.Sides == 1 && !s.Fine && (p.own(s) == 1 || p.Folds && p.Stored.Bits() < 5):
		times *= 0.93
	case s.Parts > 1 && p.Tiles == 2 && across:
		times *= 0.95
	case s.Parts > 1 && p.Folds, p.own(s) > 1 && !p.Folds:
		times *= 1.06
	case p.own(s) > 1 && across:
		times *= 1.1
	}
	switch {
	case s.Whole:
		times *= 1.03
	case s.Sides > 1 && s.Parts == 1 && !p.Folds:
		times *= 1.1
	}
	if s.Blocks > 0 && k > apart { // whose stretches are further apart
		times *= 1.12
	}
	return times
}

// crowds reports whether operands that are folded, beside sums in half of a thread's registers, may leave too few for products of a
// schedule that is Fine: of many types ptxas then has them wait for each other, which takes 1.5 times as long, or keeps some in memory.
func (p *Plan) crowds(s WideSchedule) bool { return p.Folds && s.Rows*s.Sides*p.own(s) >= 256 }

// waits reports whether ptxas may have products of a schedule that is Folded wait for each other all the same: of two sides whose codes
// of 8 bits become bf16, where those in clusters do (TestFoldedAssembles with -every).
func (p *Plan) waits(s WideSchedule) bool {
	return s.Folded && s.Sides > 1 && p.Act == dtype.BF16 && p.Stored.Bits() == 8
}

// WideCandidates are the schedules of [Wide] that a product x[M, K]·w[N, K]ᵀ might take on
// a machine, in the order of [Plan.EstimateWide]: those whose registers and shared memory
// fit; with stay those whose blocks go on to further tiles, and with fold those that are Folded too, beyond FoldFrom rows.
func WideCandidates(p *Plan, m, n, k int, stay, fold bool, on Machine) []WideSchedule {
	all := p.wideRated(WideSchedule{}, m, n, k, stay, on)
	if fold && m > FoldFrom && p.Folding() != nil {
		all = append(all, p.wideRated(WideSchedule{Folded: true}, m, n, k, stay, on)...)
	}
	slices.SortStableFunc(all, func(x, y rated) int { return cmp.Compare(math.Round(x.time*20), math.Round(y.time*20)) })
	out := make([]WideSchedule, len(all))
	for i, r := range all {
		out[i] = r.WideSchedule
	}
	return out
}

// FoldFrom is up to how many rows tables have schedules of groups of whole turns, none of them Folded.
const FoldFrom = 128

// rated is a schedule and how long it takes.
type rated struct {
	WideSchedule
	time float64
}

// wideRated are WideCandidates with what of has set, in no order.
func (p *Plan) wideRated(of WideSchedule, m, n, k int, stay bool, on Machine) (all []rated) {
	p = p.ofWide(of)
	turns := ceil(k, Turn)
	add := func(s WideSchedule) {
		if s.Folded && s.OneSum(k) > MostFolded {
			return
		}
		s.Stages, s.Staged = s.leastStages(p), !stay
		// Two blocks of a split find room as a cluster everywhere, larger clusters do not; with parts of tiles, too, they take longer.
		s.Joint = s.Splits == 2 && s.Parts == 1
		s, err := s.Filled(p)
		if err != nil {
			return
		}
		stages := func() int {
			w := wide{decoder: &decoder{Plan: p, Schedule: Schedule{Warps: s.units(), Sides: s.Sides}}, s: s}
			return (maxShared - w.aside()) / w.bytes()
		}
		room := stages()
		// Where the room that sums of clusters take leaves two stages, three or four without are faster in 15 of 15 pairs of 128 rows,
		// by 10 to 30%; with several scales to a turn, 6 of 11 are slower, by 3 to 7% (WIDE.md).
		if s.Joint && room < 3 && p.applied() == 1 {
			s.Joint = false
			room = stages()
		}
		if s.Stages = min(4, room); stay {
			s.Stages = min(6, room)
		}
		if s.Fine && (s.Stages < 4 || p.crowds(s)) || p.waits(s) {
			return
		}
		time := p.EstimateWide(s, m, n, k, on)
		once := s
		once.Once = true
		both := []rated{{once, time}, {s, time}}
		switch { // tile by tile it takes as long
		case !p.repeats(s) || s.Persistent || s.Blocks > 0 || s.passes() > 1 && p.apartBy() == 0:
			both = both[1:]
		case !s.Fine:
			slices.Reverse(both)
		}
		all = append(all, both...)
	}
	for _, shape := range [][2]int{{2, 1}, {1, 1}, {1, 2}, {2, 2}, {1, 4}, {2, 4}, {2, 8}} {
		consumers, parts := shape[0], shape[1]
		for _, sides := range []int{1, 2} {
			for _, cluster := range []int{1, 2} {
				for _, splits := range []int{1, 2, 3, 4, 6, 8, 12, 16} {
					s := of
					s.Consumers, s.Sides, s.Parts, s.Cluster, s.Splits, s.Persistent, s.Rows = consumers, sides, parts, cluster, splits, stay, 8
					for s.Rows < min(m, p.Most(s)) {
						s.Rows *= 2
					}
					// Of blocks that do not stay, clusters are slower than the same without in 18 of 20 pairs of schedules.json, by up to 12%.
					if stay && splits > 1 || cluster > 1 && (!stay || ceil(n, s.Outputs(p)) < cluster) {
						continue
					}
					units := ceil(n, s.Outputs(p)*cluster) * cluster * ceil(m, s.Rows) * splits
					// Splits fill a last wave, too. Up to FoldFrom rows they were timed in one wave only.
					if sides > 1 && sides*p.own(s) > 2 || splits > 1 && (turns < 4*splits || m <= FoldFrom && units > on.SMs) {
						continue
					}
					add(s)
					if stay {
						continue
					}
					if splits == 1 && parts == 1 && m <= 4*s.Rows {
						shares := s
						shares.Blocks = min(on.SMs, units*turns)
						add(shares)
					}
					fine, whole := s, s
					fine.Fine, whole.Whole = true, true
					add(fine)
					if p.Tiles == 1 && p.halves(s) > 1 {
						add(whole)
					}
				}
			}
		}
	}
	return all
}
