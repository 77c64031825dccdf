package layout

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
)

func parseShared(t testing.TB, text string) Shared {
	t.Helper()
	s, err := ParseShared(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

// indices calls f with every index of a shape, in row-major order.
func indices(shape []int, f func(index []int)) {
	index := make([]int, len(shape))
	for {
		f(index)
		d := len(shape) - 1
		for ; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
		if d < 0 {
			return
		}
	}
}

// Shared layouts are equal exactly where their maps are: all factorings of up to 64
// elements with strides that count on, that leave holes, and that repeat.
func TestSharedFormIsUnique(t *testing.T) {
	byKey, byMap := map[string]string{}, map[string]string{}
	total := 0
	try := func(shape, modes, steps []int) {
		s, err := NewShared(shape, modes, steps, Swizzle{})
		if err != nil {
			t.Fatal(err)
		}
		total++
		m := fmt.Sprint(shape, s.Offsets())
		if had, ok := byKey[s.Key()]; ok && had != m {
			t.Fatalf("%s has the form of another map", s)
		}
		if had, ok := byMap[m]; ok && had != s.Key() {
			t.Fatalf("%s: the same map has the form %s", s, had)
		}
		byKey[s.Key()], byMap[m] = m, s.Key()
	}
	for a := 1; a <= 64; a++ {
		for b := 1; a*b <= 64; b++ {
			splits(a, func(ma []int) {
				splits(b, func(mb []int) {
					modes := slices.Concat(ma, mb)
					if len(modes) > 4 {
						return
					}
					permutations(len(modes), func(order []int) {
						for _, gap := range []int{0, 1, 2} {
							steps := make([]int, len(modes))
							step := 1
							for _, k := range order {
								steps[k] = step * gap
								if gap == 0 {
									steps[k] = k % 2
								}
								step *= modes[k]
							}
							try([]int{a, b}, modes, steps)
						}
					})
				})
			})
		}
	}
	if len(byKey) != len(byMap) || len(byKey) < 1000 {
		t.Fatalf("%d forms, %d maps", len(byKey), len(byMap))
	}
	t.Logf("%d lists, %d layouts", total, len(byKey))
}

func randomShared(r *rand.Rand) Shared {
	shape := make([]int, r.Intn(5))
	for d := range shape {
		shape[d] = 1 + r.Intn(6)
	}
	s := SharedRowMajor(shape...)
	if r.Intn(2) == 0 {
		s = SharedColumnMajor(shape...)
	}
	if p, err := s.Permute(r.Perm(s.Rank())...); err == nil && r.Intn(2) == 0 {
		s = p
	}
	if r.Intn(3) == 0 {
		w, err := NewSwizzle(1+r.Intn(2), r.Intn(3), 2+r.Intn(2))
		if err == nil {
			s, _ = s.ApplySwizzle(w)
		}
	}
	return s
}

// What operations on shared layouts mean, by their maps.
func TestSharedLaws(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 2000 {
		a, b, c := randomShared(r), randomShared(r), randomShared(r)
		if got := parseShared(t, a.String()); !got.Equal(a) || got.Key() != a.Key() {
			t.Fatalf("%s does not read back: %s", a, got)
		}
		if again, err := NewShared(a.Shape(), a.ModeShape(), a.ModeStrides(), a.Swizzle()); err != nil || !again.Equal(a) {
			t.Fatalf("the lists of %s do not rebuild it", a)
		}
		n := 0
		all := a.Offsets()
		indices(a.Shape(), func(index []int) {
			if all[n] != a.Offset(index...) || all[n] >= a.CountSize() {
				t.Fatalf("%s at %v", a, index)
			}
			n++
		})
		if n != a.Size() || !a.Injective() {
			t.Fatalf("%s has %d elements", a, n)
		}
		ab, err := a.Mul(b)
		if err == nil && ab.Size() < 1<<12 {
			bc, err1 := b.Mul(c)
			if abc, err2 := ab.Mul(c); err1 == nil && err2 == nil {
				if other, err := a.Mul(bc); err != nil || !other.Equal(abc) {
					t.Fatalf("(%s * %s) * %s is not associative", a, b, c)
				}
			}
			u, v := a.Unswizzled(), b.Unswizzled()
			lead := func(s Shared) []int { return ones(ab.Rank() - s.Rank()) }
			ua, _ := u.Unsqueeze(upTo(len(lead(a)))...)
			vb, _ := v.Unsqueeze(upTo(len(lead(b)))...)
			indices(ab.Shape(), func(index []int) {
				i, j := slices.Clone(index), slices.Clone(index)
				for d, n := range vb.Shape() {
					i[d], j[d] = i[d]/n, j[d]%n
				}
				if want := ua.Offset(i...)*v.CountSize() + vb.Offset(j...); ab.Offset(index...) != want {
					t.Fatalf("%s * %s at %v is %d, want %d", a, b, index, ab.Offset(index...), want)
				}
			})
		}
		order := r.Perm(a.Rank())
		p, err := a.Permute(order...)
		if err != nil {
			t.Fatal(err)
		}
		keep := order[:r.Intn(len(order)+1)]
		slice, err := a.Slice(keep...)
		if err != nil {
			t.Fatal(err)
		}
		front, err := a.Prepend(3)
		if err != nil {
			t.Fatal(err)
		}
		indices(a.Shape(), func(index []int) {
			to := make([]int, len(index))
			for i, d := range order {
				to[i] = index[d]
			}
			if p.Offset(to...) != a.Offset(index...) {
				t.Fatalf("permute %v of %s", order, a)
			}
			for k := range 3 {
				base := front.Offset(append([]int{k}, make([]int, len(index))...)...)
				if got := front.Offset(append([]int{k}, index...)...); got != base+a.Offset(index...) {
					t.Fatalf("copy %d of %s at %v is at %d, base %d", k, a, index, got, base)
				}
			}
			for d, v := range index {
				if v != 0 && !slices.Contains(keep, d) {
					return
				}
			}
			if slice.Offset(to[:len(keep)]...) != a.Offset(index...) {
				t.Fatalf("slice %v of %s", keep, a)
			}
		})
		if !front.Injective() {
			t.Fatalf("copies of %s overlap", a)
		}
		flat, err := a.Reshape(a.Size())
		if err != nil {
			continue // a permuted layout need not be flat
		}
		if !slices.Equal(flat.Offsets(), all) {
			t.Fatalf("reshape of %s moves elements", a)
		}
		if back, err := flat.Reshape(a.Shape()...); err != nil || !back.Equal(a) {
			t.Fatalf("reshape of %s back: %s %v", flat, back, err)
		}
	}
}

// The row of the swizzled tile permutes its 16-byte units: every column of units
// meets every position of 8 rows once (as far as the panel is wide).
func TestRowMajorSwizzleSpreadsColumns(t *testing.T) {
	for _, bits := range []int{4, 8, 16, 32, 64} {
		unit := 128 / bits
		for units := 1; units <= 24; units++ {
			s, err := SharedRowMajorSwizzle(bits, 2, 16, units*unit)
			if err != nil {
				t.Fatal(err)
			}
			if !s.Injective() || s.CountSize() != s.Size() {
				t.Fatalf("%s has holes", s)
			}
			for u := range units {
				seen := map[int]bool{}
				for row := range 8 {
					off := s.Offset(1, row, u*unit)
					if off%unit != 0 || s.Offset(1, row, u*unit+unit-1) != off+unit-1 {
						t.Fatalf("%s splits a unit", s)
					}
					seen[off/unit%8] = true
				}
				if len(seen) != 8 {
					t.Fatalf("%d bits, %d units: 8 rows meet %d bank groups", bits, units, len(seen))
				}
			}
		}
	}
	for _, bad := range []struct {
		bits  int
		shape []int
	}{{16, []int{4, 64}}, {16, []int{8, 4}}, {16, []int{64}}, {6, []int{8, 64}}, {16, []int{0, 64}}, {16, []int{8, -8}}, {16, []int{1 << 20, 1 << 20}}} {
		if s, err := SharedRowMajorSwizzle(bad.bits, bad.shape...); err == nil {
			t.Errorf("%v of %d bits is %s", bad.shape, bad.bits, s)
		}
	}
}

// Every form that can be generated is recognised, with the distances that it shows.
func TestCanonicalForms(t *testing.T) {
	n := 0
	for _, bits := range []int{4, 8, 16, 32} {
		for _, major := range []Major{MajorK, MajorMN} {
			for _, width := range []int{0, 32, 64, 128} {
				for _, shape := range [][]int{{8, 8}, {64, 64}, {64, 16}, {128, 32}, {256, 128}, {64, 256}} {
					c, err := CanonicalFor(shape, bits, major, width)
					if err != nil {
						continue
					}
					n++
					s, err := c.Layout()
					if err != nil || !slices.Equal(s.Shape(), shape) || !s.Injective() || s.CountSize() != s.Size() {
						t.Fatalf("%s %v of %d bits: %v %v", c, shape, bits, s, err)
					}
					back, err := s.Canonical(bits)
					want := c
					stepM, stepK := &want.SBO, &want.LBO
					if major == MajorMN && width != 0 {
						stepM, stepK = stepK, stepM
					}
					if c.M == 1 {
						*stepM = 1
					}
					if c.K == 1 {
						*stepK = 1
					}
					if err != nil || back != want {
						t.Fatalf("%s is recognised as %s (%v), want %s", s, back, err, want)
					}
					// Other distances are as good, as long as blocks do not overlap.
					c.SBO, c.LBO = 2*c.SBO, 2*c.LBO
					if s, err = c.Layout(); err != nil || !s.Injective() {
						t.Fatalf("%s: %v %v", c, s, err)
					}
				}
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d forms", n)
	}
	for _, text := range []string{"shared_row_major(64, 64)", "shared_row_major(8)", "shared_row_major_swizzle([8, 64], 2).transpose().reshape(512, 1)"} {
		if s, err := ParseShared(text); err == nil {
			if c, err := s.Canonical(16); err == nil {
				t.Errorf("%s is recognised as %s", text, c)
			}
		}
	}
}

func TestGlobal(t *testing.T) {
	g, err := ParseGlobal("row_major(2, 2) * row_major(3, 4)")
	if err != nil || g.Offset(5, 7) != 47 {
		t.Errorf("%v, %v", g, err)
	}
	r := rand.New(rand.NewSource(3))
	sliced := 0
	for range 1000 {
		shape := []int{1 + r.Intn(5), 1 + r.Intn(5)}
		a := GlobalRowMajor(shape...)
		b, err := GlobalStrides([]int{1 + r.Intn(4), 1 + r.Intn(4)}, []int{r.Intn(9), r.Intn(9)})
		if err != nil {
			t.Fatal(err)
		}
		ab, err := a.Mul(b)
		if err != nil {
			t.Fatal(err)
		}
		indices(ab.Shape(), func(index []int) {
			m, n := b.Shape()[0], b.Shape()[1]
			if got, want := ab.Offset(index...), a.Offset(index[0]/m, index[1]/n)*b.CountSize()+b.Offset(index[0]%m, index[1]%n); got != want {
				t.Fatalf("%s * %s at %v is %d, want %d", a, b, index, got, want)
			}
		})
		first := []int{r.Intn(ab.Shape()[0]), r.Intn(ab.Shape()[1])}
		along := r.Perm(2)[:1+r.Intn(2)]
		part := make([]int, len(along))
		for i, d := range along {
			part[i] = 1 + r.Intn(ab.Shape()[d]-first[d])
		}
		for _, l := range []Global{GlobalRowMajor(ab.Shape()...), ab} {
			s, err := l.Slice(first, along, part)
			if err != nil {
				continue // cuts a mode
			}
			sliced++
			if again, err := ParseGlobal(s.String()); err != nil || !again.Equal(s) {
				t.Fatalf("%s reads back as %s, %v", s, again, err)
			}
			indices(part, func(index []int) {
				at := slices.Clone(first)
				for i, d := range along {
					at[d] += index[i]
				}
				if s.Offset(index...) != l.Offset(at...) {
					t.Fatalf("slice %v %v %v of %s at %v", first, along, part, l, index)
				}
			})
		}
	}
	if sliced < 1200 {
		t.Errorf("only %d slices", sliced)
	}
	big, err := ParseGlobal("global_strides([65536, 65536, 100], [6553600, 100, 1])")
	if err != nil || big.Offset(65535, 65535, 99) != 65536*65536*100-1 {
		t.Errorf("%v %v", big, err)
	}
	if _, err := ParseGlobal("row_major(65536, 65536, 65536)"); err == nil {
		t.Error("a tensor of 2^48 elements is accepted")
	}
}

func TestTMemory(t *testing.T) {
	m, err := TMemoryRowMajor(128, 4, 32)
	if err != nil {
		t.Fatal(err)
	}
	if lane, column := m.Position(100, 3, 5); lane != 100 || column != 101 || m.Columns() != 128 {
		t.Errorf("lane %d column %d of %d", lane, column, m.Columns())
	}
	s, err := m.Slice(64, []int{0, 2}, []int{64, 16})
	if err != nil {
		t.Fatal(err)
	}
	if lane, column := s.Position(1, 5); lane != 65 || column != 5 {
		t.Errorf("lane %d column %d", lane, column)
	}
	for _, l := range []TMemory{m, s} {
		if again, err := ParseTMemory(l.String()); err != nil || !again.Equal(l) {
			t.Errorf("%s reads back as %s, %v", l, again, err)
		}
	}
	for _, bad := range []string{"tmemory_row_major(128)", "tmemory_row_major(16, 8)", "tmemory_row_major(128, 0)", "tmemory_layout([64, 2], [1, 1])",
		"tmemory_layout([64, 2], [0, 1], lane_offset=16)", "tmemory_layout([128, 2], [0, 1], lane_offset=32)", "tmemory_row_major(128, 8).slice(64, [0, 1], [128, 8])",
		"tmemory_row_major(128, 8).slice(0, [1], [8])", "tmemory_row_major(128, 8).slice(-32, [0, 1], [32, 8])"} {
		if l, err := ParseTMemory(bad); err == nil || !strings.Contains(err.Error(), "Layout.E") {
			t.Errorf("%s is %s, %v", bad, l, err)
		}
	}
}

func randomMulti(r *rand.Rand, shape []int) MultiFunction {
	var modes []int
	for _, n := range shape {
		switch {
		case n == 1:
		case n%2 == 0 && r.Intn(2) == 0:
			modes = append(modes, 2, n/2)
		default:
			modes = append(modes, n)
		}
	}
	var digits []int
	for _, k := range r.Perm(len(modes)) {
		if modes[k] == 1 || r.Intn(4) == 0 {
			continue
		}
		if r.Intn(3) == 0 {
			digits = append(digits, -2-r.Intn(2))
		}
		digits = append(digits, k)
	}
	if f, err := NewMultiFunction(shape, modes, digits); err == nil {
		return f
	}
	return Identity(shape...)
}

func TestMultiFunctionLaws(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	covered, composed := 0, 0
	byMap := map[string]MultiFunction{}
	for range 4000 {
		shape := []int{1 + r.Intn(4), 2 * (1 + r.Intn(3))}
		f, g := randomMulti(r, shape), randomMulti(r, shape)
		if again, err := NewMultiFunction(f.Shape(), f.ModeShape(), f.Modes()); err != nil || !again.Equal(f) {
			t.Fatalf("the lists of %s do not rebuild it: %s %v", f, again, err)
		}
		if r.Intn(2) == 0 {
			g, _ = f.Collapse(r.Intn(2))
			f, g = g, f
		}
		ok, err := f.Covers(g)
		if err != nil {
			t.Fatal(err)
		}
		want, m := true, fmt.Sprint(shape)
		indices(shape, func(index []int) {
			have := f.At(index...)
			m += fmt.Sprint(have)
			if !slices.IsSorted(have) || have[len(have)-1] >= f.Range() {
				t.Fatalf("%s at %v is %v", f, index, have)
			}
			for _, v := range g.At(index...) {
				want = want && slices.Contains(have, v)
			}
		})
		if ok != want {
			t.Fatalf("%s covers %s: %v, want %v", f, g, ok, want)
		}
		if ok {
			covered++
		}
		if had, seen := byMap[m]; seen && !had.Equal(f) {
			t.Fatalf("%s and %s are one map", had, f)
		}
		byMap[m] = f
		// Composition by its definition.
		h := randomMulti(r, []int{f.Range()})
		fh, err := f.Then(h)
		if err != nil {
			continue
		}
		composed++
		indices(shape, func(index []int) {
			set := map[int]bool{}
			for _, v := range f.At(index...) {
				for _, w := range h.At(v) {
					set[w] = true
				}
			}
			got := fh.At(index...)
			for _, v := range got {
				if !set[v] {
					t.Fatalf("%s then %s at %v is %v", f, h, index, got)
				}
			}
			if len(got) != len(set) {
				t.Fatalf("%s then %s at %v is %v, want %d values", f, h, index, got, len(set))
			}
		})
	}
	if covered < 100 || composed < 100 {
		t.Errorf("%d covers, %d compositions", covered, composed)
	}
}

// Broadcasting: the threads that compute an element hold the operand that it needs.
func TestHoldingCoversWhatReduceToMakes(t *testing.T) {
	// [32, 33] with [32, 1], which upstream refuses.
	f, err := Identity(32, 33).Collapse(1)
	if err != nil || f.String() != "[32, 33] → [0, any 33] of modes [32, 33]" {
		t.Errorf("%s, %v", f, err)
	}
	r := rand.New(rand.NewSource(5))
	for range 500 {
		l := random(r)
		if l.Rank() == 0 || l.Threads()*l.Slots() > 4096 {
			continue
		}
		shape := l.Shape()
		for d := range shape {
			if r.Intn(2) == 0 {
				shape[d] = 1
			}
		}
		shape = shape[r.Intn(len(shape)):]
		small, err := l.ReduceTo(shape)
		if err != nil {
			t.Fatal(err)
		}
		collapsed, err := l.Holding().CollapseTo(shape)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := small.Holding().Covers(collapsed); err != nil || !ok {
			t.Fatalf("%s does not hold what %s needs: %v", small, l, err)
		}
		indices(l.Shape(), func(index []int) {
			for i, h := range l.Holders(index...) {
				if got := l.Holding().At(index...); got[i] != h.Thread {
					t.Fatalf("%s at %v: %v", l, index, got)
				}
			}
		})
	}
}

// Reduce in steps, in any order, and before or after a permutation; ranks to 6.
func TestReduceLaws(t *testing.T) {
	r := rand.New(rand.NewSource(6))
	for range 2000 {
		l := Layout{}
		rank := r.Intn(7)
		for range 1 + r.Intn(3) {
			shape := make([]int, rank)
			for d := range shape {
				shape[d] = 1 + r.Intn(3)
			}
			next, err := mul(l, []Layout{Local(shape...), Spatial(shape...), ColumnLocal(shape...), ColumnSpatial(shape...)}[r.Intn(4)])
			if err != nil || next.Threads()*next.Slots() > 1<<14 {
				break
			}
			l = next
		}
		over := r.Perm(l.Rank())[:r.Intn(l.Rank()+1)]
		all, err := l.Reduce(over, true)
		if err != nil {
			t.Fatal(err)
		}
		step := l
		for _, d := range over {
			if step, err = step.Reduce([]int{d}, true); err != nil {
				t.Fatal(err)
			}
		}
		if !step.Equal(all) {
			t.Fatalf("reduce %v of %s in steps is %s, at once %s", over, l, step, all)
		}
		dropped, err := l.Reduce(over, false)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := all.Squeeze(over...); err != nil || !s.Equal(dropped) {
			t.Fatalf("%s squeezed is %s, want %s (%v)", all, s, dropped, err)
		}
		if back, err := dropped.Unsqueeze(over...); err != nil || !back.Equal(all) {
			t.Fatalf("%s unsqueezed is %s, want %s (%v)", dropped, back, all, err)
		}
		target := l.Shape()
		for _, d := range over {
			target[d] = 1
		}
		if to, err := l.ReduceTo(target); err != nil || !to.Equal(all) {
			t.Fatalf("reduce_to %v of %s is %s, want %s", target, l, to, all)
		}
		order := r.Perm(l.Rank())
		p, err := all.Permute(order...)
		if err != nil {
			t.Fatal(err)
		}
		q, err := l.Permute(order...)
		if err != nil {
			t.Fatal(err)
		}
		moved := make([]int, len(over))
		for i, d := range over {
			moved[i] = slices.Index(order, d)
		}
		if q, err = q.Reduce(moved, true); err != nil || !q.Equal(p) {
			t.Fatalf("permute %v and reduce %v of %s do not commute", order, over, l)
		}
		// Slots that differed only in reduced dimensions are one, threads replicas.
		th, s := r.Intn(l.Threads()), r.Intn(l.Slots())
		at := l.Index(th, s)
		for _, d := range over {
			at[d] = 0
		}
		if !slices.ContainsFunc(all.Holders(at...), func(h Holder) bool { return h.Thread == th }) {
			t.Fatalf("thread %d of %s does not hold %v of %s", th, l, at, all)
		}
	}
}

func TestRegisterSlice(t *testing.T) {
	l := parse(t, "spatial(8, 1, 1).local(1, 3, 4)")
	s, err := l.Slice(0, 2)
	if err != nil || s.String() != "spatial(8, 1).local(1, 4)" {
		t.Errorf("%s, %v", s, err)
	}
	for thread := range 8 {
		for slot := range 4 {
			at := s.Index(thread, slot)
			for fixed := range 3 { // each part of the source has the slice's layout
				if !slices.ContainsFunc(l.Holders(at[0], fixed, at[1]), func(h Holder) bool { return h.Thread == thread }) {
					t.Errorf("thread %d does not hold %v at %d", thread, at, fixed)
				}
			}
		}
	}
	for _, keep := range [][]int{{1, 2}, {2, 0}, {3}} {
		if s, err := l.Slice(keep...); err == nil {
			t.Errorf("slice %v is %s", keep, s)
		}
	}
}

func TestMemoryErrorsHaveRuleAndPlace(t *testing.T) {
	for _, c := range []struct{ text, code, want string }{
		{"shared_row_major(8, 0)", "Layout.E4", "positive"},
		{"shared_row_major(8, 64", "Layout.E1", "close"},
		{"shared_rowmajor(8, 64)", "Layout.E2", "shared_row_major"},
		{"local(8, 64)", "Layout.E2", "no layout function"},
		{"Swizzle(3, 3, 3)", "Layout.E3", "a layout of shared memory is wanted here, not a swizzle"},
		{"shared_row_major(8, 8) / shared_row_major(2, 2)", "Layout.E3", "cannot follow a layout of shared memory"},
		{"shared_row_major(8192, 8192)", "Layout.E4", "more than 16777216 elements"},
		{"shared_row_major_swizzle([4, 64], 2)", "Layout.E17", "4 rows"},
		{"shared_row_major_swizzle([8, 12], 2)", "Layout.E17", "16-byte units"},
		{"shared_row_major_swizzle([8, 64], 3)", "Layout.E17", "power of two"},
		{"shared_row_major_swizzle([8, 64], 2).apply_swizzle(Swizzle(3, 3, 3))", "Layout.E17", "already"},
		{"shared_row_major(8, 64).apply_swizzle(base=3, bits=3, shift=2)", "Layout.E17", "overlap"},
		{"shared_layout([12], [3, 4], [1])", "Layout.E6", "2 modes and 1 strides"},
		{"shared_layout([12], [3, 4], [1, -3])", "Layout.E16", "negative"},
		{"shared_reshape(shared_layout([12], [3, 4], [1, 3]), [4, 3])", "Layout.E10", "unevenly"},
		{"shared_row_major(4, 6).slice(0, 0)", "Layout.E9", "twice"},
		{"shared_row_major(4, 6).prepend_dim(0)", "Layout.E4", "positive"},
		{"shared_row_major(4096, 4096).prepend_dim(2)", "Layout.E4", "more than"},
	} {
		_, err := ParseShared(c.text)
		if err == nil || !strings.Contains(err.Error(), c.code) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "1:") {
			t.Errorf("%s: %v, want %s %s", c.text, err, c.code, c.want)
		}
	}
	if _, err := GlobalStrides([]int{1 << 20, 1 << 20}, []int{1 << 30, 1}); err == nil {
		t.Error("offsets beyond 2^40 are accepted")
	}
}

func FuzzParseMemory(f *testing.F) {
	for _, s := range []string{"shared_row_major_swizzle([16, 128], 2).prepend_dim(3).slice(1, 2)", "shared_reshape(shared_row_major(12), [3, 4]).transpose()",
		"shared_layout([8, 48], [8, 3, 16], [16, 128, 1], Swizzle(3, 1, 3))", "shared_compose(shared_row_major(2,2),shared_column_major(4,4))", "shared_layout([4],[4],[0],None).unsqueeze(-1)",
		"row_major(2,2)*column_major(3, 4)", "global_layout([4, 6], [4, 2, 3], [1, 99999999999, 7], base=12).slice([1, 3], [1], [3]).permute(0)",
		"tmemory_row_major(128, 4, 32).slice(64, [0, 2], [64, 32])", "tmemory_layout([32, 2], [0, 0], lane_offset=96)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseShared(text); err == nil {
			again, err := ParseShared(s.String())
			if err != nil || !again.Equal(s) || again.String() != s.String() || again.Key() != s.Key() {
				t.Fatalf("%q prints %q, which reads as %v, %v", text, s, again, err)
			}
			if s.Size() <= 1<<12 && s.CountSize() < 1 {
				t.Fatalf("%q has no size", text)
			}
		}
		if g, err := ParseGlobal(text); err == nil {
			if again, err := ParseGlobal(g.String()); err != nil || !again.Equal(g) || again.String() != g.String() {
				t.Fatalf("%q prints %q, which reads as %v, %v", text, g, again, err)
			}
		}
		if m, err := ParseTMemory(text); err == nil {
			if again, err := ParseTMemory(m.String()); err != nil || !again.Equal(m) || again.String() != m.String() {
				t.Fatalf("%q prints %q, which reads as %v, %v", text, m, again, err)
			}
		}
	})
}

// seven is a chain of seven factors over 128 threads of 128 slots.
const seven = "local(2, 1).spatial(2, 2).local(2, 2).column_spatial(2, 1).local(2, 2).spatial(4, 4).column_local(2, 2)"

// Reading a chain and listing all it holds takes less than a millisecond; the
// test allows four for slow machines.
func TestEvaluationIsQuick(t *testing.T) {
	l := parse(t, seven)
	if l.Threads() != 128 || l.Slots() != 128 {
		t.Fatalf("%d threads of %d slots", l.Threads(), l.Slots())
	}
	result := testing.Benchmark(BenchmarkChain)
	if per := result.NsPerOp(); per > 4_000_000 {
		t.Errorf("a chain of 7 factors takes %d ns", per)
	}
}

func BenchmarkChain(b *testing.B) {
	for b.Loop() {
		l, err := Parse(seven)
		if err != nil || len(l.Flat()) != 128*128 {
			b.Fatal(err)
		}
	}
}

// The worked examples of the package comment.
func TestSharedByHand(t *testing.T) {
	tile, err := SharedRowMajorSwizzle(16, 8, 64)
	if err != nil || tile.Offset(1, 0) != 72 || tile.Offset(1, 8) != 64 || tile.Swizzle().String() != "Sw<3,3,3>" {
		t.Errorf("%s: %d %d, %v", tile, tile.Offset(1, 0), tile.Offset(1, 8), err)
	}
	if c, err := tile.Canonical(16); err != nil || c.String() != "K-major, 128-byte swizzle, 1 × 1 blocks, SBO 1, LBO 1" {
		t.Errorf("%s, %v", c, err)
	}
	stages, err := tile.Prepend(3)
	if err != nil || stages.CountSize() != 1536 {
		t.Errorf("%s, %v", stages, err)
	}
	if one, err := stages.Slice(1, 2); err != nil || !one.Equal(tile) {
		t.Errorf("%s, %v", one, err)
	}
	c := Local(2, 1).Spatial(8, 4).Local(1, 2)
	need, err := c.Holding().CollapseTo([]int{8})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.ReduceTo([]int{8})
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Holding().Covers(need); err != nil || !ok {
		t.Errorf("%s does not cover %s: %v", s, need, err)
	}
	if ok, err := Spatial(8).Local(1).Holding().Covers(need); err != nil || ok {
		t.Errorf("one holder a column covers %s: %v", need, err)
	}
}
