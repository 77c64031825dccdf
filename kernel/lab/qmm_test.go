package lab

import (
	"strings"
	"testing"
)

// TestQuantize takes a layer from plain weights to a product.
func TestQuantize(t *testing.T) {
	if err := Device("interp"); err != nil {
		t.Fatal(err)
	}
	coarse, fine := 0.0, 0.0
	for kind, e := range map[string]*float64{"i2 group=32": &coarse, "i8 group=32": &fine} {
		l, err := Quantize(kind, "randn:f32[24, 64]:seed=1")
		if err != nil {
			t.Fatal(err)
		}
		if *e, err = l.OutputError("randn:f16[3, 64]:seed=2"); err != nil {
			t.Fatal(err)
		}
		if p, err := l.Program(1); err != nil || !strings.Contains(p.Name, "_i") || !strings.Contains(l.String(), "bits a weight") {
			t.Errorf("%v: %v, %v", l, p, err)
		}
	}
	if fine > 0.02 || coarse < 0.1 || coarse > 1 {
		t.Errorf("8 bits lose %g, 2 bits %g", fine, coarse)
	}
	for _, w := range []any{"randn:f32[24]", 3, nil} {
		if _, err := Quantize("i4", w); err == nil {
			t.Errorf("weights %v are taken", w)
		}
	}
}
