package code

import (
	"fmt"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// This file holds the rows of sm_90 and later that work with other threads' or the
// machine's own time: barriers in shared memory that count arrivals and bytes,
// copies of the tensor memory accelerator (TMA), products of a warpgroup, clusters.
// [Rows] does not list them, [ProxyRows] does.
//
// A shared address is 32 bits: an offset in the block's own window, or what mapa
// makes of one for another block of the cluster; what is documented as a cluster
// address may be either.
//
// What wgmma reads and writes is in use from the instruction to the wait that ends
// its group. Accumulators are tied: one register in and out, which the instruction
// changes in place. A value that a product gave may be read behind a
// wgmma.wait_group that takes it as an input and gives it back.

// firstProxy is the number of the first row here.
const firstProxy Op = 1 << 14

// The rows with names in Go; those with shapes are found by functions.
const (
	OpMbarInit Op = firstProxy + iota
	OpMbarInval
	OpMbarArrive
	OpMbarArriveCount
	OpMbarArriveState
	OpMbarArriveNoComplete
	OpMbarArriveDrop
	OpMbarArriveExpectTx
	OpMbarArriveCluster
	OpMbarArriveCountCluster
	OpMbarArriveExpectTxCluster
	OpMbarArriveRemote
	OpMbarExpectTx
	OpMbarExpectTxCluster
	OpMbarCompleteTx
	OpMbarCompleteTxCluster
	OpMbarTestWait
	OpMbarTestWaitParity
	OpMbarTryWait
	OpMbarTryWaitParity
	OpMbarWait
	OpMbarWaitParity
	OpMbarWaitParityCluster
	OpMbarPending
	OpCpAsyncMbarArrive
	OpCpAsyncMbarArriveNoInc

	OpFenceProxyAsync
	OpFenceProxyAsyncShared
	OpFenceProxyAsyncCluster
	OpFenceProxyAsyncGlobal
	OpFenceProxyTensorMapRelease
	OpFenceProxyTensorMapAcquire
	OpFenceMbarInit
	OpFenceCluster

	OpBulkLoad
	OpBulkLoadHint
	OpBulkLoadMulticast
	OpBulkLoadMulticastHint
	OpBulkToCluster
	OpBulkStore
	OpBulkStoreHint
	OpBulkPrefetch
	OpBulkCommit
	OpBulkWait
	OpBulkWaitRead
	OpPrefetchTensorMap
	OpPolicyEvictFirst
	OpPolicyEvictLast
	OpPolicyEvictNormal

	OpWgmmaFence
	OpWgmmaCommit
	OpWgmmaWait
	OpUndef32
	OpOwn32
	OpSetMaxRegInc
	OpSetMaxRegDec
	OpElectSync
	OpBarArrive

	OpClusterArrive
	OpClusterArriveRelaxed
	OpClusterWait
	OpClusterCtaRank
	OpClusterNctaRank
	OpClusterIDX
	OpClusterIDY
	OpClusterIDZ
	OpNclusterIDX
	OpNclusterIDY
	OpNclusterIDZ
	OpClusterCtaIDX
	OpClusterCtaIDY
	OpClusterCtaIDZ
	OpClusterNctaIDX
	OpClusterNctaIDY
	OpClusterNctaIDZ
	OpMapa
	OpLdClusterB32
	OpLdClusterB64
	OpLdClusterV2B32
	OpLdClusterV4B32
	OpStClusterB32
	OpStClusterB64
	OpStClusterV2B32
	OpStClusterV4B32
	OpStAsyncB32
	OpStAsyncB64
	OpStAsyncV4B32
	OpAtomClusterAdd
	OpAtomClusterExch
	OpAtomClusterCas
	OpRedClusterAdd
	OpRedClusterAddF32
	OpRedClusterMinS32
	OpRedClusterMaxS32
	OpRedAsyncAdd

	OpClcTryCancel
	OpClcTryCancelMulticast
	OpClcIsCanceled
	OpClcFirstX
	OpClcFirstY
	OpClcFirstZ

	endProxy
)

// Where the facts are from.
const (
	srcMbar    = "PTX ISA 9.7.13 mbarrier"
	srcBulk    = "PTX ISA 9.7.9 cp.async.bulk"
	srcTensor  = "PTX ISA 9.7.9 cp.async.bulk.tensor"
	srcFence   = "PTX ISA 9.7.13 membar, fence"
	srcWgmma   = "PTX ISA 9.7.15 wgmma"
	srcCluster = "PTX ISA 9.7.13 barrier.cluster; 10 special registers"
	srcClc     = "PTX ISA 9.7.13 clusterlaunchcontrol; not seen on hardware"
)

// firstShared is the address of a row that has one, in shared memory.
var firstShared = []Address{{0, 0, Shared}}

// b32s is as many b32 as any row has.
var b32s = func() []Type {
	all := make([]Type, 256)
	for i := range all {
		all[i] = B32
	}
	return all
}()

// proxyRows is the table: rows with names in Go, then tensor copies, then products.
var proxyRows = func() []Row {
	named := proxyNamed()
	rows := named[:]
	for _, word := range tensorWords {
		for rank := 1; rank <= 5; rank++ {
			rows = append(rows, tensorRow(word, rank))
		}
	}
	for _, f := range arch.WarpgroupForms() {
		for _, regs := range []bool{false, true} {
			rows = append(rows, wgmmaRow(f, regs))
		}
	}
	return append(rows, tcgen05Rows()...)
}()

var proxyNames = func() map[string]Op {
	m := make(map[string]Op, len(proxyRows))
	for i := range proxyRows {
		m[proxyRows[i].Name] = firstProxy + Op(i)
	}
	return m
}()

// ProxyRows is every op of this file that has a row, in table order.
func ProxyRows() []Op {
	ops := make([]Op, len(proxyRows))
	for i := range ops {
		ops[i] = firstProxy + Op(i)
	}
	return ops
}

// tensorWords are the kinds of tensor copies; each has a row for ranks 1 to 5.
var tensorWords = []string{
	"load", "load.hint", "load.multicast", "load.multicast.hint", "store", "store.hint", "prefetch",
	"reduce.add", "reduce.min", "reduce.max", "reduce.inc", "reduce.dec", "reduce.and", "reduce.or", "reduce.xor",
	"load.pair", "load.pair.hint",
}

// tensorRow is the row of a tensor copy. Coordinates are signed, inner dimension
// first.
func tensorRow(word string, rank int) Row {
	r := Row{Name: fmt.Sprintf("tensor.%dd.%s", rank, word), Class: Proxy, Since: 90, Source: srcTensor}
	coords := func(first int) string {
		var s []string
		for i := range rank {
			s = append(s, fmt.Sprintf("{a%d#}", first+i))
		}
		return "{" + strings.Join(s, ", ") + "}"
	}
	hint, multicast := "", ""
	if strings.HasSuffix(word, ".hint") {
		hint = ".L2::cache_hint"
	}
	if strings.Contains(word, ".multicast") {
		multicast = ".multicast::cluster"
	}
	if strings.Contains(word, ".pair") {
		multicast, r.Target, r.Since, r.ISA, r.Source = ".cta_group::2", "sm_100a", 100, "8.6", srcTensor+"; not seen on hardware"
	}
	kind, op, _ := strings.Cut(word, ".")
	switch kind {
	case "load":
		r.In = append([]Type{B32, B64, B32}, b32s[:rank]...)
		r.Imm = []ImmKind{ImmOffset, ImmOffset}
		r.Addr = []Address{{0, 0, Shared}, {2, 1, Shared}}
		r.PTX = fmt.Sprintf("cp.async.bulk.tensor.%dd.shared::cluster.global.tile.mbarrier::complete_tx::bytes%s%s [{a0}+{i0}], [{a1}, %s], [{a2}+{i1}]", rank, multicast, hint, coords(3))
		r.Doc = "begins to copy the box of tensor map b whose first element has the coordinates d… to the cluster address a + i0; all bytes of the box are counted at the barrier at the cluster address c + i1, those outside the tensor too, which become 0 or NaN"
	case "store", "reduce":
		r.In = append([]Type{B64, B32}, b32s[:rank]...)
		r.Imm = []ImmKind{ImmOffset}
		r.Addr = []Address{{1, 0, Shared}}
		instr, how := "cp.async.bulk.tensor", "begins to copy"
		if kind == "reduce" {
			instr, op, how = "cp.reduce.async.bulk.tensor", "."+op, "begins to "+op
		} else {
			op = ""
		}
		r.PTX = fmt.Sprintf("%s.%dd.global.shared::cta%s.tile.bulk_group%s [{a0}, %s], [{a1}+{i0}]", instr, rank, op, hint, coords(2))
		r.Doc = how + " the box at the shared address b + i0 to the place in tensor map a whose first element has the coordinates c…, in the thread's next bulk group; what lies outside the tensor is left out"
	case "prefetch":
		r.In = append([]Type{B64}, b32s[:rank]...)
		r.PTX = fmt.Sprintf("cp.async.bulk.prefetch.tensor.%dd.L2.global.tile [{a0}, %s]", rank, coords(1))
		r.Doc = "asks for the box of tensor map a at the coordinates b… to be brought to the L2 cache"
	}
	if r.Target != "" {
		multicast = ""
		r.Doc += "; the barrier may lie in the other block of the pair whose ranks differ in the last bit"
	}
	r.multicast(multicast, hint)
	return r
}

// TensorCopy is the op of a tensor copy of 1 to 5 dimensions; word is one of "load",
// "load.hint", "load.multicast", "load.multicast.hint", "load.pair", "load.pair.hint",
// "store", "store.hint", "prefetch" and "reduce." with add, min, max, inc, dec, and, or, xor.
//
//	load      In [shared address, map, barrier, coordinates…, multicast mask b16, policy b64]  Imm [offset of address, of barrier]
//	store     In [map, shared address, coordinates…, policy b64]  Imm [offset of address]
//	reduce    In [map, shared address, coordinates…]  Imm [offset of address]
//	prefetch  In [map, coordinates…]
func TensorCopy(rank int, word string) (Op, error) {
	if op, ok := proxyNames[fmt.Sprintf("tensor.%dd.%s", rank, word)]; ok {
		return op, nil
	}
	return OpInvalid, fmt.Errorf("code: no tensor copy %q of %d dimensions", word, rank)
}

// wgmmaRow is the row of a product of a warpgroup.
func wgmmaRow(f arch.WarpgroupForm, regs bool) Row {
	where, first := "ss", 3
	if regs {
		where, first = "rs", 6
	}
	n := f.Accumulators()
	r := Row{Name: f.Name + "." + where, Out: b32s[:n], Class: Proxy, InPlace: true, Ties: wgmmaTies[first][:n], Since: 90, Target: "sm_90a", Source: srcWgmma}
	a := "{a0}, {a1}, {a2}"
	if regs {
		r.In = append(r.In, b32s[:4]...)
		a = "{{a0}, {a1}, {a2}, {a3}}, {a4}, {a5}"
	} else {
		r.In = append(r.In, B64)
	}
	r.In = append(append(r.In, B64, Pred), b32s[:n]...)
	if !f.A.IsFloat() && f.A != f.B {
		r.ISA = "8.4"
	}
	imm := func(k ImmKind, count int) {
		for range count {
			a += fmt.Sprintf(", {i%d}", len(r.Imm))
			r.Imm = append(r.Imm, k)
		}
	}
	if f.A.IsFloat() {
		imm(ImmSign, 2)
	}
	if f.A.Bits() == 16 {
		imm(ImmFlag, map[bool]int{false: 2, true: 1}[regs])
	}
	r.PTX = f.PTX + " {outs}, " + a
	from := "A and B at shared descriptors"
	if regs {
		from = "A in registers, B at a shared descriptor"
	}
	r.Doc = fmt.Sprintf("begins D[64, %d] = A[64, %d] · B[%d, %d] + D, or without D where scale-d is false, over the four warps of a warpgroup; inputs %s and %s, sums %s, %s", f.N, f.K, f.K, f.N, f.A, f.B, f.D, from)
	return r
}

// wgmmaTies ties accumulators that begin at the input of the index.
var wgmmaTies = func() map[int][]Tie {
	m := map[int][]Tie{}
	for _, first := range []int{3, 6} {
		for k := range 128 {
			m[first] = append(m[first], Tie{k, first + k})
		}
	}
	return m
}()

// WGMMA is the op of a product of a warpgroup of D[64, n], with A in registers or at
// a descriptor; sat is saturation of integer sums.
//
//	ss  In [descriptor of A, descriptor of B, scale-d, accumulators…]  Out accumulators
//	rs  In [4 words of A, descriptor of B, scale-d, accumulators…]     Out accumulators
//	Imm [scale-a, scale-b (1 or -1)] for floats, then for f16 and bf16 [transposed A (ss only), transposed B (0 or 1)]
//
// transposed is an operand that is dense along M or N instead of K.
func WGMMA(d, a, b dtype.Type, n int, registers, sat bool) (Op, error) {
	for _, f := range arch.WarpgroupForms() {
		if f.D != d || f.A != a || f.B != b || f.N != n || f.Saturate != sat {
			continue
		}
		where := ".ss"
		if registers {
			where = ".rs"
		}
		return proxyNames[f.Name+where], nil
	}
	return OpInvalid, fmt.Errorf("code: no wgmma of D[64, %d] %s from %s and %s", n, d, a, b)
}

// Proxied reports whether the op is one of [ProxyRows].
func (op Op) Proxied() bool { return op >= firstProxy }
