package conform

import (
	"slices"
	"strings"
	"testing"
)

// TestBrokenFusionCasesFail: each recorded answer about fusions fails when it is another.
func TestBrokenFusionCasesFail(t *testing.T) {
	kinds := []string{"indexing_output_to_input", "indexing_input_to_output", "partition", "function_signature", "epilogue_map",
		"thread_map", "emitter_facts", "reduction_split", "vectorise_decision"}
	n := map[string]int{}
	for _, c := range load(t, "xla.json") {
		if !slices.Contains(kinds, c.Kind) {
			continue
		}
		if r := Check(c); r.Outcome != Passed {
			t.Errorf("%s: %s %s", c.Name, r.Outcome, r.Note)
			continue
		}
		if c.Kind == "thread_map" && n[c.Kind] > 12 {
			continue // each copy enumerates tensors
		}
		n[c.Kind] += brokenCopies(t, c, func(key string, v any) (any, bool) { return spoilFusion(c.Kind, key, v) })
	}
	for _, k := range kinds {
		if n[k] == 0 {
			t.Errorf("no broken copy of kind %s", k)
		}
	}
}

// spoilFusion is another answer than v, where one is sure to be wrong.
func spoilFusion(kind, key string, v any) (any, bool) {
	switch v := v.(type) {
	case bool:
		return !v, true
	case float64:
		return v + 1, true
	case string:
		if strings.Contains(v, "-> (") {
			return strings.Replace(v, "-> (", "-> (1 + ", 1), true
		}
		return v + "x", true
	case []any:
		switch {
		case key == "bijective" || key == "absent" || key == "operand_loops":
			return nil, false
		case len(v) == 0:
			return []any{7}, true
		}
		switch first := v[0].(type) {
		case float64:
			return append([]any{first + 1}, v[1:]...), true
		case string:
			return append([]any{first + "x"}, v[1:]...), true
		case map[string]any:
			for _, name := range []string{"maps", "instructions"} {
				if list, ok := first[name].([]any); ok && len(list) > 0 {
					first[name] = list[:len(list)-1]
					return v, true
				}
			}
		}
	}
	return nil, false
}

// TestUnknownFusionKeyFails: what cannot be checked is not passed over.
func TestUnknownFusionKeyFails(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range load(t, "xla.json") {
		if seen[c.Kind] || strings.HasPrefix(c.Kind, "simplify") {
			continue
		}
		seen[c.Kind] = true
		c.Expect = []byte(strings.Replace(string(c.Expect), "{", `{"colour": "blue", `, 1))
		if r := Check(c); r.Outcome != Failed {
			t.Errorf("%s with an unknown answer: %s", c.Name, r.Outcome)
		}
	}
}

