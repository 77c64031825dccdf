package hopper

import (
	"strings"
	"testing"
)

// TestNothingMovesInProducts reads the PTX of every program for Hopper: between a fence of
// warpgroups and the wait behind it no register is moved, for which the machine would make
// products wait.
func TestNothingMovesInProducts(t *testing.T) {
	products := 0
	for _, s := range sources(t) {
		ptx, _, err := s.ptx()
		if err != nil {
			t.Fatal(err)
		}
		inside := false
		for line := range strings.Lines(ptx) {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "wgmma.fence"):
				inside = true
			case strings.HasPrefix(line, "wgmma.wait_group"):
				inside = false
			case strings.Contains(line, "wgmma.mma_async"):
				products++
			case inside && strings.HasPrefix(line, "mov."):
				t.Errorf("%s: %s stands between a fence and the wait", s.name, line)
			}
		}
	}
	if products == 0 {
		t.Error("no products")
	}
}
