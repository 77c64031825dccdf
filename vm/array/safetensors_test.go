package array

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// byLibrary is a file as safetensors 0.8.0 writes it.
const byLibrary = "\xe0\x00\x00\x00\x00\x00\x00\x00" +
	`{"__metadata__":{"made":"by safetensors"},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"a.weight":{"dtype":"BF16","shape":[2,2],"data_offsets":[4,12]},"c":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[12,15]}}       ` +
	"\x00\x00 @\x80?\x00\xc0\x00\x00I@8\xc0~"

// tensors is a file with a header and data.
func tensors(head string, data ...byte) []byte {
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), []byte(head), data)
}

func TestLoadTensors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte(byLibrary))
	for spec, want := range map[string]string{
		":a.weight":         "bf16[2, 2] [1 -2 0 3.140625]",
		":b":                "f32[] [2.5]",
		":c":                "f8e4m3[3] [1 -2 448]",
		":c:u8":             "u8[3] [56 192 126]",
		":c:i4[2, 3]":       "i4[2, 3] [-8 3 0 -4 -2 7]",
		":a.weight:i16[4]":  "i16[4] [16256 -16384 0 16457]",
		":a.weight:f16":     "f16[2, 2] [1.875 -2 0 2.142578125]",
		":a.weight:f32":     "f32 has 32 bits, and the elements of the file have 16 [Array.N8]",
		":a.weight:f32[3]":  "f32[3] takes 12 bytes, and the file has 8 [Array.N8]",
		":c:f17":            fmt.Sprintf(`1:%d: "f17" is not an element type`, len(path)+4),
		"":                  "the file has 3 arrays, and none is named: write " + path + ":NAME [Array.N10]\n\thelp: there are a.weight, b, c",
		":":                 "the file has 3 arrays, and none is named",
		":a.weigth":         `none of the file's 3 arrays is called "a.weigth" [Array.N10]` + "\n\thelp: did you mean a.weight?",
		":weight":           "help: did you mean a.weight?",
		":model.embeddings": "help: there are a.weight, b, c",
	} {
		a, err := FromSpec(path + spec)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(a.Header(), " ", a.Floats())
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", spec, got, want)
		}
	}
	if _, err := Load(filepath.Join(dir, "none.safetensors:x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	one := `{"w":{"dtype":"%s","shape":%s,"data_offsets":%s}}`
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"one array needs no name", tensors(fmt.Sprintf(one, "F4", "[3]", "[0,2]"), 0x21, 0xff), "f4e2m1[3] [0.5 1 -6]"},
		{"no elements", tensors(fmt.Sprintf(one, "F16", "[0,4]", "[0,0]")), "f16[0, 4] []"},
		{"no arrays", tensors(`{}`), "the file has 0 arrays"},
		{"empty", nil, "this is no .safetensors file [Array.N5]"},
		{"text", []byte("hello, world, hello"), "or no .safetensors file [Array.N5]"},
		{"cut header", tensors(`{"w":`)[:11], "it is cut short"},
		{"huge header", binary.LittleEndian.AppendUint64(nil, 1<<63), "a header of 9223372036854775808 bytes"},
		{"long header", tensors(strings.Repeat(" ", maxTensorsHeader+1)), "at most 16777216 are read"},
		{"no JSON", tensors(`{"w":}`), "the header is no JSON object"},
		{"a list", tensors(`[]`), "the header is no JSON object"},
		{"no description", tensors(`{"w":3}`), "the header does not say what w is"},
		{"half a size", tensors(fmt.Sprintf(one, "F16", "[1.5]", "[0,2]"), 0, 0), "the header does not say what w is"},
		{"negative", tensors(fmt.Sprintf(one, "F16", "[-1]", "[0,2]"), 0, 0), "is not possible [Array.N4]"},
		{"too large", tensors(fmt.Sprintf(one, "F64", "[4611686018427387903,4611686018427387903]", "[0,2]"), 0, 0), "is not possible [Array.N4]"},
		{"another type", tensors(fmt.Sprintf(one, "C64", "[1]", "[0,8]"), make([]byte, 8)...), `w is of the type "C64", which has no element type here [Array.N6]`},
		{"cut data", tensors(fmt.Sprintf(one, "F16", "[2]", "[0,4]"), 0, 0), "w lies in bytes 0 to 4, and the file has 2 behind its header [Array.N7]"},
		{"backwards", tensors(fmt.Sprintf(one, "F16", "[1]", "[2,0]"), 0, 0), "w lies in bytes 2 to 0"},
		{"before the data", tensors(fmt.Sprintf(one, "F16", "[1]", "[-2,0]"), 0, 0), "w lies in bytes -2 to 0"},
		{"another length", tensors(fmt.Sprintf(one, "F16", "[1]", "[0,1]"), 0, 0), "w has 1 bytes, and f16[1] takes 2 [Array.N7]"},
	} {
		write(c.data)
		a, err := Load(path)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(a.Header(), " ", a.Floats())
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	// Of many arrays some are listed.
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf(`"model.layers.%d.mlp.down_proj.weight":{"dtype":"F16","shape":[0],"data_offsets":[0,0]}`, i))
	}
	write(tensors("{" + strings.Join(many, ",") + "}"))
	if _, err := Load(path + ":down_proj"); err == nil || !strings.Contains(err.Error(), "did you mean model.layers.0.mlp.down_proj.weight, ") || !strings.Contains(err.Error(), " and 12 more?") {
		t.Error(err)
	}
}

