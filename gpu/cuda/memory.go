package cuda

import (
	"fmt"
	"unsafe"
)

// Ptr is an address in device memory; Ptr + n is n bytes further.
type Ptr uint64

// MemInfo gives free and total device memory in bytes (cuMemGetInfo).
func (c *Context) MemInfo() (free, total int64, err error) {
	var f, t uint64
	err = c.call(cuMemGetInfo, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&t)))
	return int64(f), int64(t), err
}

// Alloc allocates size bytes of device memory, aligned to 256 bytes at least (cuMemAlloc). A size
// of 0 gives address 0.
func (c *Context) Alloc(size int) (Ptr, error) {
	if size < 0 {
		return 0, fmt.Errorf("cuda: Alloc of %d bytes; sizes are not negative", size)
	}
	if size == 0 {
		return 0, nil
	}
	var p Ptr
	err := c.call(cuMemAlloc, uintptr(unsafe.Pointer(&p)), uintptr(size))
	return p, err
}

// Free frees what Alloc gave (cuMemFree); address 0 is allowed.
func (c *Context) Free(p Ptr) error {
	if p == 0 {
		return nil
	}
	return c.call(cuMemFree, uintptr(p))
}

// CopyIn copies src to device memory and returns when it is there (cuMemcpyHtoD). It is ordered
// with the default stream only.
func (c *Context) CopyIn(dst Ptr, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return c.there(c.call(cuMemcpyHtoD, uintptr(dst), uintptr(unsafe.Pointer(&src[0])), uintptr(len(src))))
}

// there waits until what a call put on the default stream is done: copies from memory that is not
// pinned return when src may be changed, copies inside the device and memsets at once. Our streams
// do not wait for the default one, so that a kernel could run before its inputs are there.
func (c *Context) there(err error) error {
	if err != nil {
		return err
	}
	return c.call(cuStreamSynchronize, 0)
}

// CopyOut copies len(dst) bytes from device memory and returns when they are there (cuMemcpyDtoH).
// It is ordered with the default stream only.
func (c *Context) CopyOut(dst []byte, src Ptr) error {
	if len(dst) == 0 {
		return nil
	}
	return c.call(cuMemcpyDtoH, uintptr(unsafe.Pointer(&dst[0])), uintptr(src), uintptr(len(dst)))
}

// Copy copies size bytes inside device memory: cuMemcpyDtoD, and returns when they are there, or
// cuMemcpyDtoDAsync with a stream.
func (c *Context) Copy(dst, src Ptr, size int, s *Stream) error {
	if s == nil {
		return c.there(c.call(cuMemcpyDtoD, uintptr(dst), uintptr(src), uintptr(size)))
	}
	if err := s.check(); err != nil {
		return err
	}
	return c.call(cuMemcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(size), s.h)
}

// CopyPeer copies size bytes from memory of another context, of another GPU as a rule, and
// returns when they are there (cuMemcpyPeer).
func (c *Context) CopyPeer(dst Ptr, from *Context, src Ptr, size int) error {
	if size == 0 {
		return nil
	}
	if from.closed.Load() {
		return fmt.Errorf("cuMemcpyPeer: %w", ErrClosed)
	}
	return c.there(c.call(cuMemcpyPeer, uintptr(dst), c.h, uintptr(src), from.h, uintptr(size)))
}

// Memset sets size bytes of device memory: cuMemsetD8, and returns when they are set, or
// cuMemsetD8Async with a stream.
func (c *Context) Memset(dst Ptr, value byte, size int, s *Stream) error {
	if s == nil {
		return c.there(c.call(cuMemsetD8, uintptr(dst), uintptr(value), uintptr(size)))
	}
	if err := s.check(); err != nil {
		return err
	}
	return c.call(cuMemsetD8Async, uintptr(dst), uintptr(value), uintptr(size), s.h)
}

// Host is pinned host memory, which the device copies to and from without a stop. It is not Go
// memory: the collector neither moves nor frees it.
type Host struct {
	c *Context
	b []byte
}

// AllocHost allocates size > 0 bytes of pinned host memory (cuMemHostAlloc).
func (c *Context) AllocHost(size int) (*Host, error) {
	if size <= 0 {
		return nil, fmt.Errorf("cuda: AllocHost of %d bytes; it takes 1 and more", size)
	}
	var p uintptr
	if err := c.call(cuMemHostAlloc, uintptr(unsafe.Pointer(&p)), uintptr(size), 0); err != nil {
		return nil, err
	}
	return &Host{c, unsafe.Slice((*byte)(pointer(p)), size)}, nil
}

// Bytes is the memory; it must not be used after Close.
func (h *Host) Bytes() []byte { return h.b }

// Close frees the memory (cuMemFreeHost).
func (h *Host) Close() error {
	if h.b == nil {
		return nil
	}
	p := uintptr(unsafe.Pointer(&h.b[0]))
	h.b = nil
	return h.c.call(cuMemFreeHost, p)
}

// span checks that [from, from+size) lies inside the memory and gives its address.
func (h *Host) span(from, size int) (uintptr, error) {
	if h.b == nil {
		return 0, ErrClosed
	}
	if from < 0 || size < 0 || from > len(h.b)-size {
		return 0, fmt.Errorf("cuda: bytes [%d, %d+%d) of %d bytes of pinned memory", from, from, size, len(h.b))
	}
	return uintptr(unsafe.Pointer(&h.b[0])) + uintptr(from), nil
}

// CopyInAsync queues a copy of size bytes from src, starting at byte from, to device memory
// (cuMemcpyHtoDAsync). It takes pinned memory only, since Go memory could be freed before the copy
// is done.
func (s *Stream) CopyInAsync(dst Ptr, src *Host, from, size int) error {
	p, err := src.span(from, size)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return err
	}
	return s.c.call(cuMemcpyHtoDAsync, uintptr(dst), p, uintptr(size), s.h)
}

// CopyOutAsync queues a copy of size bytes of device memory to dst, starting at its byte from
// (cuMemcpyDtoHAsync).
func (s *Stream) CopyOutAsync(dst *Host, from int, src Ptr, size int) error {
	p, err := dst.span(from, size)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return err
	}
	return s.c.call(cuMemcpyDtoHAsync, p, uintptr(src), uintptr(size), s.h)
}
