package qmm

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// firsts are among the longest programs of products, with schedules that tables have had, and how
// many allocations they take at most until the driver has their PTX; the bounds leave a twelfth on top.
var firsts = []struct {
	weight string
	decode *template.Schedule
	wide   *template.WideSchedule
	most   float64
}{
	{"u1", &template.Schedule{Rows: 16, Depth: 1, Warps: 4, Sides: 1, Splits: 1, PDL: true, Stages: 4, Blocks: 128, Warpgroups: true, Fine: true, Once: true}, nil, 39_000},
	{"u2", &template.Schedule{Rows: 16, Depth: 1, Warps: 8, Sides: 2, Splits: 1, PDL: true, Stages: 4, Blocks: 132, Warpgroups: true, Fine: true}, nil, 30_700},
	{"f8e4m3", nil, &template.WideSchedule{Rows: 32, Consumers: 2, Sides: 2, Parts: 1, Stages: 4, Cluster: 1, Splits: 1, Blocks: 132, Staged: true}, 18_300},
	{"u1", nil, &template.WideSchedule{Rows: 64, Consumers: 1, Sides: 1, Parts: 4, Stages: 4, Cluster: 1, Splits: 2, Fine: true, Once: true, Staged: true}, 34_300},
	{"u5", nil, &template.WideSchedule{Rows: 64, Consumers: 2, Sides: 1, Parts: 4, Stages: 4, Cluster: 1, Splits: 2, Staged: true}, 69_300},
	{"u6", nil, &template.WideSchedule{Rows: 128, Consumers: 2, Sides: 1, Parts: 2, Stages: 3, Cluster: 1, Splits: 1, Staged: true}, 32_300},
}

// first makes one of them as first products do.
func first(t testing.TB, i int) {
	c := firsts[i]
	l, err := Parse(c.weight, 8192, 8192)
	if err != nil {
		t.Fatal(err)
	}
	var p *ir.Program
	if c.decode != nil {
		p, err = template.Decode(l.Form(), *c.decode)
	} else {
		p, err = template.Wide(l.Form(), *c.wide)
	}
	if err != nil {
		t.Fatal(err)
	}
	made, err := compile.Program(p, compile.Options{Arch: warpgroups, Divisible: map[string]int64{"M": 16, "N": 128, "K": 128}, Verified: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.PTX(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkFirst is for profiles. A process that makes a program once takes longer: nothing
// is in caches, and memory is new.
func BenchmarkFirst(b *testing.B) {
	for i, c := range firsts {
		name := c.weight + "/" + Wide
		if c.decode != nil {
			name = c.weight + "/" + Decode
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				first(b, i)
			}
		})
	}
}

// TestFirstAllocations sees programs that are lowered or read twice, whatever else the machine does.
func TestFirstAllocations(t *testing.T) {
	for i, c := range firsts {
		got := testing.AllocsPerRun(3, func() { first(t, i) })
		t.Logf("%s, %v%v: %.0f allocations", c.weight, c.decode, c.wide, got)
		if got > c.most {
			t.Errorf("%s, %v%v: %.0f allocations, more than %.0f; see where: go test ./gpu/qmm -run FirstAllocations -memprofile mem -memprofilerate 1", c.weight, c.decode, c.wide, got, c.most)
		}
	}
}
