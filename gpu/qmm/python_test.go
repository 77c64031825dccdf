package qmm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tilus-lab/tilus-lab/gpu/qmm/template"
	"github.com/tilus-lab/tilus-lab/tests/need"
	"github.com/tilus-lab/tilus-lab/vm/array"
	"github.com/tilus-lab/tilus-lab/vm/dtype"
	"github.com/tilus-lab/tilus-lab/vm/ir"
)

// TestPython has Python import modules of layers beside launches that take what programs take, and multiply as many rows of x
// as each product is for. Sums that blocks have for each other fit what modules make for them.
func TestPython(t *testing.T) {
	python := need.Jupyter(t)
	script := `import builtins, importlib, symtable, sys
from unittest.mock import MagicMock
torch = sys.modules["torch"] = MagicMock()
torch.nn.Module = object
torch.cuda.get_device_properties.return_value.multi_processor_count = 133
layer, bias = importlib.import_module("linear_" + sys.argv[1]), MagicMock()
assert [p.to for p in layer.PRODUCTS] == sorted({p.to for p in layer.PRODUCTS}), layer.PRODUCTS
for p in layer.PRODUCTS:
    x = MagicMock()
    x.__len__.return_value = p.to
    p.run(x, MagicMock(), ("w", "s", "z")[: int(sys.argv[2])], *[bias] * int(sys.argv[4]), ("part", "arrived") if p.counts else (), (1.0,)[: int(sys.argv[3])], False)
    assert layer.product(p.to) is p and p.most % 128 == 0, p.name
    program = sys.modules[p.name + "_of"]
    if int(sys.argv[4]) and p.name != "expand":
        assert program.given["bias"] is bias, program.given
assert layer.product(1) is layer.PRODUCTS[0] and layer.product(1 << 20) is layer.PRODUCTS[-1]
# What functions read and do not set is there: nothing runs most of them without torch.
def functions(table):
    yield from [table] * (table.get_type() == "function")
    for inner in table.get_children():
        yield from functions(inner)
for f in functions(symtable.symtable(open(layer.__file__).read(), layer.__file__, "exec")):
    missing = [n for n in f.get_globals() if not hasattr(layer, n) and not hasattr(builtins, n)]
    assert not missing, (f.get_name(), missing)
if int(sys.argv[5]):
    x, order = MagicMock(), MagicMock()
    x.__len__.return_value = 3
    y, given = layer._gather(x, order), sys.modules["gather_of"].given
    assert given["x"] is x and given["order"] is order and given["y"] is y and given["M"] == 3 and given["K"] == layer.K, given
for state in ({"layer": "another"}, {}):
    try:
        layer.Linear.__new__(layer.Linear).set_extra_state(state)
        raise SystemExit("the state of another layer is loaded")
    except ValueError as e:
        assert layer.LAYER in str(e), e
stored, made = MagicMock(), MagicMock()
sys.modules["safetensors"], sys.modules["safetensors.torch"] = MagicMock(), stored
layer.Linear = made
parts = stored.load_file.return_value = {name: MagicMock() for name in ("codes", "scales", "zeros", "factor")}
layer.load("w.safetensors")
assert torch.arange.called == int(sys.argv[5]) and (not int(sys.argv[5]) or torch.arange.return_value in made.call_args.args), made.call_args
assert made.call_args.args[:2] == (parts["codes"], parts["scales"]) and made.call_args.kwargs == ({"bias": None} if int(sys.argv[4]) else {}), made.call_args
parts["order"] = order = MagicMock()
try:
    layer.load("w.safetensors")
    assert int(sys.argv[5]) and order in made.call_args.args, made.call_args
except ValueError as e:
    assert not int(sys.argv[5]) and "w.safetensors has an order of inputs, and the layer takes x as it comes" in str(e), e
if not int(sys.argv[5]):
    del parts["order"]
parts["bias"] = bias
try:
    layer.load("w.safetensors")
    assert int(sys.argv[4]) and made.call_args.kwargs == {"bias": bias}, made.call_args
except ValueError as e:
    assert not int(sys.argv[4]) and "w.safetensors has a bias, and the layer adds none" in str(e), e
`
	plans := map[string]int{}
	for _, target := range []string{"sm_90a", "sm_80"} {
		for i, text := range append(Presets(), "i4", "u3 zero group=64", "f6e3m2 group=channel act=bf16", "f8e7m0", "u1 scale=bf16", "u4 zero=any", "mxfp4 far", "i4 group=32 rounded", "u4 zero group=64 scalebits=4", "nvfp4 act=bf16", "mxfp4 scalebits=1") {
			l, bias, ordered := kind(t, text, 512, 1024), i%2 == 1, i%3 == 1
			e, err := l.Export("of", target, Extra{Bias: bias, Order: ordered}, 1, 8, 16, 32, 64, 128, 256, 4096)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			dir := t.TempDir()
			weights, factors, biases, orders := "2", "0", "0", "0"
			if l.ZeroPoint {
				weights = "3"
			}
			if l.Factor {
				factors = "1"
			}
			if bias {
				biases = "1"
			}
			if ordered {
				orders = "1"
			}
			files := map[string]string{e.Name: string(e.Python)}
			for _, p := range e.Programs {
				var names []string
				for _, v := range p.Params {
					names = append(names, v.Name)
				}
				files[p.Name] = fmt.Sprintf("def launch(%s, stream=None, dependent=False):\n    global given\n    given = locals()\n", strings.Join(names, ", "))
				plans[target+" "+strings.TrimRight(strings.TrimSuffix(p.Name, "_of"), "0123456789")]++
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name+".py"), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(python, "-c", script, "of", weights, factors, biases, orders)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s for %s: %v\n%s", text, target, err, out)
			}
		}
	}
	for _, want := range []string{"sm_90a decode", "sm_90a arrange", "sm_90a wide", "sm_90a prefill", "sm_90a expand", "sm_80 decode"} {
		if plans[want] == 0 {
			t.Errorf("no module has %s: %v", want, plans)
		}
	}
	if plans["sm_80 wide"]+plans["sm_80 prefill"] > 0 {
		t.Errorf("modules for sm_80 have %v", plans)
	}
	if _, err := kind(t, "u4", 512, 1024).Export("of", "sm_90a", Extra{}); err == nil {
		t.Error("a module for no number of rows")
	}
}

