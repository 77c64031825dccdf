package bank

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Pattern is an access that a placement must serve well.
type Pattern struct {
	Name   string
	Access Access // addresses of the plain, row-major placement
	Weight int    // how much its wavefronts count; 0 is 1
}

// Range is inclusive.
type Range struct{ From, To int }

// Space says where [Search] looks.
type Space struct {
	// RowBytes is the length of a row of the tile, for padding; 0 tries none.
	RowBytes int
	MinBase  int   // log2 of the bytes that must stay together; raised to the widest access
	B, M, S  Range // of a Swizzle<B,M,S> on bytes; zero ranges take 0 to 5, MinBase to 7, 1 to 7
	Level    int   // how far to go: see the levels; 0 tries only padding
}

// The levels of [Search]: what a placement may be.
const (
	LevelPadding = iota // rows longer by a multiple of the widest access
	LevelOne            // one Swizzle<B,M,S>
	LevelTwo            // two of them
	LevelXOR            // any XOR map from the address bits above a line of banks to the chunk bits below
)

var levelNames = [...]string{"padding", "one swizzle", "two swizzles", "XOR map"}

// MaxMaps bounds the XOR maps that are tried.
const MaxMaps = 4096

// Placement says where the byte at a row-major address lies.
type Placement struct {
	Level    int
	RowBytes int              // of the plain tile, for padding
	Pad      int              // bytes added to each row
	Swizzles []layout.Swizzle // on bytes, the first one first
	// Masks is an XOR map: bit Base+i of the address changes by the parity of the
	// address bits in Masks[i].
	Base  int
	Masks []int
}

// Apply is where the byte of a plain address lies.
func (p Placement) Apply(addr int) int {
	if p.Pad > 0 {
		addr += addr / p.RowBytes * p.Pad
	}
	for _, s := range p.Swizzles {
		addr = s.Apply(addr)
	}
	x := 0
	for i, m := range p.Masks {
		x |= parity(addr&m) << (p.Base + i)
	}
	return addr ^ x
}

// Identity says whether the placement moves nothing.
func (p Placement) Identity() bool {
	return p.Pad == 0 && !slices.ContainsFunc(p.Swizzles, func(s layout.Swizzle) bool { return !s.Identity() }) &&
		!slices.ContainsFunc(p.Masks, func(m int) bool { return m != 0 })
}

// Bits is how many address bits the placement XORs: the B of one swizzle.
func (p Placement) Bits() int {
	n := 0
	for _, s := range p.Swizzles {
		n += s.Bits
	}
	for _, m := range p.Masks {
		n += bits.OnesCount(uint(m))
	}
	return n
}

// String is "plain", "rows padded by 16 bytes", "Sw<3,4,3>", "Sw<2,4,3> then
// Sw<1,6,4>", or the assignments of an XOR map.
func (p Placement) String() string {
	var parts []string
	if p.Pad > 0 {
		parts = append(parts, fmt.Sprintf("rows padded by %d bytes", p.Pad))
	}
	for _, s := range p.Swizzles {
		if !s.Identity() {
			parts = append(parts, s.String())
		}
	}
	if len(parts) > 0 {
		return strings.Join(parts, " then ")
	}
	for i, m := range p.Masks {
		if m == 0 {
			continue
		}
		var from []string
		for b := range 63 {
			if m>>b&1 != 0 {
				from = append(from, fmt.Sprintf("addr[%d]", b))
			}
		}
		parts = append(parts, fmt.Sprintf("addr[%d] ^= %s", p.Base+i, strings.Join(from, " ^ ")))
	}
	if len(parts) == 0 {
		return "plain"
	}
	return strings.Join(parts, ", ")
}

// Level is what one level of the search found.
type Level struct {
	Level   int
	Name    string
	Tried   int
	Best    int         // weighted wavefronts
	Ties    []Placement // all that take Best, fewest bits first
	MinBits int         // of them: minimal B for one swizzle
	Note    string      // why the level was left out, or what it proves
}

// Free is how many placements of the level have no conflict, given the ideal.
func (l Level) Free(ideal int) int {
	if l.Best == ideal {
		return len(l.Ties)
	}
	return 0
}

// Certificate shows what the best placement does to one pattern: the bank of each
// lane is in the phases' requests.
type Certificate struct {
	Pattern       string
	Before, After Report
	// By rank, where addresses are XOR-linear in the lane before and after: the
	// degree of every phase, else 0.
	RankBefore, RankAfter int
}

