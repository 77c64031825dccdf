package template

import (
	"fmt"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestStored says as what weights are stored, with how many tiles a warp.
func TestStored(t *testing.T) {
	for weight, want := range map[dtype.Type]string{
		dtype.I2:     "u2 − 2, 2 tiles, off codes",
		dtype.U3:     "u3 − 0, 4 tiles",
		dtype.I3:     "i3 − 0, 4 tiles",
		dtype.F3E1M1: "f3e1m1 − 0, 4 tiles",
		dtype.I4:     "i4 − 0, 1 tiles",
		dtype.F4E1M2: "f4e1m2 − 0, 1 tiles",
		dtype.F4E2M1: "f4e2m1 − 0, 1 tiles",
		dtype.F5E1M3: "i5 − 0, 4 tiles",
		dtype.I5:     "i5 − 0, 4 tiles",
		dtype.I6:     "i6 − 0, 2 tiles",
		dtype.F6E1M4: "f6e1m4 − 0, 2 tiles",
		dtype.U7:     "u7 − 0, 2 tiles",
		dtype.I7:     "i7 − 0, 2 tiles",
		dtype.F7E1M5: "i7 − 0, 2 tiles",
		dtype.F7E4M2: "f7e4m2 − 0, 2 tiles",
		dtype.F7E6M0: "f7e5m1 − 0, 2 tiles",
		dtype.I8:     "i8 − 0, 1 tiles",
		dtype.F8E6M1: "f8e5m2 − 0, 1 tiles",
		dtype.F8E7M0: "f8e5m2 − 0, 1 tiles",
	} {
		p, err := PlanOf(Form{Weight: weight, Act: dtype.F16, Scale: dtype.F16, Group: 128})
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%s − %d, %d tiles", p.Stored, p.Bias, p.Tiles)
		if p.LessBias {
			got += ", off codes"
		}
		if got != want {
			t.Errorf("%s is stored as %s, want %s", weight, got, want)
		}
	}
}
