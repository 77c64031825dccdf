package sim

import (
	"math/bits"

	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
)

// banks counts wavefronts of shared memory, by kind and log2 of the bytes that a lane
// moves. nil entries are accesses that do not exist.
type banks [bank.CpAsyncGlobal + 1][5]*bank.Counter

func newBanks() *banks {
	var b banks
	p := bank.Nvidia()
	for kind := range b {
		for e := range b[kind] {
			if c, err := bank.NewCounter(p, bank.Kind(kind), 1<<e); err == nil {
				b[kind][e] = c
			}
		}
	}
	return &b
}

// countBanks counts what an access to shared memory costs. For ldmatrix and stmatrix
// mask has the lanes that give row addresses, and size is 16.
func (w *warp) countBanks(i *inst, kind bank.Kind, size int, mask uint32, addr *[lanes]uint64) {
	m := w.b.m
	if m.banks == nil {
		return // the access is out of bounds
	}
	wavefronts, ideal := m.banks[kind][bits.TrailingZeros(uint(size))].Count(uint64(mask), addr[:])
	w.b.stats.SharedWavefronts += int64(wavefronts)
	w.b.stats.SharedIdeal += int64(ideal)
	if m.opt.OnShared == nil {
		return
	}
	a := bank.Access{Kind: kind, Width: size, Addrs: make([]int, lanes)}
	for l := range a.Addrs {
		if a.Addrs[l] = bank.Inactive; mask>>l&1 != 0 {
			a.Addrs[l] = int(addr[l]) - sharedBase
		}
	}
	if kind == bank.LdMatrix || kind == bank.StMatrix {
		a.Matrices = bits.OnesCount32(mask) / 8
		a.Addrs = a.Addrs[:8*a.Matrices]
	}
	m.opt.OnShared(SharedAccess{Pos: i.pos, Block: w.b.number, Warp: w.id, Access: a})
}