// Result is what a search found.
type Result struct {
	Patterns    []Pattern
	Identity    int // weighted wavefronts of the plain placement
	Ideal       int // one wavefront for each phase
	Bound       int // no placement at all takes fewer: a phase's words, shared out evenly over the banks
	Levels      []Level
	Best        Placement
	Wavefronts  int
	Proof       string // why nothing is better
	TMA         string // the TMA mode that is the best placement, or ""
	TMASays     string // a sentence on it
	Certificate []Certificate
}

// leastDegree is the fewest wavefronts in which any placement could serve a phase: its
// distinct bytes, shared out evenly over the banks. Accesses of whole words keep
// their words whatever the placement.
func leastDegree(r Report, ph Phase) int {
	distinct := map[int]bool{}
	for _, lane := range ph.Lanes {
		distinct[r.Access.Addrs[lane]] = true
	}
	return (len(distinct)*r.Access.Width + r.Banks*r.BankBytes - 1) / (r.Banks * r.BankBytes)
}

// level finds the result of a level, nil if it was not searched.
func (r *Result) level(n int) *Level {
	for i := range r.Levels {
		if r.Levels[i].Level == n {
			return &r.Levels[i]
		}
	}
	return nil
}

// LevelOf is the result of a level and whether it was searched.
func (r *Result) LevelOf(n int) (Level, bool) {
	if l := r.level(n); l != nil {
		return *l, true
	}
	return Level{}, false
}

// cost counts patterns under placements.
type cost struct {
	patterns []priced
	scratch  [64]uint64
}

type priced struct {
	counter *Counter
	weight  int
	active  uint64
	addrs   []int
}

func (c *cost) of(place func(int) int) int {
	total := 0
	for _, p := range c.patterns {
		for l, a := range p.addrs {
			if a != Inactive {
				c.scratch[l] = uint64(place(a))
			}
		}
		w, _ := p.counter.Count(p.active, c.scratch[:])
		total += p.weight * w
	}
	return total
}

// maxCandidates bounds what one search tries, so that it always answers at once.
const maxCandidates = 1 << 15

// maxTileBits bounds the addresses of a search.
const maxTileBits = 18

// Search looks for the placement of a tile under which patterns take the fewest
// wavefronts, level by level up to space.Level: padding, one swizzle, two, any XOR
// map. The best is the one of the lowest level but padding, which costs memory; among
// equals, the one that XORs fewest bits. Proof says why there is none better.
func Search(p Profile, patterns []Pattern, space Space) (*Result, error) {
	if len(patterns) == 0 {
		return nil, fmt.Errorf("a search needs at least one access pattern")
	}
	r := &Result{Patterns: patterns}
	var c cost
	top, base := 0, space.MinBase
	for _, pat := range patterns {
		rep, err := Count(p, pat.Access)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pat.Name, err)
		}
		a := rep.Access
		if a.Width&(a.Width-1) != 0 {
			return nil, fmt.Errorf("%s: accesses of %d bytes do not stay together under a swizzle", pat.Name, a.Width)
		}
		weight := cmp.Or(pat.Weight, 1)
		if weight < 0 {
			return nil, fmt.Errorf("%s: weight %d is negative", pat.Name, weight)
		}
		counter, err := NewCounter(p, a.Kind, a.Width)
		if err != nil {
			return nil, err
		}
		price := priced{counter: counter, weight: weight, addrs: a.Addrs}
		for l, at := range a.Addrs {
			if at != Inactive && (!a.Kind.matrix() || l < 8*a.Matrices) {
				price.active |= 1 << l
				top = max(top, bits.Len(uint(at+a.Width-1)))
			}
		}
		c.patterns = append(c.patterns, price)
		r.Identity += weight * rep.Wavefronts
		r.Ideal += weight * rep.Ideal
		for _, ph := range rep.Phases {
			r.Bound += weight * leastDegree(rep, ph)
		}
		base = max(base, bits.Len(uint(a.Width))-1)
	}
	if top > maxTileBits || space.RowBytes > 1<<maxTileBits {
		return nil, fmt.Errorf("the patterns reach beyond 2^%d bytes; shared memory has at most %d", maxTileBits, sharedLimit)
	}
	// Merged phases are not the counter's: keep the same measure on both sides.
	r.Identity = c.of(func(a int) int { return a })
	fill := func(g Range, from, to int) Range {
		if g == (Range{}) {
			return Range{from, to}
		}
		return g
	}
	b, m, s := fill(space.B, 0, 5), fill(space.M, base, 7), fill(space.S, 1, 7)
	m.From = max(m.From, base)
	if (b.To-b.From+1)*(m.To-m.From+1)*(s.To-s.From+1) > 512 || b.To > 16 || m.To > 16 || max(s.To, -s.From) > 16 {
		return nil, fmt.Errorf("a search over B %d–%d, M %d–%d, S %d–%d is too large; there may be 512 swizzles up to bit 16", b.From, b.To, m.From, m.To, s.From, s.To)
	}
	if space.RowBytes > 0 {
		r.Levels = append(r.Levels, c.padding(space.RowBytes, 1<<base))
	}
	if space.Level >= LevelOne {
		r.Levels = append(r.Levels, c.swizzles(b, m, s, false))
	}
	if space.Level >= LevelTwo {
		r.Levels = append(r.Levels, c.swizzles(b, m, s, true))
	}
	if space.Level >= LevelXOR {
		r.Levels = append(r.Levels, c.maps(base, bits.Len(uint(c.patterns[0].counter.mask))+c.patterns[0].counter.shift, top))
	}
	r.choose()
	if err := r.certify(p); err != nil {
		return nil, err
	}
	r.compareTMA(top)
	return r, nil
}

