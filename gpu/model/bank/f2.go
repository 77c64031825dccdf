package bank

import "math/bits"

func parity(x int) int { return bits.OnesCount(uint(x)) & 1 }
