package template

import (
	"cmp"
	"math"
	"slices"
)

// What [Plan.EstimateWide] knows of Hopper beside [Machine].
const (
	wideNear  = 95000 // bytes a µs that a multiprocessor takes in by tensor and bulk copies
	wideBegin = 1.5   // µs until a block's first product
	wideRate  = 0.7   // of what matrix instructions could do
	wideFew   = 0.63  // the same with up to 64 rows of x
	wideHang  = 1.1   // times better where products go on beside the next turn
	widePower = 640e6 // operations a µs that the machine's power allows
	wideAhead = 0.08  // µs of a turn beside products and casts
	wideTurn  = 0.17  // the same where nothing is cast beside products
	widePart  = 2     // µs that blocks of a split take to count themselves, and times that a partial sum is moved
	wideMeet  = 10    // µs more where blocks share all turns
)

// EstimateWide is how many µs [Wide] takes with a schedule without zero fields on a
// machine, about, without the arrangement of x.
//
// The slowest of these decides how long a turn takes: the matrix instructions of all
// warpgroups; what comes in; what a warpgroup does one behind the other.
func (p *Plan) EstimateWide(s WideSchedule, m, n, k int, on Machine) float64 {
	outputs := s.Outputs(p)
	units := ceil(n, outputs*s.Cluster) * s.Cluster * ceil(m, s.Rows) * s.Splits
	turns := ceil(ceil(k, Turn), s.Splits)
	perElement := 4.0 // cast one by one
	if p.Recipe != nil {
		perElement = p.Recipe.Cost().PerElement()
	}
	tiles := float64(s.Sides * p.own(s)) // of 64 outputs, of a warpgroup
	product := tiles * Turn / 16 * max(float64(s.Rows)/2, 12) / clock
	half := p.halved(s)
	if s.Rows > 64 {
		product /= wideRate
	} else {
		product /= wideFew
	}
	if half.hangs(s) {
		product /= wideHang
	}
	sets := 1.0
	if p.Shifts() {
		sets = 2
	}
	instrs := tiles * (64*Turn/128*perElement + sets*float64(s.Rows)/2*float64(p.scales()) + 30) / clock
	bytes := float64(s.Rows*Turn*2/s.Cluster + s.span(p)*Turn*p.Stored.Bits()/8)
	each := float64(s.Consumers)
	turn := max(each*product, each*instrs, product+instrs/2) + wideAhead
	if !half.ahead(s) { // all warpgroups cast at the same time
		turn = each*product + instrs + wideTurn
	}
	turn = max(turn, bytes/wideNear)
	busy := min(units, on.SMs)
	whole := float64(ceil(units, on.SMs)) * (float64(turns)*turn + wideBegin)
	if s.Blocks > 0 {
		each := ceil(units*turns, s.Blocks)
		busy, whole = min(s.Blocks, on.SMs), float64(each)*turn+wideBegin*(1+float64(each)/float64(turns))+wideMeet
	}
	memory := float64(units*turns) * float64(outputs*Turn*p.Stored.Bits()/8) / float64(ceil(m, s.Rows)) / (on.Rate * float64(busy))
	power := 2 * float64(m) * float64(n) * float64(k) / widePower
	time := on.Launch + max(whole, memory+wideBegin, power)
	if s.Splits > 1 {
		time += widePart * (1 + float64(8*s.Splits*m)*float64(n)/float64(on.SMs)/on.Near)
	}
	return time
}

// WideCandidates are the schedules of [Wide] that a product x[M, K]·w[N, K]ᵀ might take on
// a machine, in the order of [Plan.EstimateWide]: those whose registers and shared memory
// fit; with stay those whose blocks go on to further tiles.
func WideCandidates(p *Plan, m, n, k int, stay bool, on Machine) []WideSchedule {
	type rated struct {
		WideSchedule
		time float64
	}
	var all []rated
	turns := ceil(k, Turn)
	for _, shape := range [][2]int{{2, 1}, {1, 1}, {2, 2}, {2, 4}, {2, 8}} {
		consumers, parts := shape[0], shape[1]
		for _, sides := range []int{1, 2} {
			for _, cluster := range []int{1, 2} {
				for _, splits := range []int{1, 2, 3, 4, 6, 8, 12, 16} {
					s := WideSchedule{Consumers: consumers, Sides: sides, Parts: parts, Cluster: cluster, Splits: splits, Persistent: stay, Rows: 8}
					for s.Rows < min(m, p.Most(s)) {
						s.Rows *= 2
					}
					if cluster > 1 && splits > 1 || splits > 1 && stay {
						continue
					}
					s.Stages = 2
					s, err := s.Filled(p)
					ok := err == nil
					if ok {
						w := wide{decoder: &decoder{Plan: p, Schedule: Schedule{Warps: s.units(), Sides: s.Sides}}, s: s}
						s.Stages = min(6, (maxShared-w.gathered())/w.bytes())
					}
					units := ceil(n, s.Outputs(p)*cluster) * cluster * ceil(m, s.Rows) * splits
					switch {
					case !ok, sides*p.own(s) > 2 && sides > 1, splits > 1 && (turns < 4*splits || units > on.SMs):
					case cluster > 1 && ceil(n, s.Outputs(p)) < cluster:
					default:
						all = append(all, rated{s, p.EstimateWide(s, m, n, k, on)})
						if shares := s; !stay && splits == 1 && cluster == 1 && parts == 1 && m <= 4*s.Rows {
							shares.Blocks = min(on.SMs, units*turns)
							all = append(all, rated{shares, p.EstimateWide(shares, m, n, k, on)})
						}
					}
				}
			}
		}
	}
	slices.SortStableFunc(all, func(x, y rated) int { return cmp.Compare(math.Round(x.time*20), math.Round(y.time*20)) })
	out := make([]WideSchedule, len(all))
	for i, r := range all {
		out[i] = r.WideSchedule
	}
	return out
}
