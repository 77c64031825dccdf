package linear

import (
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// ParseTriton reads an encoding of Triton's MLIR, such as
//
//	#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
//
// and lays a tensor of this shape out as Triton does. Where the shape is larger
// than the tile of the encoding, more registers repeat it; where it is smaller,
// the highest bits of the tile replicate. Definitions of names may stand in front:
//
//	#mma = #ttg.nvidia_mma<{…}> #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
//
// Constructors of Gluon stand for encodings too, as in
//
//	BlockedLayout(size_per_thread=[1, 4], threads_per_warp=[8, 4], warps_per_cta=[4, 1], order=[1, 0])
//
// Encodings of registers have the input dimensions register, lane, warp and block;
// those of shared memory have offset and block. Output dimensions are dim0, dim1, ….
// shape may be nil for ttg.linear and ttg.shared_linear, which then have the size
// that their bases span. The error is a diag.List with columns.
//
// Source: triton-lang/triton, lib/Dialect/TritonGPU/IR/LinearLayoutConversions.cpp.
func ParseTriton(text string, shape []int) (Layout, error) {
	return guard(text, func(p *parser) Layout {
		if p.atConstructor() {
			at := p.tok
			return p.layoutOf(p.construct(), shape, at)
		}
		if p.tok.kind != 'w' || p.word()[0] != '#' {
			p.problem(p.tok, eSyntax, "", "an encoding such as #ttg.blocked<{…}> is wanted here, not %s", p.quote())
		}
		return p.encoding(shape)
	})
}

// encoder turns attributes into layouts. Its methods panic with located problems
// about parameters, as the parser does, and return errors of the algebra.
type encoder struct{ *parser }

// encodings lists the names of the encodings and the parameters of each.
var encodings = map[string][]string{
	"linear":          nil,
	"shared_linear":   nil,
	"blocked":         {"sizePerThread", "threadsPerWarp", "warpsPerCTA", "order"},
	"nvidia_mma":      {"versionMajor", "versionMinor", "warpsPerCTA", "instrShape"},
	"amd_mfma":        {"version", "versionMajor", "versionMinor", "warpsPerCTA", "instrShape", "isTransposed", "tilesPerWarp", "elementBitWidth", "elementType"},
	"amd_wmma":        {"version", "warpsPerCTA", "isTransposed", "isTranspose", "instrShape", "tilesPerWarp"},
	"dot_op":          {"opIdx", "parent", "kWidth"},
	"slice":           {"dim", "parent"},
	"swizzled_shared": {"vec", "perPhase", "maxPhase", "order"},
	"shared":          {"vec", "perPhase", "maxPhase", "order", "hasLeadingOffset"},
	"nvmma_shared":    {"swizzlingByteWidth", "transposed", "elementBitWidth", "fp4Padded", "rank"},
}

// cluster are the parameters about blocks of a cluster, which most encodings take.
var cluster = []string{"CTAsPerCGA", "CTASplitNum", "CTAOrder", "CGALayout"}

func (e *encoder) layout(a *attribute, shape []int) (Layout, error) {
	known, ok := encodings[a.name]
	if !ok {
		var names []string
		for n := range encodings {
			names = append(names, n)
		}
		slices.Sort(names)
		help := diag.DidYouMean(a.name, names)
		switch a.name {
		case "padded_shared":
			help = "padding adds to addresses with carry, which is not linear over F2"
		case "":
		default:
			if help == "" {
				help = "known are " + strings.Join(names, ", ")
			}
		}
		e.problem(a.at, eEncoding, help, "there is no linear layout for the encoding %q", a.name)
	}
	if len(shape) > MaxDims {
		return Layout{}, fail(eShape, "", "the shape has %d dimensions; at most %d are allowed", len(shape), MaxDims)
	}
	total := 1
	for d, n := range shape {
		if _, ok := log2(n); !ok || n > 1<<MaxBits {
			return Layout{}, fail(eShape, "", "dimension %d of the tensor has size %d, which is not a power of two of at most %d bits", d, n, MaxBits)
		}
		if total *= n; total > 1<<MaxBits {
			return Layout{}, fail(eShape, "", "the tensor has more than 2^%d elements", MaxBits)
		}
	}
	if a.name == "linear" || a.name == "shared_linear" {
		return e.linear(a, shape)
	}
	for _, f := range a.fields {
		if !slices.Contains(known, f.name) && !slices.Contains(cluster, f.name) {
			e.problem(f.at, eEncoding, diag.DidYouMean(f.name, append(slices.Clone(known), cluster...)), "%s has no parameter %s", a.name, f.name)
		}
	}
	if len(shape) == 0 {
		return Layout{}, fail(eShape, "write for example \"on 16x64\" behind it", "the encoding %s needs the shape of the tensor", a.name)
	}
	switch a.name {
	case "blocked":
		return e.blocked(a, shape)
	case "nvidia_mma":
		return e.nvidiaMMA(a, shape)
	case "amd_mfma":
		return e.mfma(a, shape)
	case "amd_wmma":
		return e.wmma(a, shape)
	case "dot_op":
		return e.dot(a, shape)
	case "slice":
		return e.slice(a, shape)
	case "nvmma_shared":
		return e.nvmmaShared(a, shape)
	}
	return e.swizzledShared(a, shape)
}

func (a *attribute) get(names ...string) (field, bool) {
	for _, f := range a.fields {
		if slices.Contains(names, f.name) {
			return f, true
		}
	}
	return field{}, false
}

// need finds a parameter that must be given, under one of its names.
func (e *encoder) need(a *attribute, names ...string) field {
	f, ok := a.get(names...)
	if !ok {
		e.problem(a.at, eEncoding, "", "%s lacks its parameter %s", a.name, names[0])
	}
	return f
}

// num is a parameter with a default.
func (e *encoder) num(a *attribute, def, lo, hi int, names ...string) int {
	f, ok := a.get(names...)
	if !ok {
		return def
	}
	n, isInt := f.v.(int)
	if !isInt || n < lo || n > hi {
		e.problem(f.value.at, eEncoding, "", "%s of %s is a number from %d to %d", f.name, a.name, lo, hi)
	}
	return n
}

func (e *encoder) flag(a *attribute, names ...string) bool {
	f, ok := a.get(names...)
	if !ok {
		return false
	}
	s, _ := f.v.(string)
	if s != "true" && s != "false" {
		e.problem(f.value.at, eEncoding, "", "%s of %s is true or false", f.name, a.name)
	}
	return s == "true"
}

func (e *encoder) ints(f field) []int {
	list, ok := f.v.([]value)
	out := make([]int, len(list))
	for i, v := range list {
		n, isInt := v.v.(int)
		out[i], ok = n, ok && isInt
	}
	if !ok {
		e.problem(f.value.at, eEncoding, "", "%s is a list of numbers", f.name)
	}
	return out
}

// sizesOf is a list of rank powers of two.
func (e *encoder) sizesOf(f field, rank int) []int {
	list := e.ints(f)
	if len(list) != rank {
		e.problem(f.value.at, eEncoding, "", "%s has %d numbers; the tensor has rank %d", f.name, len(list), rank)
	}
	for _, n := range list {
		if _, ok := log2(n); !ok {
			e.problem(f.value.at, eSize, "", "%s holds %d, which is not a power of two", f.name, n)
		}
	}
	return list
}

// order is a permutation of the dimensions, the fastest first.
func (e *encoder) order(f field, rank int) []int {
	list := e.ints(f)
	seen := make([]bool, rank)
	for _, d := range list {
		if d < 0 || d >= rank || seen[d] || len(list) != rank {
			e.problem(f.value.at, eEncoding, "", "%s is a permutation of 0 … %d, the fastest dimension first", f.name, rank-1)
		}
		seen[d] = true
	}
	if len(list) != rank {
		e.problem(f.value.at, eEncoding, "", "%s is a permutation of 0 … %d, the fastest dimension first", f.name, rank-1)
	}
	return list
}

func (e *encoder) vectorsOf(f field) [][]int {
	list, ok := f.v.([]value)
	if !ok {
		e.problem(f.value.at, eEncoding, "", "%s is a list of bases", f.name)
	}
	if len(list) > MaxBits {
		e.problem(f.value.at, eDims, "", "%s has more than %d bases", f.name, MaxBits)
	}
	out := make([][]int, len(list))
	for i, v := range list {
		out[i] = e.ints(field{f.name, f.at, v})
	}
	return out
}

// linear reads the bases themselves.
func (e *encoder) linear(a *attribute, shape []int) (Layout, error) {
	var in []Dim
	if f, ok := a.get("shape"); ok && shape == nil {
		for _, n := range e.ints(f) {
			if _, ok := log2(n); !ok || n > 1<<MaxBits {
				e.problem(f.value.at, eShape, "", "the shape holds %d, which is not a power of two of at most %d bits", n, MaxBits)
			}
			shape = append(shape, n)
		}
	}
	rank := len(shape)
	for _, f := range a.fields {
		if f.name == "alignment" || f.name == "shape" {
			continue
		}
		d := Dim{f.name, e.vectorsOf(f)}
		for _, b := range d.Bases {
			if rank == 0 {
				rank = len(b)
			}
			if len(b) != rank {
				e.problem(f.value.at, eBasis, "", "a basis of %s has %d numbers; the tensor has rank %d", f.name, len(b), rank)
			}
		}
		in = append(in, d)
	}
	out := make([]OutDim, rank)
	for j := range out {
		out[j] = OutDim{DimName(j), 1}
		for _, d := range in {
			for _, b := range d.Bases {
				if b[j] < 0 || b[j] >= 1<<MaxBits {
					e.problem(a.at, eBasis, "", "a basis of %s holds %d", d.Name, b[j])
				}
				for out[j].Size <= b[j] {
					out[j].Size *= 2
				}
			}
		}
	}
	l, err := New(in, out)
	if err != nil || len(shape) == 0 {
		return l, err
	}
	if l, err = notLarger(l, shape, true); err != nil || len(in) == 0 {
		return l, err
	}
	// Repetitions follow the order in which the bases first touch the dimensions.
	var order []int
	for _, d := range in {
		for _, b := range d.Bases {
			for j, v := range b {
				if v != 0 && !slices.Contains(order, j) {
					order = append(order, j)
				}
			}
		}
	}
	for j := rank - 1; j >= 0; j-- {
		if !slices.Contains(order, j) {
			order = append(order, j)
		}
	}
	if l, err = l.TransposeOut(dimNames(order)...); err != nil {
		return l, err
	}
	if l, err = notSmaller(l, shape); err != nil {
		return l, err
	}
	return l.TransposeOut(dimNames(nil, rank)...)
}

// dimNames are the names of these dimensions, or of the first n.
func dimNames(order []int, n ...int) []string {
	if len(n) > 0 {
		for d := range n[0] {
			order = append(order, d)
		}
	}
	names := make([]string, len(order))
	for i, d := range order {
		names[i] = DimName(d)
	}
	return names
}

// dimNumber is the number in the name of a dimension.
func dimNumber(name string) int {
	n := 0
	for _, c := range strings.TrimPrefix(name, "dim") {
		n = n*10 + int(c-'0')
	}
	return n
}

// product multiplies from the left, the first being the fastest.
func product(parts ...Layout) (Layout, error) {
	out := Layout{}
	var err error
	for _, p := range parts {
		if out, err = out.Mul(p); err != nil {
			return Layout{}, err
		}
	}
	return out, nil
}

// rowMajor is the order in which the last dimension is the fastest.
func rowMajor(rank int) []int {
	order := make([]int, rank)
	for i := range order {
		order[i] = rank - 1 - i
	}
	return order
}

// box spreads an input dimension over a box of this shape, in this order. Along
// the dimensions in zero it only replicates.
func box(in string, shape, order []int, zero ...int) (Layout, error) {
	var parts []Layout
	for _, d := range order {
		if shape[d] > 1<<MaxBits {
			return Layout{}, fail(eDims, "", "a size is larger than 2^%d", MaxBits)
		}
		if slices.Contains(zero, d) {
			parts = append(parts, Zeros(shape[d], in, DimName(d)))
			continue
		}
		parts = append(parts, Identity(shape[d], in, DimName(d)))
	}
	return product(parts...)
}

// notLarger clears the highest bases of dimensions that are larger than the shape,
// so that these bits replicate; register bases that are cleared are dropped where
// drop is set.
func notLarger(l Layout, shape []int, drop bool) (Layout, error) {
	in := make([]Dim, len(l.In))
	for i, d := range l.In {
		in[i].Name = d.Name
		for _, b := range d.Bases {
			in[i].Bases = append(in[i].Bases, slices.Clone(b))
		}
	}
	out := slices.Clone(l.Out)
	type ref struct{ dim, base int }
	dropped := map[ref]bool{}
	for j := range out {
		want := shape[dimNumber(out[j].Name)]
		for out[j].Size > want {
			// The basis with the largest index in this dimension goes.
			var at ref
			top := 0
			for i, d := range in {
				for k, b := range d.Bases {
					if b[j] > top {
						at, top = ref{i, k}, b[j]
					}
				}
			}
			if top >= out[j].Size/2 {
				in[at.dim].Bases[at.base][j] = 0
				if drop && in[at.dim].Name == Register {
					dropped[at] = true
				}
			}
			out[j].Size /= 2
			for i, d := range in {
				for k, b := range d.Bases {
					if b[j] >= out[j].Size {
						return Layout{}, fail(eShape, "", "a tensor of size %d in %s cuts the basis (%s) of %s=%d", want, out[j].Name, join(b), in[i].Name, 1<<k)
					}
				}
			}
		}
	}
	for i := range in {
		var keep [][]int
		for k, b := range in[i].Bases {
			if !dropped[ref{i, k}] {
				keep = append(keep, b)
			}
		}
		in[i].Bases = keep
	}
	return New(in, out)
}

// notSmaller repeats the layout, in the order of its output dimensions, through
// more places of its first input dimension until it has the shape.
func notSmaller(l Layout, shape []int) (Layout, error) {
	parts := []Layout{l}
	for _, o := range l.Out {
		if want := shape[dimNumber(o.Name)]; want > o.Size {
			parts = append(parts, Identity(want/o.Size, l.In[0].Name, o.Name))
		}
	}
	return product(parts...)
}

// onShape gives the layout of one block the shape of the tensor, shared among the
// blocks of a cluster as the attribute says, but not along the dimensions in whole.
func (e *encoder) onShape(l Layout, a *attribute, shape []int, whole ...int) (Layout, error) {
	blocks, err := e.clusterOf(a, len(shape), whole)
	if err != nil {
		return Layout{}, err
	}
	if blocks, err = notLarger(blocks, shape, false); err != nil {
		return Layout{}, err
	}
	own := make([]int, len(shape))
	for d, n := range shape {
		own[d] = max(1, n/blocks.OutSize(DimName(d)))
	}
	if l, err = notSmaller(l, own); err != nil {
		return Layout{}, err
	}
	if l, err = notLarger(l, own, false); err != nil {
		return Layout{}, err
	}
	if l, err = l.Mul(blocks); err != nil {
		return Layout{}, err
	}
	return l.TransposeOut(dimNames(nil, len(shape))...)
}

// clusterOf is the layout of the blocks of a cluster, which replicate along the
// dimensions in whole.
func (e *encoder) clusterOf(a *attribute, rank int, whole []int) (Layout, error) {
	if f, ok := a.get("CGALayout"); ok {
		d := Dim{Block, e.vectorsOf(f)}
		out := make([]OutDim, rank)
		for j := range out {
			out[j] = OutDim{DimName(j), 1}
			for _, b := range d.Bases {
				if len(b) != rank {
					e.problem(f.value.at, eBasis, "", "a basis of CGALayout has %d numbers; the tensor has rank %d", len(b), rank)
				}
				if slices.Contains(whole, j) {
					b[j] = 0
				}
				for out[j].Size <= b[j] && out[j].Size < 1<<MaxBits {
					out[j].Size *= 2
				}
			}
		}
		return New([]Dim{d}, out)
	}
	per, split, order := make([]int, rank), make([]int, rank), rowMajor(rank)
	for d := range per {
		per[d], split[d] = 1, 1
	}
	if f, ok := a.get("CTAsPerCGA"); ok {
		per = e.sizesOf(f, rank)
	}
	if f, ok := a.get("CTASplitNum"); ok {
		split = e.sizesOf(f, rank)
		for d := range split {
			if split[d] > per[d] {
				e.problem(f.value.at, eEncoding, "", "CTASplitNum splits dimension %d %d times among %d blocks", d, split[d], per[d])
			}
		}
	}
	if f, ok := a.get("CTAOrder"); ok {
		order = e.order(f, rank)
	}
	for _, d := range whole {
		split[d] = 1
	}
	var parts []Layout
	for _, d := range order {
		parts = append(parts, Identity(split[d], Block, DimName(d)), Zeros(per[d]/split[d], Block, DimName(d)))
	}
	return product(parts...)
}

func (e *encoder) blocked(a *attribute, shape []int) (Layout, error) {
	rank := len(shape)
	order := e.order(e.need(a, "order"), rank)
	l, err := box(Register, e.sizesOf(e.need(a, "sizePerThread"), rank), order)
	if err != nil {
		return l, err
	}
	lanes, err := box(Lane, e.sizesOf(e.need(a, "threadsPerWarp"), rank), order)
	if err != nil {
		return l, err
	}
	warps, err := box(Warp, e.sizesOf(e.need(a, "warpsPerCTA"), rank), order)
	if err != nil {
		return l, err
	}
	if l, err = product(l, lanes, warps); err != nil {
		return l, err
	}
	return e.onShape(l, a, shape)
}

// mmaTile is the pattern of NVIDIA's matrix instructions over two dimensions of a
// tile of m by n elements: k registers and then 4 lanes along the inner one, 8
// lanes along the outer one, and registers for the rest, outer first.
func mmaTile(order []int, m, n, k, outer, inner int) (Layout, error) {
	ones := make([]int, len(order))
	for d := range ones {
		ones[d] = 1
	}
	start, err := box(Register, ones, order)
	if err != nil {
		return start, err
	}
	return product(start, Identity(k, Register, DimName(inner)), Identity(4, Lane, DimName(inner)), Identity(8, Lane, DimName(outer)),
		Identity(m/8, Register, DimName(outer)), Identity(n/(4*k), Register, DimName(inner)))
}

// nvidia reads the version, the warps and their order.
func (e *encoder) nvidia(a *attribute, rank int) (version int, warps, order []int) {
	version = e.num(a, 2, 1, 5, "versionMajor")
	if version != 2 && version != 3 {
		e.problem(e.need(a, "versionMajor").value.at, eEncoding, "version 2 is mma.sync from sm_80, version 3 is wgmma", "nvidia_mma of version %d is not known here", version)
	}
	if rank < 2 || rank > 3 || version == 3 && rank != 2 {
		e.problem(a.at, eShape, "", "nvidia_mma of version %d does not lay out tensors of rank %d", version, rank)
	}
	warps = e.sizesOf(e.need(a, "warpsPerCTA"), rank)
	order = rowMajor(rank)
	if version == 3 {
		order = []int{0, 1}
	}
	return version, warps, order
}

func (e *encoder) nvidiaMMA(a *attribute, shape []int) (Layout, error) {
	rank := len(shape)
	version, warps, warpOrder := e.nvidia(a, rank)
	m, n := 16, 8
	if f, ok := a.get("instrShape"); ok || version == 3 {
		if !ok {
			f = e.need(a, "instrShape")
		}
		list := e.ints(f)
		if version == 2 && len(list) == rank || version == 3 && len(list) == 3 {
			if version == 2 {
				list = list[rank-2:]
			}
			m, n = list[0], list[1]
		} else {
			e.problem(f.value.at, eEncoding, "", "instrShape has %d numbers", len(list))
		}
		_, mOK := log2(m)
		_, nOK := log2(n)
		if !mOK || !nOK || m < 8 || n < 8 || m > 1<<10 || n > 1<<10 {
			e.problem(f.value.at, eSize, "", "an instruction of %d by %d elements is not a pair of powers of two from 8 to 1024", m, n)
		}
	}
	order := rowMajor(rank)
	l, err := mmaTile(order, m, n, 2, rank-2, rank-1)
	if err != nil {
		return l, err
	}
	w, err := box(Warp, warps, warpOrder)
	if err != nil {
		return l, err
	}
	if l, err = l.Mul(w); err != nil {
		return l, err
	}
	return e.onShape(l, a, shape)
}

// dot is an operand of a product with this accumulator.
func (e *encoder) dot(a *attribute, shape []int) (Layout, error) {
	rank := len(shape)
	e.need(a, "opIdx")
	op := e.num(a, 0, 0, 1, "opIdx")
	f := e.need(a, "parent")
	parent, ok := f.v.(*attribute)
	if !ok {
		e.problem(f.value.at, eEncoding, "", "parent of dot_op is the encoding of the accumulator")
	}
	if rank < 2 || rank > 3 {
		e.problem(a.at, eShape, "", "dot_op does not lay out tensors of rank %d", rank)
	}
	for _, g := range parent.fields {
		if !slices.Contains(encodings[parent.name], g.name) && !slices.Contains(cluster, g.name) {
			e.problem(g.at, eEncoding, diag.DidYouMean(g.name, encodings[parent.name]), "%s has no parameter %s", parent.name, g.name)
		}
	}
	k := rank - 1 - op // the dimension that the product sums over
	other := rank - 2 + op
	order := []int{k, other}
	if rank == 3 {
		order = append(order, 0)
	}
	width := func(def int) int {
		n := e.num(a, def, 1, 1<<10, "kWidth")
		if _, ok := log2(n); !ok {
			e.problem(e.need(a, "kWidth").value.at, eSize, "", "kWidth is %d, which is not a power of two", n)
		}
		return n
	}
	switch parent.name {
	case "nvidia_mma":
		version, warps, warpOrder := e.nvidia(parent, rank)
		if version == 3 && op == 1 {
			e.problem(a.at, eEncoding, "", "the second operand of nvidia_mma of version 3 comes from shared memory, not from registers")
		}
		kw := width(2)
		m := 16
		if op == 1 {
			m = 8
		}
		l, err := mmaTile(order, m, 8*kw, kw, other, k)
		if err != nil {
			return l, err
		}
		return e.withWarps(l, warps, warpOrder, k, parent, shape)
	case "blocked":
		o := e.order(e.need(parent, "order"), rank)
		size := e.sizesOf(e.need(parent, "sizePerThread"), rank)
		size[k] = shape[k]
		l, err := box(Register, size, o)
		if err != nil {
			return l, err
		}
		lanes, err := box(Lane, e.sizesOf(e.need(parent, "threadsPerWarp"), rank), o, k)
		if err != nil {
			return l, err
		}
		if l, err = l.Mul(lanes); err != nil {
			return l, err
		}
		return e.withWarps(l, e.sizesOf(e.need(parent, "warpsPerCTA"), rank), o, k, parent, shape)
	case "amd_mfma":
		n := e.mfmaSize(parent)
		kw := width(4)
		in := []Dim{{Name: Register}, {Name: Lane}}
		for v := 1; v < kw; v *= 2 {
			in[0].Bases = append(in[0].Bases, []int{v, 0})
		}
		for v := 1; v < n; v *= 2 {
			in[1].Bases = append(in[1].Bases, []int{0, v})
		}
		tile := kw
		for ; len(in[1].Bases) < 6; tile *= 2 {
			in[1].Bases = append(in[1].Bases, []int{tile, 0})
		}
		return e.withTile(in, tile, n, order, e.sizesOf(e.need(parent, "warpsPerCTA"), rank), k, parent, shape)
	case "amd_wmma":
		version := e.wmmaVersion(parent)
		kw := width(16)
		in := []Dim{{Name: Register}, {Lane, [][]int{{0, 1}, {0, 2}, {0, 4}, {0, 8}}}}
		for v := 1; v < kw; v *= 2 {
			in[0].Bases = append(in[0].Bases, []int{v, 0})
		}
		tile := kw
		if version == 1 {
			in[1].Bases = append(in[1].Bases, []int{0, 0})
		} else {
			in[1].Bases = append(in[1].Bases, []int{kw, 0})
			tile *= 2
		}
		return e.withTile(in, tile, 16, order, e.sizesOf(e.need(parent, "warpsPerCTA"), rank), k, parent, shape)
	}
	e.problem(f.value.at, eEncoding, "", "operands of %s are not known here; parents are nvidia_mma, amd_mfma, amd_wmma and blocked", parent.name)
	return Layout{}, nil
}

// withTile makes the layout of an AMD operand from the bases of one instruction.
func (e *encoder) withTile(in []Dim, tile, n int, order, warps []int, k int, a *attribute, shape []int) (Layout, error) {
	out := []OutDim{{DimName(order[0]), tile}, {DimName(order[1]), n}}
	if len(order) == 3 {
		out = append(out, OutDim{DimName(0), 1})
		for i := range in {
			for j := range in[i].Bases {
				in[i].Bases[j] = append(in[i].Bases[j], 0)
			}
		}
	}
	l, err := New(in, out)
	if err != nil {
		return l, err
	}
	return e.withWarps(l, warps, rowMajor(len(shape)), k, a, shape)
}

// withWarps adds warps that share operands along k.
func (e *encoder) withWarps(l Layout, warps, order []int, k int, a *attribute, shape []int) (Layout, error) {
	w, err := box(Warp, warps, order, k)
	if err != nil {
		return l, err
	}
	if l, err = l.Mul(w); err != nil {
		return l, err
	}
	return e.onShape(l, a, shape, k)
}

// mfmaSize is 16 or 32, the rows and columns of the instruction.
func (e *encoder) mfmaSize(a *attribute) int {
	f := e.need(a, "instrShape")
	list := e.ints(f)
	if len(list) < 2 || len(list) > 3 || list[0] != list[1] || list[0] != 16 && list[0] != 32 {
		e.problem(f.value.at, eEncoding, "", "amd_mfma is known here for instructions of 16 by 16 and 32 by 32 elements")
	}
	for _, g := range a.fields {
		one := true
		if g.name == "tilesPerWarp" {
			for _, n := range e.ints(g) {
				one = one && n == 1
			}
		}
		if !one || g.name == "elementBitWidth" && g.v == 64 {
			e.problem(g.at, eEncoding, "", "amd_mfma with this %s is not known here", g.name)
		}
	}
	return list[0]
}

// rank23 refuses tensors that are neither matrices nor batches of them.
func (e *encoder) rank23(a *attribute, rank int) {
	if rank < 2 || rank > 3 {
		e.problem(a.at, eShape, "", "%s does not lay out tensors of rank %d", a.name, rank)
	}
}

// amdTile makes an accumulator from bases over (column, row), transposed on demand.
func (e *encoder) amdTile(regs, lanes [][]int, n int, transposed bool, a *attribute, shape []int) (Layout, error) {
	rank := len(shape)
	warps := e.sizesOf(e.need(a, "warpsPerCTA"), rank)
	order := rowMajor(rank)
	out := make([]OutDim, rank)
	for i, d := range order {
		out[i] = OutDim{DimName(d), 1}
	}
	out[0].Size, out[1].Size = n, n
	spread := func(bases [][]int) [][]int {
		list := make([][]int, len(bases))
		for i, b := range bases {
			list[i] = make([]int, rank)
			list[i][0], list[i][1] = b[0], b[1]
			if transposed {
				list[i][0], list[i][1] = b[1], b[0]
			}
		}
		return list
	}
	l, err := New([]Dim{{Register, spread(regs)}, {Lane, spread(lanes)}}, out)
	if err != nil {
		return l, err
	}
	w, err := box(Warp, warps, order)
	if err != nil {
		return l, err
	}
	if l, err = l.Mul(w); err != nil {
		return l, err
	}
	return e.onShape(l, a, shape)
}

func (e *encoder) mfma(a *attribute, shape []int) (Layout, error) {
	e.rank23(a, len(shape))
	n := e.mfmaSize(a)
	// A lane holds 4 rows of a column; lanes go through the columns first.
	regs, lanes, row := [][]int{{0, 1}, {0, 2}}, [][]int{}, 4
	for v := 1; v < n; v *= 2 {
		lanes = append(lanes, []int{v, 0})
	}
	for ; len(lanes) < 6; row *= 2 {
		lanes = append(lanes, []int{0, row})
	}
	for ; row < n; row *= 2 {
		regs = append(regs, []int{0, row})
	}
	return e.amdTile(regs, lanes, n, e.flag(a, "isTransposed"), a, shape)
}

func (e *encoder) wmmaVersion(a *attribute) int {
	f := e.need(a, "version")
	version := e.num(a, 1, 1, 3, "version")
	if version == 3 {
		e.problem(f.value.at, eEncoding, "", "amd_wmma of version 3 is not known here; versions are 1 (RDNA3) and 2 (RDNA4)")
	}
	return version
}

func (e *encoder) wmma(a *attribute, shape []int) (Layout, error) {
	e.rank23(a, len(shape))
	columns := [][]int{{1, 0}, {2, 0}, {4, 0}, {8, 0}}
	transposed := e.flag(a, "isTransposed", "isTranspose")
	if e.wmmaVersion(a) == 1 { // even rows in the lower half of the lanes
		return e.amdTile([][]int{{0, 2}, {0, 4}, {0, 8}}, append(columns, []int{0, 1}), 16, transposed, a, shape)
	}
	return e.amdTile([][]int{{0, 1}, {0, 2}, {0, 4}}, append(columns, []int{0, 8}), 16, transposed, a, shape)
}

// slice leaves a dimension of its parent out; registers that then only replicate
// are left out too.
func (e *encoder) slice(a *attribute, shape []int) (Layout, error) {
	f := e.need(a, "parent")
	parent, ok := f.v.(*attribute)
	if !ok {
		e.problem(f.value.at, eEncoding, "", "parent of slice is an encoding")
	}
	e.need(a, "dim")
	dim := e.num(a, 0, 0, len(shape), "dim")
	l, err := e.layout(parent, slices.Insert(slices.Clone(shape), dim, 1))
	if err != nil {
		return l, err
	}
	var in, keep []string
	for _, d := range l.In {
		in = append(in, d.Name)
	}
	for j := range l.Out {
		if j != dim {
			keep = append(keep, l.Out[j].Name)
		}
	}
	if l, err = l.Sub(in, keep); err != nil {
		return l, err
	}
	l = l.rename(dimNames(nil, len(shape)))
	if len(l.In) > 0 && l.In[0].Name == Register {
		l.In[0].Bases = slices.DeleteFunc(l.In[0].Bases, func(b []int) bool {
			return !slices.ContainsFunc(b, func(v int) bool { return v != 0 })
		})
	}
	return l, nil
}

func (e *encoder) swizzledShared(a *attribute, shape []int) (Layout, error) {
	rank := len(shape)
	if e.flag(a, "hasLeadingOffset") {
		e.problem(e.need(a, "hasLeadingOffset").at, eEncoding, "write #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>", "the old encoding with a leading offset does not say the width of its elements")
	}
	pow2 := func(name string) int {
		n := e.num(a, 1, 1, 1<<MaxBits, name)
		if _, ok := log2(n); !ok {
			e.problem(e.need(a, name).value.at, eSize, "", "%s is %d, which is not a power of two", name, n)
		}
		return n
	}
	vec, perPhase, maxPhase := pow2("vec"), pow2("perPhase"), pow2("maxPhase")
	order := e.order(e.need(a, "order"), rank)
	if rank == 1 {
		return e.onShape(Identity(shape[0], Offset, DimName(0)), a, shape)
	}
	l, err := box(Offset, shape, order)
	if err != nil {
		return l, err
	}
	cols, rows := shape[order[0]], shape[order[1]]
	first := width(cols)
	for k := range width(rows) {
		// XOR of the phase of the row with the number of the vector.
		l.In[0].Bases[first+k][0] = vec * ((1 << k) / perPhase % maxPhase) % cols
	}
	return e.onShape(l, a, shape)
}

// nvmmaShared is the layout that TMA writes and wgmma reads: 8 rows of 32, 64 or
// 128 bytes whose 16-byte chunks are XORed with the row.
func (e *encoder) nvmmaShared(a *attribute, shape []int) (Layout, error) {
	rank := len(shape)
	if rank == 1 {
		return e.onShape(Identity(shape[0], Offset, DimName(0)), a, shape)
	}
	if rank != 2 {
		e.problem(a.at, eShape, "", "nvmma_shared is known here for tensors of rank 1 and 2")
	}
	f := e.need(a, "swizzlingByteWidth")
	bytes := e.num(a, 0, 0, 128, "swizzlingByteWidth")
	if !slices.Contains([]int{0, 32, 64, 128}, bytes) {
		e.problem(f.value.at, eEncoding, "", "swizzlingByteWidth is 0, 32, 64 or 128")
	}
	bytes = max(bytes, 16)
	elem := e.num(a, 16, 1, 64, "elementBitWidth")
	if !slices.Contains([]int{8, 16, 32, 64}, elem) {
		e.problem(e.need(a, "elementBitWidth").value.at, eEncoding, "", "elementBitWidth is 8, 16, 32 or 64")
	}
	padded := e.flag(a, "fp4Padded")
	if padded && elem != 8 {
		e.problem(e.need(a, "fp4Padded").at, eEncoding, "", "fp4Padded needs elementBitWidth = 8")
	}
	row, col := 0, 1
	if e.flag(a, "transposed") {
		row, col = 1, 0
	}
	vec, perPhase, maxPhase := 128/elem, 128/bytes, bytes/16
	cols, packing := 8*bytes/elem, 1
	// Of 16 padded columns only 8 are stored; the others repeat them.
	pack := func(c int) int { return c }
	if padded {
		packing = 2
		pack = func(c int) int { return c/16*8 + c%8 }
	}
	if shape[col]*packing < cols || shape[row] < 8 {
		return Layout{}, fail(eShape, "", "nvmma_shared needs at least 8 rows of %d elements; the tensor has %d of %d", cols/packing, shape[row], shape[col])
	}
	d := Dim{Name: Offset}
	for c := 1; c < cols; c *= 2 {
		d.Bases = append(d.Bases, []int{0, pack(c)})
	}
	for r := 1; r < 8; r *= 2 {
		d.Bases = append(d.Bases, []int{r, pack(vec * (r / perPhase % maxPhase))})
	}
	l, err := New([]Dim{d}, []OutDim{{DimName(row), 8}, {DimName(col), cols / packing}})
	if err != nil {
		return l, err
	}
	return e.onShape(l, a, shape)
}