// TestExportedRoom holds the room that modules make for sums, which is so much for each block of rows.
func TestExportedRoom(t *testing.T) {
	shares := 0
	for _, text := range []string{"u1", "u2", "i4", "f6e3m2", "u8", "nvfp4", "mxfp4 far", "u4 zero group=64"} {
		for _, size := range [][2]int{{57344, 8192}, {8192, 28672}, {8192, 8192}, {200, 330}, {9, 7}} {
			l := kind(t, text, size[0], size[1])
			p, err := template.PlanOf(l.Form())
			if err != nil {
				t.Fatal(err)
			}
			m := &module{Linear: l, plan: p, name: "of", by: map[string]*ir.Program{}}
			from := 1
			for _, to := range []int{1, 2, 8, 16, 24, 32, 64, 128, 256, 4096} {
				c, _, err := m.choose("sm_90a", from, to, Call{})
				if err != nil {
					t.Fatal(err)
				}
				out := exportedProduct{Choice: c, To: to, Rows: 1}
				if err := m.product(&out); err != nil {
					t.Fatal(err)
				}
				for rows := from; rows <= to; rows += 1 + rows/3 {
					var part []int
					var counts int
					switch c.Plan {
					case Decode:
						if c.Schedule.Shares() {
							part, counts = c.Schedule.Workspace(p, rows, l.N)
						}
					case Wide, Prefill:
						if c.Wide.Shares() {
							part, counts = c.Wide.Workspace(p, rows, l.N)
						}
					}
					if out.Shares() != (counts > 0) {
						t.Errorf("%s %v, %d rows, %s: shares %v", text, size, rows, c, out.Shares())
					}
					if counts == 0 {
						continue
					}
					shares++
					blocks := (rows + out.Rows - 1) / out.Rows
					if got := out.Once + out.Each*blocks; got < elements(part) || got > max(2*elements(part), out.Once+out.Each) || out.Counts*blocks != counts {
						t.Errorf("%s %v, %d rows, %s: room for %d sums and %d counts; blocks have %v and %d", text, size, rows, c, got, out.Counts*blocks, part, counts)
					}
				}
				widest := max(l.N, l.K)
				if c.Plan == Wide || c.Plan == Prefill { // x in their order has whole turns of k
					arranged, _ := p.Arranged(1, l.K)
					widest = max(widest, arranged[1])
				}
				if all := float64(out.Once) + float64(out.Each)*float64(out.Most/out.Rows); all > math.MaxInt32 || float64(out.Most)*float64(widest) > math.MaxInt32 || out.Most < 128 {
					t.Errorf("%s %v, %s: launches of %d rows, with %.0f sums", text, size, c, out.Most, all)
				}
				from = to + 1
			}
		}
	}
	if shares < 100 {
		t.Errorf("blocks have sums for each other %d times", shares)
	}
}

