package exercise

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// chainLayout is a random chain of two or three factors over a small tile.
func chainLayout(r *rand.Rand) layout.Layout {
	factor := func(spatial bool) layout.Layout {
		shapes := [][]int{{2, 4}, {4, 2}, {2, 2}, {4, 4}, {2, 8}}
		if !spatial {
			shapes = [][]int{{2, 1}, {1, 2}, {2, 2}}
		}
		s := pick(r, shapes...)
		switch {
		case spatial && r.IntN(3) == 0:
			return layout.ColumnSpatial(s...)
		case spatial:
			return layout.Spatial(s...)
		case s[0] > 1 && s[1] > 1 && r.IntN(2) == 0:
			return layout.ColumnLocal(s...)
		}
		return layout.Local(s...)
	}
	switch r.IntN(3) {
	case 0:
		return factor(true).Mul(factor(false))
	case 1:
		return factor(false).Mul(factor(true))
	}
	return factor(false).Mul(factor(true)).Mul(factor(false))
}

func place(at []int) string { return strings.ReplaceAll(fmt.Sprint(at), " ", ", ") }

// newHolder asks where an element of a register layout is held, or what is held
// somewhere.
func newHolder(r *rand.Rand) (*Question, error) {
	l := chainLayout(r)
	thread, slot := r.IntN(l.Threads()), r.IntN(l.Slots())
	at := l.Index(thread, slot)
	q := &Question{why: fmt.Sprintf("slot %d of thread %d holds %s", slot, thread, place(at))}
	if r.IntN(2) == 0 {
		q.Text = fmt.Sprintf("The layout is %s. Which element does thread %d hold in slot %d?", l, thread, slot)
		q.Form = `an answer is "row, column"`
		q.answer = fmt.Sprintf("%d, %d", at[0], at[1])
		q.grade = func(answer string) (Verdict, error) {
			n := numbers(answer)
			if len(n) != 2 || len(l.Holders(n...)) == 0 {
				return Verdict{}, fmt.Errorf("%.40q is no element of a tile %s", answer, place(l.Shape()))
			}
			if slices.Equal(n, at) {
				return Verdict{true, q.why}, nil
			}
			h := l.Holders(n...)[0]
			return Verdict{Say: fmt.Sprintf("%s is in slot %d of thread %d", place(n), h.Slot, h.Thread)}, nil
		}
		return q, nil
	}
	q.Text = fmt.Sprintf("The layout is %s. Which thread holds element %s, and in which slot?", l, place(at))
	q.Form = `an answer is "thread, slot"`
	q.answer = fmt.Sprintf("%d, %d", thread, slot)
	q.grade = func(answer string) (Verdict, error) {
		n := numbers(answer)
		if len(n) != 2 || n[0] >= l.Threads() || n[1] >= l.Slots() {
			return Verdict{}, fmt.Errorf("%.40q is no place among %d threads of %d slots", answer, l.Threads(), l.Slots())
		}
		if n[0] == thread && n[1] == slot {
			return Verdict{true, q.why}, nil
		}
		return Verdict{Say: fmt.Sprintf("thread %d holds %s in slot %d", n[0], place(l.Index(n[0], n[1])), n[1])}, nil
	}
	return q, nil
}

