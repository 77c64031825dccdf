package checkpoint

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

var layers = flag.String("layers", "testdata", "a folder that testdata/make.py has filled")

// wanted are the dequantised layers of a folder, by name.
func wanted(t *testing.T, path string) *array.Tensors {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	w, err := array.ReadTensors(bytes.NewReader(data), int64(len(data)), path)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// dequantized are weights as f32.
func dequantized(t *testing.T, q *qmm.Weights) *array.Array {
	t.Helper()
	w, err := q.Dequantize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// kinds are those of the layers that are committed.
var kinds = map[string]string{
	"gptq/u2": "u2 group=32 scale=f16 act=f16 zero", "gptq/u3": "u3 group=32 scale=f16 act=f16 zero", "gptq/u4": "u4 group=32 scale=f16 act=f16 zero", "gptq/u8": "u8 group=32 scale=f16 act=f16 zero",
	"gptq/channel": "u4 group=channel scale=f16 act=f16 zero", "gptq/ragged": "u4 group=32 scale=f16 act=f16 zero", "gptq/narrow": "u4 group=32 scale=f16 act=f16 zero",
	"gptq/symmetric": "i4 group=32 scale=f16 act=f16", "gptq/symmetric8": "i8 group=32 scale=f16 act=f16",
	"gptq/actorder": "i4 group=32 scale=f16 act=f16", "actorder/ragged": "u4 group=32 scale=f16 act=f16 zero", "actorder/three": "u3 group=32 scale=f16 act=f16 zero", "actorder/eight": "u8 group=32 scale=f16 act=f16 zero",
	"actorder/packed": "i4 group=32 scale=bf16 act=bf16", "actorder/packed_zero": "u8 group=32 scale=f16 act=f16 zero",
	"awq/group32": "u4 group=32 scale=f16 act=f16 zero", "awq/group128": "u4 group=128 scale=f16 act=f16 zero", "awq/channel": "u4 group=channel scale=f16 act=f16 zero", "awq/symmetric": "i4 group=32 scale=f16 act=f16",
	"pack_quantized/i4": "i4 group=32 scale=bf16 act=bf16", "pack_quantized/i8": "i8 group=32 scale=f16 act=f16", "pack_quantized/i2": "i2 group=32 scale=f16 act=f16",
	"pack_quantized/u4": "u4 group=32 scale=bf16 act=bf16 zero", "pack_quantized/u8": "u8 group=32 scale=f16 act=f16 zero", "pack_quantized/channel": "i4 group=channel scale=bf16 act=bf16",
	"pack_quantized/channel_zero": "u4 group=channel scale=f16 act=f16 zero", "pack_quantized/tensor": "i8 group=channel scale=f16 act=f16", "pack_quantized/f32": "i4 group=32 scale=bf16 act=bf16",
	"fp8/channel": "f8e4m3 group=channel scale=bf16 act=bf16", "fp8/vector": "f8e4m3 group=channel scale=f16 act=f16", "fp8/tensor": "f8e4m3 group=channel scale=f16 act=f16 factor",
	"fp8/scalar": "f8e4m3 group=channel scale=f16 act=f16 factor", "fp8/tensor16": "f8e4m3 group=channel scale=bf16 act=bf16",
	"nvfp4/power": "f4e2m1 group=16 scale=f8e4m3 act=f16 factor", "nvfp4/modelopt_odd": "f4e2m1 group=16 scale=f8e4m3 act=f16 factor",
	"int_quantized/channel": "i8 group=channel scale=bf16 act=bf16", "int_quantized/group": "i8 group=32 scale=f16 act=f16", "int_quantized/tensor": "i8 group=channel scale=f16 act=f16",
	"int_quantized/zero": "u8 group=channel scale=f16 act=f16 zero", "int_quantized/group_zero": "u8 group=32 scale=bf16 act=bf16 zero", "int_quantized/f32": "i8 group=channel scale=bf16 act=bf16",
	"fp8_block/qwen": "f8e4m3 group=128 scale=bf16 act=bf16", "fp8_block/deepseek": "f8e4m3 group=128 scale=bf16 act=bf16", "fp8_block/e8m0": "f8e4m3 group=128 scale=f8e8m0 act=f16",
	"fp8_block/compressed": "f8e4m3 group=channel scale=bf16 act=bf16", "fp8_block/small": "f8e4m3 group=32 scale=f16 act=f16", "fp8_block/one": "f8e4m3 group=channel scale=f16 act=f16",
	"fp8_group/bf16": "f8e4m3 group=32 scale=bf16 act=bf16", "fp8_group/f32": "f8e4m3 group=128 scale=bf16 act=bf16",
	"mxfp8/compressed": "f8e4m3 group=32 scale=f8e8m0 act=f16", "mxfp8/typed": "f8e4m3 group=32 scale=f8e8m0 act=f16", "mxfp6/compressed": "f6e2m3 group=32 scale=f8e8m0 act=f16",
	"quark_e2m3/six": "f6e2m3 group=32 scale=f8e8m0 act=f16", "quark_e2m3/four": "f4e2m1 group=32 scale=f8e8m0 act=f16", "quark_e3m2/six": "f6e3m2 group=32 scale=f8e8m0 act=f16",
	"quark_e3m2/channel": "f8e5m2 group=channel scale=bf16 act=bf16", "quark_e3m2/tensor": "f8e5m2 group=channel scale=f16 act=f16 factor",
	"hqq/b8": "u8 group=32 scale=f16 act=f16 zero=any", "hqq/b4": "u4 group=64 scale=f16 act=f16 zero=any", "hqq/b3": "u3 group=32 scale=bf16 act=bf16 zero=any",
	"hqq/b2": "u2 group=16 scale=bf16 act=bf16 zero=any", "hqq/b1": "u1 group=32 scale=f16 act=f16 zero=any", "hqq/channel": "u4 group=channel scale=f16 act=f16 zero",
	"gguf/q4_0": "i4 group=32 scale=f16 act=f16", "gguf/q5_0": "i5 group=32 scale=f16 act=f16", "gguf/q8_0": "i8 group=32 scale=f16 act=f16", "gguf/tq2_0": "u2 group=256 scale=f16 act=f16 zero",
	"gguf/mxfp4": "f4e2m1 group=32 scale=f8e8m0 act=f16", "gguf/one": "i4 group=channel scale=f16 act=f16", "gguf/exps[2]": "f4e2m1 group=32 scale=f8e8m0 act=f16",
	"bias/half": "i4 group=32 scale=f16 act=f16", "bias/experts.gate_up_proj[1]": "f4e2m1 group=32 scale=f8e8m0 act=bf16", "bias/block.0.mlp.mlp1_weight[0]": "f4e2m1 group=32 scale=f8e8m0 act=bf16",
	"mxfp4/compressed": "f4e2m1 group=32 scale=f8e8m0 act=f16", "mxfp4/experts.gate_up_proj[2]": "f4e2m1 group=32 scale=f8e8m0 act=f16", "mxfp4/block.0.mlp.mlp2_weight[0]": "f4e2m1 group=32 scale=f8e8m0 act=f16",
}

// TestLayers dequantises layers bit for bit as the libraries do for which they are.
func TestLayers(t *testing.T) {
	count := map[string]int{}
	dirs, err := os.ReadDir(*layers)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if !dir.IsDir() || dir.Name() == "fuzz" {
			continue
		}
		path := filepath.Join(*layers, dir.Name(), dir.Name()+".safetensors")
		if dir.Name() == "gguf" {
			path = strings.TrimSuffix(path, ".safetensors") + ggufSuffix
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		listed := map[string]Found{}
		for _, found := range f.Layers() {
			listed[found.Name] = found
		}
		want := wanted(t, strings.TrimSuffix(path, filepath.Ext(path))+".want.safetensors.gz")
		for _, name := range want.Names() {
			id := dir.Name() + "/" + name
			w, err := want.Array(name)
			if err != nil {
				t.Fatal(err)
			}
			if of, ok := strings.CutSuffix(name, ".bias"); ok {
				q, err := f.Layer(of)
				if err != nil {
					t.Fatal(err)
				}
				b, err := f.Bias(of, q.Linear)
				if err != nil || b.Type != q.ActType || !array.Compare(b.Cast(dtype.F32), w).Equal() {
					t.Errorf("%s: %v, %v; want %v", id, b, err, w)
				}
				count["biases"]++
				continue
			}
			q, err := Layer(path, name)
			if err != nil {
				t.Errorf("%s: %v", id, err)
				continue
			}
			if r := array.Compare(dequantized(t, q), w); !r.Equal() {
				t.Errorf("%s as %s: %v", id, q.Linear, r)
			}
			if shuffled := dir.Name() == "actorder" || name == "actorder"; shuffled != (q.Order != nil) {
				t.Errorf("%s has the order %v", id, q.Order)
			}
			if kind := kinds[id]; kind != "" && kind != q.String() {
				t.Errorf("%s is %s, not %s", id, q, kind)
			}
			one, _, _ := strings.Cut(name, "[")
			if found := listed[one]; found.Err != nil || found.Kind != q.Linear || found.Format == "" || found.Experts > 0 != (one != name) {
				t.Errorf("%s is listed as %+v, and is %s", id, found, q.Linear)
			}
			count[dir.Name()]++
		}
		f.Close()
	}
	if want := map[string]int{"gptq": 10, "gptq_v2": 10, "actorder": 5, "awq": 4, "pack_quantized": 9, "fp8": 5, "nvfp4": 4, "mxfp4": 5, "int_quantized": 6, "fp8_block": 6, "fp8_group": 2, "mxfp8": 2, "mxfp6": 1, "quark_e2m3": 2, "quark_e3m2": 3, "hqq": 6, "gguf": 9, "bias": 9, "biases": 9}; !maps.Equal(count, want) {
		t.Errorf("layers %v, not %v", count, want)
	}
}

// TestFiles reads a layer whose arrays are in two files of a model, by its index.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	from, err := array.OpenTensors("testdata/awq/awq.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	index := map[string]map[string]string{"weight_map": {}}
	files := map[string]map[string]*array.Array{"model-1.safetensors": {}, "model-2.safetensors": {}}
	for i, name := range from.Names() {
		a, err := from.Array(name)
		if err != nil {
			t.Fatal(err)
		}
		file := []string{"model-1.safetensors", "model-2.safetensors"}[i%2]
		files[file][name], index["weight_map"][name] = a, file
	}
	for file, arrays := range files {
		if err := array.SaveTensors(filepath.Join(dir, file), arrays); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "model.safetensors.index.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	want, err := Layer("testdata/awq/awq.safetensors", "group32")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Layer(path, "group32")
	if err != nil || got.Linear != want.Linear || !array.Compare(dequantized(t, got), dequantized(t, want)).Equal() {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Layer(filepath.Join(dir, "model-1.safetensors"), "group32"); err == nil {
		t.Error("half a layer is one")
	}
	// A layer that is whole, but for its bias.
	whole, bias := map[string]*array.Array{}, array.FromFloats(dtype.F16, []int{want.N}, slices.Repeat([]float64{0.5}, want.N))
	for _, name := range from.Names() {
		if whole[name], err = from.Array(name); err != nil {
			t.Fatal(err)
		}
	}
	text, err = json.Marshal(map[string]map[string]string{"weight_map": {"group32.qweight": "model-1.safetensors", "group32.qzeros": "model-1.safetensors", "group32.scales": "model-1.safetensors", "group32.bias": "model-2.safetensors"}})
	if err := errors.Join(err, array.SaveTensors(filepath.Join(dir, "model-1.safetensors"), whole), array.SaveTensors(filepath.Join(dir, "model-2.safetensors"), map[string]*array.Array{"group32.bias": bias}), os.WriteFile(path, text, 0o644)); err != nil {
		t.Fatal(err)
	}
	for file, lost := range map[string]string{path: "", filepath.Join(dir, "model-1.safetensors"): "group32: its bias, group32.bias, is in model-2.safetensors, another of the model's files: name the layer as " + path + ":group32"} {
		f, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := f.Bias("group32", want.Linear)
		if lost == "" && (err != nil || b == nil || b.At(1) != 0.5) || lost != "" && (err == nil || !strings.Contains(err.Error(), lost)) {
			t.Errorf("%s: %v, %v", file, b, err)
		}
		f.Close()
	}
}

// tensor is an array of a file that a test makes.
type tensor struct {
	name, typ string
	shape     []int
	data      []byte
}

// zeros is an array of zeros, of so many bytes an element.
func zeros(name, typ string, size int, shape ...int) tensor {
	n := size
	for _, d := range shape {
		n *= d
	}
	return tensor{name, typ, shape, make([]byte, n)}
}

// filled is an array of words.
func filled(name string, word uint32, shape ...int) tensor {
	t := zeros(name, "I32", 4, shape...)
	for i := 0; i < len(t.data); i += 4 {
		binary.LittleEndian.PutUint32(t.data[i:], word)
	}
	return t
}

// with is an array whose bytes from one on are others.
func (t tensor) with(at int, data ...byte) tensor {
	t.data = slices.Clone(t.data)
	copy(t.data[at:], data)
	return t
}

// file is a .safetensors file.
func file(tensors ...tensor) []byte {
	head, data := map[string]any{}, []byte{}
	for _, t := range tensors {
		head[t.name] = map[string]any{"dtype": t.typ, "shape": t.shape, "data_offsets": []int{len(data), len(data) + len(t.data)}}
		data = append(data, t.data...)
	}
	text, err := json.Marshal(head)
	if err != nil {
		panic(err)
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, data)
}

// inOrder is g_idx of groups of neighbours.
func inOrder(name string, k, group int) tensor {
	t := filled(name, 0, k)
	for i := range k {
		binary.LittleEndian.PutUint32(t.data[4*i:], uint32(i/group))
	}
	return t
}

// quarks is a configuration of Quark.
func quarks(dtype, scale string) string {
	return `{"quantization_config":{"global_quant_config":{"weight":{"dtype":"` + dtype + `","scale_format":"` + scale + `"},"bias":null}}}`
}

// hqq is a layer [16, 64] of HQQ, whose words have so many rows.
func hqq(typ string, bits, rows, group, axis byte) []tensor {
	size := map[string]int{"U8": 1, "I32": 4}[typ]
	number := func(name string, v byte) tensor { return zeros(name, "I32", 4).with(0, v) }
	groups := 16 * 64 / int(group)
	if 16*64%int(group) != 0 {
		groups = 32
	}
	return []tensor{zeros("l.W_q", typ, size, int(rows), int(group)), zeros("l.scale", "F16", 2, groups, 1), zeros("l.zero", "F16", 2, groups, 1),
		number("l.nbits", bits), number("l.group_size", group), number("l.axis", axis), tensor{"l.shape", "I64", []int{2}, zeros("", "I64", 8, 2).with(0, 16).with(8, 64).data}}
}

func shape(n, k int) tensor {
	data := binary.LittleEndian.AppendUint64(nil, uint64(n))
	return tensor{"l.weight_shape", "I64", []int{2}, binary.LittleEndian.AppendUint64(data, uint64(k))}
}

// TestRefused holds what is no layer, and what is said of it.
func TestRefused(t *testing.T) {
	qweight, scales, order := zeros("l.qweight", "I32", 4, 8, 16), zeros("l.scales", "F16", 2, 2, 16), inOrder("l.g_idx", 64, 32)
	packed, packedScale := zeros("l.weight_packed", "I32", 4, 16, 8), zeros("l.weight_scale", "BF16", 2, 16, 2)
	weight := zeros("l.weight", "F8_E4M3", 1, 16, 64)
	fp4, fp4Scale, one := zeros("l.weight", "U8", 1, 16, 32), zeros("l.weight_scale", "F8_E4M3", 1, 16, 4), tensor{"l.weight_scale_2", "F32", []int{}, []byte{0, 0, 128, 63}}
	blocks, blockScales := zeros("e_blocks", "U8", 1, 3, 16, 2, 16), zeros("e_scales", "U8", 1, 3, 16, 2)
	const v1, v2, other = `{"bits":4,"checkpoint_format":"gptq"}`, `{"quantization_config":{"bits":4,"quant_method":"gptq","checkpoint_format":"gptq_v2"}}`, `{"bits":4,"quant_method":"auto-round"}`
	for _, c := range []struct {
		what, layer, config string
		tensors             []tensor
		want                string // "" is a layer that is read
	}{
		{"symmetric without a configuration", "l", "", []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales, order}, ""},
		{"the newer form without one", "", "", []tensor{qweight, filled("l.qzeros", 0x88888888, 2, 2), scales, order}, ""},
		{"the newer form against one", "", v1, []tensor{qweight, filled("l.qzeros", 0x88888888, 2, 2), scales, order}, ""},
		{"AutoGPTQ's configuration", "l", `{"bits":4,"group_size":32}`, []tensor{qweight, filled("l.qzeros", 0x12345678, 2, 2), scales, order}, ""},
		{"contradiction", "l", v2, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales, order}, "f:l: all zero points are stored as 7, which is the middle 8 less one, and the configuration beside the file says"},
		{"zero points of any form", "l", "", []tensor{qweight, filled("l.qzeros", 0x12345678, 2, 2), scales, order}, "f:l: nothing says whether zero points are stored less one: put quantize_config.json"},
		{"zero points beside half a configuration", "l", `{"bits":4,`, []tensor{qweight, filled("l.qzeros", 0x12345678, 2, 2), scales, order}, "nothing says whether zero points are stored less one: unexpected end of JSON input"},
		{"zero points of another writer", "l", other, []tensor{qweight, filled("l.qzeros", 0x12345678, 2, 2), scales, order}, "nothing says whether"},
		{"a zero point beyond", "l", v1, []tensor{qweight, filled("l.qzeros", 0x123f5678, 2, 2), scales, order}, "zero point [0, 4] is stored as 15, with one less: libraries take 16, 0, or carry"},
		{"the same of the newer form", "l", v2, []tensor{qweight, filled("l.qzeros", 0x123f5678, 2, 2), scales, order}, ""},
		{"act-order", "l", v1, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales, order.with(20, 1).with(240, 0)}, ""},
		{"act-order, groups of other sizes", "l", v1, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales, order.with(20, 1)}, "f:l: g_idx has 33 inputs of group 1 and 31 of group 0, and programs take groups of as many inputs each, but for the last one, which may have fewer; quantise the layer again, or dequantise it, and"},
		{"act-order, a group of 48", "l", v1, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales, inOrder("l.g_idx", 64, 48).with(0, 1).with(192, 0)}, "f:l: qmm:"},
		{"act-order, a gap", "l", v1, []tensor{zeros("l.qweight", "I32", 4, 8, 16), filled("l.qzeros", 0x77777777, 3, 2), zeros("l.scales", "F16", 2, 3, 16), filled("l.g_idx", 2, 64).with(0, make([]byte, 128)...).with(20, 2).with(240, 0)}, "f:l: no input is of group 1 by g_idx, and there are scales of 3 groups; quantise"},
		{"act-order, a group beyond", "l", v1, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales, order.with(20, 2)}, "f:l: g_idx[5] is 2, and there are scales of 2 groups, 0 to 1; quantise the layer again"},
		{"act-order, below 0", "l", v1, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales, order.with(20, 255, 255, 255, 255)}, "f:l: g_idx[5] is -1, and"},
		{"act-order, wrong length", "l", v1, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales, inOrder("l.g_idx", 56, 32).with(20, 1)}, "no codes of 2, 3, 4 or 8 bits have such arrays: qweight I32[8, 16], qzeros I32[2, 2], g_idx I32[56]"},
		{"act-order of two dimensions", "l", v1, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales, filled("l.g_idx", 0, 1, 64)}, "g_idx is I32[1, 64], and has 1 dimensions"},
		{"other inputs", "l", v1, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales, inOrder("l.g_idx", 96, 48)}, "no codes of 2, 3, 4 or 8 bits have such arrays: qweight I32[8, 16], qzeros I32[2, 2], g_idx I32[96]"},
		{"five bits", "l", v1, []tensor{zeros("l.qweight", "I32", 4, 10, 32), filled("l.qzeros", 0, 2, 5), zeros("l.scales", "F16", 2, 2, 32), order}, "no codes of 2, 3, 4 or 8 bits"},
		{"3 bits in planes", "l", `{"bits":3,"format":"gptq_p"}`, []tensor{zeros("l.qweight", "I32", 4, 6, 32), filled("l.qzeros", 0, 2, 3), zeros("l.scales", "F16", 2, 2, 32), order}, "checkpoint_format gptq_p has codes of 3 bits in an order"},
		{"groups of 48", "l", v1, []tensor{zeros("l.qweight", "I32", 4, 12, 16), filled("l.qzeros", 0x77777777, 2, 2), scales, inOrder("l.g_idx", 96, 48)}, "f:l: qmm:"},
		{"other groups than scales", "l", v1, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales, inOrder("l.g_idx", 64, 16)}, "f:l: g_idx[32] is 2, and there are scales of 2 groups, 0 to 1"},
		{"groups that may be two", "l", v1, []tensor{zeros("l.qweight", "I32", 4, 50, 16), filled("l.qzeros", 0x77777777, 3, 2), zeros("l.scales", "F16", 2, 3, 16)}, "400 inputs are not 3 groups"},
		{"scales of other groups", "l", v1, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), zeros("l.scales", "F16", 2, 3, 16), order}, "scales is F16[3, 16], and must be [2, 16]"},
		{"shapes of neither", "l", v1, []tensor{qweight, filled("l.qzeros", 0, 2, 2), zeros("l.scales", "F16", 2, 2, 24)}, "shapes do not fit each other: gptq has codes [K·bits/32, N], awq"},
		{"no zero points", "l", v1, []tensor{qweight, scales, order}, "it has g_idx I32[64], qweight I32[8, 16], scales F16[2, 16]. That is nearly gptq, but qzeros is missing, which may be in another of the model's files"},
		{"scales of another type", "l", v1, []tensor{qweight, filled("l.qzeros", 0, 2, 2), zeros("l.scales", "F64", 8, 2, 16), order}, "nearly gptq, but scales must be F16 or BF16 or F32"},
		{"nothing", "l", v1, []tensor{filled("l.qzeros", 0, 0, 2), zeros("l.qweight", "I32", 4, 0, 16), zeros("l.scales", "F16", 2, 0, 16)}, "qweight is I32[0, 16]: a layer has 1 to 16777216"},
		{"infinity", "l", v1, []tensor{qweight, filled("l.qzeros", 0x77777777, 2, 2), scales.with(6, 0, 0x7c), order}, "scales[0, 3] is +Inf"},
		{"awq in odd groups", "l", "", []tensor{zeros("l.qweight", "I32", 4, 64, 2), filled("l.qzeros", 0, 3, 2), zeros("l.scales", "F16", 2, 3, 16)}, "64 inputs are not 3 groups of"},
		{"packed", "l", "", []tensor{packed, packedScale, shape(16, 64)}, ""},
		{"packed, g_idx unused", "l", "", []tensor{packed, packedScale, shape(16, 64), filled("l.weight_g_idx", 0xffffffff, 64)}, ""},
		{"packed, act-order", "l", "", []tensor{packed, packedScale, shape(16, 64), inOrder("l.weight_g_idx", 64, 32).with(0, 1).with(128, 0)}, ""},
		{"packed, other groups", "l", "", []tensor{packed, packedScale, shape(16, 64), inOrder("l.weight_g_idx", 64, 32).with(0, 1)}, "f:l: weight_g_idx has 33 inputs of group 1 and 31 of group 0"},
		{"packed, some of no group", "l", "", []tensor{packed, packedScale, shape(16, 64), inOrder("l.weight_g_idx", 64, 32).with(8, 255, 255, 255, 255)}, "f:l: weight_g_idx[2] is -1, and there are scales of 2 groups"},
		{"packed, g_idx of other inputs", "l", "", []tensor{packed, packedScale, shape(16, 64), inOrder("l.weight_g_idx", 60, 32)}, "f:l: weight_g_idx is I32[60], and must be [64] beside"},
		{"packed, other outputs", "l", "", []tensor{packed, packedScale, shape(17, 64)}, "weight_shape says 17 outputs, and weight_packed is I32[16, 8]"},
		{"packed, 3 bits", "l", "", []tensor{packed, packedScale, shape(16, 80)}, "80 inputs of codes of 2, 4 or 8 bits are not weight_packed I32[16, 8]; codes of other numbers of bits"},
		{"packed, no inputs", "l", "", []tensor{packed, packedScale, shape(16, -1)}, "weight_shape says -1 inputs"},
		{"packed, many inputs", "l", "", []tensor{packed, packedScale, shape(16, math.MaxInt64)}, "inputs: there are 1 to 16777216"},
		{"packed, few inputs", "l", "", []tensor{zeros("l.weight_packed", "I32", 4, 16, 1), zeros("l.weight_scale", "F16", 2, 16, 1), shape(16, 4)}, "codes of 2 or 4 bits would have such arrays"},
		{"packed, odd groups", "l", "", []tensor{packed, zeros("l.weight_scale", "F16", 2, 16, 3), shape(16, 64)}, "64 inputs are not 3 equal groups"},
		{"packed, zero points of bytes", "l", "", []tensor{packed, packedScale, shape(16, 64), zeros("l.weight_zero_point", "I8", 1, 16, 2)}, "nearly pack-quantized, but weight_zero_point must be I32"},
		{"packed, few zero points", "l", "", []tensor{packed, packedScale, shape(16, 64), filled("l.weight_zero_point", 0, 1, 2)}, "weight_zero_point is I32[1, 2], and must be [2, 2]"},
		{"fp8 of no number", "l", "", []tensor{weight.with(70, 0x7f), zeros("l.weight_scale", "F32", 4)}, "f:l: qmm: code [1, 6] of f8e4m3"},
		{"fp8 in groups", "l", "", []tensor{weight, zeros("l.weight_scale", "F32", 4, 16, 2)}, ""},
		{"fp8 in unequal groups", "l", "", []tensor{weight, zeros("l.weight_scale", "F32", 4, 16, 3)}, "f:l: weight_scale is F32[16, 3], and 64 inputs are not 3 equal groups"},
		{"fp8 in groups of 8", "l", "", []tensor{weight, zeros("l.weight_scale", "BF16", 2, 16, 8)}, "f:l: qmm:"},
		{"fp8 of no number, e5m2", "l", "", []tensor{zeros("l.weight", "F8_E5M2", 1, 16, 64).with(70, 0x7c), zeros("l.weight_scale", "F32", 4)}, "f:l: qmm: code [1, 6] of f8e5m2"},
		{"fp8 of scales of which no type holds all", "l", "", []tensor{weight, zeros("l.weight_scale", "F32", 4, 16, 1).with(4, 0, 0, 0, 8, 0, 32, 128, 63)}, "weight_scale[2, 0] is 1.0009766, which bf16 does not hold, and weight_scale[1, 0] is 3.85186e-34, which f16 does not"},
		{"fp8 in blocks", "l", "", []tensor{weight, zeros("l.weight_scale_inv", "BF16", 2, 1, 2)}, ""},
		{"fp8 in blocks of one output", "l", "", []tensor{zeros("l.weight", "F8_E4M3", 1, 1, 64), zeros("l.weight_scale_inv", "BF16", 2, 1, 2)}, ""},
		{"fp8 in one block, of scale 0", "l", "", []tensor{weight, zeros("l.weight_scale_inv", "F32", 4, 1, 1)}, ""},
		{"fp8 in blocks that are none", "l", "", []tensor{weight, zeros("l.weight_scale_inv", "BF16", 2, 2, 3)}, "weight_scale_inv is BF16[2, 3], and must be [16, 1], one for each output, one for all weights, or one for each block of as many of 16 outputs as of 64 inputs: 16, 32, 64, 128 or another power of two; of others weight_block_size of config.json tells the size"},
		{"fp8, a scale for each output, across", "l", "", []tensor{zeros("l.weight", "F8_E4M3", 1, 32, 512), zeros("l.weight_scale", "BF16", 2, 1, 32)}, "weight_scale is BF16[1, 32], and must be [32, 1], one for each output"},
		{"fp8 in blocks that are no squares", "l", "", []tensor{zeros("l.weight", "F8_E4M3", 1, 64, 64), zeros("l.weight_scale_inv", "BF16", 2, 4, 2)}, "or one for each block of as many"},
		{"fp8 in blocks of a configuration", "l", `{"quantization_config":{"weight_block_size":[16,32]}}`, []tensor{zeros("l.weight", "F8_E4M3", 1, 64, 64), zeros("l.weight_scale_inv", "BF16", 2, 4, 2)}, ""},
		{"fp8 in blocks of groups of a configuration", "l", `{"config_groups":{"group_0":{"weights":{"block_structure":[32,16]}},"group_1":{"weights":{"block_structure":null}}}}`, []tensor{zeros("l.weight", "F8_E4M3", 1, 64, 64), zeros("l.weight_scale_inv", "BF16", 2, 2, 4)}, ""},
		{"fp8 in blocks of another configuration", "l", `{"weight_block_size":[128,128]}`, []tensor{zeros("l.weight", "F8_E4M3", 1, 64, 64), zeros("l.weight_scale_inv", "BF16", 2, 2, 2)}, "the configuration beside the file says blocks of [128 128], which 64 outputs and 64 inputs have no such number of"},
		{"fp8 in blocks of 192", "l", `{"weight_block_size":[192,192]}`, []tensor{zeros("l.weight", "F8_E4M3", 1, 384, 384), zeros("l.weight_scale_inv", "BF16", 2, 2, 2)}, "f:l: qmm:"},
		{"bytes whose inputs are scaled", "l", "", []tensor{zeros("l.weight", "I8", 1, 16, 64), packedScale, zeros("l.pre_quant_scale", "BF16", 2, 64)}, "that is AWQ or SmoothQuant of modelopt, whose inputs are multiplied with a number each, which is not read"},
		{"nvfp4 whose inputs are scaled", "l", "", []tensor{fp4, fp4Scale, one, zeros("l.pre_quant_scale", "BF16", 2, 64)}, "that is AWQ or SmoothQuant of modelopt"},
		{"arrays without a name", "l", "", []tensor{weight, zeros("", "F32", 4)}, "weight_scale is missing"},
		{"fp8 in blocks of 8 inputs", "l", "", []tensor{weight, zeros("l.weight_scale_inv", "BF16", 2, 1, 8)}, "weight_scale_inv is BF16[1, 8], and must be"},
		{"fp8 in blocks of many bits", "l", "", []tensor{weight, zeros("l.weight_scale_inv", "F32", 4, 1, 2).with(4, 1, 0, 128, 63)}, "f:l: weight_scale_inv[0, 1] is 1.0000001, an f32 that neither f16 nor bf16 holds, as which programs take scales; make scales bf16"},
		{"bytes", "l", "", []tensor{zeros("l.weight", "I8", 1, 16, 64), packedScale}, ""},
		{"bytes, scales of other groups", "l", "", []tensor{zeros("l.weight", "I8", 1, 16, 64), zeros("l.weight_scale", "F16", 2, 16, 3)}, "64 inputs are not 3 equal groups"},
		{"bytes, other zero points", "l", "", []tensor{zeros("l.weight", "I8", 1, 16, 64), packedScale, zeros("l.weight_zero_point", "I8", 1, 16, 1)}, "weight_zero_point is I8[16, 1], and must be [16, 2]"},
		{"bytes of bitsandbytes", "l", "", []tensor{zeros("l.weight", "I8", 1, 16, 64), zeros("l.SCB", "F32", 4, 16)}, "that is bitsandbytes"},
		{"bytes alone", "l", "", []tensor{zeros("l.weight", "I8", 1, 16, 64)}, "nearly int-quantized, but weight_scale is missing"},
		{"fp8 with other scales", "l", "", []tensor{weight, zeros("l.weight_scale", "F32", 4, 15, 1)}, "weight_scale is F32[15, 1], and must be [16, 1], one for each output"},
		{"fp8 with f32 scales", "l", "", []tensor{weight, zeros("l.weight_scale", "F32", 4, 16, 1).with(8, 1, 0, 128, 63)}, "weight_scale[2, 0] is 1.0000001, an f32 that neither f16 nor bf16 holds"},
		{"fp8 with zero points", "l", "", []tensor{weight, zeros("l.weight_scale", "F32", 4), zeros("l.weight_zero_point", "F8_E4M3", 1)}, "nearly fp8, but weight_zero_point is no array of it"},
		{"nvfp4", "l", "", []tensor{fp4, fp4Scale, one}, ""},
		{"nvfp4, two factors", "l", "", []tensor{fp4, fp4Scale, zeros("l.weight_scale_2", "F32", 4, 2)}, "weight_scale_2 is F32[2], and must be one number"},
		{"nvfp4, factor 0", "l", "", []tensor{fp4, fp4Scale, zeros("l.weight_scale_2", "F32", 4)}, "One, the factor of all weights, is 0"},
		{"nvfp4, reciprocal of 0", "l", "", []tensor{zeros("l.weight_packed", "U8", 1, 16, 32), fp4Scale, zeros("l.weight_global_scale", "F32", 4, 1)}, "One, the factor of all weights, is +Inf"},
		{"nvfp4, scales of 32", "l", "", []tensor{fp4, zeros("l.weight_scale", "F8_E4M3", 1, 16, 2), one}, "weight_scale is F8_E4M3[16, 2], and must be [16, 4]"},
		{"nvfp4, half a group", "l", "", []tensor{zeros("l.weight", "U8", 1, 16, 4), zeros("l.weight_scale", "F8_E4M3", 1, 16, 1), one}, "no whole number of groups of 16"},
		{"nvfp4, scale of no number", "l", "", []tensor{fp4, fp4Scale.with(1, 0x7f), one}, "weight_scale[0, 1] is NaN"},
		{"mxfp4, half a group", "l", "", []tensor{zeros("l.weight_packed", "U8", 1, 16, 8), zeros("l.weight_scale", "U8", 1, 16, 1)}, "no whole number of groups of 32"},
		{"mxfp4, scales of other outputs", "l", "", []tensor{zeros("l.weight_packed", "U8", 1, 16, 32), zeros("l.weight_scale", "U8", 1, 15, 2)}, "weight_scale is U8[15, 2], and must be [16, 2]"},
		{"mxfp4 of bytes, scales of 16", "l", "", []tensor{zeros("l.weight", "U8", 1, 16, 32), zeros("l.weight_scale", "U8", 1, 16, 4)}, "weight_scale is U8[16, 4], and must be [16, 2]"},
		{"mxfp4 with scales of another type", "l", quarks("fp4", "e5m3"), []tensor{zeros("l.weight", "U8", 1, 16, 32), zeros("l.weight_scale", "U8", 1, 16, 2)}, "f:l: the configuration beside the file has scales of e5m3, which are not read, and e8m0 is stored as they are: dequantise it"},
		{"mxfp4 of a list", "l", `{"quantization_config":{"global_quant_config":{"weight":[{"dtype":"fp4","scale_format":"e8m0"}, 3]}}}`, []tensor{zeros("l.weight", "U8", 1, 16, 32), zeros("l.weight_scale", "U8", 1, 16, 2)}, ""},
		{"mxfp6 of six bits", "l", "", []tensor{zeros("l.weight_packed", "U8", 1, 16, 48), zeros("l.weight_scale", "U8", 1, 16, 2)}, ""},
		{"mxfp6, scales of other outputs", "l", "", []tensor{zeros("l.weight_packed", "U8", 1, 16, 48), zeros("l.weight_scale", "U8", 1, 8, 2)}, "weight_scale is U8[8, 2], and must be [16, 2]"},
		{"mxfp6, scale of no number", "l", "", []tensor{zeros("l.weight_packed", "U8", 1, 16, 48), zeros("l.weight_scale", "U8", 1, 16, 2).with(3, 255)}, "weight_scale[1, 1] is NaN"},
		{"mxfp6 of Quark", "l", quarks("fp6_e3m2", "e8m0"), []tensor{zeros("l.weight", "U8", 1, 16, 48), zeros("l.weight_scale", "U8", 1, 16, 2)}, ""},
		{"mxfp6 of Quark, unsaid", "l", quarks("fp4", "e8m0"), []tensor{zeros("l.weight", "U8", 1, 16, 48), zeros("l.weight_scale", "U8", 1, 16, 2)}, "f:l: arrays of f6e2m3 and f6e3m2 are the same: put config.json of the model beside the file, whose quantization_config has the dtype"},
		{"mxfp6 of Quark, half a configuration", "l", "{", []tensor{zeros("l.weight", "U8", 1, 16, 48), zeros("l.weight_scale", "U8", 1, 16, 2)}, "f:l: arrays of f6e2m3 and f6e3m2 are the same: unexpected end of JSON input"},
		{"mxfp6 of Quark, of both", "l", `{"global_quant_config":{"weight":{"dtype":"fp6_e2m3"}},"layer_quant_config":{"*down_proj":{"weight":{"dtype":"fp6_e3m2"}}}}`, []tensor{zeros("l.weight", "U8", 1, 16, 48), zeros("l.weight_scale", "U8", 1, 16, 2)}, "the configuration beside the file has layers of both; put beside it one"},
		{"mxfp8", "l", "", []tensor{weight, zeros("l.weight_scale", "F8_E8M0", 1, 16, 2)}, ""},
		{"mxfp8 of e5m2", "l", "", []tensor{zeros("l.weight", "F8_E5M2", 1, 16, 64), zeros("l.weight_scale", "U8", 1, 16, 2)}, ""},
		{"mxfp8, half a group", "l", "", []tensor{zeros("l.weight", "F8_E4M3", 1, 16, 48), zeros("l.weight_scale", "U8", 1, 16, 2)}, "weight is F8_E4M3[16, 48], which is no whole number of groups of 32"},
		{"mxfp8, exponents of outputs", "l", "", []tensor{weight, zeros("l.weight_scale", "U8", 1, 16, 1)}, "weight_scale is U8[16, 1], and must be [16, 2]"},
		{"mxfp8 of no number", "l", "", []tensor{weight.with(70, 0xff), zeros("l.weight_scale", "U8", 1, 16, 2)}, "f:l: qmm: code [1, 6] of f8e4m3"},
		{"mxfp8 of torchao", "l", "", []tensor{zeros("l._weight_qdata", "F8_E4M3", 1, 16, 64), zeros("l._weight_scale", "F8_E8M0", 1, 16, 2)}, "f:l: it has _weight_qdata F8_E4M3[16, 64], _weight_scale F8_E8M0[16, 2]: that is torchao, whose metadata say in which order scales are, which is not read"},
		{"mxfp4 of inputs that are rotated", "l", "", []tensor{zeros("l.weight", "U8", 1, 16, 32), zeros("l.weight_scale", "U8", 1, 16, 2), zeros("l.input_rotation", "I8", 1, 32, 32)}, "that is Quark with inputs that are rotated, which is not read"},
		{"hqq", "l", "", hqq("U8", 4, 16, 32, 1), ""},
		{"hqq of 3 bits", "l", "", hqq("I32", 3, 4, 32, 1), ""},
		{"hqq, groups of outputs", "l", "", hqq("U8", 4, 16, 32, 0), "f:l: axis is 0: weights of a group are of one input and of several outputs, and programs take groups of inputs; quantise with axis=1, or dequantise the layer, and"},
		{"hqq of 6 bits", "l", "", hqq("U8", 6, 32, 32, 1), "nbits is 6: codes of 1, 2, 3, 4 and 8 bits are read"},
		{"hqq of 1.58 bits", "l", "", append(hqq("U8", 2, 8, 32, 1), tensor{"l.nbits", "F32", []int{}, []byte{0x71, 0x3d, 0xca, 0x3f}}), "nearly hqq, but nbits must be I32"},
		{"hqq, groups across outputs", "l", "", hqq("U8", 4, 16, 48, 1), "group_size is 48, and 64 inputs are no whole number of groups"},
		{"hqq in groups of 8", "l", "", hqq("U8", 4, 64, 8, 1), "f:l: qmm: template: groups of 8"},
		{"hqq, other words", "l", "", hqq("U8", 4, 17, 32, 1), "W_q is U8[17, 32], and must be [16, 32]"},
		{"hqq, words of another type", "l", "", hqq("I32", 4, 16, 32, 1), "W_q is I32[16, 32], and codes of 3 bits are in I32, others in U8"},
		{"hqq, zero point of no number", "l", "", append(hqq("U8", 4, 16, 32, 1), zeros("l.zero", "F16", 2, 32, 1).with(6, 0, 0x7e)), "zero[3, 0] is NaN; a zero point is a number"},
		{"hqq, zero point of many bits", "l", "", append(hqq("U8", 4, 16, 32, 1), zeros("l.zero", "F32", 4, 32, 1).with(12, 1, 0, 0, 63)), "the zero point of group 1 and output 1 is 0.50000006, which f16, the type of x and y, does not hold"},
		{"hqq, sizes of nothing", "l", "", append(hqq("U8", 4, 16, 32, 1), tensor{"l.shape", "I64", []int{2}, make([]byte, 16)}), "shape says 0 outputs and 0 inputs: there are 1 to 16777216"},
		{"hqq, sizes of something else", "l", "", append(hqq("U8", 4, 16, 32, 1), zeros("l.shape", "I64", 8, 3)), "shape is I64[3], and must be [2]"},
		{"an expert", "e[1]", "", []tensor{blocks, blockScales}, ""},
		{"no expert named", "e", "", []tensor{blocks, blockScales}, "f:e: it is 3 experts: name one, e[0] to e[2]"},
		{"an expert too many", "e[3]", "", []tensor{blocks, blockScales}, "f:e[3]: there are the experts e[0] to e[2]"},
		{"no such number", "e[99999999999999999999]", "", []tensor{blocks, blockScales}, "no layer has so many experts"},
		{"expert of no number", "e[1]", "", []tensor{blocks, blockScales.with(33, 255)}, "_scales[0, 1] is NaN"},
		{"another block", "e[0]", "", []tensor{zeros("e_blocks", "U8", 1, 3, 16, 2, 8), blockScales}, "_blocks is U8[3, 16, 2, 8], and must be [experts, N, K/32, 16]"},
		{"no experts", "l[0]", "", []tensor{weight, zeros("l.weight_scale", "F32", 4)}, "l is one layer, without experts; leave [0] out"},
		{"an array's name", "l.weight", "", []tensor{weight, zeros("l.weight_scale", "F32", 4)}, "f has no layer l.weight; did you mean l?"},
		{"part of a name", "down_proj", "", []tensor{zeros("m.0.down_proj.weight", "F8_E4M3", 1, 16, 64), zeros("m.0.down_proj.weight_scale", "F32", 4)}, "f has no layer down_proj; did you mean m.0.down_proj?"},
		{"a plain layer", "l", "", []tensor{zeros("l.weight", "BF16", 2, 4, 4)}, "it has weight BF16[4, 4]: its weights are not quantised; do so by a kind, with --weights f:l.weight, in a cell by lab.Quantize(KIND, \"f:l.weight\")"},
		{"no layers", "x", "", []tensor{zeros("l.weight", "BF16", 2, 4, 4)}, "f has no quantised layers"},
		{"no name", "", "", []tensor{weight, zeros("l.weight_scale", "F32", 4), zeros("m.weight", "F8_E4M3", 1, 1, 1)}, "f has 2 quantised layers, and none is named: write f:LAYER; there are l, m"},
		{"another format", "l", "", []tensor{zeros("l.weight", "U8", 1, 4, 4), zeros("l.absmax", "U8", 1, 4)}, "that is bitsandbytes, which is not read"},
		{"codes alone", "l", "", []tensor{zeros("l.weight_packed", "U8", 1, 4, 4)}, "nearly nvfp4-pack-quantized, but weight_scale is missing"},
		{"a table", "l", "", []tensor{zeros("l.table", "U8", 1, 4, 4)}, "f:l: it has table U8[4, 4], which is no format that is read: there are gptq, awq"},
	} {
		data := file(c.tensors...)
		f, err := Read(bytes.NewReader(data), int64(len(data)), "f", []byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		q, err := f.Layer(c.layer)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, %v; want %s", c.what, q, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "--weights") && !strings.Contains(err.Error(), "in a cell by lab.Quantize") {
			t.Errorf("%s: %v names no way out of cells", c.what, err)
		}
		f.Layers()
		if _, err := f.Format(c.layer); c.want == "" && err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if _, err := Layer("none.safetensors", "l"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestBias takes biases that the type of x and y holds, leaves those of zeros out, and refuses others.
func TestBias(t *testing.T) {
	codes, points, scales := zeros("l.qweight", "I32", 4, 8, 16), filled("l.qzeros", 0x88888888, 2, 2), zeros("l.scales", "F16", 2, 2, 16)
	blocks, blockScales := zeros("e_blocks", "U8", 1, 3, 16, 2, 16), zeros("e_scales", "U8", 1, 3, 16, 2)
	read := func(tensors ...tensor) *File {
		t.Helper()
		data := file(tensors...)
		f, err := Read(bytes.NewReader(data), int64(len(data)), "f", nil)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, c := range []struct {
		what, layer string
		bias        tensor
		act         dtype.Type // 0 is that of the layer
		is, want    string     // "" is no bias
	}{
		{"f16", "l", zeros("l.bias", "F16", 2, 16).with(3, 0x3c), 0, "f16[16]", ""},
		{"another layer's", "l", zeros("m.bias", "F16", 2, 16).with(3, 0x3c), 0, "", ""},
		{"zeros", "l", zeros("l.bias", "F16", 2, 16).with(5, 0x80), 0, "", ""},
		{"bf16 that f16 holds", "", zeros("l.bias", "BF16", 2, 16).with(2, 0x81, 0x3f), 0, "f16[16]", ""},
		{"bf16 that f16 does not hold", "l", zeros("l.bias", "BF16", 2, 16).with(2, 0x81, 0x30), 0, "", "f:l: bias[1] is 9.385985e-10, and f16, the type of x and y, would make it 0; bf16 holds all of it: take that for x and y, by --act bf16, act=bf16 in a cell"},
		{"the same as bf16", "l", zeros("l.bias", "BF16", 2, 16).with(2, 0x81, 0x30), dtype.BF16, "bf16[16]", ""},
		{"f16 that bf16 does not hold", "l", zeros("l.bias", "F16", 2, 16).with(4, 1, 0x3c), dtype.BF16, "", "bias[2] is 1.0009766, and bf16, the type of x and y, would make it 1; f16 holds all of it: take that for x and y, by --act f16"},
		{"f32 that f16 holds", "l", zeros("l.bias", "F32", 4, 16).with(4, 0, 0x20, 0x80, 0x3f), 0, "f16[16]", ""},
		{"f32 of no type", "l", zeros("l.bias", "F32", 4, 16).with(4, 1, 0, 0x80, 0x3f), 0, "", "bias[1] is 1.0000001, and f16, the type of x and y, would make it 1; f16 and bf16 hold not all of it: give f:l.bias by --bias of qmm, in a cell by RunWith, which round it"},
		{"beyond f16", "l", zeros("l.bias", "F32", 4, 16).with(4, 0, 0, 0x80, 0x7e), 0, "", "would make it +Inf; bf16 holds all"},
		{"no number", "l", zeros("l.bias", "F16", 2, 16).with(2, 0, 0x7e), 0, "", "f:l: bias[1] is NaN; a bias is numbers"},
		{"of other outputs", "l", zeros("l.bias", "F16", 2, 15), 0, "", "l.bias is F16[15], and a bias is f16, bf16 or f32 and [16] beside"},
		{"of a row", "l", zeros("l.bias", "F16", 2, 1, 16), 0, "", "l.bias is F16[1, 16], and"},
		{"of whole numbers", "l", zeros("l.bias", "I32", 4, 16), 0, "", "l.bias is I32[16], and"},
		{"of experts", "e[1]", zeros("e_bias", "BF16", 2, 3, 16).with(32, 0x81, 0x30), 0, "bf16[16]", ""},
		{"of other experts", "e[2]", zeros("e_bias", "BF16", 2, 3, 16).with(32, 0x81, 0x30), 0, "", ""},
		{"of experts, of no type", "e[1]", zeros("e_bias", "F32", 4, 3, 16).with(68, 1, 0, 0x80, 0x3f), 0, "", "f:e[1]: e_bias[1, 1] is 1.0000001, and f16, the type of x and y, would make it 1; f16 and bf16 hold not all of it: give one [N] of your own instead, by --bias"},
		{"of one expert", "e[1]", zeros("e_bias", "BF16", 2, 16), 0, "", "e_bias is BF16[16], and a bias is f16, bf16 or f32 and [3, 16] beside"},
	} {
		f := read(codes, points, scales, c.bias)
		if strings.HasPrefix(c.layer, "e") {
			f = read(blocks, blockScales, c.bias)
		}
		q, err := f.Layer(c.layer)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if c.act != 0 {
			if q, err = As(q, c.act); err != nil {
				t.Errorf("%s: %v", c.what, err)
				continue
			}
		}
		b, err := f.Bias(c.layer, q.Linear)
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, %v; want %s", c.what, b, err, c.want)
			}
		case err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.is == "" && b != nil:
			t.Errorf("%s: %v", c.what, b)
		case c.is != "" && (b == nil || b.Header() != c.is):
			t.Errorf("%s: %v; want %s", c.what, b, c.is)
		}
	}
	if l := read(codes, points, scales, zeros("l.bias", "I32", 4, 16)).Layers(); len(l) != 1 || l[0].Err != nil || l[0].BiasErr == nil || l[0].Bias != "" {
		t.Errorf("a bias of whole numbers is listed as %+v", l)
	}
	if b, err := read(codes, points, scales).Bias("m", qmm.Linear{N: 16, ActType: dtype.F16}); err == nil {
		t.Errorf("the bias of no layer: %v", b)
	}

	listed, err := Open("testdata/bias/bias.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer listed.Close()
	is := map[string]string{}
	for _, l := range listed.Layers() {
		if is[l.Name] = l.Bias; l.Err != nil {
			t.Error(l.Err)
		}
	}
	if want := (map[string]string{"half": "f16", "wide": "f32", "brain": "bf16", "zero": "0", "unheld": "f32", "experts.gate_up_proj": "bf16", "block.0.mlp.mlp1_weight": "bf16"}); !maps.Equal(is, want) {
		t.Errorf("biases %v, not %v", is, want)
	}
}

// TestZeroFormats reads configurations, and finds them beside a file.
func TestZeroFormats(t *testing.T) {
	for text, want := range map[string]zeroFormat{
		``: unsaid, `{`: unsaid, `[]`: unsaid, `{}`: unsaid, `{"bits":4}`: lessOne, `{"bits":4,"quant_method":"gptq"}`: lessOne, `{"bits":4,"quant_method":"awq"}`: unsaid,
		`{"format":"gptq_v2"}`: asTheyAre, `{"checkpoint_format":"gptq","format":"gptq_v2"}`: lessOne, `{"bits":4,"format":"marlin"}`: unsaid,
		`{"model_type":"llama","quantization_config":{"bits":3,"format":"gptq_p"}}`: planar, `{"model_type":"llama"}`: unsaid,
	} {
		if got := configOf([]byte(text)).zeros; got != want {
			t.Errorf("%s: %d, not %d", text, got, want)
		}
	}
	dir := t.TempDir()
	if got := configured(dir); got != (config{}) {
		t.Error(got)
	}
	for name, text := range map[string]string{"config.json": `{"quantization_config":{"checkpoint_format":"gptq_v2"}}`, "quantize_config.json": `{"version":"gemm"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := configured(dir); got != (config{zeros: asTheyAre}) {
		t.Error(got)
	}
	for _, text := range []string{`{"bits":4,`, "[1, 2]"} {
		if err := os.WriteFile(filepath.Join(dir, "quantize_config.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := configured(dir); got.zeros != asTheyAre || !strings.HasPrefix(got.fault, "quantize_config.json beside the file cannot be read: ") || !strings.HasSuffix(got.fault, "; mend it") {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// TestGroups finds sizes of groups whose last may be short.
func TestGroups(t *testing.T) {
	s := &source{File: &File{path: "f"}, name: "l"}
	for _, c := range []struct{ k, groups, want int }{
		{64, 1, 0}, {4096, 32, 128}, {4096, 2, 2048}, {80, 3, 32}, {80, 5, 16}, {320, 3, 128}, {192, 2, 128}, {96, 3, 32}, {11008, 86, 128}, {1000, 3, 384}, {400, 3, -1}, {2000, 2, -1},
	} {
		got, err := s.group(c.k, c.groups, true)
		if err != nil {
			got = -1
		}
		if got != c.want {
			t.Errorf("%d inputs in %d groups: %d, not %d (%v)", c.k, c.groups, got, c.want, err)
		}
	}
}

func FuzzLayer(f *testing.F) {
	for _, l := range [][]tensor{
		{zeros("l.qweight", "I32", 4, 3, 2), filled("l.qzeros", 0x12345678, 2, 1), zeros("l.scales", "F16", 2, 2, 2), inOrder("l.g_idx", 32, 16)},
		{zeros("l.qweight", "I32", 4, 3, 2), filled("l.qzeros", 0x12345678, 2, 1), zeros("l.scales", "F16", 2, 2, 2), inOrder("l.g_idx", 32, 16).with(0, 1).with(124, 0)},
		{filled("l.qweight", 0x98765432, 4, 4), filled("l.qzeros", 0x77777777, 1, 2), zeros("l.scales", "F16", 2, 1, 4)},
		{zeros("l.qweight", "I32", 4, 4, 1), filled("l.qzeros", 0x12345678, 1, 1), zeros("l.scales", "BF16", 2, 1, 8)},
		{zeros("l.weight_packed", "I32", 4, 1, 4), zeros("l.weight_scale", "F32", 4, 1, 2), shape(1, 32), filled("l.weight_zero_point", 3, 1, 2), inOrder("l.weight_g_idx", 32, 16)},
		{zeros("l.weight_packed", "I32", 4, 1, 4), zeros("l.weight_scale", "F32", 4, 1, 2), shape(1, 32), inOrder("l.weight_g_idx", 32, 16).with(4, 1).with(64, 0)},
		{zeros("l.weight", "F8_E4M3", 1, 2, 3), zeros("l.weight_scale", "F32", 4, 2, 1)},
		{zeros("l.weight", "U8", 1, 1, 8), zeros("l.weight_scale", "F8_E4M3", 1, 1, 1), zeros("l.weight_scale_2", "F32", 4).with(3, 1)},
		{zeros("l.weight_packed", "U8", 1, 1, 16), zeros("l.weight_scale", "U8", 1, 1, 1)},
		{zeros("l.weight", "I8", 1, 1, 32), zeros("l.weight_scale", "F16", 2, 1, 2), zeros("l.weight_zero_point", "I8", 1, 1, 2), zeros("l.bias", "BF16", 2, 1).with(0, 1, 2)},
		{zeros("l.weight", "F8_E4M3", 1, 17, 17), zeros("l.weight_scale_inv", "F32", 4, 2, 2), zeros("l.bias", "F32", 4, 17).with(8, 1, 0, 128, 63)},
		{zeros("l.weight_packed", "U8", 1, 1, 24), zeros("l.weight_scale", "U8", 1, 1, 1)},
		{zeros("l.weight", "F8_E5M2", 1, 1, 32), zeros("l.weight_scale", "F8_E8M0", 1, 1, 1)},
		hqq("U8", 4, 16, 32, 1),
		append(hqq("I32", 3, 4, 32, 1), zeros("l.zero", "F16", 2, 32, 1).with(1, 0x45, 0x12)),
	} {
		f.Add(file(l...), "l", []byte(`{"bits":4}`))
	}
	f.Add(file(zeros("l.weight", "U8", 1, 2, 24), zeros("l.weight_scale", "U8", 1, 2, 1)), "l", []byte(quarks("fp6_e3m2", "e8m0")))
	f.Add(file(zeros("l.weight", "U8", 1, 1, 16), zeros("l.weight_scale", "U8", 1, 1, 1)), "l", []byte(quarks("fp4", "e5m3")))
	for _, of := range []string{"mxfp4", "q4_k", "exps[1]"} {
		f.Add(ggufOf(ggufTensor{"mxfp4.weight", []uint64{32, 2}, 39, 0, 34}, ggufTensor{"q4_k.weight", []uint64{256, 1}, 12, 64, 144}, ggufTensor{"exps.weight", []uint64{32, 1, 2}, 2, 256, 36}), of, []byte{})
	}
	f.Add(ggufOf(ggufTensor{"w.weight", []uint64{256, 1}, 35, 0, 66}, ggufTensor{"w.bias", []uint64{1}, 0, 96, 4}), "", []byte{})
	f.Add(file(zeros("e_blocks", "U8", 1, 1, 1, 1, 16), zeros("e_scales", "U8", 1, 1, 1, 1), zeros("e_bias", "F16", 2, 1, 1).with(0, 1)), "e[0]", []byte{})
	f.Add(file(zeros("l.weight", "F8_E4M3", 1, 1, 2), zeros("l.weight_scale", "F32", 4)), "", []byte{})
	f.Add(file(zeros("l.weight_packed", "I32", 4, 1, 4), zeros("l.weight_scale", "F16", 2, 1), shape(1, 32)), "l", []byte{})
	f.Fuzz(func(t *testing.T, data []byte, name string, config []byte) {
		file, err := Read(bytes.NewReader(data), int64(len(data)), "f", config)
		if err != nil {
			return
		}
		for _, l := range file.Layers() {
			if l.Name != "" && l.Format == "" && l.Err == nil {
				t.Fatalf("%+v is of no format", l)
			}
		}
		q, err := file.Layer(name)
		if err != nil {
			return
		}
		if err := q.Valid(); err != nil {
			t.Fatal(err)
		}
		if len(q.Codes.Data) > len(data) {
			t.Fatalf("%s from a file of %d bytes", q.Linear, len(data))
		}
		if v := q.At(q.N-1, q.K-1); v-v != 0 {
			t.Fatalf("%s has a weight %v", q.Linear, v)
		}
		b, err := file.Bias(name, q.Linear)
		if b == nil || err != nil {
			return
		}
		if b.Type != q.ActType || !slices.Equal(b.Shape, []int{q.N}) || slices.ContainsFunc(b.Floats(), func(v float64) bool { return v-v != 0 }) {
			t.Fatalf("%s has the bias %v", q.Linear, b)
		}
	})
}

// TestActivations takes the type of x and y from scales and biases as they are stored.
func TestActivations(t *testing.T) {
	weight := zeros("l.weight", "F8_E4M3", 1, 16, 64)
	one := []byte{0, 0, 128, 63} // which f16 and bf16 hold
	for _, c := range []struct {
		scale, bias string
		want        dtype.Type
	}{{"F16", "BF16", dtype.F16}, {"BF16", "F16", dtype.BF16}, {"BF16", "", dtype.BF16}, {"F32", "F16", dtype.F16}, {"F32", "BF16", dtype.BF16}, {"F32", "F32", dtype.BF16}, {"F32", "", dtype.BF16}} {
		size := map[string]int{"F32": 4}[c.scale]
		tensors := []tensor{weight, zeros("l.weight_scale", c.scale, max(size, 2), 16, 1)}
		if c.scale == "F32" {
			for i := range 16 {
				copy(tensors[1].data[4*i:], one)
			}
		}
		if c.bias != "" {
			tensors = append(tensors, zeros("l.bias", c.bias, map[string]int{"F32": 4, "F16": 2, "BF16": 2}[c.bias], 16))
		}
		data := file(tensors...)
		f, err := Read(bytes.NewReader(data), int64(len(data)), "f", nil)
		if err != nil {
			t.Fatal(err)
		}
		q, err := f.Layer("l")
		if err != nil || q.ActType != c.want {
			t.Errorf("scales of %s, a bias of %q: %+v, %v; want %s", c.scale, c.bias, q, err, c.want)
		}
	}
}

// TestPlain tells codes of quantised layers from what may be weights, of which scales and floats are.
func TestPlain(t *testing.T) {
	for spec, want := range map[string]string{
		"fp8/fp8.safetensors:channel.weight":                        "fp8.safetensors:channel, in a cell",
		"fp8_block/fp8_block.safetensors:qwen.weight":               "fp8_block.safetensors:qwen,",
		"nvfp4/nvfp4.safetensors:odd.weight_packed":                 "nvfp4.safetensors:odd,",
		"nvfp4/nvfp4.safetensors:modelopt_odd.weight":               "nvfp4.safetensors:modelopt_odd,",
		"gptq/gptq.safetensors:ragged.qweight":                      "gptq.safetensors:ragged,",
		"mxfp4/mxfp4.safetensors:experts.gate_up_proj_blocks":       "mxfp4.safetensors:experts.gate_up_proj,",
		"int_quantized/int_quantized.safetensors:group_zero.weight": "int_quantized.safetensors:group_zero,",
		"fp8/fp8.safetensors:channel.weight_scale":                  "",
		"gguf/gguf.gguf:q4_0.weight":                                "is blocks of a quantised layer; take the layer as it is stored: --checkpoint testdata/gguf/gguf.gguf:q4_0, in a cell",
		"gguf/gguf.gguf:norm.weight":                                "",
		"mxfp8/mxfp8.safetensors:compressed.weight":                 "mxfp8.safetensors:compressed,",
		"quark_e2m3/quark_e2m3.safetensors:six.weight":              "quark_e2m3.safetensors:six,",
		"bias/bias.safetensors:half.bias":                           "",
		"fp8/fp8.safetensors:nothing":                               "",
		"fp8/fp8.safetensors":                                       "",
		"nowhere.safetensors:l.weight":                              "",
	} {
		if err := Plain("testdata/" + spec); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", spec, err)
		}
	}
	for _, spec := range []string{"randn:f32[4, 8]", "w.npy", ""} {
		if err := Plain(spec); err != nil {
			t.Error(err)
		}
	}
	alone := filepath.Join(t.TempDir(), "f8.safetensors") // without a scale codes are numbers
	if err := os.WriteFile(alone, file(zeros("l.weight", "F8_E4M3", 1, 16, 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Plain(alone + ":l.weight"); err != nil {
		t.Error(err)
	}
}