// What theirs writes in another way than ours passes, and nothing else.
func TestPublishedWays(t *testing.T) {
	fused := func(body, result string) string {
		return `"f0 {\n` + body + `\n}\nENTRY e {\n p0 = s32[100] parameter(0)\n ROOT f = ` + result + ` fusion(p0), kind=kLoop, calls=f0\n}"`
	}
	gather := fused(`p0 = s32[100] parameter(0)\n iota0 = s64[142,1] iota(), iota_dimension=0\n ROOT g = s32[142,1] gather(p0, iota0), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}`, "s32[142,1]")
	slice := fused(`p0 = s32[100] parameter(0)\n c0 = s64[] constant(99)\n ROOT ds0 = s32[10] dynamic-slice(p0, c0), dynamic_slice_sizes={10}`, "s32[10]")
	tuple := `"ENTRY e {\n p0 = f32[6] parameter(0)\n neg0 = f32[6] negate(p0)\n exp0 = f32[6] exponential(p0)\n ROOT t0 = (f32[6], f32[6]) tuple(neg0, exp0)\n}"`
	ofFusion := func(operands string) string {
		return strings.Replace(operands, "RT", "(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 9], rt0 in [0, 90]", 1)
	}
	for _, c := range []struct {
		kind, input, expect string
		want                Outcome
	}{
		{"indexing_output_to_input", `{"hlo": "ENTRY e {\n ROOT c0 = bf16[17,22] constant(1)\n}"}`, `{"operands": []}`, Passed},
		{"indexing_output_to_input", `{"hlo": "ENTRY e {\n ROOT i0 = s32[5,5] iota(), iota_dimension=0\n}"}`, `{"operands": [{"operand": 0, "maps": []}]}`, Failed},
		{"indexing_output_to_input", `{"hlo": ` + gather + `}`, `{"operands": [{"operand": 0, "maps": ["(d0, d1) -> (d0), domain: d0 in [0, 141], d1 in [0, 0]"]}]}`, Passed},
		{"indexing_output_to_input", `{"hlo": ` + gather + `}`, `{"operands": [{"operand": 0, "maps": ["(d0, d1) -> (d0 + 1), domain: d0 in [0, 141], d1 in [0, 0]"]}]}`, Failed},
		{"indexing_output_to_input", `{"hlo": ` + slice + `}`, ofFusion(`{"operands": [{"operand": 0, "maps": ["RT"], "rt_vars": [{"var": "rt0", "source": "c0", "map": "(d0) -> (), domain: d0 in [0, 9]"}]}]}`), Passed},
		{"indexing_output_to_input", `{"hlo": ` + slice + `}`, ofFusion(`{"operands": [{"operand": 0, "maps": ["RT"], "rt_vars": [{"var": "rt0", "source": "constant(99)", "map": "(d0){rt0} -> (), domain: d0 in [0, 9], rt0 in [0, 5], d0 + rt0 in [0, 99]"}]}]}`), Passed},
		{"indexing_output_to_input", `{"hlo": ` + slice + `}`, ofFusion(`{"operands": [{"operand": 0, "maps": ["RT"], "rt_vars": [{"var": "rt0", "source": "constant(98)"}]}]}`), Failed},
		{"indexing_output_to_input", `{"hlo": ` + slice + `}`, ofFusion(`{"operands": [{"operand": 0, "maps": ["RT"], "rt_vars": [{"var": "rt0", "map": "(d0) -> (), domain: d0 in [0, 8]"}]}]}`), Failed},
		{"partition", `{"hlo": ` + tuple + `}`, `{"num_subgraphs": 1, "subgraphs": [{"roots": ["t0"], "instructions": ["p0", "neg0", "exp0", "t0"], "no_compute": false}]}`, Passed},
		{"partition", `{"hlo": ` + tuple + `}`, `{"num_subgraphs": 1, "subgraphs": [{"roots": ["neg0", "exp0"], "instructions": ["p0", "neg0", "exp0", "t0"], "no_compute": false}]}`, Passed},
		{"partition", `{"hlo": ` + tuple + `}`, `{"num_subgraphs": 1, "subgraphs": [{"roots": ["exp0"], "instructions": ["p0", "neg0", "exp0", "t0"], "no_compute": false}]}`, Failed},
		{"simplify", `{"map": "()[s0] -> ((s0 * 128) mod 715 + ((s0 * 64) / 715) * 715), domain: s0 in [0, 127]"}`, `{"map": "()[s0] -> (((s0 * 64) / 715) * 715 + (s0 * 128) mod 715), domain: s0 in [0, 127]", "changed": true}`, Passed},
		{"simplify", `{"map": "()[s0] -> (((s0 * 64) / 715) * 715 + (s0 * 128) mod 715), domain: s0 in [0, 127]"}`, `{"changed": false}`, Passed},
		{"simplify", `{"map": "()[s0] -> ((s0 * 4) mod 12), domain: s0 in [0, 127]"}`, `{"changed": true}`, Passed},
		{"simplify", `{"map": "()[s0] -> (s0 * -1 + 3, (-s0) mod 5, (s0 / 2) / -7), domain: s0 in [0, 127]"}`, `{"changed": false}`, Passed},
		{"simplify", `{"map": "()[s0] -> ((3 * s0) mod 7), domain: s0 in [0, 127]"}`, `{"changed": false}`, Passed},
		{"evaluate", `{"map": "(d0, d1) -> (d0 mod d1, d0 / d1, d0 mod (d1 - d0)), domain: d0 in [-5, 5], d1 in [-3, 3]", "dims": [-5, -3], "symbols": []}`, `{"results": [1, 1, 1]}`, Passed},
		{"constraints_satisfied", `{"map": "(d0, d1) -> (), domain: d0 in [-5, 5], d1 in [-3, -1], d0 mod d1 in [2, 2]", "dims": [5, -3], "symbols": []}`, `{"satisfied": true}`, Passed},
		{"simplify", `{"map": "(d0, d1) -> (d0 mod d1, d0 mod (3 - d1)), domain: d0 in [-5, 5], d1 in [-3, 3]"}`, `{"map": "(d0, d1) -> (d0 mod d1, d0 mod (-d1 + 3)), domain: d0 in [-5, 5], d1 in [-3, 3]"}`, Passed},
		{"compose", `{"first": "(d0) -> (d0, d0 - 3), domain: d0 in [0, 2]", "second": "(d0, d1) -> (d0 mod d1), domain: d0 in [0, 2], d1 in [-3, 3]"}`, `{"map": "(d0) -> (d0 mod (d0 - 3)), domain: d0 in [0, 2], d0 - 3 in [-3, 3]"}`, Passed},
		{"expr_range", `{"expr": "d0 mod d1", "domain": "d0 in [-5, 5], d1 in [-4, 3]"}`, `{"range": [0, 3], "always_nonnegative": true}`, Passed},
		{"expr_range", `{"expr": "d0 / d1", "domain": "d0 in [-5, 4], d1 in [-2, -1]"}`, `{"range": [-4, 5]}`, Passed},
		{"expr_canonicalize", `{"expr": "(v0 - v1) mod (v1 - v0) + 0 / v0 + 0 mod v1 + v1 mod v1"}`, `{"expr": "0"}`, Passed},
		{"expr_canonicalize", `{"expr": "v0 mod v1"}`, `{"expr": "v0"}`, Failed},
		// A constraint that always holds goes without a change; one in another order is one.
		{"simplify", `{"map": "(d0, d1) -> (d0), domain: d0 in [0, 4], d1 in [0, 4], d0 / 8 in [0, 1]"}`, `{"changed": false}`, Passed},
		{"simplify", `{"map": "(d0, d1) -> (d0), domain: d0 in [0, 4], d1 in [0, 4], d1 + d0 * 3 in [0, 5]"}`, `{"changed": true}`, Passed},
		{"simplify", `{"map": "(d0, d1) -> (d0), domain: d0 in [0, 4], d1 in [0, 4], d0 * 3 + d1 in [0, 5]"}`, `{"changed": false}`, Passed},
		{"simplify", `{"map": "(d0, d1) -> (d0), domain: d0 in [0, 4], d1 in [0, 4], d0 in [1, 2], d0 / 8 in [0, 1]"}`, `{"changed": true}`, Failed},
		{"vectorise_decision", `{"map": "(d0)[s0] -> ((d0 mod 16) * 64 + s0), domain: d0 in [0, 7], s0 in [0, 1]", "element": "f32", "tensor_elements": 512, "trip_count": 2}`, `{"vectorised": true, "base": "(d0 mod 16) * 64"}`, Passed},
		{"vectorise_decision", `{"map": "(d0)[s0] -> ((d0 mod 16) * 64 + s0), domain: d0 in [0, 7], s0 in [0, 1]", "element": "f32", "tensor_elements": 512, "trip_count": 2}`, `{"vectorised": true, "base": "(d0 mod 4) * 64"}`, Failed},
	} {
		if r := Check(Case{Name: "t", Kind: c.kind, Input: []byte(c.input), Expect: []byte(c.expect)}); r.Outcome != c.want {
			t.Errorf("%s %s with %s: %s %s", c.kind, c.input, c.expect, r.Outcome, r.Note)
		}
	}
}

