package export

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/compile"
	"github.com/tilus-lab/tilus-lab/gpu/gemm/hopper"
	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/corpus"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
	"github.com/tilus-lab/tilus-lab/vm/text"
)

func decode(t *testing.T, s template.Schedule) *ir.Program {
	t.Helper()
	p, err := template.Decode(template.Form{Weight: dtype.U4, Act: dtype.F16, Scale: dtype.F16, Group: 128, Factor: true}, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run compiles a file of testdata beside what was written to a directory, and runs it.
func run(t *testing.T, dir, file string, options ...string) ([]byte, error) {
	t.Helper()
	cc := need.CC(t)
	for _, f := range []string{"cuda.h", file} {
		data, err := os.ReadFile(filepath.Join("testdata", f))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, f), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	exe := filepath.Join(dir, "main")
	args := append([]string{"-Wall", "-Wextra", "-Werror", "-std=c99", "-I", dir, "-o", exe, filepath.Join(dir, file)}, options...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exec.Command(exe).CombinedOutput()
}

// TestHeader compiles the header, and launches with a driver that says what it hears.
func TestHeader(t *testing.T) {
	dir := t.TempDir()
	p := decode(t, template.Schedule{Splits: 2, Warps: 2})
	if _, err := Write(dir, p, Options{Divisible: map[string]int64{"K": 128}}); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, dir, "main.c")
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
class Half:
    dtype = "f16"
    def element_size(self):
        return 2
for w, m, n in [(0, 3, 200), (0, 3 + (1 << 32), 256), (257, 3, 256), (Half(), 3, 256)]:
    try:
        k.launch(w, 0, 0, 0, 0, 0, m, 90, n, 1.0)
    except ValueError as e:
        print(e)
`
	cmd := exec.Command(python, "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if want := "2 3 1 ['y', 'part', 'arrived']\nK is 200, not a multiple of 128\nM is 4294967299, which i32 does not hold\nw is address 0x101, no multiple of 256\nw is of f16, the program's elements are of 1 byte\n"; err != nil || string(out) != want {
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

// maps has a program with tensor maps, clusters and dependent launches written to a directory, and gives the lines that tell
// of its maps at one launch: the parameter, its type, the swizzle, and elements, strides and the box, inner dimension first.
func maps(t *testing.T, dir string) (name, want string) {
	t.Helper()
	p, err := hopper.Matmul(5, hopper.Schedule{PDL: true, Cluster: 2})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Divisible: map[string]int64{"K": 64}}
	if _, err := Write(dir, p, o); err != nil {
		t.Fatal(err)
	}
	c, err := compile.Program(p, compile.Options{Divisible: o.Divisible})
	if err != nil {
		t.Fatal(err)
	}
	if c.Func.Launch.Cluster == [3]int{} || !c.Func.Launch.PDL {
		t.Fatalf("%s is launched without clusters, or not before what is in front of it has ended", p.Name)
	}
	n := 0
	for _, x := range c.Func.Params {
		if x.Map == nil {
			continue
		}
		_, dims, strides, err := x.Map.Shape(map[string]int64{"M": 300, "N": 520, "K": 1 << 30, "P": 4})
		if err != nil {
			t.Fatal(err)
		}
		n++
		want += fmt.Sprintf("map %d %d %d %v %v %v\n", slices.IndexFunc(p.Params, func(v *ir.Var) bool { return v.Name == x.Map.Base })+1, x.Map.Type, x.Map.Swizzle, dims, strides, x.Map.Box)
	}
	if n < 2 {
		t.Fatalf("%d maps", n)
	}
	return p.Name, want
}

// TestHeaderMaps launches with tensor maps of more bytes than 32 bits hold, twice: the second time before what is in front has ended.
func TestHeaderMaps(t *testing.T) {
	dir := t.TempDir()
	name, want := maps(t, dir)
	out, err := run(t, dir, "maps.c", "-include", name+".h")
	if want := want + "launch 4 1 1\n" + want + "dependent launch 4 1 1\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}

// TestModuleMaps does it in Python, beside a driver that says what it hears, and one that refuses a map.
func TestModuleMaps(t *testing.T) {
	python := need.Jupyter(t)
	dir := t.TempDir()
	name, want := maps(t, dir)
	script := `import ctypes, importlib, sys
k = importlib.import_module(sys.argv[1])

class Driver:
    code = 0

    def cuTensorMapEncodeTiled(self, held, kind, rank, base, dims, strides, box, steps, interleave, swizzle, promotion, fill):
        assert ctypes.addressof(held._obj) % 64 == 0 and list(steps) == [1] * rank and interleave == fill == 0 and promotion == 3
        say = lambda a: "[" + " ".join(map(str, a)) + "]"
        print("map", base.value >> 8, kind, swizzle, say(dims), say(list(strides)[: rank - 1]), say(box))
        return self.code

    def cuCtxGetCurrent(self, context):
        context._obj.value = 1
        return 0

    def cuLaunchKernel(self, function, x, y, z, threads, *all):
        print("launch", x, y, z)
        return 0

    def cuLaunchKernelEx(self, config, function, pointers, extra):
        c = config._obj
        a = c.attributes[0]
        assert (c.bx, c.by, c.bz, c.shared, c.stream, c.n, a.id, a.value[0]) == (k.THREADS, 1, 1, k.SHARED, 5, 1, 6, 1), a
        print("dependent launch", c.x, c.y, c.z)
        return 0

    def cuGetErrorName(self, code, name):
        name._obj.value = b"WRONG"
        return 0

driver = Driver()
k._driver = lambda: driver
k._function = lambda context: 7
numbers = 1 << 8, 2 << 8, 3 << 8, 300, 520, 1 << 30, 4
k.launch(*numbers, stream=5)
k._tensor_map.cache_clear()
k.launch(*numbers, stream=5, dependent=True)
k.launch(*numbers, stream=5)
driver.code = 1
try:
    k.launch(4 << 8, *numbers[1:], stream=5)
except RuntimeError as e:
    print(str(e).split(":")[2])
`
	cmd := exec.Command(python, "-c", script, name)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	first, _, _ := strings.Cut(want, "\n")
	first = strings.Replace(first, "map 1 ", "map 4 ", 1)
	if want := want + "launch 4 1 1\n" + want + "dependent launch 4 1 1\nlaunch 4 1 1\n" + first + "\n WRONG\n"; err != nil || string(out) != want {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}

// TestEven holds, in C and in Python, how much shared memory dependent launches take for blocks to be spread evenly.
func TestEven(t *testing.T) {
	python := need.Jupyter(t)
	dir := t.TempDir()
	if _, err := Write(dir, decode(t, template.Schedule{Splits: 1, Warps: 2, PDL: true}), Options{}); err != nil {
		t.Fatal(err)
	}
	// (233472/3 − 1024 + 128)/128·128 − 512, and of four blocks and of two. One for each multiprocessor, and what does not fit at once, is left as it is.
	want := "4 blocks 0\nset 8 76416\n6 blocks 76416\n10 blocks 56960\n6 blocks 76416\n20 blocks 0\n10 blocks 56960\nset 8 115328\n3 blocks 115328\n10 blocks 0\n"
	if out, err := run(t, dir, "even.c"); err != nil || string(out) != want {
		t.Errorf("C: %v: %s, want %s", err, out, want)
	}
	script := `import decode_u4_f16 as k

class Driver:
    def cuCtxGetCurrent(self, context):
        context._obj.value = 1
        return 0

    def cuCtxGetDevice(self, to):
        to._obj.value = 6
        return 0

    def cuDeviceGetAttribute(self, to, what, device):
        to._obj.value = {16: 4, 81: 233472, 97: 232448, 111: 1024}[what]
        return device - 6

    def cuFuncGetAttribute(self, to, what, function):
        to._obj.value = 512
        return what - 1

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, to, function, threads, shared):
        to._obj.value = 5
        return threads - 64 + shared.value

    def cuFuncSetAttribute(self, function, what, value):
        print("set", what, value)
        return 0

    def cuLaunchKernel(self, function, x, y, z, bx, by, bz, shared, *all):
        print(x * y * z, "blocks", shared)
        return 0

    def cuLaunchKernelEx(self, config, function, pointers, extra):
        c = config._obj
        print(c.x * c.y * c.z, "blocks", c.shared)
        return 0

driver = Driver()
k._driver = lambda: driver
k._function = lambda context: 7
for n in 128, 192, 320, 192, 640, 320, 96:
    k.launch(256, 512, 768, 1024, 1, n, 256, 0.5, stream=5, dependent=True)
k.launch(256, 512, 768, 1024, 1, 320, 256, 0.5, stream=5)
`
	cmd := exec.Command(python, "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
		t.Errorf("Python: %v: %s, want %s", err, out, want)
	}
}

// TestRefused holds programs that files cannot launch.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	p, err := text.Parse("allocate_global.tile", corpus.Program("allocate_global"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir, p, Options{}); err == nil || !strings.Contains(err.Error(), "workspace") {
		t.Errorf("a program with a workspace: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) > 0 {
		t.Error("files are written")
	}
}
