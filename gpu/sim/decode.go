package sim

import (
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// kind is what the stepper does with a decoded instruction.
type kind uint8

const (
	kPure    kind = iota
	kConst        // all lanes get imm[0]
	kSpecial      // a special register
	kCopy         // in[0] to out[0]
	kLoad
	kStore
	kAtomic
	kWarp
	kBarrier
	kFence
	kCheck
	kCopyBegin // cp.async
	kCopyWait  // its groups and waits
	kMatrix
	kRows    // ldmatrix, stmatrix
	kIf      // split the lanes by in[0]; to target if none has it
	kElse    // go on with the lanes left out; to target if there are none
	kEndIf   // bring the lanes together
	kLoop    // remember the lanes that enter
	kTest    // keep the lanes with in[0] < in[1]; to target if none is left
	kNext    // in[0] += in[1], then to target
	kTestP   // keep the lanes with in[0]; to target if none is left
	kJump    // to target
	kSpin    // stay until in[1] is in memory
	kEndLoop // bring the lanes together
	kProxy   // instructions of [code.ProxyRows] with effects
	kEnd
	kStop // wait until a Stepper lets the warp go on
)

// inst is a decoded instruction. Operands are indices of the register file, 32
// words for each register.
type inst struct {
	kind    kind
	op      code.Op
	class   code.Class
	in      [16]int32
	more    []int32 // registers that a product changes, or that a wait gives back
	out     [8]int32
	nin     int // inputs without fallbacks
	nout    int
	guard   int32 // -1: none
	rest    int32 // index in in of the first fallback
	target  int32
	imm     []int64
	row     *code.Row
	meaning func(imm []int64, a, b, c uint64) uint64
	exact   code.Exact
	plan    *matrixPlan // of a matrix instruction
	group   *groupPlan  // of a product of a warpgroup
	flops   int64       // of a lane, or of the warp
	kept    bool        // a copy that no fence has to stand behind
	pos     diag.Pos
}

type program struct {
	code    []inst
	regs    int     // registers
	of      []int32 // register of each value
	params  []int32
	ordered bool // blocks must run one after the other
	// clocked is set where order comes from more than barriers of the block: see
	// [cluster]. products is set where there are products of warpgroups.
	clocked, products bool
}

type decoder struct {
	f    *code.Func
	regs *code.Registers
	p    *program
	stop map[*code.Region][]int // numbers of stops, in the order of their places
}

const lanes = 32

// decode flattens the regions into jumps between instructions with resolved
// operands.
func decode(f *code.Func) *program {
	d := &decoder{f: f, regs: code.Assign(f), p: &program{clocked: f.Launch.Cluster != [3]int{}}}
	if len(f.Stops) > 0 {
		d.stop = map[*code.Region][]int{}
		for n, s := range f.Stops {
			d.stop[s.Region] = append(d.stop[s.Region], n)
		}
	}
	for _, a := range f.Body.Args {
		d.p.params = append(d.p.params, d.reg(a))
	}
	d.region(f.Body)
	d.add(inst{kind: kEnd})
	d.p.regs = len(d.regs.Types)
	d.p.of = d.regs.Of
	return d.p
}

func (d *decoder) reg(v code.Value) int32 { return d.regs.Of[v] * lanes }

func (d *decoder) add(i inst) int {
	d.p.code = append(d.p.code, i)
	return len(d.p.code) - 1
}

func (d *decoder) here() int32 { return int32(len(d.p.code)) }

func (d *decoder) copies(to, from []code.Value, pos diag.Pos) {
	for _, c := range d.regs.Copies(to, from) {
		i := inst{kind: kCopy, pos: pos, nin: 1, nout: 1, guard: -1}
		i.in[0], i.out[0] = c.From*lanes, c.To*lanes
		d.p.code = append(d.p.code, i)
	}
}

func (d *decoder) region(r *code.Region) {
	stops := d.stop[r]
	wait := func(i int) {
		for len(stops) > 0 && d.f.Stops[stops[0]].At <= i {
			d.add(inst{kind: kStop, class: code.Control, target: int32(stops[0]), guard: -1, pos: d.f.Stops[stops[0]].Pos})
			stops = stops[1:]
		}
	}
	for i, in := range r.Instrs {
		wait(i)
		d.instr(in)
	}
	wait(len(r.Instrs))
}

var kinds = [code.Classes]kind{code.Pure: kPure, code.Special: kSpecial, code.Load: kLoad, code.Store: kStore,
	code.Atomic: kAtomic, code.Warp: kWarp, code.Barrier: kBarrier, code.Matrix: kMatrix, code.Async: kCopyBegin}

func (d *decoder) instr(in *code.Instr) {
	row := in.Row()
	i := inst{op: in.Op, class: row.Class, imm: in.Imm, row: row, meaning: row.Meaning, exact: in.Exact, pos: in.Pos, nin: len(row.In), nout: len(row.Out), rest: int32(len(row.In)), guard: -1, flops: int64(row.Flops())}
	if row.Class != code.Control {
		i.kind = kinds[row.Class]
		switch {
		case row.Class == code.Matrix:
			i.plan = planOf(in.Op)
		case row.Collective:
			i.kind = kRows
		}
		switch {
		case row.InPlace:
			i.nin -= len(in.Out)
			i.nout = 0
			i.group = groupPlanOf(in.Op)
			from := len(d.p.code)
			d.copies(in.Out, in.In[i.nin:], in.Pos)
			for k := range d.p.code[from:] { // of values that a stop shows later, which no GPU keeps
				d.p.code[from+k].kept = len(d.f.Stops) > 0
			}
			for _, v := range in.Out {
				i.more = append(i.more, d.reg(v))
			}
			d.p.products = true
		case row.Through:
			i.nin, i.nout = 0, 0
			for _, v := range in.In {
				i.more = append(i.more, d.reg(v))
			}
			defer d.copies(in.Out, in.In, in.Pos)
		}
		if strings.HasPrefix(row.Name, "tcgen05.ld.") || strings.HasPrefix(row.Name, "tcgen05.st.") {
			d.p.products = true
			i.nin, i.nout = 1, 0
			for _, v := range append(slices.Clone(in.Out), in.In[1:]...) {
				i.more = append(i.more, d.reg(v))
			}
		}
		if in.Op.Proxied() && in.Op != code.OpUndef32 && in.Op != code.OpOwn32 {
			d.p.clocked = true
			if row.Class == code.Barrier || row.Class == code.Proxy {
				i.kind = kProxy
			}
		}
		for k, v := range in.In {
			if k >= i.nin {
				break
			}
			i.in[k] = d.reg(v)
		}
		for k, v := range in.Out {
			if k >= i.nout {
				break
			}
			i.out[k] = d.reg(v)
		}
		switch in.Op {
		case code.OpConstPred, code.OpConst16, code.OpConst32, code.OpConst64, code.OpOwn32:
			i.kind = kConst
		case code.OpPrefetchL2, code.OpFenceGPU, code.OpGridDepWait, code.OpGridDepLaunch: // launches run one after the other
			i.kind = kFence
		case code.OpUndef32:
			i.kind, i.imm = kConst, undefined
		case code.OpSpinGlobal, code.OpAwaitGlobal:
			i.kind = kSpin
			d.p.ordered = true
		case code.OpCheck, code.OpAssume, code.OpCheckIndex:
			i.kind = kCheck
		case code.OpCpAsyncCommit, code.OpCpAsyncWait, code.OpCpAsyncWaitAll:
			i.kind = kCopyWait
		case code.OpClock, code.OpGlobalTimer:
			i.kind = kSpecial
		case code.OpAtomGlobalAddF32, code.OpRedGlobalAddF32, code.OpRedGlobalAddF32V2, code.OpRedGlobalAddF32V4, code.OpRedGlobalAddF16x2, code.OpRedGlobalAddF16x2V2,
			code.OpRedGlobalAddF16x2V4, code.OpRedGlobalAddBF16x2, code.OpRedGlobalAddBF16x2V2, code.OpRedGlobalAddBF16x2V4:
			d.p.ordered = true
		}
		d.p.ordered = d.p.ordered || row.Class == code.Atomic && row.Space == code.Global && len(row.Out) > 0
		if in.Guard != 0 {
			i.guard = d.reg(in.Guard)
			d.copies(in.Out, in.In[len(row.In):], in.Pos)
		}
		d.p.code = append(d.p.code, i)
		return
	}
	i.class = code.Control
	switch in.Op {
	case code.OpIf:
		i.kind, i.in[0] = kIf, d.reg(in.In[0])
		split := d.add(i)
		d.region(in.Regions[0])
		d.copies(in.Out, in.Regions[0].Yield, in.Pos)
		i.kind = kElse
		other := d.add(i)
		d.p.code[split].target = int32(other)
		d.region(in.Regions[1])
		d.copies(in.Out, in.Regions[1].Yield, in.Pos)
		d.p.code[other].target = d.here()
		i.kind = kEndIf
		d.add(i)
	case code.OpFor:
		r := in.Regions[0]
		to := append([]code.Value{r.Args[0]}, in.Out...)
		from := append([]code.Value{in.In[0]}, in.In[3:]...)
		d.copies(to, from, in.Pos)
		i.kind = kLoop
		d.add(i)
		head := d.here()
		i.kind, i.in[0], i.in[1] = kTest, d.reg(r.Args[0]), d.reg(in.In[1])
		test := d.add(i)
		d.region(r)
		d.copies(in.Out, r.Yield, in.Pos)
		i.kind, i.in[1], i.target = kNext, d.reg(in.In[2]), head
		d.add(i)
		d.p.code[test].target = d.here()
		i.kind = kEndLoop
		d.add(i)
	case code.OpWhile:
		cond, body := in.Regions[0], in.Regions[1]
		d.copies(in.Out, in.In, in.Pos)
		i.kind = kLoop
		d.add(i)
		head := d.here()
		d.region(cond)
		i.kind, i.in[0] = kTestP, d.reg(cond.Yield[0])
		test := d.add(i)
		d.region(body)
		d.copies(in.Out, body.Yield, in.Pos)
		i.kind, i.target = kJump, head
		d.add(i)
		d.p.code[test].target = d.here()
		i.kind = kEndLoop
		d.add(i)
	}
}

// undefined is what a register holds that nobody has written: a NaN that shows.
var undefined = []int64{0x7fc0dead}
