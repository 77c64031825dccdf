package cuda

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// ErrNoNCCL is wrapped by the error of OpenNCCL where NVIDIA's library of
// collectives is not installed.
var ErrNoNCCL = errors.New("no NVIDIA collectives (libnccl)")

// EnvNCCL names the environment variable that holds the path of libnccl, where
// the loader does not find it.
const EnvNCCL = "TILUS_LAB_NCCL"

// NCCL is NVIDIA's library of collectives over several GPUs. Source: NCCL user
// guide, "API".
type NCCL struct {
	Version int // 10000·major + 100·minor + patch
	fn      map[string]uintptr
}

// OpenNCCL loads the library.
func OpenNCCL() (*NCCL, error) {
	names := []string{"libnccl.so.2", "libnccl.so"}
	if path := os.Getenv(EnvNCCL); path != "" {
		names = []string{path}
	}
	lib, err := openLibrary(names)
	if err != nil {
		return nil, fmt.Errorf("%w (%v); set %s to its path", ErrNoNCCL, err, EnvNCCL)
	}
	n := &NCCL{fn: map[string]uintptr{}}
	for _, name := range []string{"ncclGetVersion", "ncclGetErrorString", "ncclCommInitAll", "ncclCommDestroy", "ncclGroupStart", "ncclGroupEnd",
		"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast"} {
		if n.fn[name] = lookup(lib, name); n.fn[name] == 0 {
			return nil, fmt.Errorf("%w: the library has no %s", ErrNoNCCL, name)
		}
	}
	var v int32
	if err := n.call("ncclGetVersion", uintptr(unsafe.Pointer(&v))); err != nil {
		return nil, err
	}
	n.Version = int(v)
	return n, nil
}

//go:uintptrescapes
func (n *NCCL) call(name string, args ...uintptr) error {
	if r := int32(call(n.fn[name], args...)); r != 0 {
		return fmt.Errorf("cuda: %s: %s (%d)", name, cString(call(n.fn["ncclGetErrorString"], uintptr(r))), r)
	}
	return nil
}

// Elem is the element type of a collective. Source: nccl.h, ncclDataType_t.
type Elem int32

// The element types.
const (
	ElemI8   Elem = 0
	ElemU8   Elem = 1
	ElemI32  Elem = 2
	ElemF16  Elem = 6
	ElemF32  Elem = 7
	ElemF64  Elem = 8
	ElemBF16 Elem = 9
)

// Reduction is how a collective joins elements. Source: nccl.h, ncclRedOp_t.
type Reduction int32

// The reductions.
const (
	Sum Reduction = iota
	Product
	Maximum
	Minimum
)

// Ranks are GPUs that work together, one rank each, in this process. Calls queue
// one collective on the stream of every rank; they return before it has run.
// They are for one goroutine at a time.
type Ranks struct {
	n       *NCCL
	comms   []uintptr
	streams []*Stream
}

// Join makes the GPUs of these streams ranks of one group, in this order
// (ncclCommInitAll). Each stream belongs to the primary context of another GPU,
// since NCCL uses the contexts of the CUDA runtime.
func (n *NCCL) Join(streams []*Stream) (*Ranks, error) {
	if len(streams) == 0 {
		return nil, errors.New("cuda: Join of no streams; it takes one for each GPU")
	}
	devices := make([]int32, len(streams))
	seen := map[int]bool{}
	for i, s := range streams {
		if !s.c.primary {
			return nil, fmt.Errorf("cuda: Join: stream %d is not of a primary context; take Driver.PrimaryContext", i)
		}
		if seen[s.c.ordinal] {
			return nil, fmt.Errorf("cuda: Join: GPU %d twice; each rank needs a GPU of its own", s.c.ordinal)
		}
		seen[s.c.ordinal] = true
		devices[i] = int32(s.c.ordinal)
	}
	r := &Ranks{n: n, comms: make([]uintptr, len(streams)), streams: streams}
	err := n.call("ncclCommInitAll", uintptr(unsafe.Pointer(&r.comms[0])), uintptr(len(devices)), uintptr(unsafe.Pointer(&devices[0])))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Len is the number of ranks.
func (r *Ranks) Len() int { return len(r.comms) }

// all queues a call for each rank as one operation.
func (r *Ranks) all(queue func(rank int, comm, stream uintptr) error, buffers ...[]Ptr) error {
	if r.comms == nil {
		return ErrClosed
	}
	for _, b := range buffers {
		if len(b) != len(r.comms) {
			return fmt.Errorf("cuda: %d buffers for %d ranks", len(b), len(r.comms))
		}
	}
	runtime.LockOSThread() // a group belongs to a thread
	defer runtime.UnlockOSThread()
	if err := r.n.call("ncclGroupStart"); err != nil {
		return err
	}
	var first error
	for i, comm := range r.comms {
		if err := queue(i, comm, r.streams[i].handle()); err != nil && first == nil {
			first = fmt.Errorf("rank %d: %w", i, err)
		}
	}
	if err := r.n.call("ncclGroupEnd"); first == nil {
		first = err
	}
	return first
}

// AllReduce joins the ranks' send buffers of count elements and gives all of them
// the result; send and recv may be the same.
func (r *Ranks) AllReduce(send, recv []Ptr, count int, t Elem, op Reduction) error {
	return r.all(func(i int, comm, stream uintptr) error {
		return r.n.call("ncclAllReduce", uintptr(send[i]), uintptr(recv[i]), uintptr(count), uintptr(t), uintptr(op), comm, stream)
	}, send, recv)
}

// AllGather gives every rank the send buffers of all, count elements each, in the
// order of ranks.
func (r *Ranks) AllGather(send, recv []Ptr, count int, t Elem) error {
	return r.all(func(i int, comm, stream uintptr) error {
		return r.n.call("ncclAllGather", uintptr(send[i]), uintptr(recv[i]), uintptr(count), uintptr(t), comm, stream)
	}, send, recv)
}

// ReduceScatter joins the send buffers and gives rank i part i of the result, count
// elements.
func (r *Ranks) ReduceScatter(send, recv []Ptr, count int, t Elem, op Reduction) error {
	return r.all(func(i int, comm, stream uintptr) error {
		return r.n.call("ncclReduceScatter", uintptr(send[i]), uintptr(recv[i]), uintptr(count), uintptr(t), uintptr(op), comm, stream)
	}, send, recv)
}

// Broadcast gives every rank count elements of the root's send buffer.
func (r *Ranks) Broadcast(send, recv []Ptr, count int, t Elem, root int) error {
	if root < 0 || root >= len(r.comms) {
		return fmt.Errorf("cuda: Broadcast from rank %d of %d", root, len(r.comms))
	}
	return r.all(func(i int, comm, stream uintptr) error {
		return r.n.call("ncclBroadcast", uintptr(send[i]), uintptr(recv[i]), uintptr(count), uintptr(t), uintptr(root), comm, stream)
	}, send, recv)
}

// Close ends the group; the streams stay.
func (r *Ranks) Close() error {
	var first error
	for _, c := range r.comms {
		if err := r.n.call("ncclCommDestroy", c); err != nil && first == nil {
			first = err
		}
	}
	r.comms = nil
	return first
}
