package qmm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
)

// TestPython has Python read modules of layers.
func TestPython(t *testing.T) {
	python := need.Jupyter(t)
	for _, text := range append(Presets(), "i4", "u3 zero group=64", "f6e3m2 group=channel act=bf16", "f8e7m0", "u1 scale=bf16") {
		l := kind(t, text, 200, 330).Module()
		s, err := l.ChoosePlain(2)
		if err != nil {
			t.Fatal(err)
		}
		data, err := l.Python("linear", "pack", "decode", s)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		cmd := exec.Command(python, "-c", "import ast, sys; ast.parse(sys.stdin.read())")
		cmd.Stdin = strings.NewReader(string(data))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", text, err, out)
		}
	}
	for _, s := range []template.Schedule{{Stages: 4, Blocks: 132}, {Parts: 4, Splits: 2, Joint: true}} {
		if _, err := kind(t, "u4", 200, 330).Python("linear", "pack", "decode", s); err == nil || !strings.Contains(err.Error(), "ChoosePlain") {
			t.Errorf("a module launches %s: %v", s, err)
		}
	}
}

// TestPythonQuantises has modules quantise with torch, where there is one, as Quantize does: about as
// well, with the scales that it has before they are made to have fewer bits. No product is run.
func TestPythonQuantises(t *testing.T) {
	python := need.Jupyter(t)
	if exec.Command(python, "-c", "import torch").Run() != nil {
		if python = os.Getenv("TILUS_TORCH"); python == "" {
			t.Skip("no torch; TILUS_TORCH names a Python that has one")
		}
	}
	const n, k = 40, 330
	dir := t.TempDir()
	w := normal(dtype.F32, 8, n, k)
	for i := range n {
		w.Set(0, i, 17) // and a group that is 0
		if i == 3 {
			for j := range k {
				w.Set(0, i, j)
			}
		}
	}
	positive := array.New(dtype.F32, n, k)
	for i, v := range w.Floats() {
		positive.Set(math.Abs(v), i/k, i%k)
	}
	stub := "def launch(*all):\n    pass\n"
	for name, data := range map[string]string{"pack.py": stub, "decode.py": stub} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script := `import importlib, sys, numpy, torch
for name in sys.argv[1:]:
    layer = importlib.import_module(name)
    w = torch.from_numpy(numpy.load(name + ".npy"))
    parts = layer.quantized(w)
    assert parts[1].dtype == layer.SCALE and parts[1].shape == (layer.GROUPS, layer.N), parts[1]
    print(name, ((layer.dequantize(*parts) - w).norm() / w.norm()).item())
    for wrong in (w.T, w + float("nan")):
        try:
            layer.quantized(wrong)
            print("takes", wrong)
        except ValueError:
            pass
    # What torch.compile asks of a product, and a product of it.
    m = torch.nn.Module.__new__(layer.Linear)
    torch.nn.Module.__init__(m)
    m.packed, m.scales, m.zeros, m.factor, m._layer = [torch.zeros(1, device="meta")] * 3 + [1.0, 0]
    x = torch.empty(2, 3, layer.K, dtype=layer.ACT, device="meta")
    for product in (m, torch.compile(m, backend="eager", fullgraph=True)):
        y = product(x)
        assert y.shape == (2, 3, layer.N) and y.dtype == layer.ACT and y.device.type == "meta", y
    of = torch.arange(layer.N * layer.GROUPS, dtype=torch.int16).reshape(layer.GROUPS, layer.N)
    kept = layer._ordered(of.view(torch.float16))
    assert not kept.is_floating_point() and set(of.flatten().tolist()) <= set(kept.flatten().tolist()), kept
`
	args := []string{"-c", script}
	want := map[string]float64{}
	for i, text := range append(Presets(), "i4", "u3 zero group=64", "f6e3m2 group=channel act=bf16", "u1 scale=bf16", "u4 zero group=16 scale=f8e4m3 factor", "i5 scale=f8e8m0", "u4 zero scale=f8e8m0 group=32", "f8e4m3 scale=bf16 factor", "f3e1m1 scale=f8e4m3 group=16 factor") {
		l := kind(t, text, n, k).Module()
		l.ScaleBits = dtype.F32.Row().Man + 1 // all there are
		s, err := l.ChoosePlain(2)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("linear%d", i)
		data, err := l.Python(name, "pack", "decode", s)
		if err != nil {
			t.Fatal(err)
		}
		plain := w
		if text == "u1 scale=bf16" {
			plain = positive
		}
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name+".py"), data, 0o644), plain.Save(filepath.Join(dir, name+".npy"))); err != nil {
			t.Fatal(err)
		}
		q, err := l.Quantize(plain)
		if err != nil {
			t.Fatal(err)
		}
		args, want[name] = append(args, name), array.RelFro(q.Dequantize(), plain)
	}
	cmd := exec.Command(python, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(want) {
		t.Errorf("%s", out)
	}
	for _, line := range lines {
		var name string
		var off float64
		if _, err := fmt.Sscan(line, &name, &off); err != nil || !(math.Abs(off/want[name]-1) < 0.03) {
			t.Errorf("%s: weights are off by %.4g of their norm when Go quantises them", line, want[name])
		}
	}
}
