package conform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tilus-lab/tilus-lab/gpu/arch"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/infer"
	"github.com/tilus-lab/tilus-lab/vm/layout"
)

// layoutKinds are the kinds about register layouts. Each computes the expected
// keys from the input; an error means that there is no answer, which is what
// cases with ok = false expect.
func layoutKinds() []Kind {
	ask := func(name, doc string, answer func(in layoutInput) (map[string]any, error)) Kind {
		return Kind{name, doc, func(input, expect json.RawMessage) (string, error) {
			return checkLayout(answer, input, expect)
		}}
	}
	return append(slices.Concat(memoryKinds(), planKinds(), inferenceKinds()), []Kind{
		ask("register", "a layout in notation: four lists, counts, the whole map", func(in layoutInput) (map[string]any, error) {
			return describe(layout.Parse(in.Expr))
		}),
		ask("register_assoc", "(a*b)*c is a*(b*c)", func(in layoutInput) (map[string]any, error) {
			l, err := layout.Parse("((" + in.A + ")*(" + in.B + "))*(" + in.C + ")")
			if err != nil {
				return nil, err
			}
			r, err := layout.Parse("(" + in.A + ")*((" + in.B + ")*(" + in.C + "))")
			if err == nil && !l.Equal(r) {
				return nil, notAnAnswer{fmt.Sprintf("the two bracketings differ: %s and %s", l, r)}
			}
			return describe(l, err)
		}),
		ask("register_query", "index → slot and all threads that hold it", registerQuery),
		ask("mma_atom", "fragments of the mma.sync instructions", mmaAtom),
		ask("ldmatrix_atom", "what ldmatrix leaves in registers", func(in layoutInput) (map[string]any, error) {
			out, err := describe(parseWith(ldmatrixText(in.NBytes, in.Trans), nil))
			if err != nil {
				return nil, err
			}
			out["nbytes"], out["trans"] = in.NBytes, in.Trans
			return out, nil
		}),
		ask("ldmatrix_select", "which ldmatrix form loads a layout", ldmatrixSelect),
		ask("tcgen05_ldst_atom", "registers of the tensor-memory loads and stores", tensorMemoryAtom),
		ask("wgmma_d", "accumulator of wgmma", func(in layoutInput) (map[string]any, error) {
			if in.InstM < 1 || in.InstN < 1 {
				return nil, errors.New("instruction without size")
			}
			if in.InstK >= 8 && (in.M%in.InstM != 0 || in.N%in.InstN != 0 || in.InstM%16 != 0 || in.InstN%(in.InstK/8*4) != 0) {
				return nil, fmt.Errorf("a tile of %d × %d is not made of instructions of %d × %d × %d", in.M, in.N, in.InstM, in.InstN, in.InstK)
			}
			return describe(parseWith("local(m/im, n/in).column_spatial(im/16, 1).column_local(2, in/t/4).spatial(8, 4).local(t)",
				map[string]any{"m": in.M, "n": in.N, "im": in.InstM, "in": in.InstN, "t": in.InstK / 8}))
		}),
		ask("weight_view", "the packed u8 view of a low-bit weight tile", weightView),
		ask("resolve_dot_config", "how warps share a matrix product", dotConfig),
	}...)
}

// layoutInput is the union of the inputs of these kinds.
type layoutInput struct {
	Expr            string
	A, B, C         string
	Index           []int
	Config, Operand string
	VecK            int `json:"vec_k"`
	NBytes          int
	Trans           bool
	Shape           string
	M, N, K         int
	InstM           int    `json:"inst_m"`
	InstN           int    `json:"inst_n"`
	InstK           int    `json:"inst_k"`
	OperandDtype    string `json:"operand_dtype"`
	AccDtype        string `json:"acc_dtype"`
	NumWarps        int    `json:"num_warps"`
	NBits           int
	Tile            []int
	Dtype           string
	Layout          fourLists
}

// notAnAnswer is an error of ours that no case can expect.
type notAnAnswer struct{ msg string }

func (e notAnAnswer) Error() string { return e.msg }

func checkLayout(answer func(layoutInput) (map[string]any, error), input, expect json.RawMessage) (string, error) {
	var in layoutInput
	if err := json.Unmarshal(input, &in); err != nil {
		return "", fmt.Errorf("input: %w", err)
	}
	var want struct{ OK *bool }
	if err := json.Unmarshal(expect, &want); err != nil {
		return "", fmt.Errorf("expect: %w", err)
	}
	got, err := answer(in)
	var broken notAnAnswer
	switch {
	case errors.As(err, &broken):
		return "", err
	case want.OK != nil && !*want.OK:
		if err == nil {
			return "", fmt.Errorf("an error is expected, the answer is %s", short(got))
		}
		// What such cases say beyond the error stands in the answer, if any.
		return "", compare(merge(map[string]any{"ok": false}, got), expect, sameLayout)
	case err == nil:
		if err = compare(merge(map[string]any{"ok": true}, got), expect, sameLayout); err == nil {
			return "", nil
		}
	}
	if old, ok := upstreamFlatten(in.Expr); ok {
		in.Expr = old
		if theirs, e := answer(in); e == nil && compare(merge(map[string]any{"ok": true}, theirs), expect, sameLayout) == nil {
			return "upstream leaves out the last dimension of flatten's range, against its documentation; ours includes it", nil
		}
	}
	return "", err
}