// newProduct asks which layout spreads a tile in a given way, or for a factor of a
// product.
func newProduct(r *rand.Rand) (*Question, error) {
	q := &Question{Form: "an answer is a layout, such as local(2, 1).spatial(4, 8)"}
	var want layout.Layout
	if r.IntN(2) == 0 {
		want = chainLayout(r)
		for want.Threads() > 8 || want.Threads()*want.Slots() > 32 {
			want = chainLayout(r)
		}
		var b strings.Builder
		for t := range want.Threads() {
			fmt.Fprintf(&b, "\n  thread %d:", t)
			for s := range want.Slots() {
				b.WriteString(" " + place(want.Index(t, s)))
			}
		}
		q.Text = fmt.Sprintf("A tile %s is held like this, slot after slot. Which product of factors is that?%s", place(want.Shape()), b.String())
		q.why = fmt.Sprintf("%s, from the outside in; the last factor is what stands closest together", want)
	} else {
		// The divisor is no factor that stands in the text: it is the inner part of one, or of none.
		outer := layout.Spatial(pick(r, []int{8, 4}, []int{4, 8}, []int{2, 16}, []int{16, 2})...)
		a, b, v := pick(r, 2, 4), pick(r, 2, 3, 4), pick(r, 2, 4)
		inner, g := layout.Local(a, b*v), layout.Local(1, v)
		switch r.IntN(5) {
		case 0:
			inner = layout.ColumnLocal(a, b*v)
		case 1:
			inner, g = layout.ColumnLocal(b*v, a), layout.Local(v, 1)
		case 2:
			inner, g = layout.Local(b*v, a), layout.Local(v, 1)
		case 3:
			outer = layout.Local(1, 2).Mul(outer)
		}
		h := outer.Mul(inner)
		q.Text = fmt.Sprintf("What is the quotient %s / %s?", h, g)
		q.Form = `an answer is a layout, such as local(2, 1).spatial(4, 8), or "none" where there is no quotient`
		f, err := h.Div(g)
		exists := err == nil
		q.answer, q.why = "none", fmt.Sprintf("slots 0 and 1 of the one are %s and %s, of the other %s and %s; so it is not made of copies", place(h.Index(0, 0)), place(h.Index(0, 1)), place(g.Index(0, 0)), place(g.Index(0, 1)))
		if exists {
			q.answer, q.why = f.String(), fmt.Sprintf("%s · %s is %s: %d neighbours in each thread became one element", f, g, h, g.Slots())
		}
		q.grade = func(answer string) (Verdict, error) {
			if strings.EqualFold(strings.Trim(answer, ` ."`), "none") {
				if exists {
					return Verdict{Say: "there is one: its copies of the divisor follow each other"}, nil
				}
				return Verdict{true, q.why}, nil
			}
			l, err := layout.Parse(answer)
			switch {
			case err != nil:
				return Verdict{}, fmt.Errorf("%.60q is no layout", answer)
			case exists && l.Equal(f):
				return Verdict{true, q.why}, nil
			case l.Rank() != 2 || l.Size() > h.Size():
				return Verdict{Say: fmt.Sprintf("%s has the shape %s; times that of the divisor it must be %s", l, place(l.Shape()), place(h.Shape()))}, nil
			}
			return Verdict{Say: fmt.Sprintf("%s · %s is %s, another layout", l, g, l.Mul(g))}, nil
		}
		return q, nil
	}
	q.answer = want.String()
	q.grade = func(answer string) (Verdict, error) {
		l, err := layout.Parse(answer)
		if err != nil {
			return Verdict{}, fmt.Errorf("%.60q is no layout", answer)
		}
		if say := unlike(l, want); say != "" {
			return Verdict{Say: say}, nil
		}
		return Verdict{true, q.why}, nil
	}
	return q, nil
}

// unlike is the first thing in which a layout is not what is wanted, "" if none.
func unlike(l, want layout.Layout) string {
	switch {
	case !slices.Equal(l.Shape(), want.Shape()):
		return fmt.Sprintf("%s has the shape %s, and the right one another", l, place(l.Shape()))
	case l.Threads() != want.Threads():
		return fmt.Sprintf("%s has %d threads, and the right one another number", l, l.Threads())
	case l.Equal(want):
		return ""
	}
	for t := range l.Threads() {
		for s := range l.Slots() {
			if a := l.Index(t, s); !slices.Equal(a, want.Index(t, s)) {
				return fmt.Sprintf("%s has the right shape and threads, but thread %d does not hold %s in slot %d", l, t, place(a), s)
			}
		}
	}
	return fmt.Sprintf("%s is another layout", l)
}