// TestTensorsPart reads parts of arrays, and finds those that there are not.
func TestTensorsPart(t *testing.T) {
	file := func(head string, data ...byte) *Tensors {
		t.Helper()
		content := tensors(head, data...)
		f, err := ReadTensors(bytes.NewReader(content), int64(len(content)), "f")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := file(`{"w":{"dtype":"U8","shape":[3,2],"data_offsets":[1,7]},"f":{"dtype":"F4","shape":[2,2],"data_offsets":[0,2]},"s":{"dtype":"U8","shape":[],"data_offsets":[0,1]},
		"short":{"dtype":"U8","shape":[4,2],"data_offsets":[1,7]},"past":{"dtype":"U8","shape":[2,4],"data_offsets":[1,9]},"many":{"dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,8]}}`, 9, 1, 2, 3, 4, 5, 6)
	for i := range 3 {
		a, err := f.Part("w", i)
		if err != nil || a.Header() != "u8[2]" || a.At(0) != float64(2*i+1) || a.At(1) != float64(2*i+2) {
			t.Errorf("part %d: %v, %v", i, a, err)
		}
	}
	if typ, shape, ok := f.Head("w"); typ != "U8" || !slices.Equal(shape, []int{3, 2}) || !ok || len(f.Names()) != 6 {
		t.Error(typ, shape, ok, f.Names())
	}
	for _, c := range []struct {
		name string
		i    int
		want string
	}{
		{"w", 3, "has no part 3"}, {"w", -1, "has no part -1"}, {"f", 0, "has no part 0"}, {"s", 0, "has no part 0"}, {"x", 0, "none of the file's 6 arrays"},
		{"short", 0, "short lies in bytes 1 to 7"}, {"past", 1, "past lies in bytes 5 to 9, and the file has 7"}, {"many", 0, "many lies in bytes 0 to 8"},
	} {
		if a, err := f.Part(c.name, c.i); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s[%d]: %v, %v", c.name, c.i, a, err)
		}
	}
}

