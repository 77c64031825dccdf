package index

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
)

// MaxSet is the most maps that are kept for one producer; where there are more,
// its indexing is undefined.
const MaxSet = 256

// OutputToInput lists, for every operand of the instruction, the maps from positions
// of output number output to positions of the operand. Most instructions read an
// operand through one map, a fusion may through several; an operand that is not read
// has none. Instructions of which nothing is known give undefined maps.
func OutputToInput(in *hlo.Instruction, output int) [][]Indexing {
	if (in.Op == hlo.Fusion || in.Op == hlo.Call) && in.Apply != nil {
		return ofParameters(in.Apply, output)
	}
	out := make([][]Indexing, len(in.Operands))
	for k := range in.Operands {
		out[k] = []Indexing{operand(in, output, k)}
	}
	return out
}

func ofParameters(c *hlo.Computation, output int) [][]Indexing {
	out := make([][]Indexing, len(c.Params))
	roots := c.Roots()
	if output < 0 || output >= len(roots) {
		return out
	}
	grouped := Group(c, roots[output])
	for i, p := range c.Params {
		out[i] = grouped[p]
	}
	return out
}

// Group lists for every instruction that from needs the maps through which it is
// read, from positions of from; from itself is read by the identity.
func Group(c *hlo.Computation, from *hlo.Instruction) map[*hlo.Instruction][]Indexing {
	sets := map[*hlo.Instruction]*Set{}
	sets[from] = &Set{}
	sets[from].Add(Indexing{Map: Identity(from.Shape.Dims)})
	out := map[*hlo.Instruction][]Indexing{}
	post := c.PostOrder()
	for i := len(post) - 1; i >= 0; i-- {
		in := post[i]
		if sets[in] == nil {
			continue
		}
		out[in] = sets[in].Maps
		operands := OutputToInput(in, 0)
		for _, m := range sets[in].Maps {
			for k, maps := range operands {
				o := in.Operands[k]
				if sets[o] == nil {
					sets[o] = &Set{}
				}
				for _, om := range maps {
					sets[o].Add(Compose(m, om))
				}
			}
		}
	}
	return out
}

// Set is indexings of which no two are equal, in the order in which they came.
type Set struct {
	Maps []Indexing
	keys map[string]bool
}

// Add puts an indexing in. Where there would be more than [MaxSet], nothing is known.
func (s *Set) Add(x Indexing) {
	key := "" // of all that are undefined
	if !x.Map.Undefined() {
		key = x.String()
	}
	switch {
	case s.keys[key]:
		return
	case s.keys == nil:
		s.keys = map[string]bool{}
	case len(s.Maps) >= MaxSet:
		x, key = Undefined(), ""
		s.Maps, s.keys = nil, map[string]bool{}
	}
	s.keys[key] = true
	s.Maps = append(s.Maps, x)
}