// TestReductionsOfOtherShapes: what decides whether reductions are one kernel is the normal
// form, not the shapes of their operands.
func TestReductionsOfOtherShapes(t *testing.T) {
	text := func(second, dims, other string) string {
		return `{"device": "rtx_a6000", "hlo": "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\nENTRY e {\n p0 = f32[64,128] parameter(0)\n c0 = f32[] constant(0)\n r1 = f32[128] reduce(p0, c0), dimensions={0}, to_apply=add\n n = f32[64,128] negate(p0)\n x = f32` +
			second + ` bitcast(n)\n r2 = f32` + other + ` reduce(x, c0), dimensions=` + dims + `, to_apply=add\n ROOT t = (f32[128], f32` + other + `) tuple(r1, r2)\n}"}`
	}
	const column = `{"emitter": "reduce_column", "vector": 2, "allocate_shared_count": 2, "groups": 1, "shared": "32x65"}`
	for _, c := range []struct {
		name, input, expect string
	}{
		{"a reduced dimension in two", text("[8,8,128]", "{0,1}", "[128]"), column},
		{"a kept dimension in two", text("[64,8,16]", "{0}", "[8,16]"), column},
		{"another layout", text("[128,64]{0,1}", "{1}", "[128]"), column},
		{"other columns", text("[32,2,128]", "{0}", "[2,128]"), `{"emitter": "loop", "allocate_shared_count": 0}`},
		{"rows", text("[128,64]", "{1}", "[128]"), `{"emitter": "loop", "allocate_shared_count": 0}`},
	} {
		if r := Check(Case{Name: c.name, Kind: "emitter_facts", Input: []byte(c.input), Expect: []byte(c.expect)}); r.Outcome != Passed {
			t.Errorf("%s: %s %s", c.name, r.Outcome, r.Note)
		}
	}
}

