"""Runs layers that `tilus-lab export --qmm` wrote against torch, on the GPU and without Go.

    tilus-lab export --qmm "u4 zero" --size 8192x8192 -o build/u4
    python3 tests/peers/export_check.py build/* --commit COMMIT -o tests/record/export.json

Each folder has one layer. Random weights are quantised by the module itself, and y is held to what torch makes of the same weights in
float64, called as torch.nn.Module, by torch.compile, as torch.ops.tilus_lab.…, in a CUDA graph, one behind the other and dependent, and, of
the plan decode, as a program through addresses and a stream of the driver. Of layers that take an order of their
inputs, that of the weights in the folder or a random one is taken. A folder with layer.so, which is export_layer.c with the
layer's C header, is multiplied by that too. One with weights, of `export --weights`, is of these, which the module's load reads as well.
With --times graphs of products by several layers, one behind the other, are timed beside torch's of plain weights in 16 bits.
--header FOLDER also runs FOLDER/header, which is export_header.c with what `export` wrote there. Needs torch and a GPU.
"""

import argparse
import concurrent.futures
import ctypes
import datetime
import glob
import hashlib
import importlib
import inspect
import json
import os
import re
import subprocess
import sys


def errors(got, want, torch):
    return ((got.double() - want).norm() / want.norm()).item()


def weights(layer, torch):
    """Arguments of Linear but for a factor, the weights that it multiplies with, in float64, and the factor, if there is one."""
    if path := stored(layer):
        parts = tensors_of(path, torch)
        parts = [parts[name].cuda() for name in ("codes", "scales", "zeros", "order") if name in parts] + [parts[name].item() for name in ("factor",) if name in parts]
    else:
        w = torch.randn(layer.N, layer.K, device="cuda") * 0.02
        if min(layer.VALUES) >= 0 and "zeros" not in inspect.signature(layer.Linear).parameters:
            w = w.abs()  # codes without a sign or zero points
        parts = layer.quantized(w, *[torch.randperm(layer.K, device="cuda").to(torch.int32)] * hasattr(layer, "_gather"))
    tensors = [p for p in parts if hasattr(p, "shape")]
    return tensors, layer.dequantize(*parts), parts[len(tensors) :]


def stored(layer):
    """The file of weights that `export` wrote beside the module, or None."""
    path = layer.__file__[: -len("py")] + "safetensors"
    return path if os.path.exists(path) else None


