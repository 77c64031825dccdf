package recipe

import (
	"cmp"
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// Options of a search. Tries bounds the random choices of each way of cutting the
// words; the same options always find the same recipe.
type Options struct {
	Mode   Mode
	Recode bool // allow recoded storage
	Tries  int  // 0: 400
	Seed   uint64
}

// Search finds the cheapest recipe it can and proves it. The error says that there
// is no way to convert the pair with the steps of this package.
//
// All lanes of a word are laid out alike. A lane of 16 bits gives an output word a
// step; lanes of 8 bits give four codes a step, which are then lifted to 16 bits.
// Whole values are tiled into the lanes with as few shifts as possible, and what is
// left over in the words of a unit makes the remaining values, piece by piece.
func Search(from, to dtype.Type, o Options) (*Recipe, error) {
	if w := from.Bits(); w < 1 || w > 8 || to != dtype.F16 && to != dtype.BF16 {
		return nil, fmt.Errorf("recipe: no recipes from %s to %s; they lead from 1 to 8 bits to f16 or bf16", from, to)
	}
	if o.Tries == 0 {
		o.Tries = 400
	}
	var best *Recipe
	for _, recode := range []bool{false, true} {
		s := newSource(from, to, o.Mode, recode)
		if recode && !o.Recode || s == nil {
			continue
		}
		for _, lane := range []int{16, 8} {
			cs := s.carriers(lane)
			if len(cs) == 0 {
				continue
			}
			for units := 1; units <= 4; units *= 2 {
				p := newPlanner(s, lane, cs, o, units)
				if p.words > maxWords {
					break
				}
				plan := p.search()
				if plan == nil {
					continue
				}
				r, err := plan.build(p)
				if err != nil {
					return nil, err
				}
				if best == nil || r.Cost().less(best.Cost()) {
					best = r
				}
			}
		}
	}
	if best == nil {
		return nil, fmt.Errorf("recipe: no recipe from %s to %s with these steps", from, to)
	}
	return best, nil
}

// piece cuts some targets of a part out of a word shifted right, lanes cyclic.
type piece struct {
	part, word, shift int
	targets           uint32
}

// value is one code of each lane: a carrier and the pieces that it is cut from.
type value struct {
	carrier int
	pieces  []piece
}

// plan is a full assignment: every code of a unit.
type plan struct {
	values []value
	cost   int // steps
	odd    int // classes that occur an odd number of times; 0 in the end
	untidy int // steps of the integer pipe, then kinds of values, of plans with as many steps
}

func (pl *plan) better(q *plan) bool {
	if q == nil {
		return true
	}
	return cmp.Or(cmp.Compare(pl.cost+pl.odd, q.cost+q.odd), cmp.Compare(pl.odd, q.odd), cmp.Compare(pl.untidy, q.untidy)) < 0
}

// option is a way to put whole values into the lanes of one word; its pieces say
// word 0.
type option struct {
	values []value
	shifts uint32 // set of shifts used, without 0
	free   uint32 // bits left over
}

type planner struct {
	*source
	lane, words, total int // total: values to a lane of a unit
	cs                 []carrier
	o                  Options
	noise              int // bound of the noise in cover
	r                  *rand.Rand
}

// newPlanner plans a number of the least units that hold whole codes.
func newPlanner(s *source, lane int, cs []carrier, o Options, units int) *planner {
	w := s.from.Bits()
	words := 1
	for words*lane%w != 0 {
		words++
	}
	words *= units
	return &planner{s, lane, words, words * lane / w, cs, o, 1, rand.New(rand.NewPCG(o.Seed, 1))}
}

func (p *planner) laneMask() uint32 { return 1<<p.lane - 1 }

// behind is where the bits of targets lie in a lane that is shifted right.
func (p *planner) behind(targets uint32, shift int) uint32 {
	return (targets<<shift | targets>>(p.lane-shift)) & p.laneMask()
}

// search fills the words with as many whole values as fit, and with fewer in some,
// and returns the cheapest plan, or nil.
func (p *planner) search() *plan {
	full := p.lane / p.from.Bits()
	var pools [][]option
	for n := full; n >= max(full-2, 0); n-- {
		if opts := p.options(n); len(opts) > 0 {
			pools = append(pools, opts)
		}
	}
	if len(pools) == 0 {
		return nil
	}
	// The first pool has the most whole values; the mixture comes second.
	best := p.combine(pools[:1])
	if len(pools) > 1 {
		if got := p.combine(pools); got != nil && got.better(best) {
			best = got
		}
	}
	if best == nil || best.odd > 0 {
		return nil
	}
	return best
}

const (
	maxOptions = 400     // kept ways to fill a word
	maxVisits  = 100_000 // steps of filling words with one set of shifts
)

// options lists ways to put n whole values in a lane: all with the fewest shifts
// and, where bits are left over, some with one shift more.
func (p *planner) options(n int) []option {
	if n == 0 {
		return []option{{free: p.laneMask()}}
	}
	var out []option
	enough := -1
	for extra := 0; extra < n*len(p.cs[0].parts) && (enough < 0 || extra <= enough); extra++ {
		// Shift 0 is always there. The last shifts come first: they are shifts left.
		for set := int(p.laneMask()) - 1; set >= 0; set -= 2 {
			if set := uint32(set); bits.OnesCount32(set) == extra && len(out) < maxOptions {
				out = append(out, p.fill(n, set)...)
			}
		}
		if enough < 0 && len(out) > 0 {
			enough = extra
			if p.lane > n*p.from.Bits() {
				enough++
			}
		}
	}
	return out
}

// spot is a value at a place: the bits it takes and the shifts of its parts.
type spot struct {
	bits    uint32
	carrier int
	shifts  []int
}

// spots lists where values can be with a set of shifts.
func (p *planner) spots(set uint32) []spot {
	var shifts []int
	for s := range p.lane {
		if s == 0 || set>>s&1 != 0 {
			shifts = append(shifts, s)
		}
	}
	var out []spot
	for ci, c := range p.cs {
		for _, s := range shifts {
			at := p.behind(c.parts[0].mask, s)
			if len(c.parts) == 1 {
				out = append(out, spot{at, ci, []int{s}})
				continue
			}
			for _, s2 := range shifts {
				if at2 := p.behind(c.parts[1].mask, s2); at&at2 == 0 {
					out = append(out, spot{at | at2, ci, []int{s, s2}})
				}
			}
		}
	}
	return out
}

// fill packs n values into a lane from bit 0 up: each bit is left over or in a value.
func (p *planner) fill(n int, set uint32) []option {
	var byBit [16][]spot
	for _, s := range p.spots(set) {
		for b := range p.lane {
			if s.bits>>b&1 != 0 {
				byBit[b] = append(byBit[b], s)
			}
		}
	}
	type key struct {
		free uint32
		odd  uint64
	}
	seen := map[key]bool{}
	var out []option
	var chosen []spot
	visits := 0
	slack := p.lane - n*p.from.Bits()
	var walk func(taken, free uint32)
	walk = func(taken, free uint32) {
		visits++
		if visits > maxVisits || len(seen) >= 64 {
			return
		}
		bit := bits.TrailingZeros32(^(taken | free))
		if bit >= p.lane {
			if len(chosen) != n {
				return
			}
			k := key{free, p.oddClasses(chosen)}
			if k.odd != 0 && p.words == 1 && slack == 0 {
				return // no other word can make it even
			}
			if !seen[k] {
				seen[k] = true
				out = append(out, p.option(chosen, free))
			}
			return
		}
		for _, s := range byBit[bit] {
			if s.bits&(taken|free) == 0 {
				chosen = append(chosen, s)
				walk(taken|s.bits, free)
				chosen = chosen[:len(chosen)-1]
			}
		}
		if bits.OnesCount32(free) < slack {
			walk(taken, free|1<<bit)
		}
	}
	walk(0, 0)
	return out
}

// oddClasses is the set of classes that occur an odd number of times, each named
// by its first carrier, where that matters (see odd).
func (p *planner) oddClasses(chosen []spot) (odd uint64) {
	if p.mode == Exact || p.lane == 8 {
		return 0
	}
	for _, s := range chosen {
		odd ^= 1 << (p.firstOfClass(s.carrier) % 64)
	}
	return odd
}

func (p *planner) firstOfClass(ci int) int {
	for i := range p.cs {
		if p.cs[i].class() == p.cs[ci].class() {
			return i
		}
	}
	return ci
}

func (p *planner) option(chosen []spot, free uint32) option {
	o := option{free: free}
	for _, s := range chosen {
		v := value{carrier: s.carrier}
		for i, shift := range s.shifts {
			v.pieces = append(v.pieces, piece{i, 0, shift, p.cs[s.carrier].parts[i].mask})
			o.shifts |= 1 << shift &^ 1
		}
		o.values = append(o.values, v)
	}
	return o
}

// odd counts the classes of a deferred plan that occur an odd number of times; with
// none, its words can be shared out to the rows of fragments. Byte lanes give two
// words a value.
func (p *planner) odd(vs []value) (odd int) {
	if p.mode == Exact || p.lane == 8 {
		return 0
	}
	count := map[[2]int]int{}
	for _, v := range vs {
		count[p.cs[v.carrier].class()]++
	}
	for _, n := range count {
		odd += n % 2
	}
	return odd
}

// combine chooses an option for every word. It starts anew now and then, and else
// changes one word of the best choice so far. One word that is filled to the last
// bit only needs a look at each option.
func (p *planner) combine(pools [][]option) *plan {
	draw := func() *option {
		opts := pools[0]
		if p.r.IntN(3) == 0 {
			opts = pools[p.r.IntN(len(pools))]
		}
		return &opts[p.r.IntN(len(opts))]
	}
	tries := p.o.Tries
	whole := len(pools) == 1 && p.words == 1 && pools[0][0].free == 0
	if whole {
		tries = len(pools[0])
	}
	var best *plan
	var bestPick []*option
	for try := range tries {
		pick := make([]*option, p.words)
		for i := range pick {
			pick[i] = draw()
		}
		switch {
		case whole:
			pick[0] = &pools[0][try]
		case best != nil && try%4 != 0:
			i := p.r.IntN(p.words)
			fresh := pick[i]
			copy(pick, bestPick)
			pick[i] = fresh
		}
		p.noise = 1 + try%2*unitCost*3/4
		if got := p.assemble(pick); got != nil && (got.better(best) || !best.better(got)) {
			best, bestPick = got, pick
		}
	}
	return best
}

func (p *planner) assemble(pick []*option) *plan {
	st := state{shifts: make([]uint32, p.words), free: make([]uint32, p.words)}
	out := &plan{}
	for w, o := range pick {
		st.shifts[w], st.free[w] = o.shifts, o.free
		for _, v := range o.values {
			pieces := append([]piece(nil), v.pieces...)
			for k := range pieces {
				pieces[k].word = w
			}
			out.values = append(out.values, value{v.carrier, pieces})
		}
	}
	for len(out.values) < p.total {
		v, ok := p.scrape(&st)
		if !ok {
			return nil
		}
		out.values = append(out.values, v)
	}
	out.odd = p.odd(out.values)
	for _, s := range st.shifts {
		out.cost += bits.OnesCount32(s)
	}
	kinds, right, masks := map[int]bool{}, map[[2]int]bool{}, 0
	for _, v := range out.values {
		kinds[v.carrier] = true
		for _, pc := range v.pieces {
			if pc.shift > 0 && pc.targets&(p.laneMask()>>pc.shift) != 0 {
				right[[2]int{pc.word, pc.shift}] = true
			}
		}
		c := &p.cs[v.carrier]
		lifted := 1
		if p.lane == 8 {
			lifted = 2
			out.cost += 2
			if !p.cutsHigh(v) {
				masks++
			}
		}
		if c.fin != 0 {
			out.cost += lifted
		}
		if !p.bare(v) {
			out.cost += len(v.pieces)
			masks += len(v.pieces)
		}
	}
	out.untidy = (len(right)+masks)<<8 + len(kinds)
	return out
}

// bare reports whether a value is its word as it is, without mask.
func (p *planner) bare(v value) bool {
	c := &p.cs[v.carrier]
	return len(v.pieces) == 1 && len(c.parts) == 1 && c.parts[0].magic == 0 && v.pieces[0].targets == p.laneMask()
}

// cutsHigh reports whether a value's bytes are cut out where f16 or bf16 has its high byte.
func (p *planner) cutsHigh(v value) bool {
	c := &p.cs[v.carrier]
	return p.lane == 8 && c.lift.high && len(v.pieces) == 1 && c.parts[0].magic == 0 && !p.bare(v)
}

// state is what is left of the words of a unit.
type state struct {
	shifts, free []uint32
}

func (s *state) clone() state {
	return state{append([]uint32(nil), s.shifts...), append([]uint32(nil), s.free...)}
}

// scrape makes a value from free bits, as cheaply as one of some carriers allows,
// and takes the bits.
func (p *planner) scrape(st *state) (value, bool) {
	var best value
	var bestState state
	bestCost := -1
	order := p.r.Perm(len(p.cs))
	for _, ci := range order[:min(len(order), 5)] {
		next, v, cost := st.clone(), value{carrier: ci}, 0
		for k, part := range p.cs[ci].parts {
			pieces, c, ok := p.cover(&next, part.mask)
			if !ok {
				cost = -1
				break
			}
			for i := range pieces {
				pieces[i].part = k
			}
			v.pieces, cost = append(v.pieces, pieces...), cost+c
		}
		if cost > 0 && (bestCost < 0 || cost < bestCost) {
			best, bestState, bestCost = v, next, cost
		}
	}
	if bestCost < 0 {
		return value{}, false
	}
	*st = bestState
	return best, true
}

// unitCost is the cost of a step in cover. Noise below it, on every other try, lets
// a value be content with second best, which may leave better bits to the next.
const unitCost = 16

// cover collects the targets of one part from free bits with the fewest pieces and
// new shifts: the shortest way over the sets of targets covered so far.
func (p *planner) cover(st *state, targets uint32) ([]piece, int, bool) {
	type group struct {
		word, shift int
		reach       uint32 // compact set of the targets that the word can give
		cost        int
	}
	var groups []group
	for w, free := range st.free {
		if free == 0 {
			continue
		}
		for s := range p.lane {
			reach := targets & p.ahead(free, s)
			if reach == 0 {
				continue
			}
			cost := 2 * unitCost
			if s == 0 || st.shifts[w]>>s&1 != 0 {
				cost = unitCost
			}
			cost += p.r.IntN(p.noise)
			groups = append(groups, group{w, s, compact(reach, targets), cost})
		}
	}
	p.r.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	all := 1 << bits.OnesCount32(targets)
	cost, by, from := make([]int, all), make([]int, all), make([]int, all)
	taken := make([][maxWords]uint32, all) // bits of the words on the way to each set
	for m := 1; m < all; m++ {
		cost[m] = 1 << 20
	}
	for m := range all {
		if cost[m] == 1<<20 {
			continue
		}
		for i, g := range groups {
			to := m | int(g.reach)
			c := cost[m] + g.cost
			if c >= cost[to] {
				continue
			}
			bits := p.behind(expand(g.reach&^uint32(m), targets), g.shift)
			if taken[m][g.word]&bits != 0 {
				continue // another piece has them
			}
			cost[to], by[to], from[to], taken[to] = c, i, m, taken[m]
			taken[to][g.word] |= bits
		}
	}
	full := all - 1
	if cost[full] == 1<<20 {
		return nil, 0, false
	}
	var out []piece
	for m := full; m != 0; m = from[m] {
		g := groups[by[m]]
		piece := piece{word: g.word, shift: g.shift, targets: expand(uint32(m&^from[m]), targets)}
		st.free[g.word] &^= p.behind(piece.targets, g.shift)
		st.shifts[g.word] |= 1 << g.shift &^ 1
		out = append(out, piece)
	}
	return out, cost[full], true
}

// ahead is where the bits of a lane go when it is shifted right.
func (p *planner) ahead(set uint32, shift int) uint32 {
	return (set>>shift | set<<(p.lane-shift)) & p.laneMask()
}

// compact numbers the bits of set within the bits of all; expand undoes it.
func compact(set, all uint32) (out uint32) {
	for i := 0; all != 0; i++ {
		low := all & -all
		if set&low != 0 {
			out |= 1 << i
		}
		all &^= low
	}
	return out
}

func expand(set, all uint32) (out uint32) {
	for i := 0; all != 0; i++ {
		low := all & -all
		if set>>i&1 != 0 {
			out |= low
		}
		all &^= low
	}
	return out
}
