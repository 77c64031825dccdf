package notation

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
	"github.com/tilus-lab/tilus-lab/vm/layout/linear"
)

// warp is the number of lanes of a warp, where nothing else says it.
const warp = 32

// WithLanes is the value with warps of this many lanes in its linear form, a power
// of two: 64 for most of AMD's. Instructions have their own number of lanes.
func (v Value) WithLanes(n int) Value {
	v.lanes = n
	return v
}

// Registers is the value as a register layout. The error says why there is none.
func (v Value) Registers() (layout.Layout, error) {
	switch {
	case v.operand != nil && v.regs == nil:
		return layout.Layout{}, fail(eOpen, "", "the vendor does not say where the elements of operand %s lie", v.operand.Name)
	case v.regs != nil:
		return *v.regs, nil
	case v.kind == instruction:
		return layout.Layout{}, v.choose()
	case v.kind == registers:
		return linear.ToRegister(*v.lin)
	case v.composed != nil:
		return layout.Layout{}, fail(eKind, `write the tile behind it, as in "on 16x8", to read it as threads and values`, "a layout of memory holds no threads")
	case v.kind == general:
		return linear.ToRegister(*v.lin)
	}
	return layout.Layout{}, fail(eKind, "", "a %s holds no threads", v.What())
}

func (v Value) choose() error {
	var names []string
	for _, o := range v.atom.Operands {
		names = append(names, v.atom.Name+"/"+o.Name)
	}
	return fail(eOpen, "", "the instruction has several layouts; choose one of %s", strings.Join(names, ", "))
}

// Memory is the value as a layout of shared memory: index → offset in elements.
// The error says why there is none.
func (v Value) Memory() (layout.Shared, error) {
	switch {
	case v.shared != nil:
		return *v.shared, nil
	case v.global != nil:
		if v.global.Base() != 0 {
			return layout.Shared{}, fail(eForm, "", "the layout begins at offset %d", v.global.Base())
		}
		return layout.NewShared(v.global.Shape(), v.global.ModeShape(), v.global.ModeStrides(), layout.Swizzle{})
	case v.composed != nil:
		return composedToShared(*v.composed)
	case v.kind == memory:
		return linearToShared(*v.lin)
	case v.kind == instruction:
		return layout.Shared{}, v.choose()
	}
	return layout.Shared{}, fail(eKind, "", "a %s is no layout of memory", v.What())
}

// Linear is the value as a linear layout. Registers have dimensions register, lane
// (of 32, of AMD's instructions 32 or 64, see [Value.WithLanes]), warp and block;
// memory maps offset to the index; a swizzle maps offset to offset. The error says why there is none.
func (v Value) Linear() (linear.Layout, error) {
	switch v.kind {
	case swizzle:
		return swizzleToLinear(v.sw)
	case instruction:
		return linear.Layout{}, v.choose()
	case number:
		return linear.Layout{}, fail(eKind, "", "a number holds no places")
	case tensorMemory:
		return linear.Layout{}, fail(eForm, "", "a layout of tensor memory gives a lane and a column; its linear form is not written here")
	}
	if v.lin != nil {
		return *v.lin, nil
	}
	if v.kind == memory {
		s, err := v.Memory()
		if err != nil {
			return linear.Layout{}, err
		}
		return sharedToLinear(s)
	}
	l, err := v.Registers()
	if err != nil {
		return linear.Layout{}, err
	}
	lanes := cmp.Or(v.lanes, warp)
	if v.atom != nil && v.atom.Vendor == "amd" {
		lanes = v.atom.Lanes
	}
	return linear.FromRegister(l, lanes)
}

// CuTe is the value as CuTe writes it: (thread, value) → element of the
// column-major tile, or coordinate → offset. tile is the tile of the first kind,
// and nil for the second. The error says why there is none.
func (v Value) CuTe() (c cute.Composed, tile []int, err error) {
	switch {
	case v.composed != nil:
		return *v.composed, nil, nil
	case v.kind == memory:
		s, err := v.Memory()
		if err != nil {
			return c, nil, err
		}
		c, err = sharedToComposed(s)
		return c, nil, err
	case v.kind == swizzle:
		return c, nil, fail(eForm, "compose it with a layout, as in "+v.sw.String()+" o (8,64):(64,1)", "a swizzle alone is no layout")
	}
	l, err := v.Registers()
	if err != nil {
		return c, nil, err
	}
	c.Layout, err = cute.FromRegister(l)
	return c, l.Shape(), err
}

