package cuda

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"
)

// ErrNoNVRTC is wrapped by the error of OpenNVRTC where NVIDIA's run-time
// compiler is not installed.
var ErrNoNVRTC = errors.New("no NVIDIA run-time compiler (libnvrtc)")

// EnvNVRTC names the environment variable that holds the path of libnvrtc,
// where the loader does not find it.
const EnvNVRTC = "TILUS_LAB_NVRTC"

// nvrtcLibraries are the names under which libnvrtc is looked for, newest first.
var nvrtcLibraries = []string{
	"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
	"/usr/local/cuda/lib64/libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so",
}

// NVRTC is NVIDIA's run-time compiler for CUDA C++. It needs no GPU and no
// driver. Source: NVRTC documentation, "Basic usage".
type NVRTC struct {
	Major, Minor int
	fn           map[string]uintptr
}

// OpenNVRTC loads the compiler.
func OpenNVRTC() (*NVRTC, error) {
	names := nvrtcLibraries
	if path := os.Getenv(EnvNVRTC); path != "" {
		names = []string{path}
	}
	lib, err := openLibrary(names)
	if err != nil {
		return nil, fmt.Errorf("%w (%v); set %s to its path", ErrNoNVRTC, err, EnvNVRTC)
	}
	n := &NVRTC{fn: map[string]uintptr{}}
	for _, name := range []string{"nvrtcVersion", "nvrtcGetErrorString", "nvrtcCreateProgram", "nvrtcDestroyProgram", "nvrtcCompileProgram",
		"nvrtcGetProgramLogSize", "nvrtcGetProgramLog", "nvrtcGetCUBINSize", "nvrtcGetCUBIN"} {
		if n.fn[name] = lookup(lib, name); n.fn[name] == 0 {
			return nil, fmt.Errorf("%w: the library has no %s", ErrNoNVRTC, name)
		}
	}
	var major, minor int32
	if r := call(n.fn["nvrtcVersion"], uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor))); r != 0 {
		return nil, n.failure("nvrtcVersion", r)
	}
	n.Major, n.Minor = int(major), int(minor)
	return n, nil
}

func (n *NVRTC) failure(name string, code uintptr) error {
	p := call(n.fn["nvrtcGetErrorString"], code&0xffffffff)
	return fmt.Errorf("cuda: %s: %s (%d)", name, cString(p), int32(code))
}

// Compile compiles CUDA C++ for a target such as "sm_90a" to machine code that
// Context.Load takes. The error of a source that does not compile holds the
// compiler's log.
func (n *NVRTC) Compile(source, name, arch string, options ...string) ([]byte, error) {
	src, file := append([]byte(source), 0), append([]byte(name), 0)
	var h uintptr
	if r := call(n.fn["nvrtcCreateProgram"], uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&src[0])), uintptr(unsafe.Pointer(&file[0])), 0, 0, 0); int32(r) != 0 {
		return nil, n.failure("nvrtcCreateProgram", r)
	}
	defer func() { call(n.fn["nvrtcDestroyProgram"], uintptr(unsafe.Pointer(&h))) }()
	texts := [][]byte{}
	for _, o := range append([]string{"--gpu-architecture=" + arch, "--std=c++17"}, options...) {
		texts = append(texts, append([]byte(o), 0))
	}
	var pin runtime.Pinner // the compiler finds these through an array of addresses
	defer pin.Unpin()
	list := make([]uintptr, len(texts))
	for i, o := range texts {
		pin.Pin(&o[0])
		list[i] = uintptr(unsafe.Pointer(&o[0]))
	}
	r := call(n.fn["nvrtcCompileProgram"], h, uintptr(len(list)), uintptr(unsafe.Pointer(&list[0])))
	if int32(r) != 0 {
		log, err := n.bytes(h, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w\n%s", n.failure("nvrtcCompileProgram", r), strings.TrimRight(string(log), "\x00\n"))
	}
	return n.bytes(h, "nvrtcGetCUBINSize", "nvrtcGetCUBIN")
}

// bytes fetches a result of a program: its size, then its bytes.
func (n *NVRTC) bytes(h uintptr, size, get string) ([]byte, error) {
	var count uint64
	if r := call(n.fn[size], h, uintptr(unsafe.Pointer(&count))); int32(r) != 0 {
		return nil, n.failure(size, r)
	}
	data := make([]byte, max(count, 1))
	if r := call(n.fn[get], h, uintptr(unsafe.Pointer(&data[0]))); int32(r) != 0 {
		return nil, n.failure(get, r)
	}
	return data[:count], nil
}
