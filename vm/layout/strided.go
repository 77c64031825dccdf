package layout

import (
	"slices"
	"strconv"
)

// MaxOffset bounds the offsets of shared and global layouts, in elements.
const MaxOffset = 1 << 40

// mode is one digit of an index and how far apart its values lie in memory.
type mode struct {
	dim  int
	size int
	step int // elements
}

// strided is a map from indices to offsets: the index of each dimension is cut
// into digits, and every digit adds its value times a step. It is what shared and
// global layouts have in common; nothing writes to it after buildStrided.
type strided struct {
	shape []int
	modes []mode // dimension by dimension, outermost first
}

var unitStrided = &strided{}

// buildStrided makes the canonical form: modes of size 1 are dropped, and
// neighbours of a dimension are merged where the outer one counts on from the
// inner one. It is unique for the reason given at build: the innermost mode of a
// dimension ends where the map first leaves the line of its step.
// limit bounds the number of elements.
func buildStrided(shape []int, modes []mode, limit int) (*strided, error) {
	if len(shape) > MaxRank {
		return nil, fail(eSize, "use fewer dimensions", "the layout has %d dimensions; at most %d are allowed", len(shape), MaxRank)
	}
	size := 1
	for d, n := range shape {
		if n <= 0 {
			return nil, fail(eSize, "", "dimension %d has size %d; sizes must be positive", d, n)
		}
		if n > limit/size {
			return nil, fail(eSize, "use smaller sizes", "the layout of shape %s has more than %d elements", list(shape), limit)
		}
		size *= n
	}
	last := 0
	out := make([]mode, 0, len(modes))
	for _, m := range modes {
		if m.size == 1 {
			continue
		}
		if m.step < 0 {
			return nil, fail(eOffset, "", "a stride is %d; strides cannot be negative", m.step)
		}
		if m.step > (MaxOffset-1-last)/(m.size-1) {
			return nil, fail(eOffset, "use smaller sizes or strides", "the layout of shape %s has offsets beyond %d", list(shape), MaxOffset)
		}
		last += (m.size - 1) * m.step
		if n := len(out); n > 0 {
			if p := &out[n-1]; p.dim == m.dim && p.step == m.size*m.step {
				p.size, p.step = p.size*m.size, m.step
				continue
			}
		}
		out = append(out, m)
	}
	return &strided{slices.Clone(shape), out}, nil
}

// newStrided reads the lists of a notation.
func newStrided(shape, modeShape, steps []int, limit int) (*strided, error) {
	if len(steps) != len(modeShape) {
		return nil, fail(eModes, "", "there are %d modes and %d strides", len(modeShape), len(steps))
	}
	digits, err := factor(shape, modeShape)
	if err != nil {
		return nil, err
	}
	modes := make([]mode, len(digits))
	for i, g := range digits {
		modes[i] = mode{g.Dim, g.Size, steps[i]}
	}
	return buildStrided(shape, modes, limit)
}