// Swizzle is the permutation of offsets that the value is or has: of a swizzle
// ("Sw<3,4,3>") itself, in the unit that its reader has in mind; of a layout of shared
// memory that of its offsets, in elements. It is false for other values, and for memory
// without a swizzle.
func (v Value) Swizzle() (layout.Swizzle, bool) {
	if v.kind == swizzle {
		return v.sw, true
	}
	if v.kind == memory {
		if s, err := v.Memory(); err == nil && !s.Swizzle().Identity() {
			return s.Swizzle(), true
		}
	}
	return layout.Swizzle{}, false
}

// Number is the result of an operation that gives a number or list, such as
// size((4,8):(8,1)).
func (v Value) Number() (cute.Tuple, bool) { return v.num, v.kind == number }

// To writes the value in one of [Forms]. [Read] reads the text back as the same
// map. The error is a diag.Problem that says why the form cannot express it.
func (v Value) To(form string) (string, error) {
	if !slices.Contains(Forms(), form) {
		help := diag.DidYouMean(form, Forms())
		if help == "" {
			help = "forms are " + strings.Join(Forms(), ", ")
		}
		return "", fail(eUnknown, help, "there is no form %q", form)
	}
	switch {
	case v.kind == instruction:
		return "", v.choose()
	case v.kind == number && form == CuTe:
		return v.num.String(), nil
	case v.kind == number:
		return "", fail(eForm, "", "%s is a number or list, not a layout", v.num)
	}
	switch form {
	case Chain, FourPart:
		return v.lists(form)
	case CuTe:
		if v.kind == swizzle {
			return v.sw.String(), nil
		}
		c, tile, err := v.CuTe()
		if err != nil {
			return "", err
		}
		if tile == nil {
			return c.String(), nil
		}
		return c.String() + " on " + shapeText(tile), nil
	case Linear:
		l, err := v.Linear()
		return text(l, err)
	}
	l, err := v.Linear()
	if err != nil {
		return "", err
	}
	if v.kind == swizzle {
		return "", fail(eForm, "compose it with a layout, as in "+v.sw.String()+" o (8,64):(64,1)", "a swizzle alone is no encoding of a tensor")
	}
	if l, err = l.TritonNames(); err != nil {
		return "", err
	}
	// Of a tensor of one element without dimensions there is no encoding.
	if len(l.Out) == 0 {
		return "", fail(eForm, "", "Triton has no encoding for a tensor without dimensions")
	}
	return v.encoding(l) + " on " + shapeText(l.Shape()), nil
}

// encoding is Triton's encoding of the layout: of an operand the one that names its
// part in a product, where it is one, and of others the plainest.
func (v Value) encoding(l linear.Layout) string {
	if v.operand != nil {
		family, part := "#ttg.nvidia_mma", ""
		if v.atom.Vendor == "amd" {
			family = "#ttg.amd_"
		}
		switch v.operand.Name {
		case "A":
			part = "#ttg.dot_op<{opIdx = 0"
		case "B":
			part = "#ttg.dot_op<{opIdx = 1"
		}
		for _, text := range l.EncodedAs() {
			if strings.HasPrefix(text, part) && strings.Contains(text, family) && (part != "" || strings.HasPrefix(text, family)) {
				return text
			}
		}
	}
	return l.Encoding()
}

func text(l linear.Layout, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return l.String(), nil
}

// lists writes the layout in the notation of package layout.
func (v Value) lists(form string) (string, error) {
	switch {
	case v.kind == swizzle:
		return "", fail(eForm, "compose it with a layout, as in "+v.sw.String()+" o (8,64):(64,1)", "a swizzle alone has no chain form")
	case v.global != nil && form == Chain:
		return v.global.String(), nil
	case v.tmem != nil && form == Chain:
		return v.tmem.String(), nil
	case v.tmem != nil:
		return "", fail(eForm, "", "a layout of tensor memory has a chain form only")
	case v.kind == memory:
		s, err := v.Memory()
		if err != nil {
			return "", err
		}
		if form == Chain {
			return s.String(), nil
		}
		w := ""
		if x := s.Swizzle(); !x.Identity() {
			w = fmt.Sprintf(", Swizzle(%d, %d, %d)", x.Base, x.Bits, x.Shift)
		}
		return "shared_layout(" + list(s.Shape()) + ", " + list(s.ModeShape()) + ", " + list(s.ModeStrides()) + w + ")", nil
	}
	l, err := v.Registers()
	if err != nil {
		return "", err
	}
	if form == FourPart {
		return "register_layout(" + list(l.Shape()) + ", " + list(l.ModeShape()) + ", " + list(l.SpatialModes()) + ", " + list(l.LocalModes()) + ")", nil
	}
	chain := l.String()
	if strings.HasPrefix(chain, "register_layout(") {
		return "", fail(eForm, "the four-part form says it", "no chain of factors counts so: threads or slots count the inner part of a dimension more slowly than the outer one")
	}
	return chain, nil
}