// operand is the map from positions of one output to those of operand k.
func operand(in *hlo.Instruction, output, k int) Indexing {
	outs := in.Shape.Outputs()
	if output < 0 || output >= len(outs) && in.Op != hlo.Tuple {
		return Undefined()
	}
	var dims []int
	if in.Op != hlo.Tuple {
		dims = outs[output].Dims
	}
	o := in.Operands[k].Shape
	plain := func(m affine.Map) Indexing { return Indexing{Map: m} }
	if in.Op.Elementwise() {
		if len(o.Dims) != len(dims) && len(o.Dims) == 0 {
			return plain(Nowhere(dims))
		}
		return plain(Identity(dims))
	}
	switch in.Op {
	case hlo.Tuple, hlo.GetTupleElement:
		if in.Op == hlo.Tuple {
			return plain(Identity(o.Dims))
		}
		return plain(Identity(dims))
	case hlo.Scan:
		if len(o.Dims) == 0 && len(dims) > 0 {
			return plain(Nowhere(dims))
		}
		return plain(Identity(dims))
	case hlo.Broadcast:
		return plain(Permuted(dims, in.Dims))
	case hlo.Transpose:
		return plain(Permuted(dims, inverse(in.Dims)))
	case hlo.Reshape:
		return plain(Reshaped(dims, o.Dims))
	case hlo.Bitcast:
		return plain(Bitcast(in.Shape, o))
	case hlo.Reverse:
		results := make([]affine.Expr, len(dims))
		for i := range dims {
			results[i] = d(i)
			if slices.Contains(in.Dims, i) {
				results[i] = num(dims[i] - 1).Sub(d(i))
			}
		}
		return plain(build(sizes("d", dims), nil, nil, results))
	case hlo.Slice:
		results := make([]affine.Expr, len(dims))
		for i, c := range in.Slices {
			results[i] = d(i).MulConst(int64(c.Stride)).AddConst(int64(c.Start))
		}
		return plain(build(sizes("d", dims), nil, nil, results))
	case hlo.Pad:
		if k == 1 {
			return plain(Nowhere(dims))
		}
		return plain(padded(dims, in.Pads))
	case hlo.Concatenate:
		return plain(part(in, k))
	case hlo.Reduce:
		if k >= in.Inputs() {
			return plain(Nowhere(dims))
		}
		results := make([]affine.Expr, len(o.Dims))
		var ranges []affine.Range
		kept := 0
		for i, n := range o.Dims {
			if slices.Contains(in.Dims, i) {
				results[i] = s(len(ranges))
				ranges = append(ranges, to(n))
			} else {
				results[i] = d(kept)
				kept++
			}
		}
		return plain(build(sizes("d", dims), variables("s", ranges...), nil, results))
	case hlo.ReduceWindow:
		if k >= in.Inputs() {
			return plain(Nowhere(dims))
		}
		return plain(windowed(in, dims, o.Dims))
	case hlo.Convolution:
		return plain(convolved(in, dims, k))
	case hlo.Dot:
		return plain(dotted(in, dims, k, o.Dims))
	case hlo.ScaledDot:
		return plain(dotted(in, dims, k%2, o.Dims))
	case hlo.DynamicSlice:
		if k > 0 {
			return plain(Nowhere(dims))
		}
		return started(in, dims, o.Dims, dims, in.Operands[1:], func(i int) affine.Expr { return d(i).Add(rt(i)) })
	case hlo.DynamicUpdateSlice:
		switch k {
		case 0:
			return plain(Identity(dims))
		case 1:
			return started(in, dims, dims, o.Dims, in.Operands[2:], func(i int) affine.Expr { return d(i).Sub(rt(i)) })
		}
		return plain(Nowhere(dims))
	case hlo.Gather:
		return gathered(in, dims, k)
	case hlo.AllGather:
		results := make([]affine.Expr, len(dims))
		for i := range dims {
			results[i] = d(i)
			if slices.Contains(in.Dims, i) && o.Dims[i] > 0 {
				results[i] = d(i).Mod(num(o.Dims[i]))
			}
		}
		return plain(build(sizes("d", dims), nil, nil, results))
	}
	return Undefined()
}

// padded leads from a padded tensor to what was padded.
func padded(dims []int, pads []hlo.PadDim) affine.Map {
	vars := sizes("d", dims)
	results := make([]affine.Expr, len(dims))
	var constraints []affine.Constraint
	for i, p := range pads {
		results[i] = d(i).AddConst(int64(-p.Lo))
		vars[i].Range = affine.Range{Lo: int64(max(0, p.Lo)), Hi: int64(min(dims[i]-1, dims[i]-1-p.Hi))}
		if p.Interior > 0 {
			step := affine.Const(int64(p.Interior) + 1)
			constraints = append(constraints, affine.Constraint{Expr: results[i].Mod(step)})
			results[i] = results[i].FloorDiv(step)
		}
	}
	return build(vars, nil, nil, results, constraints...)
}

// part leads from a concatenation to its operand k.
func part(in *hlo.Instruction, k int) affine.Map {
	axis, offset := in.Dims[0], 0
	for _, o := range in.Operands[:k] {
		offset += o.Shape.Dims[axis]
	}
	vars := sizes("d", in.Shape.Dims)
	results := make([]affine.Expr, len(vars))
	for i := range vars {
		results[i] = d(i)
	}
	results[axis] = d(axis).AddConst(int64(-offset))
	vars[axis].Range = affine.Range{Lo: int64(offset), Hi: int64(offset+in.Operands[k].Shape.Dims[axis]) - 1}
	return build(vars, nil, nil, results)
}

// window leads from an output position and a place in the window to the input.
func window(w hlo.WindowDim, out, place affine.Expr, size int) (affine.Expr, []affine.Constraint) {
	if w.Reverse {
		place = num(w.Size - 1).Sub(place)
	}
	x := out.MulConst(int64(w.Stride)).Add(place.MulConst(int64(w.WindowDilation))).AddConst(int64(-w.Lo))
	in := affine.Constraint{Expr: x, Range: affine.Range{Lo: 0, Hi: int64(size-1) * int64(w.BaseDilation)}}
	if w.BaseDilation == 1 {
		return x, []affine.Constraint{in}
	}
	step := num(w.BaseDilation)
	return x.FloorDiv(step), []affine.Constraint{in, {Expr: x.Mod(step)}}
}

func windowed(in *hlo.Instruction, dims, input []int) affine.Map {
	results := make([]affine.Expr, len(dims))
	var ranges []affine.Range
	var constraints []affine.Constraint
	for i, w := range in.Window {
		var c []affine.Constraint
		results[i], c = window(w, d(i), s(i), input[i])
		constraints = append(constraints, c...)
		ranges = append(ranges, to(w.Size))
	}
	m, _ := build(sizes("d", dims), variables("s", ranges...), nil, results, constraints...).Simplify(false)
	return m.RemoveUnusedSymbols()
}