// TestPythonGroups holds that modules pad K to groups that K fills, not to one that is much larger.
func TestPythonGroups(t *testing.T) {
	for text, want := range map[string]string{"i4 group=1048576": "GROUP = 64 ", "i4 group=channel": "GROUP = 64 ", "i4 group=32": "GROUP = 32 "} {
		e, err := kind(t, text, 16, 64).Export("of", "sm_90a", Extra{}, 1)
		if err != nil || !strings.Contains(string(e.Python), "\n"+want) {
			t.Errorf("%s: %v, no %q", text, err, want)
		}
	}
}

// TestPythonQuantises has modules quantise with torch, where there is one, as Quantize does: about as
// well, with as many bits of scales as it takes for usual weights. No product is run.
func TestPythonQuantises(t *testing.T) {
	python := need.Jupyter(t)
	if exec.Command(python, "-c", "import torch").Run() != nil {
		if python = os.Getenv("TILUS_TORCH"); python == "" {
			t.Skip("no torch; TILUS_TORCH names a Python that has one")
		}
	}
	const n, k = 40, 344
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
	script := `import contextlib, importlib, inspect, math, sys, numpy, torch
biased, shuffled = [], []
for name in sys.argv[1:]:
    layer = importlib.import_module(name)
    w = torch.from_numpy(numpy.load(name + ".npy"))
    order = (torch.randperm(layer.K).to(torch.int32),) if hasattr(layer, "_gather") else ()
    if order:  # of which the groups are Go's
        w = w.index_copy(1, order[0].long(), w)
    parts = layer.quantized(w, *order)
    assert parts[1].dtype == layer.SCALE and parts[1].shape == (layer.GROUPS, layer.N), parts[1]
    off = ((layer.dequantize(*parts) - w).norm() / w.norm()).item()
    # Of weights of which many lie in the middle of two codes, codes are Go's where scales are.
    ties, codes, scales = (torch.from_numpy(numpy.load(name + what + ".npy")) for what in ("_ties", "_codes", "_scales"))
    if order:
        ties = ties.index_copy(1, order[0].long(), ties)
    made = layer.quantized(ties, *order)
    same = layer._plain(made[1]) == scales
    wrong = (made[0] != codes) & same[torch.arange(layer.K) // layer.GROUP].T
    assert same.any() and not wrong.any(), (name, same.double().mean(), wrong.sum(), ties[wrong], made[0][wrong], codes[wrong])
    print(name, off, same.double().mean().item())
    for wrong in (w.T, w + float("nan")):
        try:
            layer.quantized(wrong, *order)
            print("takes", wrong)
        except ValueError:
            pass
    # Weights of sizes that Go refuses, and no others, are refused.
    for size, refused in numpy.load(name + "_sizes.npy"):
        try:
            sized = layer.quantized(w.double() * size, *order)
            assert not refused, (name, size, layer.dequantize(*sized).abs().max())
        except ValueError as e:
            assert refused and ("would be" in str(e) or "want a scale of" in str(e)), (name, size, e)
    if hasattr(layer, "_exact"):
        assert layer._exact(*parts), name
        powers = all(v != v or abs(math.frexp(v)[0]) in (0, 0.5) for v in layer.VALUES)  # of two, or 0
        assert parts[1].dtype != layer.ACT or layer.BITS < 3 or powers or "rounded" in layer.LAYER or not layer._exact(parts[0], (parts[1].double() * 1.01).to(parts[1].dtype), *parts[2:]), name
    # What the programs take, and what not.
    if hasattr(layer, "_held"):
        codes, scales, *rest = [p for p in parts if not order or p is not order[0]]
        bits = lambda a: a.view(torch.uint8)
        assert torch.equal(bits(layer._held(codes, scales, *rest)), bits(scales))
        large = torch.full_like(bits(scales), 254).view(scales.dtype) if scales.element_size() == 1 else torch.full_like(scales, torch.finfo(scales.dtype).max)
        try:
            print("takes", layer._held(codes, large, *rest).max())
        except ValueError as e:
            assert "export the layer " in str(e), e
        if scales.dtype == torch.float8_e8m0fnu:
            large = torch.cat([scales.view(torch.uint8)[:, :3], bits(large)[:, 3:4], bits(scales)[:, 4:]], 1).view(scales.dtype)
            assert (bits(layer._held(codes, large, *rest))[:, 3] == 127).all() and not torch.equal(bits(large), bits(scales)), large
    # What torch.compile asks of a product, and a product of it.
    m = torch.nn.Module.__new__(layer.Linear)
    torch.nn.Module.__init__(m)
    m.packed, m.scales, m.zeros, m.bias, m.order, m.factor, m.exact, m.dependent = [torch.zeros(1, device="meta")] * 5 + [1.0, True, False]
    x = torch.empty(2, 3, layer.K, dtype=layer.ACT, device="meta")
    for product in (m, torch.compile(m, backend="eager", fullgraph=True)):
        y = product(x)
        assert y.shape == (2, 3, layer.N) and y.dtype == layer.ACT and y.device.type == "meta", y
    # A bias is kept as it is, in memory of its own, and is 0 where there is none.
    if "bias" in inspect.signature(layer.quantize).parameters:
        try:
            print("takes", layer.quantize(w, *order))
        except ValueError as e:
            assert "on cpu; a layer packs" in str(e), e
        torch.cuda.device = contextlib.nullcontext
        torch.Tensor.is_cuda = True  # as a GPU's would be
        bias = torch.randn(2 * layer.N)[::2]
        kept = layer.quantize(w, *order, bias).float().bias
        assert torch.equal(kept.view(layer.ACT), bias.to(layer.ACT)) and kept.is_contiguous(), kept
        kept = layer.quantize(w, *order).bias
        assert kept.shape == (layer.N,) and not kept.any(), kept
        for wrong in (bias.double(), bias[1:].to(layer.ACT), bias.to(layer.ACT)[None]):
            try:
                print("takes", layer.Linear(*parts, bias=wrong).bias)
            except ValueError as e:
                assert "the bias is" in str(e), e
        # An order is kept, and others are refused.
        for i, wrong in enumerate((order[0], order[0].long(), order[0][1:], order[0][None], torch.where(order[0] == 3, 4, order[0]), order[0] - 1, order[0] + 1) if order else ()):
            try:
                kept = layer.quantize(w, order[0]).float().order if i == 0 else layer.Linear(*(wrong if p is order[0] else p for p in parts)).order
                assert i == 0 and torch.equal(kept, order[0]), kept
                shuffled.append(name)
            except ValueError as e:
                assert i > 0 and "the order is torch.int" in str(e), e
            for takes in (lambda: layer.quantized(w, wrong), lambda: layer.dequantize(*(wrong if p is order[0] else p for p in parts))):
                try:
                    takes()
                    assert i == 0, wrong
                except ValueError as e:
                    assert i > 0 and "the order is torch.int" in str(e), e
        del torch.Tensor.is_cuda
        biased.append(name)
    of = torch.arange(layer.N * layer.GROUPS, dtype=torch.int16).reshape(layer.GROUPS, layer.N)
    kept = layer._ordered(of.view(torch.float16))
    assert not kept.is_floating_point() and set(of.flatten().tolist()) <= set(kept.flatten().tolist()), kept
assert len(biased) == (len(sys.argv) - 1) // 2, biased  # each second one
assert shuffled
`
	args, exact := []string{"-c", script}, 0
	type expected struct {
		off    float64
		scales bool // all but a few, whose errors' squares are the same but for the order in which they are added up
		kind   string
	}
	want, refused := map[string]expected{}, map[bool]bool{}
	for i, text := range append(Presets(), "i4", "u3 zero group=64", "f6e3m2 group=channel act=bf16", "u1 scale=bf16", "u4 zero group=16 scale=f8e4m3 factor", "i5 scale=f8e8m0", "u4 zero scale=f8e8m0 group=32", "f8e4m3 scale=bf16 factor", "f3e1m1 scale=f8e4m3 group=16 factor", "i4 group=32 rounded", "u4 zero=any group=64 rounded", "i4 group=32 scalebits=4", "u4 zero group=64 scalebits=5", "mxfp4 scalebits=1",
		"f8e5m2", "f6e5m0", "f4e3m0", "mxfp4 factor", "i4 scale=bf16 factor act=bf16", "i4 scalebits=24", "u4 zero scalebits=24", "nvfp4 scalebits=1", "nvfp4 scalebits=2 act=bf16", "f8e6m1", "f7e6m0 group=32 scalebits=3", "i4 scalebits=1", "f4e2m1 group=16 scale=f8e4m3 scalebits=1") {
		l := kind(t, text, n, k)
		e, err := l.Export(strconv.Itoa(i), "sm_90a", Extra{Bias: i%2 == 1, Order: i%3 == 1}, 16, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.Python), "def _exact(") {
			exact++
		}
		name := e.Name
		for _, p := range e.Programs {
			if err := os.WriteFile(filepath.Join(dir, p.Name+".py"), []byte("def launch(*all):\n    pass\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		plain := w
		if text == "u1 scale=bf16" {
			plain = positive
		}
		if p, err := template.PlanOf(l.Form()); err == nil && (p.Bounded() || l.Form().Expands(l.ScaleBits)) != strings.Contains(string(e.Python), "def _held(") {
			t.Errorf("%s: looks at scales: %v", text, p.Bounded() || l.Form().Expands(l.ScaleBits))
		}
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name+".py"), e.Python, 0o644), plain.Save(filepath.Join(dir, name+".npy"))); err != nil {
			t.Fatal(err)
		}
		q, err := l.Quantize(t.Context(), plain)
		if err != nil {
			t.Fatal(err)
		}
		sizes := []float64{1e-300, 1e-50, 1e-44, 1e-41, 1e-9, 1e-5, 700, 900, 1e5, 1.3e5, 1e20, 1e38, 1e50, 1e290}
		table := array.New(dtype.F64, len(sizes), 2)
		for i, size := range sizes {
			sized := array.New(dtype.F64, n, k)
			for i, v := range plain.Floats() {
				sized.Set(size*v, i/k, i%k)
			}
			table.Set(size, i, 0)
			if _, err := l.Quantize(t.Context(), sized); err != nil {
				table.Set(1, i, 1)
				refused[size < 1] = true
			}
		}
		if err := table.Save(filepath.Join(dir, name+"_sizes.npy")); err != nil {
			t.Fatal(err)
		}
		args, want[name] = append(args, name), expected{off: array.RelFro(dequantized(t, q), plain), kind: text}
		ties := array.New(dtype.F32, n, k)
		for i, v := range plain.Floats() {
			ties.Set(math.RoundToEven(v*64)/64, i/k, i%k)
		}
		if q, err = l.Quantize(t.Context(), ties); err != nil {
			t.Fatal(err)
		}
		is := want[name]
		is.scales = l.ScaleBits > 0 || l.Usual().ScaleBits == q.ScaleBits
		want[name] = is
		codes, scales := array.New(dtype.U8, n, k), array.New(dtype.F64, q.Groups(), n)
		for i := range n * k {
			codes.Data[i] = byte(q.Codes.Code(i))
		}
		for i := range q.Groups() * n {
			scales.Set(q.ScaleType.Decode(q.Scales.Code(i)), i/n, i%n)
		}
		if err := errors.Join(ties.Save(filepath.Join(dir, name+"_ties.npy")), codes.Save(filepath.Join(dir, name+"_codes.npy")), scales.Save(filepath.Join(dir, name+"_scales.npy"))); err != nil {
			t.Fatal(err)
		}
	}
	if len(refused) != 2 {
		t.Errorf("weights that are too small and too large are refused: %v", refused)
	}
	if exact < 2 {
		t.Errorf("%d modules look whether plain weights are exact", exact)
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
		var off, same float64
		_, err := fmt.Sscan(line, &name, &off, &same)
		is := want[name]
		if err != nil || !(math.Abs(off/is.off-1) < 0.06) {
			t.Errorf("%s: %s: weights are off by %.4g of their norm when Go quantises them", line, is.kind, is.off)
		}
		if t.Logf("%s: %.3f of all scales are Go's", is.kind, same); is.scales && same < 0.97 {
			t.Errorf("%s: %.3f of all scales are Go's", is.kind, same)
		}
	}
}
