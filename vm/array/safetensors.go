package array

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

const (
	tensorsSuffix    = ".safetensors"
	maxTensorsHeader = 16 << 20 // bytes; of models with thousands of arrays it has some hundred thousand
)

// Names of element types in .safetensors files; those of less than 8 bits are packed from the lowest bit of a byte.
var tensorTypes = map[string]dtype.Type{
	"BOOL": dtype.Bool, "U8": dtype.U8, "I8": dtype.I8, "U16": dtype.U16, "I16": dtype.I16, "U32": dtype.U32, "I32": dtype.I32,
	"U64": dtype.U64, "I64": dtype.I64, "F16": dtype.F16, "BF16": dtype.BF16, "F32": dtype.F32, "F64": dtype.F64,
	"F8_E4M3": dtype.F8E4M3, "F8_E5M2": dtype.F8E5M2, "F8_E8M0": dtype.F8E8M0, "F4": dtype.F4E2M1,
}

// tensorHead is what the header of a .safetensors file says of an array.
type tensorHead struct {
	Type  string   `json:"dtype"`
	Shape []int    `json:"shape"`
	Bytes [2]int64 `json:"data_offsets"` // from where to where, behind the header
}

// splitTensor takes the type off what follows a .safetensors file, "NAME:bf16": names have colons rarely, types never.
func splitTensor(text string) (name, as string) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i+1:]
}

// readTensor reads one array of a .safetensors file, and no more of it than that. The name may be "" where there is one.
// Format: https://huggingface.co/docs/safetensors
func readTensor(f *os.File, file, name string, want *typeShape) (*Array, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("array: Load: %w", err)
	}
	return tensorOf(f, info.Size(), file, name, want)
}

func tensorOf(r io.ReaderAt, size int64, file, name string, want *typeShape) (*Array, error) {
	heads, data, err := tensorHeads(r, size, file)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(heads))
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	h, ok := heads[name]
	if !ok {
		return nil, missingTensor(file, name, names)
	}
	t, known := tensorTypes[h.Type]
	if !known {
		return nil, fileError(file, codeFileType, "convert it first, for example with torch", "%s is of the type %q, which has no element type here", name, h.Type)
	}
	if err := CheckShape(t, h.Shape...); err != nil {
		return nil, fileError(file, codeShape, fmt.Sprintf("the limit is %d bytes and %d dimensions", MaxBytes, MaxRank), "the shape %s of %s is not possible", shapeText(h.Shape), name)
	}
	n := 1
	for _, d := range h.Shape {
		n *= d
	}
	from, to, bytes := h.Bytes[0], h.Bytes[1], dtype.PackedBytes(t.Bits(), n)
	switch {
	case from < 0 || to < from || to > size-data:
		return nil, fileError(file, codeShort, "the file is cut short or its header is wrong", "%s lies in bytes %d to %d, and the file has %d behind its header", name, from, to, size-data)
	case to-from != int64(bytes):
		return nil, fileError(file, codeShort, "the header is wrong", "%s has %d bytes, and %s%s takes %d", name, to-from, t, shapeText(h.Shape), bytes)
	}
	content := make([]byte, bytes)
	if _, err := r.ReadAt(content, data+from); err != nil && !(err == io.EOF && bytes == 0) {
		return nil, fmt.Errorf("array: Load: %s: %w", file, err)
	}
	a := &Array{Type: t, Shape: h.Shape, Data: content}
	a.clearTail()
	if want == nil {
		return a, nil
	}
	if !want.shaped && t.Bits()%8 != 0 {
		return nil, fileError(file, codeBytes, fmt.Sprintf("give the shape too: %s[…]", want.t), "%s is of %d bits", name, t.Bits())
	}
	return taken(file, content, t.Bits()/8, h.Shape, *want)
}

// tensorHeads reads the header of a .safetensors file of so many bytes; data is where its arrays begin.
func tensorHeads(r io.ReaderAt, size int64, file string) (heads map[string]tensorHead, data int64, err error) {
	bad := func(format string, args ...any) error {
		return fileError(file, codeHeader, "save it with safetensors", format, args...)
	}
	var start [8]byte
	if _, err := r.ReadAt(start[:], 0); err != nil {
		return nil, 0, bad("the file ends inside the header: this is no .safetensors file")
	}
	n := binary.LittleEndian.Uint64(start[:])
	switch {
	case n > math.MaxInt64-8 || int64(n) > size-8:
		return nil, 0, bad("a header of %d bytes is said to be in a file of %d: it is cut short, or no .safetensors file", n, size)
	case n > maxTensorsHeader:
		return nil, 0, bad("the header has %d bytes, and at most %d are read", n, maxTensorsHeader)
	}
	text := make([]byte, n)
	if _, err := r.ReadAt(text, 8); err != nil {
		return nil, 0, fmt.Errorf("array: Load: %s: %w", file, err)
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		return nil, 0, bad("the header is no JSON object: %v", err)
	}
	delete(parts, "__metadata__")
	heads = make(map[string]tensorHead, len(parts))
	for name, part := range parts {
		var h tensorHead
		if err := json.Unmarshal(part, &h); err != nil {
			return nil, 0, bad("the header does not say what %s is: %v", name, err)
		}
		heads[name] = h
	}
	return heads, 8 + int64(n), nil
}

// missingTensor says which arrays a file has, or which was meant.
func missingTensor(file, name string, names []string) error {
	const most = 8
	var of []string
	for _, n := range names { // a layer's name often lacks what model its layers are of
		if name != "" && strings.Contains(n, name) {
			of = append(of, n)
		}
	}
	help := ""
	switch near := diag.Suggest(name, names); {
	case len(names) == 0:
	case name != "" && near != "":
		help = fmt.Sprintf("did you mean %s?", near)
	case len(of) > 0:
		help = "did you mean " + listed(of, most) + "?"
	default:
		help = "there are " + listed(names, most)
	}
	if name == "" {
		return fileError(file, codeTensor, help, "the file has %d arrays, and none is named: write %s:NAME", len(names), file)
	}
	return fileError(file, codeTensor, help, "none of the file's %d arrays is called %q", len(names), name)
}

// listed are names, or the first of them and how many more there are.
func listed(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
