package conform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// question makes a kind of one function from the input to the answer; an error
// means that there is no answer, which is what cases with ok = false expect.
func question[T any](name, doc string, answer func(in T) (map[string]any, error)) Kind {
	return Kind{name, doc, func(input, expect json.RawMessage) (string, error) {
		var in T
		if err := json.Unmarshal(input, &in); err != nil {
			return "", fmt.Errorf("input: %w", err)
		}
		got, err := answer(in)
		return "", judge(got, err, expect)
	}}
}

// judge holds an answer, or the error that there is none, against what is expected.
func judge(got map[string]any, err error, expect json.RawMessage) error {
	var want struct{ OK *bool }
	if err := json.Unmarshal(expect, &want); err != nil {
		return fmt.Errorf("expect: %w", err)
	}
	var broken notAnAnswer
	switch {
	case errors.As(err, &broken):
		return err
	case want.OK != nil && !*want.OK:
		if err == nil {
			return fmt.Errorf("an error is expected, the answer is %s", short(got))
		}
		return compare(merge(map[string]any{"ok": false}, got), expect, sameShared)
	case err != nil:
		return err
	}
	return compare(merge(map[string]any{"ok": true}, got), expect, sameShared)
}

// memoryKinds are the kinds about layouts in shared, global and tensor memory and
// about set-valued maps.
func memoryKinds() []Kind {
	return []Kind{
		question("shared", "a shared layout in notation: its lists, size and all offsets", func(in struct{ Expr string }) (map[string]any, error) {
			return describeShared(layout.ParseShared(in.Expr))
		}),
		question("byte_swizzle", "a swizzle of elements as one of bytes", func(in swizzleLists) (map[string]any, error) {
			s, err := layout.NewShared(nil, nil, nil, in.swizzle())
			if err != nil {
				return nil, err
			}
			w, err := s.ByteSwizzle(in.NBytes)
			if err != nil {
				return nil, err
			}
			return map[string]any{"base": w.Base, "bits": w.Bits, "shift": w.Shift}, nil
		}),
		question("canonical_smem", "a form of matrix operand from its parameters", func(in canonicalInput) (map[string]any, error) {
			c, err := in.form()
			if err != nil {
				return nil, err
			}
			// Theirs wants whole blocks between blocks; matrix instructions do not.
			block := 8 * c.T * max(1, c.Width/16)
			m, k := c.SBO, c.LBO
			if c.Major == layout.MajorMN && c.Width > 0 {
				m, k = k, m
			}
			if c.M > 1 && m%block != 0 || c.K > 1 && k%block != 0 {
				return nil, fmt.Errorf("distances of %d and %d elements are no multiples of the %d in a block", m, k, block)
			}
			return describeShared(c.Layout())
		}),
		question("generate_canonical", "the form that lays an operand out, and its recognition", generateCanonical),
		question("global", "offsets in a global layout", globalOffsets),
		question("global_compose", "an offset in the product of two global layouts", func(in struct {
			Outer, Inner string
			Index        []int
		}) (map[string]any, error) {
			g, err := layout.ParseGlobal("(" + in.Outer + ")*(" + in.Inner + ")")
			if err != nil {
				return nil, err
			}
			off, err := globalAt(g, in.Index)
			return map[string]any{"offset": off}, err
		}),
		question("mfunction_cover", "whether one set-valued map covers another", func(in struct{ FA, FB [][]int }) (map[string]any, error) {
			a, err := multi(in.FA)
			if err != nil {
				return nil, err
			}
			b, err := multi(in.FB)
			if err != nil {
				return nil, err
			}
			size := func(f layout.MultiFunction) (n int) {
				n = 1
				for _, d := range f.Shape() {
					n *= d
				}
				return n
			}
			if size(a) != size(b) || a.Range() != b.Range() { // theirs asks for both
				return map[string]any{"value": false}, nil
			}
			ok, err := a.Covers(b)
			return map[string]any{"value": ok}, err
		}),
		{"mfunction_mul", "one set-valued map after another", multiProduct},
		question("tmem_row_major", "a tile in tensor memory", func(in struct{ Shape []int }) (map[string]any, error) {
			return describeTMemory(layout.TMemoryRowMajor(in.Shape...))
		}),
		question("tmem_slice", "a part of a tile in tensor memory", func(in struct {
			Base, Shape []int
			LaneOffset  int   `json:"lane_offset"`
			SliceDims   []int `json:"slice_dims"`
		}) (map[string]any, error) {
			t, err := layout.TMemoryRowMajor(in.Base...)
			if err != nil {
				return nil, err
			}
			return describeTMemory(t.Slice(in.LaneOffset, in.SliceDims, in.Shape))
		}),
	}
}

