package ir

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// The rows of this file are pipelines: stages of shared memory that producers fill and
// consumers use up, again and again. A pipeline of n stages is two arrays of n barriers,
// of which one says that a stage is full and the other that it is empty again; turn t
// uses stage t mod n. The program names neither: producers acquire a turn and commit it,
// consumers wait for it and release it.
//
//	p = AllocatePipeline(producers=1, consumers=8) : shared u64[2, 3] shared_row_major(2, 3)
//	// producer
//	AcquirePipeline(p, k)
//	CommitPipeline(p, k, bytes=24576)
//	CopyAsyncTensorGlobalToShared(ga, stage, p, k, offset=[i, k*64])
//	// consumers
//	WaitPipeline(p, k)
//	…
//	ReleasePipeline(p, k)

var pipelineRows = []*Op{
	{
		Name: "AllocatePipeline", Family: "pipeline", Effects: WritesShared | Synchronizes,
		Doc: "A new pipeline of n stages. A turn is full when so many producers have committed it and the bytes of its copies have come, and empty again when so many consumers have released it. It is two arrays of barriers as AllocateBarrier makes them, full and empty: a Synchronize has to lie between this and the first use (in a cluster, a ClusterSynchronize before other blocks use it).",
		Out: []Port{{Name: "pipeline", Accept: AcceptShared, Doc: "u64[2, n]"}},
		Attrs: []AttrSpec{
			{Name: "producers", Kind: AttrNumber, Required: true, Doc: "how many commits fill a turn"},
			{Name: "consumers", Kind: AttrNumber, Required: true, Doc: "how many releases empty it"},
		},
		Rules: []Rule{
			{Text: "The result is u64[2, n] without holes.", Why: "Each stage has two barriers of 8 bytes.", Check: func(p *Program, in *Instr) *Violation {
				t := in.Out[0].Type
				if dims, _ := t.Dims(); len(dims) != 2 || dims[0] != 2 || t.Elem != dtype.U64 || t.HasLayout && (t.Shared.Size() != t.Shared.CountSize() || !t.Shared.Swizzle().Identity()) {
					return &Violation{Pos: in.typePos(0), Msg: fmt.Sprintf("the pipeline is %s", t), Help: "write shared u64[2, 4] shared_row_major(2, 4) for four stages"}
				}
				return nil
			}},
			{Text: fmt.Sprintf("producers and consumers are integers from 1 to %d.", MaxBarrierCount), Check: func(p *Program, in *Instr) *Violation {
				if bad := checkNumber(in, "producers", 1, MaxBarrierCount, 1); bad != nil {
					return bad
				}
				return checkNumber(in, "consumers", 1, MaxBarrierCount, 1)
			}},
			ruleBarrierTop,
		},
		Since: "0.6", Source: ptxBarrier + "; " + tilusDoc + " Pipeline", Example: "p = AllocatePipeline(producers=1, consumers=8) : shared u64[2, 3] shared_row_major(2, 3)",
	},
	{
		Name: "AcquirePipeline", Family: "pipeline", Effects: Synchronizes,
		Doc:   "A producer waits until the stage of a turn is empty: until consumers have released turn t - n. The first n turns are empty from the start.",
		In:    pipelineIn(),
		Rules: []Rule{rulePipeline, ruleTurn(1)},
		Since: "0.6", Source: ptxBarrier + ".try_wait", Example: "AcquirePipeline(p, k)",
	},
	{
		Name: "CommitPipeline", Family: "pipeline", Effects: WritesShared | Async | Synchronizes,
		Doc: "A producer has filled its part of a turn. With bytes it counts once, and the turn waits for so many bytes of copies as well, which may begin before or after; with after=products it counts once, when the products in tensor memory are done that the same thread has begun since its last commit or release of that kind. Otherwise what the threads that run have stored is their part: it counts once for each warp (once for a part of a warp), and consumers see it.",
		In:  pipelineIn(),
		Attrs: []AttrSpec{
			{Name: "bytes", Kind: AttrNumber, Doc: "how many bytes copies bring to the turn"},
			attrAfter, attrMulticast, attrRank,
		},
		Rules: []Rule{rulePipeline, ruleTurn(1), ruleRank, ruleAfter,
			{Text: fmt.Sprintf("bytes is a multiple of 16 from 16 to %d.", MaxBarrierBytes), Why: "Copies move units of 16 bytes; the count of a barrier has 20 bits.",
				Check: func(p *Program, in *Instr) *Violation { return checkNumber(in, "bytes", 16, MaxBarrierBytes, 16) }}},
		Since: "0.6", Source: ptxBarrier + ".arrive", Example: "CommitPipeline(p, k, bytes=24576)",
	},
	{
		Name: "WaitPipeline", Family: "pipeline", Effects: Synchronizes,
		Doc:   "A consumer waits until a turn is full: it then sees what producers stored, and what copies and products brought.",
		In:    pipelineIn(),
		Rules: []Rule{rulePipeline, ruleTurn(1)},
		Since: "0.6", Source: ptxBarrier + ".try_wait", Example: "WaitPipeline(p, k)",
	},
	{
		Name: "ReleasePipeline", Family: "pipeline", Effects: WritesShared | Async | Synchronizes,
		Doc:   "A consumer has used up the stage of a turn: once for each warp of the threads that run, once for a part of a warp. With after=products it counts once, when the products in tensor memory are done that the same thread has begun since its last commit or release of that kind, and that read the stage.",
		In:    pipelineIn(),
		Attrs: []AttrSpec{attrAfter, attrMulticast, attrRank},
		Rules: []Rule{rulePipeline, ruleTurn(1), ruleRank, ruleAfter},
		Since: "0.6", Source: ptxBarrier + ".arrive", Example: "ReleasePipeline(p, k)",
	},
}

