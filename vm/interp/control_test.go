package interp

import (
	"context"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func runControl(t *testing.T, src string, n int64) (string, error) {
	t.Helper()
	p, err := text.Parse("control.tile", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(p, []ir.Arg{{Array: array.New(dtype.I32, 64)}, {Int: n}}, MaxSteps(10000))
	if err != nil {
		return "", err
	}
	s := m.Snapshot()
	if err := m.Run(context.Background()); err != nil {
		return "", err
	}
	first := m.Args()[0].Array.Clone()
	m.Restore(s)
	if err := m.Run(context.Background()); err != nil {
		return "", err
	}
	if r := array.Compare(m.Args()[0].Array, first); r.Differ > 0 {
		t.Errorf("after Restore %d elements differ", r.Differ)
	}
	_, numbers, _ := strings.Cut(first.String(), "[")
	_, numbers, _ = strings.Cut(numbers, "[")
	return numbers, nil
}

const controlHead = `program p<1>(x: *i32, n: i32) warps=2 {
	gx = ViewGlobal(x) : global i32[64]
`

func TestLeaveLoops(t *testing.T) {
	src := controlHead + `	count = 0
	for i in 0..100 {
		if i % 2 == 1 {
			continue
		}
		j = 0
		while j < 10 {
			j = j + 1
			if j > i {
				break
			}
			count = count + 1
		}
		if i == n {
			break
		}
	}
	if n == 7 {
		return
	}
	old = AtomicScalar(gx, count, offset=[0], op=add)
}
`
	for n, want := range map[int64]string{4: "6 ", 7: "0 ", 0: "0 "} {
		got, err := runControl(t, src, n)
		if err != nil || !strings.HasPrefix(strings.Trim(got, "[ "), strings.TrimSpace(want)) {
			t.Errorf("n = %d: %s, %v; want %s", n, got, err, want)
		}
	}
}

func TestGroups(t *testing.T) {
	// Two warps exchange through memory: each group's own barrier is enough for what
	// its own threads did, not for the other's.
	group := controlHead + `	s = AllocateShared() : shared i32[64] shared_row_major(64)
	group(0, 32) {
		a = AllocateRegister(init=1) : register i32[32] spatial(32)
		StoreShared(s, a)
		Synchronize()
		b = LoadShared(s) : register i32[32] local(1).column_spatial(32)
		StoreGlobal(gx, b, offset=[0])
	}
	group(32, 32) {
		a = AllocateRegister(init=2) : register i32[32] spatial(32)
		StoreShared(s, a, offset=[32])
		SYNC
		c = LoadShared(s, offset=[FROM]) : register i32[32] local(32).replicated(1, num_workers=32)
		StoreGlobal(gx, c, offset=[32])
	}
	Synchronize()
}
`
	cases := []struct {
		sync, from string
		line       int
	}{
		{"Synchronize()", "32", 0},
		{"", "32", 15},
		{"Synchronize()", "0", 15},
	}
	for _, c := range cases {
		src := strings.NewReplacer("SYNC", c.sync, "FROM", c.from).Replace(group)
		got, err := runControl(t, src, 0)
		if c.line == 0 {
			if err != nil || !strings.Contains(got, "1") || !strings.Contains(got, "2") {
				t.Errorf("%+v: %s, %v", c, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "control.tile:15:") || !strings.Contains(err.Error(), "Run.E4") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestAssume(t *testing.T) {
	src := controlHead + "	assume(n % 4 == 0 && n >= 0)\n}\n"
	if _, err := runControl(t, src, 8); err != nil {
		t.Error(err)
	}
	if _, err := runControl(t, src, 6); err == nil || !strings.Contains(err.Error(), "control.tile:3:2: ") || !strings.Contains(err.Error(), "Run.E13") {
		t.Errorf("got %v", err)
	}
}

func TestBitOperators(t *testing.T) {
	src := controlHead + `	a = (n & 12 | 1) ^ 3
	b = n << 3 >> 1
	c = -n >> 40
	d = n << 31 >> 31
	o1 = AtomicScalar(gx, a, offset=[0], op=exch)
	o2 = AtomicScalar(gx, b, offset=[1], op=exch)
	o3 = AtomicScalar(gx, c, offset=[2], op=exch)
	o4 = AtomicScalar(gx, d, offset=[3], op=exch)
}
`
	got, err := runControl(t, src, 13)
	if err != nil || !strings.HasPrefix(got, "14 52 -1 -1") {
		t.Errorf("%s, %v", got, err)
	}
}
