package cute

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// FromRegister writes a register layout as CuTe does: (thread, value) → element
// of the tile in column-major order. Threads and slots count from the digit that
// changes fastest, replicas have stride 0.
func FromRegister(r layout.Layout) (l Layout, err error) {
	defer catch(&err)
	// Stride of each mode in the column-major tile.
	modes := r.ModeShape()
	stride := make([]int, len(modes))
	at, outer := 0, 1
	for _, n := range r.Shape() {
		end, p := at, 1
		for p < n {
			p *= modes[end]
			end++
		}
		inner := outer
		for k := end - 1; k >= at; k-- {
			stride[k] = inner
			inner *= modes[k]
		}
		at, outer = end, outer*n
	}
	part := func(digits []int) Layout {
		var f flat
		for _, m := range slices.Backward(digits) {
			if m < 0 {
				f.shape, f.stride = append(f.shape, Int(-m)), append(f.stride, Int(0))
				continue
			}
			f.shape, f.stride = append(f.shape, Int(modes[m])), append(f.stride, Int(stride[m]))
		}
		return Coalesce(f.layout())
	}
	return join(part(r.SpatialModes()), part(r.LocalModes())), nil
}

// digit is a part of a mode that stays within one dimension of the tile.
type digit struct {
	dim, size, stride int
	thread            bool
}

// ToRegister is the register layout of a (thread, value) → element layout whose
// elements are numbered column-major in a tile of that shape. It fails where the
// tile is not covered, each element equally often, by digits.
func ToRegister(l Layout, shape ...int) (r layout.Layout, err error) {
	defer catch(&err)
	l.wantOffsets()
	if l.Rank() != 2 {
		fail(eRegister, "write ((thread modes), (value modes))", "%s has %d modes, not the two of threads and values", l, l.Rank())
	}
	elements := 1
	for _, n := range shape {
		if n < 1 || n > layout.MaxCells/elements {
			fail(eRegister, "", "no tile has shape %v", shape)
		}
		elements *= n
	}
	var digits []digit
	var spatial []int // index into digits, or -r for r replicas; fastest first
	var local []int
	for which := range 2 {
		part := l.Mode(which)
		strides := part.stride.Leaves()
		for i, s := range part.Shape().Leaves() {
			d := strides[i].n
			switch {
			case s.n == 1:
			case d == 0 && which == 0:
				spatial = append(spatial, -s.n)
			case d == 0:
				fail(eRegister, "", "%s has a value mode %s:0: a register layout holds no element twice in one thread", l, s)
			case d < 0:
				fail(eRegister, "", "%s has the stride %d: register layouts only count upwards", l, d)
			default:
				for _, x := range split(l, shape, s.n, d) {
					x.thread = which == 0
					if x.thread {
						spatial = append(spatial, len(digits))
					} else {
						local = append(local, len(digits))
					}
					digits = append(digits, x)
				}
			}
		}
	}
	// Every dimension is read from its digits, slowest first.
	number := make([]int, len(digits))
	var modeShape []int
	for dim, n := range shape {
		var of []int
		for i, x := range digits {
			if x.dim == dim {
				of = append(of, i)
			}
		}
		slices.SortFunc(of, func(a, b int) int { return digits[b].stride - digits[a].stride })
		next := n
		for _, i := range of {
			x := digits[i]
			if x.stride*x.size != next {
				fail(eRegister, "", "%s does not cover dimension %d of %v by digits: %d elements %d apart are not %d in all", l, dim, shape, x.size, x.stride, next)
			}
			next = x.stride
			number[i] = len(modeShape)
			modeShape = append(modeShape, x.size)
		}
		if next != 1 {
			fail(eRegister, "", "%s reaches only every %d-th element of dimension %d of %v", l, next, dim, shape)
		}
	}
	slowestFirst := func(list []int) []int {
		out := make([]int, 0, len(list))
		for _, i := range slices.Backward(list) {
			if i >= 0 {
				i = number[i]
			}
			out = append(out, i)
		}
		return out
	}
	r, lerr := layout.New(shape, modeShape, slowestFirst(spatial), slowestFirst(local))
	if lerr != nil {
		fail(eRegister, "", "%s is no register layout: %v", l, lerr)
	}
	return r, nil
}

// split cuts a mode of size s and stride d in a column-major tile at the borders
// of dimensions.
func split(l Layout, shape []int, s, d int) []digit {
	var out []digit
	outer := 1
	for dim, n := range shape {
		if s == 1 {
			break
		}
		if n == 1 || d >= outer*n {
			outer *= n
			continue
		}
		e := d / outer
		if d%outer != 0 || n%e != 0 {
			fail(eRegister, "", "%s has a stride %d, which is no part of dimension %d of %v", l, d, dim, shape)
		}
		take := min(n/e, s)
		if s%take != 0 {
			fail(eRegister, "", "%s has a mode of %d elements %d apart, which leaves dimension %d of %v in the middle", l, s, d, dim, shape)
		}
		out = append(out, digit{dim: dim, size: take, stride: e})
		s /= take
		outer *= n
		d = outer
	}
	if s > 1 {
		fail(eRegister, "", "%s goes beyond the tile %v", l, shape)
	}
	return out
}
