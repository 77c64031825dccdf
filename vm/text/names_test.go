package text_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

// TestNamesOfTilus: what Tilus calls an instruction of its virtual machine is read, and
// printed by our name where it differs.
//
// Sources: "Table 1", the instruction set of the paper (arXiv 2504.12984), as far as its
// text tells it; "§2.x", the instruction classes of github.com/NVIDIA/tilus at commit
// 9a22de0a, python/tilus/ir/instructions.
func TestNamesOfTilus(t *testing.T) {
	const tile = " : register f32[32] spatial(32)"
	const tmem = "d = Tcgen05Alloc() : tmem f32[128, 64]\n\t"
	const mma = tmem + "ma = AllocateShared() : shared f16[128, 64] shared_row_major_swizzle([128, 64], 2)\n\tmb = AllocateShared() : shared f16[64, 64] shared_column_major(64, 64).apply_swizzle(base=3, bits=3, shift=3)\n\t"
	read := map[string]bool{}
	for _, c := range []struct{ name, source, line, printed string }{
		{"BlockIndices", "Table 1", "b = BlockIndices()", ""},
		{"ViewGlobal", "Table 1", "g2 = ViewGlobal(p) : global f32[64]", ""},
		{"GlobalView", "§2.1", "g2 = GlobalView(p) : global f32[64]", "ViewGlobal"},
		{"AllocateGlobal", "Table 1", "w = AllocateGlobal(init=0) : global f32[64]", ""},
		{"AllocateShared", "Table 1", "s2 = AllocateShared() : shared f32[32] shared_row_major(32)", ""},
		{"AllocateRegister", "Table 1", "y = AllocateRegister(init=0)" + tile, ""},
		{"FreeShared", "Table 1", "FreeShared(s)", ""},
		{"LoadGlobal", "Table 1", "y = LoadGlobal(g, offset=[0])" + tile, ""},
		{"LoadShared", "Table 1", "y = LoadShared(s)" + tile, ""},
		{"StoreGlobal", "Table 1", "StoreGlobal(g, x, offset=[0])", ""},
		{"StoreShared", "Table 1", "StoreShared(s, x)", ""},
		{"CopyAsync", "Table 1", "CopyAsync(g, s, offset=[0])", ""},
		{"CopyAsyncCommitGroup", "Table 1", "CopyAsyncCommitGroup()", ""},
		{"CopyAsyncWaitGroup", "Table 1", "CopyAsyncWaitGroup(n=1)", ""},
		{"CopyAsyncWaitAll", "§2.3", "CopyAsyncWaitAll()", ""},
		{"Cast", "Table 1", "h = Cast(x) : register f16[32] spatial(32)", ""},
		{"View", "Table 1", "v = View(x) : register i32[32] spatial(32)", ""},
		{"Add", "Table 1", "y = Add(x, x)" + tile, ""},
		{"Sub", "Table 1", "y = Sub(x, x)" + tile, ""},
		{"Mul", "Table 1", "y = Mul(x, x)" + tile, ""},
		{"Div", "Table 1", "y = Div(x, x)" + tile, ""},
		{"Mod", "Table 1", "j = Mod(i, i) : register i32[32] spatial(32)", ""},
		{"Neg", "Table 1", "y = Neg(x)" + tile, ""},
		{"ElementwiseUnary", "Table 1", "y = ElementwiseUnary(x, op=neg)" + tile, "Neg"},
		{"ElementwiseUnary", "§2.1", "y = ElementwiseUnary(x, op=exp2)" + tile, "Exp2"},
		{"ElementwiseBinary", "Table 1", "y = ElementwiseBinary(x, x, op=maximum)" + tile, "Max"},
		{"ElementwiseBinary", "§2.1", "c = ElementwiseBinary(x, x, op=not_equal) : register bool[32] spatial(32)", "NotEqual"},
		{"Dot", "Table 1", "d = Dot(a, a, f) : register f32[4, 4] replicated(4, 4, num_workers=32)", ""},
		{"MmaDot", "§2.2", "d = MmaDot(a, a, f) : register f32[4, 4] replicated(4, 4, num_workers=32)", "Dot"},
		{"SimtDot", "§2.2", "d = SimtDot(a, a, f) : register f32[4, 4] replicated(4, 4, num_workers=32)", "Dot(a, a, f, unit=simt)"},
		{"Synchronize", "Table 1", "Synchronize()", ""},
		{"SyncThreads", "§2.1", "SyncThreads()", "Synchronize"},
		{"SyncReduceThreads", "§2.1", "some = SyncReduceThreads(k, op=any)", "SynchronizeReduce"},
		{"Exit", "Table 1", "Exit()", "return"},
		{"Print", "Table 1", "Print(n)", ""},
		{"PrintTensor", "§2.1", "PrintTensor(x)", ""},
		{"FormatPrint", "§2.1", `FormatPrint(n, text="n = {}")`, "Print"},
		{"Assign", "§2.1", "y = Assign(x)" + tile, ""},
		{"Where", "§2.1", "y = Where(k, x, x)" + tile, ""},
		{"Clip", "§2.1", "y = Clip(x, 0.0, 1.0)" + tile, ""},
		{"Abs", "§2.1", "y = Abs(x)" + tile, ""},
		{"Repeat", "§2.1", "y = Repeat(x, repeats=[2]) : register f32[64] local(2).spatial(32)", ""},
		{"RepeatInterleave", "§2.1", "y = RepeatInterleave(x, repeats=[2]) : register f32[64] spatial(32).local(2)", ""},
		{"Squeeze", "§2.1", "y = Squeeze(u, dims=[0])" + tile, ""},
		{"Unsqueeze", "§2.1", "y = Unsqueeze(x, dims=[0]) : register f32[1, 32] spatial(1, 32)", ""},
		{"Transpose", "§2.1", "y = Transpose(u) : register f32[32, 1] spatial(32, 1)", ""},
		{"ReshapeRegister", "§2.1", "y = ReshapeRegister(x) : register f32[1, 32] spatial(1, 32)", "Reshape"},
		{"SliceRegister", "§2.1", "y = SliceRegister(u, offset=[0, 0], dims=[1])" + tile, ""},
		{"SliceAssign", "§2.1", "y = SliceAssign(u, x, offset=[0, 0], dims=[1]) : register f32[1, 32] spatial(1, 32)", ""},
		{"Reduce", "§2.1", "y = Reduce(x, op=sum, dim=[0]) : register f32[] replicated(num_workers=32)", ""},
		{"Scan", "§2.1", "y = Scan(x, op=add, dim=[0])" + tile, ""},
		{"ShuffleUp", "§2.1", "y = ShuffleUp(x, delta=[1])" + tile, ""},
		{"ShuffleDown", "§2.1", "y = ShuffleDown(x, delta=[1])" + tile, ""},
		{"ShuffleDown", "§2.1", "y = ShuffleDown(x, delta=[1], width=[8], mask=[-1])" + tile, "mask=[-1]"},
		{"SliceGlobal", "§2.1", "g2 = SliceGlobal(g, offset=[0]) : global f32[32]", ""},
		{"SliceShared", "§2.1", "s2 = SliceShared(s, offset=[0]) : shared f32[32] shared_row_major(32)", ""},
		{"PermuteShared", "§2.1", "s2 = PermuteShared(s, dims=[0]) : shared f32[32] shared_row_major(32)", ""},
		{"ReshapeShared", "§2.1", "s2 = ReshapeShared(s) : shared f32[4, 8] shared_row_major(4, 8)", ""},
		{"StoreGlobalScatter", "§2.1", "StoreGlobalScatter(g, i, x, dim=[0])", ""},
		{"StoreSharedScatter", "§2.1", "StoreSharedScatter(s, i, x, dim=[0])", ""},
		{"Philox4x32", "§2.1", "r = Philox4x32(7, i) : register u32[4, 32] local(4, 1).spatial(1, 32)", "Random"},
		{"LockSemaphore", "§2.1", "LockSemaphore(sem, 1, offset=[0])", ""},
		{"ReleaseSemaphore", "§2.1", "ReleaseSemaphore(sem, 1, offset=[0])", ""},
		{"AtomicGlobal", "§2.7", "AtomicGlobal(g, x, offset=[0], op=add)", ""},
		{"AtomicGlobal", "§2.7", "AtomicGlobal(g, x, offset=[0], op=add, order=acq_rel, scope=gpu)", "scope=gpu"},
		{"AtomicScatterGlobal", "§2.7", "AtomicScatterGlobal(g, i, x, dim=[0], op=add, sem=release)", "order=release"},
		{"AtomicShared", "§2.7", "AtomicShared(s, x, op=add)", ""},
		{"AtomicShared", "§2.7", "AtomicShared(s, x, op=add, scope=cta)", "scope=cta"},
		{"AtomicScatterGlobal", "§2.7", "AtomicScatterGlobal(g, i, x, dim=[0], op=add)", ""},
		{"AtomicScatterShared", "§2.7", "AtomicScatterShared(s, i, x, dim=[0], op=add)", ""},
		{"WgmmaFence", "§2.2", "WgmmaFence()", ""},
		{"WgmmaCommitGroup", "§2.2", "WgmmaCommitGroup()", ""},
		{"WgmmaWaitGroup", "§2.2", "WgmmaWaitGroup(n=0)", ""},
		{"CopyAsyncTensorGlobalToShared", "§2.4", "CopyAsyncTensorGlobalToShared(g, s, bars, 0, offset=[0])", ""},
		{"CopyAsyncTensorSharedToGlobal", "§2.4", "CopyAsyncTensorSharedToGlobal(g, s, offset=[0])", ""},
		{"CopyAsyncTensorCommitGroup", "§2.4", "CopyAsyncTensorCommitGroup()", ""},
		{"CopyAsyncTensorWaitGroup", "§2.4", "CopyAsyncTensorWaitGroup(n=0)", ""},
		{"CopyAsyncBulkGlobalToShared", "§2.4", "CopyAsyncBulkGlobalToShared(g, s, bars, 0, offset=[0])", ""},
		{"CopyAsyncBulkGlobalToClusterShared", "§2.4", "CopyAsyncBulkGlobalToClusterShared(g, s, bars, 0, offset=[0], multicast=[3])", "CopyAsyncBulkGlobalToShared"},
		{"CopyAsyncBulkSharedToGlobal", "§2.4", "CopyAsyncBulkSharedToGlobal(g, s, offset=[0])", ""},
		{"CopyAsyncBulkSharedToClusterShared", "§2.4", "CopyAsyncBulkSharedToClusterShared(s, s, bars, 0, rank=[1])", ""},
		{"CopyAsyncBulkCommitGroup", "§2.4", "CopyAsyncBulkCommitGroup()", "CopyAsyncTensorCommitGroup"},
		{"CopyAsyncBulkWaitGroup", "§2.4", "CopyAsyncBulkWaitGroup(n=0)", "CopyAsyncTensorWaitGroup"},
		{"ClusterLaunchControlTryCancel", "§2.5", "answer = AllocateShared() : shared u64[2] shared_row_major(2)\n\tClusterLaunchControlTryCancel(answer, bars, 0)", ""},
		{"ClusterLaunchControlQueryResponse", "§2.5", "answer = AllocateShared() : shared u64[2] shared_row_major(2)\n\ttaken = ClusterLaunchControlQueryResponse(answer)", ""},
		{"Tcgen05Alloc", "§2.6", "d = Tcgen05Alloc() : tmem f32[128, 64]", ""},
		{"Tcgen05Dealloc", "§2.6", tmem + "Tcgen05Dealloc(d)", ""},
		{"Tcgen05RelinquishAllocPermit", "§2.6", "Tcgen05RelinquishAllocPermit()", ""},
		{"Tcgen05Slice", "§2.6", tmem + "e = Tcgen05Slice(d, offset=[0, 32]) : tmem f32[128, 32]", ""},
		{"Tcgen05View", "§2.6", tmem + "e = Tcgen05View(d) : tmem f16[128, 128]", ""},
		{"Tcgen05Commit", "§2.6", "Tcgen05Commit(bars, 0)", ""},
		{"Tcgen05MmaSS", "§2.6", mma + "Tcgen05MmaSS(ma, mb, d)", "Tcgen05Mma"},
		{"Tcgen05Copy", "§2.6", mma + "ta = Tcgen05View(d) : tmem f16[128, 128]\n\tte = Tcgen05Slice(ta, offset=[0, 0]) : tmem f16[128, 64]\n\tTcgen05Copy(ma, te)", ""},
		{"Tcgen05MmaTS", "§2.6", mma + "ta = Tcgen05View(d) : tmem f16[128, 128]\n\tte = Tcgen05Slice(ta, offset=[0, 0]) : tmem f16[128, 64]\n\tTcgen05MmaTS(te, mb, d)", "Tcgen05Mma"},
		{"Tcgen05Wait", "§2.6", "Tcgen05Wait(for=load)", ""},
		{"AllocBarrier", "§2.5", "b2 = AllocBarrier(count=1) : shared u64[2] shared_row_major(2)", "AllocateBarrier"},
		{"ArriveBarrier", "§2.5", "ArriveBarrier(bars, 0)", ""},
		{"ArriveExpectTxBarrier", "§2.5", "ArriveExpectTxBarrier(bars, 0, bytes=16)", ""},
		{"WaitBarrier", "§2.5", "WaitBarrier(bars, 0)", ""},
		{"FenceProxyAsync", "§2.5", "FenceProxyAsync()", ""},
		{"ClusterSyncThreads", "§2.5", "ClusterSyncThreads()", "ClusterSynchronize"},
	} {
		src := fmt.Sprintf(`program p<2>(p: *f32, q: *i32, n: i32) warps=1 cluster=[2] {
	g = ViewGlobal(p) : global f32[64]
	sem = ViewGlobal(q) : global i32[1]
	s = AllocateShared() : shared f32[32] shared_row_major(32)
	bars = AllocateBarrier(count=1) : shared u64[1] shared_row_major(1)
	x = AllocateRegister(init=1) : register f32[32] spatial(32)
	i = AllocateRegister(init=1) : register i32[32] spatial(32)
	k = AllocateRegister(init=1) : register bool[32] spatial(32)
	u = AllocateRegister(init=1) : register f32[1, 32] spatial(1, 32)
	a = AllocateRegister(init=1) : register f32[4, 4] replicated(4, 4, num_workers=32)
	f = AllocateRegister(init=1) : register f32[4, 4] replicated(4, 4, num_workers=32)
	%s
}
`, c.line)
		if strings.HasPrefix(c.name, "ClusterLaunch") {
			src = strings.Replace(src, " cluster=[2]", "", 1)
		}
		read[c.name] = true
		p, err := text.Parse(c.name, src, nil)
		if err != nil {
			t.Errorf("%s (%s): %v", c.name, c.source, err)
			continue
		}
		want := c.printed
		if want == "" {
			want = c.name
		}
		lines := strings.Split(strings.TrimSpace(text.Format(p)), "\n")
		if got := lines[len(lines)-2]; !strings.Contains(got, want) || !strings.Contains(want, "=") && want != c.name && strings.Contains(got, c.name+"(") {
			t.Errorf("%s (%s) prints as %q, want %s", c.name, c.source, got, want)
		}
	}
	for _, name := range strings.Fields(classesOfTilus) {
		why := text.Instead(name)
		if why == "" {
			continue
		}
		if read[name] {
			t.Errorf("%s is read, and there is a reason why not: %s", name, why)
		}
		read[name] = true
		_, err := text.Parse("x", "program p<1>() warps=1 {\n\t"+name+"()\n}\n", nil)
		if list := (diag.List)(nil); !errors.As(err, &list) || list[0].Code == "" || list[0].Help != why {
			t.Errorf("%s: %v, not a numbered error that says %s", name, err, why)
		}
		for _, instead := range regexp.MustCompile(`[A-Z]\w+`).FindAllString(why, -1) {
			if op := ir.OpByName(instead); op == nil && !strings.Contains("Blackwell Not A B K", instead) {
				t.Errorf("%s: %q names %s, which is no instruction", name, why, instead)
			}
		}
	}
	read["Tcgen05Load"], read["Tcgen05Store"] = true, true // see below
	for _, name := range strings.Fields(classesOfTilus) {
		if !read[name] {
			t.Errorf("%s is an instruction of Tilus: is it one of ours, or why not?", name)
		}
	}
	// An op that is none, or takes another number of operands, is an error at its name.
	for _, line := range []string{"y = ElementwiseUnary(x, op=add)" + tile, "y = ElementwiseUnary(x, op=nothing)" + tile, "y = ElementwiseBinary(x, x)" + tile, "y = ElementwiseBinary(x" + tile} {
		if _, err := text.Parse("x", "program p<1>() warps=1 {\n\tx = AllocateRegister(init=1)"+tile+"\n\t"+line+"\n}\n", nil); err == nil {
			t.Errorf("%s is read", line)
		}
	}
	// Loads and stores take a warpgroup, which this block is not; vm/corpus/tensor_memory has them.
	for _, name := range []string{"Tcgen05Load", "Tcgen05Store"} {
		if ir.OpByName(name) == nil {
			t.Errorf("%s is no row", name)
		}
	}
	if !slices.Contains(ir.OpNames(), "Synchronize") {
		t.Error("Synchronize is not the canonical name")
	}
}

