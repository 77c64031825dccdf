package conform

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// spoil changes one number, digest or truth value of an expectation: the last one
// that is about the answer.
func spoil(v any) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		slices.Reverse(keys)
		for _, k := range keys {
			// A case declares its tensors where it lists their layouts.
			if slices.Contains(prose, k) || slices.Contains([]string{"id", "space", "dtype", "rank", "kind"}, k) {
				continue
			}
			if w, ok := spoil(v[k]); ok {
				v[k] = w
				return v, true
			}
		}
	case []any:
		for i := len(v) - 1; i >= 0; i-- {
			if w, ok := spoil(v[i]); ok {
				v[i] = w
				return v, true
			}
		}
	case float64:
		return v + 1, true
	case bool:
		return !v, true
	case nil:
		return 7.0, true
	case string:
		if len(v) == 64 {
			return strings.Repeat("0", 64), true
		}
	}
	return v, false
}

// Each case of layout.json fails when one number of its answer is another, and when it
// expects something that nobody answers.
func TestBrokenLayoutCasesFail(t *testing.T) {
	for _, c := range load(t, "layout.json") {
		var want map[string]any
		if err := json.Unmarshal(c.Expect, &want); err != nil {
			t.Fatal(err)
		}
		want, ok := func() (map[string]any, bool) { v, ok := spoil(want); m, _ := v.(map[string]any); return m, ok }()
		if !ok {
			t.Errorf("%s: nothing to spoil", c.Name)
			continue
		}
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if r := Check(Case{Name: c.Name, Kind: c.Kind, Input: c.Input, Expect: raw}); r.Outcome != Failed {
			t.Errorf("%s: %s although it expects %.200s", c.Name, r.Outcome, raw)
		}
		if err := json.Unmarshal(c.Expect, &want); err != nil {
			t.Fatal(err)
		}
		want["surprise"] = 1
		if raw, err = json.Marshal(want); err != nil {
			t.Fatal(err)
		}
		if r := Check(Case{Name: c.Name, Kind: c.Kind, Input: c.Input, Expect: raw}); r.Outcome != Failed {
			t.Errorf("%s: %s with an unknown expectation", c.Name, r.Outcome)
		}
	}
}

// What is asked wrongly is refused, not answered.
func TestMemoryKindsRefuse(t *testing.T) {
	for _, c := range []struct{ kind, input, want string }{
		{"shared", `{"expr":"shared_row_major(8192,8192)"}`, "Layout.E4"},
		{"shared", `{"expr":"shared_row_major(2048,1024)"}`, "more than the"},
		{"canonical_smem", `{"major":"K","swizzle":"B96_SWIZZLE"}`, "no swizzle is called"},
		{"canonical_smem", `{"major":"N","swizzle":"NO_SWIZZLE","T":8,"m":1,"k":1}`, "Layout.E18"},
		{"generate_canonical", `{"major":"K","swizzle":"NO_SWIZZLE","dtype":"what","shape":[8,8]}`, "no element type"},
		{"byte_swizzle", `{"base":1,"bits":1,"shift":0,"nbytes":2}`, "Layout.E17"},
		{"global", `{"layout":"row_major_5x7","indices":[[5,0]]}`, "outside"},
		{"global", `{"layout":"diagonal_5x7","indices":[]}`, "Layout.E"},
		{"global_compose", `{"outer":"row_major(2,2)","inner":"row_major(3,4)","index":[6,0]}`, "outside"},
		{"mfunction_cover", `{"fa":[[2]],"fb":[[2]]}`, "three lists"},
		{"mfunction_cover", `{"fa":[[6],[6],[0]],"fb":[[2,3],[2,3],[0,1]]}`, "Layout.E20"},
		{"smem_alloc", `{"ops":[["f","x"]]}`, "not placed"},
		{"smem_alloc", `{"ops":[["b","x"]]}`, "neither"},
		{"span_space", `{"space":[1]}`, "no object"},
		{"span_space", `{"space":{"m, n":[1]}}`, "lists of values"},
		{"tuning_key", `{"value":-1}`, "negative"},
		{"ldmatrix_bank_degree", `{"layout":"row_major","shape":[7,64],"nbytes":2}`, "8 × 16-byte"},
		{"layout_inference", `{"num_warps":4,"ops":[{"op":"Dot","inputs":["t9"]}]}`, "not declared"},
		{"layout_inference", `{"num_warps":0,"ops":[]}`, "0 warps"},
	} {
		r := Check(Case{Kind: c.kind, Input: []byte(c.input), Expect: []byte(`{"ok":true}`)})
		if r.Outcome != Failed || !strings.Contains(r.Note, c.want) {
			t.Errorf("%s %s: %s %q, want %q", c.kind, c.input, r.Outcome, r.Note, c.want)
		}
	}
}

