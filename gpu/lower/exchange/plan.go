// Package exchange takes a tile from one register layout to another, the cheapest way.
package exchange

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// Conversion says how a tile goes from one register layout to another.
//
// Elements travel in units: neighbours in the slots of both layouts, up to 32 bits.
// Where threads hold what they need in the same slots for all, nothing moves. Where
// the warp holds it, units go through shuffles: in a round every lane gives one unit
// and takes one. Which unit a lane gives, and which of its own it then has, may
// depend on bits of its number; each such bit is one choice between two registers
// for each unit, before or after. So 8 registers that are transposed over 8 lanes
// take 8 shuffles and 48 choices. Everything else goes through shared memory.
type Conversion struct {
	Kind string // "rename", "shuffle" or "shared"
	// Unit is the number of slots that travel together.
	Unit            int
	Shuffles        int
	Choices         int // selections between two registers
	Stores, Loads   int // accesses of shared memory by each thread
	Bytes           int // of shared memory
	rename          []int
	rounds          *rounds
	words           int // b32 words of a unit of 64 bits, else 1
	from, to        layout.Layout
	container, pack int // shared memory: bytes of a unit, elements of a row that share one
	padded          bool
}

// Cost compares ways: a shuffle counts 2, as a shared access does; a choice 1; a
// barrier 20.
func (c Conversion) Cost() int {
	cost := 2*c.Shuffles + c.Choices + 2*(c.Stores+c.Loads)
	if c.Kind == "shared" {
		cost += 40
	}
	return cost
}

// place is where the unit that begins with an element lies: units in row-major order,
// and a word or two of padding after each row of the banks, so that columns lie in
// different banks too.
func (c Conversion) place(element int) int {
	at := element / c.pack * c.container
	if c.padded {
		at += at / 128 * max(c.container, 4)
	}
	return at
}

// additive reports that the place of each element is that of its thread's part plus
// that of its slot's.
func (c Conversion) additive(l layout.Layout) bool {
	held, n := l.Flat(), l.Slots()
	for t := range l.Threads() {
		for s := 0; s < n; s += c.Unit {
			if thread := int(held[t*n]) - int(held[0]); c.place(int(held[t*n+s])) != c.place(thread)+c.place(int(held[s])) {
				return false
			}
		}
	}
	return true
}

// String is one line about it.
func (c Conversion) String() string {
	switch c.Kind {
	case "rename":
		return "registers under other names"
	case "shuffle":
		return fmt.Sprintf("%d shuffles and %d choices in each thread", c.Shuffles, c.Choices)
	}
	return fmt.Sprintf("%d stores and %d loads of shared memory in each thread, %d bytes, two barriers", c.Stores, c.Loads, c.Bytes)
}

// Plan finds the cheapest way from one register type to another of the
// same shape, element type and threads.
func Plan(from, to ir.Type) Conversion {
	c := Conversion{Kind: "rename", Unit: 1, words: 1, from: from.Layout, to: to.Layout}
	if slots, ok := ir.SlotMap(from, to); ok {
		c.rename = slots
		return c
	}
	w := from.Elem.Bits()
	u := newUnits(from.Layout, to.Layout, w)
	c.Unit = u.size
	c.words = max(1, u.size*w/32)
	shared := c
	shared.Kind = "shared"
	shared.Stores, shared.Loads = u.fromSlots, u.toSlots
	shared.container = 1
	for shared.container*8 < u.size*w {
		shared.container *= 2
	}
	shared.pack = 1
	if u.rows {
		shared.pack = u.size
	}
	shared.padded = true
	shared.padded = shared.additive(from.Layout) && shared.additive(to.Layout)
	shared.Bytes = shared.place(from.Layout.Size()-1) + shared.container
	if r := u.rounds(); r != nil {
		c.Kind, c.rounds = "shuffle", r
		c.Shuffles, c.Choices = r.cost()
		c.Shuffles, c.Choices = c.Shuffles*c.words, c.Choices*c.words
		if c.Cost() <= shared.Cost() {
			return c
		}
	}
	return shared
}

// units are the slots of two layouts, taken together where they travel together.
type units struct {
	size               int // slots
	threads            int
	fromSlots, toSlots int
	// source is, per thread and unit of the result, the thread and unit of the
	// source in the same warp; thread -1 where the warp does not hold it.
	source []unitAt
	rows   bool // units are aligned neighbours in row-major order
}

