// Package traffic predicts what the kernels of a planned fusion ask of memory, from the
// same indexing maps that their code is made of: bytes read and written, how often each is
// asked for, how many sectors of global memory a warp's request touches, and how often
// lanes meet in a bank of shared memory.
//
// A map leads from threads, blocks and loop counters to elements; lanes of a warp are
// neighbouring threads, so that addresses follow by evaluation. Of a kernel that makes
// up to 2,048 requests at a place each is looked at; of others sectors and wavefronts are
// averages over some, spread evenly over the grid and the loops. Indices that only the
// running program knows are taken as random.
package traffic

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
	"github.com/tilus-lab/tilus-lab/vm/hlo/index"
	"github.com/tilus-lab/tilus-lab/vm/hlo/plan"
)

// Kind is what an access does.
type Kind string

// The kinds of accesses.
const (
	Read        Kind = "read"
	Write       Kind = "write"
	Atomic      Kind = "atomic"
	SharedRead  Kind = "shared read"
	SharedWrite Kind = "shared write"
)

// Access is one place of a kernel at which its threads read or write a tensor.
type Access struct {
	Kind   Kind   `json:"kind"`
	Tensor string `json:"tensor"`
	// Map leads from threads and loop counters to the place in memory, in elements.
	Map    affine.Map `json:"-"`
	Bits   int        `json:"bits"`   // of an element
	Vector int        `json:"vector"` // elements that a thread moves at once

	Requests int64   `json:"requests"` // of warps
	Lanes    float64 `json:"lanes"`    // that take part in a request
	// Units are 32-byte sectors of global memory, or wavefronts of shared memory, that a
	// request takes; Ideal are the fewest that its bytes could.
	Units float64 `json:"units"`
	Ideal float64 `json:"ideal"`

	Asked int64 `json:"asked"` // bytes, each time that a thread asks for them
	Bytes int64 `json:"bytes"` // distinct ones, 0 of shared memory
}

// Shared says whether the access is one to shared memory.
func (a Access) Shared() bool { return a.Kind == SharedRead || a.Kind == SharedWrite }

// Efficiency is Ideal/Units: 1 where no sector is fetched for bytes that nobody wants, or
// no lanes meet in a bank.
func (a Access) Efficiency() float64 {
	if a.Units == 0 {
		return 1
	}
	return a.Ideal / a.Units
}

// Reuse is how often a byte is asked for.
func (a Access) Reuse() float64 {
	if a.Bytes == 0 {
		return 0
	}
	return float64(a.Asked) / float64(a.Bytes)
}

// Moved are the bytes of all sectors that requests touch.
func (a Access) Moved() int64 {
	if a.Shared() {
		return 0
	}
	return int64(a.Units * float64(a.Requests) * 32)
}

// Kernel is what one launch asks for.
type Kernel struct {
	Name     string   `json:"name"`
	Emitter  string   `json:"emitter"`
	Accesses []Access `json:"accesses"`
	Read     int64    `json:"read"`    // distinct bytes
	Written  int64    `json:"written"` // distinct bytes
}

// Report is what the kernels of a plan ask for.
type Report struct {
	Kernels []Kernel `json:"kernels"`
	// Ideal are the bytes that must move whatever the kernels do: of what is read of
	// each parameter, once, and of each result, once.
	Ideal int64 `json:"ideal"`
	// Bytes are those that do, if caches keep nothing from one kernel to the next.
	Bytes int64 `json:"bytes"`
}

// HBM is the rate in bytes per second that an H200's memory is specified for.
const HBM = 4.8e12

// AtLeast is the time that the bytes take at a rate in bytes per second.
func (r Report) AtLeast(rate float64) time.Duration {
	return time.Duration(math.Ceil(float64(r.Bytes) / rate * 1e9))
}