func convolved(in *hlo.Instruction, dims []int, k int) affine.Map {
	c := in.Conv
	lhs, rhs := in.Operands[0].Shape.Dims, in.Operands[1].Shape.Dims
	var ranges []affine.Range
	for i := range c.KernelSpatial {
		ranges = append(ranges, to(in.Window[i].Size))
	}
	feature := len(ranges)
	ranges = append(ranges, to(rhs[c.KernelIn]))
	var constraints []affine.Constraint
	var results []affine.Expr
	if k == 1 {
		results = make([]affine.Expr, len(rhs))
		for i, at := range c.KernelSpatial {
			results[at] = s(i)
		}
		results[c.KernelIn], results[c.KernelOut] = s(feature), d(c.OutFeature)
	} else {
		results = make([]affine.Expr, len(lhs))
		for i, at := range c.InSpatial {
			var more []affine.Constraint
			results[at], more = window(in.Window[i], d(c.OutSpatial[i]), s(i), lhs[at])
			constraints = append(constraints, more...)
		}
		results[c.InFeature] = s(feature)
		if c.FeatureGroups > 1 {
			group := d(c.OutFeature).FloorDiv(num(rhs[c.KernelOut] / c.FeatureGroups))
			results[c.InFeature] = group.MulConst(int64(rhs[c.KernelIn])).Add(s(feature))
		}
		results[c.InBatch] = d(c.OutBatch)
		if c.BatchGroups > 1 {
			results[c.InBatch] = s(len(ranges)).MulConst(int64(lhs[c.InBatch] / c.BatchGroups)).Add(d(c.OutBatch))
			ranges = append(ranges, to(c.BatchGroups))
		}
	}
	m, _ := build(sizes("d", dims), variables("s", ranges...), nil, results, constraints...).Simplify(false)
	return m.RemoveUnusedSymbols()
}

// dotted is the map of a side of a dot, or of the scales of that side, which have
// one element for a block of the side.
func dotted(in *hlo.Instruction, dims []int, side int, sizesOf []int) affine.Map {
	if len(sizesOf) == 0 {
		return Nowhere(dims)
	}
	of := in.Dot
	full := in.Operands[side].Shape.Dims
	batch, contract := of.LHSBatch, of.LHSContract
	if side == 1 {
		batch, contract = of.RHSBatch, of.RHSContract
	}
	next := len(of.LHSBatch)
	if side == 1 {
		next += len(in.Operands[0].Shape.Dims) - len(of.LHSBatch) - len(of.LHSContract)
	}
	results := make([]affine.Expr, len(full))
	var ranges []affine.Range
	for _, at := range contract {
		ranges = append(ranges, to(full[at]))
	}
	for i := range full {
		if b := slices.Index(batch, i); b >= 0 {
			results[i] = d(b)
		} else if c := slices.Index(contract, i); c >= 0 {
			results[i] = s(c)
		} else {
			results[i] = d(next)
			next++
		}
		if i < len(sizesOf) && sizesOf[i] > 0 && full[i] != sizesOf[i] {
			results[i] = results[i].FloorDiv(num(full[i] / sizesOf[i]))
		}
	}
	return build(sizes("d", dims), variables("s", ranges...), nil, results)
}

// started is the map of a tensor that is read, or written, from starts on: a box of
// sizes box inside whole.
func started(in *hlo.Instruction, dims, whole, box []int, starts []*hlo.Instruction, at func(i int) affine.Expr) Indexing {
	var ranges []affine.Range
	var sources []Runtime
	results := make([]affine.Expr, len(dims))
	for i := range dims {
		results[i] = at(i)
		ranges = append(ranges, affine.Range{Lo: 0, Hi: int64(whole[i] - box[i])})
		sources = append(sources, Runtime{starts[i], Indexing{Map: Nowhere(dims)}})
	}
	return Indexing{build(sizes("d", dims), nil, variables("rt", ranges...), results), sources}
}

