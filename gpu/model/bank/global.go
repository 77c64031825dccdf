package bank

import (
	"fmt"
	"maps"
	"slices"
)

// GlobalReport is what one access of a warp moves between the cache and global
// memory: sectors of 32 bytes, four to a line of 128.
type GlobalReport struct {
	Width      int     `json:"width"`
	Lanes      int     `json:"lanes"`         // lanes that take part
	Sectors    []int   `json:"sectors"`       // distinct sectors, as byte addresses, ascending
	Lines      []int   `json:"lines"`         // distinct lines, likewise
	Asked      int     `json:"asked"`         // bytes that lanes ask for, shared ones counted for each
	Useful     int     `json:"useful"`        // distinct bytes among them
	Moved      int     `json:"moved"`         // bytes of the sectors
	Ideal      int     `json:"ideal_sectors"` // fewest sectors that could hold the useful bytes
	Efficiency float64 `json:"efficiency"`
	Why        string  `json:"why"`
}

// Global counts the sectors and lines of a warp's access to global memory. addrs are
// byte addresses of up to 64 lanes, [Inactive] where a lane takes no part. Efficiency
// is Useful/Moved.
//
// Source: CUDA C++ best practices guide, coalesced access to global memory (32-byte
// transactions, compute capability 6.0 and later).
func Global(width int, addrs []int) (GlobalReport, error) {
	if width != 1 && width != 2 && width != 4 && width != 8 && width != 16 {
		return GlobalReport{}, &AccessError{-1, fmt.Sprintf("accesses take 1, 2, 4, 8 or 16 bytes a lane, not %d", width)}
	}
	if len(addrs) > 64 {
		return GlobalReport{}, &AccessError{-1, fmt.Sprintf("%d addresses for at most 64 lanes", len(addrs))}
	}
	r := GlobalReport{Width: width}
	bytes, sectors, lines := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for lane, a := range addrs {
		switch {
		case a == Inactive:
			continue
		case a < 0 || a > maxAddr:
			return GlobalReport{}, &AccessError{lane, fmt.Sprintf("address %d lies outside 0 to 2^40", a)}
		case a%width != 0:
			return GlobalReport{}, &AccessError{lane, fmt.Sprintf("address %d (0x%x) is no multiple of %d, the bytes of the access", a, a, width)}
		}
		r.Lanes++
		for b := a; b < a+width; b++ {
			bytes[b] = true
		}
		sectors[a>>sectorShift<<sectorShift] = true
		lines[a>>lineShift<<lineShift] = true
	}
	r.Sectors, r.Lines = sorted(sectors), sorted(lines)
	r.Asked, r.Useful, r.Moved = r.Lanes*width, len(bytes), len(r.Sectors)<<sectorShift
	r.Ideal = (r.Useful + 1<<sectorShift - 1) >> sectorShift
	if r.Lanes == 0 {
		r.Why = "No lane takes part: nothing moves."
		return r, nil
	}
	r.Efficiency = float64(r.Useful) / float64(r.Moved)
	r.Why = fmt.Sprintf("%s in %s: %d of %d bytes moved are used.", count(len(r.Sectors), "sector"), count(len(r.Lines), "line"), r.Useful, r.Moved)
	if r.Ideal < len(r.Sectors) {
		r.Why = fmt.Sprintf("%s in %s where %d would hold the bytes: %d of %d bytes moved are used.", count(len(r.Sectors), "sector"), count(len(r.Lines), "line"), r.Ideal, r.Useful, r.Moved)
	}
	return r, nil
}

func sorted(set map[int]bool) []int { return slices.Sorted(maps.Keys(set)) }
