package probe

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// matrixOp is one matrix instruction with its operands.
type matrixOp struct {
	op            code.Op
	row           *code.Row
	atom          arch.Atom
	a, b, c, d, e held
	blocks        int
	sparse        bool
	group         int // columns of a sparse A that share metadata
	kept, unit    int // of them stored, in runs of unit
	xor, saturate bool
}

func newMatrixOp(op code.Op) *matrixOp {
	atom, err := arch.FindAtom(op.String())
	if err != nil {
		panic("probe: " + err.Error())
	}
	m := &matrixOp{op: op, row: op.Row(), atom: atom, blocks: atom.Blocks, sparse: atom.Sparse(), group: 4, kept: 2, unit: 1}
	m.a, m.b, m.c, m.d, m.e = hold(atom, "A"), hold(atom, "B"), hold(atom, "C"), hold(atom, "D"), hold(atom, "E")
	switch {
	case m.a.Type == dtype.TF32:
		m.group, m.kept = 2, 1
	case m.a.Type.Bits() == 4:
		m.group, m.kept, m.unit = 8, 4, 2
	}
	m.xor = strings.HasSuffix(op.String(), ".xor.popc")
	m.saturate = strings.HasSuffix(op.String(), ".satfinite")
	return m
}

func (m *matrixOp) float() bool { return m.a.Type.IsFloat() }

// product is the operands of one matrix instruction, row by row, block by block.
type product struct {
	a, b, c []float64
	// place says for each entry of the metadata of a sparse A which part of its
	// group is stored there, in ascending order; a is zero elsewhere.
	place []int
}

func (m *matrixOp) zero() product {
	t := m.atom
	p := product{a: make([]float64, m.blocks*t.M*t.K), b: make([]float64, m.blocks*t.K*t.N), c: make([]float64, m.blocks*t.M*t.N)}
	if m.sparse {
		p.place = make([]int, t.M*t.K/m.group*m.kept/m.unit)
	}
	return p
}

// sparsify chooses which elements of A are kept and clears the others; keep, if
// not below 0, is one that must be kept.
func (m *matrixOp) sparsify(p *product, src *source, keep int) {
	if !m.sparse {
		return
	}
	parts, n := m.group/m.unit, m.kept/m.unit
	for g := range len(p.a) / m.group {
		chosen := src.Perm(parts)[:n]
		if want := keep - g*m.group; keep >= 0 && want >= 0 && want < m.group && !slices.Contains(chosen, want/m.unit) {
			chosen[0] = want / m.unit
		}
		slices.Sort(chosen)
		copy(p.place[g*n:], chosen)
		for k := range m.group {
			if !slices.Contains(chosen, k/m.unit) {
				p.a[g*m.group+k] = 0
			}
		}
	}
}

// most is the largest input of exact products: sums of K products and a start
// value must stay below 2048, which every sum type holds exactly and which is as
// far as every format of the inputs goes.
func (m *matrixOp) most() int {
	if m.a.Type == dtype.F64 {
		return 1 << 20
	}
	return min(8, int(math.Sqrt(1536/float64(m.atom.K))))
}

// input is a random input of type t for exact products.
func (m *matrixOp) input(src *source, t dtype.Type) float64 {
	if t.IsFloat() {
		return float64(src.IntN(2*m.most()+1) - m.most())
	}
	return t.Decode(src.Uint64() & t.Mask())
}

// start is a random element of C for exact products.
func (m *matrixOp) start(src *source) float64 {
	if m.float() {
		return float64(src.IntN(1025) - 512)
	}
	switch src.IntN(3) {
	case 0: // near the ends, to wrap or saturate
		return float64([]int{math.MinInt32, math.MaxInt32 - 1000}[src.IntN(2)] + src.IntN(1000))
	case 1:
		return float64(int32(src.Uint32()))
	}
	return float64(src.IntN(1025) - 512)
}

