package checkpoint

import (
	"errors"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestNothing: nothing to read, or to take, is an error with a way out.
func TestNothing(t *testing.T) {
	if _, err := Read(nil, 10, "x", nil); err == nil || !strings.Contains(err.Error(), "x: there is nothing to read from") || !strings.Contains(err.Error(), "bytes.NewReader") {
		t.Errorf("read from nil: %v", err)
	}
	if _, err := As(nil, dtype.F16); err == nil || !strings.Contains(err.Error(), "Layer reads some") {
		t.Errorf("no weights: %v", err)
	}
}

// TestAsDefault: the type of x and y that is left out is f16, that of zero points too.
func TestAsDefault(t *testing.T) {
	l := qmm.Linear{WeightType: dtype.U4, ActType: dtype.BF16, ZeroPoint: true, Group: 32, N: 8, K: 64}
	w, err := l.Quantize(t.Context(), array.FromFloats(dtype.F32, []int{8, 64}, make([]float64, 8*64)))
	if err != nil {
		t.Fatal(err)
	}
	as, err := As(w, 0)
	if err != nil || as.ActType != dtype.F16 || as.Zeros.Type != dtype.F16 {
		t.Errorf("%v, %v", as, err)
	}
}

// broken is a disk.
type broken struct{}

var errDisk = errors.New("no disk")

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errDisk }

// TestUnread: what a disk says of a file that cannot be read is not taken for what is in it.
func TestUnread(t *testing.T) {
	if _, err := Read(broken{}, 10, "x", nil); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "x: no disk") {
		t.Errorf("a broken disk: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil || strings.Contains(err.Error(), "header") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Read(strings.NewReader("short"), 5, "x", nil); err == nil || !strings.Contains(err.Error(), "ends inside the header") {
		t.Errorf("five bytes: %v", err)
	}
}

// TestAsZeros: zero points that another type of x and y does not hold are not rounded.
func TestAsZeros(t *testing.T) {
	w, err := Layer("testdata/hqq/hqq.safetensors", "b8")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := As(w, dtype.BF16); err == nil || !strings.Contains(err.Error(), "and bf16, the type that x and y are to have, would make it ") || !strings.Contains(err.Error(), "; leave them f16") {
		t.Errorf("zero points with all bits of f16: %v", err)
	}
	w, err = Layer("testdata/hqq/hqq.safetensors", "channel")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := As(w, dtype.BF16); err != nil {
		t.Errorf("whole zero points: %v", err)
	}
}