type swizzleLists struct {
	Base   int `json:"base"`
	Bits   int `json:"bits"`
	Shift  int `json:"shift"`
	NBytes int `json:"nbytes,omitempty"`
}

func (w swizzleLists) swizzle() layout.Swizzle {
	return layout.Swizzle{Bits: w.Bits, Base: w.Base, Shift: w.Shift}
}

type sharedLists struct {
	Shape       []int         `json:"shape"`
	ModeShape   []int         `json:"mode_shape"`
	ModeStrides []int         `json:"mode_strides"`
	Swizzle     *swizzleLists `json:"swizzle"`
}

func listShared(s layout.Shared) sharedLists {
	out := sharedLists{s.Shape(), s.ModeShape(), s.ModeStrides(), nil}
	if w := s.Swizzle(); !w.Identity() {
		out.Swizzle = &swizzleLists{Base: w.Base, Bits: w.Bits, Shift: w.Shift}
	}
	return out
}

// sameShared takes lists that are not canonical for those of the layout they make.
func sameShared(_ string, got, want any) bool {
	g, err := asShared(got)
	if err != nil {
		return false
	}
	w, err := asShared(want)
	return err == nil && g.Equal(w)
}

func asShared(v any) (layout.Shared, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return layout.Shared{}, err
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.DisallowUnknownFields()
	var s sharedLists
	if err := d.Decode(&s); err != nil {
		return layout.Shared{}, err
	}
	if s.Shape == nil || s.ModeShape == nil || s.ModeStrides == nil {
		return layout.Shared{}, errors.New("not the lists of a shared layout")
	}
	var w layout.Swizzle
	if s.Swizzle != nil {
		w = s.Swizzle.swizzle()
	}
	return layout.NewShared(s.Shape, s.ModeShape, s.ModeStrides, w)
}

// describeShared is what cases say about a shared layout.
func describeShared(s layout.Shared, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	if s.Size() > maxMap {
		return nil, notAnAnswer{fmt.Sprintf("%d elements are more than the %d that a case may have", s.Size(), maxMap)}
	}
	offsets := s.Offsets()
	text, err := json.Marshal(offsets)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return map[string]any{"layout": listShared(s), "count_size": s.CountSize(), "offsets_sha256": hex.EncodeToString(sum[:]), "offsets_row_major": offsets}, nil
}

// canonicalInput is the union of the inputs about canonical operand forms.
type canonicalInput struct {
	Major, Swizzle string
	SBO, LBO       int
	M, K, T        int
	Shape          []int
	Dtype          string
}

var swizzleWidths = map[string]int{"NO_SWIZZLE": 0, "B32_SWIZZLE": 32, "B64_SWIZZLE": 64, "B128_SWIZZLE": 128}

func (in canonicalInput) form() (layout.Canonical, error) {
	width, ok := swizzleWidths[in.Swizzle]
	if !ok {
		return layout.Canonical{}, fmt.Errorf("no swizzle is called %q", in.Swizzle)
	}
	return layout.Canonical{Major: layout.Major(in.Major), Width: width, SBO: in.SBO, LBO: in.LBO, M: in.M, K: in.K, T: in.T}, nil
}

