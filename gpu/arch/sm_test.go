package arch

import "testing"

// TestOccupancy holds counts of NVIDIA's occupancy calculator.
func TestOccupancy(t *testing.T) {
	for _, c := range []struct {
		target                     string
		threads, registers, shared int
		blocks                     int
		limit                      string
	}{
		{"sm_80", 256, 32, 0, 8, "threads"},
		{"sm_80", 256, 64, 0, 4, "registers"},
		{"sm_80", 128, 255, 0, 2, "registers"},
		{"sm_80", 32, 16, 0, 32, "blocks"},
		{"sm_80", 128, 32, 80 << 10, 2, "shared memory"},
		{"sm_86", 256, 32, 0, 6, "threads"},
		{"sm_89", 64, 16, 0, 24, "blocks"},
		{"sm_90", 128, 32, 99 << 10, 1, "shared memory"},
		{"sm_90", 1024, 32, 0, 1, "threads"},
		{"sm_90a", 128, 32, 227 << 10, 1, "shared memory"},
		{"sm_90a", 1024, 255, 0, 0, "registers"},
	} {
		a, err := Lookup(c.target)
		if err != nil {
			t.Fatal(err)
		}
		if o := a.Occupancy(c.threads, c.registers, c.shared); o.Blocks != c.blocks || o.Limit != c.limit {
			t.Errorf("%s, %d threads, %d registers, %d bytes: %+v, want %d by %s", c.target, c.threads, c.registers, c.shared, o, c.blocks, c.limit)
		}
	}
}
