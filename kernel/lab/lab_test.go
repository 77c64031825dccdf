package lab

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/device"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/diag"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

const double = `program double<n/32>(alpha: f32, x: *f32, y: *f32, n: i32) warps=1 {
	i = BlockIndices()
	gx = ViewGlobal(x) : global f32[n]
	gy = ViewGlobal(y) : global f32[n]
	r = LoadGlobal(gx, offset=[i*32]) : register f32[32] spatial(32)
	r2 = Mul(r, alpha) : register f32[32] spatial(32)
	StoreGlobal(gy, r2, offset=[i*32])
}`

func program(t *testing.T, src string) *ir.Program {
	t.Helper()
	p, err := Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRunGivesOutputsByName(t *testing.T) {
	p := program(t, double)
	x := array.FromFloats(dtype.F32, nil, make([]float64, 64))
	x.Set(3, 63)
	for _, name := range []string{"interp", "sim"} {
		r, err := RunOn(name, p, 2.5, x, "const=7:f32[64]", 64)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := r.Out("y").At(63); r.Device != name || got != 7.5 {
			t.Errorf("%s: on %s y[63] is %v", name, r.Device, got)
		}
		if r.Names[0] != "y" || len(r.Names) != 1 {
			t.Errorf("%s: outputs are %v, only y is stored to", name, r.Names)
		}
		text := r.String()
		for _, want := range []string{"double on " + name + " (", " ran in ", " ms\ny = f32[64]\n", "7.5"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in the result:\n%s", name, want, text)
			}
		}
		if strings.Contains(text, "JIT") {
			t.Errorf("%s: JIT time where there is no driver:\n%s", name, text)
		}
	}
	if x.At(0) != 0 || x.At(63) != 3 {
		t.Error("Run changed its argument")
	}
}

func TestScalarsOfEveryGoType(t *testing.T) {
	p := program(t, double)
	for _, alpha := range []any{2, int32(2), int64(2), 2.0, float32(2)} {
		r, err := RunOn("interp", p, alpha, "ones:f32[32]", "zeros:f32[32]", int64(32))
		if err != nil || r.Out("y").At(0) != 2 {
			t.Errorf("alpha as %T: %v", alpha, err)
		}
	}
}

func TestWrongArguments(t *testing.T) {
	p := program(t, double)
	x := array.New(dtype.F32, 32)
	for _, c := range []struct {
		args []any
		want string
	}{
		{[]any{x, x, 32}, "double takes 4 arguments (alpha, x, y, n), 3 are given"},
		{[]any{1, 2, x, 32}, "argument x of double: 2 is a number, and must be an array of f32"},
		{[]any{1, x, x, 32.5}, "argument n of double: 32.5 is a float64, and must be a whole number of type i32"},
		{[]any{1, 0.5, x, 32}, "argument x of double: 0.5 is a float64, and must be an array of f32"},
		{[]any{"one", x, x, 32}, `argument alpha of double: "one" is text`},
		{[]any{1, "zero:f32[32]", x, 32}, "Array.N2"},
		{[]any{1, "zeros:f16[32]", x, 32}, "argument x is an array of f16, not f32"},
		{[]any{1, x, x, x}, "argument n is an array"},
		{[]any{1, x, x, []int{1}}, "argument n of double: a Go []int is neither an array nor a number"},
		{[]any{1, (*array.Array)(nil), x, 32}, "argument x of double: the array is nil"},
	} {
		_, err := RunOn("interp", p, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.args, err, c.want)
		}
	}
	if _, err := Run(nil); err == nil {
		t.Error("no error without a program")
	}
}

func TestOutOfNoSuchNameSaysWhichThereAre(t *testing.T) {
	r, err := RunOn("interp", program(t, double), 1, "ones:f32[32]", "zeros:f32[32]", 32)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err, _ := recover().(error); err == nil || !strings.Contains(err.Error(), "it has x, y") {
			t.Errorf("got %v", err)
		}
	}()
	r.Out("result")
}

