package bank

import "math/bits"

// Counter counts wavefronts of one kind and width of access without allocating and
// without reasons, for users that count millions: the simulator and the search. It
// trusts that addresses are aligned, and merges no phases.
type Counter struct {
	phases []uint64 // the lanes of each phase
	words  int      // of an access
	shift  int      // log2 of the bytes of a word
	mask   int      // banks - 1
}

// NewCounter is the counter for a kind and width of access on a profile.
func NewCounter(p Profile, kind Kind, width int) (*Counter, error) {
	rule, err := p.Rule(kind, width)
	if err != nil {
		return nil, err
	}
	c := &Counter{words: max(1, width/p.BankBytes), shift: bits.TrailingZeros(uint(p.BankBytes)), mask: rule.banks(p) - 1}
	for _, ph := range rule.Phases {
		var m uint64
		for _, lane := range ph {
			m |= 1 << lane
		}
		c.phases = append(c.phases, m)
	}
	return c, nil
}

// Count is the wavefronts and the ideal of an access in which the lanes of active
// take part, from the byte address of each lane.
func (c *Counter) Count(active uint64, addrs []uint64) (wavefronts, ideal int) {
	for _, lanes := range c.phases {
		lanes &= active
		if lanes == 0 {
			continue
		}
		ideal++
		wavefronts += c.degree(lanes, addrs)
	}
	return wavefronts, ideal
}

// maxWords bounds the words of a phase: 64 lanes of one word, or 16 of four.
const maxWords = 64

// degree of the phase of some lanes.
func (c *Counter) degree(lanes uint64, addrs []uint64) int {
	// Words within one line of banks lie in different banks: most accesses do.
	low, high := ^uint64(0), uint64(0)
	for m := lanes; m != 0; m &= m - 1 {
		w := addrs[bits.TrailingZeros64(m)] >> c.shift
		low, high = min(low, w), max(high, w)
	}
	if high+uint64(c.words)-low <= uint64(c.mask)+1 {
		return 1
	}
	return c.crowded(lanes, addrs)
}

// crowded is the degree of any phase.
func (c *Counter) crowded(lanes uint64, addrs []uint64) int {
	// A hash table of the distinct words; next[k] and head count from 1.
	var head [128]uint8
	var load [64]uint8
	var word [maxWords]uint64
	var next [maxWords]uint8
	n, degree := 0, uint8(0)
	for m := lanes; m != 0; m &= m - 1 {
		w := addrs[bits.TrailingZeros64(m)] >> c.shift
	words:
		for end := w + uint64(c.words); w < end; w++ {
			h := uint64(uint32(w)*0x9e3779b1) >> 25
			for k := head[h]; k != 0; k = next[k-1] {
				if word[k-1] == w {
					continue words
				}
			}
			word[n], next[n] = w, head[h]
			n++
			head[h] = uint8(n)
			b := int(w) & c.mask
			load[b]++
			degree = max(degree, load[b])
		}
	}
	return int(degree)
}

// Sectors is how many distinct 32-byte sectors the active lanes of a warp touch,
// without allocating: the fast form of [Global].
func Sectors(active uint32, addrs *[32]uint64, width uint64) int {
	var seen [32 * 2]uint64
	n := 0
	for m := active; m != 0; m &= m - 1 {
		a := addrs[bits.TrailingZeros32(m)]
	sectors:
		for s := a >> sectorShift; s <= (a+width-1)>>sectorShift; s++ {
			for k := n - 1; k >= 0; k-- {
				if seen[k] == s {
					continue sectors
				}
			}
			seen[n] = s
			n++
		}
	}
	return n
}

const sectorShift, lineShift = 5, 7