func generateCanonical(in canonicalInput) (map[string]any, error) {
	form, err := in.form()
	if err != nil {
		return nil, err
	}
	t, ok := dtype.FromTilusName(in.Dtype)
	if !ok {
		return nil, fmt.Errorf("no element type is called %q", in.Dtype)
	}
	c, err := layout.CanonicalFor(in.Shape, t.Bits(), form.Major, form.Width)
	if err != nil {
		return nil, err
	}
	s, err := c.Layout()
	if err != nil {
		return nil, err
	}
	out, err := describeShared(s, nil)
	if err != nil {
		return nil, err
	}
	back, err := s.Canonical(t.Bits())
	if err != nil {
		return nil, notAnAnswer{err.Error()}
	}
	return merge(out, merge(describeCanonical(c), map[string]any{"recognised_back": describeCanonical(back)})), nil
}

func describeCanonical(c layout.Canonical) map[string]any {
	out := map[string]any{"major": c.Major, "SBO": c.SBO, "LBO": c.LBO, "m": c.M, "k": c.K, "T": c.T}
	for name, width := range swizzleWidths {
		if width == c.Width {
			out["swizzle"] = name
		}
	}
	return out
}

// A global layout may stand as a name that ends with its shape, row_major_5x7, or
// with its shape and strides, strides_5x7_8x1.
var (
	globalName    = regexp.MustCompile(`^(row_major|column_major)_(\d+(?:x\d+)*)$`)
	globalStrides = regexp.MustCompile(`^strides_(\d+(?:x\d+)*)_(\d+(?:x\d+)*)$`)
)

func globalOffsets(in struct {
	Layout  string
	Indices [][]int
}) (map[string]any, error) {
	expr := in.Layout
	comma := func(sizes string) string { return strings.ReplaceAll(sizes, "x", ", ") }
	if m := globalName.FindStringSubmatch(expr); m != nil {
		expr = m[1] + "(" + comma(m[2]) + ")"
	} else if m := globalStrides.FindStringSubmatch(expr); m != nil {
		expr = "strides([" + comma(m[1]) + "], [" + comma(m[2]) + "])"
	}
	g, err := layout.ParseGlobal(expr)
	if err != nil {
		return nil, err
	}
	offsets := []int{}
	for _, index := range in.Indices {
		off, err := globalAt(g, index)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, off)
	}
	return map[string]any{"offsets": offsets}, nil
}

func globalAt(g layout.Global, index []int) (int, error) {
	shape := g.Shape()
	if len(index) != len(shape) {
		return 0, fmt.Errorf("%d indices for rank %d", len(index), len(shape))
	}
	for i, v := range index {
		if v < 0 || v >= shape[i] {
			return 0, fmt.Errorf("index %v lies outside shape %v", index, shape)
		}
	}
	return g.Offset(index...), nil
}

func multi(lists [][]int) (layout.MultiFunction, error) {
	if len(lists) != 3 {
		return layout.MultiFunction{}, fmt.Errorf("a map has three lists, not %d", len(lists))
	}
	return layout.NewMultiFunction(lists[0], lists[1], lists[2])
}

// multiProduct composes two maps. Lists that are not canonical (upstream leaves
// modes apart that nothing tells apart) count for the map they make.
func multiProduct(input, expect json.RawMessage) (string, error) {
	var in struct{ A, B [][]int }
	if err := json.Unmarshal(input, &in); err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	f, err := func() (layout.MultiFunction, error) {
		a, err := multi(in.A)
		if err != nil {
			return layout.MultiFunction{}, err
		}
		b, err := multi(in.B)
		if err != nil {
			return layout.MultiFunction{}, err
		}
		return a.Then(b)
	}()
	if err != nil {
		return "", judge(nil, err, expect)
	}
	out := map[string]any{"shape": f.Shape(), "mode_shape": f.ModeShape(), "modes": f.Modes()}
	var want struct {
		Shape     []int
		ModeShape []int `json:"mode_shape"`
		Modes     []int
	}
	if json.Unmarshal(expect, &want) == nil {
		if w, err := layout.NewMultiFunction(want.Shape, want.ModeShape, want.Modes); err == nil && w.Equal(f) {
			out["mode_shape"], out["modes"] = want.ModeShape, want.Modes
		}
	}
	return "", judge(out, nil, expect)
}

func describeTMemory(t layout.TMemory, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	return map[string]any{"shape": t.Shape(), "column_strides": t.ColumnStrides(), "lane_offset": t.LaneOffset()}, nil
}
