package hopper

import "testing"

// BenchmarkShare is our share of the time from program text to machine code.
func BenchmarkShare(b *testing.B) {
	for _, s := range sources(b) {
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := s.ptx(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
