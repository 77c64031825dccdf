package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/diag"
)

// otherKinds are the kinds of cases in layout.json that are not about register
// layouts alone.
var otherKinds = []string{
	"shared", "generate_canonical", "canonical_smem", "byte_swizzle", "ldmatrix_bank_degree", // shared layouts
	"tmem_row_major", "tmem_slice", "global", "global_compose", // other memory spaces
	"mfunction_cover", "mfunction_mul", // multi-functions
	"layout_inference", "smem_alloc", "tuning_key", "span_space", // compiler and runtime
}

// deliberate are the cases in which this package means to differ from the
// recorded behaviour, with the reason.
var deliberate = map[string]string{
	"flatten.first_two": "flatten includes its end, as upstream's documentation says; upstream's code leaves it out",
}

type fourLists struct {
	Shape        []int `json:"shape"`
	ModeShape    []int `json:"mode_shape"`
	SpatialModes []int `json:"spatial_modes"`
	LocalModes   []int `json:"local_modes"`
}

func lists(l Layout) fourLists {
	return fourLists{l.Shape(), l.ModeShape(), l.SpatialModes(), l.LocalModes()}
}

func (f fourLists) layout() (Layout, error) {
	return New(f.Shape, f.ModeShape, f.SpatialModes, f.LocalModes)
}

// mapOf is map[thread][slot] = index.
func mapOf(l Layout) [][][]int {
	out := make([][][]int, l.Threads())
	for t := range out {
		for s := range l.Slots() {
			at := l.Index(t, s)
			if at == nil {
				at = []int{}
			}
			out[t] = append(out[t], at)
		}
	}
	return out
}

func describe(l Layout) map[string]any {
	m := mapOf(l)
	text, _ := json.Marshal(m)
	sum := sha256.Sum256(text)
	out := map[string]any{"ok": true, "layout": lists(l), "threads": l.Threads(), "locals": l.Slots(), "map_sha256": hex.EncodeToString(sum[:])}
	if l.Threads()*l.Slots() <= 600 {
		out["map"] = m
	}
	return out
}

// caseInput is the union of the inputs of the kinds below.
type caseInput struct {
	Kind, Expr      string
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
	NumWarps        int    `json:"num_warps"`
	NBits           int
	Tile            []int
	Dtype           string
	LayoutLists     fourLists `json:"layout"`
	AccDtype        string    `json:"acc_dtype"`
}

// evalCase computes the expect fields of a case from its input; skip is true
// for kinds that belong elsewhere. An error stands for ok = false.
func evalCase(raw json.RawMessage) (expect map[string]any, skip bool, err error) {
	var in caseInput
	if err := json.Unmarshal(raw, &in); err != nil {
		// Other kinds use the same field names for other types.
		var k struct{ Kind string }
		if json.Unmarshal(raw, &k) == nil && slices.Contains(otherKinds, k.Kind) {
			return nil, true, nil
		}
		return nil, false, err
	}
	if slices.Contains(otherKinds, in.Kind) {
		return nil, true, nil
	}
	one := func(l Layout, err error) (map[string]any, bool, error) {
		if err != nil {
			return nil, false, err
		}
		return describe(l), false, nil
	}
	switch in.Kind {
	case "register":
		return one(Parse(in.Expr))
	case "register_assoc":
		l, err := Parse("((" + in.A + ")*(" + in.B + "))*(" + in.C + ")")
		if err != nil {
			return nil, false, err
		}
		r, err := Parse("(" + in.A + ")*((" + in.B + ")*(" + in.C + "))")
		if err == nil && !l.Equal(r) {
			err = fmt.Errorf("%s is not %s", l, r)
		}
		return one(l, err)
	case "register_query":
		l, err := Parse(in.Expr)
		if err != nil {
			return nil, false, err
		}
		threads := []int{}
		for _, h := range l.Holders(in.Index...) {
			threads = append(threads, h.Thread)
		}
		return map[string]any{"ok": true, "threads": threads, "local": l.Slot(in.Index...)}, false, nil
	case "mma_atom":
		l, err := mmaAtom(in.Config, in.Operand, in.VecK)
		if err != nil {
			return nil, false, err
		}
		out := describe(l)
		var m, n, k int
		parts := strings.Split(in.Config, "_")
		if _, err := fmt.Sscanf(parts[0], "m%dn%dk%d", &m, &n, &k); err != nil {
			return nil, false, err
		}
		names := map[string]string{"f16": "float16", "bf16": "bfloat16", "f32": "float32", "i8": "int8", "i32": "int32"}
		out["m"], out["n"], out["k"], out["vec_k"] = m, n, k, in.VecK
		out["operand_dtype"], out["acc_dtype"] = names[parts[1]], names[parts[2]]
		return out, false, nil
	case "ldmatrix_atom":
		l, err := Parse(ldmatrixAtom(in.NBytes, in.Trans))
		if err != nil {
			return nil, false, err
		}
		out := describe(l)
		out["nbytes"], out["trans"] = in.NBytes, in.Trans
		return out, false, nil
	case "tcgen05_ldst_atom":
		l, err := Parse(map[string]string{
			"R32x32B":  "spatial(32,1)",
			"R16x64B":  "register_layout([16,2],[2,8,2],[1,2,0],[])",
			"R16x128B": "local(2,1).spatial(8,4)",
			"R16x256B": "local(2,1).spatial(8,4).local(1,2)",
		}[in.Shape])
		if err != nil {
			return nil, false, err
		}
		out, shape := describe(l), l.Shape()
		out["rows"], out["columns_bits"], out["regs_per_thread"] = shape[0], 32*shape[1], l.Slots()
		return out, false, nil
	case "wgmma_d":
		t := in.InstK / 8
		return one(Parse(fmt.Sprintf("local(%d,%d).column_spatial(%d,1).column_local(2,%d).spatial(8,4).local(%d)",
			in.M/in.InstM, in.N/in.InstN, in.InstM/16, in.InstN/t/4, t)))
	case "weight_view":
		return weightView(in)
	case "ldmatrix_select":
		return ldmatrixSelect(in)
	case "resolve_dot_config":
		return dotConfig(in)
	}
	return nil, false, fmt.Errorf("unknown kind %q", in.Kind)
}

