package conform

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const cases = "../../../tests/testdata/cases"

func load(t testing.TB, name string) []Case {
	t.Helper()
	f, err := os.Open(filepath.Join(cases, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := Read(name, f)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestFiles(t *testing.T) {
	for _, f := range []struct {
		name   string
		passed int
	}{{"dtype.json", 19}, {"layout.json", 222}, {"xla.json", 232}} {
		var out bytes.Buffer
		s, err := Run(&out, load(t, f.name), false)
		if err != nil {
			t.Fatal(err)
		}
		if !s.OK() || s.Passed != f.passed {
			t.Errorf("%s:\n%s", f.name, out.String())
		}
		if !strings.HasSuffix(out.String(), s.String()+"\n") {
			t.Errorf("%s: the closing line is not %q", f.name, s)
		}
		t.Log(out.String())
	}
}

func TestUpstreamDefects(t *testing.T) {
	notes := map[string]string{}
	for _, file := range []string{"dtype.json", "layout.json"} {
		for _, c := range load(t, file) {
			if r := Check(c); r.Outcome == Passed && r.Note != "" {
				notes[c.Name] = r.Note
			}
		}
	}
	for name, want := range map[string]string{"floats/float6_e2m3": "truncates subnormals", "flatten.first_two": "ours includes it"} {
		if !strings.Contains(notes[name], want) {
			t.Errorf("%s: note %q, want %q", name, notes[name], want)
		}
	}
}

// TestWrongAnswers changes recorded answers; each change must be noticed.
func TestWrongAnswers(t *testing.T) {
	for _, c := range []struct{ kind, input, expect, want string }{
		{"register", `{"expr":"local(2)"}`, `{"ok":true,"threads":2}`, "threads is 1, want 2"},
		{"register", `{"expr":"local(2)"}`, `{"ok":true,"layout":{"shape":[2],"mode_shape":[2],"spatial_modes":[0],"local_modes":[]}}`, "layout is"},
		{"register", `{"expr":"local(2)"}`, `{"ok":true,"map":[[[1],[0]]]}`, "map is"},
		{"register", `{"expr":"local(2)"}`, `{"ok":true,"banks":3}`, "expect.banks cannot be checked"},
		{"register", `{"expr":"local(2)"}`, `{"ok":false}`, "an error is expected"},
		{"register", `{"expr":"loca(2)"}`, `{"ok":true}`, "Layout.E2"},
		{"register", `{"expr":"spatial(4096,4096)"}`, `{"ok":false}`, "more than"},
		{"register", `{"expr":7}`, `{"ok":true}`, "input:"},
		{"register", `{"expr":"local(2)"}`, `7`, "expect:"},
		{"register_query", `{"expr":"local(2,2)","index":[1]}`, `{"ok":true}`, "1 indices for rank 2"},
		{"mma_atom", `{"config":"m16n8k16_f16_f32","vec_k":1,"operand":"ab"}`, `{"ok":true}`, "no operand"},
		{"mma_atom", `{"config":"m16n8k16_f16_f32","vec_k":0,"operand":"a"}`, `{"ok":true}`, "Layout.E4"},
		{"weight_view", `{"nbits":3,"tile":[16,8]}`, `{"ok":false,"bits_per_thread":13}`, "bits_per_thread is 12, want 13"},
		{"weight_view", `{"nbits":3,"tile":[0,8]}`, `{"ok":true}`, "Layout.E4"},
		{"wgmma_d", `{"m":64,"n":64,"inst_m":64,"inst_n":64,"inst_k":0}`, `{"ok":true}`, "Layout.E15"},
		{"floats", ``, `{"name":"float4_e2m1","nbits":4,"exponent_bits":2,"mantissa_bits":1,"bias":1,"decode":[0.0,0.25]}`, "code 1 of f4e2m1 is 0.5, want 0.25"},
		{"floats", ``, `{"name":"float4_e2m1","nbits":4,"exponent_bits":2,"mantissa_bits":1,"bias":1,"encode":[{"f32":1,"rne":3}]}`, "is code 2, want 3"},
		{"floats", ``, `{"name":"float4_e2m1","nbits":4,"exponent_bits":2,"mantissa_bits":1,"bias":2}`, "want 4, 2, 1, 2"},
		{"floats", ``, `{"name":"int4b"}`, "no float type"},
		{"floats", ``, `{"name":"float3_e1m1","nbits":3,"exponent_bits":1,"mantissa_bits":1,"bias":0,"decode":[0,1,2,3,-0,-1,-2,-3,9]}`, "9 codes decoded"},
		{"ints", ``, `{"name":"int2b","nbits":2,"decode":[0,1,2]}`, "code 2 of i2 is -2, want 2"},
		{"packing", ``, `{"nbits":3,"codes":[1],"bytes":[2]}`, "packed bytes are [1], want [2]"},
		{"packing", ``, `{"nbits":0,"codes":[1],"bytes":[2]}`, "0 bits"},
	} {
		if c.input == "" {
			c.input = c.expect
		}
		r := Check(Case{Kind: c.kind, Input: []byte(c.input), Expect: []byte(c.expect)})
		if r.Outcome != Failed || !strings.Contains(r.Note, c.want) {
			t.Errorf("%s %s: %s %q, want %q", c.kind, c.input, r.Outcome, r.Note, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "neither a list"},
		{`[]`, "no cases"},
		{`{"about":"x"}`, "no cases"},
		{`[1]`, "case 1"},
		{`[{"name":"a","input":{}}]`, "no input or no expect"},
		{`[{"name":"a"`, "no list of cases"},
		{strings.Repeat("[", 100000), "no list of cases"},
	} {
		if _, err := Read("x.json", strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40s: %v, want %q", c.text, err, c.want)
		}
	}
	list, err := Read("x.json", strings.NewReader(`[{"input":{"op":"melt"},"expect":{}},{"kind":"k","input":1,"expect":2}]`))
	if err != nil || list[0].Kind != "op:melt" || list[0].Name != "#1" || list[1].Kind != "k" {
		t.Errorf("%+v, %v", list, err)
	}
	if r := Check(list[0]); r.Outcome != Skipped || !strings.Contains(r.Note, "op:melt") {
		t.Errorf("%+v", r)
	}
}

// TestOddCases asks what no sound case asks; the answer is an error that says why,
// and soon.
func TestOddCases(t *testing.T) {
	for _, c := range []struct{ kind, input, expect, want string }{
		{"expr_range", `{"domain":"d0 in [0, 9]"}`, `{"range":[0,1]}`, "not one expression"},
		{"expr_range", `{"domain":"","expr":"d0"}`, `{"range":[0,1]}`, "Affine.E1"},
		{"kfd.cu_mask_rule", `{"bits":[0,1]}`, `{"xcc_of_bit":[0,1]}`, "0 dies"},
		{"kfd.queues", `{"num_mec_used":1,"pipes_per_mec":4,"queues_per_pipe":4294967296}`, `{"hqds_total":32}`, "there may be up to"},
		{"kfd.queues", `{"num_mec_used":65536,"pipes_per_mec":65536,"queues_per_pipe":65536}`, `{"hqds_total":32}`, "there may be up to"},
		{"dispatch.makespan", `{"blocks":1,"shader_engines":1000000000,"cu_per_se":15}`, `{"headline":"15 CUs in one SE: 35 ticks; adding one CU of a second SE: 256 ticks"}`, "there may be up to"},
		{"dispatch.rule", `{"aces":1000000000000000,"shader_engines":4}`, `{"slots_per_wlm":4}`, "ACEs"},
		{"rocm.queue_pool", `{"max_hw_queues":-1,"ops":[["create","s0"]],"policy":"4.2"}`, `{"refcounts":[1]}`, "-1 hardware queues"},
		{"rocm.queue_pool", `{"max_hw_queues":2,"ops":[["create","s0"],["create","s1"]],"policy":"4.2"}`, `{"refcount_log":[[1],[2]]}`, "refcount_log is [[1],[1,1]]"},
		{"cu.occupancy", `{"granule":-1,"max_waves":10,"simd_vgprs":256,"vgprs":[24]}`, `{"waves_per_simd":[10]}`, "-1"},
		{"cu.occupancy", `{"granule":4,"max_waves":10,"simd_vgprs":256,"vgprs":[-24]}`, `{"waves_per_simd":[10]}`, "-24"},
		{"ldmatrix.rule", `{"num":[-1]}`, `{"1":"lanes 0-7"}`, "1, 2 or 4 matrices"},
		{"op:logical_divide", `{"op":"logical_divide"}`, `{"cpp":"1:0","pycute_agrees":false,"pycute":"ERROR"}`, "0 arguments"},
		{"thread_map", `{"device":"h200_sxm","emitter":"concatenate","dimension":7,"operands":["f32[200]","f32[400]"]}`, `{}`, "along dimension 7"},
		{"thread_map", `{"device":"h200_sxm","emitter":"concatenate"}`, `{}`, "no operands"},
		{"thread_map", `{"device":"h200_sxm","emitter":"transpose","operand":"f32[2,3]","permutation":[0,0]}`, `{}`, "no permutation"},
		{"thread_map", `{"device":"h200_sxm","emitter":"reduce","operand":"f32[2,3]","dimensions":[2]}`, `{}`, "dimension 2"},
		{"indexing_input_to_output", `{"hlo":"ENTRY e {\n p = f32[10] parameter(0)\n ROOT x = f32[10] negate(p)\n}","input_id":3}`, `{}`, "no input 3 of 1"},
		{"indexing_output_to_input", `{"hlo":"ENTRY e {\n p = f32[10] parameter(0)\n ROOT x = f32[10] negate(p)\n}","output_id":1}`, `{}`, "no output 1 of 1"},
	} {
		r := Check(Case{Kind: c.kind, Input: []byte(c.input), Expect: []byte(c.expect)})
		if r.Outcome != Failed || !strings.Contains(r.Note, c.want) || strings.HasPrefix(r.Note, "panic") {
			t.Errorf("%s %s: %s %q, want %q", c.kind, c.input, r.Outcome, r.Note, c.want)
		}
	}
}

// FuzzCases feeds whole files: reading and checking must end, without a panic
// that escapes.
func FuzzCases(f *testing.F) {
	for _, name := range []string{"dtype.json", "layout.json", "cute.json", "hw.json", "amd.json", "xla.json"} {
		seen := map[string]bool{}
		for _, c := range load(f, name) {
			if !seen[c.Kind] {
				seen[c.Kind] = true
				f.Add(c.Kind, []byte(c.Input), []byte(c.Expect))
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind string, input, expect []byte) {
		if r := Check(Case{Kind: kind, Input: input, Expect: expect}); strings.HasPrefix(r.Note, "panic") {
			t.Fatalf("%s %s: %s", kind, input, r.Note)
		}
		list, err := Read("fuzz", bytes.NewReader(input))
		if err != nil {
			return
		}
		if _, err := Run(&bytes.Buffer{}, list[:min(len(list), 8)], true); err != nil {
			t.Fatal(err)
		}
	})
}
