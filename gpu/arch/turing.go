package arch

// WMMACycles is how long one wmma.mma took on Turing, by shape and sums.
//
// Source: Raihan, Goli, Aamodt, arXiv:1811.08309, Table I, RTX 2080.
var WMMACycles = []struct {
	M, N, K int
	Sums    string // type of the sums, or of the inputs where those are integers
	Cycles  int
}{
	{16, 16, 16, "f32", 99},
	{16, 16, 16, "f16", 74},
	{16, 16, 16, "s8", 59},
	{8, 8, 32, "s4", 230},
}
