package index

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

func entry(t *testing.T, body string) *hlo.Computation {
	t.Helper()
	m, err := hlo.Parse("t", "ENTRY e {\n"+body+"\n}")
	if err != nil {
		t.Fatal(err)
	}
	return m.Entry
}

// TestRuntimeSources: a runtime variable keeps its own source when slices at run time
// follow each other; a start out of range stays, since it is clamped.
func TestRuntimeSources(t *testing.T) {
	c := entry(t, `p = f32[100] parameter(0)
 a = s32[] parameter(1)
 b = s32[] parameter(2)
 x = f32[50] dynamic-slice(p, a), dynamic_slice_sizes={50}
 ROOT y = f32[10] dynamic-slice(x, b), dynamic_slice_sizes={10}`)
	x := Group(c, c.Root)[c.Params[0]][0]
	if len(x.Runtime) != 2 {
		t.Fatalf("%s", x)
	}
	for i, want := range []struct {
		source string
		hi     int64
	}{{"a", 50}, {"b", 40}} {
		if x.Runtime[i].Source.Name != want.source || x.Map.Runtime[i].Range.Hi != want.hi {
			t.Errorf("rt%d is %s in %s", i, x.Runtime[i].Source.Name, x.Map.Runtime[i].Range)
		}
	}
	for _, c := range []struct{ start, want string }{
		{"c = s32[] constant(7)", "(d0) -> (d0 + 7), domain: d0 in [0, 9]"},
		{"c = s32[] constant(91)", "rt0 in [0, 90]"},
		{"c = s32[] constant(-1)", "rt0 in [0, 90]"},
	} {
		e := entry(t, " p = f32[100] parameter(0)\n "+c.start+"\n ROOT y = f32[10] dynamic-slice(p, c), dynamic_slice_sizes={10}")
		if got := Group(e, e.Root)[e.Params[0]][0].String(); !strings.Contains(got, c.want) {
			t.Errorf("%s gives %s", c.start, got)
		}
	}
}

// TestKnownStarts: a start that is a constant is taken wherever the slice is read, also in
// windows and sums, whose places have range variables.
func TestKnownStarts(t *testing.T) {
	m, err := hlo.Parse("t", `or {
 a = u64[] parameter(0)
 b = u64[] parameter(1)
 ROOT r = u64[] or(a, b)
}
ENTRY e {
 p = u64[5,12] parameter(0)
 one = s32[] constant(1)
 four = s32[] constant(4)
 x = u64[4,5] dynamic-slice(p, one, four), dynamic_slice_sizes={4,5}
 z = u64[] constant(0)
 ROOT w = u64[2,4] reduce-window(x, z), window={size=1x3 stride=2x1 pad=0_0x0_1}, to_apply=or
}`)
	if err != nil {
		t.Fatal(err)
	}
	x := Group(m.Entry, m.Entry.Root)[m.Entry.Params[0]][0]
	if want := "(d0, d1)[s0] -> (d0 * 2 + 1, d1 + s0 + 4), domain: d0 in [0, 1], d1 in [0, 3], s0 in [0, 2], d1 + s0 in [0, 4]"; x.String() != want {
		t.Errorf("%s, not %s", x, want)
	}
}

// TestStartsOfIota: a start that an iota gives is its coordinate as far as no clamp changes
// it; XLA takes it in any case.
func TestStartsOfIota(t *testing.T) {
	for _, c := range []struct {
		rows         int
		ours, theirs string
	}{
		{33, "(d0, d1, d2) -> (d0, 0), domain: d0 in [0, 32]", "(d0, d1, d2) -> (d0, 0), domain: d0 in [0, 32]"},
		{42, "(d0, d1, d2){rt0} -> (rt0, 0), domain: d0 in [0, 41]", "(d0, d1, d2) -> (d0, 0), domain: d0 in [0, 41]"},
	} {
		e := entry(t, fmt.Sprintf(` p = f32[33,76] parameter(0)
 i = s64[%d,1] iota(), iota_dimension=0
 ROOT g = f32[%d,1,1] gather(p, i), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,1}`, c.rows, c.rows))
		x := Group(e, e.Root)[e.Params[0]][0]
		if !strings.HasPrefix(x.Map.String(), c.ours) || !strings.HasPrefix(x.Unclamped().Map.String(), c.theirs) {
			t.Errorf("%d rows: %s, and %s", c.rows, x.Map, x.Unclamped().Map)
		}
	}
}

// TestReshapes: every pair of shapes of 24 elements leads to the element at the same
// row-major place.
func TestReshapes(t *testing.T) {
	shapes := [][]int{{24}, {1, 24}, {2, 12}, {2, 3, 4}, {4, 6}, {3, 8}, {24, 1}, {2, 1, 12}, {6, 2, 2}, {1, 3, 1, 8}}
	for _, from := range shapes {
		for _, into := range shapes {
			m := Reshaped(from, into)
			err := m.Points(1000, func(dims, _, results []int64) error {
				a, b := int64(0), int64(0)
				for i, v := range dims {
					a = a*int64(from[i]) + v
				}
				for i, v := range results {
					b = b*int64(into[i]) + v
				}
				if a != b {
					return fmt.Errorf("%v leads to %v", dims, results)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%v to %v: %v (%s)", from, into, err, m)
			}
			if err := m.Bijective(into); err != nil {
				t.Errorf("%v to %v: %v", from, into, err)
			}
		}
	}
	if m := Reshaped([]int{0, 4}, []int{4, 0}); !m.KnownEmpty() {
		t.Errorf("nothing to nothing is %s", m)
	}
}

// TestBitcastKeepsBytes: the offset in memory is the same on both sides.
func TestBitcastKeepsBytes(t *testing.T) {
	layouts := [][]int{nil, {0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}}
	for _, la := range layouts {
		for _, lb := range layouts {
			for _, dims := range [][]int{{2, 3, 4}, {4, 3, 2}, {1, 6, 4}} {
				a := hlo.Shape{Type: hlo.F32, Dims: []int{2, 3, 4}, Layout: la}
				b := hlo.Shape{Type: hlo.F32, Dims: dims, Layout: lb}
				through, err := affine.Compose(Bitcast(a, b), Offset(b))
				if err != nil {
					t.Fatal(err)
				}
				if err := affine.Same(through, Offset(a)); err != nil {
					t.Errorf("%s to %s: %v", a, b, err)
				}
			}
		}
	}
}