func (m *matrixOp) fill(src *source, p *product, a, b, c bool) {
	for i := range p.a {
		if a {
			p.a[i] = m.input(src, m.a.Type)
		}
	}
	for i := range p.b {
		if b {
			p.b[i] = m.input(src, m.b.Type)
		}
	}
	for i := range p.c {
		if c {
			p.c[i] = m.start(src)
		}
	}
}

// exact is products whose every partial sum is exact: one-hot A and B, a C that
// comes through, and random whole numbers.
func (m *matrixOp) exact(src *source, products int) []product {
	var all []product
	one := func(n int, cell func(p *product, k int)) {
		for i := range min(n, products/2) {
			k := i
			if n > products/2 {
				k = src.IntN(n)
			}
			p := m.zero()
			cell(&p, k)
			all = append(all, p)
		}
	}
	one(m.blocks*m.atom.M*m.atom.K, func(p *product, k int) {
		m.fill(src, p, false, true, false)
		p.a[k] = 1
		m.sparsify(p, src, k)
	})
	one(m.blocks*m.atom.K*m.atom.N, func(p *product, k int) {
		m.fill(src, p, true, false, false)
		p.b[k] = 1
		m.sparsify(p, src, -1)
	})
	p := m.zero() // C comes through
	for i := range p.c {
		p.c[i] = float64(i - 64)
	}
	m.sparsify(&p, src, -1)
	all = append(all, p)
	for len(all)%8 != 0 || len(all) < products {
		p := m.zero()
		m.fill(src, &p, true, true, true)
		m.sparsify(&p, src, -1)
		all = append(all, p)
	}
	return all
}

// matrixCases prove the fragment maps with one-hot operands, the arithmetic with
// integers small enough that every sum is exact, and measure it on real numbers.
// Where elements lie is taken from the catalogue of gpu/arch.
func matrixCases(op code.Op, o Options) []Case {
	products := min(max(o.cross()/32, 32), 512)
	m := newMatrixOp(op)
	src := newSource(uint64(op))
	exact := m.exact(src, products)
	var cases []Case
	make1 := func(name string, ps []product, selector int) Case {
		v := variant{nil, -1, 0}
		if m.sparse {
			v.imm = []int64{int64(selector)}
			name = fmt.Sprintf("%s, selector %d", name, selector)
		}
		return laneCase(op, name, []variant{v}, m.fragments(ps, selector, src))
	}
	for s := range max(m.row.Selectors, 1) {
		c := make1("one-hot and integers", exact, s)
		c.Want = func() [][]byte { return m.results(exact) }
		cases = append(cases, c)
	}
	if !m.float() {
		return cases
	}
	n := products / 2
	var real, odd []product
	for range n {
		p := m.zero()
		for i := range p.a {
			p.a[i] = src.NormFloat64()
		}
		for i := range p.b {
			p.b[i] = src.NormFloat64()
		}
		for i := range p.c {
			p.c[i] = 4 * src.NormFloat64()
		}
		m.sparsify(&p, src, -1)
		real = append(real, p)
	}
	rc := make1("random reals against the exact sum rounded once", real, 0)
	if m.a.Type == dtype.F64 {
		rc = make1("random reals against fused multiply-adds along K", real, 0)
	}
	rc.Want = func() [][]byte { return simulated(rc) }
	rc.Measure = func(got, want [][]byte) string { return m.distance(real, got, want) }
	values := []float64{0, math.Copysign(0, -1), 1, -1, 1.5, math.Inf(1), math.Inf(-1), math.NaN(), 0x1p-20, -0x1p-24, m.a.Type.Max(), -m.a.Type.Max(), 0x1p-140}
	for q := range n {
		p := m.zero()
		// From few of them to many, so that not every sum is a NaN.
		pick := func() float64 {
			if src.IntN(n) < 1+q/2 {
				return values[src.IntN(len(values))]
			}
			return math.Copysign(0, float64(q%2)-0.5)
		}
		for _, s := range [][]float64{p.a, p.b, p.c} {
			for i := range s {
				s[i] = pick()
			}
		}
		m.sparsify(&p, src, -1)
		odd = append(odd, p)
	}
	oc := make1("zeros, infinities, NaNs, extremes", odd, 0)
	oc.Want = func() [][]byte { return simulated(oc) }
	oc.Measure = func(got, want [][]byte) string { return m.kinds(got, want) }
	return append(cases, rc, oc)
}

