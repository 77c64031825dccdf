package cute

import (
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// TestRegister translates random register layouts there and back, and compares
// every place.
func TestRegister(t *testing.T) {
	each(t, 8, func(r *rand.Rand) {
		rank := 1 + r.Intn(3)
		l := layout.Layout{}
		for i := range 1 + r.Intn(4) {
			shape := make([]int, rank)
			for d := range shape {
				shape[d] = 1 + r.Intn(3)
			}
			atom := []layout.Layout{layout.Local(shape...), layout.Spatial(shape...), layout.ColumnLocal(shape...), layout.ColumnSpatial(shape...), layout.Replicated(2, make1(rank)...)}[r.Intn(5)]
			if i == 0 {
				l = atom
				continue
			}
			if l.Size()*atom.Size() > 1<<12 {
				break
			}
			l = l.Mul(atom)
		}
		c, err := FromRegister(l)
		if err != nil {
			t.Errorf("%s: %v", l, err)
			return
		}
		if c.Mode(0).Size() != l.Threads() || c.Mode(1).Size() != l.Slots() {
			t.Errorf("%s is %s", l, c)
		}
		for thread := range l.Threads() {
			for slot := range l.Slots() {
				want, outer := 0, 1
				for d, x := range l.Index(thread, slot) {
					want += x * outer
					outer *= l.Shape()[d]
				}
				if got := c.At(thread + slot*l.Threads()); got != want {
					t.Errorf("%s is %s: thread %d slot %d has %d, want %d", l, c, thread, slot, got, want)
					return
				}
			}
		}
		back, err := ToRegister(c, l.Shape()...)
		if err != nil || !back.Equal(l) {
			t.Errorf("%s is %s, which is %s, %v", l, c, back, err)
		}
	})
}

func make1(n int) []int { return slices.Repeat([]int{1}, n) }

func TestNoRegister(t *testing.T) {
	for _, c := range []struct {
		text  string
		shape []int
		say   string
	}{
		{"(4,2):(1,4)", []int{16}, "does not cover"},
		{"(4,2):(2,8)", []int{16}, "reaches only every 2-th"},
		{"(4,2):(1,0)", []int{4}, "no element twice"},
		{"(4,4):(1,1)", []int{16}, "does not cover"},
		{"4:1", []int{4}, "not the two of threads and values"},
		{"(4,2):(1@0,1@1)", []int{4, 2}, "gives coordinates"},
		{"(4,2):(-1,4)", []int{8}, "only count upwards"},
		{"(4,4):(1,4)", []int{4}, "beyond the tile"},
		{"(4,4):(1,4)", []int{6, 6}, "no part of dimension"},
		{"(4,3):(1,4)", []int{8, 2}, "in the middle"},
		{"(2,5):(5,1)", []int{3, 4}, "no part of dimension"},
		{"(4,4):(1,4)", []int{0}, "no tile has shape"},
	} {
		l, err := ToRegister(mustParse(t, c.text), c.shape...)
		if err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s in %v: %s, %v, want %q", c.text, c.shape, l, err, c.say)
		}
	}
}
