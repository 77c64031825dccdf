package hopper

import (
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/tests/differential"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/build"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// builders write programs of the corpus in Go. Where inference finds layouts they leave them out.
var builders = map[string]func(b *build.Builder){
	"sum_rows_pipeline":     sumRows,
	"sum_in_cluster":        sumInCluster,
	"matmul_cluster_cast":   clusterCast,
	"matmul_launch_control": launchControl,
	"matmul_hopper_i4":      hopperI4,
}

var options = map[string][]build.Option{
	"sum_rows_pipeline":     {build.Grid("(M + 15)/16"), build.Warps(5)},
	"sum_in_cluster":        {build.Grid("(M + 15)/16*4"), build.Warps(2), build.Cluster(4)},
	"matmul_cluster_cast":   {build.Grid("(M + 255)/256*4", "(N + 63)/64"), build.Warps(8), build.Cluster(4)},
	"matmul_launch_control": {build.Grid("(M + 63)/64", "(N + 63)/64"), build.Warps(8)},
	"matmul_hopper_i4":      {build.Grid("(M + 63)/64", "N/64"), build.Warps(8)},
}

// TestBuilders: the programs in Go, their layouts found by inference, are those in text.
func TestBuilders(t *testing.T) {
	for name, write := range builders {
		b := build.Program(name, options[name]...)
		write(b)
		p, err := compile.Parse(name, b.Text(), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, want := text.Format(p), corpus.Program(name); got != want {
			t.Errorf("%s:\n%s\nnot\n%s", name, got, want)
		}
	}
}

func sumRows(b *build.Builder) {
	x, y, t := b.Pointer("x", dtype.F32), b.Pointer("y", dtype.F32), b.Pointer("t", dtype.F32)
	m, n := b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32)
	gx := b.ViewGlobal("gx", x, build.Global(dtype.F32, m, n))
	gy := b.ViewGlobal("gy", y, build.Global(dtype.F32, m))
	gt := b.ViewGlobal("gt", t, build.Global(dtype.F32, 1, 16))
	turns := b.Let("turns", "(N + 31)/32")
	bi := b.BlockIndices("bi")
	s := b.AllocateShared("s", "shared f32[3, 16, 32]")
	out := b.AllocateShared("out", "shared f32[1, 16]")
	p := b.AllocatePipeline("p", "shared u64[2, 3] shared_row_major(2, 3)", build.Producers(1), build.Consumers(4))
	b.Synchronize()
	part := func(k build.Value) build.Value {
		return b.SliceShared("part", s, "shared f32[16, 32]", build.Offset(k.Mod(3), 0, 0))
	}
	b.Group(0, 32, func() {
		b.Group(0, 1, func() {
			b.For("k", 0, turns, func(k build.Value) {
				b.AcquirePipeline(p, k)
				b.CommitPipeline(p, k, build.Bytes(2048))
				b.CopyAsyncTensorGlobalToShared(gx, part(k), p, k, build.Offset(bi.Mul(16), k.Mul(32)), build.Cache("first"))
			})
		})
	})
	b.Group(32, 128, func() {
		const tile = "register f32[16, 32] spatial(16, 8).local(1, 4)"
		acc := b.AllocateRegister("acc", tile, build.Init(0))
		b.For("k", 0, turns, func(k build.Value) {
			here := part(k)
			b.WaitPipeline(p, k)
			r := b.LoadShared("r", here, tile)
			b.ReleasePipeline(p, k)
			b.Add("acc", acc, r, tile)
		})
		sum := b.Reduce("sum", acc, "register f32[16]", build.Op("sum"), build.Dim(1))
		b.StoreGlobal(gy, sum, build.Offset(bi.Mul(16)))
		row := b.Reshape("row", sum, "register f32[1, 16]")
		b.StoreShared(out, row)
		b.FenceProxyAsync()
		b.Synchronize()
		b.Group(0, 1, func() {
			b.CopyAsyncTensorSharedToGlobal(gt, out, build.Offset(0, 0), build.Op("add"))
			b.CopyAsyncTensorCommitGroup()
			b.CopyAsyncTensorWaitGroup(build.N(0))
		})
	})
}

func sumInCluster(b *build.Builder) {
	x, y := b.Pointer("x", dtype.F32), b.Pointer("y", dtype.F32)
	m, n := b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32)
	gx := b.ViewGlobal("gx", x, build.Global(dtype.F32, 4, m, n))
	gy := b.ViewGlobal("gy", y, build.Global(dtype.F32, m, n))
	bi := b.BlockIndices("b")
	r := b.ClusterRank("r")
	i := b.Let("i", bi.Div(4).Mul(16))
	mine := b.AllocateShared("mine", "shared f32[16, 64]")
	parts := b.AllocateShared("parts", "shared f32[4, 4, 64]")
	const one = "shared u64[1] shared_row_major(1)"
	full, came := b.AllocateBarrier("full", one, build.Count(1)), b.AllocateBarrier("came", one, build.Count(8))
	b.ClusterSynchronize()
	b.For("j", 0, n.Add(63).Div(64), func(j build.Value) {
		b.Group(0, 1, func() {
			b.ArriveExpectTxBarrier(full, j, build.Bytes(4096))
			b.CopyAsyncTensorGlobalToShared(gx, mine, full, j, build.Offset(r, i, j.Mul(64)))
		})
		b.WaitBarrier(full, j)
		b.For("o", 0, 4, func(o build.Value) {
			q := b.SliceShared("q", mine, "shared f32[4, 64]", build.Offset(o.Mul(4), 0))
			v := b.LoadShared("v", q, "register f32[4, 64] spatial(1, 64).local(4, 1)")
			to := b.SliceShared("to", parts, "shared f32[4, 64]", build.Offset(r, 0, 0))
			b.StoreShared(to, v, build.Rank(o))
			b.ArriveBarrier(came, j, build.Rank(o))
		})
		b.WaitBarrier(came, j)
		all := b.LoadShared("all", parts, "register f32[4, 4, 64] spatial(1, 1, 64).local(4, 4, 1)")
		sum := b.Reduce("sum", all, "register f32[4, 64] spatial(1, 64).local(4, 1)", build.Op("sum"), build.Dim(0))
		b.StoreGlobal(gy, sum, build.Offset(i.Add(r.Mul(4)), j.Mul(64)))
		b.ClusterSynchronize()
	})
}

