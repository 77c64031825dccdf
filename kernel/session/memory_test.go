package session_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// resident is the memory of the worker in MB.
func (b *book) resident() float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", b.PID()))
	if err != nil {
		b.t.Skip("the memory of a process is read from /proc")
	}
	var size, pages int
	fmt.Sscan(string(data), &size, &pages)
	return float64(pages*os.Getpagesize()) / 1e6
}

// TestManyCells runs 5000 cells: memory may grow by 5 MB per 1000 of them, and the last must be as quick as the first.
func TestManyCells(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of cells")
	}
	b := open(t)
	b.ok("total := 0\ntype P struct{ X int }", "")
	kinds := []string{"1 + 1", "total += 1", "x := total\nx * 2", "P{total}.X", "func() int { return total }()"}
	median := func(n int) time.Duration {
		var took []time.Duration
		for i := range n {
			start := time.Now()
			if r, _ := b.run(kinds[i%len(kinds)]); r.Status != "ok" {
				t.Fatalf("%s: %+v", kinds[i%len(kinds)], r)
			}
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		return took[n/2]
	}
	first := median(1000)
	before := b.resident()
	median(3800)
	last := median(200)
	grown := (b.resident() - before) / 4
	t.Logf("a cell takes %v, after 5000 %v; %.1f MB per 1000 cells", first, last, grown)
	if grown > 5 {
		t.Errorf("memory grew by %.1f MB per 1000 cells, at most 5 are right", grown)
	}
	if last > 4*first+time.Millisecond {
		t.Errorf("a cell takes %v after 5000 cells, %v at first", last, first)
	}
	if _, out := b.run("total"); !strings.Contains(out, "=> 1000") {
		t.Errorf("total: %q", out)
	}
}