func merge(into, from map[string]any) map[string]any {
	for k, v := range from {
		if _, ok := into[k]; !ok {
			into[k] = v
		}
	}
	return into
}

var flattenCall = regexp.MustCompile(`^flatten\((.*?)(?:,\s*(?:start(?:_dim)?=)?(-?\d+)\s*)?(?:,\s*(?:end(?:_dim)?=)?(-?\d+)\s*)?\)$`)

// upstreamFlatten rewrites flatten(l, start, end) to what upstream's code makes
// of it: end, from the back where it is negative, lies outside the range, so one
// dimension too few is joined, and none at all becomes a new dimension of size 1.
func upstreamFlatten(expr string) (string, bool) {
	m := flattenCall.FindStringSubmatch(strings.TrimSpace(expr))
	if m == nil {
		return "", false
	}
	l, err := layout.Parse(m[1])
	if err != nil {
		return "", false
	}
	shape, start, end := l.Shape(), 0, -1
	for i, to := range []*int{&start, &end} {
		if m[2+i] != "" {
			if _, err := fmt.Sscan(m[2+i], to); err != nil {
				return "", false
			}
		}
	}
	if end < 0 {
		end += len(shape)
	}
	if start < 0 {
		start += len(shape)
	}
	if start < 0 || end < start || end > len(shape) {
		return "", false
	}
	joined := 1
	for _, n := range shape[start:end] {
		joined *= n
	}
	shape = slices.Concat(shape[:start], []int{joined}, shape[end:])
	return fmt.Sprintf("reshape(%s, [%s])", m[1], strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]")), true
}

type fourLists struct {
	Shape        []int `json:"shape"`
	ModeShape    []int `json:"mode_shape"`
	SpatialModes []int `json:"spatial_modes"`
	LocalModes   []int `json:"local_modes"`
}

func lists(l layout.Layout) fourLists {
	return fourLists{l.Shape(), l.ModeShape(), l.SpatialModes(), l.LocalModes()}
}

func (f fourLists) layout() (layout.Layout, error) {
	return layout.New(f.Shape, f.ModeShape, f.SpatialModes, f.LocalModes)
}

// sameLayout takes lists that are not canonical (upstream leaves replicas
// unmerged) for those of the layout they make.
func sameLayout(_ string, got, want any) bool {
	g, err := asLayout(got)
	if err != nil {
		return false
	}
	w, err := asLayout(want)
	return err == nil && g.Equal(w)
}

func asLayout(v any) (layout.Layout, error) {
	m, ok := v.(map[string]any)
	if !ok || m["mode_shape"] == nil {
		return layout.Layout{}, errors.New("not the four lists")
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return layout.Layout{}, err
	}
	var f fourLists
	if err := json.Unmarshal(raw, &f); err != nil {
		return layout.Layout{}, err
	}
	return f.layout()
}

// maxMap is the most cells whose map is written out for its hash.
const maxMap = 1 << 20