func clusterCast(b *build.Builder) {
	pa, pb, pc := b.Pointer("a", dtype.BF16), b.Pointer("b", dtype.BF16), b.Pointer("c", dtype.BF16)
	m, n, k := b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32), b.Scalar("K", dtype.I32)
	ga := b.ViewGlobal("ga", pa, build.Global(dtype.BF16, m, k))
	gb := b.ViewGlobal("gb", pb, build.Global(dtype.BF16, n, k))
	gc := b.ViewGlobal("gc", pc, build.Global(dtype.BF16, m, n))
	turns := b.Let("turns", k.Add(63).Div(64))
	bi, bj := b.BlockIndices2("bi", "bj")
	rank := b.ClusterRank("rank")
	sa := b.AllocateShared("sa", "shared bf16[2, 64, 64]")
	sb := b.AllocateShared("sb", "shared bf16[2, 64, 64]")
	p := b.AllocatePipeline("p", "shared u64[2, 2] shared_row_major(2, 2)", build.Producers(1), build.Consumers(16))
	b.ClusterSynchronize()
	b.Group(0, 128, func() {
		b.SetMaxRegisters(build.N(40))
		b.Group(0, 1, func() {
			b.For("k", 0, turns, func(k build.Value) {
				b.AcquirePipeline(p, k)
				b.CommitPipeline(p, k, build.Bytes(16384))
				ta := b.SliceShared("ta", sa, "shared bf16[64, 64]", build.Offset(k.Mod(2), 0, 0))
				b.CopyAsyncTensorGlobalToShared(ga, ta, p, k, build.Offset(bi.Mul(64), k.Mul(64)))
				tb := b.SliceShared("tb", sb, "shared bf16[16, 64]", build.Offset(k.Mod(2), rank.Mul(16), 0))
				b.CopyAsyncTensorGlobalToShared(gb, tb, p, k, build.Offset(bj.Mul(64).Add(rank.Mul(16)), k.Mul(64)), build.Multicast(15))
			})
		})
	})
	b.Group(128, 128, func() {
		b.SetMaxRegisters(build.N(200))
		acc := b.AllocateRegister("acc", "register f32[64, 64]", build.Init(0))
		b.For("k", 0, turns, func(k build.Value) {
			ua := b.SliceShared("ua", sa, "shared bf16[64, 64]", build.Offset(k.Mod(2), 0, 0))
			ub := b.SliceShared("ub", sb, "shared bf16[64, 64]", build.Offset(k.Mod(2), 0, 0))
			ut := b.PermuteShared("ut", ub, "shared bf16[64, 64]")
			b.WaitPipeline(p, k)
			b.WgmmaFence()
			b.WgmmaDot("acc", ua, ut, acc, "register f32[64, 64]")
			b.WgmmaCommitGroup()
			b.WgmmaWaitGroup(build.N(0))
			b.For("r", 0, 4, func(r build.Value) { b.ReleasePipeline(p, k, build.Rank(r)) })
		})
		out := b.Cast("out", acc, "register bf16[64, 64]")
		b.StoreGlobal(gc, out, build.Offset(bi.Mul(64), bj.Mul(64)))
	})
	b.ClusterSynchronize()
}

