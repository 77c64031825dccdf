package array

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

const (
	tensorsSuffix    = ".safetensors"
	indexSuffix      = ".safetensors.index.json" // of a model in several files
	maxTensorsFiles  = 1 << 10                   // of a model
	maxTensorsHeader = 16 << 20                  // bytes; of models with thousands of arrays it has some hundred thousand
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
	in    *tensorFile
}

// tensorFile is a file of arrays.
type tensorFile struct {
	r    io.ReaderAt
	name string
	data int64 // where arrays begin
	size int64
}

// splitTensor takes the type off what follows a .safetensors file, "NAME:bf16": names have colons rarely, types never.
func splitTensor(text string) (name, as string) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i+1:]
}

// Tensors is a .safetensors file, or those of a model in several: headers are read, arrays are when they are asked for, and
// nothing else.
type Tensors struct {
	file  string
	heads map[string]tensorHead
	close func() error
}

// OpenTensors reads the header of a .safetensors file, or those of all files that a .safetensors.index.json names, which lie
// beside it. Who asks for nothing more closes it.
func OpenTensors(path string) (*Tensors, error) {
	if strings.HasSuffix(strings.ToLower(path), indexSuffix) {
		return openIndex(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("array: OpenTensors: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("array: OpenTensors: %w", err)
	}
	t, err := ReadTensors(f, info.Size(), path)
	if err != nil {
		f.Close()
		return nil, err
	}
	t.close = f.Close
	return t, nil
}

// ReadTensors is [OpenTensors] of size bytes that are read from r; errors call them file.
// Format: https://huggingface.co/docs/safetensors
func ReadTensors(r io.ReaderAt, size int64, file string) (*Tensors, error) {
	if r == nil {
		return nil, fmt.Errorf("array: ReadTensors: %s: there is nothing to read from, but nil; bytes.NewReader reads bytes, OpenTensors a file", file)
	}
	heads, data, err := tensorHeads(r, size, file)
	if err != nil {
		return nil, err
	}
	in := &tensorFile{r: r, name: file, data: data, size: size}
	for name, h := range heads {
		h.in = in
		heads[name] = h
	}
	return &Tensors{file: file, heads: heads}, nil
}

// openIndex opens the files of a model.
func openIndex(path string) (_ *Tensors, err error) {
	bad := func(help, format string, args ...any) error {
		return fileError(path, codeHeader, help, format, args...)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("array: OpenTensors: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTensorsHeader+1))
	f.Close()
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("array: OpenTensors: %w", err)
	case len(text) > maxTensorsHeader:
		return nil, bad("", "the index has more than the %d bytes that are read", maxTensorsHeader)
	case json.Unmarshal(text, &index) != nil || index.Files == nil:
		return nil, bad("take the file that came with the model, or name one of its .safetensors files", "the file has no weight_map, which says where arrays are")
	}
	out := &Tensors{file: path, heads: make(map[string]tensorHead, len(index.Files))}
	opened := map[string]*Tensors{}
	out.close = func() error {
		var all []error
		for _, t := range opened {
			all = append(all, t.Close())
		}
		return errors.Join(all...)
	}
	defer func() {
		if err != nil {
			out.close()
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(index.Files)) {
		file := index.Files[name]
		t := opened[file]
		if t == nil {
			switch {
			case filepath.Base(file) != file || !strings.HasSuffix(file, tensorsSuffix):
				return nil, bad("", "the index has %s in %q, which is no .safetensors file beside it", name, file)
			case len(opened) == maxTensorsFiles:
				return nil, bad("", "the index names more than the %d files that are opened", maxTensorsFiles)
			}
			if t, err = OpenTensors(filepath.Join(filepath.Dir(path), file)); errors.Is(err, fs.ErrNotExist) {
				return nil, bad("get all files of the model, or name the .safetensors file that has what you want", "%s, in which the index has %s, is not there", file, name)
			} else if err != nil {
				return nil, err
			}
			opened[file] = t
		}
		h, ok := t.heads[name]
		if !ok {
			return nil, bad("the files are of another model than the index", "the index has %s in %s, which does not have it", name, file)
		}
		out.heads[name] = h
	}
	return out, nil
}

// Close ends what [OpenTensors] began.
func (t *Tensors) Close() error {
	if t.close == nil {
		return nil
	}
	return t.close()
}

// Names are those of the arrays, in alphabetical order.
func (t *Tensors) Names() []string { return slices.Sorted(maps.Keys(t.heads)) }

// Head is what the header says of an array: its type in the words of the file ("F16", "I32") and its shape, of any
// numbers; ok is false where there is none of that name.
func (t *Tensors) Head(name string) (typ string, shape []int, ok bool) {
	h, ok := t.heads[name]
	return h.Type, slices.Clone(h.Shape), ok && name != ""
}

// Array reads one array. Errors are those of [Load].
func (t *Tensors) Array(name string) (*Array, error) {
	h, ok := t.heads[name]
	if !ok {
		return nil, missingTensor(t.file, name, t.Names())
	}
	return t.read(name, h)
}

// Part reads a[i, …] of an array, and no more of it than that: with one dimension less. Elements of less than 8 bits have
// no parts.
func (t *Tensors) Part(name string, i int) (*Array, error) {
	h, ok := t.heads[name]
	if !ok {
		return nil, missingTensor(t.file, name, t.Names())
	}
	typ, err := t.typeOf(name, h)
	if err != nil {
		return nil, err
	}
	if len(h.Shape) == 0 || typ.Bits()%8 != 0 || i < 0 || i >= h.Shape[0] {
		return nil, fileError(h.in.name, codeShape, "", "%s%s of %s has no part %d", typ, shapeText(h.Shape), name, i)
	}
	rest := tensorHead{h.Type, h.Shape[1:], h.Bytes, h.in}
	bytes, err := t.bytes(name, rest, typ)
	if err != nil {
		return nil, err
	}
	from, to := h.Bytes[0], h.Bytes[1]
	if from < 0 || to < from || bytes > 0 && ((to-from)%bytes != 0 || (to-from)/bytes != int64(h.Shape[0])) {
		return nil, fileError(h.in.name, codeShort, "the header is wrong", "%s lies in bytes %d to %d, and is %s%s", name, from, to, typ, shapeText(h.Shape))
	}
	rest.Bytes = [2]int64{from + int64(i)*bytes, from + int64(i+1)*bytes}
	return t.read(name, rest)
}

// typeOf is the element type of an array.
func (t *Tensors) typeOf(name string, h tensorHead) (dtype.Type, error) {
	typ, known := tensorTypes[h.Type]
	if !known {
		return 0, fileError(h.in.name, codeFileType, "convert it first, for example with torch", "%s is of the type %q, which has no element type here", name, h.Type)
	}
	return typ, nil
}

// bytes is how many bytes an array takes.
func (t *Tensors) bytes(name string, h tensorHead, typ dtype.Type) (int64, error) {
	if err := CheckShape(typ, h.Shape...); err != nil {
		return 0, fileError(h.in.name, codeShape, fmt.Sprintf("the limit is %d bytes and %d dimensions", MaxBytes, MaxRank), "the shape %s of %s is not possible", shapeText(h.Shape), name)
	}
	n := 1
	for _, d := range h.Shape {
		n *= d
	}
	return int64(dtype.PackedBytes(typ.Bits(), n)), nil
}

func (t *Tensors) read(name string, h tensorHead) (*Array, error) {
	typ, err := t.typeOf(name, h)
	if err != nil {
		return nil, err
	}
	bytes, err := t.bytes(name, h, typ)
	if err != nil {
		return nil, err
	}
	switch from, to := h.Bytes[0], h.Bytes[1]; {
	case from < 0 || to < from || to > h.in.size-h.in.data:
		return nil, fileError(h.in.name, codeShort, "the file is cut short or its header is wrong", "%s lies in bytes %d to %d, and the file has %d behind its header", name, from, to, h.in.size-h.in.data)
	case to-from != bytes:
		return nil, fileError(h.in.name, codeShort, "the header is wrong", "%s has %d bytes, and %s%s takes %d", name, to-from, typ, shapeText(h.Shape), bytes)
	}
	content := make([]byte, bytes)
	if err := readAt(h.in.r, content, h.in.data+h.Bytes[0]); err != nil {
		return nil, fmt.Errorf("array: Load: %s: %w", h.in.name, err)
	}
	a := &Array{Type: typ, Shape: slices.Clone(h.Shape), Data: content}
	a.clearTail()
	return a, nil
}

// loadTensor is one array of a file that [Load] opened. The name may be "" where there is one.
func loadTensor(t *Tensors, name string, want *typeShape) (*Array, error) {
	names := t.Names()
	if name == "" && len(names) == 1 {
		name = names[0]
	}
	a, err := t.Array(name)
	if err != nil || want == nil {
		return a, err
	}
	if bits := a.Type.Bits(); !want.shaped && bits%8 != 0 {
		return nil, fileError(t.file, codeBytes, fmt.Sprintf("give the shape too: %s[…]", want.t), "%s is of %d bits", name, bits)
	}
	return taken(t.file, a.Data, a.Type.Bits()/8, a.Shape, *want)
}

// SplitTensors takes what names an array or a layer off a text "model.safetensors:NAME", or
// "model.safetensors.index.json:NAME"; ok is false where it begins with no such file.
func SplitTensors(spec string) (path, name string, ok bool) {
	path, name = splitPath(spec)
	return path, name, ofTensors(path)
}

// ofTensors reports whether a file has arrays by name.
func ofTensors(path string) bool {
	path = strings.ToLower(path)
	return strings.HasSuffix(path, tensorsSuffix) || strings.HasSuffix(path, indexSuffix)
}

// readAt fills b with what is at a place; readers may tell the end of a file beside all that was asked for.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	return err
}

// tensorHeads reads the header of a .safetensors file of so many bytes; data is where its arrays begin.
func tensorHeads(r io.ReaderAt, size int64, file string) (heads map[string]tensorHead, data int64, err error) {
	bad := func(format string, args ...any) error {
		return fileError(file, codeHeader, "save it with safetensors", format, args...)
	}
	var start [8]byte
	switch err := readAt(r, start[:], 0); {
	case errors.Is(err, io.EOF):
		return nil, 0, bad("the file ends inside the header: this is no .safetensors file")
	case err != nil:
		return nil, 0, fmt.Errorf("array: Load: %s: %w", file, err)
	}
	n := binary.LittleEndian.Uint64(start[:])
	switch {
	case n > math.MaxInt64-8 || int64(n) > size-8:
		return nil, 0, bad("a header of %d bytes is said to be in a file of %d: it is cut short, or no .safetensors file", n, size)
	case n > maxTensorsHeader:
		return nil, 0, bad("the header has %d bytes, and at most %d are read", n, maxTensorsHeader)
	}
	text := make([]byte, n)
	if err := readAt(r, text, 8); err != nil {
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
		help = "did you mean " + diag.Listed(of, most) + "?"
	default:
		help = "there are " + diag.Listed(names, most)
	}
	if name == "" {
		return fileError(file, codeTensor, help, "the file has %d arrays, and none is named: write %s:NAME", len(names), file)
	}
	return fileError(file, codeTensor, help, "none of the file's %d arrays is called %q", len(names), name)
}

// SaveTensors writes arrays by name to a .safetensors file, the widest elements first, so that all of them are aligned.
// Errors are of types that such files have no name for, and of the file system.
func SaveTensors(path string, arrays map[string]*Array) error {
	types := map[dtype.Type]string{}
	for name, t := range tensorTypes {
		types[t] = name
	}
	names := slices.SortedFunc(maps.Keys(arrays), func(a, b string) int {
		return cmp.Or(arrays[b].Type.Bits()-arrays[a].Type.Bits(), strings.Compare(a, b))
	})
	heads, at := map[string]tensorHead{}, int64(0)
	for _, name := range names {
		a := arrays[name]
		typ, ok := types[a.Type]
		if !ok {
			return fmt.Errorf("array: SaveTensors: %s is %s, and .safetensors files have no name for its type", name, a.Header())
		}
		end := at + int64(len(a.Data))
		heads[name] = tensorHead{Type: typ, Shape: append([]int{}, a.Shape...), Bytes: [2]int64{at, end}} // an empty list, not null
		at = end
	}
	head, err := json.Marshal(heads)
	if err != nil {
		return fmt.Errorf("array: SaveTensors: %w", err)
	}
	head = append(head, strings.Repeat(" ", (8-len(head)%8)%8)...)
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("array: SaveTensors: %w", err)
	}
	w := bufio.NewWriter(f)
	w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(head))))
	w.Write(head)
	for _, name := range names {
		w.Write(arrays[name].Data) // Flush has the error
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("array: SaveTensors: %w", err)
	}
	return nil
}