// describe is what cases say about a layout.
func describe(l layout.Layout, err error) (map[string]any, error) {
	if err != nil {
		return nil, err
	}
	if l.Threads()*l.Slots() > maxMap {
		return nil, notAnAnswer{fmt.Sprintf("%d cells are more than the %d that a case may have", l.Threads()*l.Slots(), maxMap)}
	}
	m := make([][][]int, l.Threads()) // m[thread][slot] = index
	for t := range m {
		m[t] = make([][]int, l.Slots())
		for s := range m[t] {
			m[t][s] = append([]int{}, l.Index(t, s)...)
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return map[string]any{"layout": lists(l), "threads": l.Threads(), "locals": l.Slots(), "map_sha256": hex.EncodeToString(sum[:]), "map": m}, nil
}

// parseWith reads notation in which names stand for numbers.
func parseWith(text string, names map[string]any) (layout.Layout, error) {
	l, n, err := layout.ParsePrefix(text, diag.Pos{Line: 1, Col: 1}, names)
	if err == nil && n != len(text) {
		err = fmt.Errorf("%q follows the layout", text[n:])
	}
	return l, err
}

func registerQuery(in layoutInput) (map[string]any, error) {
	l, err := layout.Parse(in.Expr)
	if err != nil {
		return nil, err
	}
	if len(in.Index) != l.Rank() {
		return nil, fmt.Errorf("%d indices for rank %d", len(in.Index), l.Rank())
	}
	threads := []int{}
	for _, h := range l.Holders(in.Index...) {
		threads = append(threads, h.Thread)
	}
	return map[string]any{"threads": threads, "local": l.Slot(in.Index...)}, nil
}

// mmaForms are the A, B and C fragments of mma.sync in the algebra, with v
// steps of k side by side.
var mmaForms = map[string][3]string{
	"m16n8k16_f16_f16":  {"column_local(2, 2).spatial(8, 4).local(1, 2*v)", "local(2, 1).column_spatial(4, 8).local(2*v, 1)", "local(2, 1).spatial(8, 4).local(1, 2)"},
	"m16n8k16_f16_f32":  {"column_local(2, 2).spatial(8, 4).local(1, 2*v)", "local(2, 1).column_spatial(4, 8).local(2*v, 1)", "local(2, 1).spatial(8, 4).local(1, 2)"},
	"m16n8k16_bf16_f32": {"column_local(2, 2).spatial(8, 4).local(1, 2*v)", "local(2, 1).column_spatial(4, 8).local(2*v, 1)", "local(2, 1).spatial(8, 4).local(1, 2)"},
	"m8n8k16_i8_i32":    {"spatial(8, 4).local(1, 4*v)", "column_spatial(4, 8).local(4*v, 1)", "spatial(8, 4).local(1, 2)"},
	"m16n8k16_i8_i32":   {"column_local(2, 1).spatial(8, 4).local(1, 4*v)", "column_spatial(4, 8).local(4*v, 1)", "local(2, 1).spatial(8, 4).local(1, 2)"},
	"m16n8k32_i8_i32":   {"column_local(2, 2).spatial(8, 4).local(1, 4*v)", "local(2, 1).column_spatial(4, 8).local(4*v, 1)", "local(2, 1).spatial(8, 4).local(1, 2)"},
}

var tilusNames = map[string]string{"f16": "float16", "bf16": "bfloat16", "f32": "float32", "i8": "int8", "i32": "int32"}

func mmaAtom(in layoutInput) (map[string]any, error) {
	form, ok := mmaForms[in.Config]
	if !ok {
		return nil, fmt.Errorf("no matrix instruction %q", in.Config)
	}
	operand := strings.Index("abc", in.Operand)
	if len(in.Operand) != 1 || operand < 0 {
		return nil, fmt.Errorf("no operand %q", in.Operand)
	}
	l, err := parseWith(form[operand], map[string]any{"v": in.VecK})
	if err != nil {
		return nil, err
	}
	parts := strings.Split(in.Config, "_") // m16n8k16, element type, accumulator type
	var m, n, k int
	if _, err := fmt.Sscanf(parts[0], "m%dn%dk%d", &m, &n, &k); err != nil {
		return nil, err
	}
	if err := agreesWithCatalogue(parts, operand, in.VecK, l); err != nil {
		return nil, err
	}
	out, err := describe(l, nil)
	if err != nil {
		return nil, err
	}
	out["m"], out["n"], out["k"], out["vec_k"] = m, n, k, in.VecK
	out["operand_dtype"], out["acc_dtype"] = tilusNames[parts[1]], tilusNames[parts[2]]
	return out, nil
}

// agreesWithCatalogue holds a fragment against gpu/arch where the instruction
// is in its catalogue, because that is the table that lowering reads.
func agreesWithCatalogue(config []string, operand, vecK int, l layout.Layout) error {
	if vecK != 1 {
		return nil
	}
	name := fmt.Sprintf("mma.%s.%s.%s", config[0], config[2], config[1])
	for _, m := range arch.Matrices() {
		if m.Name != name {
			continue
		}
		if have := [3]layout.Layout{m.LA, m.LB, m.LC}[operand]; !have.Equal(l) {
			return notAnAnswer{fmt.Sprintf("gpu/arch has %s for operand %c of %s, want %s", have, "abc"[operand], name, l)}
		}
	}
	return nil
}

func ldmatrixText(bytes int, trans bool) string {
	switch {
	case trans:
		return "column_spatial(4, 8).local(2, 1)"
	case bytes == 4:
		return "spatial(8, 4)"
	case bytes == 1 || bytes == 2:
		return fmt.Sprintf("spatial(8, 4).local(1, %d)", 4/bytes)
	}
	return fmt.Sprintf("no ldmatrix for elements of %d bytes", bytes) // does not parse
}

// ldmatrixSelect looks for an ldmatrix form that is the inner part of a layout.
func ldmatrixSelect(in layoutInput) (map[string]any, error) {
	l, err := in.Layout.layout()
	if err != nil {
		return nil, err
	}
	t, ok := dtype.FromTilusName(in.Dtype)
	if !ok {
		return nil, fmt.Errorf("no element type is called %q", in.Dtype)
	}
	bytes := t.Bits() / 8
	for _, trans := range []bool{false, true} {
		if trans && bytes != 2 {
			continue
		}
		atom, err := layout.Parse(ldmatrixText(bytes, trans))
		if err != nil {
			continue
		}
		if outer, err := l.Div(atom); err == nil {
			return map[string]any{
				"stmatrix": map[string]any{"nbytes": bytes, "trans": trans},
				"ldmatrix": map[string]any{"nbytes": bytes, "trans": trans, "outer": lists(outer)},
			}, nil
		}
	}
	return map[string]any{"ldmatrix": nil, "stmatrix": nil}, nil
}

func tensorMemoryAtom(in layoutInput) (map[string]any, error) {
	l, err := layout.Parse(map[string]string{
		"R32x32B":  "spatial(32, 1)",
		"R16x64B":  "register_layout([16, 2], [2, 8, 2], [1, 2, 0], [])",
		"R16x128B": "local(2, 1).spatial(8, 4)",
		"R16x256B": "local(2, 1).spatial(8, 4).local(1, 2)",
	}[in.Shape])
	if err != nil {
		return nil, err
	}
	out, err := describe(l, nil)
	if err != nil {
		return nil, err
	}
	shape := l.Shape()
	out["rows"], out["columns_bits"], out["regs_per_thread"] = shape[0], 32*shape[1], l.Slots()
	return out, nil
}

// weightView takes a weight tile made of B fragments of mma.m16n8k16.
func weightView(in layoutInput) (map[string]any, error) {
	if len(in.Tile) != 2 {
		return nil, fmt.Errorf("tile %v has not two sizes", in.Tile)
	}
	if in.Tile[0]%16 != 0 || in.Tile[1]%8 != 0 {
		return nil, fmt.Errorf("tile %v is not made of fragments of 16 × 8", in.Tile)
	}
	tile, err := parseWith("local(k/16, n/8).local(2, 1).column_spatial(4, 8).local(2, 1)", map[string]any{"k": in.Tile[0], "n": in.Tile[1]})
	if err != nil {
		return nil, err
	}
	if in.NBits < 1 || in.NBits > 8 {
		return nil, fmt.Errorf("elements of %d bits", in.NBits)
	}
	view, err := layout.PackedView(in.NBits, tile)
	if err != nil {
		return map[string]any{"bits_per_thread": in.NBits * tile.Slots()}, err
	}
	bytes := view.Slots()
	vector := gcd(bytes, 16)
	return map[string]any{"bytes_per_thread": bytes, "n1": vector, "n2": bytes / vector,
		"u8_layout": lists(view), "tile_layout": lists(tile), "tile_bytes": view.Size()}, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// dotForms names the matrix instruction of a product by its element types.
var dotForms = map[[2]string]string{
	{"float16", "float16"}:  "m16n8k16_f16_f16",
	{"float16", "float32"}:  "m16n8k16_f16_f32",
	{"bfloat16", "float32"}: "m16n8k16_bf16_f32",
	{"int8", "int32"}:       "m16n8k32_i8_i32",
}

// dotConfig splits an m × n × k product over warps: of all splits into rows and
// columns of warps, the one whose three fragments need the fewest registers.
func dotConfig(in layoutInput) (map[string]any, error) {
	const spare = 224 // registers a thread can give to fragments
	if in.NumWarps < 1 || in.NumWarps > 32 {
		return nil, fmt.Errorf("%d warps", in.NumWarps)
	}
	width := func(name string) int {
		t, _ := dtype.FromTilusName(name)
		return t.Bits()
	}
	form, ok := dotForms[[2]string{in.OperandDtype, in.AccDtype}]
	if !ok {
		return nil, fmt.Errorf("no matrix instruction takes %q and sums in %q", in.OperandDtype, in.AccDtype)
	}
	product := infer.Product{Name: form}
	if _, err := fmt.Sscanf(form, "m%dn%dk%d_", &product.M, &product.N, &product.K); err != nil {
		return nil, err
	}
	for i, l := range []*layout.Layout{&product.A, &product.B, &product.C} {
		var err error
		if *l, err = parseWith(mmaForms[form][i], map[string]any{"v": 1}); err != nil {
			return nil, err
		}
	}
	split, err := infer.Spread(product, in.M, in.N, in.K, in.NumWarps, width(in.OperandDtype), width(in.AccDtype), spare)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"num_warps": in.NumWarps}
	for name, l := range map[string]layout.Layout{"la": split.A, "lb": split.B, "lc": split.C} {
		d, err := describe(l, nil)
		if err != nil {
			return nil, err
		}
		out[name], out[name+"_locals"], out[name+"_sha256"] = lists(l), l.Slots(), d["map_sha256"]
	}
	return out, nil
}