func pipelineIn() []Port {
	return []Port{{Name: "pipeline", Accept: AcceptShared, Doc: "of AllocatePipeline"}, {Name: "turn", Accept: AcceptScalar, Doc: "i32"}}
}

var attrAfter = AttrSpec{Name: "after", Kind: AttrWord, Words: []string{"products"}, Doc: "products: when the products in tensor memory begun by this thread are done"}

var ruleAfter = Rule{Text: "after=products stands without bytes and rank; multicast stands with it, is one expression, and the program has clusters.", Why: "The machine arrives for the thread, once in each block of the mask, and brings no bytes.", Check: func(p *Program, in *Instr) *Violation {
	a, to := in.Attr("after"), in.Attr("multicast")
	switch {
	case a != nil && (in.Attr("bytes") != nil || in.Attr("rank") != nil):
		return &Violation{Pos: a.Pos, Msg: "after=products beside bytes or rank", Help: "commit bytes with an instruction of their own, and count both"}
	case a == nil && to != nil:
		return &Violation{Pos: to.Pos, Msg: "multicast without after=products", Help: "write rank=[r], once for each block"}
	}
	return ruleMulticast.Check(p, in)
}}

var rulePipeline = Rule{Text: "The pipeline is one of AllocatePipeline.", Why: "Its barriers have their places.", Check: func(p *Program, in *Instr) *Violation {
	if v := in.In[0].Var(); !madeBy(p, v, "AllocatePipeline") {
		return &Violation{Pos: in.In[0].Pos, Msg: v.Name + " is not made by AllocatePipeline", Help: "p = AllocatePipeline(producers=1, consumers=4) : shared u64[2, 3] shared_row_major(2, 3)"}
	}
	return nil
}}

// ruleFills is for instructions whose operand i is barriers or a pipeline that bytes
// come to.
func ruleFills(i int) Rule {
	return Rule{Text: "The barriers are those of an AllocateBarrier, or a pipeline of AllocatePipeline.", Why: "Other memory is no barrier, and barriers hold nothing else.", Check: func(p *Program, in *Instr) *Violation {
		if v := in.In[i].Var(); !IsBarrier(p, v) && !madeBy(p, v, "AllocatePipeline") {
			return &Violation{Pos: in.In[i].Pos, Msg: v.Name + " is made by neither", Help: "bars = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)"}
		}
		return nil
	}}
}

// Stages is how many barriers an array of barriers has, or stages a pipeline.
func Stages(t Type) int {
	dims, _ := t.Dims()
	return dims[len(dims)-1]
}

// Sooner is the turn n turns before.
func Sooner(turn Expr, n int, pos diag.Pos) Expr {
	return &Binary{Op: "-", X: turn, Y: &Int{Value: int64(n), Pos: pos}, Pos: pos}
}

// ruleBarrierTop is for instructions that make barriers.
var ruleBarrierTop = Rule{Text: "It stands in no loop, branch or thread group.", Why: "Every block makes its barriers once, at the same places as the other blocks of its cluster.",
	Check: func(p *Program, in *Instr) *Violation {
		if b, _ := blockOf(p.Body, in); b != p.Body {
			return &Violation{Msg: in.Op.Name + " is in a loop, branch or group", Help: "move it to the top level of the program"}
		}
		return nil
	}}
