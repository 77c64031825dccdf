package layoutviz

import (
	"testing"

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
