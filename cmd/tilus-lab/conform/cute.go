package conform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/gpu/model/volta"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/layout"
	"github.com/tilus-lab/tilus-lab/vm/layout/cute"
)

// cuteOperations are the operations of CuTe's algebra in the recordings, by the
// expression that asks our algebra for them. coalesce_by_mode is coalesce with a
// profile; the swizzle operations answer themselves.
var cuteOperations = map[string]string{
	"coalesce_by_mode": "coalesce", "swizzle_upcast": "upcast", "swizzle_downcast": "downcast",
	"coalesce": "", "filter": "", "filter_zeros": "", "composition": "", "complement": "", "right_inverse": "", "left_inverse": "",
	"logical_divide": "", "zipped_divide": "", "tiled_divide": "", "flat_divide": "",
	"logical_product": "", "zipped_product": "", "tiled_product": "", "flat_product": "", "blocked_product": "", "raked_product": "",
	"upcast": "", "downcast": "", "nullspace": "", "max_common_layout": "", "max_common_vector": "", "max_alignment": "",
	"make_ordered_layout": "", "make_layout_like": "", "make_fragment_like": "", "flatten": "",
	"size": "", "cosize": "", "rank": "", "depth": "", "coshape": "", "crd2idx": "", "idx2crd": "",
}

// cuteKinds are the recordings of CuTe, which name the kind as the operation.
func cuteKinds() []Kind {
	ask := func(op, doc string, check func(in cuteInput, expect json.RawMessage) (string, error)) Kind {
		return Kind{"op:" + op, doc, func(input, expect json.RawMessage) (string, error) {
			var in cuteInput
			if err := json.Unmarshal(input, &in); err != nil {
				return "", fmt.Errorf("input: %w", err)
			}
			return check(in, expect)
		}}
	}
	kinds := []Kind{
		ask("swizzle_values", "offsets of a swizzled layout", cuteSwizzleValues),
		ask("swizzle_size", "the bits that a swizzle touches", cuteSwizzleSize),
		ask("composed_print", "a swizzled layout as text", cuteComposed),
		ask("tile_to_shape", "a block repeated until it has a shape, also swizzled", cuteTileToShape),
		ask("smem_atom", "shared-memory layouts of wgmma, with the swizzle in bytes or elements", cuteShared),
		ask("make_layout_tv", "layout of threads and values from where they stand", cuteLayoutTV),
		ask("tiled_mma", "a matrix instruction spread over threads and values", cuteTiledMMA),
		ask("tiled_copy", "a copy instruction spread over threads and values", cuteTiledCopy),
		ask("tiled_copy_A", "a copy for operand A of a spread matrix instruction", cuteTiledCopy),
		ask("tiled_copy_B", "a copy for operand B", cuteTiledCopy),
		ask("tiled_copy_C", "a copy for operand C", cuteTiledCopy),
		ask("ldsm.x4", "what ldmatrix reads and writes for an operand", cuteTiledCopy),
		ask("mma_atom", "CuTe's layouts of a matrix instruction", cuteMMA),
		ask("copy_atom", "CuTe's layouts of a copy instruction, in bits", cuteCopy),
		ask("catalog", "shapes and types of all matrix instructions that CuTe knows", cuteCatalog),
		ask("print_layout", "a layout as a table", cuteTable),
		ask("octet", "the octets of a Volta warp", voltaOctets),
		ask("hmma884_sets", "sets and steps of a Volta product", voltaSteps),
		ask("hmma884_cycles", "cycles of the steps, as measured", voltaCycles),
		ask("hmma884_step_elements", "elements that each step adds to", voltaElements),
		ask("wmma_accumulator", "where the sums of wmma lie", wmmaAccumulator),
		ask("note", "wmma's sums on Volta are the octets' sums", voltaNote),
	}
	for op := range cuteOperations {
		kinds = append(kinds, ask(op, "CuTe's "+op, cuteAlgebra))
	}
	return kinds
}

// cuteInput is the union of the inputs of these kinds.
type cuteInput struct {
	Op, Expr, Atom, Unit string
	Mode, Arch, Accum    string
	Warp, QuadPair       int
	WMMA                 string
	Args                 []string
	N                    int
	PositionIndependent  bool              `json:"position_independent"`
	SameLayouts          []string          `json:"same_layouts"`
	Types                map[string]string `json:"types"`
}

// call is the operation as an expression. The recordings write shapes as S(…) or
// S8 and numbers as I8, and a column-major layout as its shape alone.
func (in cuteInput) call(op string) string {
	args := slices.Clone(in.Args)
	for i, a := range args {
		args[i] = cuteArg(a)
	}
	if in.N > 0 {
		args = append(args, fmt.Sprint(in.N))
	}
	return op + "(" + strings.Join(args, ", ") + ")"
}

