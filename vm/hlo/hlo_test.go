package hlo

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// caseTexts are the fusions of the conformance cases.
func caseTexts(t testing.TB) []string {
	t.Helper()
	raw, err := os.ReadFile("../../tests/testdata/cases/xla.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ Input struct{ HLO string } }
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, c := range cases {
		if c.Input.HLO != "" {
			texts = append(texts, c.Input.HLO)
		}
	}
	if len(texts) < 50 {
		t.Fatalf("only %d fusions", len(texts))
	}
	return texts
}

func TestFormatReadsBack(t *testing.T) {
	for _, text := range caseTexts(t) {
		m, err := Parse("case", text)
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		once := Format(m)
		back, err := Parse("back", once)
		if err != nil || Format(back) != once {
			t.Errorf("does not read back: %v\n%s", err, once)
		}
	}
}

// TestXLAText reads text with everything that XLA prints around the operations.
func TestXLAText(t *testing.T) {
	m, err := Parse("x", `HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[8,128]{1,0})->f32[8]{0}}, frontend_attributes={fingerprint="x"}

%region_0.4 (Arg_0.5: f32[], Arg_1.6: f32[]) -> f32[] {
  %Arg_0.5 = f32[] parameter(0), metadata={op_name="jit(f)/reduce_sum"}
  %Arg_1.6 = f32[] parameter(1) // trailing
  ROOT %add.7 = f32[] add(f32[] %Arg_0.5, f32[] %Arg_1.6), metadata={op_type="add" op_name="a, b = {}" source_line=3}
}

/* a comment
   of two lines */
%fused (param_0.1: f32[8,128]) -> f32[8] {
  %param_0.1 = f32[8,128]{1,0:T(8,128)S(1)} parameter(0), sharding={replicated}
  %constant.1 = f32[] constant(0)
  %c2 = f32[2,3]{1,0} constant({ { 1, 2.5e-1, nan }, /*i0=1*/ { -inf, inf, -0 } })
  ROOT %reduce.1 = f32[8]{0} reduce(f32[8,128]{1,0} %param_0.1, f32[] %constant.1), dimensions={1}, to_apply=%region_0.4, backend_config={"a":[1,2],"b":{}}
}

ENTRY %main.9 (p: f32[8,128]) -> f32[8] {
  %p = f32[8,128]{1,0} parameter(0)
  ROOT %fusion = f32[8]{0} fusion(f32[8,128]{1,0} %p), kind=kInput, calls=%fused, control-predecessors={%p}
}, execution_thread="main"
`)
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "jit_f" || m.Entry.Name != "main.9" || len(m.Computations) != 3 {
		t.Errorf("read %s, %s, %d computations", m.Name, m.Entry.Name, len(m.Computations))
	}
	if got := m.Find("fused").Find("c2").String(); got != "c2 = f32[2,3] constant({{1, 0.25, nan}, {-inf, inf, -0}})" {
		t.Errorf("the constant is %s", got)
	}
	if _, err := Parse("y", Format(m)); err != nil {
		t.Error(err)
	}
}

// TestOneNumberForAll: a literal that is one number stands for an array of it.
func TestOneNumberForAll(t *testing.T) {
	for in, want := range map[string]string{
		"c = s32[2,3] constant(7)":   "c = s32[2,3] constant({{7, 7, 7}, {7, 7, 7}})",
		"c = pred[2] constant(true)": "c = pred[2] constant({true, true})",
		"c = f32[0] constant(1)":     "c = f32[0] constant({})",
	} {
		m, err := Parse("t", "ENTRY e {\n "+in+"\n}")
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := m.Entry.Root.String(); got != want {
			t.Errorf("%s reads as %s", in, got)
		}
	}
}

// TestErrors: line 10 of a computation with two f32[4,8] parameters a and b, an s32[]
// parameter i, and what is said about it.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"x = f32[4,8] addd(a, b)", "5:16: there is no operation addd [Fusion.E2]\n\thelp: did you mean add?"},
		{"x = f32[4,8] add(a, c)", "5:23: c is no instruction further up in e [Fusion.E3]"},
		{"x = f32[4,8] add(a, x)", "x is no instruction further up"},
		{"a = f32[4,8] add(a, b)", "5:3: there are two instructions a in e [Fusion.E4]"},
		{"x = f33[4,8] add(a, b)", "5:7: there is no element type f33 [Fusion.E5]"},
		{"x = f32[4,8]{0,0} add(a, b)", "the layout {0,0} is no order of dimensions [Fusion.E5]"},
		{"x = f32[4,8]{0} add(a, b)", "the layout {0} has 1 dimensions, the shape 2 [Fusion.E5]"},
		{"x = f32[<=4,8] add(a, b)", "sizes known only at run time"},
		{"x = f32[-4] add(a, b)", "-4 is no size"},
		{"x = f32[4000000000,4000000000,4000000000] broadcast(i), dimensions={}", "the array has more elements than fit 64 bits [Fusion.E6]"},
		{"x = f32[99999999999,0,99999999999] broadcast(i), dimensions={}", "the array has more elements than fit 64 bits [Fusion.E6]"},
		{"x = f64[9999999999999] broadcast(i), dimensions={}", "the array has more than 64 TiB [Fusion.E6]"},
		{"x = f32[2] constant({1})", "1 values where f32[2] has 2 [Fusion.E7]"},
		{"x = f32[2] constant({1,2,3})", "more values than f32[2] has [Fusion.E7]"},
		{"x = s8[2] constant(128)", "128 is no s8 [Fusion.E7]"},
		{"x = s8[] constant(128)", "128 is no s8 [Fusion.E7]"},
		{"x = pred[] constant(maybe)", "maybe is no pred [Fusion.E7]"},
		{"x = f32[4,8] pad(a, b), padding=1_2_3_4x0_0", `"1_2_3_4" is no padding of a dimension [Fusion.E8]`},
		{"x = f32[4] reduce(a, i), dimensions={1}, to_apply=sum", "there is no computation sum further up [Fusion.E9]"},
		{"x = f32[9999999] constant({1})", "the constant has 9999999 elements, at most 1048576 [Fusion.E10]"},
		{"x = f32[4,8] add(a)", "5:3: add: 2 operands, not 1 [Fusion.V1]"},
		{"x = f32[4,8] add(a, i)", "a is f32[4,8] and i is s32[]; they must agree [Fusion.V2]"},
		{"x = f32[4,8] and(a, b)", "it is not defined on f32 [Fusion.V2]"},
		{"x = s32[] exponential(i)", "it is not defined on s32 [Fusion.V2]"},
		{"x = f32[8,4] add(a, b)", "the result is f32[4,8], not f32[8,4] [Fusion.V3]"},
		{"x = f32[8,4] transpose(a)", "dimensions is needed [Fusion.V4]"},
		{"x = f32[8,4] transpose(a), dimensions={0,0}", "does not name different dimensions of f32[4,8] [Fusion.V5]"},
		{"x = f32[4,4] transpose(a), dimensions={1,0}", "the result is f32[8,4], not f32[4,4] [Fusion.V3]"},
		{"x = f32[3,8] slice(a), slice={[2:5], [0:8]}", "[2:5:1] does not lie in the size 4 of dimension 0 [Fusion.V5]"},
		{"x = f32[4,8] compare(a, b), direction=UP", "a direction is EQ NE LT LE GT or GE, not UP [Fusion.E8]"},
		{"x = pred[4,8] compare(a, b)", "direction=EQ, NE, LT, LE, GT or GE is needed [Fusion.V4]"},
		{"x = f32[5,8] concatenate(a, i), dimensions={0}", "i is s32[], which does not fit f32[4,8] along dimension 0 [Fusion.V2]"},
		{"x = f32[4,8] fusion(a), kind=kLoop, calls=one", "one takes 2 arguments, not 1 [Fusion.V6]"},
		{"x = f32[4] reduce(a, a), dimensions={1}, to_apply=one", "the initial value a is f32[4,8], not f32[] [Fusion.V2]"},
		{"x = f32[4,8] dynamic-slice(a, i), dynamic_slice_sizes={4,8}", "1 starts for 2 dimensions [Fusion.V1]"},
		{"x = s32[] parameter(5)", "numbered from 0 without gaps"},
		{"x = f32[4,8] add(a, b), dimensions={0", "12:1: the computation e does not end [Fusion.E1]"},
		{"x = f32[4,8] add(a, b) y", "y after the instruction x [Fusion.E1]"},
		{"x = f32[3] dot(a, b)", "lhs_contracting_dims and rhs_contracting_dims are needed [Fusion.V4]"},
		{"x = f32[4] get-tuple-element(a), index=1", "a is f32[4,8] and has no element 1 [Fusion.V5]"},
		{"x = f32[4,8] add(a, b), metadata={a=\"", "Fusion.E1"},
	} {
		text := "one {\n p = f32[] parameter(0)\n q = f32[] parameter(1)\n r = f32[] add(p, q)\n}\n" +
			"e { a = f32[4,8] parameter(0)\n b = f32[4,8] parameter(1)\n i = s32[] parameter(2)\n\n  " + c.line + "\n}\n"
		m, err := Parse("t", text)
		want := strings.Replace(c.want, "5:", "10:", 1)
		if err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n\tgave %v %v\n\twant %s", c.line, err, m != nil, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"", "there is no computation"},
		{"e {", "does not end"},
		{"e { }", "is empty"},
		{"ENTRY a { p = f32[] parameter(0) }\nENTRY b { p = f32[] parameter(0) }", "there is a second ENTRY"},
		{"e {\n ROOT p = f32[] parameter(0)\n ROOT q = f32[] parameter(1)\n}", "there is a second ROOT"},
		{"/* no end", "the comment does not end"},
		{strings.Repeat(" ", MaxText+1), "bytes, at most"},
		{"e {\n x = nothing\n y = f32[] add(x, x)\n}", "2:6: there is no element type nothing"},
	} {
		if _, err := Parse("t", c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q gave %v, want %s", c.text, err, c.want)
		}
	}
}

