package volta

import "testing"

func BenchmarkRun(b *testing.B) {
	x, y, z := Integers()
	for b.Loop() {
		if _, err := New(Setup{B: Column}, "", x, y, z); err != nil {
			b.Fatal(err)
		}
	}
}
