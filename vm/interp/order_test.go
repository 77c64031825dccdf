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
		{"no order", ", order=acq_rel", "", "reads element 0 of gp, which thread 0 of block 0 wrote in this launch, in line 13 [Run.E4]"},
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

// TestSeveralReaders lets a block overwrite what blocks, and thread groups, have read
// that nothing orders among themselves: it comes after each of them.
func TestSeveralReaders(t *testing.T) {
	blocks := `program p<B>(x: *f32, count: *i32, B: i32) warps=1 {
	gx = ViewGlobal(x) : global f32[32]
	gc = ViewGlobal(count) : global i32[1]
	r = LoadGlobal(gx, offset=[0]) : register f32[32] spatial(32)
	Synchronize()
	before = AtomicScalar(gc, 1, offset=[0], op=add, order=acq_rel)
	Synchronize()
	if before == B - 1 {
		z = Add(r, r) : register f32[32] spatial(32)
		StoreGlobal(gx, z, offset=[0])
	}
}
`
	groups := `program p<1>(x: *f32, B: i32) warps=3 {
	gx = ViewGlobal(x) : global f32[32]
	group(0, 32) {
		r = LoadGlobal(gx, offset=[0]) : register f32[32] spatial(32)
	}
	group(32, 32) {
		s = LoadGlobal(gx, offset=[0]) : register f32[32] spatial(32)
	}
	Synchronize()
	group(64, 32) {
		z = AllocateRegister(init=1) : register f32[32] spatial(32)
		StoreGlobal(gx, z, offset=[0])
	}
}
`
	for _, c := range []struct {
		name, src, without string
		args               []ir.Arg
	}{
		{"blocks", blocks, ", order=acq_rel", []ir.Arg{gen(t, "ones:f32[32]"), gen(t, "zeros:i32[1]"), {Int: 4}}},
		{"groups", groups, "\tSynchronize()\n", []ir.Arg{gen(t, "ones:f32[32]"), {Int: 4}}},
	} {
		if _, err := run(t, c.src, c.args...); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		with := []string{""}
		if c.name == "blocks" {
			with = append(with, ", order=relaxed", ", order=acquire", ", order=release") // each is half of what it takes, or nothing
		}
		for _, w := range with {
			if _, err := run(t, strings.Replace(c.src, c.without, w, 1), c.args...); err == nil || !strings.Contains(err.Error(), "[Run.E4]") {
				t.Errorf("%s, without order%s: %v", c.name, w, err)
			}
		}
	}
}

// TestGroupsPublish lets a thread group of each block publish what it stored before a
// barrier of its own; what other threads of the block stored it knows nothing of.
func TestGroupsPublish(t *testing.T) {
	src := `program p<4>(x: *f32, y: *f32, count: *i32) warps=2 {
	gx = ViewGlobal(x) : global f32[4, 32]
	gy = ViewGlobal(y) : global f32[4, 32]
	gc = ViewGlobal(count) : global i32[1]
	bi = BlockIndices()
	group(32, 32) {
		one = AllocateRegister(init=1) : register f32[1, 32] spatial(1, 32)
		StoreGlobal(gx, one, offset=[bi, 0])
		Synchronize()
		before = AtomicScalar(gc, 3, offset=[0], op=inc, order=acq_rel)
		if before == 3 {
			Synchronize()
			all = LoadGlobal(gx, offset=[0, 0]) : register f32[4, 32] local(4, 1).spatial(1, 32)
			StoreGlobal(gy, all, offset=[0, 0])
		}
	}
}
`
	args := []ir.Arg{gen(t, "zeros:f32[4, 32]"), gen(t, "zeros:f32[4, 32]"), gen(t, "zeros:i32[1]")}
	if _, err := run(t, src, args...); err != nil {
		t.Error(err)
	}
	store := "\t\tone = AllocateRegister(init=1) : register f32[1, 32] spatial(1, 32)\n\t\tStoreGlobal(gx, one, offset=[bi, 0])\n"
	for name, bad := range map[string]string{
		"without its barrier": strings.Replace(src, "\t\tSynchronize()\n\t\tbefore", "\t\tbefore", 1),
		"relaxed":             strings.Replace(src, "order=acq_rel", "order=relaxed", 1),
		"by other threads":    strings.Replace(strings.Replace(src, store, "", 1), "\tgroup(32", "\tgroup(0, 32) {\n"+store+"\t\tSynchronize()\n\t}\n\tgroup(32", 1),
	} {
		if _, err := run(t, bad, args...); err == nil || !strings.Contains(err.Error(), "[Run.E4]") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