func TestParseBindsAndLocates(t *testing.T) {
	p, err := Load("matmul_any", "W=i4", "BK = 32")
	if err != nil || p.Bindings["W"] != "i4" || p.Bindings["BK"] != "32" {
		t.Errorf("got %v, %v", p, err)
	}
	_, err = Parse(strings.Replace(double, "Mul", "Mult", 1))
	var list diag.List
	if !errors.As(err, &list) || list[0].Pos.Line != 6 || !strings.Contains(err.Error(), "program.tile:6:7") {
		t.Errorf("got %v", err)
	}
	if _, err := ParseAs("mine.tile", strings.Replace(double, "Mul", "Mult", 1)); err == nil || !strings.Contains(err.Error(), "mine.tile:6:7") {
		t.Errorf("got %v", err)
	}
	if _, err := Parse(double, "W"); err == nil {
		t.Error("a binding without = is accepted")
	}
}

func TestLoadReadsFilesAndExamples(t *testing.T) {
	path := filepath.Join(t.TempDir(), "double.tile")
	if err := os.WriteFile(path, []byte(double), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := Load(path); err != nil || p.Name != "double" {
		t.Errorf("file: %v", err)
	}
	if _, err := Load("matmul_f16_i5"); err == nil || !strings.Contains(err.Error(), "did you mean matmul_f16_i6?") {
		t.Errorf("misspelt: %v", err)
	}
	if _, err := Load(t.TempDir()); err == nil || strings.Contains(err.Error(), "example") {
		t.Errorf("folder: %v", err)
	}
}

func TestDevice(t *testing.T) {
	defer func() { machine.chosen = "" }()
	p := program(t, double)
	args := []any{1, "ones:f32[32]", "zeros:f32[32]", 32}
	t.Setenv(DeviceEnv, "sim")
	if r, err := Run(p, args...); err != nil || r.Device != "sim" {
		t.Errorf("by environment: %v, %v", r, err)
	}
	if err := Device("interp"); err != nil {
		t.Fatal(err)
	}
	if r, err := Run(p, args...); err != nil || r.Device != "interp" {
		t.Errorf("by Device: %v, %v", r, err)
	}
	if err := Device("simm"); err == nil || !strings.Contains(err.Error(), "did you mean") {
		t.Errorf("misspelt: %v", err)
	}
	if r, err := Run(p, args...); err != nil || r.Device != "interp" {
		t.Errorf("after a misspelt name: %v, %v", r, err)
	}
}

func TestCompare(t *testing.T) {
	c, err := Compare(program(t, double), 0.5, "randint:f32[64]", "zeros:f32[64]", 64)
	if err != nil {
		t.Fatal(err)
	}
	want := "interp = sim = cuda, 0 of 64 differ"
	if _, err := device.Open("cuda"); errors.Is(err, device.ErrNoGPU) {
		want = "interp = sim, 0 of 64 differ (cuda: none here)"
	}
	if !c.Equal() || c.String() != want {
		t.Errorf("got %q, want %q", c, want)
	}
}

func TestCompareSaysWhatDiffers(t *testing.T) {
	p := program(t, double)
	one, err := RunOn("interp", p, 1, "iota:f32[32]", "zeros:f32[32]", 32)
	if err != nil {
		t.Fatal(err)
	}
	other, err := RunOn("sim", p, 1, "iota:f32[32]", "zeros:f32[32]", 32)
	if err != nil {
		t.Fatal(err)
	}
	other.Out("y").Set(9.5, 9)
	c := &Comparison{}
	c.add(one)
	c.add(other)
	want := "interp ≠ sim, 1 of 32 differ\nsim: y: 1 of 32 differ, first at [9], max abs 0.5, max rel 0.0556"
	if c.Equal() || c.String() != want {
		t.Errorf("got %q, want %q", c, want)
	}
}

func TestLowerFindsTheCodeOfAVariable(t *testing.T) {
	p, err := Load("matmul_scaled")
	if err != nil {
		t.Fatal(err)
	}
	args := []any{"zeros:f16[16, 64]", "zeros:u8[4, 1, 96]", "zeros:f16[1, 8]", "zeros:f16[16, 8]", 16, 8, 64}
	for _, arch := range []string{"sm_80", "sm_90a"} {
		c, err := LowerFor(arch, p, args...)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(c.String(), ".target "+arch) {
			t.Errorf("no .target %s in\n%s", arch, c)
		}
		if got := c.Count("mma.sync", "st.shared"); got != "1 mma.sync, 0 st.shared" {
			t.Errorf("%s: got %s", arch, got)
		}
		if dot := c.Of("sum"); strings.Count(dot, "mma.sync") != 1 || strings.Contains(dot, "ld.global") || strings.Contains(dot, "//") {
			t.Errorf("%s: the code of sum is\n%s", arch, dot)
		}
		if got := c.Of("rw"); got != "" {
			t.Errorf("%s: a View became\n%s", arch, got)
		}
	}
	if _, err := LowerFor("sm_1", p); err == nil {
		t.Error("no error for an unknown target")
	}
}

func TestResultsOfFailedCallsPrint(t *testing.T) {
	r, err := Run(nil)
	c, err2 := Compare(nil)
	l, err3 := Lower(nil)
	if err == nil || err2 == nil || err3 == nil {
		t.Fatal("no error without a program")
	}
	for _, s := range []string{r.String(), c.String(), l.String()} {
		if s != "<nil>" {
			t.Errorf("got %q", s)
		}
	}
}

func TestRunEndsWithItsCell(t *testing.T) {
	p, err := Load("control")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	defer Attach(Hooks{Context: func() context.Context { return ctx }})()
	for _, name := range []string{"interp", "sim"} {
		if _, err := RunOn(name, p, "ones:f32[64, 64]", "zeros:f32[64, 64]", 64); !errors.Is(err, context.Canceled) {
			t.Errorf("%s in an interrupted cell: %v", name, err)
		}
	}
}

func TestCheckEndsTheCell(t *testing.T) {
	Check(nil)
	defer func() {
		if recover() == nil {
			t.Error("Check let an error pass")
		}
	}()
	Check(os.ErrNotExist)
}

func TestMachineNamesDateAndDevices(t *testing.T) {
	m := Machine()
	if s := m.String(); !strings.HasPrefix(s, "machine: ") || !strings.HasSuffix(s, "reference interpreter") || !strings.Contains(s, m.Date) {
		t.Errorf("got %q", s)
	}
}

// What is stored to a part of a tensor, or to a part of that, is an output. Infinite values
// are infinite on all machines.
func TestStoresToPartsAreOutputs(t *testing.T) {
	p := program(t, `program parts<2>(x: *f32, y: *f32) warps=1 {
	b = BlockIndices()
	gx = ViewGlobal(x) : global f32[2, 64]
	gy = ViewGlobal(y) : global f32[2, 64]
	row = SliceGlobal(gy, offset=[b, 0], dims=[1]) : global f32[64]
	half = SliceGlobal(row, offset=[32]) : global f32[32]
	v = LoadGlobal(gx, offset=[b, 32], dims=[1]) : register f32[32] spatial(32)
	low = AllocateRegister(init=-inf) : register f32[32] spatial(32)
	c = Greater(v, low) : register bool[32] spatial(32)
	w = Where(c, low, inf) : register f32[32] spatial(32)
	StoreGlobal(half, w, offset=[0])
}`)
	for _, name := range []string{"interp", "sim"} {
		r, err := RunOn(name, p, "const=7:f32[2, 64]", "zeros:f32[2, 64]")
		if err != nil {
			t.Fatal(name, err)
		}
		if len(r.Names) != 1 || r.Names[0] != "y" {
			t.Fatalf("%s: outputs are %v, y is stored to", name, r.Names)
		}
		if y := r.Out("y"); y.At(0, 31) != 0 || !math.IsInf(y.At(1, 63), -1) {
			t.Errorf("%s: y is %v", name, y)
		}
	}
}
