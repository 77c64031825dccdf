package interp

import (
	"fmt"

	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// meaning runs one instruction whose rules hold.
type meaning func(m *Machine, in *ir.Instr) error

// meanings is the interpreter's column of the instruction table, family by
// family in files of the families' names.
var meanings = map[string]meaning{
	"BlockIndices":     blockIndices,
	"ViewGlobal":       viewGlobal,
	"LoadGlobal":       loadGlobal,
	"LoadScalar":       loadScalar,
	"StoreGlobal":      storeGlobal,
	"AllocateRegister": allocateRegister,
	"View":             view,
	"Cast":             cast,
	"CastDeferred":     castDeferred,
	"Dot":              dot,

	"Reduce":  reduce,
	"ArgMax":  argReduce,
	"ArgMin":  argReduce,
	"Scan":    scan,
	"Random":  random,
	"Indices": indices,

	"AllocateShared": allocateShared,
	"FreeShared":     freeShared,
	"SliceShared":    sliceShared,
	"PermuteShared":  viewShared,
	"ReshapeShared":  viewShared,
	"LoadShared":     loadShared,
	"StoreShared":    storeShared,

	"CopyAsync":            copyAsync,
	"CopyAsyncCommitGroup": copyAsyncCommitGroup,
	"CopyAsyncWaitGroup":   copyAsyncWaitGroup,
	"CopyAsyncWaitAll":     copyAsyncWaitAll,

	"Assign":           move,
	"ConvertLayout":    move,
	"Transpose":        move,
	"Reshape":          move,
	"Squeeze":          move,
	"Unsqueeze":        move,
	"Repeat":           move,
	"RepeatInterleave": move,
	"SliceRegister":    move,
	"SliceAssign":      move,
	"ShuffleUp":        move,
	"ShuffleDown":      move,

	"StoreSharedScatter":  storeSharedScatter,
	"AtomicShared":        atomicShared,
	"AtomicScatterShared": atomicShared,
	"AllocateGlobal":      allocateGlobal,
	"SliceGlobal":         sliceGlobal,
	"PrefetchGlobal":      prefetch,
	"LoadGlobalGather":    loadGlobalGather,
	"StoreGlobalScatter":  storeGlobalScatter,
	"AtomicGlobal":        atomicGlobal,
	"AtomicScatterGlobal": atomicScatterGlobal,
	"PutGlobal":           putGlobal,
	"TakeGlobal":          takeGlobal,
	"LockSemaphore":       lockSemaphore,
	"ReleaseSemaphore":    releaseSemaphore,
	"Print":               print,
	"PrintTensor":         print,

	"AllocateBarrier":       allocateBarrier,
	"ArriveBarrier":         arriveBarrier,
	"ArriveExpectTxBarrier": arriveExpectTxBarrier,
	"WaitBarrier":           waitBarrier,
	"FenceProxyAsync":       fenceProxyAsync,

	"AllocatePipeline": allocateBarrier,
	"AcquirePipeline":  acquirePipeline,
	"CommitPipeline":   commitPipeline,
	"WaitPipeline":     waitBarrier,
	"ReleasePipeline":  releasePipeline,

	"CopyAsyncTensorGlobalToShared": copyTensorIn,
	"CopyAsyncTensorSharedToGlobal": copyTensorOut,
	"CopyAsyncTensorCommitGroup":    copyTensorCommit,
	"CopyAsyncTensorWaitGroup":      copyTensorWait,

	"CopyAsyncBulkGlobalToShared":        copyBulkIn,
	"CopyAsyncBulkSharedToGlobal":        copyBulkOut,
	"CopyAsyncBulkSharedToClusterShared": copyBulkAcross,
	"PrefetchTensor":                     prefetch,
	"ClusterLaunchControlTryCancel":      tryCancel,
	"ClusterLaunchControlQueryResponse":  queryResponse,

	"Tcgen05Alloc":                 tensorAlloc,
	"Tcgen05Dealloc":               tensorDealloc,
	"Tcgen05RelinquishAllocPermit": tensorRelinquish,
	"Tcgen05Slice":                 tensorSlice,
	"Tcgen05View":                  tensorView,
	"Tcgen05Mma":                   tensorMma,
	"Tcgen05MmaScaled":             tensorMma,
	"Tcgen05MmaSparse":             tensorMma,
	"Tcgen05Copy":                  tensorCopy,
	"Tcgen05Commit":                tensorCommit,
	"Tcgen05Load":                  tensorLoad,
	"Tcgen05Store":                 tensorStore,
	"Tcgen05Wait":                  tensorWait,

	"WgmmaDot":         wgmmaDot,
	"WgmmaFence":       wgmmaFence,
	"WgmmaCommitGroup": wgmmaCommit,
	"WgmmaWaitGroup":   wgmmaWait,
	"SetMaxRegisters":  nothing,

	"ClusterRank":        clusterRank,
	"ClusterSynchronize": clusterSynchronize,

	"Synchronize":          synchronize,
	"SynchronizeReduce":    synchronizeReduce,
	"AtomicScalar":         atomicScalar,
	"GridDependencyWait":   nothing,
	"GridDependencyLaunch": nothing,
}

// Has reports whether the interpreter has a meaning for the op.
func Has(op string) bool {
	row := ir.OpByName(op)
	return row != nil && meaningOf(row) != nil
}

// meaningOf is the meaning of an op; those of the arithmetic family share one.
func meaningOf(op *ir.Op) meaning {
	if op.Family == "arithmetic" {
		return arithmetic
	}
	return meanings[op.Name]
}

func blockIndices(m *Machine, in *ir.Instr) error {
	at := m.BlockIndex()
	for i, v := range in.Out {
		m.set(v, value{set: true, n: int64(at[i])})
	}
	return nil
}

func viewGlobal(m *Machine, in *ir.Instr) error {
	arr := func(v *ir.Var) *array.Array { return m.args[m.get(v).arg].Array }
	dims, strides, err := viewDims(in, m.lookup, arr)
	if err != nil {
		return err
	}
	m.set(in.Out[0], value{set: true, global: &global{arr: arr(in.In[0].Var()), dims: dims, strides: strides, name: in.Out[0].Name}})
	return nil
}

// region is the part of a global tensor that a tile lies over.
type region struct {
	g      *global
	offset []int64
	dims   []int // tensor dimension of each tile dimension
	strip  []int64
}

func (m *Machine) region(in *ir.Instr, tileRank int) (*region, error) {
	r := &region{g: m.get(in.In[0].Var()).global}
	for _, e := range in.Attr("offset").Exprs {
		n, err := m.int(e)
		if err != nil {
			return nil, err
		}
		r.offset = append(r.offset, n)
	}
	r.dims = in.Dims(len(r.g.dims), tileRank)
	r.strip = make([]int64, len(r.g.dims))
	return r, nil
}

// element is the flat index of a tile element in the tensor; ok is false outside.
func (r *region) element(index []int) (flat int, ok bool) {
	copy(r.strip, r.offset)
	for i, d := range r.dims {
		r.strip[d] += int64(index[i])
	}
	for d, n := range r.g.dims {
		if r.strip[d] < 0 || r.strip[d] >= int64(n) {
			return 0, false
		}
		flat = flat*n + int(r.strip[d])
	}
	if r.g.strides != nil {
		flat = r.g.base
		for d, n := range r.g.strides {
			flat += int(r.strip[d]) * n
		}
	}
	return flat, true
}

// each calls f for every index of a shape in row-major order; index is reused.
func each(dims []int, f func(k int, index []int) error) error {
	size := 1
	for _, n := range dims {
		size *= n
	}
	index := make([]int, len(dims))
	for k := range size {
		if err := f(k, index); err != nil {
			return err
		}
		for d := len(dims) - 1; d >= 0; d-- {
			if index[d]++; index[d] < dims[d] {
				break
			}
			index[d] = 0
		}
	}
	return nil
}

func loadGlobal(m *Machine, in *ir.Instr) error {
	t := in.Out[0].Type
	dims, _ := t.Dims()
	r, err := m.region(in, len(dims))
	if err != nil {
		return err
	}
	out := &tile{elem: t.Elem, dims: dims, codes: make([]uint64, t.Layout.Size())}
	written := m.marks[r.g.arr]
	err = each(dims, func(k int, index []int) error {
		flat, ok := r.element(index)
		if !ok {
			return nil
		}
		if err := m.written(in, r.g, flat); err != nil {
			return err
		}
		out.codes[k] = r.g.arr.Code(flat)
		if written == nil {
			return nil
		}
		for _, h := range t.Layout.Holders(index...) {
			if err := m.ordered(in, r.g, written.writer[flat], h.Thread, flat, "reads", "wrote"); err != nil {
				return err
			}
			m.reads(written, flat, h.Thread)
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.set(in.Out[0], value{set: true, tile: out})
	return nil
}

// stored is the tile that goes to global memory, operand 1, and where it goes.
func (m *Machine) stored(in *ir.Instr) (*tile, *region, error) {
	x, err := m.tile(in, 1)
	if err != nil {
		return nil, nil, err
	}
	r, err := m.region(in, len(x.dims))
	return x, r, err
}

func storeGlobal(m *Machine, in *ir.Instr) error {
	src := in.In[1].Var()
	x, r, err := m.stored(in)
	if err != nil {
		return err
	}
	written := m.marks[r.g.arr]
	return each(x.dims, func(k int, index []int) error {
		flat, ok := r.element(index)
		if !ok {
			return nil
		}
		// Of the threads that hold the element, the first stores it.
		thread := src.Type.Layout.Holders(index...)[0].Thread
		if err := m.ordered(in, r.g, written.writer[flat], thread, flat, "overwrites", "wrote"); err != nil {
			return err
		}
		if err := m.afterReads(in, r.g, written, thread, flat, "overwrites"); err != nil {
			return err
		}
		written.writer[flat] = m.me(thread)
		r.g.arr.SetCode(flat, x.codes[k])
		return nil
	})
}

// tile is the i-th operand's value, all of whose elements must be set.
func (m *Machine) tile(in *ir.Instr, i int) (*tile, error) {
	v := in.In[i].Var()
	x := m.get(v).tile
	if x == nil {
		panic(fmt.Sprintf("interp: %s is no tile", v.Name))
	}
	if x := m.get(v); x.uses > 0 && x.sums && in.Op.Name != "WgmmaDot" {
		return nil, problem(in.In[i].Pos, "Run.E22", "WgmmaCommitGroup, and WgmmaWaitGroup before the registers are used", "%s is used while a WgmmaDot still adds to it", v.Name)
	}
	if m.get(v).arriving {
		return nil, problem(in.In[i].Pos, "Run.E31", "Tcgen05Wait(for=load) behind loads", "%s is used before its load from tensor memory is done", v.Name)
	}
	for k, unset := range x.unset {
		if unset {
			return nil, problem(in.In[i].Pos, "Run.E3", "give AllocateRegister an init, or write the tile first", "element %d of %s has no value", k, v.Name)
		}
	}
	return x, nil
}
