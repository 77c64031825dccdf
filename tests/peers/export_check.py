"""Runs layers that `tilus-lab export --qmm` wrote against torch, on the GPU and without Go.

    tilus-lab export --qmm "u4 zero" --size 8192x8192 -o build/u4
    python3 tests/peers/export_check.py build/* --commit COMMIT -o tests/record/export.json

Each folder has one layer. Random weights are quantised by the module itself, and y is held to what torch makes of the same weights in
float64, called as torch.nn.Module, by torch.compile, as torch.ops.tilus_lab.…, in a CUDA graph, one behind the other and dependent, and, of
the plan decode, as a program through addresses and a stream of the driver. With --times graphs of products by several layers,
one behind the other, are timed beside torch's of plain weights in 16 bits. --header FOLDER also runs FOLDER/header, which is
export_header.c with what `export` wrote there. Needs torch and a GPU.
"""

import argparse
import concurrent.futures
import datetime
import glob
import hashlib
import importlib
import inspect
import json
import os
import subprocess
import sys


def errors(got, want, torch):
    return ((got.double() - want).norm() / want.norm()).item()


def weights(layer, torch):
    """Arguments of Linear but for a factor, the weights that it multiplies with, in float64, and the factor, if there is one."""
    w = torch.randn(layer.N, layer.K, device="cuda") * 0.02
    if min(layer.VALUES) >= 0 and "zeros" not in inspect.signature(layer.Linear).parameters:
        w = w.abs()  # codes without a sign or zero points
    parts = layer.quantized(w)
    tensors = [p for p in parts if hasattr(p, "shape")]
    return tensors, layer.dequantize(*parts), parts[len(tensors) :]


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


def row(what, folder, layer, module, m, commit, torch, **more):
    kind = layer.__doc__.split(", ")[1]
    if hasattr(module, "bias"):
        kind += " bias"
    product = layer.product(m)
    name = "expand" if getattr(product, "expands", False) and module.exact else product.name
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
    rows = []
    for m in (1, 3, 16, 33, 64, 200, 2049):
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
            y.copy_(operator(x, module.packed, module.scales, *([module.zeros] if hasattr(module, "zeros") else []), *([module.bias] if hasattr(module, "bias") else []), *factor, *([module.exact] if hasattr(module, "exact") else []), False))

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
            tensors = [module.packed, module.scales, *([module.zeros] if hasattr(module, "zeros") else []), x, *([module.bias] if hasattr(module, "bias") else []), y, *space]
            torch.cuda.synchronize()
            stream = torch.cuda.Stream()
            program.launch(*[t.data_ptr() for t in tensors], m, layer.N, layer.K, *factor, stream=stream.cuda_stream)
            stream.synchronize()

        ways = [("torch.nn.Module", function), ("torch.compile", compiled), ("torch.ops", op), ("CUDA graph", graph), ("dependent", dependent)]
        if product.name.startswith("decode"):
            ways.append(("addresses on a stream of its own", addresses))
        for how, run in ways:
            y = torch.full((m, layer.N), float("nan"), dtype=layer.ACT, device="cuda")
            torch.cuda.synchronize()
            run(y)
            torch.cuda.synchronize()
            error = min(errors(y, want, torch) for want in wants)
            good = error <= 1.1 * f32
            r = row("export", folder, layer, module, m, commit, torch, result="equal" if good else f"the error is {error:.3g}, that of f32 sums {f32:.3g}",
                differ=0 if good else 1, of=y.numel(), how=how, error=error, error_of_f32=error / f32)  # fmt: skip
            r["name"] += ", " + how
            rows.append(r)
            print(f"{r['name']}: {r['program']}, relative error {error:.2e} against torch in float64, that of f32 sums {f32:.2e}", flush=True)
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