// Of predicts the traffic of a plan.
func Of(p *plan.Plan) (Report, error) {
	var r Report
	first := map[int]int64{} // distinct bytes of parameters and results
	for _, k := range p.Kernels {
		w := &walker{k: k}
		if err := w.kernel(); err != nil {
			return Report{}, err
		}
		out := Kernel{Name: k.Computation.Name, Emitter: k.Emitter, Accesses: w.merged()}
		for _, a := range out.Accesses {
			switch {
			case a.Shared():
			case a.Kind == Read:
				out.Read += a.Bytes
			case a.Kind == Atomic:
				out.Read += a.Bytes
				out.Written += a.Bytes
			default:
				out.Written += a.Bytes
			}
			for i, in := range k.Computation.Params {
				if a.Kind == Read && in.Name == a.Tensor && p.Buffers[k.Args[i]].Role == plan.ParameterBuffer {
					first[k.Args[i]] = max(first[k.Args[i]], a.Bytes)
				}
			}
		}
		for _, b := range k.Results {
			if p.Buffers[b].Role == plan.ResultBuffer {
				first[b] = int64(p.Buffers[b].Shape.Bytes())
				if k.Emitter == plan.UpdateEmitter {
					first[b] = out.Written
				}
			}
		}
		r.Bytes += out.Read + out.Written
		r.Kernels = append(r.Kernels, out)
	}
	for _, n := range first {
		r.Ideal += n
	}
	return r, nil
}

// String is the report as a table.
func (r Report) String() string {
	var b strings.Builder
	for _, k := range r.Kernels {
		fmt.Fprintf(&b, "%s: %s, reads %s, writes %s\n", k.Name, k.Emitter, Bytes(k.Read), Bytes(k.Written))
		fmt.Fprintf(&b, "  %-12s %-14s %6s %12s %6s %22s %5s %10s %6s\n", "access", "tensor", "vector", "requests", "lanes", "sectors|wavefronts", "of it", "bytes", "reuse")
		for _, a := range k.Accesses {
			bytes, reuse := "", ""
			if !a.Shared() {
				bytes, reuse = Bytes(a.Bytes), fmt.Sprintf("%.1f", a.Reuse())
			}
			fmt.Fprintf(&b, "  %-12s %-14s %6d %12d %6.1f %22s %4.0f%% %10s %6s\n", a.Kind, a.Tensor, a.Vector, a.Requests, a.Lanes,
				fmt.Sprintf("%.1f (ideal %.1f)", a.Units, a.Ideal), 100*a.Efficiency(), bytes, reuse)
		}
	}
	fmt.Fprintf(&b, "in all %s, ideal %s (%.0f%%); at %.1f TB/s at least %s\n", Bytes(r.Bytes), Bytes(r.Ideal), 100*float64(r.Ideal)/float64(max(r.Bytes, 1)), HBM/1e12, r.AtLeast(HBM).Round(10*time.Nanosecond))
	return b.String()
}

