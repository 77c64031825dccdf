package array

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// numpy's names for the types that it has, without the byte order.
var npyNames = []struct {
	descr string
	t     dtype.Type
}{
	{"b1", dtype.Bool}, {"u1", dtype.U8}, {"i1", dtype.I8},
	{"u2", dtype.U16}, {"i2", dtype.I16}, {"f2", dtype.F16},
	{"u4", dtype.U32}, {"i4", dtype.I32}, {"f4", dtype.F32},
	{"u8", dtype.U64}, {"i8", dtype.I64}, {"f8", dtype.F64},
}

// Limits and marks of the file format.
const (
	npyMagic     = "\x93NUMPY"
	maxNPYHeader = 1 << 16
	typeComment  = "# tilus-lab "
)

// WriteNPY writes a as a .npy file of format 1.0, little endian, C order. A type
// that numpy has not is written as its bytes, u1 of shape [packed bytes] (types
// of 8, 16 and 32 bits: as u1, u2, u4 of the array's own shape), and a Python
// comment at the end of the header, "# tilus-lab i6[64, 32]", says what they
// are. numpy skips the comment; [ReadNPY] does not.
func (a *Array) WriteNPY(w io.Writer) error {
	descr, shape, comment := npyContainer(a)
	order := "<"
	if strings.HasSuffix(descr, "1") {
		order = "|"
	}
	var tuple strings.Builder
	for i, d := range shape {
		if i > 0 {
			tuple.WriteString(", ")
		}
		tuple.WriteString(strconv.Itoa(d))
	}
	if len(shape) == 1 {
		tuple.WriteByte(',')
	}
	head := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }%s", order, descr, tuple.String(), comment)
	// numpy aligns the data to 64 bytes with spaces before the newline.
	const before = len(npyMagic) + 4
	head += strings.Repeat(" ", 63-(before+len(head))%64) + "\n"
	out := []byte(npyMagic + "\x01\x00")
	out = binary.LittleEndian.AppendUint16(out, uint16(len(head)))
	out = append(out, head...)
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("array: WriteNPY: %w", err)
	}
	if _, err := w.Write(a.Data); err != nil {
		return fmt.Errorf("array: WriteNPY: %w", err)
	}
	return nil
}

// npyContainer is the numpy type and shape that holds a, and the comment that
// names the true type where that is another.
func npyContainer(a *Array) (descr string, shape []int, comment string) {
	for _, n := range npyNames {
		if n.t == a.Type {
			return n.descr, a.Shape, ""
		}
	}
	comment = "  " + typeComment + a.Header()
	if bytes, whole := a.Type.Bytes(); whole {
		return "u" + strconv.Itoa(bytes), a.Shape, comment
	}
	return "u1", []int{len(a.Data)}, comment
}

// Save writes a as a .npy file; see [Array.WriteNPY].
func (a *Array) Save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("array: Save: %w", err)
	}
	w := bufio.NewWriter(f)
	if err := a.WriteNPY(w); err != nil {
		f.Close()
		return err
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("array: Save: %w", err)
	}
	return nil
}

// Load reads a .npy file, or an array of a .safetensors file, "model.safetensors:NAME", whose
// name may be left out where there is one, or of a model in several, "model.safetensors.index.json:NAME". Each may be followed by what the bytes are:
// "w.npy:i6[64, 32]" takes the bytes of the file, in row-major and little-endian
// order whatever the file has, as a packed i6[64, 32]; "w.npy:bf16" keeps the
// shape of the file, whose elements must be as wide. Without it the type is the
// one that the file names.
func Load(spec string) (*Array, error) {
	path, rest := splitPath(spec)
	if path == "" {
		path = spec // an error of the system says more
	}
	tensors := ofTensors(path)
	name, as := "", rest
	if tensors {
		name, as = splitTensor(rest)
	}
	var want *typeShape
	if as != "" {
		ts, err := parseTypeShape(as, diag.Pos{Line: 1, Col: len(spec) - len(as) + 1})
		if err != nil {
			return nil, err
		}
		want = &ts
	}
	if tensors {
		t, err := OpenTensors(path)
		if err != nil {
			return nil, err
		}
		defer t.Close()
		return loadTensor(t, name, want)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("array: Load: %w", err)
	}
	defer f.Close()
	return readNPY(bufio.NewReader(f), path, want)
}

// splitPath takes a file's name off a text, and what is behind its colon; both are "" where there is no such file's.
func splitPath(spec string) (path, rest string) {
	for _, suffix := range []string{".npy", indexSuffix, tensorsSuffix} {
		for at := 0; at < len(spec); {
			path, rest, more := strings.Cut(spec[at:], ":")
			if strings.HasSuffix(strings.ToLower(path), suffix) {
				return spec[:at+len(path)], rest
			}
			if !more {
				break
			}
			at += len(path) + 1
		}
	}
	return "", ""
}