type unitAt struct{ thread, unit int }

func newUnits(from, to layout.Layout, w int) *units {
	a, b := from.Flat(), to.Flat()
	size := 1
	for 2*size*w <= 32 && from.Slots()%(2*size) == 0 && to.Slots()%(2*size) == 0 {
		size *= 2
	}
	for ; ; size /= 2 {
		if u := unitsOf(from, to, a, b, size); u != nil {
			return u
		}
	}
}

func unitsOf(from, to layout.Layout, a, b []int32, size int) *units {
	u := &units{size: size, threads: from.Threads(), fromSlots: from.Slots() / size, toSlots: to.Slots() / size, rows: true}
	key := func(x []int32) string {
		var k []byte
		for _, e := range x {
			k = binary.LittleEndian.AppendUint32(k, uint32(e))
		}
		return string(k)
	}
	holders := map[string][]unitAt{}
	for t := range u.threads {
		for s := range u.fromSlots {
			x := a[(t*u.fromSlots+s)*size:][:size]
			k := key(x)
			holders[k] = append(holders[k], unitAt{t, s})
			for i, e := range x {
				u.rows = u.rows && int(e) == int(x[0])+i && int(x[0])%size == 0
			}
		}
	}
	for t := range u.threads {
		for s := range u.toSlots {
			all := holders[key(b[(t*u.toSlots+s)*size:][:size])]
			if all == nil {
				return nil
			}
			best := unitAt{-1, 0}
			for _, h := range all { // the nearest lane: replicas stay apart
				if h.thread/ir.LanesPerWarp == t/ir.LanesPerWarp && (best.thread < 0 || h.thread^t < best.thread^t) {
					best = h
				}
			}
			u.source = append(u.source, best)
		}
	}
	return u
}

// linear is a map of bit strings that keeps xor: the image of each bit.
type linear []uint32

func (m linear) at(x uint32) uint32 {
	var y uint32
	for j, c := range m {
		if x>>j&1 != 0 {
			y ^= c
		}
	}
	return y
}

// fit finds a linear map of n bits through points, or nil. Bits that no point
// decides map to 0.
func fit(n int, x, y []uint32) linear {
	type vector struct{ x, y uint32 }
	basis := make([]vector, n) // by highest bit of x
	reduce := func(v vector) vector {
		for j := n - 1; j >= 0; j-- {
			if v.x>>j&1 != 0 && basis[j].x != 0 {
				v.x ^= basis[j].x
				v.y ^= basis[j].y
			}
		}
		return v
	}
	for i := range x {
		v := reduce(vector{x[i], y[i]})
		switch {
		case v.x != 0:
			basis[bits.Len32(v.x)-1] = v
		case v.y != 0:
			return nil
		}
	}
	m := make(linear, n)
	for j := range m {
		m[j] = reduce(vector{1 << j, 0}).y
	}
	return m
}

// rounds is a way through shuffles.
type rounds struct {
	threadBits int
	before     linear // thread → slots: the source's unit i^before is what stands at i
	lane       linear // thread → lane that it takes from, up to the round's constant
	after      linear // thread → slots: the unit of round i^after is the result's i
	round      []round
	fromSlots  int
}

type round struct {
	unit int // of those that stand there after the choices before
	lane int // xor to the lane
}