// Bytes is a number of bytes for reading.
func Bytes(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 10<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// walker finds the accesses of one kernel.
type walker struct {
	k   *plan.Kernel
	out []Access
}

// place is a position in the memory of a shape, as one in its dimensions.
func place(at affine.Expr, s hlo.Shape) []affine.Expr {
	order := s.MinorToMajor()
	physical := index.Delinear(at, s.Physical().Dims)
	out := make([]affine.Expr, len(order))
	for i, e := range physical {
		out[order[len(order)-1-i]] = e
	}
	return out
}

// onto turns a thread map into one that leads to the same place in memory of a shape with as
// many elements.
func onto(m plan.NamedMap, s hlo.Shape) index.Indexing {
	dims := m.Dims
	if dims == nil {
		dims = s.Dims
	}
	x, err := affine.NewMap(m.Map.Dims, m.Map.Ranges, m.Map.Runtime, place(index.Linear(m.Map.Results, dims), s), m.Map.Constraints)
	if err != nil {
		return index.Undefined()
	}
	x, _ = x.Simplify(false)
	return index.Indexing{Map: x}
}

// reads adds what a thread reads of the parameters to compute an instruction at a place;
// instructions in stop are computed elsewhere.
func (w *walker) reads(in *hlo.Instruction, at index.Indexing, stop []*hlo.Instruction) {
	sets := map[*hlo.Instruction][]index.Indexing{in: {at}}
	for i := in.Index; i >= 0; i-- {
		x := w.k.Computation.Instructions[i]
		if len(sets[x]) == 0 || slices.Contains(stop, x) {
			continue
		}
		for _, m := range sets[x] {
			if x.Op == hlo.Parameter {
				w.add(Read, x.Name, x.Shape, m)
				continue
			}
			for k, maps := range index.OutputToInput(x, 0) {
				for _, om := range maps {
					o := x.Operands[k]
					if len(o.Shape.Outputs()[0].Dims) == 0 {
						continue // a scalar
					}
					sets[o] = index.Insert(sets[o], index.Compose(m, om))
				}
			}
		}
	}
}

func (w *walker) writes(root *hlo.Instruction, at index.Indexing) {
	for _, s := range root.Shape.Outputs() {
		w.add(Write, root.Name, s, at)
	}
}

func (w *walker) kernel() error {
	k := w.k
	find := func(name string) (plan.NamedMap, error) {
		m, ok := k.Find(name)
		if !ok {
			return m, fmt.Errorf("traffic: the %s kernel of %s has no map %s", k.Emitter, k.Computation.Name, name)
		}
		return m, nil
	}
	shared := func(names ...string) {
		for _, name := range names {
			if m, ok := k.Find(name); ok && len(k.Shared) == len(m.Map.Results) {
				for _, h := range k.Heroes {
					w.shared(name, h, m)
				}
			}
		}
	}
	switch k.Emitter {
	case plan.LoopEmitter, plan.CopyEmitter:
		m, err := find("thread_to_output")
		if err != nil {
			return err
		}
		first := onto(m, k.Roots[0].Shape.Outputs()[0])
		for i, root := range plan.RootMaps(k.Roots) {
			at := index.Compose(first, index.Indexing{Map: root})
			w.reads(k.Roots[i], at, nil)
			w.writes(k.Roots[i], at)
		}
	case plan.UpdateEmitter:
		m, err := find("thread_to_update")
		if err != nil {
			return err
		}
		for _, h := range k.Heroes {
			at := onto(m, h.Operands[1].Shape)
			w.reads(h.Operands[1], at, nil)
			w.writes(h, at)
		}
	case plan.ScatterEmitter:
		return w.scatter(find)
	case plan.ConcatEmitter:
		hero := k.Heroes[0]
		at := 0
		for _, m := range k.Maps {
			switch m.Name {
			case "operand_map":
				w.reads(hero.Operands[at], index.Indexing{Map: m.Map}, nil)
			case "output_map":
				m.Dims = hero.Shape.Dims
				root := index.Indexing{Map: m.Map}
				w.reads(k.Roots[0], root, k.Heroes)
				w.writes(k.Roots[0], root)
				at++
			}
		}
	case plan.TransposeEmitter:
		in, err := find("thread_to_input")
		if err != nil {
			return err
		}
		out, err := find("thread_to_output")
		if err != nil {
			return err
		}
		for _, h := range k.Heroes {
			w.reads(h.Operands[0], onto(in, h.Operands[0].Shape), nil)
		}
		shared("shared_write", "shared_read")
		for _, r := range k.Roots {
			m := out
			if slices.Contains(k.SideOutputs, r) {
				m = in
			}
			w.reads(r, onto(m, r.Shape), k.Heroes)
			w.writes(r, onto(m, r.Shape))
		}
	case plan.OnePassEmitter:
		m, err := find("thread_to_row")
		if err != nil {
			return err
		}
		for _, h := range k.Heroes {
			w.reads(h.Operands[0], onto(m, h.Operands[0].Shape), k.Heroes)
		}
		for _, r := range k.Roots {
			at := onto(m, r.Shape)
			if r.Shape.Elements() != m.Dims[0]*m.Dims[1] { // one element for a row, by its first thread
				column := affine.Constraint{Expr: m.Map.Results[1]}
				one, err := affine.NewMap(m.Map.Dims, m.Map.Ranges, nil, m.Map.Results[:1], append(slices.Clone(m.Map.Constraints), column))
				if err != nil {
					return fmt.Errorf("traffic: %w", err)
				}
				one, _ = one.Simplify(false)
				at = onto(plan.NamedMap{Map: one, Dims: m.Dims[:1]}, r.Shape)
			}
			w.reads(r, at, k.Heroes)
			w.writes(r, at)
		}
	default: // reductions
		in, err := find("thread_to_reduction_input")
		if err != nil {
			return err
		}
		out, err := find("thread_to_reduction_output")
		if err != nil {
			return err
		}
		for _, h := range k.Heroes {
			for _, o := range h.Operands[:h.Inputs()] {
				w.reads(o, onto(in, o.Shape), nil)
			}
		}
		shared("shared_write", "shared_read")
		for _, r := range k.Roots {
			m := out
			if slices.Contains(k.SideOutputs, r) {
				m = in
			}
			s := r.Shape.Outputs()[0]
			w.reads(r, onto(m, s), k.Heroes)
			w.writes(r, onto(m, s))
		}
	}
	return nil
}

// scatter: updates and indices are read in order, rows of the operand are hit at random.
func (w *walker) scatter(find func(string) (plan.NamedMap, error)) error {
	k, h := w.k, w.k.Heroes[0]
	update, err := find("thread_to_update")
	if err != nil {
		return err
	}
	rows, err := find("thread_to_index_row")
	if err != nil {
		return err
	}
	n := h.Inputs()
	w.reads(h.Operands[n], index.Indexing{Map: rows.Map}, nil)
	w.reads(h.Operands[n+1], onto(update, h.Operands[n+1].Shape), nil)
	s := h.Operands[0].Shape
	if len(update.Map.Results) != len(s.Dims)+1 {
		return nil // not the simplified form: nothing is said about it
	}
	results := slices.Clone(update.Map.Results[1:])
	runtime := affine.Variable{Name: "rt0", Range: affine.Range{Hi: int64(s.Dims[0] - h.Operands[n+1].Shape.Dims[1])}}
	results[0] = results[0].Add(affine.Var("rt0"))
	m, err := affine.NewMap(update.Map.Dims, update.Map.Ranges, []affine.Variable{runtime}, results, update.Map.Constraints)
	if err != nil {
		return fmt.Errorf("traffic: %w", err)
	}
	at := index.Indexing{Map: m, Runtime: []index.Runtime{{Source: h.Operands[n], At: index.Indexing{Map: rows.Map}}}}
	if k.Atomic {
		w.add(Atomic, h.Name, s, at)
	} else {
		w.add(Read, h.Operands[0].Name, s, at)
		w.add(Write, h.Name, s, at)
	}
	return nil
}

// merged joins accesses of one tensor with one map, and bounds the distinct bytes of what is
// read at several places.
func (w *walker) merged() []Access {
	var out []Access
	total := map[string]int64{}
	size := map[string]int64{}
	for _, in := range w.k.Computation.Params {
		size[in.Name] = int64(in.Shape.Outputs()[0].Bytes())
	}
next:
	for _, a := range w.out {
		for _, b := range out {
			if a.Kind == b.Kind && a.Tensor == b.Tensor && a.Map.Equal(b.Map) {
				continue next
			}
		}
		if n, ok := size[a.Tensor]; ok && a.Kind == Read {
			a.Bytes = min(a.Bytes, n-total[a.Tensor])
			total[a.Tensor] += a.Bytes
		}
		out = append(out, a)
	}
	return out
}
