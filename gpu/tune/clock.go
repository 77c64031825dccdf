package tune

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/cuda"
)

// Clocks is what the blocks of a launch say of themselves: the first lane of each
// reads the GPU's clock when it enters and when it leaves, and the number of its
// multiprocessor (SM). The launches are others than the timed ones, of the same code with
// these readings put in, back to back over rotating inputs; all but Period and Gap
// is of the launch that took the median time. Times are in µs.
type Clocks struct {
	Source string  `json:"clock_source"` // says in the record that these are in-kernel clocks
	Step   float64 `json:"clock_step_ns"`
	// Us is from the first block's entry to the last one's exit, Period from one
	// launch's first entry to the next one's, and Gap from a launch's last exit to
	// the next one's first entry: below 0 where they overlap.
	Us     float64 `json:"clock_us"`
	Period float64 `json:"clock_period_us"`
	Gap    float64 `json:"clock_gap_us"`
	// Ramp is until the last block of the first wave has entered: those that
	// entered before any block left their SM. Tail is what is left
	// when the first SM has no block any more. AllBusy is the share of Us in which
	// every SM of the GPU holds a block.
	Ramp    float64 `json:"clock_ramp_us"`
	Tail    float64 `json:"clock_tail_us"`
	AllBusy float64 `json:"clock_all_busy"`
	// SteadyGBps is the bandwidth between ramp and tail, where each block moves its
	// equal share of the bytes evenly over its time; 0 where nothing is between.
	SteadyGBps float64 `json:"clock_steady_gb_s"`
	SMs        int     `json:"clock_sms"` // that had a block
	MinBlocks  int     `json:"clock_blocks_per_sm_min"`
	MaxBlocks  int     `json:"clock_blocks_per_sm_max"`
	Resident   int     `json:"clock_resident_max"` // most blocks at one time on one SM
	// RoundRobin is the share of blocks that ran on the SM of the block as many
	// before it as the GPU has SMs.
	RoundRobin float64 `json:"clock_round_robin"`
	// MeanBlock is how long a block is there, on average.
	MeanBlock float64 `json:"clock_mean_block_us"`
	Registers int     `json:"clock_registers"` // per thread of the code with the readings
	PerSM     int     `json:"clock_fit_per_sm"`
}

const clockSource = "in-kernel: %globaltimer and %smid, read by the first lane of each block in launches of their own"

// text is the main numbers for a log.
func (c *Clocks) text() string {
	return fmt.Sprintf("in-kernel clocks: %.2f µs, gap %.2f, ramp %.2f, tail %.2f, all SMs busy %.0f%%, steady %.0f GB/s, %d to %d blocks a SM, step %.0f ns",
		c.Us, c.Gap, c.Ramp, c.Tail, 100*c.AllBusy, c.SteadyGBps, c.MinBlocks, c.MaxBlocks, c.Step)
}

// stamp is one block's readings, and stampBytes what they take in memory: entry at
// 0, exit at 8, the SM at 16.
type stamp struct {
	entry, exit int64 // ns
	sm          int
}

const stampBytes = 32

// clocked puts the readings into f. Its last parameter is then the address of
// stampBytes for each block, in the order of blocks with x fastest.
func clocked(f *code.Func) error {
	body := f.Body
	if len(body.Instrs) == 0 || len(body.Yield) > 0 {
		return fmt.Errorf("clocks: %s has no body to read them in", f.Name)
	}
	var list []*code.Instr
	emit := func(in code.Instr) code.Value {
		for _, t := range in.Row().Out {
			in.Out = append(in.Out, f.NewValue(t))
		}
		in.Pos = body.Instrs[0].Pos
		list = append(list, &in)
		if len(in.Out) == 0 {
			return 0
		}
		return in.Out[0]
	}
	op := func(op code.Op, in ...code.Value) code.Value { return emit(code.Instr{Op: op, In: in}) }
	number := func(n int64) code.Value { return emit(code.Instr{Op: code.OpConst32, Imm: []int64{n}}) }
	var to, first code.Value
	store := func(op code.Op, at int64, v code.Value) {
		emit(code.Instr{Op: op, Imm: []int64{at, 0}, In: []code.Value{to, v}, Guard: first})
	}

	stamps := f.NewValue(code.B64)
	f.Params = append(f.Params, code.Param{Name: "clocks", Kind: code.Pointer, Type: code.B64, Elem: "u8", NoAlias: true})
	body.Args = append(body.Args, stamps)
	entry := op(code.OpGlobalTimer)
	first = emit(code.Instr{Op: code.OpSetpU32, Imm: []int64{int64(code.EQ)}, In: []code.Value{op(code.OpTidX), number(0)}})
	plane := op(code.OpMad32, op(code.OpCtaidZ), op(code.OpNctaidY), op(code.OpCtaidY))
	block := op(code.OpMad32, plane, op(code.OpNctaidX), op(code.OpCtaidX))
	to = op(code.OpMadWideU32, block, number(stampBytes), stamps)
	store(code.OpStGlobalB64, 0, entry)
	store(code.OpStGlobalB32, 16, op(code.OpSmID))
	body.Instrs = append(list, body.Instrs...)

	list = nil
	if f.Launch.Block > 32 { // a block ends with its last warp
		emit(code.Instr{Op: code.OpBarSync, Imm: []int64{0}})
	} else { // keeps the reading behind what the block does
		op(code.OpBarWarp)
	}
	store(code.OpStGlobalB64, 8, op(code.OpGlobalTimer))
	body.Instrs = append(body.Instrs, list...)
	return code.Verify(f).Err()
}