// simulated is what the simulator makes of a case.
func simulated(c Case) [][]byte {
	bufs := make([][]byte, len(c.Bufs))
	for i, b := range c.Bufs {
		bufs[i] = bytes.Clone(b)
	}
	if err := (Simulator{}).Run(context.Background(), c.Func, c.Grid, bufs); err != nil {
		panic(fmt.Sprintf("probe: %s on the simulator: %v", c.Op, err))
	}
	out := make([][]byte, len(c.Out))
	for i, o := range c.Out {
		out[i] = bufs[o.Buf]
	}
	return out
}

// encode is the code of a number of type t.
func encode(t dtype.Type, v float64) uint64 {
	if t.IsFloat() {
		return t.Encode(v, false)
	}
	return uint64(int64(v)) & t.Mask()
}

// held is an operand with the place of each element that the lanes hold in a
// row-by-row list of its shape.
type held struct {
	arch.Operand
	slots int
	at    []int32
}

func hold(a arch.Atom, name string) held {
	o, ok := a.Operand(name)
	if !ok {
		return held{}
	}
	return held{o, o.Layout.Slots(), o.Layout.Flat()}
}

func (h *held) flat(lane, slot int) int { return int(h.at[lane*h.slots+slot]) }

// fragments lays products out over warps: one column of words for each input of
// the row, 32 lanes for each product.
func (m *matrixOp) fragments(ps []product, selector int, src *source) [][]uint64 {
	var cols [][]uint64
	add := func(o held, at func(p *product, k int) float64) {
		n, width := o.Type.Bits(), m.row.In[len(cols)].Bits()
		per := width / n
		for w := range o.slots / per {
			col := make([]uint64, 0, 32*len(ps))
			for q := range ps {
				for lane := range 32 {
					var v uint64
					for h := range per {
						v |= encode(o.Type, at(&ps[q], o.flat(lane, w*per+h))) << (h * n)
					}
					col = append(col, v)
				}
			}
			cols = append(cols, col)
		}
	}
	add(m.a, func(p *product, k int) float64 {
		if m.sparse { // the k-th stored element
			g, e := k/m.kept, k%m.kept
			k = g*m.group + p.place[g*(m.kept/m.unit)+e/m.unit]*m.unit + e%m.unit
		}
		return p.a[k]
	})
	add(m.b, func(p *product, k int) float64 { return p.b[k] })
	add(m.c, func(p *product, k int) float64 { return p.c[k] })
	if !m.sparse {
		return cols
	}
	col := make([]uint64, 0, 32*len(ps))
	n := m.e.Type.Bits()
	var among [32]int // of the lanes that hold the same metadata, the selector's one is read
	for lane := range among {
		for k, h := range m.e.Layout.Holders(m.e.Layout.Index(lane, 0)...) {
			if h.Thread == lane {
				among[lane] = k
			}
		}
	}
	for q := range ps {
		for lane := range 32 {
			if among[lane] != selector {
				col = append(col, uint64(src.Uint32()))
				continue
			}
			var v uint64
			for slot := range m.e.slots {
				place := ps[q].place[m.e.flat(lane, slot)]
				if n == 4 { // one of two
					place = []int{4, 14}[place]
				}
				v |= uint64(place) << (slot * n)
			}
			col = append(col, v)
		}
	}
	return append(cols, col)
}

// cell is what D must be at a place of the shape, on exact products.
func (m *matrixOp) cell(p *product, at int) uint64 {
	t := m.atom
	row, col := at/t.N, at%t.N
	a, b := p.a[row*t.K:(row+1)*t.K], p.b[row/t.M*t.K*t.N+col:]
	s := p.c[at]
	for k := range a {
		switch y := b[k*t.N]; {
		case !m.xor:
			s += a[k] * y
		case a[k] != y:
			s++
		}
	}
	if m.float() {
		return m.d.Type.Encode(s, false)
	}
	if m.saturate {
		s = min(max(s, math.MinInt32), math.MaxInt32)
	}
	return uint64(int64(s)) & m.d.Type.Mask()
}