// newFragment asks for places in the fragments of matrix and copy instructions of
// NVIDIA's warps.
func newFragment(r *rand.Rand) (*Question, error) {
	name := pick(r, "mma.m16n8k16.f32.f16", "mma.m16n8k8.f32.f16", "mma.m16n8k32.s32.s8", "mma.m16n8k8.f32.tf32")
	a, err := arch.FindAtom(name)
	if err != nil {
		return nil, err
	}
	operand := pick(r, "A", "B", "C")
	o, ok := a.Operand(operand)
	if !ok {
		return nil, fmt.Errorf("%s has no operand %s", name, operand)
	}
	l := o.Layout
	lane, slot := r.IntN(a.Lanes), r.IntN(l.Slots())
	at := l.Index(lane, slot)
	q := &Question{
		Text: fmt.Sprintf("In %s (%s is %s[%d, %d]), which lane holds %s%s, and in which slot?", name, operand, o.Type, l.Shape()[0], l.Shape()[1], operand, place(at)),
		Form: `an answer is "lane, slot"`,
	}
	per := 32 / o.SlotBits()
	q.answer = fmt.Sprintf("%d, %d", lane, slot)
	q.why = fmt.Sprintf("the layout of %s is %s; lane %d has %s%s in slot %d", operand, l, lane, operand, place(at), slot)
	if per > 1 {
		q.why += fmt.Sprintf(", bits %d to %d of its register %d", slot%per*o.SlotBits(), (slot%per+1)*o.SlotBits()-1, slot/per)
	}
	q.grade = func(answer string) (Verdict, error) {
		n := numbers(answer)
		if len(n) != 2 || n[0] >= a.Lanes || n[1] >= l.Slots() {
			return Verdict{}, fmt.Errorf("%.40q is no place among %d lanes of %d slots", answer, a.Lanes, l.Slots())
		}
		if n[0] == lane && n[1] == slot {
			return Verdict{true, q.why}, nil
		}
		return Verdict{Say: fmt.Sprintf("lane %d has %s%s in slot %d", n[0], operand, place(l.Index(n[0], n[1])), n[1])}, nil
	}
	return q, nil
}

// newView asks for the layout of the bytes that a tile of a low-bit type is viewed
// from.
func newView(r *rand.Rand) (*Question, error) {
	t := pick(r, dtype.U2, dtype.U3, dtype.U4, dtype.I5, dtype.I6, dtype.U7)
	l := pick(r, layout.ColumnSpatial(4, 8).Local(2, 1), layout.Spatial(8, 4).Local(1, 2), layout.Spatial(32, 4), layout.ColumnSpatial(4, 8).Local(4, 1))
	l = layout.Local(pick(r, 1, 2, 4), 1).Mul(l)
	q := &Question{
		Text: fmt.Sprintf("A tile %s%s over %d threads has the layout %s. Its bits are to come from memory as bytes, u8[%d], so that View makes them the tile. Which layout of the bytes gives each thread neighbours?",
			t, place(l.Shape()), l.Threads(), l, l.Size()*t.Bits()/8),
		Form: `an answer is a layout of one dimension, such as spatial(32).local(2), or "none" where a thread's share is no whole number of bytes`,
	}
	share := l.Slots() * t.Bits()
	whole := share%8 == 0
	q.answer, q.why = "none", fmt.Sprintf("a thread holds %d × %d = %d bits", l.Slots(), t.Bits(), share)
	want := layout.Spatial(l.Threads()).Local(max(1, share/8))
	if whole {
		q.answer = want.String()
		q.why += fmt.Sprintf(", %d bytes", share/8)
	}
	q.grade = func(answer string) (Verdict, error) {
		none := strings.EqualFold(strings.Trim(answer, ` ."`), "none")
		bytes, err := layout.Parse(answer)
		switch {
		case none && !whole:
			return Verdict{true, q.why}, nil
		case none:
			return Verdict{Say: q.why + ", which is whole bytes"}, nil
		case err != nil:
			return Verdict{}, fmt.Errorf("%.60q is no layout", answer)
		case bytes.Threads() != l.Threads():
			return Verdict{Say: fmt.Sprintf("View keeps the threads, and %s has %d of them", bytes, bytes.Threads())}, nil
		case 8*bytes.Slots() != share:
			return Verdict{Say: fmt.Sprintf("%s gives a thread %d bits; %s", bytes, 8*bytes.Slots(), q.why)}, nil
		case bytes.Equal(want):
			return Verdict{true, q.why}, nil
		}
		return Verdict{Say: fmt.Sprintf("thread 0 would hold bytes %s and %s, which are no neighbours", place(bytes.Index(0, 0)), place(bytes.Index(0, 1%bytes.Slots())))}, nil
	}
	return q, nil
}

