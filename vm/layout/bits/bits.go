// Package bits says where the bits of a thread's elements lie in its registers.
//
// A thread holds n elements of w bits in a string of b32 words. A [Placement] is
// the injection
//
//	π: (element e, bit b) → position 32·word + bit of the word
//
// In the identity placement elements follow each other in slot order, low bits
// first, so π(e, b) = e·w + b; that is what a register tile without placement
// means. Weights are stored in other placements so that one mask cuts two codes,
// already in place, out of a word ([vm/recipe] searches them).
//
// # Text
//
// A placement prints as the bits of an element and, in brackets, where each
// element lies:
//
//	4[0,16,4,20,8,24,12,28]  eight 4-bit elements; element 1 has bits 0..3 at positions 16..19
//	4[(0,16)*4+4]            the same: the list (0,16), 4 times, each time moved by 4
//	5[0:3|32:2]              one element of 5 bits: 3 at position 0, then 2 at position 32
//	4[0*8+4]                 the identity of eight elements
//	4[0*4+4]/2               four elements in two words (else the fewest words that hold all)
//
// The grammar, blanks allowed between tokens:
//
//	placement = bits "[" [ list ] "]" [ "/" words ]
//	list      = item { "," item }
//	item      = ( element | "(" list ")" ) [ "*" count ( "+" | "-" ) step ]
//	element   = run { "|" run }
//	run       = position [ ":" length ]
//
// Only the last run of an element may leave its length out; it takes the bits that
// remain. Program text writes place=4[(0,16)*4+4] behind a register type. Parsing
// accepts every way to write a placement, printing chooses one.
package bits

import (
	"fmt"
	"slices"
)

// Limits of a placement.
const (
	// MaxWords is the longest word string: all registers a thread can have.
	MaxWords = 256
	// MaxBits is the widest element.
	MaxBits = 64
)

// Placement is an immutable injection of element bits into word bits; the zero
// value holds nothing.
type Placement struct {
	bits, words int
	at          []int // [elements·bits] → position
}

// New makes a placement of elements of bits bits; at [elements·bits] lists the
// positions, element by element, low bits first. The error names the first bit
// that lies outside of the words or on another bit.
func New(bits, words int, at []int) (Placement, error) {
	switch {
	case bits < 1 || bits > MaxBits:
		return Placement{}, fmt.Errorf("bits: an element has 1 to %d bits, not %d", MaxBits, bits)
	case words < 0 || words > MaxWords:
		return Placement{}, fmt.Errorf("bits: a placement has 0 to %d words, not %d", MaxWords, words)
	case len(at)%bits != 0:
		return Placement{}, fmt.Errorf("bits: %d positions are no whole number of %d-bit elements", len(at), bits)
	}
	owner := make([]int, 32*words)
	for i, pos := range at {
		if pos < 0 || pos >= len(owner) {
			return Placement{}, fmt.Errorf("bits: bit %d of element %d lies at %d, outside of %d words", i%bits, i/bits, pos, words)
		}
		if o := owner[pos] - 1; o >= 0 {
			return Placement{}, fmt.Errorf("bits: bit %d of element %d and bit %d of element %d both lie at %d", o%bits, o/bits, i%bits, i/bits, pos)
		}
		owner[pos] = i + 1
	}
	return Placement{bits, words, slices.Clone(at)}, nil
}

// Identity is slot order, low bits first, in the fewest words. It panics if the
// elements do not fit in [MaxWords].
func Identity(bits, elements int) Placement {
	at := make([]int, bits*elements)
	for i := range at {
		at[i] = i
	}
	return must(New(bits, wordsFor(len(at)), at))
}

func must(p Placement, err error) Placement {
	if err != nil {
		panic(err)
	}
	return p
}

// wordsFor is the number of words that hold n bits.
func wordsFor(n int) int { return (n + 31) / 32 }

// Bits is the width of an element.
func (p Placement) Bits() int { return p.bits }

// Words is the length of the word string.
func (p Placement) Words() int { return p.words }

// Elements is the number of elements.
func (p Placement) Elements() int {
	if p.bits == 0 {
		return 0
	}
	return len(p.at) / p.bits
}

// At is the position of a bit of an element.
func (p Placement) At(element, bit int) int {
	if bit < 0 || bit >= p.bits {
		panic(fmt.Sprintf("bits: no bit %d in a %d-bit element", bit, p.bits))
	}
	return p.at[element*p.bits+bit]
}

// Owner is the element and bit that lie at a position; ok is false for a hole.
func (p Placement) Owner(pos int) (element, bit int, ok bool) {
	i := slices.Index(p.at, pos)
	if i < 0 {
		return 0, 0, false
	}
	return i / p.bits, i % p.bits, true
}

// Equal reports whether both place the same bits at the same positions of as
// many words.
func (p Placement) Equal(q Placement) bool {
	return p.bits == q.bits && p.words == q.words && slices.Equal(p.at, q.at)
}