func launchControl(b *build.Builder) {
	pa, pb, pc := b.Pointer("a", dtype.F16), b.Pointer("b", dtype.F16), b.Pointer("c", dtype.F16)
	m, n, k := b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32), b.Scalar("K", dtype.I32)
	ga := b.ViewGlobal("ga", pa, build.Global(dtype.F16, m, k))
	gb := b.ViewGlobal("gb", pb, build.Global(dtype.F16, n, k))
	gc := b.ViewGlobal("gc", pc, build.Global(dtype.F16, m, n))
	turns := b.Let("turns", k.Add(63).Div(64))
	i0, j0 := b.BlockIndices2("i0", "j0")
	sa := b.AllocateShared("sa", "shared f16[3, 64, 64]")
	sb := b.AllocateShared("sb", "shared f16[3, 64, 64]")
	out := b.AllocateShared("out", "shared f16[64, 64]")
	answer := b.AllocateShared("answer", "shared u64[2] shared_row_major(2)")
	p := b.AllocatePipeline("p", "shared u64[2, 3] shared_row_major(2, 3)", build.Producers(1), build.Consumers(4))
	told := b.AllocatePipeline("told", "shared u64[2, 1] shared_row_major(2, 1)", build.Producers(1), build.Consumers(5))
	b.Synchronize()
	stage := func(name string, of, turn build.Value) build.Value {
		return b.SliceShared(name, of, "shared f16[64, 64]", build.Offset(turn.Mod(3), 0, 0))
	}
	// tiles does what work says for each tile that the block takes.
	tiles := func(work func(i, j, at, turn build.Value), end func(at build.Value)) {
		i, j := b.Let("i", i0), b.Let("j", j0)
		taken := b.Let("taken", 1)
		turn, at := b.Let("turn", 0), b.Let("at", 0)
		b.While(taken.Greater(0), func() {
			work(i, j, at, turn)
			b.WaitPipeline(told, turn)
			b.ClusterLaunchControlQueryResponse3("taken", "i", "j", answer)
			b.ReleasePipeline(told, turn)
			b.Let("turn", turn.Add(1))
			end(at)
		})
	}
	next := func(at build.Value) { b.Let("at", at.Add(turns)) }
	b.Group(0, 128, func() {
		b.Group(0, 32, func() {
			tiles(func(i, j, at, turn build.Value) {
				b.Group(0, 1, func() {
					b.AcquirePipeline(told, turn)
					b.CommitPipeline(told, turn, build.Bytes(16))
					b.ClusterLaunchControlTryCancel(answer, told, turn)
					b.For("k", 0, turns, func(k build.Value) {
						b.AcquirePipeline(p, at.Add(k))
						b.CommitPipeline(p, at.Add(k), build.Bytes(16384))
						ta := stage("ta", sa, at.Add(k))
						b.CopyAsyncTensorGlobalToShared(ga, ta, p, at.Add(k), build.Offset(i.Mul(64), k.Mul(64)), build.Cache("last"))
						tb := stage("tb", sb, at.Add(k))
						b.CopyAsyncTensorGlobalToShared(gb, tb, p, at.Add(k), build.Offset(j.Mul(64), k.Mul(64)), build.Cache("last"))
					})
				})
			}, next)
		})
	})
	b.Group(128, 128, func() {
		tiles(func(i, j, at, turn build.Value) {
			acc := b.AllocateRegister("acc", "register f32[64, 64]", build.Init(0))
			b.For("k", 0, turns, func(k build.Value) {
				ua, ub := stage("ua", sa, at.Add(k)), stage("ub", sb, at.Add(k))
				ut := b.PermuteShared("ut", ub, "shared f16[64, 64]")
				b.WaitPipeline(p, at.Add(k))
				ra := b.LoadShared("ra", ua, "register f16[64, 64] spatial(2, 1).replicated(2, 8, num_workers=2).local(2, 1).spatial(8, 4).local(1, 2)")
				rb := b.LoadShared("rb", ut, "register f16[64, 64]")
				b.ReleasePipeline(p, at.Add(k))
				b.Dot("acc", ra, rb, acc, "register f32[64, 64]")
			})
			half := b.Cast("half", acc, "register f16[64, 64]")
			b.Synchronize()
			b.StoreShared(out, half)
			b.FenceProxyAsync()
			b.Synchronize()
			b.Group(0, 1, func() {
				b.CopyAsyncTensorSharedToGlobal(gc, out, build.Offset(i.Mul(64), j.Mul(64)))
				b.CopyAsyncTensorCommitGroup()
				b.CopyAsyncTensorWaitGroup(build.N(0))
			})
			next(at)
		}, func(build.Value) {})
	})
}

