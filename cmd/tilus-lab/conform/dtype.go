package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

func dtypeKinds() []Kind {
	return []Kind{
		{"floats", "bit format, value of every code, and encodings of a float type", checkFloat},
		{"ints", "value of every code of an integer type", checkInt},
		{"packing", "bytes of a packed array", checkPacking},
	}
}

// checkFloat compares a float type with facts {name, nbits, exponent_bits,
// mantissa_bits, bias, decode: [value of code 0, …], encode: [{f32, rne,
// upstream}, …]}. The right encoding is rne, nearest-even with saturation.
func checkFloat(_, raw json.RawMessage) (string, error) {
	var f struct {
		Name         string
		Bits         int `json:"nbits"`
		ExponentBits int `json:"exponent_bits"`
		MantissaBits int `json:"mantissa_bits"`
		Bias         int
		Decode       []any
		Encode       []struct {
			F32      any
			Upstream *uint64
			RNE      uint64
		}
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return "", err
	}
	t, ok := dtype.FromTilusName(f.Name)
	if !ok || !t.IsFloat() {
		return "", fmt.Errorf("no float type is called %q", f.Name)
	}
	if r := t.Row(); r.Bits != f.Bits || r.Exp != f.ExponentBits || r.Man != f.MantissaBits || r.Bias != f.Bias {
		return "", fmt.Errorf("%s has %d bits, exponent %d, mantissa %d, bias %d; want %d, %d, %d, %d",
			t, r.Bits, r.Exp, r.Man, r.Bias, f.Bits, f.ExponentBits, f.MantissaBits, f.Bias)
	}
	if t.Bits() < 63 && len(f.Decode) > 1<<t.Bits() {
		return "", fmt.Errorf("%d codes decoded, %s has %d", len(f.Decode), t, 1<<t.Bits())
	}
	for code, v := range f.Decode {
		want, err := number(v)
		if err != nil {
			return "", fmt.Errorf("decode[%d]: %w", code, err)
		}
		if got := t.Decode(uint64(code)); !sameFloat(got, want) {
			return "", fmt.Errorf("code %d of %s is %g, want %g", code, t, got, want)
		}
	}
	wrong := 0
	for _, e := range f.Encode {
		v, err := number(e.F32)
		if err != nil {
			return "", fmt.Errorf("encode: %w", err)
		}
		if got := t.Encode(v, true); got != e.RNE {
			return "", fmt.Errorf("%g encoded as %s is code %d, want %d", v, t, got, e.RNE)
		}
		if got := dtype.Cast(t, dtype.F32, dtype.F32.Encode(v, false)); got != e.RNE {
			return "", fmt.Errorf("%g cast from f32 to %s is code %d, want %d", v, t, got, e.RNE)
		}
		if e.Upstream != nil && *e.Upstream != e.RNE {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Sprintf("upstream rounds %d of %d values otherwise (it truncates subnormals); nearest-even is right, and ours", wrong, len(f.Encode)), nil
	}
	return "", nil
}

// number reads a JSON number, or the name of a value that JSON has not.
func number(v any) (float64, error) {
	switch v := v.(type) {
	case float64:
		return v, nil
	case string:
		switch v {
		case "nan", "NaN":
			return math.NaN(), nil
		case "inf", "+inf", "Infinity":
			return math.Inf(1), nil
		case "-inf", "-Infinity":
			return math.Inf(-1), nil
		}
	}
	return 0, fmt.Errorf("%s is not a number", short(v))
}

// sameFloat tells −0 from 0 and takes NaN as equal to NaN.
func sameFloat(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || a == b && math.Signbit(a) == math.Signbit(b)
}

// checkInt compares an integer type with facts {name, nbits, decode}.
func checkInt(_, raw json.RawMessage) (string, error) {
	var f struct {
		Name   string
		Bits   int `json:"nbits"`
		Decode []int64
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return "", err
	}
	t, ok := dtype.FromTilusName(f.Name)
	if !ok || !t.IsInt() {
		return "", fmt.Errorf("no integer type is called %q", f.Name)
	}
	if t.Bits() != f.Bits {
		return "", fmt.Errorf("%s has %d bits, want %d", t, t.Bits(), f.Bits)
	}
	if t.Bits() < 63 && len(f.Decode) > 1<<t.Bits() {
		return "", fmt.Errorf("%d codes decoded, %s has %d", len(f.Decode), t, 1<<t.Bits())
	}
	for code, want := range f.Decode {
		if got := t.DecodeInt(uint64(code)); got != want {
			return "", fmt.Errorf("code %d of %s is %d, want %d", code, t, got, want)
		}
		if back := t.EncodeInt(want, true); back != uint64(code) {
			return "", fmt.Errorf("%d encoded as %s is code %d, want %d", want, t, back, code)
		}
	}
	return "", nil
}

// checkPacking compares packed bytes with facts {nbits, codes, bytes}.
func checkPacking(_, raw json.RawMessage) (string, error) {
	var f struct {
		Bits  int `json:"nbits"`
		Codes []uint64
		Bytes []int
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return "", err
	}
	if f.Bits < 1 || f.Bits > 64 {
		return "", fmt.Errorf("elements of %d bits", f.Bits)
	}
	want := make([]byte, len(f.Bytes))
	for i, b := range f.Bytes {
		if b < 0 || b > 255 {
			return "", fmt.Errorf("byte %d is %d", i, b)
		}
		want[i] = byte(b)
	}
	got := dtype.Pack(f.Bits, f.Codes)
	if !bytes.Equal(got, want) {
		return "", fmt.Errorf("packed bytes are %v, want %v", got, want)
	}
	for k, code := range dtype.Unpack(f.Bits, want, len(f.Codes)) {
		if code != f.Codes[k] {
			return "", fmt.Errorf("element %d unpacks to %d, want %d", k, code, f.Codes[k])
		}
	}
	return "", nil
}