// TestSaveTensors writes arrays that are read back as they were, each at a multiple of its elements' size.
func TestSaveTensors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	arrays := map[string]*Array{}
	for name, spec := range map[string]string{"codes": "randcode:u8[3, 5]", "scales": "randn:bf16[2, 3]", "powers": "randcode:f8e8m0[7]", "none": "zeros:f16[0, 4]", "wide": "randn:f64[2]"} {
		a, err := Generate(spec)
		if err != nil {
			t.Fatal(err)
		}
		arrays[name] = a
	}
	arrays["factor"] = FromFloats(dtype.F32, []int{}, []float64{0.75})
	if err := SaveTensors(path, arrays); err != nil {
		t.Fatal(err)
	}
	f, err := OpenTensors(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := f.Names(); len(got) != len(arrays) {
		t.Errorf("%v", got)
	}
	if at := f.heads["codes"].in.data; at%8 != 0 {
		t.Errorf("arrays begin at %d", at)
	}
	for name, want := range arrays {
		got, err := f.Array(name)
		if err != nil || got.Type != want.Type || !slices.Equal(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if size := int64(want.Type.Bits() / 8); f.heads[name].Bytes[0]%size != 0 {
			t.Errorf("%s is at %d", name, f.heads[name].Bytes[0])
		}
	}
	if err := SaveTensors(path, map[string]*Array{"w": New(dtype.I6, 2)}); err == nil || !strings.Contains(err.Error(), "w is i6[2], and .safetensors files have no name") {
		t.Error(err)
	}
	if err := SaveTensors(filepath.Join(path, "below"), nil); err == nil {
		t.Error("a file below a file")
	}
}

// TestIndex reads arrays of a model in several files.
func TestIndex(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors.index.json")
	for file, arrays := range map[string]map[string]*Array{
		"model-1.safetensors": {"a": FromFloats(dtype.F16, []int{2}, []float64{1, 2}), "more": New(dtype.U8, 3)},
		"model-2.safetensors": {"b": FromFloats(dtype.F32, []int{}, []float64{3})},
	} {
		if err := SaveTensors(filepath.Join(dir, file), arrays); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ index, spec, want string }{
		{`{"metadata":{},"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}`, ":a", "f16[2] [1 2]"},
		{`{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}`, ":b", "f32[] [3]"},
		{`{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}`, ":b:u32", "u32[] [1.077936128e+09]"},
		{`{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}`, ":c", `none of the file's 2 arrays is called "c"`},
		{`{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}`, "", "the file has 2 arrays, and none is named"},
		{`{"weight_map":{"a":"none.safetensors"}}`, ":a", "none.safetensors, in which the index has a, is not there [Array.N5]"},
		{`{"weight_map":{"b":"model-1.safetensors"}}`, ":b", "the index has b in model-1.safetensors, which does not have it"},
		{`{"weight_map":{"a":"../model-1.safetensors"}}`, ":a", "is no .safetensors file beside it"},
		{`{"weight_map":{"a":"model.safetensors.index.json"}}`, ":a", "is no .safetensors file beside it"},
		{`{"weights":{}}`, ":a", "the file has no weight_map"},
		{`[`, ":a", "the file has no weight_map"},
	} {
		if err := os.WriteFile(path, []byte(c.index), 0o644); err != nil {
			t.Fatal(err)
		}
		a, err := FromSpec(path + c.spec)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(a.Header(), " ", a.Floats())
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s, %q: %s, want %s", c.index, c.spec, got, c.want)
		}
	}
}

func FuzzTensors(f *testing.F) {
	f.Add([]byte(byLibrary), "a.weight")
	f.Add(tensors(`{"w":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}`, 0x21, 0xff), "")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		file, err := ReadTensors(bytes.NewReader(data), int64(len(data)), "f")
		if err != nil {
			return
		}
		if part, err := file.Part(name, 1); err == nil && len(part.Data) > len(data) {
			t.Fatalf("a part %s from a file of %d bytes", part.Header(), len(data))
		}
		a, err := loadTensor(file, name, nil)
		if err != nil {
			return
		}
		if len(a.Data) != dtype.PackedBytes(a.Type.Bits(), a.Len()) || len(a.Data) > len(data) {
			t.Fatalf("%s has %d bytes from a file of %d", a.Header(), len(a.Data), len(data))
		}
		_ = a.String()
	})
}

// endsWith reads bytes, and tells that they end beside the last of them, as readers may.
type endsWith []byte

func (b endsWith) ReadAt(p []byte, at int64) (int, error) {
	n := copy(p, b[min(at, int64(len(b))):])
	if int(at)+n == len(b) {
		return n, io.EOF
	}
	return n, nil
}

// TestReadTensors: an end that is told beside all bytes is none, and an error of a reader stays that.
func TestReadTensors(t *testing.T) {
	f, err := ReadTensors(endsWith(byLibrary), int64(len(byLibrary)), "x")
	if err != nil {
		t.Fatal(err)
	}
	if a, err := f.Array("c"); err != nil || a.Header() != "f8e4m3[3]" {
		t.Errorf("%v, %v", a, err)
	}
	if _, err := ReadTensors(nil, 10, "x"); err == nil || !strings.Contains(err.Error(), "OpenTensors") {
		t.Errorf("nothing to read from: %v", err)
	}
	if _, err := OpenTensors(t.TempDir()); err == nil || strings.Contains(err.Error(), codeHeader) {
		t.Errorf("a directory: %v", err)
	}
}
