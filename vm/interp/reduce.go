package interp

import (
	"math"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// reduceSteps are how two elements are combined, as ops of the arithmetic family.
var reduceSteps = map[string]string{"sum": "Add", "prod": "Mul", "max": "Max", "min": "Min", "any": "Or", "all": "And"}

// partsOf calls f for each element of a reduced tile with the codes that make it,
// thread after thread and slot after slot; parts is reused.
func partsOf(in *ir.Instr, x *tile, f func(element int, parts [][]int32)) {
	from, to := in.In[0].Var().Type.Layout, in.Out[0].Type.Layout
	r := ir.ReductionOf(from, in.ReducedDims())
	held, slots := from.Flat(), from.Slots()
	threads := ir.Offsets(r.Parts)
	parts := make([][]int32, len(threads))
	for _, t := range ir.Offsets(r.Rest) {
		for s, list := range r.Slots {
			for i, at := range threads {
				parts[i] = parts[i][:0]
				for _, j := range list {
					parts[i] = append(parts[i], held[(t+at)*slots+j])
				}
			}
			f(to.FlatIndex(t, s), parts)
		}
	}
}

func reduce(m *Machine, in *ir.Instr) error {
	x, err := m.tile(in, 0)
	if err != nil {
		return err
	}
	dims, _ := in.Out[0].Type.Dims()
	step := elementFuncs[reduceSteps[in.Attr("op").Word]]
	combine := func(a, b uint64) uint64 { return step(x.elem, a, b, 0) }
	out := &tile{elem: x.elem, dims: dims, codes: make([]uint64, in.Out[0].Type.Layout.Size())}
	var threads, codes []uint64
	partsOf(in, x, func(element int, parts [][]int32) {
		threads = threads[:0]
		for _, list := range parts {
			codes = codes[:0]
			for _, e := range list {
				c := x.codes[e]
				if x.elem == dtype.Bool {
					c = dtype.Or(x.elem, c, 0) // any code but 0 is true
				}
				codes = append(codes, c)
			}
			threads = append(threads, ir.Neighbours(codes, combine))
		}
		out.codes[element] = ir.Neighbours(threads, combine)
	})
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

// argReduce finds the first of the largest or smallest elements.
func argReduce(m *Machine, in *ir.Instr) error {
	x, err := m.tile(in, 0)
	if err != nil {
		return err
	}
	dims, _ := in.Out[0].Type.Dims()
	d := in.ReducedDims()[0]
	inner := 1
	for _, n := range x.dims[d+1:] {
		inner *= n
	}
	out := &tile{elem: dtype.I32, dims: dims, codes: make([]uint64, in.Out[0].Type.Layout.Size())}
	t := x.elem
	better := func(a, b uint64) bool { // a rather than an earlier b
		switch {
		case t.IsNaN(a) || t.IsNaN(b):
			return !t.IsNaN(a)
		case in.Op.Name == "ArgMin":
			return dtype.Less(t, a, b)
		}
		return dtype.Less(t, b, a)
	}
	for k := range out.codes {
		first := k/inner*inner*x.dims[d] + k%inner
		best := 0
		for i := 1; i < x.dims[d]; i++ {
			if better(x.codes[first+i*inner], x.codes[first+best*inner]) {
				best = i
			}
		}
		out.codes[k] = uint64(best)
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

// scanSteps are the ops of Scan, and scanStart what they leave alone.
var scanSteps = map[string]string{"add": "Add", "mul": "Mul", "max": "Max", "min": "Min", "and": "And", "or": "Or", "xor": "Xor"}

// ScanStart is the code that an op of Scan leaves every element alone with.
func ScanStart(op string, t dtype.Type) uint64 {
	switch op {
	case "mul":
		return t.Encode(1, false)
	case "and":
		return t.Mask()
	case "max":
		if t.IsFloat() {
			return t.Encode(math.Inf(-1), false)
		}
		return t.Encode(t.Min(), true)
	case "min":
		switch {
		case t.IsFloat():
			return t.Encode(math.Inf(1), false)
		case t.Bits() == 64: // float64 does not hold it
			return t.MaxCode()
		}
		return t.Encode(t.Max(), true)
	}
	return 0
}

func scan(m *Machine, in *ir.Instr) error {
	x, err := m.tile(in, 0)
	if err != nil {
		return err
	}
	word := in.Attr("op").Word
	step := elementFuncs[scanSteps[word]]
	combine := func(a, b uint64) uint64 { return step(x.elem, a, b, 0) }
	d := in.ReducedDims()[0]
	inner := 1
	for _, n := range x.dims[d+1:] {
		inner *= n
	}
	out := &tile{elem: x.elem, dims: x.dims, codes: make([]uint64, len(x.codes))}
	levels := ir.ScanLevels(in.In[0].Var().Type.Layout, d)
	row := make([]uint64, x.dims[d])
	var before []uint64 // what comes before each element, for exclusive
	if in.Attr("exclusive") != nil {
		before = make([]uint64, len(row))
	}
	for k := 0; k < len(x.codes)/len(row); k++ {
		first := k/inner*inner*len(row) + k%inner
		for i := range row {
			row[i] = x.codes[first+i*inner]
		}
		for i := range before {
			before[i] = ScanStart(word, x.elem)
		}
		scanRow(row, before, levels, combine)
		result := row
		if before != nil {
			result = before
		}
		for i, c := range result {
			out.codes[first+i*inner] = c
		}
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

// scanRow scans one row of elements level by level: row inclusive, before (which
// may be nil) exclusive.
func scanRow(row, before []uint64, levels []ir.ScanLevel, combine func(a, b uint64) uint64) {
	run := 1                                // elements scanned so far in one piece
	totals := append([]uint64(nil), row...) // of the runs
	for _, l := range levels {
		for at := 0; at < len(row); at += run * l.Size {
			t := totals[at/run : at/run+l.Size]
			scanTotals(t, l, combine)
			for i := 1; i < l.Size; i++ {
				for e := at + i*run; e < at+(i+1)*run; e++ {
					row[e] = combine(t[i-1], row[e])
					if before != nil {
						before[e] = combine(t[i-1], before[e])
					}
				}
			}
			totals[at/run/l.Size] = t[l.Size-1]
		}
		run *= l.Size
	}
}

// scanTotals is one level: one after the other, or by distances.
func scanTotals(x []uint64, l ir.ScanLevel, combine func(a, b uint64) uint64) {
	if !l.Lanes {
		for i := 1; i < len(x); i++ {
			x[i] = combine(x[i-1], x[i])
		}
		return
	}
	for d := 1; d < len(x); d *= 2 {
		for i := len(x) - 1; i >= d; i-- {
			x[i] = combine(x[i-d], x[i])
		}
	}
}