// IsIdentity reports whether p is the identity of its elements in the fewest words.
func (p Placement) IsIdentity() bool {
	for i, pos := range p.at {
		if i != pos {
			return false
		}
	}
	return p.words == wordsFor(len(p.at))
}

// Full reports whether p is a bijection: its words have no holes.
func (p Placement) Full() bool { return len(p.at) == 32*p.words }

// Then moves the bits of p once more: q takes the words of p, read as its own
// elements in slot order, to new positions. q must have 32 bits for each word of p.
func (p Placement) Then(q Placement) (Placement, error) {
	if len(q.at) != 32*p.words {
		return Placement{}, fmt.Errorf("bits: %d words cannot be placed by a placement of %d bits", p.words, len(q.at))
	}
	at := make([]int, len(p.at))
	for i, pos := range p.at {
		at[i] = q.at[pos]
	}
	return Placement{p.bits, q.words, at}, nil
}

// Invert takes the words of p, as 32-bit elements, back to slot order, so that
// p.Then(p.Invert()) is the identity. A placement with holes has no inverse.
func (p Placement) Invert() (Placement, error) {
	if !p.Full() {
		return Placement{}, fmt.Errorf("bits: a placement of %d bits in %d words has holes and no inverse", len(p.at), p.words)
	}
	at := make([]int, len(p.at))
	for i, pos := range p.at {
		at[pos] = i
	}
	return Placement{32, p.words, at}, nil
}

// Repeat is n copies of p one behind the other, in elements and in words. The
// error is the limit on words.
func (p Placement) Repeat(n int) (Placement, error) {
	if n < 0 || n*p.words > MaxWords {
		return Placement{}, fmt.Errorf("bits: %d copies of %d words are beyond %d words", n, p.words, MaxWords)
	}
	at := make([]int, 0, n*len(p.at))
	for c := range n {
		for _, pos := range p.at {
			at = append(at, pos+32*p.words*c)
		}
	}
	return Placement{p.bits, n * p.words, at}, nil
}

// Repeats reports whether p is n copies of q, as [Placement.Repeat] makes them.
func (p Placement) Repeats(q Placement, n int) bool {
	if n < 0 || p.bits != q.bits || p.words != n*q.words || len(p.at) != n*len(q.at) {
		return false
	}
	for i, pos := range p.at {
		if c := i / len(q.at); pos != q.at[i-c*len(q.at)]+32*q.words*c {
			return false
		}
	}
	return true
}

// run is a piece of an element: len bits from bit on lie at pos and after it.
type run struct{ bit, pos, len int }

// runs cuts an element into the fewest runs.
func (p Placement) runs(element int) []run { return p.appendRuns(nil, element) }

// appendRuns is runs behind a list.
func (p Placement) appendRuns(out []run, element int) []run {
	from := len(out)
	for b := range p.bits {
		pos := p.at[element*p.bits+b]
		if n := len(out); n > from && out[n-1].pos+out[n-1].len == pos {
			out[n-1].len++
			continue
		}
		out = append(out, run{b, pos, 1})
	}
	return out
}

// span is a run cut at the border of a word, ready to copy.
type span struct {
	element, word   int
	from, to, width uint8
}

func (p Placement) spans() []span {
	var out []span
	for e := range p.Elements() {
		for _, r := range p.runs(e) {
			for r.len > 0 {
				n := min(r.len, 32-r.pos%32)
				out = append(out, span{e, r.pos / 32, uint8(r.bit), uint8(r.pos % 32), uint8(n)})
				r = run{r.bit + n, r.pos + n, r.len - n}
			}
		}
	}
	return out
}

// Pack places codes [m·Elements] into words [m·Words], one placement after the
// other: m threads, or m fragments of one. Holes are zero. It panics if the codes
// are no whole number of placements; bits above the element width are ignored.
func (p Placement) Pack(codes []uint64) []uint32 {
	n := p.Elements()
	m := copies(len(codes), n, "codes")
	words := make([]uint32, m*p.words)
	spans := p.spans()
	for c := range m {
		in, out := codes[c*n:][:n], words[c*p.words:][:p.words]
		for _, s := range spans {
			out[s.word] |= uint32(in[s.element]>>s.from&(1<<s.width-1)) << s.to
		}
	}
	return words
}

// Unpack is the inverse of Pack: words [m·Words] to codes [m·Elements].
func (p Placement) Unpack(words []uint32) []uint64 {
	n := p.Elements()
	m := copies(len(words), p.words, "words")
	codes := make([]uint64, m*n)
	spans := p.spans()
	for c := range m {
		in, out := words[c*p.words:][:p.words], codes[c*n:][:n]
		for _, s := range spans {
			out[s.element] |= uint64(in[s.word]>>s.to) & (1<<s.width - 1) << s.from
		}
	}
	return codes
}

func copies(have, unit int, what string) int {
	switch {
	case unit == 0 && have == 0:
		return 0
	case unit == 0 || have%unit != 0:
		panic(fmt.Sprintf("bits: %d %s are no whole number of placements of %d", have, what, unit))
	}
	return have / unit
}
