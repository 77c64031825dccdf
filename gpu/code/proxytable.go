package code

import (
	"fmt"
	"strings"
)

// mbarrier is a row on the barrier at an address in the block's shared memory.
func mbarrier(name, ptx, doc string, out []Type, in ...Type) Row {
	return Row{Name: "mbarrier." + name, In: append([]Type{B32}, in...), Out: out, Imm: []ImmKind{ImmOffset}, Class: Barrier, Addr: firstShared, PTX: ptx, Since: 90, Doc: doc, Source: srcMbar}
}

func barrierRow(name, doc, source string) Row {
	return Row{Name: name, Class: Barrier, PTX: name, Since: 90, Doc: doc, Source: source}
}

func specialRow(name, doc string) Row {
	return Row{Name: name, Out: []Type{B32}, Class: Special, PTX: "mov.u32 {o0}, %" + name, Since: 90, Doc: doc, Source: srcCluster}
}

const (
	spin = "{ .reg .pred done; again: mbarrier.try_wait"
	till = "; @!done bra again; }"
	seen = "; what was done before the arrivals of the phase, and what its copies wrote, is seen after"
)

func proxyNamed() [endProxy - firstProxy]Row {
	one := []Type{B64}
	p := []Type{Pred}
	w := func(n int) []Type { return b32s[:n] }
	return [...]Row{
		OpMbarInit - firstProxy:               mbarrier("init", "mbarrier.init.shared::cta.b64 {mem}, {a1#}", "makes the 8 bytes at a + i0 a barrier: each phase ends when b arrivals and all expected bytes have come; its first phase, of parity 0, begins", nil, B32),
		OpMbarInval - firstProxy:              mbarrier("inval", "mbarrier.inval.shared::cta.b64 {mem}", "ends the barrier: its bytes may be used for other things", nil),
		OpMbarArrive - firstProxy:             mbarrier("arrive", "mbarrier.arrive.shared::cta.b64 _, {mem}", "arrives once; what this thread did before is seen by those who wait for the phase", nil),
		OpMbarArriveCount - firstProxy:        mbarrier("arrive.count", "mbarrier.arrive.shared::cta.b64 _, {mem}, {a1#}", "arrives b times", nil, B32),
		OpMbarArriveState - firstProxy:        mbarrier("arrive.state", "mbarrier.arrive.shared::cta.b64 {o0}, {mem}", "arrives once and gives the state of before, for mbarrier.wait", one),
		OpMbarArriveNoComplete - firstProxy:   mbarrier("arrive.noComplete", "mbarrier.arrive.noComplete.shared::cta.b64 {o0}, {mem}, {a1#}", "arrives b times, by which the phase must not end, and gives the state of before", one, B32),
		OpMbarArriveDrop - firstProxy:         mbarrier("arrive_drop", "mbarrier.arrive_drop.shared::cta.b64 _, {mem}", "arrives once, and later phases need one arrival less", nil),
		OpMbarArriveExpectTx - firstProxy:     mbarrier("arrive.expect_tx", "mbarrier.arrive.expect_tx.shared::cta.b64 _, {mem}, {a1#}", "b more bytes must come before the phase ends; then arrives once", nil, B32),
		OpMbarArriveCluster - firstProxy:      mbarrier("arrive.cluster", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, {mem}", "arrives once at a barrier of the cluster", nil),
		OpMbarArriveCountCluster - firstProxy: mbarrier("arrive.count.cluster", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, {mem}, {a1#}", "arrives b times at a barrier of the cluster", nil, B32),
		OpMbarArriveExpectTxCluster - firstProxy: mbarrier("arrive.expect_tx.cluster", "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, {mem}, {a1#}",
			"at a barrier of the cluster: b more bytes must come before the phase ends; then arrives once", nil, B32),
		OpMbarArriveRemote - firstProxy:      mbarrier("arrive.remote", "mbarrier.arrive.shared::cluster.b64 _, {mem}", "arrives once at a barrier of the cluster, without the fence that shows others what this thread stored: enough to give back memory that copies fill and products read", nil),
		OpMbarExpectTx - firstProxy:          mbarrier("expect_tx", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 {mem}, {a1#}", "b more bytes must come before the phase ends", nil, B32),
		OpMbarExpectTxCluster - firstProxy:   mbarrier("expect_tx.cluster", "mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 {mem}, {a1#}", "b more bytes must come before the phase of a barrier of the cluster ends", nil, B32),
		OpMbarCompleteTx - firstProxy:        mbarrier("complete_tx", "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 {mem}, {a1#}", "counts b bytes as come", nil, B32),
		OpMbarCompleteTxCluster - firstProxy: mbarrier("complete_tx.cluster", "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 {mem}, {a1#}", "counts b bytes as come at a barrier of the cluster", nil, B32),
		OpMbarTestWait - firstProxy:          mbarrier("test_wait", "mbarrier.test_wait.shared::cta.b64 {o0}, {mem}, {a1}", "whether the phase of the state b has ended"+seen+" if so", p, B64),
		OpMbarTestWaitParity - firstProxy:    mbarrier("test_wait.parity", "mbarrier.test_wait.parity.shared::cta.b64 {o0}, {mem}, {a1#}", "whether the phase of parity b has ended: the current one, or the one before"+seen+" if so", p, B32),
		OpMbarTryWait - firstProxy:           mbarrier("try_wait", "mbarrier.try_wait.shared::cta.b64 {o0}, {mem}, {a1}", "as test_wait, and may sleep for a while", p, B64),
		OpMbarTryWaitParity - firstProxy:     mbarrier("try_wait.parity", "mbarrier.try_wait.parity.shared::cta.b64 {o0}, {mem}, {a1#}", "as test_wait.parity, and may sleep for a while", p, B32),
		OpMbarWait - firstProxy:              mbarrier("wait", spin+".shared::cta.b64 done, {mem}, {a1}"+till, "waits until the phase of the state b has ended"+seen, nil, B64),
		OpMbarWaitParity - firstProxy:        mbarrier("wait.parity", spin+".parity.shared::cta.b64 done, {mem}, {a1#}"+till, "waits until the phase of parity b has ended: the current one, or the one before"+seen, nil, B32),
		OpMbarWaitParityCluster - firstProxy: mbarrier("wait.parity.cluster", spin+".parity.acquire.cluster.shared::cta.b64 done, {mem}, {a1#}"+till, "as wait.parity, where arrivals came from other blocks of the cluster", nil, B32),
		OpMbarPending - firstProxy:           {Name: "mbarrier.pending_count", In: one, Out: w(1), Class: Barrier, PTX: "mbarrier.pending_count.b64 {o0}, {a0}", Since: 90, Doc: "arrivals that were missing in the state a", Source: srcMbar},
		OpCpAsyncMbarArrive - firstProxy: {Name: "cp.async.mbarrier.arrive", In: w(1), Imm: []ImmKind{ImmOffset}, Class: Barrier, Addr: firstShared, PTX: "cp.async.mbarrier.arrive.shared::cta.b64 {mem}", Since: 80,
			Doc: "arrives once when all cp.async of this thread so far have landed; the phase needs one arrival more for it", Source: srcMbar},
		OpCpAsyncMbarArriveNoInc - firstProxy: {Name: "cp.async.mbarrier.arrive.noinc", In: w(1), Imm: []ImmKind{ImmOffset}, Class: Barrier, Addr: firstShared, PTX: "cp.async.mbarrier.arrive.noinc.shared::cta.b64 {mem}", Since: 80,
			Doc: "arrives once when all cp.async of this thread so far have landed; the count of the barrier has that arrival in it", Source: srcMbar},

		OpFenceProxyAsync - firstProxy:        barrierRow("fence.proxy.async", "what this thread has seen of ordinary accesses to memory comes before copies and products of the asynchronous proxy that begin later, here or behind a barrier", srcFence),
		OpFenceProxyAsyncShared - firstProxy:  barrierRow("fence.proxy.async.shared::cta", "fence.proxy.async for the block's shared memory", srcFence),
		OpFenceProxyAsyncCluster - firstProxy: barrierRow("fence.proxy.async.shared::cluster", "fence.proxy.async for shared memory of the cluster", srcFence),
		OpFenceProxyAsyncGlobal - firstProxy:  barrierRow("fence.proxy.async.global", "fence.proxy.async for global memory", srcFence),
		OpFenceProxyTensorMapRelease - firstProxy: {Name: "fence.proxy.tensormap.release", Class: Barrier, PTX: "fence.proxy.tensormap::generic.release.gpu", Since: 90, ISA: "8.3",
			Doc: "a tensor map that this thread has changed in global memory is seen by those who acquire it", Source: srcFence},
		OpFenceProxyTensorMapAcquire - firstProxy: {Name: "fence.proxy.tensormap.acquire", In: one, Class: Barrier, PTX: "fence.proxy.tensormap::generic.acquire.gpu [{a0}], 128", Since: 90, ISA: "8.3",
			Doc: "later copies of this thread use the tensor map at a as it is now", Source: srcFence},
		OpFenceMbarInit - firstProxy: barrierRow("fence.mbarrier_init.release.cluster", "barriers that this thread has made are seen by the cluster and by copies behind the next barrier", srcFence),
		OpFenceCluster - firstProxy:  barrierRow("fence.acq_rel.cluster", "orders memory accesses of this thread for all threads of the cluster", srcFence),

		OpBulkLoad - firstProxy:              bulkLoad("", ""),
		OpBulkLoadHint - firstProxy:          bulkLoad("", ".L2::cache_hint"),
		OpBulkLoadMulticast - firstProxy:     bulkLoad(".multicast::cluster", ""),
		OpBulkLoadMulticastHint - firstProxy: bulkLoad(".multicast::cluster", ".L2::cache_hint"),
		OpBulkToCluster - firstProxy: {Name: "cp.async.bulk.shared::cluster.shared::cta", In: w(4), Imm: []ImmKind{ImmOffset, ImmOffset, ImmOffset}, Class: Proxy, Addr: []Address{{0, 0, Shared}, {1, 1, Shared}, {3, 2, Shared}},
			PTX: "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [{a0}+{i0}], [{a1}+{i1}], {a2#}, [{a3}+{i2}]", Since: 90,
			Doc: "begins to copy c bytes from the block's shared address b to the cluster address a; they are counted at the barrier at the cluster address d, of the same block as a. Addresses and c are multiples of 16", Source: srcBulk},
		OpBulkStore - firstProxy:     bulkStore(""),
		OpBulkStoreHint - firstProxy: bulkStore(".L2::cache_hint"),
		OpBulkPrefetch - firstProxy: {Name: "cp.async.bulk.prefetch.L2.global", In: []Type{B64, B32}, Imm: []ImmKind{ImmOffset}, Class: Proxy, Addr: []Address{{0, 0, Global}}, PTX: "cp.async.bulk.prefetch.L2.global [{a0}+{i0}], {a1#}", Since: 90,
			Doc: "asks for b bytes, a multiple of 16, at the global address a to be brought to the L2 cache", Source: srcBulk},
		OpBulkCommit - firstProxy:        barrierRow("cp.async.bulk.commit_group", "makes a group of the thread's bulk copies to global memory since the last one", srcBulk),
		OpBulkWait - firstProxy:          {Name: "cp.async.bulk.wait_group", Imm: []ImmKind{ImmGroups}, Class: Barrier, PTX: "cp.async.bulk.wait_group {i0}", Since: 90, Doc: "waits until at most i0 of the thread's latest bulk groups are not complete", Source: srcBulk},
		OpBulkWaitRead - firstProxy:      {Name: "cp.async.bulk.wait_group.read", Imm: []ImmKind{ImmGroups}, Class: Barrier, PTX: "cp.async.bulk.wait_group.read {i0}", Since: 90, Doc: "waits until all but the i0 latest of the thread's bulk groups have read their sources, which may then be written again", Source: srcBulk},
		OpPrefetchTensorMap - firstProxy: {Name: "prefetch.tensormap", In: one, Class: Barrier, PTX: "prefetch.tensormap [{a0}]", Since: 90, Doc: "asks for the tensor map at a to be brought near; changes nothing", Source: "PTX ISA 9.7.9 prefetch"},
		OpPolicyEvictFirst - firstProxy:  policy("evict_first"),
		OpPolicyEvictLast - firstProxy:   policy("evict_last"),
		OpPolicyEvictNormal - firstProxy: policy("evict_normal"),

		OpWgmmaFence - firstProxy: {Name: "wgmma.fence", Class: Barrier, PTX: "wgmma.fence.sync.aligned", Since: 90, Target: "sm_90a",
			Doc: "registers that the warpgroup wrote before are seen by products after; needed before the first product, and where other instructions wrote accumulators or A", Source: srcWgmma},
		OpWgmmaCommit - firstProxy: {Name: "wgmma.commit_group", Class: Barrier, PTX: "wgmma.commit_group.sync.aligned", Since: 90, Target: "sm_90a", Doc: "makes a group of the warpgroup's products since the last one", Source: srcWgmma},
		OpWgmmaWait - firstProxy: {Name: "wgmma.wait_group", Imm: []ImmKind{ImmWgmmaGroups}, Class: Barrier, Through: true, PTX: "wgmma.wait_group.sync.aligned {i0}", Since: 90, Target: "sm_90a",
			Doc: "waits until at most i0 of the latest groups of products are in flight. Takes any number of b32, accumulators and registers of A, and gives them back as they are then", Source: srcWgmma},
		OpUndef32 - firstProxy:      {Name: "undef.b32", Out: w(1), Class: Barrier, PTX: "{ }", Doc: "a register that nobody has written: accumulators of a product whose scale-d is false", Source: "DESIGN: thread code"},
		OpOwn32 - firstProxy:        {Name: "own.b32", Out: w(1), Imm: []ImmKind{ImmBits}, Class: Barrier, PTX: "mov.b32 {o0}, {i0x}", Doc: "a register of its own that holds a constant: an accumulator, which products change in place", Source: "DESIGN: thread code"},
		OpSetMaxRegInc - firstProxy: {Name: "setmaxnreg.inc", Imm: []ImmKind{ImmRegisters}, Class: Barrier, PTX: "setmaxnreg.inc.sync.aligned.u32 {i0}", Since: 90, Target: "sm_90a", Doc: "waits until the warp can have i0 registers a thread, which all warps of the warpgroup ask for", Source: "PTX ISA 9.7.19 setmaxnreg"},
		OpSetMaxRegDec - firstProxy: {Name: "setmaxnreg.dec", Imm: []ImmKind{ImmRegisters}, Class: Barrier, PTX: "setmaxnreg.dec.sync.aligned.u32 {i0}", Since: 90, Target: "sm_90a", Doc: "gives registers back: i0 a thread remain", Source: "PTX ISA 9.7.19 setmaxnreg"},
		OpElectSync - firstProxy:    {Name: "elect.sync", Out: p, Class: Barrier, PTX: "elect.sync _|{o0}, 0xffffffff", Since: 90, Doc: "true in one lane of the warp, false in the others; all lanes take part", Source: "PTX ISA 9.7.13 elect.sync"},
		OpBarArrive - firstProxy:    {Name: "bar.arrive", Imm: []ImmKind{ImmID, ImmThreads}, Class: Barrier, PTX: "bar.arrive {i0}, {i1}", Doc: "comes to barrier i0 as bar.sync.group of i1 threads does, and does not wait", Source: "PTX ISA 9.7.13 bar"},

		OpClusterArrive - firstProxy:        {Name: "barrier.cluster.arrive", Class: Barrier, PTX: "barrier.cluster.arrive.release.aligned", Since: 90, Doc: "comes to the cluster's barrier; what this thread did before is seen by those who wait", Source: srcCluster},
		OpClusterArriveRelaxed - firstProxy: {Name: "barrier.cluster.arrive.relaxed", Class: Barrier, PTX: "barrier.cluster.arrive.relaxed.aligned", Since: 90, Doc: "comes to the cluster's barrier without ordering memory", Source: srcCluster},
		OpClusterWait - firstProxy:          {Name: "barrier.cluster.wait", Class: Barrier, PTX: "barrier.cluster.wait.acquire.aligned", Since: 90, Doc: "waits until all threads of the cluster have come to its barrier", Source: srcCluster},
		OpClusterCtaRank - firstProxy:       specialRow("cluster_ctarank", "block in its cluster, x fastest"),
		OpClusterNctaRank - firstProxy:      specialRow("cluster_nctarank", "blocks of a cluster"),
		OpClusterIDX - firstProxy:           specialRow("clusterid.x", "cluster along x"),
		OpClusterIDY - firstProxy:           specialRow("clusterid.y", "cluster along y"),
		OpClusterIDZ - firstProxy:           specialRow("clusterid.z", "cluster along z"),
		OpNclusterIDX - firstProxy:          specialRow("nclusterid.x", "clusters along x"),
		OpNclusterIDY - firstProxy:          specialRow("nclusterid.y", "clusters along y"),
		OpNclusterIDZ - firstProxy:          specialRow("nclusterid.z", "clusters along z"),
		OpClusterCtaIDX - firstProxy:        specialRow("cluster_ctaid.x", "block in its cluster along x"),
		OpClusterCtaIDY - firstProxy:        specialRow("cluster_ctaid.y", "block in its cluster along y"),
		OpClusterCtaIDZ - firstProxy:        specialRow("cluster_ctaid.z", "block in its cluster along z"),
		OpClusterNctaIDX - firstProxy:       specialRow("cluster_nctaid.x", "blocks of a cluster along x"),
		OpClusterNctaIDY - firstProxy:       specialRow("cluster_nctaid.y", "blocks of a cluster along y"),
		OpClusterNctaIDZ - firstProxy:       specialRow("cluster_nctaid.z", "blocks of a cluster along z"),
		OpMapa - firstProxy:                 {Name: "mapa.shared::cluster", In: w(2), Out: w(1), Class: Special, PTX: "mapa.shared::cluster.u32 {o0}, {a0}, {a1#}", Since: 90, Doc: "the cluster address of the shared address a in block b of the cluster", Source: "PTX ISA 9.7.9 mapa"},
		OpLdClusterB32 - firstProxy:         clusterLoad("b32", 4, 1, w(1)),
		OpLdClusterB64 - firstProxy:         clusterLoad("b64", 8, 1, one),
		OpLdClusterV2B32 - firstProxy:       clusterLoad("v2.b32", 4, 2, w(2)),
		OpLdClusterV4B32 - firstProxy:       clusterLoad("v4.b32", 4, 4, w(4)),
		OpStClusterB32 - firstProxy:         clusterStore("b32", 4, 1, w(1)),
		OpStClusterB64 - firstProxy:         clusterStore("b64", 8, 1, one),
		OpStClusterV2B32 - firstProxy:       clusterStore("v2.b32", 4, 2, w(2)),
		OpStClusterV4B32 - firstProxy:       clusterStore("v4.b32", 4, 4, w(4)),
		OpStAsyncB32 - firstProxy:           asyncStore("b32", w(1)),
		OpStAsyncB64 - firstProxy:           asyncStore("b64", one),
		OpStAsyncV4B32 - firstProxy:         asyncStore("v4.b32", w(4)),
		OpAtomClusterAdd - firstProxy:       clusterAtomic("atom", "add.u32", "sum", 1),
		OpAtomClusterExch - firstProxy:      clusterAtomic("atom", "exch.b32", "exchange", 1),
		OpAtomClusterCas - firstProxy:       clusterAtomic("atom", "cas.b32", "c where b was", 2),
		OpRedClusterAdd - firstProxy:        clusterAtomic("red", "add.u32", "sum", 1),
		OpRedClusterAddF32 - firstProxy:     clusterAtomic("red", "add.f32", "f32 sum, rounded to nearest even", 1),
		OpRedClusterMinS32 - firstProxy:     clusterAtomic("red", "min.s32", "the smaller as signed numbers", 1),
		OpRedClusterMaxS32 - firstProxy:     clusterAtomic("red", "max.s32", "the larger as signed numbers", 1),
		OpRedAsyncAdd - firstProxy: {Name: "red.async.shared::cluster.add.u32", In: w(3), Imm: []ImmKind{ImmOffset, ImmOffset}, Class: Proxy, Addr: []Address{{0, 0, Shared}, {2, 1, Shared}},
			PTX: "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [{a0}+{i0}], {a1}, [{a2}+{i1}]", Since: 90, ISA: "8.1",
			Doc: "begins to add b to b32 at the cluster address a; 4 bytes are counted at the barrier at the cluster address c, of the same block", Source: "PTX ISA 9.7.13 red.async"},

		OpClcTryCancel - firstProxy:          clcCancel("", "begins to take back a cluster that has not been launched; the answer comes as 16 bytes at the shared address a, counted at the barrier b"),
		OpClcTryCancelMulticast - firstProxy: clcCancel(".multicast::cluster::all", "the same, with the answer to every block of the cluster at the same offset"),
		OpClcIsCanceled - firstProxy: {Name: "clusterlaunchcontrol.query_cancel.is_canceled", In: []Type{B64, B64}, Out: p, Class: Barrier, Since: 100, ISA: "8.6",
			PTX: "{ .reg .b128 answer; mov.b128 answer, {{a0}, {a1}}; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 {o0}, answer; }", Doc: "whether the answer a, b says that a cluster was taken back", Source: srcClc},
		OpClcFirstX - firstProxy: clcFirst("x"),
		OpClcFirstY - firstProxy: clcFirst("y"),
		OpClcFirstZ - firstProxy: clcFirst("z"),
	}
}

func bulkLoad(multicast, hint string) Row {
	r := Row{Name: "cp.async.bulk.shared::cluster.global" + multicast + hint, In: []Type{B32, B64, B32, B32}, Imm: []ImmKind{ImmOffset, ImmOffset, ImmOffset}, Class: Proxy, Addr: []Address{{0, 0, Shared}, {1, 1, Global}, {3, 2, Shared}}, Since: 90, Source: srcBulk}
	r.PTX = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" + multicast + hint + " [{a0}+{i0}], [{a1}+{i1}], {a2#}, [{a3}+{i2}]"
	r.Doc = "begins to copy c bytes from the global address b to the cluster address a; they are counted at the barrier at the cluster address d. Addresses and c are multiples of 16"
	r.multicast(multicast, hint)
	return r
}

// multicast adds the inputs of a copy to several blocks and of a cache policy, last
// in both the inputs and the text.
func (r *Row) multicast(multicast, hint string) {
	if multicast != "" {
		r.PTX += fmt.Sprintf(", {a%d}", len(r.In))
		r.In = append(r.In, B16)
		r.Doc += "; to the same offset of every block whose bit is set in the b16, barriers likewise"
	}
	if hint != "" {
		r.PTX += fmt.Sprintf(", {a%d}", len(r.In))
		r.In = append(r.In, B64)
		r.Doc += "; the last input is a cache policy"
	}
}

func bulkStore(hint string) Row {
	r := Row{Name: "cp.async.bulk.global.shared::cta" + hint, In: []Type{B64, B32, B32}, Imm: []ImmKind{ImmOffset, ImmOffset}, Class: Proxy, Addr: []Address{{0, 0, Global}, {1, 1, Shared}}, Since: 90, Source: srcBulk}
	r.PTX = "cp.async.bulk.global.shared::cta.bulk_group" + hint + " [{a0}+{i0}], [{a1}+{i1}], {a2#}"
	r.Doc = "begins to copy c bytes from the shared address b to the global address a, in the thread's next bulk group. Addresses and c are multiples of 16"
	r.multicast("", hint)
	return r
}

func policy(word string) Row {
	return Row{Name: "createpolicy." + word, Out: []Type{B64}, Class: Special, PTX: "createpolicy.fractional.L2::" + word + ".b64 {o0}, 1.0", Doc: "a cache policy for copies: " + strings.ReplaceAll(word, "_", " ") + " in the L2 cache", Source: "PTX ISA 9.7.9 createpolicy"}
}

func clusterLoad(kind string, unit, count int, out []Type) Row {
	list := "{o0}"
	if count > 1 {
		list = "{outs}"
	}
	return Row{Name: "ld.shared::cluster." + kind, In: b32s[:1], Out: out, Imm: []ImmKind{ImmOffset}, Class: Load, Space: Shared, Unit: unit, Count: count, Since: 90,
		PTX: fmt.Sprintf("ld.shared::cluster.%s %s, {mem}", kind, list), Doc: fmt.Sprintf("the %d bytes at the cluster address", unit*count), Source: "PTX ISA 9.7.9 ld, st"}
}

func clusterStore(kind string, unit, count int, in []Type) Row {
	list := map[int]string{1: "{a1}", 2: "{{a1}, {a2}}", 4: "{{a1}, {a2}, {a3}, {a4}}"}[count]
	return Row{Name: "st.shared::cluster." + kind, In: append(b32s[:1:1], in...), Imm: []ImmKind{ImmOffset}, Class: Store, Space: Shared, Unit: unit, Count: count, Since: 90,
		PTX: fmt.Sprintf("st.shared::cluster.%s {mem}, %s", kind, list), Doc: fmt.Sprintf("%d bytes to the cluster address", unit*count), Source: "PTX ISA 9.7.9 ld, st"}
}

func asyncStore(kind string, in []Type) Row {
	list, n := "{a2}", in[0].Bits()/8*len(in)
	if len(in) > 1 {
		list = "{{a2}, {a3}, {a4}, {a5}}"
	}
	return Row{Name: "st.async.shared::cluster." + kind, In: append(b32s[:2:2], in...), Imm: []ImmKind{ImmOffset, ImmOffset}, Class: Proxy, Addr: []Address{{0, 0, Shared}, {1, 1, Shared}}, Since: 90, ISA: "8.1",
		PTX: fmt.Sprintf("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.%s [{a0}+{i0}], %s, [{a1}+{i1}]", kind, list),
		Doc: fmt.Sprintf("begins to store %d bytes at the cluster address a; they are counted at the barrier at the cluster address b, of the same block", n), Source: "PTX ISA 9.7.9 st.async"}
}

func clusterAtomic(word, op, doc string, inputs int) Row {
	r := Row{Name: word + ".shared::cluster." + op, In: b32s[:1+inputs], Imm: []ImmKind{ImmOffset}, Class: Atomic, Space: Shared, Unit: 4, Count: 1, Since: 90, Doc: "b32 at the cluster address becomes: " + doc, Source: "PTX ISA 9.7.13 atom, red"}
	list := "{mem}, {a1}"
	if inputs == 2 {
		list += ", {a2}"
	}
	if word == "atom" {
		r.Out = b32s[:1]
		list = "{o0}, " + list
	}
	r.PTX = fmt.Sprintf("%s.relaxed.cluster.shared::cluster.%s %s", word, op, list)
	return r
}

func clcCancel(multicast, doc string) Row {
	return Row{Name: "clusterlaunchcontrol.try_cancel" + multicast, In: b32s[:2], Imm: []ImmKind{ImmOffset, ImmOffset}, Class: Proxy, Addr: []Address{{0, 0, Shared}, {1, 1, Shared}}, Since: 100, ISA: "8.6",
		PTX: "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes" + multicast + ".b128 [{a0}+{i0}], [{a1}+{i1}]", Doc: doc, Source: srcClc}
}

func clcFirst(dim string) Row {
	return Row{Name: "clusterlaunchcontrol.query_cancel.first_ctaid." + dim, In: []Type{B64, B64}, Out: b32s[:1], Class: Barrier, Since: 100, ISA: "8.6",
		PTX: "{ .reg .b128 answer; mov.b128 answer, {{a0}, {a1}}; clusterlaunchcontrol.query_cancel.get_first_ctaid::" + dim + ".b32.b128 {o0}, answer; }", Doc: "first block along " + dim + " of the cluster that the answer a, b gives", Source: srcClc}
}
