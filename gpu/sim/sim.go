// Package sim runs thread code without a GPU. It is the second of the three
// machines: it executes what lowering made, lane by lane, with masks where lanes
// go different ways, and it knows the meaning of every instruction that has
// effects or partners (memory, barriers, exchange between lanes, matrix
// instructions). What the hardware leaves undefined is an error here, located at
// the program line: an access out of bounds or not aligned, a read of shared
// memory that nobody wrote, two threads that use one byte without a
// barrier between them, a barrier that some threads never reach. So is the
// overflow of a program's scalar arithmetic where the code still computes it as
// written ([code.Exact]): not where a pass has moved it out of a loop or merged it
// with other sums, and not on the right of && and ||.
//
// Functions with barriers in shared memory, copies of the asynchronous proxy, products
// of warpgroups or clusters run cluster by cluster, see cluster.go: copies land as late
// as they can, or in an order drawn from [Options.Seed], and who has seen what is
// followed by clocks (ledger.go), so that a missing wait, fence or arrival is found
// whether or not it shows.
//
// Blocks are independent and run on all processors, unless the function reads
// the results of atomics or adds floats atomically; then they run one after the
// other, so that results are the same in every run.
package sim

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/model/bank"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// Arg is the argument for one parameter: Buffer for a pointer, which the run
// changes in place, Bits for a scalar.
type Arg struct {
	Buffer []byte
	Bits   uint64
	// Fresh says that the bytes of Buffer count as never written: reading one
	// before the function wrote it is an error.
	Fresh bool
}

// Launch is one start of a function. A grid dimension of 0 counts as 1; Block 0
// takes the function's own.
type Launch struct {
	Grid  [3]int
	Block int
	Args  []Arg
}

// Options of a run; the zero value checks everything and sets no limit.
type Options struct {
	// MaxSteps is the number of instructions after which a warp is stopped with
	// an error; 0 is no limit.
	MaxSteps int64
	// Fast leaves out the checks that follow each byte: use before writing, and
	// races.
	Fast bool
	// Blocks, if not 0, is how many blocks of the grid are run at most, spread evenly
	// over it: enough to count what a launch costs. What the others would have
	// stored is missing.
	Blocks int
	// Seed, if not 0, lets copies of the asynchronous proxy land in an order drawn from
	// it, not as they began.
	Seed uint64
	// Reverse runs blocks last to first. A GPU may begin them in any order, so that what a
	// launch gives by it and without differs only where its result depends on luck, or where
	// blocks wait for those before them, which then never ends.
	Reverse bool
	// Workers is the number of blocks that run at the same time; 0 is one for
	// each processor.
	Workers int
	// OnShared, if set, is told of every load and store of shared memory before it is
	// made. Blocks that run at the same time call it at the same time.
	OnShared func(SharedAccess)
}

// SharedAccess is one load or store of shared memory by a warp.
type SharedAccess struct {
	Pos         diag.Pos
	Block, Warp int
	// Access has the lanes' offsets in the block's shared memory.
	Access bank.Access
}

// Stats counts what a run did. Instructions are counted once per warp, lane
// operations once per active lane.
type Stats struct {
	Warp     [code.Classes]int64 // instructions by class
	LaneOps  int64
	Moves    int64 // register copies between regions
	Matrix   int64 // matrix instructions
	Flops    int64 // floating-point operations, by [code.Row.Flops]
	Diverged int64 // branches where lanes of a warp went both ways

	GlobalLoads, GlobalStores         int64 // instructions
	GlobalLoadBytes, GlobalStoreBytes int64 // bytes asked for by all lanes
	GlobalSectors                     int64 // distinct 32-byte sectors, summed over instructions
	SharedLoads, SharedStores         int64
	SharedBytes                       int64
	// What bank conflicts cost, as gpu/model/bank defines it: wavefronts that the loads
	// and stores of shared memory take, and would take without conflicts.
	SharedWavefronts, SharedIdeal int64
	AsyncCopies                   int64 // instructions
	ProxyCopies, ProxyBytes       int64 // bulk and tensor copies, of lanes
	Products                      int64 // wgmma, of warps
	Mbarriers                     int64 // instructions
	Atomics                       int64
	Barriers                      int64
}

func (s *Stats) add(t *Stats) {
	for i := range s.Warp {
		s.Warp[i] += t.Warp[i]
	}
	s.LaneOps += t.LaneOps
	s.Moves += t.Moves
	s.Matrix += t.Matrix
	s.Flops += t.Flops
	s.Diverged += t.Diverged
	s.GlobalLoads += t.GlobalLoads
	s.GlobalStores += t.GlobalStores
	s.GlobalLoadBytes += t.GlobalLoadBytes
	s.GlobalStoreBytes += t.GlobalStoreBytes
	s.GlobalSectors += t.GlobalSectors
	s.SharedLoads += t.SharedLoads
	s.SharedStores += t.SharedStores
	s.SharedBytes += t.SharedBytes
	s.SharedWavefronts += t.SharedWavefronts
	s.SharedIdeal += t.SharedIdeal
	s.AsyncCopies += t.AsyncCopies
	s.ProxyCopies += t.ProxyCopies
	s.ProxyBytes += t.ProxyBytes
	s.Products += t.Products
	s.Mbarriers += t.Mbarriers
	s.Atomics += t.Atomics
	s.Barriers += t.Barriers
}