func hopperI4(b *build.Builder) {
	w, x, s, y := b.Pointer("w", dtype.I4), b.Pointer("x", dtype.BF16), b.Pointer("s", dtype.BF16), b.Pointer("y", dtype.F32)
	m, n, k := b.Scalar("M", dtype.I32), b.Scalar("N", dtype.I32), b.Scalar("K", dtype.I32)
	gw := b.ViewGlobal("gw", w, build.Global(dtype.I4, m, k))
	gx := b.ViewGlobal("gx", x, build.Global(dtype.BF16, n, k))
	gs := b.ViewGlobal("gs", s, build.Global(dtype.BF16, m))
	gy := b.ViewGlobal("gy", y, build.Global(dtype.F32, m, n))
	turns := b.Let("turns", k.Div(64))
	bi, bj := b.BlockIndices2("bi", "bj")
	sx := b.AllocateShared("sx", "shared bf16[3, 64, 64]")
	p := b.AllocatePipeline("p", "shared u64[2, 3] shared_row_major(2, 3)", build.Producers(1), build.Consumers(4))
	b.Synchronize()
	stage := func(name string, k build.Value) build.Value {
		return b.SliceShared(name, sx, "shared bf16[64, 64]", build.Offset(k.Mod(3), 0, 0))
	}
	b.Group(0, 128, func() {
		b.SetMaxRegisters(build.N(32))
		b.Group(0, 1, func() {
			b.For("k", 0, turns, func(k build.Value) {
				b.AcquirePipeline(p, k)
				b.CommitPipeline(p, k, build.Bytes(8192))
				b.CopyAsyncTensorGlobalToShared(gx, stage("tx", k), p, k, build.Offset(bj.Mul(64), k.Mul(64)))
			})
		})
	})
	b.Group(128, 128, func() {
		const sums = "register f32[64, 64]"
		b.SetMaxRegisters(build.N(224))
		acc := b.AllocateRegister("acc", sums, build.Init(0))
		b.For("k", 0, turns, func(k build.Value) {
			low := b.LoadGlobal("low", gw, "register i4[64, 64]", build.Offset(bi.Mul(64), k.Mul(64)))
			a := b.Cast("a", low, "register bf16[64, 64]")
			xt := b.PermuteShared("xt", stage("ux", k), "shared bf16[64, 64]")
			b.WaitPipeline(p, k)
			b.WgmmaFence()
			b.WgmmaDot("acc", a, xt, acc, sums)
			b.WgmmaCommitGroup()
			b.WgmmaWaitGroup(build.N(0))
			b.ReleasePipeline(p, k)
		})
		sc := b.LoadGlobal("sc", gs, "register bf16[64]", build.Offset(bi.Mul(64)))
		sf := b.Cast("sf", sc, "register f32[64]")
		sr := b.Unsqueeze("sr", sf, "register f32[64, 1]", build.Dims(1))
		out := b.Mul("out", acc, sr, sums)
		b.StoreGlobal(gy, out, build.Offset(bi.Mul(64), bj.Mul(64)))
	})
}