// packed is the layout without holes whose dimensions lie in this order, the
// slowest first.
func packed(shape, order []int, limit int) (*strided, error) {
	modes := make([]mode, len(shape))
	step := 1
	for i := len(order) - 1; i >= 0; i-- {
		d := order[i]
		modes[d] = mode{d, shape[d], step}
		if n := shape[d]; n > 0 && n <= limit/step {
			step *= n
		}
	}
	return buildStrided(shape, modes, limit)
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func (d *strided) lists() (sizes, steps []int) {
	sizes, steps = []int{}, []int{}
	for _, m := range d.modes {
		sizes, steps = append(sizes, m.size), append(steps, m.step)
	}
	return sizes, steps
}

// extent is the largest offset plus one.
func (d *strided) extent() int {
	n := 1
	for _, m := range d.modes {
		n += (m.size - 1) * m.step
	}
	return n
}

// dense reports, for sure, that the elements fill [0, extent) one by one: each mode's
// step is what the modes of smaller steps make up together.
func (d *strided) dense() bool {
	modes := slices.Clone(d.modes)
	slices.SortFunc(modes, func(a, b mode) int { return a.step - b.step })
	n := 1
	for _, m := range modes {
		if m.step != n {
			return false
		}
		n *= m.size
	}
	return true
}

// increasing reports that each mode steps beyond all that smaller steps reach: then no two
// indices have one offset.
func (d *strided) increasing() bool {
	modes := slices.Clone(d.modes)
	slices.SortFunc(modes, func(a, b mode) int { return a.step - b.step })
	most := 0
	for _, m := range modes {
		if m.size > 1 && m.step <= most {
			return false
		}
		most += m.step * (m.size - 1)
	}
	return true
}

func (d *strided) size() int {
	n := 1
	for _, s := range d.shape {
		n *= s
	}
	return n
}

// at is the offset of an index that lies inside the shape.
func (d *strided) at(index []int) int {
	off := 0
	dim, left := -1, 0
	for i := len(d.modes) - 1; i >= 0; i-- {
		m := d.modes[i]
		if m.dim != dim {
			dim, left = m.dim, index[m.dim]
		}
		off += left % m.size * m.step
		left /= m.size
	}
	return off
}

func (d *strided) inside(index []int) error {
	if len(index) != len(d.shape) {
		return fail(eOffset, "", "index %s has %d numbers; the layout has rank %d", list(index), len(index), len(d.shape))
	}
	for i, v := range index {
		if v < 0 || v >= d.shape[i] {
			return fail(eOffset, "", "index %s lies outside shape %s", list(index), list(d.shape))
		}
	}
	return nil
}

// offsets lists the offset of every index in row-major order.
func (d *strided) offsets() []int {
	out := make([]int, 1, d.size())
	for _, m := range d.modes {
		next := make([]int, 0, cap(out))
		for _, base := range out {
			for v := range m.size {
				next = append(next, base+v*m.step)
			}
		}
		out = next
	}
	return out
}

func (d *strided) equal(e *strided) bool {
	return slices.Equal(d.shape, e.shape) && slices.Equal(d.modes, e.modes)
}

// mul is the layout of f in which every element is a whole g, apart elements long.
func (d *strided) mul(g *strided, apart, limit int) (*strided, error) {
	rank := max(len(d.shape), len(g.shape))
	a, b := d.extend(rank), g.extend(rank)
	var modes []mode
	shape := make([]int, rank)
	for k := range shape {
		if a.shape[k] > limit/b.shape[k] {
			return nil, fail(eSize, "use smaller sizes", "the product has more than %d elements", limit)
		}
		shape[k] = a.shape[k] * b.shape[k]
		for _, m := range a.modes {
			if m.dim == k {
				if m.step > MaxOffset/apart {
					return nil, fail(eOffset, "use smaller sizes or strides", "the product has offsets beyond %d", MaxOffset)
				}
				m.step *= apart
				modes = append(modes, m)
			}
		}
		for _, m := range b.modes {
			if m.dim == k {
				modes = append(modes, m)
			}
		}
	}
	return buildStrided(shape, modes, limit)
}

func (d *strided) extend(rank int) *strided {
	k := rank - len(d.shape)
	if k <= 0 {
		return d
	}
	modes := slices.Clone(d.modes)
	for i := range modes {
		modes[i].dim += k
	}
	return &strided{append(ones(k), d.shape...), modes}
}

// pick is the layout of these dimensions, in this order; the index of the others
// is 0.
func (d *strided) pick(order []int) *strided {
	out := &strided{shape: make([]int, len(order))}
	for i, from := range order {
		out.shape[i] = d.shape[from]
		for _, m := range d.modes {
			if m.dim == from {
				out.modes = append(out.modes, mode{i, m.size, m.step})
			}
		}
	}
	return out
}

// unsqueeze inserts dimensions of size 1 at these places of the result.
func (d *strided) unsqueeze(at []int) (*strided, error) {
	rank := len(d.shape) + len(at)
	if rank > MaxRank {
		return nil, fail(eSize, "use fewer dimensions", "the layout has %d dimensions; at most %d are allowed", rank, MaxRank)
	}
	at, err := dims(at, rank)
	if err != nil {
		return nil, err
	}
	out := &strided{}
	var to []int
	for i := range rank {
		if slices.Contains(at, i) {
			out.shape = append(out.shape, 1)
			continue
		}
		out.shape = append(out.shape, d.shape[len(to)])
		to = append(to, i)
	}
	for _, m := range d.modes {
		m.dim = to[m.dim]
		out.modes = append(out.modes, m)
	}
	return out, nil
}

// reshape gives another shape of the same size, elements in row-major order.
func (d *strided) reshape(shape []int, limit int) (*strided, error) {
	size := 1
	for i, n := range shape {
		if n <= 0 {
			return nil, fail(eSize, "", "dimension %d has size %d; sizes must be positive", i, n)
		}
		if n > limit/size {
			return nil, fail(eSize, "use smaller sizes", "the layout of shape %s has more than %d elements", list(shape), limit)
		}
		size *= n
	}
	if size != d.size() {
		return nil, fail(eReshape, "", "shape %s has %d elements; the layout of shape %s has %d", list(shape), size, list(d.shape), d.size())
	}
	// As one dimension the modes merge as far as they can; then cut them anew.
	flat := slices.Clone(d.modes)
	for i := range flat {
		flat[i].dim = 0
	}
	one, err := buildStrided([]int{size}, flat, limit)
	if err != nil {
		return nil, err
	}
	left := one.modes
	var modes []mode
	for k := len(shape) - 1; k >= 0; k-- {
		for need := shape[k]; need > 1; {
			m := &left[len(left)-1]
			n := need
			switch {
			case need%m.size == 0:
				n = m.size
			case m.size%need != 0:
				return nil, fail(eReshape, "", "reshape to %s cuts a mode of size %d unevenly", list(shape), m.size)
			}
			modes = append(modes, mode{k, n, m.step})
			need /= n
			if n == m.size {
				left = left[:len(left)-1]
				continue
			}
			m.size, m.step = m.size/n, m.step*n
		}
	}
	slices.Reverse(modes)
	return buildStrided(shape, modes, limit)
}

// text is the layout without what stands around it: the suffix of a name and
// its arguments, "row_major(4, 6)".
func (d *strided) text() string {
	switch {
	case d.rowMajor():
		return "row_major(" + join(d.shape) + ")"
	case d.columnMajor():
		return "column_major(" + join(d.shape) + ")"
	}
	sizes, steps := d.lists()
	return "layout(" + list(d.shape) + ", " + list(sizes) + ", " + list(steps) + ")"
}

// rowMajor and columnMajor report layouts without holes whose last, or first, dimension is fastest.
func (d *strided) rowMajor() bool {
	at, step := len(d.modes)-1, 1
	for k := len(d.shape) - 1; k >= 0; k-- {
		n := d.shape[k]
		if n == 1 {
			continue
		}
		if at < 0 || d.modes[at] != (mode{k, n, step}) {
			return false
		}
		at, step = at-1, step*n
	}
	return true
}

func (d *strided) columnMajor() bool {
	at, step := 0, 1
	for k, n := range d.shape {
		if n == 1 {
			continue
		}
		if at == len(d.modes) || d.modes[at] != (mode{k, n, step}) {
			return false
		}
		at, step = at+1, step*n
	}
	return true
}

func (d *strided) key() string {
	sizes, steps := d.lists()
	return strconv.Itoa(len(d.shape)) + list(d.shape) + list(sizes) + list(steps)
}