func cuteArg(a string) string {
	switch {
	case len(a) > 1 && (a[0] == 'S' || a[0] == 'I') && strings.IndexByte("(0123456789", a[1]) >= 0:
		return a[1:]
	case strings.HasPrefix(a, "(") && !strings.Contains(a, ":"):
		return "make_layout(" + a + ")"
	}
	return a
}

func cuteAlgebra(in cuteInput, expect json.RawMessage) (string, error) {
	var want struct {
		Cpp    string
		Agrees *bool           `json:"pycute_agrees"`
		PyCute json.RawMessage `json:"pycute"`
	}
	if err := json.Unmarshal(expect, &want); err != nil {
		return "", fmt.Errorf("expect: %w", err)
	}
	op := cuteOperations[in.Op]
	if op == "" {
		op = in.Op
	}
	v, err := cute.Eval(in.call(op))
	if want.Agrees == nil || *want.Agrees {
		if err != nil {
			return "", err
		}
		out := map[string]any{"cpp": v.String()}
		if want.Agrees != nil {
			out["pycute_agrees"] = true
		}
		return "", compare(out, expect, nil)
	}
	// The two implementations differ, so the definition decides.
	note, perr := cuteProperty(in, want.Cpp, v, err)
	if perr != nil {
		return "", perr
	}
	// That leaves nothing of expect but the two answers and that they differ.
	return note, compare(map[string]any{"cpp": want.Cpp, "pycute_agrees": false, "pycute": want.PyCute}, expect, nil)
}

// cuteProperty checks an answer, or that there is none, by the definition of the
// operation, where CuTe's C++ and its Python model disagree.
func cuteProperty(in cuteInput, cpp string, v cute.Value, err error) (string, error) {
	if wanted := map[string]int{"idx2crd": 2}[in.Op]; len(in.Args) < max(1, wanted) {
		return "", fmt.Errorf("%s has %d arguments", in.Op, len(in.Args))
	}
	switch in.Op {
	case "left_inverse":
		if err != nil {
			return "", err
		}
		l, err := cute.Parse(cuteArg(in.Args[0]))
		if err != nil {
			return "", err
		}
		inv, _ := v.Layout()
		all, err := l.Offsets()
		if err != nil {
			return "", err
		}
		slices.Sort(all)
		injective := len(slices.Compact(all)) == l.Size()
		for i := range l.Size() {
			at := l.At(i)
			if got := inv.At(at); injective && got != i || l.At(got) != at {
				return "", fmt.Errorf("%s after %s takes %d to %d", inv, l, i, got)
			}
		}
		return fmt.Sprintf("C++ and pycute differ off the image; %s undoes the layout", v), nil
	case "idx2crd":
		if err != nil {
			return "", err
		}
		shape, err := cute.ParseTuple(cuteArg(in.Args[1]))
		if err != nil {
			return "", err
		}
		l, err := cute.Compact(shape)
		if err != nil {
			return "", err
		}
		coord, _ := v.Tuple()
		at, err := l.ValueAt(coord)
		if err != nil || at.String() != cuteArg(in.Args[0]) {
			return "", fmt.Errorf("%s is the coordinate of %s in %s: %w", coord, at, shape, err)
		}
		return "C++ and pycute differ beyond the shape; the coordinate goes back to its number", nil
	case "logical_divide", "zipped_divide", "tiled_divide", "flat_divide", "composition":
		l, perr := cute.Parse(cuteArg(in.Args[0]))
		if perr != nil {
			return "", perr
		}
		theirs, perr := cute.Parse(cpp)
		if perr != nil {
			return "", perr
		}
		if err != nil {
			// Ill-posed: the recorded answer is no rearrangement of the layout.
			if in.Op != "composition" && sameOffsets(l, theirs) {
				return "", err
			}
			return fmt.Sprintf("ill-posed, C++ answers with %d elements for %d; we say why: %v", theirs.Size(), l.Size(), err), nil
		}
		ours, _ := v.Layout()
		if in.Op == "composition" || !sameOffsets(l, ours) {
			return "", fmt.Errorf("%s does not hold the offsets of %s", v, l)
		}
		return "C++ and pycute differ; ours holds the offsets of the layout, each once", nil
	}
	return "", fmt.Errorf("no property is known for %s, on which C++ and pycute disagree", in.Op)
}