// TestShortRows: several rows go to a warp only while that leaves no multiprocessor idle or
// leaves nothing to split, and a block has no threads for rows that are not there.
func TestShortRows(t *testing.T) {
	for _, c := range []struct{ operand, dims, expect string }{
		{"f32[100,64]", "[1]", `{"emitter": "reduce_row", "threads": 256, "vector": 2, "blocks": [13, 1, 1]}`},
		{"f32[1344,64]", "[1]", `{"emitter": "reduce_multi_row", "threads": 256, "vector": 2, "blocks": [168, 1, 1]}`},
		{"f32[8,8]", "[0, 1]", `{"emitter": "reduce_row", "threads": 32}`},
		{"s8[100,256]", "[1]", `{"emitter": "reduce_row"}`},
		{"s8[10000,256]", "[1]", `{"emitter": "reduce_multi_row", "vector": 8}`},
		{"f32[3,2]", "[1]", `{"emitter": "reduce_multi_row", "threads": 6, "threads_kept": 3, "blocks": [1, 1, 1], "bijective": ["thread_to_reduction_input", "thread_to_reduction_output"]}`},
		{"f32[4]", "[0]", `{"emitter": "reduce_multi_row", "threads": 4, "shuffle_max_distance": 2}`},
		{"f32[8,16]", "[1]", `{"emitter": "reduce_multi_row", "threads": 128, "threads_kept": 8}`},
		{"f32[16,16]", "[1]", `{"emitter": "reduce_multi_row", "threads": 256, "threads_kept": 16}`},
	} {
		input := `{"emitter": "reduce", "operand": "` + c.operand + `", "dimensions": ` + c.dims + `, "device": "rtx_a6000"}`
		if r := Check(Case{Name: "t", Kind: "thread_map", Input: []byte(input), Expect: []byte(c.expect)}); r.Outcome != Passed {
			t.Errorf("%s: %s %s", input, r.Outcome, r.Note)
		}
	}
}

// TestGroupsOfRoots: roots that do not reduce are one group of blocks, with every reduction
// that they use; what reductions share of scalars alone does not bring them together.
func TestGroupsOfRoots(t *testing.T) {
	text := func(body string) string {
		return `{"device": "rtx_a6000", "hlo": "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT s = f32[] add(a, b)\n}\nENTRY e {\n c0 = f32[] constant(0)\n p0 = f32[64,1024] parameter(0)\n p1 = f32[64,1024] parameter(1)\n p2 = f32[64,1024] parameter(2)\n` +
			strings.ReplaceAll(body, "\n", "\\n") + `\n}"}`
	}
	for _, c := range []struct {
		name, body string
		groups     string
	}{
		{"a broadcast of the result", " p3 = f32[8,8] parameter(3)\n r = f32[] reduce(p3, c0), dimensions={0,1}, to_apply=add\n b = f32[8,8] broadcast(r), dimensions={}\n ROOT t = (f32[8,8], f32[]) tuple(b, r)", "1"},
		{"two that do not reduce", " r = f32[64] reduce(p0, c0), dimensions={1}, to_apply=add\n n = f32[64,1024] negate(p1)\n x = f32[64,1024] exponential(p2)\n ROOT t = (f32[64], f32[64,1024], f32[64,1024]) tuple(r, n, x)", "2"},
		{"reductions of one tensor", " r = f32[64] reduce(p0, c0), dimensions={1}, to_apply=add\n n = f32[64,1024] negate(p0)\n s = f32[64] reduce(n, c0), dimensions={1}, to_apply=add\n ROOT t = (f32[64], f32[64]) tuple(r, s)", "1"},
		{"reductions that share a constant", " r = f32[64] reduce(p0, c0), dimensions={1}, to_apply=add\n s = f32[64] reduce(p1, c0), dimensions={1}, to_apply=add\n ROOT t = (f32[64], f32[64]) tuple(r, s)", "2"},
	} {
		if r := Check(Case{Name: c.name, Kind: "emitter_facts", Input: []byte(text(c.body)), Expect: []byte(`{"groups": ` + c.groups + `}`)}); r.Outcome != Passed {
			t.Errorf("%s: %s %s", c.name, r.Outcome, r.Note)
		}
	}
}