// offer adds a placement to a level.
func (l *Level) offer(wavefronts int, p Placement) {
	l.Tried++
	if l.Tried > 1 && wavefronts > l.Best {
		return
	}
	if l.Tried == 1 || wavefronts < l.Best {
		l.Best, l.Ties = wavefronts, nil
	}
	l.Ties = append(l.Ties, p)
}

func (l Level) done() Level {
	slices.SortStableFunc(l.Ties, func(a, b Placement) int {
		if l.Level == LevelPadding {
			return a.Pad - b.Pad
		}
		// Among equals the wider of two swizzles comes first, then the lower one.
		return cmp.Or(a.Bits()-b.Bits(), slices.CompareFunc(a.Swizzles, b.Swizzles, func(s, t layout.Swizzle) int {
			return cmp.Or(t.Bits-s.Bits, s.Base-t.Base, s.Shift-t.Shift)
		}))
	})
	l.Name = levelNames[l.Level]
	if len(l.Ties) > 0 {
		l.MinBits = l.Ties[0].Bits()
	}
	return l
}

func (c *cost) padding(row, unit int) Level {
	l := Level{Level: LevelPadding}
	for pad := 0; pad <= line; pad += unit {
		p := Placement{Level: LevelPadding, RowBytes: row, Pad: pad}
		l.offer(c.of(p.Apply), p)
	}
	return l.done()
}

func (c *cost) swizzles(b, m, s Range, two bool) Level {
	var all []layout.Swizzle
	for bits := b.From; bits <= b.To; bits++ {
		for base := m.From; base <= m.To; base++ {
			for shift := s.From; shift <= s.To; shift++ {
				sw, err := layout.NewSwizzle(bits, base, shift)
				if err == nil && !sw.Identity() {
					all = append(all, sw)
				}
			}
		}
	}
	l := Level{Level: LevelOne}
	identity := Placement{Level: LevelOne}
	l.offer(c.of(identity.Apply), identity)
	if !two {
		for _, sw := range all {
			l.offer(c.of(sw.Apply), Placement{Level: LevelOne, Swizzles: []layout.Swizzle{sw}})
		}
		return l.done()
	}
	l.Level = LevelTwo
	if len(all)*len(all) > maxCandidates {
		l.Note = fmt.Sprintf("%d pairs are too many", len(all)*len(all))
		return l.done()
	}
	for _, first := range all {
		for _, then := range all {
			l.offer(c.of(func(a int) int { return then.Apply(first.Apply(a)) }),
				Placement{Level: LevelTwo, Swizzles: []layout.Swizzle{first, then}})
		}
	}
	return l.done()
}

// maps tries every XOR map from the address bits from low to top-1 to the chunk bits
// from base to low-1, which select banks.
func (c *cost) maps(base, low, top int) Level {
	l := Level{Level: LevelXOR}
	chunkBits, rowBits := low-base, max(top-low, 0)
	if chunkBits <= 0 || rowBits == 0 {
		l.Note = "the tile has no address bits above one line of banks, or the accesses take whole lines: nothing to XOR"
		identity := Placement{Level: LevelXOR, Base: base}
		l.offer(c.of(identity.Apply), identity)
		return l.done()
	}
	if chunkBits*rowBits > bits.Len(MaxMaps)-1 {
		l.Note = fmt.Sprintf("%d row bits to %d chunk bits are 2^%d maps, more than the %d that are tried", rowBits, chunkBits, rowBits*chunkBits, MaxMaps)
		return l.done()
	}
	n := 1 << (chunkBits * rowBits)
	for k := range n {
		p := Placement{Level: LevelXOR, Base: base, Masks: make([]int, chunkBits)}
		for i := range p.Masks {
			p.Masks[i] = k >> (i * rowBits) & (1<<rowBits - 1) << low
		}
		l.offer(c.of(p.Apply), p)
	}
	l.Note = fmt.Sprintf("all %d maps from %d row bits to %d chunk bits", n, rowBits, chunkBits)
	return l.done()
}