// mmaAtom writes the fragments of mma.sync in the algebra; v k-steps lie side by side.
func mmaAtom(config, operand string, v int) (Layout, error) {
	form := map[string][3]string{
		"m16n8k16_f16_f16":  {"column_local(2,2).spatial(8,4).local(1,2*v)", "local(2,1).column_spatial(4,8).local(2*v,1)", "local(2,1).spatial(8,4).local(1,2)"},
		"m16n8k16_f16_f32":  {"column_local(2,2).spatial(8,4).local(1,2*v)", "local(2,1).column_spatial(4,8).local(2*v,1)", "local(2,1).spatial(8,4).local(1,2)"},
		"m16n8k16_bf16_f32": {"column_local(2,2).spatial(8,4).local(1,2*v)", "local(2,1).column_spatial(4,8).local(2*v,1)", "local(2,1).spatial(8,4).local(1,2)"},
		"m8n8k16_i8_i32":    {"spatial(8,4).local(1,4*v)", "column_spatial(4,8).local(4*v,1)", "spatial(8,4).local(1,2)"},
		"m16n8k16_i8_i32":   {"column_local(2,1).spatial(8,4).local(1,4*v)", "column_spatial(4,8).local(4*v,1)", "local(2,1).spatial(8,4).local(1,2)"},
		"m16n8k32_i8_i32":   {"column_local(2,2).spatial(8,4).local(1,4*v)", "local(2,1).column_spatial(4,8).local(4*v,1)", "local(2,1).spatial(8,4).local(1,2)"},
	}[config]
	l, _, err := ParsePrefix(form[map[string]int{"a": 0, "b": 1, "c": 2}[operand]], diag.Pos{Line: 1, Col: 1}, map[string]any{"v": v})
	return l, err
}

func ldmatrixAtom(bytes int, trans bool) string {
	switch {
	case trans:
		return "column_spatial(4,8).local(2,1)"
	case bytes == 4:
		return "spatial(8,4)"
	}
	return fmt.Sprintf("spatial(8,4).local(1,%d)", 4/bytes)
}

func weightView(in caseInput) (map[string]any, bool, error) {
	atom := Local(2, 1).ColumnSpatial(4, 8).Local(2, 1)
	tile := Local(in.Tile[0]/16, in.Tile[1]/8).Mul(atom)
	view, err := PackedView(in.NBits, tile)
	if err != nil {
		return nil, false, err
	}
	bytes := view.Slots()
	n1 := gcd(bytes, 16)
	return map[string]any{"ok": true, "bytes_per_thread": bytes, "n1": n1, "n2": bytes / n1,
		"u8_layout": lists(view), "tile_layout": lists(tile), "tile_bytes": view.Size()}, false, nil
}

