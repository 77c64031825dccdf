package bank

import (
	"fmt"
	"math/bits"
)

func parity(x int) int { return bits.OnesCount(uint(x)) & 1 }

// rank is the dimension of the space over F2 that the vectors span, each the bits of
// a number.
func rank(vectors ...int) int {
	var basis [64]int
	n := 0
	for _, v := range vectors {
		for v != 0 {
			top := bits.Len(uint(v)) - 1
			if basis[top] == 0 {
				basis[top] = v
				n++
				break
			}
			v ^= basis[top]
		}
	}
	return n
}

// XorLinear says whether the address of lane l is base XOR the bits[i] of all set
// bits i of l, and gives them. The number of addresses must be a power of two and
// none may be inactive.
func XorLinear(addrs []int) (base int, laneBits []int, ok bool) {
	n := len(addrs)
	if n == 0 || n&(n-1) != 0 {
		return 0, nil, false
	}
	base = addrs[0]
	for b := 1; b < n; b *= 2 {
		laneBits = append(laneBits, addrs[b]^base)
	}
	for l, a := range addrs {
		if a < 0 {
			return 0, nil, false
		}
		want := base
		for i, v := range laneBits {
			if l>>i&1 != 0 {
				want ^= v
			}
		}
		if a != want {
			return 0, nil, false
		}
	}
	return base, laneBits, true
}

// Rank is the degree of every phase of an access whose byte address is XOR-linear in
// the bits of the lane: laneBits[i] is what bit i of the lane adds by XOR. With W the
// word addresses of the lane bits within a phase and of the word bits within the
// access,
//
//	degree = 2^(rank(W) - rank(W mod banks)).
//
// It holds for every phase, because phases are cosets of one subspace of lanes. The
// error says where the formula does not apply.
//
// Source: derived; the tests compare it with [Count].
func Rank(p Profile, kind Kind, width int, laneBits []int) (degree int, err error) {
	rule, err := p.Rule(kind, width)
	if err != nil {
		return 0, err
	}
	if width&(width-1) != 0 {
		return 0, fmt.Errorf("accesses of %d bytes are not XOR-linear in their words", width)
	}
	if 1<<len(laneBits) != p.Lanes && !kind.matrix() {
		return 0, fmt.Errorf("%d lane bits for %d lanes", len(laneBits), p.Lanes)
	}
	for i, v := range laneBits {
		if v < 0 || v%width != 0 {
			return 0, &AccessError{1 << i, fmt.Sprintf("address difference %d is no multiple of %d, the bytes of the access", v, width)}
		}
	}
	phases := rule.Phases
	if p.merges(kind, width) && (laneBits[0] == 0 || laneBits[1] == 0) {
		phases = runs(p.Lanes, 2*len(phases[0])) // see mergePairs
	}
	lanes, err := phaseBasis(phases)
	if err != nil {
		return 0, err
	}
	var words []int
	for _, lane := range lanes {
		a := 0
		for i, v := range laneBits {
			if lane>>i&1 != 0 {
				a ^= v
			}
		}
		words = append(words, a/p.BankBytes)
	}
	for w := 1; w < width/p.BankBytes; w *= 2 {
		words = append(words, w)
	}
	return rankDegree(words, rule.banks(p)), nil
}

func rankDegree(words []int, banks int) int {
	low := make([]int, len(words))
	for i, w := range words {
		low[i] = w % banks
	}
	return 1 << (rank(words...) - rank(low...))
}

// phaseBasis is a basis of the subspace of lanes that the phases are cosets of.
func phaseBasis(phases [][]int) ([]int, error) {
	var basis []int
	for _, lane := range phases[0] {
		if v := lane ^ phases[0][0]; rank(append(basis, v)...) > len(basis) {
			basis = append(basis, v)
		}
	}
	for _, ph := range phases {
		if len(ph) != 1<<len(basis) {
			return nil, fmt.Errorf("the phases are not cosets of one subspace of lanes")
		}
		for _, lane := range ph {
			if rank(append(basis[:len(basis):len(basis)], lane^ph[0])...) > len(basis) {
				return nil, fmt.Errorf("the phases are not cosets of one subspace of lanes")
			}
		}
	}
	return basis, nil
}

// PhaseBits says which parity of lane bits each bit of a phase's number is: mask m
// of bit i means that the bit is the parity of lane & m. ok is false where the phase
// number is not such a map.
func (r Rule) PhaseBits() (masks []int, ok bool) {
	phase := r.PhaseOf()
	if len(r.Phases) == 0 || len(r.Phases)&(len(r.Phases)-1) != 0 || phase[0] != 0 {
		return nil, false
	}
	masks = make([]int, bits.Len(uint(len(r.Phases)))-1)
	for i := range masks {
		for b := 1; b < len(phase); b *= 2 {
			masks[i] |= phase[b] >> i & 1 * b
		}
		for lane, ph := range phase {
			if parity(lane&masks[i]) != ph>>i&1 {
				return nil, false
			}
		}
	}
	return masks, true
}