// FromSpec makes an array from a command-line text: a generator ("rand:f16[64,
// 32]:seed=1", see [Generate]) or a file ("w.npy", "w.npy:i6[64, 32]",
// "model.safetensors:NAME", see [Load]).
func FromSpec(spec string) (*Array, error) {
	kind, _, _ := strings.Cut(spec, ":")
	kind, _, _ = strings.Cut(kind, "=")
	small := strings.ToLower(spec)
	if slices.Contains(generatorNames(), kind) || !strings.Contains(small, ".npy") && !strings.Contains(small, tensorsSuffix) {
		return Generate(spec)
	}
	return Load(spec)
}

// ReadNPY reads one array of .npy format 1.0, 2.0 or 3.0, in C or Fortran order
// and either byte order. It stops behind the last byte of the array. Errors in
// the content are a [diag.List] with a code from Array.N4 to Array.N8.
func ReadNPY(r io.Reader) (*Array, error) { return readNPY(r, "", nil) }

// fileError is a problem in the file.
func fileError(file, code, help, format string, args ...any) error {
	var l diag.List
	l.Addf(diag.Pos{File: file}, code, help, format, args...)
	return l.Err()
}

func readNPY(r io.Reader, file string, want *typeShape) (*Array, error) {
	head, err := readNPYHeader(r, file)
	if err != nil {
		return nil, err
	}
	h, msg := parseNPYHeader(head)
	if msg != "" {
		return nil, fileError(file, codeHeader, "", "the .npy header %s", msg)
	}
	raw, size, bigEndian, err := npyElement(file, h.descr, want != nil)
	if err != nil {
		return nil, err
	}
	// A container of bytes is checked as u8 with one more dimension.
	if err := CheckShape(dtype.U8, append(slices.Clone(h.shape), size)...); err != nil {
		return nil, fileError(file, codeShape, fmt.Sprintf("the limit is %d bytes and %d dimensions", MaxBytes, MaxRank-1),
			"the .npy shape %s is not possible", shapeText(h.shape))
	}
	n := 1
	for _, d := range h.shape {
		n *= d
	}
	data, err := io.ReadAll(io.LimitReader(r, int64(n*size)))
	if err != nil {
		return nil, fmt.Errorf("array: ReadNPY: %w", err)
	}
	if len(data) != n*size {
		return nil, fileError(file, codeShort, "the file is cut short or its header is wrong",
			"the .npy data has %d bytes, and %s of %d-byte elements takes %d", len(data), shapeText(h.shape), size, n*size)
	}
	if bigEndian {
		for k := 0; k < len(data); k += size {
			slices.Reverse(data[k : k+size])
		}
	}
	if h.fortran && len(h.shape) > 1 && n > 0 {
		data = fromFortran(data, h.shape, size)
	}
	if want == nil && h.typed != "" {
		ts, err := parseTypeShape(h.typed, diag.Pos{})
		if err != nil {
			return nil, fileError(file, codeHeader, "", "the .npy header names a type that does not exist: %q", h.typed)
		}
		want = &ts
	}
	if want == nil {
		return &Array{Type: raw, Shape: h.shape, Data: data}, nil
	}
	return taken(file, data, size, h.shape, *want)
}

// taken are the bytes of a file's array as somebody says they are meant. Its own elements have so many bytes.
func taken(file string, data []byte, size int, shape []int, want typeShape) (*Array, error) {
	a := &Array{Type: want.t, Shape: want.shape, Data: data}
	if !want.shaped {
		if want.t.Bits() != 8*size {
			return nil, fileError(file, codeBytes, fmt.Sprintf("give the shape too: %s[…]", want.t),
				"%s has %d bits, and the elements of the file have %d", want.t, want.t.Bits(), 8*size)
		}
		a.Shape = shape
	}
	if need := dtype.PackedBytes(a.Type.Bits(), a.Len()); need != len(data) {
		return nil, fileError(file, codeBytes, "", "%s takes %d bytes, and the file has %d", a.Header(), need, len(data))
	}
	a.clearTail()
	return a, nil
}

// readNPYHeader reads up to the data and returns the header text.
func readNPYHeader(r io.Reader, file string) (string, error) {
	short := func(err error) error {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return fileError(file, codeHeader, "", "the file ends inside the .npy header")
		}
		return fmt.Errorf("array: ReadNPY: %w", err)
	}
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return "", short(err)
	}
	if string(start[:6]) != npyMagic {
		return "", fileError(file, codeHeader, "save it with numpy.save", "this is not a .npy file")
	}
	var size [4]byte
	width := 4
	switch start[6] {
	case 1:
		width = 2
	case 2, 3:
	default:
		return "", fileError(file, codeHeader, "", "the .npy format %d.%d is not known", start[6], start[7])
	}
	if _, err := io.ReadFull(r, size[:width]); err != nil {
		return "", short(err)
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > maxNPYHeader {
		return "", fileError(file, codeHeader, "", "the .npy header has %d bytes, and at most %d are read", n, maxNPYHeader)
	}
	head := make([]byte, n)
	if _, err := io.ReadFull(r, head); err != nil {
		return "", short(err)
	}
	return string(head), nil
}