// ldmatrixSelect looks for an atom that divides the layout.
func ldmatrixSelect(in caseInput) (map[string]any, bool, error) {
	l, err := in.LayoutLists.layout()
	if err != nil {
		return nil, false, err
	}
	bytes := map[string]int{"float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "float32": 4, "int32": 4}[in.Dtype]
	for _, trans := range []bool{false, true} {
		if trans && bytes != 2 {
			continue
		}
		atom, err := Parse(ldmatrixAtom(bytes, trans))
		if err != nil {
			return nil, false, err
		}
		if outer, err := l.Div(atom); err == nil {
			found := map[string]any{"nbytes": bytes, "trans": trans}
			return map[string]any{"ok": true, "stmatrix": found,
				"ldmatrix": map[string]any{"nbytes": bytes, "trans": trans, "outer": lists(outer)}}, false, nil
		}
	}
	return map[string]any{"ok": true, "ldmatrix": nil, "stmatrix": nil}, false, nil
}

// dotConfig splits a matrix product over warps: of all splits into rows and
// columns of warps, the one whose three fragments need the fewest registers.
func dotConfig(in caseInput) (map[string]any, bool, error) {
	best := 224 // registers a thread can spare, and more is refused
	var out map[string]any
	for wsm := 1; wsm <= in.NumWarps; wsm++ {
		wsn := in.NumWarps / wsm
		if wsm*wsn != in.NumWarps || in.M%(16*wsm) != 0 || in.N%(8*wsn) != 0 || in.K%16 != 0 {
			continue
		}
		names := map[string]any{"wsm": wsm, "wsn": wsn, "wrm": in.M / 16 / wsm, "wrn": in.N / 8 / wsn, "wrk": in.K / 16}
		next := map[string]any{"ok": true, "num_warps": in.NumWarps}
		registers := 0
		for name, text := range map[string]string{
			"la": "reduce(spatial(wsm,1,wsn,ranks=[1,0,2]),[2]).local(wrm,wrk) * (column_local(2,2).spatial(8,4).local(1,2))",
			"lb": "reduce(spatial(1,wsn,wsm,ranks=[0,2,1]),[2]).local(wrk,wrn) * (local(2,1).column_spatial(4,8).local(2,1))",
			"lc": "spatial(wsm,wsn).local(wrm,wrn) * (local(2,1).spatial(8,4).local(1,2))",
		} {
			l, _, err := ParsePrefix(text, diag.Pos{Line: 1, Col: 1}, names)
			if err != nil {
				return nil, false, err
			}
			bits := 16
			if name == "lc" && in.AccDtype == "float32" {
				bits = 32
			}
			registers += l.Slots() * bits / 32
			next[name], next[name+"_locals"], next[name+"_sha256"] = lists(l), l.Slots(), describe(l)["map_sha256"]
		}
		if registers < best {
			best, out = registers, next
		}
	}
	if out == nil {
		return nil, false, fmt.Errorf("no split of %dx%dx%d over %d warps", in.M, in.N, in.K, in.NumWarps)
	}
	return out, false, nil
}

func TestConformance(t *testing.T) {
	text, err := os.ReadFile("../../tests/testdata/cases/layout.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name   string
		Input  json.RawMessage
		Expect map[string]any
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, c := range cases {
		got, skip, err := evalCase(c.Input)
		if skip {
			continue
		}
		ran++
		if c.Expect["ok"] == false {
			if err == nil {
				t.Errorf("%s: an error is wanted (%v), got %v", c.Name, c.Expect["error_kind"], got)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		raw, _ := json.Marshal(got)
		var have map[string]any
		if err := json.Unmarshal(raw, &have); err != nil {
			t.Fatal(err)
		}
		same := true
		for key, want := range c.Expect {
			h, ok := have[key]
			switch {
			case !ok:
				same = false
			case key == "layout" && !reflect.DeepEqual(h, want):
				// Upstream leaves replicas unmerged: its lists must be a form of our layout.
				w, _ := json.Marshal(want)
				var f fourLists
				if err := json.Unmarshal(w, &f); err != nil {
					t.Fatal(err)
				}
				l, err := f.layout()
				if g, _ := json.Marshal(lists(l)); err != nil || !reflect.DeepEqual(h, toAny(g)) || slices.Equal(f.SpatialModes, l.SpatialModes()) {
					same = false
				}
			case !reflect.DeepEqual(h, want):
				same = false
			}
		}
		if why, ok := deliberate[c.Name]; ok {
			if same {
				t.Errorf("%s: agrees, though it is listed to differ: %s", c.Name, why)
			}
		} else if !same {
			t.Errorf("%s:\n got %s\nwant %v", c.Name, raw, c.Expect)
		}
	}
	if ran < 145 {
		t.Errorf("only %d cases ran", ran)
	}
	t.Logf("%d of %d cases are about register layouts", ran, len(cases))
}

func toAny(raw []byte) (v any) {
	_ = json.Unmarshal(raw, &v)
	return v
}