// results lays the products out as fragments, one buffer for each result word.
// Sums in float64 are exact here.
func (m *matrixOp) results(ps []product) [][]byte {
	n, width := m.d.Type.Bits(), m.row.Out[0].Bits()
	per := width / n
	out := make([][]byte, m.d.slots/per)
	for w := range out {
		out[w] = make([]byte, width/8*32*len(ps))
		for q := range ps {
			for lane := range 32 {
				var v uint64
				for h := range per {
					v |= m.cell(&ps[q], m.d.flat(lane, w*per+h)) << (h * n)
				}
				put(out[w], width/8, 32*q+lane, v)
			}
		}
	}
	return out
}

// distance says how far results lie from the exact sum rounded once: in units in
// the last place of that, and relative to the sum of the magnitudes of all terms,
// which cancellation does not make small.
func (m *matrixOp) distance(ps []product, got, want [][]byte) string {
	t, n, width := m.d.Type, m.d.Type.Bits(), m.row.Out[0].Bits()
	per, mask := width/n, t.Mask()
	ordinal := func(c uint64) int64 { // codes in the order of their values
		v := int64(c & (mask >> 1))
		if c>>(n-1) != 0 {
			return -v
		}
		return v
	}
	differ, total, ulps, worst := 0, 0, int64(0), 0.0
	for w := range got {
		for q := range ps {
			for lane := range 32 {
				g, x := element(got[w], width/8, 32*q+lane), element(want[w], width/8, 32*q+lane)
				for h := range per {
					gc, xc := g>>(h*n)&mask, x>>(h*n)&mask
					total++
					if gc == xc {
						continue
					}
					differ++
					d := ordinal(gc) - ordinal(xc)
					ulps = max(ulps, max(d, -d))
					at := m.d.flat(lane, w*per+h)
					row, col := at/m.atom.N, at%m.atom.N
					sum := math.Abs(ps[q].c[at])
					for k := range m.atom.K {
						sum += math.Abs(ps[q].a[row*m.atom.K+k] * ps[q].b[(row/m.atom.M*m.atom.K+k)*m.atom.N+col])
					}
					worst = max(worst, math.Abs(t.Decode(gc)-t.Decode(xc))/sum)
				}
			}
		}
	}
	return fmt.Sprintf("%d of %d differ, at most %d ulp; error at most %.2f·2^-%d of Σ|a·b| + |c|", differ, total, ulps, math.Ldexp(worst, t.Row().Man+1), t.Row().Man+1)
}

// kinds says how many results differ, with an example for each pair of kinds.
func (m *matrixOp) kinds(got, want [][]byte) string {
	n, mask, width := m.d.Type.Bits(), m.d.Type.Mask(), m.row.Out[0].Bits()
	kind := func(c uint64) string {
		switch v := m.d.Type.Decode(c); {
		case v != v:
			return "NaN"
		case math.IsInf(v, 0):
			return "infinity"
		case v == 0:
			return "zero"
		}
		return "number"
	}
	total, text := 0, ""
	counts, example := map[string]int{}, map[string]string{}
	for w := range got {
		for at := range len(got[w]) / (width / 8) {
			g, x := element(got[w], width/8, at), element(want[w], width/8, at)
			for h := 0; h < width; h += n {
				gc, xc := g>>h&mask, x>>h&mask
				total++
				if gc == xc {
					continue
				}
				k := kind(gc) + " for " + kind(xc)
				if counts[k]++; counts[k] == 1 {
					example[k] = fmt.Sprintf("%#x for %#x", gc, xc)
				}
			}
		}
	}
	differ := 0
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		differ += counts[k]
		text += fmt.Sprintf("; %d %s, such as %s", counts[k], k, example[k])
	}
	return fmt.Sprintf("%d of %d differ%s", differ, total, text)
}
