package cuda

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"
)

func TestErrorText(t *testing.T) {
	for _, tc := range []struct {
		err  Error
		want string
	}{
		{Error{Call: "cuInit", Code: 100, Name: "CUDA_ERROR_NO_DEVICE", Text: "no CUDA-capable device is detected"},
			"cuda: cuInit: CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected"},
		{Error{Call: "cuInit", Code: 12345}, "cuda: cuInit: error 12345"},
		{Error{Call: "cuModuleLoadDataEx", Code: 218, Name: "CUDA_ERROR_INVALID_PTX", Log: "line 3; oops\r\n\nend\n"},
			"cuda: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218)\n\tline 3; oops\n\tend"},
	} {
		if got := tc.err.Error(); got != tc.want {
			t.Errorf("got %q\nwant %q", got, tc.want)
		}
	}
}

func TestSticky(t *testing.T) {
	for code, want := range map[int]bool{1: false, 2: false, 218: false, 600: false, 700: true, 701: false, 716: true, 719: true, 801: false} {
		if got := (&Error{Code: code}).Sticky(); got != want {
			t.Errorf("Sticky of %d: %v", code, got)
		}
	}
}

func TestSymbolNames(t *testing.T) {
	seen := map[string]bool{}
	for s := range symbolCount {
		name := symbolNames[s]
		if !strings.HasPrefix(name, "cu") || seen[name] {
			t.Errorf("symbol %d is %q", s, name)
		}
		seen[name] = true
	}
	if got := cuMemAlloc.base(); got != "cuMemAlloc" {
		t.Error(got)
	}
}

// TestParams reads the values back through the address array, as the driver does.
func TestParams(t *testing.T) {
	var p Params
	for round := range 3 {
		p.Reset()
		p.Bytes([]byte{0xab})
		p.Ptr(0xdeadbeef_12345678)
		p.I32(-2)
		p.F32(1.5)
		p.I64(-3)
		p.F64(-0.25)
		p.Bytes(make([]byte, 24))
		p.I32(int32(round))
		ptrs := p.pointers()
		if len(ptrs) != 8 || p.Len() != 8 {
			t.Fatalf("%d addresses, Len %d", len(ptrs), p.Len())
		}
		word := func(i, n int) uint64 {
			var b [8]byte
			copy(b[:], unsafe.Slice((*byte)(pointer(ptrs[i])), n))
			return binary.LittleEndian.Uint64(b[:])
		}
		for i, tc := range []struct {
			bytes int
			want  uint64
		}{{1, 0xab}, {8, 0xdeadbeef_12345678}, {4, 0xfffffffe}, {4, uint64(math.Float32bits(1.5))}, {8, 0xffffffff_fffffffd}, {8, math.Float64bits(-0.25)}} {
			if got := word(i, tc.bytes); got != tc.want {
				t.Errorf("argument %d: %#x, want %#x", i, got, tc.want)
			}
		}
		if word(7, 4) != uint64(round) {
			t.Errorf("last argument: %d, want %d", word(7, 4), round)
		}
		for i, q := range ptrs {
			if (q-ptrs[0])%8 != 0 {
				t.Errorf("argument %d is not aligned to 8 bytes", i)
			}
		}
	}
}

func TestParamsFit(t *testing.T) {
	var p Params
	p.Ptr(1)
	p.I32(2)
	for _, tc := range []struct {
		want []int
		msg  string
	}{
		{nil, ""},
		{[]int{8, 4}, ""},
		{[]int{8}, `kernel "k" has 1 parameters, and 2 arguments`},
		{[]int{}, `kernel "k" has 0 parameters`},
		{[]int{8, 8}, `parameter 1 of kernel "k" has 8 bytes, and its argument 4`},
	} {
		err := p.fits("k", tc.want)
		if (err == nil) != (tc.msg == "") || err != nil && !strings.Contains(err.Error(), tc.msg) {
			t.Errorf("%v: %v", tc.want, err)
		}
	}
}

// TestLaunchStructs holds the structs to their layout in cuda.h, on 64 bits.
func TestLaunchStructs(t *testing.T) {
	var c launchConfig
	var a launchAttribute
	for name, pair := range map[string][2]uintptr{
		"blockDimX": {unsafe.Offsetof(c.block), 12}, "sharedMemBytes": {unsafe.Offsetof(c.shared), 24}, "hStream": {unsafe.Offsetof(c.stream), 32},
		"attrs": {unsafe.Offsetof(c.attrs), 40}, "numAttrs": {unsafe.Offsetof(c.attrCount), 48}, "CUlaunchConfig": {unsafe.Sizeof(c), 56},
		"value": {unsafe.Offsetof(a.value), 8}, "CUlaunchAttribute": {unsafe.Sizeof(a), 72},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %d, want %d", name, pair[0], pair[1])
		}
	}
}

func TestCString(t *testing.T) {
	b := []byte("hello\x00rest")
	if got := cString(uintptr(unsafe.Pointer(&b[0]))); got != "hello" {
		t.Errorf("%q", got)
	}
	if cString(0) != "" {
		t.Error("null is not empty")
	}
	if got := text(append([]byte("log \n"), 0, 'x')); got != "log" {
		t.Errorf("%q", got)
	}
}

func TestClosed(t *testing.T) {
	c := new(Context)
	c.closed.Store(true)
	if _, err := c.Alloc(16); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	s := &Stream{c: c}
	if err := s.Synchronize(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Capture(func() error { return nil }); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	h := &Host{c, make([]byte, 8)}
	for _, r := range [][2]int{{-1, 1}, {0, 9}, {8, 1}, {4, -1}, {math.MaxInt, 1}} {
		if _, err := h.span(r[0], r[1]); err == nil {
			t.Errorf("bytes %v of 8 are taken", r)
		}
	}
	if _, err := h.span(3, 5); err != nil {
		t.Error(err)
	}
}

func TestDeviceArch(t *testing.T) {
	if got := (Device{Major: 9}).Arch(); got != "sm_90" {
		t.Error(got)
	}
}

func ExampleError() {
	fmt.Println(&Error{Call: "cuCtxSynchronize", Code: 700, Name: "CUDA_ERROR_ILLEGAL_ADDRESS", Text: "an illegal memory access was encountered"})
	// Output: cuda: cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered
}

// TestTensorMapShapes holds EncodeTiled to refusing lists that do not fit, before it
// asks the driver.
func TestTensorMapShapes(t *testing.T) {
	d := new(Driver) // lacks every function
	for _, m := range []TensorMap{
		{},
		{Dims: []uint64{8, 8}, Box: []int{8, 8}},
		{Dims: []uint64{8}, Box: []int{8, 8}},
		{Dims: make([]uint64, 6), Strides: make([]uint64, 5), Box: make([]int, 6)},
		{Dims: []uint64{8}, Box: []int{8}, ElementStrides: []int{1, 1}},
	} {
		if _, err := encodeTiled(d, d.call, m); err == nil || !strings.Contains(err.Error(), "dimensions") {
			t.Errorf("%+v: %v", m, err)
		}
	}
	if _, err := encodeTiled(d, d.call, TensorMap{Dims: []uint64{8}, Box: []int{8}}); err == nil || !strings.Contains(err.Error(), "CUDA 12.0") {
		t.Errorf("an old driver: %v", err)
	}
}