// clock is what [code.OpClock] and [code.OpGlobalTimer] read: it only ever grows,
// and grows with each instruction and each wavefront of shared memory.
func (s *Stats) clock() int64 {
	n := s.SharedWavefronts
	for _, c := range s.Warp {
		n += c
	}
	return n
}

// Counters is the numbers by name.
func (s Stats) Counters() map[string]int64 {
	m := map[string]int64{
		"lane_ops": s.LaneOps, "moves": s.Moves, "mma": s.Matrix, "flops": s.Flops, "diverged": s.Diverged,
		"global_loads": s.GlobalLoads, "global_stores": s.GlobalStores, "global_load_bytes": s.GlobalLoadBytes,
		"global_store_bytes": s.GlobalStoreBytes, "global_sectors": s.GlobalSectors, "shared_loads": s.SharedLoads,
		"shared_stores": s.SharedStores, "shared_bytes": s.SharedBytes, "async_copies": s.AsyncCopies, "atomics": s.Atomics, "barriers": s.Barriers,
		"shared_wavefronts": s.SharedWavefronts, "shared_wavefronts_ideal": s.SharedIdeal, "shared_bank_conflicts": s.SharedWavefronts - s.SharedIdeal,
	}
	for name, n := range map[string]int64{"proxy_copies": s.ProxyCopies, "proxy_bytes": s.ProxyBytes, "wgmma": s.Products, "mbarrier": s.Mbarriers} {
		if n > 0 {
			m[name] = n
		}
	}
	for c, n := range s.Warp {
		if code.Class(c) == code.Proxy && n == 0 {
			continue
		}
		m["warp_"+code.Class(c).String()] = n
	}
	return m
}

// setFirst is the way out of [errUnset].
const setFirst = "store to it before, or wait for the copy that fills it"

// The numbered errors of a run.
const (
	errBounds   = "Sim.E1"  // access outside every buffer
	errAlign    = "Sim.E2"  // address not a multiple of the bytes accessed
	errReadOnly = "Sim.E3"  // write to a parameter that promised to be read only
	errUnset    = "Sim.E4"  // read of bytes that nobody wrote
	errRace     = "Sim.E5"  // two threads, one byte, no barrier
	errPartial  = "Sim.E6"  // warp-wide instruction with lanes missing
	errDeadlock = "Sim.E7"  // barrier that not all threads reach
	errSteps    = "Sim.E8"  // step limit
	errZero     = "Sim.E9"  // division by zero
	errOverflow = "Sim.E10" // overflow of a program's scalar expression
	errAssume   = "Sim.E12" // assume does not hold
	errAsync    = "Sim.E11" // use of bytes that an asynchronous copy has not brought
	errBarrier  = "Sim.E13" // barrier in shared memory that is not there, or used as bytes
	errCount    = "Sim.E14" // arrivals or bytes of a barrier that do not come out
	errProxy    = "Sim.E15" // ordinary and asynchronous accesses without a proxy fence between
	errFlight   = "Sim.E16" // operand of a product or copy that is still in use
	errProduct  = "Sim.E17" // product of a warpgroup that is not as the machine wants it
)

// Base addresses: buffers lie far apart, so that one past the end of one is
// never inside another.
const (
	bufferShift = 40
	sharedBase  = 1024
)

// Run executes f. The function must be verified. The error is ctx.Err(), with a place where the
// function stood, when the context ends first, a diag.List when the program does something undefined, or
// says what is wrong with the launch; buffers then hold what was written so far.
func Run(ctx context.Context, f *code.Func, l Launch, opt Options) (Stats, error) {
	var total Stats
	if len(f.Stops) > 0 {
		g := *f
		g.Stops = nil
		f = &g
	}
	m, err := newMachine(f, l, opt)
	if err != nil {
		return total, err
	}
	workers := opt.Workers
	if workers <= 0 {
		// A process may have more than there are processors, so that it answers meanwhile.
		workers = min(runtime.GOMAXPROCS(0), runtime.NumCPU())
	}
	if m.prog.ordered {
		workers = 1
	}
	workers = min(workers, int(m.run))

	defer context.AfterFunc(ctx, func() { m.stop.Store(true) })()
	var (
		mu    sync.Mutex
		first error
		wg    sync.WaitGroup
	)
	for range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			b := m.runner()
			for {
				n := m.next.Add(1) - 1
				if n >= m.run || n > m.failed.Load() || m.stop.Load() {
					break
				}
				if p := b.run(n); p != nil {
					mu.Lock()
					if n < m.failed.Load() {
						m.failed.Store(n)
						first = diag.List{*p}
					}
					mu.Unlock()
				}
			}
			mu.Lock()
			for _, s := range b.counted() {
				total.add(s)
			}
			mu.Unlock()
		}()
	}
	wg.Wait()
	if err := ctx.Err(); err != nil && first == nil && m.stop.Load() {
		if at := m.stood.Load(); at != nil {
			err = fmt.Errorf("%s (%w)", *at, err)
		}
		return total, err
	}
	return total, first
}

