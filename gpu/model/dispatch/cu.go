package dispatch

import "fmt"

// CU is what a compute unit has room for. The zero value of a number means that of
// [GFX9].
//
// Source: LLVM's AMDGPU subtarget tables; GCN and gfx9 documents.
type CU struct {
	SIMDs       int `json:"simds,omitempty"`
	Waves       int `json:"waves_per_simd,omitempty"`
	Wave        int `json:"wave,omitempty"`         // work-items of a wave
	VGPRs       int `json:"vgprs,omitempty"`        // of a SIMD, for each lane
	VGPRGranule int `json:"vgpr_granule,omitempty"` // registers are given out in multiples of it
	LDS         int `json:"lds,omitempty"`          // bytes
	LDSGranule  int `json:"lds_granule,omitempty"`  // bytes; assumed
	Groups      int `json:"groups,omitempty"`       // blocks of more than one wave
}

// GFX9 is a compute unit of Vega.
func GFX9() CU {
	return CU{SIMDs: 4, Waves: 10, Wave: 64, VGPRs: 256, VGPRGranule: 4, LDS: 64 << 10, LDSGranule: 512, Groups: 16}
}

func (c CU) filled() CU {
	d := GFX9()
	for _, f := range []struct{ to, from *int }{{&c.SIMDs, &d.SIMDs}, {&c.Waves, &d.Waves}, {&c.Wave, &d.Wave}, {&c.VGPRs, &d.VGPRs},
		{&c.VGPRGranule, &d.VGPRGranule}, {&c.LDS, &d.LDS}, {&c.LDSGranule, &d.LDSGranule}, {&c.Groups, &d.Groups}} {
		if *f.to == 0 {
			*f.to = *f.from
		}
	}
	return c
}

func (c CU) check() error {
	for _, n := range []int{c.SIMDs, c.Waves, c.Wave, c.VGPRs, c.VGPRGranule, c.LDS, c.LDSGranule, c.Groups} {
		if n < 1 || n > 1<<20 {
			return fmt.Errorf("dispatch: a compute unit with %d of something; each number must be from 1 to %d", n, 1<<20)
		}
	}
	if c.SIMDs > 16 {
		return fmt.Errorf("dispatch: %d SIMDs; the most is 16", c.SIMDs)
	}
	return nil
}

// Threads is how many work-items fit.
func (c CU) Threads() int { c = c.filled(); return c.SIMDs * c.Waves * c.Wave }

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// WavesPerSIMD is how many waves of that many registers a SIMD holds; 0 registers
// are no limit.
func (c CU) WavesPerSIMD(vgprs int) int {
	c = c.filled()
	if vgprs < 1 {
		return c.Waves
	}
	return min(c.Waves, c.VGPRs/roundUp(vgprs, c.VGPRGranule))
}

// Occupancy is how many blocks of a kernel a compute unit holds, by each limit.
// Blocks is the least of them; Limit names it.
type Occupancy struct {
	ByWaves  int    `json:"by_waves"` // waves, as far as registers leave them
	ByLDS    int    `json:"by_lds"`   // -1 for no limit
	ByGroups int    `json:"by_groups"`
	Blocks   int    `json:"blocks"`
	Waves    int    `json:"waves"` // of all those blocks
	Limit    string `json:"limit"` // "waves", "registers", "lds" or "groups"
}

// Occupancy counts the blocks of threads work-items, vgprs registers and lds bytes
// that fit.
func (c CU) Occupancy(threads, vgprs, lds int) Occupancy {
	c = c.filled()
	waves := max(1, (threads+c.Wave-1)/c.Wave)
	perSIMD := c.WavesPerSIMD(vgprs)
	o := Occupancy{ByWaves: c.SIMDs * perSIMD / waves, ByLDS: -1, ByGroups: -1, Limit: "waves"}
	if perSIMD < c.Waves {
		o.Limit = "registers"
	}
	o.Blocks = o.ByWaves
	if lds > 0 {
		o.ByLDS = c.LDS / roundUp(lds, c.LDSGranule)
		if o.ByLDS < o.Blocks {
			o.Blocks, o.Limit = o.ByLDS, "lds"
		}
	}
	if waves > 1 {
		o.ByGroups = c.Groups
		if c.Groups < o.Blocks {
			o.Blocks, o.Limit = c.Groups, "groups"
		}
	}
	o.Waves = o.Blocks * waves
	return o
}

// unit is what a compute unit has left.
type unit struct {
	threads, lds, groups int
	waves, vgprs         []int // of each SIMD
}

// need is what a block takes.
type need struct{ threads, waves, vgprs, lds int }

func (c CU) need(k *Kernel) need {
	n := need{threads: k.Threads, waves: (k.Threads + c.Wave - 1) / c.Wave}
	if k.VGPRs > 0 {
		n.vgprs = roundUp(k.VGPRs, c.VGPRGranule)
	}
	if k.LDS > 0 {
		n.lds = roundUp(k.LDS, c.LDSGranule)
	}
	return n
}

func (c CU) empty() unit {
	u := unit{threads: c.Threads(), lds: c.LDS, groups: c.Groups, waves: make([]int, c.SIMDs), vgprs: make([]int, c.SIMDs)}
	for i := range u.waves {
		u.waves[i], u.vgprs[i] = c.Waves, c.VGPRs
	}
	return u
}

// fits says whether a block fits; all counts more than work-items (R5).
func (u *unit) fits(n need, all bool) bool {
	if !all {
		return n.threads <= u.threads
	}
	if n.lds > u.lds || n.waves > 1 && u.groups < 1 {
		return false
	}
	room := 0
	for i, w := range u.waves {
		if n.vgprs > 0 {
			w = min(w, u.vgprs[i]/n.vgprs)
		}
		room += w
	}
	return n.waves <= room
}

// take gives a block its share, and says how many of its waves each SIMD got: a
// wave goes to the SIMD with the most free wave slots (assumed).
func (u *unit) take(n need, all bool) (simds []uint16) {
	u.threads -= n.threads
	if !all {
		return nil
	}
	u.lds -= n.lds
	if n.waves > 1 {
		u.groups--
	}
	simds = make([]uint16, len(u.waves))
	for range n.waves {
		best := -1
		for i, w := range u.waves {
			if w > 0 && u.vgprs[i] >= n.vgprs && (best < 0 || w > u.waves[best]) {
				best = i
			}
		}
		u.waves[best]--
		u.vgprs[best] -= n.vgprs
		simds[best]++
	}
	return simds
}

func (u *unit) give(n need, simds []uint16) {
	u.threads += n.threads
	if simds == nil {
		return
	}
	u.lds += n.lds
	if n.waves > 1 {
		u.groups++
	}
	for i, w := range simds {
		u.waves[i] += int(w)
		u.vgprs[i] += int(w) * n.vgprs
	}
}
