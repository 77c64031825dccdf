package export

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/gemm/hopper"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

func decode(t *testing.T, s template.Schedule) *ir.Program {
	t.Helper()
	p, err := template.Decode(template.Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128, Factor: true}, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHeader compiles the header, and launches with a driver that says what it hears.
func TestHeader(t *testing.T) {
	cc := need.CC(t)
	dir := t.TempDir()
	p := decode(t, template.Schedule{Splits: 2, Warps: 2})
	if _, err := Write(dir, p, Options{Divisible: map[string]int64{"K": 128}}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"cuda.h", "main.c"} {
		data, err := os.ReadFile(filepath.Join("testdata", f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	exe := filepath.Join(dir, "main")
	if out, err := exec.Command(cc, "-Wall", "-Wextra", "-Werror", "-std=c99", "-I", dir, "-o", exe, filepath.Join(dir, "main.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(exe).CombinedOutput()
	if want := "launch 2 3 1, 64 threads, 10 params\nrefused\n"; err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q", err, out, want)
	}
}

// TestModule has Python read the module, ask for a grid, and hear what is refused.
func TestModule(t *testing.T) {
	python := need.Jupyter(t)
	dir := t.TempDir()
	if _, err := Write(dir, decode(t, template.Schedule{Splits: 2, Warps: 2}), Options{Divisible: map[string]int64{"K": 128}}); err != nil {
		t.Fatal(err)
	}
	script := `import decode_u4_f16 as k
print(*k.grid(3, 90, 256, 1.0), [p[0] for p in k.PARAMS if p[2]])
try:
    k.launch(0, 0, 0, 0, 0, 0, 3, 90, 200, 1.0)
except ValueError as e:
    print(e)
`
	cmd := exec.Command(python, "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if want := "2 3 1 ['y', 'part', 'arrived']\nK is 200, not a multiple of 128\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}

// TestDivisible holds numbers that divide nothing.
func TestDivisible(t *testing.T) {
	for _, name := range []string{"q", "w"} { // w is a pointer
		dir := t.TempDir()
		if _, err := Write(dir, decode(t, template.Schedule{}), Options{Divisible: map[string]int64{name: 4}}); err == nil || !strings.Contains(err.Error(), "no scalar parameter "+name) {
			t.Errorf("%s: %v", name, err)
		}
		if files, _ := os.ReadDir(dir); len(files) > 0 {
			t.Errorf("%s: files are written", name)
		}
	}
}

// TestRefused holds programs that files cannot launch.
func TestRefused(t *testing.T) {
	p, err := hopper.Matmul(1, hopper.Schedule{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.TempDir(), p, Options{}); err == nil || !strings.Contains(err.Error(), "tensor map") {
		t.Errorf("a program with tensor maps: %v", err)
	}
}