// newMachine makes a launch ready.
func newMachine(f *code.Func, l Launch, opt Options) (*machine, error) {
	if l.Block == 0 {
		l.Block = f.Launch.Block
	}
	blocks := 1
	for i := range l.Grid {
		if l.Grid[i] == 0 {
			l.Grid[i] = 1
		}
		if l.Grid[i] < 0 || l.Grid[i] > 1<<31-1 || blocks > 1<<40/l.Grid[i] {
			return nil, fmt.Errorf("sim: grid %v", l.Grid)
		}
		blocks *= l.Grid[i]
	}
	if l.Block < 1 || l.Block > 1024 {
		return nil, fmt.Errorf("sim: %d threads per block, must be 1 to 1024", l.Block)
	}
	scalars := map[string]int64{}
	for i, a := range l.Args {
		if i < len(f.Params) && f.Params[i].Kind == code.Scalar {
			scalars[f.Params[i].Name] = int64(int32(uint32(a.Bits)))
		}
	}
	l.Args = slices.Clone(l.Args)
	for i := len(l.Args); i < len(f.Params) && (f.Params[i].Workspace != nil || f.Params[i].Kind == code.Tensor); i++ {
		w := f.Params[i].Workspace
		if w == nil {
			l.Args = append(l.Args, Arg{})
			continue
		}
		n, err := w.Bytes(scalars)
		if err != nil {
			return nil, fmt.Errorf("sim: %w", err)
		}
		l.Args = append(l.Args, Arg{Buffer: make([]byte, n), Fresh: !w.Zero})
	}
	if len(l.Args) != len(f.Params) {
		return nil, fmt.Errorf("sim: %d arguments for the %d parameters of %s", len(l.Args), len(f.Params), f.Name)
	}
	m := &machine{f: f, launch: l, opt: opt, prog: decode(f), params: make([]uint64, len(l.Args))}
	if f.Launch.SharedBytes > 0 {
		m.banks = newBanks()
	}
	for i, a := range l.Args {
		m.params[i] = a.Bits & f.Params[i].Type.Mask()
		if f.Params[i].Kind != code.Pointer {
			continue
		}
		m.buffers = append(m.buffers, buffer{data: a.Buffer, param: i, readOnly: f.Params[i].ReadOnly})
		m.params[i] = uint64(len(m.buffers)) << bufferShift
		if a.Fresh && !opt.Fast {
			m.buffers[len(m.buffers)-1].set = make([]bool, len(a.Buffer))
		}
	}
	for i, p := range f.Params {
		if p.Kind != code.Tensor {
			continue
		}
		t, err := m.tensorMap(p, scalars)
		if err != nil {
			return nil, err
		}
		m.params[i] = mapSpace + uint64(len(m.maps))*128
		m.maps = append(m.maps, t)
	}
	if !opt.Fast {
		m.track(blocks)
	}
	size := m.clusterSize()
	for i, d := range f.Launch.Cluster {
		if d > 0 && l.Grid[i]%d != 0 {
			return nil, fmt.Errorf("sim: grid %v is not made of clusters of %v", l.Grid, f.Launch.Cluster)
		}
	}
	m.units = int64(blocks / size)
	m.run = m.units
	if opt.Blocks > 0 {
		m.run = min(m.run, int64((opt.Blocks+size-1)/size))
	}
	m.failed.Store(int64(blocks))
	return m, nil
}

// unit is the block or cluster that is the n-th to run.
func (m *machine) unit(n int64) int {
	if m.opt.Reverse {
		n = m.run - 1 - n
	}
	return int(n * m.units / m.run)
}

func (m *machine) runner() runner {
	if m.prog.clocked {
		return newCluster(m)
	}
	return newBlock(m)
}

// runner is what runs in one go: a block, or a cluster of them.
type runner interface {
	run(turn int64) *diag.Problem
	counted() []*Stats
}

func (b *block) counted() []*Stats { return []*Stats{&b.stats} }

func (c *cluster) counted() []*Stats {
	var all []*Stats
	for _, b := range c.blocks {
		all = append(all, &b.stats)
	}
	return all
}

type machine struct {
	f       *code.Func
	launch  Launch
	opt     Options
	prog    *program
	params  []uint64
	maps    []*tensorMap
	buffers []buffer
	banks   *banks // nil for functions without shared memory
	atomics sync.Mutex
	stop    atomic.Bool
	stood   atomic.Pointer[string] // where a warp was when stop was set
	next    atomic.Int64           // blocks or clusters begun, or taken back by one that runs
	units   int64                  // blocks or clusters there are
	run     int64                  // of those that run
	failed  atomic.Int64           // the first block known to have failed
}

type buffer struct {
	data     []byte
	set      []bool   // nil where all bytes count as written
	track    *tracker // nil where nothing is checked
	param    int
	readOnly bool
}
