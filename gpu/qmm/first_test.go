package qmm

import (
	"fmt"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// firsts are products that took longest of those of TestGPUFirst until the driver had their
// PTX, with how many allocations that takes at most; the bounds leave a twelfth on top.
var firsts = []struct {
	weight, plan string
	m, n, k      int
	most         float64
}{
	{"u1", Decode, 16, 8192, 8192, 61_500},
	{"u2", Decode, 16, 57344, 8192, 44_500},
	{"f8e4m3", Wide, 32, 10240, 8192, 27_500},
	{"u1", Wide, 64, 8192, 8192, 59_000},
	{"u5", Wide, 64, 8192, 8192, 75_500},
	{"u6", Wide, 128, 57344, 8192, 47_500},
}

// first is our share of a first product: choice of a schedule, programs, PTX.
func first(t testing.TB, weight, plan string, m, n, k int) {
	l, err := Parse(weight, n, k)
	if err != nil {
		t.Fatal(err)
	}
	d, err := device.Open("interp")
	if err != nil {
		t.Fatal(err)
	}
	none := &array.Array{Type: dtype.U8}
	p := &Packed{Linear: l, W: none, Scales: none, One: 1}
	_, all, err := p.begin(d, &array.Array{Type: l.ActType, Shape: []int{m, k}}, Call{Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range all.recipes {
		made, err := r.Make()
		if err != nil {
			t.Fatal(err)
		}
		c, err := compile.Program(made, compile.Options{Arch: warpgroups, Divisible: compile.Divisors(made, all.args[i]), Verified: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.PTX(); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkFirst is for profiles. A process that makes a program once takes longer: nothing
// is in caches, and memory is new.
func BenchmarkFirst(b *testing.B) {
	for _, c := range firsts {
		b.Run(fmt.Sprintf("%s/%s/%d/%d", c.weight, c.plan, c.m, c.n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				first(b, c.weight, c.plan, c.m, c.n, c.k)
			}
		})
	}
}

// TestFirstAllocations sees programs that are lowered or read twice, whatever else the machine does.
func TestFirstAllocations(t *testing.T) {
	for _, c := range firsts {
		got := testing.AllocsPerRun(3, func() { first(t, c.weight, c.plan, c.m, c.n, c.k) })
		t.Logf("%s, %s, %d rows of [%d, %d]: %.0f allocations", c.weight, c.plan, c.m, c.n, c.k, got)
		if got > c.most {
			t.Errorf("%s, %s, %d rows of [%d, %d]: %.0f allocations, more than %.0f; see where: go test ./gpu/qmm -run FirstAllocations -memprofile mem -memprofilerate 1", c.weight, c.plan, c.m, c.n, c.k, got, c.most)
		}
	}
}
