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
