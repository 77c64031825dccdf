package cost

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/sim"
)

// Launch is what a launch costs, found without a GPU: the code is read, and the
// simulator runs all blocks or some of them.
type Launch struct {
	Program string `json:"program"`
	Target  string `json:"target"`
	Grid    [3]int `json:"grid"`
	Threads int    `json:"threads"` // of a block
	// Registers of a thread is an estimate from the lives of values in the order of the
	// code; assemblers reorder, and spill beyond what the target has.
	Registers int            `json:"registers"`
	Shared    int            `json:"shared"` // bytes of a block
	Occupancy arch.Occupancy `json:"occupancy"`

	// Counts of the whole launch; where only Ran of the Blocks were run, scaled up.
	Ran          int   `json:"ran"`
	Blocks       int   `json:"blocks"`
	Flops        int64 `json:"flops"`
	LoadBytes    int64 `json:"load_bytes"` // asked for by all lanes
	StoreBytes   int64 `json:"store_bytes"`
	Requests     int64 `json:"requests"`      // loads and stores of global memory, one for each warp
	Sectors      int64 `json:"sectors"`       // of 32 bytes that they touch
	IdealSectors int64 `json:"ideal_sectors"` // that as many bytes fill
	SharedBytes  int64 `json:"shared_bytes"`
	Wavefronts   int64 `json:"wavefronts"`       // of shared memory
	Ideal        int64 `json:"ideal_wavefronts"` // without bank conflicts
	MatrixInstrs int64 `json:"matrix_instrs"`    // of warps
	Instrs       int64 `json:"instrs"`           // of warps
	Barriers     int64 `json:"barriers"`
	Atomics      int64 `json:"atomics"`
}

// Reserve is how many registers are added to those that hold values: for addresses
// that the assembler forms and for what it moves ahead.
const reserve = 6

// Of is what a function costs on a target before it runs.
func Of(f *code.Func, target arch.Arch) Launch {
	l := Launch{Program: f.Name, Target: target.Name, Threads: f.Launch.Block, Shared: f.Launch.SharedBytes}
	l.Registers = min(registers(f)+reserve, target.MaxRegs)
	if f.Launch.MaxReg > 0 {
		l.Registers = min(l.Registers, f.Launch.MaxReg)
	}
	l.Occupancy = target.Occupancy(l.Threads, l.Registers, l.Shared)
	return l
}

// Count adds what a run of ran of the grid's blocks counted.
func (l *Launch) Count(s sim.Stats, grid [3]int, ran int) {
	l.Grid, l.Blocks = grid, grid[0]*grid[1]*grid[2]
	l.Ran = min(max(ran, 1), l.Blocks)
	scale := func(n int64) int64 { return n * int64(l.Blocks) / int64(l.Ran) }
	l.Flops = scale(s.Flops)
	l.LoadBytes, l.StoreBytes = scale(s.GlobalLoadBytes), scale(s.GlobalStoreBytes)
	l.Requests, l.Sectors = scale(s.GlobalLoads+s.GlobalStores), scale(s.GlobalSectors)
	l.IdealSectors = (l.LoadBytes + l.StoreBytes + 31) / 32
	l.SharedBytes, l.Wavefronts, l.Ideal = scale(s.SharedBytes), scale(s.SharedWavefronts), scale(s.SharedIdeal)
	l.MatrixInstrs, l.Barriers, l.Atomics = scale(s.Matrix), scale(s.Barriers), scale(s.Atomics)
	for _, n := range s.Warp {
		l.Instrs += scale(n)
	}
}

// Conflicts is how many wavefronts bank conflicts add.
func (l Launch) Conflicts() int64 { return l.Wavefronts - l.Ideal }

// String is the report as text.
func (l Launch) String() string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(name, format string, a ...any) { fmt.Fprintf(tw, name+"\t"+format+"\n", a...) }
	line("program", "%s for %s", l.Program, l.Target)
	line("grid", "%d × %d × %d blocks of %d threads", l.Grid[0], l.Grid[1], l.Grid[2], l.Threads)
	line("registers", "%d est, of a thread", l.Registers)
	line("shared memory", "%d bytes of a block", l.Shared)
	if o := l.Occupancy; o.Blocks > 0 {
		line("occupancy", "%d blocks on a multiprocessor, %d of %d warps; est, bound by %s", o.Blocks, o.Warps, o.MaxWarps, o.Limit)
	} else {
		line("occupancy", "a block does not fit; est, bound by %s", o.Limit)
	}
	if l.Ran < l.Blocks {
		line("counted", "in %d of %d blocks, scaled up", l.Ran, l.Blocks)
	}
	line("instructions", "%d of warps, %d of them matrix instructions", l.Instrs, l.MatrixInstrs)
	line("operations", "%d of floats", l.Flops)
	line("global memory", "%d bytes loaded, %d stored", l.LoadBytes, l.StoreBytes)
	if bytes := l.LoadBytes + l.StoreBytes; bytes > 0 {
		line("operations for each byte", "%.2f of those loaded and stored", float64(l.Flops)/float64(bytes))
	}
	if l.Requests > 0 {
		line("sectors per request", "%.2f of 32 bytes; %.2f if every byte of them were used", float64(l.Sectors)/float64(l.Requests), float64(l.IdealSectors)/float64(l.Requests))
	}
	if l.SharedBytes > 0 {
		line("shared accesses", "%d bytes in %d wavefronts", l.SharedBytes, l.Wavefronts)
		line("bank conflicts", "%d wavefronts more than without", l.Conflicts())
	}
	if l.Barriers+l.Atomics > 0 {
		line("barriers", "%d of warps, %d atomics", l.Barriers, l.Atomics)
	}
	tw.Flush() // into memory
	return b.String()
}