func list(ns []int) string {
	parts := make([]string, len(ns))
	for i, n := range ns {
		parts[i] = fmt.Sprint(n)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// Notation is a value in one form: the text, or why there is none.
type Notation struct {
	Form   string
	Text   string
	Reason string
}

// Notations writes the value in every form.
func (v Value) Notations() []Notation {
	var out []Notation
	for _, form := range Forms() {
		n := Notation{Form: form}
		var err error
		if n.Text, err = v.To(form); err != nil {
			n.Reason = reason(err)
		}
		out = append(out, n)
	}
	return out
}

// reason is an error on one line without its place.
func reason(err error) string {
	var list diag.List
	switch e := err.(type) {
	case diag.Problem:
		list = diag.List{e}
	case diag.List:
		list = e
	}
	if len(list) == 0 {
		return err.Error()
	}
	s := list[0].Msg
	if h := list[0].Help; h != "" && !strings.ContainsRune(h, '\n') {
		s += " (" + h + ")"
	}
	return s + " [" + list[0].Code + "]"
}

// Convert reads a text in any notation and writes it in one form.
func Convert(text, form string) (string, error) {
	v, err := Read(text)
	if err != nil {
		return "", err
	}
	return v.To(form)
}

// composedToShared is a CuTe layout of memory with a dimension for each mode.
func composedToShared(c cute.Composed) (layout.Shared, error) {
	c, err := c.Elements()
	if err != nil {
		return layout.Shared{}, err
	}
	if c.Offset != 0 {
		return layout.Shared{}, fail(eForm, "", "the layout begins at offset %d", c.Offset)
	}
	var shape, modes, strides []int
	for _, m := range c.Layout.Modes() {
		size, stride := m.Shape().Leaves(), m.Stride().Leaves()
		n := 1
		for i := len(size) - 1; i >= 0; i-- { // outermost first
			n *= size[i].Int()
			if size[i].Int() > 1 {
				modes, strides = append(modes, size[i].Int()), append(strides, stride[i].Int())
			}
		}
		shape = append(shape, n)
	}
	return layout.NewShared(shape, modes, strides, c.Swizzle)
}

// sharedToComposed writes a mode for each dimension.
func sharedToComposed(s layout.Shared) (cute.Composed, error) {
	modes, strides := s.ModeShape(), s.ModeStrides()
	var size, stride []cute.Tuple
	at := 0
	for _, n := range s.Shape() {
		var x, y []cute.Tuple
		for p := 1; p < n; at++ {
			p *= modes[at]
			x, y = append(x, cute.Int(modes[at])), append(y, cute.Int(strides[at]))
		}
		switch len(x) {
		case 0:
			size, stride = append(size, cute.Int(1)), append(stride, cute.Int(0))
		case 1:
			size, stride = append(size, x[0]), append(stride, y[0])
		default:
			slices.Reverse(x)
			slices.Reverse(y)
			size, stride = append(size, cute.Of(x...)), append(stride, cute.Of(y...))
		}
	}
	if len(size) == 0 {
		size, stride = []cute.Tuple{cute.Int(1)}, []cute.Tuple{cute.Int(0)}
	}
	l, err := cute.New(cute.Of(size...), cute.Of(stride...))
	return cute.Composed{Swizzle: s.Swizzle(), Layout: l}, err
}

// sharedToLinear maps offsets to indices.
func sharedToLinear(s layout.Shared) (linear.Layout, error) {
	shape := s.Shape()
	in := make([]linear.Dim, len(shape))
	plain := s.Unswizzled()
	all, seen, top := 0, 0, 0
	for d, n := range shape {
		if n&(n-1) != 0 {
			return linear.Layout{}, fail(eForm, "", "dimension %d has size %d, which is not a power of two", d, n)
		}
		in[d].Name = linear.DimName(d)
		index := make([]int, len(shape))
		for v := 1; v < n; v *= 2 {
			index[d] = v
			at := plain.Offset(index...)
			if seen&at != 0 {
				return linear.Layout{}, fail(eCarry, "", "index %d of dimension %d and another bit of the index add to the same bit of the offset, with carry", v, d)
			}
			seen |= at
			at = s.Swizzle().Apply(at)
			top |= at
			in[d].Bases = append(in[d].Bases, []int{at})
			all++
		}
	}
	if n := bits.Len(uint(top)); n > all {
		return linear.Layout{}, fail(eHoles, "", "%d elements lie in %d places: there are holes, and Triton maps every offset to an element", 1<<all, 1<<n)
	}
	forward, err := linear.New(in, []linear.OutDim{{Name: linear.Offset, Size: 1 << all}})
	if err != nil {
		return linear.Layout{}, err
	}
	l, err := forward.Invert()
	if err != nil {
		return linear.Layout{}, fail(eHoles, "", "two elements lie at one offset, and Triton maps every offset to one element")
	}
	l.In = append(l.In, linear.Dim{Name: linear.Block})
	return l, nil
}

// linearToShared undoes sharedToLinear; of several swizzles it finds the smallest.
func linearToShared(l linear.Layout) (layout.Shared, error) {
	for _, d := range l.In {
		if d.Name != linear.Offset && len(d.Bases) > 0 {
			return layout.Shared{}, fail(eForm, "", "elements also depend on %s, and a layout of memory is one block's", d.Name)
		}
	}
	part, err := l.Sub([]string{linear.Offset}, names(l))
	if err != nil {
		return layout.Shared{}, err
	}
	forward, err := part.Invert()
	if err != nil {
		return layout.Shared{}, fail(eHoles, "", "offsets and elements do not match one to one: the rank is %d, offsets have %d bits, elements %d", part.Rank(), part.InBits(), part.OutBits())
	}
	var words []int
	for _, d := range forward.In {
		for k := len(d.Bases) - 1; k >= 0; k-- { // outermost first
			words = append(words, d.Bases[k][0])
		}
	}
	w, ok := unswizzle(words, part.InBits())
	if !ok {
		return layout.Shared{}, fail(eForm, "", "the offsets are not strides with one swizzle Sw<B,M,S>")
	}
	modes := make([]int, len(words))
	for i := range words {
		modes[i], words[i] = 2, w.Apply(words[i])
	}
	return layout.NewShared(part.Shape(), modes, words, w)
}

func names(l linear.Layout) []string {
	var out []string
	for _, o := range l.Out {
		out = append(out, o.Name)
	}
	return out
}

// unswizzle finds the smallest swizzle that makes each of the words a single bit.
func unswizzle(words []int, n int) (layout.Swizzle, bool) {
	for b := 0; b <= n/2; b++ {
		for base := 0; base+b <= n; base++ {
			for distance := b; distance <= n-b-base || distance == b; distance++ {
				for _, s := range []int{distance, -distance} {
					w, err := layout.NewSwizzle(b, base, s)
					if err == nil && !slices.ContainsFunc(words, func(x int) bool { return bits.OnesCount(uint(w.Apply(x))) != 1 }) {
						return w, true
					}
				}
			}
			if b == 0 {
				break
			}
		}
	}
	return layout.Swizzle{}, false
}

// swizzleToLinear is the swizzle over as many bits as it names.
func swizzleToLinear(s layout.Swizzle) (linear.Layout, error) {
	n := s.Base + s.Bits + max(s.Shift, -s.Shift)
	if s.Identity() {
		n = 0
	}
	if n > linear.MaxBits {
		return linear.Layout{}, fail(eForm, "", "%s moves %d bits; at most %d have a linear form here", s, n, linear.MaxBits)
	}
	d := linear.Dim{Name: linear.Offset}
	for k := range n {
		d.Bases = append(d.Bases, []int{s.Apply(1 << k)})
	}
	return linear.New([]linear.Dim{d}, []linear.OutDim{{Name: "address", Size: 1 << n}})
}
