package interp

import "testing"

// TestPhilox compares with the known answers that the authors publish with their
// Random123 library (kat_vectors, philox4x32 10).
func TestPhilox(t *testing.T) {
	for _, c := range []struct {
		key     uint64
		counter [4]uint32
		want    [4]uint32
	}{
		{0, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{^uint64(0), [4]uint32{^uint32(0), ^uint32(0), ^uint32(0), ^uint32(0)}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x299f31d0a4093822, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(c.key, c.counter); got != c.want {
			t.Errorf("key %#x, counter %#x: %#x, want %#x", c.key, c.counter, got, c.want)
		}
	}
}
