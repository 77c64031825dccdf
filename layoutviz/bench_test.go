package layoutviz

import (
	"testing"
	"time"

	"github.com/tilus-lab/tilus-lab/vm/layout"
)

func benchView(b *testing.B, draw view, l layout.Layout) {
	for b.Loop() {
		if _, err := draw(l, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTensor1024(b *testing.B) {
	benchView(b, Tensor, layout.Local(2, 2).Spatial(8, 4).Local(2, 4))
}
func BenchmarkTensor4096(b *testing.B) { benchView(b, Tensor, samples["4096"]) }
func BenchmarkThreads1024(b *testing.B) {
	benchView(b, Threads, layout.Local(2, 2).Spatial(8, 4).Local(2, 4))
}
func BenchmarkThreads4096(b *testing.B) { benchView(b, Threads, samples["4096"]) }

// TestSpeed holds that a page can draw while its user types: 64×64 elements in 20 ms
// and 1,024 in 5 ms, four times as long where machines are shared.
func TestSpeed(t *testing.T) {
	small := layout.Local(2, 2).Spatial(8, 4).Local(2, 4)
	for _, c := range []struct {
		name string
		draw view
		l    layout.Layout
		most time.Duration
	}{
		{"64×64 elements", Tensor, samples["4096"], 20 * time.Millisecond},
		{"4,096 places", Threads, samples["4096"], 20 * time.Millisecond},
		{"1,024 elements", Tensor, small, 5 * time.Millisecond},
		{"1,024 places", Threads, small, 5 * time.Millisecond},
	} {
		best := time.Hour
		for range 20 {
			start := time.Now()
			if _, err := c.draw(c.l, Options{}); err != nil {
				t.Fatal(err)
			}
			if best = min(best, time.Since(start)); best <= c.most {
				break
			}
		}
		if best > 4*c.most {
			t.Errorf("%s take %v, want at most %v", c.name, best, 4*c.most)
		}
	}
}
