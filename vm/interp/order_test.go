package interp

import (
	"context"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func sumArgs(t *testing.T) []ir.Arg {
	return []ir.Arg{gen(t, "randint:f32[5, 256]:seed=1"), gen(t, "randint:f32[5, 256]:seed=2"), gen(t, "zeros:f32[5, 256]"), gen(t, "zeros:i32[1]"), gen(t, "zeros:f32[256]"), {Int: 5}}
}

// TestHandOver takes what orders the blocks of sum_blocks out, piece by piece.
func TestHandOver(t *testing.T) {
	src := corpus.Program("sum_blocks")
	if _, err := run(t, src, sumArgs(t)...); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"no order", ", order=acq_rel", "", "reads element 0 of gp, which thread 0 of block 0 wrote in this launch [Run.E4]"},
		{"no barrier before", "\tSynchronize()\n\tbefore", "\tbefore", "reads element 0 of gp, which thread 0 of block 0 wrote"},
		{"no barrier after", "\t\tSynchronize()\n", "", "reads element 0 of gp, which thread 0 of block 0 wrote"},
		{"another counter", "offset=[0], op", "offset=[b], op", "reads element 0 of gp"},
		{"plain store to the counter", "\tSynchronize()\n\tbefore", "\tz = AllocateRegister(init=0) : register i32[1] reduce(spatial(64), dims=[0], keepdims=True)\n\tStoreGlobal(ga, z, offset=[0])\n\tSynchronize()\n\tbefore",
			"thread 0 of block 1 overwrites element 0 of ga, which thread 0 of block 0 wrote in this launch"},
	} {
		changed := strings.Replace(src, c.from, c.to, 1)
		if c.name == "another counter" {
			changed = strings.Replace(changed, "global i32[1]", "global i32[B]", 1)
			changed = strings.Replace(changed, "before == B - 1", "b == B - 1", 1)
		}
		args := sumArgs(t)
		args[3] = gen(t, "zeros:i32[5]")
		if _, err := run(t, changed, args...); changed == src || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.name, err, c.want)
		}
	}
}

// TestOrderInSnapshots goes on from every step of a launch whose blocks hand over.
func TestOrderInSnapshots(t *testing.T) {
	m, err := New(parse(t, corpus.Program("sum_blocks")), sumArgs(t))
	if err != nil {
		t.Fatal(err)
	}
	var snaps []*Snapshot
	for !m.Done() {
		snaps = append(snaps, m.Snapshot())
		if err := m.Step(); err != nil {
			t.Fatal(err)
		}
	}
	want := m.Args()[4].Array.Clone()
	for i := len(snaps) - 1; i >= 0; i -= 3 {
		m.Restore(snaps[i])
		if err := m.Run(context.Background()); err != nil {
			t.Fatalf("from snapshot %d: %v", i, err)
		}
		if r := array.Compare(m.Args()[4].Array, want); !r.Equal() {
			t.Fatalf("from snapshot %d: %v", i, r)
		}
	}
}

// TestBarrierOrdersABlock moves values from thread to thread through memory.
func TestBarrierOrdersABlock(t *testing.T) {
	src := `program turn<1>(x: *f32) warps=1 {
	g = ViewGlobal(x) : global f32[64]
	r = LoadGlobal(g, offset=[0]) : register f32[64] spatial(32).local(2)
	StoreGlobal(g, r, offset=[0])
	Synchronize()
	s = LoadGlobal(g, offset=[0]) : register f32[64] local(2).spatial(32)
	Synchronize()
	StoreGlobal(g, r, offset=[0])
}
`
	if _, err := run(t, src, gen(t, "ones:f32[64]")); err != nil {
		t.Error(err)
	}
	for n, want := range []string{"reads element 1 of g, which thread 0 of block 0 wrote", "overwrites element 1 of g, which thread 1 of block 0 read"} {
		at := strings.Index(src, "\tSynchronize()\n")
		if n == 1 {
			at = strings.LastIndex(src, "\tSynchronize()\n")
		}
		if _, err := run(t, src[:at]+src[at+len("\tSynchronize()\n"):], gen(t, "ones:f32[64]")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without barrier %d: %v", n, err)
		}
	}
}