// TestVectorsOfReductions: which types decide how wide a thread reads.
func TestVectorsOfReductions(t *testing.T) {
	text := func(kind, op, more, body string) string {
		return `{"device": "rtx_a6000", "hlo": "r0 {\n a = ` + kind + `[] parameter(0)\n b = ` + kind + `[] parameter(1)\n ROOT s = ` + kind + `[] ` + op + `(a, b)\n}\n` +
			strings.ReplaceAll(more+"ENTRY e {\n"+body, "\n", "\\n") + `\n}"}`
	}
	const pair = "r1 {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = f32[] parameter(2)\n d = f32[] parameter(3)\n x = f32[] add(a, c)\n y = f32[] add(b, d)\n ROOT t = (f32[], f32[]) tuple(x, y)\n}\n"
	for _, c := range []struct{ name, input, expect string }{
		{"a scalar of one byte beside floats", text("f32", "add", "", " p0 = f32[8,2048] parameter(0)\n p1 = pred[] parameter(1)\n c0 = f32[] constant(0)\n n = f32[8,2048] negate(p0)\n x = f32[8,2048] select(p1, p0, n)\n ROOT r = f32[8] reduce(x, c0), dimensions={1}, to_apply=r0"),
			`{"emitter": "reduce_row", "vector": 4}`},
		{"nothing is read", text("pred", "and", "", " c0 = pred[] constant(true)\n x = pred[10000] broadcast(c0), dimensions={}\n ROOT r = pred[] reduce(x, c0), dimensions={0}, to_apply=r0"),
			`{"emitter": "reduce_row", "vector": 1}`},
		{"one byte in and out beside floats", text("s8", "add", "", " p0 = s8[76800,16] parameter(0)\n p1 = f32[76800,16] parameter(1)\n c0 = s8[] constant(0)\n y = s8[76800,16] convert(p1)\n x = s8[76800,16] add(p0, y)\n ROOT r = s8[76800] reduce(x, c0), dimensions={1}, to_apply=r0"),
			`{"emitter": "reduce_multi_row", "vector": 8}`},
		{"roots that are tuples", text("f32", "add", pair, " p0 = f32[3,2] parameter(0)\n p1 = f32[3,2] parameter(1)\n c0 = f32[] constant(0)\n r = (f32[3], f32[3]) reduce(p0, p0, c0, c0), dimensions={1}, to_apply=r1\n s = (f32[3], f32[3]) reduce(p1, p1, c0, c0), dimensions={1}, to_apply=r1\n ROOT t = ((f32[3], f32[3]), (f32[3], f32[3])) tuple(r, s)"),
			`{"emitter": "reduce_row", "shuffle": 16, "groups": 2}`},
		{"bytes in and floats out", text("f32", "add", "", " p0 = pred[7680,16] parameter(0)\n c0 = f32[] constant(0)\n x = f32[7680,16] convert(p0)\n ROOT r = f32[7680] reduce(x, c0), dimensions={1}, to_apply=r0"),
			`{"emitter": "reduce_multi_row", "vector": 4}`},
	} {
		if r := Check(Case{Name: c.name, Kind: "emitter_facts", Input: []byte(c.input), Expect: []byte(c.expect)}); r.Outcome != Passed {
			t.Errorf("%s: %s %s", c.name, r.Outcome, r.Note)
		}
	}
}

