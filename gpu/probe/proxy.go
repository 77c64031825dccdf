package probe

import (
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/code"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// proxyCases are the cases of a row of the asynchronous proxy or of clusters; rows
// that later machines have have none.
func proxyCases(op code.Op) []Case {
	row := op.Row()
	switch {
	case row.Since > 90:
		return nil
	case row.InPlace:
		return productCases(op)
	case strings.HasPrefix(row.Name, "tensor."):
		return tensorCases(op)
	}
	switch op {
	case code.OpOwn32:
		return constCases(op)
	case code.OpCpAsyncMbarArrive, code.OpCpAsyncMbarArriveNoInc:
		return []Case{handOverCase(op, op)}
	case code.OpMbarArriveCluster, code.OpMbarArriveRemote, code.OpMbarArriveCountCluster, code.OpMbarArriveExpectTxCluster, code.OpMbarExpectTxCluster, code.OpMbarCompleteTxCluster,
		code.OpFenceProxyAsyncCluster, code.OpFenceProxyAsyncGlobal, code.OpBulkLoad, code.OpBulkLoadHint, code.OpBulkLoadMulticast, code.OpBulkLoadMulticastHint, code.OpBulkToCluster,
		code.OpBulkStore, code.OpBulkStoreHint, code.OpBulkPrefetch, code.OpBulkCommit, code.OpBulkWait, code.OpBulkWaitRead,
		code.OpPolicyEvictFirst, code.OpPolicyEvictLast, code.OpPolicyEvictNormal, code.OpStAsyncB32, code.OpStAsyncB64, code.OpStAsyncV4B32, code.OpRedAsyncAdd:
		return []Case{remoteCase(op)}
	case code.OpMbarArrive, code.OpMbarWaitParity:
		return []Case{protocolCase(op), handOverCase(op, 0)}
	case code.OpFenceMbarInit, code.OpFenceCluster:
		return []Case{protocolCase(op)}
	case code.OpElectSync, code.OpBarArrive, code.OpSetMaxRegInc, code.OpSetMaxRegDec:
		return []Case{groupsCase(op)}
	case code.OpPrefetchTensorMap, code.OpFenceProxyAsync, code.OpFenceProxyAsyncShared:
		other, err := code.TensorCopy(2, map[bool]string{true: "store", false: "load"}[op == code.OpFenceProxyAsyncShared])
		if err != nil {
			panic("probe: " + err.Error())
		}
		return tensorCases(other)
	case code.OpWgmmaFence, code.OpWgmmaCommit, code.OpWgmmaWait:
		other, err := code.WGMMA(dtype.F32, dtype.F16, dtype.F16, 16, false, false)
		if err != nil {
			panic("probe: " + err.Error())
		}
		return productCases(other)
	}
	switch {
	case strings.HasPrefix(row.Name, "mbarrier."):
		return []Case{protocolCase(op)}
	case op >= code.OpClusterCtaRank && op <= code.OpClusterNctaIDZ:
		return []Case{placesCase(op)}
	case op >= code.OpClusterArrive && op <= code.OpRedClusterMaxS32:
		return []Case{windowCase(op)}
	}
	return nil // undef.b32, whose value is open, and the fences of tensor maps in global memory
}
