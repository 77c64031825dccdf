package traffic

import (
	"math"

	"github.com/tilus-lab/tilus-lab/gpu/sim"
)

// Counters are what both this package predicts of a kernel and the simulator counts.
type Counters struct {
	Loads, Stores            int64 // requests of warps to global memory
	LoadBytes, StoreBytes    int64 // that their lanes ask for
	Sectors                  int64 // of 32 bytes that they touch, with those of atomics
	Atomics                  int64 // requests
	SharedLoads              int64 // requests of warps to shared memory
	SharedStores             int64
	Wavefronts, Conflictless int64 // that these take, and would take without bank conflicts
}

// Count is one of [Counters] with its name.
type Count struct {
	Name string
	N    int64
}

// List is the counters in the order of their declaration.
func (c Counters) List() []Count {
	return []Count{{"global loads", c.Loads}, {"global stores", c.Stores}, {"bytes loaded", c.LoadBytes}, {"bytes stored", c.StoreBytes}, {"sectors", c.Sectors},
		{"atomics", c.Atomics}, {"shared loads", c.SharedLoads}, {"shared stores", c.SharedStores}, {"wavefronts", c.Wavefronts}, {"without conflicts", c.Conflictless}}
}

// Counted is what a run in the simulator counted.
func Counted(s sim.Stats) Counters {
	return Counters{s.GlobalLoads, s.GlobalStores, s.GlobalLoadBytes, s.GlobalStoreBytes, s.GlobalSectors, s.Atomics, s.SharedLoads, s.SharedStores, s.SharedWavefronts, s.SharedIdeal}
}

// Counters is what the maps predict.
func (k Kernel) Counters() (c Counters) {
	for _, a := range k.Accesses {
		units, ideal := int64(math.Round(a.Units*float64(a.Requests))), int64(math.Round(a.Ideal*float64(a.Requests)))
		switch a.Kind {
		case Read:
			c.Loads += a.Requests
			c.LoadBytes += a.Asked
		case Write:
			c.Stores += a.Requests
			c.StoreBytes += a.Asked
		case Atomic:
			c.Atomics += a.Requests
		case SharedRead:
			c.SharedLoads += a.Requests
		case SharedWrite:
			c.SharedStores += a.Requests
		}
		if a.Shared() {
			c.Wavefronts += units
			c.Conflictless += ideal
		} else {
			c.Sectors += units
		}
	}
	return c
}