// TestTransposesOfSeveralTypes: the first of transposes decides whether elements are packed,
// and the widest element how many a thread moves at once.
func TestTransposesOfSeveralTypes(t *testing.T) {
	for _, c := range []struct{ first, second, from, to, expect string }{
		{"s16", "f32", "[18,400000]", "[400000,18]", `{"emitter": "transpose", "packed": false, "vector": 1, "allocate_shared_count": 2}`},
		{"s16", "s16", "[18,400000]", "[400000,18]", `{"emitter": "transpose", "packed": false, "vector": 2}`},
		{"s8", "s16", "[20,1600000]", "[1600000,20]", `{"emitter": "transpose", "packed": false, "vector": 2}`},
		{"s8", "s8", "[20,1600000]", "[1600000,20]", `{"emitter": "transpose", "packed": false, "vector": 4}`},
		{"s16", "f32", "[2048,2048]", "[2048,2048]", `{"emitter": "transpose", "packed": true}`},
		{"f32", "s16", "[2048,2048]", "[2048,2048]", `{"emitter": "transpose", "packed": false, "vector": 1}`},
	} {
		one := func(n, kind string) string {
			return strings.NewReplacer("N", n, "KIND", kind, "FROM", c.from, "TO", c.to).Replace(` pN = KINDFROM parameter(N)\n tN = KINDTO transpose(pN), dimensions={1,0}\n`)
		}
		input := `{"device": "rtx_a6000", "hlo": "ENTRY e {\n` + one("0", c.first) + one("1", c.second) + ` ROOT r = (` + c.first + c.to + `, ` + c.second + c.to + `) tuple(t0, t1)\n}"}`
		if r := Check(Case{Name: "t", Kind: "emitter_facts", Input: []byte(input), Expect: []byte(c.expect)}); r.Outcome != Passed {
			t.Errorf("%s and %s%s: %s %s", c.first, c.second, c.from, r.Outcome, r.Note)
		}
	}
}

// TestFusionRefusals: input that means nothing is refused with what is wrong and what there is.
func TestFusionRefusals(t *testing.T) {
	for _, c := range []struct{ kind, input, want string }{
		{"thread_map", `{"emitter": "transpose", "operand": "f32[20,97,170]", "permutation": [97, 2, 1], "device": "rtx_a6000"}`, "[97 2 1] is no permutation of the 3 dimensions of f32[20,97,170]"},
		{"thread_map", `{"emitter": "transpose", "operand": "s8[160,170,3]", "permutation": [1, 0], "device": "rtx_a6000"}`, "[1 0] is no permutation of the 3 dimensions of s8[160,170,3]"},
		{"thread_map", `{"emitter": "scatter", "operand": "f32[300,200]", "update": "f32[]", "indices": "s32[42,1]", "device": "rtx_a6000"}`, "a dimension more"},
		{"thread_map", `{"emitter": "input_slices", "input": "f32[100]", "slices": ["[0:50:0]"], "device": "rtx_a6000"}`, "stride"},
		{"thread_map", `{"emitter": "input_slices", "input": "f32[100,4]", "slices": ["[0:50]"], "device": "rtx_a6000"}`, "all 2 dimensions"},
		{"thread_map", `{"emitter": "loop", "output": "f32[100]", "device": "a6000"}`, "there are rtx_a6000, h100_sxm, h200_sxm, b200"},
		{"reduction_split", `{"operand": "f32[50021]", "dimensions": [1]}`, "dimension 1"},
	} {
		r := Check(Case{Name: "t", Kind: c.kind, Input: []byte(c.input), Expect: []byte(`{}`)})
		if r.Outcome != Failed || !strings.Contains(r.Note, c.want) || strings.ContainsAny(r.Note, "!") || strings.Contains(r.Note, "panic") {
			t.Errorf("%s: %s %s, which does not say %q", c.input, r.Outcome, r.Note, c.want)
		}
	}
	// A map that holds nothing is printed without its results.
	if r := Check(Case{Name: "t", Kind: "parse_print", Input: []byte(`{"map": "(d0) -> (d0), domain: d0 in [3, 2]"}`), Expect: []byte(`{"map": "KNOWN EMPTY"}`)}); r.Outcome != Passed {
		t.Errorf("%s %s", r.Outcome, r.Note)
	}
}
