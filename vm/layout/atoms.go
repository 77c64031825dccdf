package layout

import (
	"slices"
)

// New makes a layout from its four lists, as [Layout.ModeShape],
// [Layout.SpatialModes] and [Layout.LocalModes] describe them. The lists need
// not be canonical; the layout is.
func New(shape, modeShape, spatialModes, localModes []int) (Layout, error) {
	modes, err := factor(shape, modeShape)
	if err != nil {
		return Layout{}, err
	}
	used := make([]bool, len(modes))
	pick := func(k int, name string) (Digit, error) {
		if k < 0 || k >= len(modes) {
			return Digit{}, fail(eModes, "", "%s names mode %d; there are modes 0 to %d", name, k, len(modes)-1)
		}
		if used[k] {
			return Digit{}, fail(eModes, "", "mode %d is used twice", k)
		}
		used[k] = true
		return modes[k], nil
	}
	var spatial, local []Digit
	for _, k := range spatialModes {
		if k < 0 {
			if k < -MaxCells {
				return Layout{}, tooLarge(shape)
			}
			spatial = append(spatial, Digit{Size: -k, Dim: -1})
			continue
		}
		g, err := pick(k, "spatial_modes")
		if err != nil {
			return Layout{}, err
		}
		spatial = append(spatial, g)
	}
	for _, k := range localModes {
		g, err := pick(k, "local_modes")
		if err != nil {
			return Layout{}, err
		}
		local = append(local, g)
	}
	for k, g := range modes {
		if !used[k] && g.Size > 1 { // a mode of size 1 has one digit, wherever it stands
			return Layout{}, fail(eModes, "add it to one of the two lists", "mode %d of size %d is neither spatial nor local", k, g.Size)
		}
	}
	return build(shape, spatial, local)
}

// factor checks that modes, from the left, multiply up to each dimension in
// turn, and gives each its dimension and its stride there.
func factor(shape, modeShape []int) ([]Digit, error) {
	modes := make([]Digit, len(modeShape))
	m := 0
	for d, n := range shape {
		if n <= 0 {
			return nil, fail(eSize, "", "dimension %d has size %d; sizes must be positive", d, n)
		}
		first, have := m, 1
		for have < n && m < len(modeShape) {
			size := modeShape[m]
			if size <= 0 {
				return nil, fail(eModes, "", "mode %d has size %d; sizes must be positive", m, size)
			}
			if size > n/have {
				return nil, fail(eModes, "", "modes %s do not multiply up to dimension %d of size %d", list(modeShape[first:m+1]), d, n)
			}
			have *= size
			modes[m] = Digit{Size: size, Dim: d}
			m++
		}
		if have != n {
			return nil, fail(eModes, "", "modes %s do not multiply up to dimension %d of size %d", list(modeShape[first:m]), d, n)
		}
		stride := 1
		for k := m - 1; k >= first; k-- {
			modes[k].Stride = stride
			stride *= modes[k].Size
		}
	}
	for ; m < len(modeShape); m++ {
		if modeShape[m] != 1 {
			return nil, fail(eModes, "", "mode %d of size %d belongs to no dimension: shape %s is already covered", m, modeShape[m], list(shape))
		}
		modes[m] = Digit{Size: 1}
	}
	return modes, nil
}

// RegisterLayout is New under the name of the notation.
func RegisterLayout(shape, modeShape, spatialModes, localModes []int) (Layout, error) {
	return New(shape, modeShape, spatialModes, localModes)
}

// atomDigits gives each dimension one digit; ranks[d] is the position of
// dimension d, nil for row-major. Few digits lie in room.
func atomDigits(room *[someDims]Digit, shape, ranks []int) ([]Digit, error) {
	digits := room[:min(len(shape), len(room))]
	if len(shape) > len(room) {
		digits = make([]Digit, len(shape))
	}
	if ranks == nil {
		for d, n := range shape {
			digits[d] = Digit{Size: n, Dim: d, Stride: 1}
		}
		return digits, nil
	}
	if len(ranks) != len(shape) {
		return nil, fail(eRanks, "", "ranks %s has %d numbers for %d dimensions", list(ranks), len(ranks), len(shape))
	}
	for d, r := range ranks {
		if r < 0 || r >= len(ranks) || slices.Contains(ranks[:d], r) {
			return nil, fail(eRanks, "", "ranks %s is not a permutation of 0 to %d", list(ranks), len(ranks)-1)
		}
		digits[r] = Digit{Size: shape[d], Dim: d, Stride: 1}
	}
	return digits, nil
}

func localAtom(shape, ranks []int) (Layout, error) {
	var room [someDims]Digit
	digits, err := atomDigits(&room, shape, ranks)
	if err != nil {
		return Layout{}, err
	}
	return build(shape, nil, digits)
}

func spatialAtom(shape, ranks []int) (Layout, error) {
	var room [someDims]Digit
	digits, err := atomDigits(&room, shape, ranks)
	if err != nil {
		return Layout{}, err
	}
	return build(shape, digits, nil)
}

