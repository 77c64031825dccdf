package build

import "fmt"

// Pipeline hands stages of shared memory from producers, which fill them by tensor
// copies, to consumers and back. Turn t uses stage t mod Stages:
//
//	p := b.Pipeline("p", 4, 8)
//	b.Synchronize()
//	// producer
//	p.Acquire(k)                     // turn k - 4 has been released
//	p.Fill(k, bytes)                 // copies will bring so many bytes
//	b.CopyAsyncTensorGlobalToShared(ga, p.Stage("ta", sa, k, ta), p.Full, k, …)
//	// consumers
//	p.Wait(k)                        // the bytes of turn k are there
//	…
//	p.Release(k)                     // by each warp
//
// It writes the barriers out, so that a program can use them for more. AllocatePipeline
// and its family are the same as instructions, also between threads and for products in
// tensor memory.
type Pipeline struct {
	Full, Empty Value
	Stages      int

	b *Builder
}

// Pipeline makes the barriers of a pipeline: full, which one arrival and the bytes of
// copies complete, and empty, which so many warps of consumers do. A Synchronize, in
// a cluster a ClusterSynchronize, must stand between this and the first use.
func (b *Builder) Pipeline(name string, stages, consumers int) Pipeline {
	t := Type(fmt.Sprintf("shared u64[%d] shared_row_major(%d)", stages, stages))
	return Pipeline{
		Full: b.AllocateBarrier(name+"_full", t, Count(1)), Empty: b.AllocateBarrier(name+"_empty", t, Count(consumers)),
		Stages: stages, b: b,
	}
}

// Acquire waits until consumers have released what the stage of a turn held before.
func (p Pipeline) Acquire(turn Value) { p.b.WaitBarrier(p.Empty, turn.Sub(p.Stages)) }

// Fill says how many bytes copies will bring to a turn.
func (p Pipeline) Fill(turn Value, bytes int) {
	p.b.ArriveExpectTxBarrier(p.Full, turn, Bytes(bytes))
}

// Wait waits for the bytes of a turn.
func (p Pipeline) Wait(turn Value) { p.b.WaitBarrier(p.Full, turn) }

// Release gives the stage of a turn back: once for each warp, and with [Rank] to
// another block of the cluster.
func (p Pipeline) Release(turn Value, attrs ...Attr) { p.b.ArriveBarrier(p.Empty, turn, attrs...) }

// Stage is the part of a tile [Stages, …] that a turn uses; from says where it begins
// in the dimensions behind the first, 0 if left out.
func (p Pipeline) Stage(name string, tile, turn Value, t Type, from ...any) Value {
	if len(from) == 0 {
		from = []any{0, 0}
	}
	return p.b.SliceShared(name, tile, t, Offset(append([]any{turn.Mod(p.Stages)}, from...)...))
}
