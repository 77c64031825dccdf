package dtype

import (
	"encoding/binary"
	"fmt"
)

// PackedBytes is the number of bytes that n elements of bits bits take.
func PackedBytes(bits, n int) int { return (bits*n + 7) / 8 }

// Get is element k of packed data. It panics if data ends before the element.
func Get(data []byte, bits, k int) uint64 {
	switch bits {
	case 8:
		return uint64(data[k])
	case 16:
		return uint64(binary.LittleEndian.Uint16(data[2*k:]))
	case 32:
		return uint64(binary.LittleEndian.Uint32(data[4*k:]))
	case 64:
		return binary.LittleEndian.Uint64(data[8*k:])
	}
	checkWidth(bits)
	if bits < 8 {
		at := k * bits
		code, shift := uint64(data[at>>3]), at&7
		if shift+bits > 8 {
			code |= uint64(data[at>>3+1]) << 8
		}
		return code >> shift & lowBits(bits)
	}
	var code uint64
	for at, end := k*bits, (k+1)*bits; at < end; {
		shift := at & 7
		n := min(8-shift, end-at)
		code |= uint64(data[at>>3]) >> shift & lowBits(n) << (at - k*bits)
		at += n
	}
	return code
}

// Put stores the low bits of code as element k of packed data and leaves all
// other bits. It panics if data ends before the element.
func Put(data []byte, bits, k int, code uint64) {
	switch bits {
	case 8:
		data[k] = byte(code)
		return
	case 16:
		binary.LittleEndian.PutUint16(data[2*k:], uint16(code))
		return
	case 32:
		binary.LittleEndian.PutUint32(data[4*k:], uint32(code))
		return
	case 64:
		binary.LittleEndian.PutUint64(data[8*k:], code)
		return
	}
	checkWidth(bits)
	for at, end := k*bits, (k+1)*bits; at < end; {
		shift := at & 7
		n := min(8-shift, end-at)
		mask := byte(lowBits(n) << shift)
		data[at>>3] = data[at>>3]&^mask | byte(code<<shift)&mask
		code >>= n
		at += n
	}
}

// Pack packs codes; the bits after the last are zero.
func Pack(bits int, codes []uint64) []byte {
	data := make([]byte, PackedBytes(bits, len(codes)))
	for k, c := range codes {
		Put(data, bits, k, c)
	}
	return data
}

// Unpack is the first n elements of packed data.
func Unpack(bits int, data []byte, n int) []uint64 {
	codes := make([]uint64, n)
	for k := range codes {
		codes[k] = Get(data, bits, k)
	}
	return codes
}

func checkWidth(bits int) {
	if bits < 1 || bits > 64 {
		panic(fmt.Sprintf("dtype: element width %d is not in 1..64", bits))
	}
}