// npyElement reads a descr such as "<f2": the element type, its bytes, and
// whether they must be swapped. Raw bytes ("|V2", as ml_dtypes saves bfloat16)
// are allowed where the caller knows the type.
func npyElement(file, descr string, typed bool) (t dtype.Type, size int, bigEndian bool, err error) {
	order, name := "|", descr
	if descr != "" && strings.ContainsRune("<>|=", rune(descr[0])) {
		order, name = descr[:1], descr[1:]
	}
	for _, n := range npyNames {
		if n.descr == name {
			bytes, _ := n.t.Bytes()
			return n.t, bytes, order == ">" && bytes > 1, nil
		}
	}
	if v, ok := strings.CutPrefix(name, "V"); ok {
		if size, err := strconv.Atoi(v); err == nil && size >= 1 && size <= 8 {
			if typed {
				return dtype.U8, size, false, nil
			}
			help, bytes := "name the type and the shape: FILE.npy:TYPE[shape]", fmt.Sprintf("%d bytes", size)
			switch size {
			case 1:
				help, bytes = "name the type: FILE.npy:f8e4m3", "a byte"
			case 2:
				help = "name the type: FILE.npy:bf16"
			}
			return 0, 0, false, fileError(file, codeFileType, help, "the file holds raw elements of %s", bytes)
		}
	}
	return 0, 0, false, fileError(file, codeFileType, "convert it in numpy first, for example with astype", "the numpy type %q has no element type here", descr)
}

// fromFortran reorders elements from column-major to row-major.
func fromFortran(data []byte, shape []int, size int) []byte {
	out := make([]byte, len(data))
	index := make([]int, len(shape))
	strides := make([]int, len(shape))
	step := 1
	for i, d := range shape {
		strides[i] = step
		step *= d
	}
	from := 0
	for k := 0; k < len(out); k += size {
		copy(out[k:k+size], data[from*size:])
		for i := len(shape) - 1; i >= 0; i-- {
			index[i]++
			from += strides[i]
			if index[i] < shape[i] {
				break
			}
			from -= index[i] * strides[i]
			index[i] = 0
		}
	}
	return out
}

// npyHeader is what a header says; typed is the text of our comment.
type npyHeader struct {
	descr   string
	fortran bool
	shape   []int
	typed   string
}

// parseNPYHeader reads the Python dictionary of a header. msg completes "the
// .npy header …" and is empty if all is well.
func parseNPYHeader(text string) (h npyHeader, msg string) {
	if dict, comment, ok := strings.Cut(text, typeComment); ok {
		text, h.typed = dict, strings.TrimSpace(comment)
	}
	p := npyParser{rest: text}
	if !p.take("{") {
		return h, "is not a dictionary"
	}
	seen := map[string]bool{}
	for !p.take("}") {
		key, ok := p.str()
		if !ok || !p.take(":") {
			return h, fmt.Sprintf("is not a dictionary near %q", p.near())
		}
		if seen[key] {
			return h, fmt.Sprintf("has the key %q twice", key)
		}
		seen[key] = true
		switch key {
		case "descr":
			if h.descr, ok = p.str(); !ok {
				return h, "has a structured type; only plain arrays are read"
			}
		case "fortran_order":
			switch {
			case p.take("True"):
				h.fortran = true
			case !p.take("False"):
				return h, "has a fortran_order that is neither True nor False"
			}
		case "shape":
			if h.shape, ok = p.tuple(); !ok {
				return h, "has a shape that is not a tuple of sizes"
			}
		default:
			return h, fmt.Sprintf("has the unknown key %q", key)
		}
		if !p.take(",") && !strings.HasPrefix(p.near(), "}") {
			return h, fmt.Sprintf("is not a dictionary near %q", p.near())
		}
	}
	if p.near() != "" {
		return h, fmt.Sprintf("goes on after the dictionary with %q", p.near())
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return h, fmt.Sprintf("has no key %q", key)
		}
	}
	return h, ""
}

type npyParser struct{ rest string }

func (p *npyParser) near() string {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	return p.rest[:min(len(p.rest), 20)]
}

func (p *npyParser) take(s string) bool {
	if !strings.HasPrefix(p.near(), s) {
		return false
	}
	p.rest = p.rest[len(s):]
	return true
}

func (p *npyParser) str() (string, bool) {
	for _, quote := range []string{"'", `"`} {
		if p.take(quote) {
			s, rest, ok := strings.Cut(p.rest, quote)
			p.rest = rest
			return s, ok && !strings.ContainsAny(s, "\\\n")
		}
	}
	return "", false
}

func (p *npyParser) tuple() ([]int, bool) {
	if !p.take("(") {
		return nil, false
	}
	list := []int{}
	for !p.take(")") {
		if p.near(); p.rest == "" {
			return nil, false
		}
		end := strings.IndexAny(p.rest, ",)")
		if end < 0 || len(list) > MaxRank {
			return nil, false
		}
		// Python 2 wrote long sizes as 3L.
		n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(p.rest[:end]), "L"), 10, 62)
		if err != nil {
			return nil, false
		}
		list = append(list, int(n))
		p.rest = p.rest[end:]
		p.take(",")
	}
	return list, true
}
