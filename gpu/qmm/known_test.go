package qmm

import "testing"

func TestKnown(t *testing.T) {
	for _, c := range []struct {
		kind    string
		m, n, k int
		from    string
	}{
		{"u4", 1, 57344, 8192, "measured"}, {"f4e2m1", 16, 8192, 8192, "measured"}, {"i4", 16, 8192, 8192, "measured"}, {"i5", 1, 57344, 8192, "measured"}, {"f7e6m0", 1, 8192, 28672, "measured"}, {"u3 zero=any", 1, 57344, 8192, "measured"}, {"u5 zero=any", 1, 57344, 8192, "expected"}, {"f6e2m3", 1, 8192, 28672, "measured"},
		{"u5 act=bf16", 1, 57344, 8192, "expected"}, {"u4 act=bf16", 1, 57344, 8192, "measured"}, {"u4 group=64", 1, 57344, 8192, "expected"}, {"u4 zero", 1, 57344, 8192, "expected"}, {"u4", 1, 4096, 4096, "expected"}, {"u4", 4096, 8192, 8192, "expected"},
	} {
		us, from, err := kind(t, c.kind, c.n, c.k).Known(c.m)
		if err != nil || from != c.from || !(us > 1) {
			t.Errorf("%s, %d rows [%d, %d]: %.2f µs %s, %v; want %s", c.kind, c.m, c.n, c.k, us, from, err, c.from)
		}
	}
	if _, _, err := (Linear{}).Known(1); err == nil {
		t.Error("no layer takes a time")
	}
}

// TestFew has products of 2 to 8 rows take what was measured for these where one row has a schedule of its own.
func TestFew(t *testing.T) {
	alone, tables := 0, 0
	for _, of := range []string{"u3", "i3", "u4", "i4", "u5", "u6", "i6", "f6e3m2", "u7", "f7e6m0", "u8", "f8e6m1", "u3 zero=any", "u4 zero=any", "u4 act=bf16", "u8 act=bf16"} {
		for _, s := range []Shape{{Name: "gate_up", N: 57344, K: 8192}, {Name: "down", N: 8192, K: 28672}, {Name: "qkv", N: 10240, K: 8192}, {Name: "o", N: 8192, K: 8192}} {
			l := kind(t, of, s.N, s.K)
			one, from, err := l.choose(1)
			if err != nil || from != "table" {
				t.Fatalf("%s %s: %s from %s, %v", of, s.Name, one, from, err)
			}
			few, from, err := l.choose(4)
			if err != nil || few.Single() || !one.Single() && few != one {
				t.Errorf("%s %s: 4 rows take %s, one %s: %v", of, s.Name, few, one, err)
			}
			if one.Single() {
				alone++
			}
			if from == "table" {
				tables++
			}
		}
	}
	if alone < 30 || tables < 60 {
		t.Errorf("%d layers have a schedule for one row alone, %d have one of the table for 4", alone, tables)
	}
}

// TestSchedulesKinds has what is worth timing be of every kind that models offer.
func TestSchedulesKinds(t *testing.T) {
	all, err := kind(t, "u2", 7168, 5120).Schedules(1, 100)
	if err != nil {
		t.Fatal(err)
	}
	digits, stages, plain := 0, map[int]int{}, 0
	for _, s := range all {
		switch {
		case s.Ringed():
			stages[s.Parts]++
		case s.Digits:
			digits++
		default:
			plain++
		}
	}
	if digits < 4 || plain < 6 || stages[4] < 3 || stages[8] < 3 || stages[16] < 3 {
		t.Errorf("%d of digits, %v of warps along k from stages, %d others", digits, stages, plain)
	}
}
