package hopper_test

import (
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/gemm/hopper"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// BenchmarkShare is our share of the time from program text to running code: reading, verifying,
// lowering, passes and PTX.
func BenchmarkShare(b *testing.B) {
	for _, step := range []int{0, 5} {
		p, err := hopper.Matmul(step, hopper.Defaults(step))
		if err != nil {
			b.Fatal(err)
		}
		src := text.Format(p)
		b.Run(p.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := text.Parse("p.tile", src, nil)
				if err != nil {
					b.Fatal(err)
				}
				c, err := compile.Program(p, compile.Options{Divisible: map[string]int64{"M": 128, "N": 128, "K": 128}})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := c.PTX(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
