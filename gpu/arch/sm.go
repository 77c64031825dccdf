package arch

// SM is what a multiprocessor of a target holds.
type SM struct {
	Threads  int // resident at most
	Blocks   int // resident at most
	Shared   int // bytes for all blocks
	Reserved int // bytes of it that each block takes for the system
}

// Units in which registers are given out: whole groups of RegUnit for each warp.
const RegUnit = 256

// SM is the multiprocessor of a target; of one that later GPUs run too it is the smallest
// of theirs, of sm_90 that of capability 12.
//
// Source: CUDA C++ Programming Guide 13.0, Technical Specifications per Compute
// Capability; Ampere and Hopper Tuning Guides for what is reserved.
func (a Arch) SM() SM {
	switch a.Name {
	case "sm_86":
		return SM{1536, 16, 100 << 10, 1 << 10}
	case "sm_89", "sm_90":
		return SM{1536, 24, 100 << 10, 1 << 10}
	case "sm_80":
		return SM{2048, 32, 164 << 10, 1 << 10}
	}
	return SM{2048, 32, 228 << 10, 1 << 10}
}

// Occupancy is how many blocks of a launch one multiprocessor holds, and what
// bounds their number.
type Occupancy struct {
	Blocks   int    `json:"blocks"`
	Warps    int    `json:"warps"`
	MaxWarps int    `json:"max_warps"`
	Limit    string `json:"limit"` // "threads", "blocks", "registers" or "shared memory"
}

// Occupancy counts the blocks that fit: threads and registers of a thread, bytes of
// shared memory of a block.
func (a Arch) Occupancy(threads, registers, shared int) Occupancy {
	sm := a.SM()
	warps := (threads + LanesPerWarp - 1) / LanesPerWarp
	perWarp := (max(registers, 1)*LanesPerWarp + RegUnit - 1) / RegUnit * RegUnit
	o := Occupancy{Blocks: sm.Blocks, MaxWarps: sm.Threads / LanesPerWarp, Limit: "blocks"}
	for _, x := range []struct {
		blocks int
		limit  string
	}{
		{o.MaxWarps / warps, "threads"},
		{a.RegFile / perWarp / warps, "registers"},
		{sm.Shared / (shared + sm.Reserved), "shared memory"},
	} {
		if x.blocks < o.Blocks {
			o.Blocks, o.Limit = x.blocks, x.limit
		}
	}
	o.Warps = o.Blocks * warps
	return o
}