// sameOffsets says whether two layouts have the same offsets, each as often.
func sameOffsets(a, b cute.Layout) bool {
	x, err := a.Offsets()
	if err != nil {
		return false
	}
	y, err := b.Offsets()
	if err != nil {
		return false
	}
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

func cuteSwizzleValues(in cuteInput, expect json.RawMessage) (string, error) {
	c, err := cute.ParseComposed(strings.Join(in.Args, " o "))
	if err != nil {
		return "", err
	}
	if c.Size() > layout.MaxCells {
		return "", errors.New("too many values")
	}
	values := make([]int, c.Size())
	for i := range values {
		values[i] = c.At(i)
	}
	return "", compare(agreed(map[string]any{"cpp": values}), expect, nil)
}

// agreed adds that both of CuTe's implementations give the answer.
func agreed(answer map[string]any) map[string]any {
	answer["pycute_agrees"] = true
	return answer
}

func cuteSwizzle(in cuteInput) (layout.Swizzle, error) {
	if len(in.Args) != 1 {
		return layout.Swizzle{}, errors.New("one swizzle is wanted")
	}
	return layout.ParseSwizzle(in.Args[0])
}

func cuteSwizzleSize(in cuteInput, expect json.RawMessage) (string, error) {
	s, err := cuteSwizzle(in)
	if err != nil {
		return "", err
	}
	// The masks are what the swizzle reads and writes, so they are asked of it.
	read, written := 0, 0
	for bit := range 62 {
		if changed := s.Apply(1<<bit) ^ 1<<bit; changed != 0 {
			read, written = read|1<<bit, written|changed
		}
	}
	return "", compare(map[string]any{"bits": s.Bits, "base": s.Base, "shift": s.Shift, "yyy_mask": read, "zzz_mask": written}, expect, nil)
}

func cuteComposed(in cuteInput, expect json.RawMessage) (string, error) {
	c, err := cute.ParseComposed(strings.Join(in.Args, " o "))
	if err != nil {
		return "", err
	}
	return "", compare(agreed(map[string]any{"cpp": c.String()}), expect, nil)
}

func cuteTileToShape(in cuteInput, expect json.RawMessage) (string, error) {
	if in.Expr == "" {
		return cuteAlgebra(in, expect)
	}
	words := strings.Fields(in.Expr)
	if len(words) < 3 || len(words) > 4 {
		return "", fmt.Errorf("%q is not understood", in.Expr)
	}
	block, shape := words[1], words[2]
	text := "tile_to_shape(" + block + ", " + shape
	if len(words) == 4 {
		order, ok := strings.CutPrefix(words[3], "Step<")
		if !ok {
			return "", fmt.Errorf("%q is no order", words[3])
		}
		text += ", (" + strings.TrimSuffix(order, ">") + ")"
	}
	return cutePrint(in, text+")", expect)
}

func cuteShared(in cuteInput, expect json.RawMessage) (string, error) {
	return cutePrint(in, in.Expr, expect)
}

// cutePrint compares an expression with a recorded print. The recordings drop
// the underscores of static numbers, and with them that of smem_ptr.
func cutePrint(in cuteInput, text string, expect json.RawMessage) (string, error) {
	if in.PositionIndependent {
		text = "as_position_independent_swizzle_layout(" + text + ")"
	}
	v, err := cute.Eval(text)
	if err != nil {
		return "", err
	}
	return "", comparePrint(v.String(), expect)
}

func comparePrint(text string, expect json.RawMessage) error {
	return compare(map[string]any{"print": strings.ReplaceAll(text, "_", "")}, expect, nil)
}

// cuteParts cuts "make_layout_tv thr(4,8):(8,1) val(2,4) query" into words; the
// layouts after thr and val are returned by those names.
func cuteParts(expr string) (words []string, named map[string]string) {
	named = map[string]string{}
	for _, w := range strings.Fields(expr) {
		switch {
		case strings.HasPrefix(w, "thr("):
			named["thr"] = w[3:]
		case strings.HasPrefix(w, "val("):
			named["val"] = w[3:]
		default:
			words = append(words, w)
		}
	}
	return words, named
}

func cuteTV(named map[string]string) (cute.TV, error) {
	thr, err := cute.Parse(named["thr"])
	if err != nil {
		return cute.TV{}, err
	}
	val, err := cute.Parse(named["val"])
	if err != nil {
		return cute.TV{}, err
	}
	return cute.MakeLayoutTV(thr, val)
}

func cuteLayoutTV(in cuteInput, expect json.RawMessage) (string, error) {
	words, named := cuteParts(in.Expr)
	if len(words) != 2 {
		return "", fmt.Errorf("%q is not understood", in.Expr)
	}
	tv, err := cuteTV(named)
	if err != nil {
		return "", err
	}
	switch words[1] {
	case "layout_tv":
		return "", comparePrint(tv.Layout.String(), expect)
	case "layout_mn":
		return "", comparePrint(tv.MN.String(), expect)
	case "tiler_mn":
		return "", comparePrint(tv.Tile.String(), expect)
	}
	return "", fmt.Errorf("%q is not understood", in.Expr)
}

// cuteAtom is a matrix instruction by CuTe's name. What stands in <K,K> chooses
// how shared memory is laid out, which does not change who holds what.
func cuteAtom(name string) (cute.MMA, error) {
	if strings.HasPrefix(name, "UniversalFMA<") {
		return cute.UniversalFMA(), nil
	}
	a, err := cuteFind(name)
	if err != nil {
		return cute.MMA{}, err
	}
	m := cute.MMA{M: a.M, N: a.N, K: a.K}
	if m.ThrID, err = cuteThrID(a); err != nil {
		return m, err
	}
	for _, o := range []struct {
		name string
		to   *cute.Layout
	}{{"A", &m.A}, {"B", &m.B}, {"C", &m.C}} {
		if *o.to, err = cuteOperand(a, o.name); err != nil {
			return m, err
		}
	}
	return m, nil
}

// cuteFind finds an instruction; the majors of shared operands, <K,MN>, and a
// _TN that a short name leaves out may be missing in the catalogue's names.
func cuteFind(name string) (arch.Atom, error) {
	a, err := arch.FindAtom(name)
	if err == nil {
		return a, nil
	}
	short, _, ok := strings.Cut(name, "<")
	if ok {
		if b, e := arch.FindAtom(short); e == nil {
			return b, nil
		}
	}
	if name == "SM80_16x8x16" {
		return arch.FindAtom("SM80_16x8x16_F32F16F16F32_TN")
	}
	return a, err
}

func cuteThrID(a arch.Atom) (cute.Layout, error) {
	if a.ThrID != "" {
		return cute.Parse(a.ThrID)
	}
	return cute.Parse(fmt.Sprint(a.Lanes))
}

// cuteOperand is CuTe's layout of an operand, where it agrees with the register
// layout of the catalogue.
func cuteOperand(a arch.Atom, name string) (cute.Layout, error) {
	o, ok := a.Operand(name)
	if !ok || o.CuTe == "" {
		return cute.Layout{}, fmt.Errorf("%s has no CuTe layout of operand %s", a.Name, name)
	}
	l, err := cute.Parse(o.CuTe)
	if err != nil {
		return l, err
	}
	if o.In != arch.InRegisters || a.Sparse() {
		return l, nil
	}
	r := o.Layout
	if name == "B" {
		if r, err = r.Permute(1, 0); err != nil {
			return l, err
		}
	}
	ours, err := cute.FromRegister(r)
	if err != nil {
		return l, err
	}
	// The same threads and values; how they nest is CuTe's choice.
	if !ours.Mode(0).SameMap(l.Mode(0)) || !ours.Mode(1).SameMap(l.Mode(1)) {
		return l, fmt.Errorf("operand %s of %s is %s by its register layout, %s by CuTe's conventions", name, a.Name, ours, l)
	}
	return l, nil
}

// cuteTiled reads "[atom layout] [Tile<…>]" after the name of an instruction.
func cuteTiled(words []string) (m cute.TiledMMA, rest []string, err error) {
	if len(words) == 0 {
		return m, nil, errors.New("no instruction is named")
	}
	atom, err := cuteAtom(words[0])
	if err != nil {
		return m, nil, err
	}
	words = words[1:]
	var atoms cute.Layout
	if len(words) > 0 && strings.HasPrefix(words[0], "(") {
		if atoms, err = cute.Parse(words[0]); err != nil {
			return m, nil, err
		}
		words = words[1:]
	}
	var tile []cute.Tiler
	if len(words) > 0 && strings.HasPrefix(words[0], "Tile<") {
		for _, t := range splitTop(strings.TrimSuffix(words[0][len("Tile<"):], ">")) {
			if t == "_" {
				tile = append(tile, cute.KeepMode())
				continue
			}
			one, err := cute.ParseTiler(t)
			if err != nil {
				return m, nil, err
			}
			tile = append(tile, one)
		}
		words = words[1:]
	}
	m, err = cute.NewTiledMMA(atom, atoms, tile)
	return m, words, err
}

// splitTop cuts at commas outside parentheses.
func splitTop(s string) []string {
	var out []string
	depth, at := 0, 0
	for i, c := range s {
		switch {
		case c == '(' || c == '<':
			depth++
		case c == ')' || c == '>':
			depth--
		case c == ',' && depth == 0:
			out = append(out, s[at:i])
			at = i + 1
		}
	}
	return append(out, s[at:])
}

func cuteTiledMMA(in cuteInput, expect json.RawMessage) (string, error) {
	words := strings.Fields(in.Expr)
	if len(words) < 3 {
		return "", fmt.Errorf("%q is not understood", in.Expr)
	}
	m, rest, err := cuteTiled(words[1:])
	if err != nil {
		return "", err
	}
	if len(rest) != 1 {
		return "", fmt.Errorf("%q is not understood", in.Expr)
	}
	switch rest[0] {
	case "tile_mnk":
		return "", comparePrint(m.Tile().String(), expect)
	case "thr_vmnk":
		return "", comparePrint(m.Threads.String(), expect)
	}
	operand, ok := strings.CutSuffix(rest[0], "_TV")
	if !ok {
		return "", fmt.Errorf("%q is not understood", in.Expr)
	}
	l, err := m.LayoutTV(operand)
	if err != nil {
		return "", err
	}
	return "", comparePrint(l.String(), expect)
}

// cuteCopies are the names that the recordings use for copy instructions.
var cuteCopies = map[string]string{
	"ldsm.x4": "SM75_U32x4_LDSM_N", "ldsm.x2": "SM75_U32x2_LDSM_N", "ldsm.x1": "SM75_U32x1_LDSM_N",
	"ldsm.x4.trans": "SM75_U16x8_LDSM_T",
	"cp.async16":    "UniversalCopy<u128>", "cp.async8": "UniversalCopy<u64>", "cp.async4": "UniversalCopy<u32>",
}

func cuteCopyAtom(word string) (cute.Copy, error) {
	name := cuteCopies[word]
	if name == "" {
		name = word
		if _, err := typeBits(word); err == nil {
			name = "UniversalCopy<" + word + ">"
		}
	}
	a, err := arch.FindAtom(name)
	if err != nil {
		return cute.Copy{}, err
	}
	return cuteCopyLayouts(a)
}

// cuteCopyLayouts are the layouts of a copy in bits. Both sides refer to the
// numbering of registers for what moves between them and shared memory, and to
// that of tensor memory for what moves there.
func cuteCopyLayouts(a arch.Atom) (c cute.Copy, err error) {
	if c.ThrID, err = cuteThrID(a); err != nil {
		return c, err
	}
	if c.Src, err = cuteSide(a, "S"); err != nil {
		return c, err
	}
	if c.Dst, err = cuteSide(a, "D"); err != nil {
		return c, err
	}
	switch a.Family {
	case "ldmatrix", "tcgen05.st", "tcgen05.cp":
		c.Ref = c.Dst
	default:
		c.Ref = c.Src
	}
	return c, nil
}

func cuteSide(a arch.Atom, name string) (cute.Layout, error) {
	o, ok := a.Operand(name)
	if !ok || o.CuTe == "" {
		return cute.Layout{}, fmt.Errorf("%s has no CuTe layout of its side %s", a.Name, name)
	}
	return cute.Parse(o.CuTe)
}

// cuteTiledCopy answers for copies of all kinds: "tiled_copy ATOM TYPE thr… val…
// query", "tiled_copy_A COPY MMA atoms Tile<…> query" and "ldsm.x4 A tidfrg_S".
func cuteTiledCopy(in cuteInput, expect json.RawMessage) (string, error) {
	words, named := cuteParts(in.Expr)
	var c cute.TiledCopy
	var err error
	switch {
	case in.Op == "tiled_copy" && len(words) == 4:
		var bits int
		var atom cute.Copy
		if bits, err = typeBits(words[2]); err != nil {
			return "", err
		}
		if atom, err = cuteCopyAtom(words[1]); err == nil {
			atom, err = atom.InElements(bits)
		}
		if err != nil {
			return "", err
		}
		tv, err := cuteTV(named)
		if err != nil {
			return "", err
		}
		c, err = cute.NewTiledCopy(atom, tv.Layout, tv.Tile)
		if err != nil {
			return "", err
		}
	case strings.HasPrefix(in.Op, "tiled_copy_") && len(words) >= 4:
		c, err = cuteOperandCopy(words[1], in.Op[len("tiled_copy_"):], words[2:len(words)-1])
	case in.Op == "ldsm.x4" && len(words) == 3:
		// The product that the recordings read operands for.
		c, err = cuteOperandCopy(words[0], words[1], []string{"SM80_16x8x16", "(2,2,1)", "Tile<32,32,16>"})
	default:
		err = fmt.Errorf("%q is not understood", in.Expr)
	}
	if err != nil {
		return "", err
	}
	switch query := words[len(words)-1]; query {
	case "TV":
		return "", comparePrint(c.TV.String(), expect)
	case "Tiler":
		return "", comparePrint(c.Tile.String(), expect)
	case "tidfrg_S", "tidfrg_D":
		tile, err := cute.Identity(c.Tile)
		if err != nil {
			return "", err
		}
		parts, err := c.Partition(tile, query[len("tidfrg_"):])
		if err != nil {
			return "", err
		}
		one, err := cute.Join(parts.Mode(0), parts.Mode(1))
		if err != nil {
			return "", err
		}
		return "", comparePrint("ArithTuple(0,0) o "+one.String(), expect)
	}
	return "", fmt.Errorf("%q is not understood", in.Expr)
}

// cuteOperandCopy reads an f16 operand of a tiled product.
func cuteOperandCopy(copy, operand string, product []string) (c cute.TiledCopy, err error) {
	m, rest, err := cuteTiled(product)
	if err != nil {
		return c, err
	}
	if len(rest) > 0 {
		return c, fmt.Errorf("%q is not understood", rest)
	}
	atom, err := cuteCopyAtom(copy)
	if err == nil {
		atom, err = atom.InElements(16)
	}
	if err != nil {
		return c, err
	}
	tv, err := m.LayoutTV(operand)
	if err != nil {
		return c, err
	}
	mnk := m.Tile().Items()
	tile := map[string]cute.Tuple{"A": cute.Of(mnk[0], mnk[2]), "B": cute.Of(mnk[1], mnk[2]), "C": cute.Of(mnk[0], mnk[1])}[operand]
	return cute.NewTiledCopy(atom, tv, tile)
}

func typeBits(name string) (int, error) {
	if name == "u128" {
		return 128, nil
	}
	t, err := dtype.Parse(name)
	return t.Bits(), err
}

// cuteType is the C++ type of an operand. CuTe has no D of its own for products
// that stay in tensor memory or add in place.
func cuteType(a arch.Atom, operand string) string {
	o, _ := a.Operand(operand)
	if o.CuTeType == "" && operand == "D" {
		o, _ = a.Operand("C")
	}
	return o.CuTeType
}

// sameTV takes brackets around a single mode for none.
func sameTV(_ string, got, want any) bool {
	g, ok := got.(map[string]any)
	w, ok2 := want.(map[string]any)
	if !ok || !ok2 {
		return false
	}
	a, err := cute.Parse(fmt.Sprint(g["layout"]))
	if err != nil {
		return false
	}
	b, err := cute.Parse(fmt.Sprint(w["layout"]))
	if err != nil || b.Rank() != 2 || !a.Mode(0).SameMap(b.Mode(0)) || !a.Mode(1).SameMap(b.Mode(1)) {
		return false
	}
	g = maps.Clone(g)
	g["layout"] = w["layout"]
	return reflect.DeepEqual(g, w)
}

func cuteMMA(in cuteInput, expect json.RawMessage) (string, error) {
	// Which threads and values are sampled is part of the question.
	var want struct{ A, B, C struct{ Samples [][]int } }
	if err := json.Unmarshal(expect, &want); err != nil {
		return "", fmt.Errorf("expect: %w", err)
	}
	m, err := cuteAtom(in.Atom)
	if err != nil {
		return "", err
	}
	a, err := cuteFind(in.Atom)
	if err != nil {
		return "", err
	}
	for operand, cpp := range in.Types {
		if ours := cuteType(a, operand); ours != cpp {
			return "", fmt.Errorf("operand %s of %s is %s, not %s", operand, a.Name, ours, cpp)
		}
	}
	answer := map[string]any{
		"MNK": []int{m.M, m.N, m.K}, "ThrID": m.ThrID.String(),
		"A": describeTV(m.A, m.M, m.K, want.A.Samples), "B": describeTV(m.B, m.N, m.K, want.B.Samples), "C": describeTV(m.C, m.M, m.N, want.C.Samples),
	}
	if err := compare(answer, expect, sameTV); err != nil {
		return losesElements(in, answer, expect, err)
	}
	for _, name := range in.SameLayouts {
		other, err := cuteAtom(name)
		if err != nil {
			return "", err
		}
		for i, l := range []cute.Layout{other.ThrID, other.A, other.B, other.C} {
			if ours := []cute.Layout{m.ThrID, m.A, m.B, m.C}[i]; !l.Equal(ours) {
				return "", fmt.Errorf("%s of %s is %s, that of %s is %s", []string{"ThrID", "A", "B", "C"}[i], name, l, in.Atom, ours)
			}
		}
	}
	return "", nil
}

// losesElements takes a recording of CuTe's m16n8k32 with 4-bit operands for what
// it is: a slip, since its B puts neighbouring threads 32 apart and misses half of
// the operand. PTX and the instruction's siblings put them 64 apart.
func losesElements(in cuteInput, answer map[string]any, expect json.RawMessage, err error) (string, error) {
	ours, _ := answer["B"].(map[string]any)
	var want struct {
		B struct{ Samples [][]int }
	}
	if ours["layout"] != "((4,8),(8)):((64,1),(8))" || json.Unmarshal(expect, &want) != nil {
		return "", err
	}
	theirs, e := cute.Parse("((4,8),(8)):((32,1),(8))")
	if e != nil {
		return "", e
	}
	answer["B"] = describeTV(theirs, 8, 32, want.B.Samples)
	if compare(answer, expect, sameTV) != nil {
		return "", err
	}
	for _, name := range in.SameLayouts {
		if a, e := cuteAtom(name); e != nil || a.B.String() != ours["layout"] {
			return "", err
		}
	}
	return "CuTe's B misses half of the operand; ours is that of PTX", nil
}

// describeTV is what the recordings say of a (thread, value) layout into a
// column-major tile: the text, whether it covers the tile, all places as one
// digest, and the places of some threads and values.
func describeTV(l cute.Layout, rows, columns int, samples [][]int) map[string]any {
	threads, values := l.Mode(0).Size(), l.Mode(1).Size()
	offsets, err := l.Offsets()
	if err != nil {
		return map[string]any{"layout": err.Error()}
	}
	at := func(t, v int) []int {
		x := offsets[t+v*threads]
		return []int{t, v, x % rows, x / rows}
	}
	seen := map[int]bool{}
	digest := sha256.New()
	for t := range threads {
		for v := range values {
			p := at(t, v)
			seen[p[2]+p[3]*rows] = true
			if t+v > 0 {
				digest.Write([]byte{'\n'})
			}
			fmt.Fprintf(digest, "%d,%d,%d,%d", p[0], p[1], p[2], p[3])
		}
	}
	asked := make([][]int, 0, len(samples))
	for _, s := range samples {
		if len(s) == 4 && s[0] >= 0 && s[0] < threads && s[1] >= 0 && s[1] < values {
			asked = append(asked, at(s[0], s[1]))
		}
	}
	return map[string]any{
		"layout": l.String(), "threads": threads, "values": values,
		"covers_all": len(seen) == rows*columns, "tv_sha256": hex.EncodeToString(digest.Sum(nil)), "samples": asked,
	}
}

func cuteCopy(in cuteInput, expect json.RawMessage) (string, error) {
	if in.Unit != "bits" {
		return "", fmt.Errorf("unit %q", in.Unit)
	}
	for _, name := range append([]string{in.Atom}, in.SameLayouts...) {
		a, err := arch.FindAtom(name)
		if err != nil {
			return "", err
		}
		c, err := cuteCopyLayouts(a)
		if err != nil {
			return "", err
		}
		err = compare(map[string]any{
			"ThrID": c.ThrID.String(), "src_TV_bits": c.Src.String(), "dst_TV_bits": c.Dst.String(), "ref_TV_bits": c.Ref.String(),
		}, expect, nil)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return "", nil
}

func cuteCatalog(_ cuteInput, expect json.RawMessage) (string, error) {
	var want struct {
		Count int
		Atoms map[string][3]json.RawMessage
	}
	if err := json.Unmarshal(expect, &want); err != nil {
		return "", fmt.Errorf("expect: %w", err)
	}
	atoms := map[string]any{}
	for name, row := range want.Atoms {
		var like string // the case that holds its layouts is part of the question
		if err := json.Unmarshal(row[2], &like); err != nil {
			return "", fmt.Errorf("expect: %s: %w", name, err)
		}
		a, err := cuteFind(name)
		if err != nil {
			return "", err
		}
		var types []string
		for _, operand := range []string{"D", "A", "B", "C"} {
			types = append(types, cuteType(a, operand))
		}
		other, err := cuteFind(like)
		if err != nil {
			return "", err
		}
		for _, operand := range []string{"A", "B", "C"} {
			l, err := cuteOperand(a, operand)
			if err != nil {
				return "", err
			}
			m, err := cuteOperand(other, operand)
			if err != nil {
				return "", err
			}
			if !l.Equal(m) {
				return "", fmt.Errorf("operand %s of %s is %s, that of %s is %s", operand, name, l, like, m)
			}
		}
		atoms[name] = []any{[]int{a.M, a.N, a.K}, types, like}
	}
	return "", compare(map[string]any{"count": len(atoms), "atoms": atoms}, expect, nil)
}

func cuteTable(in cuteInput, expect json.RawMessage) (string, error) {
	c, err := cute.ParseComposed(in.Expr)
	if err != nil {
		return "", err
	}
	text, err := cute.Table(c)
	if err != nil {
		return "", err
	}
	return "", compare(map[string]any{"text": text}, expect, nil)
}

func pair(r volta.Range) []int { return []int{r.First, r.Last} }

func voltaOctets(in cuteInput, expect json.RawMessage) (string, error) {
	if in.Warp != 32 {
		return "", fmt.Errorf("a warp of %d lanes", in.Warp)
	}
	var out []any
	for _, o := range volta.Octets() {
		out = append(out, map[string]any{"octet": o.Number, "threadgroups": o.Threadgroups, "lanes": o.Lanes, "A_rows": pair(o.Rows), "B_cols": pair(o.Columns), "K": pair(o.K)})
	}
	return "", compare(map[string]any{"octets": out}, expect, nil)
}

// voltaSums reads "F32 accumulate", "F16", "sm70/f16".
func voltaSums(s string) (volta.Sums, error) {
	s = strings.ToLower(s)
	switch {
	case strings.Contains(s, "f32"):
		return volta.F32, nil
	case strings.Contains(s, "f16"):
		return volta.F16, nil
	}
	return 0, fmt.Errorf("%q names neither f32 nor f16", s)
}

func voltaSteps(in cuteInput, expect json.RawMessage) (string, error) {
	sums, err := voltaSums(in.Mode)
	if err != nil {
		return "", err
	}
	if in.WMMA != "m16n16k16" {
		return "", fmt.Errorf("product %q", in.WMMA)
	}
	steps := volta.HMMA(sums)
	var table []any
	for _, s := range steps {
		low, high := s.Letters()
		table = append(table, map[string]any{"set": s.Set, "step": s.Step, "threadgroup_X": low, "threadgroup_X+4": high,
			"k": pair(s.K), "octet_rows_X": pair(s.Low), "octet_rows_X+4": pair(s.High), "octet_cols": pair(s.Columns)})
	}
	return "", compare(map[string]any{"hmma_per_wmma": len(steps), "table": table}, expect, nil)
}

func voltaCycles(_ cuteInput, expect json.RawMessage) (string, error) {
	return "", compare(map[string]any{"mixed_precision": volta.Cycles(volta.F32), "fp16": volta.Cycles(volta.F16)}, expect, nil)
}

func voltaElements(in cuteInput, expect json.RawMessage) (string, error) {
	sums, err := voltaSums(in.Accum)
	if err != nil {
		return "", err
	}
	places, err := volta.Accumulator(sums, in.QuadPair)
	if err != nil {
		return "", err
	}
	var rows []any
	agrees := true
	for _, s := range volta.HMMA(sums)[:sums.Steps()] {
		for _, lane := range volta.Octets()[in.QuadPair].Lanes {
			var regs []int
			var elements [][]int
			for _, p := range places {
				if p.Lane != lane || p.Register < s.Registers.First || p.Register > s.Registers.Last {
					continue
				}
				regs, elements = append(regs, p.Register), append(elements, []int{p.Row, p.Column})
				rows := s.Low
				if lane >= 16 {
					rows = s.High
				}
				agrees = agrees && rows.First <= p.Row && p.Row <= rows.Last && s.Columns.First <= p.Column && p.Column <= s.Columns.Last
			}
			rows = append(rows, map[string]any{"step": s.Step, "lane": lane, "regs": regs, "elements_mn": elements})
		}
	}
	return "", compare(map[string]any{"agrees_with_table_iii": agrees, "rows": rows}, expect, nil)
}

// wmmaSums is the accumulator of wmma.m16n16k16: on sm_70 as the catalogue has
// it, later two m16n8 accumulators side by side.
func wmmaSums(generation, sums string) (layout.Layout, error) {
	if generation == "sm70" {
		a, err := arch.FindAtom("wmma.m16n16k16." + sums + ".f16.row.row.sm_70")
		if err != nil {
			return layout.Layout{}, err
		}
		c, _ := a.Operand("C")
		return c.Layout, nil
	}
	a, err := arch.FindAtom("mma.m16n8k16." + sums + ".f16")
	if err != nil {
		return layout.Layout{}, err
	}
	c, _ := a.Operand("C")
	return layout.Local(1, 2).Mul(c.Layout), nil
}

func wmmaAccumulator(in cuteInput, expect json.RawMessage) (string, error) {
	generation, sums, ok := strings.Cut(in.Arch, "/")
	if !ok {
		sums = "f32"
	}
	l, err := wmmaSums(generation, sums)
	if err != nil {
		return "", err
	}
	var table [][]int
	for t := range l.Threads() {
		for slot := range l.Slots() {
			at := l.Index(t, slot)
			table = append(table, []int{t, slot, at[0], at[1]})
		}
	}
	return "", compare(map[string]any{"table_thread_reg_row_col": table}, expect, nil)
}

func voltaNote(_ cuteInput, expect json.RawMessage) (string, error) {
	checked, equal := 0, true
	for _, sums := range []volta.Sums{volta.F32, volta.F16} {
		l, err := wmmaSums("sm70", sums.String())
		if err != nil {
			return "", err
		}
		for _, o := range volta.Octets() {
			places, err := volta.Accumulator(sums, o.Number)
			if err != nil {
				return "", err
			}
			for _, p := range places {
				checked++
				equal = equal && slices.Equal(l.Index(p.Lane, p.Register), []int{o.Rows.First + p.Row, o.Columns.First + p.Column})
			}
		}
	}
	return "", compare(map[string]any{"wmma_acc_equals_octet_offset_plus_cute_sm70_C": equal, "checked_elements": checked}, expect, nil)
}