// TestEnds: a block of a cluster may end without a barrier where it has waited for all that others bring, and
// nowhere else.
func TestEnds(t *testing.T) {
	const head = `program ends<2>(x: *f32, y: *f32) warps=2 cluster=[2] {
	b = BlockIndices()
	r = ClusterRank()
	gx = ViewGlobal(x) : global f32[16, 32]
	gy = ViewGlobal(y) : global f32[2, 16, 32]
	s = AllocateShared() : shared f32[16, 32] shared_row_major(16, 32)
	full = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)
	other = AllocateBarrier(count=2) : shared u64[1] shared_row_major(1)
	ClusterSynchronize()
	group(0, 1) {
		ArriveExpectTxBarrier(full, 0, bytes=2048)
		if r == 0 {
			CopyAsyncTensorGlobalToShared(gx, s, full, 0, offset=[0, 0], multicast=[3])
		}
	}
	WaitBarrier(full, 0)
	v = LoadShared(s) : register f32[16, 32] spatial(2, 32).local(8, 1)
	StoreGlobal(gy, v, offset=[b, 0, 0], dims=[1, 2])
`
	for _, c := range []struct {
		name, tail string
		line       int // of the mistake, 0 for none
	}{
		{"waits for copies", "", 0},
		{"is told and does not look", "\tArriveBarrier(other, 0, rank=[1 - r])\n", 19},
		{"is told and waits", "\tArriveBarrier(other, 0, rank=[1 - r])\n\tWaitBarrier(other, 0)\n", 0},
		{"is told, and all wait", "\tArriveBarrier(other, 0, rank=[1 - r])\n\tClusterSynchronize()\n", 0},
		{"is read", "\tw = LoadShared(s, rank=[1 - r]) : register f32[16, 32] spatial(2, 32).local(8, 1)\n\tStoreGlobal(gy, w, offset=[b, 0, 0], dims=[1, 2])\n", 19},
	} {
		p, err := text.Parse("ends.tile", head+c.tail+"}\n", nil)
		if err != nil {
			t.Fatal(err)
		}
		x, err := array.Generate("randint:f32[16, 32]:seed=1")
		if err != nil {
			t.Fatal(err)
		}
		findings, err := device.Sanitize(t.Context(), p, []ir.Arg{{Array: x}, {Array: array.New(dtype.F32, 2, 16, 32)}}, "sm_90a")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if len(f.Problems) > 0 != (c.line > 0) || c.line > 0 && f.Problems[0].Pos.Line != c.line {
				t.Errorf("%s, %s: %v, want a mistake at line %d", c.name, f.Machine, f.Problems.Err(), c.line)
			}
		}
	}
}

// TestGPUPrograms runs every program of the corpus that needs a Hopper GPU on one: the bits are the simulator's.
func TestGPUPrograms(t *testing.T) {
	gpu, err := device.Open("cuda")
	need.GPU(t, err, device.ErrNoGPU, "on a GPU machine: CGO_ENABLED=0 go test -c -o hopper.test ./tests/hopper && ./hopper.test -test.run GPUPrograms -test.v")
	defer gpu.Close()
	sim, err := device.Open("sim")
	if err != nil {
		t.Fatal(err)
	}
	launches, err := differential.Launches()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range launches {
		if l.Near || !strings.HasPrefix(l.Needs, "sm_90") || !l.Runs(gpu.Describe().Arch) {
			continue
		}
		t.Run(l.Name, func(t *testing.T) {
			want, err := sim.Run(t.Context(), l.Program, l.Args)
			if err != nil {
				t.Fatal(err)
			}
			got, err := gpu.Run(t.Context(), l.Program, l.Args)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for i, a := range want.Args {
				if a.Array == nil {
					continue
				}
				for k := range a.Array.Len() {
					if n++; got.Args[i].Array.Code(k) != a.Array.Code(k) {
						t.Fatalf("element %d of argument %d is %#x, the simulator's %#x", k, i, got.Args[i].Array.Code(k), a.Array.Code(k))
					}
				}
			}
			t.Logf("%d elements equal", n)
		})
	}
}
