// Package traffic predicts what the kernels of a fusion ask of memory, from the same
// indexing maps that their code is made of: bytes read and written, how often each is
// asked for, how many sectors of global memory a warp's request touches, and how often
// lanes meet in a bank of shared memory.
//
// The maps are those of the steps of gpu/emit: they lead from threads, blocks and loop
// counters to elements. Lanes of a warp are neighbouring threads, so that addresses follow
// by evaluation. Of a kernel that makes
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

	"github.com/tilus-lab/tilus-lab/gpu/emit"
	"github.com/tilus-lab/tilus-lab/vm/affine"
	"github.com/tilus-lab/tilus-lab/vm/hlo"
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
	Kind   Kind      `json:"kind"`
	Tensor string    `json:"tensor"`
	Shape  hlo.Shape `json:"-"`
	// Map leads from threads, blocks, turns of loops and the number within a vector to the
	// element; Offset to its place in memory, in elements.
	Map    affine.Map `json:"-"`
	Offset affine.Map `json:"-"`
	Bits   int        `json:"bits"`   // of an element
	Vector int        `json:"vector"` // elements that a thread moves at once

	Requests int64   `json:"requests"` // of warps
	Lanes    float64 `json:"lanes"`    // that take part in a request
	// Units are 32-byte sectors of global memory, or wavefronts of shared memory, that a
	// request takes; Ideal are the fewest that its bytes could.
	Units float64 `json:"units"`
	Ideal float64 `json:"ideal"`

	// Worst are the byte addresses of the lanes of a request that takes most units,
	// bank.Inactive where a lane takes no part.
	Worst []int `json:"-"`

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

// Of predicts the traffic of a fusion.
func Of(p *emit.Program) (Report, error) {
	var r Report
	first := map[int]int64{} // distinct bytes of arguments and results
	for _, k := range p.Kernels {
		out, err := OfKernel(k)
		if err != nil {
			return Report{}, err
		}
		for i, t := range k.Tensor.Args {
			n, written := int64(0), int64(0)
			for _, a := range out.Accesses {
				switch {
				case a.Shared() || a.Tensor != t.Name:
				case a.Kind == Read:
					n += a.Bytes
				default:
					written += a.Bytes
				}
			}
			switch b := k.Args[i]; {
			case p.Buffers[b].Param >= 0:
				first[b] = max(first[b], n)
			case slices.Contains(p.Results, b):
				first[b] = max(first[b], written)
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

// OfKernel predicts the traffic of one kernel.
func OfKernel(k *emit.Kernel) (Kernel, error) {
	w := &walker{k: k, seen: map[string]bool{}}
	if err := w.kernel(); err != nil {
		return Kernel{}, err
	}
	out := Kernel{Name: k.Name, Accesses: w.out}
	left := map[string]int64{} // of each tensor, what no access before has read
	for _, t := range k.Tensor.Args {
		left[t.Name] = int64(t.Shape.Bytes())
	}
	for i := range out.Accesses {
		a := &out.Accesses[i]
		if a.Shared() {
			continue
		}
		if a.Kind != Write {
			a.Bytes = min(a.Bytes, left[a.Tensor])
			left[a.Tensor] -= a.Bytes
			out.Read += a.Bytes
		}
		if a.Kind != Read {
			out.Written += a.Bytes
		}
	}
	return out, nil
}

// String is the report as a table.
func (r Report) String() string {
	var b strings.Builder
	for _, k := range r.Kernels {
		fmt.Fprintf(&b, "%s reads %s, writes %s\n", k.Name, Bytes(k.Read), Bytes(k.Written))
		fmt.Fprintf(&b, "  %-12s %-14s %6s %12s %6s %22s %5s %10s %6s\n", "access", "tensor", "vector", "requests", "lanes", "sectors|wavefronts", "of it", "bytes", "reuse")
		for _, a := range k.alike() {
			bytes, reuse := "", ""
			switch {
			case a.Shared():
			case a.Bytes == 0:
				bytes = "again"
			default:
				bytes, reuse = Bytes(a.Bytes), fmt.Sprintf("%.1f", a.Reuse())
			}
			fmt.Fprintf(&b, "  %-12s %-14s %6d %12d %6.1f %22s %4.0f%% %10s %6s\n", a.Kind, a.Tensor, a.Vector, a.Requests, a.Lanes,
				fmt.Sprintf("%.1f (ideal %.1f)", a.Units, a.Ideal), 100*a.Efficiency(), bytes, reuse)
		}
	}
	least := "less than 10ns"
	if t := r.AtLeast(HBM).Round(10 * time.Nanosecond); t > 0 {
		least = "at least " + t.String()
	}
	fmt.Fprintf(&b, "in all %s, ideal %s (%.0f%%); at %.1f TB/s %s\n", Bytes(r.Bytes), Bytes(r.Ideal), 100*float64(r.Ideal)/float64(max(r.Bytes, 1)), HBM/1e12, least)
	return b.String()
}

// alike puts accesses together that differ in nothing but the place, such as those of an
// unrolled loop.
func (k Kernel) alike() []Access {
	var out []Access
next:
	for _, a := range k.Accesses {
		for i := range out {
			b := &out[i]
			if a.Kind != b.Kind || a.Tensor != b.Tensor || a.Vector != b.Vector || (a.Bytes == 0) != (b.Bytes == 0) || math.Abs(a.Efficiency()-b.Efficiency()) > 0.1 {
				continue
			}
			n := a.Requests + b.Requests
			mean := func(x, y float64) float64 { return (x*float64(a.Requests) + y*float64(b.Requests)) / float64(n) }
			b.Lanes, b.Units, b.Ideal = mean(a.Lanes, b.Lanes), mean(a.Units, b.Units), mean(a.Ideal, b.Ideal)
			b.Requests, b.Asked, b.Bytes = n, a.Asked+b.Asked, a.Bytes+b.Bytes
			continue next
		}
		out = append(out, a)
	}
	return out
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