// newBits asks which bytes hold a packed element, what value some bits are, or how
// bytes become a tile.
func newBits(r *rand.Rand) (*Question, error) {
	if r.IntN(3) == 0 {
		return newView(r)
	}
	t := pick(r, dtype.U3, dtype.I5, dtype.I6, dtype.U6, dtype.I7, dtype.U4)
	n := t.Bits()
	q := &Question{}
	if r.IntN(2) == 0 {
		k := 1 + r.IntN(20)
		lo, hi := k*n/8, (k*n+n-1)/8
		q.Text = fmt.Sprintf("Elements of type %s are packed one after the other, low bits first. In which bytes is element %d, and from which bit of the first of them?", t, k)
		q.Form = `an answer is "first byte, last byte, bit"`
		q.answer = fmt.Sprintf("%d, %d, %d", lo, hi, k*n%8)
		q.why = fmt.Sprintf("element %d takes bits %d to %d, and %d = 8 · %d + %d", k, k*n, k*n+n-1, k*n, lo, k*n%8)
		q.grade = func(answer string) (Verdict, error) {
			got := numbers(answer)
			if len(got) != 3 {
				return Verdict{}, fmt.Errorf("%.40q is not three numbers", answer)
			}
			if slices.Equal(got, []int{lo, hi, k * n % 8}) {
				return Verdict{true, q.why}, nil
			}
			first := 8*got[0] + got[2]
			if first%n != 0 {
				return Verdict{Say: fmt.Sprintf("at bit %d no element begins", first)}, nil
			}
			if first/n != k {
				return Verdict{Say: fmt.Sprintf("at bit %d begins element %d", first, first/n)}, nil
			}
			return Verdict{Say: fmt.Sprintf("element %d begins there, but its last bit is not in byte %d", k, got[1])}, nil
		}
		return q, nil
	}
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.IntN(256))
	}
	k := 1 + r.IntN(6)
	code := dtype.Get(data, n, k)
	value := t.Decode(code)
	var shown []string
	for i := min(len(data), 6) - 1; i >= 0; i-- {
		shown = append(shown, fmt.Sprintf("%08b", data[i]))
	}
	if k*n+n > 8*len(shown) {
		k = 1
		code = dtype.Get(data, n, k)
		value = t.Decode(code)
	}
	q.Text = fmt.Sprintf("These are %d bytes, the last one first: %s. They hold elements of type %s, packed from the lowest bit. What is element %d (the first is 0)?", len(shown), strings.Join(shown, " "), t, k)
	q.Form = "an answer is a number"
	q.answer = fmt.Sprint(value)
	q.why = fmt.Sprintf("bits %d to %d are %0*b, which is %v", k*n, k*n+n-1, n, code, value)
	q.grade = func(answer string) (Verdict, error) {
		var v float64
		if _, err := fmt.Sscanf(answer+"\n", "%g\n", &v); err != nil {
			return Verdict{}, fmt.Errorf("%.40q is no number", answer)
		}
		if v == value {
			return Verdict{true, q.why}, nil
		}
		if t.Signed() && v == float64(code) {
			return Verdict{Say: fmt.Sprintf("the bits are those of %v, but %s has a sign: the top bit counts −%d", v, t, 1<<(n-1))}, nil
		}
		for i := range 8 * len(shown) / n {
			if i != k && t.Decode(dtype.Get(data, n, i)) == v {
				return Verdict{Say: fmt.Sprintf("that is element %d", i)}, nil
			}
		}
		return Verdict{Say: "no element is that"}, nil
	}
	return q, nil
}
