package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// ggufTensor is an array of a .gguf file: dimensions from the inner one on, a type by its number, and where its bytes are.
type ggufTensor struct {
	name        string
	dims        []uint64
	typ         uint32
	from, bytes uint64
}

// ggufText is a string as .gguf files have it.
func ggufText(s string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...)
}

// ggufStart is what a .gguf file begins with.
func ggufStart(version uint32, tensors, values uint64) []byte {
	out := binary.LittleEndian.AppendUint32([]byte(ggufMagic), version)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(out, tensors), values)
}

// ggufOf is a .gguf file of arrays of zeros, with a list of names in front.
func ggufOf(tensors ...ggufTensor) []byte {
	out := append(ggufStart(3, uint64(len(tensors)), 1), ggufText("names")...)
	out = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(out, ggufArray), ggufString)
	out = append(append(binary.LittleEndian.AppendUint64(out, 2), ggufText("a")...), ggufText("bc")...)
	end := uint64(0)
	for _, t := range tensors {
		out = binary.LittleEndian.AppendUint32(append(out, ggufText(t.name)...), uint32(len(t.dims)))
		for _, d := range t.dims {
			out = binary.LittleEndian.AppendUint64(out, d)
		}
		out = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(out, t.typ), t.from)
		if t.bytes > 0 {
			end = max(end, t.from+t.bytes)
		}
	}
	out = append(out, make([]byte, (32-len(out)%32)%32)...)
	return append(out, make([]byte, end)...)
}

// TestGGUF holds what is no layer of a .gguf file, or no such file.
func TestGGUF(t *testing.T) {
	layer := ggufTensor{"l.weight", []uint64{64, 4}, 2, 0, 4 * 36}
	whole := ggufOf(layer)
	for _, c := range []struct {
		what, name string
		data       []byte
		want       string // "" is a layer that is read
	}{
		{"blocks", "l", whole, ""},
		{"an expert", "l[1]", ggufOf(ggufTensor{"l.weight", []uint64{64, 2, 2}, 2, 0, 4 * 36}), ""},
		{"no expert named", "l", ggufOf(ggufTensor{"l.weight", []uint64{64, 2, 2}, 2, 0, 4 * 36}), "f:l: it is 2 experts: name one, l[0] to l[1]"},
		{"scales of scales", "l", ggufOf(ggufTensor{"l.weight", []uint64{256, 2}, 12, 0, 288}), "f:l: weight is Q4_K[2, 256], which is not read; of .gguf files Q4_0, Q5_0, Q8_0, TQ2_0, MXFP4 are, whose numbers are codes times a scale: make one of these, by llama-quantize --pure, or dequantise"},
		{"a row", "l", ggufOf(ggufTensor{"l.weight", []uint64{64}, 2, 0, 36}), "weight is Q4_0[64], and has 2 dimensions"},
		{"plain numbers", "l", ggufOf(ggufTensor{"l.weight", []uint64{64, 4}, 1, 0, 512}), "f:l: it has weight F16[4, 64]: its weights are not quantised"},
		{"no number", "l", ggufNaN(whole), "f:l: scale[0, 0] is NaN; a scale is a number"},
		{"another name", "m", whole, "f has no layer m"},
		{"a version of before", "l", ggufStart(1, 0, 0), "f: it is of version 0x1, and versions 2 and 3 in little-endian order are read"},
		{"big-endian", "l", ggufStart(3<<24, 0, 0), "f: it is of version 0x3000000"},
		{"cut in its header", "l", whole[:60], "f: it ends inside the header: it is cut short, or no .gguf file"},
		{"cut in its arrays", "l", whole[:len(whole)-1], "f: l.weight lies in bytes 128 to 272, and the file has 271: it is cut short"},
		{"half a block", "l", ggufOf(ggufTensor{"l.weight", []uint64{48, 4}, 2, 0, 200}), "f: l.weight: rows of Q4_0[4, 48] are no whole number of blocks of 32"},
		{"a type of tomorrow", "l", ggufOf(ggufTensor{"l.weight", []uint64{64, 4}, 99, 0, 200}), "f: l.weight is of the type 99, which is none of gguf 0.19.0"},
		{"two of one name", "l", ggufOf(layer, layer), "f: it has two arrays l.weight"},
		{"far away", "l", ggufOf(ggufTensor{"l.weight", []uint64{64, 4}, 2, 1 << 62, 0}), "f: l.weight lies at byte 4611686018427387904 of the arrays"},
		{"many dimensions", "l", ggufOf(ggufTensor{"l.weight", slices.Repeat([]uint64{1}, 40), 0, 0, 4}), "f: l.weight has 40 dimensions"},
		{"large", "l", ggufOf(ggufTensor{"l.weight", []uint64{1 << 30, 1 << 30, 1 << 30}, 0, 0, 4}), "f: l.weight: F32[1073741824, 1073741824, 1073741824] takes more than the"},
		{"larger", "l", ggufOf(ggufTensor{"l.weight", []uint64{1 << 62}, 0, 0, 4}), "f: l.weight has a dimension of 4611686018427387904"},
		{"an endless name", "l", binary.LittleEndian.AppendUint64(ggufStart(3, 1, 0), 1<<63), "f: it ends inside the header"},
		{"arrays of arrays of arrays", "l", slices.Concat(ggufStart(3, 0, 1), ggufText("k"), []byte{9, 0, 0, 0}, bytes.Repeat([]byte{9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, 9)), "f: it has a value of the type"},
		{"an odd alignment", "l", append(append(ggufStart(3, 0, 1), ggufText("general.alignment")...), 4, 0, 0, 0, 33, 0, 0, 0), "f: general.alignment is 33 of the type 4, and must be a power of two"},
	} {
		f, err := Read(bytes.NewReader(c.data), int64(len(c.data)), "f", nil)
		if err == nil {
			f.Layers()
			_, err = f.Layer(c.name)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.what, err, c.want)
		}
	}
	if _, err := Open("none.gguf"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	// Cut anywhere it is an error, and not a layer.
	data, err := os.ReadFile("testdata/gguf/gguf.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(data)-64; n += 7 {
		if _, err := readGGUF(bytes.NewReader(data[:n]), int64(n), "f"); err == nil {
			t.Errorf("%d of %d bytes are a file", n, len(data))
		}
	}
}

// ggufNaN is a file whose last 144 bytes begin with a scale that is no number.
func ggufNaN(data []byte) []byte {
	data = slices.Clone(data)
	copy(data[len(data)-144:], []byte{0, 0x7e})
	return data
}

// TestSplit takes files and layers off texts.
func TestSplit(t *testing.T) {
	for spec, want := range map[string][2]string{
		"m.gguf": {"m.gguf", ""}, "a:b/M.GGUF:blk.0.attn_q": {"a:b/M.GGUF", "blk.0.attn_q"}, "m.safetensors:l": {"m.safetensors", "l"}, "m.gguf.txt:l": {}, "": {},
	} {
		path, name, ok := Split(spec)
		if path != want[0] || name != want[1] || ok != (want[0] != "") {
			t.Errorf("%s: %q, %q, %t", spec, path, name, ok)
		}
	}
}