// classesOfTilus are the instruction classes of github.com/NVIDIA/tilus at commit
// 9a22de0a, python/tilus/ir/instructions: generic, products, copies, barriers and
// clusters, tensor memory, atomics.
const classesOfTilus = `
AllocateRegister Assign SliceRegister SliceAssign View Cast ElementwiseUnary ElementwiseBinary Add Sub Mul Div Mod Neg Abs Clip
Where Repeat RepeatInterleave Squeeze Unsqueeze Transpose ReshapeRegister Reduce Scan ShuffleUp ShuffleDown GlobalView AllocateGlobal SliceGlobal
LoadGlobal StoreGlobal LoadGlobalGeneric StoreGlobalGeneric StoreGlobalScatter StoreSharedScatter AllocateShared FreeShared
SliceShared PermuteShared ReshapeShared LoadShared StoreShared SyncThreads SyncReduceThreads Exit Nop FormatPrint PrintTensor
Philox4x32 LockSemaphore ReleaseSemaphore
Dot SimtDot WgmmaFence WgmmaCommitGroup WgmmaWaitGroup WgmmaMmaSS WgmmaMmaRS
CopyAsync CopyAsyncGeneric CopyAsyncCommitGroup CopyAsyncWaitGroup CopyAsyncWaitAll
CopyAsyncTensorGlobalToShared CopyAsyncTensorSharedToGlobal CopyAsyncTensorCommitGroup CopyAsyncTensorWaitGroup
CopyAsyncBulkGlobalToShared CopyAsyncBulkGlobalToClusterShared CopyAsyncBulkSharedToGlobal CopyAsyncBulkSharedToClusterShared
CopyAsyncBulkCommitGroup CopyAsyncBulkWaitGroup
AllocBarrier ArriveBarrier ArriveExpectTxBarrier ArriveExpectTxMulticastBarrier ArriveExpectTxRemoteBarrier WaitBarrier
FenceProxyAsync FenceProxyAsyncRelease ClusterSyncThreads MapSharedAddr ClusterLaunchControlTryCancel ClusterLaunchControlQueryResponse
Tcgen05Alloc Tcgen05Dealloc Tcgen05RelinquishAllocPermit Tcgen05Slice Tcgen05View Tcgen05Load Tcgen05Store Tcgen05Wait Tcgen05Copy
Tcgen05Commit Tcgen05MmaSS Tcgen05MmaTS
AtomicShared AtomicGlobal AtomicScatterShared AtomicScatterGlobal
`