// gathered is the map of a gather of the simplified form: one row of the second
// operand holds the start of one box, and the dimensions of the boxes come last.
func gathered(in *hlo.Instruction, dims []int, k int) Indexing {
	g := in.Gather
	source, rows := in.Operands[0].Shape.Dims, in.Operands[1].Shape.Dims
	simple := len(rows) == 2 && g.IndexVector == 1 && len(g.Collapsed) == 0 && len(g.OperandBatch) == 0 &&
		len(g.Offset) == len(source) && len(dims) == len(source)+1
	for i := range source {
		simple = simple && slices.Contains(g.Offset, i+1)
	}
	if !simple {
		return Undefined()
	}
	if k == 1 {
		return Indexing{Map: build(sizes("d", dims), variables("s", to(rows[1])), nil, []affine.Expr{d(0), s(0)})}
	}
	results := make([]affine.Expr, len(source))
	var ranges []affine.Range
	var sources []Runtime
	for i, n := range source {
		results[i] = d(i + 1)
		if at := slices.Index(g.StartMap, i); at >= 0 {
			results[i] = results[i].Add(rt(len(ranges)))
			ranges = append(ranges, affine.Range{Lo: 0, Hi: int64(n - in.Sizes[i])})
			sources = append(sources, Runtime{in.Operands[1], Indexing{Map: build(sizes("d", dims), nil, nil, []affine.Expr{d(0), num(at)})}})
		}
	}
	return Indexing{build(sizes("d", dims), nil, variables("rt", ranges...), results), sources}
}

// InputToOutput lists, for every output of the instruction, the maps from positions
// of operand number input to positions of the output that depend on them.
func InputToOutput(in *hlo.Instruction, input int) [][]Indexing {
	out := make([][]Indexing, len(in.Shape.Outputs()))
	for i := range out {
		out[i] = []Indexing{{Map: forward(in, input, i)}}
	}
	return out
}

func forward(in *hlo.Instruction, input, output int) affine.Map {
	if input < 0 || input >= len(in.Operands) {
		return affine.Undefined()
	}
	dims, o := in.Shape.Outputs()[output].Dims, in.Operands[input].Shape
	if in.Op.Elementwise() && len(o.Dims) == len(dims) {
		return Identity(dims)
	}
	// everywhere leads from a scalar to all outputs.
	everywhere := func() affine.Map {
		results := make([]affine.Expr, len(dims))
		for i := range dims {
			results[i] = s(i)
		}
		return build(sizes("d", o.Dims), sizes("s", dims), nil, results)
	}
	if in.Op.Elementwise() {
		return everywhere()
	}
	switch in.Op {
	case hlo.Tuple:
		if input != output {
			return build([]affine.Variable{{Name: "d0", Range: affine.Range{Lo: 0, Hi: -1}}}, nil, nil, nil)
		}
		return Identity(dims)
	case hlo.Broadcast:
		results := make([]affine.Expr, len(dims))
		var ranges []affine.Range
		for i, n := range dims {
			if k := slices.Index(in.Dims, i); k >= 0 {
				results[i] = d(k)
			} else {
				results[i] = s(len(ranges))
				ranges = append(ranges, to(n))
			}
		}
		return build(sizes("d", o.Dims), variables("s", ranges...), nil, results)
	case hlo.Concatenate:
		axis, offset := in.Dims[0], 0
		for _, p := range in.Operands[:input] {
			offset += p.Shape.Dims[axis]
		}
		results := make([]affine.Expr, len(dims))
		for i := range dims {
			results[i] = d(i)
		}
		results[axis] = d(axis).AddConst(int64(offset))
		return build(sizes("d", o.Dims), nil, nil, results)
	case hlo.Reduce:
		if input >= in.Inputs() {
			return everywhere()
		}
		var results []affine.Expr
		for i := range o.Dims {
			if !slices.Contains(in.Dims, i) {
				results = append(results, d(i))
			}
		}
		return build(sizes("d", o.Dims), nil, nil, results)
	case hlo.Slice:
		vars := sizes("d", o.Dims)
		results := make([]affine.Expr, len(dims))
		var constraints []affine.Constraint
		for i, c := range in.Slices {
			vars[i].Range = affine.Range{Lo: int64(c.Start), Hi: int64(c.Start) + int64(dims[i]-1)*int64(c.Stride)}
			results[i] = d(i).AddConst(int64(-c.Start)).FloorDiv(num(c.Stride))
			if c.Stride > 1 {
				constraints = append(constraints, affine.Constraint{Expr: d(i).AddConst(int64(-c.Start)).Mod(num(c.Stride))})
			}
		}
		return build(vars, nil, nil, results, constraints...)
	case hlo.Transpose:
		return Permuted(o.Dims, in.Dims)
	case hlo.Reshape:
		return Reshaped(o.Dims, dims)
	case hlo.Bitcast:
		return Bitcast(o, in.Shape)
	case hlo.Reverse:
		return operand(in, 0, 0).Map
	}
	return affine.Undefined()
}

// Physical replaces the positions of maps between two shapes by places in memory.
func Physical(set []Indexing, from, into hlo.Shape) []Indexing {
	var out Set
	for _, x := range set {
		y := Compose(Indexing{Map: PhysicalToLogical(from)}, x)
		if !y.Map.Undefined() && !y.Map.KnownEmpty() {
			y = Compose(y, Indexing{Map: LogicalToPhysical(into)})
		}
		out.Add(y)
	}
	return out.Maps
}
