package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// ErrNoLinker says that the driver cannot give machine code away.
var ErrNoLinker = errors.New("cuda: the driver has no linker")

// ErrWhole says that machine code to give away would be worse than what [Context.Load] makes of PTX.
var ErrWhole = errors.New("cuda: the driver's linker takes this PTX for a part of a program, and would make slow code of it")

// whole are instructions that the compiler makes less of in a part of a program, as it takes whatever goes
// through the linker for: it lets products of warpgroups wait for each other and leaves registers where they are, and
// the code takes up to 1.7 times as long.
var whole = [][]byte{[]byte("wgmma."), []byte("setmaxnreg"), []byte("tcgen05.")}

// Cubin is the machine code that the driver makes of PTX for the context's device
// (cuLinkCreate, cuLinkAddData, cuLinkComplete), to be given away; [Context.Load] takes it. Errors of
// the JIT compiler are in Error.Log. The linker takes PTX for a part of a program: what Load makes of the
// same PTX may take fewer registers (66 instead of 128 in a product with weights of 4 bits), and is kept by the driver. Where
// that would cost most the error is ErrWhole.
func (c *Context) Cubin(ptx []byte) (cubin []byte, err error) {
	if len(ptx) == 0 {
		return nil, errors.New("cuda: Cubin of an empty text; it takes PTX")
	}
	for _, word := range whole {
		if bytes.Contains(ptx, word) {
			return nil, ErrWhole
		}
	}
	for s := cuLinkCreate; s <= cuLinkDestroy; s++ {
		if c.d.fn[s] == 0 {
			return nil, fmt.Errorf("%w: no %s", ErrNoLinker, s.base())
		}
	}
	ptx = append(bytes.Clone(ptx), 0)
	errs := make([]byte, 16<<10)
	name := []byte("program\x00")
	keys := []int32{5, 6} // CU_JIT_ERROR_LOG_BUFFER and its size
	values := []uintptr{uintptr(unsafe.Pointer(&errs[0])), uintptr(len(errs))}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&errs[0]) // the linker writes here until it is destroyed
	pin.Pin(&keys[0])
	pin.Pin(&values[0])
	// The linker is made, used and ended on one thread: what it keeps may belong to that.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var state uintptr
	if err := c.call(cuLinkCreate, uintptr(len(keys)), uintptr(unsafe.Pointer(&keys[0])), uintptr(unsafe.Pointer(&values[0])), uintptr(unsafe.Pointer(&state))); err != nil {
		return nil, err
	}
	defer func() {
		if e := c.call(cuLinkDestroy, state); err == nil {
			err = e
		}
	}()
	const ptxInput = 1 // enum CUjitInputType
	err = c.call(cuLinkAddData, state, ptxInput, uintptr(unsafe.Pointer(&ptx[0])), uintptr(len(ptx)), uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
	if e := (*Error)(nil); errors.As(err, &e) {
		e.Log = text(errs)
	}
	if err != nil {
		return nil, err
	}
	var image uintptr
	var size uint64
	err = c.call(cuLinkComplete, state, uintptr(unsafe.Pointer(&image)), uintptr(unsafe.Pointer(&size)))
	if e := (*Error)(nil); errors.As(err, &e) {
		e.Log = text(errs)
	}
	if err != nil {
		return nil, err
	}
	// The linker's own memory, which ends with it.
	return bytes.Clone(unsafe.Slice(*(**byte)(unsafe.Pointer(&image)), size)), nil
}