func replicatedAtom(n int, shape []int) (Layout, error) {
	if n <= 0 {
		return Layout{}, fail(eSize, "", "num_workers is %d; it must be positive", n)
	}
	var room [someDims]Digit
	digits, err := atomDigits(&room, shape, nil)
	if err != nil {
		return Layout{}, err
	}
	return build(shape, []Digit{{Size: n, Dim: -1}}, digits)
}

// column is the ranks of column-major order: the first dimension is fastest.
func column(shape []int) []int {
	ranks := make([]int, len(shape))
	for d := range ranks {
		ranks[d] = len(ranks) - 1 - d
	}
	return ranks
}

// Local is one thread that holds the whole tile, slots in row-major order. It
// and the other atoms panic when a size is not positive or too large.
func Local(shape ...int) Layout { return must(localAtom(shape, nil)) }

// Spatial is one element per thread, threads in row-major order.
func Spatial(shape ...int) Layout { return must(spatialAtom(shape, nil)) }

// ColumnLocal is one thread that holds the whole tile, slots counting along the
// first dimension first.
func ColumnLocal(shape ...int) Layout { return must(localAtom(shape, column(shape))) }

// ColumnSpatial is one element per thread, threads counting along the first
// dimension first.
func ColumnSpatial(shape ...int) Layout { return must(spatialAtom(shape, column(shape))) }

// Repeat is another name of Local.
func Repeat(shape ...int) Layout { return Local(shape...) }

// ColumnRepeat is another name of ColumnLocal.
func ColumnRepeat(shape ...int) Layout { return ColumnLocal(shape...) }

// LocalRanked is Local with dimension d at position ranks[d] of the slot order.
func LocalRanked(shape, ranks []int) (Layout, error) { return localAtom(shape, given(ranks)) }

// SpatialRanked is Spatial with dimension d at position ranks[d] of the thread order.
func SpatialRanked(shape, ranks []int) (Layout, error) { return spatialAtom(shape, given(ranks)) }

func given(ranks []int) []int {
	if ranks == nil {
		return []int{}
	}
	return ranks
}

// Replicated is n threads that each hold the whole tile.
func Replicated(n int, shape ...int) Layout { return must(replicatedAtom(n, shape)) }

// AutoLocalSpatial spreads a tile over threads: from the last dimension to the
// first each gives as many of its innermost elements to threads as divide the
// threads that are left, and keeps the rest in slots. Threads left over at the
// end are replicas. The number of threads must divide the number of elements,
// or the other way round.
func AutoLocalSpatial(threads int, shape ...int) (Layout, error) {
	if threads <= 0 || threads > MaxCells {
		return Layout{}, fail(eSize, "", "the number of threads is %d; it must be between 1 and %d", threads, MaxCells)
	}
	size := 1
	for d, n := range shape {
		if n <= 0 {
			return Layout{}, fail(eSize, "", "dimension %d has size %d; sizes must be positive", d, n)
		}
		var ok bool
		if size, ok = times(size, n); !ok {
			return Layout{}, tooLarge(shape)
		}
	}
	if size%threads != 0 && threads%size != 0 {
		return Layout{}, fail(eAuto, "", "%d elements of shape %s do not spread evenly over %d threads", size, list(shape), threads)
	}
	spatial, local := make([]Digit, len(shape)), make([]Digit, len(shape))
	left := threads
	for d := len(shape) - 1; d >= 0; d-- {
		n := gcd(left, shape[d])
		left /= n
		spatial[d] = Digit{Size: n, Dim: d, Stride: 1}
		local[d] = Digit{Size: shape[d] / n, Dim: d, Stride: n}
	}
	return build(shape, append([]Digit{{Size: left, Dim: -1}}, spatial...), local)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Local is the product of l and [Local](shape...).
func (l Layout) Local(shape ...int) Layout { return l.Mul(Local(shape...)) }

// Spatial is the product of l and [Spatial](shape...).
func (l Layout) Spatial(shape ...int) Layout { return l.Mul(Spatial(shape...)) }

// ColumnLocal is the product of l and [ColumnLocal](shape...).
func (l Layout) ColumnLocal(shape ...int) Layout { return l.Mul(ColumnLocal(shape...)) }

// ColumnSpatial is the product of l and [ColumnSpatial](shape...).
func (l Layout) ColumnSpatial(shape ...int) Layout { return l.Mul(ColumnSpatial(shape...)) }

// Repeat is the product of l and [Local](shape...).
func (l Layout) Repeat(shape ...int) Layout { return l.Local(shape...) }

// ColumnRepeat is the product of l and [ColumnLocal](shape...).
func (l Layout) ColumnRepeat(shape ...int) Layout { return l.ColumnLocal(shape...) }

// Replicated is the product of l and [Replicated](n, shape...).
func (l Layout) Replicated(n int, shape ...int) Layout { return l.Mul(Replicated(n, shape...)) }
