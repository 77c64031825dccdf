package debugger

// murmur2 is the hash by which front ends name cells: MurmurHash2 of 32 bits.
//
// Source: JupyterLab's debugger, hash method "Murmur2".
func murmur2(data []byte, seed uint32) uint32 {
	const m = 0x5bd1e995
	h := seed ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h = h*m ^ k
	}
	for i := len(data) - 1; i >= 0; i-- {
		h ^= uint32(data[i]) << (8 * i)
	}
	if len(data) > 0 {
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
