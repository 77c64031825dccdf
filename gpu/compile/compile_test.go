package compile

import (
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

const copyProgram = `program copy<N/512>(x: *f16, y: *f16, N: i32) warps=2 {
	bi = BlockIndices()
	unused = bi*3
	gx = ViewGlobal(x) : global f16[N]
	gy = ViewGlobal(y) : global f16[N]
	r = LoadGlobal(gx, offset=[bi*512]) : register f16[512] spatial(64).local(8)
	StoreGlobal(gy, r, offset=[bi*512])
}
`

func program(t *testing.T, src string) *ir.Program {
	t.Helper()
	p, err := text.Parse("copy.tile", src, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStepsCanBeWatched(t *testing.T) {
	var steps []string
	c, err := Program(program(t, copyProgram), Options{Arch: "sm_80", Dump: func(step, text string) {
		if text == "" {
			t.Errorf("%s shows nothing", step)
		}
		steps = append(steps, step)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if steps[0] != "program" || !slices.Contains(steps, "lower") || slices.Index(steps, "lower") == len(steps)-1 {
		t.Errorf("steps are %v", steps)
	}
	ptx, err := c.PTX()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".target sm_80", "ld.global.v4.b32", "st.global.v4.b32", ".reqntid 64"} {
		if !strings.Contains(ptx, want) {
			t.Errorf("the PTX lacks %q:\n%s", want, ptx)
		}
	}
	if !strings.Contains(c.CUDA(), "__global__") {
		t.Errorf("no CUDA C++:\n%s", c.CUDA())
	}
}

func TestDivisors(t *testing.T) {
	p := program(t, copyProgram)
	for n, want := range map[int64]int64{1024: 128, 24: 8, 7: 0, 0: 128, -32: 32} {
		if got := Divisors(p, []ir.Arg{{}, {}, {Int: n}})["N"]; got != want {
			t.Errorf("N=%d: %d, want %d", n, got, want)
		}
	}
}

func TestKeyNamesWhatTheCodeDependsOn(t *testing.T) {
	p := program(t, copyProgram)
	seen := map[string]string{}
	for what, key := range map[string]string{
		"plain":   Key(p, Options{Arch: "sm_80"}),
		"arch":    Key(p, Options{Arch: "sm_90a"}),
		"assumed": Key(p, Options{Arch: "sm_80", Divisible: map[string]int64{"N": 8}}),
		"more":    Key(p, Options{Arch: "sm_80", Divisible: map[string]int64{"N": 82}}),
		"two":     Key(p, Options{Arch: "sm_80", Divisible: map[string]int64{"N": 8, "M": 2}}),
		"noopt":   Key(p, Options{Arch: "sm_80", NoOpt: true}),
		"text":    Key(program(t, strings.Replace(copyProgram, "*3", "*5", 1)), Options{Arch: "sm_80"}),
	} {
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have one key", what, other)
		}
		seen[key] = what
	}
	if a, b := Key(p, Options{Dump: func(string, string) {}}), Key(program(t, copyProgram), Options{}); a != b {
		t.Error("one program has two keys")
	}
}

func TestErrors(t *testing.T) {
	if _, err := Program(program(t, copyProgram), Options{Arch: "sm_91"}); err == nil || !strings.Contains(err.Error(), "sm_90") {
		t.Errorf("got %v", err)
	}
	if err := ours(diag.List{{Code: "Code.V1", Msg: "x"}, {Code: "Lower.E1", Msg: "y", Help: "z"}}); !strings.HasPrefix(err.Error(), "x [Code.V1]\n\thelp: a mistake of Tilus Lab, not of the program") || !strings.HasSuffix(err.Error(), "\ny [Lower.E1]\n\thelp: z") {
		t.Errorf("got %v", err)
	}
}
