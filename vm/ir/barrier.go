package ir

import (
	"fmt"
	"slices"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// The rows of this file are barriers in shared memory (mbarriers): threads, copies
// and other blocks arrive at them, and whoever waits goes on when all that were
// expected have come. A barrier is used again and again, phase after phase. An array
// of n barriers is used in turns: turn t is phase t div n of barrier t mod n. So one
// number says both which stage of a pipeline is meant and which of its phases.

const ptxBarrier = "PTX ISA 9.7.13.15 mbarrier"

// MaxBarrierCount bounds the arrivals that complete a phase.
const MaxBarrierCount = 1<<20 - 1

// MaxBarrierBytes bounds the bytes that a phase waits for.
const MaxBarrierBytes = 1<<20 - 1

var barrierRows = []*Op{
	{
		Name: "AllocateBarrier", Aliases: []string{"AllocBarrier"}, Family: "barrier", Effects: WritesShared | Synchronizes,
		Doc:   "New barriers in the shared memory of the block, each in its phase 0, which count arrivals complete. One thread makes them; a Synchronize has to lie between this and their first use (in a cluster, a ClusterSynchronize before other blocks use them). They live as AllocateShared's tiles do.",
		Out:   []Port{{Name: "barriers", Accept: AcceptShared, Doc: "u64[n]"}},
		Attrs: []AttrSpec{{Name: "count", Kind: AttrNumber, Required: true, Doc: "how many arrivals complete a phase"}},
		Rules: []Rule{
			{Text: "The result is a row of u64 without holes.", Why: "A barrier is 8 bytes that only barrier instructions read.",
				Check: func(p *Program, in *Instr) *Violation {
					t := in.Out[0].Type
					if dims, _ := t.Dims(); len(dims) != 1 || t.Elem != dtype.U64 || t.Shared.Size() != t.Shared.CountSize() || !t.Shared.Swizzle().Identity() {
						return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("barriers are %s", t), Help: "write shared u64[4] shared_row_major(4)"}
					}
					return nil
				}},
			{Text: fmt.Sprintf("count is an integer from 1 to %d.", MaxBarrierCount),
				Check: func(p *Program, in *Instr) *Violation { return checkNumber(in, "count", 1, MaxBarrierCount, 1) }},
			ruleBarrierTop,
		},
		Since: "0.4", Source: ptxBarrier + ".init", Example: "full = AllocateBarrier(count=1) : shared u64[4] shared_row_major(4)",
	},
	{
		Name: "ArriveBarrier", Family: "barrier", Effects: WritesShared | Synchronizes,
		Doc:   "Arrives at a barrier: once for each warp of the threads that run, once for a part of a warp. What those threads did before comes before what others do after a wait for the phase. With rank, the barrier is the one at the same place of another block of the cluster.",
		In:    barrierIn(),
		Attrs: []AttrSpec{attrRank},
		Rules: []Rule{ruleBarrier(0), ruleTurn(1), ruleRank},
		Since: "0.4", Source: ptxBarrier + ".arrive", Example: "ArriveBarrier(empty, k)",
	},
	{
		Name: "ArriveExpectTxBarrier", Family: "barrier", Effects: WritesShared | Synchronizes,
		Doc: "Arrives at a barrier once, and lets its phase wait for so many bytes of copies as well. The copies may begin before or after, in the same turn.",
		In:  barrierIn(),
		Attrs: []AttrSpec{
			{Name: "bytes", Kind: AttrNumber, Required: true, Doc: "how many bytes copies will bring"},
			attrRank,
		},
		Rules: []Rule{ruleBarrier(0), ruleTurn(1), ruleRank,
			{Text: fmt.Sprintf("bytes is a multiple of 16 from 16 to %d.", MaxBarrierBytes), Why: "Copies move units of 16 bytes; the count of a barrier has 20 bits.",
				Check: func(p *Program, in *Instr) *Violation { return checkNumber(in, "bytes", 16, MaxBarrierBytes, 16) }}},
		Since: "0.4", Source: ptxBarrier + ".arrive.expect_tx", Example: "ArriveExpectTxBarrier(full, k, bytes=16384)",
	},
	{
		Name: "WaitBarrier", Family: "barrier", Effects: Synchronizes,
		Doc: "Waits until the phase of a turn is complete: what those who arrived did before, and the bytes of the phase's copies, are seen after it by the threads that wait, and by no others. Turns before the first (-n to -1) are complete from the start, so that the producer of a pipeline of n stages can wait for turn k - n to be used up before it fills turn k. " +
			"A barrier remembers only its last phase: when a turn is waited for, its phase or the one after it must be running.",
		In:    barrierIn(),
		Rules: []Rule{ruleBarrier(0), ruleTurn(1)},
		Since: "0.4", Source: ptxBarrier + ".try_wait", Example: "WaitBarrier(full, k)",
	},
	{
		Name: "FenceProxyAsync", Family: "barrier", Effects: WritesShared | Synchronizes,
		Doc:   "What the threads that run stored to shared memory before, or saw stored, is seen by the asynchronous proxy after: by copies of tensors and by matrix instructions that read shared memory. It must lie between StoreShared (or CopyAsync) and such a reader, beside the barrier between the threads.",
		Since: "0.4", Source: "PTX ISA 9.7.13.4 fence.proxy.async", Example: "FenceProxyAsync()",
	},
}