// stampsOf reads the stamps of one launch.
func stampsOf(data []byte) []stamp {
	out := make([]stamp, len(data)/stampBytes)
	for i := range out {
		at := data[i*stampBytes:]
		out[i] = stamp{int64(binary.LittleEndian.Uint64(at)), int64(binary.LittleEndian.Uint64(at[8:])), int(binary.LittleEndian.Uint32(at[16:]))}
	}
	return out
}

// launched is when a launch's first block entered and its last one left.
func launched(blocks []stamp) (entry, exit int64) {
	entry = slices.MinFunc(blocks, func(a, b stamp) int { return cmp.Compare(a.entry, b.entry) }).entry
	exit = slices.MaxFunc(blocks, func(a, b stamp) int { return cmp.Compare(a.exit, b.exit) }).exit
	return entry, exit
}

// analyseLaunch makes what one launch tells of the stamps of its blocks, in their
// order, on a GPU of sms SMs. Together they move bytes.
func analyseLaunch(blocks []stamp, sms int, bytes int64) (*Clocks, error) {
	if len(blocks) == 0 {
		return nil, fmt.Errorf("clocks: no blocks")
	}
	type multiprocessor struct{ blocks, firstExit, lastExit int64 }
	bySM := map[int]*multiprocessor{}
	// Events are the steps of how many blocks an SM holds; where a block leaves
	// as another enters, it leaves first.
	type event struct {
		at   int64
		step int
		sm   int
	}
	var events []event
	for i, b := range blocks {
		if b.entry <= 0 || b.exit < b.entry || b.sm < 0 {
			return nil, fmt.Errorf("clocks: block %d was there from %d to %d ns on SM %d", i, b.entry, b.exit, b.sm)
		}
		m := bySM[b.sm]
		if m == nil {
			m = &multiprocessor{firstExit: math.MaxInt64}
			bySM[b.sm] = m
		}
		m.blocks++
		m.firstExit, m.lastExit = min(m.firstExit, b.exit), max(m.lastExit, b.exit)
		events = append(events, event{b.entry, 1, b.sm}, event{b.exit, -1, b.sm})
	}
	start, end := launched(blocks)
	us := func(ns int64) float64 { return float64(ns) / 1000 }
	c := &Clocks{Source: clockSource, Us: us(end - start), SMs: len(bySM), MinBlocks: math.MaxInt}
	if len(bySM) < sms {
		c.MinBlocks = 0
	}
	ramp, idle := start, end
	for _, m := range bySM {
		c.MinBlocks, c.MaxBlocks = min(c.MinBlocks, int(m.blocks)), max(c.MaxBlocks, int(m.blocks))
		idle = min(idle, m.lastExit)
	}
	if len(bySM) < sms {
		idle = start
	}
	var same, sum int64
	for i, b := range blocks {
		if b.entry < bySM[b.sm].firstExit {
			ramp = max(ramp, b.entry)
		}
		if i >= sms && blocks[i-sms].sm == b.sm {
			same++
		}
		sum += b.exit - b.entry
	}
	if n := len(blocks) - sms; n > 0 {
		c.RoundRobin = float64(same) / float64(n)
	}
	c.Ramp, c.Tail, c.MeanBlock = us(ramp-start), us(end-idle), us(sum)/float64(len(blocks))

	slices.SortFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step)) })
	held := map[int]int{}
	busy, last, all := 0, start, int64(0)
	for _, e := range events {
		if busy == sms {
			all += e.at - last
		}
		last = e.at
		before := held[e.sm]
		held[e.sm] += e.step
		c.Resident = max(c.Resident, held[e.sm])
		if before == 0 && held[e.sm] == 1 {
			busy++
		} else if before == 1 && held[e.sm] == 0 {
			busy--
		}
	}
	if end > start {
		c.AllBusy = float64(all) / float64(end-start)
	}
	if idle > ramp {
		share, moved := float64(bytes)/float64(len(blocks)), 0.0
		for _, b := range blocks {
			if within := min(b.exit, idle) - max(b.entry, ramp); within > 0 {
				moved += share * float64(within) / float64(b.exit-b.entry)
			}
		}
		c.SteadyGBps = moved / float64(idle-ramp)
	}
	return c, nil
}

