package sim

import (
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/code"
)

// proxy executes an instruction of [code.ProxyRows] with effects, and reports whether
// the warp stays at it.
func (w *warp) proxy(i *inst) (waits bool) {
	w.b.stats.LaneOps += count(w.mask)
	switch i.op {
	case code.OpMbarPending:
		for l := range lanes {
			if w.mask>>l&1 != 0 {
				w.regs[int(i.out[0])+l] = w.regs[int(i.in[0])+l] & mostArrivals
			}
		}
	case code.OpClcIsCanceled, code.OpClcFirstX, code.OpClcFirstY, code.OpClcFirstZ:
		for l := range lanes {
			if w.mask>>l&1 == 0 {
				continue
			}
			lo, hi := w.regs[int(i.in[0])+l], w.regs[int(i.in[1])+l]
			w.regs[int(i.out[0])+l] = [...]uint64{lo & 1, lo >> 32, hi & 0xffffffff, hi >> 32}[i.op-code.OpClcIsCanceled]
		}
	case code.OpFenceProxyAsync, code.OpFenceProxyAsyncShared, code.OpFenceProxyAsyncCluster:
		w.proxied.join(w.clock)
		w.fenceBarriers()
	case code.OpFenceMbarInit:
		w.fenceBarriers()
	case code.OpFenceProxyAsyncGlobal, code.OpFenceProxyTensorMapRelease, code.OpFenceProxyTensorMapAcquire, code.OpFenceCluster, code.OpPrefetchTensorMap:
	case code.OpBulkCommit, code.OpBulkWait, code.OpBulkWaitRead:
		return w.bulkWait(i)
	case code.OpWgmmaFence, code.OpWgmmaCommit, code.OpWgmmaWait:
		w.group(i)
	case code.OpSetMaxRegInc, code.OpSetMaxRegDec:
		w.partial()
	case code.OpElectSync:
		if !w.partial() {
			for l := range lanes {
				w.regs[int(i.out[0])+l] = 0
			}
			w.regs[i.out[0]] = 1
		}
	case code.OpBarArrive:
		w.arriveGroup(i)
	case code.OpClusterArrive, code.OpClusterArriveRelaxed, code.OpClusterWait:
		return w.clusterBarrier(i)
	default:
		switch {
		case strings.HasPrefix(i.row.Name, "tcgen05."):
			return w.tensorCore(i)
		case i.group != nil:
			w.group(i)
		case i.class == code.Proxy:
			w.proxyCopy(i)
		case len(i.row.Addr) == 1:
			return w.barrierOp(i)
		default:
			w.fail(0, errProduct, "", "%s is not simulated", i.op)
		}
	}
	return false
}

// arriveGroup executes bar.arrive.
func (w *warp) arriveGroup(i *inst) {
	if w.mask != w.all {
		w.partial()
		return
	}
	b := w.b
	key := [2]int64{i.imm[0], i.imm[1]}
	x := b.extra[key]
	if x == nil {
		x = &arrivals{}
		if b.extra == nil {
			b.extra = map[[2]int64]*arrivals{}
		}
		b.extra[key] = x
	}
	// Someone waits at each phase: otherwise two phases would run into one.
	if x.threads += lanes; x.threads >= i.imm[1] {
		w.fail(0, errDeadlock, "at least one warp waits at each phase of a barrier", "%d threads have come to barrier %d without waiting, which is for %d", x.threads, i.imm[0], i.imm[1])
		return
	}
	w.publish(&x.clock, &x.proxied)
	b.stats.Barriers++
}

// clusterBarrier executes the barrier of the cluster.
func (w *warp) clusterBarrier(i *inst) (waits bool) {
	c := w.b.cl
	if w.mask != w.all {
		w.partial()
		return false
	}
	if i.op != code.OpClusterWait {
		if w.came != w.passed {
			w.fail(0, errDeadlock, "each thread waits between two arrivals", "comes to the cluster's barrier twice without waiting")
			return false
		}
		w.came++
		w.b.stats.Barriers++
		if i.op == code.OpClusterArrive {
			w.publish(&c.clock, &c.proxied)
		} else {
			// That the block has begun is known all the same.
			c.clock.set(w.index, max(c.clock.at(w.index), 0))
		}
		return false
	}
	if w.came == w.passed {
		w.fail(0, errDeadlock, "arrive first", "waits at the cluster's barrier without having come")
		return false
	}
	for _, b := range c.blocks {
		for _, o := range b.warps {
			if !o.done && o.came <= w.passed {
				w.waits = true
				return true
			}
		}
	}
	w.passed++
	w.epoch++
	w.clock.join(c.clock)
	w.proxied.join(c.proxied)
	for _, b := range c.blocks {
		for _, o := range b.warps {
			w.clock.set(o.index, max(w.clock.at(o.index), begun))
		}
	}
	return false
}

// begun is known of a warp of which nothing more is known than that it has begun.
const begun = 1

// clusterAccess is [warp.access] to shared memory of the cluster.
func (w *warp) clusterAccess(i *inst, lane int, addr, size uint64) []byte {
	if addr>>windowShift != 0 && !i.op.Proxied() {
		w.fail(lane, errBounds, "mapped addresses are for the instructions of the cluster", "%d bytes at the cluster address %#x", size, addr)
		return nil
	}
	b, at, ok := w.resolve(lane, addr)
	if !ok || !w.inside(lane, b, at, size) || !w.sharedTouched(i, lane, b, at, size) {
		return nil
	}
	return b.shared.data[at : at+size]
}

// proxySpecial executes special rows of the cluster.
func (w *warp) proxySpecial(i *inst) {
	b := w.b
	var size, at, clusters, number [3]uint64
	for k, d := range b.m.f.Launch.Cluster {
		size[k] = uint64(max(d, 1))
		at[k], number[k] = b.ctaid[k]%size[k], b.ctaid[k]/size[k]
		clusters[k] = uint64(b.m.launch.Grid[k]) / size[k]
	}
	var v uint64
	switch i.op {
	case code.OpClusterCtaRank:
		v = uint64(b.rank)
	case code.OpClusterNctaRank:
		v = uint64(len(b.cl.blocks))
	case code.OpClusterIDX, code.OpClusterIDY, code.OpClusterIDZ:
		v = number[i.op-code.OpClusterIDX]
	case code.OpNclusterIDX, code.OpNclusterIDY, code.OpNclusterIDZ:
		v = clusters[i.op-code.OpNclusterIDX]
	case code.OpClusterCtaIDX, code.OpClusterCtaIDY, code.OpClusterCtaIDZ:
		v = at[i.op-code.OpClusterCtaIDX]
	case code.OpClusterNctaIDX, code.OpClusterNctaIDY, code.OpClusterNctaIDZ:
		v = size[i.op-code.OpClusterNctaIDX]
	case code.OpPolicyEvictFirst, code.OpPolicyEvictLast, code.OpPolicyEvictNormal:
		v = uint64(i.op)
	case code.OpMapa:
		for l := range lanes {
			if w.mask>>l&1 == 0 {
				continue
			}
			rank := uint64(uint32(w.regs[int(i.in[1])+l]))
			if rank >= uint64(len(b.cl.blocks)) {
				w.fail(l, errBounds, "", "block %d of a cluster of %d", rank, len(b.cl.blocks))
				return
			}
			w.regs[int(i.out[0])+l] = (rank+1)<<windowShift | w.regs[int(i.in[0])+l]&(1<<windowShift-1)
		}
		return
	default:
		panic("sim: no meaning for " + i.op.String())
	}
	w.fill(i.out[0], v)
}