func barrierIn() []Port {
	return []Port{{Name: "barriers", Accept: AcceptShared, Doc: "of AllocateBarrier"}, {Name: "turn", Accept: AcceptScalar, Doc: "i32"}}
}

// ruleBarrier is for instructions whose operand i is an array of barriers.
func ruleBarrier(i int) Rule {
	return Rule{Text: "The barriers are those of an AllocateBarrier.", Why: "Other memory is no barrier, and barriers hold nothing else.",
		Check: func(p *Program, in *Instr) *Violation {
			if v := in.In[i].Var(); !IsBarrier(p, v) {
				return &Violation{Pos: in.In[i].Pos, Msg: v.Name + " is not made by AllocateBarrier", Help: "bars = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)"}
			}
			return nil
		}}
}

// IsBarrier reports a variable that AllocateBarrier makes.
func IsBarrier(p *Program, v *Var) bool { return madeBy(p, v, "AllocateBarrier") }

// madeBy reports a variable that an instruction of this name makes.
func madeBy(p *Program, v *Var, op string) bool {
	found := false
	p.Body.Walk(func(s Stmt) bool {
		if in, ok := s.(*Instr); ok && in.Op.Name == op && slices.Contains(in.Out, v) {
			found = true
		}
		return !found
	})
	return found
}

// ruleTurn is for instructions whose operand i is a turn.
func ruleTurn(i int) Rule {
	return Rule{Text: "The turn is an i32 or u32.", Check: func(p *Program, in *Instr) *Violation {
		if t, _ := TypeOf(in.In[i].Expr, func(diag.Pos, string, string, string) {}); t != dtype.I32 && t != dtype.U32 {
			return &Violation{Pos: in.In[i].Pos, Msg: fmt.Sprintf("%s is %s", in.In[i].Expr, t), Help: "count turns in i32"}
		}
		return nil
	}}
}

var attrRank = AttrSpec{Name: "rank", Kind: AttrExprs, Doc: "[r]: the block of the cluster whose memory is meant; left out, the running one"}

var ruleRank = Rule{Text: "rank, where it is given, is one expression, and the program has clusters.",
	Check: func(p *Program, in *Instr) *Violation {
		a := in.Attr("rank")
		switch {
		case a == nil:
		case len(a.Exprs) != 1:
			return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("rank has %d entries", len(a.Exprs)), Help: "write rank=[r]"}
		case p.ClusterSize() == 1:
			return &Violation{Pos: a.Pos, Msg: "the program has no clusters", Help: "write cluster=[2] behind the parameters"}
		}
		return nil
	}}

// checkNumber checks that a number of a row is a multiple of step from lo to hi.
func checkNumber(in *Instr, name string, lo, hi, step int) *Violation {
	a := in.Attr(name)
	if a == nil {
		return nil
	}
	if n := int(a.Number); float64(n) != a.Number || n < lo || n > hi || n%step != 0 {
		return &Violation{Pos: a.Pos, Msg: fmt.Sprintf("%s is %v", name, a.Number), Help: fmt.Sprintf("multiples of %d from %d to %d are possible", step, lo, hi)}
	}
	return nil
}
