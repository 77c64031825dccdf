"""Runs layers that `tilus-lab export --qmm` wrote against torch, on the GPU and without Go.

    tilus-lab export --qmm "u4 zero" --size 8192x8192 --rows 1 --cubin -o build/u4
    python3 tests/peers/export_check.py build/* --commit COMMIT -o tests/record/export.json

Each folder has one layer. Random weights are quantised by the module itself, and y is held to what torch makes of the same weights in
float64, called as torch.nn.Module, by torch.compile, as torch.ops.tilus_lab.…, through addresses and a stream of
the driver, and in a CUDA graph. Needs torch and a GPU.
"""

import argparse
import concurrent.futures
import datetime
import glob
import hashlib
import importlib
import json
import os
import subprocess
import sys


def errors(got, want, torch):
    return ((got.double() - want).norm() / want.norm()).item()


def weights(layer, torch):
    """Arguments of Linear but for a factor, the weights that it multiplies with, in float64, and the factor, if there is one."""
    parts = layer.quantized(torch.randn(layer.N, layer.K, device="cuda") * 0.02)
    tensors = [p for p in parts if hasattr(p, "shape")]
    return tensors, layer.dequantize(*parts), parts[len(tensors) :]


def check(folder, commit):
    import torch

    sys.path.insert(0, folder)
    (name,) = [os.path.basename(f)[:-3] for f in glob.glob(os.path.join(folder, "linear_*.py"))]
    layer = importlib.import_module(name)
    decode = layer._decode
    kind = layer.__doc__.split(", ")[1]
    torch.manual_seed(1)
    parts, w, factor = weights(layer, torch)
    module = layer.Linear(*parts, *factor)
    image = open(os.path.join(folder, decode.ENTRY + ".ptx"), "rb").read()
    cubin = os.path.exists(os.path.join(folder, decode.ENTRY + ".cubin"))
    rows = []
    for m in (1, 3, 16, 33):
        x = torch.randn(m, layer.K, device="cuda").to(layer.ACT)
        want = x.double() @ w.T
        f32 = errors((x.float() @ w.float().T).to(layer.ACT), want, torch)
        if torch.backends.cuda.matmul.allow_tf32:
            sys.exit("products of f32 are of tf32")

        def tensors(y):
            # The operator's tensors, in the program's order.
            zeros = [module.zeros] if hasattr(module, "zeros") else []
            space = list(module._space(m, x.device)) if hasattr(module, "_space") else []
            return [module.packed, module.scales, *zeros, x, y, *space, m, layer.N, layer.K, *factor]

        def function(y):
            y.copy_(module(x))

        def operator(y):
            getattr(torch.ops.tilus_lab, decode.ENTRY)(*tensors(y))

        def addresses(y):
            stream = torch.cuda.Stream()
            decode.launch(*[a.data_ptr() if hasattr(a, "data_ptr") else a for a in tensors(y)], stream=stream.cuda_stream)
            stream.synchronize()

        def graph(y):
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                operator(y)
            y.fill_(float("nan"))
            for _ in range(3):
                g.replay()

        def compiled(y):
            y.copy_(torch.compile(module, backend="eager", fullgraph=True)(x))

        for how, run in (("torch.nn.Module", function), ("torch.compile", compiled), ("torch.ops", operator), ("addresses on a stream of its own", addresses), ("CUDA graph", graph)):
            y = torch.full((m, layer.N), float("nan"), dtype=layer.ACT, device="cuda")
            torch.cuda.synchronize()
            run(y)
            torch.cuda.synchronize()
            error = errors(y, want, torch)
            good = error <= 1.1 * f32
            rows.append(
                {
                    "what": "export", "name": f"{kind}, {layer.N}×{layer.K}, {m} rows, {how}", "hash": hashlib.sha256(image).hexdigest()[:24],
                    "result": "equal" if good else f"the error is {error:.3g}, that of f32 sums {f32:.3g}", "differ": 0 if good else 1, "of": y.numel(),
                    "gpu": torch.cuda.get_device_name(), "driver": f"torch {torch.__version__}", "target": "sm_90a", "commit": commit,
                    "utc": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "kind": kind, "m": m, "n": layer.N, "k": layer.K, "how": how, "error": error, "error_of_f32": error / f32, "cubin": cubin,
                }
            )  # fmt: skip
            print(f"{rows[-1]['name']}: relative error {error:.2e} against torch in float64, that of f32 sums {f32:.2e}{', from machine code' if cubin else ''}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--commit", default="")
    parser.add_argument("-o", "--out", help="write rows to this file")
    parser.add_argument("--one", action="store_true", help="print the rows of one folder")
    a = parser.parse_args()
    if a.one:
        rows = check(a.folders[0], a.commit)
        print("ROWS " + json.dumps(rows))
        return
    # Modules of several layers have the same names, so that each gets a process.
    def one(folder):
        return subprocess.run([sys.executable, __file__, "--one", "--commit", a.commit, folder], capture_output=True, text=True)

    rows, failed = [], False
    for run in concurrent.futures.ThreadPoolExecutor(4).map(one, a.folders):
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