// analyse makes Clocks of several launches, one after the other. The first one,
// which begins on an idle GPU, only bounds the gap behind it.
func analyse(launches [][]stamp, sms int, bytes int64) (*Clocks, error) {
	if len(launches) < 2 {
		return nil, fmt.Errorf("clocks: %d launches", len(launches))
	}
	var all []*Clocks
	var gaps []float64
	var step int64
	for i, blocks := range launches {
		c, err := analyseLaunch(blocks, sms, bytes)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			_, left := launched(launches[i-1])
			entered, _ := launched(blocks)
			gaps = append(gaps, float64(entered-left)/1000)
			all = append(all, c)
		}
		for _, b := range blocks {
			step = gcd64(step, gcd64(b.entry-launches[0][0].entry, b.exit-b.entry))
		}
	}
	slices.SortStableFunc(all, func(a, b *Clocks) int { return cmp.Compare(a.Us, b.Us) })
	c := all[(len(all)-1)/2]
	begin, _ := launched(launches[0])
	final, _ := launched(launches[len(launches)-1])
	c.Period = float64(final-begin) / 1000 / float64(len(launches)-1)
	c.Gap, _, _ = summary(gaps)
	c.Step = float64(step)
	return c, nil
}

// gcd64 is the greatest common divisor, never negative.
func gcd64(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, -a)
}

// maxStamps bounds the memory for stamps.
const maxStamps = 1 << 30

// clocks launches the program with readings put in and gives what they tell. The
// results are checked like the timed ones.
func (r *run) clocks(ctx context.Context, o compile.Options) error {
	c, err := compile.Program(r.p, o)
	if err != nil {
		return err
	}
	if err := clocked(c.Func); err != nil {
		return err
	}
	ptx, err := c.PTX()
	if err != nil {
		return err
	}
	module, err := r.g.ctx.Load([]byte(ptx), cuda.JIT{})
	if err != nil {
		return err
	}
	r.later(module.Close)
	fn, err := module.Function(c.Func.Name)
	if err != nil {
		return err
	}
	if r.shared > 48<<10 {
		if err := fn.SetMaxDynamicShared(r.shared); err != nil {
			return err
		}
	}
	perSM, err := fn.BlocksPerSM(r.t.Threads, r.shared)
	if err != nil {
		return err
	}
	n := max(8, r.t.Sets)
	size := r.t.Grid[0] * r.t.Grid[1] * r.t.Grid[2] * stampBytes
	if size > maxStamps/n {
		return fmt.Errorf("clocks: %d launches of %d bytes of stamps", n, size)
	}
	stamps, err := r.g.ctx.Alloc(n * size)
	if err != nil {
		return err
	}
	r.later(func() error { return r.g.ctx.Free(stamps) })
	if err := r.g.ctx.Memset(stamps, 0, n*size, nil); err != nil {
		return err
	}
	if err := r.g.ctx.Synchronize(); err != nil {
		return err
	}
	graph, err := r.stream.Capture(func() error {
		return r.queue(fn, n, func(i int, params *cuda.Params) { params.Ptr(stamps + cuda.Ptr(i*size)) })
	})
	if err != nil {
		return err
	}
	r.later(graph.Close)
	for range 2 { // the first time warms up
		if err := graph.Launch(r.stream); err != nil {
			return err
		}
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
	if err := r.compare(written, false); err != nil {
		return fmt.Errorf("with clocks: %w", err)
	}
	data := make([]byte, n*size)
	if err := r.g.ctx.CopyOut(data, stamps); err != nil {
		return err
	}
	var launches [][]stamp
	for i := range n {
		launches = append(launches, stampsOf(data[i*size:][:size]))
	}
	if r.t.Clocks, err = analyse(launches, r.g.SMs, r.t.Bytes); err != nil {
		return err
	}
	r.t.Clocks.Registers, r.t.Clocks.PerSM = fn.Registers, perSM
	return nil
}