// choose picks the best placement and says why nothing is better.
func (r *Result) choose() {
	order := []int{LevelOne, LevelTwo, LevelXOR, LevelPadding}
	r.Wavefronts = r.Identity
	for _, n := range order {
		if l := r.level(n); l != nil && len(l.Ties) > 0 && l.Best < r.Wavefronts {
			r.Wavefronts, r.Best = l.Best, l.Ties[0]
		}
	}
	tried := 0
	var names []string
	for _, l := range r.Levels {
		tried += l.Tried
		if l.Tried > 0 {
			names = append(names, l.Name)
		}
	}
	xor := r.level(LevelXOR)
	switch {
	case r.Wavefronts == r.Bound:
		r.Proof = fmt.Sprintf("No placement takes fewer than %d: each phase wants so many words, and a bank hands out one per wavefront.", r.Bound)
	case xor != nil && xor.Tried > 1 && r.Wavefronts == xor.Best:
		r.Proof = fmt.Sprintf("%s were tried; no XOR map takes fewer.", xor.Note)
	default:
		r.Proof = fmt.Sprintf("%d placements were tried (%s); the bound for any placement is %d.", tried, strings.Join(names, ", "), r.Bound)
	}
}

// certify counts every pattern again under the best placement, with reasons and,
// where it applies, by rank.
func (r *Result) certify(p Profile) error {
	total := 0
	for _, pat := range r.Patterns {
		before, err := Count(p, pat.Access)
		if err != nil {
			return fmt.Errorf("%s: %w", pat.Name, err)
		}
		moved := pat.Access
		moved.Addrs = slices.Clone(pat.Access.Addrs)
		for l, a := range moved.Addrs {
			if a != Inactive {
				moved.Addrs[l] = r.Best.Apply(a)
			}
		}
		after, err := Count(p, moved)
		if err != nil {
			return fmt.Errorf("%s: %s breaks it: %w", pat.Name, r.Best, err)
		}
		c := Certificate{Pattern: pat.Name, Before: before, After: after}
		c.RankBefore, c.RankAfter = byRank(p, before.Access), byRank(p, after.Access)
		r.Certificate = append(r.Certificate, c)
		total += cmp.Or(pat.Weight, 1) * after.Wavefronts
	}
	if total != r.Wavefronts && p.Merge == nil {
		panic(fmt.Sprintf("bank: %s takes %d wavefronts, and the search counted %d", r.Best, total, r.Wavefronts))
	}
	return nil
}

// byRank is the degree by the rank formula, or 0 where it does not apply.
func byRank(p Profile, a Access) int {
	if len(a.Addrs) != p.Lanes || a.Kind.matrix() && a.Matrices*8 != p.Lanes {
		return 0
	}
	_, laneBits, ok := XorLinear(a.Addrs)
	if !ok {
		return 0
	}
	d, err := Rank(p, a.Kind, a.Width, laneBits)
	if err != nil {
		return 0
	}
	return d
}

// compareTMA looks for the TMA mode that places bytes as the best placement does.
func (r *Result) compareTMA(top int) {
	if r.Best.Identity() {
		r.TMA, r.TMASays = "none", "The plain placement is TMA's mode without swizzle."
		return
	}
	// Swizzles and XOR maps are linear over F2: they are equal if they agree on each bit.
	equal := func(m TMAMode, p Placement, bits int) bool {
		for b := range bits {
			if p.Pad > 0 || m.Apply(1<<b) != p.Apply(1<<b) {
				return false
			}
		}
		return true
	}
	for _, m := range TMAModes() {
		switch {
		case equal(m, r.Best, max(top, 12)):
			r.TMA, r.TMASays = m.Name, fmt.Sprintf("This is TMA's mode %s (%s).", m.Name, m.Formula())
			return
		case equal(m, r.Best, top):
			r.TMA, r.TMASays = m.Name, fmt.Sprintf("On this tile it is TMA's mode %s (%s).", m.Name, m.Formula())
			return
		}
	}
	// Another placement of the same cost may be one.
	for _, l := range r.Levels {
		if l.Level == LevelPadding || l.Best != r.Wavefronts {
			continue
		}
		for _, tie := range l.Ties {
			for _, m := range TMAModes() {
				if equal(m, tie, top) {
					r.TMASays = fmt.Sprintf("Not a TMA mode; TMA's mode %s takes as few wavefronts.", m.Name)
					return
				}
			}
		}
	}
	r.TMASays = "Not expressible by TMA: no swizzle mode places bytes so, nor as well."
}