def tensors_of(path, torch):
    """The tensors of a .safetensors file, read without the library that the module's load takes."""
    types = {"U8": torch.uint8, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F8_E4M3": torch.float8_e4m3fn, "F8_E8M0": torch.float8_e8m0fnu, "I32": torch.int32}
    with open(path, "rb") as f:
        said = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    out = {}
    for name, of in said.items():
        if name != "__metadata__":
            begin, end = of["data_offsets"]
            out[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8).view(types[of["dtype"]]).reshape(of["shape"])
    return out


def biased(layer, torch, parts, factor):
    """A bias, 0 for a layer without one, and the layer."""
    bias = torch.randn(layer.N, device="cuda").to(layer.ACT)
    if "bias" in inspect.signature(layer.Linear).parameters:
        return bias, layer.Linear(*parts, *factor, bias=bias)
    return torch.zeros_like(bias), layer.Linear(*parts, *factor)


def load(folder):
    sys.path.insert(0, folder)
    (name,) = [os.path.basename(f)[:-3] for f in glob.glob(os.path.join(folder, "linear_*.py"))]
    return importlib.import_module(name)


class ByHeader:
    """A layer by its C header, in layer.so. Weights are those of a module; all is queued on a stream of its own."""

    def __init__(self, folder, layer, parts, factor, bias, rows, torch):
        ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)  # whose functions layer.so takes
        self.layer = lib = ctypes.CDLL(os.path.abspath(os.path.join(folder, "layer.so")))
        i64, u64, pointer = ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p
        lib.layer_order.argtypes = [pointer, pointer, pointer, pointer, ctypes.c_float, pointer, pointer, pointer]
        lib.layer_load.argtypes = [ctypes.POINTER(pointer), i64]
        lib.layer_unload.argtypes = [pointer]
        lib.layer_pack.argtypes = [pointer, pointer, u64, u64]
        lib.layer_workspace.argtypes, lib.layer_workspace.restype = [i64], u64
        lib.layer_run.argtypes = [pointer, pointer, u64, u64, u64, u64, u64, ctypes.c_float, u64, u64, i64, u64, ctypes.c_int]
        n, k, most, *self.sizes = (i64 * 10).in_dll(lib, "layer_sizes")
        if (n, k) != (layer.N, layer.K) or not rows <= most:
            raise RuntimeError(f"{folder}: layer.so is of {n}×{k}, up to {most} rows")
        text = open(os.path.join(folder, layer.__name__ + ".h")).read()
        self.products = [(int(to), name) for to, name in re.findall(r"^\t\{ (\d+), .*\}, /\* (\w+): ", text, re.M)]
        self.factor = factor[0] if factor else 1.0
        self.bias = bias
        self.inputs = parts[-1] if hasattr(layer, "_gather") else torch.empty(0, dtype=torch.int32, device="cuda")
        dense, *ordered = self.order(parts, torch)
        self.scales, self.zeros = (a.cuda() for a in ordered)
        self.packed = torch.full([self.sizes[4]], 255, dtype=torch.uint8, device="cuda")
        dense = dense.cuda()
        self.stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        self.load(rows, torch)
        self.call("pack", self.loaded, self.stream.cuda_stream, dense.data_ptr(), self.packed.data_ptr())
        self.stream.synchronize()

    def call(self, what, *args):
        if code := getattr(self.layer, "layer_" + what)(*args):
            raise RuntimeError(f"layer_{what} of {self.layer._name}: error {code} of the driver")

    def order(self, parts, torch):
        """Dense codes, scales and zero points, ordered on the host. Bytes stand behind each, to see that no more is written than the header says."""
        behind = 64
        inputs = self.inputs.cpu()
        parts = [p.contiguous().cpu().view(torch.uint8).flatten() for p in parts[: -1 if len(inputs) else None]]
        if [p.numel() for p in parts] != [n for n in self.sizes[:3] if n]:
            raise RuntimeError(f"weights are {[p.numel() for p in parts]} bytes, those of the header {self.sizes[:3]}")
        to = [torch.full([n + behind], 0xA5, dtype=torch.uint8) for n in (self.sizes[3], *self.sizes[5:])]
        self.call("order", *[p.data_ptr() for p in parts], *[None] * (3 - len(parts)), inputs.data_ptr(), self.factor, *[t.data_ptr() for t in to])
        if any((t[-behind:] != 0xA5).any() for t in to):
            raise RuntimeError("layer_order wrote behind its outputs")
        return [t[:-behind] for t in to]

    def load(self, rows, torch):
        """Loads programs anew, for products of up to so many rows."""
        self.unload()
        self.loaded = ctypes.c_void_p()
        self.call("load", ctypes.byref(self.loaded), rows)
        self.space = torch.zeros(max(self.layer.layer_workspace(rows), 1), dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()

    def unload(self):
        if getattr(self, "loaded", None):
            self.stream.synchronize()
            self.call("unload", self.loaded)
            self.loaded = None

    def off(self, module, torch):
        """How many bytes of ordered scales and zero points, and of packed weights, are others than those of the module."""
        pairs = [(self.packed, module.packed), (self.scales, module.scales), *([(self.zeros, module.zeros)] if hasattr(module, "zeros") else [])]
        pairs = [(a, b.view(torch.uint8).flatten()) for a, b in pairs]
        return sum((a != b).sum().item() if a.shape == b.shape else max(len(a), len(b)) for a, b in pairs), sum(len(a) for a, _ in pairs)

    def program(self, m):
        return next(name for to, name in self.products if m <= to)

    def run(self, x, y, dependent=False):
        self.call("run", self.loaded, self.stream.cuda_stream, self.packed.data_ptr(), self.scales.data_ptr(), self.zeros.data_ptr(), self.bias.data_ptr(), self.inputs.data_ptr(), self.factor,
            x.data_ptr(), y.data_ptr(), len(x), self.space.data_ptr(), dependent)  # fmt: skip


def row(what, folder, layer, module, m, commit, torch, program=None, **more):
    kind = layer.__doc__.split(", ")[1]
    if hasattr(module, "bias"):
        kind += " bias"
    if hasattr(module, "order"):
        kind += " order"
    product = layer.product(m)
    name = program or ("expand" if getattr(product, "expands", False) and module.exact else product.name)
    (path,) = glob.glob(os.path.join(folder, name + "_*.ptx"))
    return {
        "what": what, "name": f"{kind}, {layer.N}×{layer.K}, {m} rows", "hash": hashlib.sha256(open(path, "rb").read()).hexdigest()[:24],
        "gpu": torch.cuda.get_device_name(), "driver": f"torch {torch.__version__}", "target": "sm_90a", "commit": commit,
        "utc": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "kind": kind, "m": m, "n": layer.N, "k": layer.K, "program": name, "cubin": os.path.exists(path[:-3] + "cubin"), **more,
    }  # fmt: skip


def check(folder, commit):
    import torch

    layer = load(folder)
    torch.manual_seed(1)
    parts, w, factor = weights(layer, torch)
    bias, module = biased(layer, torch, parts, factor)
    operator = getattr(torch.ops.tilus_lab, layer.__name__)
    rows, held = [], {}
    counts = [1, 3, 16, 33, 64, 200, 2049]
    c = ByHeader(folder, layer, parts, factor, bias, max(counts), torch) if os.path.exists(os.path.join(folder, "layer.so")) else None
    few = [24, 100] if c else []  # that are called in few ways, so that all programs of the header are
    read = layer.load(stored(layer)) if stored(layer) and not hasattr(module, "bias") else None  # its bias is 0
    if c:
        off, of = c.off(module, torch)
        r = row("export", folder, layer, module, 1, commit, torch, program="pack", result="equal" if not off else "other weights than the module's", differ=off, of=of, how="C header, weights")
        r["m"], r["name"] = 0, f"{r['kind']}, {layer.N}×{layer.K}, weights by the C header"
        rows.append(r)
        print(f"{r['name']}: {off} of {of} bytes differ from the module's", flush=True)

    def hold(y, m, how, wants, f32, other="", program=None):
        """A row of a product; other says what is wrong with it but for its error."""
        error = min(errors(y, want, torch) for want in wants)
        good = error <= 1.1 * f32
        r = row("export", folder, layer, module, m, commit, torch, program, result=other or ("equal" if good else f"the error is {error:.3g}, that of f32 sums {f32:.3g}"),
            differ=0 if good and not other else 1, of=y.numel(), how=how, error=error, error_of_f32=error / f32)  # fmt: skip
        r["name"] += ", " + how
        r["cubin"] = r["cubin"] and not program  # headers hold PTX alone
        rows.append(r)
        print(f"{r['name']}: {r['program']}, relative error {error:.2e} against torch in float64, that of f32 sums {f32:.2e}{other and ': ' + other}", flush=True)
        return r

    for m in counts + few:
        x = torch.randn(m, layer.K, device="cuda").to(layer.ACT)
        want = x.double() @ w.T + bias.double()
        wants = [want]
        if " rounded" in layer.__doc__.split(", ")[1]:  # weights may be rounded, and are not with one row and groups apart
            wants.append(x.double() @ w.to(layer.ACT).double().T + bias.double())
        f32 = errors((x.float() @ w.float().T + bias.float()).to(layer.ACT), want, torch)
        if torch.backends.cuda.matmul.allow_tf32:
            sys.exit("products of f32 are of tf32")
        product = layer.product(m)

        def function(y):
            y.copy_(module(x))

        def op(y):
            y.copy_(operator(x, module.packed, module.scales, *([module.zeros] if hasattr(module, "zeros") else []), *([module.bias] if hasattr(module, "bias") else []), *([module.order] if hasattr(module, "order") else []), *factor, *([module.exact] if hasattr(module, "exact") else []), False))

        def graph(y):
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                y.copy_(module(x))
            y.fill_(float("nan"))
            for _ in range(3):
                g.replay()

        def compiled(y):
            y.copy_(torch.compile(module, backend="eager", fullgraph=True)(x))

        def dependent(y):
            module.dependent = True
            for _ in range(4):
                last = module(x)
            module.dependent = False
            y.copy_(last)

        def addresses(y):
            program = importlib.import_module(product.name + layer.__name__[len("linear") :])
            space = layer._space(product, m, x.device) if hasattr(layer, "_space") else ()
            tensors = [module.packed, module.scales, *([module.zeros] if hasattr(module, "zeros") else []), layer._gather(x, module.order) if hasattr(module, "order") else x, *([module.bias] if hasattr(module, "bias") else []), y, *space]
            torch.cuda.synchronize()
            stream = torch.cuda.Stream()
            program.launch(*[t.data_ptr() for t in tensors], m, layer.N, layer.K, *factor, stream=stream.cuda_stream)
            stream.synchronize()

        def header(y):
            c.run(x, y)
            c.stream.synchronize()

        def header_dependent(y):
            before = [torch.full_like(y, float("nan")) for _ in range(3)]
            torch.cuda.synchronize()
            for to in (*before, y):
                c.run(x, to, dependent=True)
            c.stream.synchronize()
            if not all(torch.equal(y, other) for other in before):
                return "products one behind the other have different bits"

        def loaded(y):
            y.copy_(read(x))

        ways = [("torch.nn.Module", function)]
        if m not in few:
            ways += [("torch.compile", compiled), ("torch.ops", op), ("CUDA graph", graph), ("dependent", dependent)]
        if m not in few and product.name.startswith("decode"):
            ways.append(("addresses on a stream of its own", addresses))
        if read:
            ways.append(("load", loaded))
        if c:
            ways += [("C header", header), ("C header, dependent", header_dependent)]
        first, plain = {}, None
        for how, run in ways:
            y = torch.full((m, layer.N), float("nan"), dtype=layer.ACT, device="cuda")
            torch.cuda.synchronize()
            other = run(y) or ""
            torch.cuda.synchronize()
            # Sums are added up in one order, so that a program has the same bits however it is called; machine code of another compiler need not.
            program = c.program(m) if how.startswith("C header") else None
            if how == "load" and not torch.equal(y, first["torch.nn.Module"]):
                other = "other bits than by tensors in memory"
            if how == "C header, dependent" and not torch.equal(y, first["C header"]):
                other = other or "other bits than those of a product alone"
            if program and program == plain and not torch.equal(y, first["torch.nn.Module"]):
                other = other or "other bits than the module's"
            r = hold(y, m, how, wants, f32, other, program)
            first[how] = y
            if how == "torch.nn.Module" and not r["cubin"]:
                plain = r["program"]
        held[m] = x, wants, f32, first.get("C header")
    if c:
        # One workspace for products of different rows, of all that were loaded and then of few, alone and dependent.
        last, others = {}, dict.fromkeys(held, "")
        for most in (max(counts), 64):
            c.load(most, torch)
            for dependent in (False, True):
                turns = [m for m in (33, 1, 200, 1, 24, 2049, 3, 24, 64, 16, 1, 100, 33, 2049, 24, 100, 200, 33, 1, 16) if m <= most]
                ys = [torch.full_like(held[m][3], float("nan")) for m in turns]
                torch.cuda.synchronize()
                for m, y in zip(turns, ys):
                    c.run(held[m][0], y, dependent)
                c.stream.synchronize()
                for i, (m, y) in enumerate(zip(turns, ys)):
                    if not torch.equal(y, held[m][3]):
                        others[m] = others[m] or f"other bits, as product {i}, {'dependent' if dependent else 'alone'}, of what was loaded for {most} rows"
                    last[m] = y
        for m, y in last.items():
            hold(y, m, "C header, different rows in turn", *held[m][1:3], others[m], c.program(m))
        c.unload()
    return rows


def times(folder, commit):
    """Medians of graphs of products by as many layers, and by as many plain weights, as caches do not hold."""
    import torch

    layer = load(folder)
    torch.manual_seed(1)
    parts, w, factor = weights(layer, torch)
    first = layer.Linear(*parts, *factor)
    bytes_ = first.packed.numel() + first.scales.numel() * first.scales.element_size()
    layers = [first] + [layer.Linear(*parts, *factor) for _ in range(max(1, (512 << 20) // bytes_))]
    plain = [w.to(layer.ACT) for _ in range(4)]
    for one in layers:
        one.dependent = True

    def us(products, count):
        for product in products:
            product()
        torch.cuda.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            for _ in range(-(-count // len(products))):
                for product in products:
                    product()
        g.replay()
        taken = []
        for _ in range(7):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            g.replay()
            end.record()
            torch.cuda.synchronize()
            taken.append(start.elapsed_time(end) * 1000 / (-(-count // len(products)) * len(products)))
        return sorted(taken)[3]

    rows = []
    for m in (1, 16, 64, 256, 2048):
        x = torch.randn(m, layer.K, device="cuda").to(layer.ACT)
        count = 64 if m < 2048 else 16
        ours = us([lambda one=one: one(x) for one in layers], count)
        torchs = us([lambda one=one: torch.nn.functional.linear(x, one) for one in plain], count)
        r = row("export times", folder, layer, first, m, commit, torch, us=round(ours, 2), torch_us=round(torchs, 2), layers=len(layers), result="", differ=0, of=0)
        rows.append(r)
        print(f"{r['name']}: {r['program']} {ours:.1f} µs, torch of {layer.ACT} {torchs:.1f} µs", flush=True)
    return rows


def header(folder, commit):
    """A row of a program that was launched by its C header."""
    import torch

    said = subprocess.run([os.path.join(folder, "header")], capture_output=True, text=True)
    print("by the C header:", said.stdout + said.stderr, flush=True)
    wrong, _, of, *_ = said.stdout.split() or [1, "", 0]
    (path,) = glob.glob(os.path.join(folder, "*.ptx"))
    return {
        "what": "export", "name": f"{os.path.basename(path)[:-4]}, by its C header", "hash": hashlib.sha256(open(path, "rb").read()).hexdigest()[:24],
        "result": "equal" if said.returncode == 0 else "differ", "differ": int(wrong), "of": int(of), "gpu": torch.cuda.get_device_name(), "driver": "",
        "target": "sm_90a", "commit": commit, "utc": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "kind": "", "how": "C header",
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--commit", default="")
    parser.add_argument("-o", "--out", help="write rows to this file")
    parser.add_argument("--one", action="store_true", help="print the rows of one folder")
    parser.add_argument("--times", action="store_true", help="time products, one folder after the other, and nothing else")
    parser.add_argument("--header", metavar="FOLDER", help="run a program by its C header too")
    a = parser.parse_args()
    if a.one:
        rows = (times if a.times else check)(a.folders[0], a.commit)
        print("ROWS " + json.dumps(rows))
        return
    # Modules of several layers have the same names, so that each gets a process.
    def one(folder):
        return subprocess.run([sys.executable, __file__, "--one", "--commit", a.commit, *["--times"] * a.times, folder], capture_output=True, text=True)

    rows, failed = [header(a.header, a.commit)] if a.header else [], False
    for run in concurrent.futures.ThreadPoolExecutor(1 if a.times else 4).map(one, a.folders):
        lines = run.stdout.splitlines()
        print("\n".join(line for line in lines if not line.startswith("ROWS ")))
        if run.returncode:
            print(run.stderr)
            failed = True
        for line in lines:
            if line.startswith("ROWS "):
                rows += json.loads(line[5:])
        if a.out:
            with open(a.out, "w") as f:
                json.dump(rows, f, indent="\t", ensure_ascii=False)
                f.write("\n")
    sys.exit(failed or any(r["differ"] for r in rows))


if __name__ == "__main__":
    main()