// rounds finds a way, or nil where the warp does not hold what it needs or the map
// from thread and unit to lane and unit is not linear over bits.
func (u *units) rounds() *rounds {
	n := u.toSlots
	if n&(n-1) != 0 || u.fromSlots&(u.fromSlots-1) != 0 {
		return nil
	}
	tb, sb := bits.Len(uint(u.threads-1)), bits.Len(uint(n-1))
	var x, lane, unit, from, give []uint32
	for i, h := range u.source {
		if h.thread < 0 {
			return nil
		}
		x = append(x, uint32(i/n)|uint32(i%n)<<tb)
		lane, unit = append(lane, uint32(h.thread%ir.LanesPerWarp)), append(unit, uint32(h.unit))
	}
	lane0, unit0 := lane[0], unit[0]
	for i := range x {
		lane[i] ^= lane0
		unit[i] ^= unit0
	}
	toLane, toUnit := fit(tb+sb, x, lane), fit(tb+sb, x, unit)
	if toLane == nil || toUnit == nil {
		return nil
	}
	// The lanes of rounds are the same whatever is tried.
	all := make([]round, n)
	for i := range all {
		all[i].lane = int(toLane.at(uint32(i)<<tb) ^ lane0)
	}
	moves := slices.ContainsFunc(all, func(x round) bool { return x.lane != 0 })
	var best *rounds
	least := 0
	lane, from, give = make([]uint32, tb), make([]uint32, tb), make([]uint32, tb)
	u.tries(tb, sb, func(h linear) bool {
		return best == nil || h.count()*n < least // more bits never take less
	}, func(h linear) {
		// In round r thread t takes its unit r^h(t). All else follows from single bits of t.
		step := func(t uint32) uint32 { return t | h.at(t)<<tb }
		away := moves
		for j := range lane {
			lane[j] = toLane.at(step(1 << j))
			away = away || lane[j] != 1<<j&(ir.LanesPerWarp-1)
		}
		cost := h.count() * n
		if away {
			cost += 2 * n
		}
		if best != nil && cost >= least {
			return
		}
		for j := range tb {
			t := uint32(1) << j
			from[j], give[j] = t&^(ir.LanesPerWarp-1)|lane[j], toUnit.at(step(t))
		}
		before := fit(tb, from, give)
		if before == nil {
			return // a lane would have to give two units at once
		}
		if cost += before.count() * u.fromSlots; best == nil || cost < least {
			least = cost
			best = &rounds{threadBits: tb, before: before, after: slices.Clone(h), lane: slices.Clone(linear(lane)), fromSlots: u.fromSlots}
		}
	})
	if best == nil {
		return nil
	}
	for i := range all {
		all[i].unit = int(toUnit.at(uint32(i)<<tb) ^ unit0 ^ best.before.at(uint32(all[i].lane)))
	}
	best.round = all
	return best
}

// tries calls f for maps from lanes to units of which each bit is 0 or one bit, but for
// those that begin like one that is not promising.
func (u *units) tries(tb, sb int, promising func(linear) bool, f func(linear)) {
	h := make(linear, tb)
	var next func(j int)
	next = func(j int) {
		if j == min(tb, 5) {
			f(h)
			return
		}
		for b := -1; b < sb; b++ {
			h[j] = 0
			if b >= 0 {
				h[j] = 1 << b
			}
			if promising(h) {
				next(j + 1)
			}
		}
		h[j] = 0
	}
	next(0)
}

func (r *rounds) cost() (shuffles, choices int) {
	if !r.stays() {
		shuffles = len(r.round)
	}
	return shuffles, len(r.before.masks())*r.fromSlots + len(r.after.masks())*len(r.round)
}

// stays reports that every lane takes from itself.
func (r *rounds) stays() bool {
	for j, c := range r.lane {
		if c != 1<<j&(ir.LanesPerWarp-1) {
			return false
		}
	}
	return !slices.ContainsFunc(r.round, func(x round) bool { return x.lane != 0 })
}

// count is the number of masks.
func (m linear) count() int {
	var sets [32]uint32
	n := 0
	for b := range sets {
		var in uint32
		for j, c := range m {
			in |= c >> b & 1 << j
		}
		if in != 0 && !slices.Contains(sets[:n], in) {
			sets[n] = in
			n++
		}
	}
	return n
}

// mask is a set of input bits whose parity decides a set of output bits.
type mask struct{ in, out uint32 }

func (m linear) masks() []mask {
	var all []mask
	for b := range 32 {
		var in uint32
		for j, c := range m {
			in |= c >> b & 1 << j
		}
		if in == 0 {
			continue
		}
		if i := slices.IndexFunc(all, func(x mask) bool { return x.in == in }); i >= 0 {
			all[i].out |= 1 << b
		} else {
			all = append(all, mask{in, 1 << b})
		}
	}
	return all
}

// Report says of each ConvertLayout of a program how it is done and what that
// costs, a line each; "" where there is none.
func Report(p *ir.Program) string {
	var b strings.Builder
	p.Body.Walk(func(s ir.Stmt) bool {
		if in, ok := s.(*ir.Instr); ok && in.Op.Name == "ConvertLayout" {
			fmt.Fprintf(&b, "%s: ConvertLayout of %s: %s\n", in.Pos, in.In[0].Var().Name, Plan(in.In[0].Var().Type, in.Out[0].Type))
		}
		return true
	})
	return b.String()
}