func TestBuilder(t *testing.T) {
	b := NewBuilder("softmax")
	x := b.Param(Array(F32, 8, 128))
	high := b.Reduce(Maximum, x, b.Scalar(F32, -1e30), 1)
	e := b.Elementwise(Exp, b.Elementwise(Subtract, x, b.Broadcast(high, []int{8, 128}, 0)))
	sum := b.Reduce(Add, e, b.Scalar(F32, 0), 1)
	m, err := b.Done(b.Elementwise(Divide, e, b.Broadcast(sum, []int{8, 128}, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if m.Entry.Root.Op != Divide || len(m.Computations) != 3 {
		t.Errorf("built\n%s", Format(m))
	}
	b = NewBuilder("bad")
	x = b.Param(Array(F32, 8))
	if _, err := b.Done(b.Elementwise(And, x, x)); err == nil || !strings.Contains(err.Error(), "bad:5:8") {
		t.Errorf("a wrong module gives %v", err)
	}
}

func TestOpsHaveNamesAndDocs(t *testing.T) {
	for _, op := range Ops() {
		r := op.Row()
		back, ok := ParseOp(r.Name)
		if !ok || back != op || r.Doc == "" && r.Class != Opaque {
			t.Errorf("%d is %q, %q", op, r.Name, r.Doc)
		}
	}
	if op, ok := ParseOp("cholesky"); !ok || op.Class() != Opaque || op.String() != "cholesky" {
		t.Error("cholesky is not opaque")
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range caseTexts(f) {
		f.Add(text)
	}
	f.Add("HloModule m\nENTRY e {\n p = f32[2]{0:T(1)} parameter(0), metadata={a=\"b\"}\n ROOT r = (f32[2]) tuple(p)\n}")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse("fuzz", text)
		if err != nil {
			return
		}
		once := Format(m)
		back, err := Parse("back", once)
		if err != nil {
			t.Fatalf("does not read back: %v\n%s", err, once)
		}
		if again := Format(back); again != once {
			t.Fatalf("prints otherwise\n%s\n%s", once, again)
		}
	})
}