// Answers of Tilus' own code to questions beside those of layout.json.
func TestLayoutRules(t *testing.T) {
	for _, c := range []struct{ kind, input, expect, note string }{
		// flatten as upstream's code does it, which is not what it says.
		{"register", `{"expr":"flatten(spatial(2,3,4))"}`, `{"ok":true,"layout":{"shape":[6,4],"mode_shape":[6,4],"spatial_modes":[0,1],"local_modes":[]}}`, "upstream leaves out"},
		{"register", `{"expr":"flatten(spatial(6))"}`, `{"ok":true,"layout":{"shape":[1,6],"mode_shape":[6],"spatial_modes":[0],"local_modes":[]}}`, "upstream leaves out"},
		{"register", `{"expr":"flatten(spatial(2,3,4),0,3)"}`, `{"ok":true,"layout":{"shape":[24],"mode_shape":[24],"spatial_modes":[0],"local_modes":[]}}`, "upstream leaves out"},
		{"register", `{"expr":"flatten(spatial(2,3,4),0)"}`, `{"ok":true,"layout":{"shape":[6,4],"mode_shape":[6,4],"spatial_modes":[0,1],"local_modes":[]}}`, "upstream leaves out"},
		{"register_query", `{"expr":"flatten(local(2,3,4))","index":[5,1]}`, `{"ok":true,"threads":[0],"local":21}`, "upstream leaves out"},
		{"register", `{"expr":"flatten(local(3,4),1,1)"}`, `{"ok":true,"layout":{"shape":[3,1,4],"mode_shape":[3,4],"spatial_modes":[],"local_modes":[0,1]}}`, "upstream leaves out"},
		{"register", `{"expr":"flatten(local(2,3,4),0,1)"}`, `{"ok":true,"layout":{"shape":[6,4],"mode_shape":[6,4],"spatial_modes":[],"local_modes":[0,1]}}`, ""},
		{"register", `{"expr":"flatten(spatial(2,3,4),start_dim=0,end_dim=2)"}`, `{"ok":true,"layout":{"shape":[6,4],"mode_shape":[6,4],"spatial_modes":[0,1],"local_modes":[]}}`, "upstream leaves out"},
		{"register", `{"expr":"flatten(local(2,3,4),-2,-1)"}`, `{"ok":true,"layout":{"shape":[2,3,4],"mode_shape":[2,3,4],"spatial_modes":[],"local_modes":[0,1,2]}}`, "upstream leaves out"},
		// Arguments by the names that they have in Python.
		{"shared", `{"expr":"shared_layout(shape=[8,8],mode_shape=[8,8],mode_strides=[8,1],optional_swizzle=Swizzle(base=0,bits=3,shift=3))"}`, `{"ok":true,"layout":{"shape":[8,8],"mode_shape":[8,8],"mode_strides":[8,1],"swizzle":{"base":0,"bits":3,"shift":3}}}`, ""},
		{"shared", `{"expr":"shared_reshape(shared_row_major(12),new_shape=[3,4]).prepend_dim(extent=2)"}`, `{"ok":true,"layout":{"shape":[2,3,4],"mode_shape":[2,3,4],"mode_strides":[12,4,1],"swizzle":null}}`, ""},
		{"register", `{"expr":"register_layout([4],[1,4],[1],[])"}`, `{"ok":true,"layout":{"shape":[4],"mode_shape":[4],"spatial_modes":[0],"local_modes":[]}}`, ""},
		{"global", `{"layout":"strides_5x7_8x1","indices":[[4,6],[1,0]]}`, `{"ok":true,"offsets":[38,8]}`, ""},
		// What is not made of whole instructions or fragments.
		{"wgmma_d", `{"m":64,"n":24,"inst_m":64,"inst_n":24,"inst_k":32}`, `{"ok":false}`, ""},
		{"weight_view", `{"nbits":4,"tile":[24,12]}`, `{"ok":false}`, ""},
		// The instruction of a product follows from its types.
		{"resolve_dot_config", `{"operand_dtype":"int8","acc_dtype":"int32","m":16,"n":8,"k":32,"num_warps":1}`, `{"ok":true,
			"la":{"shape":[16,32],"mode_shape":[2,8,2,4,4],"spatial_modes":[1,3],"local_modes":[2,0,4]},
			"lb":{"shape":[32,8],"mode_shape":[2,4,4,8],"spatial_modes":[3,1],"local_modes":[0,2]}}`, ""},
		{"resolve_dot_config", `{"operand_dtype":"int8","acc_dtype":"int32","m":128,"n":8,"k":16,"num_warps":1}`, `{"ok":false}`, ""},
		{"resolve_dot_config", `{"operand_dtype":"float32","acc_dtype":"float32","m":128,"n":16,"k":16,"num_warps":2}`, `{"ok":false}`, ""},
		// Upstream leaves apart the modes that a product does not use.
		{"mfunction_mul", `{"a":[[6],[6],[0]],"b":[[6],[2,3],[]]}`, `{"ok":true,"shape":[6],"mode_shape":[2,3],"modes":[]}`, ""},
		{"mfunction_mul", `{"a":[[8],[8],[0]],"b":[[8],[2,2,2],[2,0,1]]}`, `{"ok":true,"shape":[8],"mode_shape":[2,2,2],"modes":[2,0,1]}`, ""},
		{"span_space", `{"space":{"a":[],"b":[1]}}`, `{"ok":true,"value":[]}`, ""},
		// A map covers one of the same size and range only.
		{"mfunction_cover", `{"fa":[[2],[2],[0]],"fb":[[3],[3],[0]]}`, `{"ok":true,"value":false}`, ""},
		{"mfunction_cover", `{"fa":[[6],[6],[-6]],"fb":[[6],[2,3],[0]]}`, `{"ok":true,"value":false}`, ""},
		{"mfunction_cover", `{"fa":[[6],[6],[-6]],"fb":[[6],[2,3],[0,1]]}`, `{"ok":true,"value":true}`, ""},
		// Blocks do not overlap.
		{"canonical_smem", `{"major":"MN","swizzle":"B64_SWIZZLE","SBO":32,"LBO":256,"m":3,"k":2,"T":8}`, `{"ok":false}`, ""},
		{"canonical_smem", `{"major":"MN","swizzle":"B64_SWIZZLE","SBO":32,"LBO":256,"m":3,"k":1,"T":8}`, `{"ok":true,"count_size":768}`, ""},
	} {
		r := Check(Case{Kind: c.kind, Input: []byte(c.input), Expect: []byte(c.expect)})
		if r.Outcome != Passed || !strings.Contains(r.Note, c.note) || (r.Note == "") != (c.note == "") {
			t.Errorf("%s %s: %s %q", c.kind, c.input, r.Outcome, r.Note)
		}
	}
	wrong := Case{Kind: "mfunction_mul", Input: []byte(`{"a":[[8],[8],[0]],"b":[[8],[2,2,2],[2,0,1]]}`),
		Expect: []byte(`{"ok":true,"shape":[8],"mode_shape":[2,2,2],"modes":[0,2,1]}`)}
	if r := Check(wrong); r.Outcome != Failed {
		t.Errorf("a wrong product passes: %q", r.Note)
	}
}
