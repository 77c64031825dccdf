package traffic

import (
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// Up to exact requests, the addresses of all are computed; of more, those of about samples.
const (
	exact   = 2048
	samples = 256
)

// request are the lanes of one warp's access: byte addresses or bank.Inactive.
type request []int

// add counts an access to a tensor in global memory.
func (w *walker) add(kind Kind, name string, s hlo.Shape, at index.Indexing) {
	if at.Map.Undefined() || at.Map.KnownEmpty() || s.Elements() <= 1 {
		return
	}
	offset := affine.Const(0)
	for i, stride := range s.Strides() {
		offset = offset.Add(at.Map.Results[i].MulConst(int64(stride)))
	}
	a := Access{Kind: kind, Tensor: name, Bits: s.Type.Bits()}
	requests := w.requests(&a, at, offset, s.Elements())
	n, idle := 0.0, 0.0
	lanes, units, ideal := 0, 0, 0
	for _, r := range requests {
		width := max(1, a.Vector*a.Bits/8)
		g, err := bank.Global(width, r)
		if err != nil || g.Lanes == 0 {
			idle++ // nobody takes part: a request that is not made
			continue
		}
		n++
		lanes += g.Lanes
		units += len(g.Sectors)
		ideal += g.Ideal
	}
	a.settle(n, idle, lanes, units, ideal)
	a.Bytes = min(a.Asked, int64(s.Bytes()))
	if float64(a.Asked) > 0.95*float64(s.Bytes()) {
		a.Bytes = int64(s.Bytes()) // an average over samples misses a bit
	}
	w.out = append(w.out, a)
}

// shared counts an access to a tile in shared memory that is laid out row by row.
func (w *walker) shared(name string, hero *hlo.Instruction, m plan.NamedMap) {
	a := Access{Kind: SharedWrite, Tensor: hero.Name, Bits: max(8, hero.Shape.Outputs()[0].Type.Bits())}
	if name == "shared_read" {
		a.Kind = SharedRead
	}
	size := 1
	offset := affine.Const(0)
	for i := len(w.k.Shared) - 1; i >= 0; i-- {
		offset = offset.Add(m.Map.Results[i].MulConst(int64(size)))
		size *= w.k.Shared[i]
	}
	profile, err := bank.FindProfile("sm_90")
	if err != nil {
		return
	}
	kind := bank.Store
	if a.Kind == SharedRead {
		kind = bank.Load
	}
	n, idle := 0.0, 0.0
	lanes, units, ideal := 0, 0, 0
	for _, r := range w.requests(&a, index.Indexing{Map: m.Map}, offset, size) {
		c, err := bank.Count(profile, bank.Access{Kind: kind, Width: max(1, a.Vector*a.Bits/8), Addrs: r})
		if err != nil || c.Ideal == 0 {
			idle++
			continue
		}
		n++
		for _, at := range r {
			if at != bank.Inactive {
				lanes++
			}
		}
		units += c.Wavefronts
		ideal += c.Ideal
	}
	a.settle(n, idle, lanes, units, ideal)
	w.out = append(w.out, a)
}

// settle turns sums over sampled requests into averages over those that are made.
func (a *Access) settle(n, idle float64, lanes, units, ideal int) {
	if n == 0 {
		a.Requests = 0
		return
	}
	a.Requests = int64(float64(a.Requests) * n / (n + idle))
	bytes := float64(lanes) / n * float64(a.Requests) * float64(a.Vector*a.Bits) / 8
	a.Lanes, a.Units, a.Ideal, a.Asked = float64(lanes)/n, float64(units)/n, float64(ideal)/n, int64(bytes+0.5)
}

// requests computes addresses of requests spread over grid and loops, and sets the number
// of all and the vector width.
func (w *walker) requests(a *Access, at index.Indexing, offset affine.Expr, elements int) []request {
	m, err := affine.NewMap(at.Map.Dims, at.Map.Ranges, at.Map.Runtime, []affine.Expr{offset}, at.Map.Constraints)
	if err != nil {
		return nil
	}
	m, _ = m.Simplify(false)
	a.Map, a.Vector = m, 1
	loops := slices.Clone(m.Ranges)
	step := 1
	// The loop over neighbouring elements is one access, whichever it is.
	wide := -1
	for i := len(loops) - 1; i >= 0 && wide < 0; i-- {
		v := loops[i]
		trip := int(v.Range.Hi - v.Range.Lo + 1)
		if slices.ContainsFunc(m.Constraints, func(c affine.Constraint) bool { return slices.Contains(c.Expr.Vars(), v.Name) }) {
			continue
		}
		turned := m
		turned.Ranges = append(slices.Delete(slices.Clone(m.Ranges), i, i+1), v)
		if d := plan.Vectorise(turned, a.Bits, false, elements, trip); d.Vectorised {
			step = min(trip, max(1, 128/a.Bits))
			a.Vector, wide = step, i
			loops[i].Range.Hi = v.Range.Lo + int64(trip/step) - 1
		}
	}
	// Threads and blocks that the map leaves out make no requests.
	k := w.k
	threads := m.Dims[0].Range.Intersect(affine.Range{Hi: int64(k.Threads) - 1})
	firstWarp := threads.Lo / 32
	warps := threads.Hi/32 - firstWarp + 1
	total := warps
	size := func(v affine.Variable) int64 { return max(1, v.Range.Hi-v.Range.Lo+1) }
	for _, v := range m.Dims[3:6] {
		total *= size(v)
	}
	for _, v := range loops {
		total *= size(v)
	}
	a.Requests = total
	// All of them, or all warps of some turns of loops in some blocks, spread over the
	// whole and not in step with any power of two.
	turns := total / warps
	count := turns
	if total > exact {
		count = min(turns, max(samples/warps, 8))
	}
	eval := m.Evaluator()
	var place [1]int64
	var out []request
	for i := range count {
		n := i
		if count < turns {
			n = i*turns/count + (i*2654435761>>7)%(turns/count)
		}
		symbols := make([]int64, len(m.Ranges), len(m.Ranges)+len(m.Runtime))
		for j := len(loops) - 1; j >= 0; j-- {
			symbols[j] = loops[j].Range.Lo + n%size(loops[j])
			n /= size(loops[j])
			if j == wide {
				symbols[j] = loops[j].Range.Lo + (symbols[j]-loops[j].Range.Lo)*int64(step)
			}
		}
		dims := make([]int64, len(m.Dims))
		for j, v := range m.Dims[3:6] {
			dims[3+j] = v.Range.Lo + n%size(v)
			n /= size(v)
		}
		for warp := firstWarp; warp < firstWarp+warps; warp++ {
			r := make(request, 32)
			for lane := range r {
				r[lane] = bank.Inactive
				dims[0] = warp*32 + int64(lane)
				if dims[0] >= int64(k.Threads) {
					continue
				}
				values := symbols
				if len(m.Runtime) > 0 {
					values = append(symbols, w.runtime(at, dims, symbols)...)
				}
				if in, err := eval.At(dims, values, place[:]); err == nil && in && place[0] >= 0 {
					r[lane] = int(place[0]) * a.Bits / 8
				}
			}
			out = append(out, r)
		}
	}
	return out
}

// runtime makes up values that only the running program knows: one for each place that they
// are read from.
func (w *walker) runtime(at index.Indexing, dims, symbols []int64) []int64 {
	var out []int64
	for i, v := range at.Map.Runtime {
		hash := uint64(14695981039346656037)
		if i < len(at.Runtime) {
			source := at.Runtime[i].At.Map
			given := make([]int64, len(source.Ranges)+len(source.Runtime))
			copy(given, symbols)
			if r, err := source.Eval(dims, given); err == nil {
				for _, x := range r {
					hash = (hash ^ uint64(x+int64(i))) * 1099511628211
				}
			}
		}
		hash ^= hash >> 29
		hash *= 0x9e3779b97f4a7c15
		n := uint64(v.Range.Hi - v.Range.Lo + 1)
		out = append(out, v.Range.Lo+int64((hash>>16)%max(1, n)))
	}
	return out
}
