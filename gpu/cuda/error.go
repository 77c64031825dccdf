package cuda

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// ErrNoDriver says that this machine or this binary has no NVIDIA driver library.
var ErrNoDriver = errors.New("cuda: no NVIDIA driver")

// ErrClosed says that a context, or something made in one, is used after Close.
var ErrClosed = errors.New("cuda: used after Close")

// Codes of the driver that callers tell apart.
//
// Source: CUDA Driver API, enum CUresult.
const (
	codeOutOfMemory    = 2
	codeNoDevice       = 100
	codeInvalidPTX     = 218
	codeNewerPTX       = 222
	codeNotReady       = 600
	codeIllegalAddress = 700
	codeLaunchFailed   = 719
	codeNotSupported   = 801
)

// Error is a driver call that failed.
type Error struct {
	Call string // driver API function, "cuModuleLoadDataEx"
	Code int    // CUresult
	Name string // "CUDA_ERROR_INVALID_PTX"; empty when the driver does not know the code
	Text string // the driver's sentence about the code
	Log  string // what the JIT compiler wrote, for module loads
}

// Error gives call, name, code, sentence, and the JIT log on lines of its own.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("cuda: " + e.Call + ": ")
	if e.Name != "" {
		fmt.Fprintf(&b, "%s (%d)", e.Name, e.Code)
	} else {
		fmt.Fprintf(&b, "error %d", e.Code)
	}
	if e.Text != "" {
		b.WriteString(": " + e.Text)
	}
	for line := range strings.Lines(e.Log) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			b.WriteString("\n\t" + line)
		}
	}
	return b.String()
}

// Sticky says that the context is lost: every later call in it fails with the same code, and only a
// new process (with some drivers, a new context) brings the device back.
//
// Source: CUDA Driver API, enum CUresult, the codes whose text says that the process must be
// terminated and relaunched.
func (e *Error) Sticky() bool {
	switch e.Code {
	case 214, // ECC_UNCORRECTABLE
		220,                // NVLINK_UNCORRECTABLE
		226,                // CONTAINED
		codeIllegalAddress, // 700
		702,                // LAUNCH_TIMEOUT
		709,                // CONTEXT_IS_DESTROYED
		710,                // ASSERT
		714,                // HARDWARE_STACK_ERROR
		715,                // ILLEGAL_INSTRUCTION
		716,                // MISALIGNED_ADDRESS
		717,                // INVALID_ADDRESS_SPACE
		718,                // INVALID_PC
		codeLaunchFailed,   // 719
		721:                // TENSOR_MEMORY_LEAK
		return true
	}
	return false
}

// OutOfMemory says that the device or the pinned host memory is used up.
func (e *Error) OutOfMemory() bool { return e.Code == codeOutOfMemory }

// NewerPTX says that PTX is of a version that the driver is too old for.
func (e *Error) NewerPTX() bool { return e.Code == codeNewerPTX }

// NoDevice says that there is a driver and no GPU that it may use.
func (e *Error) NoDevice() bool { return e.Code == codeNoDevice }

// check makes an *Error of a CUresult; cuGetErrorName and cuGetErrorString give its words.
func (d *Driver) check(s symbol, result uintptr) error {
	code := int(int32(result))
	if code == 0 {
		return nil
	}
	return &Error{
		Call: s.base(),
		Code: code,
		Name: d.word(cuGetErrorName, code),
		Text: d.word(cuGetErrorString, code),
	}
}

func (d *Driver) word(s symbol, code int) string {
	if d.fn[s] == 0 {
		return ""
	}
	var p uintptr
	if call(d.fn[s], uintptr(code), uintptr(unsafe.Pointer(&p))) != 0 {
		return ""
	}
	return cString(p)
}

// cString copies the zero-terminated text at the C address p.
func cString(p uintptr) string {
	if p == 0 {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(pointer(p)), n))
}

// pointer turns an address that C gave us into a pointer; the memory is not Go's, so the collector
// has no say in it.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// text is the part of a C buffer before its first zero.
func text(buf []byte) string {
	s, _, _ := strings.Cut(string(buf), "\x00")
	return strings.TrimSpace(s)
}
