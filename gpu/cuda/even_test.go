package cuda

import "testing"

// TestEvenShared holds that as many blocks as an SM must have fit, and no more, unless each has one.
func TestEvenShared(t *testing.T) {
	h200 := Device{SMs: 132, SharedPerSM: 233472, SharedPerBlockOptin: 232448, SharedReserved: 1024}
	limited := 0
	for blocks := 1; blocks < 5000; blocks += 1 + blocks/200*6 {
		for fit := 1; fit <= 32; fit++ {
			shared, each := h200.evenShared(blocks, fit), (blocks+131)/132
			if (shared == 0) != (blocks == 132 || each >= fit) {
				t.Fatalf("%d blocks, %d fit: %d bytes", blocks, fit, shared)
			}
			if shared == 0 {
				continue
			}
			limited++
			if got := h200.SharedPerSM / (shared + h200.SharedReserved); got != each || shared%128 != 0 {
				t.Fatalf("%d blocks, %d fit: of %d bytes %d fit, not %d", blocks, fit, shared, got, each)
			}
		}
	}
	if limited < 1000 {
		t.Errorf("%d launches are limited", limited)
	}
}
